"""The audit of what releases promise: its bounds against exact tails, its exact sampler, one defect that it finds."""

import itertools
import math
import re

import numpy as np
import pytest
from benchmarks.audit import audit, bounds, checks, of_records, planted_draws
from benchmarks.audit.cases import CASES
from benchmarks.audit.defects import DEFECTS
from scipy.stats import binom, entropy

from postrand import ReleaseKey, randomised_response
from postrand.designers import STRUCTURES
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.sampling import AliasTables, StayOrMove
from postrand.privacy import MODELS
from tests.conftest import ROOT


def test_shares_have_the_bounds_of_clopper_and_pearson():
    """5 of 10 and 0 of 10, two-sided at 95%, are in every table; the others by the tails that define the bounds."""
    assert bounds.share_lower(5, 10, 0.025) == pytest.approx(0.1871, abs=5e-5)
    assert bounds.share_upper(5, 10, 0.025) == pytest.approx(0.8129, abs=5e-5)
    assert bounds.share_upper(0, 10, 0.025) == pytest.approx(0.3085, abs=5e-5)
    assert (bounds.share_lower(0, 10, 0.01), bounds.share_upper(10, 10, 0.01)) == (0, 1)
    hits, trials, alpha = np.arange(1, 50), 50, 1e-5
    assert binom.sf(hits - 1, trials, bounds.share_lower(hits, trials, alpha)) == pytest.approx(alpha, rel=1e-8)
    assert binom.cdf(hits, trials, bounds.share_upper(hits, trials, alpha)) == pytest.approx(alpha, rel=1e-8)


@pytest.mark.parametrize(("p", "q", "delta"), [(0.75, 0.25, 0.0), (0.5, 0.5, 0.0), (0.9, 0.02, 0.0), (0.75, 0.25, 0.2)])
def test_a_bound_of_epsilon_is_above_the_truth_as_rarely_as_stated(p, q, delta):
    """The law of two counts is summed, so the chance is exact; the true ε is that of the event alone."""
    n, alpha = 60, 0.05
    counts = np.arange(n + 1)
    law = np.outer(binom.pmf(counts, n, p), binom.pmf(counts, n, q))
    found = bounds.epsilon_lower(counts[:, None], counts[None, :], (n, n), alpha, delta)
    true = max(math.log((p - delta) / q), 0)
    assert law[found > true].sum() <= alpha
    assert p == q or law[found > 0.4 * true].sum() > 0.1  # and it is of use


def test_the_best_outcomes_are_the_likeliest_ratios():
    first, second = np.array([5, 800, 195, 0]), np.array([4, 100, 296, 600])
    outcomes, promised = bounds.best_outcomes(first, second, (1000, 1000), 0.01)
    every = [np.array(chosen) for chosen in itertools.product((False, True), repeat=4) if any(chosen)]
    values = [float(bounds.epsilon_lower(first[e].sum(), second[e].sum(), (1000, 1000), 0.01)) for e in every]
    assert outcomes.tolist() == every[int(np.argmax(values))].tolist()
    assert promised <= max(values)


def test_entropy_and_posterior_are_bounded_on_the_safe_side():
    rng, law = np.random.default_rng(1), np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    true = float(np.mean([entropy(row) for row in law]))
    drawn = [np.stack([rng.multinomial(2000, row) for row in law]) for _ in range(100)]
    found = np.array([bounds.entropy_upper(counts, 0.05) for counts in drawn])
    assert (found < true).mean() <= 0.05
    assert found.mean() < true + 0.1
    chances, runs = np.array([0.6, 0.3, 0.05, 0.05]), 200  # the posterior of the first record: 0.6 of 1 expected
    hits = [rng.binomial(runs, chances) for _ in range(100)]
    seen = np.array([bounds.posterior_lower(found[0], runs, found.sum(), 4, 0.05) for found in hits])
    assert (seen > 0.6).mean() <= 0.05
    assert seen.mean() > 0.45


@pytest.mark.parametrize(
    "law",
    [
        AliasTables.of(randomised_response(5, 1.3)),
        AliasTables.of(TransitionMatrix(np.array([[UNIT - 3, 3, 0], [1, UNIT - 2, 1], [0, 0, UNIT]]))),
        StayOrMove.of(Constant(np.array([UNIT - 20, UNIT - 10, UNIT]), np.array([10, 5, 0]))),
    ],
    ids=["five categories", "rare", "without tables"],
)
def test_the_chances_of_a_sampler_are_found_to_the_unit(law):
    found = checks.drawn_weights(law, np.arange(law.size))
    if isinstance(law, AliasTables):
        assert np.array_equal(found, law.weights())
    else:
        assert found.tolist() == [[UNIT - 20, 10, 10], [5, UNIT - 10, 5], [0, 0, UNIT]]


def test_a_word_that_is_used_twice_is_found_and_the_program_as_it_is_passes(monkeypatch):
    """With fixed keys: a pass stays a pass."""
    monkeypatch.setattr(ReleaseKey, "fresh", classmethod(lambda cls: cls.from_seed(5)))
    right = audit.audit_case(of_records.RESPONSE, np.random.default_rng(1), copies=3000)
    wrong = audit.audit_case(of_records.RESPONSE, np.random.default_rng(1), planted_draws.word_used_twice, 3000)
    assert (right.caught, right.bounds[0].share > 0.6) == ([], True)
    assert {"refused", "verify"} < set(wrong.caught)
    assert wrong.bounds[0].broken


def test_every_model_structure_and_unit_has_a_case_and_the_page_has_all_cases_and_defects():
    text = (
        "\n".join(plan for case in CASES for plan, _ in case.waves)
        + (ROOT / "benchmarks/audit/neighbours.py").read_text()
    )
    named = {member.name for member in (*MODELS, *STRUCTURES)}
    assert {name for name in named if f'"{name}"' not in text} == set()
    assert {unit for unit in ("household", "person") if f"[unit]\n{unit} = " not in text} == set()
    page = (ROOT / "docs" / "audit.md").read_text()
    assert [case.name for case in CASES if f"| {case.name} |" not in page] == []
    assert [defect.name for defect in DEFECTS if f"| {defect.name} |" not in page] == []
    assert "not found" not in re.sub(r"(?s)## Commands.*", "", page)
