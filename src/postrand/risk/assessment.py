"""Assess a file: codes, counts, model, report, in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.risk import loglinear, modelchoice, perturbed, tau
from postrand.risk.cells import CellTable, FloatArray, KeyCodes, table
from postrand.risk.counts import LDiversity, k_anonymity, l_diversity, wildcard_frequencies
from postrand.risk.data import Coded, MissingRule, code_data, key_codes, read_columns, rule_codes
from postrand.risk.law import KeyLaw
from postrand.risk.readings import inverse_population, readings
from postrand.risk.report import RecordRisk, RiskReport
from postrand.risk.tau import Tau
from postrand.risk.weights import cell_inclusion, checked_weights, household_risk, individual_risk

THROUGH = "of the true keys, fitted through the transition matrices"
SEARCHED = (
    "the search for a model needs unperturbed counts: all two-way interactions are fitted through the transition "
    "matrices, smoothed towards independence by one record a cell in place of what the perturbation hid"
)


def assess(
    data: Any,
    key_variables: Sequence[str],
    *,
    sampling_fraction: float | None = None,
    weight: str | None = None,
    model: loglinear.Model = "two-way",
    sensitive: str | Sequence[str] | None = None,
    household: str | None = None,
    codebook: Codebook | None = None,
    structural_zeros: Sequence[Mapping[str, Any]] = (),
    missing: MissingRule = "category",
    mechanism: Mechanism | None = None,
) -> RiskReport:
    """Measure how identifiable the records of a sample are by their key variables.

    Parameters
    ----------
    data
        A dataframe, an Arrow table, a source, a mapping of columns, or a contingency table of counts.
    sampling_fraction, weight
        The inclusion probability π of every record, or the column of sampling weights, ``π = 1/weight``: one
        of them, or neither for the measures that need counts alone. Weights give the risk of each record too.
    model
        The log-linear model of ``tau1`` and ``tau2``: ``"independence"``, ``"two-way"``, ``"three-way"``, a list of
        margins, or ``"search"`` for the model that the minimum-error statistic chooses (Skinner and Shlomo 2008).
    sensitive
        Variables whose l-diversity is wanted.
    household
        The column of household ids; with weights, the risk of each household is found.
    structural_zeros
        Combinations of key values that cannot occur, ``[{"age": "0-14", "marital": "widowed"}]``.
    missing
        Whether a missing key value is a category of its own, or a wildcard that matches every value.
    mechanism
        The mechanism that the file was released by. ``tau1`` and ``tau2`` then count the links that are right: the
        record's keys were not changed, and it is the one of the F population units with these keys (Shlomo and
        Skinner 2010). Both are comparable with those of the unperturbed file; the model is that of the true keys,
        fitted through the transition matrices, and the intervals are prediction intervals (``perturbed.estimate``).

    A fit that does not converge is said in ``status``.

    Raises
    ------
    UsageError
        If a model or variable is unknown, or the fraction is outside (0, 1] or comes with weights.
    DataError
        If a column is not there, a weight is missing or below 1, or values do not fit the codebook or the rules.

    Examples
    --------
    >>> frame = {"sex": ["F", "M", "F", "F"], "age": ["0-14", "15-64", "65+", "65+"]}
    >>> report = assess(frame, ["sex", "age"], sampling_fraction=0.5, model="independence")
    >>> report.sample_uniques, round(report.tau1, 3), report.status
    (2, 1.251, 'converged')
    """
    _check_design(key_variables, sampling_fraction, weight, household)
    asked = [sensitive] if isinstance(sensitive, str) else list(sensitive or ())
    columns = read_columns(data, extra) if (extra := [n for n in (weight, household) if n]) else {}
    codebook = codebook or (None if mechanism is None else mechanism.codebook)
    coded = code_data(data, [*key_variables, *asked], codebook)
    keys = key_codes(coded, key_variables, missing)
    cells = table(keys)
    frequency = wildcard_frequencies(cells) if keys.has_wildcards else cells.counts
    weights = None if weight is None else checked_weights(columns, weight)
    pi = sampling_fraction if weights is None else cell_inclusion(cells, weights)
    rules = rule_codes({name: coded[name] for name in key_variables}, structural_zeros)
    law = None if mechanism is None else KeyLaw.of(mechanism, keys.names, keys.shape)
    result = _estimate(keys, cells, pi, model, rules, law)
    risk = None if weights is None or keys.has_wildcards else individual_risk(cells, weights)
    of_household = None if risk is None or household is None else household_risk(risk, _labels(columns[household]))
    return RiskReport(
        key_variables=keys.names,
        records=keys.records,
        cells=keys.cells,
        occupied=int(cells.counts.size),
        sample_uniques=int(cells.counts[frequency == 1].sum()),
        k_anonymity=k_anonymity(keys),
        l_diversity={name: _diversity(keys, coded[name]) for name in asked},
        model=result.model,
        status=result.status,
        tau1_estimate=result.tau1,
        tau2_estimate=result.tau2,
        expected_reidentifications=None if risk is None else float(risk.sum()),
        readings=None if law is not None else readings(frequency[cells.record_cell], result.inverse),
        notes=result.notes,
        records_at=RecordRisk(frequency[cells.record_cell], result.risk1, result.risk2, risk, of_household),
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """What the log-linear model adds to the report."""

    model: str | None = None
    status: str = "counts only"
    tau1: Tau | None = None
    tau2: Tau | None = None
    risk1: FloatArray | None = None
    risk2: FloatArray | None = None
    inverse: FloatArray | None = None
    notes: tuple[str, ...] = ()


def _estimate(
    keys: KeyCodes,
    cells: CellTable,
    pi: FloatArray | float | None,
    model: loglinear.Model,
    rules: Sequence[Mapping[str, int]],
    law: KeyLaw | None,
) -> _Result:
    if model != "search":
        loglinear.margins_of(model, keys.names)  # an unknown model is an error even where none is needed
    if pi is None:
        missing = "population uniques (tau1) and correct matches (tau2) are not estimated"
        return _Result(notes=(f"no sampling fraction or weight was given: {missing}",))
    if keys.has_wildcards:
        return _Result(notes=("missing keys match every value: tau1 and tau2 need missing='category'",))
    if not cells.uniques.any():
        none = np.zeros(keys.records)
        said = ("no sample uniques: tau1 and tau2 are 0",)
        return _Result(None, "no model needed", Tau(0.0), Tau(0.0), none, none, notes=said)
    if law is not None and not law.is_identity:
        return _estimate_after(keys, cells, pi, model, rules, law)
    if model == "search" and np.min(pi) < 1:
        average = keys.records / float((cells.counts / pi).sum())
        fit = modelchoice.choose(cells, average, forbidden=rules).fit
    else:
        fit = loglinear.fit(cells, "two-way" if model == "search" else model, forbidden=rules)
    tau1, tau2 = tau.estimate(fit, cells, pi)
    record_risk = tau.unique_risk(fit.at(cells.codes), pi)
    r1, r2 = (np.where(cells.uniques, r, 0.0)[cells.record_cell] for r in record_risk)
    status = "converged"
    if not fit.converged:
        status = f"not converged after {fit.iterations} iterations: a margin is off by {fit.deviation:.2g} records"
    named = isinstance(model, str) and model != "search"
    inverse = inverse_population(cells.counts, fit.at(cells.codes), pi)[cells.record_cell]
    return _Result(str(model) if named else fit.model, status, tau1, tau2, r1, r2, inverse)


def _estimate_after(
    keys: KeyCodes,
    cells: CellTable,
    pi: FloatArray | float,
    model: loglinear.Model,
    rules: Sequence[Mapping[str, int]],
    law: KeyLaw,
) -> _Result:
    """Estimate the links to released uniques that are right."""
    chosen: loglinear.Model = "two-way" if model == "search" else model
    found = perturbed.estimate(cells, law, pi, chosen, forbidden=rules)
    risks = []
    for risk in (np.exp(-found.others), tau.exprel(found.others)):
        of_cell = np.zeros(cells.counts.size)
        of_cell[cells.uniques] = found.own * risk
        risks.append(of_cell[cells.record_cell])
    named = chosen if isinstance(chosen, str) else found.fit.model
    notes = (SEARCHED,) if model == "search" else ()
    return _Result(f"{named}, {THROUGH}", found.status, found.tau1, found.tau2, risks[0], risks[1], notes=notes)


def _check_design(keys: Sequence[str], fraction: float | None, weight: str | None, household: str | None) -> None:
    if isinstance(keys, str) or not keys:
        raise UsageError(sentence("key variables must be a list of names", got=repr(keys), wanted='["sex", "age"]'))
    if fraction is not None and weight is not None:
        raise UsageError(sentence("both a sampling fraction and a weight are given", wanted="one of them"))
    if fraction is not None and not (isinstance(fraction, Real) and 0 < fraction <= 1):
        raise UsageError(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
    if household is not None and weight is None:
        raise UsageError(sentence("the risk of households needs sampling weights", fix="name the column: weight=..."))


def _labels(column: Any) -> np.ndarray[Any, Any]:
    codes: np.ndarray[Any, Any] = column.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes


def _diversity(keys: KeyCodes, column: Coded) -> LDiversity:
    return l_diversity(keys, np.where(column.codes < 0, column.missing, column.codes), column.size + 1)
