"""Tell columns that number or name persons, households or records by their names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
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
LEAST_ALONE = 50
"""A column with categories, and fewer than these, is no number where its name or label is all that says so."""
_HOUSE_WORDS = "household|family|hh|haushalt|menage|foyer|hogar|huishouden"
_UNIT_WORDS = (
    f"{_HOUSE_WORDS}|patient|person|individual|pupil|student|employee|client|customer|insured|respondent|interviewee"
    "|schueler|versicherter?|befragter?|personne|eleve|assure|persona|paciente|alumno|asegurado|persoon|leerling"
)
_NUMBER_WORDS = "id|no|nr|num|number|identifier|identification|identification number|nummer|numero"
_NAMED_AFTER = re.compile(
    f"(?P<unit>{_UNIT_WORDS})_?(id|no|nr|num|number|nummer|code)?"
    f"|(id|no|nr|num|number|numero|nummer)_(?P<behind>{_UNIT_WORDS})"
)
"""Names of columns that are a person or a household, alone or beside a number; not "patients", a count."""
_LABELLED = re.compile(
    f"({_NUMBER_WORDS}) (of|of the|of each|der|du|de la|de l|del|van de|van het) (?P<of>{_UNIT_WORDS})"
    f"|({_NUMBER_WORDS}) des (?P<des>{_UNIT_WORDS})(en|s)?"
    f"|((unique|anonymous|encrypted|pseudonymised|internal) )?(?P<unit>{_UNIT_WORDS})( s)?(en|s)? ?({_NUMBER_WORDS})"
)
"""Labels of such columns: "Number of the patient", and not "Number of patients"."""
_PLAIN = ("string", "large_string", "int", "uint", "halffloat", "float", "double", "dictionary")
"""How the types of numbers of households begin: no lists, records or bytes, which a source reads only to drop them."""
NAMED = "seems to name persons: role = 'drop'"
NUMBERS = "seems to number persons or households: role = 'household' or 'record_key', otherwise perhaps 'drop'"
HOUSES = "looks like a household number: set role = 'household', or 'drop'"
"""The notes on such columns, which get no role by '*'."""


def is_number_of(name: str, categories: Sequence[Any] = (), labels: Sequence[str] = (), label: str = "") -> bool:
    """Return whether a column is named or labelled like a number of persons or households, no quantity.

    Labelled categories, and fewer than ``LEAST_NUMBERS``, number nobody: ``PID`` can be a party. Nor do fewer than
    ``LEAST_ALONE`` of a column that is just called ``household``: they can be its type or size.

    >>> [is_number_of(name) for name in ("ori_hid", "personID", "id", "paid", "savings")]
    [True, True, True, False, False]
    >>> is_number_of("PID", [1, 2, 3]), is_number_of("PID", [*range(50)])
    (False, True)
    >>> is_number_of("patient"), is_number_of("patients"), is_number_of("household", [*range(6)])
    (True, False, False)
    >>> is_number_of("v1", label="Number of the patient"), is_number_of("v1", label="Number of patients")
    (True, False)
    """
    if labels or 0 < len(categories) < LEAST_NUMBERS:
        return False
    if not _NUMBERS_OF.isdisjoint(parts_of_name(name)):
        return True
    return not 0 < len(categories) < LEAST_ALONE and bool(_unit_word(name, label))


def _unit_word(name: str, label: str = "") -> str:
    """Return the word for whom a column numbers, of a name that is one or of a label that says so; "" without one.

    >>> _unit_word("Patient_No"), _unit_word("ménage"), _unit_word("household_type"), _unit_word("pers_no")
    ('patient', 'menage', '', '')
    >>> _unit_word("no_menage"), _unit_word("num hogar"), _unit_word("no_person"), _unit_word("no_menages")
    ('menage', 'hogar', '', '')
    >>> _unit_word("v1", "Household number"), _unit_word("v1", "Number of persons")
    ('household', '')
    """
    if named := _NAMED_AFTER.fullmatch(_folded(name).replace(" ", "_")):
        return "" if numbers_members(name) else named["unit"] or named["behind"]
    said = _LABELLED.fullmatch(_folded(re.split("[,;:(]", label)[0]))
    return "" if said is None else said["of"] or said["des"] or said["unit"]


def _folded(text: str) -> str:
    """Return a text in small letters without accents, its words with one blank between."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", " ", letters).strip()


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
    found = [v for v in dropped if is_number_of(v.name, v.categories, v.labels, v.label)]
    houses = {v.name: _is_of_households(v.name, v.label) for v in found if _is_of_persons(v.name, v.label)}
    name = min(houses, key=lambda name: not houses[name], default=None)
    return None if name is None else (name, "households" if houses[name] else "persons")


