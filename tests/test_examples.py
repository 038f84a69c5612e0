"""Every example runs as it is, from an empty folder, and finds what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "data"
PEOPLE, RULES = SHARED / "ny_pums_2000_sample.csv", SHARED / "ny_structural_zeros.csv"


def run(folder, *command):
    """Return what an example prints; it must end well."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": programs}
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_page_names_every_example():
    named = re.findall(r"\]\((\S+?)\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(named) == sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh", ".R"})


def test_a_survey_by_commands(tmp_path):
    printed = run(tmp_path, "sh", EXAMPLES / "survey.sh")
    assert "sample uniques        835" in printed
    assert (tmp_path / "release" / "certificate.json").exists()


def test_a_household_panel(tmp_path):
    printed = run(tmp_path, sys.executable, EXAMPLES / "household_panel.py")
    assert printed.count("verified: True") == 2
    assert "protected at ε <= 8 in total" in printed


def test_a_geography(tmp_path):
    printed = run(tmp_path, sys.executable, EXAMPLES / "geography.py")
    assert "ε-privacy of at most ε d, ε <= 1.2" in printed


def test_a_survey_by_randomised_response(tmp_path):
    printed = run(tmp_path, sys.executable, EXAMPLES / "randomised_response.py")
    assert "ε = 1.609" in printed
    assert "Logistic regression: affair ~ age + religious" in printed


@pytest.mark.skipif(not PEOPLE.exists(), reason="the shared data are not there")
def test_new_york(tmp_path):
    printed = run(tmp_path, sys.executable, EXAMPLES / "new_york.py", PEOPLE, RULES)
    assert "ε-differential privacy, ε <= 6" in printed


@pytest.mark.r
def test_completed_files_in_r(tmp_path):
    run(tmp_path, "sh", EXAMPLES / "completed.sh")
    assert "naive_se" in run(tmp_path, "Rscript", EXAMPLES / "completed.R")
