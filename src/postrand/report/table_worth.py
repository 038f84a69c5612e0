"""What a release is worth for tables of one and of two perturbed variables, in numbers of unperturbed records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import PostrandError, sentence
from postrand.estimate.planning import expected_precision
from postrand.estimate.split_members import household_of
from postrand.mechanism import Mechanism
from postrand.report.values import MAX_ESTIMATED
from postrand.support.showing import few, unshown
from postrand.support.worth_basis import BASES, MEAN, OTHERS, Basis

MAX_PAIRED = 16
"""Tables of two are computed for so many variables: 120 of them."""
MAX_CROSSED = 6
"""Unperturbed variables whose tables with perturbed ones are computed."""
MAX_CELLS = 10_000
MAX_LINES = 8
USELESS_RECORDS, USELESS_SHARE = 100, 0.01
"""A table that is worth fewer records than this, or a smaller share of the file's, is called of little use."""

LITTLE = f"less than {USELESS_RECORDS} records, or less than {USELESS_SHARE:.0%} of the file"
"""What is meant by little use."""

TABLES = "What tables of perturbed variables are worth"
TABLES_CAPTION = (
    f"How many unperturbed records would give the table as precisely. “Of little use”: {LITTLE}, {BASES['equal']}.",
    OTHERS,
)

LEAST_RECORDS = 10
"""The worth of tables of a file of fewer records is not told: no table of so few says anything."""
TOO_FEW = f"the file has fewer than {LEAST_RECORDS} records, and no table of so few says anything"


@dataclass(frozen=True, slots=True)
class Assumed:
    """Hold the frequencies under which worth is computed: ``law`` gives those of any variables; None is uniform."""

    basis: Basis
    law: Callable[[Sequence[str]], NDArray[np.float64] | None]


EQUAL = Assumed("equal", lambda _: None)
"""Every combination of values is taken as equally frequent, which says nothing of a file."""


SHARED = {unit: f"not known: all records of a {unit} share one draw of its values" for unit in ("person", "household")}
"""Why the worth of a table is not known that has variables of a unit."""
MEMBERS = "not known: one random member of each household shows it for all, and the sizes of households are not at hand"
NOT_PAIRED = f"not known: tables of two variables are computed of the first {MAX_PAIRED} perturbed ones"
TOO_WIDE = f"not known: tables of more than {MAX_CELLS:,} cells are not computed"
UNKNOWN = (*SHARED.values(), MEMBERS, NOT_PAIRED, TOO_WIDE)
"""Every reason for a worth that is not known although there may be an estimate."""


@dataclass(frozen=True, slots=True)
class TableWorth:
    """Say what the release is worth for one table: ``effective_records`` unperturbed ones, or ``why`` it is unknown.

    ``basis``: the frequencies under which it was computed, one of ``BASES``.
    """

    variables: tuple[str, ...]
    effective_records: float | None
    records: int
    why: str = ""
    basis: Basis = "equal"

    @property
    def name(self) -> str:
        """The table's variables."""
        return " × ".join(self.variables)

    @property
    def is_shared(self) -> bool:
        """Whether the worth is not known because records share draws, or the table was not computed."""
        return self.effective_records is None and self.why in UNKNOWN

    @property
    def has_no_estimate(self) -> bool:
        """Whether the release has no estimate of this table, as far as is known."""
        return self.effective_records is None and not self.is_shared and self.why != TOO_FEW

    @property
    def is_of_little_use(self) -> bool:
        """Whether the release says almost nothing of this table; where its worth ``is_shared``, that is not known."""
        if self.effective_records is None:
            return not self.is_shared
        return little_use(self.effective_records, self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"table": list(self.variables), "effective_records": self.effective_records, "basis": self.basis}
        return {**about, "of_little_use": self.is_of_little_use, **({"why": self.why} if self.why else {})}


def little_use(effective: float, records: int) -> bool:
    """Return whether so many effective records are too few for a useful table.

    >>> little_use(99, 1_000), little_use(150, 20_000), little_use(400, 20_000)
    (True, True, False)
    """
    return effective < min(USELESS_RECORDS, records) or effective < USELESS_SHARE * records


