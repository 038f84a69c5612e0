"""What a plan says that analysts will do: read with the plan, tried by explain and for the page to sign."""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from click.testing import CliRunner, Result

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.errors import SpecificationError
from postrand.plan import load_plan
from postrand.plan.analyses import Model, analyses_of
from postrand.recoding.recode import Recode
from postrand.workflow.advice_refusals import unanswerable
from postrand.workflow.model_families import family_of

BOOK = Codebook((Variable("pay", "other", type="double"), Variable("sex", "key", ("F", "M"))))
USES = ["mean pay by sex", "table sex x area"]


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng, many = tmp_path_factory.mktemp("analyses"), np.random.default_rng(20), 600
    rows = {
        "sex": rng.choice(["F", "M"], many),
        "area": rng.choice(["n", "e", "s", "w"], many),
        "pay": 1000 + 100 * rng.integers(0, 12, many),
    }
    pc.write_csv(pa.table(rows), folder / "in.csv")
    uses = [word for use in USES for word in ("--use", use)]
    words = ("--keys", "sex,area", "--other", "pay", *uses, "--out", folder / "work")
    done = call("init", folder / "in.csv", *words)
    assert done.exit_code == 0, done.output
    return folder


def test_what_is_named_is_read_once_in_its_order() -> None:
    texts = ["means of pay by sex", "pay ~ C(sex)", "mean pay by sex"]
    assert analyses_of({"uses": texts}, BOOK, "[analysts]") == (Model(("pay", "sex"), "mean"), Model(("pay", "sex")))
    assert analyses_of(None, BOOK, "[analysts]") == ()


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"uses": "mean pay by sex"}, ["'uses' is not a list of texts"]),
        ({"use": ["mean pay by sex"]}, ["'uses' is not a list of texts"]),
        ([], ["'uses' is not a list of texts"]),
        ({"uses": ["tables"]}, ["this names no analysis; got 'tables'"]),
        ({"uses": ["pay ~ log(sex)"]}, ["a model is not of the form that is wanted"]),
        ({"uses": ["mean pay by sx"]}, ["a mean has sx, which the codebook does not have (did you mean 'sex'?)"]),
        ({"uses": ["mean pay by sx", "all"], "many": 1}, ["unknown option 'many'", "got 'all'", "a mean has sx"]),
    ],
)
def test_all_problems_of_the_section_are_told_at_once(section: object, words: list[str]) -> None:
    with pytest.raises(SpecificationError) as told:
        analyses_of(section, BOOK, "plan.toml [analysts]")
    assert len(told.value.problems) == len(words)
    for problem, word in zip(told.value.problems, words, strict=True):
        assert problem.startswith("plan.toml [analysts]")
        assert word in problem


def test_a_regression_can_name_its_family() -> None:
    """A yes or no of numbers is fitted as a logistic regression unless a linear one is named; texts have no numbers."""
    ill, sex = Variable("ill", "key", (0, 1), type="int64"), BOOK["sex"]
    book = Codebook((ill, sex))
    plain, named, wrong = analyses_of(
        {"uses": ["model ill ~ sex", "linear model ill ~ sex", "poisson models sex ~ ill"]}, book, "[analysts]"
    )
    assert [family_of(book, one) for one in (plain, named, wrong)] == ["logistic", "linear", None]
    assert [str(one) for one in (plain, named)] == ["model ill ~ sex", "linear model ill ~ sex"]
    assert not [*unanswerable(book, plain), *unanswerable(book, named)]
    ((why, fix),) = unanswerable(book, wrong)
    assert why == "sex cannot be the response of a poisson regression"
    assert fix == "name a logistic one, or leave the family out"


def test_init_and_advise_write_what_is_named_into_their_plans(survey: Path) -> None:
    work = survey / "work"
    plans = [work / "plan.toml", *(work / "advice").glob("plan-*.toml")]
    assert len(plans) > 2
    for path in plans:
        assert tomllib.loads(path.read_text(encoding="utf-8"))["analysts"]["uses"] == USES
        assert [str(one) for one in load_plan(path).analyses] == USES


