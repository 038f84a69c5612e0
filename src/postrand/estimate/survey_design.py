"""The survey design of a question: given, made of options, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import UsageError, sentence, shown
from postrand.mechanism import Mechanism
from postrand.support.warned import warn

__all__ = ["SurveyDesign", "SurveyWarning", "design_of", "from_parts", "refuse_design", "set_aside"]


NO_TOTAL = "multiply the mean by a published number of persons, or use a ratio"
"""What to do where a total of a split is refused, because it takes no survey design."""


class SurveyWarning(UserWarning):
    """A method does not use the survey design that a release records."""


def design_of(
    design: SurveyDesign | None,
    weights: str | None = None,
    strata: str | None = None,
    method: str = "unbiased",
    mechanism: Mechanism | None = None,
) -> SurveyDesign | None:
    """Return the design of a question; raises UsageError if weights or strata stand beside it, or the method has none.

    Warns where the method has none, and the codebook of ``mechanism`` records one.

    >>> design_of(None, "w") is None
    True
    """
    if design is None:
        if mechanism is not None and (told := set_aside(mechanism, method, weights, strata)):
            warn(f"{told}; without 'method' and 'model', design=mechanism.codebook.survey uses them", SurveyWarning, 4)
        return None
    if not isinstance(design, SurveyDesign):
        fix = "make it by estimate.SurveyDesign(...)"
        raise UsageError(sentence("the design is not a survey design", got=type(design).__name__, fix=fix))
    if weights is not None or strata is not None:
        fix = "name them in the design: SurveyDesign(weights=..., strata=...)"
        raise UsageError(sentence("weights or strata are given beside a survey design", fix=fix))
    if method not in ("unbiased", "equations"):
        what = f"the method {shown(method, repr)} does not take a survey design"
        fix = "leave out the method; or pool completed files with software for surveys"
        raise UsageError(sentence(what, fix=fix))
    return design


def set_aside(mechanism: Mechanism, method: str | None, weights: object = None, strata: object = None) -> str:
    """Return what a method leaves aside of the survey design that the codebook records; "" where it leaves nothing.

    ``weights`` and ``strata`` are those that are given, and so are used.
    """
    book = mechanism.codebook
    if book is None or book.survey is None or method not in ("likelihood", "model"):
        return ""
    found, replicated = book.survey, bool(book.survey.replicates)
    by_value = ["weights"] * ((found.weights is not None or replicated) and weights is None)
    by_error = ["clusters"] * (found.psu is not None) + ["strata"] * (found.strata is not None and strata is None)
    by_error += ["replicate weights"] * replicated + ["the effect of clusters"] * (found.cluster_effect is not None)
    if not (parts := [*by_value, *by_error]):
        return ""
    error = "small" if {"clusters", "replicate weights", "the effect of clusters"} & {*by_error} else "large"
    wrong = ["values can be wrong for the population"] * bool(by_value)
    wrong += [f"standard errors can be too {error}"] * bool(by_error)
    named = " and ".join([", ".join(parts[:-1]), parts[-1]][len(parts) == 1 :])
    return (
        f"the method {method} does not use {named} of the survey design that is stored in the release: "
        f"{' and '.join(wrong)}"
    )


def refuse_design(design: object, what: str, fix: str) -> None:
    """Raise UsageError where a design is given to what does not take one."""
    if design is not None:
        raise UsageError(sentence(f"{what} does not take a survey design", fix=fix))


def from_parts(parts: Mapping[str, Any], weights: str | None, strata: str | None) -> SurveyDesign:
    """Return the design of parts that were given one by one, as options are."""
    return SurveyDesign(weights=weights, strata=strata, **parts)
