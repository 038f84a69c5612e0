"""The computations of the workbench: plain functions of decisions, called outside the user interface's loop."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand import estimate, release, risk
from postrand.app import documents, forms
from postrand.app.conclusions import Conclusion, conclusions
from postrand.app.decisions import Decisions
from postrand.app.watch import Watch
from postrand.codebook import Codebook, coding, not_released
from postrand.data.frames import TableSource
from postrand.designers import Design, Prior, design
from postrand.engines import LocalEngine
from postrand.engines.database import open_records
from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.split_members import household_of, household_sizes
from postrand.mechanism import Mechanism
from postrand.plan import load_plan
from postrand.report.table_worth import Assumed, TableWorth, table_worth
from postrand.risk.assessment import report_of
from postrand.risk.data import read_columns
from postrand.risk.file import RiskFile
from postrand.risk.measures import kinds, measure_file
from postrand.risk.weights import checked_weights
from postrand.support.warned import heard
from postrand.workflow import dossier_risk
from postrand.workflow.comparison_risk import RiskFigure
from postrand.workflow.dossier import AROUND
from postrand.workflow.pipeline import run_measured
from postrand.workflow.plan_risk import Beforehand

Array = NDArray[np.float64]
MAX_SHOWN = 25
MAX_DESIGNED = 200
CURVE_STEP = 5
_SINGULAR = 1e10


def read_keys(decisions: Decisions) -> RiskFile | None:
    """Return the file as its risk measures see it, without the share of the population; None without keys."""
    if decisions.opened is None or not decisions.keys:
        return None
    book = documents.codebook_of(decisions)
    household = next((v.name for v in book.with_role("household")), None)
    sensitive = [v.name for v in book.with_role("sensitive") if v.is_categorical]
    source = open_records(decisions.opened.path, book)
    return RiskFile.read(source, decisions.keys, household=household, sensitive=sensitive, codebook=book)


def included(decisions: Decisions, file: RiskFile | None) -> RiskFile | None:
    """Return the file with the share of the population, as it was typed or by the sampling weights, if any.

    Raises
    ------
    UsageError
        If there are both.
    DataError
        If a weight is missing or below 1.
    """
    if file is None or decisions.opened is None:
        return file
    book = documents.codebook_of(decisions)
    dossier_risk.require_one_share(book, decisions.fraction)
    if decisions.fraction:
        return dataclasses.replace(file, fraction=decisions.fraction)
    weight = next((v.name for v in book.with_role("weight")), None)
    if weight is None:
        return file
    columns = read_columns(open_records(decisions.opened.path, book), [weight], [weight])
    return dataclasses.replace(file, weights=checked_weights(columns, weight))


def assess(decisions: Decisions, with_model: bool, file: RiskFile | None = None) -> risk.RiskReport | None:
    """Return the risk of the unperturbed file; τ1 and τ2 only ``with_model``, which is slower. None without keys.

    ``file`` has been read before, with the share of the population if the model is wanted.
    """
    if file is None:
        file = read_keys(decisions)
        file = included(decisions, file) if with_model else file
    return None if file is None else report_of(file).without_records()


def measures(decisions: Decisions, file: RiskFile | None = None) -> risk.Assessment | None:
    """Return every risk measure that does not take long, of the file as it is; None without keys."""
    file = included(decisions, read_keys(decisions)) if file is None else file
    if file is None:
        return None
    found = measure_file(file, [kind() for kind in kinds().values() if kind.cost != "long"])
    file.forget()  # what they share: nothing else is asked of the file for long
    return found.without_records()


def counts(decisions: Decisions, columns: Sequence[int]) -> Array:
    """Return the exact counts of the columns' combinations, one axis each."""
    assert decisions.opened is not None
    book = documents.codebook_of(decisions)
    source = open_records(decisions.opened.path, book)
    table = LocalEngine().count(source, book, [decisions.names[j] for j in columns])
    return table.dense().astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One design of one variable, and its effect on a file with these counts.

    ``unchanged``: share of records with their true value released. ``guess``: chance that an attacker who knows the
    file's shares guesses the true value from the released one; ``blind``: the same without the release. ``error``:
    typical standard error of a corrected share; ``plain``: the same without protection.
    """

    level: float
    made: Design
    unchanged: float
    guess: float
    blind: float
    error: float
    plain: float


def point(decisions: Decisions, counted: Array, level: float | None = None) -> Point:
    """Design one variable with the curator's choices, or at another level if one is given.

    Raises
    ------
    PostrandError
        If a form cannot be read, or the combination cannot be designed.
    """
    if counted.size > MAX_DESIGNED:
        fix = "group its categories, or design it on the command line"
        raise UsageError(sentence("too many categories to design in the workbench", got=counted.size, fix=fix))
    privacy = decisions.make("privacy")
    chosen = forms.level_of(forms.member("privacy", decisions.model))
    if level is not None and chosen is not None:
        privacy = dataclasses.replace(privacy, **{chosen.name: level})
    share = np.maximum(counted, 0) / max(counted.sum(), 1)
    prior = Prior.uniform(share.size) if decisions.prior == "uniform" else Prior(share, provenance="confidential")
    with heard():  # the design's message contains its warnings
        made = design(prior, privacy, decisions.make("objective"), decisions.make("structure"))
    matrix, records = made.matrix.array, float(counted.sum())
    return Point(
        level=float(getattr(privacy, chosen.name)) if chosen else math.nan,
        made=made,
        unchanged=float(share @ matrix.diagonal()),
        guess=float((share[:, None] * matrix).max(axis=0).sum()),
        blind=float(share.max()),
        error=_typical(cell_variance([made.matrix.array], share, records)),
        plain=_typical(share * (1 - share) / records),
    )


def curve(decisions: Decisions, counted: Array) -> tuple[Point, ...]:
    """Return designs over the whole range of the level: the risk-utility map of one variable."""
    level = forms.level_of(forms.member("privacy", decisions.model))
    if level is None:
        return ()
    return tuple(point(decisions, counted, value) for value in level.grid[::CURVE_STEP])


def cell_variance(matrices: Sequence[Array], share: Array, records: float) -> Array:
    """Return the variance of each corrected cell of a table with true shares ``share``, one axis for each matrix.

    ``[Σ_j A_ij² λ_j − π_i²]/n`` with ``λ = Mᵀπ`` and ``A = (Mᵀ)^-1``, along every axis; infinite where singular.
    """
    released, squares = share, []
    for axis, matrix in enumerate(matrices):
        if np.linalg.cond(matrix) > _SINGULAR:
            return np.full(share.shape, math.inf)
        released = np.moveaxis(np.tensordot(matrix.T, released, (1, axis)), 0, axis)
        squares.append(np.linalg.inv(matrix.T) ** 2)
    for axis, square in enumerate(squares):
        released = np.moveaxis(np.tensordot(square, released, (1, axis)), 0, axis)
    return np.asarray(np.maximum(released - share**2, 0) / max(records, 1))


def table_error(points: Sequence[Point], joint: Array) -> float:
    """Return the typical standard error of a corrected cell share of a two-way table."""
    share = joint / max(joint.sum(), 1)
    return _typical(cell_variance([p.made.matrix.array for p in points], share, float(joint.sum())))


def _typical(variance: Array) -> float:
    return float(np.sqrt(variance.mean()))


def protect(
    decisions: Decisions,
    folder: Path,
    watch: Watch,
    said: list[str] | None = None,
    beforehand: Beforehand | None = None,
) -> release.Release:
    """Write codebook and plan into ``folder`` and run them there, with a dossier beside the release.

    The warnings of the run are added to ``said``. What was measured ``beforehand`` of this plan is not measured again.

    Raises
    ------
    Cancelled
        If the watch asks to stop; then all files of the release are removed.
    PostrandError
        If the plan cannot be met.
    """
    assert decisions.opened is not None
    path = documents.write(decisions, folder)
    for name in ("release", "dossier"):
        shutil.rmtree(folder / name, ignore_errors=True)
    engine, fraction = LocalEngine(scratch=folder), decisions.fraction
    written = load_plan(path)
    options: Any = {"engine": engine, "sampling_fraction": fraction, "progress": watch.hear}
    with heard() as told:
        made = run_measured(written, folder / "release", beforehand, dossier=folder / "dossier", **options)
    if said is not None:
        said += told
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """A table of one or two variables: true counts, released counts, corrected counts with 95% intervals.

    Where the records show random subsets of their variables, ``showing`` of them show all of the table's; the released
    counts are those of these records, in proportion to all.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    true: Array
    released: Array
    corrected: Array | None = None
    low: Array | None = None
    high: Array | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    showing: int | None = None
    worth: TableWorth | None = None
    concluded: tuple[Conclusion, ...] = ()

    @property
    def misses(self) -> NDArray[np.bool_] | None:
        """Where the interval does not contain the count before; None without intervals."""
        if self.low is None or self.high is None:
            return None
        return (self.true < self.low) | (self.true > self.high)


