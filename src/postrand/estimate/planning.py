"""What a table will cost in precision, from the mechanism and the number of records alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array, Axis, Layout, Operator, apply, apply_squares
from postrand.estimate.result import MAX_PRINTED, format_rows
from postrand.estimate.split_axis import SplitAxis
from postrand.estimate.split_members import household_of
from postrand.estimate.tally import layout
from postrand.mechanism import Mechanism
from postrand.mechanism.units import warn_shared
from postrand.support.showing import show_whole


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """Hold what to expect of an unbiased table: ``standard_error`` at the assumed law, ``worst`` over every law.

    ``effective_sample_size`` is the number of unperturbed records that would answer the table as precisely.
    """

    variables: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    records: int
    standard_error: Array
    worst: Array
    effective_sample_size: float

    def to_arrow(self) -> pa.Table:
        """Return one row for each cell: the labels, ``standard_error`` and ``worst``."""
        return tidy.by_cell(self.variables, self.labels, {"standard_error": self.standard_error, "worst": self.worst})

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "variables": list(self.variables),
            "labels": [list(texts) for texts in self.labels],
            "standard_error": tidy.plain(self.standard_error),
            "worst": tidy.plain(self.worst),
            "records": self.records,
            "effective_sample_size": self.effective_sample_size,
        }

    _repr_pretty_ = show_whole

    def __repr__(self) -> str:
        alike = f"{self.records:,} released records answer like {self.effective_sample_size:,.0f}"
        return f"Precision({' × '.join(self.variables)}: {self.worst.size:,} cells; {alike})"

    def __str__(self) -> str:
        columns = (self.standard_error, self.worst)
        cells = [tuple(i) for i in np.ndindex(self.standard_error.shape)]
        rows = [
            [*(texts[i] for texts, i in zip(self.labels, cell, strict=True)), *(f"{a[cell]:.4g}" for a in columns)]
            for cell in cells[:MAX_PRINTED]
        ]
        lines = format_rows([*self.variables, "std. error", "at worst"], rows, left=len(self.variables))
        if len(cells) > MAX_PRINTED:
            lines.append(f"... {len(cells) - MAX_PRINTED:,} more cells")
        alike = f"{self.effective_sample_size:,.0f} unperturbed ones"
        last = f"{self.records:,} released records answer this table like {alike}."
        return "\n".join([*lines, last])


def expected_precision(
    mechanism: Mechanism,
    variables: Sequence[str],
    records: int,
    proportions: ArrayLike | None = None,
    households: Mapping[int, int] | None = None,
) -> Precision:
    """Return the standard errors that an unbiased table of ``records`` simply drawn records will have.

    With ``B = (Mᵀ)^-1`` the variance of a cell is ``(Σ_i π_i Σ_j M[i,j] B[l,j]² − π_l²) / n``, sampling and
    perturbation together. Of variables of a split, those of the ``records`` count that show them, with the weights of
    :func:`postrand.estimate.table`. ``proportions`` is the law assumed, in the table's shape; uniform where not given.
    ``worst`` is the largest standard error over all laws, cell by cell: exact, not a bound.

    Where one random member of each household shows the variables, and counts for all its k records, ``households`` says
    how many households have each k. With ``n = Σ k`` records the members are worth ``n² / Σ k²`` that are weighted
    alike, if the values have nothing to do with k; how much members are alike does not matter.

    Raises
    ------
    UsageError
        If ``records`` is not positive, ``proportions`` is no distribution of the table's shape, or ``households`` have
        another number of records.
    SpecificationError
        If the mechanism has no codebook, or it lacks a variable.
    EstimationError
        If a matrix is singular.

    Examples
    --------
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> sex = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> mech = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, codebook=sex)
    >>> found = expected_precision(mech, ["sex"], 100)
    >>> found.standard_error.tolist(), round(found.effective_sample_size)
    ([0.1, 0.1], 25)
    """
    warn_shared(mechanism, variables)
    if not records > 0:
        raise UsageError(sentence("the number of records is not a positive number", got=records))
    weighted = _weighted_alike(mechanism, [*variables], records, households)
    plan = layout(mechanism.require_codebook(), variables, mechanism)
    if plan.shared:
        raise EstimationError(
            sentence(
                "the precision is not computed for a table in which several blocks read one variable",
                got=", ".join(plan.shared),
                fix="use fewer variables",
            )
        )
    shape = plan.shape
    law = np.full(shape, 1.0 / math.prod(shape)) if proportions is None else np.asarray(proportions, dtype=np.float64)
    if law.shape != shape or not (law >= 0).all() or abs(law.sum() - 1) > 1e-9:
        raise UsageError(
            sentence(
                "the proportions are not a distribution over the table",
                got=f"shape {law.shape}",
                wanted=f"{shape}, >= 0, summing to 1",
            )
        )
    plan, worth = _weighed(plan)
    operators = [axis.unbiased() for axis in plan.axes]
    spread = [_spread(axis) for axis in plan.axes]
    onto = [
        a.law.average if isinstance(a, SplitAxis) else None if a.matrix is None else a.matrix.array for a in plan.axes
    ]
    released = apply([None if m is None else m.T for m in onto], apply(spread, plan.scatter(law)))
    variance = (plan.arrange(apply_squares(operators, released)) - law**2) / worth
    worst = plan.arrange(_worst(plan.axes, operators)) / worth
    total = float(variance.sum()) / weighted
    effective = (1.0 - float((law * law).sum())) / total if total > 0 else float(records)
    return Precision(
        plan.variables,
        plan.labels,
        records,
        np.sqrt(np.maximum(variance, 0) / weighted),
        np.sqrt(worst / weighted),
        effective,
    )


def _weighted_alike(
    mechanism: Mechanism, variables: list[str], records: float, households: Mapping[int, int] | None
) -> float:
    """Return how many records of equal weight the table is made of: all, or ``n² / Σ k²`` where members are chosen."""
    if not household_of(mechanism, variables):
        return records
    if households is None:
        what = "one random member of each household shows these variables, and the sizes of households are not known"
        raise EstimationError(sentence(what, where=", ".join(variables), fix="give households={1: 120, 2: 300}"))
    if sum(size * many for size, many in households.items()) != records:
        raise UsageError(sentence("the households do not have as many records", wanted=f"{records:,}"))
    return records**2 / sum(size**2 * many for size, many in households.items())


def _weighed(plan: Layout) -> tuple[Layout, float]:
    """Return the axes with the parts of a split in the shares of ``π a²``, and what one record is worth.

    Records with weights a have the variance ``Σ π a² V / (Σ π a)²``, V that of one that shows the variables.
    """
    axes, worth = list(plan.axes), 1.0
    for i, axis in enumerate(axes):
        if isinstance(axis, SplitAxis):
            shares, a = axis.probabilities, axis.law.precision
            axes[i] = dataclasses.replace(axis, matrix=axis.law.mixed(shares * a**2))
            worth *= float((shares @ a) ** 2 / (shares @ a**2))
    return dataclasses.replace(plan, axes=tuple(axes)), worth


def _spread(axis: Axis) -> Operator:
    """Return the map that divides the content of a cell of the table equally among the block's cells that show it."""
    project = axis.projection
    return None if project is None else project.T / np.maximum(project.sum(axis=1), 1.0)


