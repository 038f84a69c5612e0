"""Unperturbed variables of a release: measured on the file, before anything is released."""

from __future__ import annotations

from postrand import release
from postrand.engines.database import open_records
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.risk.findings import Findings, find
from postrand.support.progress import Stage, stage
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.planned import facts_of, household_of, mechanism_of


def findings(plan: Plan, mechanism: Mechanism | None = None, source: Source | None = None) -> Findings:
    """Return what unperturbed variables reveal: the records they single out, and true values of perturbed variables.

    One pass over the file; nothing is released. With the plan's own ``mechanism`` and ``source`` the file is not
    designed and opened again. Sentences contain no counts; ``figures`` are confidential.

    Raises
    ------
    PostrandError
        If the plan cannot be designed, or the file cannot be read.
    """
    source = open_records(plan.source, plan.codebook) if source is None else source
    if mechanism is None:
        mechanism = mechanism_of(plan, design_blocks(plan, source=source), source)
    stage(Stage.SINGLING)
    house = household_of(plan)
    decided = [
        *plan.release.as_is,
        *(v.name for v in plan.codebook.with_role("record_key") if plan.release.release_ids),
    ]
    decided += [house] if house and not plan.release.renumbers else []
    exempt = [house] if house and plan.release.renumbers else []
    released = release.released_codebook(plan.codebook, facts_of(plan)).names
    return find(source, plan.codebook, mechanism, released, as_is=decided, exempt=exempt)
