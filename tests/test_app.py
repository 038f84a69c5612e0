"""The workbench without a browser: forms, decisions, documents, studies and views are plain functions."""

import dataclasses
import itertools
import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import release
from postrand.app import (
    charts,
    comparison_views,
    computations,
    data_views,
    documents,
    finished,
    forms,
    opening,
    release_views,
    risk_views,
    views,
)
from postrand.app.computations import cell_variance
from postrand.app.decisions import _ACTIONS, Decisions, Opened, act, open_decisions
from postrand.app.watch import Cancelled, Watch
from postrand.errors import PostrandError, SpecificationError
from postrand.plan import load_plan
from postrand.support.progress import Stage, Step

EVIL = '<img src=x onerror="alert(1)">&\'"'
ROLES = {"sex": "key", "area": "key", "job": "sensitive", "weight": "weight"}


def table(n: int = 900) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], n),
            "area": rng.choice(["n", "e", "s", "w"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "job": [["yes", "no", None][k] for k in rng.integers(0, 3, n)],
            "weight": rng.uniform(2, 9, n),
        }
    )


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    path = tmp_path_factory.mktemp("app") / "survey.parquet"
    pq.write_table(table(), path)
    return dataclasses.replace(open_decisions(opening.open_file(path), ROLES), as_is=("weight",))


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "name"), [(f, n) for f in forms.registered() for n in forms.names(f)])
def test_every_member_of_every_family_has_a_form(family: str, name: str) -> None:
    kind = forms.member(family, name)
    assert len(forms.explain(kind)) > 20
    assert "``" not in forms.explain(kind)
    for field in forms.fields_of(kind):
        if field.kind in ("number", "whole", "choice"):
            assert field.initial or field.optional
    if family == "privacy":
        level = forms.level_of(kind)
        assert level is not None
        assert all(a < b for a, b in itertools.pairwise(level.grid))


def test_only_what_needs_a_list_is_left_to_the_plan() -> None:
    left = {k.name for f in forms.registered() for k in forms.registered()[f] if k not in forms.offered(f)}
    not_divided = {"approximate", "renyi", "concentrated", "shuffled"}  # among variables, which the workbench does
    assert left == {"metric", "recognition", "whole-record"} | not_divided


def test_forms_are_read_as_what_they_mean() -> None:
    assert forms.make("privacy", "differential", {"epsilon": " 0.5 "}).epsilon == 0.5
    assert forms.make("structure", "circulant", {"block": "[1, 3]"}).block == (1, 3)
    with pytest.raises(SpecificationError, match=r"privacy: 'epsilon' cannot be read; got 'much'; wanted a number"):
        forms.make("privacy", "differential", {"epsilon": "much"})
    with pytest.raises(SpecificationError, match="'epsilon' cannot be read; got an empty box; wanted a number"):
        forms.make("privacy", "differential", {"epsilon": ""})
    with pytest.raises(PostrandError, match=r"wanted a number above 0; usual are 0\.5 to 4 for one variable"):
        forms.make("privacy", "differential", {"epsilon": "0"})


def test_structures_that_do_not_suit_are_known_beforehand() -> None:
    reasons = forms.unsuited(forms.make("privacy", "differential", {}), forms.make("objective", "information", {}))
    assert set(reasons) == set(forms.names("structure"))
    assert reasons["uniform-off-diagonal"] == ""
    assert "no algorithm" in reasons["bistochastic"]


# -- decisions --------------------------------------------------------------------------------------------------------


def test_keys_with_categories_are_perturbed_unless_asked_otherwise(decisions: Decisions) -> None:
    assert [decisions.names[j] for j in decisions.perturbed] == ["sex", "area"]
    more = act(decisions, "perturb", "2", "true")
    assert [more.names[j] for j in more.perturbed] == ["sex", "area", "job"]
    assert act(more, "role", "2", "drop").perturbed == decisions.perturbed
    assert not act(decisions, "perturb", "3", "true").is_perturbed(3)  # a weight has no categories


def test_a_model_brings_a_structure_that_suits_it(decisions: Decisions) -> None:
    changed = act(decisions, "model", value="bistochastic")
    assert forms.unsuited(changed.make("privacy"), changed.make("objective"))[changed.structure] == ""


@pytest.mark.parametrize(
    ("action", "key", "value", "words"),
    [
        ("role", "99", "key", "no such column"),
        ("role", "x", "key", "no such column"),
        ("role", "²", "key", "no such column"),
        ("role", "9" * 5000, "key", "no such column"),
        ("role", "0", "king", "not a role"),
        ("role", "0", "weight", "only one variable"),
        ("fraction", "", "0", "percentage"),
        ("fraction", "", "nan", "percentage"),
        ("model", "", EVIL, "not a choice"),
        ("rest", "", "weight", "cannot be the role of all"),
        ("format", "", "exe", "not a choice"),
        ("launch", "", "", "unknown action"),
    ],
)
def test_an_invalid_action_changes_nothing(decisions: Decisions, action: str, key: str, value: str, words: str) -> None:
    after = act(decisions, action, key, value)
    assert words in after.problem
    assert act(after, "fraction", "", "") == act(decisions, "fraction", "", "")


