"""The benchmarks' own parts: what got worse is named, ratios do not depend on the machine, and the page is filled."""

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module(name)


def results(bench: ModuleType, slow: float) -> dict[str, Any]:
    """Return the results of a machine that is so many times as slow as another."""
    kernel = {"S": 10, "matrix": "k-RR", "ours_ns": 2.0 * slow, "limit_ns": 1.0 * slow, "numpy_ns": 20.0 * slow}
    kernel |= {"ours_over_limit": 2.0, "numpy_over_ours": 10.0}
    took = {"seconds": 2.0 * slow, "cpu_s": 3.0 * slow, "peak_bytes": 400e6}
    beside = {"command": bench.jobs.BESIDE, "seconds": 1.0 * slow, "median_s": slow, "cpu_s": slow, "over_beside": 1.0}
    protect = {"command": "protect", "median_s": 2.5 * slow, "over_beside": 2.0, **took}
    shapes = [("records", 4_000_000), ("records", 16_000_000), ("threads", 1), ("threads", 2)]
    shapes += [("Spark's threads", 1), ("Spark's threads", 2)]
    rows = [
        {"grows": what, "to": to, "kind": "local", **took, "seconds": slow * (i + 1.0), "values_per_s": 1e6 / slow}
        for i, (what, to) in enumerate(shapes)
    ]
    frame = {"kind": "pandas text", "ours_ns": 6.0 * slow, "kernel_ns": 2.0 * slow, "numpy_ns": 4.0 * slow}
    frame |= {"cpu_ns": 8.0 * slow, "frame_bytes": 10_000_000, "added_bytes": 20_000_000}
    return {
        "file": "a survey",
        "kernel": [kernel],
        "frames": [frame],
        "jobs": [beside | {"peak_bytes": 200e6}, protect],
        "first run": {"cold_s": slow, "cold_cpu_s": slow, "cold_peak_bytes": 4e8, "second_s": slow},
        "growth": [
            {"command": name, "times": times, "records": times, **took}
            for name in bench.growth.COMMANDS
            for times in (1, 4)
        ],
        "scaling": rows,
        "peers": {
            "ours_ns": 2.0 * slow,
            "rows": [
                {"peer": "fast", "version": "1.0", "ns": 50 * slow},
                {"peer": "broken", "problem": "ImportError: no"},
            ],
        },
    }


def test_ratios_that_got_worse_are_named(monkeypatch):
    bench = module("bench", monkeypatch)
    baseline = {"same": 1.0, "a little worse": 1.0, "worse": 1.0, "better": 1.0, "no longer measured": 1.0}
    found = {"same": 1.0, "a little worse": 1.2, "worse": 1.4, "better": 0.5, "new": 9.0}
    assert list(bench.compare(found, baseline)) == ["worse: 1.4, baseline 1"]


def test_ratios_are_of_times_within_one_run(monkeypatch):
    """A machine twice as slow has the same ratios."""
    bench = module("bench", monkeypatch)
    found = bench.ratios(results(bench, 1))
    assert found == bench.ratios(results(bench, 2))
    assert found["threads 2 / 1: wall"] == 4 / 3
    assert found["frame, pandas text: ours / kernel"] == 3
    assert found["frame, pandas text: memory / frame"] == 2
    assert found["protect: wall / read and write"] == 2
    assert found["protect: peak / read and write"] == 2
    assert found["protect, records x 4: wall / 4"] == 0.25
    assert not [name for name in found if name.startswith(bench.jobs.BESIDE)]


def test_every_part_has_its_place_in_the_page(monkeypatch):
    bench, page = module("bench", monkeypatch), module("page", monkeypatch)
    made = bench.tables(results(bench, 1))
    text = page.PAGE.read_text("utf-8")
    filled = page.filled(text, made, "Measured today.")
    assert filled.count("Measured today.\n\n| ") == len(made) == 7
    assert "| `postrand protect` | 2.00 | 2.50 | 2.0 | 3.00 | 400 |\n<!-- end -->" in filled
    assert page.filled(filled, {}, "never") == filled
    assert page.filled(filled, made, "Measured today.") == filled
    with pytest.raises(ValueError, match="no place for: another"):
        page.filled(text, {"another": []}, "")


def test_a_command_is_measured_in_a_process_of_its_own(monkeypatch, tmp_path):
    child = module("child", monkeypatch)
    held = child.run([sys.executable, "-c", "x = bytearray(200_000_000); y = sum(range(10**6))"], tmp_path)
    assert (held["code"], held["said"]) == (0, "")
    assert held["peak_bytes"] > 200e6
    assert held["cpu_s"] > 0
    small = child.run([sys.executable, "-c", ""], tmp_path)
    assert small["peak_bytes"] < 100e6  # whatever this process holds
    assert list(tmp_path.glob("bytecode"))


def test_a_command_is_interrupted_as_in_a_terminal(monkeypatch, tmp_path):
    child = module("child", monkeypatch)
    script = "import time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: raise SystemExit(130)"
    found = child.run([sys.executable, "-c", script], tmp_path, stop_after=2, must=False)
    assert found["code"] == 130
    assert found["seconds"] is not None
    ended = child.run([sys.executable, "-c", ""], tmp_path, stop_after=100, must=False)
    assert (ended["code"], ended["seconds"]) == (0, None)
    with pytest.raises(SystemExit, match="exit code 3"):
        child.run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
