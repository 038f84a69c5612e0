"""EM for a regression whose covariates or response are known only through a transition matrix.

Each record has a clear part (a *case*: clear covariates and clear response) and a released latent cell r; its true
latent cell u holds every perturbed variable. The observed likelihood is ``Σ_u q_g(x_u) f(y | x_u, v; θ) M[u, r]``:
q is the unrestricted law of the true covariates within a group g of clear ones. Records that agree are one *pattern*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.families import Family

Index = NDArray[np.intp]
FREE = 1e-8
"""A covariate cell whose estimated probability is below this counts as lying on the boundary."""
MAX_PREDICTOR = 25.0
CYCLES_BETWEEN_CHECKS = 5
COLLAPSED = -14.0
"""The log of a residual deviation, as a share of the response's, below which the likelihood counts as unbounded."""
FURTHEST = 1e4
"""An extrapolation goes no further than this many steps."""
LONGEST = 2.0
"""One step changes the log of the residual deviation by no more than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Hold the patterns of the records and the design over unperturbed rows and latent cells.

    ``design`` (V, K, p); ``case_row`` (C,) a case's clear row; ``response`` broadcasts to (C, K): (C, 1) where it
    is clear, (1, K) where it is latent; ``pattern_case``, ``pattern_cell``, ``weights``, ``squares`` (J,);
    ``row_group`` (V,);
    ``covariate_cell`` (K,) the cell x of the covariates; ``law`` (K, R) is M, rows true; ``looks`` (R,) the true cell
    that a released one looks like; ``record_pattern`` (n,) the pattern of each record.
    """

    family: Family
    design: Array
    case_row: Index
    response: Array
    pattern_case: Index
    pattern_cell: Index
    weights: Array
    squares: Array
    row_group: Index
    covariate_cell: Index
    law: Array
    looks: Index
    weighted: bool
    record_pattern: Index

    @property
    def shape(self) -> tuple[int, int]:
        """Cases and latent cells (C, K)."""
        return len(self.case_row), self.design.shape[1]

    @property
    def case_group(self) -> Index:
        """The group of each case."""
        return self.row_group[self.case_row]

    @property
    def parameters(self) -> int:
        """The number P of regression parameters."""
        return int(self.family.predictors * self.design.shape[2] + len(self.family.extras))

    def by_case(self, values: Array) -> Array:
        """Sum rows of patterns, shape (J, ...), over the patterns of each case."""
        return _summed(self.pattern_case, self.shape[0], values)


class State(NamedTuple):
    """Regression parameters θ (P,): predictor by predictor, then extras; covariate distribution q (G, X)."""

    theta: Array
    law: Array


class Solution(NamedTuple):
    """The maximum: parameters, their covariance (P, P), the log-likelihood, and how it was reached.

    ``law`` (G, X) is that of the covariates; ``influence`` (J, P) of one record of weight 1 of each pattern on θ.
    """

    theta: Array
    covariance: Array
    likelihood: float
    steps: int
    decrement: float
    law: Array
    influence: Array


def solve(problem: Problem, tolerance: float, max_steps: int) -> Solution:
    """Maximise the observed likelihood by EM, accelerated; stop at a Newton decrement below ``tolerance``.

    The decrement ``SᵀI^-1 S`` (efficient score and information) is the squared distance to the maximum, in standard
    errors.

    Raises
    ------
    EstimationError
        If the response separates, the information is singular, or ``max_steps`` EM steps do not suffice.
    """
    state = _start(problem)
    decrement = np.inf
    for before in range(0, max_steps, 3 * CYCLES_BETWEEN_CHECKS):
        for _ in range(CYCLES_BETWEEN_CHECKS):
            state, likelihood = _cycle(problem, state)
            _check_running(problem, state)
        at = efficient(problem, state)
        inverse = _invert(at.information)
        move = inverse @ at.score
        decrement = float(at.score @ move) + at.nuisance
        if decrement <= tolerance:
            covariance = inverse @ at.meat @ inverse if problem.weighted else inverse
            influence = at.scores @ inverse
            steps = before + 3 * CYCLES_BETWEEN_CHECKS
            return Solution(state.theta, covariance, likelihood, steps, decrement, state.law, influence)
        ahead = State(_near(problem, state.theta + move, state.theta), _moved(state.law, at.profiles, move))
        if decrement < 1.0 and expectation(problem, ahead)[1] > likelihood:
            state = ahead
    raise EstimationError(
        sentence(
            "the regression did not converge",
            got=f"{max_steps} EM steps, squared distance to the maximum {decrement:.2g} standard errors",
            wanted=f"<= {tolerance:g}",
            fix="raise max_steps, or use fewer covariates: the perturbation may leave too little information",
        )
    )


