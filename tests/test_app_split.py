"""The workbench with a split: its choices, its plan, what it shows before a release and after, and plans read again."""

import dataclasses
import itertools
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import release
from postrand.app import comparison_views, computations, designing, documents, goals, opening, plans, split_views, views
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.designing import Latest
from postrand.app.watch import Watch
from postrand.codebook.not_released import NOT_RELEASED
from postrand.designers import compare_split, split_design
from postrand.errors import PostrandError
from postrand.plan import load_plan
from tests.test_app import EVIL

NAMES = ("sex", "area", "job", "born")
N = 3000


def table() -> pa.Table:
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], N),
            "area": rng.choice(["n", "e", "s", "w"], N, p=[0.4, 0.3, 0.2, 0.1]),
            "job": [["yes", "no", None][k] for k in rng.integers(0, 3, N)],
            "born": rng.choice([1990, 2000, 2010], N),
        }
    )


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    path = tmp_path_factory.mktemp("app") / "survey.parquet"
    pq.write_table(table(), path)
    return open_decisions(opening.open_file(path), dict.fromkeys(NAMES, "key"))


@pytest.fixture(scope="module")
def split(blocks: Decisions) -> Decisions:
    return act(act(blocks, "option", "privacy.differential.epsilon", "1.5"), "way", value="split")


def of_plan(decisions: Decisions, folder: Path) -> dict:
    return tomllib.loads(documents.plan_toml(decisions, folder))


# -- decisions and plans ----------------------------------------------------------------------------------------------


def test_a_split_starts_with_the_guarantee_of_the_blocks(blocks: Decisions, split: Decisions, tmp_path: Path) -> None:
    assert of_plan(blocks, tmp_path)["privacy"]["epsilon"] == 4.0
    made = of_plan(split, tmp_path)
    assert made["privacy"] == {"model": "differential", "epsilon": 6.0}
    assert made["split"] == {"variables": list(NAMES)}
    assert "blocks" not in made
    back = act(act(split, "option", goals.RECORD, "3"), "way", value="blocks")
    assert of_plan(back, tmp_path)["privacy"]["epsilon"] == 6.0  # each way has its own level
    assert of_plan(act(back, "way", value="split"), tmp_path)["privacy"]["epsilon"] == 3.0


def test_what_a_split_is_for_can_be_chosen(split: Decisions, tmp_path: Path) -> None:
    chosen = act(act(act(split, "workload", value="triples"), "core", "1", "true"), "prior", value="file")
    plan = load_plan(documents.write(chosen, tmp_path))
    assert plan.split is not None
    assert plan.split.core == ("area",)
    assert plan.split.prior == "file"
    assert len(plan.split.workload.tables) == 4
    assert not plan.blocks
    without = act(chosen, "role", "1", "other")  # no longer perturbed, so no longer in the core
    assert of_plan(without, tmp_path)["split"] == {"variables": ["sex", "job", "born"], "workload": "triples"}


@pytest.mark.parametrize(
    ("action", "key", "value", "words"),
    [
        ("way", "", "both", "not a choice"),
        ("workload", "", "all", "not a choice"),
        ("workload", "", "plan", "not a choice"),
        ("prior", "", "plan", "not a choice"),
        ("core", "9", "true", "no such column"),
        ("goal", "", "world", "not a choice"),
    ],
)
def test_an_invalid_choice_changes_nothing(split: Decisions, action: str, key: str, value: str, words: str) -> None:
    after = act(split, action, key, value)
    assert words in after.problem
    assert dataclasses.replace(after, problem="") == split


def test_the_level_of_the_file_can_be_stated_or_asked_for(blocks: Decisions, split: Decisions, tmp_path: Path) -> None:
    stated = act(act(split, "goal", value="stated"), "option", goals.DELTA, "1e-5")
    assert of_plan(stated, tmp_path)["privacy"] == {"model": "differential", "epsilon": 6.0, "delta": 1e-5}
    for start in (blocks, split):
        asked = act(act(start, "goal", value="file"), "option", goals.FILE, "0.8")
        made = of_plan(asked, tmp_path)
        assert made["privacy"] == {"model": "differential", "file_epsilon": 0.8, "delta": 1e-6}
        assert all("privacy" not in block for block in made.get("blocks", ()))
        assert "epsilon" not in made.get("split", {})
    other = act(act(blocks, "goal", value="file"), "model", value="bistochastic")
    assert "delta" not in of_plan(other, tmp_path)["privacy"]  # only differential privacy has a level of the file
    with pytest.raises(PostrandError, match=r"'δ' cannot be read; got 'small'; wanted a number"):
        documents.plan_toml(act(stated, "option", goals.DELTA, "small"), tmp_path)
    assert all(goals.usual_delta(n) <= min(1e-6, 0.01 / max(n, 1)) for n in (0, 1, 999, 1000, 10**6, 10**8))


