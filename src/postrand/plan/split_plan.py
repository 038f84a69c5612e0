"""The section ``[split]`` of a plan: of which variables each record shows a random subset, and how that is designed.

Variables, workload and core are checked as :func:`postrand.designers.split_design` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from postrand.codebook import Codebook
from postrand.codebook.not_released import not_released_problems
from postrand.designers import OBJECTIVES, STRUCTURES, Objective, Structure, TablePrior, Workload, supports
from postrand.designers.split.candidates import chosen_variables
from postrand.designers.split.margins import shares
from postrand.designers.split.splitting import MAX_CELLS
from postrand.designers.split.workload import workload_of
from postrand.errors import PostrandError, SpecificationError, nearest, raise_all, sentence, shown
from postrand.mechanism.matrix import MAX_SIZE
from postrand.mechanism.units import Unit
from postrand.objectives import EstimatorVariance
from postrand.privacy import DifferentialPrivacy
from postrand.support import options
from postrand.support.inputs import finite, is_names, is_whole, unquoted

SplitPrior = Literal["uniform", "file", "dp"] | TablePrior
PRIORS = ("uniform", "file", "dp")
SPLIT_UNITS = ("record", "household")
FIELDS = (
    "variables", "epsilon", "workload", "core", "given", "structure", "objective", "max_cells", "prior",
    "prior_epsilon", "unit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Hold how a split is designed.

    ``epsilon`` is that of the record's split variables, whatever subset it shows; None: what the blocks leave of the
    record's. ``prior`` is ``uniform``, ``file`` (the file's own tables of the workload: confidential, and certified as
    such), ``dp`` (the file's tables of single variables with exact noise, which spend ``prior_epsilon`` together), or
    published tables. ``given``: variables that stay as they are, with matrices for each of their combinations.
    ``unit``: each record shows a subset, or one random member of each household.
    """

    variables: tuple[str, ...]
    workload: Workload
    epsilon: float | None = None
    core: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    structure: tuple[Structure, ...] = ()
    objective: Objective | None = None
    max_cells: int = MAX_CELLS
    prior: SplitPrior = "uniform"
    prior_epsilon: float = 0.0
    unit: Unit = "record"

    @property
    def of_members(self) -> bool:
        """Whether one random member of each household shows a subset, and the others nothing."""
        return self.unit == "household"

    @property
    def reads_file(self) -> bool:
        """Whether the design needs the records."""
        return self.prior in ("file", "dp")

    @property
    def spent(self) -> float:
        """The ε that the plan itself names: of the subsets, where it is given, and of a private prior."""
        return (self.epsilon or 0.0) + self.prior_spent

    @property
    def prior_spent(self) -> float:
        """The part of it that a private prior spends of each record's."""
        noisy = self.prior == "dp" or (isinstance(self.prior, TablePrior) and self.prior.provenance == "dp")
        return self.prior_epsilon if noisy else 0.0

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of the file that the prior is made of."""
        if self.prior == "dp":
            return tuple((name,) for name in self.variables)
        if self.prior != "file":
            return ()
        known = {name for table in self.workload.tables for name in table}
        return (*self.workload.tables, *((name,) for name in self.variables if name not in known))

    def to_dict(self) -> dict[str, Any]:
        """Return the section as plain data, which :func:`split_from` reads; options at their default are left out."""
        own, prior = self.workload, self.prior
        usual = next((n for n in ("pairs", "triples", "worst") if _is(own, n, self.variables)), None)
        tables = [{"table": list(t), "weight": w} for t, w in zip(own.tables, own.weights, strict=True)]
        published = isinstance(prior, TablePrior) and [
            {"table": list(names), "counts": counts.tolist()} for names, counts in prior.tables.items()
        ]
        data = {
            "variables": list(self.variables),
            "epsilon": self.epsilon,
            "workload": tables if usual is None else usual,
            "core": list(self.core),
            "given": list(self.given),
            "structure": [options.to_dict(structure) for structure in self.structure],
            "objective": None if self.objective is None else options.to_dict(self.objective),
            "max_cells": self.max_cells,
            "prior": published or prior,
            "prior_epsilon": self.prior_epsilon,
            "unit": self.unit,
        }
        usually = {
            "unit": "record",
            "workload": "pairs",
            "max_cells": MAX_CELLS,
            "prior": "uniform",
            "prior_epsilon": 0.0,
        }
        return {n: value for n, value in data.items() if value not in (None, []) and value != usually.get(n)}


def split_from(
    data: Any, defaults: Mapping[str, Any], codebook: Codebook | None, where: str
) -> tuple[SplitPlan | None, list[str]]:
    """Return the section's plan, None without one or with problems, and the problems; ``defaults`` are of ``[design]``.

    >>> from postrand.codebook import Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in "abc"))
    >>> found, problems = split_from({"variables": ["a", "b"], "epsilon": 2, "workload": "pair"}, {}, book, "plan")
    >>> found, len(problems)
    (None, 1)
    """
    if data is None:
        return None, []
    if not isinstance(data, Mapping):
        return None, [sentence("expected a table", where=where)]
    reader = _Reader(where)
    given = {**{n: defaults[n] for n in ("prior", "prior_epsilon") if n in defaults}, **data}
    reader.problems += [
        sentence(f"unknown option {name!r}{nearest(name, FIELDS)}", where=where, wanted=", ".join(FIELDS))
        for name in data
        if name not in FIELDS
    ]
    reader.problems += _problems(given, where)
    structures = data.get("structure", [])
    structures = structures if isinstance(structures, list) else [structures]
    family: tuple[Any, ...] = tuple(reader.attempt(_member, STRUCTURES, s, f"{where} structure") for s in structures)
    objective = (
        reader.attempt(_member, OBJECTIVES, data["objective"], f"{where} objective") if "objective" in data else None
    )
    if codebook is None or not is_names(data.get("variables")):
        return None, reader.problems
    named = reader.named(chosen_variables, codebook, list(data["variables"]), _names(data, "core"))
    names, core = named or ((), ())
    workload = reader.named(_workload, data.get("workload", "pairs"), names) if names else None
    if names:
        reader.problems += [f"{where}: {problem}" for problem in not_released_problems(codebook, names)]
        reader.problems += _left_out(names, core, workload, where)
    reader.problems += _unsuited(family, objective, where)
    prior = reader.named(_prior_of, given.get("prior", "uniform"), codebook, names)
    if reader.problems or workload is None:
        return None, reader.problems
    epsilon = finite(data["epsilon"]) if "epsilon" in data else None
    rest = {n: given[n] for n in ("max_cells", "prior_epsilon", "unit") if n in given}
    asked = {"core": core, "given": _names(data, "given"), "structure": family, "objective": objective, "prior": prior}
    return SplitPlan(names, workload, epsilon, **asked, **rest), []


def _is(workload: Workload, name: str, variables: Sequence[str]) -> bool:
    """Return whether a workload is the one of this name."""
    return len(variables) >= (3 if name == "triples" else 2) and workload == workload_of(name, variables)


class _Reader:
    """Collect the problems of the section while its parts are read."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[str] = []

    def attempt(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except PostrandError as error:
            self.problems += error.problems
            return None

    def named(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what does not know that it reads a plan: its problems get the place."""
        before = len(self.problems)
        found = self.attempt(function, *arguments)
        self.problems[before:] = [f"{self.where}: {problem}" for problem in self.problems[before:]]
        return found


def _problems(data: Mapping[str, Any], where: str) -> Iterable[str]:
    for name in ("variables", "core", "given"):
        if name in data and not is_names(data[name]):
            yield sentence(f"{name!r} is not a list of names", where=where, fix=f'set {name} = ["age", "sex"]')
    if not data.get("variables"):
        yield sentence("'variables' is missing or empty", where=where, fix='set variables = ["age", "sex", "region"]')
    if "epsilon" in data and not finite(data["epsilon"]) > 0:
        got = shown(data["epsilon"], repr)
        yield sentence("epsilon is not a positive number", where=where, got=got, fix=unquoted(data["epsilon"]))
    most = data.get("max_cells", MAX_CELLS)
    if not (is_whole(most, 1) and most <= MAX_SIZE):
        wanted = f"a whole number in 1..{MAX_SIZE:,}"
        yield sentence("max_cells is not valid", where=where, got=shown(most, repr), wanted=wanted)
    unit = data.get("unit", "record")
    if unit not in SPLIT_UNITS:
        fix = "'household' shows one random member of each household, 'record' something of each record"
        if unit == "person":
            fix = "for one random record of each person, name the column of persons as 'household' too in [unit]"
        yield sentence(
            "unit is not valid", where=where, got=shown(unit, repr), wanted=" or ".join(SPLIT_UNITS), fix=fix
        )
    spent = data.get("prior_epsilon", 0.0)
    if not finite(spent) >= 0:
        yield sentence("prior_epsilon is not a number >= 0", where=where, got=shown(spent, repr))
    elif data.get("prior") == "dp" and not spent:
        yield sentence("prior = 'dp' needs a budget", where=where, got=spent, fix="set prior_epsilon = 0.1")


def _names(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    held = data.get(name, ())
    return tuple(held) if is_names(held) else ()


def _member(family: Iterable[type], data: Any, where: str) -> Any:
    return options.from_dict(family, {"model": data} if isinstance(data, str) else data, where)


def _workload(given: Any, names: Sequence[str]) -> Workload:
    """Return a workload from its name, or from a list of tables with or without weights."""
    if not isinstance(given, list):
        return workload_of(given, names)
    problems = [
        sentence("a table of the workload is not a list of names, or {table = [...], weight = ...}", got=shown(e, repr))
        for e in given
        if not is_names(e)
        and not (isinstance(e, Mapping) and is_names(e.get("table")) and set(e) <= {"table", "weight"})
    ]
    raise_all(SpecificationError, problems)
    pairs = [(tuple(e["table"]), e.get("weight", 1.0)) if isinstance(e, Mapping) else (tuple(e), 1.0) for e in given]
    return workload_of(Workload(tuple(t for t, _ in pairs), tuple(w for _, w in pairs)), names)


def _left_out(names: Sequence[str], core: Sequence[str], workload: Workload | None, where: str) -> Iterable[str]:
    """Yield the variables that no table asks for: no subset would show them, and no one could use them."""
    asked = {name for table in ([] if workload is None else workload.tables) for name in table} | {*core}
    left = [name for name in names if name not in asked]
    if workload is not None and left:
        what = f"no table of the workload has {', '.join(map(repr, left))}"
        yield sentence(what, where=where, fix="add a table with it, or give it a block, or set role = 'drop'")


def _unsuited(structures: Sequence[Any], objective: Any, where: str) -> Iterable[str]:
    for structure in structures:
        if structure is not None:
            problem = supports(DifferentialPrivacy(1.0), objective or EstimatorVariance(), structure)
            yield from [f"{where}: {problem}"] if problem else []


def _prior_of(given: Any, codebook: Codebook, names: Sequence[str]) -> SplitPrior:
    """Return the origin of the prior by its name, or published tables: each a list of variables with their counts."""
    if isinstance(given, str) and given in PRIORS:
        return given  # type: ignore[return-value]  # it is one of the literals
    entries = given if isinstance(given, list) else None
    if entries is None or not all(isinstance(e, Mapping) and set(e) == {"table", "counts"} for e in entries):
        hint = nearest(shown(given), PRIORS)
        wanted = f"{', '.join(PRIORS)}, or a list of published tables"
        fix = 'set prior = [{table = ["sex"], counts = [51, 49]}]'
        raise SpecificationError(sentence(f"unknown prior {shown(given, repr)}{hint}", wanted=wanted, fix=fix))
    wrong = [n for e in entries for n in (e["table"] if is_names(e["table"]) else [e["table"]]) if n not in names]
    if wrong:
        what = f"a table of the prior has {shown(wrong[0], repr)}, which is not one of the variables"
        raise SpecificationError(sentence(what))
    tables = [frozenset(e["table"]) for e in entries]
    twice = len(set(tables)) < len(tables) or any(len(set(e["table"])) < len(e["table"]) for e in entries)
    if twice:
        raise SpecificationError(sentence("a table of the prior, or a variable of one, is named twice"))
    prior = TablePrior({tuple(e["table"]): e["counts"] for e in entries}, "public")
    for table in prior.tables:
        shares(prior, codebook, table)  # raises where it does not fit the categories
    return prior
