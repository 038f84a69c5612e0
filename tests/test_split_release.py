"""What a split releases: the law of subset and cell, the blank category in every kind of table, and what is refused."""

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from postrand.codebook import Codebook, Variable, coding, not_released
from postrand.codebook.not_released import NOT_RELEASED
from postrand.engines import LocalEngine
from postrand.engines.frame import content_of, perturb
from postrand.errors import DataError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.sampling import draw
from postrand.mechanism.split_sampling import chosen, cumulated, split_words, subset_sampler
from postrand.support.randomness import ReleaseKey, words
from postrand.testing.engines import Collector, Memory

KEY = ReleaseKey.from_seed(5)
ALPHA = 1e-4
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
        Variable("area", role="key", categories=("a", "b", "c"), missing="keep"),
        Variable("town", role="other", categories=("x", "y")),
    )
)
PAIR = Block(("sex", "age"), randomised_response(8, 2.0))
AGE = Block(("age",), TransitionMatrix.from_array(np.full((4, 4), 0.1) + 0.6 * np.eye(4)))
AREA = Block(("area",), randomised_response(3, 1.0))


def mechanism(probabilities: Any = (0.5, 0.3, 0.2)) -> Mechanism:
    beside = Block(("town",), randomised_response(2, 0.5))
    return Mechanism([beside], BOOK, split=Split.of(probabilities, [PAIR, AGE, AREA]))


def records(n: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)

    def pick(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), n)], kind)

    return pa.table(
        {
            "sex": pick(["F", "M", "M"], pa.string()),
            "age": pick([10, 20, 20, 30, None], pa.int64()),
            "area": pick(["a", "b", "c", None], pa.string()),
            "town": pick(["x", "y"], pa.string()),
        }
    )


def test_the_cumulated_weights_choose_each_subset_for_exactly_its_share_of_words() -> None:
    split = mechanism((0.5, 0.5 - 2**-53, 2**-53)).split
    assert split is not None
    ends = cumulated(split).tolist()
    assert ends[-1] == UNIT
    edges = [v for end in ends for v in (end - 1, end) if 0 <= v < UNIT]
    for low in (0, 2047):  # the lowest bits of a word do not matter
        given = np.array([v << 11 | low for v in edges], dtype=np.uint64)
        wanted = [next(k for k, end in enumerate(ends) if v < end) for v in edges]
        assert chosen(cumulated(split), given).tolist() == wanted


def test_words_come_after_those_of_the_blocks_and_do_not_depend_on_the_batch() -> None:
    keys = np.arange(20, dtype=np.uint64)
    for blocks in range(4):
        every = [words(bytes(32), keys, slot)[:, lane] for slot in range(3) for lane in range(2)]
        first, second = split_words(bytes(32), keys, blocks)
        assert (first == every[blocks]).all()
        assert (second == every[blocks + 1]).all()
        parts = [split_words(bytes(32), keys[a:b], blocks)[1] for a, b in ((0, 7), (7, 20))]
        assert (np.concatenate(parts) == second).all()


def test_large_matrices_that_are_constant_off_the_diagonal_are_drawn_exactly() -> None:
    """Every value at which the released code changes, for each true code, against the weights of the matrix."""
    law = randomised_response(70, 3.0)
    sampler, weights = subset_sampler(law), law.weights.tolist()
    for code in (0, 1, 69):
        off = weights[code][(code + 1) % 70]
        others = [c for c in range(70) if c != code]
        edges = [(k * off + shift, c) for k, c in enumerate(others) for shift in (0, off - 1)]
        edges += [(69 * off, code), (UNIT - 1, code)]
        given = np.array([v << 11 for v, _ in edges], dtype=np.uint64)
        released = draw(sampler, np.full(len(edges), code, dtype=np.int8), given)
        assert released.tolist() == [c for _, c in edges]
        assert UNIT - 69 * off == weights[code][code]


def outcome(shown: tuple[int, ...], law: Mechanism) -> tuple[int, int]:
    """Return subset and cell of the released codes of sex, age and area; -1 for a missing value that is kept."""
    assert law.split is not None
    pattern = {n for n, code in zip(law.partly, shown, strict=True) if code != BOOK[n].size}
    place = next(k for k, subset in enumerate(law.split.subsets) if set(subset.variables) == pattern)
    cell = 0
    for name, code in zip(law.partly, shown, strict=True):
        cell = cell if name not in pattern else -1 if code < 0 else cell * BOOK[name].size + code
    return place, cell


