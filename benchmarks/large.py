"""Time `postrand protect` on a census: 100 million records x 5 variables of 10 categories, Parquet, in bounded memory.

Run ``python benchmarks/large.py [RECORDS] [KIND ...]`` (kinds: see ``KINDS``). The files are made in pieces in a
temporary folder, and removed at the end. Each run is the command as it is typed, with the start of Python and of Spark.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import child
import files

RESULTS = Path(__file__).parent / "results"
RECORDS, VARIABLES, CATEGORIES, FILES = 100_000_000, 5, 10, 16
BYTES_PER_RECORD = 40  # source, records put aside and release, with room to spare
KINDS = {
    "local": (),
    "local, order kept": (),
    "local, 1 thread": ("--threads", "1"),
    "local, 2 threads": ("--threads", "2"),
    "spark, 1 thread": ("--engine", "spark", "--master", "local[1]"),
    "spark, 2 threads": ("--engine", "spark", "--master", "local[2]"),
}
CENSUS = ("local", "local, order kept", "spark, 2 threads")


def simulate(folder, records, variables=VARIABLES, categories=CATEGORIES, parts=FILES):
    """Write files of independent columns, all categories equally likely."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, values = np.random.default_rng(1), [f"category {c}" for c in range(categories)]
    for number in range(parts):
        path = folder / f"{number:03}.parquet"
        left = records * (number + 1) // parts - records * number // parts
        writer = None
        while left:
            rows = min(left, 1 << 20)
            codes = [rng.integers(0, categories, rows).astype(np.int16) for _ in range(variables)]
            columns = [pa.DictionaryArray.from_arrays(c, values) for c in codes]
            table = pa.table(columns, names=[f"v{n}" for n in range(variables)])
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
            left -= rows
        writer.close()


def timed(kind, folder, source, variables, caches):
    """Return what the command took, with the plan that ``postrand init`` writes."""
    names, here = [f"v{n}" for n in range(variables)], folder / "run"
    changes = {"shuffle": ("true", "false")} if kind == "local, order kept" else {}
    plan = files.plan(source, here, caches, names, **changes)
    command = child.postrand("protect", "--plan", plan, "--out", here / "release", *KINDS[kind], "--scratch", folder)
    found = child.run(command, caches)
    shutil.rmtree(here)
    return found


def measure(records, kinds, caches, **shape):
    """Return one row for each kind of run on one simulated file."""
    with tempfile.TemporaryDirectory() as made:
        folder, variables = Path(made), shape.get("variables", VARIABLES)
        free = shutil.disk_usage(folder).free
        if free < records * BYTES_PER_RECORD:
            sys.exit(f"{folder}: {free / 1e9:.0f} GB free, {records * BYTES_PER_RECORD / 1e9:.0f} GB wanted")
        source = folder / "source"
        source.mkdir()
        simulate(source, records, **shape)
        rows = []
        for kind in kinds:
            found = timed(kind, folder, source, variables, caches)
            row = {"kind": kind, "records": records, "variables": variables}
            row |= {key: found[key] for key in ("seconds", "cpu_s", "peak_bytes")}
            rows.append(row | {"values_per_s": records * variables / found["seconds"]})
        return rows


def figures(row):
    """Return time, speed, processor time and peak memory; those of Spark's own processes are not this one's."""
    local = row["kind"].startswith("local")
    own = f"{row['cpu_s']:.1f} | {row['peak_bytes'] / 1e6:.0f}" if local else "- | -"
    return f"{row['seconds']:.1f} | {row['values_per_s'] / 1e6:.1f} | {own}"


def markdown(rows):
    """Yield the table."""
    yield "| engine | records | variables | s | million values per s | processor time, s | peak memory, MB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        yield f"| {r['kind']} | {r['records']:,} | {r['variables']} | {figures(r)} |"


def main(arguments):
    with tempfile.TemporaryDirectory() as made:
        rows = measure(int(arguments[0]) if arguments else RECORDS, arguments[1:] or CENSUS, Path(made))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "large.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "large.md").write_text("\n".join(markdown(rows)) + "\n")
    print("\n".join(markdown(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
