"""Study regression from a release: bias, coverage and refusals whatever the law of the response.

Run ``python -m benchmarks.regression_grid`` (about 12 minutes on two cores; ``--quick`` takes one). Every replication draws
its records anew from a population whose coefficients are known, perturbs them, and fits. Results go to
benchmarks/results/regression_grid.{md,json}.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.matrix import TransitionMatrix, randomised_response
from postrand.mechanism import Mechanism

RESULTS = Path(__file__).parent / "results"
G = ("g0", "g1", "g2", "g3")
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
BOOK = Codebook(
    (
        Variable("g", role="key", categories=G),
        Variable("score", role="sensitive", categories=(0, 1, 2, 3, 4), type="int64"),
        Variable("yes", role="sensitive", categories=(0, 1), type="int64"),
        Variable("kind", role="sensitive", categories=("a", "b", "c")),
    )
)
SIZES = {300: 400, 1_000: 400, 5_000: 150, 20_000: 40}
EPSILONS = (0.5, 1.0, 2.0, 4.0)
EFFECTS = np.array([0.0, 0.3, 0.6, 0.9])
SLOPE = 0.5


@dataclass(frozen=True)
class Law:
    """One law of y: its family, its response, what is perturbed, and the true coefficients of ``~ C(g) + z``."""

    family: str
    name: str
    response: str
    perturbed: tuple[str, ...]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    truth: tuple[float, ...]
    dependent: bool = False


def linear_truth(intercept=1.0):
    return (intercept, *EFFECTS[1:], SLOPE)


def predictor(g, z, intercept, scale=1.0):
    return intercept + scale * (EFFECTS[g] + SLOPE * z)


def of_errors(errors):
    def draw(rng, g, z):
        return predictor(g, z, 1.0) + errors(rng, g)

    return draw


def scores(rng, g, z):
    """Scores 0-4, skewed: binomial with a mean that is linear in the covariates."""
    return rng.binomial(4, (0.4 + 0.25 * (EFFECTS[g] + SLOPE * z)) / 4.0)


def counts(shape):
    def draw(rng, g, z):
        mixed = rng.gamma(shape, 1 / shape, len(g)) if shape else 1.0
        return rng.poisson(mixed * np.exp(predictor(g, z, 0.0)))

    return draw


def binary(intercept):
    def draw(rng, g, z):
        return (rng.random(len(g)) < 1 / (1 + np.exp(-predictor(g, z, intercept)))).astype(np.int64)

    return draw


def kinds(rare):
    def draw(rng, g, z):
        eta = np.stack([np.zeros(len(g)), predictor(g, z, -0.5), predictor(g, z, rare, 0.5)], axis=1)
        return (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)

    return draw


def kind_truth(rare):
    return (-0.5, *EFFECTS[1:], SLOPE, rare, *(0.5 * EFFECTS[1:]), 0.5 * SLOPE)


LAWS = (
    Law("linear", "normal", "t", ("g",), of_errors(lambda rng, g: rng.normal(size=len(g))), linear_truth()),
    Law(
        "linear",
        "lognormal",
        "t",
        ("g",),
        of_errors(lambda rng, g: np.exp(rng.normal(size=len(g))) - np.exp(0.5)),
        linear_truth(),
    ),
    Law("linear", "Pareto (3)", "t", ("g",), of_errors(lambda rng, g: rng.pareto(3, len(g)) - 0.5), linear_truth()),
    Law(
        "linear",
        "heteroscedastic",
        "t",
        ("g",),
        of_errors(lambda rng, g: (0.3 + g) * rng.normal(size=len(g))),
        linear_truth(),
    ),
    Law("linear", "scores, y and g perturbed", "score", ("g", "score"), scores, (0.4, *(0.25 * EFFECTS[1:]), 0.125)),
    Law("poisson", "Poisson", "t", ("g",), counts(0), (0.0, *EFFECTS[1:], SLOPE)),
    Law("poisson", "overdispersed", "t", ("g",), counts(1.0), (0.0, *EFFECTS[1:], SLOPE)),
    Law("logistic", "binary", "t", ("g",), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE)),
    Law("logistic", "g depends on z", "t", ("g",), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE), dependent=True),
    Law("logistic", "rare (6 %)", "t", ("g",), binary(-3.2), (-3.2, *EFFECTS[1:], SLOPE)),
    Law("logistic", "y and g perturbed", "yes", ("g", "yes"), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE)),
    Law("multinomial", "three", "kind", ("g",), kinds(-0.8), kind_truth(-0.8)),
    Law("multinomial", "one rare (3 %)", "kind", ("g",), kinds(-3.2), kind_truth(-3.2)),
    Law("multinomial", "y and g perturbed", "kind", ("g", "kind"), kinds(-0.8), kind_truth(-0.8)),
)


def population(rng, law, n):
    """True g, z and y of n records drawn anew."""
    z = rng.integers(-2, 3, n) / 2.0
    if law.dependent:
        odds = np.log(SHARES) + np.outer(z, [0.0, 0.8, -0.8, 1.2])
        g = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    else:
        g = rng.choice(4, n, p=SHARES)
    return g, z, law.draw(rng, g, z)


def perturbed(rng, codes, matrix):
    return (rng.random(len(codes))[:, None] > np.cumsum(matrix.array, axis=1)[codes, :-1]).sum(axis=1)


def release(rng, law, n, mechanism):
    """The released records of one population."""
    g, z, y = population(rng, law, n)
    held = {"g": g, law.response: y}
    for name in law.perturbed:
        held[name] = perturbed(rng, held[name], mechanism[name].matrix)
    columns = {
        name: np.array(BOOK[name].categories)[codes] if name in BOOK else codes for name, codes in held.items()
    }
    return pa.table(columns | {"z": z})


def mechanism_of(law, epsilon):
    """Randomised response at ε for each perturbed variable; None leaves all as they are."""
    laws = {
        name: TransitionMatrix.identity(BOOK[name].size) if epsilon is None else randomised_response(BOOK[name].size, epsilon)
        for name in law.perturbed
    }
    return Mechanism(laws, BOOK)


def fits(law, epsilon, n, replications, seed, method="equations"):
    """Values, standard errors, coverage and boundedness of each replication; None where it is refused."""
    rng = np.random.default_rng([seed, n, round(10 * (epsilon or 99)), len(law.name)])
    mechanism, truth, rows = mechanism_of(law, epsilon), np.array(law.truth), []
    for _ in range(replications):
        frame = release(rng, law, n, mechanism)
        try:
            found = estimate.regression(f"{law.response} ~ C(g) + z", frame, mechanism, law.family, method=method)
        except EstimationError:
            continue
        low, high = (end[: len(truth)] for end in found.interval())
        value, error = found.value[: len(truth)], found.standard_error[: len(truth)]
        rows.append((value - truth, error, (low <= truth) & (truth <= high), np.isfinite(high - low)))
    return rows
