"""Numerical columns and Anatomy from file to folder, as a library and from the command line."""

import collections
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import formats
from postrand.cli import main
from postrand.errors import DataError, UsageError
from postrand.files import anatomise_file, permute_columns
from postrand.numerical import RankBand, RankBlocks, permutation_model
from postrand.randomness import ReleaseKey

KEY = ReleaseKey.from_seed(9)


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "area": pa.array(rng.choice(["n", "s"], 300)).dictionary_encode(),
            "age": rng.integers(18, 80, 300),
            "pay": pa.array(rng.normal(size=300), mask=rng.random(300) < 0.1),
        }
    )
    pq.write_table(table, tmp_path / "survey.parquet")
    return tmp_path / "survey.parquet"


def test_columns_are_permuted_within_their_band_and_nothing_else_changes(survey, tmp_path):
    certificate = permute_columns(survey, tmp_path / "out", ["age", "pay"], RankBand(5), KEY)
    before, after = pq.read_table(survey), pq.read_table(tmp_path / "out" / "data.parquet")
    assert after["area"].to_pylist() == before["area"].to_pylist()
    assert after.schema.types == before.schema.types
    for name in ("age", "pay"):
        x, y = before[name].to_pylist(), after[name].to_pylist()
        assert collections.Counter(x) == collections.Counter(y)
        assert x != y
        assert [v is None for v in x] == [v is None for v in y]
        held = [(a, b) for a, b in zip(x, y, strict=True) if a is not None]
        assert permutation_model(*np.array(held).T).distances.max() < 15
    assert certificate == json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert "bits" in certificate["claims"][0]["sentence"]
    assert "missing value is disclosed" in certificate["claims"][1]["sentence"]
    assert "NOT PRIVATE" in certificate["not_covered"][0]


def test_text_of_a_csv_file_is_carried_as_it_is_written(tmp_path):
    (tmp_path / "s.csv").write_text("id,pay\na,1.50\nb,007\nc,\nd,1e1\ne,2\n")
    permute_columns(tmp_path / "s.csv", tmp_path / "out", ["pay"], RankBlocks(2), KEY)
    lines = (tmp_path / "out" / "data.csv").read_text().replace('"', "").split()
    assert [line.split(",")[0] for line in lines] == ["id", "a", "b", "c", "d", "e"]
    pay = [line.split(",")[1] for line in lines[1:]]
    assert sorted(pay) == sorted(["1.50", "007", "", "1e1", "2"])
    assert {pay[0], pay[4]} == {"1.50", "2"}
    assert pay[2] == ""


def test_the_two_tables_of_anatomy(survey, tmp_path):
    certificate = anatomise_file(survey, tmp_path / "out", ["age", "area"], 4, KEY)
    keys, others = (pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("keys", "others"))
    assert keys.column_names == ["anatomy_class", "age", "area"]
    assert others.column_names == ["anatomy_class", "pay"]
    assert min(collections.Counter(keys["anatomy_class"].to_pylist()).values()) >= 4
    assert "4-anonymity" in certificate["claims"][0]["sentence"]
    assert certificate["distinct_diversity"]["pay"] >= 1


def test_numbers_in_text_are_near_as_numbers(tmp_path):
    rows = [f"{age},{'ab'[age % 2]}" for age in (9, 10, 101, 100)]
    (tmp_path / "s.csv").write_text("age,x\n" + "\n".join(rows) + "\n")
    anatomise_file(tmp_path / "s.csv", tmp_path / "out", ["age"], 2, KEY)
    text = (tmp_path / "out" / "keys.csv").read_text().replace('"', "").split()[1:]
    classes = collections.defaultdict(set)
    for line in text:
        label, age = line.split(",")
        classes[label].add(age)
    assert sorted(map(sorted, classes.values())) == [["10", "9"], ["100", "101"]]


@pytest.mark.parametrize(
    ("columns", "law", "message"),
    [(["pey"], RankBlocks(2), "no column 'pey'"), (["pay"], RankBlocks(400), "k is larger")],
)
def test_bad_requests_leave_nothing_behind(survey, tmp_path, columns, law, message):
    with pytest.raises(UsageError, match=message):
        permute_columns(survey, tmp_path / "out", columns, law, KEY)
    assert not (tmp_path / "out").exists()


def test_text_is_not_ranked(survey, tmp_path):
    with pytest.raises(DataError, match="'area' has values that are not numbers"):
        permute_columns(survey, tmp_path / "out", ["area"], RankBlocks(2), KEY)


def call(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_command_line_does_the_same(survey, tmp_path):
    code, made = call("permute", survey, "--columns", "age", "--band", 5, "--out", tmp_path / "a", "--seed", 9)
    assert code == 0, made
    permute_columns(survey, tmp_path / "b", ["age"], RankBand(5), KEY)
    assert (tmp_path / "a" / "data.parquet").read_bytes() == (tmp_path / "b" / "data.parquet").read_bytes()
    code, made = call("anatomise", survey, "--keys", "age", "--k", 3, "--out", tmp_path / "c")
    assert (code, "4-anonymity" in made["claims"][0]["sentence"]) == (0, True)
    for choice in ((), ("--band", 3, "--blocks", 3)):
        code, refused = call("permute", survey, "--columns", "age", *choice, "--out", tmp_path / "d")
        assert (code, refused["problems"][0].startswith("give one of --band")) == (2, True)
    assert formats.read(tmp_path / "c" / "keys.parquet").num_rows == 300
