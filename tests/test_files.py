"""Numerical columns and Anatomy from file to folder, as a library and from the command line."""

import collections
import hashlib
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import formats
from postrand.cli import main
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.formats.csv import FormulaWarning, formula_columns, formula_warning
from postrand.ranks import RankBand, RankBlocks, permutation_model
from postrand.release import verify
from postrand.support.randomness import ReleaseKey
from postrand.support.wordings import in_words
from postrand.workflow.whole_columns import anatomise_file, average_columns, permute_columns
from tests.release_case import edit, rehash

KEY = ReleaseKey.from_seed(9)


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "area": pa.array(rng.choice(["n", "s"], 300)).dictionary_encode(),
            "age": rng.integers(216, 960, 300),  # in months
            "pay": pa.array(rng.normal(size=300), mask=rng.random(300) < 0.1),
        }
    )
    pq.write_table(table, tmp_path / "survey.parquet")
    return tmp_path / "survey.parquet"


def test_columns_are_permuted_within_their_band_and_nothing_else_changes(survey, tmp_path):
    certificate = permute_columns(survey, tmp_path / "out", ["age", "pay"], RankBand(5), KEY, keep_order=True)
    before, after = pq.read_table(survey), pq.read_table(tmp_path / "out" / "data.parquet")
    assert after["area"].to_pylist() == before["area"].to_pylist()
    assert after.schema.types == [pa.string(), *before.schema.types[1:]]  # categories without records are not released
    for name in ("age", "pay"):
        x, y = before[name].to_pylist(), after[name].to_pylist()
        assert collections.Counter(x) == collections.Counter(y)
        assert x != y
        assert [v is None for v in x] == [v is None for v in y]
        held = [(a, b) for a, b in zip(x, y, strict=True) if a is not None]
        assert permutation_model(*np.array(held).T).distances.max() < 15
    assert certificate == in_words(json.loads((tmp_path / "out" / "certificate.json").read_text()))
    assert "bits" in certificate["claims"][0]["sentence"]
    assert "The release shows which records have a missing value: pay." in certificate["not_covered"]
    assert (
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: area."
        in certificate["not_covered"]
    )
    assert "NOT PRIVATE" in certificate["not_covered"][0]


def test_text_of_a_csv_file_is_carried_as_it_is_written(tmp_path):
    (tmp_path / "s.csv").write_text("id,pay\na,1.50\nb,007\nc,\nd,1e1\ne,2\n")
    permute_columns(tmp_path / "s.csv", tmp_path / "out", ["pay"], RankBlocks(2), KEY, as_is=["id"], keep_order=True)
    lines = (tmp_path / "out" / "data.csv").read_text().replace('"', "").split()
    assert [line.split(",")[0] for line in lines] == ["id", "a", "b", "c", "d", "e"]
    pay = [line.split(",")[1] for line in lines[1:]]
    assert sorted(pay) == sorted(["1.50", "007", "", "1e1", "2"])
    assert {pay[0], pay[4]} == {"1.50", "2"}
    assert pay[2] == ""


@pytest.mark.parametrize("given", [[], ["--separator", ";", "--decimal", ","]], ids=["detected", "given"])
def test_text_with_semicolons_and_decimal_commas_is_read_and_checked_again(tmp_path, given):
    pay = np.random.default_rng(4).permutation(200) / 2 + 0.5
    rows = [f"{i % 4};{x:.1f}".replace(".", ",") for i, x in enumerate(pay)]
    (tmp_path / "s.csv").write_text("\n".join(["area;pay", *rows]))
    for command in ("permute", "average"):
        asked = [
            command,
            str(tmp_path / "s.csv"),
            "--columns",
            "pay",
            "--blocks",
            "4",
            "--out",
            str(tmp_path / command),
        ]
        made = CliRunner().invoke(main, [*asked, *given])
        assert made.exit_code == 0, made.output
        checked = CliRunner().invoke(main, ["verify", str(tmp_path / command), "--file", str(tmp_path / "s.csv")])
        assert checked.exit_code == 0, checked.output
    asked = ["permute", str(tmp_path / "s.csv"), "--columns", "pay", "--blocks", "4", "--keep-order", *given]
    assert CliRunner().invoke(main, [*asked, "--out", str(tmp_path / "kept")]).exit_code == 0
    moved = [str(tmp_path / "s.csv"), str(tmp_path / "kept" / "data.csv"), "--columns", "pay", *given]
    assert "pay: " in CliRunner().invoke(main, ["distances", *moved]).stdout


