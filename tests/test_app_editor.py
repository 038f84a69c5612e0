"""The editor of variables: labels, order, no answer, and recodes that write what the command line writes."""

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from postrand.app import computations, data_views, documents, editor_views, opening, plans, recode_form, recoding, views
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.errors import PostrandError
from postrand.plan.infer import load_codebook
from postrand.workflow import recode_trial

N = 500
FORMS = {
    "groups": ("area", {"group.0": "east and north", "group.1": "east and north", "group.2": "south"}),
    "bands": ("age", {"bands": "0, 18; 65", "no_answer": "999"}),
    "limits": ("age", {"top": "85"}),
    "rounding": ("age", {"rounding": "10"}),
    "merge_rare": ("area", {"merge_rare": "60", "others": "elsewhere"}),
    "dates": ("born", {"bands": "1950, 1970", "below": "earlier", "format": "%d.%m.%Y"}),
    "hierarchy": ("area", {"rows": "e;right\nn;up\ns;down\nw;left", "level": "1"}),
}


@pytest.fixture(scope="module", params=["parquet", "csv"])
def decisions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    rng = np.random.default_rng(5)
    days = rng.integers(1, 29, N)
    columns = pa.table(
        {
            "sex": rng.choice([1, 2], N),
            "area": rng.choice(["n", "e", "s", "w"], N, p=[0.4, 0.3, 0.2, 0.1]),
            "age": rng.choice([*range(5, 95, 3), 999], N),
            "born": [f"{day:02}.11.{year}" for year, day in zip(rng.choice([1931, 1955, 1999], N), days, strict=True)],
        }
    )
    path = tmp_path_factory.mktemp("editor") / f"survey.{request.param}"
    (pq.write_table if request.param == "parquet" else pa.csv.write_csv)(columns, path)
    return open_decisions(opening.open_file(path), dict.fromkeys(columns.column_names, "key"))


def with_form(decisions: Decisions, kind: str) -> tuple[Decisions, int]:
    name, texts = FORMS[kind]
    at = decisions.names.index(name)
    found = act(decisions, "edit", value=str(at))
    for key, text in {"kind": kind, **texts}.items():
        found = act(found, "typed", f"{recoding.PREFIX}{key}", text)
    return found, at


@pytest.mark.parametrize("kind", FORMS)
def test_a_recode_is_the_one_of_the_command_line(kind: str, decisions: Decisions, tmp_path: Path) -> None:
    typed, at = with_form(decisions, kind)
    used = recoding.used(typed, at)
    book = documents.codebook_of(used)
    assert "postrand recode codebook.toml" in documents.commands(used, "data")
    (tmp_path / "codebook.toml").write_text(documents.codebook_toml(used))
    assert load_codebook(tmp_path / "codebook.toml") == book
    place = decisions.opened.path  # the command line writes its results into the codebook of the plain file
    entry = recoding.entry_for(typed, at, recoding.column_of(typed, at))
    plain = dataclasses.replace(decisions, kept={"recodes": [entry]})
    (tmp_path / "by-command.toml").write_text(documents.codebook_toml(plain))
    made = recode_trial.tried(tmp_path / "by-command.toml", place)[1]
    recode_trial.write(tmp_path / "by-command.toml", place, made)
    assert load_codebook(tmp_path / "by-command.toml") == book
    again = plans.open_plan(documents.write(used, tmp_path), tmp_path)
    assert documents.codebook_of(again) == book
    assert str(editor_views.editor(act(again, "edit", value=str(at)), recoding.column_of(again, at)))


def test_what_a_recode_changes_is_shown(decisions: Decisions) -> None:
    typed, at = with_form(decisions, "groups")
    found = recoding.effect(typed, at)
    keys = [computations.assess(one, with_model=False) for one in (decisions, recoding.used(typed, at))]
    assert found.uniques == tuple(one.sample_uniques for one in keys if one is not None)
    before, after = found.uniques or (None, 0)
    assert before is not None
    assert after < before
    assert (len(found.trial.before), len(found.trial.after)) == (4, 3)
    page = str(editor_views.effect_view(found, waiting=False))
    assert "4 → 3" in page
    assert f"{found.uniques[0]:,} → {found.uniques[1]:,}" in page


