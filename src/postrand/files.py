"""Whole-column protection from file to folder: ranks of numerical columns permuted, or keys and the rest torn apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.anatomy import anatomise
from postrand.errors import UsageError, raise_all, sentence
from postrand.numerical import RankLaw, permutation
from postrand.numerical.released import numbers
from postrand.randomness import ReleaseKey, as_release_key
from postrand.release import columns as proofs
from postrand.release.atomic import appearing
from postrand.release.bundle import CERTIFICATE


def permute_columns(
    file: str | Path, out: str | Path, columns: Sequence[str], law: RankLaw, release_key: ReleaseKey | None = None
) -> dict[str, Any]:
    """Write FILE with numerical columns permuted among neighbours in rank, and what is guaranteed, to a new folder.

    Values are carried as they are written, numbers in CSV text included; missing ones stay where they are. All
    other columns are released unchanged. :func:`postrand.verify` recomputes what is guaranteed.

    Raises
    ------
    UsageError
        If a column is unknown or named twice, or has fewer values than the law's smallest run.
    DataError
        If a value is not a finite number.
    """
    file, out, key = Path(file), Path(out), as_release_key(release_key)
    table = proofs.read_table(file)
    raise_all(UsageError, _problems(columns, table.column_names, file.name))
    for name in columns:
        column = table[name]
        present = np.flatnonzero(pc.is_valid(column).to_numpy())
        positions = np.arange(table.num_rows)
        positions[present] = present[permutation(numbers(column, name), law, key, name=name)]
        table = table.set_column(table.column_names.index(name), table.field(name), column.take(positions))
    return _write(out, [table], file.suffix.lower(), proofs.law_method(law), columns, key)


def anatomise_file(
    file: str | Path, out: str | Path, key_variables: Sequence[str], k: int, release_key: ReleaseKey | None = None
) -> dict[str, Any]:
    """Write the two tables of FILE's Anatomy release, and what is guaranteed, to a new folder; raises as anatomise."""
    file, out, key = Path(file), Path(out), as_release_key(release_key)
    release = anatomise(proofs.read_table(file), key_variables, k, key)
    method = {"model": proofs.ANATOMY, "k": k}
    return _write(out, [release.keys, release.others], file.suffix.lower(), method, key_variables, key)


def _problems(columns: Sequence[str], known: Sequence[str], where: str) -> list[str]:
    missing = [sentence(f"no column {n!r}", where=where, wanted=", ".join(known)) for n in columns if n not in known]
    return missing + [
        sentence(f"column {n!r} is named twice") for n in sorted({n for n in columns if columns.count(n) > 1})
    ]


def _write(
    out: Path,
    tables: Sequence[pa.Table],
    suffix: str,
    method: Mapping[str, Any],
    columns: Sequence[str],
    key: ReleaseKey,
) -> dict[str, Any]:
    """Write tables, and the proofs made of them as they are on the disk; return the certificate."""
    with appearing(out) as folder:
        for name, table in zip(proofs.names_of(method, suffix), tables, strict=True):
            with formats.open_writer(folder / name, table.schema) as writer:
                for batch in table.to_batches(max_chunksize=formats.BATCH_ROWS):
                    writer.write(batch)
        proofs.write_proofs(folder, suffix, method, columns, key.is_private)
    certificate: dict[str, Any] = json.loads((out / CERTIFICATE).read_text("utf-8"))
    return certificate
