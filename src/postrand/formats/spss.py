"""SPSS files: variable and value labels, user-missing codes and ranges, formats and measurement levels survive."""

from __future__ import annotations

from postrand.codebook.not_released import NOT_RELEASED
from postrand.formats._readstat import LIMITS, Program, reader, writer
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
FORMAT = Format(
    "SPSS",
    (".sav", ".zsav"),
    reader(SPSS),
    writer(SPSS),
    Readers(
        python="pyreadstat.read_sav({}, user_missing=True)[0]",
        r="as.data.frame(haven::read_sav({}, user_na = TRUE))",
        r_values={"haven": "postrand_values(haven::read_sav(path, user_na = TRUE))"},
        python_library="pyreadstat",
    ),
    media_type="application/x-spss-sav",
    library="pyreadstat",
    keeps_labels=True,
    label_room=SPSS.label_length,
    limits=LIMITS,
    partly=SPSS.partly.values,
)
