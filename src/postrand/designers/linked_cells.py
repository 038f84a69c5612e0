"""The shape of a block before it has a matrix: its cells, its classes, and which classes share a law.

Three needs have one form. Strata: a class for each value of variables that stay as they are. Record selection: the
combinations that stay as they are, each a class of its own. Structural zeros across blocks: *closed* blocks, which
exchange only what keeps every rule.

Closing works with hubs. Each rule may join at most one block that is not a hub. A hub exchanges only cells that the
rules treat alike (the same rests of rules forbid them), so the others may rely on it; they are drawn among the
categories that are feasible given the hubs' values.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.codebook.rules import Rule, feasible_cells, linked
from postrand.errors import SpecificationError, sentence

_MAX_HUBS = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class LinkedCells:
    """Hold the cells of a block, (K, J), the class of each, (K,), and the law of each class, (C,).

    Classes of one law have the same perturbed cells in the same order, and will get the same matrix.
    """

    variables: tuple[str, ...]
    given: tuple[str, ...]
    cells: NDArray[np.int32]
    labels: NDArray[np.intp]
    laws: NDArray[np.intp]

    @property
    def is_simple(self) -> bool:
        """Whether the block has one class."""
        return len(self.laws) == 1


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """Name the variables that one block perturbs, those that it is asked to read and leave as they are, and its ε."""

    variables: tuple[str, ...]
    given: tuple[str, ...] = ()
    epsilon: float = 1.0


def shapes_of(codebook: Codebook, parts: Sequence[BlockRequest]) -> list[LinkedCells]:
    """Return the shapes of blocks that together keep every rule of the codebook, and read what they are given.

    Raises
    ------
    SpecificationError
        If a given variable is perturbed by another block, or no closed blocks were found.
    """
    perturbed = {name: b for b, part in enumerate(parts) for name in part.variables}
    wrong = [name for part in parts for name in part.given if name in perturbed]
    if wrong:
        what = f"stratum {wrong[0]!r} is perturbed by a block of its own"
        raise SpecificationError(sentence(what, fix="leave it unperturbed, or do not use it for strata"))
    rules = [rule for rule in _single(codebook.rules) if any(n in perturbed for n in rule.variables)]
    hubs = _hubs(codebook, parts, rules, perturbed)
    made = {b: _hub_shape(codebook, parts[b], rules) for b in hubs}
    groups = {n: _code_groups(made[b], n) for n, b in perturbed.items() if b in made}
    for b, part in enumerate(parts):
        if b not in made:
            made[b] = _read_shape(codebook, part, rules, groups)
    return [made[b] for b in range(len(parts))]


def select(shape: LinkedCells, stays: NDArray[np.bool_]) -> LinkedCells:
    """Return the shape in which the cells that ``stays`` (K,) names are released as they are."""
    if not shape.is_simple:
        raise SpecificationError(sentence("records are selected only in blocks of one class", fix="leave out 'given'"))
    labels = np.zeros(len(stays), dtype=np.intp)
    labels[stays] = 1 + np.arange(int(stays.sum()))
    if stays.all():
        labels -= 1
    return LinkedCells(shape.variables, (), shape.cells, labels, np.arange(labels.max() + 1))


def advice(codebook: Codebook, parts: Sequence[BlockRequest]) -> list[str]:
    """Say, for each set of blocks that rules link, how many combinations are feasible and which way to take.

    Compared are laws that treat all categories alike: randomised response on the feasible combinations with the sum of
    the budgets, and on each block's with its own. What depends on one another is kept better together than this says.
    """
    inside = [part.variables for part in parts]
    perturbed = {name for names in inside for name in names}
    rules = [rule for rule in codebook.rules if not perturbed.isdisjoint(rule.variables)]
    texts = []
    for names in linked(rules, inside):
        blocks = [part for part in parts if not set(names).isdisjoint(part.variables)]
        if len(blocks) < 2:
            continue
        count = len(feasible_cells(codebook, names, codebook.rules))
        text = f"Rules link {', '.join(names)}: {count:,} feasible combinations. "
        total = sum(part.epsilon for part in blocks)
        together = _kept(count, total)
        apart = sum(_kept(len(feasible_cells(codebook, b.variables, codebook.rules)), b.epsilon) for b in blocks)
        figures = (
            f"at ε = {total:.3g}, {together:.2g} nats about evenly spread combinations, and blocks apart {apart:.2g}"
        )
        text += (
            f"One joint block is recommended: it discloses nothing else about them, and keeps, {figures}."
            if together >= apart
            else f"Blocks closed under the rules keep more, but disclose classes; one joint block keeps, {figures}. "
            "Its structure 'product' comes near the latter and does not disclose classes."
        )
        texts.append(text)
    return texts


def _kept(size: int, epsilon: float) -> float:
    """Return the information (nats) that randomised response keeps about ``size`` equally frequent categories."""
    if size < 2:
        return 0.0
    stays = 1 / (1 + (size - 1) * math.exp(-epsilon))
    moves = (size - 1) * math.exp(-epsilon) * stays
    return math.log(size) + stays * math.log(stays) + moves * math.log(moves / (size - 1))


def _single(rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules with one category a variable that say the same."""
    return [
        Rule(list(zip(rule.variables, values, strict=True)))
        for rule in rules
        for values in itertools.product(*(v for _, v in rule.parts))
    ]


