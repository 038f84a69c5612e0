"""The recommender in the workbench: what it asks, its plans side by side, and the one that is taken."""

import dataclasses
import html
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand.app import advice_views, advising, documents, opening
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.errors import UsageError
from postrand.plan import load_plan
from postrand.workflow.advice_needs import Precision
from postrand.workflow.advice_text import at_a_glance
from tests.test_app_plans import said

N = 300


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    rng = np.random.default_rng(3)
    columns = {
        "sex": rng.choice(["F", "M"], N),
        "area": rng.choice(["n", "e", "s", "w"], N),
        "age": rng.integers(18, 30, N),
    }
    path = tmp_path_factory.mktemp("advice") / "survey.parquet"
    pq.write_table(pa.table(columns), path)
    return open_decisions(opening.open_file(path), dict.fromkeys(columns, "key"))


def test_a_recommended_plan_becomes_the_decisions(decisions: Decisions, tmp_path: Path) -> None:
    asked = decisions
    for key, text in {"epsilon": "3", "correct_matches": "50", "points": "9", "first": "sex", "second": "area"}.items():
        asked = act(asked, "typed", f"{advising.PREFIX}{key}", text)
    found = advising.advised(asked, tmp_path)
    assert 2 <= len(found.plans) <= 4
    assert [str(one) for one in found.needs.limits] == ["epsilon <= 3", "correct_matches <= 50"]
    assert found.needs.precisions == (Precision(9.0, ("sex", "area")),)
    page = html.unescape(str(advice_views.advice(found, waiting=False)))
    for line in found.text().splitlines():
        head, _, rest = line.strip().partition(": ")
        if head in ("Claim", "Risk", "Worth", "Asked"):
            assert rest.replace("epsilon", "ε") in page
    poor = [text for line in at_a_glance(found.plans) for text in line.split("; ") if "of little use" in text]
    assert poor
    assert all(f">{text}</td>" in page for text in poor)
    assert page.count('data-act="take"') == len(found.plans)
    for number, plan in enumerate(found.plans, 1):
        taken = advising.taken(asked, found, number, tmp_path)
        written = tmp_path / str(number)
        written.mkdir()
        assert said(load_plan(documents.write(taken, written))) == said(load_plan(plan.path))
        assert taken.texts == asked.texts
    with pytest.raises(UsageError, match="no such plan"):
        advising.taken(asked, found, 9, tmp_path)
    assert [str(tmp_path / one.name) for one in tmp_path.glob(".advice-*")] == [str(found.plans[0].path.parent)]


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("epsilon", "much", "a limit"),
        ("points", "70", "percentage points"),
        ("individual_risk", "1", "a limit that every file keeps"),
        ("attacker", "nobody", "unknown attacker"),
    ],
)
def test_what_cannot_be_asked_is_refused(key: str, text: str, words: str, decisions: Decisions, tmp_path: Path) -> None:
    asked = act(act(decisions, "typed", "advice.first", "sex"), "typed", f"advice.{key}", text)
    with pytest.raises(UsageError, match=words):
        advising.advised(asked, tmp_path)
    assert not list(tmp_path.iterdir())
    assert "Recommend plans" in str(advice_views.form(asked))


def test_what_the_opened_plan_says_of_analysts_is_asked_of_its_recommendations(
    decisions: Decisions, tmp_path: Path
) -> None:
    named = ["table sex x area", "mean sex"]  # sex has no numbers: no plan answers the second
    asked = dataclasses.replace(decisions, kept={"analysts": {"uses": named}})
    found = advising.advised(asked, tmp_path)
    assert all([str(one) for one in plan.trial.plan.analyses] == named[:1] for plan in found.plans)
    assert advising.taken(asked, found, 1, tmp_path).kept["analysts"] == {"uses": named[:1]}


def test_what_is_perturbed_besides_the_keys_stays_perturbed(decisions: Decisions, tmp_path: Path) -> None:
    asked = act(act(decisions, "role", "1", "sensitive"), "role", "2", "sensitive")
    assert "too, as you decided" not in str(advice_views.form(asked))
    asked = act(asked, "perturb", "1", "true")
    assert "Recommended plans perturb area too, as you decided." in str(advice_views.form(asked))
    found = advising.advised(asked, tmp_path)
    assert all({*plan.trial.plan.perturbed} == {"sex", "area"} for plan in found.plans)


def test_roles_come_first(decisions: Decisions, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no role"):
        advising.advised(act(decisions, "role", "1", ""), tmp_path)
