"""Audit the program: ``python -m benchmarks.audit [--case NAME] [--json FILE] [--page]``; exit code 1 if it fails."""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

from benchmarks.audit import audit, neighbours, page
from benchmarks.audit.cases import CASES
from benchmarks.audit.defects import DEFECTS

from postrand import __version__

FOLDERS = 60
"""How often each of two files is released: enough that a mark which is always there shows more than the file's ε."""


def findings(names):
    """Yield the part of the result and what was found, case by case, then defect by defect."""
    rng = audit.generator()
    for case in CASES:
        if not names or case.name in names:
            yield "cases", told(audit.audit_case(case, rng), runs=case.runs)
    if not names or neighbours.NAME in names:
        yield "cases", told(audit.audit_folders(FOLDERS))
    for defect in DEFECTS:
        name = neighbours.NAME if defect.case is None else defect.case.name
        if names and name not in names:
            continue
        if defect.case is None:
            found = audit.audit_folders(FOLDERS, defect.plant)
        else:
            found = audit.audit_case(defect.case, rng, defect.plant, defect.copies)
        yield "defects", told(found, defect=defect.name)


def told(found, **more):
    """Return a finding as plain data."""
    bounds = [{**dataclasses.asdict(b), "share": b.share, "broken": b.broken} for b in found.bounds]
    problems = {name: texts for name, texts in found.problems.items() if texts}
    held = {"name": found.name, "covers": found.covers, "draws": found.draws, "seconds": round(found.seconds, 1)}
    return {**held, "bounds": bounds, "problems": problems, "caught": found.caught, **more}


def failed(part, found):
    """Tell whether a finding is one that should not be: something wrong as it is, or nothing with a defect."""
    return bool(found["caught"]) == (part == "cases")


def show(part, found):
    """Print a finding."""
    rows = page.claim_rows([found]) if part == "cases" else page.defect_rows([found])
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(_short(part, row), _WIDTHS[part], strict=True)))
    if failed(part, found):
        print(
            f"  FAILED: {found['name']}: {'; '.join(found['caught']) or 'the defect is not found'} {found['problems']}"
        )
    sys.stdout.flush()


_WIDTHS = {"cases": (29, 36, 7, 9, 5, 9), "defects": (40, 22, 0)}


def _short(part, row):
    return (row[0], *row[2:]) if part == "cases" else row


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", default=[], help="only this case and its defects; may be repeated")
    parser.add_argument("--json", type=Path, help="write what was found to this file, after each case")
    parser.add_argument("--page", action="store_true", help="write docs/audit.md; for a full audit only")
    asked = parser.parse_args()
    known = {case.name for case in CASES} | {neighbours.NAME}
    if wrong := sorted(set(asked.case) - known):
        parser.error(f"no case {', '.join(wrong)}; there are {', '.join(sorted(known))}")
    if asked.page and asked.case:
        parser.error("the page is of a full audit: leave out --case")
    began = time.monotonic(), time.process_time()
    result = {"version": __version__, "alpha": audit.ALPHA, "bounds": audit.bounds_in_all(), "cases": [], "defects": []}
    failures = 0
    for part, found in findings(asked.case):
        result[part].append(found)
        failures += failed(part, found)
        show(part, found)
        result["seconds"], result["processor_seconds"] = time.monotonic() - began[0], time.process_time() - began[1]
        if asked.json:
            asked.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if asked.page:
        page.write(result)
    print(f"{failures} failures; {len(result['cases'])} cases, {len(result['defects'])} defects planted")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
