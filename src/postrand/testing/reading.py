"""The laws of :mod:`postrand.testing.formats` for files that other programs made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.formats import ReadSettings, Source
from postrand.formats.base import Format, conform
from postrand.testing import formats as laws

READING: tuple[Callable[[Format, Path], None], ...] = (
    laws.check_values,
    laws.check_encoded,
    laws.check_batches,
    laws.check_selection,
    laws.check_names,
    laws.check_texts,
    laws.check_single_column,
    laws.check_codebook,
    laws.check_empty,
    laws.check_damaged,
)
"""What holds for every file that is read, whoever made it; see :func:`made_elsewhere`."""


def made_elsewhere(
    entry: Format, make: Callable[[Path, pa.Table], None], settings: ReadSettings | None = None, suffix: str = ""
) -> Format:
    """Return a format whose files ``make(path, table)`` makes, as another program does: for the laws in ``READING``.

    So formats that are not written can be tried, and files that need settings; ``make`` raises DataError for a table
    that its files cannot hold, and leaves no file.
    """

    @contextmanager
    def open_writer(path: Path, schema: pa.Schema, opening: Any) -> Iterator[_Held]:
        held: list[pa.RecordBatch] = []
        yield _Held(held, schema)
        make(path, pa.Table.from_batches(held, schema))

    def opened(path: Path, codebook: Codebook | None) -> Source:
        given = (settings or ReadSettings(),) if entry.settings else ()
        found: Source = entry.read(path, codebook, *given)
        return found

    suffixes = (suffix,) if suffix else entry.suffixes
    return replace(entry, suffixes=suffixes, read=opened, open_writer=open_writer, read_only=(), settings=())


class _Held:
    """Collects the records of a file that is made at once."""

    def __init__(self, held: list[pa.RecordBatch], schema: pa.Schema) -> None:
        self._held, self._schema = held, schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(conform(batch, self._schema))
