"""What an estimator returns: values, their covariance and what it includes, and how they print."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from postrand.errors import EstimationError, UsageError, nearest, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array
from postrand.support.showing import digits, show_whole, unshown

WHOLE = "the whole population"
"""What a survey design is called in which every unit was drawn."""

Part = Literal["total", "sampling", "perturbation"]
MAX_PRINTED = 40
MAX_NAMED = 5

BLANK = 0.9
"""An interval this long, the range of all possible values being 1, says nothing."""

_NORMAL = NormalDist().inv_cdf(0.975)
LOPSIDED = 1.5
"""An end of the interval this many times as far from the value as the normal law has it: rare cells, seen by chance."""


class Law(Protocol):
    """The sampling law of an estimate: how its covariance is obtained, in C order of the table."""

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance, shape (L, L)."""

    def variance(self, part: Part) -> Array:
        """Return its diagonal, shape (L,)."""

    def margin(self, keep: Sequence[int]) -> Law:
        """Return the law of the table summed over all axes but ``keep``, in that order."""

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of an interval for each cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Hold an estimated table of true proportions.

    ``value`` has one axis for each variable, categories in codebook order; ``covariance``, ``sampling`` and
    ``perturbation`` are (L, L) matrices over its cells in C order. ``covariance`` is the sum of the two parts: the
    variation of drawing the records, and that of perturbing them. Unbiased values may lie outside [0, 1]: clipping
    would bias them (``estimate.maximum_likelihood`` never leaves the simplex). ``span`` is the length of the range of
    all possible values, 1 for shares of the whole; ``reach`` is that of a mean, or of a share of a group; None where
    there is none. ``notes`` are warnings about what was asked. A record is left out, and counted in ``dropped``, beside
    ``records``, where one of the variables ``used`` is missing, or one of those ``unanswered`` is a category that means
    no answer.
    """

    variables: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    value: Array
    law: Law
    records: int
    total: float
    dropped: int
    method: str
    perturbed: tuple[str, ...]
    span: float | Array | None = None
    reach: float | Array | None = None
    notes: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()

    @property
    def covariance(self) -> Array:
        """Sampling and perturbation together, shape (L, L); EstimationError where the table is too large for it."""
        return self.law.covariance("total")

    @property
    def sampling(self) -> Array:
        """The part of the covariance that drawing the records causes, shape (L, L)."""
        return self.law.covariance("sampling")

    @property
    def perturbation(self) -> Array:
        """The part that perturbing causes, the records held fixed, shape (L, L): unbiased, so perhaps not definite."""
        return self.law.covariance("perturbation")

    @property
    def standard_error(self) -> Array:
        """The square root of the covariance's diagonal, in the shape of ``value``; available at every size."""
        return self.standard_error_of("total")

    def standard_error_of(self, part: Part) -> Array:
        """Return the standard error of one part: ``total``, ``sampling`` or ``perturbation``."""
        return np.sqrt(np.maximum(self.law.variance(part), 0.0)).reshape(self.value.shape)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and upper ends of a confidence interval for each cell, in the shape of ``value``.

        Of unbiased shares: the values that the score test does not reject, or the exact test where few records are
        expected (``estimate.intervals``). Like the value they may leave [0, 1], and may be cut to it: no coverage is
        lost. Of ``estimate.maximum_likelihood``: within [0, 1].

        Raises
        ------
        UsageError
            If ``level`` is not between 0 and 1.
        """
        tidy.check_level(level)
        return self.law.bounds(self.value, level)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each thing to know before the numbers are used; shown wherever the estimate is.

        What the estimator's own law says comes first. A cell is named when its 95% interval is at least 0.9 times as
        long as the range of all possible values (for shares [0, 1]): as long as if there were three or four unperturbed
        records. Cells of perturbed shares are counted in which ± 2 standard errors covers too little: an end of the
        interval is 1.5 times as far away as they are, or no possible share is between them.
        """
        said = (*self.notes, *getattr(self.law, "warnings", ()))
        if self._range is None:
            return said
        said += self._of_errors(*self.interval())
        blank = np.flatnonzero(self._blank)
        if not blank.size:
            return said
        whole = blank.size == self.value.size and blank.size > MAX_NAMED
        which = f": all {blank.size:,} cells" if whole else f": {self._named(blank)}" if self.variables else ""
        fix = "merge categories, use fewer variables"
        fix += ", or ask for a release with a larger ε" if self.perturbed else ", or more records"
        return (
            *said,
            f"The 95% interval is almost as wide as all possible values{which}. Do not use these numbers: {fix}.",
        )

    @property
    def _range(self) -> float | Array | None:
        return self.reach if self.span is None else self.span

    @property
    def _blank(self) -> NDArray[np.bool_]:
        """Which cells, shape (L,), have an interval that says nothing; the law itself tells of groups without one."""
        low, high = self.interval()
        span = np.broadcast_to(np.inf if self._range is None else self._range, self.value.shape).ravel()
        length = (high - low).ravel()
        held = np.isfinite(length) if self.span is None else np.ones(length.shape, dtype=bool)
        return np.asarray(held & (length >= BLANK * span) & (span > 0))

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which cells have a 95% interval that has two ends and says something, in the shape of ``value``."""
        low, high = self.interval()
        return np.isfinite(high - low) & ~self._blank.reshape(self.value.shape)

    def _of_errors(self, low: Array, high: Array) -> tuple[str, ...]:
        """Return in how many cells of perturbed shares, or counts, ± 2 standard errors covers too little."""
        span = self._range
        if not self.perturbed or not isinstance(span, float):
            return ()
        freedom = self.degrees_of_freedom
        half = (
            float(scipy.special.stdtrit(freedom, 0.975)) if math.isfinite(freedom) else _NORMAL
        ) * self.standard_error
        reach = np.maximum(high - self.value, self.value - low)
        few = np.isfinite(reach) & (reach > 0) & (reach >= LOPSIDED * half)
        few |= (self.value + half < 0) | (self.value - half > span)
        cells = int(few.sum())
        if not cells:
            return ()
        return (f"Use the intervals: ± 2 standard errors covers too little in {cells:,} of {few.size:,} cells.",)

    def _named(self, cells: NDArray[np.intp]) -> str:
        """Return the labels of the first few cells, and how many others there are."""
        rest = unshown(cells.size, MAX_NAMED)
        places = np.unravel_index(cells[: cells.size - rest], self.value.shape)
        names = [
            " / ".join(texts[i] for texts, i in zip(self.labels, place, strict=True))
            for place in zip(*(p.tolist() for p in places), strict=True)
        ]
        return ", ".join(names) + (f" and {rest:,} more" if rest else "")

    @property
    def effective_sample_size(self) -> float:
        """The number m of unperturbed records, drawn simply at random, that would answer the table as precisely.

        ``n/(n − 1) (1 − Σπ²) / m``, the summed variance of such a sample, equals this estimate's of n records; for π
        negative values are set to 0 and the rest rescaled. It can be less than 1.

        Raises
        ------
        UsageError
            If the estimate is not a table that adds up to the whole.
        """
        if not np.isclose(self.value.sum(), 1.0) and not np.isclose(self.value.sum(), self.total):
            raise UsageError(
                sentence(
                    "only a whole table has an effective sample size", got="the quantities are not shares of one total"
                )
            )
        mass = np.maximum(self.value, 0.0)
        mass = mass / mass.sum()
        noise = float(self.law.variance("total").sum()) / float(self.value.sum()) ** 2
        spread = float(1.0 - (mass * mass).sum()) * self.records / max(self.records - 1, 1)
        return spread / noise if noise > 0 else float(self.records)

    @property
    def degrees_of_freedom(self) -> float:
        """The degrees of freedom of the variance by a survey design; infinite without one."""
        return float(getattr(self.law, "freedom", math.inf))

    @property
    def design_effect(self) -> Array:
        """The variance of drawing the records over that of as many drawn simply at random, in the shape of ``value``.

        Both are estimated without the perturbation, which no design changes; NaN where the latter is not known.

        Raises
        ------
        UsageError
            If the estimate was made without a survey design.
        """
        effect = getattr(self.law, "effect", None)
        if effect is None:
            fix = "give design=SurveyDesign(...) to the estimator"
            raise UsageError(sentence("without a survey design there is no design effect", fix=fix))
        return np.asarray(effect).reshape(self.value.shape)

    def counts(self) -> Estimate:
        """Return the same table on the scale of counts: multiplied by the number of records, or sum of weights.

        Raises
        ------
        UsageError
            If the estimate is not of shares: a mean times the number of records is nothing.
        """
        if self.span is None:
            raise UsageError(sentence("only shares have counts", got=self.method, fix="ask for estimate.total"))
        law, span = _Scaled(self.law, self.total), self.span * self.total
        method = self.method.replace("shares", "counts", 1)
        return dataclasses.replace(self, value=self.value * self.total, law=law, span=span, method=method)

    def margin(self, variables: Sequence[str]) -> Estimate:
        """Return the table of some of the variables, the others summed out, with its own covariance.

        Raises
        ------
        UsageError
            If a variable is not in the table or is named twice.
        """
        unknown = [n for n in variables if n not in self.variables]
        if isinstance(variables, str) or unknown or not variables or len(set(variables)) != len(variables):
            hint = nearest(unknown[0], self.variables) if unknown else ""
            raise UsageError(
                sentence(f"not variables of the table{hint}", got=variables, wanted=", ".join(self.variables))
            )
        keep = [self.variables.index(n) for n in variables]
        rest = tuple(i for i in range(len(self.variables)) if i not in keep)
        value = self.value.sum(axis=rest).transpose(np.argsort(np.argsort(keep)))
        return dataclasses.replace(
            self,
            value=value,
            law=self.law.margin(keep),
            variables=tuple(variables),
            labels=tuple(self.labels[i] for i in keep),
            perturbed=tuple(n for n in variables if n in self.perturbed),
        )

    @property
    def includes(self) -> str:
        """One sentence: what was counted and what the standard errors include."""
        text = counted(self.records, self.dropped, self.used or self.variables, self.unanswered)
        return f"{self.method}; {text}; {errors_include(self.perturbed, getattr(self.law, 'about', ''))}"

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """Return one row for each cell: the labels, ``estimate``, ``standard_error``, ``lower``, ``upper``."""
        low, high = self.interval(level)
        numbers = {"estimate": self.value, "standard_error": self.standard_error, "lower": low, "upper": high}
        return tidy.by_cell(self.variables, self.labels, numbers)

    def to_pandas(self, level: float = 0.95) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow(level))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return plain data for JSON; a number that is not finite is None (an interval without an end)."""
        low, high = self.interval(level)
        return {
            "variables": list(self.variables),
            "labels": [list(texts) for texts in self.labels],
            "estimate": tidy.plain(self.value),
            "standard_error": tidy.plain(self.standard_error),
            "lower": tidy.plain(low),
            "upper": tidy.plain(high),
            "level": level,
            "records": self.records,
            "dropped": self.dropped,
            "includes": self.includes,
            "warnings": list(self.warnings),
        } | self._of_design()

    def _of_design(self) -> dict[str, Any]:
        """Return what a survey design adds to plain data; nothing without one."""
        if not math.isfinite(self.degrees_of_freedom):
            return {}
        try:
            sampling, noise = (self.standard_error_of(part) for part in ("sampling", "perturbation"))
        except EstimationError:  # the parts of a split are not known
            sampling = noise = effect = np.full(self.value.shape, np.nan)
        else:
            effect = self.design_effect
        found = {"sampling_error": sampling, "perturbation_error": noise, "design_effect": effect}
        return {"degrees_of_freedom": self.degrees_of_freedom} | {n: tidy.plain(x) for n, x in found.items()}

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        held = f"{' × '.join(self.variables)}: {self.value.size:,} values" if self.variables else "one value"
        return f"Estimate({held} from {self.records:,} records; {self.method})"

    def __str__(self) -> str:
        low, high = self.interval()
        columns = (self.value.ravel(), self.standard_error.ravel(), low.ravel(), high.ravel())
        head = [*self.variables, "estimate", "std. error", "[95%", "interval]"]
        cells = itertools.islice(itertools.product(*self.labels), MAX_PRINTED)
        rows = [[*texts, *(digits(c[i]) for c in columns)] for i, texts in enumerate(cells)]
        lines = format_rows(head, rows, left=len(self.variables))
        if self.value.size > MAX_PRINTED:
            lines.append(f"... {self.value.size - MAX_PRINTED:,} more cells")
        lines.append(self.includes[0].upper() + self.includes[1:] + ".")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def effective_records(estimates: Sequence[Estimate]) -> float:
    """Return how many unperturbed records, drawn simply at random, would answer several tables as precisely.

    The harmonic mean of :attr:`Estimate.effective_sample_size`, as a design of a split states it before the release.

    Raises
    ------
    UsageError
        If there is no estimate, or one is not a table that adds up to the whole.
    """
    if not estimates:
        raise UsageError(sentence("there is no table", fix="name at least one estimate"))
    return len(estimates) / sum(1 / one.effective_sample_size for one in estimates)


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """Multiply a law by a constant."""

    law: Law
    factor: float

    def covariance(self, part: Part) -> Array:
        return self.factor**2 * self.law.covariance(part)

    def variance(self, part: Part) -> Array:
        return self.factor**2 * self.law.variance(part)

    def margin(self, keep: Sequence[int]) -> Law:
        return _Scaled(self.law.margin(keep), self.factor)

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        low, high = self.law.bounds(value / self.factor, level)
        return low * self.factor, high * self.factor

    @property
    def freedom(self) -> float:
        return float(getattr(self.law, "freedom", math.inf))

    @property
    def about(self) -> str:
        return str(getattr(self.law, "about", ""))

    @property
    def effect(self) -> Array | None:
        return getattr(self.law, "effect", None)


