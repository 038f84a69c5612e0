"""Find which two perturbed variables act together on an unperturbed column, and how far the copies have to move for it.

The regressions of single variables imply sums C of a column over the records of each pair of categories; the release
says U, without bias. What they differ by in directions that leave all margins alone is an interaction γ (logarithms
of the density ratio for a deviation of the column), which the sums answer to with J = their variance over samples:
``r ~ N(0, V + J + τ² J²)``, V the variance of U given the true records. Whether there is one has a probability for
each pair and column, and so has each of some τ (spike and slab); their shares are learned from all of them (empirical
Bayes). A copy draws whether there is one, and the move given that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_tables import Places, Seen
from postrand.completion.related_basis import Basis
from postrand.completion.related_sums import shown, true_sums, unbiased_sums

Array = NDArray[np.float64]
DEVIATIONS = (0.05, 0.1, 0.2, 0.4)
"""Deviations τ of an interaction that are tried."""
PRIOR = (0.3, 0.1, 0.2, 0.25, 0.15)
"""The probability that there is no interaction, and of each deviation, before anything is seen.

A small probability of none is the safe side, since a file of moderate size shows an interaction badly. Where there was
one, coverage of the product's intervals was .58 without the search and .83 with it (12 files of 2,500 records), but
.58 if the probability of none was .5 or .9; where there was none, coverage of all coefficients was .92 without and .93
with it, and intervals 3% longer (16 files of 2,000 records).
"""
TRUST = 60.0
"""As many pairs and columns as the prior is worth beside those of the file."""
TURNS = 30
LEAST = 0.5
"""What is less probable is left out."""
RECORDS_EACH = 100
"""A pair of variables is looked at where the file has on average so many records for each of its cells."""
MOST_KURTOSIS = 8.0
"""A column with a larger fourth moment is left out: an indicator of less than about one record in nine."""
MOST = 20
"""Pairs and columns that copies are moved for; of more, the most probable."""


@dataclass(frozen=True, slots=True, eq=False)
class Acting:
    """Hold how two variables act together on one column of the basis, of the unperturbed column ``name``.

    The sums over the pair's cells (K) move by ``directions @ (moves[k] + roots[k] @ noise)`` with probability
    ``chances[k]``, and else not at all.
    """

    places: Places
    column: int
    name: str
    chances: Array
    directions: Array
    moves: tuple[Array, ...]
    roots: tuple[Array, ...]

    @property
    def probability(self) -> float:
        """The probability that there is an interaction."""
        return float(self.chances.sum())

    def drawn(self, rng: np.random.Generator) -> Array | None:
        """Return by how much the sums of one copy move, (K,); None where it has no interaction."""
        which = int(np.searchsorted(np.cumsum(self.chances), rng.random(), side="right"))
        noise = rng.normal(size=self.directions.shape[1])
        if which == len(self.chances):
            return None
        return np.asarray(self.directions @ (self.moves[which] + self.roots[which] @ noise))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Hold what is seen of one pair and one column: r, J, V + J, and the variance of the pilots' mean besides."""

    places: Places
    column: int
    name: str
    directions: Array
    r: Array
    j: Array
    whole: Array
    pilots: Array

    def log_factors(self) -> list[float]:
        """Return the logarithms of the Bayes factors of an interaction with each deviation, beside none (0)."""
        none = self.whole + self.pilots
        base = _log_normal(self.r, none)
        return [0.0, *(_log_normal(self.r, none + d**2 * self.j @ self.j) - base for d in DEVIATIONS)]

    def moved(self, deviation: float) -> tuple[Array, Array]:
        """Return mean and root of the variance of the move: the posterior with an interaction less that without."""
        slab = deviation**2 * self.j @ self.j
        with_it = np.linalg.solve(self.whole + self.pilots + slab, self.j + slab).T
        without = np.linalg.solve(self.whole + self.pilots, self.j).T
        more = slab - with_it @ (self.j + slab) + without @ self.j
        values, vectors = np.linalg.eigh((more + more.T) / 2)
        return (with_it - without) @ self.r, vectors * np.sqrt(np.maximum(values, 0.0))

    def acting(self, chances: Array) -> Acting:
        """Return how the copies move; ``chances`` are those of each deviation."""
        moves, roots = zip(*(self.moved(deviation) for deviation in DEVIATIONS), strict=True)
        return Acting(self.places, self.column, self.name, chances, self.directions, moves, roots)


