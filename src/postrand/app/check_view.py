"""The release check as a screen: what is perturbed, unchanged and left out, every finding, and the decisions wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app.checking import ReleaseCheck, RiskTable
from postrand.app.decisions import Decisions
from postrand.app.houses import is_offered
from postrand.app.houses_view import box, levels_view
from postrand.app.notes import without_options
from postrand.app.widgets import busy, button, control, cut, facts, scroll, trouble
from postrand.risk.findings import Finding
from postrand.support.showing import few
from postrand.workflow.column_ways import WAYS, ColumnWay, Way
from postrand.workflow.dossier import singled_row

MAX_NAMED, MAX_ROWS, MAX_SINGLED, MAX_CLAIMS = 12, 500, 15, 30
RISK = "Risk before and after"
IN_A_PLAN = "No form here does this: write it in the plan (see docs/households.md), and open that plan here."
"""What is said of a next step that only a plan can take."""
_ALWAYS: tuple[Way, ...] = ("perturbed", "as it is", "not released")
"""The ways that are counted also where no column leaves so."""


def check_view(decisions: Decisions, check: ReleaseCheck, decide: bool = True) -> TagList:
    """Return the whole release check; with ``decide`` also the controls of the decisions that it wants."""
    title = tags.h3("Release check") if decide else None
    parts: list[Any] = [title, _fates(check), _columns(decisions, check), *_messages(check), _remaining(check)]
    parts += _promises(check) if decide else []
    parts += [*_worth(check), *_policy(check)]
    parts.append(_findings(decisions, check, decide))
    parts += (
        [] if check.risk is None or decide else [tags.p(tags.strong(RISK)), *risk_table(check.risk, check.warnings)]
    )
    return TagList(*parts)


def risk_view(found: RiskTable | str | None, said: Sequence[str] = ()) -> TagList:
    """Return the risk of the plan, which is measured before anything is drawn; a text says why it is not known.

    ``said`` are the warnings that the check gives already.
    """
    head = tags.h3(RISK)
    if found is None:
        return TagList(head, busy("Measuring the risk of the plan …"))
    if isinstance(found, str):
        return TagList(head, trouble(found.split("\n")))
    return TagList(head, *risk_table(found, said))


def risk_table(found: RiskTable, said: Sequence[str]) -> list[Any]:
    """Return the table of risk, what is to be read before it and is not ``said`` yet, and the way to the details."""
    more = [tags.p(text) for text in found.warnings if text not in said]
    warned = [tags.div(*more, class_="warning")] if more else []
    if not found.rows:
        return [*warned, tags.p("No measure of risk is known for this plan.", class_="soft")]
    heads = ("Measure", *(["File as it came"] if found.is_recoded else []), "Before", "After")
    head = tags.tr(*(tags.th(h, scope="col", class_=None if k else "text") for k, h in enumerate(heads)))
    cells = [(one.named, *([one.as_is] if found.is_recoded else []), one.before, one.after) for one in found.rows]
    rows = [tags.tr(tags.th(name, scope="row"), *map(tags.td, values)) for name, *values in cells]
    words = f"Before: {found.before_is}. After: expected of a release by this plan, before any is drawn."
    return [
        *warned,
        scroll(tags.table(tags.thead(head), tags.tbody(*rows)), RISK),
        tags.p(words, class_="soft"),
        tags.details(tags.summary("Who the attackers are"), tags.ul(*map(tags.li, found.notes))),
        tags.p(
            "Class sizes, single variables and worst combinations: ",
            tags.button("Look at the risk of the file", type="button", data_screen="risk", class_="button small"),
        ),
    ]


def _fates(check: ReleaseCheck) -> Tag:
    shown = [(words, len(check.of(way))) for way, words in WAYS.items() if check.of(way) or way in _ALWAYS]
    return facts([(words, f"{many:,}") for words, many in shown])


def _columns(decisions: Decisions, check: ReleaseCheck) -> TagList:
    """Return the columns by what happens to them: some by name, and all in a table that can be opened."""
    lines = [tags.p(tags.strong(f"{words}: "), _some(check.of(way))) for way, words in WAYS.items() if check.of(way)]
    lines.append(tags.p(tags.strong("Order of the records: "), check.order))
    head = tags.tr(*(tags.th(name, scope="col", class_="text") for name in ("Variable", "In the release", "How")))
    rows = [
        tags.tr(
            tags.th(cut(one.name), scope="row"),
            tags.td(WAYS[one.way], class_="text"),
            tags.td(one.how, class_="text soft"),
        )
        for one in check.columns[:MAX_ROWS]
    ]
    left = len(check.columns) - MAX_ROWS
    more = tags.p(f"and {left:,} more: the plan lists them", class_="soft") if left > 0 else None
    table = scroll(tags.table(tags.thead(head), tags.tbody(*rows)), "What happens to each variable")
    return TagList(
        *lines, _sensitive(decisions, check), tags.details(tags.summary("Variable by variable"), table, more)
    )


def _sensitive(decisions: Decisions, check: ReleaseCheck) -> Tag | None:
    """Return a warning of the sensitive variables that are released as they are; None where there is none."""
    roles = dict(zip(decisions.names, decisions.roles, strict=True))
    held = [one for one in check.of("as it is", "recoded") if roles.get(one.name) == "sensitive"]
    words = (
        "The role sensitive protects nothing by itself: perturb them, or do not release them. Released as they are: "
    )
    return tags.p(words + _some(held) + ".", class_="warning") if held else None


def _some(columns: Sequence[ColumnWay]) -> str:
    return few([cut(one.name) for one in columns], MAX_NAMED)


def _messages(check: ReleaseCheck) -> list[Any]:
    """Return what would stop the run, and the warnings that are not findings on unperturbed variables."""
    parts: list[Any] = []
    if check.refusals:
        parts += [
            tags.p(tags.strong("This stops the release")),
            trouble([without_options(text) for text in check.refusals]),
        ]
    if check.warnings:
        parts += [tags.p(tags.strong("Warnings")), tags.div(*(tags.p(t) for t in check.warnings), class_="warning")]
    return parts


def _promises(check: ReleaseCheck) -> list[Any]:
    """Return what the release will promise, before it is made; a finished one says it of itself."""
    told = promised(check.promises, check.of_households, check.levels)
    return [tags.p(tags.strong("What the release will promise")), *told] if told else []


def _worth(check: ReleaseCheck) -> list[Tag]:
    """Return what tables of two variables are worth: one line, and below it the least useful of them."""
    first, *rest = check.worth or ("",)
    told = [tags.p(tags.strong("What it is worth: "), first)] if first else []
    return [*told, tags.details(tags.summary("Table by table"), tags.ul(*map(tags.li, rest)))] if rest else told


def _policy(check: ReleaseCheck) -> list[Tag]:
    """Return the verdict on each rule of the plan's policy, as ``postrand check`` gives it."""
    found = check.policy
    if found is None:
        return []
    rows = found.rows()
    head = tags.tr(*(tags.th(name, scope="col", class_="text") for name in rows[0]))
    body = [tags.tr(*(tags.td(without_options(str(value)), class_="text") for value in row.values())) for row in rows]
    met = sum(one.is_met for one in found.verdicts)
    said = f"{found.title}: {met:,} of {len(found.verdicts):,} rules are met. Before: {found.before_is}."
    notes = [*found.beside, *found.notes]
    table = scroll(tags.table(tags.thead(head), tags.tbody(*body)), "Rules of the policy")
    return [tags.p(tags.strong("Policy: "), said), table, *(tags.p(note, class_="soft") for note in notes)]


