"""Run every benchmark, write tables and plots to benchmarks/results, and compare the ratios with the stored baseline.

``make bench``, or ``python benchmarks/bench.py [--quick] [--only=PART,...] [--docs] [--accept]``: ``--quick`` leaves
out what takes long (16 times the file, scaling, engines, other programs, the census); ``--only`` measures some parts;
``--docs`` writes the tables of docs/benchmarks.md and docs/households.md; ``--accept`` stores this run's ratios as the
baseline. Each measurement is told on standard error, and each part is kept in benchmarks/results/bench.json as soon as
it ends. Ends with exit code 1 where a ratio got worse by more than its tolerance, or a part could not be measured.
Ratios are of two figures within one run: a busy or another machine moves both.
"""

import datetime
import importlib
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import matplotlib as mpl

import child
import files
import frames
import growth
import jobs
import kernel
import large
import page
import peers
import scaling
import stop

mpl.use("svg")
RESULTS = Path(__file__).parent / "results"
BASELINE = Path(__file__).parent / "baseline.json"
TOLERANCE = 1.3
"""A ratio may grow by this factor: repeated runs on a shared machine differ by up to 20%."""
QUICK_ROUNDS, QUICK_MOMENTS, QUICK_TIMES = 3, 6, (1, 4)


LONG = ("scaling", "engines", "households", "peers", "census")
"""What ``--quick`` leaves out."""
COMPARED = ("kernel", "jobs", "stop", "growth", "frames", "scaling", "engines", "households")
"""What has ratios."""
ALONE = ("kernel", "frames", "scaling", "engines", "households", "peers", "census")
"""What needs no file and release of the survey."""


