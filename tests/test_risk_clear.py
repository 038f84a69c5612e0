"""What variables in clear settle about perturbed ones, against the same record by record."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.risk.findings import find
from postrand.risk.reveals import CHANCE, LIKELY, RARER, PairReveal, told

PAIRS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60)


def by_hand(records):
    """Return the four measures from the list of (true value, clear value)."""
    n, true, seen = len(records), Counter(r[0] for r in records), Counter(r[1] for r in records)
    if len(true) < 2 or len(seen) < 2:
        return 0.0, 0.0, 0.0, 0.0
    inside = {c: Counter(i for i, d in records if d == c) for c in seen}
    blind = max(true.values())
    right = sum(max(inside[c].values()) for c in seen)
    top = {c: max(inside[c], key=lambda i: (inside[c][i], -i)) for c in seen}
    held = {c: inside[c][top[c]] for c in seen}
    near = {c: held[c] >= LIKELY * seen[c] and 2 * true[top[c]] / n <= held[c] / seen[c] for c in seen}
    rest = {c: (1 - held[c] / seen[c], 1 - true[top[c]] / n) for c in seen}
    far = {c: rest[c][0] <= 0.01 + 1e-12 or rest[c][1] >= 1 / 3 - 1e-12 for c in seen}
    rarer = {c: far[c] and held[c] >= LIKELY * seen[c] and RARER * rest[c][0] <= rest[c][1] + 1e-12 for c in seen}
    certain = [c for c in seen if len(inside[c]) == 1 or near[c] or rarer[c]]
    chance = {c: binom.sf(held[c] - 1, seen[c], true[top[c]] / n) for c in seen}
    shown = [c for c in certain if chance[c] <= CHANCE / len(seen)]
    x = np.array([[i == j for i, _ in records] for j in true], dtype=float)
    y = np.array([[c == d for _, c in records] for d in seen], dtype=float)
    same = np.abs(np.corrcoef(np.vstack([x, y]))[: len(x), len(x) :]).max()
    left = {c: sum(true[i] for i in inside[c]) / n for c in seen}
    ruled = sum(seen[c] * (1 - left[c]) for c in seen if 2 ** len(true) * left[c] ** seen[c] <= CHANCE / len(seen))
    return (right - blind) / (n - blind), sum(seen[c] for c in shown) / n, same, ruled / n


@given(PAIRS)
def test_measures_against_every_record(records):
    table = np.zeros((3, 4), dtype=np.int64)
    for pair in records:
        table[pair] += 1
    found = told(table)
    assert (found.guessed, found.settled, found.same, found.excluded) == pytest.approx(by_hand(records), abs=1e-9)


def test_a_dummy_settles_its_category_and_independence_nothing():
    dummy = told(np.array([[0, 200], [300, 0], [500, 0]]))
    assert (dummy.guessed, dummy.settled, dummy.same) == pytest.approx((0.4, 0.2, 1.0))
    part = told(np.array([[440, 0], [470, 90]]))  # one value is a part of a category, as black women are of women
    assert (part.guessed, part.settled, part.is_much) == (0.0, pytest.approx(0.09), True)
    spread = told(np.outer([30, 20], [4, 6]))
    assert (spread.guessed, spread.settled, spread.is_much) == (0, 0, False)
    assert spread.same == pytest.approx(0)


def test_few_records_of_a_common_value_are_chance_and_empty_cells_nothing():
    assert told(np.array([[900, 9], [91, 0]])).settled == 0
    assert told(np.array([[900, 90], [91, 0]])).settled == pytest.approx(90 / 1081)
    assert told(np.array([[5, 7, 0], [0, 0, 0]])) == PairReveal("perturbed", "clear", 0, 0, 0)


def test_a_value_that_all_but_settles_another_counts_as_one_that_does():
    """Of 200 records without an answer, 188 are children, who are a fifth of the file."""
    found = told(np.array([[188, 12], [12, 788]]), "age", "work")
    assert (found.settled, found.right, found.blind) == pytest.approx((0.2, 0.976, 0.8))
    assert "the best guess from work is right in about 98, without in about 80" in found.in_words
    often = told(np.array([[600, 100], [0, 300]]), "wage", "work", 4)
    said = (
        "the best guess from work, of the range in which wage lies (one of 4, cut at its tenths), is right in about 90"
    )
    assert said in often.in_words
    assert "for most of them the most common" not in often.in_words  # 60 settled, 30 gained
    common = told(np.array([[600, 160], [0, 240]]), "wage", "work")
    assert "; for most of them the most common value, which is guessed without it too)" in common.in_words
    assert "for about 20 of 100 records" in found.in_words
    nearly = told(np.array([[188, 240], [12, 300], [0, 260]]))
    assert nearly.is_much
    assert nearly.guessed < 0.2
    assert told(np.array([[150, 240], [50, 300], [0, 260]])).settled == 0


@pytest.mark.parametrize("turned", [False, True])
def test_a_value_that_most_have_is_told_where_others_become_a_fifth_as_rare(turned):
    """Of 400 of 4,000 records 96% have what 55% of all have: as much said as 96% with what 45% have."""
    table = np.array([[384, 1816], [16, 1784]]) if turned else np.array([[16, 2184], [384, 1416]])
    found = told(table, "sex", "tag")
    assert found.settled == pytest.approx(0.1)
    assert "for about 10 of 100 records tag makes one value far likelier (at least 80%" in found.in_words
    assert told(np.array([[350, 1850], [50, 1750]])).settled == 0  # 87.5%: others are a third as rare
    assert told(np.array([[384, 2816], [16, 784]])).settled == 0  # 96% where 80% are: no surprise


def test_the_true_value_that_is_settled_most_often_is_named_by_its_label():
    """Of 200 with area c, 120 have a tag that nobody else has; of 800 others, none is settled."""
    area = np.array(["a"] * 400 + ["b"] * 400 + ["c"] * 200)
    tag = np.array([f"t{k % 2}" for k in range(800)] + ["t2"] * 120 + ["t0", "t1"] * 40)
    areas = Variable("area", "key", ("a", "b", "c"), ("north", "south", "east"))
    book = Codebook((areas, Variable("tag", "other", ("t0", "t1", "t2"))))
    mechanism = Mechanism({"area": randomised_response(3, 1.0)}, book)
    measured = find(TableSource(pa.table({"area": area, "tag": tag})), book, mechanism, ["tag"])
    found = next(one for one in measured.found if one.code == "tells")
    assert "for about 12 of 100 records tag makes one value far likelier" in found.sentence
    assert "; of those whose area is east, for about 60 of 100" in found.sentence
    assert "; of those whose area is east, for about 60 of 100" in found.brief
    assert "for about 12 of 100 records one value is" in found.brief


def test_a_guess_that_is_right_no_more_often_tells_only_the_records_that_it_settles():
    few = PairReveal("urbrur", "water", 0.02, 0.04, 0.3, right=0.861, blind=0.858)
    assert few.in_words == (
        "of 100 records, the best guess from water is right in about 86, without in about 86; for about 4 of 100 "
        "records water makes one value far likelier (at least 80%; for most of them the most common value, "
        "which is guessed without it too), more than chance explains"
    )
    much = PairReveal("urbrur", "water", 0.5, 0.6, 0.3, right=0.9, blind=0.6)  # of this the plan must decide
    assert "for about 60 of 100 records water all but settles the value (one is at least 80% likely)" in much.in_words


def test_a_value_that_few_records_have_is_not_told_as_a_guess_without_gain():
    found = told(np.array([[860, 0], [136, 0], [0, 4]]), "income", "heads")
    assert found.is_much
    rare = "a value of heads all but says one that few records have"
    assert found.in_words == f"{rare}; over all records the best guess from heads gains little"
