"""A frame's own codes against the walk by values: every kind of column, dictionary, missing value, block and key."""

import contextlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import gather, index_values, is_null
from postrand.columns.source import released as numbers_of
from postrand.data import frames
from postrand.engines import LocalEngine
from postrand.engines.frame import content_of, perturb
from postrand.errors import DataError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn
from postrand.support.randomness import ReleaseKey

KEY = ReleaseKey.from_seed(5)
A, B = ("north", "south", "é"), ("p", "q", "r", "s")
INDICES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32())


def of_pandas(values, order, ordered):
    return pd.Series(pd.Categorical(values, categories=order, ordered=ordered))


def arrow_chunk(values, order, index):
    """Place every second record of a value on the last of its entries: a dictionary may name a value twice."""
    places = {v: [i for i, entry in enumerate(order) if entry == v] for v in order}
    codes = [None if v is None else places[v][-(row % 2)] for row, v in enumerate(values)]
    return pa.DictionaryArray.from_arrays(pa.array(codes, index), pa.array(order, pa.string()))


def of_arrow(values, order, index, cut, whole):
    """Chunks whose dictionaries differ, sliced out of longer ones."""
    head = arrow_chunk([*values[:cut], order[0]], order, index)[:cut]
    other = order if whole else order[::-1]
    tail = arrow_chunk([order[0], *values[cut:]], other, index)[1:]
    return pa.chunked_array([head, tail])


@st.composite
def columns(draw, kind, values, categories):
    """Return the values as a column of a library; its dictionary has the categories in some order, and maybe more."""
    order = draw(st.permutations([*categories, *draw(st.sampled_from([[], ["unused"]]))]))
    if kind == "pandas":
        return of_pandas(values, order, draw(st.booleans()))
    if kind == "polars":
        return pl.Series(values, dtype=draw(st.sampled_from([pl.Enum(order), pl.Categorical(), pl.String()])))
    twice = draw(st.booleans())
    order = [*order, order[0]] if twice else order
    cut = len(values) if twice else draw(st.integers(0, len(values)))
    column = of_arrow(values, order, draw(st.sampled_from(INDICES)), cut, twice)
    return draw(st.sampled_from([column, column if twice else column.cast(pa.string())]))


def strata():
    """Return a block that draws ``b`` given ``a``, with a law of its own for each of its first two categories."""
    cells = tuple((i, j) for i in range(3) for j in range(4))
    weights = np.zeros((12, 12))
    for i, epsilon in enumerate((0.5, 1.0, 2.0)):
        weights[4 * i : 4 * i + 4, 4 * i : 4 * i + 4] = randomised_response(4, epsilon).array
    return Block(("a", "b"), TransitionMatrix.from_array(weights), cells=cells, given=("a",))


BLOCKS = {
    "each": lambda s, t: [Block(("a",), randomised_response(s, 1.0)), Block(("b",), randomised_response(t, 0.5))],
    "joint": lambda s, t: [Block(("b", "a"), randomised_response(s * t, 2.0))],
    "strata": lambda s, t: [strata()],
}


@st.composite
def cases(draw):
    """Return a frame, its values, a mechanism and a record key."""
    records = draw(st.integers(0, 60))
    shape = draw(st.sampled_from(sorted(BLOCKS)))
    policies = ["error"] if shape == "strata" else ["error", "category", *(["keep"] if shape == "each" else [])]
    book, data, held, kind = [], {}, {}, draw(st.sampled_from(["pandas", "polars", "arrow"]))
    for name, categories in (("a", A), ("b", B)):
        policy = draw(st.sampled_from(policies))
        some = st.sampled_from([*categories, *([] if policy == "error" else [None])])
        data[name] = draw(st.lists(some, min_size=records, max_size=records))
        book.append(Variable(name, role="key", categories=categories, missing=policy))
        held[name] = draw(columns(kind, data[name], categories))
    keys = draw(st.permutations(range(records)))
    held |= {"id": pl.Series(keys, dtype=pl.Int64) if kind == "polars" else pa.array(keys, pa.int64())}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    if kind == "pandas":
        held["id"] = pd.Series(list(keys), dtype="int64")
    mechanism = Mechanism(BLOCKS[shape](book[0].size, book[1].size), Codebook(tuple(book)))
    return make(held), data | {"id": list(keys)}, mechanism, draw(st.sampled_from([None, "id"]))


