"""The sub-command that tries the recodes of a codebook on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, SOURCE, Result, command, reading_options


@command
@click.argument("codebook", type=FILE)
@click.argument("file", type=SOURCE)
@click.option("--write", is_flag=True, help="Write the results' categories, and which are rare, into CODEBOOK.")
@reading_options
def recode(codebook: Path, file: Path, write: bool, reading: Any) -> Result:
    """Try the recodes of CODEBOOK on FILE, without a release.

    For each recode: how many categories there are before and after, and how many records they have, in steps. The
    output is for internal use: it counts the confidential records. Edit [[recodes]] in codebook.toml and run it again.
    With --write, the variables in codebook.toml are made to fit their recodes; roles and labels stay as they are.
    """
    from postrand.formats import detected, placed
    from postrand.workflow import recode_trial

    place = placed(file, detected(file, reading))
    trials, made = recode_trial.tried(codebook, place)
    data: dict[str, Any] = {"internal": True, "recodes": [trial.to_dict() for trial in trials]}
    lines = ["For internal use only: these are counts of the confidential file.", "", *map(str, trials)]
    if write:
        without = recode_trial.write(codebook, place, made)
        lines += ["", f"wrote {codebook}"]
        lines += [f"Next: set the role of {', '.join(without)}"] * bool(without)
        data |= {"codebook": str(codebook), "without_role": list(without)}
    return data, "\n".join(lines)
