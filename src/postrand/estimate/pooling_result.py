"""What pooling returns: estimates, intervals, what the copies say about them, joint tests, and warnings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.errors import UsageError, nearest, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array
from postrand.estimate.pooling_rules import Combined, copies_for, joint_test, upper_f
from postrand.estimate.pooling_scale import Scale
from postrand.estimate.result import MAX_PRINTED, format_rows
from postrand.support.showing import few, show_whole

UNSTEADY = 0.1
"""A standard error whose coefficient of variation over other draws of the copies is larger gives a warning."""
STEADY = 0.05
"""The coefficient of variation that the warning names the number of copies for."""


@dataclass(frozen=True, slots=True)
class JointTest:
    """Hold a test of several numbers at once: F with ``numbers`` and ``freedom`` degrees of freedom.

    ``increase`` is the relative increase r of the variance by what is not known of the true file, averaged over them.
    """

    statistic: float
    numbers: int
    freedom: float
    p_value: float
    increase: float
    method: str

    @classmethod
    def of(cls, statistic: float, numbers: int, freedom: float, increase: float, method: str) -> JointTest:
        """Return the test with its p-value."""
        return cls(statistic, numbers, freedom, upper_f(statistic, numbers, freedom), increase, method)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; degrees of freedom that are infinite are None."""
        found = dataclasses.asdict(self)
        return found | {"freedom": tidy.plain(np.array(self.freedom))}

    def to_arrow(self) -> pa.Table:
        """Return one row: ``term`` (the method), ``statistic``, ``numbers``, ``freedom``, ``p_value``, ``increase``."""
        found = dataclasses.asdict(self)
        return tidy.by_term([found.pop("method")], {name: np.array(x) for name, x in found.items()})

    _repr_pretty_ = show_whole

    def __str__(self) -> str:
        against = f"F {self.statistic:.5g} on {self.numbers} and {self.freedom:.4g} degrees of freedom"
        return f"{self.method}: {against}, p-value {self.p_value:.4g}"


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Hold estimates (P,) pooled over m completed copies by Rubin's rules.

    ``rules`` has them on the scale of pooling, with what the rules say; ``scales`` leads back. ``within`` and
    ``between`` are the covariances W and B (P, P) on that scale, None where no analysis gave covariances. ``variance``
    says in words where the variance within a copy comes from, and is empty where there is none: then there are no
    intervals. ``unfinished`` is the number of copies in which the fit did not converge.

    Examples
    --------
    >>> from postrand.estimate import pool
    >>> print(pool(lambda share: (share, 0.001), [0.30, 0.34, 0.29]))
              estimate  std. error     [95%  interval]     df  missing
    estimate      0.31     0.04397  0.20979    0.41021  8.582    0.572
    Pooled over 3 copies by Rubin's rules; variance within a copy: as the analysis gave it.
    Warning: ...
    """

    names: tuple[str, ...]
    rules: Combined
    scales: tuple[Scale, ...]
    within: Array | None
    between: Array | None
    variance: str
    unfinished: int = 0

    @property
    def copies(self) -> int:
        """The number m of copies."""
        return self.rules.copies

    @property
    def value(self) -> Array:
        """The pooled estimates: their means, taken back from the scale of pooling."""
        return self._back(self.rules.value)

    @property
    def covariance(self) -> Array:
        """The covariance ``W + (1 + 1/m) B`` (P, P) on the scale of pooling.

        Raises
        ------
        UsageError
            If the analysis gave no covariances.
        """
        within, between = self._covariances()
        return np.asarray(within + (1 + 1 / self.copies) * between)

    @property
    def standard_error(self) -> Array:
        """The square root of T, taken to the estimates' own scale by the delta method.

        Without a variance within copies it holds the differences between copies only.
        """
        slope = [s.slope(v) for s, v in zip(self.scales, self.value, strict=True)]
        return np.asarray(self.rules.standard_error / np.array(slope))

    @property
    def degrees_of_freedom(self) -> Array:
        """Barnard and Rubin's degrees of freedom of each estimate."""
        return self.rules.freedom

    @property
    def missing_information(self) -> Array:
        """The fraction of missing information of each estimate, NaN without a variance within copies."""
        return np.where(bool(self.variance), self.rules.missing, np.nan)

    @property
    def missing_information_error(self) -> Array:
        """Its simulation error: its standard error over other draws of the copies."""
        return np.where(bool(self.variance), self.rules.missing_error, np.nan)

    @property
    def p_value(self) -> Array:
        """Two-sided p-values: of the value 0 on the scale of pooling (log: 1 on the estimate's own; logit: 1/2)."""
        return np.where(bool(self.variance), self.rules.p_value(), np.nan)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of the intervals; NaN without a variance within copies.

        Raises
        ------
        UsageError
            If ``level`` is not between 0 and 1.
        """
        low, high = self.rules.bounds(level)
        if not self.variance:
            return np.full_like(low, np.nan), np.full_like(high, np.nan)
        return self._back(low), self._back(high)

    def copies_needed(self, precision: float = STEADY) -> int:
        """Return how many copies make every standard error reproducible to ``precision``, relative to itself."""
        return copies_for(float(self.rules.missing.max()), precision)

    def joint_test(self, names: Sequence[str] | None = None, null: float = 0.0) -> JointTest:
        """Test that all of the named estimates (by default all) are ``null``: D1 of Li, Raghunathan and Rubin.

        It assumes that the fraction of missing information is about the same for all of them; where it is not, the
        level stays near the nominal one and power is lost.

        Raises
        ------
        UsageError
            If a name is unknown or stands twice, or the analysis gave no covariances.
        EstimationError
            If some of the numbers are functions of the others.
        """
        places = self._places(self.names if names is None else names)
        within, between = self._covariances()
        zero = np.array([float(self.scales[p].to(np.array(null))) for p in places])
        chosen = np.ix_(places, places)
        complete = float(self.rules.complete[places].min())
        gap = self.rules.value[places] - zero
        statistic, (increase, freedom) = joint_test(gap, within[chosen], between[chosen], self.copies, complete)
        return JointTest.of(statistic, len(places), freedom, increase, "joint Wald test (D1)")

    def combination(self, **weights: Mapping[str, float]) -> Pooled:
        """Return weighted sums of the estimates, named by the keywords, with degrees of freedom of their own.

        ``pooled.combination(gap={"women": 1, "men": -1})``.

        Raises
        ------
        UsageError
            If a name is unknown, the estimates are pooled on another scale than their own, or there are no covariances.
        """
        if any(scale.name != "identity" for scale in self.scales):
            what = "weighted sums of estimates that are pooled on another scale"
            raise UsageError(sentence(what, fix="compute the sum in the analysis"))
        within, between = self._covariances()
        matrix = np.zeros((len(weights), len(self.names)))
        complete = np.empty(len(weights))
        for row, parts in enumerate(weights.values()):
            places = self._places(list(parts))
            matrix[row, places] = list(parts.values())
            complete[row] = self.rules.complete[places].min()
        within, between = matrix @ within @ matrix.T, matrix @ between @ matrix.T
        value = matrix @ self.rules.value
        rules = Combined(self.copies, value, np.diag(within), np.diag(between), complete)
        scales = (self.scales[0],) * len(weights)
        return dataclasses.replace(
            self, names=tuple(weights), rules=rules, scales=scales, within=within, between=between
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing to know before the numbers are used."""
        found = []
        if self.unfinished:
            found.append(f"The fit did not converge in {self.unfinished} of {self.copies} copies.")
        if not self.variance:
            found.append(
                "The standard error contains the differences between the copies only, not the sampling of the records: "
                "there are no intervals. Let the analysis return a variance, or ask for variance='bootstrap'."
            )
            return tuple(found)
        unsteady = self.rules.error_of_error > UNSTEADY
        if unsteady.any():
            names = few([name for name, bad in zip(self.names, unsteady, strict=True) if bad], 5)
            found.append(
                f"With {self.copies} copies the standard error itself varies by "
                f"{100 * self.rules.error_of_error.max():.0f}% from one drawing of the copies to the next ({names}). "
                f"With {self.copies_needed():,} copies it varies by {100 * STEADY:.0f}%."
            )
        return tuple(found)

    @property
    def includes(self) -> str:
        """One sentence: what was pooled and how."""
        text = f"pooled over {self.copies} copies by Rubin's rules"
        scales = sorted({scale.name for scale in self.scales} - {"identity"})
        if scales:
            text += f", on the scale {' and '.join(scales)}"
        return text + (f"; variance within a copy: {self.variance}" if self.variance else "; no variance within a copy")

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """Return one row for each estimate.

        ``term``, ``estimate``, ``standard_error``, ``lower``, ``upper``, ``p_value``, ``degrees_of_freedom``,
        ``missing_information``, ``missing_information_error``.
        """
        return tidy.by_term(self.names, self._numbers(level))

    def to_pandas(self, level: float = 0.95) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow(level))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return plain data for JSON; a number that is not finite is None."""
        numbers = {name: tidy.plain(array) for name, array in self._numbers(level).items()}
        return {
            "terms": list(self.names),
            **numbers,
            "level": level,
            "copies": self.copies,
            "scales": [scale.name for scale in self.scales],
            "includes": self.includes,
            "warnings": list(self.warnings),
        }

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        return f"Pooled({len(self.names):,} estimates from {self.copies} copies: {few(self.names, 4)})"

    def __str__(self) -> str:
        low, high = self.interval()
        columns = (self.value, self.standard_error, low, high)
        freedom, missing = self.degrees_of_freedom, self.missing_information
        rows = [
            [name, *(f"{c[i]:.5g}" for c in columns), _short(freedom[i]), f"{missing[i]:.3f}"]
            for i, name in enumerate(self.names[:MAX_PRINTED])
        ]
        lines = format_rows(["", "estimate", "std. error", "[95%", "interval]", "df", "missing"], rows, left=1)
        if len(self.names) > MAX_PRINTED:
            lines.append(f"... {len(self.names) - MAX_PRINTED:,} more estimates")
        lines.append(self.includes[0].upper() + self.includes[1:] + ".")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    def _numbers(self, level: float) -> dict[str, Array]:
        low, high = self.interval(level)
        return {
            "estimate": self.value,
            "standard_error": self.standard_error,
            "lower": low,
            "upper": high,
            "p_value": self.p_value,
            "degrees_of_freedom": self.degrees_of_freedom,
            "missing_information": self.missing_information,
            "missing_information_error": self.missing_information_error,
        }

    def _back(self, numbers: Array) -> Array:
        return np.array([float(s.back(x)) for s, x in zip(self.scales, numbers, strict=True)])

    def _covariances(self) -> tuple[Array, Array]:
        if self.within is None or self.between is None:
            what = "the analysis gave no covariances between its estimates"
            raise UsageError(sentence(what, fix="let it return (estimates, covariance matrix)"))
        return self.within, self.between

    def _places(self, names: Sequence[str]) -> list[int]:
        unknown = [name for name in names if name not in self.names]
        if isinstance(names, str) or unknown or not names or len(set(names)) < len(names):
            hint = nearest(unknown[0], self.names) if unknown else ""
            raise UsageError(sentence(f"not names of estimates{hint}", got=names, wanted=few(self.names)))
        return [self.names.index(name) for name in names]


def _short(freedom: float) -> str:
    """Return degrees of freedom in a column: four digits, and infinite ones as a word."""
    return "inf" if math.isinf(freedom) else f"{freedom:.4g}"
