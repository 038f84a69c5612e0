"""The subsets that a record may show: which there are, how many cells each has, and what each says of every table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.codebook.rules import Rule
from postrand.designers.split.margins import TablePrior, shares
from postrand.designers.split.precision import Question, cell_question, keep_probability, table_question
from postrand.designers.split.rows import Rows, best, rows_of, stacked
from postrand.errors import DesignError, sentence

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Names = tuple[str, ...]

MAX_LISTED = 1 << 16
"""Up to so many subsets are listed; more are generated as the design needs them."""

ROUNDING = 1e-12
"""Bounds move outward by so much, relatively: far above what sums of a few thousand positive floats lose."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Hold subsets, ``members`` (m, J), and what one record that shows them says: ``rows`` (m, Q), I of questions."""

    members: Bools
    cells: NDArray[np.int64]
    rows: Rows

    def take(self, places: NDArray[np.intp]) -> Columns:
        """Return some of the columns."""
        return Columns(self.members[places], self.cells[places], self.rows[places])

    def labels(self) -> list[bytes]:
        """Return a name of each subset."""
        return [row.tobytes() for row in self.members]


def joined(one: Columns, two: Columns) -> Columns:
    """Return the columns of both."""
    return Columns(
        np.concatenate([one.members, two.members]),
        np.concatenate([one.cells, two.cells]),
        stacked(one.rows, two.rows),
    )


def multiplied(rows: Rows, weights: Floats, steps: int, start: Floats | None = None) -> Floats:
    """Return probabilities after so many steps of the multiplicative algorithm, from equal ones or others."""
    pi = np.full(rows.shape[0], 1 / rows.shape[0]) if start is None else start
    turned = rows.T
    for _ in range(steps):
        pi = pi * np.sqrt(rows @ (weights / (turned @ pi) ** 2))
        pi /= pi.sum()
    return pi


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Hold what subsets are asked for: of which variables, with which core, with how many cells at most, and what for.

    ``asked``: the questions, a table each, or one cell (flat) of it. ``prior``: what is assumed of the tables.
    """

    codebook: Codebook
    names: Names
    core: Names
    max_cells: int
    asked: tuple[tuple[Names, int | None], ...]
    prior: TablePrior

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each variable."""
        return tuple(self.codebook[name].size for name in self.names)

    @property
    def core_places(self) -> tuple[int, ...]:
        """The places of the core among the variables."""
        return tuple(self.names.index(name) for name in self.core)


class Pool(Protocol):
    """All candidate subsets at one ε, listed or not."""

    @property
    def target(self) -> float:
        """The relative gap at which a design is finished."""
        ...

    @property
    def rounds(self) -> int:
        """How many rounds to spend at most."""
        ...

    def start(self, weights: Floats) -> Columns:
        """Return subsets that cover every question, to begin with."""
        ...

    def least(self, weights: Floats, worst: bool) -> float:
        """Return a value that no design is below, proven before there is one; 0 if the prices will prove more."""
        ...

    def price(self, prices: Floats, threshold: float, within: float, *, prove: bool) -> tuple[float, Columns]:
        """Return subsets above the threshold, and a bound of ``max_T Σ_t c_t I_{T,t}`` for prices c >= 0.

        The bound is proven; inf where none is found that is relatively ``within`` the best gain that is known. Unless
        ``prove`` is set, none is looked for while there are subsets above the threshold.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Subsets:
    """Hold every candidate subset, whatever ε: the variables in it (C, J), its feasible cells (C,), the questions."""

    members: Bools
    cells: NDArray[np.int64]
    questions: tuple[Question, ...]

    def at(self, epsilon: float) -> Columns:
        """Return what k-ary randomised response at ε says in each subset."""
        return self.kept(keep_probability(self.cells, epsilon))

    def kept(self, keep: Floats) -> Columns:
        """Return what a subset says that keeps a cell with probability λ (C,), and else draws one."""
        covers = [self.covering(question) for question in self.questions]
        values = [question.information(keep[at]) for question, at in zip(self.questions, covers, strict=True)]
        return Columns(self.members, self.cells, rows_of(values, covers, len(keep)))

    def covering(self, question: Question) -> NDArray[np.intp]:
        """Return the places of the subsets that contain a question's variables."""
        return np.flatnonzero(self.members[:, list(question.members)].all(axis=1))

    def find(self, members: Bools) -> Subsets:
        """Return the same for these of the subsets, in their order."""
        place = {row.tobytes(): k for k, row in enumerate(self.members)}
        at = np.array([place[row.tobytes()] for row in members], dtype=np.intp)
        found = []
        for question in self.questions:
            covers = at[members[:, list(question.members)].all(axis=1)]
            within = np.searchsorted(self.covering(question), covers)
            sums = {name: getattr(question, name) for name in ("u1", "pu", "u2")}
            found.append(replace(question, **{n: a[within] if np.ndim(a) else a for n, a in sums.items()}))
        return Subsets(self.members[at], self.cells[at], tuple(found))


