"""The sampler draws the exact law: integer oracles, invariance, and statistics with mutants that must be rejected."""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.errors import DataError
from postrand.mechanism import Block, Split, sampling
from postrand.mechanism.constant_tables import ConstantTables
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.sampling import CHUNK, AliasTables, StayOrMove, draw, perturb_codes, sampler
from postrand.mechanism.split_sampling import chosen, cumulated, grouped, split_words, subset_sampler
from postrand.support import jit, memory
from postrand.support.memory import room_for
from postrand.support.randomness import words
from tests import sampling_reference as reference
from tests.stats import dependent, power, rejects

KEY = bytes(range(32))


@st.composite
def laws(draw_from, largest=17):
    """Matrices with zeros, one-hot rows, single units and sizes that are no power of two."""
    size = draw_from(st.integers(1, largest))
    rows = []
    for _ in range(size):
        cuts = draw_from(
            st.lists(
                st.one_of(st.integers(0, UNIT), st.sampled_from([0, 1, UNIT - 1, UNIT, UNIT // 2])),
                min_size=size - 1,
                max_size=size - 1,
            )
        )
        rows.append(np.diff([0, *sorted(cuts), UNIT]))
    return TransitionMatrix(np.array(rows, dtype=np.int64))


def random_law(size, seed=1):
    weights = np.random.default_rng(seed).dirichlet(np.full(size, 0.3), size=size)
    weights[0] = np.eye(size)[size - 1]
    return TransitionMatrix.from_array(weights)


def row_numbers(size, start=0):
    return np.arange(start, start + size, dtype=np.uint64)


@given(laws())
def test_tables_reproduce_every_weight(matrix):
    assert np.array_equal(AliasTables.of(matrix).weights(), matrix.weights)
    for row in matrix.weights.tolist():
        drawn = reference.law(row)
        assert drawn[: matrix.size] == row
        assert not any(drawn[matrix.size :])


@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 129, 1000])
def test_tables_of_large_and_awkward_sizes(size):
    matrix = random_law(size)
    assert np.array_equal(AliasTables.of(matrix).weights(), matrix.weights)


def test_large_epsilon_is_held_to_the_unit():
    matrix = randomised_response(3, 35.0)
    held = AliasTables.of(matrix).weights()
    assert np.array_equal(held, matrix.weights)
    assert not np.array_equal(held, (matrix.array.astype(np.float32) * UNIT).astype(np.int64))  # the mutant: float law


@given(
    laws(), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30), st.sampled_from(["int8", "int16", "int32"])
)
def test_draws_equal_the_reference(matrix, given_words, dtype):
    codes = np.arange(len(given_words)) % (matrix.size + 1) - 1
    released = draw(AliasTables.of(matrix), codes.astype(dtype), np.array(given_words, dtype=np.uint64))
    law = matrix.weights.tolist()
    assert released.dtype == dtype
    assert released.tolist() == [
        reference.draw_one(law, c, w) for c, w in zip(codes.tolist(), given_words, strict=True)
    ]


@given(laws(largest=9))
def test_draws_at_every_threshold(matrix):
    """The words on either side of each bucket's threshold, with the unused 11 bits all zero and all one."""
    tables, law = AliasTables.of(matrix), matrix.weights.tolist()
    for code, row in enumerate(law):
        bits, buckets = reference.alias_row(row)
        unit = 2 ** (53 - bits)
        values = [
            b * unit + r for b, (t, _) in enumerate(buckets) for r in {0, max(t - 1, 0), min(t, unit - 1), unit - 1}
        ]
        tried = [value << 11 | low for value in values for low in (0, 2047)]
        released = draw(tables, np.full(len(tried), code, dtype=np.int8), np.array(tried, dtype=np.uint64))
        assert released.tolist() == [reference.draw_one(law, code, word) for word in tried]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_small_laws_are_drawn_to_the_unit(size):
    tables, matrix = AliasTables.of(random_law(size)), random_law(size)
    assert np.array_equal(tables.weights(), matrix.weights)
    for code, row in enumerate(matrix.weights.tolist()):
        bits, buckets = reference.alias_row(row)
        unit = 2 ** (53 - bits)
        values = [b * unit + r for b, (t, _) in enumerate(buckets) for r in {0, max(t - 1, 0), t % unit, unit - 1}]
        released = draw(tables, np.full(len(values), code, dtype=np.int8), np.array(values, dtype=np.uint64) << 11)
        assert released.tolist() == [reference.draw_one(matrix.weights.tolist(), code, v << 11) for v in values]


