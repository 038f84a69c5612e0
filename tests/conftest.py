"""Fixtures and settings shared by all tests."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# Processes that tests start keep what they compile, as those of users do: else each compiles 250 modules anew, and each
# worker of pytest the tests. What is compiled is in no commit.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Workers share the cores: threads of linear algebra would wait for each other, at full speed. Numpy is not loaded yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("fast", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


SLOW = ROOT / "tests" / "slow.txt"
SLOW_FROM = 0.3  # seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = f"write the names of the tests that take more than {SLOW_FROM} seconds to {SLOW.name}"
    parser.addoption("--note-slow", action="store_true", help=help_text)


def pytest_configure() -> None:
    if os.environ.get("POSTRAND_BOTH"):  # a file for the figures: every release that a test verifies, by both verifiers
        from tests.both_verifiers import watch

        watch()


def slow_tests() -> set[str]:
    """Names of tests, and of files, that `make fast` leaves out; a test that is added is fast until it is measured."""
    return {line for line in SLOW.read_text("utf-8").splitlines() if not line.startswith("#")}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and keep a file on one worker: what its tests share is made once. Long chains come first."""
    slow = slow_tests()
    work: Counter[str] = Counter()
    for item in items:
        if not slow.isdisjoint((item.nodeid.partition("[")[0], item.nodeid.partition("::")[0])):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        work[_chain(item)] += item.get_closest_marker("slow") is not None
    items.sort(key=lambda item: (_chain(item) not in SERVICES, -work[_chain(item)]))


def _chain(item: pytest.Item) -> str:
    """Name of the tests that run one after the other on one worker."""
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else ""


_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the longest time of each test, whatever its parameters; what a fixture takes counts where it is made."""
    name = report.nodeid.partition("[")[0]
    _seconds[name] = max(_seconds.get(name, 0.0), report.duration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note the slow tests: of those that ran anew, of others as before where they still exist."""
    if not session.config.getoption("--note-slow") or hasattr(session.config, "workerinput"):
        return
    kept = {name for name in slow_tests() - _seconds.keys() if _exists(name)}
    found = sorted(kept | {name for name, seconds in _seconds.items() if seconds > SLOW_FROM})
    head = [line for line in SLOW.read_text("utf-8").splitlines() if line.startswith("#")]
    SLOW.write_text("\n".join([*head, *found]) + "\n", "utf-8")


def _exists(name: str) -> bool:
    file, _, function = name.partition("::")
    path = ROOT / file
    named = f"def {function.rpartition('::')[2]}("
    return path.is_file() and (not function or named in path.read_text("utf-8"))


def postgres_binaries() -> Path | None:
    """Folder of the PostgreSQL server's programs: Debian keeps them apart from the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def java() -> str | None:
    return shutil.which("java") or shutil.which(Path(os.environ.get("JAVA_HOME", "/none"), "bin", "java"))


R_PACKAGES = ("digest", "haven", "jsonlite", "mice", "mitools", "survey")


def r() -> str | None:
    """R with the packages that read a release, haven and jsonlite, and those that pool completed files."""
    if (found := shutil.which("Rscript")) is None:
        return None
    asked = f"quit(status = !all(nzchar(sapply(c{R_PACKAGES}, function(name) system.file(package = name)))))"
    return found if subprocess.run([found, "-e", asked], check=False).returncode == 0 else None


SERVICES: dict[str, tuple[Callable[[], object], str]] = {
    "spark": (java, "Java 17"),
    "postgres": (postgres_binaries, "a PostgreSQL server"),
    "r": (cache(r), f"R with {', '.join(R_PACKAGES)}"),
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
