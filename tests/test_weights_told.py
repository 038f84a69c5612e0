"""Weights as disclosers: what their exact values tell of strata, and what rounding costs."""

import dataclasses
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand.data.frames import TableSource
from postrand.engines.database import open_records
from postrand.errors import DataError
from postrand.mechanism import Mechanism
from postrand.recoding.limits import Limits
from postrand.recoding.recode import Recode
from postrand.recoding.rounding import Rounding
from postrand.recoding.steps import Steps
from postrand.risk import sample as sampling
from postrand.risk.findings import find, sample_of
from postrand.risk.sample import taken
from postrand.risk.weights_told import before_recoding, distorted, require_weights, rounded

BOOK = pr.Codebook((
    pr.Variable("sex", role="key", categories=("F", "M")),
    pr.Variable("village", role="drop", type="int64"),
    pr.Variable("w", role="weight", type="double"),
))  # fmt: skip

PLAN = """
[source]
file = "s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 1.0
[[blocks]]
variables = ["sex"]
"""


def survey(strata=120, each=25, seed=1):
    """Return records in villages; each village has a weight of its own, near to those of others, in random order."""
    rng = np.random.default_rng(seed)
    village = np.repeat(np.arange(strata), each)
    weight = np.round(200 + rng.permutation(strata) * 0.37, 2)[village]
    return pa.table({"sex": np.array(["F", "M"])[rng.integers(0, 2, village.size)], "village": village, "w": weight})


def weighed(table, book=BOOK, **options):
    law = Mechanism({"sex": pr.randomised_response(2, 1.0)}).bind(book)
    source = TableSource(table) if isinstance(table, pa.Table) else table
    found = find(source, book, law, ["sex", "w"], **options)
    return [one for one in found.found if one.code == "weights"]


def test_weights_of_strata_reveal_a_stratum_that_is_dropped_and_rounding_ends_it():
    table = survey()
    (one,) = weighed(table, as_is=["w"])
    assert (one.variables, one.about, one.is_decided) == (("w",), ("village",), False)
    assert "the weights (w) have 120 different values and reveal village, which is perturbed or not rel" in one.sentence
    assert "of 100 records, the best guess from w is right in about 100, without in about 1" in one.sentence
    base = one.figures["base"]
    assert f"rounding = {base:g} in [[recodes]] leaves" in one.sentence
    made = np.floor(table["w"].to_numpy() / base + 0.5) * base
    assert weighed(table.set_column(2, "w", pa.array(made))) == []


def test_weights_that_say_nothing_are_not_told():
    table = survey()
    rng = np.random.default_rng(2)
    assert weighed(table.set_column(2, "w", pa.array(rng.permutation(table["w"].to_numpy())))) == []
    (alone,) = weighed(table.set_column(2, "w", pa.array(rng.uniform(50, 90, len(table)))))
    assert alone.about == ()  # each record has its own weight, which by chance has one village
    assert "the weights (w) have more than 1,000 different values; rounding = 5 in" in alone.sentence


def test_the_cost_of_rounding_is_that_of_the_weighted_totals():
    rng = np.random.default_rng(3)
    weights, area = rng.uniform(80, 300, 2_000), rng.integers(0, 4, 2_000)
    found = rounded(weights, {"area": (area, 4)})
    made = np.floor(weights / found.base + 0.5) * found.base
    assert (found.before, found.after) == (2_000, np.unique(made).size)
    assert found.after <= 20 < np.unique(np.floor(weights / (found.base / 2) + 0.5)).size
    totals = [abs(made[area == k].sum() / weights[area == k].sum() - 1) for k in range(4)]
    assert found.total == pytest.approx(max([*totals, abs(made.sum() / weights.sum() - 1)]))
    kish = [w.sum() ** 2 / (w**2).sum() for w in (weights, made)]
    assert found.effective == pytest.approx(abs(kish[1] / kish[0] - 1))