def by_values(data, mechanism, record_key, ranked=()):
    """Return what the engine of files releases of plain texts and numbers, as lists."""
    found = []

    class Writer:
        def write(self, batch):
            found.append(batch)

    types = {"a": pa.string(), "b": pa.string(), "id": pa.int64(), "pay": pa.float64()}
    source = frames.TableSource(pa.table({n: pa.array(v, types[n]) for n, v in data.items()}))
    content = LocalEngine(threads=1).content(source, mechanism, KEY, record_key=record_key)
    names = (*mechanism.variables, *ranked)
    LocalEngine(threads=1, batch_rows=7 if len(data["a"]) < 1000 else 1 << 16).perturb(
        numbers_of(source, mechanism, KEY, record_key, content=content.tag()),
        mechanism,
        KEY,
        lambda schema: contextlib.nullcontext(Writer()),
        columns=names,
        record_key=record_key,
        shuffle=False,
        content=content,
    )
    return {name: [v for batch in found for v in batch.column(name).to_pylist()] for name in names}


def listed(frame, names):
    return {name: frames.to_arrow(frame).column(name).to_pylist() for name in names}


@given(cases())
@settings(deadline=None)
def test_a_frame_releases_what_its_values_release(case):
    frame, data, mechanism, record_key = case
    wanted = by_values(data, mechanism, record_key)
    released = perturb(frame, mechanism, KEY, record_key)
    assert listed(released, wanted) == wanted
    assert listed(frame, data) == data  # what was given is as it was
    for name in ("a", "b", "id"):
        if isinstance(frame, pd.DataFrame):
            assert released[name].dtype == frame[name].dtype
        else:
            assert released.schema == frame.schema
    if isinstance(frame, pa.Table):
        released.validate(full=True)


@given(cases().filter(lambda case: len(case[1]["id"]) > 1), st.data())
@settings(deadline=None, max_examples=20)
def test_parts_release_what_the_whole_releases(case, data):
    frame, _, mechanism, _ = case
    cut = data.draw(st.integers(1, len(frame) - 1))
    parts = [frame[:cut], frame[cut:]]
    content = content_of(parts, mechanism, KEY, "id")
    found = [listed(perturb(part, mechanism, KEY, "id", content=content), ["a", "b"]) for part in parts]
    whole = listed(perturb(frame, mechanism, KEY, "id"), ["a", "b"])
    assert {name: found[0][name] + found[1][name] for name in whole} == whole


