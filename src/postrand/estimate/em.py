"""Maximum likelihood on the simplex by the EM algorithm, accelerated, with a certified stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import (
    Array,
    Axis,
    Layout,
    Operator,
    apply,
    apply_maps,
    apply_pairs,
    apply_squares,
    kronecker,
)
from postrand.estimate.intervals import Binomial
from postrand.estimate.profile import profile_ends
from postrand.estimate.result import Estimate, Part
from postrand.estimate.split_members import require_alike
from postrand.estimate.survey_design import design_of
from postrand.estimate.tally import Tally, tally
from postrand.estimate.unbiased import LinearLaw, linear_law, margin_law, result
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_classes import moves

MAX_INFORMATION = 1500
"""Tables of more cells take their standard errors from the unbiased estimator instead of the information matrix."""

MAX_PROFILE = 1e8
"""The largest (cells shown) × (cells)³ of a table whose likelihood is profiled: 100 cells, some seconds."""

MAX_NEWTON = 2500
MAX_NEWTON_STEPS = 200
PATIENCE = 300
"""After this many EM steps a table of at most MAX_NEWTON cells is finished by an interior-point Newton method."""

FLOOR = 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Hold the maximiser over the cells of all axes; ``gap`` bounds from above what the likelihood can still gain."""

    proportions: Array
    steps: int
    gap: float


def maximum_likelihood(
    frame: Any,
    variables: Sequence[str],
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    *,
    tolerance: float = 1e-4,
    max_steps: int = 20_000,
) -> Estimate:
    """Estimate the true joint distribution by maximum likelihood; it never leaves the simplex.

    Maximises ``Σ_z n_z ln (Mᵀπ)_z`` over distributions π (with weights: the pseudo-likelihood). Inside the simplex this
    is the unbiased estimate. It stops when the log-likelihood is surely within ``tolerance`` nats of its
    maximum: 1e-4 puts every estimate within 0.015 standard errors. The covariance is the inverse observed information
    of the cells off the boundary (sandwich form with weights or strata); a cell at the boundary has none. Intervals
    are those of the profile likelihood, within [0, 1]; of large tables those of the unbiased estimator, cut. Warns
    where the codebook records a survey design, which it does not use.

    Raises
    ------
    DataError
        If the data do not fit the mechanism.
    EstimationError
        If M is singular, or ``max_steps`` EM steps do not reach the tolerance.

    References
    ----------
    Dempster, Laird & Rubin (1977); Varadhan & Roland (2008), scheme S3.
    """
    require_alike(mechanism, [*variables], "the likelihood")
    design_of(None, weights, strata, "likelihood", mechanism)
    counted = tally(frame, variables, mechanism, weights, strata, combine=False)
    return from_tally_ml(counted, tolerance=tolerance, max_steps=max_steps)


def from_tally_ml(counted: Tally, *, tolerance: float = 1e-4, max_steps: int = 20_000) -> Estimate:
    """Return the maximum likelihood estimate from counted records."""
    if not tolerance > 0:
        raise UsageError(
            sentence("the tolerance is not a positive number", got=tolerance, wanted="nats, for example 1e-4")
        )
    layout, released = counted.layout, counted.released
    check_untangled(layout.axes)
    linear = linear_law(counted)
    matrices = tuple(None if axis.matrix is None else axis.matrix.array for axis in layout.axes)
    inverses = [None if axis.matrix is None else axis.matrix.factor().solve_transposed for axis in layout.axes]
    start = apply_maps(inverses, released) / counted.total
    fit = em(released, matrices, start, tolerance, max_steps)
    project = [axis.projection for axis in layout.axes]
    law = LikelihoodLaw(linear, fit, matrices)
    value = layout.arrange(apply(project, fit.proportions))
    method = f"maximum likelihood ({fit.steps} steps, log-likelihood within {fit.gap:.1g} of its maximum)"
    return result(counted, value, law, method)


