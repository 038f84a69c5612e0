"""The DuckDB engine: counts as SQL, out of core; its tables in and out, and any file that DuckDB reads."""

from __future__ import annotations

import dataclasses
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.coding import is_text, value_type
from postrand.data.households import Renumbering
from postrand.engines.base import Engine, EngineKind, Sink
from postrand.engines.content import Content
from postrand.engines.grouped import (
    check_weight,
    dotted,
    literal,
    order_of,
    order_sql,
    quoted,
    ties_sql,
    weight_sql,
)
from postrand.engines.grouping import grouping_sql, tables_of_sets, together
from postrand.engines.local import LocalEngine, local_engine
from postrand.engines.resources import NOTHING, Resources
from postrand.engines.wants import Answers, Count, Want, kept
from postrand.errors import DataError, ReleaseError, UsageError, nearest, sentence
from postrand.formats import Held, Source, parquet_files
from postrand.formats.base import BATCH_ROWS, bounded, check_schema, conform, select
from postrand.mechanism import Mechanism
from postrand.support.extras import require
from postrand.support.progress import Progress, Stage, stage
from postrand.support.randomness import ReleaseKey
from postrand.support.signals import unfinished

_FED = 1 << 14
"""Records that are handed on at a time: three times as many are held."""
_VIEW = "postrand_records"
_PLAIN = re.compile(
    r"""\s*(?:SELECT\s+\*\s+)?FROM\s+(?:'(?P<file>(?:[^']|'')+)'|"""
    r"""(?:"(?P<schema>(?:[^"]|"")+)"\.)?(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<name>[a-z_]\w*)))\s*""",
    re.IGNORECASE,
)
_TABLES = """
SELECT CASE schema_name WHEN 'main' THEN '' ELSE schema_name || '.' END || name FROM (
SELECT schema_name, table_name AS name FROM duckdb_tables()
UNION SELECT schema_name, view_name AS name FROM duckdb_views() WHERE NOT internal) ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class DuckDBSource:
    """The records of a table, or of a query, in a DuckDB file; or of any file that DuckDB reads.

    Parameters
    ----------
    query
        ``SELECT`` or ``FROM ...``: ``FROM persons``, ``FROM 'survey.json'``. Without a record key, records are numbered
        in its order. Only a whole table (not a view), a single file, and a query that ends with an ``ORDER BY`` of its
        columns that leaves no ties have one; anything else is refused then. An UPDATE may move records of a table.
    database
        The file; None for a query over other files.
    sealed
        Read nothing but the file: a view of it that reads other files is refused.
    settings
        Statements that set what each connection may use; see :func:`settings_of`.
    """

    query: str = field(repr=False)
    database: Path | None = None
    sealed: bool = False
    settings: tuple[str, ...] = ()
    schema: pa.Schema = field(init=False)
    num_rows: int = field(init=False)

    def __post_init__(self) -> None:
        if self.database is not None and not self.database.is_file():
            raise UsageError(sentence("no such file", where=str(self.database)))
        with self.connected() as (connection, relation):
            object.__setattr__(self, "schema", connection.sql(f"FROM ({relation}) LIMIT 0").to_arrow_table().schema)
            object.__setattr__(self, "num_rows", connection.sql(f"SELECT count(*) FROM ({relation})").fetchall()[0][0])
        if not self.num_rows:
            raise DataError(sentence("the query returns no records", where=self._where()))

    @classmethod
    def table(cls, database: Path, name: str | None = None, codebook: Codebook | None = None) -> DuckDBSource:
        """Return the source of one table of a file; without a name, of its only one. It must fit the codebook."""
        names = [name] if name is not None else tables_of(database)
        if len(names) != 1:
            raise UsageError(
                sentence("the file does not have exactly one table", where=str(database), wanted=", ".join(names))
            )
        require_table(database, names[0])
        source = cls(f"FROM {dotted(names[0])}", database)
        check_schema(source.schema, database, codebook)
        return source

    @property
    def ordered(self) -> bool:
        """Whether the records come in one order each time; the database is asked about tables and ties."""
        order, plain = order_of(self.query, self.schema.names), _PLAIN.fullmatch(self.query)
        with self.connected() as (connection, relation):
            if order:
                return not connection.sql(ties_sql(relation, order)).fetchall()[0][0]
            if plain and plain["file"]:
                return Path(plain["file"].replace("''", "'")).is_file()
            found = "SELECT lower(schema_name), lower(table_name) FROM duckdb_tables()"
            if plain is None:
                return False
            name = (plain["name"] or plain["quoted"].replace('""', '"')).lower()
            schema = (plain["schema"] or "main").replace('""', '"').lower()
            return (schema, name) in connection.sql(found).fetchall()

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.database or Path("query"))
        if not names:  # which SQL cannot ask for
            return
        listed = ", ".join(map(quoted, names))
        with self.connected() as (connection, relation):
            order = order_sql(order_of(self.query, self.schema.names))
            if _PLAIN.fullmatch(self.query) and not any("memory_limit" in setting for setting in self.settings):
                connection.execute(_reading_limit(len(self.schema)))
            reader = connection.sql(f"SELECT {listed} FROM ({relation}){order}").to_arrow_reader(max(batch_size, 1))
            for batch in reader:
                yield from bounded(batch, batch_size)

    @contextmanager
    def connected(self) -> Iterator[tuple[Any, str]]:
        """Yield a connection and the SQL of the records in it."""
        with _connection(self.database, sealed=self.sealed) as connection, _explained(self._where()):
            for setting in self.settings:
                connection.execute(setting)
            yield connection, self.query

    def _where(self) -> str:
        return str(self.database or "DuckDB query")


def tables_of(database: Path) -> list[str]:
    """Return the names of a file's tables and views, those of other schemas than ``main`` as ``schema.table``."""
    if not database.is_file():
        raise UsageError(sentence("no such file", where=str(database)))
    with _connection(database) as connection:
        return [row[0] for row in connection.sql(_TABLES).fetchall()]