def expectation(problem: Problem, state: State) -> tuple[Array, float]:
    """Return ``P(true cell | record)`` of each pattern, shape (J, K), and the log-likelihood."""
    density = problem.family.log_density(problem.response, *_split(problem, state.theta))
    density = np.broadcast_to(density, problem.shape)
    top = density.max(axis=1)
    prior = state.law[:, problem.covariate_cell]
    joint = (np.exp(density - top[:, None]) * prior[problem.case_group])[problem.pattern_case]
    joint = joint * problem.law.T[problem.pattern_cell]
    total = joint.sum(axis=1)
    if not (total > 0).all():
        return joint, -np.inf
    likelihood = float(problem.weights @ (np.log(total) + top[problem.pattern_case]))
    return joint / total[:, None], likelihood


class Profile(NamedTuple):
    """One group's covariate law profiled out: its free softmax coordinates, their Newton step at θ fixed, and slope."""

    group: int
    free: Index
    shift: Array
    slope: Array


class Efficient(NamedTuple):
    """Efficient score (P,), observed information and the score's second moment (P, P); the decrement of the rest.

    ``scores`` (J, P) are the efficient scores of one record of each pattern.
    """

    score: Array
    information: Array
    meat: Array
    nuisance: float
    profiles: list[Profile]
    scores: Array


def efficient(problem: Problem, state: State) -> Efficient:
    """Return the efficient score and observed information of θ.

    Louis' identity: observed information = complete information − variance of the complete score given the record. The
    covariate law is profiled out group by group (its cells at the boundary held), so no matrix is larger than X.
    """
    posterior, _ = expectation(problem, state)
    weighted = problem.by_case(problem.weights[:, None] * posterior)
    scores, information = _complete(problem, state.theta, weighted)
    mean = np.zeros((len(problem.weights), problem.parameters))
    second = np.zeros_like(information)
    cells = state.law.shape[1]
    cross = np.zeros((state.law.shape[0], cells, problem.parameters))
    for cell, score in enumerate(scores):
        mean += posterior[:, cell, None] * score[problem.pattern_case]
        held = weighted[:, cell, None] * score
        second += score.T @ held
        cross[:, problem.covariate_cell[cell]] += _summed(problem.case_group, len(cross), held)
    information = information - second + mean.T @ (problem.weights[:, None] * mean)
    where = _summed(problem.covariate_cell, cells, posterior.T).T
    pattern_group = problem.case_group[problem.pattern_case]
    nuisance_decrement, profiles = 0.0, []
    for group, law in enumerate(state.law):
        free = np.flatnonzero(law > FREE)[1:]
        mine = np.flatnonzero(pattern_group == group)
        if not free.size or not mine.size:
            continue
        part, w = where[np.ix_(mine, free)], problem.weights[mine]
        gamma = part - law[free]
        # Complete information and posterior variance of the free cells' softmax coordinates.
        nuisance = w.sum() * (np.diag(law[free]) - np.outer(law[free], law[free])) - np.diag(w @ part)
        nuisance += part.T @ (w[:, None] * part)
        mixed = part.T @ (w[:, None] * mean[mine]) - cross[group][free]
        pull = w @ gamma
        solved = np.linalg.lstsq(nuisance, np.column_stack([mixed, pull]), rcond=1e-12)[0]
        slope, shift = solved[:, :-1], solved[:, -1]
        information = information - mixed.T @ slope
        mean[mine] -= gamma @ slope
        nuisance_decrement += abs(float(pull @ shift))
        profiles.append(Profile(group, free, shift, slope))
    meat = mean.T @ (problem.squares[:, None] * mean)
    return Efficient(problem.weights @ mean, information, meat, nuisance_decrement, profiles, mean)


