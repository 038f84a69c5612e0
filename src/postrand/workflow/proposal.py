"""What the draft of a plan proposes for its perturbed variables, and why: blocks, a joint one, or a split release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Literal

from postrand.codebook import Codebook, Variable
from postrand.designers import Quick, quick_split
from postrand.errors import PostrandError
from postrand.support.worth_basis import BASES

Way = Literal["best", "blocks", "split"]

FEWEST = 5
"""With fewer variables blocks are simple, and every record keeps all of its values."""
GAIN = 2.0
"""So many times more unperturbed records have to be gained for what a split release costs: most values are left out."""
FEW = 100
_WIDTH = 110


MAX_JOINT = 512
"""The most combinations of one joint block that is proposed: its matrix is drawn and explained cell by cell."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Say how the variables are perturbed, and the reason as lines of a comment.

    ``way``: ``blocks`` (one for each variable), ``joint`` (one block of all) or ``split``.
    """

    way: Literal["blocks", "joint", "split"]
    reason: str


def proposed(sizes: Sequence[int], epsilon: float, records: int | None = None, way: Way = "best") -> Proposal:
    """Return the proposal for variables with so many categories, which share ε.

    It follows from these numbers alone, with every combination equally likely: it says nothing about the records. Their
    number only decides whether a warning is added.

    >>> proposed([2, 3], 2.0).way, proposed([2, 3, 4, 2, 5, 3], 6.0).way, proposed([2] * 5, 8.0).way
    ('blocks', 'split', 'joint')
    """
    asked: Literal["blocks", "split"] = "split" if way == "split" and len(sizes) > 1 else "blocks"
    if len(sizes) < 3:  # two are one table: nothing to compare
        return Proposal(asked, "")
    book = Codebook(tuple(Variable(f"v{k}", "other", tuple(map(str, range(s)))) for k, s in enumerate(sizes)))
    try:
        found = quick_split(book, book.names, epsilon)
    except PostrandError:  # an epsilon or sizes that a split release cannot have
        return Proposal(asked, "")
    chosen: Literal["blocks", "joint", "split"] = asked
    if way == "best" and len(sizes) >= FEWEST and found.split >= GAIN * found.separate:
        chosen = "joint" if found.together and math.prod(sizes) <= MAX_JOINT else "split"
    parts = _reasons(len(sizes), found, chosen, records)
    return Proposal(chosen, "\n".join(fill(part, _WIDTH) for part in parts))


def _reasons(many: int, found: Quick, chosen: str, records: int | None) -> list[str]:
    worth = (
        f"For tables of two of the {many} variables, {BASES['equal']}, 1,000 records are worth "
        f"{_shown(found.separate)} unperturbed ones"
    )
    worth += f" if each variable has its own block with an equal share of epsilon, and {_shown(found.split)}"
    if found.together:
        parts = [f"{worth} if one joint block of all variables has the whole epsilon."]
    else:
        rest = "where each record shows a random subset of the variables with the whole epsilon"
        parts = [f"{worth} or more in a split release, {rest}."]
    if chosen == "split":
        other = "Choose blocks (postrand init --perturb blocks) for analyses of many variables of the same record"
        parts.append(f"{other}, and where single records are read: most values are not released.")
    elif many < FEWEST:
        parts.append("With so few variables, separate blocks are proposed: each can be changed by itself.")
    if records is not None and records * (found.separate if chosen == "blocks" else found.split) < FEW:
        parts.append(f"Of this file, that is fewer than {FEW} unperturbed records: raise epsilon, or merge categories.")
    return parts


def _shown(share: float) -> str:
    return f"{1000 * share:.2g}" if share < 0.0995 else f"{1000 * share:,.0f}"
