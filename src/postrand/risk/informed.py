"""The informed attacker: how many persons of a file are found again, before perturbation and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.risk.by_size import Stratum, alike, linked, strata
from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.linkage import Knowledge, Linkage
from postrand.risk.member_links import claimed_members
from postrand.risk.shown import Shown
from postrand.risk.shown_attack import PAIRS, persons
from postrand.risk.split_law import Law, SplitLaw, drawn_by

THRESHOLD = 0.2
LEVELS = tuple(k / 1000 for k in range(1, 1000))
"""The risks above which the shares of persons are counted, for the rules of an office: all with three decimals."""
WORK = 100_000_000
"""Compare so many pairs of a target and a released cell at most; then fewer targets, drawn at random."""
ALONE = 256
"""What a target costs in a part of a split that needs no comparisons, in comparisons."""
MOST_RELEASES, FEWEST_TARGETS = 10, 400
DRAWN = 3_000_000
"""Draw so many records at most, over all releases but the first: those of large files vary less."""
FITS, ENOUGH = 30, 20_000
"""Attack so many strata at most, in all releases together, where these have enough links: each is fitted alone."""
TAILS = 40
"""Beyond so many standard deviations a beta-binomial law with both parameters >= 1/2 has less than 1e-10."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Links of an attacker, one for each target, the targets being persons of the file.

    ``persons`` is the number of such persons, ``rate`` the probability that a link is right, ``claimed`` what the
    attacker says it is, on average. ``links`` is the number of simulated links that the rate rests on, None where
    it is exact.
    """

    persons: int
    rate: float
    claimed: float
    links: int | None = None

    @property
    def expected(self) -> float:
        """The expected number of correct matches when every such person is a target."""
        return self.persons * self.rate

    @property
    def error(self) -> float:
        """The standard error of ``expected`` over the simulated links, taken as independent; 0 where it is exact.

        >>> Matches(100, 0.2, 0.2, links=400).error, Matches(100, 0.2, 0.2).error
        (2.0, 0.0)
        """
        return self.persons * math.sqrt(max(self.rate * (1 - self.rate), 0.0) / self.links) if self.links else 0.0

    @property
    def per_thousand(self) -> float:
        """The expected number of correct matches among 1,000 targets."""
        return 1000 * self.rate

    def interval(self, targets: int) -> tuple[int, int]:
        """Return a 95% prediction interval of the number of correct matches among ``targets`` of one release.

        The quantiles of ``Binomial(targets, rate)`` where the rate is exact; else of the beta-binomial with the rate's
        posterior ``Beta(h + 1/2, links − h + 1/2)``, with h correct matches simulated. The targets differ in risk,
        which makes the number vary less than it says.
        """
        if self.links is None:
            return _central(targets, min(self.rate, 1.0), None)
        return _central(targets, (self.rate * self.links + 0.5) / (self.links + 1), self.links + 1)


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a risk, the share of persons or households above ``THRESHOLD``, and the largest.

    ``shares`` are those above each of ``LEVELS``.
    """

    mean: float
    above: float
    largest: float
    shares: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, risk: FloatArray, weights: FloatArray | None = None) -> Spread:
        """Return the spread of risks, shape (m,), m >= 1; ``weights`` (m,) are of how many each stands for.

        >>> Spread.of(np.array([0.1, 0.5]), np.array([3.0, 1.0]))
        Spread(mean=0.2, above=0.25, largest=0.5)
        """
        passed = np.bincount(np.searchsorted(LEVELS, risk, side="left"), weights, minlength=len(LEVELS) + 1)
        shares = tuple((passed[:0:-1].cumsum()[::-1] / passed.sum()).tolist())
        mean, above = (float(np.average(values, weights=weights)) for values in (risk, risk > THRESHOLD))
        return cls(mean, above, float(risk.max()), shares)

    def at_least(self, other: Spread) -> Spread:
        """Return the larger figure of each: of an attacker who can do what either of two does, never above the truth.

        >>> Spread(0.2, 0.0, 0.3, (0.5,)).at_least(Spread(0.1, 0.1, 0.4, (0.6,))).shares
        (0.6,)
        """
        shares = tuple(map(max, self.shares, other.shares))
        return Spread(
            max(self.mean, other.mean), max(self.above, other.above), max(self.largest, other.largest), shares
        )

    @classmethod
    def together(cls, spreads: Sequence[Spread]) -> Spread:
        """Return the spread of the risks of all, each spread being of as many, such as those of several releases.

        The largest is that of all: over many releases the risk of the same target can have a much smaller mean.
        """
        mean, above = (float(np.mean([getattr(s, name) for s in spreads])) for name in ("mean", "above"))
        shares = tuple(np.mean([s.shares for s in spreads], axis=0).tolist())
        return cls(mean, above, max(s.largest for s in spreads), shares)


