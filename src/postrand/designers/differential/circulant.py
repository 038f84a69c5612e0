"""Circulant block designs: ``M[i,j]`` is proportional to ``e^ε`` where ``(j-i) mod S`` is in D, and to 1 elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.designers.problem import Solution
from postrand.designers.suitability import ROUNDING, StructureTraits, require
from postrand.errors import DesignError, sentence
from postrand.objectives import EstimatorVariance, ExpectedChanges, MutualInformation, Objective, WholeRecord
from postrand.objectives.information import entropy, entropy_excess, information_bound
from postrand.privacy import DifferentialPrivacy, PrivacyModel
from postrand.support.inputs import is_whole

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

EXHAUSTIVE_SIZE = 12
_NEIGHBOURS = 400
_STEPS = 60
_STARTS = 3
_SINGULAR = 1e-12  # eigenvalues below this make a design useless for estimation


@dataclass(frozen=True, slots=True)
class Circulant:
    """Search the sets D for a bistochastic ε-DP matrix with first row ``e^ε`` on D and 1 elsewhere (scaled).

    ``block`` gives D itself; ``size`` fixes its number of elements; with neither both are searched, by the objective
    asked for: exhaustively for S <= 12, by local search from difference sets and random starts beyond. D always
    contains 0, so the true category is among the likely ones. Singular designs are left out.

    With D a (near) difference set of about ``S/(e^ε+1)`` elements it beats k-ary randomised response (``size=1``) at
    small ε in information and in estimator variance.

    Examples
    --------
    >>> from postrand.designers import design
    >>> paley = Circulant(block=(1, 3, 4, 5, 9))
    >>> d = design(np.full(11, 1 / 11), DifferentialPrivacy(0.5), EstimatorVariance(), paley)
    >>> round(d.value), d.details["block"]
    (146, (0, 2, 3, 4, 8))
    """

    name: ClassVar[str] = "circulant"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "Each answer becomes one of a set of answers, shifted from row to row: better at strong privacy.",
        models=(DifferentialPrivacy,),
        rank=30,
    )

    block: tuple[int, ...] = ()
    size: int = 0

    def __post_init__(self) -> None:
        listed = isinstance(self.block, (list, tuple)) and all(map(is_whole, self.block))
        if not listed or not is_whole(self.size) or len(set(self.block)) < len(self.block):
            raise DesignError(sentence("block or size does not consist of distinct whole numbers", got=self))
        object.__setattr__(self, "block", tuple(sorted(map(int, self.block))))
        object.__setattr__(self, "size", int(self.size))
        if self.block and self.size:
            raise DesignError(sentence("both block and size are given", fix="give one"))

    def contains(self, array: Floats) -> bool:
        """Tell whether each row of a matrix (S, S) is the row before, shifted by one, up to rounding."""
        return bool((np.abs(np.roll(array, (1, 1), (0, 1)) - array) <= ROUNDING).all())

    def solve(self, prior: Floats, privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best design found."""
        search = _Search(prior, require(self, privacy, objective, prior.size).epsilon, objective)
        if (self.block and not 0 <= self.block[0] <= self.block[-1] < prior.size) or self.size >= prior.size:
            raise DesignError(sentence("the block does not fit the categories", got=self, wanted=f"below {prior.size}"))
        if self.block:
            sets, proven = _indicator([self.block], prior.size), True
        elif prior.size <= EXHAUSTIVE_SIZE:
            sets, proven = _all_sets(prior.size, self.size), True
        else:
            sets, proven = np.array([search.climb(start) for start in search.starts(self.size)]), False
        scores = search.scores(sets)
        best = int(scores.argmax())
        if scores[best] == -np.inf:
            raise DesignError(sentence("every set D gives a singular matrix", got=self, fix="choose another size"))
        array = search.array(sets[best])
        sign = 1 if objective.maximise else -1
        bound = sign * (scores[best] + 1e-12 * abs(scores[best])) if proven else search.bound()
        block = tuple(int(k) for k in np.flatnonzero(_shifted(sets[best])))
        return Solution(array, float(bound), {"block": block, "proven": proven})


