"""Plans beside a file with suppressed values, which has the same measures of risk and of loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from postrand import formats
from postrand.alternatives.claims import Claims
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, UsageError, sentence
from postrand.plan import Plan
from postrand.plan.analyses import Model
from postrand.report.table_worth import TableWorth, pairs_of
from postrand.risk.cells import FloatArray, KeyCodes
from postrand.risk.exposure import TrueFile
from postrand.workflow.alternative_files import WORDS, checked
from postrand.workflow.beside_columns import claims_beside, ways_beside
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.comparison_risk import RiskFigure, class_figures, exposure_figures
from postrand.workflow.file_goal import solved
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import measured
from postrand.workflow.plan_settings import RECODE_OF
from postrand.workflow.side_by_side import NONE, PlanComparison

NOT_MEASURED = (
    "of a file with suppressed values, households are not measured, nor who is found of the persons that are alone "
    "with their keys before"
)
NO_RECORD = "no record shows all of its variables"
BIASED = (
    "Worth of its tables: of the records in which no value of the table is suppressed. The further their "
    "shares are from those of all records, the less they are worth. Its tables with other columns are not measured."
)
NOT_ALL = f"What else is not claimed: {WORDS} in its folder."
KNOWN = (
    "Its risks are those of attackers who can tell in which class a person's record is, and not which record of the "
    "class it is. Those of the register attacker are rather too high: a suppressed value counts as a value of its own."
)


def compared(places: Sequence[Plan | Path], names: Sequence[str], fraction: float | None = None) -> PlanComparison:
    """Return plans and folders of ``suppress`` side by side; folders are measured by the file of the first plan.

    What a plan says that analysts name (``[analysts]``) is tried of all plans.

    Raises
    ------
    UsageError
        If fewer than two are given, or no plan is; or a folder holds averages, or has other keys than the first plan.
    DataError
        If a folder has not as many records as the first plan's file, or values that its codebook does not have.
    PostrandError
        As :func:`figures_of` and :func:`postrand.workflow.alternative_files.checked`.
    """
    first = next((k for k, place in enumerate(places) if isinstance(place, Plan)), None)
    if len(places) < 2 or first is None:
        got = "no plan" if first is None else "one plan"
        raise UsageError(sentence("there is nothing to compare", got=got, fix="name two plans or more"))
    folders = {place: checked(place) for place in places if isinstance(place, Path)}
    plan = places[first]
    assert isinstance(plan, Plan)
    named = list(dict.fromkeys(model for one in places if isinstance(one, Plan) for model in one.analyses))
    beside = _Beside.of(plan, names[first], fraction, named) if folders else None

    def figures(place: Plan | Path, name: str) -> PlanFigures:
        if isinstance(place, Plan) and (beside is None or place is not plan):
            return measured(place, fraction=fraction, name=name, named=_of(place, named))[0]
        assert beside is not None
        return beside.figures if isinstance(place, Plan) else beside.suppressed(*folders[place], name)

    return PlanComparison(tuple(figures(place, name) for place, name in zip(places, names, strict=True)))


def _of(plan: Plan, named: Sequence[Model]) -> list[Model]:
    """Return the analyses that a plan can be asked for: those whose columns its codebook has."""
    return [model for model in named if all(name in plan.codebook for name in model.table)]


@dataclass(frozen=True, slots=True, eq=False)
class _Beside:
    """Hold what a file with suppressed values is measured by: a plan's figures, file, codebook and true keys."""

    figures: PlanFigures
    source: formats.Source
    codebook: Codebook
    truth: TrueFile | None
    fraction: float | None

    @classmethod
    def of(cls, plan: Plan, name: str, fraction: float | None, named: Sequence[Model]) -> _Beside:
        plan, fraction = solved(plan), plan.share(fraction)
        known = Known.of(plan, dossier=True)
        figures = measured(plan, known, fraction=fraction, name=name, named=_of(plan, named))[0]
        truth = TrueFile.read(known.held, plan.codebook, fraction, whole=known.beside)
        return cls(figures, known.source, plan.codebook, truth, fraction)

    def suppressed(self, path: Path, claims: Claims, name: str) -> PlanFigures:
        """Return the figures of a file with suppressed values: claims, risk after, and the worth of its tables."""
        self._check(claims, name)
        held = formats.read(path)
        columns = held.schema.names
        released, truth, keys = self._read(path, name, columns), self.truth, self.figures.keys
        assert truth is not None
        after = {one.code: one for one in _risks(released)}
        risks = tuple(_with_after(one, after.get(one.code)) for one in self.figures.risks)
        tables = [(key,) for key in truth.keys.names], pairs_of(truth.keys.names, self.codebook)
        one_way, two_way = (
            tuple(_worth(truth.keys, released.keys, names, self.codebook) for names in asked) for asked in tables
        )
        ways = ways_beside(self.source, self.codebook, held, keys, self.figures.columns)
        recodes = [one for one in self.figures.settings if one[0].startswith(RECODE_OF)]
        diversity = "" if claims.sensitive is None else f", {claims.diversity} values of {claims.sensitive}"
        return PlanFigures(
            name=name,
            records=self.figures.records,
            claims=(
                *claims.holds,
                *claims.losses,
                *claims_beside(ways),
                claims.does_not_hold[0],
                NOT_ALL,
                KNOWN,
                BIASED,
            ),
            epsilon=math.inf,
            risks=risks,
            one_way=one_way,
            two_way=two_way,
            settings=(
                *recodes,
                ("suppressed", f"{', '.join(claims.classes[0])}: k = {claims.k}{diversity}"),
                ("as it is", ", ".join(name for name in columns if name not in keys) or NONE),
                ("not released", ", ".join(name for name in self.figures.columns if name not in columns) or NONE),
            ),
            before_is=self.figures.before_is,
            keys=keys,
            as_is=self.figures.as_is,
            ways=ways,
            unperturbed=tuple(one.name for one in ways if one.is_clear),
            is_perturbed=False,
        )

    def _check(self, claims: Claims, name: str) -> None:
        """Raise UsageError or DataError where a folder cannot be measured by the plan's file."""
        if claims.method != "suppression":
            what, fix = "averages are not compared with plans", "see how far numbers moved with 'postrand distances'"
            raise UsageError(sentence(what, where=name, fix=fix))
        own, keys = claims.classes[0], self.figures.keys
        if {*own} != {*keys}:
            fix = "name plans and folders with the same keys"
            raise UsageError(
                sentence("keys differ", where=name, got=", ".join(own), wanted=", ".join(keys) or "none", fix=fix)
            )
        if claims.records != self.figures.records:
            got, wanted = f"{claims.records:,}", f"{self.figures.records:,}, as in the plan's file"
            raise DataError(sentence("it has not the records of the plan's file", where=name, got=got, wanted=wanted))

    def _read(self, path: Path, name: str, columns: Sequence[str]) -> TrueFile:
        """Return the keys and the weights of the released file, as the plan's codebook describes them."""
        held = [one for one in self.codebook.variables if one.name in columns]
        book = Codebook(tuple(replace(one, missing="keep") if one.name in self.figures.keys else one for one in held))
        try:
            found = TrueFile.read(formats.read(path, book), book, self.fraction)
        except DataError:
            what, fix = "its values are not those of the plan's codebook", "run 'postrand suppress' with --codebook"
            raise DataError(sentence(what, where=name, fix=fix)) from None
        assert found is not None
        return found


