"""How files of statistical programs hold a variable that some records do not show; see ``codebook.not_released``.

These programs have codes of their own for what is no answer, so that their procedures leave it out by themselves. What
a file holds follows from the categories alone, so that whoever has the codebook can read it back:

- Where each category is a number in its shortest form, the column is one of numbers; ``True`` and ``False`` are 1
  and 0. Not released is a letter beside the missing value: ``.n`` in Stata, ``.N`` in SAS. In SPSS it is a number
  that is declared as user-missing: the first of -9, -99, ... that is no category, or one beside the categories that
  mean "no answer", if these have no room otherwise.
- Else the column is text. SPSS declares a text of at most 8 bytes, the first of NR, NR1, NR2, ... that is no category.
  Stata declares no text: there the categories are numbered 1, 2, ..., each number labelled with its text, as Stata's
  ``encode`` does. SAS can neither declare nor label: there it is the category ``(not released)`` itself.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.coding import index_values
from postrand.codebook.not_released import NOT_RELEASED
from postrand.codebook.variable import Scalar
from postrand.errors import DataError, sentence

_WHOLE = re.compile(r"-?[1-9][0-9]{0,15}|0")
_LETTER = re.compile(r"\.[a-z]")
_LETTERS = "nzyxwvutsrqpomlkjihgfedcba"
_TRUTHS = {"False": 0, "True": 1}
_EXACT = 1 << 53
"""Numbers are float64 in all three."""
_MOST_LABELLED = 2_147_483_620
"""The largest whole number of 32 bits that is not missing in Stata."""
_MOST_DECLARED = 3
"""User-missing values of one variable in SPSS; a range of numbers counts as two."""
_LONGEST_DECLARED = 8
"""Bytes of a text that SPSS can declare as user-missing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Say what a program has for values that are not released.

    Parameters
    ----------
    letter
        A missing value beside ``.``, of numbers only: ``.n``; empty where a user-missing value is declared.
    letters
        Whether categories such as ``.a`` are such missing values too.
    numbered
        The most categories that are numbered and labelled where they are text.
    """

    letter: str = ""
    letters: bool = False
    numbered: int = 0

    def held(self, texts: Sequence[str], missing: Sequence[str] = ()) -> Held:
        """Return what a file holds for these categories, the last of which is ``(not released)``.

        ``missing`` are categories that mean "no answer". SPSS has few places for these: the number that stands for what
        is not released is one beside them, if there is no place for it elsewhere.

        >>> Rule(".n").held(("1", "2", "(not released)")).values, Rule().held(("-9", "0", "(not released)")).values
        ((1, 2, '.n'), (-9, 0, -99))
        >>> Rule(".N").held(("F", "M", "(not released)")).values, Rule().held(("F", "NR", "(not released)")).values
        (('F', 'M', '(not released)'), ('F', 'NR', 'NR1'))
        >>> Rule().held(("0", "1", "2", "8", "9", "(not released)"), ("0", "8", "9")).values[-1]
        10
        """
        own = tuple(texts[:-1])
        numbers = _numbers(own, self.letters)
        if numbered := numbers is None and len(own) <= self.numbered:
            numbers = tuple(range(1, len(own) + 1))
        values = own if numbers is None else numbers
        taken = {value.rstrip() if isinstance(value, str) else value for value in values}
        mark = next(value for value in self._marks(numbers is not None) if value not in taken)
        held = Held((*own, NOT_RELEASED), (*values, mark), numbers is not None, numbered)
        if self.letter or numbers is None or len(missing) < _MOST_DECLARED or len(held.declared(missing)) > 1:
            return held
        codes = [v for text, v in zip(own, values, strict=True) if text in missing and not isinstance(v, str)]
        beside = [code + step for code in codes for step in (1, -1)]
        others = (
            replace(held, values=(*values, value)) for value in sorted(beside, reverse=True) if value not in taken
        )
        return next((other for other in others if len(other.declared(missing)) > 1), held)

    def values(self, texts: Sequence[str], missing: Sequence[str]) -> tuple[Scalar, ...]:
        """Return the values of :meth:`held`."""
        return self.held(texts, missing).values

    def _marks(self, is_number: bool) -> Iterator[Scalar]:
        """Yield what may stand for what is not released, the usual one first."""
        if self.letters and is_number:
            yield from (f".{letter}" for letter in _LETTERS)
        elif self.letter:
            yield self.letter if is_number else NOT_RELEASED
        elif is_number:
            yield from (1 - 10**digits for digits in range(1, 16))
            yield from itertools.count(-10, -1)
        else:
            yield from itertools.chain(["NR"], (f"NR{number}" for number in itertools.count(1)))


@dataclass(frozen=True, slots=True)
class Held:
    """Hold what a file has for each category of ``texts``: ``values``, the last of which is what is not released.

    ``is_number``: the column is one of numbers, and letters for what is missing; ``is_numbered``: of numbered texts.
    """

    texts: tuple[str, ...]
    values: tuple[Scalar, ...]
    is_number: bool
    is_numbered: bool

    @property
    def mark(self) -> Scalar:
        """What is not released."""
        return self.values[-1]

    def _bare(self, value: Scalar) -> Scalar:
        """Return a value as its library takes and gives it: the letter of a missing number without its full stop."""
        return value[1:] if self.is_number and isinstance(value, str) else value

    def written(self, column: pa.ChunkedArray) -> NDArray[Any]:
        """Return the file's values of a column of texts, shape (n,), None for missing."""
        places = {text: place for place, text in enumerate(self.texts)}
        found = column.combine_chunks()
        found = found if pa.types.is_dictionary(found.type) else found.dictionary_encode()
        # Whole numbers as float64, as other columns are: pyreadstat reads others wrongly where letters are among them.
        bare = (self._bare(value) for value in self.values)
        values = [*(value if isinstance(value, str) else float(value) for value in bare), None]
        table = [values[places[text]] for text in found.dictionary.to_pylist()] + [None]
        indices = index_values(found.indices.fill_null(len(table) - 1) if found.null_count else found.indices)
        # Made empty first: numpy would make text of letters and numbers.
        lookup = np.empty(len(table), dtype=object)
        lookup[:] = table
        found_values: NDArray[Any] = lookup[indices]
        return found_values

    def read(self, values: Sequence[Any], marked: NDArray[np.bool_] | None, field: pa.Field) -> pa.Array:
        """Return what a file holds as texts in the field's type.

        ``marked`` tells, where that is not in the values, which of the missing ones are not released.

        Raises
        ------
        DataError
            If a value is none of these.
        """
        last = len(self.texts) - 1
        places: dict[Any, int | None] = {self._bare(value): place for place, value in enumerate(self.values)}
        places |= {None: None} if self.is_number else {None: None, "": None}
        try:
            found = [places[value] for value in values]
        except KeyError:
            what, fix = "a value that is not in the codebook", "add the category to the codebook, or recode the column"
            raise DataError(sentence(what, where=f"variable {field.name!r}", fix=fix)) from None
        if marked is not None:
            found = [last if is_marked else place for place, is_marked in zip(found, marked.tolist(), strict=True)]
        indices = pa.array(found, field.type.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.texts, field.type.value_type))

    def labels(self, given: Mapping[str, str], letters: bool) -> dict[Any, str]:
        """Return the labels of the file's values; ``given`` are those of the categories, which have no other.

        Stata (``letters``) labels whole numbers of 32 bits alone.
        """
        own = {self._bare(v): text for v, text in zip(self.values[:-1], self.texts[:-1], strict=True)}
        if not self.is_numbered:
            said = {value: given.get(text, text) for value, text in own.items()}
            own = {v: label for v, label in said.items() if label != own[v] or own[v] in _TRUTHS}
        if letters:
            own = {v: label for v, label in own.items() if isinstance(v, str | int) and _is_labelled(v)}
        return {**own, self._bare(self.mark): NOT_RELEASED}

    def declared(self, missing: Sequence[str]) -> list[Any]:
        """Return what SPSS is told that is missing: what is not released, and the categories ``missing`` if they fit.

        SPSS has three places, of which a range of numbers takes two; where some do not fit, none is declared.
        """
        codes = [v for text, v in zip(self.texts[:-1], self.values[:-1], strict=True) if text in missing]
        if not self.is_number:
            codes = [code for code in codes if len(str(code).encode()) <= _LONGEST_DECLARED]
            return [*codes, self.mark] if len(codes) < _MOST_DECLARED else [self.mark]
        if len(codes) < _MOST_DECLARED:
            return [*codes, self.mark]
        runs = _runs([*codes, self.mark], self.values)
        ends = [run[0] if len(run) == 1 else {"lo": run[0], "hi": run[-1]} for run in runs]
        fits = len(runs) == 1 or (len(runs) == 2 and min(map(len, runs)) == 1)
        return ends if fits else [self.mark]

    @property
    def letters(self) -> list[str]:
        """The letters that are missing values, without their full stop."""
        return [value[1:] for value in self.values if isinstance(value, str)] if self.is_number else []

    @property
    def digits(self) -> int | None:
        """The width of the widest value, or None where some are not whole."""
        if not self.is_number or any(isinstance(value, float) for value in self.values):
            return None
        return max(len(str(value)) for value in self.values)


