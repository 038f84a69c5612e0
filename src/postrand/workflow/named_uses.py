"""Regressions, means, shares and tables that analysts name, tried in simulated releases of a plan."""

from __future__ import annotations

from collections.abc import Callable

from postrand.codebook import Codebook
from postrand.estimate.regression_data import FamilyName
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.workflow.advice_models import unfit
from postrand.workflow.advice_needs import Model, Needs
from postrand.workflow.advice_refusals import require_known, require_tables
from postrand.workflow.advice_uses import Estimated, Verdict, family_of, model_worth, verdicts
from postrand.workflow.known import Known
from postrand.workflow.model_trials import simulated
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


def named_verdicts(known: Known, mechanism: Mechanism, needs: Needs, records: int) -> tuple[Verdict, ...]:
    """Return how the release of a plan answers each model that is named, tried in simulated releases.

    Raises
    ------
    UsageError
        If one names a variable that the plan does not have, or does not release, or without the values it needs.
    """
    book = known.plan.codebook
    require_known(book, needs)
    require_tables(book, needs)
    of = Estimated(records)
    of = of._replace(models=[(model, model_worth(mechanism, model, of)) for model in needs.models])
    found = estimated(
        of,
        known.plan,
        mechanism,
        lambda: known.source,
        lambda model, is_perturbed, moves: why_unfit(known.source, book, model, is_perturbed=is_perturbed, moves=moves),
    )
    names = {str(model) for model in needs.models}
    told = verdicts(known.plan, needs.uses, mechanism, found, implied=needs.implied)
    return tuple(one for one in told if one.what in names)
