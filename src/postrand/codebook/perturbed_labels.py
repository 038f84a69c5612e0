"""Labels in files of statistical programs: those of the codebook, and that the values of a column are perturbed.

Who opens such a file sees the labels of a column and its values, and perhaps nothing else of the release.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from postrand.codebook.codebook import Codebook
from postrand.codebook.coding import is_text
from postrand.codebook.not_released import METADATA_KEY
from postrand.codebook.variable import Variable

MARK = "(perturbed)"
LABEL, VALUES = b"label", b"value_labels"
"""Of a column's metadata: its label, and those of its values as JSON by their texts."""


def marked_label(variable: Variable) -> str:
    """Return the label of a variable with the mark.

    >>> marked_label(Variable("sex", role="key", categories=("F", "M"), label="Sex of the person"))
    'Sex of the person (perturbed)'
    """
    return f"{variable.label} {MARK}".strip()


def marked_labels(codebook: Codebook, perturbed: Collection[str], room: int) -> dict[str, str]:
    """Return the marked labels of perturbed variables, by name, that have at most ``room`` bytes."""
    labels = {v.name: marked_label(v) for v in codebook.variables if v.name in perturbed}
    return {name: text for name, text in labels.items() if len(text.encode()) <= room}


def value_labels(variable: Variable) -> dict[str, str]:
    """Return the labels of a variable's categories that say more than the category, by its text.

    >>> value_labels(Variable("days", role="other", categories=(29, 30), labels=("29", "30 and more"), type="int64"))
    {'30': '30 and more'}
    """
    pairs = zip(map(str, variable.categories), variable.labels, strict=False)
    return {text: label for text, label in pairs if label != text}


def as_json(told: Mapping[str, str] | Sequence[Any]) -> str:
    """Return labels or codes of values as metadata hold them; an empty text where there are none.

    >>> as_json({"1": "Woman"}), as_json({})
    ('{"1": "Woman"}', '')
    """
    return json.dumps(told, ensure_ascii=False) if told else ""


def published_labels(
    codebook: Codebook, perturbed: Collection[str] = (), room: int = 0
) -> dict[str, dict[bytes, bytes]]:
    """Return what the metadata of columns say by the codebook, in a file for people: labels of columns and of values.

    The label of one that is ``perturbed`` says so, where it then has at most ``room`` bytes.
    """
    marks, found = marked_labels(codebook, perturbed, room), dict[str, dict[bytes, bytes]]()
    for variable in codebook.variables:
        labels = value_labels(variable)
        said = {
            LABEL: marks.get(variable.name, variable.label),
            VALUES: as_json(labels),
        }
        if kept := {key: text.encode() for key, text in said.items() if text}:
            found[variable.name] = kept
    return found


def label_alone(field: pa.Field) -> pa.Field:
    """Return a column with its label and no other words: those of its values do not hold of averages.

    >>> label_alone(pa.field("pay", pa.float64(), metadata={"label": "Pay", "missing_codes": "[-9]"})).metadata
    {b'label': b'Pay'}
    """
    return field.with_metadata({key: text for key, text in (field.metadata or {}).items() if key == LABEL})


def labelled(schema: pa.Schema, labels: Mapping[str, Mapping[bytes, bytes]]) -> pa.Schema:
    """Return the schema with these labels of columns and of values, by name.

    A value that a column of this type does not read back gets none. Variables of a split have theirs already.
    """
    return pa.schema([_with_labels(f, labels.get(f.name, {})) for f in schema], schema.metadata)


def _with_labels(field: pa.Field, labels: Mapping[bytes, bytes]) -> pa.Field:
    own, said = field.metadata or {}, dict(labels)
    more = json.loads(said.pop(VALUES, b"{}"))
    if METADATA_KEY not in own:
        values = json.loads(own.get(VALUES, b"{}"))
        values |= {text: label for text, label in more.items() if _comes_back(text, field.type)}
        said |= {VALUES: as_json(values).encode()} if values else {}
    return field.with_metadata({**own, **said}) if said else field


def _comes_back(text: str, of: pa.DataType) -> bool:
    """Whether a file of numbers gives this text of a category back; texts are as they are."""
    if is_text(of):
        return True
    try:
        return str(int(text) if pa.types.is_integer(of) else float(text)) == text
    except ValueError:
        return False


def as_labelled(variable: Variable, label: str | None) -> Variable:
    """Return the variable with the mark in its label if this label of a column has it.

    >>> sex = Variable("sex", role="key", categories=("F", "M"), label="Sex")
    >>> as_labelled(sex, "Sex (perturbed)").label, as_labelled(sex, "Other (perturbed)").label
    ('Sex (perturbed)', 'Sex')
    """
    marked = marked_label(variable)
    return replace(variable, label=marked) if label == marked else variable
