"""Numbers that stay as they are, but for codes that mean no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from postrand.recoding.base import Reads

CODES = "codes for no answer"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Return ``x``: a recode with nothing but ``missing`` says which numbers of a column mean no answer, () for none.

    Examples
    --------
    >>> Unchanged().to_arrow(pa.array([2500, 0])).to_pylist()
    [2500, 0]
    """

    name: ClassVar[str] = CODES
    marks: ClassVar[tuple[str, ...]] = ("missing",)
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = "a code among categories is one of the missing_codes of its variable: leave this recode out"

    @property
    def reads(self) -> Reads:
        """Numbers: a code among categories is one of the ``missing_codes``."""
        return "numbers"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the column; see :class:`postrand.recoding.Recoding`."""
        return column

    def categories(self) -> tuple[str, ...]:
        """Return (): the values of the column remain."""
        return ()

    def in_words(self) -> str:
        """Return that nothing else is done."""
        return "numbers as they are"
