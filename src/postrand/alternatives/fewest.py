"""Local suppression of the fewest values: a greedy start, and a mixed-integer programme that improves it."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.alternatives.patterns import Choices, Ints

MOST_EXACT = 60_000
"""Choices of a programme that has all of them; with more, only the smaller one is solved, which proves no bound."""
SECONDS = 60.0
"""Time that both programmes may take together. They end with the best answer and the proven bound."""
_FIRST = 1 / 3
_TINY = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Fewest:
    """Hold the records of each choice, (O,), how many values are ``suppressed``, and the proven least number."""

    records: Ints
    suppressed: int
    at_least: int

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no answer suppresses fewer."""
        return self.suppressed <= self.at_least


def fewest(choices: Choices, seconds: float = SECONDS, most_exact: int = MOST_EXACT) -> Fewest:
    """Return how many records of each kind lose which values, with as few suppressed values as could be found.

    With y_o records of choice o and ``z_g`` = 1 where class g has records: minimise ``Σ_o cost_o y_o`` subject to
    ``Σ_{o of kind u} y_o = n_u``, ``Σ_{o in g} y_o >= k z_g`` and ``y_o <= n_u z_g``; with a sensitive variable also
    ``Σ_v d_gv >= l z_g``, ``d_gv <= min(1, Σ_{o in g, value v} y_o)``. A programme of the choices that usually help
    comes first, that of all choices second, if they are few enough. The bound is that of the second; without it, the
    values that the records lose if all others help each of them.
    """
    start = greedy(choices)
    lost = int(start @ choices.cost)
    at_least = int(choices.counts @ choices.least())
    if lost <= at_least:
        return Fewest(start, lost, lost)
    useful, every = _useful(choices) | (start > 0), np.ones(choices.kind.size, dtype=bool)
    whole = choices.is_whole and choices.kind.size <= most_exact
    for kept, share in ((useful, _FIRST), (every, 1 - _FIRST)) if whole else ((useful, 1.0),):
        found, bound = _programme(choices.take(kept, whole), share * seconds)
        if kept is every:
            at_least = max(at_least, bound)
        if found is not None and int(found @ choices.cost[kept]) < lost:
            start = np.zeros_like(start)
            start[kept] = found
            lost = int(start @ choices.cost)
        if lost <= at_least:
            break
    return Fewest(start, lost, min(at_least, lost))


def greedy(choices: Choices) -> Ints:
    """Return an answer that may suppress too much: few values before many, large classes before small ones.

    A class costs those less of its records whose values are missing anyway: they come first. Records that stay over
    join a class that is there, and if there is none, the smallest classes are dissolved into one that all can join.
    """
    order = np.argsort(choices.group, kind="stable")
    starts = np.searchsorted(choices.group[order], np.arange(choices.groups + 1))
    members = [order[a:b] for a, b in pairwise(starts)]
    left, records = choices.counts.copy(), np.zeros(choices.kind.size, dtype=np.int64)
    for most in np.unique(choices.cost):
        _fill(choices, most, members, left, records)
    last = members[_of_all(choices)]
    by_size = sorted((int(records[own].sum()), g) for g, own in enumerate(members) if records[own].any())
    for _, g in by_size:
        if not left.any():
            break
        left[choices.kind[members[g]]] += records[members[g]]
        records[members[g]] = 0
        if _suffices(choices, last, left):
            records[last] += left[choices.kind[last]]
            left[choices.kind[last]] = 0
    return records


def _fill(choices: Choices, most: int, members: list[Ints], left: Ints, records: Ints) -> None:
    """Put records into classes in which they lose at most ``most`` values, the largest classes first."""
    reached = np.unique(choices.group[choices.cost == most])
    able = {int(g): members[g][choices.cost[members[g]] <= most] for g in reached}
    heap = [(-int(left[choices.kind[own]].sum()), g) for g, own in able.items()]
    heapq.heapify(heap)
    while heap:
        size, g = heapq.heappop(heap)
        now = int(left[choices.kind[able[g]]].sum())
        if now < -size:
            heapq.heappush(heap, (-now, g)) if now else None
        elif records[members[g]].any() or _suffices(choices, able[g], left):
            records[able[g]] += left[choices.kind[able[g]]]
            left[choices.kind[able[g]]] = 0


def _of_all(choices: Choices) -> int:
    """Return the class that records of every kind can join at the least cost: one without any value is always there."""
    every = np.bincount(choices.group, minlength=choices.groups) == choices.counts.size
    lost = np.bincount(choices.group, weights=choices.cost * choices.counts[choices.kind], minlength=choices.groups)
    return int(np.argmin(np.where(every, lost, np.inf)))


def _suffices(choices: Choices, own: Ints, left: Ints) -> bool:
    here = left[choices.kind[own]]
    values = np.unique(choices.values[choices.kind[own[here > 0]]])
    return bool(here.sum() >= choices.k and (values >= 0).sum() >= choices.diversity)


