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
MAX_LAW = 1024
"""A subset of more cells is not simulated."""
_SEED = 20_240_607


@dataclass(frozen=True, slots=True)
class Shared:
    """Hold how far a perturbed variable is the household's own: confidential.

    ``constant``: share of the households of two members or more whose members all have one value. ``majority``: share
    of those households whose value is the most common one among the released values of their members, in one simulated
    release, ties broken at random; ``single``: share of their members whose own released value is the true one. In a
    split (``is_partly``), where members show different variables, they are the shares of right guesses by the most
    probable value given what all members show of the variable, and given what one shows. ``blind``: the share of right
    guesses of the households without the release, by the most frequent value. None where the variable is not perturbed
    alone, or a subset has more than ``MAX_LAW`` cells.
    """

    name: str
    constant: float
    majority: float | None = None
    single: float | None = None
    is_partly: bool = False
    blind: float | None = None

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
    if mechanism.split is not None and mechanism.split.of_members:
        return tuple(found)  # one member shows it: there is no majority
    for name in mechanism.partly:
        codes = coding.encode(sample.table.column(name), book[name])[there].astype(np.int64)
        found.append(shared_value(name, household, codes, shown_law(mechanism, name), rng, is_partly=True))
    return tuple(found)


def shown_law(mechanism: Mechanism, name: str) -> NDArray[np.float64] | None:
    """Return ``P(subset, released value | true value)`` of a variable of a split, shape (S, symbols).

    The last symbol is "not shown". Other variables of a subset are taken as equally likely. None where a subset is too
    large, or leaves combinations out.
    """
    split, book = mechanism.split, mechanism.require_codebook()
    assert split is not None, "a mechanism with a split"
    size, parts, hidden = book[name].size, [], 1.0
    for subset in split.subsets:
        if name not in subset.variables:
            continue
        if subset.block.cells is not None or subset.block.given or subset.matrix.size > MAX_LAW:
            return None
        shape = [book[other].size for other in subset.variables]
        place = subset.variables.index(name)
        law = np.moveaxis(subset.matrix.array.reshape(*shape, *shape), (place, len(shape) + place), (0, 1))
        law = law.reshape(size, size, -1).sum(axis=2) * size / subset.matrix.size
        parts.append(subset.probability * law)
        hidden -= subset.probability
    return np.concatenate([*parts, np.full((size, 1), max(hidden, 0.0))], axis=1)


def shared_value(
    name: str,
    household: NDArray[np.int64],
    codes: NDArray[np.int64],
    law: NDArray[np.float64] | None,
    rng: np.random.Generator,
    *,
    is_partly: bool = False,
) -> Shared:
    """Measure one variable: ``household`` (n,) from 0, ``codes`` (n,), -1 for none, ``law`` (S, K), rows true.

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
        return Shared(name, 0.0, is_partly=is_partly)
    least, most = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
    constant = several & (least == most)
    share = float(constant.sum() / several.sum())
    if law is None or share < CONSTANT:
        return Shared(name, share, is_partly=is_partly)
    group = np.repeat(np.arange(starts.size), sizes)
    member = constant[group]
    drawn = _drawn(codes[member], law, rng)
    if is_partly:
        every, one, blind = _best_guesses(group[member], drawn, codes[member], law)
        return Shared(name, share, every, one, is_partly=True, blind=blind)
    majority = _mode_is_right(group[member], drawn, codes[member], law.shape[0], rng)
    _, first = np.unique(group[member], return_index=True)
    blind = float(np.bincount(codes[member][first]).max() / first.size)
    return Shared(name, share, majority, float((drawn == codes[member]).mean()), blind=blind)


def _best_guesses(
    group: NDArray[np.int64], drawn: NDArray[np.int64], true: NDArray[np.int64], law: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the shares of right guesses of groups, of members, and of groups without what is drawn."""
    places, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    shares = np.bincount(true[first], minlength=law.shape[0]) / places.size
    with np.errstate(divide="ignore"):
        prior, odds = np.log(shares), np.log(law).T[drawn]
    of_group = np.stack([np.bincount(inverse, weights=column) for column in odds.T], axis=1) + prior
    every, one = of_group.argmax(axis=1) == true[first], (odds + prior).argmax(axis=1) == true
    return float(every.mean()), float(one.mean()), float(shares.max())


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
