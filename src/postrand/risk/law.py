"""The law of a mechanism on the cells of the key variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, raise_all, sentence
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.sampling import perturb_codes, sampler
from postrand.mechanism.units import Unit
from postrand.risk.blend import Blend
from postrand.risk.cells import FloatArray, IntArray, KeyCodes, ravel, table
from postrand.support.randomness import ReleaseKey, derive


@dataclass(frozen=True, slots=True, eq=False)
class KeyLaw:
    """Hold, for independent groups of key variables, the matrix from true to released codes.

    ``positions[b]`` are the keys of group b; ``matrices[b]`` its matrix, rows true, columns released, whose rows are
    the cells ``cells[b]`` (numbers of the group's codes in C order, ascending, at ``order[b]`` in the matrix). A key
    that the mechanism leaves alone has the identity; so has a missing value that is kept. A variable that blocks are
    given, a stratum, is in the group of each: their matrices are 0 between its values. ``changed[b]`` are the keys that
    the group can change. ``blend`` is the law of further keys, which are in no group: those of one subset of a split.
    ``units[b]`` is what shares a draw of group b: the household, the person, or no one but the record itself. Where one
    member of a household has a category by a rule, its records are taken as if they drew apart.
    """

    shape: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]
    matrices: tuple[FloatArray, ...]
    cells: tuple[IntArray, ...]
    order: tuple[IntArray, ...]
    changed: tuple[frozenset[int], ...]
    units: tuple[Unit, ...]
    blend: Blend | None = None

    @classmethod
    def of(cls, mechanism: Mechanism | None, names: Sequence[str], shape: Sequence[int]) -> KeyLaw:
        """Return the matrices on keys of these names and numbers of codes.

        Raises
        ------
        SpecificationError
            If the mechanism has a split.
        UsageError
            If a joint block has keys and other variables, its matrix does not fit the keys, or a variable that it is
        given is perturbed by another block.
        """
        if mechanism is not None:
            mechanism.require_no_split("this measure of risk")
        return cls.of_blocks(() if mechanism is None else mechanism.blocks, names, shape)

    @classmethod
    def of_blocks(cls, blocks: Sequence[Block], names: Sequence[str], shape: Sequence[int], *more: LawOf) -> KeyLaw:
        """Return the matrices of blocks, and of ``more`` laws of other keys; raises UsageError as :meth:`of`."""
        problems: list[str] = []
        parts: list[Group] = [one for one in more if not isinstance(one, Blend)]
        units: list[Unit] = ["record"] * len(parts)
        blends = [one for one in more if isinstance(one, Blend)]
        taken = {names[j] for part in parts for j in part[0]} | {names[j] for one in blends for j in one.positions}
        for block in blocks:
            inside = [n for n in block.variables if n in names]
            if inside and len(inside) < len(block.variables):
                what = "a joint block perturbs keys together with other variables"
                problems.append(sentence(what, where=f"block {block.name!r}", fix="name all of its variables as keys"))
            elif any(n in other.perturbed for n in block.given for other in blocks):
                what = "another block perturbs a variable that this block reads"
                problems.append(
                    sentence(what, where=f"block {block.name!r}", fix="assess the keys of the two blocks separately")
                )
            elif inside:
                taken |= set(inside)
                parts.append(group_of(block, names, shape, problems))
                units.append(block.unit if block.one is None else "record")  # a rule across members: no common value
        raise_all(UsageError, problems)
        parts += [_kept(j, shape[j]) for j, n in enumerate(names) if n not in taken]
        return cls.of_groups(shape, parts, units, *blends)

    @classmethod
    def of_groups(cls, shape: Sequence[int], parts: Sequence[Group], units: Sequence[Unit], *blends: Blend) -> KeyLaw:
        """Return the law of these groups; those behind the last of ``units`` are drawn for each record."""
        positions, matrices, cells, order = zip(*parts, strict=True) if parts else ((), (), (), ())
        changed = tuple(_changed(shape, *part) for part in parts)
        rest: list[Unit] = ["record"] * (len(parts) - len(units))
        return cls(tuple(shape), positions, matrices, cells, order, changed, (*units, *rest), *blends)

    def groups(self, codes: IntArray) -> IntArray:
        """Return the row of each group's matrix for cells with these codes, shape (m, J) → (m, B).

        Raises
        ------
        UsageError
            If a combination of codes is not feasible for its block.
        """
        found = np.empty((codes.shape[0], len(self.positions)), dtype=np.int32)
        for b in range(len(self.positions)):
            found[:, b] = self.rows(b, codes)
        return found

    def rows(self, b: int, codes: IntArray) -> IntArray:
        """Return the row of the matrix of group b for cells with these codes, shape (m, J) → (m,); raises as groups."""
        at = self.positions[b]
        number = ravel([codes[:, j] for j in at], [self.shape[j] for j in at])
        place = np.minimum(np.searchsorted(self.cells[b], number), self.cells[b].size - 1)
        if (self.cells[b][place] != number).any():
            raise UsageError(sentence("the records contain a combination of keys that their joint block does not have"))
        return self.order[b][place]

    def feasible(self, codes: IntArray) -> NDArray[np.bool_]:
        """Return which rows of codes (m, J) are cells of every block, shape (m,)."""
        found = np.ones(codes.shape[0], dtype=bool)
        laws = [(list(at), cells) for at, cells in zip(self.positions, self.cells, strict=True)]
        laws += [] if self.blend is None else [(list(self.blend.positions), self.blend.cells)]
        for at, cells in laws:
            found &= np.isin(ravel(list(codes[:, at].T), [self.shape[j] for j in at]), cells)
        return found

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return self.blend is None and all(np.array_equal(m, np.eye(m.shape[0])) for m in self.matrices)

    @property
    def shares_households(self) -> bool:
        """Whether keys are drawn once for a household, and none for a person: households tell who draws together."""
        return "household" in self.units and "person" not in self.units

    def moves(self, variables: Iterable[int]) -> bool:
        """Whether a released value of one of these keys can differ from the true one."""
        blended = () if self.blend is None else self.blend.positions
        return any(changed & set(variables) for changed in (*self.changed, set(blended)))

    def apply(self, table: FloatArray, variables: Sequence[int], *, adjoint: bool = False) -> FloatArray:
        """Carry a table of true cells to released ones, ``Mᵀ t``; with ``adjoint`` back, ``M t``.

        The axes of ``table`` are the keys ``variables``, ascending; groups that change a key among them must lie
        within them. Cells that a joint block does not have are 0 in the result.
        """
        for b, at in enumerate(self.positions):
            if not self.changed[b] & set(variables):
                continue
            axes, last = [list(variables).index(j) for j in at], range(-len(at), 0)
            moved = np.moveaxis(table, axes, last)
            flat = moved.reshape(-1, math.prod(self.shape[j] for j in at))
            matrix = self.matrices[b][np.ix_(self.order[b], self.order[b])]
            matrix = matrix.T if adjoint else matrix
            if self.cells[b].size == flat.shape[1]:
                out = flat @ matrix
            else:
                out = np.zeros_like(flat)
                out[:, self.cells[b]] = flat[:, self.cells[b]] @ matrix
            table = np.moveaxis(out.reshape(moved.shape), last, axes)
        return table if self.blend is None else self.blend.apply(table, variables, adjoint=adjoint)

    def diagonal(self, codes: IntArray, unit: Unit | None = None) -> FloatArray:
        """Return ``M[j, j]`` of cells with these codes, shape (m, J) → (m,): the probability that all keys stay.

        With a ``unit`` that of the keys that are drawn for it, all others left aside.
        """
        stay = np.ones(codes.shape[0])
        for b, rows in enumerate(self.groups(codes).T):
            if unit is None or self.units[b] == unit:
                stay *= self.matrices[b][rows, rows]
        if unit is not None and unit != "record":
            return stay
        return stay if self.blend is None else stay * self.blend.diagonal(codes[:, list(self.blend.positions)])


Group = tuple[tuple[int, ...], FloatArray, IntArray, IntArray]
"""The positions of a group's keys, its matrix, its cells ascending, and their rows in the matrix."""
LawOf = Group | Blend


def group_of(block: Block, names: Sequence[str], shape: Sequence[int], problems: list[str]) -> Group:
    """Return the matrix of a block whose variables are all keys; what does not fit is added to ``problems``."""
    at = tuple(list(names).index(n) for n in block.variables)
    sizes = tuple(shape[j] for j in at)
    matrix = block.matrix.array
    size = block.matrix.size
    if block.cells is not None:
        number = ravel(list(block.cell_table(sizes).T), sizes)
        order = np.argsort(number)
        return at, matrix, number[order], order
    whole = int(np.prod(sizes))
    if whole == size + 1 and len(at) == 1:  # missing values that are kept: released as missing
        matrix = np.pad(matrix, (0, 1))
        matrix[size, size] = 1.0
    elif whole != size:
        where = f"block {block.name!r}"
        problems.append(sentence("the matrix does not fit the keys", where=where, got=size, wanted=whole))
    everything = np.arange(max(whole, size))
    return at, matrix, everything, everything


def _kept(position: int, size: int) -> Group:
    return (position,), np.eye(size), np.arange(size), np.arange(size)


def _changed(
    shape: Sequence[int], positions: tuple[int, ...], matrix: FloatArray, cells: IntArray, order: IntArray
) -> frozenset[int]:
    number = np.empty_like(cells)
    number[order] = cells
    codes = np.unravel_index(number, [shape[j] for j in positions])
    i, j = np.nonzero(matrix)
    return frozenset(at for at, c in zip(positions, codes, strict=True) if (c[i] != c[j]).any())


def release(law: KeyLaw, keys: KeyCodes, seed: int) -> KeyCodes:
    """Return one released version of the keys, for risk estimates: drawn by the keyed sampler from a seed."""
    return next(releases(law, keys, [seed]))


Members = Mapping[Unit, IntArray]
"""The number of each record's household, or person, from 0, shape (n,); nothing where all draws are independent."""


def together(household: IntArray | None) -> Members:
    """Return who shares the draws of a household; nobody where households are not known.

    >>> together(np.array([7, 7, 3]))["household"].tolist()
    [1, 1, 0]
    """
    return {} if household is None else {"household": np.unique(household, return_inverse=True)[1]}


def releases(law: KeyLaw, keys: KeyCodes, seeds: Iterable[int], members: Members | None = None) -> Iterator[KeyCodes]:
    """Yield a released version of the keys for each seed; see :func:`release`.

    Where ``members`` are given, groups of their unit have one draw for all its records.
    """
    cells = table(keys)
    rows = law.groups(cells.codes)
    moving = [b for b, m in enumerate(law.matrices) if not np.array_equal(m, np.eye(m.shape[0]))]
    laws = [sampler(TransitionMatrix.from_array(law.matrices[b])) for b in moving]
    smallest = [np.min_scalar_type(-law.matrices[b].shape[0]) for b in moving]  # whole releases are held in memory
    positions = [rows[:, b].astype(dtype).take(cells.record_cell) for b, dtype in zip(moving, smallest, strict=True)]
    shared = members or {}
    of: list[Unit] = [law.units[b] if law.units[b] in shared else "record" for b in moving]
    own = np.arange(keys.records, dtype=np.uint64)
    numbers: dict[Unit, NDArray[np.uint64]] = {u: shared[u].astype(np.uint64) if u in shared else own for u in of}
    del cells
    blend = law.blend
    for seed in seeds:
        codes = list(keys.codes)
        for b, released in _drawn(list(zip(moving, of, laws, positions, strict=True)), numbers, seed):
            number = np.empty_like(law.cells[b])
            number[law.order[b]] = law.cells[b]
            values = np.unravel_index(number, [keys.shape[j] for j in law.positions[b]])
            for j, value in zip(law.positions[b], values, strict=True):
                codes[j] = value.astype(keys.codes[j].dtype).take(released)
        if blend is not None:
            true = np.stack([keys.codes[j] for j in blend.positions], axis=1)
            for j, value in zip(blend.positions, blend.drawn(true, np.random.default_rng([seed, 21])).T, strict=True):
                codes[j] = value.astype(keys.codes[j].dtype)
        yield KeyCodes(keys.names, keys.shape, tuple(codes))


def _drawn(
    groups: Sequence[tuple[int, Unit, Any, NDArray[Any]]], numbers: Mapping[Unit, NDArray[np.uint64]], seed: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the groups that move with their released rows: those of each unit from draws of their own."""
    for unit, number in numbers.items():
        stream = derive(ReleaseKey.from_seed(seed), "risk" if unit == "record" else f"risk, {unit}")
        mine = [group for group in groups if group[1] == unit]
        drawn = perturb_codes([law for _, _, law, _ in mine], stream.draw, number, [rows for *_, rows in mine])
        yield from zip([b for b, *_ in mine], drawn, strict=True)
