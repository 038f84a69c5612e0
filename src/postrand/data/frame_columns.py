"""One column of a dataframe, to Arrow and back by its own codes: values are looked at once for each category.

pandas categoricals, polars Categoricals and Enums and Arrow dictionaries hold a number for each record. A table with
one entry for each category takes it to another dictionary's number; nothing is made of a record's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.coding import (
    from_numpy,
    gather,
    index_values,
    is_identity,
    is_null,
    is_text,
    numpy_dtype,
    value_type,
)
from postrand.errors import DataError, sentence
from postrand.formats.base import cast
from postrand.support.memory import room_for
from postrand.support.texts import room_for_ends, texts_at

if TYPE_CHECKING:
    import narwhals as nw

_GATHERED = 1 << 18
"""Records of an Enum that are gathered at a time: polars widens indices to four bytes, the Enum has one a record."""

_MOST_PHYSICAL = 1 << 14
"""Numbers of polars' categories, shared by all columns of a session, that are looked at for one column."""


def arrow_of(frame: nw.DataFrame[Any], name: str) -> pa.Table:
    """Return a column as an Arrow table of one column; raises what its library does where it cannot be converted."""
    import narwhals as nw

    found = None
    if frame.implementation.is_pandas():
        native = frame.to_native()[name]
        found = _of_categorical(native) if hasattr(native, "cat") else None
    elif frame.implementation.is_polars():
        series = frame[name]
        dtype = series.dtype  # made anew each time, with all categories
        found = _of_physical(series) if dtype == nw.Categorical else _of_enum(series) if dtype == nw.Enum else None
    return frame[name].to_frame().to_arrow().select([name]) if found is None else found


def _of_categorical(native: Any) -> pa.Table | None:
    """Return a pandas categorical by its codes, under the dictionary of the same column without records."""
    codes, empty = native.array.codes, pa.Array.from_pandas(native.array[:0])
    if not pa.types.is_dictionary(empty.type) or empty.type.index_type != pa.from_numpy_dtype(codes.dtype):
        return None
    indices = from_numpy(codes, codes < 0 if codes.size and codes.min() < 0 else None)
    ordered = empty.type.ordered
    array = pa.DictionaryArray.from_arrays(indices, empty.dictionary, ordered=ordered, safe=False)
    return pa.table({native.name: array})


def _of_enum(series: nw.Series[Any]) -> pa.Table | None:
    """Return a polars Enum by its numbers, over the same memory: polars itself makes a copy of them."""
    native = series.to_native()
    empty, indices = native.head(0).to_frame().to_arrow(), native.to_physical().to_arrow()
    of = empty.schema.field(0).type
    if not pa.types.is_dictionary(of) or of.index_type != indices.type:
        return None
    array = pa.DictionaryArray.from_arrays(indices, dictionary_of(empty.column(0)), ordered=of.ordered, safe=False)
    return pa.Table.from_arrays([array], schema=empty.schema)


def _of_physical(series: nw.Series[Any]) -> pa.Table | None:
    """Return a polars Categorical by its physical numbers: polars itself looks up each record's text.

    None where the numbers are too many, or polars (before 1.32) cannot turn numbers into categories.
    """
    native = series.to_native()
    physical = native.to_physical()
    top = physical.max()
    if not hasattr(native.cat, "to") or top is None or top >= _MOST_PHYSICAL:
        return None
    empty = series[:0].to_frame().to_arrow()
    try:  # the numbers are given out one after the other, so those below the highest are categories too
        texts = type(native)(np.arange(top + 1, dtype=np.uint32)).cast(physical.dtype).cat.to(native.dtype)
        dictionary = pa.array(texts.to_list(), value_type(empty.schema.field(0).type))
        array = pa.DictionaryArray.from_arrays(physical.to_arrow(), dictionary, safe=False)
        return pa.Table.from_arrays([array], schema=empty.schema)
    except Exception:  # polars has its own kinds; then it converts the column itself
        return None


def dictionary_of(column: pa.ChunkedArray) -> pa.Array:
    """Return the dictionary of all chunks together."""
    # Slices without records, as only their dictionaries are wanted.
    column = pa.chunked_array([chunk[:0] for chunk in column.chunks], column.type).unify_dictionaries()
    return column.chunk(0).dictionary if column.num_chunks else pa.array([], value_type(column.type))


