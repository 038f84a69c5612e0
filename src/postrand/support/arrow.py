"""Arrow arrays from numbers and texts, and back: ``pyarrow.array`` does the same, but it imports pandas if it is there.

That costs half a second and 45 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def from_numpy(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers, shape (n,), as an Arrow array of the same type over the same memory; null where ``missing``.

    >>> from_numpy(np.array([3, 4], dtype=np.int8), np.array([False, True])).to_pylist()
    [3, None]
    """
    values = np.ascontiguousarray(values)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [valid, pa.py_buffer(values)])


def numpy_dtype(of: pa.DataType) -> np.dtype[Any]:
    """Return the numpy type of an Arrow type of numbers; Arrow's own ``to_pandas_dtype`` may need pandas.

    >>> numpy_dtype(pa.uint16()), numpy_dtype(pa.float32())
    (dtype('uint16'), dtype('float32'))
    """
    return np.dtype({"halffloat": "f2", "float": "f4", "double": "f8"}.get(str(of), str(of)))


def to_numpy(array: pa.Array) -> NDArray[Any]:
    """Return numbers without nulls, shape (n,), over the same memory; see :func:`from_numpy`."""
    return np.from_dlpack(array)


def to_floats(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of numbers as float64, shape (n,), NaN for null; see :func:`from_numpy`.

    Raises ``pa.ArrowInvalid`` or ``pa.ArrowNotImplementedError`` where a value is no number.

    >>> to_floats(pa.array([1, None], pa.int8())).tolist()
    [1.0, nan]
    """
    cast = pc.cast(column, pa.float64())
    chunks = cast.chunks if isinstance(cast, pa.ChunkedArray) else [cast]
    parts = [np.where(is_null(c), np.nan, index_values(c)) if c.null_count else index_values(c) for c in chunks]
    return np.concatenate([np.zeros(0), *parts])


def index_values(indices: pa.Array) -> NDArray[Any]:
    """Return whole numbers, shape (n,), over the same memory; under a null is whatever lies there."""
    data = indices.buffers()[1]
    if data is None:
        return np.zeros(len(indices), dtype=numpy_dtype(indices.type))
    return np.frombuffer(data, numpy_dtype(indices.type), indices.offset + len(indices))[indices.offset :]


def python_values(values: pa.Array) -> list[Any]:
    """Return values as Python has them; a number of single precision is the shortest decimal that it stands for.

    >>> python_values(pa.array([99.9, None], pa.float32())), pa.array([99.9], pa.float32()).to_pylist() == [99.9]
    ([99.9, None], False)
    """
    held = values.to_pylist()
    if not pa.types.is_float32(values.type):
        return list(held)
    return [None if value is None else float(str(np.float32(value))) for value in held]


def is_null(array: pa.Array) -> NDArray[np.bool_]:
    """Return whether each value is null, shape (n,)."""
    valid = array.buffers()[0]
    if valid is None:
        return np.zeros(len(array), dtype=bool)
    first, skipped = divmod(array.offset, 8)
    bits = np.frombuffer(valid, np.uint8)[first : first + (skipped + len(array) + 7) // 8]
    return ~np.unpackbits(bits, count=skipped + len(array), bitorder="little")[skipped:].view(np.bool_)


def from_texts(values: Sequence[str | None]) -> pa.Array:
    """Return texts as an Arrow array; None is null.

    >>> from_texts(["a", None, "\u00e9"]).to_pylist()
    ['a', None, '\u00e9']
    """
    return from_bytes([None if text is None else text.encode() for text in values], pa.string())


def from_bytes(values: Sequence[bytes | None], of: pa.DataType | None = None) -> pa.Array:
    """Return byte strings as an Arrow array, binary or of the type ``of``; None is null.

    >>> from_bytes([b"a", None]).to_pylist()
    [b'a', None]
    """
    held = [value or b"" for value in values]
    ends = np.cumsum([0, *map(len, held)], dtype=np.int32)
    valid = None
    if any(value is None for value in values):
        valid = from_truths(np.array([value is not None for value in values], dtype=bool)).buffers()[1]
    data = pa.py_buffer(b"".join(held))
    return pa.Array.from_buffers(of or pa.binary(), len(held), [valid, pa.py_buffer(ends), data])


def from_truths(values: NDArray[np.bool_]) -> pa.Array:
    """Return truth values, shape (n,), as an Arrow array.

    >>> from_truths(np.array([True, False])).to_pylist()
    [True, False]
    """
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
