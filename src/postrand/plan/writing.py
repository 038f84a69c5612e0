"""Codebooks and the blocks of plans as TOML: what the draft of a plan and the workbench both write.

Reading needs the standard library only; the library that writes comments is imported here, where few commands come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Table

from postrand.codebook.variable import ROLES

_LINE = 100
_HEAD = f"""\
Codebook: a description of each column of the file. Please check every variable before you protect the file.

role        write one of: {", ".join(ROLES)}
              key         key variable: somebody can know it, and it could single out a person; also where it is
                          released unperturbed: only then do figures of risk and rules count that it is known
              sensitive   others would like to know it; no protection by itself: released as it is, unless a
                          block of the plan names it
              other       any other variable; released as it is, unless a block of the plan names it
              weight      sampling weight; released as it is, for the analyst
              household   shows which records belong together; released with new numbers
              record_key  a unique number of the record; released only if the plan asks for it
              drop        not released; use it for columns that repeat a perturbed variable (dummies, sums)
categories  the values in their order; all of them are published with the release. These were read from the
            file: compare them with the questionnaire, so that they are public. Add values that could occur
            but do not; do not remove a value that occurs. Without categories a column is released as it is.
labels      a text for each category, in the same order
type        the type of the values in the file. A CSV file contains text: for a weight, a household number or
            a quantity, set type = "int64" or "double" and remove the categories.
missing     error (a missing value stops the run), category (one more category, perturbed),
            keep (released as missing)
missing_codes  categories that mean "no answer": tables show each of them, means and quantiles leave them out. They
            stay categories, so missing = "category" would add one more with the same meaning. To make them
            missing values instead, write missing = ["-9", "99"] in [[recodes]]; so too for a quantity, which has no
            categories.

Combinations that cannot occur are refused in the file and never released. Write one [[rules]] table for each,
below the variables, for example  age = ["0-14", "15"]  and  marital_status = "Widowed".  "(missing)" names missing
answers of a variable with missing = "category":  dead = "yes"  and  cause = "(missing)".  Or write, above the
variables, rules_file = "rules.csv": a table with a column for each variable and a row for each combination
(empty: any value; missing answers are the text).

Columns can be recoded before anything else: write one [[recodes]] table for each result, with variable, from (the
column of the file, if it has another name) and, for example, bands = [0, 15, 30], rounding = 100, top = 85 (top
coding), bottom = 16 (bottom coding), or hierarchy = "areas.csv" and level = 1. The variable describes the result.
'postrand recode' tries it on the file, and docs/recoding.md explains all kinds. If you chose groups or edges by looking
at the file, write provenance = "confidential" in the table, and the certificate says it; if without it, "public".
"""


def codebook_text(drafts: Iterable[Mapping[str, Any]], *proposed: tuple[str, Sequence[Mapping[str, Any]], str]) -> str:
    """Return drafts as the text of a ``codebook.toml``, with comments about the decisions to make.

    ``proposed`` are tables, such as ``rules``, each with its entries and a note: comments, for a person to uncomment.
    """
    document = tomlkit.document()
    for line in _HEAD.splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    entries = tomlkit.aot()
    for draft in drafts:
        entries.append(_entry(draft))
    document.add("variables", entries)
    for name, tables, note in proposed:
        if tables:
            document.add(tomlkit.nl())
            listed = "".join(tomlkit.dumps({name: [dict(table)]}) for table in tables)
            for line in (*note.splitlines(), *listed.splitlines()):
                document.add(tomlkit.comment(line))
    return tomlkit.dumps(document).replace("# \n", "#\n")


def blocks_of(entries: Iterable[Mapping[str, Any]]) -> tomlkit.items.AoT:
    """Return ``[[blocks]]`` with every option of a block on one line.

    >>> entry = {"variables": ["sex"], "privacy": {"model": "differential", "epsilon": 1.0}}
    >>> print(tomlkit.dumps({"blocks": blocks_of([entry])}), end="")
    [[blocks]]
    variables = ["sex"]
    privacy = {model = "differential", epsilon = 1.0}
    """
    blocks = tomlkit.aot()
    for entry in entries:
        block = tomlkit.table()
        for name, value in entry.items():
            block[name] = _inline(value)
        blocks.append(block)
    return blocks


def split_of(entry: Mapping[str, Any]) -> Table:
    """Return the section ``[split]`` from the plain data of :meth:`postrand.plan.split_plan.SplitPlan.to_dict`.

    >>> entry = {"variables": ["sex", "age"], "epsilon": 4.0, "workload": [{"table": ["sex", "age"], "weight": 2.0}]}
    >>> print(tomlkit.dumps({"split": split_of(entry)}), end="")
    [split]
    variables = ["sex", "age"]
    epsilon = 4.0
    workload = [{table = ["sex", "age"], weight = 2.0}]
    """
    table = tomlkit.table()
    for name, value in entry.items():
        table.add(name, _inline(value))
    return table


def _inline(value: Any) -> Any:
    """Return a value on one line: tables inside a section have no heads of their own."""
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update({name: _inline(one) for name, one in value.items()})
        return table
    if not isinstance(value, list):
        return value
    array = tomlkit.array()
    array.extend(map(_inline, value))
    return array


def _entry(draft: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for note in draft.get("notes", ()):
        table.add(tomlkit.comment(note))
    for name, value in draft.items():
        if name == "notes":
            continue
        table.add(name, _array(name, value) if isinstance(value, list) else value)
        if name == "role" and not value:
            table["role"].comment(f"write one of: {', '.join(ROLES[:-1])} or {ROLES[-1]}")
    return table


def _array(name: str, values: Sequence[Any]) -> tomlkit.items.Array:
    """Return a TOML array on one line, or with several short values on each line, or one long value on each line."""
    array = tomlkit.array()
    array.extend(values)
    width = len(array.as_string())
    if len(name) + width <= _LINE:
        return array
    if width > 10 * len(values):
        return array.multiline(True)
    array, each = tomlkit.array(), max(1, _LINE * len(values) // width)
    for start in range(0, len(values), each):
        array.add_line(*values[start : start + each])
    array.add_line(indent="")
    return array
