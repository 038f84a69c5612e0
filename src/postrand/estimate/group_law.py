"""The law of a ratio of two estimated sums in each group: covariance, Fieller intervals, and what is to be flagged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array, Operator, apply, apply_pairs
from postrand.estimate.group_data import Measure, Records
from postrand.estimate.inversion import degrees_of_freedom, fieller, limits
from postrand.estimate.result import Law, Part
from postrand.estimate.unbiased import MAX_COVARIANCE

FLAG_LEVEL = 0.95
"""A group is flagged where its interval of this level has no end."""
FEW = 4.0
"""A group with fewer degrees of freedom is flagged: a few large values decide its mean and its interval."""
_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """Hold, for each group, the equation ``U(μ) = Σ_i (a_i − μ d_i)`` and the spread of its terms.

    ``score`` (2, L) and ``variance`` (3, L) are coefficients of powers of μ. The variance is the sum of squares about
    the mean within sampling strata, multiplied by n_h / (n_h − 1). ``skew`` and ``degrees`` (L,) are U's skewness and
    the degrees of freedom of the variance at the root.
    """

    score: Array
    variance: Array
    skew: Array
    degrees: Array
    records: int

    @property
    def root(self) -> Array:
        """The root of each equation, shape (L,); nan where the denominator is not positive."""
        return _root(self.score)

    def variance_at(self, point: Array) -> Array:
        """Return V at a point of each group."""
        return np.maximum(_evaluate(self.variance, point), 0.0)

    def bounds(self, level: float) -> tuple[Array, Array]:
        """Return the ends of each interval; infinite where the denominator cannot be told from zero."""
        least, most, quantile = limits(level, self.skew, self.degrees)
        known = np.isfinite(self.root)
        error = np.sqrt(self.variance_at(np.nan_to_num(self.root))) / np.maximum(-self.score[1], 1e-300)
        ends = []
        for t in (most, least):
            # What skewness adds to the quantile moves the end by standard errors at the root: Fieller's set with so
            # large a quantile would have no end in small groups that are well known.
            inner = np.clip(t, -quantile, quantile)
            with np.errstate(invalid="ignore", over="ignore"):
                ends.append(fieller(self.score, self.variance, inner, self.records) - (t - inner) * error)
        low, high = (
            np.where(known & ~np.isnan(end), end, side * np.inf) for end, side in zip(ends, (-1, 1), strict=True)
        )
        return low, high


def _root(score: Array) -> Array:
    below = -score[1]
    return np.asarray(np.where(below > 0, score[0], np.nan) / np.where(below > 0, below, 1.0))


def _evaluate(coefficients: Array, point: Array) -> Array:
    value = coefficients[-1] + 0.0 * point
    for c in coefficients[-2::-1]:
        value = value * point + c
    return np.asarray(value)


def equation(records: Records, numerator: Measure, denominator: Measure | None) -> Equation:
    """Return the equation of each group; without a denominator it is ``U(θ) = Σ a_i − θ``, that of a total.

    Raises
    ------
    EstimationError
        If a stratum has a single record, or the release does not identify a group.
    """
    n = records.sizes[:, None].astype(np.float64)
    axes = records.layout.axes
    above = numerator.operators(axes)
    below = None if denominator is None else denominator.operators(axes, like=(numerator, above))
    values = (numerator.values, None if denominator is None else denominator.values)
    s1, s2, s3, s4 = (_powers(records, values, above, below, p) for p in (1, 2, 3, 4))
    score = s1.sum(axis=1)
    if denominator is None:
        score = np.stack([score[0], -np.ones(len(score[0]))])
    mean = s1 / n
    square = _times(mean, mean)
    second = (small_sample(records)[:, None] * (s2 - n * square)).sum(axis=1)
    third = (s3 - 3 * _times(mean, s2) + 2 * n * _times(mean, square)).sum(axis=1)
    fourth = s4 - 4 * _times(mean, s3) + 6 * _times(square, s2) - 3 * n * _times(square, square)
    root = np.nan_to_num(_root(score))
    spread = np.maximum(_evaluate(second, root), 0.0)
    positive = np.where(spread > 0, spread, 1.0)
    skew = np.where(spread > 0, _evaluate(third, root) / positive**1.5, 0.0)
    degrees = degrees_of_freedom(spread, _evaluate(fourth.sum(axis=1), root), records.count)
    if below is not None and values[0] is not None and not values[0].any():
        degrees = np.full_like(degrees, np.inf)  # a constant: no value has to be estimated, in any group
    return Equation(score, _padded(second, 3), np.clip(skew, -1.0, 1.0), degrees, records.count)


def small_sample(records: Records) -> Array:
    """Return ``n_h / (n_h − 1)``; raises EstimationError where a stratum has one record."""
    if (records.sizes < 2).any():
        what = "a stratum, or the data, of a single record has no variance estimate"
        raise EstimationError(sentence(what, fix="merge strata"))
    return np.asarray(records.sizes / (records.sizes - 1.0))


def _padded(coefficients: Array, size: int) -> Array:
    short = size - len(coefficients)
    return np.concatenate([coefficients, np.zeros((short, coefficients.shape[1]))])


def _times(left: Array, right: Array) -> Array:
    """Return the product of two polynomials, coefficients first."""
    out = np.zeros((len(left) + len(right) - 1, *left.shape[1:]))
    for i, one in enumerate(left):
        out[i : i + len(right)] += one * right
    return out


def _powers(
    records: Records,
    values: tuple[Array | None, Array | None],
    above: tuple[Operator, ...],
    below: tuple[Operator, ...] | None,
    p: int,
) -> Array:
    """Return ``Σ_{i in h} (a_i − μ d_i)^p`` by power of μ, stratum and group; a and d hold weights and operators."""
    if below is None:
        return _sums(records, ((records.weights, p), (values[0], p)), [_power(b, p) for b in above])[None]
    out = []
    for m in range(p + 1):
        factors = ((records.weights, p), (values[0], p - m), (values[1], m))
        operators = [None if b is None or c is None else b ** (p - m) * c**m for b, c in zip(above, below, strict=True)]
        out.append(math.comb(p, m) * (-1.0) ** m * _sums(records, factors, operators))
    return np.stack(out)


def _sums(records: Records, factors: Sequence[tuple[Array | None, int]], operators: Sequence[Operator]) -> Array:
    """Return ``Σ_{i in h} Π factor^power × operator`` by stratum and group, shape (H, L)."""
    product: Array | None = None
    for values, power in factors:
        if values is not None and power:
            raised = values**power
            product = raised if product is None else product * raised
    tensor = records.sums(product)
    return np.stack([records.layout.arrange(one).ravel() for one in apply([None, *operators], tensor)])


def _power(operator: Operator, power: int) -> Operator:
    return None if operator is None else operator**power


@dataclass(frozen=True, slots=True, eq=False)
class GroupLaw:
    """The law of ``shift + scale × Σ a_i / Σ d_i`` in each group (of ``scale × Σ a_i`` where there is no denominator).

    The influence values of group g are ``u_i = scale (a_i − μ_g d_i) / Σ d``, with ``a_i = w_i B[g, r_i] y_i``. The
    total covariance is ``Σ_h n_h/(n_h−1) Σ_{i in h} (u_i − ū_h)(u_i − ū_h)ᵀ``; the perturbation part, records held
    fixed, is ``Σ_i (u_i u_iᵀ − the unbiased estimate of its mean)``. A group whose size cannot be told from zero at 95
    % has an infinite variance and no finite interval.
    """

    records: Records
    numerator: Measure
    denominator: Measure | None
    shift: float
    scale: float
    equation: Equation

    @property
    def value(self) -> Array:
        """The estimates, shape (L,); nan where a denominator is not positive."""
        return self.shift + self.scale * self.equation.root

    @property
    def unclear(self) -> NDArray[np.bool_]:
        """Which groups have a denominator that cannot be told from zero, shape (L,)."""
        if self.denominator is None:
            return np.zeros(len(self.equation.skew), dtype=bool)
        low, high = self.equation.bounds(FLAG_LEVEL)
        return np.asarray(np.isinf(low) | np.isinf(high))

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence each on groups without a finite interval, and on groups that few values decide."""
        unclear = self.unclear
        few = ~unclear & (self.equation.degrees < FEW) & (self.variance("total") > 0)  # a constant needs no value
        return (*too_few(self.records, unclear, self.denominator), *few_values(self.records, few))

    def variance(self, part: Part) -> Array:
        """Return the diagonal of a part of the covariance, shape (L,); inf for a group of unclear size."""
        if part == "total":
            inner = self.equation.variance_at(self.equation.root) / self.equation.score[1] ** 2
            return self._open(self.scale**2 * inner)
        if part == "sampling":
            return self._open(self.variance("total") - self.variance("perturbation"))
        return self._open(self._combined(part, full=False))

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance, shape (L, L); raises EstimationError beyond 4096 groups."""
        if len(self.equation.skew) > MAX_COVARIANCE:
            what = "too many groups for a full covariance matrix"
            raise EstimationError(
                sentence(what, got=len(self.equation.skew), wanted=f"<= {MAX_COVARIANCE}", fix="use .standard_error")
            )
        if part == "sampling":
            return self._open(self._combined("total", full=True) - self._combined("perturbation", full=True))
        return self._open(self._combined(part, full=True))

    def _open(self, found: Array) -> Array:
        """Put what is not known of the groups of unclear size: an infinite variance, and no covariance."""
        away = self.unclear
        if not away.any():
            return found
        if found.ndim == 1:
            return np.asarray(np.where(away, np.inf, found))
        found = np.where(away[:, None] | away, np.nan, found)
        found[away, away] = np.inf
        return np.asarray(found)

    def _combined(self, part: Part, *, full: bool) -> Array:
        """Return the covariance of the influence values from those of numerators and denominators."""
        above, below, scale = self.numerator, self.denominator, self.scale**2
        spread = _moment(self.records, above, above, part, full=full)
        if below is None:
            return scale * spread
        mu, size = self.equation.root, -self.equation.score[1]
        cross = _moment(self.records, above, below, part, full=full)
        square = _moment(self.records, below, below, part, full=full)
        if not full:
            return np.asarray(scale * (spread - 2 * mu * cross + mu * mu * square) / size**2)
        found = spread - cross * mu - (cross * mu).T + square * np.outer(mu, mu)
        return np.asarray(scale * found / np.outer(size, size))

    def margin(self, keep: Sequence[int]) -> Law:
        """Refuse: a mean over several groups is not a sum of theirs."""
        raise UsageError(
            sentence("a statistic by group does not have a margin", fix="estimate it again with a shorter 'by'")
        )

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return Fieller's interval of each group; (-inf, inf) where its size cannot be told from zero at the level."""
        low, high = (self.shift + self.scale * end for end in self.equation.bounds(level))
        return low.reshape(value.shape), high.reshape(value.shape)


