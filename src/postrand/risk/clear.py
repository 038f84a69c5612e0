"""What variables released in clear settle about those that are perturbed: facts of the file that no law can hide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.table import ContingencyTable

MAX_PAIR_CELLS = 100_000
MAX_PAIRS = 1_000
"""One pass over the file a pair: so many of them at most, and pairs of at most so many cells."""
GUESSED, SETTLED, SAME = 0.5, 0.01, 0.9
"""From which value of a measure on a curator is warned; conventions, not theorems."""
CHANCE = 1e-3
"""A value in clear settles another where the same would come about by chance with at most this probability."""


class ClearWarning(UserWarning):
    """Variables released in clear settle true values of perturbed ones."""


@dataclass(frozen=True, slots=True)
class Told:
    """Hold how far the variable ``clear`` settles the true value of ``perturbed``: confidential, from exact counts.

    With counts n_ic of true value i and clear value c, of n records:

    ``guessed``
        Goodman and Kruskal's λ: ``(Σ_c max_i n_ic − max_i n_i) / (n − max_i n_i)``, the share of the records that the
        most common value guesses wrongly, and the most common one given c does not (1954, §5.2).
    ``settled``
        The share of records whose c occurs with one true value i only. Values c of so few records that they had one
        by chance, ``(n_i / n)^n_c > 0.001 / C`` with C values that occur, do not count, nor do common values alone.
    ``same``
        The largest correlation of an indicator of i with one of c: 1 where "c" says "i", and no other value does.

    All are 0 where the true values do not differ.
    """

    perturbed: str
    clear: str
    guessed: float
    settled: float
    same: float

    @property
    def is_much(self) -> bool:
        """Whether a curator is warned."""
        return self.guessed >= GUESSED or self.settled >= SETTLED or self.same >= SAME


def told(table: NDArray[Any], perturbed: str = "perturbed", clear: str = "clear") -> Told:
    """Return what the columns of a table of counts, (I, C), settle about its rows.

    >>> found = told(np.array([[50, 0, 0], [0, 30, 20]]), "sex", "title")
    >>> found.guessed, found.settled, round(found.same, 9)
    (1.0, 1.0, 1.0)
    """
    counts = np.asarray(table, dtype=np.float64)
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    if min(counts.shape) < 2:
        return Told(perturbed, clear, 0.0, 0.0, 0.0)
    rows, columns, n = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    most, top = counts.max(axis=0), counts.argmax(axis=0)
    by_chance = columns * np.log(rows[top] / n) > math.log(CHANCE / columns.size)
    covariance = n * counts - np.outer(rows, columns)
    spread = np.sqrt(np.outer(rows * (n - rows), columns * (n - columns)))
    return Told(
        perturbed,
        clear,
        guessed=float((most.sum() - rows.max()) / (n - rows.max())),
        settled=float(columns[(most == columns) & ~by_chance].sum() / n),
        same=float((covariance / spread).max()),
    )


@dataclass(frozen=True, slots=True)
class Disclosed:
    """Hold what variables in clear tell of perturbed ones, pair by pair, and how many pairs were ``left_out``."""

    pairs: tuple[Told, ...] = ()
    left_out: int = 0

    @property
    def worst(self) -> list[Told]:
        """The pairs, those that a curator is warned of first."""
        return sorted(self.pairs, key=lambda t: (not t.is_much, -max(t.guessed, t.settled, t.same)))

    @property
    def warning(self) -> str:
        """The pairs that are much, by the names of the variables alone; empty where there are none."""
        much: dict[str, list[str]] = {}
        for pair in self.pairs:
            if pair.is_much:
                much.setdefault(pair.perturbed, []).append(pair.clear)
        named = "; ".join(f"{name} by {', '.join(clear)}" for name, clear in much.items())
        what = "variables released in clear settle true values of perturbed ones, which no epsilon of theirs prevents"
        return f"{what}: {named}; drop those in clear, or perturb them too" if named else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"pairs": [asdict(pair) for pair in self.worst], "left_out": self.left_out}


def told_by_clear(
    codebook: Codebook,
    perturbed: Sequence[str],
    released: Iterable[str],
    count: Callable[[Sequence[str]], ContingencyTable],
) -> Disclosed:
    """Return what each other categorical variable that is ``released`` settles about each of ``perturbed``.

    ``count`` counts two variables. Pairs with too many cells, or beyond so many pairs, are left out.
    """
    clear = [name for name in released if name not in perturbed and codebook[name].is_categorical]
    pairs = [(p, c) for p in perturbed for c in clear]
    small = [(p, c) for p, c in pairs if codebook[p].size * codebook[c].size <= MAX_PAIR_CELLS][:MAX_PAIRS]
    return Disclosed(tuple(told(count(pair).dense(), *pair) for pair in small), len(pairs) - len(small))
