"""What is countable, and the SQL of counts and orders that several databases share."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError, sentence

NEGATIVE, MISSING = 1, 2
_ITEM = r'("(?:[^"]|"")+"|[a-z_]\w*)((?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?)'
_ORDER = re.compile(rf"\border\s+by\s+({_ITEM}(?:\s*,\s*{_ITEM})*)\s*$", re.IGNORECASE)


def countable(codebook: Codebook, variables: Sequence[str]) -> list[Variable]:
    """Return the variables of a table; raises UsageError unless there is one and each is named once."""
    held = [codebook[name] for name in variables]
    if len(set(variables)) != len(variables) or not held:
        raise UsageError(sentence("a table needs at least one variable, and each only once", got=", ".join(variables)))
    return held


def check_weight(schema: pa.Schema, weight: str) -> None:
    """Raise DataError unless the weight is a column of numbers."""
    of = schema.field(weight).type
    if not (pa.types.is_integer(of) or pa.types.is_floating(of)):
        raise wrong_weight(MISSING, weight)


def weight_sql(name: str, finite: str) -> list[str]:
    """Return the two columns of SQL that a weighted group has; ``finite`` is a test with a place for the name."""
    found = (
        f"CASE WHEN {name} IS NULL THEN {MISSING} WHEN {finite.format(name)} AND {name} >= 0 THEN 0 ELSE {NEGATIVE} END"
    )
    return [f"coalesce(sum(CAST({name} AS DOUBLE)), 0)", f"max({found})"]


def wrong_weight(kind: int, weight: str) -> DataError:
    """Return the error for a weight that is none."""
    what = "a weight is missing or not a number" if kind == MISSING else "a weight is negative or not finite"
    return DataError(sentence(what, where=f"variable {weight!r}"))


def quoted(name: str) -> str:
    """Return the name as an identifier of SQL.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"{}"'.format(name.replace('"', '""'))


def literal(text: str) -> str:
    """Return the text as a string of SQL.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'{}'".format(text.replace("'", "''"))


def dotted(name: str) -> str:
    """Return the name of a table as SQL, with its schema where it has one.

    >>> dotted("census.persons")
    '"census"."persons"'
    """
    return ".".join(map(quoted, name.split(".", 1)))


def order_of(query: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of the ``ORDER BY`` that a query ends with, each with its direction; empty for any other end.

    A reading of text proves nothing: the caller asks the database whether the columns leave ties, and orders by them.

    >>> order_of("SELECT * FROM persons ORDER BY region, ID desc", ["id", "region"])
    {'region': '', 'id': ' DESC'}
    >>> order_of("SELECT * FROM persons ORDER BY random()", ["id"])
    {}
    """
    if (end := _ORDER.search(query)) is None:
        return {}
    held: dict[str, str] = {}
    for word, direction in re.findall(_ITEM, end[1], re.IGNORECASE):
        exact = word[1:-1].replace('""', '"') if word[0] == '"' else None
        found = [n for n in names if (n == exact if exact is not None else n.lower() == word.lower())]
        if len(found) != 1:
            return {}
        held.setdefault(found[0], " ".join(["", *direction.upper().split()]))
    return held


def order_sql(order: dict[str, str]) -> str:
    """Return the clause of these columns, to be put behind a query; empty for none."""
    return " ORDER BY " + ", ".join(quoted(n) + direction for n, direction in order.items()) if order else ""


def ties_sql(relation: str, order: dict[str, str]) -> str:
    """Return the query that shows whether two records are equal in all these columns (missing values are equal)."""
    columns = ", ".join(map(quoted, order))
    return f"SELECT EXISTS (SELECT 1 FROM ({relation}) AS records GROUP BY {columns} HAVING count(*) > 1)"
