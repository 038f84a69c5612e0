"""Verify a folder of completed files, made from a release that others keep."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postrand.errors import ReleaseError, raise_all, sentence
from postrand.release import rendering
from postrand.release.bundle import COMPLETED, MANIFEST, Release, well_formed
from postrand.release.checks import Audit, Verification
from postrand.release.completed_check import FIX, attempt, stated
from postrand.release.completed_files import pages
from postrand.release.verification import read, verify


def is_completed(folder: Path) -> bool:
    """Whether a folder holds completed files of their own, apart from a release."""
    return os.path.isfile(folder / COMPLETED) and not os.path.lexists(folder / MANIFEST)


def verify_completed(
    folder: str | Path, release: str | Path, *, redo: bool = False, raise_if_failed: bool = True
) -> Verification:
    """Check a folder of completed files, and the release that they were made from.

    Digests are recomputed; each copy must have the records of the release with values of the codebook that no rule
    forbids; copy 0 and the unperturbed columns must be those of the release. That the copies were drawn from the
    release alone is stated; with ``redo`` they are made again from their seed, if this platform gives the same numbers.

    Raises
    ------
    ReleaseError
        With every check that fails, unless ``raise_if_failed`` is false.
    UncheckedError
        Where none fails, with every check that could not run here, unless ``raise_if_failed`` is false.
    """
    folder, root, audit = Path(folder), Path(release), Audit()
    told = audit.attempt("files", _listed, "check.completed_listed", folder)
    found = audit.attempt("release", _verified, "check.completed_release", root)
    if found is not None:
        attempt(audit, folder, told, root, str(found.manifest["data"]), found.mechanism, redo=redo)
    other = audit.attempt("pages", _pages, "check.completed_pages", folder, told, found, needs=[told, found])
    if other and told is not None:
        audit.say("rendered", "said.rendered", version=told["package"]["version"], files=list(other))
    return audit.outcome(folder, raise_if_failed)


def _listed(folder: Path) -> dict[str, Any]:
    """Return what is stated, if the folder has the listed files and no others."""
    with well_formed():
        told = stated(folder)
    with os.scandir(folder) as entries:
        there = {entry.name: entry.stat(follow_symlinks=False).st_mode for entry in entries}
    wanted = {COMPLETED, *told["files"]}
    problems = [sentence(f"{n!r} is not listed in {COMPLETED}") for n in sorted(set(there) - wanted)]
    problems += [sentence(f"{n!r} is listed, but missing") for n in sorted(wanted - set(there))]
    problems += [sentence(f"{n!r} is not a plain file") for n, mode in there.items() if not stat.S_ISREG(mode)]
    raise_all(ReleaseError, problems)
    return told


def _verified(root: Path) -> Release:
    verify(root)
    return read(root)


def _pages(folder: Path, told: Mapping[str, Any], release: Release) -> tuple[str, ...]:
    """Return the pages that this version words otherwise; refuse those that the same program would have written so."""
    wanted = pages(told, str(release.manifest["data"]))
    raise_all(
        ReleaseError, [sentence(f"{n!r} is not listed", where=COMPLETED) for n in wanted if n not in told["files"]]
    )
    wrong = tuple(name for name, content in wanted.items() if (folder / name).read_bytes() != content)
    same = told["rendering_sha256"] == rendering.digest()
    what = f"this page does not follow from {COMPLETED}"
    raise_all(ReleaseError, [sentence(what, where=name, fix=FIX) for name in wrong if same])
    return wrong
