"""Do two files have their records in the same order? Asked where no record key says which records are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.errors import DataError, PostrandError, raise_all, sentence
from postrand.release import canonical_json
from postrand.release.bundle import CERTIFICATE, MANIFEST
from postrand.release.whole_columns import ANATOMY, released
from postrand.support.inputs import read_bytes
from postrand.support.warned import warn
from postrand.workflow.alternative_files import CLAIMS

_KEY = "name the column that numbers the records (--record-key)"


class OrderWarning(UserWarning):
    """Two files seem to have their records in different orders, so that other records are compared."""


def check_order(places: Sequence[Path | formats.File], tables: Sequence[pa.Table], columns: Sequence[str]) -> None:
    """Raise DataError where files beside one of two files say that its records were shuffled; see :func:`_moved`.

    Warns
    -----
    OrderWarning
        If nothing is said of the order, and columns beside ``columns`` have the same values, but not record by record.
    """
    stated = [_is_shuffled(formats.path_of(place)) for place in places]
    raise_all(DataError, [_shuffled(formats.path_of(p)) for p, told in zip(places, stated, strict=True) if told])
    moved = [] if False in stated else _moved(tables[0], tables[1], columns)
    if moved:
        what = "the two files do not seem to be in the same order, and the distances are then those of other records: "
        what += f"they have the same values of {', '.join(moved)}, but not record by record"
        warn(sentence(what, fix=_KEY), OrderWarning, stacklevel=4)


def _shuffled(path: Path) -> str:
    what = "the two files are not in the same order: the records of this one were shuffled when it was made"
    again = "make it again in the order of the file (--keep-order of permute and average, shuffle = false in a plan)"
    return sentence(what, where=str(path), fix=f"{_KEY}, or {again}")


def _is_shuffled(path: Path) -> bool | None:
    """Return what the files beside a file say of the order of its records; None where they say nothing of it."""
    if _read(path.parent / CLAIMS).get("data") == path.name:
        return True
    listed = _read(path.parent / MANIFEST).get("files")
    if not isinstance(listed, dict) or not any(path.name in Path(name).parts for name in listed):
        return None
    certificate = _read(path.parent / CERTIFICATE)
    method, facts = certificate.get("method"), certificate.get("facts")
    is_anatomy = isinstance(method, dict) and method.get("model") == ANATOMY
    return is_anatomy or (bool(facts.get("order_is_shuffled")) if isinstance(facts, dict) else None)


def _read(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file of ours; nothing where it is not there, or another program's."""
    try:
        found = canonical_json.parse(read_bytes(path), where=path.name)
    except (OSError, PostrandError):
        return {}
    return found if isinstance(found, dict) else {}


def _moved(original: pa.Table, other: pa.Table, columns: Sequence[str]) -> list[str]:
    """Return the columns of both files, beside ``columns``, that have the same values, but not record by record.

    None where another such column agrees record by record: those may have been permuted, each by itself.

    >>> one = pa.table({"pay": [1, 2, 3], "sex": ["f", "m", "m"]})
    >>> _moved(one, one.take([2, 0, 1]), ["pay"]), _moved(one, one, ["pay"])
    (['sex'], [])
    """
    moved = []
    for name in original.column_names:
        if name in columns or name not in other.column_names:
            continue
        own, there = _comparable(original, name), _comparable(other, name)
        if own.equals(there):
            if pc.count_distinct(own, mode="all").as_py() > 1:
                return []
        elif own.type == there.type and _sorted(own).equals(_sorted(there)):
            moved.append(name)
    return moved


def _comparable(table: pa.Table, name: str) -> pa.Array:
    """Return a column as numbers where it has numbers alone, else as texts: formats differ in types."""
    texts = released(table.select([name]))[name].cast(pa.string()).combine_chunks()
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return texts


def _sorted(values: pa.Array) -> pa.Array:
    return values.take(pc.sort_indices(values))
