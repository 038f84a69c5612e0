"""Margins of the true cells, estimated from a released table through the transition matrices.

The margin of each model term is a maximum a posteriori estimate: the released margin is a mixture, through M, of the
true one, whose Dirichlet prior is centred on the model of the next lower order (independence for a pair of keys). The
prior counts as one record a cell in place of what the perturbation hid, ``(1 − e) x cells``: none where nothing
changed, so that an unperturbed table keeps its own margins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from postrand.risk.cells import CellTable, FloatArray, IntArray, ravel
from postrand.risk.law import KeyLaw

MAX_STEPS = 2000
ENOUGH = 1e-6
"""Stop the EM steps where the shares change by less, summed over the margin."""

RAKES = 50

DENSE = 400
"""Margins of at most so many cells are carried by one matrix: quicker than key by key."""

Operator = Callable[[FloatArray], FloatArray]


class TrueMargins:
    """Estimate true margins of a released table, each once; shares, summing to 1.

    ``smoothing`` is the prior's records for each cell where everything was hidden.
    """

    def __init__(self, released: CellTable, law: KeyLaw, smoothing: float = 1.0) -> None:
        self.released, self.law, self.smoothing = released, law, smoothing
        self.records = float(released.counts.sum())
        self._held: dict[tuple[int, ...], FloatArray] = {}
        self._strength: dict[tuple[int, ...], float] = {}
        self._kept_in: list[float] = []

    def of(self, margin: Sequence[int]) -> FloatArray:
        """Return the share of each true cell of a margin, with its shape."""
        variables = self.closure(margin)
        whole = self._estimate(variables)
        return _margin(whole, variables, margin)

    def closure(self, margin: Sequence[int]) -> tuple[int, ...]:
        """Return the margin's keys and those that a block perturbs together with one of them, ascending."""
        wanted = set(margin)
        for at, changed in zip(self.law.positions, self.law.changed, strict=True):
            if changed & set(margin):
                wanted |= set(at)
        return tuple(sorted(wanted))

    def counted(self, variables: Sequence[int]) -> FloatArray:
        """Return the released shares of these keys."""
        shape = tuple(self.released.shape[j] for j in variables)
        number = ravel(tuple(self.released.codes[:, j] for j in variables), shape)
        counts = np.bincount(number, weights=self.released.counts, minlength=int(np.prod(shape)))
        return np.asarray(counts / self.records, dtype=np.float64).reshape(shape)

    def prior(self, variables: tuple[int, ...]) -> tuple[FloatArray, float]:
        """Return the centre of the prior of :meth:`of` and its number of records."""
        self._estimate(variables)
        return self._centre(variables), self._strength[variables]

    def _estimate(self, variables: tuple[int, ...]) -> FloatArray:
        if variables not in self._held:
            centre = self._centre(variables)
            hidden = 1 - self._kept(variables)
            # One key alone is well measured by the whole file: its prior is one record in all.
            cells = float((centre > 0).sum()) * self.smoothing if len(variables) > 1 else 1.0
            self._strength[variables] = hidden * cells
            shares = self._climb(self.counted(variables), variables, centre, hidden * cells)
            self._held[variables] = _rake(shares, variables, self._parts(variables))
        return self._held[variables]

    def _parts(self, variables: tuple[int, ...]) -> list[tuple[tuple[int, ...], FloatArray]]:
        """Return the estimates of the next lower order within these keys."""
        smaller = {self.closure(part) for part in itertools.combinations(variables, len(variables) - 1) if part}
        inside = {part for part in smaller if len(part) < len(variables)}
        if not inside and len(variables) > 1:  # one joint block
            inside = {part for part in map(self.closure, ([j] for j in variables)) if len(part) < len(variables)}
        return [(part, self._estimate(part)) for part in sorted(inside)]

    def _centre(self, variables: tuple[int, ...]) -> FloatArray:
        """Return the table of largest entropy with the parts' margins, on the cells that the blocks have."""
        shape = tuple(self.released.shape[j] for j in variables)
        allowed = (self.law.apply(np.ones(shape), variables, adjoint=True) > 0).astype(np.float64)
        parts = self._parts(variables)
        if not parts and len(variables) > 1:
            rough = self._climb(self.counted(variables), variables, allowed / allowed.sum(), 1.0)
            parts = [((j,), _margin(rough, variables, (j,))) for j in variables]
        return _rake(allowed / allowed.sum(), variables, parts)

    def _kept(self, variables: tuple[int, ...]) -> float:
        """Return the share of the information on these keys that the perturbation keeps, by the unbiased estimate."""
        blend = self.law.blend
        kept = 1.0 if blend is None else blend.information(self.counted(variables), variables)
        for b, changed in enumerate(self.law.changed):
            if changed & set(variables):
                kept *= self._kept_by_group()[b]
        return kept

    def _kept_by_group(self) -> list[float]:
        """Return the share that each group of the law keeps: the same for every margin."""
        if not self._kept_in:
            rows = self.law.groups(self.released.codes)
            self._kept_in = [self._kept_by(b, rows[:, b]) for b in range(rows.shape[1])]
        return self._kept_in

    def _kept_by(self, b: int, rows: IntArray) -> float:
        matrix = self.law.matrices[b]
        share = np.bincount(rows, weights=self.released.counts, minlength=matrix.shape[0]) / self.records
        values = np.linalg.svd(matrix, compute_uv=False)
        if values[-1] < 1e-6 * values[0]:
            return 0.0
        inverse = np.linalg.inv(matrix)
        true = share @ inverse
        least, most = 1 - float((true**2).sum()), float(share @ (inverse**2).sum(axis=1)) - float((true**2).sum())
        return min(max(least / most, 0.0), 1.0) if most > 0 else 1.0

    def _climb(self, observed: FloatArray, variables: Sequence[int], centre: FloatArray, strength: float) -> FloatArray:
        """Return the maximum a posteriori shares by EM from the prior's centre."""
        shares, weight = np.maximum(centre, np.where(centre > 0, 1e-12, 0.0)), strength / self.records
        if not self.law.moves(variables):
            return observed
        released, back = self._operators(variables)
        for _ in range(MAX_STEPS):
            expected = released(shares)
            ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
            new = (shares * back(ratio) + weight * centre) / (1 + weight)
            change = float(np.abs(new - shares).sum())
            shares = new / new.sum()
            if change < ENOUGH:
                break
        return shares

    def _operators(self, variables: Sequence[int]) -> tuple[Operator, Operator]:
        """Return ``t → Mᵀt`` and ``t → Mt`` on tables of these keys; small ones by one matrix."""
        shape = tuple(self.released.shape[j] for j in variables)
        size = math.prod(shape)
        if size > DENSE:
            return (
                lambda table: self.law.apply(table, variables),
                lambda table: self.law.apply(table, variables, adjoint=True),
            )
        matrix = self.law.apply(np.eye(size).reshape(*shape, size), variables).reshape(size, size)
        return (
            lambda table: (matrix @ table.ravel()).reshape(shape),
            lambda table: (table.ravel() @ matrix).reshape(shape),
        )


def _margin(table: FloatArray, variables: Sequence[int], part: Sequence[int]) -> FloatArray:
    return np.asarray(table.sum(axis=tuple(i for i, j in enumerate(variables) if j not in part)))


def _rake(
    table: FloatArray, variables: Sequence[int], parts: Sequence[tuple[tuple[int, ...], FloatArray]]
) -> FloatArray:
    """Scale a table to its margins ``parts`` in turn."""
    for _ in range(RAKES):
        worst = 0.0
        for part, target in parts:
            axes = tuple(i for i, j in enumerate(variables) if j not in part)
            now = table.sum(axis=axes, keepdims=True)
            wanted = target.reshape(now.shape)
            worst = max(worst, float(np.abs(now - wanted).max()))
            table = table * np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
        if worst < 1e-12:
            break
    return table
