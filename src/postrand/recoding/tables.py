"""Public tables beside a codebook: hierarchies as ARX reads them, and tables of numbers for quantiles."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from postrand.errors import SpecificationError, sentence, shown
from postrand.support.inputs import has_controls, read_text

MAX_ROWS = 1 << 20


def rows_of(name: object, folder: Path | None, option: str) -> list[list[str]]:
    """Return the rows of a CSV file beside the codebook; the sign between columns is ``;``, a tabulator or ``,``.

    The first of these that the first line contains separates. Blanks around a text are left out.

    Raises
    ------
    SpecificationError
        If the file cannot be read, is no CSV text in UTF-8, is empty, or its rows differ in length. Nothing of it is
        shown: it could be a file of records.
    """
    if folder is None:  # a codebook that did not come from a file, perhaps from a release, opens none
        what, fix = "the table is not in the codebook, and there is no folder to read it from", "use load_codebook"
        raise SpecificationError(sentence(what, where=shown(name, repr), fix=fix))
    if not isinstance(name, str) or not name or has_controls(name):
        what = f"{option!r} is not the name of a file"
        raise SpecificationError(sentence(what, got=shown(name, repr), fix=f'set {option} = "table.csv"'))
    try:
        file = io.StringIO(read_text(folder / name, "utf-8-sig"), newline="")
        first = file.readline()
        file.seek(0)
        mark = next((sign for sign in ";\t," if sign in first), ";")
        rows = [[text.strip() for text in row] for row in csv.reader(file, delimiter=mark, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else "not CSV text in UTF-8"
        raise SpecificationError(sentence("the table cannot be read", where=name, got=why)) from None
    if not rows or len(rows) > MAX_ROWS:
        raise SpecificationError(sentence("the table has no row, or too many", where=name, wanted=f"1..{MAX_ROWS:,}"))
    if wrong := next((n for n, row in enumerate(rows, 1) if len(row) != len(rows[0])), 0):
        what = "the number of fields differs from the first row"
        raise SpecificationError(sentence(what, where=f"{name}, row {wrong}"))
    return rows
