"""What a certificate does not cover: the facts of the run that it takes on trust, and the limits of its claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from postrand.codebook import Codebook
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix_classes import classes_of
from postrand.privacy import PrivacyModel, needs_file


@dataclass(frozen=True, slots=True)
class Facts:
    """What the certificate takes from the run, because it cannot be recomputed from the matrices."""

    key_is_private: bool = True
    order_is_shuffled: bool = True
    ids_are_released: bool = False
    households_are_renumbered: bool = False
    key_is_reused: bool = False
    differing_are_settled: bool = False

    def to_dict(self) -> dict[str, bool]:
        """Return plain data for JSON; a key that no other release used, and values as they came, are not mentioned."""
        names = [name for name in self.__slots__ if name not in _RARE or getattr(self, name)]
        return {name: getattr(self, name) for name in names}


_RARE = ("key_is_reused", "differing_are_settled")


class Claimed(Protocol):
    """What is read of a claim: the variables that it covers, and its model."""

    @property
    def privacy(self) -> PrivacyModel:
        """The privacy model."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the claim covers."""


def limits(mechanism: Mechanism, facts: Facts, claims: Sequence[Claimed]) -> Iterable[dict[str, Any]]:
    """Yield what the guarantee does not cover, as codes with their values, most serious first."""
    claimed = {name for claim in claims for name in claim.variables}
    if not facts.key_is_private:
        yield {"code": "not_private"}
    yield {"code": "covers", "variables": [name for name in mechanism.variables if name in claimed]}
    yield from _naming("unclaimed", [name for name in mechanism.variables if name not in claimed])
    ranked = [column.variable for column in mechanism.numerical]
    if mechanism.codebook is not None:
        yield from _class_limits(mechanism)
        yield from _released_limits(mechanism.codebook, (*mechanism.variables, *ranked), facts)
    yield from _naming("no_epsilon", ranked)
    yield from (column.limit for column in mechanism.numerical)
    codes = dict.fromkeys(claim.privacy.not_covered for claim in claims if needs_file(claim.privacy))
    yield from ({"code": code} for code in codes)
    yield from _provenance_limits(mechanism)
    if not facts.order_is_shuffled:
        yield {"code": "original_order"}
    if facts.ids_are_released:
        yield {"code": "ids"}
    yield from _unit_limits(mechanism, facts)


def _unit_limits(mechanism: Mechanism, facts: Facts) -> Iterable[dict[str, Any]]:
    """Yield what stays uncovered of persons and households, and what the draws they share mean for analysts."""
    if mechanism.units is None:
        yield {"code": "persons"}
        return
    yield {"code": "presence"}
    units = mechanism.units.columns
    unbounded = [unit for unit in ("person", "household") if unit not in units]
    unbounded += ["household"] * mechanism.units.are_persons  # of several persons nothing is bounded
    yield from ({"code": f"several_{unit}"} for unit in unbounded)
    for unit, names in mechanism.shared.items():
        yield _named(f"shared_{unit}", names)
        if facts.differing_are_settled:
            blocks = [block for block in mechanism.blocks if block.unit == unit and block.one is None]
            read = dict.fromkeys(name for block in blocks for name in block.variables)
            yield from _naming(f"settled_{unit}", [*read])
    if mechanism.split is not None and mechanism.split.of_members:
        yield _named("one_member", mechanism.partly)


def _named(code: str, names: Sequence[str]) -> dict[str, Any]:
    return {"code": code, "variables": list(names)}


def _naming(code: str, names: list[str]) -> Iterable[dict[str, Any]]:
    return [_named(code, names)] if names else []


def _released_limits(book: Codebook, treated: Sequence[str], facts: Facts) -> Iterable[dict[str, Any]]:
    """Yield the variables that are released unchanged, with new numbers, or with their missing values."""
    released = book.with_role("key", "sensitive", "other", "weight", "household")
    fresh = [v.name for v in released if v.role == "household" and facts.households_are_renumbered]
    yield from _naming("unchanged", [v.name for v in released if v.name not in (*treated, *fresh)])
    yield from _naming("fresh_numbers", fresh)
    yield from _naming("missing_shown", [v.name for v in released if v.missing == "keep" and v.name in treated])


def _provenance_limits(mechanism: Mechanism) -> Iterable[dict[str, Any]]:
    recodes = () if mechanism.codebook is None else mechanism.codebook.recodes
    yield from _naming("confidential_recodes", [recode.variable for recode in recodes if recode.is_confidential])

    def of(code: str, chosen: Iterable[tuple[str, ...]]) -> Iterable[dict[str, Any]]:
        blocks = [list(names) for names in chosen]
        return [{"code": code, "blocks": blocks}] if blocks else []

    designs = mechanism.designs
    for origin in ("confidential", "unstated"):
        yield from of(f"{origin}_matrix", [names for names, b in designs if b.provenance == origin])
    for origin in ("dp", "confidential", "unstated"):
        yield from of(f"{origin}_budget", [names for names, b in designs if b.budget == origin])
    unstated = [names for names, b in designs if b.provenance == "dp" and not b.prior_epsilon]
    yield from of("unstated_spending", unstated)


def _class_limits(mechanism: Mechanism) -> Iterable[dict[str, Any]]:
    """Yield the restrictions of the guarantee: to feasible combinations, and to values that are exchanged at all."""
    book = mechanism.require_codebook()
    for block in mechanism.every_block:
        about = {"block": list(block.variables)}
        size, whole = block.matrix.size, math.prod(book[name].size for name in block.variables)
        if size < whole:
            yield {"code": "feasible", **about, "cells": size, "combinations": whole}
        labels = classes_of(block.matrix)
        if not labels.any():
            continue
        if block.given:
            yield {"code": "strata", **about, "given": list(block.given)}
        counts = np.bincount(labels)
        members = _members(block, labels, book)
        listed = {"members": members} if members else {}
        yield {"code": "listed_classes" if members else "classes", **about, "classes": int(counts.size), **listed}
        if alone := int((counts == 1).sum()):
            yield {"code": "unchanged_values", **about, "values": alone, "cells": size}
            if block.provenance == "confidential" and not block.given and not _tied_by_rules(block, book):
                yield {"code": "selected_values", **about}


def _tied_by_rules(block: Block, book: Codebook) -> bool:
    """Return whether rules link the block to other variables, which then decide what is exchanged."""
    names = set(block.variables)
    return any(not names.isdisjoint(rule.variables) and not names.issuperset(rule.variables) for rule in book.rules)


def _members(block: Block, labels: Any, book: Codebook) -> list[list[str]]:
    """Return the labels of each class if the block has one variable and few classes, else an empty list."""
    if len(block.variables) > 1 or labels.max() >= 12:
        return []
    codes = block.cell_table((block.matrix.size,))[:, 0]
    texts = np.array(book[block.variables[0]].code_labels, dtype=object)[codes]
    return [list(texts[labels == c]) for c in range(labels.max() + 1)]
