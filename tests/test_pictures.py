"""The pictures of the documentation are those that the numbers of the last run draw, and pages quote these numbers."""

import json
import re

import pytest
from benchmarks.pictures import FOLDER
from benchmarks.pictures.numbers import quick
from benchmarks.pictures.ten import PICTURES, at_most

from tests.conftest import ROOT

NUMBERS = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_current(name):
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == PICTURES[name](NUMBERS)


def test_each_picture_has_a_place_and_a_text_in_its_stead():
    page = (ROOT / "docs" / "ten-pictures.md").read_text(encoding="utf-8")
    placed = re.findall(r"!\[[^]]{60,}\]\(pictures/(.*?)\.svg\)", page)
    assert [*placed, "release"] == list(PICTURES)
    assert re.search(r"!\[[^]]{60,}\]\(docs/pictures/release\.svg\)", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_what_is_quick_is_computed_again():
    found = quick()
    assert found == {name: NUMBERS[name] for name in found}


def test_the_page_quotes_the_numbers():
    table, copies, found = NUMBERS["table"], NUMBERS["copies"], NUMBERS["found"]
    shares = [table[name][0] for name in ("released", "true", "corrected", "lower", "upper")]
    shares += [*copies["pooled"], copies["true"], min(copies["each"]), max(copies["each"])]
    counts = [NUMBERS["records"], NUMBERS["unique"], *found.values(), *NUMBERS["worth"].values()]
    quoted = {f"{share:.1%}" for share in shares} | {f"{count:,.0f}" for count in counts}
    quoted |= {at_most(NUMBERS["guesses"][size][16], 1) for size in ("2", "12", "180")}
    quoted |= {at_most(NUMBERS["sums"][count], 2) for count in (1, 2, 3, 8)}
    page = (ROOT / "docs" / "ten-pictures.md").read_text(encoding="utf-8")
    assert {number for number in quoted if number not in page} == set()
