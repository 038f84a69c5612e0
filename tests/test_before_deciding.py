"""What a board sees before it decides: how each column leaves, what figures of risk leave out, whose claim it is."""

import dataclasses
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import postrand as pr
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.plan.numbering import dropped_household
from postrand.plan.policy import Policy, Rule
from postrand.privacy.words import members_in_words
from postrand.report.table_worth import MAX_PAIRED, NOT_PAIRED, TOO_WIDE, TableWorth, left_pairs, pairs_of
from postrand.report.text import cut
from postrand.risk.finding import Finding
from postrand.risk.regrouped import at_least, regrouped, regrouping
from postrand.risk.sample import Grouped, Sample, taken
from postrand.risk.shared import shared_value
from postrand.risk.tuning import Point, Tuning
from postrand.support.measure_names import KEYS_ALONE, MORE_KNOWN
from postrand.support.warned import hushed
from postrand.workflow.column_ways import WAYS, ways_of
from postrand.workflow.explanation import explain
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.policy_check import check_policy
from tests.test_dossier_pages import figures as some_figures
from tests.test_report import Page

ROLES = (
    *("--keys", "age,sex,roof", "--sensitive", "pay", "--other", "water,hours", "--weight", "weight"),
    *("--household", "hid", "--drop", "remark", "--record-key", "id"),
)
PLAN = """
[source]
file = "people.parquet"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 2.0

[release]
shuffle = {shuffle}
as_is = {as_is}
{numerical}
[[blocks]]
variables = ["age", "roof"]
privacy = {{ model = "differential", epsilon = 1.0 }}

[[blocks]]
variables = ["sex"]
privacy = {{ model = "differential", epsilon = 1.0 }}
"""
MOVED = '[[numerical]]\nvariables = ["hours"]\nmethod = {{ model = "rank-blocks", k = 20 }}\nform = "{form}"\n'
UNTOLD = pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")