@given(st.lists(st.tuples(st.sampled_from([*_ACTIONS, "?"]), st.text(max_size=6), st.text(max_size=12)), max_size=6))
def test_no_action_breaks_the_bench(actions: list[tuple[str, str, str]]) -> None:
    opened = Opened(Path("x.csv"), "x.csv", 5, ({"name": "a", "categories": ["u", "v"]}, {"name": "b"}), (0, 0))
    decisions = open_decisions(opened, {"a": "key"})
    for action in actions:
        decisions = act(decisions, *action)
        assert len(decisions.roles) == len(decisions.perturb) == 2
        assert data_views.status(decisions) is not None


def test_what_is_undecided_is_named(decisions: Decisions, tmp_path: Path) -> None:
    empty = act(act(decisions, "role", "2", ""), "role", "3", "")
    assert "variables without a role: job, weight" in documents.problems(empty)[0]
    with pytest.raises(SpecificationError, match="variables without a role"):
        documents.plan_toml(empty, tmp_path)
    assert (
        "no variable is perturbed"
        in documents.problems(act(act(decisions, "perturb", "0", "f"), "perturb", "1", "f"))[0]
    )
    assert documents.problems(Decisions())[0].startswith("no file is open")


# -- documents --------------------------------------------------------------------------------------------------------


def test_the_plan_that_is_shown_is_the_plan_that_is_loaded(decisions: Decisions, tmp_path: Path) -> None:
    chosen = act(
        act(act(decisions, "option", "privacy.differential.epsilon", "0.7"), "prior", value="file"),
        "format",
        value="csv",
    )
    (tmp_path / "codebook.toml").write_text(documents.codebook_toml(chosen), "utf-8")
    (tmp_path / "plan.toml").write_text(documents.plan_toml(chosen, tmp_path), "utf-8")
    plan = load_plan(tmp_path / "plan.toml")
    assert plan.source == chosen.opened.path
    assert [(b.variables, b.privacy.epsilon, b.prior) for b in plan.blocks] == [
        (("sex",), 0.7, "file"),
        (("area",), 0.7, "file"),
    ]
    assert plan.privacy.epsilon == pytest.approx(1.4)  # type: ignore[attr-defined]
    assert plan.release.format == "csv"
    assert plan.codebook["weight"].role == "weight"
    beside = documents.plan_data(chosen, chosen.opened.path.parent)
    assert beside["source"]["file"] == "survey.parquet"


def test_command_lines_name_files_safely(decisions: Decisions) -> None:
    assert "--keys sex,area" in documents.commands(decisions, "data")
    assert "--weight weight" in documents.commands(decisions, "risk")
    share = act(decisions, "fraction", value="10")
    assert "--sampling-fraction 0.1" in documents.commands(share, "risk")
    assert "--sampling-fraction" not in documents.commands(share, "protect")  # the plan keeps it
    odd = Opened(Path("x"), "a b; rm -rf .csv", 1, ({"name": "a"},), (0,))
    assert documents.commands(open_decisions(odd), "data").startswith("postrand init 'a b; rm -rf .csv'")


# -- studies ----------------------------------------------------------------------------------------------------------


def test_the_variance_of_a_cell_is_that_of_the_full_covariance() -> None:
    """Against the Kronecker product, built whole: n^-1 A (diag λ − λλᵀ) Aᵀ with A = (Mᵀ)^-1."""
    rng = np.random.default_rng(3)
    matrices = [0.6 * np.eye(s) + 0.4 * rng.dirichlet(np.ones(s), s) for s in (2, 3)]
    share = rng.dirichlet(np.ones(6)).reshape(2, 3)
    whole = np.kron(*matrices)
    released, inverse = whole.T @ share.ravel(), np.linalg.inv(whole.T)
    expected = np.diag(inverse @ (np.diag(released) - np.outer(released, released)) @ inverse.T) / 500
    np.testing.assert_allclose(cell_variance(matrices, share, 500).ravel(), expected, rtol=1e-9)
    assert np.isinf(cell_variance([np.full((2, 2), 0.5)], np.array([0.5, 0.5]), 9)).all()


