"""Find out how a text file is to be read: its encoding, its separator, the signs of its numbers.

What the file shows is taken; where it shows more than one way, it is refused with these ways, so that a person decides.
The whole file is read for its encoding, its first megabyte for the rest.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from postrand.errors import DataError, sentence
from postrand.formats import _streams
from postrand.formats._numbers import pattern
from postrand.formats._settings import SEPARATORS, SINGLE_BYTE, ReadSettings, named
from postrand.support.showing import few
from postrand.support.warned import warn

SAMPLE = 1 << 20
"""Bytes in which the separator and the numbers are looked for."""
_WORDS = 20_000
"""Different words with other signs than ASCII by which encodings are told apart."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ODD = 0.05
"""The largest share of words that are no words in the encoding that is taken, and of texts that are no numbers."""
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_CONVENTIONS = (
    (".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", " "), (",", "\u00a0"), (".", "\u00a0"),
    (",", "\u202f"), (".", "\u202f"), (".", "'"), (",", "'"), (".", "\u2019"), (",", "\u2019"),
)  # fmt: skip
_SIGNS = re.compile("[., '\u00a0\u202f\u2019]")
_NOTHING = frozenset(("", ".", "-", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "*"))
"""Texts that stand among numbers for no number."""
_MANY = 20
"""So many different texts show how a column of numbers is written, although some of its texts are none."""
_ASKED = "give the one that it has"


class ReadingWarning(UserWarning):
    """A file is read in a way that some of its columns do not show."""


def detected(path: Path, given: ReadSettings) -> ReadSettings:
    """Return all settings of a text file: those that are given, and those that it shows.

    Raises
    ------
    DataError
        If the file does not show one, with the ways that are possible.
    """
    encoding = given.encoding or encoding_of(path)
    try:
        sample = _sample(path, encoding)
    except UnicodeError:
        line = _streams.undecodable_line(path, encoding)
        where = f"{path.name}, line {line or 1}"
        fix = f"{_ASKED} (--encoding), or leave it out"
        raise DataError(sentence(f"text is not valid {encoding}", where=where, fix=fix)) from None
    separator = given.separator or _separator(path, sample)
    decimal, thousands = _numbers(path, sample.rows(separator), separator, given)
    return replace(given, encoding=encoding, separator=separator, decimal=decimal, thousands=thousands)


def encoding_of(path: Path) -> str:
    """Return the name of a file's encoding.

    A byte order mark tells, and so do bytes that are valid UTF-8. Else each sign is one byte: of the known encodings,
    those remain in which letters stand beside letters. If they read the file alike, the first is taken.

    Raises
    ------
    DataError
        If some read it in other ways, or none reads words.
    """
    decoder, words, ascii_only = codecs.getincrementaldecoder("utf-8")(), set[bytes](), True
    with _streams.raw(path) as file:
        head = block = file.read(_streams.BLOCK)
        if mark := next((name for mark, name in _MARKS if head.startswith(mark)), ""):
            return mark
        if zeros := _without_mark(head):
            return zeros
        is_utf8 = True
        while block:
            if is_utf8:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    is_utf8 = False
            if not (plain := block.isascii()) and len(words) < _WORDS:
                words.update(_WORD.findall(block))
            ascii_only = ascii_only and plain
            block = file.read(_streams.BLOCK)
    return "utf-8" if ascii_only or is_utf8 else _single(path, words)


