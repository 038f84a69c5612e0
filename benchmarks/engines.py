"""Time `postrand protect` as it is typed for each engine and database, beside the copy that the same system makes.

953,076 records x 10 variables, every variable perturbed: files locally and on Spark, and from one table into another of
DuckDB and of PostgreSQL. The commands take turns. Memory is that of the command and of all that it starts (Java and its
workers), looked at every 50 ms; a server that runs already is not in it.

Run ``python benchmarks/engines.py [ROUNDS [ENGINE]]``:
results go to benchmarks/results/engines.{md,json}. The server is our own, as in the tests.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import child
import files

sys.path.insert(0, str(child.ROOT))
from tests.postgres_server import server

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3
FILE_COPY = "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1]), sys.argv[2])"
DUCKDB_COPY = """
import sys, duckdb
source, target, order = sys.argv[1:]
with duckdb.connect(target) as made:
    made.execute(f"ATTACH '{source}' AS source (READ_ONLY)")
    made.execute(f"CREATE TABLE copied AS FROM source.persons {order}")
"""
POSTGRES_COPY = """
import sys
from adbc_driver_postgresql import dbapi
uri, order = sys.argv[1:]
with dbapi.connect(uri) as made, made.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS copied")
    cursor.execute(f"CREATE TABLE copied AS SELECT * FROM persons {order}")
    made.commit()
"""
POSTGRES_MOVE = """
import sys
from adbc_driver_postgresql import dbapi
with dbapi.connect(sys.argv[1]) as read, dbapi.connect(sys.argv[1]) as made:
    with read.cursor() as source, made.cursor() as target:
        target.execute("DROP TABLE IF EXISTS copied")
        source.execute("SELECT * FROM persons")
        target.adbc_ingest("copied", source.fetch_record_batch(), mode="create")
    made.commit()
"""
SPARK_COPY = """
import sys
from postrand.engines.spark import local_session
session = local_session("local[1]")
if sys.argv[2:]:
    session.read.parquet(sys.argv[1]).write.parquet(sys.argv[2])
else:
    session.range(1).count()
