"""Structure on the New York file: rules, a map of 200 regions, joint blocks, the whole record in the objective.

Run as ``python -m benchmarks.structure FOLDER`` with the folder of the shared data; writes results/structure.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.joint_gain import joint_gain
from scipy.spatial import Delaunay

from postrand import ReleaseKey, formats, load_plan, run
from postrand.codebook import coding
from postrand.codebook.rules import forbidden
from postrand.designers import Exponential, Metric, design
from postrand.engines import LocalEngine
from postrand.objectives import ExpectedDistance, WholeRecord
from postrand.plan import infer, writing
from postrand.privacy import DifferentialPrivacy, MetricPrivacy
from postrand.workflow.design_blocks import design_blocks

FILE, SAMPLE, RULES = "ny_like_population_953076.parquet", "ny_pums_2000_sample.csv", "ny_structural_zeros.csv"
FEW = ("age", "sex", "race")
LINKED = (("ownership", "mortgage"), ("age", "marital_status"), ("age", "employment"))


def write_plan(data: Path, folder: Path, file: str = FILE, share: bool = False) -> Path:
    drafts = infer.infer(formats.read(data / file))
    for draft in drafts:
        draft["role"] = "key"
    rules = f'rules_file = "{data / RULES}"\n'
    (folder / "codebook.toml").write_text(rules + writing.codebook_text(drafts), encoding="utf-8")
    text = f'[source]\nfile = "{data / file}"\ncodebook = "codebook.toml"\n'
    text += '[privacy]\nmodel = "differential"\nepsilon = 9.0\n' + '[design]\nprior = "file"\n' * share
    own = "" if share else 'privacy = { model = "differential", epsilon = 1.0 }\n'
    for names in [["ownership", "mortgage"], *([d["name"]] for d in drafts[2:])]:
        listed = ", ".join(f'"{n}"' for n in names)
        text += f"[[blocks]]\nvariables = [{listed}]\n{own}"
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def timed(function, *arguments, **options):
    """Return the result, and the seconds by the clock and of the processors, which other programs do not lengthen."""
    start, used = time.perf_counter(), time.process_time()
    found = function(*arguments, **options)
    return found, f"{time.perf_counter() - start:.2f} ({time.process_time() - used:.2f})"


def protected(data: Path, file: str, share: bool) -> list[str]:
    """Return the times and the forbidden combinations released of one plan: ten variables, 60 rules."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = load_plan(write_plan(data, folder, file, share))
        _, design_time = timed(design_blocks, plan)
        release, protect_time = timed(run, plan, folder / "out", release_key=ReleaseKey.from_seed(1))
        table, codes = release.frame(), {}
        for v in plan.codebook.variables:
            codes[v.name] = coding.encode(table.column(v.name).combine_chunks(), v)
        wrong = int(forbidden(plan.codebook, codes, plan.codebook.rules).sum())
        kind = "ε = 9 shared" if share else "ε = 1 a block"
        what = f"New York, {table.num_rows:,} records, {len(plan.codebook.rules)} rules, {kind}"
        return [
            f"| {what}: design, s (of processors) | {design_time} |",
            f"| the same: check, design, certify, perturb, write, summarise, s | {protect_time} |",
            f"| the same: forbidden combinations released | {wrong} |",
        ]


def new_york(data: Path) -> list[str]:
    return [line for file in (FILE, SAMPLE) for share in (False, True) for line in protected(data, file, share)]


def linked(data: Path) -> list[str]:
    """Return what joint blocks keep of variables that depend on each other."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        codebook = load_plan(write_plan(data, Path(name))).codebook
    engine, source = LocalEngine(), formats.read(data / FILE, codebook)
    for names in LINKED:
        together, apart = joint_gain(engine.count(source, codebook, names).dense(), [1.0] * len(names))
        lines.append(f"| {' x '.join(names)}: joint / independent information, ε = 1 each | {together / apart:.2f} |")
    return lines


def whole_record(data: Path, epsilon: float = 1.0) -> list[str]:
    """Return, for each variable perturbed alone, what its best matrix keeps beyond the clear variables (nats)."""
    lines = [
        "",
        f"One variable perturbed at ε = {epsilon:g}, the whole record in the objective, by the clear variables:",
        "",
        "| perturbed | by itself | beyond age, sex, race | usual matrix | gain | beyond all others | usual matrix "
        "| gain | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as name:
        codebook = load_plan(write_plan(data, Path(name))).codebook
        source = formats.read(data / FILE, codebook)
        for perturbed in codebook.names:
            cells, start = [], time.perf_counter()
            for clear in (FEW, codebook.names):
                counted = [perturbed, *(n for n in clear if n != perturbed)]
                codes, counts = LocalEngine().count(source, codebook, counted).occupied()
                _, column = np.unique(codes[:, 1:], axis=0, return_inverse=True)
                joint = np.zeros((codebook[perturbed].size, column.max() + 1))
                np.add.at(joint, (codes[:, 0], column), counts)
                objective = WholeRecord(joint=joint)
                prior, model = joint.sum(axis=1) / joint.sum(), DifferentialPrivacy(epsilon)
                best, usual = design(prior, model, objective), design(prior, model)
                kept = objective.value(usual.matrix.array, prior)
                gain = f"{best.value / kept:.3f}" if kept > 1e-12 else "∞"
                cells += [f"{best.value:.4f}", f"{kept:.4f}", gain if best.status == "optimal" else f">= {gain}"]
            seconds = time.perf_counter() - start
            lines.append(f"| {perturbed} | {usual.value:.4f} | {' | '.join(cells)} | {seconds:.1f} |")
    return lines


def regions(size: int = 200) -> list[str]:
    generator = np.random.default_rng(0)
    points = generator.random((size, 2))
    pairs = {
        (int(min(a, b)), int(max(a, b)))
        for corners in Delaunay(points).simplices
        for a, b in zip(corners, np.roll(corners, 1), strict=True)
    }
    edges = tuple((i, k, float(np.linalg.norm(points[i] - points[k]) * np.sqrt(size))) for i, k in sorted(pairs))
    prior = generator.dirichlet(np.ones(size))
    best, seconds = timed(design, prior, MetricPrivacy(1.0, edges), ExpectedDistance(edges), Metric())
    fast, quick = timed(design, prior, MetricPrivacy(1.0, edges), ExpectedDistance(edges), Exponential())
    return [
        f"| map of {size} regions, {len(edges)} edges: optimal channel, s | {seconds} |",
        f"| proven relative gap | {best.relative_gap:.1e} |",
        f"| expected distance, exponential / optimal ({quick} s) | {fast.value / best.value:.2f} |",
    ]


def main() -> None:
    data = Path(sys.argv[1]).resolve()
    lines = ["| what | figure |", "| --- | --- |", *new_york(data), *linked(data), *regions(), *whole_record(data)]
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "structure.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
