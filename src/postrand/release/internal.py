"""Figures for internal use must not be written into a release."""

from __future__ import annotations

import os
from pathlib import Path

from postrand.errors import ReleaseError, sentence
from postrand.release.bundle import CERTIFICATE, MANIFEST


def require_outside(path: Path) -> None:
    """Raise ReleaseError if ``path`` lies in the folder of a release, at any depth, also through links."""
    here = Path(os.path.realpath(path))
    for folder in (here, *here.parents):
        if os.path.lexists(folder / MANIFEST) or os.path.lexists(folder / CERTIFICATE):
            what, fix = "figures for internal use do not belong in a release", "give a folder elsewhere"
            raise ReleaseError(sentence(what, where=str(path), fix=fix))
