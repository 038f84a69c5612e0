"""Release the variables of a split: each record's subset and its cell; every engine runs this on its batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import code_of
from postrand.engines.cells import Cells
from postrand.engines.units import showing
from postrand.mechanism import Mechanism
from postrand.mechanism.sampling import Sampler
from postrand.mechanism.split import Split
from postrand.mechanism.split_sampling import chosen, cumulated, grouped, split_words, subset_sampler
from postrand.support import loops

_PIECE = 1 << 13
"""Records whose combinations are looked up at a time: 64 KiB of positions."""


@dataclass(frozen=True, slots=True, eq=False)
class SplitCells:
    """Hold the cells of a split's subsets; ``variables`` are all that it shows or reads."""

    shown: tuple[str, ...]
    variables: tuple[Variable, ...]
    subsets: tuple[Cells, ...]

    @classmethod
    def of(cls, split: Split | None, codebook: Codebook) -> SplitCells:
        """Prepare a split; without one there is nothing to show or read."""
        if split is None:
            return cls((), (), ())
        planned = cls.planned(split.variables, split.given, codebook)
        return cls(planned.shown, planned.variables, tuple(Cells.of(block, codebook) for block in split.blocks))

    @classmethod
    def planned(cls, shown: Collection[str], given: Collection[str], codebook: Codebook) -> SplitCells:
        """Return what is known before the subsets are: all that the content of a file depends on.

        Variables are in the codebook's order, which the design does not change.
        """
        variables = [v for v in codebook.variables if v.name in shown or v.name in given]
        return cls(tuple(v.name for v in variables if v.name in shown), tuple(variables), ())

    @property
    def bases(self) -> tuple[int, ...]:
        """The number of codes of each variable, and one more for a missing value that is kept."""
        return tuple(variable.size + 1 for variable in self.variables)

    def digits(self, codes: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the true codes of each variable, for the content that draws are bound to."""
        return [codes[variable.name] for variable in self.variables]

    def check(self, codes: Mapping[str, NDArray[Any]]) -> None:
        """Refuse records before anything is drawn for them.

        Raises
        ------
        DataError
            If a combination is not feasible in some subset, whichever the record will show: what is refused must not
            depend on the draw.
        """
        partial = [(cells, _feasible(cells)) for cells in self.subsets if cells.is_partial]
        names = dict.fromkeys(name for cells, _ in partial for name in cells.names)
        for start in range(0, len(codes[self.shown[0]]) if partial else 0, _PIECE):
            # Wide once, and not for each subset; no code is negative, as listed cells keep no missing values.
            piece = {name: codes[name][start : start + _PIECE].astype(np.int32) for name in names}
            for cells, feasible in partial:
                if feasible is None or not feasible.take(_index(cells, piece)).all():
                    cells.positions(piece)  # raises, unless there was no table to look up


def _feasible(cells: Cells) -> NDArray[np.bool_] | None:
    """Return whether each C-order index of codes is in a cell; None where there are too many for a table."""
    return None if cells.lookup is None or cells.ravelled is not None else cells.lookup >= 0


def _index(cells: Cells, codes: Mapping[str, NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return the C-order index of each record's codes, in numbers that processors multiply several at a time."""
    index = codes[cells.names[0]]
    for name, base in zip(cells.names[1:], cells.shape[1:], strict=True):
        index = index * np.int32(base)
        index += codes[name]
    return index


@dataclass(frozen=True, slots=True, eq=False)
class SplitDraws:
    """Hold what a split needs to release any batch; threads can share it. ``blocks`` come before it in the words.

    ``members``: the keys of the records that show something, ascending; None where all do.
    """

    cells: SplitCells
    ends: NDArray[np.int64]
    laws: tuple[Sampler, ...]
    blocks: int
    members: NDArray[np.uint64] | None = None

    @classmethod
    def of(
        cls, mechanism: Mechanism, cells: SplitCells, members: NDArray[np.uint64] | None = None
    ) -> SplitDraws | None:
        """Prepare the samplers; None where there is no split."""
        if mechanism.split is None:
            return None
        laws = tuple(subset_sampler(block.matrix) for block in mechanism.split.blocks)
        return cls(cells, cumulated(mechanism.split), laws, len(mechanism.blocks), members)

    def released(
        self, draw_key: bytes, record_keys: NDArray[np.uint64], codes: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return the released codes of every variable that is shown, shape (n,): S where the record does not show it.

        ``codes`` are true ones, which :meth:`SplitCells.check` accepted when the content was taken.
        """
        shown = [variable for variable in self.cells.variables if variable.name in self.cells.shown]
        made = {v.name: np.full_like(codes[v.name], code_of(v)) for v in shown}
        who = showing(self.members, record_keys)
        choosing, drawing = split_words(draw_key, record_keys, self.blocks)
        places = chosen(self.ends, choosing)
        for k, found in grouped(places if who is None else places[who], len(self.laws)):
            at = found if who is None else who[found]
            cells, words = self.cells.subsets[k], drawing[at].reshape(1, -1, 1)
            true = np.ascontiguousarray(cells.positions({name: codes[name][at] for name in cells.names}))
            drawn = np.empty_like(true)
            loops.draw(words, 0, (self.laws[k].block(true, drawn),))
            for name, column in cells.codes(drawn).items():
                made[name][at] = column
        return made
