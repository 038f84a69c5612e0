"""Recodes tried on a file without a release: how many categories there are before and after, and how rare they are."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.items

from postrand import formats
from postrand.columns.recoded import recoded
from postrand.engines.database import Table, open_records, source_from
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.estimate.nominal import number_of
from postrand.formats import File, Source
from postrand.plan import infer
from postrand.recoding import Recode
from postrand.recoding.base import MADE, key_of, spelt, steps_of
from postrand.recoding.limits import Limits
from postrand.recoding.steps import rules_of, unsettled
from postrand.risk.merged import published, too_few
from postrand.support import saving
from postrand.support.inputs import read_toml
from postrand.support.showing import capital, unshown
from postrand.workflow import draft_decisions
from postrand.workflow.recoded_means import recoded_means
from postrand.workflow.recodes import MAX_SHOWN, NAMED, Prepared, counted, prepared, reopened, unplaced, without_missing
from postrand.workflow.swallowed import swallowed, with_notes

STEPS = (1, 5, 20, 100, 1000)
"""How many records a category has is told by these steps, and never exactly."""
BANDS = 5
"""Bands in which numbers of the file are told."""
_STALE = (
    *(infer.ALIKE, infer.FEW, infer.MANY, infer.UNLISTED, infer.DATES, infer.MEANT, infer.NUMBERED),
    *(draft_decisions.SINGLES_OUT, draft_decisions.ADD_IT),
)
"""The beginnings of notes on the values of a column, which its recode makes untrue."""
_OF_RECODES = ("Recoded from ", "decided by the file's own counts", "recode of ")
"""Those of notes on the recode itself, which are written anew."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold what a recode does to a file; for internal use, because it counts the confidential records.

    ``before`` and ``after`` are the numbers of records of each category, without missing values; text and data show in
    which step of :data:`STEPS` they lie. ``problem`` says why the file cannot be recoded, ``note`` what this file says
    of limits that no value is beyond, of a rule on rare categories that was settled by another, and of codes for no
    answer that count as values.
    """

    recode: Recode
    before: Mapping[str, int]
    after: Mapping[str, int]
    problem: str = ""
    note: str = ""

    @property
    def gone(self) -> int:
        """The number of records with a value whose result is missing."""
        return max(0, sum(self.before.values()) - sum(self.after.values()))

    @property
    def shown(self) -> Mapping[str, int]:
        """The numbers of records of the results; of bands of them where they are numbers of the file, some rare.

        A band has :data:`NAMED` records at least, so that none tells which number a few records have.
        """
        kind = steps_of(self.recode.kind)[-1]
        if kind.reads != "numbers" or kind.categories() or min(self.after.values(), default=NAMED) >= NAMED:
            return self.after
        return banded({float(name): count for name, count in self.after.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"variable": self.recode.variable, "from": self.recode.source, "done": self.recode.in_words()}
        if self.problem:
            return {**about, "problem": self.problem}
        shown = {name: step_of(count) for name, count in self.shown.items()}
        return {
            **about,
            "before": tallied(self.before),
            "after": tallied(self.after),
            "categories": shown,
            "became_missing": step_of(self.gone),
            "note": self.note,
        }

    def __str__(self) -> str:
        head = f"{self.recode.variable}: {self.recode.in_words()}"
        if self.problem:
            return f"{head}\n  {self.problem}"
        sides = (tallied(self.before), tallied(self.after))
        more = unshown(len(self.shown), MAX_SHOWN)
        shown = list(self.shown.items())[: len(self.shown) - more]
        wide = max(22, *(len(name) for name, _ in shown), 0) + 2
        lines = [head, f"  {'number of categories':<{wide}}{'before':>10}{'after':>10}"]
        used = [name for name in sides[0] if sides[0][name] or sides[1][name]]
        lines += [f"  {name:<{wide}}{sides[0][name]:>10,}{sides[1][name]:>10,}" for name in used]
        lines += [f"  {'became missing':<{wide}}{step_of(self.gone)} records"] * (self.gone > 0)
        lines += [f"  {name:<{wide}}{step_of(count)} records" for name, count in shown]
        lines += [f"  and {more:,} more categories"] * bool(more) + [f"  {self.note}"] * bool(self.note)
        return "\n".join(lines)


def step_of(count: int) -> str:
    """Return the step in which a number of records lies.

    >>> [step_of(n) for n in (0, 3, 20, 5000)]
    ['no', '1 to 4', '20 to 99', '1,000 or more']
    """
    if count < STEPS[0]:
        return "no"
    if count >= STEPS[-1]:
        return f"{STEPS[-1]:,} or more"
    return next(f"{low:,} to {high - 1:,}" for low, high in pairwise(STEPS) if count < high)


def banded(counts: Mapping[float, int]) -> dict[str, int]:
    """Return at most ``BANDS`` bands of numbers by their quantiles, each with ``NAMED`` records at least.

    An edge is a number that so many records have, or two digits of one.

    >>> banded({0: 300, 500: 60, 1000: 40, 2500: 4, 90_000: 1})
    {'0': 300, '500 and more': 105}
    >>> banded({500: 3, 90_000: 1})
    {'all values': 4}
    """
    least, edges, held = max(NAMED, sum(counts.values()) / BANDS), list[float](), 0
    for value in sorted(counts):
        if held >= least:
            edges.append(value if counts[value] >= NAMED else float(f"{value:.1e}"))
            held = 0
        held += counts[value]
    while True:
        parts = _parts(counts, edges)
        small = next((place for place, part in enumerate(parts) if sum(part.values()) < NAMED), None)
        if small is None or not edges:
            return {_band(part, edges, place): sum(part.values()) for place, part in enumerate(parts)}
        del edges[max(small - 1, 0)]


def _parts(counts: Mapping[float, int], edges: Sequence[float]) -> list[dict[float, int]]:
    """Return the numbers below the first edge, from each edge to below the next, and from the last one on."""
    ends = [-math.inf, *edges, math.inf]
    return [{value: n for value, n in counts.items() if low <= value < high} for low, high in pairwise(ends)]


def _band(part: Mapping[float, int], edges: Sequence[float], place: int) -> str:
    """Return the name of a band; the number itself where it holds one that many records have."""
    if not edges:
        return "all values"
    if len(part) == 1:
        return spelt(next(iter(part)))
    if place == 0:
        return f"below {spelt(edges[0])}"
    return (
        f"{spelt(edges[-1])} and more"
        if place == len(edges)
        else f"{spelt(edges[place - 1])} to <{spelt(edges[place])}"
    )


def tallied(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of categories, and of those in each step that has some.

    >>> tallied({"a": 3, "b": 50, "c": 2})["1 to 4 records"]
    2
    """
    every = ["no", *(step_of(low) for low in STEPS)]
    found = [step_of(count) for count in counts.values()]
    return {"in all": len(found), **{f"{step} records": found.count(step) for step in every}}