def little_left(mechanism: Mechanism, records: int, *, compare: bool = True, at_hand: Sequence[TableWorth] = ()) -> str:
    """Return that tables of one variable are of little use, and the next step; "" where none is.

    It follows from the codebook, the matrices and the number of records, so that every page says the same of a plan.
    ``compare``: name the command that compares the next steps. ``at_hand``: worths of tables under ``EQUAL``, without
    the sizes of households, that are computed already.
    """
    names = [name for name in mechanism.variables if mechanism.require_codebook()[name].size > 1]
    done = {one.variables: one for one in at_hand}
    found = [done.get((name,)) or table_worth(mechanism, [(name,)], records, EQUAL)[0] for name in names]
    known = {one.name: one.effective_records for one in found if one.effective_records is not None}
    poor = [name for name, worth in known.items() if little_use(worth, records)]
    if not poor:
        return ""
    least = min(poor, key=known.__getitem__)
    tables = "the only table" if len(known) == 1 else f"{len(poor)} of {len(known)} tables"
    verb = "is" if len(poor) == 1 else "are"
    ways = ["perturb fewer variables"] * (len(names) > 1) + ["merge categories"]
    ways += ["use a split release"] * (mechanism.split is None and len(names) > 1)
    ways += ["perturb them in one joint block"] * (len(mechanism.blocks) > 1)
    return sentence(
        f"little is left for tables: {tables} of one variable {verb} of little use ({LITTLE}); the least useful, "
        f"of {least}, is worth {records_of(known[least], records)}, {BASES[EQUAL.basis]}; the file has {records:,} "
        "records",
        fix=f"{', '.join(ways)}, or raise epsilon" + "; 'postrand advise' compares these ways" * compare,
    )


def none_of_use(tables: Sequence[TableWorth]) -> tuple[str, ...]:
    """Return that no table of two variables is of use, where there are several that are known; () else."""
    known = [one for one in tables if not one.is_shared]
    if len(known) < 2 or not all(one.is_of_little_use for one in known):
        return ()
    return (f"none of the {len(known)} tables of two variables is of much use: each is worth {LITTLE}",)


def pairs_of(variables: Sequence[str], codebook: Codebook) -> tuple[tuple[str, ...], ...]:
    """Return the tables of two of the first ``MAX_PAIRED`` variables that have at most ``MAX_CELLS`` cells."""
    pairs = itertools.combinations(variables[:MAX_PAIRED], 2)
    return tuple(pair for pair in pairs if math.prod(codebook[name].size for name in pair) <= MAX_CELLS)


def left_pairs(variables: Sequence[str], codebook: Codebook, records: int) -> tuple[TableWorth, ...]:
    """Return the tables of two that :func:`pairs_of` leaves out, with the reason why their worth is not known."""
    first, taken = {*variables[:MAX_PAIRED]}, {*pairs_of(variables, codebook)}
    left = (pair for pair in itertools.combinations(variables, 2) if pair not in taken)
    return tuple(TableWorth(pair, None, records, TOO_WIDE if {*pair} <= first else NOT_PAIRED) for pair in left)


def crossed_of(perturbed: Sequence[str], unperturbed: Sequence[str], codebook: Codebook) -> tuple[tuple[str, ...], ...]:
    """Return the tables of one of the first perturbed and one of the first unperturbed variables."""
    clear = [name for name in unperturbed if codebook[name].is_categorical][:MAX_CROSSED]
    pairs = itertools.product(perturbed[:MAX_PAIRED], clear)
    return tuple(pair for pair in pairs if math.prod(codebook[name].size for name in pair) <= MAX_CELLS)


def table_worth(
    mechanism: Mechanism,
    tables: Sequence[Sequence[str]],
    records: int,
    assumed: Assumed,
    households: Mapping[int, int] | None = None,
) -> tuple[TableWorth, ...]:
    """Return the worth of each table under the frequencies that are assumed of its variables.

    ``households`` are the sizes of households, with how many have each: for tables that one random member shows, see
    :func:`postrand.estimate.expected_precision`.
    """
    found = (_worth(mechanism, tuple(names), records, assumed, households) for names in tables)
    return tuple(TableWorth(names, effective, records, why, assumed.basis) for names, effective, why in found)


