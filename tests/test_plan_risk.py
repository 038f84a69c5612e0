"""The risk of a plan is measured once, before its release: by the release check, which its run and dossier follow."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from htmltools import html_escape
from shiny import reactive

from postrand.app import check_view, checking, designing, documents, opening, release_screen
from postrand.app.decisions import Decisions, act, open_decisions
from postrand.app.finished import finish
from postrand.app.tabs import Tab
from postrand.app.watch import Cancelled, Watch
from postrand.engines import LocalEngine
from postrand.errors import PostrandError
from postrand.plan import load_plan
from postrand.risk.findings import Findings
from postrand.support.progress import Stage, Step, listening
from postrand.support.showing import outward
from postrand.support.warned import heard
from postrand.workflow.dossier import _compared
from postrand.workflow.known import Known
from postrand.workflow.pipeline import run, run_measured
from postrand.workflow.plan_figures import figures_known
from postrand.workflow.plan_risk import Beforehand, PlanRisk
from tests.test_app_release import ROLES, table, until

KEY = b"a key that is only used in tests"


Checked = tuple[Decisions, checking.ReleaseCheck, designing.Latest]


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    """Decisions on a file that can be written to, with their release check."""
    path, latest = tmp_path / "own.parquet", designing.Latest()
    pq.write_table(table(), path)
    own = act(open_decisions(opening.open_file(path), ROLES), "as_is", "3", "true")
    own = dataclasses.replace(own, fraction=0.05)
    check = checking.checked(own, tmp_path, latest)
    assert check is not None
    return own, check, latest


def dossier_of(decisions: Decisions, before: Beforehand | None, folder: Path, **more: Any) -> tuple[str, set[str]]:
    """Return ``dossier.json`` of a run and its warnings; without ``before``, as the command line makes it."""
    folder.mkdir()
    about: Any = {"release_key": KEY, "dossier": folder / "inside", "sampling_fraction": decisions.fraction}
    plan = load_plan(documents.write(decisions, folder))
    with heard() as said:
        if before is None:
            run(plan, folder / "release", **about)
        else:
            run_measured(plan, folder / "release", before, engine=LocalEngine(scratch=folder), **about, **more)
    return (folder / "inside" / "dossier.json").read_text("utf-8"), {*said}


def test_a_run_takes_the_risk_that_the_check_showed(
    checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is measured once, curves too, and the internal report is word for word that of the command line."""
    own, check, latest = checked
    assert check.made is not None
    wanted = dossier_of(own, None, tmp_path / "line")
    _compared.cache_clear()
    shown = checking.risk_of(own, check, latest)
    checking.prepared(own, check.made, latest)
    page = str(check_view.risk_view(shown))
    figures = {one["code"]: one for one in json.loads(wanted[0])["figures"]["risk"]}
    who = "informed attacker, who knows the keys of each person, and looks for one at a time"
    assert shown.rows[0].named == f"Correct matches: persons found, {who}"
    assert shown.rows[0].after.startswith(outward(figures["correct_matches"]["after"]))
    assert all(html_escape(cell) in page for row in shown.rows for cell in (row.measure, row.before, row.after))

    def never(*about: Any) -> None:
        raise AssertionError("measured twice")

    monkeypatch.setattr(PlanRisk, "of", never)
    assert dossier_of(own, latest.beforehand(own, check.made), tmp_path / "app") == wanted
    curves = _compared.cache_info()
    one = finish(own, tmp_path / "1", 1, Watch(), check, latest)
    assert _compared.cache_info().misses == curves.misses == 2  # sex and area
    assert one.check is not None
    assert one.check.risk == shown
    assert one.check.made is None  # what it was designed from is not kept with the release
    assert "Risk before and after" in str(check_view.check_view(own, one.check, decide=False))