def place_of(plan: Path) -> Path | File | Table:
    """Return the file or table that the ``[source]`` of a plan names; its codebook need not be complete yet.

    Raises
    ------
    SpecificationError
        If it names none, or more than one.
    """
    where, data = f"{plan.name} [source]", read_toml(plan, "the plan").get("source", {})
    data = data if isinstance(data, dict) else {}
    table, problems = source_from(data, plan.parent, where)
    settings, unread = formats.settings_from(data, where)
    file = data.get("file", "")
    if table is None and not problems and not (isinstance(file, str) and file):
        problems = [sentence("'file' is missing", where=where, fix='set file = "..."')]
    raise_all(SpecificationError, [*problems, *unread])
    return table or formats.placed((plan.parent / file).resolve(), settings)


def tried(codebook: Path, place: Path | File | Table) -> tuple[tuple[Trial, ...], Prepared]:
    """Try the recodes of a ``codebook.toml`` on a file; its variables need not fit them yet.

    Returns what each does, and the recodes with what the file tells of them.

    Raises
    ------
    SpecificationError
        If the codebook has no recodes, or they are not well formed.
    DataError
        If the file lacks a column, or a result has the name of another.
    """
    held = read_toml(codebook, "the codebook")
    entries = held.get("recodes", [])
    if "source" in held and "variables" not in held:
        fix = "name the codebook, or give --plan in place of both"
        raise SpecificationError(sentence("this is a plan, and no codebook", where=codebook.name, fix=fix))
    if not entries:
        fix = 'write [[recodes]] with variable = "age" and bands = [0, 15, 30], or see docs/recoding.md'
        raise SpecificationError(sentence("the codebook has no recodes", where=codebook.name, fix=fix))
    source = open_records(place)
    made = prepared(entries, codebook.parent, source, codebook.name)
    before = reopened(place, made, source)
    return tuple(trial_of(before, recode) for recode in made.recodes), made


