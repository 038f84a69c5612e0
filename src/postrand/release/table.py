"""A release whose data is a table of a database: the file that names it, how it is written, read and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import formats
from postrand.codebook import Codebook
from postrand.codebook.clear_columns import released_values
from postrand.codebook.coding import arrow_type, is_text, value_type
from postrand.engines.database import ADDRESS, Database, Target
from postrand.engines.duckdb import DuckDBSource, require_table
from postrand.engines.grouped import dotted
from postrand.engines.placing import MARK, placed, select_sql
from postrand.engines.postgres import PostgresSource, check_connection
from postrand.engines.table_digest import MEMORY, TableDigest
from postrand.errors import DataError, PostrandError, ReleaseError, UncheckedError, raise_all, sentence
from postrand.formats import Source
from postrand.formats.base import BATCH_ROWS, bounded, cast, select
from postrand.release import canonical_json

TABLE = "table.json"
"""The file of a release that names the table with its data."""
SCHEMA = "postrand/table/1"
_FIELDS = ("schema", "uri", "table", "mark", "columns", "records", "sha256")
_NO_PLAIN_LOGIN = "require_auth=!password,!md5"
"""A release can name any server, so the local password must not be sent there in readable form."""


def open_data(path: Path, codebook: Codebook) -> Source:
    """Open the data of a release: files, or the table that ``table.json`` names."""
    return ReleasedTable.open(path, codebook) if path.name == TABLE else formats.read(path, codebook)


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """The records of a table that a release names; if all columns are read, they are compared with its digest.

    The table may stand in another place by now: the variable POSTRAND_DATABASE of the environment names its database.
    """

    path: Path
    stated: Mapping[str, Any]
    codebook: Codebook
    source: Source

    @classmethod
    def open(cls, path: Path, codebook: Codebook) -> ReleasedTable:
        """Find the table.

        Raises
        ------
        ReleaseError
            If the file is not well formed, or the database has no such table, or one of other columns.
        UncheckedError
            If the database cannot be reached from here.
        """
        stated = _stated(path, codebook)
        source = _source(stated, path.parent, codebook.names)
        return cls(path, stated, codebook, source)

    @property
    def schema(self) -> pa.Schema:
        """The released columns, in the codebook's types."""
        return table_schema(self.codebook)

    @property
    def num_rows(self) -> int:
        """The number of records that the release states."""
        return int(self.stated["records"])

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; raises DataError at the end of all columns if they are not those of the release."""
        names = select(self.schema, columns, self.path)
        read = (_typed(batch, self.schema) for batch in self.source.batches(names, batch_size))
        if set(names) != set(self.schema.names):
            for batch in read:
                yield from bounded(batch, batch_size)
            return
        with TableDigest(self.codebook.names) as digest:
            for batch in read:
                digest.add(batch)
                yield from bounded(batch, batch_size)
            _check(self.stated, digest.records, digest.hexdigest())


def table_schema(codebook: Codebook) -> pa.Schema:
    """Return the columns of a released table, in the codebook's types."""
    return pa.schema([(v.name, value_type(arrow_type(v.type))) for v in codebook.variables])


@contextmanager
def as_table(target: Target, data: Path, codebook: Codebook) -> Iterator[str]:
    """Copy a data file into its table, put ``table.json`` in its place, and yield that name; commit on leaving.

    Raises
    ------
    ReleaseError
        If the table cannot be written, or the database holds other values than the file.
    """
    names, source = codebook.names, formats.read(data, codebook)
    schema = pa.schema([source.schema.field(name) for name in names])
    typed = table_schema(codebook)
    with placed(target, schema, source.batches(names)) as table:
        differing: list[int] = []
        read = (_typed(batch, typed) for batch in table.read())
        memory = min(target.share(4) or MEMORY, MEMORY)
        records, digest = _digest(names, _compared(read, source.batches(names, 1 << 14), differing), memory)
        if differing and (records, digest) != _digest(names, source.batches(names), memory):
            what = "the database changed the values that were written"
            fix = "convert columns of unusual types in the source"
            raise ReleaseError(sentence(what, where=f"table {target.table!r}", fix=fix))
        place = {"uri": target.database.public(data.parent), "table": target.table, "mark": target.mark}
        held = {"columns": list(names), "records": records, "sha256": digest}
        (data.parent / TABLE).write_bytes(canonical_json.dump({"schema": SCHEMA, **place, **held}))
        data.unlink()
        yield TABLE


def _compared(
    batches: Iterable[pa.RecordBatch], wanted: Iterator[pa.RecordBatch], differing: list[int]
) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and note in ``differing`` where they are not the wanted records in the same order.

    While they are, categories come as the wanted codes: these are digested faster than their texts.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        while not differing and sum(map(len, waiting)) < len(batch) and (more := next(wanted, None)) is not None:
            waiting.append(more)
        passed = batch
        if not differing:
            held = pa.Table.from_batches(waiting) if waiting else batch.slice(0, 0)
            same = held.slice(0, len(batch))
            if _equal(batch, same):
                passed = _coded(batch, same)
            else:
                differing.append(len(batch))
            rest = held.slice(len(batch))
            waiting = rest.to_batches() if len(rest) else []
        yield passed
    if not differing and (waiting or next(wanted, None) is not None):
        differing.append(0)


