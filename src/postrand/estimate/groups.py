"""Means, totals and ratios of totals by group: right whatever the law of the variable, where groups are perturbed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.by_model import Fitted, by_model, wants_model
from postrand.estimate.group_data import Measure, Records, answered, measure, read
from postrand.estimate.group_law import GroupLaw, equation
from postrand.estimate.nominal import band_warnings, limit_warnings, nominal_warnings, quantity_warnings
from postrand.estimate.offer import BY, DESIGN, METHOD, STRATA, WEIGHT, Estimator, pair
from postrand.estimate.regression_terms import absent_notes, unanswered
from postrand.estimate.result import SHOWING, Estimate
from postrand.estimate.survey_design import NO_TOTAL, design_of, refuse_design
from postrand.estimate.survey_groups import surveyed_group_law
from postrand.mechanism import Mechanism

Method = Literal["unbiased", "model"]


def mean(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the mean of a variable, in each group of ``by``, whatever the law of the variable.

    Solves ``Σ_i w_i B[r_i, g] (y_i − μ_g) = 0``, ``B = M^-1`` with the true categories of M as rows: the left side is
    unbiased for that of the true records. ``value`` has one axis for each variable of ``by``, categories in codebook
    order; without ``by`` it is one number. The variable is an unperturbed number, or a perturbed one whose categories
    are numbers (``missing`` as a category is left out of numerator and denominator). The interval is Fieller's, with
    the skewness removed (Hall, 1992): a value is in it where the equation at that value is not far from 0. A group
    whose size cannot be told from zero has a value that says little, an infinite interval, and a sentence in
    ``warnings``, and so has a group whose interval is almost as wide as the range of the values.

    Parameters
    ----------
    frame
        The released records: a pandas, polars or pyarrow table. A record in which a variable is missing is left out,
        and the result says how many were.
    by
        A variable, or several, perturbed or not, each with categories.
    weights
        A released column of sampling weights.
    strata
        A released, unperturbed column of sampling strata; variation between strata then does not count.
    method, model
        ``model``: the mean over the completed copies of ``model``, what :func:`postrand.complete` returned for this
        release, by Rubin's rules; it answers what a split does not show together, and rests on the model.
    design
        How the records were drawn, in place of weights and strata: clusters, or replicate weights. All units count in
        each group, and intervals are those of Student's t on the degrees of freedom of the design.

    Raises
    ------
    UsageError
        If a variable is named twice, weights or strata are perturbed, or the model is missing.
    DataError
        If the data do not fit the mechanism, or the variable is not made of numbers.
    EstimationError
        If the release does not identify the groups, or the variable was released by a law on ranks.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> sex = Variable("sex", role="key", categories=("F", "M"))
    >>> pay = Variable("pay", role="other", type="double")
    >>> law = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> mech = Mechanism({"sex": law}, codebook=Codebook((sex, pay)))
    >>> frame = pa.table({"sex": ["F"] * 60 + ["M"] * 40, "pay": [10.0] * 60 + [20.0] * 40})
    >>> mean(frame, "pay", mech, by="sex").value.round(4).tolist()
    [7.1429, 30.0]

    By hand: of F there are 1.5 × 60 − 0.5 × 40 = 70 records, with 1.5 × 600 − 0.5 × 800 = 500 of pay.

    References
    ----------
    Fieller (1954), J. R. Statist. Soc. B 16, 175-185; Hall (1992), J. R. Statist. Soc. B 54, 221-228.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variable": variable, "by": by, "weights": weights, "strata": strata}
        return by_model(f"mean of {variable}", mean, frame, mechanism, model, **asked)
    records = read(frame, [variable], mechanism, by, weights, strata, design)
    one = answered(records, [variable])
    found = result_of(records, measure(records, variable), one, mechanism, (variable,), f"mean of {variable}")
    return dataclasses.replace(found, reach=_reach(records, variable))


def _reach(records: Records, variable: str) -> Array:
    """Return the length of the range of the values of a variable: of its categories, or as they are released."""
    held = records.clear.get(variable, records.scores.get(variable))
    assert held is not None
    known = held[~np.isnan(held)]
    return np.asarray(np.ptp(known) if known.size else 0.0)


def total(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the total of a variable over the records, or with weights over the population, in each group of ``by``.

    ``T_g = Σ_i w_i B[r_i, g] y_i``, unbiased. Its covariance is that of a sum over independent records: the number of
    records of a group, and unequal weights, vary too. Everything else is as for :func:`mean`.
    """
    what = f"total of {variable}"
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variable": variable, "by": by, "weights": weights, "strata": strata}
        return by_model(what, total, frame, mechanism, model, **asked)
    if {variable, *((by,) if isinstance(by, str) else by or ())} & {*mechanism.partly}:
        refuse_design(design, "a total of a split", NO_TOTAL)
    records = read(frame, [variable], mechanism, by, weights, strata, design)
    if records.share is not None:
        return _total_of_split(records, measure(records, variable), mechanism, variable, what)
    return result_of(records, measure(records, variable), None, mechanism, (variable,), what)


