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
        text += f" ({sets})" if (sets := sets_of(mechanism.split)) else ""
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
    shown_by, some_by_none = shown_together(split, MANY, records)
    shown_by = words_of(mechanism.units)(shown_by)
    refused = "; tables and regressions with three that none shows are refused" if some_by_none else ""
    shown_by += f" ({sets})" if some_by_none and (sets := sets_of(split, MANY)) else ""
    completed = "" if split.of_members or mechanism.shared else "; completed files have all together"
    return (f"three perturbed variables together, by which three, are shown by {shown_by}{refused}{completed}",)


def sets_of(split: Split, least: int = 1) -> str:
    """Return the sets of at least so many variables that a split shows together; "" of none, and where they are many.

    A set within another one is not named.
    """
    held = [frozenset(one.variables) for one in split.subsets if len(one.variables) >= least]
    largest = list(dict.fromkeys(one for one in held if not any(one < other for other in held)))
    names = (" × ".join(name for name in split.variables if name in one) for one in largest)
    return "; ".join(names) if len(largest) <= MOST_SETS else ""


def shown_together(split: Split, many: int, records: int) -> tuple[str, bool]:
    """Return which records of a split show so many of its variables together, and whether some show none of these.

    Of one that a member of each household shows, records are those of the households alone, and only shares are told.
    """
    sets = itertools.combinations(split.variables, many)
    shares = [sum(s.probability for s in split.subsets if {*names} <= {*s.variables}) for names in sets]
    low, high = min(shares), max(shares)
    if split.of_members:
        return f"{100 * low:.2g}% to {100 * high:.2g}% of the members that are drawn", low == 0
    return f"about {records * low:,.0f} to {records * high:,.0f} of {records:,} records", low == 0
