"""The office's policy: reading it, checking a plan against it, and what 'protect' then does."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.app.designing import planned as designed_plan
from postrand.app.plans import open_plan
from postrand.certification.series import Level, Series
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.errors import PolicyError, SpecificationError
from postrand.plan import load_plan
from postrand.plan.policy import CLASS_SIZES, MEANS, MEASURES, load_policy, policy_from_dict
from postrand.report.table_worth import SHARED, TableWorth, mean_cell, two_way_lines, worth_line, worth_rows
from postrand.risk.informed import LEVELS
from postrand.support.unit_wordings import of_persons
from postrand.workflow.advice import advise
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_policy import unmet_in_words
from postrand.workflow.advice_text import at_a_glance
from postrand.workflow.comparison_risk import AS_IS, NO_HOUSEHOLD, RECODED
from postrand.workflow.dossier_decision import _checks
from postrand.workflow.draft import initialise
from postrand.workflow.larger import why_larger
from postrand.workflow.pipeline import run
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.policy_check import PolicyWarning, check_policy
from postrand.workflow.risk_left_out import keys_left_out
from postrand.workflow.side_by_side import KEYS_DIFFER, PlanComparison, worth_cell

N = 300
STRICT = '[[rules]]\nmeasure = "correct_matches"\nat_most = 0\n'


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found, rng = tmp_path_factory.mktemp("policy"), np.random.default_rng(2)
    columns = {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
        "age": np.array([f"a{k}" for k in range(5)])[rng.integers(0, 5, N)],
        "health": np.array(["good", "bad"])[rng.integers(0, 2, N)],
        "h": np.arange(N) // 2,
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), found / "people.parquet")
    roles = {"key": ["sex", "age"], "sensitive": ["health"], "household": ["h"]}
    initialise(found / "people.parquet", found, roles)
    return found


@pytest.fixture(scope="module")
def figures(folder):
    return figures_of(load_plan(folder / "plan.toml"), fraction=0.1)


def verdict(figures, **rule):
    [found] = check_policy(figures, policy_from_dict({"rules": [rule]})).verdicts
    return found


def test_all_problems_of_a_policy_are_said_at_once(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        'tilte = "x"\nenforce = 1\n'
        '[[rules]]\nmeasure = "correct_match"\nat_most = 1\n'
        '[[rules]]\nmeasure = "k"\nat_most = 1\n'
        '[[rules]]\nmeasure = "k"\nat_least = 1\n'
        '[[rules]]\nmeasure = "individual_risk"\nat_most = 0.1234\n'
        '[[rules]]\nmeasure = "tau2"\nat_most = -1\n'
        '[[rules]]\nmeasure = "effective_records"\nat_least = 5\ntables = "some"\nshare_below = 2\n'
        '[[rules]]\nmeasure = "unperturbed"\nnever = "income"\n'
    )
    with pytest.raises(SpecificationError) as caught:
        load_policy(path)
    text = str(caught.value)
    for said in (
        "'title'",
        "'enforce'",
        "'correct_matches'",
        "'at_most'",
        "'at_least'",
        "got 0.1234; wanted 0.001 to 0.999, with three decimals at most",
        "number >= 0",
        "'some'",
        "not a share",
        "'never'",
    ):
        assert said in text
    assert len(caught.value.problems) == 11
    with pytest.raises(SpecificationError, match="no rules"):
        policy_from_dict({})


def test_every_measure_of_a_policy_is_known_of_a_plan(figures):
    options = {
        "risk": {"at_most": 0.5},
        "class": {"at_least": 2},
        "worth": {"at_least": 1},
        "never": {"never": ["sex"]},
    }
    place = Series("p", 2, "wave", "0" * 64, Level(1.0), Level(6.0))
    known = dataclasses.replace(figures, unit_epsilon={**figures.unit_epsilon, "person": 2.0}, series=place)
    for measure, kind in MEASURES.items():
        found = verdict(known, measure=measure, **options.get(kind, {"at_most": 0.9 if measure in MEANS else 1e9}))
        assert found.after != "not known", measure
    assert "of this release alone; with the earlier ones, ε = 6" in verdict(known, measure="epsilon", at_most=5).why
    assert not verdict(known, measure="total_epsilon", at_most=5).is_met
    alone = verdict(figures, measure="total_epsilon", at_most=5)
    assert not alone.is_met
    assert "[ledger]" in alone.step


def test_a_share_of_all_records_is_a_measure_and_a_number_below_one_names_it(figures):
    matches, mean = figures.risk("correct_matches"), figures.risk("household_risk")
    share = matches.after / N
    found = verdict(figures, measure="correct_matches_share", at_most=round(share + 0.01, 3))
    assert found.is_met
    assert found.rule == "Expected correct matches, informed attacker: share of all records"
    assert found.limit == f"at most {100 * round(share + 0.01, 3):g}%"
    assert float(found.after.removesuffix("%")) == pytest.approx(100 * share, rel=0.01)
    assert float(found.before.removesuffix("%")) == pytest.approx(100 * matches.before / N, rel=0.01)
    assert not verdict(figures, measure="correct_matches_share", at_most=round(share - 0.001, 4)).is_met
    assert "name the measure 'correct_matches_share'" in verdict(figures, measure="correct_matches", at_most=0.02).step
    assert "correct_matches_share" not in verdict(figures, measure="correct_matches", at_most=1).step
    assert verdict(figures, measure="household_risk_mean", at_most=round(mean.after + 0.001, 4)).is_met
    assert not verdict(figures, measure="household_risk_mean", at_most=round(mean.after - 0.001, 4)).is_met
    checked = check_policy(figures, policy_from_dict({"rules": [{"measure": "correct_matches_share", "at_most": 0.1}]}))
    assert any("The informed attacker knows" in note for note in checked.notes)
    for measure in MEANS:
        with pytest.raises(SpecificationError, match=r"is not a share.*0\.01 for 1%"):
            policy_from_dict({"rules": [{"measure": measure, "at_most": 2}]})


def test_what_no_rule_is_about_is_said_where_the_release_has_it(figures):
    """Rules that are all met say nothing of what none of them looks at."""

    def left(plan, **rules):
        made = [{"measure": name, **options} for name, options in rules.items()]
        return check_policy(plan, policy_from_dict({"rules": made})).not_ruled

    few, never = {"at_most": 5}, {"never": ["pay"]}
    later = "other releases of the same persons"
    clear = dataclasses.replace(figures, unperturbed=("pay",), findings=("pay singles out records",))
    assert left(clear, epsilon=few) == f"No rule is about households, unperturbed columns or {later}."
    assert left(clear, household_epsilon=few, unperturbed=never) == f"No rule is about {later}."
    joint = f"No rule is about attackers who know the keys of all members of a household or {later}."
    assert left(clear, household_risk={"at_most": 0.5}, unperturbed=never) == joint
    assert left(clear, joint_household_risk={"at_most": 0.5}, unperturbed=never, total_epsilon=few) == ""
    alone = dataclasses.replace(figures, risks=(), ways=(), unperturbed=())
    assert left(alone, epsilon=few) == f"No rule is about {later}."
    page = str(check_policy(clear, policy_from_dict({"rules": [{"measure": "epsilon", "at_most": 5}]})))
    assert page.endswith(f"1 of 1 rules are met\nNo rule is about households, unperturbed columns or {later}.")


def test_the_least_worth_of_tables_says_under_which_frequencies_it_is(figures):
    equal, own = TableWorth(("sex", "age"), 69.2, N), TableWorth(("sex", "age"), 67.8, N)
    of_one = dataclasses.replace(figures, two_way=(equal,), own=(own,), two_left=())
    rule = {"measure": "effective_records", "at_least": 60, "tables": "two-way"}
    other = "68 with this file's own frequencies (sex × age)"
    assert verdict(of_one, **rule).after == f"69 if all were equally frequent; {other}"
    assert verdict(of_one, **rule).limit == "at least 60, which both worths must reach"
    assert verdict(dataclasses.replace(of_one, own=()), **rule).limit == "at least 60"
    assert verdict(dataclasses.replace(of_one, own=()), **rule).after == "69 at least"


def test_a_limit_divides_the_plans_that_meet_it(figures):
    after = figures.risk("correct_matches").after
    assert verdict(figures, measure="correct_matches", at_most=after * 1.01).is_met
    assert not verdict(figures, measure="correct_matches", at_most=after * 0.99).is_met
    assert verdict(figures, measure="epsilon", at_most=2.0).is_met
    assert not verdict(figures, measure="epsilon", at_most=1.99).is_met
    least = min(one.effective_records for one in figures.two_way)
    for limit, met in ((least * 0.99, True), (least * 1.01, False)):
        rule = {"measure": "effective_records", "at_least": limit, "tables": [["age", "sex"]]}
        assert verdict(figures, **rule).is_met is met
    assert not verdict(figures, measure="unperturbed", never=["health"]).is_met
    assert verdict(figures, measure="unperturbed", never=["sex"]).is_met


@pytest.mark.parametrize("measure", ["individual_risk", "household_risk", "register_risk", "k"])
def test_shares_decide_about_levels(figures, measure):
    found = figures.risk(measure)
    name, option = ("at_least", "share_below") if measure == "k" else ("at_most", "share_above")
    for level, _, after in found.shares[::5]:
        value = int(level) if measure == "k" else level
        assert verdict(figures, measure=measure, **{name: value, option: after}).is_met
        assert verdict(figures, measure=measure, **{name: value}).is_met is (after == 0)
    assert {level for level, *_ in found.shares} == {*(CLASS_SIZES if measure == "k" else LEVELS)}


def test_shares_before_are_those_of_the_file(folder, figures):
    table = pq.read_table(folder / "people.parquet").to_pandas()
    sizes = table.groupby(["sex", "age"])["h"].transform("size")
    for level, before, _ in figures.risk("individual_risk").shares:
        assert before == pytest.approx((1 / sizes > level).mean())
    for size, before, _ in figures.risk("k").shares:
        assert before == pytest.approx((sizes < size).mean())


def test_a_measure_that_is_not_known_meets_no_rule(folder):
    figures = figures_of(load_plan(folder / "plan.toml"))  # no weights, no fraction
    found = verdict(figures, measure="tau2", at_most=1e9)
    assert not found.is_met
    assert "sampling fraction" in found.why


def test_before_is_in_the_unit_of_the_limit_where_after_is_not_known(figures):
    known = figures.risk("individual_risk")
    bound, share, _ = known.shares[0]
    gone = dataclasses.replace(known, after=None, shares=((bound, share, None),))
    risks = tuple(gone if one is known else one for one in figures.risks)
    found = verdict(dataclasses.replace(figures, risks=risks), measure="individual_risk", at_most=bound)
    assert found.before.endswith("% have more")
    assert found.after == "not known"


def test_a_rule_that_fails_names_its_own_cause(tmp_path):
    """Church tax, 8 or 9 % of income tax, is released beside perturbed bands of income: no other is the cause."""
    rng = np.random.default_rng(4)
    tax = np.round(rng.lognormal(7, 0.8, N))
    columns = {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
        "income": np.array([f"band{k}" for k in np.digitize(tax, [400, 1000, 2000])]),
        "church_tax": np.round(tax * rng.choice([0.08, 0.09], N)),
        "rooms": np.array(["few", "many"])[rng.integers(0, 2, N)],
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), tmp_path / "people.parquet")
    roles = {"key": ["sex", "income"], "other": ["church_tax", "rooms"]}
    initialise(tmp_path / "people.parquet", tmp_path, roles)
    found = figures_of(load_plan(tmp_path / "plan.toml"))
    assert any("income, which is perturbed: church_tax" in text for text in found.findings)
    bad = verdict(found, measure="unperturbed", never=["wage", "church_tax", "rooms"])
    assert (bad.is_met, bad.after) == (False, "church_tax, rooms")
    assert bad.why == "church_tax, rooms released unperturbed; no column of this file: wage"
    tables = [["sex", "rooms"], ["church_tax", "sex"], ["rooms"], ["gone", "sex"]]
    bad = verdict(found, measure="effective_records", at_least=1, tables=tables)
    assert bad.why == (
        "not known: church_tax × sex: no categories of church_tax; not known: gone × sex: gone not released"
    )
    assert bad.step == "name columns that are released, or leave these tables out of the rule"
    kept = verdict(found, measure="effective_records", at_least=N, tables=[["rooms"]])
    assert (kept.is_met, kept.after) == (True, f"{N:,} at least")  # no perturbed variable: nothing is lost


def test_a_policy_serves_files_without_a_forbidden_column_or_households(figures):
    found = verdict(figures, measure="unperturbed", never=["income"])
    assert (found.is_met, found.why) == (True, "no column of this file: income")
    rules = {"rules": [{"measure": "unperturbed", "never": ["income", "healths"]}]}
    with pytest.raises(SpecificationError, match="healths") as caught:
        policy_from_dict(rules, columns=figures.columns)
    assert len(caught.value.problems) == 1
    others = {"rules": [{"measure": "unperturbed", "never": ["gehalt", "vorname", "einkommen"]}]}
    policy_from_dict(others, columns=["gebdat", "name", "eink"])  # other words, not mistyped ones
    no = [dataclasses.replace(one, before=None, after=None, shares=(), why=NO_HOUSEHOLD) for one in figures.risks]
    alone = dataclasses.replace(figures, risks=tuple(no))
    rule = {"measure": "household_risk", "at_most": 0.2, "share_above": 0.05}
    assert verdict(alone, **rule).row()["Result"] == "pass: does not apply: no household numbers"
    assert not verdict(alone, measure="correct_matches", at_most=1e9).is_met
    assert not verdict(dataclasses.replace(alone, may_link=("ori_hid",)), **rule).is_met


def test_a_table_whose_worth_is_not_known_is_not_called_below(figures):
    known, unknown = figures.one_way[:2]
    unknown = dataclasses.replace(unknown, effective_records=None, why=SHARED["household"])
    some = dataclasses.replace(figures, one_way=(known, unknown))
    found = verdict(some, measure="effective_records", at_least=known.effective_records / 2, tables="one-way")
    assert found.why == f"not known: {unknown.name}: all records of a household share one draw of its values"
    assert found.after.endswith("at least where it is known")
    assert "below" not in found.why
    assert "share_below" in found.step
    found = verdict(some, measure="effective_records", at_least=known.effective_records * 2, tables="one-way")
    assert found.why.startswith(f"below: {known.name}; not known: {unknown.name}: ")


def test_a_table_that_no_record_shows_fails_with_what_to_do(figures):
    unknown = dataclasses.replace(
        figures.one_way[1], effective_records=None, why="a, b: no record shows all these variables"
    )
    some = dataclasses.replace(figures, one_way=(figures.one_way[0], unknown))
    found = verdict(some, measure="effective_records", at_least=1, tables="one-way")
    assert not found.is_met
    assert found.step.startswith("ask for these tables in the workload of [split], or for tables of fewer variables")


def test_tables_without_an_estimate_are_counted_and_are_no_part_of_the_mean():
    cause = "a, b: no record shows all these variables. Next: ask for what records show together."
    none = [TableWorth((name, "b"), None, 300, cause) for name in "acd"]
    known = [TableWorth(("a", "e"), 150.0, 300), TableWorth(("b", "e"), 300.0, 300)]
    first, listed, *others = two_way_lines([*none, *known])
    assert "tables of two perturbed variables: 3 of 5 have no estimate; the others are worth 200 unp" in first
    assert "of little use" not in first
    assert listed == "  no estimate (no record shows all these variables): a × b, c × b, d × b"
    assert others == ["  a × e: 150", "  b × e: 300"]
    assert [mean_cell([*none, *known], which) for which in (0, 1)] == [
        "150 (3 of 5 have no estimate)",
        "200 (3 of 5 have no estimate)",
    ]
    assert [mean_cell(none), mean_cell([])] == ["3 of 3 have no estimate", None]
    assert (
        worth_rows(none[:1], none[:1])[0]["Unperturbed records it is worth, if every combination were equally frequent"]
        == "no estimate: no record shows all these variables"
    )
    assert [worth_cell(one) for one in (none[0], known[0])] == ["no estimate", "150"]


def test_tables_that_are_not_known_are_listed_apart_and_not_as_worth_more(figures):
    shared = [dataclasses.replace(one, effective_records=None, why=SHARED["household"]) for one in figures.two_way * 10]
    worth = TableWorth(("a", "b"), 40.0, 300)
    first, *others = two_way_lines([*shared, *[worth] * 11])
    assert "11 of 11 of little use" in first
    assert f"; of {len(shared)} of " in first
    assert first.endswith("share one draw of its values")
    assert others[-1] == "  and 3 more tables, none worth less than these"
    assert list(worth_line("tables", shared)) == [f"tables: worth {SHARED['household']}"]


def test_a_refusal_says_that_a_measure_is_not_known_and_why(folder, figures):
    policy = policy_from_dict({"rules": [{"measure": "tau2", "at_most": 5}]})
    [said] = check_policy(figures_of(load_plan(folder / "plan.toml")), policy).problems()
    assert "got it is not known: no sampling fraction or weight was given; wanted at most 5" in said
    assert "Next: give --sampling-fraction" in said
    no = [dataclasses.replace(one, before=None, after=None, shares=(), why=NO_HOUSEHOLD) for one in figures.risks]
    dropped = dataclasses.replace(figures, risks=tuple(no), may_link=("hid",))
    [row] = check_policy(dropped, policy_from_dict({"rules": [{"measure": "household_risk", "at_most": 0.2}]})).rows()
    assert "Next: name the household" in str(row["Result"])
    assert "for example of hid (a column" in str(row["Result"])
    said = "the risk of households is not computed: hid seems to number households or persons, and is not looked at, "
    said += "because its role"
    assert dropped.risk_notes == (*figures.risk_leaves_out, f"{said} is not 'household'")
    assert said in str(PlanComparison((figures, dropped)))


def test_a_weight_that_rounding_made_0_is_the_reason_that_is_given(tmp_path):
    rng = np.random.default_rng(5)
    columns = {"sex": np.array(["f", "m"])[rng.integers(0, 2, N)], "w": np.r_[3.0, np.full(N - 1, 90.0)]}
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), tmp_path / "people.parquet")
    made = ("--keys", "sex", "--weight", "w", "--recode", "w=rounding:50", "--out", tmp_path)
    assert call("init", tmp_path / "people.parquet", *made).exit_code == 0
    found = figures_of(load_plan(tmp_path / "plan.toml"))
    limits = {"register_matches": 1, "register_risk": 0.5, "tau2": 1}
    policy = policy_from_dict({"rules": [{"measure": name, "at_most": most} for name, most in limits.items()]})
    problems = check_policy(found, policy).problems()
    assert len(problems) == len(limits)
    for said in problems:
        assert "it is not known: variable 'w': a weight is below 1; wanted >= 1, the inverse of a probability;" in said
        assert "Next: correct the weight; where it is recoded, choose a smaller rounding" in said


def test_the_page_and_the_exit_code(folder, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('title = "Our office"\n' + STRICT + '[[rules]]\nmeasure = "epsilon"\nat_most = 5\n')
    found = call("check", "--plan", folder / "plan.toml", "--policy", policy)
    assert found.exit_code == 11
    assert "Our office" in found.output
    assert "1 of 2 rules are met" in found.output
    assert "INTERNAL" in found.output
    policy.write_text('[[rules]]\nmeasure = "epsilon"\nat_most = 5\n')
    found = call("check", "--plan", folder / "plan.toml", "--policy", policy, "--json")
    assert found.exit_code == 0
    assert json.loads(found.output)["met"] is True
    assert call("check", "--plan", folder / "plan.toml").exit_code == 2


def planned(folder, tmp_path, policy):
    (tmp_path / "policy.toml").write_text(policy)
    text = (folder / "plan.toml").read_text().replace('"people.parquet"', f'"{folder / "people.parquet"}"')
    text = text.replace('"codebook.toml"', f'"{folder / "codebook.toml"}"')
    (tmp_path / "plan.toml").write_text(text + '\n[policy]\nfile = "policy.toml"\n')
    return load_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize("inside", [False, True])
def test_a_plan_that_does_not_meet_its_policy_writes_nothing(folder, tmp_path, inside):
    plan = planned(folder, tmp_path, STRICT)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PolicyError, match="correct matches"):
        run(plan, tmp_path / "out", release_key=b"k" * 32, dossier=tmp_path / "dossier" if inside else None)
    assert sorted(tmp_path.rglob("*")) == before


def test_protect_takes_the_rules_of_another_policy(folder, tmp_path):
    rules = {"strict": STRICT, "mild": '[[rules]]\nmeasure = "epsilon"\nat_most = 5\n', "wrong": "tilte = 1\n"}
    for name, text in rules.items():
        (tmp_path / f"{name}.toml").write_text(text)

    def made(name, out):
        policy, dossier = tmp_path / f"{name}.toml", tmp_path / f"{out}-internal"
        words = ("--out", tmp_path / out, "--dossier", dossier, "--policy", policy)
        return call("protect", "--plan", folder / "plan.toml", *words)

    refused = made("strict", "refused")
    assert refused.exit_code == 11
    assert not (tmp_path / "refused").exists()
    assert not (tmp_path / "refused-internal").exists()
    assert made("wrong", "refused").exit_code == 3
    assert made("mild", "done").exit_code == 0
    assert "Certified ε of a record" in (tmp_path / "done-internal" / "decision.html").read_text()


def test_a_policy_that_is_not_enforced_warns_and_its_page_is_in_the_dossier(folder, tmp_path):
    plan = planned(folder, tmp_path, "enforce = false\n" + STRICT)
    with pytest.warns(PolicyWarning, match="rule of the policy"):
        run(plan, tmp_path / "out", release_key=b"k" * 32, dossier=tmp_path / "dossier")
    data = json.loads((tmp_path / "dossier" / "dossier.json").read_text())
    assert data["policy"]["met"] is False
    assert data["figures"]["worth"]["two_way"]["tables"]
    page = (tmp_path / "dossier" / "dossier.html").read_text()
    assert "office's policy" in page.replace("&#39;", "'")
    assert "What tables of perturbed variables are worth" in page
    released = "".join(p.read_text(errors="replace") for p in (tmp_path / "out").rglob("*") if p.suffix != ".parquet")
    assert "policy" not in released
    assert call("check", "--plan", tmp_path / "plan.toml").exit_code == 11


def test_a_policy_changes_no_released_byte(folder, tmp_path):
    plan = planned(folder, tmp_path, '[[rules]]\nmeasure = "epsilon"\nat_most = 5\n')
    run(plan, tmp_path / "with", release_key=b"k" * 32)
    run(load_plan(folder / "plan.toml"), tmp_path / "without", release_key=b"k" * 32)
    for path in (tmp_path / "with").iterdir():
        assert path.read_bytes() == (tmp_path / "without" / path.name).read_bytes(), path.name


def test_a_plan_with_a_wrong_policy_is_refused_whole(folder, tmp_path):
    with pytest.raises(SpecificationError, match="unknown measure"):
        planned(folder, tmp_path, '[[rules]]\nmeasure = "nothing"\n')
    text = (tmp_path / "plan.toml").read_text().replace('file = "policy.toml"', 'files = "policy.toml"')
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(SpecificationError, match="did you mean 'file'"):
        load_plan(tmp_path / "plan.toml")


def test_the_workbench_keeps_the_policy_of_a_plan(folder, tmp_path):
    plan = planned(folder, tmp_path, STRICT)
    (tmp_path / "work").mkdir()
    decisions = open_plan(tmp_path / "plan.toml", tmp_path / "work")
    assert designed_plan(decisions, tmp_path / "work").policy == plan.policy


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('measure = "unperturbed"\nnever = ["healths"]', "no column 'healths' (did you mean 'health'?)"),
        ('measure = "effective_records"\nat_least = 5\ntables = [["sex", "agee"]]', "no column 'agee'"),
        ('measure = "effective_records"\nat_least = 5\ntables = [["sex", "sex"]]', "names a variable twice"),
        ('measure = "no"\n[[rules]]\nmeasure = "unperturbed"\nnever = ["healths"]', "[[rules]] 2: no column 'healths'"),
    ],
)
def test_a_rule_on_a_column_that_is_not_there_is_refused(rule, said, folder, tmp_path):
    policy = tmp_path / "office.toml"
    policy.write_text(f"[[rules]]\n{rule}\n")
    told = call("check", "--plan", folder / "plan.toml", "--policy", policy)
    assert told.exit_code == 3
    assert said in told.stderr
    with pytest.raises(SpecificationError) as caught:
        planned(folder, tmp_path, policy.read_text())
    assert said in str(caught.value)


@pytest.mark.parametrize("fraction", ["3", "0", "-0.1", "nan"])
@pytest.mark.parametrize("command", ["check", "explain", "compare", "protect", "assess", "tune", "advise"])
def test_a_sampling_fraction_is_a_share(command, fraction, folder, tmp_path):
    plan, file = folder / "plan.toml", folder / "people.parquet"
    given = {
        "check": ["--plan", plan],
        "explain": [plan],
        "compare": [plan, plan],
        "protect": ["--plan", plan, "--out", tmp_path / "out"],
        "assess": [file, "--keys", "sex,age"],
        "tune": [file, "--keys", "sex,age", "--limit", "tau2 <= 10"],
        "advise": [file, "--keys", "sex,age"],
    }[command]
    told = call(command, *given, "--sampling-fraction", fraction)
    assert told.exit_code == 2
    assert "--sampling-fraction: the sampling fraction is outside its range" in told.stderr


def test_weights_and_a_fraction_together_are_refused(folder, tmp_path):
    for name in ("plan.toml", "codebook.toml"):
        text = (folder / name).read_text().replace('"people.parquet"', f'"{folder / "people.parquet"}"')
        (tmp_path / name).write_text(text.replace('role = "sensitive"', 'role = "weight"'))
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    book = ["--codebook", tmp_path / "codebook.toml"]
    for command in (
        ["explain", plan],
        ["compare", plan, plan],
        ["advise", folder / "people.parquet", *book, "--out", out],
        ["protect", "--plan", plan, "--out", out, "--dossier", tmp_path / "in"],
    ):
        told = call(*command, "--sampling-fraction", "0.1")
        assert told.exit_code == 2, command
        assert "both a sampling fraction and a weight are given" in told.stderr, command
        assert not out.exists()


def test_what_an_unknown_measure_needs_is_the_next_step(folder, tmp_path):
    rules = '[[rules]]\nmeasure = "tau2"\nat_most = 5\n[[rules]]\nmeasure = "register_risk"\nat_most = 0.1\n'
    plan = planned(folder, tmp_path, rules)
    with pytest.raises(PolicyError) as caught:
        run(plan, tmp_path / "out", release_key=b"k" * 32)
    for text in caught.value.problems:
        assert "--weight" in text
        assert "--sampling-fraction" in text
        assert "mean" not in text


@pytest.mark.parametrize(("rank", "met"), [(True, True), (False, False)])
def test_a_variable_that_a_rank_law_moves_is_not_released_as_it_is(rank, met, tmp_path):
    columns = {"sex": ["f", "m"] * 30, "income": np.random.default_rng(1).normal(size=60)}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    initialise(tmp_path / "f.parquet", tmp_path, {"key": ["sex"], "other": ["income"]})
    law = '\n[[numerical]]\nvariables = ["income"]\nmethod = { model = "rank-blocks", k = 10 }\n'
    with (tmp_path / "plan.toml").open("a") as plan:
        plan.write(law if rank else "")
    found = figures_of(load_plan(tmp_path / "plan.toml"))
    assert verdict(found, measure="unperturbed", never=["income"]).is_met is met


@pytest.mark.parametrize("recoded", [False, True])
def test_the_page_for_a_board_says_what_was_done_to_the_file_before(recoded, tmp_path):
    rows = [f"{'fm'[k % 2]},{k % 80}" for k in range(200)]
    (tmp_path / "p.csv").write_text("\n".join(["sex,age", *rows]) + "\n")
    given = ["--recode", "age=bands:0,30,60"] if recoded else []
    asked = ["--keys", "sex,age" if recoded else "sex", "--drop", "*"]
    assert call("init", tmp_path / "p.csv", *asked, *given, "--out", tmp_path).exit_code == 0
    for command in ("explain", "compare"):
        told = call(command, *[tmp_path / "plan.toml"] * (1 + (command == "compare"))).output
        assert ("in the recoded file" in told) is recoded
        # sex follows from the age in years: 80 combinations; in bands, 6
        assert ("before they are recoded), 6 of 200 persons (in the recoded" in told) is (
            recoded and command == "explain"
        )
        assert ("80 of 200 persons (in the file as it is" in told) is (recoded and command == "explain")
        assert ("  file as it is  recoded  " in told) is (recoded and command == "compare")


def test_the_larger_figure_of_the_register_attacker_is_named_for_each_side(figures):
    def made(before, after):
        both = [
            dataclasses.replace(figures.risk("tau2"), code=c, before=b, after=a)
            for c, b, a in (("tau2", before, after), ("register_matches", 5.0, 0.3))
        ]
        return dataclasses.replace(figures, risks=tuple(both))

    for told in (str(made(6.0, 0.1)), str(PlanComparison((made(6.0, 0.1),) * 2))):
        assert "before the plan the matches among sample uniques (τ2) are more than those of all" in told
        assert "larger of each side alone: before the plan τ2, after the plan that of all records" in told
    assert "before the plan that of all records, after the plan τ2" in str(made(4.0, 0.4))
    assert "contradict each other" not in str(made(4.0, 0.1))


def test_claims_in_the_same_words_point_to_what_differs(figures):
    """Two plans of one total were read as the same plan, because their claim is one sentence."""
    settings = tuple((name, f"{text}, other" * name.startswith("block")) for name, text in figures.settings)
    other = dataclasses.replace(figures, name="other", settings=settings)
    told = str(PlanComparison((figures, other)))
    assert (
        f"{figures.name} and other have a claim in the same words: risks differ all the same, as they differ in "
        in told
    )
    assert "in the same words" not in str(PlanComparison((figures, dataclasses.replace(other, claims=("none",)))))
    assert "in the same words" not in str(PlanComparison((figures, figures)))


def test_plans_with_other_keys_are_not_compared_by_their_risk_without_a_word(figures):
    other = dataclasses.replace(figures, name="other", keys=("sex",))
    told = str(PlanComparison((figures, other)))
    assert "Keys that the attackers know, other: sex\n" in told
    assert KEYS_DIFFER in told
    shown = [one for one in figures.risks if one.before is not None or one.after is not None]
    marked = [line for line in told.splitlines() if line.partition("  ")[0].endswith(" [other keys: do not compare]")]
    assert [line.partition(" [")[0] for line in marked] == [one.measure for one in shown]
    assert PlanComparison((figures, other)).to_dict()["warnings"] == [KEYS_DIFFER]
    turned = dataclasses.replace(figures, name="other", keys=tuple(reversed(figures.keys)))
    for same in (figures, turned):  # the order of keys makes no other attacker
        assert "other keys" not in str(PlanComparison((figures, same)))
        assert PlanComparison((figures, same)).to_dict()["warnings"] == []
    told = str(PlanComparison((figures, figures)))
    assert KEYS_DIFFER not in told
    assert "Keys that the attackers know: sex, age\n" in told


def test_a_reason_stands_where_a_cell_is_not_known_else_the_measures_are_named(figures):
    lacking = dataclasses.replace(figures.risk("tau1"), before=None, after=None, why="no weight")
    some = dataclasses.replace(figures.risk("tau2"), after=None, why="no law")
    told = str(PlanComparison((dataclasses.replace(figures, risks=(lacking, some)),) * 2))
    assert "not in the table: Population uniques among sample uniques (τ1): no weight" in told
    assert "not known: no law" in told
    assert "not known: no weight" not in told


def test_a_risk_that_is_larger_after_is_explained(figures):
    larger = [dataclasses.replace(figures.risk(code), before=5.0, after=4.0) for code in ("k", "tau2")]
    larger += [dataclasses.replace(figures.risk("individual_risk_largest"), before=0.1, after=0.2)]
    told = why_larger(larger)
    assert len(told) == 2
    assert "smaller by chance" in told[0]
    assert "of a split, a class has the records that show the same keys with the same values" in told[0]
    assert "others were moved away" in told[1]
    made = dataclasses.replace(figures, risks=tuple(larger))
    assert told[0] in str(PlanComparison((made, made)))
    found = dataclasses.replace(figures.risk("k"), shares=((5.0, 0.0, 0.5),))
    rules = policy_from_dict({"rules": [{"measure": "k", "at_least": 5}]})
    assert told[0] in str(check_policy(dataclasses.replace(figures, risks=(found,)), rules))
    assert why_larger([dataclasses.replace(found, before=1.0, after=9.0)]) == ()


def test_a_policy_limits_the_level_of_a_household(figures):
    """The members of the largest household, two, add up to twice ε = 2; [unit] states a level of its own."""
    rule = {"measure": "household_epsilon", "at_most": 4}
    assert verdict(figures, **rule).is_met
    assert not verdict(figures, measure="household_epsilon", at_most=3.99).is_met
    assert not verdict(dataclasses.replace(figures, unit_epsilon={"household": 37.0}), **rule).is_met
    assert not verdict(dataclasses.replace(figures, unit_epsilon={"household": np.inf}), **rule).is_met
    found = verdict(dataclasses.replace(figures, unit_epsilon={}), **rule)
    assert not found.is_met
    assert found.row()["Result"].endswith("where each household has one record, let the rule be on epsilon")
    step = verdict(figures, measure="person_epsilon", at_most=4).step
    assert step.startswith("name it in the plan: [unit] person = ...; where each person has one record, ")
    split = "or a split that one random member of each household shows ([split] unit = 'household')"
    step = f"a smaller epsilon ([unit] epsilon sets it); {split}"
    assert verdict(figures, measure="household_epsilon", at_most=3.99).step == step
    (problem,) = check_policy(figures, policy_from_dict({"rules": [{**rule, "at_most": 3}]})).problems()
    assert f"Next: {step}" in problem
    once = dataclasses.replace(figures, unit_epsilon={"household": figures.epsilon})
    assert verdict(once, measure="household_epsilon", at_most=1).step == "a smaller epsilon ([unit] epsilon sets it)"
    persons = dataclasses.replace(figures, words=of_persons)
    said = verdict(persons, measure="household_epsilon", at_most=3).step
    assert said.endswith("or a split that one random record of each person shows ([split] unit = 'household')")


def test_rules_on_households_that_are_met_say_who_finds_more(figures):
    """One who knows all members of a household can find it where none of its members is found alone."""
    risks = [one for one in figures.risks if "household_risk" not in one.code]
    usual = next(one for one in figures.risks if one.code == "household_risk")
    alone = dataclasses.replace(usual, shares=((0.2, 0.4, 0.0),))
    together = dataclasses.replace(figures.risk("joint_household_risk"), shares=((0.2, 0.4, 0.1),))
    plan = dataclasses.replace(figures, risks=(*risks, alone, together))

    def apart(plan, *measures):
        rules = [{"measure": one, "at_most": 0.2} for one in measures]
        return check_policy(plan, policy_from_dict({"rules": rules})).apart

    assert apart(plan, "household_risk").startswith("the rules on households are about attackers who look for one")
    assert apart(plan, "household_risk", "joint_household_risk") == apart(plan, "individual_risk") == ""
    within = dataclasses.replace(together, shares=((0.2, 0.4, 0.0),))
    assert apart(dataclasses.replace(plan, risks=(*risks, alone, within)), "household_risk") == ""
    unknown = dataclasses.replace(together, shares=((0.2, 0.4, None),))
    assert apart(dataclasses.replace(plan, risks=(*risks, alone, unknown)), "household_risk") == ""
    checked = check_policy(plan, policy_from_dict({"rules": [{"measure": "household_risk", "at_most": 0.2}]}))
    (said, _) = _checks(checked)
    assert "all 1 rules are met" in said
    assert said.endswith(f"; but {checked.apart}.")
    sentence = f"T{checked.apart[1:]}."
    assert sentence in str(checked).splitlines()
    assert checked.to_dict()["apart"] == checked.apart
    assert checked.beside == (sentence, checked.not_ruled)
    assert "all members" not in checked.not_ruled  # it is said once
    rules = [{"measure": "household_risk", "at_most": 0.2}, {"measure": "epsilon", "at_most": 1e-9}]
    (said, *_) = _checks(check_policy(plan, policy_from_dict({"rules": rules})))
    assert said.endswith(f"on the second page); and {checked.apart}.")


@pytest.mark.parametrize(
    ("unit", "first", "has_split"),
    [("household", "draw these variables for each member", True), ("person", "draw", False)],
)
def test_the_next_step_on_worth_of_shared_draws_says_what_makes_it_known(figures, unit, first, has_split):
    shared = [dataclasses.replace(one, effective_records=None, why=SHARED[unit]) for one in figures.two_way]
    plan = dataclasses.replace(figures, two_way=tuple(shared))
    found = verdict(plan, measure="effective_records", at_least=50, tables="two-way")
    assert not found.is_met
    assert found.step.startswith(first)
    assert f"take them out of {unit}_variables" in found.step
    assert ("a split that one random member of each household shows ([split] unit = 'household'" in found.step) == (
        has_split
    )
    assert found.step.endswith("; or leave these tables out of the rule: list its tables, or set share_below")


def test_a_rule_that_is_missed_by_less_than_one_record_says_so_and_is_not_met(figures):
    """4 of 10,000 persons in ten releases together are 0.4 of 1,000 in a release; 3 of 1,000 are more than one."""
    figures = dataclasses.replace(figures, records=1000)
    risk = figures.risk("individual_risk")

    def checked(after, share=0.0):
        made = dataclasses.replace(risk, shares=((0.2, 0.5, after),))
        plan = dataclasses.replace(figures, risks=(made,))
        rules = [{"measure": "individual_risk", "at_most": 0.2, **({"share_above": share} if share else {})}]
        return check_policy(plan, policy_from_dict({"rules": rules}))

    page = checked(0.0004)
    (found,) = page.verdicts
    assert found.why == (
        "above the limit by less than one record, on average over the simulated releases: a release has none or some "
        "of them, by chance"
    )
    assert found.step == (
        "a slightly larger share_above, which allows it; a smaller epsilon, coarser keys, or fewer keys released"
    )
    assert not page.is_met
    assert f"FAIL: {found.why}. Next: {found.step}" in str(page)
    assert page.to_dict()["rules"][0]["why"] == found.why
    (told,) = unmet_in_words(page)
    assert told.startswith(
        "Risk of a person, informed attacker: after the plan 0.04% have more; limit: at most 20% for all; "
    )
    (message,) = page.problems()
    assert "record" not in message
    assert [one.why for one in checked(0.003).verdicts] == [""]
    assert checked(0.0104, 0.01).verdicts[0].why.startswith("above the limit by less than one record, ")
    assert [one.why for one in checked(0.0114, 0.01).verdicts] == [""]
    assert [one.why for one in checked(0.002, 0.0015).verdicts] == [""]  # two persons in each release


def test_a_rule_on_small_classes_that_is_nearly_met_names_its_own_option(figures):
    risk = dataclasses.replace(figures.risk("k"), shares=((3.0, 0.5, 0.0004),))
    plan = dataclasses.replace(figures, records=1000, risks=(risk,))
    found = verdict(plan, measure="k", at_least=3)
    assert (found.is_met, found.step) == (False, "a slightly larger share_below, which allows it")


def test_a_household_rule_that_is_nearly_met_speaks_of_households(figures):
    """0.0008 of 500 households are 0.4 of one."""
    risk = dataclasses.replace(figures.risk("household_risk"), shares=((0.2, 0.5, 0.0008),), households=500)
    plan = dataclasses.replace(figures, risks=(risk,))
    found = verdict(plan, measure="household_risk", at_most=0.2)
    assert (found.is_met, found.why.startswith("above the limit by less than one household, on average")) == (
        False,
        True,
    )


def test_a_mean_that_misses_its_limit_by_the_error_of_the_simulation_says_so(figures):
    """The standard error is 2 of 100 persons, found with probability 0.2 in 400 links; twice that is 4."""
    risk = dataclasses.replace(figures.risk("correct_matches"), after=20.0, error=2.0)
    plan = dataclasses.replace(figures, records=100, risks=(risk,))
    near = verdict(plan, measure="correct_matches", at_most=17)
    assert (near.is_met, near.why.startswith("above the limit by less than simulated releases can tell")) == (
        False,
        True,
    )
    assert near.step.startswith("a slightly larger limit, if the office agrees; a smaller epsilon")
    assert verdict(plan, measure="correct_matches", at_most=15).why == ""
    assert near.why.endswith("twice the standard error of their mean: 4")
    assert verdict(plan, measure="correct_matches_share", at_most=0.17).why == near.why.replace(": 4", ": 0.04")
    assert verdict(plan, measure="correct_matches_share", at_most=0.15).why == ""
    assert verdict(plan, measure="correct_matches", at_most=21).why == ""


def test_the_next_step_does_not_name_epsilon_where_none_helps(figures):
    """A risk that leaves released columns out is not known at any epsilon, and a household's size shows at any."""
    told = "the risk leaves out educ, released unperturbed: what stands there goes with age, so that who knows"
    found = verdict(dataclasses.replace(figures, risk_leaves_out=(told,)), measure="correct_matches", at_most=20)
    assert found.step == (
        "perturb these columns too ('postrand advise --perturb-also', or [[blocks]] or [split] of the plan), or give "
        "them the role 'drop': no epsilon changes this"
    )
    (told,) = keys_left_out(Codebook((Variable("born", "key", type="int64"),)))
    found = verdict(dataclasses.replace(figures, risk_leaves_out=(told,)), measure="household_risk", at_most=0.2)
    assert found.step.startswith("group the values of these keys with [[recodes]], give them the role 'drop', or take")

    risks = [one for one in figures.risks if "joint_household_risk" not in one.code]
    some = dataclasses.replace(figures.risk("joint_household_risk"), shares=((0.2, 0.4, 0.1),))
    largest = dataclasses.replace(figures.risk("joint_household_risk_largest"), after=1.0)
    plan = dataclasses.replace(figures, risks=(*risks, some, largest), lone_sizes=2)
    rule = {"measure": "joint_household_risk", "at_most": 0.2}
    step = verdict(plan, **rule).step
    assert step.startswith("no epsilon helps where a household is alone with its number of members")
    assert "allow such households with share_above; else take such households out of the file before" in step
    both = verdict(plan, **rule, share_above=0.05).step
    assert both.startswith("a smaller epsilon, coarser keys, or fewer keys released; ")
    assert both.endswith(step)
    told = " ".join(plan.knowledge)
    assert "No epsilon helps where a household is alone" in told
    assert "In this file these are fewer than 5 households" in told
    assert "Its values stay perturbed" in told
    assert "In this file these are 12 households" in " ".join(dataclasses.replace(plan, lone_sizes=12).knowledge)
    for told in (step, " ".join(plan.knowledge)):
        assert "gives up every claim for households: the epsilon of one with k records is then up to k × that" in told
    for other in (dataclasses.replace(plan, lone_sizes=0), dataclasses.replace(plan, risks=(*risks, some))):
        assert verdict(other, **rule).step.startswith("a smaller epsilon, coarser keys")
        assert "alone with its number" not in " ".join(other.knowledge)


