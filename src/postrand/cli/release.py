"""The commands of a release: protect, verify, report.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import click

from postrand.cli import columns as columns
from postrand.cli.frame import (
    FILE,
    FOLDER,
    KEY_FILE,
    SOURCE,
    Result,
    command,
    confidential,
    in_words,
    reading_options,
    release_key,
    unperturbed_lines,
)
from postrand.cli.frame import main as main
from postrand.cli.machine import CLUSTER, LOCAL, may_use
from postrand.errors import ReleaseError, UsageError, nearest, raise_all, sentence, shown
from postrand.support.progress import paused


@command
@click.option("--plan", type=FILE, required=True, help="plan.toml")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option(
    "--dossier", type=FOLDER, help="Folder for the internal dossier (risk, exact counts), outside the release."
)
@click.option(
    "--key-file",
    type=KEY_FILE,
    help="Release key: 32 bytes, or 64 hexadecimal digits. Without it, a key is drawn and not stored.",
)
@click.option("--seed", type=int, help="For tests only: the certificate says that the release is not private.")
@click.option(
    "--engine",
    help="local, duckdb or spark. Default: that of the plan, else local. All engines release the same values.",
)
@may_use(*CLUSTER, passed=True)
@click.option("--resume", type=FOLDER, help="Folder of an interrupted run that is continued; needs --key-file.")
@click.option(
    "--again", is_flag=True, help="Release other content under the same --key-file; the privacy levels add up."
)
@click.option(
    "--ledger",
    "of_population",
    type=FOLDER,
    help="Ledger of the population, which counts the release; in place of the file that [ledger] of the plan names.",
)
@click.option(
    "--policy",
    type=FILE,
    help="policy.toml: if a rule is not met, nothing is released; in place of the one that the plan names in [policy].",
)
@click.option(
    "--sampling-fraction",
    type=float,
    help="Share of the population that is in the file; used for the dossier and the policy.",
)
@click.option("--sign", "office", type=FILE, help="Sign the release with this key of the office: 'postrand key new'.")
def protect(
    plan: Path,
    out: Path,
    dossier: Path | None,
    key_file: Path | None,
    seed: int | None,
    of_population: Path | None,
    policy: Path | None,
    office: Path | None,
    **choices: Any,
) -> Result:
    """Make the release that a plan describes. If the run fails, no folder is left behind.

    With --key-file, the file KEY.ledger beside it lists every release that was made with this key. A second release of
    a changed file, or with other matrices, needs --again, because for a record that is in both the epsilons add up.
    With --ledger, or [ledger] in the plan, the release is also counted among those of its population, whatever its key.
    """
    from postrand.plan import load_plan
    from postrand.plan.plan import ruled_by
    from postrand.release.ledger import Ledger
    from postrand.release.signature import SigningKey
    from postrand.release.signing import sign
    from postrand.workflow.pipeline import run
    from postrand.workflow.series import counted_in

    signing = None if office is None else SigningKey.load(office)
    key = release_key(key_file, seed)
    ledger = None if key_file is None else Ledger.beside(key_file)
    counted = _asked(counted_in(ruled_by(load_plan(plan), policy), of_population))
    release = run(counted, out, release_key=key, dossier=dossier, ledger=ledger, **choices)
    if signing is not None:
        sign(release.path, signing, is_verified=True)
    try:
        return _told(release, dossier, signing, counted.ledger)
    except (UsageError, OSError, MemoryError):  # the release is there: whatever else fails does not undo it
        what, fix = "the release is complete; the rest of this answer could not be made", "run 'postrand verify'"
        text = sentence(what, where=str(release.path), fix=fix)
        return {"release": str(release.path), "advice": [text]}, text


def _asked(plan: Any) -> Any:
    """Ask at a terminal whether a population that the ledger does not have is new; elsewhere the ledger refuses it."""
    from postrand.cli.advise import can_ask
    from postrand.workflow.series import as_new_population, unknown_population

    told = unknown_population(plan)
    if not told or not can_ask():
        return plan
    with paused():
        click.echo(told, err=True)
        question = "Are these other persons, whose account is new and begins at zero?"
        return as_new_population(plan) if click.confirm(question, default=False, err=True) else plan


def _household_sizes(release: Any) -> dict[int, int] | None:
    """Return how many released households have each size, where one member of each shows a subset, else None."""
    from postrand.estimate.split_members import household_of, household_sizes
    from postrand.release.table import TABLE

    name = household_of(release.mechanism, release.mechanism.partly)
    if not name or release.data_path.name == TABLE:  # a table of a database is not read for it
        return None
    return household_sizes(release.frame().column(name), name)


def _told(release: Any, dossier: Path | None, signing: Any, ledger: Any) -> Result:
    """Return what is said of a release that was made."""
    from postrand.mechanism.units import words_of
    from postrand.release.ledger import Ledger
    from postrand.report.table_worth import two_way, two_way_lines
    from postrand.support.series_words import together
    from postrand.support.unit_wordings import shown_by_members
    from postrand.workflow.series import NOT_COUNTED
    from postrand.workflow.unit_budget import unit_advice

    claims = list(release.certificate_sentences)
    found = release.findings
    plain = list(release.plain_claims)
    data: dict[str, Any] = {
        "release": str(release.path),
        "claims": claims,
        "in_words": plain,
        "findings": found.to_dict(),
    }
    sizes = _household_sizes(release)
    shown = words_of(release.mechanism.units)(shown_by_members(sum((sizes or {}).values())))
    worth = list(two_way_lines(two_way(release.mechanism, release.records or 0, households=sizes), shown))
    lines = [f"release: {release.path}", *([] if dossier is None else [f"dossier (internal): {dossier}"]), *claims]
    lines += [*in_words(plain), *[""] * bool(worth), *worth]
    data |= {} if dossier is None else {"dossier": str(dossier)}
    if signing is not None:
        data["signed"] = signing.fingerprint
        lines.append(f"signed by {signing.fingerprint}")
    if ledger is not None:
        series = release.certificate["series"]
        data["ledger"] = {"file": _plainly(ledger.file), "head": Ledger(ledger.file).read().head, "series": series}
        lines.append(f"ledger: {_plainly(ledger.file)}, head {data['ledger']['head']}")
        lines.append(together(series))
    data["advice"] = [*unit_advice(release.mechanism), *[f"{NOT_COUNTED}."] * (ledger is None)]
    lines += [*unperturbed_lines(found), *[""] * bool(data["advice"]), *data["advice"]]
    lines += ["", f"Next: postrand verify {quote(str(release.path))}"]
    return data, "\n".join(lines)


def _plainly(file: Path) -> str:
    """Return the path from here, without the way through the plan's folder; links are followed."""
    found, here = file.resolve(), Path.cwd().resolve()
    return str(found.relative_to(here) if found.is_relative_to(here) else found)


