"""The release in the workbench without a browser: check, history, finished releases, projects, private folder."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from htmltools import html_escape
from hypothesis import given, settings
from hypothesis import strategies as st
from shiny import reactive

from postrand import release
from postrand.app import (
    check_view,
    checking,
    data_views,
    designing,
    documents,
    history,
    houses,
    houses_view,
    opening,
    private_folder,
    projects,
    release_screen,
    release_views,
    shelf_views,
)
from postrand.app.changes import changes
from postrand.app.decisions import _ACTIONS, Decisions, Opened, act, open_decisions
from postrand.app.finished import Finished, Shelf, finish, verified
from postrand.app.history import History
from postrand.app.launch import Late, Server
from postrand.app.notes import without_options
from postrand.app.problems import CANCELLED
from postrand.app.start import Start
from postrand.app.tabs import TOO_LATE, Store, Tab
from postrand.app.watch import Cancelled, Watch
from postrand.errors import PostrandError
from postrand.plan import load_plan
from postrand.risk.findings import Finding, Findings
from postrand.support.progress import Step
from postrand.support.warned import heard, warn
from postrand.workflow.pipeline import run
from postrand.workflow.series import NOT_COUNTED

ROLES = {"sex": "key", "area": "key", "job": "sensitive", "weight": "other", "town": "other", "remark": "drop"}

NAMES = ("job", "town", "weight")


def table(n: int = 400) -> pa.Table:
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], n),
            "area": rng.choice(["n", "e", "s", "w"], n),
            "job": rng.choice(["yes", "no"], n),
            "weight": rng.uniform(2, 9, n).round(6),
            "town": rng.integers(0, 60, n),
            "remark": rng.choice(["=1+1", "none"], n),
        }
    )


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> Decisions:
    path = tmp_path_factory.mktemp("app") / "uploads" / "survey.parquet"
    path.parent.mkdir()
    pq.write_table(table(), path)
    return open_decisions(opening.open_file(path), ROLES)


@pytest.fixture(scope="module")
def decided(decisions: Decisions) -> Decisions:
    return act(decisions, "as_is", "3", "true")


@pytest.fixture(scope="module")
def one(decided: Decisions, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    made = finish(decided, tmp_path_factory.mktemp("work") / "releases" / "1", 1, Watch())
    assert made.check is not None
    return made


# -- the check --------------------------------------------------------------------------------------------------------


def test_the_check_says_what_happens_to_every_column(decisions: Decisions, tmp_path: Path) -> None:
    check = checking.checked(decisions, tmp_path)
    assert check is not None
    assert [c.name for c in check.columns] == list(table().column_names)
    assert [c.name for c in check.of("perturbed")] == ["sex", "area"]
    assert [c.name for c in check.of("as it is")] == ["job", "weight", "town"]
    assert [c.name for c in check.of("not released")] == ["remark"]
    assert check.findings.undecided == ("weight",)
    assert not check.is_ready
    page = str(check_view.check_view(decisions, check))
    assert all(words in page for words in ("Release weight as it is", "Do not release weight", "by itself, ε = 1"))
    together = [Counter(zip(*(table()[n].to_pylist() for n in names), strict=True)) for names in (NAMES, NAMES[:2])]
    shares = [sum(n == 1 for n in rows.values()) / 400 for rows in together]
    assert [check.every, check.rest] == pytest.approx(shares)
    assert f"Without weight, they single out {100 * shares[1]:.3g}%" in page
    beside = page[page.index("weight is released unperturbed") : page.index("Release weight as it is")]
    assert f"All variables that are released as they are single out {100 * shares[0]:.3g}% of the records" in beside
    dropped = act(decisions, "drop", value="3")
    ready = checking.checked(dropped, tmp_path)
    assert ready is not None
    assert ready.is_ready
    assert ready.every == ready.rest == pytest.approx(shares[1])
    assert checking.checked(act(decisions, "role", "0", ""), tmp_path) is None


def test_the_check_gives_every_warning_of_the_run(decisions: Decisions, tmp_path: Path) -> None:
    """A spreadsheet formula, a matrix that cannot be inverted, and unperturbed columns: all that the run says."""
    pc.write_csv(table(), tmp_path / "s.csv")
    chosen = open_decisions(opening.open_file(tmp_path / "s.csv"), ROLES | {"remark": "other"})
    for action, key, value in (
        ("as_is", "3", "true"),
        ("as_is", "5", "true"),
        ("structure", "", "any"),
        ("option", "privacy.differential.epsilon", "0.01"),
        ("prior", "", "file"),
    ):
        chosen = act(chosen, action, key, value)
        chosen = dataclasses.replace(chosen, problem="")
    check = checking.checked(chosen, tmp_path)
    assert check is not None
    with heard() as said:
        run(load_plan(documents.write(chosen, tmp_path)), tmp_path / "out")
    assert {*said} == {*check.warnings, *check.findings.warnings}
    assert any("formula" in text for text in check.warnings)
    page = str(check_view.check_view(chosen, check))
    assert all(html_escape(text)[:60] in page for text in said)


def test_a_doubtful_column_of_households_is_in_the_check(decisions: Decisions, tmp_path: Path) -> None:
    """The run says it of its internal report, and the check before it."""
    houses = act(act(decisions, "drop", value="3"), "role", "2", "household")
    told = checking.checked(houses, tmp_path)
    assert told is not None
    made = finish(houses, tmp_path / "1", 1, Watch(), told)
    assert made.check is not None
    assert any("is this a household number?" in text for text in told.warnings)
    assert {*told.warnings} == {*made.check.warnings}


def test_a_policy_that_is_not_met_stops_the_release_check(decisions: Decisions, tmp_path: Path) -> None:
    rules = tmp_path / "policy.toml"
    rules.write_text('title = "Office"\nenforce = true\n[[rules]]\nmeasure = "epsilon"\nat_most = 0.5\n')
    kept = act(dataclasses.replace(decisions, kept={"policy": {"file": str(rules)}}), "drop", value="3")
    check = checking.checked(kept, tmp_path)
    assert check is not None
    assert not check.is_ready
    assert any("ε" in text or "epsilon" in text for text in check.refusals)
    page = str(check_view.check_view(kept, check))
    assert "Office: 0 of 1 rules are met" in page
    assert all(html_escape(str(value)) in page for row in check.policy.rows() for value in row.values())
    assert html_escape(check.worth[0]) in page  # as 'postrand protect' says it of the release
    assert 'disabled="disabled"' in str(release_views.protect_view(kept, None, "", None, check))


def test_warnings_are_heard_by_the_work_that_asked_and_by_no_other() -> None:
    def work(name: str) -> list[str]:
        with heard() as said:
            for _ in range(50):
                warn(f"of {name}", UserWarning)
                time.sleep(0.0001)
        return said

    async def both() -> list[list[str]]:
        return await asyncio.gather(*(asyncio.to_thread(work, name) for name in "ab"))

    assert asyncio.run(both()) == [["of a"], ["of b"]]
    with pytest.warns(UserWarning, match="nobody"):
        warn("nobody listens", UserWarning)


# -- history ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*_ACTIONS, "?"]), st.sampled_from(["0", "1", ""]), st.text(max_size=8))))
def test_every_decision_can_be_undone_and_redone(actions: list[tuple[str, str, str]]) -> None:
    opened = Opened(Path("x.csv"), "x.csv", 5, ({"name": "a", "categories": ["u", "v"]}, {"name": "b"}), (0, 0))
    start = History(open_decisions(opened, {"a": "key"}))
    now = start
    for action in (*actions, ("prior", "", "file"), ("role", "1", "drop"), ("way", "", "split")):
        now = history.decide(now, *action)
    end, steps = now, len(now.past)
    for _ in range(steps):
        now = history.undo(now)
    assert history.decided(now.now) == history.decided(start.now)
    assert "no decision to undo" in history.undo(now).now.problem
    for _ in range(steps):
        now = history.redo(now)
    assert history.decided(now.now) == history.decided(end.now)
    assert "no decision to redo" in history.redo(now).now.problem
    assert history.decide(history.undo(now), "prior", "", "uniform").undone == () or steps == 0


def test_what_undo_names_says_after_which_action(decisions: Decisions) -> None:
    page = str(shelf_views.history_view(history.decide(History(decisions), "shuffle", value="false"), heard=7))
    assert 'data-heard="7"' in page  # the page has sent more: it hides the words
    assert "random order: yes → no" in page


def test_another_file_can_be_taken_back(decisions: Decisions) -> None:
    other = open_decisions(Opened(Path("y.csv"), "y.csv", 1, ({"name": "z"},), (0,)), before=decisions)
    found = history.turned(History(decisions), other)
    assert history.undo(found).now.opened is decisions.opened
    assert history.differences(decisions, other) == ("the file",)
    assert changes(decisions, other) == ("file: survey.parquet → y.csv",)
    assert history.turned(History(), decisions).past == ()  # nothing was open before


def test_a_choice_that_is_not_possible_is_refused_by_name(decisions: Decisions) -> None:
    for structure in ("geometric", "metric"):
        after = act(decisions, "structure", value=structure)
        assert after.structure == structure or (
            after.structure == decisions.structure and "not possible with the other choices" in after.problem
        )
        assert tomllib.loads(documents.plan_toml(after, Path()))["design"]["structure"]["model"] == after.structure


# -- finished releases ------------------------------------------------------------------------------------------------


def test_releases_stay_with_their_own_plans(decided: Decisions, one: Finished, tmp_path: Path) -> None:
    other = act(decided, "option", "privacy.differential.epsilon", "3")
    second = finish(other, tmp_path / "releases" / "2", 2, Watch(), checking.checked(other, tmp_path))
    shelf = Shelf().put(one).put(second)
    assert (shelf.next, shelf.without(2).next, [f.number for f in shelf.without(1).held]) == (3, 3, [2])
    plans = [tomllib.loads(f.plan)["blocks"][0]["privacy"]["epsilon"] for f in shelf.held]
    assert plans == [1.0, 3.0]
    assert all(release.verify(f.folder / "release").ok for f in shelf.held)
    frames = [f.release.frame() for f in shelf.held]
    lighter = [f.release.frame() for f in shelf.lighter(2).held]
    assert [a is b for a, b in zip(frames, lighter, strict=True)] == [False, True]  # one release is held in memory
    assert one.is_of(decided)
    assert one.changed(other) == ("ε of each variable or block: 1 → 3",)
    assert release_views.stale(one, act(decided, "find", value="sex")) is None
    words = str(release_views.stale(one, other))
    assert "made with other decisions" in words
    assert "ε of each variable or block: 1 → 3" in words
    page = str(shelf_views.shelf_view(shelf, 2, 1, other))
    assert "Yes, remove it" in page
    assert "their levels add up" in page
    laws = [block.matrix.array for f in shelf.held for block in f.release.mechanism.blocks]
    most = sum(float(np.log(law.max(axis=0) / law.min(axis=0)).max()) for law in laws)  # of both releases of one record
    assert [*shelf.several()] == [("survey.parquet", shelf.held)]
    assert most <= sum(f.level.epsilon or 0.0 for f in shelf.held) == pytest.approx(8)
    assert "of survey.parquet together: ε of a record is at most 8 (2 + 6)" in html_escape(page)
    assert "plan.toml of release 1" in str(shelf_views.plan_view(one))
    done = str(release_views.protect_view(other, None, "", one))
    assert without_options(f"{NOT_COUNTED}.") in done  # as the command line advises
    assert "--" not in without_options(NOT_COUNTED)
    assert all(sentence[:40] in done for sentence in one.release.findings.sentences)


def test_a_run_that_fails_or_is_cancelled_leaves_nothing(
    decisions: Decisions, decided: Decisions, tmp_path: Path
) -> None:
    with pytest.raises(PostrandError, match="weight"):
        finish(decisions, tmp_path / "1", 1, Watch())

    class Deaf(Watch):
        """A person cancels in the last moment: no step comes after it that would ask."""

        def hear(self, step: Step) -> None:
            self.stop = True

    with pytest.raises(Cancelled):
        finish(decided, tmp_path / "2", 2, Deaf())
    assert list(tmp_path.iterdir()) == []


def test_a_verification_that_is_cancelled_is_no_verdict(one: Finished) -> None:
    assert str(verified(one, Watch())) == str(release.verify(one.folder / "release"))
    with pytest.raises(Cancelled):
        verified(one, Watch(stop=True))
    page = str(shelf_views.verification_view(one, verified(one, Watch()), None))
    assert "The release is what it claims to be" in page


async def until(test: Callable[[], bool]) -> None:
    for _ in range(2000):
        if test():
            return
        await asyncio.sleep(0.005)
    raise AssertionError


def test_a_tab_keeps_removes_and_recalls(decided: Decisions, tmp_path: Path) -> None:
    async def work() -> None:
        store = Store(tmp_path, Start())
        tab, other = (Tab(name * 16, tmp_path / (name * 16), store.shelf) for name in "ab")
        tab.decisions.set(decided)
        tab.protect()
        tab.protect()  # a second click while it runs
        await until(lambda: bool(tab._held().held))
        assert [f.number for f in tab._held().held] == [1]
        tab.stop()
        assert tab.ended() == TOO_LATE
        tab.change("option", "privacy.differential.epsilon", "2")
        tab.protect()
        await asyncio.sleep(0)
        await until(lambda: tab.watch() is not None)
        tab.stop()
        await until(lambda: tab.watch() is None)
        assert tab.ended() == CANCELLED
        assert tab.made() is not None  # the release before it has stayed
        assert [p.name for p in (tmp_path / "releases").iterdir()] == ["1"]
        other.remove(1)  # nobody was asked
        assert store.unsaved == 1
        tab.recall(1)
        assert history.decided(tab.now) == history.decided(decided)
        tab.undo()
        assert tab.now.values["privacy.differential.epsilon"] == "2"
        await store.taken(1)
        assert store.unsaved == 0
        tab.removing.set(1)
        tab.remove(1)
        assert (tab.made(), list((tmp_path / "releases").iterdir())) == (None, [])

    with reactive.isolate():
        asyncio.run(work())


# -- projects ---------------------------------------------------------------------------------------------------------


def test_a_project_is_saved_and_opened_again(one: Finished, decided: Decisions, tmp_path: Path) -> None:
    folder = projects.save_project(one, tmp_path / "new" / "mine", with_data=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    found = {p.name for p in folder.iterdir()}
    assert found == {"plan.toml", "codebook.toml", "release", "dossier", "survey.parquet", "project.json"}
    assert release.verify(folder / "release").ok
    with pytest.raises(PostrandError, match="exists"):
        projects.save_project(one, folder, with_data=False)

    async def work() -> None:
        tab = Tab("0" * 16, tmp_path / "work" / "tab")
        tab.typed["open"] = str(folder)
        await tab.open(projects.typed_path(tab.typed["open"]))
        assert tab.now.roles == decided.roles
        assert tab.made() is not None
        held = tab._held().held[0]
        assert (held.is_borrowed, held.changed(tab.now)) == (True, ())
        check = checking.checked(tab.now, tab.folder)
        assert check is not None
        assert check.is_ready  # what was decided about columns is in the plan
        assert all(name in str(data_views.variables(tab.now)) for name in ROLES)
        packed = held.file("release.zip")
        assert packed is not None
        assert tab.folder in packed.parents  # made when it is asked for, and not in the person's own folder
        tab.removing.set(1)
        tab.remove(1)
        assert not packed.exists()
        assert (folder / "release").is_dir()  # a person's own folder is only forgotten
        (folder / "plan.toml").write_text((folder / "plan.toml").read_text().replace("epsilon = 1.0", "epsilon = 2.0"))
        await tab.open(folder)
        assert tab.made() is None  # the release is not that of this plan

    with reactive.isolate():
        asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "words"), [("", "whole path"), ("mine", "whole path"), ("~/x\0", "whole path"), ("/nowhere", "")]
)
def test_a_path_that_is_none_is_explained(text: str, words: str, tmp_path: Path) -> None:
    if words:
        with pytest.raises(PostrandError, match=words):
            projects.typed_path(text)
    else:
        assert projects.plan_of(projects.typed_path(text)) == Path(text)
        with pytest.raises(PostrandError, match=r"no plan\.toml"):
            projects.plan_of(tmp_path)


# -- the private folder -----------------------------------------------------------------------------------------------

_HOLD = """
import sys, time, tempfile
from postrand.app.private_folder import private_folder
with private_folder() as folder:
    open(tempfile.mkdtemp() + "/upload.csv", "w").write("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_killed_workbench_leaves_nothing_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    held = [
        subprocess.Popen([sys.executable, "-c", _HOLD], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    killed, alive = (Path(p.stdout.readline().strip()) for p in held if p.stdout is not None)
    assert killed.stat().st_mode & 0o777 == 0o700
    assert [p.read_text() for p in killed.rglob("upload.csv")] == ["secret"]
    held[0].send_signal(signal.SIGKILL)
    held[0].wait()
    making = tmp_path / f"{private_folder.PREFIX}making"  # its process is just about to lock it
    making.mkdir(mode=0o700)
    (making / private_folder.OWNER).touch()
    assert private_folder.remove_left(tmp_path) == [killed]
    os.utime(making, (0, 0))
    assert private_folder.remove_left(tmp_path) == [making]
    assert [alive.exists(), killed.exists()] == [True, False]
    held[1].send_signal(signal.SIGKILL)
    held[1].wait()
    for process in held:
        assert process.stdout is not None
        process.stdout.close()
    assert private_folder.remove_left(tmp_path) == [alive]


def test_the_first_ctrl_c_warns_of_releases_that_would_be_lost() -> None:
    class Loaded(Late):
        lost = 2

        def unsaved(self) -> int:
            return self.lost

    said: list[str] = []
    import uvicorn  # the server's own library; the tests of views do not need it

    late = Loaded(Path(), None)
    server = Server(uvicorn.Config("x:y"), late, said.append)
    server.handle_exit(signal.SIGINT, None)
    assert not server.should_exit
    assert "2 releases are not saved" in said[0]
    server.handle_exit(signal.SIGINT, None)
    assert server.should_exit
    late.lost, free = 0, Server(uvicorn.Config("x:y"), late, said.append)
    free.handle_exit(signal.SIGINT, None)
    assert free.should_exit


def test_no_text_of_a_screen_is_markup(one: Finished) -> None:
    evil: Any = "<img src=x>"
    page = str(shelf_views.files_view(one, {"save:1": evil}, evil)) + str(shelf_views.open_form(evil))
    page += str(shelf_views.verification_view(one, evil, None))
    assert "<img" not in page


def test_a_completed_copy_has_plausible_values(decisions: Decisions) -> None:
    page = str(release_views.protect_form(decisions))
    assert "by a plausible value that is drawn" in page


def test_the_check_says_what_the_release_will_promise(decisions: Decisions, one: Finished, tmp_path: Path) -> None:
    assert one.check is not None
    assert one.check.promises == one.release.plain_claims
    page = str(check_view.check_view(one.decisions, one.check))
    assert all(html_escape(text)[:60] in page for text in one.check.promises)
    assert "will promise" not in str(check_view.check_view(one.decisions, one.check, decide=False))
    houses = act(act(decisions, "drop", value="3"), "role", "4", "household")
    told = checking.checked(houses, tmp_path)
    assert told is not None
    most = max(Counter(table()["town"].to_pylist()).values())
    assert told.levels[-1][0] == most
    page = str(check_view.check_view(houses, told))
    assert "Households, by their size" in page
    assert "members have epsilon" not in page


def test_a_variable_is_drawn_once_for_each_household(decisions: Decisions, tmp_path: Path) -> None:
    start = act(act(decisions, "drop", value="3"), "role", "4", "household")
    at = start.names.index("sex")
    assert "no variable has the role household" in houses.chosen(decisions, str(at), "true").problem
    joint = act(start, "block", str(start.names.index("area")), "sex")
    once = houses.chosen(joint, str(at), "true")
    assert houses.once(once) == ("sex",)
    assert all(len(one.variables) == 1 for one in once.blocks)  # a block describes the household or the record
    plan = designing.planned(houses.chosen(once, "most", "30"), tmp_path)
    assert (plan.unit.household_variables, plan.unit.largest_household) == (("sex",), 30)
    assert "the protection of whole households" in changes(joint, once)
    left = act(once, "role", "4", "drop")  # without a household number nothing is claimed of households
    assert "unit" not in documents.plan_data(left, tmp_path)
    assert "unit" not in documents.plan_data(houses.chosen(once, "", "false"), tmp_path)
    assert houses.chosen(once, "most", "many").problem
    persons = {"person": "who", "most_records": 3}  # a plan's own, which no form shows
    both = dataclasses.replace(once, kept={**once.kept, "unit": {**(houses.unit(once) or {}), **persons}})
    assert houses.unit(houses.chosen(both, "", "false")) == persons
    assert 'checked="checked"' not in str(houses_view.form(houses.chosen(both, "", "false")))
    assert houses.is_protected(houses.chosen(houses.chosen(both, "", "false"), "", "true"))


def test_a_sensitive_variable_that_is_released_as_it_is_is_named(decisions: Decisions, tmp_path: Path) -> None:
    check = checking.checked(decisions, tmp_path)
    assert check is not None
    page = str(check_view.check_view(decisions, check))
    assert "The role sensitive protects nothing by itself" in page
    assert "Released as they are: job." in page
    plain = act(decisions, "role", "2", "other")
    assert "protects nothing by itself" not in str(check_view.check_view(plain, check))


def test_a_second_release_is_said_to_add_up_beside_its_button(decided: Decisions, one: Finished) -> None:
    _, _, rest = str(release_views.protect_view(decided, None, "", one, one.check)).partition("Protect the file")
    assert "their levels add up" in rest.partition("Done")[0]
    assert "add up" not in str(release_views.protect_view(decided, None, "", None, one.check))
    assert release_screen.is_listed(one, one.decisions)
    assert not release_screen.is_listed(dataclasses.replace(one, check=None), one.decisions)  # opened again: show it


def test_what_only_a_plan_can_do_for_households_is_said(decisions: Decisions) -> None:
    found = Finding("household", (), ("sex",), "to draw it once, name it in [unit] household_variables")
    page = str(check_view.check_view(decisions, checking.ReleaseCheck((), Findings((found,)))))
    assert "household_variables. No form here does this: write it in the plan" in page
