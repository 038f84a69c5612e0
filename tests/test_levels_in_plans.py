"""(ε, δ), Rényi, concentrated and shuffled levels: the sums behind them, and their way through plan and release."""

import itertools
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand import ReleaseKey, run, verify
from postrand.certification.certificate import Claim
from postrand.designers import Symmetric, design
from postrand.errors import PrivacyError, ReleaseError, SpecificationError
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.objectives import ExpectedChanges
from postrand.privacy import (
    ApproximateDifferentialPrivacy,
    ConcentratedPrivacy,
    RenyiPrivacy,
    ShuffledPrivacy,
    compose,
    composition,
    delta,
)
from postrand.privacy.composition import delta_upper
from tests.plan_case import written
from tests.release_case import rebuild

CODEBOOK = """
[[variables]]
name = "a"
role = "key"
ordered = true
categories = ["0", "1", "2"]

[[variables]]
name = "b"
role = "key"
categories = ["x", "y"]
"""
BLOCKS = """
[[blocks]]
variables = ["a"]
privacy = { model = "differential", epsilon = 1.0 }

[[blocks]]
variables = ["b"]
privacy = { model = "differential", epsilon = 1.0 }
"""


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(5)
    rows = [f"{rng.integers(3)},{'xy'[rng.integers(2)]}" for _ in range(3_000)]
    (tmp_path / "survey.csv").write_text("\n".join(["a,b", *rows, ""]), "utf-8")
    (tmp_path / "codebook.toml").write_text(CODEBOOK, "utf-8")
    return tmp_path


def planned(folder, text, book=CODEBOOK):
    return written(folder, book, '[source]\nfile = "survey.csv"\ncodebook = "codebook.toml"\n' + text)


def brute_delta(matrices, epsilon):
    """Return δ(ε) of a product, over every pair of true records and every released one."""
    law = np.ones((1, 1))
    for matrix in matrices:
        law = np.kron(law, matrix.array)
    pairs = itertools.permutations(range(len(law)), 2)
    return max(np.maximum(law[i] - math.exp(epsilon) * law[k], 0).sum() for i, k in pairs)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), epsilon=st.floats(0.01, 3))
def test_the_delta_of_several_blocks_is_that_of_their_product(seed, epsilon):
    rng = np.random.default_rng(seed)
    laws = [TransitionMatrix.from_array(rng.dirichlet(np.ones(s), size=s)) for s in rng.integers(2, 4, size=2)]
    found, truth = delta_upper(laws, epsilon), brute_delta(laws, epsilon)
    assert truth - 1e-12 <= found <= truth + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 7.0, 8.0, 9.0])
def test_the_delta_of_many_equal_blocks_is_the_accountants_and_never_below_it(epsilon, monkeypatch):
    laws = [randomised_response(3, 1.0)] * 8
    exact = delta_upper(laws, epsilon)
    assert exact <= compose(laws).delta(epsilon) <= exact * 1.05 + 1e-6
    monkeypatch.setattr(composition, "MAX_TERMS", 10)
    bound = delta_upper(laws, epsilon)
    assert exact <= bound <= 1
    assert bound <= 6 * exact or bound < 0.5


def test_one_block_is_exact_and_zeros_are_no_obstacle():
    law = TransitionMatrix.from_array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9], [0.5, 0.0, 0.5]])
    assert delta_upper([law], 1.0) == delta(law, 1.0)
    assert delta_upper([law, law], 1.0) == pytest.approx(brute_delta([law, law], 1.0), abs=1e-12)
    assert not ApproximateDifferentialPrivacy(1.0, 0.5).check([law, law]).holds


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize(
    "model",
    [
        ApproximateDifferentialPrivacy(1.0, 1e-3),
        RenyiPrivacy(0.5, order=3.0),
        ConcentratedPrivacy(0.1),
        ShuffledPrivacy(0.2, 1e-6, records=5_000),
    ],
    ids=lambda m: m.name,
)
def test_randomised_response_uses_all_that_a_level_allows(model, size):
    found = design(np.full(size, 1 / size), model, ExpectedChanges(), Symmetric())
    assert model.check([found.matrix]).holds
    beyond = found.matrix.array * (1 - 1e-4) + 1e-4 * np.eye(size)
    assert not model.check([TransitionMatrix.from_array(beyond)]).holds
    low, high = model.stays(size)
    assert low < 1 / size < high
    assert (found.status == "optimal") is model.traits.ends_proven


