"""The links of an informed attacker that a release is expected to leave right, by draws that every level shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from postrand.mechanism import Mechanism
from postrand.risk.by_size import alike, linked, strata
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.expected import SURE, Summary, information, outermost
from postrand.risk.informed import FEWEST_TARGETS, WORK, comparisons, effort, informed, knowledges
from postrand.risk.law import KeyLaw, Members, releases
from postrand.risk.linkage import Knowledge
from postrand.risk.shown import Shown
from postrand.risk.shown_attack import persons
from postrand.risk.shown_columns import Columns

OF_ONE = WORK // 5
"""Compare so many pairs at most in one draw, of which a search has many."""


@dataclass(frozen=True, slots=True, eq=False)
class InformedMatches:
    """Hold an unperturbed file, all of whose persons an attacker links who knows their keys and that they are in it.

    ``members`` are the units whose records share draws; each person is still linked by what their own record shows.
    ``household`` (n,) are the numbers of the households, where they are known, and ``columns`` those beside the keys.
    """

    keys: KeyCodes
    cells: CellTable
    members: Members = field(default_factory=dict)
    household: IntArray | None = None
    columns: Columns | None = None

    @classmethod
    def of(
        cls,
        keys: KeyCodes,
        members: Members | None = None,
        household: IntArray | None = None,
        columns: Columns | None = None,
    ) -> InformedMatches:
        """Return the attack on a file with these true keys."""
        return cls(keys, table(keys), members or {}, household, columns)

    def unperturbed(self) -> Summary:
        """Return the summary of the file as it is: of each class of equal keys one link is right, on average."""
        chance = 1 / alike(self.keys, self.household)
        risk, law = float(chance.sum()), KeyLaw.of(None, self.keys.names, self.keys.shape)
        upper = risk + SURE * math.sqrt(float((chance * (1 - chance)).sum()))
        return risk, 0.0, upper, information(law, self.cells), 1.0

    def under(self, mechanism: Mechanism, draws: int, seed: int) -> Summary:
        """Return the summary of a release: the mean of the correct matches over draws of whole releases.

        It is that of the attacker who finds more, of those that ``informed`` tries. In large files
        the targets are a random sample of the persons, another for each draw, and as many whatever the number of
        draws: the standard error falls with the root of it.
        """
        mechanism.require_no_split("the search for a level, whose draws must be the same at every level,")
        n, law = self.keys.records, KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        outermost(law, self.members)  # refuses what is not known
        every = strata(self.keys, law, self.household, np.arange(n))
        work = effort(every)
        seen = self._shown(mechanism)
        many = self._many(comparisons(law, n), work)
        found = [self._right(knowledges(law, work), None, law, many, range(seed, seed + draws))]
        if seen is not None:
            found.append(self._right(("keys",), seen, law, min(many, persons(n)), range(seed, seed + draws)))
        totals, spreads, targets = (np.concatenate(part) for part in zip(*found, strict=True))
        best = int(totals.mean(axis=1).argmax())
        mean, between, spread = float(totals[best].mean()), float(totals[best].var(ddof=1)), float(spreads[best])
        many = int(targets[best])
        sampled = n * (n - many) * spread / many  # of one draw, whose variance by few draws can be less by chance
        error = math.sqrt(max(between, sampled) / draws)
        # who is linked adds at most a Poisson variance to what differs between releases
        one = math.sqrt(max(between - sampled, 0.0) + mean + error**2)
        stay = law.diagonal(self.cells.codes)
        unchanged = float((stay * self.cells.counts).sum() / n)
        return mean, error, mean + SURE * one, information(law, self.cells), unchanged

    def figure(self, mechanism: Mechanism) -> float:
        """Return the correct matches that every other page states of the mechanism: by the releases drawn for these."""
        law = KeyLaw.of(mechanism, self.keys.names, self.keys.shape)
        return informed(self.keys, law, household=self.household, shown=self._shown(mechanism)).anyone.expected

    def _shown(self, mechanism: Mechanism) -> Shown | None:
        return None if self.columns is None else self.columns.shown(self.keys, mechanism, self.household)

    def _right(
        self, known: Sequence[Knowledge], shown: Shown | None, law: KeyLaw, many: int, seeds: range
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return of each knowledge of attackers the correct matches (A, D), their spread (A,), and targets (A,)."""
        truth, own = (self.keys, law) if shown is None else shown.attacked(self.keys, law)
        assert isinstance(own, KeyLaw), "no split"
        n = truth.records
        totals, spreads = np.empty((len(known), len(seeds))), np.zeros(len(known))
        every = strata(truth, own, self.household, np.arange(n)) if many >= n else ()
        for d, drawn in enumerate(releases(own, truth, seeds, self.members)):
            attacked = every or strata(truth, own, self.household, self._targets(many, seeds[d]))
            for a, knowledge in enumerate(known):
                right = linked(attacked, drawn, knowledge, shown).correct
                totals[a, d] = n * right.mean()
                spreads[a] += float(right.var()) / len(seeds)
        return totals, spreads, np.full(len(known), min(many, n))

    def _many(self, each: int, work: int) -> int:
        """Return the targets of one draw: all persons, or so many that its comparisons stay within bounds."""
        n = self.keys.records
        return n if work <= OF_ONE else min(max(FEWEST_TARGETS, OF_ONE // each), n)

    def _targets(self, many: int, seed: int) -> IntArray:
        """Return the positions of so many persons, at random."""
        return np.sort(np.random.default_rng([seed, 22]).choice(self.keys.records, many, replace=False))
