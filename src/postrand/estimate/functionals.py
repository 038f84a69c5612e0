"""Linear functionals of a true table, their ratios, and what of a table a singular mechanism still identifies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError, UsageError, nearest, raise_all, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import MERGE, Array, Axis, Layout, Transition, apply, apply_maps, single
from postrand.estimate.by_model import Fitted, alone, answers, by_model, said_of, wants_model
from postrand.estimate.intervals import Moments
from postrand.estimate.offer import DESIGN, STRATA, WEIGHT, Estimator, Option, pair
from postrand.estimate.offer import METHOD as BY_METHOD
from postrand.estimate.pooling_rules import combine, quantile_t
from postrand.estimate.result import SHOWING, Estimate, Law, Part
from postrand.estimate.split_axis import SplitAxis
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_law import DesignLaw, check_divided
from postrand.estimate.tally import Surveyed, Tally, tally
from postrand.estimate.unbiased import METHOD, LinearLaw, surveyed_law
from postrand.mechanism import Mechanism
from postrand.support.showing import capital, digits, show_whole

IDENTIFIED = 1e-8
"""A functional c counts as identified when ``M b = c`` holds to this, relative to the largest entry of c."""

WIDE = 100
"""A ratio whose interval spans more than this factor says nothing."""

_Solver = Callable[[Array], Array | None]


def quantities(
    frame: Any,
    variables: Sequence[str],
    functionals: Mapping[str, ArrayLike],
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Literal["unbiased", "model"] = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate linear functionals ``Σ c π`` of the true table of the variables, without bias.

    ``functionals`` names coefficient arrays c of the table's shape: a category's indicator, a difference of two, scores
    for a mean. Each is estimated by ``Σ b λ^`` with ``M b = c``, solved along each axis, so it needs only be identified
    itself: the matrices may be singular. The result's ``value`` and ``covariance`` follow the order of ``functionals``.
    With ``model``, what :func:`postrand.complete` returned for this release, those of its copies are pooled.
    ``design`` says how the records were drawn, in place of weights and strata.

    Raises
    ------
    UsageError
        If a functional does not have the table's shape, or the model is missing.
    EstimationError
        Naming every functional that the release does not identify.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variables": variables, "functionals": functionals, "weights": weights, "strata": strata}
        return by_model("functionals of the table", quantities, frame, mechanism, model, **asked)
    return from_tally(tally(frame, variables, mechanism, weights, strata, design=design), functionals)


def from_tally(counted: Tally, functionals: Mapping[str, ArrayLike]) -> Estimate:
    """Return the same from counted records."""
    true = {name: _over_cells(counted.layout, name, c) for name, c in functionals.items()}
    solve = _solver(counted.layout)
    solved = {name: solve(c) for name, c in true.items()}
    raise_all(
        EstimationError,
        (
            sentence(
                f"{name!r} is not identified by the release",
                where=", ".join(counted.layout.variables),
                got="the functional is outside the range of the transition matrix",
                fix=MERGE,
            )
            for name, b in solved.items()
            if b is None
        ),
    )
    released = np.array([b.ravel() for b in solved.values() if b is not None])
    law = _law(counted, released, list(true.values()), solve)
    value = law.linear.mean
    return Estimate(
        variables=("quantity",),
        labels=(tuple(true),),
        value=value,
        law=_surveyed(law, value, list(true.values()), solve),
        records=int(counted.records.sum()),
        total=counted.total if counted.whole is None else counted.whole.total,
        dropped=counted.dropped,
        method=METHOD if counted.whole is None else f"{METHOD}, {SHOWING}",
        perturbed=counted.layout.perturbed,
        span=np.array([c.max() - c.min() for c in true.values()]),
        used=tuple(dict.fromkeys((*counted.layout.variables, *counted.layout.held))),
    )


def identified(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    design: SurveyDesign | None = None,
) -> tuple[Estimate, tuple[str, ...]]:
    """Estimate what a singular matrix leaves identified of one variable: categories, or groups that look alike.

    Returns the estimate, labels joined by `` + `` where categories with the same law were merged, and the categories
    refused.

    Raises
    ------
    EstimationError
        If no category and no such group is identified.
    """
    counted = tally(frame, [variable], mechanism, weights, strata, design=design)
    layout, solve = counted.layout, _solver(counted.layout)
    texts, functionals, refused = layout.labels[0], {}, []
    for group in _alike(layout.axes[0]):
        members = [[i] for i in group] if _identifies(layout, group[:1], solve) else [group]
        for member in members:
            if _identifies(layout, member, solve):
                functionals[" + ".join(texts[i] for i in member)] = _indicator(len(texts), member)
            else:
                refused += [texts[i] for i in member]
    if not functionals:
        raise EstimationError(
            sentence("the release does not identify any category", where=variable, got="a singular transition matrix")
        )
    return from_tally(counted, functionals), tuple(refused)


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """Hold a ratio, or an odds ratio, with the standard error of its logarithm, and that error's degrees of freedom.

    ``problems`` say what must be known of the joint model that it comes from, if it does. ``what`` names it.
    """

    value: float
    log_standard_error: float
    freedom: float = math.inf
    problems: tuple[str, ...] = ()
    what: str = "ratio"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval, symmetric on the log scale; raises UsageError for a level outside (0, 1)."""
        tidy.check_level(level)
        half = float(quantile_t(np.array(self.freedom), (1 + level) / 2)) * self.log_standard_error
        return self.value * math.exp(-half), self.value * math.exp(half)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence if the ends of the 95% interval are more than 100 times apart, after those on the model."""
        low, high = self.interval()
        if high <= WIDE * low:
            return self.problems
        fix = "merge categories, or ask for a release with a larger ε"
        return (
            *self.problems,
            f"The ends of the 95% interval are more than {WIDE} times apart: do not use this ratio: {fix}.",
        )

    @property
    def standard_error(self) -> float:
        """The standard error of the ratio itself, ``value × log_standard_error`` (delta method)."""
        return self.value * self.log_standard_error

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """Return one row: ``term``, ``estimate``, ``standard_error``, ``lower``, ``upper``, ``log_standard_error``."""
        low, high = self.interval(level)
        numbers = {"estimate": self.value, "standard_error": self.standard_error, "lower": low, "upper": high}
        numbers["log_standard_error"] = self.log_standard_error
        return tidy.by_term(["ratio"], {name: np.array(number) for name, number in numbers.items()})

    def to_pandas(self, level: float = 0.95) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow(level))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return plain data for JSON; a number that is not finite is None."""
        low, high = self.interval(level)
        return {
            "estimate": tidy.plain(np.array(self.value)),
            "standard_error": tidy.plain(np.array(self.standard_error)),
            "lower": tidy.plain(np.array(low)),
            "upper": tidy.plain(np.array(high)),
            "level": level,
            "log_standard_error": tidy.plain(np.array(self.log_standard_error)),
            "warnings": list(self.warnings),
        }

    _repr_pretty_ = show_whole

    def __str__(self) -> str:
        low, high = self.interval()
        text = f"{capital(self.what)}: {digits(self.value)} (95% interval {digits(low)} to {digits(high)})"
        return "\n".join([text, *(f"Warning: {w}" for w in self.warnings)])


