"""Regressions, means, shares and tables that analysts name, tried in simulated releases of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import get_args

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence
from postrand.estimate.regression_data import FamilyName
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.analyses import Model, Use
from postrand.workflow.advice_models import unfit
from postrand.workflow.advice_needs import needs_from
from postrand.workflow.advice_refusals import require_known, require_tables, unanswerable
from postrand.workflow.advice_uses import Estimated, Verdict, model_worth, verdicts
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.known import Known
from postrand.workflow.model_families import family_of
from postrand.workflow.model_trials import MET, simulated
from postrand.workflow.recoded_means import changed_in_groups

Unfit = Callable[[Model, bool, bool], str]
"""Return why a model cannot be estimated, given whether a variable is perturbed, and whether one moves."""


def estimated(
    of: Estimated,
    plan: Plan,
    mechanism: Mechanism,
    records: Callable[[], Source],
    unfit_of: Unfit,
    *,
    simulate: bool = True,
) -> Estimated:
    """Return ``of`` with those of its models that cannot be estimated, and how others are from simulated releases.

    ``records`` opens the file as the plan recodes it. Without ``simulate`` the others are left.
    """
    moved = {name for one in plan.numerical for name in one.variables}
    found, asked = dict[str, str](), dict[Model, FamilyName | None]()
    for model, _ in of.models:
        is_perturbed, moves = not {*model.table}.isdisjoint(plan.perturbed), bool({*model.table} & moved)
        found[str(model)] = unfit_of(model, is_perturbed, moves)
        if is_perturbed and not found[str(model)] and not moves:
            asked[model] = family_of(plan.codebook, model)
    fits = simulated(records(), mechanism, asked) if simulate and asked else {}
    return of._replace(unfit=found, fits={str(model): one for model, one in fits.items()})


def why_unfit(source: Source, book: Codebook, model: Model, *, is_perturbed: bool, moves: bool) -> str:
    """Return why a regression cannot be fitted, or where a recode changes a mean; "" where neither is so."""
    if model.kind == "model":
        return unfit(source, book, model, is_perturbed=is_perturbed)
    if model.kind != "mean" or moves or not any(one.variable == model.table[0] for one in book.recodes):
        return ""
    return changed_in_groups(source, book=book, response=model.table[0], groups=model.groups)


def asked_by_name(book: Codebook, texts: Sequence[str]) -> tuple[Model, ...]:
    """Return the analyses that texts name. Kinds of questions, of which a page tells anyway, are refused.

    Raises
    ------
    UsageError
        With every text that cannot be read, or that names a kind, a variable that the codebook does not have or does
        not release, or one without the values that are needed.
    """
    needs = needs_from(uses=texts)
    if texts and (kinds := needs.stated):
        fix = "name a model, mean, share or table, such as 'mean pay by sex': other questions are told of anyway"
        raise UsageError(sentence("this names no analysis", where="--use", got=", ".join(kinds), fix=fix))
    require_known(book, needs)
    require_tables(book, needs)
    return needs.models


def named_verdicts(known: Known, mechanism: Mechanism, models: Sequence[Model], records: int) -> tuple[Verdict, ...]:
    """Return how the release of a plan answers each analysis that is named, tried in simulated releases.

    What the plan does not release, or without the values that are needed, is not met.
    """
    plan, kinds = known.plan, get_args(Use)
    book, of = plan.codebook, Estimated(records)
    of = of._replace(models=[(model, model_worth(mechanism, model, of)) for model in models])

    def unfit_of(model: Model, is_perturbed: bool, moves: bool) -> str:
        for why, _ in unanswerable(book, model):
            return why
        return why_unfit(known.source, book, model, is_perturbed=is_perturbed, moves=moves)

    found = estimated(of, plan, mechanism, lambda: known.source, unfit_of)
    names = {str(model) for model in models}
    return tuple(one for one in verdicts(plan, kinds, mechanism, found, implied=kinds) if one.what in names)


def with_named(figures: PlanFigures, known: Known, mechanism: Mechanism, models: Sequence[Model]) -> PlanFigures:
    """Return the figures of a plan with how its release answers each analysis that is named; as they are without."""
    if not models:
        return figures
    found = named_verdicts(known, mechanism, models, figures.records)
    named, briefly = tuple(f"{one}." for one in found), tuple(one.brief for one in found)
    return dataclasses.replace(figures, named=(*named, MET), named_briefly=briefly)
