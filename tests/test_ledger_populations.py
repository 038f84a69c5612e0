"""A ledger with several populations: a release states its place among those of its own population."""

import json
import re

import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.certification.series import Level, series_from_dict
from postrand.cli import advise, main
from postrand.errors import PrivacyError, ReleaseError, SpecificationError
from postrand.release import canonical_json
from postrand.release.ledger import Ledger, LedgerWarning
from postrand.release.ledger_lines import Entry
from postrand.release.ledger_report import LedgerPage, outlook_lines, verify_ledger
from postrand.release.ledger_terms import Terms
from postrand.workflow.pipeline import run
from tests.unit_case import KEY, planned, survey


def _charged(book, population, kind="first"):
    entry = Entry(f"{population}{kind}", "m", 1.0, "r", "2026-01-01")
    charge = book.charge(entry, Terms(population=population, kind=kind))
    charge.note()
    return charge.series


def test_the_first_release_of_a_second_population_is_its_first(tmp_path):
    book = Ledger(tmp_path / "population.ledger")
    stated = [_charged(book, "patients"), _charged(book, "staff"), _charged(book, "patients", "wave")]
    assert [(one.population, one.number) for one in stated] == [("patients", 1), ("staff", 1), ("patients", 2)]
    for one in stated:
        assert series_from_dict(one.to_dict(), Level(1.0)) == one
    lines = book.read().lines
    assert [line.number for line in lines] == [1, 2, 3]
    assert [line.series for line in lines] == stated


def counted(folder, population, seed, more=""):
    """Write a plan of a survey whose releases are counted as those of a population, and return it."""
    section = f'[ledger]\nfile = "../office.ledger"\npopulation = "{population}"\n{more}\n'
    return planned(folder, ("[unit]", f"{section}[unit]"), table=survey(40, seed=seed))


def test_two_populations_in_one_ledger_have_their_own_numbers_and_a_changed_one_is_refused(tmp_path):
    made, ledger = [], Ledger(tmp_path / "office.ledger")
    for seed, (name, more) in enumerate(
        [("patients", ""), ("staff", 'kind = "first"'), ("patients", 'kind = "wave"'), ("staff", 'kind = "wave"')]
    ):
        plan = counted(tmp_path / "work", name, seed, more)
        made.append(run(plan, tmp_path / f"r{seed}", release_key=pr.ReleaseKey.from_seed(seed)))
    each = made[0].certificate["account"]["total"]
    stated = [one.certificate["series"] for one in made]
    numbers = [("patients", 1), ("staff", 1), ("patients", 2), ("staff", 2)]
    assert [(s["population"], s["number"]) for s in stated] == numbers
    assert [s["total"]["epsilon"] for s in stated] == pytest.approx([each, each, 2 * each, 2 * each])
    assert all(pr.verify(one.path).ok for one in made)
    verify_ledger(ledger, [], [one.path for one in made])
    changed = {"number": 1}, {"total": {"epsilon": each / 2}}, {"total": {"epsilon": each}}
    for one, change in zip(made[1:], changed, strict=True):
        file = one.path / "certificate.json"
        data = json.loads(file.read_text())
        series = data["series"] | change
        file.write_bytes(canonical_json.dump(data | {"series": {**series, "kind": "wave"}}))
        assert pr.verify(one.path, raise_if_failed=False).verdict == "failed"
        with pytest.raises(ReleaseError, match="does not state what the ledger says"):
            verify_ledger(ledger, [], [one.path])


def two_populations(folder, limit=3.0):
    ledger = Ledger(folder / "office.ledger")
    for content, population in enumerate(("persons 2024", "staff")):
        made = Entry(f"{content}", "m", 1.0 + content, f"r{content}", "2026-01-01", units={"household": 4.0 + content})
        ledger.add(made, Terms(population=population, kind="first", limit=limit))
    return ledger


def test_a_population_that_the_ledger_does_not_have_is_refused_until_it_is_said_to_be_new(tmp_path):
    ledger, made = two_populations(tmp_path), Entry("9", "m", 1.0, "r", "2026-01-01")
    before = ledger.path.read_bytes()
    for name, hint in (("Persons 2042", " (did you mean 'persons 2024'?)"), ("x", "")):
        words = re.escape(f"the ledger has no population '{name}'{hint}; wanted persons 2024, staff. Next: ")
        for verb in (ledger.charge, ledger.add):
            with pytest.raises(PrivacyError, match=words + '.*kind = "first" below'):
                verb(made, Terms(population=name))
        assert f"'{name}'{hint}" in outlook_lines(ledger.outlook(made, Terms(population=name)))[-1]
    with pytest.raises(PrivacyError, match=r"of the population 'stafff' \(did you mean 'staff'\?\) is in the ledger"):
        ledger.charge(made, Terms(population="stafff", kind="wave"))
    assert ledger.path.read_bytes() == before
    new, said = Terms(population="persons 2042", kind="first"), "its account begins at zero"
    assert said in outlook_lines(ledger.outlook(made, new))[-1]
    with pytest.warns(LedgerWarning, match=rf"did you mean 'persons 2024'\?\); {said}"):
        assert ledger.charge(made, new).line.total.epsilon == 1.0
    ledger.charge(made, Terms(population="x", kind="first"))  # a name that is like no other: no warning