def ratio(estimate: Estimate, numerator: str, denominator: str) -> Ratio:
    """Return the ratio of two estimated quantities, for example a conditional proportion, by the delta method.

    Raises
    ------
    UsageError
        If a label is unknown.
    EstimationError
        If one of the two is not positive: its logarithm has no error.
    """
    labels = estimate.labels[0]
    for name in (numerator, denominator):
        if estimate.value.ndim != 1 or name not in labels:
            raise UsageError(sentence(f"no quantity {name!r}{nearest(name, labels)}", wanted=", ".join(labels)))
    index = [labels.index(numerator), labels.index(denominator)]
    found = _log_contrast(estimate, index, [1, -1], [numerator, denominator])
    return replace(found, what=f"ratio of {numerator} to {denominator}")


def odds_ratio(
    frame: Any,
    row: str,
    column: str,
    mechanism: Mechanism,
    rows: tuple[str, str] | None = None,
    columns: tuple[str, str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Literal["unbiased", "model"] = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Ratio:
    """Estimate the odds ratio ``π11 π22 / (π12 π21)`` of two categories of each variable, corrected for perturbation.

    ``rows`` and ``columns`` name the categories by their labels; they may be left out where a variable has two. With
    ``model``, what :func:`postrand.complete` returned for this release, the logarithms of the odds ratios of its copies
    are pooled by Rubin's rules. ``design`` says how the records were drawn, in place of weights and strata.

    Raises
    ------
    UsageError
        If a category is unknown, or a variable has more than two and none are named, or the model is missing.
    EstimationError
        If one of the four estimated frequencies is not positive.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"row": row, "column": column, "rows": rows, "columns": columns, "weights": weights, "strata": strata}
        answered = alone(odds_ratio, frame, mechanism, asked) is not None
        said = said_of(model, [name for name in (row, column) if name in mechanism.variables], answered)
        return _pooled(list(answers(odds_ratio, frame, mechanism, model, asked)), said)
    counted = tally(frame, [row, column], mechanism, weights, strata, design=design)
    sides = zip(counted.layout.labels, (rows, columns), (row, column), ("rows", "columns"), strict=True)
    pairs = [_pair(texts, chosen, name, part) for texts, chosen, name, part in sides]
    (above, beside), (first, second) = counted.layout.labels, (np.eye(size) for size in counted.layout.shape)
    cells = [(i, j) for i in pairs[0] for j in pairs[1]]
    functionals = {f"{above[i]}, {beside[j]}": np.outer(first[i], second[j]) for i, j in cells}
    names = list(functionals)
    what = f"odds ratio of {row} and {column}, ({names[0]}) and ({names[-1]}) against the other combinations"
    return replace(_log_contrast(from_tally(counted, functionals), slice(None), [1, -1, -1, 1], names), what=what)


def _pooled(found: Sequence[Ratio], said: tuple[str, ...]) -> Ratio:
    rules = combine([math.log(one.value) for one in found], [one.log_standard_error**2 for one in found])
    return Ratio(math.exp(rules.value), float(rules.standard_error), float(rules.freedom), said, found[0].what)


@dataclass(frozen=True, slots=True, eq=False)
class QuantityLaw:
    """The law of linear functionals: total from the released counts; the perturbation part where it is identified.

    ``record`` holds the moments of what one more record would contribute.
    """

    linear: LinearLaw
    noise: Array | None
    record: Moments

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance, shape (F, F)."""
        if part == "total":
            return self.linear.covariance("total")
        if self.noise is None:
            what = "the division of the covariance is not identified under a singular matrix, or with strata in a split"
            raise EstimationError(sentence(what, fix="use the total"))
        return self.noise if part == "perturbation" else self.linear.covariance("total") - self.noise

    def variance(self, part: Part) -> Array:
        """Return its diagonal."""
        return self.linear.variance("total") if part == "total" else np.diag(self.covariance(part)).copy()

    def margin(self, keep: Sequence[int]) -> Law:
        """Return the law itself: quantities have one axis."""
        return self

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of the score interval of each functional (exact where few records are expected)."""
        return self.linear.binomial(self.record).bounds(level)


def _law(counted: Tally, released: Array, true: Sequence[Array], solve: _Solver) -> QuantityLaw:
    """Return the law of ``b λ^``: the perturbation part is ``b diag(t2) bᵀ − Σ c cᵀ t2^`` over (Σw)²."""
    strata = len(counted.records)
    flat_counts, flat_squares = (t.reshape(strata, -1) for t in (counted.counts, counted.squares))
    names = tuple(str(i) for i in range(len(released)))
    layout = Layout((single("quantity", names, None),), ("quantity",))
    flat = replace(counted, layout=layout, counts=flat_counts, squares=flat_squares, surveyed=_flat(counted.surveyed))
    linear = LinearLaw(flat, layout, (released,))
    record = _two_more(counted.layout, released, true)
    if (products := _products(true, solve)) is None:
        return QuantityLaw(linear, None, record)
    if counted.whole is not None:
        return QuantityLaw(linear, _split_noise(linear, products, counted.whole.unit), record)
    return QuantityLaw(linear, _noise(linear, products, flat_squares.sum(axis=0)), record)


def _flat(surveyed: Surveyed | None) -> Surveyed | None:
    if surveyed is None:
        return None
    drawn = None if surveyed.drawn is None else surveyed.drawn.ravel()
    return Surveyed(surveyed.sample, surveyed.sums.reshape(len(surveyed.sums), -1), drawn)


def _products(true: Sequence[Array], solve: _Solver) -> dict[tuple[int, int], Array] | None:
    """Return b for the product of every two functionals; None where one is not identified."""
    products = {}
    for i, left in enumerate(true):
        for j, right in enumerate(true[: i + 1]):
            product = solve(left * right)
            if product is None:
                return None
            products[i, j] = product.ravel()
    return products


def _noise(linear: LinearLaw, products: Mapping[tuple[int, int], Array], pooled: Array) -> Array:
    released = linear.operators[0]
    assert released is not None
    noise = (released * pooled) @ released.T
    for (i, j), product in products.items():
        noise[i, j] = noise[j, i] = noise[i, j] - product @ pooled
    return np.asarray(noise / linear.counted.total**2)


def _surveyed(law: QuantityLaw, value: Array, true: Sequence[Array], solve: _Solver) -> Law:
    """Return the law by the survey design of the counts; the law itself where there is none."""
    surveyed, linear = law.linear.counted.surveyed, law.linear
    if surveyed is None:
        return law
    products = _products(true, solve)
    drawn = None
    if surveyed.drawn is not None and linear.counted.whole is None:
        check_divided(surveyed.drawn, products is not None, "a quantity under a singular matrix")
        drawn = QuantityLaw(linear, _noise(linear, products or {}, surveyed.drawn), law.record)
    found = surveyed_law(linear, value, law, drawn)
    assert isinstance(found, DesignLaw)
    shares = linear.counted.released / linear.counted.total
    own = [math.nan if products is None else float(products[i, i] @ shares) for i in range(len(true))]
    simple = (np.array(own) - value**2) / max(int(linear.counted.records.sum()) - 1, 1)
    return replace(found, simple=simple, summable=False)


def _split_noise(linear: LinearLaw, products: Mapping[tuple[int, int], Array], unit: float) -> Array | None:
    """Return what is left of the total when drawing the records is taken off; None with strata.

    Drawing them causes ``unit × (Σ c c' π − Σ c π Σ c' π)``; the product of the estimates exceeds the last term by V.
    """
    if len(linear.counted.records) > 1:
        return None
    total, mean, shares = linear.covariance("total"), linear.mean, linear.counted.released / linear.counted.total
    drawn = total - np.outer(mean, mean)
    for (i, j), product in products.items():
        drawn[i, j] += product @ shares
        drawn[j, i] = drawn[i, j]
    return np.asarray(total - unit * drawn)


def _two_more(layout: Layout, released: Array, true: Sequence[Array]) -> Moments:
    """Return ``Σ_j M[i,j] b_j^m`` for m = 1, 2, 3: half for the true cells i where |c| is largest, half for all."""
    forward = [None if axis.matrix is None else axis.matrix.times for axis in layout.axes]
    moments, shape = [], tuple(axis.size for axis in layout.axes)
    for power in (1, 2, 3):
        expected = [apply_maps(forward, b.reshape(shape) ** power) for b in released]
        pairs = zip(expected, true, strict=True)
        moments.append(np.array([(e[np.abs(c) == np.abs(c).max()].mean() + e.mean()) / 2 for e, c in pairs]))
    return Moments(*moments)


def _over_cells(layout: Layout, name: str, functional: ArrayLike) -> Array:
    """Return a functional of the table shown as one over the true cells of every axis."""
    c = np.asarray(functional, dtype=np.float64)
    if c.shape != layout.shape or not np.isfinite(c).all():
        raise UsageError(
            sentence(f"{name!r} does not fit the table", got=f"shape {c.shape}", wanted=f"{layout.shape}, finite")
        )
    project = [axis.projection for axis in layout.axes]
    return apply([None if g is None else g.T for g in project], layout.scatter(c))


def _solver(layout: Layout) -> _Solver:
    """Return the function that gives b with ``M b = c`` over the axes, or None where c is not in the range of M."""
    matrices = [axis.matrix for axis in layout.axes]
    inverses = [None if m is None else inverse(m) for m in matrices]
    forward = [None if m is None else m.times for m in matrices]

    def solve(c: Array) -> Array | None:
        b = apply_maps(inverses, c)
        return b if np.abs(apply_maps(forward, b) - c).max() <= IDENTIFIED * np.abs(c).max() else None

    return solve


def inverse(matrix: Transition) -> Callable[[Array], Array]:
    """Return ``M^-1``, or the pseudo-inverse where there is none."""
    try:
        return matrix.factor().solve
    except EstimationError:
        inverse = np.linalg.pinv(matrix.array, rcond=1e-12)
        return lambda x: np.asarray(inverse @ x)


def _alike(axis: Axis) -> list[list[int]]:
    """Return the categories of the variable shown, grouped if the release cannot distinguish them."""
    if axis.matrix is None or len(axis.names) > 1:
        return [[i] for i in range(math.prod(axis.kept_shape))]
    groups: dict[bytes, list[int]] = {}
    if isinstance(axis, SplitAxis) and not axis.law.closed:
        return [[i] for i in range(len(axis.cells))]
    for i, row in enumerate(axis.matrix.array):
        groups.setdefault(row.tobytes(), []).append(i)
    return list(groups.values())


def _identifies(layout: Layout, members: Sequence[int], solve: _Solver) -> bool:
    return solve(_over_cells(layout, "", _indicator(layout.shape[0], members))) is not None


def _indicator(size: int, members: Sequence[int]) -> Array:
    unit = np.zeros(size)
    unit[list(members)] = 1.0
    return unit


def _pair(texts: Sequence[str], chosen: tuple[str, str] | None, name: str, part: str) -> list[int]:
    if chosen is None and len(texts) == 2:
        return [0, 1]
    if chosen is None or len(chosen) != 2 or any(c not in texts for c in chosen):
        what, fix = "name two of the categories", f"set {part}=(P, Q), or --{part} P,Q"
        raise UsageError(sentence(what, where=name, got=chosen, wanted=", ".join(texts), fix=fix))
    return [texts.index(c) for c in chosen]


def _log_contrast(estimate: Estimate, chosen: list[int] | slice, signs: Sequence[int], names: Sequence[str]) -> Ratio:
    value, covariance = estimate.value[chosen], estimate.covariance[chosen][:, chosen]
    raise_all(
        EstimationError,
        (
            sentence(
                f"the estimate of {n!r} is not positive",
                fix="the perturbation is too strong for this ratio: merge categories",
            )
            for n, v in zip(names, value, strict=True)
            if not v > 0
        ),
    )
    slope = np.array(signs) / value
    error = math.sqrt(max(float(slope @ covariance @ slope), 0.0))
    return Ratio(float(np.exp(np.array(signs) @ np.log(value))), error, estimate.degrees_of_freedom)


_ROWS = Option("rows", "P,Q", "Two categories of the first variable; not needed where it has two.", pair)
_COLUMNS = Option("columns", "P,Q", "Two categories of the second variable; not needed where it has two.", pair)
ESTIMATORS = (
    Estimator(
        "odds-ratio",
        "A,B",
        "Odds ratio of two categories of each of two variables.",
        odds_ratio,
        (_ROWS, _COLUMNS, BY_METHOD, WEIGHT, STRATA, *DESIGN),
        example="sex,ill",
        read=pair,
    ),
)