def test_a_household_that_is_alone_with_its_size_is_found_in_the_file(folder, tmp_path):
    """Whether a household has a size that no other has is read from the records; dropped numbers tell nothing."""
    table = pq.read_table(folder / "people.parquet")
    sizes = np.minimum(np.arange(N) // 2, N // 2 - 2)  # the last one has four members
    pq.write_table(table.set_column(3, "h", pa.array(sizes)), tmp_path / "people.parquet")
    for role, is_alone in (("household", True), ("drop", False)):
        made = tmp_path / role
        initialise(tmp_path / "people.parquet", made, {"key": ["sex", "age"], "sensitive": ["health"], role: ["h"]})
        held = figures_of(load_plan(made / "plan.toml"), fraction=0.1)
        assert (held.lone_sizes == 1) is held.is_found_by_size is is_alone
        assert (verdict(held, measure="joint_household_risk", at_most=0.2).after == "–") is not is_alone


def test_a_plan_at_a_glance_has_no_number_where_the_rule_says_it_is_not_known(folder):
    codebook = load_plan(folder / "plan.toml").codebook
    needs = needs_from("register", ["epsilon <= 3"], ["tables"])
    (plan, *_) = advise(folder / "people.parquet", codebook, needs, folder / "advice", fraction=0.1).plans
    told = "the risk leaves out educ, released unperturbed: what stands there goes with age, so that who knows"
    assert "correct matches of the informed attacker: " in next(at_a_glance([plan]))
    left = dataclasses.replace(plan, figures=dataclasses.replace(plan.figures, risk_leaves_out=(told,)))
    (line,) = at_a_glance([left])
    assert "correct matches: not known: the risk leaves out educ, released unperturbed; " in line
    first, second = at_a_glance([left, left])
    assert (first, "correct matches: not known, as of plan 1; " in second) == (line, True)
    shared = [dataclasses.replace(one, effective_records=None, why=SHARED["household"]) for one in plan.figures.one_way]
    left = dataclasses.replace(plan, figures=dataclasses.replace(plan.figures, one_way=tuple(shared)))
    first, second = at_a_glance([left, left])
    assert "all records of a household share one draw of its values" in first
    assert "; worth of the same tables not known, as of plan 1; " in second


def test_a_rule_that_is_not_met_says_which_before_where_keys_are_recoded(figures):
    rules = policy_from_dict({"rules": [{"measure": "correct_matches", "at_most": 0.5}]})
    made = check_policy(figures, rules)
    plain, recoded = ([*_checks(dataclasses.replace(made, before_is=one))][1] for one in (AS_IS, RECODED))
    assert f", before {made.verdicts[0].before}, after" in plain
    assert f", before (in the recoded file) {made.verdicts[0].before}, after" in recoded
