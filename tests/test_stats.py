"""The statistical helpers accept the law and reject its mutants, as often as they say."""

import numpy as np
import pytest

from tests.stats import ALPHA, dependent, p_value, power, rejects

LAW = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def draws(law, size, seed):
    return np.random.default_rng(seed).multinomial(size, law)


def test_the_law_itself_is_accepted():
    assert not any(rejects(draws(LAW, 20_000, seed), LAW) for seed in range(200))


def test_p_values_of_the_law_are_uniform():
    values = np.array([p_value(draws(LAW, 20_000, seed), LAW) for seed in range(2_000)])
    counts = np.histogram(values, bins=10, range=(0, 1))[0]
    assert not rejects(counts, np.full(10, 0.1))


@pytest.mark.parametrize(
    "mutant",
    [
        np.array([0.49, 0.31, 0.15, 0.05, 0.0]),  # one unit in a hundred moved
        np.array([0.499, 0.3, 0.15, 0.05, 0.001]),  # a move that has probability zero
        LAW[[1, 0, 2, 3, 4]],  # two categories swapped
    ],
)
def test_mutants_are_rejected(mutant):
    size = 200_000
    assert power(size, LAW, mutant) > 0.999
    assert all(rejects(draws(mutant, size, seed), LAW) for seed in range(20))


def test_power_is_what_simulation_finds():
    mutant, alpha = np.array([0.53, 0.28, 0.14, 0.05, 0.0]), 0.01
    found = np.mean([rejects(draws(mutant, 2_000, seed), LAW, alpha) for seed in range(2_000)])
    assert found == pytest.approx(power(2_000, LAW, mutant, alpha), abs=0.05)


def test_thin_cells_are_pooled_and_still_seen():
    law = np.array([1 - 4e-5, 1e-5, 1e-5, 1e-5, 1e-5])
    assert not rejects([99_996, 1, 1, 1, 1], law)
    assert p_value([100, 0, 0, 0, 0], law) == 1.0  # too few draws to say anything
    assert rejects([990_000, 10_000, 0, 0, 0], law)


def test_dependence_is_seen_and_independence_accepted():
    rng = np.random.default_rng(5)
    table = rng.multinomial(40_000, np.outer([0.6, 0.4], [0.7, 0.3]).ravel()).reshape(2, 2)
    assert not dependent(table)
    assert dependent(table + 800 * np.eye(2))
    assert ALPHA == 1e-6
