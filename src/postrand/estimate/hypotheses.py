"""Tests of hypotheses about the true table, from the released one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import ArrayLike

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array, apply, apply_maps, apply_pairs
from postrand.estimate.by_model import Fitted, alone, said_of, wants_model
from postrand.estimate.by_model_tests import Gap, copied_tables, joint_wald
from postrand.estimate.em import check_untangled
from postrand.estimate.offer import DESIGN, METHOD, STRATA, WEIGHT, Estimator, Option, numbers, pair
from postrand.estimate.result import Estimate
from postrand.estimate.split_axis import SplitAxis, split_axes
from postrand.estimate.survey_design import design_of
from postrand.estimate.tally import Tally, tally
from postrand.estimate.unbiased import from_tally, linear_law
from postrand.mechanism import Mechanism
from postrand.support.showing import show_whole

Method = Literal["unbiased", "model"]


@dataclass(frozen=True, slots=True)
class ChiSquared:
    """Hold a chi-squared test: statistic, degrees of freedom, p-value, and what was computed.

    ``warnings`` say what must be known of it before it is used, as that it rests on a model.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    method: str
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dataclasses.asdict(self) | {"warnings": list(self.warnings)}

    def to_arrow(self) -> pa.Table:
        """Return one row: ``term`` (the method), ``statistic``, ``degrees_of_freedom``, ``p_value``."""
        names = ("statistic", "degrees_of_freedom", "p_value")
        numbers = {name: np.array(getattr(self, name)) for name in names}
        return tidy.by_term([self.method], numbers)

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow())

    _repr_pretty_ = show_whole

    def __str__(self) -> str:
        degrees = f"{self.degrees_of_freedom} degree{'s' * (self.degrees_of_freedom != 1)} of freedom"
        head = f"{self.method}: chi-squared {self.statistic:.5g} on {degrees}"
        return "\n".join([f"{head}, p-value {self.p_value:.4g}", *(f"Warning: {text}" for text in self.warnings)])


