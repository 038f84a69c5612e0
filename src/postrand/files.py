"""Whole-column protection from file to folder: ranks of numerical columns permuted, or keys and the rest torn apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.anatomy import anatomise
from postrand.errors import DataError, UsageError, sentence
from postrand.numerical import RankLaw, permutation
from postrand.numerical.laws import beta_lower, describe
from postrand.randomness import ReleaseKey, as_release_key
from postrand.release.atomic import appearing

SCHEMA = "postrand/columns/1"


def permute_columns(
    file: str | Path, out: str | Path, columns: Sequence[str], law: RankLaw, release_key: ReleaseKey | None = None
) -> dict[str, Any]:
    """Write FILE with numerical columns permuted among neighbours in rank, and what is guaranteed, to a new folder.

    Values are carried as they are written, numbers in CSV text included; missing ones stay where they are. All
    other columns are released unchanged.

    Raises
    ------
    UsageError
        If a column is unknown, or has fewer values than the law's smallest run.
    DataError
        If a value is not a finite number.
    """
    file, out, key = Path(file), Path(out), as_release_key(release_key)
    table = _read(file)
    claims = []
    for name in columns:
        if name not in table.column_names:
            raise UsageError(sentence(f"no column {name!r}", where=file.name, wanted=", ".join(table.column_names)))
        column = table[name]
        present = np.flatnonzero(pc.is_valid(column).to_numpy())
        positions = np.arange(table.num_rows)
        positions[present] = present[permutation(_numbers(column, name)[present], law, key, name=name)]
        table = table.set_column(table.column_names.index(name), table.field(name), column.take(positions))
        text = describe(law, present.size)
        if present.size < table.num_rows:
            text += "; which records have a missing value is disclosed"
        claims.append({"column": name, "beta": beta_lower(law, present.size), "sentence": f"{name}: {text}."})
    facts = {"law": law.name, "claims": claims, "unchanged": [n for n in table.column_names if n not in columns]}
    return _write(out, {f"data{file.suffix.lower()}": table}, facts, key)


def anatomise_file(
    file: str | Path, out: str | Path, key_variables: Sequence[str], k: int, release_key: ReleaseKey | None = None
) -> dict[str, Any]:
    """Write the two tables of FILE's Anatomy release, and what is guaranteed, to a new folder; raises as anatomise."""
    file, out, key = Path(file), Path(out), as_release_key(release_key)
    release = anatomise(_read(file), key_variables, k, key)
    facts = {
        "law": "anatomy",
        "claims": [{"column": list(key_variables), "beta": release.beta, "sentence": f"{release.sentence}."}],
        "distinct_diversity": release.distinct_diversity,
        "entropy_diversity": release.entropy_diversity,
    }
    suffix = file.suffix.lower()
    return _write(out, {f"keys{suffix}": release.keys, f"others{suffix}": release.others}, facts, key)


def _read(file: Path) -> pa.Table:
    return pa.Table.from_batches(list(formats.read(file).batches())).unify_dictionaries().combine_chunks()


def _numbers(column: pa.ChunkedArray, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the values as numbers to rank by, NaN where missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowException:
        raise DataError(
            sentence(f"column {name!r} has values that are not numbers", fix="name another column")
        ) from None


def _write(out: Path, tables: dict[str, pa.Table], facts: dict[str, Any], key: ReleaseKey) -> dict[str, Any]:
    limits = ["The guarantee covers the choice of values among neighbours in rank, not the margin, which is released."]
    if facts["law"] == "anatomy":
        limits = ["Classes whose other values agree disclose them: see the diversity."]
    if not key.is_private:
        limits.insert(0, "The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE.")
    certificate = {"schema": SCHEMA, **facts, "not_covered": limits}
    with appearing(out) as folder:
        for name, table in tables.items():
            with formats.open_writer(folder / name, table.schema) as writer:
                for batch in table.to_batches(max_chunksize=formats.BATCH_ROWS):
                    writer.write(batch)
        (folder / "certificate.json").write_text(json.dumps(certificate, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return certificate
