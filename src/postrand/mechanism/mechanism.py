"""The mechanism: independent blocks of variables, each with its transition matrix, and at most one split beside."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.codebook import Codebook
from postrand.codebook.not_released import not_released_problems
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.mechanism.block import Block
from postrand.mechanism.block_data import BLOCK_FIELDS, block_from_dict, block_to_dict, declared_size, refuse_unknown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import Constant
from postrand.mechanism.one_member import one_member_problems
from postrand.mechanism.reading import reading_problems
from postrand.mechanism.split import Split
from postrand.mechanism.split_data import entries_of, sizes_of, split_from_dict, split_to_dict
from postrand.mechanism.units import Units, unit_problems
from postrand.ranks.column import RankedColumn, column_problems
from postrand.support import saving
from postrand.support.inputs import listed
from postrand.support.showing import few

SCHEMA_VERSION = 2
NO_MODEL = "ask the unbiased estimators ('postrand estimate' without --method), which need no such model"
MAX_ENTRIES = 1 << 28
"""Most entries of all matrices of a mechanism: 2 GiB, which a compact form can request in a file of a few kilobytes.
Matrices that are constant off the diagonal are not counted: they are stored as two numbers for each row."""


@dataclass(frozen=True, slots=True, init=False)
class Mechanism:
    """A product of independent blocks, bound to a codebook or to the categories of the data frames.

    Parameters
    ----------
    blocks
        ``{"sex": M, ("age", "race"): M2}``, or a sequence of :class:`Block`.
    codebook
        Describes the variables; optional for frames with categorical types, which list their categories.
    numerical
        Numerical variables that are released by a rank law, each as a separate column.
    split
        Variables of which each record shows a random subset, see :class:`Split`; there may be no blocks beside it.
    units
        The columns that tell which records are one household's or person's, see :class:`Units`; needed by blocks whose
        ``unit`` is not the record.

    Raises
    ------
    SpecificationError
        If a variable is in two blocks, in a block and the split, or not in the codebook, or a matrix does not fit its
        variables.

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
    numerical: tuple[RankedColumn, ...]
    split: Split | None
    units: Units | None

    def __init__(
        self,
        blocks: Mapping[Any, TransitionMatrix] | Iterable[Block],  # Any: a mapping type is invariant in its keys
        codebook: Codebook | None = None,
        numerical: Iterable[RankedColumn] = (),
        split: Split | None = None,
        units: Units | None = None,
    ) -> None:
        if isinstance(blocks, Mapping):
            # A bare string is one variable; Block makes the tuple.
            blocks = [Block(names, matrix) for names, matrix in blocks.items()]
        for name, kind, value in (("blocks", Block, blocks), ("numerical", RankedColumn, numerical)):
            held = listed(value)
            if held is None or not all(isinstance(one, kind) for one in held):
                got = shown(value, repr)
                raise SpecificationError(sentence(f"a mechanism's {name} are not a list of {kind.__name__}", got=got))
            object.__setattr__(self, name, held)
        if not isinstance(codebook, Codebook | None):
            raise SpecificationError(
                sentence("not a Codebook", got=shown(codebook, repr), fix="use Codebook.from_dict")
            )
        object.__setattr__(self, "codebook", codebook)
        if not isinstance(split, Split | None):
            raise SpecificationError(sentence("not a Split", got=shown(split, repr), fix="use Split.of"))
        object.__setattr__(self, "split", split)
        if not isinstance(units, Units | None):
            raise SpecificationError(sentence("not Units", got=shown(units, repr), fix="use Units(household=...)"))
        object.__setattr__(self, "units", units)
        raise_all(SpecificationError, _mechanism_problems(self))

    def __repr__(self) -> str:
        told = [f"{' × '.join(block.perturbed)} (ε = {block.epsilon:.4g})" for block in self.blocks]
        blocks = few([*told, *([] if self.split is None else [repr(self.split)])])
        ranked = f"; ranks of {few([column.variable for column in self.numerical])}" if self.numerical else ""
        return f"Mechanism({blocks}{ranked}{'' if self.codebook else '; no codebook'})"

    @property
    def variables(self) -> tuple[str, ...]:
        """The perturbed variables, block by block, then those of the split."""
        return (*(name for block in self.blocks for name in block.perturbed), *self.partly)

    @property
    def listed(self) -> tuple[str, ...]:
        """The perturbed variables in the order of the codebook, in which sentences name them."""
        return self.variables if self.codebook is None else self.codebook.in_order(self.variables)

    @property
    def partly(self) -> tuple[str, ...]:
        """The variables of the split, which some records do not show."""
        return () if self.split is None else self.split.variables

    @property
    def shared(self) -> dict[str, tuple[str, ...]]:
        """The perturbed variables of which all records of a unit show one draw, by unit; the record is left out."""
        found: dict[str, tuple[str, ...]] = {}
        for block in self.blocks:
            if block.unit != "record":
                found[block.unit] = (*found.get(block.unit, ()), *block.perturbed)
        return found

    @property
    def given(self) -> tuple[str, ...]:
        """The variables that blocks read; another block can perturb them or not."""
        return tuple(dict.fromkeys(name for block in self.every_block for name in block.given))

    @property
    def every_block(self) -> tuple[Block, ...]:
        """The blocks, and those of the split's subsets."""
        return (*self.blocks, *(() if self.split is None else self.split.blocks))

    @property
    def designs(self) -> tuple[tuple[tuple[str, ...], Block], ...]:
        """The variables that were designed together, with a block of them: each block's, and those of the split.

        The subsets of a split have one origin of prior and budget, so any of its blocks states it.
        """
        split = () if self.split is None else ((self.split.variables, self.split.blocks[0]),)
        return (*((block.variables, block) for block in self.blocks), *split)

    @property
    def alternatives(self) -> tuple[tuple[Block, ...], ...]:
        """The blocks that one record may be released through: all, each time with another subset's of the split."""
        if self.split is None:
            return (self.blocks,)
        return tuple((*self.blocks, block) for block in self.split.blocks)

    def require_shown(self, names: Iterable[str], wanted: str = "a column that is released as it is") -> None:
        """Raise SpecificationError where one of the names is a variable of the split; ``wanted`` is what it can be."""
        for name in names:
            if name in self.partly:
                what = f"{name!r} is in the split, so no one block perturbs it and some records do not show it"
                raise SpecificationError(sentence(what, fix=f"use {wanted}"))

    def require_no_split(self, what: str) -> None:
        """Raise SpecificationError where there is a split: ``what`` has no law for values that are not released."""
        if self.split is not None:
            text = f"{what} cannot use a mechanism with a split: some of its records do not show every variable"
            fix = "perturb these variables in blocks, or ask the estimators ('postrand estimate') without it"
            raise SpecificationError(sentence(text, fix=fix))

    def require_all_members(self, what: str, fix: str = NO_MODEL) -> None:
        """Raise SpecificationError where one member of each household shows the split: ``what`` weighs all alike."""
        if self.split is not None and self.split.of_members:
            text = f"one random member of each household shows {few(self.partly)}, and {what} does not know this law"
            raise SpecificationError(sentence(text, fix=fix))

    def require_own_draws(self, what: str, fix: str = NO_MODEL) -> None:
        """Raise SpecificationError where records of one unit share a draw: ``what`` takes draws as independent."""
        for unit, names in self.shared.items():
            text = f"all records of a {unit} share one draw of {few(names)}, and {what} takes draws as independent"
            raise SpecificationError(sentence(text, fix=fix))

    def __getitem__(self, variable: str) -> Block:
        for block in self.blocks:
            if variable in block.perturbed:
                return block
        self.require_shown([variable], "a variable of a block")
        raise SpecificationError(
            sentence(
                f"no block perturbs {variable!r}{nearest(variable, self.variables)}",
                wanted=", ".join(self.variables),
            )
        )

    def bind(self, codebook: Codebook) -> Mechanism:
        """Return this mechanism with the codebook; raises SpecificationError if they do not match."""
        return Mechanism(self.blocks, codebook, self.numerical, self.split, self.units)

    def require_codebook(self) -> Codebook:
        """Return the codebook; raises SpecificationError if the mechanism is not bound to one."""
        if self.codebook is None:
            raise SpecificationError(
                sentence(
                    "the mechanism has no codebook",
                    fix="pass codebook=..., or use a frame with categorical types",
                )
            )
        return self.codebook

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: blocks with integer weights, and the categories that they act on.

        Each matrix has one form, and :meth:`from_dict` refuses any other. Weights are rows, except for blocks of 64
        categories or more whose rows are constant off the diagonal: ``{"diagonal": [...], "off": [...]}``; and else for
        those on listed cells where at most half of the entries differ from the row's most frequent one (the smallest of
        several): ``{"usual": [...], "columns": [[...], ...], "weights": [[...], ...]}``.
        """
        data: dict[str, Any] = {
            "schema": f"postrand/mechanism/{SCHEMA_VERSION}",
            "unit": "2^-53",
            "orientation": "rows true, columns released",
            "blocks": [block_to_dict(block) for block in self.blocks],
        }
        if self.codebook is not None:
            names = dict.fromkeys((*self.variables, *self.given))
            data["variables"] = [_law_of_variable(self.codebook, name) for name in names]
        if self.numerical:
            data["numerical"] = [column.to_dict() for column in self.numerical]
        if self.split is not None:
            data["split"] = split_to_dict(self.split)
        if self.units is not None:
            data["units"] = self.units.to_dict()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], codebook: Codebook | None = None) -> Mechanism:
        """Build a mechanism from plain data (the inverse of :meth:`to_dict`; the codebook is separate).

        Raises
        ------
        SpecificationError
            If schema or a field is unknown, a field is missing, or the categories differ from the codebook's.
        """
        wanted = f"postrand/mechanism/{SCHEMA_VERSION}"
        if data.get("schema") != wanted:
            raise SpecificationError(sentence("unknown mechanism schema", got=data.get("schema"), wanted=wanted))
        refuse_unknown(data, _FIELDS)
        subsets = entries_of(data.get("split"))
        try:
            sizes = [declared_size(entry["weights"]) for entry in data["blocks"]]
            raise_all(SpecificationError, _size_problems([*sizes, *sizes_of(subsets)]))
            for entry in data["blocks"]:
                refuse_unknown(entry, BLOCK_FIELDS)
            blocks = [block_from_dict(entry) for entry in data["blocks"]]
            numerical = [RankedColumn.from_dict(entry) for entry in data.get("numerical", ())]
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise SpecificationError(sentence("a block of the mechanism is not valid", got=repr(error))) from None
        mechanism = cls(blocks, codebook, numerical, split_from_dict(subsets), Units.from_dict(data.get("units")))
        if codebook is not None and mechanism.to_dict().get("variables") != data.get("variables"):
            raise SpecificationError(sentence("the mechanism's categories differ from the codebook's"))
        return mechanism

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the mechanism and its codebook to a file that :func:`postrand.load_mechanism` reads.

        Raises
        ------
        UsageError
            If the file exists and ``replace`` is not set, or it cannot be written.
        """
        book = {} if self.codebook is None else {"codebook": self.codebook.to_dict()}
        saving.save(path, "mechanism", {"mechanism": self.to_dict(), **book}, replace=replace)

    def digest(self) -> str:
        """Return the SHA-256 of :meth:`to_dict` as hexadecimal: of the matrices and of their origins.

        Draws depend on the digest: the same matrix with two different stated origins gives two independent releases.
        """
        data = self.to_dict()
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load_mechanism(path: str | Path) -> Mechanism:
    """Read a mechanism that :meth:`Mechanism.save` wrote, bound to its codebook if it had one.

    Raises
    ------
    SpecificationError
        If the file holds anything else, or its parts do not fit each other.
    """
    with saving.reading(path, "mechanism") as data:
        book = data.get("codebook")
        return Mechanism.from_dict(data["mechanism"], None if book is None else Codebook.from_dict(book))


