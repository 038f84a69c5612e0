"""The matrices inside the subsets: k-ary randomised response, or what a structure offers where the workload gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.rules import feasible_cells
from postrand.designers.problem import Prior
from postrand.designers.solve import design
from postrand.designers.split.candidates import Candidates
from postrand.designers.split.margins import shares
from postrand.designers.split.optimal import Optimum, optimal
from postrand.designers.split.precision import exact_keep, matrix_information
from postrand.designers.split.pricing import DEFAULT_GAP
from postrand.designers.split.rows import Rows, answered, write
from postrand.designers.split.subsets import Bools, Columns, Listed, Subsets
from postrand.designers.suitability import Structure, supports
from postrand.errors import DesignError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.objectives import EstimatorVariance, Objective
from postrand.privacy import DifferentialPrivacy
from postrand.support.warned import heard

Floats = NDArray[np.float64]

MAX_DESIGNED = 512
"""The most cells of a subset for which other structures are tried."""

_TRIED = 100
_ROUNDS = 3
_NEAR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Hold the best probabilities, and the matrices of the subsets that do not use k-ary randomised response."""

    candidates: Candidates
    epsilon: float
    optimum: Optimum
    others: dict[bytes, tuple[TransitionMatrix, str]] = field(default_factory=dict)
    _shared: dict[int, TransitionMatrix] = field(default_factory=dict)

    def matrix(self, place: int) -> tuple[TransitionMatrix, str]:
        """Return the matrix of a subset, one object for each number of cells, and the name of its structure."""
        key, size = self.optimum.columns.members[place].tobytes(), int(self.optimum.columns.cells[place])
        if key in self.others:
            return self.others[key]
        if size not in self._shared:
            self._shared[size] = randomised_response(size, self.epsilon)
        return self._shared[size], "response"

    def exact_rows(self, places: NDArray[np.intp], matrices: Sequence[TransitionMatrix]) -> Rows:
        """Return I of every question (m, Q) from the integers of the matrices, of the subsets at these places."""
        members = self.optimum.columns.members[places]
        cells = self.optimum.columns.cells[places]
        held = self.candidates.subsets
        some = held.find(members) if self.candidates.listed else Subsets(members, cells, held.questions)
        keeps = {id(m): exact_keep(m) for m in matrices}
        rows = some.kept(np.array([keeps[id(m)] for m in matrices])).rows
        return _replaced(rows, self.candidates, members, self.others)


def chosen(
    candidates: Candidates,
    epsilon: float,
    structure: Structure | Sequence[Structure] | None,
    objective: Objective | None,
    gap: float = DEFAULT_GAP,
) -> Chosen:
    """Return the best design with randomised response; then with better matrices, as long as they lower its value.

    Raises
    ------
    DesignError
        If a structure is not one, does not support the objective, or the subsets are too many to list.
    """
    pool, worst = candidates.pool(epsilon, gap), candidates.workload.worst
    found = Chosen(candidates, epsilon, optimal(pool, candidates.weights, worst))
    objective = EstimatorVariance() if objective is None else objective
    offered = _structures(candidates, structure, objective)
    for _ in range(_ROUNDS if offered else 0):
        assert isinstance(pool, Listed)  # _structures refuses other pools
        others = found.others | _better(candidates, found, pool.columns, epsilon, offered, objective)
        if len(others) == len(found.others):
            break
        columns = pool.columns
        rows = _replaced(columns.rows, candidates, columns.members, others)
        pool = Listed(Columns(columns.members, columns.cells, rows))
        optimum = optimal(pool, candidates.weights, worst)
        if not optimum.value < found.optimum.value * (1 - 1e-9):
            break
        found = Chosen(candidates, epsilon, optimum, others)
    return found


def _structures(candidates: Candidates, given: Any, objective: Any) -> tuple[Any, ...]:
    """Return the structures to try; raises DesignError where they cannot be."""
    offered = () if given is None else (given,) if not isinstance(given, (list, tuple)) else tuple(given)
    for structure in offered:
        if isinstance(structure, type) or not isinstance(structure, Structure):
            raise DesignError(sentence("not a structure", got=shown(structure, repr), wanted="as General()"))
        problem = supports(DifferentialPrivacy(1.0), objective, structure)
        if problem:
            raise DesignError(problem)
    if offered and not candidates.listed:
        what = "structures inside subsets need a list of all subsets, and there are too many"
        raise DesignError(sentence(what, fix="leave 'structure' out, split fewer variables, or lower max_cells"))
    return offered


def _better(
    candidates: Candidates, found: Chosen, columns: Columns, epsilon: float, offered: tuple[Any, ...], objective: Any
) -> dict[bytes, tuple[TransitionMatrix, str]]:
    """Return matrices that gain more than those of the subsets, for the subsets that gain most."""
    prices = found.optimum.prices
    gains = np.asarray(columns.rows @ prices)
    likely = (gains >= _NEAR * gains.max()) & (columns.cells <= MAX_DESIGNED) & (columns.cells > 1)
    order = np.flatnonzero(likely)[np.argsort(-gains[likely], kind="stable")][:_TRIED]
    better: dict[bytes, tuple[TransitionMatrix, str]] = {}
    for place in order:
        members, most = columns.members[place], float(gains[place])
        if members.tobytes() in found.others:
            continue
        covered = np.flatnonzero(columns.rows[[place]].toarray()[0])
        cells, prior, groups = _cells(candidates, members, covered)
        for structure in offered:
            with heard():  # what it cannot answer has no gain here
                fitted = structure.on_cells(cells) if hasattr(structure, "on_cells") else structure
                matrix = design(Prior(prior), DifferentialPrivacy(epsilon), objective, fitted).matrix
            gain = float(matrix_information(matrix, prior, groups) @ prices[covered])
            if gain > most * (1 + 1e-9):
                most = gain
                better[members.tobytes()] = (matrix, structure.name)
    return better


def _replaced(
    rows: Rows,
    candidates: Candidates,
    members: Bools,
    others: dict[bytes, tuple[TransitionMatrix, str]],
) -> Rows:
    """Return the rows with those of the subsets that have another matrix."""
    if not others:
        return rows
    changed = rows.copy()
    for place, row in enumerate(members):
        if row.tobytes() in others:
            _, prior, groups = _cells(candidates, row, answered(changed, place))
            write(changed, place, matrix_information(others[row.tobytes()][0], prior, groups))
    return changed


def _cells(candidates: Candidates, members: Bools, covered: NDArray[Any]) -> tuple[Any, Floats, list[Any]]:
    """Return a subset's feasible cells (K, J), their prior (K,), and each covered table's cell of each (K,)."""
    names, book = candidates.names_of(members), candidates.codebook
    cells = feasible_cells(book, names, book.rules)
    prior = shares(candidates.prior, book, names)[tuple(cells.T)]
    groups = []
    for question in covered:
        table = candidates.workload.tables[question]
        shape = tuple(book[name].size for name in table)
        groups.append(np.ravel_multi_index(tuple(cells[:, names.index(name)] for name in table), shape))
    return cells, prior / prior.sum(), groups
