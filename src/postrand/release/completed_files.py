"""Completed files on the disk: the stacked file of all copies, what says how they were made, and their folder."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from postrand import __version__, formats
from postrand.codebook.not_released import shown_codebook
from postrand.completion import Completed
from postrand.completion import complete as complete_frame
from postrand.completion.diagnostics import Diagnostics, diagnose
from postrand.completion.files import Stacked, copies_problems, write_stacked
from postrand.completion.readme import completed_readme
from postrand.errors import nearest, sentence
from postrand.estimate.pooling_files import STEM
from postrand.mechanism import Mechanism
from postrand.release import atomic, canonical_json, rendering
from postrand.release.bundle import COMPLETED, README, Complete, Release, file_digest, records_of
from postrand.release.table import TABLE, open_data
from postrand.support.progress import Stage, stage

SCHEMA = "postrand/completed/1"
_LIBRARIES = ("numpy", "numba")


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
    return problems


def write_folder(out: str | Path, release: Release, completed: Completed, form: str | None = None) -> dict[str, Any]:
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
        told = put(staging / name, release.data_path, release.mechanism, completed)
        (staging / README).write_bytes(completed_readme(told).encode())
        finish(staging, told, release.path, str(release.manifest["data"]), [name, README])
    return told


def put(path: Path, data: Path, mechanism: Mechanism, completed: Completed) -> dict[str, Any]:
    """Write the stacked file of the copies of released data, and return what is said of it."""
    stage(Stage.WRITING)
    form, released = form_of(data, mechanism, path.name), completed.released
    write_stacked(path, form, released, completed.frames)
    return facts(path, form, mechanism, completed)


def putting(copies: int) -> Complete:
    """Return what makes the completed files of a release that is being written: fresh seed, usual settings."""

    def complete(folder: Path, data: Path, mechanism: Mechanism) -> Callable[[str], dict[str, Any]]:
        frame = records_of(data, mechanism.require_codebook(), mechanism.partly)
        path = folder / completed_name(data)
        told = put(path, data, mechanism, complete_frame(frame, mechanism, copies=copies))

        def end(name: str) -> dict[str, Any]:
            finish(folder, told, folder, name, [path.name])
            return told

        return end

    return complete


def form_of(data: Path, mechanism: Mechanism, name: str) -> Stacked:
    """Return the form of the stacked file ``name`` of released data."""
    shown = shown_codebook(mechanism.require_codebook(), mechanism.partly)
    return Stacked.of(open_data(data, shown).schema, mechanism, Path(name).suffix)


def facts(path: Path, form: Stacked, mechanism: Mechanism, completed: Completed) -> dict[str, Any]:
    """Return what ``completed.json`` says, but for the digests of the release and of the files."""
    settings = {field: getattr(completed.settings, field) for field in ("classes", "chains", "sweeps")}
    found = diagnostics_of(completed)
    return {
        "schema": SCHEMA,
        "package": {"name": "postrand", "version": __version__},
        "rendering_sha256": rendering.digest(),
        "platform": this_platform(),
        "written_with": formats.library_of(path),
        "copies": len(completed.frames),
        "records": completed.released.num_rows,
        "seed": completed.seed,
        "settings": settings,
        "released": {"data": {}, "mechanism_sha256": mechanism.digest()},
        "file": path.name,
        "files": {},
        "perturbed": [n for n in form.true.names if n in form.perturbed],
        "columns": list(form.schema.names),
        "problems": list(found.problems),
        "warnings": list(found.warnings),
        "model": plain(model_summary(completed)),
        "diagnostics": plain(found.to_dict()),
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


def diagnostics_of(completed: Completed) -> Diagnostics:
    """Return the results of the tests of the model, and what it leaves out or takes roughly."""
    modelled = completed.modelled
    rough = {variable.name: variable.note for variable in modelled.variables if variable.note}
    labels = [variable.labels for variable in modelled.variables]
    return diagnose(completed.fit, labels, dict(modelled.left_out), rough)


def this_platform() -> dict[str, str]:
    """Return what the numbers of a fit can depend on: the machine, and the libraries that compute."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def model_summary(completed: Completed) -> dict[str, Any]:
    """Return what was fitted: the variables of the model, what it leaves out, and the classes that have records."""
    modelled, fit = completed.modelled, completed.fit
    variables = [
        {"name": v.name, "kind": v.kind, "categories": v.size, **({"note": v.note} if v.note else {})}
        for v in modelled.variables
    ]
    return {
        "kind": "mixture of products of categories",
        "variables": variables,
        "left_out": [{"name": name, "reason": reason} for name, reason in modelled.left_out],
        "classes": len(fit.draws[0].weights),
        "occupied": {"most": int(fit.occupied.max()), "mean": round(float(fit.occupied.mean()), 2)},
    }


def plain(value: Any) -> Any:
    """Return plain data for JSON: None for numbers that are not finite, lists for arrays.

    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
