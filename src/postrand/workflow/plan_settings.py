"""How a plan treats its variables, part by part, and what a split of it shows together."""

from __future__ import annotations

import itertools

from postrand.mechanism import Mechanism
from postrand.mechanism.split import Split
from postrand.mechanism.units import words_of
from postrand.plan import Plan
from postrand.support import options
from postrand.support.showing import ORDERS, few
from postrand.workflow.column_ways import ways_of

RECODE_OF = "recode of "
"""The settings of this name say how a column is recoded."""
MANY = 3
"""So many variables together are no table of one or two, whose worth is told."""
NAMED_PAIRS = 3
MOST_SETS = 8
"""So many sets of variables that are shown together are named; of more, none is."""


def settings_of(plan: Plan, mechanism: Mechanism) -> list[tuple[str, str]]:
    """Return how each part of the plan treats its variables, by the name of the part."""
    found = [("privacy", options.describe(plan.privacy))]
    found += [(f"{RECODE_OF}{one.variable}", one.in_words()) for one in plan.codebook.recodes]
    found += [("also claimed", options.describe(model)) for model in plan.also]
    for planned, block in zip(plan.blocks, mechanism.blocks, strict=True):
        text = f"ε = {block.epsilon:.4g}, {planned.objective.name}, {planned.structure.name}, prior {planned.prior}"
        text += f", given {', '.join(block.given)}" if block.given else ""
        text += f", only records rarer than {planned.rarer_than}" if planned.rarer_than else ""
        found.append((f"block {' × '.join(planned.variables)}", text))
    if plan.split is not None and mechanism.split is not None:
        text = f"ε = {mechanism.split.epsilon:.4g}, {len(mechanism.split.subsets):,} subsets"
        text += f" (the largest: {sets})" if (sets := sets_of(mechanism.split)) else ""
        shows = words_of(mechanism.units)("one member of each household")
        text += f", shown by {shows}" if plan.split.of_members else ""
        found.append((f"split {few(plan.split.variables)}", text))
    found += [(f"numerical {', '.join(n.variables)}", "moved or averaged by rank") for n in plan.numerical]
    parts: dict[str, list[str]] = {}
    for one in ways_of(plan, mechanism):
        if one.is_clear or not one.leaves:
            parts.setdefault("as it is" if one.way == "recoded" else one.way, []).append(one.name)
    found += [(part, ", ".join(names)) for part, names in parts.items()]
    found.append(("order of records", ORDERS[plan.release.shuffle]))
    return found


def of_three(mechanism: Mechanism, records: int) -> tuple[str, ...]:
    """Return how many records of a split show three of its variables together, which regressions with them need.

    Of one that a member of each household shows, records are those of the households alone, and only shares are told.
    """
    split = mechanism.split
    if split is None or len(split.variables) < MANY:
        return ()
    low, high = _shares(split, MANY)
    has_more = len(mechanism.blocks) > 0  # perturbed too, and in every record
    those, of_them = ("variables of the split", " of them") if has_more else ("perturbed variables", "")
    if high == 0:
        text = f"no record; tables and regressions with three{of_them} are refused"
    elif low == 0:
        most, sets = words_of(mechanism.units)(_records(split, records, high)), sets_of(split, MANY)
        text = f"at most about {most}, and some three by none" + f" (together are shown: {sets})" * bool(sets)
        text += f"; tables and regressions with three{of_them} that none shows are refused"
    else:
        text = words_of(mechanism.units)(shown_together(split, MANY, records))
        text += ", by which three they are" * (" to " in text)
    completed = "" if split.of_members or mechanism.shared else "; completed files have all together"
    completed += f", but {made_up}" if completed and (made_up := never_together(split)) else ""
    return (f"three {those} are shown together by {text}{completed}",)


def never_together(split: Split) -> str:
    """Return what completed files cannot tell: how variables go together that no record shows; "" where all are shown.

    >>> from postrand.mechanism.matrix import randomised_response
    >>> from postrand.mechanism import Block
    >>> two = [Block((name,), randomised_response(2, 1.0)) for name in ("pay", "sex")]
    >>> never_together(Split.of([0.5, 0.5], two))
    'nothing tells how pay and sex go together, which no record shows: there they can fail, or be wrong'
    """
    shown = [{*one.variables} for one in split.subsets]
    pairs = [pair for pair in itertools.combinations(split.variables, 2) if not any({*pair} <= one for one in shown)]
    if not pairs:
        return ""
    told = few([" and ".join(pair) for pair in pairs], NAMED_PAIRS)
    return f"nothing tells how {told} go together, which no record shows: there they can fail, or be wrong"


def sets_of(split: Split, least: int = 1) -> str:
    """Return the sets of at least so many variables that a split shows together; "" of none, and where they are many.

    A set within another one is not named.
    """
    held = [frozenset(one.variables) for one in split.subsets if len(one.variables) >= least]
    largest = list(dict.fromkeys(one for one in held if not any(one < other for other in held)))
    names = (" × ".join(name for name in split.variables if name in one) for one in largest)
    return "; ".join(names) if len(largest) <= MOST_SETS else ""


def shown_together(split: Split, many: int, records: int) -> str:
    """Return how many records of a split show so many of its variables together, by which ones.

    Of one that a member of each household shows, records are those of the households alone, and only shares are told.
    """
    low, high = _shares(split, many)
    first = _number(split, records, low)
    between = "" if first == _number(split, records, high) else f"{first} to "
    return f"{'about ' * (not split.of_members)}{between}{_records(split, records, high)}"


def _shares(split: Split, many: int) -> tuple[float, float]:
    """Return the least and the largest share of records that show so many variables together, over which ones."""
    sets = itertools.combinations(split.variables, many)
    shares = [sum(s.probability for s in split.subsets if {*names} <= {*s.variables}) for names in sets]
    return min(shares), max(shares)


def _records(split: Split, records: int, share: float) -> str:
    whole = "the members that are drawn" if split.of_members else f"{records:,} records"
    return f"{_number(split, records, share)} of {whole}"


def _number(split: Split, records: int, share: float) -> str:
    return f"{100 * share:.2g}%" if split.of_members else f"{records * share:,.0f}"
