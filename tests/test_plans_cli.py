"""The commands on whole plans: compare and explain; and the example of the page on policies."""

import json
import re
import stat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.plan import load_plan
from postrand.plan.policy import MEASURES, load_policy
from postrand.report.table_worth import EQUAL, shown, table_worth
from postrand.support.measure_names import OF_TWO
from postrand.workflow.advice_choice import designed
from postrand.workflow.draft import initialise
from postrand.workflow.plan_decision import OPEN
from tests.conftest import ROOT
from tests.guides import run_examples

N = 1000
PAGE = (ROOT / "docs" / "policy.md").read_text("utf-8")


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found, rng = tmp_path_factory.mktemp("plans"), np.random.default_rng(7)
    columns = {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
        "age": np.array([f"a{k}" for k in range(8)])[rng.integers(0, 8, N)],
        "area": np.array(["n", "s"])[rng.integers(0, 2, N)],
        "income": rng.integers(0, 20, N),
        "w": np.full(N, 25.0),
        "h": np.arange(N) // 2,
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), found / "people.parquet")
    roles = {"key": ["sex", "age", "area"], "other": ["income"], "weight": ["w"], "household": ["h"]}
    _, plan = initialise(found / "people.parquet", found, roles)
    text = plan.read_text()
    (found / "weaker.toml").write_text(text.replace("epsilon = 3.0", "epsilon = 9.0").replace("= 1.0}", "= 3.0}"))
    return found


def test_two_plans_are_compared(folder):
    found = call("compare", folder / "plan.toml", folder / "weaker.toml")
    assert found.exit_code == 0, found.output
    text = found.output
    assert "INTERNAL" in text
    matches = next(
        line for line in text.splitlines() if line.startswith("Expected correct matches, informed attacker, all")
    )
    named = [line for line in text.splitlines() if line.startswith("Expected correct matches")]
    assert all(", informed attacker, " in line or ", register attacker, " in line for line in named)
    assert "records in the smallest class; after, on average over releases" in text
    before, one, two = (float(number) for number in re.findall(r"[\d.]+", matches)[-3:])
    assert one < two < before
    settings = text.splitlines()[text.splitlines().index("block age") :][:3]
    assert "ε = 1," in settings[1]
    assert "ε = 3," in settings[2]
    assert "(of little use)" in text
    data = json.loads(call("compare", folder / "plan.toml", folder / "weaker.toml", "--json").output)
    assert [plan["plan"] for plan in data["plans"]] == ["plan.toml", "weaker.toml"]
    assert set(data["settings_that_differ"]) == {"privacy", "block sex", "block age", "block area"}
    assert "Settings that differ" in text


def test_plans_of_one_name_are_told_apart(folder, tmp_path):
    other = tmp_path / "plan.toml"
    text = (folder / "weaker.toml").read_text().replace('"people.parquet"', f'"{folder / "people.parquet"}"')
    other.write_text(text.replace('"codebook.toml"', f'"{folder / "codebook.toml"}"'))
    data = json.loads(call("compare", folder / "plan.toml", other, "--json").output)
    assert len({plan["plan"] for plan in data["plans"]}) == 2
    assert call("compare", other).exit_code == 2


def test_a_plan_is_explained(folder):
    found = call("explain", folder / "plan.toml")
    assert found.exit_code == 0, found.output
    for words in (
        "What is released",
        "Perturbed: sex, age, area.",
        "Released as in the file, with no protection of their own: income, w.",
        "Released with new numbers, with no protection of their own: h.",
        "records, in a new random order.",
        "only the keys of a person (sex, age, area), and not the true values of income, w. "
        "If they also know these, figures are too low (see 'postrand explain --known-also').",
        "of 100 guesses between two equally likely values, "
        "50 are right without and at most 74 with the perturbed values",
        "persons (in the file as it is) and about",
        "Of 100 households",
        "h shows which records are one household, and how many; its members add up: 2 members have epsilon = 6 (",
        "as precise as one from",
        "What remains unprotected",
        "This page is of a plan, before any release",
    ):
        assert words in found.output, words
    assert len(found.output.splitlines()) < 52
    assert found.output.count(OF_TWO) == 1
    data = json.loads(call("explain", folder / "plan.toml", "--json").output)
    assert [section["title"] for section in data["sections"]][-1] == "What remains unprotected"


@pytest.mark.filterwarnings("ignore")
def test_the_page_to_sign_is_written_of_a_plan_before_anything_is_counted(folder, tmp_path):
    """It has the figures of the dossier's page, for its owner alone, and says that no release was made."""
    page, policy = tmp_path / "decision.html", tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nmeasure = "epsilon"\nat_most = 1\n', encoding="utf-8")
    asked = ("explain", folder / "plan.toml", "--decision", page, "--policy", policy)
    assert call(*asked).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "This page is of a plan: no release was made." in text
    assert "The office's policy" in text.replace("&#39;", "'")
    assert "dossier.html" not in text
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    made = call(
        "protect", "--plan", folder / "plan.toml", "--out", tmp_path / "r", "--dossier", tmp_path / "in", "--seed", 1
    )
    assert made.exit_code == 0, made.output
    signed = (tmp_path / "in" / "decision.html").read_text(encoding="utf-8")
    for told in re.findall(r"(?s)<table class=\"risk\">.*?</table>", text):
        assert told in signed
    again = call(*asked)
    assert (again.exit_code, page.read_text(encoding="utf-8")) == (2, text)
    assert "the file exists" in again.output
    inside = call("explain", folder / "plan.toml", "--decision", tmp_path / "r" / "decision.html")
    assert inside.exit_code == 7
    assert not (tmp_path / "r" / "decision.html").exists()


