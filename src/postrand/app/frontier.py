"""The frontier of the whole file: what each level of a record buys, in each way of release, and which meet a target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from postrand.app import documents, forms, goals
from postrand.app.decisions import Decisions
from postrand.app.designing import Latest, worths
from postrand.engines.database import open_records
from postrand.errors import PostrandError, UsageError, raise_all, sentence
from postrand.mechanism import Mechanism
from postrand.privacy import DifferentialPrivacy
from postrand.report.table_worth import harmonic, mean_worth
from postrand.risk.exposure import TrueFile
from postrand.workflow.advice_needs import Precision
from postrand.workflow.comparison_risk import risk_figures
from postrand.workflow.dossier_risk import assess
from postrand.workflow.half_widths import Drawn, drawn_of, half_width

PREFIX = "frontier."
"""How the texts of its form begin among all that is typed."""
LEVELS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
WAYS = {"separate": "each variable by itself", "blocks": "the blocks as they are", "split": "a split"}
SHAPE = "shape-"
"""How the ways begin that are matrices of another shape, each variable by itself."""
QUICK = ("uniform-off-diagonal", "symmetric", "circulant")
"""Shapes that are designed at once at every level; ``general`` takes up to half a minute at each."""
MEASURES = {
    "correct_matches": "correct matches, informed attacker",
    "individual_risk_largest": "largest risk of one person",
    "tau2": "τ2, correct matches by a register",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Hold what must be kept: ± percentage points in every cell of a table, and a measure of risk; each can be absent.

    ``points`` and ``limit`` are None where nothing is asked.
    """

    table: tuple[str, ...] = ()
    points: float | None = None
    measure: str = "correct_matches"
    limit: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Hold one level of a record in one way: what tables are worth, and the half-width of the target's worst cell.

    ``drawn`` says what the half-width counts.

    ``one`` and ``two`` are harmonic means of the effective records of all tables of one and of two variables; ``said``
    has them in words.
    """

    way: str
    epsilon: float
    one: float
    two: float
    points: float | None
    mechanism: Mechanism
    drawn: Drawn
    said: tuple[str, str]

    @property
    def key(self) -> str:
        """The text by which a button names it."""
        return f"{self.way}:{self.epsilon:g}"


def target_of(decisions: Decisions) -> Target:
    """Return what is typed; raises UsageError with every box that is no positive number."""
    texts = {k.removeprefix(PREFIX): v.strip() for k, v in decisions.texts.items() if k.startswith(PREFIX)}
    numbers: dict[str, float | None] = {}
    problems = []
    for name, words in (("points", "the percentage points"), ("limit", "the limit of the risk")):
        try:
            numbers[name] = float(texts[name]) if texts.get(name) else None
        except ValueError:
            numbers[name] = -1.0
        value = numbers[name]
        if value is not None and not 0 < value < float("inf"):
            problems.append(sentence(f"{words} cannot be this", got=repr(texts[name]), wanted="a number above 0"))
    raise_all(UsageError, problems)
    named = dict.fromkeys(texts[name] for name in ("first", "second") if texts.get(name))
    table = tuple(name for name in named if name in decisions.names)
    measure = texts.get("measure", "correct_matches")
    return Target(table, numbers["points"], measure if measure in MEASURES else "correct_matches", numbers["limit"])


def can_draw(decisions: Decisions) -> bool:
    """Return whether the plan has one ε of a record that can be moved."""
    return bool(decisions.perturbed) and not decisions.is_of_plan and decisions.model == DifferentialPrivacy.name


def at_level(decisions: Decisions, way: str, epsilon: float) -> Decisions:
    """Return the decisions with a level of a record, in a way of release.

    Raises
    ------
    UsageError
        If there is no such way.
    """
    shape = way.removeprefix(SHAPE) if way.startswith(SHAPE) else decisions.structure
    if (
        way not in (*WAYS, *(SHAPE + name for name in QUICK))
        or not can_draw(decisions)
        or not 0 < epsilon < float("inf")
    ):
        raise UsageError(sentence("there is no such point"))
    values, each = dict(decisions.values), f"privacy.{DifferentialPrivacy.name}.epsilon"
    if way == "split":
        values[goals.RECORD] = f"{epsilon:g}"
        return dataclasses.replace(decisions, way="split", goal="record", values=values)
    held = decisions.held if way == "blocks" else ()
    made = dataclasses.replace(decisions, way="blocks", held=held, goal="record", structure=shape)
    if decisions.asks == "shared" and way == "blocks":
        values[goals.RECORD] = f"{epsilon:g}"
        return dataclasses.replace(made, goal="shared", values=values)
    values[each] = f"{epsilon / len(made.blocks):.6g}"
    return dataclasses.replace(made, values=values)


def words(way: str) -> str:
    """Return what a way of release is, in words.

    >>> words("split"), words("shape-circulant")
    ('a split', 'each by itself: sets of answers, shifted')
    """
    if not way.startswith(SHAPE):
        return WAYS[way]
    return f"each by itself: {forms.title('structure', way.removeprefix(SHAPE)).lower()}"


def left_out(decisions: Decisions, found: tuple[Level, ...]) -> tuple[str, ...]:
    """Return a sentence for each way and each shape of the matrices that is not drawn, with the reason."""
    drawn = {decisions.structure, *(one.way.removeprefix(SHAPE) for one in found)}
    reasons = forms.unsuited(decisions.make("privacy"), decisions.make("objective"))
    titles = {name: forms.title("structure", name) for name in reasons if name not in drawn}
    unfit = [title for name, title in titles.items() if reasons[name]]
    said = [
        f"{titles[name]}: worth the same as one that is drawn" for name in QUICK if name in titles and not reasons[name]
    ]
    if "general" in titles and not reasons["general"]:
        said.append(f"{titles['general']}: up to half a minute at each level; choose it under Shape of the matrices")
    if "product" in titles and not reasons["product"]:
        said.append(f"{titles['product']}: for the variables of one block, and there the same as no block")
    said.append(
        "The best joint blocks: their search takes long at each level; Compare blocks and a split makes it once"
    )
    if unfit:
        said.append(f"{', '.join(unfit)}: for another privacy model, or for another choice of What to keep")
    return tuple(said)


def levels(decisions: Decisions, folder: Path, latest: Latest, target: Target) -> tuple[Level, ...]:
    """Return every level in every way that can be designed, from one reading of the file at most.

    Raises
    ------
    PostrandError
        If no way can be designed.
    """
    assert decisions.opened is not None
    raise_all(UsageError, documents.problems(decisions))
    ways = [way for way in WAYS if way != "blocks" or not all(one.is_plain for one in decisions.blocks)]
    reasons = forms.unsuited(decisions.make("privacy"), decisions.make("objective"))
    ways += [SHAPE + name for name in QUICK if name != decisions.structure and not reasons.get(name)]
    drawn = Drawn()
    if target.table:
        book = documents.codebook_of(decisions)
        drawn = drawn_of(book, open_records(decisions.opened.path, book))
    found: list[Level] = []
    problems: dict[str, PostrandError] = {}
    for way in (one for one in ways if one != "split" or len(decisions.perturbed) > 1):
        before = len(found)
        for epsilon in LEVELS:
            try:
                made = latest.fresh(at_level(decisions, way, epsilon), folder)
            except PostrandError as error:
                problems[way] = error
                break
            one, two = worths(made, decisions.opened.rows)
            wide = None
            if target.table:
                asked = Precision(target.points or 1.0, target.table)
                widths = half_width(made.mechanism, asked, decisions.opened.rows, drawn)
                wide = None if widths is None else widths.most
            means = harmonic(one), harmonic(two or one)
            said = mean_worth(means[0], one), mean_worth(means[1], two or one)
            found.append(Level(way, epsilon, *means, wide, made.mechanism, drawn, said))
        if way.startswith(SHAPE) and _is_twice(found[:before], found[before:]):
            del found[before:]
    if not found:
        raise next(iter(problems.values()))
    return tuple(found)


def _is_twice(drawn: list[Level], mine: list[Level]) -> bool:
    """Whether some way that is drawn is worth the same at every level: its points would cover each other."""
    ways = {one.way for one in drawn}
    worth = [(one.one, one.two) for one in mine]
    return any(np.allclose(worth, [(o.one, o.two) for o in drawn if o.way == way][: len(worth)]) for way in ways)


def risks(decisions: Decisions, found: tuple[Level, ...], measure: str) -> Mapping[str, float | None]:
    """Return a measure of risk after each level, by its key; None where it is not known."""
    assert decisions.opened is not None
    book = documents.codebook_of(decisions)
    source = open_records(decisions.opened.path, book)
    truth = TrueFile.read(source, book, decisions.fraction)
    report = assess(source, book, fraction=decisions.fraction)[0] if measure == "tau2" else None
    told: dict[str, float | None] = {}
    for one in found:
        figures = risk_figures(truth, report, one.mechanism)
        told[one.key] = next((f.after for f in figures if f.code == measure), None)
    return told


def meets(one: Level, risk: float | None, target: Target) -> bool | None:
    """Return whether a level keeps all that is asked; None where nothing is asked, or the risk is not known yet."""
    asked = []
    if target.points is not None and target.table:
        asked.append(one.points is not None and one.points <= target.points)
    if target.limit is not None:
        if risk is None:
            return False if asked and not all(asked) else None
        asked.append(risk <= target.limit)
    return all(asked) if asked else None
