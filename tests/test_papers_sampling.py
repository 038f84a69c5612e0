"""Sampling and misclassification against enumeration, simulation and the papers' figures."""

import itertools
import math

import numpy as np
import pytest
from benchmarks.papers import misclassification as mc
from benchmarks.papers import sampling

from postrand.errors import UsageError
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.risk.sampling import whole_cell_probability

POPULATION = np.array([3.0, 1.0, 0.0, 2.0, 1.0])


def samples(pi):
    """Enumerate the Bernoulli samples of the population: counts and probability."""
    units = np.repeat(np.arange(5), POPULATION.astype(int))
    for chosen in itertools.product([0, 1], repeat=units.size):
        kept = np.array(chosen, dtype=bool)
        yield np.bincount(units[kept], minlength=5), pi ** kept.sum() * (1 - pi) ** (~kept).sum()


def test_threshold_and_verdict():
    assert sampling.rare_threshold(2**16, 1 / 3, 1 / 3) == pytest.approx(77.3, abs=0.05)
    found = sampling.verdict(POPULATION, 0.1, epsilon=8.0, delta=0.5)  # threshold 0.75: nothing is rare
    assert (found.rare_cells, found.bad, found.holds) == (0, 0.0, True)
    tight = sampling.verdict(POPULATION, 0.1, epsilon=2.0, delta=0.9)
    assert tight.threshold == pytest.approx(math.log(10 / 0.9))  # 2.41: cells of 1 and 2 are rare
    rare = (POPULATION > 0) & (tight.threshold > POPULATION)
    bad = sum(p for f, p in samples(0.1) if f[rare].any())
    assert tight.bad == pytest.approx(bad)
    assert "not differentially private" in str(tight)
    assert sampling.verdict(POPULATION, 1.0, 2.0, 0.9).bad == 1.0


def test_whole_cells_by_enumeration():
    occupied = POPULATION > 0
    exact = sum(p for f, p in samples(0.3) if (f == POPULATION)[occupied].any())
    assert whole_cell_probability(POPULATION, 0.3) == pytest.approx(exact)
    units = np.repeat(np.arange(5), POPULATION.astype(int))
    drawn = [np.bincount(units[list(c)], minlength=5) for c in itertools.combinations(range(7), 3)]
    mean = np.mean([((f == POPULATION) & occupied).sum() for f in drawn])
    assert sampling.whole_cells_expected(POPULATION, 3) == pytest.approx(mean)


def test_figure_1():
    data = sampling.figure_1()
    np.testing.assert_allclose(data["0.005"], np.exp(-data["lambda"] * 0.995))
    assert data["0.005"][0] == 1.0
    assert abs(data["0.005"] - data["0.010"]).max() < 0.003  # "little difference between the two fractions"


@pytest.mark.statistical
def test_the_numerical_example():
    """SS §3 print 0.024 and 0.035; their population is not known, and others give about 0.027 and 0.036."""
    rng = np.random.default_rng(1)
    population = sampling.example_population(rng)
    for size, printed in ((5_000, 0.024), (10_000, 0.035)):
        shares = sampling.whole_cell_shares(population, size, 60, rng)
        assert abs(shares[0].value - printed) < 0.004 + 4.9 * shares[0].standard_error
        assert shares[1].value < 0.005  # doubles: "minuscule"
        # the Poisson model of the same quantity: sum of pi(F=1) over sum of P(f=1)
        pi = size / population.sum()
        ones = (population == 1).sum() * pi
        singles = (population * pi * (1 - pi) ** np.maximum(population - 1, 0)).sum()
        assert shares[0].value == pytest.approx(ones / singles, abs=6 * shares[0].standard_error)


def test_sampling_input_is_checked():
    with pytest.raises(UsageError, match="fraction"):
        sampling.verdict(POPULATION, 0.0, 1.0, 0.1)
    with pytest.raises(UsageError, match="delta"):
        sampling.rare_threshold(10, 1.0, 1.5)
    with pytest.raises(UsageError, match="larger than the population"):
        sampling.whole_cells_expected(POPULATION, 8)