def require_table(database: Path, name: str) -> None:
    """Raise UsageError, with the nearest known name, unless the file has this table."""
    if name.removeprefix("main.") not in (names := tables_of(database)):
        raise UsageError(sentence(f"no table {name!r}{nearest(name, names)}", where=str(database)))


def into_duckdb(database: Path, table: str = "data") -> Sink:
    """Return a sink that makes a new table in a DuckDB file, in one transaction: it appears whole or not at all.

    Text with categories becomes VARCHAR. The file is made where there is none, and removed again after an error.

    Raises
    ------
    ReleaseError
        On use, if the table exists or the file cannot be written.
    """

    @contextmanager
    def opened(schema: pa.Schema) -> Iterator[_Feed]:
        with duckdb_transaction(database) as transaction, transaction.loading(table, schema) as feed:
            yield feed

    return opened


@contextmanager
def duckdb_transaction(database: Path, resources: Resources = NOTHING) -> Iterator[DuckDBTransaction]:
    """Yield an open transaction, committed on leaving; after an error the file is as it was, or is not there.

    Raises
    ------
    ReleaseError
        If the file cannot be written, or DuckDB refuses a step.
    """
    made = [] if database.exists() else [database, database.with_name(f"{database.name}.wal")]
    try:
        with (
            unfinished(*made),
            _explained(str(database), ReleaseError),
            _connection(database, writable=True) as connection,
        ):
            for setting in settings_of(resources):
                connection.execute(setting)
            connection.begin()
            yield DuckDBTransaction(connection)
            connection.commit()
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class DuckDBTransaction:
    """See :class:`postrand.engines.placing.Transaction`."""

    connection: Any

    def execute(self, statement: str) -> None:
        """Carry out a statement."""
        self.connection.execute(statement)

    def fetch(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the records of a query."""
        yield from self.connection.sql(query).to_arrow_reader(_FED)

    @contextmanager
    def loading(self, table: str, schema: pa.Schema) -> Iterator[_Feed]:
        """Make a table, and yield what fills it: text with categories in its codes, which DuckDB spells out."""
        types = [f.type if is_text(f.type) else value_type(f.type) for f in schema]
        feed = _Feed(self.connection, table, pa.schema(list(zip(schema.names, types, strict=True))))
        try:
            yield feed
        except BaseException:
            feed.close(complete=False)
            raise
        feed.close(complete=True)


class _Abandoned(Exception):
    pass


class _Feed:
    """Feed one ``CREATE TABLE AS``, which runs in a thread of its own: memory stays bounded, however many records."""

    def __init__(self, connection: Any, table: str, schema: pa.Schema) -> None:
        self._schema, self._failed = schema, list[BaseException]()
        self._waiting: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(maxsize=2)
        connection.register(_VIEW, pa.RecordBatchReader.from_batches(schema, self._batches()))
        self._thread = threading.Thread(target=self._run, args=(connection, table), daemon=True)
        self._thread.start()

    def _run(self, connection: Any, table: str) -> None:
        try:
            connection.execute(f"CREATE TABLE {dotted(table)} AS FROM {_VIEW}")
        except BaseException as error:
            self._failed.append(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._waiting.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            yield batch

    def _put(self, item: pa.RecordBatch | BaseException | None) -> None:
        while self._thread.is_alive():
            try:
                return self._waiting.put(item, timeout=0.1)
            except queue.Full:
                continue

    def write(self, batch: pa.RecordBatch) -> None:
        for part in bounded(batch, _FED):
            self._put(conform(part, self._schema))
            if self._failed:
                raise self._failed[0]

    def close(self, *, complete: bool) -> None:
        """End the statement; what it met is raised, unless the records are not complete: then nothing is kept."""
        self._put(None if complete else _Abandoned())
        self._thread.join()
        if complete and self._failed:
            raise self._failed[0]


@dataclass(frozen=True, slots=True)
class DuckDBEngine(Engine):
    """Count by SQL in DuckDB, perturb with the local kernel; see :class:`postrand.engines.base.Engine`.

    Parameters
    ----------
    local
        What perturbs, and sets the number of threads of both.
    memory_limit
        Bytes that DuckDB may use before it goes through temporary files; by default its own choice.
    """

    local: LocalEngine = field(default_factory=LocalEngine)
    memory_limit: int | None = None

    @property
    def name(self) -> str:
        """The engine's name."""
        return "duckdb"

    def count_all(self, source: Source, codebook: Codebook, wants: Sequence[Want]) -> Answers:
        """Count all tables in one query, and answer all other wants in one pass; see :class:`Engine`.

        Sums of weights are of floating-point numbers in DuckDB's order: their last digits may differ.
        """
        tables: dict[str | None, list[Count]] = {}
        for want in dict.fromkeys(wants):
            if isinstance(want, Count):
                tables.setdefault(want.weight, []).append(want)
        held: dict[Want, Any] = {}
        for weight, asked in tables.items():
            for some in together(asked):
                held |= self._tables(source, codebook, some, weight)
        others = [want for want in wants if want not in held]
        return Answers({**held, **(self.local.count_all(source, codebook, others).held if others else {})})

    def _tables(
        self, source: Source, codebook: Codebook, wants: Sequence[Count], weight: str | None
    ) -> dict[Want, Any]:
        """Return the answers of tables of one weight, from one query that groups the records once for each."""
        held: dict[Want, Any] = {}
        for want in wants:
            with kept(want, held):
                want.check(source, codebook)
                select(source.schema, want.columns, Path("source"))
                if weight is not None:
                    check_weight(source.schema, weight)
        asked = [want for want in wants if want not in held]
        if not asked:
            return held
        total = "count(*)"
        if weight is not None:
            total = ", ".join(weight_sql(f"CAST({quoted(weight)} AS DOUBLE)", "isfinite({})"))
        names = list(dict.fromkeys(name for want in asked for name in want.variables))
        columns = list(dict.fromkeys([*names, *([] if weight is None else [weight])]))
        stage(Stage.COUNTING)
        with self._records(source, columns) as (connection, relation):
            for setting in self._settings():
                connection.execute(setting)
            groups = connection.sql(grouping_sql(relation, names, asked, total)).to_arrow_reader(BATCH_ROWS)
            return held | tables_of_sets(groups, source.schema, codebook, names, asked)

    def perturb(
        self,
        source: Source,
        mechanism: Mechanism,
        key: ReleaseKey,
        sink: Sink,
        *,
        columns: Sequence[str] | None = None,
        record_key: str | None = None,
        shuffle: bool = True,
        content: Content | None = None,
        whole: bool = True,
        fresh: Renumbering | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Perturb and write; see :class:`postrand.engines.base.Engine`."""
        options: dict[str, Any] = {"columns": columns, "record_key": record_key, "shuffle": shuffle}
        options |= {"content": content, "whole": whole, "fresh": fresh}
        return self.local.perturb(source, mechanism, key, sink, progress=progress, **options)

    def _settings(self) -> tuple[str, ...]:
        own = Resources(threads=self.local.workers, memory_limit=self.memory_limit)
        scratch = self.local.scratch
        return settings_of(own if scratch is None else dataclasses.replace(own, scratch=scratch))

    @contextmanager
    def _records(self, source: Source, columns: list[str]) -> Iterator[tuple[Any, str]]:
        """Yield a connection and the SQL of the source's records: read by DuckDB itself, or streamed through Arrow."""
        if isinstance(source, DuckDBSource):
            with source.connected() as opened:
                yield opened
            return
        with _connection(None) as connection:
            if files := parquet_files(source):
                with _explained(", ".join(file.name for file, _ in files[:3])):
                    yield connection, _parquet_sql(files)
                return
            batches = source.batches(columns)
            if (first := next(batches, None)) is None:
                first = pa.RecordBatch.from_pylist([], pa.schema([source.schema.field(name) for name in columns]))
            connection.register(_VIEW, pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches)))
            yield connection, f"FROM {_VIEW}"


