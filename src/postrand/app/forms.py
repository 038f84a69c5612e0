"""Families as forms: every model, objective and structure that the library registers appears by itself."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import tomllib
import types
import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from postrand.designers import OBJECTIVES, STRUCTURES, design
from postrand.errors import PostrandError, SpecificationError, raise_all, sentence
from postrand.privacy import MODELS
from postrand.support import options

Kind = Literal["number", "whole", "text", "choice", "toggle", "toml"]
Values = Mapping[str, str]
"""What stands in the boxes of a form, by the option's name."""

REGISTERED: dict[str, Sequence[type]] = {"privacy": MODELS, "objective": OBJECTIVES, "structure": STRUCTURES}


@dataclass(frozen=True, slots=True)
class Field:
    """One box of a form; ``initial`` is the text that stands in it at first."""

    name: str
    kind: Kind
    initial: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """The option that says how much privacy a model gives: its name and the values that a slider offers."""

    name: str
    grid: tuple[float, ...]
    hint: str


# Where a model's first number has one of these names: lowest, highest, at first, logarithmic, what it means.
_LEVELS = {
    "epsilon": (0.05, 10.0, 1.0, True, "smaller protects more; no answer becomes more than e^ε times as likely"),
    "beta": (0.05, 0.99, 0.9, False, "larger protects more: the share of the greatest possible uncertainty"),
    "alpha": (
        0.01,
        0.9,
        0.1,
        True,
        "smaller protects more: the largest chance that a recognised person is the right one",
    ),
}
STEPS = 60
PLAIN = {
    "differential": "Differential privacy: whatever the true answer, no released answer becomes more than e^ε times as "
    "likely. The budgets of a record's variables add up.",
    "bistochastic": "Every released answer leaves at least the share β of the greatest possible uncertainty about the "
    "true one, and the margins of a uniform population stay as they are.",
    "information": "Keep as much information about the true answers as possible.",
    "variance": "Make corrected shares as precise as possible.",
    "changes": "Change as few answers as possible.",
    "l2": "Make the corrected table as close to the true one as possible, in squared error.",
    "kullback-leibler": "Make the corrected table as close to the true one as possible, in relative terms.",
    "uniform-off-diagonal": "An answer that changes is equally likely to become any other. Each category has a chance "
    "of its own to stay.",
    "symmetric": "Every answer stays with the same chance, and changes to any other with the same chance.",
    "circulant": "Each answer becomes one of a set of answers, shifted from row to row: better at strong privacy.",
    "general": "Any matrix at all: the most information, but the released categories may be merged ones.",
}


def offered(family: str) -> tuple[type, ...]:
    """Return the members that a form can describe.

    Left to ``plan.toml`` are those that need a table or a list, and those that bind several variables to the file.
    """
    plain = (k for k in REGISTERED[family] if not getattr(k, "needs_file", False))
    return tuple(k for k in plain if all(f.kind != "toml" or f.optional for f in fields_of(k)))


def member(family: str, name: str) -> type:
    """Return the member of a family by its name, or its first."""
    members = offered(family)
    return next((m for m in members if _name(m) == name), members[0])


def names(family: str) -> tuple[str, ...]:
    """Return the names of a family's members in their order."""
    return tuple(_name(m) for m in offered(family))


def title(name: str) -> str:
    """Return a member's name for people.

    >>> title("uniform-off-diagonal")
    'Uniform off diagonal'
    """
    return name.replace("-", " ").replace("_", " ").capitalize()


def explain(kind: type) -> str:
    """Return what a member means: in plain words where we have them, else the first paragraph of its documentation."""
    if _name(kind) in PLAIN:
        return PLAIN[_name(kind)]
    text = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "").replace("`", "").split())


@functools.cache
def fields_of(kind: type) -> tuple[Field, ...]:
    """Return the boxes for a member's options: the fields of its dataclass."""
    hints = typing.get_type_hints(kind)
    shown = [f for f in dataclasses.fields(kind) if f.init and not f.metadata.get("confidential")]
    return tuple(_field(f, hints[f.name]) for f in shown)


@functools.cache
def level_of(kind: type) -> Level | None:
    """Return the option of a privacy model that a slider moves: its first number."""
    number = next((f for f in fields_of(kind) if f.kind == "number"), None)
    if number is None:
        return None
    low, high, _, logarithmic, hint = _LEVELS.get(number.name, (0.01, 10.0, 1.0, True, ""))
    steps = [k / STEPS for k in range(STEPS + 1)]
    grid = [low * (high / low) ** t if logarithmic else low + (high - low) * t for t in steps]
    return Level(number.name, tuple(float(f"{x:.3g}") for x in grid), hint)


def parse(kind: type, values: Values, where: str) -> dict[str, Any]:
    """Return a member's options from the texts of a form; empty boxes of optional fields are left out.

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
            problems.append(
                sentence(f"{field.name!r} cannot be read", where=where, got=repr(text), wanted=wanted.get(field.kind))
            )
    raise_all(SpecificationError, problems)
    return found


def make(family: str, name: str, values: Values) -> Any:
    """Return the member that a form describes; raises PostrandError with what is wrong in it."""
    kind = member(family, name)
    return options.from_dict(offered(family), {"model": _name(kind), **parse(kind, values, family)}, family)


@functools.cache
def unsuited(privacy: Any, objective: Any) -> dict[str, str]:
    """Return for each structure why it cannot be designed for this model and objective; empty where it can.

    Found by designing a matrix of three categories.
    """
    reasons = {}
    for structure in offered("structure"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                design([0.5, 0.3, 0.2], privacy, objective, structure())
            reasons[_name(structure)] = ""
        except (PostrandError, TypeError, ImportError) as error:
            reasons[_name(structure)] = str(error)
    return reasons


def _name(kind: type) -> str:
    return str(kind.name)  # type: ignore[attr-defined]


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    has_default = field.default is not dataclasses.MISSING
    kind, choices, nullable = _kind(hint)
    initial = ""
    if has_default and field.default is not None:
        initial = _text(field.default)
    elif not has_default and kind == "number":
        initial = f"{_LEVELS.get(field.name, (0, 0, 1.0))[2]:g}"
    elif not has_default and kind == "whole":
        initial = "1000" if field.name == "records" else "1"
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
