"""SPSS files: variable and value labels, user-missing codes and ranges, formats and measurement levels survive."""

from __future__ import annotations

from postrand.formats._readstat import Program, reader, writer
from postrand.formats.base import Format

SPSS = Program(
    name="SPSS",
    read="read_sav",
    write="write_sav",
    keeps=("column_labels", "variable_value_labels", "missing_ranges", "variable_format", "variable_measure"),
    labels_text=True,
    stamp=(rb"\A(.{92}).{17}", rb"\g<1>01 Jan 7000:00:00"),
)
FORMAT = Format("SPSS", (".sav", ".zsav"), reader(SPSS), writer(SPSS), library="pyreadstat")
