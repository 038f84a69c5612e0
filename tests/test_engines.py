"""Every engine passes this suite: the same counts, the same released values for the same keys, the same errors."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import released_field, released_variable
from postrand.engines import Engine, LocalEngine, engines
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.spark import SparkEngine
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.support.randomness import StreamKeys, derive, words
from postrand.testing import engines as testing
from postrand.testing.engines import BOOK as BOOK
from postrand.testing.engines import KEY as KEY
from postrand.testing.engines import MECHANISMS, selected, stratified
from postrand.testing.engines import ROWS as ROWS
from postrand.testing.engines import Collector as Collector
from postrand.testing.engines import Memory as Memory
from postrand.testing.engines import mechanism as mechanism
from postrand.testing.engines import survey as survey
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

OF_UNITS = ("households", "members")  # which are in test_units.py and test_split_members.py
LAWS = {kind: made for kind, made in MECHANISMS.items() if kind not in OF_UNITS}
RELEASED = ["sex", "age", "area", "ill", "weight"]


def perturbed(engine, table=None, law=None, **options) -> pa.Table:
    source = Memory(survey()) if table is None else Memory(table) if isinstance(table, pa.Table) else table
    return testing.perturbed(engine, source, law, **options)


@every_engine
@pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
def test_every_engine_keeps_every_law(engine, law):
    assert law(engine) is None  # it raises what is broken


def test_every_engine_is_tried():
    """Spark is tried where Java is; where tests count (CI), a missing one is a failure."""
    assert {engine.name for engine in [*ENGINES.values(), SparkEngine()]} == set(engines())


def code_of(value: object, variable: Variable) -> int:
    if value is None:
        return -1 if variable.missing == "keep" else len(variable.categories)
    return variable.categories.index(value)


def value_of(code: int, variable: Variable) -> object:
    return variable.categories[code] if 0 <= code < len(variable.categories) else None


def split_names(law: Mechanism) -> list[str]:
    """Return the variables of the split as the content has them: in the codebook's order."""
    return [v.name for v in BOOK.variables if v.name in law.partly]


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
        found.append(row + [code_of(record[name], BOOK[name]) for name in split_names(law)])
    return found


def keys_of(table: pa.Table, law: Mechanism, keys: np.ndarray) -> StreamKeys:
    sizes = [*(block.matrix.size for block in law.blocks), *(BOOK[name].size for name in split_names(law))]
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
        if law.split is not None:
            record |= shown_values(true, law, [word for pair in stream for word in pair[row]][len(law.blocks) :])
    return records


def shown_values(true: dict, law: Mechanism, stream: list[int]) -> dict:
    """Choose the subset by the first word, draw its cell by the second, in plain Python; others are not released."""
    rest = stream[0] >> 11
    for subset in law.split.subsets:
        if rest < subset.weight:
            break
        rest -= subset.weight
    variables = [BOOK[name] for name in subset.block.variables]
    codes = tuple(code_of(true[v.name], v) for v in variables)
    cells = list(subset.block.cells or [(c,) for c in range(variables[0].size)])
    drawn = draw_one(subset.matrix.weights.tolist(), -1 if -1 in codes else cells.index(codes), stream[1])
    found: dict[str, str | None] = dict.fromkeys(law.partly, "(not released)")
    for v, code in zip(variables, codes if drawn == -1 else cells[drawn], strict=True):
        value = value_of(code, v)
        found[v.name] = None if value is None else str(value)
    return found


@every_engine
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("record_key", [None, "id"])
def test_released_values_are_those_of_the_reference(engine, kind, record_key):
    table, law = survey(), LAWS[kind]()
    if kind in ("joint", "split"):  # F and 10 do not go with True
        table = table.filter(
            pa.compute.or_kleene(pa.compute.not_equal(table["age"], 10), pa.compute.invert(table["ill"])).fill_null(
                True
            )
        )
    keys = np.arange(table.num_rows) if record_key is None else table["id"].to_numpy()
    found, records = perturbed(engine, table, law, record_key=record_key, shuffle=False), reference(table, law, keys)
    for name in law.partly:
        field = released_field(released_variable(BOOK[name]))  # a column of text categories, which says so
        assert field.type == pa.dictionary(pa.int8(), pa.string())
        table = table.set_column(table.schema.get_field_index(name), field, pa.nulls(len(table), field.type))
    wanted = pa.Table.from_pylist(records, table.schema).select(RELEASED)
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
