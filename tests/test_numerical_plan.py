"""Numerical columns from a plan to a verified release, through the command line."""

import csv
import dataclasses
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import formats
from postrand.cli import main
from postrand.columns.source import check_released
from postrand.engines import LocalEngine
from postrand.errors import DataError, EstimationError, ReleaseError, SpecificationError
from postrand.formats.csv import FormulaWarning
from postrand.plan import load_plan
from postrand.ranks import RankBand, RankBlocks, permutation_model
from postrand.ranks.column import RankedColumn, RankWarning
from postrand.ranks.laws import usual_width
from postrand.ranks.moves import typical_move
from postrand.ranks.values import ValueLevel
from postrand.support.randomness import ReleaseKey
from postrand.workflow.known import Known
from postrand.workflow.moves import moves_of
from postrand.workflow.pipeline import run
from tests.release_case import edit, rebuild, rehash

KEY = ReleaseKey.from_seed(11)
RECORDS = 400
CODEBOOK = """
variables = [
  { name = "id", role = "record_key", type = "int64" },
  { name = "sex", role = "key", categories = ["F", "M"] },
  { name = "pay", role = "sensitive", missing = "keep" },
  { name = "hours", role = "sensitive", type = "int64" },
  { name = "town", role = "other" },
]
"""
PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 1.0

[release]
shuffle = false
release_ids = true

[[blocks]]
variables = ["sex"]
privacy = { model = "differential", epsilon = 1.0 }

[[numerical]]
variables = ["pay"]
method = { model = "rank-blocks", k = 10 }