@command
@click.argument("directory", type=FOLDER)
@click.option("--file", type=SOURCE, help="The confidential file, if you have it.")
@click.option(
    "--plan", type=FILE, help="plan.toml, instead of --file and --record-key: it names the source and the record key."
)
@click.option(
    "--key-file", type=FILE, help="The release key: the records are drawn again and compared. Needs --file or --plan."
)
@click.option(
    "--record-key", metavar="ID", help="Record key column of the confidential file, if the release was made with one."
)
@click.option("--release", type=FOLDER, help="The release, if DIRECTORY is a folder of completed files.")
@click.option("--redo-completed", is_flag=True, help="Make completed files again from their seed, and compare.")
@click.option("--signer", type=FILE, help="Public key (PEM): fail unless the release is signed by it.")
@click.option(
    "--manifest-sha256", metavar="HEX", help="SHA-256 of manifest.json, as published or signed elsewhere: must be this."
)
@may_use(*LOCAL, passed=True)
@reading_options
def verify(
    directory: Path,
    file: Path | None,
    plan: Path | None,
    key_file: Path | None,
    record_key: str | None,
    release: Path | None,
    redo_completed: bool,
    signer: Path | None,
    manifest_sha256: str | None,
    reading: Any,
    resources: Any,
) -> Result:
    """Check a release again, or completed files made from it; only these files are needed.

    Digests, exact matrices, privacy claims and all files that follow from them are recomputed. The released counts are
    tested against the matrices. Claims that depend on the confidential frequencies are only stated ('said'), unless
    --file is given.

    \b
    Exit codes:
      0  every possible check ran and passed ('said' statements do not count)
      7  a check failed: do not trust this release
      9  no check failed, but a check could not run here: another version
         wrote the files, or the machine refused a step (disk, memory)
    """  # noqa: D301 -- as above
    from postrand.release import verify as check
    from postrand.release.completed_folder import is_completed, verify_completed

    key = release_key(key_file, None)
    records, of_records = confidential(file, plan, record_key, reading)
    _check_of_file(records, record_key, reading)
    options: Any = {
        "manifest_sha256": manifest_sha256 and manifest_sha256.strip().lower(),
        "record_key": of_records,
        "resources": resources,
        "redo_completed": redo_completed,
        "signer": signer,
    }
    if release is not None or is_completed(directory):
        others = {"--file": file, "--plan": plan, "--key-file": key_file, "--signer": signer}
        _check_alone(directory, release, {**others, "--manifest-sha256": manifest_sha256})
        verification = verify_completed(directory, release or "", redo=redo_completed, raise_if_failed=False)
    else:
        verification = check(directory, file=records, release_key=key, raise_if_failed=False, **options)
    if verification.verdict == "failed":
        raise ReleaseError(verification.problems, verification.advice)
    return verification.to_dict(), str(verification), verification.exit_code


