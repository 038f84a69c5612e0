"""What the same guarantee buys without a split: separate blocks, and the best joint blocks.

Every record shows all variables. Blocks are k-ary randomised response with shares of ε that add up to it. A table takes
from each block what it needs; blocks are independent, so one record's unbiased contribution is a product over blocks:

    V = Σ_y q_y Π_b |x_b(y_b)|² - Σ p²,    |x_b(y)|² = (1 - 2 (1-λ) u_y + (1-λ)² Σ u²) / λ²

with q the released shares, and u what the uniform draw of a block's cells says of its part of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.rules import feasible_cells, linked
from postrand.designers.split.candidates import Candidates
from postrand.designers.split.margins import shares
from postrand.designers.split.precision import keep_probability
from postrand.designers.split.workload import Names

Floats = NDArray[np.float64]

EXHAUSTIVE = 8
"""Up to so many variables, every partition into blocks is tried."""

_POLISHED = 12
_STEP, _LEAST_STEP = 0.1, 0.002


@dataclass(frozen=True, slots=True)
class FixedBlocks:
    """Hold a partition into blocks, the ε of each, and the workload's value: records needed for the worth of one."""

    blocks: tuple[Names, ...]
    epsilons: tuple[float, ...]
    value: float


class Blocks:
    """The search for blocks: it remembers the cells of blocks and what they say of parts of tables."""

    def __init__(self, given: Candidates, epsilon: float) -> None:
        self.given, self.epsilon = given, epsilon
        self.tables = [(t, shares(given.prior, given.codebook, t)) for t in given.workload.tables]
        groups = linked(given.codebook.select(given.names).rules, [(name,) for name in given.names])
        self.start: tuple[Names, ...] = tuple(self.ordered(group) for group in groups)
        self._squares = {table: float((p**2).sum()) for table, p in self.tables}
        self._cells: dict[Names, NDArray[np.int32] | None] = {}
        self._counts: dict[Names, int] = {}
        self._ruled: set[Names] = set()
        self._noise: dict[tuple[Names, Names], Floats] = {}
        self._pairs = None if given.codebook.select(given.names).rules else self._paired()

    def ordered(self, names: Sequence[str]) -> Names:
        """Return the names in the codebook's order."""
        return tuple(name for name in self.given.names if name in names)

    def best_of_all(self) -> FixedBlocks:
        """Return the best of all partitions, three divisions each, the first of them improved."""
        tried = []
        for parts in partitions(self.start):
            blocks = tuple(self.ordered([n for group in part for n in group]) for part in parts)
            if self.fits(blocks):
                tried += [self.valued(blocks, e) for e in self.divisions(blocks)]
        tried.sort(key=lambda found: found.value)
        first: dict[tuple[Names, ...], FixedBlocks] = {}
        for found in tried:
            first.setdefault(found.blocks, found)
        return min(map(self.polished, list(first.values())[:_POLISHED]), key=lambda found: found.value)

    def merged(self, blocks: tuple[Names, ...]) -> FixedBlocks:
        """Return the blocks that merging two at a time reaches, each time those that help most."""
        best = self.improved(blocks)
        while len(best.blocks) > 1:
            trials = [t for t in _mergers(best.blocks, self.ordered) if self.fits(t)]
            found = min((self.improved(t, polish=False) for t in trials), key=lambda f: f.value, default=best)
            if not found.value < best.value:
                break
            best = found
        return self.polished(self.moved(best))

    def moved(self, best: FixedBlocks) -> FixedBlocks:
        """Return the blocks that moving one part at a time to another block, or to its own, reaches."""
        while True:
            trials = {frozenset(t): t for t in _moves(best.blocks, self.start, self.ordered) if self.fits(t)}
            found = min((self.improved(t, polish=False) for t in trials.values()), key=lambda f: f.value, default=best)
            if not found.value < best.value:
                return best
            best = self.polished(found)

    def improved(self, blocks: tuple[Names, ...], *, polish: bool = True) -> FixedBlocks:
        """Return the best of three divisions of ε, improved."""
        best = min(self.valued_each(blocks, np.array(list(self.divisions(blocks)))), key=lambda found: found.value)
        return self.polished(best) if polish else best

    def divisions(self, blocks: tuple[Names, ...]) -> Iterator[Floats]:
        """Yield ε in equal shares, in proportion to the number of variables, and to ``ln K``."""
        for worth in (
            [1.0] * len(blocks),
            [float(len(block)) for block in blocks],
            [math.log(max(2, self.count(block))) for block in blocks],
        ):
            yield self.epsilon * np.array(worth) / math.fsum(worth)

    def polished(self, found: FixedBlocks) -> FixedBlocks:
        """Return the division after moving budget between two blocks as long as that helps, in smaller steps."""
        step = _STEP
        while step >= _LEAST_STEP and len(found.blocks) > 1:
            trials = self.valued_each(found.blocks, _moved(np.array(found.epsilons), step * self.epsilon))
            best = min(trials, key=lambda trial: trial.value, default=found)
            found, step = (best, step) if best.value < found.value else (found, step / 2)
        return found

    def _paired(self) -> tuple[NDArray[np.intp], Floats, Floats] | None:
        """Return of tables that are all of two variables: their places (Q, 2), their sizes (Q, 2), and Σ p² (Q,)."""
        if any(len(table) != 2 for table, _ in self.tables):
            return None
        places = np.array([[self.given.names.index(name) for name in table] for table, _ in self.tables])
        squares = np.array([self._squares[table] for table, _ in self.tables])
        return places, np.array([p.shape for _, p in self.tables], dtype=np.float64), squares

    def _paired_variances(self, blocks: tuple[Names, ...], epsilons: Floats) -> Floats:
        """Return the traces (D, Q) of all tables of two variables at once: in one block, or the product of two."""
        assert self._pairs is not None
        places, sizes, squares = self._pairs
        block = np.zeros(len(self.given.names), dtype=np.intp)
        for k, names in enumerate(blocks):
            block[[self.given.names.index(name) for name in names]] = k
        cells = np.array([self.count(names) for names in blocks], dtype=np.float64)
        different = sorted(set(epsilons.ravel().tolist()))  # np.unique would import numpy's masked arrays
        keep = np.array([keep_probability(cells, epsilon) for epsilon in different])
        kept = keep[np.searchsorted(different, epsilons), np.arange(cells.size)][:, block][:, places] ** 2
        one = (1 - (1 - kept[:, :, 0]) / sizes.prod(axis=1)) / kept[:, :, 0]
        two = ((1 - (1 - kept) / sizes) / kept).prod(axis=2)
        return np.asarray(np.where(block[places[:, 0]] == block[places[:, 1]], one, two) - squares)

    def valued(self, blocks: tuple[Names, ...], epsilons: Floats) -> FixedBlocks:
        """Return the blocks with these ε, and the workload's value."""
        return self.valued_each(blocks, epsilons[None])[0]

    def valued_each(self, blocks: tuple[Names, ...], divisions: Floats) -> list[FixedBlocks]:
        """Return the blocks with each division of ε, (D, B), and the workload's value."""
        if self._pairs is None or not len(divisions):
            return [self._valued(blocks, epsilons) for epsilons in divisions]
        each = (self.given.weights * self._paired_variances(blocks, divisions)).tolist()
        values = map(max if self.given.workload.worst else math.fsum, each)
        return [FixedBlocks(blocks, tuple(e), v) for e, v in zip(divisions.tolist(), values, strict=True)]

    def _valued(self, blocks: tuple[Names, ...], epsilons: Floats) -> FixedBlocks:
        keeps = {b: float(keep_probability(self.count(b), e)) for b, e in zip(blocks, epsilons.tolist(), strict=True)}
        terms = [w * self.variance(t, p, keeps) for w, (t, p) in zip(self.given.weights, self.tables, strict=True)]
        value = max(terms) if self.given.workload.worst else math.fsum(terms)
        return FixedBlocks(blocks, tuple(epsilons.tolist()), value)

    def variance(self, table: Names, p: Floats, keeps: dict[Names, float]) -> float:
        """Return the trace of the covariance of one record's unbiased contribution."""
        parts = [(block, keep, part) for block, keep in keeps.items() if (part := _within(table, block))]
        if not any(block in self._ruled for block, _, _ in parts):  # all noise is uniform: |x|² is one number a block
            sizes = dict(zip(table, p.shape, strict=True))
            worth = [(1 - (1 - k * k) / math.prod(sizes[n] for n in part)) / (k * k) for _, k, part in parts]
            return float(math.prod(worth)) - self._squares[table]
        released, factor = p, np.ones((1,) * p.ndim)
        for block, keep, part in parts:
            noise = self.noise(block, part).reshape(
                [n if t in part else 1 for t, n in zip(table, p.shape, strict=True)]
            )
            axes = tuple(k for k, name in enumerate(table) if name in part)
            released = keep * released + (1 - keep) * noise * released.sum(axis=axes, keepdims=True)
            factor = factor * (1 - 2 * (1 - keep) * noise + (1 - keep) ** 2 * (noise**2).sum()) / keep**2
        return float((released * factor).sum()) - self._squares[table]

    def noise(self, block: Names, part: Names) -> Floats:
        """Return what a uniform draw of a block's cells says of some of its variables, one axis each."""
        if (block, part) not in self._noise:
            shape = tuple(self.given.codebook[name].size for name in part)
            cells = self.cells(block)
            if cells is None:
                self._noise[block, part] = np.full(shape, 1 / math.prod(shape))
            else:
                index = np.ravel_multi_index(tuple(cells[:, block.index(name)] for name in part), shape)
                counts = np.bincount(index, minlength=math.prod(shape))
                self._noise[block, part] = counts.reshape(shape) / len(cells)
        return self._noise[block, part]

    def cells(self, block: Names) -> NDArray[np.int32] | None:
        """Return the feasible cells of a block that rules are about; None where all combinations are feasible."""
        if block not in self._cells:
            book = self.given.codebook
            ruled = any(set(rule.variables) <= set(block) for rule in book.rules)
            self._cells[block] = feasible_cells(book, block, book.rules) if ruled else None
            self._ruled |= {block} if ruled else set()
        return self._cells[block]

    def count(self, block: Names) -> int:
        """Return the number of feasible cells of a block."""
        if block not in self._counts:
            cells, book = self.cells(block), self.given.codebook
            self._counts[block] = math.prod(book[n].size for n in block) if cells is None else len(cells)
        return self._counts[block]

    def fits(self, blocks: tuple[Names, ...]) -> bool:
        """Tell whether every block has few enough cells."""
        return all(self.count(block) <= self.given.request.max_cells for block in blocks)