MARKED = 'counts of the file were shown before; "public" if they chose nothing here'
"""The comment in a codebook on a recode that became confidential by being tried."""


@dataclass(frozen=True, slots=True)
class Written:
    """Hold the results that have no role yet, and those of the recodes that became confidential by being tried.

    ``no_longer_kept``: those that were quantities whose missing values stay missing, and are categories now, of which
    "missing" is one more.
    """

    without_role: tuple[str, ...]
    confidential: tuple[str, ...]
    no_longer_kept: tuple[str, ...] = ()


def write(codebook: Path, place: Path | File | Table, made: Prepared) -> Written:
    """Write what the file tells into a ``codebook.toml``, and describe the results of its recodes; comments stay.

    The rare categories that were found, the types of numbers, and the type and categories of each result are written;
    what is stated of the missing values of a variable with categories stays. Also that a recode is confidential,
    because counts of the file were shown, unless it states its provenance, or the codebook described its numbers as
    they are now before.
    A result without an entry takes that of its column, with its role.

    Raises
    ------
    DataError
        If a value of the file has no place; then the codebook is as it was.
    SpecificationError
        With all that would still be wrong with the codebook, which is then as it was.
    """
    source = made.of(reopened(place, made, open_records(place)))
    text = codebook.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    stated = [
        entry.get("provenance") or _is_described(text, recode)
        for entry, recode in zip(document["recodes"], made.recodes, strict=True)
    ]
    for entry, found, said in zip(document["recodes"], made.entries, stated, strict=True):
        told = {**({} if said else {"provenance": "confidential"}), **found}  # counts of the file were shown
        entry.update({name: value for name, value in told.items() if entry.get(name) != value})
        if not said and "provenance" not in found:
            entry["provenance"].comment(MARKED)
    marks = [str(entry.get("provenance", "")) for entry in document["recodes"]]
    as_written = [replace(recode, provenance=mark) for recode, mark in zip(made.recodes, marks, strict=True)]
    made = replace(made, recodes=tuple(as_written))
    entries: Any = document.setdefault("variables", tomlkit.aot())
    results = {recode.variable: recode for recode in made.recodes}
    told = swallowed(source)
    roles = {str(entry.get("name")): entry.get("role", "") for entry in entries}
    read = [{**draft, "role": roles.get(draft["name"], "")} for draft in infer.infer(source)]
    columns = {draft["name"]: draft.get("label") for draft in read}
    drafts = {draft["name"]: draft for draft in with_notes(made.drafted(read), told)}
    unkept = list[str]()
    for name, recode in results.items():
        entry = next((e for e in entries if e.get("name") == name), None)
        if entry is None:
            entry = next((e for e in entries if e.get("name") == recode.source and recode.source not in results), None)
        if entry is None:
            entry = tomlkit.table()
            entry.update({"name": name, "role": ""})
            entries.append(entry)
        before = entry.get("missing")
        _describe(entry, drafts[name], columns[name])
        unkept += [name] * (before == "keep" and entry["missing"] == "category")
        _rewrite_notes(document, entry, drafts[name]["notes"])
    written = tomlkit.dumps(document)
    infer.codebook_of(tomllib.loads(written), codebook, open_role="other")
    saving.write_whole(codebook, written.encode(), replace=True)
    roles = {e.get("name"): e.get("role") for e in entries}
    entered = zip(made.recodes, made.entries, stated, strict=True)
    marked = tuple(recode.variable for recode, found, said in entered if not said and "provenance" not in found)
    return Written(tuple(name for name in results if not roles.get(name)), marked, tuple(unkept))


def _is_described(text: str, recode: Recode) -> bool:
    """Whether a codebook describes the numbers of a recode as it is: it was written down before counts were shown.

    The words on groups do not say all of them.
    """
    is_told = all(step.reads == "numbers" for step in steps_of(recode.kind))
    return is_told and f"# {recode.in_words()}" in text.splitlines()


def _describe(entry: Any, draft: Mapping[str, Any], label: str | None) -> None:
    """Put what a draft says of a result into its entry; its role is a person's.

    So is a label that is neither the column's in the file, ``label``, nor was made of it.

    So is what is done with missing values, once the entry has categories: a quantity has another choice.
    """
    stated = entry.get("missing") if entry.get("categories") or draft["missing"] == "error" else None
    for name in ("categories", "labels", "missing_codes", "ordered"):
        entry.pop(name, None)
    is_columns = label is not None and entry.get("label") in (label, *(label + made for made in MADE))
    own = ("role", "notes", *["label"] * (not is_columns))
    kept = {name: value for name, value in draft.items() if name not in own}
    entry.update(kept | ({"missing": stated} if stated in ("keep", "category") else {}))


