"""What an unperturbed variable reveals about a perturbed one: a fact of the file that no matrix can hide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

GUESSED, SETTLED, SAME = 0.5, 0.01, 0.9
"""From which value of a measure on a curator is warned; conventions, not theorems."""
EXCLUDED = 1 / 3
"""From which mean share of values that are ruled out for certain on a curator is warned."""
RULED, HALF = 0.05, 0.5
"""From which share of records on a curator is warned of whom values are ruled out that so many of all records have."""
NEARLY = 0.9
"""From which share of wrong guesses that become right on a plan must decide."""
MOST = 0.5
"""From which share of settled records on a plan must decide; less is common: that children have no job, say."""
MOSTLY = 0.75
"""Of what two variables together add to the best guess: with so much from one of them alone, that one is named."""
LIKELY = 0.8
"""A value in clear all but settles another: it is that likely given the value, and at most half as likely without."""
SURE, RARER, OFTEN = 0.99, 5, 2 / 3
"""Or other values are so many times as rare as without it; a value that more records have must be ``SURE`` then."""
COMMON = 0.3
"""Where the guess gains less than this part of the settled records, most of them have the most common value.

A settled record of another value gains ``(n_ic - n_bc) / n_c >= 2 LIKELY - 1 = 0.6``, b being the most common value.
"""
MANY, TWICE = 20, 2
"""Settled records of a true value that it is named for, and how much more often than others it is."""
CHANCE = 1e-3
"""A value in clear settles another where the same would come about by chance with at most this probability."""


class UnperturbedWarning(UserWarning):
    """Unperturbed variables single out records, or reveal true values of perturbed variables."""


@dataclass(frozen=True, slots=True)
class PairReveal:
    """Hold how far the variable ``clear`` reveals the true value of ``perturbed``: confidential, from exact counts.

    With counts n_ic of true value i and clear value c, of n records:

    ``guessed``
        Goodman and Kruskal's λ: ``(Σ_c max_i n_ic − max_i n_i) / (n − max_i n_i)``, the share of the records that the
        most common value guesses wrongly, and the most common one given c does not (1954, §5.2).
    ``settled``
        The share of records whose c occurs with one true value i only, or nearly: ``n_ic / n_c >= 0.8`` and
        ``n_i / n <= n_ic / (2 n_c)``, or others are at least 5 times as frequent without c,
        ``1 - n_ic / n_c <= (1 - n_i / n) / 5``, and ``n_i / n <= 2/3`` or ``n_ic / n_c >= 0.99``. Values c of so few
        records that this is by chance do not count, nor do common values alone:
        ``exp(-n_c KL(n_ic / n_c, n_i / n)) > 0.001 / C`` with C values that occur, Chernoff's bound of
        ``P[Bin(n_c, n_i / n) >= n_ic]``.
    ``same``
        The largest correlation, of either sign, of an indicator of i with one of c: 1 where "c" says "i", and no
        other value does, -1 where all but "c" say it.
    ``excluded``
        The share of all records that have a value which c rules out, in the mean over the records:
        ``Σ_c n_c (1 − R_c) / n``, R_c the share of those that occur with c. By chance a c of n_c records would occur
        with so few of I values alone with a probability of at most ``2^I R_c^n_c``; it counts where this is at most
        ``0.001 / C``.
    ``ruled``
        The share of records of whom values are ruled out so that together half of all records or more have.
    ``right``, ``blind``
        The share of records for which the best guess is right with c, ``Σ_c max_i n_ic / n``, and without,
        ``max_i n_i / n``.

    All but these two are 0 where the true values, or those in clear, do not differ. ``ranges``: the true values are
    so many ranges of a number, cut at its tenths (equal values are in one); 0 where they are its values. ``where``:
    which one value in clear settles most of what is settled, and whose true value is settled most often, in words; ""
    where there is neither.
    """

    perturbed: str
    clear: str
    guessed: float
    settled: float
    same: float
    right: float = 1.0
    blind: float = 1.0
    ranges: int = 0
    excluded: float = 0.0
    ruled: float = 0.0
    where: str = ""

    @property
    def is_much(self) -> bool:
        """Whether a curator is warned."""
        return self.says_values or self.excluded >= EXCLUDED or self.ruled >= RULED

    @property
    def says_values(self) -> bool:
        """Whether it says which value is true, and not only which are not."""
        return self.guessed >= GUESSED or self.settled >= SETTLED or self.same >= SAME

    @property
    def is_certain(self) -> bool:
        """Whether the plan must decide: a value all but says another, most wrong guesses become right, or half settled.

        A value of few records that coincides with another by chance does not count.
        """
        is_one_fact = self.same >= SAME and (self.guessed >= GUESSED or self.settled >= SETTLED)
        return is_one_fact or self.settled >= MOST or self.guessed >= NEARLY

    def adds_little_to(self, one: PairReveal) -> bool:
        """Whether two variables together reveal little more than ``one`` of them alone."""
        is_one_fact = self.is_certain or self.same >= SAME
        return not is_one_fact and one.right - one.blind >= MOSTLY * (self.right - self.blind)

    @property
    def gains_little(self) -> bool:
        """Whether the best guess is no better than without it, in whole records of 100."""
        return round(100 * self.right) == round(100 * self.blind)

    @property
    def in_words(self) -> str:
        """How much better the best guess is: rounded shares, no counts."""
        source = " and ".join(self.clear.rsplit(", ", 1))
        if self.gains_little and self.settled < SETTLED and self.same >= SAME:
            rare = f"a value of {source} all but says one that few records have"
            return f"{rare}; over all records the best guess from {source} gains little"
        what = f", of the range in which {self.perturbed} lies (one of {self.ranges}, cut at its tenths),"
        what = what if self.ranges else ""
        text = f"of 100 records, the best guess from {source}{what} is right in about "
        text += f"{100 * self.right:.0f}, without in about {100 * self.blind:.0f}"
        verb = "rule" if ", " in self.clear else "rules"
        if self.excluded >= EXCLUDED and self.settled < MOST:
            text += f"; {source} {verb} out, in the mean, the values that {100 * self.excluded:.0f} of 100 records have"
        elif self.ruled >= RULED and self.settled < self.ruled:
            text += f"; for about {100 * self.ruled:.0f} of 100 records {source} {verb} out values that half of all "
            text += "records or more have"
        if self.settled < SETTLED:
            return text
        value = "range" if self.ranges else "value"
        many, likely = f"for about {100 * self.settled:.0f} of 100 records {source}", f"at least {100 * LIKELY:.0f}%"
        if self.is_certain:  # only what a plan must decide on is said to settle
            many += f" all but {'settle' if ', ' in self.clear else 'settles'} the {value}"
            likely = f"one is {likely} likely"
        else:
            many += f" {'make' if ', ' in self.clear else 'makes'} one {value} far likelier"
        if self.right - self.blind < COMMON * self.settled:
            likely += f"; for most of them the most common {value}, which is guessed without it too"
        return f"{text}; {many} ({likely}), more than chance explains{f'; {self.where}' if self.where else ''}"


def told(table: NDArray[Any], perturbed: str = "perturbed", clear: str = "clear", ranges: int = 0) -> PairReveal:
    """Return what the columns of a table of counts, (I, C), settle about its rows, which can be ``ranges`` of a number.

    >>> found = told(np.array([[50, 0, 0], [0, 30, 20]]), "sex", "title")
    >>> found.guessed, found.settled, round(found.same, 9)
    (1.0, 1.0, 1.0)
    """
    counts = np.asarray(table, dtype=np.float64)
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    if min(counts.shape) < 2:
        best = float(counts.sum(axis=1).max() / counts.sum()) if counts.size else 1.0  # a constant tells nothing
        return PairReveal(perturbed, clear, 0.0, 0.0, 0.0, best, best, ranges)
    rows, columns, n = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    most = counts.max(axis=0)
    left = (rows[:, None] * (counts > 0)).sum(axis=0) / n
    sets = rows.size * math.log(2) + math.log(columns.size / CHANCE)
    excludes = np.where(columns * -np.log(left) >= sets, 1 - left, 0.0)
    covariance = n * counts - np.outer(rows, columns)
    spread = np.sqrt(np.outer(rows * (n - rows), columns * (n - columns)))
    return PairReveal(
        perturbed,
        clear,
        guessed=float((most.sum() - rows.max()) / (n - rows.max())),
        settled=float(columns[_settling(counts)].sum() / n),
        same=float(np.abs(covariance / spread).max()),
        right=float(most.sum() / n),
        blind=float(rows.max() / n),
        ranges=ranges,
        excluded=float((columns * excludes).sum() / n),
        ruled=float(columns[excludes >= HALF].sum() / n),
    )


def one_value(table: NDArray[Any]) -> tuple[int, int] | None:
    """Return the true value and the one in clear that settles it, as places in a table of counts, (I, C).

    None where several values in clear settle, none of them ``MOSTLY`` of the settled records.

    >>> one_value(np.array([[60, 55, 0], [0, 5, 0], [40, 40, 90]])), one_value(np.array([[50, 0], [0, 50]]))
    ((2, 2), None)
    """
    counts = np.asarray(table, dtype=np.float64)
    there = counts.any(axis=0)
    if there.sum() < 2 or counts.any(axis=1).sum() < 2:
        return None
    settled = np.zeros(there.size)
    settled[there] = np.where(_settling(counts[:, there]), counts[:, there].sum(axis=0), 0.0)
    place = int(settled.argmax())
    is_one = settled[place] > 0 and settled[place] >= MOSTLY * settled.sum()
    return (int(counts[:, place].argmax()), place) if is_one else None


def hit_most(table: NDArray[np.float64] | NDArray[np.int64]) -> tuple[int, float]:
    """Return the true value whose records are settled most often, as a place in a table (I, C), and how often.

    >>> place, share = hit_most(np.array([[60, 55, 0], [0, 5, 0], [40, 40, 90]]))
    >>> place, round(share, 3)
    (2, 0.529)
    """
    counts = np.asarray(table, dtype=np.float64)
    there = np.flatnonzero(counts.any(axis=0))
    if there.size < 2 or counts.any(axis=1).sum() < 2:
        return 0, 0.0
    settled = there[_settling(counts[:, there])]
    own, rows = counts[:, settled].argmax(axis=0), counts.sum(axis=1)
    right = np.bincount(own, counts[own, settled], counts.shape[0])
    share = np.divide(right, rows, out=np.zeros_like(rows), where=right >= MANY)
    return int(share.argmax()), float(share.max())


def _settling(counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which columns of a table of counts, all of which occur, settle its rows, more than chance explains."""
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    most, top = counts.max(axis=0), counts.argmax(axis=0)
    base, sure = rows[top] / counts.sum(), most / columns
    by_chance = -columns * _divergence(sure, base) > math.log(CHANCE / columns.size)
    nearly = (most == columns) | ((sure >= LIKELY) & (base <= sure / 2))
    is_far = (1 - sure <= (1 - base) / RARER) & ((base <= OFTEN) | (sure >= SURE))
    nearly |= (sure >= LIKELY) & is_far
    return np.asarray(nearly & ~by_chance)


def _divergence(share: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Kullback-Leibler divergence of coins with these chances, 0 where ``share`` is not above ``base``."""
    left, other = 1 - share, np.maximum(1 - base, 1e-300)
    rest = left * np.log(np.where(left > 0, left / other, 1.0))
    return np.asarray(np.where(share > base, share * np.log(share / base) + rest, 0.0))
