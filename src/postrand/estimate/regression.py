"""Regression from a release: some covariates, or the response, are known only through the mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from postrand.errors import UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.latent import solve
from postrand.estimate.regression_data import FamilyName, problem_of, read
from postrand.estimate.result import format_rows
from postrand.mechanism import Mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Hold a fitted regression: ``value`` (P,) and ``covariance`` (P, P) of the named coefficients."""

    formula: str
    family: FamilyName
    names: tuple[str, ...]
    value: Array
    covariance: Array
    log_likelihood: float
    records: int
    dropped: int
    perturbed: tuple[str, ...]
    method: str

    @property
    def standard_error(self) -> Array:
        """The square root of the covariance's diagonal; perturbation included."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def p_value(self) -> Array:
        """Two-sided normal p-values of the coefficients."""
        return np.asarray(2 * stats.norm.sf(np.abs(self.value / self.standard_error)))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the coefficients' confidence intervals."""
        if not 0 < level < 1:
            raise UsageError(sentence("the level is not a probability", got=level, wanted="0 < level < 1"))
        half = stats.norm.isf((1 - level) / 2) * self.standard_error
        return self.value - half, self.value + half

    def to_arrow(self) -> pa.Table:
        """Return one row for each coefficient."""
        low, high = self.interval()
        numbers = {
            "coef": self.value,
            "std_err": self.standard_error,
            "p_value": self.p_value,
            "lower": low,
            "upper": high,
        }
        return pa.table({"term": list(self.names)} | {name: pa.array(array) for name, array in numbers.items()})

    def __str__(self) -> str:
        low, high = self.interval()
        z = self.value / self.standard_error
        columns = (self.value, self.standard_error, z, self.p_value, low, high)
        digits = (4, 4, 3, 3, 3, 3)
        rows = [
            [name, *(f"{c[i]:.{d}f}" for c, d in zip(columns, digits, strict=True))]
            for i, name in enumerate(self.names)
        ]
        lines = format_rows(["", "coef", "std err", "z", "P>|z|", "[0.025", "0.975]"], rows, left=1)
        rule = "=" * max(len(line) for line in lines)
        held = f"; perturbed: {', '.join(self.perturbed)}" if self.perturbed else ""
        missing = f", {self.dropped:,} left out (missing)" if self.dropped else ""
        head = [
            f"{self.family.capitalize()} regression: {self.formula}",
            f"{self.records:,} records{missing}{held}",
            f"{self.method}; log-likelihood {self.log_likelihood:.6g}",
        ]
        return "\n".join([*head, rule, lines[0], "-" * len(rule), *lines[1:], rule])


def regression(
    formula: str,
    frame: Any,
    mechanism: Mechanism,
    family: FamilyName,
    weights: str | None = None,
    *,
    groups: Sequence[str] | None = None,
    bins: int = 5,
    tolerance: float = 1e-6,
    max_steps: int = 6_000,
) -> Regression:
    """Fit a regression on true values to released ones, by EM over the true categories.

    ``formula`` is in Wilkinson notation, ``"affair ~ C(education) + age"``; variables that the mechanism perturbs may
    stand on either side. A variable whose categories are numbers enters as a number, or by category inside ``C()``.
    The response of a logistic regression is the second of two categories, or 1 of 0 and 1; that of a multinomial one is
    compared with its first category.

    The law of the true covariates is left free within each group of clear covariates: by default every combination
    of the clear categorical ones, and numeric ones cut into ``bins`` at their quantiles. Within a group the perturbed
    covariates are taken as independent of the exact number. Name the columns in ``groups`` to choose others.

    The covariance is the inverse observed information (Louis), the law of the covariates profiled out; with weights
    it has the sandwich form. ``tolerance`` bounds the Newton decrement: 1e-6 is a distance to the
    maximum of 0.001 standard errors.

    Raises
    ------
    UsageError
        If the formula cannot be read, or names no response or an unknown family.
    DataError
        If a column is missing, or the data do not fit the mechanism or the family.
    EstimationError
        If the response is separated, the coefficients are not identified, or EM does not converge.

    References
    ----------
    Dempster, Laird & Rubin (1977); Louis (1982); van den Hout & Kooiman (2006) for logistic regression under PRAM.
    """
    data = read(formula, frame, mechanism, family, weights, groups)
    problem, names = problem_of(data, bins)
    found = solve(problem, tolerance, max_steps)
    return Regression(
        formula=formula,
        family=family,
        names=names,
        value=found.theta,
        covariance=found.covariance,
        log_likelihood=found.likelihood,
        records=data.table.num_rows,
        dropped=data.dropped,
        perturbed=tuple(n for n in data.names if n in mechanism.variables),
        method=f"EM over the true categories ({found.steps} steps, Newton decrement below {tolerance:g})",
    )
