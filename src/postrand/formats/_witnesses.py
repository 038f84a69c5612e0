"""The values of unperturbed columns that a file is most likely not to hold: the longest text, the first day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import Codebook
from postrand.codebook.coding import is_text
from postrand.formats.base import Source


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Want the witnesses of ``columns``, by name, to be tried in a file; see :class:`postrand.engines.wants.Want`."""

    columns: tuple[str, ...]
    numbered = False

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Any) -> dict[str, pa.Array]:
        """Return the witnesses of some records."""
        return {name: _witnesses(piece.column(name)) for name in self.columns}

    def tally(self, source: Source, codebook: Codebook) -> _Collected:
        """Return what puts the witnesses together."""
        return _Collected()


class _Collected:
    """Collects the witnesses, and keeps those of all."""

    def __init__(self) -> None:
        self._found: dict[str, pa.Array] = {}

    def add(self, part: Mapping[str, pa.Array]) -> None:
        for name, values in part.items():
            held = self._found.get(name)
            self._found[name] = values if held is None else _witnesses(pa.concat_arrays([held, values]))

    def found(self) -> dict[str, pa.Array]:
        """Return the witnesses of each column."""
        return self._found


def _witnesses(column: pa.Array) -> pa.Array:
    """Return few values of a column: those at its ends, and the first of each kind that programs change.

    >>> _witnesses(pa.array([3, None, 9, 5])).to_pylist()
    [3, 9, 3, None]
    """
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    found = _present(values.drop_null())
    return pa.concat_arrays([found, pa.nulls(1, found.type)]) if column.null_count else found


def _present(values: pa.Array) -> pa.Array:
    if is_text(values.type):
        return _texts(values.cast(pa.string()))
    if pa.types.is_nested(values.type) or not len(values):
        return values[:0]
    if pa.types.is_boolean(values.type) or pa.types.is_duration(values.type):
        return values[:1]
    ends = pc.min_max(values)
    found = [ends["min"].as_py(), ends["max"].as_py()]
    if pa.types.is_timestamp(values.type):
        found += values.filter(pc.not_equal(values, pc.floor_temporal(values, unit="second")))[:1].to_pylist()
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        sizes = pc.abs(values.cast(pa.float64(), safe=False))
        least = pc.min(sizes.filter(pc.greater(sizes, 0)))  # of a number, how near to zero it is may matter
        found += values.filter(pc.equal(sizes, least))[:1].to_pylist() if least.is_valid else []
    return pa.array(found, values.type)


def _texts(values: pa.Array) -> pa.Array:
    longest = pc.max(pc.binary_length(values))
    kinds = [
        pc.equal(pc.binary_length(values), longest),
        pc.equal(values, ""),
        pc.ends_with(values, " "),
        pc.match_substring(values, "\0"),
    ]
    return pa.concat_arrays([values[:0], *(values.filter(kind)[:1] for kind in kinds)])
