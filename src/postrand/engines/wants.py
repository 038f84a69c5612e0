"""What a run wants to know of its records, answered together: one reading of the file serves every want.

A want takes batches apart from each other, ``part``, in any thread or process, and adds the parts up in file order.
What goes wrong with one want is kept as its answer, and raised where that answer is asked for: the others have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, coding
from postrand.codebook.encoded import encoded
from postrand.data.table import TablePart, TableTally, table_part
from postrand.engines.content import Content, ContentReader
from postrand.engines.grouped import MISSING, NEGATIVE, countable, wrong_weight
from postrand.engines.units import units_of
from postrand.errors import DataError, PostrandError, UsageError, nearest, raise_all, sentence
from postrand.formats import Source
from postrand.support.randomness import record_keys
from postrand.support.showing import few


class Piece:
    """Records that follow each other in the file, from number ``first`` on; columns are encoded once for all wants."""

    def __init__(self, batch: pa.RecordBatch, first: int, codebook: Codebook | None = None) -> None:
        self.batch, self.first, self.codebook = batch, first, codebook
        self._codes: dict[str, NDArray[Any]] = {}

    def column(self, name: str) -> pa.Array:
        """Return the values of a column."""
        return self.batch.column(name)

    def codes(self, name: str) -> NDArray[Any]:
        """Return the codes of a variable; raises as :func:`postrand.codebook.coding.encode`."""
        if name not in self._codes:
            self._codes[name] = encoded(self.batch.column(name), self.book, name)
        return self._codes[name]

    @property
    def book(self) -> Codebook:
        """The codebook, for wants of categorical variables."""
        assert self.codebook is not None
        return self.codebook


class Tally(Protocol):
    """Adds up the parts of one want."""

    def add(self, part: Any) -> None:
        """Add a part; parts come in file order, or as the engine reads where a source has none."""

    def found(self) -> Any:
        """Return the answer."""


class Want(Protocol):
    """One question about all records; a frozen value, which travels to where the records are."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns to read."""

    @property
    def numbered(self) -> bool:
        """Whether the places of the records in the file matter, and not only that their numbers differ."""

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise what is wrong with the want before a record is read."""

    def part(self, piece: Any) -> Any:
        """Return what some records give; see :class:`Piece`. It is small, and can be pickled."""

    def tally(self, source: Source, codebook: Codebook) -> Tally:
        """Return what adds up the parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Hold the answer of each want, or the error that it met."""

    held: Mapping[Want, Any] = field(default_factory=dict, repr=False)

    def __contains__(self, want: Want) -> bool:
        return want in self.held

    def __getitem__(self, want: Any) -> Any:
        """Return the answer of a want; raises the error that it met."""
        found = self.held[want]
        if isinstance(found, PostrandError):
            raise type(found)(found.problems)
        return found


@dataclass(frozen=True, slots=True)
class Count:
    """Want the records, or the sum of their weights, in each combination of the variables: a ContingencyTable."""

    variables: tuple[str, ...]
    weight: str | None = None
    numbered = False

    @property
    def columns(self) -> Sequence[str]:
        """The columns to read."""
        return tuple(dict.fromkeys([*self.variables, *([] if self.weight is None else [self.weight])]))

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise UsageError unless there is a variable, and each is named once; SpecificationError for unknown ones."""
        countable(codebook, self.variables)

    def part(self, piece: Piece) -> TablePart:
        """Count some records."""
        codes = [piece.codes(name) for name in self.variables]
        weights = None if self.weight is None else _weights(piece.column(self.weight), self.weight)
        return table_part(codes, tuple(piece.book[name].size for name in self.variables), weights)

    def tally(self, source: Source, codebook: Codebook) -> TableTally:
        """Return what adds up the counts."""
        return TableTally(self.variables, tuple(codebook[name].size for name in self.variables))


@dataclass(frozen=True, slots=True)
class Digest:
    """Want the content of the records under a release key: see :mod:`postrand.engines.content`."""

    reader: ContentReader
    record_key: str | None = None

    @property
    def numbered(self) -> bool:
        """Whether the places of the records are their keys."""
        return self.record_key is None

    @property
    def columns(self) -> Sequence[str]:
        """The columns to read."""
        return tuple(dict.fromkeys([*self.reader.inputs, *([] if self.record_key is None else [self.record_key])]))

    def check(self, source: Source, codebook: Codebook) -> None:
        """Raise as :func:`check_inputs`."""
        check_inputs(source, self.columns, self.record_key)

    def part(self, piece: Piece) -> Content:
        """Digest some records."""
        codes = {v.name: piece.codes(v.name) for v in self.reader.variables}
        keys = keys_of(piece.batch, piece.first, self.record_key)
        self.reader.split.check(codes)
        positions = [cells.positions(codes) for cells in self.reader.cells]
        units = units_of(self.reader.units, piece.column)
        found = self.reader.of_positions(positions, keys, self.reader.split.digits(codes), units)
        return Content(found.records, found.cells, self.reader.of_ranked(piece.batch, keys))

    def tally(self, source: Source, codebook: Codebook) -> Sum:
        """Return what adds up the contents."""
        return Sum()


