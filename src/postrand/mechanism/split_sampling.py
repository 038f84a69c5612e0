"""Draw which subset of a split each record shows, and its released cell: integers and comparisons, no floats.

A mechanism of B blocks uses words 0..B-1 of each record for them, whether it has a split or not. Word B chooses the
subset: its top 53 bits v are compared with the cumulated weights, so subset k has exactly ``weight_k`` of the 2^53
values. Word B + 1 draws the cell by the subset's matrix. Word w is lane ``w mod 2`` of slot ``w div 2``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.sampling import AliasTables, Sampler, StayOrMove
from postrand.mechanism.split import Split
from postrand.support.randomness import WordStream

_SHIFT = np.uint64(11)


def subset_sampler(matrix: TransitionMatrix) -> Sampler:
    """Return the sampler of one subset's matrix; it depends on the matrix only.

    Every matrix that is stored as constant off the diagonal is drawn without tables, at any size: a split has many
    matrices, and together their tables would leave the cache, and at 1,000 cells take 8 MB each.
    """
    return StayOrMove.of(matrix.form) if isinstance(matrix.form, Constant) else AliasTables.of(matrix)


def cumulated(split: Split) -> NDArray[np.int64]:
    """Return the sums of the weights up to each subset, shape (T,); the last is 2^53."""
    return np.cumsum([subset.weight for subset in split.subsets], dtype=np.int64)


def chosen(ends: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the place of the subset that each word chooses, shape (n,): k where ``ends[k-1] <= word >> 11 < ends[k]``.

    >>> ends = np.array([2**51, 2**53])
    >>> chosen(ends, np.array([0, 2**62 - 1, 2**62, 2**64 - 1], dtype=np.uint64))
    array([0, 0, 1, 1], dtype=uint16)
    """
    return np.searchsorted(ends, (words >> _SHIFT).astype(np.int64), side="right").astype(np.uint16)


def grouped(places: NDArray[np.uint16], count: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each subset that some record shows, with the positions of these records, ascending.

    >>> [(k, at.tolist()) for k, at in grouped(np.array([2, 0, 2], dtype=np.uint16), 3)]
    [(0, [1]), (2, [0, 2])]
    """
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=count))
    for k, (end, start) in enumerate(zip(ends.tolist(), [0, *ends[:-1].tolist()], strict=True)):
        if end > start:
            yield k, order[start:end]


def split_words(
    draw_key: bytes, record_keys: NDArray[np.uint64], blocks: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the word of each record that chooses its subset, and the one that draws its cell, shapes (n,)."""
    stream = WordStream(draw_key, max(1, record_keys.size))
    stream.load(record_keys)
    found = []
    for word in (blocks, blocks + 1):
        found.append(stream.words(word // 2)[0, :, word % 2].copy())  # the stream uses its buffer again
    return found[0], found[1]
