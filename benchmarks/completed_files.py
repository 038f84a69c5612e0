"""Study completed files: do analyses that know nothing of the perturbation get the population's answers?

Each replication draws its records anew from a population, releases them under a new key, completes the release, runs
every analysis of `completed_analyses` on each copy, and pools by Rubin's rules. The intervals are compared with the
*population's* value of the same analysis, and in length and coverage with those from the unperturbed records. Coverage
is pooled; its error is over replications, since the intervals of one replication depend on each other.

Run ``python benchmarks/completed_files.py RESULTS.jsonl [--population P] [--release R] [--replications N] [--n N]``.
Each run is one line of the file; a run that is there is not repeated, so the study can be stopped and go on. It ends
with the tables, in Markdown; ``--only-tables`` makes nothing else.
"""

import argparse
import contextlib
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np

from completed_analyses import ANALYSES, cells
from completed_populations import POPULATIONS
from completed_releases import LEVELS, RELEASES
from completed_tables import markdown
from postrand import ReleaseKey, estimate, perturb
from postrand.completion import complete
from postrand.estimate.result import effective_records

COPIES = 10


def every(population):
    """Return all analyses by name, the two-way cells with them."""
    sizes = {name: population.book[name].size for name in population.perturbed}
    return {"cells": lambda frame: cells(frame, population.perturbed, sizes), **ANALYSES}


def analysed(frame, analyses):
    """Return estimates and variances of one frame, by analysis; without those that fail on it."""
    found = {}
    for name, analysis in analyses.items():
        with warnings.catch_warnings(), contextlib.suppress(np.linalg.LinAlgError, ImportError):
            warnings.simplefilter("ignore")
            found[name] = tuple(np.asarray(each, float) for each in analysis(frame))
    return found


def worth(released, mechanism, names):
    """Return the effective records of all two-way tables by the unbiased estimator."""
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    return effective_records([estimate.table(released, pair, mechanism) for pair in pairs])


def replication(population, kind, level, n, turn, copies=COPIES, **settings):
    """Return what one release and its completed copies say, beside the unperturbed records."""
    drawn = population.drawn(turn, n)
    mechanism = RELEASES[kind](population, level, drawn)
    released = perturb(drawn, mechanism, ReleaseKey.from_seed(turn))
    start = time.process_time()
    completed = complete(released, mechanism, copies=copies, seed=turn, **settings)
    fitted = time.process_time() - start
    analyses = every(population)
    true = analysed(drawn, analyses)
    each = [analysed(numbers(frame), analyses) for frame in completed.frames]
    held = [name for name in analyses if all(name in one for one in (true, *each))]
    pooled = {name: estimate.pool(lambda found, name=name: found[name], each) for name in held}
    return {
        "effective": worth(released, mechanism, population.perturbed),
        "fit_s": fitted,
        "analyses_s": time.process_time() - start - fitted,
        "said": said(completed),
        "found": {
            name: {
                "value": listed(pooled[name].value),
                "variance": listed(pooled[name].standard_error ** 2),
                "half": listed(pooled[name].interval()[1] - pooled[name].value),
                "own": listed(true[name][0]),
                "own_variance": listed(true[name][1]),
            }
            for name in held
        },
    }


def numbers(frame):
    """Return a completed copy with its categories as numbers."""
    return frame.astype({name: int for name in frame.select_dtypes("category")})


def said(completed):
    """Return what the diagnostics say of a completed file."""
    found = completed.diagnostics
    return {"problems": list(found.problems), "warnings": list(found.warnings), "anchors": len(completed.anchors)}


def listed(values):
    return [float(f"{v:.6g}") for v in values]


def wanted(options):
    """Yield each run of the study, with records of its own: replications outermost, so that a stopped study is even."""
    rows = [(name, kind, level) for name in POPULATIONS for kind in RELEASES for level in LEVELS[kind]]
    for replication, (place, (name, kind, level)) in itertools.product(range(options.replications), enumerate(rows)):
        asked = (options.population, name), (options.release, kind), (options.level, level)
        if all(these is None or one in these for these, one in asked):
            yield options.start + replication * len(rows) + place, name, kind, level


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--population", action="append", choices=POPULATIONS)
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--level", action="append", type=float)
    parser.add_argument("--replications", type=int, default=12)
    parser.add_argument("--start", type=int, default=0, help="the number of the first file that is drawn")
    parser.add_argument("--n", type=int, default=4_000)
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--sweeps", type=int, default=0, help="of each chain; 0: as the package chooses")
    parser.add_argument("--classes", type=int, default=0)
    parser.add_argument("--only-tables", action="store_true")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    done = {(r["turn"], r["population"], r["release"], r["level"], r["n"]) for r in lines if "found" in r}
    known = {r["population"] for r in lines if "truth" in r}
    made, settings = {}, {"classes": options.classes, "sweeps": options.sweeps}
    for turn, name, kind, level in () if options.only_tables else wanted(options):
        if (turn, name, kind, level, options.n) in done:
            continue
        population = made[name] = made.get(name) or POPULATIONS[name]()
        with options.results.open("a") as out:
            if name not in known:
                truth = analysed(population.frame, every(population))
                lines.append({"population": name, "truth": {k: listed(v) for k, (v, _) in truth.items()}})
                print(json.dumps(lines[-1]), file=out)
                known.add(name)
            row = {"turn": turn, "population": name, "release": kind, "level": level, "n": options.n}
            lines.append(row | replication(population, kind, level, options.n, turn, options.copies, **settings))
            print(json.dumps(lines[-1]), file=out)
        print(turn, name, kind, level, f"{lines[-1]['fit_s']:.1f} + {lines[-1]['analyses_s']:.1f} s", flush=True)
    print("\n".join(markdown(lines)))


if __name__ == "__main__":
    main()
