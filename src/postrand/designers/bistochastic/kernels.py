"""Compiled loop of the Birkhoff decomposition; imported only where it is called, since importing numba is slow."""

from __future__ import annotations

import numpy as np

from postrand.support.jit import compiled


@compiled
def peel(rest, column_of, permutations, shares):  # type: ignore[no-untyped-def]  # numba finds the types
    """Take permutations off ``rest`` (S, S) until it is zero, and return how many; ``column_of`` is a first one.

    Each takes the least entry it meets, so that entry becomes zero, and every row that lost its column finds another
    along one augmenting path.
    """
    size = rest.shape[0]
    row_of = np.empty(size, dtype=np.int64)
    for i in range(size):
        row_of[column_of[i]] = i
    came_from = np.empty(size, dtype=np.int64)
    queue = np.empty(size, dtype=np.int64)
    left = np.int64(1) << 53
    count = 0
    while True:
        share = left
        for i in range(size):
            share = min(share, rest[i, column_of[i]])
            permutations[count, i] = column_of[i]
        shares[count] = share
        count += 1
        left -= share
        for i in range(size):
            rest[i, column_of[i]] -= share
        if left == 0:
            return count
        for i in range(size):
            if rest[i, column_of[i]] == 0:
                row_of[column_of[i]] = -1
                column_of[i] = -1
        for start in range(size):
            if column_of[start] < 0:
                _augment(rest, start, column_of, row_of, came_from, queue)


@compiled
def _augment(rest, start, column_of, row_of, came_from, queue):  # type: ignore[no-untyped-def]  # numba finds the types
    """Match row ``start`` by a shortest augmenting path; a bistochastic ``rest`` always has one."""
    size = rest.shape[0]
    came_from[:] = -1
    queue[0] = start
    head, tail = 0, 1
    while True:
        row = queue[head]
        head += 1
        for column in range(size):
            if rest[row, column] > 0 and came_from[column] < 0:
                came_from[column] = row
                if row_of[column] >= 0:
                    queue[tail] = row_of[column]
                    tail += 1
                    continue
                while True:
                    row = came_from[column]
                    before = column_of[row]
                    column_of[row] = column
                    row_of[column] = row
                    if row == start:
                        return
                    column = before
