"""Fit the model by several Markov chains, in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence
from postrand.mixture.fitted import Fit
from postrand.mixture.packing import Packed, pack
from postrand.mixture.values import Draw, Settings
from postrand.support.progress import Stage, stage

PAIRS = 40
"""Two-way cells that are traced: the largest under independence."""

FULL = 0.96
"""Chains that use more than this share of their classes in the last sweeps of the burn-in, ``RECENT``, need more."""
RECENT = 50


@dataclass(frozen=True, slots=True)
class _Traced:
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    names: tuple[str, ...]


def fit(evidence: Evidence, copies: int, seed: int, settings: Settings | None = None) -> Fit:
    """Draw the parameters ``copies`` times from their posterior given the released records.

    The same seed gives the same draws, on any number of processors.
    """
    from postrand.mixture.chain import margins  # loads compiled loops

    packed, group = pack(evidence)
    chosen = resolved(packed, copies, settings or Settings())
    centre = margins(packed, np.random.default_rng([seed, 0]))
    traced = _traced(evidence, packed, centre)
    now = replace(chosen, classes=chosen.classes or first_classes(evidence.records))
    runs = _run(packed, centre, now, copies, seed, traced, grow=not chosen.classes)
    while any(not run.draws for run in runs):
        now = replace(now, classes=3 * now.classes // 2)
        runs = _run(packed, centre, now, copies, seed, traced, grow=True)
    draws = tuple(runs[i % chosen.chains].draws[i // chosen.chains] for i in range(copies))
    traces, occupied = np.array([r.traces for r in runs]), np.array([r.occupied for r in runs])
    return Fit(
        evidence, chosen, seed, draws, traces, (*traced.names, "log-likelihood", "log alpha"), occupied, (packed, group)
    )


def resolved(packed: Packed, copies: int, settings: Settings) -> Settings:
    """Return the settings with the sweeps that were left to the fit; classes that were left to it grow as needed.

    With less than a thousand records, less is at stake. Where no records are pooled, as in a split, a sweep draws the
    profiles once only, and more sweeps are needed. Each copy has at least four sweeps of its chain.
    """
    usual = 1000 if packed.counts.sum() < 1000 else 4000 if packed.pooled.any() else 6000
    return replace(settings, sweeps=max(settings.sweeps or usual, 6 * copies, 24))


def first_classes(records: int) -> int:
    """Return the number of classes with which chains begin where it is left to the fit."""
    return 32 if records < 1000 else 64 if records < 20_000 else 128


@dataclass(slots=True, eq=False)
class _Run:
    """Hold what a chain has given so far."""

    draws: list[Draw]
    traces: NDArray[np.float64]
    occupied: NDArray[np.int64]
    full: bool = False


def _run(
    packed: Packed,
    centre: NDArray[np.float64],
    settings: Settings,
    copies: int,
    seed: int,
    traced: _Traced,
    grow: bool,
) -> list[_Run]:
    """Run the chains in threads; a failure or an interruption ends all of them after the sweep that they are in.

    If they may ``grow`` and one is full after its burn-in, all end, and at least that one has no draws.
    """
    stop, done = threading.Event(), np.zeros(settings.chains, np.int64)
    each = -(-copies // settings.chains)
    tell = stage(Stage.FITTING, settings.chains * settings.sweeps, "sweeps")

    def work(number: int) -> _Run:
        rng, run = np.random.default_rng([seed, 1, number]), _Run([], np.zeros((0, 0)), np.zeros(0, np.int64))
        for _ in _sweeps(packed, centre, settings, each, rng, traced, run):
            done[number] += 1
            if grow and run.full:
                stop.set()
            if stop.is_set():
                break
        return run

    with ThreadPoolExecutor(settings.chains, thread_name_prefix="postrand") as pool:
        futures: list[Future[_Run]] = [pool.submit(work, number) for number in range(settings.chains)]
        told = 0
        try:
            while wait(futures, timeout=0.1).not_done:
                tell(int(done.sum()) - told)
                told = int(done.sum())
                if any(f.done() and f.exception() for f in futures):
                    break
        finally:
            stop.set()
    return [f.result() for f in futures]


def _sweeps(
    packed: Packed,
    centre: NDArray[np.float64],
    settings: Settings,
    copies: int,
    rng: np.random.Generator,
    traced: _Traced,
    run: _Run,
) -> Iterator[None]:
    """Yield after each sweep; fill ``run`` from a third of the sweeps on."""
    from postrand.mixture.chain import begin, sweep  # loads compiled loops
    from postrand.mixture.parameters import shares

    chain = begin(packed, centre, settings.classes, rng)
    first = settings.sweeps // 3
    kept, used = settings.sweeps - first, 0
    run.traces, run.occupied = np.empty((kept, len(traced.names) + 2)), np.empty(kept, np.int64)
    due = first + (np.arange(1, copies + 1) * kept) // copies - 1
    for number in range(settings.sweeps):
        sweep(packed, chain)
        used += chain.occupied if 0 <= first - 1 - number < RECENT else 0
        run.full = number == first - 1 and used > FULL * settings.classes * min(RECENT, first)
        if number >= first:
            row = run.traces[number - first]
            cells = traced.first, traced.second, packed.boxes, packed.offsets, packed.owner
            shares(chain.weights, chain.theta, *cells, row[:-2])
            row[-2:] = chain.likelihood, np.log(chain.alpha)
            run.occupied[number - first] = chain.occupied
        if number in due:
            run.draws.append(_draw(packed, chain.weights, chain.theta))
        yield


def _draw(packed: Packed, weights: NDArray[np.float32], theta: NDArray[np.float32]) -> Draw:
    whole = weights.astype(np.float64)
    parts = [theta[a:b].T.astype(np.float64) for a, b in zip(packed.offsets[:-1], packed.offsets[1:], strict=True)]
    return Draw(whole / whole.sum(), tuple(p / p.sum(axis=1, keepdims=True) for p in parts), packed.boxes)


def _traced(evidence: Evidence, packed: Packed, centre: NDArray[np.float64]) -> _Traced:
    """Return all one-way cells, and the largest two-way cells of a table that is the product of the margins."""
    owner, rows = packed.owner, np.arange(len(centre))
    a, b = np.nonzero(owner[:, None] < owner)
    largest = np.argsort(-centre[a] * centre[b], kind="stable")[:PAIRS]
    first, second = np.concatenate([rows, a[largest]]), np.concatenate([np.full(len(rows), -1), b[largest]])
    one = [f"{evidence.names[j]}[{row - packed.offsets[j]}]" for row, j in zip(rows, owner, strict=True)]
    names = [*one, *(f"{one[f]} {one[s]}" for f, s in zip(a[largest], b[largest], strict=True))]
    return _Traced(first, second, tuple(names))
