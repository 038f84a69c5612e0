"""Validate plain data by the part of JSON Schema (2020-12) that the schemas of a release are written in."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

KEYWORDS = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "x-reserved",
    "type", "const", "enum", "pattern", "minimum", "items", "properties", "required", "additionalProperties", "anyOf",
}  # fmt: skip
"""All that a schema may say: a keyword that nothing here tests is a mistake."""
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def problems(value: Any, schema: Mapping[str, Any], whole: Mapping[str, Any], where: str = "$") -> Iterator[str]:
    """Yield what is wrong with a value, each with its place."""
    unknown = set(schema) - KEYWORDS
    assert not unknown, unknown
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and all(list(problems(value, part, whole, where)) for part in schema["anyOf"]):
        yield f"{where}: fits none of several forms"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{where}: not {' or '.join(kinds)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: not one of {schema['enum']!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{where}: not of the pattern"
    if "minimum" in schema and _is(value, "number") and value < schema["minimum"]:
        yield f"{where}: too small"
    if isinstance(value, list) and "items" in schema:
        for position, entry in enumerate(value):
            yield from problems(entry, schema["items"], whole, f"{where}[{position}]")
    if isinstance(value, dict):
        yield from _fields(value, schema, whole, where)


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _fields(value: Mapping[str, Any], schema: Mapping[str, Any], whole: Mapping[str, Any], where: str) -> Iterator[str]:
    known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{where}: no {name}" for name in schema.get("required", ()) if name not in value)
    for name, entry in value.items():
        if name in known:
            yield from problems(entry, known[name], whole, f"{where}.{name}")
        elif more is False:
            yield f"{where}: unknown {name}"
        elif isinstance(more, Mapping):
            yield from problems(entry, more, whole, f"{where}.{name}")
