"""From released records to what group statistics need: released cells, values, and one operator for each axis."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import category_numbers, encode, kind_text, to_floats
from postrand.codebook.survey_design import SurveyDesign
from postrand.data.described import released_table
from postrand.errors import DataError, EstimationError, UsageError, sentence
from postrand.estimate.axes import Array, Axis, Layout, Operator, apply_maps
from postrand.estimate.functionals import IDENTIFIED, inverse
from postrand.estimate.survey_columns import refuse_identifiers, require_as_is, stratum_codes, weight_column
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_sample import Sample, read_sample
from postrand.estimate.survey_shared import within_units
from postrand.estimate.tally import MAX_CELLS, Cells, cell_codes, codebook_of, layout_of, read_columns
from postrand.mechanism import Mechanism
from postrand.mechanism.units import warn_shared
from postrand.support.column_wordings import NUMBERED_BANDS

MAX_STRATUM_CELLS = 1 << 22
"""Released cells times sampling strata: each statistic holds some fifteen sums of this size."""

_LARGEST = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Hold the complete released records of a group statistic.

    ``layout`` has the axes of the ``by`` variables and of perturbed values, and shows the former. ``cell`` is the
    released cell of each record in C order of the axes, ``stratum`` its sampling stratum 0..H-1 with ``sizes`` (H,)
    records each, ``weights`` in units of ``unit``, the largest, None where all are 1; ``share``, None without a
    split, are the weights of the subsets that records show, and a factor of ``weights``. ``rows`` are their places
    in the frame, and ``sample`` is its survey design, None without one; ``shared``: records of its units share
    draws, so the perturbation's part is not known. ``clear`` are the unperturbed values by name, ``scores`` the
    numbers of a perturbed variable's codes (nan for missing) by name, and ``shown`` the place of that variable:
    number of the axis, position on it. ``schema`` has what the frame says of its columns.
    """

    layout: Layout
    cell: NDArray[np.int64]
    stratum: NDArray[np.int64]
    sizes: NDArray[np.int64]
    weights: Array | None
    unit: float
    clear: dict[str, Array]
    scores: dict[str, Array]
    shown: dict[str, tuple[int, int]]
    dropped: int
    rows: NDArray[np.int64]
    share: Array | None = None
    sample: Sample | None = None
    shared: bool = False
    schema: pa.Schema | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of released cells on each axis."""
        return tuple(axis.size for axis in self.layout.axes)

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.cell)

    @property
    def total(self) -> float:
        """The sum of weights."""
        return float(self.count) if self.weights is None else self.unit * float(self.weights.sum())

    def sums(self, values: Array | None) -> Array:
        """Return the sums of a value of each record (None: of ones) by stratum and cell, shape (H, K1, ..., Kd)."""
        cells = math.prod(self.shape)
        index = self.cell if len(self.sizes) == 1 else self.stratum * cells + self.cell
        summed = np.bincount(index, weights=values, minlength=len(self.sizes) * cells)
        return summed.astype(np.float64, copy=False).reshape(len(self.sizes), *self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Describe a quantity of the true record that is summed within groups.

    It is the product of ``values``, one number for each record (None: 1), and of a function of the true cell, with
    ``functions`` one array (K,) for each axis (None: 1). ``everywhere``: each group sums it over all records.
    """

    values: Array | None
    functions: tuple[Array | None, ...]
    everywhere: bool = False

    def operators(
        self, axes: Sequence[Axis], like: tuple[Measure, tuple[Operator, ...]] | None = None
    ) -> tuple[Operator, ...]:
        """Return B for each axis, shape (L, K): row g has ``M b = 1[group g] × function``.

        ``like`` is another measure with its operators, taken over where the functions are the same.
        """
        if self.everywhere:
            return tuple(np.ones((math.prod(axis.kept_shape), axis.size)) for axis in axes)
        known = ((None, None),) * len(axes) if like is None else tuple(zip(like[0].functions, like[1], strict=True))
        return tuple(
            b if like is not None and f is g else operator_of(axis, f)
            for axis, f, (g, b) in zip(axes, self.functions, known, strict=True)
        )

    def times(self, other: Measure) -> Measure:
        """Return the product of two measures."""
        values = _product(self.values, other.values)
        pairs = zip(self.functions, other.functions, strict=True)
        return Measure(values, tuple(_product(f, g) for f, g in pairs))


def _product(left: Array | None, right: Array | None) -> Array | None:
    if left is None or right is None:
        return left if right is None else right
    return left * right


