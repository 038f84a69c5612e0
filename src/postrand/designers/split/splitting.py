"""The design of a split release: which subsets of its variables a record shows, how often, and through which matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.codebook.rules import feasible_cells
from postrand.designers.problem import OPTIMAL_GAP, Status
from postrand.designers.split.candidates import Candidates, candidates_of
from postrand.designers.split.margins import TablePrior
from postrand.designers.split.matrices import Chosen, chosen
from postrand.designers.split.optimal import value_of
from postrand.designers.split.pricing import DEFAULT_GAP
from postrand.designers.suitability import Structure
from postrand.errors import DesignError, raise_all, sentence, shown
from postrand.mechanism.block import Block, Provenance
from postrand.mechanism.matrix import MAX_SIZE, TransitionMatrix, check_epsilon
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.split import Split, Subset, largest_remainder
from postrand.objectives import Objective
from postrand.support.inputs import finite, is_whole
from postrand.support.showing import unshown

Floats = NDArray[np.float64]

MAX_CELLS = 65_536
SHOWN = 60
"""Subsets, and tables, that a text lists."""


@dataclass(frozen=True, slots=True)
class SplitSubset:
    """Hold one subset: its variables in the codebook's order, how often it is shown, and its matrix.

    ``weight``: the exact probability in units of 2^-53. ``probability``: before rounding. ``structure``: how the matrix
    was found, ``response`` for k-ary randomised response.
    """

    variables: tuple[str, ...]
    weight: int
    probability: float
    matrix: TransitionMatrix
    structure: str = "response"

    @property
    def cells(self) -> int:
        """The number K of feasible cells."""
        return self.matrix.size

    @property
    def response(self) -> tuple[int, int] | None:
        """The two integers of k-ary randomised response, on the diagonal and off it; None of another matrix."""
        if self.structure != "response":
            return None
        stay = int(self.matrix.form.diagonal[0])
        return stay, (UNIT - stay) // max(1, self.cells - 1)


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Hold the precision of one table: ``information`` is 1/V, V the trace of the covariance from one released record.

    ``sampling``: ``S = 1 - Σ p²``, the same of one unperturbed record. ``weight``: in the workload.
    """

    variables: tuple[str, ...]
    weight: float
    information: float
    sampling: float

    @property
    def share(self) -> float:
        """How many unperturbed records a released record is worth for this table, ``S / V``."""
        return self.sampling * self.information


