"""What one guarantee buys three ways: separate blocks, the best joint blocks, a split release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.codebook.codebook import Codebook
from postrand.designers.split.candidates import candidates_of, chosen_variables
from postrand.designers.split.fixed_blocks import EXHAUSTIVE, Blocks, FixedBlocks
from postrand.designers.split.rows import most
from postrand.designers.split.splitting import MAX_CELLS, SplitDesign, split_design
from postrand.designers.split.subsets import count_subsets
from postrand.errors import PostrandError

SEARCHED = 10
"""Of so many variables at most, joint blocks are searched for advice that is not asked for."""

QUICK = 5_000
"""So many subsets are compared at most where an answer has to come at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Hold what one guarantee buys three ways, for the same tables.

    ``exhaustive``: whether every partition was tried, with three ways to divide ε; the best are improved further.
    ``records``: of the file, if given.
    """

    separate: FixedBlocks
    joint: FixedBlocks
    split: SplitDesign
    exhaustive: bool
    records: int | None = None

    @property
    def best(self) -> str:
        """Which of the three is worth most: ``separate``, ``joint`` or ``split``; the first where they are alike."""
        values = self._values()
        least = min(values.values())
        return next(name for name, value in values.items() if value <= least * (1 + 1e-9))

    def effective_records(self, records: int | None = None) -> dict[str, float]:
        """Return how many unperturbed records so many released ones are worth, for each way; of 1,000 by default."""
        n = records or self.records or 1000
        return {name: n / value for name, value in self._values().items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal where the prior is."""
        return {
            "epsilon": self.split.epsilon,
            "variables": list(self.split.variables),
            "tables": len(self.split.tables),
            "records": self.records or 1000,
            "effective_records": self.effective_records(),
            "best": self.best,
            "joint_blocks": [list(block) for block in self.joint.blocks],
            "joint_epsilons": list(self.joint.epsilons),
            "every_partition_tried": self.exhaustive,
            "prior": self.split.provenance,
        }

    def text(self) -> str:
        """Return the comparison as lines of text."""
        worth, n = self.effective_records(), self.records or 1000
        joined = "; ".join(" × ".join(block) for block in self.joint.blocks)
        how = "every partition was tried" if self.exhaustive else "a search"
        tables = f"{len(self.split.tables):,} table{'s' * (len(self.split.tables) > 1)}"
        rows = (
            ("separate", "separate blocks", "each variable by itself"),
            ("joint", "best joint blocks", f"{joined} ({how})"),
            ("split", "split release", f"each record shows one of {len(self.split.subsets):,} subsets"),
        )
        what = f"{n:,} released records are worth so many unperturbed ones for {tables}"
        head = f"What ε = {self.split.epsilon:g} buys for {len(self.split.variables)} variables: {what}"
        mark = {name: " (best)" * (name == self.best) for name in worth}
        return "\n".join([head, *(f"  {_shown(worth[k]):>12}  {t}{mark[k]}: {why}" for k, t, why in rows)])

    def _values(self) -> dict[str, float]:
        return {"separate": self.separate.value, "joint": self.joint.value, "split": self.split.value}


def compare_split(
    codebook: Codebook,
    variables: Sequence[str] | None = None,
    epsilon: float = 1.0,
    workload: Any = "pairs",
    core: Sequence[str] = (),
    max_cells: int = MAX_CELLS,
    prior: Any = None,
    n: int | None = None,
) -> Compared:
    """Return what ε buys as separate blocks, as the best joint blocks, and as a split release.

    Variables that rules link stay in one block. With up to 8 variables every partition is tried; with more, blocks are
    merged two at a time as long as that helps, and then variables are moved one at a time. Arguments are those of
    :func:`postrand.split_design`; blocks have no core, since they show all.

    Raises
    ------
    DesignError
        As :func:`postrand.split_design`.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in ("sex", "own", "work", "north")))
    >>> found = compare_split(book, epsilon=2.0)
    >>> found.best, {name: round(worth) for name, worth in found.effective_records(1000).items()}
    ('split', {'separate': 10, 'joint': 81, 'split': 99})
    """
    split = split_design(codebook, variables, epsilon, workload, core, max_cells=max_cells, prior=prior, n=n)
    problem = Blocks(candidates_of(codebook, variables, workload, core, max_cells, prior), split.epsilon)
    separate = problem.improved(problem.start)
    exhaustive = len(problem.start) <= EXHAUSTIVE
    joint = problem.best_of_all() if exhaustive else problem.merged(problem.start)
    return Compared(separate, min(joint, separate, key=lambda found: found.value), split, exhaustive, n)