def promised(
    claims: Sequence[str], of_households: Sequence[str], levels: Sequence[tuple[int, float]]
) -> list[Tag | TagList]:
    """Return claims in plain words, those on households as a table by their size; nothing without claims."""
    told = [tags.li(text) for text in claims[:MAX_CLAIMS] if text not in of_households]
    return [tags.ul(*told), levels_view(levels)] if claims else []


def _remaining(check: ReleaseCheck) -> TagList | None:
    """Return what the unperturbed variables single out: all together, and each with one and two others."""
    if check.every is None:
        return None
    words = ": nobody else has the same values. Perturbing the other variables does not change this."
    words = f"{check.together}{words if check.every else '.'}"
    alone = [one.name for one in check.findings.singled if one.is_much]
    if alone and check.rest is not None:
        words += f" Without {', '.join(cut(n) for n in alone[:MAX_NAMED])}, they single out {100 * check.rest:.3g}%."
    rows = [singled_row(one) for one in check.findings.singled[:MAX_SINGLED]]
    table = None
    if rows:
        head = tags.tr(*(tags.th(name, scope="col", class_="text") for name in rows[0]))
        body = [
            tags.tr(*(tags.th(cut(str(v)), scope="row") if k == 0 else tags.td(cut(str(v))) for k, v in enumerate(r)))
            for r in (row.values() for row in rows)
        ]
        table = tags.details(
            tags.summary("What each of them singles out"),
            scroll(tags.table(tags.thead(head), tags.tbody(*body)), "Records that unperturbed variables single out"),
        )
    return TagList(tags.p(tags.strong("What remains unique: "), words), table)