def _parquet_sql(files: Sequence[tuple[Path, Held]]) -> str:
    """Return the SQL of Parquet files: as locally, columns by name, and what a file holds is in it.

    Columns that only the names of folders hold are text here, and come into their type with the counts.
    """
    together: dict[Held, list[Path]] = {}
    for file, held in files:
        together.setdefault(held, []).append(file)
    queries = []
    for held, named in together.items():
        listed = ", ".join(literal(str(file)) for file in named)
        more = "".join(
            f", {'NULL::VARCHAR' if text is None else literal(text)} AS {quoted(name)}" for name, text in held
        )
        options = "hive_partitioning = false, union_by_name = true"
        queries.append(f"SELECT *{more} FROM read_parquet([{listed}], {options})")
    return " UNION ALL BY NAME ".join(queries)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def settings_of(resources: Resources) -> tuple[str, ...]:
    """Return the statements that tell a connection its threads, memory and folder of temporary files."""
    threads = [] if resources.threads is None else [f"SET threads = {resources.threads}"]
    memory = [] if resources.memory_limit is None else [f"SET memory_limit = '{resources.memory_limit}B'"]
    folder = str(resources.scratch or "").replace("'", "''")
    return (*threads, *memory, *([f"SET temp_directory = '{folder}'"] if folder else []))


