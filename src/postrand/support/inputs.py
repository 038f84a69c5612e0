"""Plain data that people write: numbers and TOML files, which can have any type and any content."""

from __future__ import annotations

import errno
import math
import os
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PostrandError, SpecificationError, raise_all, sentence
from postrand.support.system import open_plain

MAX_BYTES = 1 << 26
"""The longest codebook, plan or other text by hand that is read, in bytes."""


def unquoted(value: object) -> str:
    """Return the next step for a number that was written as text; nothing for anything else.

    >>> unquoted("4"), unquoted(-1)
    ('remove the quotes', '')
    """
    if not isinstance(value, str):
        return ""
    try:
        return "remove the quotes" if math.isfinite(float(value)) else ""
    except ValueError:
        return ""


def finite(value: object) -> float:
    """Return a finite real number as Python's own ``int`` or ``float``, or nan for everything else.

    No comparison with nan is true, so ``0 < finite(x)`` refuses text, truth values, lists, infinities and integers
    beyond float64 alike; numpy's numbers are accepted.

    >>> finite(2), finite(0.5), finite(True), finite("1"), finite(10**400)
    (2, 0.5, nan, nan, nan)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        nearest = float(value)
    except (OverflowError, ValueError):
        return math.nan
    if not math.isfinite(nearest):
        return math.nan
    return int(value) if isinstance(value, Integral) else nearest


def is_whole(value: object, least: int = 0) -> bool:
    """Return whether the value is a whole number of at least ``least``; truth values and floats are not.

    >>> is_whole(3), is_whole(0, 1), is_whole(True), is_whole(2.0)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def real_array(values: object, what: str, error: type[PostrandError] = SpecificationError) -> NDArray[np.float64]:
    """Return numbers in lists, arrays or frames as float64; a number that float64 cannot represent becomes nan.

    Raises
    ------
    PostrandError
        The given ``error`` if the rows differ in length, or an entry is not a real number (text never counts as one).

    Examples
    --------
    >>> real_array([[1, 2], [3, 4.5]], "the matrix").tolist()
    [[1.0, 2.0], [3.0, 4.5]]
    """
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise error(sentence(f"{what} is not an array: its rows differ in length")) from None
    if given.dtype.kind == "O":
        return np.array([finite(value) for value in given.flat], dtype=np.float64).reshape(given.shape)
    if given.dtype.kind not in "biuf":
        raise error(sentence(f"{what}: not all entries are real numbers", got=given.dtype))
    return given.astype(np.float64)


def listed(value: object) -> tuple[Any, ...] | None:
    """Return the entries of a list or of any other iterable; None for text and for all other values.

    >>> listed([1, 2]), listed(x for x in "ab"), listed("ab"), listed(5)
    ((1, 2), ('a', 'b'), None, None)
    """
    if isinstance(value, (str, bytes, Mapping)):
        return None
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_names(value: object) -> bool:
    """Return whether the value is a list or tuple of texts."""
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)


def has_controls(text: str) -> bool:
    r"""Return whether the text contains an invisible control character: a line break, tabulator, NUL.

    >>> has_controls("marital status"), has_controls("a\nb")
    (False, True)
    """
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of a plain file of at most ``most`` bytes: what is read whole could be a pipe or a device.

    Raises
    ------
    OSError
        If it cannot be read, is no plain file, or is longer. Its ``strerror`` says which.
    """
    with open(open_plain(str(path), os.O_RDONLY), "rb") as file:
        held = file.read(most + 1)
    if len(held) > most:
        raise OSError(errno.EFBIG, f"longer than {most:,} bytes")
    return held


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a plain file, with its line ends as they are; OSError as of :func:`read_bytes`."""
    return read_bytes(path).decode(encoding)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the data of a TOML file; ``what`` is its name in messages, for example ``the plan``.

    Raises
    ------
    SpecificationError
        If the file cannot be read, is not UTF-8 text or TOML, or contains an integer of more than 64 bits.
    """
    typed = ""
    try:
        typed = read_text(path).replace("\r\n", "\n")
        data = tomllib.loads(typed)
        endless = list(_endless(data))
    except UnicodeDecodeError:
        raise SpecificationError(sentence(f"{what} is not UTF-8 text", where=str(path))) from None
    except OSError as error:
        got = error.strerror or type(error).__name__
        raise SpecificationError(sentence(f"{what} cannot be read", where=str(path), got=got)) from None
    except RecursionError:
        raise SpecificationError(sentence(f"{what} is nested too deeply", where=path.name)) from None
    except ValueError as error:  # from TOML, a number with too many digits, or an impossible path
        twice = "Cannot overwrite" in str(error) or "Cannot declare" in str(error)
        fix = "a name or section stands twice: keep one of them" if twice else _as_typed(typed, str(error))
        text = sentence(f"{what} is not valid TOML", where=str(path), got=str(error), fix=fix)
        raise SpecificationError(text) from None
    places = [sentence("a whole number of more than 64 bits", where=f"{path.name}, {at}") for at in endless]
    raise_all(SpecificationError, places)
    return data


def _as_typed(text: str, error: str) -> str:
    """Return what to write where the line of an error has a number or a text as people type them; "" where not.

    >>> _as_typed("at_most = 0,02", "Expected newline or end of document after a statement (at line 1, column 12)")
    'write numbers with a point, such as 0.02'
    >>> _as_typed("measure = k", "Invalid value (at line 1, column 11)")
    'put texts in double quotes'
    """
    found, lines = re.search(r"at line (\d+)", error), text.split("\n")
    line = lines[int(found[1]) - 1] if found and int(found[1]) <= len(lines) else ""
    return next((fix for form, fix in _TYPED.items() if re.search(form, line)), "")


_TYPED = {
    r"=\s*-?\d+,\d+\s*(#.*)?$": "write numbers with a point, such as 0.02",
    r"=\s*-?[\d.,]+\s*%\s*(#.*)?$": "write a share as a number, such as 0.02 for 2%",
    r"=\s*[^\W\d][^\"'\[\]{}=]*$": "put texts in double quotes",
}
"""What lines that are no TOML look like, and what to write in their place."""


def _endless(value: Any, at: str = "") -> Iterator[str]:
    """Yield the places of integers that TOML does not allow and that no column can contain."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from _endless(entry, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for position, entry in enumerate(value, 1):
            yield from _endless(entry, f"{at}, entry {position}")
    elif isinstance(value, int) and abs(value) >= 1 << 64:
        yield at
