"""Assess a file: codes, counts, model, report, in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import DataError, UsageError, sentence
from postrand.risk import loglinear
from postrand.risk.cells import CellTable, FloatArray, IntArray, KeyCodes, table
from postrand.risk.counts import LDiversity, k_anonymity, l_diversity, wildcard_frequencies
from postrand.risk.data import MissingRule, key_codes, numeric, read_columns, variable_codes
from postrand.risk.report import RecordRisk, RiskReport, Tau
from postrand.risk.tau import unique_risk


def assess(
    data: Any,
    key_variables: Sequence[str],
    *,
    sampling_fraction: float | None = None,
    weight: str | None = None,
    model: loglinear.Model = "two-way",
    sensitive: str | Sequence[str] | None = None,
    codebook: Codebook | None = None,
    structural_zeros: Sequence[Mapping[str, Any]] = (),
    missing: MissingRule = "category",
) -> RiskReport:
    """Measure how identifiable the records of a sample are by their key variables.

    ``data`` is a dataframe, an Arrow table, a source or a mapping of columns. ``sampling_fraction`` is the inclusion
    probability π of every record, ``weight`` the column of sampling weights (``π = 1/weight`` of each record): give one
    of them, or neither for the measures that need counts alone. ``model`` is the log-linear model of ``tau1`` and
    ``tau2`` (see :func:`postrand.risk.loglinear.margins_of`). ``structural_zeros`` lists combinations of key *codes*
    that cannot occur. A fit that does not converge is said in ``status``.

    Raises
    ------
    UsageError
        If a column, model or variable is unknown, the fraction is outside (0, 1], or comes with weights.
    DataError
        If a weight is missing or below 1, or values do not fit the codebook.

    Examples
    --------
    >>> frame = {"sex": ["F", "M", "F", "F"], "age": ["0-14", "15-64", "65+", "65+"]}
    >>> report = assess(frame, ["sex", "age"], sampling_fraction=0.5, model="independence")
    >>> report.sample_uniques, round(report.tau1, 3), report.status
    (2, 1.251, 'converged')
    """
    _check_design(sampling_fraction, weight)
    asked = [sensitive] if isinstance(sensitive, str) else list(sensitive or ())
    extra = [weight] if weight else []
    columns = read_columns(data, [*key_variables, *asked, *extra] if not isinstance(key_variables, str) else [])
    keys = key_codes(columns, key_variables, codebook, missing)
    cells = table(keys)
    frequency = wildcard_frequencies(cells) if keys.has_wildcards else cells.counts
    pi = _inclusion(columns, sampling_fraction, weight)
    notes: list[str] = []
    fitted = _Fitted.of(keys, cells, pi, model, structural_zeros, notes)
    return RiskReport(
        key_variables=keys.names,
        records=keys.records,
        cells=keys.cells,
        occupied=int(cells.counts.size),
        sample_uniques=int((frequency == 1).sum()),
        k_anonymity=k_anonymity(keys),
        l_diversity={name: _diversity(keys, columns[name], name, codebook) for name in asked},
        model=fitted.model,
        status=fitted.status,
        tau1_estimate=fitted.tau1,
        tau2_estimate=fitted.tau2,
        expected_reidentifications=None,
        notes=tuple(notes),
        records_at=RecordRisk(frequency[cells.record_cell], fitted.risk1, fitted.risk2),
    )


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What the log-linear model adds to the report."""

    model: str | None = None
    status: str = "counts only"
    tau1: Tau | None = None
    tau2: Tau | None = None
    risk1: FloatArray | None = None
    risk2: FloatArray | None = None

    @classmethod
    def of(
        cls,
        keys: KeyCodes,
        cells: CellTable,
        pi: FloatArray | float | None,
        model: loglinear.Model,
        zeros: Sequence[Mapping[str, Any]],
        notes: list[str],
    ) -> _Fitted:
        if pi is None:
            notes.append("no sampling fraction or weight was given: tau1 and tau2 are not estimated")
            return cls()
        if keys.has_wildcards:
            notes.append("missing keys match every value: tau1 and tau2 need missing='category'")
            return cls()
        unique = cells.uniques[cells.record_cell]
        if not unique.any():
            notes.append("no sample uniques: tau1 and tau2 are 0")
            return cls(None, "no model needed", Tau(0.0), Tau(0.0), np.zeros(keys.records), np.zeros(keys.records))
        fit = loglinear.fit(cells, model, forbidden=zeros)
        mu = fit.at(cells.codes)[cells.record_cell]
        r1, r2 = (np.where(unique, r, 0.0) for r in unique_risk(mu, pi))
        status = (
            "converged"
            if fit.converged
            else (f"not converged after {fit.iterations} iterations: a margin is off by {fit.deviation:.2g} records")
        )
        return cls(
            model if isinstance(model, str) else fit.model, status, Tau(float(r1.sum())), Tau(float(r2.sum())), r1, r2
        )


def _check_design(fraction: float | None, weight: str | None) -> None:
    if fraction is not None and weight is not None:
        raise UsageError(sentence("both a sampling fraction and a weight are given", wanted="one of them"))
    if fraction is not None and not 0 < fraction <= 1:
        raise UsageError(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))


def _inclusion(columns: Mapping[str, Any], fraction: float | None, weight: str | None) -> FloatArray | float | None:
    if weight is None:
        return fraction
    weights = numeric(columns[weight], weight)
    problems = []
    where = f"variable {weight!r}"
    if not np.isfinite(weights).all():
        problems.append(sentence("a weight is missing", where=where, fix="complete it, or leave the record out"))
    if (weights < 1).any():
        problems.append(sentence("a weight is below 1", where=where, wanted=">= 1, the inverse of a probability"))
    if problems:
        raise DataError(problems)
    return 1 / weights


def _diversity(keys: KeyCodes, column: Any, name: str, codebook: Codebook | None) -> LDiversity:
    codes: IntArray
    codes, size, missing = variable_codes(column, name, codebook)
    return l_diversity(keys, np.where(codes < 0, missing, codes), size + 1)
