"""Sign a release that verifies."""

from __future__ import annotations

from pathlib import Path

from postrand.errors import ReleaseError, sentence
from postrand.release.bundle import SIGNATURE
from postrand.release.signature import SigningKey, envelope_of
from postrand.release.verification import verify
from postrand.support import saving


def sign(directory: str | Path, key: SigningKey | str | Path, *, is_verified: bool = False) -> Path:
    """Sign a release, or a folder of columns, with the key of an office; return the path of ``signatures.json``.

    The release is verified first, unless ``is_verified`` says that it just was: nobody signs what does not verify. A
    signature of another key stays, and this one is added.

    Raises
    ------
    ReleaseError
        If the release does not verify, or has a signature that is not valid.
    UsageError
        If the key cannot be read or is not safe, or has signed already.
    """
    root, own = Path(directory), key if isinstance(key, SigningKey) else SigningKey.load(key)
    found = None if is_verified else verify(root, raise_if_failed=False)
    if found is not None and found.verdict == "failed":
        raise ReleaseError([sentence("a release that does not verify is not signed", where=str(root)), *found.problems])
    saving.write_whole(root / SIGNATURE, envelope_of(root, own), replace=True)
    return root / SIGNATURE
