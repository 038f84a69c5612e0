"""Fit the model by Gibbs sampling."""

from __future__ import annotations

import numpy as np

from postrand.mixture.drawing import complete
from postrand.mixture.evidence import Evidence
from postrand.mixture.values import Draw, Fit, Settings


def fit(evidence: Evidence, copies: int, seed: int, settings: Settings | None = None) -> Fit:
    """Draw the parameters ``copies`` times from their posterior given the released records.

    The same seed gives the same draws.
    """
    settings = settings or Settings()
    classes, sweeps = settings.classes or 20, settings.sweeps or 20 * copies
    traces, occupied, draws = [], [], []
    for chain in range(settings.chains):
        rng = np.random.default_rng([seed, chain, 1])
        draw = Draw(
            np.full(classes, 1 / classes), tuple(rng.dirichlet(np.full(s, 3.0), classes) for s in evidence.sizes)
        )
        trace, many = [], []
        for sweep in range(sweeps):
            full = complete(evidence, draw, (seed, 1000 + sweep * settings.chains + chain))
            draw, used = _parameters(full, draw, rng)
            if sweep >= sweeps // 2:
                trace.append(np.concatenate([draw.table((j,)) for j in range(len(evidence.sizes))]))
                many.append(used)
                draws.append((chain, draw))
        traces.append(trace)
        occupied.append(many)
    each = [[d for c, d in draws if c == chain] for chain in range(settings.chains)]
    chosen = [each[i % settings.chains][-1 - (i // settings.chains) * (len(each[0]) // copies)] for i in range(copies)]
    names = tuple(f"{n}[{s}]" for n, size in zip(evidence.names, evidence.sizes, strict=True) for s in range(size))
    return Fit(evidence, settings, seed, tuple(chosen), np.array(traces), names, np.array(occupied))


def _parameters(full: np.ndarray, draw: Draw, rng: np.random.Generator) -> tuple[Draw, int]:
    log = np.log(draw.weights + 1e-300) + sum(
        np.log(theta[:, full[:, j]].T + 1e-300) for j, theta in enumerate(draw.theta)
    )
    weight = np.exp(log - log.max(axis=1, keepdims=True)).cumsum(axis=1)
    k = (weight <= rng.random(len(full))[:, None] * weight[:, -1:]).sum(axis=1).clip(max=len(draw.weights) - 1)
    count = np.bincount(k, minlength=len(draw.weights))
    theta = []
    for j, old in enumerate(draw.theta):
        table = np.bincount(k * old.shape[1] + full[:, j], minlength=old.size).reshape(old.shape)
        drawn = rng.gamma(table + 0.5) + 1e-300
        theta.append(drawn / drawn.sum(axis=1, keepdims=True))
    return Draw(rng.dirichlet(count + 1 / len(count)), tuple(theta)), int((count > 0).sum())
