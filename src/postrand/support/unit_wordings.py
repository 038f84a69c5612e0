"""The words about persons and households: part of :data:`postrand.support.wordings.WORDINGS`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from postrand.support.exact import format_upper

COUNTED = {
    "household": ", unless households are primary sampling units ('postrand estimate --psu', or a recorded design)"
}
"""How estimates can take account of shared draws: only household numbers are released."""
MEMBER_COUNTS = "counts as often as the household has records"
"""How the member of a household who alone shows values enters figures of them."""


def _of(unit: str, units: str) -> dict[str, str]:
    return {
        f"limit.several_{unit}": (
            f"For a {unit}, ε counts once for each record: with two records 2 × ε, with three 3 × ε. Nothing else is "
            "certified of several of its records together."
        ),
        f"limit.shared_{unit}": (
            f"All records of a {unit} share one draw of: {{variables:list}}. Figures of these variables that take the "
            "draws of different records as independent are wrong: standard errors, intervals and p-values are too "
            f"small{COUNTED.get(unit, '')}. So is risk that is estimated from the release alone ('postrand assess')."
        ),
        f"limit.settled_{unit}": (
            f"Where records of one {unit} differed in {{variables:list}}, one value of each was taken before the draw: "
            "the most frequent; of equally frequent ones the first of the codebook; a missing value only if there is "
            f"no other. Not stated: whether, and how often, records of one {unit} differed."
        ),
        f"unit.{unit}": (
            f"{units} ({{column}}): the perturbed values of all records of one {unit} together are released under "
            "ε-differential privacy{within}, {levels:levels}{once}"
        ),
        f"file.shared_{unit}": f"all records of a {unit} share one draw of these: {{variables:list}}",
    }


UNIT_WORDINGS: Mapping[str, str] = {
    "unit.covers": "The guarantees of a record and of a {whole} cover only the values of: {variables:list}.",
    "limit.presence": (
        "Not covered: that a person or a household is in the file, who lives together, and how many records each has."
    ),
    "unit.presence": "Not covered: that a person is in the file, and how many records each has.",
    "unit.several": (
        "For a household, the ε of a person counts once for each person: with two persons 2 × ε, with three 3 × ε. "
        "Nothing else is certified of several of its persons together."
    ),
    **_of("person", "Persons"),
    **_of("household", "Households"),
    "unit.once": "; drawn once for all of them: {variables:list}",
    "unit.member": "; shown by one random {one}: {member:list}",
    "limit.one_member": (
        "One random member of each household shows: {variables:list}. It stands for all records of its household: in "
        f"figures of these variables it {MEMBER_COUNTS}, each time with its weight if it has one. Other records do not "
        "show them."
    ),
    "file.one_member": "one random member of each household shows these, so records do not have one law: "
    "{variables:list}",
    "unit.none": (
        "No level of a {unit} is stated, because a released value excludes some true values, so there is no finite ε: "
        "{infinite:blocks}"
    ),
}
"""What a certificate says of units, and of draws that their records share."""


OF_UNIT = ("shared_household", "settled_household", "one_member", "fresh_numbers")
"""What is said of households, and so of persons where they are the households."""
INSTEAD = {"presence": "unit.presence", "several_household": "unit.several"}
"""What is said in the place of a limit, where the households are persons."""
_AS_PERSONS = {
    "records are one household": "records are one person's",
    "in a household": "of a person",
    "members who": "records that",
    "its size": "the number of its records",
    "household": "person",
    "households": "persons",
    "member": "record",
    "members": "records",
}
_WORDS = re.compile(rf"\b({'|'.join(sorted(_AS_PERSONS, key=len, reverse=True))})\b", re.IGNORECASE)


def of_persons(text: str) -> str:
    """Return words on households and their members as words on persons and their records.

    >>> of_persons("One member of each household shows it; Households together")
    'One record of each person shows it; Persons together'
    """

    def said(found: re.Match[str]) -> str:
        word = _AS_PERSONS[found[0].lower()]
        return word[0].upper() + word[1:] if found[0][0].isupper() else word

    return _WORDS.sub(said, text)


def shown_by_members(households: int) -> str:
    """Return how many records of a split show values, where one member of each of so many households does; "" of 0.

    >>> shown_by_members(4300), shown_by_members(0)
    (', of which 4,300 show values of the split (one member of each household)', '')
    """
    return f", of which {households:,} show values of the split (one member of each household)" if households else ""


def member_weighting(weight: str = "", *, asked: str = "") -> str:
    """Return how a figure is weighted of values that one member of each household shows; ``asked`` weighs them too.

    >>> member_weighting("wgt")
    'one member of each household shows values, and counts as often as the household has records, each time with wgt'
    """
    more = f"; {asked}" if asked else f", each time with {weight}"
    return f"one member of each household shows values, and {MEMBER_COUNTS}{more}"


def member_weight(household: str, weights: Sequence[str], data: str) -> str:
    """Return which weight other software needs for values that one member of each household shows.

    >>> member_weight("hid", [], "data.csv").partition(":")[2]
    ' the number of records with its hid, which no column of data.csv has.'
    """
    own = f"{weights[0]} times " if weights else ""
    return (
        "postrand estimate and postrand.R count the records of a household themselves. Other software needs this "
        f"weight for the member that shows values: {own}the number of records with its {household}, which no column of "
        f"{data} has."
    )


def are_persons(units: Mapping[str, Any]) -> bool:
    """Whether the households of a certificate's ``units`` are persons: both are told by the same column."""
    house, person = units.get("household"), units.get("person")
    return house is not None and person is not None and bool(house["column"] == person["column"])


def told_units(units: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the units of a certificate that are told: persons alone where the households are they.

    >>> house = {"column": "pid", "variables": ["sex"], "member": ["age"]}
    >>> told_units({"person": {"column": "pid", "variables": []}, "household": house})
    {'person': {'column': 'pid', 'variables': ['sex'], 'member': ['age']}}
    """
    if not are_persons(units):
        return units
    house, person = units["household"], units["person"]
    shown = {"member": house["member"]} if "member" in house else {}
    return {"person": {**person, "variables": [*house["variables"], *person["variables"]], **shown}}


def levels(stated: Sequence[Mapping[str, Any]]) -> str:
    """Return levels by numbers of records, the largest last.

    >>> levels([{"records": 1, "epsilon": 1.5}, {"records": 3, "epsilon": 2.5}])
    'ε <= 1.5 for 1 record and ε <= 2.5 for 3 records, the most that are allowed'
    """

    def said(one: Mapping[str, Any]) -> str:
        return f"ε <= {format_upper(one['epsilon'])} for {one['records']} record{'s' * (one['records'] > 1)}"

    *several, last = map(said, stated)
    text = f"{', '.join(several)} and {last}" if several else last
    return f"{text}, the most that {'are' if stated[-1]['records'] > 1 else 'is'} allowed"
