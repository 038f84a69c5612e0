"""The commands of a release: protect, verify, and write its report again.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from postrand.cli import columns as columns
from postrand.cli.frame import (
    FILE,
    FOLDER,
    SOURCE,
    Result,
    command,
    confidential,
    release_key,
    unperturbed_lines,
)
from postrand.cli.frame import main as main
from postrand.cli.machine import CLUSTER, LOCAL, may_use
from postrand.errors import ReleaseError


@command
@click.option("--plan", type=FILE, required=True, help="plan.toml")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option("--dossier", type=FOLDER, help="Folder for the internal dossier (risk, exact counts); kept apart.")
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the certificate will say that the release is not private.")
@click.option("--engine", help="local, duckdb or spark; if left out, the plan's, else local. The values are the same.")
@may_use(*CLUSTER, passed=True)
@click.option("--resume", type=FOLDER, help="Folder to continue an interrupted run from; needs --key-file.")
@click.option("--again", is_flag=True, help="Release another content under the same --key-file: levels add up.")
@click.option("--sampling-fraction", type=float, help="Share of the population in the file, for the dossier alone.")
def protect(
    plan: Path, out: Path, dossier: Path | None, key_file: Path | None, seed: int | None, **choices: Any
) -> Result:
    """Write the release of a plan, whole or not at all.

    What a --key-file releases is noted beside it, in KEY.ledger. Another content, or another mechanism, under the same
    key is refused without --again: a record that is in both releases is protected at the sum of their epsilons.
    """
    from postrand.plan import load_plan
    from postrand.release.ledger import Ledger
    from postrand.workflow.pipeline import run

    key = release_key(key_file, seed)
    ledger = None if key_file is None else Ledger.beside(key_file)
    release = run(load_plan(plan), out, release_key=key, dossier=dossier, ledger=ledger, progress=True, **choices)
    claims = list(release.certificate_sentences)
    found = release.findings
    data = {"release": str(release.path), "claims": claims, "findings": found.to_dict()}
    return data, "\n".join([f"release: {release.path}", *claims, *unperturbed_lines(found)])


@command
@click.argument("directory", type=FOLDER)
@click.option("--file", type=SOURCE, help="The confidential file, for an auditor who has it.")
@click.option("--plan", type=FILE, help="plan.toml, in place of --file: its source, a file or table, and record key.")
@click.option("--key-file", type=FILE, help="The release key too: the records are drawn anew, and compared.")
@click.option("--record-key", metavar="ID", help="Column of the file by which the records were drawn, if any.")
@may_use(*LOCAL, passed=True)
def verify(
    directory: Path,
    file: Path | None,
    plan: Path | None,
    key_file: Path | None,
    record_key: str | None,
    resources: Any,
) -> Result:
    """Re-check a release from its bytes alone.

    Digests, exact laws, privacy claims, data and all that follows from them are recomputed, and the released counts are
    tested against the law. Claims that rest on the confidential frequencies are said, unless --file recomputes them.

    \b
    Exit codes:
      0  every check that this release admits ran and passed; what is only said changes nothing
      7  a check failed: this is not the release that it claims to be
      9  consistent, but a check could not run here, since another version wrote these bytes
    """  # noqa: D301 -- as above
    from postrand.release import verify as check

    key = release_key(key_file, None)
    records, record_key = confidential(file, plan, record_key)
    options: Any = {"record_key": record_key, "resources": resources, "raise_if_failed": False}
    verification = check(directory, file=records, release_key=key, **options)
    if verification.verdict == "failed":
        raise ReleaseError(verification.problems)
    return verification.to_dict(), str(verification), verification.exit_code


@command
@click.argument("directory", type=FOLDER)
@click.option("--out", type=FOLDER, help="Write the page to this new file, and leave the release as it is.")
def report(directory: Path, out: Path | None) -> Result:
    """Make the report of a release anew.

    The page is a function of the release's other files; without --out it takes its place there again.
    """
    from postrand.release import check_digests, rebuild_report
    from postrand.release.bundle import REPORT

    check_digests(directory, leave_out=[REPORT])
    path = rebuild_report(directory, out)
    return {"report": str(path)}, f"report: {path}"
