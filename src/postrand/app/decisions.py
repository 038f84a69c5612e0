"""The decisions: all decisions of a curator in one tab, as a value; an action returns the next decisions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postrand.app import blocks as together
from postrand.app import entries, forms, goals, suiting
from postrand.app.blocks import Blocks
from postrand.codebook.variable import ROLES
from postrand.errors import PostrandError
from postrand.formats import File, written_names
from postrand.plan.infer import perturbs

PAGE = 50
VIEW = ("shown", "pair", "find", "page", "edited", "texts", "problem")
"""What a person looks at, and types before it is decided: no decision."""
USUAL_COPIES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """An opened file: drafts of its columns in file order, and the counts of one pass.

    ``missing[j]`` is the number of missing values of column j, with those that mean "no answer". ``names`` are the
    columns in file order.
    """

    path: Path | File
    name: str
    rows: int
    drafts: tuple[Mapping[str, Any], ...]
    missing: tuple[int, ...]
    is_demo: bool = False
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(d["name"] for d in self.drafts))


@dataclass(frozen=True, slots=True)
class Decisions:
    """Hold the decisions. ``roles`` and ``perturb`` have one entry for each column; ``None``: the role decides.

    ``way``, ``workload`` and ``core`` say how the perturbed variables are released together, ``goal`` what the level is
    about (:mod:`postrand.app.goals`). ``held`` are blocks by hand or of an opened plan. ``kept`` are the sections of an
    opened plan that no form shows; ``kept["whole"]`` is its own design, which the way ``plan`` releases unchanged.
    """

    opened: Opened | None = None
    roles: tuple[str, ...] = ()
    perturb: tuple[bool | None, ...] = ()
    model: str = "differential"
    objective: str = "information"
    structure: str = "uniform-off-diagonal"
    values: Mapping[str, str] = field(default_factory=dict)
    prior: str = "uniform"
    way: str = "blocks"
    workload: str = "pairs"
    core: tuple[str, ...] = ()
    held: Blocks = ()
    goal: str = "record"
    kept: Mapping[str, Any] = field(default_factory=dict)
    fraction: float | None = None
    format: str = "same"
    shuffle: bool = True
    as_is: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    completed: int | None = None
    shown: int = 0
    pair: tuple[int, int] = (0, 1)
    find: str = ""
    page: int = 0
    edited: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the file."""
        return () if self.opened is None else self.opened.names

    def is_perturbed(self, column: int) -> bool:
        """Whether a column is perturbed: as decided, otherwise if it is a key variable with values to exchange."""
        assert self.opened is not None
        if not perturbs(self.opened.drafts[column]) or self.roles[column] not in ("key", "sensitive", "other"):
            return False
        asked = self.perturb[column]
        return self.roles[column] == "key" if asked is None else asked

    @property
    def perturbed(self) -> tuple[int, ...]:
        """The perturbed columns."""
        return tuple(j for j in range(len(self.roles)) if self.is_perturbed(j))

    @property
    def comparable(self) -> tuple[int, ...]:
        """The released columns with categories: those of which the screen before and after has tables."""
        drafts = () if self.opened is None else self.opened.drafts
        held = enumerate(zip(drafts, self.roles, strict=True))
        return tuple(j for j, (d, r) in held if d.get("categories") and r in ("key", "sensitive", "other"))

    @property
    def keys(self) -> tuple[str, ...]:
        """The key variables with categories."""
        drafts = () if self.opened is None else self.opened.drafts
        return tuple(d["name"] for d, r in zip(drafts, self.roles, strict=True) if r == "key" and d.get("categories"))

    @property
    def decided(self) -> tuple[str, ...]:
        """The columns that are released as they are, without those that have become perturbed."""
        roles = dict(zip(self.names, self.roles, strict=True))
        treated = {self.names[j] for j in self.perturbed}
        left = ("key", "sensitive", "other", "weight", "household")
        return tuple(name for name in self.as_is if roles.get(name) in left and name not in treated)

    @property
    def splits(self) -> bool:
        """Whether each record shows a random subset of the perturbed variables."""
        return self.way == "split"

    @property
    def is_of_plan(self) -> bool:
        """Whether the opened plan's own design is released, which no form changes."""
        return self.way == goals.FROM_PLAN

    @property
    def blocks(self) -> Blocks:
        """The blocks of the perturbed variables, where they are no split."""
        return together.current(self.held, [self.names[j] for j in self.perturbed])

    @property
    def is_plain(self) -> bool:
        """Whether each perturbed variable has one matrix of its own, which can be shown by itself."""
        return self.way == "blocks" and all(one.is_plain for one in self.blocks)

    @property
    def strata(self) -> tuple[int, ...]:
        """The columns that can be strata: released as they are, with categories."""
        drafts = () if self.opened is None else self.opened.drafts
        return tuple(
            j
            for j, (draft, role) in enumerate(zip(drafts, self.roles, strict=True))
            if draft.get("categories") and role in ("key", "sensitive", "other") and not self.is_perturbed(j)
        )

    @property
    def asks(self) -> str:
        """What the level is about; only differential privacy has one of the whole file, or one that blocks share."""
        if self.is_of_plan or (self.splits and self.goal == "shared"):
            return "record"
        return self.goal if self.splits or self.model == "differential" else "record"

    @property
    def divides(self) -> bool:
        """Whether the blocks share one level, so that each one's own follows from the whole design."""
        return not self.splits and self.asks in ("file", "shared")

    @property
    def shown_by_all(self) -> tuple[str, ...]:
        """The variables of the core, without those that are no longer perturbed."""
        return tuple(self.names[j] for j in self.perturbed if self.names[j] in self.core)

    @property
    def shaping(self) -> tuple[Any, ...]:
        """Everything that shapes a release."""
        own = (self.opened, self.roles, self.perturb, self.model, self.objective, self.structure, self.values)
        others = (self.prior, self.way, self.workload, self.core, self.held, self.goal, self.kept)
        return (*own, *others, self.format, self.shuffle, self.as_is, self.listed, self.completed)

    @property
    def unset(self) -> tuple[int, ...]:
        """The columns without a role."""
        return tuple(j for j, role in enumerate(self.roles) if not role)

    def form(self, family: str) -> dict[str, str]:
        """Return the texts in the form of one family."""
        prefix = f"{family}.{getattr(self, 'model' if family == 'privacy' else family)}."
        return {k.removeprefix(prefix): v for k, v in self.values.items() if k.startswith(prefix)}

    def make(self, family: str) -> Any:
        """Return the chosen member of a family; raises PostrandError with the problems of its form."""
        return forms.make(family, self.model if family == "privacy" else getattr(self, family), self.form(family))


