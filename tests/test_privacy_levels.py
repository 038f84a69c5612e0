"""Levels beyond ε: closed forms, brute force, composition laws, shuffling against enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from postrand.errors import PrivacyError
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy.accounting import compose
from postrand.privacy.levels import delta, renyi
from postrand.privacy.shuffle import shuffled_delta, shuffled_epsilon
from tests import oracles


def law(seed, size):
    generator = np.random.default_rng(seed)
    return TransitionMatrix.from_array(0.9 * generator.dirichlet(np.ones(size), size=size) + 0.1 / size)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.999, 1.0, 2.0])
def test_delta_of_randomised_response(size, epsilon):
    matrix = randomised_response(size, 1.0)
    p, q = matrix.array[0, 0], matrix.array[0, 1]
    found = delta(matrix, epsilon)
    assert found == pytest.approx(max(0.0, p - math.exp(epsilon) * q), abs=1e-15)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6), epsilon=st.floats(0, 3))
def test_delta_is_the_largest_hockey_stick_rounded_up(seed, size, epsilon):
    matrix = law(seed, size)
    pairs = itertools.permutations(matrix.array, 2)
    brute = max(oracles.hockey_stick(a, b, epsilon) for a, b in pairs)
    assert delta(matrix, epsilon) == pytest.approx(brute, abs=1e-14)
    assert delta(matrix, matrix.epsilon) == 0


def test_delta_counts_exclusive_values_in_full():
    assert delta(TransitionMatrix.from_array([[0.5, 0.5], [0.0, 1.0]]), 20.0) == 0.5
    assert delta(TransitionMatrix.identity(3), 5.0) == 1


@pytest.mark.parametrize("order", [1.01, 2.0, 7.5, 50.0])
def test_renyi_of_randomised_response(order):
    matrix = randomised_response(6, 1.5)
    p, q = matrix.array[0, 0], matrix.array[0, 1]
    exact = math.log(p**order * q ** (1 - order) + q**order * p ** (1 - order) + 4 * q) / (order - 1)
    assert exact <= renyi(matrix, order) <= exact * (1 + 1e-7)
    assert renyi([matrix, matrix], order) == pytest.approx(2 * exact, rel=1e-7)


def test_renyi_grows_with_the_order_up_to_epsilon():
    matrix = law(1, 4)
    levels = [renyi(matrix, order) for order in (1.001, 1.5, 3, 20, 1000, 1e6)]
    assert levels == sorted(levels)
    assert levels[-1] == pytest.approx(matrix.epsilon, rel=1e-3)
    assert renyi(TransitionMatrix.identity(2), 2.0) == math.inf
    with pytest.raises(PrivacyError):
        renyi(matrix, 1.0)


def test_composing_n_times_is_composing_n_copies():
    matrix = randomised_response(3, 0.7)
    once, copies = compose(matrix, 6), compose([matrix] * 6)
    for epsilon in (0.0, 1.0, 3.0):
        assert once.delta(epsilon) == copies.delta(epsilon)
    assert once.epsilon(1e-3) == copies.epsilon(1e-3)


def test_composed_randomised_response_equals_the_binomial_sum():
    matrix, n = randomised_response(2, 1.0), 20
    p = matrix.array[0, 0]
    heads = np.arange(n + 1)
    own, other = binom.pmf(heads, n, p), binom.pmf(heads, n, 1 - p)
    loss = compose(matrix, n)
    for epsilon in (0.0, 2.0, 8.0, 13.0, 19.0):
        exact = oracles.hockey_stick(own, other, epsilon)
        assert exact <= loss.delta(epsilon) <= exact + 2e-3 * 0.5
    below = loss.epsilon(1e-2)
    assert oracles.hockey_stick(own, other, below) <= 1e-2 < oracles.hockey_stick(own, other, below - 0.01)


def test_the_largest_pair_is_taken_after_composition():
    """Two blocks whose worst pairs differ: brute force over all pairs of true records."""
    blocks = [law(5, 3), TransitionMatrix.from_array([[0.9, 0.1], [0.4, 0.6]])]
    records = list(itertools.product(range(3), range(2)))
    joint = {r: np.outer(blocks[0].array[r[0]], blocks[1].array[r[1]]).ravel() for r in records}
    loss = compose(blocks, interval=1e-5)
    for epsilon in (0.0, 0.3, 0.8):
        brute = max(oracles.hockey_stick(joint[a], joint[b], epsilon) for a, b in itertools.permutations(records, 2))
        assert brute - 1e-12 <= loss.delta(epsilon) <= brute + 1e-4
    assert loss.epsilon(1e-12) <= sum(block.epsilon for block in blocks)


def test_the_level_at_a_delta_is_that_of_the_worst_pair():
    """Two columns alike, and pairs that differ much: by the exact δ(ε), never below and at most a grid step above."""
    matrix = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.1, 0.45, 0.45], [0.4, 0.3, 0.3]])
    found = compose(matrix, interval=1e-3)
    for most in (0.3, 0.1, 0.01):
        epsilon = found.epsilon(most)
        assert delta(matrix, epsilon) <= most < delta(matrix, epsilon - 5e-3)
        assert found.delta(epsilon) == pytest.approx(most, rel=0.02)


def test_one_release_agrees_with_the_exact_delta():
    matrix = law(8, 4)
    for epsilon in (0.1, 0.5):
        assert 0 <= compose(matrix).delta(epsilon) - delta(matrix, epsilon) < 2e-4


def test_too_many_combinations_are_refused():
    with pytest.raises(PrivacyError, match="too many combinations"):
        compose([law(k, 6) for k in range(4)])
    with pytest.raises(PrivacyError, match="nothing to compose"):
        compose([])


def shuffled_by_enumeration(local_epsilon, records, epsilon):
    """The divergence of the two dominating laws, summed over every (C, A, Δ)."""
    same = 1 / (1 + math.exp(-local_epsilon))
    laws: tuple[dict, dict] = ({}, {})
    for c in range(records):
        for a in range(c + 1):
            weight = binom.pmf(c, records - 1, math.exp(-local_epsilon)) * binom.pmf(a, c, 0.5)
            for k, first in enumerate((same, 1 - same)):
                for outcome, chance in (((a + 1, c - a), first), ((a, c - a + 1), 1 - first)):
                    laws[k][outcome] = laws[k].get(outcome, 0) + weight * chance
    keys = sorted(laws[0])
    return oracles.hockey_stick([laws[0][k] for k in keys], [laws[1][k] for k in keys], epsilon)


@pytest.mark.parametrize("records", [1, 2, 9, 40])
@pytest.mark.parametrize("local_epsilon", [0.2, 1.0, 3.0])
def test_shuffled_delta_equals_enumeration(records, local_epsilon):
    for epsilon in (0.0, 0.1 * local_epsilon, 0.7 * local_epsilon):
        exact = shuffled_by_enumeration(local_epsilon, records, epsilon)
        assert exact * (1 - 1e-12) <= shuffled_delta(local_epsilon, records, epsilon) <= exact + 1e-10


@given(local=st.floats(0.1, 5), records=st.integers(1, 400))
@settings(max_examples=20)
def test_shuffling_helps_more_with_more_records_and_never_hurts(local, records):
    epsilon = shuffled_epsilon(local, records, 1e-6)
    assert 0 < epsilon <= local
    assert shuffled_delta(local, records, epsilon) <= 1e-6
    assert shuffled_epsilon(local, 10 * records, 1e-6) <= epsilon * (1 + 1e-6)


def test_shuffled_bound_is_valid_for_a_real_file():
    """All files of 4 records of 2 categories: the exact law of the released histogram."""
    matrix, n = randomised_response(2, 1.0).array, 4

    def histogram(file):
        counts = np.ones(1)
        for value in file:
            counts = np.convolve(counts, matrix[value])
        return counts

    for epsilon in (0.0, 0.2, 0.5):
        worst = max(
            oracles.hockey_stick(histogram((a, *rest)), histogram((b, *rest)), epsilon)
            for rest in itertools.product((0, 1), repeat=n - 1)
            for a, b in ((0, 1), (1, 0))
        )
        assert worst <= shuffled_delta(1.0, n, epsilon)


@pytest.mark.parametrize("wrong", [(0.0, 5, 0.1), (math.inf, 5, 0.1), (1.0, 0, 0.1), (1.0, 5, -0.1)])
def test_bad_shuffle_arguments_are_refused(wrong):
    with pytest.raises(PrivacyError):
        shuffled_delta(*wrong)
    with pytest.raises(PrivacyError):
        shuffled_epsilon(1.0, 10, 0.0)
    with pytest.raises(PrivacyError):
        delta(TransitionMatrix.identity(2), -1.0)
