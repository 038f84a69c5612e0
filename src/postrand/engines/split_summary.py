"""Count the released records of a split: how many show each subset, and in which of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.engines.cells import Cells
from postrand.engines.split_members import MemberCounter
from postrand.errors import DataError, sentence
from postrand.mechanism import Split
from postrand.mechanism.split_sampling import grouped
from postrand.mechanism.split_shown import subsets_shown

MAX_AMONG, MAX_AMONG_COUNTS = 45, 1 << 16
"""Variables beside the split by whose values the subsets are counted, and counts of each."""


class SplitCounter:
    """Add up batches; ``records`` (T,) and ``cells``, (K_T,) for each subset, are the counts so far.

    A missing value that is kept is in no cell, but its record shows the subset. ``among[name]`` (S, T) are the records
    that show each subset, by the released values of a variable that is not in the split. ``members`` adds up the
    households of which one member shows a subset; None where every record shows one.
    """

    __slots__ = ("_cells", "_sizes", "_split", "among", "cells", "members", "records")

    def __init__(self, split: Split, codebook: Codebook) -> None:
        self._split = split
        self._sizes = {name: codebook[name].size for name in split.variables}
        self._cells = [Cells.of(block, codebook) for block in split.blocks]
        self.records = np.zeros(len(split.subsets), dtype=np.int64)
        self.cells = [np.zeros(block.matrix.size, dtype=np.int64) for block in split.blocks]
        beside = [v for v in codebook.variables if v.is_categorical and v.name not in split.variables]
        small = [v for v in beside if v.size * self.records.size <= MAX_AMONG_COUNTS][:MAX_AMONG]
        self.among = {v.name: np.zeros((v.size, self.records.size), dtype=np.int64) for v in small}
        self.members = MemberCounter([v.size for v in small]) if split.of_members else None

    def add(self, codes: Mapping[str, NDArray[Any]], households: pa.Array | None = None) -> None:
        """Count the released codes (n,) of a batch; ``households`` are their numbers, where one member shows a subset.

        Raises
        ------
        DataError
            If a record shows no subset of the split, or a combination that is not a cell of its subset.
        """
        shown = subsets_shown(codes, self._split, self._sizes)
        held = np.full(shown.size, -1, dtype=np.int32)
        who = shown < self.records.size
        self.records += np.bincount(shown[who], minlength=self.records.size)
        for name, counts in self.among.items():
            place = codes[name].astype(np.int64) * self.records.size + shown
            counts += np.bincount(place[(codes[name] >= 0) & who], minlength=counts.size).reshape(counts.shape)
        for k, at in grouped(shown, self.records.size + 1):
            if k == self.records.size:
                continue
            cells = self._cells[k]
            found = cells.find({name: codes[name][at] for name in cells.names})
            if cells.table is not None and (found < 0).any():
                what = "the release contains a combination that is not a cell of the subset"
                raise DataError(sentence(what, where=f"subset {' × '.join(cells.names)!r}"))
            self.cells[k] += np.bincount(found[found >= 0], minlength=self.cells[k].size)
            held[at] = found
        if self.members is not None:
            assert households is not None
            places = np.where(who, shown.astype(np.int32), np.int32(-1))
            self.members.add(households, places, held, [codes[name] for name in self.among])
