"""Brute force and linear algebra, written without the package's own algorithms: what fast paths are compared with."""

from itertools import combinations, product

import mpmath
import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog
from scipy.special import xlogy


def information(joint):
    """I(X;Z) in nats from a joint table (rows true, columns released)."""
    joint = np.asarray(joint, dtype=float)
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / outer[seen])).sum())


def uniform_offdiagonal(q):
    """The matrix of ABC (8) for the diagonal q."""
    q = np.asarray(q, dtype=float)
    matrix = np.repeat(((1 - q) / (q.size - 1))[:, None], q.size, axis=1)
    np.fill_diagonal(matrix, q)
    return matrix


def vertices(C, b, chunk=100_000):
    """Every vertex of {q: C q <= b}, by solving every square subsystem."""
    size, found = C.shape[1], []
    systems = combinations(range(len(C)), size)
    while batch := [rows for rows, _ in zip(systems, range(chunk), strict=False)]:
        rows = np.array(batch)
        regular = np.abs(np.linalg.det(C[rows])) > 1e-9
        points = np.linalg.solve(C[rows[regular]], b[rows[regular]][..., None])[..., 0]
        found.append(points[(points @ C.T <= b + 1e-9).all(axis=1)])
    return np.unique(np.concatenate(found).round(9), axis=0)


def sign_patterns(size, epsilon):
    """The vertices that ABC's Proposition 2 lists, as diagonals (all 2^S sign patterns, v_min, v_max)."""
    grown = np.exp(epsilon)
    high, low = grown / (grown + size - 1), 1 / (1 + grown * (size - 1))
    patterns = np.array(list(product((low, high), repeat=size)))
    least = np.full((size, size), high)
    np.fill_diagonal(least, (1 / grown) / (grown + size - 1))
    most = np.full((size, size), low)
    np.fill_diagonal(most, grown / (1 / grown + size - 1))
    return np.concatenate([patterns, least, most])


def best_of_family(p, diagonals):
    """The largest information over the given diagonals of ABC (8)."""
    return float(_information_of_family(np.asarray(p, dtype=float), diagonals).max())


def best_of_family_exactly(p, epsilon, diagonals, digits=40):
    """The largest information over vertices of ABC (11), each solved anew and evaluated with ``digits`` digits.

    The diagonals carry some 12 decimals: they tell which constraints are tight, and which few can be best.
    """
    with mpmath.workdps(digits):
        p = [mpmath.mpf(x) for x in p]
        p = [x / sum(p) for x in p]
        values = _information_of_family(np.array(p, dtype=float), diagonals)
        near = diagonals[values >= values.max() - 2e-11]
        return float(max(_exact_information(p, _exact_vertex(q, mpmath.exp(epsilon))) for q in near))


def _exact_vertex(q, grown):
    """Solve ``M[i,j] = M[k,j]`` or ``e^ε M[k,j]`` for the entries of M that the float diagonal makes tight."""
    size, rows, right = len(q), [], []
    off = (1 - q) / (size - 1)
    # An entry of column j is (row, constant, factor of q): q_j itself, or (1 - q_i)/(S-1) for another row i.
    for j in range(size):
        column = [(i, 0, 1) if i == j else (i, 1, -1) for i in range(size)]
        level = [q[i] if i == j else off[i] for i in range(size)]
        for a in range(size):
            for b in range(size):
                if a != b and abs(level[a] - float(grown) * level[b]) < 1e-8:
                    row, constant = [mpmath.mpf(0)] * size, mpmath.mpf(0)
                    for (i, free, slope), factor in ((column[a], mpmath.mpf(1)), (column[b], -grown)):
                        scale = factor / (1 if free == 0 else size - 1)
                        row[i] += slope * scale
                        constant += free * scale
                    rows.append(row)
                    right.append(-constant)
    pivots = qr(np.array(rows, dtype=float).T, mode="r", pivoting=True)[1][:size]  # linearly independent rows
    return list(mpmath.lu_solve(mpmath.matrix([rows[k] for k in pivots]), mpmath.matrix([right[k] for k in pivots])))


def _information_of_family(p, diagonals):
    off = (1 - diagonals) / (p.size - 1)
    marginal = (off @ p)[:, None] + p * (diagonals - off)
    return (xlogy(diagonals, diagonals) + (p.size - 1) * xlogy(off, off)) @ p - xlogy(marginal, marginal).sum(axis=1)


def _exact_information(p, q):
    def plogp(x):
        return x * mpmath.log(x) if x > 0 else mpmath.mpf(0)

    size = len(p)
    off = [(1 - x) / (size - 1) for x in q]
    common = sum(x * o for x, o in zip(p, off, strict=True))
    rows = sum(x * (plogp(d) + (size - 1) * plogp(o)) for x, d, o in zip(p, q, off, strict=True))
    return rows - sum(plogp(common + x * (d - o)) for x, d, o in zip(p, q, off, strict=True))


def staircase(p, epsilon):
    """The largest information of any ε-DP channel: the linear programme over all 2^S column patterns."""
    p = np.asarray(p, dtype=float)
    patterns = np.array(list(product((0, 1), repeat=p.size)), dtype=float)[1:]
    columns = 1 + (np.exp(epsilon) - 1) * patterns
    mass = columns @ p
    gain = (columns * np.log(columns)) @ p - mass * np.log(mass)
    scale = gain.max()
    answer = linprog(-gain / scale, A_eq=columns.T, b_eq=np.ones(p.size), method="highs-ipm")
    return float(-answer.fun * scale)


def covariance(matrix, p):
    """n times the covariance of the unbiased estimate of p from n released values."""
    released = p @ matrix
    inverse = np.linalg.inv(matrix.T)
    return inverse @ (np.diag(released) - np.outer(released, released)) @ inverse.T


def hockey_stick(own, other, epsilon):
    """Σ max(0, own - e^ε other)."""
    return float(np.maximum(np.asarray(own) - np.exp(epsilon) * np.asarray(other), 0).sum())
