"""Complete a release: copies of its data with true values drawn given the released ones."""

from __future__ import annotations

from pathlib import Path

from postrand.completion import Completed
from postrand.completion import complete as complete_frame
from postrand.completion.completed import COPIES
from postrand.completion.totals import Given
from postrand.errors import UsageError, sentence
from postrand.release.bundle import Release
from postrand.release.verification import read


def complete(
    release: Release | str | Path,
    *,
    copies: int = COPIES,
    seed: int | None = None,
    classes: int = 0,
    chains: int = 2,
    sweeps: int = 0,
    anchor: bool = True,
    totals: Given | str | Path | None = None,
) -> Completed:
    """Return completed copies of a release, or of the release in a folder: true values drawn given the released ones.

    Analyse each copy (``.frames``) as if it were the true file, and pool the results: :func:`postrand.estimate.pool`.
    Look at ``.diagnostics`` first. The options are those of :func:`postrand.completion.complete`. Nothing is verified
    here (:func:`postrand.verify` does that), but for the digests of the data.

    Raises
    ------
    UsageError
        If this is neither a release nor a path.
    ReleaseError
        If the folder is no release, or its data are not those that it lists.
    PostrandError
        As :func:`postrand.completion.complete`.

    Examples
    --------
    >>> complete("no such folder")
    Traceback (most recent call last):
    ...
    postrand.errors.ReleaseError: ...
    """
    if not isinstance(release, Release | str | Path):
        fix = "of a frame: postrand.completion.complete(frame, mechanism)"
        what, wanted = "not a release", "a Release, or the path of its folder"
        raise UsageError(sentence(what, got=type(release).__name__, wanted=wanted, fix=fix))
    found = release if isinstance(release, Release) else read(release)
    return complete_frame(
        found.frame(),
        found.mechanism,
        copies=copies,
        seed=seed,
        classes=classes,
        chains=chains,
        sweeps=sweeps,
        anchor=anchor,
        totals=totals,
    )
