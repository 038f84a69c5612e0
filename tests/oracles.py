"""Brute force and linear algebra, written without the package's own algorithms: what fast paths are compared with."""

from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog


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
    p = np.asarray(p, dtype=float)
    off = (1 - diagonals) / (p.size - 1)
    rows = np.where(diagonals > 0, diagonals * np.log(np.maximum(diagonals, 1e-300)), 0) + (p.size - 1) * np.where(
        off > 0, off * np.log(np.maximum(off, 1e-300)), 0
    )
    marginal = (off @ p)[:, None] + p * (diagonals - off)
    entropy = np.where(marginal > 0, marginal * np.log(np.maximum(marginal, 1e-300)), 0).sum(axis=1)
    return float((rows @ p - entropy).max())


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
