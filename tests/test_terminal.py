"""The terminal as a screen: lines that fit and break at words, tables that stay tables, and colour."""

import io
import re
import sys
import time

import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from postrand.cli import main, printing
from postrand.cli.printing import coloured, fitted, fitting
from postrand.support import progress
from postrand.support.progress import Stage, stage

VERIFIED = """ok    digests      every file has its size and SHA-256
FAIL  margins      the matrices cannot produce the released counts of these variables: sex, area, work, hours, pay
said  facts        stated by the curator, not checked: that the records were drawn with this mechanism
THE RELEASE DOES NOT VERIFY."""
ROWS = (
    ("Rule", "Limit", "Before", "After", "Result"),
    ("Records alone in their class, of all records of the file", "at most 1%", "46.3%", "0.97%", "pass"),
    ("Unperturbed records that a table of two is worth", "at least 50", "–", "1,234", "FAIL: sex × area"),
)
TABLE = "\n".join(
    f"{rule:<56}  {limit:>11}  {before:>8}  {after:>8}  {found}" for rule, limit, before, after, found in ROWS
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_break_at_words_below_their_text() -> None:
    assert fitted(VERIFIED, 60) == [
        "ok    digests  every file has its size and SHA-256",
        "FAIL  margins  the matrices cannot produce the released",
        "               counts of these variables: sex, area, work,",
        "               hours, pay",
        "said  facts    stated by the curator, not checked: that the",
        "               records were drawn with this mechanism",
        "THE RELEASE DOES NOT VERIFY.",
    ]
    assert fitted("- a claim in some words\n  more words that go on", 14) == [
        *("- a claim in", "  some words", "  more words", "    that go on"),
    ]
    command = "Next: postrand verify a/folder/with/a/long/name"
    assert fitted(command, 20) == [command]  # to be copied


def test_a_table_stays_a_table_or_becomes_a_list() -> None:
    assert fitted(TABLE, 200) == TABLE.split("\n")
    narrow = fitted(TABLE, 72)
    assert max(map(len, narrow)) <= 72
    assert narrow[0].split() == ["Rule", "Limit", "Before", "After", "Result"]
    ends = [re.search(r"46\.3%|Before", line) for line in narrow]
    assert len({found.end() for found in ends if found}) == 1  # numbers end below their heading
    listed = fitted(TABLE, 44)
    assert max(map(len, listed)) <= 44
    assert "  Before: 46.3%" in listed


@given(st.lists(st.lists(st.text("ab×", min_size=1, max_size=9), min_size=1, max_size=20), min_size=1, max_size=4))
def test_no_word_is_lost_or_broken_at_any_width(lines: list[list[str]]) -> None:
    text = "\n".join(" ".join(words) for words in lines)
    for width in (12, 40):
        pieces = fitted(text, width)
        assert " ".join(pieces).split() == text.split()
        assert all(len(piece) <= width for piece in pieces)


def test_only_a_terminal_is_fitted_and_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert fitting(VERIFIED, io.StringIO()) == VERIFIED
    shown = fitting(VERIFIED, Terminal())
    assert "\x1b[32mok\x1b[0m    digests" in shown
    assert "\x1b[31;1mFAIL\x1b[0m  margins" in shown
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).split("\n") == fitted(VERIFIED, 60)
    assert coloured("okay  then") == "okay  then"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            assert "\x1b" not in fitting(VERIFIED, Terminal())


def test_the_answer_and_the_errors_of_a_command_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    answer, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", answer)
    monkeypatch.setattr(sys, "stderr", errors)
    with pytest.raises(SystemExit):
        main.main(["verify", "no/such/folder/of/a/release/anywhere/at/all", "--json"])
    assert "\n  " in answer.getvalue()  # JSON is not wrapped: it is indented as always
    with pytest.raises(SystemExit):
        main.main(["verify", "no/such folder"])
    assert max(map(len, errors.getvalue().split("\n"))) <= 50


@pytest.mark.parametrize("name", [None, *sorted(main.commands)])
def test_help_fits_80_columns(name: str | None) -> None:
    words = ["--help"] if name is None else [name, "--help"]
    told = CliRunner().invoke(main, words, terminal_width=80, max_content_width=80)
    assert told.exit_code == 0
    assert [line for line in told.output.split("\n") if len(line) > 80] == []


def test_commands_and_options_are_completed() -> None:
    completer = get_completion_class("bash")
    assert completer is not None
    complete = completer(main, {}, "postrand", "_POSTRAND_COMPLETE").get_completions
    assert [found.value for found in complete([], "ver")] == ["verifier", "verify"]
    assert "--plan" in [found.value for found in complete(["protect"], "--p")]


def test_progress_never_says_that_all_is_done_and_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    with progress.shown(stream=screen, after=0.0):
        done = stage(Stage.COMPILING, 10)
        done(10)
        time.sleep(0.45)
    painted = [part for part in re.split(r"\r\x1b\[2K", screen.getvalue()) if part]
    assert painted
    assert max(map(len, painted)) < 40
    assert "100%" not in screen.getvalue()


def test_the_narrowest_terminal_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "3")
    assert max(map(len, fitting("words " * 30, Terminal()).split("\n"))) <= printing.NARROWEST
