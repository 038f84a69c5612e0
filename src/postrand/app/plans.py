"""A plan that was written before, as decisions: what the forms show can be changed, the rest is kept as it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.app import designing, forms, goals
from postrand.app.blocks import Together
from postrand.app.decisions import Decisions, Opened, open_decisions
from postrand.app.first_look import FirstLook
from postrand.codebook.survey_design import survey_to_dict
from postrand.codebook.variable import variable_to_dict
from postrand.designers.budget import is_share
from postrand.engines.database import open_records
from postrand.errors import PostrandError, UsageError, sentence
from postrand.plan import Plan, load_plan
from postrand.plan.infer import open_roles
from postrand.support import options
from postrand.support.inputs import read_toml

_KEPT = ("engine", "metadata", "claims", "policy", "ledger", "numerical", "unit", "analysts")
_WHOLE = ("privacy", "design", "blocks", "split")
"""The sections of a plan's own design, which are kept as they are where the forms cannot say all of them."""
_FORMS = ("format", "shuffle", "as_is", "listed", "completed")
_PARTS = (
    "source",
    "codebook",
    "privacy",
    "blocks",
    "split",
    "release",
    "numerical",
    "also",
    "metadata",
    "engine",
    "file",
    "policy",
    "unit",
    "ledger",
    "chosen_with",
    "analyses",
    "fraction",
)


def open_plan(path: Path, folder: Path) -> Decisions:
    """Return the decisions of a plan and open its file; ``folder`` holds the plan for a moment.

    Variables whose role its codebook leaves open have none here either: the first screen asks for it.

    Raises
    ------
    UsageError
        If it is a codebook, if its records are in a database, or if the forms, with what is kept, cannot say all that
        the plan says: it is never changed in silence.
    PostrandError
        If the plan or its file cannot be read.
    """
    data = read_toml(path, "the plan")
    if "variables" in data and "source" not in data:
        fix = "open the plan.toml beside it, or the file itself"
        raise UsageError(sentence("this is a codebook, and names no file", where=path.name, fix=fix))
    undecided = _undecided(data, path.parent)
    plan = load_plan(path, "other" if undecided else "")
    if not isinstance(plan.source, Path | formats.File):
        raise UsageError(_of_database(path))
    data = _with_places(data, path.parent)
    start = _start(plan, data, _opened(plan.source, plan))
    lost: list[str] = []
    for made in _readings(start, plan, data):
        lost = _lost(plan, made, folder)
        if not lost:
            roles = zip(made.names, made.roles, strict=True)
            return dataclasses.replace(made, roles=tuple("" if n in undecided else r for n, r in roles))
    raise UsageError(_beyond(path, lost))


def _readings(start: Decisions, plan: Plan, data: Mapping[str, Any]) -> Iterator[Decisions]:
    """Yield the decisions that may say what the plan says: in the forms, and with its own design kept as it is."""
    if plan.split is not None and not plan.blocks:
        yield _of_split(start, plan, data)
    elif plan.split is None and plan.blocks:
        yield _of_blocks(start, plan)
    yield dataclasses.replace(start, way=goals.FROM_PLAN)


def _lost(plan: Plan, decisions: Decisions, folder: Path) -> list[str]:
    """Return the parts of a plan that the decisions, written and read again, do not say."""
    try:
        again = designing.planned(decisions, folder)
    except PostrandError:  # a member that no form offers
        return ["the privacy model or the design of a block"]
    return [name for name in _PARTS if not _same(getattr(plan, name), getattr(again, name))]


