"""What subsets say of questions, as an array and as a sparse table: the same numbers, to the last bit."""

import numpy as np
import pytest
import scipy

from postrand import Codebook, Variable
from postrand.designers import split_design
from postrand.designers.split import rows as rows_module
from postrand.designers.split.rows import Few, answered, best, most, rows_of, stacked, write


def some(seed, m=400, q=45):
    """Numbers of very different sizes, of which two thirds are 0."""
    rng = np.random.default_rng(seed)
    subsets = [np.sort(rng.choice(m, m // 3, replace=False)) for _ in range(q)]
    return [10.0 ** rng.uniform(-9, 3, len(places)) for places in subsets], subsets, m


@pytest.fixture
def both(monkeypatch):
    few = rows_of(*some(1))
    monkeypatch.setattr(rows_module, "FEW", 0)
    return few, rows_of(*some(1))


def test_few_are_an_array_and_many_a_sparse_table(both):
    few, many = both
    assert isinstance(few, Few)
    assert isinstance(many, scipy.sparse.csr_array)
    assert few.shape == many.shape == (400, 45)
    assert few.toarray().tolist() == many.toarray().tolist()


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_the_same_to_the_last_bit(both, seed):
    few, many = both
    rng = np.random.default_rng(seed)
    prices, shares = 10.0 ** rng.uniform(-6, 6, 45), rng.dirichlet(np.ones(400))
    assert (few @ prices).tolist() == (many @ prices).tolist()
    assert (few.T @ shares).tolist() == (many.T @ shares).tolist()
    kept = rng.choice(400, 30, replace=False)
    assert (few[kept] @ prices).tolist() == (many[kept] @ prices).tolist()
    assert (few[kept].T @ shares[:30]).tolist() == (many[kept].T @ shares[:30]).tolist()


def test_both_answer_the_same(both):
    few, many = both
    assert best(few).tolist() == best(many).tolist()
    assert most(few).tolist() == most(many).tolist()
    assert stacked(few[:3], few).toarray().tolist() == stacked(many[:3], many).toarray().tolist()
    assert answered(few, 7).tolist() == answered(many, 7).tolist()
    for rows in both:
        changed = rows.copy()
        write(changed, 7, np.arange(1.0, 1 + len(answered(rows, 7))))
        expected = rows.toarray().copy()
        expected[7, expected[7] > 0] = np.arange(1, 1 + (expected[7] > 0).sum())
        assert changed.toarray().tolist() == expected.tolist()
        assert rows.toarray().tolist() != expected.tolist()


@pytest.mark.parametrize("workload", ["pairs", "worst"])
def test_a_design_does_not_depend_on_the_kind(monkeypatch, workload):
    book = Codebook(tuple(Variable(f"v{size}", "other", tuple(map(str, range(size)))) for size in (2, 3, 4, 5, 7)))
    found = []
    for few in (rows_module.FEW, 0):
        monkeypatch.setattr(rows_module, "FEW", few)
        made = split_design(book, epsilon=3.0, workload=workload)
        found.append((made.value, made.bound, [(s.variables, s.weight) for s in made.subsets]))
    assert found[0] == found[1]