@dataclass(frozen=True, slots=True)
class _Search:
    p: Floats
    epsilon: float
    objective: Objective

    def array(self, chosen: Sets) -> Floats:
        """Return the matrix of one set (S,)."""
        size = self.p.size
        row = np.where(_shifted(chosen), 1.0, math.exp(-self.epsilon))
        lag = (np.arange(size) - np.arange(size)[:, None]) % size
        array: Floats = row[lag] / row.sum()
        return array

    def scores(self, sets: Sets) -> Floats:
        """Return the objective of each set (B, S), larger is better, -inf where the matrix is singular."""
        grown = np.where(sets, 1.0, math.exp(-self.epsilon))
        rows = grown / grown.sum(axis=1, keepdims=True)
        power = np.abs(np.fft.rfft(rows, axis=1)) ** 2
        regular = power.min(axis=1) > _SINGULAR
        by_spectrum = _BY_SPECTRUM.get(_kind(self.objective))
        if by_spectrum is not None:
            scores = by_spectrum(self, rows, power)
        else:
            sign = 1 if self.objective.maximise else -1
            scores = np.full(len(sets), -np.inf)
            for k in np.flatnonzero(regular):
                scores[k] = sign * self.objective.value(self.array(sets[k]), self.p)
        return np.where(regular, scores, -np.inf)

    def _variance(self, rows: Floats, power: Floats) -> Floats:
        """Return minus the trace variance, from the squared eigenvalues."""
        size = self.p.size
        counts = np.full(power.shape[1], 2.0)  # rfft keeps one of each conjugate pair
        counts[0] = 1
        if size % 2 == 0:
            counts[-1] = 1
        scores: Floats = self.p @ self.p - (counts / np.maximum(power, _SINGULAR)).sum(axis=1) / size
        return scores

    def _information(self, rows: Floats, power: Floats) -> Floats:
        """Return ``E(row) - Σ_z e(m_z)``, both divergences from the uniform law."""
        size = self.p.size
        marginal = np.fft.irfft(np.fft.rfft(rows, axis=1) * np.fft.rfft(self.p), n=size, axis=1)
        kept: Floats = entropy_excess(size * rows - 1).sum(axis=1) - entropy_excess(size * marginal - 1).sum(axis=1)
        return kept / size

    def starts(self, size: int) -> Iterator[Sets]:
        """Yield sets to start from: a single element, quadratic residues, and random sets of promising sizes."""
        count, generator = self.p.size, np.random.default_rng(0)
        share = math.exp(self.epsilon) + 1
        sizes = {size} if size else {1, *(min(max(round(count / share) + k, 1), count - 1) for k in (-1, 0, 1, 2))}
        residues = {k * k % count for k in range(1, count)} - {0}
        if len(residues) == (count - 1) // 2 and (not size or size == len(residues)):
            yield _indicator([tuple(residues)], count)[0]
        for number in sorted(sizes):
            for _ in range(1 if number == 1 else _STARTS):
                yield np.isin(np.arange(count), generator.choice(count, number, replace=False))

    def climb(self, start: Sets) -> Sets:
        """Exchange one element of D for one outside while that helps; sample the exchanges where they are many."""
        generator, best, score = np.random.default_rng(1), start, float(self.scores(start[None])[0])
        for _ in range(_STEPS):
            inside, outside = np.flatnonzero(best), np.flatnonzero(~best)
            pairs = np.stack(np.meshgrid(inside, outside), axis=-1).reshape(-1, 2)
            if len(pairs) > _NEIGHBOURS:
                pairs = pairs[generator.choice(len(pairs), _NEIGHBOURS, replace=False)]
            near = np.repeat(best[None], len(pairs), axis=0)
            near[np.arange(len(pairs)), pairs[:, 0]] = False
            near[np.arange(len(pairs)), pairs[:, 1]] = True
            scores = self.scores(near)
            k = int(scores.argmax())
            if not scores[k] > score + 1e-12 * abs(score):
                break
            best, score = near[k], float(scores[k])
        return best

    def bound(self) -> float:
        """Return a proven bound of the objective over all sets D, infinite where none is known."""
        known = _BOUNDS.get(_kind(self.objective))
        if known is not None:
            return known(self.p, self.epsilon)
        return math.inf if self.objective.maximise else -math.inf


def _kind(objective: Objective) -> tuple[type, bool]:
    """Return what the tables below know an objective by: its class, and whether it names queries."""
    return type(objective), bool(getattr(objective, "queries", ()))


_BY_SPECTRUM: dict[tuple[type, bool], Callable[[_Search, Floats, Floats], Floats]] = {
    (MutualInformation, False): _Search._information,
    (EstimatorVariance, False): _Search._variance,
}
"""Objectives whose value for many sets at once follows from rows and squared eigenvalues."""


def _most_information(p: Floats, epsilon: float) -> float:
    return min(information_bound(epsilon), entropy(p)) * (1 + 1e-12)


def _fewest_changes(p: Floats, epsilon: float) -> float:
    size, grown = p.size, math.exp(epsilon)
    return (size - 1) / (grown + size - 1) * (1 - 1e-12)


def _least_variance(p: Floats, epsilon: float) -> float:
    """Of a size d the squared eigenvalues have a fixed sum; their reciprocals sum to least where all are equal."""
    size, grown = p.size, math.exp(epsilon)
    d = np.arange(1, size)
    power = size * (d * grown**2 + size - d) / (d * grown + size - d) ** 2 - 1
    return float((1 + (size - 1) ** 2 / power).min() / size - p @ p) * (1 - 1e-12)


_BOUNDS: dict[tuple[type, bool], Callable[[Floats, float], float]] = {
    (MutualInformation, False): _most_information,
    (WholeRecord, False): _most_information,
    (ExpectedChanges, False): _fewest_changes,
    (EstimatorVariance, False): _least_variance,
}
"""Bounds over all sets D."""


def _all_sets(size: int, count: int) -> Sets:
    """Return every set that contains 0 and is not everything: each rotation class at least once."""
    codes = 2 * np.arange(2 ** (size - 1) - 1) + 1
    sets: Sets = (codes[:, None] >> np.arange(size) & 1).astype(bool)
    return sets[sets.sum(axis=1) == count] if count else sets


def _indicator(blocks: list[tuple[int, ...]], size: int) -> Sets:
    return np.array([np.isin(np.arange(size), block) for block in blocks])


def _shifted(chosen: Sets) -> Sets:
    """Rotate the set so that its smallest element is 0."""
    rotated: Sets = np.roll(chosen, -int(np.flatnonzero(chosen)[0]))
    return rotated