def _worth(
    mechanism: Mechanism, names: tuple[str, ...], records: int, assumed: Assumed, households: Mapping[int, int] | None
) -> tuple[tuple[str, ...], float | None, str]:
    """Return the effective records of a table, or None and why they are not known."""
    if records < LEAST_RECORDS:
        return names, None, TOO_FEW
    of_members = bool(household_of(mechanism, [*names]))
    if of_members and households is None:
        return names, None, MEMBERS
    for unit, shared in mechanism.shared.items():
        if not of_members and not {*shared}.isdisjoint(names):
            return names, None, SHARED[unit]
    book = mechanism.require_codebook()
    blocks = [block.matrix.size for block in mechanism.blocks if not {*block.perturbed}.isdisjoint(names)]
    largest = max([*blocks, *(book[name].size for name in names)])
    if largest > MAX_ESTIMATED:
        return names, None, f"its block has more than {MAX_ESTIMATED:,} categories"
    try:
        found = expected_precision(mechanism, names, records, assumed.law(names), households)
    except PostrandError as error:
        return names, None, str(error)
    effective = found.effective_sample_size
    return names, min(effective, float(records)) if math.isfinite(effective) else None, ""


def harmonic(worths: Sequence[TableWorth]) -> float:
    """Return the harmonic mean of the effective records of tables; 0 where one cannot be estimated.

    >>> harmonic([TableWorth(("a",), 100.0, 1000), TableWorth(("b",), 300.0, 1000)])
    150.0
    """
    held = [one.effective_records for one in worths]
    known = [value for value in held if value is not None and value > 0]
    return len(known) / sum(1 / value for value in known) if known and len(known) == len(held) else 0.0


def least_and_mean(worths: Sequence[TableWorth]) -> tuple[float, float] | None:
    """Return the least and the harmonic mean of the effective records that are known; None where none is.

    Tables without an estimate are no part of it: whoever shows the figures shows :func:`no_estimate` beside them.

    >>> least_and_mean([TableWorth(("a",), 100.0, 1000), TableWorth(("b",), 300.0, 1000), TableWorth(("c",), None, 9)])
    (100.0, 150.0)
    """
    known = [one for one in worths if one.effective_records is not None]
    return (min(one.effective_records or 0.0 for one in known), harmonic(known)) if known else None


def shown(effective: float | None, records: int = 0) -> str:
    """Return effective records as text; what is of little use in a file of so many ``records`` is not rounded to more.

    >>> shown(2.61), shown(182.4), shown(0.0031), shown(None), shown(99.64), shown(199.9, 20_000)
    ('2.6', '182', 'less than 1', 'not known', '99.6', '199.9')
    """
    if effective is None:
        return "not known"
    limit = max(USELESS_RECORDS, USELESS_SHARE * records)
    if effective < limit <= round(effective):
        return f"{math.floor(10 * effective) / 10:,.1f}"
    return "less than 1" if effective < 1 else f"{effective:.2g}" if effective < 9.95 else f"{effective:,.0f}"


def records_of(effective: float | None, records: int = 0) -> str:
    """Return effective records with their noun: ``less than 1 unperturbed record``.

    >>> records_of(0.4), records_of(182.4)
    ('less than 1 unperturbed record', '182 unperturbed records')
    """
    text = shown(effective, records)
    return f"{text} unperturbed record{'s' * (text not in ('1', 'less than 1'))}"


