"""Rules that a release could contradict although no record of the input contradicts any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.rules import Rule, feasible_cells
from postrand.mechanism import Block, Mechanism


def reachable(mechanism: Mechanism) -> list[Rule]:
    """Return the rules that a release could contradict although no record of the input contradicts any.

    A rule is listed where some feasible true combination of all variables of the blocks concerned leads to it with
    positive probability. Rules that join further variables are not used, so a rule may be listed needlessly, never
    left out. A rule on variables of a split can be contradicted by the subsets that show all of them.

    Raises
    ------
    SpecificationError
        If the blocks concerned have too many combinations to enumerate.
    """
    codebook, partly = mechanism.require_codebook(), set(mechanism.partly)
    tables: dict[tuple[str, ...], NDArray[np.int32]] = {}
    found: list[Rule] = []
    left = list(codebook.rules)
    for blocks in mechanism.alternatives:
        shown = {name for block in blocks for name in block.perturbed}
        tried = [rule for rule in left if partly.intersection(rule.variables) <= shown]
        found += _reachable(blocks, tried, codebook, tables)
        left = [
            rule for rule in left if rule not in found and not (rule in tried and partly.isdisjoint(rule.variables))
        ]
    return [rule for rule in codebook.rules if rule in found]


def _reachable(
    every: Sequence[Block], rules: Sequence[Rule], codebook: Codebook, tables: dict[tuple[str, ...], NDArray[np.int32]]
) -> list[Rule]:
    """Return those of the rules that a release through all of the blocks could contradict."""
    found = []
    for rule in rules:
        blocks = [b for b in every if not set(b.perturbed).isdisjoint(rule.variables)]
        names = tuple(dict.fromkeys([n for b in blocks for n in b.variables] + list(rule.variables)))
        if names not in tables:
            tables[names] = feasible_cells(codebook, names, codebook.rules)
        codes = dict(zip(names, tables[names].T, strict=True))
        possible = np.ones(len(tables[names]), dtype=bool)
        for block in blocks:
            possible &= _leads_to(block, rule, codebook, codes)
        clear = [p for p in rule.parts if not any(p[0] in b.perturbed for b in blocks)]
        if clear:
            possible &= Rule(clear).matches(codebook, codes)
        found += [rule] * bool(possible.any())
    return found


def _leads_to(block: Block, rule: Rule, codebook: Codebook, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return the true combinations from which the block can release the rule's categories of its variables."""
    shape = tuple(codebook[n].size for n in block.variables)
    cells = block.cell_table(shape)
    inside = Rule([p for p in rule.parts if p[0] in block.perturbed])
    bad = inside.matches(codebook, dict(zip(block.variables, cells.T, strict=True)))
    leads = block.matrix.times(bad.astype(np.float64)) > 0  # no sum of multiples of 2^-53 is lost
    lookup = np.zeros(shape, dtype=bool)  # a combination that is not a cell stops the run
    lookup[tuple(cells.T)] = leads
    found: NDArray[np.bool_] = lookup[tuple(codes[n] for n in block.variables)]
    return found
