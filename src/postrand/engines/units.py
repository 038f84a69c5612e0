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

    ``places`` are the blocks that are drawn for each record; ``shared`` the others, by unit, with the unit's keys.
    """

    laws: tuple[Sampler, ...]
    draw_key: bytes = field(repr=False)
    places: tuple[int, ...]
    shared: tuple[tuple[str, tuple[int, ...], UnitKeys], ...] = ()

    @classmethod
    def of(cls, mechanism: Mechanism, key: ReleaseKey, draw_key: bytes, content: bytes) -> BlockDraws:
        """Prepare the samplers and the keys of units; ``draw_key`` is that of records, ``content`` a tag."""
        laws = tuple(sampler(block.matrix) for block in mechanism.blocks)
        places: dict[str, list[int]] = {"record": []}
        for place, block in enumerate(mechanism.blocks):
            places.setdefault(block.unit, []).append(place)
        own = tuple(places.pop("record"))
        digest = mechanism.digest() if places else ""
        shared = [(unit, tuple(at), derive_unit(key, digest, content, unit)) for unit, at in places.items()]
        return cls(laws, draw_key, own, tuple(shared))

    def draw(
        self, record_keys: NDArray[np.uint64], units: Mapping[str, Identities], positions: list[NDArray[Any]]
    ) -> Sequence[NDArray[Any]]:
        """Put released cells in the place of true ones, and return them; ``positions[b]`` (n,) are those of block b.

        Raises
        ------
        DataError
            If a position is outside its matrix.
        """
        if not self.shared:
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
