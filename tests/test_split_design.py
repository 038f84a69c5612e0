"""Designs of split releases: against enumeration, simulation, known figures, and properties that must hold."""

import itertools
import math

import numpy as np
import pytest

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.designers import Circulant, General, TablePrior, Workload
from postrand.designers.split import candidates as candidates_module
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.margins import shares
from postrand.designers.split.optimal import optimal, value_of
from postrand.designers.split.pricing import Priced
from postrand.designers.split.splitting import rounded
from postrand.designers.split.subsets import Columns
from postrand.errors import DesignError, PrivacyError
from postrand.objectives import MutualInformation
from tests.split_cases import HAPPY, book_of, brute_value, covariance_trace, happiness

UNIT = 2**53


@pytest.fixture(scope="module")
def survey():
    return happiness()


def random_prior(book, seed=1, size=2):
    """Tables of a random joint law: consistent with each other; and the law."""
    random = np.random.default_rng(seed)
    shape = tuple(v.size for v in book.variables)
    joint = random.dirichlet(np.full(math.prod(shape), 0.7)).reshape(shape)
    tables = {}
    for names in itertools.combinations(book.names, size):
        axes = tuple(k for k, name in enumerate(book.names) if name not in names)
        tables[names] = joint.sum(axis=axes)
    return TablePrior(tables, "public"), joint


# The figures of a General Social Survey file of 17,137 records, computed before by other code.


@pytest.mark.parametrize(("epsilon", "worth"), [(2, 6.6), (4, 164), (6, 855), (8, 2163), (12, 6867)])
def test_known_worth_of_the_social_survey(survey, epsilon, worth):
    book, _, tables = survey
    found = pr.split_design(book, HAPPY, epsilon, prior=TablePrior(tables, "confidential"), n=17_137)
    assert found.effective_records() == pytest.approx(worth, rel=5e-3)
    assert 0 <= found.unrounded_gap <= 1e-10
    assert 0 <= found.relative_gap <= 1e-9
    assert found.status == "optimal"
    assert found.provenance == "confidential"


# Against enumeration of true and released cells.


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("workload", ["pairs", "triples", [("a",), ("b", "c")]])
def test_value_is_the_covariance_by_enumeration(epsilon, workload):
    book = book_of(2, 3, 2)
    _, joint = random_prior(book)
    prior = TablePrior({book.names: joint}, "public")
    found = pr.split_design(book, epsilon=epsilon, workload=workload, prior=prior)
    assert found.value == pytest.approx(brute_value(joint, book, found), rel=1e-9)


def test_no_grid_of_probabilities_is_better():
    book = book_of(2, 2, 3)
    prior, joint = random_prior(book)
    found = pr.split_design(book, epsilon=2.0, prior=prior)
    subsets = [s for k in (2, 3) for s in itertools.combinations(book.names, k)]
    best = math.inf
    information = {}
    for subset in subsets:
        matrix = pr.randomised_response(math.prod(book[n].size for n in subset), 2.0).array
        for table in itertools.combinations(book.names, 2):
            held = set(table) <= set(subset)
            information[subset, table] = (
                1 / covariance_trace(joint, list(book.names), list(subset), matrix, list(table)) if held else 0.0
            )
    for parts in itertools.product(range(13), repeat=len(subsets)):
        if sum(parts) == 12:
            total = 0.0
            for table in itertools.combinations(book.names, 2):
                m = sum(p / 12 * information[s, table] for p, s in zip(parts, subsets, strict=True))
                axes = tuple(k for k, n in enumerate(book.names) if n not in table)
                total += 1 / 3 / (1 - (joint.sum(axis=axes) ** 2).sum()) / m if m else math.inf
            best = min(best, total)
    assert found.bound <= found.value <= best
    assert found.value >= 0.97 * best


