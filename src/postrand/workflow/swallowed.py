"""Codes for no answer that a recode counts as values: "999" in the last band of ages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook.no_answer import counted, file_codes, file_labels, is_usual, looks_missing, says_so
from postrand.codebook.quantity_codes import Suspect, is_number, quantities_told, remedy_of, suspects, suspects_in
from postrand.columns.recoded import unrecoded
from postrand.errors import DataError, sentence
from postrand.formats import Source
from postrand.recoding import Recode
from postrand.recoding.base import LISTED, Scalar, is_settled, key_of, listed
from postrand.support.showing import few

AMOUNTS = ("sensitive", "other", "key", "")
"""Roles of quantities: those of numbers that are no amounts are left out."""
MAX_RECORDS = 100_000
"""So many records, the first ones, are looked at."""
MOST_LISTED = 20
"""More different numbers than this are no scale, but a quantity."""


def swallowed(source: Source, recodes: Sequence[Recode] = ()) -> dict[str, str]:
    """Return for each result of a recode the warning that it counts what looks like codes for no answer as values.

    ``source`` has the columns of the file, and these ``recodes`` are not applied yet; or it is recoded by its own.
    Codes are those that a codebook's draft would propose as ``missing_codes``: usual ones, or labelled as such.
    """
    if not recodes:
        source, recodes = unrecoded(source)
    wanted = [recode for recode in recodes if is_settled(recode.kind) and _is_asked(recode)]
    values = first_values(source, sorted({recode.source for recode in wanted}))
    said = {name: source.schema.field(name).metadata for name in values}
    found = {recode.variable: _said(recode, values[recode.source], said[recode.source]) for recode in wanted}
    return {name: text for name, text in found.items() if text}


def unlisted(entries: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """Return the variables of numbers in which codes for no answer count as values, and a warning; (), "" if none.

    ``entries`` are variables as a codebook has them; see :func:`postrand.codebook.no_answer.counted`.

    >>> unlisted([{"name": "happy", "categories": [1, 2, 3, 9]}, {"name": "sex", "categories": [1, 2, 9]}])[0]
    ('happy',)
    """
    asked = ((e["name"], e.get("categories", ()), e.get("labels", ()), e.get("missing_codes", ())) for e in entries)
    held = {name: list(found) for name, values, labels, absent in asked if (found := counted(values, labels, absent))}
    if not held:
        return (), ""
    listing = few([f"{name} ({', '.join(map(key_of, codes))})" for name, codes in held.items()])
    name, codes = next(iter(held.items()))
    example = f"missing_codes = {json.dumps(codes)} for {name!r}"
    what = f"codes that can mean no answer count as values, in means too: {listing}"
    return tuple(held), sentence(what, fix=f"if so, write {example} in codebook.toml")


def in_quantities(
    columns: Mapping[str, pa.Array | pa.ChunkedArray],
    entries: Iterable[Mapping[str, Any]],
    recodes: Iterable[Recode],
    schema: pa.Schema,
) -> dict[str, tuple[Suspect, ...]]:
    """Return what looks like codes for no answer in the quantities among ``entries``, as :func:`unlisted` has them.

    Not of weights and numbers of records, nor where a recode says what the codes are. ``schema`` is that of the file,
    which can label values, or list those that mean no answer.
    """
    names = [e["name"] for e in entries if e["role"] in AMOUNTS and not e.get("categories")]
    held = {name: columns[name] for name in names if name in columns and is_number(columns[name].type)}
    return suspects_in(held, recodes, {name: schema.field(name).metadata for name in held if name in schema.names})


def quantities_warning(found: Mapping[str, Sequence[Suspect]]) -> str:
    """Return the warning on quantities that hold codes for no answer; "" without any."""
    return sentence(quantities_told(found), fix=remedy_of(*next(iter(found.items())))) if found else ""


def all_told(
    told: Mapping[str, str], drafts: Iterable[Mapping[str, Any]], found: Mapping[str, Sequence[Suspect]]
) -> tuple[str, ...]:
    """Return what is told of recodes, and of the variables of a draft that have none; "" where there is nothing."""
    listed = unlisted(d for d in drafts if d["role"] != "drop" and d["name"] not in told)[1]
    return (*told.values(), listed, quantities_warning(found))


def with_notes(drafts: Iterable[dict[str, Any]], told: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return drafts with what is told of their recodes among their notes."""
    return [{**d, "notes": [*d["notes"], told[d["name"]]]} if d["name"] in told else d for d in drafts]


