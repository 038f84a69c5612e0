"""The roles that are asked for by the names of columns, and what is wrong with these names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from postrand.codebook.variable import ROLES
from postrand.columns.recoded import unrecoded
from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.formats import Source

ONE = {"weight": "sampling weight", "household": "column of household numbers", "record_key": "record key"}
"""Roles that one column can have."""
TITLE = "if a title stands above the names of the columns, remove these lines; or give --separator"


def assign_roles(
    columns: Sequence[str], roles: Mapping[str, Sequence[str]], made: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, str]:
    """Return the role of each column, empty if none is given; raises UsageError with all wrong names together.

    >>> assign_roles(["sex", "age", "pay"], {"key": ["sex"], "other": ["*"]})
    {'sex': 'key', 'age': 'other', 'pay': 'other'}
    """
    assigned, problems = roles_of(columns, roles, made)
    raise_all(UsageError, problems)
    return assigned


def roles_of(
    columns: Sequence[str], roles: Mapping[str, Sequence[str]], made: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> tuple[dict[str, str], list[str]]:
    """Return the role of each column, empty if none is given, and what is wrong with the names.

    ``made``: which columns are made of one that recodes replace.
    """
    problems, assigned, rest = [], dict.fromkeys(columns, ""), ""
    for role, given in roles.items():
        role = role.replace("-", "_")
        if role in ONE and len(given) > 1:
            problems.append(sentence(f"a file has one {ONE[role]}", got=", ".join(given), fix="name one of them"))
        if role not in ROLES:
            problems.append(sentence(f"unknown role {role!r}{nearest(role, ROLES)}", wanted=", ".join(ROLES)))
        for name in given:
            if name == "*":
                problems += [sentence("'*' is given to two roles")] * bool(rest)
                rest = role
            elif name not in assigned and made.get(name):
                others = " and ".join(made[name])
                what = f"column {name!r} is recoded into {others}"
                problems.append(sentence(what, fix=f"name {' or '.join(made[name])} in its place"))
            elif name not in assigned:
                fix = TITLE if len(columns) == 1 else ""
                what = f"no column {name!r}{nearest(name, columns)}"
                problems.append(sentence(what, wanted=", ".join(columns), fix=fix))
            elif assigned[name]:
                problems.append(sentence(f"column {name!r} has two roles", got=f"{assigned[name]} and {role}"))
            else:
                assigned[name] = role
    return {name: role or rest for name, role in assigned.items()}, problems


def made_of(source: Source) -> dict[str, list[str]]:
    """Return for each column of a file which variables recodes make of it."""
    found: dict[str, list[str]] = {}
    for recode in unrecoded(source)[1]:
        found.setdefault(recode.source, []).append(recode.variable)
    return found
