"""What every verification is made of: checks that are run in order, and the files of a release as bytes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from postrand.errors import DataError, PostrandError, ReleaseError, printable, raise_all, sentence
from postrand.release import canonical
from postrand.release.bundle import CERTIFICATE, CODEBOOK, DATA, MANIFEST, MECHANISM, REPORT, well_formed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: its name, whether it holds, and a sentence that says what was found.

    ``ok`` is None for what the release states and nobody can recompute from it: neither verified nor a failure.
    """

    name: str
    ok: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of :func:`verify`, check by check."""

    path: Path
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check fails; claims that rest on the file are then still only stated, see :attr:`stated`."""
        return all(check.ok is not False for check in self.checks)

    @property
    def stated(self) -> tuple[str, ...]:
        """What the release states and does not suffice to recompute."""
        return tuple(check.sentence for check in self.checks if check.ok is None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        checks = [{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in self.checks]
        return {"release": str(self.path), "ok": self.ok, "checks": checks}

    def __str__(self) -> str:
        marks = {True: "ok  ", False: "FAIL", None: "said"}
        lines = [f"{marks[c.ok]}  {c.name:<12} {printable(c.sentence)}" for c in self.checks]
        verdict = "The release is what it claims to be." if self.ok else "THE RELEASE DOES NOT VERIFY."
        if self.ok and self.stated:
            verdict = "The release is what it claims to be; what is only said rests on the curator's word."
        return "\n".join([*lines, verdict])


class Unsettled(ReleaseError):
    """Say that a check can tell neither that something holds nor that it does not."""


def settled(check: Callable[[], object], here: str, there: str) -> bool:
    """Run a check of bytes that a library wrote ``there``; raises Unsettled where it fails, and ``here`` is another."""
    try:
        check()
    except DataError:
        if here == there:
            raise
        fix = f"verify with {there} to see that nothing is in the bytes beside the records"
        raise Unsettled(sentence("another library writes these records in other bytes", got=here, fix=fix)) from None
    return True


class Audit:
    """Run checks in order; one that stands on a failed one fails too."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def attempt(
        self,
        name: str,
        function: Callable[..., T],
        holds: str | Callable[[T], str],
        *arguments: Any,
        needs: list[Any] | None = None,
    ) -> T | None:
        """Return what ``function`` gives, and note ``holds``; or note why it fails, and return None."""
        if any(value is None for value in needs or ()):
            self.checks.append(Check(name, False, "could not be checked, since an earlier check failed"))
            return None
        try:
            with well_formed():
                value = function(*arguments)
        except Unsettled as error:
            self.say(name, " ".join(error.problems))
        except PostrandError as error:
            self.checks.append(Check(name, False, " ".join(error.problems)))
        else:
            ok = None if name == "stated" else True
            self.checks.append(Check(name, ok, holds if isinstance(holds, str) else holds(value)))
            return value
        return None

    def say(self, name: str, text: str) -> None:
        """Note what is stated, and cannot be recomputed."""
        self.checks.append(Check(name, None, text))

    def outcome(self, root: Path, raise_if_failed: bool) -> Verification:
        """Return the checks; raises ReleaseError with each that fails, if asked."""
        verification = Verification(root, tuple(self.checks))
        if raise_if_failed:
            failed = (c for c in verification.checks if c.ok is False)
            raise_all(ReleaseError, (f"{root.name or root}, {c.name}: {c.sentence}" for c in failed))
        return verification


def plain_files(root: Path) -> tuple[str, ...]:
    """Return the names of the files; links, and folders but that of the data, are refused: nothing outside is read."""
    raise_all(ReleaseError, no_release(root))
    try:
        found = _entries(root)
        if stat.S_ISDIR(dict(found).get(DATA, 0)):
            parts = [(f"{DATA}/{name}", mode) for name, mode in _entries(root / DATA)]
            found = [entry for entry in found if entry[0] != DATA] + (parts or [(DATA, 0)])
    except OSError as error:
        raise ReleaseError(sentence("no such release", where=str(root), got=error.strerror)) from None
    raise_all(
        ReleaseError,
        (sentence(f"{name!r} is not a plain file", where=root.name) for name, mode in found if not stat.S_ISREG(mode)),
    )
    return tuple(name for name, _ in found)


def no_release(root: Path) -> list[str]:
    """Say why there is nothing at this place that could be verified: no folder, or one without a manifest."""
    fix = "name the folder that 'postrand protect --out' made"
    if not os.path.lexists(root):
        return [sentence("no such release", where=str(root), fix=fix)]
    if not os.path.isdir(root):  # which knows no name that is too long, as Path.is_dir does
        return [sentence("no such release: a release is a folder", where=str(root), fix=fix)]
    if not os.path.lexists(root / MANIFEST):
        wanted = f"{MANIFEST}, {CERTIFICATE}, {REPORT}, the data, and for perturbed data {CODEBOOK} and {MECHANISM}"
        return [sentence(f"this folder is no release: {MANIFEST} is missing", where=str(root), wanted=wanted, fix=fix)]
    return []


def _entries(folder: Path) -> list[tuple[str, int]]:
    """Return the names in a folder, sorted, with what they are, links not followed."""
    with os.scandir(folder) as entries:
        return sorted((e.name, e.stat(follow_symlinks=False).st_mode) for e in entries)


def load(root: Path, name: str) -> dict[str, Any]:
    """Return the object of a canonical JSON file of the release."""
    try:
        canonical.check_size((root / name).stat().st_size, name)
        data = (root / name).read_bytes()
    except OSError:
        raise ReleaseError(sentence(f"{name} is missing", where=str(root))) from None
    return canonical.parse(data, name)


def check_schema(data: Mapping[str, Any], wanted: str, where: str) -> None:
    """Refuse data of another schema."""
    found = data.get("schema")
    if found != wanted:
        alike = str(found).rpartition("/")[0] == wanted.rpartition("/")[0]
        fix = (
            "use a newer postrand"
            if alike
            else "name a folder of the kind that is wanted; for this one see its report.html"
        )
        raise ReleaseError(sentence("unknown schema", where=where, got=found, wanted=wanted, fix=fix))


def published(root: Path, wanted: str) -> bool:
    """Refuse a manifest whose SHA-256 is not the one published elsewhere."""
    found = hashlib.sha256((root / MANIFEST).read_bytes()).hexdigest()
    if found != wanted.strip().lower():
        raise ReleaseError(sentence("the manifest is not the published one", got=found, wanted=wanted))
    return True


def same_files(manifest: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Refuse a manifest that is not the one of the files that are there, naming those that differ."""
    listed, present = manifest["files"], found["files"]
    problems = [sentence(f"{name!r} is listed, and missing") for name in listed if name not in present]
    problems += [sentence(f"{name!r} is not listed in the manifest") for name in present if name not in listed]
    problems += [
        sentence(f"{name!r} is not the file that was released")
        for name in listed
        if name in present and listed[name] != present[name]
    ]
    if not problems and canonical.dump(found) != canonical.dump(manifest):
        problems = [sentence("the manifest says more than it may", got=canonical.first_difference(manifest, found))]
    raise_all(ReleaseError, problems)
    return True
