"""Advice for files with households: a sentence on what is not protected, and plans that protect households."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.certification.units import unit_epsilon
from postrand.cli import main
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.planned import mechanism_of


def survey(folder: Path, households: int = 60) -> Path:
    rng = np.random.default_rng(1)
    lines = ["hid,sex,age,tenure"]
    for number in range(households):
        own = rng.choice(["own", "rent"])
        lines += [
            f"{1000 + number},{rng.choice(['f', 'm'])},{rng.choice(['young', 'old'])},{own}"
            for _ in range(rng.integers(1, 5))
        ]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder / "a.csv"


def advised(folder: Path, *more: object) -> str:
    command = ["advise", folder / "a.csv", "--keys", "sex,tenure", "--household", "hid", "--out", folder / "advice"]
    done = CliRunner().invoke(main, [str(part) for part in (*command, *more)])
    return " ".join(done.output.split())


def plans_of(folder: Path) -> list[Any]:
    return [pr.load_plan(path) for path in sorted((folder / "advice").glob("plan-*.toml"))]


def test_a_file_with_households_is_told_what_to_ask_for(tmp_path):
    survey(tmp_path)
    said = advised(tmp_path)
    assert "a household (hid) with k members has k times the epsilon. For plans that protect households, add" in said
    assert "--largest-household N" in said
    assert "--household-variables tenure, which all members share." in said
    assert pr.load_plan(tmp_path / "advice" / "plan-1.toml").unit is None


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")  # risk and worth take draws as independent
def test_plans_have_the_unit_that_is_asked_for(tmp_path):
    survey(tmp_path, 600)
    said = advised(tmp_path, "--largest-household", 4, "--household-variables", "tenure", "--limit", "epsilon <= 3")
    plans = [plan for plan in plans_of(tmp_path) if plan.split is None]
    assert plans
    for plan in plans:
        assert plan.unit.household == "hid"
        assert plan.unit.household_variables == ("tenure",)
        assert any(block.variables == ("tenure",) for block in plan.blocks)
        assert plan.privacy.epsilon <= 3
    assert (
        "All records of a household with up to 4 members together: epsilon = 7.5: of 100 guesses" in said
    )  # 1.5 + 4 x 1.5
    assert "for plans that protect households" not in said.lower()
    assert "tenure: in a block of its own, drawn once for a household" in said
    made = pr.run(plans[0], tmp_path / "out", release_key=b"k" * 32)
    levels = made.mechanism.units.bounds
    assert levels["household"] == 4
    shown = made.frame().to_pylist() if hasattr(made.frame(), "to_pylist") else made.frame().to_dict("records")
    assert all(len({row["tenure"] for row in shown if row["hid"] == hid}) == 1 for hid in {row["hid"] for row in shown})


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")
def test_no_epsilon_is_named_for_a_table_whose_worth_no_epsilon_makes_known(tmp_path):
    survey(tmp_path, 600)
    rule = '[[rules]]\nmeasure = "effective_records"\nat_least = 900\ntables = [["sex", "tenure"], ["sex"]]\n'
    (tmp_path / "policy.toml").write_text(f'[[rules]]\nmeasure = "epsilon"\nat_most = 5\n{rule}')
    asked = ("--largest-household", 4, "--household-variables", "tenure", "--policy", tmp_path / "policy.toml")
    said = advised(tmp_path, *asked)
    told = said.partition("No plan meets: ")[2].partition("In short:")[0]
    assert "Not known in plan 1: sex × tenure: all records of a household share one draw of its values." in told
    assert "Next: leave tenure out of --household-variables, drawn once for a household; or leave these tables" in told
    assert "for plan 1" not in told


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")
def test_a_household_without_variables_of_its_own_has_the_sum_over_its_members(tmp_path):
    survey(tmp_path)
    said = advised(tmp_path, "--largest-household", 12)
    assert "All records of a household with up to 12 members together: epsilon = 48: of 100 guesses" in said
    found = pr.load_plan(tmp_path / "advice" / "plan-1.toml")
    assert found.unit is not None
    assert (found.unit.household, found.unit.household_variables) == ("hid", ())


def test_a_person_with_several_records_has_their_sum(tmp_path):
    survey(tmp_path)
    command = ["advise", tmp_path / "a.csv", "--keys", "sex,age", "--person", "hid", "--out", tmp_path / "advice"]
    done = CliRunner().invoke(main, [str(part) for part in (*command, "--most-records", 8)])
    assert "All records of a person with up to 8 together: epsilon = 32: of 100 guesses" in " ".join(
        done.output.split()
    )
    unit: Any = pr.load_plan(tmp_path / "advice" / "plan-1.toml").unit
    assert (unit.household, unit.person, unit.most_records) == ("", "hid", 8)
    first = ["init", *command[1:-1], tmp_path / "first", "--other", "*"]
    assert (
        CliRunner()
        .invoke(main, [*map(str, first)])
        .output.endswith("the most records of one person: a public bound.\n")
    )
    done = CliRunner().invoke(main, [str(part) for part in (*first, "--most-records", 8)])
    assert "--person hid --most-records 8" in done.output.splitlines()[-1]
    plan = pr.load_plan(tmp_path / "first" / "plan.toml")
    assert plan.unit == unit
    assert plan.codebook["hid"].role == "drop"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--household-variables", "tenure"], "not how large one can be"),
        (["--largest-household", "4", "--household-variables", "rooms"], "'rooms' is not perturbed"),
        (["--other", "age", "--person", "age", "--most-records", "4"], "'age' numbers persons, and would be released"),
        (["--most-records", "4"], "name the column: --person"),
    ],
)
def test_what_cannot_be_protected_is_refused_before_the_file_is_read(tmp_path, more, words):
    survey(tmp_path)
    assert words in advised(tmp_path, *more)
    assert not (tmp_path / "advice").exists()


@pytest.mark.parametrize("option", ["--other", "--sensitive", "--drop"])
def test_a_variable_that_no_plan_perturbs_is_not_drawn_for_a_household(tmp_path, option):
    command = ["advise", survey(tmp_path), "--keys", "sex,age", option, "tenure", "--household", "hid"]
    command += ["--largest-household", "4", "--household-variables", "tenure", "--out", tmp_path / "advice"]
    done = CliRunner().invoke(main, [str(part) for part in command])
    said = " ".join(done.output.split())
    assert done.exit_code == 2
    assert said.count("'tenure' is not perturbed, so that no draw of it is the household's") == 1
    assert not (tmp_path / "advice").exists()


def test_a_file_that_protect_would_refuse_gets_no_plan(tmp_path):
    survey(tmp_path)
    said = advised(tmp_path, "--largest-household", "2", "--household-variables", "sex")
    assert "a household has more records than the plan allows" in said
    assert "sex: records of one household differ" in said
    assert not (tmp_path / "advice").exists()


def test_a_household_number_needs_no_decision_because_it_leaves_with_new_numbers(tmp_path):
    command = ["init", survey(tmp_path), "--keys", "sex,tenure", "--household", "hid", "--drop", "*"]
    done = CliRunner().invoke(main, [*map(str, command), "--out", str(tmp_path / "first")])
    assert "wrote" in done.output
    assert "decide on" not in done.output


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")  # risk and worth take draws as independent
def test_a_limit_can_be_about_the_epsilon_of_a_household(tmp_path):
    survey(tmp_path, 600)
    asked = ("--limit", "household_epsilon <= 6", "--largest-household", 4, "--household-variables", "tenure")
    said = advised(tmp_path, *asked)
    plans = [plan for plan in plans_of(tmp_path) if plan.split is None]
    assert plans
    assert all(plan.privacy.epsilon <= 1.5 for plan in plans)
    levels = [unit_epsilon(mechanism_of(plan, design_blocks(plan)), "household", 4) for plan in plans]
    assert max(levels) <= 6
    assert all(f"Asked: household_epsilon <= 6: met ({level:.3g})" in said for level in levels)


@pytest.mark.parametrize("more", [(), ("--household-variables", "tenure")])
@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")
def test_the_split_that_one_member_shows_is_a_plan_with_the_epsilon_of_one_record(tmp_path, more):
    survey(tmp_path)
    (tmp_path / "only").mkdir()
    survey(tmp_path / "only")
    asked = ("--largest-household", 4, "--limit", "epsilon <= 8", "--limit", "household_epsilon <= 6")
    said = advised(tmp_path, *asked, *more)
    first = plans_of(tmp_path)[0]
    assert first.split.of_members
    assert (first.split.variables, first.split.epsilon) == (("sex", "tenure"), 6.0)
    assert first.unit.household_variables == ()
    shown = [str(n) for n, plan in enumerate(plans_of(tmp_path), 1) if plan.split is not None and plan.split.of_members]
    which = (
        "these plans" if len(shown) == len(plans_of(tmp_path)) else f"plan{'s' * (len(shown) > 1)} {', '.join(shown)}"
    )
    assert said.count(f"--household-variables has no effect in {which}: there one member") == bool(more)
    assert "Plan 1 (split, one member of each household): epsilon = 6 for a record; of a household with" in said
    assert "no maximum likelihood (--method likelihood), and no completed files ('postrand complete', --method" in said
    assert "Asked: household_epsilon <= 6: met (6)" in said
    only = advised(tmp_path / "only", *asked[:2], "--limit", "household_epsilon <= 6", *more)
    assert "limit epsilon <=" not in only
    assert "Plan 1 (split, one member of each household): epsilon = 6 for a record" in only
    release = pr.run(first, tmp_path / "out", release_key=b"k" * 32)
    assert pr.verify(release.path).ok


@pytest.mark.filterwarnings("ignore::postrand.SharedDrawsWarning")
def test_a_plan_is_beaten_in_the_epsilon_of_a_household_too(tmp_path):
    survey(tmp_path, 600)
    said = advised(tmp_path, "--largest-household", 4, "--limit", "epsilon <= 4")
    ways = [plan.split is not None and plan.split.of_members for plan in plans_of(tmp_path)]
    assert set(ways) == {True, False}  # every record of the other shows all variables
    assert "of a household with up to 4 records together: 4 at most" in said
    assert "of a household with up to 4 records together: 16 at most" in said


def test_persons_are_told_of_the_split_that_one_record_of_each_shows(tmp_path):
    survey(tmp_path)
    command = ["advise", tmp_path / "a.csv", "--keys", "sex,age", "--person", "hid", "--out", tmp_path / "advice"]
    done = CliRunner().invoke(main, [str(part) for part in (*command, "--most-records", 8)])
    said = " ".join(done.output.split())
    assert (
        "Next: give hid the role household in the codebook (without one: --household hid), ask again with the same"
        in said
    )


def test_a_limit_on_a_household_needs_a_bound_of_its_size(tmp_path):
    survey(tmp_path)
    said = advised(tmp_path, "--limit", "household epsilon <= 6", "--limit", "person_epsilon <= 6")
    where = "the limit 'household_epsilon <= 6': how large a household can be is not said. Next: add"
    assert f"{where} --largest-household N" in said
    assert "how many records a person can have is not said. Next: add --person P --most-records N" in said
    file = survey(tmp_path)
    command = ["init", file, "--keys", "sex,tenure", "--household", "hid", "--limit", "household_epsilon <= 6"]
    command += ["--other", "age", "--out", tmp_path / "w"]
    first = CliRunner().invoke(main, [str(part) for part in command])
    assert first.exit_code == 2
    assert "how large a household can be is not said" in first.output
    done = CliRunner().invoke(main, [*(str(part) for part in command), "--largest-household", "4"])
    assert done.exit_code == 0, done.output
    drafted: Any = pr.load_plan(tmp_path / "w" / "plan.toml")
    assert drafted.privacy.epsilon <= 1.5
