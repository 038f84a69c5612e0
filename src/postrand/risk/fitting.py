"""Iterative proportional fitting of a table to margins, the margins taken in groups.

A sweep scales the table to each margin in turn. Margins that lie within one larger margin, their *group*, are met on
the group's own small table, and the table is scaled once by what came of it: the same numbers as margin by margin, in
a few passes over the table in place of one for each margin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk.acceleration import Accelerator
from postrand.risk.cells import FloatArray, IntArray, ravel
from postrand.support import loops

Margin = tuple[int, ...]

FIRST_EXTRAPOLATION = 8
"""Sweeps before the first extrapolation: decomposable models need two in all."""

FIRST_LOOK = 8
"""Sweeps before the margins are kept for the first time, to see whether they still move."""

PART = 64
"""A group has at most one cell for so many of the table, or the cells of one margin: its sweeps stay cheap."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Margins within one margin of ``size`` cells: ``index`` (L,) is its cell of each cell of the table.

    ``inner[m]`` (size,) is the cell of margin m of each of them, and ``targets[m]`` what margin m should be.
    """

    index: IntArray
    size: int
    inner: tuple[IntArray, ...]
    targets: tuple[FloatArray, ...]

    def raised(self, total: float) -> Group:
        """Return the group without the targets that no cell of the table can meet, the others raised to ``total``."""
        has = np.bincount(self.index, minlength=self.size)
        pairs = zip(self.inner, self.targets, strict=True)
        met = [t * (np.bincount(i, weights=has, minlength=t.size) > 0) for i, t in pairs]
        return dataclasses.replace(self, targets=tuple(t * (total / float(t.sum())) for t in met))

    def sums(self, mu: FloatArray) -> FloatArray:
        """Return the group's table, (size,)."""
        return np.asarray(np.bincount(self.index, weights=mu, minlength=self.size), dtype=np.float64)

    def factors(self, table: FloatArray) -> tuple[FloatArray, float]:
        """Scale the group's table to each margin in turn: by what (size,), and the largest deviation on the way."""
        scaled, seen = table.copy(), 0.0
        for index, target in zip(self.inner, self.targets, strict=True):
            fitted = np.bincount(index, weights=scaled, minlength=target.size)
            seen = max(seen, float(np.abs(fitted - target).max()))
            scaled *= np.divide(target, fitted, out=np.zeros_like(target), where=fitted > 0)[index]
        return np.divide(scaled, table, out=np.zeros_like(table), where=table > 0), seen

    def margins(self, table: FloatArray) -> list[FloatArray]:
        """Return the margins of the group's table."""
        pairs = zip(self.inner, self.targets, strict=True)
        return [np.asarray(np.bincount(i, weights=table, minlength=t.size), dtype=np.float64) for i, t in pairs]

    def deviation(self, table: FloatArray) -> float:
        """Return the largest absolute difference between a margin of the group's table and its target."""
        pairs = zip(self.margins(table), self.targets, strict=True)
        return max(float(np.abs(fitted - target).max()) for fitted, target in pairs)


def grouped(
    cells: Sequence[IntArray], shape: Sequence[int], margins: Sequence[Margin], targets: Sequence[FloatArray]
) -> tuple[Group, ...]:
    """Return the margins in groups; ``cells`` are the codes of the table's cells, a column for each variable."""
    most = max(cells[0].size // PART, 1)
    left, groups = dict(zip(margins, targets, strict=True)), []
    while left:
        inside = _grown(max(left, key=lambda margin: _size(shape, margin)), list(left), shape, most)
        sizes = [shape[j] for j in inside]
        axes = dict(zip(inside, np.indices(sizes, dtype=np.int32).reshape(len(inside), -1), strict=True))
        members = [margin for margin in left if set(margin) <= set(inside)]
        inner = [ravel([axes[j] for j in margin], [shape[j] for j in margin]).astype(np.intp) for margin in members]
        index = ravel([cells[j] for j in inside], sizes)
        groups.append(Group(index, math.prod(sizes), tuple(inner), tuple(left.pop(margin) for margin in members)))
    return tuple(groups)


def _size(shape: Sequence[int], variables: Iterable[int]) -> int:
    return math.prod(shape[j] for j in variables)


def _grown(first: Margin, margins: Sequence[Margin], shape: Sequence[int], most: int) -> Margin:
    """Return the variables of a group: those of one margin, and one more at a time while it has at most ``most`` cells.

    The next is the one that brings in most of the ``margins``; of several, the one with the fewest categories.
    """
    inside = set(first)
    while True:
        room = most // max(_size(shape, inside), 1)
        able = [j for j in range(len(shape)) if j not in inside and shape[j] <= room]
        if not able:
            return tuple(sorted(inside))
        gain = {j: sum(set(margin) <= inside | {j} for margin in margins) for j in able}
        inside.add(max(able, key=lambda j: (gain[j], -shape[j])))


def sweep(
    mu: FloatArray,
    groups: Sequence[Group],
    accelerator: Accelerator | None,
    tolerance: float,
    most: int,
    stall: float = 0.0,
) -> tuple[int, float]:
    """Scale ``mu`` in place to each margin in turn; return the sweeps made and the largest deviation that is left.

    Each margin is read just before it is scaled. Only when all were within tolerance are they compared again, together.
    With ``stall`` it also stops at 16, 32, 64, ... sweeps where the last half of them moved no margin cell by more
    than this part of its Poisson standard error: margins that do not fit together are never met, and the table goes
    round among them.
    """
    tables = [group.sums(mu) for group in groups]
    watch = _Watch(stall)
    for made in range(1, most + 1):
        seen = 0.0
        for b, group in enumerate(groups):
            factors, off = group.factors(tables[b])
            seen, following = max(seen, off), (b + 1) % len(groups)
            loops.scale_and_sum(mu, group.index, factors, groups[following].index, tables[following])
        stalled = stall > 0 and watch.stalled(made, mu, groups)
        if seen <= tolerance or made == most or stalled:
            deviation = max(group.deviation(group.sums(mu)) for group in groups)
            if deviation <= tolerance or stalled:
                break
        elif accelerator is not None and made > FIRST_EXTRAPOLATION and accelerator.after_sweep(mu):
            tables[0] = groups[0].sums(mu)
    return made, deviation


class _Watch:
    """Compare the margins at 8, 16, 32, ... sweeps with those of half as many."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._halfway: list[FloatArray] = []

    def stalled(self, made: int, mu: FloatArray, groups: Sequence[Group]) -> bool:
        """Return whether no margin cell moved by more than ``least`` standard errors, those below 1 record taken as 1.

        Only powers of two of sweeps are looked at; the first has nothing to be compared with.
        """
        if made < FIRST_LOOK or made & (made - 1):
            return False
        margins = [margin for group in groups for margin in group.margins(group.sums(mu))]
        before, self._halfway = self._halfway, margins
        pairs = zip(margins, before, strict=bool(before))
        moved = [float((np.abs(now - then) / np.sqrt(np.maximum(then, 1.0))).max()) for now, then in pairs]
        return bool(moved) and max(moved) <= self._least
