"""Attackers who know more than the keys: the plan is the same, and figures are those of a plan with these keys."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.errors import UsageError
from postrand.plan import load_plan
from postrand.workflow.known_also import knowing
from postrand.workflow.plan_figures import figures_of

BOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["f", "m"]
[[variables]]
name = "area"
role = "key"
categories = ["a", "b", "c"]
[[variables]]
name = "trade"
role = "{role}"
categories = ["p", "q", "r", "s"]
[[variables]]
name = "school"
role = "{role}"
categories = ["u", "v"]
[[variables]]
name = "pay"
role = "other"
type = "double"
[[variables]]
name = "note"
role = "drop"
"""
PLAN = """
[source]
file = "people.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 5.0
[[blocks]]
variables = ["sex"]
[[blocks]]
variables = ["area"]
[[blocks]]
variables = ["trade"]
[release]
as_is = ["pay"]
"""


@pytest.fixture
def plan(tmp_path):
    rng = np.random.default_rng(5)
    held = {"sex": list("fm"), "area": list("abc"), "trade": list("pqrs"), "school": list("uv"), "note": ["x", "y"]}
    columns = {name: rng.choice(values, 300) for name, values in held.items()}
    pq.write_table(pa.table({**columns, "pay": rng.normal(size=300)}), tmp_path / "people.parquet")
    (tmp_path / "codebook.toml").write_text(BOOK.format(role="other"), encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path / "plan.toml"


def test_the_figures_are_those_of_a_codebook_with_these_keys_and_the_release_is_the_same(plan):
    first = load_plan(plan)
    found = knowing(first, ["trade", "school"])
    (plan.parent / "codebook.toml").write_text(BOOK.format(role="key"), encoding="utf-8")
    keyed = load_plan(plan)
    risks = [(one.code, one.before, one.after) for one in figures_of(found).risks]
    assert risks == [(one.code, one.before, one.after) for one in figures_of(keyed).risks]
    few = figures_of(first).risk("correct_matches")
    more = figures_of(found).risk("correct_matches")
    assert few is not None
    assert more is not None
    assert (few.before or 0) < (more.before or 0)
    assert (few.after or 0) < (more.after or 0)
    assert (found.blocks, found.split, found.perturbed) == (first.blocks, first.split, first.perturbed)
    assert dataclasses.replace(found, codebook=first.codebook) == first


def test_who_knows_an_unperturbed_column_links_within_its_values(plan):
    """By hand: before the plan, a target is found with chance 1 / (persons with the same keys and school)."""
    table = pq.read_table(plan.parent / "people.parquet").to_pandas()
    found = figures_of(knowing(load_plan(plan), ["school"])).risk("correct_matches")
    assert found.before == pytest.approx(table.groupby(["sex", "area", "school"]).ngroups)


def test_what_cannot_be_known_is_refused_all_at_once(plan):
    with pytest.raises(UsageError) as error:
        knowing(load_plan(plan), ["trad", "note", "pay", "sex"])
    told = str(error.value)
    assert "4 problems" in told
    assert "'sex' is a key, which attackers know anyway" in told
    for words in ("no variable 'trad' in the codebook (did you mean 'trade'?)", "'note' is not released"):
        assert words in told
    assert "'pay' is a number without categories; who knows its exact value is told without this option" in told


def test_every_page_says_what_somebody_finds_who_knows_one_column_besides_the_keys(plan, tmp_path):
    """Nobody has the pay of another: who knows it finds all. Trade is perturbed, school is not.

    The figures are those of plans with these as keys, within the errors of simulated releases.
    """
    figures = figures_of(load_plan(plan))
    links = figures.risk("correct_matches")
    held = {one.name: one.links for one in links.known_too}
    assert held["pay"] == 300
    for name in ("trade", "school"):
        full = figures_of(knowing(load_plan(plan), [name])).risk("correct_matches")
        assert held[name] == pytest.approx(full.after, abs=6 * full.error)
    told = "Somebody who also knows pay finds about 300 correct matches after the plan (before: 300)"
    (plan.parent / "policy.toml").write_text(
        f'[[rules]]\nmeasure = "correct_matches"\nat_most = {(links.after or 0) + 1}\n'
        '[[rules]]\nmeasure = "individual_risk"\nat_most = 0.5\nshare_above = 0.01\n',
        encoding="utf-8",
    )
    check = ("check", "--plan", str(plan), "--policy", str(plan.parent / "policy.toml"))
    for words in (("explain", str(plan)), ("compare", str(plan), str(plan)), check):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        assert told in done.output
    page = CliRunner().invoke(main, check).output
    fails = "pass; but fails for somebody who also knows pay"
    assert f"{fails}: about 300 correct matches, 100% of all" in page
    assert f"{fails}: 100% of the persons are above the limit" in page
    CliRunner().invoke(main, ["explain", str(plan), "--decision", str(tmp_path / "page.html")])
    assert told in (tmp_path / "page.html").read_text(encoding="utf-8")
    ruled = ["explain", str(plan), "--decision", str(tmp_path / "ruled.html"), "--policy", str(check[-1])]
    assert CliRunner().invoke(main, ruled).exit_code == 0
    text = (tmp_path / "ruled.html").read_text(encoding="utf-8")
    assert "; but 2 of them fail for somebody who also knows pay" in text
    assert text.count("– fails for somebody who also knows pay") == 2


def test_explain_compare_and_check_take_it_and_say_where_it_helps(plan):
    (plan.parent / "policy.toml").write_text(
        '[[rules]]\nmeasure = "correct_matches"\nat_most = 300\n', encoding="utf-8"
    )

    def run(*words):
        done = CliRunner().invoke(main, [*words, "--known-also", "trade,school"])
        assert done.exit_code in (0, 11), done.output
        return done.output

    said = run("explain", str(plan))
    assert (
        "only the keys of a person (sex, area, trade, school), and not the true values of pay. "
        "If they also know these, figures are too low" in said
    )
    assert "Keys that the attackers know: sex, area, trade, school" in run("compare", str(plan), str(plan))
    policy = str(plan.parent / "policy.toml")
    assert "only the keys of a person (sex, area, trade, school)" in run(
        "check", "--plan", str(plan), "--policy", policy
    )
    assert "(see 'postrand explain --known-also')" in CliRunner().invoke(main, ["explain", str(plan)]).output


def test_where_all_columns_are_perturbed_who_knows_what_is_true_of_one_is_measured_too(plan):
    """Nothing is looked at for what it gives away in clear, and so nothing was sampled: the columns were not read."""
    book = BOOK.format(role="other").replace('name = "pay"\nrole = "other"', 'name = "pay"\nrole = "drop"')
    (plan.parent / "codebook.toml").write_text(book, encoding="utf-8")
    plan.write_text(PLAN.partition("[release]")[0] + '[[blocks]]\nvariables = ["school"]\n', encoding="utf-8")
    figures = figures_of(load_plan(plan))
    known = {one.name: one for one in figures.risk("correct_matches").known_too}
    assert set(known) == {"trade", "school"}
    for name, one in known.items():
        full = figures_of(knowing(load_plan(plan), [name])).risk("correct_matches")
        assert one.links == pytest.approx(full.after, abs=4 * np.hypot(one.error, full.error))