def worth_line(what: str, worths: Sequence[TableWorth]) -> Iterator[str]:
    """Yield one line on several tables: mean and least worth, their basis, and a word where they are of little use."""
    if worths and worths[0].records < LEAST_RECORDS:
        yield f"{what}: worth not told: {TOO_FEW}"
    found, known = least_and_mean(worths), [one for one in worths if not one.is_shared]
    left = f"; {unknown}" if (unknown := not_known(worths)) else ""
    if found is None:
        yield from (f"{what}: worth {why}" for why in dict.fromkeys(one.why for one in worths if one not in known))
        return
    rest = [one for one in known if not one.has_no_estimate]
    poor = sum(one.is_of_little_use for one in rest)
    least = f"the least useful {shown(found[0], worths[0].records)}"
    without = f"{none}; the others are " if (none := no_estimate(worths)) else ""
    text = f"{what}: {without}worth {records_of(found[1])} {MEAN}, {least}"
    said = f"; {poor} of {'these ' * bool(without)}{len(rest)} of little use ({LITTLE})" if poor else ""
    yield f"{text}, {BASES[worths[0].basis]}{said}{left}"


def of_little_use(one_way: Sequence[TableWorth], two_way: Sequence[TableWorth]) -> str:
    """Return how many tables of one and of two variables are of little use; "" where none is.

    >>> pairs = [TableWorth(("a", "b"), 50.0, 1000), TableWorth(("a", "c"), 300.0, 1000)]
    >>> of_little_use([TableWorth(("a",), 300.0, 1000)], pairs)
    '1 of 2 tables of two variables of little use'
    """
    told = []
    for what, worths in (("one variable", one_way), ("two variables", two_way)):
        known = [one for one in worths if not one.is_shared and not one.has_no_estimate]
        if poor := sum(one.is_of_little_use for one in known):
            told.append(f"{poor} of {len(known)} tables of {what}")
    return f"{' and '.join(told)} of little use" if told else ""


def without_estimate(one_way: Sequence[TableWorth], two_way: Sequence[TableWorth]) -> Iterator[str]:
    """Yield of how many tables of one and of two variables there is no estimate; nothing where all have one.

    >>> list(without_estimate([], [TableWorth(("a", "b"), 50.0, 1000), TableWorth(("a", "c"), None, 1000)]))
    ['1 of 2 tables of two variables has no estimate']
    """
    for what, worths in (("one variable", one_way), ("two variables", two_way)):
        if text := no_estimate(worths, f" tables of {what}"):
            yield text


def no_estimate(worths: Sequence[TableWorth], tables: str = "") -> str:
    """Return of how many ``tables``, as it calls them, there is no estimate at all; "" of none.

    >>> no_estimate([TableWorth(("a",), 100.0, 1000), TableWorth(("b",), None, 1000)])
    '1 of 2 has no estimate'
    """
    none = sum(one.has_no_estimate for one in worths)
    return f"{none} of {len(worths)}{tables} {'has' if none == 1 else 'have'} no estimate" if none else ""


def mean_worth(mean: float, worths: Sequence[TableWorth]) -> str:
    """Return the harmonic mean of the effective records of tables as text: 0, and why, where some have no estimate.

    >>> mean_worth(0.0, [TableWorth(("a",), 100.0, 1000), TableWorth(("b",), None, 1000)])
    '0 (1 of 2 has no estimate)'
    """
    if mean == 0 and (none := no_estimate(worths)):
        return f"0 ({none})"
    return shown(mean, worths[0].records if worths else 0)


def mean_cell(worths: Sequence[TableWorth], which: int = 1) -> str | None:
    """Return the least (0) or mean (1) worth of tables for a cell, with those that have no estimate; None of none.

    >>> mean_cell([TableWorth(("a",), 100.0, 1000), TableWorth(("b",), None, 1000)])
    '100 (1 of 2 has no estimate)'
    """
    found, none = least_and_mean(worths), no_estimate(worths)
    if found is None:
        return none or None
    return shown(found[which], worths[0].records) + f" ({none})" * bool(none)


