"""PostgreSQL against a real server: in, out, one transaction, a dropped connection."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Timer

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from postrand.engines import LocalEngine
from postrand.engines.postgres import PostgresSource, into_postgres, postgres_transaction
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.support.signals import Stopped, stoppable
from postrand.testing import engines as testing
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
    assert [b.schema.names for b in source.batches(["ill", "id"])] == [["ill", "id"]]
    testing.check_source(source)


def test_a_table_comes_and_goes_without_pandas_and_polars(uri):
    """The driver's DB-API loads both where they are installed, and so does Arrow for an empty table."""
    code = (
        "import sys, pyarrow as pa; from postrand.engines.postgres import PostgresSource, postgres_transaction\n"
        f"source = PostgresSource.table({uri!r}, 'persons')\n"
        f"with postgres_transaction({uri!r}) as made, made.loading('copied', source.schema) as writer:\n"
        "    for batch in source.batches(): writer.write(batch)\n"
        "older = {'pandas'} if int(pa.__version__.split('.')[0]) < 26 else set()\n"
        "sys.exit(bool(({'pandas', 'polars'} - older) & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert PostgresSource.table(uri, "copied").num_rows == ROWS
    execute(uri, "DROP TABLE copied")


def test_a_database_takes_a_release_as_every_sink_does(uri):
    testing.check_sink(into_postgres(uri, "sink"), lambda: PostgresSource.table(uri, "sink"))
    assert PostgresSource.table(uri, "sink").num_rows == ROWS


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


def test_households_of_a_table_are_drawn_as_those_of_a_file(uri):
    with into_postgres(uri, "housed")(testing.housed().schema) as writer:
        for batch in testing.housed().to_batches():
            writer.write(batch)
    source, law = PostgresSource.table(uri, "housed", testing.HOUSED), testing.households()
    found, wanted = (perturbed(LocalEngine(), of, law, record_key="id") for of in (source, testing.housed()))
    assert found.to_pylist() == wanted.to_pylist()


def test_without_a_key_the_query_must_order_the_records(uri):
    engine, law = LocalEngine(), mechanism()
    ordered = PostgresSource(uri, "SELECT * FROM persons ORDER BY id")
    found = perturbed(engine, ordered)
    assert found.to_pylist() == perturbed(engine, survey().sort_by("id")).to_pylist()
    with pytest.raises(UsageError, match=r"neither a fixed order nor.*record key"):
        engine.perturb(PostgresSource.table(uri, "persons"), law, KEY, Collector())


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM persons ORDER BY sex", "SELECT * FROM persons ORDER BY random()",
     "SELECT * FROM persons ORDER BY age, ill",
     "SELECT *, 'order by id' AS x FROM persons", "SELECT * /* order by id */ FROM persons", "TABLE persons"],
)  # fmt: skip
def test_ties_need_a_record_key(uri, query):
    source = PostgresSource(uri, query)
    assert not source.ordered
    with pytest.raises(UsageError, match=r"neither a fixed order nor.*have no ties"):
        LocalEngine().content(source, mechanism(), KEY)
    LocalEngine().content(source, mechanism(), KEY, record_key="id")


def test_an_order_without_ties_outlives_an_update(uri):
    """An UPDATE of another column moves records in the table: they keep their numbers, and their content."""
    execute(uri, "CREATE TABLE moved AS TABLE persons")
    source = PostgresSource(uri, 'SELECT * FROM moved ORDER BY sex, "id" DESC')
    assert source.ordered
    before, rows = LocalEngine().content(source, mechanism(), KEY), next(source.batches(["id"])).to_pylist()
    execute(uri, "UPDATE moved SET weight = weight + 1 WHERE id % 2 = 0")
    assert next(source.batches(["id"])).to_pylist() == rows
    assert LocalEngine().content(source, mechanism(), KEY) == before
    table = PostgresSource(uri, "TABLE moved")
    assert (
        next(table.batches(["id"])).to_pylist()
        != next(PostgresSource(uri, "TABLE persons").batches(["id"])).to_pylist()
    )


@pytest.mark.parametrize(
    "made", ["(random() * 1e15)::bigint", "gen_random_uuid()::text", "clock_timestamp()::text || id"]
)
def test_a_record_key_that_changes_between_two_readings_is_refused(uri, made):
    source = PostgresSource(uri, f"SELECT {made} AS id, sex, age, area, ill, weight, note FROM persons")
    with pytest.raises(DataError, match="the records are not the same at two readings"):
        LocalEngine().perturb(source, mechanism(), KEY, Collector(), record_key="id")


def test_passwords_stay_out_of_every_message(uri):
    host, port = uri.split("@")[1].split("/")[0].split(":")
    for address in (
        f"host={host} port={port} user=nobody password=s3cretPW dbname=postgres",
        f"postgresql://nobody:s3cretPW@{host}:{port}/postgres",
        f"postgresql://nobody:s3cr@tPW@{host}:{port}/postgres",
        f"postgresql://nobody:se[cret@{host}:{port}/postgres",
        f"postgresql://nobody:s3cretPW@{host}:{port}/postgres?sslmode=require",
        f"postgresql://{host}:1/postgres?user=nobody&password=s3cretPW",
    ):
        for use in (
            lambda a: PostgresSource(a, "SELECT 1"),
            lambda a: into_postgres(a, "t")(survey().schema).__enter__(),
        ):
            with pytest.raises((DataError, ReleaseError)) as caught:
                use(address)
            assert not any(part in str(caught.value) for part in ("s3cr", "cret", "PW", "nobody"))


