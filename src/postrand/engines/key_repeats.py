"""Whether two records have the same record key, asked in the pass that a design makes anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, coding
from postrand.formats import Source
from postrand.support.arrow import to_numpy
from postrand.support.randomness import record_keys, shared_keys

MOST = {"numbers": 8_000_000, "texts": 200_000}
"""Of more records a run alone finds it: a design would take much longer for it, and for texts most of its time."""


@dataclass(frozen=True, slots=True)
class KeyRepeats:
    """Want how many records share their record key with another; see :class:`postrand.engines.wants.Want`.

    The answer is the DataError of :func:`postrand.support.randomness.record_keys` where a key is missing.
    """

    name: str
    numbered = False

    @classmethod
    def of(cls, source: Source, name: str) -> KeyRepeats | None:
        """Return the want, or None where the source is known to have more records than are compared."""
        kind = "texts" if coding.is_text(coding.value_type(source.schema.field(name).type)) else "numbers"
        return None if (source.num_rows or 0) > MOST[kind] else cls(name)

    @property
    def columns(self) -> Sequence[str]:
        """The column to read."""
        return (self.name,)

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Any) -> NDArray[np.uint64] | pa.Array:
        """Return the keys of some records: texts as they are, since a digest of each takes longer than all else."""
        column = piece.column(self.name)
        if column.null_count or not coding.is_text(coding.value_type(column.type)):
            return record_keys(column)
        return column.dictionary.take(column.indices) if pa.types.is_dictionary(column.type) else column

    def tally(self, source: Source, codebook: Codebook) -> _Repeats:
        """Return what counts them."""
        return _Repeats()


class _Repeats:
    """Counts the keys that repeat, as long as all have room."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._records = 0

    def add(self, part: NDArray[np.uint64] | pa.Array) -> None:
        self._records += len(part)
        most = MOST["numbers" if isinstance(part, np.ndarray) else "texts"]
        self._held = [*self._held, part] if self._records <= most else []

    def found(self) -> int:
        if not self._held:
            return 0
        if isinstance(self._held[0], np.ndarray):
            return shared_keys(np.concatenate(self._held))
        return shared_keys(to_numpy(pa.concat_arrays(self._held).dictionary_encode().indices))
