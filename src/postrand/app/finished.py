"""Finished releases: each stays in its own folder, with its own plan, until a person removes it."""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from postrand.app.decisions import Decisions
from postrand.app.history import decided, differences
from postrand.app.watch import Cancelled, Watch
from postrand.support.progress import told

if TYPE_CHECKING:  # a shelf without releases, which the first screen has, needs none of them
    from postrand.app.checking import ReleaseCheck
    from postrand.app.designing import Latest
    from postrand.certification.series import Level
    from postrand.release import Release, Verification

PACKED = "release.zip"
FILES = (
    (PACKED, "The release, as one zip file"),
    ("release/report.html", "The public report"),
    ("dossier/decision.html", "Two pages for the data protection officer, to print and sign: internal"),
    ("dossier/dossier.html", "The internal report: for authorised staff only"),
    ("plan.toml", "The plan"),
    ("codebook.toml", "The codebook"),
)
"""The files of a finished release that a browser can ask for, by their places in its folder, and what they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """Hold a release with the decisions that it was made of, its plan and codebook as they were written, and its check.

    ``saved`` is the project's folder where a person put a copy. ``is_borrowed``: the folder is a project of theirs that
    was opened, which is never removed or written to: its zip is made in ``room`` when it is asked for.
    """

    number: int
    folder: Path
    release: Release
    decisions: Decisions
    plan: str
    codebook: str
    check: ReleaseCheck | None = None
    made_at: str = ""
    saved: str = ""
    is_borrowed: bool = False
    room: Path | None = None

    @property
    def level(self) -> Level:
        """What a record spends in this release on the variables that are perturbed."""
        from postrand.certification.account import mechanism_account  # not for the first screen
        from postrand.certification.series import Level

        total = mechanism_account(self.release.mechanism).total
        return Level(total if math.isfinite(total) else None)

    @property
    def title(self) -> str:
        """A name for the lists: the number, the file, the time."""
        name = "" if self.decisions.opened is None else f" of {self.decisions.opened.name}"
        return f"Release {self.number}{name}" + (f", {self.made_at}" if self.made_at else "")

    def file(self, place: str) -> Path | None:
        """Return the path of a file that a browser may ask for, None where there is none."""
        if place == PACKED and self.room is not None:
            path = self.room / PACKED
            return path if path.is_file() else packed(self.folder, self.room)
        path = self.folder / place
        return path if self.has(place) else None

    def has(self, place: str) -> bool:
        """Whether there is a file of that place, or one can be made."""
        is_made = (self.folder / place).is_file() or (place == PACKED and self.room is not None)
        return place in dict(FILES) and is_made

    def is_of(self, decisions: Decisions) -> bool:
        """Whether the release was made of these decisions."""
        return decided(self.decisions) == decided(decisions)

    def changed(self, decisions: Decisions) -> tuple[str, ...]:
        """Return in words what has been decided otherwise since: what it was, and what it is."""
        from postrand.app.changes import changes  # not for the first screen

        if self.is_of(decisions):
            return ()
        return changes(self.decisions, decisions) or differences(self.decisions, decisions)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Hold the finished releases of a workbench, oldest first; every tab of the browser sees them.

    ``verified`` are the outcomes of verifications by number, or why there is none; ``told`` is what happened to a
    release last, by number; ``last`` is the largest number that was given, which no later release gets again.
    """

    held: tuple[Finished, ...] = ()
    last: int = 0
    verified: Mapping[int, Verification | str] = field(default_factory=dict)
    told: Mapping[int, str] = field(default_factory=dict)

    def find(self, number: int) -> Finished | None:
        """Return the release of a number, if it is there."""
        return next((one for one in self.held if one.number == number), None)

    @property
    def next(self) -> int:
        """The number of the next release."""
        return 1 + self.last

    def put(self, one: Finished) -> Shelf:
        """Return the shelf with a release more, or in place of that of its number."""
        if self.find(one.number) is None:
            return replace(self, held=(*self.held, one), last=max(self.last, one.number))
        return replace(self, held=tuple(one if old.number == one.number else old for old in self.held))

    def lighter(self, number: int) -> Shelf:
        """Return the shelf with the records of one release at most in memory: the others are read again when shown."""
        held = (one if one.number == number else replace(one, release=replace(one.release)) for one in self.held)
        return replace(self, held=tuple(held))

    def without(self, number: int) -> Shelf:
        """Return the shelf without one release."""
        held = tuple(one for one in self.held if one.number != number)
        verified = {n: said for n, said in self.verified.items() if n != number}
        return Shelf(held, self.last, verified, {n: said for n, said in self.told.items() if n != number})

    def tell(self, number: int, text: str) -> Shelf:
        """Return the shelf with a message about one release, in place of an earlier one."""
        return replace(self, told={**self.told, number: text})

    def check(self, number: int, found: Verification | str) -> Shelf:
        """Return the shelf with the outcome of a verification."""
        return replace(self, verified={**self.verified, number: found}) if self.find(number) else self

    def several(self) -> Iterator[tuple[str, tuple[Finished, ...]]]:
        """Yield each file that there is more than one release of, by its name: a project can hold a copy of a file."""
        found: dict[str, list[Finished]] = {}
        for one in self.held:
            found.setdefault("" if one.decisions.opened is None else one.decisions.opened.name, []).append(one)
        yield from ((name, tuple(held)) for name, held in found.items() if len(held) > 1)

    @property
    def unsaved(self) -> tuple[Finished, ...]:
        """The releases that are nowhere else."""
        return tuple(one for one in self.held if not one.saved)


