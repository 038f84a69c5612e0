"""Attackers who know more than the keys: the same plan, measured with other released columns as keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.plan import Plan
from postrand.workflow.facts import released_names

OPTION = "--known-also"


def knowing(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with these columns as keys, so that figures of risk are those of attackers who know them too.

    What is released stays the same: a role decides no matrix of a plan. Only a column with categories can be known; who
    knows an exact amount is told with every plan (:mod:`postrand.risk.one_more`).

    Raises
    ------
    UsageError
        With every name that the codebook lacks, that is not released, or that has no categories.
    """
    raise_all(UsageError, _problems(plan, names))
    book = plan.codebook
    variables = (dataclasses.replace(v, role="key") if v.name in names else v for v in book.variables)
    return dataclasses.replace(plan, codebook=dataclasses.replace(book, variables=tuple(variables)))


def _problems(plan: Plan, names: Sequence[str]) -> Iterator[str]:
    book, released = plan.codebook, {*released_names(plan)}
    usable = [v.name for v in book.variables if v.name in released and v.is_categorical]
    for name in names:
        if name not in book:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, usable)}", where=OPTION)
        elif name not in released:
            yield sentence(
                f"{name!r} is not released", where=OPTION, fix="leave it out: no released column is compared with it"
            )
        elif book[name].role == "key":
            yield sentence(f"{name!r} is a key, which attackers know anyway", where=OPTION, fix="leave it out")
        elif book[name].role == "weight":
            what = f"{name!r} is a weight, which nobody outside is taken to know"
            yield sentence(what, where=OPTION, fix="leave it out: pages say what it reveals of other variables")
        elif not book[name].is_categorical:
            fix = f"recode {name!r} in bands: then it has categories"
            what = f"{name!r} is a number without categories; who knows its exact value is told without this option"
            yield sentence(what, where=OPTION, fix=fix)
