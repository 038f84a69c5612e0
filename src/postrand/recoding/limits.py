"""Top and bottom coding: numbers beyond a limit become the limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.recoding.base import Reads, spelt
from postrand.support.inputs import finite


@dataclass(frozen=True, slots=True)
class Limits:
    """Return ``min(max(x, bottom), top)``; one of both may be left out. Numbers stay numbers.

    Examples
    --------
    >>> Limits(top=85).to_arrow(pa.array([3, 85, 99])).to_pylist()
    [3, 85, 85]
    """

    name: ClassVar[str] = "top and bottom coding"
    marks: ClassVar[tuple[str, ...]] = ("top", "bottom")
    confidential: ClassVar[bool] = False
    remedy: ClassVar[str] = ""
    top: float | None = None
    bottom: float | None = None

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _problems(self))

    @property
    def reads(self) -> Reads:
        """Numbers."""
        return "numbers"

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the numbers within the limits; see :class:`postrand.recoding.Recoding`."""
        for limit, bound in ((self.top, pc.min_element_wise), (self.bottom, pc.max_element_wise)):
            if limit is not None:
                whole = pa.types.is_integer(column.type) and float(limit).is_integer()
                column = bound(column, pa.scalar(int(limit) if whole else float(limit)))
        return column

    def categories(self) -> tuple[str, ...]:
        """Return (): the values of the column remain."""
        return ()

    @property
    def stand_for_more(self) -> dict[float, str]:
        """The limits: they stand for more than themselves.

        >>> Limits(top=9999).stand_for_more
        {9999: 'more'}
        """
        ends = ((self.bottom, "less"), (self.top, "more"))
        return {limit: word for limit, word in ends if limit is not None}

    def labels_of(self, values: Sequence[float]) -> list[str]:
        """Return a text for each category of the result: the limits stand for more than themselves.

        >>> Limits(top=85).labels_of([84, 85])
        ['84', '85 and more']
        """
        said = self.stand_for_more
        return [beyond(value, said[value]) if value in said else spelt(value) for value in values]

    @property
    def called(self) -> str:
        """The name of what is done: a top, a bottom, or both.

        >>> Limits(top=85).called, Limits(bottom=0, top=85).called
        ('top coding', 'top and bottom coding')
        """
        return self.name if len(self.stand_for_more) > 1 else f"{'bottom' if self.top is None else 'top'} coding"

    def in_words(self) -> str:
        """Return the limits."""
        return f"{self.called}: {stands_for(self.stand_for_more)}"


def beyond(limit: float, word: str) -> str:
    """Return what a limit stands for.

    >>> beyond(85.0, "more")
    '85 and more'
    """
    return f"{spelt(limit)} and {word}"


def stands_for(limits: Mapping[float, str]) -> str:
    """Return what limits stand for, one after the other.

    >>> stands_for({0: "less", 85: "more"})
    '0 stands for 0 and less, 85 stands for 85 and more'
    """
    return ", ".join(f"{spelt(limit)} stands for {beyond(limit, word)}" for limit, word in limits.items())


def _problems(kind: Limits) -> Iterable[str]:
    for name, limit in (("top", kind.top), ("bottom", kind.bottom)):
        if limit is not None and math.isnan(finite(limit)):
            yield sentence(
                f"{name!r} is not a finite number", got=shown(limit, repr), fix=f"give a number, such as {name} = 80"
            )
    if kind.top is None and kind.bottom is None:
        yield sentence("neither 'top' nor 'bottom' is given")
    elif kind.top is not None and kind.bottom is not None and finite(kind.bottom) >= finite(kind.top):
        yield sentence("'bottom' is not below 'top'", got=f"{shown(kind.bottom)} and {shown(kind.top)}")
