"""Blocks that read a variable which they do not change: the expectation over every release is the truth."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.estimate.regressions import regression
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix

SIZES = {"sex": 2, "age": 3, "region": 3}
BOOK = Codebook(
    (
        *(Variable(n, role="key", categories=tuple(f"{n}{c}" for c in range(s))) for n, s in SIZES.items()),
        Variable("y", role="other", categories=(0, 1), type="int64"),
        Variable("w", role="weight", type="double"),
    )
)
LAWS = {  # of each region; regions 0 and 1 share theirs
    "sex": [np.array([[0.8, 0.2], [0.3, 0.7]])] * 2 + [np.array([[0.6, 0.4], [0.1, 0.9]])],
    "age": [np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])] * 2 + [0.5 * np.eye(3) + 1 / 6],
}
REGION = np.array([[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])


def stratified(name):
    """The block that perturbs a variable given the region, region first."""
    size = SIZES[name]
    matrix = np.zeros((3 * size, 3 * size))
    for r, law in enumerate(LAWS[name]):
        matrix[r * size : (r + 1) * size, r * size : (r + 1) * size] = law
    cells = tuple(itertools.product(range(3), range(size)))
    return Block(("region", name), TransitionMatrix.from_array(matrix), cells, given=("region",))


def expected_release(truth, region_law):
    """A frame with every released record, its weight the probability, from a truth over (sex, age, region)."""
    weights: dict[tuple[int, int, int], float] = {}
    for (s, a, r), mass in np.ndenumerate(truth):
        for z, b, q in itertools.product(range(2), range(3), range(3)):
            p = mass * LAWS["sex"][r][s, z] * LAWS["age"][r][a, b] * region_law[r, q]
            weights[z, b, q] = weights.get((z, b, q), 0.0) + p
    cells = np.array([c for c, p in weights.items() if p > 0])
    columns = {n: np.array(BOOK[n].categories)[cells[:, i]] for i, n in enumerate(SIZES)}
    return pa.table(columns | {"w": [p for p in weights.values() if p > 0]})


TRUTH = np.random.default_rng(1).dirichlet(np.full(18, 5.0)).reshape(2, 3, 3)
TABLES = [["sex"], ["sex", "region"], ["region", "sex"], ["age", "sex"], ["age", "region", "sex"], ["region"]]


@pytest.mark.parametrize("perturb_region", [False, True])
@pytest.mark.parametrize("names", TABLES)
def test_expectation_over_all_releases_is_the_truth(perturb_region, names):
    blocks = [stratified("sex"), stratified("age")]
    law = np.eye(3)
    if perturb_region:
        law = REGION
        blocks.append(Block(("region",), TransitionMatrix.from_array(REGION)))
    mechanism = Mechanism(blocks, BOOK)
    found = estimate.table(expected_release(TRUTH, law), names, mechanism, weights="w")
    axes = [list(SIZES).index(n) for n in names]
    wanted = TRUTH.sum(axis=tuple({0, 1, 2} - set(axes))).transpose(np.argsort(np.argsort(axes)))
    np.testing.assert_allclose(found.value, wanted, atol=1e-9)  # weights are rounded to the exact law
    assert found.perturbed == tuple(n for n in names if perturb_region or n != "region")
    assert (found.standard_error > 0).all()


def test_likelihood_reads_clear_strata_and_refuses_perturbed_ones():
    clear = Mechanism([stratified("sex"), stratified("age")], BOOK)
    frame = expected_release(TRUTH, np.eye(3))
    found = estimate.maximum_likelihood(frame, ["sex", "region"], clear, weights="w", tolerance=1e-10)
    np.testing.assert_allclose(found.value, TRUTH.sum(axis=1), atol=1e-6)
    both = estimate.maximum_likelihood(frame, ["sex", "age"], clear, weights="w", tolerance=1e-10)
    np.testing.assert_allclose(both.value, TRUTH.sum(axis=2), atol=1e-6)
    moved = Mechanism([stratified("sex"), Block(("region",), TransitionMatrix.from_array(REGION))], BOOK)
    released = expected_release(TRUTH, REGION)
    with pytest.raises(EstimationError, match="reads a variable that another block perturbs"):
        estimate.maximum_likelihood(released, ["sex", "region"], moved)
    with pytest.raises(EstimationError, match="reads a variable"):
        regression(
            "y ~ sex + region", released.append_column("y", [[0, 1] * 9]), moved, "logistic", method="likelihood"
        )
    with pytest.raises(EstimationError, match="several blocks read"):
        estimate.expected_precision(clear, ["sex", "age"], 100)
    assert estimate.expected_precision(clear, ["sex", "region"], 100).standard_error.shape == (2, 3)


def test_regression_with_a_stratified_law_uses_each_stratum_s_own():
    rng = np.random.default_rng(2)
    n = 40_000
    region, sex = rng.integers(0, 3, n), rng.integers(0, 2, n)
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - 1.0 * sex - 0.3 * region))).astype(int)
    law = np.array(LAWS["sex"])[region, sex]
    released = (rng.random(n) > law[:, 0]).astype(int)
    frame = pa.table(
        {
            "sex": np.array(BOOK["sex"].categories)[released],
            "region": np.array(BOOK["region"].categories)[region],
            "y": y,
        }
    )
    found = regression("y ~ sex + region", frame, Mechanism([stratified("sex")], BOOK), "logistic")
    assert found.names == ("Intercept", "sex[T.sex1]", "region[T.region1]", "region[T.region2]")
    assert (np.abs(found.value - [-0.5, 1.0, 0.3, 0.6]) < 4 * found.standard_error).all()
    assert found.standard_error.max() < 0.1
