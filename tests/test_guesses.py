"""The words for an attacker's success: every formula against brute force, a linear program or exact sums."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from postrand.certification.certificate import Claim
from postrand.certification.plain_words import plain_claims
from postrand.codebook import Codebook, Variable
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.privacy import MODELS, DifferentialPrivacy, promise
from postrand.privacy.words import alike_in_plain_words, file_in_plain_words, in_plain_words
from postrand.support import options
from postrand.support.guesses import (
    of_hundred,
    right_guesses,
    right_guesses_by_bits,
    right_guesses_by_divergence,
)

PRIORS = {2: [0.5, 0.5], 3: [1 / 3] * 3, 4: [0.25] * 4}


def best_attack(prior, epsilon, delta=0.0):
    """Return the most right guesses of any law under (ε, δ), by a linear program over laws from values to guesses."""
    size = len(prior)
    rows, limits = [], []
    sets = [s for k in range(1, size) for s in itertools.combinations(range(size), k)]
    for i, k in itertools.permutations(range(size), 2):
        for members in sets:
            row = np.zeros((size, size))
            row[i, members] = 1.0
            row[k, members] = -math.exp(epsilon)
            rows.append(row.ravel())
            limits.append(delta)
    sums = np.kron(np.eye(size), np.ones(size))
    value = -np.diag(prior).ravel()
    found = linprog(value, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(size), bounds=(0, 1))
    assert found.success
    return -found.fun


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_attack_on_any_law_has_more_right_guesses(size, epsilon):
    rng = np.random.default_rng(size)
    for prior in (np.full(size, 1 / size), rng.dirichlet(np.ones(size))):
        for delta in (0.0, 0.05):
            assert best_attack(prior, epsilon, delta) <= right_guesses(epsilon, max(prior), delta) + 1e-9
    assert best_attack(PRIORS[size], epsilon) == pytest.approx(right_guesses(epsilon, 1 / size), abs=1e-9)
    assert best_attack([0.5, 0.5], epsilon, 0.05) == pytest.approx(right_guesses(epsilon, 0.5, 0.05), abs=1e-9)


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.5), (5, 1.0), (40, 3.0)])
def test_randomised_response_attains_the_share(size, epsilon):
    law = randomised_response(size, epsilon).array
    assert law.max(axis=0).sum() / size == pytest.approx(right_guesses(epsilon, 1 / size), rel=1e-9)


def test_no_posterior_is_above_the_share():
    rng = np.random.default_rng(3)
    for _ in range(200):
        epsilon, size = rng.uniform(0.1, 3), int(rng.integers(2, 6))
        columns = rng.uniform(1, math.exp(epsilon), (size, 7))  # any column within e^ε: one released value each
        prior = rng.dirichlet(np.ones(size))
        joint = prior[:, None] * columns
        posterior = joint / joint.sum(axis=0)
        most = np.array([right_guesses(epsilon, p) for p in prior])
        assert (posterior <= most[:, None] + 1e-12).all()


def test_bits_that_stay_hidden_limit_the_guesses():
    rng = np.random.default_rng(4)
    for _ in range(200):
        size = int(rng.integers(2, 7))
        weights = rng.dirichlet(np.full(6, 0.4))
        law = sum(w * np.eye(size)[rng.permutation(size)] for w in weights)  # rows and columns sum to 1
        hidden = -np.where(law > 0, law * np.log(np.where(law > 0, law, 1)), 0).sum() / size
        share = right_guesses_by_bits(hidden / math.log(size), size)
        assert law.max(axis=0).sum() / size <= share + 1e-9
    law = randomised_response(4, 1.5).array  # attains it: wrong guesses are alike
    hidden = -(law * np.log(law)).sum() / 4
    assert right_guesses_by_bits(hidden / math.log(4), 4) == pytest.approx(law[0, 0], abs=1e-9)


def test_a_small_divergence_limits_the_guesses():
    rng = np.random.default_rng(5)
    for _ in range(300):
        p, q = rng.dirichlet(np.full(5, rng.uniform(0.2, 20)), 2)
        share = (1 + np.abs(p - q).sum() / 2) / 2
        for one, two in ((p, q), (q, p)):
            assert share <= right_guesses_by_divergence(float((one * np.log(one / two)).sum())) + 1e-12


def test_bounds_are_rounded_up():
    for share in np.random.default_rng(6).uniform(0.001, 0.9998, 500):
        assert float(of_hundred(share, most=True)) >= 100 * share - 1e-9
        assert float(of_hundred(share, most=True)) <= 100 * share + 1.0
    assert of_hundred(1.0, most=True) == "100"


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_says_what_it_promises(kind):
    given = {"edges": ((0, 1, 1.0), (1, 2, 1.0))} if kind.name == "metric" else {}
    model = options.usual(kind, **given)
    text = promise(model, 3)
    assert "100" in text, kind
    assert not text.endswith(".")
    assert in_plain_words(model, ("area",), 3).startswith("area: ")


def test_claims_on_single_variables_are_said_together():
    book = Codebook(
        (Variable("sex", "key", ("F", "M")), Variable("own", "key", ("n", "y")), Variable("area", "key", tuple("abc")))
    )
    laws = {name: randomised_response(book[name].size, 1.0) for name in book.names}
    each = [Claim(DifferentialPrivacy(1.0), (name,)) for name in book.names]
    told = plain_claims([Claim(DifferentialPrivacy(9.0), book.names), *each], Mechanism(laws, book))
    assert len(told) == 2
    assert told[0].startswith("sex, own, area together: ")
    assert "among 12 equally likely combinations" in told[0]
    assert told[0].endswith("an epsilon this large is little protection.")
    assert told[1].startswith("sex, own, area, each by itself: ")
    area = "; area: of 100 guesses among 3 equally likely values, 33 without and at most 58 with them."
    assert told[1].endswith(area)
    within = alike_in_plain_words(DifferentialPrivacy(1.0), {"a": 9, "b": 9}, within=True)
    assert "among 9" not in within
    assert "same class" in within


def test_the_file_is_said_in_guesses_too():
    assert "at most 63 with the perturbed" in file_in_plain_words(0.5, 1e-6)


def test_variables_whose_guesses_are_not_told_are_counted():
    """Each variable has one number of guesses; of many variables the first twelve are told, the rest counted."""
    for many, said in ((14, ""), (15, "; and 3 more variables, by their own numbers of values.")):
        text = alike_in_plain_words(DifferentialPrivacy(1.0), {f"v{k}": 3 + k for k in range(many)})
        assert text.count("of 100 guesses among") == (many if not said else 12)
        assert text.endswith(said)
        assert all(f"v{k}" in text.partition(", each by itself")[0] for k in range(many))
