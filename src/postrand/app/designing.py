"""The whole design of a tab's decisions: what protecting the file would release, before anything is drawn."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postrand.app import documents
from postrand.app.decisions import Decisions, Opened
from postrand.app.watch import Cancelled
from postrand.certification import Certificate, certify
from postrand.designers.split import compare_split, quick_split
from postrand.designers.split.comparison import SEARCHED
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.plan import Plan, load_plan
from postrand.release.kept import State
from postrand.report.table_worth import EQUAL, TableWorth, pairs_of, table_worth
from postrand.risk.findings import Findings
from postrand.support.progress import Stage, stage
from postrand.support.warned import heard, warn
from postrand.support.worth_basis import BASES
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.design_blocks import DesignedBlock, check_sizes, design_blocks
from postrand.workflow.design_split import DesignedSplit, design_split, prior_of
from postrand.workflow.explanation import Explanation, explain
from postrand.workflow.file_goal import of_file, solved
from postrand.workflow.known import Known, state_of
from postrand.workflow.named_uses import with_named
from postrand.workflow.plan_figures import certified, computed
from postrand.workflow.plan_risk import Beforehand, PlanRisk, require_state
from postrand.workflow.planned import claims_of, mechanism_of
from postrand.workflow.unperturbed import findings as measured

SEPARATE = "each variable by itself"
WAIT = 0.2
"""Seconds between two looks at whether somebody who waits for a risk has cancelled."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Hold the risk of a plan, what is known of its file, and the warnings of the measuring."""

    risk: PlanRisk
    known: Known
    said: tuple[str, ...]


class Latest:
    """What is known of the file that was measured last, the last design, and the risk of a design.

    A level that moves reads nothing again. All is of the file as it is on the disk: once that is written to, it is
    read, designed and measured anew.
    """

    def __init__(self) -> None:
        self._known: tuple[Opened, Known, bool] | None = None
        self._made: tuple[tuple[Any, ...], Designed] | None = None
        self._risk: tuple[tuple[Any, ...], Measured] | None = None
        self._measuring, self._reading = threading.Lock(), threading.Lock()

    def known(self, opened: Opened, plan: Plan, is_whole: bool = False) -> Known:
        """Return what the plan wants of its file, with all for its risk where ``is_whole``; only what is new is read.

        What was once read for the risk stays until the codebook changes.
        """
        held = self._known if self._known is not None and self._known[0] is opened else None
        before = None if held is None else held[1]
        if held is not None and held[1].plan.codebook == plan.codebook:
            is_whole = is_whole or held[2]
        is_whole = is_whole or plan.policy is not None
        found = Known.of(plan, dossier=is_whole, written=True, before=before)
        self._known = opened, found, is_whole
        return found

    def measured(self, decisions: Decisions, made: Designed, wanted: Callable[[], bool] = lambda: True) -> Measured:
        """Return the risk of a design, which is measured once; who asks meanwhile waits, and tells the stage.

        Raises
        ------
        Cancelled
            If it is no longer ``wanted`` when what was asked for before has ended.
        DataError
            If the file has changed since it was designed for, or cannot be read.
        """
        while not self._measuring.acquire(timeout=WAIT):
            stage(Stage.RISK)  # whoever listens can cancel
        try:
            asked = (made.known.state, made.plan.codebook, made.mechanism.digest(), decisions.fraction)
            if self._risk is None or not made.known.state or self._risk[0] != asked:
                if not wanted():
                    raise Cancelled
                self._risk = None  # the old one need not lie beside the new one
                self._risk = asked, self._measure(decisions, made)
            return self._risk[1]
        finally:
            self._measuring.release()

    def _measure(self, decisions: Decisions, made: Designed) -> Measured:
        with heard() as said:
            known = self._whole(decisions, made)
            require_state(made.plan.source, made.known.state)
            found = PlanRisk.of(known, made.mechanism, decisions.fraction)
        return Measured(found, known, tuple(said))

    def beforehand(self, decisions: Decisions, made: Designed) -> Beforehand:
        """Return what a run of a design takes in place of measuring it: the risk can still be on its way."""

        def risk() -> PlanRisk:
            found = self.measured(decisions, made)
            for text in found.said:
                warn(text, UserWarning)
            return found.risk

        return Beforehand(self._whole(decisions, made), made.mechanism, decisions.fraction, risk)

    def _whole(self, decisions: Decisions, made: Designed) -> Known:
        """Return all that the risk of a design reads of the file; who asks meanwhile waits for that reading."""
        assert decisions.opened is not None
        with self._reading:
            return self.known(decisions.opened, made.plan, is_whole=True)

    def designed(self, decisions: Decisions, folder: Path) -> Designed:
        """Return the design of the decisions; ``folder`` holds its plan for a moment.

        Raises
        ------
        PostrandError
            If choices are missing, or the plan cannot be met.
        """
        asked = *decisions.shaping, read_state(decisions)
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
    made = latest.designed(decisions, folder)
    with heard():  # the release check gives them
        told = measured(made.plan, made.mechanism, made.known)
        found = figures(decisions, made, latest.measured(decisions, made), told)
        return explain(made.plan, with_named(found, made.known, made.mechanism, made.plan.analyses))


def figures(decisions: Decisions, made: Designed, found: Measured, told: Findings | None = None) -> PlanFigures:
    """Return what a design claims, risks and is worth; ``told`` are its findings."""
    name = "" if decisions.opened is None else decisions.opened.name
    about = certified(found.known, made.mechanism), found.risk.figures, found.risk.as_is
    return computed(found.known, made.mechanism, *about, name=name, told=told)


def read_state(decisions: Decisions) -> State:
    """Return the state of the open file on the disk; empty where there is none any more, which its reading says."""
    try:
        return () if decisions.opened is None else state_of(decisions.opened.path)
    except PostrandError:
        return ()


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
