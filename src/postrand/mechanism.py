"""The mechanism: independent blocks of variables, each with its transition matrix."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, nearest, raise_all, sentence
from postrand.matrix import TransitionMatrix

Provenance = Literal["public", "dp", "confidential", "unstated"]
"""Where the prior behind a matrix came from (method: a matrix tuned on confidential counts leaks a little)."""

PROVENANCES: tuple[str, ...] = get_args(Provenance)
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Block:
    """Perturb one variable, or several jointly, with one transition matrix.

    The cells of a joint block are the combinations of the variables' codes in C order (the last variable varies
    fastest), or the rows of ``cells``, shape (K, J), where only some combinations are feasible.

    Raises
    ------
    SpecificationError
        If a variable is named twice, or ``cells`` does not have one distinct row for each category of the matrix.
    """

    variables: tuple[str, ...]
    matrix: TransitionMatrix
    cells: tuple[tuple[int, ...], ...] | None = None
    provenance: Provenance = "unstated"

    def __post_init__(self) -> None:
        names = (self.variables,) if isinstance(self.variables, str) else tuple(self.variables)
        object.__setattr__(self, "variables", names)
        if self.cells is not None:
            object.__setattr__(self, "cells", tuple(tuple(int(c) for c in row) for row in self.cells))
        raise_all(SpecificationError, _block_problems(self))

    @property
    def name(self) -> str:
        """The variables, joined by ``*``."""
        return "*".join(self.variables)

    def cell_table(self, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Return the codes of each cell, shape (K, J), given the number of codes of each variable."""
        if self.cells is not None:
            return np.array(self.cells, dtype=np.int32)
        return np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T