def call(*words: object) -> str:
    found = CliRunner().invoke(main, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


def people() -> pa.Table:
    rng, n = np.random.default_rng(3), 1200
    house = np.arange(n) // 3
    return pa.table(
        {
            "id": np.arange(n),
            "hid": house * 7 + 11,
            "age": rng.integers(0, 90, n),
            "sex": rng.choice(["f", "m"], n),
            "pay": rng.choice(["low", "high"], n),
            "roof": rng.choice(["tin", "tile"], n // 3)[house],
            "water": rng.choice(["yes", "no"], n),
            "hours": rng.uniform(0, 60, n).round(3),
            "weight": (100 + np.arange(n // 3) * 0.37)[house],
            "remark": rng.choice(["a", "b"], n),
        }
    )


def made(folder: Path, shuffle: str = "true", numerical: str = "", roles: tuple[str, ...] = ROLES) -> Path:
    pq.write_table(people(), folder / "people.parquet")
    with hushed(UserWarning):
        call("init", folder / "people.parquet", *roles, "--recode", "age=bands:0,30,60", "--out", folder)
    as_is = '["weight"]' if numerical else '["weight", "hours"]'
    (folder / "plan.toml").write_text(PLAN.format(shuffle=shuffle, numerical=numerical, as_is=as_is))
    return folder / "plan.toml"


# -- how each column leaves -------------------------------------------------------------------------------------------


@UNTOLD
@pytest.mark.parametrize(("form", "way"), [("permute", "moved"), ("average", "averaged")])
def test_every_column_leaves_in_one_way(tmp_path, form, way):
    plan = pr.load_plan(made(tmp_path, numerical=MOVED.format(form=form)))
    found = figures_of(plan)
    ways = {one.name: one for one in found.ways}
    assert [*ways] == people().column_names
    assert {name: one.way for name, one in ways.items()} == {
        "id": "not released",
        "hid": "new numbers",
        "age": "made",
        "sex": "perturbed",
        "pay": "as it is",
        "roof": "perturbed",
        "water": "as it is",
        "hours": way,
        "weight": "as it is",
        "remark": "not released",
    }
    assert ways["roof"].part == ways["age"].part == "block age × roof"
    assert ways["age"].how.startswith("recoded (bands), then together with roof, ε = 1")
    assert found.unperturbed == ("pay", "water", "weight")


@UNTOLD
def test_every_page_names_every_column_with_its_way(tmp_path):
    path = made(tmp_path)
    call("protect", "--plan", path, "--out", tmp_path / "release", "--dossier", tmp_path / "inside")
    released = set(pq.read_schema(tmp_path / "release" / "data.parquet").names)
    ways = ways_of(plan := pr.load_plan(path), pr.read_release(tmp_path / "release").mechanism)
    assert {one.name for one in ways if one.leaves} == released
    lines = (
        "Perturbed: sex; roof (block age × roof)",
        "Recoded, then perturbed: age (block age × roof)",
        "Released as in the file, with no protection of their own: pay, water, hours, weight",
        "Released with new numbers, with no protection of their own: hid",
        "Not released: id, remark",
    )
    board = str(explain(plan, figures_of(plan)))
    assert all(line in board for line in lines)
    assert "Recoded before anything else is done: age (from age, bands). The values before recoding are not" in board
    assert "in this form only" not in board  # what is perturbed is not released as recoded
    decision = Page((tmp_path / "inside" / "decision.html").read_text("utf-8")).text
    for line in lines:
        words, _, names = line.partition(": ")
        assert f"{words.partition(', with no')[0]} {names}" in decision
    dossier = Page((tmp_path / "inside" / "dossier.html").read_text("utf-8")).text
    table = dossier[dossier.rindex("How each column leaves") :]
    assert all(f"{one.name} {WAYS[one.way]} {one.how}".strip() in table for one in ways)
    assert "Records leave in a new random order." in dossier
    written = json.loads((tmp_path / "inside" / "dossier.json").read_text("utf-8"))
    assert len(written["figures"]["how_each_column_leaves"]) == len(ways)


@UNTOLD
def test_the_order_of_the_records_is_said(tmp_path):
    plan = pr.load_plan(made(tmp_path, shuffle="false"))
    assert "1,200 records, in the order of the file." in str(explain(plan, figures_of(plan)))
    call("protect", "--plan", tmp_path / "plan.toml", "--out", tmp_path / "release", "--dossier", tmp_path / "inside")
    decision = Page((tmp_path / "inside" / "decision.html").read_text("utf-8")).text
    assert "Order of the records the order of the file" in decision
    report = Page((tmp_path / "release" / "report.html").read_text("utf-8")).text
    assert "The records are in the order of the file." in report


# -- what figures of risk count, and whose claim it is ----------------------------------------------------------------


@UNTOLD
def test_the_attackers_are_said_to_know_the_keys_alone_wherever_their_figures_stand(tmp_path):
    path = made(tmp_path)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nmeasure = "correct_matches"\nat_most = 1000\n')
    said = KEYS_ALONE.capitalize()
    with hushed(UserWarning):
        shown = (
            call("explain", path),
            call("compare", path, path),
            call("check", "--plan", path, "--policy", policy),
            call("assess", tmp_path / "people.parquet", "--keys", "sex,roof"),
            call("assess", tmp_path / "people.parquet", "--keys", "sex,roof", "--measure", "suda"),
        )
    assert [text.count(f"{said} (") for text in shown] == [1] * len(shown)
    known = "only the keys of a person (age, sex, roof), and not the true values of pay, water, hours, weight"
    assert f"{known}. {MORE_KNOWN}" in shown[0]


@UNTOLD
def test_the_claim_of_a_household_stands_beside_that_of_a_record(tmp_path):
    plan = pr.load_plan(made(tmp_path))
    found = figures_of(plan)
    one = "Of 100 households, such an attacker, who knows this of one person at a time, finds at least one member of"
    assert one in str(explain(plan, found))
    assert found.levels == ("ε of a record: 2 at most", "of all 3 members of the largest household together: 6 at most")
    dropped = (*ROLES[:-6], "--drop", "remark,hid", "--record-key", "id")
    (tmp_path / "other").mkdir()
    alone = figures_of(pr.load_plan(made(tmp_path / "other", roles=dropped)))
    assert alone.levels[1] == "of k records of one person or household together: k times as much"
    unit = '\n[unit]\nhousehold = "hid"\nlargest_household = 5\n'
    (tmp_path / "plan.toml").write_text((tmp_path / "plan.toml").read_text() + unit)
    assert figures_of(pr.load_plan(tmp_path / "plan.toml")).levels[1] == (
        "of a household with up to 5 records together: 10 at most"
    )


def test_guesses_stand_beside_those_without_the_release():
    assert "50 are without the perturbed values" in members_in_words(1.0, "hid", 3)
    rng, house = np.random.default_rng(1), np.repeat(np.arange(500), 3)
    codes = np.repeat((np.arange(500) % 4 == 0).astype(np.int64), 3)
    law = np.array([[0.8, 0.2], [0.2, 0.8]])
    assert shared_value("roof", house, codes, law, rng).blind == pytest.approx(0.75)


def test_a_text_is_cut_at_whole_words():
    text = "ordinary words, of several lengths"
    assert [cut(text, k) for k in (9, 10, 16, 17)] == ["ordinary…", "ordinary…", "ordinary words…", "ordinary words…"]
    assert all(
        cut(text, k).removesuffix("…").split()[-1].strip(",") in text.replace(",", "").split() for k in range(9, 35)
    )


@pytest.mark.parametrize(("names", "verb"), [(("water",), "gives"), (("water", "roof"), "give")])
def test_the_verb_of_a_finding_has_the_number_of_its_columns(names, verb):
    figures = {"water: right": 0.9, "water: blind": 0.5, "water: ranges": 0.0}
    brief = Finding("tells", names, ("pay",), "a sentence", figures).brief
    assert f"{', '.join(names)}, not perturbed, {verb} away true values of pay" in brief


def test_the_map_of_a_search_says_what_its_risk_counts():
    point = Point(1.0, 3.0, 0.1, 3.2, 0.5, 0.7)
    assert f"{KEYS_ALONE[:1].upper()}{KEYS_ALONE[1:]}." in str(Tuning("tau2", 4.0, 1.0, None, (point,), "found"))


# -- worth that is not known ------------------------------------------------------------------------------------------


def wide(variables: int, size: int = 2) -> Codebook:
    labels = tuple(map(str, range(size)))
    return Codebook(tuple(Variable(f"v{k}", role="key", categories=labels) for k in range(variables)))


def test_tables_that_are_left_out_are_known_by_their_reason():
    book = wide(MAX_PAIRED + 2)
    left = left_pairs(book.names, book, 100)
    assert len(left) + len(pairs_of(book.names, book)) == len(book.names) * (len(book.names) - 1) // 2
    assert {one.why for one in left} == {NOT_PAIRED}
    assert [one.why for one in left_pairs(("v0", "v1"), wide(2, 101), 100)] == [TOO_WIDE]
    assert not any(one.is_of_little_use or one.has_no_estimate for one in left)


def verdict(tables, **changed):
    figures = dataclasses.replace(some_figures(), **changed)
    rule = Rule("effective_records", 50.0, tables=tables)
    return check_policy(figures, Policy((rule,))).verdicts[0]


def test_a_table_that_is_left_out_of_a_rule_counts_as_not_known():
    good = TableWorth(("a", "b"), 400.0, 1000)
    left = TableWorth(("a", "c"), None, 1000, NOT_PAIRED)
    assert verdict("two-way", two_way=(good,)).is_met
    for tables in ("two-way", "all", (("a", "c"),)):
        found = verdict(tables, two_way=(good,), two_left=(left,), one_way=())
        assert not found.is_met
        assert f"not known: a × c: {NOT_PAIRED.removeprefix('not known: ')}" in found.why
        assert "list its tables" in found.step
    none = verdict("two-way")
    assert (none.is_met, none.after, none.why) == (True, "none", "does not apply: the release has no such table")


def test_a_rule_that_is_met_says_what_is_not_known():
    good, left = TableWorth(("a", "b"), 400.0, 1000), TableWorth(("a", "c"), None, 1000, TOO_WIDE)
    figures = dataclasses.replace(some_figures(), two_way=(good,), two_left=(left,))
    rule = Rule("effective_records", 50.0, 0.5, tables="two-way")
    (found,) = check_policy(figures, Policy((rule,))).verdicts
    assert found.is_met
    assert "not known: a × c: tables of more than 10,000 cells are not computed" in found.why
    assert "pass: not known" in str(found.row()["Result"])


@UNTOLD
def test_advice_says_why_a_precision_is_not_known(tmp_path):
    made(tmp_path)
    asked = ("--household-variables", "roof", "--largest-household", "4", "--precision", "9 points for roof")
    with hushed(UserWarning):
        text = call(
            *("advise", tmp_path / "people.parquet", "--codebook", tmp_path / "codebook.toml"),
            *("--limit", "epsilon <= 4", *asked, "--out", tmp_path / "advice"),
        )
    assert "Asked: 9 points for roof: not known: all records of a household share one draw of its values" in text
    lines = [line for line in text.splitlines() if line.startswith("Plan ") and "correct matches" in line]
    (split, *others) = lines  # what one member of each household shows is drawn by itself
    assert split.startswith("Plan 1 (split, one member of each household): epsilon = 4 for a record; of a household")
    assert split.endswith("precision: met")
    assert others
    for line in others:
        assert "it is not known: all records of a household share one draw of its values" in line
        assert "epsilon = 4 for a record; of a household with up to 4 records together: " in line


@UNTOLD
def test_a_released_record_number_is_seen_by_a_rule(tmp_path):
    path = made(tmp_path)
    path.write_text(
        path.read_text().replace("[release]", "[release]\nrelease_ids = true").replace("as_is = [", 'as_is = ["id", ')
    )
    found = check_policy(figures_of(pr.load_plan(path)), Policy((Rule("unperturbed", never=("id", "sex")),))).verdicts[
        0
    ]
    assert not found.is_met
    assert found.after == "id"


# -- households without their number ----------------------------------------------------------------------------------


def by_hand(house, columns):
    """The share of the households of two or more whose members alone have their values, counted with plain loops."""
    members, alike = defaultdict(set), defaultdict(set)
    for record, (number, values) in enumerate(zip(house, zip(*columns, strict=True), strict=True)):
        alike[values].add(record)
        if number >= 0:
            members[number].add(record)
    several = [one for one in members.values() if len(one) >= 2]
    return sum(one in alike.values() for one in several) / len(several) if several else None


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_regrouped_households_are_those_counted_by_hand(records):
    house = np.array([number for number, _, _ in records])
    first = {number: (a, b) for number, a, b in reversed(records)}  # members share the values of the first
    a, b = (
        np.array([first[n][k] if n >= 0 else row[k + 1] for n, row in zip(house, records, strict=True)]) for k in (0, 1)
    )
    found = regrouped(house, {"a": (a, 4), "b": (b, 4)})
    if max(Counter(n for n in house.tolist() if n >= 0).values(), default=0) < 2:
        assert found is None
        return
    assert found is not None
    assert found.share == max(by_hand(house, [a]), by_hand(house, [b]))
    assert found.every == by_hand(house, [a, b])
    assert found.columns == ("a", "b")


def test_records_of_a_person_are_not_called_a_household():
    source = TableSource(people().rename_columns(["pid" if n == "hid" else n for n in people().column_names]))
    book = Codebook((Variable("weight", role="weight", type="double"),))
    (one,) = regrouping(taken(source, Sample(("weight",), ("weight",), grouped=Grouped("pid", "persons"))), book)
    assert one.sentence.startswith(
        "pid seems to number persons, and is not released, but the values of weight, released unperturbed, put the "
        "records of more than 99% of the persons with several together again"
    )
    assert "household" not in one.sentence


def test_what_members_do_not_share_regroups_nobody():
    assert regrouped(np.array([0, 0, 1, 1]), {"sex": (np.array([0, 1, 0, 1]), 2)}) is None


@pytest.mark.parametrize("share", [0.01, 0.126, 0.5, 0.9899, 0.99])
def test_a_share_is_never_said_too_large(share):
    assert int(at_least(share).removeprefix("at least ").removesuffix("%")) / 100 <= share


def test_a_dropped_household_number_is_recognised():
    book = Codebook(tuple(Variable(n, role="drop", type="int64") for n in ("remark", "id", "ori_hid")))
    assert dropped_household(book) == ("ori_hid", "households")
    assert dropped_household(book.select(["remark"])) is None


def test_numbers_of_interviewers_and_lists_of_numbers_are_none_of_persons():
    types = {"interviewer_id": "int64", "member_ids": "list<element: int64>", "school_id": "string", "id": "binary"}
    book = Codebook(tuple(Variable(n, role="drop", type=of) for n, of in types.items()))
    assert dropped_household(book) is None
    more = Codebook((*book.variables, Variable("pid", role="drop", type="int64")))
    assert dropped_household(more) == ("pid", "persons")


@UNTOLD
def test_a_dropped_list_of_numbers_is_not_read(tmp_path):
    path = made(tmp_path, roles=(*ROLES[:-6], "--drop", "remark,hid", "--record-key", "id"))
    table = people().drop_columns(["hid"])
    pq.write_table(table.append_column("member_ids", pa.array([[1, 2]] * 1200)), tmp_path / "people.parquet")
    book = tmp_path / "codebook.toml"
    text = book.read_text("utf-8").replace('"hid"', '"member_ids"')
    book.write_text(re.sub(r'(name = "member_ids"[^]]*?type = )"int64"', r'\1"list<element: int64>"', text), "utf-8")
    assert 'type = "list<element: int64>"' in book.read_text("utf-8")
    assert pr.findings(pr.load_plan(path)).found


@pytest.mark.parametrize("size", [1, 3, 11, 400])
def test_large_groups_are_not_sampled_whole(size):
    """A sample of a few groups of interviewers would see or miss whole parts of the file."""
    n, most = 1200, 100
    table = pa.table({"w": np.arange(n) % 7, "pid": np.arange(n) // size})
    found = taken(TableSource(table), Sample(("w",), ("w",), grouped=Grouped("pid", "persons"), most=most))
    alone = taken(TableSource(table), Sample(("w",), ("w",), most=most))
    if size > 10:
        assert found.grouped is None
        assert found.table.select(["w"]).equals(alone.table)
        assert regrouping(found, Codebook((Variable("w", role="other", type="int64"),))) == ()
    else:
        assert found.grouped == Grouped("pid", "persons")
        assert set(Counter(found.table["pid"].to_pylist()).values()) == {size}


@UNTOLD
def test_exact_weights_put_members_of_a_dropped_household_together_again(tmp_path):
    dropped = (*ROLES[:-6], "--drop", "remark,hid", "--record-key", "id")
    found = pr.findings(plan := pr.load_plan(made(tmp_path, roles=dropped)))
    (one,) = [finding for finding in found.found if finding.code == "regroups"]
    assert one.variables == ("weight",)
    assert one.share == 1.0
    for words in (
        "hid seems to number households, and is not released, but the values of weight, released unperturbed, put the",
        "members of more than 99% of the households of several together again",
        "round or calibrate the weight",
    ):
        assert words in one.sentence
    assert "round" not in one.brief
    assert one.sentence in found.warnings
    assert "put the members of more than 99%" in str(explain(plan, figures_of(plan)))


def test_whole_households_are_sampled_by_a_number_that_is_not_released():
    source, most = TableSource(people()), 100
    whole = taken(source, Sample(("weight",), ("weight",), grouped=Grouped("hid"), most=most))
    assert not whole.is_whole
    assert set(Counter(whole.table["hid"].to_pylist()).values()) == {3}
    assert whole.household is None  # its role is another
    book = Codebook((Variable("weight", role="weight", type="double"),))
    (one,) = regrouping(whole, book)
    assert "measured on a sample, in which other records with the same values can be missing" in one.sentence


@UNTOLD
def test_rounded_weights_regroup_fewer(tmp_path):
    dropped = (*ROLES[:-6], "--drop", "remark,hid", "--record-key", "id", "--recode", "weight=rounding:50")
    found = pr.findings(pr.load_plan(made(tmp_path, roles=dropped)))
    assert not [finding for finding in found.found if finding.code == "regroups"]


@UNTOLD
def test_a_released_household_number_needs_no_such_finding(tmp_path):
    assert not [one for one in pr.findings(pr.load_plan(made(tmp_path))).found if one.code == "regroups"]


@UNTOLD
def test_a_column_that_tells_keys_is_counted(tmp_path):
    """Who knows branch and size knows the stratum too, and finds all 48 classes of the file; others are not known."""
    rng = np.random.default_rng(5)
    branch, size = rng.integers(0, 12, 1500), rng.integers(0, 4, 1500)
    table = {"branch": [f"b{one:02d}" for one in branch], "size": [f"s{one}" for one in size]}
    table["stratum"] = [f"{b:02d}/{s}" for b, s in zip(branch, size, strict=True)]
    pq.write_table(pa.table(table), tmp_path / "firms.parquet")
    with hushed(UserWarning):
        words = ("--keys", "branch,size", "--other", "stratum", "--perturb", "blocks", "--out", tmp_path)
        call("init", tmp_path / "firms.parquet", *words)
        text = (tmp_path / "plan.toml").read_text()
        (tmp_path / "plan.toml").write_text(
            re.sub(r"as_is = \[.*\]", "", text).replace("[release]", '[release]\nas_is = ["stratum"]')
        )
        rules = (f'[[rules]]\nmeasure = "{name}"\nat_most = 47\n' for name in ("correct_matches", "register_matches"))
        (tmp_path / "policy.toml").write_text("".join(rules))
        asked = ["check", "--plan", tmp_path / "plan.toml", "--policy", tmp_path / "policy.toml"]
        asked += ["--sampling-fraction", "0.5"]
        found = CliRunner().invoke(main, [str(word) for word in asked])
    assert found.exit_code == 11, found.output
    assert re.search("informed attacker, all persons +at most 47 +48 +48 +FAIL", found.output)
    assert re.search("register attacker, all records +at most 47 +not known +not known +FAIL", found.output)
    assert "all measures but those of the informed attacker leave out stratum, released unperturbed: " in found.output
    assert "what stands there goes with branch, size" in found.output
