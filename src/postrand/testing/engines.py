"""What every engine, source and sink must do: laws as plain functions, which raise AssertionError with what is broken.

An engine of one's own is tried by ``check(engine)``: the same counts, the same released values for the same keys and
the same refusals as the local engine. A source by ``check_source(source)``, where its records are those of
:func:`survey`; a sink, for example into a database, by ``check_sink(sink, read_back)``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook import Codebook, Variable
from postrand.engines.base import Engine, Sink
from postrand.engines.local import LocalEngine
from postrand.errors import DataError, PostrandError, SpecificationError, UsageError
from postrand.formats import Source
from postrand.mechanism import Block, Mechanism, Split, Units
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import join
from postrand.support.randomness import ReleaseKey
from postrand.testing.refusals import refused

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
"""Categories of every type; missing values as a category, and kept."""


@dataclass(frozen=True)
class Memory:
    """A source of records in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.table.schema

    @property
    def num_rows(self) -> int:
        """The records of the table."""
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = 100) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        yield from self.table.select(columns or self.table.schema.names).to_batches(batch_size)


@dataclass
class Collector:
    """A sink that keeps what it is given; ``table`` only if the writer was left without an error."""

    written: list[pa.RecordBatch] = field(default_factory=list)
    table: pa.Table | None = None

    @contextmanager
    def __call__(self, schema: pa.Schema) -> Iterator[Collector]:
        """Take the records of one run."""
        yield self
        columns = [pa.chunked_array([b.column(f.name).cast(f.type) for b in self.written], f.type) for f in schema]
        self.table = pa.Table.from_arrays(columns, schema=schema).combine_chunks()

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep a batch."""
        self.written.append(batch)


def survey(rows: int = ROWS) -> pa.Table:
    """Return records that fit ``BOOK``, the same every time, with metadata that no release may carry."""
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


def replaced(name: str, values: Sequence[object]) -> pa.Table:
    """Return the survey with other values of one column."""
    table = survey()
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type))


def mechanism(*, joint: bool = False) -> Mechanism:
    """Return a mechanism of three variables apart, or of age and ill together, and sex."""
    if not joint:
        blocks = [Block((name,), randomised_response(BOOK[name].size, 1.0)) for name in ("sex", "age", "area")]
        return Mechanism(blocks, BOOK)
    cells = tuple((a, i) for a in range(4) for i in range(2) if (a, i) != (0, 1))  # 10 does not go with True
    return Mechanism(
        (
            Block(("age", "ill"), randomised_response(7, 1.0), cells[::-1]),
            Block(("sex",), TransitionMatrix.from_array([[0.5, 0.5], [0.25, 0.75]])),
        ),
        BOOK,
    )


def stratified() -> Mechanism:
    """Return a mechanism that exchanges ages within two classes, and ill and sex by the class of the true age."""
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
    """Return a mechanism that perturbs three of the eight combinations of age and sex, among themselves."""
    weights = TransitionMatrix.identity(8).weights.copy()
    weights[np.ix_([1, 4, 6], [1, 4, 6])] = randomised_response(3, 0.5).weights
    cells = tuple(product(range(4), range(2)))
    return Mechanism((Block(("age", "sex"), TransitionMatrix(weights), cells, "confidential"),), BOOK)


def split() -> Mechanism:
    """Return a mechanism of sex, and of a split: age and ill (10 does not go with True), age alone, or area alone."""
    law, alone = randomised_response(7, 2.0), randomised_response(4, 1.0)
    cells = tuple((a, i) for a in range(4) for i in range(2) if (a, i) != (0, 1))
    joint = Block(("age", "ill"), law, cells[::-1])
    return Mechanism(
        [Block(("sex",), TransitionMatrix.from_array([[0.5, 0.5], [0.25, 0.75]]))],
        BOOK,
        split=Split.of([0.5, 0.2, 0.3], [joint, Block(("age",), alone), Block(("area",), alone)]),
    )


HOUSED = dataclasses.replace(
    BOOK, variables=(*BOOK.variables, Variable("house", role="household", type="int64", missing="keep"))
)


def households() -> Mechanism:
    """Return a mechanism of age and area, drawn once for each household, and of sex."""
    units = Units(household="house", largest_household=4)
    age, area = (Block((n,), randomised_response(4, 1.0), unit="household") for n in ("age", "area"))
    return Mechanism([age, Block(("sex",), randomised_response(2, 1.0)), area], HOUSED, units=units)


def housed(rows: int = ROWS) -> pa.Table:
    """Return the survey in households of four, members apart from each other; every ninth record has no number."""
    table, number = survey(rows), np.arange(rows) % -(-rows // 4)
    numbers = pa.array(number * 7 - 50, mask=np.arange(rows) % 9 == 0)
    for name in ("age", "area"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).take(pa.array(number)))
    return table.append_column("house", numbers)


def members() -> Mechanism:
    """Return a mechanism of sex, and of a split of which one random member of each household shows a subset."""
    pair = Block(("age", "ill"), randomised_response(8, 2.0), unit="household")
    alone = Block(("age",), randomised_response(4, 1.0), unit="household")
    units = Units(household="house", largest_household=4)
    sex = Block(("sex",), randomised_response(2, 1.0))
    return Mechanism([sex], HOUSED, split=Split.of([0.5, 0.5], [pair, alone]), units=units)


MECHANISMS: Mapping[str, Callable[[], Mechanism]] = {
    "independent": mechanism,
    "joint": partial(mechanism, joint=True),
    "strata": stratified,
    "selected": selected,
    "split": split,
    "households": households,
    "members": members,
}


def records_for(kind: str) -> pa.Table:
    """Return the records of the survey that a mechanism of ``MECHANISMS`` takes."""
    if kind in ("households", "members"):
        return housed()
    table = survey()
    if kind not in ("joint", "split"):
        return table
    both = pc.and_(pc.equal(table["age"], 10).fill_null(False), table["ill"])
    return table.filter(pc.invert(both))


def perturbed(engine: Engine, source: Source, law: Mechanism | None = None, **options: Any) -> pa.Table:
    """Return what an engine releases of a source, under the suite's key."""
    collector = Collector()
    written = engine.perturb(source, law or mechanism(), KEY, collector, **options)
    assert collector.table is not None, f"{engine.name}: the sink was not completed"
    assert written == collector.table.num_rows, f"{engine.name}: {written} records are said to be written"
    return collector.table


