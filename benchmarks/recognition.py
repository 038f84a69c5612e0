"""Measure the least-loss designs under security against spontaneous recognition (CHR) and compare them with others.

Run ``python -m benchmarks.recognition [FOLDER]``. Results go to benchmarks/results/recognition.{md,json}.
``make papers`` computes the paper's example (K = 48) over 20 drawn files.

- Of these files, on the first 3 the loss against the best of ten random starts of another solver: sequential quadratic
  programming on all moves and all conditions, solved by Clarabel.
- A real file (K = 432: age, sex, marital status and employment of ``ny_pums_2000_sample.csv`` in FOLDER): the
  restricted variant, its proven gap, time and memory, and the changes that local suppression or swapping would need.
"""

import csv
import json
import math
import resource
import sys
import time
from itertools import combinations
from pathlib import Path

import clarabel
import numpy as np
from benchmarks.papers.chr import ALPHA, best, model
from scipy.sparse import csc_array, csc_matrix, diags_array, vstack

from postrand.designers import least_loss
from postrand.designers.recognition.curvature import MoveLoss
from postrand.designers.recognition.programme import Cells, Moves, diagonal_rows, recognition_rows, stack
from postrand.objectives import L2Loss
from postrand.privacy import SpontaneousRecognition

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
KEYS = ("age", "sex", "marital_status", "employment")
PEER_FILES, STARTS = 3, 10


class Peer:
    """Sequential quadratic programming over every move and condition: a convex model and a line search each step."""

    def __init__(self, model):
        file = model.file
        everyone = np.arange(file.size)
        self.unit = np.maximum(file.counts, 1.0)
        self.moves = Moves.among(file.occurring, everyone)
        cells = Cells(file, file.incidence(model.key_sets), ALPHA)
        pairs = np.array([(m, c) for m in model.rare_types() for c in range(cells.members.shape[1])])
        self.loss = MoveLoss(self.moves, file.counts.astype(float), self.unit)
        parts = [recognition_rows(cells, self.moves, pairs, self.unit), diagonal_rows(self.moves, self.unit, 0.0)]
        self.rows = stack([*parts, self.loss.flow_rows()], len(self.moves))
        self.program()

    def program(self):
        """Write the rows in Clarabel's form A x + s = b: equalities first, then inequalities and signs."""
        rows, V = self.rows, len(self.moves)
        N = rows.A.shape[1]
        A = rows.A.tocsr()
        equal = rows.low == rows.high
        above = np.isfinite(rows.high) & ~equal
        signs = -diags_array(np.ones(N), format="csr")[:V]
        self.A = csc_matrix(vstack([A[equal], A[above], signs]))
        self.b = np.concatenate([rows.high[equal], rows.high[above], np.zeros(V)])
        self.cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(above.sum()) + V)]

    def step(self, y, damping):
        """Minimise the linearised loss plus the positive part of its Hessian."""
        V, N = len(self.moves), self.A.shape[1]
        i, j = self.loss.pattern(N)
        h = self.loss.hessian(y)
        own = i == j
        diagonal = np.zeros(N)
        diagonal[i[own]] = np.maximum(h[own], 0) + damping * (i[own] < V)
        P = csc_matrix(csc_array(diags_array(diagonal)))
        q = np.zeros(N)
        q[:V] = self.loss.gradient(y) - diagonal[:V] * y
        K = len(self.unit)
        q[N - 2 * K : N - K] = -diagonal[N - 2 * K : N - K] * (1 - self.loss.matrix(y).diagonal())
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        found = clarabel.DefaultSolver(P, q, self.A, self.b, self.cones, settings).solve()
        return np.clip(np.asarray(found.x)[:V], 0, None)

    def solve(self, matrix, steps=60):
        y = (self.unit[:, None] * matrix)[self.moves.rows, self.moves.columns]
        y = self.step(y, 0.1)  # the first step makes it feasible
        value = self.loss.value(y)
        for _ in range(steps):
            direction = self.step(y, 1e-3) - y
            t = 1.0
            while t > 1e-6 and not self.loss.value(y + t * direction) < value:
                t /= 2
            if t <= 1e-6:
                break
            y = y + t * direction
            value, before = self.loss.value(y), value
            if before - value < 1e-5 * value:
                break
        return value