def open_decisions(
    opened: Opened, roles: Mapping[str, str] | None = None, before: Decisions | None = None
) -> Decisions:
    """Return decisions with a new file; choices that do not depend on the file stay the same."""
    given = tuple((roles or {}).get(name, "") for name in opened.names)
    start = Decisions() if before is None else before
    decisions = dataclasses.replace(
        start,
        opened=opened,
        roles=given,
        perturb=(None,) * len(given),
        as_is=(),
        listed=(),
        core=(),
        held=(),
        way="blocks" if start.way == goals.FROM_PLAN else start.way,
        kept={},
        workload=start.workload if start.workload in goals.WORKLOADS else "pairs",
        prior=start.prior if start.prior != goals.FROM_PLAN else "uniform",
        fraction=None,
        find="",
        page=0,
        edited=None,
        texts={},
        problem="",
    )
    return _show_perturbed(decisions)


def act(decisions: Decisions, action: str, key: str = "", value: str = "") -> Decisions:
    """Return the decisions after one action of a person; an invalid action sets ``problem`` and changes nothing else.

    >>> act(Decisions(), "prior", value="file").prior
    'file'
    >>> act(Decisions(), "prior", value="guess").problem
    "'guess' is not a choice for prior"
    """
    if action not in _ACTIONS:
        return dataclasses.replace(decisions, problem=f"unknown action {action!r}")
    try:
        after = _ACTIONS[action](dataclasses.replace(decisions, problem=""), key, value)
        _require_perturbed(decisions, after)
        return after
    except _Refused as refused:
        return dataclasses.replace(decisions, problem=str(refused))