def test_the_dossier_of_a_release_says_what_explain_says_before_it(survey: Path, tmp_path: Path) -> None:
    plan, page = survey / "work" / "plan.toml", tmp_path / "before.html"
    told = call("explain", plan, "--decision", page)
    assert told.exit_code == 0, told.output
    said = re.findall(r"^- ((?:mean pay|table sex).*: (?:NOT )?met.*)$", told.output, re.MULTILINE)
    assert len(said) == len(USES)
    done = call("protect", "--plan", plan, "--out", tmp_path / "release", "--dossier", tmp_path / "dossier")
    assert done.exit_code == 0, done.output
    pages = {
        name: (tmp_path / "dossier" / name).read_text(encoding="utf-8") for name in ("decision.html", "dossier.html")
    }
    for line in said:
        assert line in html.unescape(pages["dossier.html"])
        short = line.partition(" (")[0]
        for text in (page.read_text(encoding="utf-8"), pages["decision.html"]):
            assert short[1:] in html.unescape(text)
    data = json.loads((tmp_path / "dossier" / "dossier.json").read_text(encoding="utf-8"))
    assert "analysts" not in json.dumps(data["claims"])


def test_compare_tries_what_one_of_the_plans_names_on_all(survey: Path, tmp_path: Path) -> None:
    plan = (survey / "work" / "plan.toml").read_text("utf-8")
    (survey / "work" / "other.toml").write_text(
        plan.replace('"mean pay by sex", ', "").replace('"mean pay by sex",', "")
    )
    places = [survey / "work" / name for name in ("plan.toml", "other.toml")]
    assert [[str(one) for one in load_plan(place).analyses] for place in places] == [USES, USES[1:]]
    done = call("compare", *places)
    assert done.exit_code == 0, done.output
    told = done.stdout.partition("What analysts name, in simulated releases\n")[2].partition("Settings that differ")[0]
    lines = told.splitlines()
    assert [lines[0], lines[3]] == ["plan.toml", "other.toml"]
    of_kind = [USES[1], USES[0]]  # tables stand first
    assert all(line.startswith(f"- {use}: ") for line, use in zip(lines[1:3] + lines[4:6], of_kind * 2, strict=True))
    assert lines[6].startswith("Met, of what is asked by name: ")
    data = json.loads(call("compare", *places, "--json").stdout)
    assert [len(one["named"]) for one in data["plans"]] == [3, 3]


def test_what_the_plan_does_not_release_is_not_met_and_stops_no_release(survey: Path, tmp_path: Path) -> None:
    """Who drops a column later learns what analysts lose by it, and decides."""
    work = tmp_path / "work"
    work.mkdir()
    book = (survey / "work" / "codebook.toml").read_text(encoding="utf-8")
    before, mark, rest = book.partition('name = "pay"')
    (work / "codebook.toml").write_text(before + mark + rest.replace('role = "other"', 'role = "drop"', 1))
    plan = (survey / "work" / "plan.toml").read_text(encoding="utf-8")
    (work / "plan.toml").write_text(re.sub("(?m)^file = .*", f"file = {str(survey / 'in.csv')!r}", plan, count=1))
    told = call("explain", work / "plan.toml")
    assert told.exit_code == 0, told.output
    assert "- mean pay by sex: NOT met (pay is not released)." in told.output
    refused = call("explain", work / "plan.toml", "--use", "mean pay by area")  # asked now: the answer is a refusal
    assert refused.exit_code == 2
    out = ("--out", tmp_path / "release", "--dossier", tmp_path / "dossier")
    done = call("protect", "--plan", work / "plan.toml", *out)
    assert done.exit_code == 0, done.output


def test_a_name_before_recoding_is_answered_with_that_after_it() -> None:
    recode = Recode.from_dict({"variable": "sex", "from": "gender", "groups": {"F": ["f"], "M": ["m"]}})
    book = Codebook(BOOK.variables, recodes=(recode,))
    with pytest.raises(SpecificationError, match=r"recodes into sex.* name sex in its place"):
        analyses_of({"uses": ["table gender x pay"]}, book, "[analysts]")
