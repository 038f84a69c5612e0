"""Scale a plan's budgets to a risk limit: the same ratios, structures and blocks with another total ε."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from postrand import risk
from postrand.designers.budget import LARGEST_SHARE, is_share
from postrand.errors import UsageError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.plan.values import BlockPlan
from postrand.privacy import MODELS, level_of, models_of
from postrand.risk.tuning import is_informed, limits_of
from postrand.support.showing import few
from postrand.support.warned import heard
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.known import Known
from postrand.workflow.planned import mechanism_of

SMALLEST = 0.02
"""The smallest level that is tried, as a fraction of the plan's level."""


def scaled(plan: Plan, epsilon: float) -> Plan:
    """Return the plan with a total ε of ``epsilon``: every budget, also of a prior, times the same factor.

    Structures, objectives, blocks, strata and the policy for missing values do not change. A block with a share keeps
    its weight. The budget of a household or person has the same factor.

    Raises
    ------
    UsageError
        If the plan, or one of its blocks, has no ε that can be scaled.
    """
    factor = epsilon / _total(plan)
    problems = [problem for n, block in enumerate(plan.blocks, 1) for problem in _problems(block, n)]
    if plan.split is not None:
        what, fix = "the risk of a split release is not simulated here", "tune a plan of blocks, or set epsilon"
        problems.append(sentence(what, where="[split]", fix=fix))
    problems += _one_problems(plan)
    raise_all(UsageError, problems)
    blocks = tuple(
        dataclasses.replace(b, privacy=_scalable(b.privacy).scaled(factor), prior_epsilon=b.prior_epsilon * factor)
        for b in plan.blocks
    )
    unit = plan.unit
    if unit is not None and unit.epsilon is not None:
        unit = dataclasses.replace(unit, epsilon=unit.epsilon * factor)
    return dataclasses.replace(plan, privacy=_scalable(plan.privacy).scaled(factor), blocks=blocks, unit=unit)


def tune_plan(
    plan: Plan,
    limit: str | Sequence[str],
    *,
    sampling_fraction: float | None = None,
    weight: str | None = None,
    household: str | None = None,
    **choices: Any,
) -> risk.Tuning:
    """Search for the largest total ε of a plan whose release certainly meets every ``limit``; the level is that total.

    The keys are the codebook's categorical variables with the role ``key``; without a ``sampling_fraction`` or
    ``weight`` that of the plan is used, or the variable with the role ``weight``, and without a ``household`` that of
    this role.
    ``choices`` go to :func:`postrand.risk.tune`. What priors and selections of records need of the file is counted
    once for all levels.

    Raises
    ------
    UsageError
        If the plan has no ε to scale, or the limit is invalid.
    DesignError
        If no level of the range certainly meets the limit.
    """
    book = plan.codebook
    sampling_fraction = plan.share(sampling_fraction) if weight is None else sampling_fraction
    keys = [v.name for v in book.with_role("key") if v.is_categorical]
    if not keys:
        what, fix = "no categorical variable has the role 'key'", 'set role = "key" in the codebook'
        raise UsageError(sentence(what, where="codebook", fix=fix))
    measures = {measure for measure, _ in limits_of(limit)}
    if measures != {"correct_matches"} and sampling_fraction is None and weight is None:
        weight = next((v.name for v in book.with_role("weight")), None)
        if weight is None and not all(map(is_informed, measures)):
            fix = "use --sampling-fraction or --weight, or set the role 'weight' in the codebook"
            raise UsageError(sentence("the share of the population in the file is not known", fix=fix))

    if plan.file is not None and plan.file.epsilon is not None:
        what, fix = "the plan's epsilon follows from file_epsilon, so it cannot be scaled", "set epsilon instead"
        raise UsageError(sentence(what, where="[privacy]", fix=fix))
    now = _total(plan)
    scaled(plan, now)  # refuse what cannot be scaled before reading the file
    choices.setdefault("levels", (SMALLEST * now, LARGEST_SHARE * now / _largest(plan)))
    household = household or next((v.name for v in book.with_role("household")), None)
    choices |= {"household": household, "sampling_fraction": sampling_fraction, "weight": weight, "codebook": book}
    choices["units"] = None if plan.unit is None else plan.unit.units
    with heard():  # of intermediate designs; the user designs the result again
        known = Known.tables(plan)
        return risk.tune(known.source, keys, limit, mechanism=lambda level: _mechanism(plan, level, known), **choices)


def _one_problems(plan: Plan) -> Iterator[str]:
    """Yield which keys one member of each household has by a rule: what is released of one member depends on all."""
    ruled = {name for block in plan.blocks if block.one_member is not None for name in block.variables}
    if shared := [v.name for v in plan.codebook.with_role("key") if v.name in ruled]:
        what = f"the search for a level draws members apart, and a rule across members ties {few(shared)}"
        yield sentence(what, where="one_member", fix="give this key another role for the search")


def _mechanism(plan: Plan, level: float, known: Known) -> Mechanism:
    at = dataclasses.replace(scaled(plan, level), numerical=())
    return mechanism_of(at, design_blocks(at, known))


def _total(plan: Plan) -> float:
    if not _divides(plan.privacy):
        what = "the plan's privacy has no total epsilon that can be scaled"
        wanted = " or ".join(m.name for m in MODELS if _divides(m))
        raise UsageError(sentence(what, where="[privacy]", got=plan.privacy.name, wanted=wanted))
    return level_of(plan.privacy)


def _largest(plan: Plan) -> float:
    """Return the largest ε of a block; blocks with a share are assumed to have equal shares."""
    equal = _total(plan) / len(plan.blocks)
    return max(equal if is_share(b.privacy) else _level(b.privacy) for b in plan.blocks)


def _divides(model: Any) -> bool:
    """Return whether a model's level is a total ε that is divided among blocks."""
    return bool(model.traits.budget and model.traits.composition == "sum")


def _scalable(model: Any) -> Any:
    """Return a model that has the verb ``scaled``: problems were looked for before."""
    return model


def _level(model: Any) -> float:
    return max(level_of(one) for one in models_of(model))


def _problems(block: BlockPlan, number: int) -> list[str]:
    where = f"[[blocks]] {number}"
    if block.matrix is not None:
        fix = "use a privacy model instead of the matrix"
        return [sentence("a given matrix has no budget to scale", where=where, fix=fix)]
    wrong = [m for m in models_of(block.privacy) if not hasattr(m, "scaled")]
    return [sentence("the block's privacy has no epsilon to scale", where=where, got=m.name) for m in wrong]
