"""The links of an informed attacker that a release is expected to leave right, by draws that every level shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from postrand.mechanism import Mechanism
from postrand.risk.attack import link
from postrand.risk.cells import CellTable, IntArray, KeyCodes, table
from postrand.risk.expected import SURE, Summary, information, outermost
from postrand.risk.informed import FEWEST_TARGETS, WORK, comparisons, informed, knowledges
from postrand.risk.law import KeyLaw, Members, releases


@dataclass(frozen=True, slots=True, eq=False)
class InformedMatches:
    """Hold an unperturbed file, all of whose persons an attacker links who knows their keys and that they are in it.

    ``members`` are the units whose records share draws; each person is still linked by what their own record shows.
    ``household`` (n,) are the numbers of the households, where they are known.
    """

    keys: KeyCodes
    cells: CellTable
    members: Members = field(default_factory=dict)
    household: IntArray | None = None

    @classmethod
    def of(cls, keys: KeyCodes, members: Members | None = None, household: IntArray | None = None) -> InformedMatches:
        """Return the attack on a file with these true keys."""
        return cls(keys, table(keys), members or {}, household)

    def unperturbed(self) -> Summary:
        """Return the summary of the file as it is: of each class of equal keys one link is right, on average."""
        chance = 1 / self.cells.counts
        risk, law = float(chance.size), KeyLaw.of(None, self.keys.names, self.keys.shape)
        upper = risk + SURE * math.sqrt(float((1 - chance).sum()))
        return risk, 0.0, upper, information(law, self.cells), 1.0

    def under(self, mechanism: Mechanism, draws: int, seed: int) -> Summary:
        """Return the summary of a release: the mean of the right links over draws of whole releases.

        It is that of the attacker who finds more, of those with the knowledges that ``informed`` tries. In large files
        the targets are a random sample of the persons, whose error is in the standard error.
        """
        mechanism.require_no_split("the search for a level, whose draws must be the same at every level,")
        n, law = self.keys.records, KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        outermost(law, self.members)  # refuses what is not known
        targets = self._targets(comparisons(law, n), draws, seed)
        people = table(self.keys.take(targets))
        known = knowledges(law, self.cells.counts.size, n)
        totals, spreads = np.empty((len(known), draws)), np.zeros(len(known))
        for d, drawn in enumerate(releases(law, self.keys, range(seed, seed + draws), self.members)):
            for a, knowledge in enumerate(known):
                right = link(self.keys, drawn, law, knowledge, targets=targets, people=people).correct
                totals[a, d] = n * right.mean()
                spreads[a] += float(right.var()) / draws
        best = int(totals.mean(axis=1).argmax())
        mean, between, spread = float(totals[best].mean()), float(totals[best].var(ddof=1)), float(spreads[best])
        sampled = n * (n - targets.size) * spread / targets.size
        one = math.sqrt(between + mean + sampled)  # who is linked adds at most a Poisson variance
        stay = law.diagonal(self.cells.codes)
        unchanged = float((stay * self.cells.counts).sum() / n)
        error = math.sqrt(between / draws + sampled)
        return mean, error, mean + SURE * one, information(law, self.cells), unchanged

    def figure(self, mechanism: Mechanism) -> float:
        """Return the right links that every other page states of the mechanism: by the releases drawn for these."""
        law = KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        return informed(self.keys, law, household=self.household).anyone.expected

    def _targets(self, each: int, draws: int, seed: int) -> IntArray:
        """Return all persons, or so many at random that the comparisons of all draws stay within bounds."""
        n = self.keys.records
        if self.cells.counts.size * each * draws <= WORK:
            return np.arange(n)
        most = min(max(FEWEST_TARGETS, WORK // (each * draws)), n)
        return np.sort(np.random.default_rng([seed, 21]).choice(n, most, replace=False))
