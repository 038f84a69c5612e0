"""Complete a release: copies of its data with true values drawn given the released ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from postrand.completion import Completed
from postrand.completion import complete as complete_frame
from postrand.release.bundle import Release
from postrand.release.verification import read


def complete(release: Release | str | Path, **options: Any) -> Completed:
    """Return completed copies of a release, or of the release in a folder; see :func:`postrand.completion.complete`.

    >>> complete("no such folder")
    Traceback (most recent call last):
    ...
    postrand.errors.ReleaseError: ...
    """
    found = release if isinstance(release, Release) else read(release)
    return complete_frame(found.frame(), found.mechanism, **options)
