"""Bands of numbers, of dates and of times: from one edge to the next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Reads, label_problems, spelt
from postrand.recoding.moments import UNITS, counted, moments, named
from postrand.recoding.tables import rows_of
from postrand.support.arrow import from_numpy, from_texts, to_floats
from postrand.support.inputs import finite, is_whole, listed


@dataclass(frozen=True, slots=True)
class Bands:
    """Put numbers, dates or times into bands ``[edge, next edge)``; the last band has no end.

    Parameters
    ----------
    bands
        The edges, ascending: numbers; with ``unit = "month"`` or ``"day"`` texts such as ``"2020-03"``. Or how many
        bands the quantiles of a public ``table`` give.
    labels
        A name for each band, by default ``"15-29"`` for whole edges, which is true of whole numbers.
    below
        The name of what lies below the first edge; it is refused without one.
    unit
        For dates and times: ``year``, ``month``, ``day`` or ``hour`` (of the day).
    format
        How dates are written, where they are text and not as ``2020-01-31``: ``"%d.%m.%Y"``.
    table
        The name of a public table of quantiles: a line of names, then a number and, if wanted, its weight in each row.

    Examples
    --------
    >>> age = Bands((0, 15, 30))
    >>> age.categories(), age.to_arrow(pa.array([14, 15, 80])).to_pylist()
    (('0-14', '15-29', '30+'), ['0-14', '15-29', '30+'])
    """

    name: ClassVar[str] = "bands"
    marks: ClassVar[tuple[str, ...]] = ("bands",)
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        'name what lies below: below = "lower", or begin with a lower edge, or list codes for no answer: missing = [99]'
    )
    bands: tuple[float | str, ...]
    labels: tuple[str, ...] = ()
    below: str = ""
    unit: str = ""
    format: str = ""
    table: str = ""

    def __post_init__(self) -> None:
        for field in ("bands", "labels"):
            if (held := listed(getattr(self, field))) is not None:
                object.__setattr__(self, field, held)
        raise_all(SpecificationError, _problems(self))

    @staticmethod
    def opened(options: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
        """Return the options with the edges that a table's quantiles give, unless they are there.

        Raises
        ------
        SpecificationError
            As :func:`rows_of`; or if the table holds what is no number, or too few numbers for the bands.
        """
        asked = options.get("bands", 0)
        if "table" not in options or listed(asked) is not None:
            return dict(options)
        if not is_whole(asked, 2):
            what = "'bands' is not the number of bands of the table"
            raise SpecificationError(sentence(what, got=shown(asked, repr), wanted=">= 2"))
        rows = rows_of(options["table"], folder, "table")
        return {**options, "bands": quantile_edges(rows, int(asked)), "table": Path(options["table"]).name}

    @property
    def reads(self) -> Reads:
        """Times where there is a unit, otherwise numbers."""
        return "times" if self.unit else "numbers"

    @property
    def unplaced(self) -> str:
        """Which values have no place, in words.

        >>> Bands((18, 30)).unplaced
        'below 18, where its bands begin'
        """
        return f"below {self._edge(self.edges()[0])}, where its bands begin"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the name of each value's band; see :class:`postrand.recoding.Recoding`."""
        values = moments(column, self.unit, self.format) if self.unit else to_floats(column)
        places = np.searchsorted(self.edges(), values, side="right")
        names = from_texts([self.below or None, *self._names()])
        return names.take(from_numpy(places, np.isnan(values)))

    def categories(self) -> tuple[str, ...]:
        """Return the names of the bands, ascending."""
        return (*([self.below] if self.below else []), *self._names())

    def in_words(self) -> str:
        """Return the bands.

        >>> Bands((15, 30), below="child").in_words()
        "bands from each edge to below the next: 15, 30 and more; all below 15 are 'child'"
        """
        of = f" of {self.unit}s" if self.unit else ""
        origin = f", from the quantiles of {self.table}" if self.table else ""
        edges = ", ".join(self._edge(edge) for edge in self.edges())
        below = f"; all below {self._edge(self.edges()[0])} are {self.below!r}" if self.below else ""
        return f"bands{of} from each edge to below the next: {edges} and more{below}{origin}"

    def edges(self) -> NDArray[np.float64]:
        """Return where each band begins, as a number."""
        return np.array([_place(edge, self.unit) for edge in self.bands])

    def _edge(self, place: float) -> str:
        return named(place, self.unit) if self.unit else spelt(float(place))

    def _names(self) -> tuple[str, ...]:
        if self.labels:
            return self.labels
        edges = self.edges()
        last = f"{self._edge(edges[-1])} and later" if self.unit in ("month", "day") else f"{self._edge(edges[-1])}+"
        if not all(float(edge).is_integer() for edge in edges):
            return self.open_names()
        between = " to " if edges[0] < 0 or self.unit in ("month", "day") else "-"
        ends = [(self._edge(a), self._edge(b - 1)) for a, b in pairwise(edges.tolist())]
        return (*(a if a == b else f"{a}{between}{b}" for a, b in ends), last)

    def ranges(self) -> tuple[str, ...]:
        """Return which numbers each category has, in the order of :meth:`categories`.

        >>> Bands((0, 1000), ("500", "1500"), below="-1").ranges()
        ('below 0', '0 to <1000', '1000+')
        """
        return (*([f"below {self._edge(self.edges()[0])}"] if self.below else []), *self.open_names())

    def open_names(self) -> tuple[str, ...]:
        """Return names that are true of numbers with a fraction: 999.5 is not in ``1-999``.

        >>> Bands((1, 1000, 2000)).open_names()
        ('1 to <1000', '1000 to <2000', '2000+')
        """
        edges = self.edges().tolist()
        return (*(f"{spelt(a)} to <{spelt(b)}" for a, b in pairwise(edges)), f"{spelt(edges[-1])}+")


