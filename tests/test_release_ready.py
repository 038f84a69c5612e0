"""What `make release` asks of a version is asked, and the version of today is one."""

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
