"""Minimal combinations of many columns that single out records: against trying every subset."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.data.frames import TableSource
from postrand.risk.cells import KeyCodes
from postrand.risk.counts import adding, risky_combinations
from postrand.risk.findings import singling
from postrand.risk.singled import Singled, combined
from postrand.risk.singled_together import MAX_SETS, together


def share(rows):
    counts = Counter(map(tuple, rows))
    return sum(n == 1 for n in counts.values()) / len(rows)


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 6), min_size=1, max_size=60), st.sampled_from([0.05, 0.2, 0.5]))
@settings(max_examples=30)
def test_sets_are_minimal_against_every_subset(rows, limit):
    codes = {name: (np.array([row[k] for row in rows]), 3) for k, name in enumerate("abcdef")}

    def exact(names):
        return share([[row["abcdef".index(name)] for name in names] for row in rows])

    subsets = [s for size in range(1, 7) for s in itertools.combinations("abcdef", size)]
    above = {s for s in subsets if exact(s) > limit}
    minimal = {s for s in above if not any(set(t) < set(s) for t in above)}
    found = together(codes, limit)
    assert found.every == exact("abcdef")
    assert {names for names, _ in found.sets} <= minimal
    assert bool(found.sets) == bool(minimal)
    assert len(found.sets) <= MAX_SETS
    assert all(value == pytest.approx(exact(names)) for names, value in found.sets)


def test_the_trials_are_bounded():
    random = np.random.default_rng(0)
    codes = {f"v{k}": (random.integers(0, 2, 500), 2) for k in range(100)}
    assert together(codes, 0.01, trials=30).trials <= 32
    assert together(codes, 0.01).sets


def test_five_columns_that_single_out_only_together_are_told():
    """A Latin-square code: any four columns agree for 3 records or more, all five single out everybody."""
    cells = np.array(list(itertools.product(range(3), repeat=5)))
    names = ["sex", "work", "area", "size", "tongue"]
    table = pa.table({name: [f"{name}{v}" for v in cells[:, k]] for k, name in enumerate(names)})
    found = singling(TableSource(table), names)
    told = [text for text in found.warnings if "more than 99%" in text]
    assert len(told) == 1
    assert all(name in told[0] for name in names)
    assert [text.partition(" (")[0] for text in found.not_tried] == [
        "Every pair and every triple of 5 columns was tried, but only some of the larger combinations"
    ]
    assert not singling(TableSource(table), names[:4]).found


def test_of_four_columns_every_combination_is_tried():
    """Any three columns agree for 3 records, all four single out everybody."""
    cells = np.array(list(itertools.product(range(3), repeat=4)))
    names = ["sex", "work", "area", "size"]
    table = pa.table({name: [f"{name}{v}" for v in cells[:, k]] for k, name in enumerate(names)})
    found = singling(TableSource(table), names)
    assert any(all(name in text for name in names) for text in found.warnings)
    assert found.not_tried == ()


def test_three_columns_are_told_only_where_they_single_out_more_than_two_of_them():
    """A region follows from its area, so with it and the job it singles out what area and job do; hour adds to all."""
    random = np.random.default_rng(3)
    area, job, hour = random.integers(0, 40, 4000), random.integers(0, 60, 4000), random.integers(0, 12, 4000)
    columns = {"area": area, "region": area // 20, "job": job, "hour": hour}
    found = combined({name: (codes, int(codes.max()) + 1) for name, codes in columns.items()})

    def exact(*names):
        return share(list(zip(*(columns[name].tolist() for name in names), strict=True)))

    region = Singled("region", 0.0, *found["region"])
    assert set(region.two) == {"area", "job"}  # the most of three, but what two of them say
    assert region.triple == pytest.approx(exact("area", "job"))
    assert (region.pair or 0.0) <= 0.01 < exact("region", "job", "hour")
    assert set(region.beyond) == {"job", "hour"}
    assert region.more == pytest.approx(exact("region", "job", "hour"))
    table = pa.table({name: pa.array(codes).cast(pa.string()) for name, codes in columns.items()})
    told = [set(one.variables) for one in singling(TableSource(table), list(columns)).found if one.code != "together"]
    assert {"area", "job"} in told
    assert {"region", "job", "hour"} in told
    assert {"area", "region", "job"} not in told


def test_a_triple_of_keys_of_which_one_follows_from_another_is_no_rare_combination_of_its_own():
    random = np.random.default_rng(4)
    area, age = random.integers(0, 12, 200), random.integers(0, 9, 200)
    keys = KeyCodes(("area", "region", "age"), (12, 2, 9), (area, area // 6, age))
    every = {one.variables: (one.cells, one.records) for one in risky_combinations(keys)}
    assert every["area", "region", "age"] == every["area", "age"] != every["region", "age"]
    told = [one.variables for one in adding(risky_combinations(keys))]
    assert ("area", "age") in told
    assert ("area", "region", "age") not in told
    assert ("area", "region") not in told
