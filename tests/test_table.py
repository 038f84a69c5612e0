"""Contingency tables against counting by dictionary, dense and sparse, whole and in pieces."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import postrand.data.table as module
from postrand.data.table import ContingencyTable, tally
from postrand.errors import SpecificationError, UsageError

NAMES = ("a", "b", "c")


@st.composite
def coded_records(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=3, max_size=3)))
    n = draw(st.integers(0, 30))
    columns = [draw(st.lists(st.integers(-1, s - 1), min_size=n, max_size=n)) for s in shape]
    weights = draw(st.none() | st.lists(st.integers(0, 9), min_size=n, max_size=n))
    return shape, np.array(columns, dtype=np.int8), None if weights is None else np.array(weights, dtype=float)


def brute_force(columns, weights):
    """Count by dictionary: combinations without -1, and what those with -1 weigh."""
    counts: Counter[tuple[int, ...]] = Counter()
    omitted = 0
    for i, record in enumerate(zip(*columns.tolist(), strict=True)):
        weight = 1 if weights is None else weights[i]
        if -1 in record:
            omitted += weight
        else:
            counts[record] += weight
    return {cell: count for cell, count in counts.items() if count}, omitted


def occupied(table):
    codes, counts = table.occupied()
    assert codes.shape == (counts.size, len(table.shape))
    assert codes.tolist() == sorted(codes.tolist())
    return dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))


@pytest.mark.parametrize("dense_cells", [1 << 22, 0], ids=["dense", "sparse"])
@given(records=coded_records(), cut=st.integers(0, 30))
def test_tally_and_projections_equal_counting_by_hand(dense_cells, records, cut):
    shape, columns, weights = records
    parts = [slice(None, cut), slice(cut, None)]
    batches = [([c[p] for c in columns], None if weights is None else weights[p]) for p in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DENSE_CELLS", dense_cells)
        patch.setattr(module, "_PENDING_CELLS", 2)
        table = tally(NAMES, shape, batches)
        margin = table.project(["c", "a"])
        empty = table.project([])
    expected, omitted = brute_force(columns, weights)
    assert table.is_dense == (dense_cells > 0)
    assert occupied(table) == expected
    assert table.omitted == omitted
    assert table.total == sum(expected.values())
    assert table.uniques() == sum(count == 1 for count in expected.values())
    assert np.array_equal(table.dense().sum(axis=1).T, margin.dense())
    assert margin.shape == (shape[2], shape[0])
    assert (margin.variables, margin.omitted) == (("c", "a"), omitted)
    assert empty.total == table.total
    assert np.array_equal(table.project(NAMES).dense(), table.dense())


def test_counts_keep_their_kind():
    codes = [np.array([0, 1])]
    assert tally(["a"], [2], [(codes, None)]).counts.dtype == np.int64
    assert tally(["a"], [2], [(codes, np.array([0.5, 2.0]))]).counts.tolist() == [0.5, 2.0]
    assert tally(["a"], [2], []).total == 0


def test_a_table_beyond_memory_stays_sparse():
    sizes = [1000] * 6
    rows = np.array([[5, 999], [0, 999], [1, 999], [7, 999], [0, 999], [9, 999]])
    table = tally("abcdef", sizes, [(list(rows), None), (list(rows[:, :1]), None)])
    assert not table.is_dense
    assert occupied(table) == {(5, 0, 1, 7, 0, 9): 2, (999,) * 6: 1}
    assert table.project(["f", "a"]).dense()[9, 5] == 2
    with pytest.raises(UsageError, match="too large for a dense array"):
        table.dense()


def test_a_table_is_a_value():
    given_counts = np.array([1, 2])
    table = ContingencyTable(("a",), (2,), given_counts)
    given_counts[0] = 9
    assert table.counts.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0] = 5


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((("a",), (2, 2), [[1, 1], [1, 1]]), "a different name"),
        ((("a", "a"), (2, 2), [[1, 1], [1, 1]]), "a different name"),
        ((("a",), (0,), []), "an axis is empty"),
        ((("a", "b"), (2**40, 2**40), []), "more than 2\\^63"),
        ((("a",), (2,), [1, 2, 3]), "table's shape"),
        ((("a",), (2,), [1], [0, 1]), "the numbers of cells and counts differ"),
        ((("a",), (3,), [1, 1], [1, 0]), "not ascending"),
        ((("a",), (3,), [1, 1], [1, 3]), "not ascending"),
        ((("a",), (3,), [1, 1], [-1, 1]), "not ascending"),
        ((("a",), (2,), [-1, 1]), "negative or not finite"),
        ((("a",), (2,), [np.nan, 1]), "negative or not finite"),
        ((("a",), (2,), ["x", "y"]), "not numbers"),
    ],
)
def test_a_table_that_is_not_one_is_refused(parts, message):
    names, shape, counts, cells = (*parts, None)[:4]
    cells = cells if cells is None else np.array(cells)
    with pytest.raises(SpecificationError, match=message):
        ContingencyTable(names, shape, np.array(counts), cells)


def test_calls_that_cannot_be_meant_are_refused():
    table = tally(["sex", "area"], [2, 2], [])
    with pytest.raises(UsageError, match=r"2 problems(.|\n)*named twice(.|\n)*did you mean 'area'"):
        table.project(["sex", "sex", "aera"])
    with pytest.raises(UsageError, match=r"outside its variable's range; wanted -1\.\.1"):
        tally(["a"], [2], [([np.array([2])], None)])
    with pytest.raises(UsageError, match="more combinations than 2"):
        tally([f"v{i}" for i in range(10)], [100] * 10, [])
    with pytest.raises(UsageError, match="at least one variable"):
        tally([], [], [([], None)])