def _reading_limit(columns: int) -> str:
    """Return the statement that bounds what a reading of a whole table keeps: else it all stays, up to 80% of memory.

    Each thread needs some blocks of 256 KiB for each column.
    """
    return f"SET memory_limit = '{max(512, columns * (os.cpu_count() or 1))}MiB'"


def _connection(database: Path | None, writable: bool = False, sealed: bool = False) -> AbstractContextManager[Any]:
    """Open a file, or a database in memory; nothing is fetched over the network."""
    require("duckdb", "DuckDB needs")
    import duckdb

    config = {"autoinstall_known_extensions": "false"}
    if sealed:
        config["enable_external_access"] = "false"
    read_only = database is not None and not writable
    connect: Callable[..., Any] = duckdb.connect
    try:
        made = connect(":memory:" if database is None else str(database), read_only=read_only, config=config)
        made.execute("SET enable_progress_bar = false")  # it is drawn where answers are printed
        return cast("AbstractContextManager[Any]", made)
    except duckdb.Error as error:
        kind = ReleaseError if writable else DataError
        what, fix = "the file cannot be opened as a DuckDB file", ""
        if re.search("lock|different configuration|already (attached|open)", str(error), re.IGNORECASE):
            what, fix = "the file is locked", "close the file in the program that has opened it, and run again"
        raise kind(sentence(what, where=str(database), fix=fix)) from None


@contextmanager
def _explained(where: str, kind: type[DataError] | type[ReleaseError] = DataError) -> Iterator[None]:
    """Turn DuckDB's complaints, which can quote records, into an error that names their kind only."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        got = type(error).__name__
        raise kind(sentence("DuckDB could not carry out a query", where=where, got=got)) from None


def _make(scratch: Path | None = None, resume: Path | None = None, resources: Resources = NOTHING) -> DuckDBEngine:
    return DuckDBEngine(local_engine(scratch, resume, resources), resources.memory_limit)


ENGINE = EngineKind("duckdb", _make)
