"""Published totals that every copy has to meet: read, checked against the release and each other."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.completion.raking import Target
from postrand.errors import PostrandError, UsageError, nearest, raise_all, sentence
from postrand.estimate.evidence_variables import Modelled
from postrand.mixture import Evidence
from postrand.support.inputs import finite, read_text

Array = NDArray[np.float64]
Given = Mapping[Any, Mapping[Any, float]]
"""Totals by variable, or tuple of variables, then by category, or tuple of categories."""


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """Hold totals of unperturbed columns ``names``, which the release meets: ``counts`` of the ``labels``."""

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Array


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Hold tables of whole numbers that each copy meets; those that the release meets already are ``met``."""

    tables: tuple[Target, ...]
    met: tuple[Met, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables)


NO_TOTALS = Totals(())


def read_totals(given: Given | str | Path, evidence: Evidence, modelled: Modelled) -> Totals:
    """Return totals from a mapping or a CSV file, as whole numbers of records.

    A mapping: ``{"sex": {"F": 5030, "M": 4970}, ("sex", "area"): {("F", "north"): 1200, ...}}``. A file has the columns
    ``variable``, ``category`` and ``total``; of tables of two variables also ``variable_2`` and ``category_2``, and so
    on. Every category has a total. Totals that add up to 1 are shares: they become the nearest whole numbers that add
    up to the records, by largest remainder.

    Raises
    ------
    UsageError
        If a name or category is unknown or has no total, totals do not add up to the records, contradict each other,
        columns that are released unchanged, or rules, or if the file has weights.
    """
    weight = next((v.name for v in modelled.variables if v.kind == "weight"), None)
    if weight is not None:
        what = "totals cannot be met in a file with sampling weights: whole records cannot add up to weighted totals"
        raise UsageError(sentence(what, got=f"weights {weight!r}", fix="calibrate the weights of each copy instead"))
    tables = _read(Path(given)) if isinstance(given, (str, Path)) else _mapped(given)
    made: list[Target] = []
    problems: list[str] = []
    for names, totals in tables.items():
        try:
            made.append(_target(names, totals, evidence.records, modelled))
        except PostrandError as error:
            problems += error.problems
    if not tables:
        problems.append(sentence("there are no totals", wanted="at least one variable with a total of each category"))
    raise_all(UsageError, problems)
    raise_all(UsageError, [*_contradictions(made, modelled), *_impossible(made, evidence, modelled)])
    return Totals(tuple(made))


def of_mixture(totals: Totals, whole: Modelled, mixture: Modelled) -> Totals:
    """Return totals, read for the ``whole`` file, with the places of the variables that the mixture has.

    Totals of unperturbed columns alone are those of the file, or reading them refuses them, so they are met.

    Raises
    ------
    UsageError
        If totals are of perturbed variables together with an unperturbed column that is not in the mixture.
    """
    tables, met, problems = [], [], []
    for table in totals.tables:
        names = tuple(whole.names[p] for p in table.places)
        outside = [name for name in names if name not in mixture.names]
        if not outside:
            tables.append(Target(tuple(mixture.names.index(name) for name in names), table.counts))
        elif len(outside) == len(names):
            met.append(Met(names, tuple(whole[name].labels for name in names), table.counts))
        else:
            rest = " by ".join(name for name in names if name not in outside)
            what = f"totals that relate {rest} to {', '.join(outside)}, released unchanged, cannot be met exactly"
            fix = f"give the totals of {rest} alone, or make separate releases for the parts of the file"
            problems.append(sentence(what, where=f"totals of {' by '.join(names)}", fix=fix))
    raise_all(UsageError, problems)
    return Totals(tuple(tables), tuple(met))


def _mapped(given: Given) -> dict[tuple[str, ...], dict[tuple[str, ...], float]]:
    if not isinstance(given, Mapping) or not all(isinstance(one, Mapping) for one in given.values()):
        raise UsageError(sentence("totals are not a mapping", wanted='{"sex": {"F": 5030, "M": 4970}}'))
    return {_key(names): {_key(cell): value for cell, value in one.items()} for names, one in given.items()}


def _key(value: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, (tuple, list)) else (str(value),)


def _read(path: Path) -> dict[tuple[str, ...], dict[tuple[str, ...], float]]:
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path, "utf-8-sig"), newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise UsageError(sentence("the totals cannot be read", where=str(path), got=got)) from None
    found: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for number, row in enumerate(rows, 2):
        names, cell = _parts(row, "variable"), _parts(row, "category")
        try:
            value = float(row.get("total") or "")
        except ValueError:
            value = math.nan
        twice = cell in found.get(names, {})
        if not names or len(names) != len(cell) or not math.isfinite(value) or twice:
            where = f"{path.name}, row {number}"
            what = "two totals of the same categories" if twice else "not a total"
            wanted = "columns variable, category and total; of tables of two variables also variable_2, category_2"
            raise UsageError(sentence(what, where=where, wanted=wanted))
        found.setdefault(names, {})[cell] = value
    return found


def _parts(row: Mapping[str, Any], what: str) -> tuple[str, ...]:
    columns = [what, *(f"{what}_{k}" for k in range(2, 6))]
    return tuple(row[name] for name in columns if row.get(name))


