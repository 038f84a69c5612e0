"""Persons with several records as the households of a plan: one column, one bound, and the words of persons."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner

from postrand import Block, Mechanism, Units, randomised_response, release
from postrand.certification.limits import Facts, limits
from postrand.certification.units import unit_levels
from postrand.cli import main
from postrand.errors import ReleaseError, SpecificationError
from postrand.plan import load_plan
from postrand.support import wordings
from postrand.workflow.plan_figures import figures_of
from tests.both_verifiers import ALONE
from tests.release_case import edit, rehash

UNITS = Units(household="pid", largest_household=6, person="pid", most_records=6)
ASKED = ("--person", "pid", "--most-records", "6")


def call(*words):
    found = CliRunner().invoke(main, [str(word) for word in words])
    assert found.exit_code in (0, 11), found.output
    return found.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Stays of patients: sex and area are the patient's, ward and length those of a stay."""
    made, rng = tmp_path_factory.mktemp("stays"), np.random.default_rng(4)
    person = np.repeat(np.arange(900), rng.integers(1, 5, 900))
    n = person.size
    columns = {
        "pid": 10_000 + person,
        "sex": np.array(["f", "m"])[rng.integers(0, 2, 900)][person],
        "area": np.array(list("abcdef"))[rng.integers(0, 6, 900)][person],
        "ward": np.array(list("stuvw"))[rng.integers(0, 5, n)],
        "outcome": np.array(["good", "bad"])[rng.integers(0, 2, n)],
    }
    pyarrow.csv.write_csv(pa.table(columns), made / "stays.csv")
    keys = ("--keys", "sex,area,ward", "--other", "outcome", "--household", "pid")
    call("init", made / "stays.csv", *keys, *ASKED, "--out", made / "look")
    limits = ("--limit", "person_epsilon <= 5", "--limit", "correct_matches <= 500")
    book = ("--codebook", made / "look" / "codebook.toml")
    (made / "said.txt").write_text(
        call("advise", made / "stays.csv", *book, *ASKED, *limits, "--out", made / "advice"), encoding="utf-8"
    )
    return made


@pytest.fixture(scope="module")
def bundle(folder) -> Path:
    words = ("--plan", folder / "advice" / "plan-1.toml", "--out", folder / "release", "--dossier", folder / "internal")
    (folder / "protected.txt").write_text(call("protect", *words, "--sampling-fraction", 1), encoding="utf-8")
    return folder / "release"


def test_one_column_can_number_both_with_one_bound():
    assert UNITS.are_persons
    assert not Units(household="hid", largest_household=6, person="pid", most_records=6).are_persons
    assert Units.from_dict(UNITS.to_dict()) == UNITS
    with pytest.raises(
        SpecificationError, match=r"two largest numbers of records.* set most_records = largest_household"
    ):
        Units(household="pid", largest_household=6, person="pid", most_records=5)


def test_the_person_has_the_level_of_the_household():
    """H + P + m R of a person, H + k (P + R) of a household: the same where nothing is drawn for persons alone."""
    blocks = [Block("region", randomised_response(4, 2.0), unit="household"), Block("sex", randomised_response(2, 0.5))]
    both = unit_levels(Mechanism(blocks, units=UNITS))
    assert both["person"]["levels"] == both["household"]["levels"]
    assert both["household"]["levels"] == unit_levels(Mechanism(blocks, units=Units("pid", 6)))["household"]["levels"]


def test_of_several_persons_nothing_is_promised_and_no_page_says_household():
    law = Mechanism([Block("sex", randomised_response(2, 0.5))], units=UNITS)
    codes = [one["code"] for one in limits(law, Facts(), [])]
    assert "several_household" in codes
    assert "several_person" not in codes
    units = {unit: {"column": "pid", "variables": [], "levels": []} for unit in ("person", "household")}
    said = wordings.limit({"code": "several_household"}, units)
    assert said.startswith("For a household, the ε of a person counts once for each person: with two persons 2 × ε, ")
    apart = {**units, "household": {**units["household"], "column": "hid"}}
    assert wordings.limit({"code": "several_household"}, apart).startswith(
        "For a household, ε counts once for each record: with two records 2 × ε, with three 3 × ε. Nothing else"
    )


