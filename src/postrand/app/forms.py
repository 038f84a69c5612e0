"""Families as forms: every model, objective and structure that the library registers appears by itself."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from postrand.errors import SpecificationError, raise_all, sentence
from postrand.support import options

Kind = Literal["number", "whole", "text", "choice", "toggle", "toml"]
Values = Mapping[str, str]
"""The text in the boxes of a form, by the option's name."""


@functools.cache
def registered() -> Mapping[str, Sequence[Any]]:
    """Return the members of each family; the first call imports them, which the first screen does not need."""
    from postrand.designers import OBJECTIVES, STRUCTURES  # not for the first screen
    from postrand.privacy import MODELS

    return {"privacy": MODELS, "objective": OBJECTIVES, "structure": STRUCTURES}


@dataclass(frozen=True, slots=True)
class Field:
    """One box of a form; ``initial`` is its first text."""

    name: str
    kind: Kind
    initial: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """The option that sets the amount of privacy of a model: its name and the values of a slider."""

    name: str
    grid: tuple[float, ...]
    hint: str


STEPS = 60

TITLES = {
    "privacy": {"differential": "Differential privacy, ε", "bistochastic": "Bistochastic privacy, β"},
    "objective": {
        "information": "Most information",
        "variance": "Most precise shares",
        "changes": "Fewest changes",
        "distance": "Smallest moves",
        "l2": "Closest table, squares",
        "kullback-leibler": "Closest table, ratios",
    },
    "structure": {
        "uniform-off-diagonal": "Others equally likely",
        "symmetric": "One chance for all to stay",
        "circulant": "Sets of answers, shifted",
        "general": "Any matrix",
        "bistochastic": "Rows and columns sum to 1",
        "parameterised": "One family, sums of 1",
        "least-loss": "Frequent ones become rare",
        "metric": "Fewest, shortest moves",
        "exponential": "Less likely with distance",
        "geometric": "Less likely with each step",
        "product": "Each drawn by itself",
    },
}
"""The names of members in plain words, short enough for a list; another one has its name in the program."""


def offered(family: str) -> tuple[type, ...]:
    """Return the members that a form can represent.

    Members that need a table or a list, or that bind several variables to the file, can only be used in ``plan.toml``.
    """
    plain = [k for k in registered()[family] if not getattr(k, "needs_file", False)]
    if family == "privacy":  # each variable gets a level of its own here, and the record what these make together
        plain = [k for k in plain if k.traits.budget]
    return tuple(k for k in plain if all(f.kind != "toml" or f.optional for f in fields_of(k)))


def member(family: str, name: str) -> type:
    """Return the member of a family by its name, or its first."""
    members = offered(family)
    return next((m for m in members if _name(m) == name), members[0])


def names(family: str) -> tuple[str, ...]:
    """Return the names of a family's members in their order."""
    return tuple(_name(m) for m in offered(family))


def title(family: str, name: str) -> str:
    """Return a member's name in plain words.

    >>> title("structure", "uniform-off-diagonal"), title("structure", "of-mine")
    ('Others equally likely', 'Of mine')
    """
    return TITLES[family].get(name, name.replace("-", " ").replace("_", " ").capitalize())


def explain(kind: Any) -> str:
    """Return what a member means, in plain words."""
    return str(kind.traits.plain)


@functools.cache
def fields_of(kind: Any) -> tuple[Field, ...]:
    """Return the boxes for a member's options: the fields of its dataclass."""
    hints = typing.get_type_hints(kind)
    shown = [f for f in dataclasses.fields(kind) if f.init and not f.metadata.get("confidential")]
    return tuple(_field(f, hints[f.name]) for f in shown)


@functools.cache
def level_of(kind: Any) -> Level | None:
    """Return the option of a privacy model that a slider moves: its level, with the range that it declares."""
    name = kind.traits.level
    offered = next((f.metadata.get("range") for f in dataclasses.fields(kind) if f.name == name), None)
    if offered is None:
        return None
    low, high, steps = offered.least, offered.most, [k / STEPS for k in range(STEPS + 1)]
    grid = [low * (high / low) ** t if offered.logarithmic else low + (high - low) * t for t in steps]
    return Level(name, tuple(float(f"{x:.3g}") for x in grid), offered.hint)


