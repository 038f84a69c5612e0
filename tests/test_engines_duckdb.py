"""DuckDB: tables of a file in and out, any file it reads, and failures that leave nothing behind."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.engines import LocalEngine
from postrand.engines.duckdb import DuckDBEngine, DuckDBSource, into_duckdb
from postrand.errors import DataError, ReleaseError, UsageError
from tests.test_engines import BOOK, KEY, ROWS, Memory, mechanism, perturbed, survey

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
    assert (source.num_rows, source.schema.names) == (ROWS, survey().schema.names)
    rows = [row for batch in source.batches(batch_size=77) for row in batch.to_pylist()]
    assert rows == survey().to_pylist()
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
    monkeypatch.setattr("postrand.table.DENSE_CELLS", 20)
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
        (lambda: DuckDBSource.table(database), UsageError, "not one table; wanted adults, none, persons"),
        (lambda: DuckDBSource.table(database, "person"), UsageError, "did you mean 'persons'"),
        (lambda: DuckDBSource.table(database, "none"), DataError, "no records"),
        (lambda: DuckDBSource.table(tmp_path / "no.duckdb"), UsageError, "no such file"),
        (lambda: DuckDBSource("FROM x", tmp_path / "no.duckdb"), UsageError, "no such file"),
        (lambda: DuckDBSource("FROM x", tmp_path / "text.duckdb"), DataError, "not a DuckDB file"),
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
