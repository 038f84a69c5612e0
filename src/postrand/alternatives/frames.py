"""Local suppression and microaggregation of a frame, with the claims that hold of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.alternatives.by_codebook import (
    by_codebook,
    check_numbers,
    household_of,
    keys_of,
    placed,
    without_household,
)
from postrand.alternatives.claims import HOUSEHOLDS, Claims, codes_of, key_codes
from postrand.alternatives.fewest import SECONDS, fewest
from postrand.alternatives.partition import mdav_groups, means_of, optimal_groups
from postrand.alternatives.patterns import choices_of
from postrand.codebook import Codebook
from postrand.codebook.coding import from_numpy, to_floats
from postrand.codebook.quantity_codes import quantities_told, suspects_in
from postrand.data.frames import like, names_of, to_arrow
from postrand.errors import DataError, UsageError, raise_all, sentence, shown
from postrand.risk.reveals import UnperturbedWarning
from postrand.risk.singled import MAX_ALONE
from postrand.support.inputs import finite, is_names
from postrand.support.warned import warn

MAX_KEYS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """Hold a protected ``frame``, of the kind that came in, and its ``claims``."""

    frame: Any
    claims: Claims


def suppress(
    frame: Any,
    keys: Sequence[str] = (),
    k: int = 3,
    *,
    sensitive: str | None = None,
    diversity: int = 2,
    seconds: float = SECONDS,
    codebook: Codebook | None = None,
) -> Protected:
    """Suppress as few key values as possible, so that each combination of them is that of at least ``k`` records.

    Suppressed is a value of its own: the records of a class show the same values, of the same variables. So nobody can
    tell them apart by the keys, also who knows the true values. Programs that let a suppressed value stand for every
    value suppress less, and promise less. Each class has at least ``diversity`` values of ``sensitive``. Which of
    several equal records loses values follows their order. ``seconds`` limits the search, and with it how much is
    proven (:attr:`Claims.at_least`).

    A ``codebook`` recodes the frame first and leaves out what it does not release (``drop``, ``record_key``); without
    ``keys``, its variables of this role are the keys. Codes for no answer of the keys and of ``sensitive`` are missing.

    Raises
    ------
    UsageError
        If k, the diversity or the keys are not valid.
    DataError
        If there are fewer than ``k`` records, or fewer values of ``sensitive``; a column is not there; or the frame
        does not fit the codebook.

    Examples
    --------
    >>> survey = pa.table({"sex": ["f", "f", "m", "f"], "area": ["a", "a", "b", "b"]})
    >>> made = suppress(survey, ["sex", "area"], 2)
    >>> made.frame.to_pydict()
    {'sex': ['f', 'f', None, None], 'area': ['a', 'a', 'b', 'b']}
    >>> print(made.claims.losses[0])
    25% of the key values are suppressed; fewer are not enough for these claims (proven).
    """
    keys = keys_of(keys, codebook)
    check_asked(keys, k, diversity, sensitive, seconds)
    names = [*keys, *([sensitive] if sensitive is not None else [])]
    frame = frame if codebook is None else by_codebook(frame, codebook, names)
    table = to_arrow(frame, names)
    check_flat(table.schema, table.column_names)
    coded = {name: codes_of(table.column(name)) for name in names}
    codes = key_codes({name: coded[name] for name in keys})
    values = np.zeros(codes.records, dtype=np.int64) if sensitive is None else np.asarray(coded[sensitive][0])
    wanted = 1 if sensitive is None else diversity
    _check_enough(codes.records, k, values, wanted)
    choices = choices_of(codes, values, k, wanted)
    found = fewest(choices, seconds)
    kinds = np.repeat(choices.kind, found.records)
    pattern = np.repeat(choices.pattern, found.records)[np.argsort(kinds, kind="stable")]
    gone = np.zeros((codes.records, len(keys)), dtype=bool)
    gone[np.argsort(choices.record_kind, kind="stable")] = choices.masks[pattern]
    size = codes.records * len(keys)
    lost = {name: float(gone[:, j].mean()) for j, name in enumerate(keys)}
    claims = Claims(
        "suppression", k, (tuple(keys),), codes.records, lost, sensitive, wanted, at_least=found.at_least / size
    )
    for j, name in enumerate(keys):
        if gone[:, j].any():
            places = from_numpy(np.arange(codes.records), gone[:, j])
            frame = placed(frame, name, table.column(name).combine_chunks().take(places))
    claims.check(frame)
    return Protected(frame, claims)


def microaggregate(
    frame: Any,
    columns: Sequence[str],
    k: int = 3,
    *,
    together: bool = False,
    household: str | None = None,
    codebook: Codebook | None = None,
) -> Protected:
    """Replace numbers by the means of groups of at least ``k`` records, households or persons that are alike.

    Each column alone has the groups with the least squared change; missing values stay. ``together`` groups the records
    by all columns at once (MDAV), so that their combinations are those of at least k records; it loses more. Means of
    columns do not change. Nothing is drawn. A ``codebook`` is used as by :func:`suppress`; codes for no answer of the
    columns stay missing.

    Members of a household have the same income of the household, and would be a group with no other in it; so do the
    records of a person. With ``household``, the column with the number of either, groups are of at least ``k`` of them;
    a codebook's variable with this role is taken without. Groups of several columns are then of whole households or
    persons, by their means.

    Raises
    ------
    UsageError
        If k or the columns are not valid.
    DataError
        If a column is not there, has a value that is not a finite number, or fewer than ``k`` values, households
        or persons; values are missing and columns go ``together``; or a record has no number of its household.

    Warns
    -----
    UnperturbedWarning
        If more than one in a hundred averages is the true value, and neither households nor persons are known.

    Examples
    --------
    >>> made = microaggregate(pa.table({"pay": [1.0, 9.0, 1.5, 2.0, 8.0]}), ["pay"], 2)
    >>> made.frame.to_pydict()
    {'pay': [1.5, 8.5, 1.5, 1.5, 8.5]}
    >>> print(*made.claims.holds, *made.claims.losses)
    Each released value of pay is that of at least 2 records. pay: mean squared change 1.7% of its variance.
    """
    household = household_of(household, codebook)
    check_asked(columns, k, household=household)
    if codebook is not None:
        check_numbers(codebook, columns)
        frame = by_codebook(frame, codebook, columns, household)
    warn_of_codes(frame, columns, codebook)
    made = averaged(frame, columns, k, together, household)
    warn_of_exact(made.claims)
    return Protected(without_household(made.frame, household, codebook), made.claims)


def averaged(frame: Any, columns: Sequence[str], k: int, together: bool, household: str | None) -> Protected:
    """Return a frame with averages, and its claims, as :func:`microaggregate` does, and warn of nothing.

    What is asked is valid; see :func:`check_asked`.
    """
    table = to_arrow(frame, [*columns, *([household] if household else [])])
    check_flat(table.schema, table.column_names)
    held = {name: _numbers(table.column(name), name, together) for name in columns}
    units = _units(table.column(household), household) if household else np.arange(table.num_rows)
    there = {name: np.isfinite(values) for name, values in held.items()}
    what = HOUSEHOLDS if household else "records"
    found = {name: np.unique(units[kept]).size for name, kept in there.items()}
    raise_all(DataError, [_few(k, f"column {name!r}", what) for name, number in found.items() if number < k])
    groups = _groups_together(np.stack(list(held.values()), axis=1), units, k) if together else None
    lost, exact = {}, {}
    for name, values in held.items():
        own, made = values[there[name]], values.copy()
        alike = optimal_groups(own, k, units[there[name]] if household else None) if groups is None else groups
        made[there[name]] = means_of(own, alike)
        change, spread = float(((made[there[name]] - own) ** 2).sum()), float(((own - own.mean()) ** 2).sum())
        lost[name], exact[name] = change / spread if spread else 0.0, float(_of_equal_values(own, alike).mean())
        gone = ~there[name] if not there[name].all() else None
        frame = like(frame, {name: from_numpy(made, gone)}, categorical=[name])
    classes = (tuple(columns),) if together else tuple((name,) for name in columns)
    claims = Claims("microaggregation", k, classes, table.num_rows, lost, exact=exact, household=household)
    claims.check(frame)
    return Protected(frame, claims)


def warn_of_codes(frame: Any, columns: Sequence[str], codebook: Codebook | None = None) -> None:
    """Warn if numbers look like codes for no answer, which an average counts, and no recode says what they are."""
    table = to_arrow(frame, [name for name in columns if name in names_of(frame)])
    held = dict(zip(table.column_names, table.columns, strict=True))
    said = {field.name: field.metadata for field in table.schema}
    found = suspects_in(held, () if codebook is None else codebook.recodes, said)
    if found:
        fix = "if they mean no answer, make them missing first: missing = [...] in [[recodes]] of a codebook"
        warn(sentence(quantities_told(found), fix=fix), UnperturbedWarning, stacklevel=4)


def warn_of_exact(claims: Claims) -> None:
    """Warn if more than one in a hundred averages is the true value, and neither households nor persons are known."""
    if claims.household is None and max((claims.exact or {}).values(), default=0.0) > MAX_ALONE:
        warn(f"{claims.told_exactly} {_SHARED}", UnperturbedWarning, stacklevel=4)


_SHARED = (
    "Next: where members of a household, or records of a person, share such a value, name the column with its number, "
    "so that groups are of households or persons (household, --household); else choose a larger k"
)


def _units(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    codes = codes_of(column)[0]
    if (codes < 0).any():
        what = "a record has no number of its household or person"
        raise DataError(sentence(what, where=f"column {name!r}", fix="give it one, or leave the record out"))
    return np.asarray(np.unique(codes, return_inverse=True)[1])


def _groups_together(points: NDArray[np.float64], units: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return groups of records (n, d) by whole units, (n,), each at the mean of its records."""
    size = np.bincount(units)
    means = np.stack([np.bincount(units, weights=column) / size for column in points.T], axis=1)
    return mdav_groups(means, k)[units]


