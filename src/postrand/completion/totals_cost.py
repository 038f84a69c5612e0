"""What it costs to meet totals: how far they are from what the release says, and how many values move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.completion.totals import Totals
from postrand.mixture import Fit

LEVEL = 0.01
"""Totals are incompatible with the release where a copy without them differs by more than chance at this level."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold what meeting totals costs.

    ``distance`` are the largest standardised differences of each table, by its variables: the totals less the mean of
    the copies without them, over their standard error. ``p`` is the p-value of the largest over all cells; ``moved``
    the share of perturbed values of the first copy that differ from those of the copy without totals. ``met`` are the
    tables of unperturbed columns, which the release meets as it is.
    """

    distance: tuple[tuple[tuple[str, ...], float], ...]
    p: float
    moved: float
    met: tuple[tuple[str, ...], ...] = ()

    @property
    def compatible(self) -> bool:
        """Whether the totals are within what the release allows."""
        return self.p >= LEVEL

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to know of the totals, in words."""
        held = "; ".join(" by ".join(names) for names in self.met)
        same = (f"These totals are those of unperturbed columns, which the release meets as it is: {held}.",)
        if not self.distance:
            return same
        far = "; ".join(f"{' by '.join(names)} {size:.1f}" for names, size in self.distance)
        return (
            *(same if held else ()),
            f"Every copy meets the totals exactly; {100 * self.moved:.1f}% of the perturbed values were moved for it. "
            "Totals that were given as shares were rounded to whole records.",
            f"The totals differ from the model's by at most this many standard errors: {far}.",
            "The pooled error of these margins is that of drawing the records alone. It is right only if the totals "
            "are those of the records of this file.",
        )

    @property
    def warning(self) -> str | None:
        """A sentence where the totals and the release do not go together."""
        if self.compatible:
            return None
        names, size = max(self.distance, key=lambda one: one[1])
        return (
            f"The totals of {' by '.join(names)} are {size:.1f} standard errors from what the release says: they may "
            "be of other records. Next: compare their definition, date and population with the file's."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "tables": [{"variables": list(names), "standard_errors": round(size, 3)} for names, size in self.distance],
            "met": [list(names) for names in self.met],
            "p_value": float(f"{self.p:.6g}"),
            "share_moved": round(self.moved, 6),
            "sentences": list(self.sentences),
        }


def cost(
    fit: Fit, totals: Totals, without: Callable[[int], NDArray[np.int32]], met: Callable[[int], NDArray[np.int32]]
) -> Cost:
    """Return what meeting totals costs; ``without(i)`` and ``met(i)`` are the true codes of copy i without and with."""
    already = tuple(one.names for one in totals.met)
    if not totals:
        return Cost((), 1.0, 0.0, already)
    copies = len(fit.draws)
    tables: list[list[NDArray[np.float64]]] = [[] for _ in totals.tables]
    moved = 0.0
    for number in range(copies):
        codes = without(number)
        for found, target in zip(tables, totals.tables, strict=True):
            shape = target.counts.shape
            cells = np.ravel_multi_index(tuple(codes[:, p] for p in target.places), shape)
            found.append(np.bincount(cells, minlength=target.counts.size).reshape(shape).astype(np.float64))
        if number == 0:
            drawn = fit.evidence.exact < 0
            moved = float((codes != met(0))[drawn].mean()) if drawn.any() else 0.0
    distance: list[tuple[tuple[str, ...], float]] = []
    largest, size_of_all = 0.0, 0
    for drawn_tables, target in zip(tables, totals.tables, strict=True):
        size = float((np.abs(target.counts - np.mean(drawn_tables, axis=0)) / _error(drawn_tables)).max())
        names = tuple(fit.evidence.names[p] for p in target.places)
        distance.append((names, size))
        largest, size_of_all = max(largest, size), size_of_all + target.counts.size
    return Cost(
        tuple(distance), min(1.0, 2 * float(scipy.stats.t.sf(largest, copies - 1)) * size_of_all), moved, already
    )


def _error(drawn: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the standard error of each count over copies, at least one record.

    Few copies place a variance badly: each is averaged with what the whole table's would be in proportion to
    ``count (1 − share)``.
    """
    mean, spread = np.mean(drawn, axis=0), np.var(drawn, axis=0, ddof=1)
    expected = mean * (1 - mean / max(float(mean.sum()), 1.0))
    pooled = expected * float(spread.sum()) / max(float(expected.sum()), 1e-300)
    return np.asarray(np.sqrt(np.maximum((spread + pooled) / 2 * (1 + 1 / len(drawn)), 1.0)))
