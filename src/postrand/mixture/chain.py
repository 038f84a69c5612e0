"""One Markov chain: its state, and one sweep of the sampler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.mixture import loops, parameters, truncation
from postrand.mixture.packing import Packed

GRID = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
"""Concentrations: from profiles of nearly one category to those of all records."""


AGAIN = 4
"""Draws of profiles and what governs them, with what pooled records say, for one draw of the classes.

Shares of rare categories wander slowly, and what they wait for are not the classes, which take most of the time.
"""


@dataclass(slots=True, eq=False)
class Chain:
    """Hold the state of a chain: what :func:`sweep` changes in place."""

    weights: NDArray[np.float32]
    theta: NDArray[np.float32]  # (rows, K)
    alpha: float
    level: NDArray[np.int64]  # (J, K): the place in GRID of the concentration of each variable in each class
    share: NDArray[np.float64]  # (J, L): of each level
    centre: NDArray[np.float64]
    rng: np.random.Generator
    likelihood: float = 0.0
    occupied: int = 0
    number: int = 0


def begin(packed: Packed, centre: NDArray[np.float64], classes: int, rng: np.random.Generator) -> Chain:
    """Return a chain of classes that differ by chance from the margins ``centre``."""
    many = len(packed.offsets) - 1
    chain = Chain(
        np.full(classes, 1 / classes, np.float32),
        np.empty((packed.offsets[-1], classes), np.float32),
        classes / 2,
        np.full((many, classes), len(GRID) // 2),
        np.full((many, len(GRID)), 1 / len(GRID)),
        centre.copy(),
        rng,
    )
    wide = np.repeat(3.0 * np.diff(packed.offsets), np.diff(packed.offsets)) * centre + 0.05
    none = np.zeros(chain.theta.shape, np.int64)
    parameters.profiles_given(none, packed.offsets, wide, np.ones(len(GRID)), chain.level, chain.theta, rng)
    return chain


def sweep(packed: Packed, chain: Chain) -> None:
    """Draw classes given the parameters, then cells and parameters given the classes."""
    known = np.zeros(chain.theta.shape[::-1], np.int64)
    shown, members = np.zeros((len(known), packed.tabled), np.int32), np.zeros(len(known), np.int64)
    chain.likelihood = loops.assign(packed, chain.weights, chain.theta, known, shown, members, chain.rng)
    chain.occupied = int((members > 0).sum())
    if len(packed.boxes):
        truncation.augment(packed, chain.weights, chain.theta, known, members, chain.rng)
    chain.alpha = parameters.alpha_given(chain.alpha, members, chain.rng)
    parameters.weights_given(members, chain.alpha, chain.weights, chain.rng)
    counts = np.empty(chain.theta.shape, np.int64)
    for _ in range(AGAIN if packed.pooled.any() else 1):
        loops.settle(packed, chain.theta, shown, known, counts, chain.rng)
        chain.number += 1
        if chain.number % 2:  # each of the two takes as long as a sweep of a thousand records
            parameters.levels_given(
                GRID, chain.level, chain.share, counts, members, packed.offsets, chain.centre, chain.rng
            )
        else:
            parameters.centre_given(GRID, chain.level, counts, packed.offsets, chain.centre, chain.rng)
        parameters.profiles_given(counts, packed.offsets, chain.centre, GRID, chain.level, chain.theta, chain.rng)


def margins(packed: Packed, rng: np.random.Generator, sweeps: int = 60) -> NDArray[np.float64]:
    """Return the margins (rows,) as one class alone gives them: the mean of its profiles."""
    even = np.concatenate([np.full(s, 1 / s) for s in np.diff(packed.offsets)])
    alone = begin(packed, even, 1, rng)
    total = np.zeros(len(even))
    for number in range(sweeps):
        known, shown = np.zeros((1, len(even)), np.int64), np.zeros((1, packed.tabled), np.int32)
        members, counts = np.zeros(1, np.int64), np.empty((len(even), 1), np.int64)
        loops.assign(packed, alone.weights, alone.theta, known, shown, members, rng)
        if len(packed.boxes):
            truncation.augment(packed, alone.weights, alone.theta, known, members, rng)
        loops.settle(packed, alone.theta, shown, known, counts, rng)
        one = np.repeat(np.diff(packed.offsets), np.diff(packed.offsets)) * even
        parameters.profiles_given(counts, packed.offsets, one, np.ones(len(GRID)), alone.level, alone.theta, rng)
        total += alone.theta[:, 0] if number >= sweeps // 3 else 0
    total = np.maximum(total / total[: packed.offsets[1]].sum(), 0.002)
    return np.asarray(total / np.add.reduceat(total, packed.offsets[:-1])[packed.owner])
