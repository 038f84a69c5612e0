"""What a draft leaves to the curator: columns that would leave unperturbed although they say much about a record."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from postrand.codebook.no_answer import counted
from postrand.codebook.variable import RELEASED_ROLES
from postrand.errors import UsageError, raise_all
from postrand.plan import free_texts, infer, numbering, weighing
from postrand.ranks.laws import USUAL
from postrand.risk.finding import KEYS, KEYS_FIX
from postrand.risk.findings import settling, share_text
from postrand.risk.linked import NEAR, Link
from postrand.risk.linked_apart import torn_apart
from postrand.risk.reveals import PairReveal
from postrand.risk.sample import Sampled
from postrand.risk.singled import MAX_ALONE
from postrand.risk.size_told import is_told
from postrand.risk.telling import best_guess
from postrand.support.showing import capital
from postrand.workflow.advice_refusals import unperturbable

AS_IS_NOTE = f"""\
Each of these unperturbed columns alone singles out more than 1% of the records. Nothing is released until you decide
for each column: add it to as_is to release it as it is, or protect its values in [[numerical]], or set role = "drop"
in the codebook, or make it bands there ([[recodes]]) and perturb these; where only the ends of a number single out,
top coding and bottom coding there may be enough. In [[numerical]], k or width = {USUAL}: values hardly move among
fewer. No mean by weights is left of such a column; bands whose labels are numbers keep one.
"""
SETTLES_NOTE = """\
These unperturbed columns all but settle true values of perturbed ones. Nothing is released until you decide for each:
set role = "drop" in the codebook, perturb it too, or add it to as_is to release it as it is.
"""
KEYS_NOTE = fill(f"{capital(KEYS)}. Nothing is released until you decide: {KEYS_FIX} as_is.", 118)
TEXTS_NOTE = """\
Each of these unperturbed columns holds free text or remarks, which can name persons. Nothing is released until you
decide for each: set role = "drop" in the codebook, or add it to as_is to release it as it is.
"""
SINGLES_OUT, ADD_IT = "unperturbed, it singles out", "it in [[numerical]]"
"""The beginnings of the two lines of a note on a column, which a recode makes untrue."""
DECIDE = "set role = 'drop', perturb it too, or add it to [release] as_is in the plan"
KNOWN_BY_SIZE = "not perturbed"
"""The beginning of a note on what the sizes of households tell."""
DISTINCT = "all values are different: role = 'record_key' if they identify records, otherwise perhaps 'drop'"
"""The note on a column that seems to number persons, and has another value in each record."""
PERTURBED_TOO = "perturbed besides the keys; figures of risk do not count it as known"
"""The note on a column that is not a key, and perturbed because somebody asked for it."""
Settles = Mapping[tuple[str, ...], tuple[PairReveal, ...]]
"""Unperturbed columns, alone or two together, with each perturbed variable that they all but settle."""


def with_perturbed(drafts: Iterable[dict[str, Any]], names: Collection[str]) -> list[dict[str, Any]]:
    """Return drafts with a note on columns to perturb besides the keys; raises UsageError if one cannot be."""
    held = {d["name"]: d for d in drafts}
    raise_all(UsageError, unperturbable(names, {n: (d["role"], infer.perturbs(d)) for n, d in held.items()}))
    for name in (name for name in names if held[name]["role"] != "key"):
        missing = "category" if held[name]["missing"] == "keep" else held[name]["missing"]
        held[name] = {**held[name], "missing": missing, "notes": [*held[name]["notes"], PERTURBED_TOO]}
    return [*held.values()]


def is_exchanged(draft: Mapping[str, Any]) -> bool:
    """Return whether a draft has values to exchange, and is a key or to be perturbed besides the keys."""
    return infer.perturbs(draft) and (draft["role"] == "key" or PERTURBED_TOO in draft["notes"])


def perturbed_of(drafts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the variables that a plan perturbs: the keys, or without any, those without a role."""
    categorical = [d for d in drafts if infer.perturbs(d)]
    found = [d["name"] for d in categorical if is_exchanged(d) and not is_known_by_size(d)]
    return found or [d["name"] for d in categorical if not (d["role"] or seems_none(d))]


