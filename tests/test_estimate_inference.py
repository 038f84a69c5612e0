"""Quantities, ratios, tests and plans: brute force, exact identities, simulated size and power."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError, SpecificationError, UsageError
from postrand.estimate import functionals
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

SEX = Variable("sex", role="key", categories=("F", "M"))
AGE = Variable("age", role="key", categories=("young", "middle", "old"))
BOOK = Codebook(
    (SEX, AGE, Variable("region", role="other", categories=("N", "S")), Variable("w", role="weight", type="double"))
)
LAWS = {"sex": randomised_response(2, 1.5), "age": randomised_response(3, 1.5)}
MECHANISM = Mechanism(LAWS, BOOK)


def frame_of(counts, rng=None):
    """A frame with these counts of (sex, age)."""
    codes = np.repeat(np.arange(6), counts)
    n = len(codes)
    rng = rng or np.random.default_rng(0)
    return pa.table(
        {
            "sex": np.array(SEX.categories)[codes // 3],
            "age": np.array(AGE.categories)[codes % 3],
            "region": rng.choice(["N", "S"], n),
            "w": rng.uniform(1, 3, n),
        }
    )


FRAME = frame_of([90, 60, 50, 70, 80, 100])


def test_quantities_are_the_linear_image_of_the_table():
    rng = np.random.default_rng(1)
    maps = {f"q{i}": rng.standard_normal((2, 3)) for i in range(4)}
    flat = np.array([m.ravel() for m in maps.values()])
    for keywords in ({}, {"weights": "w"}, {"weights": "w", "strata": "region"}):
        whole = estimate.table(FRAME, ["sex", "age"], MECHANISM, **keywords)
        found = estimate.quantities(FRAME, ["sex", "age"], maps, MECHANISM, **keywords)
        np.testing.assert_allclose(found.value, flat @ whole.value.ravel(), atol=1e-12)
        np.testing.assert_allclose(found.covariance, flat @ whole.covariance @ flat.T, atol=1e-14)
        np.testing.assert_allclose(found.perturbation, flat @ whole.perturbation @ flat.T, atol=1e-14)
        np.testing.assert_allclose(found.sampling, flat @ whole.sampling @ flat.T, atol=1e-14)
        np.testing.assert_allclose(found.standard_error**2, np.diag(found.covariance))
    with pytest.raises(UsageError, match="effective sample size"):
        _ = found.effective_sample_size


def test_what_a_singular_matrix_identifies_is_estimated_and_the_rest_refused_by_name():
    alike = TransitionMatrix.from_array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.3, 0.7, 0.0]])
    mechanism = Mechanism({"age": alike}, BOOK)
    with pytest.raises(EstimationError, match="identified"):
        estimate.proportions(FRAME, "age", mechanism)
    seen = FRAME.filter(pa.array(np.array(FRAME["age"].to_pylist()) != "old"))
    found, refused = estimate.identified(seen, "age", mechanism)
    assert (found.labels, refused) == ((("young", "middle + old"),), ())
    released = np.array([160.0, 140.0]) / 300
    np.testing.assert_allclose(found.value, np.linalg.inv([[0.8, 0.2], [0.3, 0.7]]).T @ released, atol=1e-12)
    binary = estimate.from_tally(
        estimate.from_counts(released * 300, [TransitionMatrix.from_array([[0.8, 0.2], [0.3, 0.7]])])
    )
    np.testing.assert_allclose(found.covariance, binary.covariance, atol=1e-14)
    middle = {"middle": [0, 1, 0], "old or middle": [0, 1, 1]}
    with pytest.raises(EstimationError, match="'middle' is not identified") as caught:
        estimate.quantities(seen, ["age"], middle, mechanism)
    assert len(caught.value.problems) == 1
    flat = Mechanism({"age": TransitionMatrix.from_array(np.full((3, 3), 1 / 3))}, BOOK)
    constant, _ = estimate.identified(FRAME, "age", flat)
    assert constant.labels == (("young + middle + old",),)
    partly = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.375, 0.375, 0.25]])
    with pytest.raises(EstimationError, match="does not identify any category"):
        estimate.identified(FRAME, "age", Mechanism({"age": partly}, BOOK))


def test_identified_refuses_some_categories_and_keeps_others():
    """Rows 2 to 4 are collinear, row 1 stands alone."""
    law = np.array([[1, 0, 0, 0], [0, 0.6, 0.4, 0], [0, 0.4, 0.6, 0], [0, 0.5, 0.5, 0]])
    book = Codebook((Variable("v", role="key", categories=("a", "b", "c", "d")),))
    frame = pa.table({"v": ["a", "a", "b", "c", "b"]})
    found, refused = estimate.identified(frame, "v", Mechanism({"v": TransitionMatrix.from_array(law)}, book))
    assert (found.labels, refused) == ((("a",),), ("b", "c", "d"))
    np.testing.assert_allclose(found.value, [0.4])
    assert isinstance(found.law, functionals.QuantityLaw)
    with pytest.raises(EstimationError, match="split"):
        dataclasses.replace(found.law, noise=None).covariance("sampling")


def test_ratios_and_odds_ratios():
    whole = estimate.table(FRAME, ["sex", "age"], MECHANISM)
    p = whole.value[:, [0, 2]]
    found = estimate.odds_ratio(FRAME, "sex", "age", MECHANISM, columns=("young", "old"))
    assert found.value == pytest.approx(p[0, 0] * p[1, 1] / p[0, 1] / p[1, 0])
    index = [0, 2, 3, 5]
    slope = np.array([1, -1, -1, 1]) / p.ravel()
    assert found.log_standard_error**2 == pytest.approx(slope @ whole.covariance[np.ix_(index, index)] @ slope)
    low, high = found.interval()
    assert low < found.value < high
    assert "95% interval" in str(found)
    parts = estimate.quantities(
        FRAME, ["sex", "age"], {"F": [[1] * 3, [0] * 3], "F young": [[1, 0, 0], [0] * 3]}, MECHANISM
    )
    share = estimate.ratio(parts, "F young", "F")
    assert share.value == pytest.approx(whole.value[0, 0] / whole.value[0].sum())
    with pytest.raises(UsageError, match="name two"):
        estimate.odds_ratio(FRAME, "sex", "age", MECHANISM)
    with pytest.raises(UsageError, match="did you mean 'F'"):
        estimate.ratio(parts, "Fe", "F")
    with pytest.raises(EstimationError, match=r"'F, old' is not positive"):
        estimate.odds_ratio(frame_of([90, 60, 5, 70, 80, 300]), "sex", "age", MECHANISM, columns=("young", "old"))


def simulate(rng, joint, n):
    released = np.kron(LAWS["sex"].array, LAWS["age"].array).T @ joint.ravel()
    return frame_of(rng.multinomial(n, released), rng)


INDEPENDENT = np.outer([0.4, 0.6], [0.3, 0.5, 0.2])
DEPENDENT = INDEPENDENT + 0.06 * np.array([[1, -1, 0], [-1, 1, 0]])


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [None, "w"])
def test_independence_has_its_size_and_power(weights):
    """500 replications at alpha 5%: size within 4 errors (0.97% each); power above 80% at a gap of 0.06."""
    rng = np.random.default_rng(2)

    def rate(joint):
        runs = (simulate(rng, joint, 2_000) for _ in range(500))
        return np.mean(
            [estimate.independence_test(f, "sex", "age", MECHANISM, weights=weights).p_value < 0.05 for f in runs]
        )

    assert abs(rate(INDEPENDENT) - 0.05) < 4 * 0.0097
    assert rate(DEPENDENT) > 0.8


@pytest.mark.statistical
def test_a_joint_block_needs_the_corrected_test():
    """The naive test of the released table rejects independence nearly always; the corrected one keeps its 5%."""
    rng = np.random.default_rng(3)
    joint = 0.6 * np.eye(6)
    joint[:, [0, 4]] += 0.2
    mechanism = Mechanism({("sex", "age"): TransitionMatrix.from_array(joint)}, BOOK)
    corrected, naive = [], []
    for _ in range(400):
        counts = rng.multinomial(2_000, joint.T @ INDEPENDENT.ravel())
        frame = frame_of(counts, rng)
        corrected.append(estimate.independence_test(frame, "sex", "age", mechanism).p_value < 0.05)
        naive.append(stats.chi2_contingency(counts.reshape(2, 3)).pvalue < 0.05)
    assert abs(np.mean(corrected) - 0.05) < 4 * 0.0109
    assert np.mean(naive) > 0.95


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [None, "w"])
def test_goodness_of_fit_has_its_size_and_power(weights):
    rng = np.random.default_rng(4)

    def rate(target):
        runs = (simulate(rng, INDEPENDENT, 2_000) for _ in range(500))
        return np.mean(
            [estimate.goodness_of_fit_test(f, "age", target, MECHANISM, weights=weights).p_value < 0.05 for f in runs]
        )

    assert abs(rate([0.3, 0.5, 0.2]) - 0.05) < 4 * 0.0097
    assert rate([0.4, 0.4, 0.2]) > 0.8


def test_tests_print_and_refuse():
    found = estimate.independence_test(FRAME, "sex", "age", MECHANISM)
    reference = stats.chi2_contingency(np.reshape([90, 60, 50, 70, 80, 100], (2, 3)), correction=False)
    assert found.statistic == pytest.approx(reference.statistic)
    assert found.p_value == pytest.approx(reference.pvalue)
    assert "2 degrees of freedom" in str(found)
    with pytest.raises(UsageError, match="not a distribution"):
        estimate.goodness_of_fit_test(FRAME, "age", [0.5, 0.5], MECHANISM)
    with pytest.raises(EstimationError, match="only one value"):
        estimate.independence_test(frame_of([9, 9, 9, 0, 0, 0]), "sex", "age", MECHANISM)
    mute = TransitionMatrix.from_array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    impossible = estimate.goodness_of_fit_test(FRAME, "age", [0.2, 0.3, 0.5], Mechanism({"age": mute}, BOOK))
    assert impossible.p_value == 0


@given(st.integers(0, 2**32 - 1))
def test_expected_precision_is_the_exact_variance_and_its_maximum(seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(6), 6) * 0.5 + np.eye(6) * 0.5
    joint = bool(rng.integers(2))
    laws = {("sex", "age"): TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True))} if joint else LAWS
    names = [["sex"], ["sex", "age"], ["age", "region"], ["region"]][rng.integers(4)]
    mechanism, n = Mechanism(laws, BOOK), 50
    size = int(np.prod([BOOK[name].size for name in names]))
    law = rng.dirichlet(np.ones(size)).reshape([BOOK[name].size for name in names])
    found = estimate.expected_precision(mechanism, names, n, law)
    full = rows if joint else np.kron(LAWS["sex"].array, LAWS["age"].array)
    full = np.kron(full, np.eye(2))
    order = ["sex", "age", "region"]
    cells = np.array(list(itertools.product(range(2), range(3), range(2))))
    shown = np.ravel_multi_index(tuple(cells[:, [order.index(name) for name in names]].T), law.shape)
    project = (shown[None, :] == np.arange(size)[:, None]).astype(float)
    inverse = project @ np.linalg.inv(full).T
    cost = inverse**2 @ full.T

    def variance(true):
        return (cost @ true - (project @ true) ** 2) / n

    true = law.ravel()[shown] / project.sum(axis=1)[shown]
    np.testing.assert_allclose(found.standard_error.ravel() ** 2, variance(true), rtol=1e-9)
    assert found.effective_sample_size == pytest.approx((1 - (law**2).sum()) / variance(true).sum())
    corners = np.array([variance(t)[0] for t in rng.dirichlet(np.full(12, 0.1), 200)])
    assert corners.max() <= found.worst.ravel()[0] ** 2 * (1 + 1e-9)

    def highest(inside, outside):
        """The largest variance of laws that mix two true cells."""
        mixed = lambda t: -variance(t * np.eye(12)[inside] + (1 - t) * np.eye(12)[outside])[0]  # noqa: E731
        return -optimize.minimize_scalar(mixed, bounds=(0, 1), method="bounded").fun

    pairs = itertools.product(np.flatnonzero(project[0]), np.flatnonzero(project[0] == 0))
    best = max(itertools.starmap(highest, pairs))
    assert found.worst.ravel()[0] ** 2 == pytest.approx(best, rel=1e-4)


def test_expected_precision_agrees_with_an_estimate_and_prints():
    found = estimate.table(FRAME, ["sex", "age"], MECHANISM)
    planned = estimate.expected_precision(MECHANISM, ["sex", "age"], found.records, found.value)
    np.testing.assert_allclose(planned.standard_error, found.standard_error, rtol=2e-3)
    assert planned.effective_sample_size == pytest.approx(found.effective_sample_size, rel=1e-2)
    assert "answer this table like" in str(planned)
    with pytest.raises(UsageError, match="is not a positive number"):
        estimate.expected_precision(MECHANISM, ["sex"], 0)
    with pytest.raises(UsageError, match="not a distribution"):
        estimate.expected_precision(MECHANISM, ["sex"], 10, [0.5, 0.6])
    with pytest.raises(SpecificationError, match="no codebook"):
        estimate.expected_precision(Mechanism(LAWS), ["sex"], 10)
