"""Peak memory and time of commands as the file grows: its records 1, 4 and 16 times.

Run ``python benchmarks/growth.py [TIMES ...]``; results go to benchmarks/results/growth.{md,json}.
"""

import json
import sys
import tempfile
from pathlib import Path

import child
import files
import jobs

TIMES = (1, 4, 16)
COMMANDS = (jobs.BESIDE, "protect", "verify", f"assess --keys {jobs.ASSESSED}")


def measure(path, folder, caches, times=TIMES):
    """Return a row for each command and size."""
    rows = []
    for factor in times:
        here = folder / f"times-{factor}"
        here.mkdir()
        file = files.grown(path, factor, here)
        place = {"file": file, "plan": files.plan(file, here / "plan", caches), "release": here / "release"}
        place |= {"standard": place["plan"], "split": place["plan"], "shown": place["release"]}
        child.run(child.postrand("protect", "--plan", place["plan"], "--out", place["release"]), caches)
        for name in COMMANDS:
            found = min((jobs.once(name, place, here, caches) for _ in range(2)), key=lambda run: run["seconds"])
            kept = {key: found[key] for key in ("seconds", "cpu_s", "peak_bytes")}
            rows.append({"command": name, "times": factor, "records": factor * files.RECORDS, **kept})
        jobs.shutil.rmtree(here)
    return rows


def markdown(rows):
    """Yield the table: a line for each command, two columns for each size."""
    times = sorted({r["times"] for r in rows})
    heads = [f"{t * files.RECORDS:,} records: s | MB" for t in times]
    yield f"| command | {' | '.join(heads)} |"
    yield f"| --- |{' ---: | ---: |' * len(times)}"
    by = {(r["command"], r["times"]): r for r in rows}
    for name in COMMANDS:
        cells = [f"{by[name, t]['seconds']:.2f} | {by[name, t]['peak_bytes'] / 1e6:.0f}" for t in times]
        yield f"| {name if name == jobs.BESIDE else f'`postrand {name}`'} | {' | '.join(cells)} |"


def ratios(rows):
    """Return how much time and memory grow when the file has 4 times the records: at most 4 and about 1."""
    by = {(r["command"], r["times"]): r for r in rows}
    few, many = by["protect", 1], by["protect", 4]
    return {
        "protect, records x 4: wall / 4": many["seconds"] / few["seconds"] / 4,
        "protect, records x 4: peak memory": many["peak_bytes"] / few["peak_bytes"],
    }


def main(arguments):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path, _ = files.survey(folder)
        rows = measure(path, folder, folder / "caches", [int(a) for a in arguments] or TIMES)
    text = "\n".join(markdown(rows)) + "\n"
    jobs.RESULTS.mkdir(exist_ok=True)
    (jobs.RESULTS / "growth.md").write_text(text)
    (jobs.RESULTS / "growth.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