def _without_mark(head: bytes) -> str:
    """Return the form of UTF-16 in which every second byte of Latin text is zero, or an empty text."""
    even, odd = head[0:4096:2].count(0), head[1:4096:2].count(0)
    half = max(1, len(head[:4096]) // 2)
    if odd > half / 2 > 4 * even:
        return "utf-16-le"
    return "utf-16-be" if even > half / 2 > 4 * odd else ""


def _single(path: Path, words: set[bytes]) -> str:
    """Return the encoding of one byte a sign that words of a file have."""
    odd = {name: count for name in SINGLE_BYTE if (count := _oddities(words, name)) is not None}
    least = min(odd.values(), default=len(words))
    if least > _ODD * len(words):
        what = "the file is not UTF-8, and in no encoding that is looked for does it have words"
        fix = "find out from where it comes, and give its encoding: --encoding NAME, such as big5, shift_jis or cp1255"
        raise DataError(sentence(what, where=path.name, fix=fix))
    likely = [name for name in SINGLE_BYTE if odd.get(name, least + 1) <= least]
    held = bytes(sorted({byte for word in words for byte in word if byte >= 0x80}))
    ways: dict[str, str] = {}
    for name in likely:
        ways.setdefault(held.decode(name), name)
    if len(ways) == 1:
        return next(iter(ways.values()))
    # Single letters of the alphabet, and only those by which the ways differ: no value of a record, and no count.
    differ = [place for place, signs in enumerate(zip(*ways, strict=True)) if len(set(signs)) > 1][:8]
    got = "; ".join(f"{name} reads {' '.join(signs[at] for at in differ)}" for signs, name in ways.items())
    what = "the file is not UTF-8, and it does not show which encoding it has"
    fix = "look which letters occur in its words, and give that encoding: --encoding NAME"
    fix += "; for French, German and other western languages it is usually windows-1252" * (
        "windows-1252" in ways.values()
    )
    raise DataError(sentence(what, where=path.name, got=got, fix=fix))


def _oddities(words: Iterable[bytes], name: str) -> int | None:
    """Return how many words have a sign where no letter of theirs stands; None where a byte is none of the encoding."""
    odd = 0
    for word in words:
        try:
            text = word.decode(name)
        except UnicodeDecodeError:
            return None
        if any("\x80" <= sign < "\xa0" for sign in text):
            return None
        odd += _is_odd(text)
    return odd


def _is_odd(word: str) -> bool:
    """Whether a word mixes letters and other signs, capitals and small letters, or alphabets, as words do not."""
    if len(word) > 1 and not all(
        map(str.isalpha, word.strip("\u00a0\u2013\u2014\u2018\u2019\u201c\u201d\u20ac\u00b0"))
    ):
        return True
    latin = {sign < "\u0250" for sign in word if sign.isalpha()}
    cases = "".join("c" if sign.isupper() else "s" for sign in word if sign.isalpha())
    mixed = re.search("sc|ccs", cases) is not None
    accents = re.search("[\u00c0-\u024f]{4}", word) is not None
    return len(latin) > 1 or mixed or accents


@dataclass(frozen=True, slots=True)
class _Sample:
    """The first lines of a file; where it goes on, the last record may be part of one."""

    lines: list[str]
    goes_on: bool

    def rows(self, separator: str) -> list[list[str]]:
        """Return the whole rows; none after one that cannot be read."""
        rows = list(_rows(self.lines, separator))
        return rows[:-1] if self.goes_on and len(rows) > 1 else rows


def _sample(path: Path, encoding: str) -> _Sample:
    """Return the beginning of a file; raises UnicodeError."""
    with _streams.text(path, encoding) as lines:
        text = lines.read(SAMPLE)
    return _Sample(io.StringIO(text, newline="").readlines(), len(text) == SAMPLE)


def _separator(path: Path, sample: _Sample) -> str:
    first = next((line for line in sample.lines if line.strip()), "")
    if re.fullmatch(r"\"?sep=.\"?\s*", first):
        fix = "remove this line, which only Excel reads"
        raise DataError(sentence("the first line names a separator, and no columns", where=path.name, fix=fix))
    named_by = [mark for mark in SEPARATORS if len(next(_rows([first], mark), [])) > 1]
    if len(named_by) < 2:
        return named_by[0] if named_by else ","
    fits = [mark for mark in named_by if len({len(row) for row in sample.rows(mark) if row}) == 1]
    if len(fits) == 1:
        return fits[0]
    got = " or ".join(named(mark) for mark in fits or named_by)
    what = "the file does not show by which sign its columns are separated"
    raise DataError(sentence(what, where=path.name, got=got, fix=f"{_ASKED}: --separator SIGN"))


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Yield the rows of lines, none after one that cannot be read."""
    try:
        yield from csv.reader(lines, delimiter=separator)
    except csv.Error:
        return


def _numbers(path: Path, rows: Sequence[list[str]], separator: str, given: ReadSettings) -> tuple[str, str]:
    """Return the decimal sign and that between thousands, of the columns of numbers that have such signs.

    What is given is kept; columns that are no numbers by it stay text. Where no column is all numbers, one that nearly
    is tells.
    """
    known = [way for way in _CONVENTIONS if given.decimal in ("", way[0]) and given.thousands in ("", way[1])]
    ways, nearly = dict[str, list[tuple[str, str]]](), list[list[tuple[str, str]]]()
    other, mixed = [], []
    for name, texts in _texts_of(rows).items():
        if fits := [way for way in known if _fits(texts, *way)]:
            ways[name] = fits
        elif any(_fits(texts, *way) for way in _CONVENTIONS):
            other.append(name)
        elif all(any(_fits([text], *way) for way in _CONVENTIONS) for text in texts):
            mixed.append(name)
        elif fits := [way for way in known if _nearly_fits(texts, *way)]:
            nearly.append(fits)
    if other and (given.decimal or given.thousands):
        way = _spoken(given.decimal or ".", given.thousands)
        what = f"the numbers of {few(other)} are written in another way, so these columns stay text"
        fix = "leave --decimal and --thousands out, or correct the file, if they are numbers"
        warn(sentence(what, where=path.name, wanted=way, fix=fix), ReadingWarning)
    if mixed:
        what = f"{few(mixed)}: numbers with different signs before decimals or between thousands, so they stay text"
        warn(
            sentence(what, where=path.name, fix="correct the file, so that all are written in one way"), ReadingWarning
        )
    usual = ("." if separator == "," else ",", "")  # a comma between columns goes with decimal points
    shared = _shared(known, list(ways.values()))
    if not ways:
        found = _shared(known, nearly) if nearly else []
        return found[0] if len(found) == 1 else (given.decimal or ".", given.thousands)
    if len(shared) == 2 and shared[0][1] == shared[1][1]:
        return next(way for way in shared if way[0] == usual[0])  # no number has decimals
    if len(shared) > 1 and separator == "," and usual in shared:
        others = " or ".join(_typed(*way) for way in shared if way != usual)
        what = f"the numbers of {few(list(ways))} are read with a decimal point, as usual between commas"
        fix = f"if these points are between thousands, give {others} instead"
        warn(sentence(what, where=path.name, fix=fix), ReadingWarning)
        return usual
    if len(shared) != 1:
        raise _unclear(path, ways, shared)
    return shared[0]


def _texts_of(rows: Sequence[list[str]]) -> dict[str, list[str]]:
    """Return the different texts of each column that has signs of numbers, without blanks around them."""
    header = next(iter(rows), [])
    seen: list[set[str]] = [set() for _ in header]
    for row in rows[1:]:
        for held, text in zip(seen, row, strict=False):
            held.add(text.strip())
    found = {name: [text for text in held if text not in _NOTHING] for name, held in zip(header, seen, strict=True)}
    return {name: texts for name, texts in found.items() if any(map(_SIGNS.search, texts))}


def _shared(known: Sequence[tuple[str, str]], ways: Sequence[Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the ways that all columns share; of those without a sign between thousands, no other."""
    shared = [way for way in known if all(way in fits for fits in ways)]
    return [way for way in shared if not any(way[1] and (way[0], "") == other for other in shared)]


def _nearly_fits(texts: Sequence[str], decimal: str, thousands: str) -> bool:
    """Whether nearly all of many texts are numbers, so that the others are words for no number."""
    whole = re.compile(pattern(decimal, thousands))
    return len(texts) >= _MANY and sum(1 for text in texts if whole.match(text)) >= (1 - _ODD) * len(texts)


def _typed(decimal: str, thousands: str) -> str:
    return f"--decimal {decimal}" + (f" --thousands {shlex.quote(thousands)}" if thousands else "")


def _fits(texts: Sequence[str], decimal: str, thousands: str) -> bool:
    whole = re.compile(pattern(decimal, thousands))
    return all(map(whole.match, texts))


def _unclear(path: Path, ways: dict[str, list[tuple[str, str]]], shared: Sequence[tuple[str, str]]) -> DataError:
    """Return the error of numbers that can be read in two ways, or of columns that are read in different ones."""
    names = few([*map(repr, ways)], 5)
    if shared:
        what = f"the numbers of {names} do not show if a sign is between thousands or before decimals"
        got = " or ".join(_spoken(*way) for way in shared)
        fix = f"give {' or '.join(_typed(*way) for way in shared)}, whichever it has"
    else:
        point, comma = (next((n for n, fits in ways.items() if {w[0] for w in fits} == {s}), "") for s in ".,")
        what = f"the columns {point!r} and {comma!r} have different decimal signs" if point and comma else ""
        what = what or f"the numbers of {names} are not all written in one way"
        got, fix = None, "give the one that most have: --decimal SIGN; the columns of the other stay text"
    return DataError(sentence(what, where=path.name, got=got, fix=fix))


def _spoken(decimal: str, thousands: str) -> str:
    between = f", {named(thousands)} between thousands" if thousands else ""
    return f"decimal {named(decimal)}{between}"
