"""The page on what offices use now: its example runs, and the methods that it compares do what is said of them."""

import importlib
import itertools

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.guides import blocks, executed

PAGE = (ROOT / "docs" / "offices.md").read_text("utf-8")


@pytest.fixture
def offices(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("office_methods")


@pytest.fixture
def codes():
    rng = np.random.default_rng(4)
    return np.stack([rng.binomial(size - 1, 0.3, 150) for size in (2, 3, 8, 2, 10)], axis=1)


def test_the_example_of_the_page_runs():
    (code,) = (text for kind, text, _ in blocks(PAGE) if kind == "python")
    first, second = executed(code, "offices.md", {}).splitlines()
    assert first == "2 Each released combination of area, sex is that of at least 2 records; suppressed is a value too."
    assert second == "[1.0, 1.0, 1.0, 11.5, 11.5, 11.5, 11.5]"


def test_the_table_has_the_columns_that_the_benchmark_prints(offices):
    benchmark = importlib.import_module("against_offices")
    assert f"| {' | '.join(benchmark.HEAD)} |" in PAGE
    assert PAGE.count("| PRAM, ") == 6


def test_the_worth_of_a_sample_is_its_size(offices, codes):
    benchmark = importlib.import_module("against_offices")
    shape, rng = (2, 3, 8, 2, 10), np.random.default_rng(2)
    survey = benchmark.Survey(codes, shape, codes[:, 4], np.ones(len(codes)))
    exact = {own: benchmark.shares(codes, shape, own) for own in benchmark.tables()}
    assert benchmark.loss(survey, [exact]) == pytest.approx((150, 150, 0, 0))
    drawn = [codes[rng.integers(0, 150, 75)] for _ in range(300)]  # MSE is (1 - sum of squares) / 75
    found = benchmark.loss(survey, [{own: benchmark.shares(d, shape, own) for own in exact} for d in drawn])
    assert found[0] == pytest.approx(50, rel=0.1)
    assert found[1] == pytest.approx(50, rel=0.1)
    assert found[3] < found[2] / 8  # no bias: only the noise of 300 draws


def test_suppression_reaches_k_by_its_own_count(offices, codes):
    done = offices.suppressed(codes, 3, offices.importance((2, 3, 8, 2, 10)))
    agree = [sum(((a == b) | (a < 0) | (b < 0)).all() for b in done) for a in done]
    assert min(agree) >= 3
    assert offices.matches(done).tolist() == agree
    assert ((done == codes) | (done < 0)).all()


def test_the_default_matrix_keeps_the_shares_on_average(offices, codes):
    column = codes[:, 2]
    drawn, matrix = offices.default_pram(column, 8, np.random.default_rng(1), True)
    share = np.bincount(column, minlength=8) / column.size
    assert share @ matrix == pytest.approx(share)
    assert matrix.sum(axis=1) == pytest.approx(1)
    assert np.diag(matrix)[share > 0].min() > 0.6
    assert 0 < (drawn != column).mean() < 0.4


def test_generalisation_is_the_best_node_and_k_anonymous(offices, codes):
    best = offices.full_domain(codes, offices.HIERARCHIES, 3, 0.05)
    kept = best.codes[best.codes[:, 0] >= 0]
    _, counts = np.unique(kept, axis=0, return_counts=True)
    assert counts.min() >= 3
    assert len(kept) >= 0.95 * len(codes)
    assert best.spread((2, 3, 8, 2, 10), (2, 4)).sum() == pytest.approx(1)
    raw = offices.Generalised(codes, [h[0] for h in offices.HIERARCHIES])
    counted = np.zeros((3, 2))
    for a, b in codes[:, (1, 3)]:
        counted[a, b] += 1 / len(codes)
    assert raw.spread((2, 3, 8, 2, 10), (1, 3)) == pytest.approx(counted.ravel())


def test_the_link_is_to_the_likeliest_record(offices, codes):
    shape, targets = (2, 3, 8, 2, 10), np.arange(40)
    right, _ = offices.linked(codes, codes, shape, {}, targets)
    sizes = [(codes == codes[t]).all(axis=1).sum() for t in targets]
    assert right == pytest.approx(np.mean([1 / size for size in sizes]))
    matrix = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    blurred = codes.copy()
    blurred[:, 1] = (codes[:, 1] + (np.arange(150) % 5 == 0)) % 3
    right, _ = offices.linked(codes, blurred, shape, {1: matrix}, targets)
    share = [np.bincount(blurred[:, j], minlength=size) / 150 for j, size in enumerate(shape)]
    laws = [matrix if j == 1 else np.eye(size) for j, size in enumerate(shape)]
    found = []
    for t, target in enumerate(targets):
        weight = [np.prod([laws[j][codes[t, j], z[j]] / share[j][z[j]] for j in range(5)]) for z in blurred]
        best = np.flatnonzero(np.array(weight) >= max(weight) * (1 - 1e-9))
        found.append((target in best) / len(best))
    assert right == pytest.approx(np.mean(found))


def test_matching_risk_is_that_of_equal_weights(offices, codes):
    risk = offices.matching_risk(codes, np.full(len(codes), 4.0))
    f = offices.matches(codes)
    alone = np.flatnonzero(f == 1)
    terms = (0.25 * 0.75 ** (h - 1) / h for h in itertools.count(1))  # F is negative binomial given f = 1
    assert risk[alone] == pytest.approx(sum(itertools.islice(terms, 400)))