_FIELDS = {"schema", "unit", "orientation", "blocks", "variables", "numerical", "split", "units"}


def _mechanism_problems(mechanism: Mechanism) -> Iterable[str]:
    if not mechanism.every_block:
        yield sentence("a mechanism has no blocks", fix="name at least one variable to perturb")
    matrices = [block.matrix for block in mechanism.every_block if isinstance(block.matrix, TransitionMatrix)]
    yield from _size_problems(m.size for m in matrices if not isinstance(m.form, Constant))
    names, partly = mechanism.variables, mechanism.partly
    for name in sorted({n for n in names if names.count(n) > 1}):
        places = "a block and in the split" if name in partly else "two blocks"
        yield sentence(f"variable {name!r} is in {places}")
    for name in sorted({n for block in mechanism.blocks for n in block.given} & {*partly}):
        fix = "put the block's variables into the split too, or take the given variable out of it"
        yield sentence(f"a block reads {name!r}, which some records do not show", fix=fix)
    yield from dict.fromkeys(p for blocks in mechanism.alternatives for p in reading_problems(blocks))
    roles = {} if mechanism.codebook is None else {v.name: v.role for v in mechanism.codebook.variables}
    yield from unit_problems(mechanism.units, mechanism.every_block, roles)
    yield from column_problems(mechanism.numerical, (*names, *mechanism.given), mechanism.codebook)
    if mechanism.codebook is not None:
        for block in mechanism.every_block:
            fits = [*_fit_problems(block, mechanism.codebook)]
            yield from fits or one_member_problems(block, mechanism.codebook)
        yield from not_released_problems(mechanism.codebook, partly)


