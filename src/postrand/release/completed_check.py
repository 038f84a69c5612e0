"""Check completed files against their release: digests, values, and, where the platform allows, the draws again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from postrand import __version__, completion, formats
from postrand.codebook.survey_design import survey_from_dict
from postrand.completion.files import Stacked, check_stacked, copies_problems, stacked_batches
from postrand.errors import DataError, ReleaseError, UncheckedError, raise_all, sentence
from postrand.estimate.pooling_files import STEM
from postrand.mechanism import Mechanism
from postrand.release import canonical_json
from postrand.release.bundle import COMPLETED, file_digest, records_of
from postrand.release.checks import Audit, Phrase, check_schema, load, settled
from postrand.release.completed_files import (
    SCHEMA,
    columns_of,
    data_digests,
    given_totals,
    notes,
    survey_of,
    this_platform,
)
from postrand.support.inputs import is_whole

FIX = "do not use these files: make them again with 'postrand complete'"


def stated(folder: Path) -> dict[str, Any]:
    """Return what ``completed.json`` of a folder says, if it is well formed.

    Raises
    ------
    ReleaseError, SpecificationError
        If it is missing, or not well formed.
    """
    told = load(folder, COMPLETED)
    check_schema(told, (SCHEMA,), COMPLETED)
    name, digests = told["file"], told["files"]
    problems = copies_problems(told["copies"], COMPLETED)
    if Path(name).name != name or Path(name).stem != STEM or name not in digests:
        problems.append(sentence("the name of the stacked file is none of these files", where=COMPLETED))
    for field in ("problems", "warnings", "perturbed", "columns"):
        if not all(isinstance(text, str) for text in told[field]):
            problems.append(sentence(f"{field!r} is not a list of texts", where=COMPLETED))
    if not (is_whole(told["seed"]) and is_whole(told["records"], 1)):
        problems.append(sentence("the seed or the number of records is not a whole number", where=COMPLETED))
    raise_all(ReleaseError, problems)
    if "survey" in told:
        survey_from_dict(told["survey"], f"{COMPLETED}, survey", told["columns"])
    return told


def attempt(
    audit: Audit,
    folder: Path,
    told: Mapping[str, Any] | None,
    root: Path,
    data: str,
    mechanism: Mechanism | None,
    *,
    redo: bool,
) -> None:
    """Run the checks of the completed files in ``folder`` against the release in ``root``, and note what is said.

    ``told`` is what they state, and ``data`` the name of the released data; each is None where it could not be read.
    """
    place: list[Any] = [folder, told, root, data, mechanism]
    differing = audit.attempt("copies", _fit, _fit_told(told), *place, needs=[told, mechanism])
    audit.attempt("copies_bytes", _bytes, "check.bytes", folder, told, differing, needs=[differing])
    if redo:
        audit.attempt("redone", _redone, "check.redone", *place, needs=[differing])
    if told is None:
        return
    if not any(check.name == "redone" and check.ok for check in audit.checks):
        audit.say("copies_made", "said.completed", seed=told["seed"])
    if told["problems"]:
        audit.say("model", "said.completed_problems", problems=len(told["problems"]))


def _fit_told(told: Mapping[str, Any] | None) -> Callable[[Any], Phrase]:
    """Return what is said of copies that fit the release."""
    return lambda _: ("check.copies", {name: (told or {})[name] for name in ("copies", "records")})


def _fit(folder: Path, told: Mapping[str, Any], root: Path, data: str, mechanism: Mechanism) -> list[DataError]:
    """Compare the copies with the released records; return an error if the bytes are not those of their records.

    Raises
    ------
    ReleaseError, DataError
        If a file has another digest, belongs to another release, or does not fit the released records.
    """
    released, path = records_of(root / data, mechanism.require_codebook(), mechanism.partly), folder / told["file"]
    wrong = [name for name, said in told["files"].items() if not _is(folder / name, said)]
    problems = [sentence(f"{name!r} is not the file that was made", where=COMPLETED, fix=FIX) for name in wrong]
    made_of = {"data": data_digests(root, data), "mechanism_sha256": mechanism.digest()}
    if told["released"] != made_of:
        what = "the files were made from another release"
        problems.append(sentence(what, where=COMPLETED, fix="give the release that they were made from"))
    elif told["records"] != released.num_rows:
        what = "the number of records is another one"
        problems.append(sentence(what, where=COMPLETED, got=told["records"], wanted=released.num_rows))
    form = _form(told, root, data, mechanism)
    said = {"perturbed": [n for n in form.true.names if n in form.perturbed], "columns": list(form.schema.names)}
    if "survey" in told and told["survey"] != survey_of(mechanism).get("survey"):  # earlier files do not record it
        problems.append(sentence("'survey' is not that of the release", where=COMPLETED))
    if "stored_as" in told and told["stored_as"] != dict(form.stored_as):
        problems.append(sentence("'stored_as' does not follow from the release", where=COMPLETED))
    what = "are not those of the release"
    problems += [sentence(f"{field!r} {what}", where=COMPLETED) for field in said if told[field] != said[field]]
    raise_all(ReleaseError, problems)
    return check_stacked(path, form, mechanism, released, told["copies"])


def _form(told: Mapping[str, Any], root: Path, data: str, mechanism: Mechanism) -> Stacked:
    """Return the form of the stacked file; earlier ones, which do not say how columns are stored, have another."""
    columns, suffix = columns_of(root / data, mechanism), Path(told["file"]).suffix
    return Stacked.of(columns, mechanism, suffix, earlier="stored_as" not in told)


def _bytes(folder: Path, told: Mapping[str, Any], differing: list[DataError]) -> None:
    """Refuse a file with other bytes than its records give, if the library here is the one that wrote it."""

    def check() -> None:
        if differing:
            raise differing[0]

    settled(check, formats.library_of(folder / told["file"]), told["written_with"])


def _is(path: Path, said: Mapping[str, Any]) -> bool:
    plain_file = os.path.isfile(path) and not os.path.islink(path)
    return plain_file and said == {"bytes": path.stat().st_size, "sha256": file_digest(path)}


def _redone(folder: Path, told: Mapping[str, Any], root: Path, data: str, mechanism: Mechanism) -> bool:
    """Make the copies again from the release and their seed, and compare all.

    Raises
    ------
    UncheckedError
        If another platform, another version of this package or of a library made them.
    ReleaseError
        If they are others.
    """
    path = folder / told["file"]
    there = {**told["platform"], "postrand": told["package"]["version"], "format": told["written_with"]}
    here = {**this_platform(), "postrand": __version__, "format": formats.library_of(path)}
    if other := [name for name in here if here[name] != there.get(name) and name != "python"]:
        what = "these copies cannot be made again here: another platform made them"
        got, wanted = (", ".join(f"{n} {of.get(n, '')}" for n in other) for of in (here, there))
        raise UncheckedError(sentence(what, where=COMPLETED, got=got, wanted=wanted))
    frame = records_of(root / data, mechanism.require_codebook(), mechanism.partly)
    totals = given_totals(told["totals"])
    made = completion.complete(
        frame, mechanism, copies=told["copies"], seed=told["seed"], totals=totals, **told["settings"]
    )
    form = _form(told, root, data, mechanism)
    try:
        with formats.open_comparison(path, form.schema) as writer:
            for batch in stacked_batches(form, frame, made.frames):
                writer.write(batch)
    except DataError:
        what = "the seed gives other copies: these were not made from the release as stated"
        raise ReleaseError(sentence(what, where=path.name, fix=FIX)) from None
    found = made.diagnostics
    again = canonical_json.plain({**found.to_dict(), "": [list(found.problems), notes(found)]})
    if again != {**told["diagnostics"], "": [told["problems"], told["warnings"]]}:
        what = "the tests of the model give other results than stated"
        raise ReleaseError(sentence(what, where=COMPLETED, fix=FIX))
    return True
