"""Structural zeros: combinations of categories that cannot occur, and so may neither be read nor released.

A rule names categories of some variables; a record that has one of them in every variable of a rule contradicts it.
A missing value contradicts no rule.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, SpecificationError, nearest, raise_all, sentence

if TYPE_CHECKING:
    from postrand.codebook.codebook import Codebook, Scalar
    from postrand.mechanism import Block, Mechanism

MAX_CELLS = 1 << 22
"""Beyond this many combinations of linked variables nothing is enumerated."""

_LISTED = 10
_SMALL = 5  # counts below are not told


@dataclass(frozen=True, slots=True)
class Rule:
    """Forbid every combination of the listed categories, one list for each variable.

    Raises
    ------
    SpecificationError
        If the rule names no variable, names one twice, or lists no category.

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
            raise SpecificationError(sentence("a rule without categories forbids every record", fix="name some"))
        if len(set(self.variables)) != len(held) or not all(values for _, values in held):
            raise SpecificationError(sentence("a rule names a variable twice, or no category of it", where=str(self)))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the rule is about."""
        return tuple(name for name, _ in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {' or '.join(map(repr, values))}" for name, values in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, one entry for each variable: a category, or a list of them."""
        return {name: values[0] if len(values) == 1 else list(values) for name, values in self.parts}

    def matches(self, codebook: Codebook, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Tell which records, given by the codes (n,) of the rule's variables, it forbids."""
        found = np.ones(len(codes[self.variables[0]]), dtype=bool)
        for name, values in self.parts:
            found &= np.isin(codes[name], [codebook[name].categories.index(v) for v in values])
        return found


def read_rules(path: str | Path, codebook: Codebook) -> tuple[Rule, ...]:
    """Read a CSV table of rules: a column for each variable, a row for each forbidden combination, empty: any value.

    Raises
    ------
    SpecificationError
        With the first unknown columns and categories, and rows that forbid everything, by their places: what the file
        holds is never shown.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else "no CSV text in UTF-8"
        raise SpecificationError(sentence("the rules cannot be read", where=str(path), got=why)) from None
    names, body = (rows[0], rows[1:]) if rows else ([], [])
    problems = [] if body else [sentence("the file holds no rules", where=path.name)]
    # Never what the file holds: it may be a file of records, named by mistake.
    strange = [place for place, name in enumerate(names, 1) if name not in codebook]
    wanted, fix = ", ".join(codebook.names), "if this is a file of records, name another as rules_file"
    problems += [
        sentence(f"the text in field {place} of the first line is no variable", where=path.name, wanted=wanted, fix=fix)
        for place in strange[:_LISTED]
    ]
    rules: list[Rule] = []
    for line, row in enumerate(body, 2):
        where = f"{path.name}, row {line}"
        given = [(n, text) for n, text in zip(names, row, strict=False) if text and n in codebook]
        if len(row) != len(names):
            problems.append(sentence("the row has another number of fields than the head", where=where))
        elif not any(row):
            problems.append(sentence("an empty row forbids every record", where=where, fix="remove the row"))
        else:
            known = {n: {str(c): c for c in codebook[n].categories} for n, _ in given}
            unknown = [n for n, text in given if text not in known[n]]
            problems += [
                sentence(f"the text is no category of {n!r}", where=where, fix="write it as the codebook does")
                for n in unknown
            ]
            rules += [] if unknown or not given else [Rule((n, known[n][text]) for n, text in given)]
    if len(problems) > _LISTED:
        more = f"... and more problems: {path.name} may be a file of records, and not of rules."
        problems = [*problems[:_LISTED], more]
    raise_all(SpecificationError, problems)
    return tuple(rules)


def rule_problems(rules: Sequence[Rule], codebook: Codebook) -> Iterable[str]:
    """Say what is wrong with rules: unknown variables and categories, or nothing left that may occur."""
    sound = True
    for number, rule in enumerate(rules, 1):
        where = f"rule {number}"
        for name, values in rule.parts:
            if name not in codebook:
                sound = False
                yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
                continue
            known = codebook[name].categories
            for value in values:
                if value not in known or type(value) is not type(known[0]):
                    sound = False
                    yield _unknown(value, name, {str(c): c for c in known}, where)
    if sound:
        for names in linked(rules):
            if _size(codebook, names) <= MAX_CELLS and not len(feasible_cells(codebook, names, rules)):
                yield sentence("the rules forbid every combination", where=", ".join(names), fix="remove some")


def linked(rules: Iterable[Rule], also: Iterable[Sequence[str]] = ()) -> list[tuple[str, ...]]:
    """Return the groups of variables that rules (or the groups in ``also``) tie together, in order of appearance.

    >>> linked([Rule({"a": 1, "b": 1}), Rule({"c": 1}), Rule({"b": 2, "d": 1})])
    [('a', 'b', 'd'), ('c',)]
    """
    groups: list[dict[str, None]] = []
    for names in [*(rule.variables for rule in rules), *also]:
        touched = [g for g in groups if not g.keys().isdisjoint(names)]
        merged = {name: None for g in touched for name in g} | dict.fromkeys(names)
        place = groups.index(touched[0]) if touched else len(groups)
        groups = [g for g in groups if g not in touched]
        groups.insert(place, merged)
    return [tuple(g) for g in groups]


def feasible_cells(codebook: Codebook, names: Sequence[str], rules: Iterable[Rule]) -> NDArray[np.int32]:
    """Return the combinations of codes, shape (K, J), in C order, that no rule within these variables forbids.

    Raises
    ------
    SpecificationError
        If more than 2^22 combinations would have to be held at a time.
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


def forbidden(codebook: Codebook, codes: Mapping[str, NDArray[Any]], rules: Iterable[Rule]) -> NDArray[np.bool_]:
    """Tell which records contradict a rule, given the codes (n,) of at least the rules' variables."""
    found = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for rule in rules:
        found |= rule.matches(codebook, codes)
    return found


def check_records(counts: Mapping[tuple[str, ...], NDArray[Any]], codebook: Codebook) -> None:
    """Refuse records that contradict a rule, given the table of counts for each rule's variables.

    ``counts`` maps the variables of a rule to the dense counts of their combinations.

    Raises
    ------
    DataError
        With the first ten rules that records contradict; counts under 5 are not told.
    """
    problems = []
    for number, rule in enumerate(codebook.rules, 1):
        table = counts[rule.variables]
        at = tuple([codebook[n].categories.index(v) for v in values] for n, values in rule.parts)
        found = table[np.ix_(*at)].sum()
        if found > 0:
            many = f"{int(found):,} records" if found >= _SMALL else f"fewer than {_SMALL} records"
            where = f"rule {number}, of {', '.join(rule.variables)}"  # never its categories: a record may be one
            problems.append(sentence("records contradict a rule", where=where, got=many))
    if problems:
        more = len(problems) - _LISTED
        rest = [f"... and {more} more rules that records contradict."] * (more > 0)
        fix = "Next: correct the records, or remove the rules from the codebook."
        raise DataError([*problems[:_LISTED], *rest, fix])


def reachable(mechanism: Mechanism) -> list[Rule]:
    """Return the rules that a release could contradict although no record of the input contradicts any.

    A rule is listed where some feasible true combination of all variables of the blocks concerned leads to it with
    positive probability. Rules that join further variables are not used, so a rule may be listed needlessly, never
    left out.

    Raises
    ------
    SpecificationError
        If the blocks concerned have too many combinations to enumerate.
    """
    codebook = mechanism.require_codebook()
    found = []
    tables: dict[tuple[str, ...], NDArray[np.int32]] = {}
    for rule in codebook.rules:
        blocks = [b for b in mechanism.blocks if not set(b.perturbed).isdisjoint(rule.variables)]
        names = tuple(dict.fromkeys([n for b in blocks for n in b.variables] + list(rule.variables)))
        if names not in tables:
            tables[names] = feasible_cells(codebook, names, codebook.rules)
        codes = dict(zip(names, tables[names].T, strict=True))
        possible = np.ones(len(tables[names]), dtype=bool)
        for block in blocks:
            possible &= _leads_to(block, rule, codebook, codes)
        clear = [p for p in rule.parts if not any(p[0] in b.perturbed for b in blocks)]
        if clear:
            possible &= Rule(clear).matches(codebook, codes)
        found += [rule] * bool(possible.any())
    return found


def _leads_to(block: Block, rule: Rule, codebook: Codebook, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Tell from which true combinations the block may release the rule's categories of the variables it perturbs."""
    shape = tuple(codebook[n].size for n in block.variables)
    cells = block.cell_table(shape)
    inside = Rule([p for p in rule.parts if p[0] in block.perturbed])
    bad = inside.matches(codebook, dict(zip(block.variables, cells.T, strict=True)))
    leads = block.matrix.times(bad.astype(np.float64)) > 0  # no sum of multiples of 2^-53 is lost
    lookup = np.zeros(shape, dtype=bool)  # combinations that are no cell stop the run, and release nothing
    lookup[tuple(cells.T)] = leads
    found: NDArray[np.bool_] = lookup[tuple(codes[n] for n in block.variables)]
    return found


def _size(codebook: Codebook, names: Iterable[str]) -> int:
    return math.prod(codebook[name].size for name in names)


def _unknown(value: object, name: str, known: Mapping[str, Any], where: str) -> str:
    what = f"{value!r} is no category of {name!r}{nearest(str(value), known)}"
    return sentence(what, where=where, fix="write it as the codebook does")
