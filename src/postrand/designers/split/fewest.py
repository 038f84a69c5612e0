"""The fewest subsets of a split release at which tables have a stated precision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.designers.split.candidates import Candidates
from postrand.designers.split.inverse import Rounded, exactly, wanted_of, widths_of
from postrand.designers.split.margins import TablePrior
from postrand.designers.split.optimal import Optimum, best_worst, optimal, value_of
from postrand.designers.split.rows import most
from postrand.designers.split.splitting import MAX_CELLS
from postrand.designers.split.subsets import Columns
from postrand.designers.split.workload import Names
from postrand.errors import DesignError, sentence
from postrand.mechanism.matrix import check_epsilon

Floats = NDArray[np.float64]

_MOST = 1 << 20  # entries of the programme; with more, only the search by leaving out is used
_NODES = 2_000
_SLACK = 1e-6  # the programme asks for a little less, so that its tolerances cannot make the proof wrong


@dataclass(frozen=True, slots=True, eq=False)
class FewestSubsets:
    """Hold subsets with weights (sum 2^53) that meet every half-width, checked with the rounded integers.

    ``at_least``: no smaller number of subsets does, by a proven bound; where it is ``count``, there are no fewer.
    ``widths``: the half-width of each cell of each table.
    """

    epsilon: float
    subsets: tuple[tuple[Names, int], ...]
    at_least: int
    widths: Mapping[Names, Floats]

    @property
    def count(self) -> int:
        """The number of subsets."""
        return len(self.subsets)

    def __repr__(self) -> str:
        return f"FewestSubsets({self.count}, at least {self.at_least}, ε = {self.epsilon:.4g})"


def fewest_subsets(
    codebook: Codebook,
    half_widths: Mapping[Any, Any],
    n: int,
    epsilon: float,
    variables: Sequence[str] | None = None,
    core: Sequence[str] = (),
    max_cells: int = MAX_CELLS,
    prior: TablePrior | Mapping[Any, Any] | None = None,
    level: float = 0.95,
) -> FewestSubsets:
    """Return the fewest subsets at which tables have their half-widths, for a file of n records released at ε.

    Fewer subsets are easier to explain, and each has more records. An integer programme finds the fewest where the
    subsets are few; otherwise subsets are left out of the most precise design one after the other, and ``at_least``
    says what is proven. Other arguments are those of :func:`postrand.designers.least_epsilon`.

    Raises
    ------
    DesignError
        If a table or half-width is not valid, or no split release at ε reaches the half-widths.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in ("sex", "own", "work", "north")))
    >>> tables = {("sex", "own"): 0.03, ("own", "work"): 0.03, ("work", "north"): 0.03}
    >>> found = fewest_subsets(book, tables, n=10_000, epsilon=2.5)
    >>> found.count, found.at_least, [names for names, _ in found.subsets]
    (1, 1, [('sex', 'own', 'work', 'north')])
    """
    check_epsilon(epsilon, int(max_cells))
    problem, asked = wanted_of(codebook, half_widths, n, variables, core, max_cells, prior, level)
    best = optimal(problem.pool(epsilon), problem.weights, worst=True)
    met = exactly(problem, epsilon, best)
    if met.value > 1:
        what = f"no split release at ε = {epsilon:g} reaches the half-widths"
        proven = f"the widest is {math.sqrt(met.value):.4g} times too wide"
        raise DesignError(sentence(what, got=proven, fix="raise epsilon (least_epsilon finds it), or ask for less"))
    met = _left_out(problem, epsilon, best, met)
    at_least = 1
    if len(met.subsets) > 1 and problem.listed:
        met, at_least = _programmed(problem, epsilon, met)
    return FewestSubsets(epsilon, met.subsets, at_least, widths_of(problem, asked, met.total))


def _left_out(problem: Candidates, epsilon: float, best: Optimum, met: Rounded) -> Rounded:
    """Return the design after leaving out subsets, the least likely first, as long as the rest suffices."""
    columns, pi = best.columns, best.probabilities
    place = 0
    while place < len(pi) > 1:
        order = np.argsort(pi, kind="stable")
        kept = np.sort(np.delete(order, place))
        trial = _best_of(columns.take(kept), problem.weights)
        found = None if trial is None else exactly(problem, epsilon, trial)
        if trial is None or found is None or found.value > 1:
            place += 1
            continue
        columns, pi, met, place = trial.columns, trial.probabilities, found, 0
    return met


def _best_of(columns: Columns, weights: Floats) -> Optimum | None:
    """Return the best probabilities of these subsets for the worst cell; None if they do not cover every table."""
    if not most(columns.rows).all():
        return None
    pi = best_worst(columns.rows, weights)
    used = np.flatnonzero(pi > 0)
    return Optimum(columns.take(used), pi[used], value_of(columns.rows[used], pi[used], weights, True), 0.0, weights)


def _programmed(problem: Candidates, epsilon: float, met: Rounded) -> tuple[Rounded, int]:
    """Return the fewest subsets by an integer programme, and the proven least number.

    ``π_T <= z_T``, z 0 or 1, ``Σ_T π_T I_T >= w``; a subset of which another says as much about everything is left out.
    """
    columns = _undominated(problem, epsilon)
    rows = columns.rows.toarray() / problem.weights
    m, q = rows.shape
    if m * q > _MOST:
        return met, 1
    limits = [
        scipy.optimize.LinearConstraint(np.hstack([rows.T, np.zeros((q, m))]), 1 - _SLACK, np.inf),
        scipy.optimize.LinearConstraint(np.hstack([np.eye(m), -np.eye(m)]), -np.inf, 0),
        scipy.optimize.LinearConstraint(np.append(np.ones(m), np.zeros(m))[None, :], 1, 1),
        scipy.optimize.LinearConstraint(np.hstack([np.zeros((q, m)), (rows.T > 0).astype(float)]), 1, np.inf),
    ]
    found = scipy.optimize.milp(
        np.append(np.zeros(m), np.ones(m)),
        integrality=np.append(np.zeros(m), np.ones(m)),
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=limits,
        options={"node_limit": _NODES},
    )
    if found.mip_dual_bound is None or not math.isfinite(found.mip_dual_bound):
        return met, 1
    at_least = max(1, math.ceil(found.mip_dual_bound - 1e-6))
    if found.x is None:
        return met, min(at_least, len(met.subsets))
    used = np.flatnonzero(found.x[m:] > 0.5)
    trial = _best_of(columns.take(used), problem.weights)
    made = met if trial is None else exactly(problem, epsilon, trial)
    if made.value <= 1 and len(made.subsets) < len(met.subsets):
        met = made
    return met, min(at_least, len(met.subsets))


def _undominated(problem: Candidates, epsilon: float) -> Columns:
    """Return the subsets without those of which another says at least as much about every question."""
    columns = problem.subsets.at(epsilon)
    if not problem.codebook.rules:  # then a variable that no table within a subset needs only adds cells
        needed = np.zeros_like(columns.members)
        needed[:, np.array(problem.request.core_places, dtype=np.intp)] = True
        for question in problem.subsets.questions:
            covers = problem.subsets.covering(question)
            needed[np.ix_(covers, np.array(question.members, dtype=np.intp))] = True
        columns = columns.take(np.flatnonzero((needed == columns.members).all(axis=1)))
    rows = columns.rows.toarray()
    order = np.lexsort((columns.cells, -rows.sum(axis=1)))
    kept: list[int] = []
    for place in order.tolist():
        if rows[place].any() and not (rows[kept] >= rows[place]).all(axis=1).any():
            kept.append(place)
    return columns.take(np.sort(np.array(kept, dtype=np.intp)))
