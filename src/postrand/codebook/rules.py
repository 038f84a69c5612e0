"""Structural zeros: combinations of categories that cannot occur. They are refused in the file and never released.

A rule lists categories of some variables. A record contradicts the rule if, in every variable of the rule, it has one
of the listed categories. Missing answers that are a category (``missing = "category"``) are listed as ``(missing)``;
any other missing value never contradicts a rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.variable import MISSING, Scalar, Variable, Variables
from postrand.errors import SpecificationError, nearest, sentence

MAX_CELLS = 1 << 22
"""The largest number of combinations of linked variables that is enumerated."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Forbid every combination of the listed categories, one list for each variable; :func:`nameable` says which.

    Raises
    ------
    SpecificationError
        If the rule has no variable, has one twice, or lists no category.

    Examples
    --------
    >>> str(Rule({"age": ["0-14", "15"], "marital": "Widowed"}))
    "age = '0-14' or '15', marital = 'Widowed'"
    """

    parts: tuple[tuple[str, tuple[Scalar, ...]], ...]

    def __init__(self, parts: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        pairs = parts.items() if isinstance(parts, Mapping) else parts
        held = tuple((n, tuple(v) if isinstance(v, (list, tuple)) else (v,)) for n, v in pairs)
        object.__setattr__(self, "parts", held)
        if not held:
            raise SpecificationError(
                sentence("a rule without categories forbids every record", fix="list some categories")
            )
        if len(set(self.variables)) != len(held) or not all(values for _, values in held):
            raise SpecificationError(
                sentence("a rule has a variable twice, or a variable without a category", where=str(self))
            )

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the rule is about."""
        return tuple(name for name, _ in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {' or '.join(map(repr, values))}" for name, values in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, one entry for each variable: a category, or a list of them."""
        return {name: values[0] if len(values) == 1 else list(values) for name, values in self.parts}

    def matches(self, codebook: Variables, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return which records, given by the codes (n,) of the rule's variables, the rule forbids."""
        found = np.ones(len(codes[self.variables[0]]), dtype=bool)
        for name, values in self.parts:
            found &= np.isin(codes[name], codes_of(codebook[name], values))
        return found


def nameable(variable: Variable) -> tuple[Scalar, ...]:
    """Return what rules can name of a variable, in the order of its codes: its categories, then ``(missing)``.

    The text stands for missing answers where these are a category. A category of the same text goes before it, as it
    did when rules could not name missing answers: no rule changes its meaning, and of such a variable none names them.
    A label of that text has no say: rules name categories.

    >>> nameable(Variable("cause", role="key", categories=(1, 2), missing="category"))
    (1, 2, '(missing)')
    >>> nameable(Variable("cause", role="key", categories=("A", "(missing)"), missing="category"))
    ('A', '(missing)')
    """
    is_named = variable.missing == "category" and MISSING not in variable.categories
    return (*variable.categories, MISSING) if is_named else variable.categories


def codes_of(variable: Variable, values: Iterable[Scalar]) -> list[int]:
    """Return the codes of what a rule lists of a variable; ValueError for what no rule of it can name."""
    known = nameable(variable)
    return [known.index(value) for value in values]


def rule_problems(rules: Sequence[Rule], codebook: Variables) -> Iterable[str]:
    """Yield the problems of rules: unknown variables or categories, or no combination left that can occur."""
    sound = True
    for number, rule in enumerate(rules, 1):
        where = f"rule {number}"
        for name, values in rule.parts:
            if name not in codebook:
                sound = False
                yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
                continue
            unknown = _unknown(codebook[name], values)
            sound = sound and not unknown
            yield from (_unknown_text(value, codebook[name], where) for value in unknown)
    if sound:
        groups = linked(rules)
        place = {name: i for i, names in enumerate(groups) for name in names}
        own: list[list[Rule]] = [[] for _ in groups]
        for rule in rules:
            own[place[rule.variables[0]]].append(rule)
        for names, inside in zip(groups, own, strict=True):
            if _size(codebook, names) <= MAX_CELLS and not len(feasible_cells(codebook, names, inside)):
                yield sentence("the rules forbid every combination", where=", ".join(names), fix="remove some")


def linked(rules: Iterable[Rule], also: Iterable[Sequence[str]] = ()) -> list[tuple[str, ...]]:
    """Return the groups of variables that rules (or the groups in ``also``) link, in order of appearance.

    >>> linked([Rule({"a": 1, "b": 1}), Rule({"c": 1}), Rule({"b": 2, "d": 1})])
    [('a', 'b', 'd'), ('c',)]
    """
    groups: dict[int, dict[str, None]] = {}
    place_of: dict[str, int] = {}
    for number, names in enumerate([*(rule.variables for rule in rules), *also]):
        touched = sorted({place_of[name] for name in names if name in place_of})
        place = touched[0] if touched else number
        merged = groups.setdefault(place, {})
        more = [name for other in touched[1:] for name in groups.pop(other)]
        for name in (*more, *names):
            merged[name], place_of[name] = None, place
    return [tuple(group) for group in groups.values()]


def feasible_cells(codebook: Variables, names: Sequence[str], rules: Iterable[Rule]) -> NDArray[np.int32]:
    """Return the combinations of codes, shape (K, J), in C order, that no rule within these variables forbids.

    Raises
    ------
    SpecificationError
        If more than 2^22 combinations would be needed in memory at a time.
    """
    inside = [rule for rule in rules if set(rule.variables) <= set(names)]
    cells = np.zeros((1, 0), dtype=np.int32)
    for position, name in enumerate(names):
        size = codebook[name].size
        if len(cells) * size > MAX_CELLS:
            what = "too many combinations to enumerate"
            raise SpecificationError(
                sentence(what, where=", ".join(names), wanted=f"<= {MAX_CELLS}", fix="perturb fewer variables jointly")
            )
        new = np.tile(np.arange(size, dtype=np.int32), len(cells))
        cells = np.column_stack([np.repeat(cells, size, axis=0), new])
        present = dict(zip(names[: position + 1], cells.T, strict=True))
        for rule in inside:
            if name in rule.variables and present.keys() >= set(rule.variables):
                cells = cells[~rule.matches(codebook, present)]
                present = dict(zip(present, cells.T, strict=True))
    return cells


def forbidden(codebook: Variables, codes: Mapping[str, NDArray[Any]], rules: Iterable[Rule]) -> NDArray[np.bool_]:
    """Return which records contradict a rule, from the codes (n,) of at least the rules' variables."""
    found = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for rule in rules:
        found |= rule.matches(codebook, codes)
    return found


def _size(codebook: Variables, names: Iterable[str]) -> int:
    return math.prod(codebook[name].size for name in names)


def _unknown(variable: Variable, values: Iterable[Scalar]) -> list[Scalar]:
    """Return the values that no rule can name; a number is no truth value, though they are equal."""
    known = [(type(value), value) for value in nameable(variable)]  # what a file holds may have no hash
    return [value for value in values if (type(value), value) not in known]


def _unknown_text(value: Scalar, variable: Variable, where: str) -> str:
    if value == MISSING:
        what, fix = f"missing answers of {variable.name!r} are no category", "set its missing = 'category'"
        return sentence(what, where=where, fix=f"{fix}, or leave {MISSING} out of the rule")
    what = f"{value!r} is not a category of {variable.name!r}{nearest(str(value), map(str, nameable(variable)))}"
    return sentence(what, where=where, fix="write it as in the codebook")
