"""Coverage and width of intervals for shares, and the size of the tests, over a grid; the intervals that were, beside.

Run ``python -m benchmarks.interval_grid [--quick]``; results go to benchmarks/results/interval_grid.{md,json}. Cells of
randomised response and of unperturbed variables are exact: the binomial law of the released count is summed. The
others are simulated, each population drawn anew; a Monte-Carlo error stands beside each.
"""

import json
import sys
from pathlib import Path

import numpy as np
from scipy import stats

from postrand import estimate
from postrand.estimate import hypotheses
from postrand.estimate.axes import Axis, Layout, apply
from postrand.estimate.em import from_tally_ml
from postrand.estimate.intervals import binomial_bounds
from postrand.estimate.tally import Tally
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

RESULTS = Path(__file__).parent / "results"
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
SIZES = (200, 1_000, 5_000, 20_000)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 6.0, 8.0)
DIFFERENCES = (1, 3, 4, 5, 9)  # a difference set modulo 11


def exact_grid(sizes):
    """One row for each share, n and law of two values: coverage and mean width, score and Wald."""
    laws = [("unperturbed", 0.0, 1.0, 0.0)]
    for categories in (3, 5, 10):
        for epsilon in EPSILONS:
            law = randomised_response(categories, epsilon).array
            laws.append((f"k-RR, S = {categories}", epsilon, law[0, 0], law[1, 0]))
    rows = []
    for n in sizes:
        counts = np.arange(n + 1.0)
        low, high = binomial_bounds(counts, np.full(n + 1, float(n)), 0.95)
        half = 1.96 * np.sqrt(counts / n * (1 - counts / n) / (n - 1))
        for name, epsilon, kept, moved in laws:
            for share in SHARES:
                p = share * kept + (1 - share) * moved
                law = stats.binom.pmf(counts, n, p)
                rows.append(
                    {
                        "law": name,
                        "epsilon": epsilon,
                        "n": n,
                        "share": share,
                        "before": float(law[np.abs(counts / n - p) <= half].sum()),
                        "after": float(law[(low <= p + 1e-12) & (p <= high + 1e-12)].sum()),
                        "width_before": float(law @ (2 * half)) / (kept - moved),
                        "width_after": float(law @ (high - low)) / (kept - moved),
                    }
                )
    return rows


def circulant(epsilon):
    """The law that favours the category's translate of a difference set modulo 11 by a factor of e^ε."""
    first = np.ones(11)
    first[list(DIFFERENCES)] = np.exp(epsilon)
    return TransitionMatrix.from_array(np.array([np.roll(first / first.sum(), k) for k in range(11)]))


def simulate(rng, shape, laws, n, runs, estimator, draw):
    """Coverage over all cells and runs, each with a population of its own, before and after."""
    inside, once, widths, errors = np.zeros((2, runs)), [], np.zeros((2, runs)), []
    for run in range(runs):
        truth = draw(rng)
        law = apply([None if m is None else m.array.T for m in laws], truth)
        counts = rng.multinomial(n, law.ravel() / law.sum()).reshape(shape)
        counted = estimate.from_counts(counts.astype(float), laws)
        found, plain = estimator(counted), estimate.from_tally(counted)
        low, high = found.interval()
        half = 1.96 * plain.standard_error
        ends = plain.value - half, plain.value + half
        if estimator is from_tally_ml:
            ends = np.minimum(np.clip(ends[0], 0, 1), found.value), np.maximum(np.clip(ends[1], 0, 1), found.value)
        for row, (below, above) in enumerate((ends, (low, high))):
            covered = (below <= truth) & (truth <= above)
            inside[row, run], widths[row, run] = covered.mean(), (above - below).mean()
        once.append(covered)
        errors.append(((found.value - truth) ** 2).mean())
    return {
        "before": float(inside[0].mean()),
        "after": float(inside[1].mean()),
        "error": float(inside[1].std(ddof=1) / np.sqrt(runs)),
        "lowest_cell": float(np.mean(once, axis=0).min()),
        "width_before": float(widths[0].mean()),
        "width_after": float(widths[1].mean()),
        "rmse": float(np.sqrt(np.mean(errors))),
    }


def general_grid(rng, sizes, runs):
    """Circulant laws with the shares of the grid in a random order, and 5 x 3 tables, unbiased and likelihood."""
    shares = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.1, 0.1, 0.05, 0.015])
    rows = []
    for n in sizes:
        for epsilon in (0.5, 1.0, 3.0):
            law = [circulant(epsilon)]
            found = simulate(rng, (11,), law, n, runs, estimate.from_tally, lambda r: r.permutation(shares))
            rows.append({"table": "circulant, S = 11", "estimator": "unbiased", "epsilon": epsilon, "n": n, **found})
    for n in [size for size in sizes if size <= 5_000]:
        for epsilon in (0.5, 1.0, 2.0, 5.0):
            laws = [randomised_response(5, epsilon), randomised_response(3, epsilon)]
            for name, estimator in (("unbiased", estimate.from_tally), ("likelihood", from_tally_ml)):
                found = simulate(
                    rng, (5, 3), laws, n, runs, estimator, lambda r: r.dirichlet(np.ones(15)).reshape(5, 3)
                )
                rows.append({"table": "5 x 3", "estimator": name, "epsilon": epsilon, "n": n, **found})
    return rows


