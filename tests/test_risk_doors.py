"""Every risk measure through the command line: text, JSON, files, and what is refused."""

import csv
import json
import os
import stat
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.risk import measures
from postrand.risk.measures import kinds
from postrand.testing import risk as suite
from postrand.workflow.draft import measure as measure_by_path


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(5)
    n = 600
    table = {
        "id": np.arange(n) * 7 + 1_000_003,
        "age": pa.array([f"a{v}" for v in rng.geometric(0.3, n).clip(1, 9)]),
        "area": pa.array([f"r{v}" for v in rng.integers(0, 8, n)]),
        "ill": pa.array(rng.choice(["yes", "no"], n)),
        "h": np.repeat(np.arange(n // 3), 3),
        "w": rng.uniform(2, 30, n),
        "low": np.full(n, 0.5),
    }
    folder = tmp_path_factory.mktemp("doors")
    pq.write_table(pa.table(table), folder / "survey.parquet")
    roles = ("--key", "age,area", "--sensitive", "ill", "--weight", "w", "--household", "h", "--drop", "*")
    assert call("init", folder / "survey.parquet", "--out", folder, *roles).exit_code == 0
    return folder


def assess(folder, *more, keys="age,area"):
    return call("assess", folder / "survey.parquet", "--keys", keys, *more)


NEEDED = {
    "attackers": ["--sampling-fraction", "0.1"],
    "groups": ["--set", "groups.by=ill"],
    "households": ["--weight", "w", "--household", "h"],
    "individual": ["--weight", "w"],
    "l-diversity": ["--sensitive", "ill"],
    "latent-classes": ["--sampling-fraction", "0.1", "--set", "latent-classes.sweeps=60"],
    "tau": ["--sampling-fraction", "0.1", "--model", "independence"],
}


@pytest.mark.parametrize("name", kinds())
def test_every_measure_has_a_door(folder, name):
    needed = NEEDED.get(name, ["--weight", "w", "--household", "h", "--sensitive", "ill"])
    text = assess(folder, "--measure", name, *needed)
    assert text.exit_code == 0, text.output
    assert f"({name})" in text.output
    assert text.stderr == ""
    told = json.loads(assess(folder, "--measure", name, *needed, "--json").output)
    assert told["measures"][name]["facts"]
    assert "For use inside the agency" in told["notice"]


MORE = {
    "attackers": [([], "share of the population"), (["--sampling-fraction", "0"], "outside its range")],
    "groups": [
        ([], "neither a variable to group by nor a sensitive variable"),
        (["--set", "groups.by=arae"], "did you mean 'area'"),
    ],
    "households": [(["--weight", "w"], "household numbers"), (["--household", "h"], "share of the population")],
    "individual": [([], "share of the population"), (["--weight", "low"], "below 1")],
    "k-anonymity": [(["--weight", "wt"], "no column"), (["--set", "k-anonymity"], "NAME.OPTION=VALUE")],
    "l-diversity": [([], "no sensitive variable|none is named"), (["--sensitive", "il"], "did you mean 'ill'")],
    "latent-classes": [([], "share of the population"), (["--set", "latent-classes.chains=0"], "chains is outside")],
    "rare-combinations": [
        (["--set", "rare-combinations.size=0"], "outside"),
        (["--set", "suda.size=2"], "not requested"),
    ],
    "sub-sample": [
        (["--set", "sub-sample.share=2"], r"\(0, 1\]"),
        (["--set", "sub-sample.share=x"], "share is outside"),
    ],
    "suda": [(["--set", "suda.max_size=0"], ">= 1"), (["--set", "suda.max_size=two"], "whole number")],
    "tau": [([], "share of the population"), (["--sampling-fraction", ".1", "--model", "four-way"], "unknown model")],
}


@pytest.mark.parametrize("name", kinds())
def test_wrong_input_of_every_measure_is_explained(folder, name):
    """Three each: what it cannot do without, a value outside its range, and an option that it does not have."""
    wrong = [*MORE.get(name, []), (["--set", f"{name}.no_such_option=1"], "unknown option")]
    for arguments, words in wrong:
        result = assess(folder, "--measure", name, *arguments)
        assert result.exit_code in (2, 4), (arguments, result.output)
        assert result.stdout == ""
        assert any(word in result.stderr for word in words.replace("\\", "").split("|")), (words, result.stderr)


def test_all_takes_weight_household_and_sensitive_variables_from_the_codebook(folder):
    made = assess(folder, "--measure", "all", "--codebook", folder / "codebook.toml", "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.output)["measures"]
    assert set(told) == set(kinds())
    assert [name for name, found in told.items() if "not_measured" in found] == []
    assert told["households"]["facts"]["households"] == 200
    chosen = assess(
        folder, "--measure", "individual", "--codebook", folder / "codebook.toml", "--sampling-fraction", "1", "--json"
    )
    assert json.loads(chosen.output)["measures"]["individual"]["facts"]["largest"] == 1


def test_the_summary_takes_the_weight_of_the_codebook(folder):
    named = assess(folder, "--codebook", folder / "codebook.toml")
    assert named.exit_code == 0, named.output
    assert "no sampling fraction or weight" not in named.output
    assert "no sampling fraction or weight" in assess(folder).output


def test_the_codebook_names_the_keys(folder):
    book = ("--codebook", folder / "codebook.toml")
    keys = ",".join(v.name for v in pr.load_codebook(book[1]).with_role("key"))
    for more in ([], ["--measure", "individual"]):
        found = call("assess", folder / "survey.parquet", *book, *more)
        assert found.exit_code == 0, found.output
        assert found.output == call("assess", folder / "survey.parquet", *book, "--keys", keys, *more).output
    without = call("assess", folder / "survey.parquet")
    assert (without.exit_code, without.stdout) == (2, "")
    assert "no key variables are named. Next: name them: --keys A,B; or give a --codebook" in without.stderr


def test_the_list_of_measures_needs_no_file(folder):
    listed = call("assess", "--measures")
    assert listed.exit_code == 0
    for name, kind in kinds().items():
        assert name in listed.output
        assert kind.meaning in listed.output


TOY = """
from dataclasses import dataclass
from typing import ClassVar

from postrand.risk.measures.base import Cost, Count, Fact, Measured, require


@dataclass(frozen=True, slots=True)
class Pairs:
    size: int = 2
    name: ClassVar[str] = "toy-pairs"
    title: ClassVar[str] = "Pairs"
    meaning: ClassVar[str] = "How many records share their key values with exactly one other."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def supports(self, file):
        return None

    def measure(self, file):
        require(self, file)
        found = Count((file.frequency() == self.size).sum())
        return Measured(self.name, self.title, (Fact("pairs", "Records", found),), records_at=1 / file.frequency())


MEASURE = Pairs
"""


def test_a_new_measure_is_one_file(folder, tmp_path, monkeypatch):
    """It has its door, its options, its place in the list, its risks of records, and passes the suite."""
    (tmp_path / "toy_pairs.py").write_text(TOY)
    with monkeypatch.context() as place:
        place.setattr(measures, "__path__", [*measures.__path__, str(tmp_path)])
        kinds.cache_clear()
        assert "toy-pairs" in call("assess", "--measures").output
        made = assess(folder, "--measure", "toy-pairs", "--set", "toy-pairs.size=3", "--records", tmp_path / "r.csv")
        toy = kinds()["toy-pairs"]()
    kinds.cache_clear()
    sys.modules.pop("postrand.risk.measures.toy_pairs", None)
    assert made.exit_code == 0, made.output
    assert "Pairs (toy-pairs)" in made.output
    suite.check(toy)
    assert "toy-pairs" not in kinds()
    assert stat.S_IMODE((tmp_path / "r.csv").stat().st_mode) == 0o600


def test_risks_of_records_go_to_a_file_with_ids_only_if_asked(folder, tmp_path):
    asked = (
        "--measure",
        "households,individual,l-diversity",
        "--weight",
        "w",
        "--household",
        "h",
        "--sensitive",
        "ill",
    )
    made = assess(folder, *asked, "--records", tmp_path / "r.csv")
    assert made.exit_code == 0, made.output
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text("utf-8").splitlines()))
    assert list(rows[0]) == ["households", "individual"]
    assert len(rows) == 600
    assert "1000003" not in (tmp_path / "r.csv").read_text() + made.output
    with_ids = assess(folder, *asked, "--records", tmp_path / "r.parquet", "--record-key", "id")
    assert with_ids.exit_code == 0, with_ids.output
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column_names == ["id", "households", "individual"]
    assert table["id"].to_pylist() == [7 * k + 1_000_003 for k in range(600)]
    risk = np.array([float(row["individual"]) for row in rows])
    np.testing.assert_allclose(table["individual"].to_numpy(), risk, rtol=1e-15)
    some = {h: 1 - np.prod(1 - risk[3 * h : 3 * h + 3]) for h in range(200)}
    np.testing.assert_allclose(table["households"].to_numpy(), [some[k // 3] for k in range(600)], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--measure", "suda", "--records", "{release}/r.csv"], 7, "do not belong in a release"),
        (["--measure", "suda", "--records", "{release}/deep/down/r.csv"], 7, "do not belong in a release"),
        (["--measure", "suda", "--records", "{link}/r.csv"], 7, "do not belong in a release"),
        (["--measure", "individual", "--weight", "w", "--plot", "{release}/plots"], 7, "do not belong in a release"),
        (["--measure", "suda", "--records", "{there}"], 7, "exist"),
        (["--measure", "suda", "--records", "{new}.docx"], 2, "unknown file type"),
        (["--measure", "l-diversity", "--sensitive", "ill", "--records", "{new}.csv"], 2, "risk for each record"),
        (["--measure", "suda", "--record-key", "id"], 2, "no file of records"),
        (["--measure", "suda", "--records", "{new}.csv", "--record-key", "idd"], 4, "did you mean 'id'"),
        (["--measure", "suda", "--plot", "{new}"], 2, "has a histogram"),
        (["--records", "{new}.csv"], 2, "needs --measure"),
        (["--records", "{new}.csv", "--set", "suda.max_size=1"], 2, "2 problems"),
        (["--measure", "all,suda"], 2, "no measure 'all'"),
        (["--measure", ","], 2, "no name is given"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(folder, tmp_path, arguments, code, words):
    release = tmp_path / "release"
    release.mkdir()
    (release / "manifest.json").write_text("{}")
    (tmp_path / "there.csv").write_text("")
    os.symlink(release, tmp_path / "link")
    names = {"release": release, "link": tmp_path / "link", "there": tmp_path / "there.csv", "new": tmp_path / "new"}
    before = sorted(tmp_path.rglob("*"))
    result = assess(folder, *[a.format(**names) for a in arguments])
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_histograms_are_pictures_that_hide_small_counts(folder, tmp_path):
    asked = ("--measure", "individual,households", "--weight", "w", "--household", "h", "--plot", tmp_path / "p")
    made = assess(folder, *asked)
    assert made.exit_code == 0, made.output
    assert sorted(p.name for p in (tmp_path / "p").iterdir()) == ["households.svg", "individual.svg"]
    drawn = (tmp_path / "p" / "individual.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert "<title>Risk of persons, by the weights</title>" in drawn
    assert not any(f">{n}</text>" in drawn for n in range(1, 5))
    again = assess(folder, *asked)
    assert (again.exit_code, "directory exists" in again.stderr) == (7, True)


def test_the_summary_without_a_measure_is_what_it_was(folder):
    told = json.loads(assess(folder, "--sampling-fraction", "0.1", "--json").output)
    assert {"k_anonymity", "tau1", "readings", "sample_uniques"} <= set(told)
    assert "measures" not in told
    assert "records_at" not in told


def test_help_shows_each_option_and_examples():
    shown = call("assess", "--help").output
    for option in ("--measure ", "--measures", "--set", "--records", "--record-key", "--plot", "--household"):
        assert option in shown
    assert "postrand assess survey.parquet --keys age,sex,region --measure suda" in shown


def test_the_dossier_shows_every_measure_of_counts(folder, tmp_path):
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text("utf-8").replace("as_is = []", 'as_is = ["w"]'), "utf-8")
    made = call("protect", "--plan", plan, "--out", tmp_path / "out", "--dossier", tmp_path / "in")
    assert made.exit_code == 0, made.output
    page = (tmp_path / "in" / "dossier.html").read_text("utf-8")
    for name in ("individual", "households", "suda", "l-diversity", "sub-sample", "groups"):
        assert f"{kinds()[name].title}: before protection" in page
    assert "One bar for each range of risk" in page
    told = json.loads((tmp_path / "in" / "dossier.json").read_text("utf-8"))
    found = measure_by_path(folder / "survey.parquet", ("age", "area"), folder / "codebook.toml", ("households",))
    assert told["measures"]["households"] == found["households"].to_dict()
    inside = assess(folder, "--measure", "suda", "--records", tmp_path / "out" / "r.csv")
    assert (inside.exit_code, "do not belong in a release" in inside.stderr) == (7, True)
    assert call("verify", tmp_path / "out").exit_code == 0


def test_weights_with_a_decimal_comma_are_numbers(tmp_path):
    from postrand import formats

    rows = [(n % 3, n % 2, 100.5 + n % 7) for n in range(300)]
    table = pa.table({name: pa.array(column) for name, column in zip("abw", zip(*rows, strict=True), strict=True)})
    text = "\n".join(f"{a};{b};{w}".replace(".", ",") for a, b, w in rows)
    (tmp_path / "s.csv").write_text(f"a;b;w\n{text}\n")
    place = formats.placed(tmp_path / "s.csv", formats.ReadSettings(separator=";", decimal=","))
    read, told = (pr.risk.assess(data, ["a", "b"], weight="w") for data in (formats.read(place), table))
    assert str(read) == str(told)
