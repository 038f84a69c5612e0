"""Completed files on the disk: the stacked file of all copies, what says how they were made, and their folder."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from postrand import __version__, completion, formats, report
from postrand.codebook.not_released import shown_codebook
from postrand.codebook.survey_design import survey_to_dict
from postrand.completion.files import Stacked, copies_problems, write_stacked
from postrand.completion.readme import completed_readme
from postrand.errors import nearest, sentence
from postrand.estimate.pooling_files import STEM
from postrand.mechanism import Mechanism
from postrand.release import atomic, canonical_json, rendering
from postrand.release.bundle import COMPLETED, README, REPORT, Complete, Release, file_digest, records_of
from postrand.release.table import TABLE, open_data, table_schema
from postrand.support.progress import Stage, stage
from postrand.support.warned import warn

SCHEMA = "postrand/completed/1"
_LIBRARIES = ("numpy", "numba")


class CompletedWarning(UserWarning):
    """The model of completed files failed a test: they are written, and marked."""


def completed_name(data: Path) -> str:
    """Return the name of the stacked file in the format of released data.

    Data in a folder of files become one file, in their format; those of a database become Parquet.

    >>> completed_name(Path("data.sav")), completed_name(Path("table.json"))
    ('completed.sav', 'completed.parquet')
    """
    if data.name == TABLE:
        return f"{STEM}.parquet"
    return f"{STEM}{(next(data.iterdir()) if data.is_dir() else data).suffix}"


def request_problems(out: Path, release: Path, copies: int | None, form: str | None) -> list[str]:
    """Return a sentence for each reason why completed files cannot be made so, before any work."""
    problems = [*atomic.target_problems(out), *([] if copies is None else copies_problems(copies, "--copies"))]
    if out.resolve().is_relative_to(release.resolve()):
        what = "completed files cannot be put into a release, which would not verify with them"
        problems.append(sentence(what, where=str(out), fix="give a folder beside it"))
    known = tuple(formats.written_names())
    if form is not None and form not in known:
        what = f"unknown format {form!r}{nearest(form, known)}"
        problems.append(sentence(what, where="--format", wanted=", ".join(known)))
    elif form is not None and (told := formats.missing_library(f"{STEM}.{form}")):
        problems.append(told)
    return problems


def write_folder(
    out: str | Path, release: Release, completed: completion.Completed, form: str | None = None
) -> dict[str, Any]:
    """Write completed copies of a release to a new folder: complete or absent; return what ``completed.json`` says.

    ``form`` is a format such as ``"dta"``; without it, that of the released data.

    Raises
    ------
    ReleaseError
        If the folder exists, or the disk refuses a step of the writing.
    DataError
        If the format cannot hold a value.
    """
    with atomic.appearing(Path(out)) as staging:
        name = completed_name(release.data_path) if form is None else f"{STEM}.{form}"
        told = put(staging / name, columns_of(release.data_path, release.mechanism), release.mechanism, completed)
        made = pages(told, str(release.manifest["data"]))
        for page, content in made.items():
            (staging / page).write_bytes(content)
        finish(staging, told, release.path, str(release.manifest["data"]), [name, *made])
    return told


def pages(told: Mapping[str, Any], data: str) -> dict[str, bytes]:
    """Return the pages of a folder of completed files by name; ``data`` is the name of the released data."""
    return {README: completed_readme(told).encode(), REPORT: report.completed_report(told, data).encode()}


def put(path: Path, columns: pa.Schema, mechanism: Mechanism, completed: completion.Completed) -> dict[str, Any]:
    """Write the stacked file of the copies of released data with these columns, and return what is said of it."""
    stage(Stage.WRITING)
    form, released = Stacked.of(columns, mechanism, path.suffix), completed.released
    write_stacked(path, form, released, completed.frames)
    return facts(path, form, mechanism, completed)


def putting(copies: int) -> Complete:
    """Return what makes the completed files of a release that is being written: fresh seed, usual settings."""

    def complete(folder: Path, data: Path, mechanism: Mechanism, as_table: bool) -> Callable[[str], dict[str, Any]]:
        frame = records_of(data, mechanism.require_codebook(), mechanism.partly)
        path = folder / completed_name(data)
        columns = columns_of(data, mechanism, as_table)
        told = put(path, columns, mechanism, completion.complete(frame, mechanism, copies=copies))
        for text in told["problems"]:
            warn(f"the model of the completed files failed a test: {text}", CompletedWarning, stacklevel=2)

        def end(name: str) -> dict[str, Any]:
            finish(folder, told, folder, name, [path.name])
            return told

        return end

    return complete


def columns_of(data: Path, mechanism: Mechanism, as_table: bool = False) -> pa.Schema:
    """Return the columns of released data, or those that they have ``as_table`` of a database."""
    shown = shown_codebook(mechanism.require_codebook(), mechanism.partly)
    return table_schema(shown) if as_table else open_data(data, shown).schema


def facts(path: Path, form: Stacked, mechanism: Mechanism, completed: completion.Completed) -> dict[str, Any]:
    """Return what ``completed.json`` says, but for the digests of the release and of the files."""
    found = completed.diagnostics
    return {
        "schema": SCHEMA,
        "package": {"name": "postrand", "version": __version__},
        "rendering_sha256": rendering.digest(),
        "platform": this_platform(),
        "written_with": formats.library_of(path),
        "copies": len(completed.frames),
        "records": completed.released.num_rows,
        "seed": completed.seed,
        "settings": settings_of(completed),
        "released": {"data": {}, "mechanism_sha256": mechanism.digest()},
        "file": path.name,
        "files": {},
        "perturbed": [n for n in form.true.names if n in form.perturbed],
        "columns": list(form.schema.names),
        "stored_as": dict(form.stored_as),
        "problems": list(found.problems),
        "warnings": notes(found),
        "totals": totals_of(completed),
        **survey_of(mechanism),
        "model": model_summary(completed),
        "diagnostics": found.to_dict(),
    }


def finish(folder: Path, told: dict[str, Any], root: Path, data: str, names: Sequence[str]) -> None:
    """Write ``completed.json``, with the digests of the released data in ``root`` and of the files beside it."""
    told["released"]["data"] = data_digests(root, data)
    told["files"] = {n: {"bytes": (folder / n).stat().st_size, "sha256": file_digest(folder / n)} for n in names}
    (folder / COMPLETED).write_bytes(canonical_json.dump(told))


def data_digests(root: Path, data: str) -> dict[str, str]:
    """Return the digest of each file of the released data, by its name in the release."""
    place = root / data
    names = [f"{data}/{path.name}" for path in sorted(place.iterdir())] if place.is_dir() else [data]
    return {name: file_digest(root / name) for name in names}


def notes(found: completion.Diagnostics) -> list[str]:
    """Return what a reader must know of the copies: warnings, and what it costs to meet totals."""
    return [*dict.fromkeys([*found.warnings, *(() if found.totals is None else found.totals.sentences)])]


def settings_of(completed: completion.Completed) -> dict[str, Any]:
    """Return the settings that the copies follow from, by the names that :func:`postrand.complete` has for them."""
    return {**dataclasses.asdict(completed.settings), "anchor": completed.anchor}


def totals_of(completed: completion.Completed) -> list[dict[str, Any]]:
    """Return the published totals that every copy meets: for each table its variables, cells and totals."""
    held = [([completed.modelled.variables[p].name for p in t.places], t.counts) for t in completed.totals.tables]
    tables = [(names, [_categories(completed, name) for name in names], counts) for names, counts in held]
    tables += [(list(one.names), list(one.labels), one.counts) for one in completed.totals.met]
    found = []
    for names, texts, table in tables:
        cells = [
            [known[code] for known, code in zip(texts, cell, strict=True)] for cell in np.ndindex(*map(len, texts))
        ]
        counts = [round(float(count)) for count in table.ravel()]
        found.append({"variables": names, "categories": cells, "totals": counts})
    return found


def _categories(completed: completion.Completed, name: str) -> tuple[str, ...]:
    """Return the texts by which totals name the categories of a variable: values, or labels where it has none."""
    variable, book = completed.modelled[name], completed.modelled.codebook
    values = tuple(map(str, book[name].categories)) if variable.kind == "perturbed" else ()
    return (*values, *variable.labels[len(values) :])


def survey_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return the survey design that the codebook of a release records, as the field of ``completed.json``; or {}."""
    book = mechanism.codebook
    return {} if book is None or book.survey is None else {"survey": survey_to_dict(book.survey)}