def test_the_two_tables_of_anatomy(survey, tmp_path):
    certificate = anatomise_file(survey, tmp_path / "out", ["age", "area"], 4, KEY, as_is=["pay"])
    keys, others = (pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("keys", "others"))
    assert keys.column_names == ["anatomy_class", "age", "area"]
    assert others.column_names == ["anatomy_class", "pay"]
    assert min(collections.Counter(keys["anatomy_class"].to_pylist()).values()) >= 4
    assert "4-anonymity" in certificate["claims"][0]["sentence"]
    assert certificate["details"]["distinct_diversity"]["pay"] >= 1
    limits = " ".join(certificate["not_covered"])
    assert "Released as they are, ids and weights included: pay." in limits
    assert "of a household or of one person, are not covered" in limits


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
    [
        (["pey"], RankBlocks(2), "no column 'pey'"),
        (["pay"], RankBlocks(400), r"'pay': rank-blocks \(k = 400\) is larger"),
        (["pay"], RankBand(1), "runs of one rank protect nothing"),
    ],
)
def test_bad_requests_leave_nothing_behind(survey, tmp_path, columns, law, message):
    with pytest.raises(UsageError, match=message):
        permute_columns(survey, tmp_path / "out", columns, law, KEY)
    assert not (tmp_path / "out").exists()


def test_text_is_not_ranked(survey, tmp_path):
    with pytest.raises(DataError, match="'area' has values that are not finite numbers"):
        permute_columns(survey, tmp_path / "out", ["area"], RankBlocks(2), KEY)


def test_a_column_named_twice_is_refused(survey, tmp_path):
    with pytest.raises(UsageError, match="'age' is named twice"):
        permute_columns(survey, tmp_path / "out", ["age", "age"], RankBlocks(2), KEY)


def permuted(survey, out):
    permute_columns(survey, out, ["age", "pay"], RankBlocks(5), KEY)


def anatomised(survey, out):
    anatomise_file(survey, out, ["age", "area"], 4, KEY, as_is=["pay"])


def averaged(survey, out):
    average_columns(survey, out, ["age", "pay"], RankBlocks(5), keep_order=True)


@pytest.mark.parametrize("make", [permuted, averaged, anatomised])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".dta"])
def test_folders_verify_from_their_bytes_alone(survey, tmp_path, make, suffix):
    source = tmp_path / f"again{suffix}"
    with formats.open_writer(source, pq.read_schema(survey)) as writer:
        for batch in pq.read_table(survey).to_batches():
            writer.write(batch)
    make(source, tmp_path / "out")
    make(source, tmp_path / "same")
    assert all((tmp_path / "same" / p.name).read_bytes() == p.read_bytes() for p in (tmp_path / "out").iterdir())
    code, found = call("verify", tmp_path / "out")
    assert (code, found["ok"]) == (0, True), found
    names = ["files", "manifest", "digests", "certificate", "bytes", "derived", "drawn"]
    assert [check["name"] for check in found["checks"]] == names
    digest = hashlib.sha256((tmp_path / "out" / "manifest.json").read_bytes()).hexdigest()
    assert verify(tmp_path / "out", manifest_sha256=digest).ok
    with pytest.raises(ReleaseError, match="published"):
        verify(tmp_path / "out", manifest_sha256="0" * 64)


