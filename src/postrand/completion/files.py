"""The stacked file of all copies: its columns, how it is written copy by copy, and how it is checked.

Its first columns are ``Imputation_``, the number of the copy, and ``Record_``, the number of the record in the released
data, from 1. Then come the columns of the codebook with true values. Copy 0 is the released data without the
perturbed variables, which are missing there: what ``mi import flong`` of Stata, ``as.mids`` of mice and SPSS expect.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand import formats
from postrand.codebook import Codebook, Variable, coding
from postrand.codebook.clear_columns import carried
from postrand.codebook.rules import forbidden
from postrand.codebook.variable import Scalar
from postrand.completion.stored import labels_of, numbers_of, stored_as, type_of
from postrand.data.frames import bind, to_arrow
from postrand.engines.base import public_field
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.estimate.pooling_files import COPY, RECORD
from postrand.formats.base import BATCH_ROWS
from postrand.mechanism import Mechanism
from postrand.support.inputs import is_whole

FEWEST, MOST = 2, 1000
"""How many copies can be made: one alone does not say how uncertain it is."""
_FIX = "do not use this file: it was not made from this release"


def copies_problems(copies: Any, where: str) -> list[str]:
    """Return a sentence if this is not a number of copies.

    >>> copies_problems(1, "--copies")[0]
    '--copies: not a number of copies; got 1; wanted a whole number from 2 to 1,000. Next: use 20.'
    """
    if is_whole(copies, FEWEST) and copies <= MOST:
        return []
    wanted = f"a whole number from {FEWEST} to {MOST:,}"
    return [sentence("not a number of copies", where=where, got=copies, wanted=wanted, fix="use 20")]


def name_problems(book: Codebook) -> Iterator[str]:
    """Yield a sentence for each variable that has the name of a first column of stacked files."""
    for variable in book.variables:
        if variable.name.casefold() in (COPY.casefold(), RECORD.casefold()):
            what = f"variable {variable.name!r} has the name of a column that numbers copies or records"
            yield sentence(what, fix="rename it in the file and the codebook")


@dataclass(frozen=True, slots=True)
class Stacked:
    """Describe the stacked file of a release: its columns, and what they hold.

    ``true`` is the codebook of the true values, in each of which a missing value can be; ``perturbed`` are the
    variables that copy 0 does not have. ``numbers``: the values of texts that the format holds as numbers, by variable,
    because released data have them so, or because Stata imputes no text. ``schema`` is that of the file, and
    ``stored_as`` says how it stores each variable (a key of :data:`postrand.completion.stored.TOLD`).
    """

    true: Codebook
    perturbed: frozenset[str]
    numbers: Mapping[str, tuple[Scalar, ...]]
    schema: pa.Schema
    stored_as: Mapping[str, str]

    @classmethod
    def of(cls, released: pa.Schema, mechanism: Mechanism, suffix: str, *, earlier: bool = False) -> Stacked:
        """Return the form of a file with this suffix, from the columns of the released data.

        ``earlier``: that of files that do not say how they store columns; see :func:`stored.numbers_of`.

        Raises
        ------
        SpecificationError
            If a released variable has the name of one of the first columns.
        """
        book = mechanism.require_codebook()
        raise_all(SpecificationError, name_problems(book))
        numbers = numbers_of(book, mechanism.partly, suffix, earlier)
        texts = ((COPY, b"Number of the copy; 0: as released"), (RECORD, b"Number of the record in the released data"))
        heads = [pa.field(name, pa.int64(), metadata={b"label": text}) for name, text in texts]
        fields = [
            _own_field(v, numbers.get(v.name), suffix)
            if v.name in numbers or v.name in mechanism.partly
            else public_field(released.field(v.name), v).with_nullable(True)
            for v in book.variables
        ]
        kept = tuple(dataclasses.replace(v, missing="keep") for v in book.variables)
        perturbed = frozenset(mechanism.variables)
        schema = pa.schema([*heads, *fields])
        stored = stored_as(schema, book, numbers, suffix)
        return cls(Codebook(kept), perturbed, numbers, schema, stored)

    @property
    def codebook(self) -> Codebook:
        """The codebook of the file's columns, as which it is read."""
        heads = [Variable(name, role="other", type="int64") for name in (COPY, RECORD)]
        return Codebook((*heads, *(_numbered(v, self) if v.name in self.numbers else v for v in self.true.variables)))

    def array(self, column: Any, variable: Variable) -> pa.Array:
        """Return true values in the one form in which the file has them."""
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if not variable.is_categorical:
            return carried(column, variable)
        return self.decoded(coding.encode(column, variable), variable)

    def decoded(self, codes: NDArray[Any], variable: Variable) -> pa.Array:
        """Return the file's values of codes, shape (n,), -1 for missing."""
        if variable.name not in self.numbers:
            return coding.decode(codes, variable)
        values = pa.array(self.numbers[variable.name], self.schema.field(variable.name).type)
        return values.take(coding.from_numpy(codes.astype(np.int64).clip(0), codes < 0))

    def missing(self, size: int, variable: Variable) -> pa.Array:
        """Return as many missing values."""
        return self.decoded(np.full(size, -1, dtype=coding.code_dtype(variable)), variable)


