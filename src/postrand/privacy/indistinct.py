"""When shuffling hides a record among all others: nothing that is released may tell the records apart.

Each condition that fails is an entry of a code and its values, as certificates hold them; its words are in
:mod:`postrand.support.wordings`, ``file.``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix_classes import classes_of

RELEASED = ("key", "sensitive", "other", "weight", "household")
"""Roles of variables that leave."""

_CLEAR = {"weight": "weight", "household": "household"}


def distinguishing(mechanism: Mechanism, facts: Any) -> Iterator[dict[str, Any]]:
    """Yield what the release shows of a record beside its perturbed values: order, ids, columns, missing values."""
    if not facts.order_is_shuffled:
        yield {"code": "order"}
    if facts.ids_are_released:
        yield {"code": "ids"}
    yield from _naming("ranks", [column.variable for column in mechanism.numerical])
    if mechanism.codebook is None:
        yield {"code": "no_codebook"}
        return
    ranked = {column.variable for column in mechanism.numerical}
    released = [v for v in mechanism.codebook.with_role(*RELEASED) if v.name not in ranked]
    clear = [v for v in released if v.name not in mechanism.variables]
    for code in ("clear", "weight", "household"):
        yield from _naming(code, [v.name for v in clear if _CLEAR.get(v.role, "clear") == code])
    yield from _naming("missing", [v.name for v in released if v.missing == "keep" and v.name not in map(_name, clear)])


def dependent(mechanism: Mechanism, facts: Any, models: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield where the law of a record depends on the records, or is known to others, or hides nothing.

    ``models`` are the privacy models that the certificate claims: some state what they read from the file.
    """
    if not facts.key_is_private:
        yield {"code": "seed"}
    if facts.key_is_reused:
        yield {"code": "reused_key"}
    for unit, names in mechanism.shared.items():
        yield from _naming(f"shared_{unit}", names)
    if mechanism.split is not None and mechanism.split.of_members:
        yield from _naming("one_member", mechanism.partly)
    blocks = mechanism.every_block
    classes = {b: classes_of(block.matrix) for b, block in enumerate(blocks) if block.matrix.ratio is None}
    yield from _blocks("strata", [block.variables for block in blocks if block.given])
    rest = [(blocks[b], labels) for b, labels in classes.items() if not blocks[b].given]
    selected = [block for block, labels in rest if block.provenance == "confidential" and _alone(labels)]
    yield from _blocks("selected", [block.variables for block in selected])
    yield from _blocks("no_epsilon", [block.variables for block, _ in rest if block not in selected])
    designs = mechanism.designs
    for origin in ("confidential", "unstated"):
        of = [names for names, block in designs if origin in (block.provenance, block.budget)]
        yield from _blocks(f"{origin}_prior", of)
    unstated = [names for names, block in designs if block.provenance == "dp" and not block.prior_epsilon]
    yield from _blocks("unstated_spending", unstated)
    recodes = () if mechanism.codebook is None else mechanism.codebook.recodes
    yield from _naming("confidential_recodes", [recode.variable for recode in recodes if recode.is_confidential])
    if any(getattr(model, "needs_file", False) for model in models):
        yield {"code": "file_claims"}


def one_of_each(mechanism: Mechanism) -> tuple[Block, ...]:
    """Return the blocks, and one of a split: one design made its subsets, from one prior."""
    return mechanism.every_block[: len(mechanism.blocks) + 1]


def _name(variable: Any) -> str:
    return str(variable.name)


def _alone(labels: Any) -> bool:
    return bool((np.bincount(labels) == 1).any())


def _naming(code: str, names: Sequence[str]) -> Iterable[dict[str, Any]]:
    return [{"code": code, "variables": list(names)}] if names else []


def _blocks(code: str, blocks: Sequence[tuple[str, ...]]) -> Iterable[dict[str, Any]]:
    return [{"code": code, "blocks": [list(names) for names in blocks]}] if blocks else []
