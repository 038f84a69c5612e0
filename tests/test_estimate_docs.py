"""The analyst's guide: every example runs and prints what the guide shows."""

import contextlib
import io
import re

import pytest

from tests.conftest import ROOT

pytest.importorskip("statsmodels")
GUIDE = ROOT / "docs" / "analyst.md"


def examples(text: str) -> list[tuple[str, str]]:
    """Each Python block with the text block that follows it."""
    return re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S)


def test_examples_print_what_the_guide_shows():
    names: dict[str, object] = {}
    found = []
    for code, _ in examples(GUIDE.read_text("utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(GUIDE), "exec"), names)
        found.append(printed.getvalue())
    assert found == [shown for _, shown in examples(GUIDE.read_text("utf-8"))]
    assert len(found) == 7