def decision_notes(
    undecided: Mapping[str, float], settles: Settles, drafts: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """Return the comments of a plan on what it must decide, none where there is nothing.

    ``undecided`` maps columns to the shares of the records that they single out, ``settles`` columns to what follows.
    Of ``drafts``, columns of free text are released where somebody gave them a role by their own name.
    """
    texts = [name for name, role in texts_of(drafts).items() if role in ("sensitive", "other")]
    listed = [f"{name} ({share_text(share)})" for name, share in undecided.items()]
    certain = [f"{' with '.join(names)} ({_about(pairs)})" for names, pairs in settles.items()]
    keys = keys_as_they_are(drafts, {*undecided, *(name for names in settles for name in names)})
    parts = ((AS_IS_NOTE, listed), (SETTLES_NOTE, certain), (KEYS_NOTE, keys), (TEXTS_NOTE, texts))
    return [
        line for note, held in parts if held for line in (*note.strip().splitlines(), f"To decide: {', '.join(held)}.")
    ]


def keys_as_they_are(drafts: Sequence[Mapping[str, Any]], told: Collection[str]) -> list[str]:
    """Return the keys without categories, which leave unperturbed, but those that are ``told`` for another reason.

    >>> keys_as_they_are([{"name": "born", "role": "key"}, {"name": "sex", "role": "key", "categories": ["F"]}], ())
    ['born']
    """
    keys = [draft for draft in drafts if draft["role"] == "key" and not draft.get("categories")]
    return [d["name"] for d in keys if d["name"] not in told and infer.ALL_MISSING not in d.get("notes", ())]


def singled_alone(sample: Sampled, left: Sequence[str]) -> dict[str, float]:
    """Return, for each unperturbed column that singles out many records alone, the share of these records."""
    shares = {name: sample.share_alone(name) for name in left}
    return {name: share for name, share in shares.items() if share > MAX_ALONE}


def settled_by(
    sample: Sampled, drafts: Sequence[Mapping[str, Any]], perturbed: Sequence[str], links: Sequence[Link] = ()
) -> dict[tuple[str, ...], tuple[PairReveal, ...]]:
    """Return the columns that would leave unperturbed and all but settle perturbed variables, and what they say.

    Columns that have no role yet count too, unless they seem to be weights or numbers of persons or households. Of the
    ``links`` of the file, those count that a release refuses, whatever few records each value has.
    """
    clear = [d["name"] for d in drafts if _may_leave(d) and d["name"] not in perturbed]
    known = {*sample.table.column_names}
    held = [name for name in clear if name in known]
    found = settling(sample, [d["name"] for d in drafts if d.get("categories")], perturbed, held)
    return found | _linked(sample, links, perturbed, held, found)


def settled_by_size(pairs: Sequence[PairReveal], number: str | None, perturbed: Collection[str]) -> Settles:
    """Return what household numbers all but settle of the variables that are ``perturbed``, by the sizes they show."""
    held = tuple(pair for pair in pairs if pair.is_certain and pair.perturbed in perturbed)
    return {(str(number),): held} if held else {}


def known_by_size(draft: dict[str, Any], pairs: Sequence[PairReveal]) -> dict[str, Any]:
    """Return a draft with a note where sizes of households tell its column: to perturb it would hide nothing."""
    found = [pair for pair in pairs if pair.perturbed == draft["name"] and is_told(pair)]
    notes = [f"{KNOWN_BY_SIZE}: {pair.clear} tells it, and figures of risk count it as known" for pair in found]
    return {**draft, "notes": [*draft["notes"], *notes]} if found else draft


def size_lines(pairs: Sequence[PairReveal]) -> list[str]:
    """Return a sentence for each variable that is not perturbed because the sizes of households tell it."""
    known = "so that it is not perturbed, and figures of risk count it as known"
    return [f"{one.clear}, which a release shows, tells {one.perturbed}, {known}" for one in pairs if is_told(one)]


def is_known_by_size(draft: Mapping[str, Any]) -> bool:
    """Return whether a draft has the note of :func:`known_by_size`."""
    return any(note.startswith(KNOWN_BY_SIZE) for note in draft["notes"])


def _linked(
    sample: Sampled, links: Sequence[Link], perturbed: Sequence[str], clear: Sequence[str], known: Settles
) -> dict[tuple[str, ...], tuple[PairReveal, ...]]:
    """Return what unperturbed columns settle as a function says it, beside what is ``known`` already."""
    told = {(pair.perturbed, name) for names, pairs in known.items() for pair in pairs for name in names}
    found: dict[tuple[str, ...], tuple[PairReveal, ...]] = {}
    for one in torn_apart(links, dict.fromkeys(perturbed, "block"), clear, told, told):
        if one.is_certain and one.clear:
            right = 1.0 if one.is_exact else NEAR
            new = [name for name in one.about if not all((name, other) in told for other in one.clear)]
            blind = [float(np.bincount(sample.codes(name)[0]).max() / sample.table.num_rows) for name in new]
            by = ", ".join(one.clear)
            pairs = [PairReveal(n, by, 1.0, right, 1.0, right, share) for n, share in zip(new, blind, strict=True)]
            found[one.clear] = (*known.get(one.clear, ()), *found.get(one.clear, ()), *pairs)
    return found


def _may_leave(draft: Mapping[str, Any]) -> bool:
    role = draft["role"]
    if role in ("household", "record_key"):  # released with new numbers, or not at all
        return False
    return role in RELEASED_ROLES or not (role or seems_none(draft))


def seems_none(draft: Mapping[str, Any]) -> bool:
    """Return whether a column seems to be a weight, to number or name persons, or to hold free text: no value."""
    return weighing.looks_carried(draft) or numbering.numbers_persons(draft) or free_texts.NOTE in draft["notes"]


def _meant(draft: Mapping[str, Any]) -> str:
    """Return the values that look like codes for no answer, which a note on a released column names; "" without any.

    Codes beside the numbers of a scale are told by :func:`postrand.workflow.swallowed.unlisted`.
    """
    if counted(draft.get("categories", ()), draft.get("labels", ()), draft.get("missing_codes", ())):
        return ""
    notes = (note for note in draft["notes"] if note.startswith(infer.MEANT))
    note = next(notes, "") if draft["role"] in RELEASED_ROLES or not draft["role"] else ""
    return ", ".join(map(str, json.loads(note.partition(" = ")[2]))) if note else ""


def texts_of(drafts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns that hold free text, with their roles."""
    return {draft["name"]: draft["role"] for draft in drafts if free_texts.NOTE in draft["notes"]}


def with_settled(draft: dict[str, Any], settles: Settles) -> dict[str, Any]:
    """Return a draft with a note on each perturbed variable that its column all but settles, alone or with another."""
    own = {names: pairs for names, pairs in settles.items() if draft["name"] in names}
    notes = [
        f"{'unperturbed, it' if len(names) == 1 else f'{names[0]} and {names[1]}, unperturbed,'} all but "
        f"{'settles' if len(names) == 1 else 'settle'} {_about(pairs)}, which is perturbed: {DECIDE}"
        for names, pairs in own.items()
    ]
    return {**draft, "notes": [*draft["notes"], *notes]} if notes else draft


def settled_lines(settles: Settles) -> list[str]:
    """Return, for each perturbed variable, how far the best of the columns that all but settle it goes, in words."""
    held: dict[str, list[PairReveal]] = {}
    for pair in (pair for pairs in settles.values() for pair in pairs):
        held.setdefault(pair.perturbed, []).append(pair)
    return [f"{name}: {best_guess(pairs)}" for name, pairs in held.items()]


def _about(pairs: Sequence[PairReveal]) -> str:
    return ", ".join(pair.perturbed for pair in pairs)


def left_open(draft: dict[str, Any], singling: Mapping[str, float], named: Collection[str]) -> dict[str, Any]:
    """Return a draft with a note about the records that it singles out, and without a role unless its name was listed.

    Dates, times and free text do not get the role for all others either, whatever they single out: others know many
    dates. Nor do numbers of persons and households, which point to a record in any other file that has them. Lists and
    records do not get the role for all others: they are dropped.
    """
    if (
        draft["type"].startswith(("list", "large_list", "struct", "map", "fixed_size_list"))
        and draft["name"] not in named
    ):
        return {**draft, "role": "drop"}
    if draft["name"] not in named and draft["role"] != "drop" and numbering.numbers_persons(draft):
        note = DISTINCT if is_distinct(draft, singling) else numbering.number_note(*numbering.described(draft))
        more = [] if any(text.startswith(infer.NUMBERED) for text in draft["notes"]) and note == DISTINCT else [note]
        draft = {**draft, "role": "", "notes": [*draft["notes"], *more]}
    if draft["name"] not in named and free_texts.NOTE in draft["notes"]:
        draft = {**draft, "role": ""}
    share = singling.get(draft["name"])
    if share is None:
        dates = infer.DATES in draft["notes"] and draft["role"] != "drop" and draft["name"] not in named
        return {**draft, "role": ""} if dates else draft
    note = f"{SINGLES_OUT} {share_text(share)} of the records: set role = 'drop', or in the plan protect"
    notes = [*draft["notes"], note, f"{ADD_IT}, or add it to [release] as_is to release it as it is"]
    return {**draft, "role": draft["role"] if draft["name"] in named else "", "notes": notes}


def is_distinct(draft: Mapping[str, Any], singling: Mapping[str, float]) -> bool:
    """Return whether numbers of persons are all different in the records that were looked at: they number records.

    Not of a column with the name of a household number: all households can have one record. ``singling`` maps columns
    to the share of the records that each singles out.
    """
    is_number = numbering.number_note(*numbering.described(draft)) == numbering.NUMBERS
    return is_number and singling.get(draft["name"]) == 1.0


def noted(
    drafts: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[str]], singling: Mapping[str, float]
) -> dict[str, Any]:
    """Return what the notes of drafts say that a person is told at once: arguments of :class:`.Started`.

    ``groups``: what :func:`.repeated` found; ``singling``: what :func:`singled_alone` did.
    """
    return {
        "numbers": tuple(d["name"] for d in drafts if not d["role"] and numbering.numbers_persons(d)),
        "distinct": tuple(d["name"] for d in drafts if not d["role"] and is_distinct(d, singling)),
        "groups": {name: tuple(same) for name, same in groups.items()},
        "bodies": {d["name"]: d["role"] for d in drafts if {weighing.BODY, weighing.GIVEN} & {*d["notes"]}},
        "silent": tuple(f"{d['name']} ({meant})" for d in drafts if (meant := _meant(d))),
        "repeating": tuple(d["name"] for d in drafts if infer.REPEATED in d["notes"]),
        "texts": texts_of(drafts),
    }