def test_simulated_records_have_the_stated_precision():
    """The mean of 4,000 estimates' squared errors, within four standard errors; a design for another ε fails."""
    book = book_of(2, 3, 2)
    _, joint = random_prior(book, seed=3)
    found = pr.split_design(book, epsilon=2.5, prior=TablePrior({book.names: joint}))
    random = np.random.default_rng(11)
    n, runs = 400, 4000
    table = next(t for t in found.tables if t.variables == ("a", "b"))
    subsets = [s for s in found.subsets if {"a", "b"} <= set(s.variables)]
    truth = joint.sum(axis=2)
    shape = joint.shape
    errors = np.zeros(runs)
    weights = np.array([s.weight / UNIT for s in found.subsets])
    for run in range(runs):
        cells = np.stack(np.unravel_index(random.choice(joint.size, n, p=joint.ravel()), shape), 1)
        pick = random.choice(len(weights), n, p=weights)
        estimate, total = np.zeros(truth.shape), 0.0
        for subset in subsets:
            who = np.flatnonzero(pick == found.subsets.index(subset))
            if not who.size:
                continue
            axes = [book.names.index(name) for name in subset.variables]
            sizes = [shape[k] for k in axes]
            true = np.ravel_multi_index(tuple(cells[who][:, axes].T), sizes)
            keep = (math.exp(2.5) - 1) / (math.exp(2.5) + subset.cells - 1)
            drawn = np.where(random.random(who.size) < keep, true, random.integers(0, subset.cells, who.size))
            shown = np.bincount(drawn, minlength=subset.cells).reshape(sizes) / who.size
            shown = shown.sum(axis=tuple(range(2, len(sizes)))) if len(sizes) > 2 else shown
            q = keep * truth + (1 - keep) / truth.size
            worth = who.size * keep**2 / (1 - (q**2).sum())
            estimate += worth * (shown - (1 - keep) / truth.size) / keep
            total += worth
        errors[run] = ((estimate / total - truth) ** 2).sum() * n
    error = errors.std() / math.sqrt(runs)
    assert abs(errors.mean() - 1 / table.information) < 4 * error + 0.01 / table.information
    other = pr.split_design(book, epsilon=2.0, prior=TablePrior({book.names: joint}))
    wrong = next(t for t in other.tables if t.variables == ("a", "b"))
    assert abs(errors.mean() - 1 / wrong.information) > 8 * error


def test_other_matrices_have_the_covariance_by_enumeration():
    book = book_of(3, 4, 3)
    _, joint = random_prior(book, seed=5)
    prior = TablePrior({book.names: joint}, "public")
    plain = pr.split_design(book, epsilon=0.5, prior=prior)
    found = pr.split_design(book, epsilon=0.5, prior=prior, structure=Circulant())
    assert "circulant" in {s.structure for s in found.subsets}
    assert found.value == pytest.approx(brute_value(joint, book, found), rel=1e-9)
    assert found.value < 0.9 * plain.value
    assert all(s.matrix.epsilon <= 0.5 for s in found.subsets)
    assert all((s.response is None) == (s.structure != "response") for s in found.subsets)


def test_a_structure_serves_another_objective():
    book = book_of(2, 3)
    found = pr.split_design(book, epsilon=1.0, structure=[General(), Circulant()], objective=MutualInformation())
    assert found.value <= pr.split_design(book, epsilon=1.0).value


# Rules.


def rules_book():
    rules = (Rule({"a": "a0", "b": ["b1", "b2"]}), Rule({"b": "b0", "c": "c1"}))
    return book_of(2, 3, 2, 2, rules=rules)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_forbidden_cells_do_not_count(epsilon):
    book = rules_book()
    joint = np.random.default_rng(2).dirichlet(np.ones(24)).reshape(2, 3, 2, 2)
    for cell in itertools.product(range(2), range(3), range(2), range(2)):
        if (cell[0] == 0 and cell[1] > 0) or (cell[1] == 0 and cell[2] == 1):
            joint[cell] = 0
    joint /= joint.sum()
    found = pr.split_design(book, epsilon=epsilon, prior=TablePrior({book.names: joint}))
    assert {s.variables: s.cells for s in found.subsets}.get(book.names, 12) == 12
    for subset in found.subsets:
        names = list(subset.variables)
        every = itertools.product(*(range(book[n].size) for n in names))
        cells = [c for c in every if not forbidden(dict(zip(names, c, strict=True)))]
        assert subset.cells == len(cells)
    for table in found.tables:
        information = 0.0
        for subset in found.subsets:
            if set(table.variables) <= set(subset.variables):
                names = list(subset.variables)
                every = itertools.product(*(range(book[n].size) for n in names))
                cells = [c for c in every if not forbidden(dict(zip(names, c, strict=True)))]
                trace = covariance_trace(
                    joint, list(book.names), names, subset.matrix.array, list(table.variables), cells
                )
                information += subset.weight / UNIT / trace
        assert table.information == pytest.approx(information, rel=1e-9)


