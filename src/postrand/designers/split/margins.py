"""What a split design assumes about the tables: uniform, or tables that are known, completed where some are not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.codebook.codebook import Codebook
from postrand.codebook.rules import feasible_cells
from postrand.data.table import ContingencyTable
from postrand.errors import DesignError, raise_all, sentence, shown
from postrand.mechanism.block import PROVENANCES, Provenance
from postrand.support.inputs import real_array

Floats = NDArray[np.float64]
Names = tuple[str, ...]

_SWEEPS = 200
_CLOSE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class TablePrior:
    """Hold known tables of one, two or more variables, as counts or shares, and where they came from.

    A table that is not given follows from the given ones about its variables: the distribution nearest to independence
    that has them as margins (iterative proportional fitting), so independence where only single variables are given. A
    variable about which nothing is given is uniform.

    Raises
    ------
    DesignError
        If a table does not have one axis for each of its variables, is negative, not finite, or all 0.

    Examples
    --------
    >>> TablePrior({("sex",): [40, 60]}, provenance="public")
    TablePrior(1 tables, public)
    """

    tables: Mapping[Names, Floats] = field(default_factory=dict)
    provenance: Provenance = "unstated"

    def __post_init__(self) -> None:
        held = {
            (t,) if isinstance(t, str) else tuple(t): real_array(a, "a table of the prior", DesignError)
            for t, a in self.tables.items()
        }
        raise_all(DesignError, _problems(held, self.provenance))
        object.__setattr__(self, "tables", {names: array / array.sum() for names, array in held.items()})

    @classmethod
    def of(cls, tables: Iterable[ContingencyTable], provenance: Provenance = "confidential") -> TablePrior:
        """Return the prior of counted tables; counts of the confidential file unless another origin is said."""
        return cls({table.variables: table.dense() for table in tables}, provenance)

    def __repr__(self) -> str:  # without the shares: they may be the confidential file's
        return f"TablePrior({len(self.tables)} tables, {self.provenance})"


def prior_of(given: TablePrior | Mapping[Names, ArrayLike] | Sequence[ContingencyTable] | None) -> TablePrior:
    """Return the prior: nothing given is uniform and public; tables without a stated origin are unstated.

    Raises
    ------
    DesignError
        As :class:`TablePrior`.
    """
    if given is None:
        return TablePrior({}, "public")
    if isinstance(given, TablePrior):
        return given
    if isinstance(given, Mapping):
        return TablePrior({names: np.asarray(array) for names, array in given.items()})
    if isinstance(given, Sequence) and all(isinstance(table, ContingencyTable) for table in given):
        return TablePrior.of(given, "unstated")
    what = "the prior is not a TablePrior or a mapping from variables to tables"
    raise DesignError(sentence(what, got=shown(given, repr), fix='write {("age", "sex"): counts}'))


def shares(prior: TablePrior, codebook: Codebook, names: Names) -> Floats:
    """Return what the prior says of a table of these variables, one axis each; 0 where a rule within them forbids it.

    Raises
    ------
    DesignError
        If a given table does not fit the variables' categories, or leaves no combination that the rules permit.
    """
    shape = tuple(codebook[name].size for name in names)
    known = _known(prior, codebook, names)
    found = np.ones(shape)
    if any(set(rule.variables) <= set(names) for rule in codebook.rules):
        found = np.zeros(shape)
        found[tuple(feasible_cells(codebook, names, codebook.rules).T)] = 1.0
    found /= found.sum()
    for _ in range(_SWEEPS):
        before = found
        for axes, table in known:
            found = _fitted(found, axes, table)
        if len(known) < 2 or np.abs(found - before).max() <= _CLOSE:
            break
    if not found.sum() > 0:
        what = "the prior leaves no combination of a table that the rules permit"
        raise DesignError(sentence(what, where=" × ".join(names), fix="correct the tables, or the rules"))
    return np.asarray(found / found.sum())


def _known(prior: TablePrior, codebook: Codebook, names: Names) -> list[tuple[tuple[int, ...], Floats]]:
    """Return the margins of the given tables within these variables, the largest sets only: axes and shares."""
    found: dict[frozenset[str], Floats] = {}
    for given, table in prior.tables.items():
        if table.shape != tuple(codebook[name].size for name in given):
            wanted = tuple(codebook[name].size for name in given)
            what = "a table of the prior does not fit the variables' categories"
            raise DesignError(sentence(what, where=" × ".join(given), got=table.shape, wanted=wanted))
        inside = tuple(name for name in names if name in given)
        if inside and (frozenset(inside) not in found or len(inside) == len(given)):
            away = tuple(k for k, name in enumerate(given) if name not in inside)
            held = [name for name in given if name in inside]
            found[frozenset(inside)] = table.sum(axis=away).transpose([held.index(name) for name in inside])
    largest = [held for held in found if not any(held < other for other in found)]
    return [(tuple(k for k, name in enumerate(names) if name in held), found[held]) for held in largest]


def _fitted(joint: Floats, axes: tuple[int, ...], table: Floats) -> Floats:
    """Return the distribution with this margin, in proportion to ``joint`` within each of its cells."""
    away = tuple(k for k in range(joint.ndim) if k not in axes)
    margin = joint.sum(axis=away)
    ratio = np.divide(table, margin, out=np.zeros_like(table), where=margin > 0)
    return np.asarray(joint * np.expand_dims(ratio, away))


def _problems(tables: Mapping[Names, Floats], provenance: str) -> Iterable[str]:
    for names, array in tables.items():
        where = " × ".join(map(str, names))
        if array.ndim != len(names):
            yield sentence("a table of the prior has not one axis for each variable", where=where, got=array.ndim)
        elif not np.isfinite(array).all() or array.min(initial=0) < 0 or not 0 < array.sum() < math.inf:
            yield sentence("a table of the prior is negative, not finite, or all 0", where=where)
    if provenance not in PROVENANCES:
        yield sentence(f"unknown provenance {shown(provenance, repr)}", wanted=", ".join(PROVENANCES))
