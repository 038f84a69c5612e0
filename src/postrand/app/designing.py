"""The whole design of a tab's decisions: what protecting the file would release, before anything is drawn."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.app import documents
from postrand.app.decisions import Decisions, Opened
from postrand.certification import Certificate, certify
from postrand.designers.split import compare_split, quick_split
from postrand.designers.split.comparison import SEARCHED
from postrand.mechanism import Mechanism
from postrand.plan import Plan, load_plan
from postrand.report.table_worth import EQUAL, TableWorth, pairs_of, table_worth
from postrand.support.warned import heard
from postrand.support.worth_basis import BASES
from postrand.workflow.comparison import certified, figures_known
from postrand.workflow.design_blocks import DesignedBlock, check_sizes, design_blocks
from postrand.workflow.design_split import DesignedSplit, design_split, prior_of
from postrand.workflow.explanation import Explanation, explain
from postrand.workflow.file_goal import of_file, solved
from postrand.workflow.known import Known
from postrand.workflow.planned import claims_of, mechanism_of
from postrand.workflow.unperturbed import findings as measured

SEPARATE = "each variable by itself"


@dataclass(frozen=True, slots=True, eq=False)
class Designed:
    """Hold the plan, its ε solved, with its mechanism, what the mechanism guarantees, and what is known of the file.

    ``said`` are the warnings of the design.
    """

    plan: Plan
    known: Known
    mechanism: Mechanism
    certificate: Certificate
    blocks: tuple[DesignedBlock, ...] = ()
    split: DesignedSplit | None = None
    said: tuple[str, ...] = ()

    def level(self, name: str) -> float:
        """Return the ε of the block of one variable."""
        return self.mechanism[name].epsilon


class Latest:
    """What is known of the file that was measured last, and the last design; a level that moves reads nothing again."""

    def __init__(self) -> None:
        self._known: tuple[Opened, Known] | None = None
        self._made: tuple[tuple[Any, ...], Designed] | None = None

    def known(self, opened: Opened, plan: Plan) -> Known:
        """Return what the plan wants of its file, and read the file only for what is new."""
        before = self._known[1] if self._known is not None and self._known[0] is opened else None
        found = Known.of(plan, dossier=plan.policy is not None, written=True, before=before)
        self._known = opened, found
        return found

    def designed(self, decisions: Decisions, folder: Path) -> Designed:
        """Return the design of the decisions; ``folder`` holds its plan for a moment.

        Raises
        ------
        PostrandError
            If choices are missing, or the plan cannot be met.
        """
        asked = decisions.shaping
        if self._made is None or self._made[0] != asked:
            self._made = asked, self.fresh(decisions, folder)
        return self._made[1]

    def fresh(self, decisions: Decisions, folder: Path) -> Designed:
        """Return the design of decisions that are only tried; raises as :meth:`designed`."""
        assert decisions.opened is not None
        with heard() as said:
            plan = planned(decisions, folder)
            check_sizes(plan)
            plan = solved(plan)
            known = self.known(decisions.opened, plan)
            blocks, split = design_blocks(plan, known), design_split(plan, known)
            mechanism = mechanism_of(plan, blocks, known, split)
            certificate = certify(mechanism, claims_of(plan, mechanism, known))
            certificate = of_file(plan, mechanism, certificate, known)
        return Designed(plan, known, mechanism, certificate, blocks, split, tuple(said))


def planned(decisions: Decisions, folder: Path) -> Plan:
    """Return the plan of the decisions, as it is read from ``folder``, which holds it for a moment."""
    with tempfile.TemporaryDirectory(prefix=".plan-", dir=folder) as made:
        return load_plan(documents.write(decisions, Path(made)))


def explained(decisions: Decisions, folder: Path, latest: Latest) -> Explanation:
    """Return the plan in sentences, as ``postrand explain`` does; it is computed from the confidential file.

    Raises
    ------
    PostrandError
        If choices are missing, or the plan cannot be met.
    """
    assert decisions.opened is not None
    made = latest.designed(decisions, folder)
    with heard():  # the release check gives them
        known = Known.of(made.plan, dossier=True, before=made.known)
        told = measured(made.plan, made.mechanism, known).sentences
        certificate = certified(known, made.mechanism)
        name = decisions.opened.name
        figures = figures_known(known, made.mechanism, certificate, told, decisions.fraction, name=name)
        return explain(made.plan, figures)


def worths(made: Designed, records: int) -> tuple[list[TableWorth], list[TableWorth]]:
    """Return the worth of all tables of one and of two perturbed variables."""
    names = made.mechanism.variables
    pairs, houses = pairs_of(names, made.plan.codebook), made.known.household_sizes(records)
    found = [table_worth(made.mechanism, asked, records, EQUAL, houses) for asked in ([(n,) for n in names], pairs)]
    return list(found[0]), list(found[1])


@dataclass(frozen=True, slots=True)
class Ways:
    """Hold what one ε of a record buys: for each way its name, how it is, and the worth of one released record."""

    epsilon: float
    rows: tuple[tuple[str, str, float], ...]
    assumed: str

    @property
    def best(self) -> str:
        """The name of the way that is worth most."""
        return max(self.rows, key=lambda row: row[2])[0]


def compared(decisions: Decisions, folder: Path, latest: Latest) -> Ways:
    """Return what the guarantee of the decisions buys as separate blocks, as joint blocks and as a split.

    For the tables of a split, assumed as its design assumes them; for blocks, all tables of two variables, with every
    combination equally likely. Joint blocks of many variables are not searched: that takes too long for a page.

    Raises
    ------
    PostrandError
        If the variables cannot be designed as a split.
    """
    made = latest.designed(decisions, folder)
    book, split = made.plan.codebook, made.split
    if split is None:
        choices: dict[str, Any] = {}
        names, level = made.plan.perturbed, made.certificate.account.total
        assumed = f"For all tables of two variables, {BASES['equal']}."
    else:
        names, level, asked = split.plan.variables, split.design.epsilon, split.plan
        choices = {"workload": asked.workload, "core": asked.core, "max_cells": asked.max_cells}
        choices["prior"] = prior_of(asked, made.known)
        assumed = "For the tables of the split, by randomised response."
    if len(names) > SEARCHED:
        quick = quick_split(book, names, level)
        shown = "one subset, of all variables" if quick.together else "each record shows a subset"
        least = ("Split, at least", shown, quick.split)
        assumed = f"For all tables of two variables, {BASES['equal']}."
        return Ways(level, (("Separate blocks", SEPARATE, quick.separate), least), assumed)
    found = compare_split(book, names, level, **choices)
    worth = found.effective_records(1)
    joined = "; ".join(" × ".join(block) for block in found.joint.blocks)
    how = "of all partitions" if found.exhaustive else "by a search"
    subsets = f"each record shows one of {len(found.split.subsets):,} subsets"
    rows = (
        ("Separate blocks", SEPARATE, worth["separate"]),
        ("Best joint blocks", f"{joined} ({how})", worth["joint"]),
        ("Split", subsets, worth["split"]),
    )
    return Ways(level, rows, assumed)
