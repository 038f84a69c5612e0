"""Draw true records given the released ones and one draw of the parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence
from postrand.mixture.values import Draw


def complete(evidence: Evidence, draw: Draw, seed: tuple[int, int]) -> NDArray[np.int32]:
    """Return true codes (n, J): class given the record, then true cells given class and released cells."""
    rng = np.random.default_rng(seed)
    n, classes = evidence.records, len(draw.weights)
    log = np.tile(np.log(draw.weights + 1e-300), (n, 1))
    for j, theta in enumerate(draw.theta):
        known = evidence.exact[:, j] >= 0
        log[known] += np.log(theta[:, evidence.exact[known, j]].T + 1e-300)
    record = np.repeat(np.arange(n), np.diff(evidence.start))
    product = [_product(draw, law.variables, law.cells) for law in evidence.laws]
    for number, law in enumerate(evidence.laws):
        seen = np.flatnonzero(evidence.law == number)
        reached = law.keep * product[number] + product[number].sum(1, keepdims=True) * law.noise
        if law.matrix is not None:
            reached = product[number] @ law.matrix
        np.add.at(log, record[seen], np.log(reached[:, evidence.released[seen]].T + 1e-300))
    weight = np.exp(log - log.max(axis=1, keepdims=True))
    chosen = _choose(weight, rng)
    out = evidence.exact.copy()
    for j, theta in enumerate(draw.theta):
        blank = np.flatnonzero(out[:, j] < 0)
        out[blank, j] = _choose(theta[chosen[blank]], rng)
    for number, law in enumerate(evidence.laws):
        seen = np.flatnonzero(evidence.law == number)
        prior = product[number][chosen[record[seen]]]
        released = evidence.released[seen]
        if law.matrix is None:
            posterior = prior * law.noise[released][:, None]
            posterior[np.arange(len(seen)), released] += prior[np.arange(len(seen)), released] * law.keep
        else:
            posterior = prior * law.matrix[:, released].T
        out[np.ix_(record[seen], law.variables)] = law.cells[_choose(posterior, rng)]
    return out


def _product(draw: Draw, variables: tuple[int, ...], cells: NDArray[np.int32]) -> NDArray[np.float64]:
    product = np.ones((len(draw.weights), len(cells)))
    for place, codes in zip(variables, cells.T, strict=True):
        product *= draw.theta[place][:, codes]
    return product


def _choose(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    total = np.cumsum(weights, axis=1)
    at = rng.random(len(weights)) * total[:, -1]
    return np.asarray((total <= at[:, None]).sum(axis=1).clip(max=weights.shape[1] - 1))
