"""A bound for subsets that are too many to list: the best mixture of fractional subsets, by its dual.

For any ``c >= 0`` no probabilities have a value below ``(Σ_t sqrt(w_t c_t))² / max_T Σ_t c_t I_t(K_T)`` (for the worst
table: ``Σ_t w_t c_t / max``). The maximum over T is relaxed: for each number of cells K, a knapsack of size ``ln K``
holds variables j of size ``ln K_j``; a variable is worth what a second knapsack inside it is worth, of the size that is
left and with the other variables of its tables, and so on; each table's ``c_t`` is divided among the orders of its
variables. Knapsacks with one item cut bound from above, whatever the division.

The search for c turns this around. A knapsack's dual divides one unit of worth among the price of room (``share``), and
what single items are worth beyond it (``extra``); each item divides what it gets in turn, until tables get theirs.
Every such division is feasible for its K, and c is the least over some K. The divisions follow the gradient
multiplicatively. The bound is then evaluated at that c for every K that subsets can have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from postrand.designers.split.precision import Question, keep_probability

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_OUTWARD = 1e-9  # relative: far above what the sums here lose
_EVERY_ORDER = 3  # tables of more variables are divided among rotations only
_SHARPNESS = (4.0, 16.0, 64.0, 256.0)
_STEPS = 60
_SINGLE = 0.02  # what single items get to begin with
_ROUNDS = 14
_ADDED = 3
_CLOSE = 1e-4
_IDLE = 0.9
_WORK = 1.5e8  # items times levels times steps, for all rounds: some seconds each


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Hold the knapsacks within knapsacks: items in order of depth and of the item that they are in; 0 is the whole.

    ``inside`` (n,): the place of the item that an item is in. ``size`` (n,): ``ln K_j``. ``used`` (n,): of the item and
    all that it is in. ``question`` (n,): whose last variable it is, or -1. ``depths``: where each depth begins, and the
    end. ``ends``: places of items with a question, in order of it; ``firsts``: where each question begins in them.
    """

    inside: Places
    size: Floats
    used: Floats
    question: Places
    depths: tuple[int, ...]
    ends: Places
    firsts: Places

    def groups(self, low: int, high: int) -> tuple[Places, Places]:
        """Return where the items between two places begin to be in another item, and those items."""
        inside = self.inside[low:high]
        starts = np.flatnonzero(np.append(True, np.diff(inside) > 0))
        return starts, inside[starts]


def tree_of(questions: Sequence[Question], core: Sequence[int], logs: Floats) -> Tree:
    """Return the knapsacks of questions; those that only differ in core variables are items without a size."""
    ends: dict[tuple[int, ...], int] = {}
    for number, question in enumerate(questions):
        beyond = [k for k in question.members if k not in core]
        for order in _orders(beyond):
            ends[order if order and order not in ends else (*order, -1 - number)] = number
    paths = {path[:k] for path in ends for k in range(len(path) + 1)}
    listed = sorted(paths, key=lambda path: (len(path), path))
    place = {path: k for k, path in enumerate(listed)}
    size = np.array([logs[path[-1]] if path and path[-1] >= 0 else 0.0 for path in listed])
    inside = np.array([place[path[:-1]] for path in listed], dtype=np.intp)
    depth = np.array([len(path) for path in listed])
    used = size.copy()
    bounds = [int(np.searchsorted(depth, k)) for k in range(int(depth.max()) + 2)]
    for low, high in pairwise(bounds[1:]):
        used[low:high] += used[inside[low:high]]
    asked = np.array([ends.get(path, -1) for path in listed], dtype=np.intp)
    last = np.flatnonzero(asked >= 0)
    last = last[np.argsort(asked[last], kind="stable")]
    firsts = np.flatnonzero(np.append(True, np.diff(asked[last]) > 0))
    return Tree(inside, size, used, asked, tuple(bounds), last, firsts)


def _orders(members: Sequence[int]) -> Iterable[tuple[int, ...]]:
    if len(members) <= _EVERY_ORDER:
        return permutations(members)
    return (tuple(members[k:]) + tuple(members[:k]) for k in range(len(members)))


