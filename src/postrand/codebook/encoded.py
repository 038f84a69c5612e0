"""The codes of a column by a codebook: an error says the next step that fits how the column is recoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import coding
from postrand.codebook.codebook import Codebook
from postrand.recoding.base import steps_of
from postrand.recoding.rare import MergeRare


def encoded(column: pa.Array | pa.ChunkedArray, codebook: Codebook, name: str) -> NDArray[Any]:
    """Return the codes of the variable ``name``; raises as :func:`postrand.codebook.coding.encode`."""
    rules = [step for one in codebook.recodes if one.variable == name for step in steps_of(one.kind)]
    rule = next((step for step in rules if isinstance(step, MergeRare)), None)
    return coding.encode(column, codebook[name], "" if rule is None else _fix(rule, name))


def _fix(rule: MergeRare, name: str) -> str:
    """Return what to do with a value that is new in this version of the file: it is rare, as far as is known."""
    return (
        f"add the value to the list 'merged' in the recode of {name!r}, so that it counts as {rule.others!r}; the "
        "release names what is merged: if its name must not be known, list the frequent values in 'groups' instead, "
        "and leave the rest to 'others'; only if many records have it, add it to the categories of the codebook"
    )
