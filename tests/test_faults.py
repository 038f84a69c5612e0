"""Some calls to the system fail in the midst of `protect`, where they hurt most; `make faults` tries all."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks.faults import CASES, SECRET, start

from tests.conftest import ROOT

CHOSEN = r"""
write\ /\.release\S*/data\.csv\ \(1\):\ (killed|short)
| create\ /\.release\S*/manifest.json\ .*ENOSPC
| write\ /key\.ledger\ .*(short|EIO)
| rename\ .*(killed|EIO)
"""
THREADS = "|thread process \\(15\\)"
"""Arrow before 26 ends the process where it is refused a thread: nothing is left behind, but without a sentence."""


@pytest.mark.skipif(sys.platform != "linux", reason="the library of faults is for Linux")
def test_calls_that_fail_leave_no_release_or_a_whole_one(tmp_path: Path) -> None:
    chosen = re.sub(r"(?<!\\)\s", "", CHOSEN) + (THREADS if int(pa.__version__.partition(".")[0]) >= 26 else "")
    done = start(tmp_path, "protect", "--only", chosen, stdout=subprocess.PIPE, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert '"defects": 0' in done.stdout
    assert set(CASES) == {"protect", "complete", "verify"}
    assert SECRET not in done.stdout
