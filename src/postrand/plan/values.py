"""What a plan is: the checked decisions of a curator, as frozen values."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from postrand.certification.certificate import Claim
from postrand.codebook import Codebook
from postrand.codebook.variable import Scalar
from postrand.columns.planned import NumericalPlan
from postrand.designers import Objective, Structure
from postrand.designers.budget import BudgetShare, is_share
from postrand.designers.linked_cells import BlockRequest, LinkedCells, advice, shapes_of
from postrand.engines import Resources
from postrand.engines.database import Table, Target
from postrand.engines.resources import NOTHING
from postrand.formats import File
from postrand.metadata import Description
from postrand.plan.analyses import Model
from postrand.plan.file_goal import FileGoal
from postrand.plan.ledger_plan import LedgerPlan
from postrand.plan.policy import Policy
from postrand.plan.split_plan import SplitPlan
from postrand.plan.unit_plan import UnitPlan
from postrand.privacy import DifferentialPrivacy, PrivacyModel, models_of, needs_file, spent, with_prior
from postrand.support.showing import few

PriorSource = Literal["uniform", "file", "dp"]
PRIOR_SOURCES: tuple[str, ...] = get_args(PriorSource)
ChosenWith = Literal["sizes", "file"]
CHOSEN_WITH: tuple[str, ...] = get_args(ChosenWith)


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Hold how one block is designed, or its given matrix.

    ``prior`` is ``uniform`` (public), ``file`` (the file's own frequencies: confidential, and certified as such) or
    ``dp`` (a histogram of the file with exact noise, which spends ``prior_epsilon`` of the record's budget).
    ``given``: variables that stay as they are, with a transition matrix for each of their values. ``rarer_than``: only
    records are perturbed whose combination of the block's variables occurs in fewer records. A ``BudgetShare`` as
    privacy uses part of the record's remaining budget. ``one_member``: the category that exactly one member of each
    household has, and shows; ``at_most_one``: another one, which at most one member has. If
    the privacy depends on the file's frequencies, so does the prior.
    """

    variables: tuple[str, ...]
    privacy: PrivacyModel | BudgetShare
    objective: Objective
    structure: Structure
    prior: PriorSource = "uniform"
    prior_epsilon: float = 0.0
    matrix: tuple[tuple[float, ...], ...] | None = None
    given: tuple[str, ...] = ()
    rarer_than: int = 0
    one_member: Scalar | None = None
    at_most_one: Scalar | None = None

    @property
    def reads_file(self) -> bool:
        """Whether the design needs the records."""
        asked = self.prior != "uniform" or self.rarer_than > 0 or needs_file(self.privacy)
        return self.matrix is None and asked


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """Hold the form of the release: format of the data file, order of records, with or without record identifiers.

    ``format`` is ``"same"`` as the source, or one of :func:`postrand.formats.written_names`.
    ``as_is`` lists unperturbed columns that are released as they are although they single out many records, or all but
    settle true values of perturbed variables; ``listed`` perturbed ones whose list of values is published although it
    looks like remarks. Household
    numbers are replaced by new ones, or released ``as they are``. ``completed`` is the number of copies with plausible
    true values that the release has beside its data, None for no copies. ``target`` is the database table for the
    released data.
    """

    format: str = "same"
    shuffle: bool = True
    release_ids: bool = False
    as_is: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    household_numbers: Literal["renumbered", "as they are"] = "renumbered"
    completed: int | None = None
    target: Target | None = field(default=None, metadata={"confidential": True})  # no option of its own

    @property
    def renumbers(self) -> bool:
        """Whether household numbers are replaced by new ones."""
        return self.household_numbers == "renumbered"


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold a checked plan; paths are absolute.

    ``privacy`` is the claim on all perturbed values of a record together; each block's own claim is certified too, and
    so is what ``also`` says of all of them. ``file`` is what the plan asks of the whole file; if that has an ε, the one
    in ``privacy`` follows from it and the number of records (:mod:`postrand.workflow.file_goal`). ``split``: the
    variables of which each record shows a random subset. ``policy``: the office's rules, checked before anything is
    written. ``chosen_with``: whether blocks and levels follow from the codebook and public decisions, or were found
    with the ``file``, which the certificate then says. ``unit``: who is protected beside the record. ``ledger``:
    that of the population, which counts the release. ``analyses``: what analysts will do, by name.
    ``fraction``: the share of the population that is in the file, where it has no weights, for figures of risk.
    """

    source: Path | File | Table
    codebook: Codebook
    privacy: PrivacyModel
    blocks: tuple[BlockPlan, ...]
    release: ReleaseOptions = field(default_factory=ReleaseOptions)
    metadata: Description = field(default_factory=Description)
    numerical: tuple[NumericalPlan, ...] = ()
    also: tuple[PrivacyModel, ...] = ()
    engine: Resources = NOTHING
    file: FileGoal | None = None
    split: SplitPlan | None = None
    policy: Policy | None = None
    chosen_with: ChosenWith = "sizes"
    unit: UnitPlan | None = None
    ledger: LedgerPlan | None = None
    analyses: tuple[Model, ...] = ()
    fraction: float | None = None

    def __repr__(self) -> str:
        parts = [" × ".join(block.variables) for block in self.blocks]
        parts += [] if self.split is None else [f"split of {len(self.split.variables)} variables"]
        return f"Plan({self.source.name}: {len(parts)} blocks, {few(parts)}; {self.privacy!r})"

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The variables that blocks or the split perturb."""
        split = () if self.split is None else self.split.variables
        return (*(name for block in self.blocks for name in block.variables), *split)

    @property
    def not_released(self) -> tuple[str, ...]:
        """The columns that are left out: dropped ones, and numbers of records unless they are asked for."""
        roles = ("drop",) if self.release.release_ids else ("drop", "record_key")
        return tuple(v.name for v in self.codebook.with_role(*roles))

    @property
    def unperturbed(self) -> tuple[str, ...]:
        """The released keys, sensitive and other variables that are released as they are."""
        treated = {name for entry in self.numerical for name in entry.variables} | {*self.perturbed}
        held = self.codebook.with_role("key", "sensitive", "other")
        return tuple(v.name for v in held if v.name not in treated)

    @property
    def reads_file(self) -> bool:
        """Whether the design of a block, or of the split, needs the records."""
        return any(block.reads_file for block in self.blocks) or any(split.reads_file for split in self._splits)

    @property
    def split_reads(self) -> tuple[str, ...]:
        """The unperturbed variables that every subset of the split reads: given, or linked to it by rules."""
        if self.split is None:
            return ()
        own, perturbed = {*self.split.variables}, {*self.perturbed}
        linked = (n for rule in self.codebook.rules if not own.isdisjoint(rule.variables) for n in rule.variables)
        return tuple(dict.fromkeys([*self.split.given, *(n for n in linked if n not in perturbed)]))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The record's claim first, then those of each block, in the codebook's order; some are within classes.

        A claim that depends on the file's frequencies is about the blocks that perturb keys, with all their values.
        """
        within = [
            block.rarer_than > 0 or not (shape is None or shape.is_simple)
            for block, shape in zip(self.blocks, self.shapes, strict=True)
        ]
        each = [
            Claim(_claimed(model, block), self.codebook.in_order(block.variables), inside and not needs_file(model))
            for block, inside in zip(self.blocks, within, strict=True)
            for model in models_of(block.privacy)
            if not is_share(model) and (len(self.blocks) + len(self._splits) > 1 or model.name != self.privacy.name)
        ]
        strata = bool(self.split_reads)
        each += [
            Claim(DifferentialPrivacy(split.spent), self.codebook.in_order(split.variables), strata)
            for split in self._splits
            if split.epsilon is not None and (self.blocks or self.privacy.name != DifferentialPrivacy.name)
        ]
        each.sort(key=lambda claim: self.codebook.names.index(claim.variables[0]))
        within += [strata]
        each += [Claim(model) for model in self.also]
        if not needs_file(self.privacy):
            return (Claim(self.privacy, within=any(within)), *each)
        named = [b.variables for b in self.blocks if any(self.codebook[n].role == "key" for n in b.variables)]
        keys = self.codebook.in_order(name for names in named for name in names)
        return tuple(dict.fromkeys([Claim(self.privacy, keys), *each]))

    @property
    def shapes(self) -> tuple[LinkedCells | None, ...]:
        """The shape of each block; None if it acts on all combinations of its variables and reads no other variable."""
        return tuple(
            None if shape.is_simple and len(shape.cells) == self.cells_of(block) and not block.rarer_than else shape
            for block, shape in zip(self.blocks, shapes_of(self.codebook, self._parts), strict=True)
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """The way to keep the rules, for each set of blocks that they link."""
        return tuple(advice(self.codebook, self._parts))

    @property
    def _splits(self) -> tuple[SplitPlan, ...]:
        return () if self.split is None else (self.split,)

    @property
    def _parts(self) -> list[BlockRequest]:
        total = budget_of(self.privacy)
        share = (1.0 if total is None else total) / max(
            len(self.blocks) + len(self._splits), 1
        )  # of blocks without a budget, about
        budgets = [share if (own := budget_of(block.privacy)) is None else own for block in self.blocks]
        return [BlockRequest(b.variables, b.given, epsilon) for b, epsilon in zip(self.blocks, budgets, strict=True)]

    def share(self, given: float | None) -> float | None:
        """Return the sampling fraction that is ``given``; without one, that of the plan."""
        return self.fraction if given is None else given

    def limited(self, resources: Resources) -> Plan:
        """Return the plan whose databases use no more than this."""
        source, target = self.source, self.release.target
        source = dataclasses.replace(source, resources=resources) if isinstance(source, Table) else source
        target = None if target is None else dataclasses.replace(target, resources=resources)
        return dataclasses.replace(self, source=source, release=dataclasses.replace(self.release, target=target))

    def cells_of(self, block: BlockPlan) -> int:
        """Return the number of combinations of a block's variables, feasible or not."""
        return math.prod(self.codebook[name].size for name in block.variables)


def _claimed(model: PrivacyModel, block: BlockPlan) -> PrivacyModel:
    """Return what a block claims: the level of its matrix and the ε that its prior spends."""
    claimed: PrivacyModel = with_prior(model, block.prior_epsilon) if block.prior == "dp" else model
    return claimed


def budget_of(privacy: Any) -> float | None:
    """Return the ε of a model whose levels add up over blocks; None of any other."""
    traits = getattr(privacy, "traits", None)
    return spent(privacy) if traits is not None and traits.budget else None
