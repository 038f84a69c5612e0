"""Counting the released records: the only place of the estimators that meets a data frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from postrand.codebook import Codebook
from postrand.codebook.coding import encode, index_values, is_null, to_floats
from postrand.data import frames
from postrand.errors import DataError, EstimationError, UsageError, sentence
from postrand.estimate.axes import Array, Axis, Layout, single
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix

_LARGEST_WEIGHT = 1e60
MAX_CELLS = 1 << 25
"""A dense table of more cells than this (256 MB in float64) is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Hold the sufficient statistics of a released table, per sampling stratum.

    ``counts`` has shape (H, K1, ..., Kd): the sum of weights in each released cell and stratum; ``squares`` the sum of
    squared weights; ``records`` the number of records in each stratum, shape (H,); ``dropped`` the number left
    out because a variable of the table is missing (policy ``keep``).
    """

    layout: Layout
    counts: Array
    squares: Array
    records: NDArray[np.int64]
    dropped: int = 0
    weighted: bool = False

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
    frame: Any, variables: Sequence[str], mechanism: Mechanism, weights: str | None = None, strata: str | None = None
) -> Tally:
    """Count the released records over the variables, and over all variables of the blocks that hold them.

    ``frame`` is a pandas, polars or pyarrow table. A record in which a variable of the table, or of a block that it
    needs, is missing under the policy ``keep`` is left out and counted in ``dropped``.

    Raises
    ------
    UsageError
        If no variable is named, or one is named twice.
    DataError
        If a column is missing, a value is not in the codebook, or a weight is negative or missing.
    EstimationError
        If the table has more than 2^25 cells.
    """
    extra = [name for name in (weights, strata) if name is not None]
    mechanism.require_shown(extra)
    table = frames.to_arrow(frame, list(dict.fromkeys([*needed_columns(variables, mechanism), *extra])))
    layout = layout_of(table, variables, mechanism)
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
    codes, present = cell_codes(
        table,
        layout.axes,
        codebook_of(table, mechanism, list(dict.fromkeys(name for axis in layout.axes for name in axis.names))),
    )
    weight = None if weights is None else weight_column(table, weights)[present]
    if weight is not None and weight.size and not weight.any():
        what = "every record without a missing value has weight 0"
        raise EstimationError(sentence(what, where=f"column {weights!r}", fix="use other weights or fewer variables"))
    group = np.zeros(1, dtype=np.int64) if strata is None else _numbered(stratum_codes(table, strata)[present])
    return _count(layout, shape, codes, weight, group, table.num_rows)


def needed_columns(variables: Sequence[str], mechanism: Mechanism) -> list[str]:
    """Return the variables and all other variables of their blocks, each once, in the order first needed."""
    return list(dict.fromkeys(name for held in _blocks(variables, mechanism) for name in held))


def _blocks(variables: Sequence[str], mechanism: Mechanism) -> dict[tuple[str, ...], list[str]]:
    """Return the variables grouped by the axis that shows them: a block's, or their own if they are unperturbed.

    A clear variable that a block of the table reads is shown on that block's axis.
    """
    names = tuple(variables)
    if isinstance(variables, str) or not names or len(set(names)) != len(names):
        raise UsageError(sentence("name each variable of the table only once", got=variables, wanted="a list of names"))
    homes = {name: mechanism[name].variables for name in names if name in mechanism.variables}
    for name in names:
        reading = [held for held in homes.values() if name in held]
        homes.setdefault(name, reading[0] if reading else (name,))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(homes[name], []).append(name)
    return groups


def layout_of(table: pa.Table, variables: Sequence[str], mechanism: Mechanism) -> Layout:
    """Return the axes that a table of the variables needs, in the order in which they are first named."""
    return layout(codebook_of(table, mechanism, needed_columns(variables, mechanism)), variables, mechanism)


def layout(book: Codebook, variables: Sequence[str], mechanism: Mechanism) -> Layout:
    """Return the same from a codebook that has all the variables, without data."""
    axes = []
    for held, shown in _blocks(variables, mechanism).items():
        perturbed = [name for name in shown if name in mechanism.variables]
        block = mechanism[perturbed[0]] if perturbed else None
        labels = tuple(book[name].code_labels for name in held)
        shape = tuple(len(texts) for texts in labels)
        cells = (
            np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T if block is None else block.cell_table(shape)
        )
        axes.append(Axis(held, labels, block.matrix if block else None, cells, tuple(held.index(n) for n in shown)))
    return Layout(tuple(axes), tuple(variables), tuple(name for name in variables if name in mechanism.variables))


def cell_codes(table: pa.Table, axes: Sequence[Axis], book: Codebook) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
    """Return the released cell on each axis of the records that miss none, and which records these are."""
    codes = [[encode(table.column(name), book[name]) for name in axis.names] for axis in axes]
    present = np.ones(table.num_rows, dtype=bool)
    for group in codes:
        for column in group:
            if column.size and column.min() < 0:
                present &= column >= 0
    if not present.all():
        codes = [[column[present] for column in group] for group in codes]
    return [_cell_of(axis, group) for axis, group in zip(axes, codes, strict=True)], present


def weight_column(table: pa.Table, name: str) -> Array:
    """Return the sampling weights; raises DataError where one is missing, negative or not a number."""
    column = table.column(name)
    try:
        values = to_floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(sentence("weights are not numbers", where=f"column {name!r}", got=column.type)) from None
    if column.null_count or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise DataError(sentence("weights must be finite, not negative and not all zero", where=f"column {name!r}"))
    if values.max() > _LARGEST_WEIGHT or values[values > 0].min() < 1 / _LARGEST_WEIGHT:
        what = "a weight is too large or too small: its square cannot be summed"
        wanted = f"0, or {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}"
        raise DataError(sentence(what, where=f"column {name!r}", wanted=wanted, fix="divide the weights by their mean"))
    return np.asarray(values, dtype=np.float64)


def stratum_codes(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Return the stratum of each record as 0..H-1; a stratum is a column that the mechanism leaves as it is."""
    column = table.column(name).combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
    indices = np.where(is_null(encoded.indices), len(encoded.dictionary), index_values(encoded.indices))
    return np.unique(indices, return_inverse=True)[1].astype(np.int64)


