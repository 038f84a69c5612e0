"""Two whole files that differ in one record, released many times under fresh keys: everything in the folders is seen.

The other cases count draws of many copies in one file. Here nothing is presumed of how a record meets the others: what
is compared are the laws of whole folders, byte counts and words of every page included.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from benchmarks.audit.bounds import epsilon_lower
from benchmarks.audit.measures import Bound, claimed
from benchmarks.audit.plans import SEX, block, dp, plan
from benchmarks.audit.runs import protect, quiet, write

NAME, COVERS = "whole folders", "all files of a release, the order of the records, and the level of the file as a whole"
SHUFFLED = '[[claims]]\nmodel = "shuffled"\nepsilon = 0.5\ndelta = 0.05\n'
OTHERS = 59
EVERY = 25
"""So many releases are made in process for one that the command makes."""
_WORD = re.compile(r"[^\s<>\"',;=()]+")


def folders(folder, runs, by_command=True):
    """Release two files ``runs`` times each; returns what was seen of each folder by file, and the last release."""
    seen: tuple[list, list] = ([], [])
    release = None
    for world, value in enumerate("FM"):
        people = ["F", "M"] * (OTHERS // 2) + ["F"] * (OTHERS % 2) + [value]
        table = pa.table({"sex": people})
        path = write(
            folder, f"file{world}", SEX, plan(dp(1.0), SHUFFLED, block("sex", privacy=dp(1.0)), as_is=()), table
        )
        for run in range(runs):
            with quiet():
                command = by_command and run % EVERY == 0
                release = protect(path, folder / f"out{world}-{run}", command=command)
            seen[world].append(frozenset(marks_of(release)))
    return seen, release


def marks_of(release):
    """Yield all that is looked for in a folder: names and sizes of files, their words, the order and the counts."""
    for path in sorted(Path(release.path).iterdir()):
        yield f"{path.name}: {path.stat().st_size} bytes"
        if path.suffix != ".parquet":
            yield from (f"{path.name}: {word}" for word in set(_WORD.findall(path.read_text("utf-8"))))
    values = release.frame()["sex"].to_pylist()
    yield f"first record: {values[0]}"
    yield f"last record: {values[-1]}"
    yield from (f"at least {count} F" for count in range(1, values.count("F") + 1))


def bounds(seen, release, alpha):
    """Return the bounds of both claims: by the mark, there or not, that the first half of the releases choose."""
    half = len(seen[0]) // 2
    claims = (("ε of a record", claimed()(release)), ("(ε, δ) of the file", of_file(release)))
    return [_bound(seen, half, name, level, alpha / len(claims)) for name, level in claims]


def of_file(release):
    """(ε, δ) that the certificate states for the whole file in random order."""
    claim = next(c for c in release.certificate["claims"] if c["privacy"]["model"] == "shuffled")
    return claim["privacy"]["epsilon"], claim["level"]


def _bound(seen, half, name, level, alpha):
    epsilon, delta = level
    counts = [Counter(mark for marks in world[:half] for mark in marks) for world in seen]
    marks = sorted(set(counts[0]) | set(counts[1]))
    hits = np.array([[world[mark] for mark in marks] for world in counts])
    ways = [(p, there) for p in (0, 1) for there in (True, False)]
    promised = []
    for p, there in ways:
        inside = hits if there else half - hits
        promised.append(epsilon_lower(inside[p], inside[1 - p], (half, half), alpha, delta))
    way, at = np.unravel_index(np.argmax(promised), (len(ways), len(marks)))
    (p, there), mark = ways[way], marks[at]
    tested = [sum((mark in found) == there for found in world[half:]) for world in seen]
    trials = [len(world) - half for world in seen]
    measured = float(epsilon_lower(tested[p], tested[1 - p], (trials[p], trials[1 - p]), alpha, delta))
    label = name + (f", δ = {delta:.3g}" if delta else "")
    return Bound(label, epsilon, measured, f"{'' if there else 'without '}{mark}")
