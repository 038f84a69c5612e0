"""Means that a recode changes: against hand counts, and told by every command that reads the file and the codebook."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.columns.recoded import RecodedSource
from postrand.data.frames import TableSource
from postrand.plan import load_plan
from postrand.recoding import Recode
from postrand.workflow.recoded_means import changed_in_groups, recoded_means
from postrand.workflow.unperturbed import findings

PAYS = [*(100, 200) * 40, *(1500,) * 18, 20_000, 400_000]
BANDS = {"variable": "band", "from": "pay", "bands": [0, 1000, 2000], "labels": ["150", "1500", "30000"]}


def invoke(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


def found(values, entry):
    return recoded_means(TableSource(pa.table({"pay": values})), [Recode.from_dict(entry)])


def test_the_mean_of_bands_of_a_skewed_amount_is_compared_with_that_of_the_amount():
    told = found(PAYS, BANDS)["band"]
    before, after = np.mean(PAYS), (80 * 150 + 18 * 1500 + 2 * 30_000) / 100
    assert (told.before, told.after) == (pytest.approx(before), pytest.approx(after))
    assert told.change == pytest.approx((after - before) / before)
    assert -1 < told.change < -0.5
    assert told.text == (
        "the mean of band is more than 50% below the mean of pay before recoding, mostly by values that count as 30000"
    )
    assert str(int(before)) not in told.sentence.replace("50%", "")


def test_a_mean_that_bands_leave_as_it_is_is_not_told_nor_that_of_codes_and_ranges():
    assert found([*(100, 200) * 40, *(1500,) * 20, None], BANDS) == {}
    assert found(PAYS, {**BANDS, "labels": ["1", "2", "3"]}) == {}
    assert found(PAYS, {name: BANDS[name] for name in ("variable", "from", "bands")}) == {}


def test_a_limit_lowers_a_mean_and_codes_for_no_answer_do_not_count():
    top = {"variable": "pay", "top": 2000}
    off = "the mean of pay is more than 50% below the mean of pay before recoding"
    assert found(PAYS, top)["pay"].text.startswith(off)
    assert "limits" in found(PAYS, top)["pay"].sentence
    told = found([*PAYS, *(999_999,) * 50], {**BANDS, "missing": [999_999]})["band"]
    assert told.change == pytest.approx(found(PAYS, BANDS)["band"].change)


def test_bands_behind_a_limit_are_compared_as_bands_alone():
    steps = {
        "variable": "band",
        "from": "pay",
        "steps": [{"bottom": 0}, {name: BANDS[name] for name in ("bands", "labels")}],
    }
    assert found(PAYS, steps)["band"].text == found(PAYS, BANDS)["band"].text
    limited = {**steps, "steps": [{"bottom": 0}, {"top": 2000}]}
    assert found(PAYS, limited)["band"].text.startswith(
        "the mean of band is more than 50% below the mean of pay before"
    )


def test_a_group_whose_mean_bands_change_is_told_where_the_whole_mean_stays():
    """By hand: the ill have 10 and count as 4, the healthy 1 and count as 2; as many visits are lost as are gained."""
    visits, ill = [1] * 600 + [10] * 100, ["no"] * 600 + ["yes"] * 100
    steps = {"variable": "visits", "bands": [0, 3], "labels": ["2", "4"]}
    frame = TableSource(pa.table({"visits": visits, "ill": ill, "sex": ["f", "m"] * 350}))
    recode = Recode.from_dict(steps)
    assert recoded_means(frame, [recode]) == {}
    told = changed_in_groups(RecodedSource(frame, (recode,)), "visits", ["ill"])
    off = "the mean of visits is more than 50% above the mean of visits before recoding"
    assert told.startswith(f"where ill is no, {off}")
    assert "; 1 other group is off, too" in told
    assert changed_in_groups(RecodedSource(frame, (recode,)), "visits", ["sex"]) == ""
    assert changed_in_groups(frame, "visits", ["ill"]) == ""
    few = TableSource(pa.table({"visits": visits[:600] + [10] * 19, "ill": ill[:600] + ["yes"] * 19}))
    assert "other group" not in changed_in_groups(RecodedSource(few, (recode,)), "visits", ["ill"])


def test_a_mean_near_zero_is_compared_with_the_size_of_the_values():
    values = [*(-1000.0, 1000.0) * 50, 1.0]
    entry = {"variable": "pay", "bands": [-2000, 0], "labels": ["-999", "1000"]}
    assert found(values, entry) == {}
    far = {**entry, "labels": ["-500", "1000"]}
    assert found(values, far)["pay"].change == pytest.approx((500 * 50 + 999) / 101 / np.abs(values).mean())


def test_values_without_a_place_and_columns_of_texts_are_left_to_the_reading():
    assert found([-5, *PAYS], BANDS) == {}
    assert found([math.nan, math.nan], BANDS) == {}


def test_every_command_says_what_a_recode_does_to_a_mean_and_advice_does_not_promise_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    pays = np.round(np.exp(rng.normal(6.5, 1.6, size=900)))
    rows = zip(rng.integers(1, 3, 900), rng.integers(1, 6, 900), pays, strict=True)
    text = "".join(f"{a},{b},{c:.0f}\n" for a, b, c in rows)
    (tmp_path / "in.csv").write_text(f"sex,region,pay\n{text}", encoding="utf-8")
    recode = "band=pay:bands:0,500,1000,2000;labels=250,750,1500,2500"
    told = (
        "the mean of band is more than 50% below the mean of pay before recoding, mostly by values that count as 2500"
    )
    made = np.array([250, 750, 1500, 2500])[np.digitize(pays, [0, 500, 1000, 2000]) - 1]
    assert 0.5 < 1 - made.mean() / pays.mean() < 1
    run = ["init", "in.csv", "--keys", "sex,region", "--sensitive", "band", "--recode", recode]
    assert f"warning: {told}" in invoke(*run)
    assert f"T{told[1:]}" in invoke("recode", "codebook.toml", "in.csv")
    assert f"The m{told[5:]}" in invoke("explain", "plan.toml").partition("What analysts")[2]
    advised = invoke("advise", "in.csv", "--codebook", "codebook.toml", "--use", "means", "--out", "advice")
    assert f"means: NOT met for band ({told}. Next: make bands narrower" in advised
    (finding,) = (one for one in findings(load_plan("plan.toml")).found if one.code == "means")
    assert finding.sentence.startswith(told)


def test_edges_that_are_ages_of_a_column_of_years_are_told_by_init_and_explain(tmp_path):
    """All records are in the last band: published, every share of the others would be wrong, and nothing said so."""
    rng = np.random.default_rng(2)
    held = {"born": rng.integers(1930, 2008, 300), "sex": rng.choice(["f", "m"], 300)}
    told = found(held["born"], {"variable": "age", "from": "pay", "bands": [18, 45, 75]})["age"]
    said = "all records fall into one category of age: 75+"
    assert told.text == said
    assert found([*held["born"], 40], {"variable": "age", "from": "pay", "bands": [18, 45, 75]}) == {}
    assert found([50] * 9, {"variable": "age", "from": "pay", "bands": [18, 45, 75]}) == {}  # nothing varies
    pa.parquet.write_table(pa.table(held), tmp_path / "s.parquet")
    words = ["init", str(tmp_path / "s.parquet"), "--keys", "age,sex", "--recode", "age=born:bands:18,45,75"]
    assert f"warning: {said}. Next: compare the edges with the values of born" in invoke(
        *words, "--out", str(tmp_path / "o")
    )
    assert f"{said[0].upper()}{said[1:]}" in invoke("explain", str(tmp_path / "o" / "plan.toml"))
