"""Tables of pairs as margins of larger tables: against a count of each pair by itself."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.engines.joint import JointCounts, covering

SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=7)


@given(SIZES, st.integers(1, 5000), st.data())
def test_a_covering_contains_every_pair_within_its_room(sizes, most, data):
    every = list(combinations(range(len(sizes)), 2))
    pairs = data.draw(st.lists(st.sampled_from(every), unique=True))
    groups = covering(pairs, sizes, most)
    assert all(any(set(pair) <= set(group) for group in groups) for pair in pairs)
    assert all(len(group) == 2 or math.prod(sizes[block] for block in group) <= most for group in groups)
    assert all(list(group) == sorted(set(group)) for group in groups)
    assert len(groups) <= len(pairs)


@given(SIZES, st.integers(0, 2**32), st.sampled_from([np.int8, np.int32, np.int64]))
def test_margins_are_the_tables_of_the_records_that_have_a_cell(sizes, seed, dtype):
    rng = np.random.default_rng(seed)
    sizes = sizes[:4]
    kept = rng.random(len(sizes)) < 0.5
    blocks = tuple(range(len(sizes)))
    counts, batches = JointCounts(blocks, sizes, kept.tolist()), []
    for n in (0, 1, 200):
        batches.append([rng.integers(-1 if k else 0, s, n).astype(dtype) for s, k in zip(sizes, kept, strict=True)])
        counts.add(batches[-1])
    whole = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    for number in (1, 2):
        for chosen in combinations(blocks, number):
            wanted = np.zeros([sizes[block] for block in chosen], dtype=np.int64)
            for record in zip(*(whole[block].tolist() for block in chosen), strict=True):
                if min(record) >= 0:
                    wanted[record] += 1
            np.testing.assert_array_equal(counts.margin(*chosen), wanted)


@pytest.mark.parametrize("size", [255, 256, 65535, 65536, 1 << 17])
def test_a_kept_missing_value_is_counted_apart_at_the_ends_of_the_number_types(size):
    counts = JointCounts((0,), [size], [True])
    counts.add([np.array([-1, 0, size - 1, -1])])
    assert counts.margin(0)[[0, size - 1]].tolist() == [1, 1]
    assert counts.margin(0).sum() == 2
    assert counts.margin(0).shape == (size,)
