"""The least variance of linear queries over all ε-DP channels, of any number of symbols: a convex programme.

A released symbol j has a column ``v_j`` of the channel and an answer ``b_j`` (Q numbers). Queries ``c`` (Q, S), centred
so that ``C p = 0``, are answered without bias where ``Σ_j v_j = 1`` and ``Σ_j v_jx b_j = c_x`` for every x; the summed
variance is then ``Σ_j (p·v_j) |b_j|²``. A column is a mixture of columns ``1 + (λ-1) 1[x in A]``, ``λ = e^ε``, and a
symbol may be split into them with the same answer, so sets A and answers b are all that need be tried: a linear
programme over pairs (A, b), by column generation. With ``m = 1/λ + (1-1/λ) p(A)``, ``w`` the chance of the symbol, and
answers in units of ``1 / (1-1/λ)``, so that nothing cancels at small ε,

    minimise Σ w |b|²   subject to   Σ w = 1,  Σ w s_x = 0,  Σ w b = 0,  Σ w b s_x = c_x,  s_x = (1[x in A] - p(A)) / m.

For multipliers ``(y0, y, z0, Z)`` let v be the largest ``y0 + y·s + (z0 + Z s) b - |b|²`` over pairs; then
``y0 + Σ_x z_x·c_x - max(0, v)`` is a proven lower bound of every channel's, since ``Σ w = 1``. The best b for a set is
``(z0 + Z s) / 2``. All sets are priced where they are few; for one query the best set for each b is where a quadratic
in b is positive, so at most 2S + 1 sets need be tried, of any number of categories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]

_PASSES = 60
_SURE = 1e-14  # relative: the rounding of the sums


@dataclass(frozen=True, slots=True)
class Multipliers:
    """The multipliers of the rows: ``y0``, ``y`` (S,), ``z0`` (Q,), ``z`` (Q, S)."""

    y0: float
    y: Floats
    z0: Floats
    z: Floats

    def mixed(self, other: Multipliers, share: float) -> Multipliers:
        """Return ``share`` of these and the rest of the others."""
        parts = ((getattr(self, n), getattr(other, n)) for n in ("y0", "y", "z0", "z"))
        return Multipliers(*(share * a + (1 - share) * b for a, b in parts))

    def worth(self, sets: Sets, p: Floats, step: float) -> tuple[Floats, Floats]:
        """Return the reduced cost of each set (N,) with its best answer, and the answer (N, Q)."""
        mass = sets @ p
        return self._of_sums(mass, sets @ self.y, sets @ self.z.T, step)

    def worth_of_all(self, p: Floats, step: float) -> tuple[Floats, Floats]:
        """Return the same for all ``2^S`` sets; bit x of an index tells whether x is in the set."""
        table = np.column_stack([p, self.y, self.z.T])
        sums = np.zeros((1, table.shape[1]))
        for row in table:
            sums = np.concatenate([sums, sums + row])
        return self._of_sums(sums[:, 0], sums[:, 1], sums[:, 2:], step)

    def _of_sums(self, mass: Floats, y: Floats, z: Floats, step: float) -> tuple[Floats, Floats]:
        m = 1 - step + step * mass
        answer = (self.z0 + (z - np.outer(mass, self.z.sum(axis=1))) / m[:, None]) / 2
        return self.y0 + (y - self.y.sum() * mass) / m + (answer**2).sum(axis=1), answer

    def scale(self) -> float:
        """Return the size of the terms that add up, for rounding."""
        return float(abs(self.y0) + np.abs(self.y).sum() + (self.z0**2).sum() + np.abs(self.z).sum() ** 2)


def price_all(at: Multipliers, p: Floats, step: float, count: int) -> tuple[Sets, Floats, float]:
    """Return the ``count`` best of all sets, their answers, and a proven bound of every pair's reduced cost."""
    worth, answers = at.worth_of_all(p, step)
    best = np.argpartition(-worth, min(count, worth.size - 1))[:count]
    best = best[worth[best] > 0]
    sets = (best[:, None] >> np.arange(p.size) & 1).astype(bool)
    return sets, answers[best], float(worth.max())


def price_one(at: Multipliers, p: Floats, step: float) -> tuple[Sets, Floats, float]:
    """Return the sets that are best for some answer to one query, and the same bound.

    The reduced cost times m is ``Σ_{x in A} r_x(b) + r(b)``, quadratic in b: the best A for b is where ``r_x(b) > 0``.
    The largest ratio is found by Dinkelbach's steps, which end where no pair is above it.
    """
    level, tried = 0.0, []
    for _ in range(_PASSES):
        sets = _best_sets(at, level, p, step)
        tried.append(sets)
        top = float(at.worth(sets, p, step)[0].max())
        if top <= level + _SURE * abs(level):
            break
        level = top
    sets = np.unique(np.concatenate(tried), axis=0)
    worth, answers = at.worth(sets, p, step)
    good = worth > 0
    return sets[good], answers[good], max(level, float(worth.max()))


def sets_for(at: Multipliers, answers: Floats, p: Floats, step: float) -> Sets:
    """Return the best set for each of the answers (N, Q)."""
    square = (answers**2).sum(axis=1)
    own = at.y + answers @ at.z
    along = step * at.y0 - at.y.sum() + answers @ (step * at.z0 - at.z.sum(axis=1)) - step * square
    best: Sets = own + np.outer(along, p) > 0
    return best


def _best_sets(at: Multipliers, level: float, p: Floats, step: float) -> Sets:
    """Return the set ``r_x(b) > 0`` for b between any two neighbouring roots, ``y0`` lowered by the level."""
    constant = at.y + (step * (at.y0 - level) - at.y.sum()) * p
    linear = at.z[0] + (step * at.z0[0] - at.z[0].sum()) * p
    square = step * p
    inside = linear**2 + 4 * square * constant
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(inside, 0))
        half = (linear + np.where(linear >= 0, root, -root)) / 2
        roots = np.concatenate([(half / square)[inside >= 0], (-constant / half)[inside >= 0]])
    roots = np.unique(roots[np.isfinite(roots)])
    if not roots.size:
        roots = np.zeros(1)
    width = 1 + abs(roots[-1] - roots[0])
    between = np.concatenate([[roots[0] - width], (roots[1:] + roots[:-1]) / 2, [roots[-1] + width]])
    return np.unique(constant + np.outer(between, linear) - np.outer(between**2, square) > 0, axis=0)
