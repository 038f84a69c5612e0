"""One small release that the tests write, read, and forge."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from postrand import formats, release
from postrand.certification.certificate import Claim, Facts, claims_from_dict, recertify
from postrand.codebook import Codebook, Variable, coding
from postrand.engines.summary import summarise
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.metadata import Description
from postrand.privacy import DifferentialPrivacy
from postrand.release import canonical_json
from postrand.release.bundle import derive

RECORDS = 400
FILES = {"data.parquet", "codebook.json", "mechanism.json", "certificate.json", "report.html", "manifest.json"}
FILES |= {"description.json", "ddi.xml", "croissant.json", "README.txt"}
CELLS = ((0, 0), (0, 1), (1, 1), (1, 2))
BOOK = Codebook(
    (
        Variable("id", role="record_key", type="int64"),
        Variable("sex", role="key", categories=("F", "M"), labels=("Female", "Male"), label="Sex"),
        Variable("region", role="key", categories=("n", "e", "s", "w"), missing="category"),
        Variable("work", role="sensitive", categories=(0, 1), type="int64"),
        Variable("hours", role="sensitive", categories=("none", "part", "full")),
        Variable("town", role="other", categories=("a", "b", "gone")),
        Variable("weight", role="weight", type="double"),
        Variable("name", role="drop"),
    )
)
# The last category of town is never released.
TOWN = TransitionMatrix(np.array([[UNIT - 8, 8, 0], [8, UNIT - 8, 0], [UNIT // 2, UNIT // 2, 0]]))
LAW = Mechanism(
    [
        Block(("sex",), randomised_response(2, 1.0), provenance="public"),
        Block(("region",), randomised_response(5, 2.0), provenance="confidential"),
        Block(("work", "hours"), randomised_response(4, 1.5), cells=CELLS, provenance="dp"),
        Block(("town",), TOWN),
    ],
    BOOK,
)
CLAIMS = (
    Claim(DifferentialPrivacy(4.5), ("sex", "region", "work", "hours")),
    Claim(DifferentialPrivacy(1.0), ("sex",)),
)


def released_table() -> pa.Table:
    """Draw released values at random from every cell that the law releases."""
    rng = np.random.default_rng(20240)
    cell = np.array(CELLS)[rng.integers(0, 4, RECORDS)]
    codes = {"sex": 2, "region": 5, "town": 2}
    drawn = {name: rng.integers(0, size, RECORDS) for name, size in codes.items()}
    drawn |= {"work": cell[:, 0], "hours": cell[:, 1]}
    columns = {
        v.name: coding.decode(drawn[v.name], v) if v.is_categorical else pa.array(rng.integers(1, 9, RECORDS) / 4)
        for v in BOOK.variables
        if v.role not in ("record_key", "drop")
    }
    return pa.table(columns)


def without_missing() -> tuple[pa.Table, Mechanism]:
    """Return the case's records and law without missing values: some formats hold no missing text."""
    table = released_table()
    filled = table.set_column(1, "region", table["region"].cast(pa.string()).fill_null("n"))
    region = replace(BOOK["region"], missing="error")
    book = replace(BOOK, variables=tuple(region if v.name == "region" else v for v in BOOK.variables))
    blocks = [replace(b, matrix=randomised_response(4, 2.0)) if b.name == "region" else b for b in LAW.blocks]
    return filled, Mechanism(blocks, book)


def writer_of(table: pa.Table) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with formats.open_writer(path, table.schema) as sink:
            for batch in table.to_batches():
                sink.write(batch)

    return write


def make(directory: Path, table: pa.Table | None = None, **changed: Any) -> release.Release:
    """Write the case's release, with some arguments of ``write`` changed."""
    arguments: dict[str, Any] = {
        "data_writer": writer_of(released_table() if table is None else table),
        "data_name": "data.parquet",
        "mechanism": LAW,
        "claims": CLAIMS,
        "facts": Facts(),
    }
    return release.write(directory, **(arguments | changed))


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file's value and write it back in the project's form."""
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_bytes(canonical_json.dump(value))


def rehash(root: Path) -> None:
    """Write a manifest that fits the files, as a forger would."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"] = {
            p.name: {"bytes": p.stat().st_size, "sha256": hashlib.sha256(p.read_bytes()).hexdigest()}
            for p in sorted(root.iterdir())
            if p.name != "manifest.json" and p.is_file()
        }

    edit(root / "manifest.json", change)


def rebuild(root: Path, claims: Any = None) -> None:
    """Write every file that follows from others anew, as the best forger would, and a manifest that fits."""
    book = Codebook.from_dict(json.loads((root / "codebook.json").read_text()))
    law = Mechanism.from_dict(json.loads((root / "mechanism.json").read_text()), book)
    stated, facts = claims_from_dict(json.loads((root / "certificate.json").read_text()))
    certificate = recertify(law, stated if claims is None else claims, facts)
    told = json.loads((root / "description.json").read_text())
    told.pop("schema")
    data = root / json.loads((root / "manifest.json").read_text())["data"]
    for name, content in derive(law, certificate, summarise(data, law), data, Description(**told)).items():
        (root / name).write_bytes(content)
    rehash(root)