def check(engine: Engine) -> None:
    """Try every law.

    Raises
    ------
    AssertionError
        With the law that is broken.
    """
    for law in LAWS:
        law(engine)


def check_released(engine: Engine) -> None:
    """Assert that values, order and types are those of the local engine, by each kind of mechanism, key and order."""
    for kind, made in MECHANISMS.items():
        choices = ((None, False), ("id", False), (None, True), ("id", True))
        for record_key, shuffle in choices if kind == "independent" else choices[:1]:
            source, options = Memory(records_for(kind)), {"record_key": record_key, "shuffle": shuffle}
            found, wanted = (perturbed(one, source, made(), **options) for one in (engine, LocalEngine()))
            said = f"{engine.name}: {kind}, {options}"
            assert found.schema.equals(wanted.schema, check_metadata=True), f"{said}: another schema"
            assert found.to_pylist() == wanted.to_pylist(), f"{said}: other records"


def check_content(engine: Engine) -> None:
    """Assert that the content is that of the local engine, and with a record key the same in any order."""
    for kind, made in MECHANISMS.items():
        table = records_for(kind)
        mixed = table.take(np.random.default_rng(0).permutation(len(table)))
        wanted = LocalEngine().content(Memory(table), made(), KEY, record_key="id")
        for records in (table, mixed):
            found = engine.content(Memory(records), made(), KEY, record_key="id")
            assert found == wanted, f"{engine.name}: {kind}: another content"


def check_order(engine: Engine) -> None:
    """Assert that with record keys the order of the records changes nothing."""
    mixed = survey().take(np.random.default_rng(0).permutation(ROWS))
    found, wanted = (perturbed(engine, Memory(table), record_key="id") for table in (mixed, survey()))
    assert found.equals(wanted), f"{engine.name}: records in another order are released otherwise"


def check_columns(engine: Engine) -> None:
    """Assert that unperturbed columns travel with their record, and that blocks do not depend on what is released."""
    columns = ["ill", "id", "sex", "weight"]
    found = perturbed(engine, Memory(survey()), columns=columns)
    assert found.schema.names == columns, f"{engine.name}: columns came as {found.schema.names}"
    true = {record["id"]: record for record in survey().to_pylist()}
    assert found.num_rows == len(true), f"{engine.name}: records are lost"
    for record in found.to_pylist():
        same = all(record[name] == true[record["id"]][name] for name in ("ill", "weight"))
        assert same, f"{engine.name}: an unperturbed value left its record"
    some, whole = (perturbed(engine, Memory(survey()), columns=c, shuffle=False) for c in (["area"], None))
    assert some["area"].equals(whole["area"]), f"{engine.name}: what is released changes how a block is drawn"


