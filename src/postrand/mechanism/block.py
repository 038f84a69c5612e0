"""A block: one variable, or several jointly, with one transition matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism.household_law import household_law
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_classes import classed, moves
from postrand.mechanism.units import UNITS, Unit
from postrand.support.exact import log_upper
from postrand.support.inputs import finite, is_names, is_whole, listed

Provenance = Literal["public", "dp", "confidential", "unstated"]
"""The origin of the prior behind a matrix: a matrix that is tuned to confidential counts reveals a little of them."""


PROVENANCES: tuple[str, ...] = get_args(Provenance)


@dataclass(frozen=True, slots=True)
class Block:
    """Perturb one variable, or several jointly, with one transition matrix.

    The cells of a joint block are the combinations of the variables' codes in C order (the last variable varies
    fastest), or the rows of ``cells``, shape (K, J), if only some combinations are feasible.

    ``given`` are the variables that the block reads and never changes: strata, each with its own matrix, or variables
    that decide which combinations are feasible. The matrix is zero between cells that differ in these variables.

    ``prior_epsilon`` is what a differentially private prior (provenance ``dp``) spent of each record's budget.

    ``budget`` is the origin of the block's share of a divided budget. The share also depends on the information of the
    other blocks: if one of them has a prior that was tuned to the file, that prior influences this block's ε.
    ``public`` if there is no such prior.

    ``unit`` is what the block describes: with ``household``, all records of a household have one true cell and one
    released cell, drawn by the household's number; see :class:`postrand.mechanism.units.Units`.

    ``one``, with ``household``, is the code of a category that exactly one member of each household has: one draw
    chooses the member who shows it; see :mod:`postrand.mechanism.one_member`. ``at_most_one`` is the code of another
    category, which at most one member has, and which the same draw gives.

    Raises
    ------
    SpecificationError
        If a variable is named twice, ``cells`` does not have one distinct row for each category of the matrix, or the
        matrix changes a given variable.
    """

    variables: tuple[str, ...]
    matrix: TransitionMatrix
    cells: tuple[tuple[int, ...], ...] | None = None
    provenance: Provenance = "unstated"
    given: tuple[str, ...] = ()
    prior_epsilon: float = 0.0
    budget: Provenance = "public"
    unit: Unit = "record"
    one: int | None = None
    at_most_one: int | None = None

    def __post_init__(self) -> None:
        names = (self.variables,) if isinstance(self.variables, str) else listed(self.variables)
        given = listed(self.given)
        if not (is_names(names) and is_names(given)):
            got = shown((self.variables, self.given), repr)
            raise SpecificationError(sentence("the variables of a block are not a list of names", got=got))
        object.__setattr__(self, "variables", names)
        object.__setattr__(self, "given", given)
        if self.cells is not None:
            object.__setattr__(self, "cells", _codes(self.cells, f"block {self.name!r}"))
        raise_all(SpecificationError, _block_problems(self))
        object.__setattr__(self, "prior_epsilon", finite(self.prior_epsilon))

    def __repr__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        named = " × ".join(self.perturbed)
        return f"Block({named}{given}: {self.matrix.size} cells, ε = {self.epsilon:.4g})"

    @property
    def name(self) -> str:
        """The variables, joined by ``×``."""
        return " × ".join(self.variables)

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The variables that the block changes: all except the given ones."""
        return tuple(name for name in self.variables if name not in self.given) if self.given else self.variables

    @property
    def epsilon(self) -> float:
        """The smallest ε that the law attains within each of its classes, rounded up; inf if it changes nothing."""
        laws = [law for _, law in self.laws]
        known = [ratio for ratio in (law.ratio for law in laws) if ratio is not None]
        perturbs = self.matrix.size == 1 or any(law.size > 1 for law in laws)
        return log_upper(max(known)) if perturbs and len(known) == len(laws) else math.inf

    @property
    def laws(self) -> tuple[tuple[NDArray[np.intp], TransitionMatrix], ...]:
        """The cells of each class of the matrix, and the law whose ratios they spend.

        It is the matrix within the class; with ``at_most_one``, the law of the household, which spends more than that
        of one of its records: see :func:`household_law`.
        """
        found = classed(self.matrix)
        if self.at_most_one is None:
            return found
        codes = [row[self.variables.index(self.perturbed[0])] for row in self.cells or ()]
        first = (self.one, self.at_most_one)
        spent = []
        for inside, law in found:
            roles = sorted(range(law.size), key=lambda at: [codes[inside[at]] != code for code in first])
            spent.append((inside, household_law(law.weights[np.ix_(roles, roles)])))
        return tuple(spent)

    def cell_table(self, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Return the codes of each cell, shape (K, J), given the number of codes of each variable."""
        if self.cells is not None:
            return np.array(self.cells, dtype=np.int32)
        return all_cells(shape)


def all_cells(shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return every combination of so many codes, shape (K, J), in C order."""
    return np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T


def _codes(cells: object, where: str) -> tuple[tuple[int, ...], ...]:
    """Return rows of whole numbers as plain Python ones; raises SpecificationError if they are anything else."""
    try:
        array = np.asarray(cells)
    except (ValueError, TypeError, OverflowError):
        array = np.array(None)  # rows of several lengths
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise SpecificationError(sentence("the cells are not rows of codes", where=where, wanted="shape (K, J)"))
    return tuple(map(tuple, array.tolist()))


def _block_problems(block: Block) -> Iterable[str]:
    where = f"block {block.name!r}"
    if not block.variables or not all(isinstance(n, str) and n for n in block.variables):
        yield sentence("the block has no variable", where=where)
    if len(set(block.variables)) != len(block.variables):
        yield sentence("a variable is named twice", where=where)
    if not isinstance(block.matrix, TransitionMatrix):
        yield sentence("not a TransitionMatrix", where=where, got=type(block.matrix).__name__, fix="use from_array")
        return
    for what, origin in (("provenance", block.provenance), ("origin of the budget", block.budget)):
        if not isinstance(origin, str) or origin not in PROVENANCES:
            yield sentence(f"unknown {what} {shown(origin, repr)}", where=where, wanted=", ".join(PROVENANCES))
    if not isinstance(block.unit, str) or block.unit not in UNITS:
        yield sentence(f"unknown unit {shown(block.unit, repr)}", where=where, wanted=", ".join(UNITS))
    if block.one is not None and not (is_whole(block.one) and block.unit == "household" and block.given):
        what = "'one' is not the code of a category in a block of a household that reads its size"
        yield sentence(what, where=where, got=shown(block.one, repr))
    if block.at_most_one is not None:
        yield from _second_problems(block, where)
    if block.cells is not None:
        rows = block.cells
        if len(rows) != block.matrix.size or {len(row) for row in rows} != {len(block.variables)}:
            yield sentence("the cells do not fit the matrix", where=where, wanted=f"{block.matrix.size} rows of codes")
        elif len(set(rows)) != len(rows):
            yield sentence("a cell is listed twice", where=where)
        else:
            yield from given_problems(block)
    elif block.given:
        yield sentence("a block with given variables lists its cells", where=where, fix="set cells")
    spent = block.prior_epsilon
    if not finite(spent) >= 0 or (spent and block.provenance != "dp"):
        what = "prior_epsilon must be a number >= 0, and 0 unless the provenance is 'dp'"
        yield sentence(what, where=where, got=f"{block.provenance!r}, prior_epsilon {shown(spent, repr)}")


def _second_problems(block: Block, where: str) -> Iterable[str]:
    """Yield why a block cannot give a second category to at most one member."""
    if block.one is None or not is_whole(block.at_most_one) or block.at_most_one == block.one:
        what = "'at_most_one' is not the code of a category beside 'one'"
        yield sentence(what, where=where, got=shown(block.at_most_one, repr))
    elif block.cells is not None and {*map(len, block.cells)} == {len(block.variables)}:
        at = [block.variables.index(name) for name in block.given if name in block.variables]
        if len({tuple(row[k] for k in at) for row in block.cells}) < 2:
            what = "'at_most_one' needs a law for each of several sizes"  # else a claim could read the record's law
            yield sentence(what, where=where, wanted="two sizes or more", fix="list the sizes 1, 2, 3, ...")


def given_problems(block: Block) -> Iterable[str]:
    """Yield the problems of the given variables of a block, if its cells match its matrix."""
    where = f"block {block.name!r}"
    unknown = [name for name in block.given if name not in block.variables]
    for name in unknown:
        yield sentence(f"given variable {name!r} is not one of the block's", where=where)
    if block.given and not unknown and len(block.given) >= len(block.variables):
        yield sentence("every variable is given, so nothing is perturbed", where=where)
    elif block.given and not unknown:
        codes = given_codes(block)
        i, j = moves(block.matrix)
        if (codes[i] != codes[j]).any():
            yield sentence("the matrix changes a given variable", where=where, fix="make it zero between strata")


def given_codes(block: Block) -> NDArray[np.int32]:
    """Return the codes of the given variables of each cell, shape (K, G)."""
    at = [block.variables.index(name) for name in block.given]
    return np.array(block.cells, dtype=np.int32)[:, at]
