"""Write the records of a release into a table of a database: in one transaction, under its name only at the end."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from postrand.engines.database import Target
from postrand.engines.duckdb import duckdb_transaction
from postrand.engines.grouped import dotted, literal, quoted
from postrand.engines.postgres import postgres_transaction
from postrand.errors import ReleaseError, raise_all, sentence
from postrand.formats import Writer
from postrand.support.arrow import from_numpy, from_texts

MARK = "postrand_release"
"""The column that tells the records of several releases in one table apart."""


class Transaction(Protocol):
    """An open transaction: what is done in it appears at its end, or not at all."""

    def execute(self, statement: str) -> None:
        """Carry out a statement."""

    def fetch(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the records of a query."""

    def loading(self, table: str, schema: pa.Schema) -> AbstractContextManager[Writer]:
        """Make a table, and yield what fills it; text with categories becomes text."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Records that are in the transaction: ``read`` yields them as they are in the database."""

    transaction: Transaction
    table: str
    names: tuple[str, ...]
    mark: str

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of this release, with its columns in their order."""
        return self.transaction.fetch(select_sql(self.table, self.names, self.mark))


@contextmanager
def placed(target: Target, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Placed]:
    """Write batches under a hidden name, yield them as they are in the database, and give them the name at the end.

    After an error in the block, or a lost connection, the database is as it was.

    Raises
    ------
    ReleaseError
        If the table exists although it must be new, differs from what is appended, or has records of this mark; or if
        the database refuses a step.
    """
    names = tuple(schema.names)
    loaded = pa.schema([(field.name, field.type) for field in schema])
    if target.mark:
        if MARK in names:
            raise ReleaseError(sentence(f"the column {MARK!r} is released, so it cannot contain the mark"))
        loaded = loaded.append(pa.field(MARK, pa.string()))
    with _transaction(target) as transaction:
        exists = _columns(transaction, target.table)
        raise_all(ReleaseError, table_problems(target, exists, loaded.names))
        *prefix, _ = target.table.split(".", 1)
        hidden = ".".join([*prefix, f"postrand_{secrets.token_hex(8)}"])
        with transaction.loading(hidden, loaded) as writer:
            for batch in batches:
                writer.write(_marked(batch, target.mark))
        appends = target.if_exists == "append" and bool(exists)
        if appends:
            _append(transaction, target, hidden, loaded.names)
        yield Placed(transaction, target.table if appends else hidden, names, target.mark)
        if not appends:
            _named(transaction, target, hidden, replaces=bool(exists))


def check_target(target: Target, names: Sequence[str]) -> None:
    """Raise ReleaseError, before any work is done, where a table cannot be written: as :func:`placed` would."""
    wanted = [*names, *([MARK] if target.mark else [])]
    path = target.database.path
    if path is not None and not path.exists():
        if not path.parent.is_dir():
            raise ReleaseError(sentence("the folder of the database does not exist", where=str(path.parent)))
        return
    with _transaction(target) as transaction:
        raise_all(ReleaseError, table_problems(target, _columns(transaction, target.table), wanted))
        if target.mark and target.if_exists == "append":
            _check_mark(transaction, target)


def select_sql(table: str, names: Sequence[str], mark: str) -> str:
    """Return the query of a release's records in its table."""
    where = f" WHERE {quoted(MARK)} = {literal(mark)}" if mark else ""
    return f"SELECT {', '.join(map(quoted, names))} FROM {dotted(table)}{where}"


def table_problems(target: Target, columns: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Say why a release with these columns cannot go into a table with those; ``columns`` is empty for no table."""
    where = f"table {target.table!r}"
    if columns and target.if_exists == "fail":
        fix = "name another table, or set if_exists = 'replace', or 'append' with a mark"
        yield sentence("the table already exists", where=where, fix=fix)
    elif columns and target.if_exists == "append" and list(columns) != list(wanted):
        what = "the columns of the table differ from the columns of the release"
        yield sentence(what, where=where, got=", ".join(columns), wanted=", ".join(wanted))


def _transaction(target: Target) -> AbstractContextManager[Transaction]:
    if (path := target.database.path) is not None:
        return duckdb_transaction(path, dataclasses.replace(target.resources, memory_limit=target.share(2)))
    return postgres_transaction(target.database.address())


def _columns(transaction: Transaction, table: str) -> list[str]:
    """Return the columns of a table in order; none if the table does not exist."""
    *schema, name = table.split(".", 1)
    within = literal(schema[0]) if schema else "current_schema()"
    query = (
        "SELECT column_name::text AS name FROM information_schema.columns "
        f"WHERE table_schema = {within} AND table_name = {literal(name)} ORDER BY ordinal_position"
    )
    return [text for batch in transaction.fetch(query) for text in batch.column(0).to_pylist()]


def _marked(batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    if not mark:
        return batch
    return batch.append_column(MARK, from_texts([mark]).take(from_numpy(np.zeros(batch.num_rows, dtype=np.int32))))


def _named(transaction: Transaction, target: Target, hidden: str, *, replaces: bool) -> None:
    """Give the table its name, in place of the one that had it."""
    if replaces:
        transaction.execute(f"DROP TABLE {dotted(target.table)}")
    transaction.execute(f"ALTER TABLE {dotted(hidden)} RENAME TO {quoted(target.table.split('.', 1)[-1])}")


def _append(transaction: Transaction, target: Target, hidden: str, names: Sequence[str]) -> None:
    if target.database.path is None:  # two runs with one mark wait for each other; DuckDB has one writer anyway
        transaction.execute(f"LOCK TABLE {dotted(target.table)} IN SHARE ROW EXCLUSIVE MODE")
    _check_mark(transaction, target)
    listed = ", ".join(map(quoted, names))
    transaction.execute(f"INSERT INTO {dotted(target.table)} ({listed}) SELECT {listed} FROM {dotted(hidden)}")
    transaction.execute(f"DROP TABLE {dotted(hidden)}")


def _check_mark(transaction: Transaction, target: Target) -> None:
    if not _columns(transaction, target.table):
        return
    marked = f"SELECT 1 FROM {dotted(target.table)} WHERE {quoted(MARK)} = {literal(target.mark)}"
    found: Any = [row for b in transaction.fetch(f"SELECT EXISTS ({marked}) AS found") for row in b.column(0)]
    if found[0].as_py():
        what = f"the table already contains records of a release with the mark {target.mark!r}"
        raise ReleaseError(sentence(what, where=f"table {target.table!r}", fix="use another mark"))
