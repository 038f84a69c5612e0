"""A block as plain data: its matrix in integer weights, each matrix in exactly one form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from postrand.errors import SpecificationError, raise_all, sentence, shown
from postrand.mechanism.block import Block
from postrand.mechanism.matrix import MAX_SIZE, TransitionMatrix
from postrand.mechanism.matrix_storage import CONSTANT_SIZE, Constant

BLOCK_FIELDS = frozenset(
    {"variables", "provenance", "weights", "cells", "given", "prior_epsilon", "budget", "unit", "one", "at_most_one"}
)


def block_to_dict(block: Block, weights: Any = None) -> dict[str, Any]:
    """Return plain data: see :meth:`postrand.Mechanism.to_dict`; ``weights`` are written in place of the usual form."""
    data: dict[str, Any] = {"variables": list(block.variables), "provenance": block.provenance}
    data["weights"] = weights_to_data(block) if weights is None else weights
    if block.cells is not None:
        data["cells"] = [list(row) for row in block.cells]
    if block.given:
        data["given"] = list(block.given)
    if block.prior_epsilon:
        data["prior_epsilon"] = block.prior_epsilon
    data |= {"budget": block.budget} if block.budget != "public" else {}
    data |= {"unit": block.unit} if block.unit != "record" else {}
    data |= {"one": block.one} if block.one is not None else {}
    return data | ({"at_most_one": block.at_most_one} if block.at_most_one is not None else {})


def weights_form(block: Block) -> Literal["rows", "diagonal", "usual"]:
    """Return the form in which a block's matrix is written; see :meth:`Mechanism.to_dict`."""
    if isinstance(block.matrix.form, Constant):
        return "diagonal"
    data = weights_to_data(block)
    return "rows" if isinstance(data, list) else "diagonal" if "off" in data else "usual"


def weights_to_data(block: Block) -> Any:
    """Return the one form in which this matrix is written: see :meth:`Mechanism.to_dict`."""
    form = block.matrix.form
    if isinstance(form, Constant):
        return {"diagonal": form.diagonal.tolist(), "off": form.off.tolist()}
    weights = form.weights
    if len(weights) < CONSTANT_SIZE or block.cells is None:
        return weights.tolist()
    usual = [int(values[counts.argmax()]) for values, counts in (np.unique(r, return_counts=True) for r in weights)]
    columns = [np.flatnonzero(row != most) for row, most in zip(weights, usual, strict=True)]
    if 2 * sum(map(len, columns)) > weights.size:
        return weights.tolist()
    return {
        "usual": usual,
        "columns": [at.tolist() for at in columns],
        "weights": [row[at].tolist() for row, at in zip(weights, columns, strict=True)],
    }


def declared_size(data: Any) -> int:
    """Return the size of the dense matrix that the data need, 0 if they need none."""
    if not isinstance(data, Mapping) or "usual" in data:
        return len(data if not isinstance(data, Mapping) else data["usual"])
    return len(data["off"]) if len(data["off"]) > MAX_SIZE else 0


def _matrix_from_data(data: Any) -> TransitionMatrix:
    if not isinstance(data, Mapping):
        return TransitionMatrix(_integers(data))
    if "off" in data:
        return TransitionMatrix.constant(_integers([data["diagonal"]])[0], _integers([data["off"]])[0])
    weights = np.repeat(_integers([data["usual"]]).T, len(data["usual"]), axis=1)
    for row, columns, values in zip(weights, data["columns"], data["weights"], strict=True):
        row[np.array(columns, dtype=np.int64)] = values
    return TransitionMatrix(weights)


def _integers(rows: Any) -> NDArray[np.int64]:
    """Return rows of integers; of a long text among them numpy would make a matrix of texts of its length."""
    if not all(type(value) is int for row in rows for value in row):
        raise TypeError("weights are not integers")
    return np.array(rows, dtype=np.int64)


def block_from_dict(entry: Mapping[str, Any], matrix: TransitionMatrix | None = None) -> Block:
    """Build a block from plain data, or with a matrix read apart; raises if its own is not in its only valid form."""
    cells = entry.get("cells")
    block = Block(
        variables=tuple(entry["variables"]),
        matrix=_matrix_from_data(entry["weights"]) if matrix is None else matrix,
        cells=None if cells is None else tuple(tuple(row) for row in cells),
        provenance=entry["provenance"],
        given=tuple(entry.get("given", ())),
        prior_epsilon=entry.get("prior_epsilon", 0.0),
        budget=entry.get("budget", "public"),
        unit=entry.get("unit") or "record",
        one=entry.get("one"),
        at_most_one=entry.get("at_most_one"),
    )
    if matrix is None and json.dumps(weights_to_data(block)) != json.dumps(entry["weights"]):
        raise ValueError("the weights are not in the only valid form of their matrix")
    return block


def refuse_unknown(data: Mapping[str, Any], known: Set[str]) -> None:
    """Refuse a field that could change what the others mean; an empty one is of a later version, and says nothing."""
    more = sorted(str(name) for name, value in data.items() if name not in known and value not in (None, "", [], {}))
    fix = "use a newer postrand, if one wrote this"
    raise_all(SpecificationError, [sentence(f"unknown field {shown(n, repr)} of a mechanism", fix=fix) for n in more])
