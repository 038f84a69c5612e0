"""A file as its risk measures see it: coded keys, and what else is known of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.codebook import Codebook, coding
from postrand.errors import UsageError, sentence
from postrand.risk import loglinear
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.counts import wildcard_frequencies
from postrand.risk.data import Coded, MissingRule, code_data, key_codes, read_columns, rule_codes
from postrand.risk.modelled import Modelled, modelled
from postrand.risk.weights import cell_inclusion, checked_weights, individual_risk, stands_for
from postrand.support.warned import warn

MEMBERS = 50
"""Households of more members than this on average are none."""
_NONE: Mapping[str, Coded] = MappingProxyType({})


class HouseholdWarning(UserWarning):
    """A column named for household numbers that seems to have others."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskFile:
    """Hold n records as codes of their key variables, with everything else that a measure can need.

    ``fraction`` is the inclusion probability of every record, ``weights`` (n,) the sampling weights: one of them or
    neither. ``household`` (n,) are integer labels. ``sensitive`` names variables of ``columns``, which reads a further
    column when it is asked for one. ``model`` and ``rules`` (structural zeros, as codes) are those of log-linear
    models. ``notes`` say how the file was read, ``recoded`` which keys and weights the codebook recodes. ``cells`` are
    the occupied cells of the keys.

    Examples
    --------
    >>> keys = KeyCodes(("sex",), (2,), (np.array([0, 0, 1]),))
    >>> file = RiskFile(keys, fraction=0.5)
    >>> file.records, file.cells.counts.tolist(), file.inclusion_weights().tolist()
    (3, [2, 1], [2.0, 2.0, 2.0])
    """

    keys: KeyCodes
    fraction: float | None = None
    weights: FloatArray | None = None
    household: IntArray | None = None
    sensitive: tuple[str, ...] = ()
    columns: Mapping[str, Coded] = field(default_factory=dict)
    model: loglinear.Model = "two-way"
    rules: Sequence[Mapping[str, int]] = ()
    notes: tuple[str, ...] = ()
    recoded: tuple[str, ...] = ()
    cells: CellTable = field(init=False)
    _once: dict[str, Any] = field(init=False, default_factory=dict, repr=False)  # what several measures compute alike

    def __post_init__(self) -> None:
        if self.fraction is not None and self.weights is not None:
            raise UsageError(sentence("both a sampling fraction and a weight are given", wanted="one of them"))
        object.__setattr__(self, "cells", table(self.keys))

    @classmethod
    def read(
        cls,
        data: Any,
        key_variables: Sequence[str],
        *,
        sampling_fraction: float | None = None,
        weight: str | None = None,
        household: str | None = None,
        sensitive: str | Sequence[str] | None = None,
        codebook: Codebook | None = None,
        model: loglinear.Model = "two-way",
        structural_zeros: Sequence[Mapping[str, Any]] = (),
        missing: MissingRule = "category",
        partly: Sequence[str] = (),
    ) -> RiskFile:
        """Read keys, weights and households from ``data``; the arguments are those of :func:`postrand.risk.assess`.

        ``partly`` are the variables of a split: the data are a release of it, in which a record may not show them.

        Raises
        ------
        UsageError
            If a variable or rule is unknown, or the fraction is outside (0, 1] or comes with weights.
        DataError
            If a column is not there, a weight is missing or below 1, or values do not fit the codebook or the rules.
        """
        _check_design(key_variables, sampling_fraction, weight)
        asked = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive or ())
        extra, number = [n for n in (weight, household) if n], [weight] if weight else []
        columns = read_columns(data, extra, number) if extra else {}
        coded = code_data(data, [*key_variables, *asked], codebook, partly)
        keys = key_codes(coded, key_variables, missing, partly)
        weights = None if weight is None else checked_weights(columns, weight)
        return cls(
            keys,
            sampling_fraction,
            weights,
            None if household is None else household_numbers(columns[household], household),
            asked,
            CodedColumns(data, codebook, coded),
            model,
            rule_codes({name: coded[name] for name in key_variables}, structural_zeros),
            () if weights is None or weight is None else (stands_for(weights, weight),),
            _recoded(codebook, (*key_variables, *number)),
        )

    @property
    def records(self) -> int:
        """The number n of records."""
        return self.keys.records

    @property
    def has_inclusion(self) -> bool:
        """Whether it is known how much of the population is in the file."""
        return self.fraction is not None or self.weights is not None

    def frequency(self) -> IntArray:
        """Return the size of each record's class, shape (n,); a missing key that is a wildcard matches every value."""
        if "frequency" not in self._once:
            of_cell = wildcard_frequencies(self.cells) if self.keys.has_wildcards else self.cells.counts
            self._once["frequency"] = of_cell[self.cells.record_cell]
        frequency: IntArray = self._once["frequency"]
        return frequency

    def inclusion(self) -> FloatArray | float | None:
        """Return the inclusion probability of every record, or of each occupied cell (C,); None where not known."""
        return self.fraction if self.weights is None else cell_inclusion(self.cells, self.weights)

    def inclusion_weights(self) -> FloatArray:
        """Return each record's weight ``1/π``, shape (n,); raises UsageError where it is not known."""
        if self.weights is not None:
            return self.weights
        if self.fraction is None:
            raise UsageError(no_inclusion("sampling weights"))
        return np.full(self.records, 1 / self.fraction)

    def individual(self) -> FloatArray:
        """Return ``E(1/F | f)`` of each record from the weights, shape (n,)."""
        if "individual" not in self._once:
            self._once["individual"] = individual_risk(self.cells, self.inclusion_weights())
        risk: FloatArray = self._once["individual"]
        return risk

    def forget(self) -> None:
        """Give up what measures share, which are long arrays; a later measure computes it anew."""
        self._once.clear()

    def modelled(self) -> Modelled:
        """Return what the log-linear model estimates for the unperturbed file."""
        if "modelled" not in self._once:
            self._once["modelled"] = modelled(self.keys, self.cells, self.inclusion(), self.model, self.rules)
        found: Modelled = self._once["modelled"]
        return found