def partitions(items: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """Yield every partition of the items.

    >>> len(list(partitions("abcd")))
    15
    """
    if not items:
        yield []
        return
    for smaller in partitions(items[1:]):
        yield [[items[0]], *smaller]
        for k, part in enumerate(smaller):
            yield [*smaller[:k], [items[0], *part], *smaller[k + 1 :]]


def _within(table: Names, block: Names) -> Names:
    return tuple(name for name in table if name in block)


def _mergers(blocks: tuple[Names, ...], ordered: Any) -> Iterator[tuple[Names, ...]]:
    for i in range(len(blocks)):
        for j in range(i + 1, len(blocks)):
            rest = tuple(block for k, block in enumerate(blocks) if k not in (i, j))
            yield (*rest, ordered((*blocks[i], *blocks[j])))


def _moves(blocks: tuple[Names, ...], parts: tuple[Names, ...], ordered: Any) -> Iterator[tuple[Names, ...]]:
    """Yield the partitions with one part in another block, or in its own; a part's variables stay together."""
    for part in parts:
        own = next(block for block in blocks if part[0] in block)
        left = tuple(name for name in own if name not in part)
        others = [block for block in blocks if block != own]
        if left:
            yield (*others, left, part)
        for k in range(len(others)):
            rest = (*others[:k], *others[k + 1 :], *((left,) if left else ()))
            yield (*rest, ordered((*others[k], *part)))


def _moved(epsilons: Floats, step: float) -> Floats:
    """Return the divisions, (D, B), with one step moved from one block to another."""
    giver, taker = np.nonzero((epsilons > step)[:, None] & ~np.eye(epsilons.size, dtype=bool))
    moved = np.tile(epsilons, (giver.size, 1))
    moved[np.arange(giver.size), giver] -= step
    moved[np.arange(giver.size), taker] += step
    return moved
