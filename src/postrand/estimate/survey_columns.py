"""The columns of a released file that say how its records were drawn: weights, strata, clusters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.coding import index_values, is_null, kind_text, to_floats
from postrand.errors import DataError, UsageError, raise_all, sentence
from postrand.estimate.axes import Array
from postrand.mechanism import Mechanism

_LARGEST_WEIGHT = 1e60
_TOLD = {
    "household": ("which records belong together", "; as psu it can name the clusters of a survey design"),
    "record_key": ("records apart", ""),
}
"""What numbers of a role tell, and what they are for."""


def require_as_is(mechanism: Mechanism, weights: str | None, strata: str | None) -> None:
    """Raise UsageError where weights or strata are perturbed, or their values were exchanged among records."""
    raise_all(UsageError, as_is_problems(mechanism, [("weights", weights), ("strata", strata)]))


def as_is_problems(mechanism: Mechanism, columns: Iterable[tuple[str, str | None]]) -> Iterable[str]:
    """Say which columns of a survey's design are not released as they are, each with what it is for.

    A record is then counted with the weight, or in the stratum, of another one, and no estimate corrects for that.
    """
    ranked = {column.variable: column.form for column in mechanism.numerical}
    for part, name in columns:
        if name is None or not (name in mechanism.variables or name in ranked):
            continue
        done = {"permute": "permuted", "average": "averaged"}.get(ranked.get(name, ""), "perturbed")
        fix = "use a column that is released as it is, or none"
        yield sentence(f"the column of {part} is {done} in this release", got=repr(name), fix=fix)


def refuse_identifiers(mechanism: Mechanism, names: Iterable[str | None]) -> None:
    """Raise UsageError with each of these variables whose numbers only tell records apart, or which belong together.

    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> book = Codebook((Variable("hid", role="household", type="int64"), Variable("sex", "key", ("f", "m"))))
    >>> refuse_identifiers(Mechanism({"sex": TransitionMatrix.identity(2)}, book), ["sex"])
    """
    book = mechanism.codebook
    named = dict.fromkeys(name for name in names if isinstance(name, str))
    found = [] if book is None else [book[name] for name in named if name in book]
    problems = []
    for variable in found:
        if variable.role in _TOLD:
            told, fix = _TOLD[variable.role]
            what = f"the numbers of {variable.name} only tell {told}, and nothing can be estimated from them"
            problems.append(sentence(what, fix=f"leave {variable.name} out{fix}"))
    raise_all(UsageError, problems)


def weight_column(table: pa.Table, name: str) -> Array:
    """Return the sampling weights; raises DataError where one is missing, negative or not a number."""
    column = table.column(name)
    values = number_column(table, name)
    if column.null_count or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise DataError(sentence("weights must be finite, not negative and not all zero", where=f"column {name!r}"))
    if values.max() > _LARGEST_WEIGHT or values[values > 0].min() < 1 / _LARGEST_WEIGHT:
        what = "a weight is too large or too small: its square cannot be summed"
        wanted = f"0, or {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}"
        raise DataError(sentence(what, where=f"column {name!r}", wanted=wanted, fix="divide the weights by their mean"))
    return np.asarray(values, dtype=np.float64)


def number_column(table: pa.Table, name: str, what: str = "weights") -> Array:
    """Return a column as numbers, NaN where missing; raises DataError where they are none."""
    column = table.column(name)
    try:
        return np.asarray(to_floats(column), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text that is no number, or a type that has none
        got = kind_text(column.type)
        raise DataError(sentence(f"{what} are not numbers", where=f"column {name!r}", got=got)) from None


def stratum_codes(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Return the stratum of each record as 0..H-1; a stratum is a column that the mechanism leaves as it is."""
    column = table.column(name).combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
    indices = np.where(is_null(encoded.indices), len(encoded.dictionary), index_values(encoded.indices))
    return np.unique(indices, return_inverse=True)[1].astype(np.int64)
