"""The compiled loops: those in C and those of numba, against each other and against plain Python."""

import importlib.util
import itertools
import math
import os
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.mechanism.matrix import UNIT
from postrand.support import loops, numba_loops, plain_loops
from tests import sampling_reference as reference

TOP = 2**64 - 1
EXTENSION = importlib.util.find_spec("postrand.support._loops")


def implementations():
    """Numba's loops, and those in C unless nothing was compiled; then test_the_loops_were_compiled fails."""
    found = [numba_loops]
    if EXTENSION is not None:
        found.append(importlib.import_module("postrand.support._loops"))
    return found


each = pytest.mark.parametrize("kind", implementations(), ids=lambda kind: kind.__name__.rpartition(".")[2])
SIZES = [1, 2, 3, 4, 5, 64, 127, 128, 129, 500, 512, 513, 1000, 1024, 1025, 2048]


def code_type(size):
    return np.min_scalar_type(-size)


def narrowed(numbers, dtype):
    """The low bits of each number, as the loops store them."""
    bits = 8 * np.dtype(dtype).itemsize
    return [((int(n) + (1 << bits - 1)) % (1 << bits)) - (1 << bits - 1) for n in numbers]


def some_words(n, seed=1):
    """Words with the ends of their range in both lanes, then words at random."""
    ends = [0, 1, 2047, 2048, 2**63 - 1, 2**63, 2**63 + 2048, TOP - 2048, TOP - 1, TOP]
    drawn = np.random.default_rng(seed).integers(0, 2**64, (n, 2), dtype=np.uint64)
    for lane in range(2):
        drawn[: len(ends), lane] = ends[:n]
    return drawn


def some_weights(size, seed=1):
    """Rows that sum to 2^53: at random, with zeros, one-hot, equal, and all but one unit in one place."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((size, size), dtype=np.int64)
    for i in range(size):
        cuts = rng.integers(0, UNIT, size - 1, endpoint=True)
        rows[i] = np.diff([0, *np.sort(cuts).tolist(), UNIT])
    rows[0] = 0
    rows[0, -1] = UNIT
    if size > 1:
        rows[1] = UNIT // size
        rows[1, 0] += UNIT % size
    if size > 2:
        rows[2] = 0
        rows[2, [0, -1]] = UNIT - 1, 1
    return rows


def draw(kind, words, codes, law, bits, released, loop=loops.ROWS, lane=1, start=0):
    """Draw one block, which reads that lane of the only slot; what the lanes before it draw is nobody's."""
    nobody = [(loop, codes, law, bits, np.empty_like(codes)) for _ in range(lane)]
    kind.draw(words[None], start, (*nobody, (loop, codes, law, bits, released)))


def made_tables(kind, weights):
    size = len(weights)
    bits = max(1, (size - 1).bit_length())
    entries = np.full((size + 1, 1 << bits), (1 << (11 + bits)) - 1, dtype=np.uint64)
    kind.fill_tables(weights, bits, entries)
    return bits, entries


def test_the_loops_were_compiled():
    """Where tests count (CI), the package was built with its extension, and uses it."""
    if os.environ.get("CI") == "true":
        assert EXTENSION is not None, "postrand.support._loops is missing: install a C compiler, then `make env`"
    assert (loops.draw is numba_loops.draw) == (EXTENSION is None)


@pytest.mark.parametrize("kind", [loops, plain_loops], ids=lambda kind: kind.__name__.rpartition(".")[2])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("to", ["int8", "int16", "int32", "int64"])
def test_what_is_looked_up_beyond_a_table_is_its_last_entry(kind, dtype, to):
    for size in (1, 4, 16, 17):  # a table of bytes fits into a register up to 16
        table = np.random.default_rng(size).permutation(np.arange(-50, 50))[:size].astype(to)
        ends = [-1, np.iinfo(dtype).min, np.iinfo(dtype).max, size - 2, size - 1, size]
        indices = np.array([*ends, *np.random.default_rng(1).integers(0, size, 4200)], dtype=dtype)
        out = np.zeros(indices.size + 1, dtype=to)[1:]  # not aligned
        kind.look_up(table, indices, out)
        held = table.tolist()
        assert out.tolist() == [held[i if 0 <= i < size else -1] for i in indices.tolist()]


