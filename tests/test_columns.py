"""Folders of whole-column protection: averages, the report, the auditor with the file, distances of any release."""

import collections
import contextlib
import io
import json
import re
import shutil
import subprocess
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import formats
from postrand.cli import main
from postrand.columns.audit import check_against
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.ranks import RankBand, RankBlocks, average, permutation_model
from postrand.ranks.column import RankedColumn
from postrand.release import canonical_json, rebuild_report, verify
from postrand.release.whole_columns import page, released, write_table
from postrand.risk.reveals import UnperturbedWarning
from postrand.support.randomness import ReleaseKey
from postrand.support.wordings import in_words
from postrand.workflow.same_order import OrderWarning
from postrand.workflow.whole_columns import anatomise_file, average_columns, column_distances, permute_columns
from tests.browser import browsing, faults, opened
from tests.release_case import edit, rehash
from tests.test_report import Page

KEY = ReleaseKey.from_seed(4)
RECORDS = 240


def survey():
    rng = np.random.default_rng(6)
    return pa.table(
        {
            "id": np.arange(RECORDS),
            "age": rng.integers(216, 960, RECORDS),  # in months
            "pay": pa.array(rng.normal(9, 2, RECORDS).round(2), mask=rng.random(RECORDS) < 0.1),
            "ill": pa.array(rng.choice(["no", "yes <b>"], RECORDS)),
            "w": [np.nan, *rng.random(RECORDS - 1)],
        }
    )


@pytest.fixture
def file(tmp_path):
    pq.write_table(survey(), tmp_path / "survey.parquet")
    return tmp_path / "survey.parquet"


def permuted(file, out):
    permute_columns(file, out, ["age", "pay"], RankBand(6), KEY, as_is=["id", "w"])


def averaged(file, out):
    average_columns(file, out, ["age", "pay"], RankBlocks(5), as_is=["id", "w"], keep_order=True)


def anatomised(file, out):
    anatomise_file(file, out, ["age", "id"], 4, KEY, as_is=["pay", "w"])


MAKERS = [permuted, averaged, anatomised]


def checks(root, **options):
    return {check.name: check.ok for check in verify(root, raise_if_failed=False, **options).checks}


def test_averages_keep_means_and_places(file, tmp_path):
    averaged(file, tmp_path / "out")
    table, made = survey(), pq.read_table(tmp_path / "out" / "data.parquet")
    assert made.column_names == table.column_names
    for name in ("age", "pay"):
        x, y = table[name], made[name]
        assert y.type == pa.float64()
        assert x.is_valid().equals(y.is_valid())
        np.testing.assert_array_equal(y.drop_null(), average(x.drop_null().to_numpy(), RankBlocks(5)))
        assert min(collections.Counter(y.drop_null().to_pylist()).values()) >= 5
    certificate = in_words(json.loads((tmp_path / "out" / "certificate.json").read_text()))
    assert certificate["facts"] == {}  # nothing is drawn, so no key is private
    assert not any("key" in text for text in certificate["not_covered"])
    assert "at least 5 records share each value" in certificate["claims"][0]["sentence"]


@pytest.mark.parametrize("make", MAKERS)
def test_the_auditor_s_file_settles_all_but_chance(file, tmp_path, make):
    make(file, tmp_path / "out")
    assert checks(tmp_path / "out")["drawn"] is None
    found = checks(tmp_path / "out", file=file)
    assert found["file"] is True
    assert found.get("drawn", True) is (True if make is averaged else None)


def replaced(table, name, change):
    values = table[name].to_pylist()
    change(values)
    return table.set_column(table.column_names.index(name), name, pa.array(values, table.schema.field(name).type))


def write(table, path):
    path.unlink()
    table = released(table)
    with formats.open_writer(path, table.schema) as writer:
        write_table(table, writer)


def rewrite(root, name, column, change):
    """Change values of a folder's table, and all files that follow, as a forger would."""
    write(replaced(pq.read_table(root / name), column, change), root / name)
    certificate = json.loads((root / "certificate.json").read_text())
    (root / "report.html").write_bytes(page(certificate, ".parquet"))
    rehash(root)


