"""Minimal combinations of many columns that single out records: against trying every subset."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.data.frames import TableSource
from postrand.risk.findings import singling
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
    told = [text for text in singling(TableSource(table), names).warnings if "more than 99%" in text]
    assert len(told) == 1
    assert all(name in told[0] for name in names)
    assert not singling(TableSource(table), names[:4]).found
