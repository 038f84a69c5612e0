"""Excel workbooks: what is written is what is read, nothing is a formula, and the bytes do not know the time."""

import math
import time
from pathlib import Path

import openpyxl
import pyarrow as pa
import pytest

from postrand.errors import ReleaseError, UsageError
from postrand.formats import format_of, open_writer, written_as, written_names
from postrand.formats.excel import write_tables

TABLE = pa.table(
    {"sex": ["=1+1", "@SUM(A1)", "a\x00b", "d"], "estimate": [0.1, math.nan, -2.5, math.inf], "n": [1, 2, 3, None]}
)


def test_cells_come_back_as_text_and_numbers(tmp_path: Path) -> None:
    write_tables(tmp_path / "x.xlsx", {"sex by [age]": TABLE, "more": TABLE.select(["n"])})
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert book.sheetnames == ["sex by  age ", "more"]
    rows = [[cell.value for cell in row] for row in book.worksheets[0].rows]
    assert rows == [
        ["sex", "estimate", "n"],
        ["=1+1", 0.1, 1],
        ["@SUM(A1)", None, 2],
        ["a�b", -2.5, 3],
        ["d", None, None],
    ]
    assert book.worksheets[0]["A2"].data_type == "s"


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    write_tables(tmp_path / "a.xlsx", {"t": TABLE})
    time.sleep(2.1)  # a zip file counts in steps of two seconds
    write_tables(tmp_path / "b.xlsx", {"t": TABLE})
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()
    with pytest.raises(ReleaseError, match="cannot be written"):
        write_tables(tmp_path / "a.xlsx", {"t": TABLE})


def test_it_is_no_format_for_microdata(tmp_path: Path) -> None:
    """A workbook is read, and no release is written to one."""
    assert "xlsx" not in written_names()
    assert written_as("x.xlsx") == ".csv"
    with pytest.raises(UsageError, match=r"\.xlsx files can be read, but not written"):
        open_writer(tmp_path / "x.xlsx", TABLE.schema)
    assert format_of("x.sav").name == "SPSS"