def _findings(decisions: Decisions, check: ReleaseCheck, decide: bool) -> TagList:
    """Return every finding; one that needs a decision has its controls beside it."""
    found = check.findings
    if not found.found and not found.not_tried:
        none = "No unperturbed variable singles out more than 1% of the records."
        return TagList(tags.p(" ".join((none, *found.alone(), *found.quiet)), class_="soft"))
    wanted, told = sum(one.is_open for one in found.found), set[str]()
    words = f"{wanted} of the findings need a decision" if wanted > 1 else "One finding needs a decision"
    rest = [tags.li(text) for text in (*found.alone(), *found.quiet, *found.not_tried)]
    return TagList(
        tags.p(tags.strong("Findings on the released variables")),
        trouble(f"{words} before the file can be protected.") if wanted and decide else None,
        tags.ul(
            *(_finding(decisions, check, one, told if decide else None) for one in found.told),
            *rest,
            class_="findings",
        ),
    )


def _finding(decisions: Decisions, check: ReleaseCheck, one: Finding, told: set[str] | None) -> Tag:
    """Return one finding, with the decisions on its columns if it wants them, or if it has them.

    ``told`` are columns whose decisions another finding has; None: none are shown.
    """
    if one.code == "household":
        if not is_offered(decisions):
            return tags.li(f"{one.sentence}. {IN_A_PLAN}")
        boxes = [box(decisions, decisions.names.index(name)) for name in one.about if name in decisions.names]
        return tags.li(f"{one.sentence.partition('; to draw ')[0]}.", *(boxes if told is not None else []))
    is_about = one.is_open or one.is_decided
    held = [n for n in one.variables if is_about or (one.about and n in decisions.as_is)]
    held += one.about if one.code == "names" else []
    names = [] if told is None else [n for n in held if n in decisions.names and n not in told]
    if told is None or not names:
        return tags.li(one.sentence)
    told.update(names)
    rows = [tags.div(*_choices(decisions, name), class_="row") for name in names]
    wider = f". {check.together}." if check.every is not None and one.code == "singles-out" else ""
    return tags.li(one.sentence + wider, *rows, class_="open" if one.is_open else None)


def _choices(decisions: Decisions, name: str) -> tuple[Tag, Tag]:
    """Return what can be decided on an unperturbed column: it leaves as it is, or not at all."""
    at = decisions.names.index(name)
    listed = decisions.is_perturbed(at)
    taken = decisions.listed if listed else decisions.as_is
    box = control(
        "input",
        "listed" if listed else "as_is",
        str(at),
        type="checkbox",
        checked="checked" if name in taken else None,
    )
    what = f" List the values of {cut(name)} in the codebook" if listed else f" Release {cut(name)} as it is"
    label = tags.label(box, what, class_="field")
    return label, button(f"Do not release {cut(name)}", "drop", str(at), "small")
