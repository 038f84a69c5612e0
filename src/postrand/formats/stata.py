"""Stata files: variable labels, value labels of numbers, and missing values .a to .z survive; Stata labels no text."""

from __future__ import annotations

from postrand.formats._readstat import Program, reader, writer
from postrand.formats.base import Format

STATA = Program(
    name="Stata",
    read="read_dta",
    write="write_dta",
    keeps=("column_labels", "variable_value_labels", "missing_user_values"),
    stamp=(rb"<timestamp>\x11.{17}</timestamp>", b"<timestamp>\x1101 Jan 1970 00:00</timestamp>"),
)
FORMAT = Format("Stata", (".dta",), reader(STATA), writer(STATA), library="pyreadstat")