def _recoded(codebook: Codebook | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the codebook recodes."""
    made = {recode.variable for recode in codebook.recodes} if codebook is not None else set()
    return tuple(name for name in names if name in made)


class CodedColumns(Mapping[str, Coded]):
    """Columns of ``data`` as codes; one is read the first time that it is asked for. ``coded`` are there already."""

    def __init__(self, data: Any, codebook: Codebook | None, coded: Mapping[str, Coded] = _NONE) -> None:
        self._data, self._codebook, self._coded = data, codebook, dict(coded)

    def __getitem__(self, name: str) -> Coded:
        if name not in self._coded:
            self._coded[name] = code_data(self._data, [name], self._codebook)[name]
        return self._coded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._coded)

    def __len__(self) -> int:
        return len(self._coded)


def household_numbers(column: Any, name: str = "") -> IntArray:
    """Return a number for each household, shape (n,); a record without one is a household of its own.

    Warns with HouseholdWarning where ``MEMBERS`` records or more have one number on average: such a column is often
    no number of households.
    """
    codes = column.unify_dictionaries().combine_chunks()
    codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
    codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode()
    codes = np.where(coding.is_null(codes.indices), -1, coding.index_values(codes.indices).astype(np.int64))
    alone: IntArray = np.where(codes < 0, -1 - np.arange(codes.size), codes)
    if (doubt := household_doubt(alone, name)) is not None:
        warn(doubt, HouseholdWarning, stacklevel=3)
    return alone


def household_doubt(household: IntArray, name: str = "") -> str | None:
    """Return why numbers of households (n,) are probably none, as a sentence, or None where they can be."""
    if household.size < 2 * MEMBERS or np.unique(household).size * MEMBERS >= household.size:
        return None
    where, fix = f"column {name!r}" if name else "", "name the column of household numbers, or leave it out"
    what = f"is this a household number? It puts more than {MEMBERS} records into a household on average"
    return sentence(what, where=where, fix=fix)


def no_inclusion(what: str) -> str:
    """Return the sentence of a measure that needs to know how much of the population is in the file."""
    return sentence(
        f"{what} needs the share of the population that is in the file, but none is given",
        fix="give a sampling fraction (--sampling-fraction 0.05) or a column of sampling weights (--weight W)",
    )


def _check_design(keys: Sequence[str], fraction: float | None, weight: str | None) -> None:
    if isinstance(keys, str) or not keys:
        raise UsageError(sentence("key variables must be a list of names", got=repr(keys), wanted='["sex", "age"]'))
    if fraction is not None and weight is not None:
        raise UsageError(sentence("both a sampling fraction and a weight are given", wanted="one of them"))
    if fraction is not None and not (isinstance(fraction, Real) and 0 < fraction <= 1):
        raise UsageError(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
