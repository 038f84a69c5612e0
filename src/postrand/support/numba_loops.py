"""The compiled loops of releases and risk, in Python: compiled by numba when first called, then kept on disk.

They say what each loop does, and serve where ``_loops.c`` was not compiled: see :mod:`postrand.support.loops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postrand.support.jit import compiled

if TYPE_CHECKING:
    from postrand.support._loops import Block


def draw(words: NDArray[np.uint64], start: int, blocks: tuple[Block, ...]) -> None:
    """Write the released codes of the n records from ``start``, of every block.

    ``words`` is (slots, n, lanes): block b reads word ``b mod lanes`` of slot ``b div lanes``. A block is its kind of
    law, true codes, the numbers of the law, their bits (of tables), and where released codes are written.
    """
    lanes = words.shape[2]
    for place, (kind, codes, law, bits, released) in enumerate(blocks):
        loop = (draw_rows, draw_one_row, stay_or_move)[kind]
        loop(words[place // lanes], place % lanes, codes, start, law, bits, released)


@compiled
def draw_rows(words, lane, codes, start, entries, bits, released):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the released codes of the n codes from ``start``; ``words`` is (n, lanes), ``entries`` as in AliasTables.

    Of an entry, the alias is stored: its low 11 + bits with their sign, as the row of code -1 has them all set.
    """
    # Cut here and not by the caller: a slice takes the interpreter longer than fifty draws.
    codes, released = codes[start : start + words.shape[0]], released[start : start + words.shape[0]]
    up, down, above = np.uint64(bits), np.uint64(64 - bits), np.uint64(53 - bits)
    low = np.uint64((1 << (11 + bits)) - 1)
    for i in range(codes.size):
        word = words[i, lane]
        bucket = word >> down
        # Unsigned, so that no load pays for Python's negative indices.
        entry = entries[(np.uint64(np.int64(codes[i]) + 1) << up) + bucket]
        # With the low bits set on the left, the alias field never decides: rest < threshold, and nothing else.
        alias = np.int64(entry << above) >> np.int64(above)
        released[i] = np.int64(bucket) if ((word << up) | low) < entry else alias


@compiled
def draw_one_row(words, lane, codes, start, entries, bits, released):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the released codes of the n codes from ``start``; ``entries`` as in ConstantTables."""
    codes, released = codes[start : start + words.shape[0]], released[start : start + words.shape[0]]
    up, down = np.uint64(bits), np.uint64(64 - bits)
    low, mask = np.uint64((1 << (11 + bits)) - 1), np.uint64((1 << bits) - 1)
    for i in range(codes.size):
        word, code = words[i, lane], np.int64(codes[i])
        bucket = np.int64(word >> down)
        entry = entries[np.uint64(2 * bucket + (code <= bucket))]
        first, last = np.int64(entry & mask), np.int64((entry >> up) & mask)
        alias = first if code < first else code  # selections of what is there, so that none becomes a branch
        alias = last if alias > last else alias
        drawn = bucket if ((word << up) | low) < entry else alias
        released[i] = drawn if code >= 0 else -1


@compiled
def stay_or_move(words, lane, codes, start, off, _, released):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the released codes of the n codes from ``start``; ``off`` as in StayOrMove, 0 for code -1; no bits."""
    codes, released = codes[start : start + words.shape[0]], released[start : start + words.shape[0]]
    others = off.size - 2
    for i in range(codes.size):
        code = np.int64(codes[i])
        value = np.int64(words[i, lane] >> np.uint64(11))
        share = off[code + 1]
        if value < others * share:
            other = value // share
            released[i] = other + (other >= code)
        else:
            released[i] = code


def join_digits(
    number: NDArray[np.uint64], bases: tuple[int, ...], columns: tuple[NDArray[Any], ...], start: int
) -> None:
    """Write the n numbers whose digits are ``code + 1`` of each column, from ``start``, in these bases, modulo 2^64."""
    number[:] = 0
    for base, codes in zip(bases, columns, strict=True):
        _append_digit(number, base, codes, start)


