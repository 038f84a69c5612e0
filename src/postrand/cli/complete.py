"""The command that makes completed files from a release alone.

Heavy modules are imported inside the command, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, FOLDER, Result, command
from postrand.cli.machine import may_use
from postrand.errors import ReleaseError, UsageError, raise_all, sentence

MODEL_FAILED = 10
"""The exit code where the files were written, and the model failed a test."""


@command
@click.argument("directory", type=FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the completed files; it must not exist.")
@click.option("--copies", metavar="M", default="20", show_default=True, help="Number of copies.")
@click.option("--seed", metavar="N", help="Seed of the draws: the same gives the same copies. Default: a fresh one.")
@click.option("--totals", type=FILE, help="CSV file with totals that every copy meets: variable, category, total.")
@click.option("--format", "form", metavar="F", help="Format of the file, for example sav or dta. Default: the data's.")
@click.option("--classes", metavar="K", default="0", help="Most classes of the model. Default: chosen by the fit.")
@click.option("--chains", metavar="C", default="2", show_default=True, help="Chains of the fit.")
@click.option("--sweeps", metavar="S", default="0", help="Sweeps of each chain; 0, the default: chosen by the fit.")
@click.option("--no-anchor", is_flag=True, help="Never move tables of two variables to the unbiased ones.")
@may_use("threads", "scratch")
def complete(
    directory: Path, out: Path, totals: Path | None, form: str | None, no_anchor: bool, **numbers: str | None
) -> Result:
    """Make completed files: copies of the released file for any software.

    In each copy a true value is drawn for each perturbed one, given the released values, the published matrices and a
    model of how the variables go together. Analyse each copy by itself and pool the results: README.txt has recipes for
    R, Stata, SPSS and Python. The release is verified first, and nothing but the release is read.

    \b
    Exit codes:
      0   the files are written, and the model passed its tests
      10  the files are written and marked, because the model failed a test:
          README.txt names what not to rely on
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.completion.readme import few_copies
    from postrand.release import read, verify
    from postrand.release.checks import no_release
    from postrand.release.completed import complete as completed_of
    from postrand.release.completed_files import request_problems, write_folder

    chosen, problems = _whole(numbers)
    problems += [*no_release(directory), *request_problems(out, directory, chosen.get("copies"), form)]
    raise_all(UsageError, problems)
    found = verify(directory, raise_if_failed=False)
    if found.verdict == "failed":
        what = "the release does not verify, so no copies are made from it"
        raise ReleaseError([sentence(what, where=str(directory)), *found.problems])
    release = read(directory)
    told = write_folder(out, release, completed_of(release, totals=totals, anchor=not no_anchor, **chosen), form)
    open_checks = [f"not verified in full: {problem}" for problem in found.problems]
    lines = [f"completed: {out / told['file']} ({told['copies']} copies of {told['records']:,} records)"]
    lines += [
        f"seed: {told['seed']}",
        *few_copies(told["copies"]),
        *open_checks,
        *_found(told),
        f"Next: read {out / 'README.txt'}",
    ]
    return {"completed": str(out), **told}, "\n".join(lines), MODEL_FAILED if told["problems"] else 0


def _found(told: dict[str, Any]) -> list[str]:
    """Return what the tests of the model found, line by line."""
    from postrand.estimate.by_model import FAILED
    from postrand.estimate.evidence_variables import moved_told

    failed = [f"- {text}" for text in told["problems"]]
    noted = [f"- {text}" for text in (*told["warnings"], *moved_told(told["diagnostics"]["approximated"]))]
    return [
        *(["", f"{FAILED}:", *failed] if failed else []),
        *(["", "Read these, too:", *noted] if noted else []),
        *([""] if failed or noted else []),
    ]


def _whole(given: dict[str, str | None]) -> tuple[dict[str, Any], list[str]]:
    """Return the options that are numbers, and a sentence for each that is none.

    >>> _whole({"copies": "20", "seed": "x", "chains": "-1"})[0]
    {'copies': 20}
    """
    least = {"copies": 0, "seed": 0, "classes": 0, "chains": 1, "sweeps": 0}
    found: dict[str, Any] = {}
    problems = []
    for name, text in given.items():
        if text is None:
            continue
        if text.isascii() and text.isdigit() and len(text) <= 16 and least[name] <= int(text) < 1 << 53:
            found[name] = int(text)
        else:
            wanted = f"a whole number of {least[name]} or more"
            problems.append(sentence("not a number that can be used", where=f"--{name}", got=text, wanted=wanted))
    return found, problems
