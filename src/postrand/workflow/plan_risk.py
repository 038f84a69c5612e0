"""The risk of a file before and after a plan: no draw decides it, so that it is known before anything is released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from postrand.codebook import Codebook
from postrand.engines.database import Table
from postrand.errors import DataError, sentence
from postrand.formats import File, Source, path_of
from postrand.mechanism import Mechanism
from postrand.release.kept import State
from postrand.risk.counts import RiskyCombination, adding, risky_combinations
from postrand.risk.data import code_column, key_codes, read_columns
from postrand.risk.exposure import TrueFile
from postrand.risk.measures import Assessment
from postrand.risk.report import RiskReport
from postrand.support.progress import Stage, stage
from postrand.workflow.as_is import risks_as_is
from postrand.workflow.comparison_risk import Exposures, RiskFigure, risk_figures
from postrand.workflow.dossier_risk import assess, measures
from postrand.workflow.known import Known, state_of

MAX_COMBINATION = 3
MAX_SUBSETS = 400
"""Combinations of keys are searched only up to this number of keys."""


@dataclass(frozen=True, slots=True, eq=False)
class BothSides:
    """Hold the figures of risk of a file before and after a mechanism, and what they were computed from: internal.

    ``report``: of the file before; ``note`` is the reason for its missing parts. ``as_is``: the figures before the keys
    are recoded, by their codes. A figure that is not known says why.
    """

    report: RiskReport | None
    note: str
    truth: TrueFile | None
    attacks: Exposures | None
    figures: tuple[RiskFigure, ...]
    as_is: Mapping[str, float]

    @classmethod
    def of(cls, known: Known, mechanism: Mechanism, fraction: float | None = None) -> BothSides:
        """Measure what is ``known`` of a file, with its dossier; ``fraction`` is the sampling fraction, if given."""
        stage(Stage.RISK)
        codebook, source = known.plan.codebook, known.held
        report, note = assess(source, codebook, fraction=fraction)
        truth = TrueFile.read(source, codebook, fraction, whole=known.beside)
        stage(Stage.RISK)  # the file was read in between
        attacks = Exposures.of(truth, mechanism)
        figures = risk_figures(truth, report, mechanism, attacks)
        return cls(report, note, truth, attacks, figures, risks_as_is(known.source, codebook, truth))


@dataclass(frozen=True, slots=True, eq=False)
class PlanRisk(BothSides):
    """Hold the figures of both sides, the other measures of the file before, and its rare combinations: internal."""

    measured: Assessment | None
    combinations: tuple[RiskyCombination, ...]

    @classmethod
    def of(cls, known: Known, mechanism: Mechanism, fraction: float | None = None) -> PlanRisk:
        """Measure both sides, see :class:`BothSides`, and the other measures of the file before."""
        both, codebook = BothSides.of(known, mechanism, fraction), known.plan.codebook
        measured = None if both.truth is None else measures(known.held, codebook, both.truth)
        risky = combinations(known.held, codebook)
        return cls(**{one.name: getattr(both, one.name) for one in fields(both)}, measured=measured, combinations=risky)


@dataclass(frozen=True, slots=True, eq=False)
class Beforehand:
    """Hold what was measured of a plan before its run: what is ``known`` of its file, and its risk.

    ``risk`` returns the risk, and waits for it where it is still being computed. It depends on the records, their
    codebook, the mechanism and the ``fraction``, and on nothing else.
    """

    known: Known
    mechanism: Mechanism
    fraction: float | None
    risk: Callable[[], PlanRisk] = field(repr=False)

    def is_of(self, known: Known, mechanism: Mechanism, fraction: float | None) -> bool:
        """Whether this was measured of the same records, codebook, mechanism and fraction."""
        same_file = bool(known.state) and known.state == self.known.state
        same_plan = known.plan.codebook == self.known.plan.codebook and mechanism.digest() == self.mechanism.digest()
        return same_file and same_plan and fraction == self.fraction

    def require_same(self) -> None:
        """Raise DataError if the file was changed since it was measured."""
        require_state(self.known.plan.source, self.known.state)


def require_state(place: Path | File | Table, state: State) -> None:
    """Raise DataError if the files are no longer those that were measured, and UsageError if there are none."""
    if state_of(place) != state:
        name = place.name if isinstance(place, Table) else path_of(place).name
        fix = "read the release check again, which is of the file as it is now, and then protect it"
        raise DataError(sentence("the file has changed on the disk since it was measured", where=name, fix=fix))


def combinations(source: Source, codebook: Codebook, size: int = MAX_COMBINATION) -> tuple[RiskyCombination, ...]:
    """Return the combinations of up to ``size`` keys, sorted by the number of records in cells below 3.

    One that adds nothing to a part of it is left out.
    """
    keys = [v.name for v in codebook.with_role("key") if v.is_categorical]
    while size > 1 and _subsets(len(keys), size) > MAX_SUBSETS:
        size -= 1
    if not keys:
        return ()
    columns = read_columns(source, keys)
    coded = {name: code_column(columns[name], name, codebook) for name in keys}
    return adding(risky_combinations(key_codes(coded, keys, "category"), size))


def _subsets(keys: int, size: int) -> int:
    found, term = 0, 1
    for k in range(1, min(size, keys) + 1):
        term = term * (keys - k + 1) // k
        found += term
    return found