def test_init_writes_both_and_drops_nothing(folder):
    plan = load_plan(folder / "look" / "plan.toml")
    assert plan.unit is not None
    assert plan.unit.units == UNITS
    assert plan.codebook["pid"].role == "household"


def test_a_person_column_may_be_named_among_those_that_are_dropped(folder, tmp_path):
    words = ("--keys", "sex,area", "--drop", "pid,ward,outcome", *ASKED, "--out", tmp_path / "look")
    call("init", folder / "stays.csv", *words)
    assert load_plan(tmp_path / "look" / "plan.toml").codebook["pid"].role == "drop"


def test_advice_keeps_a_limit_on_the_person_by_one_record_of_each(folder):
    said = (folder / "said.txt").read_text(encoding="utf-8")
    assert "Plan 1 (split, one record of each person): epsilon = 5 for a record; of a person with up to 6" in said
    assert "Asked: person_epsilon <= 5: met (5)" in said
    assert "Risk: Risk of a person, keys of all records known, informed attacker: mean" in said
    assert "Expected correct matches, informed attacker, all records" in said
    assert not re.search(r"household|member", said.replace("joint_household_risk", ""))
    assert load_plan(folder / "advice" / "plan-1.toml").unit.units == UNITS


def test_a_rule_on_the_person_is_met_and_pages_count_records_and_persons(folder, bundle):
    rules = "".join(
        f'[[rules]]\nmeasure = "{name}"\nat_most = {most}\n'
        for name, most in (("person_epsilon", 5), ("household_risk", 0.9))
    )
    (folder / "policy.toml").write_text(f'title = "Office"\n{rules}', encoding="utf-8")
    told = call("check", "--plan", folder / "advice" / "plan-1.toml", "--policy", folder / "policy.toml")
    assert re.search(r"ε of the person with most records +at most 5 +no guarantee +5 +pass", told)
    assert "Risk that a record of a person is found, informed attacker" in told
    explained = call("explain", folder / "advice" / "plan-1.toml")
    assert (
        "Of 100 persons, such an attacker, who knows this of one record at a time, finds at least one record of"
        in explained
    )
    assert "finds the record of" in explained
    page = (folder / "internal" / "decision.html").read_text(encoding="utf-8")
    for words in ("Correct matches: records found", "Persons with a record found rightly", "Persons found rightly"):
        assert words in page
    for text in (explained, page, (folder / "release" / "report.html").read_text(encoding="utf-8")):
        assert "For a household, ε counts once for each record" not in text
        assert "counts once for each person: with two persons 2 × ε, with three 3 × ε. Nothing else is" in text
        assert "one record of each person" in text or "One random record of each person" in text


def test_protect_explain_and_the_page_to_sign_say_how_many_records_show_values_of_the_split(folder, bundle):
    shown = ", of which 900 show values of the split (one record of each person)"
    explained = call("explain", folder / "advice" / "plan-1.toml")
    page = (folder / "internal" / "decision.html").read_text(encoding="utf-8")
    protected = (folder / "protected.txt").read_text(encoding="utf-8")
    records = pyarrow.csv.read_csv(folder / "stays.csv").num_rows
    for text, words in (
        (protected, f"{records:,} released records{shown}, tables of two"),
        (explained, f"{records:,} records{shown}, in "),
        (page, f"<dd>{records:,}{shown}</dd>"),
    ):
        assert words in text
    opened = release.read_release(bundle)
    table, names = opened.frame(), opened.mechanism.split.variables
    some = np.array([[value != "(not released)" for value in table[name].to_pylist()] for name in names])
    assert some.any(axis=0).sum() == 900


def test_the_pages_of_the_dossier_speak_of_records_and_persons(folder, bundle):
    for name in ("decision.html", "dossier.html"):
        text = re.sub(r"<style.*?</style>", "", (folder / "internal" / name).read_text(encoding="utf-8"), flags=re.S)
        text = text.replace("For a household, the ε", "").replace("Variables of households", "")  # an empty section
        assert not re.search(r"household|\bmember", text), name
    assert "Risk of persons, by the weights: before protection" in text


