"""Risk of whole households after a split, to an attacker who has a register of the keys of all members.

A household is released as the multiset of what its members show: keys T and values z of each. Which keys are shown was
drawn without looking at the values, so the way τ, the multiset of the T, says nothing, and given it each member is as
likely as another to show each T. A household of the register matches if its members can show these values truly, in
some order. With f such households in the file and F in the population, a link is right with probability::

    Σ_τ P(τ) Σ_u P(u | x, τ) E(1/F_u | f_u)        over the true releases u of the household's members x
    P(u | x, τ) = perm(M_{T_j}[x_i, z_j]) Π n_T! / (s! Π m_k!)

n_T members show the keys T, m_k show equal keys and values. Where one random member shows T and the others are hidden,
n_T = 1 and the ways are the subsets. Within a way all is exact; see ``register_split_risk`` for
the ways.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel, table
from postrand.risk.joint_households import PartLaw, by_size, permanent, same_orders
from postrand.risk.split_law import SplitLaw
from postrand.risk.weights import expected_inverse

LARGEST, LARGEST_OF_ONE = 5, 12
"""A household of more members counts with its risk before: the orders of its members are listed, s! of them, or s
where one of them is shown; and a permanent takes 2^s steps."""
WAYS, WORK = 100, 500_000
"""The most ways of one size, and the orders of all households that are looked at for them; at least ``LEAST`` ways."""
LEAST = 2


def register_split_risk(
    keys: KeyCodes, weights: FloatArray, household: IntArray, law: SplitLaw, seed: int = 0
) -> FloatArray:
    """Return the probability of a correct match of each household, shape (H,), by ascending number.

    A household's weight is the mean of its members'. All ways of a size are summed where there are few; else ways are
    drawn, the same for all its households.
    """
    cells, rng = table(keys), np.random.default_rng([seed, 23])
    _, place, sizes = np.unique(household, return_inverse=True, return_counts=True)
    weight = np.bincount(place, weights=weights) / sizes
    parts = [PartLaw.of(part, cells.codes, cells.codes, np.ones(len(cells.codes), dtype=bool)) for part in law.parts]
    seen = _seen(law, cells.codes)
    risk = np.empty(sizes.size)
    for one in by_size(cells.record_cell, household):
        kinds, kind, counts = np.unique(one.members, axis=0, return_inverse=True, return_counts=True)
        kind = kind.ravel()
        total = np.bincount(kind, weights=weight[one.places]).astype(np.float64)
        size = kinds.shape[1]
        if size > (LARGEST if law.household is None else LARGEST_OF_ONE):
            of_kind = expected_inverse(counts, counts / total)
        else:
            of_kind = np.zeros(counts.size)
            for share, way in _ways(law, size, counts.size, rng):
                of_kind += share * _of_way(kinds, counts, total, way, seen, parts)
        risk[one.places] = np.minimum(of_kind, 1.0)[kind]
    return risk


def _seen(law: SplitLaw, codes: IntArray) -> NDArray[np.int64]:
    """Return a number of what each true cell shows in each part, (T, J): of different parts they differ."""
    found = np.empty((len(law.parts), codes.shape[0]), dtype=np.int64)
    for k, part in enumerate(law.parts):
        at = list(part.positions)
        numbers = ravel([codes[:, j] for j in at], [law.shape[j] for j in at]) if at else np.zeros(codes.shape[0])
        found[k] = k * codes.shape[0] + np.unique(numbers, return_inverse=True)[1]
    return found


def _ways(law: SplitLaw, size: int, kinds: int, rng: np.random.Generator) -> list[tuple[float, tuple[int, ...]]]:
    """Return ways, ascending numbers of parts, with their shares: all with their probabilities, or equally some."""
    chances = np.array([part.probability for part in law.parts])
    orders = math.factorial(size) if law.household is None else size
    most = max(LEAST, min(WAYS, WORK // (orders * kinds)))
    if law.household is not None:
        return _of_one(law, size, most, rng)
    if math.comb(len(chances) + size - 1, size) <= most:
        every = itertools.combinations_with_replacement(range(len(chances)), size)
        return [(_multinomial(way) * math.prod(chances[k] for k in way), way) for way in every]
    drawn = np.sort(rng.choice(len(chances), (most, size), p=chances / chances.sum()), axis=1)
    return [(1 / most, tuple(way)) for way in drawn.tolist()]


def _of_one(law: SplitLaw, size: int, most: int, rng: np.random.Generator) -> list[tuple[float, tuple[int, ...]]]:
    """Return the ways of households of which one member shows a part, the others what the hidden part shows."""
    chosen = law.chosen()
    parts, shares = np.flatnonzero(chosen > 0), chosen[chosen > 0]
    if parts.size > most:
        parts, shares = rng.choice(parts, most, p=shares), np.full(most, 1 / most)
    rest = (law.hidden,) * (size - 1)
    return [(share, (part, *rest)) for share, part in zip(shares.tolist(), parts.tolist(), strict=True)]


def _orders(way: tuple[int, ...]) -> IntArray:
    """Return who shows each place of a way, (orders, s): orders that differ among places of one part are one."""
    size = len(way)
    if len({*way[1:]}) <= 1:  # one place is another's
        return np.array([[i, *(j for j in range(size) if j != i)] for i in range(size)])
    return np.array(list(itertools.permutations(range(size))))


def _multinomial(way: tuple[int, ...]) -> int:
    return math.factorial(len(way)) // math.prod(math.factorial(way.count(k)) for k in {*way})


def _of_way(
    kinds: IntArray,
    counts: IntArray,
    total: FloatArray,
    way: tuple[int, ...],
    seen: NDArray[np.int64],
    parts: list[PartLaw],
) -> FloatArray:
    """Return the risk of each kind of household, (K,), given the way; ``counts`` and ``total`` weights of each kind."""
    size, slots = len(way), np.array(way)
    orders = _orders(way)
    placed = kinds[:, orders]  # (K, s!, s): who shows each slot
    shown = np.sort(seen[slots, placed], axis=2).reshape(-1, size)
    release, most = np.zeros(len(shown), dtype=np.int64), int(shown.max()) + 1
    for column in shown.T:
        _, release = np.unique(release * most + column, return_inverse=True)
    of = np.repeat(np.arange(counts.size), len(orders))
    pairs, first = np.unique(of * (release.max() + 1) + release, return_index=True)
    mine, what = of[first], pairs % (release.max() + 1)
    f, population = (np.bincount(what, weights=values[mine]) for values in (counts, total))
    inverse = expected_inverse(f, f / population)
    true, told = kinds[mine], placed.reshape(-1, size)[first]
    entries = np.empty((mine.size, size, size))
    for j, k in enumerate(way):
        entries[:, :, j] = parts[k].entries(true, told[:, j : j + 1]) / parts[k].part.probability
    chance = permanent(entries) / (same_orders(shown[first]) * _multinomial(way))
    return np.bincount(mine, weights=chance * inverse[what], minlength=counts.size).astype(np.float64)
