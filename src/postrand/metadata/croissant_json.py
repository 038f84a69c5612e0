"""Croissant 1.0 with its vocabulary for responsible AI (MLCommons): a data set's description as JSON-LD."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import formats
from postrand.certification.certificate import Certificate
from postrand.codebook import Variable
from postrand.codebook.coding import arrow_type, value_type
from postrand.mechanism import Mechanism
from postrand.metadata.ddi_xml import PROCESSING, held_values, processing
from postrand.metadata.description import Description

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "recordSet": "cr:recordSet",
    "source": "cr:source",
}
CONFORMS = ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"]


def croissant(
    description: Description,
    data_path: Path,
    mechanism: Mechanism,
    certificate: Certificate,
    completed: Mapping[str, Any] | None = None,
) -> str:
    """Return the JSON-LD of a release: its file with digest, its columns, what was done to them and what that means.

    ``completed`` is what ``completed.json`` says; the stacked file that it describes is beside the data.
    """
    copies = [] if completed is None else [data_path.with_name(str(completed["file"]))]
    book = mechanism.require_codebook()
    told = {
        "description": description.description or PROCESSING,
        "creator": description.creator,
        "publisher": description.publisher,
        "license": description.license,
        "url": description.url,
        "citeAs": description.citation,
        "datePublished": description.date_published,
        "version": description.version,
    }
    data = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS,
        "name": description.title or data_path.stem,
        **{name: text for name, text in told.items() if text},
        **_responsible(mechanism, certificate, completed),
        "distribution": [*_distribution(data_path), *(_file(path, path.name) for path in copies)],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "records",
                "name": "records",
                "field": [_field(v, data_path, mechanism) for v in book.variables],
            }
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _distribution(data_path: Path) -> list[dict[str, Any]]:
    """Return the data file; or the set of files, and each of them, where the data is a folder."""
    if not data_path.is_dir():
        return [_file(data_path, data_path.name)]
    files = [_file(path, f"{data_path.name}/{path.name}") for path in sorted(data_path.iterdir())]
    pattern, encoding = f"{data_path.name}/*{Path(files[0]['name']).suffix}", files[0]["encodingFormat"]
    together = {"@type": "cr:FileSet", "@id": data_path.name, "name": data_path.name}
    return [{**together, "includes": pattern, "encodingFormat": encoding}, *files]


def _file(path: Path, name: str) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": _media_type(path),
        "sha256": digest,
    }


def _media_type(path: Path) -> str:
    """Return the media type of a data file, or of the file that names the table with the data."""
    return "application/json" if path.suffix == ".json" else formats.format_of(path).media_type


def _responsible(mechanism: Mechanism, certificate: Certificate, completed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the RAI part: protection, limits and use."""
    book = mechanism.require_codebook()
    told = [f"{v.name}: {MEANING[v.role]}" for v in book.variables if v.role in MEANING]
    return {
        "rai:personalSensitiveInformation": told,
        "rai:dataManipulationProtocol": [*processing(mechanism, completed), *certificate.sentences],
        "rai:dataLimitations": list(certificate.not_covered),
        "rai:dataUseCases": [
            "Estimation of tables, shares and models, corrected for the perturbation with the published matrices.",
            "Not for learning about a single record: each one was perturbed.",
        ],
    }


MEANING = {"key": "identifying, known to others", "sensitive": "sensitive"}


_KINDS = {str: "sc:Text", float: "sc:Float", int: "sc:Integer"}


def _field(variable: Variable, data: Path, mechanism: Mechanism) -> dict[str, Any]:
    said = [variable.label] if variable.label else []
    recode = mechanism.require_codebook().recode_of(variable.name)
    if recode is not None:
        said.append(recode.in_words())
    if variable.name in mechanism.variables:
        said.append("Perturbed by post-randomisation.")
    kind = _data_type(variable)
    if variable.name in mechanism.partly:
        held = held_values(variable, mechanism, data)
        kind = next((k for of, k in _KINDS.items() if any(type(value) is of for value in held[:-1])), kind)
        said.append(f"Some records do not show it: there its value is {held[-1]}, which is not a missing value.")
    return {
        "@type": "cr:Field",
        "@id": f"records/{variable.name}",
        "name": variable.name,
        **({"description": " ".join(said)} if said else {}),
        "dataType": kind,
        "source": {"fileObject": {"@id": data.name}, "extract": {"column": variable.name}},
    }


def _data_type(variable: Variable) -> str:
    held = value_type(arrow_type(variable.type))
    tests = (
        ("sc:Boolean", pa.types.is_boolean),
        ("sc:Integer", pa.types.is_integer),
        ("sc:Float", pa.types.is_floating),
        ("sc:Date", pa.types.is_temporal),
    )
    return next((name for name, test in tests if test(held)), "sc:Text")
