"""Fixtures and settings shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the survey extracts that are not part of the project; skips where it is absent.

    POSTRAND_SHARED names the folder; without it, `shared/data` beside the repository is taken.
    """
    folder = Path(os.environ.get("POSTRAND_SHARED") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set POSTRAND_SHARED to its folder")
    return folder
