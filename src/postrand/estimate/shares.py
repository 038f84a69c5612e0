"""A share among some: of the records in these categories of a variable, how many are in those, in each group."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from postrand.codebook.survey_design import SurveyDesign
from postrand.errors import UsageError, nearest, sentence
from postrand.estimate.axes import Array
from postrand.estimate.by_model import Fitted, by_model, wants_model
from postrand.estimate.group_data import Records, function_of, read
from postrand.estimate.groups import Method, result_of
from postrand.estimate.offer import BY, DESIGN, METHOD, STRATA, WEIGHT, Estimator, Option
from postrand.estimate.regression_terms import absent_notes, unanswered
from postrand.estimate.result import Estimate
from postrand.estimate.survey_design import design_of
from postrand.mechanism import Mechanism
from postrand.support.inputs import listed

Category = str | int | float | bool
"""A category by its label or its code."""


def share(
    frame: Any,
    variable: str,
    mechanism: Mechanism,
    of: Category | Sequence[Category],
    among: Category | Sequence[Category] | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    *,
    method: Method = "unbiased",
    model: Fitted | None = None,
    design: SurveyDesign | None = None,
) -> Estimate:
    """Estimate the share of some categories of a variable among some others, in each group of ``by``.

    An unemployment rate is the share ``of`` the unemployed ``among`` the employed and the unemployed. With the 0/1
    functions a of the categories ``of`` and d of those ``among``, it solves ``Σ_i w_i B[r_i, g] (a_i − μ_g d_i) = 0``,
    ``B = M^-1``. Everything else is as for :func:`postrand.estimate.mean`.

    Parameters
    ----------
    of, among
        Categories by their labels, or by their codes: one, or several. Those of ``of`` are among ``among``; without
        it, all that are answers.

    Raises
    ------
    UsageError
        If a category is unknown, or one of ``of`` is not among ``among``; and as for :func:`postrand.estimate.mean`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> work = Variable("work", role="key", categories=("employed", "unemployed", "none"))
    >>> law = TransitionMatrix.from_array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    >>> mech = Mechanism({"work": law}, codebook=Codebook((work,)))
    >>> frame = pa.table({"work": ["employed"] * 52 + ["unemployed"] * 17 + ["none"] * 31})
    >>> share(frame, "work", mech, of="unemployed", among=["employed", "unemployed"]).value.round(4).tolist()
    0.1429

    By hand: (17 − 10) / 0.7 = 10 are unemployed and (52 − 10) / 0.7 = 60 employed, of 100 records.
    """
    if wants_model(method, model):
        design_of(design, weights, strata, "model", mechanism)
        asked = {"variable": variable, "of": of, "among": among, "by": by, "weights": weights, "strata": strata}
        return by_model(f"share in {variable}", share, frame, mechanism, model, **asked)
    records = read(frame, [variable], mechanism, by, weights, strata, design, as_numbers=False)
    inside, around, what = _chosen(records, variable, mechanism, of, among)
    above, below = (function_of(records, variable, one) for one in (inside, around))
    found = result_of(records, above, below, mechanism, (variable,), what)
    notes = absent_notes(mechanism.codebook, [variable], mechanism.variables) if among is None else ()
    return dataclasses.replace(found, notes=notes, unanswered=(), reach=1.0)


def _chosen(
    records: Records,
    variable: str,
    mechanism: Mechanism,
    of: Category | Sequence[Category],
    among: Category | Sequence[Category] | None,
) -> tuple[Array, Array, str]:
    """Return 1 for each code of ``of`` and of ``among``, else 0, and what the share is called."""
    axis, position = records.shown[variable]
    labels, book = records.layout.axes[axis].labels[position], mechanism.codebook
    codes = [str(one) for one in book[variable].categories] if book is not None and variable in book else []
    inside = _places(labels, codes, _texts(of), variable)
    answers = [*range(len(labels))]
    if among is None:
        absent = unanswered(book, variable)
        around = [place for place in answers if labels[place] not in absent or place in inside]
    else:
        around = _places(labels, codes, _texts(among), variable)
    beyond = [labels[place] for place in inside if place not in around]
    if beyond:
        what = "a share is of categories that are among the others"
        raise UsageError(sentence(what, where=variable, got=", ".join(beyond), fix="name them in 'among' too"))
    said = " or ".join(labels[place] for place in inside)
    said += "" if among is None else f" among {' or '.join(labels[place] for place in around)}"
    of_code, among_code = (np.isin(np.arange(len(labels)), places).astype(np.float64) for places in (inside, around))
    return of_code, among_code, f"share of {variable} = {said}"


def _texts(named: Category | Sequence[Category]) -> list[str]:
    held = listed(named)
    return [str(one) for one in ((named,) if held is None else held)]


def _places(labels: Sequence[str], codes: Sequence[str], texts: Sequence[str], variable: str) -> list[int]:
    """Return where categories are that are named by their labels or else their codes; UsageError if one is unknown."""
    known = dict(zip(codes, range(len(codes)), strict=True)) | {text: place for place, text in enumerate(labels)}
    for text in texts:
        if text not in known:
            what = f"no category {text!r}{nearest(text, labels)}"
            raise UsageError(sentence(what, where=variable, wanted=", ".join(labels)))
    if not texts:
        raise UsageError(sentence("no category is named", where=variable, wanted=", ".join(labels)))
    return sorted({known[text] for text in texts})


def _categories(given: str, where: str) -> tuple[str, ...]:
    """Take categories, separated by commas; one that has a comma stands in double quotes.

    >>> _categories('services, "mining, industry"', "--of")
    ('services', 'mining, industry')
    """
    return tuple(part.strip() for part in next(csv.reader([given], skipinitialspace=True), []) if part.strip())


_OF = Option("of", "P,Q", "Its categories that are counted; one that has a comma in double quotes.", _categories)
_AMONG = Option("among", "P,Q", "Of which they are a share; without it, all categories that are answers.", _categories)
ESTIMATORS = (
    Estimator(
        "share",
        "A",
        "Share of the categories --of among those of --among, in each group of --by.",
        share,
        (_OF, _AMONG, BY, METHOD, WEIGHT, STRATA, *DESIGN),
        example="ill",
        needs={"of": "yes"},
    ),
)