[[numerical]]
variables = ["hours"]
method = { model = "rank-blocks", k = 8 }
form = "average"
"""


def survey_rows():
    rng = np.random.default_rng(8)
    pay = [
        f"{x:.2f}" if keep else "" for x, keep in zip(rng.normal(9, 2, RECORDS), rng.random(RECORDS) > 0.1, strict=True)
    ]
    hours = rng.integers(600, 2400, RECORDS)  # in minutes, with ties
    return [[str(7 * i), str(rng.choice(["F", "M"])), pay[i], str(hours[i]), f"town {i % 3}"] for i in range(RECORDS)]


def write_survey(path, rows):
    lines = ["id,sex,pay,hours,town", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    write_survey(tmp_path / "survey.csv", survey_rows())
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def protect(folder, out="out", *more):
    key = folder / "key"
    key.write_text(KEY.secret.hex())
    key.chmod(0o600)
    return answer("protect", "--plan", folder / "plan.toml", "--out", folder / out, "--key-file", key, *more)


def answer(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def released(folder, out="out"):
    with (folder / out / "data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["id"]: row for row in rows}


def test_values_are_permuted_or_averaged_in_place_of_the_clear_ones(folder):
    code, made = protect(folder)
    assert code == 0, made
    before = {row[0]: row for row in survey_rows()}
    after = released(folder)
    pay = [(before[i][2], after[i]["pay"]) for i in before]
    assert Counter(x for x, _ in pay) == Counter(y for _, y in pay)  # text as it was written, missing included
    assert all((x == "") == (y == "") for x, y in pay)
    held = np.array([(float(x), float(y)) for x, y in pay if x])
    assert (held[:, 0] != held[:, 1]).mean() > 0.7
    assert permutation_model(*held.T).distances.max() < 20
    hours = np.array([(float(before[i][3]), float(after[i]["hours"])) for i in before])
    assert hours[:, 1].mean() == pytest.approx(hours[:, 0].mean(), rel=1e-12)
    assert np.unique(hours[:, 1], return_counts=True)[1].min() >= 8
    assert [after[i]["town"] for i in before] == [row[4] for row in before.values()]
    code, verified = answer("verify", folder / "out")
    assert (code, verified["ok"]) == (0, True)


def test_certificate_and_report_say_what_holds_and_what_does_not(folder):
    _, made = protect(folder)
    n = sum(1 for row in survey_rows() if row[2])
    assert made["claims"][1].startswith("pay: bistochastic privacy holds with β >= 0.3")
    assert f"of {np.log2(n):.3g} bits; at most 14% of records are expected to keep their value." in made["claims"][1]
    assert "at least 8 records share each value; the averages give " in made["claims"][2]
    found = pr.read_release(folder / "out")
    certificate, limits = found.certificate, found.not_covered
    assert (
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: town."
        in limits
    )
    assert "The release shows which records have a missing value: pay." in limits
    assert any(text.startswith("There is no guarantee by ε for pay, hours") for text in limits)
    assert sum("Nobody can recompute from the release" in text for text in limits) == 2
    law = json.loads((folder / "out" / "mechanism.json").read_text())["numerical"]
    method = {"model": "rank-blocks", "k": 10}
    level = law[0].pop("level")
    assert law[0] == {"variable": "pay", "method": method, "form": "permute", "records": n}
    assert level == certificate["numerical"][0]["level"]
    report = (folder / "out" / "report.html").read_text()
    assert "rank-blocks (k = 10)" in report
    assert "β &gt;= 0.3" in report
    assert "<dt>Privacy claims</dt><dd>1</dd>" in report
    further = len(made["claims"]) - 1  # what protect prints, and the table of claims has not
    assert f"<dt>Further statements of the guarantee</dt><dd>{further}</dd>" in report
    assert "neighbours in rank; up to" in report


def test_design_shows_the_claims_before_anything_is_written(folder):
    code, made = answer("design", "--plan", folder / "plan.toml")
    assert code == 0
    assert [claim.partition(":")[0] for claim in made["claims"]] == ["sex", "pay", "hours"]


def test_the_same_key_gives_the_same_bytes_whatever_the_batches(folder):
    plan = load_plan(folder / "plan.toml")
    for out, engine in (("a", LocalEngine(batch_rows=7, threads=2)), ("b", LocalEngine())):
        run(plan, folder / out, release_key=KEY, engine=engine)
    assert all((folder / "a" / p.name).read_bytes() == p.read_bytes() for p in (folder / "b").iterdir())
    run(plan, folder / "c", release_key=ReleaseKey.from_seed(12))
    assert (folder / "c" / "data.csv").read_bytes() != (folder / "a" / "data.csv").read_bytes()


@pytest.mark.filterwarnings("ignore::postrand.release.ledger.LedgerWarning")  # other files, same records
def test_a_record_s_value_follows_its_key_and_not_its_place_ties_included(folder):
    protect(folder)
    first = released(folder)
    rows = survey_rows()
    np.random.default_rng(1).shuffle(rows)
    write_survey(folder / "survey.csv", rows)
    protect(folder, "again")
    assert released(folder, "again") == first


def test_the_draw_is_bound_to_the_whole_mechanism(folder):
    protect(folder)
    (folder / "plan.toml").write_text(PLAN.replace("epsilon = 1.0 }", "epsilon = 0.9 }"))
    assert protect(folder, "other")[0] == 5  # one key, two laws: not without a word
    protect(folder, "other", "--again")
    one, two = ([row["pay"] for row in released(folder, out).values()] for out in ("out", "other"))
    assert one != two


def test_types_of_a_parquet_file_survive_and_averages_are_floating_point(folder):
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "id": np.arange(RECORDS),
            "sex": rng.choice(["F", "M"], RECORDS),
            "pay": pa.array(rng.integers(0, 2**60, RECORDS), mask=rng.random(RECORDS) < 0.2),
            "hours": rng.integers(600, 2400, RECORDS),
            "town": ["t"] * RECORDS,
        }
    )
    pq.write_table(table, folder / "survey.parquet")
    (folder / "codebook.toml").write_text(
        CODEBOOK.replace('"pay", role = "sensitive"', '"pay", role = "sensitive", type = "int64"')
    )
    (folder / "plan.toml").write_text(PLAN.replace("survey.csv", "survey.parquet"))
    code, made = protect(folder)
    assert code == 0, made
    after = pq.read_table(folder / "out" / "data.parquet")
    assert (after.schema.field("pay").type, after.schema.field("hours").type) == (pa.int64(), pa.float64())
    assert Counter(after["pay"].to_pylist()) == Counter(table["pay"].to_pylist())  # beyond 2^53, exactly
    release = pr.read_release(folder / "out")
    assert release.codebook["hours"].type == "double"
    assert release.frame().num_rows == RECORDS
    with pytest.raises(EstimationError, match="'pay' was released by a rank law"):
        pr.estimate.regression("pay ~ sex", release.frame(), release.mechanism, family="linear")


def forge(root, name, change):
    edit(root / name, change)
    rehash(root)


def set_data(root, change):
    text = (root / "data.csv").read_text().splitlines(keepends=True)
    (root / "data.csv").write_text("".join(change(text)))
    rehash(root)


def one_average_of_its_own(lines):
    fields = lines[1].rstrip("\n").split(",")
    return [lines[0], ",".join([*fields[:3], "12.5", fields[4]]) + "\n", *lines[2:]]


def one_value_less(lines):
    at = next(i for i, line in enumerate(lines[1:], 1) if line.split(",")[2])
    fields = lines[at].split(",")
    return [*lines[:at], ",".join([*fields[:2], "", *fields[3:]]), *lines[at + 1 :]]


def no_number(lines):
    at = next(i for i, line in enumerate(lines[1:], 1) if line.split(",")[2])
    fields = lines[at].split(",")
    return [*lines[:at], ",".join([*fields[:2], '"much"', *fields[3:]]), *lines[at + 1 :]]


FORGERIES = {
    "a larger k": (lambda root: forge(root, "mechanism.json", lambda m: m["numerical"][0]["method"].update(k=20)), ""),
    "more records": (lambda root: forge(root, "mechanism.json", lambda m: m["numerical"][0].update(records=399)), ""),
    "a larger beta": (
        lambda root: forge(root, "certificate.json", lambda c: c["numerical"][0].update(beta=0.9)),
        "certificate",
    ),
    "no claim": (lambda root: forge(root, "certificate.json", lambda c: c.pop("numerical")), "certificate"),
    "the other form": (
        lambda root: forge(root, "mechanism.json", lambda m: m["numerical"][0].update(form="average")),
        "mechanism",
    ),
    "an unknown form": (
        lambda root: forge(root, "mechanism.json", lambda m: m["numerical"][0].update(form="swap")),
        "mechanism",
    ),
    "a column twice": (
        lambda root: forge(root, "mechanism.json", lambda m: m["numerical"].append(m["numerical"][0])),
        "mechanism",
    ),
    "one average of its own": (lambda root: set_data(root, one_average_of_its_own), "data"),
    "one value less": (lambda root: set_data(root, one_value_less), "data"),
    "no number": (lambda root: set_data(root, no_number), "data"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_releases_are_refused(folder, name):
    protect(folder)
    change, check = FORGERIES[name]
    change(folder / "out")
    found = pr.verify(folder / "out", raise_if_failed=False)
    failed = [c.name for c in found.checks if c.ok is False]
    assert failed
    assert failed[0] == (check or "certificate")  # the digest of the law, and its claims, no longer fit


def exchange(lines, name):
    """Exchange the values of the records with the least and the largest value of a column."""
    rows = [line.rstrip("\n").split(",") for line in lines[1:]]
    at = lines[0].rstrip("\n").replace('"', "").split(",").index(name)
    held = sorted((float(row[at].strip('"')), i) for i, row in enumerate(rows) if row[at].strip('"'))
    (_, low), (_, high) = held[0], held[-1]
    rows[low][at], rows[high][at] = rows[high][at], rows[low][at]
    return [lines[0], *(",".join(row) + "\n" for row in rows)]


def another_value(lines):
    rows = [line.rstrip("\n").split(",") for line in lines[1:]]
    max((row for row in rows if row[2].strip('"')), key=lambda row: float(row[2].strip('"')))[2] = (
        '"77.5"'  # its rank is kept
    )
    return [lines[0], *(",".join(row) + "\n" for row in rows)]


def other_averages(lines):
    rows = [line.rstrip("\n").split(",") for line in lines[1:]]
    return [lines[0], *(",".join([*row[:3], str(float(row[3]) + 1).removesuffix(".0"), row[4]]) + "\n" for row in rows)]


ONLY_THE_FILE_TELLS = {
    "another value": another_value,
    "other averages": other_averages,
    "a value too far": lambda lines: exchange(lines, "pay"),
    "an average too far": lambda lines: exchange(lines, "hours"),
}


@pytest.mark.parametrize("name", ONLY_THE_FILE_TELLS)
def test_with_the_file_an_auditor_checks_values_and_averages(folder, name):
    protect(folder)
    root, file = folder / "out", folder / "survey.csv"
    found = {c.name: c.ok for c in pr.verify(root, file=file).checks}
    assert (found["values"], found["ranks"]) == (True, None)
    assert "hours" not in next(c.sentence for c in pr.verify(root, file=file).checks if c.name == "ranks")
    alone = next(c.sentence for c in pr.verify(root).checks if c.name == "ranks")
    assert "the rank law was followed (pay: permute, hours: average); counts and claims fit" in alone
    set_data(root, ONLY_THE_FILE_TELLS[name])
    rebuild(root)
    assert pr.verify(root).ok
    failed = [c.name for c in pr.verify(root, file=file, raise_if_failed=False).checks if c.ok is False]
    assert failed == ["values"]


def test_the_auditor_s_file_may_hold_more_columns_and_another_order(folder):
    (folder / "plan.toml").write_text(PLAN.replace("shuffle = false\nrelease_ids = true", "shuffle = true"))
    code, made = protect(folder)
    assert code == 0, made
    assert "id" not in pr.read_release(folder / "out").codebook
    assert {c.name: c.ok for c in pr.verify(folder / "out", file=folder / "survey.csv").checks}["values"]
    rows = survey_rows()
    rows[0][3] = str(int(rows[0][3]) + 9)
    write_survey(folder / "survey.csv", rows)
    with pytest.raises(ReleaseError, match="'hours': the averages are not those of the file"):
        pr.verify(folder / "out", file=folder / "survey.csv")


BAD = """
[[numerical]]
variables = ["sex", "pey", "id"]
method = { model = "rank-blocks", k = 10 }

