"""PostgreSQL against a real server: in, out, one transaction, a dropped connection."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from postrand.engines import LocalEngine
from postrand.engines.postgres import PostgresSource, into_postgres
from postrand.errors import DataError, ReleaseError, UsageError
from tests.postgres_server import server
from tests.test_engines import BOOK, KEY, LAWS, ROWS, Collector, Memory, mechanism, perturbed, survey

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with server() as address:
        into_persons = into_postgres(address, "persons")
        with into_persons(survey().schema) as writer:
            for batch in survey().to_batches(max_chunksize=90):
                writer.write(batch)
        yield address


def execute(uri: str, statement: str) -> None:
    with closing(dbapi.connect(uri)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()


def tables(uri: str) -> set[str]:
    source = PostgresSource(uri, "SELECT tablename::text AS name FROM pg_tables WHERE schemaname <> 'pg_catalog'")
    return {name for batch in source.batches() for name in batch.column(0).to_pylist()}


def test_a_table_is_a_source(uri):
    source = PostgresSource.table(uri, "public.persons", BOOK)
    assert (source.num_rows, source.schema.names) == (ROWS, survey().schema.names)
    rows = [row for batch in source.batches(batch_size=70) for row in batch.to_pylist()]
    assert rows == survey().to_pylist()
    assert [b.schema.names for b in source.batches(["ill", "id"])] == [["ill", "id"]]
    for names in (["sex"], ["age", "area", "ill"]):
        found = LocalEngine().count(source, BOOK, names)
        assert (found.counts == LocalEngine().count(Memory(survey()), BOOK, names).counts).all()


def test_the_release_becomes_a_table(uri):
    source = PostgresSource.table(uri, "persons", BOOK)
    engine = LocalEngine(batch_rows=100)
    assert engine.perturb(source, mechanism(), KEY, into_postgres(uri, "released"), record_key="id") == ROWS
    rows = [row for batch in PostgresSource.table(uri, "released").batches() for row in batch.to_pylist()]
    assert rows == perturbed(LocalEngine(), record_key="id").to_pylist()
    with pytest.raises(ReleaseError, match="nothing was written"):
        engine.perturb(source, mechanism(), KEY, into_postgres(uri, "released"), record_key="id")
    execute(uri, 'CREATE SCHEMA "out"')
    engine.perturb(source, mechanism(), KEY, into_postgres(uri, "out.released"), record_key="id")
    assert PostgresSource.table(uri, "out.released").num_rows == ROWS


@pytest.mark.parametrize("kind", ["strata", "selected"])
def test_strata_and_selected_records_are_those_of_the_local_engine(uri, kind):
    source, law = PostgresSource.table(uri, "persons", BOOK), LAWS[kind]()
    LocalEngine(batch_rows=100).perturb(source, law, KEY, into_postgres(uri, f"released_{kind}"), record_key="id")
    rows = [row for batch in PostgresSource.table(uri, f"released_{kind}").batches() for row in batch.to_pylist()]
    assert rows == perturbed(LocalEngine(), law=law, record_key="id").to_pylist()


def test_without_a_key_the_query_must_order_the_records(uri):
    engine, law = LocalEngine(), mechanism()
    ordered = PostgresSource(uri, "SELECT * FROM persons ORDER BY id")
    found = perturbed(engine, ordered)
    assert found.to_pylist() == perturbed(engine, survey().sort_by("id")).to_pylist()
    with pytest.raises(UsageError, match=r"no order of their own.*record key"):
        engine.perturb(PostgresSource.table(uri, "persons"), law, KEY, Collector())


def test_an_error_of_the_data_rolls_back(uri):
    bad = survey().set_column(2, "age", pa.array([10] * (ROWS - 1) + [11]))
    with pytest.raises(DataError, match="not in the codebook"):
        LocalEngine(batch_rows=50).perturb(
            Memory(bad), mechanism(), KEY, into_postgres(uri, "half"), record_key="id", shuffle=False
        )
    assert "half" not in tables(uri)


class Dropped(Memory):
    """A source that cuts every connection to the server between two batches."""

    def batches(self, columns=None, batch_size=100):
        for number, batch in enumerate(super().batches(columns, 100)):
            if number == 3:
                execute(self.uri, CUT)  # type: ignore[attr-defined]
            yield batch


CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'curator'"


def test_a_dropped_connection_leaves_no_table(uri):
    source = Dropped(survey())
    object.__setattr__(source, "uri", uri)
    with pytest.raises(ReleaseError, match="could not carry out a step") as caught:
        LocalEngine(threads=1, batch_rows=100).perturb(
            source, mechanism(), KEY, into_postgres(uri, "cut"), shuffle=False, record_key="id"
        )
    assert "curator" not in str(caught.value)
    assert "cut" not in tables(uri)


def test_a_connection_dropped_while_reading_is_an_error_of_the_data(uri):
    source = PostgresSource(uri, "SELECT a.* FROM persons a, persons b, persons c LIMIT 3000000")
    batches = source.batches(["id"])
    next(batches)
    execute(uri, CUT)
    with pytest.raises(DataError, match="could not carry out a step"):
        list(batches)


def test_unfit_sources_are_refused(uri):
    execute(uri, "CREATE TABLE none (a int)")
    execute(uri, "CREATE TABLE places AS SELECT point(1, 2) AS p")
    for make, kind, message in (
        (lambda: PostgresSource.table(uri, "none"), DataError, "no records"),
        (lambda: PostgresSource.table(uri, "nowhere"), DataError, "SQLSTATE 42P01"),
        (lambda: PostgresSource.table(uri, "places"), DataError, r'column \'p\' has a type without.*"p"::text'),
        (lambda: PostgresSource(uri, "SELECT 'secret'::int AS a"), DataError, "SQLSTATE 22P02"),
        (lambda: PostgresSource(uri.replace("/postgres", "/nothing"), "SELECT 1"), DataError, "'nothing' at 127.0.0.1"),
        (lambda: PostgresSource.table(uri, "persons", BOOK.__class__(BOOK.variables[:3])), DataError, "'area' has no"),
    ):
        with pytest.raises(kind, match=message) as caught:
            make()
        assert "secret" not in str(caught.value)
        assert "curator" not in str(caught.value)
    assert "curator" not in repr(PostgresSource(uri, "SELECT 1 AS a"))