def certified(**changes):
    return lambda root: edit(root / "certificate.json", lambda value: value.update(changes))


def claimed(**changes):
    return lambda root: edit(root / "certificate.json", lambda value: value["claims"][0].update(changes))


def in_table(name, column, value):
    def change(root):
        table = pq.read_table(root / name)
        values = pa.array([value, *table[column].to_pylist()[1:]], table.schema.field(column).type)
        pq.write_table(table.set_column(table.column_names.index(column), column, values), root / name)

    return change


def as_the_second(name, columns):
    def change(root):
        for column in columns:
            in_table(name, column, pq.read_table(root / name)[column][1].as_py())(root)

    return change


FORGERIES = {
    "a larger beta": (permuted, claimed(beta=0.99)),
    "a better sentence": (permuted, claimed(sentence="age: nobody can be found.")),
    "a larger k": (permuted, certified(method={"model": "rank-blocks", "k": 50})),
    "another law": (permuted, certified(method={"model": "rank-swap", "k": 5})),
    "fewer columns": (permuted, certified(columns=["age"])),
    "a column twice": (permuted, certified(columns=["age", "age"])),
    "an unknown column": (permuted, certified(columns=["age", "wage"])),
    "no limits": (permuted, certified(not_covered=[])),
    "one limit less": (permuted, lambda root: edit(root / "certificate.json", lambda v: v["not_covered"].pop())),
    "a private key": (permuted, certified(facts={"key_is_private": True})),
    "a fact that is a number": (permuted, certified(facts={"key_is_private": 1})),
    "a value less": (permuted, in_table("data.parquet", "pay", None)),
    "another kind": (permuted, certified(method={"model": "anatomy", "k": 4})),
    "a field more": (permuted, certified(thanks="x")),
    "classes of five": (anatomised, certified(method={"model": "anatomy", "k": 5})),
    "k of one": (anatomised, certified(method={"model": "anatomy", "k": 1})),
    "a record in another class": (anatomised, in_table("keys.parquet", "anatomy_class", 1)),
    "a class that is not": (anatomised, in_table("others.parquet", "anatomy_class", 10**6)),
    "one key combination less": (anatomised, as_the_second("keys.parquet", ("age", "area"))),
    "other keys": (anatomised, certified(columns=["age"])),
    "more diversity": (
        anatomised,
        lambda root: edit(root / "certificate.json", lambda v: v["details"]["distinct_diversity"].update(pay=100)),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_folders_are_refused(survey, tmp_path, name):
    make, forge = FORGERIES[name]
    make(survey, tmp_path / "out")
    forge(tmp_path / "out")
    first = verify(tmp_path / "out", raise_if_failed=False)
    assert "digests" in [c.name for c in first.checks if c.ok is False]
    rehash(tmp_path / "out")
    found = verify(tmp_path / "out", raise_if_failed=False)
    assert [c.name for c in found.checks if c.ok is False] == ["certificate", "bytes", "derived"]


def test_bytes_that_another_library_is_said_to_have_written_are_not_verified(survey, tmp_path):
    permuted(survey, tmp_path / "out")
    edit(tmp_path / "out" / "manifest.json", lambda m: m.update(written_with="pyarrow 1.0"))
    assert verify(tmp_path / "out").ok
    pq.write_table(
        pq.read_table(tmp_path / "out" / "data.parquet"), tmp_path / "out" / "data.parquet", row_group_size=3
    )
    rehash(tmp_path / "out")
    found = verify(tmp_path / "out", raise_if_failed=False)
    assert (found.verdict, [c.name for c in found.checks if c.outcome == "not run"]) == ("incomplete", ["bytes"])
    version = {"package": {"name": "postrand", "version": "0.0.1"}}
    for change in ({"written_with": "pyreadstat 1.0"}, version | {"written_with": "pyarrow 1.0"}):
        edit(tmp_path / "out" / "manifest.json", partial(dict.update, **change))
        found = verify(tmp_path / "out", raise_if_failed=False)
        assert next(c.name for c in found.checks if c.ok is False) == "manifest"


def test_what_is_added_to_a_folder_or_taken_away_is_found(survey, tmp_path):
    permuted(survey, tmp_path / "out")
    (tmp_path / "out" / "more.parquet").write_bytes(survey.read_bytes())
    assert not verify(tmp_path / "out", raise_if_failed=False).ok
    rehash(tmp_path / "out")
    with pytest.raises(ReleaseError, match="not those of the method"):
        verify(tmp_path / "out")
    (tmp_path / "out" / "more.parquet").unlink()
    (tmp_path / "out" / "data.parquet").unlink()
    with pytest.raises(ReleaseError, match="missing"):
        verify(tmp_path / "out")


def call(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_command_line_does_the_same(survey, tmp_path):
    stay = ("--as-is", "pay")
    code, made = call("permute", survey, "--columns", "age", "--band", 5, "--out", tmp_path / "a", "--seed", 9, *stay)
    assert code == 0, made
    permute_columns(survey, tmp_path / "b", ["age"], RankBand(5), KEY, as_is=["pay"])
    assert (tmp_path / "a" / "data.parquet").read_bytes() == (tmp_path / "b" / "data.parquet").read_bytes()
    code, made = call("anatomise", survey, "--keys", "age", "--k", 3, "--out", tmp_path / "c", *stay)
    assert (code, "4-anonymity" in made["claims"][0]["sentence"]) == (0, True)
    for choice in ((), ("--band", 3, "--blocks", 3)):
        code, refused = call("permute", survey, "--columns", "age", *choice, "--out", tmp_path / "d")
        assert (code, refused["problems"][0].startswith("give exactly one of --band")) == (2, True)
    assert formats.read(tmp_path / "c" / "keys.parquet").num_rows == 300


def test_cells_that_a_spreadsheet_would_run_are_told_by_the_names_of_their_columns(survey, tmp_path):
    rows = ["=cmd|' /C calc'!A0,-3,fine,-{},-", "x,+2.5,@SUM(A1),+{}e1,y", "z,-7%,ok,1{},-"]
    (tmp_path / "s.csv").write_text("a,b,c,d,e\n" + "\n".join(r.format(i) for i in range(1, 5) for r in rows) + "\n")
    source = formats.read(tmp_path / "s.csv")
    assert formula_columns(source, ["a", "b", "c", "d", "e"]) == ("a", "c")
    assert formula_columns(source, ["b", "d"]) == ()
    for make in (lambda out: permute_columns(tmp_path / "s.csv", out, ["d"], RankBlocks(4), KEY),
                 lambda out: anatomise_file(tmp_path / "s.csv", out, ["d"], 3, KEY)):  # fmt: skip
        with pytest.warns(FormulaWarning, match="cells of 'a', 'c' begin like a formula") as told:
            make(tmp_path / f"out{id(make)}")
        assert not any("cmd" in str(w.message) for w in told)
    pq.write_table(pa.table({"=a": ["x", "y"], "b": [1, 2]}), tmp_path / "t.parquet")
    parquet = formats.read(tmp_path / "t.parquet")
    assert formula_columns(parquet, ["=a", "b"]) == ("=a",)
    assert formula_warning(parquet, ["=a", "b"], ".parquet") == ""
    assert formula_warning(parquet, ["=a", "b"], ".csv").startswith("cells of '=a'")


def test_a_folder_of_another_schema_is_refused_by_its_name(survey, tmp_path):
    permuted(survey, tmp_path / "out")
    edit(tmp_path / "out" / "manifest.json", lambda value: value.update(schema="postrand/columns/9"))
    with pytest.raises(ReleaseError, match="postrand/columns/9"):
        verify(tmp_path / "out")
