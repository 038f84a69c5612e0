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
MAX_CELLS = 10_000
USELESS_RECORDS, USELESS_SHARE = 100, 0.01
"""A table that is worth fewer records than this, or a smaller share of the file's, is called of little use."""

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


def table_worth(
    mechanism: Mechanism, tables: Sequence[Sequence[str]], records: int, law: Law
) -> tuple[TableWorth, ...]:
    """Return the worth of each table under the shares that ``law`` gives for its variables; None is uniform."""
    return tuple(_worth(mechanism, tuple(names), records, law) for names in tables)


def _worth(mechanism: Mechanism, names: tuple[str, ...], records: int, law: Law) -> TableWorth:
    if records < 1:
        return TableWorth(names, None, records, "there are no records")
    book = mechanism.require_codebook()
    blocks = [mechanism[n].matrix.size for n in names if n not in mechanism.partly]
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