def peer_best(model):
    rng = np.random.default_rng(0)
    K, values = model.file.size, []
    peer = Peer(model)
    for _ in range(STARTS):
        keep = rng.uniform(0.5, 1)
        values.append(peer.solve(keep * np.eye(K) + (1 - keep) * rng.dirichlet(np.full(K, 0.5), K)))
    return min(values)


def real_file(folder):
    with (folder / "ny_pums_2000_sample.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if all(row[k] for k in KEYS)]
    labels = [sorted({row[k] for row in rows}) for k in KEYS]
    counts = np.zeros([len(found) for found in labels], dtype=int)
    for row in rows:
        counts[tuple(found.index(row[k]) for found, k in zip(labels, KEYS, strict=True))] += 1
    return counts


def suppressed(counts, size=3, least=10):
    """Blank key values record by record until no triple of shown values is held by 1 to 9 records (greedy)."""
    J = counts.ndim
    records = np.repeat(np.array(list(np.ndindex(counts.shape))), counts.ravel(), axis=0)
    blanks = 0
    while True:
        hits = np.zeros(records.shape, dtype=int)
        for axes in combinations(range(J), size):
            shown = (records[:, axes] >= 0).all(axis=1)
            _, cell, number = np.unique(records[np.ix_(shown, axes)], axis=0, return_inverse=True, return_counts=True)
            rare = np.flatnonzero(shown)[number[cell.ravel()] < least]
            for axis in axes:
                hits[rare, axis] += 1
        worst = hits.argmax(axis=1)
        todo = np.flatnonzero(hits.max(axis=1) > 0)
        if not len(todo):
            return blanks, int((records < 0).any(axis=1).sum())
        records[todo, worst[todo]] = -1
        blanks += len(todo)


def swapped(model):
    """Return how many records swapping changes: a record stays in a cell of U with probability at most α U, 2 each."""
    members = model.file.incidence(model.key_sets).toarray() > 0
    cell = model.file.counts @ members
    smallest = np.where(members, cell, np.inf).min(axis=1)
    leave = np.clip(1 - ALPHA * smallest, 0, None)
    return 2 * float(model.file.counts @ leave)


def large(folder):
    counts = real_file(folder)
    model = SpontaneousRecognition(ALPHA, 3).on(counts)
    start = time.perf_counter()
    d = least_loss(model, reach="cover")
    seconds = time.perf_counter() - start
    blanks, touched = suppressed(counts)
    law = d.matrix.array
    result = {
        "types": model.file.size,
        "records": model.file.records,
        "rare_types": len(model.rare_types()),
        "seconds": seconds,
        "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "largest_posterior_exact": float(model.largest([d.matrix]).posterior),
        "holds": model.check([d.matrix]).holds,
        "changes": d.details["expected_changes"],
        "l2": d.value,
        "relative_gap": d.relative_gap,
        "condition": float(np.linalg.cond(law)),
        "identity_l2": L2Loss(model.file.records).value(np.eye(len(law)), model.file.counts / model.file.records),
        "suppressed_values": blanks,
        "suppressed_records": touched,
        "swapped_records_at_least": swapped(model),
    }
    print(result, flush=True)
    return result


def peers():
    """Compare with the best of ten starts of the other solver, file by file."""
    lines = [
        "",
        "| file | l2 | best of ten peer starts | ratio | seconds of the peer |",
        "| --- | --- | --- | --- | --- |",
    ]
    for seed in range(PEER_FILES):
        start = time.perf_counter()
        found, other = best(seed).value, peer_best(model(seed)) / model(seed).file.records ** 2
        seconds = time.perf_counter() - start
        row = f"| {seed} | {found:.6g} | {other:.6g} | {found / other:.6f} | {seconds:.0f} |"
        print(row, flush=True)
        lines.append(row)
    return lines


def main():
    found, lines = {}, []
    if len(sys.argv) > 1:
        found = large(Path(sys.argv[1]))
        lines += ["# A real file (K = 432, restricted variant)", "", "| quantity | value |", "| --- | --- |"]
        lines += [f"| {k} | {v:.6g} |" for k, v in found.items() if math.isfinite(v)]
    RESULTS.mkdir(exist_ok=True)
    lines += peers()  # slow: the rest is printed already
    (RESULTS / "recognition.md").write_text("\n".join(lines) + "\n")
    (RESULTS / "recognition.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
