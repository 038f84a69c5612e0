"""Counts against brute force over pairs of records."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.errors import DataError, UsageError
from postrand.risk.cells import KeyCodes, class_sizes, table
from postrand.risk.counts import k_anonymity, l_diversity, wildcard_frequencies

SHAPE = (3, 2, 4)


@st.composite
def files(draw, lowest=0):
    n = draw(st.integers(1, 25))
    columns = [draw(st.lists(st.integers(lowest, s - 1), min_size=n, max_size=n)) for s in SHAPE]
    return KeyCodes(("a", "b", "c"), SHAPE, tuple(np.array(c, dtype=np.int8) for c in columns))


def agree(x, y):
    return all(a == b or a < 0 or b < 0 for a, b in zip(x, y, strict=True))


def brute_frequencies(keys):
    rows = list(zip(*(c.tolist() for c in keys.codes), strict=True))
    return np.array([sum(agree(x, y) for y in rows) for x in rows])


@given(files())
def test_cells_are_the_distinct_rows_in_order(keys):
    cells = table(keys)
    rows = list(zip(*(c.tolist() for c in keys.codes), strict=True))
    assert [tuple(r) for r in cells.codes.tolist()] == sorted(set(rows))
    assert cells.counts.tolist() == [Counter(rows)[r] for r in sorted(set(rows))]
    assert [tuple(cells.codes[i].tolist()) for i in cells.record_cell] == rows
    assert sorted(class_sizes(keys).tolist()) == sorted(Counter(rows).values())


@given(files(lowest=-1))
def test_k_anonymity_with_wildcards(keys):
    frequency = brute_frequencies(keys)
    cells = table(keys)
    assert wildcard_frequencies(cells)[cells.record_cell].tolist() == frequency.tolist()
    found = k_anonymity(keys)
    assert found.k == frequency.min()
    assert found.records_below == {k: int((frequency < k).sum()) for k in (2, 3, 5)}


@pytest.mark.parametrize("missing", [0.01, 0.4])
def test_both_ways_of_matching_wildcards(missing):
    """With few patterns they are joined, with many every pair of cells is compared."""
    rng = np.random.default_rng(3)
    columns = tuple(np.where(rng.random(300) < missing, -1, rng.integers(0, 9, 300)) for _ in range(4))
    keys = KeyCodes(tuple("abcd"), (9,) * 4, columns)
    cells = table(keys)
    assert wildcard_frequencies(cells)[cells.record_cell].tolist() == brute_frequencies(keys).tolist()


@given(files(), st.data())
def test_l_diversity(keys, data):
    sensitive = np.array(data.draw(st.lists(st.integers(0, 3), min_size=keys.records, max_size=keys.records)))
    classes: dict[tuple[int, ...], list[int]] = {}
    for row, value in zip(zip(*(c.tolist() for c in keys.codes), strict=True), sensitive.tolist(), strict=True):
        classes.setdefault(row, []).append(value)
    shares = [[m / len(v) for m in Counter(v).values()] for v in classes.values()]
    found = l_diversity(keys, sensitive, 4)
    assert found.distinct == min(len(set(v)) for v in classes.values())
    least = min(-sum(p * math.log(p) for p in share) for share in shares)
    assert found.entropy == pytest.approx(math.exp(least), rel=1e-12)


def test_tables_beyond_64_bits_of_cells():
    """Leading keys are merged; counts do not change when irrelevant width is added."""
    rng = np.random.default_rng(1)
    narrow = tuple(rng.integers(0, 3, 200) for _ in range(6))
    small = KeyCodes(tuple("abcdef"), (3,) * 6, narrow)
    wide = KeyCodes(tuple("abcdef"), (5000,) * 6, tuple(c * 1666 for c in narrow))
    a, b = table(small), table(wide)
    assert a.counts.tolist() == b.counts.tolist()
    assert (a.codes * 1666).tolist() == b.codes.tolist()
    assert sorted(class_sizes(small)) == sorted(class_sizes(wide))


def test_codes_are_checked():
    with pytest.raises(DataError, match="outside the range of its variable"):
        KeyCodes(("a",), (2,), (np.array([0, 2]),))
    with pytest.raises(DataError, match="differ in length"):
        KeyCodes(("a", "b"), (2, 2), (np.array([0, 1]), np.array([0])))
    with pytest.raises(UsageError, match="twice"):
        KeyCodes(("a", "a"), (2, 2), (np.array([0]), np.array([0])))
    with pytest.raises(UsageError, match="did you mean 'sex'"):
        KeyCodes(("sex",), (2,), (np.array([0]),)).position("sexx")
    wild = KeyCodes(("a",), (2,), (np.array([-1, 0]),))
    with pytest.raises(UsageError, match="wildcards"):
        l_diversity(wild, np.array([0, 1]), 2)


def test_sub_keys_are_nested():
    """Fewer keys never make classes smaller (metamorphic)."""
    rng = np.random.default_rng(5)
    keys = KeyCodes(tuple("abcd"), (4,) * 4, tuple(rng.integers(0, 4, 500) for _ in range(4)))
    for names in itertools.combinations("abcd", 3):
        assert k_anonymity(keys.select(names)).k >= k_anonymity(keys).k