def test_recoding_and_swapping():
    recoded = mc.recoding([[1, 2], [3, 0]], 4)
    assert recoded.matrix.array.argmax(axis=1).tolist() == [3, 1, 1, 3]
    assert recoded.epsilon == math.inf
    assert "no finite epsilon" in recoded.reason
    counts = np.array([5, 3, 2])
    swapped = mc.swapping(counts)
    pairs = {(i, j): counts[i] * counts[j] / 45 for i in range(3) for j in range(3) if i != j}  # SS, C(10,2) = 45
    for (i, j), joint in pairs.items():
        # Given that one of the two is i: half of an unordered mixed pair belongs to each of its values.
        assert swapped.matrix.array[i, j] == pytest.approx(joint / 2 / (counts[i] / 10))
    high, low = swapped.matrix.array.max(axis=0), swapped.matrix.array.min(axis=0)
    assert swapped.epsilon == pytest.approx(math.log((high / low).max()))
    assert math.isfinite(swapped.epsilon)
    assert mc.swapping([4, 1]).epsilon == math.inf  # the only record of a category always changes
    with pytest.raises(UsageError, match="every category"):
        mc.swapping([3, 0])
    with pytest.raises(UsageError, match="at most once"):
        mc.recoding([[0, 1], [1]], 3)


def test_invariant_pram_both_ways():
    p = np.array([0.5, 0.3, 0.15, 0.05])
    base = randomised_response(4, 1.5)
    two = mc.invariant_two_stage(base, p)
    np.testing.assert_allclose(p @ two.matrix.array, p, atol=1e-15)
    assert two.epsilon <= base.epsilon
    direct = mc.invariant_direct(p, two.epsilon)
    np.testing.assert_allclose(p @ direct.matrix.array, p, atol=1e-8)
    assert direct.epsilon <= two.epsilon
    stay = [float(p @ m.matrix.array.diagonal()) for m in (two, direct)]
    assert stay[1] >= stay[0] - 1e-9  # the direct design keeps at least as many records


ZEROS = TransitionMatrix.from_array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.0, 0.4, 0.6]])


@pytest.mark.parametrize("counts", [(2, 1, 1), (0, 2, 1), (3, 0, 0), (1, 1, 2)])
def test_bad_outcomes_by_enumeration(counts):
    """List the fate of every record; the same tables by table_law, by simulation and by inclusion and exclusion."""
    M, f = ZEROS.array, np.array(counts)
    limit = np.array([f[M[:, j] > 0].sum() for j in range(3)])
    law: dict[tuple[int, ...], float] = {}
    for fate in itertools.product(range(3), repeat=f.sum()):
        chance = math.prod(M[k, j] for k, j in zip(np.repeat(np.arange(3), f), fate, strict=True))
        if chance:
            table = tuple(np.bincount(fate, minlength=3).tolist())
            law[table] = law.get(table, 0.0) + chance
    watched = [j for j in range(3) if (M[:, j] == 0).any() and limit[j] > 0]
    exact = sum(p for t, p in law.items() if any(t[j] == limit[j] for j in watched))
    assert mc.table_law(ZEROS, f) == pytest.approx(law)
    assert mc.bad_outcome_probability(ZEROS, f) == pytest.approx((exact, exact))
    share, error = mc.simulated_bad_outcomes(ZEROS, f, 20_000, np.random.default_rng(0))
    assert abs(share - exact) < 4.9 * error
    epsilon, delta = mc.good_outcome_epsilon(ZEROS, f)
    assert delta <= exact + 1e-12  # SS call bad whatever may be; only outcomes that a neighbour rules out are
    assert epsilon > 0


def test_without_zeros_every_outcome_is_good():
    assert mc.bad_outcome_probability(randomised_response(3, 1.0), [2, 1, 1]) == (0.0, 0.0)
    epsilon, delta = mc.good_outcome_epsilon(randomised_response(3, 1.0), [1, 1, 1])
    assert delta == pytest.approx(0.0, abs=1e-12)
    assert epsilon <= 1.0 + 1e-9  # the table tells no more than the records


def test_bounds_on_large_tables():
    banded = np.eye(20) * 0.6 + np.eye(20, k=1) * 0.4
    banded[-1, -1] = 1.0
    low, high = mc.bad_outcome_probability(TransitionMatrix.from_array(banded), np.full(20, 3))
    assert 0 < low < high <= 1
    share, error = mc.simulated_bad_outcomes(
        TransitionMatrix.from_array(banded), np.full(20, 3), 4000, np.random.default_rng(1)
    )
    assert low - 4.9 * error <= share <= high + 4.9 * error
    with pytest.raises(UsageError, match="whole number"):
        mc.bad_outcome_probability(ZEROS, [0.5, 1, 1])
    with pytest.raises(UsageError, match="too many"):
        mc.table_law(TransitionMatrix.from_array(banded), np.full(20, 3))