def write_stacked(path: Path, form: Stacked, released: pa.Table, frames: Iterable[pa.Table]) -> None:
    """Write all copies, one after the other, to a new file in the format of its suffix.

    ``released`` are the released records, whose unperturbed columns each copy has; ``frames`` have the true values of
    the perturbed variables. One copy is in memory at a time, beside what the format itself collects (SPSS, Stata and
    SAS: all of them). The same records give the same bytes.

    Raises
    ------
    ReleaseError
        If the file exists, or cannot be written.
    DataError
        If a value does not fit the codebook, or the format cannot hold one.
    """
    with formats.open_writer(path, form.schema) as writer:
        for batch in stacked_batches(form, released, frames):
            writer.write(batch)


def write_frames(path: str | Path, released: Any, frames: Iterable[Any], mechanism: Mechanism) -> Path:
    """Write copies of a released frame as :func:`write_stacked` does; the columns are those that the codebook has too.

    Raises
    ------
    UsageError
        If the suffix is not that of a format that is written.
    SpecificationError, ReleaseError, DataError
        As :func:`write_stacked` and :meth:`Stacked.of`.
    """
    path, table = Path(path), to_arrow(released)
    law = bind(table, mechanism)
    book = law.require_codebook()
    given = [v for v in book.variables if v.name in table.column_names]
    types = {v.name: str(coding.value_type(table.schema.field(v.name).type)) for v in given}
    held = tuple(v if v.is_categorical else dataclasses.replace(v, type=types[v.name]) for v in given)
    rules = tuple(rule for rule in book.rules if set(rule.variables) <= types.keys())
    form = Stacked.of(table.schema, law.bind(Codebook(held, rules)), path.suffix)
    write_stacked(path, form, table, map(to_arrow, frames))
    return path


