"""Tables from a split release: expectation and covariance against enumeration, and against repeated releases."""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import postrand
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import NOT_RELEASED
from postrand.designers import TablePrior
from postrand.engines.frame import perturb
from postrand.errors import DataError, EstimationError, UsageError
from postrand.estimate import table
from postrand.estimate.split_parts import parts_of
from postrand.mechanism import Block, Mechanism, Split, Subset
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.support.randomness import ReleaseKey
from tests.split_cases import HAPPY, book_of, happiness

SMALL = Codebook(tuple(Variable(n, role="key", categories=("x", "y")) for n in "ab"))
LAW = np.array([[0.4, 0.1], [0.2, 0.3]])
"""The population of (a, b)."""


def rough(size: int, seed: int) -> TransitionMatrix:
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(0.5 * np.eye(size) + 0.5 * rng.dirichlet(np.ones(size), size))


@dataclass(frozen=True)
class Contribution:
    """What each released cell of one subset contributes, one row for each of its cells."""

    place: int
    values: np.ndarray[Any, Any]
    precision: float


def contributions(split: Split, book: Codebook, variables: Any, prior: Any) -> list[Contribution]:
    codes, parts = parts_of(split, book, variables, prior)
    found = []
    for part in parts:
        for place in part.places:
            block = split.blocks[place]
            cells = block.cell_table(tuple(book[n].size for n in block.variables))
            asked = cells[:, [block.variables.index(n) for n in variables]]
            at = [codes.tolist().index(row) for row in asked.tolist()] if part.closed else slice(None)
            found.append(Contribution(place, part.values[at], part.precision))
    return sorted(found, key=lambda one: one.place)


def small() -> Mechanism:
    blocks = [Block(("a", "b"), rough(4, 1)), Block(("a",), rough(2, 2)), Block(("b",), rough(2, 3))]
    return Mechanism([], SMALL, split=Split.of([0.5, 0.25, 0.25], blocks))


def outcomes() -> list[tuple[int, tuple[str, str], np.ndarray[Any, Any]]]:
    """Return subset, released values, and the probability given each true cell (a, b), shape (2, 2), of one record."""
    split = small().split
    assert split is not None
    found = []
    for place, subset in enumerate(split.subsets):
        for y, cell in enumerate(itertools.product(range(2), repeat=len(subset.variables))):
            shown = {n: "xy"[c] for n, c in zip(subset.variables, cell, strict=True)}
            column = subset.probability * subset.matrix.array[:, y]
            shape = ((2, 2), (2, 1), (1, 2))[place]
            given = column.reshape(shape) * np.ones((2, 2))
            values = (shown.get("a", NOT_RELEASED), shown.get("b", NOT_RELEASED))
            found.append((place, values, given))
    return found


@cache
def estimated(
    values: tuple[tuple[str, str], ...], part: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    frame = pa.table({"a": [v[0] for v in values], "b": [v[1] for v in values]})
    try:
        found = table(frame, ["a"], small())
    except EstimationError:
        return None
    return found.value, found.law.covariance(part)


@pytest.mark.parametrize("shown", [(0, 0, 1), (0, 1, 1), (0, 0, 1, 1), (1, 1, 1), (0, 0, 0, 2)])
def test_value_and_covariance_are_exactly_unbiased_given_which_records_show_what(shown: tuple[int, ...]) -> None:
    """Every released file of three or four records, with its probability when the records are drawn from ``LAW``."""
    options = [[(v, float((p * LAW).sum())) for place, v, p in outcomes() if place == k] for k in shown]
    chance, first, second, stated = 0.0, np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    for released in itertools.product(*options):
        p = float(np.prod([q for _, q in released]))
        found = estimated(tuple(v for v, _ in released), "total")
        assert found is not None
        chance += p
        first += p * found[0]
        second += p * np.outer(found[0], found[0])
        stated += p * found[1]
    first, second, stated = first / chance, second / chance, stated / chance
    np.testing.assert_allclose(first, LAW.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(stated, second - np.outer(first, first), atol=1e-12)


def test_the_perturbation_part_is_that_of_a_file_held_fixed_on_average_over_files() -> None:
    """Every true file of three records and everything that can be released of it, subsets included."""
    every = outcomes()
    records = list(itertools.product(range(2), range(2)))
    within, stated, biases, total = np.zeros((2, 2)), np.zeros((2, 2)), [], 0.0
    answers = {}
    for released in itertools.product(range(len(every)), repeat=3):
        found = estimated(tuple(every[k][1] for k in sorted(released)), "perturbation")  # their order does not matter
        if found is not None:
            answers[released] = found
    for file in itertools.product(records, repeat=3):
        weight = float(np.prod([LAW[x] for x in file]))
        chance, first, second, covariance = 0.0, np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
        for released, (value, spread) in answers.items():
            p = float(np.prod([every[k][2][x] for k, x in zip(released, file, strict=True)]))
            chance += p
            first += p * value
            second += p * np.outer(value, value)
            covariance += p * spread
        first /= chance
        biases.append(first - np.bincount([x[0] for x in file], minlength=2) / 3)
        within += weight * (second / chance - np.outer(first, first))
        stated += weight * covariance / chance
        total += weight
    assert total == pytest.approx(1.0)
    assert np.abs(biases).max() < 1e-12  # of every single file
    np.testing.assert_allclose(stated, within, atol=1e-12)


BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
        Variable("ill", role="key", categories=(False, True), type="bool"),
        Variable("town", role="other", categories=("x", "y")),
    )
)


