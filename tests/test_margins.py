"""Released counts against the law: impossible ones are refused, right releases never are, and the power is measured."""

import itertools
import math
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize

from postrand import release
from postrand.codebook import Codebook, Variable
from postrand.engines.summary import _tested, check_margins, summarise
from postrand.errors import DataError
from postrand.mechanism import Block, Mechanism, margins
from postrand.mechanism.margins import (
    LEVEL,
    Table,
    _Axis,
    _back,
    _forth,
    _mixture,
    _on_cells,
    _on_the_whole,
    _start,
    impossible,
    tables_of,
)
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.release import canonical_json
from tests.release_case import LAW, RECORDS, edit, make, rebuild, released_table, without_missing, writer_of

# Every category with at least 21 %, from every true one.
FLAT = TransitionMatrix.from_array(np.full((3, 3), 0.21) + 0.37 * np.eye(3))

SKEWED = TransitionMatrix.from_array([[0.9, 0.1, 0.0], [0.4, 0.3, 0.3], [0.05, 0.05, 0.9]])
OFF = np.where(np.arange(70) < 35, UNIT // 700, UNIT // 100)
LARGE = TransitionMatrix.constant(UNIT - 69 * OFF, OFF)  # constant off the diagonal, and each row with its own law


def draw(rng, true, law):
    """Return released counts of true counts (K,)."""
    return sum(rng.multinomial(n, row) for n, row in zip(true, law.array, strict=True))


def draw_pair(rng, true, one, two):
    """Return released counts (K_1, K_2) of true counts, the two blocks drawn independently."""
    cells = [rng.multinomial(n, np.outer(one.array[i], two.array[k]).ravel()) for (i, k), n in np.ndenumerate(true)]
    return sum(cells).reshape(true.shape)


# -- the bound itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [randomised_response(2, 1.0), FLAT, TransitionMatrix.identity(2)], ids=[*"abc"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_evidence_has_mean_at_most_one_whatever_the_true_records_are(law, n):
    """Exact: every sequence of true cells, every sequence of released ones, the maximum found by another optimiser."""
    size = law.size
    evidence = {}
    for counts in itertools.product(range(n + 1), repeat=size):
        if sum(counts) == n:
            evidence[counts] = math.exp(_mixture(np.array(counts, float)) - largest_likelihood(law, counts))
    for true in itertools.combinations_with_replacement(range(size), n):
        total = 0.0
        for cells in itertools.product(range(size), repeat=n):
            chance = math.prod(law.array[x, z] for x, z in zip(true, cells, strict=True))
            total += chance * evidence[tuple(cells.count(k) for k in range(size))] if chance else 0.0
        assert total <= 1 + 1e-6


def largest_likelihood(law, counts):
    """Return ``max_π Σ_j N_j ln (Mᵀπ)_j``: by a general optimiser, for the smallest of problems."""
    seen = np.array(counts) > 0

    def loss(theta):
        share = np.exp(theta - theta.max())
        released = law.array.T @ (share / share.sum())
        return -float((np.array(counts)[seen] * np.log(released[seen].clip(1e-300))).sum())

    starts = [np.zeros(law.size), *(12 * np.eye(law.size)), np.log(np.array(counts) + 0.01)]
    return -min(minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9}).fun for start in starts)


def test_the_mixture_is_a_distribution():
    for size, n in ((2, 7), (3, 5)):
        sequences = itertools.product(range(size), repeat=n)
        counts = (np.bincount(z, minlength=size).astype(float) for z in sequences)
        assert math.fsum(math.exp(_mixture(c)) for c in counts) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("level", [0.05, 0.5])
def test_right_releases_are_refused_less_often_than_the_level(level):
    """2,400 right releases of many laws, worst true records among them; alpha: at most a binomial(600, level) tail."""
    rng, refused, runs = np.random.default_rng(5), 0, 0
    for size, epsilon, n in itertools.product((2, 3, 8), (0.1, 1.0, 4.0), (20, 400, 50_000)):
        law = randomised_response(size, epsilon)
        for point in range(25):
            share = np.eye(size)[0] if point < 12 else rng.dirichlet(np.full(size, 0.3))
            counts = draw(rng, rng.multinomial(n, share), law)
            refused += bool(impossible([Table("a", (law,), counts)], level))
            runs += 1
    assert refused <= level * runs + 5 * math.sqrt(level * (1 - level) * runs)
    assert refused < runs  # and it is not the test that refuses all


