"""The columns of a file beside its keys, of which attackers see those that a mechanism leaves unperturbed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.codebook.variable import RELEASED_ROLES
from postrand.mechanism import Mechanism
from postrand.risk.cells import KeyCodes
from postrand.risk.data import columns_in, read_columns
from postrand.risk.shown import MOST_RECORDS, Shown, shown_of


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Reads columns of ``data`` when they are wanted, each once: those that are there, and that the codebook releases.

    Numbers of households are none of them: what these show is known to every attacker.
    """

    data: Any
    codebook: Codebook
    _read: dict[str, pa.ChunkedArray] = field(default_factory=dict, repr=False)
    _found: dict[tuple[str, ...], Shown | None] = field(default_factory=dict, repr=False)

    def shown(self, keys: KeyCodes, mechanism: Mechanism) -> Shown | None:
        """Return what the columns that a mechanism leaves unperturbed show of the keys; None where nothing."""
        changed = {*mechanism.variables, *(column.variable for column in mechanism.numerical), *keys.names}
        out = [v for v in self.codebook.with_role(*RELEASED_ROLES) if v.role != "household"]
        there = columns_in(self.data)
        beside = [v for v in out if v.name in there and v.name not in changed]
        names = tuple(v.name for v in beside)
        if keys.records > MOST_RECORDS:
            return None
        if names not in self._found:
            if new := [v for v in beside if v.name not in self._read]:
                numbers = [v.name for v in new if not v.is_categorical]
                self._read.update(read_columns(self.data, [v.name for v in new], numbers))
            coded = {v.name for v in beside if v.is_categorical}
            self._found[names] = shown_of(keys, {name: self._read[name] for name in names}, coded)
        return self._found[names]
