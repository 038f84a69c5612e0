"""The DuckDB engine: counts as SQL, out of core; its tables in and out, and any file that DuckDB reads."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.data.households import Renumbering
from postrand.data.table import ContingencyTable
from postrand.engines.base import EngineKind, Sink
from postrand.engines.content import Content
from postrand.engines.grouped import (
    TOTAL,
    WRONG,
    check_weight,
    countable,
    order_of,
    order_sql,
    quoted,
    table_of,
    ties_sql,
    weight_sql,
)
from postrand.engines.local import LocalEngine
from postrand.errors import DataError, ReleaseError, UsageError, nearest, sentence
from postrand.formats import Source, parquet_files
from postrand.formats.base import BATCH_ROWS, bounded, check_schema, conform, select
from postrand.mechanism import Mechanism
from postrand.support.progress import Progress
from postrand.support.randomness import ReleaseKey

_VIEW = "postrand_records"
_PLAIN = re.compile(
    r"""\s*(?:SELECT\s+\*\s+)?FROM\s+(?:'(?P<file>(?:[^']|'')+)'|"(?P<quoted>(?:[^"]|"")+)"|(?P<name>[a-z_]\w*))\s*""",
    re.IGNORECASE,
)
_TABLES = """
SELECT table_name FROM duckdb_tables()
UNION SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
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
    """

    query: str = field(repr=False)
    database: Path | None = None
    schema: pa.Schema = field(init=False)
    num_rows: int = field(init=False)

    def __post_init__(self) -> None:
        if self.database is not None and not self.database.is_file():
            raise UsageError(sentence("no such file", where=str(self.database)))
        with self.connected() as (connection, relation):
            object.__setattr__(self, "schema", connection.sql(f"FROM ({relation}) LIMIT 0").to_arrow_table().schema)
            object.__setattr__(self, "num_rows", connection.sql(f"SELECT count(*) FROM ({relation})").fetchall()[0][0])
        if not self.num_rows:
            raise DataError(sentence("the query has no records", where=self._where()))

    @classmethod
    def table(cls, database: Path, name: str | None = None, codebook: Codebook | None = None) -> DuckDBSource:
        """Return the source of one table of a file; without a name, of its only one. It must fit the codebook."""
        if not database.is_file():
            raise UsageError(sentence("no such file", where=str(database)))
        with _connection(database) as connection:
            names = [row[0] for row in connection.sql(_TABLES).fetchall()]
        if name is None and len(names) != 1:
            raise UsageError(sentence("the file has not one table", where=str(database), wanted=", ".join(names)))
        if name is not None and name not in names:
            raise UsageError(sentence(f"no table {name!r}{nearest(name, names)}", where=str(database)))
        source = cls(f"FROM {quoted(name or names[0])}", database)
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
            found = "SELECT lower(table_name) FROM duckdb_tables()"
            name = (plain["name"] or plain["quoted"].replace('""', '"')).lower() if plain else None
            return name is not None and (name,) in connection.sql(found).fetchall()

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, self.database or Path("query"))
        listed = ", ".join(map(quoted, names))
        with self.connected() as (connection, relation):
            order = order_sql(order_of(self.query, self.schema.names))
            reader = connection.sql(f"SELECT {listed} FROM ({relation}){order}").to_arrow_reader(max(batch_size, 1))
            for batch in reader:
                yield from bounded(batch, batch_size)

    @contextmanager
    def connected(self) -> Iterator[tuple[Any, str]]:
        """Yield a connection and the SQL of the records in it."""
        with _connection(self.database) as connection, _explained(self._where()):
            yield connection, self.query

    def _where(self) -> str:
        return str(self.database or "DuckDB query")


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
        existed = database.exists()
        try:
            with _explained(str(database), ReleaseError), _connection(database, writable=True) as connection:
                connection.begin()
                feed = _Feed(connection, table, schema)
                try:
                    yield feed
                except BaseException:
                    feed.close(complete=False)
                    raise
                feed.close(complete=True)
                connection.commit()
        except BaseException:
            if not existed:
                database.unlink(missing_ok=True)
            raise

    return opened


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
            connection.execute(f"CREATE TABLE {quoted(table)} AS FROM {_VIEW}")
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
        self._put(conform(batch, self._schema))
        if self._failed:
            raise self._failed[0]

    def close(self, *, complete: bool) -> None:
        """End the statement; what it met is raised, unless the records are not complete: then nothing is kept."""
        self._put(None if complete else _Abandoned())
        self._thread.join()
        if complete and self._failed:
            raise self._failed[0]