def forbidden(codes):
    return (codes.get("a") == 0 and codes.get("b", 0) > 0) or (codes.get("b") == 0 and codes.get("c") == 1)


# Properties.


def reordered(book, prior, order):
    made = Codebook(tuple(book[name] for name in order))
    turned = {}
    for names, table in prior.tables.items():
        turned[names[::-1]] = table.T
    return made, TablePrior(turned)


def test_the_order_of_variables_and_categories_changes_nothing():
    book = book_of(2, 3, 4, 2, 3)
    prior, _ = random_prior(book)
    found = pr.split_design(book, epsilon=3.0, prior=prior)
    turned, same = reordered(book, prior, "dbeca")
    again = pr.split_design(turned, epsilon=3.0, prior=same)
    assert again.value == pytest.approx(found.value, rel=1e-9)
    one = {frozenset(s.variables): s.probability for s in found.subsets}
    two = {frozenset(s.variables): s.probability for s in again.subsets}
    assert {k: pytest.approx(v, abs=1e-5) for k, v in one.items() if v > 1e-5} == {
        k: v for k, v in two.items() if k in one and one[k] > 1e-5
    }
    assert all(s.variables == tuple(n for n in "dbeca" if n in s.variables) for s in again.subsets)
    flipped = TablePrior({names: table[::-1, ::-1] for names, table in prior.tables.items()})
    assert pr.split_design(book, epsilon=3.0, prior=flipped).value == pytest.approx(found.value, rel=1e-9)


def test_more_candidates_never_raise_the_value():
    book = book_of(2, 3, 4, 2)
    prior, _ = random_prior(book)
    values = [pr.split_design(book, epsilon=3.0, prior=prior, max_cells=m).value for m in (12, 16, 24, 48)]
    assert values == sorted(values, reverse=True)
    core = pr.split_design(book, epsilon=3.0, prior=prior, core=["b"])
    assert core.value >= values[-1] * (1 - 1e-9)


def test_core_variables_are_in_every_subset():
    book = book_of(2, 3, 4, 2)
    found = pr.split_design(book, epsilon=3.0, core=("d", "a"))
    assert found.core == ("a", "d")
    assert all({"a", "d"} <= set(s.variables) for s in found.subsets)