def first_values(source: Source, names: Sequence[str]) -> dict[str, pa.Array]:
    """Return the values of columns in the first ``MAX_RECORDS`` records, without missing ones."""
    held: dict[str, list[pa.Array]] = {name: [] for name in names}
    read = 0
    for batch in source.batches(names) if names else ():
        for name in names:
            column = batch.column(name)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            held[name].append(column.drop_null())
        read += batch.num_rows
        if read >= MAX_RECORDS:
            break
    return {
        name: pa.chunked_array(parts, parts[0].type).combine_chunks() if parts else pa.nulls(0)
        for name, parts in held.items()
    }


def _is_asked(recode: Recode) -> bool:
    """Whether it is open which values mean no answer: nothing says it, or some are named beside another recode."""
    return not recode.states_missing or (bool(recode.missing) and not recode.says_missing)


def _said(recode: Recode, values: pa.Array, metadata: Mapping[bytes, bytes] | None) -> str:
    """Return the warning on one recode, "" without any."""
    absent = {key_of(value) for value in recode.missing}
    given = [v for v in pc.unique(values).to_pylist() if isinstance(v, Scalar) and key_of(v) not in absent]
    labels, declared = file_labels(metadata), file_codes(metadata, given)
    texts = {value: str(labels.get(key_of(value), labels.get(str(value), value))) for value in given}
    likely = [code for code in _codes(recode, values, texts) if is_usual(code) or says_so(texts[code])]
    codes = [code for code in given if code in declared or code in likely]
    if not codes:
        return ""
    try:
        made = recode.apply(pa.array(given, values.type)).to_pylist()
    except DataError:  # a value that has no place is refused where the records are read
        return ""
    results = dict(zip(given, made, strict=True))
    taken = [code for code in codes if _is_taken(recode, code, results, {*codes})]
    if not taken:
        return ""
    named = listed(taken)
    into = listed(dict.fromkeys(key_of(results[code]) for code in taken))
    asked = ", ".join(map(_toml, taken[:LISTED]))
    typed = ",".join(key_of(code) for code in taken[:LISTED])
    counts = "stays a number" if into == named else f"counts as {into}"
    what = f"{named} of the column {recode.source!r} can mean no answer, and {counts}"
    fix = f"if so, write missing = [{asked}] in this entry of [[recodes]], behind --recode ;missing={typed}"
    return sentence(what, where=f"recode of {recode.variable!r}", fix=fix)


def _codes(recode: Recode, values: pa.Array, texts: Mapping[Scalar, str]) -> list[Scalar]:
    """Return the values that look like codes; of numbers by how many records have them, where they have no labels."""
    listed = looks_missing(list(texts), list(texts.values()))
    if recode.kind.reads != "numbers" or len(texts) <= MOST_LISTED:
        return listed
    frequent = {key_of(one.value) for one in suspects(values)}
    return [v for v in texts if says_so(texts[v]) or key_of(v) in frequent]


def _is_taken(recode: Recode, code: Scalar, results: dict[Scalar, Scalar | None], codes: set[Scalar]) -> bool:
    """Whether a code counts as a value: not as itself, nor as a category of no answer, or one made for codes alone."""
    result = results[code]
    if result is not None and recode.kind.reads == "numbers" and not recode.kind.categories():
        return True  # it remains a number, of which somebody takes a mean
    if result is None or key_of(result) == key_of(code) or says_so(key_of(result)):
        return False
    return recode.kind.reads != "values" or any(made == result for v, made in results.items() if v not in codes)


def _toml(code: Scalar) -> str:
    text = key_of(code)
    return text if text.lstrip("-").isdigit() and text == str(int(text)) else json.dumps(text)
