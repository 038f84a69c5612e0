"""Every engine passes this suite: the same counts, the same released values for the same keys, the same errors."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.engines import Engine, LocalEngine
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.spark import SparkEngine
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import join
from postrand.support.randomness import ReleaseKey, StreamKeys, derive, words
from tests.content_reference import tag_of
from tests.sampling_reference import draw_one

ENGINES: dict[str, Engine] = {
    "local": LocalEngine(),
    "local, small batches": LocalEngine(threads=1, batch_rows=7),
    "local, sorting on disk": LocalEngine(threads=3, batch_rows=64, memory_limit=2_000),
    "duckdb": DuckDBEngine(LocalEngine(threads=2, batch_rows=100)),
}
SPARK = pytest.param(SparkEngine(parts=3), id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
every_engine = pytest.mark.parametrize("engine", [*(pytest.param(e, id=n) for n, e in ENGINES.items()), SPARK])

KEY = ReleaseKey.from_seed(11)
ROWS = 500
BOOK = Codebook(
    (
        Variable("id", role="record_key", type="int64"),
        Variable("sex", role="key", categories=("F", "M"), type="dictionary<values=string, indices=int8, ordered=0>"),
        Variable("age", role="key", categories=(10, 20, 30), type="int64", missing="category"),
        Variable("area", role="key", categories=("a", "b", "c", "d"), missing="keep"),
        Variable("ill", role="sensitive", categories=(False, True), type="bool"),
        Variable("weight", role="weight", type="double"),
        Variable("note", role="drop"),
    )
)


@dataclass(frozen=True)
class Memory:
    """A source of records in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def num_rows(self) -> int:
        return self.table.num_rows

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = 100) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(columns or self.table.schema.names).to_batches(batch_size)


@dataclass
class Collector:
    """A sink that keeps what it is given; ``table`` only if the writer was left without an error."""

    written: list[pa.RecordBatch] = field(default_factory=list)
    table: pa.Table | None = None

    @contextmanager
    def __call__(self, schema: pa.Schema) -> Iterator["Collector"]:
        yield self
        columns = [pa.chunked_array([b.column(f.name).cast(f.type) for b in self.written], f.type) for f in schema]
        self.table = pa.Table.from_arrays(columns, schema=schema).combine_chunks()

    def write(self, batch: pa.RecordBatch) -> None:
        self.written.append(batch)


