"""The pages of the papers hold what is recomputed; a difference needs an explanation, and an agreement has none."""

from importlib import import_module

import pytest
from benchmarks.papers.items import CHECK, COUNTED, Item, row, start, table
from benchmarks.papers.pages import PAGES, PAPERS, counts, place

from tests.guides import run_examples


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_holds_what_is_recomputed(name):
    paper = import_module(f"benchmarks.papers.{name}")
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    _, _, *held = place(text, "printed values")
    for item, line in zip(paper.ITEMS, held, strict=True):
        assert line.startswith(start(item))
        assert item.slow or line == row(item)[1]
    for title, (head, rows) in paper.TABLES.items():
        assert place(text, title)[:2] == head
        for one, line in zip(rows, place(text, title)[2:], strict=True):
            assert line.startswith(one.start if one.slow else one.line(steady=True).removesuffix(" |"))
    for figure, (draw, slow) in paper.FIGURES.items():
        assert f"({name}-{figure}.svg)" in text
        assert slow or (PAGES / f"{name}-{figure}.svg").read_text(encoding="utf-8") == draw()


@pytest.mark.parametrize(
    ("printed", "value", "verdict"),
    [
        ("0.78", 0.775, "agrees"),  # half a unit of the last digit
        ("0.78", 0.7851, "not explained"),
        ("17%", 17.5, "agrees"),
        ("6.4e-7", 6.46e-7, "not explained"),
        ("65,536", 65536.0, "agrees"),
        ("about 4", (1.0, 3.4), "not explained"),
        ("about 4", (1.0, 3.5), "within the range"),
        ("4 6 0 0", "10 0 0 0", "not explained"),
    ],
)
def test_verdicts(printed, value, verdict):
    why = "none is known" if verdict == "not explained" else ""
    item = Item("§1", "x", printed, lambda: value, why, unexplained=True)
    assert row(item)[0] == verdict
    assert table([row(item)])[0] == f"1 printed values: 1 {COUNTED[verdict]}."
    with pytest.raises(ValueError, match="§1, x"):
        row(Item("§1", "x", printed, lambda: value, "" if why else "a reason"))


def test_what_is_no_printed_value_is_not_counted():
    shown = row(Item("", "at k = 4", "56%", lambda: 55.8, check=True))
    assert shown == (CHECK, "|  | at k = 4 | 56% | 55.8% | shows it |")
    assert table([shown])[0].startswith("0 printed values")


def test_the_index_has_the_counts_of_the_pages():
    assert place((PAGES / "README.md").read_text("utf-8"), "counts") == counts()


@pytest.mark.parametrize("name", ["chr.md", "ss.md"])
def test_the_example_of_a_page_runs(name):
    assert run_examples((PAGES / name).read_text("utf-8"), name) == 1