def check_untangled(axes: Sequence[Axis]) -> None:
    """Raise EstimationError where a block reads what another block of the same analysis perturbs.

    The true value is then on one axis and the released one on the other; a likelihood over their product would take
    them for two variables. The unbiased estimator is right all the same.
    """
    where: dict[str, list[Axis]] = {}
    for axis in axes:
        for name in axis.names:
            where.setdefault(name, []).append(axis)
    tangled = [n for n, held in where.items() if len(held) > 1 and any(changes(axis, n) for axis in held)]
    if tangled:
        raise EstimationError(
            sentence(
                "a block reads a variable that another block perturbs, and there is no likelihood for both together",
                got=", ".join(tangled),
                fix="use the unbiased table, or omit one of the variables",
            )
        )


def changes(axis: Axis, name: str) -> bool:
    """Return whether the matrix of the axis changes the variable: it moves mass between cells that differ in it."""
    if axis.matrix is None:
        return False
    codes = axis.cells[:, axis.names.index(name)]
    if not isinstance(axis.matrix, TransitionMatrix):  # the axis of a split shares no variable
        return True
    i, j = moves(axis.matrix)
    return bool((codes[i] != codes[j]).any())


def em(
    released: Array, matrices: Sequence[Operator], start: Array, tolerance: float = 1e-4, max_steps: int = 20_000
) -> Fit:
    """Maximise ``Σ_z n_z ln (Mᵀπ)_z`` over the simplex by EM with SQUAREM acceleration on ``ln π``.

    The stop is certified: the log-likelihood is concave, so ``n (max_i [M (λ^/Mᵀπ)]_i − 1)`` bounds all it can gain.
    ``matrices`` holds one M (rows true, columns released) or None for each axis of ``released``.

    Raises
    ------
    EstimationError
        If ``max_steps`` steps do not reach ``tolerance`` nats.
    """
    total = released.sum()
    observed = released / total
    forward = [None if m is None else m.T for m in matrices]

    def gradient(p: Array) -> tuple[Array, float]:
        expected = apply(forward, p)
        ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=observed > 0)
        likelihood = float(observed[observed > 0] @ np.log(expected[observed > 0]))
        return apply(matrices, ratio), likelihood

    p = np.maximum(start, 1e-3 / start.size)
    p /= p.sum()
    if start.min() > 0:
        p = start / start.sum()
    for steps in range(0, max_steps, 3):
        first, likelihood = gradient(p)
        gap = total * max(float(first.max()) - 1.0, 0.0)
        if gap <= tolerance:
            return Fit(p, steps, gap)
        one = p * first
        two = one * gradient(one)[0]
        if steps >= PATIENCE and p.size <= MAX_NEWTON:
            return _newton(observed, matrices, two, gradient, total, tolerance, steps)
        p = _extrapolate(p, one, two, likelihood, gradient)
    raise _not_converged(max_steps, gap, tolerance)


def _not_converged(steps: int, gap: float, tolerance: float) -> EstimationError:
    return EstimationError(
        sentence(
            "the EM algorithm did not converge",
            got=f"{steps} steps, {gap:.3g} nats at most below the maximum",
            wanted=f"<= {tolerance:g}",
            fix="raise max_steps or tolerance, or use the unbiased estimate",
        )
    )


