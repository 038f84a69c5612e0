"""What a release is worth for tables of one and of two perturbed variables, in numbers of unperturbed records."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import PostrandError
from postrand.estimate.planning import expected_precision
from postrand.mechanism import Mechanism
from postrand.report.values import MAX_ESTIMATED

MAX_PAIRED = 16
"""Tables of two are computed for so many variables: 120 of them."""
MAX_CROSSED = 6
"""Unperturbed variables whose tables with perturbed ones are computed."""
MAX_CELLS = 10_000
MAX_LINES = 8
USELESS_RECORDS, USELESS_SHARE = 100, 0.01
"""A table that is worth fewer records than this, or a smaller share of the file's, is called of little use."""

TABLES = "What tables of perturbed variables are worth"
TABLES_CAPTION = (
    "How many unperturbed records would give the table as precisely, by the tables of the file. “Of little use”: fewer "
    f"than {USELESS_RECORDS} records, or less than {USELESS_SHARE:.0%} of the file.",
)

Law = Callable[[Sequence[str]], NDArray[np.float64] | None]


@dataclass(frozen=True, slots=True)
class TableWorth:
    """Say what the release is worth for one table: ``effective_records`` unperturbed ones, or ``why`` it is unknown."""

    variables: tuple[str, ...]
    effective_records: float | None
    records: int
    why: str = ""

    @property
    def name(self) -> str:
        """The table's variables."""
        return " × ".join(self.variables)

    @property
    def is_of_little_use(self) -> bool:
        """Whether the release says almost nothing of this table."""
        return self.effective_records is None or little_use(self.effective_records, self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"table": list(self.variables), "effective_records": self.effective_records}
        return {**about, "of_little_use": self.is_of_little_use, **({"why": self.why} if self.why else {})}


def little_use(effective: float, records: int) -> bool:
    """Return whether so many effective records are too few for a useful table.

    >>> little_use(99, 1_000), little_use(150, 20_000), little_use(400, 20_000)
    (True, True, False)
    """
    return effective < min(USELESS_RECORDS, records) or effective < USELESS_SHARE * records


def pairs_of(variables: Sequence[str], codebook: Codebook) -> tuple[tuple[str, ...], ...]:
    """Return the tables of two of the first ``MAX_PAIRED`` variables that have at most ``MAX_CELLS`` cells."""
    pairs = itertools.combinations(variables[:MAX_PAIRED], 2)
    return tuple(pair for pair in pairs if math.prod(codebook[name].size for name in pair) <= MAX_CELLS)


def crossed_of(perturbed: Sequence[str], unperturbed: Sequence[str], codebook: Codebook) -> tuple[tuple[str, ...], ...]:
    """Return the tables of one of the first perturbed and one of the first unperturbed variables."""
    clear = [name for name in unperturbed if codebook[name].is_categorical][:MAX_CROSSED]
    pairs = itertools.product(perturbed[:MAX_PAIRED], clear)
    return tuple(pair for pair in pairs if math.prod(codebook[name].size for name in pair) <= MAX_CELLS)


def table_worth(
    mechanism: Mechanism, tables: Sequence[Sequence[str]], records: int, law: Law
) -> tuple[TableWorth, ...]:
    """Return the worth of each table under the shares that ``law`` gives for its variables; None is uniform."""
    return tuple(_worth(mechanism, tuple(names), records, law) for names in tables)


def _worth(mechanism: Mechanism, names: tuple[str, ...], records: int, law: Law) -> TableWorth:
    if records < 1:
        return TableWorth(names, None, records, "there are no records")
    for unit, shared in mechanism.shared.items():
        if not {*shared}.isdisjoint(names):
            return TableWorth(names, None, records, f"all records of a {unit} share one draw of its values")
    book = mechanism.require_codebook()
    blocks = [block.matrix.size for block in mechanism.blocks if not {*block.perturbed}.isdisjoint(names)]
    largest = max([*blocks, *(book[name].size for name in names)])
    if largest > MAX_ESTIMATED:
        return TableWorth(names, None, records, f"its block has more than {MAX_ESTIMATED:,} categories")
    try:
        found = expected_precision(mechanism, names, records, law(names)).effective_sample_size
    except PostrandError as error:
        return TableWorth(names, None, records, str(error))
    return TableWorth(names, min(found, float(records)) if math.isfinite(found) else None, records)


def middle(worths: Sequence[TableWorth]) -> tuple[float, float] | None:
    """Return the least and the median effective records of tables; None where none is known."""
    known = [one.effective_records for one in worths if one.effective_records is not None]
    return (min(known), statistics.median(known)) if known else None


def shown(effective: float | None) -> str:
    """Return effective records as text.

    >>> shown(2.61), shown(182.4), shown(None)
    ('2.6', '182', 'not known')
    """
    return "not known" if effective is None else f"{effective:.2g}" if effective < 9.95 else f"{effective:,.0f}"


def worth_line(what: str, worths: Sequence[TableWorth]) -> Iterator[str]:
    """Yield one line on several tables: the least, the median, and a word where they are of little use."""
    found = middle(worths)
    if found is None:
        return
    poor = sum(one.is_of_little_use for one in worths)
    text = f"{what}: worth {shown(found[0])} unperturbed records at least, {shown(found[1])} in the middle"
    yield text + (f"; {poor} of {len(worths)} of little use" if poor else "")


def two_way_lines(worths: Sequence[TableWorth]) -> Iterator[str]:
    """Yield lines on the tables of two variables of a release, the least useful first."""
    if not worths:
        return
    yield from worth_line(f"{worths[0].records:,} released records, tables of two perturbed variables", worths)
    order = sorted(worths, key=lambda one: one.effective_records or 0.0)
    for one in order[:MAX_LINES]:
        poor = " (of little use)" if one.is_of_little_use else ""
        yield f"  {one.name}: {one.why or shown(one.effective_records)}{poor}"
    if len(order) > MAX_LINES:
        yield f"  and {len(order) - MAX_LINES:,} more tables, worth more"


def uniform(_: Sequence[str]) -> None:
    """Return no shares: every combination of values is taken as equally likely, which says nothing of a file."""


def two_way(mechanism: Mechanism, records: int) -> list[TableWorth]:
    """Return the worth of the tables of two variables of blocks, the least first: it follows from the release alone.

    Those of a split are in its own tables.
    """
    names = [name for name in mechanism.variables if name not in mechanism.partly]
    found = table_worth(mechanism, pairs_of(names, mechanism.require_codebook()), records, uniform)
    return sorted(found, key=lambda one: one.effective_records or 0.0)


def worth_rows(tables: Sequence[TableWorth]) -> list[dict[str, object]]:
    """Return the rows of a page on the worth of tables."""
    return [
        {
            "Table": one.name,
            "Unperturbed records it is worth": one.why or shown(one.effective_records),
            "Of the file's": f"{one.records:,}",
            "Note": "of little use" if one.is_of_little_use else "",
        }
        for one in tables
    ]
