"""A variable of a household, perturbed for each member: how often the released values of the members reveal it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.data.households import identities
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.risk.sample import Sampled

CONSTANT = 0.98
"""From which share of the households with several members a variable counts as the household's; a convention."""
_SEED = 20_240_607


@dataclass(frozen=True, slots=True)
class Shared:
    """Hold how far a perturbed variable is the household's own: confidential.

    ``constant``: share of the households of two members or more whose members all have one value. ``majority``: share
    of those households whose value is the most common one among the released values of their members, in one simulated
    release, ties broken at random; ``single``: share of their members whose own released value is the true one. None
    where the variable is not perturbed alone, or is in a split.
    """

    name: str
    constant: float
    majority: float | None = None
    single: float | None = None

    @property
    def is_much(self) -> bool:
        """Whether a curator is told."""
        return self.constant >= CONSTANT


def shared_values(sample: Sampled, mechanism: Mechanism) -> tuple[Shared, ...]:
    """Return what each perturbed variable is within the sampled households; none where none is known."""
    if sample.household is None or not sample.table.num_rows:
        return ()
    book, rng = mechanism.require_codebook(), np.random.default_rng(_SEED)
    try:
        column = sample.table.column(sample.household).combine_chunks()
        column = column.chunk(0) if hasattr(column, "chunks") else column
        numbers, there = identities(column, sample.household)
    except PostrandError:
        return ()
    _, household = np.unique(numbers[there], return_inverse=True)
    found = []
    for block in mechanism.blocks:
        if block.unit == "household":
            continue  # all members show one draw: there is no majority
        for name in block.perturbed:
            codes = coding.encode(sample.table.column(name), book[name])[there].astype(np.int64)
            alone = len(block.variables) == 1 and block.cells is None
            law = block.matrix.array if alone else None
            found.append(shared_value(name, household, codes, law, rng))
    for name in mechanism.partly:  # how often the members that show it reveal it is not simulated
        codes = coding.encode(sample.table.column(name), book[name])[there].astype(np.int64)
        found.append(shared_value(name, household, codes, None, rng))
    return tuple(found)


def shared_value(
    name: str,
    household: NDArray[np.int64],
    codes: NDArray[np.int64],
    law: NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> Shared:
    """Measure one variable: ``household`` (n,) from 0, ``codes`` (n,), -1 for none, ``law`` (S, S), rows true.

    >>> house, codes = np.repeat(np.arange(500), 5), np.repeat(np.arange(500) % 2, 5)
    >>> found = shared_value("tenure", house, codes, np.array([[0.8, 0.2], [0.2, 0.8]]), np.random.default_rng(1))
    >>> found.constant, round(found.majority, 1), round(found.single, 1)
    (1.0, 0.9, 0.8)
    """
    known = codes >= 0
    house, codes = household[known], codes[known]
    order = np.argsort(house, kind="stable")
    house, codes = house[order], codes[order]
    starts = np.flatnonzero(np.r_[True, house[1:] != house[:-1]]) if house.size else np.zeros(0, dtype=np.int64)
    sizes = np.diff(np.r_[starts, house.size])
    several = sizes >= 2
    if not several.any():
        return Shared(name, 0.0)
    least, most = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
    constant = several & (least == most)
    share = float(constant.sum() / several.sum())
    if law is None or share < CONSTANT:
        return Shared(name, share)
    group = np.repeat(np.arange(starts.size), sizes)
    member = constant[group]
    drawn = _drawn(codes[member], law, rng)
    majority = _mode_is_right(group[member], drawn, codes[member], law.shape[0], rng)
    return Shared(name, share, majority, float((drawn == codes[member]).mean()))


def _drawn(codes: NDArray[np.int64], law: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return one released code of each true one."""
    drawn = np.empty_like(codes)
    for code in np.unique(codes):
        held = np.flatnonzero(codes == code)
        drawn[held] = rng.choice(law.shape[1], size=held.size, p=law[code] / law[code].sum())
    return drawn


def _mode_is_right(
    group: NDArray[np.int64], drawn: NDArray[np.int64], true: NDArray[np.int64], size: int, rng: np.random.Generator
) -> float:
    """Return the share of groups whose most common drawn code, ties broken at random, is their true one."""
    cells, counts = np.unique(group * size + drawn, return_counts=True)
    of, code = cells // size, cells % size
    order = np.lexsort((rng.random(cells.size), counts, of))  # the most common of each group comes last
    last = np.flatnonzero(np.r_[of[order][1:] != of[order][:-1], True])
    truth = dict.fromkeys(group.tolist(), 0) | dict(zip(group.tolist(), true.tolist(), strict=True))
    winners = order[last]
    return float(np.mean([truth[g] == c for g, c in zip(of[winners].tolist(), code[winners].tolist(), strict=True)]))
