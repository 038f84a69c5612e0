"""What each released record says of the true one: exact codes, and for each block or the split one released cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.errors import DataError, raise_all, sentence
from postrand.estimate.evidence_clear import Clear
from postrand.estimate.evidence_laws import BlockLaws, factors
from postrand.estimate.evidence_variables import ModelVariable
from postrand.mechanism import Mechanism
from postrand.mechanism.split_shown import subsets_shown
from postrand.mixture import Evidence, Law
from postrand.mixture.evidence import UNKNOWN

Codes = dict[str, NDArray[Any]]


@dataclass(slots=True)
class Builder:
    """Collects what each record says: exact codes, and for each block or the split one law and one released cell."""

    described: Sequence[ModelVariable]
    clear: dict[str, Clear]
    codes: Codes
    book: Codebook
    records: int
    laws: list[Law] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    seen: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = field(default_factory=list)
    exact: NDArray[np.int32] = field(init=False)
    places: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.exact = np.full((self.records, len(self.described)), UNKNOWN, dtype=np.int32)
        self.places = {variable.name: place for place, variable in enumerate(self.described)}
        for name, found in self.clear.items():
            self.exact[:, self.places[name]] = found.codes

    def blocks(self, mechanism: Mechanism) -> None:
        """Add what the blocks released."""
        for block in (one for held in mechanism.blocks for one in factors(held, self.book)):
            laws = BlockLaws.of(block, self.book, self.places)
            law, released = np.full((2, self.records), -1, dtype=np.int32)
            self._add(laws, np.arange(self.records), law, released)
            self.seen.append((law, released))

    def split(self, mechanism: Mechanism) -> None:
        """Add what the subsets of the split released; each record shows one of them."""
        split = mechanism.split
        if split is None:
            return
        sizes = {name: self.book[name].size for name in split.variables}
        self._require_shown(split.variables, sizes)
        shown = subsets_shown(self.codes, split, sizes)
        law, released = np.full((2, self.records), -1, dtype=np.int32)
        for number, block in enumerate(split.blocks):
            rows = np.flatnonzero(shown == number)
            self._add(BlockLaws.of(block, self.book, self.places), rows, law, released)
        self.seen.append((law, released))

    def _add(
        self, found: BlockLaws, rows: NDArray[np.intp], law: NDArray[np.int32], released: NDArray[np.int32]
    ) -> None:
        """Write law and released cell of some records, and the codes of those that no law changed."""
        number = np.full(len(found.laws), -1, dtype=np.int32)
        for h, held in enumerate(found.laws):
            if held is not None:
                number[h] = len(self.laws)
                self.laws.append(held)
        at = [self.places[name] for name in found.block.perturbed]
        self.told.update(at[i] for i in range(len(at)) if at[i] not in found.blind())
        stratum, cell = found.seen(self.codes, self.book, rows)
        law[rows], released[rows] = np.where(stratum < 0, -1, number[stratum]), cell
        for h in np.flatnonzero(number < 0).tolist():
            same = stratum == h
            self.exact[np.ix_(rows[same], at)] = found.cells[h][cell[same]]
        for name, place in zip(found.block.perturbed, at, strict=True):
            # Only a variable alone in its block can keep missing values: they are known, and no law is about them.
            missing = rows[self.codes[name][rows] < 0]
            self.exact[missing, place] = self.described[place].size - 1

    def _require_shown(self, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        blank = [name for name in names if (self.codes[name] == sizes[name]).all()]
        fix = "complete a file with more records"
        raise_all(
            DataError, [sentence(f"no record shows {name!r}, so nothing is known of it", fix=fix) for name in blank]
        )

    def evidence(self, rules: NDArray[np.bool_]) -> Evidence:
        """Return all of it, the laws of each record one after the other."""
        law = np.stack([held for held, _ in self.seen], axis=1)
        released = np.stack([held for _, held in self.seen], axis=1)
        used = law >= 0
        start = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
        names, sizes = zip(*((variable.name, variable.size) for variable in self.described), strict=True)
        return Evidence(names, sizes, self.exact, start, law[used], released[used], tuple(self.laws), rules)
