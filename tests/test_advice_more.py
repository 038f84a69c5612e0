"""What more ε buys is told of the same tables at each level; tables without an estimate are no worth of 0."""

from types import SimpleNamespace
from typing import Any

import pytest

from postrand.app import frontier_views
from postrand.app.frontier import Level, Target
from postrand.report.table_worth import TableWorth, mean_worth
from postrand.workflow.advice_more import more_worth
from postrand.workflow.half_widths import Drawn

PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))


def trial(way: str, epsilon: float, *worths: float | None) -> Any:
    """What is asked of a trial: its worth for three tables of two variables."""
    found = tuple(TableWorth(names, worth, 1000) for names, worth in zip(PAIRS, worths, strict=True))
    return SimpleNamespace(
        candidate=SimpleNamespace(way=way),
        epsilon=epsilon,
        one_way=(),
        two_way=found,
        compared=lambda tables: [*tables],
    )


def test_more_epsilon_is_told_of_the_tables_that_have_an_estimate() -> None:
    first, more = trial("split", 5, 100, 300, None), trial("split", 6, 200, 600, None)
    told = more_worth(first, {6: more}, [])
    assert told.startswith(
        "the 2 of 3 tables of two variables that have an estimate would be worth 300 at epsilon = 6 ("
    )
    full = trial("split", 5, 100, 300, 300), trial("split", 6, 200, 600, 300)
    assert more_worth(full[0], {6: full[1]}, []).startswith(
        "tables of two variables would be worth 300 at epsilon = 6 ("
    )


@pytest.mark.parametrize("worths", [(None, None, None), (200.0, 600.0, 20.0), (200.0, None, 500.0)])
def test_no_mean_of_other_tables_is_told(worths: tuple[float | None, ...]) -> None:
    assert more_worth(trial("split", 5, 100, 300, None), {6: trial("split", 6, *worths)}, []) == ""


def test_of_a_split_for_the_tables_of_rules_these_are_told() -> None:
    way = "split for the tables of the rules first, one member of each household"
    first, more = trial(way, 5, 100, 300, None), trial(way, 6, 200, 600, 50)
    told = more_worth(first, {6: more}, [("b", "a"), ("c", "a")])
    assert told.startswith("tables of the rules are worth 150, and would be worth 300 at epsilon = 6 (")


def test_the_workbench_says_of_a_level_that_tables_have_no_estimate() -> None:
    one, two = [TableWorth((name,), 200.0, 1000) for name in "ab"], [TableWorth(("a", "b"), None, 1000)]
    law: Any = None
    said = mean_worth(200.0, one), mean_worth(0.0, two)
    level = Level("split", 2.0, 200.0, 0.0, None, law, Drawn(), said)
    row = str(frontier_views._row(level, None, Target(), None, ""))
    assert "<td>200</td>" in row
    assert "<td>0 (1 of 1 has no estimate)</td>" in row
