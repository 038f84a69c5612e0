"""The plan: all decisions of the curator in one TOML file, checked as a whole before any record is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.codebook import Codebook
from postrand.codebook.category_distances import edges_from, points_from
from postrand.columns.planned import read_entries
from postrand.completion.files import copies_problems, name_problems
from postrand.designers import OBJECTIVES, STRUCTURES
from postrand.designers.budget import BudgetShare, is_share
from postrand.engines import resource_problems
from postrand.engines.database import SOURCE_OPTIONS, TARGET_OPTIONS, source_from, target_from
from postrand.engines.resources import resources_from
from postrand.errors import PostrandError, SpecificationError, nearest, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.metadata import Description
from postrand.objectives import beside
from postrand.plan.analyses import analyses_of
from postrand.plan.decisions import as_is_problems, listed_problems, option_problems
from postrand.plan.file_goal import goal_of
from postrand.plan.fitting import beside_problems, fit_problems, goal_problems, units_problems, unsuited, with_clear
from postrand.plan.infer import load_codebook
from postrand.plan.ledger_plan import ledger_of
from postrand.plan.one_member import one_member_problems
from postrand.plan.policy import columns_of, load_policy, policy_of
from postrand.plan.split_plan import split_from
from postrand.plan.unit_plan import unit_from
from postrand.plan.values import CHOSEN_WITH, PRIOR_SOURCES, BlockPlan, Plan, ReleaseOptions
from postrand.plan.written import format_problems
from postrand.privacy import (
    MODELS,
    ModelTraits,
    Together,
    models_of,
    needs_file,
)
from postrand.support import options
from postrand.support.inputs import finite, has_controls, is_names, is_whole, read_toml

_SECTIONS = (
    "source",
    "engine",
    "privacy",
    "claims",
    "design",
    "blocks",
    "split",
    "unit",
    "numerical",
    "release",
    "metadata",
    "policy",
    "ledger",
    "analysts",
)
_SOURCE = ("file", "codebook", "sampling_fraction", *SOURCE_OPTIONS, *formats.SETTINGS)
_DESIGN = ("objective", "structure", "prior", "prior_epsilon", "chosen_with")
_BLOCK = tuple(f.name for f in dataclasses.fields(BlockPlan))
_UNKNOWN = {"model": "differential", "epsilon": 1.0}  # replaces a [privacy] that is already refused
_ANY = ((0, 1, 1.0),)  # replaces edges that are already refused


def load_plan(path: str | Path, open_role: str = "") -> Plan:
    """Read ``plan.toml`` and the codebook it names; paths are relative to the plan's folder.

    With ``open_role`` the variables without a role get that one: to show a plan before all is decided.

    Raises
    ------
    SpecificationError
        With all problems of the plan and its codebook together: syntax, unknown sections and options (with the
        nearest known name), unknown variables, a variable in two blocks.
    """
    path = Path(path)
    return plan_from_dict(read_toml(path, "the plan"), path.parent, where=str(path), open_role=open_role)


def ruled_by(plan: Plan, path: Path | None) -> Plan:
    """Return a plan with the rules of another ``policy.toml``; as it is where none is named.

    Raises
    ------
    SpecificationError
        As :func:`load_policy` does.
    """
    return plan if path is None else dataclasses.replace(plan, policy=load_policy(path, columns_of(plan.codebook)))


def plan_from_dict(data: Mapping[str, Any], folder: Path, where: str = "plan", open_role: str = "") -> Plan:
    """Check plain data and return its plan; raises SpecificationError with all problems together."""
    if "variables" in data and "source" not in data:
        fix = "name the plan that names this codebook; 'postrand init' writes one"
        raise SpecificationError(sentence("this is a codebook, and no plan", where=where, fix=fix))
    check = _Check(where)
    check.names(data, _SECTIONS, "")
    source, design = check.table(data, "source", _SOURCE), check.table(data, "design", _DESIGN)
    table, wrong = source_from(source, folder, f"{where} [source]")
    check.problems += wrong
    settings, unread = formats.settings_from(source, f"{where} [source]")
    check.problems += unread
    resources, wrong_engine = resources_from(data.get("engine", {}), folder, f"{where} [engine]")
    check.problems += wrong_engine
    unfit = resource_problems(resources.name or "local", resources)
    check.problems += [f"{where} [engine]: {problem}" for problem in unfit]
    file = "" if table or wrong else check.file(source, "file", "[source]")
    check.problems += formats.unfit_settings(Path(file), settings, f"{where} [source]")
    if table and settings != formats.ReadSettings():
        check.add(
            "settings of a file are given, and the source is a database", "[source]", got=", ".join(settings.to_dict())
        )
    book = check.file(source, "codebook", "[source]")
    codebook: Any = check.attempt(load_codebook, folder / book, open_role) if book else None
    share = check.share(source, codebook)
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
    chosen_with = design.get("chosen_with", CHOSEN_WITH[0])
    if chosen_with not in CHOSEN_WITH:
        check.add("unknown 'chosen_with'", "[design]", got=shown(chosen_with, repr), wanted=" or ".join(CHOSEN_WITH))
    check.record = privacy
    if needs_file(privacy):
        check.unasked = record
    entries = check.tables(data, "blocks")
    if not entries and "split" not in data:
        check.add("the plan has no blocks", "[[blocks]]", fix="name at least one variable to perturb, or add [split]")
    planned = [check.block(entry, f"[[blocks]] {n}", codebook) for n, entry in enumerate(entries, 1)]
    blocks = [block for block in planned if block is not None]
    split, wrong = split_from(data.get("split"), design, codebook, f"{where} [split]")
    check.problems += wrong
    in_split = () if split is None else split.variables
    unit, wrong = unit_from(data.get("unit"), codebook, f"{where} [unit]")
    check.problems += wrong
    if codebook is not None:
        check.problems += fit_problems(blocks, split, codebook, where)
    perturbed = [name for block in blocks for name in (*block.variables, *block.given)]
    perturbed += [] if split is None else [*split.variables, *split.given]
    numerical, wrong = read_entries(data.get("numerical", []), codebook, perturbed, where)
    check.problems += wrong
    if codebook is not None and release is not None and is_names(release.as_is):
        treated = {*(n for b in blocks for n in b.variables), *(n for e in numerical for n in e.variables), *in_split}
        ids = release.release_ids is True
        check.problems += as_is_problems(release.as_is, codebook, treated, release_ids=ids, where=f"{where} [release]")
        listed = release.listed if is_names(release.listed) else ()
        check.problems += listed_problems(listed, codebook, treated, where=f"{where} [release]")
        origin = None if table or not file else Path(file)
        whole = dataclasses.replace(release, target=target)
        check.problems += format_problems(codebook, whole, origin, in_split, f"{where} [release]")
    if codebook is not None and release is not None and release.completed is not None:
        check.problems += [f"{where} [release] completed: {text}" for text in name_problems(codebook)]
    ledger = check.attempt(ledger_of, data.get("ledger"), folder, f"{where} [ledger]")
    named = None if codebook is None else columns_of(codebook)
    policy = check.attempt(policy_of, data.get("policy"), folder, f"{where} [policy]", named)
    analyses = check.attempt(analyses_of, data.get("analysts"), codebook, f"{where} [analysts]")
    also = check.claims(check.tables(data, "claims"))
    raise_all(SpecificationError, check.problems)
    release = dataclasses.replace(release, as_is=tuple(release.as_is), target=target)
    blocks = [with_clear(block, blocks, in_split, codebook) for block in blocks]
    place = table or formats.placed((folder / file).resolve(), settings)
    plan = Plan(
        place,
        codebook,
        privacy,
        tuple(blocks),
        release,
        metadata,
        numerical,
        also,
        resources,
        goal,
        split,
        policy,
        chosen_with,
        unit,
        ledger,
        analyses,
        share,
    )
    check.problems += [*beside_problems(plan, where), *goal_problems(plan, where)]
    shapes = check.attempt(lambda: plan.shapes)  # finds structural zeros and strata that no block can keep
    check.problems += unsuited(plan, shapes or (), where)
    check.problems += units_problems(plan, shapes or (), where)
    check.problems += one_member_problems(plan, shapes or (), where)
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

    def share(self, data: Mapping[str, Any], codebook: Codebook | None) -> float | None:
        """Return the share of the population that is in the file, if one is stated."""
        value, part = data.get("sampling_fraction"), "[source]"
        if value is None:
            return None
        if not 0 < finite(value) <= 1:
            self.add("the sampling fraction is outside its range", part, got=shown(value, repr), wanted="(0, 1]")
            return None
        if weights := [] if codebook is None else codebook.with_role("weight"):
            what, fix = "both a sampling fraction and a weight are given", "remove 'sampling_fraction'"
            self.add(what, part, got=f"{weights[0].name} in the codebook", wanted="one of them", fix=fix)
        return float(value)

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
        extra: dict[str, Any] = {n: entry[n] for n in ("rarer_than", "one_member", "at_most_one") if n in entry}
        extra["given"] = tuple(entry.get("given", ()))
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
    # The names load every format; they are a list here, because what a plan says may be no text.
    if release.format != "same" and release.format not in list(formats.written_names()):
        known = ("same", *formats.written_names())
        hint = nearest(shown(release.format), known)
        yield sentence(f"unknown format {shown(release.format, repr)}{hint}", where=where, wanted=", ".join(known))
    for name in ("shuffle", "release_ids"):
        if not isinstance(getattr(release, name), bool):
            yield sentence(f"{name!r} is not true or false", where=where)
    yield from option_problems(release.as_is, release.listed, release.household_numbers, where)
    if release.completed is not None:
        yield from copies_problems(release.completed, f"{where} completed")
