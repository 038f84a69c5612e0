"""Every estimator on a split: against enumeration, exact fractions, dense sums record by record, and repeated files."""

import itertools
import math
import re
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from benchmarks.split_estimators import study
from scipy import optimize

from postrand import estimate, formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import NOT_RELEASED
from postrand.engines import LocalEngine
from postrand.engines.frame import perturb
from postrand.errors import EstimationError, SpecificationError, UsageError
from postrand.estimate.split_axis import SplitAxis
from postrand.estimate.split_parts import parts_of
from postrand.estimate.tally import Cells
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn
from postrand.support.randomness import ReleaseKey
from postrand.testing.engines import Memory
from tests.test_not_released_files import KEY
from tests.test_not_released_files import mechanism as partly_law
from tests.test_not_released_files import records as partly_records

ALPHA = 1e-4


def rough(size: int, seed: int) -> TransitionMatrix:
    rng = np.random.default_rng(seed)
    return TransitionMatrix.from_array(0.5 * np.eye(size) + 0.5 * rng.dirichlet(np.ones(size), size))


# --- one small file, everything that can be released of it --------------------------------------------------------

SMALL = Codebook(
    (
        Variable("a", role="key", categories=("x", "y")),
        Variable("b", role="key", categories=(1, 3), type="int64"),
        Variable("c", role="key", categories=("u", "v")),
        Variable("z", role="other", type="double"),
        Variable("w", role="weight", type="double"),
    )
)
FILE: dict[str, Any] = {"a": (0, 1, 1), "b": (1, 0, 1), "c": (1, 0, 1), "z": (1.0, 5.0, 2.0), "w": (1.0, 3.0, 2.0)}
"""Tables are asked of its three records, totals of the first two."""


@cache
def small() -> Mechanism:
    blocks = [Block(("a", "b"), rough(4, 1)), Block(("a",), rough(2, 2)), Block(("b",), rough(2, 3))]
    return Mechanism([Block(("c",), rough(2, 9))], SMALL, split=Split.of([0.5, 0.25, 0.25], blocks))


def outcomes(record: int, *, block: bool) -> list[tuple[int, tuple[str, str, str], float]]:
    """Return what can be released of a record of ``FILE``: subset, values of a, b and c, and the probability.

    Without ``block`` the values of c are not asked for, and stay.
    """
    law = small()
    assert law.split is not None
    found = []
    for place, subset in enumerate(law.split.subsets):
        shape = tuple(SMALL[n].size for n in subset.variables)
        true = np.ravel_multi_index([FILE[n][record] for n in subset.variables], shape)
        for y, cell in enumerate(itertools.product(*map(range, shape))):
            shown = {n: str(SMALL[n].categories[k]) for n, k in zip(subset.variables, cell, strict=True)}
            for k in range(2) if block else range(1):
                p = subset.probability * subset.matrix.array[true, y]
                p *= law["c"].matrix.array[FILE["c"][record], k] if block else 1.0
                values = (shown.get("a", NOT_RELEASED), shown.get("b", NOT_RELEASED), "uv"[k])
                found.append((place, values, float(p)))
    return found


def frame_of(values: Any) -> pa.Table:
    columns = {name: [v[i] for v in values] for i, name in enumerate("abc")}
    return pa.table({**columns, **{name: FILE[name][: len(values)] for name in "zw"}})


QUESTIONS = {
    "table with a block": (
        lambda f, m: estimate.table(f, ["a", "c"], m).value,
        np.array([[0, 1], [1, 1]]) / 3,
    ),
    "total by group": (lambda f, m: estimate.total(f, "z", m, by="a").value, np.array([1.0, 5.0])),
    "weighted total by two": (
        lambda f, m: estimate.total(f, "z", m, by=["a", "b"], weights="w").value,
        np.array([[0.0, 1.0], [15.0, 0.0]]),
    ),
    "total of a variable of the split": (lambda f, m: estimate.total(f, "b", m, by="a").value, np.array([3.0, 1.0])),
    "quantity": (
        lambda f, m: estimate.quantities(f, ["b"], {"score": [1.0, 3.0]}, m).value,
        np.array([7 / 3]),
    ),
}


