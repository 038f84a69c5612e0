"""The axis of a split: of all records, those count that show the variables asked, whichever subset they show.

Released cells are those of each part (:mod:`postrand.estimate.split_parts`) one after the other, so every estimator
that weighs released cells by a matrix B takes those of all subsets at once. A record has a weight for its subset, its
precision: from the published laws and a stated prior alone, because weights from released values would bias the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from postrand.codebook import Codebook, coding, not_released
from postrand.errors import DataError, EstimationError, sentence
from postrand.estimate.axes import Array, Axis, Operator
from postrand.estimate.split_members import standing_for
from postrand.estimate.split_parts import Part, parts_of
from postrand.mechanism import Block, Split
from postrand.mechanism.split_shown import subsets_shown

Codes = Mapping[str, NDArray[np.integer]]


@dataclass(frozen=True, slots=True, eq=False)
class CoveringLaw:
    """Hold the law of a record that shows the variables asked: part k with the probability ``shares[k]``."""

    parts: tuple[Part, ...]
    shares: Array

    @property
    def size(self) -> int:
        """The number R of released cells."""
        return sum(part.law.shape[1] for part in self.parts)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The released cells of each part."""
        ends = np.cumsum([part.law.shape[1] for part in self.parts])
        return tuple(slice(int(e) - p.law.shape[1], int(e)) for e, p in zip(ends, self.parts, strict=True))

    @property
    def closed(self) -> bool:
        """Whether the law depends on the cells asked alone."""
        return all(part.closed for part in self.parts)

    @property
    def average(self) -> Array:
        """The law, shape (X, R); under the prior where it depends on more than the cells asked."""
        pairs = zip(self.shares, self.parts, strict=True)
        return np.concatenate([share * part.law for share, part in pairs], axis=1)

    @property
    def array(self) -> Array:
        """The law, shape (X, R); raises EstimationError where it depends on more than the cells asked."""
        if not self.closed:
            what = "the law of what is shown of these variables depends on others, so they have no likelihood"
            fix = "use the unbiased estimate (method 'unbiased' or 'equations')"
            raise EstimationError(sentence(what, fix=fix))
        return self.average

    @property
    def identified(self) -> bool:
        """Whether every cell can be estimated without bias."""
        return all(part.identified for part in self.parts)

    @property
    def precision(self) -> Array:
        """The weight of a record of each part; 1 where not every cell is identified."""
        return np.array([part.precision if part.identified else 1.0 for part in self.parts])

    def times(self, values: Array) -> Array:
        """Return the expectation of values (R, n) of released cells given each cell asked, (X, n)."""
        terms = zip(self.shares, self.parts, self.slices, strict=True)
        return np.asarray(sum(share * (part.law @ values[at]) for share, part, at in terms))

    def factor(self) -> CoveringLaw:
        """Return what solves."""
        return self

    def solve(self, values: Array) -> Array:
        """Return b (R, n) with ``M_T b_T = values`` (X, n) in each part, where there is one."""
        return np.concatenate([part.values @ values for part in self.parts])

    def solve_transposed(self, values: Array) -> Array:
        """Return the sums (X, n) of what released counts (R, n) contribute."""
        pairs = zip(self.parts, self.slices, strict=True)
        return np.asarray(sum(part.values.T @ values[at] for part, at in pairs))

    def mixed(self, shares: Array) -> CoveringLaw:
        """Return the same law with other shares of the parts."""
        return replace(self, shares=shares / shares.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SplitAxis(Axis):
    """Describe the axis of the variables of a split that are asked; ``matrix`` is the law of what is released.

    ``household`` names the column of household numbers where one random member of each household shows a subset; a
    record then has the weight of its subset times the number of records of its household.
    """

    split: Split
    book: Codebook
    household: str = ""

    def __post_init__(self) -> None:
        """Accept a law from the cells asked to more released ones."""

    @property
    def law(self) -> CoveringLaw:
        """The law of a record that shows the variables."""
        assert isinstance(self.matrix, CoveringLaw)
        return self.matrix

    @property
    def size(self) -> int:
        """The number R of released cells, of all parts."""
        return self.law.size

    @property
    def looks(self) -> NDArray[np.intp]:
        """The true cell that each released one looks like, (R,)."""
        return np.concatenate([part.looks for part in self.law.parts])

    def unbiased(self) -> Operator:
        """Return the contribution of each released cell, (L, R); raises EstimationError where a cell has none."""
        if not self.law.identified:
            what, fix = "the matrices cannot answer the table without bias", "use fewer variables, or merge categories"
            fix += ", or ask for a release with invertible matrices"
            raise EstimationError(sentence(what, where=", ".join(self.names), fix=fix))
        project = self.projection
        values = np.concatenate([part.values for part in self.law.parts])
        return np.ascontiguousarray(values.T if project is None else project @ values.T)

    @property
    def probabilities(self) -> Array:
        """The probability that a record shows each part."""
        return _probabilities(self.split, self.law.parts)

    @property
    def weights(self) -> Array:
        """The weight of a record that shows each subset of the split, 0 where it does not count, (T,)."""
        found = np.zeros(len(self.split.subsets))
        for part, precision in zip(self.law.parts, self.law.precision, strict=True):
            found[list(part.places)] = precision / self.law.precision.max()
        return found

    def released(self, table: pa.Table) -> tuple[NDArray[np.intp], Array]:
        """Return the released cell of each record, -1 where it has none, and the weight of its subset, both (n,).

        A record whose subset counts, and which has no cell, misses a variable.

        Raises
        ------
        DataError
            If a record shows variables that are no subset of the split, or a value is not in the codebook.
        """
        codes = {n: not_released.encode(table.column(n), self.book[n]) for n in self.split.variables}
        given = {n: coding.encode(table.column(n), self.book[n]) for n in self._given()}
        place = subsets_shown(codes, self.split, {name: self.book[name].size for name in self.split.variables})
        cell = np.full(table.num_rows, -1, dtype=np.intp)
        for part, at in zip(self.law.parts, self.law.slices, strict=True):
            for k in part.places:
                mine = np.flatnonzero(place == k)
                index = _index(self.split.blocks[k], {**codes, **given}, mine, self, closed=part.closed)
                cell[mine] = np.where(index >= 0, index + at.start, -1)
        weight = np.append(self.weights, 0.0)[place]
        if self.household:
            weight *= standing_for(table.column(self.household), self.household, place < len(self.split.subsets))
        return cell, weight

    def _given(self) -> list[str]:
        used = [self.split.blocks[k] for part in self.law.parts for k in part.places]
        return list(dict.fromkeys(name for block in used for name in block.given))


def split_axis(
    split: Split,
    book: Codebook,
    variables: Sequence[str],
    prior: Mapping[str, ArrayLike] | None = None,
    household: str = "",
    *,
    shared: Sequence[str] = (),
) -> SplitAxis:
    """Return the axis of some variables of a split; raises as :func:`postrand.estimate.split_parts.parts_of`."""
    cells, parts = parts_of(split, book, variables, prior, shared=shared)
    shares = _probabilities(split, parts)
    labels = tuple(book[name].code_labels for name in variables)
    law = CoveringLaw(parts, shares / shares.sum())
    return SplitAxis(tuple(variables), labels, law, cells, tuple(range(len(labels))), split, book, household)


def _probabilities(split: Split, parts: Sequence[Part]) -> Array:
    return np.array([sum(split.subsets[k].probability for k in part.places) for part in parts])


def split_axes(axes: Sequence[Axis]) -> list[SplitAxis]:
    """Return the axes of a split: one, or none."""
    return [axis for axis in axes if isinstance(axis, SplitAxis)]


def _index(block: Block, codes: Codes, mine: NDArray[np.intp], axis: SplitAxis, *, closed: bool) -> NDArray[np.intp]:
    """Return the released cell of some records of one subset: the cell asked, or the block's; -1 where one misses."""
    columns = {name: codes[name][mine].astype(np.intp) for name in block.variables}
    present = np.all([column >= 0 for column in columns.values()], axis=0)
    find = partial(positions, where=block.name, columns=columns, present=present, book=axis.book)
    whole = find(block.variables, block.cell_table(())) if block.cells is not None else None
    if closed:
        return find(axis.names, axis.cells)
    return find(block.variables, None) if whole is None else whole


def positions(
    names: Sequence[str],
    cells: NDArray[np.int32] | None,
    *,
    where: str,
    columns: Codes,
    present: NDArray[np.bool_],
    book: Codebook,
) -> NDArray[np.intp]:
    """Return the place of each record's combination among listed cells, or all (None), -1 where it is not present.

    Raises
    ------
    DataError
        If a combination is not among the listed cells.
    """
    shape = tuple(book[name].size for name in names)
    found = np.full(len(present), -1, dtype=np.intp)
    index = np.ravel_multi_index([columns[name][present] for name in names], shape)
    if cells is None:
        found[present] = index
        return found
    known = np.ravel_multi_index(list(cells.T), shape)
    order = np.argsort(known)
    at = np.searchsorted(known[order], index).clip(max=len(known) - 1)
    if (known[order][at] != index).any():
        what = "the records contain a combination that the block does not list as feasible"
        raise DataError(sentence(what, where=f"block {where!r}"))
    found[present] = order[at]
    return found
