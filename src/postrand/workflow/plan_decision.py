"""The page to decide on and sign, of a plan: before a release is made, and counted in a ledger."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from postrand.certification import Certificate
from postrand.errors import UsageError, sentence, without_fix
from postrand.plan import Plan
from postrand.release.internal import require_outside
from postrand.report.internal import decision_page
from postrand.risk.findings import Findings
from postrand.support.saving import write_whole
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.dossier_decision import decision_of
from postrand.workflow.policy_check import check_policy

OPEN = "No release can be made yet, because the plan does not say whether these leave as they are"
OWNER = 0o600
"""Only its owner may read the page: it has figures of the confidential file."""


def require_new(path: Path) -> None:
    """Raise UsageError if the file exists, ReleaseError if it would lie in a release: before anything is measured."""
    require_outside(path)
    if path.exists():
        raise UsageError(sentence("the file exists", where=str(path), fix="name another file"))


def write_decision(path: Path, plan: Plan, figures: PlanFigures, certificate: Certificate, told: Findings) -> None:
    """Write the page of the dossier that is signed, with the rules of the plan's policy; it says that it is of a plan.

    Raises
    ------
    UsageError
        If the file exists, or cannot be written.
    """
    policy = None if plan.policy is None else check_policy(figures, plan.policy)
    found = decision_of(figures, policy, certificate, told)
    open_ = (f"{OPEN}: {without_fix(text).removeprefix('plan: ').rstrip('.')}." for text in told.refusals)
    page = decision_page(dataclasses.replace(found, checks=(*open_, *found.checks)))
    write_whole(path, page.encode(), mode=OWNER)