def _target(
    names: tuple[str, ...], totals: Mapping[tuple[str, ...], float], records: int, modelled: Modelled
) -> Target:
    """Return one table of whole numbers."""
    where = f"totals of {' by '.join(names)}"
    unused = dict(modelled.left_out)
    if lost := next((name for name in names if name in unused), None):
        fix = "leave these totals out"
        raise UsageError(sentence(f"{lost!r} is released unchanged and not in the model", where=where, fix=fix))
    unknown = [name for name in names if name not in modelled.names]
    if unknown or len(set(names)) < len(names):
        hint = nearest(unknown[0], modelled.names) if unknown else ""
        raise UsageError(sentence(f"not variables of the model{hint}", where=where, wanted=", ".join(modelled.names)))
    places = tuple(modelled.names.index(name) for name in names)
    codes = [_codes(modelled, name) for name in names]
    values = np.full([modelled.variables[p].size for p in places], np.nan)
    for cell, total in totals.items():
        if len(cell) != len(names) or any(text not in known for text, known in zip(cell, codes, strict=True)):
            fix = "write categories as in the codebook"  # what was given is not shown: it can be a file of records
            raise UsageError(sentence("a total of what is not a category", where=where, fix=fix))
        values[tuple(known[text] for text, known in zip(cell, codes, strict=True))] = finite(total)
    if np.isnan(values).any() or (values < 0).any():
        first = np.argwhere(~(values >= 0))[0]
        lacking = " by ".join(modelled.variables[p].labels[c] for p, c in zip(places, first, strict=True))
        raise UsageError(sentence("every category needs a total of 0 or more", where=where, got=f"none for {lacking}"))
    return _whole(values, places, records, where)


def _codes(modelled: Modelled, name: str) -> dict[str, int]:
    """Return the code of each category by its label, and by its value."""
    variable = modelled[name]
    known = {label: code for code, label in enumerate(variable.labels)}
    if variable.kind == "perturbed":
        known |= {str(value): code for code, value in enumerate(modelled.codebook[name].categories)}
    return known


def _whole(values: Array, places: tuple[int, ...], records: int, where: str) -> Target:
    total = float(values.sum())
    if abs(total - 1) < 1e-6 and records > 1:
        return Target(places, largest_remainder(values / total * records))
    if (values != np.round(values)).any() or total != records:
        wanted = f"whole numbers that add up to the {records:,} records, or shares that add up to 1"
        raise UsageError(sentence("not totals of this file", where=where, got=f"a sum of {total:,.6g}", wanted=wanted))
    return Target(places, values)


def largest_remainder(values: Array) -> Array:
    """Return the nearest whole numbers with the same sum, which is whole.

    >>> largest_remainder(np.array([1.6, 1.6, 0.8])).tolist()
    [2.0, 1.0, 1.0]
    """
    floor = np.floor(values + 1e-9)
    more = round(float(values.sum() - floor.sum()))
    order = np.argsort(-(values - floor).ravel(), kind="stable")[:more]
    floor.ravel()[order] += 1
    return floor


def _contradictions(tables: Sequence[Target], modelled: Modelled) -> list[str]:
    """Return a sentence for each two tables whose common margins differ."""
    said = []
    for a, b in itertools.combinations(tables, 2):
        common = tuple(p for p in a.places if p in b.places)
        if common and not np.array_equal(margin(a, common), margin(b, common)):
            names = [" by ".join(modelled.names[p] for p in one.places) for one in (a, b)]
            what = f"the totals contradict each other on {' by '.join(modelled.names[p] for p in common)}"
            fix = "give tables whose common margins agree; of shares, give counts"
            said.append(sentence(what, got=" and ".join(names), fix=fix))
    return said


def margin(table: Target, places: tuple[int, ...]) -> Array:
    """Return the margin of a table for some of its variables, in their order."""
    rest = tuple(k for k, p in enumerate(table.places) if p not in places)
    left = [p for p in table.places if p in places]
    return np.asarray(table.counts.sum(axis=rest).transpose([left.index(p) for p in places]))


def _impossible(tables: Sequence[Target], evidence: Evidence, modelled: Modelled) -> list[str]:
    """Return a sentence for each table that no copy can meet: of what is known of each record, and of the rules."""
    said = []
    for table in tables:
        names = " by ".join(modelled.names[p] for p in table.places)
        codes = evidence.exact[:, list(table.places)]
        known = (codes >= 0).all(axis=1)
        held = np.bincount(np.ravel_multi_index(tuple(codes[known].T), table.counts.shape), minlength=table.counts.size)
        if known.all() and not np.array_equal(held, table.counts.ravel()):
            fix = "leave these totals out: these columns are released unchanged"
            said.append(sentence("the totals differ from the file's own", where=f"totals of {names}", fix=fix))
        elif (held > table.counts.ravel()).any():
            fix = "compare the totals with the released file"
            what = "more records are known to have a category than its total says"
            said.append(sentence(what, where=f"totals of {names}", fix=fix))
        elif (table.counts[forbidden(evidence, table.places)] > 0).any():
            said.append(sentence("a total of a combination that the rules forbid", where=f"totals of {names}"))
    return said


def forbidden(evidence: Evidence, places: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which cells of a table the rules forbid whatever the other variables are."""
    out = np.zeros([evidence.sizes[p] for p in places], bool)
    for rule in evidence.rules:
        rest = [j for j in range(len(evidence.sizes)) if j not in places]
        if all(rule[j, : evidence.sizes[j]].all() for j in rest):
            marked = np.ones(out.shape, bool)
            for axis, p in enumerate(places):
                shape = [-1 if k == axis else 1 for k in range(out.ndim)]
                marked &= rule[p, : evidence.sizes[p]].reshape(shape)
            out |= marked
    return out
