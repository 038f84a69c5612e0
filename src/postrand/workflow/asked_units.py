"""Households and persons that are asked to be protected too: what keeps a plan from it, and its section ``[unit]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from postrand.data.households import identities
from postrand.engines.unit_records import too_many
from postrand.errors import DataError, nearest, sentence
from postrand.risk.sample import Sampled
from postrand.risk.telling import numbers_of
from postrand.support.arrow import index_values
from postrand.workflow.advice_needs import Needs

RECORDS = "--person P --most-records N, the most records of one person: a public bound"
BOUND = "--largest-household N, the most members of one: a public bound"


def problems(roles: Mapping[str, str], needs: Needs) -> Iterator[str]:
    """Yield what keeps a plan from protecting the units asked for; ``roles`` are those of the file's columns."""
    if needs.person and needs.person not in roles:
        yield sentence(f"no column {needs.person!r}{nearest(needs.person, roles)}", where="--person")
    elif needs.person and roles[needs.person] not in ("drop", "household"):
        what = f"{needs.person!r} numbers persons, and would be released"
        yield sentence(what, where="--person", fix="leave it out of the other options; its role is 'drop'")
    if bool(needs.person) != bool(needs.most_records):
        what = "a column of persons and the most records of one person are needed together"
        yield sentence(what, fix=f"add {RECORDS}" if needs.person else "name the column: --person")
    if are_persons(roles, needs) and needs.most_records != needs.largest_household:
        what = f"{needs.person!r} numbers persons and households, with two largest numbers of records"
        yield sentence(what, fix="leave --largest-household out")
    if not needs.largest_household:
        return
    if "household" not in roles.values():
        what = "households cannot be protected: no variable has household numbers"
        yield sentence(what, fix="name the column of household numbers: --household")
    if needs.largest_household < 2:
        what = "the largest household is not one of several members"
        yield sentence(what, got=needs.largest_household, wanted=">= 2")


def are_persons(roles: Mapping[str, str], needs: Needs) -> bool:
    """Whether the numbers of persons are those of households: the persons are protected as such, and stay together."""
    return bool(needs.person) and roles.get(needs.person) == "household"


def completed(roles: Mapping[str, str], needs: Needs) -> Needs:
    """Return the needs with the most records of a person as those of a household, where these are the persons."""
    if not are_persons(roles, needs):
        return needs
    return replace(needs, largest_household=needs.largest_household or needs.most_records, are_persons=True)


def contradictions(
    sample: Sampled, numbers: Sampled, drafts: Sequence[Mapping[str, Any]], needs: Needs
) -> Iterator[str]:
    """Yield what sampled records say against the roles and bounds that were given: a release would be refused.

    ``numbers`` are the same records, their quantities read as the file's settings say: with a decimal comma.
    """
    known = {*sample.table.column_names}
    roles = {d["name"]: d["role"] for d in drafts if d["name"] in known}
    for name in [name for name, role in roles.items() if role == "household"]:
        try:
            identities(sample.table.column(name).combine_chunks(), name)
        except DataError as error:
            yield str(error)
    house = next((name for name, role in roles.items() if role == "household"), "")
    for unit, name, most in (
        ("household", house, needs.largest_household),
        ("person", needs.person, needs.most_records),
    ):
        if most and name in roles and (largest := _largest(sample, name)) > most:
            yield too_many(unit, name, most, largest)
    for name in [name for name, role in roles.items() if role == "weight"]:
        values = numbers_of(numbers, name)
        if values is None:
            yield sentence("a weight is not a number", where=name, fix="give the column another role, or drop it")
        elif np.nanmin(values, initial=0.0) < 0:
            fix = "correct the file, or give the column another role"
            yield sentence("a weight is negative, perhaps a code for no answer", where=name, fix=fix)


def _largest(sample: Sampled, name: str) -> int:
    counts = pc.value_counts(sample.table.column(name).combine_chunks().drop_null()).field("counts")
    return int(index_values(counts).max(initial=0))


def section(roles: Mapping[str, str], needs: Needs, own: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return ``[unit]`` as plain data, empty where no unit is asked for; ``own`` variables describe the household."""
    unit: dict[str, Any] = {}
    if needs.largest_household:
        house = next(name for name, role in roles.items() if role == "household")
        unit |= {"household": house, "largest_household": needs.largest_household}
    unit |= {"household_variables": list(own)} if own else {}
    return unit | ({"person": needs.person, "most_records": needs.most_records} if needs.person else {})


def roles_of(codebook: Any) -> dict[str, str]:
    """Return the role of each variable of a codebook."""
    return {variable.name: variable.role for variable in codebook.variables}