# -- before the release -----------------------------------------------------------------------------------------------


def test_the_readout_is_that_of_the_design_and_of_the_certificate(split: Decisions, tmp_path: Path) -> None:
    asked = act(split, "goal", value="stated")
    made = Latest().designed(asked, tmp_path)
    assert made.split is not None
    direct = split_design(documents.codebook_of(split), NAMES, 6.0, n=N)
    page = str(split_views.readout(made.split, N))
    assert split_views.number(direct.effective_records()) in page
    assert f"{len(direct.subsets):,}" in page
    assert direct.status == "optimal"
    assert "it is reached" in page
    shown = str(split_views.design_view(made.split, N))
    for one in direct.tables:
        assert " × ".join(one.variables) in shown
        assert split_views.number(N * one.share) in shown
    assert 'class="together"' in shown
    assert "Every table of two of these variables can be estimated." in shown
    file = made.certificate.file
    assert file is not None
    assert file.epsilon is not None
    assert "ε of the whole file" in str(split_views.file_level(file))
    run = computations.protect(asked, tmp_path, Watch())
    assert run.certificate["file"] == file.to_dict()
    assert list(tmp_path.glob(".plan-*")) == []


def test_the_record_gets_what_the_file_leaves(blocks: Decisions, split: Decisions, tmp_path: Path) -> None:
    for start in (blocks, split):
        made = Latest().designed(act(act(start, "goal", value="file"), "option", goals.FILE, "0.5"), tmp_path)
        assert made.certificate.file is not None
        assert made.certificate.file.epsilon is not None
        assert 0.45 < made.certificate.file.epsilon <= 0.5
        total = made.certificate.account.total
        assert total > made.certificate.file.epsilon
        if made.split is None:
            assert sum(made.level(name) for name in NAMES) == pytest.approx(total, rel=1e-6)


def test_conditions_of_a_files_level_that_fail_are_named(split: Decisions, tmp_path: Path) -> None:
    ordered = act(act(split, "goal", value="stated"), "shuffle", value="false")
    found = Latest().designed(ordered, tmp_path).certificate.file
    assert found is not None
    assert "order" in str(split_views.file_level(found))
    with pytest.raises(PostrandError, match="order"):
        Latest().designed(act(ordered, "goal", value="file"), tmp_path)


def test_the_same_guarantee_without_a_split(split: Decisions, tmp_path: Path) -> None:
    found = designing.compared(split, tmp_path, Latest())
    direct = compare_split(documents.codebook_of(split), NAMES, 6.0)
    assert found.epsilon == 6.0
    assert [worth for _, _, worth in found.rows] == pytest.approx(
        [1 / w.value for w in (direct.separate, direct.joint, direct.split)]
    )
    page = str(split_views.comparison(found, False, N))
    for _, _, worth in found.rows:
        assert split_views.number(N * worth) in page
    assert page.count('class="same"') == 1
    assert "Compare blocks and a split" in str(split_views.comparison(None, False, N))


def test_blocks_are_compared_with_a_split_before_one_is_chosen(blocks: Decisions, tmp_path: Path) -> None:
    found = designing.compared(blocks, tmp_path, Latest())
    assert found.epsilon == pytest.approx(4.0)
    direct = compare_split(documents.codebook_of(blocks), NAMES, found.epsilon).effective_records(1)
    assert [worth for _, _, worth in found.rows] == [direct[way] for way in ("separate", "joint", "split")]
    assert found.best in ("Split", "Best joint blocks")
    many = {f"v{k}": ["a", "b"] * 50 for k in range(12)}
    pq.write_table(pa.table(many), tmp_path / "many.parquet")
    wide = open_decisions(opening.open_file(tmp_path / "many.parquet"), dict.fromkeys(many, "key"))
    (_, _, separate), (name, _, least) = designing.compared(wide, tmp_path, Latest()).rows
    assert name == "Split, at least"
    designed = split_design(documents.codebook_of(wide), list(many), 12.0)
    assert separate < least <= (1 + 1e-9) / designed.value