def finish(
    decisions: Decisions,
    folder: Path,
    number: int,
    watch: Watch,
    check: ReleaseCheck | None = None,
    latest: Latest | None = None,
) -> Finished:
    """Protect the file in a folder of its own and return the release; on any error the folder is removed.

    ``check`` is the release check of these decisions, where it is known, and ``latest`` what it was made with: what was
    measured there of this file and plan, its risk above all, is taken as it is.

    A cancel always counts: one that comes when all is written removes what was written, unless a ledger has counted
    the release, which then stays.

    Raises
    ------
    Cancelled
        If the watch asks to stop.
    PostrandError
        If the plan cannot be met, or the file has changed since it was checked.
    """
    from postrand.app.checking import checked, risk_of  # not for the first screen
    from postrand.app.computations import protect
    from postrand.app.designing import Latest
    from postrand.workflow.plan_risk import require_state

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    latest = latest or Latest()
    try:
        with told(watch.hear):
            check = checked(decisions, folder, latest) if check is None else check
        said: list[str] = []
        design = None if check is None else check.made
        if design is not None:
            require_state(design.plan.source, design.known.state)
        beforehand = None if design is None else latest.beforehand(decisions, design)
        made = protect(decisions, folder, watch, said, beforehand)
        risk = None if check is None else check.risk
        risk = risk_of(decisions, check, latest) if check is not None and risk is None and design is not None else risk
        packed(folder)
        if watch.stop and "ledger" not in decisions.kept:
            raise Cancelled
    except BaseException:  # whatever ended it, nothing half made stays
        shutil.rmtree(folder, ignore_errors=True)
        raise
    check = None if check is None else check.after(made.findings, tuple(said), risk)
    plan, codebook = (folder / name for name in ("plan.toml", "codebook.toml"))
    texts = plan.read_text("utf-8"), codebook.read_text("utf-8")
    return Finished(number, folder, made, decisions, *texts, check, datetime.now().strftime("%H:%M:%S"))


def packed(folder: Path, room: Path | None = None) -> Path:
    """Return a zip of the release in ``folder``, made there or in ``room``; it appears when it is complete."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile  # not for the first screen

    place = folder if room is None else room
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    made, release = place / f".{secrets.token_hex(8)}.zip", folder / "release"
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        for path in sorted(release.rglob("*")):
            held = ZIP_STORED if path.suffix == ".parquet" and path.is_file() else None  # which is compressed itself
            archive.write(path, path.relative_to(release), held)
    return made.replace(place / PACKED)


def verified(one: Finished, watch: Watch) -> Verification:
    """Return the verification of a release, as ``postrand verify`` makes it; raises Cancelled if it should stop."""
    from postrand.release import verify  # not for the first screen

    with told(watch.hear):
        return verify(one.folder / "release", raise_if_failed=False)
