"""Time `postrand protect` as one thing grows at a time: records, variables, categories, threads, Spark's threads.

Run ``python benchmarks/scaling.py``; files are simulated in a temporary folder, and removed.
"""

import json
import tempfile
from pathlib import Path

import large

RECORDS = 4_000_000
SHAPES = {
    "records": [(n, {"records": n}) for n in (1_000_000, 4_000_000, 16_000_000)],
    "variables": [(n, {"variables": n}) for n in (1, 5, 10, 20)],
    "categories": [(n, {"categories": n}) for n in (2, 10, 100, 1000)],
    "threads": [(n, {"kinds": [f"local, {n} thread{'s' * (n > 1)}"]}) for n in (1, 2)],
    "Spark's threads": [(n, {"kinds": [f"spark, {n} thread{'s' * (n > 1)}"]}) for n in (1, 2)],
}


def measure(caches):
    """Return one row for each shape: what grew, to what, and what it took."""
    rows = []
    for what, shapes in SHAPES.items():
        for to, shape in shapes:
            options = {"records": RECORDS, "kinds": ["local"], **shape}
            rows += [{"grows": what, "to": to, **row} for row in large.measure(caches=caches, **options)]
    return rows


def markdown(rows):
    """Yield the table."""
    yield "| grows | to | engine | s | million values per s | processor time, s | peak memory, MB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for r in rows:
        yield f"| {r['grows']} | {r['to']:,} | {r['kind'].partition(',')[0]} | {large.figures(r)} |"


def ratios(rows):
    """Return what is compared with the baseline, all of them the smaller the better."""
    by = {(r["grows"], r["to"]): r for r in rows}
    seconds = {key: row["seconds"] for key, row in by.items()}
    spark = seconds["Spark's threads", 2]
    return {
        "records x 4: wall / 4": seconds["records", 16_000_000] / seconds["records", 4_000_000] / 4,
        "records x 4: peak memory": by["records", 16_000_000]["peak_bytes"] / by["records", 4_000_000]["peak_bytes"],
        "threads 2 / 1: wall": seconds["threads", 2] / seconds["threads", 1],
        "executors 2 / 1: wall": spark / seconds["Spark's threads", 1],
        "spark / local, 4 million records: wall": spark / seconds["records", 4_000_000],
    }


def main():
    with tempfile.TemporaryDirectory() as made:
        found = measure(Path(made))
    print("\n".join(markdown(found)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