def mechanism() -> Mechanism:
    cells = tuple((a, i) for a in range(4) for i in range(2) if (a, i) != (0, 1))
    triple = Block(("sex", "age", "ill"), randomised_response(16, 4.0))
    blocks = [Block(("sex", "age"), rough(8, 4)), Block(("age", "ill"), randomised_response(7, 2.0), cells), triple]
    return Mechanism([], BOOK, split=Split.of([0.5, 0.3, 0.2], blocks))


def records(n: int, rng: np.random.Generator) -> pa.Table:
    """Return records without (age 10, ill): the age depends on the sex."""
    sex = rng.integers(0, 2, n)
    age = (rng.random(n) * (3 + sex)).astype(int)
    ill = (rng.random(n) < 0.3) & (age > 0)
    ages = pa.array([[10, 20, 30, None][a] for a in age], pa.int64())
    return pa.table({"sex": [("F", "M")[s] for s in sex], "age": ages, "ill": ill, "town": ["x"] * n})


@pytest.mark.parametrize("variables", [("sex", "age"), ("ill",), ("age", "sex", "ill"), ("age",)])
def test_repeated_releases_are_unbiased_with_the_stated_errors(variables: tuple[str, ...]) -> None:
    """200 populations' samples, each released once: z-tests of mean and of variance, alpha 1e-4 over all cells."""
    sizes = [BOOK[n].size for n in variables]
    sex, age, ill = np.meshgrid(range(2), range(4), range(2), indexing="ij")
    spread = np.where(age < 3 + sex, 0.5 / (3 + sex), 0.0)
    law = spread * np.where(ill == 1, 0.3 * (age > 0), 1 - 0.3 * (age > 0))
    axes = ("sex", "age", "ill")
    true = law.sum(axis=tuple(i for i, n in enumerate(axes) if n not in variables))
    true = true.transpose([[n for n in axes if n in variables].index(v) for v in variables])
    rng = np.random.default_rng(8)
    found = [
        table(perturb(records(400, rng), mechanism(), ReleaseKey.from_seed(s)), variables, mechanism())
        for s in range(200)
    ]
    values = np.array([f.value for f in found])
    stated = np.mean([f.standard_error**2 for f in found], axis=0)
    assert values.shape[1:] == tuple(sizes) == true.shape
    cut = stats.norm.isf(1e-4 / 2 / true.size)
    assert np.abs((values.mean(axis=0) - true) / np.sqrt(stated / 200)).max() < cut
    ratio = values.var(axis=0, ddof=1) / stated
    assert np.abs(ratio - 1).max() < cut * np.sqrt(2 / 199) * 1.3
    assert np.abs(2.2 * ratio - 1).max() > cut * np.sqrt(2 / 199) * 1.3  # variances too small by that are found out
    inside = [(low <= true) & (true <= high) for low, high in (f.interval() for f in found)]
    assert 0.9 < np.mean(inside) < 0.99


