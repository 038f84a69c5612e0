"""Recipes for completed files of a survey: how weights, clusters and strata that the release records are named."""

from __future__ import annotations

import json
import re

from postrand.codebook.survey_design import SurveyDesign
from postrand.estimate.pooling_files import COPY

_R_TYPES = {"brr": "BRR", "fay": "Fay", "jk1": "JK1", "jkn": "JKn", "bootstrap": "bootstrap", "other": "other"}
_PARTS = {"weights": "weights", "psu": "clusters", "strata": "strata", "fpc": "finite population correction"}


def said(design: SurveyDesign) -> tuple[str, ...]:
    """Return what a survey design is, and what recipes with it do not count, in sentences.

    >>> said(SurveyDesign(weights="w"))[0]
    'The release records how the persons were drawn: weights w. These columns are as released in every copy.'
    """
    how = recorded(design)
    found = [f"{how}. These columns are as released in every copy."] if how else []
    found += design.lacking
    if design.psu:
        found.append(
            "The members of a cluster were drawn apart in the copies, so that they are less alike in a perturbed "
            "variable than in truth, and standard errors can be too small: compare them with those of postrand "
            "estimate, which counts the clusters."
        )
    if design.calibrated:
        found.append(
            f"The weights meet totals of {', '.join(design.calibrated)}, which the recipes do not count: standard "
            "errors are rather too large."
        )
    return tuple(found)


def recorded(design: SurveyDesign) -> str:
    """Return which columns of the release say how the persons were drawn, without a full stop; "" for none.

    >>> recorded(SurveyDesign(weights="w", psu="village"))
    'The release records how the persons were drawn: weights w, clusters village'
    """
    named = [f"{text} {getattr(design, part)}" for part, text in _PARTS.items() if getattr(design, part)]
    if design.replicates:
        named.append(f"{len(design.replicates)} replicate weights, {design.replicates[0]} and more")
    return f"The release records how the persons were drawn: {', '.join(named)}" if named else ""


def in_r(design: SurveyDesign, reading: str) -> tuple[str, ...]:
    """Return the lines that fit one model to each copy with the package survey, and pool."""
    lonely = {"adjust": "adjust", "certainty": "certainty"}.get(design.lonely)
    made = _replicated(design) if design.replicates else _sampled(design)
    return (
        *([f'options(survey.lonely.psu = "{lonely}")'] if lonely else []),
        f"long <- {reading}",
        f"fits <- lapply(split(long, long${COPY})[-1], function(copy) {{",
        *(f"    {line}" for line in made),
        "    survey::svyglm(y ~ factor(x), design = design)",
        "})",
        "summary(mitools::MIcombine(fits))",
    )


def in_python(design: SurveyDesign) -> tuple[str, str]:
    """Return what fits one model to a copy, and what it does not count.

    >>> in_python(SurveyDesign(weights="w"))[0]
    'fit = lambda copy: smf.wls("y ~ C(x)", copy, weights=copy["w"]).fit(cov_type="HC1")'
    """
    model = (
        f'smf.wls("y ~ C(x)", copy, weights=copy[{json.dumps(design.weights)}])'
        if design.weights
        else 'smf.ols("y ~ C(x)", copy)'
    )
    errors = 'cov_type="HC1"'
    if design.psu:
        errors = f'cov_type="cluster", cov_kwds={{"groups": copy[{json.dumps(design.psu)}].factorize()[0]}}'
    left = [text for part, text in _PARTS.items() if part in ("strata", "fpc") and getattr(design, part)]
    left += ["replicate weights"] if design.replicates else []
    counted = " and clusters" if design.psu else ""
    what = f"the errors are robust, with weights{counted}"
    return f"fit = lambda copy: {model}.fit({errors})", (f"{what}, not with {' or '.join(left)}" if left else what)


def in_stata(design: SurveyDesign) -> tuple[str, ...]:
    """Return the lines that name the design and fit one model to each copy, behind ``mi import``."""
    if not (design.weights or design.psu or design.strata):
        return ("mi estimate: regress y i.x",)
    unit = design.psu or "_n"
    weights = f" [pweight={design.weights}]" if design.weights else ""
    parts = [f"{name}({value})" for name, value in (("strata", design.strata), ("fpc", design.fpc)) if value]
    return (f"mi svyset {unit}{weights}{', ' + ' '.join(parts) if parts else ''}", "mi estimate: svy: regress y i.x")


def in_spss(design: SurveyDesign) -> tuple[tuple[str, ...], str]:
    """Return the lines before an analysis, and what they do not count."""
    if not design.weights:
        return (), ""
    return (
        f"WEIGHT BY {design.weights}.",
    ), "weights are right for estimates; for standard errors use the module Complex Samples, or R"


def _sampled(design: SurveyDesign) -> tuple[str, ...]:
    parts = {"ids": design.psu, "strata": design.strata, "weights": design.weights, "fpc": design.fpc}
    formulas = [f"{name} = ~{_r(value)}" for name, value in parts.items() if isinstance(value, str)]
    formulas = formulas if design.psu else ["ids = ~1", *formulas]
    nest = ["nest = TRUE"] if design.psu and design.strata else []
    return (f"design <- survey::svydesign({', '.join([*formulas, *nest])}, data = copy)",)


def _replicated(design: SurveyDesign) -> tuple[str, ...]:
    options = [f'type = "{_R_TYPES[str(design.method)]}"', "combined.weights = TRUE"]
    options += [f"rho = {design.rho}"] if design.rho is not None else []
    options += [f"scale = {design.scale}"] if design.scale is not None else []
    options += [f"rscales = c({', '.join(map(str, design.rscales))})"] if design.rscales else []
    options += ["mse = TRUE"] if design.mse else []
    weights = f"weights = ~{_r(design.weights)}, " if design.weights else ""
    return (
        f"replicates <- copy[, c({', '.join(map(json.dumps, design.replicates))})]",
        f"design <- survey::svrepdesign({weights}repweights = replicates, {', '.join(options)}, data = copy)",
    )


def _r(name: str | None) -> str:
    """Return a column's name as R reads it.

    >>> _r("weight"), _r("my weight")
    ('weight', '`my weight`')
    """
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9._]*", text) else "`" + text.replace("`", "\\`") + "`"
