"""Regression by a fitted joint model: the coefficients of each completed copy, pooled by Rubin's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from postrand.errors import EstimationError, sentence, without_fix
from postrand.estimate.by_model import Fitted, alone, answers, said_of
from postrand.estimate.pooling_rules import combine, covariance_between
from postrand.estimate.regression_formula import variables_of
from postrand.estimate.regression_intervals import Pivot
from postrand.estimate.regression_result import Regression
from postrand.mechanism import Mechanism
from postrand.support.showing import few


def regression_by_model(
    ask: Callable[..., Regression], frame: Any, mechanism: Mechanism, model: Fitted | None, **asked: Any
) -> Regression:
    """Return the regression ``ask(frame, mechanism=..., **asked)`` of completed copies, pooled.

    Each copy is a file of which nothing is perturbed. The covariance is ``W + (1 + 1/m) B``; intervals and p-values
    have Barnard and Rubin's degrees of freedom. Its notes say where the release alone gives no answer, and what tests
    the model failed.

    Raises
    ------
    UsageError
        If there is no model, or it was fitted to other records or by another law.
    EstimationError
        If the copies have different coefficients, or the regression of one cannot be fitted.
    """
    response, covariates = variables_of(asked["formula"])
    names = [response, *covariates, *(asked[role] for role in ("weights", "strata") if asked.get(role) is not None)]
    try:
        found = list(answers(ask, frame, mechanism, model, asked, names))
    except EstimationError as error:
        what, got = "the regression of a completed copy cannot be fitted", without_fix(str(error)).rstrip(".")
        raise EstimationError(sentence(what, got=got, fix="merge rare categories, or use fewer variables")) from error
    first = found[0]
    if any(one.names != first.names for one in found):
        some = Counter(name for one in found for name in one.names)
        lacking = [f"{name} in {times} of {len(found)}" for name, times in some.items() if times < len(found)]
        what, fix = "the copies have different coefficients", "leave these variables out, or ask without --method model"
        raise EstimationError(sentence(what, where=asked["formula"], got=few(lacking), fix=fix))
    values = np.array([one.value for one in found])
    freedom = np.min([one.pivot.freedom for one in found], axis=0)
    rules = combine(values, np.array([np.diag(one.covariance) for one in found]), freedom)
    within, many = np.mean([one.covariance for one in found], axis=0), len(found)
    perturbed = tuple(name for name in dict.fromkeys(names) if name in mechanism.variables)
    zero = np.zeros(rules.value.shape)
    return Regression(
        formula=first.formula,
        family=first.family,
        names=first.names,
        value=rules.value,
        covariance=np.asarray(within + (1 + 1 / many) * covariance_between(values)),
        pivot=Pivot(rules.total, zero, zero, rules.freedom),
        log_likelihood=None,
        records=round(float(np.mean([one.records for one in found]))),
        dropped=round(float(np.mean([one.dropped for one in found]))),
        perturbed=perturbed,
        method=f"Rubin's rules over {many} copies completed by a joint model",
        modelled=first.modelled,
        used=first.used,
        unanswered=first.unanswered,
        notes=(*first.notes, *said_of(model, perturbed, alone(ask, frame, mechanism, asked) is not None)),
    )
