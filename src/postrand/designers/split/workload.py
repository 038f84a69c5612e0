"""The tables that a split release is designed for, and what each is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from postrand.errors import DesignError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, listed

Names = tuple[str, ...]

_SIZES = {"pairs": 2, "triples": 3, "worst": 2}


@dataclass(frozen=True, slots=True)
class Workload:
    """Name tables, each with its weight, for a design that keeps them as precise as possible.

    A design lowers the weighted mean of ``V_t / S_t`` over the tables, the variance of a table's estimate over that of
    one unperturbed record; with ``worst`` it lowers the largest ``w_t V_t / S_t``.

    Raises
    ------
    DesignError
        If there is no table, one is named twice or has no variable or one twice, or a weight is not positive.

    Examples
    --------
    >>> Workload((("age", "sex"), ("age",)), (2.0, 1.0)).weights
    (2.0, 1.0)
    """

    tables: tuple[Names, ...]
    weights: tuple[float, ...] = ()
    worst: bool = False

    def __post_init__(self) -> None:
        tables = tuple((t,) if isinstance(t, str) else tuple(t) for t in self.tables)
        weights = tuple(finite(w) for w in self.weights) or (1.0,) * len(tables)
        raise_all(DesignError, _problems(tables, weights))
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "weights", weights)


def workload_of(given: Any, variables: Sequence[str]) -> Workload:
    """Return a workload of these variables, from its name, its tables, or tables with weights.

    ``"pairs"`` and ``"triples"`` are all tables of two or three variables, ``"worst"`` the least precise pair. Names
    within a table are put in the order of ``variables``.

    Raises
    ------
    DesignError
        If the workload is unknown, or a table names a variable that the release does not split.

    Examples
    --------
    >>> workload_of("pairs", ["sex", "age", "area"]).tables
    (('sex', 'age'), ('sex', 'area'), ('age', 'area'))
    >>> workload_of({("age", "sex"): 3.0, ("area",): 1.0}, ["sex", "age", "area"])
    Workload(tables=(('sex', 'age'), ('area',)), weights=(3.0, 1.0), worst=False)
    """
    if isinstance(given, str):
        return _named(given, variables)
    if not isinstance(given, Workload):
        entries = listed(given.items() if isinstance(given, Mapping) else given)
        if entries is None:
            what = "the workload is not a name or a list of tables"
            raise DesignError(sentence(what, got=shown(given, repr), wanted=", ".join(map(repr, _SIZES))))
        given = _listed(entries)
    order = {name: place for place, name in enumerate(variables)}
    unknown = [name for table in given.tables for name in table if name not in order]
    if unknown:
        what = f"a table of the workload has a variable that is not split: {unknown[0]!r}{nearest(unknown[0], order)}"
        raise DesignError(sentence(what, wanted=", ".join(variables), fix="name it in 'variables'"))
    tables = tuple(tuple(sorted(table, key=order.__getitem__)) for table in given.tables)
    return Workload(tables, given.weights, given.worst)


def _named(name: str, variables: Sequence[str]) -> Workload:
    if name not in _SIZES:
        wanted = ", ".join(map(repr, _SIZES))
        raise DesignError(sentence(f"unknown workload {name!r}{nearest(name, _SIZES)}", wanted=wanted))
    size = _SIZES[name]
    if len(variables) < size:
        what = f"workload {name!r} needs {size} variables"
        raise DesignError(sentence(what, got=len(variables), fix="name more variables, or a list of tables"))
    return Workload(tuple(combinations(variables, size)), worst=name == "worst")


def _listed(entries: Sequence[Any]) -> Workload:
    """Return the workload of tables, or of pairs of a table and its weight."""
    pairs = [e if _is_weighted(e) else (e, 1.0) for e in entries]
    return Workload(tuple((t,) if isinstance(t, str) else tuple(t) for t, _ in pairs), tuple(w for _, w in pairs))


def _is_weighted(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and len(entry) == 2 and not isinstance(entry[1], str)


def _problems(tables: Sequence[Names], weights: Sequence[float]) -> Iterable[str]:
    if not tables:
        yield sentence("the workload has no table", fix="name at least one, or use 'pairs'")
    for table in tables:
        if not table or not all(isinstance(name, str) for name in table) or len(set(table)) != len(table):
            yield sentence("a table of the workload is not a list of distinct variables", got=shown(table, repr))
    known = [frozenset(table) for table in tables]
    if len(set(known)) != len(known):
        yield sentence("a table of the workload is named twice", fix="name it once, with its weight")
    if len(weights) != len(tables):
        yield sentence("weights do not fit the tables", got=len(weights), wanted=len(tables))
    if not all(0 < w < math.inf for w in weights):
        yield sentence("the weight of a table is not a number above 0", wanted="> 0", fix="leave the table out")