@each
@pytest.mark.parametrize("size", SIZES)
def test_tables_are_walkers(kind, size):
    weights = some_weights(size)
    bits, entries = made_tables(kind, weights)
    assert entries[0].tolist() == [(1 << (11 + bits)) - 1] * (1 << bits)  # the row of code -1 is left alone
    for row in {*range(min(size, 5)), size - 1}:
        _, buckets = reference.alias_row(weights[row].tolist())
        assert entries[row + 1].tolist() == [threshold << (11 + bits) | alias for threshold, alias in buckets]


@pytest.mark.parametrize("size", SIZES)
def test_whole_tables_are_the_same(size):
    first, *others = [made_tables(kind, some_weights(size, seed=2))[1] for kind in implementations()]
    for other in others:
        np.testing.assert_array_equal(first, other)


@each
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lane", [0, 1])
def test_draws_are_the_table_s(kind, size, lane):
    n = 700
    weights, words = some_weights(size), some_words(n)
    bits, entries = made_tables(kind, weights)
    for dtype in {np.dtype(np.int32), np.dtype(np.int64), code_type(size)}:
        codes = (np.arange(n + 9) % (size + 1) - 1).astype(dtype)
        released = np.full(n + 9, 77, dtype=dtype)
        draw(kind, words, codes, entries.reshape(-1), bits, released, lane=lane, start=4)
        expected = []
        for code, word in zip(codes[4 : n + 4].tolist(), words[:, lane].tolist(), strict=True):
            entry, bucket = int(entries[code + 1, word >> (64 - bits)]), word >> (64 - bits)
            rest, threshold = word >> 11 & ((1 << 53 - bits) - 1), entry >> (11 + bits)
            alias = entry & (1 << (11 + bits)) - 1
            expected.append(bucket if rest < threshold else -1 if code < 0 else alias)
        assert released[4:-5].tolist() == expected
        assert set(released[:4].tolist() + released[-5:].tolist()) == {77}  # nothing else was written


@each
@pytest.mark.parametrize("bits", [1, 2, 9, 10])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_one_row_is_read_as_it_is_documented(kind, bits, dtype):
    """Any thresholds and any first and last alias: more than the laws need."""
    n, rng = 700, np.random.default_rng(bits)
    words, field = some_words(n), (1 << bits) - 1
    threshold = rng.integers(0, 1 << 53 - bits, (2 << bits), dtype=np.uint64)
    first, last = np.sort(rng.integers(0, field, (2, 2 << bits), dtype=np.uint64, endpoint=True), axis=0)
    entries = threshold << np.uint64(11 + bits) | last << np.uint64(bits) | first
    codes = (np.arange(n) % (min(1 << bits, 127) + 1) - 1).astype(dtype)
    released, expected = np.full(n, 77, dtype=dtype), []
    draw(kind, words, codes, entries, bits, released, loops.ONE_ROW)
    for code, word in zip(codes.tolist(), words[:, 1].tolist(), strict=True):
        bucket, rest = divmod(word >> 11, 1 << 53 - bits)
        place = 2 * bucket + (bucket >= code)
        alias = min(max(code, int(first[place])), int(last[place]))
        expected.append(-1 if code < 0 else bucket if rest < threshold[place] else alias)
    assert released.tolist() == narrowed(expected, dtype)


@each
@given(size=st.integers(1, 9), given_words=st.lists(st.integers(0, TOP), min_size=1, max_size=30))
def test_draws_are_those_of_the_law(kind, size, given_words):
    weights, words = some_weights(size, seed=len(given_words)), np.array(given_words, dtype=np.uint64).reshape(-1, 1)
    bits, entries = made_tables(kind, weights)
    codes = (np.arange(len(words)) % (size + 1) - 1).astype(np.int8)
    released = np.empty_like(codes)
    draw(kind, words, codes, entries.reshape(-1), bits, released, lane=0)
    law = weights.tolist()
    assert released.tolist() == [
        reference.draw_one(law, c, w) for c, w in zip(codes.tolist(), given_words, strict=True)
    ]


