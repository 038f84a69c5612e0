"""Change the trusted core in small ways and see whether a test fails: ``python -m benchmarks.mutants [MODULE ...]``.

The core is what docs/architecture.md lists. The tests are run once under coverage, and a file of them again when it is
newer: this says which of them reach a line; a mutant is tried by those alone. Mutants that no test finds are listed,
with a reason, in survivors.txt; exit code 1 if one has none, or if fewer than 90 % of those that change anything are
killed.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from benchmarks.mutants import forks, recorder
from benchmarks.mutants.operators import Module

ROOT = Path(__file__).resolve().parents[2]
SURVIVORS = Path(__file__).with_name("survivors.txt")
LEAST = 0.9
FAST = "not (slow or statistical or spark or browser or postgres or r)"
PYTEST = ["--hypothesis-profile=fast", "-p", "no:cacheprovider", "-q", "-m", FAST]


def core():
    """Return the files that docs/architecture.md names as the trusted core."""
    page = (
        (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## The trusted core")[2].partition("\n## ")[0]
    )
    rows = [row.split("|") for row in page.splitlines() if row.startswith("| ") and "`" in row]
    return [f"src/postrand/{name}.py" for row in rows for name in re.findall(r"`([\w/]+)`", row[2])]


def reasons():
    """Return the survivors that have a reason: whether they change nothing, or are open."""
    lines = [line for line in SURVIVORS.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {
        name: kind == "same"
        for name, _, rest in (line.partition(" ## ") for line in lines)
        for kind in [rest.split(":")[0]]
    }


def test_files():
    """Return the files of tests, and those of the core, whose examples are tests."""
    return [*sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py")), *core()]


def record(out):
    """Run the tests of each file that is newer than its record, and note which lines of the core they reach."""
    changed = max((ROOT / path).stat().st_mtime for path in core())
    missing = []
    for name in test_files():
        known = recorder.recorded(out, name)
        if not known.exists() or known.stat().st_mtime < max(changed, (ROOT / name).stat().st_mtime):
            known.unlink(missing_ok=True)
            missing.append(name)
    if not missing:
        return
    environment = {**os.environ, recorder.OUT: str(out)}
    flags = ["-n", "2", "--dist=loadfile", "-p", recorder.__name__]
    command = [sys.executable, "-m", "pytest", *PYTEST, *flags, *missing]
    with (out / "pytest.log").open("w", encoding="utf-8") as talk:
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=talk, check=False).returncode
    if code > pytest.ExitCode.TESTS_FAILED:
        sys.exit(f"the recording ended early: see {out / 'pytest.log'}; run it again to go on")
    for name in missing:  # some have slow tests only
        recorder.recorded(out, name).touch()


def load(out):
    """Return the tests that reach each line of each file of the core, the time of each, and those that do not pass."""
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds, failed = dict[str, float](), list[str]()
    for text in filter(None, (recorder.recorded(out, name).read_text("utf-8") for name in test_files())):
        told = json.loads(text)
        seconds |= told["seconds"]
        failed += told["failed"]
        for path, of in told["lines"].items():
            for line, tests in of.items():
                lines[path][int(line)] |= set(tests)
    return lines, seconds, failed


def chosen(names, sample, seed):
    """Return the modules and the mutants to make: all, or so many of each module, drawn at random."""
    paths = [path for path in core() if not names or any(name in path for name in names)]
    modules = {path: Module.read(ROOT, path) for path in paths}
    mutants = []
    for path, module in modules.items():
        number = min(sample or len(module.mutants), len(module.mutants))
        mutants += random.Random(f"{seed} {path}").sample(module.mutants, number) if sample else module.mutants
    return modules, mutants


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="parts of the names of files of the core; all without")
    parser.add_argument("--sample", type=int, help="mutants of each file, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=10.0, help="processor time of a mutant's tests, in seconds")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "mutants")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    record(given.out)
    lines, seconds, failed = load(given.out)
    print(f"{len(seconds)} tests recorded; {len(failed)} that did not pass are left out")
    modules, mutants = chosen(given.modules, given.sample, given.seed)
    results = {}
    with (given.out / "results.jsonl").open("a", encoding="utf-8") as log:

        def done(mutant, state, test):
            results[mutant.name] = (mutant, state)
            log.write(json.dumps({"mutant": mutant.name, "line": mutant.lines[0], "state": state, "test": test}) + "\n")
            log.flush()

        reaching = {mutant.name: forks.reached(lines, mutant, modules[mutant.path]) for mutant in mutants}
        plugin = forks.Forks(
            root=ROOT,
            modules=modules,
            mutants=mutants,
            covering=reaching,
            runs=forks.run_by(lines),
            budget=given.budget,
            done=done,
        )
        files = sorted({test.partition("::")[0] for tests in reaching.values() for test in tests})
        os.chdir(ROOT)
        with (given.out / "pytest.log").open("w", encoding="utf-8") as talk, contextlib.redirect_stdout(talk):
            pytest.main([*PYTEST, "--no-header", "--no-summary", *files], plugins=[plugin])
    if len(results) < len(mutants):
        sys.exit(f"pytest ended before the last mutant: see {given.out / 'pytest.log'}")
    return told(results, {path: len(module.mutants) for path, module in modules.items()})


def told(results, sizes):
    """Print what became of the mutants; return the exit code."""
    known = reasons()
    left = [name for name, (_, state) in results.items() if state == forks.SURVIVED]
    same = {name for name in left if known.get(name)}
    figures = []
    for path, size in sizes.items():
        states = Counter(
            "same" if name in same else state for name, (mutant, state) in results.items() if mutant.path == path
        )
        tried = states.total() - states["same"]
        killed = tried - states["survived"]
        figures.append((size, tried, killed))
        print(
            f"{path.removeprefix('src/postrand/'):36}{size:6}{states.total():6}{killed:6}"
            f"{states['survived']:6}{states['same']:6}{killed / max(tried, 1):8.1%}"
        )
    rate, error = estimated(figures)
    unknown = [name for name in left if name not in known]
    print(f"{len(results)} mutants of {sum(sizes.values())}, {len(same)} of them change nothing")
    print(
        f"killed of the others: {rate:.1%}"
        + f" ± {error:.1%} (a standard error)" * (len(results) < sum(sizes.values()))
    )
    for name in unknown:
        print(f"no reason: {name}")
    return int(rate < LEAST or bool(unknown))


def estimated(figures):
    """Return the share that is killed of all mutants, and its standard error, from counts ``(all, tried, killed)``.

    Each file is a stratum. Of few, all may be killed, so the error takes ``(killed + 1) / (tried + 2)`` for the share.
    """
    used = [(size, tried, killed) for size, tried, killed in figures if tried]
    total = sum(size for size, _, _ in used) or 1
    rate = sum(size * killed / tried for size, tried, killed in used) / total
    shares = [(size / total, tried, (killed + 1) / (tried + 2), 1 - tried / size) for size, tried, killed in used]
    return rate, math.sqrt(sum(w * w * p * (1 - p) / tried * max(unseen, 0) for w, tried, p, unseen in shares))


if __name__ == "__main__":
    sys.exit(main())
