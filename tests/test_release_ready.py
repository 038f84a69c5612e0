"""What `make release` asks of a version is asked, and the version of today is one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import vulnerabilities
from tests.conftest import ROOT
from tests.release import problems, sections, versions

READY = [("Unreleased", "", ""), ("1.2.0", "2026-01-31", "### Added\n\n- x")]
STATED = {"pyproject.toml": "1.2.0", "postrand": "1.2.0", "CITATION.cff": "1.2.0"}


def test_a_version_that_is_ready_has_no_problem():
    assert list(problems(STATED, READY, "")) == []


def test_each_thing_that_is_missing_is_named():
    late = [("Unreleased", "", "- y"), ("1.1.0", "2026-01-31", "- x")]
    found = list(problems({**STATED, "CITATION.cff": "1.1.0"}, late, " M a\n?? b\n"))
    assert [line.split(":")[0] for line in found] == ["CITATION.cff", "CHANGELOG.md", "CHANGELOG.md", "git"]
    assert found[-1].endswith("2 files are not committed")
    assert list(problems(STATED, [("1.2.0", "soon", "")], "")) == [
        "CHANGELOG.md: no section '## [1.2.0] - YEAR-MONTH-DAY'"
    ]


def test_today_there_is_one_version_and_a_changelog_that_can_be_read():
    stated = versions()
    assert len({*stated.values()}) == 1
    found = sections((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert found[0][0] == "Unreleased"
    assert all(name == "Unreleased" or date for name, date, _ in found)


TOOL = """#!{python} -S
import json, sys
pins = open(sys.argv[sys.argv.index("--requirement") + 1]).read().split()
if set(pins) & set({broken}):
    sys.exit("no route")
vulns = [{{"id": "CVE-1", "fix_versions": ["2"]}}]
told = [dict(zip(("name", "version"), pin.split("==")), vulns=vulns * (pin in {bad})) for pin in pins]
print(json.dumps({{"dependencies": told + [{{"name": "d", "skip_reason": "not there"}}] * {gone}}}))
"""
LISTS, CONTROL = [["a==1", "b==1"], ["b==2"]], vulnerabilities.CONTROL


@pytest.fixture
def tool(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A program that answers as pip-audit does, for a list that knows the ``bad`` versions and not those ``gone``."""
    path, (bad, broken, gone) = tmp_path / "tool", request.param
    path.write_text(TOOL.format(python=sys.executable, bad=bad, broken=broken, gone=gone), encoding="utf-8")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("tool", "said", "failed"),
    [
        (([CONTROL], [], 0), "vulnerabilities: none published of 3 locked versions", False),
        (([CONTROL, "b==2"], [], 0), "b 2: CVE-1, mended in 2", True),
        (([CONTROL], [], 1), "d: not asked for: not there\nd: not asked for: not there", True),
        (([CONTROL], ["b==2"], 0), "vulnerabilities: the list answered, and then no more; ask again: no route", True),
    ],
    indirect=["tool"],
)
def test_what_a_list_knows_is_an_error(tool: str, said: str, failed: bool) -> None:
    assert vulnerabilities.result(tool, LISTS, required=False) == (said, failed)


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ((["a==1"], [], 0), f"the list that answers does not know those of {CONTROL}"),
        (([], [CONTROL], 0), "no route"),
    ],
    indirect=["tool"],
)
def test_a_list_that_cannot_be_asked_is_said_and_an_error_where_an_answer_is_required(tool: str, why: str) -> None:
    said = f"vulnerabilities: NOTHING WAS ASKED: {why}; "
    assert vulnerabilities.result(tool, LISTS, required=False) == (said + "last run: docs/platforms.md", False)
    more = "to go on without: VULNERABILITIES=optional"
    assert vulnerabilities.result(tool, LISTS, required=True) == (said + more, True)
    assert vulnerabilities.result(tool + " is not there", LISTS, required=True)[1]


def test_what_nobody_has_to_mend_is_named_until_the_list_forgets_it() -> None:
    told = [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": []}]}]
    assert list(vulnerabilities.problems(told, {})) == ["a 1: CVE-1, mended in no version"]
    gone = "CVE-2: is in tests/vulnerabilities.py, and not in the list"
    assert list(vulnerabilities.problems(told, {"CVE-1": "x", "CVE-2": "y"})) == [gone]


def test_all_versions_of_the_locks_are_asked_for() -> None:
    texts = ["a==1 ; python_full_version < '3.12' \\\n    --hash=x\na==2 \\\nb==1", "a==1\n"]
    assert vulnerabilities.locked(texts) == [["a==1", "b==1"], ["a==2"]]


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("check", "optional"),
        ("check VULNERABILITIES=required", "required"),
        ("vulnerabilities", "required"),
        ("release", "required"),
        ("release VULNERABILITIES=optional", "optional"),
    ],
)
def test_make_asks_for_vulnerabilities(words: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VULNERABILITIES", "MAKEFLAGS", "MAKELEVEL"):  # the tests are themselves run by make
        monkeypatch.delenv(name, raising=False)
    shown = subprocess.run(["make", "-n", *words.split()], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asks = [line.split()[-1] for line in shown.splitlines() if "-m tests.vulnerabilities" in line]
    assert asks == [how]
