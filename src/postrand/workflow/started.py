"""What 'postrand init' has made, and says of it: counts and the most important names; the codebook has all others."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postrand import formats
from postrand.codebook.survey_design import SurveyDesign, seems_clusters, seems_strata
from postrand.errors import sentence
from postrand.plan import infer, weighing
from postrand.plan.free_texts import HOLDING
from postrand.plan.numbering import numbers_members
from postrand.report.table_worth import TOO_FEW
from postrand.risk.finding import KEYS
from postrand.support.showing import few, unshown
from postrand.workflow.advice_needs import USES
from postrand.workflow.design_refusals import refused
from postrand.workflow.repeated_values import words_of

MOST_LINES = 4
"""Links, and settled variables, that are said at once."""
NAMES = 12
"""Columns that are named at once."""


@dataclass(frozen=True, slots=True)
class Started:
    """Hold the paths of codebook and plan, the variables without a role, and the columns that need a decision.

    ``undecided``: the columns that single out persons and whose role somebody chose. ``settings``: how the file is
    read, where its suffix does not tell; the plan states them. ``linked``: what is proposed for variables that follow
    from others. ``epsilon``: the plan's claim on a record. ``settling``: the columns, alone or two together, that would
    leave unperturbed and all but settle true values of a perturbed one; ``settled`` says how far, a sentence for each
    perturbed variable. ``is_small``: the file has fewer than ``LEAST_RECORDS`` records. ``starred``: what ``*``
    releases as it is, and ``unreleased`` what it drops. ``numbers``: those without a role that seem to number persons
    or households, ``distinct`` those of them with another value in each record; ``groups`` those that do by their
    values, with the columns that stay the same in one of them. ``swallowed``: what is told of codes for no answer that
    recodes count as values. ``declared``: variables with the codes that recodes make missing because the file declares
    them. ``alike``: the variables with categories that differ only by spaces or capital letters, with those that many
    records have. ``bodies``: columns with the name of a weight that look like the weight of a body, with their roles;
    ``texts`` those of free text; ``silent``: the variables with values that can mean no answer, and count as answers.
    ``repeating`` record keys whose values repeat. ``contradicted``: what the records say against roles and bounds.
    ``neighbours``: what is said of records that belong together without a number.
    ``not_asked``: categories of whom a question does not concern that are the same records.
    ``roles``: the number of columns with each role, empty for none. ``keys``: those without categories, which would
    leave unperturbed.
    """

    codebook: Path
    plan: Path
    without_role: tuple[str, ...]
    undecided: tuple[str, ...]
    settings: formats.ReadSettings
    epsilon: float
    linked: tuple[str, ...] = ()
    is_small: bool = False
    starred: tuple[str, ...] = ()
    unreleased: tuple[str, ...] = ()
    settling: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    swallowed: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    bodies: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    repeating: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    roles: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a column needs a role or a decision before anything is released."""
        return bool(self.without_role or self.undecided or self.settling or self.texts or self.keys)

    def lines(self, source: str, given: Mapping[str, Any], uses: Iterable[str] = USES) -> list[str]:
        """Return what is said of a draft of the file ``source``; ``given`` are the roles and names that were typed.

        ``uses``: what analysts will do.
        """
        told = self.settings.to_dict()
        lines = [f"read {source} with {_told(told)}"] if told else []
        lines += [f"wrote {self.codebook}: {self._columns()}", f"wrote {self.plan}"]
        more = unshown(len(self.linked), MOST_LINES)
        lines += [f"linked: {text}" for text in self.linked[: len(self.linked) - more]]
        if more:
            lines.append(f"linked: {more:,} more; the notes in {self.codebook} say which")
        if self.starred:
            names = few(self.starred, NAMES)
            lines.append(f"released as they are, by '*': {names}; give free text the role 'drop'")
        lines += self._dropped(given)
        if self.distinct:
            what = "no role, because it seems to number persons, and all values are different: "
            what += few(self.distinct, NAMES)
            fix = f"set role = 'record_key' in {self.codebook} if they identify records, else 'drop'"
            lines.append(sentence(what, fix=fix))
        if numbers := [name for name in self.numbers if name not in self.groups and name not in self.distinct]:
            what = f"no role, because it seems to number or name persons or households: {few(numbers, NAMES)}"
            fix = f"set role = 'household', 'record_key' or 'drop' in {self.codebook}; one that tells which records "
            fix += "are one person's is given as --person; where it numbers clusters that were drawn, such as schools, "
            fix += "errors without it are usually too small: [survey] says what is not released, and by how much "
            fix += "('postrand clusters --plan')"
            lines.append(sentence(what, fix=fix))
        lines += [words_of(name, same) for name, same in self.groups.items()]
        lines += [f"warning: {text}" for text in self.neighbours]
        if self.texts:
            fix = f"set role = 'drop' in {self.codebook}"
            what = f"{HOLDING}: {few([*self.texts], NAMES)}"
            lines.append(f"warning: {sentence(what, fix=fix)}")
        lines += [f"warning: {name}: {infer.REPEATED}" for name in self.repeating]
        lines += [f"warning: {text}" for text in self.contradicted]
        lines += self._bodies()
        if self.declared:
            what = f"missing, as the file declares it: {few(self.declared, MOST_LINES)}"
            lines.append(f"{what}; entries of [[recodes]] in {self.codebook} say so")
        if self.silent:
            what = f"values that can mean no answer count as answers: {few(self.silent, MOST_LINES)}"
            fix = (
                f"where they mean it, uncomment missing_codes in {self.codebook}: means and regressions leave them out"
            )
            lines.append(f"warning: {sentence(what, fix=fix)}")
        lines += [f"warning: {text}" for text in self.swallowed]
        lines += [f"not asked: {text}" for text in self.not_asked]
        if self.alike:
            what = f"categories that differ only by spaces or capital letters: {few(self.alike, MOST_LINES)}"
            typed = shlex.join(["postrand", "recode", str(self.codebook), "--plan", str(self.plan), "--write"])
            fix = f"if they mean the same, uncomment their [[recodes]] at the end of {self.codebook}, and run: {typed}"
            lines.append(f"warning: {sentence(what, fix=fix)}")
        plan, book = (tomllib.loads(place.read_text(encoding="utf-8")) for place in (self.plan, self.codebook))
        lines += _sensitive(plan, book["variables"])
        if given.get("weight"):
            lines += _survey(given, plan, book["variables"], uses)
        if self.is_small:
            lines.append(f"warning: {sentence(TOO_FEW, fix='give a larger file')}")
        return [*lines, *self._next(given)]

    def _bodies(self) -> list[str]:
        """Return what is said of columns that can be the weight of a body as well as of a sample."""
        lines = [f"warning: {name}: {weighing.GIVEN}" for name, role in self.bodies.items() if role]
        if names := [name for name, role in self.bodies.items() if not role]:
            what = f"not taken as a sampling weight, because it looks like the weight of a body: {few(names, NAMES)}"
            lines.append(sentence(what, fix=f"if it is one, set role = 'weight' in {self.codebook}"))
        return lines

    def _dropped(self, given: Mapping[str, Any]) -> list[str]:
        """Return what '*' drops, and what is lost with the number of the members of a household."""
        if not self.unreleased:
            return []
        lines = [f"not released, by '*': {few(self.unreleased, NAMES)}"]
        members = [name for name in self.unreleased if numbers_members(name)] if given.get("household") else []
        if members:
            what = f"{few(members, NAMES)}: not released, and seems to number the members of a household: other files "
            what += "of the survey, such as diaries, cannot be joined to the records without it"
            fix = f"if analysts need it, set role = 'other' in {self.codebook}: it is then released as it is"
            lines.append(f"warning: {sentence(what, fix=fix)}")
        return lines

    def _columns(self) -> str:
        named = [f"{number:,} {role}" for role, number in self.roles.items() if role]
        empty = self.roles.get("", 0)
        named += [f"{empty:,} without a role"] if empty else []
        total = sum(self.roles.values())
        return f"{total:,} column{'s' * (total != 1)}; {', '.join(named)}"

    def _next(self, given: Mapping[str, Any]) -> list[str]:
        """Return what to do next: what is to be decided, and the command to type then."""
        lines = []
        if self.without_role:
            lines.append(f"Next: set the role of {few(self.without_role, NAMES)}, in {self.codebook}")
        if decide := [n for n in self.undecided if not (self.is_small and n in given.get("key", ()))]:
            each = "it singles" if len(decide) == 1 else "each singles"
            what = f"Next: decide on {few(decide, NAMES)}: released unperturbed, {each} out more than 1% of the records"
            lines.append(f"{what}. The notes in {self.plan} explain the choices")
        if self.keys:
            lines.append(
                f"Next: decide on {few(self.keys, NAMES)}: {KEYS}. The notes in {self.plan} explain the choices"
            )
        if self.settling:
            they = "it all but settles" if len(self.settling) == 1 else "they all but settle"
            what = f"Next: decide on {few(self.settling, NAMES)}: released unperturbed, {they} true values of perturbed"
            lines.append(f"{what} variables. The notes in {self.codebook} explain the choices")
            more = unshown(len(self.settled), MOST_LINES)
            lines += [f"  {text}" for text in self.settled[: len(self.settled) - more]]
            lines += [f"  and {more:,} more; the notes in {self.codebook} say which"] * bool(more)
        design = f"postrand design --plan {shlex.quote(str(self.plan))}"
        return [*lines, f"Then: {design}" if self.is_open else f"Next: read both files, then: {design}"]