def test_a_code_stays_or_moves_at_the_ends_of_the_intervals():
    law = StayOrMove.of(Constant(np.array([UNIT - 20, UNIT - 10, UNIT]), np.array([10, 5, 0])))
    words_of = np.array([0, 4, 5, 9, 10, 19, 20, UNIT - 1], dtype=np.uint64) << 11
    wanted = {0: [1, 1, 1, 1, 2, 2, 0, 0], 1: [0, 0, 2, 2, 1, 1, 1, 1], 2: [2] * 8, -1: [-1] * 8}
    for code, released in wanted.items():
        assert draw(law, np.full(8, code, dtype=np.int8), words_of).tolist() == released
    with pytest.raises(DataError, match=r"-1\.\.2"):
        draw(law, np.array([3], dtype=np.int8), words_of[:1])


def test_which_way_draws_follows_from_the_law(monkeypatch):
    monkeypatch.setattr(sampling, "ONE_ROW_FROM", 70)
    monkeypatch.setattr(sampling, "TABLE_SIZE", 80)
    for size, kind in ((69, AliasTables), (70, ConstantTables), (80, ConstantTables), (81, StayOrMove)):
        weights = randomised_response(size, 3.0).weights
        assert isinstance(sampler(TransitionMatrix(weights)), kind)
        weights[0, :2] += (1, -1)
        assert isinstance(sampler(TransitionMatrix(weights)), AliasTables)
    off = np.array([2**40] + [1] * 69)
    assert isinstance(sampler(TransitionMatrix.constant(UNIT - 69 * off, off)), AliasTables)