@dataclass(frozen=True, slots=True)
class Informed:
    """What an attacker can find with knowledge of the keys of persons in the file, the matrices, and the released file.

    ``anyone``: targets drawn at random from the file. ``unique``: targets whose true keys nobody else in the file has;
    None where there are none. ``individual``: the posterior of the best link of each person, as the attacker states it
    (before perturbation 1/f). ``some_member`` of a household: ``1 − Π(1 − r_i)`` over its members; ``whole`` household:
    ``Π r_i``; None without household numbers. Where one random member shows a split, both are upper bounds
    (:func:`postrand.risk.member_links.claimed_members`). ``releases`` were drawn, 0 before perturbation.
    ``of_two``: each figure is the larger of two knowledges, see :func:`informed`. ``shown``: the unperturbed columns
    that he weighs records by, each with a key that it goes with; ``latent``: the perturbed ones beside the keys, those
    that tell nothing among them (:meth:`postrand.risk.exposure.TrueFile.exposure`).
    """

    anyone: Matches
    unique: Matches | None
    individual: Spread
    some_member: Spread | None
    whole: Spread | None
    releases: int
    of_two: bool = False
    shown: tuple[tuple[str, str], ...] = ()
    latent: tuple[str, ...] = ()

    def at_least(self, other: Informed) -> Informed:
        """Return the larger figure of each: of an attacker who has one knowledge, or the other."""
        anyone, unique = _likelier(self.anyone, other.anyone), self.unique
        if self.unique is not None and other.unique is not None:
            unique = _likelier(self.unique, other.unique)
        some, whole = (
            one if one is None or two is None else one.at_least(two)
            for one, two in ((self.some_member, other.some_member), (self.whole, other.whole))
        )
        individual = self.individual.at_least(other.individual)
        return Informed(anyone, unique, individual, some, whole, self.releases, of_two=True)


def _likelier(one: Matches, two: Matches) -> Matches:
    return one if one.rate >= two.rate else two


def informed(
    truth: KeyCodes,
    law: Law | None = None,
    *,
    household: IntArray | None = None,
    shown: Shown | None = None,
    seed: int = 0,
) -> Informed:
    """Return what an informed attacker finds in a file with these true keys, released by ``law`` or as it is.

    The attacker knows that the target is in the file (the prosecutor of the literature), and links it to the released
    record with the largest posterior: ``attack.link`` says how. Without a law each target is one of the f records
    with equal keys, and a link is right with probability 1/f: exact. Where household numbers are given, the release
    shows them: the attacker also knows how many records the target's household has, and compares with households of
    that size alone (:mod:`postrand.risk.by_size`).

    With a law, whole releases of the file are drawn and attacked, so that ``rate`` rests on no model: it is the mean
    over simulated links, whatever the attacker believes. Up to ten releases of ``DRAWN`` records together, every person
    a target, where that is at most ``WORK`` comparisons; in larger files one release and random targets (at least 400
    of each kind, whole households).

    How frequent combinations of keys are the attacker learns from the release. Where every person is a target, or a
    split has randomised response alone, the same releases are attacked by one who knows the true keys of all persons
    too (``link(..., knowledge="keys")``), and of each figure the larger is returned. Else this would cost too much.
    So it is of one who weighs released records by what they have ``shown`` beside (:mod:`postrand.risk.shown_attack`).

    Raises
    ------
    UsageError
        If there are no records, missing keys match every value, or the household numbers are not one for each record.

    References
    ----------
    Shlomo and Skinner (2010); El Emam and Dankar (2008), the prosecutor; Benedetti and Franconi (1998), households.

    Examples
    --------
    >>> found = informed(KeyCodes(("sex",), (2,), (np.array([0, 1, 1, 1]),)))
    >>> found.anyone.expected, found.unique.expected, found.individual.largest
    (2.0, 1.0, 1.0)
    """
    n = truth.records
    if not n or truth.has_wildcards or (household is not None and household.shape != (n,)):
        wanted = "records without wildcards, and one household number for each"
        raise UsageError(sentence("the informed attacker cannot use these data", wanted=wanted))
    cells = table(truth)
    alone = np.flatnonzero(cells.uniques[cells.record_cell])
    if law is None:
        risk = 1 / alike(truth, household)
        anyone, unique = Matches(n, float(risk.mean()), float(risk.mean())), Matches(alone.size, 1.0, 1.0)
        return Informed(
            anyone, unique if alone.size else None, Spread.of(risk), *_households([risk], household, None), 0
        )
    found = _after(truth, law, household, alone, np.random.default_rng(seed))
    if shown is None:
        return found
    other = _weighed(truth, law, household, alone, shown, np.random.default_rng([seed, 1]))
    return replace(found.at_least(other), of_two=found.of_two, shown=shown.pairs(truth))


