"""What a risk measure is: a name, what it needs, and a result that shows itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from postrand.errors import UsageError, sentence
from postrand.risk.cells import FloatArray
from postrand.risk.file import RiskFile
from postrand.support.inputs import finite
from postrand.support.showing import SMALL, outward, unshown

Cost = Literal["counts", "model", "long"]
"""What a measure costs: counts alone, which even large files have at once; a fitted model; or a long simulation."""

HIGH = 0.2
"""A risk above this is called high where nothing else is said."""

SHOWN = 50
"""Rows of a table that text and JSON show."""


class Least(float):
    """A figure of which more is safer: text rounds it down, and every other one up.

    >>> shown(Least(1.9987)), shown(0.9981)
    ('1.99', '0.999')
    """

    __slots__ = ()


class Count(int):
    """A number of records, persons or cells. Text and JSON show 1 to 4 as fewer than 5; the value itself is exact.

    >>> shown(Count(3)), shown(Count(12)), shown(3)
    ('fewer than 5', '12', '3')
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure: its name in JSON, its name for people, the value, and what it means."""

    key: str
    label: str
    value: int | float | str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Count values of 0 to 1 in bins ``edges[k] <= value < edges[k+1]``; the last bin has its upper edge too.

    >>> print(Histogram.of(np.array([0.0, 0.3, 1.0] * 5), "persons", edges=(0.0, 0.5, 1.0)).text())
    risk of    to    persons
       0      0.5         10  ####################
     0.5        1          5  ##########
    """

    unit: str
    edges: tuple[float, ...]
    counts: tuple[Count, ...]

    @classmethod
    def of(
        cls,
        values: FloatArray,
        unit: str,
        edges: tuple[float, ...] = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
    ) -> Histogram:
        """Count ``values``, each of 0 to 1; ``unit`` names what is counted."""
        place = np.searchsorted(np.array(edges[1:-1]), values, "right")
        counted = np.bincount(place, minlength=len(edges) - 1)
        return cls(unit, edges, tuple(Count(c) for c in counted.tolist()))

    def lengths(self) -> tuple[float, ...]:
        """Return the length of each bar, the longest being 1; counts of 1 to 4 have the length of 5."""
        shown = [max(int(c), SMALL) if c else 0 for c in self.counts]
        most = max(shown, default=0)
        return tuple(c / most if most else 0.0 for c in shown)

    def labels(self) -> tuple[str, ...]:
        """Return each count as text, 1 to 4 as ``<5``."""
        return tuple(f"<{SMALL}" if 0 < c < SMALL else f"{c:,}" for c in self.counts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, counts of 1 to 4 as ``"<5"``."""
        return {"unit": self.unit, "edges": list(self.edges), "counts": [plain(c) for c in self.counts]}

    def text(self, width: int = 20) -> str:
        """Return one line for each bin, with a bar."""
        lines = [f"{'risk of':>7} {'to':>5} {self.unit:>10}"]
        for low, high, said, length in zip(self.edges, self.edges[1:], self.labels(), self.lengths(), strict=False):
            lines.append(f"{low:>7g} {high:>5g} {said:>10}  {'#' * math.ceil(width * length)}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What one measure found in one file: figures, a table, a histogram, notes; for use inside the agency.

    ``table`` holds rows of one set of headings. ``records_at`` (n,) is the risk of each record: it is left out of
    ``repr``, text and JSON, which show counts of 1 to 4 as fewer than 5.
    """

    measure: str
    title: str
    facts: tuple[Fact, ...]
    table: tuple[Mapping[str, object], ...] = ()
    histogram: Histogram | None = None
    notes: tuple[str, ...] = ()
    records_at: FloatArray | None = field(default=None, repr=False)

    def __getitem__(self, key: str) -> int | float | str:
        """Return the exact value of a figure by its name in JSON."""
        return next(fact.value for fact in self.facts if fact.key == key)

    def rows(self) -> list[dict[str, object]]:
        """Return the figures as rows, exact: ``Measure``, ``Value``, ``What it means``."""
        return [{"Measure": f.label, "Value": f.value, "What it means": f.meaning} for f in self.facts]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; the table is cut after 50 rows."""
        return {
            "measure": self.measure,
            "facts": {fact.key: plain(fact.value) for fact in self.facts},
            "table": [{name: plain(value) for name, value in row.items()} for row in self.table[:SHOWN]],
            "histogram": None if self.histogram is None else self.histogram.to_dict(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Return the result as text."""
        lines = [f"{self.title} ({self.measure})"]
        width = max((len(fact.label) for fact in self.facts), default=0)
        lines += [f"  {fact.label:<{width}}  {shown(fact.value)}" for fact in self.facts]
        more = unshown(len(self.table), SHOWN)
        lines += [f"  {line}" for line in _table_lines(self.table[: len(self.table) - more])]
        lines += [f"  ... and {more:,} more rows"] * bool(more)
        if self.histogram is not None:
            lines += [f"  {line}" for line in self.histogram.text().split("\n")]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


class RiskMeasure(Protocol):
    """One way to measure how identifiable the records of a file are. A member is a frozen dataclass of its options.

    ``name`` is what a curator types, ``title`` heads the result, ``meaning`` is one sentence in plain English.
    ``supports`` never raises; ``measure`` raises UsageError with its sentence where it is not None. The result does not
    depend on the order of records and categories, up to ``tolerance``, relative: what is fitted, or drawn, is near.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str]
    cost: ClassVar[Cost]
    tolerance: ClassVar[float]

    def supports(self, file: RiskFile) -> str | None:
        """Return why the file cannot be measured, as a sentence with the next step, or None where it can."""
        ...

    def measure(self, file: RiskFile) -> Measured:
        """Measure the file; raises UsageError where ``supports`` has a sentence."""
        ...


def require(measure: RiskMeasure, file: RiskFile) -> None:
    """Raise UsageError with the sentence of a measure that does not support the file."""
    problem = measure.supports(file)
    if problem is not None:
        raise UsageError(problem)


def first(*tests: tuple[bool, Callable[[], str]]) -> str | None:
    """Return the sentence of the first test that is true, or None."""
    return next((say() for failed, say in tests if failed), None)


def wildcards(what: str) -> str:
    """Return the sentence of a measure that needs every key value."""
    return sentence(
        f"{what} needs complete keys, but here a missing key matches every value", fix="set missing='category'"
    )


def check_threshold(value: object) -> None:
    """Raise UsageError unless a threshold of risk is a number of 0 to 1."""
    if not 0 <= finite(value) <= 1:
        raise UsageError(sentence("the threshold is outside its range", got=repr(value), wanted="0..1"))


def spread(risk: FloatArray, who: str, threshold: float, key: str = "") -> tuple[Fact, ...]:
    """Return mean, largest, and the number above a threshold as figures; ``who`` are the persons or households."""
    mean, most = (float(risk.mean()), float(risk.max())) if risk.size else (0.0, 0.0)
    return (
        Fact(f"{key}mean", "Mean risk", mean),
        Fact(f"{key}largest", "Largest risk", most),
        Fact(f"{key}high", f"{who[:1].upper()}{who[1:]} above {threshold:g}", Count((risk > threshold).sum())),
    )


def plain(value: object) -> object:
    """Return a value for JSON: counts of 1 to 4 as ``"<5"``, what is not finite as None."""
    if isinstance(value, Count):
        return f"<{SMALL}" if 0 < value < SMALL else int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def shown(value: object) -> str:
    """Return a value as text: counts of 1 to 4 as fewer than 5, other numbers to three digits, on the safe side."""
    if isinstance(value, Count) and 0 < value < SMALL:
        return f"fewer than {SMALL}"
    if isinstance(value, int):
        return f"{int(value):,}"
    if isinstance(value, float):
        return outward(value, up=not isinstance(value, Least))
    return "not known" if value is None else str(value)


def _table_lines(rows: Sequence[Mapping[str, object]]) -> list[str]:
    if not rows:
        return []
    lines = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(
            f"{c:<{w}}" if k == 0 else f"{c:>{w}}" for k, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
