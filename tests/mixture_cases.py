"""Small releases with known truth, as evidence: for tests of completed files."""

import itertools

import numpy as np

from postrand.mixture import Evidence, Law

SIZES = (2, 3, 3, 2)


def response(places, sizes=SIZES, epsilon=4.0):
    """Return randomised response on the combinations of some variables."""
    cells = np.array(list(itertools.product(*(range(sizes[p]) for p in places))), np.int32)
    keep = np.expm1(epsilon) / (np.expm1(epsilon) + len(cells))
    return Law(tuple(places), cells, keep, np.full(len(cells), (1 - keep) / len(cells)))


def split(width=3, epsilon=4.0, sizes=SIZES):
    """Return one law for each subset of so many variables."""
    return [response(p, sizes, epsilon) for p in itertools.combinations(range(len(sizes)), width)]


def draw_released(law, true, rng):
    """Return released cells, drawn one by one from the rows of the law's matrix."""
    cells = (true[:, None, list(law.variables)] == law.cells).all(axis=2).argmax(axis=1)
    matrix = law.matrix
    if matrix is None:
        matrix = law.keep * np.eye(len(law.cells)) + law.noise
    cumulative = matrix.cumsum(axis=1)[cells]
    return (cumulative < rng.random(len(true))[:, None]).sum(axis=1).clip(max=matrix.shape[1] - 1)


def release(true, laws, rng, together=False, exact=(), sizes=SIZES):
    """Return evidence of true records: each through one law drawn at random, or through all of them ``together``."""
    n = len(true)
    many = len(laws) if together else 1
    start = np.arange(n + 1) * many
    law = (np.tile(np.arange(many), n) if together else rng.integers(len(laws), size=n)).astype(np.int32)
    record = np.repeat(np.arange(n), np.diff(start))
    released = np.zeros(len(law), np.int32)
    for number, one in enumerate(laws):
        at = np.flatnonzero(law == number)
        released[at] = draw_released(one, true[record[at]], rng)
    known = np.full(true.shape, -1, np.int32)
    known[:, list(exact)] = true[:, list(exact)]
    names = tuple("abcdefgh"[: len(sizes)])
    return Evidence(
        names, tuple(sizes), known, start, law, released, tuple(laws), np.zeros((0, len(sizes), max(sizes)), bool)
    )


def mixture_truth(n, rng, sizes=SIZES):
    """Return true records of three classes, which relate every pair of variables."""
    thetas = [np.random.default_rng(5 + j).dirichlet(np.full(s, 0.7), 3) for j, s in enumerate(sizes)]
    classes = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    columns = [(t.cumsum(axis=1)[classes] < rng.random(n)[:, None]).sum(axis=1) for t in thetas]
    return np.stack([c.clip(max=s - 1) for c, s in zip(columns, sizes, strict=True)], axis=1).astype(np.int32)


def mixture_table(places, sizes=SIZES):
    """Return the table that these records are drawn from."""
    thetas = [np.random.default_rng(5 + j).dirichlet(np.full(s, 0.7), 3) for j, s in enumerate(sizes)]
    out = np.zeros([sizes[p] for p in places])
    for k, weight in enumerate([0.5, 0.3, 0.2]):
        cell = np.array(weight)
        for p in places:
            cell = np.multiply.outer(cell, thetas[p][k])
        out += cell
    return out
