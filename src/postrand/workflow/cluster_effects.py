"""By how much clusters that were drawn multiply variances: what a release without their numbers should state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import MOST_EFFECT, SurveyDesign
from postrand.columns.recoded import unrecoded
from postrand.engines.database import open_records
from postrand.errors import DataError, EstimationError, UsageError, raise_all, sentence
from postrand.estimate.added_variance import Unmixing, unmixing
from postrand.estimate.axes import Array
from postrand.estimate.split_members import household_of
from postrand.estimate.survey_columns import stratum_codes
from postrand.estimate.survey_sample import Sample, sample_of
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.report.table_worth import SHARED, cause_of
from postrand.report.values import MAX_ESTIMATED
from postrand.risk.data import code_column, columns_in, read_columns
from postrand.support.arrow import to_floats
from postrand.support.showing import few
from postrand.workflow.design_blocks import check_sizes, design_blocks
from postrand.workflow.file_goal import solved
from postrand.workflow.known import Known
from postrand.workflow.planned import mechanism_of

MAX_CATEGORIES = 50
"""A column with more values is one of numbers, whose mean is asked, or of none."""
LEAST_RECORDS = 30
"""The factor of a single share of fewer records is not told: it is their chance, and tells of them."""
_MEMBER = "one random member of each household shows it for all"
_SMALLER = "A release of perturbed values needs a smaller one, as that adds to both variances: --plan gives it."
_BOTH = (
    "Variance with the clusters over variance without them, in the file and in this release, where the perturbation\n"
    "adds the same to both (with this file's own frequencies):"
)


Kind = Literal["shares", "mean"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Hold by how much clusters multiply the variance of a variable's shares together, or of its mean.

    ``file`` is the factor in the file. ``released`` is that of estimates from a release, None where it is not known;
    without a release it is ``file``. ``single`` is the largest of one share by itself, in the release if there is
    one; None of means, and where fewer than ``LEAST_RECORDS`` records have each share.
    """

    name: str
    kind: Kind
    file: float
    released: float | None = None
    single: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterEffects:
    """Hold, by variable, the variance with clusters over that without them, each with the weights and strata.

    Of shares it is that of all of the variable's together: the sum of their variances in both. Numbers of 3 to
    ``MAX_CATEGORIES`` values have shares and a mean. ``unknown`` says why those of variables of a release are not
    known, and is None where no release was given. ``left`` are columns that are neither categories nor amounts,
    ``same`` those that all records of a cluster share: each cluster counts once for them. ``lonely``: strata with one
    cluster, whose deviation is taken from the mean of all. Confidential, as the file is.
    """

    design: SurveyDesign
    clusters: int
    records: int
    effects: tuple[Effect, ...]
    left: tuple[str, ...]
    same: tuple[str, ...]
    lonely: int
    unknown: dict[str, str] | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The factors of shares in the file."""
        return {one.name: one.file for one in self.effects if one.kind == "shares"}

    @property
    def means(self) -> dict[str, float]:
        """The factors of means in the file."""
        return {one.name: one.file for one in self.effects if one.kind == "mean"}

    @property
    def stated(self) -> float:
        """The factor that no variable exceeds, in the release where one was given: rounded up to a tenth, from 1."""
        most = max(1.0, *map(self._counted, self.effects))
        return min(math.ceil(10 * most - 1e-9) / 10, MOST_EFFECT)

    def _counted(self, one: Effect) -> float:
        """Return the factor that counts: in the release where one was given, 0 where it is not known."""
        return one.file if self.unknown is None else one.released or 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        kinds: tuple[tuple[str, Kind], ...] = (("shares", "shares"), ("means", "mean"))
        told = {
            plural: {one.name: one.released for one in self.effects if one.kind == kind and one.released is not None}
            for plural, kind in kinds
        }
        return {
            "clusters": self.clusters,
            "records": self.records,
            "shares": self.shares,
            "means": self.means,
            **({} if self.unknown is None else {"released": told, "not_known": self.unknown}),
            "single_shares": {one.name: one.single for one in self.effects if one.single is not None},
            "left_out": [*self.left],
            "same_in_clusters": [*self.same],
            "strata_with_one_cluster": self.lonely,
            "cluster_effect": self.stated,
        }

    def __str__(self) -> str:
        """Show a line for each variable, those with the largest effect first, and what a codebook can state."""
        beside = " and ".join(part for part in (self.design.weights, self.design.strata) if part)
        lines = [
            f"{self.clusters:,} clusters ({self.design.psu}) of {self.records:,} records"
            + (f", with {beside}" if beside else ""),
            *self._rows(),
        ]
        if self.unknown:
            lines.append("Not known in this release, so that what is stated below does not count them:")
            lines += [f"  {name}: {why}" for name, why in self.unknown.items()]
        if self.lonely:
            many = "1 stratum has" if self.lonely == 1 else f"{self.lonely:,} strata have"
            lines.append(f"{many} one cluster: its deviation is taken from the mean of all clusters.")
        if self.same:
            what = "The same for all records of a cluster, so that each counts once, and no factor is enough"
            lines.append(f"{what}: {few(self.same)}.")
        if self.left:
            lines.append(
                f"Left out, as they are neither categories (up to {MAX_CATEGORIES}) nor amounts: {few(self.left)}."
            )
        lines += [
            f"Next: where {self.design.psu} is not released, state in [survey] of the codebook:",
            f'  not_released = ["psu"]\n  cluster_effect = {self.stated:g}',
            "It makes all errors as large as those of the variable with the largest effect: a smaller one is enough "
            "where analyses do not use that variable.",
            *self._single(),
            *([_SMALLER] if self.unknown is None else []),
            "These figures are internal: computed from the confidential file; the one that you state is published.",
        ]
        return "\n".join(lines)

    def _single(self) -> list[str]:
        """Say of which variables one share needs more than is stated; nothing where none does."""
        more = sorted(((one.single or 0.0, one.name) for one in self.effects), reverse=True)
        told = [f"{name} {value:.1f}" for value, name in more if value > self.stated]
        return [f"One share by itself can need more than all of its variable together: {few(told)}."] if told else []

    def _rows(self) -> list[str]:
        """Return the lines of the table, with its headings."""
        width = max([len("variable"), *(len(one.name) for one in self.effects)])
        ranked = sorted(self.effects, key=lambda one: (self._counted(one), one.file, one.name), reverse=True)
        starts = [f"  {one.name:<{width}}  {one.kind:<6}  {one.file:>7.2f}  " for one in ranked]
        if self.unknown is None:
            rows = [start + _error(one.file) for start, one in zip(starts, ranked, strict=True)]
            heading = f"  {'variable':<{width}}  of its    times  standard errors"
            return ["Variance with the clusters over variance without them:", heading, *rows]
        rows = [start + _after(one.released) for start, one in zip(starts, ranked, strict=True)]
        return [_BOTH, f"  {'variable':<{width}}  of its     file  release  standard errors", *rows]


def _error(value: float) -> str:
    """Return in words what a factor of the variance makes of standard errors."""
    return f"times {math.sqrt(value):.2f}"


def _after(value: float | None) -> str:
    """Return the factor in a release as the end of a row."""
    return "not known" if value is None else f"{value:>7.2f}  {_error(value)}"


def cluster_effects(
    records: Any,
    psu: str,
    weights: str | None = None,
    strata: str | None = None,
    codebook: Codebook | None = None,
    variables: Sequence[str] = (),
    mechanism: Mechanism | None = None,
) -> ClusterEffects:
    """Measure ``Σ_c V_clusters(p_c) / Σ_c V_records(p_c)`` of each variable's shares, or of its mean.

    Both variances are linearised, with the same weights and strata; ``weights`` and ``strata`` are by default those of
    the survey design of ``codebook``. ``records`` is the confidential file, recoded if the codebook recodes. Clusters
    are those of the file as it is, if it has the column; so are weights and strata that the recoded file does not have.
    ``variables`` are by default all columns that are released, or all of a file without a codebook.

    With the ``mechanism`` of a release also of its corrected estimates: ``(V_clusters + V_p) / (V_records + V_p)``,
    with V_p the variance by the perturbation, of each record by itself and so the same in both. With equal weights
    this is ``1 + (factor − 1) n_eff / n``: n records are worth n_eff unperturbed ones with the file's frequencies. It
    is not known where records share draws.

    Raises
    ------
    UsageError, DataError, EstimationError
        If a column is missing, does not fit or is not released, or no variable is left.

    Examples
    --------
    >>> held = {"school": [1, 1, 2, 2, 3, 3], "likes": ["y", "y", "n", "y", "n", "n"]}
    >>> round(cluster_effects(held, "school").shares["likes"], 3)
    1.667
    """
    recorded = None if codebook is None else codebook.survey
    if recorded is not None:
        weights, strata = weights or recorded.weights, strata or recorded.strata
    design = SurveyDesign(weights=weights, strata=strata, psu=psu, lonely="adjust")
    names = [name for name in _asked(records, codebook, variables) if name not in design.columns]
    if not names:
        raise UsageError(sentence("no variable is left beside the clusters, weights and strata", fix="name one"))
    table = _design_columns(records, design)
    sample = sample_of(table, table.num_rows, design)
    alone = sample_of(table, table.num_rows, replace(design, psu=None))
    book = codebook if mechanism is None else mechanism.codebook
    counted = [name for name in names if book is not None and name in book and book[name].is_categorical]
    amounts = [name for name in names if name not in counted]
    columns = read_columns(records, counted) if counted else {}
    columns |= read_columns(records, amounts, amounts) if amounts else {}
    effects: list[Effect] = []
    unknown: dict[str, str] = {}
    left: list[str] = []
    same: list[str] = []
    for name in names:
        asked = _statistics(columns[name], name, book)
        if not asked:
            left.append(name)
        elif all(_is_same(values, sample) for _, values in asked):
            same.append(name)
        else:
            why, law = ("", None) if mechanism is None else _law(mechanism, records, name)
            tried = (_effect(name, kind, values, sample, alone, law) for kind, values in asked)
            found = [one if not why else replace(one, released=None, single=None) for one in tried if one]
            effects += found
            left += [name] * (not found)
            unknown |= {name: why} if why and found else {}
    if not effects:
        raise DataError(sentence("no variable has categories or numbers that vary", got=few(names)))
    if mechanism is not None and {one.name for one in effects} == {*unknown}:
        what, fix = "by how much clusters multiply variances in this release is not known", "see 'clusters' of the file"
        raise EstimationError(sentence(what, got="; ".join(f"{n}: {why}" for n, why in unknown.items()), fix=fix))
    lonely = int((np.bincount(sample.stratum) == 1).sum())
    counts = len(sample.stratum), table.num_rows
    untold = None if mechanism is None else unknown
    return ClusterEffects(design, *counts, tuple(effects), tuple(left), tuple(same), lonely, untold)


def planned_effects(
    plan: Plan, psu: str, weights: str | None = None, strata: str | None = None, variables: Sequence[str] = ()
) -> ClusterEffects:
    """Measure both of the file of a plan and of its release, of which nothing is drawn. Raises as its design."""
    check_sizes(plan)
    plan = solved(plan)
    known = Known.tables(plan) if plan.reads_file else None
    mechanism = mechanism_of(plan, design_blocks(plan, known), known)
    records = open_records(plan.source, plan.codebook)
    return cluster_effects(records, psu, weights, strata, plan.codebook, variables, mechanism)


def _asked(records: Any, codebook: Codebook | None, variables: Sequence[str]) -> list[str]:
    """Return the columns of which analysts can ask: those that are released, without numbers of persons.

    Raises UsageError with each of ``variables`` that leaves with no release.
    """
    if codebook is None:
        return [*variables] or [*columns_in(records)]
    leave = [one.name for one in codebook.with_role("key", "sensitive", "other")]
    gone = [name for name in variables if name in codebook and name not in leave]
    fix = "leave it out: no analysis of the release uses it"
    raise_all(
        UsageError,
        (
            sentence(f"{name!r} has the role {codebook[name].role!r}: nobody asks for its values", fix=fix)
            for name in gone
        ),
    )
    return [*variables] or leave


def _design_columns(records: Any, design: SurveyDesign) -> pa.Table:
    """Return the clusters, weights and strata: of the file as it is what the recoded file does not have.

    Clusters are always those of the file as it is, if it has them: what was drawn is not what its recode made of it.
    """
    plain = unrecoded(records)[0]
    own, before = columns_in(records), columns_in(plain)
    raw = [n for n in design.columns if n not in own or (n == design.psu and n in before)]
    rest = [name for name in design.columns if name not in raw]
    weights = [*filter(None, [design.weights])]
    read = read_columns(records, rest, [n for n in weights if n in rest]) if rest else {}
    read |= read_columns(plain, raw, [n for n in weights if n in raw]) if raw else {}
    return pa.table({name: read[name] for name in design.columns})


def _statistics(column: Any, name: str, book: Codebook | None) -> list[tuple[Kind, Array]]:
    """Return what is asked of a column, with its values (n, k), NaN where missing; nothing of what is not asked for.

    The shares of 2 to ``MAX_CATEGORIES`` values (with a codebook, of all its categories), and the mean
    of numbers of which more than two occur.
    """
    codes = stratum_codes(pa.table({name: column}), name)
    size, occurring = _size(codes), _size(codes)
    amounts = _amounts(column, codes)
    if book is not None and name in book and book[name].is_categorical:
        variable = book[name]
        codes, size = code_column(column, name, book).codes.astype(np.int64), variable.size
        numbers = scores_of(variable)
        amounts = None if numbers is None else _taken(numbers[:, None], codes)
    asked: list[tuple[Kind, Array]] = []
    if occurring >= 2 and size <= MAX_CATEGORIES:
        asked.append(("shares", _taken(np.eye(size), codes)))
    if occurring > 2 and amounts is not None:
        asked.append(("mean", amounts))
    return asked


def _taken(rows: Array, codes: NDArray[np.int64]) -> Array:
    """Return the rows of codes, (n, k), NaN of those that are none: missing values."""
    missing = (codes < 0) | (codes >= len(rows))
    return np.where(missing[:, None], np.nan, rows[np.where(missing, 0, codes)])


def _size(codes: NDArray[np.int64]) -> int:
    """Return how many different values a column has."""
    return int(codes.max(initial=0)) + 1


def _amounts(column: Any, codes: NDArray[np.int64]) -> Array | None:
    """Return numbers (n, 1), NaN where missing; None of what is no number, or numbers the records."""
    try:
        read = np.asarray(to_floats(column), dtype=np.float64)
    except (ValueError, TypeError, pa.ArrowException):
        return None
    return None if _size(codes) == len(codes) and bool(np.all(read == np.round(read))) else read[:, None]


def _is_same(values: Array, sample: Sample) -> bool:
    """Return whether all records of each cluster have the same values."""
    first = np.zeros(sample.groups, dtype=np.int64)
    first[sample.group] = np.arange(len(values))
    return bool(np.array_equal(values, values[first[sample.group]], equal_nan=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """Hold how a perturbed variable is estimated, with the true cell of each record (n,) and its categories."""

    unmixing: Unmixing
    places: NDArray[np.int64]
    variable: Variable

    def added(self, kind: Kind, influence: Array, weight: Array, mean: Array) -> Array:
        """Return what the perturbation adds to the variance of each column of ``influence`` (n, k), of this mean."""
        scores, numbers = np.eye(self.variable.size), scores_of(self.variable)
        if kind == "mean":
            assert numbers is not None, "has a mean"
            scores = np.nan_to_num(numbers - mean)[:, None]
        return self.unmixing.added(scores, self.places, influence, weight)


def _law(mechanism: Mechanism, records: Any, name: str) -> tuple[str, _Law | None]:
    """Return how a variable is estimated, None where it is not perturbed; or why what is added is not known."""
    if name not in mechanism.variables:
        return "", None
    if household_of(mechanism, [name]):
        return _MEMBER, None
    book = mechanism.require_codebook()
    sizes = [block.matrix.size for block in mechanism.blocks if name in block.perturbed]
    if max([*sizes, book[name].size]) > MAX_ESTIMATED:
        return f"its block has more than {MAX_ESTIMATED:,} categories", None
    for unit, held in mechanism.shared.items():
        if name in held:
            return SHARED[unit].removeprefix("not known: "), None
    try:
        found = unmixing(mechanism, name)
    except EstimationError as error:
        return f"no estimate: {cause_of(str(error))}", None
    read = read_columns(records, found.names)
    codes = {one: code_column(read[one], one, book).codes.astype(np.int64) for one in found.names}
    return "", _Law(found, found.places(codes), book[name])


def _effect(name: str, kind: Kind, values: Array, sample: Sample, alone: Sample, law: _Law | None) -> Effect | None:
    """Return the ratio of both variances, summed over the columns, before and after; None where nothing varies."""
    known = np.asarray(np.isfinite(values).all(axis=1))
    weight = np.where(known, sample.weight, 0.0)
    if not weight.sum() > 0:
        return None
    held = np.where(known[:, None], values, 0.0)
    mean = weight @ held / weight.sum()
    influence = np.where(known[:, None], held - mean, 0.0)
    many, one = (_variance(weight[:, None] * influence, design) for design in (sample, alone))
    if not one.sum() > 0:
        return None
    added = 0.0 if law is None else law.added(kind, influence, sample.weight, mean)
    many_after, one_after = many + added, one + added
    often = (np.count_nonzero(held, axis=0) >= LEAST_RECORDS) & (one_after > 0)
    single = float((many_after[often] / one_after[often]).max()) if kind == "shares" and often.any() else None
    before, after = float(many.sum() / one.sum()), float(many_after.sum() / one_after.sum())
    return Effect(name, kind, before, after, single)


def _variance(influence: Array, sample: Sample) -> Array:
    """Return the variances of the totals of ``influence`` (n, k), (k,)."""
    sums = np.zeros((sample.groups, influence.shape[1]))
    np.add.at(sums, sample.group, influence)
    return np.asarray((sample.deviations(sums, np.zeros(influence.shape[1])) ** 2).sum(axis=0))


def scores_of(variable: Variable) -> Array | None:
    """Return what each category counts in a mean, (size,), NaN of "no answer"; None where another is no number.

    >>> scores_of(Variable("n", "key", ("0", "2,5", "-9"), missing_codes=("-9",))).tolist()
    [0.0, 2.5, nan]
    """
    found = np.full(variable.size, np.nan)
    for i, category in enumerate(variable.categories):
        if category not in variable.missing_codes:
            try:
                found[i] = float(str(category).replace(",", "."))
            except ValueError:
                return None
    return found
