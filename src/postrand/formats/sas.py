"""SAS files: transport files (.xpt, version 8) in and out, data sets (.sas7bdat) in.

Variable labels survive. SAS keeps value labels in catalogues apart from the data, which the setting ``catalog`` names;
transport files have none, and the labels stay in the codebook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence
from postrand.formats._fitting import Limits, fitting
from postrand.formats._partly import Rule
from postrand.formats._readstat import (
    LIMITS,
    LabelledSource,
    Program,
    library,
    reader,
    reading,
    value_labels_of,
    writer,
)
from postrand.formats._settings import USUAL, ReadSettings
from postrand.formats.base import Format, Readers

_STAMP = (rb"[0-9]{2}(JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)[0-9]{2}(:[0-9]{2}){3}", b"01JAN70:00:00:00")
TRANSPORT = Program(
    name="SAS transport",
    read="read_xport",
    write="write_xport",
    keeps=("column_labels",),
    stamp=_STAMP,
    user_missing=False,
    options=(("file_format_version", 8),),
    partly=Rule(".N"),
    note=("file_label", ".N: not released, which is not missing"),
    label_end=" (.N: not released)",
    bytewise=True,
)
DATASET = Program(name="SAS", read="read_sas7bdat", write="", keeps=(), stamp=_STAMP)


def _read(path: Path, codebook: Codebook | None, settings: ReadSettings = USUAL) -> LabelledSource:
    if path.suffix.lower() == ".xpt":
        if settings.catalog:
            what = "a transport file has no catalogue of value labels"
            raise UsageError(sentence(what, where=path.name, fix="remove catalog"))
        return reader(TRANSPORT)(path, codebook)
    source = reader(DATASET)(path, codebook)
    if not settings.catalog:
        return source
    return replace(source, schema=labelled(source.schema, catalogue(path.parent / settings.catalog, DATASET)))


def catalogue(path: Path, program: Program) -> Mapping[str, Mapping[Any, str]]:
    """Return the value labels of a catalogue of SAS, by the names of their formats.

    Raises
    ------
    UsageError
        If there is no such file.
    DataError
        If it cannot be read.
    """
    if not path.is_file():
        raise UsageError(sentence("no such catalogue of value labels", where=str(path), fix="correct catalog"))
    with reading(program, path):
        found: Mapping[str, Mapping[Any, str]] = library().read_sas7bcat(str(path))[1].value_labels
    return found


def labelled(schema: pa.Schema, labels: Mapping[str, Mapping[Any, str]]) -> pa.Schema:
    """Return the schema with the labels of each column's format; ``labels`` has those of each format by its name.

    >>> schema = pa.schema([pa.field("sex", pa.int64(), metadata={"format": "SEXF8."})])
    >>> labelled(schema, {"SEXF": {1.0: "female", 2.0: "male"}}).field("sex").metadata[b"value_labels"]
    b'{"1": "female", "2": "male"}'
    """
    fields = []
    for field in schema:
        own = field.metadata or {}
        name = re.sub(r"[0-9]*\.?[0-9]*$", "", own.get(b"format", b"").decode())
        found = labels.get(name) or labels.get(own.get(b"format", b"").decode())
        said = {"value_labels": value_labels_of(found, field.type)} if found else {}
        fields.append(field.with_metadata({**own, **said}) if said else field)
    return pa.schema(fields, schema.metadata)


_LIMITS = Limits(
    name=r"[A-Za-z_][A-Za-z0-9_]*",
    in_words="letters from a to z, digits and _, a letter first",
    one_case=True,
    label_length=256,
)
FORMAT = Format(
    "SAS",
    (".xpt", ".sas7bdat"),
    _read,
    writer(TRANSPORT),
    Readers(
        python="pyreadstat.read_xport({})[0]",
        r="as.data.frame(haven::read_xpt({}))",
        r_values={"haven": "postrand_values(haven::read_xpt(path))"},
        python_library="pyreadstat",
    ),
    media_type="application/x-sas-xport",
    library="pyreadstat",
    read_only=(".sas7bdat",),
    settings=("catalog",),
    keeps_labels=True,
    limits=LIMITS,
    partly=TRANSPORT.partly.values,
    misfits=fitting(TRANSPORT, _LIMITS),
)