def operator_of(axis: Axis, function: Array | None) -> Operator:
    """Return the operator of an axis: for each group shown the b with ``M b = 1[group] × function``.

    Where M is singular any such b serves, for the equation stays unbiased.

    Raises
    ------
    EstimationError
        If no such b exists.
    """
    project = axis.projection
    if function is None and axis.matrix is None:
        return project
    wanted = np.eye(len(axis.cells)) if project is None else project.T
    if function is not None:
        wanted = wanted * function[:, None]
    if axis.matrix is None:
        return np.ascontiguousarray(wanted.T)
    b = apply_maps([inverse(axis.matrix)], wanted)
    if np.abs(axis.matrix.times(b) - wanted).max() > IDENTIFIED * max(float(np.abs(wanted).max()), 1e-300):
        raise EstimationError(
            sentence(
                "the release does not identify this statistic of every group",
                where="*".join(axis.names),
                got="a singular or nearly singular transition matrix",
                fix="do not group by this variable; in Python, estimate.identified names the groups of categories that "
                "the release distinguishes",
            )
        )
    return np.ascontiguousarray(b.T)


def read(
    frame: Any,
    variables: Sequence[str],
    mechanism: Mechanism,
    by: str | Sequence[str] | None,
    weights: str | None,
    strata: str | None,
    design: SurveyDesign | None = None,
    *,
    as_numbers: bool = True,
) -> Records:
    """Select the columns and the records that miss none of them; ``as_numbers=False``: the variables' categories count.

    Raises
    ------
    UsageError
        If a variable is named twice, or weights or strata are perturbed.
    DataError
        If a column is missing, a value is not a number or not in the codebook, or a weight is negative or missing.
    EstimationError
        If a variable was released by a law on ranks and the statistic is not right as released, or there are more
        than 2^22 cells by strata.
    """
    if (design := design_of(design, weights, strata)) is not None:
        weights = design.weights
    sample = None if design is None else read_sample(frame, mechanism, design)
    groups = _names(by)
    _check_names(variables, groups, mechanism, weights, strata)
    hidden = [n for n in dict.fromkeys(variables) if n in mechanism.variables or not as_numbers]
    clear = [n for n in dict.fromkeys(variables) if n not in hidden]
    asked = [*groups, *hidden]
    columns = read_columns(asked, mechanism) if asked else []
    extra = [n for n in (weights, strata) if n is not None]
    shared = within_units(sample, mechanism, asked, frame)
    if not shared:
        warn_shared(mechanism, asked)
    table = released_table(frame, list(dict.fromkeys([*columns, *clear, *extra])), mechanism)
    axes: tuple[Axis, ...] = ()
    cells = Cells([], np.ones(table.num_rows, dtype=bool))
    if asked:
        axes = layout_of(table, asked, mechanism).axes
        book = codebook_of(table, mechanism, list(dict.fromkeys(n for axis in axes for n in axis.names)))
        cells = cell_codes(table, axes, book)
    values, complete = _clear_values(table, clear, mechanism.codebook)
    both = cells.present & complete
    shape = tuple(axis.size for axis in axes)
    group = None if strata is None else stratum_codes(table, strata)
    share = cells.combination(both, group)
    stratum, sizes = _compact(np.zeros(int(both.sum()), dtype=np.int64) if group is None else group[both])
    if math.prod(shape) * len(sizes) > (MAX_CELLS if len(sizes) == 1 else MAX_STRATUM_CELLS) // 8:
        raise EstimationError(
            sentence(
                "the groups have too many released cells",
                got=f"{math.prod(shape)} cells, {len(sizes)} strata",
                wanted=f"<= {MAX_STRATUM_CELLS}",
                fix="use fewer variables, or merge strata",
            )
        )
    inside = both[cells.present]
    flat = np.zeros(int(both.sum()), dtype=np.int64)
    for size, column in zip(shape, cells.codes, strict=True):
        flat = flat * size + column[inside]
    if not len(flat):
        raise DataError(sentence("no record has values of all variables of the statistic", fix="check the data"))
    at = {n: next((a, axis.names.index(n)) for a, axis in enumerate(axes) if n in axis.kept_names) for n in hidden}
    scores = {n: _scores(book[n]) for n in hidden} if as_numbers else {}
    weight, unit = (None, 1.0) if weights is None else _in_units(weight_column(table, weights)[both], weights)
    if share is not None:
        weight = share if weight is None else share * weight
        weight, unit = weight / weight.max(), unit * float(weight.max())
    showing = tuple(
        dataclasses.replace(axis, kept=tuple(i for i in axis.kept if axis.names[i] in groups)) for axis in axes
    )
    return Records(
        layout=Layout(showing, groups, tuple(n for n in groups if n in mechanism.variables)),
        cell=flat,
        stratum=stratum,
        sizes=sizes,
        weights=weight,
        unit=unit,
        share=share,
        clear={n: column[both] for n, column in values.items()},
        scores=scores,
        shown=at,
        dropped=cells.covering - len(flat),
        rows=np.flatnonzero(both),
        sample=sample,
        shared=shared,
        schema=table.schema,
    )


