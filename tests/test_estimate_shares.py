"""A share among some: dense sums, the delta method, simulation, and what is named wrongly."""

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import UsageError
from postrand.estimate import SurveyDesign
from postrand.estimate.shares import _categories
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix

WORK = Variable("work", "key", (1, 2, 3, 9), ("employed", "unemployed", "mining, retired", "refused"), type="int64",
                missing_codes=(9,))  # fmt: skip
SEX = Variable("sex", "key", ("F", "M"))
BOOK = Codebook((WORK, SEX, Variable("w", "weight", type="double"), Variable("village", "other", type="int64")))
LAW4 = np.array([[0.7, 0.1, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.05, 0.05, 0.1, 0.8]])
LAW2 = np.array([[0.8, 0.2], [0.3, 0.7]])
LAW = Mechanism({"work": TransitionMatrix.from_array(LAW4), "sex": TransitionMatrix.from_array(LAW2)}, BOOK)
AMONG = ("employed", "unemployed")
SHARES = np.array([0.5, 0.1, 0.3, 0.1])


def truth(rng, n):
    sex = rng.integers(0, 2, n)
    work = np.where(rng.random(n) < 0.2 * sex, 1, rng.choice(4, n, p=SHARES))
    return work, sex


def moved(rng, codes, law):
    return (rng.random(len(codes))[:, None] > law.cumsum(axis=1)[codes]).sum(axis=1)


def frame_of(rng, work, sex):
    n = len(work)
    return pa.table({
        "work": np.array(WORK.categories)[work], "sex": np.array(SEX.categories)[sex],
        "w": rng.uniform(0.5, 3, n), "village": np.arange(n) // 10,
    })  # fmt: skip


def released(seed=1, n=3_000):
    rng = np.random.default_rng(seed)
    work, sex = truth(rng, n)
    return frame_of(rng, moved(rng, work, LAW4), moved(rng, sex, LAW2))


def rate(frame, law=LAW, by="sex", **more):
    return estimate.share(frame, "work", law, "unemployed", AMONG, by, **more)


@pytest.mark.parametrize("weights", [None, "w"])
def test_equals_the_dense_sums_record_by_record(weights):
    frame = released()
    work = np.array([WORK.categories.index(x) for x in frame["work"].to_pylist()])
    sex = np.array([SEX.categories.index(x) for x in frame["sex"].to_pylist()])
    w = np.ones(len(work)) if weights is None else frame["w"].to_numpy()
    b, g = np.linalg.inv(LAW4)[work], np.linalg.inv(LAW2)[sex]
    above, below = (w * b[:, 1])[:, None] * g, (w * b[:, :2].sum(axis=1))[:, None] * g
    value = above.sum(axis=0) / below.sum(axis=0)
    influence = (above - value * below) / below.sum(axis=0)
    found = rate(frame, weights=weights)
    assert np.allclose(found.value, value, rtol=1e-10)
    assert np.allclose(found.covariance, len(work) * np.cov(influence.T), rtol=1e-9)
    assert found.perturbed == ("sex", "work")


def test_is_the_ratio_of_two_shares_by_the_delta_method():
    frame = released()
    one = np.eye(4)
    parts = estimate.quantities(frame, ["work"], {"of": one[1], "among": one[0] + one[1]}, LAW)
    found, wanted = rate(frame, by=None), estimate.ratio(parts, "of", "among")
    assert np.isclose(found.value, wanted.value, rtol=1e-12)
    assert np.isclose(found.standard_error, wanted.standard_error, rtol=1e-9)


def test_unperturbed_records_have_the_plain_share():
    rng = np.random.default_rng(2)
    frame = frame_of(rng, *truth(rng, 2_000))
    plain = Mechanism(
        {"w2": TransitionMatrix.from_array(LAW2)}, Codebook((*BOOK.variables, Variable("w2", "key", (0, 1))))
    )
    work, sex = frame["work"].to_numpy(), np.array(frame["sex"].to_pylist())
    found = rate(frame, plain)
    for place, group in enumerate(SEX.categories):
        held = work[(sex == group) & (work <= 2)]
        share = (held == 2).mean()
        assert np.isclose(found.value[place], share)
        assert np.isclose(found.standard_error[place], np.sqrt(share * (1 - share) / len(held)), rtol=1e-3)


