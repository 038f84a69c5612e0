"""Stata files: variable labels, value labels of numbers, and missing values .a to .z survive; Stata labels no text."""

from __future__ import annotations

import datetime

from postrand.formats._fitting import Limits, fitting
from postrand.formats._partly import Rule
from postrand.formats._readstat import LIMITS, Program, reader, writer
from postrand.formats.base import Format, Readers

STATA = Program(
    name="Stata",
    read="read_dta",
    write="write_dta",
    keeps=("column_labels", "variable_value_labels", "missing_user_values"),
    stamp=(rb"<timestamp>\x11.{17}</timestamp>", b"<timestamp>\x1101 Jan 1970 00:00</timestamp>"),
    partly=Rule(".n", letters=True, numbered=65_535),
    label_length=80,
    note=("file_label", ".n is not a missing value: the record does not show the variable"),
)
_LIMITS = Limits(
    name=r"[^\W\d]\w*",
    in_words="letters, digits and _, a letter first",
    reserved=frozenset(
        (
            "_all", "_b", "_coef", "_cons", "_n", "_pi", "_pred", "_rc", "_skip", "byte", "double", "float", "if", "in",
            "int", "long", "strl", "using", "with",
        )
    ),
    label_length=80,
    value_label_length=32_000,
    text_length=2_000_000_000,
    earliest=datetime.date(100, 1, 1),
    trims=False,
)  # fmt: skip
FORMAT = Format(
    "Stata",
    (".dta",),
    reader(STATA),
    writer(STATA),
    Readers(
        python="pd.read_stata({})",
        r="as.data.frame(haven::read_dta({}))",
        r_values={"haven": "postrand_values(haven::read_dta(path))"},
    ),
    media_type="application/x-stata-dta",
    library="pyreadstat",
    keeps_labels=True,
    label_room=STATA.label_length,
    limits=LIMITS,
    partly=STATA.partly.values,
    misfits=fitting(STATA, _LIMITS),
)
