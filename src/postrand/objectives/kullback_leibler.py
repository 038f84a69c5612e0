"""Kullback-Leibler loss of the estimated distribution, by simulation and to second order (CHR §3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DesignError, sentence, shown
from postrand.objectives.base import ObjectiveTraits
from postrand.support.inputs import is_whole
from postrand.support.options import Range


@dataclass(frozen=True, slots=True)
class Simulated:
    """A mean over simulated releases and its standard error.

    ``infinite`` is the share of releases whose loss is infinite, an estimated frequency being 0 or less where the
    true one is not; ``mean`` and ``standard_error`` are those of the other releases (nan where there are none).
    """

    mean: float
    standard_error: float
    infinite: float


@dataclass(frozen=True, slots=True)
class KullbackLeiblerLoss:
    """Cost ``l_KL = E Σ_k -ln(μ^(k) / μ(k)) μ(k)``, μ^ the unbiased estimate (CHR §3, over the key types).

    The estimate can be 0 or negative with positive probability, and ``l_KL`` is then infinite: that holds for every
    matrix that moves the records of a type, each type having few chances to lose them all. ``value`` is therefore the
    mean over those simulated releases where the loss is finite; :meth:`simulate` also gives its standard error and the
    share of the others, :meth:`second_order` the closed form ``½ Σ_k Var(μ^_k) / μ_k`` for large counts.

    Parameters
    ----------
    records
        The file's n; the counts simulated are ``n p``, which must be whole.
    draws, seed
        How many releases are simulated, and from which seed (the same releases for every matrix of one size).

    Raises
    ------
    DesignError
        If ``records``, ``draws`` or ``seed`` is not a whole number in its range.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> loss, p = KullbackLeiblerLoss(records=1000, draws=4000), np.array([0.3, 0.7])
    >>> round(loss.second_order(M, p), 6), abs(loss.value(M, p) - loss.second_order(M, p)) < 2e-5
    (0.000335, True)
    """

    name: ClassVar[str] = "kullback-leibler"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Make the corrected table as close to the true one as possible, in relative terms.",
        "nats",
        relabelling="none",
        rank=70,
    )
    maximise: ClassVar[bool] = False
    records: int = field(metadata={"range": Range(1, 1e12, 1000, "records", "how many records the file has")})
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("records", 1, 10**12), ("draws", 1, 10**7), ("seed", 0, 2**64)):
            number = getattr(self, name)
            if not is_whole(number, least) or number > most:
                got, wanted = shown(number, repr), f"{least}..{most}"
                raise DesignError(
                    sentence(f"{name} is not a whole number in the allowed range", got=got, wanted=wanted)
                )
            object.__setattr__(self, name, int(number))

    @classmethod
    def example(cls, counts: NDArray[np.int64]) -> KullbackLeiblerLoss:
        """Return the loss for a file with these counts, of few draws."""
        return cls(int(counts.sum()), draws=200)

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the simulated mean over finite losses (inf where none is finite, or the matrix is singular)."""
        if np.linalg.matrix_rank(array) < len(array):
            return math.inf
        found = self.simulate(array, prior)
        return math.inf if found.infinite == 1 else found.mean

    def simulate(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> Simulated:
        """Perturb ``draws`` times the file of ``n p`` records and estimate it anew; ``array`` must be invertible."""
        counts = np.rint(self.records * prior).astype(np.int64)
        if np.abs(counts - self.records * prior).max() > 1e-6:
            raise DesignError(sentence("records times the prior are not whole counts", fix="give the file's own n"))
        rng = np.random.default_rng(self.seed)
        rows = array.clip(0, None)  # a designer's array may miss the simplex by its rounding
        rows = rows / rows.sum(axis=1, keepdims=True)
        released = sum(rng.multinomial(n, row, size=self.draws) for n, row in zip(counts, rows, strict=True))
        estimate = np.linalg.solve(array.T, np.asarray(released, dtype=np.float64).T).T / self.records
        there = prior > 0
        finite = (estimate[:, there] > 0).all(axis=1)
        losses = -(np.log(estimate[finite][:, there] / prior[there]) @ prior[there])
        spread = float(losses.std(ddof=1) / math.sqrt(len(losses))) if len(losses) > 1 else math.nan
        mean = float(losses.mean()) if len(losses) else math.nan
        return Simulated(mean, spread, float(1 - finite.mean()))

    def second_order(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return ``½ Σ_k Var(μ^_k) / μ_k``: the mean of ``-ln(μ^/μ) μ`` to second order (delta method)."""
        inverse = np.linalg.inv(array)
        second_moment = prior @ array @ inverse**2
        there = prior > 0
        variance = (second_moment - prior)[there] / self.records
        return float((variance / prior[there]).sum() / 2)