@compiled
def _append_digit(number, base, codes, start):  # type: ignore[no-untyped-def]  # numba finds the types
    """Make each of the n numbers ``number x base + code + 1``, for the codes from ``start``."""
    codes = codes[start : start + number.size]
    base = np.uint64(base)
    for i in range(number.size):
        number[i] = number[i] * base + np.uint64(np.int64(codes[i]) + 1)


@compiled
def fill_tables(weights, bits, entries):  # type: ignore[no-untyped-def]  # numba finds the types
    """Fill rows 1..S of ``entries``, (S + 1, 2^bits), by Walker's method in ascending order, in integers.

    Every category below one bucket takes its alias from the first category that still has more than one bucket; a donor
    that falls below becomes such a category at once.
    """
    size, buckets = weights.shape[0], 1 << bits
    unit = np.int64(1) << (53 - bits)
    rest = np.empty(buckets, dtype=np.int64)
    for row in range(size):
        rest[:] = 0
        rest[:size] = weights[row]
        small = rest < unit
        entry = entries[row + 1]
        for j in range(buckets):
            entry[j] = np.uint64(j)  # full: threshold 0, alias itself
        donor = _next_donor(rest, unit, 0)
        for j in range(buckets):
            if not small[j]:
                continue
            taker = j
            while True:
                entry[taker] = (np.uint64(rest[taker]) << np.uint64(11 + bits)) | np.uint64(donor)
                rest[donor] -= unit - rest[taker]
                if rest[donor] >= unit:
                    break
                taker = donor
                donor = _next_donor(rest, unit, donor + 1)
            if rest[donor] == unit:
                donor = _next_donor(rest, unit, donor + 1)


@compiled
def _next_donor(rest, unit, start):  # type: ignore[no-untyped-def]  # numba finds the types
    while start < rest.size and rest[start] <= unit:
        start += 1
    return start


@compiled
def shuffle_runs(places, starts, words):  # type: ignore[no-untyped-def]  # numba finds the types
    """Shuffle each run of ``places`` (n,) by Fisher and Yates, with one 64-bit word for each place.

    The index is the high half of word times run length: the numbers of words for two indices differ by at most one.
    """
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for run in range(starts.size):
        start = starts[run]
        end = starts[run + 1] if run + 1 < starts.size else places.size
        for i in range(end - 1, start, -1):
            length, word = np.uint64(i - start + 1), words[i]
            # A run is shorter than 2^32, so the 96-bit product needs two partial ones.
            j = start + np.int64(((word >> half) * length + (((word & low) * length) >> half)) >> half)
            places[i], places[j] = places[j], places[i]


@compiled
def weigh_cells(tail, tails, weights, shares, starts, most, total):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the largest weight of each head's cells into ``most``, and the sum of shares into ``total``.

    They are ``tail[t] weight`` and ``tail[t] share``. Cell i has the tail ``t = tails[i]``, a row of ``tail`` (S, X),
    all >= 0; the cells of head h are those from ``starts[h]`` up to the next head's. ``most`` and ``total`` are (P, X),
    0 where a head has no cells.
    """
    most[:], total[:] = 0.0, 0.0
    for head in range(starts.size):
        end = starts[head + 1] if head + 1 < starts.size else tails.size
        for cell in range(starts[head], end):
            factor, weight, share = tail[tails[cell]], weights[cell], shares[cell]
            for x in range(factor.size):
                weighed = factor[x] * weight
                if weighed > most[head, x]:
                    most[head, x] = weighed
                total[head, x] += factor[x] * share


@compiled
def scale_and_sum(mu, index, ratio, next_index, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Multiply each cell by the ratio of its margin cell, and sum the result into the next margin, in one pass."""
    out[:] = 0.0
    for i in range(mu.size):
        value = mu[i] * ratio[index[i]]
        mu[i] = value
        out[next_index[i]] += value


