"""The columns of a file beside its keys: attackers see those that a mechanism leaves unperturbed, and what it draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.codebook.variable import RELEASED_ROLES
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.risk.cells import IntArray, KeyCodes
from postrand.risk.data import code_data, columns_in, key_codes, read_columns
from postrand.risk.latent import MOST_COLUMNS, Belief, Latent, is_small
from postrand.risk.sample import Sampled
from postrand.risk.shown import MOST_CLASSES, MOST_RECORDS, Shown, shown_of
from postrand.risk.singled import Codes
from postrand.risk.split_law import quietly


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Reads columns of ``data`` when they are wanted, each once: those that are there, and that the codebook releases.

    Numbers of households are none of them: what these show is known to every attacker.
    """

    data: Any
    codebook: Codebook
    _read: dict[str, pa.ChunkedArray] = field(default_factory=dict, repr=False)
    _found: dict[tuple[tuple[str, ...], tuple[str, ...]], Shown | None] = field(default_factory=dict, repr=False)
    _coded: dict[str, KeyCodes] = field(default_factory=dict, repr=False)
    _beliefs: dict[tuple[tuple[str, ...], str], Belief] = field(default_factory=dict, repr=False)

    def shown(self, keys: KeyCodes, mechanism: Mechanism, household: IntArray | None = None) -> Shown | None:
        """Return what the columns beside the keys show of these in a release; None where nothing.

        ``household`` (n,) are the households of the records, as for :func:`postrand.risk.split_law.law_of`.
        """
        if keys.records > MOST_RECORDS or keys.has_wildcards or not keys.records:
            return None
        clear, latent = self._unperturbed(keys, mechanism), self.latent(keys, mechanism, household)
        if latent is None:
            return clear
        return Shown((), (), (), (), (), latent) if clear is None else replace(clear, latent=latent)

    def _unperturbed(self, keys: KeyCodes, mechanism: Mechanism) -> Shown | None:
        beside = self._beside(keys, mechanism)
        place = keys.names, tuple(v.name for v in beside)
        if place not in self._found:
            coded = {v.name for v in beside if v.is_categorical}
            self._found[place] = shown_of(keys, self._columns(beside), coded)
        return self._found[place]

    def values(self, keys: KeyCodes, mechanism: Mechanism) -> dict[str, Codes]:
        """Return the class of each value of the columns that a mechanism leaves unperturbed, but of weights."""
        if keys.records > MOST_RECORDS:
            return {}
        beside = [v for v in self._beside(keys, mechanism) if v.role != "weight"]
        columns = self._columns(beside)
        return {name: Sampled(pa.table({name: held}), len(held), {}).codes(name) for name, held in columns.items()}

    def perturbed(self, keys: KeyCodes, mechanism: Mechanism) -> dict[str, KeyCodes]:
        """Return the keys with each other perturbed variable beside them, of a file that is not too large."""
        book, there = self.codebook, columns_in(self.data)
        other = [name for name in mechanism.variables if name in there and name not in keys.names]
        asked = other if keys.records <= MOST_RECORDS else []
        if new := [name for name in asked if name not in self._coded]:
            coded = code_data(self.data, new, book)
            self._coded.update({name: key_codes(coded, [name], "category") for name in new})
        read = {name: self._coded[name] for name in asked}
        return {name: keys.with_column(name, one.codes[0], one.shape[0]) for name, one in read.items()}

    def latent(self, keys: KeyCodes, mechanism: Mechanism, household: IntArray | None) -> Latent | None:
        """Return the other perturbed variables, which nobody knows; None without any, or if their law is not known."""
        if keys.has_wildcards or not keys.records:
            return None
        held = self.perturbed(keys, mechanism)
        truth, at = keys, len(keys.names)
        for name, both in held.items():
            truth = truth.with_column(name, both.codes[-1], both.shape[-1])
        if not 0 < len(held) <= MOST_COLUMNS or max(truth.shape[at:]) > MOST_CLASSES:
            return None
        try:
            law = quietly(mechanism, truth.names, truth.shape, household)
        except PostrandError:  # of a block that has more variables no law on these alone is known
            return None
        if not is_small(law, at):
            return None
        for name, both in held.items():
            place = keys.names, name
            if place not in self._beliefs:
                self._beliefs[place] = Belief.of(keys, both.codes[-1], both.shape[-1])
        return Latent(at, truth, law, tuple(self._beliefs[keys.names, name] for name in held))

    def _beside(self, keys: KeyCodes, mechanism: Mechanism) -> list[Variable]:
        changed = {*mechanism.variables, *(column.variable for column in mechanism.numerical), *keys.names}
        out = [v for v in self.codebook.with_role(*RELEASED_ROLES) if v.role != "household"]
        there = columns_in(self.data)
        return [v for v in out if v.name in there and v.name not in changed]

    def _columns(self, wanted: Sequence[Variable]) -> dict[str, pa.ChunkedArray]:
        """Return these columns, of which those that were not are read."""
        if new := [v for v in wanted if v.name not in self._read]:
            numbers = [v.name for v in new if not v.is_categorical]
            self._read.update(read_columns(self.data, [v.name for v in new], numbers))
        return {v.name: self._read[v.name] for v in wanted}
