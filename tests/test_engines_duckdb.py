"""DuckDB: tables of a file in and out, any file it reads, and failures that leave nothing behind."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.engines import LocalEngine
from postrand.engines.duckdb import DuckDBEngine, DuckDBSource, duckdb_transaction, into_duckdb
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.testing import engines as testing
from tests.test_engines import BOOK, KEY, ROWS, Collector, Memory, mechanism, perturbed, survey

ENGINE = DuckDBEngine(LocalEngine(threads=2, batch_rows=100))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "survey.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", survey())
        connection.execute("CREATE TABLE persons AS FROM given")
    return path


def test_a_table_of_a_file_is_a_source(database):
    source = DuckDBSource.table(database, codebook=BOOK)
    testing.check_source(source)
    found = perturbed(ENGINE, source, record_key="id")
    assert found.to_pylist() == perturbed(LocalEngine(), record_key="id").to_pylist()


@pytest.mark.parametrize("names", [["sex"], ["age", "area", "ill"]])
def test_counts_are_the_same_from_wherever_the_records_come(database, tmp_path, names):
    wanted = LocalEngine().count(Memory(survey()), BOOK, names)
    (tmp_path / "parts").mkdir()
    for n, start in enumerate(range(0, ROWS, 200)):
        pq.write_table(survey().slice(start, 200), tmp_path / "parts" / f"it's {n}.parquet")
    with formats.open_writer(tmp_path / "x.csv", survey().schema) as writer:
        writer.write(survey().to_batches()[0])
    for source in (
        Memory(survey()),
        DuckDBSource.table(database, "persons"),
        DuckDBSource(f"FROM '{tmp_path}/parts/*.parquet'"),
        formats.read(tmp_path / "parts"),
        formats.read(tmp_path / "x.csv", BOOK),
    ):
        found = DuckDBEngine(memory_limit=1 << 28).count(source, BOOK, names)
        assert (found.counts == wanted.counts).all()
        assert (found.counts.dtype.name, found.shape, found.omitted) == ("int64", wanted.shape, wanted.omitted)


def test_counts_beyond_the_dense_limit_are_sparse(monkeypatch):
    monkeypatch.setattr("postrand.data.table.DENSE_CELLS", 20)
    names = ["age", "area", "ill"]
    one, two = (engine.count(Memory(survey()), BOOK, names) for engine in (LocalEngine(), DuckDBEngine()))
    assert one.cells is not None
    assert two.cells is not None
    assert (one.cells == two.cells).all()
    assert (one.counts == two.counts).all()


def test_the_release_becomes_a_table(tmp_path):
    target = tmp_path / "out.duckdb"
    assert ENGINE.perturb(Memory(survey()), mechanism(), KEY, into_duckdb(target, 're"leased')) == ROWS
    found = DuckDBSource.table(target, 're"leased')
    rows = [row for batch in found.batches() for row in batch.to_pylist()]
    assert rows == perturbed(LocalEngine()).to_pylist()
    with pytest.raises(ReleaseError, match="CatalogException"):
        ENGINE.perturb(Memory(survey()), mechanism(), KEY, into_duckdb(target, 're"leased'))
    assert DuckDBSource.table(target, 're"leased').num_rows == ROWS


def test_a_database_takes_a_release_as_every_sink_does(tmp_path):
    target = tmp_path / "sink.duckdb"
    testing.check_sink(into_duckdb(target, "released"), lambda: DuckDBSource.table(target, "released"))
    assert DuckDBSource.table(target, "released").num_rows == ROWS


def test_a_failed_run_leaves_no_table_and_no_file(database, tmp_path):
    bad = survey().set_column(2, "age", pa.array([10] * (ROWS - 1) + [11]))
    for target in (tmp_path / "new.duckdb", database):
        with pytest.raises(DataError, match="not in the codebook"):
            ENGINE.perturb(Memory(bad), mechanism(), KEY, into_duckdb(target), shuffle=False)
    assert not (tmp_path / "new.duckdb").exists()
    assert DuckDBSource.table(database).query == 'FROM "persons"'  # still the only one


def test_unfit_sources_are_refused(database, tmp_path):
    (tmp_path / "text.duckdb").write_text("no database")
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE VIEW adults AS FROM persons WHERE age >= 20; CREATE TABLE none (a INT)")
    assert 0 < DuckDBSource.table(database, "adults").num_rows < ROWS
    for make, kind, message in (
        (
            lambda: DuckDBSource.table(database),
            UsageError,
            "the file does not have exactly one table; wanted adults, none, persons",
        ),
        (lambda: DuckDBSource.table(database, "person"), UsageError, "did you mean 'persons'"),
        (lambda: DuckDBSource.table(database, "none"), DataError, "no records"),
        (lambda: DuckDBSource.table(tmp_path / "no.duckdb"), UsageError, "no such file"),
        (lambda: DuckDBSource("FROM x", tmp_path / "no.duckdb"), UsageError, "no such file"),
        (lambda: DuckDBSource("FROM x", tmp_path / "text.duckdb"), DataError, "cannot be opened as a DuckDB file"),
        (lambda: DuckDBSource("FROM nothing"), DataError, "CatalogException"),
        (
            lambda: DuckDBSource.table(database, "persons", BOOK.__class__(BOOK.variables[:2])),
            DataError,
            "'age' has no entry",
        ),
    ):
        with pytest.raises(kind, match=message):
            make()


def test_errors_of_queries_show_no_record(tmp_path):
    (tmp_path / "x.csv").write_text("a\n" + "1\n" * 30_000 + "secret\n")
    with pytest.raises(DataError) as caught:
        list(DuckDBSource(f"SELECT a::INT AS a FROM read_csv('{tmp_path}/x.csv', all_varchar = true)").batches())
    assert "secret" not in str(caught.value)


def test_nothing_is_fetched(tmp_path):
    with DuckDBSource("SELECT 1").connected() as (connection, _):
        assert connection.sql("SELECT current_setting('autoinstall_known_extensions')").fetchall() == [(False,)]


@pytest.mark.parametrize(
    "query",
    ["FROM persons ORDER BY sex", "FROM persons ORDER BY random()", "FROM persons ORDER BY 1",
     "FROM persons ORDER BY ALL",
     "SELECT *, 'order by id' AS x FROM persons", "SELECT * /* order by id */ FROM persons WHERE true", "FROM adults",
     "FROM persons ORDER BY age, area", "FROM persons USING SAMPLE 50 ROWS", "FROM 'p*.parquet'",
     "FROM persons a JOIN persons b USING (id)"],
)  # fmt: skip
def test_an_order_that_may_change_needs_a_record_key(database, tmp_path, monkeypatch, query):
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE VIEW adults AS FROM persons WHERE age >= 20 OR age IS NULL")
    pq.write_table(survey(), tmp_path / "p.parquet")
    monkeypatch.chdir(tmp_path)
    source = DuckDBSource(query, database)
    assert not source.ordered
    with pytest.raises(UsageError, match=r"neither a fixed order nor.*record key"):
        ENGINE.content(source, mechanism(), KEY)
    ENGINE.content(DuckDBSource("FROM persons", database), mechanism(), KEY, record_key="id")


@pytest.mark.parametrize(
    "query",
    ["FROM persons", 'SELECT * FROM "persons"', "FROM persons ORDER BY ID",
     "FROM persons ORDER BY sex, id DESC NULLS LAST",
     "SELECT * FROM persons WHERE ill ORDER BY sex, \"id\"", "FROM 'p.parquet'"],
)  # fmt: skip
def test_an_order_without_ties_serves(database, tmp_path, monkeypatch, query):
    pq.write_table(survey(), tmp_path / "p.parquet")
    monkeypatch.chdir(tmp_path)
    source = DuckDBSource(query, database)
    assert source.ordered
    wanted = [row for row in duckdb.connect(str(database)).sql(query).fetchall()]
    assert [tuple(row.values()) for batch in source.batches() for row in batch.to_pylist()] == wanted
    assert ENGINE.content(source, mechanism(), KEY) == ENGINE.content(source, mechanism(), KEY)


@pytest.mark.parametrize(
    "made", ["CAST(random() * 1e15 AS BIGINT)", "CAST(uuid() AS VARCHAR)", "CAST(gen_random_uuid() AS VARCHAR)"]
)
def test_a_record_key_that_changes_between_two_readings_is_refused(database, made):
    source = DuckDBSource(f"SELECT * REPLACE ({made} AS id) FROM persons", database)
    with pytest.raises(DataError, match=r"the records are not the same at two readings.*not random\(\)"):
        ENGINE.perturb(source, mechanism(), KEY, Collector(), record_key="id")


def test_records_that_change_while_they_are_read_are_refused(database):
    content = ENGINE.content(DuckDBSource("FROM persons", database), mechanism(), KEY)
    with duckdb.connect(str(database)) as connection:
        connection.execute("UPDATE persons SET sex = CASE sex WHEN 'F' THEN 'M' ELSE 'F' END WHERE id = 2")
    with pytest.raises(DataError, match="the records are not the same at two readings"):
        ENGINE.perturb(DuckDBSource("FROM persons", database), mechanism(), KEY, Collector(), content=content)


def test_names_of_folders_say_nothing_about_records(tmp_path):
    """The folder's name would override the file's own column in DuckDB."""
    for sex in "FM":
        (tmp_path / f"sex={sex}").mkdir()
        pq.write_table(survey(), tmp_path / f"sex={sex}" / "p.parquet")
    columns = survey().select(survey().schema.names[::-1])  # by name, whatever the order
    pq.write_table(columns, tmp_path / "sex=M" / "p.parquet")
    source = formats.read(tmp_path / "*" / "p.parquet")
    found = [engine.count(source, BOOK, ["sex", "ill"]).counts for engine in (LocalEngine(), DuckDBEngine())]
    assert (found[0] == found[1]).all()
    assert (found[0] == 2 * LocalEngine().count(Memory(survey()), BOOK, ["sex", "ill"]).counts).all()


def test_batches_with_dictionaries_of_their_own_become_one_table(tmp_path):
    wanted = [f"{'ab'[n % 2]}{n // 100}" for n in range(1_000)]
    kind = pa.dictionary(pa.int8(), pa.string())
    with into_duckdb(tmp_path / "x.duckdb")(pa.schema([("a", kind)])) as writer:
        for start in range(0, 1_000, 100):
            writer.write(pa.record_batch({"a": pa.array(wanted[start : start + 100]).dictionary_encode().cast(kind)}))
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        assert [row[0] for row in connection.sql("SELECT a::VARCHAR FROM data").fetchall()] == wanted


LOCK = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_a_locked_file_is_said_to_be_locked(database):
    other = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(DataError, match=r"the file is locked.*close the file"):
            DuckDBSource("FROM persons", database)
        with pytest.raises(ReleaseError, match="the file is locked"), into_duckdb(database, "x")(survey().schema):
            pass
        other.stdin.close()


def test_no_progress_is_drawn_among_the_answers(database, tmp_path):
    """DuckDB draws on standard output, where ``--json`` prints, whatever takes longer than two seconds."""
    asked = "SELECT current_setting('enable_progress_bar')"
    with DuckDBSource("FROM persons", database).connected() as (connection, _):
        assert connection.sql(asked).fetchall() == [(False,)]
    with duckdb_transaction(tmp_path / "new.duckdb") as transaction:
        assert [row for batch in transaction.fetch(asked) for row in batch.column(0).to_pylist()] == [False]


def test_a_table_holds_what_is_not_released_as_its_category(tmp_path):
    target, law = tmp_path / "split.duckdb", testing.split()
    ENGINE.perturb(Memory(testing.records_for("split")), law, KEY, into_duckdb(target, "released"))
    rows = [row for batch in DuckDBSource.table(target, "released").batches() for row in batch.to_pylist()]
    assert rows == perturbed(LocalEngine(), Memory(testing.records_for("split")), law).to_pylist()
    count = "SELECT count(*) FROM released WHERE {} = '(not released)'"
    with duckdb.connect(str(target), read_only=True) as connection:
        for name in law.partly:
            found = connection.execute(count.format(name)).fetchall()[0][0]
            assert found == sum(row[name] == "(not released)" for row in rows) > 0
