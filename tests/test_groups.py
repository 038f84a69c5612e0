"""What keeps the tests of a file on one worker works with the locked versions of pytest and xdist."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

CONFTEST = """
import os
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(autouse=True)
def noted(request):
    with Path("workers.txt").open("a") as file:
        file.write(f"{request.node.path.stem} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""
TESTS = "import pytest, time\n\n@pytest.mark.parametrize('k', range(6))\ndef test(k):\n    time.sleep(.01)\n"


def test_the_tests_of_a_file_run_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS, "utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    ran = subprocess.run(words, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = defaultdict(set)
    for line in (tmp_path / "workers.txt").read_text("utf-8").splitlines():
        file, _, worker = line.partition(" ")
        workers[file].add(worker)
    assert [len(workers[name]) for name in sorted(workers)] == [1, 1, 1, 1], dict(workers)
    assert len(set.union(*workers.values())) == 2  # and the files are dealt out over both
