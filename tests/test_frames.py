"""Dataframes in and out: the same kind, dtypes, category order and index; the same values as from a file."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.data import frames
from postrand.engines import LocalEngine
from postrand.engines.frame import perturb
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.support.randomness import ReleaseKey

KEY = ReleaseKey.from_seed(20)
RNG = np.random.default_rng(3)
N = 400
TEXT = [None if i == 3 else "cab"[i] for i in RNG.integers(0, 4, N)]
WHOLE = [None if i == 3 else int(i) * 10 for i in RNG.integers(0, 4, N)]
FLAG = [[True, False, None][i] for i in RNG.integers(0, 3, N)]
BOOK = {
    "text": Variable("text", role="key", categories=("a", "b", "c"), missing="category"),
    "whole": Variable("whole", role="key", type="int64", categories=(20, 10, 0), missing="category"),
    "flag": Variable("flag", role="key", type="bool", categories=(True, False), missing="category"),
}
VALUES: dict[str, list] = {"text": TEXT, "whole": WHOLE, "flag": FLAG}
DICTIONARY = pa.dictionary(pa.int8(), pa.string(), ordered=True)


def arrow_dictionary(values):
    codes = pa.array([None if v is None else "zcba".index(v) for v in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, list("zcba"), ordered=True)


COLUMNS = {
    "pandas object": ("text", lambda v: pd.Series(v, dtype=object)),
    "pandas str": ("text", lambda v: pd.Series(v, dtype="str")),
    "pandas string[python]": ("text", lambda v: pd.Series(v, dtype="string[python]")),
    "pandas string[pyarrow]": ("text", lambda v: pd.Series(v, dtype="string[pyarrow]")),
    "pandas arrow": ("text", lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.string()))),
    "pandas categorical": ("text", lambda v: pd.Series(pd.Categorical(v, categories=list("zcba")))),
    "pandas ordered": ("text", lambda v: pd.Series(pd.Categorical(v, categories=list("cbaz"), ordered=True))),
    "pandas arrow dictionary": (
        "text",
        lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
    ),
    "pandas Int64": ("whole", lambda v: pd.Series(v, dtype="Int64")),
    "pandas Int8": ("whole", lambda v: pd.Series(v, dtype="Int8")),
    "pandas float64": ("whole", lambda v: pd.Series(v, dtype="float64")),
    "pandas categorical of numbers": ("whole", lambda v: pd.Series(pd.Categorical(v, categories=[0, 10, 20, 5]))),
    "pandas boolean": ("flag", lambda v: pd.Series(v, dtype="boolean")),
    "polars String": ("text", lambda v: pl.Series(v, dtype=pl.String)),
    "polars Categorical": ("text", lambda v: pl.Series(v, dtype=pl.Categorical)),
    "polars Enum": ("text", lambda v: pl.Series(v, dtype=pl.Enum(list("zcba")))),
    "polars Int16": ("whole", lambda v: pl.Series(v, dtype=pl.Int16)),
    "polars Float64": ("whole", lambda v: pl.Series(v, dtype=pl.Float64)),
    "polars Boolean": ("flag", lambda v: pl.Series(v, dtype=pl.Boolean)),
    "arrow string": ("text", lambda v: pa.array(v, pa.string())),
    "arrow large_string": ("text", lambda v: pa.array(v, pa.large_string())),
    "arrow dictionary": ("text", arrow_dictionary),
    "arrow int16": ("whole", lambda v: pa.array(v, pa.int16())),
    "arrow bool": ("flag", lambda v: pa.array(v, pa.bool_())),
}


def frame_of(column, **others):
    """Return a frame of the column's library with the column `x` and others that nothing perturbs."""
    data = {"id": range(100, 100 + N), "x": column, **others}
    if isinstance(column, pd.Series):
        return pd.DataFrame({**data, "x": column.to_numpy() if column.dtype == object else column}).set_index(
            pd.Index(np.arange(N) // 2, name="house")
        )
    return pl.DataFrame({**data, "id": list(data["id"])}) if isinstance(column, pl.Series) else pa.table(data)


def plain(frame):
    return frames.to_arrow(frame).column("x").to_pylist()


def mechanism_for(name, epsilon=1.0):
    variable = BOOK[name]
    book = Codebook((Variable(**{**variable_fields(variable), "name": "x"}),))
    return Mechanism([Block(("x",), randomised_response(variable.size, epsilon))], book)


def variable_fields(v):
    return {f: getattr(v, f) for f in ("role", "categories", "type", "missing")}


@pytest.mark.parametrize("kind", COLUMNS)
class TestEveryColumn:
    def perturbed(self, kind):
        name, make = COLUMNS[kind]
        extra = make(VALUES[name])
        frame = frame_of(make(VALUES[name]), extra=extra if not isinstance(extra, pd.Series) else extra.to_numpy())
        return frame, perturb(frame, mechanism_for(name), KEY, "id")

    def test_the_same_kind_comes_back(self, kind):
        frame, released = self.perturbed(kind)
        assert type(released) is type(frame)
        assert plain(frame) == VALUES[COLUMNS[kind][0]]  # the frame given is not changed
        if isinstance(frame, pd.DataFrame):
            pd.testing.assert_series_equal(released.dtypes, frame.dtypes)
            pd.testing.assert_index_equal(released.index, frame.index)
            pd.testing.assert_frame_equal(released.drop(columns="x"), frame.drop(columns="x"))
            if isinstance(frame["x"].dtype, pd.CategoricalDtype):
                assert list(released["x"].cat.categories) == list(frame["x"].cat.categories)
        elif isinstance(frame, pl.DataFrame):
            assert released.schema == frame.schema
            assert released.drop("x").equals(frame.drop("x"))
        else:
            assert released.schema == frame.schema
            assert released.drop_columns("x").equals(frame.drop_columns("x"))
            if kind == "arrow dictionary":
                assert released.column("x").chunk(0).dictionary.to_pylist() == list("zcba")

    def test_values_are_those_of_a_file(self, kind, tmp_path):
        name = COLUMNS[kind][0]
        _, released = self.perturbed(kind)
        mechanism = mechanism_for(name)
        book = Codebook((Variable("id", role="record_key", type="int64"), *mechanism.require_codebook().variables))
        path = tmp_path / "x.arrow"
        table = pa.table({"id": range(100, 100 + N), "x": pa.array(VALUES[name])})
        with formats.open_writer(path, table.schema) as writer:
            writer.write(table.to_batches()[0])
        out = tmp_path / "y.arrow"
        LocalEngine(batch_rows=37).perturb(
            formats.read(path, book),
            Mechanism(mechanism.blocks, mechanism.codebook).bind(book),
            KEY,
            lambda schema: formats.open_writer(out, schema),
            record_key="id",
            shuffle=False,
        )
        assert plain(released) == next(formats.read(out).batches()).column("x").to_pylist()

    def test_something_is_perturbed_and_the_identity_perturbs_nothing(self, kind):
        name = COLUMNS[kind][0]
        frame, released = self.perturbed(kind)
        assert 0.3 * N < sum(a != b for a, b in zip(plain(released), VALUES[name], strict=True)) < 0.8 * N
        still = Mechanism([Block(("x",), TransitionMatrix.identity(BOOK[name].size))], mechanism_for(name).codebook)
        assert plain(perturb(frame, still, KEY)) == VALUES[name]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_row_order_and_numbering(make):
    values = ["a" if i % 3 else "b" for i in range(N)]
    mechanism = mechanism_for("text")
    frame = make({"id": list(range(N)), "x": values})
    keyed = plain(perturb(frame, mechanism, KEY, "id"))
    assert keyed == plain(perturb(frame, mechanism, KEY))  # row numbers are the default keys
    backwards = make({"id": list(range(N))[::-1], "x": values[::-1]})
    assert plain(perturb(backwards, mechanism, KEY, "id")) == keyed[::-1]
    assert plain(perturb(frame, mechanism, ReleaseKey.from_seed(21))) != keyed
    assert plain(perturb(frame, mechanism)) != plain(perturb(frame, mechanism))  # a fresh key each time


@pytest.mark.parametrize(
    "empty", [pd.DataFrame({"x": pd.Series([], dtype="str")}), pa.table({"x": pa.array([], pa.string())})]
)
def test_a_frame_without_records_comes_back(empty):
    assert perturb(empty, mechanism_for("text"), KEY) is empty


def test_an_arrow_table_keeps_labels_and_its_chunks_may_have_dictionaries_of_their_own():
    chunks = [pa.array(c).dictionary_encode() for c in (["b", "a"], ["c", "b", None])]
    schema = pa.schema([pa.field("x", chunks[0].type, metadata={"label": "Text"})], metadata={"m": "1"})
    table = pa.table([pa.chunked_array(chunks)], schema=schema)
    released = perturb(table, mechanism_for("text"), KEY)
    assert released.schema.equals(schema, check_metadata=True)
    assert released.column("x").chunk(0).dictionary.to_pylist() == ["b", "a", "c"]
    assert len(released) == 5


def test_blocks_of_several_variables():
    size = 2 * 3
    mechanism = Mechanism([Block(("b", "a"), randomised_response(size, 1.0))])
    frame = pd.DataFrame(
        {"a": pd.Categorical(list("xyz") * 50), "keep": range(150), "b": pd.Categorical(list("uv") * 75, ordered=True)}
    )
    released = perturb(frame, mechanism, KEY)
    assert list(released.columns) == ["a", "keep", "b"]
    pd.testing.assert_series_equal(released.dtypes, frame.dtypes)
    moved = [(released[c] != frame[c]).mean() for c in ("a", "b")]
    assert 0.3 < moved[0] < 0.8
    assert 0.2 < moved[1] < 0.7


class TestCodebooks:
    def test_types_that_list_their_categories(self):
        frame = pd.DataFrame(
            {"c": pd.Categorical(["b", "a"], categories=["b", "z", "a"], ordered=True), "b": [True, True]}
        ).assign(n=pd.Categorical([3, None], categories=[3, 1]))
        book = frames.codebook_of(frame, ["c", "b", "n"])
        assert [v.categories for v in book.variables] == [("b", "z", "a"), (False, True), (3, 1)]
        assert [v.missing for v in book.variables] == ["error", "error", "category"]
        assert [v.ordered for v in book.variables] == [True, False, False]
        enum = frames.codebook_of(pl.DataFrame({"e": pl.Series(["b"], dtype=pl.Enum(["b", "a"]))}), ["e"])
        assert enum["e"].categories == ("b", "a")
        table = pa.table({"d": arrow_dictionary(["a", None])})
        assert frames.codebook_of(table, ["d"])["d"].categories == tuple("zcba")
        assert frames.codebook_of(table, ["d"])["d"].type == str(DICTIONARY)

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"x": ["a"], "y": [1]}),
            pl.DataFrame({"x": pl.Series(["a"], dtype=pl.Categorical), "y": [1]}),
            pa.table({"x": ["a"], "y": [1]}),
        ],
    )
    def test_other_types_need_a_codebook(self, frame):
        with pytest.raises(SpecificationError, match="pass a codebook") as caught:
            frames.codebook_of(frame, ["x", "y"])
        assert len(caught.value.problems) == 2
        assert "column 'x' does not list its categories" in caught.value.problems[0]

    def test_the_matrix_tells_whether_missing_is_a_category(self):
        frame = pd.DataFrame({"x": pd.Categorical(["a", "b"] * 200)})
        released = perturb(frame, Mechanism([Block(("x",), randomised_response(3, 0.5))]), KEY)
        assert released["x"].isna().any()
        with pytest.raises(SpecificationError, match="does not fit the categories; got 4; wanted 2"):
            perturb(frame, Mechanism([Block(("x",), randomised_response(4, 0.5))]), KEY)


