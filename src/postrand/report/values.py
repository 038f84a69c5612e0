"""What the report says in numbers: computed from the law and from counts of released values, nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import EstimationError
from postrand.mechanism import Block, Mechanism
from postrand.summary import Summary

MAX_HEAT = 25
"""A matrix of more categories is summarised, not drawn."""
MAX_ROWS = 30
MAX_ESTIMATED = 1_000
HEAT_BUDGET, ROW_BUDGET, VARIABLE_BUDGET = 6_000, 1_200, 300
"""What one page holds in all, so that it stays under 2 MB whatever the mechanism."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Hold unbiased estimates of true shares, and the precision they have.

    ``value`` and ``error`` (standard error: sampling and perturbation) have the shape of the categories. ``effective``
    is the number of unperturbed records that would give the same total variance.
    """

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    effective: float

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower end of the 95% interval."""
        return self.value - 1.96 * self.error

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper end of the 95% interval."""
        return self.value + 1.96 * self.error


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
class BlockView:
    """Show one block: its matrix where it is small, and its categories.

    ``shown`` are the positions of the categories listed: all, or the most frequent released ones. ``corrected`` is
    None where the matrix does not identify the true shares; ``reason`` then says why.
    """

    name: str
    labels: tuple[str, ...]
    matrix: NDArray[np.float64]
    draw: bool
    shown: tuple[int, ...]
    released: NDArray[np.float64]
    records: int
    corrected: Corrected | None
    reason: str = ""

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.labels)

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """The probability that each category is released unchanged."""
        return self.matrix.diagonal()


@dataclass(frozen=True, slots=True)
class TableView:
    """Show a two-way table: released counts beside corrected ones with standard errors, shapes (rows, columns)."""

    names: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    released: NDArray[np.int64]
    corrected: NDArray[np.float64]
    error: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """Everything of the page that is a number."""

    variables: tuple[VariableView, ...]
    blocks: tuple[BlockView, ...]
    table: TableView | None


def values(mechanism: Mechanism, summary: Summary) -> Values:
    """Compute the page's numbers; deterministic, and a function of the release alone."""
    book = mechanism.require_codebook()
    inverses = [_inverse(block) for block in mechanism.blocks]
    parts = list(zip(mechanism.blocks, inverses, summary.blocks, strict=True))
    variables = [v for block, inverse, counts in parts for v in _variables(block, inverse, counts, book)]
    return Values(tuple(variables), tuple(_blocks(parts, book)), _table(mechanism, inverses, summary))


def correct(inverse: NDArray[np.float64], counts: NDArray[np.int64]) -> Corrected | None:
    """Return the unbiased shares ``inverse' λ``, λ the released shares; None without records.

    ``inverse`` has shape (K, R): the inverse matrix, or its columns added up over the cells of a margin. The variance
    is that of simple random sampling and perturbation together, ``n^-1 diag(A (diag λ - λλ') A')`` with A = inverse'.
    """
    records = int(counts.sum())
    if not records:
        return None
    share = counts / records
    value = share @ inverse
    variance = (share @ inverse**2 - value**2).clip(min=0) / records
    spread = float((value * (1 - value)).sum())
    effective = spread / variance.sum() if variance.sum() > 0 and spread > 0 else math.nan
    return Corrected(value, np.sqrt(variance), min(effective, float(records)))


def code_labels(block: Block, book: Codebook) -> tuple[str, ...]:
    """Return a text for each cell of a block, shape (K,)."""
    variables = [book[name] for name in block.variables]
    texts = [v.code_labels for v in variables]
    cells = block.cell_table(tuple(v.size for v in variables))
    return tuple(" × ".join(str(t[c]) for t, c in zip(texts, row, strict=True)) for row in cells.tolist())


def _inverse(block: Block) -> NDArray[np.float64] | str:
    if block.matrix.size > MAX_ESTIMATED:
        return f"more than {MAX_ESTIMATED:,} categories: use the code below"
    try:
        return block.matrix.inverse()
    except EstimationError as error:
        return str(error)


def _variables(
    block: Block, inverse: NDArray[np.float64] | str, counts: NDArray[np.int64], book: Codebook
) -> Iterable[VariableView]:
    shape = tuple(book[name].size for name in block.variables)
    cells = block.cell_table(shape)
    for position, name in enumerate(block.variables):
        variable, codes = book[name], cells[:, position]
        member = codes[:, None] == np.arange(variable.size)  # (K, S): which cells make up each category
        matrix = block.matrix.array
        kept = (matrix * (codes[:, None] == codes)).sum(axis=1)
        unchanged, effective = None, None
        if not isinstance(inverse, str):
            cell, margin = correct(inverse, counts), correct(inverse @ member, counts)
            if cell is not None and margin is not None:
                unchanged, effective = float(cell.value @ kept), margin.effective
        yield VariableView(
            name=name,
            label=variable.label,
            size=variable.size,
            partners=tuple(n for n in block.variables if n != name),
            lowest=float(kept.min()),
            highest=float(kept.max()),
            unchanged=unchanged,
            effective=effective,
            records=int(counts.sum()),
            epsilon=block.matrix.epsilon,
            prior=block.provenance,
        )


def _blocks(
    parts: Iterable[tuple[Block, NDArray[np.float64] | str, NDArray[np.int64]]], book: Codebook
) -> Iterable[BlockView]:
    """Yield blocks until the page is full; the page says that others are left out."""
    heat, rows = HEAT_BUDGET, ROW_BUDGET
    for block, inverse, counts in parts:
        size = block.matrix.size
        draw = size <= MAX_HEAT and size * size <= heat
        frequent = np.argsort(-counts, kind="stable")[:MAX_ROWS]
        rows -= frequent.size
        if rows < 0:
            return
        heat -= size * size * draw
        known = not isinstance(inverse, str)
        yield BlockView(
            name=" × ".join(block.variables),
            labels=code_labels(block, book),
            matrix=block.matrix.array,
            draw=draw,
            shown=tuple(int(k) for k in np.sort(frequent)),
            released=counts / max(int(counts.sum()), 1),
            records=int(counts.sum()),
            corrected=correct(inverse, counts) if not isinstance(inverse, str) else None,
            reason="" if known else str(inverse),
        )


def _table(mechanism: Mechanism, inverses: list[NDArray[np.float64] | str], summary: Summary) -> TableView | None:
    if not summary.pair:
        return None
    first, second = summary.pair
    book = mechanism.require_codebook()
    position = {block.variables: k for k, block in enumerate(mechanism.blocks)}
    a, b = inverses[position[(first,)]], inverses[position[(second,)]]
    if isinstance(a, str) or isinstance(b, str) or not summary.pair_counts.sum():
        return None
    found = correct(np.asarray(np.kron(a, b), dtype=np.float64), summary.pair_counts.ravel())
    assert found is not None
    records, shape = int(summary.pair_counts.sum()), summary.pair_counts.shape
    return TableView(
        names=(first, second),
        rows=book[first].code_labels,
        columns=book[second].code_labels,
        released=summary.pair_counts,
        corrected=found.value.reshape(shape) * records,
        error=found.error.reshape(shape) * records,
    )
