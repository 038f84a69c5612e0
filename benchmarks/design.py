"""Time the designs against peers and limits; what ABC print of their four scenarios is here too (`make papers`).

Run ``python benchmarks/design.py``; results go to benchmarks/results/design.{md,json,svg}.

- Uniform off-diagonal: peer, evaluating every vertex of Proposition 2; limit, evaluating and checking the final law.
- General: peer, one linear programme over all 2^S column patterns (HiGHS); limit, as above.
"""

import json
import math
import platform
import resource
import sys
import time
import warnings
from itertools import combinations, product
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from postrand.designers import DesignWarning, General, MutualInformation, UniformOffDiagonal, design
from postrand.privacy import DifferentialPrivacy

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.5, 1.0, 1.5, 2.0)
SCENARIOS = {
    "I": np.array([0.3, 0.1, 0.2, 0.08, 0.02, 0.04, 0.06, 0.1, 0.01, 0.09]),
    "II": np.array([0.0336, 0.1059, 0.1697, 0.0962, 0.0180, 0.0062, 0.1097, 0.0005, 0.1233, 0.3369]),
    "IV": np.array([0.05, *[0.95 / 29] * 29]),
}
PRINTED = {  # ABC Tables 1 to 4: how many q_k are v_ε, v_-ε, v_min, v_max
    "I": [(4, 6, 0, 0), (5, 5, 0, 0), (2, 8, 0, 0), (0, 9, 0, 1)],
    "II": [(7, 3, 0, 0), (6, 4, 0, 0), (6, 4, 0, 0), (0, 9, 0, 1)],
    "III": [(29, 0, 1, 0), (29, 0, 1, 0), (30, 0, 0, 0), (29, 0, 1, 0)],
    "IV": [(0, 29, 0, 1), (30, 0, 0, 0), (30, 0, 0, 0), (30, 0, 0, 0)],
}


def information(p, diagonals):
    """Evaluate ABC's f(q) for every row of diagonals, as written in their §3.1."""
    off = (1 - diagonals) / (p.size - 1)
    marginal = (off @ p)[:, None] + p * (diagonals - off)
    rows = diagonals * np.log(diagonals) + (1 - diagonals) * np.log(off)
    return rows @ p - (marginal * np.log(marginal)).sum(axis=1)


def special_values(size, epsilon):
    grown, rest = math.exp(epsilon), size - 1
    return grown / (grown + rest), 1 / (1 + grown * rest), 1 / grown / (grown + rest), grown / (1 / grown + rest)


def best_printed(p, epsilon, counts):
    """Place a printed pattern on the categories in every way and return the largest information."""
    plus, minus, least, most = special_values(p.size, epsilon)
    high, low, with_least, with_most = counts
    if with_least or with_most:
        base = plus if high else minus
        rows = np.full((p.size, p.size), base)
        np.fill_diagonal(rows, least if with_least else most)
    else:
        chosen = list(combinations(range(p.size), low))
        rows = np.full((len(chosen), p.size), plus)
        for row, categories in zip(rows, chosen, strict=True):
            row[list(categories)] = minus
    return float(information(p, rows).max())


def drawn_priors(count=100):
    generator = np.random.default_rng(2020)
    draws = generator.gamma(1.0, size=(count, 30))
    return draws / draws.sum(axis=1, keepdims=True)


def solve(p, epsilon, structure):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DesignWarning)
        return design(p, DifferentialPrivacy(epsilon), MutualInformation(), structure)


def seconds(function, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def by_vertices(p, epsilon):
    plus, minus, *_ = special_values(p.size, epsilon)
    patterns = np.array(list(product((plus, minus), repeat=p.size)))
    special = (best_printed(p, epsilon, counts) for counts in ((1, 0, 1, 0), (0, 1, 0, 1)))
    return max(information(p, patterns).max(), *special)


def by_full_programme(p, epsilon):
    patterns = np.array(list(product((0, 1), repeat=p.size)), dtype=float)[1:]
    columns = 1 + math.expm1(epsilon) * patterns
    mass = columns @ p
    gain = (columns * np.log(columns)) @ p - mass * np.log(mass)
    answer = linprog(-gain / gain.max(), A_eq=columns.T, b_eq=np.ones(p.size), method="highs-ds")
    return -answer.fun * gain.max()


def check(p, epsilon, matrix):
    return MutualInformation().value(matrix.array, p), DifferentialPrivacy(epsilon).check([matrix])


def time_rows(structure, sizes, peer, peer_size, epsilon=1.0):
    rows = []
    for size in sizes:
        p = np.random.default_rng(size).dirichlet(np.ones(size))
        found = solve(p, epsilon, structure)
        rows.append(
            {
                "size": size,
                "ours_s": seconds(
                    lambda p=p: solve(p, epsilon, structure), runs=1 if size >= 500 else 20 if size <= 20 else 3
                ),
                "limit_s": seconds(lambda p=p, d=found: check(p, epsilon, d.matrix)),
                "peer_s": seconds(lambda p=p: peer(p, epsilon), runs=1) if size <= peer_size else None,
                "relative_gap": found.relative_gap,
            }
        )
    return rows


def number(value, text="{:.4g}"):
    return "" if value is None else text.format(value)


def timing_table(rows):
    names = ("S", "seconds", "limit, s", "ours / limit", "peer, s", "peer / ours", "relative gap")
    head = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    lines = []
    for r in rows:
        peer = None if r["peer_s"] is None else r["peer_s"] / r["ours_s"]
        cells = (r["size"], *map(number, (r["ours_s"], r["limit_s"], r["ours_s"] / r["limit_s"], r["peer_s"], peer)))
        lines.append(f"| {' | '.join(map(str, cells))} | {r['relative_gap']:.1e} |")
    return head + "\n".join(lines)


def draw(uniform, general):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(6, 4))
    for rows, label, style in ((uniform, "uniform off-diagonal", "o-"), (general, "general", "s--")):
        axes.loglog([r["size"] for r in rows], [r["ours_s"] for r in rows], style, label=label)
    axes.set_xlabel("categories S")
    axes.set_ylabel("seconds")
    axes.legend()
    axes.grid(alpha=0.3)
    plt.savefig(RESULTS / "design.svg", bbox_inches="tight", metadata={"Date": None})


def main():
    design(SCENARIOS["I"], DifferentialPrivacy(1.0))  # imports
    uniform = time_rows(UniformOffDiagonal(), (10, 20, 50, 100, 200, 500, 1000), by_vertices, 16)
    general = time_rows(General(), (10, 12, 16, 20, 32, 64, 128, 256, 500), by_full_programme, 12)
    hard = time_rows(General(), (64,), by_full_programme, 0, epsilon=4.0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    machine = f"{platform.machine()}, Python {sys.version.split()[0]}, numpy {np.__version__}, one run of all"
    text = f"""# Designs: cost, proof and information

{machine}; peak memory {memory:.2f} GB. ε = 1, priors drawn from the uniform law on the simplex.

## Uniform off-diagonal

Peer: every vertex of Proposition 2. Limit: evaluating and checking the final law.

{timing_table(uniform)}

## General

Peer: one linear programme over all 2^S patterns.

{timing_table(general)}

A hard case, ε = 4 (few likely values a column, so the closed bound is not attained):

{timing_table(hard)}
"""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "design.md").write_text(text, encoding="utf-8")
    data = {"machine": machine, "memory_gb": memory, "uniform": uniform, "general": general, "hard": hard}
    (RESULTS / "design.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    draw(uniform, general)
    print(text)


if __name__ == "__main__":
    main()
