"""SAS files: transport files (.xpt, version 8) in and out, data sets (.sas7bdat) in.

Variable labels survive. SAS keeps value labels in catalogues apart from the data: they stay in the codebook.
"""

from __future__ import annotations

from pathlib import Path

from postrand.codebook import Codebook
from postrand.formats._fitting import Limits, fitting
from postrand.formats._partly import Rule
from postrand.formats._readstat import LIMITS, LabelledSource, Program, reader, writer
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


def _read(path: Path, codebook: Codebook | None) -> LabelledSource:
    return reader(TRANSPORT if path.suffix.lower() == ".xpt" else DATASET)(path, codebook)


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
    keeps_labels=True,
    limits=LIMITS,
    partly=TRANSPORT.partly.values,
    misfits=fitting(TRANSPORT, _LIMITS),
)
