"""Quantiles by group from the corrected distribution function, with Woodruff's intervals by test inversion."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.by_model import Fitted, by_model, wants_model
from postrand.estimate.group_data import Measure, Records, answered, function_of, read
from postrand.estimate.group_law import FLAG_LEVEL, Equation, equation, group_names, small_sample, too_few
from postrand.estimate.groups import Method, estimate_of
from postrand.estimate.inversion import degrees_of_freedom, limits
from postrand.estimate.offer import BY, DESIGN, METHOD, STRATA, WEIGHT, Estimator, Option, numbers
from postrand.estimate.result import Estimate, Law, Part
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_groups import sums_by_group
from postrand.estimate.survey_law import check_divided
from postrand.estimate.survey_sample import Sample
from postrand.mechanism import Mechanism
from postrand.support.inputs import finite, listed

_ROUNDING = 1e-9
"""A distribution function this close below q has reached it: sums of weights are rounded."""


def quantile(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    q: float | Sequence[float] = 0.5,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate quantiles of a variable, in each group of ``by``: the least value y with ``F(y) >= q``.

    ``F_g(y) = Σ_i w_i B[r_i, g] 1[y_i <= y] / Σ_i w_i B[r_i, g]``, ``B = M^-1``, is unbiased in numerator and
    denominator but not monotone; the estimate is read off the nearest monotone function. The interval holds the values
    that a test of ``F(y) = q`` does not reject (Woodruff, with the variance taken at y); every value of an unperturbed
    number is used exactly. A perturbed variable, whose categories must be numbers, has a quantile among its categories.

    ``value`` has one axis for each variable of ``by``, and a last one for the quantiles if ``q`` is a sequence. The
    standard error is that of a normal law with as long an interval; there is no covariance. Other parameters and errors
    are those of :func:`postrand.estimate.mean`.

    Raises
    ------
    UsageError
        If ``q`` is not between 0 and 1.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> sex = Variable("sex", role="key", categories=("F", "M"))
    >>> pay = Variable("pay", role="other", type="double")
    >>> law = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> mech = Mechanism({"sex": law}, codebook=Codebook((sex, pay)))
    >>> frame = pa.table({"sex": ["F"] * 60 + ["M"] * 40, "pay": [10.0] * 60 + [20.0] * 40})
    >>> quantile(frame, "pay", mech, q=[0.5, 0.99]).value.tolist()
    [10.0, 20.0]

    References
    ----------
    Woodruff (1952), J. Amer. Statist. Assoc. 47, 635-646; Francisco & Fuller (1991), Ann. Statist. 19, 454-469.
    """
    chances, single = _chances(q), listed(q) is None
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variable": variable, "q": q, "by": by, "weights": weights, "strata": strata}
        return by_model(_named(variable, chances, single), quantile, frame, mechanism, model, **asked)
    records = read(frame, [variable], mechanism, by, weights, strata, design)
    law = QuantileLaw(records, variable, chances, *solve(records, variable, chances, FLAG_LEVEL))
    value = law.values.reshape(records.layout.shape if single else (*records.layout.shape, len(chances)))
    reached = np.stack([law.values, law.low, law.high])
    found = estimate_of(records, mechanism, (variable,), _named(variable, chances, single), value, law, reached)
    if single:
        return found
    labels = (*found.labels, tuple(f"{one:g}" for one in chances))
    return dataclasses.replace(found, variables=(*found.variables, "quantile"), labels=labels)


def _named(variable: str, chances: Sequence[float], single: bool) -> str:
    """Return what was asked for; several quantiles have a column that says which."""
    which = "median" if chances == (0.5,) else f"quantile {chances[0]:g}"
    return f"{which if single else 'quantiles'} of {variable}"


def _chances(q: float | Sequence[float]) -> tuple[float, ...]:
    chances = tuple(finite(one) for one in (listed(q) or (q,)))
    if not all(0 < one < 1 for one in chances) or len(set(chances)) != len(chances):
        what = "the probabilities of the quantiles are invalid"
        raise UsageError(sentence(what, got=repr(q), wanted="distinct numbers between 0 and 1"))
    return chances


