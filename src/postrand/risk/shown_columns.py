"""The columns of a file beside its keys: attackers see those that a mechanism leaves unperturbed, and what it draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.codebook.variable import RELEASED_ROLES
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.risk.cells import IntArray, KeyCodes
from postrand.risk.data import code_data, columns_in, key_codes, read_columns
from postrand.risk.latent import MOST_COLUMNS, MOST_TRUE, Belief, Latent
from postrand.risk.sample import Sampled
from postrand.risk.shown import MOST_CLASSES, MOST_RECORDS, Shown, classes_of, shown_of
from postrand.risk.singled import Codes
from postrand.risk.split_law import MAX_DENSE, quietly


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
    _latents: dict[tuple[tuple[str, ...], bool], tuple[Mechanism, Latent | None]] = field(
        default_factory=dict, repr=False
    )

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

    def with_classes(self, keys: KeyCodes, mechanism: Mechanism) -> KeyCodes:
        """Return the keys with the classes of the columns that a mechanism leaves unperturbed beside them.

        Of columns that a block reads, such as strata, these are the categories, by which the block has its matrices.
        """
        beside = self._beside(keys, mechanism) if keys.records <= MOST_RECORDS else []
        given = {name for block in mechanism.blocks for name in block.variables}
        read = [v.name for v in beside if v.name in given and v.is_categorical]
        rest = [v for v in beside if v.name not in given]
        held = classes_of(self._columns(rest), {v.name for v in rest if v.is_categorical})
        for name, one in self._codes(read).items():
            keys = keys.with_column(name, one.codes[0], one.shape[0])
        for name, (codes, size) in held.items():
            keys = keys.with_column(name, codes, size)
        return keys

    def perturbed(self, keys: KeyCodes, mechanism: Mechanism) -> dict[str, KeyCodes]:
        """Return the keys with each other perturbed variable beside them, of a file that is not too large."""
        there = columns_in(self.data)
        other = [name for name in mechanism.variables if name in there and name not in keys.names]
        read = self._codes(other if keys.records <= MOST_RECORDS else [])
        return {name: keys.with_column(name, one.codes[0], one.shape[0]) for name, one in read.items()}

    def _codes(self, names: Sequence[str]) -> dict[str, KeyCodes]:
        """Return the codes of these columns by their categories, each as a key of its own."""
        if new := [name for name in names if name not in self._coded]:
            coded = code_data(self.data, new, self.codebook)
            self._coded.update({name: key_codes(coded, [name], "category") for name in new})
        return {name: self._coded[name] for name in names}

    def latent(
        self, keys: KeyCodes, mechanism: Mechanism, household: IntArray | None, *, every: bool = False
    ) -> Latent | None:
        """Return the other perturbed variables, which nobody knows; None without any, or if their law is not known.

        Left out are those that say nothing of the keys in blocks of their own, unless ``every`` is wanted; and with
        their blocks those of too many values, or beyond ``MOST_COLUMNS``.
        """
        if keys.has_wildcards or not keys.records:
            return None
        place = keys.names, every
        if (held := self._latents.get(place)) is None or held[0] is not mechanism:
            self._latents[place] = mechanism, self._latent(keys, mechanism, household, every=every)
        return self._latents[place][1]

    def _latent(
        self, keys: KeyCodes, mechanism: Mechanism, household: IntArray | None, *, every: bool
    ) -> Latent | None:
        held = self.perturbed(keys, mechanism)
        size = {name: both.shape[-1] for name, both in held.items()}
        names = _weighable(mechanism, keys.names, size)
        if not every:
            names = self._telling(keys, mechanism, held, names)
        if not names:
            return None
        truth, at = keys, len(keys.names)
        for name in names:
            truth = truth.with_column(name, held[name].codes[-1], size[name])
        try:
            law = quietly(mechanism, truth.names, truth.shape, household)
        except PostrandError:  # of a block that has more variables no law on these alone is known
            return None
        return Latent(at, truth, law, tuple(self._belief(keys, held[name], name) for name in names))

    def weighed(self, keys: KeyCodes, mechanism: Mechanism, household: IntArray | None) -> tuple[str, ...]:
        """Return the perturbed columns that count in an attack, those among them that are known to say nothing."""
        latent, held = self.latent(keys, mechanism, household), self.perturbed(keys, mechanism)
        names = _weighable(mechanism, keys.names, {name: both.shape[-1] for name, both in held.items()})
        telling = self._telling(keys, mechanism, held, names)
        return tuple(name for name in names if name not in telling or (latent is not None and name in latent.names))

    def _telling(
        self, keys: KeyCodes, mechanism: Mechanism, held: Mapping[str, KeyCodes], names: Sequence[str]
    ) -> list[str]:
        """Return the columns but those of blocks without keys that say nothing of these: their factor is one number."""
        alone = [block.perturbed for block in mechanism.blocks if {*keys.names}.isdisjoint(block.variables)]
        silent = {
            name
            for block in alone
            if not any(self._belief(keys, held[name], name).adds for name in block if name in names)
            for name in block
        }
        return [name for name in names if name not in silent]

    def _belief(self, keys: KeyCodes, both: KeyCodes, name: str) -> Belief:
        place = keys.names, name
        if place not in self._beliefs:
            self._beliefs[place] = Belief.of(keys, both.codes[-1], both.shape[-1])
        return self._beliefs[place]

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


def _weighable(mechanism: Mechanism, keys: Sequence[str], size: Mapping[str, int]) -> list[str]:
    """Return the columns, each of so many values, whose blocks have no more than can be summed over.

    >>> from postrand.mechanism import Block
    >>> from postrand.mechanism.matrix import randomised_response
    >>> one, two = Block(("pay",), randomised_response(3, 1.0)), Block(("job", "town"), randomised_response(4, 1.0))
    >>> _weighable(Mechanism([one, two]), ["age"], {"pay": 3, "job": 2, "town": 2000})
    ['pay']
    """
    blocks = list(mechanism.blocks)
    small = [
        block
        for block in blocks
        if math.prod(size.get(name, 1) for name in block.perturbed) <= MOST_TRUE
        and block.matrix.size <= MAX_DENSE
        and all(name in keys or name in size for name in block.variables)
    ]
    left = {name for block in blocks if block not in small for name in block.perturbed}
    fit = [name for name in size if name not in left and size[name] <= MOST_CLASSES]
    cut = {*fit[MOST_COLUMNS:]} | ({*size} - {*fit})
    broken = {name for block in blocks if cut & {*block.perturbed} for name in block.perturbed}
    return [name for name in fit[:MOST_COLUMNS] if name not in broken]