def _with_places(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a plan's plain data with the files that are named from its folder by their whole paths."""
    named = {"policy": "file", "ledger": "file", "engine": "scratch"}
    found = {
        name: {**data[name], option: str((folder / data[name][option]).resolve())}
        for name, option in named.items()
        if data.get(name, {}).get(option)
    }
    return {**data, **found}


def _undecided(data: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Return the variables whose role the codebook of a plan leaves open; () where the codebook cannot be read."""
    source = data.get("source")
    name = source.get("codebook") if isinstance(source, Mapping) else None
    try:
        return open_roles(folder / name) if isinstance(name, str) else ()
    except PostrandError:  # reading the plan says what is wrong with it
        return ()


def _of_database(path: Path) -> str:
    name = path.name
    what = "the workbench opens files, and the records of this plan are in a database"
    fix = f"run postrand design --plan {name}, postrand protect --plan {name} --out release, postrand verify release"
    return sentence(what, where=name, fix=f"{fix}; or open a file with a copy of the table here")


def _beyond(path: Path, parts: Iterable[str]) -> str:
    what = f"the workbench cannot keep all of this plan: {', '.join(parts)}"
    return sentence(what, where=path.name, fix=f"edit it as text, and run postrand design --plan {path.name}")


def _same(one: Any, other: Any) -> bool:
    """Return whether two parts of plans are alike; tables of a prior are arrays, so a split is compared as data."""
    if hasattr(one, "variables") and hasattr(one, "to_dict") and other is not None:
        return bool(one.to_dict() == other.to_dict())
    return bool(one == other)


def _opened(path: Path | formats.File, plan: Plan) -> Opened:
    drafts = tuple(variable_to_dict(v) for v in plan.codebook.variables)
    source = open_records(path, plan.codebook)
    look = FirstLook.of(source, drafts)
    for batch in source.batches():
        look.add(batch)
    return Opened(
        path, path.name, look.rows, look.with_texts(drafts), tuple(look.missing[n] for n in plan.codebook.names)
    )


def _start(plan: Plan, data: Mapping[str, Any], opened: Opened) -> Decisions:
    kept = {name: data[name] for name in _KEPT if name in data}
    kept["whole"] = {name: data[name] for name in _WHOLE if name in data}
    kept["perturbed"] = list(plan.perturbed)
    if "chosen_with" in data.get("design", {}):
        kept["chosen_with"] = data["design"]["chosen_with"]
    kept["release"] = {name: value for name, value in data.get("release", {}).items() if name not in _FORMS}
    kept["rules"] = [rule.to_dict() for rule in plan.codebook.rules]
    kept["recodes"] = [recode.to_dict() for recode in plan.codebook.recodes]
    kept["design"] = {name: data["design"][name] for name in ("chosen_with",) if name in data.get("design", {})}
    kept["survey"] = {} if plan.codebook.survey is None else survey_to_dict(plan.codebook.survey)
    perturbed, level = {*plan.perturbed}, {}
    if plan.file is not None:
        level = {goals.DELTA: repr(plan.file.delta)}
        level |= {} if plan.file.epsilon is None else {goals.FILE: repr(plan.file.epsilon)}
    goal = "record" if plan.file is None else "stated" if plan.file.epsilon is None else "file"
    return dataclasses.replace(
        open_decisions(opened, {v.name: v.role for v in plan.codebook.variables}),
        perturb=tuple(name in perturbed for name in opened.names),
        format=plan.release.format,
        shuffle=plan.release.shuffle,
        as_is=plan.release.as_is,
        listed=plan.release.listed,
        completed=plan.release.completed,
        fraction=plan.fraction,
        goal=goal,
        values=level,
        kept=kept,
    )


def _of_split(decisions: Decisions, plan: Plan, data: Mapping[str, Any]) -> Decisions:
    assert plan.split is not None
    own, design = data["split"], data.get("design", {})
    found = dataclasses.replace(
        decisions, way="split", core=plan.split.core, kept={**decisions.kept, "split": own, "design": design}
    )
    stated = {name: goals.unlisted(found.kept, name) for name in ("workload", "prior")}
    level = plan.split.epsilon or getattr(plan.privacy, "epsilon", None)
    return dataclasses.replace(
        found,
        workload=goals.FROM_PLAN if stated["workload"] else own.get("workload", "pairs"),
        prior=goals.FROM_PLAN if stated["prior"] else own.get("prior", design.get("prior", "uniform")),
        values={**found.values, goals.RECORD: repr(level)},
    )


def _of_blocks(decisions: Decisions, plan: Plan) -> Decisions:
    """Return the decisions with the blocks of a plan, whose designs the forms take from its first block."""
    first, values = plan.blocks[0], dict(decisions.values)
    goal = "shared" if decisions.goal == "record" and is_share(first.privacy) else decisions.goal
    chosen: dict[str, Any] = {}
    for family in ("privacy", "objective", "structure"):
        if family == "privacy" and goal in ("file", "shared"):  # blocks share what the record has
            chosen["model"] = plan.privacy.name
            continue
        data = options.to_dict(getattr(first, family))
        name = chosen["model" if family == "privacy" else family] = data.pop("model")
        if name not in forms.names(family):
            return dataclasses.replace(decisions, way=goals.FROM_PLAN)
        values |= {f"{family}.{name}.{key}": _text(value) for key, value in data.items() if value is not None}
    if goal == "shared":
        values[goals.RECORD] = repr(getattr(plan.privacy, "epsilon", 1.0))
    held = tuple(Together(one.variables, one.given) for one in plan.blocks)
    return dataclasses.replace(decisions, **chosen, held=held, goal=goal, prior=first.prior, values=values)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