FRESH_NUMBERS = "or release new numbers of them in a column that analysts name as psu (role = 'other')"
_PERTURB_TOO = "perturb them too (--perturb-also), or set role = 'drop'"


def _perturbed(plan: Mapping[str, Any]) -> set[str]:
    """Return the variables that a plan perturbs, or moves in rank."""
    parts = (plan.get("split", {}), *plan.get("blocks", ()), *plan.get("numerical", ()))
    return {name for one in parts for name in (*one.get("variables", ()), one.get("variable", ""))}


def _sensitive(plan: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the warning that sensitive columns leave unperturbed; nothing where none does."""
    perturbed = _perturbed(plan)
    names = [one["name"] for one in columns if one.get("role") == "sensitive" and one["name"] not in perturbed]
    if not names:
        return []
    what = f"sensitive, and released unperturbed: {few(names, NAMES)}; the role alone protects nothing"
    return [f"warning: {sentence(what, fix=_PERTURB_TOO)}"]


def _survey(
    given: Mapping[str, Any], plan: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], uses: Iterable[str]
) -> list[str]:
    """Return the survey design to record where a weight is named, its clusters, and what it costs a plan.

    Clusters are households, unless a column that is released seems to number larger ones; one that is not is named.
    Strata are those that a column seems to have that is released and not perturbed.
    """
    blurred = _perturbed(plan)
    drawn = {one["name"]: one.get("role") for one in columns if seems_clusters(one["name"], one.get("label", ""))}
    released = [name for name, role in drawn.items() if role in ("other", "sensitive")]
    clusters = (*released, *given.get("household", ()))[:1]
    held = [one for one in columns if seems_strata(one["name"], one.get("label", ""))]
    strata = [one["name"] for one in held if one.get("role") in ("other", "sensitive") and one["name"] not in blurred]
    lost = [] if released else [name for name, role in drawn.items() if role in ("drop", "", None)]
    named = [f'strata = "{name}"' for name in strata[:1]]
    named += [f'psu = "{name}"' for name in clusters] + ['not_released = ["psu"]'] * bool(lost)
    parts = ", ".join([f'weights = "{given["weight"][0]}"', *named])
    what = f"so that estimates use the weight, add [survey] to codebook.toml: {parts}"
    split = plan.get("split", {}).get("variables", ())
    gone = refused(SurveyDesign(weights=given["weight"][0]), split, split)
    costs = [f"warning: with it, {str(one).partition(', ')[2]}" for one in gone if {*one.uses} & {*uses}]
    if lost:
        instead = " in place of psu" * bool(clusters)
        fix = f"'postrand clusters --plan' measures by how much: state it as cluster_effect{instead}; {FRESH_NUMBERS}"
        they, are = ("seem", "are") if len(lost) > 1 else ("seems", "is")
        warned = f"{few(lost, NAMES)} {they} to number the clusters that were drawn, and {are} not released: standard "
        warned += "errors are then without these clusters, usually too small"
        costs.append(f"warning: {sentence(warned, fix=fix)}")
    which = "psu: the clusters that were drawn, if they are larger; strata only if they are not perturbed"
    return [f"{what} ({which}; docs/survey-design.md)", *costs]


def _told(settings: Mapping[str, str]) -> str:
    """Return the settings of a file in words."""
    return ", ".join(f"{name} {formats.named(text) if len(text) == 1 else text}" for name, text in settings.items())