def test_one_subset_of_all_variables_is_the_estimate_of_a_block() -> None:
    block = Block(("sex", "age"), rough(8, 4))
    split, plain = Mechanism([], BOOK, split=Split.of([1.0], [block])), Mechanism([block], BOOK)
    released = perturb(records(500, np.random.default_rng(1)), split, ReleaseKey.from_seed(1))
    back = released.set_column(1, "age", released["age"].cast(pa.string()).cast(pa.int64()))
    back = back.set_column(0, "sex", back["sex"].cast(pa.string()))
    ours, wanted = table(released, ["age", "sex"], split), table(back, ["age", "sex"], plain)
    np.testing.assert_allclose(ours.value, wanted.value, atol=1e-12)
    np.testing.assert_allclose(ours.covariance, wanted.covariance, atol=1e-12)
    assert ours.labels == wanted.labels


def test_a_margin_of_a_table_is_of_the_same_records_and_parts_add_up() -> None:
    released = perturb(records(600, np.random.default_rng(2)), mechanism(), ReleaseKey.from_seed(2))
    found = table(released, ["sex", "age", "ill"], mechanism())
    margin = found.margin(["ill", "sex"])
    np.testing.assert_allclose(margin.value, found.value.sum(axis=1).T)
    at = np.arange(16).reshape(2, 4, 2)
    pick = np.zeros((4, 16))
    for i, s in itertools.product(range(2), range(2)):
        pick[2 * i + s, at[s, :, i]] = 1
    np.testing.assert_allclose(margin.covariance, pick @ found.covariance @ pick.T, atol=1e-14)
    np.testing.assert_allclose(found.sampling + found.perturbation, found.covariance, atol=1e-16)
    np.testing.assert_allclose(np.diag(found.covariance), found.law.variance("total"))
    assert found.value.sum() == pytest.approx(1.0)
    assert found.counts().value.sum() == pytest.approx(600)
    assert 0 < found.records < 600
    assert "Estimate" in repr(found)


def test_weights_come_from_law_and_prior_alone_and_the_stated_precision_is_that_of_a_record() -> None:
    split = mechanism().split
    assert split is not None
    shares = {"sex": [0.3, 0.7], "age": [0.1, 0.2, 0.3, 0.4]}
    for prior in (None, shares):
        known = contributions(split, BOOK, ["age"], prior)
        assert [c.place for c in known] == [0, 1, 2]
        for one in known:
            block = split.blocks[one.place]
            cells = block.cell_table(tuple(BOOK[n].size for n in block.variables))
            margins = {n: np.asarray((prior or {}).get(n, np.full(BOOK[n].size, 1 / BOOK[n].size))) for n in BOOK.names}
            p = np.array(
                [np.prod([margins[n][c] for n, c in zip(block.variables, cell, strict=True)]) for cell in cells]
            )
            released = (p / p.sum()) @ block.matrix.array
            mean = released @ one.values
            wanted = (released[:, None] * (one.values - mean) ** 2).sum()
            assert one.precision == pytest.approx(1 / wanted)
            truth = np.eye(4)[cells[:, block.variables.index("age")]]
            np.testing.assert_allclose(block.matrix.array @ one.values, truth, atol=1e-12)


def test_randomised_response_has_the_precision_of_its_closed_form() -> None:
    """``1/I = (1 − Σ q²) / λ²`` with ``q = λ p + (1 − λ)/K`` on the table's K cells."""
    split = Split.of([1.0], [Block(("sex", "age", "ill"), randomised_response(16, 4.0))])
    p = np.array([0.1, 0.2, 0.3, 0.4])
    (one,) = contributions(split, BOOK, ["age"], {"age": p})
    keep = (np.exp(4.0) - 1) / (np.exp(4.0) + 15)
    q = keep * p + (1 - keep) / 4
    assert one.precision == pytest.approx(keep**2 / (1 - (q**2).sum()))


def test_a_matrix_without_inverse_answers_what_it_can() -> None:
    """Ages are merged in pairs: sex is answered, age is not."""
    merged = np.kron(np.eye(2), np.kron(np.eye(2), np.full((2, 2), 0.5)))
    law = TransitionMatrix.from_array(0.6 * merged + 0.4 / 8)
    split = Mechanism([], BOOK, split=Split.of([1.0], [Block(("sex", "age"), law)]))
    released = perturb(records(300, np.random.default_rng(3)), split, ReleaseKey.from_seed(3))
    assert table(released, ["sex"], split).value.sum() == pytest.approx(1.0)
    with pytest.raises(EstimationError, match="cannot answer the table without bias"):
        table(released, ["age"], split)