def kept_labels(labels: Mapping[str, str], values: Iterable[str | None]) -> dict[str, str]:
    """Return all labels of texts where pyreadstat can write them, else :func:`fitting_labels`.

    It makes a column as wide as the longest value in bytes or labelled text in signs, in pieces of 8 bytes.

    >>> list(kept_labels({"a": "x", "ééé": "y"}, ["a"])), list(kept_labels({"a": "x", 9 * "é": "y"}, ["a"]))
    (['a', 'ééé'], ['a'])
    """
    held = {value for value in values if value is not None}
    width = max([*map(len, labels), *(len(value.encode()) for value in held)])
    if max(len(text.encode()) for text in labels) <= -(-width // 8) * 8:
        return dict(labels)
    return fitting_labels(labels, held)


def fitting_labels(labels: Mapping[str, str], values: Iterable[str | None]) -> dict[str, str]:
    """Return the labels of texts that pyreadstat makes a column of these values wide enough for.

    It counts signs, not bytes, so a longer text of other signs than ASCII has its label only if a value is as long.
    """
    seen = [*filter(str.isascii, labels), *(value for value in set(values) if value is not None)]
    width = max((len(text.encode()) for text in seen), default=0)
    return {text: label for text, label in labels.items() if len(text.encode()) <= width}


def _runs(codes: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
    """Return the codes in order, cut where another value lies between two of them."""
    found: list[list[Any]] = [[]]
    for value in sorted(values):
        if value in codes:
            found[-1].append(value)
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _numbers(texts: Sequence[str], letters: bool) -> tuple[Scalar, ...] | None:
    """Return the numbers that the texts are, each in its shortest form and exact; None where one is none."""
    if set(texts) <= set(_TRUTHS):
        return tuple(_TRUTHS[text] for text in texts)
    found: list[Scalar] = []
    for text in texts:
        if letters and _LETTER.fullmatch(text):
            found.append(text)
        elif _WHOLE.fullmatch(text) and abs(int(text)) <= _EXACT:
            found.append(int(text))
        elif _is_shortest(text):
            found.append(float(text))
        else:
            return None
    numbers = [value for value in found if not isinstance(value, str)]
    return tuple(found) if numbers and len(set(found)) == len(found) < len(numbers) + len(_LETTERS) else None


def _is_labelled(value: str | int) -> bool:
    return isinstance(value, str) or abs(value) <= _MOST_LABELLED


def _is_shortest(text: str) -> bool:
    """Whether a text is a finite number, written as Python writes it."""
    try:
        return repr(float(text)) == text and math.isfinite(float(text))
    except ValueError:
        return False