@dataclass(frozen=True, slots=True)
class DuckDBEngine:
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

    def count(
        self, source: Source, codebook: Codebook, variables: Sequence[str], *, weight: str | None = None
    ) -> ContingencyTable:
        """Count records or sum weights; see :class:`postrand.engines.base.Engine`.

        Sums of weights are of floating-point numbers in DuckDB's order: their last digits may differ.
        """
        held = countable(codebook, variables)
        columns = list(dict.fromkeys([*variables, *([] if weight is None else [weight])]))
        select(source.schema, columns, Path("source"))
        total = "count(*)"
        if weight is not None:
            check_weight(source.schema, weight)
            total = ", ".join(weight_sql(quoted(weight), "isfinite({}::DOUBLE)"))
        names = ", ".join(quoted(v.name) for v in held)
        with self._records(source, columns) as (connection, relation):
            for setting in self._settings():
                connection.execute(setting)
            groups = connection.sql(f"SELECT {names}, {total} FROM ({relation}) GROUP BY {names}")
            found = [*variables, TOTAL, *([] if weight is None else [WRONG])]
            batches = (batch.rename_columns(found) for batch in groups.to_arrow_reader(BATCH_ROWS))
            return table_of(batches, source.schema, codebook, variables, weight)

    def content(
        self, source: Source, mechanism: Mechanism, key: ReleaseKey, *, record_key: str | None = None
    ) -> Content:
        """Digest the records; see :class:`postrand.engines.base.Engine`."""
        return self.local.content(source, mechanism, key, record_key=record_key)

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

    def _settings(self) -> Iterator[str]:
        yield f"SET threads = {self.local.workers}"
        if self.memory_limit is not None:
            yield f"SET memory_limit = '{self.memory_limit}B'"
        if self.local.scratch is not None:
            yield "SET temp_directory = '{}'".format(str(self.local.scratch).replace("'", "''"))

    @contextmanager
    def _records(self, source: Source, columns: list[str]) -> Iterator[tuple[Any, str]]:
        """Yield a connection and the SQL of the source's records: read by DuckDB itself, or streamed through Arrow."""
        if isinstance(source, DuckDBSource):
            with source.connected() as opened:
                yield opened
            return
        with _connection(None) as connection:
            if files := parquet_files(source):
                listed = ", ".join("'{}'".format(str(file).replace("'", "''")) for file in files)
                with _explained(", ".join(file.name for file in files[:3])):
                    # As locally: columns by name, and what a file holds is in it, whatever its folder is called.
                    options = "hive_partitioning = false, union_by_name = true"
                    yield connection, f"FROM read_parquet([{listed}], {options})"
                return
            batches = source.batches(columns)
            if (first := next(batches, None)) is None:
                first = pa.RecordBatch.from_pylist([], pa.schema([source.schema.field(name) for name in columns]))
            connection.register(_VIEW, pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches)))
            yield connection, f"FROM {_VIEW}"


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _connection(database: Path | None, writable: bool = False) -> AbstractContextManager[Any]:
    """Open a file, or a database in memory; nothing is fetched over the network."""
    try:
        import duckdb
    except ImportError:
        raise UsageError(sentence("DuckDB is not installed", fix="pip install 'postrand[duckdb]'")) from None
    config = {"autoinstall_known_extensions": "false"}
    read_only = database is not None and not writable
    connect: Callable[..., AbstractContextManager[Any]] = duckdb.connect
    try:
        return connect(":memory:" if database is None else str(database), read_only=read_only, config=config)
    except duckdb.Error as error:
        kind = ReleaseError if writable else DataError
        what, fix = "not a DuckDB file that can be opened", ""
        if re.search("lock|different configuration|already (attached|open)", str(error), re.IGNORECASE):
            what, fix = "the file is locked", "close it in the program that has it open, and run again"
        raise kind(sentence(what, where=str(database), fix=fix)) from None


@contextmanager
def _explained(where: str, kind: type[DataError] | type[ReleaseError] = DataError) -> Iterator[None]:
    """Turn DuckDB's complaints, which may quote records, into an error that names their kind only."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        got = type(error).__name__
        raise kind(sentence("DuckDB could not carry out a query", where=where, got=got)) from None


def _make(scratch: Path | None = None, resume: Path | None = None) -> DuckDBEngine:
    return DuckDBEngine(LocalEngine(scratch=scratch, resume=resume))


ENGINE = EngineKind("duckdb", _make)
