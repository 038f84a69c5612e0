"""The plan's decisions about unperturbed columns, checked against the codebook before any record is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from postrand.codebook import Codebook
from postrand.codebook.variable import RELEASED_ROLES
from postrand.errors import nearest, sentence, shown
from postrand.support.inputs import is_names

HOUSEHOLD_NUMBERS = ("renumbered", "as they are")


def option_problems(as_is: Any, listed: Any, household_numbers: Any, where: str) -> Iterator[str]:
    """Yield a sentence for each option of a wrong type."""
    for option, names, example in (("as_is", as_is, "income"), ("listed", listed, "occupation")):
        if names != () and not is_names(names):
            fix = f'set {option} = ["{example}"], or leave it out'
            yield sentence(f"{option!r} is not a list of names", where=where, fix=fix)
    if household_numbers not in HOUSEHOLD_NUMBERS:
        wanted = " or ".join(map(repr, HOUSEHOLD_NUMBERS))
        yield sentence(
            f"unknown household_numbers {shown(household_numbers, repr)}"
            f"{nearest(shown(household_numbers), HOUSEHOLD_NUMBERS)}",
            where=where,
            wanted=wanted,
        )


def listed_problems(listed: Sequence[str], codebook: Codebook, perturbed: Collection[str], where: str) -> Iterator[str]:
    """Yield a sentence for each name in ``listed`` that is not a perturbed variable."""
    for name in dict.fromkeys(listed):
        if name not in codebook:
            what = f"no variable {name!r} in the codebook{nearest(name, codebook.names)}"
            yield sentence(what, where=f"{where} listed")
        elif name not in perturbed:
            fix = "remove it from listed; unperturbed columns are named in as_is"
            yield sentence(f"variable {name!r} is not perturbed", where=f"{where} listed", fix=fix)


def as_is_problems(
    as_is: Sequence[str],
    codebook: Codebook,
    perturbed: Collection[str],
    *,
    release_ids: bool,
    where: str,
) -> Iterator[str]:
    """Yield a sentence for each name in ``as_is`` that is not an unperturbed column."""
    where = f"{where} as_is"
    for name in dict.fromkeys(as_is):
        if name not in codebook:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, codebook.names)}", where=where)
        elif name in perturbed:
            yield sentence(
                f"variable {name!r} is perturbed",
                where=where,
                fix="remove it from as_is, or from [[blocks]] or [[numerical]]",
            )
        elif codebook[name].role not in RELEASED_ROLES and not (release_ids and codebook[name].role == "record_key"):
            what = f"variable {name!r} is not released"
            yield sentence(what, where=where, got=f"role {codebook[name].role!r}", fix="remove it from as_is")
