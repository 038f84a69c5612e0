"""The page on ε: its examples print what it says, its numbers are those of the code, and messages lead to it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.estimate.planning import expected_precision
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.plan import load_plan
from postrand.support.guesses import right_guesses
from postrand.workflow.epsilon import BOUND, DEFAULT_EPSILON, GUIDE, above_bound, meaning
from tests.conftest import ROOT
from tests.guides import run_examples

PAGE = (ROOT / GUIDE).read_text(encoding="utf-8")


def level(path):
    """Return the epsilon that a plan claims of a record."""
    claim: Any = load_plan(path).privacy
    return claim.epsilon


def test_examples_print_what_the_page_says():
    assert run_examples(PAGE, "choosing-epsilon.md") == 4


def test_the_levels_of_the_page_are_those_of_the_code():
    assert f"where none is stated | {DEFAULT_EPSILON:g} |" in PAGE
    assert f"above which commands warn | {BOUND:g} |" in PAGE


@pytest.mark.parametrize("size", [2, 5, 12])
def test_the_best_guess_under_randomised_response_is_the_bound(size):
    """The attacker guesses the released value: by brute force from the matrix, the bound is attained."""
    array = randomised_response(size, 2.0).array
    best = sum(array[:, released].max() / size for released in range(size))
    assert best == pytest.approx(right_guesses(2.0, 1 / size), rel=1e-9)


@pytest.mark.parametrize(("size", "epsilon", "worth"), [(5, 1.0, 65.4), (10, 2.0, None), (2, 4.0, 929.3)])
def test_the_worth_of_the_page_is_that_of_the_estimator(size, epsilon, worth):
    """From the variance of the unbiased estimator of a mechanism, at a million records."""
    book = Codebook((Variable("v", "key", tuple(map(str, range(size)))),))
    law = Mechanism([Block(("v",), randomised_response(size, epsilon))], book)
    found = expected_precision(law, ["v"], 10**6).effective_sample_size / 1000
    kept = np.expm1(epsilon) / (np.exp(epsilon) + size - 1)
    assert found == pytest.approx(1000 * kept**2, rel=1e-3)
    assert worth is None or f"{worth}" in PAGE


def test_a_level_is_said_with_the_page():
    assert meaning(2.0).endswith(f"see {GUIDE}")
    assert "at most 89" in meaning(2.0)
    assert list(above_bound(BOUND)) == []
    (said,) = above_bound(53.0)
    assert "postrand advise" in said
    assert GUIDE in said


def write(path, many):
    random = np.random.default_rng(0)
    pq.write_table(pa.table({f"v{k}": [f"c{c}" for c in random.integers(0, 2, 80)] for k in range(many)}), path)
    return path


def test_init_never_writes_a_large_sum_silently(tmp_path):
    file = write(tmp_path / "s.parquet", 20)
    ran = CliRunner().invoke(
        main, ["init", str(file), "--keys", "*", "--perturb", "blocks", "--out", str(tmp_path / "w")]
    )
    assert ran.exit_code == 0, ran.output
    assert "epsilon = 20 for a record is above 8: of 100 guesses" in ran.output
    assert "postrand advise" in ran.output
    plan = (tmp_path / "w" / "plan.toml").read_text().replace("\n# ", " ")
    assert "epsilon = 20 for a record is above 8: of 100 guesses" in plan


def test_init_states_its_defaults_where_nobody_can_be_asked(tmp_path):
    file = write(tmp_path / "s.parquet", 3)
    ran = CliRunner().invoke(main, ["init", str(file), "--keys", "*", "--out", str(tmp_path / "w")])
    assumed = "Assumed: epsilon = 3 for a record, 1 for each perturbed variable (those of one block count once), the "
    assumed += "register attacker, tables. For other plans, of epsilon <= 4 unless --limit says another: "
    assert assumed in ran.output


def test_init_with_a_limit_writes_plans_that_meet_it(tmp_path):
    file = write(tmp_path / "s.parquet", 3)
    asked = ["--keys", "*", "--limit", "epsilon <= 2", "--out", str(tmp_path / "w")]
    ran = CliRunner().invoke(main, ["init", str(file), *asked])
    assert ran.exit_code == 0, ran.output
    assert level(tmp_path / "w" / "plan.toml") <= 2
    advised = sorted((tmp_path / "w" / "advice").glob("plan-*.toml"))
    assert 2 <= len(advised) <= 4
    assert all(level(path) <= 2 for path in advised)


def test_init_with_a_wrong_question_leaves_nothing_behind(tmp_path):
    file = write(tmp_path / "s.parquet", 3)
    asked = ["--keys", "*", "--precision", "2 points for sox", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, ["init", str(file), *asked]).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["s.parquet"]


def test_tune_says_what_its_level_means(tmp_path):
    file = write(tmp_path / "s.parquet", 7)
    keys = ",".join(f"v{k}" for k in range(7))
    asked = ["--keys", keys, "--sampling-fraction", "0.1", "--limit", "tau2 <= 1", "--draws", "2"]
    ran = CliRunner().invoke(main, ["tune", str(file), *asked])
    assert ran.exit_code == 0, ran.output
    assert GUIDE in ran.output or "no perturbation is needed" in ran.output
