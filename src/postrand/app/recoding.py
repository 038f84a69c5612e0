"""Recodes in the workbench: what a column holds, the decisions with another recode, and what it changes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.app import computations, documents, recode_form
from postrand.app.decisions import Decisions
from postrand.app.entries import texts_of
from postrand.engines.database import open_records
from postrand.errors import UsageError, sentence
from postrand.plan import infer
from postrand.recoding.base import key_of
from postrand.workflow.recode_trial import Trial, trial_of
from postrand.workflow.recodes import counted, prepared, reopened

PREFIX = "recode."
"""How the texts of the form begin among all that is typed."""


@dataclass(frozen=True, slots=True)
class Column:
    """Hold the values of a column of the file in their order, a text for each, and how many records have each."""

    values: tuple[Any, ...]
    labels: tuple[str, ...]
    records: tuple[int, ...]


def recode_of(decisions: Decisions, name: str) -> Mapping[str, Any] | None:
    """Return the recode that makes a variable, as plain data; None if it is as in the file."""
    return next((one for one in decisions.kept.get("recodes", ()) if one["variable"] == name), None)


def column_of(decisions: Decisions, at: int) -> Column:
    """Return what the file holds in a column, before any recode."""
    assert decisions.opened is not None
    draft, entry = decisions.opened.drafts[at], recode_of(decisions, decisions.names[at])
    name = (entry or {}).get("from", decisions.names[at])
    source = open_records(decisions.opened.path)
    counts = counted(source, [name])[name]
    held = {key_of(value): value for value in counts}
    listed = [] if entry else [key_of(value) for value in draft.get("categories", ())]
    told = (source.schema.field(name).metadata or {}).get(b"value_labels", b"{}")
    texts = dict(zip(listed, texts_of(draft), strict=True)) if listed else json.loads(told)
    order = [*(one for one in listed if one in held), *sorted((one for one in held if one not in listed), key=_number)]
    values = tuple(held[one] for one in order)
    return Column(values, tuple(texts.get(one, one) for one in order), tuple(counts[value] for value in values))


def entry_for(decisions: Decisions, at: int, column: Column) -> dict[str, Any] | None:
    """Return the recode that the form of a column says, None for none; raises SpecificationError with its problems."""
    name, texts = decisions.names[at], typed(decisions)
    before = recode_of(decisions, name)
    kind = texts.get("kind", recode_form.kind_of(before))
    if kind not in recode_form.KINDS:
        raise UsageError(sentence("this recode is kept as the opened plan has it", where=name, fix="choose another"))
    shown = recode_form.boxes_of(before, column.values, column.labels)
    return recode_form.entry_of(name, kind, {**shown, **texts}, column.values)


def typed(decisions: Decisions) -> dict[str, str]:
    """Return what is typed in the form of the recode."""
    return {k.removeprefix(PREFIX): v for k, v in decisions.texts.items() if k.startswith(PREFIX)}


def with_recode(decisions: Decisions, at: int, entry: Mapping[str, Any] | None) -> Decisions:
    """Return the decisions with a recode of one column; its entry is drafted anew, with role and label as they were.

    Raises
    ------
    PostrandError
        If the recode is not well formed, the file does not fit it, or rules of the codebook name what it removes.
    """
    assert decisions.opened is not None
    opened, name, before = decisions.opened, decisions.names[at], recode_of(decisions, decisions.names[at])
    if before is not None and before.get("from", name) != name:
        fix = "edit it in codebook.toml"
        raise UsageError(sentence(f"{name!r} is made from the column {before['from']!r}", fix=fix))
    others = [dict(one) for one in decisions.kept.get("recodes", ()) if one["variable"] != name]
    seen = {"provenance": "confidential"}  # counts of the file are on the screen
    asked = [*others, *([] if entry is None else [seen | dict(entry)])]
    plain = open_records(opened.path)
    made = prepared(asked, Path(), plain, "the variable editor")
    source = made.of(reopened(opened.path, made, plain))
    roles = {n: role for n, role in zip(opened.names, decisions.roles, strict=True) if role}
    drafts = {one["name"]: one for one in made.drafted(infer.infer(source, roles=roles))}
    label = {"label": opened.drafts[at]["label"]} if opened.drafts[at].get("label") else {}
    if entry is not None and len(drafts[name].get("categories", ("a", "b"))) < 2:
        fix = "make two groups or more, or choose the role drop"
        raise UsageError(sentence(f"only one category of {name!r} would be left, which tells nothing", fix=fix))
    fresh = {**drafts[name], "role": "", **label}
    changed = dataclasses.replace(opened, drafts=(*opened.drafts[:at], fresh, *opened.drafts[at + 1 :]))
    entries = [one for one in made.entries] if asked else []
    after = dataclasses.replace(decisions, opened=changed, kept={**decisions.kept, "recodes": entries}, problem="")
    documents.codebook_of(after)  # refuses what the rules of an opened plan do not fit
    return after


def without_recodes(decisions: Decisions) -> Decisions | None:
    """Return the decisions with every column as it came; None where its keys then have no categories to count.

    Raises
    ------
    PostrandError
        If a variable is made from another column, or a rule of the codebook needs a recode.
    """
    after = decisions
    for one in decisions.kept.get("recodes", ()):
        after = with_recode(after, decisions.names.index(one["variable"]), None)
    return after if after.keys == decisions.keys else None


@dataclass(frozen=True, slots=True)
class Effect:
    """Hold what a recode changes: the categories and their records, and the sample uniques of the keys.

    ``uniques`` are those before and after. Before is None where the variable had no categories: no measure counted it.
    """

    trial: Trial | None
    uniques: tuple[int | None, int] | None


def effect(decisions: Decisions, at: int) -> Effect:
    """Return what the recode in the form changes against the decisions as they are; raises as :func:`with_recode`."""
    assert decisions.opened is not None
    after = used(decisions, at)
    name = decisions.names[at]
    recode = next((r for r in documents.codebook_of(after).recodes if r.variable == name), None)
    trial = None
    if recode is not None:
        plain = open_records(decisions.opened.path)
        made = prepared(after.kept["recodes"], Path(), plain, "the variable editor")
        trial = trial_of(reopened(decisions.opened.path, made, plain), recode)
    sides = [computations.assess(one, with_model=False) for one in (decisions, after)]
    before, now = (None if one is None else one.sample_uniques for one in sides)
    before = before if decisions.keys == after.keys else None
    return Effect(trial, None if now is None else (before, now))


def used(decisions: Decisions, at: int) -> Decisions:
    """Return the decisions with the recode that the form of a column says; raises as :func:`with_recode`."""
    after = with_recode(decisions, at, entry_for(decisions, at, column_of(decisions, at)))
    return dataclasses.replace(
        after, texts={name: text for name, text in decisions.texts.items() if not name.startswith(PREFIX)}
    )


def _number(text: str) -> tuple[bool, float, str]:
    try:
        return (False, float(text), text)
    except ValueError:
        return (True, 0.0, text)


def rules_on(decisions: Decisions, name: str) -> Sequence[str]:
    """Return the rules of the codebook on a variable, in words."""
    found = [one for one in decisions.kept.get("rules", ()) if name in one]
    return [" and ".join(f"{n} is {_listed(held)}" for n, held in one.items()) for one in found]


def _listed(held: Any) -> str:
    many = held if isinstance(held, (list, tuple)) else [held]
    return " or ".join(key_of(one) for one in many[:6]) + (" …" if len(many) > 6 else "")
