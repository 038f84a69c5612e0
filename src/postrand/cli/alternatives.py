"""The sub-commands on what offices use beside post-randomisation: suppress, microaggregate, recheck."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from postrand.cli.columns import left_options
from postrand.cli.frame import FILE, FOLDER, Result, command, keys_option, names, placed, reading_options

_OUT = click.option("--out", type=FOLDER, required=True, help="Folder to write; it must not exist.")
_CODEBOOK = click.option(
    "--codebook", type=FILE, help="codebook.toml of FILE: its recodes, roles and codes for no answer are used."
)
_K = click.option("--k", type=int, default=3, show_default=True, help="Smallest number of records in a class.")


@command
@click.argument("file", type=FILE)
@keys_option()
@_CODEBOOK
@_K
@click.option("--sensitive", metavar="S", help="Sensitive variable of which each class must have several values.")
@click.option("--diversity", type=int, default=2, show_default=True, metavar="L", help="How many values, at least.")
@click.option(
    "--seconds", type=float, default=60.0, show_default=True, help="Time for the search; more time can prove more."
)
@left_options
@_OUT
@reading_options
def suppress(
    file: Path, keys: str | None, codebook: Path | None, k: int, left: Any, out: Path, reading: Any, **search: Any
) -> Result:
    """Suppress as few key values as possible, to reach k-anonymity.

    Each combination of key values is then that of at least K records; a suppressed value counts as a value. The folder
    states what holds and what does not. There is no differential privacy: 'postrand protect' gives that. Columns that
    stay as they are and name persons or single out records, or tell suppressed values, need a decision: --drop or
    --as-is. Records are in a new random order. With a --codebook, the file is recoded first, its role 'key' stands for
    --keys, columns of the roles 'drop', 'record_key' and 'household' are left out (a household number not if --as-is
    names it), and codes for no answer of the keys and of the sensitive variable are missing values.
    """
    from postrand.workflow.alternative_files import suppress_file
    from postrand.workflow.named_keys import named_keys

    book = _book(codebook)
    named_keys(names(keys), book)  # refused before the file is read
    return _said(out, *suppress_file(placed(file, reading), out, names(keys), k, codebook=book, **left, **search))


@command
@click.argument("file", type=FILE)
@click.option("--columns", required=True, metavar="A,B", help="Numerical columns.")
@_CODEBOOK
@_K
@click.option(
    "--household",
    metavar="NUMBER",
    help="Column with the number of the household, or of the person: groups are of K of them.",
)
@click.option("--together", is_flag=True, help="Group the records by all columns at once (MDAV), not by each alone.")
@left_options
@_OUT
@reading_options
def microaggregate(
    file: Path, columns: str, codebook: Path | None, k: int, left: Any, out: Path, reading: Any, **search: Any
) -> Result:
    """Replace numbers by the means of groups of at least K records, households or persons.

    Each column alone gets the groups that change it least. Members of a household share its income, and would be a
    group of their own, and so would the records of a person: name the column with the number of either, --household
    (which --drop can leave out). The folder states
    what holds and what does not. There is no differential privacy. Groups of a fixed size, with checks of what their
    averages show: 'postrand average'. Columns that stay as they are and name persons or single out records, or tell
    averaged values, need a decision: --drop or --as-is. Records are in a new random order. With a --codebook, the file
    is recoded first, columns of the roles 'drop' and 'record_key' are left out, the role 'household' stands for
    --household, and codes for no answer of the columns stay missing.
    """
    from postrand.workflow.alternative_files import microaggregate_file

    place, book = placed(file, reading), _book(codebook)
    return _said(out, *microaggregate_file(place, out, names(columns), k, codebook=book, **left, **search))


@command
@click.argument("folder", type=FOLDER)
def recheck(folder: Path) -> Result:
    """Compute the claims of 'suppress' or 'microaggregate' again.

    Only the files of FOLDER are needed. What was lost is not checked: that needs the original.
    """
    from postrand.workflow.alternative_files import recheck as check

    claims = check(folder)
    return claims.to_dict(), "\n".join(["The file meets its claims:", *claims.holds])


def _book(codebook: Path | None) -> Any:
    from postrand.plan import infer

    return None if codebook is None else infer.load_codebook(codebook)


def _said(out: Path, claims: Any, notes: tuple[str, ...]) -> Result:
    following = f"Next: read {out / 'claims.txt'}; postrand recheck {out}"
    return {**claims.to_dict(), "notes": list(notes)}, "\n".join(
        [f"wrote: {out}", *claims.sentences, *notes, following]
    )
