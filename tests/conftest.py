"""Fixtures and settings shared by all tests."""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


def postgres_binaries() -> Path | None:
    """Folder of the PostgreSQL server's programs: Debian keeps them apart from the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def java() -> str | None:
    return shutil.which("java") or shutil.which(Path(os.environ.get("JAVA_HOME", "/none"), "bin", "java"))


def r() -> str | None:
    """R with the packages that read a release: haven, and jsonlite for large laws."""
    if (found := shutil.which("Rscript")) is None:
        return None
    asked = 'quit(status = !all(nzchar(system.file(package = "haven")), nzchar(system.file(package = "jsonlite"))))'
    return found if subprocess.run([found, "-e", asked], check=False).returncode == 0 else None


SERVICES: dict[str, tuple[Callable[[], object], str]] = {
    "spark": (java, "Java 17"),
    "postgres": (postgres_binaries, "a PostgreSQL server"),
    "r": (cache(r), "R with haven and jsonlite"),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a missing service; where tests count (CI), that is a failure."""
    for marker, (find, what) in SERVICES.items():
        if item.get_closest_marker(marker) and find() is None:
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop(f"{what} is not installed: `make services` installs it (as root)")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the survey extracts that are not part of the project; skips where it is absent.

    POSTRAND_SHARED names the folder; without it, `shared/data` beside the repository is taken.
    """
    folder = Path(os.environ.get("POSTRAND_SHARED") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set POSTRAND_SHARED to its folder")
    return folder