def check_counts(engine: Engine) -> None:
    """Assert that counts are those of a plain loop, weighted too, and that what cannot be counted is refused."""
    table, names = survey(), ["ill", "age", "area"]
    kept = [record for record in table.to_pylist() if record["area"] is not None]
    cells = Counter(tuple(_code(record[n], BOOK[n]) for n in names) for record in kept)
    found = engine.count(Memory(table), BOOK, names)
    said = (found.variables, found.shape, found.omitted)
    assert said == (tuple(names), (2, 4, 4), ROWS - len(kept)), f"{engine.name}: counts are described as {said}"
    assert {c: n for c, n in np.ndenumerate(found.dense()) if n} == cells, f"{engine.name}: other counts"
    weighted = engine.count(Memory(table), BOOK, ["ill"], weight="weight").dense()
    for code, total in enumerate(weighted):
        wanted = sum(record["weight"] for record in table.to_pylist() if record["ill"] == bool(code))
        assert total == wanted, f"{engine.name}: other sums of weights"
    for variables, kind in ((["age", "age"], UsageError), ([], UsageError), (["agee"], SpecificationError)):
        refused(kind, "", lambda v=variables: engine.count(Memory(table), BOOK, v))  # type: ignore[misc]
    negative = Memory(replaced("weight", [-1.0] * ROWS))
    refused(DataError, "weight", lambda: engine.count(negative, BOOK, ["sex"], weight="weight"))


def _code(value: object, variable: Variable) -> int:
    return len(variable.categories) if value is None else variable.categories.index(value)


def check_duplicates(engine: Engine) -> None:
    """Assert that two records of one key are refused, and their number is said only where it is not small."""
    for twins, shuffle in ((1, True), (3, True), (1, False), (3, False)):
        ids = survey()["id"].to_pylist()
        ids[-twins:] = ids[:twins]
        source = Memory(survey().set_column(0, "id", pa.array(ids)))
        attempt = partial(perturbed, engine, source, record_key="id", shuffle=shuffle)
        error = refused(DataError, "same record key", attempt)
        shown = "records are involved" in str(error)
        assert shown is (twins == 3), f"{engine.name}: a small count is shown, or a larger one is not"


def check_refusals(engine: Engine) -> None:
    """Assert that unfit records and requests are refused as the local engine does, and that nothing is completed."""
    for table, options, words in refusals():
        law = options.get("law", mechanism())
        named = {name: value for name, value in options.items() if name != "law"}
        errors = []
        for one in (engine, LocalEngine()):
            collector = Collector()
            run = partial(one.perturb, Memory(table), law, KEY, collector, **named)
            errors.append(refused(PostrandError, words, run))
            assert collector.table is None, f"{one.name}: a refused run is completed"
        kinds = [type(error).__name__ for error in errors]
        assert kinds[0] == kinds[1], f"{engine.name}: {kinds[0]} where the local engine gives {kinds[1]}: {errors[0]}"


def check_households(engine: Engine) -> None:
    """Assert that a household shows one value, that strangers do not share draws, and that unfit ones are refused."""
    found = perturbed(engine, Memory(housed()), households(), shuffle=False)
    for name in ("age", "area"):
        shown: dict[object, set[object]] = {}
        for record in found.to_pylist():
            shown.setdefault(record["house"], set()).add(record[name])
        alone = shown.pop(None)
        assert all(len(values) == 1 for values in shown.values()), f"{engine.name}: a household shows two values"
        assert len(alone) > 1, f"{engine.name}: records without a household number share a draw"
    at, values = housed().schema.get_field_index("age"), housed()["age"].to_pylist()
    values[1] = 10 if values[1] != 10 else 20
    differ = housed().set_column(at, "age", pa.array(values, pa.int64()))
    refused(DataError, "differ in 1 variable", partial(engine.perturb, Memory(differ), households(), KEY, Collector()))
    one = housed().set_column(len(BOOK.names), "house", pa.array([1] * ROWS))
    refused(
        DataError, "more records than the plan", partial(engine.perturb, Memory(one), households(), KEY, Collector())
    )


