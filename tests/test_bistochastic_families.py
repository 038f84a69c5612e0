"""The paper's parameterised laws as structures of a plan: closed forms, the wanted β just reached, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.designers import Parameterised, design
from postrand.errors import DesignError, PostrandError, PrivacyError
from postrand.mechanism.matrix import randomised_response
from postrand.objectives import ExpectedChanges, MutualInformation
from postrand.privacy import Bistochastic, DifferentialPrivacy
from postrand.support.options import from_dict

PRIOR = np.array([0.4, 0.3, 0.2, 0.1])


def made(family, beta, values=(), prior=PRIOR):
    return design(prior, Bistochastic(beta), ExpectedChanges(), Parameterised(family, values)).matrix


@given(st.sampled_from(["randomised-response", "tridiagonal"]), st.floats(0.01, 0.95), st.integers(2, 12))
def test_the_parameter_just_reaches_beta(family, beta, size):
    prior = np.full(size, 1 / size)
    if family == "tridiagonal" and beta > math.log(2) / math.log(size) - 1e-6:  # a band of three has few nats
        rows = np.log(size) * beta
        if rows > math.log(3):
            with pytest.raises(PrivacyError, match="no parameter reaches this beta"):
                made(family, beta, prior=prior)
        return
    law = made(family, beta, prior=prior)
    assert law.is_bistochastic
    assert beta <= law.beta <= beta + 1e-6


def test_randomised_response_is_the_one_of_its_epsilon():
    law = made("randomised-response", 0.6)
    np.testing.assert_allclose(law.array, randomised_response(4, law.epsilon).array, atol=1e-12)


@pytest.mark.parametrize(("beta", "sizes"), [(0.0, [1] * 7), (0.2, [2, 2, 3]), (0.5, [3, 4]), (0.7, [7])])
def test_blocks_are_the_smallest_that_suffice(beta, sizes):
    law = made("blocks", beta, prior=np.full(7, 1 / 7))
    entropy = sum(n * math.log(n) for n in sizes) / 7 / math.log(7)
    assert law.beta == pytest.approx(entropy, abs=1e-9)
    assert law.beta >= beta


def test_own_values_are_taken_in_their_order():
    alpha = [0.3, 0.2, 0.1]
    law = made("tridiagonal", 0.3, alpha).array
    np.testing.assert_allclose(np.diag(law, 1), alpha, atol=1e-15)
    np.testing.assert_allclose(np.diag(law, -1), alpha, atol=1e-15)
    assert made("circulant", 0.1, [0.7, 0.2, 0.1, 0.0]).array[1].tolist() == pytest.approx([0.0, 0.7, 0.2, 0.1])
    assert made("blocks", 0.1, [3, 1]).array[3].tolist() == [0, 0, 0, 1]
    plain = {"model": "parameterised", "family": "tridiagonal", "values": alpha}
    assert from_dict([Parameterised], plain, "plan.toml") == Parameterised("tridiagonal", tuple(alpha))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tridiagonall",), "did you mean 'tridiagonal'"),
        ((["blocks"],), "unknown family"),
        (("circulant",), "takes its first row as values"),
        (("randomised-response", [0.5]), "takes no values"),
        (("tridiagonal", [0.1, math.nan, 0.1]), "not a list of finite numbers"),
        (("tridiagonal", "abc"), "not a list of finite numbers"),
        (("tridiagonal", [0.1]), "too few or too many; got 1; wanted 3"),
        (("tridiagonal", [0.6, 0.6, 0.1]), r"alpha\[0\] \+ alpha\[1\] exceeds 1"),
        (("blocks", [3, 2]), "do not add up; got 5; wanted 4"),
        (("blocks", [2.5, 1.5]), "do not add up"),
        (("blocks", [-1, 5]), "not a positive integer"),
        (("circulant", [0.5, 0.6, 0, 0]), "not a probability distribution"),
        (("circulant", [0.97, 0.01, 0.01, 0.01]), "does not meet its privacy model"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(PostrandError, match=message):
        design(PRIOR, Bistochastic(0.5), MutualInformation(), Parameterised(*arguments))


def test_another_privacy_model_is_refused_and_nothing_is_claimed_of_other_matrices():
    with pytest.raises(DesignError, match="no algorithm for 'differential'"):
        design(PRIOR, DifferentialPrivacy(1.0), MutualInformation(), Parameterised())
    found = design(PRIOR, Bistochastic(0.5), MutualInformation(), Parameterised())
    assert found.status == "local"
    assert "nothing is proven" in found.message
