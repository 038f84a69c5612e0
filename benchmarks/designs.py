"""What designs leave on the table: queries, divided budgets, joint blocks.

Run as ``python -m benchmarks.designs FOLDER`` with the folder of the shared data; writes results/designs.md.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from postrand import formats
from postrand.codebook import Codebook
from postrand.designers import (
    Circulant,
    DesignWarning,
    EstimatorVariance,
    General,
    MutualInformation,
    Objective,
    Product,
    Symmetric,
    UniformOffDiagonal,
    design,
)
from postrand.designers.budget import BudgetShare, allocate, curve_of, floors
from postrand.engines import LocalEngine
from postrand.plan import infer
from postrand.privacy import DifferentialPrivacy

KEYS = ("sex", "age", "race", "education", "marital_status", "employment")


def queries() -> list[str]:
    """Return the mean of scores beside the mechanism of two released values."""
    lines = ["| S | ε | two values | before | now | bound | s |", "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for size, epsilon in product((5, 11, 20), (0.5, 1.0, 2.0)):
        p, scores = np.full(size, 1 / size), np.arange(float(size))
        cost, model = EstimatorVariance(queries=(tuple(scores.tolist()),)), DifferentialPrivacy(epsilon)
        two = ((size - 1) / 2 / math.tanh(epsilon / 2)) ** 2
        before = min(design(p, model, cost, s).value for s in (Circulant(), Symmetric(), UniformOffDiagonal()))
        start = time.perf_counter()
        found = design(p, model, cost, General())
        took = time.perf_counter() - start
        ratios = " | ".join(f"{x / two:.3f}" for x in (before, found.value, found.bound))
        lines.append(f"| {size} | {epsilon:g} | {two:.5g} | {ratios} | {took:.1f} |")
    return lines


def divided(data: Path, total: float = 6.0) -> list[str]:
    """Return how six keys share one budget."""
    source = formats.read(data / "ny_pums_2000_sample.csv")
    drafts = [{k: v for k, v in draft.items() if k != "notes"} | {"role": "key"} for draft in infer.infer(source)]
    for draft in drafts:
        draft["missing"] = "keep"
    book = Codebook.from_dict({"variables": drafts})
    source = formats.read(data / "ny_pums_2000_sample.csv", book)
    counts = [LocalEngine().count(source, book, (name,)).dense() for name in KEYS]
    priors = [c / c.sum() for c in counts]
    lines = [f"| objective | floor | {' | '.join(KEYS)} | information | variance |", "| --- " * (len(KEYS) + 4) + "|"]
    cases: list[tuple[Objective, float]] = [
        (MutualInformation(), 0.0),
        (MutualInformation(), 0.5),
        (EstimatorVariance(), 0.5),
        (EstimatorVariance(), 1.0),
    ]
    for objective, floor in cases:
        least = [e * (1 - 1e-12) for e in floors([BudgetShare(floor=floor)] * len(KEYS), total)]
        found = allocate([curve_of([(1.0, p, objective)], UniformOffDiagonal()) for p in priors], total, None, least)
        kept = sum(design(p, DifferentialPrivacy(e)).value for p, e in zip(priors, found.epsilons, strict=True))
        cost = sum(
            design(p, DifferentialPrivacy(e), EstimatorVariance(), Symmetric()).value
            for p, e in zip(priors, found.epsilons, strict=True)
        )
        shares = " | ".join(f"{e:.2f}" for e in found.epsilons)
        lines.append(f"| {objective.name} | {floor:g} | {shares} | {kept:.3f} | {cost:,.0f} |")
    return lines


def joint() -> list[str]:
    """Return what products keep on random cells, beside one law that is constant off the diagonal."""
    lines = [
        "| shape | cells | ε | uniform off-diagonal | product | floor = 0 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for shape, epsilon in product(((3, 4), (2, 5), (3, 3, 3)), (0.5, 1.0, 2.0)):
        rng = np.random.default_rng(len(shape))
        every = list(product(*map(range, shape)))
        cells = [every[i] for i in sorted(rng.permutation(len(every))[: round(0.8 * len(every))])]
        p, model = rng.dirichlet(np.ones(len(cells))), DifferentialPrivacy(epsilon)
        values = [design(p, model).value]
        values += [design(p, model, structure=Product.over(cells, floor)).value for floor in (0.5, 0.0)]
        lines.append(f"| {shape} | {len(cells)} | {epsilon:g} | {' | '.join(f'{v:.4f}' for v in values)} |")
    return lines


def main() -> None:
    warnings.simplefilter("ignore", DesignWarning)
    text = "\n".join([*divided(Path(sys.argv[1])), "", *joint(), "", *queries()]) + "\n"
    (Path(__file__).parent / "results").mkdir(exist_ok=True)
    (Path(__file__).parent / "results" / "designs.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
