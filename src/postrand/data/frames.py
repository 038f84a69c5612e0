"""Conversion between Arrow and dataframes (pandas, polars, pyarrow and others that narwhals reads), and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.data.frame_columns import arrow_like, arrow_of, categorical_like, dictionary_of, rooms_for, series_like
from postrand.errors import DataError, SpecificationError, UsageError, nearest, raise_all, sentence
from postrand.formats.base import BATCH_ROWS, bounded, repeated
from postrand.mechanism import Mechanism
from postrand.support.extras import require
from postrand.support.showing import few

if TYPE_CHECKING:
    import narwhals as nw

Each: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
"""Applies a function to each of some tasks, in their order, maybe several at a time."""

Kind: TypeAlias = Literal["arrow", "pandas", "polars"]
"""The kinds of frames that are made where there was none."""

_GROWING = b"_PL_CATEGORICAL"  # prefix of the mark of polars columns that list only categories that occur


def to_arrow(frame: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the columns (by default all) as an Arrow table; a pandas index is left out, NaN in pandas becomes null.

    Raises
    ------
    UsageError
        If ``frame`` is not a dataframe in memory.
    DataError
        If a column does not exist, or mixes values of several types.
    """
    if isinstance(frame, pa.Table):
        return frame if columns is None else frame.select(_known(frame.column_names, columns))
    from narwhals.exceptions import NarwhalsError

    held = _narwhals(frame)
    names = _known(held.columns, columns)
    arrays = {}
    for name in names:
        try:
            arrays[name] = arrow_of(held, name)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, NarwhalsError):
            what = "the column cannot be converted; it probably mixes values of several types"
            raise DataError(sentence(what, where=f"column {name!r}", fix="convert it to one type")) from None
    fields = [table.schema.field(0) for table in arrays.values()]
    return pa.Table.from_arrays([t.column(0) for t in arrays.values()], schema=pa.schema(fields))


def names_of(frame: Any) -> list[str]:
    """Return the names of the columns in their order; raises as :func:`to_arrow`."""
    return list(frame.column_names if isinstance(frame, pa.Table) else _narwhals(frame).columns)