def swap_ends(values):
    held = [i for i, v in enumerate(values) if v is not None]
    low, high = min(held, key=values.__getitem__), max(held, key=values.__getitem__)
    values[low], values[high] = values[high], values[low]


def move_missing(values):
    gone, held = values.index(None), next(i for i, v in enumerate(values) if v is not None)
    values[gone], values[held] = values[held], None


def one_more(values):
    values[3] = values[3] + 1


def other_word(values):
    values[0] = {"no": "yes <b>", "yes <b>": "no"}[values[0]]


def across_classes(values):
    values[0], values[-1] = values[-1], values[0]


CONSISTENT = [
    (permuted, "data.parquet", "age", one_more),
    (permuted, "data.parquet", "age", swap_ends),
    (permuted, "data.parquet", "pay", move_missing),
    (permuted, "data.parquet", "w", lambda values: values.__setitem__(5, 0.5)),
    (averaged, "data.parquet", "age", swap_ends),
    (averaged, "data.parquet", "pay", move_missing),
    (averaged, "data.parquet", "age", lambda v: v.__setitem__(slice(None), [x + 1 for x in v])),
    (anatomised, "keys.parquet", "id", across_classes),
    (anatomised, "others.parquet", "w", one_more),
]


@pytest.mark.parametrize(("make", "table", "column", "change"), CONSISTENT)
def test_only_the_file_finds_what_is_forged_consistently(file, tmp_path, make, table, column, change):
    make(file, tmp_path / "out")
    rewrite(tmp_path / "out", table, column, change)
    assert all(ok is not False for ok in checks(tmp_path / "out").values())
    found = checks(tmp_path / "out", file=file)
    assert [name for name, ok in found.items() if ok is False] == ["file"]


def test_another_file_is_not_the_one(file, tmp_path):
    permuted(file, tmp_path / "out")
    other = tmp_path / "other.parquet"
    pq.write_table(survey().rename_columns(["id", "age", "wage", "ill", "w"]), other)
    with pytest.raises(ReleaseError, match="differ from those of this file"):
        verify(tmp_path / "out", file=other)


