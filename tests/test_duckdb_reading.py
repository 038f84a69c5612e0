"""What a reading of a DuckDB table may keep in memory."""

import os

import duckdb
import pytest

from postrand.engines.duckdb import DuckDBSource


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "survey.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE persons AS SELECT i AS id, i % 7 AS a FROM range(100000) t(i)")
        connection.execute(f"CREATE TABLE wide AS SELECT {', '.join(f'1 AS x{k}' for k in range(700))}")
    return path


def limit_of(source):
    """Return the limit of the database while a reading is under way, in MiB, and how many records it gave."""
    reading, records = source.batches(), 0
    records = next(reading).num_rows
    # A second connection of the same configuration joins the open database.
    config = {"autoinstall_known_extensions": "false"}
    with duckdb.connect(str(source.database), read_only=True, config=config) as other:
        told = other.sql("SELECT current_setting('memory_limit')").fetchall()[0][0]
    number, unit = told.split()
    records += sum(batch.num_rows for batch in reading)
    return float(number) * {"MiB": 1, "GiB": 1024}[unit], records


@pytest.mark.parametrize("query", ["FROM persons", "SELECT * FROM persons"])
def test_a_reading_of_a_table_keeps_half_a_gigabyte_at_most(database, query):
    assert limit_of(DuckDBSource(query, database)) == (512, 100_000)


def test_many_columns_are_given_more(database):
    limit, records = limit_of(DuckDBSource("FROM wide", database))
    assert limit == pytest.approx(max(512, 700 * (os.cpu_count() or 1)), rel=0.06)  # told with one decimal
    assert records == 1


def test_a_limit_of_the_caller_holds(database):
    settings = ("SET memory_limit = '700MiB'",)
    assert limit_of(DuckDBSource("FROM persons", database, settings=settings)) == (700, 100_000)


def test_a_query_that_may_sort_has_what_the_database_has(database):
    plain = limit_of(DuckDBSource("FROM persons", database))[0]
    assert limit_of(DuckDBSource("SELECT * FROM persons ORDER BY id", database))[0] > plain
