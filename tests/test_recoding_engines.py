"""The same recoded release from every engine, source and frame, compared with a file that was recoded before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tomlkit

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.data import frames
from postrand.engines.database import Database, Table, open_records
from postrand.engines.postgres import into_postgres
from postrand.errors import DataError
from postrand.plan import load_plan
from postrand.plan.infer import load_codebook
from postrand.recoding import Recode
from postrand.support.randomness import ReleaseKey
from postrand.workflow.pipeline import run
from tests.postgres_server import server

KEY = ReleaseKey.from_seed(11)
RECODES = (
    Recode.from_dict({"variable": "age", "missing": [99], "steps": [{"top": 80}, {"bands": [0, 18, 65]}]}),
    Recode.from_dict({"variable": "part", "from": "area", "groups": {"A": ["A1", "A2"]}, "others": "rest"}),
    Recode.from_dict({"variable": "pay", "rounding": 100}),
)
BOOK = Codebook(
    (
        Variable("id", "record_key", type="int64"),
        Variable("age", "key", ("0-17", "18-64", "65+"), missing="category"),
        Variable("part", "key", ("A", "rest")),
        Variable("pay", "other", type="int64"),
    ),
    recodes=RECODES,
)
PLAN = """
[source]
{source}
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 2.0
[release]
format = "{form}"
[[blocks]]
variables = ["age", "part"]
prior = "file"
"""
ENGINES = ["local", "duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])]
POSTGRES = pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.xdist_group("postgres")])


def survey(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(5)
    age = rng.choice([*range(90), 99], n)
    area = rng.choice(["A1", "A2", "B1", "C9"], n)
    return pa.table({"id": np.arange(n), "age": age, "area": area, "pay": rng.integers(0, 900, n)})


def by_hand() -> pa.Table:
    """The survey after the recodes, record by record."""
    rows = survey().to_pylist()
    for row in rows:
        age, area = row["age"], row.pop("area")
        row["age"] = None if age == 99 else "0-17" if age < 18 else "18-64" if age < 65 else "65+"
        row["part"] = "A" if area in ("A1", "A2") else "rest"
        row["pay"] = (row["pay"] + 50) // 100 * 100
    return pa.Table.from_pylist(rows).select(["id", "age", "part", "pay"])


def released(folder: Path, source: str, book: Codebook = BOOK, engine: str = "local", form: str = "csv") -> pa.Table:
    book.save(folder / "codebook.toml", replace=True)
    (folder / "plan.toml").write_text(PLAN.format(source=source, form=form))
    out = folder / f"release-{len(list(folder.iterdir()))}"
    made = run(load_plan(folder / "plan.toml"), out, release_key=KEY, engine=engine)
    assert pr.verify(out)
    return made.frame()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    folder = tmp_path_factory.mktemp("before")
    pq.write_table(by_hand(), folder / "people.parquet")
    return released(folder, 'file = "people.parquet"', Codebook(BOOK.variables))


def same(one: pa.Table, other: pa.Table) -> bool:
    return one.to_pylist() == other.to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_releases_recoded_records(engine, tmp_path, expected):
    pq.write_table(survey(), tmp_path / "people.parquet", row_group_size=97)
    assert same(released(tmp_path, 'file = "people.parquet"', engine=engine), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_files_are_recoded_as_one(engine, tmp_path, expected):
    (tmp_path / "people").mkdir()
    for number, start in enumerate((0, 120)):
        pq.write_table(survey().slice(start, 120 if start == 0 else None), tmp_path / "people" / f"{number}.parquet")
    assert same(released(tmp_path, 'file = "people"', engine=engine), expected)


def test_text_files_are_recoded_in_their_types(tmp_path, expected):
    survey().to_pandas().to_csv(tmp_path / "people.csv", index=False, sep=";")
    assert same(released(tmp_path, 'file = "people.csv"\nseparator = ";"'), expected)


def test_labelled_files_are_recoded(tmp_path, expected):
    import pyreadstat

    pyreadstat.write_sav(
        survey().to_pandas(), str(tmp_path / "people.sav"), variable_value_labels={"age": {99: "no answer"}}
    )
    assert same(released(tmp_path, 'file = "people.sav"', form="csv"), expected)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as address:
        with into_postgres(address, "persons")(survey().schema) as writer:
            for batch in survey().to_batches():
                writer.write(batch)
        yield address


@pytest.mark.parametrize("kind", ["duckdb", POSTGRES])
def test_tables_of_databases_are_recoded(kind, tmp_path, expected, request):
    uri = "duckdb:///people.duckdb"
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
            connection.register("given", survey())
            connection.execute("CREATE TABLE persons AS FROM given")
    else:
        uri = request.getfixturevalue("postgres")
    assert same(released(tmp_path, f'uri = "{uri}"\ntable = "persons"', engine="duckdb"), expected)
    source = open_records(Table(Database(uri, folder=tmp_path), "persons"), BOOK)
    assert source.schema.names == ["id", "age", "part", "pay"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_spark_frame_is_recoded_by_the_executors(expected):
    from postrand.columns.recoded import recoded
    from postrand.engines.spark import SparkEngine, SparkSource, local_session

    session = local_session("local[2]")
    source = recoded(SparkSource(session.createDataFrame(survey()).repartition(3)), RECODES)
    table = SparkEngine(session).count(source, BOOK, ["age", "part"])
    plain = pc.sum(pa.array(table.counts.ravel())).as_py()
    assert plain == survey().num_rows
    found = dict(zip(["A", "rest"], table.counts.sum(axis=0), strict=True))
    assert found == {key: by_hand()["part"].to_pylist().count(key) for key in found}


@pytest.mark.parametrize(
    "make", [pa.Table.to_pandas, pl.from_arrow, lambda table: table], ids=["pandas", "polars", "arrow"]
)
def test_frames_are_recoded_before_they_are_perturbed(make):
    mechanism = pr.Mechanism({"part": pr.randomised_response(2, 1.0), "age": pr.randomised_response(4, 1.0)}, BOOK)
    plain = pr.Mechanism(mechanism.blocks, Codebook(BOOK.variables))
    found, wanted = pr.perturb(make(survey()), mechanism, KEY, "id"), pr.perturb(make(by_hand()), plain, KEY, "id")
    assert frames.names_of(found) == ["id", "age", "part", "pay"]
    for name in ("id", "age", "part", "pay"):
        assert pa.array(found[name]).to_pylist() == pa.array(wanted[name]).to_pylist()
    content = pr.content_of([make(survey())], mechanism, KEY, "id")
    assert content == pr.content_of([make(by_hand())], plain, KEY, "id")


def test_a_frame_keeps_its_index_and_other_columns():
    frame = pd.DataFrame(
        {"id": [1, 2], "age": [10, 99], "area": ["A1", "B"], "pay": [149, 151], "x": ["a", "b"]}, index=[7, 9]
    )
    made = pr.recode(frame, BOOK)
    assert list(made.columns) == ["id", "age", "part", "pay", "x"]
    assert list(made.index) == [7, 9]
    assert made["age"].cat.categories.tolist() == ["0-17", "18-64", "65+"]
    assert made["age"].isna().tolist() == [False, True]
    assert made["pay"].tolist() == [100, 200]
    assert pr.recode(frame, Codebook(BOOK.variables)) is frame


def test_a_frame_without_the_column_is_refused():
    with pytest.raises(DataError, match="no column 'area' to recode into 'part'"):
        pr.recode(pd.DataFrame({"age": [1], "pay": [2]}), BOOK)


@pytest.mark.filterwarnings("ignore:recode of .*says by name which categories were merged")
@pytest.mark.parametrize("prior", ["uniform", "file"])
@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_a_value_that_is_new_in_a_second_wave_goes_to_the_merged_ones_first(tmp_path, engine, prior):
    """A category of the codebook is published: that of one person must not be the first advice."""
    jobs = ["nurse"] * 40 + ["cook"] * 40 + ["astronaut"] * 6
    book: dict[str, Any] = {
        "variables": [{"name": "job", "role": "key", "categories": ["Other", "cook", "nurse"]}],
        "recodes": [{"variable": "job", "merge_rare": 9, "merged": ["astronaut"], "provenance": "confidential"}],
    }
    (tmp_path / "codebook.toml").write_text(tomlkit.dumps(book), "utf-8")
    (tmp_path / "people.csv").write_text("\n".join(["job", *jobs, "diplomat"]) + "\n", "utf-8")
    plan = PLAN.format(source='file = "people.csv"', form="csv").replace('"age", "part"', '"job"')
    (tmp_path / "plan.toml").write_text(plan.replace('prior = "file"', f'prior = "{prior}"'), "utf-8")
    with pytest.raises(DataError) as told:
        run(load_plan(tmp_path / "plan.toml"), tmp_path / "release", engine=engine, release_key=KEY)
    said = " Next: add the value to the list 'merged' in the recode of 'job', so that it counts as 'Other'; "
    assert said in str(told.value)
    assert "diplomat" not in str(told.value)
    frame = pa.table({"job": [*jobs, "diplomat"]})
    mechanism = pr.Mechanism({"job": pr.randomised_response(3, 1.0)}, load_codebook(tmp_path / "codebook.toml"))
    with pytest.raises(DataError) as told:
        pr.perturb(frame, mechanism, KEY)
    assert said in str(told.value)
    book["recodes"][0]["merged"].append("diplomat")
    (tmp_path / "codebook.toml").write_text(tomlkit.dumps(book), "utf-8")
    made = run(load_plan(tmp_path / "plan.toml"), tmp_path / "release", engine=engine, release_key=KEY)
    assert made.codebook["job"].categories == ("Other", "cook", "nurse")