def not_known(worths: Sequence[TableWorth]) -> str:
    """Return of how many tables the worth is not known, of which, and why; "" of none.

    Those without an estimate are no part of it. The tables are told by the variables of which no table is known.
    """
    lacking = [one for one in worths if one.is_shared]
    if not lacking:
        return ""
    known = {name for one in worths if not one.is_shared for name in one.variables}
    names = dict.fromkeys(name for one in lacking for name in one.variables if name not in known)
    which = f", {'that' if len(lacking) == 1 else 'those'} with {few([*names])}," if names else ""
    why = "; ".join(dict.fromkeys(one.why.removeprefix("not known: ") for one in lacking))
    tables = "1 table" if len(lacking) == 1 else f"{len(lacking)} of {len(worths)} tables"
    return f"of {tables}{which} it is not known: {why}"


MORE_IN_TWO = (
    "tables of two variables can be worth more than those of one: worth is beside a table's own sampling error, which "
    "is small where nearly all records have one value"
)


def more_in_two(one: Sequence[TableWorth], two: Sequence[TableWorth]) -> tuple[str, ...]:
    """Return why the least worth of tables of two variables is above that of tables of one; () where it is not."""
    least = least_and_mean(one), least_and_mean(two)
    return (MORE_IN_TWO,) if least[0] and least[1] and least[1][0] > max(least[0][0], 1.0) else ()


def two_way_lines(worths: Sequence[TableWorth], of_them: str = "") -> Iterator[str]:
    """Yield lines on the tables of two variables of a release, the least useful first.

    ``of_them``: how many of the records show values, where not every one does.
    """
    if not worths:
        return
    yield from worth_line(f"{worths[0].records:,} released records{of_them}, tables of two perturbed variables", worths)
    causes: dict[str, list[str]] = {}
    for one in worths:
        if one.has_no_estimate:
            causes.setdefault(cause_of(one.why), []).append(one.name)
    for cause, names in causes.items():
        yield f"  no estimate{f' ({cause})' if cause else ''}: {few(names)}"
    told = [one for one in worths if one.effective_records is not None]
    told.sort(key=lambda one: one.effective_records or 0.0)
    more = unshown(len(told), MAX_LINES)
    for one in told[: len(told) - more]:
        poor = " (of little use)" if one.is_of_little_use else ""
        yield f"  {one.name}: {shown(one.effective_records, one.records)}{poor}"
    if more:
        yield f"  and {more:,} more tables, none worth less than these"


def reason_of(one: TableWorth) -> str:
    """Return why the worth of a table is not known, as the end of a sentence; "" where no reason is stated."""
    return cause_of(one.why) if one.has_no_estimate else one.why.removeprefix("not known: ")


def cause_of(why: str) -> str:
    """Return what is wrong from a message in the common form, without where and the next step."""
    return why.partition(". Next: ")[0].rpartition(": ")[2].rstrip(".")


def two_way(
    mechanism: Mechanism, records: int, *, of_split: bool = True, households: Mapping[int, int] | None = None
) -> list[TableWorth]:
    """Return the worth of the tables of two variables, the least first: it follows from the release alone.

    ``households`` says how many have each size, which a split needs of which one member of each shows a subset.
    Without those of a split unless ``of_split``: a page has them in tables of their own.
    """
    names = [name for name in mechanism.variables if of_split or name not in mechanism.partly]
    found = table_worth(mechanism, pairs_of(names, mechanism.require_codebook()), records, EQUAL, households)
    return sorted(found, key=lambda one: one.effective_records or 0.0)


def _own(one: TableWorth) -> str:
    if one.has_no_estimate:
        return f"no estimate: {cause_of(one.why)}" if one.why else "no estimate"
    return one.why or shown(one.effective_records, one.records)


def worth_rows(tables: Sequence[TableWorth], own: Sequence[TableWorth]) -> list[dict[str, object]]:
    """Return the rows of a page on the worth of tables; ``own`` is that of the same with the file's frequencies."""
    return [
        {
            "Table": one.name,
            f"Unperturbed records it is worth, {BASES[one.basis]}": _own(one),
            f"The same, {BASES['file']}": shown(its.effective_records),
            "Of the file's": f"{one.records:,}",
            "Note": "of little use" if one.is_of_little_use else "",
        }
        for one, its in zip(tables, own, strict=True)
    ]
