"""Whether the chains of a fit agree: rank-normalised split R-hat and bulk effective draws of every trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_plain import number
from postrand.mixture import Fit

Array = NDArray[np.float64]

MOST_R_HAT = 1.05
"""Chains whose largest R-hat is above this have not converged; 1.01 (Vehtari et al.) is said beside it."""
LEAST_EFFECTIVE = 100
"""Fewer effective draws than this, over all chains, do not place an interval."""
MARGIN = 1.25
"""Effective draws grow with the sweeps: so many times more are aimed at, so that one longer fit is enough."""
LEAST_TIMES, MOST_TIMES = 4, 20
"""A longer fit that is proposed has so many times the sweeps, at least and at most."""
PARAMETERS = ("log-likelihood", "log alpha")
"""Traces that are not of records."""
FULL = 0.95
"""A chain that occupies this share of the classes has reached the truncation."""


@dataclass(frozen=True, slots=True, eq=False)
class Convergence:
    """Hold R-hat and effective draws (F,) of each trace by name, and how many of the classes had a record.

    ``occupied`` is the 95% quantile over sweeps of the fullest chain, ``classes`` the truncation.
    ``asked`` are the sweeps of each chain with those of the burn-in, 0 where that is not known.
    """

    traced: tuple[str, ...]
    r_hat: Array
    effective: Array
    chains: int
    sweeps: int
    occupied: int
    classes: int
    asked: int = 0

    @property
    def judged(self) -> NDArray[np.intp]:
        """The numbers of the traces that are of records: parameters that give the same tables need not agree."""
        found = [k for k, name in enumerate(self.traced) if name not in PARAMETERS]
        return np.array(found or range(len(self.traced)), np.intp)

    @property
    def worst(self) -> int:
        """The number of the trace with the largest R-hat, of records."""
        return int(self.judged[np.argmax(self.r_hat[self.judged])])

    @property
    def fewest(self) -> float:
        """The fewest effective draws of any trace of records."""
        return float(self.effective[self.judged].min())

    @property
    def agree(self) -> bool:
        """Whether the chains agree: R-hat of all traces of records is within its limit."""
        return bool(self.r_hat[self.worst] <= MOST_R_HAT)

    @property
    def converged(self) -> bool:
        """Whether R-hat and effective draws of all traces of records are within the limits."""
        return self.agree and self.fewest >= LEAST_EFFECTIVE

    @property
    def more(self) -> str:
        """The next step where the chains are too short."""
        used = self.asked or self.sweeps
        short = MARGIN * LEAST_EFFECTIVE / max(self.fewest, 1.0)
        times = min(max(LEAST_TIMES, math.ceil(short)), MOST_TIMES)
        return f"ask for more sweeps: this fit had {used}, so for example --sweeps {times * used}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "chains": self.chains,
            "sweeps": self.sweeps,
            "largest_r_hat": number(self.r_hat[self.worst]),
            "of": self.traced[self.worst],
            "fewest_effective_draws": number(self.fewest),
            "classes_used": self.occupied,
            "classes": self.classes,
        }

    @property
    def truncated(self) -> bool:
        """Whether the chains used (almost) all classes that they were given."""
        return self.occupied >= FULL * self.classes


def convergence(fit: Fit) -> Convergence:
    """Return R-hat and effective draws of every trace of a fit, and whether its truncation was reached.

    A trace that never moves (a value known exactly) has R-hat 1 and as many effective draws as there are.
    """
    traces = np.asarray(fit.traces, dtype=np.float64)
    chains, sweeps, _ = traces.shape
    classes = len(fit.draws[0].weights)
    occupied = max(int(np.quantile(chain, 0.95)) for chain in np.asarray(fit.occupied))
    each = [_one(traces[:, :, k]) for k in range(traces.shape[2])]
    r_hat, effective = np.array(each).reshape(-1, 2).T
    return Convergence(tuple(fit.traced), r_hat, effective, chains, sweeps, occupied, classes, fit.settings.sweeps)


def _one(trace: Array) -> tuple[float, float]:
    if np.ptp(trace) <= 1e-12 * max(1.0, float(np.abs(trace).max())):
        return 1.0, float(trace.size)
    return split_r_hat(trace), bulk_effective(trace)


def split_r_hat(trace: Array) -> float:
    """Return the rank-normalised split R-hat of one trace (chains, sweeps): the larger of the bulk's and the folded.

    Each chain is cut in two halves, draws are replaced by normal scores of their ranks over all halves, and R-hat is
    ``sqrt((W (n−1)/n + B/n) / W)``, W and B/n the variances within and between halves. The folded one takes
    ``|x − median|`` first, so that chains that differ in spread alone are found. It is nan below 4 sweeps.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), Rank-normalization, folding, and localization.

    Examples
    --------
    >>> apart = np.array([[0.0, 1.0, 0.5, 0.2], [5.0, 6.0, 5.5, 5.2]])
    >>> bool(split_r_hat(apart) > 1.4)
    True
    """
    halves = _halves(trace)
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_scores(halves)), _r_hat(_scores(folded)))


def bulk_effective(trace: Array) -> float:
    """Return the effective number of draws in the bulk of one trace (chains, sweeps), on normal scores of split chains.

    ``N / (1 + 2 Σ_t ρ_t)``, ρ_t from the variances and autocovariances of the halves, summed by Geyer's initial
    monotone sequence of pairs (Vehtari et al. 2021, eq. 10 to 14); at most ``N log10 N``.
    """
    scores = _scores(_halves(trace))
    chains, n = scores.shape
    covariance = _autocovariance(scores)
    within = covariance[:, 0].mean() * n / (n - 1)
    between = scores.mean(axis=1).var(ddof=1) if chains > 1 else 0.0
    total = within * (n - 1) / n + between
    rho = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    last = int(negative[0]) if negative.size else len(pairs)
    whole = np.minimum.accumulate(pairs[:last])
    tau = max(2 * float(whole.sum()) - 1, 1 / math.log10(chains * n))
    return float(chains * n / tau)


def _halves(trace: Array) -> Array:
    """Return both halves of each chain as chains of their own; a middle draw of an odd number is left out."""
    half = trace.shape[1] // 2
    return np.concatenate([trace[:, :half], trace[:, -half:]])


def _scores(draws: Array) -> Array:
    ranks = scipy.stats.rankdata(draws).reshape(draws.shape)
    return np.asarray(scipy.special.ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _r_hat(draws: Array) -> float:
    n = draws.shape[1]
    if n < 2:
        return float("nan")
    within = draws.var(axis=1, ddof=1).mean()
    between = draws.mean(axis=1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else float("inf")
    return float(np.sqrt((within * (n - 1) / n + between) / within))


def _autocovariance(draws: Array) -> Array:
    """Return the autocovariances (chains, n) of each chain, divided by n, by fast Fourier transform."""
    n = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, n=2 * n, axis=1)) ** 2
    return np.asarray(np.fft.irfft(power, n=2 * n, axis=1)[:, :n] / n)