def survey(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(2)

    def pick(values: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), rows)], kind)

    return pa.table(
        {
            "id": pa.array(rng.permutation(rows) * 3 - 100),
            "sex": pick("FM", pa.string()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
            "age": pick([10, 20, 30, None], pa.int64()),
            "area": pick(["a", "b", "c", "d", None], pa.string()),
            "ill": pick([False, True], pa.bool_()),
            "weight": pa.array(rng.integers(1, 9, rows) / 2),
            "note": pick(["x"], pa.string()),
        }
    ).replace_schema_metadata({"pandas": "leaks the index"})


def mechanism(*, joint: bool = False) -> Mechanism:
    if not joint:
        blocks = [Block((name,), randomised_response(BOOK[name].size, 1.0)) for name in ("sex", "age", "area")]
        return Mechanism(blocks, BOOK)
    cells = tuple(cell for cell in product(range(4), range(2)) if cell != (0, 1))
    return Mechanism(
        (
            Block(("age", "ill"), randomised_response(7, 1.0), cells[::-1]),
            Block(("sex",), TransitionMatrix.from_array([[0.5, 0.5], [0.25, 0.75]])),
        ),
        BOOK,
    )


def stratified() -> Mechanism:
    """Ages are exchanged within two classes; the laws of ill and of sex given age are those of the true age's class."""
    strata = [randomised_response(2, e) for e in (0.3, 0.3, 2.0, 2.0)]
    return Mechanism(
        (
            Block(("age",), join([randomised_response(2, 1.0)] * 2), tuple((k,) for k in range(4))),
            Block(("age", "ill"), join(strata), tuple(product(range(4), range(2))), given=("age",)),
            Block(("age", "sex"), join(strata[::-1]), tuple(product(range(4), range(2))), given=("age",)),
            Block(("area",), randomised_response(4, 1.0)),
        ),
        BOOK,
    )


def selected() -> Mechanism:
    """Of the eight combinations of age and sex three are perturbed, among themselves; the others stay as they are."""
    weights = TransitionMatrix.identity(8).weights.copy()
    weights[np.ix_([1, 4, 6], [1, 4, 6])] = randomised_response(3, 0.5).weights
    cells = tuple(product(range(4), range(2)))
    return Mechanism((Block(("age", "sex"), TransitionMatrix(weights), cells, "confidential"),), BOOK)


LAWS: dict[str, Callable[[], Mechanism]] = {
    "independent": mechanism,
    "joint": partial(mechanism, joint=True),
    "strata": stratified,
    "selected": selected,
}


def perturbed(engine, table=None, law=None, **options) -> pa.Table:
    collector = Collector()
    source = Memory(survey()) if table is None else Memory(table) if isinstance(table, pa.Table) else table
    assert engine.perturb(source, law or mechanism(), KEY, collector, **options) == source.num_rows
    assert collector.table is not None
    return collector.table


def code_of(value: object, variable: Variable) -> int:
    if value is None:
        return -1 if variable.missing == "keep" else len(variable.categories)
    return variable.categories.index(value)


def value_of(code: int, variable: Variable) -> object:
    return variable.categories[code] if 0 <= code < len(variable.categories) else None


def true_cells(table: pa.Table, law: Mechanism) -> list[list[int]]:
    """Return the cell of every block that each record is in, -1 where a value is missing and kept so."""
    found = []
    for record in table.to_pylist():
        row = []
        for block in law.blocks:
            variables = [BOOK[name] for name in block.variables]
            codes = tuple(code_of(record[v.name], v) for v in variables)
            cells = block.cells or [(c,) for c in range(variables[0].size)]
            row.append(-1 if -1 in codes else list(cells).index(codes))
        found.append(row)
    return found


def keys_of(table: pa.Table, law: Mechanism, keys: np.ndarray) -> StreamKeys:
    sizes = [block.matrix.size for block in law.blocks]
    tag = tag_of(true_cells(table, law), sizes, [int(key) % 2**64 for key in keys], KEY)
    return derive(KEY, law.digest(), tag)


def reference(table: pa.Table, law: Mechanism, keys: np.ndarray) -> list[dict]:
    """Perturb record by record in plain Python."""
    draw_key = keys_of(table, law, keys).draw
    stream = [words(draw_key, keys.astype(np.uint64), slot).tolist() for slot in range(2)]
    records = table.to_pylist()
    for row, (record, true) in enumerate(zip(records, table.to_pylist(), strict=True)):
        for b, block in enumerate(law.blocks):  # each reads the true record
            variables = [BOOK[name] for name in block.variables]
            codes = tuple(code_of(true[v.name], v) for v in variables)
            cells = block.cells or [(c,) for c in range(variables[0].size)]
            cell = -1 if -1 in codes else list(cells).index(codes)
            drawn = draw_one(block.matrix.weights.tolist(), cell, stream[b >> 1][row][b & 1])
            for v, code in zip(variables, codes if drawn == -1 else cells[drawn], strict=True):
                if v.name not in block.given:
                    record[v.name] = value_of(code, v)
    return records


RELEASED = ["sex", "age", "area", "ill", "weight"]


@every_engine
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("record_key", [None, "id"])
def test_released_values_are_those_of_the_reference(engine, kind, record_key):
    table, law = survey(), LAWS[kind]()
    if kind == "joint":  # F and 10 do not go with True
        table = table.filter(
            pa.compute.or_kleene(pa.compute.not_equal(table["age"], 10), pa.compute.invert(table["ill"])).fill_null(
                True
            )
        )
    keys = np.arange(table.num_rows) if record_key is None else table["id"].to_numpy()
    found = perturbed(engine, table, law, record_key=record_key, shuffle=False)
    wanted = pa.Table.from_pylist(reference(table, law, keys), table.schema).select(RELEASED)
    assert found.to_pylist() == wanted.to_pylist()
    assert found.schema.equals(wanted.schema.remove_metadata(), check_metadata=True)


@every_engine
def test_a_stratum_and_records_that_are_not_selected_stay_as_they_are(engine):
    table = survey()
    found = perturbed(engine, table, stratified(), shuffle=False)
    young, missing = (pa.compute.equal(table["age"], 10), pa.compute.is_null(table["age"]))
    for mask, others in ((young, (10, 20)), (missing, (30, None))):  # classes of ages
        assert set(found.filter(mask.fill_null(False))["age"].to_pylist()) == set(others)
    found = perturbed(engine, table, selected(), shuffle=False).to_pylist()
    moving = [(10, "M"), (30, "F"), (None, "F")]
    for true, new in zip(table.to_pylist(), found, strict=True):
        pair = (true["age"], true["sex"])
        assert ((new["age"], new["sex"]) in moving) if pair in moving else ((new["age"], new["sex"]) == pair)


@every_engine
def test_the_order_is_that_of_the_keyed_words(engine):
    table, law = survey(), mechanism()
    plain = perturbed(engine, table, law, record_key="id", shuffle=False)
    keys = table["id"].to_numpy()
    order = words(keys_of(table, law, keys).order, keys.astype(np.uint64), 0)
    shuffled = perturbed(engine, table, law, record_key="id")
    assert shuffled.to_pylist() == plain.take(np.lexsort((order[:, 1], order[:, 0]))).to_pylist()
    assert shuffled.to_pylist() != plain.to_pylist()


@every_engine
def test_input_order_does_not_matter_with_record_keys(engine):
    table = survey()
    mixed = table.take(np.random.default_rng(0).permutation(ROWS))
    assert perturbed(engine, mixed, record_key="id").equals(perturbed(engine, table, record_key="id"))


@every_engine
def test_unperturbed_columns_travel_with_their_record(engine):
    table = survey()
    columns = ["ill", "id", "sex", "weight"]
    found = perturbed(engine, table, columns=columns)
    assert found.schema.names == columns
    true = {record["id"]: record for record in table.to_pylist()}
    assert len(true) == found.num_rows
    assert all(r["ill"] == true[r["id"]]["ill"] and r["weight"] == true[r["id"]]["weight"] for r in found.to_pylist())


@every_engine
def test_a_block_that_is_not_released_leaves_the_others_as_they_are(engine):
    some = perturbed(engine, columns=["area"], shuffle=False)
    assert some["area"].equals(perturbed(engine, shuffle=False)["area"])


@every_engine
def test_counts_are_those_of_a_counter(engine):
    table, names = survey(), ["ill", "age", "area"]
    kept = [r for r in table.to_pylist() if r["area"] is not None]
    cells = Counter(tuple(code_of(r[n], BOOK[n]) for n in names) for r in kept)
    found = engine.count(Memory(table), BOOK, names)
    assert (found.variables, found.shape, found.omitted) == (tuple(names), (2, 4, 4), ROWS - len(kept))
    assert {c: n for c, n in np.ndenumerate(found.dense()) if n} == cells
    weighted = engine.count(Memory(table), BOOK, ["ill"], weight="weight").dense()
    for code in (0, 1):
        assert weighted[code] == sum(r["weight"] for r in table.to_pylist() if r["ill"] == bool(code))


@every_engine
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("twins", "shown"), [(1, False), (3, True)])
def test_duplicate_record_keys_are_refused(engine, shuffle, twins, shown):
    table = survey()
    ids = table["id"].to_pylist()
    ids[-twins:] = ids[:twins]
    with pytest.raises(DataError, match="same record key") as caught:
        perturbed(engine, table.set_column(0, "id", pa.array(ids)), record_key="id", shuffle=shuffle)
    assert ("records are involved" in str(caught.value)) is shown