SHOWING = "from the records that show every variable"
OF_WORKLOAD = "a release whose split has them as a table in its workload"
"""What analysts of a split ask for where too few records show all variables of a model."""
"""Which records of a split count."""


def counted(records: int, dropped: int, names: Sequence[str], unanswered: Sequence[str] = ()) -> str:
    """Return how many records count, of how many, and why others are left out: a variable is missing or no answer.

    >>> counted(5_000, 1_200, ["pay", "sex", "area"])
    '5,000 of 6,200 records, 1,200 left out (pay, sex or area is missing)'
    >>> counted(435, 45, ["ill", "sex"], ["ill"])
    '435 of 480 records, 45 left out (ill or sex is missing, or ill is no answer)'
    >>> counted(435, 45, ["ill"], ["ill"]), counted(480, 0, ["ill"], ["ill"])
    ('435 of 480 records, 45 left out (ill is missing or no answer)', '480 records')
    """
    if not dropped:
        return f"{records:,} records"
    why = f"{_either(names)} is missing"
    if unanswered:
        why += " or no answer" if [*names] == [*unanswered] else f", or {_either(unanswered)} is no answer"
    return f"{records:,} of {records + dropped:,} records, {dropped:,} left out ({why})"


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


def errors_include(perturbed: Sequence[str], design: str) -> str:
    """Say what standard errors include: the perturbation of these variables, and a survey design if there is one.

    >>> errors_include(["sex"], "60 primary sampling units")
    'standard errors include sampling and the perturbation of sex, by a survey design of 60 primary sampling units'
    >>> errors_include(["sex"], WHOLE)
    'standard errors are those of the perturbation of sex alone: the file is the whole population'
    """
    named = ", ".join(perturbed)
    if design == WHOLE:
        noise = f"those of the perturbation of {named} alone" if named else "0 (no variable that is used is perturbed)"
        return f"standard errors are {noise}: the file is {WHOLE}"
    noise = f"sampling and the perturbation of {named}" if named else "sampling (no variable that is used is perturbed)"
    return f"standard errors include {noise}" + (f", by a survey design of {design}" if design else "")


def format_rows(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return aligned lines: the first ``left`` columns to the left, numbers to the right.

    >>> format_rows(["sex", "n"], [["F", "10"], ["M", "9"]], left=1)
    ['sex   n', 'F    10', 'M     9']
    """
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        parts = [
            text.ljust(w) if i < left else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return [line(row) for row in [head, *rows]]