def independence_test(
    frame: Any,
    row: str,
    column: str,
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> ChiSquared:
    """Test whether two true variables are independent.

    Variables of different blocks are perturbed independently, so their released versions are independent exactly
    when the true ones are (for invertible matrices), and Pearson's statistic of the *released* table is the score
    test: right size, and no test on the corrected table has more power near independence. With weights or strata its
    reference is Rao and Scott's second-order F, as with a survey ``design``. Variables of one block are tested on the
    unbiased table: ``gᵀ V0^-1 g``
    with ``g_ij = π_ij − π_i+ π_+j`` and V0 its covariance *under independence* (a score test too; the covariance of
    the estimate itself, as in Wald's test, would reject too often). With ``model``, what :func:`postrand.complete`
    returned for this release, the tables of its copies are tested together (D1 of Li, Raghunathan and Rubin).

    Raises
    ------
    UsageError
        If the method is unknown, or the model is missing.
    EstimationError
        If a released variable takes only one value, or the corrected table is not identified.

    References
    ----------
    Rao & Scott (1984) for weights; van den Hout & van der Heijden (2002) for misclassified tables.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"row": row, "column": column, "weights": weights, "strata": strata}
        tables = copied_tables(frame, mechanism, model, variables=[row, column], weights=weights, strata=strata)
        found = joint_wald(tables, *_independence_of(tables[0].value.shape, weights is None and strata is None, tables))
        answered = alone(independence_test, frame, mechanism, asked) is not None
        said = said_of(model, [n for n in (row, column) if n in mechanism.variables], answered)
        return ChiSquared(*found, f"test of independence on {len(tables)} completed copies (D1)", said)
    return independence(tally(frame, [row, column], mechanism, weights, strata, design=design))


def independence(counted: Tally) -> ChiSquared:
    """Return the test of independence from counted records of two variables."""
    simple = _simple(counted)
    if len(counted.layout.axes) == 2 and not _summed_out(counted) and counted.whole is None:
        method = "score test of independence on the released table"
        if simple:
            observed = counted.released
            expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
            freedom = (_occurring(expected.sum(axis=1)) - 1) * (_occurring(expected.sum(axis=0)) - 1)
            return _pearson(observed, expected, freedom, method)
        counted = _as_released(counted)
    else:
        method = "score test of independence on the unbiased table"
    found = from_tally(counted)
    margins = found.value.sum(axis=1), found.value.sum(axis=0)
    gap = (found.value - np.outer(*margins))[:-1, :-1].ravel()
    first, second = (_on_simplex(margin) for margin in margins)
    slope = _slope_of_independence(first, second)
    null = _null_covariance(counted, np.outer(first, second))
    return _score(gap, slope, null, None if simple else found, method)


def _slope_of_independence(first: Array, second: Array) -> Array:
    """Return the derivative of ``π_ij − π_i+ π_+j`` by the table, without the last row and column."""
    rows, columns = first.size, second.size
    slope = np.zeros((rows - 1, columns - 1, rows, columns))
    for i in range(rows - 1):
        for j in range(columns - 1):
            slope[i, j, i, j] += 1.0
            slope[i, j, i, :] -= second[j]
            slope[i, j, :, j] -= first[i]
    return slope.reshape((rows - 1) * (columns - 1), rows * columns)


def goodness_of_fit_test(
    frame: Any,
    variable: str,
    expected: ArrayLike,
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> ChiSquared:
    """Test whether the true distribution of a variable is ``expected``, shape (S,), in codebook order.

    Pearson's statistic of the released counts against ``Mᵀ expected`` is the score test; with weights or strata its
    reference is Rao and Scott's second-order F. A variable of a joint block is tested on the unbiased estimate, with
    its covariance under the hypothesis. With ``model``, what :func:`postrand.complete` returned for this release, the
    shares of its copies are tested together (D1 of Li, Raghunathan and Rubin).

    Raises
    ------
    UsageError
        If ``expected`` is no distribution over the variable's categories, or the model is missing.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variable": variable, "expected": expected, "weights": weights, "strata": strata}
        tables = copied_tables(frame, mechanism, model, variables=[variable], weights=weights, strata=strata)
        target = _target(expected, variable, tables[0].value.size)
        found = joint_wald(tables, *_fit_of(target, weights is None and strata is None, tables))
        answered = alone(goodness_of_fit_test, frame, mechanism, asked) is not None
        said = said_of(model, [variable] if variable in mechanism.variables else [], answered)
        return ChiSquared(*found, f"test of fit on {len(tables)} completed copies (D1)", said)
    return fit(tally(frame, [variable], mechanism, weights, strata, design=design), expected)


def _independence_of(shape: tuple[int, ...], simple: bool, tables: Sequence[Estimate]) -> tuple[Gap, Gap | None, Gap]:
    """Return the gap from independence of a flat table, its covariance if that is true, and the gap's derivative."""

    def gap(flat: Array) -> Array:
        table = flat.reshape(shape)
        return np.asarray((table - np.outer(table.sum(axis=1), table.sum(axis=0)))[:-1, :-1].ravel())

    def null(flat: Array) -> Array:
        table = flat.reshape(shape)
        product = np.outer(table.sum(axis=1), table.sum(axis=0)).ravel()
        return np.asarray((np.diag(product) - np.outer(product, product)) / tables[0].records)

    def slope(flat: Array) -> Array:
        table = flat.reshape(shape)
        return _slope_of_independence(table.sum(axis=1), table.sum(axis=0))

    return gap, null if simple else None, slope


def _fit_of(target: Array, simple: bool, tables: Sequence[Estimate]) -> tuple[Gap, Gap | None, Gap]:
    """Return the gap of shares from those expected, the shares' covariance if they are true, and its derivative."""

    def null(_: Array) -> Array:
        return np.asarray((np.diag(target) - np.outer(target, target)) / tables[0].records)

    return lambda shares: shares - target, null if simple else None, lambda shares: np.eye(shares.size)


def _target(expected: ArrayLike, variable: str, size: int) -> Array:
    target = np.asarray(expected, dtype=np.float64)
    if target.shape != (size,) or not (target >= 0).all() or abs(target.sum() - 1) > 1e-9:
        raise UsageError(
            sentence(
                "the expected shares are not a distribution",
                where=variable,
                got=f"shape {target.shape}",
                wanted=f"{size} numbers >= 0 summing to 1",
            )
        )
    return target


def fit(counted: Tally, expected: ArrayLike) -> ChiSquared:
    """Return the test of fit from counted records of one variable."""
    target = _target(expected, counted.layout.variables[0], counted.layout.shape[0])
    simple = _simple(counted)
    if not _summed_out(counted) and counted.whole is None:
        matrix = counted.layout.axes[0].matrix
        method = "score test of fit on the released counts"
        target = target if matrix is None else matrix.array.T @ target
        if simple or counted.released[target == 0].any():
            return _pearson(counted.released, target * counted.total, _occurring(target) - 1, method)
        counted = _as_released(counted)
    else:
        method = "score test of fit on the unbiased estimate"
    found = from_tally(counted)
    null = _null_covariance(counted, target)
    return _score(
        (found.value - target)[:-1],
        np.eye(target.size)[:-1],
        null,
        None if simple else found,
        method,
    )


def _simple(counted: Tally) -> bool:
    """Whether the covariance under the hypothesis follows from the laws alone."""
    closed = all(axis.law.closed for axis in split_axes(counted.layout.axes))
    return not counted.weighted and len(counted.records) == 1 and closed and counted.surveyed is None


def _as_released(counted: Tally) -> Tally:
    """Return the same counts as a table of the released variables themselves."""
    axes = tuple(dataclasses.replace(axis, matrix=None) for axis in counted.layout.axes)
    return dataclasses.replace(counted, layout=dataclasses.replace(counted.layout, axes=axes))


def _on_simplex(margin: Array) -> Array:
    """Return a distribution to evaluate a covariance at: negative shares are 0 there, and the others rescaled."""
    mass = np.maximum(margin, 0.0)
    return np.asarray(mass / mass.sum())


def _null_covariance(counted: Tally, table: Array) -> Array | None:
    """Return the covariance of the unbiased table if the true one is ``table``, for ``(Σw)²/Σw²`` records.

    What the blocks hold beside the table keeps its estimated distribution within each cell. None where a block
    reads what another perturbs: the released law is then not that of a product.
    """
    layout = counted.layout
    try:
        check_untangled(layout.axes)
    except EstimationError:
        return None
    project = [axis.projection for axis in layout.axes]
    back = [None if g is None else g.T for g in project]
    inverses = [None if axis.matrix is None else axis.matrix.factor().solve_transposed for axis in layout.axes]
    whole = np.maximum(apply_maps(inverses, counted.released) / counted.total, 0.0)
    shown, wanted = apply(project, whole), layout.scatter(table)
    cells = apply(project, np.ones_like(whole))
    empty = shown <= 0
    factor = np.divide(wanted, shown, out=np.zeros_like(shown), where=~empty)
    even = np.divide(wanted, cells, out=np.zeros_like(shown), where=empty & (cells > 0))
    true = whole * apply(back, factor) + apply(back, even)
    onto = [_released_law(counted, i) for i in range(len(layout.axes))]
    released = apply([None if law is None else law.T for law in onto], true / true.sum())
    second = layout.arrange_matrix(apply_pairs(linear_law(counted).operators, released))
    flat = table.ravel()
    return np.asarray((second - np.outer(flat, flat)) * counted.squares.sum() / counted.total**2)


def _released_law(counted: Tally, at: int) -> Array | None:
    """Return the law of an axis; of a split, its parts have the shares of the squared weights that were observed."""
    axis = counted.layout.axes[at]
    if axis.matrix is None or not isinstance(axis, SplitAxis):
        return None if axis.matrix is None else axis.matrix.array
    squares = np.moveaxis(counted.squares.sum(axis=0), at, 0)
    return axis.law.mixed(np.array([squares[part].sum() for part in axis.law.slices])).average


def _score(gap: Array, slope: Array, null: Array | None, found: Estimate | None, method: str) -> ChiSquared:
    """Return ``X² = gᵀ V0^-1 g`` with its reference, V0 and V the covariance of g in theory and as estimated.

    Where V is V0 (``found`` None) this is chi-squared; else a weighted sum of chi-squared variables, the weights the
    eigenvalues of V0^-1 V with sum a and sum of squares b, and ``X²/a`` is referred to F with ``a²/b`` and
    ``a²/b (n − 1)`` degrees of freedom (of a survey design, ``a²/b`` times its own); reported are ``X² d/a`` and d.
    Without a V0 (None), V takes its place.
    """
    actual = None if found is None else found.covariance
    measure = null if null is not None else actual
    assert measure is not None
    values, vectors = np.linalg.eigh(_sandwich(slope, measure))
    used = values > 1e-10 * values.max(initial=0.0)  # categories that never occur have no variance
    if not used.any():
        raise EstimationError(
            sentence("the table has no variance, so it cannot be tested", fix="choose other variables")
        )
    root = vectors[:, used] / np.sqrt(values[used])
    statistic = float(((root.T @ gap) ** 2).sum())
    freedom = int(used.sum())
    if found is None or actual is None:
        return ChiSquared(statistic, freedom, float(scipy.special.chdtrc(freedom, statistic)), method)
    ratio = root.T @ _sandwich(slope, actual) @ root
    total, square = float(np.trace(ratio)), float((ratio * ratio).sum())
    if not square > 0:  # for example one record in each stratum
        what = "the records vary too little for a variance of the table"
        raise EstimationError(sentence(what, fix="merge strata, or test without weights"))
    between = total**2 / square
    within = between * min(found.degrees_of_freedom, found.records - 1)
    p_value = float(scipy.special.fdtrc(between, within, statistic / total))
    return ChiSquared(statistic * freedom / total, freedom, p_value, method + ", second-order Rao–Scott")


def _sandwich(slope: Array, covariance: Array) -> Array:
    found = slope @ covariance @ slope.T
    return np.asarray((found + found.T) / 2)


def _summed_out(counted: Tally) -> bool:
    """Whether a block contains variables that the table does not show: its counts then mix two distributions."""
    return any(len(axis.kept) < len(axis.names) for axis in counted.layout.axes)


def _occurring(margin: Array) -> int:
    return int(np.count_nonzero(margin > 0))


def _pearson(observed: Array, expected: Array, freedom: int, method: str) -> ChiSquared:
    if freedom < 1:
        raise EstimationError(sentence("a released variable takes only one value", fix="choose another variable"))
    used = expected > 0
    impossible = observed[~used].any()
    statistic = np.inf if impossible else float(((observed - expected)[used] ** 2 / expected[used]).sum())
    return ChiSquared(statistic, freedom, float(scipy.special.chdtrc(freedom, statistic)), method)


_EXPECTED = Option("expected", "P,Q", "Shares of the categories to test against, in the codebook's order.", numbers)
ESTIMATORS = (
    Estimator(
        "independence",
        "A,B",
        "Test whether two variables are independent.",
        independence_test,
        (METHOD, WEIGHT, STRATA, *DESIGN),
        example="sex,area",
        read=pair,
    ),
    Estimator(
        "fit",
        "A",
        "Test whether a variable has the shares in --expected.",
        goodness_of_fit_test,
        (_EXPECTED, METHOD, WEIGHT, STRATA, *DESIGN),
        example="sex",
        needs={"expected": "0.4,0.6"},
    ),
)
