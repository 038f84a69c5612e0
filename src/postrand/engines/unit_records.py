"""What is true of the records of one person or household, checked on the whole file before anything is drawn.

A unit is refused that has more records than its public bound, or several values of a variable that describes the unit.
No message says which unit, or how many: only the variables are named, and a bound that holds, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.data.households import identities, together
from postrand.engines.wants import Answers, Piece, check_inputs, numbered
from postrand.errors import DataError, raise_all, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.mechanism.units import MAX_RECORDS, Units
from postrand.support.showing import few

_COUNT = np.uint64(0xFFFF)
"""The bits of a state that count records; the others are a hash of the unit's values."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)
_WAITING = 1 << 20

_OPTION = {"person": "most_records", "household": "largest_household"}


@dataclass(frozen=True, slots=True)
class Found:
    """Tell whether some unit has more records than it may, and whether some has several values of its variables.

    ``sizes`` are the numbers of records that units have, each with how many units have it: confidential.
    """

    more: bool = False
    differ: bool = False
    sizes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class UnitRecords:
    """Want to know whether units fit a plan; see :class:`postrand.engines.wants.Want`.

    ``column`` names the units; records without a number are units of their own. ``variables`` must be the same in all
    records of a unit, and so must be the household of a person, named by ``inside``: a record without a household
    number is in no household with another. 16 bytes of memory for each unit: its identity, and 48 bits of a hash of
    its values with 16 bits of its number of records.
    """

    unit: str
    column: str
    variables: tuple[str, ...]
    most: int
    inside: str = ""
    numbered = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys((self.column, *self.variables, *([self.inside] if self.inside else []))))

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise DataError where a column is missing."""
        check_inputs(source, self.columns, self.column)

    def part(self, piece: Piece) -> tuple[NDArray[np.uint64], NDArray[np.uint64], bool]:
        """Return identities and states of the units of some records, and whether one has several values."""
        names, there = identities(piece.column(self.column), self.column)
        values = np.zeros(names.size, dtype=np.uint64)
        for name in self.variables:
            values = _mixed(values, (piece.codes(name).astype(np.int64) + 2).astype(np.uint64))
        if self.inside:
            houses, housed = identities(piece.column(self.inside), self.inside)
            own = np.arange(piece.first, piece.first + houses.size, dtype=np.uint64)  # of records without a number
            values = _mixed(_mixed(values, np.where(housed, houses, own)), housed.astype(np.uint64))
        return _grouped(names[there], (values[there] & ~_COUNT) | np.uint64(1))

    def tally(self, source: Source, codebook: Codebook) -> _Tally:
        """Return what puts the parts together."""
        return _Tally(self.most)


def _mixed(values: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits that depend on both; the finaliser of splitmix64."""
    found = values * _STEP + more + _STEP
    found = (found ^ (found >> np.uint64(30))) * _MIX[0]
    found = (found ^ (found >> np.uint64(27))) * _MIX[1]
    return np.asarray(found ^ (found >> np.uint64(31)), dtype=np.uint64)


def _grouped(
    names: NDArray[np.uint64], states: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], bool]:
    """Return one state for each name, ascending, with all its records, and whether two of one differ in their hash."""
    order, first, sizes = together(names)
    names, states = names[order], states[order]
    hashes = states & ~_COUNT
    differ = bool((hashes != np.repeat(hashes[first], sizes)).any())
    counts = np.add.reduceat(states & _COUNT, first) if names.size else states
    return names[first], hashes[first] | np.minimum(counts, _COUNT), differ


class _Tally:
    """Puts parts together; what is held of a unit is its name and its state."""

    def __init__(self, most: int) -> None:
        self._most, self._differ = most, False
        self._held = (np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint64))
        self._waiting: list[tuple[NDArray[np.uint64], NDArray[np.uint64]]] = []

    def add(self, part: tuple[NDArray[np.uint64], NDArray[np.uint64], bool]) -> None:
        names, states, differ = part
        self._waiting.append((names, states))
        self._differ |= differ
        if sum(one.size for one, _ in self._waiting) > max(self._held[0].size, _WAITING):
            self._merge()

    def _merge(self) -> None:
        names, states = (np.concatenate(parts) for parts in zip(self._held, *self._waiting, strict=True))
        *held, differ = _grouped(names, states)
        self._held, self._waiting, self._differ = (held[0], held[1]), [], self._differ | differ

    def found(self) -> Found:
        self._merge()
        counts = self._held[1] & _COUNT
        sizes, many = (found.tolist() for found in np.unique(counts, return_counts=True))
        return Found(
            bool(counts.size and counts.max() > self._most), self._differ, tuple(zip(sizes, many, strict=True))
        )


