"""What an attacker who knows the matrix can infer, and linkage attacks carried out on a released file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from postrand.errors import UsageError, sentence
from postrand.matrix import TransitionMatrix
from postrand.risk.cells import FloatArray, IntArray, KeyCodes, table
from postrand.risk.law import KeyLaw

Knowledge = Literal["exact", "nearest", "matrix"]


def posterior(matrix: TransitionMatrix, prior: ArrayLike) -> FloatArray:
    """Return ``P(true = i | released = j)``, shape (S, S), rows true, columns released; unreachable columns are 0.

    Examples
    --------
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> posterior(M, [0.5, 0.5]).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    joint = matrix.array * _prior(matrix, prior)[:, None]
    mass = joint.sum(axis=0)
    found: FloatArray = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
    return found


def bayes_vulnerability(matrix: TransitionMatrix, prior: ArrayLike) -> float:
    """Return ``Σ_j max_i p_i M[i,j]``: the chance that the best guess of the true category is right.

    Without the release it would be ``max_i p_i``.

    Examples
    --------
    >>> bayes_vulnerability(TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]]), [0.5, 0.5])
    0.75
    """
    return float((matrix.array * _prior(matrix, prior)[:, None]).max(axis=0).sum())


def best_guess(matrix: TransitionMatrix, prior: ArrayLike) -> IntArray:
    """Return the most probable true category for each released one, shape (S,); the first one of several."""
    guess: IntArray = (matrix.array * _prior(matrix, prior)[:, None]).argmax(axis=0)
    return guess


def target_posterior(matrix: TransitionMatrix, counts: ArrayLike) -> FloatArray:
    """Return ``P(record = target | released = k)`` for a target of type m, ``M[m,k] / Σ_l U0(l) M[l,k]`` (CHR §2).

    ``counts`` (S,) holds ``U0``, the records of each type. Shape (S, S), rows the target's type, columns the value
    released; C1 asks that no entry of a type that occurs exceeds α. Columns that nothing reaches are 0.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != (matrix.size,) or (counts < 0).any():
        raise UsageError(sentence("counts must be one number >= 0 for each category", got=counts.shape))
    mass = counts @ matrix.array
    found: FloatArray = np.divide(matrix.array, mass, out=np.zeros_like(matrix.array), where=mass > 0)
    return found


def _prior(matrix: TransitionMatrix, prior: ArrayLike) -> FloatArray:
    p = np.asarray(prior, dtype=np.float64)
    if p.shape != (matrix.size,) or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        wanted = f"{matrix.size} numbers >= 0 that sum to 1"
        raise UsageError(sentence("the prior does not fit the matrix", got=f"shape {p.shape}", wanted=wanted))
    return p


@dataclass(frozen=True, slots=True, eq=False)
class Linkage:
    """The outcome of an attack on n targets who are in the released file.

    ``correct`` (n,) is the probability that the attacker's link of each target is right, a tie being broken at random;
    ``claimed`` (n,) what the attacker expects of it, 0 where no record is a candidate. ``rate`` and ``claimed_rate``
    are their means, ``confident`` the number of targets whose claimed probability exceeds one half and
    ``confident_correct`` the number of correct links expected among them.
    """

    knowledge: Knowledge
    correct: FloatArray
    claimed: FloatArray

    @property
    def rate(self) -> float:
        """The measured share of correct links."""
        return float(self.correct.mean()) if self.correct.size else 0.0

    @property
    def claimed_rate(self) -> float:
        """The share of correct links that the attacker's model predicts."""
        return float(self.claimed.mean()) if self.claimed.size else 0.0

    @property
    def confident(self) -> int:
        """The number of targets that the attacker claims with probability above one half."""
        return int((self.claimed > 0.5).sum())

    @property
    def confident_correct(self) -> float:
        """The expected number of correct links among the confident ones."""
        return float(self.correct[self.claimed > 0.5].sum())


def link(truth: KeyCodes, released: KeyCodes, law: KeyLaw | None = None, knowledge: Knowledge = "matrix") -> Linkage:
    """Carry out a linkage attack: link each target, whose true keys are known, to a record of the released file.

    Record i of ``truth`` and of ``released`` are one person; the attacker sees neither order. ``"exact"`` links to
    records with all keys equal; ``"nearest"`` to those with the most keys equal; ``"matrix"`` to those with the largest
    ``M[x, z]/q(z)``, the posterior of an attacker who knows M and takes the other records as independent draws, q
    being the product of the released margins.

    Raises
    ------
    UsageError
        If the files differ in keys or number of records, or ``"matrix"`` is asked for without a law.
    """
    if truth.names != released.names or truth.shape != released.shape or truth.records != released.records:
        raise UsageError(sentence("truth and release differ in keys or number of records"))
    from postrand.risk.kernels import best_links

    targets, held = table(truth), table(released)
    tables, rows, columns = _weights(targets.codes, held.codes, truth.shape, law, knowledge)
    density = np.ones(held.counts.size)
    if knowledge == "matrix":
        for j, size in enumerate(released.shape):
            density *= (np.bincount(released.codes[j], minlength=size) / released.records)[held.codes[:, j]]
    offsets = np.cumsum([0, *(t.size for t in tables)])
    flat, widths = np.concatenate([t.ravel() for t in tables]), np.array([t.shape[1] for t in tables])
    best, tied, total = best_links(flat, offsets, widths, rows, columns, held.counts, 1 / density)
    x, z = targets.record_cell, held.record_cell
    own = np.ones(truth.records)
    for b, matrix in enumerate(tables):
        own *= matrix[rows[x, b], columns[z, b]]
    own /= density[z]
    hit = (own >= best[x] * (1 - 1e-9)) & (own > 0)
    correct = np.where(hit, 1 / np.maximum(tied[x], 1), 0.0)
    if knowledge == "nearest":
        total = best * tied  # this attacker has no probabilities: each of the nearest is as good as another
    claimed = np.divide(best, total, out=np.zeros_like(best), where=total > 0)[x]
    return Linkage(knowledge, correct, claimed)


def _weights(
    true_codes: IntArray, released_codes: IntArray, shape: tuple[int, ...], law: KeyLaw | None, knowledge: Knowledge
) -> tuple[list[FloatArray], IntArray, IntArray]:
    if knowledge == "matrix":
        if law is None:
            raise UsageError(sentence("an attacker who knows the matrix needs it", fix="pass law=KeyLaw.of(...)"))
        return list(law.matrices), law.groups(true_codes), law.groups(released_codes)
    if knowledge not in ("exact", "nearest"):
        raise UsageError(sentence(f"unknown knowledge {knowledge!r}", wanted="exact, nearest or matrix"))
    other = 0.0 if knowledge == "exact" else 1 / 1024  # a power of two: equal agreements give exactly equal weights
    tables = [np.where(np.eye(size) > 0, 1.0, other) for size in shape]
    return tables, true_codes.astype(np.int32), released_codes.astype(np.int32)
