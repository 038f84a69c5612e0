"""SAS files: transport files (.xpt, version 8) in and out, data sets (.sas7bdat) in.

Variable labels survive. SAS keeps value labels in catalogues apart from the data: they stay in the codebook.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence
from postrand.formats._readstat import LabelledSource, Program, reader, writer
from postrand.formats.base import Format, Opening, Writer

_STAMP = (rb"[0-9]{2}(JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)[0-9]{2}(:[0-9]{2}){3}", b"01JAN70:00:00:00")
TRANSPORT = Program(
    name="SAS transport",
    read="read_xport",
    write="write_xport",
    keeps=("column_labels",),
    stamp=_STAMP,
    user_missing=False,
    options=(("file_format_version", 8),),
)
DATASET = Program(name="SAS", read="read_sas7bdat", write="", keeps=(), stamp=_STAMP)


def _read(path: Path, codebook: Codebook | None) -> LabelledSource:
    return reader(TRANSPORT if path.suffix.lower() == ".xpt" else DATASET)(path, codebook)


@contextmanager
def _open_writer(path: Path, schema: pa.Schema, opening: Opening) -> Iterator[Writer]:
    if path.suffix.lower() != ".xpt":
        raise UsageError(sentence("SAS data sets cannot be written", where=path.name, fix="write .xpt: SAS reads it"))
    with writer(TRANSPORT)(path, schema, opening) as collected:
        yield collected


FORMAT = Format("SAS", (".xpt", ".sas7bdat"), _read, _open_writer, library="pyreadstat")