def test_failures_are_told_apart(uri):
    execute(uri, "CREATE TABLE numbers AS SELECT 1 AS a, 2.5::numeric AS w")
    for address, said in (
        (uri.replace("curator", "nobody"), "does not accept this user"),
        (f"{uri}?sslmode=require", "SSL failed"),
        (uri.replace("/postgres", "/nothing"), "the database does not exist"),
        (uri.replace(uri.rpartition(":")[2], "1/postgres"), r"the server does not answer.*check host and port"),
        (uri.replace("127.0.0.1", "nowhere.invalid"), r"the host is not reachable.*check host and network"),
    ):
        with pytest.raises(DataError, match=said):
            PostgresSource(address, "SELECT 1")
    with pytest.raises(DataError, match='"w"::float8 for a weight'):
        PostgresSource(uri, "TABLE numbers")
    with pytest.raises(ReleaseError, match="the table already exists, or another job is creating it"):
        into_postgres(uri, "persons")(survey().schema).__enter__()


def test_two_jobs_into_one_table_say_what_to_do(uri):
    """The first one has made the table and not yet committed; the second waits, and is told why it cannot."""
    schema, engine = survey().schema, LocalEngine(batch_rows=100)
    with ThreadPoolExecutor(1) as pool, into_postgres(uri, "contested")(schema) as first:
        second = pool.submit(engine.perturb, Memory(survey()), mechanism(), KEY, into_postgres(uri, "contested"))
        first.write(survey().to_batches()[0])
    with pytest.raises(ReleaseError, match=r"another job is creating it.*name a new table"):
        second.result()
    assert PostgresSource.table(uri, "contested").num_rows == ROWS


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


def test_unfit_sources_are_refused(uri):
    execute(uri, "CREATE TABLE none (a int)")
    execute(uri, "CREATE TABLE places AS SELECT point(1, 2) AS p")
    for make, kind, message in (
        (lambda: PostgresSource.table(uri, "none"), DataError, "no records"),
        (lambda: PostgresSource.table(uri, "nowhere"), DataError, "SQLSTATE 42P01"),
        (
            lambda: PostgresSource.table(uri, "places"),
            DataError,
            r'column \'p\' has a type that Arrow does not have.*"p"::text',
        ),
        (lambda: PostgresSource(uri, "SELECT 'secret'::int AS a"), DataError, "SQLSTATE 22P02"),
        (lambda: PostgresSource(uri.replace("/postgres", "/nothing"), "SELECT 1"), DataError, "'nothing' at 127.0.0.1"),
        (lambda: PostgresSource.table(uri, "persons", BOOK.__class__(BOOK.variables[:3])), DataError, "'area' has no"),
    ):
        with pytest.raises(kind, match=message) as caught:
            make()
        assert "secret" not in str(caught.value)
        assert "curator" not in str(caught.value)
    assert "curator" not in repr(PostgresSource(uri, "SELECT 1 AS a"))


def test_a_table_holds_what_is_not_released_as_its_category(uri):
    source, law = Memory(testing.records_for("split")), testing.split()
    LocalEngine().perturb(source, law, KEY, into_postgres(uri, "split_released"))
    rows = [row for batch in PostgresSource.table(uri, "split_released").batches() for row in batch.to_pylist()]
    assert rows == perturbed(LocalEngine(), source, law).to_pylist()
    for name in law.partly:
        shown = PostgresSource(uri, f"SELECT 1 AS one FROM split_released WHERE {name} = '(not released)'")
        found = sum(batch.num_rows for batch in shown.batches())
        assert found == sum(row[name] == "(not released)" for row in rows) > 0


SLOW = "SELECT id, pg_sleep(30)::text AS waited FROM persons"
STEPS = {
    "a query": lambda uri: PostgresSource(uri, "SELECT * FROM (SELECT pg_sleep(30)) AS a, persons").num_rows,
    "a count": lambda uri: PostgresSource(uri, SLOW + " ORDER BY waited").ordered,
    "a statement": lambda uri: transacted(uri, "DO $$ BEGIN PERFORM pg_sleep(30); END $$"),
    "a statement that is not cancelled": lambda uri: transacted(uri, UNCANCELLED),
}
UNCANCELLED = "DO $$ BEGIN PERFORM pg_sleep(2); EXCEPTION WHEN query_canceled THEN PERFORM 1; END $$"


def transacted(uri: str, statement: str) -> None:
    with postgres_transaction(uri) as transaction:
        transaction.execute("CREATE TABLE begun (a int)")
        transaction.execute(statement)


@pytest.fixture
def hears() -> Iterator[None]:
    """Hear Ctrl-C, also in a process that was started to ignore it, as one in the background is."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears")
@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_during_a_statement_is_a_stop_and_not_an_error_of_the_database(uri, step):
    """The driver hears Ctrl-C in place of Python, and says SQLSTATE 57014, or nothing where the statement goes on."""
    begun = time.monotonic()
    Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Stopped) as caught, stoppable():
        STEPS[step](uri)
    assert (caught.value.code, caught.value.name) == (128 + signal.SIGINT, "SIGINT")
    assert time.monotonic() - begun < 20
    assert "begun" not in tables(uri)


def test_a_statement_that_somebody_else_cancels_is_an_error(uri):
    def cancel() -> None:
        others = "pid <> pg_backend_pid() AND query LIKE '%begun elsewhere%'"
        execute(uri, f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {others}")

    timer = Timer(0.3, cancel)
    timer.start()
    with pytest.raises(ReleaseError, match="SQLSTATE 57014"):
        transacted(uri, "DO $$ BEGIN /* begun elsewhere */ PERFORM pg_sleep(30); END $$")
    timer.join()
