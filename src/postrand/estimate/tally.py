"""Counting the released records: the only place of the estimators that meets a data frame."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from postrand.codebook import Codebook
from postrand.codebook.coding import encode
from postrand.codebook.survey_design import SurveyDesign
from postrand.data import frames
from postrand.data.described import released_table
from postrand.errors import DataError, EstimationError, SpecificationError, UsageError, raise_all, sentence
from postrand.estimate.axes import Array, Axis, Layout, single
from postrand.estimate.split_axis import SplitAxis, split_axes, split_axis
from postrand.estimate.split_members import household_of
from postrand.estimate.survey_columns import refuse_identifiers, require_as_is, stratum_codes, weight_column
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_sample import Sample, read_sample
from postrand.estimate.survey_shared import within_units
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.units import warn_shared

MAX_CELLS = 1 << 25
"""A dense table of more cells than this (256 MB in float64) is refused."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Hold what all records of a split release weigh, not only those that show the variables of a table.

    ``total`` is the sum of their weights, those without a missing value; ``unit`` the sum of the squares of each one's
    share of it, ``1/n`` without weights.
    """

    total: float
    unit: float


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Hold where records are: ``codes`` the released cell on each axis, of the records ``present`` (n,) that have one.

    ``weight`` (n,) is that of the subset that each record shows, 0 where it does not show the variables; None where
    none of them is in a split.
    """

    codes: list[NDArray[Any]]
    present: NDArray[np.bool_]
    weight: Array | None = None

    @property
    def covering(self) -> int:
        """The number of records that show the variables, missing values or not."""
        return len(self.present) if self.weight is None else int(np.count_nonzero(self.weight))

    def combination(self, kept: NDArray[np.bool_], group: NDArray[np.int64] | None) -> Array | None:
        """Return the weight of the subset of each record ``kept``: in each stratum those of all sum to its records.

        Which subset a record shows was drawn without looking at it, so this is unbiased given the numbers that show
        each; None where no variable is in a split.

        Raises
        ------
        EstimationError
            If no record of a stratum shows the variables.
        """
        if self.weight is None:
            return None
        at = np.zeros(len(self.weight), dtype=np.int64) if group is None else group
        records, shown = np.bincount(at), np.bincount(at, weights=self.weight)
        if not (shown > 0).all():
            where = "" if group is None else " of a stratum"
            what, fix = f"no record{where} shows all these variables", "use fewer variables"
            raise EstimationError(sentence(what, fix=fix if group is None else f"merge strata, or {fix}"))
        return np.asarray(self.weight[kept] * (records / shown)[at[kept]])


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """Hold what a survey design adds to counts: ``sums`` (G, K1, ..., Kd) of weights by group of the ``sample``.

    ``drawn`` (K1, ..., Kd), None without a finite population, are the sums of squared weights times the share of the
    units that was drawn. ``shared``: records of a unit share draws, so the perturbation part is not known.
    """

    sample: Sample
    sums: Array
    drawn: Array | None
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Hold the sufficient statistics of a released table, per sampling stratum.

    ``counts`` has shape (H, K1, ..., Kd): the sum of weights in each released cell and stratum; ``squares`` the sum of
    squared weights; ``records`` the number of records in each stratum, shape (H,); ``dropped`` the number left
    out because a variable of the table is missing (policy ``keep``). Where variables are in a split, weights are
    multiplied by those of the subsets, and ``whole`` is about all records. ``surveyed`` is there with a survey design.
    """

    layout: Layout
    counts: Array
    squares: Array
    records: NDArray[np.int64]
    dropped: int = 0
    weighted: bool = False
    whole: Whole | None = None
    surveyed: Surveyed | None = None

    def __post_init__(self) -> None:
        if not self.records.sum():
            raise DataError(
                sentence("no record has values of all variables of the table", fix="check the data and the variables")
            )

    @property
    def total(self) -> float:
        """The sum of weights."""
        return float(self.counts.sum())

    @property
    def released(self) -> Array:
        """The released counts over all strata, shape (K1, ..., Kd)."""
        return np.asarray(self.counts.sum(axis=0))


def from_counts(
    counts: ArrayLike,
    matrices: Sequence[TransitionMatrix | None],
    names: Sequence[str] = (),
    labels: Sequence[Sequence[str]] = (),
) -> Tally:
    """Build a tally from an array of released frequencies, one axis and one matrix (or None) for each variable.

    Raises
    ------
    DataError
        If a count is negative or not finite, or all are zero.
    UsageError
        If the number of axes and matrices differ.

    Examples
    --------
    >>> tally = from_counts([30, 10], [TransitionMatrix.identity(2)], ["sex"])
    >>> tally.total, tally.layout.variables
    (40.0, ('sex',))
    """
    counts = np.asarray(counts, dtype=np.float64)
    if counts.ndim != len(matrices):
        raise UsageError(sentence("axes and matrices differ in number", got=counts.ndim, wanted=len(matrices)))
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise DataError(sentence("counts must be finite and not negative"))
    names = tuple(names) or tuple(f"v{i}" for i in range(counts.ndim))
    texts = tuple(labels) or tuple(tuple(str(c) for c in range(size)) for size in counts.shape)
    axes = tuple(single(n, t, m) for n, t, m in zip(names, texts, matrices, strict=True))
    perturbed = tuple(n for n, m in zip(names, matrices, strict=True) if m is not None)
    return Tally(Layout(axes, names, perturbed), counts[None], counts[None], np.array([round(counts.sum())]))


def tally(
    frame: Any,
    variables: Sequence[str],
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    prior: Mapping[str, ArrayLike] | None = None,
    combine: bool = True,
    design: SurveyDesign | None = None,
) -> Tally:
    """Count the released records over the variables, and over all variables of the blocks that hold them.

    ``frame`` is a pandas, polars or pyarrow table. A record in which a variable of the table, or of a block that it
    needs, is missing under the policy ``keep`` is left out and counted in ``dropped``; all units of a survey ``design``
    count all the same. Of a split only the records
    count that show its variables of the table; ``combine=False`` leaves out the weights of their subsets, for
    likelihoods.

    Raises
    ------
    UsageError
        If no variable is named, one is named twice, or weights or strata are not released as they are.
    DataError
        If a column is missing, a value is not in the codebook, or a weight is negative or missing.
    EstimationError
        If the table has more than 2^25 cells, or no record shows all of its variables.
    """
    if (design := design_of(design, weights, strata)) is not None:
        weights = design.weights
    sample = None if design is None else read_sample(frame, mechanism, design)
    extra = [name for name in (weights, strata) if name is not None]
    mechanism.require_shown(extra)
    refuse_identifiers(mechanism, [*variables, weights])
    require_as_is(mechanism, weights, strata)
    shared = within_units(sample, mechanism, variables, frame)
    if not shared:
        warn_shared(mechanism, variables)
    table = released_table(frame, list(dict.fromkeys([*read_columns(variables, mechanism), *extra])), mechanism)
    layout = layout_of(table, variables, mechanism, prior)
    shape = tuple(axis.size for axis in layout.axes)
    if math.prod(shape) > MAX_CELLS:
        raise EstimationError(
            sentence(
                "the table is too large",
                got=f"{math.prod(shape)} cells",
                wanted=f"<= {MAX_CELLS}",
                fix="use fewer variables",
            )
        )
    book = codebook_of(table, mechanism, list(dict.fromkeys(name for axis in layout.axes for name in axis.names)))
    cells = cell_codes(table, layout.axes, book)
    given = None if weights is None else weight_column(table, weights)
    weight = None if given is None else given[cells.present]
    if weight is not None and weight.size and not weight.any():
        what = "every record without a missing value has weight 0"
        raise EstimationError(sentence(what, where=f"column {weights!r}", fix="use other weights or fewer variables"))
    every = None if strata is None else stratum_codes(table, strata)
    group = np.zeros(1, dtype=np.int64) if every is None else _numbered(every[cells.present])
    share = cells.combination(cells.present, every) if combine else None
    if share is None:
        counted = _count(layout, shape, cells, weight, group)
    else:
        counted = _count(layout, shape, cells, share if weight is None else share * weight, group)
        members = bool(household_of(mechanism, [*variables]))  # terms of households of different sizes: as weights
        if weight is None and strata is None and sample is None and not members:
            counted = replace(counted, squares=_exact_squares(counted.counts, cells, layout, share), weighted=False)
        else:
            counted = replace(counted, weighted=weight is not None or members)
    if sample is not None:
        surveyed = _surveyed(sample, cells, layout, shape, share)
        counted = replace(counted, surveyed=replace(surveyed, shared=shared))
    return counted if cells.weight is None else replace(counted, whole=_whole(cells, given))


def _surveyed(sample: Sample, cells: Cells, layout: Layout, shape: tuple[int, ...], share: Array | None) -> Surveyed:
    """Return the sums by group of a sample."""
    rows, index, size = np.flatnonzero(cells.present), _index(cells.codes, layout), math.prod(shape)
    sums = sample.sums(rows, index, size, share).reshape(-1, *shape)
    if sample.drawn is None:
        return Surveyed(sample, sums, None)
    weight = sample.weight[rows] if share is None else sample.weight[rows] * share
    return Surveyed(sample, sums, _summed(index, weight**2 * sample.drawn[rows], shape))


def _whole(cells: Cells, weights: Array | None) -> Whole:
    """Return what all records weigh; how many of those that do not show a variable miss it is not known, but alike."""
    every = np.ones(len(cells.present)) if weights is None else weights
    shown = every if cells.weight is None else every * cells.weight
    total = float(every.sum())
    return Whole(total * float(shown[cells.present].sum() / shown.sum()), float((every**2).sum()) / total**2)


def _exact_squares(counts: Array, cells: Cells, layout: Layout, share: Array) -> Array:
    """Return sums of squares with which the stated covariance of a table is exactly unbiased, weights being unequal.

    Of n independent terms with one mean and weights a that sum to 1, ``Σ a²/(1 − 2a) (c − ĉ)²`` over ``1 + Σ a²/(1 −
    2a)`` is the exactly unbiased estimate of the variance of ``ĉ = Σ a c``; it is ``Σ (c − ĉ)² / (n (n − 1))`` where
    all weights are equal. Each term is multiplied by (n − 1)/n here, which is undone where the covariance is taken.

    Raises
    ------
    EstimationError
        If one record has half of the weight: too few show the variables.
    """
    a, n = share / share.sum(), len(share)
    if n and a.max() >= 0.5:
        what = "too few records show every variable of the table"
        raise EstimationError(sentence(what, fix="use fewer variables, or more records"))
    terms = a**2 / (1 - 2 * a)
    terms *= float(counts.sum()) ** 2 / (1 + terms.sum()) * (n - 1) / n
    return _summed(_index(cells.codes, layout), terms, counts.shape)


def needed_columns(variables: Sequence[str], mechanism: Mechanism) -> list[str]:
    """Return the variables and all other variables of their blocks, each once, in the order first needed."""
    held = list(dict.fromkeys(name for held in _blocks(variables, mechanism) for name in held))
    if mechanism.split is None or not set(held) & set(mechanism.partly):
        return held
    return list(dict.fromkeys([*held, *mechanism.partly, *mechanism.split.given]))


def read_columns(variables: Sequence[str], mechanism: Mechanism) -> list[str]:
    """Return the same, and the household numbers where these say for how many records one stands."""
    held, household = needed_columns(variables, mechanism), household_of(mechanism, [*variables])
    return held if not household or household in held else [*held, household]


def _blocks(variables: Sequence[str], mechanism: Mechanism) -> dict[tuple[str, ...], list[str]]:
    """Return the variables grouped by the axis that shows them: a block's, or their own if they are unperturbed.

    A clear variable that a block of the table reads is shown on that block's axis. The variables of a split have one
    axis together, without those that are not asked.
    """
    names = tuple(variables)
    named = names and not isinstance(variables, str) and all(isinstance(name, str) for name in names)
    if not named or len(set(names)) != len(names):
        got = ", ".join(names) if named else repr(variables)
        raise UsageError(sentence("name each variable of the table only once", got=got, wanted="a list of names"))
    together = tuple(name for name in names if name in mechanism.partly)
    homes = {
        name: together if name in together else mechanism[name].variables
        for name in names
        if name in mechanism.variables
    }
    for name in names:
        reading = [held for held in homes.values() if name in held and held != together]
        homes.setdefault(name, reading[0] if reading else (name,))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(homes[name], []).append(name)
    return groups


def layout_of(
    table: pa.Table, variables: Sequence[str], mechanism: Mechanism, prior: Mapping[str, ArrayLike] | None = None
) -> Layout:
    """Return the axes that a table of the variables needs, in the order in which they are first named."""
    return layout(codebook_of(table, mechanism, needed_columns(variables, mechanism)), variables, mechanism, prior)


def layout(
    book: Codebook, variables: Sequence[str], mechanism: Mechanism, prior: Mapping[str, ArrayLike] | None = None
) -> Layout:
    """Return the same from a codebook that has all the variables, without data."""
    axes: list[Axis] = []
    for held, shown in _blocks(variables, mechanism).items():
        if mechanism.split is not None and held[0] in mechanism.partly:
            shared = [name for names in mechanism.shared.values() for name in names]
            inner = household_of(mechanism, [*held])
            axes.append(split_axis(mechanism.split, book, held, prior, inner, shared=shared))
            continue
        perturbed = [name for name in shown if name in mechanism.variables]
        block = mechanism[perturbed[0]] if perturbed else None
        labels = tuple(book[name].code_labels for name in held)
        shape = tuple(len(texts) for texts in labels)
        cells = (
            np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T if block is None else block.cell_table(shape)
        )
        axes.append(Axis(held, labels, block.matrix if block else None, cells, tuple(held.index(n) for n in shown)))
    if prior is not None and not split_axes(axes):
        what, fix = "a prior is given, but no variable of the table is in a split", "leave out the prior"
        raise UsageError(sentence(what, got=", ".join(variables), fix=fix))
    return Layout(tuple(axes), tuple(variables), tuple(name for name in variables if name in mechanism.variables))


def cell_codes(table: pa.Table, axes: Sequence[Axis], book: Codebook) -> Cells:
    """Return the released cell on each axis of the records that have one: they miss no variable, and show all."""
    present, weight = np.ones(table.num_rows, dtype=bool), None
    codes: list[list[NDArray[Any]]] = []
    for axis in axes:
        if isinstance(axis, SplitAxis):
            cell, weight = axis.released(table)
            codes.append([cell])
        else:
            codes.append([encode(table.column(name), book[name]) for name in axis.names])
    for group in codes:
        for column in group:
            if column.size and column.min() < 0:
                present &= column >= 0
    if not present.all():
        codes = [[column[present] for column in group] for group in codes]
    return Cells([_cell_of(axis, group) for axis, group in zip(axes, codes, strict=True)], present, weight)


def _check_categories(table: pa.Table, names: Sequence[str]) -> None:
    """Raise SpecificationError with each of these columns, which have no categories in the codebook, that is numbers.

    >>> _check_categories(pa.table({"sex": ["f"]}), ["sex"])
    """
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    problems = [
        sentence(f"{n} is a number without categories", fix="ask for its mean or quantiles: --mean or --quantile")
        for n in names
        if any(is_(table.schema.field(n).type) for is_ in numbers)
    ]
    raise_all(SpecificationError, problems)


def codebook_of(table: pa.Table, mechanism: Mechanism, names: Sequence[str]) -> Codebook:
    """Take each variable from the mechanism's codebook, or from the frame's categorical types where it has none."""
    # The types of a frame list "(not released)" too, so they do not tell the categories of a split.
    known = mechanism.require_codebook() if set(names) & set(mechanism.partly) else mechanism.codebook
    described = [n for n in names if known is not None and n in known and known[n].is_categorical]
    others = [n for n in names if n not in described]
    _check_categories(table, [n for n in others if known is not None and n in known])
    sizes = {b.variables[0]: b.matrix.size for b in mechanism.blocks if len(b.variables) == 1 and b.cells is None}
    found = {v.name: v for v in frames.codebook_of(table, others, sizes).variables} if others else {}
    if known is not None:
        found |= {n: known[n] for n in described}
    book = Codebook(tuple(found[n] for n in names))
    blocks = [b for b in mechanism.blocks if all(name in book for name in b.variables)]
    if blocks:
        Mechanism(blocks, book, units=mechanism.units)  # raises where a matrix does not fit the categories
    return book


def _numbered(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the strata numbered anew: one whose records all miss a variable has no variance."""
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _cell_of(axis: Axis, codes: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if isinstance(axis, SplitAxis):
        return codes[0]
    if len(codes) == 1 and np.array_equal(axis.cells[:, 0], np.arange(axis.size)):
        return codes[0]
    shape = tuple(len(texts) for texts in axis.labels)
    position = np.full(math.prod(shape), -1, dtype=np.int64)
    position[np.ravel_multi_index(tuple(axis.cells.T), shape)] = np.arange(axis.size)
    found = position[np.ravel_multi_index(tuple(codes), shape)]
    if found.size and found.min() < 0:
        raise DataError(
            sentence(
                "the data contain a combination that the block never releases", where="block " + "*".join(axis.names)
            )
        )
    return found


def _count(
    layout: Layout,
    shape: tuple[int, ...],
    cells: Cells,
    weight: Array | None,
    group: NDArray[np.int64],
) -> Tally:
    size, strata, n = math.prod(shape), int(group.max(initial=0)) + 1, len(cells.codes[0])
    index = _index(cells.codes, layout)
    if strata > 1:
        if size * strata > MAX_CELLS:
            raise EstimationError(
                sentence("the table by stratum is too large", got=size * strata, wanted=f"<= {MAX_CELLS}")
            )
        index += group * size
    records = np.bincount(group, minlength=strata) if group.size == n else np.array([n])
    counts = _summed(index, weight, (strata, *shape))
    squares = counts if weight is None else _summed(index, weight * weight, (strata, *shape))
    return Tally(layout, counts, squares, records, cells.covering - n, weight is not None)


def _index(codes: Sequence[NDArray[Any]], layout: Layout) -> NDArray[np.int64]:
    """Return the released cell of each record in C order of the axes."""
    index = np.zeros(len(codes[0]), dtype=np.int64)
    for axis, column in zip(layout.axes, codes, strict=True):
        index *= axis.size
        index += column
    return index


def _summed(index: NDArray[np.int64], weight: Array | None, shape: tuple[int, ...]) -> Array:
    """Return the sums of weights (None: of ones) by index."""
    total = np.bincount(index, weights=weight, minlength=math.prod(shape))
    return total.astype(np.float64, copy=False).reshape(shape)