@pytest.mark.parametrize("law", [randomised_response(2, 1.0), FLAT, SKEWED], ids=["two", "flat", "skewed"])
def test_what_is_decided_agrees_with_the_true_maximum(law):
    """On the whole: refused exactly where ``ln m(N) - max ℓ`` exceeds the bar, but for the nat of slack."""
    rng, bar, outcomes = np.random.default_rng(law.size), math.log(2 / LEVEL), set()
    for k in range(16):
        share = rng.dirichlet(np.full(law.size, 0.7))
        counts = rng.multinomial(1_000, share if k % 2 else law.array.T @ share)
        evidence = _mixture(counts.astype(float)) - largest_likelihood(law, tuple(counts))
        found = _on_the_whole(Table("a", (law,), counts), bar)
        outcomes.add(found)
        if abs(evidence - bar) > 3:
            assert found == (evidence > bar)
    assert outcomes == {True, False}


@pytest.mark.parametrize("law", [FLAT, SKEWED, LARGE], ids=["flat", "skewed", "constant"])
def test_laws_are_applied_as_their_arrays(law):
    x = np.random.default_rng(9).random((law.size, 2))
    other = randomised_response(2, 1.0)
    assert np.allclose(_forth([_Axis(law)], x[:, 0]), law.array.T @ x[:, 0], rtol=1e-12)
    assert np.allclose(_back([_Axis(law)], x[:, 0]), law.array @ x[:, 0], rtol=1e-12)
    both = [_Axis(law), _Axis(other)]
    assert np.allclose(_forth(both, x), law.array.T @ x @ other.array, rtol=1e-12)
    assert np.allclose(_back(both, x), law.array @ x @ other.array.T, rtol=1e-12)


@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.0], [0.2, 0.5, 0.3]])
def test_the_search_starts_at_a_distribution_without_zeros(shares):
    """At the unbiased estimate, moved into the simplex; where there is none, or too many kinds, at the uniform one."""
    released, third = np.array(shares), np.full(3, 1 / 3)
    singular = TransitionMatrix.from_array([[0.5, 0.25, 0.25]] * 3)
    for law, wanted in (
        (singular, third),
        (np.full((2, 3), 1 / 3), np.full(2, 0.5)),
        (TransitionMatrix.identity(3), released),
        (FLAT, np.linalg.solve(FLAT.array.T, released).clip(0)),
    ):
        start = _start([_Axis(law)], released)
        assert (start > 0).all()
        assert start == pytest.approx(wanted / wanted.sum(), abs=1e-5)
        assert start.sum() == pytest.approx(1.0, abs=1e-12)


# -- where the decision turns, in closed form --------------------------------------------------------------------------


def exact_log(x):
    return float(Decimal(x).ln(Context(prec=40)))


