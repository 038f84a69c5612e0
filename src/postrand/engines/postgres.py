"""PostgreSQL in and out through ADBC: a table or query as Arrow batches, a release by COPY in one transaction."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.engines.base import Sink
from postrand.engines.grouped import quoted
from postrand.errors import DataError, ReleaseError, UsageError, raise_all, sentence
from postrand.formats.base import BATCH_ROWS, bounded, check_schema, conform, select


@dataclass(frozen=True, slots=True)
class PostgresSource:
    """The records of a query; each pass over them is one statement, and so sees one state of the database.

    Parameters
    ----------
    uri
        ``postgresql://user@host/database``; it may hold a password, and is never shown.
    query
        ``SELECT ...``, or ``TABLE persons``. A table has no order of its own: without a record key the query needs an
        ``ORDER BY`` that leaves no ties.
    """

    uri: str = field(repr=False)
    query: str
    schema: pa.Schema = field(init=False)
    num_rows: int = field(init=False)

    def __post_init__(self) -> None:
        with self._cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({self.query}) AS records LIMIT 0")
            object.__setattr__(self, "schema", cursor.fetch_arrow_table().schema.remove_metadata())
            cursor.execute(f"SELECT count(*) FROM ({self.query}) AS records")
            object.__setattr__(self, "num_rows", cursor.fetchone()[0])
        raise_all(DataError, (_unread(f.name) for f in self.schema if isinstance(f.type, pa.BaseExtensionType)))
        if not self.num_rows:
            raise DataError(sentence("the query has no records", where=_where(self.uri)))

    @classmethod
    def table(cls, uri: str, name: str, codebook: Codebook | None = None) -> PostgresSource:
        """Return the source of a table, which may be named with its schema: ``census.persons``."""
        source = cls(uri, f"TABLE {'.'.join(map(quoted, name.split('.', 1)))}")
        check_schema(source.schema, Path(name), codebook)
        return source

    @property
    def ordered(self) -> bool:
        """Whether the query puts its records in order."""
        return re.search(r"\border\s+by\b", self.query, re.IGNORECASE) is not None

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.base.Source`."""
        names = select(self.schema, columns, Path("query"))
        with self._cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(map(quoted, names))} FROM ({self.query}) AS records")
            for batch in cursor.fetch_record_batch():
                yield from bounded(batch, batch_size)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        where = _where(self.uri)
        with _explained(where, DataError), closing(_connect(self.uri)) as connection, connection.cursor() as cursor:
            yield cursor


def into_postgres(uri: str, table: str) -> Sink:
    """Return a sink that makes a new table by COPY, in one transaction: it appears whole or not at all.

    Raises
    ------
    ReleaseError
        On use, if the table exists, or the database refuses or is lost.
    """
    *schema_name, name = table.split(".", 1)
    target = {"db_schema_name": schema_name[0]} if schema_name else {}

    @contextmanager
    def opened(schema: pa.Schema) -> Iterator[_Copier]:
        plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema])
        with _explained(_where(uri), ReleaseError), closing(_connect(uri)) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, plain.empty_table(), mode="create", **target)
            yield _Copier(cursor, name, plain, target)
            connection.commit()

    return opened


@dataclass(frozen=True, slots=True)
class _Copier:
    cursor: Any
    table: str
    schema: pa.Schema
    target: dict[str, str]

    def write(self, batch: pa.RecordBatch) -> None:
        self.cursor.adbc_ingest(self.table, conform(batch, self.schema), mode="append", **self.target)


def _connect(uri: str) -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        fix = "pip install 'postrand[postgres]'"
        raise UsageError(sentence("the PostgreSQL driver is not installed", fix=fix)) from None
    return dbapi.connect(uri)


@contextmanager
def _explained(where: str, kind: type[DataError] | type[ReleaseError]) -> Iterator[None]:
    """Turn the driver's complaints, which may quote records or the password, into an error with their code only."""
    from adbc_driver_manager import Error

    try:
        yield
    except (Error, pa.ArrowException, OSError) as error:
        code = getattr(error, "sqlstate", None)
        got = f"SQLSTATE {code}" if code else type(error).__name__
        fix = "check the connection, the table and your rights; nothing was written"
        raise kind(sentence("PostgreSQL could not carry out a step", where=where, got=got, fix=fix)) from None


def _where(uri: str) -> str:
    """Name the database, without user and password."""
    parts = urllib.parse.urlsplit(uri)
    return f"database {parts.path.lstrip('/')!r} at {parts.hostname or 'the default host'}"


def _unread(name: str) -> str:
    return sentence(f"column {name!r} has a type without an Arrow type", fix=f'cast it in the query: "{name}"::text')
