"""Household numbers of a release: new random numbers, which show who lives together, so how many do, and nothing else.

The number of household h, under an AES-256 key that is derived from release key, mechanism and content, is::

    AES-256(key, h ‖ t) mod 2^53

with h the 64-bit identity of the file's number and t the first turn at which no two households share a number. It
depends on h only, so any engine can number any batch, without a state. Numbers are below 2^53, so that formats and
programs with floating-point numbers represent them exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable, coding
from postrand.errors import DataError, sentence
from postrand.formats import Source
from postrand.support.randomness import ReleaseKey, derive, record_keys, words

BITS = 53
MAX_TURNS = 64
_WIDE = ("int64", "uint64", "double")
_LABEL = b"label"


def together(names: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return an order that puts records of one name together, where each name begins in it, and its records.

    >>> [part.tolist() for part in together(np.array([7, 5, 7], np.uint64))]
    [[1, 0, 2], [0, 1], [1, 2]]
    """
    order = np.argsort(names, kind="stable")
    new = names[order][1:] != names[order][:-1]
    first = np.flatnonzero(np.append(True, new)) if names.size else np.zeros(0, dtype=np.intp)
    return order, first, np.diff(np.append(first, names.size))


def identities(column: pa.Array, name: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the 64-bit identity of each household number, shape (n,), 0 if missing, and which are present.

    >>> identities(pa.array([7.0, None, 8.0]), "hh")[0].tolist()
    [7, 0, 8]

    Raises
    ------
    DataError
        If the numbers are not whole numbers or text.
    """
    there = pc.is_valid(column).to_numpy(zero_copy_only=False)
    held = column.drop_null()
    held = held if pa.types.is_dictionary(held.type) else held.dictionary_encode()
    values = held.dictionary
    if pa.types.is_floating(values.type):
        there_too = np.isfinite(values.to_numpy(zero_copy_only=False))
        try:
            values = values.cast(pa.int64()) if there_too.all() else None
        except pa.ArrowInvalid:
            values = None
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if values is None or not (coding.is_text(values.type) or pa.types.is_integer(values.type)):
        what = "household numbers are not whole numbers or text"
        raise DataError(sentence(what, where=f"variable {name!r}", fix="convert the column in the file"))
    found = np.zeros(len(column), dtype=np.uint64)
    found[there] = record_keys(values)[coding.to_numpy(held.indices)] if len(held) else 0
    return found, there


def same_groups(true: pa.Array, released: pa.Array) -> bool:
    """Tell whether two columns (n,) put the same records together, and lack a number in the same records.

    >>> same_groups(pa.array([7, None, 5, 7]), pa.array(["b", None, "a", "b"]))
    True
    >>> same_groups(pa.array([7, 7, 5]), pa.array([1, 2, 3])), same_groups(pa.array([7, 5]), pa.array([1, 1]))
    (False, False)
    """
    return bool(_places(true).equals(_places(released)))


def _places(column: pa.Array) -> pa.Array:
    """Return a number for each household by the place of its first record among all, null if missing."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_floating(plain.type):
        plain = pc.if_else(pc.is_nan(plain), pa.scalar(None, plain.type), plain)
    return plain.dictionary_encode().indices


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Give the households of one variable new numbers; anyone with ``key`` can link old and new numbers."""

    name: str
    turn: int
    key: bytes = field(repr=False)

    def numbers(self, column: pa.Array) -> pa.Array:
        """Return the new numbers of a column, in the type of the released codebook; missing ones stay missing."""
        found, there = identities(column, self.name)
        fresh = fresh_numbers(self.key, found, self.turn).astype(np.int64)
        made = coding.from_numpy(fresh, None if there.all() else ~there)
        return made.cast(coding.arrow_type(released_type(str(coding.value_type(column.type)))))

    def field(self, of: pa.Field, label: str = "") -> pa.Field:
        """Return the released field, without the file's own metadata of the old numbers, such as labels."""
        kind = coding.arrow_type(released_type(str(coding.value_type(of.type))))
        return pa.field(of.name, kind, metadata={_LABEL: label} if label else None)


def fresh_numbers(key: bytes, found: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
    """Return ``AES-256(key, found ‖ turn) mod 2^53``, shape (n,)."""
    return words(key, found, turn)[:, 0] & np.uint64((1 << BITS) - 1)


@dataclass(frozen=True, slots=True)
class HouseholdNumbers:
    """Want the identities of all households, ascending; see :class:`postrand.engines.wants.Want`.

    8 bytes of memory for each household.
    """

    name: str
    numbered = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The column to read."""
        return (self.name,)

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Any) -> NDArray[np.uint64]:
        """Return the households of some records."""
        found, there = identities(piece.column(self.name), self.name)
        return np.unique(found[there])

    def tally(self, source: Source, codebook: Codebook) -> _Distinct:
        """Return what puts them together."""
        return _Distinct()


class _Distinct:
    """Puts ascending distinct numbers together."""

    def __init__(self) -> None:
        self._held: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._waiting: list[NDArray[np.uint64]] = []

    def add(self, part: NDArray[np.uint64]) -> None:
        self._waiting.append(part)
        if sum(one.size for one in self._waiting) > max(self._held.size, 1 << 20):
            self._held, self._waiting = self.found(), []

    def found(self) -> NDArray[np.uint64]:
        return np.unique(np.concatenate([self._held, *self._waiting]))


def renumbering(source: Source, name: str, key: ReleaseKey, digest: str, content: bytes) -> Renumbering:
    """Return the new numbers of a variable for a release key, a mechanism's digest and a content's tag.

    One pass over the column, and 8 bytes of memory for each household; no two households share a number.

    >>> from postrand.data.frames import TableSource
    >>> source = TableSource(pa.table({"hh": [1, 1, 2]}))
    >>> fresh = renumbering(source, "hh", ReleaseKey.from_seed(1), "aa", b"").numbers(pa.array([1, 2, 1])).to_pylist()
    >>> fresh[0] == fresh[2], fresh[0] == fresh[1], max(fresh) < 2**53
    (True, False, True)
    """
    want, held = HouseholdNumbers(name), _Distinct()
    for batch in source.batches([name]):
        held.add(want.part(batch))
    return renumbering_of(held.found(), name, key, digest, content)


def renumbering_of(
    households: NDArray[np.uint64], name: str, key: ReleaseKey, digest: str, content: bytes
) -> Renumbering:
    """Return the new numbers of the households that :class:`HouseholdNumbers` found; see :func:`renumbering`."""
    secret = derive(key, f"households {digest} {name}", content).order
    return Renumbering(name, first_turn(secret, households), secret)


def first_turn(secret: bytes, households: NDArray[np.uint64], turns: Iterable[int] = range(MAX_TURNS)) -> int:
    """Return the first turn at which distinct households have distinct numbers; raises DataError if none has."""
    for turn in turns:
        if np.unique(fresh_numbers(secret, households, turn)).size == households.size:
            return turn
    raise DataError(sentence("there are too many households for new numbers", fix="household_numbers = 'as they are'"))


def released_type(of: str) -> str:
    """Return the type of the new numbers: the file's type if it can represent them.

    >>> released_type("int16"), released_type("double"), released_type("string")
    ('int64', 'double', 'string')
    """
    if of in _WIDE or coding.is_text(coding.arrow_type(of)):
        return of
    return "double" if of in ("float", "halffloat") else "int64"


def renumbered_book(codebook: Codebook) -> Codebook:
    """Return the codebook of a release with new household numbers: categories of the old numbers are removed."""
    return dataclasses.replace(codebook, variables=tuple(_fresh(v) for v in codebook.variables))


def _fresh(variable: Variable) -> Variable:
    if variable.role != "household":
        return variable
    of: Any = coding.value_type(coding.arrow_type(variable.type))
    missing: Literal["error", "keep"] = "error" if variable.missing == "error" else "keep"
    return Variable(variable.name, "household", type=released_type(str(of)), missing=missing, label=variable.label)