def _useful(choices: Choices) -> NDArray[np.bool_]:
    """Return the choices of records that must lose something, one more value than needed, and of those that can help.

    A record that could stay as it is helps a class only where some record needs that class.
    """
    least = choices.least()[choices.kind]
    needy = (least > 0) & (choices.cost <= least + 1)
    helped = np.zeros(choices.groups, dtype=bool)
    helped[choices.group[needy]] = True
    helps = (least == 0) & helped[choices.group] & (choices.cost <= choices.cost[needy].max(initial=0))
    return np.asarray(needy | helps | (choices.cost == 0))


def _programme(choices: Choices, seconds: float) -> tuple[Ints | None, int]:
    """Return the records of each choice, None without an answer, and the proven least number of suppressed values."""
    options, groups = choices.kind.size, choices.groups
    limits = choices.counts[choices.kind].astype(np.float64)
    place, one = np.arange(options), np.ones(options)
    pairs, pair_of = _pairs(choices)
    size = options + groups + pairs.shape[1]
    total = _rows(choices.kind, place, one, (choices.counts.size, size))
    own = _rows(choices.group, place, one, (groups, size))
    opened = _rows(np.arange(groups), options + np.arange(groups), np.full(groups, -float(choices.k)), (groups, size))
    inside = _rows(place, place, -one, (options, size)) + _rows(place, options + choices.group, limits, (options, size))
    rules = [
        scipy.optimize.LinearConstraint(total, choices.counts, choices.counts),
        scipy.optimize.LinearConstraint(own + opened, 0, np.inf),
        scipy.optimize.LinearConstraint(inside, 0, np.inf),
    ]
    if choices.diversity > 1:
        count, at = pairs.shape[1], options + groups + np.arange(pairs.shape[1])
        known = np.flatnonzero(choices.values[choices.kind] >= 0)
        among = _rows(pair_of, known, one[known], (count, size)) - _rows(
            np.arange(count), at, np.ones(count), (count, size)
        )
        various = _rows(pairs[0], at, np.ones(count), (groups, size))
        wanted = _rows(np.arange(groups), options + np.arange(groups), np.full(groups, choices.diversity), own.shape)
        rules += [scipy.optimize.LinearConstraint(m, 0, np.inf) for m in (among, various - wanted)]
    cost = np.concatenate([choices.cost, np.zeros(size - options)])
    high = np.concatenate([limits, np.ones(size - options)])
    integral = np.concatenate([np.full(options, choices.diversity > 1), np.ones(groups), np.zeros(pairs.shape[1])])
    asked = {"time_limit": seconds, "mip_rel_gap": 0.0}
    bounds = scipy.optimize.Bounds(0, high)
    found = scipy.optimize.milp(cost, integrality=integral, bounds=bounds, constraints=rules, options=asked)
    bound = found.mip_dual_bound
    at_least = 0 if bound is None or not math.isfinite(bound) else math.ceil(bound - _TINY)
    if found.x is None:
        return None, at_least
    return _whole(choices, found.x, rules, cost, high), at_least


def _whole(
    choices: Choices,
    answer: NDArray[np.float64],
    rules: list[scipy.optimize.LinearConstraint],
    cost: NDArray[np.float64],
    high: NDArray[np.float64],
) -> Ints | None:
    """Return whole numbers of records; where the programme left fractions, a vertex with the same classes has none.

    With the classes fixed and no sensitive variable, the programme is a transport of records to classes, whose
    vertices are whole.
    """
    options = choices.kind.size
    records = np.rint(answer[:options])
    if choices.diversity <= 1:
        z = np.rint(answer[options:])
        matrix = scipy.sparse.vstack([rule.A for rule in rules[1:]])
        fixed = np.stack([np.concatenate([np.zeros(options), z]), np.concatenate([high[:options], z])], axis=1)
        vertex = scipy.optimize.linprog(
            cost,
            A_ub=-matrix,
            b_ub=np.zeros(matrix.shape[0]),
            A_eq=rules[0].A,
            b_eq=choices.counts,
            bounds=fixed,
            method="highs-ds",
        )
        if vertex.x is None:
            return None
        records = np.rint(vertex.x[:options])
    found = records.astype(np.int64)
    kinds = np.bincount(choices.kind, weights=found, minlength=choices.counts.size)
    shown = np.bincount(choices.group, weights=found, minlength=choices.groups) > 0
    good = (kinds == choices.counts).all() and choices.holds(found)[shown].all()  # whatever the solver's tolerance is
    return found if good else None


def _pairs(choices: Choices) -> tuple[Ints, Ints]:
    """Return the classes and sensitive values that meet, (2, D), and the pair of each choice that has a value."""
    if choices.diversity <= 1:
        return np.zeros((2, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    both = np.stack([choices.group, choices.values[choices.kind]])[:, choices.values[choices.kind] >= 0]
    pairs, of = np.unique(both, axis=1, return_inverse=True)
    return pairs, np.asarray(of, dtype=np.int64).ravel()


def _rows(
    row: Ints, column: Ints, value: NDArray[np.float64], shape: tuple[int, int]
) -> scipy.sparse.csr_array[np.float64]:
    return scipy.sparse.csr_array((value, (row, column)), shape=shape)
