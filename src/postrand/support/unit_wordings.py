"""The words about persons and households: part of :data:`postrand.support.wordings.WORDINGS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postrand.support.exact import format_upper

COUNTED = {
    "household": ", unless households are primary sampling units ('postrand estimate --psu', or a recorded design)"
}
"""How estimates can take account of shared draws: only household numbers are released."""


def _of(unit: str, units: str) -> dict[str, str]:
    return {
        f"limit.several_{unit}": (
            f"Of several records of one {unit} nothing is certified but that a record's ε counts once for each of them."
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
    **_of("person", "Persons"),
    **_of("household", "Households"),
    "unit.once": "; drawn once for all of them: {variables:list}",
    "unit.member": "; shown by one random member: {member:list}",
    "limit.one_member": (
        "One random member of each household shows: {variables:list}. It stands for all records of its household: in "
        "figures of these variables it counts as often as the household has records. Other records do not show them."
    ),
    "file.one_member": "one random member of each household shows these, so records do not have one law: "
    "{variables:list}",
    "unit.none": (
        "No level of a {unit} is stated, because a released value excludes some true values, so there is no finite ε: "
        "{infinite:blocks}"
    ),
}
"""What a certificate says of units, and of draws that their records share."""


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