def _after(
    truth: KeyCodes,
    law: Law,
    household: IntArray | None,
    alone: IntArray,
    rng: np.random.Generator,
) -> Informed:
    n = truth.records
    every = strata(truth, law, household, np.arange(n))
    each, work, fits = comparisons(law, n), effort(every), max(FITS // len(every), -(-ENOUGH // n))
    many = int(np.clip(min(WORK // work, DRAWN // n, fits), 1, MOST_RELEASES))
    most = n if work <= WORK else max(FEWEST_TARGETS, WORK // each // 4)
    known = knowledges(law, work)
    first, *rest = _attacked(truth, law, household, _targets(n, alone, most, household, rng), many, known, rng)
    return first.at_least(rest[0]) if rest else first


def _weighed(
    truth: KeyCodes,
    law: Law,
    household: IntArray | None,
    alone: IntArray,
    shown: Shown,
    rng: np.random.Generator,
) -> Informed:
    """Return what the attacker finds who weighs records by what they have shown."""
    n, work = truth.records, table(truth).counts.size * truth.records
    truth, law = shown.attacked(truth, law)
    many = int(np.clip(min(PAIRS // work, DRAWN // n), 1, MOST_RELEASES))
    targets = _targets(n, alone, min(2 * persons(n), n), household, rng)
    return _attacked(truth, law, household, targets, many, ("keys",), rng, shown)[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Targets:
    """Persons drawn at random, and some of those whose true keys nobody else has, of so many."""

    random: IntArray
    unique: IntArray
    alone: int


def _targets(n: int, alone: IntArray, most: int, household: IntArray | None, rng: np.random.Generator) -> _Targets:
    random = sampled(n, most, household, rng)
    return _Targets(random, rng.choice(alone, min(most, alone.size), replace=False), alone.size)


def _attacked(
    truth: KeyCodes,
    law: Law,
    household: IntArray | None,
    targets: _Targets,
    many: int,
    known: Sequence[Knowledge],
    rng: np.random.Generator,
    shown: Shown | None = None,
) -> list[Informed]:
    """Return what attackers with each knowledge find in the same releases."""
    n, random = truth.records, targets.random
    both = np.r_[random, targets.unique]
    seeds = rng.integers(2**31, size=many).tolist()
    attacked = strata(truth, law, household, both)
    attacks = [_Attack(knowledge, household is not None) for knowledge in known]
    for drawn in drawn_by(law, truth, seeds, household):
        for attack in attacks:
            attack.add(linked(attacked, drawn, attack.knowledge, shown), random.size)
        del drawn  # else it stays while the next release is drawn
    sizes = (n, random.size, targets.alone, targets.unique.size)
    return [attack.found(sizes, None if household is None else household[random], law) for attack in attacks]


@dataclass(slots=True)
class _Attack:
    """Collects what one attacker finds in several releases, the first targets of each being random persons."""

    knowledge: Knowledge
    of_households: bool
    rates: list[FloatArray] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    known: list[FloatArray] = field(default_factory=list)

    def add(self, found: Linkage, random: int) -> None:
        right, claimed, parts = found.correct, found.claimed, (slice(None, random), slice(random, None))
        self.rates.append(np.array([(right[p].mean(), claimed[p].mean()) for p in parts if right[p].size]))
        self.spreads.append(Spread.of(claimed[:random]))
        if self.of_households:
            self.known.append(claimed[:random])

    def found(self, sizes: tuple[int, int, int, int], household: IntArray | None, law: Law) -> Informed:
        """Return the figures; ``sizes`` are the persons, and of them targets, the unique ones, and targets of these."""
        persons, random, alone, unique = sizes
        many = len(self.rates)
        (rate, claim), *rest = np.mean(self.rates, axis=0).tolist()
        return Informed(
            Matches(persons, rate, claim, many * random),
            Matches(alone, rest[0][0], rest[0][1], many * unique) if rest else None,
            Spread.together(self.spreads),
            *_households(self.known, household, law),
            many,
        )


def _central(targets: int, mean: float, strength: float | None) -> tuple[int, int]:
    """Return the 2.5% and 97.5% quantiles of ``Binomial(targets, mean)``, or with that mean drawn from a beta law.

    The beta law is ``Beta(strength mean, strength (1 − mean))``. Probabilities are products of the ratios of
    neighbours, within ``TAILS`` standard deviations of the mean: no table of all numbers.
    """
    if mean in (0.0, 1.0):
        return int(targets * mean), int(targets * mean)
    apart = 1.0 if strength is None else (strength + targets) / (strength + 1)
    reach = TAILS * (math.sqrt(targets * mean * (1 - mean) * apart) + 1)
    k = np.arange(max(int(targets * mean - reach), 0), min(math.ceil(targets * mean + reach), targets) + 1.0)
    here = k[:-1]
    if strength is None:
        odds = np.full(here.size, mean / (1 - mean))
    else:
        odds = (strength * mean + here) / (strength * (1 - mean) + targets - here - 1)
    steps = np.log((targets - here) / (here + 1) * odds)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    below = np.cumsum(np.exp(logs - logs.max()))
    low, high = k[np.searchsorted(below, below[-1] * np.array([0.025, 0.975]))]
    return int(low), int(high)


def knowledges(law: Law, work: int) -> tuple[Knowledge, ...]:
    """Return what the attackers know that are tried, where every person is linked with so much ``work``."""
    both = law.alone or work <= WORK if isinstance(law, SplitLaw) else law.blend is None and work <= WORK
    return ("matrix", "keys") if both else ("matrix",)


def effort(every: Sequence[Stratum]) -> int:
    """Return about how many comparisons link every person, who all are targets."""
    return sum(one.people.counts.size * comparisons(one.law, one.truth.records) for one in every)


def comparisons(law: Law, records: int) -> int:
    """Return about how many released cells one target is compared with: no release has more occupied cells.

    Randomised response on the keys of a subset needs next to none: the target's own cell, and the best of the others.
    """
    if isinstance(law, KeyLaw):
        return min(records, int(np.prod([float(m.shape[1]) for m in law.matrices]).clip(max=2.0**62)))
    cells = [math.prod(float(law.shape[j]) for j in part.positions) for part in law.parts]
    weighed = zip(law.parts, cells, strict=True)
    return sum(ALONE if part.alone else math.ceil(min(records * part.probability, size)) for part, size in weighed)


def sampled(n: int, most: int, household: IntArray | None, rng: np.random.Generator) -> IntArray:
    """Return the positions of at most about ``most`` records drawn at random, households with all their members."""
    if most >= n:
        return np.arange(n)
    if household is None:
        return rng.choice(n, most, replace=False)
    _, member, sizes = np.unique(household, return_inverse=True, return_counts=True)
    order = rng.permutation(sizes.size)
    drawn = np.zeros(sizes.size, dtype=bool)
    drawn[order[: np.searchsorted(np.cumsum(sizes[order]), most) + 1]] = True
    return np.flatnonzero(drawn[member])


def _households(
    risks: list[FloatArray], household: IntArray | None, law: Law | None
) -> tuple[Spread | None, Spread | None]:
    """Return the spread over households, each counted once, of the two risks; over all releases."""
    if household is None:
        return None, None
    some, whole = zip(*(claimed_members(risk, household, law) for risk in risks), strict=True)
    return Spread.of(np.concatenate(some)), Spread.of(np.concatenate(whole))
