"""Shlomo and Skinner (2012): the numerical example of §3, Figure 1, and the matrices of §4."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from benchmarks.papers import misclassification as mc
from benchmarks.papers import sampling
from benchmarks.papers.drawing import Panel, Series, drawing
from benchmarks.papers.items import Item

from postrand.mechanism.matrix import TransitionMatrix

CELLS, UNITS, POPULATIONS, SAMPLES = 2**16, 1_000_000, 20, 1000
COUNTS = np.array([6, 3, 2, 1])
DRAWN = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.2, 0.2, 0.5, 0.1], [0.1, 0.2, 0.2, 0.5]])


@cache
def population(seed: int) -> np.ndarray:
    return sampling.example_population(np.random.default_rng(seed), UNITS)


def uniques(size: int) -> tuple[float, ...]:
    """Return the expected population uniques over the expected sample uniques, for each drawn population.

    Every unit is in the sample with probability π = size / N, independently: ``Σ π [F=1] / Σ F π (1−π)^(F−1)``.
    """
    pi = size / UNITS
    found = []
    for F in map(population, range(POPULATIONS)):
        found.append(float((F == 1).sum() * pi / (F * pi * (1 - pi) ** np.maximum(F - 1, 0)).sum()))
    return tuple(found)


@cache
def simulated(size: int) -> tuple[sampling.BudgetShare, ...]:
    """Return the shares of cells with F = f among those with f = 1, 2, 3 in 1000 samples, as the paper does."""
    return sampling.whole_cell_shares(population(0), size, SAMPLES, np.random.default_rng(size))


def fewer() -> str:
    first, second = (simulated(size)[0] for size in (5_000, 10_000))
    return (
        f"1000 samples of one of these populations give {first.value:.4f} ± {first.standard_error:.4f} here and "
        f"{second.value:.4f} ± {second.standard_error:.4f} "
        "for sample 2; we know no reading of the text that gives 0.024"
    )


def minuscule() -> str:
    return "yes" if all(s.value < 0.005 for size in (5_000, 10_000) for s in simulated(size)[1:]) else "no"


def probability(expected: float, fraction: float) -> float:
    return float(sampling.unique_given_unique(expected, fraction))


def little_difference() -> str:
    data = sampling.figure_1()
    return "yes" if np.abs(data["0.005"] - data["0.010"]).max() < 0.005 else "no"


def drops() -> str:
    """Return whether the probability is at least 1/e below one expected unit, and below 1e-6 at the average cell."""
    high = all(probability(1, pi) > math.exp(-1) for pi in (0.005, 0.010))
    low = all(probability(UNITS / CELLS, pi) < 1e-6 for pi in (0.005, 0.010))
    return "yes" if high and low else "no"


def figure_1() -> str:
    data = sampling.figure_1()
    across = list(data["lambda"])
    series = (
        Series(across, list(data["0.005"]), "one", "π = 0.005"),
        Series(across, list(data["0.010"]), "mean", "π = 0.010"),
    )
    return drawing("Probability that a sample unique is a population unique", [Panel("", "λ", "probability", series)])


def has_epsilon(found: mc.Misclassification) -> str:
    return "none" if math.isinf(found.epsilon) else "finite"


def recoded() -> str:
    """Return the matrix of recoding categories 1 and 2 of four, released categories in rows as the paper prints it."""
    array = mc.recoding([[0, 1]], 4).matrix.array
    return "; ".join(" ".join(f"{v:g}" for v in column) for column in array.T[[0, 2, 3]])


def printed_swaps() -> np.ndarray:
    """Return the printed matrix of random swapping: ``f_i f_j / C(n,2)``, and ``C(f_j,2) / C(n,2)`` on the diagonal."""
    pairs = math.comb(int(COUNTS.sum()), 2)
    array = np.outer(COUNTS, COUNTS) / pairs
    np.fill_diagonal(array, [math.comb(int(f), 2) / pairs for f in COUNTS])
    return array


def half_of_mixed() -> str:
    """Return whether the printed pairs give this project's matrix, once a mixed pair is shared by its two values."""
    joint = printed_swaps()
    joint = joint / 2 + np.diag(joint.diagonal()) / 2
    given = joint / joint.sum(axis=1, keepdims=True)
    return "yes" if np.allclose(given, mc.swapping(COUNTS).matrix.array, atol=1e-12) else "no"


def invariant(found: mc.Misclassification) -> str:
    v = COUNTS / COUNTS.sum()
    return "v" if np.allclose(v @ found.matrix.array, v, atol=1e-8) else "not v"


