"""Bistochastic privacy from a plan to a verified release, through the command line."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.designers.bistochastic import allocate
from postrand.release import read

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
    assert together.endswith("of 2.58 bits.")
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


SHARED = """
[source]
file = "survey.csv"
codebook = "codebook.toml"

[privacy]
model = "bistochastic"
beta = 0.6

[design]
structure = "bistochastic"
objective = "changes"
prior = "file"

[[blocks]]
variables = ["sex"]

[[blocks]]
variables = ["area"]
"""


def blocks_of(folder):
    code, made = answer("design", "--plan", folder / "plan.toml")
    assert code == 0, made
    return made


def betas(folder):
    answered = answer("protect", "--plan", folder / "plan.toml", "--out", folder / "out")
    assert answered[0] == 0, answered
    return [block.matrix.beta for block in read(folder / "out").mechanism.blocks]


def test_blocks_share_the_record_s_beta_as_the_most_truthful_laws_do(folder):
    (folder / "plan.toml").write_text(SHARED)
    made = blocks_of(folder)
    assert made["claims"][0].startswith("sex, area: bistochastic privacy holds with β >= 0.6")
    rows = [line.split(",") for line in (folder / "survey.csv").read_text().split()[1:]]
    priors = [np.unique([row[k] for row in rows], return_counts=True)[1] / 500 for k in (0, 1)]
    best = allocate(priors, 0.6)
    found = betas(folder)
    assert found == pytest.approx([law.beta for law in best.matrices], abs=1e-8)
    assert np.dot(found, np.log([2, 3])) / np.log(6) == pytest.approx(0.6, abs=1e-9)
    text = CliRunner().invoke(main, ["design", "--plan", str(folder / "plan.toml")]).stdout
    assert f"β >= {found[0]:.4f}"[:9] in text


def test_a_block_with_a_beta_of_its_own_leaves_the_rest_to_the_others(folder):
    (folder / "plan.toml").write_text(
        SHARED.replace('["sex"]', '["sex"]\nprivacy = { model = "bistochastic", beta = 0.9 }')
    )
    sex, area = betas(folder)
    assert sex == pytest.approx(0.9, abs=1e-8)
    assert area == pytest.approx((0.6 * np.log(6) - 0.9 * np.log(2)) / np.log(3), abs=1e-8)


def test_a_given_matrix_counts_with_the_bits_it_has_and_is_rounded_to_an_exact_law(folder):
    rows = "[[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]]"
    (folder / "plan.toml").write_text(SHARED.replace('["area"]', f'["area"]\nmatrix = {rows}'))
    sex, area = betas(folder)
    h = -sum(p * np.log(p) for p in (0.7, 0.2, 0.1))
    assert area == pytest.approx(h / np.log(3), abs=1e-12)
    assert sex == pytest.approx((0.6 * np.log(6) - h) / np.log(2), abs=1e-8)


def test_a_weight_moves_bits_away_from_the_block_that_is_worth_more(folder):
    weighted = SHARED.replace('["sex"]', '["sex"]\nprivacy = { model = "share", weight = 3.0 }')
    (folder / "plan.toml").write_text(SHARED)
    even = blocks_of(folder)["blocks"][0]["unchanged"]
    (folder / "plan.toml").write_text(weighted)
    assert min(blocks_of(folder)["blocks"][0]["unchanged"]) > max(even)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('["sex"]', '["sex"]\nprivacy = { model = "bistochastic", beta = 0.0 }'), None),
        (("beta = 0.6", "beta = 0.99"), None),
        (('["sex"]', '["sex"]\nprivacy = { model = "share", least = 0.1 }'), "'least' is an epsilon"),
    ],
)
def test_shares_that_cannot_be_had_are_refused_and_others_are_kept(folder, change, message):
    (folder / "plan.toml").write_text(SHARED.replace(*change))
    code, made = answer("design", "--plan", folder / "plan.toml")
    if message is None:
        assert (code, made["claims"][0].startswith("sex, area: bistochastic")) == (0, True)
    else:
        assert (code, message in made["problems"][0]) == (6, True)


def test_too_few_bits_of_one_block_s_own_are_named(folder):
    text = SHARED.replace('["sex"]', '["sex"]\nprivacy = { model = "bistochastic", beta = 0.1 }')
    (folder / "plan.toml").write_text(text.replace("beta = 0.6", "beta = 0.8"))
    code, made = answer("design", "--plan", folder / "plan.toml")
    assert code == 6
    assert "leave more bits to the others" in made["problems"][0]
