"""``postrand advise``: complete plans that protect accepts, chosen by sizes alone unless the curator lets it look."""

import dataclasses
import json
import math
import os
import re
import select
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.cli.advise import asked_for
from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError, UsageError
from postrand.plan import load_plan
from postrand.plan.policy import MEASURES
from postrand.risk.tuning import SEARCHED
from postrand.support.measure_names import RISK_MEANINGS
from postrand.support.options import to_dict
from postrand.support.randomness import ReleaseKey
from postrand.workflow.advice_bands import banded
from postrand.workflow.advice_choice import designed, frontier
from postrand.workflow.advice_needs import MEANINGS, WORTH, Needs, needs_from
from postrand.workflow.advice_refusals import require_possible, unperturbable
from postrand.workflow.advice_text import _all_known
from postrand.workflow.comparison_risk import RiskFigure
from postrand.workflow.epsilon import BOUND

SIZES = {"sex": 2, "area": 3, "work": 4}


def level(path):
    """Return the epsilon that a plan claims of a record."""
    claim: Any = load_plan(path).privacy
    return claim.epsilon


def write(path, records=1500, seed=0, ages=False, sizes=SIZES, first="sex"):
    random = np.random.default_rng(seed)
    columns = {n: [f"{n}{c}" for c in (*range(s), *random.integers(0, s, records - s))] for n, s in sizes.items()}
    columns["sex"] = [first + text.removeprefix("sex") for text in columns["sex"]]
    if ages:
        columns["age"] = [*range(96), *random.integers(0, 96, records - 96).tolist()]
    columns["pay"] = random.lognormal(8, 1, records).tolist()
    pq.write_table(pa.table(columns), path)
    return path


def advise(folder, *options, keys=tuple(SIZES), **more):
    file = write(folder / "s.parquet", **more)
    named = ["--keys", ",".join(keys), "--out", str(folder / "advice"), *options]
    return CliRunner().invoke(main, ["advise", str(file), *named])


