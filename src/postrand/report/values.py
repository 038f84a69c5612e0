"""What the report says in numbers: computed from the law and from counts of released values, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.engines.summary import Summary
from postrand.errors import EstimationError
from postrand.estimate import Estimate, from_counts, from_tally
from postrand.estimate.axes import Axis, Layout
from postrand.estimate.tally import Tally
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.block import given_codes
from postrand.mechanism.matrix import TransitionMatrix

MAX_HEAT = 25
"""A matrix of more categories is summarised, not drawn."""
MAX_ROWS = 30
MAX_ESTIMATED = 1_000
EXPECTED_RECORDS = 1_000_000
"""So many that what one record is worth no longer depends on their number."""
HEAT_BUDGET, ROW_BUDGET, VARIABLE_BUDGET = 6_000, 1_200, 300
"""What one page holds in all, so that it stays under 2 MB whatever the mechanism."""


@dataclass(frozen=True, slots=True)
class VariableView:
    """Say what happened to one perturbed variable; ``unchanged`` is the expected share of values left as they were."""

    name: str
    label: str
    size: int
    partners: tuple[str, ...]
    lowest: float
    highest: float
    unchanged: float | None
    effective: float | None
    records: int
    epsilon: float
    prior: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a block's matrix that is drawn by itself: one stratum, or the whole matrix with the name "".

    ``cells`` are its rows and columns in the matrix, ``labels`` their texts without those of the stratum.
    """

    name: str
    labels: tuple[str, ...]
    cells: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class BlockView:
    """Show one block: its matrix where it is small, and its categories.

    ``panels`` are the parts of the matrix that are drawn; none of a large one. ``shown`` are the positions of the
    categories listed: all, or the most frequent released ones. ``corrected`` is None where the
    release does not identify the true shares; ``reason`` then says why. ``positions`` are the codes of each cell, shape
    (K, J).
    """

    name: str
    labels: tuple[str, ...]
    law: TransitionMatrix
    panels: tuple[Panel, ...]
    shown: tuple[int, ...]
    released: NDArray[np.float64]
    records: int
    positions: NDArray[np.int32]
    corrected: Estimate | None
    reason: str

    def cells(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of an estimate's table (one axis for each variable) cell by cell, shape (K,)."""
        return np.asarray(table[tuple(self.positions.T)])

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.labels)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The probabilities, rows true, columns released."""
        return self.law.array

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """The probability that each category is released unchanged."""
        return self.law.diagonal


@dataclass(frozen=True, slots=True)
class TableView:
    """Show a two-way table: released counts beside corrected ones with standard errors, shapes (rows, columns)."""

    names: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    released: NDArray[np.int64]
    corrected: NDArray[np.float64]
    error: NDArray[np.float64]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Everything of the page that is a number."""

    variables: tuple[VariableView, ...]
    blocks: tuple[BlockView, ...]
    table: TableView | None


def page_values(mechanism: Mechanism, summary: Summary) -> Values:
    """Compute the page's numbers; deterministic, and a function of the release alone."""
    book = mechanism.require_codebook()
    parts = [
        (block, counts, _estimate(block, book, counts, summary.households.get(place)))
        for place, (block, counts) in enumerate(zip(mechanism.blocks, summary.blocks, strict=True))
    ]
    variables = [v for block, counts, cells in parts for v in _variables(block, book, counts, cells)]
    return Values(tuple(variables), tuple(_blocks(parts, book)), _table(mechanism, summary))


def expected_shares(block: Block, book: Codebook, frequencies: NDArray[np.float64]) -> dict[str, float | None]:
    """Return what one released record is worth, in unperturbed ones, for the table of each perturbed variable.

    With ``frequencies`` π, (K,), of the block's cells: ``(1 − Σπ_v²) / V_v``, V_v the summed variance of the unbiased
    shares of v a record, the report's effective sample size over the records as they grow. None where no table can be
    estimated, or the block has too many cells.
    """
    if block.matrix.size > MAX_ESTIMATED:
        return dict.fromkeys(block.perturbed)
    released = EXPECTED_RECORDS * (block.matrix.array.T @ frequencies)
    views = _variables(block, book, released, _estimate(block, book, released))
    found = {view.name: view.effective for view in views}
    return {name: None if m is None else min(1.0, m / (EXPECTED_RECORDS - 1)) for name, m in found.items()}