def _newton(
    observed: Array,
    matrices: Sequence[Operator],
    p: Array,
    gradient: Callable[[Array], tuple[Array, float]],
    total: float,
    tolerance: float,
    steps: int,
) -> Fit:
    """Finish ``min Σπ − Σ λ^ ln (Mᵀπ)`` over π >= 0, whose minimiser sums to one, by a primal-dual interior point.

    With slacks s, ``1 − M(λ^/Mᵀπ) = s``, ``π s = μ`` and μ falling to 0; the certificate is that of EM.
    """
    forward = [None if m is None else m.T for m in matrices]
    p = np.maximum(p, 1e-9 / p.size)
    slack = np.full(p.size, 1.0 / p.size)
    for step in range(1, MAX_NEWTON_STEPS):
        expected = apply(forward, p)
        ratio = np.divide(1.0, expected, out=np.zeros_like(expected), where=observed > 0)
        hessian = apply_pairs(matrices, observed * ratio**2)
        flat = p.ravel()
        target = 0.1 * float(flat @ slack) / flat.size
        downhill = gradient(p)[0].ravel() - 1.0 + target / flat
        hessian[np.diag_indices(flat.size)] += slack / flat
        move = scipy.linalg.solve(hessian, downhill, assume_a="pos", check_finite=False)
        turn = (target - slack * move) / flat - slack
        flat = flat + _inside(flat, move) * move
        slack = slack + _inside(slack, turn) * turn
        p = flat.reshape(p.shape)
        unit = p / p.sum()
        gap = total * max(float(gradient(unit)[0].max()) - 1.0, 0.0)
        if gap <= tolerance:
            return Fit(unit, steps + step, gap)
    raise _not_converged(steps + step, gap, tolerance)


def _inside(value: Array, move: Array) -> float:
    """Return the largest step up to 1 that keeps 5% of every positive value."""
    falling = move < 0
    return min(1.0, 0.95 * float((value[falling] / -move[falling]).min(initial=np.inf)))