def count_subsets(sizes: Sequence[int], core: Sequence[int], max_cells: int) -> int:
    """Return how many subsets contain the core and have at most ``max_cells`` combinations (rules left aside)."""
    ways = {math.prod(sizes[k] for k in core): 1}
    for k in (k for k in range(len(sizes)) if k not in core):
        grown = dict(ways)
        for cells, count in ways.items():
            if cells * sizes[k] <= max_cells:
                grown[cells * sizes[k]] = grown.get(cells * sizes[k], 0) + count
        ways = grown
    return sum(ways.values())


def list_subsets(request: Request) -> tuple[Bools, NDArray[np.int64]]:
    """Return all non-empty subsets that contain the core and have at most ``max_cells`` feasible cells, and the cells.

    Raises
    ------
    DesignError
        If there are more than 65,536 (of the variables that rules link: combinations of them).
    """
    codebook, names = request.codebook, request.names
    linked = _linked(codebook, names)
    free = [name for name in names if name not in linked]
    counts = {part: len(table.cells) for part, table in _feasible(request, linked)}
    members, cells = [], []
    for part, count in counts.items():
        held, size = _grown(request, part, count, free)
        fits = (size <= request.max_cells) & held.any(axis=1)
        members.append(held[fits])
        cells.append(size[fits])
    if sum(map(len, members)) > MAX_LISTED:
        raise _too_many(len(names))
    return np.concatenate(members), np.concatenate(cells)


def _grown(request: Request, part: Names, count: int, free: Sequence[str]) -> tuple[Bools, NDArray[np.int64]]:
    """Return the subsets that some linked variables of so many cells make with the free ones, and their cells."""
    held = np.array([[name in part for name in request.names]])
    size = np.array([count], dtype=np.int64)
    for name in free:
        wide = size * request.codebook[name].size
        fits = wide <= request.max_cells
        grown = held if name in request.core else held[fits]
        grown = grown.copy()
        grown[:, request.names.index(name)] = True
        if name in request.core:
            held, size = grown, wide
        else:
            held, size = np.concatenate([held, grown]), np.concatenate([size, wide[fits]])
        if len(held) > MAX_LISTED:
            raise _too_many(len(request.names))
    return held, size


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Hold the feasible cells (K, B) of some variables that rules link, in the order of ``names``."""

    names: Names
    cells: NDArray[np.int32]

    def noise(self, names: Names, shape: tuple[int, ...]) -> Floats:
        """Return the shares of the cells of a table within these variables, where each cell here is equally likely."""
        if not names:
            return np.ones(())
        index = np.ravel_multi_index(tuple(self.cells[:, self.names.index(name)] for name in names), shape)
        counts = np.bincount(index, minlength=math.prod(shape))
        return np.asarray(counts.reshape(shape) / len(self.cells))


def _feasible(request: Request, linked: Names) -> Iterator[tuple[Names, _Part]]:
    """Yield the sets of linked variables that contain the core's, and have at most ``max_cells`` feasible cells."""
    codebook = request.codebook
    rules = [rule for rule in codebook.rules if set(rule.variables) <= set(linked)]
    stack = [(0, _Part((), np.zeros((1, 0), dtype=np.int32)))]
    while stack:
        depth, part = stack.pop()
        if depth == len(linked):
            yield part.names, part
            continue
        name = linked[depth]
        if name not in request.core:
            stack.append((depth + 1, part))
        grown = _extended(codebook, part, name, rules)
        if len(grown.cells) <= request.max_cells:
            stack.append((depth + 1, grown))


def _extended(codebook: Codebook, part: _Part, name: str, rules: Sequence[Rule]) -> _Part:
    """Return the part with one more variable, without the cells that a rule now forbids."""
    size, names = codebook[name].size, (*part.names, name)
    new = np.tile(np.arange(size, dtype=np.int32), len(part.cells))
    cells = np.column_stack([np.repeat(part.cells, size, axis=0), new])
    for rule in rules:
        if name in rule.variables and set(rule.variables) <= set(names):
            cells = cells[~rule.matches(codebook, dict(zip(names, cells.T, strict=True)))]
    return _Part(names, cells)


def _linked(codebook: Codebook, names: Names) -> Names:
    """Return the variables that a rule within ``names`` is about."""
    inside = [rule for rule in codebook.rules if set(rule.variables) <= set(names)]
    return tuple(name for name in names if any(name in rule.variables for rule in inside))