def require_released(names: Sequence[str]) -> None:
    """Raise UsageError if there are variables in ``names``: those that a release does not have."""
    if names:
        fix = "choose other variables, or protect the file again"
        raise UsageError(sentence("the release does not have these variables", got=", ".join(names), fix=fix))


def _sizes(mechanism: Mechanism, frame: Any, names: Sequence[str], records: int) -> dict[int, int] | None:
    """Return the sizes of households, where one member of each shows the variables and all have values of them."""
    column = household_of(mechanism, [*names])
    return household_sizes(frame.column(column), column) if column and frame.num_rows == records else None


def margin(decisions: Decisions, made: release.Release, true: Array, columns: Sequence[int]) -> Margin:
    """Return the table of the columns, each named once: true (as :func:`counts` gives it), released and corrected."""
    names, frame = tuple(decisions.names[j] for j in columns), made.frame()
    book: Codebook = made.codebook
    released, showing = _released(frame, book, names, made.mechanism.partly)
    share = true / max(true.sum(), 1)
    law, records = Assumed("file", lambda _: share), int(true.sum())
    houses = _sizes(made.mechanism, frame, names, records)
    (found_worth,) = table_worth(made.mechanism, [names], records, law, houses)
    labels = tuple(tuple(book[n].code_labels) for n in names)
    found = Margin(names, labels, true, released, showing=showing, worth=found_worth)
    try:
        shares = estimate.table(frame, list(names), made.mechanism)
        made_table = shares.counts()
    except EstimationError as error:
        return dataclasses.replace(found, reason=str(error))
    low, high = made_table.interval()
    return dataclasses.replace(
        found,
        corrected=made_table.value,
        low=low,
        high=high,
        warnings=made_table.warnings,
        concluded=conclusions(shares, true),
    )


