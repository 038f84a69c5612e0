"""A source whose columns are recoded: what everything downstream reads, on every engine."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.codebook.no_answer import file_labels
from postrand.codebook.perturbed_labels import as_json
from postrand.codebook.recoded import column_problems
from postrand.errors import DataError, raise_all
from postrand.formats import BATCH_ROWS, PartsSource, Source, each_part
from postrand.formats.base import WrappedSource, select
from postrand.recoding import Recode
from postrand.recoding.apply import reads_as, result_type
from postrand.recoding.base import key_of

_LABELS = (b"label", b"value_labels")


@dataclass(frozen=True, slots=True, eq=False)
class RecodedSource(WrappedSource):
    """The records of a source with the results of recodes for their columns; see ``formats.base.Source``."""

    recodes: tuple[Recode, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns; the first result of a column stands in its place, and others follow it."""
        fields: list[pa.Field] = []
        for field in self.source.schema:
            mine = [recode for recode in self.recodes if recode.source == field.name]
            fields += [_field(recode, field) for recode in mine] or [field]
        return pa.schema(fields, self.source.schema.metadata)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records in file order."""
        names = select(self.schema, columns, Path("recoded records"))
        asked = [recode for recode in self.recodes if recode.variable in names]
        for batch in self.source.batches(needed_for(names, asked), batch_size):
            yield recoded_batch(batch, asked).select(names)


def recoded(source: Source, recodes: Sequence[Recode]) -> Source:
    """Return the source with its columns recoded; several files stay several.

    Raises
    ------
    DataError
        With every column that is not there, and every result that has the name of another column.
    """
    if not recodes:
        return source
    raise_all(DataError, column_problems(recodes, source.schema.names))
    return each_part(source, lambda part: RecodedSource(part, tuple(recodes)))


def unrecoded(source: Source) -> tuple[Source, tuple[Recode, ...]]:
    """Return what :func:`recoded` was given, for those who recode elsewhere; a source without recodes as it is."""
    if isinstance(source, RecodedSource):
        return source.source, source.recodes
    if isinstance(source, PartsSource) and isinstance(source.parts[0], RecodedSource):
        pairs = [unrecoded(part) for part in source.parts]
        return dataclasses.replace(source, parts=tuple(plain for plain, _ in pairs)), pairs[0][1]
    return source, ()


def needed_for(names: Sequence[str], recodes: Sequence[Recode]) -> list[str]:
    """Return the columns of the file from which these columns of the recoded records are made."""
    sources = {recode.variable: recode.source for recode in recodes}
    return list(dict.fromkeys(sources.get(name, name) for name in names))


def recoded_batch(batch: pa.RecordBatch, recodes: Sequence[Recode]) -> pa.RecordBatch:
    """Return a batch with the results of all recodes whose columns it has, in place of these columns.

    Raises
    ------
    DataError
        With each recode in which values of the batch have no place.
    """
    asked = [recode for recode in recodes if recode.source in batch.schema.names]
    if not asked:
        return batch
    sources = {recode.source for recode in asked}
    held = {name: batch.column(name) for name in batch.schema.names if name not in sources}
    problems: list[str] = []
    for recode in asked:
        try:
            held[recode.variable] = recode.apply(batch.column(recode.source))
        except DataError as error:
            problems += error.problems
    raise_all(DataError, problems)
    return pa.RecordBatch.from_arrays(list(held.values()), names=list(held))


def before_recodes(codebook: Codebook, types: Mapping[str, str]) -> Codebook:
    """Return the codebook of the file's own columns: the sources of recodes, which are dropped, for their results.

    ``types`` are those of the columns where the file tells them. Rules, recodes and the survey design, which name
    results, are left out.
    """
    results, sources = {recode.variable for recode in codebook.recodes}, dict[str, Variable]()
    for recode in codebook.recodes:
        kept = "" if recode.kind.categories() else codebook[recode.variable].type
        guess = kept if recode.kind.reads == "numbers" and kept else reads_as(recode.kind.reads)
        of = types.get(recode.source) or recode.type or guess
        sources.setdefault(recode.source, Variable(recode.source, "drop", type=of))
    own = tuple(v for v in codebook.variables if v.name not in results)
    return dataclasses.replace(codebook, variables=(*own, *sources.values()), rules=(), recodes=(), survey=None)


def _field(recode: Recode, field: pa.Field) -> pa.Field:
    """Return the field of a result; where the values of the file remain, so do its labels."""
    kept = _LABELS if not recode.kind.categories() else _LABELS[:1]
    metadata = {key: text for key, text in (field.metadata or {}).items() if key in kept}
    if b"value_labels" in metadata and recode.missing:
        metadata[b"value_labels"] = _of_values(file_labels(metadata), recode)
    made = {key: text for key, text in metadata.items() if text}
    return pa.field(recode.variable, result_type(recode.kind, field.type), metadata=made or None)


def _of_values(labels: Mapping[str, str], recode: Recode) -> bytes:
    """Return the labels of values that remain, as JSON; letters for no answer, as Stata has them, never do."""
    absent = {key_of(value) for value in recode.missing}
    kept = {text: label for text, label in labels.items() if key_of(_number(text)) not in absent}
    return as_json({text: label for text, label in kept.items() if not re.fullmatch(r"\.[a-z]", text)}).encode()


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
