"""The most truthful bistochastic law at a given β: a convex programme with a solution in one unknown.

Maximise ``Σ_u p_u P[u,u]`` over bistochastic P with ``H(P) >= β ln S``. Setting the derivative of the Lagrangian to
zero gives ``P[u,v] = s_u s_v`` off the diagonal and ``P[u,u] = s_u² e^(t p_u)``, with ``t = S/μ`` for the multiplier μ
of the entropy. Rows sum to 1 when ``s_u = 2 / (Σs + √((Σs)² + 4 (e^(t p_u) - 1)))``: one equation for Σs, one for t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.designers.bistochastic.rounding import round_bistochastic
from postrand.errors import DesignError, PrivacyError, sentence
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.bistochastic import Bistochastic
from postrand.support.entropy import beta_lower
from postrand.support.inputs import real_array

_COLDEST = 1e15
"""Beyond this t every category with p_u > 1e-12 is released as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class TruthfulDesign:
    """Hold the most truthful exact laws for a β, and the proof.

    ``value = Σ_k w_k Σ_u p_ku P_k[u,u]`` of the exact laws; no bistochastic laws with that β exceed ``bound`` (weak
    duality: it holds whatever multipliers the solver stopped at). ``temperature`` is the multiplier μ.
    """

    matrices: tuple[TransitionMatrix, ...]
    value: float
    bound: float
    temperature: float

    maximise: ClassVar[bool] = True

    @property
    def gap(self) -> float:
        """``bound - value >= 0``."""
        return self.bound - self.value

    @property
    def beta(self) -> float:
        """``Σ H(P_k) / Σ ln S_k`` of the exact laws (RDF Definition 2), rounded down."""
        return beta_lower([matrix.weights for matrix in self.matrices])


def truthful(prior: ArrayLike, beta: float) -> TruthfulDesign:
    """Return the bistochastic law of β at least ``beta`` that releases most records truthfully, for the prior p (S,).

    In O(S) until the matrix is written out and rounded; the gap is a few units of 1e-13.

    Raises
    ------
    PrivacyError
        If β is outside [0, 1], or so near 1 that no exact law of S categories holds it.
    DesignError
        If p is not a probability distribution.

    Examples
    --------
    >>> best = truthful([0.5, 0.3, 0.2], 0.6)
    >>> best.matrices[0].is_bistochastic, best.beta >= 0.6, best.gap < 1e-9, best.matrices[0].array.round(3).tolist()
    (True, True, True, [[0.838, 0.07, 0.093], [0.07, 0.767, 0.164], [0.093, 0.164, 0.743]])
    """
    return allocate([prior], beta)


def allocate(priors: Sequence[ArrayLike], beta: float, weights: ArrayLike | None = None) -> TruthfulDesign:
    """Spend ``β Σ_k ln S_k`` over several attributes so that ``Σ_k w_k Σ_u p_ku P_k[u,u]`` is largest (Definition 2).

    One multiplier serves all attributes, so the problem stays one equation in one unknown. ``weights`` default to 1.

    Raises
    ------
    PrivacyError
        If β is outside [0, 1], or so near 1 that no exact law holds it.
    DesignError
        If a prior is not a probability distribution, or a weight is not positive.

    Examples
    --------
    >>> best = allocate([[0.9, 0.1], [0.25, 0.25, 0.25, 0.25]], 0.5)
    >>> best.beta >= 0.5, best.gap < 1e-9, [round(m.beta, 3) for m in best.matrices]
    (True, True, [0.413, 0.544])
    """
    Bistochastic(beta)  # refuses what is no β
    ps = [_distribution(prior) for prior in priors]
    w = np.ones(len(ps)) if weights is None else real_array(weights, "weights", DesignError)
    if not ps or w.shape != (len(ps),) or not np.isfinite(w).all() or w.min() <= 0:
        raise DesignError(
            sentence("weights are not one positive number for each attribute", wanted=f"{len(ps)} of them")
        )
    gains = [p.size * weight * p for p, weight in zip(ps, w, strict=True)]
    most = math.fsum(math.log(p.size) for p in ps)
    bound = math.inf
    for margin in (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10):
        mu = _temperature(gains, min(beta + margin, 1.0) * most)
        laws = tuple(round_bistochastic(_law(gain / mu if beta < 1 else 0 * gain)) for gain in gains)
        bound = min(bound, _dual(gains, mu, beta * most), float(w.sum()))
        if beta_lower([law.weights for law in laws]) >= beta:
            value = sum(float(weight * (p @ np.diag(law.array))) for p, weight, law in zip(ps, w, laws, strict=True))
            return TruthfulDesign(laws, value, max(bound, value), mu)
    raise PrivacyError(
        sentence("no exact matrix with this beta was found", got=beta, fix="choose a smaller beta, by 1e-9 or more")
    )


