"""The counts of values that one record has, of every type that is counted by sorting, against plain Python."""

import datetime
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.data.frames import TableSource
from postrand.plan import infer
from postrand.risk import sample as sampling
from postrand.risk.sample import sampled

DAYS = st.dates(datetime.date(1990, 1, 1), datetime.date(1990, 1, 9))
VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(2**64 - 9, 2**64 - 1) | st.integers(0, 3),
    pa.int64(): st.integers(-3, 3) | st.integers(-(2**63), -(2**63) + 3),
    pa.float32(): st.sampled_from([0.5, 1.5, -2.0, math.inf]),
    pa.float64(): st.sampled_from([0.5, 1.5, -2.0, math.nan, math.inf, 1e-300]),
    pa.date32(): DAYS,
    pa.timestamp("us"): DAYS.map(lambda day: datetime.datetime(day.year, day.month, day.day)),
    pa.bool_(): st.booleans(),
    pa.string(): st.text("ab", max_size=2),
}


def alone(values):
    return sum(count == 1 for count in Counter("NaN" if v != v else v for v in values).values())


@pytest.mark.parametrize("of", VALUES, ids=str)
@pytest.mark.parametrize("merged", [0, 5, 1 << 20])
def test_values_of_one_record_are_counted(of, merged):
    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.lists(st.none() | VALUES[of], max_size=12), min_size=1, max_size=9))
    def check(parts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "_MERGE", merged)
            chunks = [pa.array(part, of) for part in parts]
            source = TableSource(pa.table({"x": pa.chunked_array(chunks, of)}))
            assert sampled(source, ["x"], ["x"]).alone["x"] == alone([v for part in parts for v in part])

    check()


@pytest.mark.parametrize("merged", [1, 1 << 20])
@pytest.mark.parametrize("kind", [int, float, str])
def test_more_values_than_are_counted_are_left_to_the_sample(monkeypatch, merged, kind):
    values = [kind(v) for v in range(300)]
    for most, wanted in ((300, 300), (299, None)):
        monkeypatch.setattr(sampling, "MAX_VALUES", most)
        monkeypatch.setattr(sampling, "_MERGE", merged)
        chunks = pa.chunked_array([values[:100], values[100:200], values[200:]])
        assert sampled(TableSource(pa.table({"x": chunks})), ["x"], ["x"]).alone["x"] == wanted


KEYS = {
    "numbered": (np.arange(900), True),
    "numbered downwards": (np.arange(900)[::-1].copy(), True),
    "blocks in another order": (np.r_[600:900, 0:300, 300:600], True),
    "with gaps": (np.arange(900) * 7, True),
    "at random": (np.random.default_rng(1).permutation(900), True),
    "two blocks meet": (np.r_[0:300, 300:600, 599:899], False),
    "twice in another block": (np.r_[0:300, 10**6 : 10**6 + 299, 5, 700:1000], False),
    "the ends of the type": (np.array([2**63 - 1, -(2**63)] * 1 + list(range(898))), True),
}


@pytest.mark.parametrize("what", KEYS)
def test_whole_numbers_that_are_all_different_are_proposed_as_record_key(what):
    values, different = KEYS[what]
    chunks = pa.chunked_array([values[:300], values[300:600], values[600:]])
    notes = infer.infer(TableSource(pa.table({"id": chunks})), roles={})[0]["notes"]
    assert any("record_key" in note for note in notes) == different
