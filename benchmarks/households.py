"""Time `postrand protect` of persons in households on each engine, with `[unit]` beside the same plan without it.

953,076 persons of the survey, put into households of 1 to 8 members; two variables describe the household. Two pairs
of plans: a block for each variable, where those of the household are drawn once; and one split of all variables, where
one random member of each household shows a subset. Each pair has the same file, variables and ε. Files locally and on
Spark, and from one table into another of DuckDB and of PostgreSQL, all with one key: all release the same records.

Run ``python benchmarks/households.py [ROUNDS [ENGINE]]``:
results go to benchmarks/results/households.{md,json}.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import child
import engines
import files

ROUNDS = 3
SIZES = (0.28, 0.35, 0.15, 0.13, 0.06, 0.02, 0.007, 0.003)
"""The shares of households with 1, 2, ... members."""
ABOUT_HOUSEHOLDS = ("ownership", "mortgage")
UNIT = f"\n[unit]\nhousehold = 'hid'\nlargest_household = {len(SIZES)}\n"
KINDS = ("blocks", "split")


def persons(folder):
    """Write the file: records, their numbers, those of their households, and one value of what describes a household.

    Members stand together, as in a survey; the numbers of households say nothing of their order.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(files.survey(folder)[0])
    n, rng = len(table), np.random.default_rng(1)
    sizes = rng.choice(len(SIZES), n, p=SIZES) + 1
    house = np.repeat(np.arange(n), sizes)[:n]
    first = np.searchsorted(house, house)
    columns = {"id": np.arange(n), "hid": rng.permutation(10 * n)[:n][house]}
    for name in table.column_names:
        column = table[name].combine_chunks()
        columns[name] = column.take(pa.array(first)) if name in ABOUT_HOUSEHOLDS else column
    path = folder / "persons.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def prepared(folder, caches, uri):
    """Return the plans by source, kind, and whether they have units; fills the databases."""
    import duckdb
    import pyarrow.parquet as pq
    from adbc_driver_postgresql import dbapi

    path = persons(folder)
    table = pq.read_table(path)
    plain = table.cast(engines.no_dictionaries(table.schema))
    with duckdb.connect(str(folder / "census.duckdb")) as made:
        made.register("survey", plain)
        made.execute("CREATE TABLE persons AS FROM survey")
    with dbapi.connect(uri) as made, made.cursor() as cursor:
        cursor.adbc_ingest("persons", plain, mode="create")
        made.commit()
    roles = ("--record-key", "id", "--household", "hid", "--keys", ",".join(files.NAMES), "--perturb", "blocks")
    child.run(child.postrand("init", path, *roles, "--out", folder / "plans"), caches)
    (folder / "plans" / "key").write_text("5a" * 32)
    (folder / "plans" / "key").chmod(0o600)
    places = {
        "file": (f"file = '{path}'", "format = 'parquet'"),
        "DuckDB": _tables(f"duckdb:///{folder}/census.duckdb", "duckdb:///released.duckdb"),
        "PostgreSQL": _tables(uri, uri),
    }
    return {
        (source, kind, units): _plan(folder / "plans" / f"{source}-{kind}-{units}.toml", *place, kind, units)
        for source, place in places.items()
        for kind in KINDS
        for units in (False, True)
    }


def _tables(source, target):
    return f"uri = '{source}'\ntable = 'persons'", f"uri = '{target}'\ntable = 'released'\nif_exists = 'replace'"


def _plan(path, source, target, kind, units):
    text = f"[source]\n{source}\ncodebook = 'codebook.toml'\n[release]\n{target}\n"
    text += "[privacy]\nmodel = 'differential'\nepsilon = 8.0\n"
    if kind == "blocks":
        text += "".join(f"[[blocks]]\nvariables = ['{name}']\n" for name in files.NAMES)
        unit = f"{UNIT}household_variables = {list(ABOUT_HOUSEHOLDS)}\n"
    else:
        of = "unit = 'household'\n" if units else ""
        text += f"[split]\nvariables = {list(files.NAMES)}\nepsilon = 8.0\n{of}"
        unit = UNIT
    path.write_text(text + unit * units)
    return path


