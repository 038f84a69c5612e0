"""The program that rendered the pages of a release: another one may use other words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from operator import call

from postrand.formats import formats
from postrand.support.threads import behind
from postrand.support.wordings import WORDINGS

_COMPILED = (".c", ".h", ".so", ".pyd")
"""Loops render nothing. Each computer compiles its own, and an installed package has no source of them."""


@contextmanager
def loading() -> Iterator[None]:
    """Load what renders the pages in a thread of its own while the block runs, which mostly waits for compressors.

    The block of a release lasts longer; where nothing is loaded, the pages load it themselves.
    """
    with behind(call) as hand:
        for load in (_pages, formats, digest):
            hand(load)
        yield


def _pages() -> None:
    from postrand.report.html import environment  # as the other pages: the library of the templates is slow to load

    environment().get_template("report.html")
    for name in ("metadata.documents", "report.release_readme"):
        import_module(f"postrand.{name}")


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