def _moved(law: Array, profiles: list[Profile], move: Array) -> Array:
    """Return the covariate distribution after the Newton step that goes with a step of θ."""
    moved = law.copy()
    for group, free, shift, slope in profiles:
        moved[group, free] *= np.exp(np.clip(shift - slope @ move, -5.0, 5.0))
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def naive(problem: Problem) -> Array:
    """Fit the regression that takes released cells for true ones; shape (P,)."""
    weighted = _released(problem)
    theta = np.zeros(problem.parameters)
    if problem.family.extras:
        y = np.broadcast_to(problem.response, problem.shape)
        centre = float((weighted * y).sum() / weighted.sum())
        spread = float((weighted * (y - centre) ** 2).sum() / weighted.sum())
        theta[-1] = 0.5 * np.log(max(spread, np.finfo(float).tiny))
    for _ in range(25):
        move = _ascent(problem, theta, weighted)
        theta = theta + move
        _check_running(problem, State(theta, np.ones((1, 1))))
        if np.abs(move).max() < 1e-6:
            break
    return theta


def _released(problem: Problem) -> Array:
    """Return the weight of each case and released cell, shape (C, K)."""
    where = (problem.pattern_case, problem.looks[problem.pattern_cell])
    return np.asarray(scipy.sparse.csr_array((problem.weights, where), shape=problem.shape).toarray())


def _start(problem: Problem) -> State:
    """Start from the naive regression and the released covariates."""
    weighted = _released(problem)
    groups, cells = int(problem.row_group.max()) + 1, int(problem.covariate_cell.max()) + 1
    law = _covariate_sums(problem, weighted, groups, cells)
    law = law / np.maximum(law.sum(axis=1, keepdims=True), 1e-300) + 0.1 / cells
    return State(naive(problem), law / law.sum(axis=1, keepdims=True))


def _covariate_sums(problem: Problem, weighted: Array, groups: int, cells: int) -> Array:
    """Sum weights of cases and latent cells, shape (C, K), into groups and covariate cells."""
    by_group = _summed(problem.case_group, groups, weighted)
    return _summed(problem.covariate_cell, cells, by_group.T).T


def _step(problem: Problem, state: State) -> tuple[State, float]:
    """Make one EM step (one scoring step for θ); return it with the log-likelihood of where it started."""
    posterior, likelihood = expectation(problem, state)
    weighted = problem.by_case(problem.weights[:, None] * posterior)
    law = _covariate_sums(problem, weighted, *state.law.shape)
    law = law / np.maximum(law.sum(axis=1, keepdims=True), 1e-300)
    return State(state.theta + _ascent(problem, state.theta, weighted), law), likelihood


def _cycle(problem: Problem, zero: State) -> tuple[State, float]:
    """Make one SQUAREM cycle on (θ, ln q); fall back to the plain EM steps where it does not raise the likelihood."""
    one, likelihood = _step(problem, zero)
    two, reached = _step(problem, one)
    if reached < likelihood - 1e-9 * abs(likelihood):  # a scoring step that went too far
        halved = State((zero.theta + one.theta) / 2, one.law)
        return halved, expectation(problem, halved)[1]
    flat = [np.concatenate([s.theta, np.log(np.maximum(s.law, 1e-14)).ravel()]) for s in (zero, one, two)]
    r, v = flat[1] - flat[0], flat[2] - 2 * flat[1] + flat[0]
    scale = np.concatenate([np.ones(zero.theta.size), np.sqrt(one.law).ravel()])
    curvature = float(np.linalg.norm(scale * v))
    step = min(float(np.linalg.norm(scale * r)) / curvature, FURTHEST) if curvature > 0 else 1.0
    if step > 1:
        far = flat[0] + 2 * step * r + step * step * v
        law = np.exp(np.clip(far[zero.theta.size :], -32.0, 0.0)).reshape(zero.law.shape)
        ahead = State(_near(problem, far[: zero.theta.size], two.theta), law / law.sum(axis=1, keepdims=True))
        after, gained = _step(problem, ahead)
        if gained >= reached:
            return after, gained
    return two, reached


