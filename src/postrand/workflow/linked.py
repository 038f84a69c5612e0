"""What a draft proposes for linked variables: one block for what is one fact, or the role ``drop``."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from postrand.risk.linked import columns_of, links
from postrand.risk.sample import Sampled

MAX_JOINT = 2_000
"""Cells of a joint block that is proposed."""
_NOT_LOOKED_AT = ("drop", "household", "record_key", "weight")
Draft = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proposed:
    """Hold drafts with roles and notes, the groups of variables for one block each, and everything in sentences."""

    drafts: tuple[dict[str, Any], ...]
    joint: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()


def proposed(
    sample: Sampled,
    drafts: Sequence[Draft],
    perturbed: Collection[str],
    named: Collection[str],
    carried: Collection[str],
) -> Proposed:
    """Propose what to do with each link between the columns of a file.

    ``perturbed`` are those that the plan would perturb, ``named`` those whose role somebody chose: they keep it.
    ``carried`` are not looked at: weights, for example. A function of a perturbed variable gets the role ``drop``. What
    has to stay is one joint fact, and gets one block. Of other links a note tells.
    """
    looked = [d["name"] for d in drafts if d["role"] not in _NOT_LOOKED_AT and d["name"] not in carried]
    found = links(columns_of(sample, [name for name in looked if name in sample.table.column_names]))
    parent = {link.variables[0]: link.of[0] for link in found if link.kind in ("function", "recode")}
    sizes = {d["name"]: len(d.get("categories", ())) + (d["missing"] == "category") for d in drafts}
    dropped: set[str] = set()
    groups: list[set[str]] = []
    notes: dict[str, list[str]] = {}
    for link in found:
        last, names = link.variables[-1], set(link.names)
        if link.kind in ("function", "recode"):
            names = {last, _root(last, parent)}
        if last in parent and last not in named and names - {last} <= set(perturbed):
            dropped.add(last)
            notes.setdefault(last, []).append(f"{link.text}: it tells nothing more, and would undo the perturbation")
        elif names <= set(perturbed) and math.prod(sizes[name] for name in names) <= MAX_JOINT:
            groups.append(names)
            notes.setdefault(last, []).append(f"{link.text}: one joint fact, one block in the plan")
        elif link.kind != "dummies" or names & set(perturbed):
            fix = f"role = 'drop' for {last}, or perturb all of them together"
            notes.setdefault(last, []).append(f"{link.text}, so one tells the others: {fix}")
    made = tuple(_with(draft, notes.get(draft["name"], []), draft["name"] in dropped) for draft in drafts)
    joint = _merged([{_kept(name, dropped, parent) for name in group} for group in groups], list(sizes))
    text = tuple(f"{n}: role = 'drop'; {t}" if n in dropped else t for n, own in notes.items() for t in own)
    return Proposed(made, tuple(own for own in joint if math.prod(sizes[n] for n in own) <= MAX_JOINT), text)


def parts_of(names: Sequence[str], joint: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the variables of each block, in the order of their first one.

    >>> parts_of(["a", "b", "c"], [("c", "a")])
    [['a', 'c'], ['b']]
    """
    parts = {name: [other for other in names if other in own] for own in joint for name in own}
    return [parts.get(name, [name]) for name in names if parts.get(name, [name])[0] == name]


def joint_note(joint: Sequence[Sequence[str]]) -> str:
    """Return the sentence of a plan on its joint blocks; empty where there are none."""
    listed = "; ".join(", ".join(own) for own in joint)
    return f"\nOne joint fact, one block: {listed}. Separate blocks would spend epsilon on it again." if listed else ""


def _root(name: str, parent: Mapping[str, str]) -> str:
    while name in parent:
        name = parent[name]
    return name


def _kept(name: str, dropped: Collection[str], parent: Mapping[str, str]) -> str:
    return _root(name, parent) if name in dropped else name


def _with(draft: Draft, notes: Sequence[str], is_dropped: bool) -> dict[str, Any]:
    if not notes:
        return dict(draft)
    return {**draft, "role": "drop" if is_dropped else draft["role"], "notes": [*draft["notes"], *notes]}


def _merged(groups: Sequence[set[str]], order: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups that share no variable, those that do as one; a group of one is none."""
    found: list[set[str]] = []
    for group in groups:
        near = [own for own in found if own & group]
        found = [own for own in found if not own & group] + [group.union(*near)]
    return [tuple(name for name in order if name in own) for own in found if len(own) > 1]
