"""The history of a tab: every decision can be undone and redone, also the choice of a file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from postrand.app.decisions import VIEW, Decisions, act, looking

MAX_PAST = 200
_TYPED = ("option", "fraction")
"""Controls that send while a person types or moves them: what one of them sends in a row is one step."""
_WORDS = {
    "opened": "the file",
    "roles": "roles of variables",
    "perturb": "which variables are perturbed",
    "model": "the privacy model",
    "objective": "what to keep",
    "structure": "the shape of the matrices",
    "values": "levels and options",
    "prior": "the shares that the matrices are tuned to",
    "way": "how the variables are released together",
    "workload": "the tables of the split",
    "core": "what every record shows",
    "goal": "what the level is about",
    "held": "the blocks",
    "fraction": "the share of the population",
    "format": "the format of the release",
    "shuffle": "the order of the records",
    "as_is": "columns released as they are",
    "listed": "values that the codebook lists",
    "completed": "the completed copies",
}


@dataclass(frozen=True, slots=True)
class History:
    """Hold the decisions now, those before, and those that were undone; ``step`` is the control that moved last."""

    now: Decisions = dataclasses.field(default_factory=Decisions)
    past: tuple[Decisions, ...] = ()
    undone: tuple[Decisions, ...] = ()
    step: tuple[str, str] | None = None


def decided(decisions: Decisions) -> dict[str, Any]:
    """Return every decision by its name, without what a person only looks at."""
    names = (f.name for f in dataclasses.fields(decisions) if f.name not in VIEW)
    return {name: getattr(decisions, name) for name in names}


def differences(one: Decisions, other: Decisions) -> tuple[str, ...]:
    """Return in words what two states of the decisions do not have in common.

    >>> differences(Decisions(), Decisions(prior="file", find="age"))
    ('the shares that the matrices are tuned to',)
    """
    first, second = decided(one), decided(other)
    found = [_WORDS.get(name, "other choices") for name in first if first[name] != second[name]]
    return ("the file",) if "the file" in found else tuple(dict.fromkeys(found))


def decide(history: History, action: str, key: str = "", value: str = "") -> History:
    """Return the history after one action; a box that is typed in is one step, and a refused action is none.

    >>> after = undo(decide(History(), "prior", value="file"))
    >>> after.now.prior, redo(after).now.prior
    ('uniform', 'file')
    """
    after, step = act(history.now, action, key, value), (action, key)
    if differences(history.now, after) and action in _TYPED and history.step == step and history.past:
        return History(after, history.past, (), step)
    found = settled(history, after)
    return found if found.past is history.past else replace(found, step=step)


def settled(history: History, after: Decisions) -> History:
    """Return the history after one decision; where nothing was decided, the past and what was undone stay."""
    if not differences(history.now, after):
        return replace(history, now=after)
    return History(after, (*history.past, history.now)[-MAX_PAST:])


def turned(history: History, decisions: Decisions) -> History:
    """Return the history with other decisions, which can be undone: a file was opened, or a release's came back."""
    past = history.past if history.now.opened is None else (*history.past, history.now)
    return History(decisions, past[-MAX_PAST:])


def undo(history: History) -> History:
    """Return the history one decision before; where there is none, the message says so."""
    if not history.past:
        return replace(history, now=replace(history.now, problem="there is no decision to undo"))
    before = looking(history.past[-1], history.now)
    return History(before, history.past[:-1], (*history.undone, history.now))


def redo(history: History) -> History:
    """Return the history with the decision that was undone last; where there is none, the message says so."""
    if not history.undone:
        return replace(history, now=replace(history.now, problem="there is no decision to redo"))
    after = looking(history.undone[-1], history.now)
    return History(after, (*history.past, history.now), history.undone[:-1])
