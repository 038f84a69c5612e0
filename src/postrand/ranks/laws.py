"""Rank laws: sparse bistochastic matrices on the ranks of a numerical column, never stored as n x n arrays.

A rank law cuts the ranks 0..n-1 at random into runs. Within each run every order is equally likely. Each cut gives a
block-diagonal bistochastic matrix (RDF (3)); the law is their mixture over the cuts, so it is bistochastic too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from postrand.errors import UsageError, sentence, shown
from postrand.support.inputs import is_whole

_ERROR = 1e-12
"""An upper bound of the relative error of the sums of non-negative terms below."""


class RankLaw(Protocol):
    """A mixture of cuts of n ranks into runs; implementations are frozen dataclasses whose fields are options."""

    name: ClassVar[str]

    @property
    def least(self) -> int:
        """The smallest number of ranks in a run, and therefore the smallest number of records for this law."""
        ...

    @property
    def shared(self) -> int:
        """The smallest number of records that share an average."""
        ...

    @property
    def cuts(self) -> int:
        """The number of cuts, all equally likely."""
        ...

    def starts(self, n: int, cut: int) -> NDArray[np.int64]:
        """Return the first rank of each run of a cut, ascending from 0; raises UsageError if n ranks are too few."""
        ...

    def entropy_lower(self, n: int) -> float:
        """Return a lower bound of ``H(P)`` in nats (RDF (4)) of the n x n law."""
        ...


@dataclass(frozen=True, slots=True)
class RankBlocks:
    """Fixed blocks of at least ``k`` neighbouring ranks: k-anonymity of the values (RDF (3)).

    ``n`` ranks make ``n // k`` blocks, which differ in size by at most one.

    Examples
    --------
    >>> law = RankBlocks(3)
    >>> law.starts(11, 0).tolist(), law.entropy_lower(9) <= math.log(3)
    ([0, 3, 7], True)
    """

    name: ClassVar[str] = "rank-blocks"
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", _whole(self.k, "k"))

    @property
    def least(self) -> int:
        """``k``."""
        return self.k

    @property
    def shared(self) -> int:
        """``k``: all records of a block get its mean."""
        return self.k

    @property
    def cuts(self) -> int:
        """One: the blocks are fixed."""
        return 1

    def starts(self, n: int, cut: int) -> NDArray[np.int64]:
        """Return where each block starts, shape (n // k,)."""
        _check_size(n, self.k, "k")
        count = n // self.k
        return np.arange(count, dtype=np.int64) * n // count

    def entropy_lower(self, n: int) -> float:
        """Return ``(1/n) Σ_l n_l ln n_l``, rounded down."""
        _check_size(n, self.k, "k")
        count = n // self.k
        size, larger = divmod(n, count)  # so many blocks hold one rank more
        terms = ((count - larger) * size * math.log(size), larger * (size + 1) * math.log(size + 1))
        return math.fsum(terms) / n * (1 - _ERROR)


@dataclass(frozen=True, slots=True)
class RankBand:
    """Runs of ``width`` ranks whose first boundary is drawn at random: a band around the rank.

    Rank i becomes rank j with probability ``(w - |i-j|) / w²``, zero beyond w - 1 places. A run shorter than w at
    either end joins its neighbour. For anyone who learns the boundaries, ``ln w`` nats remain, as with blocks of w.

    Examples
    --------
    >>> law = RankBand(4)
    >>> law.cuts, law.starts(12, 0).tolist(), law.starts(12, 3).tolist()
    (4, [0, 4, 8], [0, 7])
    """

    name: ClassVar[str] = "rank-band"
    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _whole(self.width, "width"))

    @property
    def least(self) -> int:
        """``w``."""
        return self.width

    @property
    def shared(self) -> int:
        """One: each rank has its own average."""
        return 1

    @property
    def cuts(self) -> int:
        """``w``: one for each place of the first boundary."""
        return self.width

    def starts(self, n: int, cut: int) -> NDArray[np.int64]:
        """Return where each run starts when boundaries lie at ``cut``, ``cut + w``, ..."""
        _check_size(n, self.width, "width")
        starts = np.arange(cut, n, self.width, dtype=np.int64)
        if cut:
            starts[0] = 0  # the run before the first boundary is shorter than w
        if n - starts[-1] < self.width and starts.size > 1:
            starts = starts[:-1]
        return starts

    def entropy_lower(self, n: int) -> float:
        """Return the exact row entropy within, and ``ln w`` for the 5w rows near the ends (it grows with mixing)."""
        _check_size(n, self.width, "width")
        w = self.width
        law = (w - np.abs(np.arange(1 - w, w))) / w**2
        ends = min(5 * w, n)
        return (float(-(law @ np.log(law))) * (n - ends) + math.log(w) * ends) / n * (1 - _ERROR)


LEAST_WIDTH, USUAL_SHARE = 10, 0.05
"""So many neighbours in rank at least, and this share of the records: among fewer, values hardly move."""
USUAL = f"{USUAL_SHARE:.0%} of the records ({LEAST_WIDTH} at least)"
"""The same in words."""


def usual_width(records: int) -> int:
    """Return the number of neighbours in rank that a plan is proposed with, from the number of records alone.

    >>> usual_width(50), usual_width(4_580)
    (10, 229)
    """
    return max(LEAST_WIDTH, math.ceil(USUAL_SHARE * records))


RANK_LAWS: tuple[type[RankLaw], ...] = (RankBlocks, RankBand)
"""The rank laws that a plan can name."""


def beta_lower(law: RankLaw, n: int) -> float:
    """Return a lower bound of ``β = H(P) / ln n`` of the rank law for n records (RDF Definition 1).

    >>> round(beta_lower(RankBlocks(4), 16), 6)
    0.5
    """
    return 1.0 if n == 1 else law.entropy_lower(n) / math.log(n) * (1 - _ERROR)


def _whole(value: int, name: str) -> int:
    if not is_whole(value, 1):
        raise UsageError(sentence(f"{name} is not a positive whole number", got=shown(value, repr), wanted=">= 1"))
    return int(value)


def _check_size(n: int, least: int, name: str) -> None:
    if n < least:
        raise UsageError(
            sentence(f"{name} is larger than the number of records", got=least, fix=f"choose a smaller {name}")
        )
