"""Compiled loop of the permutation of ranks; imported only where it is called, because importing numba is slow."""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled


@compiled
def shuffle_runs(places, starts, words):  # type: ignore[no-untyped-def]
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
