"""What the number of records of a household tells of perturbed variables: household numbers show it, at any epsilon."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from postrand.risk.finding import PLAN_STATES, Finding, listed
from postrand.risk.household_sizes import OF_SIZE, members_of
from postrand.risk.reveals import PairReveal, told
from postrand.risk.sample import Sampled
from postrand.risk.telling import RANKED_BINS, classes, cut_in, table_of, usable
from postrand.risk.told_findings import TOLD

SIZES = "household numbers show how many records a household has, which all but tells perturbed variables"
AS_KNOWN = "released as in the file, outside [split] and [[blocks]], where figures of risk count keys as known"
NO_NUMBERS = "release no household numbers (role 'drop' for {number})"
"""What a plan is refused for, and what helps: no epsilon does, because the numbers are not perturbed."""


def told_by_sizes(sample: Sampled, coded: Collection[str], perturbed: Sequence[str]) -> tuple[PairReveal, ...]:
    """Return what the sizes of households tell of each perturbed variable, where it is much; () without numbers.

    >>> import pyarrow as pa
    >>> houses = [number for k in range(40) for number in (2 * k, 2 * k, 2 * k + 1)]
    >>> table = pa.table({"hh": houses, "members": [2, 2, 1] * 40})
    >>> [found] = told_by_sizes(Sampled(table, 120, {}, "hh"), ["members"], ["members"])
    >>> found.perturbed, found.clear, is_told(found)
    ('members', 'the number of members of the household', True)
    """
    shown = members_of(sample)
    if shown is None:
        return ()
    true = usable({name: classes(sample, name, name in coded, RANKED_BINS) for name in perturbed})
    found = (told(table_of(held, shown), name, OF_SIZE, cut_in(sample, name, held)) for name, held in true.items())
    return tuple(one for one in found if one.is_much)


def is_told(one: PairReveal) -> bool:
    """Whether sizes tell a variable of every record: to perturb it hides nothing."""
    return one.guessed == 1.0


def size_findings(pairs: Sequence[PairReveal], number: str | None, as_is: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each variable that sizes tell; one that they all but settle needs a decision."""
    for one in pairs:
        decided = one.is_certain and number in as_is
        text = f"the household number {number} shows how many records a household has, which reveals true values of "
        text += f"{one.perturbed}, which is perturbed: {one.in_words}; no epsilon prevents this: "
        own = f"{one.perturbed} can be {AS_KNOWN}" if is_told(one) else f"give {one.perturbed} the role 'drop'"
        text += f"{own}; or {NO_NUMBERS.format(number=number)}"
        text += f"; {PLAN_STATES} that {number} is released all the same" if decided else ""
        figures = {figure: getattr(one, figure) for figure in TOLD}
        is_open = one.is_certain and not decided
        yield Finding("size", (str(number),), (one.perturbed,), text, figures, is_open, is_exact=is_told(one))


def sizes_fix(open_: Sequence[Finding], as_is: str) -> str:
    """Return what to do about findings that need a decision; ``as_is`` is the line of a plan that makes it."""
    if not open_:
        return ""
    [number], names = open_[0].variables, listed([one.about[0] for one in open_])
    own = f"{names} can be {AS_KNOWN}; or set role = 'drop' for {names}"
    return f"{own}; or {NO_NUMBERS.format(number=number)}; or state {as_is}"
