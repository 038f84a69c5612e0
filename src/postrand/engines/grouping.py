"""Tables from one query of a database over GROUPING SETS: what comes back is small, and is coded here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, coding
from postrand.codebook.encoded import encoded
from postrand.data.table import ContingencyTable, tally
from postrand.engines.grouped import quoted, wrong_weight
from postrand.engines.wants import Count, Want, kept
from postrand.formats.base import cast

TOTAL, WRONG, SET = "\0total", "\0wrong", "\0set"
"""Columns of the groups: their records or the sum of their weights, the weights that are none, and the set."""

_MOST_NAMES = 60
"""Columns of one query: a set is a number of as many bits."""


def together(wants: Iterable[Count]) -> Iterator[list[Count]]:
    """Yield tables that one query can count."""
    held: list[Count] = []
    for want in wants:
        if held and len({name for one in (*held, want) for name in one.variables}) > _MOST_NAMES:
            yield held
            held = []
        held.append(want)
    if held:
        yield held


def grouping_sql(relation: str, names: Sequence[str], wants: Sequence[Count], total: str) -> str:
    """Return the query whose rows are the groups of every table, ``total`` of each, and which table it is."""
    listed = ", ".join(map(quoted, names))
    sets = dict.fromkeys(", ".join(quoted(n) for n in names if n in want.variables) for want in wants)
    grouped = ", ".join(f"({one})" for one in sets)
    return f"SELECT {listed}, {total}, GROUPING({listed}) FROM ({relation}) GROUP BY GROUPING SETS ({grouped})"


def tables_of_sets(
    groups: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    codebook: Codebook,
    names: Sequence[str],
    wants: Sequence[Count],
) -> dict[Want, Any]:
    """Return the table of each want from the rows of :func:`grouping_sql`, or the error that it met."""
    weighted = any(want.weight is not None for want in wants)
    columns = [*names, TOTAL, *([WRONG] if weighted else []), SET]
    rows: dict[int, list[pa.RecordBatch]] = {}
    for batch in groups:
        named = batch.rename_columns(columns)
        for one in pc.unique(named.column(SET)).to_pylist():
            rows.setdefault(one, []).append(named.filter(pc.equal(named.column(SET), one)))
    held: dict[Want, Any] = {}
    for want in wants:
        with kept(want, held):
            bits = "".join("0" if name in want.variables else "1" for name in names)
            held[want] = table_of(rows.get(int(bits, 2), []), schema, codebook, want.variables, want.weight)
    return held


def table_of(
    groups: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    codebook: Codebook,
    variables: Sequence[str],
    weight: str | None,
) -> ContingencyTable:
    """Return the table of groups of *values*: a column for each variable, ``TOTAL``, and ``WRONG`` where weighted.

    ``schema`` is the source's: values that the other system gave another type are put back into it. Values that have
    one code (0.0 and -0.0, null and NaN) may come as several groups.

    Raises
    ------
    DataError
        If a value does not fit the codebook, or a weight is missing, negative or not finite.
    """
    held = [codebook[name] for name in variables]

    def codes() -> Iterator[tuple[list[NDArray[Any]], NDArray[Any]]]:
        for batch in groups:
            if weight is not None and (wrong := pc.max(batch.column(WRONG)).as_py()):
                raise wrong_weight(wrong, weight)
            columns = [_in_type(batch.column(v.name), schema.field(v.name).type) for v in held]
            yield (
                [encoded(column, codebook, v.name) for column, v in zip(columns, held, strict=True)],
                coding.to_numpy(batch.column(TOTAL)).astype(np.float64),
            )

    found = tally(variables, [v.size for v in held], codes())
    if weight is not None:
        return found
    # Numbers of records: whole, and far below 2^53.
    counts, omitted = found.counts.astype(np.int64), int(found.omitted)
    return ContingencyTable(found.variables, found.shape, counts, found.cells, omitted)


def _in_type(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = coding.value_type(wanted)
    return column if pa.types.is_dictionary(column.type) else cast(column, values)