@dataclass(frozen=True, slots=True, eq=False)
class QuantileLaw:
    """The law of quantiles: intervals by test inversion; ``values``, ``low``, ``high`` (at 95 %) have shape (L, Q)."""

    records: Records
    variable: str
    chances: tuple[float, ...]
    values: Array
    low: Array
    high: Array

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the survey design; infinite without one."""
        return math.inf if self.records.sample is None else self.records.sample.freedom

    @property
    def about(self) -> str:
        """What the survey design is; nothing without one."""
        return "" if self.records.sample is None else str(self.records.sample)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that name the groups, and the quantiles, without a finite interval."""
        open_ = np.isinf(self.low) | np.isinf(self.high) | np.isnan(self.values)
        both = np.all(np.isinf(self.low) & np.isinf(self.high) | np.isnan(self.values), axis=1)
        found = list(too_few(self.records, np.asarray(both)))
        for j, q in enumerate(self.chances):
            some = open_[:, j] & ~both
            if some.any():
                where = f" of {group_names(self.records, some)}" if self.records.layout.shape else ""
                what = f"The quantile {q:g}{where} is too extreme for so few records: its interval is open on one side."
                found.append(what)
        return tuple(found)

    def covariance(self, part: Part) -> Array:
        """Refuse: quantiles have intervals, and no covariance."""
        raise EstimationError(sentence("quantiles do not have a covariance matrix", fix="use .interval(level)"))

    def variance(self, part: Part) -> Array:
        """Return the square of the 95 % interval's length over that of a standard one, shape (L Q,).

        Of a normal variable; with a survey design, of Student's t on its degrees of freedom.
        """
        if part != "total":
            what = "the error of a quantile is not split into sampling and perturbation"
            raise EstimationError(sentence(what, fix="use the total"))
        with np.errstate(invalid="ignore"):
            width = (self.high - self.low) / (-2 * scipy.special.stdtrit(self.freedom, (1 - FLAG_LEVEL) / 2))
        return np.asarray(width.ravel() ** 2)

    def margin(self, keep: Sequence[int]) -> Law:
        """Refuse: a quantile over several groups does not follow from theirs."""
        raise UsageError(
            sentence("a statistic by group does not have a margin", fix="estimate it again with a shorter 'by'")
        )

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return Woodruff's interval of each quantile."""
        low, high = self.low, self.high
        if level != FLAG_LEVEL:
            _, low, high = solve(self.records, self.variable, self.chances, level)
        return low.reshape(value.shape), high.reshape(value.shape)


def solve(records: Records, variable: str, chances: Sequence[float], level: float) -> tuple[Array, Array, Array]:
    """Return the quantiles and the ends of their intervals, shape (L, Q) each."""
    if records.sample is not None:
        found = _by_design(records, variable, chances, level, records.sample)
    elif variable in records.scores:
        found = _of_codes(records, variable, chances, level)
    else:
        found = _of_numbers(records, variable, chances, level)
    values, low, high = (np.array(part).reshape(-1, len(chances)) for part in zip(*found, strict=True))
    return values, low, high


_Found = list[tuple[float, float, float]]


def _of_numbers(records: Records, variable: str, chances: Sequence[float], level: float) -> _Found:
    """Return quantile, lower and upper end, group by group, of an unperturbed number."""
    factor = small_sample(records)
    order = np.argsort(records.clear[variable], kind="stable")
    values, cell, stratum = records.clear[variable][order], records.cell[order], records.stratum[order]
    weights = None if records.weights is None else records.weights[order]
    total = np.bincount(cell, weights=None if weights is None else weights**2, minlength=math.prod(records.shape))
    found: _Found = []
    for share, own in _shares(records):
        b = share[cell]
        inside = np.flatnonzero(b)
        term = b[inside] if weights is None else b[inside] * weights[inside]
        group = _sorted_group(
            values[inside], term, stratum[inside], records.sizes, factor, own * max(float(total @ share), 0.0)
        )
        found += [_invert(group, q, level) for q in chances]
    return found


