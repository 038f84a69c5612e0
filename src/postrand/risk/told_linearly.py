"""What several unperturbed numbers together say of a perturbed one: sums, means, differences and scores of them.

Least squares find them: a number that others make with any weights, rounded or not, is guessed from these. What the
guess is worth is then measured as that of every other column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.risk.linked import Column, columns_of
from postrand.risk.reveals import GUESSED, MOST, SAME, PairReveal, told
from postrand.risk.sample import Sampled
from postrand.risk.singled import Codes
from postrand.risk.telling import RANKED_BINS, RECORDS_A_CELL, classes, cut_in, table_of, told_pairs

Floats = NDArray[np.float64]
Names = tuple[str, ...]
MAX_NUMBERS = 40
"""So many unperturbed numbers are tried together, and so many perturbed ones."""
FITTED, RECORDS_A_NUMBER = 4_000, 20
"""Records that the weights are fitted to, and the least for each number."""
FAR, KEPT, STEPS = 2.5, 0.75, 4
"""Codes for no answer fit no sum: the weights are fitted without values so many quartile ranges from the median, and
again to the records that they fit best."""
DIGITS = 6
"""Sums that differ by less are the same."""
LOST = 0.002
"""A column is not named without which the guess is right for fewer records by at most this share."""


def told_linearly(
    sample: Sampled,
    columns: Mapping[str, Column],
    coded: Collection[str],
    perturbed: Sequence[str],
    clear: Sequence[str],
    known: Sequence[PairReveal],
) -> Iterator[tuple[Names, PairReveal]]:
    """Yield for each perturbed number the unperturbed ones that make it, and how good the guess from them is.

    ``columns`` are all of these; ``known`` what fewer columns reveal: what adds little to that is left out, and a
    variable of which the plan must decide anyway. Less than half of the values is not told: most numbers say something
    of others.
    """
    numbers = {name: values for name in clear if (values := _values(columns[name])) is not None}
    for name in [name for name in perturbed if name in columns][:MAX_NUMBERS]:
        others = [pair for pair in known if pair.perturbed == name]
        target = None if any(pair.is_certain for pair in others) else _Target.of(sample, columns, name, coded)
        if target is None or not (used := _present(numbers, target.values)):
            continue
        some = _spread(used, numbers, target.values)
        if some.size < RECORDS_A_NUMBER * len(used):
            continue
        guess = _Guess.fitted(used, numbers, target, some)
        if not _is_much(guess.worth(target, numbers, some)):
            continue
        guess = _shortest(guess, numbers, target, some)
        found = guess.worth(target, numbers)
        best = max(others, key=lambda pair: pair.right, default=None)
        if len(guess.names) > 1 and _is_much(found) and (best is None or not found.adds_little_to(best)):
            yield guess.names, found


def told_all(
    sample: Sampled, coded: Collection[str], perturbed: Sequence[str], clear: Sequence[str]
) -> tuple[tuple[PairReveal, ...], list[tuple[Names, PairReveal]]]:
    """Return what each unperturbed column reveals, and what only several together do: two, or a sum or score of more.

    All of them are as :func:`told_pairs` and :func:`told_linearly` say, where no link between them is known.
    """
    pairs, joint, *_ = told_pairs(sample, coded, perturbed, clear)
    columns = columns_of(sample, list(dict.fromkeys([*perturbed, *clear])))
    known = [*pairs, *(found for _, found in joint)]
    return pairs, [*joint, *told_linearly(sample, columns, coded, perturbed, clear, known)]


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """Hold a perturbed number: its values (n,), NaN where missing, its classes, and where one ends in its values."""

    name: str
    values: Floats
    classes: Codes
    order: NDArray[np.intp]
    edges: Floats
    ranges: int

    @classmethod
    def of(cls, sample: Sampled, columns: Mapping[str, Column], name: str, coded: Collection[str]) -> _Target | None:
        """Return it; None of what is no number, or has classes that are no ranges of it."""
        values, held = _values(columns[name]), classes(sample, name, name in coded, RANKED_BINS)
        if values is None or held is None:
            return None
        codes, size = held
        there = np.isfinite(values)
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, codes[there], values[there])
        np.maximum.at(high, codes[there], values[there])
        order = np.flatnonzero(np.isfinite(low))
        order = order[np.argsort(low[order], kind="stable")]
        if order.size < 2 or (high[order][:-1] >= low[order][1:]).any():
            return None
        edges = (high[order][:-1] + low[order][1:]) / 2
        return cls(name, values, held, order, edges, cut_in(sample, name, held))


@dataclass(frozen=True, slots=True, eq=False)
class _Guess:
    """Hold ``a + Σ w_j c_j`` of the numbers c that are named."""

    names: Names
    weights: Floats
    constant: float

    @classmethod
    def fitted(
        cls, names: Sequence[str], numbers: Mapping[str, Floats], target: _Target, some: NDArray[np.intp]
    ) -> _Guess:
        """Return the weights of least squares, fitted again to the records ``some`` that they fit best."""
        held, values = np.stack([numbers[name][some] for name in names], axis=1), target.values[some]
        low, middle, high = np.quantile(held, (0.25, 0.5, 0.75), axis=0)
        scale = np.where(high > low, high - low, held.std(axis=0))
        scale[scale == 0] = 1.0
        design = np.column_stack([np.ones(len(some)), (held - middle) / scale])
        kept = ((np.abs(design[:, 1:]) <= FAR) | (high == low)).all(axis=1)
        kept |= kept.mean() < 0.5
        made = []
        for _ in range(STEPS):  # of rare values the records that fit best have none: the first fit is then the best
            part = design[kept]
            found = np.linalg.lstsq(part.T @ part, part.T @ values[kept], rcond=1e-12)[0]
            weights = found[1:] / scale
            made.append(cls(tuple(names), weights, float(found[0] - weights @ middle)))
            rest = np.abs(values - design @ found)
            kept = rest <= np.quantile(rest, KEPT)
        return max(made, key=lambda guess: guess.worth(target, numbers, some).right)

    def worth(self, target: _Target, numbers: Mapping[str, Floats], some: NDArray[np.intp] | None = None) -> PairReveal:
        """Return how good the guess is, over all records or some of them; where a number is missing, there is none.

        Few different sums are compared one by one, so that it does not matter which function of dummies it is.
        """
        at = slice(None) if some is None else some
        guessed = self.constant + sum(w * numbers[name][at] for name, w in zip(self.names, self.weights, strict=True))
        own, seen = np.unique(np.round(guessed, DIGITS), return_inverse=True, equal_nan=True)
        if own.size * RECORDS_A_CELL > guessed.size:
            seen = np.where(np.isfinite(guessed), np.searchsorted(target.edges, guessed), target.order.size)
        codes, size = target.classes
        table = table_of((codes[at], size), (seen.astype(np.int64), int(seen.max()) + 1))
        return told(table, target.name, ", ".join(self.names), target.ranges)


def _shortest(guess: _Guess, numbers: Mapping[str, Floats], target: _Target, some: NDArray[np.intp]) -> _Guess:
    """Return a guess from fewer columns that is about as good: those with small weights are left out first."""
    spread = np.array([np.nanstd(numbers[name]) for name in guess.names])
    best = guess.worth(target, numbers, some).right
    for name in [guess.names[j] for j in np.argsort(np.abs(guess.weights) * spread, kind="stable")]:
        rest = [one for one in guess.names if one != name]
        fewer = _Guess.fitted(rest, numbers, target, some) if rest else guess
        if fewer.worth(target, numbers, some).right >= best - LOST:
            guess = fewer
    return guess


def _is_much(found: PairReveal) -> bool:
    return found.guessed >= GUESSED or found.same >= SAME or found.settled >= MOST


def _values(column: Column) -> Floats | None:
    """Return the values of a column of numbers, or the codes of one with two values, NaN where missing."""
    if column.numbers is not None:
        return column.numbers
    return np.where(column.codes < 0, np.nan, column.codes) if column.size == 2 else None


def _present(numbers: Mapping[str, Floats], values: Floats) -> list[str]:
    """Return the columns, those with most values first, that half of the values of a variable have beside them."""
    there, used = np.isfinite(values), list[str]()
    least = there.sum() / 2
    for name in sorted(numbers, key=lambda name: -int(np.isfinite(numbers[name]).sum())):
        with_it = there & np.isfinite(numbers[name])
        if with_it.sum() >= least and len(used) < MAX_NUMBERS:
            there, used = with_it, [*used, name]
    return [name for name in numbers if name in used] if len(used) > 1 else []


def _spread(used: Sequence[str], numbers: Mapping[str, Floats], values: Floats) -> NDArray[np.intp]:
    """Return some of the records that have all of these, from the first to the last."""
    there = np.flatnonzero(np.isfinite(values) & np.all([np.isfinite(numbers[name]) for name in used], axis=0))
    return there[:: max(1, -(-there.size // FITTED))]
