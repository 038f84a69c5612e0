"""What a plan asks of the whole file: a δ, and perhaps the ε from which the record's own follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.privacy import DifferentialPrivacy
from postrand.support.inputs import finite

NAMES = ("file_epsilon", "delta")


@dataclass(frozen=True, slots=True)
class FileGoal:
    """State the file's level at ``delta``; with ``epsilon``, solve the record's ε so that it is at most that."""

    delta: float
    epsilon: float | None = None


def goal_of(privacy: Any, where: str) -> tuple[Any, FileGoal | None]:
    """Return ``[privacy]`` without what it asks of the file, and that; None if it asks nothing.

    Until the record's ε is solved for a number of records, it is the file's: shuffling never costs privacy.

    Raises
    ------
    SpecificationError
        If δ is missing or not in (0, 1), the file's ε is not positive, or the record's is given too.

    Examples
    --------
    >>> goal_of({"model": "differential", "file_epsilon": 1.0, "delta": 1e-6}, "[privacy]")
    ({'model': 'differential', 'epsilon': 1.0}, FileGoal(delta=1e-06, epsilon=1.0))
    """
    if not isinstance(privacy, Mapping) or privacy.get("model") != DifferentialPrivacy.name:
        return privacy, None
    if not any(name in privacy for name in NAMES):
        return privacy, None
    epsilon, delta = privacy.get("file_epsilon"), privacy.get("delta")
    problems = []
    if not 0 < finite(delta) < 1:
        fix = "set delta = 1e-6, far below 1 / records"
        got = None if delta is None else shown(delta, repr)
        problems.append(sentence("the level of the file needs a delta in (0, 1)", where=where, got=got, fix=fix))
    if epsilon is not None and not finite(epsilon) > 0:
        problems.append(sentence("file_epsilon is not a positive number", where=where, got=shown(epsilon, repr)))
    if epsilon is not None and "epsilon" in privacy:
        what = "both epsilon and file_epsilon are given, but one follows from the other"
        problems.append(sentence(what, where=where, fix="remove one of them"))
    raise_all(SpecificationError, problems)
    rest = {name: value for name, value in privacy.items() if name not in NAMES}
    if epsilon is None:
        return rest, FileGoal(float(finite(delta)))
    return {**rest, "epsilon": epsilon}, FileGoal(float(finite(delta)), float(finite(epsilon)))
