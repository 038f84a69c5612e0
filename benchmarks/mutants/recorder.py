"""A plugin of pytest that writes how long each test takes, of those that pass."""

import json
import os
from collections import defaultdict
from pathlib import Path

_seconds: dict[str, float] = defaultdict(float)
_failed: set[str] = set()


def pytest_runtest_logreport(report):
    """Add the time of a phase of a test."""
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session):
    """Write the times, once for all workers."""
    if not hasattr(session.config, "workerinput"):
        kept = {name: round(seconds, 4) for name, seconds in _seconds.items() if name not in _failed}
        Path(os.environ["MUTANTS_SECONDS"]).write_text(json.dumps(kept), "utf-8")
