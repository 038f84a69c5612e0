"""Identification risk after perturbation (Shlomo and Skinner 2010): links to released uniques that are right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence
from postrand.mechanism.matrix import TransitionMatrix
from postrand.risk.cells import CellTable, FloatArray, IntArray, ravel
from postrand.risk.law import KeyLaw
from postrand.risk.loglinear import LogLinearFit, Model, fit_margins, margins_of
from postrand.risk.tau import (
    MODEL_ERROR,
    Curvature,
    Tau,
    add_into,
    exprel,
    exprel_slopes,
    in_parts,
    inverse_information,
    margin_sizes,
)
from postrand.risk.truemargins import TrueMargins
from postrand.support import loops

DRAWS = 1000
MAX_DRAWN = 100_000_000
"""Draw fewer files where the released uniques times the draws are more."""

MAX_MARGIN = 1500
"""Take a margin of more cells for known in the standard error."""

MAX_CELLS = 20_000_000


def match_probability(population: FloatArray, matrix: TransitionMatrix, pi: float) -> FloatArray:
    """Return, for each cell j, the probability that a link to the one record released there is correct, shape (K,).

    ``[M[j,j]/(1−π M[j,j])] / Σ_k F_k M[k,j]/(1−π M[k,j])`` (Shlomo and Skinner 2010, (5)): given that Bernoulli
    sampling with probability π and then perturbation leave exactly one record in j, the chance that it is a given
    one of the ``F_j`` population units whose true cell is j. ``population`` (K,) holds F. A cell in which nobody lives
    has nobody to link to: 0, as have cells that nothing can reach.

    Raises
    ------
    UsageError
        If the sizes differ, or π is outside (0, 1].

    Examples
    --------
    >>> match_probability(np.array([4.0, 1.0]), TransitionMatrix.identity(2), 0.1).tolist()
    [0.25, 1.0]
    >>> match_probability(np.array([0.0, 4.0]), TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]]), 0.1)[0]
    np.float64(0.0)
    """
    if population.shape != (matrix.size,) or not 0 < pi <= 1:
        raise UsageError(sentence("the population and the matrix have different sizes, or pi is not in (0, 1]"))
    M = matrix.array
    odds = M / np.maximum(1 - pi * M, 1e-15)  # π = 1 and a row that surely moves to j: the limit
    total = population @ odds
    lived = (total > 0) & (population > 0)
    own: FloatArray = np.divide(odds.diagonal(), total, out=np.zeros(matrix.size), where=lived)
    return own


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """What a released file reveals about its own matches.

    ``fit`` is the model of the *true* cells, in expected records of the sample. ``own`` and ``others`` belong to the
    released uniques (m,), in the order of their cells: the probability that the keys stayed, and the expected number
    of other population units in the cell if they did.
    """

    fit: LogLinearFit
    tau1: Tau
    tau2: Tau
    own: FloatArray
    others: FloatArray

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.fit.model

    @property
    def status(self) -> str:
        """Whether the model met the estimated margins, which need not fit together."""
        if self.fit.converged:
            return "converged"
        off, records = self.fit.deviation, self.fit.mu.sum()
        return f"margins estimated one by one are met together within {off:.2g} of {records:,.0f} records"


def estimate(
    released: CellTable,
    law: KeyLaw,
    pi: FloatArray | float,
    model: Model = "two-way",
    *,
    forbidden: Sequence[Mapping[str, int]] = (),
    smoothing: float = 1.0,
    seed: int = 0,
) -> Matches:
    """Return ``τ1`` and ``τ2`` of a released file, with prediction intervals.

    The file's ``τ2`` is ``Σ 1[keys unchanged]/F`` over released uniques, F counting the population units whose *true*
    keys are these; ``τ1`` counts those with ``F = 1``. A released unique in a cell in which nobody lives adds
    nothing. Given the released file, with true shares p and released shares ``q = Mᵀp``::

        own_j = p_j M[j,j] / q_j        others_j = λ_j (1 − π M[j,j])
        E τ2  = Σ own_j φ(others_j)     E τ1 = Σ own_j exp(−others_j)       over released uniques j

    with ``λ = N p`` and ``φ(x) = (1 − e^−x)/x``: units outside the sample, and sampled ones that were released
    elsewhere. With M the identity it is ``tau.estimate``. p is the log-linear ``model`` of the true cells, fitted to
    margins that are estimated through M (``truemargins``).

    Both are random given the file, so that intervals are prediction intervals: quantiles of draws of who kept their
    keys, of F, of the model's sampling error (delta method), and of the error of the model itself, ``MODEL_ERROR``:
    what such models were off by on populations whose truth is known. A worse model is not covered.

    Raises
    ------
    UsageError
        If the model is unknown, or the table has too many cells.
    """
    found = ReleasedLinks.fitted(released, law, pi, model, forbidden=forbidden, smoothing=smoothing)
    return Matches(found.fit, *found.taus(seed), found.own, found.others)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedLinks:
    """Released uniques with their estimates from the model; ``shares`` and ``mixed`` are p and q over all cells."""

    true: TrueMargins

    fit: LogLinearFit
    law: KeyLaw
    shares: FloatArray
    mixed: FloatArray
    number: NDArray[np.int64]
    codes: IntArray
    own: FloatArray
    others: FloatArray

    @classmethod
    def fitted(
        cls,
        released: CellTable,
        law: KeyLaw,
        pi: FloatArray | float,
        model: Model = "two-way",
        *,
        forbidden: Sequence[Mapping[str, int]] = (),
        smoothing: float = 1.0,
    ) -> ReleasedLinks:
        """Fit the model of the true cells to a released table; the arguments are those of :func:`estimate`."""
        if math.prod(law.shape) > MAX_CELLS:
            what, fix = "too many cells for the risk after perturbation", "use fewer or coarser keys"
            raise UsageError(sentence(what, got=f"{math.prod(law.shape):,}", wanted=f"<= {MAX_CELLS:,}", fix=fix))
        true = TrueMargins(released, law, smoothing)
        margins = margins_of(model, released.names)
        tables = [true.of(margin) * true.records for margin in margins]
        fit = fit_margins(released.names, released.shape, margins, tables, forbidden=forbidden)
        return cls.of(fit, true, pi)

    @classmethod
    def of(cls, fit: LogLinearFit, true: TrueMargins, pi: FloatArray | float) -> ReleasedLinks:
        """Return the released uniques with their estimates from a model of the true cells."""
        released, law = true.released, true.law
        unique = released.uniques
        codes, pi = released.codes[unique], np.broadcast_to(pi, released.counts.shape)[unique]
        shares = np.zeros(math.prod(law.shape))
        shares[ravel(tuple(fit.cells.T), law.shape)] = fit.mu / fit.mu.sum()
        mixed = law.apply(shares.reshape(law.shape), range(len(law.shape))).ravel()
        number = ravel(tuple(codes.T), law.shape).astype(np.int64)
        stay = law.diagonal(codes)
        here = mixed[number]
        own = np.divide(shares[number] * stay, here, out=np.zeros(number.size), where=here > 0)
        others = shares[number] * fit.mu.sum() / pi * (1 - pi * stay)
        return cls(true, fit, law, shares, mixed, number, codes, np.minimum(own, 1.0), others)

    @property
    def risks(self) -> tuple[FloatArray, FloatArray]:
        """What each unique adds to τ1 and τ2 if its keys stayed, shapes (m,)."""
        return np.exp(-self.others), exprel(self.others)

    def uncertainty(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Return the standard error from the margins, and the bias, of τ1 and of τ2; None with too many parameters."""
        sizes = margin_sizes(self.fit)
        if sizes is None:
            return None
        inverse = inverse_information(self.fit, sizes)
        (one, two), (first, second) = self._errors(inverse, sizes), self._biases(inverse, sizes)
        return (one, first), (two, second)

    def taus(self, seed: int) -> tuple[Tau, Tau]:
        """Return τ1 and τ2 with their prediction intervals."""
        known = self.uncertainty()
        if known is None:
            one, two = (Tau(float((self.own * risk).sum())) for risk in self.risks)
            return one, two
        one, two = (self._tau(k, self.risks[k], *known[k], seed) for k in (0, 1))
        return one, two

    def _tau(self, k: int, risk: FloatArray, error: float, bias: float, seed: int) -> Tau:
        value = float((self.own * risk).sum())
        if not value > 0:
            return Tau(value, 0.0, 0.0, (value, value))
        rng = np.random.default_rng(seed)
        draws = draws_of(self.own.size)
        spread = math.sqrt(math.log1p((error / value) ** 2 + MODEL_ERROR[k] ** 2))
        scale = max(1 - bias / value, 0.5) * np.exp(spread * rng.standard_normal(draws))
        found = np.empty(draws)
        loops.match_draws(self.own, self.others, risk, k == 0, scale, found, rng)
        low, high = (float(x) for x in np.quantile(found, [0.025, 0.975]))
        return Tau(value, float(found.std()), bias, (low, min(high, float(self.own.size))))

    def _biases(self, inverse: FloatArray, sizes: list[int]) -> tuple[float, float]:
        """Return the second-order biases: those of the unperturbed model (``tau``), each unique weighed by ``own``."""
        curvature = Curvature.of(self.fit, self.codes, self.fit.at(self.codes), inverse)
        if curvature is None:
            return 0.0, 0.0
        x, (first, second) = self.others, exprel_slopes(self.others)
        one = curvature.bias(-self.own * x * np.exp(-x), self.own * x * (x - 1) * np.exp(-x))
        return one, curvature.bias(self.own * x * first, self.own * x * (x * second + first))

    def _errors(self, inverse: FloatArray, sizes: list[int]) -> tuple[float, float]:
        """Return the standard errors of the two expectations that come from the estimated margins."""
        true, edges = self.true, np.cumsum([0, *sizes])
        total = [np.zeros(true.released.counts.size), np.zeros(true.released.counts.size)]
        slopes, gradients = self._slopes(), np.zeros((2, sum(sizes)))
        for place, index in in_parts(self.fit, sizes):
            for gradient, slope in zip(gradients, slopes, strict=True):
                add_into(gradient, index, slope[place])
        gammas = [inverse @ gradient for gradient in gradients]
        for m, margin in enumerate(self.fit.margins):
            part = [gamma[edges[m] : edges[m + 1]] for gamma in gammas]
            for k, score in enumerate(_influence(true, margin, part)):
                total[k] += score
        return _spread(total[0], true), _spread(total[1], true)

    def _slopes(self) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of both expectations by ``ln μ`` of each cell of the support."""
        x, first = self.others, exprel_slopes(self.others)[0]
        found = []
        for risk, slope in ((np.exp(-x), -x * np.exp(-x)), (exprel(x), x * first)):
            own = np.zeros(self.shares.size)
            np.add.at(own, self.number, self.own * (risk + slope))
            drawn = np.zeros(self.shares.size)
            np.add.at(drawn, self.number, self.own * risk)
            drawn = np.divide(drawn, self.mixed, out=np.zeros_like(drawn), where=self.mixed > 0)
            back = self.law.apply(drawn.reshape(self.law.shape), range(len(self.law.shape)), adjoint=True)
            slopes = own - self.shares * back.ravel()
            found.append(slopes[ravel(tuple(self.fit.cells.T), self.law.shape)])
        return found[0], found[1]


def draws_of(uniques: int) -> int:
    """Return how many releases are drawn of a file with so many released uniques."""
    return max(min(DRAWS, MAX_DRAWN // max(uniques, 1)), 50)


def _influence(true: TrueMargins, margin: tuple[int, ...], gammas: Sequence[FloatArray]) -> list[FloatArray]:
    """Return what a record of each released cell adds to ``Σ γ·margin``, for each γ (records), shape (C,)."""
    variables = true.closure(margin)
    shape = tuple(true.released.shape[j] for j in variables)
    shares, size = true.of(variables), math.prod(shape)
    inside = [true.released.codes[:, j] for j in variables]
    wide = [_expand(gamma, margin, variables, shape) for gamma in gammas]
    if not true.law.moves(variables):
        return [w[tuple(inside)] for w in wide]
    if size > MAX_MARGIN:
        return [np.zeros(true.released.counts.size) for _ in wide]
    centre, strength = true.prior(variables)
    M = true.law.apply(np.eye(size).reshape(*shape, size), variables).reshape(size, size).T
    q, p = shares.ravel() @ M, np.maximum(shares.ravel(), 1e-12)
    ratio = np.divide(true.counted(variables).ravel(), q**2, out=np.zeros(size), where=q > 0)
    information = true.records * (M * ratio) @ M.T
    # At the maximum the slack is strength·centre/p; a share at the boundary has more, and stays there.
    gain = M @ np.divide(true.counted(variables).ravel(), q, out=np.zeros(size), where=q > 0)
    slack = np.maximum(true.records * (1 - gain) + strength, strength * centre.ravel() / p)
    information[np.diag_indices(size)] += slack / p
    free = np.sqrt(p)
    scaled = information * free[:, None] * free[None, :]
    scaled[np.diag_indices(size)] += 1e-9 * scaled.diagonal().max()
    right = np.stack([*(w.ravel() * free for w in wide), free], axis=1)
    solved = scipy.linalg.solve(scaled, right, assume_a="pos") * free[:, None]
    level = solved[:, -1]
    found = []
    for k, w in enumerate(wide):
        v = solved[:, k] - level * (float(level @ w.ravel()) / max(float(level.sum()), 1e-300))
        forward = np.divide(v @ M, q, out=np.zeros(size), where=q > 0).reshape(shape)
        found.append(true.records * forward[tuple(inside)])
    return found


def _expand(
    gamma: FloatArray, margin: tuple[int, ...], variables: tuple[int, ...], shape: tuple[int, ...]
) -> FloatArray:
    """Return a function of the margin as one of a larger margin."""
    kept = [size if j in margin else 1 for j, size in zip(variables, shape, strict=True)]
    return np.broadcast_to(gamma.reshape(kept), shape)


def _spread(score: FloatArray, true: TrueMargins) -> float:
    """Return the standard deviation of the sum over records of ``score`` (C,)."""
    counts = true.released.counts
    mean = float(score @ counts) / true.records
    return math.sqrt(max(float((score - mean) ** 2 @ counts), 0.0))
