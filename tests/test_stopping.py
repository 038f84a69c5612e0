"""Ctrl-C at many moments of many commands, each in a process of its own: one line, the shell's code, nothing left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.support.progress import Stage

SAID = "postrand: stopped by SIGINT\n"
STEP = re.compile(r"^postrand: .*, \d+ s\n", re.MULTILINE)
"""A line of progress: without a terminal there is one where a step takes seconds, as on a busy machine."""
HEAD = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal: a shell's background jobs ignore it
def stop(): os.kill(os.getpid(), signal.SIGINT)
"""
AT_STAGE = """
from postrand.cli import main
from postrand.support.progress import listening
with listening(lambda step: stop() if (step.stage, step.done > 0) == {moment} else None): main()
"""
AT_IMPORT = """
sys.addaudithook(lambda event, told: stop() if event == "import" and told[0] == {name!r} else None)
from postrand.cli import main
main()
"""
IN_LONG_CALL = """
import hashlib, threading
from postrand.cli import main
from postrand.support.progress import listening
def compute(step):  # minutes of one call that no signal ends
    if step.stage == {stage!r}:
        threading.Timer(0.3, stop).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)
with listening(compute): main()
"""


def call(*arguments: object) -> None:
    found = CliRunner().invoke(main, [str(a) for a in arguments])
    assert found.exit_code == 0, found.output


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey with its plan and its release."""
    folder = tmp_path_factory.mktemp("stopping")
    rng = np.random.default_rng(5)
    table = {name: rng.choice(["a", "b", "c"], 400) for name in ("sex", "job")}
    table["area"] = np.char.add("area ", np.minimum(rng.geometric(0.1, 400), 40).astype(str))  # with unique records
    pq.write_table(pa.table(table), folder / "survey.parquet")
    call("init", folder / "survey.parquet", "--out", folder, "--keys", "sex,area", "--sensitive", "job")
    call("protect", "--plan", folder / "plan.toml", "--out", folder / "release")
    return folder


def commands(work: Path, out: Path) -> dict[str, tuple[str, ...]]:
    plan = ("--plan", str(work / "plan.toml"))
    limit = ("--limit", "tau2 <= 0.01", "--sampling-fraction", "0.5")
    return {
        "protect": ("protect", *plan, "--out", str(out / "release"), "--dossier", str(out / "dossier")),
        "verify": ("verify", str(work / "release")),
        "estimate": ("estimate", str(work / "release"), "--table", "sex"),
        "assess": ("assess", str(work / "survey.parquet"), "--keys", "sex,area"),
        "design": ("design", *plan),
        "tune": ("tune", *plan, *limit),
    }


def ended(script: str, arguments: tuple[str, ...], out: Path) -> tuple[int, str]:
    """Run a script in a fresh process; return its exit code and what it said, after a look at what it left."""
    scratch = out / "scratch"
    scratch.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch)}
    command = [sys.executable, "-c", HEAD + script, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert [*scratch.iterdir()] == []
    scratch.rmdir()
    assert found.stdout == ""
    return found.returncode, STEP.sub("", found.stderr)


@pytest.mark.parametrize(
    ("name", "stage", "begun"),
    [
        ("protect", Stage.READING, False),
        ("protect", Stage.DESIGNING, False),
        ("protect", Stage.PERTURBING, False),
        ("protect", Stage.PERTURBING, True),
        ("protect", Stage.WRITING, False),
        ("protect", Stage.WRITING, True),
        ("protect", Stage.VERIFYING, True),
        ("protect", Stage.RISK, False),
        ("protect", Stage.REPORTS, False),
        ("verify", Stage.VERIFYING, True),
        ("estimate", Stage.ESTIMATING, False),
        ("assess", Stage.RISK, False),
        ("design", Stage.SINGLING, False),
        ("tune", Stage.TRYING, True),
    ],
)
def test_ctrl_c_in_each_stage_leaves_nothing(work: Path, tmp_path: Path, name: str, stage: Stage, begun: bool) -> None:
    before = sorted(work.rglob("*"))
    script = AT_STAGE.format(moment=(str(stage), begun))
    assert ended(script, commands(work, tmp_path)[name], tmp_path) == (128 + signal.SIGINT, SAID)
    assert [*tmp_path.iterdir()] == []
    assert sorted(work.rglob("*")) == before


@pytest.mark.parametrize("name", ["click", "postrand.cli.release", "numpy", "pyarrow", "postrand.workflow.pipeline"])
def test_ctrl_c_while_the_program_loads_is_one_line_at_most(work: Path, tmp_path: Path, name: str) -> None:
    code, said = ended(AT_IMPORT.format(name=name), commands(work, tmp_path)["protect"], tmp_path)
    assert code == 128 + signal.SIGINT
    assert said in ("", SAID)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("stage", [Stage.DESIGNING, Stage.WRITING, Stage.REPORTS])
def test_ctrl_c_ends_a_computation_that_hears_no_signal(work: Path, tmp_path: Path, stage: Stage) -> None:
    script = IN_LONG_CALL.format(stage=str(stage))
    assert ended(script, commands(work, tmp_path)["protect"], tmp_path) == (128 + signal.SIGINT, SAID)
    assert [*tmp_path.iterdir()] == []


def test_ctrl_c_after_the_work_changes_nothing(work: Path, tmp_path: Path) -> None:
    script = "import atexit\natexit.register(stop)\nfrom postrand.cli import main\nmain()"
    command = [sys.executable, "-c", HEAD + script, *commands(work, tmp_path)["protect"]]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (found.returncode, STEP.sub("", found.stderr)) == (0, "")
    assert re.match("release: ", found.stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dossier", "release"]
