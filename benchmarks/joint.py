"""Joint blocks of thousands of cells: time, memory, and what they keep beside independent blocks.

Run as ``python -m benchmarks.joint FOLDER`` with the folder of the shared data; writes results/joint.md. Every step of
the release runs in a process of its own, whose peak memory is told; seconds are wall time, in brackets of processors.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.joint_gain import joint_gain

from postrand import ReleaseKey, estimate, formats, load_plan, read_release, run, verify
from postrand.codebook.rules import feasible_cells
from postrand.designers import General, Product, design
from postrand.engines import LocalEngine
from postrand.objectives import MutualInformation
from postrand.objectives.information import information, information_bound
from postrand.plan import infer, writing
from postrand.privacy import DifferentialPrivacy
from postrand.workflow.design_blocks import design_blocks

FILE, RULES = "ny_like_population_953076.parquet", "ny_structural_zeros.csv"
SIX = ("age", "marital_status", "education", "employment", "work_disability", "veteran")
NINE = (*SIX, "ownership", "mortgage", "sex")
THREE = ("age", "marital_status", "employment")
TABLE = ("education", "employment")
EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0)


def write_plan(data: Path, folder: Path, names: tuple[str, ...], epsilon: float) -> Path:
    drafts = infer.infer(formats.read(data / FILE))
    for draft in drafts:
        draft["role"] = "key"
    rules = f'rules_file = "{data / RULES}"\n'
    (folder / "codebook.toml").write_text(rules + writing.codebook_text(drafts), encoding="utf-8")
    blocks = [(names, epsilon), *(((d["name"],), 1.0) for d in drafts if d["name"] not in names)]
    text = f'[source]\nfile = "{data / FILE}"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\n'
    text += f"epsilon = {sum(e for _, e in blocks)}\n"
    for block, budget in blocks:
        listed = ", ".join(f'"{n}"' for n in block)
        text += f'[[blocks]]\nvariables = [{listed}]\nprivacy = {{ model = "differential", epsilon = {budget} }}\n'
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return folder / "plan.toml"


def step(what: str, folder: Path) -> None:
    """Do one step of the release, and print what it took."""
    plan = load_plan(folder / "plan.toml") if what in ("design", "protect") else None
    release = read_release(folder / "out") if what == "estimate" else None
    frame = release.frame() if release else None
    start, processors = time.perf_counter(), time.process_time()
    if what == "design":
        design_blocks(plan)
    elif what == "protect":
        run(plan, folder / "out", release_key=ReleaseKey.from_seed(1))
    elif what == "verify":
        assert verify(folder / "out").ok
    else:
        found = estimate.table(frame, TABLE, release.mechanism)
        assert np.isfinite(found.covariance).all()
    took = [time.perf_counter() - start, time.process_time() - processors]
    print(json.dumps([*took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def steps(data: Path, names: tuple[str, ...], epsilon: float) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = load_plan(write_plan(data, folder, names, epsilon))
        cells = len(feasible_cells(plan.codebook, names, plan.codebook.rules))
        lines = []
        for what in ("design", "protect", "verify", "estimate"):
            call = [sys.executable, "-m", "benchmarks.joint", "--step", what, name]
            done = subprocess.run(call, check=True, capture_output=True, text=True)
            wall, processors, peak = json.loads(done.stdout)
            lines.append(f"| {cells:,} | {what} | {wall:.2f} ({processors:.2f}) | {peak:.0f} |")
        size = (folder / "out" / "mechanism.json").stat().st_size / 1e6
        return [*lines, f"| {cells:,} | the law as JSON, MB | {size:.1f} | |"]


def kept(data: Path, names: tuple[str, ...], wide: bool) -> list[str]:
    """Return the information of each law at one ε: what independent blocks spend together."""
    with tempfile.TemporaryDirectory() as name:
        plan = load_plan(write_plan(data, Path(name), names, 6.0))
        counts = LocalEngine().count(formats.read(plan.source, plan.codebook), plan.codebook, names).dense()
        cells = feasible_cells(plan.codebook, names, plan.codebook.rules)
    p = counts[tuple(cells.T)] / counts.sum()
    lines = []
    for each in EPSILONS:
        total = each * len(names)
        model, (_, apart) = DifferentialPrivacy(total), joint_gain(counts, [each] * len(names))
        uniform = information(design(p, model).matrix, p)
        start = time.perf_counter()
        product = design(p, model, structure=Product.over(cells))
        seconds = time.perf_counter() - start
        best = f"{design(p, model, MutualInformation(), General()).value:.3f}" if wide else "–"
        lines.append(
            f"| {len(cells):,} | {each:g} | {apart:.3f} | {uniform:.3f} | {uniform / apart:.2f} | {product.value:.3f} "
            f"| {product.value / apart:.2f} | {best} | {information_bound(total):.3f} | {seconds:.0f} |"
        )
    return lines


def main() -> None:
    if sys.argv[1] == "--step":
        step(sys.argv[2], Path(sys.argv[3]))
        return
    data = Path(sys.argv[1]).resolve()
    lines = ["| cells | step | s | peak, MB |", "| ---: | --- | ---: | ---: |"]
    lines += [*steps(data, SIX, 6.0), *steps(data, NINE, 9.0), ""]
    head = "cells | ε each | independent | uniform | ratio | product | ratio | general | bound | product, s"
    lines += [f"| {head} |", "| ---: " * 10 + "|", *kept(data, THREE, True), *kept(data, SIX, False)]
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results").mkdir(exist_ok=True)
    (Path(__file__).parent / "results" / "joint.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
