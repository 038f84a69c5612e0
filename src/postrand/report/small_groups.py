"""Categories that a release can hardly tell from none: estimates by them have no interval."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PostrandError
from postrand.estimate.planning import expected_precision
from postrand.estimate.split_members import household_of
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.split import Split, Subset

NAMED = 5
LEAST = 2.0
"""A category whose share is fewer standard errors than this is told: in about half of the releases or more its size
cannot be told from zero, and 'postrand estimate' gives means by it no interval."""


def small_groups(
    mechanism: Mechanism,
    records: int,
    law: Callable[[Sequence[str]], NDArray[np.float64] | None],
    households: Mapping[int, int] | None = None,
) -> str:
    """Return which perturbed variables have categories of which a release tells too little; "" where none has.

    A category of share p is one if ``p < LEAST · se(p)``, with the standard error that a release of so many records is
    expected to have, by the shares of the file, which ``law`` gives.
    """
    found = []
    shared = {name for names in mechanism.shared.values() for name in names}  # no precision of them is known
    for name in mechanism.variables:
        shares = law((name,))
        if shares is None or (name in shared and not household_of(mechanism, [name])):
            continue
        alone = _too_rare(mechanism, name, records, shares, households)
        beside, other = _beside(mechanism, name, records, shares)
        if alone or beside:
            found.append(_told(name, shares.size, alone, beside, other))
    if not found:
        return ""
    more = f"; and of {len(found) - NAMED} more variables" * (len(found) > NAMED)
    return (
        f"Categories too rare for estimates, with the file's own shares: {'; '.join(found[:NAMED])}{more}. A release "
        "often cannot tell their size from zero, and then gives no interval. Merge them with others, or allow a larger "
        "epsilon where your limits do."
    )


def _told(name: str, size: int, alone: int, beside: int, other: str) -> str:
    """Return how many categories of a variable are too rare, and in tables with another one.

    >>> _told("educ", 4, 0, 1, "region"), _told("year", 7, 2, 3, "urban")
    ('1 of the 4 categories of educ in tables with region', '2 of the 7 categories of year, 3 in tables with urban')
    """
    first = f"{alone or beside} of the {size} categories of {name}"
    if beside <= alone:
        return first
    return f"{first}{f', {beside}' * bool(alone)} in tables with {other}"


def _too_rare(
    mechanism: Mechanism, name: str, records: float, shares: NDArray[np.float64], households: Mapping[int, int] | None
) -> int:
    """Return how many categories of a variable are too rare; 0 where it has no estimate, which other lines say."""
    try:
        error = expected_precision(mechanism, [name], max(round(records), 1), shares, households).standard_error
    except PostrandError:
        return 0
    return int(((shares > 0) & (shares < LEAST * error)).sum())


def _beside(mechanism: Mechanism, name: str, records: float, shares: NDArray[np.float64]) -> tuple[int, str]:
    """Return how many are too rare among the records of a split that show a second variable too, the rarest; and it.

    (0, "") without a split, and where one random member shows values for its household.
    """
    split = mechanism.split
    if split is None or split.of_members or name not in split.variables:
        return 0, ""
    most: tuple[float, str, list[Subset]] = (2.0, "", [])
    for other in split.variables:
        both = [one for one in split.subsets if {name, other} <= {*one.variables}]
        if other != name and both:
            most = min(most, (sum(one.weight for one in both) / UNIT, other, both), key=lambda one: one[0])
    share, other, both = most
    if not both:
        return 0, ""
    law = Split.of([one.weight / UNIT / share for one in both], [one.block for one in both])
    own = dataclasses.replace(mechanism, split=law)
    return _too_rare(own, name, records * share, shares, None), other
