"""Time bistochastic privacy against peers and limits.

Run ``python benchmarks/bistochastic.py``; results go to benchmarks/results/bistochastic.{md,json}.

- The truthful optimum: peer, the same programme as exponential cones (clarabel); limit, rounding the matrix.
- Decomposition: peer, one assignment problem for every permutation (scipy); limit, reading the entries met.
- Ranks of a numerical column: peer, numpy alone (random numbers, sorted within blocks); limit, the ranking itself.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
N = 10_000_000


def seconds(function, runs=3):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def dense_law(size):
    from postrand.designers.bistochastic import round_bistochastic

    array = np.random.default_rng(size).random((size, size))
    for _ in range(200):
        array /= array.sum(axis=0)
        array /= array.sum(axis=1, keepdims=True)
    return round_bistochastic(array)


def truthful_times():
    from postrand.designers.bistochastic import round_bistochastic, truthful

    rows = []
    for size in (10, 100, 1000):
        prior = np.random.default_rng(size).dirichlet(np.ones(size))
        best = truthful(prior, 0.62)
        ours = seconds(lambda prior=prior: truthful(prior, 0.62))
        limit = seconds(lambda best=best: round_bistochastic(best.matrices[0].array))
        peer = seconds(lambda prior=prior: by_cones(prior, 0.62), runs=1) if size <= 100 else None
        rows.append({"size": size, "gap": best.gap, "ours_s": ours, "peer_s": peer, "limit_s": limit})
    return rows


def by_cones(prior, beta):
    """Solve the programme over ``P`` and ``t_uv <= -P ln P`` with a conic solver."""
    import clarabel
    from scipy.sparse import csc_array, diags_array, eye_array, hstack, kron, vstack

    size, cells = prior.size, prior.size**2
    ones, none = np.ones((1, size)), csc_array((cells, cells))
    sums = vstack([kron(eye_array(size), ones), kron(ones, eye_array(size))])
    pick = [
        csc_array((np.ones(cells), (3 * np.arange(cells) + k, np.arange(cells))), (3 * cells, cells)) for k in (0, 1)
    ]
    A = csc_array(
        vstack(
            [
                hstack([sums, csc_array((2 * size, cells))]),
                csc_array(np.r_[np.zeros(cells), -np.ones(cells)][None]),
                hstack([-pick[1], -pick[0]]),
            ]
        )
    )
    b = np.r_[np.ones(2 * size), -beta * size * np.log(size), np.tile([0.0, 0, 1], cells)]
    cones = [clarabel.ZeroConeT(2 * size), clarabel.NonnegativeConeT(1), *[clarabel.ExponentialConeT()] * cells]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    q = np.r_[-diags_array(prior).toarray().ravel(), np.zeros(cells)]
    quadratic = csc_array(vstack([hstack([none, none]), hstack([none, none])]))
    return -clarabel.DefaultSolver(quadratic, q, A, b, cones, settings).solve().obj_val


def birkhoff_times():
    from postrand.designers.bistochastic import birkhoff

    rows = []
    birkhoff(dense_law(3))  # compiles
    for size in (20, 50, 200):
        law = dense_law(size)
        parts = birkhoff(law)
        row = {"size": size, "permutations": len(parts.shares), "bound": size * size - 2 * size + 2}
        row["exact"] = parts.matrix() == law
        row["ours_s"] = seconds(lambda law=law: birkhoff(law))
        row["peer_s"] = seconds(lambda law=law: by_assignments(law), runs=1) if size <= 50 else None
        index = np.arange(size)

        def read(law=law, parts=parts, index=index):
            for permutation in parts.permutations:
                law.weights[index, permutation].min()

        row["limit_s"] = seconds(read, runs=1)
        rows.append(row)
    return rows


def by_assignments(law):
    from scipy.optimize import linear_sum_assignment

    rest, count = law.weights.copy(), 0
    while rest.any():
        rows, columns = linear_sum_assignment(rest > 0, maximize=True)
        rest[rows, columns] -= rest[rows, columns].min()
        count += 1
    return count


def numerical(what):
    """Do one job in this fresh process and print its time and peak memory."""
    from postrand.ranks import RankBand, RankBlocks, average, permutation_model, permute
    from postrand.support.randomness import ReleaseKey

    column = np.random.default_rng(1).normal(size=N)
    key = ReleaseKey.from_seed(1)
    permute(column[:100], RankBlocks(5), key)  # compiles, or loads what was compiled
    jobs = {
        "permute, blocks of 5": lambda: permute(column, RankBlocks(5), key),
        "permute, band of 10": lambda: permute(column, RankBand(10), key),
        "average, blocks of 5": lambda: average(column, RankBlocks(5)),
        "distances": lambda: permutation_model(column, column[::-1].copy()),
        "numpy alone, blocks of 5": lambda: by_numpy(column, 5),
        "limit: ranking": lambda: np.argsort(column),
    }
    before = time.process_time()
    taken = seconds(jobs[what], runs=1)
    used = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"job": what, "s": taken, "processor_s": used, "MB": peak}))


def by_numpy(column, k):
    order = np.argsort(column, kind="stable")
    block = np.arange(column.size) // k
    places = order[np.lexsort((np.random.default_rng(1).random(column.size), block))]
    released = np.empty_like(column)
    released[order] = column[places]
    return released


NUMERICAL = (
    "permute, blocks of 5",
    "permute, band of 10",
    "average, blocks of 5",
    "distances",
    "numpy alone, blocks of 5",
    "limit: ranking",
)


def numerical_times():
    rows = []
    for what in NUMERICAL:
        command = [sys.executable, __file__, "--numerical", what]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
        rows.append(min(map(json.loads, runs), key=lambda row: row["s"]))
    for row in rows:
        row["times ranking"] = row["processor_s"] / rows[-1]["processor_s"]
    return rows


def report(data):
    def text(value):
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    def table(rows):
        heads = list(rows[0])
        lines = ["| " + " | ".join(heads) + " |", "|" + " ---: |" * len(heads)]
        return "\n".join(lines + ["| " + " | ".join(text(row[h]) for h in heads) + " |" for row in rows]) + "\n"

    return "\n".join(f"## {title}\n\n{table(rows)}" for title, rows in data.items())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--numerical"]:
        numerical(sys.argv[2])
    else:
        results = {
            "Truthful optimum at β = 0.62": truthful_times(),
            "Birkhoff decomposition of dense laws": birkhoff_times(),
            f"Numerical column of {N} values": numerical_times(),
            "Other work meanwhile": [{"processors": os.cpu_count(), "load": os.getloadavg()[1]}],
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "bistochastic.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        (RESULTS / "bistochastic.md").write_text(report(results))
        print(report(results))
