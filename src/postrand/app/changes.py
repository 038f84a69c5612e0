"""What two states of the decisions do not have in common, in words: what each was, and what it is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from postrand.app import forms, goals
from postrand.app.decisions import Decisions, Opened
from postrand.formats import path_of
from postrand.support.showing import unshown
from postrand.support.worth_basis import PRIORS

MAX_NAMED = 6
"""Of one kind of change so many are told one by one."""
_PARTS = {"unit": "the protection of whole households", "rules": "the combinations that cannot occur"}
_LEVELS = {goals.RECORD: "ε of a record", goals.FILE: "ε of the whole file", goals.DELTA: "δ of the file"}
_SYMBOLS = {"epsilon": "ε", "beta": "β", "alpha": "α", "delta": "δ"}


def changes(one: Decisions, other: Decisions) -> tuple[str, ...]:
    """Return what was decided otherwise in the second state, each as "what: before → now".

    >>> changes(Decisions(), Decisions(prior="file", shuffle=False, find="age"))
    ("shares for the matrices: all values equally frequent → the file's own shares", 'random order: yes → no')
    """
    first, second = one.opened, other.opened
    if first is None or second is None:
        return tuple(_of_design(one, other)) if first is second else (_told("file", _file(first), _file(second)),)
    if path_of(first.path) != path_of(second.path):
        return (_told("file", _file(first), _file(second)),)
    return (*_of_file(one, other), *_of_design(one, other))


def _told(what: str, before: str, now: str) -> str:
    return f"{what}: {before} → {now}"


def _file(opened: Opened | None) -> str:
    return "none" if opened is None else opened.name


def _few(found: list[str], kind: str) -> Iterator[str]:
    more = unshown(len(found), MAX_NAMED)
    yield from found[: len(found) - more]
    if more:
        yield f"and {more:,} more {kind}"


def _of_file(one: Decisions, other: Decisions) -> Iterator[str]:
    """Yield what changed of the variables: their entries, their roles, and which of them are perturbed."""
    assert one.opened is not None
    assert other.opened is not None
    if one.names != other.names:
        yield _told("variables", f"{len(one.names):,}", f"{len(other.names):,}")
        return
    drafts = zip(one.names, one.opened.drafts, other.opened.drafts, strict=True)
    made = [text.removeprefix("recode of ") for text in _recoded(one, other)]  # a recode makes the entry anew
    changed = [name for name, a, b in drafts if name not in made and a is not b and dict(a) != dict(b)]
    edited = [f"the entry of {name} in the codebook" for name in changed]
    yield from _few(_recoded(one, other), "recodes")  # first: roles and perturbation can follow from one
    yield from _few(edited, "entries")
    roles = zip(one.names, one.roles, other.roles, strict=True)
    yield from _few([_told(f"role of {name}", a or "none", b or "none") for name, a, b in roles if a != b], "roles")
    perturbed = [
        _told(f"{name} perturbed", *(_yes(state.is_perturbed(j)) for state in (one, other)))
        for j, name in enumerate(one.names)
        if one.is_perturbed(j) != other.is_perturbed(j)
    ]
    yield from _few(perturbed, "variables")


def _of_design(one: Decisions, other: Decisions) -> Iterator[str]:
    for name, (what, words) in _SAID.items():
        before, now = (words(getattr(state, name)) for state in (one, other))
        if before != now:
            yield _told(what, before, now)
    blocks = ["; ".join(b.name for b in state.blocks if len(b.variables) > 1) for state in (one, other)]
    strata = [
        "; ".join(f"{b.name} within {', '.join(b.given)}" for b in state.blocks if b.given) for state in (one, other)
    ]
    if blocks[0] != blocks[1]:
        yield _told("drawn together", *(text or "none" for text in blocks))
    if strata[0] != strata[1]:
        yield _told("strata", *(text or "none" for text in strata))
    yield from _few([_told(*found) for found in _values(one.values, other.values)], "options")
    if one.kept != other.kept:
        parts = [name for name in {**one.kept, **other.kept} if one.kept.get(name) != other.kept.get(name)]
        yield from (_PARTS[name] for name in parts if name in _PARTS)
        rest = sorted({*parts} - {*_PARTS, "recodes"})
        yield from [f"{', '.join(rest)} of the codebook or of the opened plan"] if rest else []


def _recoded(one: Decisions, other: Decisions) -> list[str]:
    before, now = ({r["variable"]: r for r in state.kept.get("recodes", ())} for state in (one, other))
    return [f"recode of {name}" for name in {**before, **now} if before.get(name) != now.get(name)]


def _values(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each box whose text is another: its words, the text before and now; an untouched box has its usual text."""
    for key in sorted({*one, *other}):
        before, now = (state.get(key, _usual(key)) for state in (one, other))
        if before != now:
            yield _words(key), before or "empty", now or "empty"


def _usual(key: str) -> str:
    family, _, rest = key.partition(".")
    if key in _LEVELS or family not in forms.registered():
        return "not set"
    name, _, option = rest.rpartition(".")
    held = forms.fields_of(forms.member(family, name))
    return next((field.initial for field in held if field.name == option), "")


def _words(key: str) -> str:
    family, _, rest = key.partition(".")
    if key in _LEVELS:
        return _LEVELS[key]
    name, _, option = rest.rpartition(".")
    if family == "privacy" and option in _SYMBOLS:
        return f"{_SYMBOLS[option]} of each variable or block"
    return f"{option.replace('_', ' ')} of {forms.title(family, name).lower()}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _named(words: Mapping[str, str]) -> Callable[[Any], str]:
    return lambda value: words.get(value, "as the opened plan says")


_SAID: dict[str, tuple[str, Callable[[Any], str]]] = {
    "model": ("privacy model", functools.partial(forms.title, "privacy")),
    "objective": ("what to keep", functools.partial(forms.title, "objective")),
    "structure": ("shape of the matrices", functools.partial(forms.title, "structure")),
    "prior": ("shares for the matrices", _named(PRIORS)),
    "way": ("variables are released", _named(goals.WAYS)),
    "workload": ("tables of the split", _named(goals.WORKLOADS)),
    "core": ("shown by every record", lambda names: ", ".join(names) or "none"),
    "goal": ("the level is", _named(goals.GOALS)),
    "fraction": ("share of the population", lambda share: "not given" if share is None else f"{100 * share:g}%"),
    "format": ("format", lambda name: "as the source" if name == "same" else name),
    "shuffle": ("random order", _yes),
    "as_is": ("released as they are, on purpose", lambda names: ", ".join(names) or "none"),
    "listed": ("values listed in the codebook, on purpose", lambda names: ", ".join(names) or "none"),
    "completed": ("completed copies", lambda copies: "none" if copies is None else f"{copies}"),
}
