"""What one guarantee buys three ways: against all partitions and divisions, and as text and plain data."""

import itertools
import json
import math

import numpy as np
import pytest

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.designers import TablePrior, compare_split
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.comparison import compare_ways, quick_split
from postrand.designers.split.fixed_blocks import Blocks, partitions
from tests.split_cases import book_of


def problem_of(seed, many, epsilon, workload="pairs"):
    random = np.random.default_rng(seed)
    book = book_of(*random.integers(2, 6, many))
    prior = {(v.name,): random.dirichlet(np.ones(v.size)) for v in book.variables}
    return Blocks(candidates_of(book, None, workload, (), 65_536, prior), epsilon)


def divisions(parts, steps):
    """Yield every division of 1 into so many parts of at least one step."""
    for cuts in itertools.combinations(range(1, steps), parts - 1):
        yield np.diff([0, *cuts, steps]) / steps


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [2.0, 6.0])
def test_no_partition_and_division_on_a_grid_is_better(seed, epsilon):
    problem = problem_of(seed, 4, epsilon)
    best = math.inf
    for parts in partitions(problem.start):
        blocks = tuple(problem.ordered([n for group in part for n in group]) for part in parts)
        for division in divisions(len(blocks), 24):
            best = min(best, problem.valued(blocks, epsilon * division).value)
    assert problem.best_of_all().value <= best * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_the_search_of_many_variables_is_near_all_partitions(seed):
    problem = problem_of(seed, 6, 5.0)
    every, found = problem.best_of_all().value, problem.merged(problem.start).value
    assert every * (1 - 1e-2) <= found <= every * 1.05


def test_all_pairs_at_once_are_the_tables_one_by_one():
    """The same tables, once as pairs and once beside a table of one variable that has hardly any weight."""
    fast = problem_of(3, 5, 4.0)
    slow = problem_of(3, 5, 4.0)
    assert fast._pairs is not None
    slow._pairs = None
    blocks, epsilons = (("a", "c"), ("b",), ("d", "e")), np.array([2.0, 1.0, 1.0])
    assert fast.valued(blocks, epsilons).value == pytest.approx(slow.valued(blocks, epsilons).value, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 9.0])
def test_the_quick_answer_is_no_more_than_the_best(epsilon):
    for sizes in ((2, 3), (2, 3, 4, 2, 5), (2,) * 9):
        book = book_of(*sizes)
        found = quick_split(book, book.names, epsilon)
        best = pr.split_design(book, epsilon=epsilon)
        assert found.split == pytest.approx(1 / best.value, rel=1e-9)
        assert found.together == (len(best.subsets) == 1)
        assert found.separate <= 1 / compare_split(book, epsilon=epsilon).separate.value * (1 + 1e-9)


def test_the_quick_answer_of_many_variables_is_that_of_their_pairs():
    """Thirty alike variables, each table from a subset of its own: 435 subsets share the records."""
    book = Codebook(tuple(Variable(f"v{k}", "other", tuple(map(str, range(8)))) for k in range(30)))
    keep = (math.exp(5) - 1) / (math.exp(5) + 63)
    assert quick_split(book, book.names, 5.0).split == pytest.approx(keep**2 / 435, rel=1e-9)


def test_variables_that_rules_link_are_compared_too():
    book = book_of(2, 3, 2, rules=(Rule({"a": "a0", "b": "b1"}),))
    found = quick_split(book, book.names, 3.0)
    assert 0 < found.separate < found.split < 1


def test_text_and_plain_data_say_the_same():
    book = book_of(2, 3, 4, 3, 2)
    found = compare_split(book, epsilon=5.0, n=20_000)
    data = json.loads(json.dumps(found.to_dict()))
    assert data["best"] == found.best == "split"
    assert data["records"] == 20_000
    assert data["effective_records"]["split"] == pytest.approx(20_000 / found.split.value)
    lines = found.text().splitlines()
    assert lines[0].startswith("What ε = 5 buys for 5 variables: 20,000 released records")
    assert [" (best)" in line for line in lines[1:]] == [False, False, True]
    assert f"{20_000 / found.split.value:,.0f}" in lines[3]
    prior = TablePrior({("a",): np.array([123456.0, 654321])})
    assert "123456" not in compare_split(book, epsilon=5.0, prior=prior).text()


def test_ways_that_are_alike_name_the_simpler_one():
    assert compare_split(book_of(2, 3), epsilon=3.0).best == "joint"


def test_advice_says_why_there_is_none_and_how_many_variables_are_compared():
    data, text = compare_ways(book_of(2), ("a",), 1.0)
    assert "needs 2 variables" in data["not_compared"][0]
    assert text.startswith("Blocks and a split release are not compared")
    kept = Codebook((*book_of(2).variables, Variable("z", "other", ("0", "1"), missing="keep")))
    assert "keeps missing values" in compare_ways(kept, kept.names, 1.0)[1]
    many = book_of(*[3] * 12)
    data, text = compare_ways(many, many.names, 12.0, n=5000)
    assert data["best"] == "split"
    assert data["effective_records"]["split"] == pytest.approx(5000 / pr.split_design(many, epsilon=12.0).value)
    assert "12 variables: 5,000 released records" in text
