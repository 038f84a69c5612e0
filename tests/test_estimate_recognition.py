"""The analyst's side of C1: the joint distribution with the sensitive variables, and the posterior of a target."""

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.design import least_loss
from postrand.errors import UsageError
from postrand.estimate.recognition import candidates
from postrand.matrix import TransitionMatrix
from postrand.mechanism import Block, Mechanism
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
    np.testing.assert_allclose(found.posterior.ravel(), law.array[3] / shown.ravel())
    exact = target_posterior(law, COUNTS.ravel())[3]
    assert exact.max() <= 0.1
    # The release's own count stands for its expectation: right within the sampling error of about ten records.
    assert found.largest == pytest.approx(exact.max(), rel=1.0)


def test_posterior_over_separate_blocks_and_some_keys():
    sex = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    area = TransitionMatrix.from_array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    mechanism = Mechanism({"sex": sex, "area": area}, BOOK)
    frame = pa.table({"sex": ["F", "F", "M", "M"], "area": ["n", "s", "s", "s"]})
    found = candidates(frame, ["area", "sex"], {"sex": "M", "area": "n"}, mechanism)
    assert found.variables == ("area", "sex")
    expected = [[0.5 * 0.25 / 1, np.nan], [0.25 * 0.25 / 1, 0.25 * 0.75 / 2], [np.nan, np.nan]]
    np.testing.assert_allclose(found.posterior, expected)
    alone = candidates(frame, ["sex"], {"sex": "M"}, mechanism)
    np.testing.assert_allclose(alone.posterior, [0.125, 0.375])


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
