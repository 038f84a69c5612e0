"""The content of each screen: decisions and results in, HTML out; the HTML library escapes every name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app import charts, documents, forms, houses_view, levels
from postrand.app.charts import cut, scroll
from postrand.app.computations import MAX_SHOWN, Point
from postrand.app.decisions import PAGE, Decisions
from postrand.app.editor_views import TYPE_TEXT
from postrand.app.notes import in_words
from postrand.app.plan_views import kept_parts
from postrand.app.split_views import PRIOR_WORDS, goal_form, priors, way_form
from postrand.app.widgets import busy, button, control, copyable, facts, labelled, select, trouble
from postrand.codebook.variable import ROLES
from postrand.errors import PostrandError
from postrand.plan.numbering import number_note
from postrand.privacy import DifferentialPrivacy, promise
from postrand.privacy.words import in_plain_words
from postrand.report import text
from postrand.support.exact import format_upper
from postrand.support.guesses import guesses_in_words
from postrand.workflow.comparison_risk import keys_left_out
from postrand.workflow.draft import perturbs

SYMBOLS = {"epsilon": "ε", "beta": "β", "alpha": "α"}
ROLE_TEXT = {
    "": "choose …",
    "key": "key: identifying",
    "sensitive": "sensitive",
    "other": "other: released",
    "weight": "weight",
    "household": "household",
    "record_key": "record number",
    "drop": "drop: not released",
}
SENSITIVE = "perturb it, or it is released as it is"
UNCOUNTED = "without categories: no measure of risk counts it, and it is not perturbed; see Edit"
COARSER = "Next: on the screen Data, make it coarser under Edit, or choose the role drop."
ONE_VALUE = "one value only: there is nothing to perturb, and it is released as it is"


# -- screen 1: data ---------------------------------------------------------------------------------------------------


def status(decisions: Decisions, waiting: str = "") -> Tag:
    """Return one line about the open file; ``waiting``: one that can be opened once it is said how it is read."""
    if decisions.opened is None:
        return tags.span(f"{cut(waiting)} waits for a choice" if waiting else "No file is open")
    o = decisions.opened
    demo = " (demonstration)" if o.is_demo else ""
    sizes = f"{_many(o.rows, 'record')} · {_many(len(o.drafts), 'variable')} · {len(decisions.perturbed):,} perturbed"
    words = f"{cut(o.name)}{demo} · {sizes}"
    return tags.span(words)


def is_open(decisions: Decisions) -> Tag | None:
    """Return which file is open, where one is opened; a screen reader says it when another one is."""
    if decisions.opened is None:
        return None
    o = decisions.opened
    sizes = f"{_many(o.rows, 'record')}, {_many(len(o.drafts), 'variable')}"
    words = f"{cut(o.name)} is open: {sizes}. Choose the roles in the table."
    return tags.p(words, role="status")


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def variables(decisions: Decisions, waiting: str = "") -> TagList:
    """Return the table of variables with their roles; ``waiting`` as for :func:`status`."""
    if decisions.opened is None:
        words = "Choose above how the file is read" if waiting else "Open a file"
        return TagList(tags.p(f"{words} to see its variables.", class_="soft"))
    shown, matching = listed(decisions)
    head = ["Variable", "Role", "Perturb", "Categories", "Missing", "First categories"]
    cells = [
        tags.th(h, scope="col", class_="text" if h in ("Variable", "Role", "First categories") else None) for h in head
    ]
    table = tags.table(
        tags.thead(tags.tr(*cells)), tags.tbody(*(_variable(decisions, j) for j in shown)), class_="variables"
    )
    asked = _asked(decisions)
    return TagList(asked, _filter(decisions, matching), scroll(table, "Variables"), _pages(decisions, matching))


def listed(decisions: Decisions) -> tuple[tuple[int, ...], int]:
    """Return the columns on the current page, and the number of columns that match the search."""
    wanted = decisions.find.casefold()
    drafts = () if decisions.opened is None else decisions.opened.drafts
    found = [j for j, d in enumerate(drafts) if wanted in f"{d['name']} {d.get('label', '')}".casefold()]
    start = min(decisions.page, max(0, (len(found) - 1) // PAGE)) * PAGE
    return tuple(found[start : start + PAGE]), len(found)


def _asked(decisions: Decisions) -> Tag | None:
    """Return which variables still need a role, where others have one; None where all or none have."""
    unset = decisions.unset
    if not 0 < len(unset) < len(decisions.roles):
        return None
    named = ", ".join(cut(decisions.names[j]) for j in unset[:12])
    more = f" and {len(unset) - 12:,} more" if len(unset) > 12 else ""
    one = "1 variable has" if len(unset) == 1 else f"{len(unset):,} variables have"
    words = f"{one} no role yet: {named}{more}. Choose one for each below: until then nothing can be protected."
    return tags.p(words, class_="warning", role="status")


def _filter(decisions: Decisions, matching: int) -> Tag:
    unset = len(decisions.unset)
    parts = []
    if len(decisions.roles) > 12 or decisions.find:
        box = control("input", "find", type="search", value=decisions.find, placeholder="name or label")
        parts.append(labelled(f"Find ({matching:,} of {len(decisions.roles):,})", box))
    if unset:
        words = f"Give all {unset:,} variables without a role the role"
        roles = ("key", "sensitive", "other", "drop")
        named = (button(r, "rest", r, "small", aria_label=f"{words} {r}") for r in roles)
        parts.append(tags.div(tags.span(f"{words}:", class_="name"), *named, class_="row"))
    return tags.div(*parts, class_="row")


def _variable(decisions: Decisions, j: int) -> Tag:
    assert decisions.opened is not None
    draft = decisions.opened.drafts[j]
    name, categories = str(draft["name"]), draft.get("categories", [])
    kind = str(draft.get("type", "string"))  # a codebook leaves the usual one out
    texts = draft.get("labels") or [str(c) for c in categories]
    some = ", ".join(cut(t) for t in texts[:4]) + (" …" if len(texts) > 4 else "")
    perturb: Tag | str = "–"
    if perturbs(draft) and decisions.roles[j] in ("key", "sensitive", "other"):
        checked = "checked" if decisions.is_perturbed(j) else None
        perturb = control(
            "input", "perturb", str(j), type="checkbox", checked=checked, **{"aria-label": f"Perturb {cut(name)}"}
        )
    number = number_note(name) if decisions.roles[j] not in ("household", "record_key", "drop") else ""
    told = dict.fromkeys([*([number] if number else []), *draft.get("notes", ())])
    notes = [tags.span(in_words(note), class_="soft note") for note in list(told)[:2]]
    role = select("role", str(j), decisions.roles[j], [(r, ROLE_TEXT[r]) for r in ("", *ROLES)], f"Role of {cut(name)}")
    can = perturbs(draft) or not categories
    is_bare = decisions.roles[j] == "sensitive" or (decisions.roles[j] == "key" and not can)
    is_uncounted = decisions.roles[j] == "key" and not categories
    is_bare = is_bare and not decisions.is_perturbed(j)
    bare = UNCOUNTED if is_uncounted else "" if not is_bare else SENSITIVE if can else ONE_VALUE
    edit = tags.div(button("Edit", "edit", str(j), "small", aria_label=f"Edit {cut(name)}"))
    share = decisions.opened.missing[j] / max(decisions.opened.rows, 1)
    return tags.tr(
        tags.th(cut(name), tags.span(cut(draft.get("label", "")), class_="soft"), *notes, edit, scope="row"),
        tags.td(role, tags.span(bare, class_="soft") if bare else None, class_="text"),
        tags.td(perturb),
        tags.td(f"{len(categories):,}" if categories else "–"),
        tags.td(f"{100 * share:.1f}%"),
        tags.td(some or TYPE_TEXT.get(kind, kind), class_="text soft"),
    )


def _pages(decisions: Decisions, matching: int) -> Tag | None:
    pages = -(-matching // PAGE)
    if pages <= 1:
        return None
    at = min(decisions.page, pages - 1)
    return tags.div(
        button("Previous", "page", str(at - 1), "small", disabled="disabled" if at == 0 else None),
        tags.span(f"Page {at + 1:,} of {pages:,}", class_="soft"),
        button("Next", "page", str(at + 1), "small", disabled="disabled" if at == pages - 1 else None),
        class_="row",
    )


# -- screen 2: risk ---------------------------------------------------------------------------------------------------


def risk_form(decisions: Decisions) -> TagList:
    """Return the choices for the risk."""
    value = "" if decisions.fraction is None else f"{100 * decisions.fraction:g}"
    box = control("input", "fraction", type="number", min="0", max="100", step="any", value=value, inputmode="decimal")
    keys = ", ".join(cut(k) for k in decisions.keys[:20]) or "none yet: choose the role key for identifying variables"
    needed = "Needed for τ1 and τ2. Without it the sampling weight is used, if a variable has that role."
    meaning = (
        "τ1 is the expected number of sample uniques that are also unique in the population. τ2 is the expected number "
        "of correct matches if each sample unique is matched once with the population."
    )
    ranked = [name for one in decisions.kept.get("numerical", ()) for name in one["variables"]]
    without = () if decisions.opened is None else keys_left_out(documents.codebook_of(decisions), ranked)
    left = [f"{said[0].upper()}{said[1:]}. {COARSER}" for said in without]
    return TagList(
        tags.p(tags.strong("Keys: "), keys),
        trouble(left) if left else None,
        labelled("Share of the population in this file, %", box, needed),
        tags.p(meaning, class_="soft"),
    )


# -- screen 3: design -------------------------------------------------------------------------------------------------


def design_form(decisions: Decisions) -> TagList:
    """Return the choices of model, objective and structure, each with its explanation and options."""
    chosen = select("prior", "", decisions.prior, priors(decisions), "")
    prior = labelled("Tune the matrices to these shares", chosen, PRIOR_WORDS.get(decisions.prior, ""))
    kept = kept_parts(decisions)
    if decisions.is_of_plan:
        return TagList(way_form(decisions), kept)
    if decisions.splits:
        return TagList(way_form(decisions), goal_form(decisions), prior, kept)
    try:
        reasons = forms.unsuited(decisions.make("privacy"), decisions.make("objective"))
    except PostrandError:  # an unfinished form: the output explains the problem
        reasons = {}
    return TagList(
        way_form(decisions),
        _family(decisions, "privacy", "model", "Privacy model", {}),
        _family(decisions, "objective", "objective", "What to keep", {}),
        _family(decisions, "structure", "structure", "Shape of the matrices", reasons),
        goal_form(decisions),
        houses_view.form(decisions),
        prior,
        kept,
    )


def _family(decisions: Decisions, family: str, act: str, words: str, reasons: dict[str, str]) -> Tag:
    chosen = str(getattr(decisions, "model" if family == "privacy" else family))
    kind = forms.member(family, chosen)
    named = [(n, forms.title(family, n)) for n in forms.names(family)]
    listed_ = select(act, "", chosen, [one for one in named if not reasons.get(one[0])], words)
    unfit = [tags.option(text, value=n, selected=_selected(n == chosen)) for n, text in named if reasons.get(n)]
    listed_.append(tags.optgroup(*unfit, label="Not with the other choices") if unfit else None)
    why = [tags.li(f"{text}: {forms.in_titles(reasons[n])}.") for n, text in named if reasons.get(n)]
    level = forms.level_of(kind) if family == "privacy" else None
    boxes = [_box(decisions, family, chosen, f) for f in forms.fields_of(kind) if level is None or f.name != level.name]
    return tags.fieldset(
        tags.legend(words),
        listed_,
        tags.p(f"{forms.explain(kind)} A plan calls it “{chosen}”.", class_="soft"),
        tags.p(forms.in_titles(reasons[chosen]), class_="soft") if reasons.get(chosen) else None,
        tags.details(tags.summary("Why the others cannot be chosen"), tags.ul(*why), class_="soft") if why else None,
        *boxes,
    )


def _selected(is_chosen: bool) -> str | None:
    return "selected" if is_chosen else None


def _box(decisions: Decisions, family: str, chosen: str, field: forms.Field) -> Tag:
    value = decisions.form(family).get(field.name, field.initial)
    key = f"{family}.{chosen}.{field.name}"
    if field.choices:
        return labelled(field.name, select("option", key, value, [(c, c) for c in field.choices], ""))
    if field.kind == "toggle":
        checked = "checked" if value == "true" else None
        return tags.label(
            control("input", "option", key, type="checkbox", checked=checked), f" {field.name}", class_="field"
        )
    numeric = field.kind in ("number", "whole")
    step = "1" if field.kind == "whole" else "any"
    box = control(
        "input", "option", key, type="number" if numeric else "text", value=value, step=step if numeric else None
    )
    return labelled(field.name, box, "optional" if field.optional else "")


def level_control(decisions: Decisions) -> TagList:
    """Return the slider and the number box of the model's level, linked to each other."""
    kind = DifferentialPrivacy if decisions.splits else forms.member("privacy", decisions.model)
    level = forms.level_of(kind)
    if level is None or decisions.is_of_plan:
        return TagList()
    symbol, key = SYMBOLS.get(level.name, level.name), f"privacy.{decisions.model}.{level.name}"
    words, hint = f"{symbol} of each variable" if decisions.is_plain else f"{symbol} of each block", level.hint
    value = decisions.form("privacy").get(level.name)
    value = value if value else next(f.initial for f in forms.fields_of(kind) if f.name == level.name)
    if decisions.splits or decisions.divides:
        words, key, value = levels.level_box(decisions)
        hint = "smaller protects more" + ("; it is not divided among the variables" if decisions.splits else "")
    grid = ",".join(f"{x:g}" for x in level.grid)
    near = min(range(len(level.grid)), key=lambda k: abs(level.grid[k] - _float(value)))
    slider = tags.input(type="range", min="0", max=str(len(level.grid) - 1), value=str(near), data_grid=grid,
                        data_for="level-number", id="level-slider", aria_label=f"{symbol}, slider",
                        aria_valuetext=f"{value}")  # fmt: skip
    number = control(
        "input", "option", key, type="number", step="any", min="0", value=value, id="level-number", data_live="yes"
    )
    return TagList(
        tags.div(tags.label(words, for_="level-number"), number, class_="row level"),
        slider,
        tags.p(f"{symbol}: {hint}" if hint else "", class_="soft"),
    )


