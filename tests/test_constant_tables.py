"""One row of tables for k-RR against the tables of all rows, which Walker's method fills: the same draws everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.mechanism.constant_tables import ConstantTables
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.sampling import AliasTables, draw, sampler


def law(size, off):
    return Constant(np.full(size, UNIT - (size - 1) * off), np.full(size, off))


def buckets_of_all_rows(tables):
    """Threshold and alias of each bucket, (S, 2^k) each."""
    entries = tables.entries.reshape(tables.size + 1, -1)[1:].astype(np.int64)
    return entries >> (11 + tables.bits) & ((UNIT >> tables.bits) - 1), entries & ((1 << tables.bits) - 1)


def buckets_of_one_row(tables):
    """The same, as the docstring of ConstantTables states it."""
    code, bucket = np.ogrid[: tables.size, : 1 << tables.bits]
    entry = tables.entries.reshape(-1, 2)[bucket, (code <= bucket).astype(int)].astype(np.int64)
    field = (1 << tables.bits) - 1
    alias = np.minimum(np.maximum(code, entry & field), entry >> tables.bits & field)
    return entry >> (11 + tables.bits) & ((UNIT >> tables.bits) - 1), alias


def assert_the_same(constant, one_row=None):
    threshold, alias = buckets_of_all_rows(AliasTables.of(TransitionMatrix(constant.weights)))
    given_threshold, given_alias = buckets_of_one_row(one_row or ConstantTables.of(constant))
    # A threshold that only the bucket itself follows decides nothing: both sides release the bucket.
    own = np.arange(threshold.shape[1])
    kept = [np.where(a == own, 0, t) for t, a in ((threshold, alias), (given_threshold, given_alias))]
    np.testing.assert_array_equal(*kept)
    np.testing.assert_array_equal(alias, given_alias)


@given(st.integers(2, 70), st.data())
def test_every_bucket_of_every_row_is_the_same(size, data):
    """Weights at random, at whole buckets (nothing is left over), and one unit beside them."""
    bits = max(1, (size - 1).bit_length())
    exact = st.sampled_from([0, 1, UNIT >> bits, (UNIT >> bits) + 1, (UNIT >> bits) - 1, UNIT // size])
    off = data.draw(st.one_of(exact, st.integers(0, UNIT // size), st.integers(UNIT >> bits, UNIT // size)))
    assert_the_same(law(size, min(off, UNIT // size)))


@pytest.mark.parametrize("size", [257, 384, 511, 512, 513, 1000, 1023, 1024])
def test_every_bucket_of_large_laws_is_the_same(size):
    for epsilon in (1e-9, 0.1, 1.0, 4.0, 12.0, 33.0):
        assert_the_same(randomised_response(size, epsilon).form)


@pytest.mark.parametrize("size", [257, 500, 1000, 1024])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_draws_are_the_same_with_kept_missing_values_and_any_type(size, epsilon):
    matrix, rng = randomised_response(size, epsilon), np.random.default_rng(size)
    words = rng.integers(0, 2**64, 50_000, dtype=np.uint64)
    words[:4] = 0, 2047, 2**63, 2**64 - 1
    for dtype in ("int16", "int32", "int64"):
        codes = rng.integers(-1, size, words.size).astype(dtype)
        released = draw(sampler(matrix), codes, words)
        assert isinstance(sampler(matrix), ConstantTables)
        assert released.dtype == dtype
        np.testing.assert_array_equal(released, draw(AliasTables.of(matrix), codes, words))


@pytest.mark.parametrize("place", [0, 2 * 7, 2 * 7 + 1, 2 * 298 + 1, 2 * 300 + 1])
def test_one_unit_too_many_is_found(place):
    made = ConstantTables.of(law(300, UNIT // 310))
    wrong = made.entries.copy()
    wrong[place] += np.uint64(1 << 20)  # the threshold's lowest bit
    with pytest.raises(AssertionError):
        assert_the_same(law(300, UNIT // 310), ConstantTables(made.size, made.bits, wrong))


def test_a_bucket_that_keeps_one_unit_gives_the_rest_to_the_next():
    assert_the_same(law(70, (UNIT >> 7) + 1))  # X(0) = 1


def test_which_laws_fit():
    fitting = law(300, UNIT // 310)
    assert ConstantTables.fit(fitting)
    assert ConstantTables.fit(law(300, UNIT // 300))
    rows = fitting.off.copy()
    rows[7] -= 1
    assert not ConstantTables.fit(Constant(UNIT - 299 * rows, rows))
    smaller = np.full(300, UNIT // 299)
    assert not ConstantTables.fit(Constant(UNIT - 299 * smaller, smaller))  # an answer is kept less often than changed
