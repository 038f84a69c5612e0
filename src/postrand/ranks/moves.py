"""How far values typically move under a rank law, computed on the file: internal, never part of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.ranks.apply import average
from postrand.ranks.laws import USUAL, RankLaw

SMALL = 0.02
"""A curator is warned where the typical move is below this share of the width of the middle half of the values."""
MANY = 0.1
"""Where so many records have one value, a wider law hardly moves more of them."""
_CUTS = 8
_SEED = 0


@dataclass(frozen=True, slots=True)
class Move:
    """Hold the median distance between a record's value and its released one: ``units``, and two shares.

    ``of_value`` is the median share of the value itself (0 is left out), ``of_spread`` the share of the width of the
    middle half of the values; each None where it cannot be stated. ``tied`` is the share of the records that have the
    most common value, which stays among its like whatever the law.
    """

    variable: str
    units: float
    of_value: float | None
    of_spread: float | None
    tied: float = 0.0

    @property
    def is_small(self) -> bool:
        """Whether values are published almost exactly."""
        return self.of_spread is not None and self.of_spread < SMALL

    @property
    def sentence(self) -> str:
        """How far values move, in words.

        >>> Move("pay", 12.0, 0.004, 0.01).sentence
        'pay: half of the values move by at most 12: 0.4% of the value, 1% of the width of the middle half'
        >>> Move("pay", 0.0, 0.13, 0.0).sentence  # of the few values that are not 0, half move by 13%
        'pay: half of the values or more do not move'
        """
        if self.units == 0:  # shares of values that are mostly 0 would seem to say otherwise
            return f"{self.variable}: half of the values or more do not move"
        shares = [f"{100 * self.of_value:.2g}% of the value"] if self.of_value is not None else []
        if self.of_spread is not None:
            shares.append(f"{100 * self.of_spread:.2g}% of the width of the middle half")
        text = f"{self.variable}: half of the values move by at most {self.units:.3g}"
        return f"{text}: {', '.join(shares)}" if shares else text

    @property
    def warning(self) -> str:
        """What a curator is warned of: that values hardly move; or nothing."""
        if not self.is_small:
            return ""
        told = f"{self.sentence}. Values are published almost exactly"
        return f"{told}: {self._fix}"

    @property
    def finding(self) -> str:
        """The same without a figure of the file; or nothing.

        >>> Move("pay", 12.0, 0.004, 0.01).finding.partition("more: ")[2]
        'choose a larger width or k in [[numerical]], such as 5% of the records (10 at least)'
        """
        many = f"{self.variable}: values are published almost exactly, half of them or more"
        return f"{many}: {self._fix}" if self.is_small else ""

    @property
    def _fix(self) -> str:
        if self.units and self.tied < MANY:
            return f"choose a larger width or k in [[numerical]], such as {USUAL}"
        wider = ", or choose a larger width or k in [[numerical]]" if self.units else ""
        return f"many are equal: make it categories and perturb it in [[blocks]]{wider}"


def typical_move(variable: str, values: NDArray[Any], law: RankLaw, form: str) -> Move:
    """Return how far true values (n,) typically move; of a permutation by one draw of some of its cuts.

    >>> from postrand.ranks import RankBlocks
    >>> typical_move("pay", np.arange(1, 1001), RankBlocks(10), "permute").is_small
    True
    """
    held = np.sort(values).astype(np.float64)
    if form == "average":
        moved = np.abs(average(held, law) - held)
        base = held
    else:
        rng = np.random.default_rng(_SEED)
        cuts = range(0, law.cuts, max(1, law.cuts // _CUTS))
        moved = np.concatenate([np.abs(_drawn(held, law, cut, rng) - held) for cut in cuts])
        base = np.tile(held, len(cuts))
    low, high = np.quantile(held, [0.25, 0.75])
    units, nonzero = float(np.median(moved)), base != 0
    of_value = float(np.median(moved[nonzero] / np.abs(base[nonzero]))) if nonzero.any() else None
    starts = np.flatnonzero(np.r_[True, held[1:] != held[:-1]])
    tied = float(np.diff(np.r_[starts, held.size]).max(initial=0)) / max(held.size, 1)
    return Move(variable, units, of_value, units / float(high - low) if high > low else None, tied)


def _drawn(held: NDArray[np.float64], law: RankLaw, cut: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return ascending values (n,) in a random order within each run of a cut."""
    runs = np.zeros(held.size, dtype=np.int64)
    runs[law.starts(held.size, cut)] = 1
    return held[np.lexsort((rng.random(held.size), np.cumsum(runs)))]
