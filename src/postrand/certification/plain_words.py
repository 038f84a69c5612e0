"""Claims in plain words: how many guesses of an attacker are right, for claims of a plan or of a release alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from postrand.certification.account import add_upper, mechanism_account
from postrand.certification.certificate import Claim, blocks_of
from postrand.certification.units import unit_levels
from postrand.codebook import Codebook
from postrand.mechanism import Mechanism
from postrand.privacy import promise
from postrand.privacy.words import (
    alike_in_plain_words,
    file_in_plain_words,
    in_plain_words,
    member_sizes,
    members_in_words,
    of_combinations,
    unit_in_plain_words,
)
from postrand.support.series_words import total_first
from postrand.support.unit_wordings import told_units


class HasHousehold(Protocol):
    """What is read of a plan's, or a mechanism's, units: the column of households, empty where they are no unit."""

    @property
    def household(self) -> str:
        """The column that shows which records are one household."""


def plain_claims(
    claims: Iterable[Claim],
    mechanism: Mechanism,
    file: Mapping[str, Any] | None = None,
    *,
    largest_household: int = 0,
    series: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Return what claims mean, in plain sentences; one for all single variables that have the same claim.

    ``file`` is what the certificate says of the whole file: its ``epsilon`` and ``delta``, if it states them. Of
    a person or household, the largest that the plan allows is told; where the codebook names households and no level of
    them is claimed, what their members have together, up to the ``largest_household``, if it is known. Of a later
    release of a ``series``, the total of all comes first.
    """
    claims = tuple(claims)
    largest = max((values_of(claim, mechanism) for claim in claims if not claim.within), default=2)
    alike: dict[Any, list[Claim]] = {}
    for claim in claims:
        key = (claim.privacy, claim.within) if len(claim.variables) == 1 else (claim.variables, claim.privacy)
        alike.setdefault(key, []).append(claim)
    told = [_told(held, mechanism) for held in alike.values()]
    told += unit_claims(mechanism, largest_household)
    if file is not None and file.get("epsilon") is not None:
        told.append(file_in_plain_words(file["epsilon"], file["delta"]))
    return (*total_first(series, largest), *told)


def unit_claims(mechanism: Mechanism, largest_household: int = 0) -> tuple[str, ...]:
    """Return what the levels of persons and households mean, for those with most records, in plain sentences."""
    book, unit = mechanism.codebook, mechanism.units
    epsilon = record_epsilon(mechanism) if _of_households(book, unit) else 0.0  # of a large split it takes seconds
    members = members_claims(book, unit, epsilon, largest_household)
    levels = (
        (unit, found["levels"][-1]) for unit, found in told_units(unit_levels(mechanism)).items() if "levels" in found
    )
    return (*(unit_in_plain_words(unit, one["records"], one["epsilon"]) for unit, one in levels), *members)


def members_claims(
    book: Codebook | None, unit: HasHousehold | None, epsilon: float, largest: int = 0
) -> tuple[str, ...]:
    """Return what a record's ε means for the members of a household, where these are known and have no level of theirs.

    ``unit`` is what a plan, or a mechanism, says of its units; ``largest`` the most members of one household, or 0.
    """
    names = _of_households(book, unit)
    return tuple(members_in_words(epsilon, name, largest) for name in names[:1] if epsilon > 0)


def _of_households(book: Codebook | None, unit: HasHousehold | None) -> tuple[str, ...]:
    """Return the variables that name households of which no level is claimed."""
    return (
        ()
        if book is None or (unit is not None and unit.household)
        else tuple(v.name for v in book.with_role("household"))
    )


def household_levels(mechanism: Mechanism, largest: int = 0) -> tuple[tuple[int, float], ...]:
    """Return the members and the ε, rounded up, of households of some sizes; () where no ε of them is known.

    The levels are those that the plan claims, otherwise ``k`` times that of a record where the codebook names
    households: what :func:`unit_claims` says in sentences. ``largest`` is the most members of one, 0 if not known.
    """
    claimed = unit_levels(mechanism).get("household")
    if claimed is not None:
        return tuple((one["records"], one["epsilon"]) for one in claimed.get("levels", ()))
    book, epsilon = mechanism.codebook, record_epsilon(mechanism)
    if book is None or not book.with_role("household") or not 0 < epsilon < math.inf:
        return ()
    return tuple((k, add_upper(*[epsilon] * k)) for k in (1, *member_sizes(largest)))


def household_claims(mechanism: Mechanism, largest: int = 0) -> tuple[str, ...]:
    """Return the sentences of :func:`unit_claims` that :func:`household_levels` has as figures."""
    persons = "levels" in unit_levels(mechanism).get("person", {})
    return unit_claims(mechanism, largest)[int(persons) :] if household_levels(mechanism, largest) else ()


def record_epsilon(mechanism: Mechanism) -> float:
    """Return the ε of a record, rounded up."""
    return mechanism_account(mechanism).total


def _told(claims: Sequence[Claim], mechanism: Mechanism) -> str:
    first = claims[0]
    if len(claims) > 1 and len(first.variables) == 1:
        sizes = {claim.variables[0]: values_of(claim, mechanism) for claim in claims}
        return alike_in_plain_words(first.privacy, sizes, within=first.within)
    return in_plain_words(first.privacy, first.variables, values_of(first, mechanism), within=first.within)


def plain_promise(claim: Claim, mechanism: Mechanism) -> str:
    """Return what a claim means, beginning with a capital letter, without the names of its variables."""
    text = promise(claim.privacy, 2 if claim.within else values_of(claim, mechanism))
    text = of_combinations(text) if len(claim.variables) > 1 else text
    return f"{text[:1].upper()}{text[1:]}."


def values_of(claim: Claim, mechanism: Mechanism) -> int:
    """Return the number of values, or combinations of values, that a claim is about."""
    split = [mechanism.require_codebook()[name].size for name in claim.variables if name in mechanism.partly]
    return math.prod([block.matrix.size for block in blocks_of(claim, mechanism)] + split)
