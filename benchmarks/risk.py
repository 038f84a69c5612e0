"""Measure the risk estimates against truth, and time them against peers and limits.

Run ``python benchmarks/risk.py FOLDER``: the folder holds ``ny_like_population_953076.parquet`` (ten categorical
variables without missing values) and ``ny_structural_zeros.csv``. Results go to benchmarks/results/risk.{md,json}.

- Accuracy: 5% samples of the population, 4 to 10 keys: relative error and interval coverage of tau1 and tau2 for every
  model, beside the formula of a well-known package, which puts μ(1−π) in place of λ(1−π).
- Time: proportional fitting, k-anonymity, l-diversity, latent classes; limit: one pass of counting over the codes.
- Attack: links that are right beside those that the attacker expects, by ε.
"""

import csv
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from papers.misclassification import describe
from papers.sampling import example_population, rare_threshold, whole_cell_shares
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.risk import latent_class, loglinear, modelchoice, tau
from postrand.risk.attack import link
from postrand.risk.cells import KeyCodes, table
from postrand.risk.counts import k_anonymity, l_diversity
from postrand.risk.law import KeyLaw, release
from postrand.risk.suda import suda

RESULTS = Path(__file__).parent / "results"
PI = 0.05
SAMPLES = 14


def seconds(function, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def read_population(folder):
    data = pq.read_table(folder / "ny_like_population_953076.parquet").combine_chunks()
    codes = tuple(c.chunk(0).indices.to_numpy(zero_copy_only=False) for c in data.columns)
    labels = [c.chunk(0).dictionary.to_pylist() for c in data.columns]
    names = data.column_names
    population = KeyCodes(tuple(names), tuple(map(len, labels)), codes)
    with (folder / "ny_structural_zeros.csv").open() as file:
        rules = [{k: labels[names.index(k)].index(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
    return population, rules


def draw_case(population, rules, seed):
    """Draw a 5% sample and 4 to 10 keys; return cells, rules on those keys, and the true tau1, tau2."""
    rng = np.random.default_rng(seed)
    size = 4 + seed % 7
    chosen = rng.choice(population.names, size, replace=False)
    names = tuple(n for n in population.names if n in chosen)
    sample = np.flatnonzero(rng.random(population.records) < PI)
    whole = table(population.select(names))
    cells = table(population.take(sample).select(names))
    frequency = whole.counts[whole.record_cell[sample]][cells.uniques[cells.record_cell]]
    kept = [rule for rule in rules if set(rule) <= set(names)]
    return cells, kept, (float((frequency == 1).sum()), float((1 / frequency).sum()))


def estimates(cells, rules):
    """Yield (model, tau1, tau2) as Tau values; the last is the mistaken formula."""
    for model in ("independence", "two-way", "three-way"):
        fit = loglinear.fit(cells, model, tolerance=1e-2, max_iterations=500)
        yield model, *tau.estimate(fit, cells, PI)
    yield "search", *tau.estimate(modelchoice.choose(cells, PI).fit, cells, PI)
    found = latent_class.fit(cells, PI, forbidden=rules, sweeps=400, chains=1)
    yield "latent class", found.tau1, found.tau2
    fit = loglinear.fit(cells, "two-way", tolerance=1e-2, max_iterations=500)
    x = fit.at(cells.codes[cells.uniques]) * (1 - PI)
    yield "two-way, mistaken formula", tau.Tau(float(np.exp(-x).sum())), tau.Tau(float(tau.exprel(x).sum()))


def accuracy(population, rules):
    rows = []
    for seed in range(SAMPLES):
        cells, kept, truth = draw_case(population, rules, 1000 + seed)
        for model, *found in estimates(cells, kept):
            for name, value, true in zip(("tau1", "tau2"), found, truth, strict=True):
                held = None if value.interval is None else bool(value.interval[0] <= true <= value.interval[1])
                rows.append(
                    {
                        "seed": 1000 + seed,
                        "keys": len(cells.names),
                        "model": model,
                        "measure": name,
                        "true": true,
                        "value": value.value,
                        "bias": value.bias,
                        "covered": held,
                    }
                )
    return rows


def summary(rows):
    lines = [
        "| model | measure | median abs. error | within 35% (truth >= 20) | 95% interval holds |",
        "|---|---|---|---|---|",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        for measure in ("tau1", "tau2"):
            part = [r for r in rows if r["model"] == model and r["measure"] == measure and r["true"] >= 20]
            errors = np.array([abs(r["value"] / r["true"] - 1) for r in part])
            held = [r["covered"] for r in part if r["covered"] is not None]
            shown = f"{sum(held)}/{len(held)}" if held else "none given"
            within = f"{int((errors <= 0.35).sum())}/{errors.size}"
            lines.append(f"| {model} | {measure} | {100 * np.median(errors):.1f}% | {within} | {shown} |")
    return lines


def times(population, rules):
    rng = np.random.default_rng(0)
    sample = population.take(np.flatnonzero(rng.random(population.records) < 50_000 / population.records))
    cells, whole = table(sample), table(population)
    small = table(sample.select(("mortgage", "age", "marital_status", "race", "education", "employment")))
    nine, last = population.select(population.names[:9]), population.codes[9]
    many = nine.take(rng.integers(0, population.records, 10_000_000))
    many_last = rng.integers(0, 3, 10_000_000).astype(np.int8)
    latent_class.fit(cells, PI, sweeps=20, chains=1)
    rows = {
        "limit: np.bincount of 953,076 cell numbers": seconds(lambda: np.bincount(whole.record_cell)),
        "k-anonymity, 953,076 x 9": seconds(lambda: k_anonymity(nine)),
        "l-diversity, 953,076 x 9": seconds(lambda: l_diversity(nine, last, 3)),
        "k-anonymity, 10,000,000 x 9": seconds(lambda: k_anonymity(many), 1),
        "l-diversity, 10,000,000 x 9": seconds(lambda: l_diversity(many, many_last, 3), 1),
        "two-way, 2,566,080 cells, 45 margins, whole population, to 1e-6": seconds(lambda: loglinear.fit(whole), 1),
        "two-way, 2,566,080 cells, 45 margins, 50,000 records, to 1e-6": seconds(lambda: loglinear.fit(cells), 1),
        f"two-way, {np.prod(small.shape):,} cells, 50,000 records, to 1e-6": seconds(lambda: loglinear.fit(small)),
        "SUDA, all sizes, 50,000 x 10": seconds(lambda: suda(sample), 1),
        "latent class, 50,000 x 10, 1,000 sweeps": seconds(
            lambda: latent_class.fit(cells, PI, sweeps=1000, chains=1), 1
        ),
        "latent class, 60 structural zeros, 1,000 sweeps": seconds(
            lambda: latent_class.fit(cells, PI, sweeps=1000, chains=1, forbidden=rules), 1
        ),
    }
    rows["peak memory of the run, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return rows


def attacks(population):
    rng = np.random.default_rng(3)
    names = ("age", "sex", "marital_status", "race", "education")
    keys = population.take(rng.choice(population.records, 10_000, replace=False)).select(names)
    rows = []
    for epsilon in (2.0, 4.0, 6.0, 8.0):
        blocks = [Block((n,), randomised_response(s, epsilon)) for n, s in zip(names, keys.shape, strict=True)]
        law = KeyLaw.of(Mechanism(blocks), names, keys.shape)
        out = release(law, keys, 1)
        found = {k: link(keys, out, law, k) for k in ("exact", "nearest", "matrix")}
        rows.append(
            {"epsilon of each key": epsilon, "matrix, expected": found["matrix"].claimed_rate}
            | {k: v.rate for k, v in found.items()}
        )
        assert describe("k-RR", blocks[0].matrix).epsilon <= epsilon
    return rows


def main():
    folder = Path(sys.argv[1])
    population, rules = read_population(folder)
    rng = np.random.default_rng(1)
    shares = {n: whole_cell_shares(example_population(rng), n, 200, rng)[0].value for n in (5_000, 10_000)}
    result = {
        "times": times(population, rules),
        "accuracy": accuracy(population, rules),
        "attacks": attacks(population),
        "threshold": rare_threshold(2**16, 1 / 3, 1 / 3),
        "population uniques among sample uniques": shares,
    }
    text = ["# Risk", "", "## Time (seconds, best run)", "", "| what | value |", "|---|---|"]
    text += [f"| {k} | {v:.3f} |" for k, v in result["times"].items()]
    text += ["", f"## Accuracy: {SAMPLES} samples of 5%, 4 to 10 keys", "", *summary(result["accuracy"])]
    text += ["", "## Linkage attack, 10,000 records, 5 keys: share of links that are right", ""]
    heads = list(result["attacks"][0])
    text += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    text += ["| " + " | ".join(f"{row[h]:.4f}" for h in heads) + " |" for row in result["attacks"]]
    text += ["", "## Sampling alone", "", f"Threshold for k=2^16, ε=δ=1/3: {result['threshold']:.1f} (printed 77.3)."]
    text += [f"Population uniques among sample uniques, n={n:,}: {share:.4f}." for n, share in shares.items()]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "risk.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    (RESULTS / "risk.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
