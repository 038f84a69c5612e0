"""The content of each screen: decisions and results in, HTML out; the HTML library escapes every name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from htmltools import Tag, TagList, tags

from postrand.app import charts, documents, forms, houses_view, levels
from postrand.app.computations import MAX_SHOWN, Point
from postrand.app.decisions import Decisions
from postrand.app.plan_views import kept_parts
from postrand.app.split_views import PRIOR_WORDS, goal_form, priors, way_form
from postrand.app.widgets import busy, button, control, copyable, cut, facts, labelled, scroll, select, trouble
from postrand.errors import PostrandError
from postrand.privacy import DifferentialPrivacy, promise
from postrand.privacy.words import in_plain_words
from postrand.report import text
from postrand.support.exact import format_upper
from postrand.support.guesses import guesses_in_words
from postrand.support.showing import capital
from postrand.workflow.risk_left_out import keys_left_out

SYMBOLS = {"epsilon": "ε", "beta": "β", "alpha": "α"}
COARSER = "Next: on the screen Data, make it coarser under Edit, or choose the role drop."


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
    left = [f"{capital(said)}. {COARSER}" for said in without]
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
    if len(words) <= most:
        return words
    kept = words[:most]
    return (kept.rpartition("\n")[0] or kept) + "\n# … the downloaded file continues\n"