def _risks(released: TrueFile) -> tuple[RiskFigure, ...]:
    """Return what attackers find in a file as it is: of a class with f records, each with chance 1 / f."""
    found = released.exposure()
    figures = (*exposure_figures(found, found, ""), *class_figures(released.keys, [released.keys], ""))
    held = tuple(one for one in figures if one.code != "correct_matches_uniques")  # of the file's own uniques
    is_alone = next(one.before == 1 for one in held if one.code == "k")
    none = () if is_alone else tuple(RiskFigure(code, "", 0.0, 0.0, "records") for code in ("tau1", "tau2"))
    return (*held, *none)  # both count links to records that are alone in what is released


def _with_after(one: RiskFigure, found: RiskFigure | None) -> RiskFigure:
    """Return a measure of the plan's file with the side after of a file with suppressed values."""
    if found is None or found.after is None:
        return replace(one, after=None, why=one.why if one.before is None else NOT_MEASURED, shares=(), of_two=False)
    return replace(one, after=found.after, why="", shares=(), of_two=found.of_two)


def _worth(true: KeyCodes, released: KeyCodes, names: tuple[str, ...], codebook: Codebook) -> TableWorth:
    """Return the worth of a table, ``1 / (1 / n + Σ (q − p)² / (1 − Σ p²))``, of the n records that answer all of it.

    p are its shares in the true file, q those of the records that show it; what means no answer is in neither.
    """
    p, q = (_counts(keys, [codebook[name] for name in names]) for keys in (true, released))
    n = float(p.sum())
    if not p.any() or not q.any():
        return TableWorth(names, None, true.records, NO_RECORD, "file")
    p, q = p / p.sum(), q / q.sum()
    off, spread = float(((q - p) ** 2).sum()), 1 - float((p**2).sum())
    return TableWorth(names, n if off == 0 else spread / (spread / n + off), true.records, "", "file")


def _counts(keys: KeyCodes, variables: Sequence[Variable]) -> FloatArray:
    """Return how many records have each combination of answers, those without any of them left out."""
    columns = np.stack([keys.codes[keys.names.index(one.name)] for one in variables])
    answers = [[k for k, value in enumerate(one.categories) if value not in one.missing_codes] for one in variables]
    there = np.all([np.isin(codes, own) for codes, own in zip(columns, answers, strict=True)], axis=0)
    sizes = [one.size for one in variables]
    cells = np.ravel_multi_index(tuple(columns[:, there]), sizes)
    return np.bincount(cells, minlength=math.prod(sizes)).astype(np.float64)
