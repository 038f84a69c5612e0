"""The codebook: the variables of a file in column order, and the combinations that cannot occur."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postrand.codebook.recoded import recode_problems
from postrand.codebook.rules import Rule, rule_problems
from postrand.codebook.survey_design import SurveyDesign, column_problems, survey_from_dict, survey_to_dict
from postrand.codebook.variable import ROLES, Variable, variable_from_dict, variable_to_dict
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.recoding import Recode
from postrand.recoding.recode import recodes_from
from postrand.support import saving
from postrand.support.inputs import listed
from postrand.support.showing import few


@dataclass(frozen=True, slots=True)
class Codebook:
    """Hold the variables of a file in column order, and the combinations that cannot occur; checked when created.

    ``survey`` records how the records were drawn, if the office says so.

    Examples
    --------
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> book["sex"].size, "age" in book, book.names
    (2, False, ('sex',))
    """

    variables: tuple[Variable, ...]
    rules: tuple[Rule, ...] = ()
    recodes: tuple[Recode, ...] = ()
    survey: SurveyDesign | None = None
    _by_name: dict[str, Variable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for part, kind in (("variables", Variable), ("rules", Rule), ("recodes", Recode)):
            held = listed(getattr(self, part))
            if held is None or not all(isinstance(one, kind) for one in held):
                raise SpecificationError(sentence(f"the {part} of a codebook are not a list of {kind.__name__}"))
            object.__setattr__(self, part, held)
        object.__setattr__(self, "_by_name", {v.name: v for v in self.variables})
        raise_all(SpecificationError, _codebook_problems(self.variables))
        raise_all(SpecificationError, rule_problems(self.rules, self))
        raise_all(SpecificationError, recode_problems(self.recodes, self))
        if self.survey is not None:
            raise_all(SpecificationError, column_problems(self.survey, self.names, "codebook, survey"))

    def __repr__(self) -> str:
        held = few([f"{v.name} ({v.role}{f', {v.size}' if v.is_categorical else ''})" for v in self.variables])
        rules = f"; {len(self.rules)} rules" if self.rules else ""
        recodes = f"; {len(self.recodes)} recodes" if self.recodes else ""
        return f"Codebook({len(self.variables)} variables: {held}{rules}{recodes})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names in column order."""
        return tuple(v.name for v in self.variables)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __getitem__(self, name: str) -> Variable:
        if name in self:
            return self._by_name[name]
        raise SpecificationError(
            sentence(
                f"no variable {name!r} in the codebook{nearest(name, self.names)}",
                wanted=", ".join(self.names),
            )
        )

    def with_role(self, *roles: str) -> tuple[Variable, ...]:
        """Return the variables that have one of the roles, in column order."""
        return tuple(v for v in self.variables if v.role in roles)

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return these variables in column order."""
        held = {*names}
        return tuple(name for name in self.names if name in held)

    def recode_of(self, name: str) -> Recode | None:
        """Return the recode that makes a variable, or None where the file has the variable as it is."""
        return next((recode for recode in self.recodes if recode.variable == name), None)

    def select(self, names: Iterable[str]) -> Codebook:
        """Return the codebook of these variables, in this order, with their recodes and the rules on them alone.

        The survey design stays where all of its columns do.
        """
        kept = tuple(self[name] for name in names)
        held = {v.name for v in kept}
        rules = tuple(rule for rule in self.rules if held.issuperset(rule.variables))
        recodes = tuple(recode for recode in self.recodes if recode.variable in held)
        whole = self.survey is not None and held.issuperset(self.survey.columns)
        return Codebook(kept, rules, recodes, self.survey if whole else None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON or TOML; fields at their default are left out."""
        data: dict[str, Any] = {"variables": [variable_to_dict(v) for v in self.variables]}
        for name, held in (("rules", self.rules), ("recodes", self.recodes)):
            data |= {name: [one.to_dict() for one in held]} if held else {}
        return data if self.survey is None else data | {"survey": survey_to_dict(self.survey)}

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write a ``codebook.toml`` that plans name and :func:`postrand.load_codebook` reads.

        Raises
        ------
        UsageError
            If the file exists and ``replace`` is not set, or it cannot be written.
        """
        import tomlkit  # reading, which every command does, needs only the standard library

        data = self.to_dict()
        for recode, entry in zip(self.recodes, data.get("recodes", []), strict=True):
            if recode.provenance == "public":  # a release states only what is not; here the statement stays one
                entry["provenance"] = "public"
        saving.write_whole(path, tomlkit.dumps(data).encode(), replace=replace)

    def digest(self) -> str:
        """Return the SHA-256 of :meth:`to_dict` as hexadecimal: roles, labels, types and the order of variables."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "codebook", folder: Path | None = None) -> Codebook:
        """Build a codebook from plain data; reports all problems of all variables together.

        Tables that its recodes name are read from ``folder``.

        Raises
        ------
        SpecificationError
            If a variable lacks a name or role, has an unknown field, or is not well formed.
        """
        problems: list[str] = []
        variables: list[Variable] = []
        rules: list[Rule] = []
        without: list[str] = []
        for name in ("variables", "rules"):
            entries = data.get(name, [])
            if not isinstance(entries, list):
                problems.append(sentence(f"the {name} are not a list of tables", where=where, fix=f"write [[{name}]]"))
                continue
            for position, entry in enumerate(entries, 1):
                place = f"{where}, {name.removesuffix('s')} {position}"
                try:
                    if name == "rules":
                        rules.append(_rule_from_dict(entry, place))
                    else:
                        if isinstance(entry, Mapping) and entry.get("role", "") == "":
                            without.append(shown(entry.get("name", place)))
                            entry = {**entry, "role": "other"}  # its other problems are reported too
                        variables.append(variable_from_dict(entry, place))
                except SpecificationError as error:
                    problems += error.problems
        recodes: tuple[Recode, ...] = ()
        try:
            recodes = recodes_from(data, where, folder)
        except SpecificationError as error:
            problems += error.problems
        if without:
            what = f"variables without a role: {', '.join(without)}"
            fix = "set their roles, or run 'postrand init' again with --other '*' or --drop '*' for all others"
            fix += "; --other takes columns that single out persons only by their names"
            problems.insert(0, sentence(what, where=where, wanted=", ".join(ROLES), fix=fix))
        if not data.get("variables"):
            problems.append(sentence("the codebook has no variables", where=where, fix="run 'postrand init FILE'"))
        if not problems:
            problems += _codebook_problems(variables)
        survey = None
        try:
            if data.get("survey"):
                survey = survey_from_dict(data["survey"], f"{where}, survey", [v.name for v in variables])
        except SpecificationError as error:
            problems += error.problems
        raise_all(SpecificationError, problems)
        return cls(tuple(variables), tuple(rules), recodes, survey)


def _codebook_problems(variables: Sequence[Variable]) -> Iterable[str]:
    if not variables:
        yield sentence("the codebook has no variables")
    names = [v.name for v in variables]
    for name in sorted(n for n, times in Counter(names).items() if times > 1):
        yield sentence(f"variable {name!r} is named twice", fix="keep one entry")
    for role in ("record_key", "weight", "household"):
        held = [v.name for v in variables if v.role == role]
        if len(held) > 1:
            yield sentence(f"several variables have the role {role!r}", got=", ".join(held), wanted="one")


def _rule_from_dict(entry: Any, where: str) -> Rule:
    if not isinstance(entry, Mapping) or not entry:
        raise SpecificationError(sentence("a rule is not a table of categories", where=where))
    return Rule(entry)
