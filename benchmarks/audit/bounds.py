"""Bounds with a stated error on what a mechanism did, from counts of its draws alone.

Every bound is one-sided: it is on the wrong side of the truth with a probability of at most ``alpha``. Each rests on
the exact bounds of Clopper and Pearson for a share; what joins two of them divides ``alpha``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta


def share_lower(hits, trials, alpha):
    """Return p with ``P(X >= hits | trials, p) = alpha``, 0 without a hit: below the true share but for alpha."""
    hits, trials = np.broadcast_arrays(np.asarray(hits, dtype=float), np.asarray(trials, dtype=float))
    return np.where(hits > 0, beta.ppf(alpha, np.maximum(hits, 1), trials - hits + 1), 0.0)


def share_upper(hits, trials, alpha):
    """Return p with ``P(X <= hits | trials, p) = alpha``, 1 where all hit: above the true share but for alpha."""
    return 1 - share_lower(np.asarray(trials) - np.asarray(hits), trials, alpha)


def epsilon_lower(first, second, trials, alpha, delta=0.0):
    """Return a lower bound of ε from the draws in an event under two neighbours, ``ln((P − δ) / Q)``, at least 0.

    (ε, δ)-differential privacy says ``P(E) <= e^ε Q(E) + δ`` of every event. ``first`` of ``trials[0]`` draws under one
    neighbour are in it, ``second`` of ``trials[1]`` under the other. The event must not be chosen by these draws.
    """
    high = share_lower(first, trials[0], alpha / 2) - delta
    low = share_upper(second, trials[1], alpha / 2)
    return np.log(np.maximum(high / low, 1.0))


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outcomes (K,) that is likelier under ``pair[0]`` than under ``pair[1]``, of what is seen in ``view``."""

    view: str
    pair: tuple[int, int]
    outcomes: np.ndarray


def best_outcomes(first, second, trials, alpha, delta=0.0):
    """Return the outcomes (K,) whose union promises the largest bound, and that bound: the likeliest ratios first.

    By Neyman and Pearson no other set of the same size has a larger ratio. Each outcome counts one draw more under the
    second neighbour than it had, so that many rare ones are not chosen by chance.
    """
    order = np.argsort(-(first + 0.5) / (second + 0.5), kind="stable")
    promised = epsilon_lower(
        np.cumsum(first[order]), np.cumsum(second[order] + 1).clip(max=trials[1]), trials, alpha, delta
    )
    taken = int(np.argmax(promised))
    outcomes = np.zeros(first.size, dtype=bool)
    outcomes[order[: taken + 1]] = True
    return outcomes, float(promised[taken])


def entropy_upper(counts, alpha):
    """Return an upper bound of the mean entropy, in nats, of the laws of which these (W, S) counts are draws.

    Each share x is within its two bounds, so ``Σ −x ln x`` is at most the sum of the largest values within them.
    """
    counts = np.asarray(counts)
    each, trials = alpha / (2 * counts.size), counts.sum(axis=1, keepdims=True)
    low, high = share_lower(counts, trials, each), share_upper(counts, trials, each)
    at = np.clip(np.exp(-1), low, high)  # −x ln x rises up to 1/e
    return float(-(at * np.log(np.where(at > 0, at, 1))).sum() / counts.shape[0])


def posterior_lower(hits, runs, shown, records, alpha):
    """Return a lower bound of ``P / E``: the chance that a record shows a value, over the number expected to show it.

    ``hits`` of ``runs`` draws of the record show it, and ``shown`` of the ``runs * records`` draws of all. These have
    different laws; the upper bound of a share holds for their mean too (Hoeffding 1956: equal laws spread most).
    """
    return float(share_lower(hits, runs, alpha / 2) / (records * share_upper(shown, runs * records, alpha / 2)))
