"""SPSS files: variable and value labels, user-missing codes and ranges, formats and measurement levels survive.

Portable files (.por) are read only; the library reads their user-missing codes as missing values.
"""

from __future__ import annotations

from pathlib import Path

from postrand.codebook import Codebook
from postrand.codebook.not_released import NOT_RELEASED
from postrand.formats._fitting import Limits, fitting
from postrand.formats._readstat import LIMITS, LabelledSource, Program, reader, writer
from postrand.formats.base import Format, Readers

SPSS = Program(
    name="SPSS",
    read="read_sav",
    write="write_sav",
    keeps=("column_labels", "variable_value_labels", "missing_ranges", "variable_format", "variable_measure"),
    labels_text=True,
    stamp=(rb"\A(.{92}).{17}", rb"\g<1>01 Jan 7000:00:00"),
    note=("note", f"{NOT_RELEASED} is not a missing value: the record does not show the variable."),
)
PORTABLE = Program(name="SPSS portable", read="read_por", write="", keeps=(), stamp=SPSS.stamp, user_missing=False)
_LIMITS = Limits(
    name=r"[^\W\d]([\w.$#@]*[\w$#@])?",
    in_words="letters, digits, and . _ $ # @, a letter first and no full stop last",
    name_length=64,
    in_bytes=True,
    reserved=frozenset(("all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to", "with")),
    one_case=True,
    label_length=256,
    value_label_length=120,
)


def _read(path: Path, codebook: Codebook | None) -> LabelledSource:
    return reader(PORTABLE if path.suffix.lower() == ".por" else SPSS)(path, codebook)


FORMAT = Format(
    "SPSS",
    (".sav", ".zsav", ".por"),
    _read,
    writer(SPSS),
    Readers(
        python="pyreadstat.read_sav({}, user_missing=True)[0]",
        r="as.data.frame(haven::read_sav({}, user_na = TRUE))",
        r_values={"haven": "postrand_values(haven::read_sav(path, user_na = TRUE))"},
        python_library="pyreadstat",
    ),
    media_type="application/x-spss-sav",
    library="pyreadstat",
    read_only=(".por",),
    keeps_labels=True,
    label_room=SPSS.label_length,
    limits=LIMITS,
    partly=SPSS.partly.values,
    misfits=fitting(SPSS, _LIMITS),
)
