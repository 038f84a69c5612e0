"""What an engine may use: the plan's table, the options of commands, and that every engine honours them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import postrand as pr
from postrand.cli import main
from postrand.engines import LocalEngine, chosen, engine
from postrand.engines.duckdb import DuckDBEngine, DuckDBSource
from postrand.engines.order import KeyedOrder
from postrand.engines.resources import NOTHING, OPTIONS, Resources, applied, resources_from, size_of
from postrand.engines.spark import SparkEngine
from postrand.engines.spark_session import session_for
from postrand.errors import SpecificationError, UsageError
from postrand.plan import load_plan
from tests.conftest import ROOT
from tests.test_engines import survey

ROLES = ["--key", "sex,age,area", "--sensitive", "ill", "--other", "weight", "--drop", "note", "--record-key", "id"]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    pq.write_table(survey(), tmp_path / "survey.parquet")
    done = call("init", tmp_path / "survey.parquet", "--out", tmp_path, *ROLES)
    assert done.exit_code == 0, done.output
    (tmp_path / "key").write_text(bytes(range(32)).hex())
    (tmp_path / "key").chmod(0o600)
    return tmp_path / "plan.toml"


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 2**32), ("1.5GB", 0), ("512 mib", 2**29), ("2TB", 2 * 10**12), ("7", 7), ("-1", 0),
                       ("0", 0), ("much", 0), ("10B", 10), ("1k", 0)],
)  # fmt: skip
def test_sizes_of_memory(text, size):
    if size:
        assert size_of(text) == size
    else:
        with pytest.raises(SpecificationError, match=r"not a valid size of memory.*wanted 4GiB"):
            size_of(text)


def test_the_call_has_the_last_word_and_the_plan_the_one_before(tmp_path):
    planned = Resources("spark", threads=2, conf=(("a", "1"), ("b", "2")), parts=3)
    assert Resources(conf=(("b", "3"),)).over(planned) == Resources(
        "spark", threads=2, conf=(("a", "1"), ("b", "3")), parts=3
    )
    local = planned.of(OPTIONS[1:4])
    assert Resources("duckdb", memory_limit=5).over(local) == Resources("duckdb", threads=2, memory_limit=5)
    assert NOTHING.over(NOTHING) == NOTHING
    made, wanted = chosen(None, Resources(threads=1), planned, tmp_path, None)
    assert isinstance(made, SparkEngine)
    assert (made.parts, made.scratch, wanted.threads) == (3, tmp_path, 1)
    own = LocalEngine(threads=3)
    assert chosen(own, None, planned, tmp_path, None) == (own, NOTHING)
    with pytest.raises(UsageError, match="created with its own options"):
        chosen(own, Resources(threads=1), planned, tmp_path, None)
    with pytest.raises(UsageError, match="'master' cannot be used with the engine 'local'"):
        chosen(None, Resources(master="local[2]"), NOTHING, tmp_path, None)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('name = "sparc"', r"unknown engine 'sparc' \(did you mean 'spark'"),
        ("threads = 0", r"'threads' is not a positive number; got 0"),
        ("thread = 2", r"unknown option 'thread' \(did you mean 'threads'"),
        ('memory_limit = "lots"', "not a valid size of memory"),
        ("memory_limit = true", "'memory_limit' is not a positive number"),
        ('scratch = "nowhere"', "the folder of temporary files does not exist"),
        ("scratch = 5", "'scratch' is not the name of a folder"),
        ('name = "local"\nparts = 2', "'parts' cannot be used with the engine 'local'"),
        ("master = 5", "'master' is not text"),
        ('conf = ["a"]', "'conf' is not a table of settings"),
        ('threads = 2\nmaster = "local[2]"', "both set the number of cores"),
        ('master = "sc://host"', "Spark Connect has no driver in which records"),
    ],
)
def test_a_wrong_table_of_the_plan_is_explained(plan, lines, said):
    plan.write_text(f"{plan.read_text()}\n[engine]\n{lines}\n")
    with pytest.raises(SpecificationError, match=rf"(?s)plan.toml \[engine\].*{said}"):
        load_plan(plan)


def test_a_table_is_wanted(plan):
    plan.write_text(f"engine = 5\n{plan.read_text()}")
    with pytest.raises(SpecificationError, match=r"\[engine\]: the value is not a table"):
        load_plan(plan)


def test_the_plan_says_which_engine_runs_and_what_it_may_use(plan, monkeypatch):
    (plan.parent / "scratch").mkdir()
    lines = 'name = "duckdb"\nthreads = 1\nmemory_limit = "256MiB"\nscratch = "scratch"\n'
    plan.write_text(f"{plan.read_text()}\n[engine]\n{lines}")
    found = load_plan(plan).engine
    assert found == Resources("duckdb", 1, 1 << 28, plan.parent / "scratch")
    seen = []
    perturb = DuckDBEngine.perturb

    def noted(self, *arguments, **options):
        seen.append(self)
        return perturb(self, *arguments, **options)

    monkeypatch.setattr(DuckDBEngine, "perturb", noted)
    assert call("protect", "--plan", plan, "--out", plan.parent / "out").exit_code == 0
    local = LocalEngine(1, memory_limit=1 << 27, scratch=plan.parent / "scratch")
    assert seen == [DuckDBEngine(local, 1 << 28)]
    done = call("protect", "--plan", plan, "--out", plan.parent / "local", "--engine", "local", "--threads", 2)
    assert done.exit_code == 0, done.output
    assert len(seen) == 1


def test_duckdb_is_told_its_threads_memory_and_folder(tmp_path):
    asked = Resources("duckdb", 3, 1 << 28, tmp_path)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE persons (id INT); INSERT INTO persons VALUES (1)")
    from postrand.engines.duckdb import settings_of

    source = DuckDBSource("FROM persons", tmp_path / "x.duckdb", settings=settings_of(asked))
    names = ("threads", "memory_limit", "temp_directory")
    with source.connected() as (connection, _):
        found = [connection.sql(f"SELECT current_setting('{name}')").fetchall()[0][0] for name in names]
    assert found == [3, "256.0 MiB", str(tmp_path)]


def test_records_beyond_the_limit_wait_in_the_folder(plan, monkeypatch):
    (plan.parent / "scratch").mkdir()
    spilt = []
    spill = KeyedOrder._spill

    def noted(self):
        spill(self)
        spilt.append(self._folder.parent)

    monkeypatch.setattr(KeyedOrder, "_spill", noted)
    more = ("--memory-limit", "4KiB", "--scratch", plan.parent / "scratch", "--threads", 1)
    done = call("protect", "--plan", plan, "--out", plan.parent / "out", "--key-file", plan.parent / "key", *more)
    assert done.exit_code == 0, done.output
    protected = len(spilt)
    again = ("--plan", plan, "--key-file", plan.parent / "key")
    done = call("verify", plan.parent / "out", *again, *more)
    assert done.exit_code == 0, done.output
    assert len(spilt) > protected > 0
    assert set(spilt) == {plan.parent / "scratch"}
    assert list((plan.parent / "scratch").iterdir()) == []
    plain = call("protect", "--plan", plan, "--out", plan.parent / "plain", "--key-file", plan.parent / "key")
    assert plain.exit_code == 0
    data = [(plan.parent / name / "data.parquet").read_bytes() for name in ("out", "plain")]
    assert data[0] == data[1]


def test_what_a_command_may_use_ends_with_it(tmp_path):
    before = (pa.cpu_count(), tempfile.tempdir)
    with applied(Resources(threads=1, scratch=tmp_path)):
        assert (pa.cpu_count(), tempfile.gettempdir()) == (1, str(tmp_path))
    assert (pa.cpu_count(), tempfile.tempdir) == before


@pytest.mark.parametrize("command", ["estimate", "assess"])
def test_commands_that_read_take_threads(plan, command):
    assert call("protect", "--plan", plan, "--out", plan.parent / "out").exit_code == 0
    words = {
        "estimate": ("estimate", plan.parent / "out", "--table", "sex", "--scratch", plan.parent),
        "assess": ("assess", plan.parent / "survey.parquet", "--keys", "sex,age", "--sampling-fraction", 0.1),
    }
    done = call(*words[command], "--threads", 1)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--threads", 0), "0 is not in the range"),
        (("--memory-limit", "lots"), "not a valid size of memory"),
        (("--scratch", "nowhere"), "the folder of temporary files does not exist"),
        (("--conf", "spark.x"), "--conf: this is not a setting; wanted NAME=VALUE"),
        (("--master", "local[2]"), "'master' cannot be used with the engine 'local'"),
        (("--engine", "spark", "--master", "sc://host"), "Spark Connect has no driver"),
        (("--engine", "spark", "--master", "local[2]", "--threads", 2), "both set the number of cores"),
    ],
)
def test_wrong_options_are_explained(plan, words, said):
    done = call("protect", "--plan", plan, "--out", plan.parent / "out", *words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_relative_folder_is_that_of_the_plan(tmp_path):
    (tmp_path / "scratch").mkdir()
    assert resources_from({"scratch": "scratch"}, tmp_path, "x") == (Resources(scratch=tmp_path / "scratch"), [])
    assert engine("local", tmp_path, resources=Resources(memory_limit=1)).name == "local"


def spark_environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(folder / "spark")}  # fmt: skip


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_submit_gives_the_same_release(plan):
    """The command of docs/engines.md: Spark's own spark-submit runs the command line on the driver."""
    import pyspark

    script = plan.parent / "postrand_submit.py"
    text = (ROOT / "docs" / "engines.md").read_text("utf-8")
    lines = text[text.index("from postrand.cli") :]
    script.write_text(lines[: lines.index("```")])
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    words = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", script, "protect", "--plan", plan]
    words += ["--out", plan.parent / "cluster", "--key-file", plan.parent / "key", "--engine", "spark", "--parts", 3]
    environment = spark_environment(plan.parent)
    done = subprocess.run([str(w) for w in words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    made = pr.read_release(plan.parent / "cluster")
    assert len(list(made.data_path.iterdir())) == 3
    wanted = pr.run(load_plan(plan), plan.parent / "wanted", release_key=bytes(range(32)))
    assert made.frame().to_pylist() == wanted.frame().to_pylist()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_master_is_refused_where_spark_submit_has_chosen_one(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    for asked in (Resources("spark", master="local[1]"), Resources("spark", conf=(("a", "b"),)), Resources(threads=1)):
        with pytest.raises(UsageError, match=r"Spark already runs, with its own master and settings.*spark-submit"):
            session_for(asked)


ASKED = """
import sys
from pathlib import Path
from postrand.engines import engine
from postrand.engines.resources import Resources
from postrand.engines.spark_session import session_for

asked = Resources("spark", memory_limit=600 << 20, master="local[1]", conf=(("spark.sql.shuffle.partitions", "3"),))
session = session_for(asked)
assert session_for(asked) is session
names = ("spark.master", "spark.driver.memory", "spark.sql.shuffle.partitions")
print([session.conf.get(name) for name in names])
"""


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_starts_with_the_master_and_settings_asked_for(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ASKED], env=spark_environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "['local[1]', '600m', '3']", done.stderr[-2_000:]
