"""The examples of the bistochastic guide run."""

import doctest

from tests.conftest import ROOT


def test_the_guide_s_examples_run():
    outcome = doctest.testfile(str(ROOT / "docs" / "bistochastic.md"), module_relative=False, encoding="utf-8")
    assert outcome.attempted >= 6
    assert outcome.failed == 0