def check_changes(engine: Engine) -> None:
    """Assert that records that are not those of the content are refused: the keys would not be theirs."""
    content = engine.content(Memory(survey()), mechanism(), KEY, record_key="id")
    values = survey()["area"].to_pylist()
    values[0] = "b" if values[0] == "a" else "a"
    source = Memory(replaced("area", values))
    run = partial(engine.perturb, source, mechanism(), KEY, Collector(), record_key="id", content=content)
    refused(DataError, "not the same at two readings", run)


def refusals() -> tuple[tuple[pa.Table, Mapping[str, Any], str], ...]:
    """Return records and requests that every engine refuses, and words of each refusal."""
    return (
        (replaced("age", [11] * ROWS), {}, "variable 'age'.*not in the codebook"),
        (replaced("ill", [None] * ROWS), {}, "variable 'ill'.*missing"),
        (replaced("weight", [None] * ROWS), {}, "variable 'weight'.*missing"),
        (replaced("id", [None] * ROWS), {"record_key": "id"}, "record key is missing"),
        (survey().drop_columns(["age"]), {}, "no column 'age'"),
        (survey(), {"record_key": "idd"}, r"no column 'idd' in the data \(did you mean 'id'"),
        (survey(), {"columns": ["sxe", "age", "age"]}, r"2 problems.*'age'.*twice.*did you mean 'sex'"),
        (survey(), {"columns": []}, "no column is released"),
        (survey(), {"law": mechanism(joint=True)}, r"block 'age\*ill'.*combination"),
    )


LAWS: tuple[Callable[[Engine], None], ...] = (
    check_released,
    check_content,
    check_order,
    check_columns,
    check_counts,
    check_duplicates,
    check_refusals,
    check_households,
    check_changes,
)
"""What holds for every engine."""


def check_source(source: Source) -> None:
    """Assert that a source whose records are those of :func:`survey`, in its order, can be read as any other.

    Raises
    ------
    AssertionError
        With what is broken.
    """
    table = survey()
    assert source.schema.names == table.schema.names, f"columns came as {source.schema.names}"
    assert source.num_rows in (ROWS, None), f"{source.num_rows} records are said to be there"
    for size in (1, 77, 1 << 20):
        batches = list(source.batches(batch_size=size))
        assert max(batch.num_rows for batch in batches) <= size, f"a batch is larger than {size}"
        assert [r for b in batches for r in b.to_pylist()] == table.to_pylist(), f"other records in batches of {size}"
    chosen = [r for b in source.batches(["ill", "id"]) for r in b.to_pylist()]
    assert chosen == table.select(["ill", "id"]).to_pylist(), "other values of chosen columns"
    assert sum(batch.num_columns for batch in source.batches([])) == 0, "columns came although none was asked for"
    refused(DataError, "no column 'agee'.*did you mean 'age'", lambda: list(source.batches(["agee"])))
    refused(UsageError, "asked for twice", lambda: list(source.batches(["age", "age"])))
    found, wanted = (LocalEngine().content(one, mechanism(), KEY, record_key="id") for one in (source, Memory(table)))
    assert found == wanted, "another content than that of the same records in memory"
    for names in (["sex"], ["age", "area", "ill"]):
        counted, right = (LocalEngine().count(one, BOOK, names).dense() for one in (source, Memory(table)))
        assert (counted == right).all(), f"other counts of {', '.join(names)}"


def check_sink(sink: Sink, read_back: Callable[[], Source]) -> None:
    """Assert that a sink holds what it was given, and that it refuses to take the place of what is there.

    ``read_back`` opens what the sink has written.

    Raises
    ------
    AssertionError
        With what is broken.
    """
    engine = LocalEngine(batch_rows=100)
    bad = Memory(replaced("age", [10] * (ROWS - 1) + [11]))
    refused(DataError, "not in the codebook", lambda: engine.perturb(bad, mechanism(), KEY, sink, shuffle=False))
    refused(PostrandError, "", lambda: list(read_back().batches()))  # nothing is left of it
    assert engine.perturb(Memory(survey()), mechanism(), KEY, sink) == ROWS
    found = [record for batch in read_back().batches() for record in batch.to_pylist()]
    wanted = perturbed(LocalEngine(), Memory(survey())).to_pylist()
    assert found == wanted, "the sink holds other records than it was given"
    refused(PostrandError, "", lambda: engine.perturb(Memory(survey()), mechanism(), KEY, sink))
    assert [r for b in read_back().batches() for r in b.to_pylist()] == wanted, "a refusal changed what was there"
