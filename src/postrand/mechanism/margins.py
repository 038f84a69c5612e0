"""Can this matrix have produced these counts, for any true records? A test that needs the release only.

Given the true records, the released ones are independent: record r is released in cell j with probability ``p_r[j]``,
and ``p_r`` is a row of M, or a mixture of rows. So the mean ``λ = (1/n) Σ_r p_r`` is ``Mᵀπ`` for some π on the simplex.

**Evidence on the whole table.** For any distribution q of cells, by independence and the inequality of the means,

    E Π_r q[z_r] / λ[z_r] = Π_r Σ_j p_r[j] q[j] / λ[j] <= ((1/n) Σ_r Σ_j p_r[j] q[j] / λ[j])^n = (Σ_j q[j])^n <= 1,

sums over the cells with λ > 0; and so for a mixture of such q. With q ~ Dirichlet(1/2, ..., 1/2) the numerator has a
closed form in the counts N, ``m(N) = Γ(K/2)/Γ(n + K/2) Π_j Γ(N_j + 1/2)/Γ(1/2)``. Then ``E = m(N) / max_π Π_j
(Mᵀπ)_j^N_j`` is at most a variable of mean 1 or less, and by Markov's inequality ``P(E >= 1/α) <= α``: for every n, K
and M. (A universal test of the likelihood ratio: Wasserman, Ramdas & Balakrishnan, 2020; the mixture: Krichevsky &
Trofimov, 1981.) The maximum is bounded from above by ``ℓ(π) + n (max_i [M (N/n / Mᵀπ)]_i - 1)``, at every π.

**Bounds on each cell.** ``l_j <= p_r[j] <= h_j``, the extremes of column j. So by Chernoff's bound a count as extreme
as ``N_j/n < l_j`` has probability at most ``exp(-n kl(N_j/n, l_j))``, and one with ``N_j/n > h_j`` as much for h_j.

Every figure is rounded against rejection, and an undecided case is not rejected. The test cannot detect: records that
were not drawn, if other true records could have produced their shares; a matrix that was used for most records only;
anything in the order of the records, or in columns that are released as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.mechanism.block import Block
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT, Constant

LEVEL = 1e-9
"""A correct release is refused with at most this probability, for all of its tables together."""

MAX_CELLS = 2048
"""The largest dense matrix that is tested as a whole table; for larger ones single cells are tested."""

_STEPS = 400
_CONDITION, _MIXED = 1e10, 1e-6
_SLACK = 1e-11  # error of a log-likelihood (compare 1 nat) from float64 sums of logarithms

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Counts of released cells (K,), or (K_1, K_2) of two independent blocks, a name, and a matrix for each axis.

    One axis alone can have probabilities (R, K) as floats: of K outcomes, for R kinds of true records.
    """

    name: str
    laws: tuple[TransitionMatrix | Floats, ...]
    counts: NDArray[np.int64]


def impossible(tables: Sequence[Table], level: float = LEVEL) -> list[str]:
    """Return the names of tables that the law cannot have produced: none, with probability at least 1 - level.

    The level is divided among the tables, and of each table's part one half goes to the evidence on the whole, and one
    to the bounds on its cells. Records must be drawn independently of one another.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> M = randomised_response(2, 1.0)  # stays with probability 0.73
    >>> impossible([Table("a", (M,), np.array([700, 300])), Table("b", (M,), np.array([900, 100]))])
    ['b']
    """
    bar = math.log(2 * max(len(tables), 1) / level)
    return [table.name for table in tables if _on_cells(table, bar) or _on_the_whole(table, bar)]


def _on_cells(table: Table, bar: float) -> bool:
    n = int(table.counts.sum())
    if len(table.laws) > 1 or not n:
        return False
    law = table.laws[0]
    if isinstance(law, TransitionMatrix):
        high, low = (extreme / UNIT for extreme in law.form.columns())
    else:
        high, low = law.max(axis=0), law.min(axis=0)
    share = table.counts / n
    nats = np.where(share < low, _kl(share, low), np.where(share > high, _kl(share, high), 0.0))
    # Two bounds a cell; one unit in 10^12 for the rounding of each figure.
    return bool((n * nats * (1 - 1e-12) - 1e-9 > bar + math.log(2 * share.size)).any())


