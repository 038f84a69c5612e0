"""Columns in the names of folders: the same counts and the same release on every engine, typed by the codebook."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.codebook import Codebook, Variable
from postrand.engines import LocalEngine, engine
from postrand.errors import DataError
from postrand.formats import open_writer
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from tests.test_engines import KEY, Collector, Memory, survey

SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
every_engine = pytest.mark.parametrize("name", ["local", "duckdb", SPARK])
BOOK = Codebook(
    (
        Variable("id", role="record_key", type="int64"),
        Variable("sex", role="key", categories=("F", "M")),
        Variable("ill", role="sensitive", categories=(False, True), type="bool"),
        Variable("year", role="key", categories=(10, 20, 30), missing="category", type="int64"),
        Variable("town", role="other", categories=("St. Gallen/x", "Wien"), type="string"),
    )
)
LAW = Mechanism([Block((name,), randomised_response(BOOK[name].size, 1.0)) for name in ("sex", "year")], BOOK)


def whole() -> pa.Table:
    """Return the survey with ages as years, and a town that goes with the sex."""
    table = survey().select(["id", "sex", "ill", "age"]).rename_columns(["id", "sex", "ill", "year"])
    towns = pc.if_else(pc.equal(table["sex"].cast(pa.string()), "F"), "Wien", "St. Gallen/x")
    return table.append_column("town", towns).replace_schema_metadata(None)


@pytest.fixture(params=[".parquet", ".csv"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    table = whole()
    for year in (10, 20, 30, None):
        of_year = table.filter(pc.is_null(table["year"]) if year is None else pc.equal(table["year"], year))
        for town, named in (("Wien", "Wien"), ("St. Gallen/x", "St.%20Gallen%2Fx")):
            part = of_year.filter(pc.equal(of_year["town"], town)).drop_columns(["year", "town"])
            place = tmp_path / "survey" / f"year={year or '__HIVE_DEFAULT_PARTITION__'}" / f"town={named}"
            place.mkdir(parents=True)
            half = part.num_rows // 2
            for number, cut in enumerate((part.slice(0, half), part.slice(half))):
                with open_writer(place / f"{number}{request.param}", cut.schema) as writer:
                    writer.write(cut.combine_chunks().to_batches()[0])
    (tmp_path / "survey" / "_SUCCESS").touch()
    return tmp_path / "survey"


def released(name: str, source: formats.Source) -> list[dict[str, object]]:
    found = Collector()
    engine(name).perturb(source, LAW, KEY, found, record_key="id")
    assert found.table is not None
    return found.table.to_pylist()


@every_engine
def test_columns_of_folders_are_counted_and_released_on_every_engine(folder, name):
    wanted = Memory(whole())
    for place in (folder, folder / "*" / "*" / "*.*"):
        source = formats.read(place, BOOK)
        assert source.schema.names == ["id", "sex", "ill", "year", "town"]
        assert (source.schema.field("year").type, source.schema.field("town").type) == (pa.int64(), pa.string())
        for names in (["year"], ["town", "sex"], ["ill", "year", "town"]):
            found = engine(name).count(source, BOOK, names)
            assert (found.counts == LocalEngine().count(wanted, BOOK, names).counts).all()
    assert released(name, source) == released("local", wanted)


@every_engine
def test_a_weight_in_the_name_of_a_folder_counts(tmp_path, name):
    for weight in (2, 3):
        (tmp_path / f"w={weight}").mkdir()
        pq.write_table(survey().select(["id", "sex", "ill"]), tmp_path / f"w={weight}" / "x.parquet")
    book = Codebook((*BOOK.variables[:3], Variable("w", role="weight", type="double")))
    found = engine(name).count(formats.read(tmp_path, book), book, ["sex"], weight="w")
    assert (found.counts == 5 * LocalEngine().count(Memory(survey()), BOOK, ["sex"]).counts).all()


def test_without_a_codebook_they_are_text(folder):
    source = formats.read(folder)
    assert source.schema.field("year").type == pa.string()
    batch = next(source.batches(["town", "year"], 3))
    assert batch.num_rows <= 3
    assert set(batch.column(1).to_pylist()) == {"10"}


def test_folders_that_do_not_fit_are_explained(tmp_path):
    table = survey().select(["id", "sex", "ill"])
    for place in ("year=10/town=Wien", "year=20/town=Wien"):
        (tmp_path / "a" / place).mkdir(parents=True)
        pq.write_table(table, tmp_path / "a" / place / "x.parquet")
    book = Codebook(tuple(v for v in BOOK.variables if v.name != "town"))
    with pytest.raises(DataError, match="column 'town' has no entry in the codebook, so it has no role"):
        formats.read(tmp_path / "a", book)
    dropped = Codebook((*book.variables, Variable("town", role="drop")))
    assert formats.read(tmp_path / "a", dropped).num_rows == 2 * table.num_rows
    (tmp_path / "a" / "year=10" / "y.parquet").write_bytes((tmp_path / "a" / place / "x.parquet").read_bytes())
    with pytest.raises(DataError, match="column 'town' is in the folder names of other files, but not of this file"):
        formats.read(tmp_path / "a", BOOK)
    (tmp_path / "b" / "year=ten" / "town=Wien").mkdir(parents=True)
    pq.write_table(table, tmp_path / "b" / "year=ten" / "town=Wien" / "x.parquet")
    with pytest.raises(DataError, match=r"does not contain a value of the column's type; wanted int64"):
        released("local", formats.read(tmp_path / "b", BOOK))
