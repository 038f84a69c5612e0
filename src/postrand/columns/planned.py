"""The part of a plan about numerical variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from postrand.codebook import Codebook
from postrand.errors import PostrandError, sentence
from postrand.ranks.apply import not_averaged
from postrand.ranks.column import AVERAGED_TYPE, FORMS, Form, variable_problems
from postrand.ranks.laws import RANK_LAWS, RankLaw
from postrand.support import options

SECTION = "[[numerical]]"


@dataclass(frozen=True, slots=True)
class NumericalPlan:
    """Hold how numerical variables are released: each separately, by the same method, permuted or averaged."""

    variables: tuple[str, ...]
    method: RankLaw
    form: Form = "permute"


_OPTIONS = tuple(f.name for f in dataclasses.fields(NumericalPlan))


def read_entries(
    entries: Any, codebook: Codebook | None, perturbed: Iterable[str], where: str
) -> tuple[tuple[NumericalPlan, ...], list[str]]:
    """Return the plan's ``[[numerical]]`` entries, and all their problems."""
    where = f"{where} {SECTION}"
    if not isinstance(entries, list):
        return (), [sentence("expected a list of tables", where=where, fix=f"write {SECTION}")]
    planned, problems = [], []
    for number, entry in enumerate(entries, 1):
        found, wrong = _read(entry, f"{where} {number}")
        planned += [found] if found is not None else []
        problems += wrong
    names = [name for entry in planned for name in entry.variables]
    problems += variable_problems(names, perturbed, codebook, where)
    made = [] if codebook is None else [r.variable for r in codebook.recodes if not r.says_missing]
    what, fix = "is recoded, and its ranks would be those of the recoded values", "keep one of both treatments"
    problems += [sentence(f"variable {name!r} {what}", where=where, fix=fix) for name in names if name in made]
    return tuple(planned), problems


def released_book(codebook: Codebook, planned: Sequence[NumericalPlan]) -> Codebook:
    """Return the codebook with the types of the released values: averages are floating-point numbers."""
    averaged = {name for entry in planned if entry.form == "average" for name in entry.variables}
    return dataclasses.replace(
        codebook,
        variables=tuple(
            dataclasses.replace(v, type=AVERAGED_TYPE) if v.name in averaged else v for v in codebook.variables
        ),
    )


def _read(entry: Any, where: str) -> tuple[NumericalPlan | None, list[str]]:
    if not isinstance(entry, Mapping):
        return None, [sentence("expected a table", where=where)]
    problems: list[str] = []
    names = entry.get("variables")
    if not (isinstance(names, list) and names and all(isinstance(n, str) and n for n in names)):
        problems.append(sentence("'variables' is not a list of names", where=where, fix='set variables = ["income"]'))
    try:
        asked = entry.get("method")
        law = options.from_dict(RANK_LAWS, asked if isinstance(asked, Mapping) else {"model": asked}, f"{where} method")
        if law.least < 2:
            what = "runs of one rank protect nothing"
            problems.append(sentence(what, where=f"{where} method", got=options.describe(law), wanted=">= 2"))
        if law.cuts > 1 and entry.get("form") == "average":
            problems.append(not_averaged(where))
    except PostrandError as error:
        problems += error.problems
    if entry.get("form", FORMS[0]) not in FORMS:
        problems.append(sentence(f"unknown form {entry['form']!r}", where=where, wanted=" or ".join(FORMS)))
    unknown = [name for name in entry if name not in _OPTIONS]
    problems += [sentence(f"unknown option {n!r}", where=where, wanted=", ".join(_OPTIONS)) for n in unknown]
    if problems or names is None:
        return None, problems
    return NumericalPlan(tuple(names), law, entry.get("form", FORMS[0])), []
