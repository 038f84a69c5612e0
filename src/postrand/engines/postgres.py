"""PostgreSQL in and out through ADBC: a table or query as Arrow batches, a release by COPY in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.address import database_at
from postrand.codebook import Codebook
from postrand.codebook.coding import value_type
from postrand.engines.adbc import Cursor, connected, cursor_of
from postrand.engines.base import Sink
from postrand.engines.grouped import dotted, order_of, order_sql, quoted, ties_sql
from postrand.errors import DataError, ReleaseError, raise_all, sentence
from postrand.formats.base import BATCH_ROWS, bounded, check_schema, conform, select


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """The records of a query; each pass over them is one statement, and so sees one state of the database.

    Parameters
    ----------
    uri
        ``postgresql://user@host/database``; it may hold a password, and is never shown.
    query
        ``SELECT ...``, or ``TABLE persons``. A table has no order of its own: without a record key the query ends with
        an ``ORDER BY`` of its columns that leaves no ties, which the database is asked about.
    """

    uri: str = field(repr=False)
    query: str = field(repr=False)
    schema: pa.Schema = field(init=False)
    num_rows: int = field(init=False)

    def __post_init__(self) -> None:
        with self._cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({self.query}) AS records LIMIT 0")
            object.__setattr__(self, "schema", cursor.batches().schema.remove_metadata())
            cursor.execute(f"SELECT count(*) FROM ({self.query}) AS records")
            object.__setattr__(self, "num_rows", cursor.value())
        raise_all(DataError, (_unread(f) for f in self.schema if isinstance(f.type, pa.BaseExtensionType)))
        if not self.num_rows:
            raise DataError(sentence("the query returns no records", where=database_at(self.uri)))

    @classmethod
    def table(cls, uri: str, name: str, codebook: Codebook | None = None) -> PostgresSource:
        """Return the source of a table, whose name can include the schema: ``census.persons``."""
        source = cls(uri, f"TABLE {dotted(name)}")
        check_schema(source.schema, Path(name), codebook)
        return source

    @property
    def ordered(self) -> bool:
        """Whether the query ends with an ``ORDER BY`` of columns that leaves no ties: the database is asked."""
        if not (order := order_of(self.query, self.schema.names)):
            return False
        with self._cursor() as cursor:
            cursor.execute(ties_sql(self.query, order))
            return not cursor.value()

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, Path("query"))
        with self._cursor() as cursor:
            listed, order = ", ".join(map(quoted, names)), order_sql(order_of(self.query, self.schema.names))
            cursor.execute(f"SELECT {listed} FROM ({self.query}) AS records{order}")
            for batch in cursor.batches():
                yield from bounded(batch, batch_size)

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        with _opened(self.uri, DataError) as (_, cursor):
            yield cursor


def check_connection(uri: str) -> None:
    """Raise DataError unless the database lets this user in."""
    with _explained(database_at(uri), DataError), connected(uri):
        pass


def into_postgres(uri: str, table: str) -> Sink:
    """Return a sink that makes a new table by COPY, in one transaction: it appears whole or not at all.

    Raises
    ------
    ReleaseError
        On use, if the table exists, or the database refuses or is lost.
    """
    schema_name, name = _parts(table)

    @contextmanager
    def opened(schema: pa.Schema) -> Iterator[_Copier]:
        plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])
        with _opened(uri, ReleaseError) as (connection, cursor):
            cursor.ingest(name, _nothing(plain), "create", schema_name)
            yield _Copier(cursor, name, plain, schema_name)
            _commit(connection, uri)

    return opened


@contextmanager
def postgres_transaction(uri: str) -> Iterator[PostgresTransaction]:
    """Yield an open transaction, committed on leaving; after an error the database is as it was.

    Raises
    ------
    ReleaseError
        If the database refuses a step, or is lost.
    """
    with _opened(uri, ReleaseError) as (connection, cursor):
        yield PostgresTransaction(cursor)
        _commit(connection, uri)


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    """See :class:`postrand.engines.placing.Transaction`."""

    cursor: Cursor

    def execute(self, statement: str) -> None:
        """Carry out a statement."""
        self.cursor.execute(statement)

    def fetch(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the records of a query."""
        self.cursor.execute(query)
        yield from self.cursor.batches()

    @contextmanager
    def loading(self, table: str, schema: pa.Schema) -> Iterator[_Copier]:
        """Make a table, and yield what fills it by COPY."""
        schema_name, name = _parts(table)
        raise_all(ReleaseError, (_unheld(field) for field in schema if pa.types.is_decimal(value_type(field.type))))
        held = [value_type(field.type) for field in schema]
        days = [pa.date32() if pa.types.is_date(of) else of for of in held]
        plain = pa.schema(list(zip(schema.names, days, strict=True)))
        self.cursor.ingest(name, _nothing(plain), "create", schema_name)
        yield _Copier(self.cursor, name, plain, schema_name)


