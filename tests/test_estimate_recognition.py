"""The analyst's side of C1: the joint distribution with the sensitive variables, and the posterior of a target."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.designers import least_loss
from postrand.errors import UsageError
from postrand.estimate.recognition import candidates
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy import SpontaneousRecognition
from postrand.risk import target_posterior

COUNTS = np.array([[400, 90, 60], [6, 120, 80]])
SEX, AREA = ("F", "M"), ("n", "s", "w")
BOOK = Codebook((Variable("sex", role="key", categories=SEX), Variable("area", role="key", categories=AREA)))
INCOME = Variable("income", role="sensitive", categories=("low", "high"))


def released(mechanism_array, seed):
    """Perturb the joint key of every record by numpy, income untouched; returns frame and true joint counts."""
    rng = np.random.default_rng(seed)
    types = np.repeat(np.arange(6), COUNTS.ravel())
    income = rng.integers(0, 2, len(types))
    income[types == 3] = 1
    drawn = np.array([rng.choice(6, p=mechanism_array[t]) for t in types])
    frame = {"sex": [SEX[t // 3] for t in drawn], "area": [AREA[t % 3] for t in drawn]}
    truth = np.zeros((2, 3, 2))
    np.add.at(truth, (types // 3, types % 3, income), 1)
    return pa.table({**frame, "income": [INCOME.categories[i] for i in income]}), truth


def test_joint_estimate_is_chr_4_and_unbiased():
    """Mean of 60 releases within 5 standard errors of the truth in each of 12 cells (alpha below 1e-5)."""
    model = SpontaneousRecognition(0.1, 2).on(COUNTS, ("sex", "area"))
    law = least_loss(model).matrix
    mechanism = Mechanism({("sex", "area"): law}, Codebook((*BOOK.variables, INCOME)))
    values = []
    for seed in range(60):
        frame, truth = released(law.array, 7 if seed == 0 else 1000 + seed)
        found = estimate.table(frame, ["sex", "area", "income"], mechanism).value
        counts = np.zeros((6, 2))
        pairs = zip(*(frame[c].to_pylist() for c in ("sex", "area", "income")), strict=True)
        for s, a, i in pairs:
            counts[SEX.index(s) * 3 + AREA.index(a), INCOME.categories.index(i)] += 1
        by_hand = (np.linalg.inv(law.array).T @ counts / counts.sum()).reshape(2, 3, 2)
        np.testing.assert_allclose(found, by_hand, atol=1e-12)
        values.append(found - truth / truth.sum())
    errors = np.array(values)
    error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) <= 5 * error + 1e-12).all()
    likely = estimate.maximum_likelihood(frame, ["sex", "area", "income"], mechanism)
    assert likely.value.min() >= 0


def test_posterior_of_a_target_estimates_the_confidential_one():
    model = SpontaneousRecognition(0.1, 2).on(COUNTS, ("sex", "area"))
    law = least_loss(model).matrix
    mechanism = Mechanism({("sex", "area"): law}, BOOK)
    frame, _ = released(law.array, 3)
    found = candidates(frame, ["sex", "area"], {"sex": "M", "area": "n"}, mechanism)
    shown = np.array(
        [[((np.array(frame["sex"]) == s) & (np.array(frame["area"]) == a)).sum() for a in AREA] for s in SEX]
    )
    assert np.array_equal(found.records, shown)
    a, least = law.array[3].reshape(2, 3), law.array.min(axis=0).reshape(2, 3)
    by_hand = a_bound(np.maximum(a, 1e-300), least, shown, COUNTS.sum())
    np.testing.assert_allclose(found.bound, np.where(a > 0, np.minimum(by_hand, 1 / shown), 0.0))
    assert (found.posterior <= found.bound).all()
    exact = target_posterior(law, COUNTS.ravel())[3].reshape(2, 3)
    assert exact.max() <= 0.1
    # CHR's denominator is the expectation of the count: near where many records are, and dominated by the same cell.
    many = shown > 50
    np.testing.assert_allclose(found.posterior[many], exact[many], rtol=0.35)
    assert found.largest >= exact.max()


def test_posterior_over_separate_blocks_and_some_keys():
    sex = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    area = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    mechanism = Mechanism({"sex": sex, "area": area}, BOOK)
    frame = pa.table({"sex": ["F", "F", "M", "M"], "area": ["n", "s", "s", "s"]})
    found = candidates(frame, ["area", "sex"], {"sex": "M", "area": "n"}, mechanism)
    assert found.variables == ("area", "sex")
    # The least mass of anybody: 0 for area n, 1/4 for area s and for either sex.
    by_hand = [1.0, a_bound(0.25 * 0.25, 0.25 * 0.25, 1), a_bound(0.25 * 0.75, 0.25 * 0.25, 2)]
    np.testing.assert_allclose(found.bound[[0, 1, 1], [0, 0, 1]], by_hand)
    assert np.isnan(found.posterior[[0, 2, 2], [1, 0, 1]]).all()
    alone = candidates(frame, ["sex"], {"sex": "M"}, mechanism)
    np.testing.assert_allclose(alone.bound, [a_bound(0.25, 0.25, 2), a_bound(0.75, 0.25, 2)])


def a_bound(a, b, shown, n=4):
    return a / (a * shown + (1 - a) * (n - shown) * b / (1 - b))


def count_law(chances):
    """Return the law of the number of successes of independent trials, by adding one trial at a time."""
    law = np.ones(1)
    for b in chances:
        law = np.convolve(law, [1 - b, b])
    return law


def coded(counts, matrix):
    """Return a released table with these counts of one variable, its mechanism and its categories."""
    labels = tuple(f"k{i}" for i in range(len(counts)))
    mechanism = Mechanism({"k": matrix}, Codebook((Variable("k", role="key", categories=labels),)))
    return pa.table({"k": [labels[i] for i in np.repeat(np.arange(len(counts)), counts)]}), mechanism, labels


def test_one_person_of_a_type_that_nobody_else_has():
    """k-ary randomised response over 50 categories, ε = 3, n = 11: the exact posterior of the only record is .736."""
    law = randomised_response(50, epsilon=3.0)
    counts = np.zeros(50, dtype=int)
    counts[[0, 1, 7, 8, 9, 12, 13, 14]] = 1, 4, 1, 1, 1, 1, 1, 1
    frame, mechanism, labels = coded(counts, law)
    found = candidates(frame, ["k"], {"k": labels[0]}, mechanism)
    others = count_law([law.array[1, 0]] * 10)
    a = law.array[0, 0]
    exact = a * others[0] / (a * others[0] + (1 - a) * others[1])
    assert exact == pytest.approx(0.736, abs=5e-4)
    assert found.posterior[0] == pytest.approx(exact, rel=1e-6)
    assert found.bound[0] == pytest.approx(exact, rel=1e-12)
    assert a == pytest.approx(0.291, abs=5e-4)  # what dividing by the count alone says


@pytest.mark.parametrize("target", range(3))
def test_the_bound_is_never_too_low_whoever_the_others_are(target):
    """Every company of three others, combination and count: the exact posterior given the count, by enumeration."""
    law = TransitionMatrix.from_array([[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]])
    reached = 0
    for k, shown in itertools.product(range(3), range(1, 5)):
        counts = np.zeros(3, dtype=int)
        counts[k], counts[(k + 1) % 3] = shown, 4 - shown
        frame, mechanism, labels = coded(counts, law)
        bound = candidates(frame, ["k"], {"k": labels[target]}, mechanism).bound[k]
        a = law.array[target, k]
        for company in itertools.combinations_with_replacement(range(3), 3):
            others = np.append(count_law(law.array[list(company), k]), 0.0)
            stays, leaves = a * others[shown - 1], (1 - a) * others[shown]
            if stays + leaves > 0:
                exact = stays / (stays + leaves) / shown
                assert exact <= bound * (1 + 1e-12)
                reached += exact >= bound * (1 - 1e-12)
    assert reached >= 12  # once at least for each combination and count


@pytest.mark.statistical
def test_the_posterior_is_not_too_low_for_a_person_whom_nobody_is_like():
    """300 files of 15: how often the target is among the N records, against N times the posterior: alpha 1e-6.

    The others are of 29 types at random, and the analyst does not know which. The mutant a/N is far too low.
    """
    law = randomised_response(30, epsilon=3.0)
    rng = np.random.default_rng(5)
    cuts = np.cumsum(law.array, axis=1)
    gaps: list[float] = []
    old: list[float] = []
    while len(gaps) < 300:
        types = np.append(0, rng.integers(1, 30, 14))
        out = (rng.random((15, 1)) > cuts[types]).sum(axis=1)
        counts = np.bincount(out, minlength=30)
        if not counts[0]:
            continue
        frame, mechanism, labels = coded(counts, law)
        stated = counts[0] * candidates(frame, ["k"], {"k": labels[0]}, mechanism).posterior[0]
        gaps.append((out[0] == 0) - stated)
        old.append((out[0] == 0) - law.array[0, 0])
    error = 4.9 * np.std(gaps) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < error
    assert np.mean(old) > error


def test_targets_are_checked():
    mechanism = Mechanism({("sex", "area"): TransitionMatrix.identity(6)}, BOOK)
    frame = pa.table({"sex": ["F", "M"], "area": ["n", "s"]})
    with pytest.raises(UsageError, match=r"target's 'area' is missing.*perturbed jointly"):
        candidates(frame, ["sex"], {"sex": "F"}, mechanism)
    with pytest.raises(UsageError, match=r"'sex' has no such category"):
        candidates(frame, ["sex"], {"sex": "X", "area": "n"}, mechanism)
    cells = ((0, 0), (0, 1), (1, 1))
    some = Mechanism([Block(("sex", "area"), TransitionMatrix.identity(3), cells)], BOOK)
    with pytest.raises(UsageError, match="not a feasible combination"):
        candidates(frame.slice(0, 1), ["sex"], {"sex": "M", "area": "n"}, some)