def _check_of_file(file: Any, record_key: str | None, reading: Any) -> None:
    """Raise UsageError for options of a file that is not given, or a record key that is none of its columns."""
    told = {"record-key": "is a column of the confidential file"} if record_key is not None else {}
    told |= {name: "says how the confidential file is read" for name in reading.to_dict()}
    if file is None:
        problems = [
            sentence(f"--{name} {what}, which is not given", fix=f"add --file, or leave --{name} out")
            for name, what in told.items()
        ]
        raise_all(UsageError, problems)
    if file is None or record_key is None:
        return
    from postrand.engines.database import open_records
    from postrand.support.showing import few

    columns = open_records(file).schema.names
    if record_key not in columns:
        what = f"no column {shown(record_key, repr)}{nearest(record_key, columns)}"
        raise UsageError(sentence(what, where="--record-key", wanted=few(columns)))


def _check_alone(directory: Path, release: Path | None, others: Mapping[str, object]) -> None:
    """Raise UsageError unless completed files are checked against their release, and against nothing else."""
    problems = [
        sentence(f"{name} does not go with completed files", fix="verify the release with it, in a run of its own")
        for name, value in others.items()
        if value is not None
    ]
    if release is None:
        what = "this folder has completed files, which are checked against their release"
        problems.append(sentence(what, where=str(directory), fix="add --release FOLDER"))
    raise_all(UsageError, problems)


@command
@click.argument("directory", type=FOLDER)
@click.option("--out", type=FOLDER, help="Write the page to this new file; the release does not change.")
def report(directory: Path, out: Path | None) -> Result:
    """Write the report of a release again.

    The page is computed from the other files of the release. Without --out, it replaces the page in the release.
    """
    from postrand.release import check_digests, rebuild_report
    from postrand.release.bundle import REPORT

    check_digests(directory, leave_out=[REPORT])
    path = rebuild_report(directory, out)
    return {"report": str(path)}, f"report: {path}"
