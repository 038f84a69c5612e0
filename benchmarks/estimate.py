"""Study the estimators by simulation, reproduce the paper's figures as numbers, and time the analyst's calls.

Run ``python benchmarks/estimate.py [FILE.parquet]``: the file (953,076 records, 10 categorical variables) is
simulated when none is named. Results go to benchmarks/results/estimate.{md,json}. Takes about a minute.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.estimate.axes import apply
from postrand.estimate.em import from_tally_ml
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

RESULTS = Path(__file__).parent / "results"
REPLICATIONS, RECORDS = 2_000, 5_000
DESIGNS = [*((s,) for s in (2, 5, 11)), (2, 5), (5, 11), (2, 5, 3), (2, 3, 2, 5)]
EPSILONS = (0.5, 1.0, 2.0)
SIZES = (3, 4, 9, 2, 6, 5, 11, 4, 3, 3)


def study(rng, shape, epsilon, truth, replications=REPLICATIONS):
    """Bias in Monte-Carlo standard errors and coverage of 95% intervals, cell by cell, of one design."""
    laws = [randomised_response(s, epsilon) for s in shape]
    released = apply([law.array.T for law in laws], truth)
    values, inside = [], np.zeros(shape)
    draws = rng.multinomial(RECORDS, released.ravel(), size=replications)
    for counts in draws:
        found = estimate.from_tally(estimate.from_counts(counts.reshape(shape), laws))
        low, high = found.interval()
        inside += (low <= truth) & (truth <= high)
        values.append(found.value)
    bias, error = np.mean(values, axis=0) - truth, np.std(values, axis=0, ddof=1) / np.sqrt(replications)
    coverage = inside / replications
    return {
        "shape": "x".join(map(str, shape)),
        "epsilon": epsilon,
        "cells": truth.size,
        "largest_bias": float(np.abs(bias).max()),
        "largest_z": float(np.abs(bias / error).max()),
        "beyond_3": int((np.abs(bias / error) > 3).sum()),
        "outside": int(((coverage < 0.935) | (coverage > 0.965)).sum()),
        "coverage_low": float(coverage.min()),
        "coverage_mean": float(coverage.mean()),
        "coverage_high": float(coverage.max()),
        "naive_bias": float(np.abs(released - truth).max()),
    }


def studies(rng):
    """Every design; one with a cell out of range is repeated afresh, with ten times the replications."""
    first, again = [], []
    for shape in DESIGNS:
        for epsilon in EPSILONS:
            truth = rng.dirichlet(np.full(int(np.prod(shape)), 2.0)).reshape(shape)
            row = study(rng, shape, epsilon, truth)
            first.append(row)
            if row["beyond_3"] or row["outside"]:
                again.append(study(rng, shape, epsilon, truth, 10 * REPLICATIONS))
    return first, again


def boundary(rng, epsilon):
    """Coverage of the maximum likelihood intervals where two cells are at or near 0."""
    truth = np.array([0.0, 0.002, 0.098, 0.3, 0.6])
    law, inside = randomised_response(5, epsilon), np.zeros(5)
    for counts in rng.multinomial(RECORDS, truth @ law.array, size=REPLICATIONS):
        low, high = from_tally_ml(estimate.from_counts(counts.astype(float), [law])).interval()
        inside += (low <= truth) & (truth <= high)
    return {"epsilon": epsilon, "coverage": (inside / REPLICATIONS).tolist()}


def scenarios(rng):
    """ABC §4.1: 100 runs of n = 10,000 for four priors; the average estimate against the truth."""
    gamma = rng.gamma(1, 5, 30)
    priors = {
        "I": [0.3, 0.1, 0.2, 0.08, 0.02, 0.04, 0.06, 0.1, 0.01, 0.09],
        "II": [0.0336, 0.1059, 0.1697, 0.0962, 0.0180, 0.0062, 0.1097, 0.0005, 0.1233, 0.3369],
        "III": gamma / gamma.sum(),
        "IV": [0.05, *[0.95 / 29] * 29],
    }
    rows = []
    for name, prior in priors.items():
        truth = np.array(prior) / np.sum(prior)
        for epsilon in (0.5, 1.0, 1.5, 2.0):
            law = randomised_response(len(truth), epsilon)
            draws = rng.multinomial(10_000, truth @ law.array, size=100)
            found = [estimate.from_tally(estimate.from_counts(c, [law])) for c in draws]
            mean, errors = np.mean([f.value for f in found], axis=0), np.mean([f.standard_error for f in found], axis=0)
            gap = np.abs(mean - truth)
            rows.append(
                {
                    "scenario": name,
                    "epsilon": epsilon,
                    "largest_gap": float(gap.max()),
                    "largest_z": float((gap / (errors / 10)).max()),
                    "standard_error": float(errors.mean()),
                    "naive_gap": float(np.abs(truth @ law.array - truth).max()),
                }
            )
    return rows


def new_york(rng):
    """ABC §4.2: sex in 953,076 records, p = (0.48, 0.52), six matrices within ε = 0.05, 100 runs each."""
    rows = []
    for q in (0.4875, 0.49, 0.495, 0.505, 0.51, 0.5125):
        law = TransitionMatrix.from_array([[q, 1 - q], [1 - q, q]])
        draws = rng.multinomial(953_076, np.array([0.48, 0.52]) @ law.array, size=100)
        found = [estimate.from_tally(estimate.from_counts(c, [law])) for c in draws]
        values = np.array([f.value[0] for f in found])
        rows.append(
            {
                "q": q,
                "epsilon": law.epsilon,
                "mean": float(values.mean()),
                "spread": float(values.std(ddof=1)),
                "standard_error": float(np.mean([f.standard_error[0] for f in found])),
                "effective": float(np.mean([f.effective_sample_size for f in found])),
            }
        )
    return rows


def simulate(rng):
    columns = {}
    for number, size in enumerate(SIZES):
        codes = rng.choice(size, 953_076, p=rng.dirichlet(np.full(size, 2.0))).astype(np.int8)
        columns[f"v{number}"] = pa.DictionaryArray.from_arrays(codes, [f"category {c}" for c in range(size)])
    return pa.table(columns)


def best(call, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        out = call()
        times.append(time.perf_counter() - start)
    return min(times), out


def tables(rng, path):
    """A five-way and a ten-way table, beside a plain count of the same five columns."""
    frame = pq.read_table(path) if path else simulate(rng)
    names = frame.column_names
    book = Codebook(
        tuple(Variable(n, role="key", categories=tuple(sorted(frame[n].unique().to_pylist()))) for n in names)
    )
    mechanism = Mechanism({n: randomised_response(book[n].size, 1.0) for n in names}, book)
    five, all_ten = names[:5], names
    plain, _ = best(lambda: frame.group_by(five).aggregate([([], "count_all")]))

    def table(variables):
        found = estimate.table(frame, variables, mechanism)
        return found, found.standard_error

    unbiased, (found, _) = best(lambda: table(five))
    likely, fit = best(lambda: estimate.maximum_likelihood(frame, five, mechanism), 1)
    ten, (whole, _) = best(lambda: table(all_ten), 1)
    one = estimate.proportions(frame, names[4], mechanism)
    return {
        "plain_count_s": plain,
        "five_way_cells": found.value.size,
        "five_way_s": unbiased,
        "five_way_ml_s": likely,
        "five_way_ml": fit.method,
        "ten_way_cells": whole.value.size,
        "ten_way_s": ten,
        "effective_one_way": one.effective_sample_size,
    }


def logistic(rng):
    """100,000 records, three perturbed covariates, without and with a clear numeric one."""
    n = 100_000
    a, age = rng.integers(0, 3, n), rng.integers(20, 80, n).astype(float)
    b, c = (rng.random(n) < 0.3 + 0.1 * a).astype(int), rng.integers(0, 5, n)
    eta = -1 + np.array([0, 0.5, -0.7])[a] + 0.8 * b + 0.2 * c + 0.01 * (age - 50)
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    laws = {"a": randomised_response(3, 1.0), "b": randomised_response(2, 1.0), "c": randomised_response(5, 1.0)}
    book = Codebook(
        tuple(
            Variable(name, role="key", categories=tuple(range(size)), type="int64")
            for name, size in {"a": 3, "b": 2, "c": 5, "y": 2}.items()
        )
    )
    released = {
        name: (rng.random(n)[:, None] > np.cumsum(laws[name].array, axis=1)[codes, :-1]).sum(axis=1)
        for name, codes in {"a": a, "b": b, "c": c}.items()
    }
    frame, mechanism = pa.table(released | {"y": y, "age": age}), Mechanism(laws, book)
    rows = []
    cases = [(f, m) for f in ("y ~ C(a) + b + c", "y ~ C(a) + b + c + age") for m in ("equations", "likelihood")]
    for formula, method in cases:
        seconds, found = best(
            lambda f=formula, m=method: estimate.regression(f, frame, mechanism, "logistic", method=m), 1
        )
        truth = [-1.0, 0.5, -0.7, 0.8, 0.2] if "age" not in formula else [-1.5, 0.5, -0.7, 0.8, 0.2, 0.01]
        z = np.abs((found.value - truth) / found.standard_error).max()
        rows.append({"formula": formula, "s": seconds, "method": found.method, "largest_z": float(z)})
    return rows


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---:" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def study_table(rows, error):
    head = [
        "table",
        "ε each",
        "cells",
        "largest bias",
        "in MC errors",
        "coverage, mean",
        "lowest",
        "highest",
        "naive bias",
    ]
    lines = [
        (
            r["shape"],
            r["epsilon"],
            r["cells"],
            f"{r['largest_bias']:.5f}",
            f"{r['largest_z']:.2f}",
            *(f"{r[key]:.1%}" for key in ("coverage_mean", "coverage_low", "coverage_high")),
            f"{r['naive_bias']:.3f}",
        )
        for r in rows
    ]
    cells = sum(r["cells"] for r in rows)
    text = (
        f"Of {cells} cells, {sum(r['beyond_3'] for r in rows)} have a bias beyond 3 Monte-Carlo errors "
        f"({0.0027 * cells:.1f} expected of an unbiased estimator), and {sum(r['outside'] for r in rows)} a\n"
        f"coverage outside 93.5% to 96.5% (one Monte-Carlo error is {error}).\n"
    )
    return markdown(head, lines) + "\n" + text


def figure_tables(out):
    lines = [
        (
            r["scenario"],
            r["epsilon"],
            *(f"{r[k]:.3g}" for k in ("largest_gap", "largest_z", "standard_error", "naive_gap")),
        )
        for r in out["scenarios"]
    ]
    head = ["scenario", "ε", "largest gap of the average", "in MC errors", "standard error of one run", "naive gap"]
    yield "## ABC's scenarios: average of 100 runs, n = 10,000, k-RR\n"
    yield markdown(head, lines)
    lines = [
        (r["q"], *(f"{r[k]:.4f}" for k in ("epsilon", "mean", "spread", "standard_error")), f"{r['effective']:,.0f}")
        for r in out["new_york"]
    ]
    head = ["q", "ε", "average estimate", "spread of the runs", "standard error claimed", "effective sample size"]
    yield "## Sex in 953,076 records, p = (0.48, 0.52), average of 100 runs\n"
    yield markdown(head, lines)


def time_table(out):
    t = out["tables"]
    lines = [
        ("plain count of five released columns (Arrow)", f"{t['plain_count_s']:.3f}"),
        (f"five-way table, {t['five_way_cells']:,} cells, with standard errors", f"{t['five_way_s']:.3f}"),
        (f"the same by {t['five_way_ml']}", f"{t['five_way_ml_s']:.2f}"),
        (f"ten-way table, {t['ten_way_cells']:,} cells, with standard errors", f"{t['ten_way_s']:.2f}"),
    ]
    for r in out["logistic"]:
        lines.append((f"logistic `{r['formula']}`, 100,000 records, {r['method']}", f"{r['s']:.2f}"))
    return markdown(["call", "seconds"], lines)


def report(out):
    return "\n".join(
        [
            f"## Unbiased tables, {REPLICATIONS:,} replications of {RECORDS:,} records\n",
            study_table(out["study"], "0.5%"),
            f"The designs with such a cell, afresh with {10 * REPLICATIONS:,} replications:\n",
            study_table(out["again"], "0.15%"),
            "## Maximum likelihood intervals at and near the boundary, true π = (0, 0.002, 0.098, 0.3, 0.6)\n",
            markdown(
                ["ε", "coverage of each cell"],
                [(r["epsilon"], ", ".join(f"{c:.1%}" for c in r["coverage"])) for r in out["boundary"]],
            ),
            *figure_tables(out),
            "## Times, 953,076 records, ε = 1 for each variable\n",
            time_table(out),
        ]
    )


def main(arguments):
    rng = np.random.default_rng(2026)
    first, again = studies(rng)
    out = {
        "study": first,
        "again": again,
        "boundary": [boundary(rng, epsilon) for epsilon in EPSILONS],
        "scenarios": scenarios(rng),
        "new_york": new_york(rng),
        "tables": tables(rng, arguments[0] if arguments else None),
        "logistic": logistic(rng),
    }
    text = report(out)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "estimate.md").write_text(text, "utf-8")
    (RESULTS / "estimate.json").write_text(json.dumps(out, indent=1) + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