def _float(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return 1.0


def readout(
    decisions: Decisions,
    now: Point,
    cell_error: float | None,
    pair: Sequence[str],
    total: float | None = None,
) -> TagList:
    """Return the effect of the level: for an attacker, for a share, and for a cell of the table of a pair.

    ``total``: the ε of a record, where the variables do not have the same.
    """
    total = now.made.matrix.epsilon * len(decisions.perturbed) if total is None else total
    many = [("ε of a whole record, at most", format_upper(total))] if total < 1e4 else []

    def beside(value: str, words: str) -> TagList:
        return TagList(value, tags.span(words, class_="soft"))

    shown: list[tuple[str, Any]] = [
        ("Released unchanged", f"{100 * now.unchanged:.1f}%"),
        (
            "Correct guess of the true value",
            beside(f"{100 * now.guess:.1f}%", f"{100 * now.blind:.1f}% without the release"),
        ),
        ("A share, ± (95%)", beside(_points(now.error), f"{_points(now.plain)} unprotected")),
    ]
    if cell_error is not None:
        shown.append((f"A cell of {' × '.join(cut(n) for n in pair)}, ± (95%)", _points(cell_error)))
    level, size = now.made.matrix.epsilon, now.made.matrix.size
    said = guesses_in_words(level, size) if math.isfinite(level) else promise(decisions.make("privacy"), size)
    return TagList(
        facts([*shown, *many]),
        tags.p(_promised(decisions, total, said)),
        tags.p(now.made.message, class_="soft"),
    )


def _promised(decisions: Decisions, total: float, said: str) -> str:
    """Return the promise on all perturbed variables together, where there are several, and that on one of them."""
    head, names = "The promise, whatever else an attacker knows", [cut(decisions.names[j]) for j in decisions.perturbed]
    if len(names) < 2 or not 0 < total < math.inf:
        return f"{head}: {said}."
    return f"{head}. {in_plain_words(DifferentialPrivacy(total), names, 2)} One variable by itself: {said}."


def _points(error: float) -> str:
    """Return ± 95% of a share, of a standard error: plain numbers, also where a share can be anything."""
    if not error < 10:
        return "cannot be corrected"
    half = 195.996 * error
    number = f"{half:.2g}" if half < 99.5 else f"{half:,.0f}"
    return f"{number} point{'' if number == '1' else 's'}"


def map_view(decisions: Decisions, curve: Sequence[Point], now: Point, waiting: bool) -> TagList:
    """Return the risk-utility map with its table."""
    level = forms.level_of(forms.member("privacy", decisions.model))
    symbol = SYMBOLS.get(level.name, level.name) if level else ""
    can_take = bool(level) and not decisions.divides  # a shared level is that of the record, not of this variable
    rows = [_map_row(p, symbol, p is now, can_take) for p in sorted([*curve, now], key=lambda p: p.level)]
    head = (symbol, "Unchanged", "Correct guess", "A share, ± (95%)", *([""] if can_take else []))
    table = tags.table(tags.thead(tags.tr(*(tags.th(h, scope="col") for h in head))), tags.tbody(*rows))
    words = "Up: an attacker's chance to guess the true value. Right: less precise shares. Large dot: your choice."
    words += " Take a point to use its level for every variable." if can_take else ""
    drawn = charts.tradeoff(curve, now, symbol, can_take)
    return TagList(
        tags.h3(f"Risk–utility map of {cut(decisions.names[decisions.shown])}"),
        tags.p(words, class_="soft"),
        tags.div(drawn, scroll(table, "The map as a table"), class_="beside"),
        busy("Drawing the whole range …") if waiting else None,
    )


def _map_row(one: Point, symbol: str, is_used: bool, can_take: bool) -> Tag:
    """Return a level of the map; one that can be taken has a button."""
    words = "In use" if is_used else "Take"
    take = button(words, "level", f"{one.level:g}", "small", aria_label=f"{words}: {symbol} = {one.level:g}")
    return tags.tr(
        tags.th(f"{one.level:g}", scope="row"),
        tags.td(f"{100 * one.unchanged:.1f}%"),
        tags.td(f"{100 * one.guess:.1f}%"),
        tags.td(_points(one.error)),
        tags.td(take) if can_take else None,
        class_="same" if is_used else None,
    )


def matrix_view(labels: Sequence[str], now: Point, name: str) -> TagList:
    """Return the matrix as a heat map of numbers, or its summary where it is large."""
    matrix = now.made.matrix.array
    words = "Probability, in per cent, of each released value (columns) given the true value (rows). Framed: unchanged."
    if len(labels) > MAX_SHOWN:
        low, high = float(matrix.diagonal().min()), float(matrix.diagonal().max())
        return TagList(
            tags.h3("Matrix"),
            tags.p(
                f"{len(labels):,} by {len(labels):,} probabilities; unchanged with {text.percent(low)} to "
                f"{text.percent(high)} per cent."
            ),
        )
    return TagList(tags.h3("Matrix"), tags.p(words, class_="soft"), charts.heat(matrix, labels, cut(name)))


def chooser(decisions: Decisions, act: str, key: str, at: int, words: str) -> Tag:
    """Return a list of the perturbed variables."""
    return labelled(
        words, select(act, key, str(at), [(str(j), cut(decisions.names[j])) for j in decisions.perturbed], "")
    )


# -- screen 6: download -----------------------------------------------------------------------------------------------


def take_view(decisions: Decisions, folder: Path) -> TagList:
    """Return the plan, the codebook and the command line with the same result."""
    missing = documents.problems(decisions)
    parts: list[Any] = [trouble(missing)] if missing else []
    if not missing:
        try:
            parts.append(document("The plan, as text", "plan.toml", documents.plan_toml(decisions, folder)))
        except PostrandError as error:  # an invalid form has its own message
            parts.append(trouble(error.told))
    parts.append(document("The codebook, as text", "codebook.toml", documents.codebook_toml(decisions)))
    return TagList(*parts)


def document(title: str, name: str, words: str) -> Tag:
    """Return a document below its title, closed until it is opened: most people read the screens, not the files."""
    return tags.details(tags.summary(title), copyable(cut_text(words), name))


def cut_text(words: str, most: int = 60_000) -> str:
    """Return a text that is short enough for a page; the download contains all of it."""
    return words if len(words) <= most else words[:most] + "\n# … the downloaded file continues\n"
