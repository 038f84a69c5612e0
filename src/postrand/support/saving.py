"""Files of values that a person saves: each is complete or absent, and replaces another file only on request.

``x.save(path)`` writes, ``load_...(path)`` reads. A codebook is TOML and a key is text, as plans and commands want
them; everything else is one line of JSON that names its schema and its kind, and is read as nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from postrand.errors import PostrandError, SpecificationError, UsageError, sentence
from postrand.support.signals import unfinished
from postrand.support.system import open_plain

SCHEMA = "postrand/saved/1"
MAX_BYTES = 1 << 30
"""The longest saved file, in bytes: its reader then needs at most a few GiB of memory."""


def save(path: str | Path, kind: str, data: Mapping[str, Any], *, replace: bool = False) -> None:
    """Write plain data as a value of this kind; see :func:`write_whole`."""
    held = {"schema": SCHEMA, "kind": kind, **data}
    text = json.dumps(held, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_whole(path, text.encode() + b"\n", replace=replace)


def write_whole(path: str | Path, content: bytes, *, replace: bool = False, mode: int = 0o666) -> None:
    """Write a file that appears under its name when it is complete; ``mode`` is under the umask.

    Raises
    ------
    UsageError
        If the file exists and ``replace`` is not set, or it cannot be written; what was there is unchanged.
    """
    path = Path(path)
    partial = path.parent / (f".{path.name[:40]}.{secrets.token_hex(8)}.partial")
    try:
        with unfinished(partial), os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not replace:
            _claim(partial, path)
        partial.replace(path)
    except FileExistsError:
        fix = "name another file, or pass replace=True"
        raise UsageError(sentence("the file exists", where=str(path), fix=fix)) from None
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or "no name of a file"
        raise UsageError(sentence("the file cannot be written", where=str(path), got=got)) from None
    finally:
        with contextlib.suppress(OSError, ValueError):
            partial.unlink(missing_ok=True)


def _claim(partial: Path, path: Path) -> None:
    """Give the file its name too, unless the name is taken: a renaming alone would not ask."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except (OSError, AttributeError):  # a file system, or a system, without links
        if os.path.lexists(path):
            raise FileExistsError from None


def load(path: str | Path, kind: str) -> dict[str, Any]:
    """Return the plain data that :func:`save` wrote for a value of this kind.

    Raises
    ------
    SpecificationError
        If the file cannot be read, is longer than 1 GiB, is not JSON, or holds something else.
    """
    path = Path(path)
    try:
        with open(path, "rb", opener=open_plain) as file:
            held = file.read(MAX_BYTES + 1)
        data = json.loads(held) if len(held) <= MAX_BYTES else None
    except OSError as error:
        raise SpecificationError(sentence("the file cannot be read", where=str(path), got=error.strerror)) from None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or data.get("kind") != kind:
        got = data.get("kind", data.get("schema")) if isinstance(data, dict) else None
        what = f"not a saved {kind}"
        raise SpecificationError(sentence(what, where=str(path), got=got, fix=f"write one with save() of a {kind}"))
    return data


@contextmanager
def reading(path: str | Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the data of :func:`load`, and turn what a damaged file raises into an error that names it.

    Raises
    ------
    SpecificationError
        As :func:`load`, or if the block ends in an error of Python itself: an entry is missing or of another type.
    """
    data = load(path, kind)
    try:
        yield data
    except PostrandError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
        what = f"the saved {kind} is not well formed"
        raise SpecificationError(sentence(what, where=str(path), got=type(error).__name__)) from None
