"""A printed number of a paper beside the one recomputed here, with a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

Value = float | str | tuple[float, ...]
AGREES, WITHIN, CHECK = "agrees", "within the range", "shown"
EXPLAINED, OPEN, MISSING = "explained", "not explained", "not recomputable"
COUNTED = {
    AGREES: "agree",
    WITHIN: "in the range of redrawn files",
    EXPLAINED: "differ and are explained",
    OPEN: "differ and are not explained",
    MISSING: "cannot be recomputed",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One printed value.

    ``value`` recomputes it: a number, a text, or numbers of several redrawn files where the paper's own file is not
    printed; None where it cannot be recomputed. ``why`` explains a difference, or why there is no value. ``slow``
    values are recomputed by ``make papers`` and not by the tests. ``check`` is no printed value of its own: it
    shows that the explanation above gives the printed value. ``redrawn``: the value is of other data than the paper's,
    and the printed one cannot be recomputed.
    """

    where: str
    what: str
    printed: str
    value: Callable[[], Value] | None = None
    why: str | Callable[[], str] = ""
    slow: bool = False
    unexplained: bool = False
    check: bool = False
    redrawn: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of ours: its first cells, and what computes the others.

    The first ``steady`` of them are the same on every machine, or all. ``slow`` as for an :class:`Item`.
    """

    start: str
    cells: Callable[[], Sequence[str]]
    steady: int | None = None
    slow: bool = False

    def line(self, steady: bool = False) -> str:
        """Return the row, or of it what is the same on every machine."""
        cells = self.cells()[: self.steady if steady else None]
        return f"{self.start}{' | '.join(cells)} |"


def headed(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]


def row(item: Item) -> tuple[str, str]:
    """Return the verdict, and the row of the table.

    Raises
    ------
    ValueError
        If a value differs without an explanation, or agrees in spite of one: the page would say what is not so.
    """
    value = item.value() if item.value is not None else None
    verdict = MISSING if value is None else _verdict(item, value)
    if (verdict in (EXPLAINED, OPEN, MISSING)) != bool(item.why):
        raise ValueError(f"{item.where}, {item.what}: got {value!r}, printed {item.printed}, explanation {item.why!r}")
    why = item.why() if callable(item.why) else item.why
    said = f"{verdict}: {why}" if why else verdict
    if item.check:
        return CHECK, f"{start(item)}{shown(item, value)} | shows it |"
    return verdict, f"{start(item)}{'' if value is None else shown(item, value)} | {said} |"


def start(item: Item) -> str:
    """Return the cells of the row that need no computation."""
    return f"| {item.where} | {item.what} | {item.printed} | "


def shown(item: Item, value: Value) -> str:
    """Return a value with up to two digits more than the printed one has; of several files the range and the median."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        least, most, middle = (_digits(item, v) for v in (min(value), max(value), median(value)))
        return f"{least} to {most}, median {middle}"
    return _digits(item, value)


def table(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of the table, below the counts of the verdicts."""
    counts = Counter(verdict for verdict, _ in rows)
    said = ", ".join(f"{counts[v]} {text}" for v, text in COUNTED.items() if counts[v])
    head = ["| in the paper | quantity | printed | recomputed | verdict |", "| --- | --- | --- | --- | --- |"]
    return [f"{len(rows) - counts[CHECK]} printed values: {said}.", "", *head, *(line for _, line in rows)]


def _verdict(item: Item, value: Value) -> str:
    differs = OPEN if item.unexplained else EXPLAINED
    if item.redrawn:
        return MISSING
    if isinstance(value, str):
        return AGREES if value == item.printed else differs
    half = _unit(item) / 2 * (1 + 1e-9)
    printed = float(_number(item))
    if isinstance(value, tuple):
        return WITHIN if min(value) - half <= printed <= max(value) + half else differs
    return AGREES if abs(value - printed) <= half else differs


def _number(item: Item) -> Decimal:
    return Decimal(item.printed.removesuffix("%").removeprefix("about ").replace(",", ""))


def _unit(item: Item) -> float:
    return float(Decimal(1).scaleb(int(_number(item).as_tuple().exponent)))


def _digits(item: Item, value: float) -> str:
    number, percent = _number(item), "%" if item.printed.endswith("%") else ""
    if "e" in item.printed:
        return f"{value:.{len(number.as_tuple().digits) + 1}e}"
    places = max(0, -int(number.as_tuple().exponent))
    text = f"{round(value, places + 2) + 0.0:.{places + 2}f}"  # no minus sign before a zero
    spare = len(text) - len(text.rstrip("0"))
    return f"{text[: len(text) - min(spare, 2)].removesuffix('.')}{percent}"
