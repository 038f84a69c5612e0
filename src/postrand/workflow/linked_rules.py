"""The combinations that a link excludes, as rules that a codebook proposes: a joint block needs no cells for them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from postrand.risk.linked import Column, Link

Rule = dict[str, Any]
MOST = 100
NOTE = """\
These combinations do not occur in the file, because one variable follows from others. If they cannot occur by
definition, uncomment the rules: the joint block then has no cells for them, and keeps more. Rules are published. They
are for joint blocks: with separate ones they would tell more than epsilon allows, and the plan would be refused."""


def rules_of(link: Link, columns: Mapping[str, Column], values: Mapping[str, list[Any]]) -> list[Rule]:
    """Return rules that exclude what an exact link excludes; none of other links, or where they were too many.

    ``values`` are the categories of the codes of ``columns``. A function excludes, for each of its values, those of
    the other variable that have another one; dummies exclude two ones, and none.

    >>> year = Column(np.array([0, 1, 2]), 3)
    >>> late = Column(np.array([0, 0, 1]), 2)
    >>> values = {"year": [1990, 1991, 1992], "late": [0, 1]}
    >>> rules_of(Link("function", ("late",), ("year",)), {"year": year, "late": late}, values)
    [{'late': 0, 'year': 1992}, {'late': 1, 'year': [1990, 1991]}]
    """
    if not {*link.names} <= {*values}:
        return []
    if link.kind == "dummies":
        off, on = ({name: values[name][place] for name in link.names} for place in (0, 1))
        pairs = [{a: on[a], b: on[b]} for a, b in itertools.combinations(link.names, 2)]
        return [*pairs, off] if len(pairs) < MOST else []
    if link.kind not in ("function", "recode") or len(link.of) > 1 or columns[link.variables[0]].size > MOST:
        return []
    y, x = link.variables[0], link.of[0]
    there = (columns[x].codes >= 0) & (columns[y].codes >= 0)
    rules = []
    for code, value in enumerate(values[y]):
        own = np.unique(columns[x].codes[there & (columns[y].codes == code)])
        other = [v for place, v in enumerate(values[x]) if place not in own]
        if other:
            rules.append({y: value, x: other[0] if len(other) == 1 else sorted(other)})
    return rules


def values_of(column: Any, codes: Column, categories: list[Any]) -> list[Any] | None:
    """Return the category of each code, None where one is not listed as the column spells it."""
    known = {str(category): category for category in categories}
    found = [known.get(str(column[int(np.argmax(codes.codes == code))].as_py())) for code in range(codes.size)]
    return None if any(value is None for value in found) else found
