"""The page on recoding: its commands print what it shows, and its examples and table are those of the kinds."""

import re
import tomllib

from postrand.recoding import Recode
from postrand.recoding.base import kinds
from tests.conftest import ROOT
from tests.guides import blocks, run_page

PAGE = (ROOT / "docs" / "recoding.md").read_text(encoding="utf-8")
BLOCKS = list(blocks(PAGE))


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page("recoding.md", tmp_path) == 6
    stated = next(text for kind, text, _ in BLOCKS if kind == "toml")
    assert stated in (tmp_path / "codebook.toml").read_text("utf-8")


def test_every_example_of_the_page_is_a_recode(tmp_path):
    (tmp_path / "regions.csv").write_text("A1;North\n")
    entries = [entry for kind, text, _ in BLOCKS if kind == "toml" for entry in tomllib.loads(text)["recodes"]]
    made = [Recode.from_dict(entry, folder=tmp_path) for entry in entries]
    assert [recode.variable for recode in made] == [
        "age",
        "decade",
        "region",
        "job",
        "pay",
        "marital",
        "period",
        "occupation",
        "income",
    ]


def test_the_table_names_every_kind():
    named = re.findall(r"^\| ([^|]+) \| .*\|$", PAGE, re.MULTILINE)[2:]
    assert set(named) == {kind.name for kind in kinds()}