def expectations(question: str) -> list[np.ndarray[Any, Any]]:
    """Return the mean answer to everything that can be released, one for each way in which records show subsets."""
    ask, truth = QUESTIONS[question]
    records = 2 if "total" in question else 3
    sums: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}
    chances: dict[tuple[int, ...], float] = {}
    answers: dict[tuple[Any, ...], Any] = {}
    for released in itertools.product(*(outcomes(k, block="block" in question) for k in range(records))):
        shown = tuple(sorted(place for place, _, _ in released))
        values = [values for _, values, _ in released]
        # Records differ in z and w, which only totals ask for.
        key = tuple(values if "total" in question else sorted(values))
        try:
            answers[key] = answers[key] if key in answers else ask(frame_of(key), small())
        except EstimationError:  # too few show the variables, whatever they show of them
            continue
        p = math.prod(q for _, _, q in released)
        sums[shown] = sums.get(shown, np.zeros(truth.shape)) + p * answers[key]
        chances[shown] = chances.get(shown, 0.0) + p
    return [total / chances[shown] for shown, total in sums.items()]


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_fixed_file_tells_is_exactly_unbiased_whichever_records_show_what(question: str) -> None:
    means = expectations(question)
    assert means
    for mean in means:
        np.testing.assert_allclose(mean, QUESTIONS[question][1], atol=1e-10)


def test_weights_from_released_values_and_records_that_are_not_counted_are_found_out(monkeypatch: Any) -> None:
    """The same enumeration, of two mutants: one weighs what it sees, one leaves out the chance to be shown."""
    truth = QUESTIONS["total by group"][1]
    right = SplitAxis.released

    def weighed(self: SplitAxis, table: pa.Table) -> Any:
        cell, weight = right(self, table)
        return cell, weight * (1 + cell.clip(min=0))

    with monkeypatch.context() as patch:
        patch.setattr(SplitAxis, "released", weighed)
        assert max(np.abs(mean - truth).max() for mean in expectations("total by group")) > 0.05
    scaled = Cells.combination

    def unscaled(self: Cells, kept: Any, group: Any) -> Any:
        found = scaled(self, kept, group)
        return found if self.weight is None else self.weight[kept]

    monkeypatch.setattr(Cells, "combination", unscaled)
    assert max(np.abs(mean - truth).max() for mean in expectations("total by group")) > 0.05


# --- contributions in exact fractions ------------------------------------------------------------------------------


def solved(matrix: list[list[Fraction]], wanted: list[list[Fraction]]) -> list[list[Fraction]]:
    """Return B with ``matrix B = wanted`` by elimination."""
    rows = [[*left, *right] for left, right in zip(matrix, wanted, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(size):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[size:] for row in rows]


def uneven(law: TransitionMatrix) -> TransitionMatrix:
    weights = law.weights.copy()
    weights[0, 0] -= 3 << 40
    weights[0, 1] += 3 << 40
    return TransitionMatrix(weights)


@pytest.mark.parametrize("matrix", ["randomised response", "any"])
def test_contributions_are_those_of_the_exact_inverse(matrix: str) -> None:
    """The integers of the matrix, inverted in fractions: expectations are the indicators exactly, floats to 1e-12."""
    book = Codebook(tuple(Variable(n, "other", tuple("rstu"[:s])) for n, s in (("a", 2), ("b", 3))))
    law = randomised_response(6, 2.0)
    law = law if matrix == "randomised response" else uneven(law)
    split = Split.of([1.0], [Block(("a", "b"), law)])
    codes, (part,) = parts_of(split, book, ["b"])
    assert part.closed == (matrix == "randomised response")
    cells = list(itertools.product(range(2), range(3)))
    exact = [[Fraction(int(w), UNIT) for w in row] for row in law.weights]
    wanted = [[Fraction(int(cell[1] == k)) for k in range(3)] for cell in cells]
    values = solved(exact, wanted)
    for row, target in zip(exact, wanted, strict=True):
        assert [sum(p * v[k] for p, v in zip(row, values, strict=True)) for k in range(3)] == target
    assert codes.ravel().tolist() == [0, 1, 2]
    ours = part.values[[cell[1] for cell in cells]] if part.closed else part.values
    np.testing.assert_allclose(ours, np.array(values, dtype=float), atol=1e-12)


# --- dense sums, record by record ---------------------------------------------------------------------------------

BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
        Variable("ill", role="key", categories=(False, True), type="bool"),
        Variable("job", role="key", categories=("i", "j", "k")),
        Variable("area", role="key", categories=("e", "n", "w")),
        Variable("town", role="other", categories=("p", "q")),
        Variable("pay", role="other", type="double"),
        Variable("weight", role="weight", type="double"),
        Variable("stratum", role="other", categories=("s", "t")),
    )
)


CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Of sex and town."""


@cache
def law_of() -> Mechanism:
    """Return a split with subsets of every kind, and an ordinary block of areas beside it.

    Any matrix, listed cells, randomised response on more or fewer variables, one that reads a clear variable.
    """
    listed = tuple((a, i) for a in range(4) for i in range(2) if (a, i) != (0, 1))
    within = np.zeros((4, 4))
    for town in range(2):
        within[np.ix_([town, 2 + town], [town, 2 + town])] = rough(2, 5 + town).array
    blocks = [
        Block(("sex", "age"), rough(8, 4)),
        Block(("age", "ill"), randomised_response(7, 3.0), listed),
        Block(("sex", "age", "ill"), randomised_response(16, 4.0)),
        Block(("sex", "town"), TransitionMatrix.from_array(within), CELLS, given=("town",)),
        Block(("age", "sex", "job"), randomised_response(24, 4.5)),
    ]
    split = Split.of([0.25, 0.15, 0.25, 0.15, 0.2], blocks)
    return Mechanism([Block(("area",), rough(3, 8))], BOOK, split=split)


POPULATION = np.random.default_rng(1).dirichlet(np.full(8, 4.0)).reshape(2, 4)
"""The law of sex and age."""


def records(n: int, rng: np.random.Generator) -> pa.Table:
    """Return records whose variables depend on sex and age; nobody of the first age is ill."""
    sex, age = np.divmod(rng.choice(8, size=n, p=POPULATION.ravel()), 4)
    ill = (rng.random(n) < 0.2 + 0.3 * sex) & (age > 0)
    town = (rng.random(n) < 0.3 + 0.3 * sex).astype(int)
    area = np.minimum(rng.integers(0, 2, n) + sex, 2)
    job = (rng.random(n) * (1 + age.clip(max=2))).astype(int)
    pay = (1 + 0.5 * sex + 0.2 * age) * np.exp(0.5 * rng.normal(size=n))
    return pa.table(
        {
            "sex": [("F", "M")[k] for k in sex],
            "age": pa.array([[10, 20, 30, None][k] for k in age], pa.int64()),
            "ill": ill,
            "job": [("i", "j", "k")[k] for k in job],
            "area": [("e", "n", "w")[k] for k in area],
            "town": [("p", "q")[k] for k in town],
            "pay": pay,
            "weight": rng.integers(1, 4, n) / 2,
            "stratum": [("s", "t")[k] for k in rng.integers(0, 2, n)],
        }
    )


@cache
def released(seed: int, n: int = 600) -> pa.Table:
    return perturb(records(n, np.random.default_rng(seed)), law_of(), ReleaseKey.from_seed(seed))


def codes_of(table: pa.Table, name: str) -> list[int]:
    """Return codes, S for what is not released."""
    texts = [str(c) for c in BOOK[name].categories]
    known: dict[str | None, int] = {text: k for k, text in enumerate(texts)}
    if BOOK[name].missing == "category":
        known[None] = len(texts)
    known[NOT_RELEASED] = BOOK[name].size
    values = [None if v is None else str(v) for v in table[name].to_pylist()]
    return [known[v] for v in values]


def dense(table: pa.Table, variables: tuple[str, ...], weights: Any = None) -> tuple[Any, Any]:
    """Return the table of the variables and the number of its records, from whole matrices, record by record."""
    law = law_of()
    assert law.split is not None
    asked = [n for n in variables if n in law.partly]
    shape = [BOOK[n].size for n in variables]
    columns = {n: codes_of(table, n) for n in (*law.partly, "area", "town")}
    area = np.linalg.inv(law["area"].matrix.array)
    held = {}
    for place, block in enumerate(law.split.blocks):
        if set(asked) <= set(block.perturbed):
            cells = [tuple(c) for c in block.cell_table(tuple(BOOK[n].size for n in block.variables)).tolist()]
            inverse = np.linalg.inv(block.matrix.array)
            own = [tuple(c[block.variables.index(n)] for n in asked) for c in cells]
            every = sorted(set(own))
            rows = np.array([[inverse[y, [o == t for o in own]].sum() for t in every] for y in range(len(cells))])
            prior = np.full(len(cells), 1 / len(cells))
            q = prior @ block.matrix.array
            mean = q @ rows
            held[place] = (cells, inverse, own, 1 / (q @ ((rows - mean) ** 2).sum(axis=1)))
    total, size, used = np.zeros(shape), 0.0, 0
    for r in range(table.num_rows):
        shows = {n for n in law.partly if columns[n][r] < BOOK[n].size}
        place = next(k for k, block in enumerate(law.split.blocks) if set(block.perturbed) == shows)
        if place not in held:
            continue
        cells, inverse, own, precision = held[place]
        y = cells.index(tuple(columns[n][r] for n in law.split.blocks[place].variables))
        w = precision * (1.0 if weights is None else weights[r])
        size, used = size + w, used + 1
        clear = [n for n in variables if n not in law.partly]
        for x, b in zip(own, inverse[y], strict=True):
            for more in itertools.product(*(range(BOOK[n].size) for n in clear)):
                b_more = 1.0
                for n, k in zip(clear, more, strict=True):
                    b_more *= area[columns[n][r], k] if n == "area" else float(columns[n][r] == k)
                at = {**dict(zip(asked, x, strict=True)), **dict(zip(clear, more, strict=True))}
                total[tuple(at[n] for n in variables)] += w * b * b_more
    return total / size, used


@pytest.mark.parametrize(
    "variables",
    [("sex", "age"), ("ill",), ("age", "ill", "sex"), ("age",), ("town", "sex"), ("area", "age", "town"), ("job",)],
)
def test_a_table_is_what_dense_sums_give_record_by_record(variables: tuple[str, ...]) -> None:
    found = estimate.table(released(1), variables, law_of())
    wanted, used = dense(released(1), variables)
    np.testing.assert_allclose(found.value, wanted, atol=1e-9)
    assert (found.records, found.dropped, found.total) == (used, 0, pytest.approx(600))
    weight = released(1)["weight"].to_numpy()
    weighted = estimate.table(released(1), variables, law_of(), weights="weight")
    np.testing.assert_allclose(weighted.value, dense(released(1), variables, weight)[0], atol=1e-9)
    assert weighted.total == pytest.approx(weight.sum())
    assert weighted.counts().value.sum() == pytest.approx(weight.sum())


def test_a_group_mean_is_a_ratio_of_two_such_tables() -> None:
    pay = released(1)["pay"].to_numpy()
    found = estimate.mean(released(1), "pay", law_of(), by=["sex", "age"])
    shares, _ = dense(released(1), ("sex", "age"))
    sums, _ = dense(released(1), ("sex", "age"), pay)
    one, _ = dense(released(1), ("sex", "age"), np.ones(600))
    np.testing.assert_allclose(shares, one)
    scale = dense(released(1), ("sex",), pay)[0].sum()
    assert scale == pytest.approx(1)
    ratio = sums / shares
    ours = found.value / found.value[0, 0]
    np.testing.assert_allclose(ours, ratio / ratio[0, 0], rtol=1e-8)


def test_records_that_miss_the_value_are_left_out_of_a_mean_and_counted() -> None:
    """Missing values are alike in all subsets here, so what is left is the mean of the others."""
    whole = released(1)
    pay = [None if k % 5 == 0 else value for k, value in enumerate(whole["pay"].to_pylist())]
    frame = whole.set_column(whole.schema.get_field_index("pay"), "pay", pa.array(pay))
    others = whole.filter(pa.array([value is not None for value in pay]))
    found, wanted = (estimate.mean(f, "pay", law_of(), by="sex") for f in (frame, others))
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, wanted.standard_error, rtol=1e-12)
    shown = sum(1 for value in whole["sex"].to_pylist() if value != NOT_RELEASED)
    assert found.records == wanted.records
    assert found.records + found.dropped == shown


@pytest.mark.parametrize("variables", [("sex", "age"), ("age", "job", "area")])
def test_the_likelihood_is_that_of_every_record_in_its_subset(variables: tuple[str, ...]) -> None:
    """``Σ log Σ_x p_x M_T[x, y]`` from whole matrices: no distribution found by another method is more likely."""
    law = closed()
    assert law.split is not None
    table = perturb(records(300, np.random.default_rng(5)), law, ReleaseKey.from_seed(5))
    found = estimate.maximum_likelihood(table, variables, law)
    shape = [BOOK[n].size for n in variables]
    every = list(itertools.product(*map(range, shape)))
    columns = {n: codes_of(table, n) for n in (*law.partly, "area")}
    likelihoods = []
    for r in range(table.num_rows):
        shows = {n for n in law.partly if columns[n][r] < BOOK[n].size}
        subset = next(s for s in law.split.subsets if set(s.variables) == shows)
        if not {n for n in variables if n != "area"} <= shows:
            continue
        row = []
        for x in every:
            at = dict(zip(variables, x, strict=True))
            sizes = tuple(BOOK[n].size for n in subset.variables)
            free = [n for n in subset.variables if n not in at]
            y = np.ravel_multi_index([columns[n][r] for n in subset.variables], sizes)
            rest = [
                subset.matrix.array[np.ravel_multi_index([{**at, **more}[n] for n in subset.variables], sizes), z]
                for more in [dict.fromkeys(free, 0)]
                for z in like(y, sizes, subset.variables, at)
            ]
            area = law["area"].matrix.array[at["area"], columns["area"][r]] if "area" in at else 1.0
            row.append(sum(rest) * area)
        likelihoods.append(row)
    array = np.array(likelihoods)
    assert len(array) == found.records

    def loss(logits: Any) -> float:
        p = np.exp(logits - logits.max())
        return float(-np.log(array @ (p / p.sum())).sum())

    best = min(
        optimize.minimize(loss, np.log(np.maximum(start, 1e-4)), method="L-BFGS-B").fun
        for start in (found.value.ravel(), np.full(len(every), 1 / len(every)))
    )
    ours = -np.log(array @ found.value.ravel()).sum()
    assert abs(ours - best) < 5e-3
    assert ours < best + 2e-4  # nats: the package's own search stops within 1e-4 of the maximum


def like(y: Any, sizes: tuple[int, ...], names: tuple[str, ...], asked: Mapping[str, int]) -> list[int]:
    """Return the released cells that agree with y in what is asked."""
    own = np.unravel_index(y, sizes)
    cells = itertools.product(*([own[i]] if n in asked else range(sizes[i]) for i, n in enumerate(names)))
    return [int(np.ravel_multi_index(cell, sizes)) for cell in cells]


@cache
def closed() -> Mechanism:
    """Return a split of randomised response alone: what is shown of some variables depends on these."""
    subsets = [("sex", "age"), ("sex", "age", "ill"), ("age", "sex", "job"), ("job", "age")]
    sizes = [math.prod(BOOK[n].size for n in names) for names in subsets]
    blocks = [Block(names, randomised_response(size, 4.0)) for names, size in zip(subsets, sizes, strict=True)]
    return Mechanism([Block(("area",), rough(3, 8))], BOOK, split=Split.of([0.25] * 4, blocks))


# --- repeated files -----------------------------------------------------------------------------------------------

SHORT = {
    "tables of two": 300,
    "tables of two, weights and strata": 300,
    "with a block and a clear variable": 200,
    "means": 150,
    "totals": 150,
    "quantiles": 120,
    "linear regression": 120,
}


def test_intervals_cover_a_population_from_which_each_file_is_drawn_anew() -> None:
    """Pooled over families 1,400 intervals: 95 % within 4 standard errors of independent ones, no bias at 1e-4.

    ``python -m benchmarks.split_estimators`` has 2,000 intervals for each family, all families, and other sizes.
    """
    rows = [row for name, number in SHORT.items() for row in study(4.0, 2_000, number, 3, [name])]
    total = sum(row["intervals"] for row in rows)
    pooled = sum(row["intervals"] * row["coverage"] for row in rows) / total
    assert total >= sum(SHORT.values())
    assert abs(pooled - 0.95) < 4 * math.sqrt(0.95 * 0.05 / total)
    assert not sum(row["refused"] + row["no_ends"] for row in rows)


# --- what stands beside a split, what is known before, and what is refused ------------------------------------------


def test_ranked_columns_and_blocks_stand_beside_a_split() -> None:
    """A mean of ranked values is right as released; a table of the split is the same with and without them."""
    law = closed()
    table = records(200, np.random.default_rng(6)).rename_columns(
        ["score" if n == "pay" else n for n in records(1, np.random.default_rng(6)).column_names]
    )
    book = Codebook((*BOOK.variables, Variable("score", role="other", type="double")))
    both = Mechanism(law.blocks, book, [RankedColumn("score", RankBlocks(4), "permute", 200)], law.split)
    found = perturb(table, both, ReleaseKey.from_seed(6))
    mean = estimate.mean(found, "score", both)
    assert mean.value == pytest.approx(np.mean(table["score"].to_numpy()))
    assert estimate.table(found, ["sex", "area"], both).value.sum() == pytest.approx(1)
    with pytest.raises(EstimationError, match="rank law"):
        estimate.mean(found, "score", both, by="sex")


@pytest.mark.parametrize("variables", [("sex",), ("age", "job"), ("sex", "area")])
def test_what_is_expected_of_a_table_is_what_files_show(variables: tuple[str, ...]) -> None:
    """Standard errors of 120 files drawn anew from the law that was assumed; mean of the variances within 25 %."""
    law = closed()
    shape = tuple(BOOK[n].size for n in variables)
    expected = estimate.expected_precision(law, variables, 400)
    rng, values = np.random.default_rng(7), []
    for seed in range(120):
        codes = {n: rng.integers(0, BOOK[n].size, 400) for n in (*law.partly, "area")}
        columns = {n: pa.array([(*BOOK[n].categories, None)[k] for k in c]) for n, c in codes.items()}
        frame = perturb(pa.table(columns), law, ReleaseKey.from_seed(seed))
        values.append(estimate.table(frame, variables, law).value)
    ratio = np.var(values, axis=0, ddof=1).mean() / (expected.standard_error**2).mean()
    assert ratio == pytest.approx(1, abs=0.25)
    assert expected.standard_error.shape == shape
    assert (expected.worst >= expected.standard_error - 1e-12).all()


def test_effective_records_of_an_estimate_are_those_that_were_expected() -> None:
    law, rng = closed(), np.random.default_rng(8)
    codes = {n: rng.integers(0, BOOK[n].size, 4000) for n in (*law.partly, "area")}
    columns = {n: pa.array([(*BOOK[n].categories, None)[k] for k in c]) for n, c in codes.items()}
    frame = perturb(pa.table(columns), law, ReleaseKey.from_seed(9))
    pairs = [("sex", "age"), ("age", "job")]
    found = [estimate.table(frame, pair, law) for pair in pairs]
    expected = [estimate.expected_precision(law, pair, 4000).effective_sample_size for pair in pairs]
    for one, many in zip(found, expected, strict=True):
        assert one.effective_sample_size == pytest.approx(many, rel=0.1)
    together = estimate.effective_records(found)
    assert together == pytest.approx(2 / sum(1 / one.effective_sample_size for one in found), rel=0.01)
    with pytest.raises(UsageError, match="no table"):
        estimate.effective_records([])


def test_a_regression_needs_a_subset_with_all_of_its_variables() -> None:
    frame = released(1)
    with pytest.raises(EstimationError, match=r"ill, job: no record shows.*together \(ill; job\).*joint model"):
        estimate.regression("pay ~ ill + job", frame, law_of(), "linear")
    for ask in (
        lambda: estimate.mean(frame, "pay", law_of(), by=["ill", "job"]),
        lambda: estimate.independence_test(frame, "ill", "job", law_of()),
        lambda: estimate.expected_precision(law_of(), ["ill", "job"], 100),
    ):
        with pytest.raises(EstimationError, match="no record shows all these variables"):
            ask()


def test_a_coefficient_that_few_records_show_is_told_with_the_workload() -> None:
    found = estimate.regression("pay ~ C(age)", released(4, 60), law_of(), "linear")
    assert any(found.silent)
    said = f"{found.records:,} records show all variables of the model. Use fewer of them, or ask for a release whose "
    assert f"{said}split has them as a table in its workload" in found.warnings[0]
    assert "Merge categories" not in found.warnings[0]
    with pytest.raises(EstimationError, match="no single stable root") as refused:
        estimate.regression("ill ~ C(age) + town", released(3, 60), law_of(), "logistic")
    assert "ask for a release whose split has them as a table in its workload" in str(refused.value)
    assert re.search(r"got no root from any start, and \d+ records that show all variables", str(refused.value))


def test_what_has_no_estimator_on_a_split_says_what_to_use() -> None:
    frame, law = released(1), law_of()
    with pytest.raises(EstimationError, match=r"have no likelihood.*use the unbiased estimate"):
        estimate.maximum_likelihood(frame, ["sex"], law)
    with pytest.raises(EstimationError, match="have no likelihood"):
        estimate.regression("pay ~ sex", frame, law, "linear", method="likelihood")
    with pytest.raises(SpecificationError, match="none that is applied again"):
        estimate.mcsimex("pay ~ sex", frame, law, "linear", np.random.default_rng(1))
    with pytest.raises(SpecificationError, match="do not show the whole key"):
        estimate.candidates(frame, ["sex"], {"sex": "F"}, law)
    tabulated = estimate.table(frame, ["sex"], law, strata="stratum")
    for statistic in (tabulated, estimate.mean(frame, "pay", law, by="sex")):
        with pytest.raises(EstimationError, match="not divided into sampling and perturbation"):
            statistic.standard_error_of("perturbation")
    for bad in ({"weights": "age"}, {"strata": "sex"}):
        with pytest.raises(SpecificationError, match="is in the split"):
            estimate.table(frame, ["job"], law, **bad)


def test_what_singular_subsets_leave_identified_is_estimated_from_all_of_them() -> None:
    """Ages are alike in pairs in both subsets: each pair is estimated, an age is not."""
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.5))
    laws = [np.kron(np.eye(2), pairs), np.kron(pairs, np.eye(2))]
    blocks = [
        Block(names, TransitionMatrix.from_array(0.6 * law + 0.4 / 8))
        for names, law in zip((("sex", "age"), ("age", "ill")), laws, strict=True)
    ]
    law = Mechanism([], BOOK, split=Split.of([0.5, 0.5], blocks))
    frame = perturb(records(4000, np.random.default_rng(3)), law, ReleaseKey.from_seed(3))
    found, refused = estimate.identified(frame, "age", law)
    assert found.labels == (("10 + 20", "30 + (missing)"),)
    assert not refused
    assert found.records == 4000
    truth = POPULATION.sum(axis=0).reshape(2, 2).sum(axis=1)
    assert np.abs((found.value - truth) / found.standard_error).max() < 4
    for ask in (lambda: estimate.table(frame, ["age"], law), lambda: estimate.mean(frame, "pay", law, by="age")):
        with pytest.raises(EstimationError, match=r"cannot answer the table|does not identify"):
            ask()


def test_a_stratum_without_a_record_that_shows_the_variables_is_refused() -> None:
    frame = released(1)
    rare = pa.array(["only" if k == 0 else "s" for k in range(600)])
    first = frame.filter(pa.array([v == NOT_RELEASED for v in frame["ill"].to_pylist()]))
    again = pa.concat_tables([first[:1], frame[1:]])
    alone = again.set_column(again.schema.get_field_index("stratum"), "stratum", rare)
    with pytest.raises(EstimationError, match=r"no record of a stratum shows.*merge strata"):
        estimate.table(alone, ["ill"], law_of(), strata="stratum")


@pytest.mark.r
@pytest.mark.parametrize("variables", [("sex",), ("age", "sex"), ("area", "age", "town"), ("ill", "age")])
@pytest.mark.parametrize("weights", [None, "weight"])
def test_base_r_reproduces_a_table_of_a_split(tmp_path: Path, variables: tuple[str, ...], weights: str | None) -> None:
    for name, text in estimate.r_files(law_of()).items():
        (tmp_path / name).write_text(text, "utf-8")
    plain = released(2).cast(pa.schema([(f.name, text_of(f.type)) for f in released(2).schema]))
    pacsv.write_csv(plain, tmp_path / "data.csv")
    names, given = ", ".join(f'"{n}"' for n in variables), "NULL" if weights is None else f'"{weights}"'
    script = f"""
        source("postrand.R", encoding = "UTF-8")
        data <- read.csv("data.csv", colClasses = "character", na.strings = "", encoding = "UTF-8")
        out <- postrand_table(data, c({names}), postrand_read("."), weights = {given})
        writeLines(sprintf("%.17g %.17g", out$estimate, out$standard_error), "out.txt")
    """
    done = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value, error = np.loadtxt(tmp_path / "out.txt").T
    found = estimate.table(released(2), variables, law_of(), weights=weights)
    np.testing.assert_allclose(value, found.value.ravel(), atol=1e-12)
    np.testing.assert_allclose(error, found.standard_error.ravel(), atol=1e-12)


def text_of(of: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_dictionary(of) else of


@pytest.mark.r
@pytest.mark.parametrize("suffix", [".csv", ".sav", ".dta", ".xpt"])
def test_r_reads_a_split_in_the_files_of_statistical_programs(tmp_path: Path, suffix: str) -> None:
    """Letters, declared codes and numbered texts for what is not released: the same estimates from every format."""
    law = partly_law()
    for name, text in estimate.r_files(law).items():
        (tmp_path / name).write_text(text, "utf-8")
    sink = partial(formats.open_writer, tmp_path / f"data{suffix}")
    LocalEngine().perturb(Memory(partly_records()), law, KEY, sink, shuffle=False)
    script = """
        source("postrand.R", encoding = "UTF-8")
        data <- postrand_data(".")
        for (name in c("sex", "age", "area", "works", "pay")) {
          out <- postrand_table(data, name, postrand_read("."))
          cat(sprintf("%.17g %.17g\\n", out$estimate, out$standard_error), file = "out.txt", sep = "", append = TRUE)
        }
    """
    done = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    frame = perturb(partly_records(), law, KEY)
    found = [estimate.table(frame, [name], law) for name in ("sex", "age", "area", "works", "pay")]
    value, error = np.loadtxt(tmp_path / "out.txt").T
    np.testing.assert_allclose(value, np.concatenate([one.value for one in found]), atol=1e-12)
    np.testing.assert_allclose(error, np.concatenate([one.standard_error for one in found]), atol=1e-12)


ONE: dict[str, Any] = {
    "mean": lambda f, m: estimate.mean(f, "pay", m, by=["age", "ill"]),
    "mean of its own": lambda f, m: estimate.mean(f, "age", m, by="ill", weights="weight"),
    "total": lambda f, m: estimate.total(f, "pay", m, by="age", strata="stratum"),
    "ratio": lambda f, m: estimate.ratio_of_totals(f, "pay", "age", m, by="ill"),
    "quantile": lambda f, m: estimate.quantile(f, "pay", m, q=[0.2, 0.5], by="age"),
    "quantities": lambda f, m: estimate.quantities(f, ["age"], {"score": [1, 2, 3, 4]}, m, strata="stratum"),
    "weighted table": lambda f, m: estimate.table(f, ["ill", "age"], m, weights="weight", strata="stratum"),
    "likelihood": lambda f, m: estimate.maximum_likelihood(f, ["ill", "age"], m),
    "regression": lambda f, m: estimate.regression("pay ~ C(age) + ill", f, m, "linear", weights="weight"),
    "logistic": lambda f, m: estimate.regression("ill ~ town", f, m, "logistic"),
    "by likelihood": lambda f, m: estimate.regression("town ~ C(age) + ill", f, m, "logistic", method="likelihood"),
}


@pytest.mark.parametrize("matrix", [randomised_response(7, 2.5), rough(7, 3)], ids=["response", "any"])
@pytest.mark.parametrize("question", ONE)
def test_a_split_of_one_subset_is_a_block(question: str, matrix: TransitionMatrix) -> None:
    """On listed cells: every value and standard error is that of the ordinary block."""
    listed = tuple((a, i) for a in range(4) for i in range(2) if (a, i) != (0, 1))
    block = Block(("age", "ill"), matrix, listed)
    split, plain = Mechanism([], BOOK, split=Split.of([1.0], [block])), Mechanism([block], BOOK)
    frame = perturb(records(500, np.random.default_rng(4)), split, ReleaseKey.from_seed(4))
    ages = [None if v is None else int(v) for v in frame["age"].to_pylist()]
    back = frame.set_column(frame.schema.get_field_index("age"), "age", pa.array(ages, pa.int64()))
    ill = pa.array([v == "True" for v in frame["ill"].to_pylist()])
    back = back.set_column(back.schema.get_field_index("ill"), "ill", ill)
    ours, wanted = ONE[question](frame, split), ONE[question](back, plain)
    np.testing.assert_allclose(ours.value, wanted.value, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.standard_error, wanted.standard_error, rtol=1e-5, atol=1e-9)