def test_a_rounding_that_is_there_is_judged_by_the_weights_of_the_file(tmp_path):
    raw = np.random.default_rng(4).uniform(80, 300, 3_000)
    pq.write_table(survey().set_column(2, "w", pa.array(raw)), tmp_path / "s.parquet")
    book = dataclasses.replace(BOOK, recodes=(Recode("w", Rounding(0.01)),))
    (one,) = weighed(open_records(tmp_path / "s.parquet", book), book)
    base = one.figures["base"]
    made = np.floor(raw / base + 0.5) * base
    expected = asdict(rounded(raw, {}, np.unique(np.round(raw, 2)).size))
    assert {**one.figures, "total": 0} == {**expected, "total": 0, "alone": one.figures["alone"]}
    assert one.figures["after"] == np.unique(made).size
    assert one.figures["total"] >= abs(made.sum() / raw.sum() - 1)
    assert base >= 5  # the rounding that is there would seem to change nothing
    assert f"rounding = {base:g} in [[recodes]], in place of the rounding that is there, leaves" in one.sentence
    assert "against the weights of the file, changes the weighted totals of all records, and of" in one.sentence
    behind = dataclasses.replace(BOOK, recodes=(Recode("w", Steps((Limits(top=290), Rounding(0.01)))),))
    (one,) = weighed(open_records(tmp_path / "s.parquet", behind), behind)
    assert "as one more, last step of its recode leaves" in one.sentence
    assert "against the weights as they are recoded, changes" in one.sentence
    coarse = dataclasses.replace(BOOK, recodes=(Recode("w", Rounding(250.0)),))
    told = weighed(open_records(tmp_path / "s.parquet", coarse), coarse)[0].sentence
    assert f"the weights (w) are 0 for about {100 * (raw < 125).mean():.0f}% of the records, as they are rec" in told


def test_no_rounding_is_proposed_that_makes_a_weight_0_or_changes_nothing():
    assert rounded(np.array([1.0, 2.0, 2.0, 5.0]), {}).base == 2.0
    assert rounded(np.full(9, 3.0), {}) is None
    assert rounded(np.array([0.0, 1.5, 2.5]), {}) is None
    assert rounded(np.array([np.nan, 1.5]), {"a": (np.zeros(2, int), 1)}) is None


def test_a_rounding_that_changes_totals_is_told_with_the_category_it_changes_most(tmp_path):
    """Weights of 3 and 8 rounded to 5 are 5 and 10: totals of women grow by two thirds, those of men by a quarter."""
    sex, weight = np.repeat(["F", "M"], [100, 300]), np.repeat([3.0, 8.0], [100, 300])
    pq.write_table(pa.table({"sex": sex, "village": np.arange(400), "w": weight}), tmp_path / "s.parquet")
    for base, told in ((5.0, True), (0.5, False)):
        book = dataclasses.replace(BOOK, recodes=(Recode("w", Rounding(base)),))
        source = open_records(tmp_path / "s.parquet", book)
        law = Mechanism({"sex": pr.randomised_response(2, 1.0)}).bind(book)
        held = taken(source, sample_of(book, ["sex"], ["sex", "w"]))
        found = list(distorted(held, book, before_recoding(source, held, book), law.variables))
        said = "rounding of the weights (w) changes the weighted total of all records by 30%, and of a category of sex "
        said += "by up to 67%: estimates are those"
        assert [text.startswith(said) for _, text in found] == [True] * told


def test_a_bottom_code_that_doubles_a_total_is_told_and_no_rounding_is_proposed_that_does(tmp_path):
    """Weights of 3 of women become 6, those of 8 of men stay: their own total doubles, that of all grows by 11%."""
    sex, weight = np.repeat(["F", "M"], [100, 300]), np.repeat([3.0, 8.0], [100, 300])
    pq.write_table(pa.table({"sex": sex, "village": np.arange(400), "w": weight}), tmp_path / "s.parquet")
    for kind in (Limits(bottom=6.0), Steps((Limits(bottom=6.0), Rounding(1.0)))):
        book = dataclasses.replace(BOOK, recodes=(Recode("w", kind),))
        source = open_records(tmp_path / "s.parquet", book)
        held = taken(source, sample_of(book, ["sex"], ["sex", "w"]))
        ((_, text),) = distorted(held, book, before_recoding(source, held, book), ["sex"])
        said = "the recode of the weights (w) changes the weighted total of all records by 12%, and of a category of "
        assert text.startswith(f"{said}sex by up to 100%: estimates are those of the recoded weights")
        assert text.endswith("move fewer weights by bottom or top, or round them less")
    groups = {"sex": (np.repeat([0, 1], [100, 300]), 2)}
    mixed = np.concatenate([np.linspace(1.1, 1.9, 100), np.linspace(50.0, 90.0, 300)])
    assert rounded(mixed, {}).base > rounded(mixed, groups).base
    assert rounded(mixed, groups).total <= 0.2


