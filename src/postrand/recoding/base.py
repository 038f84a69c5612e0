"""What every kind of recoding gives; one module holds one kind, which is found by the options of a ``[[recodes]]``."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from postrand.errors import sentence, shown
from postrand.support.inputs import has_controls
from postrand.support.showing import few

if TYPE_CHECKING:
    import pyarrow as pa

Scalar = str | int | float | bool
Reads = Literal["values", "numbers", "times"]
"""What a kind takes: any values, whose texts count; numbers; dates and times."""
LISTED = 10
"""Values that a sentence lists."""


class Recoding(Protocol):
    """One kind of recoding with its options, frozen; the options are the fields of its dataclass.

    A kind whose options can name files has ``opened(options, folder) -> options`` too: the options with what these
    files say, so that a codebook is complete in itself. One whose result keeps values of the column, some with another
    meaning, has ``labels_of(values) -> texts``, and ``stand_for_more``, those values, each with what it stands for:
    ``more`` or ``less``. One that looks at the file has ``settled(counts) -> kind``; one whose options decide what it
    is called, ``called``; one whose options say which values have no place, ``unplaced``.
    """

    name: ClassVar[str]
    """What people call the kind."""
    marks: ClassVar[tuple[str, ...]]
    """The options by which an entry is known to be of this kind."""
    remedy: ClassVar[str]
    """The next step where a value of the column has no place in the result."""

    @property
    def confidential(self) -> bool:
        """Whether its options follow from the confidential file."""

    @property
    def reads(self) -> Reads:
        """What the values of the column have to be."""

    def to_arrow(self, column: pa.Array) -> pa.Array:
        """Return the new value of each value, text or numbers, null where there is none; no value is null or NaN.

        A column of numbers has a type of whole numbers or float64; one of times is of dates, times or text.
        """

    def categories(self) -> tuple[str, ...]:
        """Return all values that the result can have, in order; () where they depend on the values of the column."""

    def in_words(self) -> str:
        """Return what the recoding does, for analysts: a part of a sentence, without the column's name."""


@cache
def kinds() -> tuple[type[Any], ...]:
    """Return every kind of this package, by module name."""
    package = __name__.rpartition(".")[0]
    path = importlib.import_module(package).__path__
    modules = (importlib.import_module(f"{package}.{m.name}") for m in pkgutil.iter_modules(path))
    found = [v for module in modules for v in vars(module).values() if _is_kind(v) and v.__module__ == module.__name__]
    return tuple(found)


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and isinstance(vars(value).get("marks"), tuple)


def steps_of(kind: Any) -> tuple[Any, ...]:
    """Return what a kind does in order: the steps of one that has several, of any other the kind itself."""
    return tuple(getattr(kind, "steps", (kind,)))


MADE = (", in bands", ", grouped")
"""What follows the label of a column in that of the bands or groups that are made of it."""


def result_label(label: str, kind: Any) -> str:
    """Return the label of a result whose categories a recoding makes, from that of the column; "" where it has none.

    >>> from postrand.recoding import Recode
    >>> result_label("Age in years", Recode.from_dict({"variable": "age", "bands": [0, 18]}).kind)
    'Age in years, in bands'
    """
    if not label or not kind.categories():
        return label
    return label + MADE[steps_of(kind)[-1].reads == "values"]


def called(kind: Any) -> str:
    """Return what people call a kind with its options: ``top coding`` where limits have no bottom."""
    return str(getattr(kind, "called", kind.name))


def is_settled(kind: Any) -> bool:
    """Whether every rule on rare categories has looked at a file: ``merged`` says what it found."""
    return all(not hasattr(step, "settled") or step.merged is not None for step in steps_of(kind))


def key_of(value: object) -> str:
    """Return the text by which values are compared: a whole number has one text, whatever its type or its decimals.

    >>> key_of(1), key_of(1.0), key_of("01"), key_of(True), key_of(Decimal("-9.00")), key_of(Decimal("99.90"))
    ('1', '1', '01', 'true', '-9', '99.9')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def spelt(number: float) -> str:
    """Return a number as people write it.

    >>> spelt(30.0), spelt(0.5), spelt(10000)
    ('30', '0.5', '10000')
    """
    return key_of(number)


def label_problems(labels: Iterable[object], what: str) -> Iterable[str]:
    """Yield a sentence for each name of a category that is no text, or is there twice."""
    held = list(labels)
    for label in [x for x in held if not isinstance(x, str) or not x or has_controls(x)][:LISTED]:
        yield sentence(f"the name of {what} is not text", got=shown(label, repr), fix="quote it")
    for label in twice(x for x in held if isinstance(x, str)):
        yield sentence(f"the name {label!r} of {what} is there twice", fix="give each another name")


def twice(texts: Iterable[str]) -> list[str]:
    """Return the texts that are there more than once, the first ten of them.

    >>> twice(["a", "b", "a"])
    ['a']
    """
    return [text for text, times in Counter(texts).items() if times > 1][:LISTED]


def listed(texts: Iterable[object]) -> str:
    """Return texts one after the other, the first ten of them where there are many more.

    >>> listed(range(13))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more'
    """
    return few(list(map(str, texts)), LISTED)
