"""The report of an assessment: kinds of frames, bad input, and what may be shown."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from postrand import risk
from postrand.codebook import Codebook, Variable
from postrand.data.table import tally
from postrand.errors import DataError, UsageError
from postrand.risk import assess
from postrand.risk.exposure import TrueFile
from postrand.risk.file import HouseholdWarning
from postrand.risk.groups import by_group
from postrand.risk.tau import Tau
from postrand.support.showing import outward_percent


def columns(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {"age": 9, "region": 12, "job": 15, "ill": 3}
    data = {k: [f"{k}{v:02d}" for v in rng.geometric(0.35, n).clip(1, s)] for k, s in sizes.items()}
    return {**data, "w": rng.uniform(1, 40, n)}


KEYS = ["age", "region", "job"]


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_every_kind_of_frame_gives_one_report(kind):
    data = columns()
    plain = assess(data, KEYS, sampling_fraction=0.05, sensitive="ill")
    assert assess(kind(data), KEYS, sampling_fraction=0.05, sensitive="ill") == plain


def test_a_column_of_few_values_is_no_household_number():
    data = {"age": ["a", "b"] * 100, "sex": ["f"] * 101 + ["m"] * 99, "hid": [k // 2 for k in range(200)]}
    with pytest.warns(HouseholdWarning, match=r"column 'sex': is this a household number\?"):
        assess(data, ["age"], sampling_fraction=0.05, household="sex")
    assess(data, ["age"], sampling_fraction=0.05, household="hid")  # warnings are errors here


def test_the_order_of_categories_does_not_matter():
    data = columns()
    plain = assess(data, KEYS, sampling_fraction=0.05, sensitive="ill")
    categorical = pd.DataFrame(data).astype({k: "category" for k in [*KEYS, "ill"]})
    other = assess(categorical, KEYS, sampling_fraction=0.05, sensitive="ill")
    assert (other.k_anonymity, other.sample_uniques) == (plain.k_anonymity, plain.sample_uniques)
    assert other.l_diversity["ill"].distinct == plain.l_diversity["ill"].distinct
    assert other.l_diversity["ill"].entropy == pytest.approx(plain.l_diversity["ill"].entropy, rel=1e-12)
    # The two fits stop at margins within 1e-6 of the same data.
    assert other.tau1 == pytest.approx(plain.tau1, rel=1e-5)


def test_sample_uniques_and_whole_population():
    data = columns()
    frame = pd.DataFrame(data)
    uniques = int((frame.groupby(KEYS)["w"].transform("size") == 1).sum())
    report = assess(data, KEYS, sampling_fraction=1.0)
    assert report.sample_uniques == uniques
    assert (report.tau1, report.tau2) == (uniques, uniques)  # every sample unique is then population unique
    text = str(report)
    assert f"population uniques    {uniques} among" in text
    assert f"correct matches       {uniques} among" in text
    assert "95%" not in text  # known, not estimated
    assert "  model                 no model needed: the file is the whole population" in text
    inverse = 1 / frame.groupby(KEYS)["w"].transform("size")
    assert report.readings.journalist.average == pytest.approx(inverse.mean(), rel=1e-12)
    measured = risk.measure(data, KEYS, ["tau"], sampling_fraction=1.0)["tau"].to_dict()["facts"]
    assert (measured["tau1"], measured["tau2"]) == (uniques, uniques)
    assert "tau1_low" not in measured
    assert (report.records_at.frequency == frame.groupby(KEYS)["w"].transform("size")).all()


def test_equal_weights_are_a_sampling_fraction():
    data = columns()
    data["w"] = np.full(len(data["age"]), 20.0)
    a, b = assess(data, KEYS, weight="w"), assess(data, KEYS, sampling_fraction=0.05)
    assert a.tau1 == pytest.approx(b.tau1, rel=1e-12)
    assert a.tau2 == pytest.approx(b.tau2, rel=1e-12)


def test_readings_of_the_report():
    report = assess(columns(), KEYS, sampling_fraction=0.05)
    found = report.readings
    assert found is not None
    assert found.journalist is not None
    assert found.prosecutor.highest == 1 / report.k_anonymity.k
    assert found.marketer == pytest.approx(found.journalist.average)
    unique = report.records_at.frequency == 1
    assert report.tau2 is not None
    assert found.journalist.average * report.records >= report.tau2  # the uniques are a part of all records
    assert unique.sum() == report.sample_uniques
    assert "by the model of population frequencies: " in str(report)
    assert "journalist" not in str(report)  # one attacker has one name
    assert report.to_dict()["readings"]["marketer"] == found.marketer
    whole = assess(columns(), KEYS, sampling_fraction=1.0).readings
    assert whole is not None
    assert whole.journalist is not None
    assert whole.journalist.average == pytest.approx(whole.prosecutor.average, rel=1e-12)


def test_the_printed_estimate_is_the_centre_of_its_interval():
    """The interval is centred at the estimate less its bias, and cut to what is possible; so is what is printed."""
    for tau, printed, corrected in (
        (Tau(0.4, 0.1, 0.3, (0.0, 0.296)), "0.1 (95% 0.0 to 0.3)", 0.1),
        (Tau(0.4, 0.1, 0.6, (0.0, 0.0)), "0.0 (95% 0.0 to 0.0)", 0.0),
        (Tau(0.4), "0.4", 0.4),
    ):
        assert str(tau) == printed
        assert tau.corrected == pytest.approx(corrected)
    report = assess(columns(), KEYS, sampling_fraction=0.05)
    found = report.tau2_estimate
    assert found is not None
    assert found.interval is not None
    assert found.bias is not None
    assert found.interval[0] <= found.corrected <= found.interval[1]
    assert report.to_dict()["tau2"]["corrected"] == found.corrected
    assert found.corrected == pytest.approx(found.value - found.bias)
    assert report.tau2 == found.value
    assert str(found) in str(report)


def test_no_sample_uniques_is_said():
    report = assess({"sex": ["F", "F", "M", "M"]}, ["sex"], sampling_fraction=0.1)
    assert (report.tau1, report.tau2, report.sample_uniques) == (0.0, 0.0, 0)
    assert "no sample uniques" in str(report)


def test_no_fraction_gives_counts_and_says_so():
    report = assess(columns(), KEYS)
    assert report.tau1 is None
    assert "not computed" in str(report)


def test_a_published_report_shows_no_small_count_and_no_record():
    report = assess({"sex": ["F", "M", "M"], "age": ["1", "1", "1"]}, ["sex", "age"], sampling_fraction=0.5)
    shown = json.dumps(report.to_dict())
    assert json.loads(shown)["sample_uniques"] == "<5"
    assert json.loads(shown)["k_anonymity"]["records_below"]["2"] == "<5"
    assert "records_at" not in shown + repr(report)
    assert "fewer than 5" in str(report)
    for name in ("tau", "latent-classes"):  # one by one too
        found = risk.measure(
            {"sex": ["F", "M", "M"], "age": ["1", "1", "1"]}, ["sex", "age"], [name], sampling_fraction=0.5
        )
        facts = json.loads(json.dumps(found[name].to_dict()))["facts"]
        assert [facts[one] for one in ("sample_uniques", "tau1", "tau2")] == ["<5"] * 3
        assert "tau1_low" not in facts
        assert "95%" not in str(found)


def test_missing_keys_follow_the_rule():
    data = {"a": ["x", "x", None, "y"], "b": ["1", "1", "1", "2"]}
    own = assess(data, ["a", "b"], missing="category")
    wild = assess(data, ["a", "b"], missing="wildcard", sampling_fraction=0.5)
    assert (own.sample_uniques, own.cells) == (2, 6)
    assert wild.sample_uniques == 1
    assert wild.records_at.frequency.tolist() == [3, 3, 3, 1]
    assert wild.tau1 is None
    book = Codebook((Variable("a", role="key", categories=("x", "y", "z"), missing="category"),))
    assert assess(data, ["a"], codebook=book).cells == 4


def test_bad_input_is_explained():
    data = columns(50)
    with pytest.raises(UsageError, match=r"wanted \(0, 1\]"):
        assess(data, KEYS, sampling_fraction=1.5)
    with pytest.raises(UsageError, match=r"wanted \(0, 1\]"):
        assess(data, KEYS, sampling_fraction="0.1")
    with pytest.raises(UsageError, match="both"):
        assess(data, KEYS, sampling_fraction=0.5, weight="w")
    with pytest.raises(DataError, match="did you mean 'age'"):
        assess(data, ["agee"])
    with pytest.raises(UsageError, match="list of names"):
        assess(data, "age")
    with pytest.raises(UsageError, match="unknown model"):
        assess(data, KEYS, sampling_fraction=0.5, model="four-way")
    with pytest.raises(UsageError, match="dataframe"):
        assess(3, KEYS)
    with pytest.raises(UsageError, match="unknown rule"):
        assess(data, KEYS, missing="drop")
    data["w"][:2] = [np.nan, 0.5]
    with pytest.raises(DataError, match="missing") as error:
        assess(data, KEYS, weight="w")
    assert len(error.value.problems) == 2
    with pytest.raises(DataError, match="not a number"):
        assess(data, KEYS, weight="ill")


def test_a_contingency_table_is_as_good_as_the_records():
    data = columns(500)
    codes = [np.unique(data[k], return_inverse=True)[1] for k in KEYS]
    shape = tuple(int(c.max()) + 1 for c in codes)
    counted = tally(tuple(KEYS), shape, [(codes, None)])
    from_table = assess(counted, KEYS, sampling_fraction=0.05)
    from_records = assess(data, KEYS, sampling_fraction=0.05)
    assert from_table.sample_uniques == from_records.sample_uniques
    assert from_table.tau2 == pytest.approx(from_records.tau2, rel=1e-4)
    weighted = tally(tuple(KEYS), shape, [(codes, np.asarray(data["w"]))])
    with pytest.raises(UsageError, match="weights"):
        assess(weighted, KEYS)


def test_risk_by_group_sums_to_the_file():
    data = columns()
    report = assess(data, KEYS, weight="w", sensitive="ill")
    groups = by_group(report, data, "ill")
    assert sum(g.records for g in groups.values()) == report.records
    assert sum(g.sample_uniques for g in groups.values()) == report.sample_uniques
    assert sum(g.tau2 or 0 for g in groups.values()) == pytest.approx(report.tau2)
    total = sum(g.expected_reidentifications or 0 for g in groups.values())
    assert total == pytest.approx(report.expected_reidentifications)
    worst = report.records_at.worst(5)
    assert report.records_at.tau2 is not None
    assert report.records_at.tau2[worst[0]] == report.records_at.tau2.max()
    with pytest.raises(UsageError, match="the data are not the data of the report"):
        by_group(report, {"ill": ["x"]}, "ill")


def test_the_risk_of_households_names_its_attacker_and_is_that_of_the_other_pages():
    data = {**columns(900), "hid": [k // 3 for k in range(900)]}
    found = assess(data, KEYS, sampling_fraction=0.05, household="hid")
    texts = {name: sorted(set(data[name])) for name in KEYS}
    variables = [Variable(name, "key", tuple(values)) for name, values in texts.items()]
    book = Codebook((*variables, Variable("hid", "household", type="int64")))
    truth = TrueFile.read({name: data[name] for name in (*KEYS, "hid")}, book, 0.05)
    assert truth is not None
    own, plain = truth.exposure(), found.to_dict()["household_risk"]
    told = {"informed": (own.file.some_member, own.joint), "register": (own.register_some, own.register_joint)}
    lines = str(found).splitlines()
    place = lines.index("  households            300")
    for line, (who, (some, joint)) in zip(lines[place + 1 :], told.items(), strict=False):
        assert line.startswith(f"{'':24}{who} attacker: a member found: mean {outward_percent(some.mean)}, largest ")
        assert f"; all members' keys known: mean {outward_percent(joint.mean)}, largest " in line
        held = plain["informed"] if who == "informed" else plain
        for name, spread in (("some_member", some), ("joint_key", joint)):
            assert held[name] == pytest.approx({"mean": spread.mean, "largest": spread.largest}), (who, name)
