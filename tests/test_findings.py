"""What leaves in clear is measured, said once, shown everywhere, and needs a decision: against brute force."""

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import postrand as pr
from postrand.app import check_view, checking, computations, documents, opening, release_views, watch
from postrand.app.decisions import act, open_decisions
from postrand.app.finished import finish
from postrand.cli import main
from postrand.cli.frame import unperturbed_lines
from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.errors import SpecificationError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.risk import sample as sampling
from postrand.risk.findings import Finding, Findings, _sized, _together, find, singling
from postrand.risk.household_sizes import HouseholdSizes, compared
from postrand.risk.missing_kinds import missing_kinds
from postrand.risk.reveals import PairReveal, UnperturbedWarning
from postrand.risk.reveals import told as told_by
from postrand.risk.sample import sampled
from postrand.risk.shared import Shared, shared_value, shown_law
from postrand.risk.shared_told import of_household
from postrand.risk.singled import Singled, singled_out
from postrand.risk.singled_together import Every
from postrand.risk.telling import told_pairs
from postrand.risk.told_findings import telling
from postrand.support.measure_names import KEYS_ALONE
from tests.stats import rejects
from tests.test_risk_clear import by_hand

NOTED = pytest.mark.filterwarnings("always::postrand.risk.reveals.UnperturbedWarning")
ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.none() | st.integers(0, 5)), min_size=1)


def alone(rows):
    """Return the share of rows that no other row equals."""
    counts = Counter(rows)
    return sum(counts[row] == 1 for row in rows) / len(rows)


@given(ROWS)
@settings(max_examples=40)
def test_shares_singled_out_against_every_record(rows):
    table = pa.table({name: [row[j] for row in rows] for j, name in enumerate("xyz")})
    kept = sampled(TableSource(table), list("xyz"), list("xyz"))
    assert {n: kept.share_alone(n) for n in "xyz"} == {n: alone([r[j] for r in rows]) for j, n in enumerate("xyz")}
    few = [j for j, n in enumerate("xyz") if kept.share_alone(n) <= 0.01]
    for one in singled_out(kept, list("xyz")):
        j = "xyz".index(one.name)
        assert one.alone == alone([r[j] for r in rows])
        for size, share, others in ((2, one.pair, one.one), (3, one.triple, one.two)):
            sets = [s for s in itertools.combinations(few, size) if j in s]
            shares = {s: alone([tuple(r[k] for k in s) for r in rows]) for s in sets}
            if not sets:
                assert (share, others) == (None, ())
                continue
            assert share == pytest.approx(max(shares.values()))
            assert shares[tuple(sorted([j, *("xyz".index(o) for o in others)]))] == pytest.approx(share)


def test_a_large_file_is_sampled_by_whole_households_and_its_values_are_counted_exactly(monkeypatch):
    rng = np.random.default_rng(3)
    house, pay = np.repeat(np.arange(4000), 3), rng.integers(0, 20_000, 12_000)
    table = pa.table({"hh": house, "pay": pay, "town": pa.array(pay % 7).cast(pa.string()).dictionary_encode()})
    monkeypatch.setattr(sampling, "_MERGE", 100)  # merge often: the counts are those of one merge
    one = sampled(TableSource(table), ["pay", "town"], ["pay", "town"], "hh", most=1000)
    assert one.table.equals(sampled(TableSource(table), ["pay", "town"], ["pay"], "hh", most=1000).table)
    assert 990 < one.table.num_rows <= 1000
    assert set(Counter(one.table["hh"].to_pylist()).values()) == {3}
    assert one.share_alone("pay") == alone(pay.tolist())
    assert not one.is_whole


