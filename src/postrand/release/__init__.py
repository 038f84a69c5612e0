"""The public bundle: written whole or not at all, read, and verified from its bytes alone."""

from postrand.release.bundle import Release, check_targets, dossier, released_codebook, write
from postrand.release.verification import Check, Verification, read, verify

read_release = read
"""The name under which :func:`read` is public at the top of the package."""

__all__ = [
    "Check",
    "Release",
    "Verification",
    "check_targets",
    "dossier",
    "read",
    "read_release",
    "released_codebook",
    "verify",
    "write",
]
