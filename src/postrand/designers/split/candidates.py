"""What a split design chooses from: the variables, the subsets of them, and the questions of the workload."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.designers.split.margins import TablePrior, prior_of, shares
from postrand.designers.split.pricing import DEFAULT_GAP, Priced
from postrand.designers.split.subsets import (
    MAX_LISTED,
    Bools,
    Listed,
    Pool,
    Request,
    Subsets,
    TooManySubsets,
    all_subsets,
    count_subsets,
    free_questions,
    list_subsets,
)
from postrand.designers.split.workload import Names, Workload, workload_of
from postrand.errors import DesignError, nearest, raise_all, sentence, shown
from postrand.support.inputs import listed

Floats = NDArray[np.float64]

MAX_VARIABLES = 60


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Hold the checked problem, whatever ε.

    ``weights`` (Q,): those of the sum (or maximum) of the variances of the questions. ``sampling``: S of each table.
    ``subsets``: all candidates, or only one for each question where there are too many to list.
    """

    request: Request
    subsets: Subsets
    listed: bool
    workload: Workload
    weights: Floats
    sampling: Floats

    @property
    def codebook(self) -> Codebook:
        """The description of the variables."""
        return self.request.codebook

    @property
    def names(self) -> Names:
        """The variables that are split."""
        return self.request.names

    @property
    def prior(self) -> TablePrior:
        """What is assumed of the tables."""
        return self.request.prior

    def pool(self, epsilon: float, gap: float = DEFAULT_GAP) -> Pool:
        """Return the candidates at ε: listed, or generated as they are needed until a design is proven within a gap."""
        if self.listed:
            return Listed(self.subsets.at(epsilon))
        asked = self.request
        return Priced(asked.sizes, asked.core_places, asked.max_cells, self.subsets.questions, epsilon, gap)

    def names_of(self, members: Bools) -> Names:
        """Return the variables of a subset."""
        return tuple(name for name, held in zip(self.names, members, strict=True) if held)


def candidates_of(
    codebook: Codebook, variables: Any, workload: Any, core: Any, max_cells: int, prior: Any
) -> Candidates:
    """Return the checked problem for tables.

    Raises
    ------
    DesignError
        With every problem of the variables at once; or if the workload, or the prior, is not valid.
    """
    names, core = chosen_variables(codebook, variables, core)
    tables = workload_of(workload, names)
    known = prior_of(prior)
    sampling = np.array([1 - float((shares(known, codebook, table) ** 2).sum()) for table in tables.tables])
    empty = [t for t, s in zip(tables.tables, sampling, strict=True) if not s > 0]
    if empty:
        what = "the prior puts all mass on one cell of a table: there is nothing to estimate"
        fix = "leave out variables that do not vary, or complete their categories in the codebook"
        raise DesignError(sentence(what, where=" × ".join(empty[0]), fix=fix))
    scale = 1.0 if tables.worst else sum(tables.weights)
    weights = np.array(tables.weights) / scale / sampling
    request = Request(codebook, names, core, max_cells, tuple((t, None) for t in tables.tables), known)
    return Candidates(*subsets_of(request), tables, weights, sampling)


def subsets_of(request: Request) -> tuple[Request, Subsets, bool]:
    """Return the request, the candidate subsets, and whether they are all: with too many, one for each question.

    Where rules link variables, subsets have to be listed: with too many, only those with fewer cells, at most as many
    as the request that is returned then says.

    Raises
    ------
    DesignError
        If a question is covered by no subset of at most ``max_cells`` cells.
    """
    ruled = any(set(rule.variables) <= set(request.names) for rule in request.codebook.rules)
    every = ruled or count_subsets(request.sizes, request.core_places, request.max_cells) <= MAX_LISTED
    if ruled:
        request = _listable(request)
    subsets = all_subsets(request) if every else _needed(request)
    bare = [t for (t, _), q in zip(request.asked, subsets.questions, strict=True) if not subsets.covering(q).size]
    if bare:
        where, got = " × ".join(bare[0]), f"more than {request.max_cells:,} cells with the core"
        fix = "raise max_cells, merge categories, or name fewer core variables"
        raise DesignError(sentence("no subset covers a table", where=where, got=got, fix=fix))
    return request, subsets, every


def _listable(request: Request) -> Request:
    """Return the request with as many cells, halved again and again, as leave few enough subsets to list."""
    while request.max_cells > 1:
        try:
            list_subsets(request)
        except TooManySubsets:
            request = replace(request, max_cells=request.max_cells // 2)
        else:
            break
    return request


def chosen_variables(codebook: Codebook, variables: Any, core: Any) -> tuple[Names, Names]:
    """Return the variables to split and the core, in the codebook's order; raises DesignError with all problems."""
    if not isinstance(codebook, Codebook):
        raise DesignError(sentence("not a Codebook", got=shown(codebook, repr), fix="use Codebook.from_dict"))
    if variables is None:
        variables = [v.name for v in codebook.with_role("key", "sensitive", "other") if v.is_categorical]
    names, held = (listed((given,) if isinstance(given, str) else given) for given in (variables, core))
    raise_all(DesignError, _variable_problems(codebook, names, held))
    return tuple(n for n in codebook.names if n in (names or ())), tuple(n for n in codebook.names if n in (held or ()))


def _needed(request: Request) -> Subsets:
    """Return the smallest subset for each question."""
    wanted = {frozenset(request.core).union(table) for table, _ in request.asked}
    members = np.array([[name in subset for name in request.names] for subset in wanted])
    cells = np.array([math.prod(request.codebook[name].size for name in subset) for subset in wanted], dtype=object)
    fits = cells <= request.max_cells
    order = np.lexsort(members[fits].T)
    return Subsets(members[fits][order], cells[fits][order].astype(np.int64), free_questions(request))


def _variable_problems(codebook: Codebook, names: Any, core: Any) -> Iterable[str]:
    if not names or not all(isinstance(name, str) for name in (*names, *(core or ()))) or core is None:
        yield sentence("the variables of a split release are not a list of names", got=shown(names, repr))
        return
    for name in (*names, *core):
        if name not in codebook:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}")
    for name in names:
        if name in codebook and not codebook[name].is_categorical:
            yield sentence(f"variable {name!r} has no categories", fix="list them in the codebook")
        elif name in codebook and codebook[name].missing == "keep":
            what = f"variable {name!r} keeps missing values, and is shown together with others"
            fix = "set missing = 'category', which makes it one category more, or complete the records and set 'error'"
            yield sentence(what, fix=fix)
    for name in sorted({name for name in names if list(names).count(name) > 1}):
        yield sentence(f"variable {name!r} is named twice")
    for name in core:
        if name in codebook and name not in names:
            yield sentence(
                f"core variable {name!r} is not one of the split variables", fix="name it in 'variables' too"
            )
    if len(names) > MAX_VARIABLES:
        yield sentence("too many variables to split", got=len(names), wanted=f"<= {MAX_VARIABLES}")