def survey(n=600, seed=5):
    """Return a survey with a key, a dummy of it, numbers, text, and households that share their tenure."""
    rng = np.random.default_rng(seed)
    house = np.arange(n) // 3
    year = rng.integers(1994, 1999, n)
    return pa.table(
        {
            "year": year,
            "was94": (year == 1994).astype(int),
            "age": (year - 1900) * 10 + rng.integers(0, 5, n),
            "tenure": pa.array(np.array(["own", "rent", "other"])[rng.integers(0, 3, n // 3)][house]),
            "likes": rng.integers(0, 3, n),
            "income": rng.lognormal(10, 1, n),
            "remark": [f"text {i}" for i in range(n)],
            "hh": house + 70_000,
        }
    )


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def started(tmp_path, *roles, table=None):
    pq.write_table(survey() if table is None else table, tmp_path / "s.parquet")
    done = call("init", tmp_path / "s.parquet", "--out", tmp_path, *roles)
    assert done.exit_code == 0, done.output
    return done


ROLES = ("--key", "year,tenure", "--sensitive", "income,remark", "--household", "hh", "--other", "*")


def decide(tmp_path, text):
    plan = tmp_path / "plan.toml"
    plan.write_text(plan.read_text("utf-8").replace("as_is = []", f"as_is = {text}"), "utf-8")
    return pr.load_plan(plan)


@NOTED
def test_nothing_is_released_before_every_column_is_decided_and_all_are_named_at_once(tmp_path):
    said = started(tmp_path, *ROLES).output
    assert "Next: decide on income, remark: released unperturbed, each singles out more than" in said
    assert "decide on was94, age: released unperturbed, they all but settle true values of perturbed variables" in said
    assert "To decide: was94 (year), age (year)." in (tmp_path / "plan.toml").read_text("utf-8")
    for command in (("protect", "--out", tmp_path / "out"), ("design",)):
        done = call(command[0], "--plan", tmp_path / "plan.toml", *command[1:])
        text = " ".join((done.stdout + done.stderr).split())
        assert "income (more than 99%), remark (more than 99%)" in text
        assert "year (by was94 and age)" in text
        assert 'name each in [release] as_is = ["income", "remark"]' in text
        assert 'name each in [release] as_is = ["was94", "age"]' in text
        line = re.search(r"in one line: \[release\] as_is = (\[.*?\])", text)
        assert line
        assert sorted(json.loads(line[1])) == ["age", "income", "remark", "was94"]
        assert done.exit_code == (3 if command[0] == "protect" else 0)
    assert not (tmp_path / "out").exists()
    plan = decide(tmp_path, '["income", "remark", "was94", "age"]')
    with pytest.warns(UnperturbedWarning):
        made = pr.run(plan, tmp_path / "out")
    assert made.findings.undecided == ()
    decided = [f.variables for f in made.findings.found if f.is_decided]
    assert decided == [("income",), ("remark",)]
    (told,) = (f for f in made.findings.found if f.about == ("year",) and {*f.variables} == {"was94", "age"})
    for text in (told.brief, next(text for text in made.findings.warnings if "true values of year" in text)):
        assert text.endswith("; the plan states that they are released all the same")


def test_what_is_released_as_it_is_already_stays_in_the_one_line(tmp_path):
    one = Finding("singles-out", ("pay",), (), "pay", is_open=True)
    singled = (Singled("pay", 0.5, None, None),)
    (told,) = Findings((one,), singled).refusals
    assert told.count("as_is = ") == 1
    (told,) = Findings((one,), singled, as_is=("weight",)).refusals
    assert told.endswith('in one line: [release] as_is = ["weight", "pay"].')


def test_what_is_told_of_variables_of_households_alike_is_one_finding():
    """Two variables in all households, one in 97% of them, and one of which nothing is measured."""
    shared = (
        Shared("region", 1.0, 0.54, 0.39, is_partly=True, blind=0.14),
        Shared("tenure", 1.0, 0.70, 0.58, is_partly=True, blind=0.46),
        Shared("size", 0.97, 0.70, 0.58, is_partly=True, blind=0.46),
        Shared("kind", 1.0),
    )
    found = Findings(tuple(of_household([one]) for one in shared), shared=shared)
    first, *rest = found.told
    assert first.about == ("region", "tenure")
    assert first.sentence == (
        "all members have the same value of region and tenure in all households with several members, and each is "
        "perturbed again for each member: the best guess from what all members show of each is right in about 54% and "
        "about 70% of the households, in this order, that from one member in about 39% and about 58%, that without the "
        "release in about 14% and about 46%; epsilon adds up over the members; to draw them once for each household, "
        "perturb them in blocks of their own and name them in [unit] household_variables"
    )
    assert [one.about for one in rest] == [("size",), ("kind",)]
    assert "it is perturbed again for each member: the best guess from what all members show of it" in rest[0].sentence
    assert len(found.brief) == 4  # there each is a line or two with its own figures
    (other,) = [of_household([one]) for one in shared[:1]]
    assert Findings((other,), shared=shared).told == (other,)


@NOTED
def test_a_law_and_a_drop_are_decisions_too(tmp_path):
    started(tmp_path, *ROLES)
    book, plan = tmp_path / "codebook.toml", tmp_path / "plan.toml"
    book.write_text(
        book.read_text("utf-8").replace('name = "remark"\nrole = "sensitive"', 'name = "remark"\nrole = "drop"')
    )
    text = '\n[[numerical]]\nvariables = ["income"]\nmethod = { model = "rank-blocks", k = 20 }\n'
    plan.write_text(plan.read_text("utf-8") + text, "utf-8")
    found = pr.findings(pr.load_plan(plan))
    assert found.undecided == ("was94", "age")  # they say the year, which is perturbed
    assert len(found.refusals) == 1
    plan.write_text(plan.read_text("utf-8").replace("as_is = []", 'as_is = ["was94", "age"]'), "utf-8")
    assert pr.findings(pr.load_plan(plan)).undecided == ()


@pytest.mark.parametrize(
    ("counts", "certain"),
    [
        ([[970, 30], [30, 970]], True),  # the same question asked twice
        ([[100, 0], [0, 300], [0, 600]], True),  # a dummy
        ([[200, 0, 0], [0, 300, 0], [0, 0, 500]], True),
        ([[300, 150, 100], [0, 250, 200]], False),  # children have no job, others may have none
        ([[1, 0], [0, 499], [0, 500]], False),  # one value of one record: chance
        ([[50, 50], [50, 50]], False),
    ],
)
def test_what_is_all_but_settled_needs_a_decision(counts, certain):
    found = told_by(np.array(counts))
    assert found.is_certain == certain
    assert found.is_much or not certain


def test_as_is_names_unperturbed_released_columns(tmp_path):
    started(tmp_path, *ROLES, "--drop", "likes")
    with pytest.raises(SpecificationError) as caught:
        decide(tmp_path, '["year", "incme", "hh", "likes", "income"]')
    text = str(caught.value)
    for words in (
        "'year' is perturbed",
        "'incme' in the codebook",
        "'likes' is not",
    ):
        assert words in text
    assert "3 problems" in text  # household numbers can be named: their sizes can tell perturbed values
    for wrong, words in (
        ('as_is = "income"', "is not a list of names"),
        ('household_numbers = "as is"', "'as they are'"),
    ):
        plan = tmp_path / "plan.toml"
        start = plan.read_text("utf-8").split("[release]")[0]
        plan.write_text(f"{start}[release]\n{wrong}\n[[blocks]]\nvariables = ['year']\n", "utf-8")
        with pytest.raises(SpecificationError, match=words):
            pr.load_plan(plan)


@NOTED
def test_every_surface_shows_the_same_findings_and_none_shows_a_count(tmp_path):
    started(tmp_path, *ROLES)
    decide(tmp_path, '["income", "remark", "was94", "age"]')
    base = ("--plan", tmp_path / "plan.toml")
    done = call("protect", *base, "--out", tmp_path / "out", "--dossier", tmp_path / "in", "--seed", 1, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["findings"]
    assert found == json.loads(call("design", *base, "--json").stdout)["findings"]
    assert [f["code"] for f in found["found"]].count("singles-out") == 2
    told = [f for f in found["found"] if f["code"] == "tells" and f["about"] == ["year"]]
    assert told[0]["variables"] == ["was94", "age"]  # the dummy by its values, the number by its bins
    lines = [text for text in done.stderr.splitlines() if "warning" in text]
    open_ = [f["sentence"] for f in found["found"] if not f["is_decided"]]
    assert [text.removeprefix("postrand: warning: ") for text in lines] == open_
    inside = json.loads((tmp_path / "in" / "dossier.json").read_text("utf-8"))["clear"]
    assert [f["sentence"] for f in inside["found"]] == [f["sentence"] for f in found["found"]]
    assert all("figures" not in f for f in found["found"])
    table = survey()
    pairs = list(zip(table["year"].to_pylist(), table["was94"].to_pylist(), strict=True))
    pair = next(p for p in inside["pairs"] if (p["perturbed"], p["clear"]) == ("year", "was94"))
    assert [pair[n] for n in ("guessed", "settled", "same", "excluded")] == pytest.approx(by_hand(pairs))
    page = (tmp_path / "in" / "dossier.html").read_text("utf-8")
    assert "Records that unperturbed columns single out" in page
    shown = " ".join(f["sentence"] for f in found["found"]) + " ".join(found["not_tried"])
    counts = {str(v) for v in Counter(table["year"].to_pylist()).values()} | {"600", "200"}
    assert not counts & set(shown.replace("%", " ").replace(".", " ").split())


@NOTED
def test_the_workbench_shows_them_and_waits_for_the_decision(tmp_path):
    pq.write_table(survey(), tmp_path / "s.parquet")
    roles = {"year": "key", "tenure": "key", "income": "sensitive", "hh": "household", "remark": "drop"}
    decisions = open_decisions(opening.open_file(tmp_path / "s.parquet"), roles)
    assert checking.checked(decisions, tmp_path) is None
    decisions = act(decisions, "rest", value="other")
    check = checking.checked(decisions, tmp_path)
    found = check.findings
    assert found.undecided == ("income", "was94", "age")
    page = str(release_views.protect_view(decisions, None, "", None, check))
    assert 'disabled="disabled"' in page
    page = str(check_view.check_view(decisions, check))
    assert all(sentence.split("'")[0][:40] in page for sentence in found.sentences)
    assert [page.count(f" Release {name} as it is<") for name in ("income", "was94", "age", "likes")] == [1, 1, 1, 0]
    with pytest.raises(SpecificationError, match="income"):
        computations.protect(decisions, tmp_path, watch.Watch())
    for name in ("income", "was94", "age"):
        decisions = act(decisions, "as_is", str(decisions.names.index(name)), "true")
    assert documents.plan_data(decisions, tmp_path)["release"]["as_is"] == ["income", "was94", "age"]
    after = checking.checked(decisions, tmp_path)
    page = str(check_view.check_view(decisions, after))
    assert [page.count(f" Release {name} as it is<") for name in ("income", "was94", "age")] == [1, 1, 1]
    assert 'disabled="disabled"' not in str(release_views.protect_view(decisions, None, "", None, after))
    made = finish(decisions, tmp_path / "1", 1, watch.Watch())
    page = str(release_views.protect_view(decisions, None, "", made))
    assert made.release.findings.sentences == made.check.findings.sentences == after.findings.sentences
    assert "income is released unperturbed" in page
    dropped = act(decisions, "role", str(decisions.names.index("income")), "drop")
    assert documents.plan_data(dropped, tmp_path)["release"]["as_is"] == ["was94", "age"]


def test_two_columns_tell_together_what_neither_tells_alone():
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    table = pa.table({"sum": (a + b) % 2, "a": a, "b": b, "c": rng.integers(0, 2, 4000)})
    book = Codebook(tuple(Variable(n, "other", (0, 1), type="int64") for n in table.column_names))
    found = find(TableSource(table), book, Mechanism({"sum": randomised_response(2, 1.0)}, book), book.names)
    assert [(f.code, f.variables, f.about) for f in found.found] == [("tells", ("a", "b"), ("sum",))]
    assert found.warnings[0].count("together") == 1


def test_a_column_that_tells_nearly_all_that_two_tell_is_named_alone():
    """The number of nights guesses the cost; what another column adds is no finding, unless it settles the cost."""
    alone = [PairReveal("cost", name, 0.0, 0.0, 0.3, right, 0.1) for name, right in (("nights", 0.36), ("sex", 0.11))]
    both = [PairReveal("cost", f"nights, {other}", 0.3, 0.02, 0.3, 0.38, 0.1) for other in ("sex", "edu")]
    one = list(
        telling(alone, [(("nights", other), found) for other, found in zip(("sex", "edu"), both, strict=True)], ())
    )
    assert [found.variables for found in one] == [("nights",)]
    assert "the best guess from nights is right in about 36" in one[0].sentence
    assert "drop nights" in one[0].sentence
    more = [replace(both[0], right=0.6), replace(both[0], settled=0.7), replace(both[0], clear="sex, edu", right=0.5)]
    pairs = [("nights", "sex"), ("nights", "sex"), ("sex", "edu")]
    told = list(telling(alone, list(zip(pairs, more, strict=True)), ()))
    assert [found.variables for found in told] == pairs
    assert [found.is_open for found in told] == [False, True, False]


def test_a_column_that_tells_only_with_one_more_is_not_said_to_tell_by_itself():
    """86 right guesses of 100 with it and 86 without are nothing to act on; what it settles with another one is."""
    alone = [PairReveal("born", "weight", 0.0, 0.008, 0.1, 0.862, 0.858)]
    both = [PairReveal("born", f"weight, {other}", 0.02, 0.012, 0.1, 0.863, 0.858) for other in ("car", "sex")]
    (told,) = telling(alone, [(tuple(found.clear.split(", ")), found) for found in both], ())
    start = "two unperturbed variables together reveal true values of born, which is perturbed: weight and car; of 100"
    assert told.sentence.startswith(start)
    assert "for about 1 of 100 records weight and car make one value far likelier" in told.sentence
    assert "guess from weight is" not in told.sentence
    assert told.sentence.endswith("; drop weight, or perturb it too")
    assert told.brief == (
        "weight, car, not perturbed, give away true values of born: of 100 guesses about 86 are right, without the "
        "release about 86; for about 1 of 100 records one value is far likelier (at least 80%); "
        "no epsilon prevents this"
    )


def fits(share, wanted, trials):
    """Whether a simulated share is one of so many trials with this chance (alpha of tests.stats)."""
    right = round(share * trials)
    return not rejects([right, trials - right], [wanted, 1 - wanted])


@pytest.mark.parametrize(("size", "epsilon"), [(3, 0.5), (5, 1.0), (7, 0.2)])
def test_the_majority_of_a_household_against_the_binomial(size, epsilon):
    rng, houses = np.random.default_rng(size), 40_000
    law = randomised_response(2, epsilon).array
    stay = law[0, 0]
    wanted = sum(comb(size, k) * stay**k * (1 - stay) ** (size - k) for k in range(size // 2 + 1, size + 1))
    codes = np.repeat(rng.integers(0, 2, houses), size)
    found = shared_value("x", np.repeat(np.arange(houses), size), codes, law, rng)
    assert found.constant == 1
    assert fits(found.majority, wanted, houses)
    assert not fits(found.majority, stay, houses)  # one draw alone would be right less often
    assert fits(found.single, stay, houses * size)


def test_the_best_guess_of_a_household_from_a_split_against_every_outcome():
    """Two members show a value of two with probability 3/4, each by randomised response; ties go to the first value."""
    one, pair = randomised_response(2, 1.0), randomised_response(6, 1.5)
    book = Codebook((Variable("x", "key", ("a", "b")), Variable("y", "key", ("p", "q", "r"))))
    blocks = [Block(("x",), one), Block(("x", "y"), pair), Block(("y",), randomised_response(3, 1.0))]
    law = shown_law(Mechanism([], book, split=Split.of([0.25, 0.5, 0.25], blocks)), "x")
    assert law is not None
    stay = pair.array[0, 0] + 2 * pair.array[0, 1]  # the other variable is another value, or the same
    wanted = [[0.25 * p for p in one.array[0]] + [0.5 * stay, 0.5 * (1 - stay), 0.25]]
    np.testing.assert_allclose(law[:1], wanted)
    np.testing.assert_allclose(law.sum(axis=1), 1)
    right = sum(max(law[0, s] * law[0, t], law[1, s] * law[1, t]) / 2 for s, t in itertools.product(range(5), repeat=2))
    codes = np.repeat(np.arange(40_000) % 2, 2)
    found = shared_value("x", np.repeat(np.arange(40_000), 2), codes, law, np.random.default_rng(4), is_partly=True)
    assert fits(found.majority, right, 40_000)
    assert not fits(found.majority, found.single, 40_000)


def test_ties_of_a_household_are_broken_at_random_and_single_persons_do_not_count():
    rng = np.random.default_rng(2)
    law = np.array([[0.5, 0.5], [0.5, 0.5]])
    house = np.concatenate([np.repeat(np.arange(20_000), 2), np.arange(20_000, 20_500)])
    codes = np.concatenate([np.repeat(np.arange(20_000) % 2, 2), np.zeros(500, dtype=np.int64)])
    found = shared_value("x", house, codes, law, rng)
    assert fits(found.majority, 0.5, 20_000)
    codes[::40] = 1 - codes[::40]
    assert shared_value("x", house, codes, law, rng).constant == pytest.approx(19_000 / 20_000, abs=0.002)


@NOTED
def test_a_household_variable_is_a_finding(tmp_path):
    started(tmp_path, *ROLES)
    found = pr.findings(decide(tmp_path, '["income", "remark"]'))
    (one,) = [f for f in found.found if f.code == "household"]
    assert one.about == ("tenure",)
    assert set(one.figures) == {"constant", "majority", "single", "blind"}
    assert one.figures["majority"] > one.figures["single"]
    assert "the best guess without the release in about" in one.sentence
    assert "without the release in about" in one.brief
    assert "the most common released value of the members is the true value in about" in one.sentence


@NOTED
def test_a_household_variable_of_a_split_is_a_finding_too(tmp_path):
    table = pa.table({"house": [str(i // 3) for i in range(900)], "tenure": ["ab"[i // 3 % 2] for i in range(900)]})
    table = table.append_column("sex", [["FM"[i % 2] for i in range(900)]])
    pq.write_table(table, tmp_path / "homes.parquet")
    roles = ("--keys", "tenure,sex", "--household", "house", "--perturb", "split", "--out", tmp_path)
    assert call("init", tmp_path / "homes.parquet", *roles).exit_code == 0
    (one,) = [f for f in pr.findings(pr.load_plan(tmp_path / "plan.toml")).found if f.code == "household"]
    assert one.about == ("tenure",)
    assert one.figures["majority"] > one.figures["single"] > 0.5
    assert "the best guess from what all members show of it is right in about" in one.sentence
    assert "[unit] household_variables" in one.sentence


DECISIONS = {
    "as_is": 'as_is = ["income"]',
    "law": '[[numerical]]\nvariables = ["income"]\nmethod = { model = "rank-blocks", k = 100 }\n',
    "drop": 'role = "drop"',
}


@NOTED
@pytest.mark.parametrize("way", ["as_is", "law", "drop"])
def test_an_exact_amount_asks_for_a_decision_and_each_way_works_after_it(tmp_path, way):
    rng, n = np.random.default_rng(8), 2000
    table = {"sex": rng.choice(["F", "M"], n), "region": rng.choice(list("nesw"), n), "age": rng.integers(18, 80, n)}
    pq.write_table(pa.table(table | {"income": rng.lognormal(10, 1, n)}), tmp_path / "survey.parquet")
    said = call(
        "init", tmp_path / "survey.parquet", "--keys", "sex,region,age", "--sensitive", "income", "--out", tmp_path
    )
    assert "Next: decide on income: released unperturbed, it singles out more than" in said.output
    plan, out = tmp_path / "plan.toml", tmp_path / "release"
    assert call("protect", "--plan", plan, "--out", out).exit_code == 3
    book, text = tmp_path / "codebook.toml", plan.read_text("utf-8")
    if way == "as_is":
        plan.write_text(text.replace("as_is = []", DECISIONS[way]), "utf-8")
    elif way == "law":
        plan.write_text(f"{text}\n{DECISIONS[way]}", "utf-8")
    else:
        book.write_text(book.read_text("utf-8").replace('role = "sensitive"', DECISIONS[way]), "utf-8")
    done = call("protect", "--plan", plan, "--out", out)
    assert done.exit_code == 0, done.output
    assert call("verify", out).exit_code == 0


def test_what_is_not_of_unperturbed_columns_has_another_heading():
    clear = Finding("tells", ("dummy",), ("sex",), "dummy tells sex")
    house = Finding("household", (), ("region",), "members share region")
    lines = unperturbed_lines(Findings((house, clear), not_tried=("many pairs",)))
    assert lines == [
        *("", "Released unperturbed, with no protection of their own:", "- dummy tells sex"),
        *("", "Other findings:", "- members share region", "- many pairs"),
    ]
    assert unperturbed_lines(Findings()) == []


def test_all_unperturbed_columns_are_told_together_where_they_single_out_more_than_pairs():
    rows = [tuple(map(str, row)) for row in np.random.default_rng(5).integers(0, (40, 40, 9), (1500, 3))]
    table = pa.table({name: [row[j] for row in rows] for j, name in enumerate("xyz")})
    found = singling(TableSource(table), table.column_names)
    (one,) = found.warnings
    assert f"together: all unperturbed columns (x, y and z) (about {100 * alone(rows):.0f}% of the records); x" in one
    pair = alone([row[:2] for row in rows])
    assert f"x and y (about {100 * pair:.0f}% of the records)" in one, one


def test_columns_that_single_out_together_say_that_risk_figures_leave_them_out():
    assert _together(["a", "b"], 0.02, {}, ()).sentence.endswith(f"of the records together; {KEYS_ALONE}")


def test_a_constant_column_tells_no_more_than_the_most_common_value():
    found = told_by(np.array([[70], [30]]), "sex", "weight")
    assert (found.right, found.blind) == (0.7, 0.7)
    assert (found.guessed, found.settled, found.same) == (0.0, 0.0, 0.0)
    assert told_by(np.array([[100, 50]])).right == 1.0
    assert told_by(np.zeros((2, 2))).blind == 1.0


def test_columns_that_single_out_too_few_for_a_finding_are_said_with_their_share_inside() -> None:
    found = Findings(singled=(Singled("affairs", 0.00157), Singled("sex", 0.0), Singled("pay", 0.5)))
    said = (
        "Records that unperturbed columns single out, each column by itself: fewer than 1% by affairs{}, none by sex."
    )
    assert found.sentences == (said.format(""),)
    assert found.inside == (said.format(" (0.16%)"),)
    assert found.headed == (("Released unperturbed, with no protection of their own", said.format("")),)
    assert Findings().sentences == ()
    assert Findings(singled=(Singled("sex", 0.0),)).sentences == ("By itself, sex singles out no record.",)
    both = Findings(singled=(Singled("sex", 0.0), Singled("area", 0.0)))
    said = "Looked at one by one, these columns single out no record: sex and area; together they "
    assert both.sentences == (f"{said}were not looked at.",)
    assert replace(both, every=Every(0.0)).sentences == (f"{said}single out no record.",)
    more = replace(both, singled=(*both.singled, Singled("w", 0.99)), every=Every(0.995))
    assert more.sentences[0].endswith("sex and area; together with w they single out more than 99% of the records.")
    some = replace(both, every=Every(0.02, 100_000))
    assert some.sentences == (f"{said}single out about 2% of the records in a sample of 100,000 records.",)


@pytest.mark.parametrize("seed", [1, 2])
def test_households_that_their_size_and_columns_single_out_are_counted_as_by_comparing_all_of_them(seed):
    rng = np.random.default_rng(seed)
    house, a, b = rng.integers(0, 40, 120), rng.integers(0, 2, 120), rng.integers(0, 3, 120)
    house = np.unique(house, return_inverse=True)[1]
    found = compared("hh", house, {"a": (a, 2), "b": (b, 3)})

    def share(*columns):
        seen = [
            tuple(sorted(zip(*(c[house == h] for c in (house * 0, *columns)), strict=True)))
            for h in range(house.max() + 1)
        ]
        return sum(len(one) for one in seen if seen.count(one) == 1) / house.size

    assert (found.alone, found.share, found.every) == pytest.approx((share(), share(a, b), share(a, b)))
    assert found.columns == ("a", "b")
    assert share() < share(a) < share(a, b)


def test_what_households_show_with_all_columns_counts_those_that_single_out_alone_too():
    """A number that nobody shares makes every household a single one: no share with all columns is below that."""
    rng = np.random.default_rng(4)
    n = 300
    house = np.sort(rng.integers(0, 120, n))
    table = pa.table({"hh": house, "side": pa.array(rng.choice(["a", "b"], n)), "weight": rng.permutation(n) + 0.5})
    book = Codebook((Variable("hh", "household", type="int64"), Variable("side", "key", ("a", "b"))))
    law = Mechanism({"side": randomised_response(2, 1.0)}, book)
    whole = Codebook((*book.variables, Variable("weight", "weight", type="double")))
    found = find(TableSource(table), whole, law, ["hh", "side", "weight"], exempt=["hh"])
    assert found.sizes.every == 1.0
    assert found.sizes.columns == ()  # it is not combined with others


def test_a_category_for_missing_values_that_no_record_has_or_that_codes_mean_already_is_told():
    book = Codebook((Variable("edu", categories=("1", "-9"), missing="category", missing_codes=("-9",), role="key"),))
    table = pa.table({"edu": ["1", "-9", "1"]})
    gone = pa.table({"edu": pa.nulls(2, pa.string())})
    assert "no record has a value" in missing_kinds(book, ["edu"], sampled(TableSource(gone), ["edu"], []))["edu"]
    told = missing_kinds(book, ["edu"], sampled(TableSource(table), ["edu"], []))
    assert "no record of the file has" in told["edu"]
    assert "-9 and (missing) are 2 categories that mean no answer" in told["edu"]
    assert (
        "no record"
        not in missing_kinds(book, ["edu"], sampled(TableSource(pa.table({"edu": ["1", None]})), ["edu"], []))["edu"]
    )


def test_what_sizes_of_households_single_out_is_said_of_the_records_in_them():
    sizes = HouseholdSizes("hh", alone=0.0, columns=("roof", "pay"), share=0.81, every=0.998, rest=0.9)
    (told,) = _sized(sizes)
    assert "fewer than 1% of the records are in a household that its size alone singles out" in told.sentence
    assert "about 81% in one that its size and the unperturbed values of roof and pay in its members" in told.sentence
    assert "with all unperturbed columns it is more than 99% of the records" in told.sentence
    assert told.brief.startswith("more than 99% of the records are in a household that all unperturbed columns")


def test_the_one_value_that_gives_away_another_is_named_and_no_value_of_few_records():
    """Children have no job: a missing one says the age; 19 rare ones say it too, and are not named."""
    rng = np.random.default_rng(5)
    age = np.r_[np.repeat("child", 300), rng.choice(["young", "old"], 700)]
    job = np.r_[np.full(300, None), rng.choice(["a", "b"], 700)].astype(object)
    rare = np.where(np.arange(1000) < 19, "z", rng.choice(["x", "y"], 1000)).astype(object)
    sample = sampled(TableSource(pa.table({"age": age, "job": job, "rare": rare})), ("age", "job", "rare"), ())
    pairs, *_ = told_pairs(sample, ("age", "job", "rare"), ("age",), ("job", "rare"))
    by = {pair.clear: pair for pair in pairs}
    assert "where job is missing, age is child" in by["job"].in_words
    assert by["rare"].settled > 0
    assert by["rare"].where == ""
    plain, *_ = told_pairs(sample, ("rare",), ("age",), ("job",))  # values of what is no category are not named
    assert plain[0].where == ""


def test_what_a_column_tells_of_several_variables_is_one_finding_in_brief():
    shares = {"sex": 0.5, "area": 0.9, "age": 0.6}
    pairs = [PairReveal(name, "number", share, share, 0.5, share, 0.2) for name, share in shares.items()]
    found = Findings(tuple(telling(pairs, (), ())))
    (brief,) = found.brief
    assert brief.startswith("number, not perturbed, gives away true values of area")
    assert brief.endswith("; also of 2 others: age, sex")


def test_values_that_half_of_all_records_have_are_told_where_a_column_rules_them_out():
    """Of ages in four bands, weight 30 occurs with the two youngest alone: 9% of the persons, whatever epsilon is."""
    counts = np.array([[270, 1000], [180, 700], [0, 600], [0, 700]])
    found = told_by(counts, "age", "weight")
    n = counts.sum()
    assert counts.sum(axis=1)[2:].sum() < n / 2
    assert found.ruled == 0
    found = told_by(counts + np.array([[0, 0], [0, 0], [0, 600], [0, 700]]), "age", "weight")
    assert found.ruled == pytest.approx(450 / (n + 1300))
    assert found.is_much
    assert not found.says_values
    assert "for about 9 of 100 records weight rules out values that half of all records or more have" in found.in_words
    few = told_by(np.array([[2, 1000], [1, 700], [0, 1200], [0, 1400]]), "age", "weight")  # by chance
    assert few.ruled == 0


def test_the_page_to_sign_does_not_give_what_a_pair_settles_as_what_one_column_does():
    """A pair that adds little has figures of its own; the sentence on one column has those of the column."""
    one = {"erwerb: right": 0.5, "erwerb: blind": 0.34, "erwerb: settled": 0.0, "erwerb: ranges": 0.0}
    more = {name.replace("erwerb", "erwerb, umzug"): value for name, value in one.items()} | {
        "erwerb, umzug: settled": 0.22
    }
    found = Finding("tells", ("erwerb",), ("alter",), "", {**one, **more})
    assert found.brief == (
        "erwerb, not perturbed, gives away true values of alter: of 100 guesses about 50 are right, "
        "without the release about 34; no epsilon prevents this"
    )
    both = Finding("tells", ("erwerb", "umzug"), ("alter",), "", more)
    assert both.brief.endswith(
        "for about 22 of 100 records one value is far likelier (at least 80%); no epsilon prevents this"
    )