def commands(plans, out):
    """Return the command of each engine, kind of plan, and whether it has units."""
    options = {
        "local": ("file", ()),
        "DuckDB": ("DuckDB", ("--engine", "duckdb")),
        "PostgreSQL": ("PostgreSQL", ()),
        "Spark": ("file", ("--engine", "spark", "--master", "local[1]")),
    }
    typed = ("protect", "--out", out / "release", "--key-file", next(iter(plans.values())).with_name("key"))
    return {
        (engine, kind, units): child.postrand(*typed, "--again", "--plan", plans[source, kind, units], *more)
        for engine, (source, more) in options.items()
        for kind in KINDS
        for units in (False, True)
    }


def digest(release):
    """Return a digest of the released records, whatever their order and the files or table that hold them."""
    import numpy as np
    import pandas as pd

    import postrand as pr

    table = pr.read_release(release).frame()
    frame = table.select(sorted(table.column_names)).to_pandas()
    frame = frame.astype({name: "category" for name in files.NAMES})
    return hashlib.sha256(np.sort(pd.util.hash_pandas_object(frame, index=False).to_numpy()).tobytes()).hexdigest()


def measure(folder, caches, uri, rounds=ROUNDS, engine=""):
    """Yield a row for each engine and kind as soon as it is measured.

    A row has the least wall and processor time with units, and without, and the largest peaks. The plans with and
    without units take turns; the first turn warms up, and gives the digest of the records.
    """
    plans = prepared(folder, caches, uri)
    os.environ["PGUSER"] = urlsplit(uri).username or ""  # an address in a release has no user
    for of, kind in dict.fromkeys(name[:2] for name in commands(plans, folder)):
        if engine not in ("", of):
            continue
        runs, found = {True: [], False: []}, ""
        for turn in range(rounds + 1):
            for units in runs:
                out = Path(tempfile.mkdtemp(dir=folder))
                with engines.watched() as seen:
                    took = child.run(commands(plans, out)[of, kind, units], caches)
                if turn:
                    runs[units].append({**took, **seen})
                elif units:
                    found = digest(out / "release")
                shutil.rmtree(out)
        yield {"engine": of, "kind": kind, "digest": found, "before": _least(runs[False]), **_least(runs[True])}


def _least(runs):
    return {
        "seconds": min(run["seconds"] for run in runs),
        "cpu_s": min(run["tree_cpu_s"] for run in runs),
        "peak_bytes": max(run["tree_bytes"] for run in runs),
    }


def _ratio(row, what):
    return row[what] / row["before"][what]


def markdown(rows):
    """Yield the table; ``records`` begins the digest of what was released, which is equal for all engines."""
    names = ("wall, s", "/ without units", "processor, s", "/ without units", "peak memory, MB", "without", "records")
    yield f"| engine | plan | {' | '.join(names)} |"
    yield f"| --- | --- |{' ---: |' * len(names)}"
    yield from map(line, rows)


def line(row):
    """Return the line of one engine and kind."""
    return (
        f"| {row['engine']} | {row['kind']} | {row['seconds']:.2f} | {_ratio(row, 'seconds'):.2f} "
        f"| {row['cpu_s']:.2f} | {_ratio(row, 'cpu_s'):.2f} | {row['peak_bytes'] / 1e6:.0f} "
        f"| {row['before']['peak_bytes'] / 1e6:.0f} | {row['digest'][:8]} |"
    )


def ratios(rows):
    """Return what can be compared with a baseline, all of them the smaller the better."""
    return {f"{r['engine']}, {r['kind']}: units / none": _ratio(r, "cpu_s") for r in rows}


def main(arguments):
    rows = []
    with tempfile.TemporaryDirectory() as made, engines.server() as uri:
        for row in measure(Path(made), Path(made) / "caches", uri, int((*arguments, ROUNDS)[0]), *arguments[1:]):
            rows.append(row)
            print(line(row), flush=True)
    engines.keep("households", rows, markdown(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
