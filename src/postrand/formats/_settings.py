"""What a file does not say of itself: its separator, its encoding, its numbers, its sheet, where its labels are."""

from __future__ import annotations

import codecs
import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.errors import SpecificationError, raise_all, sentence, shown

SINGLE_BYTE = (
    "windows-1252",
    "windows-1250",
    "windows-1251",
    "windows-1253",
    "windows-1254",
    "windows-1257",
    "iso-8859-15",
    "iso-8859-2",
    "iso-8859-5",
    "koi8-r",
    "cp850",
    "cp852",
    "cp866",
    "mac-roman",
)
"""Encodings of one byte a sign, in Europe and America; the usual one first. Latin-1 is a part of windows-1252."""
SEPARATORS = (",", ";", "\t", "|")
DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
_NAMED = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|", "point": ".", "blank": " "}


@dataclass(frozen=True, slots=True)
class ReadSettings:
    r"""Say how a file is read; an empty text is what is usual for files of its suffix.

    Parameters
    ----------
    separator
        The sign between two columns of a text file: ``,`` (usual), ``;``, a tab (usual for .tsv and .tab) or ``|``.
    encoding
        The encoding of a text file, by a name that Python knows: ``utf-8`` (usual), ``utf-16``, ``windows-1252``.
    decimal, thousands
        The signs of its numbers: a point (usual) or a comma before the decimals, nothing (usual) between thousands.
        Only columns that the codebook gives a type of numbers are read so; all others are the text of the file.
    sheet
        The sheet of a workbook.
    catalog
        The file of a SAS data set's value labels (.sas7bcat), relative to the data set.

    Raises
    ------
    SpecificationError
        With every setting that no file can have.

    Examples
    --------
    >>> ReadSettings(separator=";", decimal=",").to_dict()
    {'separator': ';', 'decimal': ','}
    """

    separator: str = ""
    encoding: str = ""
    decimal: str = ""
    thousands: str = ""
    sheet: str = ""
    catalog: str = ""

    def __post_init__(self) -> None:
        raise_all(SpecificationError, self._problems())

    def __repr__(self) -> str:
        return f"ReadSettings({', '.join(f'{name}={text!r}' for name, text in self.to_dict().items())})"

    def to_dict(self) -> dict[str, str]:
        """Return the settings that say something."""
        return {name: text for name, text in dataclasses.asdict(self).items() if text}

    def _problems(self) -> Iterator[str]:
        for name, known in (("separator", SEPARATORS), ("decimal", DECIMALS), ("thousands", THOUSANDS)):
            if (text := getattr(self, name)) and text not in known:
                wanted, fix = " or ".join(map(repr, known)), "give one of these, or leave it out"
                yield sentence(f"unknown {name} {shown(text, repr)}", wanted=wanted, fix=fix)
        if self.thousands and self.thousands == (self.decimal or "."):
            fix = "set decimal to the other sign" if self.thousands in DECIMALS else ""
            yield sentence("'thousands' and 'decimal' are the same sign", got=repr(self.thousands), fix=fix)
        if self.encoding and not _is_encoding(self.encoding):
            wanted = "a name such as 'utf-8', 'utf-16' or 'windows-1252'"
            yield sentence(f"unknown encoding {shown(self.encoding, repr)}", wanted=wanted)


SETTINGS = tuple(field.name for field in dataclasses.fields(ReadSettings))
USUAL = ReadSettings()


@dataclass(frozen=True, slots=True)
class File:
    """A file, and how it is read where that is not the usual way."""

    path: Path
    settings: ReadSettings

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return self.path.name

    def to_dict(self, folder: Path) -> dict[str, str]:
        """Return the options of a plan in this folder that name the file."""
        return {"file": os.path.relpath(self.path, folder), **self.settings.to_dict()}


def usual_of(path: Path) -> ReadSettings:
    r"""Return what is usual for a text file of this name.

    >>> usual_of(Path("a.TSV")).separator
    '\t'
    """
    tabs = path.name.lower().endswith((".tsv", ".tab", ".tsv.gz"))
    return ReadSettings("\t" if tabs else ",", "utf-8", ".")


def settings_from(data: Mapping[str, Any], where: str) -> tuple[ReadSettings, list[str]]:
    """Return the settings of a plan's ``[source]``, and every problem of them."""
    given = {name: data[name] for name in SETTINGS if name in data}
    wrong = [name for name, text in given.items() if not isinstance(text, str)]
    if wrong:
        return USUAL, [sentence(f"{name!r} is not text", where=where) for name in wrong]
    try:
        return ReadSettings(**given), []
    except SpecificationError as error:
        return USUAL, [f"{where}: {problem}" for problem in error.problems]


def sign_of(text: str) -> str:
    r"""Return the sign that a name on the command line stands for, which a shell would make hard to type.

    >>> sign_of("tab"), sign_of(r"\t"), sign_of(";")
    ('\t', '\t', ';')
    """
    return "\t" if text == "\\t" else _NAMED.get(text.lower(), text)


def named(sign: str) -> str:
    r"""Return how a message shows a sign.

    >>> named("\t"), named(";")
    ('a tab', "';'")
    """
    return {"\t": "a tab", "\u00a0": "a blank that does not break", "\u202f": "a narrow blank", " ": "a blank"}.get(
        sign, repr(sign)
    )


def _is_encoding(name: str) -> bool:
    """Whether Python can turn bytes into text by this name, part by part."""
    try:
        b"".decode(name)
        return codecs.lookup(name).incrementaldecoder is not None
    except (LookupError, ValueError):
        return False