@pytest.mark.filterwarnings("default::postrand.release.ledger.LedgerWarning")  # the command tells it
@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_asks_whether_a_population_is_new_and_protect_names_the_account(tmp_path, monkeypatch, answer):
    run(counted(tmp_path / "work", "patients", 1), tmp_path / "one", release_key=KEY)
    counted(tmp_path / "work", "patient", 2)
    protect = ["protect", "--plan", str(tmp_path / "work" / "plan.toml"), "--out", str(tmp_path / "two")]
    refused = CliRunner().invoke(main, protect)
    assert refused.exit_code == 5
    assert "did you mean 'patients'?" in refused.stderr
    monkeypatch.setattr(advise, "can_ask", lambda: True)
    asked = CliRunner().invoke(main, protect, input=f"{answer}\n", catch_exceptions=False)
    assert "did you mean 'patients'?" in asked.stderr
    assert "Are these other persons, whose account is new and begins at zero? [y/N]" in asked.stderr
    assert (tmp_path / "two").exists() == (answer == "y")
    assert asked.exit_code == (0 if answer == "y" else 5)
    if answer == "y":
        assert "this is number 1 of the population patient" in asked.stdout


def test_show_names_the_population_of_each_release_and_says_what_passes_the_limit_of_each(tmp_path):
    ledger = two_populations(tmp_path)
    page = str(LedgerPage(ledger.read()))
    assert page.startswith("Ledger of persons 2024, staff\n")
    assert re.search(r"^Release +Population +Date", page, re.MULTILINE)
    assert re.search(r"^1 +persons 2024 +2026", page, re.MULTILINE)
    persons, staff = page.split("Population persons 2024\n")[1].split("Population staff\n")
    assert "another wave like the last: ε 1 more, 2 together\n" in persons
    assert "A household of the largest size: ε <= 4" in persons
    passes = "ε 2 more, 4 together, which passes the limit ε = 3: refused"
    assert f"another wave like the last: {passes}\n" in staff
    assert f"a corrected file, released as the last was: {passes}, because" in staff
    assert "A household of the largest size: ε <= 5" in staff
    with pytest.raises(PrivacyError, match="would pass the limit"):
        ledger.charge(Entry("9", "m", 2.0, "r", "2026-01-01"), Terms(population="staff", kind="wave", limit=3.0))
    data = LedgerPage(ledger.read()).to_dict()["populations"]
    assert {name: one["total"]["epsilon"] for name, one in data.items()} == {"persons 2024": 1.0, "staff": 2.0}
    assert [one["units"] for one in data.values()] == [{"household": 4.0}, {"household": 5.0}]


def test_a_plan_without_a_population_is_asked_for_one_where_a_ledger_has_several(tmp_path):
    for seed, name in enumerate(("patients", "staff")):
        plan = counted(tmp_path / "work", name, seed, 'kind = "first"')
        run(plan, tmp_path / f"r{seed}", release_key=pr.ReleaseKey.from_seed(seed))
    text = (tmp_path / "work" / "plan.toml").read_text("utf-8").replace('population = "staff"\n', "")
    before = (tmp_path / "office.ledger").read_bytes()
    (tmp_path / "work" / "plan.toml").write_text(text.replace('kind = "first"', 'kind = "wave"'), "utf-8")
    with pytest.raises(SpecificationError, match=r"the plan names none of them; wanted patients, staff\. Next"):
        run(pr.load_plan(tmp_path / "work" / "plan.toml"), tmp_path / "r9", release_key=pr.ReleaseKey.from_seed(9))
    assert (tmp_path / "office.ledger").read_bytes() == before


def test_check_ends_as_protect_does_where_the_ledger_refuses_the_release(tmp_path):
    """With every rule met, or none: the ledger is asked first."""
    policies = {most: tmp_path / f"{most}.toml" for most in (100, 0.01)}
    for most, path in policies.items():
        path.write_text(f'[[rules]]\nmeasure = "epsilon"\nat_most = {most}\n', "utf-8")

    def ends(command, *more):
        plan = ["--plan", str(tmp_path / "work" / "plan.toml")]
        return CliRunner().invoke(main, [command, *plan, *map(str, more)])

    counted(tmp_path / "work", "patients", 0, "limit = 100")
    codes = {most: ends("check", "--policy", path).exit_code for most, path in policies.items()}
    assert codes == {100: 0, 0.01: 11}
    assert not (tmp_path / "office.ledger").exists()
    made = ends("protect", "--out", tmp_path / "one")
    assert made.exit_code == 0, made.output
    for more in ('kind = "wave"\nlimit = 0.5', ""):
        counted(tmp_path / "work", "patients", 1, more)
        protected = ends("protect", "--out", tmp_path / "two")
        said = protected.stderr.strip().removeprefix("postrand: ")
        for path in policies.values():
            found = ends("check", "--policy", path)
            assert found.exit_code == protected.exit_code == 5
            assert f"'postrand protect' would refuse the release: {said}" in found.output
