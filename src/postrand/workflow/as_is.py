"""The risk of the file as it is, before its keys are recoded: a reader wants it beside that of the recoded file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from postrand.codebook import Codebook
from postrand.columns.recoded import needed_for, unrecoded
from postrand.errors import PostrandError
from postrand.formats import Source
from postrand.formats.base import WrappedSource
from postrand.recoding import Recode
from postrand.risk.cells import FloatArray, class_sizes
from postrand.risk.data import code_column, key_codes, numeric, read_columns
from postrand.risk.exposure import TrueFile
from postrand.risk.weights import check_weights, is_whole
from postrand.workflow.comparison_risk import RiskFigure, class_figures, exposure_figures, recoded_columns

NO_TAU = "τ1 and τ2 are computed of the recoded keys alone, not of the file as it is"
NOT_AT_HAND = (
    "the risk in the file as it is, before recoding, is not computed: columns there cannot be read as keys, or have "
    "too many values"
)

NOT_BEFORE = "the figures of the file as it is do not count columns that are not released"
NO_REGISTER = (
    "tell a board that before recoding the register attacker can find up to all records: the figures there are not "
    "computed, because most records are alone with their keys and estimates would be far too low"
)
SPARSE = 0.6
"""Of a file in which the mean of 1/f is more, f the records with the same keys, weights do not tell the register's."""


def risks_as_is(source: Source, codebook: Codebook, truth: TrueFile | None) -> dict[str, float]:
    """Return the measures of the file before its keys and weights are recoded, by their codes; {} where none is.

    ``source`` is recoded by the codebook, ``truth`` is what it holds. A value of the file counts as it stands there.
    τ1 and τ2 are left out; so is the register attacker where the file is a sample that is sparse, see
    :data:`SPARSE`. {} too where the columns cannot be read, or have too many
    values for a key.
    """
    if truth is None or not truth.keys.records or not recoded_columns(codebook):
        return {}
    try:
        first = _unrecoded(source, truth, codebook)
    except PostrandError:  # the columns before the recodes cannot be read as keys: pages say that it is not computed
        return {}
    is_known = first.weights is not None and is_whole(first.weights)
    if not is_known and class_sizes(first.keys).size > SPARSE * first.keys.records:
        first = dataclasses.replace(first, weights=None)
    return {one.code: one.before for one in _figures(first) if one.before is not None}


def _figures(first: TrueFile) -> Sequence[RiskFigure]:
    return (*exposure_figures(first.exposure(), None, ""), *class_figures(first.keys, (), ""))


def _unrecoded(source: Source, truth: TrueFile, codebook: Codebook) -> TrueFile:
    """Return the true file with the columns from which its keys and weights are recoded in their place."""
    plain, recodes = unrecoded(source)
    while not recodes and isinstance(plain, WrappedSource):  # settled, or read along
        plain, recodes = unrecoded(plain.source)
    names, made = needed_for(truth.keys.names, recodes), {recode.source for recode in recodes}
    columns = read_columns(plain, names)
    coded = {name: code_column(columns[name], name, None if name in made else codebook) for name in names}
    return dataclasses.replace(truth, keys=key_codes(coded, names, "category"), weights=_weights(plain, truth, recodes))


def _weights(plain: Source, truth: TrueFile, recodes: Sequence[Recode]) -> FloatArray | None:
    """Return the weights before they are recoded."""
    first = next((recode.source for recode in recodes if recode.variable == truth.weight), "")
    if not first:
        return truth.weights
    found = numeric(read_columns(plain, [first])[first], first)
    check_weights(found, first)
    return found