def parse(kind: Any, values: Values, where: str) -> dict[str, Any]:
    """Return a member's options from the texts of a form, without the empty boxes of optional fields.

    Raises
    ------
    SpecificationError
        With every box that cannot be read.
    """
    problems, found = [], {}
    for field in fields_of(kind):
        text = values.get(field.name, field.initial).strip()
        if not text and field.optional:
            continue
        try:
            found[field.name] = _value(field, text)
        except ValueError:
            wanted = {"number": "a number", "whole": "a whole number", "toml": 'a value such as 1, "a" or ["a", "b"]'}
            got = repr(text) if text else "an empty box"
            problems.append(
                sentence(f"{field.name!r} cannot be read", where=where, got=got, wanted=wanted.get(field.kind))
            )
    raise_all(SpecificationError, problems)
    return found


def make(family: str, name: str, values: Values) -> Any:
    """Return the member that a form represents; raises PostrandError with its problems."""
    kind = member(family, name)
    return options.from_dict(offered(family), {"model": _name(kind), **parse(kind, values, family)}, family)


@functools.cache
def unsuited(privacy: Any, objective: Any) -> dict[str, str]:
    """Return for each structure why it does not go with this model and objective; empty where it does."""
    from postrand.designers import supports  # not for the first screen

    return {_name(kind): supports(privacy, objective, kind()) or "" for kind in offered("structure")}


def in_titles(reason: str) -> str:
    """Return why a structure does not go with the other choices, in the words of the lists.

    >>> in_titles("structure 'metric' has no algorithm for 'differential'. Next: use privacy 'metric'.")
    "only with the privacy model 'metric', in a plan"
    >>> in_titles("structure 'least-loss' has no algorithm. Next: use objective 'l2', or another structure.")
    'only with what to keep: Closest table, squares'
    """
    found = re.search(r"Next: use (privacy|objective) ((?:'[\w-]+'(?: or )?)+)", reason)
    if found is None:
        return reason
    family, wanted = found[1], re.findall(r"'([\w-]+)'", found[2])
    called = "privacy model" if family == "privacy" else "what to keep"
    here = [title(family, name) for name in wanted if name in names(family)]
    if here:
        return f"only with {'the ' if family == 'privacy' else ''}{called}: {' or '.join(here)}"
    return f"only with the {called} {' or '.join(map(repr, wanted))}, in a plan"


def _name(kind: Any) -> str:
    return str(kind.name)


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    has_default = field.default is not dataclasses.MISSING
    kind, choices, nullable = _kind(hint)
    initial = ""
    if has_default and field.default is not None:
        initial = _text(field.default)
    elif not has_default and "range" in field.metadata:
        initial = f"{field.metadata['range'].usual:g}"
    optional = nullable or has_default or field.default_factory is not dataclasses.MISSING
    return Field(field.name, kind, initial or (choices[0] if choices else ""), choices, optional)


def _kind(hint: Any) -> tuple[Kind, tuple[str, ...], bool]:
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    nullable = type(None) in parts
    rest = [p for p in parts if p is not type(None)]
    if len(rest) == 1 and typing.get_origin(rest[0]) is Literal:
        return "choice", tuple(str(c) for c in typing.get_args(rest[0])), nullable
    plain: dict[Any, Kind] = {bool: "toggle", int: "whole", float: "number", str: "text"}
    return (plain[rest[0]] if len(rest) == 1 and rest[0] in plain else "toml"), (), nullable


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _value(field: Field, text: str) -> Any:
    if field.kind == "number":
        return float(text)
    if field.kind == "whole":
        return int(text)
    if field.kind == "toggle":
        return text == "true"
    if field.kind == "toml":
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise ValueError(text) from None
    return text