def _hubs(
    codebook: Codebook, parts: Sequence[BlockRequest], rules: Sequence[Rule], perturbed: dict[str, int]
) -> tuple[int, ...]:
    """Return the fewest blocks that leave at most one other block in each rule; of several choices the loosest."""
    touched = {frozenset(perturbed[n] for n in rule.variables if n in perturbed) for rule in rules}
    touched = {blocks for blocks in touched if len(blocks) > 1}
    candidates = sorted(set().union(*touched))
    for count in range(len(candidates) + 1):
        fit = [
            hubs
            for hubs in itertools.islice(itertools.combinations(candidates, count), _MAX_HUBS)
            if all(len(blocks.difference(hubs)) <= 1 for blocks in touched)
        ]
        if fit:
            return min(fit, key=lambda hubs: sum(_lost(_hub_shape(codebook, parts[b], rules)) for b in hubs))
    raise SpecificationError(sentence("no closed blocks were found", fix="perturb the linked variables in one block"))


def _lost(shape: LinkedCells) -> float:
    """Return the share of pairs of cells that are not exchanged."""
    sizes = np.bincount(shape.labels)
    return 1 - float((sizes * (sizes - 1)).sum()) / max(1, len(shape.cells) * (len(shape.cells) - 1))


def _hub_shape(codebook: Codebook, part: BlockRequest, rules: Sequence[Rule]) -> LinkedCells:
    """Return the shape whose classes are the cells that the rules (and the given variables) treat alike."""
    names = (*part.given, *part.variables)
    cells = feasible_cells(codebook, names, codebook.rules)
    rests: list[set[object]] = [set() for _ in cells]
    for rule in rules:
        own = [p for p in rule.parts if p[0] in names]
        if own and len(own) < len(rule.parts):
            rest = frozenset(p for p in rule.parts if p[0] not in names)
            for k in np.flatnonzero(Rule(own).matches(codebook, dict(zip(names, cells.T, strict=True)))):
                rests[k].add(rest)
    given = len(part.given)
    keys = [(tuple(row[:given]), frozenset(rest)) for row, rest in zip(cells.tolist(), rests, strict=True)]
    labels = _number(keys)
    return LinkedCells(names, part.given, cells, labels, np.arange(labels.max() + 1))


def _code_groups(shape: LinkedCells, name: str) -> NDArray[np.intp]:
    """Return the group of each code of a hub's variable; codes that share a class share a group."""
    codes = shape.cells[:, shape.variables.index(name)]
    groups = np.arange(codes.max() + 1)
    for c in range(len(shape.laws)):
        met = np.unique(groups[codes[shape.labels == c]])
        groups[np.isin(groups, met)] = met[0]
    return groups


def _read_shape(
    codebook: Codebook, part: BlockRequest, rules: Sequence[Rule], groups: dict[str, NDArray[np.intp]]
) -> LinkedCells:
    """Return the shape of a block that relies on hubs and on variables that stay as they are."""
    met = [n for rule in rules if not set(part.variables).isdisjoint(rule.variables) for n in rule.variables]
    given = tuple(dict.fromkeys(n for n in [*part.given, *met] if n not in part.variables))
    names = (*given, *part.variables)
    cells = feasible_cells(codebook, names, codebook.rules)
    keys = list(map(tuple, cells[:, : len(given)].tolist()))
    labels = _number(keys)
    first = [keys[int(np.argmax(labels == c))] for c in range(labels.max() + 1)]
    laws = _number(
        [tuple(int(groups[n][c]) if n in groups else c for n, c in zip(given, k, strict=True)) for k in first]
    )
    alike: dict[int, set[bytes]] = defaultdict(set)
    for c, law in enumerate(laws):
        alike[int(law)].add(cells[labels == c, len(given) :].tobytes())
    if any(len(options) > 1 for options in alike.values()):
        what = "values that are exchanged allow different categories of other variables"
        raise SpecificationError(
            sentence(what, where="*".join(part.variables), fix=f"perturb it jointly with {', '.join(given)}")
        )
    return LinkedCells(names, given, cells, labels, laws)


def _number(keys: Sequence[object]) -> NDArray[np.intp]:
    """Return 0, 1, ... for distinct keys in order of appearance."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)
