"""Spark: lost executors, repartitioning, speculation and second evaluations change nothing; folders on the cluster."""

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.codebook.not_released import shown_codebook
from postrand.engines import FolderSink, LocalEngine
from postrand.engines.base import released_names
from postrand.engines.spark import SparkEngine, SparkSource, local_session
from postrand.engines.spark_session import quietly as _quietly
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.testing import engines as testing
from tests.conftest import ROOT
from tests.test_engines import BOOK, KEY, ROWS, Collector, Memory, mechanism, perturbed, survey

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session():
    return local_session("local[2]")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "survey files"
    folder.mkdir()
    for n, (start, stop) in enumerate(pairwise((0, 70, 71, 300, ROWS))):
        pq.write_table(survey().slice(start, stop - start), folder / f"part {n} [of 4] é.parquet")
    return folder


def records(source) -> list[dict]:
    return [row for batch in source.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("record_key", [None, "id"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_many_files_are_released_as_by_the_local_engine(session, files, tmp_path, shuffle, record_key):
    source = formats.read(files, BOOK)
    target = FolderSink(tmp_path / "out", ".parquet")
    options = {"shuffle": shuffle, "record_key": record_key}
    assert SparkEngine(session, parts=4).perturb(source, mechanism(), KEY, target, **options) == ROWS
    assert sorted(p.name for p in target.folder.iterdir()) == [f"part-0000{n}.parquet" for n in range(4)]
    assert records(formats.read(target.folder)) == perturbed(LocalEngine(), **options).to_pylist()


def test_a_frame_is_released_the_same_however_it_is_cut(session, tmp_path):
    frame = session.createDataFrame(survey().set_column(1, "sex", survey()["sex"].cast(pa.string())))
    wanted = perturbed(LocalEngine(), record_key="id").to_pylist()
    for number, cut in enumerate((frame, frame.repartition(7), frame.orderBy("weight").coalesce(1))):
        target = FolderSink(tmp_path / str(number), ".csv")
        SparkEngine(session, parts=2).perturb(SparkSource(cut), mechanism(), KEY, target, record_key="id")
        assert records(formats.read(target.folder, BOOK.__class__(BOOK.variables[1:6]))) == wanted
    assert len({(tmp_path / str(n) / "part-00001.csv").read_bytes() for n in range(3)}) == 1


def test_a_frame_without_a_key_is_written_once_and_numbered(session):
    frame = session.createDataFrame(survey().drop_columns(["sex"])).coalesce(1)
    law = mechanism()
    law = law.__class__(law.blocks[1:], BOOK)
    found = Collector()
    SparkEngine(session).perturb(SparkSource(frame), law, KEY, found, columns=["age", "area"])
    assert found.table is not None
    wanted = perturbed(LocalEngine(), law=law, columns=["age", "area"])
    assert found.table.to_pylist() == wanted.to_pylist()
    assert records(SparkSource(frame)) == survey().drop_columns(["sex"]).to_pylist()


def test_counts_of_a_frame(session):
    frame = session.createDataFrame(survey().drop_columns(["sex"])).repartition(5)
    for names, weight in ((["age", "ill"], None), (["area"], "weight")):
        found = SparkEngine().count(SparkSource(frame), BOOK, names, weight=weight)
        wanted = LocalEngine().count(Memory(survey()), BOOK, names, weight=weight)
        assert (found.counts == wanted.counts).all()
        assert found.omitted == wanted.omitted


def test_a_failed_run_leaves_no_folder(session, files, tmp_path):
    target = FolderSink(tmp_path / "out")
    bad = survey().set_column(2, "age", pa.array([10] * (ROWS - 1) + [11]))
    with pytest.raises(DataError, match=r"variable 'age'.*not in the codebook"):
        SparkEngine(session).perturb(Memory(bad), mechanism(), KEY, target)
    last, other = sorted(files.iterdir())[3], sorted(files.iterdir())[2]
    last.write_bytes(other.read_bytes())
    with pytest.raises(DataError, match=r"same record key \(458 records are involved\)"):
        SparkEngine(session).perturb(formats.read(files), mechanism(), KEY, target, record_key="id")
    assert not target.folder.exists()
    target.folder.mkdir()
    with pytest.raises(ReleaseError, match="cannot be created"):
        SparkEngine(session).perturb(Memory(survey()), mechanism(), KEY, target)


def test_a_folder_that_cannot_be_written_is_explained(session, tmp_path):
    target = FolderSink(tmp_path / "out", ".sas7bdat")
    with pytest.raises(UsageError, match="can be read, but not written"):
        SparkEngine(session).perturb(Memory(survey()), mechanism(), KEY, target)
    assert not target.folder.exists()


def test_a_job_that_spark_refuses_shows_no_record(session):
    frame = session.sql("SELECT 1 AS id, assert_true(id > 5, 'secret') AS x FROM range(9)")
    with pytest.raises(DataError, match="Spark could not carry out the job") as caught:
        list(SparkSource(frame).batches())
    assert "secret" not in str(caught.value)


def plain(session):
    return session.createDataFrame(survey().set_column(1, "sex", survey()["sex"].cast(pa.string())))


@pytest.mark.parametrize("made", ["monotonically_increasing_id()", "CAST(rand() * 1e15 AS BIGINT)", "uuid()"])
def test_a_record_key_that_a_second_evaluation_changes_is_refused(session, made):
    from pyspark.sql import functions as F

    source = SparkSource(plain(session).withColumn("id", F.expr(made)))
    for call in (
        lambda: SparkEngine(session).content(source, mechanism(), KEY, record_key="id"),
        lambda: SparkEngine(session).perturb(source, mechanism(), KEY, Collector(), record_key="id"),
    ):
        with pytest.raises(UsageError, match=r"record key 'id'.*can change at each.*rand, uuid.*write the frame to"):
            call()


def test_true_values_that_a_second_evaluation_changes_are_refused(session):
    from pyspark.sql import functions as F

    source = SparkSource(plain(session).withColumn("ill", F.expr("rand() > 0.5")))
    law = mechanism(joint=True)
    with pytest.raises(UsageError, match="what is perturbed: the frame can change"):
        SparkEngine(session).perturb(source, law, KEY, Collector(), record_key="id")


def test_a_frame_that_hides_what_changes_is_refused_when_it_does(session):
    """The plan of an external function does not tell: what is drawn for is compared with what was digested."""
    from pyspark.sql import functions as F

    changing = _quietly(lambda: F.udf(lambda key: key * 1_000 + int.from_bytes(os.urandom(1), "little"), "long"))
    source = SparkSource(_quietly(lambda: plain(session).withColumn("id", changing("id"))))
    with pytest.raises(DataError, match="the records are not the same at two readings"):
        SparkEngine(session).perturb(source, mechanism(), KEY, Collector(), record_key="id")


def test_a_column_without_an_entry_is_not_left_out_in_silence(session):
    from pyspark.sql import functions as F

    source = SparkSource(plain(session).withColumn("income", F.lit(1)))
    with pytest.raises(UsageError, match="'income' of the data has no entry in the codebook"):
        SparkEngine(session).perturb(source, mechanism(), KEY, Collector(), record_key="id")
    named = Collector()
    SparkEngine(session).perturb(source, mechanism(), KEY, named, record_key="id", columns=["sex", "age"])
    assert named.table is not None


def test_names_of_folders_say_nothing_about_records(session, tmp_path):
    for sex in "FM":
        (tmp_path / f"sex={sex}").mkdir()
        pq.write_table(survey(), tmp_path / f"sex={sex}" / "p.parquet")
    found = SparkEngine(session).count(formats.read(tmp_path / "*" / "p.parquet"), BOOK, ["sex"])
    assert (found.counts == 2 * LocalEngine().count(Memory(survey()), BOOK, ["sex"]).counts).all()


def test_spark_connect_is_refused(monkeypatch):
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    frame = type("DataFrame", (), {"sparkSession": connected})()
    with pytest.raises(UsageError, match=r"Spark Connect has no driver in which records.*spark-submit"):
        list(SparkSource(frame).batches())
    engine = SparkEngine(connected)
    for call in (
        lambda: engine.count(Memory(survey()), BOOK, ["sex"]),
        lambda: engine.content(Memory(survey()), mechanism(), KEY),
        lambda: engine.perturb(Memory(survey()), mechanism(), KEY, Collector()),
        lambda: local_session("sc://cluster:15002"),
    ):
        with pytest.raises(UsageError, match=r"Spark Connect has no driver in which records"):
            call()
    monkeypatch.setenv("SPARK_REMOTE", "sc://cluster:15002")
    with pytest.raises(UsageError, match=r"SPARK_REMOTE: Spark Connect has no driver"):
        local_session()


def test_settings_of_the_session_are_put_back(session):
    session.conf.set("spark.sql.session.timeZone", "Europe/Vienna")
    perturbed(SparkEngine(session), record_key="id")
    assert session.conf.get("spark.sql.session.timeZone") == "Europe/Vienna"
    session.conf.unset("spark.sql.session.timeZone")


def test_missing_java_is_explained(monkeypatch, tmp_path):
    script = "from postrand.engines.spark import local_session; local_session()"
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONWARNINGS": "error"}
    environment.pop("JAVA_HOME", None)
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (
        "Spark needs Java, but Java is not installed. Next: install a Java runtime, version 17 or later" in found.stderr
    )


@pytest.mark.slow
def test_a_lost_executor_changes_nothing(tmp_path):
    """In a real cluster of two executors, one is killed in the middle of the job, and tasks are speculated."""
    (tmp_path / "in").mkdir()
    table = survey(60_000)
    for n in range(12):
        pq.write_table(table.slice(5_000 * n, 5_000), tmp_path / "in" / f"{n:02}.parquet")
    script = [sys.executable, str(ROOT / "tests" / "spark_cluster.py"), str(tmp_path / "in"), str(tmp_path / "out")]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_DIRS": str(tmp_path / "spark")}
    found = subprocess.run(script, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-3_000:]
    lost, failed = map(int, found.stdout.split()[-2:])
    assert lost == 1
    assert failed >= 1  # tasks were lost with it, and ran again
    collector = Collector()
    LocalEngine().perturb(formats.read(tmp_path / "in"), mechanism(), KEY, collector, record_key="id")
    assert collector.table is not None
    assert records(formats.read(tmp_path / "out")) == collector.table.to_pylist()
    assert not list((tmp_path / "out").glob(".*"))
    shutil.rmtree(tmp_path / "spark", ignore_errors=True)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".dta", ".sav", ".xpt"])
def test_files_of_a_cluster_hold_what_is_not_released_as_one_process_writes_it(session, tmp_path, suffix):
    law, table = testing.split(), testing.records_for("split")
    book = shown_codebook(testing.BOOK.select(released_names(testing.BOOK)), law.partly)
    pq.write_table(table, tmp_path / "survey.parquet")
    source, target = formats.read(tmp_path / "survey.parquet", testing.BOOK), FolderSink(tmp_path / "out", suffix)
    SparkEngine(session, parts=2).perturb(source, law, KEY, target)
    assert len(list(target.folder.iterdir())) == 2
    assert records(formats.read(target.folder, book)) == perturbed(LocalEngine(), Memory(table), law).to_pylist()
