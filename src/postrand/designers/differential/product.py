"""Products of independent laws, corrected so that no infeasible combination is ever released."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.designers.differential.polytope import MAX_SEARCHED
from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.problem import DesignWarning, Solution
from postrand.designers.suitability import StructureTraits, require
from postrand.errors import DesignError, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_storage import MAX_DENSE
from postrand.objectives import ExpectedChanges, MutualInformation, Objective
from postrand.privacy import DifferentialPrivacy, PrivacyModel
from postrand.support.inputs import finite
from postrand.support.warned import warn

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

MAX_COMBINATIONS = 1 << 18
"""Of the categories of all variables, feasible or not."""

_CLOSE = 1e-3  # of ε: as much of the budget may be left unspent
_TRIALS = 4
_WORK = 2e8  # pairs of a cell and a combination, over the divisions tried
_MOST = 600  # divisions
_CLIMBS = 4
_STEP, _LEAST_STEP = 0.1, 0.003  # of the budget, moved at a time
_QUICK = (MutualInformation, ExpectedChanges)  # found in a moment whatever the size
_CHUNK = 1 << 24  # entries of a table of infeasible combinations at a time


@dataclass(frozen=True, slots=True)
class Product:
    """Draw each variable of a joint block apart, by randomised response; then mend what cannot occur.

    Released combinations that are infeasible become a feasible one: one of those that differ in fewest variables, all
    alike. That is processing of what is released, so ε stays within the sum of the variables' budgets. It often falls
    below it: the budgets are then scaled up until ε is spent. The division is searched: equal shares and shares in
    proportion to ``ln S_j``, of all variables and of any choice of them, the rest then keeping nothing; from the best
    of these a tenth of the budget, then less, is moved between any two variables while that serves the objective. Of
    thousands of combinations fewer divisions are tried. Where the best matrix of structure ``uniform-off-diagonal`` on
    the feasible combinations serves the objective better, that is the answer.

    Of information the bound is that of every law under ε-differential privacy; of other objectives there is none.
    Without ``cells``, which a plan sets by itself, the block is taken for one variable.

    Raises
    ------
    DesignError
        If there are more than 2^18 combinations, feasible or not, or 2^14 feasible ones, or the floor is not in [0, 1].

    Examples
    --------
    >>> from postrand.designers import design
    >>> cells = [(a, b) for a in range(9) for b in range(9) if a or b < 5]
    >>> d = design(np.full(77, 1 / 77), DifferentialPrivacy(1.0), structure=Product.over(cells))
    >>> d.matrix.epsilon <= 1.0, d.details["law"], sum(d.details["epsilons"]) >= 1.0
    (True, 'product', True)
    """

    name: ClassVar[str] = "product"
    traits: ClassVar[StructureTraits] = StructureTraits(
        "The variables of a joint block are drawn separately; combinations that cannot occur are corrected.",
        models=(DifferentialPrivacy,),
        most_cells=3_500,  # with more, what is written of the matrix would be too long to be read again
        rank=110,
    )
    cells: tuple[tuple[int, ...], ...] = field(default=(), repr=False, metadata={"confidential": True})
    floor: float = 0.5

    def __post_init__(self) -> None:
        floor = finite(self.floor)
        if not 0 <= floor <= 1:
            what, got = "the floor of a product is not a number from 0 to 1", shown(self.floor, repr)
            raise DesignError(sentence(what, got=got, wanted="0 to 1"))
        object.__setattr__(self, "floor", floor)

    @classmethod
    def over(cls, cells: ArrayLike, floor: float = 0.5) -> Product:
        """Return the structure for a block of these feasible cells, shape (K, J), the codes of each variable."""
        return cls(tuple(map(tuple, np.asarray(cells, dtype=np.int32).tolist())), floor)

    def solve(self, prior: NDArray[np.float64], privacy: PrivacyModel, objective: Objective) -> Solution:
        """Return the best of the products, or the uniform off-diagonal matrix."""
        model = require(self, privacy, objective, prior.size)
        sign = 1 if objective.maximise else -1
        bound = objective.most(model.epsilon) if hasattr(objective, "most") else sign * math.inf
        law, details = _uniform(prior, model, objective)
        usual = sign * float(objective.value(law.array if isinstance(law, TransitionMatrix) else law, prior))
        codes = self._codes(prior.size)
        if codes.size:
            mended = _Mended.of(codes)
            search = _Divisions(mended, self.floor, model.epsilon, prior, objective)
            value, epsilons, array = search.best()
            free = _Divisions(mended, 0.0, model.epsilon, prior, objective).unequal() if search.thorough else value
            if value > usual:
                law, details = array, {"law": self.name, "epsilons": tuple(epsilons.tolist())}
            details["notes"] = _notes(details.get("epsilons", ()), max(value, usual), free, objective)
        return Solution(law, bound, details)

    def on_cells(self, cells: ArrayLike) -> Product:
        """Return the structure for a block of these feasible cells."""
        return Product.over(cells, self.floor)

    def _codes(self, size: int) -> Codes:
        """Return the cells with the codes of each variable that occur numbered anew, (K, J); none of one variable."""
        if not self.cells:
            return np.empty((size, 0), dtype=np.int32)
        given = np.array(self.cells, dtype=np.int32)
        if len(given) != size:
            raise DesignError(sentence("the cells do not fit the prior", got=len(given), wanted=f"{size}"))
        columns = [np.unique(column, return_inverse=True)[1] for column in given.T]
        kept = [column for column in columns if column.any()]  # a variable of one category has nothing to perturb
        codes = np.stack(kept, axis=1).astype(np.int32) if len(kept) > 1 else np.empty((size, 0), dtype=np.int32)
        combinations = math.prod((codes.max(axis=0) + 1).tolist()) if codes.size else 0
        if combinations > MAX_COMBINATIONS or size > MAX_DENSE:
            what, fix = "a product has too many combinations", "perturb fewer variables jointly"
            wanted = f"at most {MAX_COMBINATIONS:,}, {MAX_DENSE:,} of them feasible"
            raise DesignError(sentence(what, got=f"{combinations:,}, {size:,} feasible", wanted=wanted, fix=fix))
        return codes


def corrected(codes: Codes, epsilons: Floats) -> Floats:
    """Return the law (K, K) of randomised response with ``epsilons`` (J,), mended, on the cells of ``codes`` (K, J)."""
    return _Mended.of(codes).law(epsilons)


def epsilon_of(array: Floats) -> float:
    """Return ``max_j ln(max_i M[i,j] / min_i M[i,j])`` of a float matrix without zeros."""
    return float(np.log(array.max(axis=0) / array.min(axis=0)).max())


def _indicators(codes: Codes, sizes: NDArray[np.int32]) -> Floats:
    """Return a column for each category of each variable: 1 where the combination (n, J) has it."""
    return np.concatenate([np.eye(size)[column] for size, column in zip(sizes.tolist(), codes.T, strict=True)], axis=1)


def _uniform(
    prior: Floats, privacy: DifferentialPrivacy, objective: Objective
) -> tuple[Floats | TransitionMatrix, dict[str, Any]]:
    """Return the best uniform off-diagonal matrix where it is found in a moment, else randomised response."""
    response = randomised_response(prior.size, privacy.epsilon)
    quick = type(objective) in _QUICK or prior.size <= MAX_SEARCHED
    law = UniformOffDiagonal().solve(prior, privacy, objective).array if quick else response
    if isinstance(law, TransitionMatrix) and law == response:
        return law, {"law": "randomised response"}
    return law, {"law": UniformOffDiagonal.name}


def _notes(epsilons: tuple[float, ...], value: float, free: float, objective: Objective) -> tuple[str, ...]:
    """Say which variables get nothing, with a warning, or what the floor costs."""
    if (nothing := np.flatnonzero(np.array(epsilons) <= 1e-6 * sum(epsilons)) + 1).size:
        which = ", ".join(map(str, nothing))
        text = f"Variables that get no part of ε (numbers {which} of the block): their released values say nothing."
        warn(text, DesignWarning, stacklevel=5)
        return (text,)
    if free > value + 0.01 * abs(value):
        return (
            f"With floor = 0 some variables would get no part of ε, and {objective.name} would be {abs(free):.4g}.",
        )
    return ()


class _Divisions:
    """The divisions of a budget that were tried, and the best law met; local to one design."""

    def __init__(self, mended: _Mended, floor: float, epsilon: float, prior: Floats, objective: Objective) -> None:
        self.mended, self.floor, self.epsilon = mended, floor, epsilon
        self.prior, self.objective = prior, objective
        self.sizes = mended.cells.max(axis=0) + 1.0
        work = len(mended.cells) * math.prod(self.sizes.tolist())
        self.left = int(min(max(_WORK / work, 2), _MOST))
        self.thorough = floor > 0 and self.left >= _MOST
        self.tried: dict[tuple[float, ...], float] = {}
        self.found: tuple[float, Floats, Floats] = (-math.inf, np.zeros(self.sizes.size), np.zeros((0, 0)))

    def unequal(self) -> float:
        """Return the best of the starts alone."""
        for start in self._starts():
            self._value(start)
        return self.found[0]

    def best(self) -> tuple[float, Floats, Floats]:
        """Return the largest objective (sign turned where it is minimised), its budgets and its law."""
        self.unequal()
        for start in sorted(self.tried, key=lambda share: -self.tried[share])[:_CLIMBS]:
            self._climb(np.array(start))
        return self.found

    def _starts(self) -> Iterator[Floats]:
        """Yield equal shares, and in proportion to ``ln S_j``: of all variables, then of fewer; above the floor."""
        count = self.sizes.size
        for number in range(count, 0, -1):
            for chosen in combinations(range(count), number):
                for weights in (np.ones(count), np.log(self.sizes)):
                    share = np.zeros(count)
                    share[list(chosen)] = weights[list(chosen)]
                    yield share / share.sum()

    def _climb(self, share: Floats) -> None:
        """Move budget between two variables, ever less of it, while that helps."""
        step, pairs = _STEP, list(permutations(range(share.size), 2))
        while step >= _LEAST_STEP and self.left > 0:
            near = []
            for giver, taker in pairs:
                moved = share.copy()
                moved[taker] += min(step, share[giver])
                moved[giver] -= min(step, share[giver])
                near.append(moved)
            best = near[int(np.argmax([self._value(one) for one in near]))]
            if self._value(best) > self._value(share):
                share = best
            else:
                step /= 3

    def _value(self, share: Floats) -> float:
        key = tuple((share / share.sum()).round(6).tolist())
        if key not in self.tried and self.left > 0:
            self.left -= 1
            share = self.floor / share.size + (1 - self.floor) * np.array(key) / sum(key)
            epsilons, law = self.mended.spend(self.epsilon, share)
            value = (1 if self.objective.maximise else -1) * float(self.objective.value(law, self.prior))
            self.tried[key] = value
            if value > self.found[0]:
                self.found = (value, epsilons, law)
        return self.tried.get(key, -math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class _Mended:
    """Hold the cells (K, J), the infeasible combinations (N, J), and what each of these becomes, (K, N), sparse."""

    cells: Codes
    infeasible: Codes
    becomes: scipy.sparse.csr_array

    @classmethod
    def of(cls, codes: Codes) -> _Mended:
        sizes = (codes.max(axis=0) + 1).tolist()
        everything = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
        infeasible = np.delete(everything, np.ravel_multi_index(tuple(codes.T), sizes), axis=0)
        rows, columns, shares = [], [], []
        step = max(1, _CHUNK // codes.shape[0])
        for start in range(0, len(infeasible), step):
            part = infeasible[start : start + step]
            apart = sum((part[:, j][:, None] != codes[:, j]).astype(np.int8) for j in range(codes.shape[1]))
            at, near = np.nonzero(apart == apart.min(axis=1, keepdims=True))
            rows.append(near)
            columns.append(at + start)
            shares.append(1 / np.bincount(at)[at])
        shape = (len(codes), len(infeasible))
        if not rows:
            return cls(codes, infeasible, scipy.sparse.csr_array(shape))
        where = (np.concatenate(rows), np.concatenate(columns))
        return cls(codes, infeasible, scipy.sparse.csr_array((np.concatenate(shares), where), shape=shape))

    def law(self, epsilons: Floats) -> Floats:
        """Return the corrected law: the product among feasible cells, and what infeasible ones become."""
        sizes = self.cells.max(axis=0) + 1
        nothing_kept = -float(np.log(sizes - 1 + np.exp(epsilons)).sum())
        true = _indicators(self.cells, sizes).T

        def between(released: Codes) -> Floats:
            """Return the product's probabilities of combinations (n, J), rows released, columns true: (n, K)."""
            logs = (_indicators(released, sizes) * np.repeat(epsilons, sizes)) @ true  # ε of each variable kept
            logs += nothing_kept
            return np.exp(logs, out=logs)

        found = between(self.cells)
        step = max(1, _CHUNK // len(self.cells))
        for start in range(0, len(self.infeasible), step):
            found += self.becomes[:, start : start + step] @ between(self.infeasible[start : start + step])
        return np.ascontiguousarray(found.T)

    def spend(self, epsilon: float, share: Floats) -> tuple[Floats, Floats]:
        """Return budgets in proportion to ``share`` whose law spends ε but for a thousandth, and the law.

        Budgets that sum to ε are always feasible; larger ones are sought by the secant, and taken only if they are.
        """
        scale, law = 1.0, self.law(epsilon * share)
        spent = epsilon_of(law)
        high, slope = math.inf, spent
        for _ in range(_TRIALS):
            if spent >= epsilon * (1 - _CLOSE):
                break
            # Aim just below: the secant's error would else take half of the trials above.
            trial = min(scale + (epsilon * (1 - _CLOSE / 2) - spent) / slope, 0.05 * scale + 0.95 * high)
            attempt = self.law(trial * epsilon * share)
            level = epsilon_of(attempt)
            slope = (level - spent) / (trial - scale)
            if level <= epsilon:
                scale, law, spent = trial, attempt, level
            else:
                high = trial
        return scale * epsilon * share, law