def quantile_edges(rows: Sequence[Sequence[str]], bands: int) -> tuple[float, ...]:
    """Return the edges of so many bands with about the same weight of a table: lowest number, then quantiles.

    Edge k is the least number up to which more than the share ``k/bands`` of the weight lies. The first row has names.

    >>> quantile_edges([["pay", "persons"], ["10", "2"], ["20", "1"], ["30", "1"]], 2)
    (10.0, 20.0)
    """
    try:
        values = np.array([float(row[0]) for row in rows[1:]])
        weights = np.array([float(row[1]) if len(row) > 1 else 1.0 for row in rows[1:]])
    except ValueError:
        values, weights = np.zeros(0), np.zeros(0)
    sound = values.size and np.isfinite(values).all() and np.isfinite(weights).all() and (weights >= 0).all()
    if not sound or not weights.sum() > 0:
        what, fix = "the table is not one of numbers with weights", "write a line of names, then a number in each row"
        raise SpecificationError(sentence(what, fix=fix))
    order = np.argsort(values)
    shares = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(shares, np.arange(1, bands) / bands + 1e-12, side="left")
    edges = [float(values[order][0]), *(float(v) for v in values[order][np.minimum(at, values.size - 1)])]
    if len(set(edges)) < bands:
        what = "the table has too few different numbers for so many bands"
        raise SpecificationError(sentence(what, got=bands, fix="ask for fewer bands"))
    return tuple(edges)


def _all_are(edges: Sequence[object], unit: str) -> bool:
    """Whether all edges are dates of a unit."""
    return not any(math.isnan(_place(edge, unit)) for edge in edges)


def _place(edge: object, unit: str) -> float:
    return counted(edge, unit) if unit else finite(edge)


def _problems(kind: Bands) -> Iterable[str]:
    if kind.unit not in ("", *UNITS):
        yield sentence("unknown unit", got=shown(kind.unit, repr), wanted=", ".join(UNITS))
        return
    for field in ("below", "format", "table"):
        if not isinstance(getattr(kind, field), str):
            yield sentence(f"{field!r} is not text", got=shown(getattr(kind, field), repr))
    if kind.format and not kind.unit:
        yield sentence("'format' is for dates and times", fix='set unit = "year", or leave format out')
    if not isinstance(kind.bands, tuple) or not kind.bands:
        yield sentence("'bands' is not a list of edges", got=shown(kind.bands, repr), fix="set bands = [0, 15, 30]")
        return
    edges = [_place(edge, kind.unit) for edge in kind.bands]
    if any(math.isnan(edge) for edge in edges):
        wanted = {"month": 'texts such as "2020-03"', "day": 'texts such as "2020-03-31"'}.get(kind.unit, "numbers")
        dated = next((unit for unit in ("month", "day") if _all_are(kind.bands, unit)), "") if not kind.unit else ""
        fix = f"of dates, set unit = '{dated}'" if dated else ""
        yield sentence("an edge is not valid", got=shown(list(kind.bands)), wanted=wanted, fix=fix)
    elif any(a >= b for a, b in pairwise(edges)):
        yield sentence("the edges are not ascending", got=shown(list(kind.bands)), fix="sort them, each once")
    elif kind.labels and len(kind.labels) != len(edges):
        what = "the numbers of labels and bands differ"
        fix = "the last edge begins a band too: write a name for each, with commas between them"
        yield sentence(what, got=len(kind.labels), wanted=len(edges), fix=fix)
    else:
        yield from label_problems(kind.categories(), "a band")