@dataclass(frozen=True, slots=True, init=False)
class Mechanism:
    """A product of independent blocks, bound to a codebook or to the categories of the frames it meets.

    Parameters
    ----------
    blocks
        ``{"sex": M, ("age", "race"): M2}``, or a sequence of :class:`Block`.
    codebook
        Describes the variables; optional for frames with categorical types, which describe themselves.

    Raises
    ------
    SpecificationError
        If a variable is in two blocks or not in the codebook, or a matrix does not fit its variables.

    Examples
    --------
    >>> from postrand.codebook import Variable
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> mech = Mechanism({"sex": M}, codebook=Codebook((Variable("sex", role="key", categories=("F", "M")),)))
    >>> mech.variables, mech["sex"].matrix.size
    (('sex',), 2)
    """

    blocks: tuple[Block, ...]
    codebook: Codebook | None

    def __init__(
        self,
        blocks: Mapping[str | tuple[str, ...], TransitionMatrix] | Iterable[Block],
        codebook: Codebook | None = None,
    ) -> None:
        if isinstance(blocks, Mapping):
            # A bare string is one variable; Block makes the tuple.
            blocks = [Block(names, matrix) for names, matrix in blocks.items()]  # type: ignore[arg-type]
        object.__setattr__(self, "blocks", tuple(blocks))
        object.__setattr__(self, "codebook", codebook)
        raise_all(SpecificationError, _mechanism_problems(self))

    @property
    def variables(self) -> tuple[str, ...]:
        """The perturbed variables, block by block."""
        return tuple(name for block in self.blocks for name in block.variables)

    def __getitem__(self, variable: str) -> Block:
        for block in self.blocks:
            if variable in block.variables:
                return block
        raise SpecificationError(
            sentence(
                f"no block perturbs {variable!r}{nearest(variable, self.variables)}",
                wanted=", ".join(self.variables),
            )
        )

    def bind(self, codebook: Codebook) -> Mechanism:
        """Return this mechanism with the codebook; raises SpecificationError where they do not fit."""
        return Mechanism(self.blocks, codebook)

    def require_codebook(self) -> Codebook:
        """Return the codebook; raises SpecificationError where the mechanism is not bound to one."""
        if self.codebook is None:
            raise SpecificationError(
                sentence(
                    "the mechanism has no codebook",
                    fix="pass codebook=..., or use a frame with categorical types",
                )
            )
        return self.codebook

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: blocks with integer weights, and the categories that they act on."""
        data: dict[str, Any] = {
            "schema": f"postrand/mechanism/{SCHEMA_VERSION}",
            "unit": "2^-53",
            "orientation": "rows true, columns released",
            "blocks": [_block_to_dict(block) for block in self.blocks],
        }
        if self.codebook is not None:
            data["variables"] = [_law_of_variable(self.codebook, name) for name in self.variables]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], codebook: Codebook | None = None) -> Mechanism:
        """Build a mechanism from plain data (the inverse of :meth:`to_dict`, the codebook travelling apart).

        Raises
        ------
        SpecificationError
            If the schema is unknown, a field is missing, or the categories differ from the codebook's.
        """
        wanted = f"postrand/mechanism/{SCHEMA_VERSION}"
        if data.get("schema") != wanted:
            raise SpecificationError(sentence("unknown mechanism schema", got=data.get("schema"), wanted=wanted))
        try:
            blocks = [_block_from_dict(entry) for entry in data["blocks"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SpecificationError(sentence("a block of the mechanism is not well formed", got=repr(error))) from None
        mechanism = cls(blocks, codebook)
        if codebook is not None and mechanism.to_dict().get("variables") != data.get("variables"):
            raise SpecificationError(sentence("the mechanism's categories differ from the codebook's"))
        return mechanism

    def digest(self) -> str:
        """Return the SHA-256 of the law: blocks, weights, variables and categories, as hexadecimal.

        Provenance is not part of the law; two mechanisms with one law share a digest.
        """
        data = self.to_dict()
        for block in data["blocks"]:
            block.pop("provenance")
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _block_problems(block: Block) -> Iterable[str]:
    where = f"block {block.name!r}"
    if not block.variables or not all(isinstance(n, str) and n for n in block.variables):
        yield sentence("a block names no variable", where=where)
    if len(set(block.variables)) != len(block.variables):
        yield sentence("a variable is named twice", where=where)
    if not isinstance(block.matrix, TransitionMatrix):
        yield sentence("not a TransitionMatrix", where=where, got=type(block.matrix).__name__, fix="use from_array")
        return
    if block.provenance not in PROVENANCES:
        yield sentence(f"unknown provenance {block.provenance!r}", where=where, wanted=", ".join(PROVENANCES))
    if block.cells is not None:
        rows = block.cells
        if len(rows) != block.matrix.size or {len(row) for row in rows} != {len(block.variables)}:
            yield sentence("cells do not fit the matrix", where=where, wanted=f"{block.matrix.size} rows of codes")
        elif len(set(rows)) != len(rows):
            yield sentence("a cell is listed twice", where=where)


def _mechanism_problems(mechanism: Mechanism) -> Iterable[str]:
    if not mechanism.blocks:
        yield sentence("a mechanism has no blocks", fix="name at least one variable to perturb")
    names = mechanism.variables
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield sentence(f"variable {name!r} is in two blocks")
    if mechanism.codebook is not None:
        for block in mechanism.blocks:
            yield from _fit_problems(block, mechanism.codebook)


def _fit_problems(block: Block, codebook: Codebook) -> Iterable[str]:
    where = f"block {block.name!r}"
    unknown = [n for n in block.variables if n not in codebook]
    for name in unknown:
        yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
    if unknown:
        return
    variables = [codebook[n] for n in block.variables]
    for v in variables:
        if not v.is_categorical:
            yield sentence(f"variable {v.name!r} has no categories", where=where, fix="list them in the codebook")
    shape = tuple(v.size for v in variables)
    if block.cells is not None:
        if any(not 0 <= c < s for row in block.cells for c, s in zip(row, shape, strict=True)):
            yield sentence("a cell has a code outside its variable's range", where=where, wanted=f"codes below {shape}")
    elif block.matrix.size != math.prod(shape):
        yield sentence(
            "the matrix does not fit the categories",
            where=where,
            got=block.matrix.size,
            wanted=math.prod(shape),
        )


def _block_to_dict(block: Block) -> dict[str, Any]:
    data: dict[str, Any] = {
        "variables": list(block.variables),
        "provenance": block.provenance,
        "weights": block.matrix.weights.tolist(),
    }
    if block.cells is not None:
        data["cells"] = [list(row) for row in block.cells]
    return data


def _block_from_dict(entry: Mapping[str, Any]) -> Block:
    cells = entry.get("cells")
    return Block(
        variables=tuple(entry["variables"]),
        matrix=TransitionMatrix(np.array(entry["weights"])),
        cells=None if cells is None else tuple(tuple(row) for row in cells),
        provenance=entry["provenance"],
    )


def _law_of_variable(codebook: Codebook, name: str) -> dict[str, Any]:
    variable = codebook[name]
    law = {"name": name, "categories": list(variable.categories), "missing": variable.missing}
    return law