class Sum:
    """Adds up contents."""

    def __init__(self) -> None:
        self._content = Content()

    def add(self, part: Content) -> None:
        """Add a content."""
        self._content += part

    def found(self) -> Content:
        """Return the content of all."""
        return self._content


@dataclass(frozen=True, slots=True)
class Hold:
    """Want columns whole, as an Arrow table in file order: categorical variables as their codes, a byte or two each."""

    columns: tuple[str, ...]
    numbered = True

    def check(self, source: Source, codebook: Codebook) -> None:
        """Nothing can be wrong."""

    def part(self, piece: Piece) -> pa.RecordBatch:
        """Return the columns of some records."""
        arrays = [self._array(piece, name) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _array(self, piece: Piece, name: str) -> pa.Array:
        if name not in piece.book or not piece.book[name].is_categorical:
            return piece.column(name)
        variable, codes = piece.book[name], piece.codes(name)
        values = coding.category_values(variable)
        missing = (codes < 0) | (codes >= len(values))
        indices = coding.from_numpy(codes, missing if missing.any() else None)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=variable.ordered, safe=False)

    def tally(self, source: Source, codebook: Codebook) -> Held:
        """Return what puts the records behind each other."""
        return Held([source.schema.field(name) for name in self.columns])


class Held:
    """Puts batches behind each other."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._fields, self._batches = fields, list[pa.RecordBatch]()

    def add(self, part: pa.RecordBatch) -> None:
        """Add records."""
        self._batches.append(part)

    def found(self) -> pa.Table:
        """Return all records."""
        if not self._batches:
            return pa.schema(self._fields).empty_table()
        return pa.Table.from_batches(self._batches).unify_dictionaries()


@contextmanager
def kept(want: Want, held: dict[Want, Any]) -> Iterator[None]:
    """Keep what goes wrong as the answer of a want."""
    try:
        yield
    except PostrandError as error:
        held[want] = error


def answer(
    source: Source,
    codebook: Codebook,
    wants: Iterable[Want],
    read: Callable[[Sequence[Want], Sequence[str]], Iterable[Sequence[Any]]],
) -> Answers:
    """Answer wants in one pass: ``read(wants, columns)`` yields the parts of some records, one for each of its wants.

    A part can be the error that a want met there.
    """
    held: dict[Want, Any] = {}
    tallies: dict[Want, Tally] = {}
    for want in dict.fromkeys(wants):
        with kept(want, held):
            want.check(source, codebook)
            tallies[want] = want.tally(source, codebook)
    asked = list(tallies)
    columns = list(dict.fromkeys(name for want in asked for name in want.columns))
    for parts in read(asked, columns) if asked else ():
        for want, part in zip(asked, parts, strict=True):
            if want in held:
                continue
            if isinstance(part, PostrandError):
                held[want] = part
            else:
                tallies[want].add(part)
    return Answers({**{want: tally.found() for want, tally in tallies.items() if want not in held}, **held})


def parts_of(wants: Sequence[Want], piece: Piece) -> list[Any]:
    """Return the part of each want, or the error that it met."""
    found: list[Any] = []
    for want in wants:
        try:
            found.append(want.part(piece))
        except PostrandError as error:
            found.append(error)
    return found


def keys_of(batch: pa.RecordBatch, first: int, record_key: str | None) -> NDArray[np.uint64]:
    """Return the keys of a batch's records: their numbers in the file, or those in a column."""
    if record_key is None:
        return np.arange(first, first + batch.num_rows, dtype=np.uint64)
    return record_keys(batch.column(record_key))


def numbered(batches: Iterable[pa.RecordBatch], first: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the number of its first record, without the records before ``first``."""
    start = 0
    for batch in batches:
        skipped = min(max(first - start, 0), batch.num_rows)
        if skipped < batch.num_rows:
            yield start + skipped, batch.slice(skipped)
        start += batch.num_rows


def check_inputs(source: Source, columns: Sequence[str], record_key: str | None) -> None:
    """Raise UsageError where records cannot be told apart twice, and DataError with every column that is missing."""
    if record_key is None and not getattr(source, "ordered", True):
        what = "the records have neither a fixed order nor a record key: two readings cannot be matched"
        raise UsageError(
            sentence(what, fix="name a record key, or end the query with ORDER BY and columns that have no ties")
        )
    known = source.schema.names
    raise_all(
        DataError,
        [
            sentence(f"no column {n!r} in the data{nearest(n, known)}", wanted=few([*known]))
            for n in columns
            if n not in known
        ],
    )


def _weights(column: pa.Array, name: str) -> NDArray[np.float64]:
    if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise wrong_weight(MISSING, name)
    weights: NDArray[np.float64] = coding.to_numpy(column).astype(np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise wrong_weight(NEGATIVE, name)
    return weights