def test_intervals_cover_the_true_rate_and_errors_are_the_spread():
    values, errors, covered = [], [], 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        work = rng.choice(4, 1_500, p=SHARES)
        found = rate(frame_of(rng, moved(rng, work, LAW4), rng.integers(0, 2, 1_500)), by=None)
        low, high = found.interval()
        covered += bool(low <= SHARES[1] / SHARES[:2].sum() <= high)
        values.append(float(found.value))
        errors.append(float(found.standard_error))
    spread = np.std(values, ddof=1)
    assert abs(np.mean(values) - SHARES[1] / SHARES[:2].sum()) < 4 * spread / np.sqrt(200)
    assert 0.8 < np.mean(errors) / spread < 1.25
    assert covered >= 180


def test_with_clusters_the_share_is_the_same_and_the_error_that_of_villages():
    frame = released()
    found = rate(frame, design=SurveyDesign(weights="w", psu="village"))
    assert np.allclose(found.value, rate(frame, weights="w").value)
    assert found.degrees_of_freedom == 299
    assert np.isfinite(found.standard_error_of("sampling")).all()


def test_without_among_all_answers_count_and_a_note_says_who_is_left_out():
    frame = released()
    found = estimate.share(frame, "work", LAW, "unemployed")
    among = estimate.share(frame, "work", LAW, "unemployed", ("employed", "unemployed", "mining, retired"))
    assert found.value == among.value
    assert found.method.startswith("share of work = unemployed, corrected")
    assert among.method.startswith("share of work = unemployed among employed or unemployed or mining, retired")
    assert found.warnings[0].startswith("Who has no answer of work (refused) is left out")
    assert not among.warnings


def test_categories_are_named_by_labels_or_codes():
    frame = released()
    assert rate(frame).value.tolist() == estimate.share(frame, "work", LAW, 2, [1, "2"], "sex").value.tolist()
    assert _categories('"mining, retired", employed', "--of") == ("mining, retired", "employed")


@pytest.mark.parametrize(("of", "among", "told"), [
    ("unemployd", None, "no category 'unemployd' .did you mean 'unemployed'"),
    ("refused", AMONG, "a share is of categories that are among the others"),
    ((), AMONG, "no category is named"),
])  # fmt: skip
def test_what_is_named_wrongly_is_refused(of, among, told):
    with pytest.raises(UsageError, match=told):
        estimate.share(released(), "work", LAW, of, among)


def test_a_share_and_a_mean_of_which_nothing_is_known_are_said_to_be():
    """The share of a category and the mean of its indicator are one number: they have one warning."""
    book = Codebook((SEX, Variable("ill", "other", (0, 1), type="int64"), Variable("dose", "other", type="double")))
    rng, seen = np.random.default_rng(4), set()
    for n, kept in ((60, 0.02), (60, 0.25), (60, 0.4), (900, 0.8)):
        weak = Mechanism({"sex": TransitionMatrix.from_array(kept * np.eye(2) + (1 - kept) / 2)}, book)
        ill = rng.integers(0, 2, n)
        frame = pa.table({"sex": rng.choice(["F", "M"], n), "ill": ill, "dose": 20.0 + 3 * ill})
        told = [estimate.share(frame, "ill", weak, 1, by="sex"), estimate.mean(frame, "ill", weak, "sex")]
        told.append(estimate.mean(frame, "dose", weak, "sex"))
        low, high = told[0].interval()
        wide = np.isfinite(high - low) & (high - low >= 0.9)
        seen.add("wide" if wide.any() else "none" if np.isinf(high).all() else "fine")
        for found in told:
            assert found.usable.tolist() == (np.isfinite(high - low) & ~wide).tolist()
            which = ", ".join(label for label, one in zip("FM", wide, strict=True) if one)
            named = [text for text in found.warnings if "Do not use these numbers" in text]
            assert [f"all possible values: {which}. Do" in text for text in named] == [True] * bool(which)
    assert seen == {"wide", "none", "fine"}
    share = estimate.share(frame, "ill", weak, 1)
    with pytest.raises(UsageError, match="only shares have counts"):
        share.counts()