@dataclass(frozen=True, slots=True, eq=False)
class SplitDesign:
    """Hold the subsets of a split release with exact probabilities and matrices, and how far they are from the best.

    ``value`` is ``Σ_t w_t V_t / S_t`` with weights that sum to 1 (or the largest ``w_t V_t / S_t``), computed from the
    integers: records needed for the worth of one. No probabilities of the candidate subsets with the candidate matrices
    have a value below ``bound``. ``unrounded`` is the value before probabilities and matrices were rounded.
    """

    epsilon: float
    variables: tuple[str, ...]
    subsets: tuple[SplitSubset, ...]
    tables: tuple[SplitTable, ...]
    value: float
    bound: float
    unrounded: float
    status: Status
    message: str
    core: tuple[str, ...] = ()
    worst: bool = False
    records: int | None = None
    provenance: Provenance = "unstated"

    def __repr__(self) -> str:
        worth = f"{1000 / self.value:.4g} of 1,000 records, {self.status}"
        return f"SplitDesign({len(self.subsets)} subsets, {worth}, ε = {self.epsilon:.4g})"

    @property
    def gap(self) -> float:
        """``value - bound`` of what is released, after rounding."""
        return self.value - self.bound

    @property
    def relative_gap(self) -> float:
        """``gap / value``."""
        return self.gap / self.value

    @property
    def unrounded_gap(self) -> float:
        """``(unrounded - bound) / unrounded``: what the optimisation left, relative to the candidate matrices."""
        return (self.unrounded - self.bound) / self.unrounded

    def effective_records(self, records: int | None = None) -> float:
        """Return how many unperturbed records so many released ones are worth: ``n / value``.

        Raises
        ------
        DesignError
            If no number of records is given here, and none was for the design.
        """
        n = self.records if records is None else records
        if n is None:
            raise DesignError(sentence("the number of records is not known", fix="pass records=..."))
        return n / self.value

    def split(self, codebook: Codebook, prior_epsilon: float = 0.0) -> Split:
        """Return the law for ``Mechanism(blocks, codebook, split=...)``; ``codebook`` is that of the design.

        Under rules the cells of a subset are the feasible ones. ``prior_epsilon``: what a noisy prior has spent.
        """
        blocks = (
            Block(one.variables, one.matrix, _feasible(codebook, one.variables), self.provenance, (), prior_epsilon)
            for one in self.subsets
        )
        return Split(tuple(Subset(one.weight, block) for one, block in zip(self.subsets, blocks, strict=True)))

    def text(self) -> str:
        """Return the subsets, the most frequent first, and the worth of each table, as text.

        Of more than 60 subsets the most frequent, of more than 60 tables the least precise.
        """
        lines = [f"{len(self.subsets)} subsets at ε = {self.epsilon:g}; {self.message}"]
        often = sorted(self.subsets, key=lambda s: -s.weight)
        lines.append("share of the records, cells and variables of each subset:")
        rare = unshown(len(often), SHOWN)
        for subset in often[: len(often) - rare]:
            lines.append(f"{subset.weight / UNIT:8.4f}  {subset.cells:>8,} cells  {', '.join(subset.variables)}")
        if left := sum(s.weight for s in often[len(often) - rare :]) / UNIT:
            lines.append(f"{left:8.4f}  {rare:,} subsets that are less frequent")
        lines.append("1,000 released records are worth, for the table of")
        more = unshown(len(self.tables), SHOWN)
        shown = sorted(self.tables, key=lambda table: table.share)[:SHOWN] if more else self.tables
        lines += [f"{1000 * table.share:8.4g}  {' × '.join(table.variables)}" for table in shown]
        if more:
            lines.append(f"and as much or more for the {more:,} other tables")
        return "\n".join(lines)


def split_design(
    codebook: Codebook,
    variables: Sequence[str] | None = None,
    epsilon: float = 1.0,
    workload: Any = "pairs",
    core: Sequence[str] = (),
    structure: Structure | Sequence[Structure] | None = None,
    objective: Objective | None = None,
    max_cells: int = MAX_CELLS,
    prior: TablePrior | Mapping[Any, Any] | None = None,
    n: int | None = None,
    gap: float = DEFAULT_GAP,
) -> SplitDesign:
    """Return the subsets of variables that records show, with probabilities and matrices, best for the workload.

    A record shows one subset T, drawn with probability π_T without looking at the data; its cell goes through a matrix
    that spends the whole ε. The release is ε-differentially private for a record, whatever the number of subsets.

    Parameters
    ----------
    codebook
        Describes the variables; combinations that its rules forbid are never released, and do not count as cells.
    variables
        The variables to split; default all categorical key, sensitive and other variables.
    epsilon
        Of the record.
    workload
        ``"pairs"``, ``"triples"``, ``"worst"`` (the least precise pair), tables, tables with weights, or a
        :class:`Workload`.
    core
        Variables that every record shows.
    structure, objective
        Structures that may replace k-ary randomised response where they serve the workload better, and what their
        matrices are designed for; default none, and the variance of the subset's cells.
    max_cells
        The most feasible cells of a subset.
    prior
        A :class:`TablePrior`, or tables of the variables; default uniform. It decides how good the design is, not how
        private.
    n
        Records of the file, for :meth:`SplitDesign.effective_records`.
    gap
        Of more than 65,536 subsets: the relative gap at which the search ends, if it does not end before. A larger one
        saves time; ``status`` and ``relative_gap`` state what is proven.

    Raises
    ------
    DesignError
        If a variable, the core or the workload is not valid, a table is covered by no subset of at most ``max_cells``
        cells, or the prior leaves nothing to estimate.
    PrivacyError
        If ε is outside what exact matrices of that many cells can hold.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> names = ("sex", "own", "work", "north")
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in names))
    >>> found = split_design(book, epsilon=2.0, n=10_000)
    >>> found.status, sum(subset.weight for subset in found.subsets) == 2**53, round(found.effective_records())
    ('optimal', True, 986)
    >>> found.split(book)
    Split(4 subsets of 4 variables, ε = 2)
    """
    raise_all(DesignError, _problems(max_cells, n, gap))
    check_epsilon(epsilon, int(max_cells))
    candidates = candidates_of(codebook, variables, workload, core, int(max_cells), prior)
    found = chosen(candidates, finite(epsilon), structure, objective, finite(gap))
    return _finished(candidates, found, n, int(max_cells))


