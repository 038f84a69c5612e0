"""Time from Ctrl-C to the end of the process, at moments spread over each command; nothing may be left.

Run ``python benchmarks/stop.py [MOMENTS]``; results go to benchmarks/results/stop.{md,json}.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

import child
import jobs

MOMENTS = 12
FIRST = 0.15  # seconds in which Python itself starts, which no program can change
COMMANDS = ("protect", "protect --dossier", "verify", f"assess --keys {jobs.ASSESSED}", "design")
STOPPED = 130


def measure(place, folder, caches, moments=MOMENTS):
    """Return a row for each command: the longest and the median time to the end."""
    return [_row(name, place, folder, caches, moments) for name in COMMANDS]


def _row(name, place, folder, caches, moments):
    whole = jobs.once(name, place, folder, caches)["seconds"]
    runs = []
    for k in range(moments):
        after = FIRST + (whole - FIRST) * (k + 0.5) / moments
        out = Path(tempfile.mkdtemp(dir=folder))
        found = child.run(jobs.commands(place, out)[name], caches, stop_after=after, must=False)
        left = [path.name for path in out.iterdir()]
        runs.append({"after_s": after, **found, "left": left})
        if found["code"] not in (0, STOPPED) or (found["code"] == STOPPED and left):
            sys.exit(f"Ctrl-C {after:.2f} s into {name}: exit code {found['code']}, left {left}\n{found['said']}")
        jobs.shutil.rmtree(out)
    seconds = [run["seconds"] for run in runs if run["seconds"] is not None]
    return {
        "command": name,
        "moments": len(seconds),
        "most_s": max(seconds),
        "median_s": statistics.median(seconds),
        "runs": runs,
    }


def markdown(rows):
    """Yield the table of the times."""
    yield "| command | moments | longest, s | median, s |"
    yield "| --- | ---: | ---: | ---: |"
    for r in rows:
        yield f"| `postrand {r['command']}` | {r['moments']} | {r['most_s']:.2f} | {r['median_s']:.2f} |"


def ratios(rows):
    """Return the longest time to the end, in seconds: what was promised is one second."""
    return {"Ctrl-C: longest time to the end / 1 s": max(r["most_s"] for r in rows)}


def main(arguments):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        place = jobs.prepared(folder, folder / "caches")
        rows = measure(place, folder, folder / "caches", int((*arguments, MOMENTS)[0]))
    text = "\n".join(markdown(rows)) + "\n"
    jobs.RESULTS.mkdir(exist_ok=True)
    (jobs.RESULTS / "stop.md").write_text(text)
    (jobs.RESULTS / "stop.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
