"""Derived and linked variables: dummies, recodes, copies, near-functions and sums, found in the codes of a sample.

One fact that stands in several columns is protected once if the columns are perturbed together or dropped, and several
times, or not at all, otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.risk.linked_dates import days_of, same_time
from postrand.risk.linked_sums import counts, sums
from postrand.risk.sample import MOST_MEMBERS, Sampled

NEAR, NEAR_RARE = 0.99, 0.9
"""A near-function holds in this share of the records, and of those that do not have the most common value."""
RECORDS_A_VALUE = 5
"""A column whose values have fewer records on average would be a function of everything by chance."""
MAX_COLUMNS, MAX_TRIED, MAX_CELLS = 200, 2_000, 4_000_000
MOST_VALUES, MOST_PAIRED, RECORDS_A_PAIR = 20, 30, 50
MOST_DUMMIES, MOST_STEPS = 64, 20_000
_SCREEN, _SLACK = 2_000, 0.05
Ints = NDArray[np.int64]
Kind = Literal["recode", "function", "near", "sum", "count", "dummies", "time"]


@dataclass(frozen=True, eq=False)
class Column:
    """Hold the codes of a column, (n,), -1 where missing, how many there are, and its values if they are numbers.

    Dates are numbers of days, and ``is_date``. ``household``, (n,), numbers the households from 0, -1 where a record
    has no number; None where they are not known. Members of a household share its income, weight and region, whether or
    not these have to do with each other. So those with one value count once in ``repeats``, unless they are more than
    ``MOST_MEMBERS``. Where no household is known, all count: rather a link too many is said than one too few.

    >>> nines = np.arange(900) // 9
    >>> Column(nines, 100).repeats, Column(nines, 100, household=nines).repeats
    (True, False)
    """

    codes: Ints
    size: int
    numbers: NDArray[np.float64] | None = None
    is_date: bool = False
    household: Ints | None = None

    @cached_property
    def repeats(self) -> bool:
        """Whether its values have records of different households enough to tell a function from chance."""
        wanted, there = self.size * RECORDS_A_VALUE, self.codes >= 0
        if self.household is None or wanted > there.sum():
            return bool(wanted <= there.sum())
        members = there & (self.household >= 0)
        _, held = np.unique(self.household[members] * self.size + self.codes[members], return_counts=True)
        alone = (there & ~members).sum()  # without a number: households of their own
        return bool(wanted <= alone + np.where(held <= MOST_MEMBERS, 1, held).sum())


@dataclass(frozen=True, slots=True)
class Link:
    """Hold one link: each of ``variables`` follows from ``of``; or they are dummies, of which exactly one is 1.

    ``recode``: each is a function of the other. ``near``: a function in 99% of the records. ``signs`` are those of a
    sum ``v = ± a ± b ...``, or the whole numbers of a ``count`` of dummies. ``time``: a number is a date counted in a
    ``unit``, up to a constant, within 1 unit.
    """

    kind: Kind
    variables: tuple[str, ...]
    of: tuple[str, ...] = ()
    signs: tuple[int, ...] = ()
    unit: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it holds in every record; a sum of two may be broken by one in a hundred."""
        return self.kind not in ("near", "time")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the link."""
        return (*self.of, *self.variables)

    @property
    def text(self) -> str:
        """What was found, in words, without counts and values."""
        first, of = ", ".join(self.variables), ", ".join(self.of)
        is_ = "is a function" if len(self.variables) == 1 else "are functions"
        if self.kind == "sum":
            terms = zip(self.signs, self.of, strict=True)
            total = " ".join(f"{'+' if sign > 0 else '-'} {name}" for sign, name in terms).removeprefix("+ ")
            return f"{first} = {total}"
        return {
            "recode": f"{first} and {of} are recodes of one another",
            "function": f"{first} {is_} of {of}",
            "near": f"{first} {is_} of {of} in nearly all records",
            "time": f"{first} is {of} counted in {self.unit}s, up to a constant and within 1 {self.unit}",
            "count": f"{first} is {'a count' if {*self.signs} in ({1}, {-1}) else 'a sum with whole weights'} of {of}",
            "dummies": f"exactly one of {first} is 1: they are dummies of one variable",
        }[self.kind]


def gathered(links: Iterable[Link], alike: Callable[[Link], object]) -> Iterator[Link]:
    """Yield the functions of the same columns that are ``alike`` as one link, and all other links as they are.

    >>> three = [Link("function", (name,), ("year",)) for name in ("y94", "y96", "decade")]
    >>> [link.text for link in gathered(three, lambda link: link.variables[0].startswith("y"))]
    ['y94, y96 are functions of year', 'decade is a function of year']
    """
    found: dict[object, Link] = {}
    for link in links:
        key = (link.kind, link.of, alike(link)) if link.kind in ("function", "near") else link
        held = found.get(key)
        found[key] = link if held is None else replace(held, variables=(*held.variables, *link.variables))
    yield from found.values()


def columns_of(sample: Sampled, names: Sequence[str], household: str | None = None) -> dict[str, Column]:
    """Return sampled columns as codes and numbers; ``household`` is the column that numbers households, if one does."""
    house = None
    if household is not None and household in sample.table.column_names:
        house, _ = _codes(sample, household)
    found = {}
    for name in names:
        codes, size = _codes(sample, name)
        column = sample.table.column(name)
        if size == 2 and _is_turned(column, codes):
            codes = np.where(codes < 0, codes, 1 - codes)
        numbers = _numbers(column)
        days = None if numbers is not None else _days(column)
        found[name] = Column(codes, size, numbers if days is None else days, days is not None, house)
    return found


def _codes(sample: Sampled, name: str) -> tuple[Ints, int]:
    """Return the codes of a column, -1 where it is missing, and how many there are."""
    codes, size = sample.codes(name)
    return (codes - 1, size - 1) if sample.table.column(name).null_count else (codes, size)  # missing comes first


def links(columns: Mapping[str, Column]) -> tuple[Link, ...]:
    """Return the links between columns, at most one for each derived variable: the closest.

    Compared are records with a value in both columns. Pairs are screened on a part of the records, and at most
    ``MAX_TRIED`` tried on all; of more than ``MAX_COLUMNS`` columns the first are looked at.

    Examples
    --------
    >>> year = Column(np.arange(300) % 3, 3)
    >>> late = Column((np.arange(300) % 3 == 2).astype(np.int64), 2)
    >>> [link.text for link in links({"year": year, "late": late})]
    ['late is a function of year']
    """
    names = [name for name, column in columns.items() if column.size > 1][:MAX_COLUMNS]
    held = {name: columns[name] for name in names}
    derived = _functions(held)
    total = {n: c.numbers for n, c in held.items() if c.numbers is not None and c.size > 2 and n not in derived}
    for name, terms in sums(total).items():
        derived.setdefault(name, Link("sum", (name,), tuple(terms), tuple(terms.values())))
    for name, terms in _counts(held, derived).items():
        derived.setdefault(name, Link("count", (name,), tuple(terms), tuple(terms.values())))
    sets = [Link("dummies", own) for own in dummy_sets(held) if not _same_parent(own, derived)]
    known = {*derived, *(name for link in sets for name in link.names)}
    derived |= _of_two({name: column for name, column in held.items() if name not in known})
    return (*sets, *derived.values(), *_times(held, derived))


def _counts(held: Mapping[str, Column], derived: Mapping[str, Link]) -> dict[str, dict[str, int]]:
    """Return the numbers that are counts or sums of dummies, unless the dummies are functions of the number."""
    numbers = {n: c.numbers for n, c in held.items() if c.numbers is not None and c.size > 2 and n not in derived}
    of = {n: derived[n].of for n in derived}
    found = counts(numbers, {n: c.codes for n, c in held.items() if c.size == 2})
    return {n: terms for n, terms in found.items() if not any(of.get(term) == (n,) for term in terms)}


def _times(held: Mapping[str, Column], derived: Mapping[str, Link]) -> Iterator[Link]:
    """Yield the numbers that are dates in another form, where no closer link of the two is known."""
    numbers = {n: c.numbers for n, c in held.items() if c.numbers is not None and c.size > 2 and not c.is_date}
    dates = {n: c.numbers for n, c in held.items() if c.numbers is not None and c.is_date}
    told: set[str] = set()
    for date, number, unit in same_time(dates, numbers):
        known = [derived[name] for name in (date, number) if name in derived]
        if number not in told and not any({date, number} <= set(link.names) for link in known):
            told.add(number)
            yield Link("time", (number,), (date,), unit=unit)


def _of_two(held: Mapping[str, Column]) -> dict[str, Link]:
    """Return the exact functions of two columns with few values, the last columns first: a product follows its factors.

    A pair has ``RECORDS_A_PAIR`` records for each of its cells, so that nothing is a function of it by chance.
    """
    few = [name for name, column in held.items() if column.size <= MOST_VALUES and (column.codes >= 0).all()][
        :MOST_PAIRED
    ]
    if not few:
        return {}
    n = held[few[0]].codes.size
    found: dict[str, Link] = {}
    for y, (a, b) in itertools.product(reversed(few), itertools.combinations(few, 2)):
        if y in found or {a, b} & {y, *found} or held[a].size * held[b].size * RECORDS_A_PAIR > n:
            continue
        for part in (slice(_SCREEN), slice(None)):
            cells = held[a].codes[part] * held[b].size + held[b].codes[part]
            counts = np.bincount(cells * held[y].size + held[y].codes[part])
            if (counts > 0).sum() > (np.bincount(cells) > 0).sum():
                break
        else:
            found[y] = Link("function", (y,), (a, b))
    return found


def _functions(held: Mapping[str, Column]) -> dict[str, Link]:
    """Return for each variable the closest other one that it is a function of; of recodes the first is kept."""
    found: dict[str, Link] = {}
    exact: dict[tuple[str, str], float] = {}
    tried = 0
    for x, y in itertools.permutations(held, 2):
        if tried < MAX_TRIED and held[x].size >= held[y].size and _screened(held[x], held[y]):
            tried += 1
            exact[x, y] = follows(held[x], held[y])
    order = {name: place for place, name in enumerate(held)}
    for (x, y), share in sorted(exact.items(), key=lambda entry: (held[entry[0][0]].size, order[entry[0][0]])):
        both = exact.get((y, x), 0.0) == 1.0
        if share < 1.0 or y in found or (both and order[x] > order[y]):
            continue
        if found.get(x, Link("near", ())).kind != "recode":  # its first form stands for it
            found[y] = Link("recode" if both else "function", (y,), (x,))
    for (x, y), share in exact.items():
        known = found.keys() & {x, y}
        if 0 < share < 1.0 and not known and (held[x].size > held[y].size or order[x] < order[y]):
            found[y] = Link("near", (y,), (x,))
    return found


def follows(x: Column, y: Column) -> float:
    """Return 1 where y is a function of x, the share of the records in which it is one if that is near, and 0.

    Of a column whose values do not repeat in different households, only functions are found that follow its order:
    copies, recodes that keep or reverse it, and bands. Else all that members share would be a function of whatever
    differs between households, such as an income.
    """
    there = (x.codes >= 0) & (y.codes >= 0)
    n = int(there.sum())
    if n * 2 < x.codes.size or not n:
        return 0.0
    rest = n - int(np.bincount(y.codes[there]).max())
    if x.repeats:
        if x.size * y.size > MAX_CELLS:
            return 0.0
        wrong = n - int(_table(x, y, there).max(axis=1).sum())
    elif x.numbers is None or (not y.repeats and y.numbers is None):
        return 0.0
    else:
        wrong = _out_of_order(x.numbers[there], y, there)
    if wrong == 0 and rest:
        return 1.0
    return 1 - wrong / n if rest and wrong <= (1 - NEAR) * n and wrong <= (1 - NEAR_RARE) * rest else 0.0


def _out_of_order(x: NDArray[np.float64], y: Column, there: NDArray[np.bool_]) -> int:
    """Return how many records at least do not fit to a y that follows the order of x."""
    order = np.argsort(x, kind="stable")
    if y.repeats:
        changes = int((np.diff(y.codes[there][order]) != 0).sum())
        return max(0, (changes - np.unique(y.codes[there]).size + 2) // 2)
    assert y.numbers is not None
    steps = np.sign(np.diff(x[order])), np.sign(np.diff(y.numbers[there][order]))
    return int(min((steps[0] != steps[1]).sum(), (steps[0] != -steps[1]).sum()))


def _screened(x: Column, y: Column) -> bool:
    """Whether a part of the records leaves it open that y is a function of x."""
    there = np.zeros(x.codes.size, dtype=bool)
    there[:: -(-there.size // _SCREEN)] = True  # not the first records, which one region or firm can be
    there &= (x.codes >= 0) & (y.codes >= 0)
    n = int(there.sum())
    if x.repeats and x.size * y.size <= MAX_CELLS and n:
        pairs, counts = np.unique(x.codes[there] * y.size + y.codes[there], return_counts=True)
        most = np.zeros(x.size, dtype=np.int64)
        np.maximum.at(most, pairs // y.size, counts)
        return bool(n - most.sum() <= (1 - NEAR + _SLACK) * n)
    if x.repeats or x.numbers is None or (not y.repeats and y.numbers is None) or not n:
        return False
    return _out_of_order(x.numbers[there], y, there) <= (1 - NEAR + _SLACK) * n


def _table(x: Column, y: Column, there: NDArray[np.bool_]) -> Ints:
    return np.bincount(x.codes[there] * y.size + y.codes[there], minlength=x.size * y.size).reshape(x.size, y.size)


def dummy_sets(columns: Mapping[str, Column]) -> Iterator[tuple[str, ...]]:
    """Yield sets of three or more columns of two values, of which exactly one has the second value in every record.

    A set is a clique of columns that are never 1 together and whose ones add up to the records. Two columns are recodes
    of one another. The search stops after ``MOST_STEPS`` steps.

    >>> codes = {name: Column((np.arange(90) % 3 == j).astype(np.int64), 2) for j, name in enumerate("abc")}
    >>> list(dummy_sets(codes))
    [('a', 'b', 'c')]
    """
    names = [n for n, c in columns.items() if c.size == 2 and (c.codes >= 0).all()][:MOST_DUMMIES]
    if len(names) < 3:
        return
    ones = np.stack([columns[name].codes for name in names]).astype(np.float64)
    together, steps = ones @ ones.T, itertools.count()
    counts, n = np.diag(together), ones.shape[1]

    def complete(chosen: list[int], total: float) -> list[int] | None:
        if total == n:
            return chosen
        for j in range(chosen[-1] + 1, len(names)):
            if next(steps) > MOST_STEPS:
                return None
            if total + counts[j] <= n and not together[j, chosen].any():
                found = complete([*chosen, j], total + counts[j])
                if found is not None:
                    return found
        return None

    used: set[int] = set()
    for first in range(len(names)):
        found = None if first in used else complete([first], counts[first])
        if found is not None and len(found) > 2 and not used & set(found):
            used |= set(found)
            yield tuple(names[j] for j in found)


def _same_parent(own: Sequence[str], derived: Mapping[str, Link]) -> bool:
    """Whether all dummies of a set are functions of one column that is there."""
    parents = {derived[name].of if name in derived else () for name in own}
    return len(parents) == 1 and parents != {()}


def _is_turned(column: pa.ChunkedArray, codes: Ints) -> bool:
    """Whether the first of two codes is that of the larger value, "yes" beside "no": codes are given as values come."""
    first, second = (column[int(np.argmax(codes == code))].as_py() for code in (0, 1))
    return bool(first > second)


def _days(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Return dates as days, NaN where missing; None for all other values."""
    held = column.combine_chunks()
    held = held.chunk(0) if isinstance(held, pa.ChunkedArray) else held
    held = held if pa.types.is_dictionary(held.type) else held.dictionary_encode()
    days = days_of(held.dictionary)
    if days is None:
        return None
    return np.append(days, np.nan)[np.where(coding.is_null(held.indices), -1, coding.index_values(held.indices))]


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Return the values as numbers, NaN where missing; None where one is no number."""
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    if pa.types.is_boolean(whole.type):
        return None
    try:
        if not pa.types.is_dictionary(whole.type):
            return coding.to_floats(whole.cast(pa.float64(), safe=False))
        values = np.append(coding.to_floats(whole.dictionary.cast(pa.float64(), safe=False)), np.nan)
        return values[np.where(coding.is_null(whole.indices), -1, coding.index_values(whole.indices))]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