def _finished(candidates: Candidates, found: Chosen, n: int | None, asked: int) -> SplitDesign:
    """Round the probabilities, evaluate what is drawn, and say what is proven of it."""
    optimum, worst = found.optimum, candidates.workload.worst
    weights = rounded(optimum.probabilities)
    kept = np.flatnonzero(weights)
    laws = [found.matrix(int(place)) for place in kept]
    exact = found.exact_rows(kept, [law for law, _ in laws])
    total = np.asarray(exact.T @ (weights[kept] / UNIT))
    value = value_of(exact, weights[kept] / UNIT, candidates.weights, worst)
    names = [candidates.names_of(row) for row in optimum.columns.members[kept]]
    subsets = tuple(
        SplitSubset(subset, int(weights[k]), float(optimum.probabilities[k]), matrix, kind)
        for subset, k, (matrix, kind) in zip(names, kept, laws, strict=True)
    )
    order = sorted(subsets, key=lambda s: [candidates.names.index(name) for name in s.variables])
    tables = tuple(
        SplitTable(t, w, float(i), float(s))
        for t, w, i, s in zip(
            candidates.workload.tables, candidates.workload.weights, total, candidates.sampling, strict=True
        )
    )
    bound = min(optimum.bound, value)  # an exact matrix may beat the ideal one by rounding alone
    status, message = _verdict(value, bound)
    if candidates.request.max_cells < asked:
        message += (
            f" Rules link variables, and only subsets of at most {candidates.request.max_cells:,} cells are listed."
        )
    return SplitDesign(
        found.epsilon, candidates.names, tuple(order), tables, value, bound, max(optimum.value, bound), status, message,
        candidates.request.core, worst, n, candidates.prior.provenance,
    )  # fmt: skip


def _feasible(codebook: Codebook, names: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
    """Return the feasible cells of a subset, None where all combinations are feasible."""
    if not any(set(rule.variables) <= set(names) for rule in codebook.rules):
        return None
    return tuple(map(tuple, feasible_cells(codebook, names, codebook.rules).tolist()))


def rounded(probabilities: Floats) -> NDArray[np.int64]:
    """Return integers in units of 2^-53 that sum to 2^53, by largest remainder; 0 below half a unit.

    >>> rounded(np.array([0.5, 0.25, 0.25 - 2**-60, 2**-60])).tolist() == [2**52, 2**51, 2**51, 0]
    True
    """
    kept = np.flatnonzero(probabilities * UNIT >= 0.5)
    weights = np.zeros(len(probabilities), dtype=np.int64)
    weights[kept] = largest_remainder([Fraction(p) for p in probabilities[kept].tolist()])
    return weights


def _verdict(value: float, bound: float) -> tuple[Status, str]:
    gap = (value - bound) / value
    if gap <= OPTIMAL_GAP:
        return "optimal", "No other probabilities of these subsets and matrices have a better value."
    return (
        "bounded",
        f"The best probabilities of these subsets and matrices would lower this value by at most {gap:.1e} of it.",
    )


def _problems(max_cells: object, n: object, gap: object) -> Iterable[str]:
    if not (is_whole(max_cells, 1) and int(max_cells) <= MAX_SIZE):  # type: ignore[call-overload]  # is_whole checks it
        yield sentence("max_cells is not valid", got=shown(max_cells, repr), wanted=f"1..{MAX_SIZE:,}")
    if n is not None and not is_whole(n, 1):
        yield sentence("the number of records is not valid", got=shown(n, repr), wanted="a whole number, at least 1")
    if not 0 < finite(gap) < 1:
        yield sentence("the gap is not valid", got=shown(gap, repr), wanted="a number between 0 and 1")
