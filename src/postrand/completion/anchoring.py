"""Anchor copies to the unbiased low-order tables, within their error, as far as the model is found to be wrong."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Places, Seen, expected
from postrand.completion.diagnostics_unbiased import Compared, compare
from postrand.completion.raking import Candidates, Target, candidates, pick, rake, weighted_table
from postrand.mixture import Fit

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """Hold how one table of the copies has to move: its mean by ``shift`` (shares), with noise of variance ``noise``.

    The model's own table is wrong by δ with mean 0 and variance b² over all cells, and the unbiased one says so with
    variance D = V − V_model: δ is then ``G (unbiased − model)``, G = b²/(b² + D), with variance ``b² (1 − G)``.
    ``ratio`` is b²/D.
    """

    places: Places
    model: Array
    shift: Array
    noise: float
    ratio: float


def anchors(fit: Fit, seen: Seen | None = None) -> tuple[Anchor, ...]:
    """Return how the two-way tables of copies have to move; empty where no bias of the model is found.

    The ratios b²/D of all tables are estimated together (empirical Bayes): each by itself is pulled to their mean as
    far as its error is large beside their spread. All copies are drawn once, to count their tables.
    """
    seen = seen or Seen(fit.evidence)
    tables = [_at_file(one, fit.evidence.records) for one in _compared(fit, seen) if one.unbiased is not None]
    if not tables:
        return ()
    found = np.array([table.squared_bias for table in tables])
    spread = np.array([table.spread.sum() for table in tables])
    ratios = shrunken(found[:, 0] / spread, found[:, 1] / spread)
    return tuple(_anchor(table, float(ratio)) for table, ratio in zip(tables, ratios, strict=True) if ratio > 0)


def shrunken(values: Array, errors: Array) -> Array:
    """Return estimates of many quantities that are not negative, each pulled to their mean as far as it errs.

    ``(τ² value + e² mean)/(τ² + e²)``, cut at 0, with τ² what the spread of the values exceeds their errors by; the
    mean is 0 where it is within twice its error.
    """
    weight = 1 / errors**2
    mean = float((weight * values).sum() / weight.sum())
    if mean < 2 / math.sqrt(float(weight.sum())):
        mean = 0.0
    between = max(0.0, float(np.mean((values - mean) ** 2 - errors**2)))
    if between < 2 * float(np.mean(errors**2)) * math.sqrt(2 / len(values)):
        between = 0.0
    return np.maximum((between * values + errors**2 * mean) / (between + errors**2), 0.0)


def anchored(fit: Fit, found: Sequence[Anchor], number: int, totals: Sequence[Target] = ()) -> NDArray[np.int32]:
    """Return completed copy ``number`` with its tables moved as the anchors say, and nearly to the totals, (n, J).

    Each record chooses among several true records that the release and the model allow; raking weights them. Without
    anchors and totals it is ``fit.copy(number)``.
    """
    if not found and not totals:
        return fit.copy(number)
    rng = np.random.default_rng([fit.seed, 8, number])
    codes = candidates(fit, number)
    weights, _ = rake(codes, fit.evidence.sizes, [*_targets(codes, fit, found, rng), *totals])
    return pick(codes, weights, rng)


def _targets(codes: Candidates, fit: Fit, found: Sequence[Anchor], rng: np.random.Generator) -> list[Target]:
    """Return the counts to meet: of the candidates as they are, and the moves made consistent with each other."""
    sizes, n = fit.evidence.sizes, fit.evidence.records
    equal = np.full(codes.shape[:2], 1 / codes.shape[1], np.float32)
    tables = [weighted_table(codes, equal, anchor.places, sizes) / n for anchor in found]
    moves = [anchor.shift + _noise(anchor, rng) for anchor in found]
    moves = _consistent(moves, tables, [anchor.places for anchor in found])
    return [
        Target(anchor.places, n * np.maximum(table + move, 0.05 * table))
        for anchor, table, move in zip(found, tables, moves, strict=True)
    ]


def _noise(anchor: Anchor, rng: np.random.Generator) -> Array:
    """Return noise that sums to 0, of variance proportional to ``diag t − t tᵀ`` with the trace b² (1 − G)."""
    root = np.sqrt(np.maximum(anchor.model, 0.0))
    drawn = root * rng.normal(size=root.shape)
    drawn -= anchor.model * drawn.sum()
    scale = math.sqrt(anchor.noise / max(1 - float((anchor.model**2).sum()), 1e-12))
    return np.asarray(scale * drawn)


def _consistent(moves: Sequence[Array], tables: Sequence[Array], places: Sequence[Places]) -> list[Array]:
    """Return moves of tables whose margins agree: each variable's margin moves by the mean over its tables."""
    margins: dict[int, list[Array]] = {}
    for move, at in zip(moves, places, strict=True):
        for axis, place in enumerate(at):
            margins.setdefault(place, []).append(_margin(move, axis))
    mean = {place: np.mean(each, axis=0) for place, each in margins.items()}
    made = []
    for move, table, at in zip(moves, tables, places, strict=True):
        own = [mean[place] - _margin(move, axis) for axis, place in enumerate(at)]
        moved = move
        for axis, extra in enumerate(own):
            whole = np.maximum(_margin(table, axis), 1e-300)
            shape = [-1 if k == axis else 1 for k in range(table.ndim)]
            moved = moved + table * (extra / whole).reshape(shape)
        made.append(moved)
    return made


def _margin(table: Array, axis: int) -> Array:
    return np.asarray(table.sum(axis=tuple(k for k in range(table.ndim) if k != axis)))


def _compared(fit: Fit, seen: Seen) -> list[Compared]:
    """Return the two-way tables (or the one, of a single variable) of all copies beside the unbiased ones."""
    sizes = fit.evidence.sizes
    width = min(2, len(sizes))
    ways = itertools.combinations(range(len(sizes)), width)
    every = [p for p in ways if seen.shows(p) and seen.compares(p) and seen.perturbed(p)]
    tables = [_tables(fit.copy(number), every, sizes) for number in range(len(fit.draws))]
    found = []
    for k, places in enumerate(every):
        groups = list(seen.groups(places))
        compared = compare(seen, fit.draws, places, groups, expected(fit.draws, groups, sizes))
        drawn = np.array([one[k] for one in tables])
        found.append(dataclasses.replace(compared, model=drawn.mean(axis=0), model_variance=drawn.var(axis=0, ddof=1)))
    return found


def _tables(codes: NDArray[np.int32], every: Sequence[Places], sizes: Sequence[int]) -> list[Array]:
    found = []
    for places in every:
        shape = [sizes[p] for p in places]
        cells = np.ravel_multi_index([codes[:, p] for p in places], shape)
        found.append(np.bincount(cells, minlength=math.prod(shape)).reshape(shape) / len(codes))
    return found


def _at_file(table: Compared, records: int) -> Compared:
    """Return the comparison for the records of this file: drawing them is no error of the unbiased table any more."""
    assert table.variance is not None
    drawing = table.model * (1 - table.model) / records
    return dataclasses.replace(table, variance=np.maximum(table.variance - drawing, 0.02 * table.variance))


def _anchor(table: Compared, ratio: float) -> Anchor:
    assert table.unbiased is not None
    gain = ratio / (1 + ratio)
    noise = ratio * float(table.spread.sum()) * (1 - gain)
    return Anchor(table.places, table.model, gain * (table.unbiased - table.model), noise, ratio)