def test_a_design_is_made_once(split: Decisions, tmp_path: Path) -> None:
    latest = Latest()
    made = latest.designed(split, tmp_path)
    assert latest.designed(act(split, "pair", "first", "1"), tmp_path) is made  # what is shown changes no design
    assert latest.designed(act(split, "option", goals.RECORD, "5"), tmp_path) is not made


# -- after the release ------------------------------------------------------------------------------------------------


def test_a_split_release_is_shown_before_and_after(
    split: Decisions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = act(split, "option", goals.RECORD, "2.5")  # at which no subset has all four variables
    made = computations.protect(split, tmp_path, Watch())
    assert release.verify(made.path).ok
    rows = made.frame().select(["sex", "area"]).to_pylist()
    seen = Counter((r["sex"], r["area"]) for r in rows if NOT_RELEASED not in r.values())
    pair = computations.margin(split, made, computations.counts(split, (0, 1)), (0, 1))
    assert pair.showing == sum(seen.values()) < N
    by_hand = [[seen[s, a] * N / pair.showing for a in ("e", "n", "s", "w")] for s in "FM"]
    np.testing.assert_allclose(pair.released, by_hand)
    assert pair.corrected is not None
    assert pair.corrected.sum() == pytest.approx(N)
    born = computations.margin(split, made, computations.counts(split, (3,)), (3,))  # numbers, released as text
    job = computations.margin(split, made, computations.counts(split, (2,)), (2,))  # with a missing category
    for one in (born, job):
        assert one.released.sum() == pytest.approx(N)
        assert one.corrected is not None
        assert abs(one.corrected - one.true).max() < 0.15 * N
    risks = computations.risks(split, made)
    shown = str(comparison_views.compare_view(pair, risks, False, made.mechanism.split))
    monkeypatch.setattr(computations, "_dossier", lambda _: {})
    assert [one and one.exact() for one in risks] == [one and one.exact() for one in computations.risks(split, made)]
    assert f"{pair.showing:,} records show both" in shown
    assert "Every table of two" in shown


def test_a_table_that_no_record_shows_says_the_way_out(split: Decisions, tmp_path: Path) -> None:
    kept = {"split": {"variables": list(NAMES), "workload": [["sex", "area"], ["job", "born"]], "max_cells": 12}}
    narrow = dataclasses.replace(split, workload=goals.FROM_PLAN, kept=kept)
    made = computations.protect(narrow, tmp_path, Watch())
    never = computations.margin(narrow, made, computations.counts(narrow, (1, 2)), (1, 2))
    assert never.showing == 0
    assert never.corrected is None
    assert never.reason
    page = str(comparison_views.compare_view(never, None, False, made.mechanism.split))
    assert "No record shows these together, so their tables cannot be estimated" in page
    assert "area × job" in page
    assert "release anew" in page


# -- plans that were written before -----------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["record", "stated", "file"])
@pytest.mark.parametrize("way", ["blocks", "split"])
def test_a_plan_is_read_as_it_was_written(blocks: Decisions, way: str, goal: str, tmp_path: Path) -> None:
    decided = act(act(act(blocks, "way", value=way), "goal", value=goal), "role", "2", "drop")
    written = of_plan(decided, tmp_path)
    again = plans.open_plan(documents.write(decided, tmp_path), tmp_path)
    assert of_plan(again, tmp_path) == written
    assert again.perturbed == decided.perturbed
    assert (again.opened.rows, again.opened.missing) == (N, decided.opened.missing)


SPLIT = """
[split]
variables = ["born", "sex", "area"]
epsilon = 5
workload = [{table = ["sex", "area"], weight = 2}, ["born"]]
core = ["area"]
structure = ["circulant"]
max_cells = 12
prior = [{table = ["sex"], counts = [3, 2]}]
"""


def other_plan(folder: Path, extra: str, privacy: str = "epsilon = 5.0") -> Path:
    pq.write_table(table(), folder / "survey.parquet")
    decisions = open_decisions(opening.open_file(folder / "survey.parquet"), dict.fromkeys(NAMES, "key"))
    rule = '\n[[rules]]\nsex = "M"\narea = "w"\n'
    (folder / "codebook.toml").write_text(documents.codebook_toml(decisions) + rule)
    head = '[source]\nfile = "survey.parquet"\ncodebook = "codebook.toml"\n[metadata]\ntitle = "A survey"\n'
    (folder / "plan.toml").write_text(f'{head}[privacy]\nmodel = "differential"\n{privacy}\n{extra}')
    return folder / "plan.toml"


def test_a_split_that_no_form_shows_is_kept_unchanged(tmp_path: Path) -> None:
    path = other_plan(tmp_path, SPLIT)
    opened = plans.open_plan(path, tmp_path)
    assert opened.splits
    assert opened.workload == opened.prior == goals.FROM_PLAN
    assert of_plan(opened, tmp_path)["split"] == tomllib.loads(SPLIT)["split"]
    assert of_plan(opened, tmp_path)["metadata"] == {"title": "A survey"}
    assert '[[rules]]\nsex = "M"\narea = "w"' in documents.codebook_toml(opened)
    form = str(split_views.way_form(opened))
    assert "the tables of the opened plan" in form
    assert "kept as they are" in form
    changed = act(act(opened, "option", goals.RECORD, "4"), "workload", value="worst")
    expected = tomllib.loads(SPLIT)["split"] | {"epsilon": 4.0, "workload": "worst"}
    assert of_plan(changed, tmp_path)["split"] == expected
    assert of_plan(act(opened, "goal", value="file"), tmp_path)["split"].keys() == expected.keys() - {"epsilon"}
    assert "workload" in act(act(changed, "workload", value="plan"), "workload", value="none").problem


@pytest.mark.parametrize("way", ["blocks", "split"])
def test_that_a_plan_was_chosen_with_the_file_is_kept(way: str, blocks: Decisions, tmp_path: Path) -> None:
    path = documents.write(act(blocks, "way", value=way), tmp_path)
    path.write_text(path.read_text().replace("[design]\n", '[design]\nchosen_with = "file"\n'))
    opened = plans.open_plan(path, tmp_path)
    for one in (opened, act(opened, "way", value="blocks")):
        assert load_plan(documents.write(one, tmp_path)).chosen_with == "file"


def test_a_plan_of_another_split_opens_a_file_of_its_own(tmp_path: Path, split: Decisions) -> None:
    opened = plans.open_plan(other_plan(tmp_path, SPLIT), tmp_path)
    fresh = open_decisions(split.opened, before=opened)
    assert fresh.kept == {}
    assert fresh.core == ()
    assert (fresh.workload, fresh.prior) == ("pairs", "uniform")


# -- pages ------------------------------------------------------------------------------------------------------------


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    columns = {f"{EVIL}{k}": [f"{EVIL}{(i // 2**k) % 2}" for i in range(400)] for k in range(3)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    opened = opening.open_file(tmp_path / "x.parquet", EVIL)
    decisions = act(open_decisions(opened, dict.fromkeys(columns, "key")), "way", value="split")
    latest = Latest()
    made = latest.designed(decisions, tmp_path)
    assert made.split is not None
    parts = [views.design_form(decisions), views.level_control(decisions), split_views.readout(made.split, 400)]
    parts += [split_views.design_view(made.split, 400)]
    parts += [split_views.comparison(designing.compared(decisions, tmp_path, latest), False, 400)]
    page = "".join(map(str, parts))
    assert "<img" not in page
    assert "&lt;img" in page


def test_forms_show_what_a_split_has(blocks: Decisions, split: Decisions) -> None:
    plain, chosen = str(views.design_form(blocks)), str(views.design_form(split))
    assert "Shape of the matrices" in plain
    assert "Shape of the matrices" not in chosen
    assert "stated in a plan" in chosen
    for words, goal in itertools.product(("ε of a record",), ("record", "stated")):
        assert words in str(views.level_control(act(split, "goal", value=goal)))
    assert "ε of the file" in str(views.level_control(act(blocks, "goal", value="file")))
    assert "ε of each variable" in str(views.level_control(blocks))
    assert split_views.goal_form(act(blocks, "model", value="bistochastic")) is None