[[numerical]]
variables = ["pay", "pay"]
method = { model = "rank-blok", k = 10 }

[[numerical]]
variables = ["hours"]
method = { model = "rank-band", width = 1 }
form = "averages"
beta = 0.3

[[numerical]]
variables = []
method = { model = "rank-blocks", k = 0 }
"""


def test_every_problem_of_a_plan_is_told_at_once(folder):
    (folder / "plan.toml").write_text(PLAN.partition("[[numerical]]")[0] + BAD)
    code, answered = protect(folder)
    told = " ".join(answered["problems"])
    assert code == 3
    for part in (
        "'sex' is in two places",
        "'sex' has categories",
        "no variable 'pey'",
        "'id' has role 'record_key'",
        "unknown model 'rank-blok' (did you mean 'rank-blocks'?)",
        "runs of one rank protect nothing",
        "unknown form 'averages'",
        "unknown option 'beta'",
        "'variables' is not a list of names",
        "k is not a positive whole number",
    ):
        assert part in told, part
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda plan, rows: (plan.replace("k = 10", "k = 1000"), rows), 3, "needs more records with a value"),
        (lambda plan, rows: (plan, [[*rows[0][:2], "inf", *rows[0][3:]], *rows[1:]]), 4, "not finite numbers"),
        (
            lambda plan, rows: (plan.replace('"pay"', '"town"'), rows),
            4,
            "'town' has values that are not finite numbers",
        ),
        (lambda plan, rows: (plan, [[*row[:3], "", row[4]] for row in rows]), 4, "'hours' has missing values"),
    ],
)
def test_records_that_do_not_fit_are_refused_and_nothing_is_left(folder, change, code, message):
    plan, rows = change(PLAN, survey_rows())
    (folder / "plan.toml").write_text(plan)
    write_survey(folder / "survey.csv", rows)
    found, answered = protect(folder)
    assert (found, message in " ".join(answered["problems"])) == (code, True), answered
    assert not (folder / "out").exists()


def test_a_column_s_law_is_checked_when_made():
    with pytest.raises(SpecificationError, match="unknown form"):
        RankedColumn("pay", RankBlocks(2), "swap", 10)
    with pytest.raises(SpecificationError, match="needs more records"):
        RankedColumn("pay", RankBlocks(20), "permute", 10)
    with pytest.raises(SpecificationError, match="the number of records is not valid"):
        RankedColumn("pay", RankBlocks(2), "permute", True)
    column = RankedColumn("pay", RankBlocks(3), "permute", 10)
    assert RankedColumn.from_dict(column.to_dict()) == column
    with pytest.raises(SpecificationError, match="is not valid"):
        RankedColumn.from_dict({"variable": "pay"})


def test_averages_of_smaller_blocks_than_claimed_are_found(folder):
    protect(folder)
    release = pr.read_release(folder / "out")
    source = formats.read(release.data_path, release.codebook)
    (honest,) = [column for column in release.mechanism.numerical if column.form == "average"]
    check_released(source, [honest])
    for level in (None, ValueLevel(honest.level.shown / 2)):
        with pytest.raises(DataError, match="stated level of the values differs from the level of the released values"):
            check_released(source, [dataclasses.replace(honest, level=level)])
    claimed = dataclasses.replace(honest, law=RankBlocks(16))
    with pytest.raises(DataError, match="shared by fewer records"):
        check_released(source, [claimed])


def test_entropy_in_closed_form_is_that_of_the_block_sizes():
    for k, n in ((2, 7), (3, 11), (4, 16), (10, 1999)):
        sizes = np.diff(RankBlocks(k).starts(n, 0), append=n)
        assert sizes.min() >= k
        assert RankBlocks(k).entropy_lower(n) == pytest.approx((sizes * np.log(sizes)).sum() / n, rel=1e-11)


def test_reading_the_release_again_gives_what_was_written(folder):
    protect(folder)
    source = formats.read(folder / "out" / "data.csv", pr.read_release(folder / "out").codebook)
    assert sum(batch.num_rows for batch in source.batches()) == RECORDS


def test_the_main_path_warns_of_formulas_and_of_values_that_stay(folder):
    rows = survey_rows()
    rows[0][4] = "=cmd|calc"
    for i, row in enumerate(rows):
        row[2] = row[2] and ("9.00" if i % 3 else row[2])
    write_survey(folder / "survey.csv", rows)
    plan = load_plan(folder / "plan.toml")
    with (
        pytest.warns(FormulaWarning, match="cells of 'town' begin"),
        pytest.warns(RankWarning, match="pay: .*keep their"),
    ):
        run(plan, folder / "out", release_key=KEY)
    assert pr.verify(folder / "out").ok
    level = json.loads((folder / "out" / "certificate.json").read_text())["numerical"][0]["level"]
    before, after = {r[0]: r[2] for r in rows}, released(folder)
    same = np.mean([float(after[i]["pay"]) == float(v) for i, v in before.items() if v])
    assert same == pytest.approx(level["shown"], abs=0.06)  # three standard errors of 360 records


def test_how_far_values_move_is_told_and_warned_of_where_it_is_small():
    values = np.arange(1.0, 4001.0)
    near = typical_move("pay", values, RankBand(10), "permute")
    far = typical_move("pay", values, RankBand(200), "permute")
    assert near.is_small
    assert "choose a larger width or k in [[numerical]], such as 5% of the records (10 at least)" in near.warning
    assert not typical_move("pay", values, RankBlocks(usual_width(len(values))), "permute").is_small
    assert not far.is_small
    assert not far.warning
    assert near.units < 10 < far.units
    assert "half of the values move by at most" in far.sentence
    assert typical_move("pay", values, RankBlocks(4), "average").units == pytest.approx(1.0)
    assert typical_move("pay", np.ones(20), RankBlocks(4), "average").of_spread is None


def test_where_many_values_are_equal_a_wider_law_is_not_the_first_advice():
    """A third of zeros stay zeros whatever the width, which follows the advice already."""
    values = np.r_[np.zeros(1500), np.arange(1.0, 3261.0)]
    tied = typical_move("pay", values, RankBand(20), "permute")
    assert tied.tied == pytest.approx(1500 / 4760)
    assert "many are equal: make it categories and perturb it in [[blocks]], or choose a larger width" in tied.warning


def test_a_plan_whose_values_hardly_move_is_warned_of(folder):
    plan = load_plan(folder / "plan.toml")
    assert len(moves_of(Known.of(plan))) == 2
