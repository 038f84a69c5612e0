"""How each column of a file leaves in the release of a plan: one list, which every page that names columns shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from postrand.mechanism import Mechanism
from postrand.mechanism.units import words_of
from postrand.plan import Plan
from postrand.plan.policy import columns_of
from postrand.recoding import Recode
from postrand.recoding.unchanged import CODES
from postrand.support.exact import format_upper
from postrand.support.showing import few
from postrand.workflow.facts import household_of, released_names

Way = Literal[
    "perturbed", "made", "moved", "averaged", "suppressed", "recoded", "as it is", "new numbers", "not released"
]
WAYS: Mapping[Way, str] = {
    "perturbed": "Perturbed",
    "made": "Recoded, then perturbed",
    "moved": "Moved among neighbours in rank",
    "averaged": "Averaged over neighbours in rank",
    "suppressed": "Released with some values suppressed",
    "recoded": "Released as recoded, not perturbed",
    "as it is": "Released as in the file",
    "new numbers": "Released with new numbers",
    "not released": "Not released",
}
"""The ways in which columns leave, in words, in the order in which they are told."""
PERTURBED: tuple[Way, ...] = ("perturbed", "made")
IN_CLEAR: tuple[Way, ...] = ("recoded", "as it is", "new numbers")
"""The ways of columns that leave and have no protection of their own."""
NO_ANSWERS = "codes for no answer made missing"
"""What is done to a column that leaves as in the file otherwise."""
TITLE = "How each column leaves"


@dataclass(frozen=True, slots=True)
class ColumnWay:
    """Say of one column by which way it leaves; ``part`` is the block or split that perturbs it, ``how`` the details.

    ``part`` is "" where a block perturbs the column alone; of a column in clear it can be ``NO_ANSWERS``. Nothing here
    says anything of a record.
    """

    name: str
    way: Way
    part: str = ""
    how: str = ""

    @property
    def leaves(self) -> bool:
        """Whether the column is in the release."""
        return self.way != "not released"

    @property
    def is_clear(self) -> bool:
        """Whether it leaves with no protection of its own."""
        return self.way in IN_CLEAR

    def to_dict(self) -> dict[str, str]:
        """Return plain data for JSON."""
        return {"column": self.name, "way": WAYS[self.way], "how": self.how}

    def row(self) -> dict[str, object]:
        """Return the column as a row of a page."""
        return {"Column": self.name, "How it leaves": WAYS[self.way], "In detail": self.how}


def ways_of(plan: Plan, mechanism: Mechanism) -> tuple[ColumnWay, ...]:
    """Return how each column of a plan's file leaves: all of the codebook, and those from which they are recoded."""
    book = plan.codebook
    recodes = {recode.variable: recode for recode in book.recodes}
    made = {n: recoded_from(recode) for n, recode in recodes.items()}
    whole = {n for n, recode in recodes.items() if recode.kind.name == CODES and recode.source == n}
    only = {n: [r.variable for r in book.recodes if r.source == n] for n in columns_of(book) if n not in book.names}
    released, fresh = {*released_names(plan)}, household_of(plan) if plan.release.renumbers else None
    ranked = {column.variable: column.form for column in mechanism.numerical}

    def way(name: str) -> ColumnWay:
        if name in only:
            return ColumnWay(name, "not released", "", f"only recoded, as {few(only[name])}")
        role = f"role {book[name].role}"
        if name not in released:
            return ColumnWay(name, "not released", "", role)
        before = f"{made[name]}, then " if name in made else ""
        if name in ranked:
            done = "replaced by an average" if ranked[name] == "average" else "moved"
            return ColumnWay(name, "averaged" if ranked[name] == "average" else "moved", "", f"{before}{done}, by rank")
        if name in mechanism.variables:
            part, how = _perturbed(mechanism, name)
            return ColumnWay(name, "made" if name in made else "perturbed", part, before + how)
        if name == fresh:
            return ColumnWay(
                name, "new numbers", "", words_of(mechanism.units)("shows which records are one household")
            )
        is_recoded = name in made and name not in whole  # else all values stay but codes for no answer
        part = NO_ANSWERS if name in whole else ""
        return ColumnWay(name, "recoded" if is_recoded else "as it is", part, made.get(name, role))

    return tuple(map(way, dict.fromkeys((*book.names, *only))))


def in_words(ways: Iterable[ColumnWay]) -> Iterator[tuple[str, str]]:
    """Yield each way with all its columns by name, and the block or split of those that are perturbed.

    >>> house = ColumnWay("hh", "new numbers")
    >>> parts = [ColumnWay("sex", "perturbed"), ColumnWay("age", "perturbed", "block age × job"), house]
    >>> list(in_words(parts))
    [('Perturbed', 'sex; age (block age × job)'), ('Released with new numbers', 'hh')]
    """
    held = tuple(ways)
    for way, words in WAYS.items():
        parts: dict[str, list[str]] = {}
        for one in held:
            if one.way == way:
                parts.setdefault(one.part, []).append(one.name)
        if parts:
            named = [", ".join(names) + (f" ({part})" if part else "") for part, names in parts.items()]
            yield words, "; ".join(named)


def all_in_words(ways: Iterable[ColumnWay]) -> Iterator[str]:
    """Yield each way with all its columns by name, and which of them have no protection of their own."""
    clear = {WAYS[way] for way in IN_CLEAR}
    for words, names in in_words(ways):
        yield f"{words}{', with no protection of their own' * (words in clear)}: {names}"


def beside_keys(ways: Iterable[ColumnWay], keys: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that leave and are no keys of the attackers: no measure of risk counts their values.

    New numbers are no values of anybody.
    """
    known = {*keys}
    return tuple(w.name for w in ways if w.leaves and w.way != "new numbers" and w.name not in known)


def recoded_from(recode: Recode) -> str:
    """Return by which kinds of recode a column is made, and from which one where that has another name."""
    return f"recoded{'' if recode.source == recode.variable else f' from {recode.source}'} ({recode.kinds})"


def _perturbed(mechanism: Mechanism, name: str) -> tuple[str, str]:
    """Return the part that perturbs a variable, "" where a block perturbs it alone, and how, in words."""
    if mechanism.split is not None and name in mechanism.partly:
        who = "one random member of each household" if mechanism.split.of_members else "each record"
        who = words_of(mechanism.units)(who)
        return "split", f"by the split: {who} shows only some of its variables, chosen at random"
    block = mechanism[name]
    others = [other for other in block.perturbed if other != name]
    words = f"together with {', '.join(others)}" if others else "by itself"
    strata = f", within {', '.join(block.given)}" if block.given else ""
    once = f", drawn once for each {block.unit}" if block.unit != "record" else ""
    level = f", ε = {format_upper(block.epsilon)}" if math.isfinite(block.epsilon) else ", without an ε"
    part = f"block {' × '.join(block.perturbed)}{once}" if others else once.removeprefix(", ")
    return part, words + strata + once + level
