"""The benchmarks' check: it names what got worse, and nothing else."""

import importlib

from tests.conftest import ROOT


def test_ratios_that_got_worse_are_named(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    bench = importlib.import_module("bench")
    baseline = {"same": 1.0, "a little worse": 1.0, "worse": 1.0, "better": 1.0, "no longer measured": 1.0}
    found = {"same": 1.0, "a little worse": 1.2, "worse": 1.4, "better": 0.5, "new": 9.0}
    assert list(bench.compare(found, baseline)) == ["worse: 1.4, baseline 1"]


def test_ratios_are_of_times_within_one_run(monkeypatch):
    """A machine twice as slow has the same ratios."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    bench = importlib.import_module("bench")

    def results(slow):
        kernel = {"S": 10, "matrix": "k-RR", "limit_ns": 1.0 * slow, "ours_over_limit": 2.0, "numpy_over_ours": 10.0}
        shapes = [("records", 4_000_000), ("records", 16_000_000), ("threads", 1), ("threads", 2)]
        shapes += [("executors", 1), ("executors", 2)]
        rows = [
            {"grows": w, "to": n, "seconds": slow * (i + 1.0), "peak_bytes": 5e8} for i, (w, n) in enumerate(shapes)
        ]
        frame = {"kind": "pandas text", "ours_ns": 6.0 * slow, "kernel_ns": 2.0 * slow}
        frame |= {"frame_bytes": 10_000_000, "added_bytes": 20_000_000}
        return {
            "kernel": [kernel],
            "frames": [frame],
            "job": {"ns_per_value": 100.0 * slow, "peak_bytes": 3e8},
            "scaling": rows,
        }

    assert bench.ratios(results(1)) == bench.ratios(results(2))
    assert bench.ratios(results(1))["threads 2 / 1: wall"] == 4 / 3
    assert bench.ratios(results(1))["frame, pandas text: ours / kernel"] == 3
    assert bench.ratios(results(1))["frame, pandas text: memory / frame"] == 2