def two_stage() -> mc.Misclassification:
    return mc.invariant_two_stage(TransitionMatrix.from_array(DRAWN), COUNTS / COUNTS.sum())


def direct() -> mc.Misclassification:
    return mc.invariant_direct(COUNTS / COUNTS.sum(), 2.0)


def structural_zero() -> str:
    """Return the ε of a matrix that never releases the last category for the first one, as child and doctor."""
    array = DRAWN.copy()
    array[0] = [0.8, 0.1, 0.1, 0.0]
    return has_epsilon(mc.describe("PRAM", TransitionMatrix.from_array(array)))


def bad_is_no_neighbour() -> str:
    """Return whether the bad tables of a small file are those that some neighbouring file cannot give."""
    matrix = TransitionMatrix.from_array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    counts = np.array([3, 2, 2])
    by_rule = mc.bad_outcome_probability(matrix, counts)[0]
    by_enumeration = mc.good_outcome_epsilon(matrix, counts)[1]
    return "yes" if math.isclose(by_rule, by_enumeration, rel_tol=1e-9) else "no"


SWAPS = "they are of unordered pairs of records; (3) needs one record's released value: f_j/(n−1) and (f_i−1)/(n−1)"
ONE_RECORD = "a category with one record never keeps its value, so its diagonal entry is 0"

ITEMS = [
    Item(
        "§3, example",
        "cells k",
        "65,536",
        lambda: float(sampling.example_population(np.random.default_rng(0), 10).size),
    ),
    Item("§3, example", "average cell", "15.3", lambda: UNITS / CELLS),
    Item("§3, example", "threshold 2/ε log(2k/δ)", "77.3", lambda: sampling.rare_threshold(CELLS, 1 / 3, 1 / 3)),
    Item(
        *("§3, example", "cells to suppress: F below", "78"),
        lambda: float(math.ceil(sampling.rare_threshold(CELLS, 1 / 3, 1 / 3))),
    ),
    Item("§3, example", "inclusion probability, sample 1", "0.005", lambda: 5_000 / UNITS),
    Item("§3, example", "inclusion probability, sample 2", "0.01", lambda: 10_000 / UNITS),
    Item(
        *("§3, example", "population uniques among sample uniques, sample 1", "0.024", lambda: uniques(5_000)),
        fewer,
        slow=True,
        unexplained=True,
    ),
    Item("§3, example", "the same, sample 2", "0.035", lambda: uniques(10_000), slow=True),
    Item("§3, example", "doubles and triples are minuscule (below 0.005)", "yes", minuscule, slow=True),
    Item("Figure 1", "high below λ = 1, near zero at the average cell", "yes", drops),
    Item("Figure 1", "little difference between the fractions", "yes", little_difference),
    Item("§4, recoding", "M for k = 4, a = 2, by rows", "1 1 0 0; 0 0 1 0; 0 0 0 1", recoded),
    Item("§4, recoding", "ε", "none", lambda: has_epsilon(mc.recoding([[0, 1]], 4))),
    Item(
        *("§4, swapping", "largest sum of a column of the printed M", "1.0"),
        lambda: float(printed_swaps().sum(axis=0).max()),
        SWAPS,
    ),
    Item("", "shared by the two values of a pair, they give this M", "yes", half_of_mixed, check=True),
    Item("§4, swapping", "ε without zero counts", "finite", lambda: has_epsilon(mc.swapping(COUNTS)), ONE_RECORD),
    Item(
        "",
        "ε with two records or more in each category",
        "finite",
        lambda: has_epsilon(mc.swapping(COUNTS + 1)),
        check=True,
    ),
    Item("§4, invariant PRAM", "vM, two stages", "v", lambda: invariant(two_stage())),
    Item("§4, invariant PRAM", "ε without zeros, two stages", "finite", lambda: has_epsilon(two_stage())),
    Item("§4, invariant PRAM", "vM, fewest changes", "v", lambda: invariant(direct())),
    Item("§4, invariant PRAM", "ε without zeros, fewest changes", "finite", lambda: has_epsilon(direct())),
    Item("§4, PRAM", "ε with a zero for an impossible combination", "none", structural_zero),
    Item("§4, bad outcomes", "bad tables are those that some neighbour cannot give", "yes", bad_is_no_neighbour),
]

FIGURES = {"figure-1": (figure_1, False)}
TABLES: dict[str, tuple] = {}
