"""What the draft of a plan proposes for its perturbed variables, and why: separate blocks, or a split release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Literal

from postrand.codebook import Codebook, Variable
from postrand.designers import quick_split
from postrand.errors import PostrandError

Way = Literal["best", "blocks", "split"]

FEWEST = 5
"""With fewer variables separate or joint blocks are simple, and every record keeps all of its values."""
GAIN = 2.0
"""So many times more unperturbed records have to be gained for what a split release costs: most values are left out."""
FEW = 100
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Proposal:
    """Say whether a split release is proposed, and the reason as lines of a comment."""

    split: bool
    reason: str


def proposed(sizes: Sequence[int], epsilon: float, records: int | None = None, way: Way = "best") -> Proposal:
    """Return the proposal for variables with so many categories, which share ε.

    It follows from these numbers alone, with every combination equally likely: it says nothing about the records. Their
    number only decides whether a warning is added.

    >>> proposed([2, 3], 2.0).split, proposed([2, 3, 4, 2, 5, 3], 6.0).split
    (False, True)
    """
    if len(sizes) < 3:  # two are one table: nothing to compare
        return Proposal(way == "split" and len(sizes) == 2, "")
    book = Codebook(tuple(Variable(f"v{k}", "other", tuple(map(str, range(s)))) for k, s in enumerate(sizes)))
    try:
        blocks, split = quick_split(book, book.names, epsilon)
    except PostrandError:  # an epsilon or sizes that a split release cannot have
        return Proposal(way == "split", "")
    best = len(sizes) >= FEWEST and split >= GAIN * blocks
    chosen = best if way == "best" else way == "split"
    return Proposal(
        chosen, "\n".join(fill(part, _WIDTH) for part in _reasons(len(sizes), blocks, split, chosen, records))
    )


def _reasons(many: int, blocks: float, split: float, chosen: bool, records: int | None) -> list[str]:
    worth = (
        f"For tables of two of the {many} variables, 1,000 records are worth {_shown(blocks)} unperturbed ones if each"
    )
    worth += (
        f" variable has its own block with an equal share of epsilon, and {_shown(split)} or more in a split release,"
    )
    parts = [worth + " where each record shows a random subset of the variables with the whole epsilon."]
    if chosen:
        other = "Choose blocks (postrand init --perturb blocks) for analyses of many variables of the same record"
        parts.append(f"{other}, and where single records are read: most values are not released.")
    elif many < FEWEST:
        parts.append("With so few variables, blocks are proposed: every record keeps all of its values.")
    if records is not None and records * max(split if chosen else blocks, 0.0) < FEW:
        parts.append(f"Of this file, that is fewer than {FEW} unperturbed records: raise epsilon, or merge categories.")
    return parts


def _shown(share: float) -> str:
    return f"{1000 * share:.2g}" if share < 0.0995 else f"{1000 * share:,.0f}"
