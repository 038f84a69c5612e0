"""Compare the risk after perturbation with the truth, on populations whose every record is known.

Run ``python -m benchmarks.risk_perturbed FOLDER``: the folder holds ``ny_like_population_953076.parquet``; without it
nothing is measured, and it is said. A second population is drawn here from a mixture of products of its own. The truth
of a release is ``Σ 1[keys unchanged]/F`` over released uniques (tau2), and the number of them with ``F = 1`` (tau1).
Results go to benchmarks/results/risk_perturbed.{md,json}.
"""

import json
import sys
from pathlib import Path

import numpy as np

from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.risk import loglinear, perturbed, tau
from postrand.risk.cells import KeyCodes, table
from postrand.risk.law import KeyLaw, release

RESULTS = Path(__file__).parent / "results"
EPSILONS = (12.0, 17.0, 21.24, 30.0)
"""Total over six keys."""

FRACTIONS = (0.01, 0.05)
RELEASES = 6
NEW_YORK = ("ownership", "age", "marital_status", "race", "education", "employment")


def new_york(folder):
    """Read the population on six keys; None where it is not there."""
    file = folder / "ny_like_population_953076.parquet"
    if not file.exists():
        return None
    import pyarrow.parquet as pq

    data = pq.read_table(file, columns=list(NEW_YORK)).combine_chunks()
    codes = tuple(c.chunk(0).indices.to_numpy(zero_copy_only=False).astype(np.int64) for c in data.columns)
    return KeyCodes(NEW_YORK, tuple(len(c.chunk(0).dictionary) for c in data.columns), codes)


def mixture(size=300_000, seed=11, shape=(8, 12, 5, 10, 4, 6), classes=18):
    """Draw a population from a mixture of products: interactions of every order, skewed margins."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(classes, 1.5))
    member = rng.choice(classes, size, p=weights)
    columns = []
    for levels in shape:
        centre = rng.dirichlet(np.full(levels, 1.5))
        laws = np.stack([rng.dirichlet(4 * centre + 0.05) for _ in range(classes)])
        drawn = (rng.random((size, 1)) > np.cumsum(laws, axis=1)[member]).sum(axis=1)
        columns.append(drawn.clip(0, levels - 1).astype(np.int64))
    return KeyCodes(tuple("abcdef"[: len(shape)]), shape, tuple(columns))


def number(keys):
    return np.ravel_multi_index(keys.codes, keys.shape)


def law_of(keys, epsilon):
    """Return k-ary randomised response on every key, equal shares."""
    each = epsilon / len(keys.names)
    blocks = [Block((n,), randomised_response(s, each)) for n, s in zip(keys.names, keys.shape, strict=True)]
    return KeyLaw.of(Mechanism(blocks), keys.names, keys.shape)


def truth(sample, released, frequency):
    """Return tau1 and tau2 of a release: what an attacker who links every released unique gets right."""
    true, shown = number(sample), number(released)
    _, back, counts = np.unique(shown, return_inverse=True, return_counts=True)
    right = (counts[back] == 1) & (true == shown)
    return float((frequency[true[right]] == 1).sum()), float((1 / frequency[true[right]]).sum())


def study(keys, fraction, epsilons=EPSILONS, releases=RELEASES, seed=0, model="two-way"):
    """Return a row for each ε and the unperturbed file: truths, estimates, intervals that hold the truth."""
    frequency = np.bincount(number(keys), minlength=keys.cells)
    sample = keys.take(np.flatnonzero(np.random.default_rng(seed).random(keys.records) < fraction))
    cells = table(sample)
    before = tau.estimate(loglinear.fit(cells, model, tolerance=1e-2), cells, fraction)
    rows = [_row("none", [truth(sample, sample, frequency)], [before], [before])]
    for epsilon in epsilons:
        law = law_of(keys, epsilon)
        true, found, plain = [], [], []
        for draw in range(releases):
            released = release(law, sample, 100 * seed + draw)
            true.append(truth(sample, released, frequency))
            counted = table(released)
            matches = perturbed.estimate(counted, law, fraction, model)
            found.append((matches.tau1, matches.tau2))
            plain.append(_every_unique(counted, law, fraction))
        rows.append(_row(epsilon, true, found, plain))
    return rows


def _every_unique(cells, law, fraction):
    """The sum over all released uniques of M[j,j] E(1/F~): what development versions before this one said."""
    fit = loglinear.fit(cells, "two-way", tolerance=1e-2)
    unique = cells.uniques
    mu = fit.at(cells.codes[unique])
    stay = law.diagonal(cells.codes[unique])
    return tuple(tau.Tau(float((stay * risk).sum())) for risk in tau.unique_risk(mu, fraction))


def _row(epsilon, true, found, plain):
    row = {"epsilon": epsilon}
    for k, name in enumerate(("tau1", "tau2")):
        held = [f[k].interval[0] <= t[k] <= f[k].interval[1] for f, t in zip(found, true, strict=True)]
        row |= {
            f"{name} truth": float(np.mean([t[k] for t in true])),
            f"{name} before": float(np.mean([f[k].value for f in plain])),
            f"{name} now": float(np.mean([f[k].corrected for f in found])),
            f"{name} held": int(sum(held)),
            "draws": len(held),
        }
    return row


def pooled(tables):
    """Return how many intervals held the truth, of how many, over all perturbed rows."""
    rows = [row for rows in tables.values() for row in rows if row["epsilon"] != "none"]
    return sum(r["tau1 held"] + r["tau2 held"] for r in rows), 2 * sum(r["draws"] for r in rows)


def text(tables):
    lines = ["# Risk after perturbation", ""]
    for title, rows in tables.items():
        heads = ["epsilon", *(f"{n} {w}" for n in ("tau2", "tau1") for w in ("truth", "before", "now", "held"))]
        lines += [f"## {title}", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for r in rows:
            shown = [f"{r[h]:.1f}" if isinstance(r[h], float) and h != "epsilon" else str(r[h]) for h in heads[1:]]
            shown = [f"{s}/{r['draws']}" if h.endswith("held") else s for h, s in zip(heads[1:], shown, strict=True)]
            lines.append(f"| {r['epsilon']} | " + " | ".join(shown) + " |")
        lines.append("")
    held, draws = pooled(tables)
    return [*lines, f"Of {draws} draws pooled, {held} ({100 * held / draws:.1f}%) are inside their 95% intervals."]


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("data")
    populations = {"New York, six keys": new_york(folder), "a mixture of products, six keys": mixture()}
    tables = {}
    for title, keys in populations.items():
        if keys is None:
            print(f"skipped: {title}: no ny_like_population_953076.parquet in {folder}")
            continue
        for fraction in FRACTIONS:
            tables[f"{title}, sampling fraction {fraction}"] = study(keys, fraction)
    shown = "\n".join(text(tables))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "risk_perturbed.md").write_text(shown + "\n", encoding="utf-8")
    (RESULTS / "risk_perturbed.json").write_text(json.dumps(tables, indent=1), encoding="utf-8")
    print(shown)


if __name__ == "__main__":
    main()