def _moment(records: Records, left: Measure, right: Measure, part: Part, *, full: bool) -> Array:
    """Return the covariance of the two sums of each group, shape (L, L), or only its diagonal (L,)."""
    axes = records.layout.axes
    above, below = left.operators(axes), right.operators(axes)
    product = left.times(right)
    values = product.values
    if records.weights is not None:
        values = records.weights**2 if values is None else values * records.weights**2
    squares = records.sums(values)
    arrange = records.layout.arrange_matrix if full else lambda t: records.layout.arrange(t).ravel()

    def spread(tensor: Array) -> Array:
        if full:
            return arrange(apply_pairs(above, tensor, below))
        both = [None if b is None or c is None else b * c for b, c in zip(above, below, strict=True)]
        return arrange(apply(both, tensor))

    if part == "perturbation":
        if records.share is not None:
            what = "the covariance of a statistic of a split is not divided into sampling and perturbation"
            raise EstimationError(sentence(what, fix="use the total"))
        if all(axis.matrix is None for axis in axes):
            return 0.0 * spread(squares[0])
        pooled = squares.sum(axis=0)
        mean = records.layout.arrange(apply(_split_operators(product, records), pooled)).ravel()
        return np.asarray(spread(pooled) - (np.diag(mean) if full else mean))
    factor = small_sample(records)
    first, second = (_sums(records, ((records.weights, 1), (m.values, 1)), m.operators(axes)) for m in (left, right))
    centre = first * (factor / records.sizes)[:, None]
    return np.asarray(
        spread(np.tensordot(factor, squares, axes=1)) - (centre.T @ second if full else (centre * second).sum(axis=0))
    )


