"""The fields that the files of a release may have: read from their JSON schemas, which the package carries.

A field that a schema does not know is refused: it could change what the others mean. Some names are reserved for what
later versions will add. Empty, they are accepted and mean nothing; with content, the release is for a newer postrand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from postrand.errors import ReleaseError, raise_all, sentence, shown

RESERVED_NAMES: Mapping[str, str] = MappingProxyType({"completed": "completed files"})
"""Names in the folder of a release that later versions will use, and their purpose."""
_TOLD = 10
_ID = re.compile(r"postrand/([a-z]{1,20})/([0-9]{1,4})")
_COLUMNS = {"manifest.json": "columns-manifest", "certificate.json": "columns-certificate"}


@cache
def schema(kind: str, number: int) -> dict[str, Any] | None:
    """Return the JSON schema of a kind of file, or None if there is none with this number.

    >>> schema("certificate", 3)["$id"], schema("certificate", 99)
    ('urn:postrand:certificate:3', None)
    """
    path = resources.files("postrand.release") / "schemas" / f"{kind}-{number}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def schema_of(data: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the JSON schema that data of a file of this name say they have, or None where it is not known here."""
    found = _ID.fullmatch(str(data.get("schema")))
    if found is None:
        return None
    kind = _COLUMNS.get(name, "") if found[1] == "columns" else found[1]
    return schema(kind, int(found[2]))


def understood(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the data of a file without its reserved fields, which must be empty.

    Data of a schema that is not known here are returned as they are: their reader refuses them.

    Raises
    ------
    ReleaseError
        With every field that the schema does not know, and every reserved one that has content.
    """
    known = schema_of(data, name)
    if known is None:
        return data
    problems: list[str] = []
    found: dict[str, Any] = _checked(data, known, known, name, problems)
    raise_all(ReleaseError, problems)
    return found


def reserved_names(names: Iterable[str]) -> Iterable[str]:
    """Yield a sentence for each entry of a folder whose name is reserved."""
    found = {name.partition("/")[0] for name in names}
    return [_newer(RESERVED_NAMES[name], name) for name in sorted(found & set(RESERVED_NAMES))]


def _newer(feature: str, where: str) -> str:
    what = f"this release uses {feature}, which this version does not know"
    return sentence(what, where=where, fix="use a newer postrand")


def _checked(value: Any, part: Mapping[str, Any], whole: Mapping[str, Any], where: str, problems: list[str]) -> Any:
    """Return the value without reserved fields, and note what is wrong with the names of the others."""
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    if isinstance(value, dict) and (part.keys() & {"properties", "additionalProperties"}):
        return dict(_fields(value, part, whole, where, problems))
    if isinstance(value, list) and _holds_objects(part.get("items", {}), whole):
        return [_checked(v, part["items"], whole, f"{where}[{k}]", problems) for k, v in enumerate(value)]
    return value


def _fields(
    value: dict[str, Any], part: Mapping[str, Any], whole: Mapping[str, Any], where: str, problems: list[str]
) -> Iterable[tuple[str, Any]]:
    known, more = part.get("properties", {}), part.get("additionalProperties", True)
    for name, entry in value.items():
        own = known.get(name)
        if own is not None and "x-reserved" in own:
            if entry not in (None, "", [], {}):
                problems.append(_newer(own["x-reserved"], f"{where}, {name}"))
            continue
        if own is None and more is False:
            if len(problems) < _TOLD:
                what = f"unknown field {shown(name, repr)}"
                problems.append(sentence(what, where=where, fix="use a newer postrand if a newer one wrote this"))
            continue
        own = own or (more if isinstance(more, dict) else {})
        yield name, _checked(entry, own, whole, f"{where}, {name}", problems)


def _holds_objects(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether the entries of a list have fields to check; long lists of numbers have none."""
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    return "properties" in part
