"""The plan: all decisions of the curator in one TOML file, checked as a whole before any record is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from postrand import formats
from postrand.certification.certificate import Claim
from postrand.codebook import Codebook
from postrand.codebook.category_distances import edges_from, points_from
from postrand.columns.planned import NumericalPlan, read_entries
from postrand.designers import OBJECTIVES, STRUCTURES, Objective, Setting, Structure, supports
from postrand.designers.budget import BudgetShare, is_share
from postrand.designers.linked_cells import BlockRequest, LinkedCells, advice, shapes_of
from postrand.engines import Resources, resource_problems
from postrand.engines.database import SOURCE_OPTIONS, TARGET_OPTIONS, Table, Target, source_from, target_from
from postrand.engines.resources import NOTHING, resources_from
from postrand.errors import PostrandError, SpecificationError, nearest, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.metadata import Description
from postrand.objectives import beside, needs_joint
from postrand.plan.decisions import as_is_problems, option_problems
from postrand.plan.file_goal import FileGoal, goal_of
from postrand.plan.infer import load_codebook
from postrand.privacy import MODELS, ModelTraits, PrivacyModel, Together, models_of, needs_file, spent, with_prior
from postrand.support import options
from postrand.support.inputs import finite, has_controls, is_names, is_whole, read_toml
from postrand.support.showing import few

PriorSource = Literal["uniform", "file", "dp"]
PRIOR_SOURCES: tuple[str, ...] = get_args(PriorSource)


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Hold how one block is designed, or its given matrix.

    ``prior`` is ``uniform`` (public), ``file`` (the file's own frequencies: confidential, and certified as such) or
    ``dp`` (a histogram of the file with exact noise, which spends ``prior_epsilon`` of the record's budget).
    ``given``: variables that stay as they are, with a transition matrix for each of their values. ``rarer_than``: only
    records are perturbed whose combination of the block's variables occurs in fewer records. A ``BudgetShare`` as
    privacy uses part of the record's remaining budget. If the privacy depends on the file's frequencies, so does the
    prior.
    """

    variables: tuple[str, ...]
    privacy: PrivacyModel | BudgetShare
    objective: Objective
    structure: Structure
    prior: PriorSource = "uniform"
    prior_epsilon: float = 0.0
    matrix: tuple[tuple[float, ...], ...] | None = None
    given: tuple[str, ...] = ()
    rarer_than: int = 0

    @property
    def reads_file(self) -> bool:
        """Whether the design needs the records."""
        asked = self.prior != "uniform" or self.rarer_than > 0 or needs_file(self.privacy)
        return self.matrix is None and asked


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """Hold the form of the release: format of the data file, order of records, with or without record identifiers.

    ``format`` is ``"same"`` as the source, or one of :func:`postrand.formats.written_names`.
    ``as_is`` lists unperturbed columns that are released as they are although they single out many records. Household
    numbers are replaced by new ones, or released ``as they are``. ``target`` is the database table for the
    released data.
    """

    format: str = "same"
    shuffle: bool = True
    release_ids: bool = False
    as_is: tuple[str, ...] = ()
    household_numbers: Literal["renumbered", "as they are"] = "renumbered"
    target: Target | None = field(default=None, metadata={"confidential": True})  # no option of its own

    @property
    def renumbers(self) -> bool:
        """Whether household numbers are replaced by new ones."""
        return self.household_numbers == "renumbered"


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold a checked plan; paths are absolute.

    ``privacy`` is the claim on all perturbed values of a record together; each block's own claim is certified too, and
    so is what ``also`` says of all of them. ``file`` is what the plan asks of the whole file; if that has an ε, the one
    in ``privacy`` follows from it and the number of records (:mod:`postrand.workflow.file_goal`).
    """

    source: Path | Table
    codebook: Codebook
    privacy: PrivacyModel
    blocks: tuple[BlockPlan, ...]
    release: ReleaseOptions = field(default_factory=ReleaseOptions)
    metadata: Description = field(default_factory=Description)
    numerical: tuple[NumericalPlan, ...] = ()
    also: tuple[PrivacyModel, ...] = ()
    engine: Resources = NOTHING
    file: FileGoal | None = None

    def __repr__(self) -> str:
        blocks = few([" × ".join(block.variables) for block in self.blocks])
        return f"Plan({self.source.name}: {len(self.blocks)} blocks, {blocks}; {self.privacy!r})"

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The record's claim first, then those of each block; within classes where a block has several.

        A claim that depends on the file's frequencies is about the blocks that perturb keys, with all their values.
        """
        within = [
            block.rarer_than > 0 or not (shape is None or shape.is_simple)
            for block, shape in zip(self.blocks, self.shapes, strict=True)
        ]
        each = [
            Claim(_claimed(model, block), block.variables, inside and not needs_file(model))
            for block, inside in zip(self.blocks, within, strict=True)
            for model in models_of(block.privacy)
            if not is_share(model) and (len(self.blocks) > 1 or model.name != self.privacy.name)
        ]
        each += [Claim(model) for model in self.also]
        if not needs_file(self.privacy):
            return (Claim(self.privacy, within=any(within)), *each)
        named = [b.variables for b in self.blocks if any(self.codebook[n].role == "key" for n in b.variables)]
        return tuple(dict.fromkeys([Claim(self.privacy, tuple(n for names in named for n in names)), *each]))

    @property
    def shapes(self) -> tuple[LinkedCells | None, ...]:
        """The shape of each block; None if it acts on all combinations of its variables and reads no other variable."""
        return tuple(
            None if shape.is_simple and len(shape.cells) == self.cells_of(block) and not block.rarer_than else shape
            for block, shape in zip(self.blocks, shapes_of(self.codebook, self._parts), strict=True)
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """The way to keep the rules, for each set of blocks that they link."""
        return tuple(advice(self.codebook, self._parts))

    @property
    def _parts(self) -> list[BlockRequest]:
        total = _budget(self.privacy)
        share = (1.0 if total is None else total) / max(len(self.blocks), 1)  # of blocks without a budget, about
        budgets = [share if (own := _budget(block.privacy)) is None else own for block in self.blocks]
        return [BlockRequest(b.variables, b.given, epsilon) for b, epsilon in zip(self.blocks, budgets, strict=True)]

    def limited(self, resources: Resources) -> Plan:
        """Return the plan whose databases use no more than this."""
        source, target = self.source, self.release.target
        source = dataclasses.replace(source, resources=resources) if isinstance(source, Table) else source
        target = None if target is None else dataclasses.replace(target, resources=resources)
        return dataclasses.replace(self, source=source, release=dataclasses.replace(self.release, target=target))

    def cells_of(self, block: BlockPlan) -> int:
        """Return the number of combinations of a block's variables, feasible or not."""
        return math.prod(self.codebook[name].size for name in block.variables)


def _claimed(model: PrivacyModel, block: BlockPlan) -> PrivacyModel:
    """Return what a block claims: the level of its matrix and the ε that its prior spends."""
    claimed: PrivacyModel = with_prior(model, block.prior_epsilon) if block.prior == "dp" else model
    return claimed


def _budget(privacy: Any) -> float | None:
    """Return the ε of a model whose levels add up over blocks; None of any other."""
    traits = getattr(privacy, "traits", None)
    return spent(privacy) if traits is not None and traits.budget else None


_SECTIONS = ("source", "engine", "privacy", "claims", "design", "blocks", "numerical", "release", "metadata")
_SOURCE = ("file", "codebook", *SOURCE_OPTIONS)
_DESIGN = ("objective", "structure", "prior", "prior_epsilon")
_BLOCK = tuple(f.name for f in dataclasses.fields(BlockPlan))
_UNKNOWN = {"model": "differential", "epsilon": 1.0}  # replaces a [privacy] that is already refused
_ANY = ((0, 1, 1.0),)  # replaces edges that are already refused


def load_plan(path: str | Path) -> Plan:
    """Read ``plan.toml`` and the codebook it names; paths are relative to the plan's folder.

    Raises
    ------
    SpecificationError
        With all problems of the plan and its codebook together: syntax, unknown sections and options (with the
        nearest known name), unknown variables, a variable in two blocks.
    """
    path = Path(path)
    return plan_from_dict(read_toml(path, "the plan"), path.parent, where=path.name)


def plan_from_dict(data: Mapping[str, Any], folder: Path, where: str = "plan") -> Plan:
    """Check plain data and return its plan; raises SpecificationError with all problems together."""
    check = _Check(where)
    check.names(data, _SECTIONS, "")
    source, design = check.table(data, "source", _SOURCE), check.table(data, "design", _DESIGN)
    table, wrong = source_from(source, folder, f"{where} [source]")
    check.problems += wrong
    resources, wrong_engine = resources_from(data.get("engine", {}), folder, f"{where} [engine]")
    check.problems += wrong_engine
    unfit = resource_problems(resources.name or "local", resources)
    check.problems += [f"{where} [engine]: {problem}" for problem in unfit]
    file = "" if table or wrong else check.file(source, "file", "[source]")
    book = check.file(source, "codebook", "[source]")
    codebook: Any = check.attempt(load_codebook, folder / book) if book else None
    record, goal = check.attempt(goal_of, data.get("privacy", {}), f"{where} [privacy]") or (_UNKNOWN, None)
    privacy = check.attempt(_member, MODELS, record, f"{where} [privacy]")
    chosen = data.get("release", {})
    target, wrong = target_from(chosen, folder, f"{where} [release]")
    check.problems += wrong
    if isinstance(chosen, Mapping):
        chosen = {name: value for name, value in chosen.items() if name not in TARGET_OPTIONS}
    release = check.attempt(options.build, ReleaseOptions, chosen, f"{where} [release]")
    if release is not None:
        check.problems += _release_problems(release, f"{where} [release]")
    metadata = check.attempt(options.build, Description, data.get("metadata", {}), f"{where} [metadata]")
    check.design = check.choices(design, "[design]")
    check.record = privacy
    if needs_file(privacy):
        check.unasked = record
    entries = check.tables(data, "blocks")
    if not entries:
        check.add("the plan has no blocks", "[[blocks]]", fix="name at least one variable to perturb")
    planned = [check.block(entry, f"[[blocks]] {n}", codebook) for n, entry in enumerate(entries, 1)]
    blocks = [block for block in planned if block is not None]
    if codebook is not None:
        check.problems += _fit_problems(blocks, codebook, where)
    perturbed = [name for block in blocks for name in (*block.variables, *block.given)]
    numerical, wrong = read_entries(data.get("numerical", []), codebook, perturbed, where)
    check.problems += wrong
    if codebook is not None and release is not None and is_names(release.as_is):
        treated = {*(n for b in blocks for n in b.variables), *(n for e in numerical for n in e.variables)}
        asked = {"release_ids": release.release_ids is True, "renumbered": release.renumbers}
        check.problems += as_is_problems(release.as_is, codebook, treated, where=f"{where} [release]", **asked)
    also = check.claims(check.tables(data, "claims"))
    raise_all(SpecificationError, check.problems)
    release = dataclasses.replace(release, as_is=tuple(release.as_is), target=target)
    blocks = [_with_clear(block, blocks, codebook) for block in blocks]
    place = table or (folder / file).resolve()
    plan = Plan(place, codebook, privacy, tuple(blocks), release, metadata, numerical, also, resources, goal)
    shapes = check.attempt(lambda: plan.shapes)  # finds structural zeros and strata that no block can keep
    check.problems += _unsuited(plan, shapes or (), where)
    raise_all(SpecificationError, check.problems)
    return plan


class _Check:
    """Collect the problems of one file while reading its parts."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[str] = []
        self.design: dict[str, Any] = {}
        self.unasked: Any = {"model": BudgetShare.name}  # the privacy of a block without its own
        self.record: Any = None  # the claim on the whole record

    def add(self, what: str, part: str, **more: Any) -> None:
        self.problems.append(sentence(what, where=f"{self.where} {part}".strip(), **more))

    def names(self, data: Mapping[str, Any], known: Iterable[str], part: str) -> None:
        for name in data:
            if name not in known:
                self.add(f"unknown option {name!r}{nearest(name, known)}", part, wanted=", ".join(known))

    def table(self, data: Mapping[str, Any], name: str, known: Iterable[str]) -> Mapping[str, Any]:
        part = data.get(name, {})
        if not isinstance(part, Mapping):
            self.add("expected a table", f"[{name}]")
            return {}
        self.names(part, known, f"[{name}]")
        return part

    def tables(self, data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        entries = data.get(name, [])
        if isinstance(entries, list) and all(isinstance(entry, Mapping) for entry in entries):
            return entries
        self.add("expected a list of tables", f"[[{name}]]", fix=f"write [[{name}]]")
        return []

    def file(self, data: Mapping[str, Any], name: str, part: str) -> str:
        value = data.get(name)
        if not isinstance(value, str) or not value:
            self.add(f"{name!r} is missing", part, fix=f'set {name} = "..."')
        elif has_controls(value):
            self.add(f"{name!r} is not a valid file name: it contains a control character", part)
        else:
            return value
        return ""

    def attempt(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except PostrandError as error:
            self.problems += error.problems
            return None

    def choices(self, entry: Mapping[str, Any], part: str) -> dict[str, Any]:
        """Return the designer's choices in ``entry``, without the wrong ones."""
        chosen = {}
        for name, family in (("objective", OBJECTIVES), ("structure", STRUCTURES)):
            if name in entry:
                chosen[name] = self.attempt(_member, family, entry[name], f"{self.where} {part} {name}")
        prior = entry.get("prior")
        if prior is not None and prior not in PRIOR_SOURCES:
            hint = nearest(shown(prior), PRIOR_SOURCES)
            self.add(f"unknown prior {shown(prior, repr)}{hint}", part, wanted=" or ".join(PRIOR_SOURCES))
        elif prior is not None:
            chosen["prior"] = prior
        if "prior_epsilon" in entry:
            chosen["prior_epsilon"] = entry["prior_epsilon"]
        return chosen

    def privacy(self, asked: Any, part: str) -> Any:
        """Return the requested model, or the conjunction of a list of models."""
        if not isinstance(asked, list):
            return self.attempt(_member, (*MODELS, BudgetShare), asked, part)
        models = [self.attempt(_member, MODELS, one, part) for one in asked]
        return None if None in models else self.attempt(Together, tuple(models))

    def claims(self, entries: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
        """Return what else is claimed of the whole record: models that the law, and the release, alone decide."""
        found = []
        for n, entry in enumerate(entries, 1):
            model = self.attempt(_member, MODELS, entry, f"{self.where} [[claims]] {n}")
            if model is not None and needs_file(model):
                self.add(f"{model.name!r} rests on the file", f"[[claims]] {n}", fix="state it in [privacy]")
            found.append(model)
        return tuple(found)

    def defaults(self, privacy: Any) -> dict[str, Any]:
        """Return the choices of a block that makes none: those of [design], else its model's own."""
        model = next((m for m in models_of(privacy) if needs_file(m)), models_of(privacy)[0])
        traits: ModelTraits = getattr(self.record if is_share(model) else model, "traits", ModelTraits("", "", ""))
        families = {"objective": OBJECTIVES, "structure": STRUCTURES}
        usual = {name: options.named(family, getattr(traits, name))() for name, family in families.items()}
        always = {"prior": "file"} if needs_file(privacy) else {}
        return {**usual, "prior": "uniform", **self.design, **always}

    def block(self, entry: Mapping[str, Any], part: str, codebook: Codebook | None) -> BlockPlan | None:
        before = len(self.problems)
        self.names(entry, _BLOCK, part)
        variables = entry.get("variables")
        if not is_names(variables) or not variables:
            self.add("'variables' is not a list of names", part, fix='set variables = ["name"]')
            variables = []
        asked = entry.get("privacy", self.unasked)
        if isinstance(asked, Mapping) and "distance" in asked:
            named = [] if codebook is None else [codebook[v] for v in variables if v in codebook]
            found = self.attempt(edges_from, asked["distance"], named, part) if codebook is not None else None
            places = points_from(asked["distance"], named[0]) if found else ()
            asked = {k: v for k, v in asked.items() if k != "distance"} | {"edges": found or _ANY, "points": places}
        privacy = self.privacy(asked, f"{self.where} {part} privacy")
        choices = {**self.defaults(privacy), **self.choices(entry, part)}
        choices["objective"] = beside(choices.get("objective"), privacy)
        matrix = self.attempt(_rows, entry.get("matrix"), f"{self.where} {part} matrix")
        self.problems += _block_problems(entry, choices, f"{self.where} {part}")
        self.problems += _file_problems(entry, privacy, f"{self.where} {part}")
        if len(self.problems) > before:
            return None
        extra = {"given": tuple(entry.get("given", ())), "rarer_than": entry.get("rarer_than", 0)}
        return BlockPlan(variables=tuple(entry["variables"]), privacy=privacy, matrix=matrix, **choices, **extra)


def _block_problems(entry: Mapping[str, Any], choices: Mapping[str, Any], where: str) -> Iterable[str]:
    if not is_names(entry.get("given", [])):
        yield sentence("'given' is not a list of names", where=where, fix='set given = ["region"]')
    rarer = entry.get("rarer_than", 0)
    if not is_whole(rarer):
        yield sentence("'rarer_than' is not a number of records", where=where, got=rarer, wanted="a whole number >= 0")
    if "matrix" in entry and (entry.get("given") or entry.get("rarer_than")):
        yield sentence("a given matrix cannot be combined with 'given' or 'rarer_than'", where=where)
    spent = choices.get("prior_epsilon", 0.0)
    if not finite(spent) >= 0:
        yield sentence("prior_epsilon is not a number >= 0", where=where, got=shown(spent, repr))
    elif choices.get("prior") == "dp" and not spent:
        yield sentence("prior = 'dp' needs a budget", where=where, got=spent, fix="set prior_epsilon = 0.1")


def _file_problems(entry: Mapping[str, Any], privacy: Any, where: str) -> Iterable[str]:
    if not needs_file(privacy):
        return
    if entry.get("prior", "file") != "file":
        what = f"prior = {entry['prior']!r} hides nothing: the privacy model itself depends on the file's frequencies"
        yield sentence(what, where=where, fix="remove 'prior'")
    if entry.get("rarer_than"):
        what = "'rarer_than' cannot be combined with this privacy model, which finds rare records itself"
        yield sentence(what, where=where, fix="remove 'rarer_than'")


def _unsuited(plan: Plan, shapes: Sequence[LinkedCells | None], where: str) -> Iterable[str]:
    """Say which blocks ask for what does not go together, and which structures would do."""
    for block, shape in zip(plan.blocks, shapes, strict=False):
        privacy: Any = plan.privacy if is_share(block.privacy) else block.privacy
        if block.matrix is not None or (is_share(block.privacy) and not plan.privacy.traits.budget):
            continue
        classes = block.rarer_than > 0 or not (shape is None or shape.is_simple)
        size = plan.cells_of(block) if shape is None else 0
        setting = Setting(size, shape is not None, classes, block.prior)
        problem = supports(privacy, block.objective, block.structure, setting)
        if problem is not None:
            members: Sequence[Any] = STRUCTURES
            others = [s.name for s in members if supports(privacy, block.objective, s(), setting) is None]
            hint = f" Structures that do: {', '.join(others)}." if others else ""
            yield f"{where}, block {'*'.join(block.variables)!r}: {problem}{hint}"


def _with_clear(block: BlockPlan, blocks: Iterable[BlockPlan], codebook: Codebook) -> BlockPlan:
    """Set the unperturbed variables of an objective that lists none: all categorical ones released as they are."""
    if not needs_joint(block.objective) or block.objective.clear:
        return block
    perturbed = {name for other in blocks for name in other.variables}
    released = codebook.with_role("key", "sensitive", "other")
    clear = tuple(v.name for v in released if v.is_categorical and v.name not in perturbed)
    return dataclasses.replace(block, objective=block.objective.beyond(clear))


def _rows(matrix: Any, where: str) -> tuple[tuple[float, ...], ...] | None:
    if matrix is None:
        return None
    if isinstance(matrix, list) and all(isinstance(row, list) for row in matrix):
        rows = tuple(tuple(finite(x) for x in row) for row in matrix)
        if not any(math.isnan(x) for row in rows for x in row):
            try:
                TransitionMatrix.from_array(rows)
            except SpecificationError as error:
                raise SpecificationError(f"{where}: {problem}" for problem in error.problems) from None
            return rows
    raise SpecificationError(sentence("not a list of rows of numbers", where=where))


def _member(family: Iterable[type], data: Any, where: str) -> Any:
    """Return the member of a family from its name, or from a table with ``model`` and options."""
    if isinstance(data, str):
        data = {"model": data}
    return options.from_dict(family, data, where)


def _release_problems(release: ReleaseOptions, where: str) -> Iterable[str]:
    known = ("same", *formats.written_names())
    if release.format not in known:
        hint = nearest(shown(release.format), known)
        yield sentence(f"unknown format {shown(release.format, repr)}{hint}", where=where, wanted=", ".join(known))
    for name in ("shuffle", "release_ids"):
        if not isinstance(getattr(release, name), bool):
            yield sentence(f"{name!r} is not true or false", where=where)
    yield from option_problems(release.as_is, release.household_numbers, where)


def _fit_problems(blocks: list[BlockPlan], codebook: Codebook, where: str) -> Iterable[str]:
    names = [name for block in blocks for name in block.variables]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield sentence(f"variable {name!r} is in two places", where=f"{where} [[blocks]]", fix="keep one block")
    clear = {n for b in blocks if needs_joint(b.objective) for n in b.objective.clear}
    for name in sorted(clear.intersection(names)):
        yield sentence(f"{name!r} is in 'clear', but a block perturbs it", where=f"{where} [[blocks]] objective")
    names += [*(name for block in blocks for name in block.given), *sorted(clear)]
    for name in dict.fromkeys(names):
        if name not in codebook:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
        elif not codebook[name].is_categorical:
            yield sentence(
                f"variable {name!r} has no categories to perturb", where=where, fix="list them in the codebook"
            )
        elif codebook[name].role not in ("key", "sensitive", "other"):
            yield sentence(f"variable {name!r} has role {codebook[name].role!r}", where=where, wanted="a released role")
