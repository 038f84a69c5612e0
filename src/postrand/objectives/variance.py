"""Variance of the analyst's unbiased estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import MAX_CONDITION
from postrand.objectives.base import ObjectiveTraits
from postrand.support.inputs import real_array

IDENTIFIED = 1e-8
"""A query c counts as identified when ``M b = c`` holds to this, relative to the largest entry of c."""


@dataclass(frozen=True, slots=True)
class EstimatorVariance:
    """Cost ``Σ_q w_q Var(c_q' π^)`` of the unbiased estimate ``π^ = (Mᵀ)^-1 λ^`` from one record.

    ``Cov(π^) = (Mᵀ)^-1 (diag λ - λλᵀ) M^-1``, ``λ = Mᵀ p``: sampling and perturbation; divide by n for n records.
    ``queries`` holds the linear queries ``c_q`` (each S numbers), ``weights`` their weights (default 1 each). With no
    queries every frequency is one, and the value is the trace.

    A query needs only be identified: where M is singular or ill-conditioned (condition number > 1e12) its estimate is
    ``b·λ^`` with ``M b = c`` and b of least length, as :func:`postrand.estimate.quantities` has it, of variance
    ``Σ_z λ_z b_z² - (c·p)²``. A query that no b answers, to 1e-8 of its largest entry, costs infinity.

    Raises
    ------
    DesignError
        If queries are not finite lists of one length, or weights do not fit them, are negative or all 0.

    Examples
    --------
    >>> M = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> round(EstimatorVariance().value(M, np.array([0.5, 0.5])), 12)  # k-RR: 2 (λ(1-λ)) / (2q-1)²
    2.0
    """

    name: ClassVar[str] = "variance"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Make corrected shares as precise as possible.",
        "variance for one record",
        relabelling="released",
        at_ends=True,
        adds_up=True,
        rank=30,
    )
    maximise: ClassVar[bool] = False

    queries: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        rows, weighed = (real_array(getattr(self, n), f"the list of {n}", DesignError) for n in ("queries", "weights"))
        if rows.ndim != 2 - (rows.size == 0) or weighed.ndim != 1 or not np.isfinite(rows).all():
            raise DesignError(sentence("queries are not finite lists of one length, or weights are not a list"))
        queries, weights = tuple(map(tuple, rows.tolist())), tuple(weighed.tolist())
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "weights", weights)
        if weights and len(weights) != len(queries):
            raise DesignError(sentence("weights do not fit the queries", got=len(weights), wanted=len(queries)))
        if weights and not (min(weights) >= 0 and 0 < sum(weights) < math.inf):
            raise DesignError(sentence("weights are negative, all 0 or not finite"))

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the weighted sum of variances for one record."""
        answers = self._answers(array)
        if answers is None:
            return math.inf
        released = prior @ array
        mean = released @ answers
        return float(((released @ answers**2) - mean**2).sum())

    def _answers(self, array: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the estimate of each query given each released value, (S, Q); None where one is not identified."""
        wanted = self.matrix(len(array)).T
        if np.linalg.cond(array) <= MAX_CONDITION:
            return np.asarray(np.linalg.solve(array, wanted))
        answers: NDArray[np.float64] = np.linalg.pinv(array, rcond=1 / MAX_CONDITION) @ wanted
        missed = np.abs(array @ answers - wanted).max(axis=0)
        return answers if (missed <= IDENTIFIED * np.abs(wanted).max(axis=0)).all() else None

    def gradient(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``∂ value / ∂ M`` (S, S) with every entry of ``M`` free, for an invertible ``M``; of others nan.

        With ``A = M^-1 Cᵀ`` (C the weighted queries), ``λ = pᵀM``, ``s_z = Σ_q A[z,q]²``:
        ``p sᵀ - 2 M^-ᵀ diag(λ) A Aᵀ``; the squared means ``(pᵀCᵀ)²`` do not depend on ``M``.
        """
        if not np.linalg.cond(array) <= MAX_CONDITION:
            return np.full_like(array, math.nan)
        answers = np.linalg.solve(array, self.matrix(prior.size).T)
        weighted = (prior @ array)[:, None] * answers
        slope: NDArray[np.float64] = np.outer(prior, (answers**2).sum(axis=1))
        return slope - 2 * np.linalg.solve(array.T, weighted) @ answers.T

    def by_definition(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return ``Σ_q c_q' Cov(π^) c_q`` from the covariance matrix."""
        released, inverse = prior @ array, np.linalg.inv(array)
        covariance = inverse.T @ (np.diag(released) - np.outer(released, released)) @ inverse
        queries = self.matrix(prior.size)
        return float(np.trace(queries @ covariance @ queries.T))

    def least(self, prior: NDArray[np.float64], epsilon: float) -> float:
        """Return a proven lower bound of the value over all ε-DP matrices, of any structure.

        By Cramér and Rao, ``value >= tr(W J^-1) >= (tr W^½)² / tr J`` with W the queries and J the Fisher information
        on the vectors that sum to 0. ``tr J = Σ_z |Π M_z|² / λ_z`` is convex in the columns, so largest where they take
        two values: at most the largest ``(e^ε-1)² k (S-k)/S / (1 + (e^ε-1) P_k)²``, P_k the mass of the k rarest.
        """
        size, extra = prior.size, math.expm1(epsilon)
        k, rarest = np.arange(1, size), np.cumsum(np.sort(prior))[:-1]
        most = (extra**2 * k * (size - k) / size / (1 + extra * rarest) ** 2).max()
        centred = self.matrix(size) - self.matrix(size).mean(axis=1, keepdims=True)
        roots = np.linalg.svd(centred, compute_uv=False)
        return float(roots.sum() ** 2 / most) * (1 - 1e-12)

    def matrix(self, size: int) -> NDArray[np.float64]:
        """Return the queries as rows (Q, S), scaled by the square roots of their weights.

        Raises
        ------
        DesignError
            If they do not have ``size`` entries.
        """
        if not self.queries:
            return np.eye(size)
        queries = np.array(self.queries)
        if queries.shape[1] != size:
            raise DesignError(sentence("queries do not fit the prior", got=queries.shape[1], wanted=f"{size} entries"))
        weights = np.array(self.weights) if self.weights else np.ones(len(queries))
        scaled: NDArray[np.float64] = queries * np.sqrt(weights)[:, None]
        return scaled