def all_subsets(request: Request) -> Subsets:
    """Return every candidate subset, and the questions that are asked.

    Raises
    ------
    DesignError
        If there are too many subsets to list.
    """
    members, cells = list_subsets(request)
    linked = _linked(request.codebook, request.names)
    parts = dict(_feasible(request, linked)) if linked else {}
    found = []
    for table, cell in request.asked:
        if set(linked).intersection(table):
            found.append(_linked_question(request, members, linked, parts, table, cell))
        else:
            found.append(_free_question(request, table, cell))
    return Subsets(members, cells, tuple(found))


def free_questions(request: Request) -> tuple[Question, ...]:
    """Return the questions that are asked, where no rule links the variables: they ask nothing of subsets."""
    return tuple(_free_question(request, table, cell) for table, cell in request.asked)


def _free_question(request: Request, table: Names, cell: int | None) -> Question:
    p = shares(request.prior, request.codebook, table)
    return _question([request.names.index(name) for name in table], p, np.full(p.shape, 1 / p.size), cell)


def _linked_question(
    request: Request, members: Bools, linked: Names, parts: dict[Names, _Part], table: Names, cell: int | None
) -> Question:
    """Return a question with variables that rules link: its noise depends on the linked variables of the subset."""
    where = [request.names.index(name) for name in table]
    p = shares(request.prior, request.codebook, table)
    covers = members[members[:, where].all(axis=1)]
    kinds, which = np.unique(covers[:, [request.names.index(name) for name in linked]], axis=0, return_inverse=True)
    each = []
    for kind in kinds:
        part = parts[tuple(name for name, held in zip(linked, kind, strict=True) if held)]
        each.append(_question(where, p, _noise(request.codebook, part, table), cell))
    if not each:
        return _question(where, p, p, cell)
    sums = {name: np.array([getattr(q, name) for q in each])[which] for name in ("u1", "pu", "u2")}
    return Question(tuple(where), each[0].p1, each[0].p2, **sums)


def _noise(codebook: Codebook, part: _Part, table: Names) -> Floats:
    """Return what the uniform draw of a subset's cells says of a table: uniform in variables that no rule links."""
    inside = tuple(name for name in table if name in part.names)
    known = part.noise(inside, tuple(codebook[name].size for name in inside))
    shape = tuple(codebook[name].size if name in inside else 1 for name in table)
    full = tuple(codebook[name].size for name in table)
    return np.asarray(np.broadcast_to(known.reshape(shape), full) / (math.prod(full) / math.prod(shape)))


def _question(where: Sequence[int], p: Floats, u: Floats, cell: int | None) -> Question:
    if cell is None:
        return table_question(where, p, u)
    return cell_question(where, float(p.flat[cell]), float(u.flat[cell]))


class TooManySubsets(DesignError):
    """There are more subsets than can be listed."""


def _too_many(variables: int) -> DesignError:
    what = "too many subsets to list them all"
    fix = "split fewer variables, name core variables, or lower max_cells"
    return TooManySubsets(sentence(what, got=f"{variables} variables", wanted=f"<= {MAX_LISTED:,} subsets", fix=fix))


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The pool of all subsets that are listed: prices are exact."""

    target: ClassVar[float] = 2e-10
    columns: Columns
    most: int = 300

    @property
    def rounds(self) -> int:
        """Enough to end at the optimum."""
        return 200

    def start(self, weights: Floats) -> Columns:
        """Return the subsets that a few steps of the multiplicative algorithm make likely, and each question's own."""
        rows = self.columns.rows
        likely = multiplied(rows, weights, _STEPS)
        needed = best(rows)  # of each question: what covers it, come what may
        kept = np.zeros(len(likely), dtype=bool)
        kept[_largest(likely, max(self.most, 2 * len(needed)))] = kept[needed] = True
        return self.columns.take(np.flatnonzero(kept))

    def least(self, weights: Floats, worst: bool) -> float:
        """Return 0: prices are exact."""
        return 0.0

    def price(self, prices: Floats, threshold: float, within: float, *, prove: bool) -> tuple[float, Columns]:
        """Price every subset."""
        gain = self.columns.rows @ prices
        return float(gain.max()), self.columns.take(_largest(np.where(gain > threshold, gain, 0), self.most))


_STEPS = 40


def _largest(values: Floats, most: int) -> NDArray[np.intp]:
    """Return the places of the largest positive values, with all that equal the last: order decides nothing."""
    if values.size > most:
        values = np.where(values >= np.partition(values, -most)[-most] * (1 - 1e-9), values, 0)
    return np.flatnonzero(values > 0)
