"""What an attacker finds who knows one thing more than the keys: the true value of another released column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from postrand.risk.attack import link
from postrand.risk.by_size import linked, members, strata
from postrand.risk.cells import FloatArray, IntArray, KeyCodes
from postrand.risk.informed import WORK, Spread, comparisons, knowledges
from postrand.risk.linkage import Knowledge, Linkage
from postrand.risk.shown import Shown
from postrand.risk.shown_attack import FEWEST, link_shown
from postrand.risk.singled import Codes
from postrand.risk.split_law import Law, SplitLaw, drawn_by

RELEASES, DRAWN = 3, 25_000
"""Releases that are drawn at most, and records of all of them, but of one."""
COLUMNS = 4
"""Columns that are tried at most: those whose values say most of who is who."""
GROUPS, PAIRS = 1_000, 10_000_000
"""Groups of records with one value, and pairs of records within them, that are compared at most in one release."""


@dataclass(frozen=True, slots=True)
class OneMore:
    """Say what an attacker finds who knows the column ``name`` besides the keys, if he links every person.

    ``links`` are the expected right ones after a plan, with their standard ``error`` over simulated links, and
    ``before`` it; ``chances`` those of each person to be found, as he computes them.
    """

    name: str
    links: float
    error: float
    chances: Spread
    before: float = field(default=0.0)


def known_too(
    truth: KeyCodes,
    law: Law,
    columns: Mapping[str, Codes],
    *,
    household: IntArray | None = None,
    shown: Shown | None = None,
    seed: int = 0,
) -> tuple[OneMore, ...]:
    """Return what attackers find after a plan who know each column too, most correct matches first.

    ``columns`` are released unperturbed, with the class of each value. The attacker compares a person with the records
    that have the same value, and as many members of the household, alone: there the attack is that of :func:`link`
    with the keys of all persons known, where that is tried (:func:`postrand.risk.informed.knowledges`), or of
    :func:`link_shown` by what the other columns have ``shown``. A person whose value nobody else has is found for
    certain. Of many groups some are compared, at random, and of large groups some persons. The ``COLUMNS`` with the
    largest entropy are tried.

    >>> from postrand.risk.law import KeyLaw
    >>> keys = KeyCodes(("sex",), (2,), (np.arange(400) % 2,))
    >>> same = KeyLaw.of(None, keys.names, keys.shape)
    >>> found = known_too(keys, same, {"pay": (np.arange(400), 400), "town": (np.arange(400) // 200, 2)})
    >>> [(one.name, one.links, one.chances.mean) for one in found]
    [('pay', 400.0, 1.0), ('town', 4.0, 0.01)]
    """
    held = sorted(columns, key=lambda name: (-_entropy(columns[name][0]), name))[:COLUMNS]
    if not held or not truth.records:
        return ()
    rng = np.random.default_rng([seed, 2])
    seeds = rng.integers(2**31, size=_releases(truth.records)).tolist()
    groups = {name: _Groups.of(columns[name], household, rng) for name in held}
    truth, law = (truth, law) if shown is None else shown.attacked(truth, law)
    found: dict[str, list[_Links]] = {name: [] for name in held}
    for drawn in drawn_by(law, truth, seeds, household):
        for name in held:
            beside = None if shown is None else shown.without(name)
            found[name].append(groups[name].links(truth, drawn, law, beside))
    return most_first(_mean(name, each) for name, each in found.items())


def most_first(found: Iterable[OneMore]) -> tuple[OneMore, ...]:
    """Return them by their correct matches, largest first."""
    return tuple(sorted(found, key=lambda one: (-one.links, one.name)))


def most_varied(columns: Mapping[str, KeyCodes]) -> list[KeyCodes]:
    """Return the ``COLUMNS`` of these, each the last of its keys, whose values say most of who is who."""
    held = sorted(columns, key=lambda name: (-_entropy(columns[name].codes[-1]), name))[:COLUMNS]
    return [columns[name] for name in held]


def found_too(
    truth: KeyCodes, law: Law, *, household: IntArray | None = None, shown: Shown | None = None, seed: int = 0
) -> OneMore:
    """Return what is found by who knows the last of these keys too, of as many persons as ``WORK`` allows, at random.

    >>> from postrand.risk.law import KeyLaw
    >>> keys = KeyCodes(("sex",), (2,), (np.arange(400) % 2,))
    >>> found_too(keys, KeyLaw.of(None, keys.names, keys.shape)).links
    2.0
    """
    rng = np.random.default_rng([seed, 3])
    seeds = rng.integers(2**31, size=_releases(truth.records)).tolist()
    each = truth.records if shown is not None else comparisons(law, truth.records)
    some = np.sort(rng.permutation(truth.records)[: max(FEWEST, WORK // each)])
    name = truth.names[-1]
    truth, law = (truth, law) if shown is None else shown.attacked(truth, law)
    attacked, drawn = strata(truth, law, household, some), drawn_by(law, truth, seeds, household)
    knowledge = _known(law, truth.records**2)
    found = (linked(attacked, one, knowledge, shown) for one in drawn)
    weight = np.full(some.size, truth.records / some.size)
    return _mean(name, [_Links(one.correct, one.claimed, weight) for one in found])


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """Hold links of one release, with how many persons each stands for, shape (t,); ``alone`` are found for certain."""

    correct: FloatArray
    claimed: FloatArray
    weight: FloatArray
    alone: int = 0

    @property
    def expected(self) -> float:
        """The expected number of correct matches, of all persons."""
        return self.alone + float(self.weight @ self.correct)

    @property
    def variance(self) -> float:
        """The variance of that number over the persons drawn and their links, taken as independent."""
        rate = self.weight @ self.correct / max(float(self.weight.sum()), 1.0)
        return float(self.weight**2 @ (self.correct - rate) ** 2)

    @property
    def chances(self) -> Spread:
        """The chance of each person, as the attacker computes it."""
        certain = np.ones(min(self.alone, 1))
        return Spread.of(np.r_[certain, self.claimed], np.r_[certain * self.alone, self.weight])


def _mean(name: str, found: Sequence[_Links]) -> OneMore:
    """Return what who knows the column ``name`` finds in releases on average, counted or claimed: what is more.

    A count of few links in few releases is often too low by chance; what the attacker claims varies far less.
    """
    error = math.sqrt(sum(one.variance for one in found)) / len(found)
    counted = float(np.mean([one.expected for one in found]))
    claimed = float(np.mean([one.alone + one.weight @ one.claimed for one in found]))
    return OneMore(name, max(counted, claimed), error, Spread.together([one.chances for one in found]))


def _releases(records: int) -> int:
    return max(min(RELEASES, DRAWN // records), 1)


def _known(law: Law, pairs: int) -> Knowledge:
    """Return that the keys of all persons are known, where that is tried with so many pairs of records."""
    return knowledges(law, pairs if isinstance(law, SplitLaw) else 0)[-1]


def _entropy(codes: IntArray) -> float:
    share = np.bincount(codes) / codes.size
    return float(-(share[share > 0] * np.log(share[share > 0])).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Hold the records (m,) of groups that are compared, with their ``targets`` (t,) as places of each.

    ``alone`` persons are groups of their own, ``others`` are all in groups of several.
    """

    records: Sequence[IntArray]
    targets: Sequence[IntArray]
    alone: int
    others: int

    @classmethod
    def of(cls, codes: Codes, household: IntArray | None, rng: np.random.Generator) -> _Groups:
        sizes = members(household)
        label = codes[0] if sizes is None else codes[0] * (int(sizes.max()) + 1) + sizes
        _, group = np.unique(label, return_inverse=True)
        counts = np.bincount(group)
        split = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
        several = [records for records in split if records.size > 1]
        if len(several) > GROUPS:
            several = [several[k] for k in rng.choice(len(several), GROUPS, replace=False)]
        share = min(1.0, PAIRS / max(sum(records.size**2 for records in several), 1))
        targets = [rng.permutation(records.size)[: int(np.ceil(share * records.size))] for records in several]
        alone = int((counts == 1).sum())
        return cls(several, targets, alone, int(counts.sum()) - alone)

    def links(self, truth: KeyCodes, drawn: KeyCodes, law: Law, shown: Shown | None) -> _Links:
        """Return the links of one release, each for so many persons in groups of several."""
        found: list[tuple[Linkage, int]] = []
        knowledge = _known(law, sum(records.size**2 for records in self.records))
        for records, targets in zip(self.records, self.targets, strict=True):
            own, released = truth.take(records), drawn.take(records)
            inside = law.among(records) if isinstance(law, SplitLaw) else law
            if shown is None:
                one = link(own, released, inside, knowledge, targets=targets)
            else:
                one = link_shown(own, released, inside, shown.take(records), targets)
            found.append((one, records.size))
        correct, claimed, weight = (
            np.concatenate([np.empty(0), *parts])
            for parts in (
                [one.correct for one, _ in found],
                [one.claimed for one, _ in found],
                [np.full(one.correct.size, size / one.correct.size) for one, size in found],
            )
        )
        scale = self.others / max(sum(size for _, size in found), 1)
        return _Links(correct, claimed, scale * weight, self.alone)