def passes(true, released, column):
    try:
        check_against(pa.array(true), pa.array(released), column, in_order=True)
    except DataError:
        return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_what_the_law_makes_is_never_refused_ties_included(seed):
    """Metamorphic: any draw, of heavily tied values and of few records, passes the auditor."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, rng.integers(2, 12), rng.integers(6, 40)).astype(float)
    law = (RankBlocks if seed % 2 else RankBand)(int(rng.integers(2, 7)))
    moved = pr_permuted(x, law, seed)
    assert passes(x, moved, RankedColumn("x", law, "permute", x.size))
    blocks = RankBlocks(law.least)
    assert passes(x, average(x, blocks), RankedColumn("x", blocks, "average", x.size))


def pr_permuted(x, law, seed):
    from postrand.ranks import permute

    return permute(x, law, ReleaseKey.from_seed(seed))


def test_a_move_is_allowed_exactly_where_some_cut_allows_it():
    """Brute force: of all swaps of two records, those within a run of one cut pass."""
    for law in (RankBlocks(3), RankBand(3)):
        n = 10
        for i in range(n):
            for j in range(i + 1, n):
                y = np.arange(n)
                y[[i, j]] = j, i
                runs = [np.searchsorted(law.starts(n, cut), [i, j], "right") for cut in range(law.cuts)]
                allowed = any(a == b for a, b in runs)
                column = RankedColumn("x", law, "permute", n)
                assert passes(np.arange(n), y, column) is allowed, (law, i, j)


@pytest.mark.parametrize("make", MAKERS)
def test_the_report_follows_from_the_rest_and_is_made_anew(file, tmp_path, make):
    make(file, tmp_path / "out")
    page_path = tmp_path / "out" / "report.html"
    honest = page_path.read_bytes()
    page_path.write_bytes(honest.replace(b"What is not guaranteed", b"What is guaranteed too"))
    rehash(tmp_path / "out")
    found = checks(tmp_path / "out")
    assert [name for name, ok in found.items() if ok is False] == ["derived"]
    rebuild_report(tmp_path / "out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == honest
    page_path.unlink()
    rehash(tmp_path / "out")
    assert checks(tmp_path / "out")["manifest"] is False


@pytest.mark.parametrize("make", MAKERS)
def test_the_report_says_what_is_guaranteed_and_what_is_not(file, tmp_path, make):
    make(file, tmp_path / "out")
    html = (tmp_path / "out" / "report.html").read_text()
    certificate = in_words(json.loads((tmp_path / "out" / "certificate.json").read_text()))
    words = " ".join(" ".join(Page(html).words).split())
    for text in [claim["sentence"] for claim in certificate["claims"]] + certificate["not_covered"]:
        assert text in words
    assert ("This release is not private" in words) is (make is not averaged)
    assert "yes <b>" not in html
    assert not re.search(r"https?:|<script|<link|url\(", html)
    if make is anatomised:
        for name, least in certificate["details"]["distinct_diversity"].items():
            assert f"{name} {least} " in words


@pytest.mark.parametrize("make", MAKERS)
def test_the_report_s_code_runs_and_anatomy_s_table_is_the_mean_over_all_links(file, tmp_path, make):
    make(file, tmp_path / "out")
    html = (tmp_path / "out" / "report.html").read_text()
    python, r, _ = (unescape(code) for code in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", html, re.DOTALL))
    said = io.StringIO()
    held: dict = {}
    with contextlib.redirect_stdout(said):
        exec(python.replace("path/to/release", str(tmp_path / "out")), held)
    if make is anatomised:
        keys, others = (pq.read_table(tmp_path / "out" / f"{n}.parquet").to_pandas() for n in ("keys", "others"))
        expected = 0.0
        for label, rows in others.groupby("anatomy_class"):
            own = keys[keys.anatomy_class == label]
            expected += (own.id < 100).sum() * (rows.w > 0.5).sum() / len(rows)
        pairs = held["pairs"]
        assert pairs.loc[(pairs.id < 100) & (pairs.w > 0.5), "share"].sum() == pytest.approx(expected)
    else:
        assert held["data"].shape == (RECORDS, 5)
    assert r.startswith(("data <- ", "keys <- "))


@pytest.mark.r
def test_the_report_s_r_code_gives_python_s_table(tmp_path):
    rows = "\n".join(f"{20 + i % 7},{'ab'[i % 2]}" for i in range(30))
    (tmp_path / "s.csv").write_text(f"age,ill\n{rows}\n")
    anatomise_file(tmp_path / "s.csv", tmp_path / "out", ["age"], 3, KEY)
    html = (tmp_path / "out" / "report.html").read_text()
    python, r, _ = (
        unescape(code).replace("path/to/release", str(tmp_path / "out"))
        for code in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", html, re.DOTALL)
    )
    held: dict = {}
    exec(python.replace("print(", "table = ("), held)
    out = subprocess.run(
        ["Rscript", "-e", r.replace("tapply", "t <- tapply") + "\ncat(t, sep = ' ')"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [0.0 if v == "NA" else float(v) for v in out.split()]
    np.testing.assert_allclose(found, held["table"].fillna(0).to_numpy().T.ravel(), rtol=1e-6)


LOOKS = {"light": 1200, "dark": 360}


def test_pages_are_accessible_wide_and_narrow_light_and_dark(file, tmp_path):
    with browsing() as browser:
        for make in MAKERS:
            make(file, tmp_path / make.__name__)
            address = (tmp_path / make.__name__ / "report.html").as_uri()
            with opened(browser, address) as shown:
                assert faults(shown, {k: {"width": w, "height": 800} for k, w in LOOKS.items()}) == []


def test_forged_facts_of_averages_are_refused(file, tmp_path):
    averaged(file, tmp_path / "out")
    edit(tmp_path / "out" / "certificate.json", lambda value: value.update(facts={"key_is_private": True}))
    rehash(tmp_path / "out")
    assert checks(tmp_path / "out")["certificate"] is False
    edit(tmp_path / "out" / "certificate.json", lambda value: value.update(facts={}))
    edit(tmp_path / "out" / "certificate.json", lambda value: value["method"].update(form="permute"))
    rehash(tmp_path / "out")
    assert checks(tmp_path / "out")["certificate"] is False


def test_averages_shared_by_too_few_are_refused(file, tmp_path):
    averaged(file, tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "data.parquet")
    pq.write_table(replaced(table, "age", one_more), tmp_path / "out" / "data.parquet")
    rehash(tmp_path / "out")
    with pytest.raises(ReleaseError, match="shared by fewer records"):
        verify(tmp_path / "out")


def test_distances_of_any_method_match_records_by_key_and_leave_missing_out(file, tmp_path):
    rng = np.random.default_rng(1)
    table = survey()
    pay = np.array([np.nan if v is None else v for v in table["pay"].to_pylist()])
    noisy = pay + rng.normal(size=RECORDS)
    noisy[:7] = np.nan
    other = table.set_column(2, "pay", pa.array(noisy, from_pandas=True)).take(rng.permutation(RECORDS))
    pq.write_table(other, tmp_path / "other.parquet")
    found = column_distances(file, tmp_path / "other.parquet", ["age", "pay"], "id")
    both = np.isfinite(noisy)
    wanted = permutation_model(pay[both], noisy[both])
    assert sorted(found["pay"].distances.tolist()) == sorted(wanted.distances.tolist())
    assert found["pay"].to_dict()["noise"] == pytest.approx(np.sqrt((wanted.noise**2).mean()))
    assert found["age"].share_within(0) == 1.0
    assert f"{both.sum()} records" in str(found["pay"])


@pytest.mark.parametrize(
    ("columns", "record_key", "change", "error", "message"),
    [
        (["pey"], None, lambda t: t, UsageError, "no column 'pey'"),
        (["age", "age"], None, lambda t: t, UsageError, "named twice"),
        (["age"], "key", lambda t: t, UsageError, "no column 'key'"),
        (["ill"], None, lambda t: t, DataError, "not finite numbers"),
        (["age"], None, lambda t: t.slice(1), DataError, "not contain the same records.*name a record key"),
        (["age"], "id", lambda t: t.slice(1), DataError, "not contain the same records"),
        (["age"], "age", lambda t: t, UsageError, "named twice"),
        (["pay"], "ill", lambda t: t, DataError, "'ill' is missing or repeated"),
    ],
)
def test_files_that_cannot_be_compared_are_refused(file, tmp_path, columns, record_key, change, error, message):
    pq.write_table(change(survey()), tmp_path / "other.parquet")
    with pytest.raises(error, match=message):
        column_distances(file, tmp_path / "other.parquet", columns, record_key)


@pytest.mark.parametrize("make", ["permute", "microaggregate", "anatomise", "protect"])
@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_distances_of_a_release_that_was_shuffled_are_refused(tmp_path, make):
    rng, place = np.random.default_rng(2), tmp_path / "survey.parquet"
    pq.write_table(pa.table({"age": rng.integers(0, 60, 300), "sex": rng.choice(["f", "m"], 300)}), place)
    options = {
        "permute": ["--columns", "age", "--blocks", "20"],
        "microaggregate": ["--columns", "age"],
        "anatomise": ["--keys", "age", "--k", "4"],
    }
    data = tmp_path / "out" / ("keys.parquet" if make == "anatomise" else "data.parquet")
    if make == "protect":
        assert call("init", place, "--keys", "sex", "--other", "age", "--out", tmp_path)[0] == 0
        assert call("protect", "--plan", tmp_path / "plan.toml", "--out", tmp_path / "out", "--seed", "1")[0] == 0
    else:
        assert call(make, place, *options[make], "--out", tmp_path / "out")[0] == 0
    for pair in ((place, data), (data, place)):
        with pytest.raises(
            DataError, match=r"not in the same order: the records of this one were shuffled.*--keep-order"
        ):
            column_distances(*pair, ["age"])


def test_distances_in_the_order_of_the_file_are_measured_without_a_word(file, tmp_path):
    permute_columns(file, tmp_path / "out", ["age", "pay"], RankBand(6), KEY, as_is=["id", "w"], keep_order=True)
    found = column_distances(file, tmp_path / "out" / "data.parquet", ["age"])
    assert found["age"].distances.max() <= 12
    shutil.copy(tmp_path / "out" / "data.parquet", tmp_path / "alone.parquet")  # away from what is said of it
    column_distances(file, tmp_path / "alone.parquet", ["age"])


def test_other_columns_that_agree_in_values_only_show_another_order(file, tmp_path):
    table = survey()
    pq.write_table(table.take(np.random.default_rng(3).permutation(RECORDS)), tmp_path / "other.parquet")
    with pytest.warns(OrderWarning, match="same values of id, pay, ill, w, but not record by record.*--record-key"):
        column_distances(file, tmp_path / "other.parquet", ["age"])
    column_distances(file, tmp_path / "other.parquet", ["age"], "id")  # which tells the records


@pytest.mark.filterwarnings("default::postrand.workflow.same_order.OrderWarning")
def test_another_order_is_told_on_the_command_line_too(tmp_path):
    table = survey()
    one = pa.table({"age": table["age"], "ill": table["ill"]})
    pq.write_table(one, tmp_path / "one.parquet")
    pa.csv.write_csv(one.take(np.arange(RECORDS)[::-1]), tmp_path / "back.csv")
    said = CliRunner().invoke(
        main, ["distances", *map(str, (tmp_path / "one.parquet", tmp_path / "back.csv")), "--columns", "age"]
    )
    assert "do not seem to be in the same order" in said.stderr
    pq.write_table(one.set_column(1, "ill", pa.array(["no"] * RECORDS)), tmp_path / "changed.parquet")
    column_distances(tmp_path / "one.parquet", tmp_path / "changed.parquet", ["age"])  # whose values were changed


def call(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_command_line_does_all_of_it(file, tmp_path):
    code, made = call(
        *("average", file, "--columns", "age, pay", "--blocks", 5, "--as-is", "id,w", "--keep-order"),
        *("--out", tmp_path / "a"),
    )
    assert code == 0, made
    averaged(file, tmp_path / "b")
    assert all((tmp_path / "b" / p.name).read_bytes() == p.read_bytes() for p in (tmp_path / "a").iterdir())
    code, found = call("verify", tmp_path / "a", "--file", file)
    assert (code, found["ok"]) == (0, True), found
    released = tmp_path / "a" / "data.parquet"
    code, found = call("distances", file, released, "--columns", "age,pay", "--record-key", "id")
    assert (code, set(found)) == (0, {"age", "pay"}), found
    assert found["age"]["unmoved"] == 1.0  # averages keep the order: all that is lost is residual noise
    assert found["age"]["noise"] > 0
    code, made = call("report", tmp_path / "a", "--out", tmp_path / "page.html")
    assert code == 0, made
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "a" / "report.html").read_bytes()
    code, refused = call("average", file, "--columns", "age", "--out", tmp_path / "c")
    assert (code, refused["problems"][0].startswith("give exactly one of --band")) == (2, True)


@pytest.mark.parametrize("form", ["permute", "average"])
def test_records_are_shuffled_and_the_file_still_shows_a_value_outside_its_run(file, tmp_path, form):
    if form == "permute":
        permute_columns(file, tmp_path / "out", ["age"], RankBlocks(5), KEY, as_is=["id", "w"], drop=["pay"])
    else:
        average_columns(file, tmp_path / "out", ["age"], RankBlocks(5), as_is=["id", "w"], drop=["pay"])
    data = tmp_path / "out" / "data.parquet"
    made = pq.read_table(data)
    assert made["id"].to_pylist() != list(range(RECORDS)) == sorted(made["id"].to_pylist())
    assert checks(tmp_path / "out", file=file)["file"] is True
    age = made["age"].to_numpy().copy()
    places = np.argsort(age)[[0, -1]]
    age[places] = age[places[::-1]]
    pq.write_table(made.set_column(1, "age", pa.array(age)), data)
    with pytest.raises(ReleaseError, match=r"further than the rank law|average of its own ranks"):
        verify(tmp_path / "out", file=file)


@pytest.mark.parametrize("command", ["permute", "average"])
def test_a_text_file_is_read_as_it_shows_and_the_order_of_the_records_is_stated(tmp_path, command):
    rows = "".join(f"{n % 7};{n * 37 % 1009},{n % 90 + 10};{n % 3},5\n" for n in range(400))
    (tmp_path / "pay.csv").write_text(f"größe;pay;w\n{rows}", encoding="windows-1252")
    asked = (command, tmp_path / "pay.csv", "--columns", "pay", "--blocks", 20)
    said = {}
    for order in ([], ["--keep-order"]):
        out = tmp_path / f"out{len(order)}"
        code, made = call(*asked, *order, "--out", out)
        assert code == 0, made
        codes = {limit["code"] for limit in json.loads((out / "certificate.json").read_text())["not_covered"]}
        said[len(order)] = "original_order" in codes
        code, found = call("verify", out, "--file", tmp_path / "pay.csv")
        assert (code, found["ok"]) == (0, True), found
    assert said == {0: False, 1: True}
    assert "," not in (tmp_path / "out1" / "data.csv").read_text().split(chr(10))[1].rpartition(",")[2]
    edit = json.loads((tmp_path / "out1" / "certificate.json").read_text())
    edit["facts"]["order_is_shuffled"] = True
    (tmp_path / "out1" / "certificate.json").write_text(json.dumps(edit))
    assert not checks(tmp_path / "out1")["certificate"]
    code, found = call("distances", tmp_path / "pay.csv", tmp_path / "out1" / "data.csv", "--columns", "pay")
    assert (code, found["pay"]["records"]) == (0, 400)


def test_public_verify_knows_these_folders(file, tmp_path):
    permuted(file, tmp_path / "out")
    assert pr.verify(tmp_path / "out").ok
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert canonical_json.dump(certificate) == (tmp_path / "out" / "certificate.json").read_bytes()


@pytest.mark.parametrize("make", MAKERS)
def test_nothing_of_the_file_is_released_beside_values_and_nothing_can_hide_in_the_bytes(file, tmp_path, make):
    table = survey()
    ill = pa.DictionaryArray.from_arrays(pa.array([0] * RECORDS), pa.array(["no", "a secret word"]))
    table = table.set_column(3, "ill", ill).replace_schema_metadata({"pandas": "a secret index"})
    pq.write_table(table, file)
    make(file, tmp_path / "out")
    made = list((tmp_path / "out").glob("*.parquet"))
    assert not any(b"secret" in path.read_bytes() for path in made)
    pq.write_table(pq.read_table(made[0]), made[0], compression="none")
    rehash(tmp_path / "out")
    assert [name for name, ok in checks(tmp_path / "out").items() if ok is False] == ["bytes"]


def test_people_are_told_where_the_folder_is_what_it_leaves_open_and_what_comes_next(file, tmp_path):
    arguments = ["permute", str(file), "--columns", "age", "--band", "5", "--out", str(tmp_path / "out")]
    arguments += ["--drop", "id,w", "--as-is", "pay"]
    told = CliRunner().invoke(main, arguments).stdout.splitlines()
    assert told[0] == f"release: {tmp_path / 'out'}"
    assert told[1].startswith("age: bistochastic privacy holds with β >= ")
    assert told[2] == "Not covered:"
    assert told[-1] == f"Next: read {tmp_path / 'out' / 'report.html'}; postrand verify {tmp_path / 'out'}"


@pytest.mark.parametrize("make", [permute_columns, average_columns])
def test_a_column_that_tells_the_protected_one_needs_a_decision_and_is_told_all_the_same(make, tmp_path):
    pay = np.random.default_rng(3).integers(1500, 6000, 400)
    pq.write_table(pa.table({"pay": pay, "tax": np.rint(0.2 * pay)}), tmp_path / "pay.parquet")
    with pytest.raises(
        UsageError,
        match=r"true values of pay follow from columns that stay as they are, tax: .* the range in which pay lies",
    ):
        make(tmp_path / "pay.parquet", tmp_path / "out", ["pay"], RankBlocks(5))
    with pytest.warns(UnperturbedWarning, match=r"tax"):
        make(tmp_path / "pay.parquet", tmp_path / "out", ["pay"], RankBlocks(5), as_is=["tax"])
