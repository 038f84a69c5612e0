"""Codes for no answer of quantities that the file itself declares: the draft of a codebook makes them missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import metadata
from postrand.codebook.coding import arrow_type
from postrand.codebook.no_answer import file_codes, file_list
from postrand.codebook.quantity_codes import is_number
from postrand.engines.database import Table
from postrand.errors import DataError, UsageError
from postrand.formats import File, Source
from postrand.metadata.description import Described
from postrand.plan import infer
from postrand.recoding import Recode
from postrand.recoding.base import key_of
from postrand.recoding.recode import recodes_from
from postrand.support.showing import few
from postrand.workflow import recodes
from postrand.workflow.recoded_means import recoded_means
from postrand.workflow.swallowed import AMOUNTS, swallowed, with_notes

_MOST = 100
"""A range of fewer whole numbers than this is listed; of any other, the values that the file has."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Hold the records of a file, ``plain`` and with the recodes ``made``; ``texts`` are those of a DDI document.

    ``told`` warns of codes that recodes count as values, and of means that they change. ``declared`` has
    what recodes say of codes that the file declares, by the variable.
    """

    place: Path | File | Table
    plain: Source
    texts: Described
    made: recodes.Prepared
    declared: Mapping[str, Mapping[str, Any]]
    told: dict[str, str]

    @property
    def source(self) -> Source:
        """The recoded records."""
        return self.made.of(self.plain)

    @property
    def asked(self) -> tuple[Recode, ...]:
        """The recodes that were asked for: without those that do nothing but make declared codes missing."""
        return tuple(one for one in self.made.recodes if not (one.says_missing and one.variable in self.declared))

    @property
    def words(self) -> tuple[str, ...]:
        """Each variable with its declared codes, in words."""
        listed = {name: few([key_of(one) for one in said["missing"]]) for name, said in self.declared.items()}
        return tuple(f"{name} ({codes})" for name, codes in listed.items())


def started(
    entries: Sequence[Mapping[str, Any]], place: Path | File | Table, source: Source, ddi: Path | None = None
) -> Start:
    """Return the records of a file with recodes; those of numbers make missing what the file declares, if none says.

    Raises
    ------
    PostrandError
        As :func:`postrand.workflow.recodes.prepared`.
    """
    texts = {} if ddi is None else metadata.read_ddi(ddi)
    known = _described(source, texts)
    found = dict[str, dict[str, Any]]()
    if any(b"missing_codes" in (own.metadata or {}) for own in known.schema):
        for recode in recodes_from({"recodes": list(entries)}, "--recode", Path()):
            is_open = recode.source in known.schema.names and not recode.states_missing
            if is_open and recode.kind.reads == "numbers" and (said := _said(recode.source, known)):
                found[recode.variable] = said
    return _start([{**one, **found.get(one["variable"], {})} for one in entries], place, source, texts, found)


def drafted(start: Start, roles: Mapping[str, str]) -> tuple[Start, list[dict[str, Any]]]:
    """Return the drafts of the columns, and the start with a recode of each quantity whose codes the file declares.

    Such a recode makes these codes missing, and nothing else.
    """
    drafts = _drafts(start, roles)
    found = dict(_quantities(start, drafts))
    if not found:
        return start, drafts
    entries = [*start.made.entries, *({"variable": name, **said} for name, said in found.items())]
    start = _start(entries, start.place, start.plain, start.texts, {**start.declared, **found})
    return start, [{**one, "missing": "keep"} if one["name"] in found else one for one in _drafts(start, roles)]


def _start(
    entries: Sequence[Mapping[str, Any]],
    place: Path | File | Table,
    source: Source,
    texts: Described,
    declared: Mapping[str, Mapping[str, Any]],
) -> Start:
    made = recodes.prepared(entries, Path(), source, "--recode", UsageError)
    plain = recodes.reopened(place, made, source)
    means = {name: one.sentence for name, one in recoded_means(plain, made.recodes).items()}
    return Start(place, plain, texts, made, declared, means | swallowed(plain, made.recodes))


def _described(source: Source, texts: Described) -> Source:
    return metadata.described(source, texts) if texts else source


def _drafts(start: Start, roles: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        read = infer.infer(start.made.of(_described(start.plain, start.texts)), roles=roles)
    except DataError as error:
        made = start.made.recodes
        raise recodes.unplaced(error, made, recodes.counted(start.plain, {one.source for one in made})) from None
    return with_notes(start.made.drafted(read), start.told)


def _quantities(start: Start, drafts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the quantities among drafts that no recode makes, with what a recode says of codes that are declared."""
    known, made = _described(start.plain, start.texts), {recode.variable for recode in start.made.recodes}
    for draft in drafts:
        if draft["role"] not in AMOUNTS or draft.get("categories") or draft["name"] in made:
            continue
        own = known.schema.field(draft["name"])
        said = _said(own.name, known)
        if said and (b"lettered_missing" in own.metadata or is_number(arrow_type(draft["type"]))):
            yield own.name, said


def _said(name: str, known: Source) -> dict[str, Any]:
    """Return what a recode says of the codes of a column that its file declares; {} where it declares none.

    Codes of a range that only the records tell are confidential.
    """
    own = known.schema.field(name)
    single, ranges = file_list(own.metadata)
    found = {_plain(text) for text in single}
    short = [(low, high) for low, high in ranges if high - low < _MOST and pa.types.is_integer(own.type)]
    found |= {code for low, high in short for code in range(math.ceil(low), math.floor(high) + 1)}
    if looks := len(short) < len(ranges):
        values = recodes.counted(known, [name])[name]
        found |= {_plain(key_of(value)) for value in file_codes(own.metadata, list(values))}
    listed = sorted(found, key=lambda code: (isinstance(code, str), code))
    return {"missing": listed, **({"provenance": "confidential"} if looks else {})} if listed else {}


def _plain(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
