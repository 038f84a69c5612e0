"""What a person says of a data set, and what another description says of its columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from postrand.codebook.perturbed_labels import as_json
from postrand.errors import SpecificationError, raise_all, sentence
from postrand.formats import Source

DDI, CROISSANT = "ddi.xml", "croissant.json"
"""The files of a release that hold the description."""

Described = Mapping[str, Mapping[str, str]]
"""For each column the texts ``label``, ``value_labels`` and ``missing_codes`` that ``postrand.plan.infer`` reads."""


@dataclass(frozen=True, slots=True)
class Description:
    """Describe the data set for catalogues; all texts are optional and published as they are.

    Raises
    ------
    SpecificationError
        If a field is not text.
    """

    title: str = ""
    description: str = ""
    creator: str = ""
    publisher: str = ""
    license: str = ""
    url: str = ""
    citation: str = ""
    date_published: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        names = [f.name for f in dataclasses.fields(self)]
        wrong = [sentence(f"{n!r} is not text") for n in names if not isinstance(getattr(self, n), str)]
        raise_all(SpecificationError, wrong)

    def to_dict(self) -> dict[str, str]:
        """Return plain data for JSON; empty texts are left out."""
        return {name: text for name, text in dataclasses.asdict(self).items() if text}


def described(source: Source, given: Described) -> Source:
    """Return the source with these texts in its schema, in place of its own.

    Raises
    ------
    SpecificationError
        If no column of the source is described.
    """
    if not set(given) & set(source.schema.names):
        raise SpecificationError(
            sentence("the description does not name any column of the file", fix="check that it belongs to this file")
        )
    fields = [_field(field, given.get(field.name, {})) for field in source.schema]
    changed: Any = source  # every source is a frozen dataclass with its schema in a field
    return dataclasses.replace(changed, schema=pa.schema(fields, metadata=source.schema.metadata))  # type: ignore[no-any-return]


def _field(field: pa.Field, given: Mapping[str, str]) -> pa.Field:
    own = {k.decode(): v.decode("utf-8", "replace") for k, v in (field.metadata or {}).items()}
    return field.with_metadata({**own, **{k: v for k, v in given.items() if v}})


def packed(label: str, value_labels: Mapping[str, str], missing: list[Any]) -> dict[str, str]:
    """Return the texts of one column; empty ones are left out."""
    said = {
        "label": label,
        "value_labels": as_json(value_labels),
        "missing_codes": as_json(missing),
    }
    return {k: v for k, v in said.items() if v}