def replaced(name: str, values: list) -> pa.Table:
    table = survey()
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type))


@every_engine
@pytest.mark.parametrize(
    ("table", "options", "kind", "message"),
    [
        (replaced("age", [11] * ROWS), {}, DataError, "variable 'age'.*not in the codebook"),
        (replaced("ill", [None] * ROWS), {}, DataError, "variable 'ill'.*missing"),
        (replaced("weight", [None] * ROWS), {}, DataError, "variable 'weight'.*missing"),
        (replaced("id", [None] * ROWS), {"record_key": "id"}, DataError, "record key is missing"),
        (survey().drop_columns(["age"]), {}, DataError, "no column 'age'"),
        (survey(), {"record_key": "idd"}, DataError, r"no column 'idd' in the data \(did you mean 'id'"),
        (survey(), {"columns": ["sxe", "age", "age"]}, UsageError, r"(?s)2 problems.*'age'.*twice.*did you mean 'sex'"),
        (survey(), {"columns": []}, UsageError, "no column is released"),
        (survey(), {"law": mechanism(joint=True)}, DataError, r"block 'age\*ill'.*combination"),
    ],
)
def test_unfit_input_is_refused_and_nothing_is_finished(engine, table, options, kind, message):
    collector, options = Collector(), dict(options)
    law = options.pop("law", mechanism())
    with pytest.raises(kind, match=message):
        engine.perturb(Memory(table), law, KEY, collector, **options)
    assert collector.table is None