def _ascent(problem: Problem, theta: Array, weighted: Array) -> Array:
    """Return the scoring step for θ given the expected weight of every case and latent cell."""
    scores, information = _complete(problem, theta, weighted)
    gradient = np.zeros(problem.parameters)
    for cell, score in enumerate(scores):
        gradient += weighted[:, cell] @ score
    return _near(problem, theta + _invert(information) @ gradient, theta) - theta


def _near(problem: Problem, theta: Array, origin: Array) -> Array:
    """Return θ with its extra parameters, logs of a scale, no further than ``LONGEST`` from the origin."""
    at = problem.parameters - len(problem.family.extras)
    near = theta.copy()
    near[at:] = np.clip(theta[at:], origin[at:] - LONGEST, origin[at:] + LONGEST)
    return near


def _complete(problem: Problem, theta: Array, weighted: Array) -> tuple[list[Array], Array]:
    """Return the complete-data scores, one (C, P) array for each latent cell, and the expected information (P, P)."""
    eta, extra = _split(problem, theta)
    score, weight = problem.family.derivatives(problem.response, eta, extra)
    m, p = problem.family.predictors, problem.design.shape[2]
    information = np.zeros((problem.parameters, problem.parameters))
    scores = []
    for cell in range(problem.shape[1]):
        row = problem.design[problem.case_row, cell]
        local = np.broadcast_to(score, (*problem.shape, score.shape[-1]))[:, cell]
        curve = np.broadcast_to(weight, (*problem.shape, *weight.shape[-2:]))[:, cell] * weighted[:, cell, None, None]
        parts = [row] * m + [np.ones((len(row), 1))] * len(problem.family.extras)
        scores.append(np.concatenate([part * local[:, i, None] for i, part in enumerate(parts)], axis=1))
        starts = [*range(0, m * p, p), *range(m * p, problem.parameters)]
        for i, left in enumerate(parts):
            for j, right in enumerate(parts):
                block = left.T @ (curve[:, i, j, None] * right)
                information[starts[i] : starts[i] + left.shape[1], starts[j] : starts[j] + right.shape[1]] += block
    return scores, information


def _split(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """Return the linear predictors, shape (C, K, m), and the extra parameters."""
    m, p = problem.family.predictors, problem.design.shape[2]
    eta = problem.design @ theta[: m * p].reshape(m, p).T
    return eta[problem.case_row], theta[m * p :]


def _check_running(problem: Problem, state: State) -> None:
    """Raise EstimationError where the likelihood has no maximum: coefficients, or the log of a scale, run off."""
    if problem.family.extras:
        if not state.theta[-1] > np.log(problem.response.std()) + COLLAPSED:
            raise EstimationError(
                sentence(
                    "the likelihood is unbounded: the residual deviation converges to zero",
                    fix="use the method 'equations': a response with few values is not normally distributed",
                )
            )
        return
    eta, _ = _split(problem, state.theta)
    if not np.abs(eta).max() <= MAX_PREDICTOR:
        raise EstimationError(
            sentence(
                "the response is separated: covariates predict it perfectly, and coefficients diverge",
                got=f"a linear predictor beyond {MAX_PREDICTOR:g}",
                fix="drop or merge the categories of the covariate with the largest coefficient",
            )
        )


def _invert(information: Array) -> Array:
    symmetric = (information + information.T) / 2
    scale = np.sqrt(np.maximum(np.diag(symmetric), 1e-300))
    try:
        factor = scipy.linalg.cho_factor(symmetric / np.outer(scale, scale))
        inverse = scipy.linalg.cho_solve(factor, np.eye(len(scale)))
    except scipy.linalg.LinAlgError:
        inverse = np.full_like(symmetric, np.inf)
    if not np.abs(inverse).max() < 1e10:
        raise EstimationError(
            sentence(
                "the regression is not identified: the information matrix is singular",
                fix="drop collinear or separated terms, or merge categories that hardly occur",
            )
        )
    return np.asarray(inverse / np.outer(scale, scale))


def _summed(index: Index, size: int, values: Array) -> Array:
    """Sum rows of ``values`` by index: shape (size, ...)."""
    pick = scipy.sparse.csr_array((np.ones(len(index)), (index, np.arange(len(index)))), shape=(size, len(index)))
    return np.asarray(pick @ values)