def _released(
    frame: pa.Table, book: Codebook, names: Sequence[str], partly: Collection[str]
) -> tuple[Array, int | None]:
    """Return the released counts, in proportion to all records, and how many show a table with variables of a split."""
    if not {*names} & {*partly}:
        return LocalEngine().count(TableSource(frame), book, list(names)).dense().astype(np.float64), None
    variables = [book[name] for name in names]
    shape = tuple(v.size for v in variables)
    codes = np.stack(
        [(not_released if v.name in partly else coding).encode(frame[v.name], v).astype(np.int64) for v in variables]
    )
    codes = codes[:, (codes < np.array(shape)[:, None]).all(axis=0)]
    showing = codes.shape[1]
    index = np.ravel_multi_index(tuple(codes[:, (codes >= 0).all(axis=0)]), shape)
    counted = np.bincount(index, minlength=math.prod(shape)).reshape(shape)
    return counted * (frame.num_rows / max(showing, 1)), showing


def risks(
    decisions: Decisions, made: release.Release, before: risk.RiskReport | None = None
) -> tuple[risk.RiskReport | None, risk.RiskReport | None]:
    """Return the risk before and after; ``before`` where it is known already.

    The internal report beside a release has both; without one each is measured in its own records.
    """
    assert decisions.opened is not None
    held = _dossier(made).get(AROUND)
    if held is not None:
        first, after = (
            None if one is None else risk.RiskReport.of_exact(one) for one in (held["before"], held["after"])
        )
        return before or first, after
    book = documents.codebook_of(decisions)
    if before is None:
        before, _ = dossier_risk.assess(open_records(decisions.opened.path, book), book, None, decisions.fraction)
    after, _ = dossier_risk.assess(TableSource(made.frame()), made.codebook, made.mechanism, decisions.fraction)
    return before, after


def as_it_came(plain: Decisions | None) -> risk.RiskReport | None:
    """Return the risk of the file before any recode; ``plain`` are the decisions without recodes, None: not known."""
    if plain is None or plain.opened is None:
        return None
    book = documents.codebook_of(plain)
    return dossier_risk.assess(open_records(plain.opened.path, book), book, None, plain.fraction)[0]


def attacks(made: release.Release) -> tuple[RiskFigure, ...]:
    """Return what attackers find before and after, as the internal report beside a release has it; () without one."""
    return tuple(RiskFigure.from_dict(one) for one in _dossier(made).get("figures", {}).get("risk", []))


def _dossier(made: release.Release) -> Any:
    """Return what the internal report beside a release says, for programs; nothing without one."""
    path = made.path.parent / "dossier" / "dossier.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}