def test_a_key_without_categories_is_named_until_a_recode_makes_them(decisions: Decisions) -> None:
    typed, at = with_form(decisions, "dates")
    found, after = recoding.effect(typed, at), recoding.used(typed, at)
    assert found.uniques == (None, computations.assess(after, with_model=False).sample_uniques)
    assert "counted only after it →" in str(editor_views.effect_view(found, waiting=False))
    assert "The risk leaves out born: released without categories" in str(views.risk_form(decisions))
    assert "leaves out" not in str(views.risk_form(after))
    assert data_views.UNCOUNTED in str(data_views.variables(decisions))


def test_a_recode_is_taken_back(decisions: Decisions) -> None:
    typed, at = with_form(decisions, "bands")
    used = recoding.used(typed, at)
    assert list(used.opened.drafts[at]["categories"]) == ["0-17", "18-64", "65+"]
    plain = recoding.used(act(used, "typed", f"{recoding.PREFIX}kind", ""), at)
    assert plain.kept["recodes"] == []
    assert documents.codebook_of(plain) == documents.codebook_of(decisions)


@pytest.mark.parametrize(
    ("kind", "key", "text", "words"),
    [
        ("bands", "bands", "0, x", "cannot be read"),
        ("bands", "bands", "20, 10", "not ascending"),
        ("limits", "top", "", "no number is given"),
        ("hierarchy", "level", "3", "do not have this level"),
        ("hierarchy", "rows", "e;x\nn;y", "no place"),
    ],
)
def test_a_recode_that_does_not_fit_is_refused(
    kind: str, key: str, text: str, words: str, decisions: Decisions
) -> None:
    typed, at = with_form(decisions, kind)
    with pytest.raises(PostrandError, match=words):
        recoding.used(act(typed, "typed", f"{recoding.PREFIX}{key}", text), at)


def test_a_recode_that_a_rule_contradicts_is_refused(decisions: Decisions) -> None:
    sex, age = (decisions.opened.drafts[j]["categories"][0] for j in (0, 2))
    typed, at = with_form(dataclasses.replace(decisions, kept={"rules": [{"area": "w", "sex": sex}]}), "groups")
    assert list(recoding.rules_on(typed, "area")) == ["area is w and sex is 1"]
    assert recoding.used(typed, at).kept["rules"]
    ruled = dataclasses.replace(decisions, kept={"rules": [{"area": "w", "age": age}]})
    with pytest.raises(PostrandError, match="rule"):
        recoding.used(*with_form(ruled, "bands"))


def test_entries_are_edited_as_a_codebook_has_them(decisions: Decisions, tmp_path: Path) -> None:
    found = decisions
    for key, value in (("0:text:0", "Man"), ("0:text:1", "Woman"), ("0:up:1", ""), ("0:label", " Sex of  the person")):
        found = act(found, "entry", key, value)
    for key, value in (("1:ordered", "true"), ("1:missing", "category"), ("2:none:30", "true")):
        found = act(found, "entry", key, value)
    assert found.problem == ""
    book = tomllib.loads(documents.codebook_toml(found))["variables"]
    assert [str(one) for one in book[0]["categories"]] == ["2", "1"]
    assert book[0]["labels"] == ["Woman", "Man"]
    assert book[0]["label"] == "Sex of the person"
    assert book[1]["ordered"] is True
    assert book[1]["missing"] == "category"
    assert [str(one) for one in book[2]["missing_codes"]] == ["999"]
    for key, value in (("0:text:9", "x"), ("0:role", "drop"), ("9:label", "x"), ("0:missing", "perhaps")):
        refused = act(found, "entry", key, value)
        assert refused.problem
        assert refused.opened is found.opened


def test_texts_of_a_form_are_read_as_people_write_them() -> None:
    limits = recode_form.entry_of("age", "limits", {"top": "85", "bottom": "1.5"}, ())
    assert limits is not None
    assert limits["bottom"] == 1.5
    assert recode_form.kind_of({"variable": "born", "bands": ["1960-01"], "unit": "month"}) == "other"
    with pytest.raises(PostrandError, match="two rows: a"):
        recode_form.entry_of("x", "hierarchy", {"rows": "a;b\na;c"}, ())


def test_one_category_is_no_variable(decisions: Decisions) -> None:
    typed, at = with_form(decisions, "groups")
    for k in range(4):
        typed = act(typed, "typed", f"{recoding.PREFIX}group.{k}", "all")
    with pytest.raises(PostrandError, match="only one category of 'area' would be left"):
        recoding.used(typed, at)