class TestErrors:
    mechanism = mechanism_for("text")

    @pytest.mark.parametrize(
        ("frame", "error", "message"),
        [
            (pl.LazyFrame({"x": ["a"]}), UsageError, "collect a lazy frame"),
            ({"x": ["a"]}, UsageError, "not a dataframe in memory; got dict"),
            (pd.DataFrame({"X": ["a"]}), DataError, r"no column 'x' in the data"),
            (pd.DataFrame([["a", "a"]], columns=["x", "x"]), DataError, "named twice"),
            (pd.DataFrame({"x": ["secret"]}), DataError, "variable 'x': a value that is not in the codebook"),
            (pd.DataFrame({"x": [1, "secret"]}, dtype=object), DataError, "column 'x': the column cannot be converted"),
            (pd.DataFrame({"x": pd.Categorical(["a"] * 50)}), DataError, "dtype cannot represent the released values"),
            (pl.DataFrame({"x": pl.Series(["a"] * 50, dtype=pl.Enum(["a"]))}), DataError, "dtype cannot represent"),
        ],
    )
    def test_frames_that_do_not_fit(self, frame, error, message):
        with pytest.raises(error, match=message) as caught:
            perturb(frame, self.mechanism, KEY)
        assert "secret" not in str(caught.value)

    def test_a_dtype_that_cannot_hold_missing(self):
        for column, name in ((np.arange(N) % 2 == 0, "flag"), (np.arange(N) % 3 * 10, "whole")):
            with pytest.raises(DataError, match="column 'x': the column's dtype cannot represent the released values"):
                perturb(pd.DataFrame({"x": column}), mechanism_for(name), KEY)

    def test_record_keys(self):
        frame = pd.DataFrame({"x": ["a", "b"], "id": [1, 1]})
        with pytest.raises(DataError, match="same record key"):
            perturb(frame, self.mechanism, KEY, "id")
        with pytest.raises(DataError, match=r"no column 'idd' in the data \(did you mean 'id'\?\)"):
            perturb(frame, self.mechanism, KEY, "idd")
        with pytest.raises(UsageError, match="release key is not valid"):
            perturb(frame, self.mechanism, b"short")


def test_a_pandas_index_is_left_out_of_arrow():
    frame = pd.DataFrame({"a": [1.0, np.nan]}, index=["p", "q"])
    table = frames.to_arrow(frame)
    assert table.column_names == ["a"]
    assert table.column("a").to_pylist() == [1.0, None]
    assert frames.to_arrow(table) is table
    with pytest.raises(UsageError, match="requested twice"):
        frames.to_arrow(frame, ["a", "a"])
