"""Means of numbers by category: the test that sees a rare one where the release can, and the warning elsewhere."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest
import scipy

from postrand.completion.diagnostics_means import ENOUGH_OF_CATEGORY, CategoryMean, Numbers, means_of, questions_of
from postrand.completion.diagnostics_relations import Relations
from postrand.completion.diagnostics_tables import Seen
from postrand.completion.predictive import LEVEL
from postrand.mixture import Evidence
from tests.test_related import response
from tests.test_relations import diagnosed

RNG = np.random.default_rng
SHARES = np.array([0.5, 0.3, 0.16, 0.04])
EFFECTS = np.array([0.0, 0.3, -0.3, 1.2])
LABELS = ("north", "south", "east", "isle")
KEEP = 0.7
LAW = KEEP * np.eye(4) + (1 - KEEP) / 4


def file(n, seed):
    """Return true categories of one variable, what is released of them, and a number that depends on them."""
    rng = RNG(seed)
    true = rng.choice(4, n, p=SHARES)
    released = np.where(rng.random(n) < KEEP, true, rng.integers(0, 4, n))
    return true, released, EFFECTS[true] + rng.normal(size=n)


def seen(released):
    n, none = len(released), np.zeros((0, 1, 4), bool)
    start, law = np.arange(n + 1), np.zeros(n, np.int32)
    hidden = np.full((n, 1), -1, np.int32)
    return Seen(Evidence(("area",), (4,), hidden, start, law, released.astype(np.int32), (response(4, KEEP),), none))


def drawn(released, values, effects, seed, copies=20):
    """Return copies drawn from the exact posterior of a model with these effects."""
    like = SHARES * LAW[:, released].T * scipy.stats.norm.pdf(values[:, None] - effects)
    like /= like.sum(axis=1, keepdims=True)
    rng = RNG([seed, 1])
    return [
        (like.cumsum(axis=1) < rng.random((len(values), 1))).sum(axis=1).clip(max=3)[:, None] for _ in range(copies)
    ]


def means(n, seed, effects=EFFECTS, spread=np.asarray):
    true, released, values = file(n, seed)
    numbers = Numbers.of(pa.table({"pay": spread(values)}), ["pay"])
    (asked,) = questions_of(numbers, [0], seen(released))
    for codes in drawn(released, values, effects, seed):
        asked.add(codes.astype(np.int32), (4,))
    return Relations((), (), tuple(means_of(asked, "area", LABELS))), true, released, values


def test_the_unbiased_mean_is_the_estimating_equation_of_the_release_alone() -> None:
    """Each record counts by the inverse of the law; the mean of a category is a ratio of two such sums, linearised."""
    found, _, released, values = means(600, 1)
    weights = np.linalg.inv(LAW)[released]
    for place, category in enumerate(LABELS):
        (one,) = (m for m in found.means if m.category == category and not m.scores)
        ratio = (weights[:, place] @ values) / weights[:, place].sum()
        linear = one.copies + weights[:, place] @ (values - one.copies) / weights[:, place].sum()
        assert one.release == pytest.approx(linear) == pytest.approx(ratio)


def test_the_unbiased_error_is_the_spread_over_many_releases_of_one_file() -> None:
    true, _, values = file(2_000, 3)
    rng, sums, told = RNG(5), [], []
    for _ in range(200):
        released = np.where(rng.random(2_000) < KEEP, true, rng.integers(0, 4, 2_000))
        numbers = Numbers.of(pa.table({"pay": values}), ["pay"])
        (asked,) = questions_of(numbers, [0], seen(released))
        for _copy in range(2):
            asked.add(true[:, None].astype(np.int32), (4,))  # copies that are right, so that errors are the release's
        (one,) = (m for m in means_of(asked, "area", LABELS) if m.category == "isle" and not m.scores)
        weight = np.linalg.inv(LAW)[released][:, 3]
        sums.append(weight @ (values - one.copies) / (true == 3).sum())
        told.append(one.unbiased_error)
    assert np.std(sums) / np.mean(told) == pytest.approx(1.0, abs=4 / math.sqrt(2 * 199))
    assert abs(np.mean(sums)) < 4 * np.std(sums) / math.sqrt(200)


@pytest.mark.statistical
@pytest.mark.parametrize("spread", [np.asarray, np.exp], ids=["normal", "skewed"])
def test_copies_of_a_right_model_seldom_fail(spread) -> None:
    """200 files of 1,000 records, 40 of the rare category: at 1%, more than 8 failures have probability 1e-4."""
    failed = sum(bool(means(1_000, seed, spread=spread)[0].failed_means(LEVEL)) for seed in range(200))
    assert failed <= 8


@pytest.mark.statistical
def test_a_rare_category_that_copies_take_for_an_average_one_is_named() -> None:
    """The copies know all but the effect of the category that 4% have."""
    for seed in range(4):
        found, *_ = means(12_000, seed, effects=np.array([0.0, 0.3, -0.3, 0.0]))
        first = found.failed_means(LEVEL)[0]
        assert (first.variable, first.category, first.column) == ("area", "isle", "pay")
        assert first.release is not None
        assert first.release > first.copies + 2 * first.pooled_error


def test_a_mean_that_fails_is_a_problem_and_a_rare_category_is_said() -> None:
    bad = CategoryMean("ward", "icu", "cost", False, 5_870.0, 400.0, 7_974.0, 450.0, 60.0, 1e-9)
    few = CategoryMean("ward", "icu", "cost", True, 0.7, 0.1, 0.9, 0.3, ENOUGH_OF_CATEGORY - 1, 0.4)
    told = diagnosed(Relations((), (), (bad, few)))
    (text,) = told.problems
    assert "mean of cost in ward icu: 5,870 ± 4e+02 in the copies, 7,974 ± 4.5e+02 released" in text
    assert "postrand estimate RELEASE --mean NUMBER --by VARIABLE" in text
    (rare,) = (text for text in told.warnings if "fewer than 30" in text)
    assert "ward icu" in rare
    assert told.to_dict()["relations"]["means"]["compared"][0]["p_value"] == 1e-9
    assert diagnosed(Relations((), (), (few,))).problems == ()
    assert diagnosed(Relations((), (), (dataclasses.replace(few, effective=31.0),))).ok


def test_numbers_are_columns_of_numbers_that_vary() -> None:
    frame = pa.table({"a": [1.0, 2.0, None, 4.0], "b": ["x", "y", "x", "y"], "c": [3, 3, 3, 3], "d": [1, 2, 3, 4]})
    found = Numbers.of(frame, ["a", "b", "c", "d"])
    assert found is not None
    assert found.names == ("a", "d")
    assert found.there[:, 0].tolist() == [1, 1, 0, 1]
    assert found.values[:, 0].tolist() == [1, 2, 0, 4]
    assert found.values[[0, 1, 3], 1].sum() == pytest.approx(0.0)
    assert Numbers.of(frame, ["b", "c"]) is None