def compare_ways(
    codebook: Codebook,
    variables: Sequence[str],
    epsilon: float,
    workload: Any = "pairs",
    prior: Any = None,
    n: int | None = None,
) -> tuple[dict[str, Any], str]:
    """Return what ε buys three ways, as plain data and as text; where it cannot be compared, the reason.

    As :func:`compare_split` for up to 10 variables; with more, joint blocks are not searched. The default prior is
    uniform: the answer then follows from the codebook and ε alone, and may be published.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in ("sex", "own", "work", "north")))
    >>> print(compare_ways(book, book.names, 2.0)[1])
    What ε = 2 buys for 4 variables: 1,000 released records are worth so many unperturbed ones for 6 tables
               9.7  separate blocks: each variable by itself
                81  best joint blocks: sex × own × work × north (every partition was tried)
                99  split release (best): each record shows one of 4 subsets
    """
    try:
        if len(variables) <= SEARCHED:
            found = compare_split(codebook, variables, epsilon, workload, prior=prior, n=n)
            return found.to_dict(), found.text()
        worth = quick_split(codebook, variables, epsilon)
    except PostrandError as error:
        return {"not_compared": list(error.problems)}, f"Blocks and a split release are not compared: {error}"
    each = {"separate": (n or 1000) * worth.separate, "split": (n or 1000) * worth.split}
    best = "split" if each["split"] > each["separate"] else "separate"
    data = {"epsilon": epsilon, "variables": list(variables), "records": n or 1000, "effective_records": each}
    what = f"{n or 1000:,} released records are worth so many unperturbed ones for all tables of two"
    lines = [
        f"What ε = {epsilon:g} buys for {len(variables)} variables: {what}",
        f"  {_shown(each['separate']):>12}  separate blocks: each variable by itself, with an equal share",
        f"  {_shown(each['split']):>12}  split release, or more: each record shows a random subset",
    ]
    return {**data, "best": best, "prior": "public"}, "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Quick:
    """Hold how many unperturbed records one record is worth: as separate blocks, and in a split release, or more.

    ``together``: the split release has one subset, of all variables: it is one joint block.
    """

    separate: float
    split: float
    together: bool


def quick_split(codebook: Codebook, variables: Sequence[str], epsilon: float) -> Quick:
    """Return at once what one record is worth for tables of two variables, as separate blocks and in a split release.

    Separate blocks with equal shares of ε, and a split release whose subsets have few enough cells that they are found
    at once: it is worth at least this. The prior is uniform, so that the answer says nothing about a file.

    Raises
    ------
    DesignError
        As :func:`postrand.split_design`.
    """
    names, _ = chosen_variables(codebook, variables, ())
    sizes = sorted(codebook[name].size for name in names)
    cells, least = MAX_CELLS, sizes[-1] * sizes[-2] if len(sizes) > 1 else MAX_CELLS
    while cells > least and count_subsets(sizes, (), cells) > QUICK:
        cells = max(cells // 2, least)
    given = candidates_of(codebook, names, "pairs", (), cells, None)
    problem = Blocks(given, epsilon)
    blocks = problem.valued(problem.start, next(problem.divisions(problem.start))).value
    if count_subsets(sizes, (), cells) <= QUICK:
        found = split_design(codebook, names, epsilon, max_cells=cells)
        return Quick(1 / blocks, 1 / found.value, [s.variables for s in found.subsets] == [names])
    alone = most(given.subsets.at(epsilon).rows)  # each table from a subset of its own
    return Quick(1 / blocks, 1 / float(np.sqrt(given.weights / alone).sum()) ** 2, together=False)


def _shown(worth: float) -> str:
    return f"{worth:.2g}" if worth < 99.5 else f"{worth:,.0f}"