def _in_turn(work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def like(frame: Any, columns: dict[str, pa.Array], each: Each = _in_turn, categorical: Collection[str] = ()) -> Any:
    """Return ``frame`` with these columns in place of its own of the same names.

    Each keeps the column's dtype with its category order; those of ``categorical`` take the type they have here, and
    dictionaries become categorical (pandas), Enum (polars) or dictionary (Arrow) with all their categories. Other
    columns, the order and a pandas index do not change. ``each`` applies a function to the columns, by default one
    after the other.

    The columns are taken out of ``columns``, so that the memory of those that were converted is free for the others.

    Raises
    ------
    DataError
        If a dtype cannot represent a value, for example a missing value in a pandas ``int64``.
    """

    def taken(name: str) -> pa.ChunkedArray:
        return pa.table({name: columns.pop(name)}).column(0)

    if isinstance(frame, pa.Table):
        places = [frame.column_names.index(name) for name in columns]
        fields = [frame.schema.field(place) for place in places]
        fields = [pa.field(f.name, columns[f.name].type) if f.name in categorical else f for f in fields]

        def arrow(task: tuple[pa.Field, NDArray[Any]]) -> pa.ChunkedArray:
            field, room = task
            new = taken(field.name)
            return new if field.name in categorical else arrow_like(frame.column(field.name), new, field, room)

        made = each(arrow, zip(fields, rooms_for(fields, frame.num_rows), strict=True))
        for place, field, column in zip(places, fields, made, strict=True):
            frame = frame.set_column(place, field, column)
        return frame
    held = _narwhals(frame)

    def series(name: str) -> nw.Series[Any]:
        return (categorical_like if name in categorical else series_like)(held[name], taken(name))

    new = each(series, list(columns))
    return held.with_columns(*new).to_native()


def codebook_of(frame: Any, names: Sequence[str], sizes: Mapping[str, int] | None = None) -> Codebook:
    """Return the codebook that categorical (pandas), Enum (polars), dictionary (Arrow) and boolean types imply.

    Roles are ``other``. Missing is a category if a value is missing, or if ``sizes``, the number of codes of a
    variable, is one more than its categories.

    Raises
    ------
    SpecificationError
        With every column whose type does not list its categories.
    """
    table = to_arrow(frame, names)
    found: list[Variable] = []
    problems = []
    for name in names:
        column, of = table.column(name), table.schema.field(name).type
        marks = table.schema.field(name).metadata or {}
        categories = None if any(m.startswith(_GROWING) for m in marks) else _categories(column)
        if categories is None:
            fix = "pass a codebook, or convert it to a pandas categorical, polars Enum or Arrow dictionary"
            problems.append(sentence(f"column {name!r} does not list its categories", got=of, fix=fix))
            continue
        one_more = (sizes or {}).get(name) == len(categories) + 1
        found.append(
            Variable(
                name,
                role="other",
                categories=tuple(categories),
                type=str(of),
                ordered=bool(getattr(of, "ordered", False)),
                missing="category" if one_more or column.null_count else "error",
            )
        )
    raise_all(SpecificationError, problems)
    return Codebook(tuple(found))


def bind(frame: Any, mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with its codebook, or with the one that the frame's types imply if it has none.

    Raises
    ------
    SpecificationError
        If a type does not list its categories, or a matrix does not fit them.
    """
    if mechanism.codebook is not None:
        return mechanism
    single = {b.variables[0]: b.matrix.size for b in mechanism.every_block if len(b.variables) == 1 and b.cells is None}
    names = list(dict.fromkeys((*mechanism.variables, *mechanism.given)))
    return mechanism.bind(codebook_of(frame, names, single))


@dataclass(frozen=True, slots=True)
class TableSource:
    """An Arrow table as a :class:`postrand.formats.Source`."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self.table.schema

    @property
    def num_rows(self) -> int:
        """The number of records."""
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records; see :class:`postrand.formats.Source`."""
        for batch in self.table.select(_known(self.table.column_names, columns)).to_batches():
            yield from bounded(batch, batch_size)


def with_columns(frame: Any, made: pa.Table, order: Sequence[str]) -> Any:
    """Return the columns of this order, those of ``made`` where it has them and else the frame's, as the same kind.

    Dictionary columns become categorical, with all categories.
    """
    if isinstance(frame, pa.Table):
        tables = [made if name in made.column_names else frame for name in order]
        fields = [table.schema.field(name) for table, name in zip(tables, order, strict=True)]
        columns = [table.column(name) for table, name in zip(tables, order, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, frame.schema.metadata))
    import narwhals as nw

    held = _narwhals(frame)
    kind: Kind = "pandas" if held.implementation.is_pandas() else "polars"
    new = nw.from_native(of_arrow(made, kind), eager_only=True)
    return held.with_columns(*(new[name] for name in made.column_names)).select(*order).to_native()


def take(frame: Any, rows: NDArray[np.int64]) -> Any:
    """Return the frame with the records at these places, in their order; one can stand several times."""
    if hasattr(frame, "take"):  # Arrow and pandas have it, and it is ten times as fast there
        return frame.take(rows)
    return _narwhals(frame)[rows].to_native()


def check_kind(kind: str) -> None:
    """Raise UsageError unless frames of this kind can be made here."""
    if kind not in get_args(Kind):
        raise UsageError(sentence("unknown kind of frames", got=kind, wanted=", ".join(get_args(Kind))))
    if kind != "arrow":
        require(kind, "a frame of this kind needs", "ask for the kind 'arrow'")


def of_arrow(table: pa.Table, kind: Kind) -> Any:
    """Return an Arrow table as a frame of a kind; dictionary columns become categorical, with all categories."""
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    import polars

    return polars.from_arrow(table)


def _narwhals(frame: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        held: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
        held.columns  # noqa: B018 repeated names are refused here
    except TypeError:
        wanted = "a pandas or polars DataFrame, or a pyarrow Table"
        fix = "collect a lazy frame first"
        raise UsageError(
            sentence("not a dataframe in memory", got=type(frame).__name__, wanted=wanted, fix=fix)
        ) from None
    except nw.exceptions.NarwhalsError:
        raise DataError(sentence("a column is named twice", where="the dataframe")) from None
    return held


def _known(names: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    if wanted is None:
        return list(names)
    raise_all(UsageError, [sentence(f"column {n!r} is requested twice") for n in repeated(wanted)])
    raise_all(
        DataError,
        [
            sentence(f"no column {n!r} in the data{nearest(n, names)}", wanted=few([*names]))
            for n in wanted
            if n not in names
        ],
    )
    return list(wanted)


def _categories(column: pa.ChunkedArray) -> list[Any] | None:
    if pa.types.is_boolean(column.type):
        return [False, True]
    if not pa.types.is_dictionary(column.type):
        return None
    values = dictionary_of(column)
    plain = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
    )
    return (values if any(test(values.type) for test in plain) else values.cast(pa.string())).to_pylist()  # type: ignore[no-any-return]
