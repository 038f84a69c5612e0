"""Numerical columns of a release: read completely, permuted or averaged, and put in place of the true ones.

A rank law needs all values of a column together, so one column at a time is in memory: about 66 bytes for each record
during ranking, 8 afterwards (text as it is written takes extra memory). The rest of the file is streamed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.columns.planned import NumericalPlan
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.formats import BATCH_ROWS, Source
from postrand.mechanism import Mechanism
from postrand.ranks.apply import average, permutation
from postrand.ranks.column import RankedColumn
from postrand.ranks.values import ValueLevel, order_keys, released_level, value_level, value_problem
from postrand.support.randomness import ReleaseKey, derive, record_keys, words

_ROUNDING = 1e-9


def as_numbers(table: pa.Table, source: Source, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table in which columns (all) of a text file that hold numbers alone are numbers, in any notation."""
    convert = getattr(source, "lossless", None) if getattr(source, "untyped", False) else None
    for place, name in enumerate(table.column_names):
        column = table.column(name).combine_chunks()
        held = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        if convert is None or not pa.types.is_dictionary(held.type) or (columns is not None and name not in columns):
            continue
        values = convert(held.dictionary, pa.float64())
        if values is not None:
            table = table.set_column(place, name, values.take(held.indices))
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Replaced:
    """A source with some columns replaced by others of the same length, in file order; see ``formats.base.Source``."""

    source: Source
    columns: Mapping[str, pa.Array]

    @property
    def schema(self) -> pa.Schema:
        """The source's fields, with the types of the new values."""
        held = {name: _plain_type(array.type) for name, array in self.columns.items()}
        own = self.source.schema
        return pa.schema([field.with_type(held.get(field.name, field.type)) for field in own], own.metadata)

    @property
    def num_rows(self) -> int | None:
        """The number of records."""
        return self.source.num_rows

    @property
    def parts(self) -> tuple[Any, ...]:
        """The files of the source, so that an interrupted run can recognise them."""
        return tuple(getattr(self.source, "parts", (self.source,)))

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records in file order."""
        names = self.schema.names if columns is None else list(columns)
        if not set(names) - set(self.columns):
            yield from pa.table({n: self.columns[n] for n in names}).to_batches(max_chunksize=batch_size)
            return
        start = 0
        for batch in self.source.batches([n for n in names if n not in self.columns], batch_size):
            held = [
                self.columns[n].slice(start, batch.num_rows) if n in self.columns else batch.column(n) for n in names
            ]
            start += batch.num_rows
            yield pa.RecordBatch.from_arrays(held, names=names)


def ranked_columns(source: Source, codebook: Codebook, planned: Sequence[NumericalPlan]) -> tuple[RankedColumn, ...]:
    """Return the planned columns with facts from the file: the number of records with a value, and the values' level.

    One pass for each column, which is in memory during the pass.

    Raises
    ------
    DataError
        If a value is not a finite number, or is missing and the policy is ``error``; if the release of a column
        would protect nothing; or if two columns rank the records alike.
    SpecificationError
        If a rank law needs more records than have a value. In both cases with all problems together.
    """
    found: list[RankedColumn] = []
    wrong: list[str] = []
    problems: list[str] = []
    orders: dict[bytes, str] = {}
    for entry, name in [(each, name) for each in planned for name in each.variables]:
        column = whole_column(source, name)
        if column.null_count and codebook[name].missing == "error":
            wrong.append(sentence(f"column {name!r} has missing values", fix="set missing = 'keep'"))
            continue
        try:
            values = numbers(column, name)
            ranked = RankedColumn(name, entry.method, entry.form, values.size)
        except DataError as error:
            wrong += error.problems
            continue
        except SpecificationError as error:
            problems += error.problems
            continue
        where = f"numerical variable {name!r}"
        level = value_level(values, entry.method, entry.form)
        problem = value_problem(values, entry.method, entry.form, where, level)
        wrong += [problem] if problem else order_problems(name, column, values, orders)
        found.append(dataclasses.replace(ranked, level=level))
    raise_all(DataError, wrong)
    raise_all(SpecificationError, problems)
    return tuple(found)


def order_problems(
    name: str, column: pa.Array | pa.ChunkedArray, values: NDArray[Any], orders: dict[bytes, str]
) -> list[str]:
    """Return a sentence if a column in ``orders`` ranks the records in the same way; add this column to ``orders``."""
    placed = np.full(len(column), np.nan)
    placed[pc.is_valid(column).to_numpy(zero_copy_only=False)] = values
    keys = order_keys(placed)
    if keys[0] in orders:
        what = f"columns {orders[keys[0]]!r} and {name!r} rank the records alike: each reveals more about the other"
        return [sentence(what, fix="release one of them; the other can be computed if it is a function of it")]
    orders.update(dict.fromkeys(keys, name))
    return []


def released(
    source: Source,
    mechanism: Mechanism,
    key: ReleaseKey,
    record_key: str | None = None,
    *,
    content: bytes,
    held: Source | None = None,
) -> Source:
    """Return the source with the released values of the mechanism's numerical columns in place of the true ones.

    Where these columns, and the record key, are ``held`` in memory, they are not read again.

    The draw depends on key, mechanism, variable, ``content`` (the tag of the source's content) and ranks. Equal values
    are ranked by a keyed word of the record key, or by their order in the file if there is no record key. Missing
    values stay in their places.
    """
    if not mechanism.numerical:
        return source
    digest, held = mechanism.digest(), held or source
    ties = None
    if record_key is not None:
        keys = record_keys(whole_column(held, record_key))
        ties = words(derive(key, f"numerical {digest}", content).order, keys, 0)[:, 0].copy()
    made = {}
    for column in mechanism.numerical:
        made[column.variable] = _release(whole_column(held, column.variable), column, key, digest, ties, content)
    return Replaced(source, made)


def numbers(column: pa.Array | pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return the values that are not missing as finite numbers, also from text; raises DataError otherwise."""
    held = column.drop_null()
    if pa.types.is_dictionary(held.type):
        held = held.cast(held.type.value_type)
    try:
        whole = pa.types.is_integer(held.type)
        found = np.asarray((held if whole else held.cast(pa.float64())).to_numpy(zero_copy_only=False))
    except (pa.ArrowException, TypeError):
        found = np.full(1, np.nan)
    if not np.isfinite(found).all():
        what = f"column {name!r} has values that are not finite numbers"
        raise DataError(sentence(what, fix="correct them, make them missing, or name another column"))
    return found


def check_released(source: Source, columns: Sequence[RankedColumn]) -> None:
    """Refuse released columns that their rank laws cannot have made; one column at a time is in memory.

    Checked from the bytes: the number of values, the number of records that share each average, and the level of the
    values, which a column must state.

    Raises
    ------
    DataError
        With every column that does not match.
    """
    problems = []
    for column in columns:
        values = numbers(whole_column(source, column.variable), column.variable)
        where = f"numerical variable {column.variable!r}"
        if values.size != column.records:
            problems.append(sentence("the number of values is not the number in the rank law", where=where))
        elif column.form == "average" and np.unique(values, return_counts=True)[1].min() < column.law.shared:
            problems.append(sentence("an average is shared by fewer records than the rank law requires", where=where))
        elif not _same_level(column.level, released_level(values, column.law, column.form)):
            problems.append(
                sentence("the stated level of the values differs from the level of the released values", where=where)
            )
    raise_all(DataError, problems)


def _same_level(stated: ValueLevel | None, found: ValueLevel) -> bool:
    """Compare up to rounding: another machine can add sums in another order."""
    return stated is not None and all(
        math.isclose(a or 0.0, b or 0.0, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        for a, b in ((stated.shown, found.shown), (stated.bits, found.bits))
    )


def whole_column(source: Source, name: str) -> pa.Array:
    """Return one column of a source in one piece."""
    chunks = [batch.column(0) for batch in source.batches([name])]
    return pa.chunked_array(chunks).unify_dictionaries().combine_chunks()


def _release(
    column: pa.Array,
    ranked: RankedColumn,
    key: ReleaseKey,
    digest: str,
    ties: NDArray[np.uint64] | None,
    content: bytes,
) -> pa.Array:
    present = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    held = numbers(column, ranked.variable)
    words_of_ties = None if ties is None else ties[present]
    if ranked.form == "average":
        values = np.zeros(len(column))
        values[present] = average(held, ranked.law, ties=words_of_ties)
        missing = np.ones(len(column), dtype=bool)
        missing[present] = False
        return pa.array(values, mask=missing)
    name = f"{digest} {ranked.variable}"
    positions = np.arange(len(column))
    positions[present] = present[permutation(held, ranked.law, key, name=name, ties=words_of_ties, content=content)]
    return column.take(pa.array(positions))


def _plain_type(of: pa.DataType) -> pa.DataType:
    return of.value_type if pa.types.is_dictionary(of) else of