def _coded(batch: pa.RecordBatch, same: pa.Table) -> pa.RecordBatch:
    """Return the batch with those columns of the equal table that are texts in codes."""
    columns = list(batch.columns)
    for n, (column, codes) in enumerate(zip(batch.columns, same.columns, strict=True)):
        if pa.types.is_dictionary(codes.type) and is_text(codes.type) and is_text(column.type):
            columns[n] = codes.unify_dictionaries().combine_chunks()
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _equal(batch: pa.RecordBatch, wanted: pa.Table) -> bool:
    """Whether values are equal, those of dictionaries spelt out; NaN equals nothing."""
    plain = pa.schema([(field.name, value_type(field.type)) for field in batch.schema])
    try:
        return bool(pa.Table.from_batches([batch]).cast(plain).equals(wanted.cast(plain)))
    except (pa.ArrowException, ValueError):
        return False


def check_values(path: Path, codebook: Codebook) -> None:
    """Check that the table holds the values of the codebook's categories, and other columns as they are, no more.

    Raises
    ------
    DataError
        If its digest is not that of such values.
    """
    table = ReleasedTable.open(path, codebook)
    spelt = (released_values(batch, codebook) for batch in table.source.batches(codebook.names))
    _check(table.stated, *_digest(codebook.names, (_typed(batch, table.schema) for batch in spelt)))


def _stated(path: Path, codebook: Codebook) -> dict[str, Any]:
    stated = canonical_json.read(path)
    texts = all(isinstance(stated.get(name), str) for name in ("schema", "uri", "table", "mark", "sha256"))
    if tuple(stated) != _FIELDS or not texts or type(stated["records"]) is not int:
        raise ReleaseError(sentence("a field is missing, unknown, or of another type", where=TABLE))
    if stated["schema"] != SCHEMA:
        what, fix = "unknown schema", "use a newer postrand"
        raise ReleaseError(sentence(what, where=TABLE, got=stated["schema"], wanted=SCHEMA, fix=fix))
    if stated["columns"] != list(codebook.names):
        raise ReleaseError(sentence("the columns are not those of the codebook", where=TABLE))
    return stated


def _source(stated: Mapping[str, Any], folder: Path, names: Sequence[str]) -> Source:
    """Open the table at the place that the environment names, else at that of the release."""
    given = os.environ.get(ADDRESS, "")
    try:
        database = Database(given or stated["uri"], folder=Path() if given else folder)
        Target(database, stated["table"])
    except PostrandError as error:
        raise ReleaseError(f"{ADDRESS if given else TABLE}: {problem}" for problem in error.problems) from None
    where, fix = f"table {stated['table']!r}", f"set {ADDRESS} to the address of its database, if it was moved"
    wanted = [*names, *([MARK] if stated["mark"] else [])]
    every = select_sql(stated["table"], wanted, stated["mark"])
    if (path := database.path) is not None:
        if not path.is_file():
            raise ReleaseError(sentence("the DuckDB file of the released table is missing", where=where, fix=fix))
        require_table(path, stated["table"])
        found = DuckDBSource(f"FROM {dotted(stated['table'])}", path, sealed=True).schema.names
        source: Source = DuckDBSource(every, path, sealed=True)
    else:
        address = database.address()
        if not given:
            address += f"{'&' if '?' in address else '?'}{_NO_PLAIN_LOGIN}"
        try:
            check_connection(address)
        except DataError as error:
            more = f"give a login with permission to read it (PGUSER, PGPASSWORD), or {fix}"
            raise UncheckedError(f"{where}: {problem} Or {more}." for problem in error.problems) from None
        found = PostgresSource.table(address, stated["table"]).schema.names
        source = PostgresSource(address, every)
    if found != wanted:
        what = "the columns of the table are not those of the release"
        raise ReleaseError(sentence(what, where=where, got=", ".join(found), wanted=", ".join(wanted)))
    return source


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns in the codebook's types; text stays as it is, written as a dictionary or not."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        of = schema.field(name).type
        columns.append(column if pa.types.is_dictionary(column.type) else cast(column, of))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _digest(names: Sequence[str], batches: Iterable[pa.RecordBatch], memory: int = MEMORY) -> tuple[int, str]:
    with TableDigest(names, memory) as digest:
        for batch in batches:
            digest.add(batch)
        return digest.records, digest.hexdigest()


def _check(stated: Mapping[str, Any], records: int, digest: str) -> None:
    if (records, digest) != (stated["records"], stated["sha256"]):
        what = "the table is not the one that was released: a record was changed, added or removed"
        fix = "release it again; 'postrand verify' gives details"
        raise_all(DataError, [sentence(what, where=f"table {stated['table']!r}", fix=fix)])