def acting_pairs(
    seen: Seen, places: Sequence[int], names: Sequence[str], basis: Basis, pilots: Sequence[NDArray[np.int32]]
) -> tuple[Acting, ...]:
    """Return which pairs of the perturbed ``places`` act together on which unperturbed columns ``names`` of a basis.

    ``pilots`` are copies that follow the regressions of single variables alone.
    """
    columns = [(int(d), name) for c, name in enumerate(names) for d in basis.columns(c) if _even(basis.values[:, d])]
    phi = basis.values[:, [d for d, _ in columns]].astype(np.float64)
    found: list[_Found] = []
    sizes, most = seen.evidence.sizes, len(phi) / RECORDS_EACH
    for pair in itertools.combinations(places, 2) if columns else ():
        if sizes[pair[0]] * sizes[pair[1]] > most:
            continue
        found += _pair(seen, pair, phi, columns, pilots)
    if not found:
        return ()
    chances = _chances(np.array([one.log_factors() for one in found]))
    none = chances[:, 0]
    kept = [k for k in np.argsort(none, kind="stable")[:MOST] if none[k] <= 1 - LEAST]
    return tuple(found[k].acting(chances[k, 1:]) for k in sorted(kept))


def _chances(log_factors: Array) -> Array:
    """Return the probabilities that there is no interaction, and of each deviation, of all pairs and columns.

    Their shares are learned from all of them (empirical Bayes, by EM), beside a prior that is worth some more.
    """
    shares = np.array(PRIOR)
    for _ in range(TURNS):
        chances: Array = scipy.special.softmax(log_factors + np.log(shares), axis=1)
        shares = (chances.sum(axis=0) + TRUST * np.array(PRIOR)) / (len(chances) + TRUST)
    return chances


def _even(column: NDArray[np.float32]) -> bool:
    """Whether a column of the basis is no indicator of few records: sums over the records of a cell are then normal."""
    return float(np.mean(column.astype(np.float64) ** 4)) < MOST_KURTOSIS


def _pair(
    seen: Seen, pair: Places, phi: Array, columns: Sequence[tuple[int, str]], pilots: Sequence[NDArray[np.int32]]
) -> list[_Found]:
    """Return what is seen of one pair and each column; nothing where no record shows both variables."""
    parts, sizes = shown(seen, pair), seen.evidence.sizes
    if not parts:
        return []
    held = np.mean([true_sums(p, pair, sizes, np.ones((len(phi), 1)))[0] for p in pilots], axis=0)
    directions = interactions(held.reshape(sizes[pair[0]], sizes[pair[1]]) > 0)
    if not directions.shape[1]:
        return []
    sums, spread = unbiased_sums(parts, phi)
    implied = np.mean([true_sums(p, pair, sizes, phi) for p in pilots], axis=0)
    second = np.mean([true_sums(p, pair, sizes, phi**2) for p in pilots], axis=0)
    return [
        _found(pair, column, directions, sums[d] - implied[d], spread[d] - np.diag(second[d]), second[d], len(pilots))
        for d, column in enumerate(columns)
    ]


def _found(
    pair: Places,
    column: tuple[int, str],
    directions: Array,
    apart: Array,
    spread: Array,
    second: Array,
    pilots: int,
) -> _Found:
    """Return r and its variances in the directions, of the difference of the sums and their variance over cells."""
    mass = np.maximum(second, 1e-6 * second.sum())
    information = np.linalg.pinv(np.diag(mass) - np.outer(mass, mass) / mass.sum())
    j = np.asarray(np.linalg.inv(directions.T @ information @ directions), np.float64)
    values, vectors = np.linalg.eigh(directions.T @ spread @ directions)
    v = (vectors * np.maximum(values, 1e-3 * max(values.max(), 1e-12))) @ vectors.T
    whole = v + j
    turned = np.linalg.solve(v, whole).T  # (V + J) V⁻¹: copies were drawn given the release, and took a part of r
    noise = turned @ (j - j @ np.linalg.solve(whole, j)) @ turned.T / pilots
    return _Found(pair, *column, directions, turned @ directions.T @ apart, j, whole, noise)


def interactions(possible: NDArray[np.bool_]) -> Array:
    """Return an orthonormal basis (K, k) of the tables on the possible cells whose margins are all 0."""
    inside = possible.ravel()
    rows = np.kron(np.eye(possible.shape[0]), np.ones(possible.shape[1]))
    columns = np.kron(np.ones(possible.shape[0]), np.eye(possible.shape[1]))
    found = np.zeros((possible.size, 0))
    if inside.any():
        basis = scipy.linalg.null_space(np.concatenate([rows, columns])[:, inside])
        found = np.zeros((possible.size, basis.shape[1]))
        found[inside] = basis
    return found


def _log_normal(x: Array, covariance: Array) -> float:
    """Return the logarithm of the normal density with mean 0, but for its constant."""
    factor = scipy.linalg.cho_factor(covariance, lower=True)
    return -float(x @ scipy.linalg.cho_solve(factor, x)) / 2 - float(np.log(np.diag(factor[0])).sum())