def p_value(released: pa.Table, true: pa.Table, law: Mechanism) -> float:
    """Test the counts of (subset, released cell) given each whole true record: multinomials, ``π_T M_T[x_T, y]``."""
    assert law.split is not None
    assert law.partly == ("sex", "age", "area")
    texts = true.cast(pa.schema([(n, pa.string()) for n in true.column_names]))
    columns = [[not_released.encode(t[n], BOOK[n]).tolist() for n in law.partly] for t in (texts, released)]
    counts: dict[tuple[int, ...], Counter[tuple[int, int]]] = defaultdict(Counter)
    for x, y in zip(zip(*columns[0], strict=True), zip(*columns[1], strict=True), strict=True):
        counts[x][outcome(y, law)] += 1
    total, freedom = 0.0, 0
    for (sex, age, area), found in counts.items():
        rows = [law.split.blocks[k].matrix.array for k in range(3)]
        given = [rows[0][4 * sex + age], rows[1][age], rows[2][area]]
        chances = {
            (k, y): subset.probability * p
            for k, subset in enumerate(law.split.subsets)
            for y, p in ([(-1, 1.0)] if k == 2 and area < 0 else enumerate(given[k]))
        }
        assert set(found) <= set(chances)
        n = sum(found.values())
        total += sum((found[c] - n * p) ** 2 / (n * p) for c, p in chances.items())
        freedom += len(chances) - 1
    return float(stats.chi2.sf(total, freedom))


@pytest.fixture(scope="module")
def released() -> tuple[pa.Table, pa.Table]:
    true = records(60_000)
    return perturb(true, mechanism(), KEY), true


def test_subsets_and_cells_follow_the_joint_law(released: tuple[pa.Table, pa.Table]) -> None:
    assert p_value(*released, mechanism()) > ALPHA


@pytest.mark.parametrize(
    "wrong",
    [
        mechanism((0.47, 0.33, 0.2)),
        Mechanism(
            [], BOOK, split=Split.of([0.5, 0.3, 0.2], [PAIR, AGE, Block(("area",), randomised_response(3, 1.6))])
        ),
        Mechanism(
            [], BOOK, split=Split.of([0.5, 0.3, 0.2], [PAIR, Block(("age",), randomised_response(4, 1.5)), AREA])
        ),
    ],
)
def test_another_law_is_told_apart(released: tuple[pa.Table, pa.Table], wrong: Mechanism) -> None:
    assert p_value(*released, wrong) < ALPHA


def test_a_subset_that_follows_the_value_is_told_apart() -> None:
    """Subsets have the right shares over all records, but not among F and M."""
    true = records(60_000)
    parts = []
    for sex, probabilities in (("F", (0.56, 0.24, 0.2)), ("M", (0.47, 0.33, 0.2))):
        of_sex = np.array(true["sex"].to_pylist()) == sex
        parts.append(perturb(true, mechanism(probabilities), KEY).filter(pa.array(of_sex)))
    order = np.argsort(np.array(true["sex"].to_pylist()), kind="stable")
    assert p_value(pa.concat_tables(parts), true.take(order), mechanism()) < ALPHA


def test_every_kind_of_table_has_the_same_values_and_the_category_last() -> None:
    true = records(500)
    arrow = perturb(true, mechanism(), KEY)
    frame = true.to_pandas().astype({"age": "Int64"}).set_index(pd.RangeIndex(10, 510))
    pandas, polars = perturb(frame, mechanism(), KEY), perturb(pl.from_arrow(true), mechanism(), KEY)
    for name, texts in {"sex": ["F", "M"], "age": ["10", "20", "30"], "area": ["a", "b", "c"]}.items():
        wanted = [*texts, NOT_RELEASED]
        assert arrow[name].chunk(0).dictionary.to_pylist() == wanted
        assert list(pandas[name].cat.categories) == wanted
        assert not pandas[name].cat.ordered
        assert polars[name].dtype == pl.Enum(wanted)
        values = arrow[name].to_pylist()
        assert polars[name].to_list() == values
        assert [None if pd.isna(v) else v for v in pandas[name]] == values
    assert set(arrow["age"].to_pylist()) == {"10", "20", "30", None, NOT_RELEASED}  # null is missing, and stays so
    assert pandas.index.equals(frame.index)
    assert arrow.schema.field("town").type == true.schema.field("town").type
    assert perturb(true[:0], mechanism(), KEY).schema.equals(arrow.schema)