def rejections(rng, runs, n=200):
    """The rate of rejection at 5% of n records: of independence (size), and of a gap of 0.06 in two cells (power)."""
    independent = np.outer([0.5, 0.3, 0.2], [0.4, 0.6])
    gap = 0.06 * np.array([[1, -1], [-1, 1], [0, 0]])
    texts, codes = (("u", "v", "w"), ("x", "y")), np.indices((3, 2)).reshape(2, -1).T.astype(np.int32)
    rows = []
    for epsilon in (1.0, 2.0):
        joint = randomised_response(6, 2 * epsilon)
        pair = [randomised_response(3, epsilon), randomised_response(2, epsilon)]
        block = Layout((Axis(("a", "b"), texts, joint, codes, (0, 1)),), ("a", "b"), ("a", "b"))
        apart = estimate.from_counts(np.ones((3, 2)), pair, ("a", "b"), texts).layout
        cases = (("one block", block, joint.array), ("two blocks", apart, np.kron(pair[0].array, pair[1].array)))
        for name, layout, matrix in cases:
            for weighted in (False, True):
                row = {"table": name, "epsilon": epsilon, "weights": weighted}
                for key, truth in (("size", independent), ("power", independent + gap)):
                    rejected = 0
                    for _ in range(runs):
                        cells = rng.choice(6, n, p=truth.ravel() @ matrix)
                        w = rng.gamma(2, 1, n) if weighted else np.ones(n)
                        sums = (np.bincount(cells, v, 6).reshape(1, *(a.size for a in layout.axes)) for v in (w, w * w))
                        counts, squares = sums
                        tallied = Tally(layout, counts, squares, np.array([n]), 0, weighted)
                        rejected += hypotheses.independence(tallied).p_value < 0.05
                    row |= {key: rejected / runs, key + "_error": float(np.sqrt(0.05 * 0.95 / runs))}
                rows.append(row)
    return rows


def worst(rows, key):
    """The row of least coverage, in words."""
    row = min(rows, key=lambda r: r[key])
    return f"{row[key]:.3f} ({row['law']}, ε = {row['epsilon']:g}, n = {row['n']:,}, share {row['share']:g})"


def page(found):
    """The tables of the results, as Markdown."""
    exact, general, sizes = found["exact"], found["general"], found["sizes"]
    lines = ["## Shares, exact", "", "| | before (Wald) | after |", "| --- | --- | --- |"]
    lines.append(f"| lowest coverage | {worst(exact, 'before')} | {worst(exact, 'after')} |")
    means = [float(np.mean([row[key] for row in exact])) for key in ("before", "after")]
    lines.append(f"| mean of {len(exact)} cells | {means[0]:.4f} | {means[1]:.4f} |")
    ratio = float(np.mean([row["width_after"] / row["width_before"] for row in exact]))
    lines += [f"| mean width, after / before | | {ratio:.3f} |", "", "## Simulated", ""]
    lines.append(
        "| table | estimator | ε | n | before | after | MC error | lowest cell | width before | width after | RMSE |"
    )
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {r['table']} | {r['estimator']} | {r['epsilon']:g} | {r['n']:,} | {r['before']:.3f} | {r['after']:.3f} | "
        f"{r['error']:.3f} | {r['lowest_cell']:.3f} | {r['width_before']:.4f} | {r['width_after']:.4f} | "
        f"{r['rmse']:.4f} |"
        for r in general
    ]
    lines += [
        "",
        "## Test of independence, n = 200, nominal 5%",
        "",
        "| table | ε | weights | size | MC error | power |",
    ]
    lines.append("| --- | ---: | --- | ---: | ---: | ---: |")
    lines += [
        f"| {r['table']} | {r['epsilon']:g} | {'yes' if r['weights'] else 'no'} | {r['size']:.3f} | "
        f"{r['size_error']:.3f} | {r['power']:.3f} |"
        for r in sizes
    ]
    return "\n".join(lines) + "\n"


def main(arguments):
    """Run the grid, write and print the results."""
    quick = "--quick" in arguments
    rng, runs = np.random.default_rng(14), 100 if quick else 1_000
    found = {
        "exact": exact_grid(SIZES[:2] if quick else SIZES),
        "general": general_grid(rng, SIZES[:1] if quick else SIZES, runs),
        "sizes": rejections(rng, 4 * runs),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "interval_grid.json").write_text(json.dumps(found, indent=1), "utf-8")
    (RESULTS / "interval_grid.md").write_text(page(found), "utf-8")
    print(page(found))


if __name__ == "__main__":
    main(sys.argv[1:])