@pytest.mark.parametrize("record_key", [None, "id"])
@pytest.mark.parametrize("form", ["permute", "average"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_are_released_by_ranks(make, form, record_key):
    rng = np.random.default_rng(4)
    data = {"a": [A[i] for i in rng.integers(0, 3, 200)], "id": list(range(1000, 1200))}
    data["pay"] = [None if i == 7 else float(v) for i, v in enumerate(rng.normal(size=200))]
    book = (
        Variable("a", role="key", categories=A),
        Variable("pay", role="sensitive", type="double", missing="keep"),
    )
    column = RankedColumn("pay", RankBlocks(5 if form == "average" else 8), form, 199)
    mechanism = Mechanism([Block(("a",), randomised_response(3, 1.0))], Codebook(book), numerical=[column])
    frame = make(data)
    wanted = by_values(data, mechanism, record_key, ["pay"])
    assert listed(perturb(frame, mechanism, KEY, record_key), ["a", "pay"]) == wanted
    assert wanted["pay"] != data["pay"]


class TestMoreRecordsThanOnePiece:
    records = 300_001
    codes = np.random.default_rng(2).integers(0, 3, records).astype(np.int8)
    mechanism = Mechanism(
        [Block(("a",), randomised_response(3, 1.0))], Codebook((Variable("a", role="key", categories=A),))
    )

    def wanted(self):
        return by_values({"a": np.array(A)[self.codes].tolist()}, self.mechanism, None)["a"]

    def test_every_library(self):
        wanted = self.wanted()
        categorical = pd.Series(pd.Categorical.from_codes(self.codes, dtype=pd.CategoricalDtype(list(A))))
        for frame in (
            pd.DataFrame({"a": categorical}),
            pl.DataFrame({"a": pl.Series(categorical.tolist(), dtype=pl.Enum(list(A)))}),
            pa.table({"a": pa.DictionaryArray.from_arrays(self.codes, list(A))}),
        ):
            assert listed(perturb(frame, self.mechanism, KEY), ["a"])["a"] == wanted

    def test_codes_that_come_back_are_the_owners(self):
        frame = pd.DataFrame({"a": pd.Categorical.from_codes(self.codes, dtype=pd.CategoricalDtype(list(A)))})
        released = perturb(frame, self.mechanism, KEY)
        released.loc[0, "a"] = "north"
        released.loc[1, "a"] = "south"
        assert released["a"].tolist()[:2] == ["north", "south"]
        assert (frame["a"].array.codes == self.codes).all()

    def test_keys_that_occur_twice_far_apart(self):
        ids = np.arange(self.records)
        ids[[-1, -2, -3, -4]] = 0
        table = pa.table({"a": pa.DictionaryArray.from_arrays(self.codes, list(A)), "id": ids})
        with pytest.raises(DataError, match=r"same record key \(5 records are involved\)"):
            perturb(table, self.mechanism, KEY, "id")


def test_an_index_outside_its_dictionary_is_refused():
    mechanism = TestMoreRecordsThanOnePiece.mechanism
    for codes in ([0, 3], [0, -1]):
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(A), safe=False)
        with pytest.raises(DataError, match="variable 'a': an index of the column is outside its dictionary"):
            perturb(pa.table({"a": column}), mechanism, KEY)


def test_what_lies_under_a_null_is_not_read():
    hidden = pa.Array.from_buffers(pa.int8(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 99, 2], np.int8))])
    column = pa.DictionaryArray.from_arrays(hidden, pa.array(A), safe=False)
    book = Codebook((Variable("a", role="key", categories=A, missing="keep"),))
    still = Mechanism([Block(("a",), TransitionMatrix.identity(3))], book)
    released = perturb(pa.table({"a": column}), still, KEY).column("a")
    assert released.to_pylist() == ["north", None, "é"]
    assert 99 not in index_values(released.chunk(0).indices).tolist()


def test_a_dictionary_that_is_full():
    book = Codebook((Variable("a", role="key", categories=tuple(f"{i}" for i in range(140))),))
    mechanism = Mechanism([Block(("a",), randomised_response(140, 0.1))], book)
    column = pa.DictionaryArray.from_arrays(np.zeros(500, np.int8), ["0"])
    with pytest.raises(DataError, match="column 'a': the column's dictionary is full"):
        perturb(pa.table({"a": column}), mechanism, KEY)


@given(st.lists(st.one_of(st.none(), st.integers(-100, 100)), max_size=40), st.data())
def test_numbers_and_nulls_of_a_slice(values, data):
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, pa.int16())[start:]
    assert is_null(array).tolist() == [v is None for v in values[start:]]
    held = zip(index_values(array).tolist(), values[start:], strict=True)
    assert all(v is None or number == v for number, v in held)


@pytest.mark.parametrize("table", [[0, 1, 2, 7], [2, 1, 0, 7], [0, 1, 2, 3]])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("to", [np.int8, np.int16])
@pytest.mark.parametrize("size", [0, 1, 40_000, 1 << 19, (1 << 19) + 1])
def test_gather_is_indexing(table, dtype, to, size):
    indices = np.random.default_rng(1).integers(0, 3, size + 1).astype(dtype)[1:]  # not aligned
    out = np.empty(size, dtype=to)
    gather(np.array(table, dtype=to), indices, out)
    assert np.array_equal(out, np.array(table)[indices.astype(np.int64)])