def _extrapolate(
    zero: Array, one: Array, two: Array, likelihood: float, gradient: Callable[[Array], tuple[Array, float]]
) -> Array:
    """Return the SQUAREM point along ``ln π``, or the second EM step where that does not raise the likelihood."""
    logs = [np.log(np.maximum(p, FLOOR)) for p in (zero, one, two)]
    r = logs[1] - logs[0]
    v = logs[2] - logs[1] - r
    # The norm weighs cells by their mass: what happens to nearly empty cells must not set the step.
    curvature = float((one * v * v).sum())
    if curvature == 0:
        return two
    step = max(1.0, math.sqrt(float((one * r * r).sum()) / curvature))
    while step > 1:
        with np.errstate(over="ignore"):
            far = np.exp(np.clip(logs[0] + 2 * step * r + step * step * v, math.log(FLOOR), 0.0))
        far /= far.sum()
        direction, reached = gradient(far)
        if reached >= likelihood:
            stabilised: Array = far * direction
            return stabilised
        step = (step + 1) / 2 if step > 1.5 else 1.0
    return two


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodLaw:
    """The sampling law of the maximum likelihood estimate: observed information off the boundary.

    With ``H = M diag(n/λ²) Mᵀ`` on the free cells and P its inverse on the plane Σπ = 1, the covariance is ``P J P``, J
    the sum of squared scores; without weights J = H and this is P.
    """

    linear: LinearLaw
    fit: Fit
    matrices: tuple[Operator, ...]

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance; beyond 1500 cells of the axes that of the unbiased estimator."""
        if self.fit.proportions.size > MAX_INFORMATION:
            return self.linear.covariance(part)
        total = self._total()
        if part == "total":
            return total
        sampling = self._sampling()
        return sampling if part == "sampling" else total - sampling

    def variance(self, part: Part) -> Array:
        """Return the diagonal of the covariance."""
        if self.fit.proportions.size > MAX_INFORMATION:
            return self.linear.variance(part)
        return np.diag(self.covariance(part)).copy()

    def margin(self, keep: Sequence[int]) -> LikelihoodLaw:
        """Return the law of a margin of the same fit."""
        names = [self.linear.layout.variables[i] for i in keep]
        return LikelihoodLaw(margin_law(self.linear, names), self.fit, self.matrices)

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of the profile likelihood interval of each cell, within [0, 1].

        It holds the values that lose no more of the log-likelihood than the ends of the unbiased estimate's interval
        would if π were free to leave the simplex: inside the simplex the two intervals are one. Where the profile
        would cost too much (``cells shown × cells³ > 1e8``), or an end is not found, it is the unbiased estimate's, cut
        to [0, 1] and widened to hold the value.
        """
        layout, linear = self.linear.layout, self.linear
        law = linear.binomial()
        ends = law.bounds(level)
        possible = law.step.ravel() > 0
        if possible.size * float(self.fit.proportions.size) ** 3 > MAX_PROFILE:
            low, high = (layout.arrange(end) for end in ends)
        else:
            c, matrix = (kronecker(o, self.fit.proportions.shape) for o in (self._project, self.matrices))
            found = []
            for sign, end in zip((-1.0, 1.0), ends, strict=True):
                drops = self._drop(law, end, level).ravel()[possible]
                reached = np.zeros(possible.size)
                reached[possible] = sign * profile_ends(
                    linear.counted.released.ravel(), matrix, self.fit.proportions.ravel(), sign * c[possible], drops
                )
                reached = np.where(np.isnan(reached), end.ravel(), reached)
                found.append(layout.arrange(reached.reshape(law.step.shape)))
            low, high = found
        return np.minimum(np.clip(low, 0, 1), value), np.maximum(np.clip(high, 0, 1), value)

    def _drop(self, law: Binomial, end: Array, level: float) -> Array:
        """Return what an end of the unbiased estimate's interval loses of the (pseudo-)log-likelihood."""
        counted, mean = self.linear.counted, self.linear.mean
        naive = (apply_squares(self.linear.operators, counted.released) / counted.total - mean**2) / counted.total
        design = np.divide(law.variance, naive, out=counted.total / law.trials, where=naive > 1e-12 * mean**2)
        drops = law.deviance(end)
        usual = float(scipy.special.chdtri(1, 1 - level))
        # An end at the limit of what is possible loses nothing: there the usual limit stands.
        return design * np.where(drops < usual / 4, usual, drops) / 2

    @property
    def _project(self) -> tuple[Operator, ...]:
        return tuple(axis.projection for axis in self.linear.layout.axes)

    def _arranged(self, matrix: Array) -> Array:
        """Sum rows and columns over what the table does not show, in the order that it shows."""
        layout, cells = self.linear.layout, self.fit.proportions.shape
        for _ in range(2):
            rows = [arrange_row(layout, self._project, row.reshape(cells)) for row in matrix]
            matrix = np.array(rows).T
        return matrix

    def _sampling(self) -> Array:
        p, counted = self.fit.proportions.ravel(), self.linear.counted
        share = counted.squares.sum() / counted.total**2 if counted.whole is None else counted.whole.unit
        return self._arranged(share * (np.diag(p) - np.outer(p, p)))

    def _total(self) -> Array:
        counted, p = self.linear.counted, self.fit.proportions
        expected = apply([None if m is None else m.T for m in self.matrices], p)
        seen = counted.released > 0
        ratio = np.divide(1.0, expected, out=np.zeros_like(expected), where=seen)
        information = apply_pairs(self.matrices, counted.released * ratio**2)
        scores = np.zeros_like(information)
        for counts, squares, n in zip(counted.counts, counted.squares, counted.records, strict=True):
            scores += apply_pairs(self.matrices, squares * ratio**2)
            if len(counted.records) > 1:
                centre = apply(self.matrices, counts * ratio).ravel()
                scores -= np.outer(centre, centre) / n
        free = p.ravel() > 1e-6 / p.size
        inverse = np.linalg.pinv(information[np.ix_(free, free)], hermitian=True)
        drawn = inverse.sum(axis=1)
        plane = inverse - np.outer(drawn, drawn) / drawn.sum()
        out = np.zeros_like(information)
        out[np.ix_(free, free)] = plane @ scores[np.ix_(free, free)] @ plane
        return self._arranged(out)


def arrange_row(layout: Layout, project: Sequence[Operator], row: Array) -> Array:
    """Return one row over all cells as a flat row over the cells that the table shows."""
    return layout.arrange(apply(project, row)).ravel()
