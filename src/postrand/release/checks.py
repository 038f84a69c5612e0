"""The parts of a verification: checks that run in order, and the files of a release as bytes."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from postrand import __version__
from postrand.errors import (
    DataError,
    PostrandError,
    ReleaseError,
    UncheckedError,
    printable,
    raise_all,
    sentence,
    shown,
    without_fix,
)
from postrand.release import canonical_json, fields, rendering
from postrand.release.bundle import CERTIFICATE, CODEBOOK, DATA, MANIFEST, MECHANISM, REPORT, listed_files, well_formed
from postrand.support import wordings
from postrand.support.progress import Stage, stage
from postrand.support.refusals import refused

T = TypeVar("T")
FIRST_VERSION = (0, 1, 0)
"""The first version of this package whose releases have the current schema."""
_VERSION = re.compile(
    r"(?P<number>\d{1,4}(\.\d{1,4}){1,2})((a|b|rc)\d{1,4})?(\.post\d{1,4})?(\.dev\d{1,4})?(\+[a-z0-9.]{1,40})?"
)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LIBRARY = re.compile(r"[A-Za-z0-9_.-]{1,40}( [A-Za-z0-9.+_() -]{1,60})?")


Outcome = Literal["passed", "failed", "said", "not run"]
Verdict = Literal["verified", "incomplete", "failed"]


Phrase = tuple[str, Mapping[str, Any]]
"""A code of :mod:`postrand.support.wordings`, and the values of its template."""


OF_THE_CURATOR = ("codebook", "mechanism", "certificate", "data", "margins", "derived", "stated", "records")
"""Checks whose errors come from rooms that advise a curator, who could mend what whoever verifies cannot."""
OF_THE_FILE = ("file", "columns", "values", "drawn")
"""Checks that compare the release with a confidential file: that can be the wrong one."""
NOT_TO_BE_USED = (
    "Do not use these files. Ask whoever published them for the release again, and for the SHA-256 of its "
    "manifest.json; then verify what you get, with --manifest-sha256."
)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, its outcome, and the result as a code with values.

    ``said``: the release states it, and nobody can recompute it from the release. ``not run``: it can be checked, but
    not here, for example since another version of a library wrote it. ``problems`` are the errors of a check that did
    not pass, as they were raised.
    """

    name: str
    outcome: Outcome
    code: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool | None:
        """True if the check passed, False if it failed, None if it did not run."""
        return {"passed": True, "failed": False}.get(self.outcome)

    @property
    def sentence(self) -> str:
        """The result in words."""
        return " ".join(self.problems) if self.problems else wordings.say(self.code, **self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: codes and values, and the sentence that they make."""
        found = {"code": self.code, "values": dict(self.values)} if self.code else {"problems": list(self.problems)}
        return {"name": self.name, "ok": self.ok, "outcome": self.outcome, **found, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of :func:`verify`, check by check.

    ``verdict`` is ``verified`` where every check that the release admits ran and passed, ``failed`` where one failed,
    else ``incomplete``: the release is consistent as far as it could be checked here. What is only said, since
    nobody can recompute it (:attr:`stated`), changes no verdict.
    """

    path: Path
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """``verified``, ``incomplete`` or ``failed``."""
        found = {check.outcome for check in self.checks}
        return "failed" if "failed" in found else "incomplete" if "not run" in found else "verified"

    @property
    def ok(self) -> bool:
        """Whether every possible check ran and passed: true only for ``verified``."""
        return self.verdict == "verified"

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each check that failed; if none failed, for each that could not run here.

        Checks that stand on them have one sentence together.
        """
        outcome = {"failed": "failed", "incomplete": "not run"}.get(self.verdict)
        whole, where = printable(f"{shown(self.path)}: "), printable(shown(self.path.name or self.path))
        left = [c for c in self.checks if c.outcome == outcome and c.code.startswith("check.stands_on")]
        found = [(c.name, c.sentence) for c in self.checks if c.outcome == outcome and c not in left]
        found += [(", ".join(c.name for c in left), left[0].sentence)] if left else []
        return tuple(said if said.startswith(whole) else f"{where}, {name}: {said}" for name, said in found)

    @property
    def advice(self) -> str:
        """What to do where the release itself fails, for whoever verifies it; "" where it does not."""
        failed = {check.name for check in self.checks if check.outcome == "failed"}
        return "" if failed <= {*OF_THE_FILE} or no_release(self.path) else NOT_TO_BE_USED

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0, 9 for ``incomplete``, 7 for ``failed``."""
        return {"verified": 0, "incomplete": UncheckedError.exit_code, "failed": ReleaseError.exit_code}[self.verdict]

    @property
    def stated(self) -> tuple[str, ...]:
        """What the release states, but nobody can recompute from it."""
        return tuple(check.sentence for check in self.checks if check.outcome == "said")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        checks = [check.to_dict() for check in self.checks]
        advice = {"advice": self.advice} if self.advice else {}
        return {"release": str(self.path), "ok": self.ok, "verdict": self.verdict, "checks": checks, **advice}

    def __str__(self) -> str:
        marks = {"passed": "ok  ", "failed": "FAIL", "said": "said", "not run": "open"}
        lines = [f"{marks[c.outcome]}  {c.name:<12} {printable(c.sentence)}" for c in self.checks]
        return "\n".join([*lines, self._verdict_text()])

    def _verdict_text(self) -> str:
        if self.verdict == "failed":
            return " ".join(filter(None, ("THE RELEASE DOES NOT VERIFY.", self.advice)))
        left = [check.name for check in self.checks if check.outcome == "not run"]
        if left:
            what = "a check could not run here" if len(left) == 1 else f"{len(left)} checks could not run here"
            return f"NOT VERIFIED: the release is consistent, but {what}: {', '.join(left)}."
        rest = ", as far as a release can show it; what is marked 'said' rests on the curator's word" * bool(
            self.stated
        )
        return f"The release is what it claims to be{rest}."


def settled(check: Callable[[], object], here: str, there: str) -> None:
    """Compare bytes that a library wrote ``there``; raises UncheckedError if they differ and libraries do too.

    ``here`` is the library that is at hand.
    """
    try:
        check()
    except DataError:
        if here == there:
            raise
        fix = f"verify with {there} to check that the file contains only the records"
        raise UncheckedError(
            sentence("the library here writes these records in other bytes", got=here, fix=fix)
        ) from None


class Audit:
    """Run checks in order; a check that needs a failed one fails too, and one that needs an open one does not run."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def attempt(
        self,
        name: str,
        function: Callable[..., T],
        holds: str | Callable[[T], Phrase],
        *arguments: Any,
        needs: list[Any] | None = None,
    ) -> T | None:
        """Return the result of ``function`` and note the code ``holds``; or note why it fails, and return None."""
        if any(value is None for value in needs or ()):
            failed = any(check.outcome == "failed" for check in self.checks)
            stands: tuple[Outcome, str] = (
                ("failed", "check.stands_on") if failed else ("not run", "check.stands_on_open")
            )
            self.checks.append(Check(name, *stands))
            return None
        stage(Stage.VERIFYING)
        try:
            with well_formed():
                value = function(*arguments)
        except PostrandError as error:
            of_machine = refused(error)  # which says nothing of the release
            outcome: Outcome = "not run" if of_machine or isinstance(error, UncheckedError) else "failed"
            self.checks.append(Check(name, outcome, problems=(of_machine,) if of_machine else _told(name, error)))
        else:
            passed: Outcome = "said" if name == "stated" else "passed"
            self.checks.append(Check(name, passed, *((holds, {}) if isinstance(holds, str) else holds(value))))
            return value
        return None

    def say(self, name: str, code: str, **values: Any) -> None:
        """Note what is stated and cannot be recomputed."""
        self.checks.append(Check(name, "said", code, values))

    def outcome(self, root: Path, raise_if_failed: bool) -> Verification:
        """Return the checks; raises ReleaseError with each that fails, else UncheckedError, if asked."""
        verification = Verification(root, tuple(self.checks))
        if raise_if_failed:
            kind = ReleaseError if verification.verdict == "failed" else UncheckedError
            raise_all(kind, verification.problems, verification.advice)
        return verification


def _told(name: str, error: PostrandError) -> tuple[str, ...]:
    """Return the problems of a check as whoever verifies reads them: without what only the curator could do."""
    keeps = isinstance(error, ReleaseError) or name not in OF_THE_CURATOR
    return error.problems if keeps else tuple(map(without_fix, error.problems))


def plain_files(root: Path) -> tuple[str, ...]:
    """Return the names of the files; links and folders (except the data folder) are refused."""
    raise_all(ReleaseError, no_release(root))
    try:
        found = _entries(root)
        if stat.S_ISDIR(dict(found).get(DATA, 0)):
            parts = [(f"{DATA}/{name}", mode) for name, mode in _entries(root / DATA)]
            found = [entry for entry in found if entry[0] != DATA] + (parts or [(DATA, 0)])
    except OSError as error:
        raise ReleaseError(sentence("no such release", where=str(root), got=error.strerror)) from None
    raise_all(ReleaseError, fields.reserved_names(name for name, _ in found))
    raise_all(
        ReleaseError,
        (sentence(f"{name!r} is not a plain file", where=root.name) for name, mode in found if not stat.S_ISREG(mode)),
    )
    return tuple(name for name, _ in found)


def no_release(root: Path) -> list[str]:
    """Return why there is no release at this place: no folder, or a folder without a manifest."""
    fix = "give the folder that 'postrand protect --out' made"
    if not os.path.lexists(root):
        return [sentence("no such release", where=str(root), fix=fix)]
    if not os.path.isdir(root):  # which knows no name that is too long, as Path.is_dir does
        return [sentence("no such release: a release is a folder", where=str(root), fix=fix)]
    if not os.path.lexists(root / MANIFEST):
        wanted = f"{MANIFEST}, {CERTIFICATE}, {REPORT}, the data, and for perturbed data {CODEBOOK} and {MECHANISM}"
        return [
            sentence(f"this folder is not a release: {MANIFEST} is missing", where=str(root), wanted=wanted, fix=fix)
        ]
    return []


def _entries(folder: Path) -> list[tuple[str, int]]:
    """Return the names in a folder, sorted, with what they are, links not followed."""
    with os.scandir(folder) as entries:
        return sorted((e.name, e.stat(follow_symlinks=False).st_mode) for e in entries)


def load(root: Path, name: str) -> dict[str, Any]:
    """Return the object of a canonical JSON file of the release, without reserved fields, which are empty.

    Raises
    ------
    ReleaseError
        If the file is missing or not canonical, or has a field that its schema does not know or reserves.
    """
    return fields.understood(canonical_json.read(root / name), name)


def check_schema(data: Mapping[str, Any], schemas: Sequence[str], where: str) -> int:
    """Return the number of the data's schema; refuses one that is not in ``schemas``, whose last is current."""
    found, wanted = data.get("schema"), schemas[-1]
    if found not in schemas:
        alike = str(found).rpartition("/")[0] == wanted.rpartition("/")[0]
        fix = "use a newer postrand" if alike else "give a folder of the wanted kind; report.html describes this one"
        raise ReleaseError(sentence("unknown schema", where=where, got=found, wanted=wanted, fix=fix))
    return int(str(found).rpartition("/")[2])


def published(root: Path, wanted: str) -> None:
    """Refuse a manifest whose SHA-256 is not the one published elsewhere."""
    found = hashlib.sha256((root / MANIFEST).read_bytes()).hexdigest()
    if found != wanted.strip().lower():
        raise ReleaseError(sentence("the manifest is not the published one", got=found, wanted=wanted))


def same_files(manifest: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse a manifest that is not the one of the files that are there, naming those that differ."""
    listed, present = manifest["files"], found["files"]
    problems = [sentence(f"{name!r} is listed in the manifest, but missing") for name in listed if name not in present]
    problems += [sentence(f"{name!r} is not listed in the manifest") for name in present if name not in listed]
    problems += [
        sentence(f"{name!r} is not the file that was released")
        for name in listed
        if name in present and listed[name] != present[name]
    ]
    if not problems and canonical_json.dump(found) != canonical_json.dump(manifest):
        problems = [
            sentence("the manifest contains more than it should", got=canonical_json.first_difference(manifest, found))
        ]
    raise_all(ReleaseError, problems)


def as_manifest(root: Path, manifest: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Return the manifest of the present files, in the order of its fields, with the facts that only it states.

    ``more`` are fields beside those that every manifest has.
    """
    package = {"name": "postrand", "version": manifest["package"]["version"]}
    rendered = {n: manifest[n] for n in ("rendering_sha256",) if n in manifest}
    told = {name: manifest[name] for name in ("written_with", *more)}
    return {"schema": manifest["schema"], "package": package, **rendered, **told, "files": listed_files(root)}


def check_rendering(manifest: Mapping[str, Any], is_wanted: bool) -> None:
    """Refuse a manifest that should name the program that rendered its pages and does not."""
    found = manifest.get("rendering_sha256")
    if is_wanted and not (isinstance(found, str) and _SHA256.fullmatch(found)):
        raise ReleaseError(
            sentence("'rendering_sha256', the program that wrote the pages, is missing or invalid", where=MANIFEST)
        )


def same_rendering(manifest: Mapping[str, Any]) -> bool:
    """Whether this program renders pages exactly as the program that the manifest names."""
    there = (manifest["package"]["version"], manifest.get("rendering_sha256"))
    return there == (__version__, rendering.digest())


def check_writer(manifest: Mapping[str, Any], libraries: Iterable[str]) -> None:
    """Refuse an impossible writer: a version without this schema, or a library of another format."""
    package, library = manifest.get("package"), manifest.get("written_with")
    version = package.get("version") if isinstance(package, dict) else None
    if not isinstance(library, str) or not _LIBRARY.fullmatch(library) or not isinstance(version, str):
        raise ReleaseError(sentence("the versions that wrote the release are missing or invalid", where=MANIFEST))
    if library.partition(" ")[0] not in libraries:
        wanted = " or ".join(sorted(libraries))
        raise ReleaseError(
            sentence("this library does not write such data", where=MANIFEST, got=library, wanted=wanted)
        )
    found = _VERSION.fullmatch(version)
    if found is None or number_of(version) < FIRST_VERSION:
        wanted = f"{'.'.join(map(str, FIRST_VERSION))} or later"
        raise ReleaseError(
            sentence("this version of postrand does not write this schema", where=MANIFEST, got=version, wanted=wanted)
        )


def number_of(version: str) -> tuple[int, ...]:
    """Return the number of a version of this package, whatever comes after it.

    >>> number_of("0.10.1rc2") > number_of("0.9")
    True
    """
    found = _VERSION.fullmatch(version)
    return tuple(map(int, found["number"].split("."))) if found else ()