def test_a_cell_is_refused_from_the_bound_of_chernoff_on():
    """``n kl(N_j / n, h_j)``, or with l_j, to 40 digits, against the bar and the two bounds of each cell."""
    law = TransitionMatrix(np.array([[6, 1, 1], [2, 5, 1], [4, 1, 3]]) * (UNIT // 8))  # 1/4..3/4, 1/8..5/8, 1/8..3/8
    for counts, x, p in (
        ((900, 50, 50), 0.9, 0.75),
        ((100, 450, 450), 0.1, 0.25),
        ((300, 690, 10), 0.01, 0.125),
        ((1000, 0, 0), 1.0, 0.75),
        ((0, 500, 500), 0.0, 0.25),
    ):
        n, tail = sum(counts), [(a, b) for a, b in ((x, p), (1 - x, 1 - p)) if a]
        nats = n * sum(a * exact_log(a / b) for a, b in tail)
        table = Table("a", (law,), np.array(counts))
        for kind in (law, law.array):
            table = Table("a", (kind,), np.array(counts))
            assert _on_cells(table, nats - math.log(6) - 1e-6)
            assert not _on_cells(table, nats - math.log(6) - 5e-10)  # rounded against rejection
        many = Table("a", (law,), np.array(counts) * 10**4)
        assert not _on_cells(many, 10**4 * nats - math.log(6))  # rounded against rejection, however many records
        assert _on_cells(many, 10**4 * (nats - 1e-9) - math.log(6))
    inside = Table("a", (law,), np.array([500, 250, 250]))
    assert not _on_cells(inside, -math.log(6) + 1e-6)
    assert not _on_cells(Table("a", (law, law), np.array([[1000, 0], [0, 0]])), 1.0)
    nobody = TransitionMatrix(np.array([[UNIT, 0], [UNIT, 0]]))
    assert _on_cells(Table("a", (nobody,), np.array([999, 1])), 1e9)
    assert not _on_cells(Table("a", (nobody,), np.array([1000, 0])), 1.0)


TURNS: dict[str, Any] = {
    "all in one": ((randomised_response(2, 1.0),), np.array([300, 0]), "high"),
    "inside": ((randomised_response(2, 1.0),), np.array([110, 190]), "own"),
    "constant form": ((randomised_response(70, 3.0),), np.eye(70, dtype=int)[5] * 400, "high"),
    "two blocks": ((randomised_response(2, 1.0), randomised_response(3, 2.0)), np.array([[0, 90, 0], [0] * 3]), "high"),
    "kinds of records": ((np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]),), np.array([200, 0, 0]), "high"),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_table_is_refused_from_the_evidence_on(name):
    """The largest likelihood is known: of the shares themselves, or of records that are all alike in the seen cell."""
    laws, counts, kind = TURNS[name]
    n, seen = int(counts.sum()), counts[counts > 0].tolist()
    if kind == "own":
        largest = sum(k * exact_log(k / n) for k in seen)
    else:
        at = np.argwhere(counts > 0)[0]
        arrays = [law.array if isinstance(law, TransitionMatrix) else law for law in laws]
        largest = n * sum(exact_log(array[:, j].max()) for array, j in zip(arrays, at, strict=True))
    evidence = mixture(counts.ravel().tolist()) - largest
    table = Table("a", laws, counts)
    assert _on_the_whole(table, evidence - 1 - 1e-3)
    assert not _on_the_whole(table, evidence - 1 + 1e-3)  # one nat is left against rejection


def test_a_table_between_the_rows_is_refused_from_the_evidence_on():
    """The search takes steps that are too long here, and goes back: what it then finds is as sharp."""
    counts = np.array([5, 60, 100])
    evidence = _mixture(counts.astype(float)) - largest_likelihood(SKEWED, tuple(counts))
    assert _on_the_whole(Table("a", (SKEWED,), counts), evidence - 1 - 1e-5)
    assert not _on_the_whole(Table("a", (SKEWED,), counts), evidence - 1 + 1e-5)


def mixture(counts):
    """``ln m(N)``, one record after the other: the next is in cell j with ``(N_j + 1/2) / (n + K/2)``."""
    total, held = 0.0, [0] * len(counts)
    for j, count in enumerate(counts):
        for _ in range(count):
            total += math.log((held[j] + 0.5) / (sum(held) + len(counts) / 2))
            held[j] += 1
    return total


def test_the_level_is_divided_among_tables_and_two_tests(monkeypatch):
    asked = []

    def refusing(name):
        def of(table, bar):
            asked.append(bar)
            return table.name == name

        return of

    monkeypatch.setattr(margins, "_on_cells", refusing("b"))
    monkeypatch.setattr(margins, "_on_the_whole", refusing("c"))
    tables = [Table(name, (FLAT,), np.array([1, 2, 3])) for name in "abc"]
    assert impossible(tables, 1e-3) == ["b", "c"]
    assert asked == [math.log(6 / 1e-3)] * 5
    assert impossible([], 1e-3) == []
    del asked[:]
    assert impossible(tables[:1]) == []
    assert asked == [math.log(2 / 1e-9)] * 2


def test_only_large_dense_laws_are_tested_by_cells_alone(monkeypatch):
    counts = np.array([0, 0, 900])
    table, constant = Table("a", (FLAT,), counts), Table("a", (LARGE,), np.eye(70, dtype=int)[50] * 400)
    bar = math.log(2 / LEVEL)
    for most, wanted in ((3, True), (2, False)):
        monkeypatch.setattr(margins, "MAX_CELLS", most)
        assert _on_the_whole(table, bar) == wanted
        assert _on_the_whole(Table("a", (FLAT.array,), counts), bar)
        assert _on_the_whole(constant, bar)
    monkeypatch.setattr(margins, "_STEPS", 0)
    assert not _on_the_whole(constant, bar)  # what is not decided is not refused


# -- power -----------------------------------------------------------------------------------------------------------


def test_unperturbed_records_under_a_law_that_gives_every_category_a_fifth_are_impossible():
    counts = np.array([900, 6_000, 10_237])
    assert impossible([Table("a", (FLAT,), counts)]) == ["a"]
    right = draw(np.random.default_rng(1), counts, FLAT)
    assert impossible([Table("a", (FLAT,), right)]) == []


@pytest.mark.parametrize(("used", "seen"), [(2.0, True), (1.2, True), (1.02, False), (0.5, False)])
def test_a_law_that_protects_less_than_it_says_is_seen_where_the_records_show_it(used, seen):
    """All records in one category, n = 17,137, certified ε = 1: released at a larger ε they leave what it can give.

    A smaller ε keeps every share within what the law can give: nothing can be seen, and nothing is lost.
    """
    rng, true = np.random.default_rng(3), np.array([17_137, 0, 0, 0])
    counts = draw(rng, true, randomised_response(4, used))
    assert bool(impossible([Table("a", (randomised_response(4, 1.0),), counts)])) is seen


def test_two_blocks_show_what_none_shows_alone():
    """Two unperturbed variables that always agree: each margin is possible, their table is not."""
    law = randomised_response(2, 1.0)
    both = np.array([[500, 0], [0, 500]])
    margins = [Table(str(axis), (law,), both.sum(axis=axis)) for axis in (0, 1)]
    assert impossible(margins) == []
    assert impossible([*margins, Table("pair", (law, law), both)]) == ["pair"]
    rng = np.random.default_rng(2)
    assert impossible([Table("pair", (law, law), draw_pair(rng, both, law, law))]) == []


def test_cells_of_a_large_law_are_bounded_one_by_one():
    size = 3_000
    weights = np.full((size, size), UNIT // size, dtype=np.int64)
    weights[:, 0] += UNIT - weights.sum(axis=1)
    weights[0, [1, 2]] += [5, -5]  # not constant off the diagonal: held dense, and too large for the table as a whole
    law, counts = TransitionMatrix(weights), np.zeros(size, dtype=np.int64)
    counts[7] = 10_000
    table, bar = Table("a", (law,), counts), math.log(2 / LEVEL)
    assert (_on_cells(table, bar), _on_the_whole(table, bar)) == (True, False)
    assert impossible([table]) == ["a"]
    even = np.full(size, 4)
    assert impossible([Table("a", (law,), even)]) == []


@pytest.mark.parametrize("law", [SKEWED, LARGE], ids=["dense", "constant"])
def test_rows_are_true_and_columns_released(law):
    """Laws that are not symmetric: each row is possible, as are mixtures; the transposed law's rows are not."""
    rng, n, size = np.random.default_rng(6), 200_000, law.size
    for row in (0, size - 1):
        counts = rng.multinomial(n, law.array[row])
        assert impossible([Table("a", (law,), counts)]) == []
    mixed = draw(rng, rng.multinomial(n, rng.dirichlet(np.ones(size))), law)
    assert impossible([Table("a", (law,), mixed)]) == []
    columns = law.array / law.array.sum(axis=0)
    transposed = [rng.multinomial(n, columns[:, row]) for row in range(size)]
    assert any(impossible([Table("a", (law,), counts)]) for counts in transposed)
    pair, one = (SKEWED, randomised_response(2, 2.0)), np.zeros((3, 2), dtype=np.int64)
    for cell in ((1, 0), (2, 1)):
        one[:] = 0
        one[cell] = n
        assert impossible([Table("pair", pair, draw_pair(rng, one, *pair))]) == []


def test_empty_and_single_tables_are_possible():
    law = randomised_response(3, 1.0)
    tables = [Table("none", (law,), np.zeros(3, np.int64)), Table("one", (randomised_response(1, 1.0),), np.array([9]))]
    assert impossible(tables) == []
    assert impossible([]) == []


@pytest.mark.parametrize("epsilon", [0.01, 12.0, 30.0])
@pytest.mark.parametrize("n", [1, 100, 10**9])
def test_extreme_budgets_and_sizes_do_not_refuse_right_releases(epsilon, n):
    rng, law = np.random.default_rng(8), randomised_response(5, epsilon)
    for share in (np.eye(5)[1], np.full(5, 0.2), np.array([0.97, 0.01, 0.01, 0.005, 0.005])):
        counts = draw(rng, rng.multinomial(n, share), law)
        assert impossible([Table("a", (law,), counts)]) == []


def test_zeros_are_allowed_where_the_law_has_them_and_only_there():
    law = TransitionMatrix.from_array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    assert impossible([Table("a", (law,), np.array([500, 510, 0]))]) == []
    assert impossible([Table("a", (law,), np.array([0, 0, 7]))]) == []
    assert impossible([Table("a", (law,), np.array([1_000, 0, 30]))]) == ["a"]
    nobody = TransitionMatrix(np.array([[UNIT, 0], [UNIT, 0]]))
    assert _on_the_whole(Table("a", (nobody,), np.array([999, 1])), 1e9)
    assert not _on_the_whole(Table("a", (nobody,), np.array([1000, 0])), 1.0)


# -- in a release ----------------------------------------------------------------------------------------------------


def unperturbed(tmp_path: Path) -> Path:
    """Write a right release, then put records in it that were not perturbed, everything else in line."""
    root = make(tmp_path / "release").path
    table = released_table()
    column = pa.array(["F"] * RECORDS, table["sex"].type.value_type).dictionary_encode()
    (root / "data.parquet").unlink()
    forged = table.set_column(
        0,
        "sex",
        pa.DictionaryArray.from_arrays(column.indices.cast(pa.int8()), table["sex"].combine_chunks().dictionary),
    )
    writer_of(forged)(root / "data.parquet")
    rebuild(root)
    return root


def test_a_release_of_unperturbed_records_does_not_verify(tmp_path):
    found = release.verify(unperturbed(tmp_path), raise_if_failed=False)
    failed = [check for check in found.checks if check.ok is False]
    assert failed[0].name == "margins"
    assert "block 'sex': the matrix almost never produces such counts" in failed[0].sentence
    assert found.exit_code == 7


def test_a_release_of_unperturbed_records_is_not_written(tmp_path):
    table, _ = without_missing()
    with pytest.raises(DataError, match="'region': the matrix almost never"):
        make(tmp_path / "release", table)  # nobody has a missing region, which the law gives to one in twelve
    assert list(tmp_path.iterdir()) == []


def test_pairs_of_blocks_that_share_no_variable_are_tested(tmp_path):
    made = make(tmp_path / "release")
    summary = summarise(made.data_path, made.mechanism)
    assert [(a, b) for a, b, _ in summary.block_pairs] == list(itertools.combinations(range(4), 2))
    frame = released_table().to_pandas()
    sex_town = np.array([[((frame.sex == s) & (frame.town == t)).sum() for t in ("a", "b", "gone")] for s in "FM"])
    assert (next(n for a, b, n in summary.block_pairs if (a, b) == (0, 3)) == sex_town).all()
    kept = next(n for a, b, n in summary.block_pairs if (a, b) == (0, 1))
    assert kept.sum() == RECORDS  # a missing region is a category
    assert check_margins(summary, made.mechanism) == 4 + 6


def test_strata_and_kept_missing_values_are_tested_without_false_alarm(tmp_path):
    """The law of one variable by strata, another with missing values that are kept: 3,000 records drawn by them."""
    book = Codebook(
        (
            Variable("s", role="other", categories=("a", "b")),
            Variable("x", role="key", categories=(0, 1), type="int64"),
            Variable("y", role="key", categories=("u", "v"), missing="keep"),
        )
    )
    one, two = randomised_response(2, 0.5).weights, randomised_response(2, 3.0).weights
    zero = np.zeros((2, 2), dtype=np.int64)
    by_stratum = TransitionMatrix(np.block([[one, zero], [zero, two]]))
    cells = tuple(itertools.product(range(2), range(2)))
    law = Mechanism(
        [Block(("s", "x"), by_stratum, cells, given=("s",)), Block(("y",), randomised_response(2, 1.0))], book
    )
    rng, n = np.random.default_rng(11), 3_000
    s = rng.integers(0, 2, n)
    x = np.array([rng.choice(2, p=by_stratum.array[2 * k, [2 * k, 2 * k + 1]]) for k in s])
    stays = rng.random(n) < randomised_response(2, 1.0).array[0, 0]
    y = [None if missing else "u" if stay else "v" for missing, stay in zip(rng.random(n) < 0.4, stays, strict=True)]

    def table(values):
        return pa.table({"s": np.array(["a", "b"])[s], "x": pa.array(values), "y": pa.array(y, pa.string())})

    made = make(tmp_path / "release", table(x), mechanism=law, claims=[])
    assert check_margins(summarise(made.data_path, law), law) == 3
    with pytest.raises(DataError, match="block 's × x'"):  # as they are: in stratum a, everybody is a 0
        make(tmp_path / "other", table(np.zeros(n, dtype=np.int64)), mechanism=law, claims=[])


def test_blocks_that_read_one_variable_are_not_taken_for_independent():
    """Given s, both draw alone; over all records s ties them, and their table has no law of its own."""
    law = TransitionMatrix(np.kron(np.eye(2, dtype=np.int64), randomised_response(2, 1.0).weights))
    cells = tuple(itertools.product(range(2), range(2)))
    x, y = (Block(("s", name), law, cells, given=("s",)) for name in "xy")
    assert _tested([x, y, Block(("z",), randomised_response(2, 1.0))]) == [(0, 2), (1, 2)]
    large = Block(("w",), randomised_response(600, 1.0))
    assert _tested([large, Block(("z",), randomised_response(2, 1.0))]) == []
    assert len(_tested([Block((f"v{k}",), randomised_response(2, 1.0)) for k in range(20)])) == 45


def test_tables_are_named_after_their_blocks():
    def none(shape):
        return np.zeros(shape, dtype=np.int64)

    blocks = LAW.blocks[:2]
    names = [t.name for t in tables_of(blocks, map(none, (2, 5)), [(0, 1, none((2, 5)))])]
    assert names == ["'sex'", "'region'", "'sex' by 'region'"]
    (one,) = tables_of(blocks, [None, none(5)], [])
    assert (one.name, one.laws) == ("'region'", (blocks[1].matrix,))
    with pytest.raises(ValueError, match="zip"):
        tables_of(blocks, [none(2)], [])


def test_a_law_said_to_protect_more_than_it_did_does_not_verify(tmp_path):
    """A thief cannot understate ε by rewriting the law where the released counts show the one that was used."""
    root = make(tmp_path / "release").path
    book = release.read(root).codebook
    flat = [
        Block((n,), randomised_response(book[n].size, 0.01), provenance="public") for n in ("sex", "region", "town")
    ]

    law = Mechanism([*flat, LAW.blocks[2]], book)
    (root / "mechanism.json").write_bytes(canonical_json.dump(law.to_dict()))
    edit(root / "certificate.json", lambda c: c.update(claims=[]))
    rebuild(root)
    found = release.verify(root, raise_if_failed=False)
    (problem,) = [c.sentence for c in found.checks if c.ok is False and c.name == "margins"]
    assert "block 'town'" in problem
    assert all(c.ok is not False or "earlier check" in c.sentence for c in found.checks if c.name != "margins")