def _unheld(field: pa.Field) -> str:
    what = f"column {field.name!r} is a decimal number, which PostgreSQL returns as text only"
    return sentence(what, got=field.type, fix="cast it to double in the source, or give it the role 'drop'")


def _nothing(schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([], schema)  # an empty_table is made of Python values, for which Arrow loads pandas


def _parts(table: str) -> tuple[str, str]:
    """Return the schema, which may be empty, and the name of a table."""
    before, dot, after = table.partition(".")
    return (before, after) if dot else ("", before)


@dataclass(frozen=True, slots=True)
class _Copier:
    cursor: Cursor
    table: str
    schema: pa.Schema
    within: str

    def write(self, batch: pa.RecordBatch) -> None:
        self.cursor.ingest(self.table, conform(batch, self.schema), "append", self.within)


@contextmanager
def _opened(uri: str, kind: type[DataError] | type[ReleaseError]) -> Iterator[tuple[Any, Cursor]]:
    """Yield a connection, closed on leaving, and its cursor; the driver's complaints become errors of this kind."""
    with _explained(database_at(uri), kind), connected(uri) as connection, cursor_of(connection) as cursor:
        yield connection, cursor


def _commit(connection: Any, uri: str) -> None:
    """Commit; where the connection is lost in the midst, only the server knows whether it has."""
    with _explained(database_at(uri), ReleaseError, "the new table may exist: if it does, drop it before the next run"):
        connection.commit()


# What is told apart of the driver's complaints, whose text may quote records or the password: SQLSTATE, words of the
# text, what is said, the next step.
_KINDS = (
    ("57P01|57P02|08003|08006",
     "terminating connection|closed the connection|connection has been closed|no connection to",
     "the connection was lost", "see why the server or the network ended it, then run again"),
    ("28P01|28000", "password authentication failed|no password supplied|role .* does not exist|no pg_hba",
     "the server does not accept this user or password", "check user and password"),
    ("3D000", "database .* does not exist", "the database does not exist", "check the database's name"),
    ("", "SSL|certificate", "SSL failed, or one side does not accept it", "check sslmode and certificates"),
    ("", "Connection refused|could not connect|is the server running", "the server does not answer",
     "check host and port"),
    ("", "translate host name|timeout|timed out|No route", "the host is not reachable", "check host and network"),
    ("", "in connection info string|connection option|invalid URI|invalid percent|uri", "the address is wrong",
     "write postgresql://user@host/database; escape signs in the password as %40, %2F"),
    ("42P07|23505", "already exists|duplicate key", "the table already exists, or another job is creating it",
     "name a new table, or drop this table"),
    ("42P01|3F000", "(relation|schema) .* does not exist", "the table or schema does not exist", "check the names"),
    ("2BP01", "depend on it", "other objects, such as views, depend on the table",
     "drop these objects first, or name another table"),
    ("42703", "column .* does not exist", "the column does not exist", "check the names"),
    ("", "definition of service|service file", "the service is unknown",
     "check its name in ~/.pg_service.conf, or in the file that PGSERVICEFILE names"),
    ("42501", "permission denied", "the user does not have the privilege for this step",
     "ask the administrator for the privilege"),
    ("53100|53200", "No space left|out of memory", "the server has no disk space or memory left",
     "free space or memory, and run again"),
)  # fmt: skip


@contextmanager
def _explained(
    where: str, kind: type[DataError] | type[ReleaseError], left: str = "nothing was written"
) -> Iterator[None]:
    """Turn the driver's complaints, which can quote records or the password, into an error with their kind only."""
    from adbc_driver_manager import Error  # needs the extra "postgres"

    try:
        yield
    except (Error, pa.ArrowException, OSError, UnicodeError) as error:
        raise kind(_complaint(where, error, left)) from None


def _complaint(where: str, error: Exception, left: str) -> str:
    code, text = getattr(error, "sqlstate", None) or "", str(error)
    step = "PostgreSQL could not carry out a step"
    for codes, words, what, fix in _KINDS:
        if (code in codes.split("|")) if code else (words and re.search(words, text)):
            got = f"SQLSTATE {code}" if code else None
            return sentence(f"{step}: {what}", where=where, got=got, fix=f"{fix}; {left}")
    fix = f"check the connection, the table and your privileges; {left}"
    return sentence(step, where=where, got=f"SQLSTATE {code}" if code else type(error).__name__, fix=fix)


def _unread(field: pa.Field) -> str:
    exact = f'cast it in the query: "{field.name}"::text'
    fix = f'cast it in the query: "{field.name}"::float8 for a weight or another number, or ::text'
    number = getattr(field.type, "type_name", "") == "numeric"
    return sentence(f"column {field.name!r} has a type that Arrow does not have", fix=fix if number else exact)
