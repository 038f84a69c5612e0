"""The program that rendered the pages of a release: another one may use other words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from postrand.support.wordings import WORDINGS

_COMPILED = (".c", ".h", ".so", ".pyd")
"""Loops render nothing. Each computer compiles its own, and an installed package has no source of them."""


def digest() -> str:
    """Return the SHA-256, as hexadecimal, of the wordings and of all files of this package but compiled ones, by name.

    Two programs of one digest render one release alike. Where digests differ, a page that differs too is no forgery
    for that: it says in other words what the certificate states, and the certificate is what is verified.
    """
    found = hashlib.sha256(_files().encode())
    for code, template in sorted(WORDINGS.items()):
        found.update(f"{code}\0{template}\0".encode())
    return found.hexdigest()


@cache
def _files() -> str:
    found = hashlib.sha256()
    for name, path in _walk(resources.files("postrand"), ""):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{name}\0{content}\0".encode())
    return found.hexdigest()


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for path in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if path.is_dir() and path.name != "__pycache__":
            yield from _walk(path, f"{prefix}{path.name}/")
        elif path.is_file() and not path.name.endswith(_COMPILED):
            yield f"{prefix}{path.name}", path
