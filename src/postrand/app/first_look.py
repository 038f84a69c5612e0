"""What the first screen says of the columns of a file: how many values are missing, and which hold free text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand.codebook.coding import value_type
from postrand.codebook.no_answer import file_codes
from postrand.formats import Source
from postrand.plan.free_texts import with_texts
from postrand.plan.infer import is_nested

MAX_RECORDS = 100_000
"""So many records are searched for texts."""


@dataclass(slots=True, eq=False)
class FirstLook:
    """Collect, batch by batch, the numbers of records and of missing values, and the first records.

    Missing are also values that mean "no answer", by ``codes`` of a codebook or as the file itself declares them.
    """

    schema: pa.Schema
    codes: Mapping[str, Collection[Any]] = field(default_factory=dict)
    rows: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    _held: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def of(cls, source: Source, drafts: Iterable[Mapping[str, Any]] = ()) -> FirstLook:
        """Return a look at a source that has read nothing yet; ``drafts`` name codes of their variables."""
        coded = {draft["name"]: draft["missing_codes"] for draft in drafts if draft.get("missing_codes")}
        return cls(source.schema, coded, missing=dict.fromkeys(source.schema.names, 0))

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        if self.rows < MAX_RECORDS:
            plain = [name for name, of in zip(batch.schema.names, batch.schema.types, strict=True) if not is_nested(of)]
            self._held.append(batch.select(plain))
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self.missing[name] += column.null_count + self._coded(name, column)

    def with_texts(self, drafts: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Return drafts with the note on those that hold free text."""
        held = [{**draft, "notes": list(draft.get("notes", ()))} for draft in drafts]
        if not self._held:
            return tuple(held)
        return tuple(with_texts(pa.Table.from_batches(self._held).unify_dictionaries(), held))

    def _coded(self, name: str, column: pa.Array) -> int:
        """Return how many values of a column mean "no answer"."""
        said, codes = self.schema.field(name).metadata or {}, self.codes.get(name, ())
        if not codes and b"missing_codes" not in said:
            return 0
        distinct = pc.unique(column).drop_null().to_pylist()
        absent = [*{*file_codes(said, distinct), *(value for value in distinct if value in codes)}]
        return int(pc.sum(pc.is_in(column, pa.array(absent, value_type(column.type)))).as_py() or 0)