def test_what_unperturbed_columns_reveal_is_explained(folder, tmp_path):
    table = pq.read_table(folder / "people.parquet")
    dummy = pa.array([int(sex == "f") for sex in table["sex"].to_pylist()])
    pq.write_table(table.append_column("is_f", dummy), tmp_path / "people.parquet")
    roles = {"key": ["sex", "age"], "other": ["area", "is_f"], "drop": ["income", "w", "h"]}
    _, plan = initialise(tmp_path / "people.parquet", tmp_path, roles)
    found = call("explain", plan)
    assert found.exit_code == 0, found.output
    open_part = found.output.partition("What remains unprotected")[2]
    assert "Unperturbed variables reveal true values of sex, which is perturbed: is_f; of 100 records" in open_part
    assert "no guarantee; they may single out records and reveal perturbed values: area, is_f." in open_part
    assert "nobody can tell" not in found.output


def test_the_example_of_the_page_is_a_policy_that_works(folder, tmp_path):
    example, section = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "policy.toml").write_text(example)
    assert len(load_policy(tmp_path / "policy.toml").rules) == 8
    found = call("check", "--plan", folder / "plan.toml", "--policy", tmp_path / "policy.toml")
    assert found.exit_code == 11
    assert "Release policy 2026" in found.output
    failing = [line for line in found.output.splitlines() if "FAIL" in line]
    assert [line.partition("  ")[0] for line in failing] == [
        "Unperturbed records that a table is worth: one-way tables",
        "Released unperturbed",
    ], failing
    plan = tmp_path / "plan.toml"
    text = (folder / "plan.toml").read_text().replace('"people.parquet"', f'"{folder / "people.parquet"}"')
    plan.write_text(text.replace('"codebook.toml"', f'"{folder / "codebook.toml"}"') + section)
    assert pr.load_plan(plan).policy is not None


def test_the_page_names_every_measure():
    named = set(re.findall(r"`([a-z0-9_]+)`", "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))))
    assert set(MEASURES) <= named


def test_the_python_of_the_page_runs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "policy.toml").write_text('[[rules]]\nmeasure = "epsilon"\nat_most = 3\n')
    names: dict[str, Any] = {}
    assert run_examples(PAGE, "policy.md", names) == 1
    assert names["checked"].is_met


def test_a_curve_is_printed_as_its_table():
    curve = pr.compare([0.5, 0.3, 0.2], [1.0])
    assert str(curve) == curve.text()
    assert repr(curve).startswith("Comparison(uniform-off-diagonal, symmetric, ")
    assert len(repr(curve)) < 120


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")
def test_design_and_protect_say_what_claims_and_tables_mean(folder, tmp_path):
    text = call("design", "--plan", folder / "plan.toml").output
    assert "tables of two perturbed variables: worth" in text
    assert "of little use" in text
    assert "nats of" in text
    assert "with all values equally frequent" in text  # the same matrix keeps another number under other shares
    assert "In words:" in text
    assert ", optimal:" not in text
    made = call("protect", "--plan", folder / "plan.toml", "--out", tmp_path / "out", "--seed", 1)
    assert made.exit_code == 0, made.output
    assert "1,000 released records, tables of two perturbed variables" in made.output
    assert "In words:" in made.output
    release = pr.read_release(tmp_path / "out")
    assert release.plain_claims[0] in made.output
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Tables of two perturbed variables" in report
    assert "50 are right without and at most" in report
    assert call("verify", tmp_path / "out").exit_code == 0


def test_design_explain_and_compare_say_the_same_where_little_is_left(folder):
    plan = folder / "plan.toml"
    [said] = [line for line in call("design", "--plan", plan).output.splitlines() if "little is left" in line]
    least = min(table_worth(designed(pr.load_plan(plan)), [("sex",), ("age",), ("area",)], N, EQUAL), key=worth_of)
    assert least.name == "age"
    assert f"of age, is worth {shown(least.effective_records)} unperturbed records, if every" in said
    assert said.endswith("or raise epsilon; 'postrand advise' compares these ways.")
    text = said.removeprefix("warning: l")
    assert f"- L{text}\n" in call("explain", plan).output
    assert f"  plan.toml: l{text}\n" in call("compare", plan, folder / "weaker.toml").output


def worth_of(one):
    return one.effective_records


@pytest.mark.filterwarnings("ignore")
def test_the_page_of_a_plan_says_what_is_not_decided(folder, tmp_path):
    """A column that singles out persons, and that the plan does not list: no release can be made yet."""
    table = pq.read_table(folder / "people.parquet")
    pq.write_table(table.append_column("pay", pa.array(np.arange(table.num_rows) * 1.5)), tmp_path / "people.parquet")
    book = load_plan(folder / "plan.toml").codebook
    Codebook((*book.variables, Variable("pay", "other", type="float64"))).save(tmp_path / "codebook.toml")
    (tmp_path / "plan.toml").write_text((folder / "plan.toml").read_text("utf-8"), "utf-8")
    page = tmp_path / "decision.html"
    assert call("explain", tmp_path / "plan.toml", "--decision", page).exit_code == 0
    text = page.read_text("utf-8")
    assert f"{OPEN}: " in text
    assert "pay" in text.partition(f"{OPEN}: ")[2].partition("</li>")[0]
    assert call("protect", "--plan", tmp_path / "plan.toml", "--out", tmp_path / "r").exit_code == 3