def plans(folder):
    return sorted((folder / "advice").glob("plan-*.toml"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with advice, and the answer as JSON."""
    folder = tmp_path_factory.mktemp("advice")
    precise = ("--precision", "30 points for sex x area", "--precision", "6 points for sex")
    done = advise(folder, "--other", "pay", "--limit", "epsilon <= 2.5", *precise, "--json", records=300)
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


def test_every_plan_is_accepted_by_protect_as_it_is(place, tmp_path):
    folder, _ = place
    assert 2 <= len(plans(folder)) <= 4
    for plan in plans(folder):
        ran = CliRunner().invoke(main, ["protect", "--plan", str(plan), "--out", str(tmp_path / plan.stem)])
        assert ran.exit_code == 0, ran.output
        assert (tmp_path / plan.stem / "certificate.json").exists()


def test_each_plan_says_claim_risk_worth_and_reason(place):
    _, found = place
    assert 2 <= len(found["plans"]) <= 4
    for plan in found["plans"]:
        figures = plan["figures"]
        assert " of 100 guesses" in figures["claims"][0]
        assert {r["code"] for r in figures["risk"]} >= {"correct_matches", "individual_risk"}
        assert figures["worth"]["one_way"]["tables"]
        assert figures["worth"]["two_way"]["tables"]
        assert any(why.startswith("Reason: ") for why in plan["reasons"])
        assert plan["asked"][0] == {"limit": "epsilon <= 2.5", "before": None, "after": figures["epsilon"], "met": True}


def test_no_plan_is_above_the_limit_of_epsilon(place):
    folder, _ = place
    assert all(level(path) <= 2.5 for path in plans(folder))


def test_precision_is_checked_against_the_worst_cell(place):
    _, found = place
    asked = [{entry["limit"]: entry for entry in plan["asked"]} for plan in found["plans"]]
    assert not any(one["6 points for sex"]["met"] for one in asked)
    assert all(math.isfinite(one["30 points for sex x area"]["after"]) for one in asked)
    assert all(
        one["30 points for sex x area"]["if_equally_frequent"] <= one["30 points for sex x area"]["after"]
        for one in asked
    )
    assert any("be certain of the precision that is asked, whatever the true shares" in note for note in found["notes"])


def test_the_half_width_is_that_of_the_worst_true_share(place):
    """By simulation: released tables of a file with half of its records in a cell have this spread."""
    folder, found = place
    plan = next(p for p in found["plans"] if p["way"] in ("separate", "one joint block", "split"))
    loaded = load_plan(folder / "advice" / f"plan-{found['plans'].index(plan) + 1}.toml")
    wanted = next(one["after"] for one in plan["asked"] if one["limit"] == "6 points for sex")
    law = designed(loaded)
    truth = np.random.default_rng(1).integers(0, 2, (400, 300))  # each record drawn anew, half of them in a cell
    records = [{"sex": ("sex0", "sex1")[sex], "area": "area0", "work": "work0"} for sex in truth.ravel()]
    released = pr.perturb(pa.Table.from_pylist(records), law, release_key=ReleaseKey.from_seed(3))
    parts = [pr.estimate.table(released.slice(300 * k, 300), ["sex"], law).value[0] for k in range(400)]
    assert 196 * np.std(parts) == pytest.approx(wanted, rel=0.12)  # three standard errors of a spread of 400


def test_ways_left_out_have_a_reason(place):
    _, found = place
    assert found["left_out"]
    assert all(len(one["why"]) > 20 for one in found["left_out"])


def test_epsilon_above_the_bound_is_said_and_another_plan_is_offered(tmp_path):
    done = advise(tmp_path, "--limit", "epsilon <= 53", records=100)
    assert "epsilon = 53 for a record is above 8: of 100 guesses" in done.output
    assert min(level(path) for path in plans(tmp_path)) <= BOUND


def test_without_look_the_plans_say_nothing_about_the_records(tmp_path):
    texts = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        done = advise(folder, "--limit", "epsilon <= 3", "--limit", "individual <= 0.01", seed=seed, records=100)
        assert done.exit_code == 0, done.output
        texts.append([path.read_text().replace(str(folder), "") for path in plans(folder)])
    assert texts[0] == texts[1]
    assert {path.parent.stat().st_mode & 0o077 for path in plans(folder)} == {0}
    assert all("No value of a record chose its blocks or epsilon" in text.replace("\n# ", " ") for text in texts[0])


def test_with_look_a_limit_chooses_the_level_and_the_certificate_says_so(tmp_path):
    asked = ("--look", "--limit", "epsilon <= 8", "--limit", "individual <= 0.2")
    done = advise(tmp_path, *asked, "--json", records=200)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    first = found["plans"][0]
    assert first["chosen_with"] == "file"
    limit = first["asked"][1]
    assert limit["met"]
    assert limit["after"] <= 0.2
    ran = CliRunner().invoke(main, ["protect", "--plan", first["plan"], "--out", str(tmp_path / "release")])
    assert ran.exit_code == 0, ran.output
    certificate = (tmp_path / "release" / "certificate.json").read_text()
    assert "confidential_matrix" in certificate


def test_bands_are_proposed_with_the_gain_where_nothing_remains(tmp_path):
    done = advise(tmp_path, "--limit", "epsilon <= 1", keys=("age", "sex"), ages=True, records=2000)
    assert done.exit_code == 0, done.output
    assert re.search(r"age in bands by round edges .* in place of .* effective records", done.output)
    assert (
        "  Warning: little is left for tables: 2 of 2 tables of one variable are of little use (less than 100"
        in done.output
    )
    little = "2 of 2 tables of one variable and 1 of 1 tables of two variables of little use"
    assert re.search(rf"^Plan 1 .*limits asked: 1 of 1 met; {little}$", done.output, re.MULTILINE)
    risk = "all persons: ([0-9.]+) in the file as it is; ([0-9.]+) in the recoded file, ([0-9.]+) after"
    as_is, recoded, after = map(float, re.search(risk, done.output).groups())
    assert as_is > recoded > after
    banded_plans = [p for p in plans(tmp_path) if load_plan(p).codebook.recodes]
    assert banded_plans
    text = banded_plans[0].read_text().replace("\n# ", " ")
    assert "bands of age follow from the lowest and highest category of the codebook" in text
    assert "chose its blocks, bands" not in text
    book = load_plan(banded_plans[0]).codebook
    assert book["age"].categories[0] == "0-9"
    ran = CliRunner().invoke(main, ["protect", "--plan", str(banded_plans[0]), "--out", str(tmp_path / "release")])
    assert ran.exit_code == 0, ran.output
    limits = json.loads((tmp_path / "release" / "certificate.json").read_text())["not_covered"]
    assert {"code": "confidential_recodes", "variables": ["age"]} in limits  # the range is the file's
    said = CliRunner().invoke(main, ["verify", str(tmp_path / "release")]).output
    assert "public figures" not in said
    assert "The release is what it claims to be" in said


@pytest.mark.parametrize(
    ("values", "edges"),
    [(range(96), range(0, 100, 10)), (range(18, 41), range(15, 45, 5)), (range(1990, 2021), range(1990, 2025, 5))],
)
def test_bands_have_natural_public_edges(values, edges):
    book = Codebook((Variable("v", "key", tuple(values), type="int64"),))
    recoded, recodes = banded(book, ("v",))
    assert recodes[0]["bands"] == list(edges)
    assert recoded["v"].size == len(edges) <= 10


def test_few_or_unordered_values_get_no_bands():
    book = Codebook(
        (Variable("a", "key", tuple(range(12)), type="int64"), Variable("b", "key", tuple("abcdefghijklmn")))
    )
    assert banded(book, ("a", "b")) == (book, ())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("named", [lambda n: f"Land {n}", lambda n: f"{n}. Land", lambda n: f"Land {chr(96 + n)}"])
def test_numbers_that_labels_name_get_no_bands(named, ordered):
    """Such as regions: a band of two codes means nothing; of an ordered scale it would hide what it means."""
    codes = tuple(range(1, 17))
    region = Variable("region", "key", codes, tuple(map(named, codes)), type="int64", ordered=ordered)
    rooms = dataclasses.replace(region, name="rooms", labels=(*map(str, range(1, 16)), "16 and more"))
    book = Codebook((region, rooms))
    assert banded(book, ("region",)) == (book, ())
    assert [entry["variable"] for entry in banded(book, ("region", "rooms"))[1]] == ["rooms"]


def test_all_says_the_ways_that_are_left_out(tmp_path):
    done = advise(tmp_path, "--all", records=100)
    above = (
        "Left out (worth on average, if every combination were equally frequent; differences within 2% count as none)"
    )
    left = done.output.partition(f"{above}:\n")[2].splitlines()
    assert left
    assert all(len(line) < 200 for line in left), left


def stand_in(random, name="way"):
    """What the choice asks of a trial, with numbers that differ by more than what counts as alike."""
    one, two, named, detail = (float(10.0 ** random.integers(2, 5)) for _ in range(4))
    plan = SimpleNamespace(split=None if random.random() < 0.5 else "split")
    level, way = float(random.choice([1, 2, 4])), SimpleNamespace(has_epsilon=True, name=name)
    made = {
        "epsilon": level,
        "largest": level * int(random.integers(1, 3)),
        "one": one,
        "two": two,
        "named": named,
        "estimated": None,
        "detail": detail,
        "plan": plan,
        "candidate": way,
        "mechanism": SimpleNamespace(units=SimpleNamespace(bounds={"household": 2})),
        "one_way": (),
        "two_way": (),
    }
    return SimpleNamespace(**made, is_useless=False, meets=lambda _: True)


@pytest.mark.parametrize("seed", range(20))
def test_the_plans_shown_are_beaten_by_no_other(seed):
    """Dominance by brute force, written anew: no worse in any of seven things, and better in one."""
    random = np.random.default_rng(seed)
    trials = [stand_in(random, f"way {n}") for n in range(12)]
    numbers = [(-t.epsilon, -t.largest, t.one, t.two, t.named, t.detail, t.plan.split is None) for t in trials]
    best = [
        t
        for t, mine in zip(trials, numbers, strict=True)
        if not any(all(x >= y for x, y in zip(o, mine, strict=True)) and o != mine for o in numbers)
    ]
    shown, left = frontier(trials, Needs())
    assert all(any(t is one for one in best) for t in shown)
    assert len(shown) == min(4, len(best))
    assert len(shown) + len(left) == len(trials)
    assert [t.two for t in shown] == sorted((t.two for t in best), reverse=True)[:4]
    levels = ("epsilon (", "the epsilon of the largest household (")
    words = (
        *levels,
        "tables of one variable",
        "tables of two variables",
        "what is named (",
        "detail (",
        "whole records (",
    )
    for trial, reason in left:
        if found := re.match(r"worse than 'way (\d+)' in (.*), and better in nothing", reason):
            ours, its = numbers[int(found[1])], numbers[trials.index(trial)]
            wanted = [word for word, x, y in zip(words, ours, its, strict=True) if x > y]
            named = found[2].split(" and ")
            assert len(named) == len(wanted) > 0
            assert all(text.startswith(word) for text, word in zip(named, wanted, strict=True))


def test_a_limit_that_nobody_asked_for_is_told_as_assumed():
    line = "  limit     epsilon <= 4{}: no released value"
    assert any(text.startswith(line.format(" (assumed; --limit says another)")) for text in needs_from().lines())
    for asked in (needs_from(limits=["epsilon <= 4"]), needs_from(limits=["tau2 <= 3", "epsilon <= 4"])):
        assert any(text.startswith(line.format("")) for text in asked.lines())
    (first, second) = [text for text in needs_from(limits=["tau2 <= 3"]).lines() if text.startswith("  limit")]
    assert ("assumed" in first, "assumed" in second) == (True, False)


def test_needs_have_stated_defaults():
    assert needs_from() == Needs()
    assert "epsilon <= 4" in "".join(Needs().lines())


def test_every_wrong_text_is_reported_at_once():
    with pytest.raises(UsageError) as caught:
        needs_from("somebody", ["epsilon >= 4", "taw2 <= 1"], ["tabless"], ["2 for sex"])
    assert len(caught.value.problems) == 5
    assert "did you mean 'tau2'" in str(caught.value)
    assert "did you mean 'tables'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "measure", "bound"),
    [
        ("ε <= 4", "epsilon", 4.0),
        ("individual <= .1", "individual_risk", 0.1),
        ("correct matches <= 5", "correct_matches", 5),
        ("joint-household risk <= .2", "joint_household_risk", 0.2),
    ],
)
def test_limits_have_several_spellings(text, measure, bound):
    limit = needs_from(limits=[text]).limits[-1]
    assert (limit.measure, limit.bound) == (measure, bound)


def test_a_limit_a_search_and_a_policy_know_the_same_measures_of_risk():
    assert {*RISK_MEANINGS} == {*MEANINGS} - {"epsilon", "household_epsilon", "person_epsilon", WORTH}
    assert {*MEANINGS} <= {*MEASURES}
    assert {*RISK_MEANINGS} <= {*MEASURES}
    assert {*SEARCHED} <= {*RISK_MEANINGS}
    with pytest.raises(UsageError, match="joint_household_risk"):
        needs_from(limits=["hh <= 0.1"])


def test_a_limit_on_a_household_says_what_the_attacker_has_who_knows_all_members():
    risks = (RiskFigure("joint_household_risk_largest", "", 1.0, 0.75, "share"),)
    told = partial(_all_known, figures=SimpleNamespace(risk=lambda code: next(r for r in risks if r.code == code)))
    assert told("household_risk <= 0.05").endswith("does not apply: 0.75 at most (joint_household_risk)")
    assert told("joint_household_risk <= 0.05") == told("tau2 <= 3") == ""


def test_a_limit_on_risk_keeps_the_default_of_epsilon():
    assert [str(one) for one in needs_from(limits=["tau2 <= 3"]).limits] == ["epsilon <= 4", "tau2 <= 3"]
    assert needs_from(limits=["tau2 <= 3", "epsilon <= 6"]).epsilon == 6
    assert [str(one) for one in needs_from(limits=["tau2 <= 3"], look=True).limits] == ["tau2 <= 3"]


def test_k_is_a_rule_of_a_policy_and_no_limit():
    with pytest.raises(UsageError, match=r"smallest class of records that look alike.*policy.*individual_risk <= 0.1"):
        needs_from(limits=["k >= 3"])
    with pytest.raises(UsageError, match=r"'guess_gain' is a rule of a policy, and no limit.*--policy"):
        needs_from(limits=["guess_gain <= 0.1"])


@pytest.mark.parametrize("text", ["individual <= 5", "household <= 1"])
def test_a_limit_that_every_file_keeps_is_refused(text):
    with pytest.raises(UsageError, match="a limit that every file keeps"):
        needs_from(limits=[text])


@pytest.mark.parametrize(
    ("limit", "fix"),
    [("tau2 <= 1", "--sampling-fraction"), ("tau1 <= 1", "--weight"), ("household <= .1", "--household")],
)
def test_a_limit_that_cannot_be_computed_is_refused_with_the_next_step(tmp_path, limit, fix):
    done = advise(tmp_path, "--limit", limit, records=100)
    assert done.exit_code == 2, done.output
    assert "cannot be computed" in done.output
    assert fix in done.output
    assert not (tmp_path / "advice").exists()


def test_bad_input_leaves_nothing_behind(tmp_path):
    for options in (("--limit", "epsilom <= 4"), ("--precision", "2 points for sox")):
        assert advise(tmp_path, *options).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.parquet"]


@pytest.mark.parametrize(
    ("table", "told"),
    [("work x pay", "pay has no categories"), ("sex x area", "area is not released"), ("sex x sex", "names sex twice")],
)
def test_a_table_that_no_plan_has_is_refused(tmp_path, table, told):
    asked = ("--other", "pay", "--precision", f"30 points for {table}")
    done = advise(tmp_path, *asked, keys=("sex", "work"), records=100)
    assert done.exit_code == 2, done.output
    assert told in done.output
    assert f"'30 points for {table}'" in done.output
    assert not (tmp_path / "advice").exists()


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "advice").mkdir()
    done = advise(tmp_path)
    assert done.exit_code != 0
    assert list((tmp_path / "advice").iterdir()) == []


def test_a_plan_says_with_what_it_was_chosen_or_is_refused(place):
    folder, _ = place
    path = folder / "advice" / "plan-1.toml"
    text = path.read_text()
    assert load_plan(path).chosen_with == "sizes"
    other = path.with_name("other.toml")
    other.write_text(text.replace("[design]", '[design]\nchosen_with = "luck"'))
    with pytest.raises(SpecificationError, match="unknown 'chosen_with'; got 'luck'"):
        load_plan(other)
    other.unlink()


def test_questions_are_asked_at_a_terminal_with_their_defaults(tmp_path, monkeypatch):
    monkeypatch.setattr("postrand.cli.advise.can_ask", lambda: True)
    file = write(tmp_path / "s.parquet", records=100)
    named = ["--keys", "sex,area", "--out", str(tmp_path / "advice")]
    done = CliRunner().invoke(main, ["advise", str(file), *named], input="y\ninformed\nepsilon <= 2\n\n\n")
    assert done.exit_code == 0, done.output
    assert "What must stay within which limit? (several: separate them by commas) [epsilon <= 4]" in done.stderr
    assert "the informed attacker, who knows the keys of a person" in done.stdout
    assert all(level(path) <= 2 for path in plans(tmp_path))
    assert asked_for(None, ("epsilon <= 2",), (), ()).attacker == "register"  # one option is given: nothing is asked


def test_epsilon_as_an_option_says_how_it_is_asked_for():
    done = CliRunner().invoke(main, ["advise", "s.csv", "--epsilon", "2"])
    assert done.exit_code == UsageError.exit_code
    assert "Next: --limit 'epsilon <= 2'" in done.stderr


QUESTION = """
from postrand.cli.advise import asked_for
from postrand.support.progress import shown
with shown(after=0):
    needs = asked_for(None, (), (), ())
print("needs:", needs)
"""


@pytest.mark.parametrize("waiting", [b"", b"postrand verify release\n"])
def test_a_question_stays_visible_and_takes_no_line_that_was_pasted(waiting):
    """On a real terminal: progress is silent while the question stands, and lines that wait are left to the shell."""
    person, terminal = os.openpty()
    os.write(person, waiting)
    told = b""

    def read(until):
        nonlocal told
        while until not in told:
            assert select.select([person], [], [], 20)[0], told
            told += os.read(person, 4096)

    with subprocess.Popen([sys.executable, "-c", QUESTION], stdin=terminal, stdout=terminal, stderr=terminal):
        if not waiting:
            read(b"[y/N]:")
            time.sleep(0.5)
            rest = os.read(person, 4096) if select.select([person], [], [], 0)[0] else b""
            assert rest.strip() == b""  # no word of progress
            os.write(person, b"\n")
        read(b"needs: None")
    assert (b"Answer four questions?" in told) == (not waiting)
    if waiting:
        assert os.read(terminal, 100) == waiting
    os.close(person)
    os.close(terminal)


def test_against_anyone_every_released_variable_is_perturbed(tmp_path):
    done = advise(tmp_path, "--other", "work,pay", "--attacker", "anyone", keys=("sex", "area"), records=100)
    assert done.exit_code == 0, done.output
    assert "pay is not released" in done.output
    assert all(set(load_plan(path).perturbed) == {"sex", "area", "work"} for path in plans(tmp_path))


def test_against_anyone_sensitive_variables_are_perturbed_and_figures_count_the_keys_alone(tmp_path):
    done = advise(tmp_path, "--sensitive", "work", "--attacker", "anyone", keys=("sex", "area"), records=100)
    assert "whatever he or she knows of a person: sensitive and other variables are perturbed too" in done.output
    assert "only the keys of a person (sex, area), and not the true values of work." in done.output
    assert all(set(load_plan(path).perturbed) == {"sex", "area", "work"} for path in plans(tmp_path))
    told = " ".join(CliRunner().invoke(main, ["advise", "--help"]).output.split())
    assert "With anyone, sensitive and other variables are perturbed too; figures of risk still count the keys" in told
    assert "Sensitive variables: the role alone does not perturb them." in told


def test_named_columns_are_perturbed_besides_the_keys_and_no_others(tmp_path):
    done = advise(tmp_path, "--perturb-also", "work", "--other", "job", keys=("sex", "area"), sizes={**SIZES, "job": 2})
    assert done.exit_code == 0, done.output
    told = "  perturb   work too; figures of risk are of who does not know their true values"
    assert told in done.output.splitlines()
    assert "only the keys of a person (sex, area), and not the true values of work, job." in done.output
    for plan in map(load_plan, plans(tmp_path)):
        assert set(plan.perturbed) == {"sex", "area", "work"}
        assert [plan.codebook[name].role for name in ("work", "job")] == ["sensitive", "other"]


def test_a_draft_perturbs_named_columns_too_and_says_how_to_go_on(tmp_path):
    """Two keys and one more column, 1 for each: together 3."""
    file = write(tmp_path / "s.parquet", records=300)
    typed = ["init", str(file), "--keys", "sex,area", "--perturb-also", "work", "--drop", "pay", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == 0, done.output
    assert "Assumed: epsilon = 3 for a record" in done.output
    assert f"postrand advise {file} --codebook {tmp_path / 'codebook.toml'} --perturb-also work" in done.output
    drafted = load_plan(tmp_path / "plan.toml")
    assert set(drafted.perturbed) == {"sex", "area", "work"}
    assert drafted.codebook["work"].role == "sensitive"
    done = CliRunner().invoke(main, [*typed[:-1], str(tmp_path / "more"), "--limit", "epsilon <= 2"])
    assert done.exit_code == 0, done.output
    assert all(
        set(load_plan(path).perturbed) == {"sex", "area", "work"} for path in (tmp_path / "more/advice").glob("plan-*")
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--perturb-also", "worrk"), "no column 'worrk' (did you mean 'work'?)"),
        (("--perturb-also", "pay"), "'pay' has no two categories to exchange. Next: put a number into bands"),
        (
            ("--perturb-also", "work", "--drop", "work"),
            "'work' has a role whose columns are not perturbed; got drop",
        ),
    ],
)
@pytest.mark.parametrize("command", ["init", "advise"])
def test_a_column_that_cannot_be_perturbed_too_is_refused(tmp_path, command, options, told):
    file = write(tmp_path / "s.parquet", records=100)
    typed = [command, str(file), "--keys", "sex,area", *options, "--out", str(tmp_path / "new")]
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == 2
    assert told in done.output.replace("--perturb-also: ", "")
    assert not (tmp_path / "new").exists()


def test_a_column_of_the_survey_design_is_not_perturbed_too():
    held = {"area": ("other", True), "sex": ("key", True)}
    (told,) = unperturbable(["area"], held, ["area"])
    assert told.startswith("--perturb-also: 'area' is of the survey design, which is released as in the file. Next: ")
    assert list(unperturbable(["area", "sex"], held)) == []


def test_numbers_that_single_out_persons_move_in_rank(place):
    folder, _ = place
    for path in plans(folder):
        (entry,) = load_plan(path).numerical
        assert entry.variables == ("pay",)
        assert to_dict(entry.method)["width"] == 15  # a twentieth of the records
        assert "relations with other variables are weakened" in " ".join(path.read_text().replace("#", "").split())
    told = CliRunner().invoke(main, ["explain", str(plans(folder)[0])]).output
    assert "pay: half of the values move by at most" in " ".join(told.split())
    can_do = told.partition("What analysts can do")[2]
    assert "pay: the unweighted total, mean and quantiles over all records remain right; relations with" in can_do


def test_means_are_judged_met_or_not(tmp_path):
    done = advise(tmp_path, "--other", "pay", "--use", "means", records=300)
    assert "  Asked: means: NOT met (means by group and weighted means of pay are refused" in done.output
    assert "  Moved in rank: pay: half of the values move by at most" in done.output
    (tmp_path / "b").mkdir()
    told = advise(tmp_path / "b", "--use", "means", records=300).output
    assert "  Asked: means: NOT met (no variable that is released has numbers" in told
    (tmp_path / "c").mkdir()
    told = advise(tmp_path / "c", "--use", "means", records=300, first="0").output
    assert "  Asked: means and totals: met (of sex;" in told


def test_risk_that_leaves_out_a_number_among_the_keys_says_so_and_passes_no_rule(tmp_path):
    done = advise(tmp_path, "--limit", "individual <= 0.9", keys=("sex", "pay"), records=200)
    assert done.exit_code == 0, done.output
    told = "the risk leaves out pay: moved or averaged among neighbours in rank"
    assert f"  Risk: {told}" in done.output
    assert "Asked: individual_risk <= 0.9: not known" in done.output
    first, second = map(str, plans(tmp_path)[:2])
    assert told[1:] in CliRunner().invoke(main, ["explain", first]).output
    assert CliRunner().invoke(main, ["compare", first, second]).output.count(told) == 1
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nmeasure = "correct_matches"\nat_most = 50\n[[rules]]\nmeasure = "k"\nat_least = 2\n')
    checked = CliRunner().invoke(main, ["check", "--plan", first, "--policy", str(policy)])
    assert checked.exit_code == 11, checked.output
    assert checked.output.count(f"FAIL: it is not known: {told}") == 2
    assert "0 of 2 rules are met" in checked.output


def test_what_no_release_of_so_many_records_can_keep_is_refused(tmp_path):
    asked = ("--limit", "individual <= 0.009", "--precision", "9.7 points for sex")
    done = advise(tmp_path, *asked, keys=("sex", "area"), records=100)
    assert done.exit_code == 2
    assert "the limit 'individual_risk <= 0.009': no plan can keep this" in done.output
    what = "no plan is certain to keep this: in a cell with half of the 100 records the draw of the sample alone"
    assert f"the precision '9.7 points for sex': {what}" in done.output
    assert "more than 9.8 points" in done.output
    assert not (tmp_path / "advice").exists()
    require_possible(needs_from(limits=["individual <= 0.01"], precisions=["9.9 points for sex"]), 100)


def test_the_next_step_is_that_of_what_is_not_met(tmp_path):
    smaller, coarser = "repeat with --look --limit 'epsilon <= 4': it finds the largest", "make categories coarser"
    told = []
    for number, asked in enumerate((("--precision", "10 points for sex"), ("--limit", "individual <= 0.02"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        told.append(advise(folder, *asked, keys=("sex", "area"), records=100).output)
    assert [(smaller in text, coarser in text) for text in told] == [(False, True), (True, False)]


def test_the_smallest_epsilon_is_said_of_the_smallest_only(tmp_path):
    asked = ("--look", "--limit", "correct matches <= 0.01")
    done = advise(tmp_path, *asked, "--json", keys=("sex", "area"), records=100)
    found = json.loads(done.stdout)["plans"]
    said = [plan for plan in found if "smallest epsilon" in " ".join(plan["reasons"])]
    least = {way: min(p["figures"]["epsilon"] for p in found if p["way"] == way) for way in {p["way"] for p in found}}
    assert all(plan["figures"]["epsilon"] == least[plan["way"]] for plan in said)
    assert any("does not keep every limit" in " ".join(plan["reasons"]) for plan in found)


def test_earlier_names_of_attackers_are_read():
    assert [needs_from(name).attacker for name in ("list", "acquaintance")] == ["register", "informed"]
    assert needs_from("acquaintance").typed.startswith("--attacker informed")


def test_the_register_attacker_is_measured_where_a_weight_is_known(tmp_path):
    for number, asked in enumerate(((), ("--sampling-fraction", "0.1"), ("--attacker", "informed"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = advise(folder, *asked, keys=("sex", "area"), records=100)
        assert done.exit_code == 0, done.output
        assert ("For the register attacker it is an upper figure" in done.output) == (number == 0)
        assert ("Risk of a person, register attacker: mean" in done.output) == (number == 1)
        assert {load_plan(path).fraction for path in plans(folder)} == {0.1 if number == 1 else None}
        assert "Expected correct matches, informed attacker, all persons" in done.output


@pytest.mark.parametrize(
    ("other", "told"), [("*", "name persons or households: ori_hid"), ("ori_hid,pay", "ori_hid is not")]
)
def test_household_numbers_never_move_in_rank(tmp_path, other, told):
    file = write(tmp_path / "s.parquet", records=100)
    held = pq.read_table(file)
    pq.write_table(held.append_column("ori_hid", pa.array([k // 2 + k % 2 * 500 for k in range(100)])), file)
    named = ["--keys", "sex,area", "--other", other, "--out", str(tmp_path / "advice")]
    done = CliRunner().invoke(main, ["advise", str(file), *named])
    assert done.exit_code == 0, done.output
    assert told in done.output
    for path in plans(tmp_path):
        plan = load_plan(path)
        assert [one.variables for one in plan.numerical] == [("pay",)]
        assert plan.codebook["ori_hid"].role == "drop"