def test_a_weight_is_rounded_by_its_recode_and_the_plan_says_less(tmp_path):
    """As the page says: the finding is gone, and the weights of the release are the rounded ones."""
    pq.write_table(survey(40), tmp_path / "s.parquet")
    codebook = BOOK.to_dict()
    for recodes, told in ((None, True), ([{"variable": "w", "rounding": 10.0}], False)):
        held = codebook if recodes is None else codebook | {"recodes": recodes}
        pr.Codebook.from_dict(held).save(tmp_path / "codebook.toml", replace=True)
        (tmp_path / "plan.toml").write_text(PLAN)
        found = pr.findings(pr.load_plan(tmp_path / "plan.toml"))
        assert [one.code == "weights" for one in found.found if one.variables == ("w",)] == [True] * told


def test_weights_that_are_missing_are_told_and_negative_ones_refused(tmp_path):
    table = survey()
    weights = table["w"].to_numpy().copy()
    weights[:300] = np.nan
    odd = table.set_column(2, "w", pa.array(weights, from_pandas=True))
    said = [one.sentence for one in weighed(odd) if "missing" in one.sentence]
    assert len(said) == 1
    assert said[0].startswith("the weights (w) are missing, or no number, for about 10% of the records")
    BOOK.save(tmp_path / "codebook.toml")
    (tmp_path / "plan.toml").write_text(PLAN)
    pq.write_table(odd, tmp_path / "s.parquet")
    assert any("missing" in one.sentence for one in pr.findings(pr.load_plan(tmp_path / "plan.toml")).found)
    for bad in (-9.0, np.inf):
        weights[-1] = bad
        pq.write_table(table.set_column(2, "w", pa.array(weights, from_pandas=True)), tmp_path / "s.parquet")
        with pytest.raises(DataError, match="column 'w': a weight is negative, perhaps a code for no answer"):
            pr.findings(pr.load_plan(tmp_path / "plan.toml"))


@pytest.mark.parametrize("bad", [-9.0, np.inf, -np.inf])
@pytest.mark.parametrize("as_text", [False, True])
def test_one_negative_weight_is_refused_wherever_in_a_large_file_it_is(bad, as_text, monkeypatch):
    """The sample that columns are compared on can miss the record; the range of the whole file does not."""
    monkeypatch.setattr(sampling, "MAX_VALUES", 50)  # too many to count which ones one record has
    weights = survey()["w"].to_numpy().copy()
    asked = sample_of(BOOK, ["sex"], ["sex", "w"])
    assert asked is not None
    want = dataclasses.replace(asked, most=100)
    for place in (None, 0, 1500, -1):
        held = weights.copy()
        held[0] = np.nan
        if place is not None:
            held[place] = bad
        column = pa.array(held, from_pandas=True)
        column = column.cast(pa.string()).dictionary_encode() if as_text else column
        sample = taken(TableSource(survey().set_column(2, "w", column)), want)
        assert sample.table.num_rows == 100
        if place is None:
            require_weights(sample, BOOK)
        else:
            with pytest.raises(DataError, match="column 'w': a weight is negative"):
                require_weights(sample, BOOK)


def test_weights_that_are_texts_have_no_range():
    table = survey().set_column(2, "w", pa.array(["1.5", "unknown"] * 1500))
    assert taken(TableSource(table), sample_of(BOOK, ["sex"], ["sex", "w"])).ranges == {}
