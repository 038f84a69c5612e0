"""Subsets that are too many to list: a design generates those that it needs, and a search proves what is left.

The price of a subset T is ``Σ_{q ⊆ T} c_q I_q(K_T)``. I falls as the number of cells K grows. So the search goes
through levels of K: within ``[K, ρK]`` every question is worth at most what it is at K, and what remains is a knapsack
whose items are variables, each with its own worth and one half of that of its pairs. A node is left where the knapsack,
with one item cut, cannot exceed the threshold. A question of three variables counts as three pairs of a third each, for
those third variables that still fit; one of more as pairs for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.split.precision import Question, keep_probability
from postrand.designers.split.relaxation import relaxation
from postrand.designers.split.subsets import ROUNDING, Columns, joined, multiplied

Floats = NDArray[np.float64]
Masks = NDArray[np.uint64]

DEFAULT_GAP = 1e-6
"""A design of subsets that are generated is finished when it is proven to be so near the best, relatively."""

_RATIO = 2 ** (1 / 6)  # of the cells, between levels
_BUDGET = 500_000  # nodes of one search
_ROUNDS = 20_000  # times questions
_EXCESS = (
    4e-7,
    1e-5,
    1e-4,
    1e-3,
    1e-2,
    0.03,
    0.06,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.5,
    1.0,
    3.0,
    10.0,
    100.0,
)  # over the best that is known
_IMPROVED = 1e-6  # a climb that gains less is left to the search
_STARTS = 64
_WARMED, _FEW, _STEPS, _SHARE = 150, 24, 5, 0.02
_WORK = 2e5  # starts times questions


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Hold the least and most cells, and what the core, single variables (F,) and pairs (F, F) are at most worth."""

    low: float
    high: float
    base: float
    single: Floats
    pairs: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The pool of all subsets of variables that no rule links, with k-ary randomised response at ε."""

    sizes: tuple[int, ...]
    core: tuple[int, ...]
    max_cells: int
    questions: tuple[Question, ...]
    epsilon: float
    target: float = DEFAULT_GAP

    @property
    def rounds(self) -> int:
        """As many as end within minutes: the gap is stated, whatever it is."""
        return max(10, min(40, _ROUNDS // len(self.questions)))

    def start(self, weights: Floats) -> Columns:
        """Return the smallest subset for each question, and those that gain most on the way to a rough design."""
        core = self._mask(self.core)
        random = np.random.default_rng(len(self.sizes))  # where to start climbing: it decides no bound, only time
        masks = sorted({core | self._mask(q.members) for q in self.questions})
        columns, known = self._columns(masks), set(masks)
        pi = np.full(len(masks), 1 / len(masks))
        for _ in range(_WARMED):
            total = np.asarray(columns.rows.T @ pi)
            found = self._climbed(weights / total**2, [masks[k] for k in random.permutation(len(masks))[:_FEW]])
            new = [mask for mask in sorted(found) if mask not in known]
            known.update(new)
            masks += new
            columns = joined(columns, self._columns(new))
            pi = np.append(pi * (1 - _SHARE), np.full(len(new), _SHARE / max(1, len(new))))
            pi = multiplied(columns.rows, weights, _STEPS, pi)
        return columns

    def least(self, weights: Floats, worst: bool) -> float:
        """Return the bound of fractional subsets."""
        chosen = relaxation(self.sizes, self.core, self.max_cells, self.questions, self.epsilon, weights, worst)
        return chosen.bound()

    def price(self, prices: Floats, threshold: float, within: float, *, prove: bool) -> tuple[float, Columns]:
        """Return subsets above the threshold; where climbing finds none, what a search proves and finds."""
        random = np.random.default_rng(len(self.sizes))  # where to start climbing: it decides no result, only time
        starts = [self._mask(self.core) | int(m) for m in self._drawn(random)]
        found = {m: g for m, g in self._climbed(prices, starts).items() if g > threshold * (1 + _IMPROVED)}
        if found and not prove:
            return math.inf, self._columns(sorted(found))
        bound, met = self.proven(prices, max([threshold, *found.values()]), threshold, within)
        return bound, self._columns(sorted({*found, *met}))

    def proven(self, prices: Floats, known: float, floor: float, within: float = math.inf) -> tuple[float, set[int]]:
        """Return a bound of what any subset gains, and subsets that the search met above the floor.

        ``known``: a gain that some subset surely has, to prune with. ``within``: how far above it a bound is of use,
        relatively; inf is returned where none is found.
        """
        best, met, first = known, set[int](), 0
        levels = list(self._levels(prices))
        for excess in (e for e in _EXCESS if e < within):
            while first < len(levels):  # a level that holds for one threshold holds for a larger one
                done, found, gain = self._searched(levels[first], prices, best * (1 + excess), floor)
                best = max(best, gain)
                met |= found
                if not done:
                    break
                first += 1
            if first == len(levels):
                return best * (1 + excess) * (1 + ROUNDING), met
        if within < math.inf:
            return math.inf, met
        limit = max(level.base + float(level.single.sum() + level.pairs.sum() / 2) for level in levels)
        return max(limit, best) * (1 + ROUNDING), met

    def _levels(self, prices: Floats) -> Iterator[_Level]:
        """Yield the levels: least and most cells, and what core, single variables and pairs are at most worth there."""
        cells = math.prod(self.sizes[k] for k in self.core)
        free = [k for k in range(len(self.sizes)) if k not in self.core]
        place = {k: i for i, k in enumerate(free)}
        logs = np.log(np.array([self.sizes[k] for k in free], dtype=np.float64))
        low = float(cells)
        every = Question((), *self._sums().T)  # all questions at once: one by one they take most of the time
        while low <= self.max_cells:
            high = min(low * _RATIO, float(self.max_cells))
            worth = prices * every.information(keep_probability(np.array([low]), self.epsilon))
            yield _Level(low, high, *self._spread(worth, place, logs, math.log(high / cells)))
            if high == self.max_cells:
                break
            low = math.floor(high) + 1.0 if math.floor(high) >= low else low + 1.0

    def _spread(self, worth: Floats, place: dict[int, int], logs: Floats, room: float) -> tuple[float, Floats, Floats]:
        """Return the worth of questions as that of the core, of single variables and of pairs."""
        n, base = len(place), 0.0
        single, pairs = np.zeros(n), np.zeros((n, n))
        thirds: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for value, question in zip(worth, self.questions, strict=True):
            beyond = sorted(place[k] for k in question.members if k in place)
            if not beyond:
                base += value
            elif len(beyond) == 1:
                single[beyond[0]] += value
            elif len(beyond) == 3:
                for i, j in combinations(beyond, 2):
                    third = next(k for k in beyond if k not in (i, j))
                    thirds.setdefault((i, j), []).append((value / 3, third))
            else:
                for i, j in combinations(beyond, 2):
                    pairs[i, j] += value / math.comb(len(beyond), 2)
        for (i, j), items in thirds.items():
            pairs[i, j] += _filled(items, logs, room - logs[i] - logs[j])
        return base, single, pairs + pairs.T

    def _searched(self, level: _Level, prices: Floats, threshold: float, floor: float) -> tuple[bool, set[int], float]:
        """Search one level: whether it is done, subsets above the floor, and the best gain."""
        from postrand.designers.split.pricing_kernel import search  # compiled when first used

        cells = math.prod(self.sizes[k] for k in self.core)
        free = [k for k in range(len(self.sizes)) if k not in self.core]
        sizes = np.array([self.sizes[k] for k in free], dtype=np.float64)
        logs = np.maximum(np.log(sizes), 1e-9)  # a variable of one category costs nothing
        single, pairs = level.single, level.pairs
        order = np.argsort(-(single + pairs.sum(axis=1)) / logs, kind="stable")
        turned = [free[k] for k in order]
        place = {k: i for i, k in enumerate((*turned, *self.core))}
        held = np.uint64(sum(1 << place[k] for k in self.core))
        asked = self._asked([place[k] for k in range(len(place))], prices)
        ends = (math.log(level.low / cells), math.log(level.high / cells), threshold)
        done, gain, found = search(
            single[order], pairs[np.ix_(order, order)], level.base, sizes[order], logs[order], ends, floor,
            held, float(cells), _BUDGET, math.exp(-self.epsilon), *asked,
        )  # fmt: skip
        back = (*turned, *self.core)
        return bool(done), {sum(1 << back[i] for i in range(len(back)) if int(m) >> i & 1) for m in found}, float(gain)

    def _climbed(self, prices: Floats, starts: list[int]) -> dict[int, float]:
        """Return the subsets that climbing from the starts reaches, and their gains."""
        from postrand.designers.split.pricing_kernel import climb  # compiled when first used

        sizes, asked = np.array(self.sizes, dtype=np.float64), self._asked(range(len(self.sizes)), prices)
        core, far, found = np.uint64(self._mask(self.core)), math.exp(-self.epsilon), {}
        some = max(8, min(_STARTS, int(_WORK / len(prices))))
        for start in starts[:: max(1, len(starts) // some)]:
            mask, gain = climb(np.uint64(start), sizes, core, float(self.max_cells), far, *asked)
            found[int(mask)] = float(gain)
        return found

    def _drawn(self, random: np.random.Generator) -> list[int]:
        """Return small subsets to climb from: each question's variables."""
        first = [self._mask(q.members) for q in self.questions]
        return [first[k] for k in random.permutation(len(first))]

    def _columns(self, masks: list[int]) -> Columns:
        members = np.array([[m >> k & 1 for k in range(len(self.sizes))] for m in masks], dtype=bool)
        members = members.reshape(len(masks), len(self.sizes))
        cells = np.prod(np.where(members, np.array(self.sizes, dtype=np.int64), 1), axis=1)
        if not masks:
            return Columns(members, cells, scipy.sparse.csr_array((0, len(self.questions))))
        inside = np.array([[k in q.members for k in range(len(self.sizes))] for q in self.questions], dtype=np.float32)
        row, asked = np.nonzero(members.astype(np.float32) @ inside.T == inside.sum(axis=1))
        together = Question((), *(sums[asked] for sums in self._sums().T))
        worth = together.information(keep_probability(cells[row], self.epsilon))
        shape = (len(masks), len(self.questions))
        return Columns(members, cells, scipy.sparse.csr_array((worth, (row, asked)), shape))

    def _sums(self) -> Floats:
        return np.array([[q.p1, q.p2, q.u1, q.pu, q.u2] for q in self.questions], dtype=np.float64)

    def _asked(self, places: Sequence[int], prices: Floats) -> tuple[NDArray[np.intp], Masks, Floats, Floats]:
        """Return where the questions of each first variable begin, their masks, prices and sums.

        ``places``: of the variables, in the order of the search.
        """
        firsts = np.array([min(places[k] for k in q.members) for q in self.questions])
        order = np.argsort(firsts, kind="stable")
        masks = np.array([sum(1 << places[k] for k in q.members) for q in self.questions], dtype=np.uint64)
        starts = np.searchsorted(firsts[order], np.arange(len(self.sizes) + 1))
        return starts, masks[order], prices[order], self._sums()[order]

    def _mask(self, places: tuple[int, ...]) -> int:
        return sum(1 << k for k in places)


def _filled(items: list[tuple[float, int]], logs: Floats, room: float) -> float:
    """Return the best of a knapsack with one item cut."""
    total = 0.0
    for value, k in sorted(items, key=lambda item: -item[0] / logs[item[1]]):
        if room <= 0:
            break
        total += value * min(1.0, room / logs[k])
        room -= logs[k]
    return total
