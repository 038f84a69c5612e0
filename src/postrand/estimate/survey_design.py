"""The survey design of a question: given, made of options, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import UsageError, sentence, shown

__all__ = ["SurveyDesign", "design_of", "from_parts", "refuse_design"]


def design_of(
    design: SurveyDesign | None, weights: str | None = None, strata: str | None = None, method: str = "unbiased"
) -> SurveyDesign | None:
    """Return the design of a question; raises UsageError if weights or strata stand beside it, or the method has none.

    >>> design_of(None, "w") is None
    True
    """
    if design is None:
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


def refuse_design(design: object, what: str, fix: str) -> None:
    """Raise UsageError where a design is given to what does not take one."""
    if design is not None:
        raise UsageError(sentence(f"{what} does not take a survey design", fix=fix))


def from_parts(parts: Mapping[str, Any], weights: str | None, strata: str | None) -> SurveyDesign:
    """Return the design of parts that were given one by one, as options are."""
    return SurveyDesign(weights=weights, strata=strata, **parts)
