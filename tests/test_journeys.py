"""The nine journeys of docs/journeys.md, with few records: each from the file to a verified release, by commands."""

import importlib

import pytest

from tests.conftest import ROOT

RECORDS = 500
PAGE = (ROOT / "docs" / "journeys.md").read_text(encoding="utf-8")


@pytest.fixture
def journeys(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("journeys")


NAMES = ("codes", "semicolon", "spss", "stata", "parquet", "households", "persons", "text", "excel")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_messy_file_becomes_a_verified_release(request, journeys, tmp_path, name):
    if name in ("codes", "parquet", "households"):  # no package has these records
        request.getfixturevalue("shared_data")
    journey = next(one for one in journeys.JOURNEYS if one.name == name)
    got = journeys.run(journeys.typed, journey, tmp_path, RECORDS)
    assert got is not None
    assert got["verified"]
    assert got["epsilon"] <= 4
    assert got["claims"]
    assert got["matches"][1] < got["matches"][0]
    assert 0 < got["one_way"]["least"] <= got["records"]
    assert 0 < got["two_way"]["least"] <= got["records"]
    assert 2 <= got["plans"] <= 4
    assert not (tmp_path / "release" / "dossier.html").exists()


def test_the_page_shows_the_commands_and_every_file(journeys):
    assert [journey.name for journey in journeys.JOURNEYS] == list(NAMES)
    example = next(journey for journey in journeys.JOURNEYS if journey.name == "households")
    for line in journeys.commands(example, "households.csv"):
        assert f"\npostrand {' '.join(line.split())}\n" in PAGE
    for journey in journeys.JOURNEYS:
        assert PAGE.count(f"\n| {journey.what} |") == 3  # what it is, its figures, its seconds
    assert "not on this machine" not in PAGE
