"""Risks of single records as a file, for use inside the agency only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand import formats
from postrand.errors import UsageError, sentence
from postrand.risk.measures import Assessment

OWNER = 0o600
"""Nobody but the owner reads what is internal, as with a dossier."""


def write_records(path: Path, found: Assessment, ids: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Write one row for each record, in the order of the file: its risk by each measure that has one.

    ``ids`` are columns by name that stand before them, such as the record's number; by default there are none. The
    format is that of the suffix. Returns the names of the measures that were written.

    Raises
    ------
    UsageError
        If no measure has risks of records, or the suffix is not known.
    ReleaseError
        If the file exists, or cannot be written.
    """
    risks = {result.measure: result.records_at for result in found.measured if result.records_at is not None}
    if not risks:
        fix = "choose a measure that has them, such as --measure individual"
        raise UsageError(sentence("none of the chosen measures has a risk for each record", fix=fix))
    table = pa.table({**(ids or {}), **{name: pa.array(risk, pa.float64()) for name, risk in risks.items()}})
    with formats.open_writer(path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=formats.BATCH_ROWS):
            writer.write(batch)
    path.chmod(OWNER)
    return tuple(risks)
