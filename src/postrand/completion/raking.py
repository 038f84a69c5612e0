"""Weight the possible true records of each record, so that tables of the whole file meet targets (raking)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Places
from postrand.completion.raking_loops import tilt
from postrand.mixture import Fit

Array = NDArray[np.float64]
Candidates = NDArray[np.int16]
CANDIDATES = 6
"""Possible true records that are drawn of each record; the first is the copy itself."""
SWEEPS = 60
MOST_FACTOR = 8.0
"""The factor of one step is within 1/8 and 8, so that targets that contradict each other cannot blow up."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Hold what a table of some variables has to be over all records: counts, of any real size."""

    places: Places
    counts: Array


def candidates(fit: Fit, number: int, many: int = CANDIDATES) -> Candidates:
    """Return possible true records (n, many, J), drawn independently given the release and the parameters of one copy.

    The first is the copy as it is without raking. The same fit and number give the same.
    """
    drawn = np.empty((fit.evidence.records, many, len(fit.evidence.sizes)), np.int16)
    drawn[:, 0] = fit.copy(number)
    for extra in range(1, many):
        other = int(np.random.SeedSequence([fit.seed, 7, extra]).generate_state(1)[0])
        drawn[:, extra] = dataclasses.replace(fit, seed=other).copy(number)
    return drawn


def rake(
    codes: Candidates, sizes: Sequence[int], targets: Sequence[Target], tolerance: float = 1e-3
) -> tuple[NDArray[np.float32], float]:
    """Return weights (n, C) whose tables meet the targets, and the largest miss as a share of a target's total.

    Each record's weights start equal and sum to one. They become ``Π_t f_t(cell)`` over the candidate's cells, made
    record by record to sum to one: of all weights that meet the targets, those nearest to equal ones (iterative
    proportional fitting). Targets that contradict each other are met as nearly as the sweeps get.
    """
    weights = np.full(codes.shape[:2], 1 / codes.shape[1], np.float32)
    if not targets:
        return weights, 0.0
    ahead, miss = counted(codes, weights, targets[0], sizes), math.inf
    for _ in range(SWEEPS):
        ahead, worst = sweep(codes, weights, sizes, targets, _exact, ahead)
        stuck, miss = worst > 0.98 * miss, worst
        if miss <= tolerance or stuck:
            break
    return weights, miss


def counted(codes: Candidates, weights: NDArray[np.float32], target: Target, sizes: Sequence[int]) -> Array:
    """Return the table of a target over all records and their weighted candidates, flat."""
    found, none = np.zeros(target.counts.size), np.zeros(0, np.int64)
    tilt(codes, weights, none, none, np.ones(1), *_where(target, sizes), found)
    return found


def sweep(
    codes: Candidates,
    weights: NDArray[np.float32],
    sizes: Sequence[int],
    targets: Sequence[Target],
    factor: Callable[[Array, Array], Array],
    ahead: Array,
) -> tuple[Array, float]:
    """Multiply the weights so that each target in turn is met, once: ``factor(wanted, there)`` of each cell, flat.

    ``ahead`` is the table of the first target with the weights as they come. Returned is that with the weights as they
    are left, and the largest miss of a target on its turn, as a share of its total.
    """
    where = [_where(target, sizes) for target in targets]
    worst = 0.0
    for k, target in enumerate(targets):
        wanted = target.counts.ravel()
        worst = max(worst, float(np.abs(ahead - wanted).max()) / max(float(wanted.sum()), 1.0))
        after = (k + 1) % len(targets)
        there, ahead = ahead, np.zeros(targets[after].counts.size)
        tilt(codes, weights, *where[k], factor(wanted, there), *where[after], ahead)
    return ahead, worst


def _exact(wanted: Array, there: Array) -> Array:
    """Return the factors that meet a target at once, within bounds; a cell of which nothing is wanted gets 0."""
    factor = np.divide(wanted, there, out=np.ones(wanted.shape), where=there > 0)
    return np.asarray(np.clip(factor, np.where(wanted > 0, 1 / MOST_FACTOR, 0.0), MOST_FACTOR))


def weighted_table(codes: Candidates, weights: NDArray[np.float32], places: Places, sizes: Sequence[int]) -> Array:
    """Return the table of some variables over all records and their weighted candidates."""
    shape = [sizes[p] for p in places]
    cells = np.ravel_multi_index([codes[:, :, p].astype(np.int64) for p in places], shape)
    return np.asarray(np.bincount(cells.ravel(), weights.ravel(), math.prod(shape)).reshape(shape), np.float64)


def pick(codes: Candidates, weights: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int32]:
    """Return one candidate of each record, drawn by its weights, (n, J); the first one as often as possible.

    Candidates are drawn alike, so the first stands for any: it stays with probability ``min(1, C w)``, and else another
    is drawn by what its ``C w`` exceeds 1 by. So no more records change than the weights ask for.
    """
    n, many = weights.shape
    scaled = many * weights.astype(np.float64)
    stays = rng.random((n,)) < scaled[:, 0]
    more = np.maximum(scaled - 1, 0.0)
    more[:, 0] = 0.0
    cumulative: Array = np.cumsum(more, axis=1)
    other = (cumulative <= rng.random((n, 1)) * cumulative[:, -1:]).sum(axis=1).clip(max=many - 1)
    return np.asarray(codes[np.arange(n), np.where(stays, 0, other)], np.int32)


def _where(target: Target, sizes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    shape = [sizes[p] for p in target.places]
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return np.array(target.places, np.int64), np.array(strides, np.int64)
