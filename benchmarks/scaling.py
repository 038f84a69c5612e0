"""Time the whole job as one thing grows at a time: records, variables, categories, threads, Spark's executors.

Run ``python benchmarks/scaling.py``; files are simulated in a temporary folder, and removed.
"""

import json

import large

RECORDS = 4_000_000
SHAPES = {
    "records": [{"records": n} for n in (1_000_000, 4_000_000, 16_000_000)],
    "variables": [{"variables": n} for n in (1, 5, 10, 20)],
    "categories": [{"categories": n} for n in (2, 10, 100, 1000)],
    "threads": [{"engines": [f"local-{n}"]} for n in (1, 2)],
    "executors": [{"engines": [f"spark-{n}"]} for n in (1, 2)],
}


def measure():
    """Return one row for each shape: what grew, to what, and what it took."""
    rows = []
    for what, shapes in SHAPES.items():
        for shape in shapes:
            options = {"records": RECORDS, "engines": ["local"], **shape}
            to = int(str(options["engines"][0]).partition("-")[2] or options.get(what, 0))
            rows += [{"grows": what, "to": to, **row} for row in large.measure(**options)]
    return rows


def markdown(rows):
    yield "| grows | to | engine | wall, s | million values per s | peak memory, MB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for r in rows:
        memory = f"{r['peak_bytes'] / 1e6:.0f}" if r["engine"].startswith("local") else "-"
        speed = f"{r['seconds']:.2f} | {r['values_per_s'] / 1e6:.1f}"
        yield f"| {r['grows']} | {r['to']:,} | {r['engine']} | {speed} | {memory} |"


if __name__ == "__main__":
    found = measure()
    print("\n".join(markdown(found)))
    print(json.dumps(found))