def test_a_point_says_what_its_matrix_does(decisions: Decisions) -> None:
    counted = computations.counts(decisions, (1,))
    found = computations.point(decisions, counted, 2.0)
    matrix, share = found.made.matrix.array, counted / counted.sum()
    assert found.level == 2.0
    assert found.unchanged == pytest.approx(sum(share[i] * matrix[i, i] for i in range(4)))
    assert found.guess == pytest.approx(sum(max(share[i] * matrix[i, j] for i in range(4)) for j in range(4)))
    assert found.blind == pytest.approx(share.max())
    assert found.error > found.plain > 0
    assert found.guess >= found.blind - 1e-12


def test_the_map_moves_from_risk_to_noise(decisions: Decisions) -> None:
    drawn = computations.curve(decisions, computations.counts(decisions, (1,)))
    assert len(drawn) == 13
    assert all(a.guess <= b.guess + 1e-12 and a.error >= b.error for a, b in itertools.pairwise(drawn))
    page = str(charts.tradeoff(drawn, drawn[3], "ε"))
    assert page.count('class="step"') == 13
    assert 'class="now"' in page


def test_too_many_categories_are_refused_kindly(decisions: Decisions) -> None:
    with pytest.raises(PostrandError, match="too many categories to design in the workbench; got 300"):
        computations.point(decisions, np.ones(300))


def test_the_file_is_protected_as_on_the_command_line(decisions: Decisions, tmp_path: Path) -> None:
    steps: list[Step] = []

    class Noting(Watch):
        def hear(self, step: Step) -> None:
            super().hear(step)
            steps.append(step)

    made = computations.protect(decisions, tmp_path, Noting())
    assert release.verify(made.path).ok
    assert Step(Stage.PERTURBING, 900, 900) in steps
    stages = list(dict.fromkeys(step.stage for step in steps))
    order = [Stage.READING, Stage.DESIGNING, Stage.PERTURBING, Stage.WRITING, Stage.VERIFYING, Stage.REPORTS]
    assert [stage for stage in stages if stage in order] == order
    assert (tmp_path / "dossier" / "dossier.html").exists()
    assert finished.packed(tmp_path).stat().st_size > 1000
    single, double = (
        computations.margin(decisions, made, computations.counts(decisions, c), c) for c in ((1,), (0, 1))
    )
    assert single.true.tolist() == [list(table()["area"].to_pylist()).count(c) for c in ("e", "n", "s", "w")]
    assert single.released.sum() == 900
    assert single.corrected is not None
    assert single.corrected.sum() == pytest.approx(900)
    page = str(charts.margins(single)) + str(charts.margins(double))
    assert page.count("<tr>") == 1 + 4 + 1 + 8
    before, after = computations.risks(decisions, made)
    assert before is not None
    assert after is not None
    assert "Risk before and after" in str(comparison_views.compare_view(single, (before, after), False))


def test_a_run_that_is_stopped_leaves_nothing(decisions: Decisions, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        computations.protect(decisions, tmp_path, Watch(stop=True))

    class Stopping(Watch):
        def hear(self, step: Step) -> None:
            self.stop = self.stop or step.done > 0
            super().hear(step)

    with pytest.raises(Cancelled):
        computations.protect(decisions, tmp_path, Stopping())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["codebook.toml", "plan.toml"]


def test_a_plan_that_cannot_be_met_says_why(decisions: Decisions, tmp_path: Path) -> None:
    for value, words in (("1e-300", "epsilon"), ("0", "epsilon")):
        with pytest.raises(PostrandError, match=words):
            computations.protect(act(decisions, "option", "privacy.differential.epsilon", value), tmp_path, Watch())
    assert not (tmp_path / "release").exists()


def test_risk_is_counted_first_and_modelled_then(decisions: Decisions) -> None:
    counted, modelled = (computations.assess(decisions, with_model=m) for m in (False, True))
    assert counted is not None
    assert modelled is not None
    assert (counted.tau1, counted.sample_uniques) == (None, modelled.sample_uniques)
    assert modelled.tau1 is not None
    assert "computing …" in str(risk_views.risk_view(counted, None, True))
    assert (
        computations.assess(act(act(decisions, "role", "0", "other"), "role", "1", "other"), with_model=False) is None
    )


# -- views and bad input ----------------------------------------------------------------------------------------------


def whole_page(decisions: Decisions, folder: Path) -> str:
    points = computations.curve(decisions, computations.counts(decisions, (decisions.shown,)))
    labels = documents.codebook_of(decisions)[decisions.names[decisions.shown]].code_labels
    parts = [
        data_views.status(decisions),
        data_views.variables(decisions),
        views.risk_form(decisions),
        views.design_form(decisions),
    ]
    parts += [
        risk_views.risk_view(computations.assess(decisions, with_model=False), None, False),
        views.level_control(decisions),
    ]
    parts += [
        views.map_view(decisions, points, points[0], False),
        views.matrix_view(labels, points[0], decisions.names[decisions.shown]),
    ]
    parts += [
        views.readout(decisions, points[0], 0.1, decisions.names[:2]),
        release_views.protect_view(decisions, None, EVIL),
    ]
    parts += [
        views.take_view(decisions, folder),
        views.chooser(decisions, "shown", "", 0, "x"),
        release_views.protect_form(decisions),
    ]
    return "".join(str(p) for p in parts)


def test_markup_in_names_and_labels_is_text(tmp_path: Path) -> None:
    values = [EVIL, f"{EVIL}2"] * 20
    field = pa.field(f"{EVIL}0", pa.string(), metadata={"label": EVIL, "value_labels": json.dumps({EVIL: EVIL + "L"})})
    data = pa.table([values, values[::-1]], schema=pa.schema([field, pa.field(f"{EVIL}1", pa.string())]))
    pq.write_table(data, tmp_path / "x.parquet")
    decisions = open_decisions(opening.open_file(tmp_path / "x.parquet", EVIL), {f"{EVIL}0": "key", f"{EVIL}1": "key"})
    page = whole_page(decisions, tmp_path)
    assert "<img" not in page
    assert "&lt;img" in page
    made = computations.protect(decisions, tmp_path, Watch())
    double = computations.margin(decisions, made, computations.counts(decisions, (0, 1)), (0, 1))
    assert "<img" not in str(comparison_views.compare_view(double, computations.risks(decisions, made), False))


def test_ten_thousand_columns_are_shown_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(10_000)]
    path.write_text(
        "\n".join([",".join(names), *(",".join(["ab"[(i + r) % 2] for i in range(10_000)]) for r in range(3))]) + "\n"
    )
    decisions = open_decisions(opening.open_file(path))
    assert len(str(data_views.variables(decisions))) < 150_000
    assert data_views.listed(act(act(decisions, "find", value="C99"), "page", value="2"))[1] == 111
    assert "and 9,995 more" in documents.problems(decisions)[0]
    decided = act(act(decisions, "role", "3", "key"), "rest", value="drop")
    assert decided.perturbed == (3,)
    assert tomllib.loads(documents.plan_toml(decided, tmp_path))["blocks"][0]["variables"] == ["c3"]
    assert len(str(views.take_view(decided, tmp_path))) < 200_000


