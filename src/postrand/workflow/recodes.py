"""Recodes at the start of a codebook: what only the file tells of them is found once, and written down."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tomlkit

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import arrow_type
from postrand.codebook.recoded import column_problems
from postrand.columns.recoded import recoded
from postrand.engines.database import Table, open_records
from postrand.errors import DataError, PostrandError, SpecificationError, raise_all
from postrand.formats import File, Source
from postrand.recoding import Recode, Recoding
from postrand.recoding.apply import WHICH, has_place
from postrand.recoding.bands import Bands
from postrand.recoding.base import is_settled, key_of, result_label, steps_of
from postrand.recoding.recode import recodes_from
from postrand.recoding.steps import settled as settled_kind
from postrand.recoding.steps import with_found
from postrand.support.showing import few

_FILES = ("hierarchy", "table")
MAX_SHOWN = 40
NAMED = 20
"""Records that have a value, from which on it is named where values are those of the file."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold recodes that a file was asked about: as plain data for its codebook, and as values."""

    entries: tuple[dict[str, Any], ...] = ()
    recodes: tuple[Recode, ...] = ()

    def of(self, source: Source) -> Source:
        """Return the source, recoded."""
        return recoded(source, self.recodes)

    def written(self, folder: Path) -> str:
        """Return the entries as TOML for a codebook in a folder: what names a file here leads there."""
        entries = copy.deepcopy(list(self.entries))
        parts = [part for entry in entries for part in (entry, *entry.get("steps", ()))]
        for part, name in [(part, name) for part in parts for name in _FILES if name in part]:
            part[name] = Path(os.path.relpath(part[name], folder)).as_posix()
        return "\n" + tomlkit.dumps({"recodes": entries}) if entries else ""

    def drafted(self, drafts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the drafts of the recoded columns with all categories that the recodes can make.

        Missing numbers stay missing, also of few different ones, but for variables that a plan would perturb.
        """
        made, held = {recode.variable: recode for recode in self.recodes}, list(drafts)
        perturbed = ("key",) if any(draft["role"] == "key" for draft in held) else ("key", "")
        return [_drafted(draft, made.get(draft["name"]), draft["role"] in perturbed) for draft in held]


def prepared(
    entries: Sequence[Mapping[str, Any]],
    folder: Path,
    source: Source,
    where: str,
    wrong_column: type[PostrandError] = DataError,
) -> Prepared:
    """Return recodes with what only the file tells; ``wrong_column`` is raised of one that is not in the file.

    These are the types of a text file's numbers, names of bands where numbers have fractions, and rare categories.

    Raises
    ------
    SpecificationError
        With the problems of all entries.
    DataError
        If a column is not there, unless ``wrong_column`` is another error; or a rule on rare categories leaves none.
    """
    if not entries:
        return Prepared()
    read = recodes_from({"recodes": list(entries)}, where, folder)
    raise_all(wrong_column, column_problems(read, source.schema.names))
    said = [dict(entry) for entry in entries]
    types = _types(source, read)
    counts = counted(source, {r.source for r in read if not is_settled(r.kind)})
    problems: list[str] = []
    done = []
    for entry, recode in zip(said, read, strict=True):
        if recode.source in types:
            entry["type"] = types[recode.source]
        if labels := _true_names(source, recode, types):
            entry["labels"] = list(labels)
            recode = dataclasses.replace(recode, kind=_named(recode.kind, labels))
        if not is_settled(recode.kind):
            try:
                recode = settled(recode, counts[recode.source])
            except SpecificationError as error:
                problems += [f"recode of {recode.variable!r}: {text}" for text in error.problems]
            entry |= {"provenance": "confidential", **with_found(entry, recode.kind)}
        done.append(dataclasses.replace(recode, type=entry.get("type", recode.type)))
    raise_all(SpecificationError, problems)
    return Prepared(tuple(said), tuple(done))


def _true_names(source: Source, recode: Recode, types: Mapping[str, str]) -> tuple[str, ...]:
    """Return names for bands of numbers with a fraction, of which ``1-999`` is not true; () where the names are."""
    kind = recode.kind
    if not isinstance(kind, Bands) or kind.labels or kind.unit:
        return ()
    if recode.source in types:
        return kind.open_names() if types[recode.source] == "double" else ()
    if not pa.types.is_floating(source.schema.field(recode.source).type):
        return ()
    parts = (pc.drop_null(batch.column(recode.source)) for batch in source.batches([recode.source]))
    fractions = any(pc.any(pc.not_equal(part, pc.floor(part))).as_py() for part in parts)
    return kind.open_names() if fractions else ()


def _named(kind: Recoding, labels: tuple[str, ...]) -> Recoding:
    return dataclasses.replace(kind, labels=labels) if isinstance(kind, Bands) else kind


def reopened(place: Path | File | Table, made: Prepared, source: Source) -> Source:
    """Return the records of a text file with the recoded columns in their types; of any other, the same source."""
    types = {recode.source: recode.type for recode in made.recodes if recode.type}
    if not types or not getattr(source, "untyped", False):
        return source
    book = Codebook(tuple(Variable(name, "other", type=types.get(name, "string")) for name in source.schema.names))
    return open_records(place, book)


def settled(recode: Recode, counts: Mapping[Any, int]) -> Recode:
    """Return a recode by rare categories with those that are rare by these numbers of records."""
    where = f"recode of {recode.variable!r}"
    return dataclasses.replace(recode, kind=settled_kind(recode.kind, without_missing(recode, counts), where))


def without_missing(recode: Recode, counts: Mapping[Any, int]) -> dict[Any, int]:
    """Return the numbers of records of the values that a recode does not take for missing."""
    absent = {key_of(value) for value in recode.missing}
    return {value: n for value, n in counts.items() if key_of(value) not in absent}


def unplaced(error: DataError, recodes: Sequence[Recode], counts: Mapping[str, Mapping[Any, int]]) -> DataError:
    """Return the error of values without a place, with those named that so many records have that they tell of nobody.

    ``counts`` are the numbers of records of each value, by the column that a recode reads.
    """
    return DataError([_with_names(text, recodes, counts) for text in error.problems])


def _with_names(text: str, recodes: Sequence[Recode], counts: Mapping[str, Mapping[Any, int]]) -> str:
    """Return a problem of a recode with the frequent values that have no place; any other problem as it is."""
    of = next((one for one in recodes if one.place in text), None)
    lost = {} if of is None else _without_place(of, counts[of.source])
    if not lost:
        return text
    often = sorted(repr(key) for key, n in lost.items() if n >= NAMED)
    named = f"None of them is that of {NAMED} records or more; rarer ones are not named."
    if often:
        named = f"Of these, {NAMED} records or more have each: {few(often, MAX_SHOWN)}."
    return f"{text.replace(f'; {WHICH}', '')} {named}"


def _without_place(recode: Recode, counts: Mapping[Any, int]) -> dict[str, int]:
    """Return the values that have no place in a recode, with their numbers of records."""
    held = without_missing(recode, counts)
    placed = has_place(recode.kind, pa.array(list(held))) if held else ()
    return {key_of(value): n for (value, n), is_placed in zip(held.items(), placed, strict=True) if not is_placed}


def _types(source: Source, recodes: Sequence[Recode]) -> dict[str, str]:
    """Return the types of numbers that a file of text holds in the columns of recodes that read numbers."""
    return number_types(source, {r.source for r in recodes if r.kind.reads == "numbers" and not r.type})


def number_types(source: Source, names: Collection[str]) -> dict[str, str]:
    """Return the types in which columns of a file of text lose nothing, numbers first; {} for a file that has types."""
    if not names or not getattr(source, "untyped", False):
        return {}
    fits = {name: ["int64", "double"] for name in names}
    for batch in source.batches(sorted(names)):
        for name in names:
            texts = pc.unique(batch.column(name).dictionary_decode()).drop_null()
            convert = source.lossless  # type: ignore[attr-defined]  # untyped sources have it
            fits[name] = [of for of in fits[name] if convert(texts, arrow_type(of)) is not None]
    return {name: (*found, "string")[0] for name, found in fits.items()}


def counted(source: Source, names: Iterable[str]) -> dict[str, Counter[Any]]:
    """Return the number of records of each value, in one pass."""
    found: dict[str, Counter[Any]] = {name: Counter() for name in names}
    for batch in source.batches(sorted(found)) if found else ():
        for name, counter in found.items():
            column = batch.column(name)
            plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            told = pc.value_counts(plain.drop_null())
            pairs = zip(told.field("values").to_pylist(), told.field("counts").to_pylist(), strict=True)
            counter.update({value: n for value, n in pairs if value == value})
    return found


def _drafted(draft: dict[str, Any], recode: Recode | None, is_perturbed: bool) -> dict[str, Any]:
    if recode is None:
        return draft
    notes = [recode.in_words(), *(["decided by the file's own counts: confidential"] * recode.is_confidential)]
    categories = list(recode.kind.categories())
    if not categories:
        namer: Any = getattr(steps_of(recode.kind)[-1], "labels_of", None)
        named = namer is not None and draft.get("categories") and not draft.get("labels")
        labels = {"labels": namer(draft["categories"])} if named else {}
        numbers = recode.kind.reads == "numbers" and not is_perturbed
        kept = {"missing": "keep"} if numbers and draft["missing"] == "category" else {}
        return {**draft, **kept, **labels, "notes": [*notes, *draft["notes"]]}
    own: dict[str, Any] = {name: draft[name] for name in ("name", "role", "label") if name in draft}
    own |= {"label": result_label(own["label"], recode.kind)} if "label" in own else {}
    missing = "category" if draft["missing"] != "error" else "error"
    ordered = {"ordered": True} if recode.kind.reads != "values" else {}
    return {**own, "type": "string", "missing": missing, **ordered, "categories": categories, "notes": notes}