def test_another_plan_never_gets_an_old_risk(checked: Checked, tmp_path: Path) -> None:
    own, check, latest = checked
    assert check.made is not None
    old = latest.measured(own, check.made)
    asked = act(own, "option", "privacy.differential.epsilon", "3")
    assert latest.measured(asked, latest.designed(asked, tmp_path)).risk is not old.risk
    assert latest.measured(own, check.made).risk is not old.risk  # one is kept
    stale = latest.beforehand(own, check.made)
    assert dossier_of(asked, stale, tmp_path / "app") == dossier_of(asked, None, tmp_path / "line")
    share = dataclasses.replace(own, fraction=0.5)
    assert dossier_of(share, stale, tmp_path / "half") == dossier_of(share, None, tmp_path / "half line")


def test_a_file_that_changes_after_the_check_is_noticed(checked: Checked, tmp_path: Path) -> None:
    own, check, latest = checked
    assert check.made is not None
    assert own.opened is not None
    path, before = Path(str(own.opened.path)), latest.beforehand(own, check.made)

    def late(step: Step) -> None:
        if step.stage == Stage.VERIFYING:
            pq.write_table(table(399), path)

    with pytest.raises(PostrandError, match=r"own\.parquet: the file has changed on the disk since it was measured"):
        dossier_of(own, before, tmp_path / "late", progress=late)
    assert not (tmp_path / "late" / "release").exists()
    with pytest.raises(PostrandError, match="read the release check again"):
        finish(own, tmp_path / "1", 1, Watch(), check, latest)
    assert not (tmp_path / "1").exists()
    with pytest.raises(PostrandError, match="has changed on the disk"):
        designing.Latest().measured(own, check.made)
    again = checking.checked(own, tmp_path, latest)
    assert again is not None
    assert again.made is not None
    report = latest.measured(own, again.made).risk.report
    assert report is not None
    assert report.records == 399


def test_who_waits_for_the_risk_can_cancel(checked: Checked) -> None:
    own, check, latest = checked
    assert check.made is not None
    watch = Watch(stop=True)
    with latest._measuring, listening(watch.hear), pytest.raises(Cancelled):
        latest.measured(own, check.made)
    with pytest.raises(Cancelled):
        latest.measured(own, check.made, lambda: False)  # the decisions have changed meanwhile


def test_a_tab_makes_the_check_again_of_a_file_that_has_changed(checked: Checked, tmp_path: Path) -> None:
    own, _, _ = checked
    assert own.opened is not None
    path = Path(str(own.opened.path))

    async def work() -> None:
        tab = Tab("a" * 16, tmp_path / ("a" * 16))
        tab.decisions.set(own)

        async def asked() -> checking.ReleaseCheck:
            await until(lambda: not release_screen.check_of(tab, own)[1])
            found = release_screen.check_of(tab, own)[0]
            assert isinstance(found, checking.ReleaseCheck)
            return found

        first = await asked()
        assert first.made is not None
        await until(lambda: release_screen.risk_of(tab, own, first) is not None)
        pq.write_table(table(399), path)
        tab.protect()
        await until(lambda: bool(tab.ended()))
        assert "own.parquet: the file has changed on the disk since it was measured" in tab.ended()
        second = await asked()  # by itself: nobody opened the file again
        assert second.made is not None
        assert second.made.known.state != first.made.known.state
        tab.protect()  # at once: the risk is measured while the release is drawn
        await until(lambda: bool(tab._held().held))
        (one,) = tab._held().held
        assert one.check is not None
        assert one.check.risk is not None
        assert one.release.records == 399

    with reactive.isolate():
        asyncio.run(work())


def test_check_and_the_dossier_measure_risk_in_one_place(checked: Checked) -> None:
    """What is known of the risk, and what is not and why, is one answer: with the plan's weights, and without."""
    made = checked[1].made
    assert made is not None
    for fraction in (0.05, None):
        known = Known.of(made.plan, dossier=True)
        inside = PlanRisk.of(known, made.mechanism, fraction)
        shown = figures_known(known, made.mechanism, made.certificate, Findings(), fraction)
        assert shown.risks == inside.figures
        assert dict(shown.as_is) == dict(inside.as_is)
        tau = shown.risk("tau2")
        assert tau is not None
        assert (tau.before is None) is bool(tau.why) is (fraction is None)
