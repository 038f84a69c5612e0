"""The analyst's guide: every example runs and prints what the guide shows."""

import pytest

from tests.conftest import ROOT
from tests.guides import run_examples

pytest.importorskip("statsmodels")


def test_examples_print_what_the_guide_shows():
    assert run_examples((ROOT / "docs" / "analyst.md").read_text("utf-8"), "analyst.md") == 7
