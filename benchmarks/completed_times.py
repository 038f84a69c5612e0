"""Time, memory and convergence of completing a release: 100,000 records of ten variables, and the whole survey.

Each command runs in a fresh process, as typed: ``postrand protect`` of a split of all variables at ε = 8, or of a block
of ε = 4 for each variable, then ``postrand complete --copies 20``. R-hat is that of ``completed.json``.

Run ``python benchmarks/completed_times.py FILE [RECORDS ...]``; FILE is the New York-like population.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from child import postrand, run
from files import plan, split_plan

COPIES = 20
EACH = 4.0
"""ε of each variable where it has a block of its own; ``init`` writes 1, which leaves little to learn."""
TOTAL = "epsilon = 10.0", f"epsilon = {10 * EACH}"
MODEL_FAILED = 10
"""The exit code of a model that failed a test: the files are written all the same."""


def measured(source, records, kind, folder):
    """Return the measures of completing so many records, and what the diagnostics say of convergence."""
    survey, caches = folder / "survey.parquet", folder / "caches"
    pq.write_table(pq.read_table(source).slice(0, records), survey)
    made = plan(survey, folder / "plan", caches)
    if kind == "split":
        made = split_plan(made, folder / "split")
    else:
        made.write_text(made.read_text().replace("epsilon = 1.0}", f"epsilon = {EACH}}}").replace(*TOTAL))
    run(postrand("protect", "--plan", made, "--out", folder / "release"), caches)
    typed = postrand("complete", folder / "release", "--copies", COPIES, "--seed", 1, "--out", folder / "completed")
    took = run(typed, caches, must=False)
    if took["code"] not in (0, MODEL_FAILED):
        sys.exit(took["said"])
    return took, json.loads((folder / "completed" / "completed.json").read_text())


def main(source, *sizes):
    print("| records | release | seconds | processor seconds | peak memory, MB | largest R-hat |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for records, kind in itertools.product(map(int, sizes or (100_000, 953_076)), ("split", "blocks")):
        with tempfile.TemporaryDirectory() as folder:
            took, told = measured(Path(source), records, kind, Path(folder))
            peak, r_hat = took["peak_bytes"] / 1e6, told["diagnostics"]["convergence"]["largest_r_hat"]
            shown = f"{took['seconds']:.0f} | {took['cpu_s']:.0f} | {peak:,.0f} | {r_hat:.3f}"
            print(f"| {records:,} | {kind} | {shown} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
