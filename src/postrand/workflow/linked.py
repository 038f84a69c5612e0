"""What a draft proposes for linked variables: one block for what is one fact, or the role ``drop``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from postrand.plan.numbering import household_among, is_name_of, numbers_persons
from postrand.plan.weighing import looks_carried
from postrand.risk.linked import Column, Link, columns_of, gathered, links
from postrand.risk.sample import Sampled
from postrand.workflow.linked_rules import rules_of, values_of
from postrand.workflow.missing_links import missing_links

MAX_JOINT = 2_000
"""Cells of a joint block that is proposed."""
MAX_DUMMIES = 6
"""Dummies in a joint block; of more, most combinations would be cells that cannot occur."""
_NOT_LOOKED_AT = ("drop", "household", "record_key", "weight")
Draft = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proposed:
    """Hold drafts with roles and notes, the groups of variables for one block each, and everything in sentences.

    ``rules`` exclude the combinations that do not occur in such a group. ``links`` are those that were found.
    """

    drafts: tuple[dict[str, Any], ...]
    joint: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    links: tuple[Link, ...] = ()


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
    looked = {d["name"]: None for d in drafts if d["role"] not in _NOT_LOOKED_AT and d["name"] not in carried}
    known = {*sample.table.column_names}
    columns = columns_of(sample, [name for name in looked if name in known], _household(drafts))
    columns = {name: column for name, column in columns.items() if not is_id(column)}
    found = links(columns)
    parent = {link.variables[0]: link.of[0] for link in found if _is_exact(link) and len(link.of) == 1}
    sizes = {d["name"]: len(d.get("categories", ())) + (d["missing"] == "category") for d in drafts}
    facts = {link: {*link.variables, *(_root(n, parent) for n in link.of)} for link in found}
    decided = {link: _action(link, facts[link], {*perturbed}, named, sizes) for link in found}
    dropped = {link.variables[0] for link, action in decided.items() if action == "drop"}
    notes: dict[str, list[str]] = {}
    for link, action in decided.items():
        if action:
            notes.setdefault(link.variables[-1], []).append(_text(action, link, perturbed))
    absent = [(name, text) for name, text in missing_links(columns, drafts, sample, perturbed) if name not in dropped]
    for name, text in absent:
        notes.setdefault(name, []).append(text)
    made = tuple(_with(draft, notes.get(draft["name"], []), draft["name"] in dropped) for draft in drafts)
    groups = [facts[link] for link, action in decided.items() if action == "joint"]
    joint = _merged([{_root(n, parent) if n in dropped else n for n in group} for group in groups], list(sizes))
    joint = [own for own in joint if math.prod(sizes[name] for name in own) <= MAX_JOINT]
    concerns = sorted(found, key=lambda link: not {*link.names} & {*perturbed})  # what matters now is said first
    told = tuple(
        _text(action, link, perturbed)
        for is_exact, action in itertools.product((True, False), ("drop", "joint", "note"))
        for link in gathered(
            [link for link in concerns if (link.is_exact, decided[link]) == (is_exact, action)],
            lambda link: bool({*link.variables} & {*perturbed}),
        )
    )
    told += tuple(text for _, text in absent)
    return Proposed(made, tuple(joint), told, _rules(found, columns, sample, drafts, joint), tuple(found))


def set_aside(drafts: Iterable[Draft]) -> list[str]:
    """Return the columns without a role in which no links are looked for: weights and numbers, by their names.

    Every variable of a household follows from its number, which is released with new numbers, or not at all.
    """
    open_ = {draft["name"]: draft for draft in drafts if not draft["role"]}
    return [name for name, own in open_.items() if looks_carried(own) or numbers_persons(own) or is_name_of(name)]


def _household(drafts: Iterable[Draft]) -> str | None:
    """Return the column that numbers households, by its role or else by its name."""
    roles = {draft["role"]: draft["name"] for draft in drafts}
    return roles.get("household") or household_among(draft["name"] for draft in drafts)


def with_numbers(sample: Sampled, source: Any, drafts: Sequence[Draft]) -> Sampled:
    """Return a sample of a text file with its quantities as numbers, whatever sign is before their decimals."""
    convert = getattr(source, "lossless", None) if getattr(source, "untyped", False) else None
    table = sample.table
    for name in [d["name"] for d in drafts if d["type"] in ("int64", "double") and not d.get("categories")]:
        if convert is None or name not in table.column_names:
            continue
        texts = table.column(name).cast(pa.string()).combine_chunks()
        values = convert(texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts, pa.float64())
        if values is not None:
            table = table.set_column(table.column_names.index(name), name, values)
    return replace(sample, table=table)


def _is_exact(link: Link) -> bool:
    return link.kind in ("function", "recode", "count")


def _action(
    link: Link, names: set[str], perturbed: set[str], named: Collection[str], sizes: Mapping[str, int]
) -> Literal["drop", "joint", "note", ""]:
    """Return what to do with a link, whose one fact is in the variables ``names``; nothing where no harm is done."""
    if _is_exact(link) and link.variables[0] not in named and names - {link.variables[0]} <= perturbed:
        return "drop"
    if names <= perturbed and _is_small(link, [sizes[name] for name in names]):
        return "joint"
    return "note" if link.kind != "dummies" or names & perturbed else ""


def _text(action: str, link: Link, perturbed: Collection[str]) -> str:
    if action == "drop":
        names = link.variables[0] if len(link.variables) == 1 else "they"
        return f"{link.text}: role = 'drop', because {names} would undo the perturbation if released unperturbed"
    if action == "joint":
        return f"{link.text}: one joint fact, to be perturbed jointly"
    if link.kind == "dummies":
        return f"{link.text}: make one variable of them in the file"
    fix = f"role = 'drop' for {_superfluous(link, perturbed)}, or perturb all of them together"
    if not {*link.names} & {*perturbed}:
        return f"{link.text}: if you perturb one of them, set {fix}"
    return f"{link.text}, so one tells the others: {fix}"


def is_id(column: Column) -> bool:
    """Whether a column is whole numbers, all different: a file sorted by something has it follow their order."""
    numbers = column.numbers
    if column.is_date:
        return False
    return column.size == column.codes.size and numbers is not None and bool((numbers == np.rint(numbers)).all())


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


def _superfluous(link: Link, perturbed: Collection[str]) -> str:
    """Return what could be dropped: the derived variable, or what it follows from where that stays unperturbed."""
    beside = [name for name in link.of if name not in perturbed]
    return ", ".join(beside if beside and {*link.variables} & {*perturbed} else link.variables)


def _is_small(link: Link, sizes: Sequence[int]) -> bool:
    return math.prod(sizes) <= MAX_JOINT and (link.kind != "dummies" or len(sizes) <= MAX_DUMMIES)


def _rules(
    found: Sequence[Link],
    columns: Mapping[str, Column],
    sample: Sampled,
    drafts: Sequence[Draft],
    joint: Sequence[Sequence[str]],
) -> tuple[Mapping[str, Any], ...]:
    """Return the rules of the links within joint blocks; none where a part of the file was seen only."""
    inside = {name for own in joint for name in own}
    if not sample.is_whole:
        return ()
    listed = {d["name"]: list(d.get("categories", ())) for d in drafts if d["name"] in inside}
    read = {name: values_of(sample.table.column(name), columns[name], own) for name, own in listed.items()}
    values = {name: own for name, own in read.items() if own is not None}
    return tuple(rule for link in found for rule in rules_of(link, columns, values) if inside.issuperset(rule))


def _root(name: str, parent: Mapping[str, str]) -> str:
    while name in parent:
        name = parent[name]
    return name


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