def test_a_column_of_very_many_values_is_not_a_category(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"id": [f"v{i}" for i in range(100_000)], "sex": ["F", "M"] * 50_000}), path)
    decisions = open_decisions(opening.open_file(path), {"id": "key", "sex": "key"})
    assert [decisions.names[j] for j in decisions.perturbed] == ["sex"]
    assert "more than 100 different values" in str(data_views.variables(decisions))
    assert decisions.keys == ("sex",)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.parquet", b"no parquet", "not a readable Parquet file"),
        ("x.sav", b"$FL2@(#)ENCRYPTEDSAV" + bytes(99), "protected by a password"),
        ("x.xlsx", b"PK", "not a readable Excel file"),
        ("x.docx", b"PK", "unknown file type"),
        ("x.csv", b"", "the file is empty"),
        ("x.csv", b"a,b\n1\n", "the row has too many or too few fields"),
        ("x.dta", b"\x00" * 50, "not a readable Stata file"),
    ],
)
def test_unreadable_files_are_explained(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PostrandError, match=words):
        opening.open_file(tmp_path / name)


def test_numbers_in_the_readout_are_those_of_the_point(decisions: Decisions) -> None:
    found = computations.point(decisions, computations.counts(decisions, (0,)), 1.0)
    page = str(views.readout(decisions, found, None, ()))
    assert f"{100 * found.unchanged:.1f}%" in page
    assert f"{195.996 * found.error:.2g} points" in page
    singular = computations.Point(1, found.made, 0.5, 0.5, 0.5, math.inf, 0.1)
    assert "cannot be corrected" in str(views.readout(decisions, singular, None, ()))
    one = dataclasses.replace(found, error=0.01 / 1.95996)
    assert "1 point<" in str(views.readout(decisions, one, None, ())).replace("</span>", "<")


def test_a_type_is_said_in_plain_words(decisions: Decisions) -> None:
    page = str(data_views.variables(decisions))
    assert ">numbers<" in page
    assert "double" not in page


def test_the_readout_promises_all_variables_together_before_one(decisions: Decisions) -> None:
    found = computations.point(decisions, computations.counts(decisions, (0,)), 1.0)
    assert "50 are right without and at most 74 with the" in str(views.readout(decisions, found, None, ()))
    names = ", ".join(decisions.names[j] for j in decisions.perturbed)
    page = str(views.readout(decisions, found, None, (), 5.0))
    assert len(decisions.perturbed) > 1
    first, _, second = page.partition("One variable by itself: ")
    assert f"{names} together: of 100 guesses" in first
    assert "at most 99.4 with the" in first
    assert "at most 74 with the" in second
