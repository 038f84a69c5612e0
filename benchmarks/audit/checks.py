"""Does the program draw what it publishes? The law, independence, and the exact chances of the sampler."""

import itertools

import numpy as np
from scipy.stats import norm
from tests.stats import p_value

from postrand.mechanism import sampling, split_sampling
from postrand.mechanism.matrix import UNIT

ALPHA = 1e-7
"""The probability that one test rejects a right program; an audit makes some hundreds of tests."""
LAGS = (1, 2, 3, 8_192, 65_536)
"""Beside neighbours in the file: records of the next chunk of words, and of the next batch."""
_SHIFT = np.uint64(64 - sampling.BITS)


def cells_of(block, book):
    """Return the values of each cell of a block, by their codes."""
    if block.cells is not None:
        return [tuple(row) for row in block.cells]
    return list(itertools.product(*(range(_size(book[name])) for name in block.variables)))


def _size(variable):
    return len(variable.categories) + (variable.missing == "category")


def law_problems(seen, case):
    """Return where released counts contradict the published matrices: the row of each unit's true cell."""
    release, found = seen.release, []
    mechanism = release.mechanism
    for unit, members in enumerate(case.waves[-1][1]):
        for member, record in enumerate(members):
            shown = {name: codes[seen.of == unit, member] for name, codes in seen.values[-1].items()}
            true = {name: _code(mechanism.codebook[name], record[name]) for name in record if name in shown}
            for block in mechanism.blocks:
                found += _against(block, mechanism.codebook, true, shown, f"unit {unit + 1}")
            if mechanism.split is not None:
                found += _split_problems(mechanism, true, shown, len(members), f"unit {unit + 1}")
    return found


def _code(variable, value):
    return len(variable.categories) if value is None else variable.categories.index(value)


def _against(block, book, true, shown, where, which=slice(None)):
    cells = {values: place for place, values in enumerate(cells_of(block, book))}
    several = {name: shown[name][which] for name in block.perturbed}
    columns = [several.get(name, np.full(len(next(iter(several.values()))), true[name])) for name in block.variables]
    places = np.array([cells.get(values, len(cells)) for values in zip(*(c.tolist() for c in columns), strict=True)])
    counts = np.bincount(places.astype(np.int64), minlength=len(cells) + 1)
    row = block.matrix.array[cells[tuple(true[name] for name in block.variables)]]
    p = p_value(counts, np.append(row, 0.0)) if places.size else 1.0
    return [f"law of {block.name}, {where}: p = {p:.1e}"] if p < ALPHA else []


def _split_problems(mechanism, true, shown, members, where):
    split, book = mechanism.split, mechanism.codebook
    blank = {name: len(book[name].categories) + 1 for name in split.variables}
    is_shown = {name: shown[name] != blank[name] for name in split.variables}
    found, counts = [], []
    for subset in split.subsets:
        which = np.logical_and.reduce([is_shown[n] == (n in subset.variables) for n in split.variables])
        counts.append(int(which.sum()))
        found += _against(subset.block, book, true, shown, where, which)
    none = int(np.logical_and.reduce([~is_shown[n] for n in split.variables]).sum())
    each = members if split.of_members else 1
    law = [subset.probability / each for subset in split.subsets]
    other = next(iter(is_shown.values())).size - none - sum(counts)
    p = p_value([*counts, none, other], [*law, 1 - 1 / each, 0.0])
    return [*found, *([f"subsets, {where}: p = {p:.1e}"] if p < ALPHA else [])]


def dependence_problems(seen):
    """Return which distances in the file have draws that hang together: of each unit's first variable that changes.

    Of every copy the onlooker sees whether it shows the most frequent outcome of its unit. Under independence, the sum
    of the products of two such residuals has mean 0 and a known variance.
    """
    codes, number = seen.views["values"]
    residual = np.zeros(codes.size)
    for unit in range(seen.of.max() + 1):
        which = seen.of == unit
        often = codes[which] == np.bincount(codes[which], minlength=number).argmax()
        residual[which] = (often - often.mean()) / max(often.std(), 1e-9)
    found = []
    for lag in LAGS:
        if codes.size < lag + 2_000:
            continue
        product = residual[lag:] * residual[:-lag]
        p = 2 * norm.sf(abs(product.sum()) / max(np.sqrt((product**2).sum()), 1e-9))
        if p < ALPHA:
            found.append(f"records {lag} apart in the file: p = {p:.1e}")
    return found


def sampler_problems(release):
    """Return the matrices that the program does not draw to the unit of 2^-53: found by words, and not by chance."""
    mechanism = release.mechanism
    laws = [(block, sampling.sampler(block.matrix)) for block in mechanism.blocks if block.one is None]
    if mechanism.split is not None:
        laws += [(block, split_sampling.subset_sampler(block.matrix)) for block in mechanism.split.blocks]
    return [
        f"sampler of {block.name}: not the published chances"
        for block, law in laws
        if not np.array_equal(drawn_weights(law, rows := rows_of(law)), block.matrix.weights[rows])
    ]


def rows_of(law):
    """Return the rows that are measured: all, or of a large matrix the first and the last."""
    return np.arange(law.size) if law.size <= 64 else np.array([0, 1, law.size - 1])


def drawn_weights(law, rows):
    """Return how many of the 2^53 words give each released code (R, S), by halving runs of words whose ends differ.

    Runs begin as the buckets of the alias tables. Where the ends of a run agree, all its words do: the words of one
    code are one run of a bucket, or of all words.
    """
    size = law.size
    buckets = 1 << max(1, (size - 1).bit_length())
    step = UNIT // buckets
    true = np.repeat(np.arange(rows.size), buckets)
    low = np.tile(np.arange(buckets) * step, rows.size)
    high = low + step - 1
    weights = np.zeros((rows.size, size), dtype=np.int64)
    while true.size:
        first, last = _drawn(law, rows[true], low), _drawn(law, rows[true], high)
        same = (first == last) | (low == high)
        np.add.at(weights, (true[same], first[same]), high[same] - low[same] + 1)
        true, low, high = true[~same], low[~same], high[~same]
        middle = (low + high) // 2
        true, low, high = np.tile(true, 2), np.append(low, middle + 1), np.append(middle, high)
    return weights


def _drawn(law, true, words):
    return sampling.draw(law, true.astype(np.int32), words.astype(np.uint64) << _SHIFT)
