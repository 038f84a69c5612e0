"""The least ε for stated half-widths, the frontier, and what the same guarantee buys as blocks."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import postrand as pr
from postrand.codebook.rules import Rule
from postrand.designers import TablePrior, compare_split, least_epsilon, split_frontier
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.fixed_blocks import Blocks, partitions
from postrand.errors import DesignError
from tests.split_cases import HAPPY, book_of, covariance_trace, happiness


def joint_of(book, seed=1):
    shape = tuple(v.size for v in book.variables)
    return np.random.default_rng(seed).dirichlet(np.full(math.prod(shape), 0.8)).reshape(shape)


# The least ε.


def test_the_worst_cell_just_meets_its_half_width():
    book = book_of(2, 3, 2)
    joint = joint_of(book)
    found = least_epsilon(book, {("a", "b"): 0.03, ("c",): 0.02}, 5000, prior={book.names: joint})
    worst = max(found.widths["a", "b"].max() / 0.03, found.widths["c",].max() / 0.02)
    assert 0.99 < worst <= 1
    assert found.epsilon * (1 - 2e-3) < found.impossible < found.epsilon
    for table, axes in ((("a", "b"), (2,)), (("c",), (0, 1))):
        truth = joint.sum(axis=axes)
        information = np.zeros(truth.shape)
        for subset, weight in found.subsets:
            if set(table) <= set(subset):
                matrix = pr.randomised_response(math.prod(book[n].size for n in subset), found.epsilon)
                keep = matrix.array[0, 0] - matrix.array[0, 1]
                q = keep * truth + (1 - keep) / truth.size
                information += weight / 2**53 * keep**2 / (q * (1 - q))
        widths = norm.ppf(0.975) / np.sqrt(5000 * information)
        assert found.widths[table] == pytest.approx(widths, rel=1e-6)


def test_one_table_needs_the_epsilon_of_its_closed_form():
    """One table of two alike cells: V = q(1-q)/λ² = 1/(4λ²), λ = tanh(ε/2)."""
    found = least_epsilon(book_of(2), {"a": 0.02}, 10_000)
    keep = norm.ppf(0.975) / (2 * 0.02 * 100)
    assert found.epsilon == pytest.approx(2 * math.atanh(keep), rel=1.1e-3)
    assert found.epsilon >= 2 * math.atanh(keep)
    assert found.impossible <= 2 * math.atanh(keep)


def test_each_cell_may_have_its_own_half_width():
    book = book_of(2, 3)
    one = least_epsilon(book, {("a", "b"): 0.02}, 10_000)
    same = least_epsilon(book, {("b", "a"): np.full((3, 2), 0.02)}, 10_000)
    assert same.epsilon == one.epsilon
    wide = np.full((3, 2), 0.05)
    wide[2, 1] = 0.02
    assert least_epsilon(book, {("b", "a"): wide}, 10_000).epsilon <= one.epsilon


def test_core_and_more_tables_need_more():
    book = book_of(2, 3, 3, 2)
    base = least_epsilon(book, {("a", "b"): 0.03}, 5000).epsilon
    assert least_epsilon(book, {("a", "b"): 0.03, ("c", "d"): 0.03}, 5000).epsilon > base
    assert least_epsilon(book, {("a", "b"): 0.03}, 5000, core=["c"]).epsilon > base


def test_refused_half_widths():
    book = book_of(2, 3)
    cases = [
        (lambda: least_epsilon(book, {("a", "b"): 0.001}, 1000), "even unperturbed records"),
        (lambda: least_epsilon(book, {("a", "b"): -1}, 1000), "not a number above 0"),
        (lambda: least_epsilon(book, {("a", "b"): [0.1, 0.2]}, 1000), "do not fit"),
        (lambda: least_epsilon(book, {}, 1000), "not a mapping"),
        (lambda: least_epsilon(book, {("a", "b"): 0.1}, 0), "number of records"),
        (lambda: least_epsilon(book, {("a", "b"): 0.1}, 1000, level=1.0), "not between 0 and 1"),
    ]
    for call, words in cases:
        with pytest.raises(DesignError, match=words):
            call()


# The frontier.


def test_more_epsilon_is_worth_more():
    found = split_frontier(book_of(2, 3, 4), [4, 1, 2, 8], n=5000)
    shares = [p.share for p in found.points]
    assert [p.epsilon for p in found.points] == [1, 2, 4, 8]
    assert shares == sorted(shares)
    assert all(p.share <= p.bound * (1 + 1e-12) and p.bound <= 1 for p in found.points)
    assert len(found.text().splitlines()) == 5
    assert found.to_dict()["points"][0]["epsilon"] == 1
    with pytest.raises(DesignError, match="no epsilon"):
        split_frontier(book_of(2, 3), [])


# Blocks.


@pytest.mark.parametrize(("epsilon", "worth", "split"), [(4.0, 1.7, 164), (8.0, 58, 2163)])
def test_known_worth_of_blocks_of_the_social_survey(epsilon, worth, split):
    book, _, tables = happiness()
    found = compare_split(book, HAPPY, epsilon, prior=TablePrior(tables))
    records = found.effective_records(17_137)
    assert found.exhaustive
    assert found.best == "split"
    assert records["joint"] == pytest.approx(worth, rel=0.02)
    assert records["separate"] < records["joint"]
    assert records["split"] == pytest.approx(split, rel=5e-3)
    assert math.fsum(found.joint.epsilons) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("ruled", [False, True])
def test_value_of_blocks_is_the_covariance_by_enumeration(ruled):
    rules = (Rule({"a": "a0", "b": ["b1", "b2"]}),) if ruled else ()
    book = book_of(2, 3, 2, rules=rules)
    joint = joint_of(book)
    joint[0, 1:] *= not ruled
    joint /= joint.sum()
    given = candidates_of(book, None, "pairs", (), 100, {book.names: joint})
    blocks, epsilons = (("a", "b"), ("c",)), np.array([2.0, 1.0])
    value = Blocks(given, 3.0).valued(blocks, epsilons).value
    cells = [c for c in itertools.product(range(2), range(3)) if not (ruled and c[0] == 0 and c[1] > 0)]
    both = [(*c, k) for c in cells for k in range(2)]
    matrix = np.kron(pr.randomised_response(len(cells), 2.0).array, pr.randomised_response(2, 1.0).array)
    total = 0.0
    for table in itertools.combinations(book.names, 2):
        trace = covariance_trace(joint, list(book.names), list(book.names), matrix, list(table), both)
        axes = tuple(k for k, n in enumerate(book.names) if n not in table)
        total += trace / (1 - (joint.sum(axis=axes) ** 2).sum()) / 3
    assert value == pytest.approx(total, rel=1e-9)


def test_one_block_is_a_split_release_of_one_subset():
    book = book_of(2, 3)
    found = compare_split(book, epsilon=3.0)
    assert found.joint.blocks == (("a", "b"),)
    assert found.joint.value == pytest.approx(found.split.value, rel=1e-9)


def test_rules_keep_variables_in_one_block():
    book = book_of(2, 3, 2, rules=(Rule({"a": "a0", "b": "b1"}),))
    found = compare_split(book, epsilon=3.0)
    assert all(("a" in block) == ("b" in block) for block in found.separate.blocks)


def test_merging_many_variables_helps():
    found = compare_split(book_of(*[2] * 10), epsilon=6.0)
    assert not found.exhaustive
    assert found.joint.value < found.separate.value
    assert found.split.value < found.joint.value


def test_partitions_are_all():
    found = [frozenset(map(frozenset, parts)) for parts in partitions("abcde")]
    assert len(found) == len(set(found)) == 52
