"""Tests of what a likelihood assumes: its estimate against the corrected one, and the released law of the response."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from postrand.errors import EstimationError
from postrand.estimate.axes import Array
from postrand.estimate.families import Linear, Logistic, Multinomial, Poisson
from postrand.estimate.latent import Problem, Solution
from postrand.estimate.regression_data import Data
from postrand.estimate.regression_equations import Solved, solve_equations
from postrand.estimate.regression_result import SpecificationTest

DISTINCT = 1e-3
"""Directions in which the two estimates differ by less variance than this share of the corrected one's are left out."""
BINS = 6
EXPECTED = 5.0


def specification(
    data: Data, problem: Problem, found: Solution
) -> tuple[tuple[SpecificationTest, ...], tuple[str, ...]]:
    """Return the tests that can be made of a likelihood fit, and a sentence for one that cannot."""
    tests, notes = [], []
    try:
        tests.append(hausman_test(data, problem, found, solve_equations(data)[0]))
    except EstimationError:
        notes.append(
            "The corrected equations have no stable root, so nothing independent of the family checks this fit."
        )
    law = released_law_test(problem, found)
    return (*tests, *([law] if law is not None else [])), tuple(notes)


def hausman_test(data: Data, problem: Problem, found: Solution, solved: Solved) -> SpecificationTest:
    """Compare the likelihood's coefficients with the corrected ones.

    ``D'V^-1 D`` with D their difference and V the variance of the *difference* of each record's two influences: right
    whether or not the likelihood is efficient (a difference of two variances would need that, and may be negative).
    Directions in which the two cannot differ are left out and not counted as degrees of freedom.
    """
    size = len(solved.theta)
    own = solved.jackknife()[solved.records.number]
    other = (data.weights[:, None] * found.influence[problem.record_pattern])[:, :size]
    own, other = own - own.mean(axis=0), other - other.mean(axis=0)
    gap = found.theta[:size] - solved.theta
    scale, axes = np.linalg.eigh(own.T @ own)
    root = axes / np.sqrt(np.maximum(scale, np.finfo(float).tiny))
    spread = (own - other) @ root
    variance, turned = np.linalg.eigh(spread.T @ spread)
    kept = variance > DISTINCT
    along = (gap @ root) @ turned[:, kept]
    statistic = float((along**2 / variance[kept]).sum())
    freedom = int(kept.sum())
    p = float(scipy.special.chdtrc(freedom, statistic)) if freedom else 1.0
    return SpecificationTest("likelihood against corrected equations", statistic, freedom, p)


def released_law_test(problem: Problem, found: Solution) -> SpecificationTest | None:
    """Compare the released law of a clear response, by released cell, with what the fitted model implies.

    Pearson's statistic over released cells and bins of y, cells that expect fewer than 5 together. The degrees of
    freedom
    are the cells less one: parameters fitted to the records themselves leave a law between this chi-squared and one
    with
    fewer degrees of freedom (Chernoff & Lehmann 1954), so the p-value is at most too large. None with weights, with a
    perturbed response, and where fewer than two cells are left.
    """
    if problem.weighted or problem.response.shape[1] != 1:
        return None
    y = problem.response[:, 0]
    counts = np.bincount(problem.pattern_case, weights=problem.weights, minlength=len(y)).astype(np.float64)
    edges = _edges(problem, y, counts)
    size = problem.law.shape[1]
    bins = len(edges) + 1
    observed = np.zeros((size, bins))
    at = np.searchsorted(edges, y, side="left")[problem.pattern_case]
    np.add.at(observed, (problem.pattern_cell, at), problem.weights)
    rows = np.bincount(problem.case_row, weights=counts, minlength=len(problem.design))
    joint = rows[:, None] * found.law[:, problem.covariate_cell][problem.row_group]
    true = np.stack([(joint * share).sum(axis=0) for share in _shares(problem, found.theta, edges)], axis=1)
    seen, wanted = _pooled(observed.ravel(), (problem.law.T @ true).ravel())
    if len(seen) < 2:
        return None
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    p = float(scipy.special.chdtrc(len(seen) - 1, statistic))
    return SpecificationTest("released law of the response", statistic, len(seen) - 1, p)


def _edges(problem: Problem, y: Array, counts: Array) -> Array:
    """Return the upper ends of all bins but the last, ascending."""
    if isinstance(problem.family, Logistic | Multinomial):
        return np.unique(y)[:-1]
    order = np.argsort(y)
    below = np.cumsum(counts[order]) / counts.sum()
    ends = y[order][np.searchsorted(below, np.arange(1, BINS) / BINS)]
    return np.unique(ends[ends < y.max()])


def _shares(problem: Problem, theta: Array, edges: Array) -> Iterator[Array]:
    """Yield the probability of each bin, given unperturbed rows and true cells, (V, K)."""
    family = problem.family
    m, p = family.predictors, problem.design.shape[2]
    eta = problem.design @ theta[: m * p].reshape(m, p).T
    if isinstance(family, Logistic | Multinomial):
        mean, _ = family.moments(eta)
        full = np.concatenate([1 - mean.sum(axis=-1, keepdims=True), mean], axis=-1)
        bin_of = np.searchsorted(edges, np.arange(full.shape[-1]), side="left")
        for b in range(len(edges) + 1):
            yield full[..., bin_of == b].sum(axis=-1)
        return
    before = np.zeros(eta.shape[:2])
    for edge in edges:
        below = _below(family, edge, eta[..., 0], theta)
        yield below - before
        before = below
    yield 1 - before


def _below(family: object, edge: float, eta: Array, theta: Array) -> Array:
    if isinstance(family, Linear):
        return np.asarray(scipy.special.ndtr((edge - eta) * np.exp(-theta[-1])))
    assert isinstance(family, Poisson)
    return np.asarray(scipy.special.pdtr(edge, family.moments(eta)[0]))


def _pooled(observed: Array, expected: Array) -> tuple[Array, Array]:
    """Put the cells that expect too few together, with the smallest of the others if they are still too few."""
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    if expected[0] >= EXPECTED:
        return observed, expected
    thin = int(np.searchsorted(np.cumsum(expected), EXPECTED)) + 1
    thin = max(thin, int(np.searchsorted(expected, EXPECTED)))
    if thin >= len(expected):
        return observed[:1], expected[:1]
    return np.append(observed[thin:], observed[:thin].sum()), np.append(expected[thin:], expected[:thin].sum())
