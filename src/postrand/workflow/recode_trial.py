"""Recodes tried on a file without a release: how many categories there are before and after, and how rare they are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import tomlkit
import tomlkit.items

from postrand import formats
from postrand.columns.recoded import recoded
from postrand.engines.database import Table, open_records, source_from
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.formats import File, Source
from postrand.plan import infer
from postrand.recoding import Recode
from postrand.recoding.base import key_of
from postrand.recoding.steps import rules_of, unsettled
from postrand.risk.merged import published, too_few
from postrand.support import saving
from postrand.support.inputs import read_toml
from postrand.support.showing import few
from postrand.workflow import draft_decisions
from postrand.workflow.recodes import Prepared, counted, prepared, reopened, without_missing
from postrand.workflow.swallowed import swallowed

STEPS = (1, 5, 20, 100, 1000)
"""How many records a category has is told by these steps, and never exactly."""
MAX_SHOWN = 40
NAMED = STEPS[2]
"""Records that have a value without a place, from which on it is named."""
_STALE = (infer.ALIKE, infer.FEW, infer.MANY, infer.UNLISTED, draft_decisions.SINGLES_OUT, draft_decisions.ADD_IT)


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold what a recode does to a file; for internal use, because it counts the confidential records.

    ``before`` and ``after`` are the numbers of records of each category, without missing values; text and data show in
    which step of :data:`STEPS` they lie. ``problem`` says why the file cannot be recoded, ``note`` what this file says
    of a rule on rare categories that was settled by another, and of codes for no answer that count as values.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        about = {"variable": self.recode.variable, "from": self.recode.source, "done": self.recode.in_words()}
        if self.problem:
            return {**about, "problem": self.problem}
        shown = {name: step_of(count) for name, count in self.after.items()}
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
        shown = list(self.after.items())
        wide = max(22, *(len(name) for name, _ in shown[:MAX_SHOWN]), 0) + 2
        lines = [head, f"  {'number of categories':<{wide}}{'before':>10}{'after':>10}"]
        used = [name for name in sides[0] if sides[0][name] or sides[1][name]]
        lines += [f"  {name:<{wide}}{sides[0][name]:>10,}{sides[1][name]:>10,}" for name in used]
        lines += [f"  {'became missing':<{wide}}{step_of(self.gone)} records"] * (self.gone > 0)
        lines += [f"  {name:<{wide}}{step_of(count)} records" for name, count in shown[:MAX_SHOWN]]
        more = len(shown) - MAX_SHOWN
        lines += [f"  and {more:,} more categories"] * (more > 0) + [f"  {self.note}"] * bool(self.note)
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
    entries = read_toml(codebook, "the codebook").get("recodes", [])
    if not entries:
        fix = 'write [[recodes]] with variable = "age" and bands = [0, 15, 30], or see docs/recoding.md'
        raise SpecificationError(sentence("the codebook has no recodes", where=codebook.name, fix=fix))
    source = open_records(place)
    made = prepared(entries, codebook.parent, source, codebook.name)
    before = reopened(place, made, source)
    return tuple(trial_of(before, recode) for recode in made.recodes), made


@dataclass(frozen=True, slots=True)
class Written:
    """Hold the results that have no role yet, and those of the recodes that became confidential by being tried."""

    without_role: tuple[str, ...]
    confidential: tuple[str, ...]


def write(codebook: Path, place: Path | File | Table, made: Prepared) -> Written:
    """Write what the file tells into a ``codebook.toml``, and describe the results of its recodes; comments stay.

    The rare categories that were found, the types of numbers, and the type and categories of each result are written;
    also that a recode is confidential, because counts of the file were shown, unless it states its provenance.
    A result without an entry takes that of its column, with its role.

    Raises
    ------
    DataError
        If a value of the file has no place; then the codebook is as it was.
    SpecificationError
        With all that would still be wrong with the codebook, which is then as it was.
    """
    source = made.of(reopened(place, made, open_records(place)))
    document = tomlkit.parse(codebook.read_text(encoding="utf-8"))
    stated = [entry.get("provenance") for entry in document["recodes"]]
    for entry, found in zip(document["recodes"], made.entries, strict=True):
        told = {"provenance": "confidential", **found}  # counts of the file were shown
        entry.update({name: value for name, value in told.items() if entry.get(name) != value})
    entries: Any = document.setdefault("variables", tomlkit.aot())
    results = {recode.variable: recode for recode in made.recodes}
    drafts = {draft["name"]: draft for draft in made.drafted(infer.infer(source))}
    for name, recode in results.items():
        entry = next((e for e in entries if e.get("name") == name), None)
        if entry is None:
            entry = next((e for e in entries if e.get("name") == recode.source and recode.source not in results), None)
        if entry is None:
            entry = tomlkit.table()
            entry.update({"name": name, "role": ""})
            entries.append(entry)
        _describe(entry, drafts[name])
    written = tomlkit.dumps(document)
    infer.codebook_of(tomllib.loads(written), codebook, open_role="other")
    saving.write_whole(codebook, written.encode(), replace=True)
    roles = {e.get("name"): e.get("role") for e in entries}
    marked = (recode.variable for recode, said in zip(made.recodes, stated, strict=True) if not said)
    return Written(tuple(name for name in results if not roles.get(name)), tuple(marked))


def _describe(entry: Any, draft: Mapping[str, Any]) -> None:
    """Put what a draft says of a result into its entry, and remove notes that it makes untrue.

    Role and label are a person's.
    """
    for name in ("categories", "labels", "missing_codes", "ordered"):
        entry.pop(name, None)
    kept = {name: value for name, value in draft.items() if name not in ("role", "notes", "label")}
    entry.update(kept)
    body = entry.value.body if isinstance(entry, tomlkit.items.Table) else []
    for place, (_, item) in enumerate(body):
        if isinstance(item, tomlkit.items.Comment) and item.as_string().lstrip(" #").startswith(_STALE):
            body[place] = (None, tomlkit.items.Whitespace(""))


def trial_of(source: Source, recode: Recode) -> Trial:
    """Return what a recode does to the records of a source, which are read twice."""
    counts = counted(source, [recode.source])[recode.source]
    before = {key_of(value): n for value, n in counts.items()}
    try:
        made = counted(recoded(source, [recode]), [recode.variable])[recode.variable]
    except DataError as error:
        return Trial(recode, before, {}, " ".join([*error.problems, *_named(recode, counts)]))
    after = dict.fromkeys(recode.kind.categories(), 0)
    for new in sorted(made, key=lambda value: (isinstance(value, str), value)):
        after[key_of(new)] = made[new]
    notes = (_note(recode, counts, after), published(recode), swallowed(source, [recode]).get(recode.variable, ""))
    return Trial(recode, before, after, note=" ".join(filter(None, notes)))


def _named(recode: Recode, counts: Mapping[Any, int]) -> Iterator[str]:
    """Yield which values have no place, as far as so many records have them that they tell of nobody."""
    often = sorted((value for value, n in without_missing(recode, counts).items() if n >= NAMED), key=key_of)
    lost = [key_of(value) for value in often if not _has_place(recode, value)]
    if lost:
        yield f"Of these, {NAMED} records or more have each: {few([repr(name) for name in lost], MAX_SHOWN)}."
    else:
        yield f"None of them is that of {NAMED} records or more; rarer ones are not named."


def _has_place(recode: Recode, value: Any) -> bool:
    try:
        recode.apply(pa.array([value]))
    except DataError:
        return False
    return True


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