"""


def prepared(folder, caches, uri):
    """Return the plan of each kind; fills the databases."""
    import duckdb
    import pyarrow.parquet as pq
    from adbc_driver_postgresql import dbapi

    path, _ = files.survey(folder)
    table = pq.read_table(path)
    plain = table.cast(no_dictionaries(table.schema)).add_column(0, "id", [list(range(len(table)))])
    with duckdb.connect(str(folder / "census.duckdb")) as made:
        made.register("survey", plain)
        made.execute("CREATE TABLE persons AS FROM survey")
    with dbapi.connect(uri) as made, made.cursor() as cursor:
        cursor.adbc_ingest("persons", plain, mode="create")
        made.commit()
    plans = {"file": files.plan(path, folder / "file", caches)}
    for kind, address, target in (
        ("duckdb", f"duckdb:///{folder}/census.duckdb", "duckdb:///released.duckdb"),
        ("postgres", uri, uri),
    ):
        roles = ("--table", "persons", "--record-key", "id", "--keys", ",".join(files.NAMES))
        child.run(
            child.postrand("init", "--uri", address, *roles, "--perturb", "blocks", "--out", folder / kind), caches
        )
        plans[kind] = folder / kind / "plan.toml"
        lines = f'\nuri = "{target}"\ntable = "released"\nif_exists = "replace"'
        plans[kind].write_text(plans[kind].read_text().replace('\nformat = "same"', lines))
    return path, plans


def no_dictionaries(schema):
    import pyarrow as pa

    return pa.schema([(field.name, getattr(field.type, "value_type", field.type)) for field in schema])


def commands(folder, path, plans, uri, out):
    """Return the commands by engine and name; the first of an engine is what the others are divided by."""
    database, spark = folder / "census.duckdb", ("--engine", "spark", "--master", "local[1]")

    def protect(kind, *more):
        return child.postrand("protect", "--plan", plans[kind], "--out", out / "release", *more)

    return {
        ("local", "read and write with pyarrow"): child.python(FILE_COPY, path, out / "copy.parquet"),
        ("local", "protect"): protect("file"),
        ("DuckDB", "CREATE TABLE AS"): child.python(DUCKDB_COPY, database, out / "copy.duckdb", ""),
        ("DuckDB", "the same in a hashed order"): child.python(
            DUCKDB_COPY, database, out / "copy.duckdb", "ORDER BY hash(id)"
        ),
        ("DuckDB", "protect"): protect("duckdb"),
        ("PostgreSQL", "CREATE TABLE AS, in the server"): child.python(POSTGRES_COPY, uri, ""),
        ("PostgreSQL", "the same in a hashed order"): child.python(POSTGRES_COPY, uri, "ORDER BY hashint8(id)"),
        ("PostgreSQL", "read and COPY back, from outside"): child.python(POSTGRES_MOVE, uri),
        ("PostgreSQL", "protect"): protect("postgres"),
        ("Spark", "read and write, with the start"): child.python(SPARK_COPY, path, out / "copy"),
        ("Spark", "start and an empty job"): child.python(SPARK_COPY, path),
        ("Spark", "protect"): protect("file", *spark),
    }


def measure(folder, caches, uri, rounds=ROUNDS, engine=""):
    """Return a row for each command: the least wall and processor time, and the largest peak."""
    path, plans = prepared(folder, caches, uri)
    runs = {}
    for turn in range(rounds + 1):  # the first turn warms up
        for name in [n for n in commands(folder, path, plans, uri, folder) if engine in ("", n[0])]:
            out = Path(tempfile.mkdtemp(dir=folder))
            with watched() as seen:
                found = child.run(commands(folder, path, plans, uri, out)[name], caches)
            shutil.rmtree(out)
            for made in folder.glob("duckdb/released.duckdb*"):
                made.unlink()
            if turn:
                runs.setdefault(name, []).append({**found, **seen})
    rows, beside = [], {}
    for (engine, name), found in runs.items():
        row = {
            "engine": engine,
            "command": name,
            "seconds": min(run["seconds"] for run in found),
            "cpu_s": min(run["tree_cpu_s"] for run in found),
            "peak_bytes": max(run["tree_bytes"] for run in found),
        }
        first = beside.setdefault(engine, row)
        rows.append(row | {f"over_{key}": row[key] / first[key] for key in ("seconds", "cpu_s")})
    return rows


@contextlib.contextmanager
def watched():
    """Yield a dict that has, at the end, the processor time and peak memory of everything started in the block."""
    seen, ended = {"tree_bytes": 0, "tree_cpu_s": 0.0}, threading.Event()
    cpu = {}

    def watch():
        while not ended.wait(0.05):
            now = _descendants()
            cpu.update({pid: used for pid, (used, _) in now.items()})
            seen["tree_bytes"] = max(seen["tree_bytes"], sum(held for _, held in now.values()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()
        seen["tree_cpu_s"] = sum(cpu.values())


def _descendants():
    """Return processor seconds and resident bytes of each process below this one, by its number."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(folder.name)] = int(said[1]), (int(said[11]) + int(said[12])) / tick, int(said[21]) * page
    below, more = {os.getpid()}, True
    while more:
        more = {pid for pid, (parent, _, _) in found.items() if parent in below} - below
        below |= more
    return {pid: found[pid][1:] for pid in below & found.keys() - {os.getpid()}}


def markdown(rows):
    """Yield the table."""
    yield "| engine | command | least, s | processor time, s | wall / copy | processor / copy | peak memory, MB |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        name = f"`postrand {r['command']}`" if r["command"] == "protect" else r["command"]
        yield (
            f"| {r['engine']} | {name} | {r['seconds']:.2f} | {r['cpu_s']:.2f} | {r['over_seconds']:.1f} "
            f"| {r['over_cpu_s']:.1f} | {r['peak_bytes'] / 1e6:.0f} |"
        )


def ratios(rows):
    """Return what can be compared with a baseline, all of them the smaller the better."""
    return {f"{r['engine']}: protect / copy": r["over_cpu_s"] for r in rows if r["command"] == "protect"}


def keep(name, rows, lines):
    """Write results as Markdown and JSON, and print the former."""
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


def main(arguments):
    with tempfile.TemporaryDirectory() as made, server() as uri:
        rows = measure(Path(made), Path(made) / "caches", uri, int((*arguments, ROUNDS)[0]), *arguments[1:])
    keep("engines", rows, markdown(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
