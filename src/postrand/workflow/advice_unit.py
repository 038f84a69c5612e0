"""Plans that protect households or persons too: what describes a household is drawn once for all its members."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from postrand.codebook import Codebook
from postrand.errors import UsageError, raise_all, sentence
from postrand.workflow import asked_units
from postrand.workflow.advice_candidates import (
    MEMBERS,
    SPLIT_IN_WORDS,
    Candidate,
    Names,
    Subject,
    candidates,
    ruled_splits,
    separate,
    split_release,
)
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_refusals import not_drawn
from postrand.workflow.epsilon import shares
from postrand.workflow.proposal import MAX_JOINT

ONE_MEMBER = (
    "A split release: one random member of each household shows a random subset of the variables, perturbed jointly "
    "with the whole epsilon, and stands for all its members; the others show none of them. So a household spends the "
    "epsilon of one record, however many members it has."
)
ONE_RECORD = (
    "Not among these plans: a split of which one random record of each person shows a subset costs a person the "
    "epsilon of one record, and can be worth more. Next: give {person} the role household in the codebook (without "
    "one: --household {person}), ask again with the same options, and compare. Its numbers are then released as new "
    "ones, which show which records are one person's (docs/households.md)."
)
"""What is said where persons are protected, and no household numbers are released."""


def require_unit(book: Codebook, needs: Needs) -> None:
    """Raise UsageError with everything that keeps a plan from protecting the households and persons asked for."""
    raise_all(UsageError, list(_problems(book, needs)))


def for_units(subject: Subject) -> Iterator[Candidate]:
    """Yield every way that the variables allow; where households are protected, each with a part for the household.

    Of a person all records add up: ``m ε`` for m of them.
    The variables of the household have a part of ε by their number, in blocks that are drawn once for it. So a record
    has ``ε = ε_h + ε_p`` and a household with k members ``ε_h + k ε_p``, which the certificate states.
    """
    if not (subject.needs.largest_household or subject.needs.person):
        yield from candidates(subject)
        return
    own = tuple(name for name in subject.perturbed if name in subject.needs.household_variables)
    rest = tuple(name for name in subject.perturbed if name not in own)
    if not rest:
        yield _with_unit(separate(subject), subject, (), own)
    inner = replace(subject, perturbed=rest, joint=tuple(g for g in subject.joint if {*g} <= {*rest}))
    for candidate in candidates(inner) if rest else ():
        if candidate.has_epsilon:  # security against recognition takes all draws as independent
            yield _with_unit(candidate, subject, own, own)
    if subject.needs.largest_household and len(subject.perturbed) > 1:
        yield _of_members(split_release(subject), subject)
        yield from (_of_members(made, subject) for made in ruled_splits(subject))


def advised_unit(book: Codebook, needs: Needs, shared: Iterable[str]) -> Iterator[str]:
    """Yield what to ask for where the file has households and no plan protects them; ``shared`` describe them.

    Of persons, the way that no plan goes as long as their numbers are not released.
    """
    house = [v.name for v in book.with_role("household")]
    if needs.person and not house:
        yield ONE_RECORD.format(person=needs.person, most=needs.most_records)
    if needs.largest_household or not house:
        return
    names = [name for name in book.names if name in {*shared}]
    what = f"Claims are about one record: a household ({house[0]}) with k members has k times the epsilon"
    also = f", and --household-variables {','.join(names)}, which all members share" if names else ""
    yield f"{what}. For plans that protect households, add {asked_units.BOUND}{also}."


def without_effect(needs: Needs, of_members: Sequence[bool]) -> Iterator[str]:
    """Yield in which plans, by ``of_members``, it makes no difference which variables a household shares."""
    if needs.household_variables and any(of_members):
        numbers = [str(number) for number, one in enumerate(of_members, 1) if one]
        which = "these plans" if all(of_members) else f"plan{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
        why = "there one member of each household shows anything, so that every value is drawn once for it anyway"
        yield f"--household-variables has no effect in {which}: {why}."


def _of_members(made: Candidate, subject: Subject) -> Candidate:
    """Return a split that one random member of each household shows: what all share is shown once anyway."""
    unit = asked_units.section(asked_units.roles_of(subject.book), subject.needs)

    def sections(epsilon: float) -> dict[str, Any]:
        held = made.sections(epsilon)
        return {**held, "unit": unit, "split": {**held["split"], "unit": "household"}}

    note = "such a release has unbiased estimates alone ('postrand estimate' without --method): no maximum likelihood "
    note += "(--method likelihood), and no completed files ('postrand complete', --method model)"
    way = made.way + MEMBERS
    what = ONE_MEMBER + made.what.removeprefix(SPLIT_IN_WORDS)
    return replace(made, way=way, what=what, sections=sections, notes=(*made.notes, note), of_members=True)


def _with_unit(candidate: Candidate, subject: Subject, added: Names, own: Names) -> Candidate:
    """Return the candidate with a ``[unit]``; ``added`` variables get blocks and their share of ε beside its own."""
    needs, part = subject.needs, len(added) / len(subject.perturbed)
    unit = asked_units.section(asked_units.roles_of(subject.book), needs, own)
    joint = math.prod(subject.book[name].size for name in added) <= MAX_JOINT
    groups = ([added] if joint else [(name,) for name in added]) if added else []

    def sections(epsilon: float) -> dict[str, Any]:
        each = shares([epsilon * (1 - part), *(epsilon * part / len(groups) for _ in groups)], epsilon)
        held = candidate.sections(each[0])
        if not held:
            return held
        blocks = [
            {"variables": list(names), "privacy": {"model": "differential", "epsilon": level}}
            for names, level in zip(groups, each[1:], strict=True)
        ]
        whole = {"model": "differential", "epsilon": epsilon}
        return {**held, "privacy": whole, "unit": unit, "blocks": [*held.get("blocks", ()), *blocks]}

    where = "a block of its own" if len(own) == 1 else "a block of their own" if joint else "blocks of their own"
    drawn = f"{', '.join(own)}: in {where}, drawn once for a household, so that all members show one value; completed "
    drawn += "files ('postrand complete') cannot be made of such a release"
    return replace(candidate, sections=sections, notes=(*candidate.notes, *([drawn] if own else [])))


def _problems(book: Codebook, needs: Needs) -> Iterator[str]:
    yield from asked_units.problems(asked_units.roles_of(book), needs)
    if needs.household_variables and not needs.largest_household:
        yield sentence("variables of the household, but not how large one can be", fix=f"add {asked_units.BOUND}")
        return
    yield from not_drawn([variable.name for variable in book.variables if variable.is_categorical], needs)
