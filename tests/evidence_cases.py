"""Tiny mechanisms of every kind, and ``P(released | true)`` of a record read directly from their exact matrices."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa

from postrand import Block, Codebook, Mechanism, Split, TransitionMatrix, Variable, randomised_response
from postrand.codebook import coding, not_released
from postrand.codebook.rules import Rule

KEPT, BLANK = -1, -2
"""A missing value that is kept, and one that is not released, among codes."""

GENERAL = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.125, 0.625]])
CIRCULANT = TransitionMatrix.from_array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
COLUMNS = TransitionMatrix.from_array([[0.75, 0.125, 0.125], [0.25, 0.625, 0.125], [0.25, 0.125, 0.625]])
"""It keeps a value with one half, and else draws from one law: not uniform, so no randomised response."""


def variable(name: str, size: int, missing: str = "error", role: str = "key") -> Variable:
    return Variable(name, role, tuple(f"{name}{code}" for code in range(size)), missing=missing)


A, B, C = variable("a", 2), variable("b", 3), variable("c", 3)
FREE = Codebook((A, B, C))


def _plain() -> Mechanism:
    book = Codebook((A, variable("b", 3, "keep"), variable("c", 2, "category")))
    laws = {"a": randomised_response(2, 1.0), "b": GENERAL, "c": COLUMNS}
    return Mechanism(laws, book)


def _joint() -> Mechanism:
    rng = np.random.default_rng(5)
    return Mechanism({("a", "b"): TransitionMatrix.from_array(rng.dirichlet(np.ones(6), 6)), "c": CIRCULANT}, FREE)


def _product() -> Mechanism:
    """Return a joint block whose variables are perturbed independently, as its matrix does not say at once."""
    every = tuple(itertools.product(range(3), range(2), range(3)))
    array = np.kron(np.kron(GENERAL.array, randomised_response(2, 1.0).array), CIRCULANT.array)
    return Mechanism([Block(("b", "a", "c"), TransitionMatrix.from_array(array), every)], FREE)


def _feasible() -> Mechanism:
    book = Codebook((A, B, C), (Rule({"a": "a0", "b": ["b1", "b2"]}), Rule({"b": "b0", "c": "c2"})))
    cells = ((0, 0), (1, 0), (1, 1), (1, 2))
    return Mechanism([Block(("a", "b"), randomised_response(4, 1.0), cells), Block(("c",), COLUMNS)], book)


def _strata() -> Mechanism:
    """Return a block of b in strata of the clear a, each with its law: the second is released as it is."""
    weights = np.zeros((6, 6))
    weights[:3, :3], weights[3:, 3:] = GENERAL.array, np.eye(3)
    cells = tuple(itertools.product(range(2), range(3)))
    return Mechanism([Block(("a", "b"), TransitionMatrix.from_array(weights), cells, given=("a",))], FREE)


def _read() -> Mechanism:
    """Return a block of a in strata of c, of which another block exchanges the first two: they have one law."""
    c = TransitionMatrix.from_array([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    laws = [randomised_response(2, 1.0), randomised_response(2, 1.0), randomised_response(2, 3.0)]
    weights = np.zeros((6, 6), dtype=np.int64)
    for stratum, law in enumerate(laws):
        weights[stratum::3, stratum::3] = law.weights
    cells = tuple(itertools.product(range(2), range(3)))
    reading = Block(("a", "c"), TransitionMatrix(weights), cells, given=("c",))
    return Mechanism([Block(("c",), c, ((0,), (1,), (2,))), reading], FREE)


def _kept() -> Mechanism:
    return Mechanism({"a": TransitionMatrix.identity(2), "b": randomised_response(3, 2.0)}, FREE)


def _split() -> Mechanism:
    book = Codebook((A, variable("b", 3, "keep"), variable("c", 2, "category")))
    blocks = [
        Block(("a", "c"), randomised_response(6, 2.0)),
        Block(("b",), GENERAL),
        Block(("a",), randomised_response(2, 1.0)),
        Block(("c",), COLUMNS),
    ]
    return Mechanism([], book, split=Split.of([0.25, 0.5, 0.125, 0.125], blocks))


def _split_strata() -> Mechanism:
    """Return a split whose subsets read the clear a, and list only what rules allow, beside a block."""
    d = variable("d", 2)
    book = Codebook((A, B, C, d), (Rule({"a": "a0", "b": "b2"}), Rule({"b": "b1", "c": "c0"})))
    cells = ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
    weights = np.zeros((5, 5))
    weights[:2, :2] = randomised_response(2, 2.0).array
    weights[2:, 2:] = CIRCULANT.array
    reading = Block(("a", "b"), TransitionMatrix.from_array(weights), cells, given=("a",))
    allowed = tuple(cell for cell in itertools.product(range(3), range(3)) if cell != (1, 0))
    other = Block(("b", "c"), randomised_response(8, 2.0), allowed)
    split = Split.of([0.5, 0.25, 0.25], [reading, other, Block(("c",), randomised_response(3, 2.0))])
    return Mechanism({"d": randomised_response(2, 1.0)}, book, split=split)


CASES = {
    "plain": _plain,
    "joint": _joint,
    "product": _product,
    "feasible": _feasible,
    "strata": _strata,
    "read by another": _read,
    "kept": _kept,
    "split": _split,
    "split strata": _split_strata,
}


def true_records(book: Codebook) -> list[tuple[int, ...]]:
    """Return every true record as codes, ``KEPT`` where it misses a value that is kept; those that rules allow."""
    axes = [[*range(v.size), *([KEPT] if v.missing == "keep" else [])] for v in book.variables]
    return [
        record for record in itertools.product(*axes) if not any(_broken(rule, record, book) for rule in book.rules)
    ]


def _broken(rule: Rule, record: tuple[int, ...], book: Codebook) -> bool:
    values = dict(zip(book.names, record, strict=True))
    return all(values[name] in [book[name].categories.index(value) for value in listed] for name, listed in rule.parts)


def likelihood(mechanism: Mechanism, released: tuple[int, ...], true: tuple[int, ...]) -> float:
    """Return ``P(released | true)``; of a split ``P(y | T, x)``, without the probability of its subset T."""
    book = mechanism.require_codebook()
    shown, held = dict(zip(book.names, released, strict=True)), dict(zip(book.names, true, strict=True))
    chance = Fraction(1)
    for name in book.names:
        if name not in mechanism.variables and shown[name] != held[name]:
            return 0.0
    blocks = list(mechanism.blocks)
    if mechanism.split is not None:
        visible = {name for name in mechanism.partly if shown[name] != BLANK}
        blocks += [block for block in mechanism.split.blocks if set(block.perturbed) == visible]
    for block in blocks:
        chance *= _block(block, book, shown, held)
    return float(chance)


def _block(block: Block, book: Codebook, shown: dict[str, int], held: dict[str, int]) -> Fraction:
    if KEPT in (shown[block.variables[0]], held[block.variables[0]]):
        return Fraction(int(shown[block.variables[0]] == held[block.variables[0]]))
    cells = block.cells or tuple(itertools.product(*(range(book[name].size) for name in block.variables)))
    row = tuple(held[name] for name in block.variables)
    # What a block reads it leaves as it truly is; if it is shown otherwise, another block did that.
    column = tuple((held if name in block.given else shown)[name] for name in block.variables)
    if row not in cells or column not in cells:
        return Fraction(0)
    return Fraction(int(block.matrix.weights[cells.index(row), cells.index(column)]), 1 << 53)


def released_records(mechanism: Mechanism) -> list[tuple[int, ...]]:
    """Return every record that can be released: each subset of the split, each combination that some true one gives."""
    book = mechanism.require_codebook()
    true = true_records(book)
    patterns = [set(b.perturbed) for b in mechanism.split.blocks] if mechanism.split else [set(mechanism.partly)]
    found = []
    for visible in patterns:
        axes = [
            [BLANK]
            if v.name in mechanism.partly and v.name not in visible
            else [*range(v.size), *([KEPT] if v.missing == "keep" else [])]
            for v in book.variables
        ]
        found += [r for r in itertools.product(*axes) if any(likelihood(mechanism, r, x) > 0 for x in true)]
    return found


def frame_of(mechanism: Mechanism, records: list[tuple[int, ...]]) -> pa.Table:
    """Return records of codes as a released table."""
    book = mechanism.require_codebook()
    columns = {}
    for place, v in enumerate(book.variables):
        codes = np.array([record[place] for record in records])
        if v.name in mechanism.partly:
            columns[v.name] = not_released.decode(np.where(codes == BLANK, v.size, codes), v)
        else:
            columns[v.name] = coding.decode(codes, v)
    return pa.table(columns)
