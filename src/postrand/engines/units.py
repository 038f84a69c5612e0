"""Draws of units: the blocks of a household are drawn by its number, so that all its members show one released value.

Word of household h for the i-th of its blocks: that of record h under keys of the unit's own. A record without a
household number is a household of its own, and is drawn by its record key, under yet another key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.data.households import identities
from postrand.mechanism import Mechanism
from postrand.mechanism.one_member import OneMember
from postrand.mechanism.sampling import Sampler, perturb_codes, sampler
from postrand.support.randomness import ReleaseKey, UnitKeys, derive_unit

Identities = tuple[NDArray[np.uint64], NDArray[np.bool_]]
"""The 64-bit identity of each record's unit, shape (n,), and which records have one."""


def units_of(columns: Mapping[str, str], value: Callable[[str], Any]) -> dict[str, Identities]:
    """Return the identities of each unit; ``columns`` are names by unit, and ``value`` gives a column by its name.

    Raises
    ------
    DataError
        If the numbers of a unit are not whole numbers or text.
    """
    return {unit: identities(_array(value(name)), name) for unit, name in columns.items()}


def drawn_by(mechanism: Mechanism) -> dict[str, str]:
    """Return the columns by which blocks are drawn, or members chosen, by unit; none where records are on their own."""
    held = {} if mechanism.units is None else mechanism.units.columns
    of_split = "record" if mechanism.split is None else mechanism.split.unit  # who is together says who shows it
    return {unit: name for unit, name in held.items() if unit in (*mechanism.shared, of_split)}


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


@dataclass(frozen=True, slots=True)
class BlockDraws:
    """Draw the released cells of all blocks of a mechanism; threads can share it.

    ``places`` are the blocks that are drawn for each record; ``shared`` the others, by unit, with the unit's keys;
    ``ones`` those of which one member of a household shows a category: the place, the record keys of these members, by
    category, and the cells of the same size by category of each cell, (K, R), the last for all others.
    """

    laws: tuple[Sampler, ...]
    draw_key: bytes = field(repr=False)
    places: tuple[int, ...]
    shared: tuple[tuple[str, tuple[int, ...], UnitKeys], ...] = ()
    ones: tuple[tuple[int, tuple[NDArray[np.uint64], ...], NDArray[np.intp]], ...] = ()

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        key: ReleaseKey,
        draw_key: bytes,
        content: bytes,
        chosen: Mapping[int, tuple[NDArray[np.uint64], ...]] | None = None,
    ) -> BlockDraws:
        """Prepare the samplers and the keys of units; ``draw_key`` is that of records, ``content`` a tag.

        ``chosen``: the record keys of the members who show each category of a block, ascending, by its place.
        """
        laws = tuple(sampler(block.matrix) for block in mechanism.blocks)
        places: dict[str, list[int]] = {"record": []}
        ones, book = [], mechanism.codebook
        for place, block in enumerate(mechanism.blocks):
            if block.one is None:
                places.setdefault(block.unit, []).append(place)
                continue
            assert chosen is not None
            assert book is not None
            ones.append((place, chosen[place], OneMember.of_block(block, book).places))
        own = tuple(places.pop("record"))
        digest = mechanism.digest() if places else ""
        shared = [(unit, tuple(at), derive_unit(key, digest, content, unit)) for unit, at in places.items()]
        return cls(laws, draw_key, own, tuple(shared), tuple(ones))

    def draw(
        self, record_keys: NDArray[np.uint64], units: Mapping[str, Identities], positions: list[NDArray[Any]]
    ) -> Sequence[NDArray[Any]]:
        """Put released cells in the place of true ones, and return them; ``positions[b]`` (n,) are those of block b.

        Raises
        ------
        DataError
            If a position is outside its matrix.
        """
        for place, chosen, cells in self.ones:
            role = np.full(record_keys.size, len(chosen), dtype=np.intp)
            for number, members in enumerate(chosen):
                role[showing(members, record_keys)] = number
            positions[place][:] = cells[positions[place], role]
        if not self.shared and not self.ones:
            return perturb_codes(self.laws, self.draw_key, record_keys, positions, in_place=True)
        self._draw(self.draw_key, record_keys, self.places, positions)
        for unit, places, keys in self.shared:
            found, there = units[unit]
            if there.all():
                self._draw(keys.numbered, found, places, positions)
                continue
            for key, names, at in ((keys.numbered, found, there), (keys.alone, record_keys, ~there)):
                part = [positions[place][at] for place in places]
                drawn = perturb_codes([self.laws[p] for p in places], key, names[at], part, in_place=True)
                for place, cells in zip(places, drawn, strict=True):
                    positions[place][at] = cells
        return positions

    def _draw(
        self, key: bytes, names: NDArray[np.uint64], places: Sequence[int], positions: Sequence[NDArray[Any]]
    ) -> None:
        if places:
            laws, part = [self.laws[p] for p in places], [positions[p] for p in places]
            perturb_codes(laws, key, names, part, in_place=True)


def showing(members: NDArray[np.uint64] | None, keys: NDArray[np.uint64]) -> NDArray[np.intp] | None:
    """Return the places of the records that show something; None where all do.

    >>> showing(np.array([3, 7], np.uint64), np.array([7, 1, 3], np.uint64)).tolist()
    [0, 2]
    """
    if members is None:
        return None
    if not members.size:
        return np.zeros(0, dtype=np.intp)
    at = np.searchsorted(members, keys).clip(max=members.size - 1)
    return np.flatnonzero(members[at] == keys)
