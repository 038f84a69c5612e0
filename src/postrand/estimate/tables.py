"""Tables of true proportions by every method: unbiased, maximum likelihood, or from a fitted joint model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import UsageError, sentence
from postrand.estimate import unbiased
from postrand.estimate.by_model import Fitted, by_model, wants_model
from postrand.estimate.em import maximum_likelihood
from postrand.estimate.offer import DESIGN, STRATA, WEIGHT, Estimator, Option, choice, listed
from postrand.estimate.result import Estimate
from postrand.estimate.survey_design import design_of
from postrand.mechanism import Mechanism

Method = Literal["unbiased", "likelihood", "model"]


def table(
    frame: Any,
    variables: Sequence[str],
    mechanism: Mechanism,
    weights: str | None = None,
    strata: str | None = None,
    prior: Mapping[str, ArrayLike] | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the true joint distribution of several variables, perturbed or not.

    ``value`` has one axis for each variable in the order named. Parameters and errors are those of
    :func:`postrand.estimate.proportions`, and:

    Parameters
    ----------
    prior
        For the unbiased estimate from a split: the shares of the categories of some variables, taken as independent
        and uniform where nothing is given. A prior makes the weights of the subsets better, never the table biased, if
        it does not come from this release.
    method
        ``unbiased``: the inverse is applied block by block along each axis. Of the variables of a split, the records
        count that show all that are named; subsets are combined by inverse variance, which the published matrices and
        ``prior`` tell. Given which records show what, the covariance is exactly unbiased (without weights and strata);
        its perturbation part is so on average over files. ``likelihood``: :func:`postrand.estimate.maximum_likelihood`.
        ``model``: the tables of the completed copies of ``model``, pooled by Rubin's rules, for any variables; all
        such tables agree with each other.
    model
        What :func:`postrand.complete` returned for this release; the method is then ``model``.
    design
        How the records were drawn, in place of weights and strata, for ``unbiased``: clusters, or replicate weights.

    Raises
    ------
    UsageError
        If the method is unknown, or ``model`` is missing, or was fitted to another release.
    EstimationError
        If no subset shows all of the variables: the message says which are shown together. Or if too few records do.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand import Codebook, Variable, randomised_response
    >>> from postrand.completion import complete
    >>> sex = Variable("sex", role="key", categories=("F", "M"))
    >>> law = Mechanism({"sex": randomised_response(2, 3.0)}, codebook=Codebook((sex,)))
    >>> frame = pa.table({"sex": ["F"] * 60 + ["M"] * 40})
    >>> done = complete(frame, law, copies=5, seed=1)
    >>> found = table(frame, ["sex"], law, model=done)
    >>> float(found.value.sum()), bool(abs(found.value[0] - 0.6) < 0.1)
    (1.0, True)
    """
    asks_model = wants_model(method, model, "likelihood")
    design_of(design, weights, strata, "model" if asks_model else method, mechanism if asks_model else None)
    if asks_model:
        asked = {"variables": variables, "weights": weights, "strata": strata}
        return by_model("shares", unbiased.table, frame, mechanism, model, **asked)
    if method == "likelihood":
        if prior is not None:
            raise UsageError(sentence("maximum likelihood has no prior", fix="leave out the prior"))
        return maximum_likelihood(frame, variables, mechanism, weights, strata)
    return unbiased.table(frame, variables, mechanism, weights, strata, prior, design=design)


def _table(frame: Any, *variables: str, mechanism: Mechanism, **options: Any) -> Estimate:
    return table(frame, variables, mechanism, **options)


_METHOD = Option(
    "method",
    "NAME",
    "unbiased (the default), likelihood, or model: from completed copies, for any variables.",
    choice("unbiased", "likelihood", "model"),
)
ESTIMATORS = (
    Estimator(
        "table",
        "A,B",
        "Shares of the categories of these variables together.",
        _table,
        (_METHOD, WEIGHT, STRATA, *DESIGN),
        example="sex,area",
        read=listed,
        instead={
            "by": "--table {asked},{given}, or in each group --mean {first} or --share {first} --of CATEGORY, with "
            "--by {given}"
        },
    ),
)