def _estimate(
    block: Block, book: Codebook, counts: NDArray[Any], households: NDArray[np.int64] | None = None
) -> Estimate | str:
    """Return the unbiased estimate of a block's cells, or the reason why there is none.

    A household that shows one draw counts as one with the weight of its records, as in :class:`Summary`.
    """
    if block.unit == "person" or (block.unit == "household" and households is None):
        return f"all records of a {block.unit} share one draw"
    if block.matrix.size > MAX_ESTIMATED:
        return f"there are more than {MAX_ESTIMATED:,} categories"
    if counts.sum() < 2:
        return "there are fewer than 2 records"
    labels = tuple(book[name].code_labels for name in block.variables)
    cells = block.cell_table(tuple(len(texts) for texts in labels))
    axis = Axis(block.variables, labels, block.matrix, cells, kept=tuple(range(len(labels))))
    layout, counted = Layout((axis,), block.variables), counts[None].astype(np.float64)
    squares, units = counted, counts.sum()
    if households is not None:
        squares, units = households[1:].astype(np.float64), households[0].sum()
    try:
        return from_tally(Tally(layout, counted, squares, np.array([units]), weighted=households is not None))
    except EstimationError as error:
        return str(error)


def _variables(block: Block, book: Codebook, counts: NDArray[Any], found: Estimate | str) -> Iterable[VariableView]:
    cells = block.cell_table(tuple(book[name].size for name in block.variables))
    for position, name in enumerate(block.variables):
        if name in block.given:
            continue
        codes = cells[:, position]
        same = (codes[:, None] == np.arange(book[name].size)).astype(np.float64)
        kept = block.matrix.times(same)[np.arange(len(codes)), codes]
        unchanged, effective = None, None
        if isinstance(found, Estimate):
            unchanged = float(found.value[tuple(cells.T)] @ kept)
            own = found.margin([name]) if len(block.variables) > 1 else found
            effective = own.effective_sample_size
        yield VariableView(
            name=name,
            label=book[name].label,
            size=book[name].size,
            partners=tuple(n for n in block.variables if n != name),
            lowest=float(kept.min()),
            highest=float(kept.max()),
            unchanged=unchanged,
            effective=effective,
            records=int(counts.sum()),
            epsilon=block.epsilon,
            prior=block.provenance,
        )


def _blocks(parts: Iterable[tuple[Block, NDArray[np.int64], Estimate | str]], book: Codebook) -> Iterable[BlockView]:
    """Yield blocks until the page is full; the page states that others are left out."""
    heat, rows = HEAT_BUDGET, ROW_BUDGET
    for block, counts, found in parts:
        drawn = panels(block, book, heat)
        frequent = np.argsort(-counts, kind="stable")[:MAX_ROWS]
        rows -= frequent.size
        if rows < 0:
            return
        heat -= sum(panel.cells.size**2 for panel in drawn)
        yield BlockView(
            name=" × ".join(block.variables),
            labels=code_labels(block, book),
            law=block.matrix,
            panels=drawn,
            shown=tuple(int(k) for k in np.sort(frequent)),
            released=counts / max(int(counts.sum()), 1),
            records=int(counts.sum()),
            positions=block.cell_table(tuple(book[name].size for name in block.variables)),
            corrected=found if isinstance(found, Estimate) else None,
            reason=found if isinstance(found, str) else "",
        )


def panels(block: Block, book: Codebook, budget: int) -> tuple[Panel, ...]:
    """Return the parts of a block's matrix to draw, one for each stratum; () if one is large, or all are too many.

    The matrix is zero between strata, so that the parts are all of it.
    """
    if not block.given:
        small = block.matrix.size <= MAX_HEAT and block.matrix.size**2 <= budget
        return (Panel("", code_labels(block, book), np.arange(block.matrix.size)),) if small else ()
    _, stratum = np.unique(given_codes(block), axis=0, return_inverse=True)
    sizes = np.bincount(stratum)
    if sizes.max() > MAX_HEAT or int(np.sum(sizes**2)) > budget:
        return ()
    names, labels = code_labels(block, book, block.given), code_labels(block, book, block.perturbed)
    parts = (np.flatnonzero(stratum == k) for k in range(sizes.size))
    return tuple(Panel(names[cells[0]], tuple(labels[c] for c in cells), cells) for cells in parts)


def code_labels(block: Block, book: Codebook, of: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return a text for each cell of a block, shape (K,), of its variables or of some of them."""
    cells = block.cell_table(tuple(book[name].size for name in block.variables))
    named = block.variables if of is None else of
    columns = [cells[:, block.variables.index(name)].tolist() for name in named]
    texts = [[str(book[name].code_labels[c]) for c in column] for name, column in zip(named, columns, strict=True)]
    return tuple(" × ".join(row) for row in zip(*texts, strict=True))


def _table(mechanism: Mechanism, summary: Summary) -> TableView | None:
    """Correct the summary's two-way table, where both matrices identify it."""
    if not summary.pair or summary.pair_counts.sum() < 2:
        return None
    first, second = summary.pair
    book = mechanism.require_codebook()
    labels = (book[first].code_labels, book[second].code_labels)
    counts, matrices = summary.pair_counts.astype(np.float64), [mechanism[name].matrix for name in summary.pair]
    try:
        found = from_tally(from_counts(counts, matrices, summary.pair, labels)).counts()
    except EstimationError:
        return None
    return TableView((first, second), *labels, summary.pair_counts, found.value, found.standard_error, found.warnings)
