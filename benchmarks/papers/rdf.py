"""Ruiz and Domingo-Ferrer, Bistochastic privacy: Table 1, and the decompositions for three categories."""

from __future__ import annotations

import math

import numpy as np
from benchmarks.papers.items import Item

from postrand.designers.bistochastic import birkhoff, blocks, circulant, tridiagonal
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

FIGURES: dict[str, tuple] = {}
TABLES: dict[str, tuple] = {}
SIZE = 12
TWELFTHS = "1 - p11 is divided by 12 there, and 11 entries share it: the rows do not sum to 1 (the next row)"


def band(alpha: float) -> TransitionMatrix:
    return tridiagonal(np.full(SIZE - 1, alpha))


def classes(k: int) -> TransitionMatrix:
    return blocks([k] * (SIZE // k))


def first_row(p11: float) -> TransitionMatrix:
    return circulant([p11] + [(1 - p11) / (SIZE - 1)] * (SIZE - 1))


def percent(matrix: TransitionMatrix) -> float:
    return 100 * matrix.beta


def of_twelfths(p11: float) -> float:
    """Return the percentage from a row of p11 and eleven twelfths of 1 - p11: not a distribution."""
    row = np.array([p11] + [(1 - p11) / SIZE] * (SIZE - 1))
    return float(-100 * (row @ np.log(row)) / math.log(SIZE))


def response(epsilon: float) -> TransitionMatrix:
    """Return expression (2) for three categories; at ε = 0 all entries are equal."""
    return randomised_response(3, epsilon) if epsilon else blocks([3])


def weights(epsilon: float) -> np.ndarray:
    """Return the weights of the permutations that add up to the matrix exactly, the largest first."""
    parts = birkhoff(response(epsilon))
    if parts.matrix() != response(epsilon):
        raise ValueError("the permutations do not add up")
    return np.sort(np.asarray(parts.shares, dtype=np.float64) / 2**53)[::-1]


def printed_sum(epsilon: float) -> str:
    """Return what the three printed permutations with their weights add up to."""
    M, one = response(epsilon).array, np.eye(3)
    total = M[0, 0] * one + M[0, 1] * one[[2, 0, 1]] + M[0, 2] * one[[1, 2, 0]]
    return "the matrix" if np.allclose(total, M, atol=1e-15) else "another matrix"


ITEMS = [
    Item("§2.2, ε = 0, r = 3", "sum of the three printed permutations, 1/3 each", "the matrix", lambda: printed_sum(0)),
    Item("§2.2, ε = 0, r = 3", "permutations needed", "3", lambda: float(len(weights(0.0)))),
    Item("§2.2, ε = 2, r = 3", "sum of the three printed permutations", "the matrix", lambda: printed_sum(2)),
    Item("§2.2, ε = 2, r = 3", "permutations needed", "3", lambda: float(len(weights(2.0)))),
    Item(
        *("§2.2, ε = 2, r = 3", "weight of the identity, e²/(2 + e²)", "0.78", lambda: float(weights(2.0)[0])),
        "cut, not rounded",
    ),
    Item("§2.2, ε = 2, r = 3", "weight of the second permutation", "0.11", lambda: float(weights(2.0)[1])),
    Item("§2.2, ε = 2, r = 3", "weight of the third permutation", "0.11", lambda: float(weights(2.0)[2])),
    *(
        Item("Table 1, differential privacy", f"β, ε = {e}", p, lambda e=e: percent(randomised_response(SIZE, e)))
        for e, p in ((5, "17%"), (3, "60%"), (1, "97%"))
    ),
    Item("Table 1, k-anonymity", "β, k = 2", "28%", lambda: percent(classes(2))),
    Item(
        *("Table 1, k-anonymity", "β, k = 3", "56%", lambda: percent(classes(3))),
        "the printed value is that of k = 4 (the next row)",
    ),
    Item("", "β, k = 4", "56%", lambda: percent(classes(4)), check=True),
    Item("Table 1, k-anonymity", "β, k = 6", "72%", lambda: percent(classes(6))),
    Item("Table 1, tridiagonal", "β, α = 0.1", "24%", lambda: percent(band(0.1))),
    Item(
        *("Table 1, tridiagonal", "β, α = 0.3", "35%", lambda: percent(band(0.3))),
        "the printed value is that of α = 0.2 (the next row)",
    ),
    Item("", "β, α = 0.2", "35%", lambda: percent(band(0.2)), check=True),
    Item("Table 1, tridiagonal", "β, α = 0.4", "40%", lambda: percent(band(0.4))),
    *(
        item
        for q, p in ((0.9, "21%"), (0.6, "63%"), (0.2, "93%"))
        for item in (
            Item("Table 1, circulant", f"β, p11 = {q}", p, lambda q=q: percent(first_row(q)), TWELFTHS),
            Item("", f"the formula with 11 entries of (1 - {q})/12", p, lambda q=q: of_twelfths(q), check=True),
        )
    ),
    Item("§4", "bits of perfect secrecy, log2 12", "3.6", lambda: math.log2(SIZE)),
]