def given_totals(stated: Sequence[Mapping[str, Any]]) -> dict[Any, dict[Any, float]] | None:
    """Return totals as :func:`postrand.completion.complete` takes them, from what ``completed.json`` says."""
    tables: dict[Any, dict[Any, float]] = {
        tuple(one["variables"]): {tuple(c): n for c, n in zip(one["categories"], one["totals"], strict=True)}
        for one in stated
    }
    return tables or None


def this_platform() -> dict[str, str]:
    """Return what the numbers of a fit can depend on: the machine, and the libraries that compute."""
    from importlib import metadata  # 15 ms, and every command loads this module

    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def model_summary(completed: completion.Completed) -> dict[str, Any]:
    """Return what was fitted: the variables of the model, what it leaves out, and the classes that have records."""
    modelled, fit = completed.modelled, completed.fit
    variables = [
        {"name": v.name, "kind": v.kind, "categories": v.size, **({"note": v.note} if v.note else {})}
        for v in modelled.variables
    ]
    return {
        "kind": "mixture of products of categories",
        "variables": variables,
        "related": list(completed.related.names) if completed.related is not None else [],
        "left_out": [{"name": name, "reason": reason} for name, reason in modelled.left_out],
        "classes": len(fit.draws[0].weights),
        "occupied": {"most": int(fit.occupied.max()), "mean": round(float(fit.occupied.mean()), 2)},
    }