def _kl(x: Floats, p: Floats) -> Floats:
    """Return ``x ln(x/p) + (1-x) ln((1-x)/(1-p))``; inf if p has no mass where x has."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (np.where(a > 0, a * np.log(a / b), 0.0) for a, b in ((x, p), (1 - x, 1 - p)))
        return np.asarray(sum(parts), dtype=np.float64)


def _on_the_whole(table: Table, bar: float) -> bool:
    """Climb to the maximum of the likelihood until its value, or an upper bound, decides."""
    counts = table.counts.astype(np.float64)
    n = float(counts.sum())
    matrices = [law for law in table.laws if isinstance(law, TransitionMatrix)]
    if not n or any(law.size > MAX_CELLS and not isinstance(law.form, Constant) for law in matrices):
        return False
    axes, seen = [_Axis(law) for law in table.laws], counts > 0
    wanted = _mixture(counts) - bar  # rejected where the largest log-likelihood is surely below this
    wanted -= 1 + _SLACK * abs(wanted)
    share, step = _start(axes, counts / n), 1.0
    best, kept = -math.inf, (share, np.ones_like(share))
    for _ in range(_STEPS):
        released = _forth(axes, share)
        if not (released[seen] > 0).all():
            return best == -math.inf  # no share is 0: a released cell has probability 0
        likelihood = float((counts[seen] * np.log(released[seen])).sum())
        if likelihood >= wanted:
            return False
        if likelihood < best:  # a step of EM never lowers it: a longer one did
            share, step = _moved(*kept, 1.0), 1.0
            best = -math.inf
            continue
        gain = _back(axes, np.divide(counts / n, released, out=np.zeros_like(counts), where=seen))
        if likelihood + n * (float(gain.max()) - 1) * (1 + 1e-12) < wanted:
            return True
        best, kept = likelihood, (share, gain)
        share, step = _moved(share, gain, step), 1.5 * step
    return False


def _start(axes: Sequence[_Axis], released: Floats) -> Floats:
    """Return the unbiased estimate, moved into the simplex, or the uniform distribution if there is none."""
    share, uniform = released, np.full(released.shape, 1 / released.size)
    for axis in axes:
        if axis.form is None:
            kinds = axis.back(released).size
            return np.full(kinds, 1 / kinds)
        factor = axis.form.factor()
        if not factor.condition < _CONDITION:
            return uniform
        share = factor.solve_transposed(share).T
    share = share.clip(min=0.0)
    return np.asarray((1 - _MIXED) * share / share.sum() + _MIXED * uniform)


def _moved(share: Floats, gain: Floats, step: float) -> Floats:
    """Return one step of EM, at ``step = 1``, or a longer one along its direction."""
    with np.errstate(divide="ignore"):
        logs = np.log(share) + step * np.log(gain)
    moved = np.exp(logs - logs.max())
    return np.asarray(moved / moved.sum())


def _mixture(counts: Floats) -> float:
    """Return ``ln m(N)``."""
    half, size = 0.5, counts.size
    cells = math.fsum(math.lgamma(count + half) for count in counts.ravel().tolist()) - size * math.lgamma(half)
    return math.lgamma(half * size) - math.lgamma(float(counts.sum()) + half * size) + cells


class _Axis:
    """Apply M, or its transpose, along the first axis."""

    def __init__(self, law: TransitionMatrix | Floats) -> None:
        self.form = law.form if isinstance(law, TransitionMatrix) else None
        is_stored = isinstance(self.form, Constant)
        self.array = None if is_stored else law.array if isinstance(law, TransitionMatrix) else law

    def back(self, x: Floats) -> Floats:
        if self.array is not None:
            return np.asarray(self.array @ x)
        assert self.form is not None
        return self.form.times(x)

    def forth(self, x: Floats) -> Floats:
        if self.array is not None:
            return np.asarray(self.array.T @ x)
        assert isinstance(self.form, Constant)
        off = (self.form.off / UNIT).reshape(-1, *[1] * (x.ndim - 1))
        stays = ((self.form.diagonal - self.form.off) / UNIT).reshape(off.shape)
        return np.asarray(stays * x + (off * x).sum(axis=0))


def _forth(axes: Sequence[_Axis], x: Floats) -> Floats:
    """Return ``Mᵀ x``, or ``M_1ᵀ x M_2``."""
    for axis in axes:
        x = axis.forth(x).T
    return x


def _back(axes: Sequence[_Axis], x: Floats) -> Floats:
    """Return ``M x``, or ``M_1 x M_2ᵀ``."""
    for axis in axes:
        x = axis.back(x).T
    return x


def tables_of(
    blocks: Sequence[Block],
    counts: Iterable[NDArray[np.int64] | None],
    pairs: Iterable[tuple[int, int, NDArray[np.int64]]],
) -> list[Table]:
    """Return the tables of blocks, and of pairs of blocks that share no variable and are drawn independently.

    ``counts`` are those of independent draws: of records, or of units that share a draw; None: not known, not tested.
    """
    found = [Table(repr(b.name), (b.matrix,), n) for b, n in zip(blocks, counts, strict=True) if n is not None]
    for a, b, n in pairs:
        found.append(Table(f"{blocks[a].name!r} by {blocks[b].name!r}", (blocks[a].matrix, blocks[b].matrix), n))
    return found
