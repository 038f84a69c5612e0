"""The page on the method: its example prints what it says, and its formulas hold in numbers."""

import math

import numpy as np
import pytest

from postrand.designers import DesignWarning
from postrand.designers.split.precision import keep_probability
from tests.conftest import ROOT
from tests.guides import run_examples

PAGE = (ROOT / "docs" / "method.md").read_text("utf-8")
FOUR = (ROOT / "docs" / "four-numbers.md").read_text("utf-8")
RNG = np.random.default_rng(24)


@pytest.mark.filterwarnings(f"ignore::{DesignWarning.__module__}.{DesignWarning.__qualname__}")
def test_the_examples_print_what_the_page_says():
    assert run_examples(PAGE, "method.md") == 2


def test_the_four_numbers_are_those_of_the_page():
    assert run_examples(FOUR, "four-numbers.md") == 1


def test_information_is_a_sum_over_categories_once_theta_is_fixed():
    size = 5
    prior = RNG.dirichlet(np.ones(size))
    tau = RNG.uniform(-0.1, 0.2, size)
    matrix = np.repeat((1 + tau)[:, None], size, axis=1) / size
    matrix[np.diag_indices(size)] = (1 - (size - 1) * tau) / size
    information = float((prior[:, None] * matrix * np.log(matrix / (prior @ matrix))).sum())

    def excess(t):
        return (1 + t) * np.log1p(t) - t

    theta = prior @ tau
    own = (excess(-(size - 1) * tau) + (size - 1) * excess(tau)) / size
    terms = prior * own - excess(theta - size * prior * tau) / size
    assert information == pytest.approx(float(terms.sum()), abs=1e-15)


def test_no_channel_passes_the_closed_bound():
    for epsilon in (0.1, 1.0, 3.0):
        z = epsilon / -math.expm1(-epsilon)
        for _ in range(50):
            prior = RNG.dirichlet(np.full(4, 0.5)) + 1e-12
            columns = np.where(RNG.random((4, 6)) < 0.5, math.exp(epsilon), 1.0)
            weights, *_ = np.linalg.lstsq(columns, np.ones(4), rcond=None)
            if (weights < 0).any() or not np.allclose(columns @ weights, 1):
                continue
            channel = columns * weights
            found = (
                prior[:, None]
                * channel
                * np.log(np.divide(channel, prior @ channel, out=np.ones_like(channel), where=channel > 0))
            )
            assert found.sum() <= z - 1 - math.log(z) + 1e-12


def test_the_spectrum_of_a_circulant_design():
    size, block, epsilon = 7, (0, 1, 3), 0.8
    excess, row = math.expm1(epsilon), np.ones(size)
    row[list(block)] += excess
    matrix = np.array([np.roll(row, shift) for shift in range(size)]) / row.sum()
    k = np.arange(1, size)
    roots = np.exp(2j * np.pi * np.outer(k, block) / size).sum(axis=1)
    stated = excess * roots / (len(block) * math.exp(epsilon) + size - len(block))
    found = np.linalg.eigvals(matrix)
    assert np.allclose(np.sort(np.abs(found))[:-1], np.sort(np.abs(stated)), atol=1e-12)


def test_the_precision_of_a_subset_is_that_of_its_contribution():
    epsilon, sizes = 1.5, (2, 3)
    cells = math.prod(sizes)
    keep = (math.exp(epsilon) - 1) / (math.exp(epsilon) + cells - 1)
    assert keep_probability(cells, epsilon) == pytest.approx(keep)
    joint = RNG.dirichlet(np.ones(cells))
    released = keep * joint + (1 - keep) / cells
    table = released.reshape(sizes).sum(axis=1)
    one = (np.eye(sizes[0]) - (1 - keep) / sizes[0]) / keep
    mean = table @ one
    assert np.allclose(mean, joint.reshape(sizes).sum(axis=1))
    assert table @ (one**2).sum(axis=1) - mean @ mean == pytest.approx((1 - (table**2).sum()) / keep**2)


def test_the_bound_of_the_equivalence_theorem():
    precision, weights = RNG.uniform(0.1, 2, (6, 4)), RNG.dirichlet(np.ones(4))
    for _ in range(50):
        pi, a = RNG.dirichlet(np.ones(6)), RNG.uniform(0, 3, 4)
        bound = (weights @ a) ** 2 / (precision @ (weights * a**2)).max()
        assert (weights / (pi @ precision)).sum() >= bound