def series_like(old: nw.Series[Any], column: pa.ChunkedArray) -> nw.Series[Any]:
    """Return the column as a series of the old one's dtype: by its codes, else a series of the values and a gather."""
    import narwhals as nw

    values, indices, missing = _levels(column)
    levels = values.to_pylist() + [None] * (missing is not None)
    native = old.to_native()
    of_pandas = old.implementation.is_pandas() and hasattr(native, "cat")
    if of_pandas and is_text(values.type):
        places = {category: code for code, category in enumerate(native.array.categories.tolist())}
        own = np.array([places.get(text, -1) for text in levels], dtype=native.array.codes.dtype)
        if (own[: len(values)] < 0).any():
            raise _refused(old)
        return _categorical(native, own, indices, missing)
    try:
        made = nw.from_native(type(native)(levels, dtype=native.dtype), series_only=True) if levels else old[:0]
        held = made.to_arrow().to_pylist()
    except Exception:  # each library has its own kinds, and their messages show values
        held = None
    # Some dtypes take what they cannot hold in silence: None in a pandas bool is False.
    if held != levels:
        raise _refused(old)
    if of_pandas:
        return _categorical(native, made.to_native().array.codes, indices, missing)
    if old.implementation.is_pandas() and getattr(native.dtype, "storage", "") == "pyarrow" and old.dtype == nw.String:
        texts = texts_at(values, _places(indices, missing, len(values)), pa.large_string())
        array = old.implementation.to_native_namespace().array(texts, dtype=native.dtype)
        new: nw.Series[Any] = nw.from_native(
            type(native)(array, index=native.index, name=native.name, copy=False), series_only=True
        )
        return new
    if old.implementation.is_polars() and old.dtype == nw.Enum and missing is None and hasattr(native.cat, "to"):
        new = nw.from_native(_of_numbers(made.to_native(), indices), series_only=True)
        return new.alias(old.name)
    if missing is not None:
        indices = np.where(missing, np.min_scalar_type(-len(values) - 1).type(len(values)), indices)
    if old.implementation.is_polars() and old.dtype == nw.Enum:
        return _gathered(made.to_native(), indices).alias(old.name)
    return made[indices].alias(old.name)


def _of_numbers(levels: Any, indices: NDArray[Any]) -> Any:
    """Return the values of a polars Enum at these places, none missing, over the memory of their numbers."""
    own = levels.to_physical().to_numpy()
    return type(levels)(_mapped(np.append(own, own[:1]), indices.view(f"u{indices.itemsize}"), None)).cat.to(
        levels.dtype
    )


def _gathered(levels: Any, indices: NDArray[Any]) -> nw.Series[Any]:
    """Return the values of a polars series at these places, some records after the others."""
    import narwhals as nw

    found = levels[indices[:_GATHERED]]
    for start in range(_GATHERED, indices.size, _GATHERED):
        found.extend(levels[indices[start : start + _GATHERED]])
    return nw.from_native(found, series_only=True)


def _refused(old: nw.Series[Any]) -> DataError:
    what = "the column's dtype cannot represent the released values"
    fix = "convert it to a dtype with every category of the codebook, and missing values if they are a category"
    return DataError(sentence(what, where=f"column {old.name!r}", got=old.to_native().dtype, fix=fix))


def _categorical(
    native: Any, own: NDArray[Any], indices: NDArray[Any], missing: NDArray[np.bool_] | None
) -> nw.Series[Any]:
    """Return a pandas categorical whose values, at ``indices``, have the codes ``own``, and that of missing last."""
    import narwhals as nw

    codes = _mapped(own if missing is not None else np.append(own, own[:1]), indices, missing)
    codes = codes if codes.flags.writeable else codes.copy()  # as are those of any other categorical
    made = type(native.array).from_codes(codes, dtype=native.dtype, validate=False)
    return nw.from_native(type(native)(made, index=native.index, name=native.name, copy=False), series_only=True)


