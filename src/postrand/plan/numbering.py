"""Tell columns that number or name persons, households or records by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from postrand.codebook.codebook import Codebook

_NUMBERS_OF = frozenset(
    (
        "id", "ids", "hid", "hhid", "pid", "hpid", "ppid", "uid", "uuid", "guid", "idno", "idnr", "idhh", "caseid",
        "recid", "respid", "personid", "householdid", "hhno", "hhnr", "hhnum", "pernum", "serial",
    )
)  # fmt: skip
"""Parts of names of columns that number persons, households or records."""
_NAMES = frozenset(("surname", "forename", "firstname", "lastname", "fullname", "familyname", "maidenname"))
_OF_PERSONS = frozenset(
    ("first", "last", "given", "family", "full", "middle", "maiden", "person", "respondent", "of", "name", "names")
)
"""Parts of names of columns that name persons: one of the first, or ``name`` and no word beside the others."""
LEAST_NUMBERS = 10
"""A column with categories, and fewer than these, numbers or names no persons or households."""
_HOUSES = frozenset(("hid", "hhid", "hpid", "idhh", "householdid", "hhno", "hhnr", "hhnum"))
_HOUSE = frozenset(("household", "hh", "house", "family"))
"""Those of columns that number households, and those beside which any number is one of households."""
_MEMBER = frozenset(("per", "pers", "person", "member", "ind"))
_COUNTS = frozenset(("nr", "no", "num", "number"))
_MEMBERS = frozenset(("pernum", "persnr", "persno", "personnr", "personno", "pnr", "pno", "pnum", "memberno"))
"""Parts of names of columns that number the members of a household, the first two together."""
_OF_ANYTHING = frozenset(("id", "ids", "uid", "uuid", "guid", "idno", "idnr", "serial"))
"""Those that number whatever the other parts of a name say: interviewers, schools, regions."""
_OF_WHOM = frozenset(
    (
        "person", "persons", "individual", "ind", "member", "resp", "respondent", "case", "record",
        "ori", "orig", "original", "old", "new", "pseudo", "anon", "unique",
    )
)  # fmt: skip
"""Other parts of names of columns that number persons or households."""
_PLAIN = ("string", "large_string", "int", "uint", "halffloat", "float", "double", "dictionary")
"""How the types of numbers of households begin: no lists, records or bytes, which a source reads only to drop them."""
NAMED = "seems to name persons: role = 'drop'"
NUMBERS = "seems to number persons or households: role = 'household' or 'record_key', otherwise perhaps 'drop'"
HOUSES = "looks like a household number: set role = 'household', or 'drop'"
"""The notes on such columns, which get no role by '*'."""


def is_number_of(name: str, categories: Sequence[Any] = (), labels: Sequence[str] = ()) -> bool:
    """Return whether a column is named like a number of persons or households, whose values are no quantities.

    Labelled categories, and fewer than ``LEAST_NUMBERS``, number nobody: ``PID`` can be a party.

    >>> [is_number_of(name) for name in ("ori_hid", "personID", "id", "paid", "savings")]
    [True, True, True, False, False]
    >>> is_number_of("PID", [1, 2, 3]), is_number_of("PID", [*range(50)])
    (False, True)
    """
    if labels or 0 < len(categories) < LEAST_NUMBERS:
        return False
    return not _NUMBERS_OF.isdisjoint(parts_of_name(name))


def is_name_of(name: str) -> bool:
    """Return whether a column is named like one of the names of persons, which nobody tabulates.

    >>> [is_name_of(name) for name in ("name", "First Name", "surname", "country_name", "rename")]
    [True, True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    return not _NAMES.isdisjoint(parts) or (parts <= _OF_PERSONS and not parts.isdisjoint({"name", "names"}))


def dropped_household(codebook: Codebook) -> tuple[str, Literal["households", "persons"]] | None:
    """Return a column that is not released and is named like a number of households, else of persons; and of whom."""
    dropped = [v for v in codebook.with_role("drop") if v.type.startswith(_PLAIN)]
    found = [v.name for v in dropped if is_number_of(v.name, v.categories or (), v.labels or ())]
    name = min(filter(_is_of_persons, found), key=lambda name: not numbers_households(name), default=None)
    return None if name is None else (name, "households" if numbers_households(name) else "persons")


def _is_of_persons(name: str) -> bool:
    """Return whether a number is one of persons, households or records, and not of interviewers or schools.

    >>> [_is_of_persons(name) for name in ("ori_hid", "id", "person_id", "ori_pid", "interviewer_id", "id_school")]
    [True, True, True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    return not parts.isdisjoint(_NUMBERS_OF - _OF_ANYTHING) or parts - {""} <= _OF_ANYTHING | _OF_WHOM | _HOUSE


def household_among(names: Iterable[str]) -> str | None:
    """Return the first column that is named like a number of households; None without one.

    >>> household_among(["id", "ori_hid", "rooms"]), household_among(["id", "rooms"])
    ('ori_hid', None)
    """
    return next((name for name in names if numbers_households(name)), None)


def numbers_households(name: str) -> bool:
    """Return whether a column is named like a number of households.

    >>> [numbers_households(name) for name in ("ori_hid", "household_id", "person_id", "hh_size")]
    [True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    return not _HOUSES.isdisjoint(parts) or not (_HOUSE.isdisjoint(parts) or _NUMBERS_OF.isdisjoint(parts))


def numbers_members(name: str) -> bool:
    """Return whether a column is named like a number of the members of a household, which begins again in each.

    >>> [numbers_members(name) for name in ("pers_nr", "PersonNo", "PERNUM", "persons", "no_children")]
    [True, True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    return not _MEMBERS.isdisjoint(parts) or not (_MEMBER.isdisjoint(parts) or _COUNTS.isdisjoint(parts))


def number_note(name: str) -> str:
    """Return what is said of a column that is named like a number of persons or households; empty of others.

    >>> number_note("ori_hid"), number_note("caseid") == NUMBERS, number_note("paid")
    ("looks like a household number: set role = 'household', or 'drop'", True, '')
    """
    if is_name_of(name):
        return NAMED
    return (HOUSES if numbers_households(name) else NUMBERS) if is_number_of(name) else ""


def parts_of_name(name: str) -> list[str]:
    """Return the words of a name in small letters, without the digits at their ends."""
    return [part.lower().rstrip("0123456789") for part in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name)]


def numbers_persons(draft: Mapping[str, Any]) -> bool:
    """Return whether the column of a draft seems to number or name persons or households."""
    if is_name_of(draft["name"]) and not 0 < len(draft.get("categories", ())) < LEAST_NUMBERS:
        return True
    return is_number_of(draft["name"], draft.get("categories", ()), draft.get("labels", ()))