@compiled
def wildcard_matches(codes, counts, matches):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the summed counts of the cells that agree with each cell, a code of -1 agreeing with every code."""
    cells, keys = codes.shape
    matches[:] = counts
    for a in range(cells):
        for b in range(a + 1, cells):
            agree = True
            for j in range(keys):
                x, y = codes[a, j], codes[b, j]
                if x != y and x >= 0 and y >= 0:
                    agree = False
                    break
            if agree:
                matches[a] += counts[b]
                matches[b] += counts[a]


@compiled
def leverage(covariance, index, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write ``z_j' A z_j`` of each cell, ``z_j`` having a one in each column that its row of ``index`` names."""
    cells, margins = index.shape
    for i in range(cells):
        total = 0.0
        for a in range(margins):
            first = index[i, a]
            total += covariance[first, first]
            for b in range(a):
                total += 2.0 * covariance[first, index[i, b]]
        out[i] = total


@compiled
def sum_products(index, mu, matrix):  # type: ignore[no-untyped-def]  # numba finds the types
    """Add each cell's ``mu`` to every pair of the columns that its row of ``index`` names, the earlier margin first."""
    cells, margins = index.shape
    for i in range(cells):
        value = mu[i]
        for a in range(margins):
            first = index[i, a]
            for b in range(a, margins):
                matrix[first, index[i, b]] += value


@compiled
def move_codes(codes, drawn, keep, steps, last):  # type: ignore[no-untyped-def]  # numba finds the types
    """Replace the code x of each record by a released one; it stays where ``drawn[0, i] < keep[x]``.

    Others move to the place of ``x + drawn[1, i]`` among ``steps[x]``, which ascend from x to x + 1: the number of
    those that are no larger, and ``last[x]`` at most.
    """
    for i in range(codes.size):
        code = np.int64(codes[i])
        if drawn[0, i] >= keep[code]:
            value, first, left = code + drawn[1, i], 0, keep.size
            while left > 0:
                half = left // 2
                if steps[code, first + half] <= value:
                    first, left = first + half + 1, left - half - 1
                else:
                    left = half
            codes[i] = min(first, last[code])


@compiled
def permanents(table, true, released, out):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the permanent of ``table[true[a], released[:, b]]`` into ``out[a, b]``, by sums over subsets.

    ``table`` (K, L) has entries >= 0, ``true`` is (A, s), ``released`` (s, B), s >= 1.
    """
    size, lanes = true.shape[1], 32
    held = np.empty((1 << size, lanes))
    entry = np.empty((size, size, lanes))
    for a in range(true.shape[0]):
        for start in range(0, released.shape[1], lanes):
            many = min(lanes, released.shape[1] - start)
            for i in range(size):
                for j in range(size):
                    for k in range(many):
                        entry[i, j, k] = table[true[a, i], released[j, start + k]]
            held[0, :] = 1.0
            for subset in range(1, 1 << size):
                row, left = -1, subset
                while left:
                    row, left = row + 1, left & (left - 1)
                held[subset, :] = 0.0
                for j in range(size):
                    if subset >> j & 1:
                        for k in range(many):
                            held[subset, k] += held[subset ^ (1 << j), k] * entry[row, j, k]
            for k in range(many):
                out[a, start + k] = held[(1 << size) - 1, k]


@compiled
def match_draws(own, others, expected, single, scale, found, rng):  # type: ignore[no-untyped-def]  # numba finds the types
    """Write the matches of drawn files, ``Σ 1[keys stayed]/F``, or ``Σ 1[keys stayed, F = 1]`` where ``single``.

    Record i kept its keys with probability ``own[i]`` and then shares them with Poisson(``others[i]``) units; if so it
    adds ``expected[i]`` on average. The expectation of draw d is ``scale[d]`` times as large: by larger ``own`` up to
    1, and what is left by the sum.
    """
    found[:], whole = 0.0, (own * expected).sum()
    for d in range(scale.size):
        held = 0.0
        for i in range(own.size):
            chance = min(own[i] * scale[d], 1.0)
            held += chance * expected[i]
            if rng.random() < chance:
                more = rng.poisson(others[i])
                found[d] += (more == 0) if single else 1.0 / (1.0 + more)
        if held > 0.0:
            found[d] *= scale[d] * whole / held
