"""The recodes of a codebook: what does not fit its variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postrand.codebook.variable import Variable, Variables
from postrand.errors import nearest, sentence
from postrand.recoding import Recode
from postrand.recoding.base import is_settled
from postrand.recoding.recode import twice

_NUMBERS = ("household", "record_key")


def recode_problems(recodes: Sequence[Recode], codebook: Variables) -> Iterable[str]:
    """Yield the problems of recodes: results that the codebook does not describe, or describes as something else."""
    results = [recode.variable for recode in recodes]
    yield from twice(results)
    made = set(results)
    for source in dict.fromkeys(recode.source for recode in recodes):
        if source in codebook and source not in made:
            what = f"column {source!r} is recoded into another variable, and is a variable as well"
            yield sentence(what, fix=f"remove the entry of {source!r}: the recoded variable takes its place")
    for recode in recodes:
        where = f"recode of {recode.variable!r}"
        if recode.variable not in codebook:
            what = f"no variable {recode.variable!r} in the codebook{nearest(recode.variable, codebook.names)}"
            yield sentence(what, where=where, fix="run 'postrand recode' with --write, which adds its entry")
        else:
            yield from _result_problems(recode, codebook[recode.variable], where)


def column_problems(recodes: Sequence[Recode], names: Sequence[str]) -> Iterable[str]:
    """Yield the problems of recodes with the columns of a file: one that is not there, a result named as another."""
    sources = {recode.source for recode in recodes}
    for recode in recodes:
        if recode.source not in names:
            what = f"no column {recode.source!r} to recode into {recode.variable!r}{nearest(recode.source, names)}"
            yield sentence(what, fix="correct 'from' in [[recodes]] of the codebook")
        if recode.variable in names and recode.variable not in sources:
            what = f"the file already has a column {recode.variable!r}"
            yield sentence(what, fix="give the result of the recode another name")


def _result_problems(recode: Recode, variable: Variable, where: str) -> Iterable[str]:
    if variable.role in _NUMBERS:
        yield sentence(f"a variable with the role {variable.role!r} is not recoded", where=where)
    if not is_settled(recode.kind):
        what, fix = (
            "the rare categories are not written down",
            "run 'postrand recode' with --write, which looks at the file",
        )
        yield sentence(what, where=where, fix=fix)
    made = recode.kind.categories()
    if made and set(made) != set(variable.categories):
        fix = "run 'postrand recode' with --write, or correct categories and type"
        what = "the categories in the codebook are not those that the recode makes"
        yield sentence(what, where=where, wanted=", ".join(map(repr, made[:10])), fix=fix)
