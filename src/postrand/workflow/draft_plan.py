"""The plan that init writes: its sections, each under what it means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import tomlkit

from postrand import formats
from postrand.codebook.not_released import NOT_RELEASED
from postrand.designers import UniformOffDiagonal
from postrand.objectives import MutualInformation
from postrand.plan import infer, writing
from postrand.plan.analyses import Model
from postrand.privacy import DifferentialPrivacy
from postrand.workflow.draft_decisions import Settles, decision_notes, perturbed_of
from postrand.workflow.epsilon import above_bound, meaning
from postrand.workflow.linked import joint_note, parts_of
from postrand.workflow.proposal import Proposal, Way, proposed

NOTE_WIDTH = 110
PLAN_HEAD = """\
Plan of a release: all decisions in one file. Paths are relative to this file.
Run it with: postrand protect --plan plan.toml --out release
"""
SOURCE_NOTE = """\
How the file is read, as it was found or given. Correct it here if something is wrong: nothing is guessed later."""
PRIVACY_NOTE = """The claim for all perturbed values of one record together: at least the sum of the blocks' epsilons.
A smaller epsilon protects more."""
UNIT_NOTE = """\
Who is protected beside the record: the certificate states the level of a household, and of a person with several
records. The numbers are public bounds, decided without the file; a file beyond them is refused."""
DESIGN_NOTE = """\
How the matrices are chosen, unless a block has its own choice.
prior = "uniform" reveals nothing about the file. prior = "file" tunes the matrices to the file's own frequencies and
keeps more information, but the guarantee does not cover this choice; the certificate says so."""
SPLIT_PRIVACY_NOTE = """\
The claim for all perturbed values of one record together: at least the epsilon of the split, to which those of
[[blocks]] would be added. A smaller epsilon protects more."""
SPLIT_NOTE = """\
A split release: each record shows one random subset of these variables, perturbed jointly with the whole epsilon."""
ONE_RECORD_NOTE = """\
unit = "household": one random record of each person shows its subset and stands for all of them, so a person spends the
epsilon of one record (docs/households.md). Without it each record shows one, and the epsilons of a person's add up."""
BLOCKS_NOTE = "One block for each perturbed variable. Several variables in one block are perturbed jointly."
RELEASE_NOTE = """\
format = "same" as the source, or {formats};
shuffle: put the records in random order; release_ids: release the record identifiers.
Households get new numbers; household_numbers = "as they are" keeps the file's numbers.
completed = 20 adds that many copies with plausible true values, for analysts with ordinary software."""
LEDGER_NOTE = """\
For a record that is in two releases the epsilons add up. A ledger counts every release of the same people
(docs/series.md).
[ledger]
file = "population.ledger"
population = "the people of this survey"
"""
ANALYSTS_NOTE = """\
What analysts will do, by name: 'postrand explain' and the page to sign say whether a release answers it, tried in
simulated releases."""