@every_engine
def test_unfit_counts_are_refused(engine):
    source = Memory(survey())
    for names, kind in ((["age", "age"], UsageError), ([], UsageError), (["agee"], SpecificationError)):
        with pytest.raises(kind):
            engine.count(source, BOOK, names)
    with pytest.raises(DataError, match="weight"):
        engine.count(Memory(replaced("weight", [-1.0] * ROWS)), BOOK, ["sex"], weight="weight")


def test_joint_blocks_do_not_keep_missing_values():
    joint = Mechanism((Block(("area", "ill"), randomised_response(8, 1.0)),))
    with pytest.raises(SpecificationError, match="'area' keeps missing values"):
        joint.bind(BOOK)


def test_cells_of_a_huge_product_are_searched():
    """2,100^2 combinations, 3 of them feasible: too many for a table of all."""
    many = tuple(range(2_100))
    book = Codebook(tuple(Variable(n, role="key", categories=many, type="int64") for n in "ab"))
    cells = ((2_099, 2_099), (0, 5), (7, 0))
    law = Mechanism((Block(("a", "b"), TransitionMatrix.identity(3), cells),), book)
    table = pa.table({"a": [7, 0, 2_099, 7], "b": [0, 5, 2_099, 0]})
    assert perturbed(LocalEngine(), table, law, shuffle=False).to_pylist() == table.to_pylist()
    with pytest.raises(DataError, match="combination"):
        perturbed(LocalEngine(), pa.table({"a": [7], "b": [5]}), law)


def test_records_put_aside_leave_no_trace(tmp_path, monkeypatch):
    made, folder = [], tempfile.TemporaryDirectory

    def noted(**options):
        made.append(options["dir"])
        return folder(**options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", noted)
    perturbed(LocalEngine(memory_limit=2_000, batch_rows=50, scratch=tmp_path))
    assert made == [tmp_path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"threads": 0}, {"batch_rows": 0}, {"memory_limit": -1}])
def test_engine_options_are_checked(options):
    with pytest.raises(UsageError, match="not positive"):
        LocalEngine(**options)


def test_progress_counts_every_record():
    seen: list[int] = []
    perturbed(LocalEngine(batch_rows=128), progress=seen.append)
    assert seen == [128, 128, 128, 116]


def test_files_hold_the_same_bytes_whatever_the_engine_does(tmp_path: Path):
    written = []
    for number, engine in enumerate(ENGINES.values()):
        path = tmp_path / f"{number}.parquet"
        engine.perturb(Memory(survey()), mechanism(), KEY, partial(formats.open_writer, path))
        written.append(path.read_bytes())
    assert len(set(written)) == 1