def categorical_like(old: nw.Series[Any], column: pa.ChunkedArray) -> nw.Series[Any]:
    """Return a dictionary column as a categorical series of the old one's library, with all its categories in order.

    A column of another type becomes a series of that type.
    """
    import narwhals as nw

    native = old.to_native()
    if old.implementation.is_pandas():
        made = type(native)(column.combine_chunks().to_pandas().array, index=native.index, copy=False)
        native_like: nw.Series[Any] = nw.from_native(made, series_only=True)
        return native_like.alias(old.name)
    if not pa.types.is_dictionary(column.type):
        return nw.from_arrow(pa.table({old.name: column}), backend=old.implementation)[old.name]
    values, indices, missing = _levels(column)
    texts = values.to_pylist()
    levels = nw.new_series(old.name, [*texts, None], nw.Enum(texts), backend=old.implementation)
    return levels[indices if missing is None else np.where(missing, np.int64(len(texts)), indices)]


def rooms_for(fields: Sequence[pa.Field], records: int) -> list[NDArray[Any]]:
    """Return room for the indices of each field that is a dictionary, or where its texts end; none for any other."""
    types = [field.type for field in fields]
    return room_for(
        [
            (records, numpy_dtype(of.index_type)) if pa.types.is_dictionary(of) else room_for_ends(of, records)
            for of in types
        ]
    )


def arrow_like(old: pa.ChunkedArray, column: pa.ChunkedArray, field: pa.Field, room: NDArray[Any]) -> pa.ChunkedArray:
    """Return the column in the field's type; a dictionary keeps its entries, and what is new comes after them.

    ``room`` is the field's own of :func:`rooms_for`, and part of what is returned.

    Raises
    ------
    DataError
        If a value does not fit the type, or the dictionary has no place for it.
    """
    values, indices, missing = _levels(column)
    if not pa.types.is_dictionary(field.type):
        if is_text(values.type) and is_text(field.type):
            taken = texts_at(values, _places(indices, missing, len(values)), field.type, room)
        else:
            taken = cast(values, field.type).take(from_numpy(indices, missing))
        return pa.chunked_array([taken], type=field.type)
    known, levels = dictionary_of(old).to_pylist(), values.to_pylist()
    order = [*known, *(v for v in levels if v not in known)]
    # Of entries that occur twice, the first.
    place = {value: i for i, value in reversed(list(enumerate(order)))}
    places = np.array([place[v] for v in levels] + [0], dtype=np.int64)
    wanted = numpy_dtype(field.type.index_type)
    if places.max() > np.iinfo(wanted).max and _reaches(places, indices, missing, np.iinfo(wanted).max):
        raise DataError(sentence("the column's dictionary is full", where=f"column {field.name!r}"))
    found = _mapped(places.astype(wanted), indices, missing, room)
    dictionary = pa.array(order, value_type(field.type))
    made = pa.DictionaryArray.from_arrays(
        from_numpy(found, missing), dictionary, ordered=field.type.ordered, safe=False
    )
    return pa.chunked_array([made])


def _places(indices: NDArray[Any], missing: NDArray[np.bool_] | None, count: int) -> NDArray[Any]:
    """Return where each record's value is; ``count``, which is after the last, where it is missing.

    They are as narrow as ``count`` and a sign allow, and those of the indices where that changes nothing.
    """
    places = indices.astype(np.min_scalar_type(-count - 1), copy=missing is not None)
    if missing is not None:
        places[missing] = count
    return places


def _reaches(places: NDArray[Any], indices: NDArray[Any], missing: NDArray[np.bool_] | None, most: int) -> bool:
    used = np.unique(indices if missing is None else indices[~missing])
    return bool((places[used] > most).any())


def _mapped(
    table: NDArray[Any], indices: NDArray[Any], missing: NDArray[np.bool_] | None, room: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return ``table[indices]``, its last entry where missing, in ``room``; where it changes nothing, the indices."""
    if missing is None and indices.dtype == table.dtype and is_identity(table):
        return indices
    found = np.empty(indices.size, dtype=table.dtype) if room is None else room
    gather(table, indices, found)
    if missing is not None:
        found[missing] = table[-1]
    return found


def _levels(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[Any], NDArray[np.bool_] | None]:
    """Return the distinct values of a column, the index of each record's value, and which records are missing."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = dictionary_of(column)
    if column.num_chunks > 1:
        column = column.unify_dictionaries()
    if not column.num_chunks:
        return values, np.zeros(0, dtype=np.int64), None
    parts = [chunk.indices for chunk in column.chunks]
    indices = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)  # which copies a single one too
    return values, index_values(indices), is_null(indices) if indices.null_count else None
