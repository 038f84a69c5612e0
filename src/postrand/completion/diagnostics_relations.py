"""Compare what perturbed variables have in common with unperturbed columns: in the copies, and by the release alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.diagnostics_means import MOST_FREE, CategoryMean, Numbers, means_of, questions_of
from postrand.completion.diagnostics_plain import number
from postrand.completion.diagnostics_tables import Places, Seen
from postrand.completion.diagnostics_unbiased import LEAST_SHARE
from postrand.completion.related import Related
from postrand.completion.related_sums import Shown, shown, true_sums, unbiased_sums
from postrand.support.progress import Stage, stage

Array = NDArray[np.float64]
ENOUGH = 3
"""Copies that the variance of unbiased sums is computed from."""
CERTAIN = 0.95
"""A pair that acts together with at least this probability is named: most have .7 before anything is seen."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Say how the copies' relation of one or two perturbed variables ``names`` to an unperturbed ``column`` differs.

    ``ratio`` is the squared difference from the unbiased sums over what a right model has on average, ``p`` the
    probability of a larger one then.
    """

    names: tuple[str, ...]
    column: str
    ratio: float
    p: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        found = {"variables": list(self.names), "column": self.column}
        return {**found, "ratio": number(self.ratio), "p_value": number(self.p)}

    def __str__(self) -> str:
        return f"{' by '.join(self.names)} with {self.column}"


_Test = TypeVar("_Test", Relation, CategoryMean)


@dataclass(frozen=True, slots=True)
class Relations:
    """Hold the relations that were compared, and ``together``: names of pairs and columns that the copies moved for.

    ``p`` is that of all together: the smallest p-value times their number (Bonferroni). ``means`` are those of numbers
    by category, and ``p_means`` their p-value.
    """

    compared: tuple[Relation, ...]
    together: tuple[str, ...]
    means: tuple[CategoryMean, ...] = ()

    @property
    def p(self) -> float:
        """The p-value of all relations together: small if the copies cannot be right."""
        return _together(self.compared)

    @property
    def p_means(self) -> float:
        """The p-value of all means by category together: small if the copies cannot be right."""
        return _together(self.means)

    def failed(self, level: float) -> list[Relation]:
        """Return the relations that differ, the clearest first, if all together do at this level."""
        return _failed(self.compared, level)

    def failed_means(self, level: float) -> list[CategoryMean]:
        """Return the means by category that differ, the clearest first, if all together do at this level."""
        return _failed(self.means, level)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "p_value": number(self.p),
            "compared": [one.to_dict() for one in self.compared],
            "together": list(self.together),
            "means": {"p_value": number(self.p_means), "compared": [one.to_dict() for one in self.means]},
        }


def _together(tests: Sequence[_Test]) -> float:
    return min([1.0, *(len(tests) * one.p for one in tests)])


def _failed(tests: Sequence[_Test], level: float) -> list[_Test]:
    return sorted((one for one in tests if one.p * len(tests) < level), key=lambda one: one.p)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Hold numbers of each record (n, D) and their squares; ``parts`` says which of them an unperturbed column is."""

    values: Array
    squares: Array
    parts: dict[str, slice]

    @classmethod
    def of(cls, each: Iterable[tuple[str, NDArray[Any]]]) -> _Columns:
        """Return the columns of each name side by side."""
        held, parts, end = [], {}, 0
        for name, columns in each:
            if columns.shape[1]:
                parts[name] = slice(end, end + columns.shape[1])
                end += columns.shape[1]
                held.append(columns)
        values = np.concatenate(held, axis=1, dtype=np.float64)
        return cls(values, values**2, parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """Ask for the sums of columns over a table of perturbed variables; ``sums`` (D, K) are those of each copy."""

    places: Places
    shows: list[Shown]
    columns: _Columns
    sums: list[Array] = field(default_factory=list)
    squares: list[Array] = field(default_factory=list)


def compare_relations(
    related: Related,
    seen: Seen,
    copies: int,
    codes: Callable[[int], NDArray[np.int32]],
    numbers: Numbers | None = None,
    labels: Sequence[Sequence[str]] = (),
) -> Relations:
    """Compare the relations of copies ``codes(i)`` with what the release alone says of them, without bias.

    Of one variable they are the records of each category in bands of a number, or categories of an unperturbed
    column; of two variables the sums of the column's scores and indicators over the records of each two categories.
    Besides there are the means of ``numbers`` in each category of one variable, ``labels`` by variable.
    """
    questions, sizes, names = list(_questions(related, seen)), seen.evidence.sizes, seen.evidence.names
    means = questions_of(numbers, related.places, seen)
    tell = stage(Stage.COPYING, copies, "copies")
    for number_ in range(copies if questions or means else 0):
        copy = codes(number_)
        tell(1)
        for one in means:
            one.add(copy, sizes)
        for asked in questions:
            asked.sums.append(true_sums(copy, asked.places, sizes, asked.columns.values))
            if number_ < ENOUGH:
                asked.squares.append(true_sums(copy, asked.places, sizes, asked.columns.squares))
    compared = [relation for asked in questions for relation in _relations(asked, names)]
    sure = [pair for pair in related.acting if pair.probability >= CERTAIN]
    together = dict.fromkeys(f"{' by '.join(names[p] for p in pair.places)} on {pair.name}" for pair in sure)
    by_category = [mean for one in means for mean in means_of(one, names[one.place], labels[one.place])]
    return Relations(tuple(compared), tuple(together), tuple(by_category))


def _questions(related: Related, seen: Seen) -> Iterator[_Question]:
    basis = related.basis
    every = [(c, name) for c, name in enumerate(related.names) if name not in basis.left_out]
    if not every:
        return
    bands = _Columns.of((name, basis.bands[:, c, None] == np.unique(basis.bands[:, c])) for c, name in every)
    lines = _Columns.of((name, basis.values[:, basis.columns(c)]) for c, name in every)
    for width, columns in ((1, bands), (2, lines)):
        for places in itertools.combinations(related.places, width):
            if shows := shown(seen, places):
                yield _Question(places, shows, columns)


def _relations(asked: _Question, names: Sequence[str]) -> Iterator[Relation]:
    """Yield ``|U − C|²/tr(V − B (1 − 1/m))`` of each column and its p-value; C, B: mean, variance of m copies' sums.

    U has the variance V given the true records, ``Σ z² c cᵀ`` less a diagonal of sums of z²; B of it the copies know.
    The ratio has nearly the F distribution of ``f = tr(V)²/tr(V²)`` degrees of freedom (Satterthwaite 1946) and, since
    m copies say only roughly what B is, ``(m − 1) tr(V − B (1 − 1/m))²/((1 − 1/m)² tr(B²))``. For few copies these are
    few; gross differences are then seen by ``|U − C|²/tr(V + B/m)``, at most ``χ²/f``. The p-value is twice the less.
    """
    unbiased, spread = unbiased_sums(asked.shows, asked.columns.values)
    second, copies = np.mean(asked.squares, axis=0), np.array(asked.sums)
    spread = spread - second[:, :, None] * np.eye(second.shape[1])
    own = np.maximum(np.diagonal(spread, axis1=1, axis2=2), 1e-12)
    m, apart = len(copies), copies - copies.mean(axis=0)
    known, between = 1 - 1 / m, copies.var(axis=0, ddof=1)
    left = np.maximum(own - between * known, LEAST_SHARE * own)
    grams = np.einsum("mdk,ndk->dmn", apart, apart, optimize=True) * known / (m - 1)
    squared = (unbiased - copies.mean(axis=0)) ** 2
    told = tuple(names[p] for p in asked.places)
    for name, part in asked.columns.parts.items():
        far, near = float(squared[part].sum()), float(left[part].sum())
        free = float(own[part].sum() ** 2 / max(float((spread[part] ** 2).sum()), 1e-300))
        loose = min((m - 1) * near**2 / max(float((grams[part] ** 2).sum()), 1e-300), MOST_FREE)
        gross = far / float((own + between / m)[part].sum())
        p = 2 * min(scipy.stats.f.sf(far / near, free, loose), scipy.stats.chi2.sf(gross * free, free))
        yield Relation(told, name, far / near, min(1.0, float(p)))