def stacked_batches(form: Stacked, released: pa.Table, frames: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield the records of the stacked file, copy 0 first; see :func:`write_stacked`."""
    yield from _batches(form, released, None, 0)
    for number, frame in enumerate(frames, 1):
        yield from _batches(form, released, frame, number)


def _batches(form: Stacked, released: pa.Table, frame: pa.Table | None, number: int) -> Iterator[pa.RecordBatch]:
    names = [COPY, RECORD, *form.true.names]
    for start in range(0, released.num_rows, BATCH_ROWS):
        size = min(BATCH_ROWS, released.num_rows - start)
        numbers = (np.full(size, number), np.arange(start + 1, start + size + 1))
        arrays = [coding.from_numpy(values.astype(np.int64)) for values in numbers]
        for variable in form.true.variables:
            if variable.name not in form.perturbed:
                arrays.append(form.array(released.column(variable.name).slice(start, size), variable))
            elif frame is None:
                arrays.append(form.missing(size, variable))
            else:
                arrays.append(form.array(frame.column(variable.name).slice(start, size), variable))
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def check_stacked(path: Path, form: Stacked, mechanism: Mechanism, released: pa.Table, copies: int) -> list[DataError]:
    """Check that a file holds this number of copies that fit the released records; return whether bytes differ.

    Each copy has all records in order, the released values of unperturbed variables, values of the codebook, and no
    combination that a rule forbids; copy 0 has no perturbed value. The list has an error if the bytes of the file are
    not those that its records give.

    Raises
    ------
    DataError
        If a value is another one.
    """
    source, differing, whole = formats.read(path, form.codebook), list[DataError](), False
    check = _Check(form, mechanism, released, copies)
    try:
        with formats.open_comparison(path, form.schema) as writer:
            for batch in source.batches([COPY, RECORD, *form.true.names]):
                writer.write(check.rebuilt(batch))
            check.end()
            whole = True
    except DataError as error:
        if not whole:
            raise
        differing.append(error)
    return differing


class _Check:
    """Compare batches of a stacked file with the released records; local to :func:`check_stacked`."""

    def __init__(self, form: Stacked, mechanism: Mechanism, released: pa.Table, copies: int) -> None:
        self.form, self.released, self.copies, self.row = form, released, copies, 0
        self.given, self.partly = mechanism.require_codebook(), frozenset(mechanism.partly)

    def end(self) -> None:
        """Refuse a file with too few records."""
        wanted = (self.copies + 1) * self.released.num_rows
        if self.row != wanted:
            raise DataError(sentence("the numbers of records differ", got=self.row, wanted=wanted, fix=_FIX))

    def rebuilt(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch as it was written; raises DataError with what does not fit."""
        size, records = batch.num_rows, self.released.num_rows
        rows = np.arange(self.row, self.row + size)
        self.row += size
        copy, place = rows // records, rows % records
        for name, wanted in ((COPY, copy), (RECORD, place + 1)):
            column = batch.column(name)
            if column.null_count or not np.array_equal(coding.to_numpy(column), wanted):
                what = f"{name!r} does not number the copies and their records in order"
                raise DataError(sentence(what, fix=_FIX))
        if size and copy[-1] > self.copies:
            raise DataError(sentence("the file has more copies than it says", wanted=self.copies, fix=_FIX))
        held = self.released.take(coding.from_numpy(place.astype(np.int64)))
        codes: dict[str, NDArray[Any]] = {}
        each = ((v, batch.column(v.name), held.column(v.name)) for v in self.form.true.variables)
        arrays = [self._rebuilt(variable, column, shown, copy, codes) for variable, column, shown in each]
        drawn = {name: code[copy > 0] for name, code in codes.items()}
        if self.given.rules and (copy > 0).any() and forbidden(self.given, drawn, self.given.rules).any():
            raise DataError(sentence("a copy has a combination that a rule of the codebook forbids", fix=_FIX))
        return pa.RecordBatch.from_arrays([batch.column(COPY), batch.column(RECORD), *arrays], names=batch.schema.names)

    def _rebuilt(
        self, variable: Variable, column: pa.Array, held: pa.ChunkedArray, copy: NDArray[Any], codes: dict[str, Any]
    ) -> pa.Array:
        name, where = variable.name, f"variable {variable.name!r}"
        if not variable.is_categorical:
            values = carried(column, variable)
            if not values.equals(self.form.array(held, variable).cast(values.type)):
                raise DataError(sentence("the file has other values than the release", where=where, fix=_FIX))
            return values
        codes[name] = found = self._codes(column, variable)
        if name not in self.form.perturbed:
            if not np.array_equal(found, coding.encode(held, variable)):
                raise DataError(sentence("the file has other values than the release", where=where, fix=_FIX))
        elif (found[copy == 0] >= 0).any():
            raise DataError(sentence("copy 0 has values of a perturbed variable", where=where, fix=_FIX))
        elif (found[copy > 0] < 0).any():
            self._check_missing(variable, (found < 0)[copy > 0], held.combine_chunks().filter(pa.array(copy > 0)))
        codes[name] = self._true_codes(found, variable)
        return self.form.decoded(found, variable)

    def _codes(self, column: pa.Array, variable: Variable) -> NDArray[Any]:
        numbers = self.form.numbers.get(variable.name)
        if numbers is None:
            return coding.encode(column, variable)
        of = self.form.schema.field(variable.name).type
        values = tuple(numbers) if pa.types.is_integer(of) else tuple(map(float, numbers))  # of one type, as books ask
        held = Variable(variable.name, role="other", categories=values, type=str(of), missing="keep")
        return coding.encode(column, held)

    def _true_codes(self, found: NDArray[Any], variable: Variable) -> NDArray[Any]:
        """Return codes in which missing is a category where the codebook says so, as rules see them."""
        given = self.given[variable.name]
        return np.where(found < 0, len(given.categories), found) if given.missing == "category" else found

    def _check_missing(self, variable: Variable, missing: NDArray[np.bool_], held: Any) -> None:
        """Refuse missing values where the codebook knows none, or where the release shows that there is none."""
        policy = self.given[variable.name].missing
        kept = policy == "keep" and (variable.name in self.partly or not (missing & ~coding.is_null(held)).any())
        if policy != "category" and not kept:
            raise DataError(sentence("a copy has a missing value", where=f"variable {variable.name!r}", fix=_FIX))


def _numbered(variable: Variable, form: Stacked) -> Variable:
    of = str(form.schema.field(variable.name).type)
    return Variable(variable.name, role=variable.role, type=of, missing="keep", label=variable.label)


def _own_field(variable: Variable, numbers: tuple[Scalar, ...] | None, suffix: str) -> pa.Field:
    """Return the column of a variable that is not stored as it is released: with true values only."""
    labels = labels_of(variable, numbers, suffix)
    said = {b"label": variable.label, b"value_labels": json.dumps(labels, ensure_ascii=False) if labels else ""}
    of = coding.arrow_type(variable.type) if numbers is None else type_of(numbers)
    return pa.field(variable.name, of, metadata={key: text for key, text in said.items() if text})