def unit_wants(units: Units | None, variables: Mapping[str, Iterable[str]]) -> tuple[UnitRecords, ...]:
    """Return what must be known of the file before ``variables``, by unit, are drawn for their units."""
    held = {} if units is None else units.columns
    return tuple(
        UnitRecords(
            unit,
            column,
            tuple(dict.fromkeys(variables.get(unit, ()))),
            units.bounds[unit] if units is not None else 0,
            held.get("household", "") if unit == "person" else "",
        )
        for unit, column in held.items()
    )


def wants_of(mechanism: Mechanism) -> tuple[UnitRecords, ...]:
    """Return what must be known of the file before it is drawn for; nothing where the mechanism has no units."""
    read: dict[str, list[str]] = {}
    for block in mechanism.blocks:
        if block.one is None:  # else members differ by right
            read.setdefault(block.unit, []).extend(block.variables)
    return unit_wants(mechanism.units, read)


Count = Callable[[Sequence[UnitRecords]], Answers]
"""Answer wants in another pass over the file."""


def check_units(wants: Sequence[UnitRecords], answers: Answers, count: Count | None = None) -> None:
    """Raise DataError with everything about units that the plan does not allow; ``count`` is called only then.

    Without ``count``, for records that can be read once only, it is not said which variables differ.
    """
    raise_all(DataError, [problem for want in wants for problem in _problems(want, answers[want], count)])


def too_many(unit: str, column: str, most: int, largest: int) -> str:
    """Return that a unit has more records than its bound ``most``, with one that holds for the ``largest``.

    It is rounded up, to a multiple of 5, above 50 to one with one digit: the bound of a plan is published.

    >>> too_many("person", "pid", 2, 7).partition("Next: ")[2].partition(" (")[0]
    'raise most_records to a public bound, such as 10, which no person of the records read exceeds'
    """
    option = _OPTION[unit]
    step = 5 if largest <= 50 else 10 ** (len(str(largest)) - 1)
    enough = -(-largest // step) * step
    to = f" to a public bound, such as {enough}, which no {unit} of the records read exceeds"
    to *= enough <= MAX_RECORDS
    fix = f"raise {option}{to} (levels of a {unit} rise with it), or correct the numbers of {unit}s"
    what = f"a {unit} has more records than the plan allows"
    return sentence(what, where=column, wanted=f"{option} = {most}", fix=fix)


def _problems(want: UnitRecords, found: Found, count: Count | None) -> Iterator[str]:
    unit = want.unit
    if found.more:
        yield too_many(unit, want.column, want.most, max(size for size, _ in found.sizes))
    if not found.differ:
        return
    alone = [UnitRecords(unit, want.column, (name,), want.most) for name in want.variables]
    nested = UnitRecords(unit, want.column, (), want.most, want.inside)
    answers = Answers({}) if count is None else count([*alone, nested])
    names = [one.variables[0] for one in alone if one not in answers or answers[one].differ]
    if names:
        many = "variables that describe it" if count is None else f"{len(names)} variable{'s' * (len(names) > 1)}"
        what = f"records of one {unit} differ in {many}"
        fix = "correct the records, set differing = 'most frequent' in [unit], or take such variables out of "
        more = f"{unit}_variables: they are then drawn and counted for each record"
        yield sentence(what, where=few(names), wanted="one value", fix=fix + more)
    if answers[nested].differ if nested in answers else bool(want.inside):
        what = "a person has records in several households, or several records without a household number"
        yield sentence(what, where=f"{want.column}, {want.inside}", fix="correct the numbers, or leave 'person' out")


class UnitChecks:
    """Check tables of records one after the other, as :func:`check_units` does a file."""

    def __init__(self, wants: Sequence[UnitRecords]) -> None:
        self._tallies = {want: _Tally(want.most) for want in wants}

    def add(self, table: pa.Table, codebook: Codebook) -> None:
        """Take the records of a table."""
        for first, batch in numbered(table.to_batches()) if self._tallies else ():
            piece = Piece(batch, first, codebook)
            for want, tally in self._tallies.items():
                tally.add(want.part(piece))

    def finish(self, count: Count | None = None) -> None:
        """Raise DataError with everything that the mechanism's units do not allow."""
        check_units(list(self._tallies), self.answers(), count)

    def answers(self) -> Answers:
        """Return what is known of the records so far."""
        return Answers({want: tally.found() for want, tally in self._tallies.items()})


def check_table(table: pa.Table, mechanism: Mechanism) -> None:
    """Raise as :func:`check_units`, for all records in one table."""

    def count(wants: Sequence[UnitRecords]) -> Answers:
        again = UnitChecks(wants)
        again.add(table, mechanism.require_codebook())
        return again.answers()

    checks = UnitChecks(wants_of(mechanism))
    checks.add(table, mechanism.require_codebook())
    checks.finish(count)