def _of_equal_values(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each value, (n,), whether those of its group are all equal: their average is the true value."""
    low, high = np.full(groups.max() + 1, np.inf), np.full(groups.max() + 1, -np.inf)
    np.minimum.at(low, groups, values)
    np.maximum.at(high, groups, values)
    return np.asarray((low == high)[groups])


def check_asked(
    names: Sequence[str],
    k: int,
    diversity: int = 2,
    sensitive: str | None = None,
    seconds: float = 1,
    household: str | None = None,
) -> None:
    """Raise UsageError with all that is not valid of what is asked, before a file is looked at."""
    problems, columns = [], names if is_names(names) else ()
    if not columns:
        problems.append(sentence("columns must be a list of names", got=shown(names, repr), wanted='["sex", "age"]'))
    elif len(columns) > MAX_KEYS:
        problems.append(sentence("there are too many columns", got=len(columns), wanted=f"<= {MAX_KEYS}"))
    for what, number in (("k", k), ("the diversity", diversity)):
        if type(number) is not int or number < 2:
            problems.append(sentence(f"{what} is not valid", got=number, wanted="a whole number >= 2"))
    if not finite(seconds) > 0:
        fix = "give a time for the search: --seconds 60"
        problems.append(sentence("the seconds are not valid", got=seconds, wanted="a finite number > 0", fix=fix))
    for what, one, other in (
        ("the sensitive column", sensitive, "keys"),
        ("the number of the household", household, "columns"),
    ):
        if one is not None and not (isinstance(one, str) and one):
            problems.append(sentence(f"{what} is not the name of a column", got=shown(one, repr)))
        elif one in columns:
            problems.append(sentence(f"{what} is one of the {other}", got=one, fix="name another column"))
    raise_all(UsageError, problems)


def check_flat(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise DataError with every column of these names that has lists or records, whose values are not compared."""
    nested = [name for name in names if name in schema.names and pa.types.is_nested(schema.field(name).type)]
    what, fix = "a column of lists or records has no values to compare", "name another column"
    raise_all(DataError, [sentence(what, where=f"column {name!r}", fix=fix) for name in nested])


def _check_enough(records: int, k: int, values: NDArray[np.int64], diversity: int) -> None:
    problems = [_few(k, "the file")] if records < k else []
    if np.unique(values[values >= 0]).size < diversity:
        problems.append(sentence("the sensitive column has too few values", wanted=f">= {diversity}"))
    raise_all(DataError, problems)


def _few(k: int, where: str, what: str = "records") -> str:
    return sentence(f"there are fewer {what} than k", where=where, wanted=f">= {k}", fix="choose a smaller k")


def _numbers(column: pa.ChunkedArray, name: str, together: bool) -> NDArray[np.float64]:
    where = f"column {name!r}"
    try:
        held = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        values = to_floats(held.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text that is no number, or a type that has none
        raise DataError(sentence("a value is not a number", where=where, fix="name another column")) from None
    if np.isinf(values).any():
        raise DataError(sentence("a value is not finite", where=where, fix="correct it, or make it missing"))
    if together and np.isnan(values).any():
        fix = "leave it out, fill its values in, or aggregate each column alone"
        raise DataError(sentence("values are missing, so records cannot be compared", where=where, fix=fix))
    return values
