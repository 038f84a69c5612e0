"""Population uniqueness under a latent class model (Manrique-Vallier and Reiter 2012, 2014)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.risk.cells import CellTable, FloatArray, IntArray
from postrand.risk.tau import Tau
from postrand.support.warned import warn

MOST_RHAT = 1.05
LEAST_EFFECTIVE = 100
"""What convergence asks for, of the logarithms of the expected measures."""

NOISE = 1e-24
"""Variances below this, relative to the mean square, are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentClassFit:
    """Hold the posterior of ``τ1`` and ``τ2`` with the diagnostics of the chains.

    ``tau1`` and ``tau2`` have the posterior mean, its standard deviation, and the central 95% interval. ``traces``
    has shape (chains, draws, 7): τ1 and τ2 as drawn, α, occupied classes, augmented records, and the expectations of τ1
    and τ2 given the parameters, after the burn-in. ``rhat`` and ``effective`` are the largest split R^ and the smallest
    effective sample size of the logarithms of these expectations: what is drawn given them is independent from sweep
    to sweep, and would hide that the parameters hardly moved. ``converged`` tells whether several chains met
    (R^ < 1.05) with at least 100 effective draws and the truncation does not bind; ``status`` says it in words.
    """

    tau1: Tau
    tau2: Tau
    classes: int
    rhat: float
    effective: float
    status: str
    converged: bool
    traces: FloatArray

    def __str__(self) -> str:
        lines = [f"population uniques {self.tau1} (tau1), correct matches {self.tau2} (tau2)", f"  {self.status}"]
        return "\n".join(lines)


class ConvergenceWarning(UserWarning):
    """The chains of a sampler have not met, or hardly moved: its result is not the posterior."""


def fit(
    cells: CellTable,
    sampling_fraction: float,
    *,
    forbidden: Iterable[Mapping[str, int]] = (),
    classes: int = 40,
    sweeps: int = 1000,
    burn_in: int | None = None,
    chains: int = 4,
    seed: int = 0,
) -> LatentClassFit:
    """Sample the posterior of a Dirichlet-process mixture of products of multinomials, truncated at ``classes``.

    ``x_ij | z_i=h ~ ψ_hj``, ``ψ_hj ~ Dirichlet(1)``, stick-breaking weights with ``α ~ Gamma(1/4, 1/4)``.
    Structural zeros (``forbidden``, as in :func:`postrand.risk.loglinear.fit`) truncate the mixture; forbidden records
    are drawn as missing data. Given a draw, ``F_j − 1 ~ Binomial(N−n, p_j)`` for each sample unique, ``N = n/π``. The
    first ``burn_in`` sweeps (half by default) are left out. Chains that do not meet, or have fewer than 100 effective
    draws, are not converged: ``status`` says so, and a :class:`ConvergenceWarning` is given.

    Raises
    ------
    UsageError
        If the fraction is outside (0, 1], a number of classes, sweeps or chains is too small, or a rule is unknown.
    """
    burn_in = sweeps // 2 if burn_in is None else burn_in
    if not 0 < sampling_fraction <= 1:
        raise UsageError(sentence("the sampling fraction is outside its range", got=sampling_fraction, wanted="(0, 1]"))
    if classes < 2 or chains < 1 or not 0 <= burn_in <= sweeps - 8:
        raise UsageError(sentence("wanted classes >= 2, chains >= 1 and at least 8 sweeps after the burn-in"))
    from postrand.risk.gibbs import chain  # compiled

    records = int(cells.counts.sum())
    arguments = (
        np.ascontiguousarray(cells.codes, dtype=np.int32),
        cells.counts,
        np.cumsum([0, *cells.shape]),
        classes,
        sweeps,
        _rules(cells, forbidden),
        round(records / sampling_fraction) - records,
        np.flatnonzero(cells.uniques),
    )
    streams = np.random.default_rng(seed).spawn(chains)
    traces = np.stack([chain(*arguments, stream) for stream in streams])[:, burn_in:]
    expected = np.log(np.maximum(traces[:, :, 5:], 1e-300))
    rhat = max(split_rhat(expected[:, :, k]) for k in (0, 1))
    effective = min(effective_size(expected[:, :, k]) for k in (0, 1))
    most = int(traces[:, :, 3].max())
    tau1, tau2 = _summary(traces[:, :, 0]), _summary(traces[:, :, 1])
    problems = _problems(rhat, effective, most, classes, chains, traces[:, :, 6].mean(axis=1))
    if problems:
        warn(f"latent classes: {'; '.join(problems)}", ConvergenceWarning, stacklevel=2)
    status = "; ".join(problems) or f"converged: split R^ {rhat:.2f}, {effective:,.0f} effective draws"
    return LatentClassFit(tau1, tau2, most, rhat, effective, status, not problems, traces)


def _problems(rhat: float, effective: float, most: int, classes: int, chains: int, means: FloatArray) -> list[str]:
    """Return why the draws are not those of the posterior; ``means`` are the chains' means of τ2."""
    found = []
    if most == classes:
        found.append(f"too few classes: all {classes} are occupied; raise classes")
    if chains < 2:
        found.append("convergence is unknown, because one chain cannot show it; use at least 2 chains")
    if rhat >= MOST_RHAT:
        apart = (
            f"their means of tau2 are {means.min():,.1f} to {means.max():,.1f}" if chains > 1 else "its halves differ"
        )
        found.append(f"not converged: split R^ is {rhat:.2f}, wanted < {MOST_RHAT}, {apart}; raise sweeps")
    if effective < LEAST_EFFECTIVE:
        found.append(f"not converged: {effective:.0f} effective draws, wanted >= {LEAST_EFFECTIVE}; raise sweeps")
    return found


def _rules(cells: CellTable, forbidden: Iterable[Mapping[str, int]]) -> IntArray:
    rows = []
    for rule in forbidden:
        unknown = [name for name in rule if name not in cells.names]
        if unknown or not rule:
            raise UsageError(
                sentence(f"no key variable {unknown[0]!r}" if unknown else "a structural zero without variables")
            )
        rows.append([rule.get(name, -1) for name in cells.names])
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(cells.names))


def _summary(draws: FloatArray) -> Tau:
    low, high = np.quantile(draws, [0.025, 0.975])
    return Tau(float(draws.mean()), float(draws.std()), None, (float(low), float(high)))


def split_rhat(draws: FloatArray) -> float:
    """Return the split R^ of chains, shape (chains, draws): 1 where the halves agree (Gelman et al. 2013, §11.4)."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within, noise = parts.var(axis=1, ddof=1).mean(), NOISE * max(float((draws**2).mean()), 1.0)
    between = half * parts.mean(axis=1).var(ddof=1)
    return math.sqrt((within * (half - 1) / half + between / half) / within) if within > noise else 1.0


def effective_size(draws: FloatArray) -> float:
    """Return the effective sample size, autocorrelations summed while pairs are positive (Geyer 1992)."""
    chains, length = draws.shape
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * length)) ** 2
    covariance = np.fft.irfft(spectrum)[:, :length].mean(axis=0) / length
    if covariance[0] <= NOISE * max(float((draws**2).mean()), 1.0):  # constant but for rounding
        return float(chains * length)
    between = draws.mean(axis=1).var(ddof=1) if chains > 1 else 0.0
    variance = covariance[0] + between
    correlation = 1 - (covariance[0] - covariance) / variance
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else pairs.size
    return float(min(chains * length / max(2 * pairs[:stop].sum() - 1, 1 / (chains * length)), chains * length))
