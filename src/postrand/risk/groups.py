"""Risk by group of records, for use inside the agency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence
from postrand.risk.cells import FloatArray, IntArray
from postrand.risk.data import Coded, code_data
from postrand.risk.report import RiskReport


@dataclass(frozen=True, slots=True)
class GroupRisk:
    """The part of a file's risk that is one group's; None where the report has no such measure."""

    records: int
    sample_uniques: int
    tau1: float | None
    tau2: float | None
    expected_reidentifications: float | None


def by_group(report: RiskReport, data: Any, name: str, *, codebook: Codebook | None = None) -> dict[Any, GroupRisk]:
    """Split the risk of a report by the categories of a variable of the same data; None is the group of missing values.

    The groups' risks sum to the file's. Counts are small by nature: not for publication.

    Raises
    ------
    UsageError
        If the data do not have as many records as the report.

    Examples
    --------
    >>> from postrand.risk import assess
    >>> frame = {"sex": ["F", "M", "M"], "region": ["n", "n", "s"]}
    >>> by_group(assess(frame, ["sex"]), frame, "region")["n"].sample_uniques
    1
    """
    column = code_data(data, [name], codebook)[name]
    if column.codes.size != report.records:
        raise UsageError(
            sentence("the data are not the data of the report", got=column.codes.size, wanted=report.records)
        )
    at = report.records_at
    return split(column, at.frequency, at.tau1, at.tau2, at.weights)


def split(
    column: Coded,
    frequency: IntArray,
    tau1: FloatArray | None = None,
    tau2: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> dict[Any, GroupRisk]:
    """Sum risks of records, each (n,), over the categories of a column; None is the group of missing values."""
    codes = np.where((column.codes < 0) | (column.codes == column.missing), len(column.categories), column.codes)
    size = len(column.categories) + 1

    def sums(values: FloatArray | None) -> list[float] | list[None]:
        return [None] * size if values is None else np.bincount(codes, weights=values, minlength=size).tolist()

    records = np.bincount(codes, minlength=size)
    uniques = np.bincount(codes[frequency == 1], minlength=size)
    parts = zip(records.tolist(), uniques.tolist(), sums(tau1), sums(tau2), sums(weights), strict=True)
    named = zip((*column.categories, None), parts, strict=True)
    return {label: GroupRisk(*part) for label, part in named if part[0]}
