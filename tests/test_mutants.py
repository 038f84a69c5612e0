"""What `make mutants` changes, and that survivors which have a reason are mutants of today's core."""

import ast
import os
import subprocess
import sys

import pytest
from benchmarks.mutants import __main__ as program
from benchmarks.mutants.__main__ import SURVIVORS, core, estimated, load, reasons
from benchmarks.mutants.operators import Module

from tests.conftest import ROOT

SOURCE = """
LIMIT = 2

@property
def level(x, y=1):
    if x < LIMIT and not y:
        raise ValueError(sentence("small", got=3))
    return math.nextafter(max(x, y, *zip(x, y, strict=True)), math.inf)
"""

RECORDED = """
import pytest
from law import one, two

@pytest.fixture(scope="module")
def made():
    return one()

def test_first(made):
    assert made == 1

def test_second(made):
    assert made + two() == 3

def test_wrong():
    assert two() == 3
"""
PLUGIN = """
from pathlib import Path
from benchmarks.mutants.recorder import Recorder

def pytest_configure(config):
    config.pluginmanager.register(Recorder(Path({out!r}), Path({root!r}), ["law.py"]))
"""


def test_conditions_numbers_roundings_and_refusals_are_changed(tmp_path):
    (tmp_path / "law.py").write_text(SOURCE, "utf-8")
    made = [(mutant.function, mutant.what) for mutant in Module.read(tmp_path, "law.py").mutants]
    assert ("LIMIT", "2 => 3") in made
    for change in (
        "x < LIMIT => x <= LIMIT",
        "x < LIMIT => x >= LIMIT",
        "x < LIMIT and (not y) => x < LIMIT or not y",
        "x < LIMIT and (not y) => not y",
        "not y => y",
        "max => min",
        "math.inf => -math.inf",
        "return math.nextafter(max(x, y, *zip(x, y, strict=True)), math.inf) => return None",
        "raise ValueError(sentence('small', got=3)) => left out",
    ):
        assert ("level", change) in made
    assert not any("3 =>" in what for _, what in made if what.startswith("3"))
    assert not any(what.startswith("True") for _, what in made)  # strict: an assertion


@pytest.mark.parametrize("place", range(5))
def test_an_edit_changes_one_place(tmp_path, place):
    (tmp_path / "law.py").write_text(SOURCE, "utf-8")
    module = Module.read(tmp_path, "law.py")
    before = ast.unparse(module.tree).splitlines()
    module.mutants[place].edit()
    after = ast.unparse(module.tree).splitlines()
    assert sum(one != two for one, two in zip(before, after, strict=True)) == 1


def test_survivors_with_a_reason_are_mutants_of_the_core():
    named = set(reasons())
    paths = {name.partition(" ")[0] for name in named}
    assert paths <= set(core())
    assert all((ROOT / path).is_file() for path in core())
    made = {mutant.name for path in paths for mutant in Module.read(ROOT, path).mutants}
    assert named - made == set()
    lines = SURVIVORS.read_text("utf-8").splitlines()[1:]
    kinds = [line.partition(" ## ")[2].partition(": ") for line in lines if line]
    assert all(kind in ("same", "open") and len(why) > 20 for kind, _, why in kinds)


def test_the_rate_weighs_files_by_their_mutants():
    """By hand: 0.9 * 300/400 + 0.5 * 100/400; with all mutants tried there is no error."""
    rate, error = estimated([(300, 10, 9), (100, 10, 5), (50, 0, 0)])
    assert rate == pytest.approx(0.8)
    by_hand = 0.75**2 * (10 / 12) * (2 / 12) / 10 * (1 - 10 / 300) + 0.25**2 * 0.25 / 10 * 0.9
    assert error == pytest.approx(by_hand**0.5)
    assert estimated([(10, 10, 9)]) == (pytest.approx(0.9), 0.0)
    assert estimated([]) == (0, 0)


def test_what_a_shared_fixture_runs_counts_for_all_of_its_tests(tmp_path, monkeypatch):
    """Recorded in a process of its own, with a test that fails, which is left out."""
    folder, out = tmp_path / "project", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    (folder / "law.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n", "utf-8")
    (folder / "test_law.py").write_text(RECORDED, "utf-8")
    (folder / "conftest.py").write_text(PLUGIN.format(out=str(out), root=str(folder)), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_law.py"]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    monkeypatch.setattr(program, "test_files", lambda: ["test_law.py"])
    lines, seconds, failed = load(out)
    tests = {f"test_law.py::test_{name}" for name in ("first", "second")}
    assert seconds.keys() == tests
    assert lines["law.py"][2] == tests
    assert lines["law.py"][6] == {"test_law.py::test_second"}
    assert failed == ["test_law.py::test_wrong"]