def measure(quick, folder, wanted=None):
    """Return the results of each part that was measured, by name; ``wanted`` names parts, None is all of them."""
    caches = folder / "caches"
    parts = {
        "kernel": lambda _: kernel.measure_all(),
        "frames": lambda _: frames.measure_all(),
        "jobs": lambda place: jobs.measure(place, folder, caches, QUICK_ROUNDS if quick else jobs.ROUNDS),
        "first run": lambda place: jobs.first_run(place, folder),
        "stop": lambda place: stop.measure(place, folder, caches, QUICK_MOMENTS if quick else stop.MOMENTS),
        "growth": lambda place: growth.measure(place["file"], folder, caches, QUICK_TIMES if quick else growth.TIMES),
        "scaling": lambda _: scaling.measure(caches),
        "engines": lambda _: _with_server("engines", folder, caches),
        "households": lambda _: _with_server("households", folder, caches),
        "peers": lambda _: {"ours_ns": kernel.measure(peers.SIZE, "k-RR")["ours_ns"], "rows": peers.measure()},
        "census": lambda _: large.measure(large.RECORDS, large.CENSUS, caches),
    }
    if unknown := sorted({*(wanted or ())} - {*parts}):
        sys.exit(f"unknown parts: {', '.join(unknown)}; wanted some of {', '.join(parts)}")
    chosen = [name for name in parts if (name in wanted if wanted else not (quick and name in LONG))]
    place = None if {*chosen} <= {*ALONE} else jobs.prepared(folder, caches)
    found = {"file": files.survey(folder)[1], "failed": {}}
    for name in chosen:
        begun = time.monotonic()
        child.tell(f"{name}:")
        try:
            found[name] = parts[name](place)
        except (Exception, SystemExit) as error:  # what cannot be measured here must not cost hours of the rest
            found["failed"][name] = f"{type(error).__name__}: {error}"
        child.tell(f"{name}: {found['failed'].get(name, 'done')}, {(time.monotonic() - begun) / 60:.1f} minutes")
        (RESULTS / "bench.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def _with_server(name, folder, caches):
    """Measure a part that needs a database server, in a folder of its own."""
    here = folder / name
    here.mkdir()
    with _part("engines").server() as uri:
        return list(_part(name).measure(here, caches, uri))


def _part(name):
    """Return a part by its name; those of databases start with a look for a server."""
    return importlib.import_module(name)


def tables(found):
    """Return the lines of each table by name, of the parts that were measured."""
    made = {
        "engines": lambda rows: _part("engines").markdown(rows),
        "households": lambda rows: _part("households").markdown(rows),
        "kernel": kernel.markdown,
        "jobs": jobs.markdown,
        "first run": jobs.first_markdown,
        "stop": stop.markdown,
        "growth": growth.markdown,
        "frames": frames.markdown,
        "scaling": scaling.markdown,
        "peers": lambda made: peers.markdown(made["rows"], made["ours_ns"]),
        "census": large.markdown,
    }
    return {name: list(lines(found[name])) for name, lines in made.items() if name in found}


def ratios(found):
    """Return what is compared with the baseline, all of them the smaller the better."""
    return dict(pair for name in COMPARED if name in found for pair in _part(name).ratios(found[name]).items())


def compare(found, baseline):
    """Yield a line for each ratio that is worse than the baseline allows."""
    for name, value in found.items():
        if name in baseline and value > baseline[name] * TOLERANCE:
            yield f"{name}: {value:.3g}, baseline {baseline[name]:.3g}"


def circumstances(found, minutes):
    """Return one sentence about the run: when, where, on which file."""
    processor = platform.processor() or platform.machine()
    return (
        f"Measured on {datetime.date.today().isoformat()} in {minutes:.0f} minutes: {len(os.sched_getaffinity(0))} "
        f"{processor} cores, {platform.system()}, Python {platform.python_version()}; {found['file']}."
    )


def plot(found):
    """Draw the kernel by number of categories, and the whole job by what grows."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = [r for r in found["kernel"] if r["matrix"] == "k-RR"]
    for name, label in (("numpy_ns", "plain numpy"), ("ours_ns", "postrand"), ("limit_ns", "limit")):
        left.plot([r["S"] for r in rows], [r[name] for r in rows], marker="o", label=label)
    left.set(xscale="log", yscale="log", xlabel="categories", ylabel="ns per released value, one core")
    left.legend()
    for what in ("records", "variables", "categories"):
        rows = [r for r in found.get("scaling", ()) if r["grows"] == what]
        per_value = [1e9 / r["values_per_s"] for r in rows]
        right.plot([r["to"] for r in rows], per_value, marker="o", label=what)
    right.set(xscale="log", xlabel="grows to", ylabel="ns per value, whole command", ylim=(0, None))
    right.legend()
    mpl.rcParams["svg.hashsalt"] = "postrand"
    figure.savefig(RESULTS / "bench.svg", metadata={"Date": None})


def _wanted(arguments):
    """Return the names after ``--only``, or None."""
    given = [text.partition("=")[2] for text in arguments if text.startswith("--only=")]
    return given[0].split(",") if given else None


def main(arguments):
    RESULTS.mkdir(exist_ok=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = measure("--quick" in arguments, Path(folder), _wanted(arguments))
    said = circumstances(found, (time.monotonic() - begun) / 60)
    made, compared = tables(found), ratios(found)
    text = [said, *(line for name, lines in made.items() for line in ("", f"## {name.capitalize()}", "", *lines))]
    text += ["", "## Ratios", *(f"- {name}: {value:.3g}" for name, value in compared.items())]
    (RESULTS / "bench.md").write_text("\n".join(text) + "\n")
    if "kernel" in found:
        plot(found)
    print("\n".join(text))
    if "--docs" in arguments:
        page.fill(made, said)
    if "--accept" in arguments:
        held = json.loads(BASELINE.read_text()) if _wanted(arguments) else {}
        BASELINE.write_text(json.dumps(held | compared, indent=1) + "\n")
    worse = list(compare(compared, json.loads(BASELINE.read_text()))) if BASELINE.exists() else []
    print(
        "\n".join(["", "Worse than the baseline:", *worse] if worse else ["", "No ratio is worse than the baseline."])
    )
    for name, text in found["failed"].items():
        print(f"not measured: {name}: {text}")
    return 1 if worse or found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
