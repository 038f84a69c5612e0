"""Stages of long work: to listeners of Python, to the terminal, and to nobody else."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import load_plan, release, risk, run
from postrand.errors import DataError
from postrand.support import progress
from postrand.support.progress import Stage, Step, listening, passing, paused, shown, stage, told
from postrand.workflow import dossier, draft
from postrand.workflow.plan_figures import figures_of

RECORDS = 70_000  # more than one batch


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    rng = np.random.default_rng(5)
    table = {name: rng.choice(["a", "b", "c"], RECORDS) for name in ("sex", "area", "job")}
    pq.write_table(pa.table(table), folder / "survey.parquet")
    roles = {"key": ("sex", "area"), "sensitive": ("job",)}
    return draft.initialise(folder / "survey.parquet", folder, roles)[1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_run_tells_its_stages_in_order_and_their_records(plan: Path, tmp_path: Path) -> None:
    steps: list[Step] = []
    made = run(load_plan(plan), tmp_path / "release", dossier=tmp_path / "dossier", progress=steps.append)
    stages = list(dict.fromkeys(step.stage for step in steps))
    known = [Stage.READING, Stage.DESIGNING, Stage.SINGLING, Stage.PERTURBING, Stage.WRITING, Stage.VERIFYING]
    known += [Stage.REPORTS]
    assert [one for one in stages if one in known] == known
    assert Stage.RISK in stages
    for one in (Stage.READING, Stage.PERTURBING, Stage.WRITING, Stage.VERIFYING):
        told_of = [step for step in steps if step.stage == one and step.unit == "records" and step.total]
        assert max(step.done for step in told_of) == RECORDS, one
        assert {step.total for step in told_of} == {RECORDS}, one
    assert len({step.done for step in steps if step.stage == Stage.PERTURBING}) > 2
    assert all(step.share is None or 0 <= step.share < 1 for step in steps)
    assert steps[-1].stage == Stage.REPORTS
    steps.clear()
    with listening(steps.append):
        release.verify(made.path)
        made.frame()
        risk.assess(pq.read_table(plan.parent / "survey.parquet"), ["sex", "area"])
    assert [*dict.fromkeys(step.stage for step in steps)] == [Stage.VERIFYING, Stage.READING, Stage.RISK]
    steps.clear()
    with listening(steps.append):
        figures_of(load_plan(plan))
    assert steps[-1].stage == Stage.RISK  # and not a reading that is long done


def test_a_listener_that_raises_stops_the_run_and_nothing_is_left(plan: Path, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def hear(step: Step) -> None:
        if step.stage == Stage.WRITING:
            raise Enough

    with pytest.raises(Enough):
        run(load_plan(plan), tmp_path / "release", dossier=tmp_path / "dossier", progress=hear)
    assert [*tmp_path.iterdir()] == []


def test_every_listener_hears_and_only_in_its_block() -> None:
    outer: list[Step] = []
    inner: list[Step] = []
    with listening(outer.append):
        with told(inner.append):
            stage("one", 2)(1)
        stage("two")
    stage("three")
    assert outer == [Step("one", 0, 2), Step("one", 1, 2), Step("two")]
    assert inner == outer[:2]


def test_a_pass_yields_its_batches_and_tells_their_records() -> None:
    steps: list[Step] = []
    batches = [pa.record_batch({"x": range(n)}) for n in (3, 2)]
    with listening(steps.append):
        assert [*passing(batches, Stage.COUNTING, 5)] == batches
    assert [step.done for step in steps] == [0, 3, 5]


def test_a_terminal_shows_the_stage_and_the_line_is_removed() -> None:
    terminal = Terminal()
    with shown(stream=terminal, after=0):
        done = stage(Stage.COUNTING, 1_000_000)
        done(1_000_000)
        while "counting" not in terminal.getvalue():
            time.sleep(0.01)
    *_, before, last = terminal.getvalue().split("\r\x1b[2K")
    assert before.startswith("counting: 1,000,000 of 1,000,000 records (99%), ")
    assert last == ""


def test_nothing_is_painted_over_a_question() -> None:
    terminal = Terminal()
    with shown(stream=terminal, after=0):
        while "working" not in terminal.getvalue():
            time.sleep(0.01)
        with paused():
            before = terminal.getvalue()
            time.sleep(0.5)
            assert terminal.getvalue() == before
        assert before.endswith("\r\x1b[2K")
    with paused():  # where nothing is shown, nothing changes
        pass


@pytest.mark.parametrize("quiet", [True, False])
def test_memory_and_json_get_nothing(quiet: bool) -> None:
    stream = Terminal() if quiet else io.StringIO()
    with shown(quiet=quiet, stream=stream, after=0):
        stage(Stage.COUNTING, 10)(10)
        time.sleep(0.3)
    assert stream.getvalue() == ""


def test_a_file_gets_a_line_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOGGED", 0.02)
    with (tmp_path / "log").open("w", encoding="utf-8") as stream, shown(stream=stream):
        stage(Stage.COUNTING, 10)(10)
        while stream.tell() < 30:
            time.sleep(0.01)
    first, *_ = (tmp_path / "log").read_text("utf-8").splitlines()
    assert first.startswith("postrand: counting: 10 of 10 records (99%), ")


def test_short_work_shows_nothing() -> None:
    terminal = Terminal()
    with shown(stream=terminal, after=60):
        stage(Stage.COUNTING, 10)(10)
    assert terminal.getvalue() == ""


def test_the_dossier_is_computed_beside_the_draws_and_its_error_leaves_nothing(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[bool] = []
    usual = dossier.collect

    def collect(*about: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return usual(*about)

    monkeypatch.setattr(dossier, "collect", collect)
    made = {}
    for name, engine in (("beside", None), ("before", "duckdb")):
        run(load_plan(plan), tmp_path / name, dossier=tmp_path / f"{name}-d", engine=engine, release_key=bytes(32))
        made[name] = json.loads((tmp_path / f"{name}-d" / "dossier.json").read_text())
    assert where == [False, True]
    assert made["beside"] == made["before"]

    def refused(*about: Any) -> Any:
        raise DataError("no")

    monkeypatch.setattr(dossier, "collect", refused)
    with pytest.raises(DataError, match="no"):
        run(load_plan(plan), tmp_path / "failed", dossier=tmp_path / "failed-d")
    assert not [*tmp_path.glob("*failed*")]