def _total_of_split(records: Records, numerator: Measure, mechanism: Mechanism, variable: str, what: str) -> Estimate:
    """Return a total as the mean of what each record adds, subsets combined by their weights, times the records.

    The numbers of records that show each subset are known, and say nothing: so they do not count as variation.
    """
    share, weights = records.share, records.weights
    assert share is not None
    assert weights is not None
    added = numerator.times(Measure(weights / share, (None,) * len(records.shape)))
    shift, scale, inner = standardised(records, added, None)
    held = dataclasses.replace(records, weights=share / share.max())
    one = Measure(None, (None,) * len(records.shape), everywhere=True)
    law = GroupLaw(held, inner, one, shift, scale * records.unit * float(share.sum()), equation(held, inner, one))
    value = law.value.reshape(records.layout.shape)
    return estimate_of(records, mechanism, (variable,), what, value, law)


def ratio_of_totals(
    frame: Any,
    numerator: str,
    denominator: str,
    mechanism: Mechanism,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the ratio of the totals of two variables, in each group of ``by``.

    Solves ``Σ_i w_i B[r_i, g] (a_i − μ_g d_i) = 0`` over the records where neither is missing. A group whose
    denominator cannot be told from zero, or is negative, has an infinite interval. Everything else is as for
    :func:`mean`.

    Raises
    ------
    UsageError
        If the two are the same variable.
    """
    if numerator == denominator:
        raise UsageError(sentence("numerator and denominator are the same variable", got=repr(numerator)))
    names, what = (numerator, denominator), f"ratio of the totals of {numerator} and {denominator}"
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"numerator": numerator, "denominator": denominator, "by": by, "weights": weights, "strata": strata}
        return by_model(what, ratio_of_totals, frame, mechanism, model, **asked)
    records = read(frame, names, mechanism, by, weights, strata, design)
    present = answered(records, names)
    above, below = (measure(records, n).times(present) for n in names)
    return result_of(records, above, below, mechanism, names, what)


def result_of(
    records: Records,
    numerator: Measure,
    denominator: Measure | None,
    mechanism: Mechanism,
    variables: Sequence[str],
    what: str,
) -> Estimate:
    """Return a sum in each group, or the ratio of two; ``variables`` are those that it is of."""
    shift, scale, inner = standardised(records, numerator, denominator)
    if denominator is None:
        scale *= records.unit
    law = GroupLaw(records, inner, denominator, shift, scale, equation(records, inner, denominator))
    value = law.value.reshape(records.layout.shape)
    return estimate_of(records, mechanism, variables, what, value, surveyed_group_law(law))


def estimate_of(
    records: Records,
    mechanism: Mechanism,
    variables: Sequence[str],
    what: str,
    value: Array,
    law: Any,
    reached: Array | None = None,
) -> Estimate:
    """Return the result of a group statistic, which ``what`` names; ``reached`` as for :func:`limit_warnings`."""
    book, hidden = mechanism.codebook, mechanism.variables
    groups = records.layout.variables
    kind = what.split()[0] if reached is None else "quantile"
    method = what + (f" by {', '.join(groups)}" if groups else "") + ", corrected estimating equation"
    method += "" if records.share is None else f", {SHOWING}"
    return Estimate(
        variables=groups,
        labels=records.layout.labels,
        value=value,
        law=law,
        records=records.count,
        total=records.total,
        dropped=records.dropped,
        method=method,
        perturbed=tuple(n for n in dict.fromkeys((*groups, *variables)) if n in hidden),
        notes=(
            *nominal_warnings(book, variables),
            *absent_notes(book, variables, hidden),
            *quantity_warnings(book, records.clear, records.schema),
            *limit_warnings(book, variables, kind, reached),
            *band_warnings(book, variables, kind),
        ),
        used=tuple(dict.fromkeys((*variables, *groups, *records.layout.held))),
        unanswered=tuple(n for n in dict.fromkeys(variables) if n not in hidden and unanswered(book, n)),
    )


ROUNDING = 1e-13
"""What is left of values, beside their size, is the rounding of a mean: they are constant."""


def standardised(records: Records, numerator: Measure, denominator: Measure | None) -> tuple[float, float, Measure]:
    """Return shift, scale, and the numerator as ``(numerator − shift × denominator) / scale``.

    Sums of powers of values far from 0 lose digits, and huge ones overflow: so they are taken about the middle.
    """
    parts = [numerator.values, *numerator.functions]
    shift = 0.0
    held = [i for i, part in enumerate(parts) if part is not None]
    if len(held) != 1:
        return shift, 1.0, numerator
    at, part = held[0], parts[held[0]]
    assert part is not None
    if denominator is not None:
        below = [denominator.values, *denominator.functions]
        if all(b is None for i, b in enumerate(below) if i != at):
            base = np.ones(len(part)) if below[at] is None else below[at]
            assert base is not None
            shift = float(part.mean() / base.mean()) if base.mean() else 0.0
            left = part - shift * base
            part = left if np.abs(left).max() > ROUNDING * np.abs(part).max() else np.zeros_like(part)  # a constant
    scale = float(np.abs(part).max()) or 1.0
    parts[at] = part / scale
    return shift, scale, Measure(parts[0], tuple(parts[1:]))


_OPTIONS = (BY, METHOD, WEIGHT, STRATA, *DESIGN)
ESTIMATORS = (
    Estimator("mean", "Y", "Mean of a number, in each group of --by.", mean, _OPTIONS, example="pay"),
    Estimator("total", "Y", "Total of a number, in each group of --by.", total, _OPTIONS, example="pay"),
    Estimator(
        "ratio",
        "A,B",
        "Ratio of the totals of two numbers, in each group of --by.",
        ratio_of_totals,
        _OPTIONS,
        example="pay,hours",
        read=pair,
    ),
)