def test_missing_values_that_are_kept_are_left_out() -> None:
    book = Codebook((Variable("sex", role="key", categories=("F", "M"), missing="keep"),))
    law = Mechanism([], book, split=Split.of([1.0], [Block(("sex",), rough(2, 1))]))
    true = pa.table({"sex": ["F", "M", None, "F"] * 50})
    found = table(perturb(true, law, ReleaseKey.from_seed(1)), ["sex"], law)
    assert (found.records, found.dropped) == (150, 50)


def test_what_cannot_be_estimated_is_refused_with_the_way_out() -> None:
    pairs = [Block(("sex", "age"), rough(8, 4)), Block(("ill",), rough(2, 4))]
    law = Mechanism([], BOOK, split=Split.of([0.5, 0.5], pairs))
    released = perturb(records(100, np.random.default_rng(1)), law, ReleaseKey.from_seed(1))
    with pytest.raises(EstimationError, match=r"no record shows all these variables.*show together \(age; ill\)"):
        table(released, ["age", "ill"], law)
    with pytest.raises(UsageError, match="only once"):
        table(released, ["age", "age"], law)
    with pytest.raises(UsageError, match="no variable of the table is in a split"):
        table(released, ["town"], law, prior={"sex": [0.5, 0.5]})
    for prior in ({"sex": [0.5, 0.6]}, {"sex": [1.0]}, {"town": [0.5, 0.5]}, {"sex": [1.5, -0.5]}):
        with pytest.raises(UsageError, match="the prior of"):
            table(released, ["sex"], law, prior=prior)
    with pytest.raises(EstimationError, match="too few records"):
        table(released[:2], ["sex"], law)
    with pytest.raises(DataError, match="no subset of the split"):
        table(released.set_column(2, "ill", pa.array([NOT_RELEASED] * 100)), ["ill"], law)


def split_of(design: Any) -> Split:
    return Split(tuple(Subset(s.weight, Block(s.variables, s.matrix)) for s in design.subsets))


def test_the_design_and_the_estimator_agree_on_what_a_record_is_worth() -> None:
    """``Σ_T π_T I_T`` of each table, computed by both: under independent shares they mean the same prior."""
    book = book_of(2, 3, 4, 2)
    rng = np.random.default_rng(2)
    shares = {v.name: rng.dirichlet(np.ones(v.size)) for v in book.variables}
    pairs = itertools.combinations(book.names, 2)
    prior = TablePrior({(a, b): np.outer(shares[a], shares[b]) for a, b in pairs}, "public")
    for epsilon in (1.0, 4.0):
        design = postrand.split_design(book, epsilon=epsilon, prior=prior)
        split = split_of(design)
        assert split.epsilon <= epsilon
        for asked in design.tables:
            known = contributions(split, book, asked.variables, shares)
            found = sum(split.subsets[one.place].probability * one.precision for one in known)
            assert found == pytest.approx(asked.information, rel=1e-9)


def test_a_designed_split_of_the_social_survey_is_worth_what_was_predicted() -> None:
    """Four releases at ε = 4 of records drawn anew, all 28 pairs: worth within 15 %, and intervals of 95 %."""
    book, by_name, tables = happiness()
    codes, n = np.stack([by_name[name] for name in HAPPY], 1), len(by_name[HAPPY[0]])
    design = postrand.split_design(book, HAPPY, 4.0, prior=TablePrior(tables, "confidential"), n=n)
    law = Mechanism([], book, split=split_of(design))
    assert postrand.certify(law).findings[0].level <= 4.0
    rng, inside, ratios = np.random.default_rng(4), [], np.zeros(len(tables))
    for seed in range(4):
        drawn = codes[rng.integers(0, n, n)]
        true = pa.table({v.name: np.array(v.categories)[drawn[:, j]] for j, v in enumerate(book.variables)})
        released = perturb(true, law, ReleaseKey.from_seed(seed))
        for k, (pair, counts) in enumerate(tables.items()):
            found, shares = table(released, pair, law), counts / n
            ratios[k] += ((found.value - shares) ** 2).sum() / (1 - (shares**2).sum()) / 4
            low, high = found.interval()
            inside += ((low <= shares) & (shares <= high)).ravel().tolist()
    assert len(ratios) / ratios.sum() / design.effective_records() == pytest.approx(1.0, abs=0.15)
    assert len(inside) > 4_000
    assert 0.93 < np.mean(inside) < 0.975