def _worst(axes: Sequence[Axis], operators: Sequence[Operator]) -> Array:
    """Return n times the largest variance of each cell over all true laws.

    A law of mass t on the cell and 1 − t on the costliest other one gives ``t c_in + (1−t) c_out − t²``: c the expected
    squared contribution of a record, a product over the axes.
    """
    inside, outside = [], []
    for axis, operator in zip(axes, operators, strict=True):
        b = np.eye(len(axis.cells)) if operator is None else operator
        cost = b * b if axis.matrix is None else axis.matrix.times((b * b).T).T
        project = axis.projection
        mine = (np.eye(len(axis.cells)) if project is None else project) > 0
        inside.append(np.where(mine, cost, 0.0).max(axis=1))
        outside.append(np.where(mine, 0.0, cost).max(axis=1))
    most = [np.maximum(i, o) for i, o in zip(inside, outside, strict=True)]
    one_out = [_product([*most[:a], outside[a], *most[a + 1 :]]) for a in range(len(axes))]
    c_in, c_out = _product(inside), np.maximum.reduce(one_out)
    t = np.clip((c_in - c_out) / 2, 0.0, 1.0)
    return np.asarray(t * c_in + (1 - t) * c_out - t * t)


def _product(factors: Sequence[Array]) -> Array:
    return reduce(np.multiply.outer, factors)