def test_files_of_the_release_speak_of_records_and_persons(bundle):
    for name in ("README.txt", "report.html", "ddi.xml", "croissant.json"):
        text = (bundle / name).read_text(encoding="utf-8")
        text = text.replace("Persons and households", "").replace("one person or household", "")
        assert "one random record of each person" in text.lower(), name
        assert not re.search(r"household|member", text.replace("For a household, the ε", "")), name


def test_one_who_is_alone_with_the_number_of_records_is_found_at_any_epsilon(tmp_path):
    """One person has five records, all others two: the number that is released finds this one."""
    pid = np.r_[np.repeat(np.arange(300), 2), np.full(5, 300)]
    rng = np.random.default_rng(2)
    columns = {"pid": pid, **{n: np.array(["a", "b"])[rng.integers(0, 2, pid.size)] for n in ("sex", "job", "way")}}
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "s.csv")
    keys = ("--keys", "sex,job,way", "--household", "pid", "--person", "pid", "--most-records", "5")
    limits = ("--limit", "epsilon <= 1", "--limit", "joint_household_risk <= 0.2", "--attacker", "informed")
    said = call("advise", tmp_path / "s.csv", *keys, *limits, "--out", tmp_path / "advice")
    assert "NOT joint_household_risk <= 0.2 (1)" in said
    assert "No epsilon helps where a person is alone with its number of records" in said
    assert "repeat with --look" not in said


def test_the_first_plan_shows_one_random_record_of_each_person(folder, tmp_path):
    keys = ("--keys", "sex,area,ward", "--household", "pid", "--drop", "*", *ASKED)
    call("init", folder / "stays.csv", *keys, "--out", tmp_path / "w")
    text = (tmp_path / "w" / "plan.toml").read_text(encoding="utf-8")
    assert '# unit = "household": one random record of each person shows its subset and stands for all of them' in text
    plan = load_plan(tmp_path / "w" / "plan.toml")
    assert plan.split.of_members
    assert figures_of(plan).unit_epsilon["person"] == pytest.approx(plan.split.epsilon)


def test_what_a_page_counts_is_what_the_file_has(folder):
    """Persons alone with the keys of all their records, by brute force: the informed attacker finds these before."""
    plan = load_plan(folder / "advice" / "plan-1.toml")
    found = figures_of(plan)
    data = pyarrow.csv.read_csv(folder / "stays.csv").to_pandas()
    keys = data.assign(key=list(zip(data.sex, data.area, data.ward, strict=True)))
    whole = keys.groupby("pid")["key"].agg(lambda held: tuple(sorted(held)))
    one = found.risk("joint_household_risk")
    assert one.before == pytest.approx(float((1 / whole.map(whole.value_counts())).mean()), rel=1e-9)
    assert found.unit_epsilon["person"] == found.unit_epsilon["household"] == pytest.approx(5.0)


def test_both_verifiers_check_the_levels_and_refuse_a_smaller_one(bundle, tmp_path):
    assert release.verify(bundle).verdict == "verified"
    assert ALONE.verify(str(bundle)).code == 0
    certificate = json.loads((bundle / "certificate.json").read_text(encoding="utf-8"))
    said = wordings.unit_levels(certificate["units"])
    assert len(said) == 1
    assert said[0].startswith("Persons (pid): the perturbed values of all records of one person together")
    assert "shown by one random record: " in said[0]

    def halve(held):
        held["units"]["person"]["levels"][-1]["epsilon"] /= 2

    copy = shutil.copytree(bundle, tmp_path / "copy")
    edit(copy / "certificate.json", halve)
    rehash(copy)
    with pytest.raises(ReleaseError, match="certificate"):
        release.verify(copy)
    assert ALONE.verify(str(copy)).code == 7


def test_more_records_than_the_bound_are_refused(folder):
    plan = folder / "advice" / "plan-1.toml"
    fewer = plan.parent / "fewer.toml"
    text = plan.read_text(encoding="utf-8")
    fewer.write_text(re.sub(r"(largest_household|most_records) = 6", r"\1 = 3", text), encoding="utf-8")
    found = CliRunner().invoke(main, ["protect", "--plan", str(fewer), "--out", str(folder / "none")])
    assert found.exit_code == 4
    assert "more records than the plan allows" in found.output or "most_records" in found.output
    assert not (folder / "none").exists()
