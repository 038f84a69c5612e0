"""Claims in plain words: how many guesses of an attacker are right, for claims of a plan or of a release alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from postrand.certification.certificate import Claim, blocks_of
from postrand.certification.units import unit_levels
from postrand.mechanism import Mechanism
from postrand.privacy import promise
from postrand.privacy.words import (
    alike_in_plain_words,
    file_in_plain_words,
    in_plain_words,
    of_combinations,
    unit_in_plain_words,
)


def plain_claims(
    claims: Iterable[Claim], mechanism: Mechanism, file: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return what claims mean, in plain sentences; one for all single variables that have the same claim.

    ``file`` is what the certificate says of the whole file: its ``epsilon`` and ``delta``, if it states them. Of
    a person or household, the largest that the plan allows is told.
    """
    alike: dict[Any, list[Claim]] = {}
    for claim in claims:
        key = (claim.privacy, claim.within) if len(claim.variables) == 1 else (claim.variables, claim.privacy)
        alike.setdefault(key, []).append(claim)
    told = [_told(held, mechanism) for held in alike.values()]
    told += unit_claims(mechanism)
    if file is not None and file.get("epsilon") is not None:
        told.append(file_in_plain_words(file["epsilon"], file["delta"]))
    return tuple(told)


def unit_claims(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what the levels of persons and households mean, for those with most records, in plain sentences."""
    levels = ((unit, found["levels"][-1]) for unit, found in unit_levels(mechanism).items() if "levels" in found)
    return tuple(unit_in_plain_words(unit, one["records"], one["epsilon"]) for unit, one in levels)


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