def _split_operators(product: Measure, records: Records) -> tuple[Operator, ...]:
    try:
        return product.operators(records.layout.axes)
    except EstimationError:
        what = "the split of the covariance is not identified under a singular matrix"
        raise EstimationError(sentence(what, fix="use the total")) from None


def too_few(records: Records, unclear: NDArray[np.bool_], denominator: Measure | None = None) -> tuple[str, ...]:
    """Return the sentence about groups whose size cannot be told from zero; none where there are none.

    Where the denominator leaves out who has no answer, a group can have none by its nature, as no job has a wage.
    """
    if not unclear.any():
        return ()
    partly = denominator is not None and any(f is not None for f in (denominator.values, *denominator.functions))
    if partly and records.layout.shape:
        text = f"How many records of {group_names(records, unclear)} have a value cannot be told from zero: perhaps "
        return (text + "none has one, and then there is nothing to estimate. If some have one, merge categories.",)
    if not records.layout.shape:
        text = "Too few records survive the perturbation to estimate this statistic: its interval is infinite."
        return (f"{text} Do not use this number.",)
    text = (
        f"Too few records of {group_names(records, unclear)} survive the perturbation: the size of the group cannot be "
    )
    return (text + "distinguished from zero, and its interval is infinite. Merge categories, or use fewer variables.",)


def few_values(records: Records, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the sentence about groups that few values decide; none where there are none."""
    if not chosen.any():
        return ()
    where = f" of {group_names(records, chosen)}" if records.layout.shape else ""
    return (f"A few values decide the estimate{where}: its interval is wide because of them, and depends on them.",)


def group_names(records: Records, chosen: NDArray[np.bool_]) -> str:
    """Return the first of the chosen groups in words."""
    places = [np.unravel_index(i, records.layout.shape) for i in np.flatnonzero(chosen)[:_NAMED]]
    names = ["/".join(t[c] for t, c in zip(records.layout.labels, place, strict=True)) for place in places]
    more = int(chosen.sum()) - len(names)
    return f"{' by '.join(records.layout.variables)} = {', '.join(names)}" + f" and {more:,} more groups" * (more > 0)