class _Refused(Exception):
    """An action is not possible."""


def _require_perturbed(before: Decisions, after: Decisions) -> None:
    """Refuse to change what an opened plan's own design perturbs; what has no role yet is not perturbed."""
    if not (after.is_of_plan and before.is_of_plan):
        return
    held = enumerate(zip(after.names, after.roles, strict=True))
    wanted = tuple(j for j, (name, role) in held if role and name in after.kept["perturbed"])
    if after.perturbed != wanted:
        how = "choose another way of release on the screen Design first"
        raise _Refused(f"the design of the opened plan says which variables are perturbed: {how}")


def _column(decisions: Decisions, text: str) -> int:
    if _number(text) >= len(decisions.roles):
        raise _Refused("there is no such column")
    return _number(text)


def _number(text: str) -> int:
    """Return a whole number of at most eight digits; for any other text a number larger than these."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 8 else 10**9


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _role(decisions: Decisions, key: str, value: str) -> Decisions:
    if value and value not in ROLES:
        raise _Refused(f"{value!r} is not a role")
    roles = _put(decisions.roles, _column(decisions, key), value)
    single = ("record_key", "weight", "household")
    if value in single and roles.count(value) > 1:
        raise _Refused(f"only one variable can have the role {value}")
    return _show_perturbed(dataclasses.replace(decisions, roles=roles))


def _rest(decisions: Decisions, key: str, value: str) -> Decisions:
    if value not in ("key", "sensitive", "other", "drop"):
        raise _Refused(f"{value!r} cannot be the role of all other variables")
    return _show_perturbed(dataclasses.replace(decisions, roles=tuple(role or value for role in decisions.roles)))


def _perturb(decisions: Decisions, key: str, value: str) -> Decisions:
    asked = _put(decisions.perturb, _column(decisions, key), value == "true")
    return _show_perturbed(dataclasses.replace(decisions, perturb=asked))


def looking(decisions: Decisions, now: Decisions) -> Decisions:
    """Return decisions with what the screens show now: the variables looked at, the page of the table, the search."""
    if decisions.opened is not now.opened:
        return dataclasses.replace(decisions, problem="")
    seen = {name: getattr(now, name) for name in VIEW}
    return _show_perturbed(dataclasses.replace(decisions, **{**seen, "problem": ""}))


def _show_perturbed(decisions: Decisions) -> Decisions:
    """Show a perturbed variable, if there is one."""
    chosen = decisions.perturbed
    if not chosen:
        return decisions
    shown = decisions.shown if decisions.shown in chosen else chosen[0]
    pair = (
        decisions.pair
        if set(decisions.pair) <= set(decisions.comparable)
        else (chosen[0], chosen[min(1, len(chosen) - 1)])
    )
    return dataclasses.replace(decisions, shown=shown, pair=pair)


def _member(family: str) -> Callable[[Decisions, str, str], Decisions]:
    def choose(decisions: Decisions, key: str, value: str) -> Decisions:
        if value not in forms.names(family):
            raise _Refused(f"{value!r} is not a choice for {family}")
        place = "model" if family == "privacy" else family
        changes: dict[str, Any] = {place: value}
        asked = dataclasses.replace(decisions, **changes)

        def made(family: str, name: str) -> Any:
            return (dataclasses.replace(asked, objective=name) if name else asked).make(family)

        objective, structure = suiting.suited(made, asked.objective, asked.structure)
        suited = dataclasses.replace(asked, objective=objective, structure=structure)
        if getattr(suited, place) != value:  # never another choice than the one on the screen
            why = suiting.reason(made, asked.objective, value)
            raise _Refused(f"{forms.title(family, value)!r} is not possible with the other choices: {why}")
        return suited

    return choose


def _option(decisions: Decisions, key: str, value: str) -> Decisions:
    return dataclasses.replace(decisions, values={**decisions.values, key: value[:2000]})


def _level(decisions: Decisions, key: str, value: str) -> Decisions:
    """Take the level of a point of the map: of the privacy model, for each variable."""
    level = forms.level_of(forms.member("privacy", decisions.model))
    if level is None or decisions.divides or decisions.splits or decisions.is_of_plan:
        raise _Refused("the map has no level that can be taken here")
    return _option(decisions, f"privacy.{decisions.model}.{level.name}", value)


def _choice(name: str, known: tuple[str, ...]) -> Callable[[Decisions, str, str], Decisions]:
    def choose(decisions: Decisions, key: str, value: str) -> Decisions:
        if value not in known:
            raise _Refused(f"{value!r} is not a choice for {name}")
        changes: dict[str, Any] = {name: value}
        return dataclasses.replace(decisions, **changes)

    return choose


def _way(decisions: Decisions, key: str, value: str) -> Decisions:
    if value not in goals.WAYS and not (value == goals.FROM_PLAN and "whole" in decisions.kept):
        raise _Refused(f"{value!r} is not a choice for the way of release")
    level = {goals.RECORD: goals.record_level(decisions.values, len(decisions.perturbed))} if value == "split" else {}
    asked = tuple(name in decisions.kept["perturbed"] for name in decisions.names) if value == goals.FROM_PLAN else None
    perturb = decisions.perturb if asked is None else asked  # its own design perturbs what it names
    return dataclasses.replace(decisions, way=value, perturb=perturb, values={**level, **decisions.values})


def _goal(decisions: Decisions, key: str, value: str) -> Decisions:
    level = {goals.RECORD: goals.record_level(decisions.values, len(decisions.blocks))} if value == "shared" else {}
    found = _choice("goal", tuple(goals.GOALS))(decisions, key, value)
    return dataclasses.replace(found, values={**level, **found.values})


def _block(decisions: Decisions, key: str, value: str) -> Decisions:
    """Put a column into the block of another, or by itself."""
    name, found = decisions.names[_column(decisions, key)], decisions.blocks
    others = {n for one in found for n in one.variables if n != name}
    if not decisions.is_perturbed(_column(decisions, key)) or (value and value not in others):
        raise _Refused("only perturbed variables can be released together")
    return dataclasses.replace(decisions, held=together.put(found, name, value))


def _given(decisions: Decisions, key: str, value: str) -> Decisions:
    """Make a column a stratum of the block of another, or no longer; ``key`` has both numbers."""
    first, _, second = key.partition(":")
    column, stratum = _column(decisions, first), _column(decisions, second)
    if stratum not in decisions.strata or not decisions.is_perturbed(column):
        raise _Refused("strata are variables with categories that are released as they are")
    names, is_one = decisions.names, value == "true"
    held = together.stratified(decisions.blocks, names[column], names[stratum], is_one=is_one)
    return dataclasses.replace(decisions, held=held)


def _from_plan(name: str, known: tuple[str, ...]) -> Callable[[Decisions, str, str], Decisions]:
    """Choose as :func:`_choice`; what an opened plan says of a split, and no form shows, can be chosen too."""

    def choose(decisions: Decisions, key: str, value: str) -> Decisions:
        held = (goals.FROM_PLAN,) if goals.unlisted(decisions.kept, name) else ()
        return _choice(name, (*known, *held))(decisions, key, value)

    return choose


def _names_in(field: str) -> Callable[[Decisions, str, str], Decisions]:
    """Return the handler of a box beside a column, which puts its name into a field or takes it out."""

    def act(decisions: Decisions, key: str, value: str) -> Decisions:
        name = decisions.names[_column(decisions, key)]
        kept = tuple(other for other in getattr(decisions, field) if other != name)
        return dataclasses.replace(decisions, **dict[str, Any]({field: (*kept, *[name] * (value == "true"))}))

    return act


def _completed(decisions: Decisions, key: str, value: str) -> Decisions:
    """Add completed copies or none; at ``copies`` their number, as the plan has it."""
    from postrand.completion.files import copies_problems  # not at the top: the first screen needs no completion

    if key != "copies":
        return dataclasses.replace(decisions, completed=USUAL_COPIES if value == "true" else None)
    copies = _number(value.strip())
    for problem in copies_problems(copies if copies < 10**9 else value[:20], "completed copies"):
        raise _Refused(problem)
    return dataclasses.replace(decisions, completed=copies)


def _drop(decisions: Decisions, key: str, value: str) -> Decisions:
    """Give all columns whose numbers are listed the role ``drop``."""
    listed_ = {_column(decisions, text) for text in value.split(",")}
    roles = tuple("drop" if j in listed_ else role for j, role in enumerate(decisions.roles))
    return _show_perturbed(dataclasses.replace(decisions, roles=roles))


def _fraction(decisions: Decisions, key: str, value: str) -> Decisions:
    if not value.strip():
        return dataclasses.replace(decisions, fraction=None)
    try:
        share = float(value) / 100
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise _Refused("the sampling fraction must be a percentage above 0 and at most 100")
    return dataclasses.replace(decisions, fraction=share)


def _pair(decisions: Decisions, key: str, value: str) -> Decisions:
    at = 0 if key == "first" else 1
    return dataclasses.replace(decisions, pair=_put(decisions.pair, at, _column(decisions, value)))


def _edit(decisions: Decisions, key: str, value: str) -> Decisions:
    """Open the editor of a column, or close it; what was typed there and not used is forgotten."""
    column = None if not value else _column(decisions, value)
    texts = {name: text for name, text in decisions.texts.items() if not name.startswith("recode.")}
    return dataclasses.replace(decisions, edited=column, texts=texts)


def _entry(decisions: Decisions, key: str, value: str) -> Decisions:
    """Edit the entry of a column; ``key`` has its number, the field, and the number of a category."""
    first, field_, at = (*key.split(":"), "", "")[:3]
    column = _column(decisions, first)
    assert decisions.opened is not None
    drafts = decisions.opened.drafts
    try:
        made = entries.edited(drafts[column], field_, _number(at or "0"), value)
    except PostrandError as error:
        raise _Refused(str(error)) from None
    return dataclasses.replace(
        decisions, opened=dataclasses.replace(decisions.opened, drafts=_put(drafts, column, made))
    )


_ACTIONS: dict[str, Callable[[Decisions, str, str], Decisions]] = {
    "role": _role,
    "rest": _rest,
    "perturb": _perturb,
    "model": _member("privacy"),
    "objective": _member("objective"),
    "structure": _member("structure"),
    "option": _option,
    "level": _level,
    "prior": _from_plan("prior", ("uniform", "file")),
    "way": _way,
    "workload": _from_plan("workload", tuple(goals.WORKLOADS)),
    "core": _names_in("core"),
    "block": _block,
    "given": _given,
    "goal": _goal,
    "format": _choice("format", ("same", *written_names())),
    "shuffle": lambda decisions, key, value: dataclasses.replace(decisions, shuffle=value == "true"),
    "as_is": _names_in("as_is"),
    "listed": _names_in("listed"),
    "completed": _completed,
    "drop": _drop,
    "fraction": _fraction,
    "shown": lambda decisions, key, value: dataclasses.replace(decisions, shown=_column(decisions, value)),
    "pair": _pair,
    "edit": _edit,
    "entry": _entry,
    "typed": lambda decisions, key, value: dataclasses.replace(
        decisions, texts={**decisions.texts, key[:200]: value[:200_000]}
    ),
    "find": lambda decisions, key, value: dataclasses.replace(decisions, find=value[:100], page=0),
    "page": lambda decisions, key, value: dataclasses.replace(decisions, page=_number(value)),
}
