"""Records that belong together without a number: which columns are compared, as they are in the file, and what is told.

A plan's findings and 'postrand init' both ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from postrand.codebook.survey_design import seems_clusters, seems_strata
from postrand.codebook.variable import RELEASED_ROLES, variable_to_dict
from postrand.columns.recoded import needed_for, recoded_batch, unrecoded
from postrand.errors import sentence
from postrand.formats import Source
from postrand.plan import Plan
from postrand.plan.numbering import numbers_units
from postrand.recoding import Recode
from postrand.risk.findings import Finding, Findings
from postrand.risk.neighbours import CODE, FIX, Neighbours, neighbour_findings, neighbours, released_fix
from postrand.risk.sample import MAX_RECORDS, Sampled, together
from postrand.risk.weights_told import weights_of

LEAST_VALUES = 50
"""A column with categories, and fewer than these, puts no households together."""
MAX_DROPPED = 60
"""So many columns that are not released are compared."""
NOTE = "neighbours in the file share its values, as members of one household do (docs/households.md)"
"""The note on such a column in a draft."""
_TYPES = ("string", "large_string", "dictionary", "int", "uint", "half", "float", "double", "decimal", "date", "time")
"""How the types of columns begin that are compared."""
Draft = Mapping[str, Any]
Columns = Mapping[str, pa.ChunkedArray]


def compared(drafts: Iterable[Draft]) -> tuple[str, ...]:
    """Return the columns in which neighbours are compared; () where a column has the role ``household``.

    ``drafts`` describe columns, as drafts of a codebook do, and its variables as plain data.

    >>> compared([{"name": "sex", "role": "key", "categories": ["f", "m"]}, {"name": "rent", "role": "other"}])
    ('rent',)
    """
    held = list(drafts)
    if any(d["role"] == "household" for d in held):
        return ()
    held = [d for d in held if d["role"] != "record_key" and d.get("type", "string").startswith(_TYPES)]
    held = [d for d in held if not 0 < len(d.get("categories", ())) < LEAST_VALUES]
    held = [d for d in held if not (seems_clusters(*_named(d)) or seems_strata(*_named(d)))]
    left = [d["name"] for d in held if d["role"] == "drop"][MAX_DROPPED:]
    return tuple(d["name"] for d in held if d["name"] not in left)


def first_of(plan: Plan, clear: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of which a plan's findings want the first records: compared ones, and unperturbed ones.

    () where the plan says which records belong together, or no column can.
    """
    names = () if _is_known(plan) else compared(map(variable_to_dict, plan.codebook.variables))
    return tuple(dict.fromkeys([*names, *clear])) if names else ()


def shared(source: Source, sample: Sampled, drafts: Iterable[Draft]) -> tuple[Neighbours | None, Columns]:
    """Return what neighbours share in the file as it is, and the same records as they are after its recodes."""
    held = {d["name"]: d for d in drafts}
    plain, recodes = unrecoded(source)
    made, sources = {one.variable for one in recodes}, dict.fromkeys(one.source for one in recodes)
    own: list[Draft] = [{"name": n, "role": "drop", "type": str(plain.schema.field(n).type)} for n in sources]
    names = compared([*(d for d in held.values() if d["name"] not in made or d["role"] == "household"), *own])
    if not names:
        return None, {}
    before: dict[str, pa.ChunkedArray] = {}
    after = {} if sample.first is None else _columns(sample.first)
    if raw := [name for name in names if name in sources]:
        released = [d["name"] for d in held.values() if d["role"] in (*RELEASED_ROLES, "")]
        before, after = _read(plain, recodes, raw, [*after] or [n for n in released if n in sample.alone])
    columns = {name: before.get(name, after.get(name)) for name in names}
    there = {name: column for name, column in columns.items() if column is not None}
    numbers = [name for name in there if numbers_units(held.get(name, {"name": name}))]
    read = max((len(column) for column in there.values()), default=0)
    is_whole = read < MAX_RECORDS or read == sample.records
    return neighbours(there, numbers, is_whole=is_whole), after


def findings_of(plan: Plan, source: Source, sample: Sampled) -> tuple[Finding, ...]:
    """Return the findings of a plan on records that belong together without a number, in its file as it is."""
    if _is_known(plan):
        return ()
    found, after = shared(source, sample, map(variable_to_dict, plan.codebook.variables))
    if found is None:
        return ()
    clear = {name: after[name] for name in sample.alone}
    weights, ordered = weights_of(plan.codebook, list(sample.alone)), not plan.release.shuffle
    return neighbour_findings(found, clear, weights, ordered=ordered)


def _is_known(plan: Plan) -> bool:
    """Whether the plan says which records belong together."""
    unit = plan.unit is not None and (plan.unit.household or plan.unit.person)
    return bool(unit or plan.codebook.with_role("household"))


def neighbours_in(told: Findings) -> tuple[str, ...]:
    """Return the columns that neighbours share, of the findings of a plan."""
    return tuple(name for one in told.found if one.code == CODE for name in (*one.variables, *one.about))


def told(found: Neighbours | None, drafts: Iterable[Draft], recoded: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what 'postrand init' says of it: what is shared, and what to do; ``recoded`` columns are not exact."""
    if found is None:
        return ()
    released = {d["name"] for d in drafts if d["role"] in (*RELEASED_ROLES, "")}
    names = [name for name in found.columns if name in released.difference(recoded)]
    fix = f"{FIX}: --household NAME --largest-household N" + (f"; {released_fix(names)}" if names else "")
    return (sentence(found.sentence, fix=fix),)


def noted(found: Neighbours | None, drafts: Iterable[Draft]) -> list[dict[str, Any]]:
    """Return drafts with a note on the columns that neighbours share."""
    names = () if found is None else found.columns
    return [{**d, "notes": [*d["notes"], NOTE]} if d["name"] in names else dict(d) for d in drafts]


def _read(
    plain: Source, recodes: Sequence[Recode], raw: Sequence[str], names: Sequence[str]
) -> tuple[dict[str, pa.ChunkedArray], dict[str, pa.ChunkedArray]]:
    """Return columns of the first records as they are in the file, and columns as recodes make them, in one order."""
    asked = [one for one in recodes if one.variable in names]
    needed = list(dict.fromkeys([*raw, *needed_for(names, asked)]))
    before, after, read = list[pa.Table](), list[pa.Table](), 0
    for batch in plain.batches(needed):
        kept = batch.slice(0, MAX_RECORDS - read)
        before.append(pa.Table.from_batches([kept.select(list(raw))]))
        after.append(pa.Table.from_batches([recoded_batch(kept, asked).select(list(names))]))
        read += kept.num_rows
        if read >= MAX_RECORDS:
            break
    return ({}, {}) if not read else (_columns(together(before)), _columns(together(after)))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(name) for name in table.column_names}


def _named(draft: Draft) -> tuple[str, str]:
    return draft["name"], draft.get("label", "")
