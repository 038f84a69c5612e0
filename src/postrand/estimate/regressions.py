"""Regression from a release: some covariates, or the response, are known only through the mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from postrand.codebook.quantity_codes import is_number
from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import EstimationError, UsageError, nearest, sentence, without_fix
from postrand.estimate.by_model import Fitted
from postrand.estimate.by_model_regression import regression_by_model
from postrand.estimate.latent import solve
from postrand.estimate.nominal import band_warnings, limit_warnings, nominal_warnings, quantity_warnings
from postrand.estimate.offer import DESIGN, STRATA, WEIGHT, Estimator, Option, choice
from postrand.estimate.regression_check import specification
from postrand.estimate.regression_data import (
    FAMILIES,
    Data,
    FamilyName,
    is_amount,
    modelled,
    prefixes,
    problem_of,
    read,
)
from postrand.estimate.regression_equations import solve_equations
from postrand.estimate.regression_formula import amounts_of
from postrand.estimate.regression_intervals import wald
from postrand.estimate.regression_moments import records_of
from postrand.estimate.regression_repeats import in_words, refusal, repeats
from postrand.estimate.regression_result import Regression
from postrand.estimate.regression_terms import absent_notes, amount_notes, reference_notes
from postrand.estimate.regression_weakest import absent_covariates, without_absent
from postrand.estimate.result import SHOWING
from postrand.estimate.split_axis import split_axes
from postrand.estimate.split_members import require_alike
from postrand.estimate.survey_design import design_of
from postrand.estimate.survey_regression import Fit, surveyed_fit
from postrand.mechanism import Mechanism

MethodName = Literal["equations", "likelihood", "model"]
METHODS: tuple[str, ...] = get_args(MethodName)


def regression(
    formula: str,
    frame: Any,
    mechanism: Mechanism,
    family: FamilyName,
    weights: str | None = None,
    *,
    method: MethodName = "equations",
    strata: str | None = None,
    groups: Sequence[str] | None = None,
    bins: int = 5,
    tolerance: float = 1e-6,
    max_steps: int = 6_000,
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Regression:
    """Fit a regression on true values to released ones.

    ``formula`` is in Wilkinson notation, ``"affair ~ C(education) + age"``; variables that the mechanism perturbs may
    stand on either side. A variable whose categories are numbers enters as a number, or by category inside ``C()``;
    so does one of a text file, unless labels say what its numbers stand for.
    Terms of categories compare with the first that is an answer: codes of the codebook for no answer come last. With
    ``method="equations"``, who has one that is below 30 effective records is left out, and a warning says so.
    The response of a logistic regression is the second of two categories in the codebook, or 1 of 0 and 1; that of a
    multinomial one is compared with its first category that is an answer. The result says which: ``modelled``.

    ``method="equations"`` solves ``Σ_i w_i Σ_k B[r_i, k] ψ(x_k, y_i, v_i; θ) = 0``, ``B = M^-1`` with the true
    categories
    as the rows of M and the released ones as its columns, ψ the score of the family. The equation has expectation 0 at
    the regression of the unperturbed population, whatever the law of the response or of the covariates: only the mean
    of y given the covariates needs to be right, as without perturbation. The covariance is that of the influences, each
    divided by 1 less the record's leverage (a jackknife, HC3 where nothing is perturbed). Intervals invert the score
    test and hold the noise of the Jacobian, with degrees of freedom from the kurtosis of the influences.

    ``method="likelihood"`` is EM over the true categories. It is more precise if the family is right, and wrong with
    small standard errors if it is not: a linear regression then needs normal residuals with one variance, a Poisson
    one counts without overdispersion, given all covariates. The law of the true covariates is left free within each
    group of clear covariates: by default every combination of the clear categorical ones, and numeric ones cut into
    ``bins`` at their quantiles. **Within a group the perturbed covariates are taken as independent of the exact
    number.** Name the columns in ``groups`` to choose others. The result holds two tests of these assumptions. Its
    covariance is the inverse observed information (Louis), the law of the covariates profiled out; with weights it
    has the
    sandwich form. ``tolerance`` bounds the Newton decrement: 1e-6 is a distance to the maximum of 0.001 standard
    errors.

    ``method="model"`` fits each completed copy of ``model`` as a file of which nothing is perturbed, and pools the
    coefficients by Rubin's rules. It answers also where no record of a split shows all variables of the formula; it
    rests on the model.

    Parameters
    ----------
    frame
        The released records: a pandas, polars or pyarrow table.
    weights
        A released column of sampling weights.
    strata
        A released, unperturbed column of sampling strata; variation between strata then does not count. For
        ``method="equations"``.
    groups, bins, tolerance, max_steps
        For ``method="likelihood"``.
    model
        What :func:`postrand.complete` returned for this release; the method is then ``model``.
    design
        How the records were drawn, in place of weights and strata, for ``method="equations"``: clusters, or replicate
        weights. Influences are then summed by cluster, as they are, and t has the degrees of freedom of the design.

    Raises
    ------
    UsageError
        If the formula cannot be read, or names no response, an unknown family or method, or a model is missing.
    DataError
        If a column is missing, or the data do not fit the mechanism or the family.
    EstimationError
        If the response is separated, the coefficients are not identified, the equations have no stable root or
        several, or EM does not converge.

    References
    ----------
    Nakamura (1990) for corrected scores; Akazawa, Kinukawa & Nakamura (1998) for misclassified covariates; Fieller
    (1954)
    for the intervals; Dempster, Laird & Rubin (1977), Louis (1982), van den Hout & Kooiman (2006) for the likelihood.
    """
    if method not in METHODS:
        raise UsageError(
            sentence(f"unknown method {method!r}{nearest(str(method), METHODS)}", wanted=", ".join(METHODS))
        )
    design_of(design, weights, strata, method if model is None else "model", mechanism)
    if method == "model" or model is not None:
        asked = {"formula": formula, "family": family, "weights": weights, "strata": strata}
        return regression_by_model(_regression, frame, mechanism, model, **asked)
    if method == "likelihood" and strata is not None:
        raise UsageError(
            sentence("strata are only for the method 'equations'", fix="leave out the strata or the method")
        )
    data = read(formula, frame, mechanism, family, weights, groups, strata, design)
    perturbed = tuple(n for n in data.names if n in mechanism.variables)
    if method == "likelihood":
        require_alike(mechanism, [*perturbed], "the likelihood")
        return _by_likelihood(data, mechanism, perturbed, bins, tolerance, max_steps)
    data = without_absent(data)
    fit = _solved(data) if data.sample is None else surveyed_fit(data, data.sample)
    solved = fit.solved
    found = Regression(
        formula=formula,
        family=data.family,
        names=tuple(f"{prefix}{term}" for prefix in prefixes(data, solved.records.family) for term in fit.terms),
        value=solved.theta,
        covariance=fit.covariance,
        pivot=fit.pivot,
        log_likelihood=None,
        records=data.table.num_rows,
        dropped=data.dropped,
        perturbed=perturbed,
        method="corrected estimating equations" + (f", {SHOWING}" if split_axes(data.axes) else ""),
        design="" if data.sample is None else str(data.sample),
        perturbation=fit.perturbation,
        notes=_nominal(data, mechanism),
        modelled=modelled(data),
        used=data.used,
        unanswered=data.unanswered,
    )
    repeated = in_words(repeats(data, solved.records)) if any(found.silent) else ""
    return replace(found, notes=(f"{repeated}.", *found.notes)) if repeated else found


def _nominal(data: Data, mechanism: Mechanism) -> tuple[str, ...]:
    """Return the warnings of a response whose codes only name categories, which some families do not calculate with.

    And of codes for no answer in unperturbed numbers, and of bands and limits that stand for more, on either side.
    """
    amount = [data.response] if data.family in ("linear", "poisson") else []
    named = nominal_warnings(data.book, amount)
    clear = {name: data.table.column(name).combine_chunks() for name in data.names if name not in data.latent}
    numbers = {name: column for name, column in clear.items() if is_number(column.type)}
    names = (name for name in amounts_of(data.formula) if not data.is_categorical(name) or is_amount(data, name))
    amounts = [*amount, *names]
    limits = limit_warnings(mechanism.codebook, amounts, "regression")
    limits += band_warnings(mechanism.codebook, amounts, "regression")
    compared = [name for name in data.names if name != data.response or data.family == "multinomial"]
    reference = reference_notes(data.formula, data.book, compared)
    named = (*named, *absent_notes(data.book, [data.response] if data.left_out else [], data.latent))
    named += absent_covariates(data)
    reference = (*reference, *amount_notes(data.formula, data.book))
    return (*named, *reference, *quantity_warnings(mechanism.codebook, numbers, data.table.schema), *limits)


def _solved(data: Data) -> Fit:
    solved, terms = solve_equations(data)
    return Fit(solved, terms, solved.covariance(solved.jackknife()), solved.pivot())


def _by_likelihood(
    data: Data, mechanism: Mechanism, perturbed: tuple[str, ...], bins: int, tolerance: float, max_steps: int
) -> Regression:
    problem, names = problem_of(data, bins)
    try:
        found = solve(problem, tolerance, max_steps)
    except EstimationError as error:
        got = without_fix(str(error)).rstrip(".")
        raise refusal("the likelihood has no single maximum", got, data, records_of(data)) or error from error
    tests, notes = specification(data, problem, found)
    return Regression(
        formula=data.formula,
        family=data.family,
        names=names,
        value=found.theta,
        covariance=found.covariance,
        pivot=wald(np.diag(found.covariance)),
        log_likelihood=found.likelihood,
        records=data.table.num_rows,
        dropped=data.dropped,
        perturbed=perturbed,
        method=f"EM over the true categories ({found.steps} steps, Newton decrement below {tolerance:g})",
        tests=tests,
        notes=(*notes, *_nominal(data, mechanism)),
        modelled=modelled(data),
        used=data.used,
        unanswered=data.unanswered,
    )


def _regression(
    frame: Any, formula: str, *, mechanism: Mechanism, family: FamilyName = "linear", **options: Any
) -> Regression:
    return regression(formula, frame, mechanism, family, **options)


_FAMILY = Option("family", "NAME", "linear (the default), logistic, poisson or multinomial.", choice(*FAMILIES))
_WAYS = "equations (the default), likelihood, or model: from completed copies."
_METHOD = Option("method", "NAME", _WAYS, choice(*METHODS))
ESTIMATORS = (
    Estimator(
        "regression",
        "FORMULA",
        "Regression, for example 'income ~ C(region)'.",
        _regression,
        (_FAMILY, _METHOD, WEIGHT, STRATA, *DESIGN),
        example="pay ~ C(area)",
        package="formulaic",
    ),
)
