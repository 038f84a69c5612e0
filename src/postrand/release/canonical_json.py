"""JSON in one form only: each value has exactly one text; any other text is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from postrand.errors import ReleaseError, sentence
from postrand.support.inputs import read_bytes

MAX_BYTES = 1 << 28
"""The largest size of a JSON file of a release, so that a reader needs only a few GiB of memory."""


def dump(value: Any) -> bytes:
    """Return the canonical text of plain data: two-space indent, lists of scalars on one line, UTF-8, a final newline.

    Raises
    ------
    ReleaseError
        If the value is not plain data (a number that is not finite, a name that is not text, invalid Unicode), or its
        text is longer than 256 MiB.

    Examples
    --------
    >>> dump({"weights": [[1, 2], [3, 4]]}).decode().split()
    ['{', '"weights":', '[', '[1,', '2],', '[3,', '4]', ']', '}']
    """
    try:
        text = (_text(value, "") + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ReleaseError(sentence("a value cannot be written as JSON", got=str(error))) from None
    check_size(len(text), "a file of the release")
    return text


def parse(data: bytes, where: str) -> dict[str, Any]:
    """Return the object that canonical ``data`` contains.

    Any other form is refused, and with it all that hides in one: repeated names, NaN, numbers that float64 does not
    hold, text after the end, deep nesting.

    Raises
    ------
    ReleaseError
        If the bytes are not well-formed JSON, not an object, or not the canonical text of their value.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_distinct, parse_constant=_refuse)
    except RecursionError:
        raise ReleaseError(sentence("the JSON is nested too deeply", where=where)) from None
    except ValueError as error:
        raise ReleaseError(sentence("not well-formed JSON", where=where, got=str(error))) from None
    if not isinstance(value, dict):
        raise ReleaseError(sentence("the JSON is not an object", where=where, got=type(value).__name__))
    if dump(value) != data:
        raise ReleaseError(sentence("the JSON is not in the canonical form of releases", where=where))
    return value


def read(path: Path) -> dict[str, Any]:
    """Return the object that a file of canonical JSON contains; see :func:`parse`.

    Raises
    ------
    ReleaseError
        If it cannot be read, is no plain file, is longer than 256 MiB, or is not canonical.
    """
    try:
        data = read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        raise ReleaseError(sentence(f"{path.name} is missing", where=str(path.parent))) from None
    except OSError as error:
        what = f"{path.name} cannot be read"
        raise ReleaseError(sentence(what, where=str(path.parent), got=error.strerror)) from None
    return parse(data, path.name)


def check_size(size: int, where: str) -> None:
    """Raise ReleaseError if a JSON text is too long for a release."""
    if size > MAX_BYTES:
        raise ReleaseError(
            sentence("the JSON is too long", where=where, got=f"{size:,} bytes", wanted=f"{MAX_BYTES:,}")
        )


def plain(value: Any) -> Any:
    """Return the value as a reader of its text gets it: lists for tuples.

    >>> plain({"a": (1, 2)})
    {'a': [1, 2]}
    """
    return json.loads(dump(value))


def first_difference(found: Any, wanted: Any, path: str = "") -> str:
    """Return the path of the first entry in which two plain values differ, or an empty string.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]})
    'a[1]'
    """
    if isinstance(found, dict) and isinstance(wanted, dict) and list(found) == list(wanted):
        pairs: Iterable[tuple[str, Any, Any]] = ((f"{path}.{k}" if path else k, found[k], wanted[k]) for k in found)
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        pairs = ((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(found, wanted, strict=True)))
    else:
        return "" if dump(found) == dump(wanted) else path or "the top level"
    return next((where for name, a, b in pairs if (where := first_difference(a, b, name))), "")


def _text(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        if not all(isinstance(name, str) for name in value):
            raise TypeError("a name is not text")
        entries = [f"{_scalar(name)}: {_text(entry, inner)}" for name, entry in value.items()]
    elif isinstance(value, (list, tuple)) and any(isinstance(entry, (dict, list, tuple)) for entry in value):
        entries = [_text(entry, inner) for entry in value]
    else:
        return _scalar(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(f"\n{inner}{entry}" for entry in entries) + f"\n{indent}{closing}"


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is given twice")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")
