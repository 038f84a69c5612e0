"""Rules that are read from a file, and files that are checked against rules."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.codebook.rules import Rule, codes_of, nameable
from postrand.errors import DataError, SpecificationError, raise_all, sentence
from postrand.support.inputs import read_text
from postrand.support.showing import counted, unshown

_LISTED = 10


def read_rules(path: str | Path, codebook: Codebook) -> tuple[Rule, ...]:
    """Read a CSV table of rules: a column for each variable, a row for each forbidden combination, empty: any value.

    Missing answers are not an empty entry but the text ``(missing)``, as in the codebook.

    Raises
    ------
    SpecificationError
        With the positions of the first unknown columns and categories, and of rows that forbid everything. The content
        of the file is never shown.
    """
    path = Path(path)
    try:
        rows = list(csv.reader(io.StringIO(read_text(path), newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else "not CSV text in UTF-8"
        raise SpecificationError(sentence("the rules cannot be read", where=str(path), got=why)) from None
    names, body = (rows[0], rows[1:]) if rows else ([], [])
    problems = [] if body else [sentence("the file contains no rules", where=path.name)]
    # Never show the content: it can be a file of records, given by mistake.
    strange = [place for place, name in enumerate(names, 1) if name not in codebook]
    wanted, fix = ", ".join(codebook.names), "if this is a file of records, set rules_file to another file"
    problems += [
        sentence(
            f"the text in field {place} of the first line is not a variable", where=path.name, wanted=wanted, fix=fix
        )
        for place in strange[:_LISTED]
    ]
    rules: list[Rule] = []
    for line, row in enumerate(body, 2):
        where = f"{path.name}, row {line}"
        given = [(n, text) for n, text in zip(names, row, strict=False) if text and n in codebook]
        if len(row) != len(names):
            problems.append(sentence("the number of fields in the row differs from the first line", where=where))
        elif not any(row):
            problems.append(sentence("an empty row forbids every record", where=where, fix="remove the row"))
        else:
            known = {n: {str(c): c for c in nameable(codebook[n])} for n, _ in given}
            unknown = [n for n, text in given if text not in known[n]]
            problems += [
                sentence(f"the text is not a category of {n!r}", where=where, fix="write it as in the codebook")
                for n in unknown
            ]
            rules += [] if unknown or not given else [Rule((n, known[n][text]) for n, text in given)]
    if unshown(len(problems), _LISTED):
        more = f"... and more problems: {path.name} could be a file of records, not of rules."
        problems = [*problems[:_LISTED], more]
    raise_all(SpecificationError, problems)
    return tuple(rules)


def check_records(counts: Mapping[tuple[str, ...], NDArray[Any]], codebook: Codebook) -> None:
    """Refuse records that contradict a rule, from the table of counts for each rule's variables.

    ``counts`` maps the variables of a rule to the dense counts of their combinations.

    Raises
    ------
    DataError
        With the first ten rules that records contradict; counts under 5 are not shown.
    """
    problems = []
    for number, rule in enumerate(codebook.rules, 1):
        table = counts[rule.variables]
        at = tuple(codes_of(codebook[n], values) for n, values in rule.parts)
        found = table[np.ix_(*at)].sum()
        if found > 0:
            where = f"rule {number}, of {', '.join(rule.variables)}"  # never its categories: one record could have them
            problems.append(sentence("records contradict a rule", where=where, got=f"{counted(int(found))} records"))
    more = unshown(len(problems), _LISTED)
    told = [*problems[: len(problems) - more], *[f"... and {more} more rules that records contradict."] * bool(more)]
    if told:
        told[-1] += " Next: correct the records, or remove the rules from the codebook."
    raise_all(DataError, told)
