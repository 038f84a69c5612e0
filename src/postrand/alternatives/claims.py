"""What holds of a file with suppressed values or averages: stated, in words, and computed again from that file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from postrand.codebook.coding import index_values, is_null
from postrand.data.frames import names_of, to_arrow
from postrand.errors import PrivacyError, SpecificationError, raise_all, sentence
from postrand.risk.cells import CellTable, IntArray, KeyCodes, table
from postrand.risk.findings import share_text
from postrand.support.showing import outward

Method = Literal["suppression", "microaggregation"]
_NOT = (
    "It is not differential privacy. No bound holds for an attacker who knows more than the columns named above.",
    "Other columns, if the file has any, are released as they are: who knows them can tell the records of a class "
    "apart.",
    "Who knows others of a class can leave them out. Two such files of the same persons can be compared, and classes "
    "that overlap then single persons out.",
)
HOUSEHOLDS = "households or persons"
"""What a column of numbers counts, where several records have the same number."""
_ONE_HOUSEHOLD = "Households and persons are not counted: the records of a class can be those of one."
_NOT_OF_SUPPRESSION = (
    "A class in which all have one value of a variable tells this value of each of its members, and nearly so where "
    "one value is frequent.",
    "A suppressed value tells that the value was rare in combination with the others. Who knows how they are chosen "
    "can exclude values.",
    "A suppressed value is released as a missing one: where values were missing before, nobody can tell which "
    "are which, and a table counts both as missing.",
)
_NOT_OF_AVERAGES = (
    "An average tells about where the true values are: between the averages of the groups beside it, where a column is "
    "averaged alone.",
)


@dataclass(frozen=True, slots=True)
class Claims:
    """Hold what a file with suppressed values or averages promises, and what it lost.

    Each combination of released values of the columns of a class, of ``classes``, is that of at least ``k`` records;
    suppressed (and any missing) is one more value. Averaged columns count where they are not missing. The records of a
    class have at least ``diversity`` values of the column ``sensitive``; missing counts as none.

    ``lost`` is, after suppression, the share of the records in which each key is suppressed; after microaggregation the
    squared change of each column as a share of its variance, ``Σ (z_i − x_i)² / Σ (x_i − mean)²``. ``at_least`` is the
    share of all key values that must be suppressed at least for these claims, as far as that is proven.

    After microaggregation, ``exact`` is the share of each column's values whose group has equal values only, so that
    the average is the true value. With ``household``, the column with its number, ``k`` counts households, or persons.
    """

    method: Method
    k: int
    classes: tuple[tuple[str, ...], ...]
    records: int
    lost: Mapping[str, float]
    sensitive: str | None = None
    diversity: int = 1
    at_least: float | None = None
    exact: Mapping[str, float] | None = None
    household: str | None = None

    @property
    def suppressed(self) -> float:
        """The share of all key values that are suppressed."""
        return sum(self.lost.values()) / len(self.lost)

    @property
    def holds(self) -> tuple[str, ...]:
        """What holds, in sentences."""
        if self.method == "suppression":
            names = ", ".join(self.classes[0])
            found = [
                f"Each released combination of {names} is that of at least {self.k} records; suppressed is a value too."
            ]
            if self.sensitive is not None:
                found.append(
                    f"The records of each combination have at least {self.diversity} values of {self.sensitive}."
                )
            return tuple(found)
        return tuple(
            f"Each released {'value' if len(names) == 1 else 'combination'} of {', '.join(names)} is that of at least "
            f"{self.k} {'records' if self.household is None else f'{HOUSEHOLDS} (by {self.household})'}."
            for names in self.classes
        )

    @property
    def told_exactly(self) -> str:
        """In how many records an average is the true value, in a sentence; '' where in none."""
        found = [f"{name} in {share_text(share)} of its values" for name, share in (self.exact or {}).items() if share]
        return f"A group of equal values shows them exactly: {', '.join(found)}." if found else ""

    @property
    def does_not_hold(self) -> tuple[str, ...]:
        """What does not hold, and what an attacker who knows more still learns."""
        if self.method == "suppression":
            return (*_NOT, _ONE_HOUSEHOLD, *_NOT_OF_SUPPRESSION)
        told = [self.told_exactly] if self.told_exactly else []
        return (*_NOT, *([_ONE_HOUSEHOLD] if self.household is None else []), *told, *_NOT_OF_AVERAGES)

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that these claims need as many suppressed values."""
        return self.at_least is not None and self.suppressed <= self.at_least * (1 + 1e-12)

    @property
    def losses(self) -> tuple[str, ...]:
        """What the file lost, in sentences."""
        if self.method == "microaggregation":
            change = "mean squared change"
            return tuple(f"{name}: {change} {100 * share:.2g}% of its variance." for name, share in self.lost.items())
        proven = "fewer are not enough for these claims (proven)"
        if not self.is_optimal:
            least = f"{outward(100 * (self.at_least or 0), up=False)}%"
            proven = f"no smaller share than {least} can reach these claims (a proven lower bound)"
        each = (
            f"{name}: suppressed in {share_text(share)} of the records." for name, share in self.lost.items() if share
        )
        return (f"{100 * self.suppressed:.3g}% of the key values are suppressed; {proven}.", *each)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything in words, for people."""
        return (*self.holds, "Lost:", *self.losses, "Not claimed:", *(f"- {text}" for text in self.does_not_hold))

    def check(self, frame: Any) -> None:
        """Compute the claims again from a released frame alone; raises PrivacyError with all that do not hold.

        A frame without the number of the household has only its records to count, which are as many or more.
        """
        named = [*(name for own in self.classes for name in own), *filter(None, [self.sensitive])]
        names = list(dict.fromkeys(named))
        if self.household in names_of(frame):
            names.append(self.household)
        held = {name: codes_of(column) for name, column in zip(names, to_arrow(frame, names).columns, strict=True)}
        records = next(codes.size for codes, _ in held.values())
        other = sentence("the number of records is not that of the claims", fix="check the file that the claims are of")
        problems = [problem for own in self.classes for problem in self._problems(own, held)]
        raise_all(PrivacyError, [*problems, *([other] if records != self.records else [])])

    def _problems(self, own: Sequence[str], held: Mapping[str, tuple[IntArray, int]]) -> Iterator[str]:
        keys, where = key_codes({name: held[name] for name in own}), f"columns {', '.join(own)}"
        there = np.arange(keys.records)
        if self.method == "microaggregation":
            there = np.flatnonzero(np.all([column >= 0 for column in keys.codes], axis=0))
        if not there.size:
            return
        cells = table(keys.take(there))
        if cells.counts.min() < self.k:
            yield sentence("a combination of values has too few records", where=where, wanted=f">= {self.k}")
        if (
            self.household is not None
            and self.household in held
            and _values(cells, there, held[self.household]) < self.k
        ):
            yield sentence(
                f"a combination of values is that of too few {HOUSEHOLDS}", where=where, wanted=f">= {self.k}"
            )
        if self.sensitive is not None and _values(cells, there, held[self.sensitive]) < self.diversity:
            what = f"a combination of values has too few values of {self.sensitive!r}"
            yield sentence(what, where=where, wanted=f">= {self.diversity}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        found |= {
            "classes": [list(own) for own in self.classes],
            "lost": dict(self.lost),
            "exact": self.exact and dict(self.exact),
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Claims:
        """Read plain data; raises SpecificationError where a field is unknown, missing or not valid."""
        known = {field.name for field in fields(cls)}
        good = (
            set(data) <= known
            and {"method", "k", "classes", "records", "lost"} <= set(data)
            and data["method"] in get_args(Method)
            and all(type(data.get(name, 1)) is int and data.get(name, 1) >= 1 for name in ("k", "diversity"))
            and type(data["records"]) is int
            and isinstance(data["classes"], list)
            and all(isinstance(own, list) and own and {type(n) for n in own} == {str} for own in data["classes"])
            and isinstance(data["lost"], Mapping)
            and all(type(share) in (int, float) for share in data["lost"].values())
            and set(data["lost"]) == {name for own in data["classes"] for name in own}
            and all(isinstance(data.get(name, ""), str) for name in ("sensitive", "household"))
            and isinstance(data.get("exact", {}), Mapping)
            and all(type(share) in (int, float) for share in data.get("exact", {}).values())
            and type(data.get("at_least", 0.0)) in (int, float)
        )
        if not good or not data["classes"]:
            raise SpecificationError(sentence("the claims are not valid", where=where, fix="make the file again"))
        return cls(**{**data, "classes": tuple(map(tuple, data["classes"]))})


def _values(cells: CellTable, there: IntArray, column: tuple[IntArray, int]) -> int:
    """Return how many values of a column, without missing ones, the cell with the fewest has."""
    codes, size = column[0][there], column[1]
    both = table(KeyCodes(("class", "value"), (cells.counts.size, size), (cells.record_cell, codes)))
    found = np.bincount(both.codes[both.codes[:, 1] >= 0, 0], minlength=cells.counts.size)
    return int(found.min())


def codes_of(column: pa.ChunkedArray) -> tuple[IntArray, int]:
    """Return the code of each value of a column, -1 where it is missing, and the number of codes."""
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    held = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    own = held.dictionary.dictionary_encode()  # a dictionary can list a value twice, and null
    places = np.append(_signed(own.indices), -1)
    return places[_signed(held.indices)], max(len(own.dictionary), 1)


def _signed(indices: pa.Array) -> IntArray:
    """Return indices as signed numbers, -1 where they are missing; those of polars have no sign."""
    return np.where(is_null(indices), -1, index_values(indices).astype(np.int64))


def key_codes(columns: Mapping[str, tuple[IntArray, int]]) -> KeyCodes:
    """Return columns from :func:`codes_of` as key variables."""
    return KeyCodes(tuple(columns), tuple(s for _, s in columns.values()), tuple(c for c, _ in columns.values()))