def measure(records: Records, name: str) -> Measure:
    """Return the value of a variable, 0 where its category is missing."""
    if name in records.clear:
        return Measure(records.clear[name], (None,) * len(records.shape))
    return function_of(records, name, np.nan_to_num(records.scores[name]))


def answered(records: Records, names: Sequence[str]) -> Measure:
    """Return 1 where none of the variables is missing as a category, else 0."""
    one = Measure(None, (None,) * len(records.shape))
    for name in names:
        if name in records.scores and np.isnan(records.scores[name]).any():
            one = one.times(function_of(records, name, (~np.isnan(records.scores[name])).astype(np.float64)))
    return one


def function_of(records: Records, name: str, by_code: Array) -> Measure:
    """Return a function of the codes of a perturbed variable, as a measure."""
    axis, position = records.shown[name]
    functions: list[Array | None] = [None] * len(records.shape)
    functions[axis] = by_code[records.layout.axes[axis].cells[:, position]]
    return Measure(None, tuple(functions))


def _names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else tuple(by)
    if not all(isinstance(n, str) for n in names) or len(set(names)) != len(names):
        raise UsageError(sentence("name each variable of 'by' once", got=by, wanted="a name, or a list of names"))
    return names


def _check_names(
    variables: Sequence[str], groups: tuple[str, ...], mechanism: Mechanism, weights: str | None, strata: str | None
) -> None:
    for name in variables:
        if not isinstance(name, str) or name in groups:
            what = "a variable is both summed and named in 'by'" if isinstance(name, str) else "not a name"
            raise UsageError(sentence(what, got=repr(name), fix="leave it out of 'by'"))
    refuse_identifiers(mechanism, [*variables, *groups, weights])
    require_as_is(mechanism, weights, strata)
    for column in mechanism.numerical:
        name = column.variable
        if name not in (*variables, *groups):
            continue
        alone = tuple(variables) == (name,) and not groups and weights is None and strata is None
        if not (alone and column.form == "permute"):
            what = f"variable {name!r} was released by a rank law, and no statistic can be corrected for it"
            fix = "leave it out; its unweighted mean over all records is correct as released. For means by group and "
            fix += f"by weights, whoever makes the release can give it {NUMBERED_BANDS}, and perturb these in a block"
            raise EstimationError(sentence(what, fix=fix))


def _in_units(weights: Array, name: str) -> tuple[Array, float]:
    """Return weights of at most 1, and their unit: the fourth powers of these neither overflow nor vanish."""
    unit = float(weights.max()) or 1.0
    if unit > _LARGEST**0.5:
        raise DataError(sentence("a weight is too large", where=f"column {name!r}", wanted=f"<= {_LARGEST**0.5:g}"))
    return weights / unit, unit


def _compact(group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return strata numbered 0..H-1 without gaps, and the number of records in each."""
    if not group.size or not group.any():
        return np.zeros(len(group), dtype=np.int64), np.array([len(group)], dtype=np.int64)
    _, codes, sizes = np.unique(group, return_inverse=True, return_counts=True)
    return codes.astype(np.int64), sizes.astype(np.int64)


def _clear_values(
    table: pa.Table, names: Sequence[str], book: Codebook | None
) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """Return the unperturbed values by name, and which records miss none."""
    complete = np.ones(table.num_rows, dtype=bool)
    values = {}
    for name in names:
        column = table.column(name)
        if book is not None and name in book and book[name].is_categorical:
            codes = encode(column, book[name])
            values[name] = _scores(book[name])[codes]
            values[name][codes < 0] = np.nan
        else:
            values[name] = _floats(column, name)
        complete &= ~np.isnan(values[name])
    return values, complete


def _floats(column: pa.ChunkedArray, name: str) -> Array:
    """Return numbers as float64, nan where missing."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    wanted = "numbers, or categories that are numbers in the codebook"
    if not (
        pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
        or pa.types.is_boolean(column.type)
        or pa.types.is_decimal(column.type)
    ):
        got = kind_text(column.type)
        raise DataError(sentence("the column is not numeric", where=f"column {name!r}", got=got, wanted=wanted))
    values = to_floats(column)
    if (np.abs(values) > _LARGEST).any():
        what = "the column has values that are too large, or not finite"
        raise DataError(sentence(what, where=f"column {name!r}", wanted=f"<= {_LARGEST:g}"))
    return values


def _scores(variable: Variable) -> Array:
    """Return the numbers of a variable's codes, nan for those that mean no answer; a CSV file has numbers as text."""
    numbers = category_numbers(variable)
    if not numbers:
        raise DataError(
            sentence(
                "the categories are not numbers",
                where=f"variable {variable.name!r}",
                fix="ask for a table, which takes any categories. To calculate with the variable, whoever makes the "
                f"release can give it {NUMBERED_BANDS}; in Python, "
                "estimate.quantities takes a number for each category",
            )
        )
    return np.array(numbers + [math.nan] * (variable.size - len(numbers)))
