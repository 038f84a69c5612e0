"""The released folder: written completely or not at all, read, and verified from its files alone."""

from postrand.release.bundle import Inspect, Release, check_digests, check_targets, released_codebook, write
from postrand.release.checks import Check, Verification
from postrand.release.completed_folder import verify_completed
from postrand.release.verification import read, rebuild_report, verify

read_release = read
"""The name under which :func:`read` is public at the top of the package."""

__all__ = [
    "Check",
    "Inspect",
    "Release",
    "Verification",
    "check_digests",
    "check_targets",
    "read",
    "read_release",
    "rebuild_report",
    "released_codebook",
    "verify",
    "verify_completed",
    "write",
]
