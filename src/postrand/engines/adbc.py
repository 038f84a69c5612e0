"""ADBC's driver of PostgreSQL, a statement at a time: queries as Arrow batches, COPY from Arrow batches.

This is the driver's lower interface. Its DB-API loads pandas and polars where they are installed: that takes longer
than to perturb a million records, and nothing here needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pyarrow as pa

from postrand.support.extras import require


@contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Yield a connection in a transaction, which ends unless ``commit`` is called; raises the driver's errors."""
    require("adbc_driver_postgresql", "PostgreSQL needs")
    import adbc_driver_postgresql
    from adbc_driver_manager import AdbcConnection  # needs the extra "postgres"

    with closing(adbc_driver_postgresql.connect(uri)) as database, closing(AdbcConnection(database)) as connection:
        connection.set_autocommit(False)
        yield connection


@contextmanager
def cursor_of(connection: Any) -> Iterator[Cursor]:
    """Yield the only cursor of a connection."""
    from adbc_driver_manager import AdbcStatement  # needs the extra "postgres"

    with (
        closing(AdbcStatement(connection)) as statement,
        ThreadPoolExecutor(1, thread_name_prefix="postrand-postgres") as thread,
    ):
        cursor = Cursor(statement, thread)
        try:
            yield cursor
        finally:
            thread.shutdown()  # first: it may still read
            cursor.close()


class Cursor:
    """Statements that are carried out in another thread, one after the other.

    The main thread waits, hears Ctrl-C, and cancels the statement.
    """

    def __init__(self, statement: Any, thread: ThreadPoolExecutor) -> None:
        self._statement, self._thread = statement, thread
        self._reader: Any = None

    def execute(self, query: str) -> None:
        """Carry out a statement; what it returns is read by :meth:`batches` or :meth:`value`."""
        self.close()
        self._reader = self._done(self._read, query)

    def batches(self) -> pa.RecordBatchReader:
        """Return the records of the last statement, as they come."""
        return self._reader

    def value(self) -> Any:
        """Return the first value of the last statement's first record."""
        batch = self._done(self._reader.read_next_batch)
        return batch.column(0)[0].as_py()

    def ingest(self, table: str, data: pa.Table | pa.RecordBatch, mode: str, within: str = "") -> None:
        """Make a table (``create``) or add records to it (``append``), by COPY; ``within`` is its schema."""
        self.close()
        self._done(self._copy, table, data, mode, within)

    def close(self) -> None:
        """Leave what was not read of the last statement."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read(self, query: str) -> Any:
        # The only reader that keeps the SQLSTATE of what goes wrong while records come; the DB-API hands out the same.
        from adbc_driver_manager._reader import AdbcRecordBatchReader  # needs the extra "postgres"

        self._statement.set_sql_query(query)
        stream, _ = self._statement.execute_query()
        return AdbcRecordBatchReader._import_from_c(stream.address)

    def _copy(self, table: str, data: pa.Table | pa.RecordBatch, mode: str, within: str) -> None:
        place = {"adbc.ingest.target_db_schema": within} if within else {}
        options = {"adbc.ingest.target_table": table, "adbc.ingest.mode": f"adbc.ingest.mode.{mode}", **place}
        self._statement.set_options(**options)
        if isinstance(data, pa.RecordBatch):
            self._statement.bind(data)
        else:
            self._statement.bind_stream(data)
        self._statement.execute_update()

    def _done(self, step: Callable[..., Any], *arguments: Any) -> Any:
        running = self._thread.submit(step, *arguments)
        try:
            return running.result()
        except BaseException:
            if not running.done():
                with suppress(Exception):  # the stop is what counts
                    self._statement.cancel()
            raise
