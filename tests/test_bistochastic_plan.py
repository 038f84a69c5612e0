"""Bistochastic privacy from a plan to a verified release, through the command line."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from postrand.cli import main

CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["F", "M"]

[[variables]]
name = "area"
role = "key"
categories = ["n", "s", "w"]
"""
PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"

[privacy]
model = "bistochastic"
beta = 0.5

[design]
structure = "bistochastic"

[[blocks]]
variables = ["sex"]
objective = "changes"
privacy = { model = "bistochastic", beta = 0.5 }

[[blocks]]
variables = ["area"]
objective = "information"
privacy = { model = "bistochastic", beta = 0.62 }
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    rows = zip(rng.choice(["F", "M"], 500), rng.choice(["n", "s", "w"], 500), strict=True)
    (tmp_path / "survey.csv").write_text("sex,area\n" + "".join(f"{a},{b}\n" for a, b in rows))
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def answer(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_plan_becomes_a_release_whose_certificate_states_beta_and_bits(folder):
    code, made = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    assert code == 0, made
    together, sex, area = made["claims"]
    assert together.startswith("sex, area: bistochastic privacy holds with β >= 0.5")
    assert together.endswith("of 2.58496 bits.")
    assert sex.startswith("sex: bistochastic privacy holds with β >= 0.5")
    assert area.startswith("area: bistochastic privacy holds with β >= 0.62")
    code, verified = answer("verify", folder / "out")
    assert (code, verified["ok"]) == (0, True)
    report = (folder / "out" / "report.html").read_text()
    assert "β &gt;= 0.62" in report or "β >= 0.62" in report


def test_a_beta_that_the_blocks_do_not_reach_together_is_refused(folder):
    text = PLAN.replace('"bistochastic"\nbeta = 0.5', '"bistochastic"\nbeta = 0.7')
    (folder / "plan.toml").write_text(text)
    code, answered = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    assert code == 5
    assert "does not meet" in json.dumps(answered)
    assert not (folder / "out").exists()


def test_a_beta_that_means_nothing_is_refused_where_it_stands(folder):
    (folder / "plan.toml").write_text(PLAN.replace("beta = 0.62", "beta = 1.2"))
    code, answered = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    assert code == 3
    assert "beta is not a number from 0 to 1" in json.dumps(answered)


def test_a_given_matrix_is_rounded_in_rows_and_columns(folder):
    plan = folder / "plan.toml"
    third = [[1 / 3] * 3] * 3
    given = PLAN.replace('variables = ["area"]', f'variables = ["area"]\nmatrix = {third}')
    plan.write_text(given.replace("beta = 0.62", "beta = 0.99"))
    shown = CliRunner().invoke(main, ["design", "--plan", str(plan)])
    assert shown.exit_code == 0, shown.output
    assert "β >= 0.9999" in shown.output or "β >= 1" in shown.output
    code, made = answer("protect", "--plan", plan, "--out", folder / "out")
    assert code == 0, made
    assert answer("verify", folder / "out")[0] == 0
