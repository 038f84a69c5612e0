"""A plugin of pytest that notes which tests run which lines of the core, and how long each takes.

Each file of tests has a JSON of its own, written when its last test has run: a recording that ends early goes on where
it ended. What a fixture of a wider scope runs counts for every test that asks for it. Tests that fail are left out.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import coverage
import pytest

OUT = "MUTANTS_RECORDED"
FIXTURE = "fixture "


class Recorder:
    """Traces the files of the core, one file of tests after the other."""

    def __init__(self, out, root, paths):
        self.out, self.root, self.paths = out, root, paths
        self.tracer, self.context = None, ""
        self.seconds = defaultdict(float)
        self.fixtures = {}
        self.failed = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Note the lines of one test; write its file after the last one."""
        if self.tracer is None:
            self.tracer = coverage.Coverage(
                data_file=None, config_file=False, include=[str(self.root / path) for path in self.paths]
            )
            self.tracer.set_option("run:disable_warnings", ["no-data-collected"])
            self.tracer.start()
        self._switch(item.nodeid)
        self.fixtures[item.nodeid] = [FIXTURE + name for name in getattr(item, "fixturenames", ())]
        result = yield
        if nextitem is None or nextitem.path != item.path:
            self._write(recorded(self.out, item.nodeid))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """Note the lines of a fixture that several tests share."""
        if fixturedef.scope == "function" or self.tracer is None:
            return (yield)
        before = self.context
        self._switch(FIXTURE + fixturedef.argname)
        try:
            return (yield)
        finally:
            self._switch(before)

    def pytest_runtest_logreport(self, report):
        """Add the time of a phase of a test."""
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def _switch(self, context):
        self.context = context
        self.tracer.switch_context(context)

    def _write(self, path):
        self.tracer.stop()
        data = self.tracer.get_data()
        lines = {name: data.contexts_by_lineno(str(self.root / name)) for name in self.paths}
        users = defaultdict(set)
        for test, names in self.fixtures.items():
            for name in (test, *names):
                users[name].add(test)
        told = {
            "lines": {
                name: {line: sorted(set().union(*map(users.__getitem__, by)) - self.failed) for line, by in of.items()}
                for name, of in lines.items()
                if of
            },
            "seconds": {test: round(self.seconds[test], 4) for test in self.fixtures.keys() - self.failed},
            "failed": sorted(self.failed & self.fixtures.keys()),
        }
        path.with_suffix(".part").write_text(json.dumps(told), "utf-8")
        path.with_suffix(".part").replace(path)
        self.tracer = None
        self.seconds.clear()
        self.fixtures.clear()
        self.failed.clear()


def recorded(out, test):
    """Return the file of what the tests of a file run."""
    return out / (test.partition("::")[0].replace("/", "-") + ".json")


def pytest_configure(config):
    """Record in the workers, or here if there are none."""
    if OUT in os.environ and (hasattr(config, "workerinput") or not config.getoption("numprocesses")):
        from benchmarks.mutants.__main__ import ROOT, core

        config.pluginmanager.register(Recorder(Path(os.environ[OUT]), ROOT, core()))