def plan_text(
    place: Mapping[str, str],
    drafts: Sequence[Mapping[str, Any]],
    each: Sequence[float],
    total: float,
    undecided: Mapping[str, float] | None = None,
    way: Way = "blocks",
    records: int | None = None,
    joint: Sequence[Sequence[str]] = (),
    settles: Settles | None = None,
    unit: Mapping[str, Any] | None = None,
    analyses: Sequence[Model] = (),
) -> str:
    """Return a commented plan: a block for each categorical key variable, or for each variable if all roles are empty.

    ``undecided`` maps unperturbed columns to the shares of the records that they single out. ``way``: blocks, a split
    release of the same variables, or the best of the two; ``records`` of the file, to warn if the worth is small.
    ``joint`` are variables that get one block together. ``total`` is the ε of a record, ``each`` that of each block.
    ``settles`` says which unperturbed columns settle which perturbed ones. ``unit`` is the section of this name.
    ``analyses`` are what analysts name; one of a column that has no draft is left out.
    """
    categorical = [d for d in drafts if infer.perturbs(d)]
    perturbed = perturbed_of(categorical)
    parts = parts_of(perturbed, joint)
    one_record = unit is not None and unit.get("household") == unit.get("person") is not None
    proposal = _proposal(categorical, perturbed, total, records, "split" if one_record and way == "best" else way)
    plan = tomlkit.document()
    _comment(plan, PLAN_HEAD)
    named = {name: text for name, text in place.items() if name not in formats.SETTINGS}
    if read_as := {name: text for name, text in place.items() if name in formats.SETTINGS}:
        _comment(plan, SOURCE_NOTE)
    plan["source"] = {**named, "codebook": "codebook.toml", **read_as}
    split = proposal.way == "split"
    said = [SPLIT_PRIVACY_NOTE if split else PRIVACY_NOTE, f"{meaning(total)}.", *above_bound(total)]
    _comment(plan, "\n".join([said[0], *(fill(text, NOTE_WIDTH, break_on_hyphens=False) for text in said[1:])]))
    plan["privacy"] = {"model": DifferentialPrivacy.name, "epsilon": total}
    if unit:
        _comment(plan, UNIT_NOTE)
        plan["unit"] = dict(unit)
    _comment(plan, DESIGN_NOTE)
    plan["design"] = {"structure": UniformOffDiagonal.name, "objective": MutualInformation.name, "prior": "uniform"}
    _comment(plan, RELEASE_NOTE.format(formats=_listed(formats.written_names())))
    plan["release"] = {"format": "same", "shuffle": True, "release_ids": False}
    if notes := decision_notes(undecided or {}, settles or {}, drafts):
        part: Any = plan["release"]
        for line in notes:
            part.add(tomlkit.comment(line))
        part["as_is"] = []
    together = joint_note(joint) if proposal.way == "blocks" else ""
    shown = f"\n{ONE_RECORD_NOTE}" if split and one_record else ""
    _comment(plan, f"{SPLIT_NOTE if split else BLOCKS_NOTE}{together}\n{proposal.reason}{shown}")
    if split:
        own = {"unit": "household"} if one_record else {}
        plan["split"] = {**own, "variables": perturbed, "epsilon": total, "workload": "pairs"}
    else:
        levels = [(perturbed, total)] if proposal.way == "joint" else list(zip(parts, each, strict=False))
        plan["blocks"] = writing.blocks_of(
            {"variables": names, "privacy": {"model": DifferentialPrivacy.name, "epsilon": level}}
            for names, level in levels
        )
    names = {draft["name"] for draft in drafts}
    if uses := [str(one) for one in analyses if names.issuperset(one.table)]:
        _comment(plan, ANALYSTS_NOTE)
        plan["analysts"] = {"uses": uses}
    _comment(plan, LEDGER_NOTE)
    return re.sub(r"(#.*)\n\n\[", r"\1\n[", tomlkit.dumps(plan)).lstrip()  # notes are directly above their section


def _proposal(
    drafts: Iterable[Mapping[str, Any]], names: Sequence[str], epsilon: float, records: int | None, way: Way
) -> Proposal:
    """Return what is proposed for these variables; blocks where a category cannot stand beside "not released"."""
    known = {draft["name"]: draft for draft in drafts}
    held = [known[name] for name in names]
    if any(NOT_RELEASED in map(str, draft["categories"]) for draft in held):
        way = "blocks"
    sizes = [len(draft["categories"]) + (draft.get("missing") == "category") for draft in held]
    return proposed(sizes, epsilon, records, way)


def _listed(named: Mapping[str, str]) -> str:
    """Return the formats that a plan can choose for a release, with their common names.

    >>> _listed({"csv": "CSV", "arrow": "Arrow IPC", "sav": "SPSS"})
    '"csv", "arrow" or "sav" (SPSS)'
    """
    texts = [f'"{name}"' + f" ({called})" * (not called.lower().startswith(name)) for name, called in named.items()]
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def _comment(document: tomlkit.TOMLDocument, text: str) -> None:
    document.add(tomlkit.nl())
    for line in text.strip().splitlines():
        document.add(tomlkit.comment(line))