def test_alike_variables_are_shown_alike():
    found = pr.split_design(book_of(3, 3, 3, 3, 3), epsilon=3.0)
    shown = [sum(s.weight for s in found.subsets if name in s.variables) / UNIT for name in "abcde"]
    assert shown == pytest.approx([shown[0]] * 5, abs=1e-6)
    assert [t.share for t in found.tables] == pytest.approx([found.tables[0].share] * 10, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workload", ["pairs", "worst"])
def test_certified_gap(seed, workload):
    random = np.random.default_rng(seed)
    book = book_of(*random.integers(2, 6, 5))
    prior, _ = random_prior(book, seed)
    found = pr.split_design(book, epsilon=float(random.uniform(0.5, 9)), workload=workload, prior=prior)
    assert 0 <= found.gap <= 1e-9 * found.value
    assert 0 <= found.unrounded_gap <= 1e-9
    assert sum(s.weight for s in found.subsets) == UNIT
    assert min(s.weight for s in found.subsets) > 0
    assert max(s.matrix.epsilon for s in found.subsets) <= found.epsilon


def test_the_gap_rejects_wrong_weights():
    """Probabilities of another workload are not certified: their value lies above the bound by what they lose."""
    book = book_of(2, 3, 4, 2)
    prior, _ = random_prior(book)
    problem = candidates_of(book, None, "pairs", (), 65_536, prior)
    right = optimal(problem.pool(3.0), problem.weights)
    mutant = problem.weights.copy()
    mutant[0] *= 2
    wrong = optimal(problem.pool(3.0), mutant)
    value = value_of(wrong.columns.rows, wrong.probabilities, problem.weights)
    assert (value - right.bound) / value > 1e-3
    assert (right.value - right.bound) / right.value < 1e-9


def test_bound_is_below_every_design():
    book = book_of(2, 3, 4, 2)
    prior, _ = random_prior(book)
    problem = candidates_of(book, None, "pairs", (), 65_536, prior)
    rows, random = problem.subsets.at(3.0).rows, np.random.default_rng(0)
    bound = optimal(problem.pool(3.0), problem.weights).bound
    for _ in range(2000):
        pi = random.dirichlet(np.full(rows.shape[0], random.uniform(0.05, 1)))
        assert value_of(rows, pi, problem.weights) >= bound


def test_the_worst_table_is_better_than_in_the_mean(survey):
    book, _, tables = survey
    mean, worst = (pr.split_design(book, HAPPY, 6.0, w, prior=tables) for w in ("pairs", "worst"))
    assert min(t.share for t in worst.tables) > min(t.share for t in mean.tables)
    assert worst.value == pytest.approx(1 / min(t.share for t in worst.tables), rel=1e-9)


@pytest.mark.parametrize("workload", ["pairs", "triples", "worst"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_generated_subsets_equal_listed_ones(monkeypatch, workload, epsilon):
    book = book_of(2, 3, 4, 2, 5, 2, 3)
    prior, _ = random_prior(book, seed=4)
    listed = pr.split_design(book, None, epsilon, workload, core=("c",), prior=prior, max_cells=1000)
    monkeypatch.setattr(candidates_module, "MAX_LISTED", 0)
    made = pr.split_design(book, None, epsilon, workload, core=("c",), prior=prior, max_cells=1000)
    assert made.value == pytest.approx(listed.value, rel=2e-6)
    assert made.bound <= listed.value * (1 + 1e-12)
    assert 0 <= made.relative_gap <= 2e-6


def test_a_search_proves_the_best_price(monkeypatch):
    book = book_of(2, 3, 4, 2, 5, 2, 3)
    prior, _ = random_prior(book, seed=4)
    every = candidates_of(book, None, "triples", (), 400, prior)
    monkeypatch.setattr(candidates_module, "MAX_LISTED", 0)
    made = candidates_of(book, None, "triples", (), 400, prior)
    random = np.random.default_rng(3)
    for _ in range(20):
        prices = random.exponential(size=35) ** 3
        best = float((every.subsets.at(5.0).rows @ prices).max())
        pool = made.pool(5.0)
        assert isinstance(pool, Priced)
        bound, met = pool.proven(prices, best / 2, best / 2)
        assert best <= bound
        assert float((pool._columns(sorted(met)).rows @ prices).max()) == pytest.approx(best, rel=1e-9)
        assert bound <= best * (1 + 1e-6)


def test_sixteen_variables_in_seconds():
    random = np.random.default_rng(0)
    book = book_of(*random.integers(2, 4, 16))
    prior = {(v.name,): random.dirichlet(np.ones(v.size)) for v in book.variables}
    found = pr.split_design(book, epsilon=6.0, prior=prior)
    assert 0 <= found.relative_gap <= 1e-6


# Integers.


def test_rounded_probabilities():
    random = np.random.default_rng(0)
    for size in (1, 2, 50, 5000):
        pi = random.dirichlet(np.full(size, 0.3))
        weights = rounded(pi)
        assert int(weights.sum()) == UNIT
        assert (weights[pi * UNIT < 0.5] == 0).all()
        assert np.abs(weights - pi * UNIT).max() <= size + 1
    assert rounded(np.array([0.3, 0.7]) * (1 + 1e-15)).sum() == UNIT


def test_response_is_two_integers():
    found = pr.split_design(book_of(2, 3, 4), epsilon=3.0)
    for subset in found.subsets:
        assert subset.response is not None
        stay, off = subset.response
        assert stay + (subset.cells - 1) * off == UNIT
        assert (subset.matrix.weights == np.where(np.eye(subset.cells, dtype=bool), stay, off)).all()


# Priors and workloads.


def test_missing_tables_of_the_prior_are_completed():
    book = book_of(2, 3, 2)
    margins = TablePrior({("a",): np.array([1.0, 3]), ("b",): np.array([1.0, 1, 2])})
    assert shares(margins, book, ("a", "b")) == pytest.approx(np.outer([0.25, 0.75], [0.25, 0.25, 0.5]))
    assert shares(margins, book, ("a", "c")) == pytest.approx(np.outer([0.25, 0.75], [0.5, 0.5]))
    prior, joint = random_prior(book)
    fitted = shares(prior, book, book.names)
    for axis, names in enumerate([("b", "c"), ("a", "c"), ("a", "b")]):
        assert fitted.sum(axis=axis) == pytest.approx(joint.sum(axis=axis), abs=1e-7), names
    assert shares(TablePrior({("b", "a"): joint.sum(axis=2).T}), book, ("a", "b")) == pytest.approx(joint.sum(axis=2))


def test_weights_matter_and_scale_does_not():
    book = book_of(2, 3, 4)
    tables = [("a", "b"), ("b", "c")]
    plain = pr.split_design(book, epsilon=3.0, workload=tables)
    heavy = pr.split_design(book, epsilon=3.0, workload={tables[0]: 9.0, tables[1]: 1.0})
    same = pr.split_design(book, epsilon=3.0, workload=Workload(tuple(tables), (90.0, 10.0)))
    assert heavy.tables[0].information > plain.tables[0].information
    assert same.value == pytest.approx(heavy.value, rel=1e-9)


def test_refusals():
    book = book_of(2, 3, 4)
    cases = [
        (lambda: pr.split_design(book, ["a", "x"]), "no variable 'x'"),
        (lambda: pr.split_design(book, ["a", "a", "b"]), "named twice"),
        (lambda: pr.split_design(book, ["a", "b"], core=["c"]), "core variable 'c'"),
        (lambda: pr.split_design(book, workload="all"), "unknown workload"),
        (lambda: pr.split_design(book, workload=[("a", "x")]), "not split: 'x'"),
        (lambda: pr.split_design(book, workload=[]), "no table"),
        (lambda: pr.split_design(book, workload={("a",): -1.0}), "not a number above 0"),
        (lambda: pr.split_design(book, workload=5), "not a name or a list"),
        (lambda: pr.split_design(book, ["a"]), "needs 2 variables"),
        (lambda: pr.split_design(book, max_cells=11), "no subset covers a table"),
        (lambda: pr.split_design(book, max_cells=0), "max_cells is not valid"),
        (lambda: pr.split_design(book, n=0), "number of records"),
        (lambda: pr.split_design(book, prior={("a", "b"): [[1, 2], [3, 4]]}), "does not fit"),
        (lambda: pr.split_design(book, prior={("a",): [1, -2]}), "negative"),
        (lambda: pr.split_design(book, prior={("a",): [1, 0], ("b",): [1, 0, 0]}), "all mass on one cell"),
        (lambda: pr.split_design(book, prior=5), "not a TablePrior"),
        (lambda: pr.split_design(book, structure=Circulant), "not a structure"),
        (lambda: pr.split_design("book"), "not a Codebook"),
        (lambda: pr.split_design(book).effective_records(), "not known"),
    ]
    for call, words in cases:
        with pytest.raises(DesignError, match=words):
            call()
    for epsilon in (0, -1, math.nan, 40.0, "2"):
        with pytest.raises(PrivacyError):
            pr.split_design(book, epsilon=epsilon)
    kept = Codebook((*book.variables, Variable("z", "other", ("0", "1"), missing="keep")))
    with pytest.raises(DesignError, match="keeps missing values"):
        pr.split_design(kept)


def test_texts_show_no_prior():
    book = book_of(2, 3, 4)
    prior = TablePrior({("a",): np.array([123456.0, 654321])})
    found = pr.split_design(book, epsilon=2.0, prior=prior)
    assert "123456" not in repr(prior) + repr(found)
    assert found.text().startswith(f"{len(found.subsets)} subsets at ε = 2")


def test_columns_are_found_by_members():
    problem = candidates_of(book_of(2, 2), None, "pairs", (), 10, None)
    columns = problem.subsets.at(1.0)
    assert isinstance(columns, Columns)
    assert len(set(columns.labels())) == len(columns.members) == 3