def test_codes_outside_the_matrix_are_refused():
    tables = AliasTables.of(random_law(3))
    for wrong in (3, -2):
        with pytest.raises(DataError, match=r"-1\.\.2"):
            draw(tables, np.array([0, wrong], dtype=np.int8), np.zeros(2, dtype=np.uint64))
        with pytest.raises(DataError, match=r"-1\.\.2"):
            perturb_codes([tables], KEY, row_numbers(2), [np.array([0, wrong], dtype=np.int8)])


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("in_place", [False, True])
def test_every_block_is_drawn_from_its_own_word_however_many_there_are(blocks, in_place, monkeypatch):
    """Chunks of three records, and two slots at a time: word b of a record is lane b mod 2 of slot b div 2."""
    monkeypatch.setattr(sampling, "CHUNK", 3)
    monkeypatch.setattr(sampling, "SLOTS", 2)
    rng, keys = np.random.default_rng(blocks), row_numbers(8, 2**64 - 4)
    tables = [AliasTables.of(random_law(size)) for size in range(2, 2 + blocks)]
    codes = [
        rng.integers(-1, table.size, 8).astype([np.int8, np.int16, np.int32][b % 3]) for b, table in enumerate(tables)
    ]
    wanted = [draw(table, codes[b], words(KEY, keys, b // 2)[:, b % 2]) for b, table in enumerate(tables)]
    before = [column.copy() for column in codes]
    found = perturb_codes(tables, KEY, keys, codes, in_place=in_place)
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, wanted, strict=True))
    assert len(found) == blocks
    for column, old, new in zip(codes, before, found, strict=True):
        assert (column is new) == in_place
        assert np.array_equal(column, new if in_place else old)
    strided = [np.repeat(column, 2)[::2] for column in before]
    again = perturb_codes(tables, KEY, keys, strided)
    assert all(np.array_equal(a, b) for a, b in zip(again, wanted, strict=True))
    if blocks:
        with pytest.raises(ValueError, match="zip"):
            perturb_codes(tables[1:], KEY, keys, before)


def test_released_codes_have_lines_of_the_cache_of_their_own():
    shapes = [(64, np.dtype(np.int8)), (65, np.dtype(np.int8)), (3, np.dtype(np.int32)), (32, np.dtype(np.int16))]
    shapes += [(1, np.dtype(np.int8))]
    made = room_for(shapes)
    assert [(column.size, column.dtype) for column in made] == shapes
    starts = [column.__array_interface__["data"][0] for column in made]
    assert [start - starts[0] for start in starts] == [0, 64, 192, 256, 320]


def test_a_subset_is_chosen_by_the_upper_bits_of_its_own_word():
    keys = row_numbers(5, 77)
    for blocks in range(4):
        chooses, draws = split_words(KEY, keys, blocks)
        for word, found in ((blocks, chooses), (blocks + 1, draws)):
            assert np.array_equal(found, words(KEY, keys, word // 2)[:, word % 2])
    assert [part.size for part in split_words(KEY, keys[:0], 1)] == [0, 0]
    tops = [0, 1, 4, 5, UNIT - 1]
    for low in (0, 2047):
        places = chosen(np.array([1, 5, 5, UNIT]), np.array([top << 11 | low for top in tops], dtype=np.uint64))
        assert places.tolist() == [0, 1, 1, 3, 3]  # a subset without weight is never chosen
    shown = [(k, at.tolist()) for k, at in grouped(np.array([3, 0, 3, 3], dtype=np.uint16), 5)]
    assert shown == [(0, [1]), (3, [0, 2, 3])]
    assert not list(grouped(np.array([], dtype=np.uint16), 2))
    assert isinstance(subset_sampler(randomised_response(64, 1.0)), StayOrMove)
    assert isinstance(subset_sampler(randomised_response(63, 1.0)), AliasTables)
    split = Split.of([0.25, 0.75], [Block(name, randomised_response(2, 1.0)) for name in "ab"])
    assert cumulated(split).tolist() == [UNIT // 4, UNIT]


def test_tables_cannot_be_changed():
    law = randomised_response(300, 1.0)
    assert isinstance(law.form, Constant)
    for made in (AliasTables.of(law), ConstantTables.of(law.form)):
        assert not made.entries.flags.writeable


def test_codes_are_checked_up_to_the_ends_of_each_type():
    table = AliasTables.of(random_law(128))
    for codes in ([-1, 127], []):
        assert draw(table, np.array(codes, dtype=np.int16), row_numbers(len(codes))).size == len(codes)
    for wrong in (128, -2):
        with pytest.raises(DataError, match=r"wanted -1\.\.127"):
            draw(table, np.array([5, wrong], dtype=np.int16), row_numbers(2))


@pytest.fixture(scope="module")
def batch():
    """Three blocks (so that one word is left over) of 2.5 chunks, with kept missing values."""
    size, rng = 2 * CHUNK + CHUNK // 2, np.random.default_rng(3)
    tables = [AliasTables.of(random_law(s)) for s in (2, 10, 200)]
    codes = [rng.integers(-1, t.size, size).astype(np.int16 if t.size > 127 else np.int8) for t in tables]
    keys = rng.permutation(row_numbers(size, 2**63 - 50))
    return tables, codes, keys, perturb_codes(tables, KEY, keys, codes)


def test_one_pass_equals_block_by_block(batch):
    tables, codes, keys, released = batch
    for b, (table, column) in enumerate(zip(tables, codes, strict=True)):
        drawn = draw(table, column, words(KEY, keys, b >> 1)[:, b & 1])
        assert np.array_equal(released[b], drawn)
        assert released[b].dtype == column.dtype
        assert ((released[b] == -1) == (column == -1)).all()


@given(st.lists(st.integers(1, 3 * CHUNK), min_size=1, max_size=4), st.integers(0, 2**32))
def test_splitting_and_order_change_nothing(batch, cuts, seed):
    tables, codes, keys, released = batch
    order = np.random.default_rng(seed).permutation(keys.size)
    for part in np.split(order, sorted(c for c in cuts if c < keys.size)):
        again = perturb_codes(tables, KEY, keys[part], [c[part] for c in codes])
        assert all(np.array_equal(a, r[part]) for a, r in zip(again, released, strict=True))


def test_threads_change_nothing(batch):
    tables, codes, keys, released = batch
    parts = np.array_split(np.arange(keys.size), 8)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda p: perturb_codes(tables, KEY, keys[p], [c[p] for c in codes]), parts)
        joined = [np.concatenate(columns) for columns in zip(*found, strict=True)]
    assert all(np.array_equal(a, r) for a, r in zip(joined, released, strict=True))


def test_no_records_are_no_problem(batch):
    tables = batch[0]
    empty = [np.array([], dtype=np.int8)] * 3
    assert [c.size for c in perturb_codes(tables, KEY, row_numbers(0), empty)] == [0, 0, 0]


def test_kernels_work_where_nothing_can_be_cached(monkeypatch):
    compile_it = numba.njit

    def no_place(*functions, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_it(*functions, **options)

    monkeypatch.setattr(numba, "njit", no_place)
    assert jit.compiled(lambda x: x + 1)(2) == 3


SIZE = 200_000
LAW = TransitionMatrix.from_array([[0.7, 0.1, 0.2, 0.0], [0.3, 0.3, 0.2, 0.2], [0.0, 0.0, 1.0, 0.0], [0.25] * 4])


def release(codes, key=KEY, keys=None, blocks=1):
    tables = [AliasTables.of(LAW)] * blocks
    return perturb_codes(tables, key, row_numbers(codes.size) if keys is None else keys, [codes] * blocks)


@pytest.mark.statistical
@pytest.mark.parametrize("code", range(4))
def test_released_values_follow_the_law(code):
    """n = 200,000 a row: a cell off by 0.007 is rejected with power > 0.999."""
    law = LAW.array[code]
    for released in release(np.full(SIZE, code, dtype=np.int8), blocks=3):
        assert not rejects(np.bincount(released, minlength=4), law)


@pytest.mark.statistical
def test_wrong_samplers_are_rejected():
    law, codes = LAW.array[0], np.zeros(SIZE, dtype=np.int8)
    assert power(SIZE, law, [0.693, 0.107, 0.2, 0.0]) > 0.999
    assert power(SIZE, law, [0.6999, 0.1, 0.2, 0.0001]) > 0.999  # a move that has probability zero
    tables = AliasTables.of(LAW)
    mutants = {
        "one draw for the whole column": draw(tables, codes, np.full(SIZE, 2**63 - 1, dtype=np.uint64)),
        "32-bit words": draw(tables, codes, words(KEY, row_numbers(SIZE), 0)[:, 0] & np.uint64(2**32 - 1)),
        "one value in a thousand anything": np.where(row_numbers(SIZE) % 1000 == 0, 3, release(codes)[0]),
        "one value in fifty left clear": np.where(row_numbers(SIZE) % 50 == 0, codes, release(codes)[0]),
    }
    assert {name for name, m in mutants.items() if not rejects(np.bincount(m, minlength=4), law)} == set()


@pytest.mark.statistical
@pytest.mark.parametrize("place", [0, 1, CHUNK - 1, CHUNK, -1])
def test_no_place_is_left_clear(place):
    """Over 1,000 release keys: a place that is never perturbed is rejected with certainty (0.7^1000)."""
    codes = np.zeros(CHUNK + 3, dtype=np.int8)
    part = row_numbers(codes.size)[place : place + 1 or None]
    # One key in ten on the whole batch, the others on the record alone: the splitting test says they are the same.
    released = [
        release(codes, seed.to_bytes(32))[0][place]
        if seed % 10 == 0
        else release(codes[:1], seed.to_bytes(32), part)[0][0]
        for seed in range(1_000)
    ]
    assert not rejects(np.bincount(released, minlength=4), LAW.array[0])
    assert rejects(np.bincount(codes[:1_000], minlength=4), LAW.array[0])  # the mutant: always clear


@pytest.mark.statistical
def test_draws_are_independent():
    """Across blocks that share a cipher block, neighbours, halves (as of two workers), and slots.

    n >= 100,000 pairs: a correlation of 0.03 is rejected with power > 0.999 (n r^2 = 90 against 24);
    the mutant, two workers that start with the same noise, has correlation 1.
    """
    lies = [r != 0 for r in release(np.zeros(SIZE, dtype=np.int8), blocks=4)]

    def crossed(a, b):
        return np.bincount(2 * a + b, minlength=4).reshape(2, 2)

    half = SIZE // 2
    assert not dependent(crossed(lies[0], lies[1]))
    assert not dependent(crossed(lies[0], lies[2]))
    assert not dependent(crossed(lies[1], lies[3]))
    assert not dependent(crossed(lies[0][1:], lies[0][:-1]))
    assert not dependent(crossed(lies[0][:half], lies[0][half:]))
    same_noise = [release(np.zeros(half, dtype=np.int8))[0] != 0 for _ in range(2)]
    assert dependent(crossed(*same_noise))


def test_threads_share_one_heap_where_the_c_library_can(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "_function", lambda name: lambda *numbers: asked.append((name, *numbers)))
    memory.share_heap()
    assert asked == [("mallopt", -8, 1)]  # M_ARENA_MAX of GNU's malloc.h
    monkeypatch.setattr(memory, "_function", lambda name: None)
    memory.share_heap()
