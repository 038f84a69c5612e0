"""Levels of a hierarchy, such as regions or occupations, from a table as ARX reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Reads, key_of, label_problems
from postrand.recoding.tables import rows_of
from postrand.support.arrow import from_texts
from postrand.support.inputs import is_whole


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Replace each value by what stands for it at a level of a hierarchy: 0 is the value itself, 1 the next, ...

    ``hierarchy`` names the table: a row for each value, ``value;level 1;level 2;...``, no line of names. ``table``
    holds what of it is used, the pairs of value and new name.

    Examples
    --------
    >>> area = Hierarchy("nuts.csv", 1, {"DE11": "DE1", "DE12": "DE1", "FR10": "FR1"})
    >>> area.to_arrow(pa.array(["FR10", "DE12"])).to_pylist(), area.categories()
    (['FR1', 'DE1'], ('DE1', 'FR1'))
    """

    name: ClassVar[str] = "hierarchy"
    marks: ClassVar[tuple[str, ...]] = ("hierarchy",)
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = "add a line for each of these values to the CSV file of the hierarchy"
    hierarchy: str
    level: int
    table: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        held = self.table.items() if isinstance(self.table, Mapping) else self.table
        object.__setattr__(self, "table", tuple((value, name) for value, name in held))
        raise_all(SpecificationError, _problems(self))

    @staticmethod
    def opened(options: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
        """Return the options with the pairs of the table's level, unless they are there; raises as :func:`rows_of`."""
        if "table" in options:
            return dict(options)
        rows = rows_of(options.get("hierarchy"), folder, "hierarchy")
        where, level = str(options["hierarchy"]), options.get("level", 0)
        if not is_whole(level, 1) or level >= len(rows[0]):
            wanted = f"1..{len(rows[0]) - 1}"
            what = "the hierarchy does not have this level"
            raise SpecificationError(sentence(what, where=where, got=shown(level, repr), wanted=wanted))
        if _names_columns(rows):
            what = "the first row seems to name the columns, and would be one more category"
            fix = "remove this row; if it is no heading but a value of the column, move it to a later row"
            raise SpecificationError(sentence(what, where=where, fix=fix))
        found: dict[str, str] = {}
        for number, row in enumerate(rows, 1):
            if row[0] in found:
                raise SpecificationError(sentence("the value has a row already", where=f"{where}, row {number}"))
            found[row[0]] = row[level]
        return {**options, "hierarchy": Path(where).name, "table": found}

    @property
    def reads(self) -> Reads:
        """Any values."""
        return "values"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return what stands for each value at the level; see :class:`postrand.recoding.Recoding`."""
        found = dict(self.table)
        return from_texts([found.get(key_of(v)) for v in column.to_pylist()])

    def categories(self) -> tuple[str, ...]:
        """Return the names at the level, in the order of the table."""
        return tuple(dict.fromkeys(name for _, name in self.table))

    def in_words(self) -> str:
        """Return level and table."""
        sizes = f"{len(self.table):,} values into {len(self.categories()):,}"
        return f"level {self.level} of the hierarchy {self.hierarchy}: {sizes}"


def _names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first value alone has no digit, where all others are codes.

    >>> codes = [["2411", "24"], ["2412", "24"], ["3100", "31"]]
    >>> _names_columns([["code", "group"], *codes]), _names_columns(codes)
    (True, False)
    """
    digits = [any(sign.isdigit() for sign in row[0]) for row in rows]
    return len(rows) > 3 and not digits[0] and all(digits[1:])


def _problems(kind: Hierarchy) -> Iterable[str]:
    if not isinstance(kind.hierarchy, str) or not is_whole(kind.level, 1):
        yield sentence("'hierarchy' or 'level' is not valid", fix='set hierarchy = "table.csv" and level = 1')
    if not kind.table or not all(isinstance(text, str) for pair in kind.table for text in pair):
        yield sentence("the table of a hierarchy is not one of texts")
    else:
        yield from label_problems(kind.categories(), "a group of the hierarchy")
