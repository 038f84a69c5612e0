"""The bound of fractional subsets: never above the best of all subsets, near it, and stated where it proves little."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.designers.split import candidates as candidates_module
from postrand.designers.split import subsets as subsets_module
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.optimal import optimal
from postrand.designers.split.relaxation import relaxation
from postrand.errors import DesignError
from tests.split_cases import book_of

WORKLOADS = {
    "pairs": "pairs",
    "triples": "triples",
    "worst": "worst",
    "weights": {("a", "b"): 5.0, ("c",): 1.0, ("a", "d", "f"): 2.0, ("b", "c", "d", "e"): 0.5},
    "few": [("a", "b"), ("c", "d"), ("e",)],
}


def problem_of(seed, workload, core=(), max_cells=65_536):
    random = np.random.default_rng(seed)
    book = book_of(*random.integers(2, 6, 6))
    prior = {(v.name,): random.dirichlet(np.ones(v.size)) for v in book.variables}
    return candidates_of(book, None, workload, core, max_cells, prior)


def relaxed(problem, epsilon):
    asked = problem.request
    return relaxation(
        asked.sizes, asked.core_places, asked.max_cells, problem.subsets.questions, epsilon, problem.weights,
        problem.workload.worst,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("core", [(), ("b", "d")])
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_design_is_below_the_bound(seed, core, name):
    """All subsets are listed, so the equivalence theorem gives the optimum to 1e-9."""
    for epsilon, max_cells in ((1.0, 65_536), (4.0, 700 if not core else 3200), (8.0, 65_536)):
        problem = problem_of(seed, WORKLOADS[name], core, max_cells)
        best = optimal(problem.pool(epsilon), problem.weights, problem.workload.worst)
        assert best.value - best.bound <= 1e-9 * best.value
        bound = relaxed(problem, epsilon).bound()
        assert (0.85 if name in ("pairs", "worst") else 0.7) * best.value <= bound <= best.value


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_subset_is_worth_more_than_the_knapsacks(name):
    """Every subset, enumerated, at prices that have nothing to do with the division."""
    random = np.random.default_rng(1)
    for core in ((), ("a", "c")):
        problem = problem_of(7, WORKLOADS[name], core, 900 if not core else 3200)
        found = relaxed(problem, 5.0)
        active = [0, len(found.levels) // 2, len(found.levels) - 1]
        for _ in range(5):
            given = random.exponential(size=(3, found.tree.ends.size)) ** 3
            prices = random.exponential(size=len(problem.weights)) ** 3
            worth = max(found._evaluated(prices, given, active).values())
            assert float((problem.subsets.at(5.0).rows @ prices).max()) <= worth * (1 + 1e-9)


def test_the_comparison_can_fail():
    """A bound that forgets the sizes at which subsets are best is above what they reach."""
    problem = problem_of(2, "pairs")
    best = optimal(problem.pool(4.0), problem.weights)
    whole = relaxed(problem, 4.0)
    some = dataclasses.replace(whole, levels=whole.levels[-3:])
    assert some.bound() > best.value


def test_alike_variables_have_the_value_of_their_closed_form():
    """Subsets of k of J alike variables: each pair is in k(k-1)/(J(J-1)) of the records; the best k needs no search."""
    size, many, epsilon = 3, 12, 5.0
    problem = candidates_of(book_of(*[size] * many), None, "pairs", (), 65_536, None)
    values = []
    for k in range(2, 11):
        keep = (math.exp(epsilon) - 1) / (math.exp(epsilon) + size**k - 1)
        variance = (1 - 1 / size**2) / keep**2
        values.append(variance / (1 - 1 / size**2) * many * (many - 1) / (k * (k - 1)))
    assert relaxed(problem, epsilon).bound() == pytest.approx(min(values), rel=1e-6)
    assert relaxed(problem, epsilon).bound() <= min(values)


def test_the_order_of_variables_and_categories_changes_nothing():
    problem = problem_of(3, "pairs")
    book, tables = problem.codebook, problem.prior.tables
    turned = Codebook(tuple(book[name] for name in "fbdace"))
    flipped = {names: table[::-1] for names, table in tables.items()}
    again = candidates_of(turned, None, "pairs", (), 65_536, flipped)
    assert relaxed(again, 4.0).bound() == pytest.approx(relaxed(problem, 4.0).bound(), rel=1e-6)


@pytest.mark.parametrize("workload", ["pairs", "worst"])
def test_generated_subsets_state_their_gap(monkeypatch, workload):
    """Listed and generated designs of one problem: the bound of each holds for the other."""
    random = np.random.default_rng(5)
    book = book_of(*random.integers(2, 5, 11))
    prior = {(v.name,): random.dirichlet(np.ones(v.size)) for v in book.variables}
    listed = pr.split_design(book, epsilon=5.0, workload=workload, prior=prior, max_cells=2000)
    monkeypatch.setattr(candidates_module, "MAX_LISTED", 0)
    for gap in (0.05, 1e-6):
        made = pr.split_design(book, epsilon=5.0, workload=workload, prior=prior, max_cells=2000, gap=gap)
        assert made.bound <= listed.value <= made.value * (1 + 1e-9)
        assert made.relative_gap <= gap + 1e-8
        assert made.status == "bounded"
        assert f"{made.relative_gap:.1e}" in made.message


def test_sixty_variables_have_a_proof():
    random = np.random.default_rng(0)
    sizes = random.integers(2, 7, 60)
    book = Codebook(tuple(Variable(f"v{k}", "other", tuple(map(str, range(s)))) for k, s in enumerate(sizes)))
    prior = {(v.name,): random.dirichlet(np.ones(v.size)) for v in book.variables}
    found = pr.split_design(book, epsilon=6.0, prior=prior, gap=0.02)
    assert 0 < found.relative_gap <= 0.02
    assert found.status == "bounded"
    assert sum(s.weight for s in found.subsets) == 2**53
    shown = {frozenset(pair) for s in found.subsets for pair in itertools.combinations(s.variables, 2)}
    assert len(shown) == math.comb(60, 2)


def test_rules_with_too_many_subsets_leave_those_of_fewer_cells(monkeypatch):
    """The same design as with a smaller max_cells, and the message says which subsets were compared."""
    rules = (Rule({"a": "a0", "b": "b1"}),)
    book = book_of(2, 3, 4, 2, 3, 5, rules=rules)
    whole = pr.split_design(book, epsilon=4.0)
    monkeypatch.setattr(subsets_module, "MAX_LISTED", 40)
    found = pr.split_design(book, epsilon=4.0, max_cells=512)
    most = int(found.message.split("at most ")[1].split(" cells")[0])
    assert most < 512
    assert f"only subsets of at most {most} cells are listed" in found.message
    monkeypatch.undo()
    small = pr.split_design(book, epsilon=4.0, max_cells=most)
    assert found.value == pytest.approx(small.value, rel=1e-12)
    assert found.value >= whole.value
    assert "only subsets" not in small.message + whole.message


def test_a_text_of_many_subsets_is_short():
    book = Codebook(tuple(Variable(f"v{k}", "other", ("0", "1")) for k in range(13)))
    found = pr.split_design(book, epsilon=2.0)
    lines = found.text().splitlines()
    assert len(found.tables) == 78
    assert len(lines) <= 125
    assert lines[-1] == "and as much or more for the 18 other tables"
    shown = sum(float(line.split()[0]) for line in lines[2:62])
    left = float(lines[62].split()[0]) if len(found.subsets) > 60 else 0.0
    assert shown + left == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("gap", [0, 1, -0.1, math.nan, "1e-3"])
def test_a_gap_that_is_none_is_refused(gap):
    with pytest.raises(DesignError, match="the gap is not valid"):
        pr.split_design(book_of(2, 3), gap=gap)
