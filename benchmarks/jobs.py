"""Time the commands as they are typed, each in a fresh process, on one file, beside reading and writing that file.

953,076 records x 10 variables, Parquet. The commands take turns, so that a busy moment does not hit one of them alone.
Run ``python benchmarks/jobs.py [ROUNDS]``; results go to benchmarks/results/jobs.{md,json}.
"""

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import child
import files

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
BESIDE = "read and write the file with pyarrow"
IMPORTS, DESIGNED = "import numpy and pyarrow", "the same, and a first design in Python"
COPY = "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1]), sys.argv[2])"
IMPORT = "import numpy, pyarrow"
DESIGN = f"{IMPORT}; import postrand as pr; pr.design(pr.Prior.uniform(5), pr.DifferentialPrivacy(epsilon=1.0))"
TABLE, ASSESSED = "age,sex", "age,sex,education"


def prepared(folder, caches):
    """Return the places of the file, its two plans and a release."""
    path, what = files.survey(folder)
    all_keys, standard = (folder / name for name in ("all-keys", "standard"))
    place = {
        "file": path,
        "what": what,
        "plan": files.plan(path, all_keys, caches),
        "standard": files.standard_plan(path, standard, caches),
        "release": folder / "release",
        "shown": folder / "shown",
    }
    place["split"] = files.split_plan(place["plan"], folder / "split")
    for plan, release in (("plan", "release"), ("split", "shown")):
        child.run(child.postrand("protect", "--plan", place[plan], "--out", place[release]), caches)
    return place


def commands(place, out):
    """Return each command by its name; ``out`` is a folder for what it writes."""
    protect = ("protect", "--plan")
    typed = {
        "protect": (*protect, place["plan"], "--out", out / "release"),
        "protect --dossier": (*protect, place["standard"], "--out", out / "release", "--dossier", out / "dossier"),
        "protect, one split of all variables": (*protect, place["split"], "--out", out / "release"),
        "verify": ("verify", place["release"]),
        "verify, one split of all variables": ("verify", place["shown"]),
        f"assess --keys {ASSESSED}": ("assess", place["file"], "--keys", ASSESSED),
        f"estimate --table {TABLE}": ("estimate", place["release"], "--table", TABLE),
        "design": ("design", "--plan", place["plan"]),
        "init": ("init", place["file"], "--keys", ",".join(files.NAMES), "--out", out / "plan"),
        "--help": ("--help",),
    }
    copied = child.python(COPY, place["file"], out / "copy.parquet")
    scripts = {IMPORTS: child.python(IMPORT), DESIGNED: child.python(DESIGN)}
    return {BESIDE: copied} | {name: child.postrand(*arguments) for name, arguments in typed.items()} | scripts


def once(name, place, folder, caches):
    """Run one command in a new folder for what it writes."""
    out = Path(tempfile.mkdtemp(dir=folder))
    found = child.run(commands(place, out)[name], caches)
    shutil.rmtree(out)
    return found


def first_run(place, folder):
    """Return what ``protect`` takes where nothing is compiled, and right after it."""
    caches = folder / "no caches"
    cold, warm = (once("protect", place, folder, caches) for _ in range(2))
    return {"cold_s": cold["seconds"], "cold_cpu_s": cold["cpu_s"], "cold_peak_bytes": cold["peak_bytes"],
            "second_s": warm["seconds"]}  # fmt: skip


def measure(place, folder, caches, rounds=ROUNDS):
    """Return a row for each command: the least and the median of its times, and its largest peak."""
    names = list(commands(place, folder))
    runs = {name: [] for name in names}
    for turn in range(rounds + 1):  # the first turn warms up
        for name in names if turn % 2 else reversed(names):
            found = once(name, place, folder, caches)
            if turn:
                runs[name].append(found)
    beside = min(run["seconds"] for run in runs[BESIDE])
    return [_row(name, found, beside) for name, found in runs.items()]


def _row(name, runs, beside):
    seconds = [run["seconds"] for run in runs]
    return {
        "command": name,
        "seconds": min(seconds),
        "median_s": statistics.median(seconds),
        "cpu_s": min(run["cpu_s"] for run in runs),
        "peak_bytes": max(run["peak_bytes"] for run in runs),
        "over_beside": min(seconds) / beside,
    }


def markdown(rows):
    """Yield the table of the commands."""
    yield "| command | least, s | median, s | / read and write | processor time, s | peak memory, MB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        typed, comma, what = r["command"].partition(", ")
        name = r["command"] if r["command"] in (BESIDE, IMPORTS, DESIGNED) else f"`postrand {typed}`{comma}{what}"
        yield (
            f"| {name} | {r['seconds']:.2f} | {r['median_s']:.2f} | {r['over_beside']:.1f} "
            f"| {r['cpu_s']:.2f} | {r['peak_bytes'] / 1e6:.0f} |"
        )


def first_markdown(found):
    """Yield the table of the first run ever."""
    yield "| `postrand protect` | s | processor time, s | peak memory, MB |"
    yield "| --- | ---: | ---: | ---: |"
    peak = found["cold_peak_bytes"] / 1e6
    yield f"| first run ever, nothing compiled | {found['cold_s']:.2f} | {found['cold_cpu_s']:.2f} | {peak:.0f} |"
    yield f"| second run | {found['second_s']:.2f} | | |"


def ratios(rows):
    """Return what is compared with the baseline, all of them the smaller the better."""
    by = {r["command"]: r for r in rows}
    beside, imports, designed = (by.pop(name, None) for name in (BESIDE, IMPORTS, DESIGNED))
    found = {} if designed is None else {"first design / imports: processor": designed["cpu_s"] / imports["cpu_s"]}
    found |= {f"{name}: wall / read and write": r["over_beside"] for name, r in by.items()}
    return found | {f"{name}: peak / read and write": r["peak_bytes"] / beside["peak_bytes"] for name, r in by.items()}


def main(arguments):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        caches = folder / "caches"
        place = prepared(folder, caches)
        found = {"what": place["what"], "rows": measure(place, folder, caches, int((*arguments, ROUNDS)[0]))}
        found["first"] = first_run(place, folder)
    text = "\n".join([*markdown(found["rows"]), "", *first_markdown(found["first"])]) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "jobs.md").write_text(text)
    (RESULTS / "jobs.json").write_text(json.dumps(found, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
