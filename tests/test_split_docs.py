"""The pages on split designs say what the library does: their examples run, their figures are computed again."""

import re

import pytest

import postrand as pr
from postrand.designers import TablePrior, compare_split, fewest_subsets, least_epsilon
from tests.conftest import ROOT
from tests.guides import blocks, executed
from tests.split_cases import HAPPY, book_of, happiness

SPLIT = (ROOT / "docs" / "split.md").read_text("utf-8")
CHOOSING = (ROOT / "docs" / "choosing.md").read_text("utf-8")
DESIGN = SPLIT[SPLIT.index("## How to design") : SPLIT.index("## In a plan")]


def test_the_examples_of_a_design_run():
    names: dict[str, object] = {}
    printed = "".join(executed(text, "split.md", names) for kind, text, _ in blocks(SPLIT) if kind == "python")
    assert "subsets at ε = 4" in printed
    assert "What ε = 4 buys for 4 variables: 10,000" in printed
    names["postrand"] = pr
    calls = re.findall(r"^- `(postrand\.designers\.[^`]*)`", DESIGN, re.MULTILINE)
    found = [eval(compile(call, "split.md", "eval"), names) for call in calls]
    assert isinstance(found[0], type(least_epsilon(book_of(2), {"a": 0.05}, 1000)))
    assert isinstance(found[1], type(fewest_subsets(book_of(2), {"a": 0.05}, 1000, 4.0)))
    assert len(found[2].points) == 4


def test_the_table_of_the_social_survey():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d,]+) \|$", SPLIT, re.MULTILINE)
    assert len(rows) == 2
    book, _, tables = happiness()
    for epsilon, joint, split in rows:
        found = compare_split(book, HAPPY, float(epsilon), prior=TablePrior(tables)).effective_records(17_137)
        assert found["joint"] == pytest.approx(float(joint), rel=0.02)
        assert found["split"] == pytest.approx(float(split.replace(",", "")), rel=5e-3)


def test_the_table_of_the_three_ways():
    part = CHOOSING[CHOOSING.index("## Blocks or a split release?") :]
    row = r"^\| ([\d, ]+) \| (\d+) \| ([\d.]+) \| ([\d.]+)(?:, one block)? \| ([\d.]+)(, one subset)? \|$"
    rows = re.findall(row, part, re.MULTILINE)
    assert len(rows) == 6
    for sizes, epsilon, *worth, one in rows:
        found = compare_split(book_of(*map(int, sizes.split(","))), epsilon=float(epsilon))
        each = found.effective_records()
        for name, said in zip(("separate", "joint", "split"), worth, strict=True):
            assert each[name] == pytest.approx(float(said), rel=0.06, abs=0.05), (sizes, name)
        assert (len(found.split.subsets) == 1) == bool(one)