def _size_problems(sizes: Iterable[int]) -> Iterable[str]:
    entries = sum(size * size for size in sizes)
    if entries > MAX_ENTRIES:
        fix = "merge categories, or perturb fewer variables jointly"
        yield sentence("the matrices have too many entries", got=f"{entries:,}", wanted=f"<= {MAX_ENTRIES:,}", fix=fix)


def _fit_problems(block: Block, codebook: Codebook) -> Iterable[str]:
    where = f"block {block.name!r}"
    unknown = [n for n in block.variables if n not in codebook]
    for name in unknown:
        yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
    if unknown:
        return
    variables = [codebook[n] for n in block.variables]
    for name in block.given:
        if codebook[name].role not in ("key", "sensitive", "other", "household"):
            what = f"given variable {name!r} is not released, so analysts could not know which matrix was used"
            yield sentence(what, where=where, got=f"role {codebook[name].role!r}", fix="release it")
    for v in variables:
        if not v.is_categorical:
            yield sentence(f"variable {v.name!r} has no categories", where=where, fix="list them in the codebook")
        elif v.missing == "keep" and (len(variables) > 1 or block.cells is not None):
            # A missing value is in no cell, and no row of the matrix applies to the other variables of such a record.
            yield _missing_problem(v.name, block)
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
            fix="count 'missing' too where a variable's missing values are a category",
        )


def _missing_problem(name: str, block: Block) -> str:
    """Return the sentence about a variable with missing values for which the block has no probabilities."""
    fix = "set missing = 'category', which makes it one category more, or complete the records and set 'error'"
    if name in block.given:
        how = f"read by the block that perturbs {', '.join(block.perturbed)} (rules or strata link them)"
    elif block.given:
        how = f"perturbed by a matrix that depends on {', '.join(block.given)}"
    elif len(block.variables) > 1:
        how, fix = "perturbed jointly", f"{fix}, or perturb it in a block of its own where no rule links it"
    else:
        how = "perturbed within classes only"
    return sentence(f"variable {name!r} keeps missing values, and is {how}", where=f"block {block.name!r}", fix=fix)


def _law_of_variable(codebook: Codebook, name: str) -> dict[str, Any]:
    variable = codebook[name]
    law = {"name": name, "categories": list(variable.categories), "missing": variable.missing}
    return law