def _shares(records: Records) -> Iterator[tuple[Array, float]]:
    """Yield for each group B over the released cells, shape (K,), and the mean of ``M B²`` over its true cells."""
    axes = records.layout.axes
    operators = Measure(None, (None,) * len(axes)).operators(axes)
    rows = [np.eye(axis.size) if b is None else b for axis, b in zip(axes, operators, strict=True)]
    own = []
    for axis, b in zip(axes, rows, strict=True):
        project = np.eye(len(axis.cells)) if axis.projection is None else axis.projection
        spread = (b**2).T if axis.matrix is None else axis.matrix.times(np.ascontiguousarray((b**2).T))
        own.append((project * spread.T).sum(axis=1) / np.maximum(project.sum(axis=1), 1.0))
    kept = [len(b) for b in rows]
    numbers = np.arange(math.prod(kept), dtype=np.float64).reshape(kept)
    for flat in records.layout.arrange(numbers).ravel().astype(np.intp):
        at = np.unravel_index(flat, kept) if kept else ()
        share = functools.reduce(np.multiply.outer, [b[i] for b, i in zip(rows, at, strict=True)], np.ones(()))
        yield np.asarray(share).ravel(), math.prod(float(o[i]) for o, i in zip(own, at, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Hold the sums of a group over the records of at most each distinct value, shape (m + 1,); the first are of none.

    ``size`` are sums of terms ``w b``, ``squares`` those of ``n_h/(n_h−1) (w b)²``, and ``between`` (3,) arrays what
    the means of strata take off the variance, in powers of q. ``own`` is the sum of squares that the group's own
    records cause.
    """

    points: Array
    size: Array
    squares: Array
    between: tuple[Array, Array, float]
    terms: Array
    last: NDArray[np.intp]
    own: float
    records: int

    def test(self, q: float) -> tuple[Array, Array]:
        """Return ``U = Σ w b (1[y <= point] − q)`` and its variance where ``F(point) = q``."""
        score = self.size - q * self.size[-1]
        first, second, third = self.between
        spread = self.squares * (1 - 2 * q) + q * q * self.squares[-1] - (first - 2 * q * second + q * q * third)
        # The group's own records are below the point with the chance q, not with the share observed: beyond the
        # smallest and the largest record nothing is observed.
        if self.size[-1] > 0:
            spread = spread - (1 - 2 * q) * self.own / self.size[-1] * score
        return score, np.maximum(spread + score * score / self.records, 0.0)

    def shape(self, q: float, at: int) -> tuple[float, float]:
        """Return the skewness of U at a point and the degrees of freedom of its variance."""
        z = self.terms.copy()
        z[: self.last[at]] *= 1 - q
        z[self.last[at] :] *= -q
        square = float(z @ z)
        if square <= 0:
            return 0.0, 1.0
        degrees = degrees_of_freedom(np.array(square), np.array(float((z * z) @ (z * z))), self.records)
        return float(np.clip((z * z) @ z / square**1.5, -1.0, 1.0)), float(degrees)


def _sorted_group(
    values: Array, term: Array, stratum: NDArray[np.int64], sizes: NDArray[np.int64], factor: Array, own: float
) -> _Group:
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True)) + 1 if len(values) else np.zeros(0, dtype=np.intp)
    ends = np.concatenate([[0], last]).astype(np.intp)

    def summed(x: Array) -> Array:
        return np.concatenate([[0.0], np.cumsum(x)])[ends]

    rate = factor / sizes
    size = summed(term)
    if len(sizes) == 1:
        between = (rate[0] * size * size, rate[0] * size[-1] * size, float(rate[0] * size[-1] ** 2))
    else:
        whole = np.bincount(stratum, weights=term, minlength=len(sizes))
        gain = rate[stratum] * (2 * _before(term, stratum, len(sizes)) + term) * term
        between = (summed(gain), summed((rate * whole)[stratum] * term), float(rate @ whole**2))
    return _Group(
        points=values[last - 1],
        size=size,
        squares=summed(term * term * (factor[0] if len(sizes) == 1 else factor[stratum])),
        between=between,
        terms=term,
        last=ends,
        own=own,
        records=int(sizes.sum()),
    )


def _before(term: Array, stratum: NDArray[np.int64], strata: int) -> Array:
    """Return the sum of the earlier terms of the same stratum."""
    order = np.argsort(stratum, kind="stable")
    running = np.cumsum(term[order])
    start = np.searchsorted(stratum[order], np.arange(strata))
    offset = np.concatenate([[0.0], running])[start]
    out = np.empty(len(term))
    out[order] = running - term[order] - offset[stratum[order]]
    return out


def _invert(group: _Group, q: float, level: float) -> tuple[float, float, float]:
    """Return the quantile and the hull of the points that the test of ``F(point) = q`` does not reject."""
    size = group.size[-1]
    if not size > 0:
        return math.nan, -math.inf, math.inf
    place = _crossing(group.size[1:] / size, q)
    score, variance = group.test(q)
    skew, degrees = group.shape(q, place + 1)
    least, most, _ = limits(level, np.array(skew), np.array(degrees))
    error = np.sqrt(variance)
    above = score >= least * error  # F(point) may be q or more
    below = score <= most * error  # F just below the next point may be less than q
    low = -math.inf if above[0] else float(group.points[np.argmax(above[1:])])
    high = math.inf if below[-1] else float(group.points[len(below) - 2 - np.argmax(below[:-1][::-1])])
    value = float(group.points[place])
    return value, min(low, value), max(high, value)


def _crossing(curve: Array, q: float) -> int:
    """Return the first place where the monotone function nearest to a curve reaches q."""
    monotone = curve if (curve[1:] >= curve[:-1]).all() else scipy.optimize.isotonic_regression(curve).x
    return min(int(np.searchsorted(monotone, q - _ROUNDING)), len(curve) - 1)


def _of_codes(records: Records, variable: str, chances: Sequence[float], level: float) -> _Found:
    """Return quantile, lower and upper end, group by group, of a perturbed variable whose codes are numbers."""
    scores = records.scores[variable]
    points = np.unique(scores[~np.isnan(scores)])
    one = answered(records, [variable])
    known = np.nan_to_num(scores, nan=np.inf)
    equations = [equation(records, function_of(records, variable, (known <= p).astype(float)), one) for p in points]
    groups = len(equations[0].skew)
    return [_code(equations, points, g, q, level) for g in range(groups) for q in chances]


def _code(equations: Sequence[Equation], points: Array, g: int, q: float, level: float) -> tuple[float, float, float]:
    size = -equations[0].score[1][g]
    curve = np.array([e.root[g] for e in equations])
    if not size > 0 or any(np.isinf(e.bounds(level)[0][g]) for e in equations[:1]):
        value = points[_crossing(curve, q)] if size > 0 else math.nan
        return float(value), -math.inf, math.inf
    place = _crossing(curve, q)
    score = np.array([e.score[0][g] + q * e.score[1][g] for e in equations])
    spread = np.array([e.variance_at(np.full_like(e.skew, q))[g] for e in equations])
    error = np.sqrt(spread + score**2 / equations[0].records)
    shape = equations[place]
    least, most, _ = limits(level, shape.skew[g : g + 1], shape.degrees[g : g + 1])
    above, below = score >= least * error, score <= most * error
    low = points[np.argmax(above)] if above.any() else points[0]
    # F just below a point is F at the one before; below the first it is 0.
    high = points[min(len(points) - 1, len(below) - int(np.argmax(below[::-1])))] if below.any() else points[0]
    return float(points[place]), float(min(low, points[place])), float(max(high, points[place]))


def _by_design(records: Records, variable: str, chances: Sequence[float], level: float, sample: Sample) -> _Found:
    """Return the quantiles with Woodruff's interval: ``F(y) ± t se`` at the quantile y, read off F."""
    check_divided(sample.drawn, all(a.matrix is None for a in records.layout.axes), "a quantile")
    points, curves = _curves(records, variable)
    t = -float(scipy.special.stdtrit(sample.freedom, (1 - level) / 2))
    found: _Found = []
    for g, curve in enumerate(curves):
        for q in chances:
            if not np.isfinite(curve).all():
                found.append((math.nan, -math.inf, math.inf))
                continue
            place = _crossing(curve, q)
            error = _error_of_share(records, variable, float(points[place]), g, float(curve[place]))
            low, high = curve[place] - t * error, curve[place] + t * error
            ends = (
                -math.inf if low < 0 else float(points[_crossing(curve, low)]),
                math.inf if high > 1 else float(points[_crossing(curve, high)]),
            )
            found.append((float(points[place]), *ends))
    return found


def _below(records: Records, variable: str, point: float) -> Measure:
    """Return whether the variable is at most a value, 0 where it is missing."""
    if variable in records.clear:
        inside = (records.clear[variable] <= point).astype(np.float64)
        return Measure(inside, (None,) * len(records.shape))
    scores = np.nan_to_num(records.scores[variable], nan=np.inf)
    return function_of(records, variable, (scores <= point).astype(np.float64))


def _curves(records: Records, variable: str) -> tuple[Array, Array]:
    """Return the distinct values (m,), and the corrected distribution function of each group at them, (L, m)."""
    if variable in records.scores:
        scores = records.scores[variable]
        points, one = np.unique(scores[~np.isnan(scores)]), answered(records, [variable])
        return points, np.array([equation(records, _below(records, variable, p), one).root for p in points]).T
    points, place = np.unique(records.clear[variable], return_inverse=True)
    rows = []
    for share, _ in _shares(records):
        term = share[records.cell] if records.weights is None else share[records.cell] * records.weights
        summed = np.cumsum(np.bincount(place, weights=term, minlength=len(points)))
        rows.append(summed / summed[-1] if summed[-1] > 0 else np.full(len(points), np.nan))
    return points, np.array(rows)


def _error_of_share(records: Records, variable: str, point: float, group: int, value: float) -> float:
    """Return the standard error of ``F(point) = value`` in a group."""
    assert records.sample is not None
    sample = records.sample
    axes = records.layout.axes
    above, below = _below(records, variable, point), answered(records, [variable])
    parts, whole = (sums_by_group(records, m.values, m.operators(axes))[:, group] for m in (above, below))
    if sample.replicates is None:
        parts = (parts - value * whole) / whole.sum()
    else:
        parts = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)
    return float(np.sqrt((sample.deviations(parts[:, None], np.array([value])) ** 2).sum()))


_Q = Option("q", "P,Q", "Which quantiles, for example 0.1,0.5,0.9; the default is the median.", numbers)
ESTIMATORS = (
    Estimator(
        "quantile",
        "Y",
        "Quantiles of a number, in each group of --by.",
        quantile,
        (_Q, BY, METHOD, WEIGHT, STRATA, *DESIGN),
        example="pay",
    ),
)