@each
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("size", [1, 2, 3, 100, 30_000])
def test_stay_or_move_divides_what_is_off_the_diagonal(kind, dtype, size):
    if size > np.iinfo(dtype).max:
        size = 120
    n = 600 if size < 1000 else 60
    off = np.random.default_rng(size).integers(0, UNIT // size, size, endpoint=True)
    off[0] = 0  # always stays
    off[-1] = UNIT // max(size - 1, 1) if size > 1 else 0  # always moves, or nearly
    law, words = np.concatenate([[0], off]), some_words(n, seed=size)
    codes = (np.arange(n) % (size + 1) - 1).astype(dtype)
    codes[-1] = size - 1
    released = np.full(n, 77, dtype=dtype)
    draw(kind, words, codes, law, 0, released, loops.STAY_OR_MOVE)
    expected = []
    for code, word in zip(codes.tolist(), words[:, 1].tolist(), strict=True):
        share = int(law[code + 1])
        others = [c for c in range(size) if c != code]
        moves = code >= 0 and word >> 11 < len(others) * share
        expected.append(others[(word >> 11) // share] if moves else code)
    assert released.tolist() == expected


@each
@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_blocks_of_every_kind_are_drawn_in_one_call_each_from_its_own_word(kind, lanes):
    """Also in place, where true codes are those that are written."""
    n, size, start, slots = 5_000, 12, 3, 4
    rng = np.random.default_rng(lanes)
    words = rng.integers(0, 2**64, (slots, n, lanes), dtype=np.uint64)
    bits, entries = made_tables(kind, some_weights(size))
    _, one_row = made_tables(kind, some_weights(2))  # anything of the right length: 2 x 2^bits entries
    off = np.concatenate([[0], rng.integers(0, UNIT // size, size, endpoint=True)])
    laws = [
        (loops.ROWS, entries.reshape(-1), bits),
        (loops.STAY_OR_MOVE, off, 0),
        (loops.ONE_ROW, one_row[:2].ravel(), 1),
    ]
    types, blocks, alone, copies = ["int8", "int16", "int64"], [], [], []
    for b in range(slots * lanes - lanes // 2):  # of the last slot, not every lane is used
        loop, law, held = laws[b % 3]
        codes = rng.integers(-1, 2 if loop == loops.ONE_ROW else size, n + start).astype(types[b // 3 % 3])
        blocks.append((loop, codes, law, held, np.full_like(codes, 77)))
        word = np.ascontiguousarray(words[b // lanes, :, b % lanes]).reshape(1, n, 1)
        alone.append(np.full_like(codes, 77))
        kind.draw(word, start, ((loop, codes, law, held, alone[-1]),))
        copies.append((loop, own := codes.copy(), law, held, own))
    kind.draw(words, start, tuple(blocks))
    kind.draw(words, start, tuple(copies))
    for (_, codes, *_, released), (*_, own), expected in zip(blocks, copies, alone, strict=True):
        assert released.tolist() == expected.tolist()
        assert own[start:].tolist() == expected[start:].tolist()
        assert own[:start].tolist() == codes[:start].tolist()
    kind.draw(words, start, ())


@each
@pytest.mark.parametrize("n", [50, 5_000])
def test_digits_are_joined_modulo_the_word(kind, n):
    start, rng, number = 3, np.random.default_rng(n), np.full(n, 77, dtype=np.uint64)
    bases, types = (2**40 + 1, 7, 2**64 - 1, 40), ("int8", "int16", "int32", "int64")
    columns = tuple(rng.integers(-1, 100, n + start + 2).astype(dtype) for dtype in types)
    kind.join_digits(number, bases, columns, start)
    for i in range(n):
        wanted = 0
        for base, column in zip(bases, columns, strict=True):
            wanted = wanted * base + int(column[start + i]) + 1
        assert number[i] == wanted % 2**64
    kind.join_digits(number, (), (), 0)
    assert not number.any()


@each
@pytest.mark.parametrize("starts", [[0], [0, 1], [0, 7, 7, 19], [0, 39], [5, 6]])
def test_runs_are_shuffled_by_fisher_and_yates(kind, starts):
    places = np.random.default_rng(1).permutation(40).astype(np.int64)
    words, expected = some_words(40)[:, 0].copy(), places.tolist()
    for start, end in zip(starts, [*starts[1:], 40], strict=True):
        for i in range(end - 1, start, -1):
            j = start + (int(words[i]) * (i - start + 1) >> 64)
            expected[i], expected[j] = expected[j], expected[i]
    kind.shuffle_runs(places, np.array(starts, dtype=np.int64), words)
    assert places.tolist() == expected


@each
@pytest.mark.parametrize("targets", [0, 1, 7, 64])
@pytest.mark.parametrize("starts", [[0], [0, 3, 3, 20], [2, 30], [0, 30]], ids=str)
def test_heads_weigh_their_own_cells(kind, starts, targets):
    """To the last bit: sums are in the order of cells, and products are rounded before they are added."""
    rng = np.random.default_rng(targets)
    tail, weights, shares = rng.random((5, targets)), rng.random(30), rng.random(30)
    tails, most, total = rng.integers(0, 5, 30), *np.full((2, len(starts), targets), np.nan)
    kind.weigh_cells(tail, tails, weights, shares, np.array(starts), most, total)
    for head, (start, end) in enumerate(zip(starts, [*starts[1:], 30], strict=True)):
        for x in range(targets):
            own = [(float(tail[tails[i], x]), float(weights[i]), float(shares[i])) for i in range(start, end)]
            wanted = 0.0
            for factor, _, share in own:
                wanted += factor * share
            assert most[head, x] == max((factor * weight for factor, weight, _ in own), default=0.0)
            assert total[head, x] == wanted


def some_cells(seed=1):
    """Four margins of 50 cells among 12 columns, weights of the cells, and a symmetric matrix of the columns."""
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(3 * m, 3 * m + 3, 50) for m in range(4)], axis=1).astype(np.int32)
    half = rng.standard_normal((12, 12))
    return index, rng.random(50), half + half.T


@each
def test_tables_are_swept_from_margin_to_margin(kind):
    """To the last bit: sums are in the order of cells."""
    index, mu, _ = some_cells()
    first, following = index[:, 0].copy(), index[:, 1] - np.int32(3)
    ratio, out, expected = np.array([2.0, 0.3, 1.7]), np.full(4, np.nan), mu * np.array([2.0, 0.3, 1.7])[first]
    kind.scale_and_sum(mu, first, ratio, following, out)
    assert mu.tolist() == expected.tolist()
    assert out.tolist() == np.bincount(following, weights=expected, minlength=4).tolist()


@each
def test_quadratic_forms_and_products_are_those_of_the_design_matrix(kind):
    index, mu, covariance = some_cells()
    design, out, matrix = np.zeros((50, 12)), np.full(50, np.nan), np.ones((12, 12))
    np.put_along_axis(design, index.astype(np.intp), 1.0, axis=1)
    kind.leverage(covariance, index, out)
    np.testing.assert_allclose(out, np.einsum("ia,ab,ib->i", design, covariance, design), rtol=1e-12)
    kind.sum_products(index, mu, matrix)
    np.testing.assert_allclose(matrix - 1, np.triu((design.T * mu) @ design), rtol=1e-12, atol=1e-13)


@each
def test_wildcards_agree_with_every_code(kind):
    rng = np.random.default_rng(1)
    codes, counts = rng.integers(-1, 2, (30, 3)).astype(np.int32), rng.integers(1, 9, 30)
    matches, rows = np.zeros(30, dtype=np.int64), codes.tolist()
    kind.wildcard_matches(codes, counts, matches)
    for a, mine in enumerate(rows):
        alike = [b == a or all(x == y or -1 in (x, y) for x, y in zip(mine, rows[b], strict=True)) for b in range(30)]
        assert matches[a] == counts[alike].sum()


@each
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_permanents_are_sums_over_all_orders(kind, size):
    rng = np.random.default_rng(size)
    entries, found = rng.random((5, 7)), np.full((4, 70), np.nan)
    true, released = rng.integers(0, 5, (4, size)).astype(np.int32), rng.integers(0, 7, (size, 70)).astype(np.int32)
    kind.permanents(entries, true, released, found)
    orders = itertools.permutations(range(size))
    wanted = sum(math.prod(entries[true[:, i], :][:, released[j]] for i, j in enumerate(order)) for order in orders)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@each
@pytest.mark.parametrize("size", [1, 2, 11, 200])
def test_codes_move_along_their_ladder(kind, size):
    """Against a search in plain numpy, with rows that never and always move, and numbers on a step."""
    rng = np.random.default_rng(size)
    codes = rng.integers(0, size, 3_000).astype(code_type(size))
    drawn, keep = rng.random((2, codes.size)), rng.random(size)
    keep[0], drawn[:, :5] = 0.0, 0.0
    ladder = np.cumsum(rng.dirichlet(np.ones(size), size), axis=1)
    steps, last = ladder + np.arange(size)[:, None], rng.integers(0, size, size)
    drawn[1, 5:9] = ladder[codes[5:9].astype(int), 0]
    found, x = codes.copy(), codes.astype(int)
    kind.move_codes(found, drawn, keep, steps, last)
    place = [int(np.searchsorted(steps[a], a + w, "right")) for a, w in zip(x.tolist(), drawn[1], strict=True)]
    assert found.tolist() == np.where(drawn[0] < keep[x], codes, np.minimum(place, last[x])).tolist()


@each
@pytest.mark.parametrize("single", [True, False])
def test_matches_are_drawn_as_the_generator_draws(kind, single):
    """Against the generator's own methods, called one by one: the same numbers, from the same stream."""
    others = np.array([0.0, 0.2, 3.0, 9.99, 10.0, 11.5, 80.0, 1e6] * 4)
    own, scale, found = np.linspace(0.05, 1, 32), np.array([0.4, 1.0, 3.0]), np.full(3, np.nan)
    expected, rng, beside = np.exp(-others / 10), np.random.default_rng(5), np.random.default_rng(5)
    kind.match_draws(own, others, expected, single, scale, found, rng)
    for drawn, by in zip(found.tolist(), scale.tolist(), strict=True):
        chances, total = np.minimum(own * by, 1.0), 0.0
        for chance, mean in zip(chances.tolist(), others.tolist(), strict=True):
            if beside.random() < chance:
                more = int(beside.poisson(mean))
                total += (more == 0) if single else 1 / (1 + more)
        whole, held = float((own * expected).sum()), float((chances * expected).sum())
        assert drawn == pytest.approx(total * by * whole / held, rel=1e-12)
    assert rng.random() == beside.random()


def test_loops_of_risk_are_the_same_to_the_last_bit():
    index, mu, covariance = some_cells(seed=2)
    found = []
    for kind in implementations():
        out, matrix, draws = np.zeros(50), np.zeros((12, 12)), np.zeros(20)
        kind.leverage(covariance, index, out)
        kind.sum_products(index, mu, matrix)
        kind.match_draws(mu, 30 * mu, out, False, np.linspace(0.5, 2, 20), draws, np.random.default_rng(3))
        pairs, three = np.zeros((50, 50)), np.ascontiguousarray(index[:, :3])
        kind.permanents(covariance**2, three, np.ascontiguousarray(three.T), pairs)
        found.append([out.tolist(), matrix.tolist(), draws.tolist(), pairs.tolist()])
    assert all(one == found[0] for one in found)


@each
def test_no_records_are_no_work(kind):
    nothing, words = np.empty(0, dtype=np.int8), np.empty((0, 2), dtype=np.uint64)
    bits, entries = made_tables(kind, some_weights(3))
    draw(kind, words, nothing, entries.reshape(-1), bits, nothing)
    draw(kind, words, nothing, np.zeros(4, dtype=np.int64), 0, nothing, loops.STAY_OR_MOVE)
    kind.join_digits(np.empty(0, dtype=np.uint64), (3,), (nothing,), 0)
    kind.shuffle_runs(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint64))
    assert nothing.size == 0


def risk_refusals():
    """Calls of the loops of risk with cells, columns or numbers that are not there."""
    index, mu, covariance = some_cells()
    first, three, rng = index[:, 0].copy(), np.ones(3), np.random.default_rng(1)
    counts, matrix, mean = np.ones(50, dtype=np.int64), covariance.copy(), np.ones(50)
    wide, matrix50 = np.ascontiguousarray(index.T), np.ones((50, 50))
    two, square, last = np.ones((2, 50)), np.ones((3, 3)), np.ones(3, dtype=np.int64)
    return {
        "a cell that the margin has not": ("scale_and_sum", (mu, first + np.int32(1), three, first, three.copy())),
        "a cell below the margin's": ("scale_and_sum", (mu, first - np.int32(1), three, first, three.copy())),
        "a cell that the next margin has not": ("scale_and_sum", (mu, first, three, first, np.ones(2))),
        "fewer cells than the table": ("scale_and_sum", (mu, first[1:].copy(), three, first, three.copy())),
        "wide cells": ("scale_and_sum", (mu, first.astype(np.int64), three, first, three.copy())),
        "too few counts": ("wildcard_matches", (index, counts[1:].copy(), counts.copy())),
        "no room for matches": ("wildcard_matches", (index, counts, counts[1:].copy())),
        "a column that is not there": ("leverage", (covariance, index + np.int32(1), mu)),
        "a matrix that is not square": ("leverage", (covariance[:, :5].copy(), index, mu)),
        "a product beyond the matrix": ("sum_products", (index - np.int32(1), mu, matrix)),
        "too few numbers": ("sum_products", (index, mu[1:].copy(), matrix)),
        "a code that no row is of": ("move_codes", (first + np.int32(3), two, three, square, last)),
        "a code below the first": ("move_codes", (first - np.int32(1), two, three, square, last)),
        "too few drawn": ("move_codes", (first, two[:, 1:].copy(), three, square, last)),
        "a row without steps": ("move_codes", (first, two, three, square[1:].copy(), last)),
        "a true cell that is not there": ("permanents", (covariance, index + np.int32(1), wide, matrix50)),
        "a released cell below the first": ("permanents", (covariance, index, wide - np.int32(1), matrix50)),
        "no room for pairs": ("permanents", (covariance, index, wide, matrix)),
        "other numbers of members": ("permanents", (covariance, index, wide[:2].copy(), matrix50)),
        "no mean": ("match_draws", (mu, mean * np.nan, mean, True, three, three.copy(), rng)),
        "a mean below zero": ("match_draws", (mu, -mean, mean, True, three, three.copy(), rng)),
        "more draws than room": ("match_draws", (mu, mean, mean, True, three, np.ones(2), rng)),
        "fewer expectations": ("match_draws", (mu, mean, three, True, three, three.copy(), rng)),
    }


def refusals():
    """Calls that would read or write what is not theirs, or another type than the loop's."""
    words, codes, out = some_words(8), np.zeros(8, dtype=np.int8), np.zeros(8, dtype=np.int8)
    entries, off = made_tables(numba_loops, some_weights(3))[1].reshape(-1), np.zeros(4, dtype=np.int64)
    locked = out.copy()
    locked.setflags(write=False)
    number, places, starts = words[:, 0].copy(), np.arange(8), np.array([0])
    tail, five, rows = np.ones((3, 2)), np.ones(5), np.zeros((1, 2))
    text, room = np.full(20, 97, dtype=np.uint8), np.zeros(2, dtype=np.int32)
    tails, wide, three = np.zeros(5, dtype=np.int64), np.zeros((1, 3)), words[None]

    def block(kind=loops.ROWS, codes=codes, law=entries, bits=2, released=out):
        return ((kind, codes, law, bits, released),)

    return {
        "a tail that is not there": ("weigh_cells", (tail, tails + 3, five, five, starts, rows, rows.copy())),
        "a tail below zero": ("weigh_cells", (tail, tails - 1, five, five, starts, rows, rows.copy())),
        "too few weights": ("weigh_cells", (tail, tails, five[:4].copy(), five, starts, rows, rows.copy())),
        "too few shares": ("weigh_cells", (tail, tails, five, five[:4].copy(), starts, rows, rows.copy())),
        "heads beyond the cells": ("weigh_cells", (tail, tails, five, five, np.array([6]), rows, rows.copy())),
        "heads out of order": ("weigh_cells", (tail, tails, five, five, np.array([3, 1]), tail[:2].copy(), rows)),
        "other targets": ("weigh_cells", (tail, tails, five, five, starts, wide, rows)),
        "narrow weights": ("weigh_cells", (tail, tails, five.astype("f4"), five, starts, rows, rows.copy())),
        "ends beyond the data": ("match_texts", (places[:2], text, np.array([0, 21]), text, -2, room[:1])),
        "ends before the data": ("match_texts", (places[:2], text, np.array([-1, 3]), text, -2, room[:1])),
        "ends that descend": ("match_texts", (places[:2], text, np.array([3, 2]), text, -2, room[:1])),
        "known texts beyond theirs": ("match_texts", (places * 9, text, np.array([0, 3]), text, -2, room[:1])),
        "an end too few": ("match_texts", (places[:2], text, np.array([0, 3]), text, -2, room[:2])),
        "no end for a text": ("end_texts", (places[:2], room[:2], places[:2].copy())),
        "the place of no text": ("end_texts", (places[:2], room[:2] + np.int32(1), places[:3].copy())),
        "narrow ends": ("end_texts", (places[:2], room[:2], np.zeros(3, dtype=np.int8))),
        "a text too many": ("copy_texts", (places[:2], text, room[:2], text[:17].copy())),
        "a text too few": ("copy_texts", (places[:2], text, room[:1], text[:18].copy())),
        "a text that is not there": ("copy_texts", (places[:2], text, room[:1] - np.int32(1), text[:17].copy())),
        "texts without bytes to spare": ("copy_texts", (places[:2], text[:16].copy(), room[:1], text[:17].copy())),
        "no table": ("look_up", (codes[:0].copy(), codes, out)),
        "more indices than room": ("look_up", (codes, codes, out[:7].copy())),
        "room for other numbers": ("look_up", (codes, codes, out.astype(np.int16))),
        "too few arguments": ("draw", (three, 0)),
        "codes that end early": ("draw", (three, 0, block(codes=codes[:7].copy()))),
        "a start beyond the end": ("draw", (three, 1, block())),
        "a start before the beginning": ("draw", (three, -1, block())),
        "released codes that end early": ("draw", (three, 0, block(released=out[:7].copy()))),
        "more blocks than words": ("draw", (three, 0, 3 * block())),
        "blocks that are no tuple": ("draw", (three, 0, [*block()])),
        "a block that is no tuple": ("draw", (three, 0, ([*block()[0]],))),
        "a block with too few parts": ("draw", (three, 0, (block()[0][:4],))),
        "a second block that does not fit": ("draw", (three, 0, block() + block(codes=codes[:7].copy()))),
        "no such law": ("draw", (three, 0, block(3))),
        "a law below the first": ("draw", (three, 0, block(-1))),
        "words of one dimension": ("draw", (number, 0, block())),
        "words of two dimensions": ("draw", (words, 0, block())),
        "strided words": ("draw", (three[:, :, :1], 0, block())),
        "strided codes": ("draw", (three[:, :4].copy(), 0, block(codes=codes[::2]))),
        "signed words": ("draw", (three.astype(np.int64), 0, block())),
        "narrow words": ("draw", (three.astype(np.uint32), 0, block())),
        "unsigned codes": ("draw", (three, 0, block(codes=codes.astype(np.uint8)))),
        "floats": ("draw", (three, 0, block(codes=codes.astype(float)))),
        "two types of codes": ("draw", (three, 0, block(released=out.astype(np.int16)))),
        "nothing to write to": ("draw", (three, 0, block(released=locked))),
        "tables of other bits": ("draw", (three, 0, block(law=entries[:4].copy()))),
        "one row of other bits": ("draw", (three, 0, block(1, law=entries[:4].copy()))),
        "no bits": ("draw", (three, 0, block(bits=0))),
        "bits that are no number": ("draw", (three, 0, block(bits=None))),
        "a law of floats": ("draw", (three, 0, block(2, law=off.astype(float)))),
        "a narrow law": ("draw", (three, 0, block(2, law=off.astype(np.int32)))),
        "a law of nothing": ("draw", (three, 0, block(2, law=off[:1].copy()))),
        "codes that end early for a law": ("draw", (three, 0, block(2, law=off, codes=codes[:7].copy()))),
        "codes that end early for digits": ("join_digits", (number, (3,), (codes,), 1)),
        "a base below zero": ("join_digits", (number, (-1,), (codes,), 0)),
        "a base beyond a word": ("join_digits", (number, (2**64,), (codes,), 0)),
        "a column without a base": ("join_digits", (number, (3,), (codes, codes), 0)),
        "a second column that ends early": ("join_digits", (number, (3, 3), (codes, codes[:7].copy()), 0)),
        "more digits than a word has": ("join_digits", (number, (2,) * 65, (codes,) * 65, 0)),
        "columns that are no tuple": ("join_digits", (number, (3,), [codes], 0)),
        "weights that are not square": ("fill_tables", (np.zeros((2, 3), dtype=np.int64), 2, np.zeros((3, 4), "u8"))),
        "tables of other weights": ("fill_tables", (np.zeros((3, 3), dtype=np.int64), 2, np.zeros((3, 4), "u8"))),
        "too few buckets": ("fill_tables", (np.zeros((3, 3), dtype=np.int64), 1, np.zeros((4, 2), "u8"))),
        "runs out of order": ("shuffle_runs", (places, np.array([3, 1]), number)),
        "runs beyond the end": ("shuffle_runs", (places, np.array([9]), number)),
        "too few words": ("shuffle_runs", (places, starts, number[:7].copy())),
        "no array": ("shuffle_runs", (places, starts, "words")),
        **risk_refusals(),
    }


@pytest.mark.parametrize("what", refusals())
def test_the_loops_in_c_refuse_what_does_not_fit(what):
    name, arguments = refusals()[what]
    for kind in implementations()[1:]:
        with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
            getattr(kind, name)(*arguments)
    assert callable(getattr(loops, name))


def test_the_loops_in_c_want_a_generator_of_numpy():
    for kind in implementations()[1:]:
        with pytest.raises(AttributeError, match="bit_generator"):
            kind.match_draws(*np.ones((3, 2)), True, np.ones(1), np.ones(1), object())


RELEASE = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
WITHOUT
from postrand.plan import load_plan
from postrand.release import verify
from postrand.support.randomness import ReleaseKey
from postrand.workflow.draft import initialise
from postrand.workflow.pipeline import run

table = {"sex": ["F", "M", "M"] * 200 + ["M", "F", "F"] * 200, "place": [f"place {i % 300}" for i in range(1200)]}
pq.write_table(pa.table(table), "survey.parquet")
_, plan = initialise(Path("survey.parquet"), Path("work"), {"key": ["sex"], "other": ["place"]})
run(load_plan(plan), Path("release"), release_key=ReleaseKey.from_seed(1))
assert verify("release").verdict == "verified"
print("numba" in sys.modules)
"""


def released(folder, without=""):
    folder.mkdir()
    script = RELEASE.replace("WITHOUT", without)
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes() for path in sorted((folder / "release").rglob("*")) if path.is_file()}
    return done.stdout.split()[-1], files


def test_a_release_needs_no_compiler_and_is_the_same_with_one(tmp_path):
    """In processes of their own: with the extension numba is never imported; without it the bytes are the same."""
    imported, files = released(tmp_path / "with")
    assert imported == str(EXTENSION is None)
    imported, others = released(tmp_path / "without", 'sys.modules["postrand.support._loops"] = None')
    assert imported == "True"
    assert files == others


def test_what_a_computer_compiles_does_not_change_which_program_renders():
    from postrand.release import rendering

    names = [name for name, _ in rendering._walk(resources.files("postrand"), "")]
    assert [name for name in names if "/_loops." in name] == ["support/_loops.pyi"]


def test_a_compilation_is_told_as_a_stage_and_then_what_it_was_needed_for():
    from postrand.support import jit
    from postrand.support.progress import Stage, Step, listening, stage

    place: dict = {}
    exec("def one_more(number):\n    return number + 1\n", place)  # without a file, so that nothing is kept on disk
    one_more = jit.compiled(place["one_more"])
    steps: list[Step] = []
    with listening(steps.append):
        stage(Stage.READING)
        assert (one_more(1), one_more(1)) == (2, 2)
    assert steps == [Step(Stage.READING), Step(Stage.COMPILING), Step(Stage.READING)]


def test_numba_caches_elsewhere_where_the_package_is_read_only(tmp_path):
    """The compiled loops are kept in NUMBA_CACHE_DIR, or in the user's folder; a second process loads them."""
    (package := tmp_path / "room").mkdir()
    (package / "__pycache__").write_text("not a folder, so that nothing can be kept here")
    (package / "loop.py").write_text(
        "from postrand.support.jit import compiled\n@compiled\ndef double(x):\n    return 2 * x\n"
    )
    script = "import loop; loop.double(1); print(*loop.double.stats.cache_hits.values(), loop.double.stats.cache_path)"
    homes = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / "cache")}
    paths = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    for named in ({}, {"NUMBA_CACHE_DIR": str(tmp_path / "named")}):
        told = []
        for _ in range(2):
            variables = os.environ | homes | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"} | named
            done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
            told.append(done.stdout.split())
        assert len(told[0]) == 1
        assert told[1][0] == "1"
        assert told[1][-1].startswith(named.get("NUMBA_CACHE_DIR", str(tmp_path / "home")))