@dataclass(slots=True, eq=False)
class _Division:
    """How one unit of worth is divided at some numbers of cells, (A, n) each: own question, room, and single items."""

    own: Floats
    share: Floats
    extra: Floats

    def scaled(self, tree: Tree) -> None:
        """Make what each item divides sum to 1."""
        total = self.own + self.share
        for low, high in pairwise(tree.depths[1:]):
            starts, parents = tree.groups(low, high)
            total[:, parents] += np.add.reduceat(self.extra[:, low:high], starts, axis=1)
        total[total <= 0] = 1.0
        self.own /= total
        self.share /= total
        self.extra[:, 1:] /= total[:, tree.inside[1:]]


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The problem of the bound: all questions in one, ``asked``, and all numbers of cells of subsets, ``levels``."""

    asked: Question
    tree: Tree
    levels: Floats
    core_cells: float
    epsilon: float
    weights: Floats
    worst: bool

    def bound(self) -> float:
        """Return a value that no probabilities of the subsets are below."""
        active = self._first()
        division, best = self._started(active), 0.0
        left = _WORK / (self.tree.size.size * len(_SHARPNESS))
        for _ in range(_ROUNDS):
            steps = max(3, min(_STEPS, int(left / 3 / len(active))))
            left -= steps * len(active)
            given = self._improved(division, active, steps)
            prices = self._prices(given, active)
            worth = self._evaluated(prices, given, active)
            most = max(worth.values())
            best = max(best, self._numerator(prices) / most)
            above = [k for k in sorted(worth, key=lambda k: (-worth[k], k)) if worth[k] > 1 + _CLOSE]
            fresh = [k for k in above if k not in active][:_ADDED]
            if not fresh or left <= 0:
                break
            kept = [a for a, k in enumerate(active) if worth.get(k, 1.0) >= _IDLE]
            active, division = self._with(division, active, kept, fresh)
        return best * (1 - _OUTWARD)

    def _first(self) -> list[int]:
        """Return the places of levels to begin with, each about twice the last, that hold every question."""
        held = self.tree.used[self.tree.ends]
        least = self.core_cells * math.exp(float(np.maximum.reduceat(held, self.tree.firsts).max()))
        wanted = [least * (1 - _OUTWARD)]
        while wanted[-1] < min(self.levels[-1], 4 * math.exp(self.epsilon)):
            wanted.append(wanted[-1] * 2)
        places = np.minimum(np.searchsorted(self.levels, wanted), len(self.levels) - 1)
        return sorted({int(k) for k in places})

    def _rooms(self, places: Sequence[int]) -> Floats:
        """Return what is left in each item at levels, (A, n)."""
        return np.log(self.levels[list(places)] / self.core_cells)[:, None] - self.tree.used

    def _informed(self, place: int) -> Floats:
        """Return I of each question at a level's number of cells."""
        return self.asked.information(keep_probability(self.levels[place], self.epsilon))

    def _started(self, active: Sequence[int]) -> _Division:
        """Return a division that gives most to the price of room."""
        tree, fits = self.tree, self._rooms(active) >= -_OUTWARD
        inner, held = np.zeros(fits.shape), np.zeros(fits.shape)
        for low, high in pairwise(tree.depths[1:]):
            starts, parents = tree.groups(low, high)
            held[:, parents] = np.add.reduceat(fits[:, low:high].astype(float), starts, axis=1)
        inner[held > 0] = 1.0
        own = np.where(tree.question >= 0, 1.0, 0.0) * fits
        extra = np.where(fits, _SINGLE / np.maximum(held, 1)[:, tree.inside], 0.0)
        extra[:, 0] = 0.0
        found = _Division(own, (1 - _SINGLE) * inner, extra)
        found.scaled(tree)
        return found

    def _with(
        self, division: _Division, active: list[int], kept: list[int], fresh: list[int]
    ) -> tuple[list[int], _Division]:
        """Return the levels that are kept and new ones, and their division."""
        new = self._started(fresh)
        parts = [np.concatenate([getattr(division, k)[kept], getattr(new, k)]) for k in ("own", "share", "extra")]
        return [*(active[a] for a in kept), *fresh], _Division(*parts)

    def _worths(self, division: _Division, rooms: Floats) -> Floats:
        """Return what each item gets of one unit, (A, n)."""
        tree = self.tree
        found = np.ones(rooms.shape)
        for low, high in pairwise(tree.depths[1:]):
            inside = tree.inside[low:high]
            rate = (division.share / np.maximum(rooms, _OUTWARD))[:, inside] * tree.size[low:high]
            found[:, low:high] = found[:, inside] * (
                rate * (rooms[:, low:high] >= -_OUTWARD) + division.extra[:, low:high]
            )
        return found

    def _improved(self, division: _Division, active: Sequence[int], steps: int) -> Floats:
        """Improve the division in place; return what each item with a question gets for it, (A, ends)."""
        rooms = self._rooms(active)
        informed = np.array([self._informed(k) for k in active])
        for power in _SHARPNESS if len(active) > 1 else (1.0,):
            for _ in range(steps):
                self._step(division, rooms, informed, power)
        return (self._worths(division, rooms) * division.own)[:, self.tree.ends]

    def _step(self, division: _Division, rooms: Floats, informed: Floats, power: float) -> None:
        """Multiply each share by a power of its gradient over the mean."""
        tree, fits = self.tree, rooms >= -_OUTWARD
        got = (self._worths(division, rooms) * division.own)[:, tree.ends]
        prices = np.add.reduceat(got, tree.firsts, axis=1) / informed
        slope = self._slopes(prices, power) / informed
        asked = np.where(tree.question >= 0, slope[:, tree.question], 0.0) * fits
        gain = division.own * asked  # of one unit at an item
        room = np.zeros(rooms.shape)
        for low, high in reversed(list(pairwise(tree.depths[1:]))):
            starts, parents = tree.groups(low, high)
            inner = gain[:, low:high] * fits[:, low:high]
            room[:, parents] = np.add.reduceat(inner * tree.size[low:high], starts, axis=1)
            room[:, parents] /= np.maximum(rooms[:, parents], _OUTWARD)
            gain[:, parents] += np.add.reduceat(division.extra[:, low:high] * inner, starts, axis=1)
            gain[:, parents] += division.share[:, parents] * room[:, parents]
        rate = 1.5 / (power + 1.5)
        least = np.maximum(gain, np.finfo(float).tiny)
        division.own *= (asked / least) ** rate
        division.share *= (room / least) ** rate
        division.extra[:, 1:] *= ((gain * fits)[:, 1:] / least[:, tree.inside[1:]]) ** rate
        division.scaled(tree)

    def _slopes(self, prices: Floats, power: float) -> Floats:
        """Return the derivative of the numerator by each price (A, Q); the least over levels is taken softly."""
        priced = prices > 0
        least = np.where(priced, prices, np.inf).min(axis=0)
        ratio = np.where(priced, prices / least, np.inf)
        soft = least * (ratio**-power).sum(axis=0) ** (-1 / power)
        by_price = self.weights if self.worst else 0.5 * np.sqrt(self.weights / soft)
        return np.asarray(by_price * (soft / (ratio * least)) ** (power + 1))

    def _prices(self, given: Floats, active: Sequence[int]) -> Floats:
        """Return c of each question: the least that the levels that hold it give."""
        informed = np.array([self._informed(k) for k in active])
        prices = np.add.reduceat(given, self.tree.firsts, axis=1) / informed
        return np.asarray(np.where(prices > 0, prices, np.inf).min(axis=0))

    def _numerator(self, prices: Floats) -> float:
        if self.worst:
            return float(self.weights @ prices)
        return float(np.sqrt(self.weights * prices).sum()) ** 2

    def _evaluated(self, prices: Floats, given: Floats, active: Sequence[int]) -> dict[int, float]:
        """Return what the knapsacks of levels are worth at most; the others are worth less than the most of these.

        An interval of levels has the precision of its first and the room of its last; it is halved while it matters.
        """
        total = np.add.reduceat(given, self.tree.firsts, axis=1)
        of = self.tree.question[self.tree.ends]
        each = np.bincount(of, minlength=len(self.weights)).astype(float)
        shares = np.where(total[:, of] > 0, given / np.where(total > 0, total, 1.0)[:, of], 1 / each[of])
        known = self.levels[list(active)]
        found: dict[int, float] = {}
        stack = [(first, min(first + 31, len(self.levels) - 1)) for first in range(0, len(self.levels), 32)]
        most = 0.0
        while stack:
            low, high = stack.pop()
            near = int(np.abs(np.log(known / self.levels[low])).argmin())
            worth = self._filled(prices[of] * shares[near] * self._informed(low)[of], high)
            if low == high:
                found[low] = worth
                most = max(most, worth)
            elif worth > most:
                middle = (low + high) // 2
                stack += [(low, middle), (middle + 1, high)]
        return found

    def _filled(self, values: Floats, place: int) -> float:
        """Return the worth of the knapsacks, one item of each cut, with these values of the items with a question."""
        tree = self.tree
        rooms = self._rooms([place])[0] + _OUTWARD
        worth = np.zeros(tree.size.size)
        worth[tree.ends] = values
        worth[rooms < 0] = 0.0
        for low, high in reversed(list(pairwise(tree.depths[1:]))):
            sizes, inside = np.maximum(tree.size[low:high], 1e-12), tree.inside[low:high]
            order = np.lexsort((-worth[low:high] / sizes, inside))
            filled = np.cumsum(sizes[order]) - sizes[order]
            starts, parents = tree.groups(low, high)
            lengths = np.diff(np.append(starts, high - low))
            before = filled - np.repeat(filled[starts], lengths)
            part = np.clip((np.repeat(rooms[parents], lengths) - before) / sizes[order], 0.0, 1.0)
            worth[parents] += np.add.reduceat(worth[low:high][order] * part, starts)
        return float(worth[0])


def relaxation(
    sizes: Sequence[int],
    core: Sequence[int],
    max_cells: int,
    questions: tuple[Question, ...],
    epsilon: float,
    weights: Floats,
    worst: bool,
) -> Relaxation:
    """Return the relaxed problem for subsets that hold the core and have at most ``max_cells`` cells."""
    cells = math.prod(sizes[k] for k in core)
    counts = {cells}
    for k in (k for k in range(len(sizes)) if k not in core):
        counts |= {count * sizes[k] for count in counts if count * sizes[k] <= max_cells}
    tree = tree_of(questions, core, np.log(np.array(sizes, dtype=np.float64)))
    least = cells * math.exp(float(tree.used[tree.ends].min())) * (1 - _OUTWARD)
    levels = np.array(sorted(count for count in counts if count >= least), dtype=np.float64)
    sums = (np.array([getattr(q, name) for q in questions]) for name in ("p1", "p2", "u1", "pu", "u2"))
    return Relaxation(Question((), *sums), tree, levels, float(cells), epsilon, weights, worst)