def _rewrite_notes(document: Any, entry: Any, notes: Sequence[str]) -> None:
    """Remove the notes on an entry that a recode makes untrue, and write those on the recode anew where it has some."""
    fresh = "".join(f"# {note}\n" for note in notes if note.startswith(_OF_RECODES))
    for body, places in _commented(document, entry):
        for place in places:
            item = body[place][1]
            text = item.as_string().lstrip(" #") if isinstance(item, tomlkit.items.Comment) else ""
            if text.startswith((*_STALE, *_OF_RECODES)):
                new, fresh = (fresh, "") if text.startswith(_OF_RECODES) else ("", fresh)
                body[place] = (None, tomlkit.items.Whitespace(new))


def _commented(document: Any, entry: Any) -> Iterator[tuple[list[Any], range]]:
    """Yield where the comments on an entry are: in it, and directly above its head.

    What is above a head is, as TOML is read, at the end of what comes before.
    """
    entries = list(document["variables"])
    at = next(place for place, one in enumerate(entries) if one is entry)
    if not isinstance(entry, tomlkit.items.Table):
        return
    above = document.body if at == 0 else entries[at - 1].value.body
    end = next((k for k, (_, item) in enumerate(above) if item is document["variables"]), len(above))
    yield above, range(_last_comments(above, end), end)
    own = entry.value.body
    yield own, range(len(own) if at == len(entries) - 1 else _last_comments(own, len(own)))


def _last_comments(body: Sequence[Any], end: int) -> int:
    """Return where the comments begin that end there without an empty line."""
    while end and isinstance(body[end - 1][1], tomlkit.items.Comment):
        end -= 1
    return end


def trial_of(source: Source, recode: Recode) -> Trial:
    """Return what a recode does to the records of a source, which are read twice."""
    counts = counted(source, [recode.source])[recode.source]
    before = {key_of(value): n for value, n in counts.items()}
    try:
        made = counted(recoded(source, [recode]), [recode.variable])[recode.variable]
    except DataError as error:
        return Trial(recode, before, {}, " ".join(unplaced(error, [recode], {recode.source: counts}).problems))
    after = dict.fromkeys(recode.kind.categories(), 0)
    for new in sorted(made, key=lambda value: (isinstance(value, str), value)):
        after[key_of(new)] = made[new]
    codes = swallowed(source, [recode]).get(recode.variable, "")
    notes = (
        _unreached(recode, counts),
        _note(recode, counts, after),
        published(recode),
        codes or "".join(capital(one.sentence) for one in recoded_means(source, [recode]).values()),
    )
    return Trial(recode, before, after, note=" ".join(filter(None, notes)))


def _unreached(recode: Recode, counts: Mapping[Any, int]) -> str:
    """Say which limits of a top or bottom coding no value is beyond; "" where each changes some."""
    first, numbers = steps_of(recode.kind)[0], [number_of(value) for value in without_missing(recode, counts)]
    held = [value for value in numbers if value is not None]
    limits = first.stand_for_more if isinstance(first, Limits) and held else {}
    idle = [
        f"no value is {'above' if word == 'more' else 'below'} {spelt(limit)}, so that this limit changes nothing"
        for limit, word in limits.items()
        if not any(value > limit if word == "more" else value < limit for value in held)
    ]
    return capital("; ".join(idle)) + "." * bool(idle)


def _note(recode: Recode, counts: Mapping[Any, int], after: Mapping[str, int]) -> str:
    """Say what this file says of a rule on rare categories: that it would merge others, or too few records."""
    where = f"recode of {recode.variable!r}"
    held = without_missing(recode, counts)
    now = rules_of(unsettled(recode.kind), held, where)
    for (rule, _), (free, _) in zip(rules_of(recode.kind, held, where), now, strict=True):
        if hasattr(rule, "settled") and {*map(key_of, free.merged)} != {*map(key_of, rule.merged)}:
            what = "by this file the rule would merge other categories"
            return sentence(what, fix="to follow this file, remove 'merged' and run with --write")
    return too_few(recode, after)