def test_twenty_blocks_meet_less_than_the_sum_of_their_epsilon():
    laws = [randomised_response(2, 0.5)] * 20
    found = ApproximateDifferentialPrivacy(8.0, 0.001).check(laws)
    assert found.holds
    assert "(ε, δ)-differential privacy, ε = 8.0 and δ <= 0.00065" in found.sentence
    assert not ApproximateDifferentialPrivacy(8.0, found.level * 0.999).check(laws).holds


@pytest.mark.parametrize(
    "privacy",
    [
        'model = "approximate"\nepsilon = 1.9\ndelta = 0.2',
        'model = "renyi"\nlevel = 1.4\norder = 2.0',
        'model = "concentrated"\nrho = 0.9',
        'model = "shuffled"\nepsilon = 0.3\ndelta = 1e-6',
    ],
)
def test_a_level_is_the_records_claim_and_is_certified(survey, privacy):
    plan = planned(survey, f"[privacy]\n{privacy}\n{BLOCKS}")
    release = run(plan, survey / "release", release_key=ReleaseKey.from_seed(1))
    claim = json.loads((survey / "release" / "certificate.json").read_text("utf-8"))["claims"][0]
    assert claim["privacy"]["model"] in privacy
    assert claim["level"] <= claim["privacy"].get("delta", math.inf)
    assert claim["privacy"].get("records", 3_000) == 3_000
    assert verify(release.path).verdict == "verified"


def test_more_claims_on_the_record_are_certified_beside_the_first(survey):
    text = """
[privacy]
model = "differential"
epsilon = 2.0

[[claims]]
model = "concentrated"
rho = 0.9

[[claims]]
model = "shuffled"
epsilon = 0.3
delta = 1e-6
"""
    release = run(planned(survey, text + BLOCKS), survey / "release", release_key=ReleaseKey.from_seed(1))
    names = [claim["privacy"]["model"] for claim in release.certificate["claims"]]
    assert names == ["differential", "differential", "differential", "concentrated", "shuffled"]
    assert verify(release.path).verdict == "verified"


SHUFFLED = '[privacy]\nmodel = "shuffled"\nepsilon = 0.3\ndelta = 1e-6\n'
WEIGHT = CODEBOOK + '\n[[variables]]\nname = "w"\nrole = "other"\ncategories = ["0", "1"]\n'


@pytest.mark.parametrize(
    ("text", "book", "words"),
    [
        (SHUFFLED + BLOCKS + "[release]\nshuffle = false\n", CODEBOOK, "original order"),
        (
            SHUFFLED + BLOCKS,
            CODEBOOK.replace('name = "b"', 'name = "b"\nmissing = "keep"'),
            "kept missing values distinguish",
        ),
        (
            SHUFFLED + BLOCKS.rpartition("[[blocks]]")[0],
            CODEBOOK,
            "unperturbed variables distinguish the records; got b",
        ),
        (SHUFFLED.replace("0.3", "0.01") + BLOCKS, CODEBOOK, "does not meet shuffled"),
        (SHUFFLED + "records = 10000\n" + BLOCKS, CODEBOOK, "differ in the number of records"),
    ],
)
def test_nothing_is_hidden_by_the_order_of_records_that_can_be_told_apart(survey, text, book, words):
    with pytest.raises(PrivacyError, match=re.escape(words)):
        run(planned(survey, text, book), survey / "release", release_key=ReleaseKey.from_seed(1))
    assert not (survey / "release").exists()


def test_a_forged_number_of_records_is_found_out(survey):
    release = run(planned(survey, SHUFFLED + BLOCKS), survey / "release", release_key=ReleaseKey.from_seed(1))
    rebuild(release.path, [Claim(ShuffledPrivacy(0.3, 1e-6, records=9_000), ("a", "b"))])
    with pytest.raises(ReleaseError, match="differ in the number of records"):
        verify(release.path)


def test_blocks_do_not_share_a_level_that_is_not_divided(survey):
    with pytest.raises(SpecificationError, match=r"unknown option 'rho'"):
        planned(survey, '[privacy]\nmodel = "approximate"\nepsilon = 1.0\nrho = 1.0\n' + BLOCKS)
    more = '[[claims]]\nmodel = "recognition"\nalpha = 0.1\n'
    with pytest.raises(SpecificationError, match=r"\[\[claims\]\] 1: 'recognition' rests on the file"):
        planned(survey, '[privacy]\nmodel = "differential"\nepsilon = 2.0\n' + more + BLOCKS)


def test_a_model_without_records_says_what_it_misses():
    with pytest.raises(PrivacyError, match="number of records, which is unknown"):
        ShuffledPrivacy(0.3, 1e-6).check([randomised_response(2, 1.0)])
