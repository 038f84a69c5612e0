"""Effects of named regressions, and named means, that a recode of numbers changes: a limit on illnesses does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.coding import encode
from postrand.columns.recoded import unrecoded
from postrand.estimate.regression_terms import answered, is_measured
from postrand.formats import Source
from postrand.recoding.base import is_settled
from postrand.support.arrow import to_floats
from postrand.workflow.recoded_means import STEPS, has_amounts, is_number

LITTLE = 0.01
"""Of a mean or effect: that a recode moves it by less is told of none, however small its standard error."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Say of an effect by how much a recode changes it: ``change`` is a share of it before, ``off`` the difference.

    ``is_off``: by more than half of its standard error in a release.
    """

    name: str
    change: float
    off: float
    is_off: bool = False

    def __str__(self) -> str:
        """Return it by steps, without the effect itself.

        >>> print(Changed("ill", 0.24, 0.15))
        the effect of ill is more than 20% farther from 0 than before recoding
        >>> print(Changed("ill", -1.5, -0.9))
        the effect of ill has another sign than before recoding
        >>> print(Changed("ill", 0.03, 0.2, is_off=True))
        the effect of ill moves by more than half of its standard error in a release
        """
        if self.change < -1:
            return f"the effect of {self.name} has another sign than before recoding"
        if not abs(self.change) > STEPS[0]:
            return f"the effect of {self.name} moves by more than half of its standard error in a release"
        step = max(step for step in STEPS if abs(self.change) > step)
        way = "nearer to 0 than" if self.change < 0 else "farther from 0 than"
        return f"the effect of {self.name} is more than {step:.0%} {way} before recoding"


def before_recoding(
    source: Source, table: pa.Table, book: Codebook, names: Sequence[str]
) -> tuple[pa.Table, Codebook] | None:
    """Return recoded records with the numbers before recoding in place of these, and their codebook; None of none.

    Of the variables ``names`` those count whose recoded values are amounts, as of bands with numbers as labels. Where
    the recoded value is no answer, the number is missing. ``source`` has the records of ``table`` in the same order.
    """
    plain, recodes = unrecoded(source)
    types = {field.name: field.type for field in plain.schema}
    asked = [one for one in recodes if one.variable in names and is_settled(one.kind) and has_amounts(one)]
    held = [one for one in asked if is_number(types[one.source]) and _is_amount(book[one.variable])]
    replaced = {one.variable: one.source for one in held}
    if not replaced:
        return None
    read = pa.Table.from_batches(list(plain.batches(list(dict.fromkeys(replaced.values())))))
    for name, column in replaced.items():
        numbers, lacks = to_floats(read.column(column)), ~_answers(table.column(name), book[name])
        table = table.set_column(
            table.schema.names.index(name), name, pa.array(numbers, mask=lacks | np.isnan(numbers))
        )
    variables = (Variable(v.name, v.role, type="double") if v.name in replaced else v for v in book.variables)
    return table, dataclasses.replace(book, variables=tuple(variables), recodes=())


def _is_amount(variable: Variable) -> bool:
    return not variable.is_categorical or is_measured(variable)


def _answers(column: pa.ChunkedArray, variable: Variable) -> NDArray[np.bool_]:
    """Return which records, shape (n,), have an answer."""
    if not variable.is_categorical:
        return np.asarray(pc.is_valid(column).to_numpy())
    codes = encode(column.combine_chunks(), variable)
    return np.asarray((codes >= 0) & answered(variable)[np.maximum(codes, 0)])


def changed_effects(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], half: Mapping[str, float]
) -> tuple[Changed, ...]:
    """Return which effects a recode changes, the largest change first; both with their standard errors, by name.

    Those count that move by more than ``half`` of their standard error in a release; and those that differ from 0
    before, and change by more than the first of ``STEPS`` and two of their errors.

    >>> held = {"Intercept": (1.0, 0.1), "ill": (0.60, 0.02), "sex": (0.01, 0.02), "age": (0.50, 0.01)}
    >>> after = {"Intercept": (2.0, 0.1), "ill": (0.75, 0.03), "sex": (0.03, 0.02), "age": (0.48, 0.01)}
    >>> [(one.name, one.change, one.is_off) for one in changed_effects(held, after, {"ill": 0.2, "age": 0.01})]
    [('ill', 0.25, False), ('age', -0.04, True)]
    """
    found = []
    for name, (effect, error) in before.items():
        if name not in after or name.endswith("Intercept"):
            continue
        off, is_clear = after[name][0] - effect, abs(effect) > 2 * error
        change = float(np.sign(effect) * off / abs(effect)) if is_clear else 0.0
        is_off = abs(off) > max(half.get(name, np.inf), LITTLE * abs(effect))
        if is_off or (abs(change) > STEPS[0] and abs(off) > 2 * error):
            found.append(Changed(name, round(change, 12), round(off, 12), is_off))
    return tuple(sorted(found, key=lambda one: -abs(one.change)))


def changed_means(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]], least: Mapping[str, float]
) -> tuple[Changed, ...]:
    """Return which means of groups a recode moves by more than ``least`` and ``LITTLE`` of them, farthest first.

    >>> before, after = {"young": (10.0, 1.0), "old": (20.0, 1.0)}, {"young": (12.0, 1.0), "old": (20.1, 1.0)}
    >>> changed_means(before, after, {"young": 1.0, "old": 1.0})
    (Changed(name='young', change=0.2, off=2.0, is_off=True),)
    """
    found = []
    for name, (mean, _) in before.items():
        off = after[name][0] - mean if name in after else 0.0
        if abs(off) > max(least.get(name, np.inf), LITTLE * abs(mean)):
            found.append(Changed(name, off / abs(mean) if mean else 0.0, off, is_off=True))
    return tuple(sorted(found, key=lambda one: -abs(one.change)))