def codebook_of(table: pa.Table, mechanism: Mechanism, names: Sequence[str]) -> Codebook:
    """Take each variable from the mechanism's codebook, or from the frame's categorical types where it has none."""
    known = mechanism.codebook
    described = [n for n in names if known is not None and n in known and known[n].is_categorical]
    others = [n for n in names if n not in described]
    sizes = {b.variables[0]: b.matrix.size for b in mechanism.blocks if len(b.variables) == 1 and b.cells is None}
    found = {v.name: v for v in frames.codebook_of(table, others, sizes).variables} if others else {}
    if known is not None:
        found |= {n: known[n] for n in described}
    book = Codebook(tuple(found[n] for n in names))
    blocks = [b for b in mechanism.blocks if all(name in book for name in b.variables)]
    if blocks:
        Mechanism(blocks, book)  # raises where a matrix does not fit the categories
    return book


def _numbered(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the strata numbered anew: one whose records all miss a variable has no variance."""
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _cell_of(axis: Axis, codes: Sequence[NDArray[Any]]) -> NDArray[Any]:
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
    codes: Sequence[NDArray[Any]],
    weight: Array | None,
    group: NDArray[np.int64],
    rows: int,
) -> Tally:
    index = np.zeros(len(codes[0]), dtype=np.int64)
    for size, column in zip(shape, codes, strict=True):
        index *= size
        index += column
    cells, strata = math.prod(shape), int(group.max(initial=0)) + 1
    if strata > 1:
        if cells * strata > MAX_CELLS:
            raise EstimationError(
                sentence("the table by stratum is too large", got=cells * strata, wanted=f"<= {MAX_CELLS}")
            )
        index += group * cells
    records = np.bincount(group, minlength=strata) if group.size == index.size else np.array([index.size])

    def summed(w: Array | None) -> Array:
        total = np.bincount(index, weights=w, minlength=strata * cells)
        return total.astype(np.float64, copy=False).reshape(strata, *shape)

    counts = summed(weight)
    squares = counts if weight is None else summed(weight * weight)
    return Tally(layout, counts, squares, records, rows - len(index), weight is not None)
