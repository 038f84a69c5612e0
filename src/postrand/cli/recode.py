"""The sub-command that tries the recodes of a codebook on a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, SOURCE, Result, command, placed, reading_options
from postrand.errors import DataError, UsageError, sentence

PROVENANCE = (
    "Now confidential, because they stated no provenance, and counts of the file were shown, by which their groups or "
    "edges can have been chosen: {names}. The guarantee does not cover this choice. For each whose groups or edges "
    'follow from the questionnaire or other public knowledge, write provenance = "public" in its [[recodes]] in '
    "{codebook}."
)

UNKEPT = (
    "These have categories now, so that missing = 'category' took the place of 'keep', and missing values count as one "
    "more of them: {names}. If they are to be released as missing, set missing = 'keep' again: it stays."
)


@command
@click.argument("codebook", type=FILE)
@click.argument("file", type=SOURCE, required=False)
@click.option("--plan", type=FILE, help="plan.toml that says which file or table is read, instead of FILE.")
@click.option("--write", is_flag=True, help="Write the results' categories, and which are rare, into CODEBOOK.")
@reading_options
def recode(codebook: Path, file: Path | None, plan: Path | None, write: bool, reading: Any) -> Result:
    """Try the recodes of CODEBOOK on FILE or the source of a plan, without a release.

    For each recode: how many categories there are before and after, and how many records they have, in steps. The
    output is for internal use: it counts the confidential records. Edit [[recodes]] in codebook.toml and run it again.
    With --write, the variables in codebook.toml are made to fit their recodes; roles and labels stay, and so does
    'missing', once a variable has categories. Exit code 4 if a recode fails.
    """
    from postrand.support.showing import few
    from postrand.workflow import recode_trial

    place = _place(codebook, file, plan, reading)
    trials, made = recode_trial.tried(codebook, place)
    data: dict[str, Any] = {"internal": True, "recodes": [trial.to_dict() for trial in trials]}
    lines = ["For internal use only: these are counts of the confidential file.", "", *map(str, trials)]
    if write:
        found = recode_trial.write(codebook, place, made)
        lines += ["", f"wrote {codebook}"]
        kinds = {recode.variable: recode.kinds for recode in made.recodes}
        marked = ", ".join(f"{name} ({kinds[name]})" for name in found.confidential)
        lines += [PROVENANCE.format(names=marked, codebook=codebook)] * bool(marked)
        lines += [UNKEPT.format(names=few(found.no_longer_kept))] * bool(found.no_longer_kept)
        lines += [f"Next: set the role of {few(found.without_role)}, in {codebook}"] * bool(found.without_role)
        following = f"postrand design --plan {shlex.quote(str(plan))}"
        lines += [f"{'Then' if found.without_role else 'Next'}: {following}"] * (plan is not None)
        data |= {"codebook": str(codebook), "without_role": list(found.without_role)}
    elif not any(trial.problem for trial in trials):
        lines += ["", f"Next: edit [[recodes]] and try again, or write: {_typed(codebook, file, plan, reading)}"]
    return data, "\n".join(lines), DataError.exit_code if any(trial.problem for trial in trials) else 0


def _typed(codebook: Path, file: Path | None, plan: Path | None, reading: Any) -> str:
    """Return the command that writes the results, with what was given to this one."""
    given = [f"--{name}={text}".replace("\t", "tab") for name, text in reading.to_dict().items()]
    place = [str(file)] if plan is None else ["--plan", str(plan)]
    return shlex.join(["postrand", "recode", str(codebook), *place, *given, "--write"])


def _place(codebook: Path, file: Path | None, plan: Path | None, reading: Any) -> Any:
    """Return what is read: the file, as it shows, or the source of the plan; raises UsageError for both or none."""
    from postrand.workflow import recode_trial

    if file is not None and plan is None:
        return placed(file, reading)
    if plan is not None and file is None and not reading.to_dict():
        return recode_trial.place_of(plan)
    what = "name either a file, with options that say how it is read, or a plan"
    example = ["survey.csv"] if plan is None else ["--plan", str(plan)]
    raise UsageError(sentence(what, fix=shlex.join(["postrand", "recode", str(codebook), *example])))
