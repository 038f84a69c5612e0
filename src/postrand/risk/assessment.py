"""Assess a file: codes, counts, model, report, in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from postrand.codebook import Codebook
from postrand.errors import UsageError
from postrand.mechanism import Mechanism, SharedDrawsWarning
from postrand.mechanism.units import warn_shared
from postrand.risk import loglinear
from postrand.risk.cells import FloatArray, IntArray, KeyCodes
from postrand.risk.counts import LDiversity, k_anonymity, l_diversity
from postrand.risk.data import Coded, MissingRule, true_shape
from postrand.risk.file import RiskFile, no_inclusion
from postrand.risk.informed import Spread
from postrand.risk.joint_households import joint_frequency, register_joint_risk
from postrand.risk.merged import warn_of
from postrand.risk.modelled import Modelled, modelled
from postrand.risk.populations import ByModel
from postrand.risk.readings import readings
from postrand.risk.report import HouseholdRisk, RecordRisk, RiskReport
from postrand.risk.split_law import SplitLaw, law_of
from postrand.risk.weights import cell_inclusion, household_risk
from postrand.support.progress import Stage, stage
from postrand.support.warned import hushed


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

    A fit that does not converge is said in ``status``.

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
        With a ``household``, a member's probability of a correct match is then that of the record, 0 unless it is a
        released unique: a household's is ``1 − Π(1 − r_i)``.
        After a split, a class are the records that show the same keys with the same values, and F counts persons with
        these values of the keys that are shown.

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
    if household is not None and weight is None and sampling_fraction is None and not isinstance(key_variables, str):
        raise UsageError(no_inclusion("the risk of households"))
    codebook = codebook or (None if mechanism is None else mechanism.codebook)
    file = RiskFile.read(
        data,
        key_variables,
        sampling_fraction=sampling_fraction,
        weight=weight,
        household=household,
        sensitive=sensitive,
        codebook=codebook,
        model=model,
        structural_zeros=structural_zeros,
        missing=missing,
        partly=() if mechanism is None else mechanism.partly,
    )
    if mechanism is None:
        warn_of(codebook, file.columns, (*key_variables, *file.sensitive))
    return report_of(file, mechanism)


def report_of(file: RiskFile, mechanism: Mechanism | None = None) -> RiskReport:
    """Return the report of a file that is read: as :func:`assess`, which says what it takes and raises.

    Of a file as it is, the model is fitted once for all that ask the same ``file``.
    """
    stage(Stage.RISK)
    keys, cells, frequency = file.keys, file.cells, file.frequency()
    law, inclusion = None, file.inclusion()
    if mechanism is not None:
        warn_shared(mechanism, keys.names)  # the model of a release takes draws as independent
        shape = true_shape(keys, mechanism.partly)
        with hushed(SharedDrawsWarning):  # said above
            law = law_of(mechanism, keys.names, shape, file.household)
    if isinstance(law, SplitLaw) and law.household is not None and file.has_inclusion:
        inclusion = cell_inclusion(cells, file.inclusion_weights() * law.standing(keys))
    result = file.modelled() if law is None else modelled(keys, cells, inclusion, file.model, file.rules, law)
    risk = file.individual() if file.has_inclusion and not keys.has_wildcards else None
    inverse = None if risk is None or law is not None else _by_model(file, result)
    members = [one for one in ((risk, inverse) if law is None else (result.risk2,)) if one is not None]
    of_household = [household_risk(one, _numbers(file)) for one in members] if _has_risk(file) else []
    return RiskReport(
        key_variables=keys.names,
        records=keys.records,
        cells=law.cells if isinstance(law, SplitLaw) else keys.cells,
        occupied=int(cells.counts.size),
        sample_uniques=int((frequency == 1).sum()),
        k_anonymity=k_anonymity(keys),
        l_diversity={name: _diversity(keys, file.columns[name]) for name in file.sensitive},
        model=result.model,
        status=result.status,
        tau1_estimate=result.tau1,
        tau2_estimate=result.tau2,
        expected_reidentifications=None if risk is None or file.weights is None else float(risk.sum()),
        readings=None if law is not None else readings(frequency, inverse, by_weights=risk),
        notes=(*file.notes, *result.notes),
        records_at=RecordRisk(
            frequency,
            result.risk1,
            result.risk2,
            None if file.weights is None else risk,
            np.max(of_household, axis=0) if of_household else None,
        ),
        households=_households(file, of_household, is_released=law is not None) if of_household else None,
        recoded=file.recoded,
    )


def _numbers(file: RiskFile) -> IntArray:
    assert file.household is not None, "asked for after households were read"
    return file.household


def _has_risk(file: RiskFile) -> bool:
    """Return whether the risk of households can be had."""
    return file.household is not None and file.has_inclusion and not file.keys.has_wildcards


def _by_model(file: RiskFile, result: Modelled) -> FloatArray | None:
    """Return ``E(1/F | f)`` of each record by the model, also where no model was needed for τ1 and τ2."""
    return result.inverse if result.inverse is not None else ByModel()(file.cells, file.inclusion_weights())


def _households(file: RiskFile, of_household: Sequence[FloatArray], *, is_released: bool) -> HouseholdRisk:
    """Return the risk of households, each counted once, the larger figure of each estimate."""
    household = _numbers(file)
    _, first = np.unique(household, return_index=True)
    joint = None if is_released else register_joint_risk(file.keys, file.inclusion_weights(), household)
    found = [one[first] for one in of_household]
    some = reduce(Spread.at_least, map(Spread.of, found))
    if joint is None:
        return HouseholdRisk(first.size, some, None)
    every = (Spread.of(np.maximum(joint, one)) for one in found)  # who knows all can look for each by itself
    own = Spread.of(household_risk(1 / file.frequency(), household)[first])
    together = Spread.of(1 / joint_frequency(file.cells, household)).at_least(own)
    return HouseholdRisk(first.size, some, reduce(Spread.at_least, every), own, together)


def _diversity(keys: KeyCodes, column: Coded) -> LDiversity:
    return l_diversity(keys, np.where(column.codes < 0, column.missing, column.codes), column.size + 1)