def test_an_engine_releases_the_same_and_says_so_in_the_schema() -> None:
    true, collector = records(700), Collector()
    LocalEngine(batch_rows=100).perturb(Memory(true), mechanism(), KEY, collector, shuffle=False)
    assert collector.table is not None
    wanted = perturb(true, mechanism(), KEY)
    assert collector.table.to_pylist() == wanted.to_pylist()
    assert collector.table.schema.equals(wanted.schema)


def test_parts_of_a_frame_are_released_as_the_whole() -> None:
    true = records(300).append_column("id", pa.array(range(300)))
    whole = perturb(true, mechanism(), KEY, "id")
    content = content_of([true[:100], true[100:]], mechanism(), KEY, "id")
    parts = [perturb(part, mechanism(), KEY, "id", content=content) for part in (true[:100], true[100:])]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()


def test_another_value_of_any_split_variable_draws_anew() -> None:
    """Also a value that its record does not show: what is bound to the content is all that the split reads."""
    true = records(200)
    first = perturb(true, mechanism(), KEY)
    blank = first["area"].to_pylist().index(NOT_RELEASED)
    values = true["area"].to_pylist()
    values[blank] = "b" if values[blank] == "a" else "a"
    other = perturb(true.set_column(2, "area", pa.array(values)), mechanism(), KEY)
    same = np.mean([a == b for a, b in zip(first["age"].to_pylist(), other["age"].to_pylist(), strict=True)])
    assert same < 0.6


def test_a_combination_that_is_not_feasible_is_refused_whatever_the_draw() -> None:
    cells = tuple((a, b) for a in range(2) for b in range(4) if (a, b) != (1, 3))
    joint = Block(("sex", "age"), randomised_response(7, 1.0), cells)
    law = Mechanism([], BOOK, split=Split.of([2**-50, 1 - 2**-50], [joint, AREA]))
    bad = pa.table({"sex": ["M"], "age": pa.array([None], pa.int64()), "area": ["a"]})
    with pytest.raises(DataError, match="combination"):
        perturb(bad, law, KEY)
    collector = Collector()
    with pytest.raises(DataError, match="combination"):
        LocalEngine().perturb(Memory(bad), law, KEY, collector, columns=["area"])
    assert collector.table is None


def test_a_given_variable_is_read_and_stays() -> None:
    """Two towns with matrices of their own: identity in x, and in y everything moves to the other category."""
    swap, stay = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    law = TransitionMatrix.from_array(np.block([[stay, np.zeros((2, 2))], [np.zeros((2, 2)), swap]]))
    cells = tuple((town, sex) for town in range(2) for sex in range(2))
    split = Split.of([0.5, 0.5], [Block(("town", "sex"), law, cells, given=("town",)), AREA])
    true = records(400)
    found = perturb(true, Mechanism([], BOOK, split=split), KEY)
    assert found["town"].equals(true["town"])
    for sex, town, shown in zip(*(t.to_pylist() for t in (true["sex"], true["town"], found["sex"])), strict=True):
        assert shown in (NOT_RELEASED, sex if town == "x" else {"F": "M", "M": "F"}[sex])


@pytest.mark.parametrize("size", [126, 127, 128, 32_767])
@pytest.mark.parametrize("missing", ["error", "category", "keep"])
def test_the_code_of_what_is_not_released_fits_at_every_size(size: int, missing: Any) -> None:
    variable = Variable("v", role="key", categories=tuple(range(size)), type="int64", missing=missing)
    codes = np.array([0, size - 1, variable.size, *([size] * (missing == "category")), *([-1] * (missing == "keep"))])
    values = not_released.decode(codes.astype(coding.code_dtype(variable)), variable)
    assert values.to_pylist() == ["0", str(size - 1), NOT_RELEASED, *([None] * (missing != "error"))]
    assert not_released.encode(values, variable).tolist() == codes.tolist()


def test_the_law_of_a_record_sums_to_one_exactly() -> None:
    split = mechanism().split
    assert split is not None
    for subset in split.subsets:
        for row in subset.matrix.weights.tolist():
            assert sum(Fraction(subset.weight, UNIT) * Fraction(w, UNIT) for w in row) == Fraction(subset.weight, UNIT)