def may_link(codebook: Codebook, named: Collection[str] = ()) -> tuple[str, ...]:
    """Return the columns that seem to number households or persons, but for record keys and those ``named`` as units.

    A column that is named like one of households is one of these too where a plan takes it for one of persons.
    """
    held = [v for v in codebook.variables if v.role != "record_key"]
    held = [v for v in held if v.name not in named or (v.role != "household" and numbers_households(v.name))]
    return tuple(v.name for v in held if is_number_of(v.name, v.categories, v.labels, v.label))


def numbers_units(draft: Mapping[str, Any]) -> bool:
    """Return whether the column of a draft is named as a number of households or persons, not of schools or clusters.

    >>> [numbers_units({"name": name}) for name in ("ori_hid", "person_id", "school_id", "pay")]
    [True, True, False, False]
    """
    name, _, _, label = held = described(draft)
    return is_number_of(*held) and _is_of_persons(name, label)


def _is_of_persons(name: str, label: str = "") -> bool:
    """Return whether a number is one of persons, households or records, and not of interviewers or schools.

    >>> [_is_of_persons(name) for name in ("ori_hid", "id", "person_id", "ori_pid", "interviewer_id", "id_school")]
    [True, True, True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    if _unit_word(name, label):
        return True
    return not parts.isdisjoint(_NUMBERS_OF - _OF_ANYTHING) or parts - {""} <= _OF_ANYTHING | _OF_WHOM | _HOUSE


def household_among(names: Iterable[str]) -> str | None:
    """Return the first column that is named like a number of households; None without one.

    >>> household_among(["id", "ori_hid", "rooms"]), household_among(["id", "rooms"])
    ('ori_hid', None)
    """
    return next((name for name in names if numbers_households(name)), None)


def numbers_households(name: str) -> bool:
    """Return whether a column is named like a number of households.

    >>> [numbers_households(name) for name in ("ori_hid", "household_id", "person_id", "hh_size", "no_menage")]
    [True, True, False, False, True]
    """
    parts = {*parts_of_name(name)}
    if not _HOUSES.isdisjoint(parts) or not (_HOUSE.isdisjoint(parts) or _NUMBERS_OF.isdisjoint(parts)):
        return True
    named = _NAMED_AFTER.fullmatch(_folded(name).replace(" ", "_"))
    return named is not None and re.fullmatch(_HOUSE_WORDS, named["behind"] or "") is not None


def _is_of_households(name: str, label: str) -> bool:
    return numbers_households(name) or re.fullmatch(_HOUSE_WORDS, _unit_word(name, label)) is not None


def numbers_members(name: str) -> bool:
    """Return whether a column is named like a number of the members of a household, which begins again in each.

    >>> [numbers_members(name) for name in ("pers_nr", "PersonNo", "PERNUM", "persons", "no_children")]
    [True, True, True, False, False]
    """
    parts = {*parts_of_name(name)}
    return not _MEMBERS.isdisjoint(parts) or not (_MEMBER.isdisjoint(parts) or _COUNTS.isdisjoint(parts))


def number_note(name: str, categories: Sequence[Any] = (), labels: Sequence[str] = (), label: str = "") -> str:
    """Return what is said of a column that seems to number or name persons or households; empty of others.

    >>> number_note("ori_hid"), number_note("caseid") == NUMBERS, number_note("paid")
    ("looks like a household number: set role = 'household', or 'drop'", True, '')
    """
    if is_name_of(name):
        return NAMED
    if not is_number_of(name, categories, labels, label):
        return ""
    return HOUSES if _is_of_households(name, label) else NUMBERS


def parts_of_name(name: str) -> list[str]:
    """Return the words of a name in small letters, without the digits at their ends."""
    return [part.lower().rstrip("0123456789") for part in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name)]


def numbers_persons(draft: Mapping[str, Any]) -> bool:
    """Return whether the column of a draft seems to number or name persons or households."""
    if is_name_of(draft["name"]) and not 0 < len(draft.get("categories", ())) < LEAST_NUMBERS:
        return True
    return is_number_of(*described(draft))


def described(draft: Mapping[str, Any]) -> tuple[str, Sequence[Any], Sequence[str], str]:
    """Return what a draft says of its column, as :func:`is_number_of` takes it: name, categories, labels and label."""
    return draft["name"], draft.get("categories", ()), draft.get("labels", ()), draft.get("label", "")
