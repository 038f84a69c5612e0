"""What a regression returns: coefficients, intervals, tests of what was assumed, and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.errors import EstimationError, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array
from postrand.estimate.regression_data import FamilyName
from postrand.estimate.regression_intervals import Pivot
from postrand.estimate.result import OF_WORKLOAD, SHOWING, Part, counted, errors_include, format_rows
from postrand.support.showing import show_whole

MEANINGLESS = 10.0
"""A log odds or log rate whose 95% interval is wider than this to both sides says nothing: a factor of 22,000."""
SCORE_TEST = "P>|z| is from the score test that the intervals invert, not from z: the two can differ."
SIZE = 0.01
"""A specification test with a smaller p-value is a warning."""


@dataclass(frozen=True, slots=True)
class SpecificationTest:
    """Hold one test of what a likelihood assumes: a chi-squared ``statistic`` on ``freedom`` degrees of freedom."""

    name: str
    statistic: float
    freedom: int
    p_value: float

    @property
    def rejected(self) -> bool:
        """Whether the p-value is below 0.01."""
        return self.p_value < SIZE

    def __str__(self) -> str:
        degrees = f"{self.freedom} degree{'s' * (self.freedom != 1)} of freedom"
        return f"Test, {self.name}: chi-squared {self.statistic:.4g} on {degrees}, p-value {self.p_value:.4g}"


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Hold a fitted regression: ``value`` (P,) and ``covariance`` (P, P) of the named coefficients.

    ``pivot`` holds what intervals and p-values are made of; ``tests`` those of the family, ``notes``
    what could not be tested, for ``method="likelihood"``;
    ``log_likelihood`` is None for ``method="equations"``; ``design`` says what the survey design is, if there is one.
    ``perturbation`` (P, P) is then the part of the covariance that perturbing the records causes, None where it is not
    known. ``modelled`` says of which category a logistic regression models the probability, and with which one a
    multinomial regression compares the others; empty for other families. A record is left out, and counted in
    ``dropped``, beside ``records``, where one of the variables ``used`` is missing, or the response is ``unanswered``.
    """

    formula: str
    family: FamilyName
    names: tuple[str, ...]
    value: Array
    covariance: Array
    pivot: Pivot
    log_likelihood: float | None
    records: int
    dropped: int
    perturbed: tuple[str, ...]
    method: str
    tests: tuple[SpecificationTest, ...] = ()
    notes: tuple[str, ...] = ()
    design: str = ""
    perturbation: Array | None = None
    modelled: str = ""
    used: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()

    @property
    def standard_error(self) -> Array:
        """The square root of the covariance's diagonal; perturbation included."""
        return np.sqrt(np.diag(self.covariance))

    def standard_error_of(self, part: Part) -> Array:
        """Return the standard error of one part: ``total``, ``sampling`` or ``perturbation``.

        Raises
        ------
        EstimationError
            If the parts are not known: without a survey design, of a split, of a perturbed number as the response.
        """
        if part == "total":
            return self.standard_error
        if self.perturbation is None:
            what = "the covariance of this regression is not divided into sampling and perturbation"
            raise EstimationError(sentence(what, fix="use the total, or give a survey design"))
        found = self.perturbation if part == "perturbation" else self.covariance - self.perturbation
        return np.sqrt(np.maximum(np.diag(found), 0.0))

    @property
    def p_value(self) -> Array:
        """Two-sided p-values of the coefficients, from the test that the intervals invert."""
        return self.pivot.p_value(self.value)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the coefficients' confidence intervals, shapes (P,).

        The interval of ``method="equations"`` is not symmetric, and is (−inf, inf) where the release says nothing
        about a coefficient.

        Raises
        ------
        UsageError
            If ``level`` is not between 0 and 1.
        """
        tidy.check_level(level)
        return self.pivot.bounds(self.value, level)

    @property
    def silent(self) -> tuple[bool, ...]:
        """Whether each coefficient's 95% interval says nothing: it is unbounded, or wider than a factor of e^10."""
        low, high = self.interval()
        wide = np.minimum(self.value - low, high - self.value) > MEANINGLESS
        return tuple((~np.isfinite(high - low) | (wide & (self.family != "linear"))).tolist())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before a number is used; empty where nothing is wrong."""
        found = []
        names = [name for name, silent in zip(self.names, self.silent, strict=True) if silent]
        if names:
            found.append(
                f"The release has no information about {', '.join(names)}: the interval is unbounded or too wide to "
                f"use. {self._cure}"
            )
        found += [
            f"{test.name} rejects the assumptions of the likelihood (p-value {test.p_value:.2g}, "
            f"below {SIZE:g}). Use the method equations."
            for test in self.tests
            if test.rejected
        ]
        return (*found, *self.notes)

    @property
    def _cure(self) -> str:
        """What to do about a coefficient of which the release has no information."""
        if SHOWING not in self.method:
            return "Merge categories, or leave the term out."
        return (
            f"{self.records:,} records show all variables of the model. Use fewer of them, or ask for {OF_WORKLOAD}, "
            "which more records then show."
        )

    @property
    def includes(self) -> str:
        """One sentence: what was fitted and what the standard errors include."""
        text = counted(self.records, self.dropped, self.used, self.unanswered)
        return f"{self.method}; {text}; {errors_include(self.perturbed, self.design)}"

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """Return one row for each coefficient: ``term``, ``estimate``, ``standard_error``, ``lower``, ``upper``.

        ``p_value`` and ``warning`` follow; ``warning`` is null where nothing is wrong with the coefficient.
        """
        low, high = self.interval(level)
        numbers = {"estimate": self.value, "standard_error": self.standard_error, "lower": low, "upper": high}
        flags = ["the release has no information about this coefficient" if s else None for s in self.silent]
        found = tidy.by_term(self.names, numbers | {"p_value": self.p_value})
        return found.append_column("warning", pa.array(flags, pa.string()))

    def to_pandas(self, level: float = 0.95) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow(level))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return plain data for JSON; an end of an interval that is not finite is None."""
        low, high = self.interval(level)
        return {
            "formula": self.formula,
            "family": self.family,
            "modelled": self.modelled,
            "terms": list(self.names),
            "estimate": self.value.tolist(),
            "standard_error": self.standard_error.tolist(),
            "p_value": self.p_value.tolist(),
            "lower": tidy.plain(low),
            "upper": tidy.plain(high),
            "level": level,
            "records": self.records,
            "dropped": self.dropped,
            "includes": self.includes,
            "log_likelihood": self.log_likelihood,
            "tests": [
                {"name": t.name, "statistic": t.statistic, "freedom": t.freedom, "p_value": t.p_value}
                for t in self.tests
            ],
            "warnings": list(self.warnings),
        }

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        size = f"{len(self.names)} coefficients from {self.records:,} records"
        return f"Regression({self.formula}: {size}; {self.family}, {self.method})"

    def __str__(self) -> str:
        low, high = self.interval()
        z = self.value / self.standard_error
        nothing = np.isneginf(low) & np.isposinf(high)  # no test says anything of such a coefficient
        z, p = (np.where(nothing, np.nan, column) for column in (z, self.p_value))
        columns = (self.value, self.standard_error, z, p, low, high)
        digits = (4, 4, 3, 3, 3, 3)
        rows = [
            [name, *("–" if np.isnan(c[i]) else f"{c[i]:.{d}f}" for c, d in zip(columns, digits, strict=True))]
            for i, name in enumerate(self.names)
        ]
        lines = format_rows(["", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]"], rows, left=1)
        rule = "=" * max(len(line) for line in lines)
        held = f"; perturbed: {', '.join(self.perturbed)}" if self.perturbed else ""
        likelihood = "" if self.log_likelihood is None else f"; log-likelihood {self.log_likelihood:.6g}"
        head = [
            f"{self.family.capitalize()} regression: {self.formula}",
            *([f"modelled: {self.modelled}"] if self.modelled else []),
            counted(self.records, self.dropped, self.used, self.unanswered) + held,
            f"{self.method}{likelihood}" + (f"; survey design of {self.design}" if self.design else ""),
        ]
        foot = [
            *([] if self.pivot.is_wald else [SCORE_TEST]),
            *map(str, self.tests),
            *(f"Warning: {text}" for text in self.warnings),
        ]
        return "\n".join([*head, rule, lines[0], "-" * len(rule), *lines[1:], rule, *foot])
