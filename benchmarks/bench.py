"""Run every benchmark, write tables and plots to benchmarks/results, and compare the ratios with the stored baseline.

``make bench``, or ``python benchmarks/bench.py [--quick] [--accept]``: quick leaves out the census of 100 million
records and the other programs; accept stores this run's ratios as the baseline. Ends with exit code 1 where a ratio got
worse by more than its tolerance. Ratios are of two times within one run: a busy or another machine moves both.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

import frames
import job
import kernel
import large
import peers
import scaling

mpl.use("svg")
RESULTS = Path(__file__).parent / "results"
BASELINE = Path(__file__).parent / "baseline.json"
TOLERANCE = 1.3
"""A ratio may grow by this factor: repeated runs on a shared machine differ by up to 20%."""


def ratios(results):
    """Return what is compared with the baseline, all of them the smaller the better."""
    found = {f"kernel S={r['S']} {r['matrix']}: ours / limit": r["ours_over_limit"] for r in results["kernel"]}
    found |= {f"kernel S={r['S']} {r['matrix']}: ours / numpy": 1 / r["numpy_over_ours"] for r in results["kernel"]}
    ten = next(r for r in results["kernel"] if r["S"] == 10)
    found["job: per value / kernel limit"] = results["job"]["ns_per_value"] / ten["limit_ns"]
    found["job: peak memory / 300 MB"] = results["job"]["peak_bytes"] / 300e6
    found |= frames.ratios(results["frames"])
    by = {(r["grows"], r["to"]): r for r in results["scaling"]}
    seconds = {key: row["seconds"] for key, row in by.items()}
    found["records x 4: wall / 4"] = seconds["records", 16_000_000] / seconds["records", 4_000_000] / 4
    found["records x 4: peak memory"] = by["records", 16_000_000]["peak_bytes"] / by["records", 4_000_000]["peak_bytes"]
    found["threads 2 / 1: wall"] = seconds["threads", 2] / seconds["threads", 1]
    found["executors 2 / 1: wall"] = seconds["executors", 2] / seconds["executors", 1]
    found["spark / local, 4 million records: wall"] = seconds["executors", 2] / seconds["records", 4_000_000]
    return found


def compare(found, baseline):
    """Yield a line for each ratio that is worse than the baseline allows."""
    for name, value in found.items():
        if name in baseline and value > baseline[name] * TOLERANCE:
            yield f"{name}: {value:.3g}, baseline {baseline[name]:.3g}"


def peer_table(rows, ours):
    yield f"| program | version | ns per value | postrand ({ours:.2f} ns) is faster by |"
    yield "| --- | --- | ---: | ---: |"
    for r in rows:
        if "ns" in r:
            yield f"| {r['peer']} | {r['version']} | {r['ns']:,.0f} | {r['ns'] / ours:,.0f} |"
        else:
            yield f"| {r['peer']} | - | {r['problem']} | - |"


def plot(results):
    """Draw the kernel by number of categories, and the whole job by what grows."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = [r for r in results["kernel"] if r["matrix"] == "k-RR"]
    for name, label in (("numpy_ns", "plain numpy"), ("ours_ns", "postrand"), ("limit_ns", "limit")):
        left.plot([r["S"] for r in rows], [r[name] for r in rows], marker="o", label=label)
    left.set(xscale="log", yscale="log", xlabel="categories", ylabel="ns per released value, one core")
    left.legend()
    for what in ("records", "variables", "categories"):
        rows = [r for r in results["scaling"] if r["grows"] == what]
        values = [r["records"] * r["variables"] for r in rows]
        right.plot([r["to"] for r in rows], [r["seconds"] / v * 1e9 for r, v in zip(rows, values, strict=True)],
                   marker="o", label=what)  # fmt: skip
    right.set(xscale="log", xlabel="grows to", ylabel="ns per value, whole job", ylim=(0, None))
    right.legend()
    mpl.rcParams["svg.hashsalt"] = "postrand"
    figure.savefig(RESULTS / "bench.svg", metadata={"Date": None})


def main(arguments):
    RESULTS.mkdir(exist_ok=True)
    quick = "--quick" in arguments
    results = {"kernel": kernel.measure_all(), "job": job.measure_all(), "frames": frames.measure_all()}
    results["scaling"] = scaling.measure()
    text = ["## Kernel", *kernel.markdown(results["kernel"]), "", "## Job", *job.markdown(results["job"])]
    text += ["", "## Frames in memory", *frames.markdown(results["frames"])]
    text += ["", "## Scaling", *scaling.markdown(results["scaling"])]
    if not quick:
        results["peers"] = peers.measure()
        ours = next(r["ours_ns"] for r in results["kernel"] if r["S"] == peers.SIZE)
        results["large"] = large.measure(large.RECORDS, large.ENGINES)
        text += ["", "## Other programs", *peer_table(results["peers"], ours)]
        text += ["", "## Census", *large.markdown(results["large"])]
    found = ratios(results)
    text += ["", "## Ratios", *(f"- {name}: {value:.3g}" for name, value in found.items())]
    (RESULTS / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "bench.md").write_text("\n".join(text) + "\n")
    plot(results)
    print("\n".join(text))
    if "--accept" in arguments:
        BASELINE.write_text(json.dumps(found, indent=1) + "\n")
    worse = list(compare(found, json.loads(BASELINE.read_text()))) if BASELINE.exists() else []
    print(
        "\n".join(["", "Worse than the baseline:", *worse] if worse else ["", "No ratio is worse than the baseline."])
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
