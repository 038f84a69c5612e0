"""private-pgm beside completed files, on the same released tables of a split.

`mbi` (private-pgm, installed by the user: ``pip install mbi``, which brings JAX) fits a graphical model to the unbiased
two-way tables, with their standard errors as the noise. Its cliques are a spanning tree of the pairs with most mutual
information, as in the mechanism MST, and then more pairs while the junction tree stays small. Squared errors of all
tables of two variables against the population, as effective records.

Run ``python benchmarks/completed_pgm.py [REPLICATIONS] [RECORDS]``. Where `mbi` is absent, it says so and ends.
"""

import importlib.util
import itertools
import sys
import time

import numpy as np

from completed_misfit import truncated
from postrand import ReleaseKey, estimate, perturb
from postrand.completion import complete

COPIES = 20
MORE = 4
"""Pairs beyond the tree."""


def information(table):
    """Return the mutual information of a table, negative shares taken as none."""
    p = np.maximum(table, 0) / np.maximum(table, 0).sum()
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    return float((p[p > 0] * np.log(p[p > 0] / expected[p > 0])).sum())


def cliques(tables, names):
    """Return the pairs of a maximal spanning tree by mutual information, and the next ones."""
    ordered = sorted(tables, key=lambda pair: -information(tables[pair].value))
    group = {name: name for name in names}
    tree = []
    for a, b in ordered:
        if group[a] != group[b]:
            tree.append((a, b))
            group = {name: group[a] if of == group[b] else of for name, of in group.items()}
    return tree + [pair for pair in ordered if pair not in tree][:MORE]


def fitted(tables, names, sizes, n):
    """Return all two-way tables of the graphical model."""
    import mbi

    domain = mbi.Domain(names, sizes)
    chosen = cliques(tables, names)
    told = [
        mbi.LinearMeasurement(
            n * tables[pair].value.ravel(), pair, stddev=float(n * np.sqrt((tables[pair].standard_error ** 2).mean()))
        )
        for pair in chosen
    ]
    model = mbi.estimation.MirrorDescent().estimate(domain, told, known_total=n, iters=500)
    return {pair: np.asarray(model.project(pair).datavector()).reshape(tables[pair].value.shape) / n for pair in tables}


def main(replications=4, n=4_000):
    if importlib.util.find_spec("mbi") is None:
        print("mbi is not installed (pip install mbi); private-pgm is left out")
        return
    _, frame, mechanism, _ = list(truncated())[-1]
    names = tuple(frame.columns)
    pairs = list(itertools.combinations(names, 2))
    sizes = {name: mechanism.codebook[name].size for name in names}
    truth = {
        (a, b): np.histogram2d(frame[a], frame[b], bins=(range(sizes[a] + 1), range(sizes[b] + 1)))[0] / len(frame)
        for a, b in pairs
    }
    errors: dict = {"unbiased": [], "private-pgm": [], "completed": []}
    seconds: dict = {"private-pgm": 0.0, "completed": 0.0}
    for turn in range(replications):
        who = np.random.default_rng([turn, 3]).integers(0, len(frame), n)
        released = perturb(frame.iloc[who].reset_index(drop=True), mechanism, ReleaseKey.from_seed(turn))
        tables = {pair: estimate.table(released, pair, mechanism) for pair in pairs}
        start = time.perf_counter()
        graphical = fitted(tables, names, tuple(sizes.values()), n)
        seconds["private-pgm"] += time.perf_counter() - start
        start = time.perf_counter()
        completed = complete(released, mechanism, copies=COPIES, seed=turn)
        copies = np.concatenate([completed.codes(i) for i in range(COPIES)])
        seconds["completed"] += time.perf_counter() - start
        for (a, b), p in truth.items():
            cell = copies[:, names.index(a)] * sizes[b] + copies[:, names.index(b)]
            own = (np.bincount(cell, minlength=p.size) / len(copies)).reshape(p.shape)
            values = {"unbiased": tables[a, b].value, "private-pgm": graphical[a, b], "completed": own}
            for name, value in values.items():
                errors[name].append(float(((value - p) ** 2).sum()) / (1 - float((p**2).sum())))
    print("| estimator | effective records of all pairs | seconds a release |")
    print("| --- | ---: | ---: |")
    for name, held in errors.items():
        print(f"| {name} | {1 / np.mean(held):,.0f} | {seconds.get(name, 0) / replications:.1f} |")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
