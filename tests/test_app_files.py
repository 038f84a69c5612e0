"""Files as people have them: everyday formats, their first rows, a choice, and messages with the person's own name."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from shiny import reactive

from postrand.app import data_views, linked_view, opening, reading, reading_views
from postrand.app.decisions import act, open_decisions
from postrand.app.notes import in_words, without_options
from postrand.app.plan_server import uploaded
from postrand.app.problems import Problem
from postrand.app.tabs import Tab
from postrand.formats import SINGLE_BYTE, ReadSettings, path_of
from postrand.plan import infer, numbering

ROWS = [("Größe", "Ort"), *(("klein", "Köln"), ("groß", "Zürich")) * 30]
NAME = "Umfrage (1).csv"


def upload(tab: Tab, data: bytes, name: str, given: ReadSettings | None = None) -> None:
    path = uploaded(tab.folder, name)
    path.write_bytes(data)
    asyncio.run(tab.open(path, name, given))


@pytest.fixture
def tab(tmp_path: Path) -> Tab:
    return Tab("0" * 16, tmp_path / "tab")


def shown(value: reactive.Value[Any]) -> Any:
    with reactive.isolate():
        return value()


def lines(separator: str) -> str:
    return "\n".join(separator.join(row) for row in ROWS) + "\n"


@pytest.mark.parametrize(("separator", "encoding"), [(";", "windows-1252"), ("\t", "utf-8"), (";", "utf-16")])
def test_text_files_open_by_what_they_show(separator: str, encoding: str, tab: Tab) -> None:
    upload(tab, lines(separator).encode(encoding), NAME)
    assert tab.now.names == ROWS[0]
    assert tab.now.opened.name == NAME
    found = reading.preview(tab.now.opened)
    assert found.rows == tuple(ROWS[1:6])
    page = str(reading_views.form(found))
    assert "Zürich" in page
    assert f'value="{separator}" selected' in page
    assert {*SINGLE_BYTE} < {*reading.ENCODINGS}  # each says where such files come from
    assert [one for one in tab.folder.iterdir() if one.name.startswith(".in-") and any(one.iterdir())] == []


def test_a_sheet_is_chosen_where_there_are_several(tab: Tab, tmp_path: Path) -> None:
    book = Workbook()
    for line in [("note",), ("x",)]:
        book.active.append(line)
    data = book.create_sheet("Data")
    for row in ROWS:
        data.append(row)
    book.save(tmp_path / "book.xlsx")
    upload(tab, (tmp_path / "book.xlsx").read_bytes(), "My book.xlsx")
    said = shown(tab.opening)
    assert isinstance(said, Problem)
    assert "My book.xlsx" in said.text
    assert "--" not in without_options(said.text)
    path, name = shown(tab.pending)
    page = str(reading_views.form(reading.unread(path, name, ReadSettings()), is_open=True))
    assert '<option value="Data">' in page
    tab.decisions.set(act(tab.now, "typed", "read.sheet", "Data"))
    asyncio.run(tab.open(path, name, reading.settings_of(tab.now)))
    assert tab.now.names == ROWS[0]
    assert shown(tab.pending) is None


def test_a_file_is_read_again_in_another_way(tab: Tab) -> None:
    upload(tab, b"a;b\n" + b"1,5;x\n2,5;y\n" * 30, "numbers.csv")
    tab.decisions.set(act(act(tab.now, "role", "1", "key"), "typed", "read.separator", ","))
    before = tab.now
    asyncio.run(tab.open(path_of(before.opened.path), "numbers.csv", reading.settings_of(before)))
    assert len(tab.now.names) == 2  # the header has no comma
    assert isinstance(shown(tab.opening), Problem) or tab.now.names != ("a", "b")
    asyncio.run(tab.open(path_of(before.opened.path), "numbers.csv", ReadSettings(separator=";")))
    assert tab.now.names == ("a", "b")


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2,3\n", b"a,a\n1,2\n"])
def test_messages_have_the_name_of_the_persons_file(data: bytes, tab: Tab) -> None:
    upload(tab, data, "Survey 2024.csv")
    said = shown(tab.opening)
    assert isinstance(said, Problem)
    assert "Survey 2024.csv" in said.text
    assert not re.search(r"[0-9a-f]{16}", said.text)
    first = shown(tab.pending)[0]
    upload(tab, b"a,b\n" + b"x,y\nz,w\n" * 20, "good.csv")
    assert tab.now.names == ("a", "b")
    assert not first.exists()


def test_notes_of_drafts_have_no_syntax_of_a_file() -> None:
    notes = [
        infer.DATES,
        numbering.NUMBERS,
        numbering.HOUSES,
        "pay is a function of age: if you perturb one of them, set role = 'drop' for pay, or perturb both",
        "if these mean no answer, uncomment: missing_codes = [98, 99]",
        "categories with fewer than 20 records: 2; with their labels they are published: merge them with "
        "[[recodes]], if that makes sense",
        "more than 100 different values, not listed here: role = 'drop', or group them with [[recodes]]",
        "whole numbers, all different: role = 'record_key' if they identify records, otherwise perhaps 'drop'",
        "role = 'weight'? A weight is a number (type 'int64' or 'double') and has no categories",
        "every value is missing: role = 'drop'?",
    ]
    for note in notes:
        said = in_words(note)
        assert not re.search(r"[\[\]='_]", said), said


def test_a_household_number_is_hinted_at_and_has_no_links(tmp_path: Path) -> None:
    path = tmp_path / "houses.csv"
    rows = [f"{h},{'nesw'[h % 4]},{'mf'[(h + k) % 2]}" for h in range(150) for k in range(3 + h % 5)]
    path.write_text("\n".join(["hid,region,sex", *rows]) + "\n")
    start = open_decisions(opening.open_file(path))
    for state in (start, act(act(start, "role", "1", "key"), "rest", value="other")):
        found = linked_view.proposals(state, linked_view.sample_of(state))
        page = str(data_views.variables(state)) + str(linked_view.linked_card(state, found))
        assert "looks like a household number: choose the role household" in page
        assert "role = " not in page
    assert linked_view.proposals(start, linked_view.sample_of(start)).sentences == ()
    named = act(start, "role", "0", "household")
    assert linked_view.proposals(named, linked_view.sample_of(named)).sentences == ()
    assert "looks like" not in str(data_views.variables(named))