def _distribution(prior: ArrayLike) -> NDArray[np.float64]:
    p = real_array(prior, "the prior", DesignError)
    if p.ndim != 1 or not p.size or not np.isfinite(p).all() or p.min() < 0 or abs(p.sum() - 1) > 1e-9:
        raise DesignError(
            sentence("the prior is not a probability distribution", wanted="finite, not negative, sum 1 within 1e-9")
        )
    scaled: NDArray[np.float64] = p / p.sum()
    return scaled


def _scalings(exponent: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return ``Σs``, ``s`` and the diagonal ``s² e^exponent`` of the law with the exponents ``t p_u >= 0``.

    With ``E = e^(-exponent/2)``, ``s/E = 2 / (E Σs + √((E Σs)² + 4 (1 - E²)))`` overflows nowhere.
    """
    E, rest = np.exp(-exponent / 2), -4 * np.expm1(-exponent)

    def scaled(total: float) -> NDArray[np.float64]:
        part = E * total
        return np.asarray(2 / (part + np.sqrt(part * part + rest)), dtype=np.float64)

    def excess(total: float) -> float:
        return float((E * scaled(total)).sum() - total)

    high = math.sqrt(exponent.size) * (1 + 1e-12)
    low = float((E * scaled(high)).sum()) * (1 - 1e-12)
    total = (
        scipy.optimize.brentq(excess, low, high, xtol=1e-300, rtol=1e-15)
        if low > 0 and excess(low) > 0 > excess(high)
        else low
    )
    ratio = scaled(total)
    return total, E * ratio, ratio * ratio


def _law(exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    if not exponent.any():
        return np.full((exponent.size, exponent.size), 1 / exponent.size)
    _, s, diagonal = _scalings(exponent)
    array = np.outer(s, s)
    np.fill_diagonal(array, diagonal)
    return array


def _entropy(exponent: NDArray[np.float64]) -> float:
    """Return ``H(P)`` in nats, in O(S)."""
    total, s, diagonal = _scalings(exponent)
    return float(
        -(2 * scipy.special.xlogy(s, s) @ (total - s) + scipy.special.xlogy(diagonal, diagonal).sum()) / s.size
    )


def _temperature(gains: Sequence[NDArray[np.float64]], bits: float) -> float:
    """Return the largest μ found at which the laws together have entropy ``bits`` nats; hot laws have more."""

    def excess(log_mu: float) -> float:
        return math.fsum(_entropy(gain / math.exp(log_mu)) for gain in gains) - bits

    largest = max(float(gain.max()) for gain in gains)
    cold, hot = math.log(largest / _COLDEST), math.log(largest) + 40
    if excess(cold) >= 0:
        return math.exp(cold)
    if excess(hot) <= 0:
        return math.exp(hot)
    return math.exp(scipy.optimize.brentq(excess, cold, hot, xtol=1e-14, rtol=1e-15))


def _dual(gains: Sequence[NDArray[np.float64]], mu: float, bits: float) -> float:
    """Return the Lagrangian bound, rounded up: ``Σ_k [Σ_u a_u + Σ_v b_v + (μ/S) Σ_uv x_uv] - μ bits``.

    It holds for any multipliers of rows ``a``, columns ``b`` and entropy ``μ >= 0``, since ``c x - (μ/S) x ln x`` is
    at most ``(μ/S) e^(S c/μ - 1)``. Here ``a = b = -(μ/S) (ln s + 1/2)``, so that ``x_uv`` are the entries of P.
    """
    value, size_of_terms = -mu * bits, mu * bits
    for gain in gains:
        total, s, diagonal = _scalings(gain / mu)
        terms = np.array([s.sum() ** 2, -(s @ s), diagonal.sum(), -2 * _log_scalings(gain / mu, total).sum(), -s.size])
        value += mu / s.size * float(terms.sum())
        size_of_terms += mu / s.size * float(np.abs(terms).sum())
    return value + 1e-14 * size_of_terms


def _log_scalings(exponent: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    E, rest = np.exp(-exponent / 2), -4 * np.expm1(-exponent)
    part = E * total
    return np.asarray(math.log(2) - exponent / 2 - np.log(part + np.sqrt(part * part + rest)), dtype=np.float64)
