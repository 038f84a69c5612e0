"""The least ε at which tables have a stated precision, and what each ε is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.codebook.codebook import Codebook
from postrand.designers.problem import Status
from postrand.designers.split.candidates import Candidates, chosen_variables, subsets_of
from postrand.designers.split.margins import TablePrior, prior_of, shares
from postrand.designers.split.matrices import Chosen
from postrand.designers.split.optimal import Optimum, optimal, value_of
from postrand.designers.split.splitting import MAX_CELLS, rounded, split_design
from postrand.designers.split.subsets import Request
from postrand.designers.split.workload import Names, Workload, workload_of
from postrand.errors import DesignError, raise_all, sentence, shown
from postrand.mechanism.matrix_storage import UNIT
from postrand.support.inputs import finite, is_whole, real_array

Floats = NDArray[np.float64]

LARGEST, SMALLEST = 30.0, 0.01
_CLOSE = 1e-3
_GAP = 1e-4  # far below what the interval's ends differ by


@dataclass(frozen=True, slots=True, eq=False)
class LeastEpsilon:
    """Hold the least ε found at which every cell has its half-width, and the largest at which that is impossible.

    ``epsilon``: a design meets every half-width, checked with the rounded integers. ``impossible``: at this ε no
    probabilities of the subsets do, by a proven bound (0 where even the smallest ε that is tried suffices). ``widths``:
    the half-width of each cell of each table, at ``epsilon``.
    """

    epsilon: float
    impossible: float
    widths: Mapping[Names, Floats]
    subsets: tuple[tuple[Names, int], ...]

    def __repr__(self) -> str:
        return f"LeastEpsilon({self.epsilon:.4g}, impossible at {self.impossible:.4g})"


def least_epsilon(
    codebook: Codebook,
    half_widths: Mapping[Any, Any],
    n: int,
    variables: Sequence[str] | None = None,
    core: Sequence[str] = (),
    max_cells: int = MAX_CELLS,
    prior: TablePrior | Mapping[Any, Any] | None = None,
    level: float = 0.95,
) -> LeastEpsilon:
    """Return the least ε at which tables have their half-widths, for a file of n records: ± 2 points is 0.02.

    The half-width of a cell is ``z sqrt(V/n)``, V the variance of one record's estimate of its share, sampling and
    perturbation, subsets combined by inverse variance. The search halves an interval until its ends differ by one part
    in a thousand; the answer is its upper end, where a design was found and checked. Randomised response is the matrix.

    Parameters
    ----------
    half_widths
        A half-width for each table, which its worst cell has to meet, or an array with one for each cell.

    Raises
    ------
    DesignError
        If a table or half-width is not valid, or even ε = 30, or unperturbed records, do not suffice.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in ("sex", "own", "work")))
    >>> found = least_epsilon(book, {("sex", "own"): 0.02, ("own", "work"): 0.02}, n=10_000)
    >>> round(found.epsilon, 2), found.impossible < found.epsilon, bool(found.widths["sex", "own"].max() <= 0.02)
    (1.93, True, True)
    """
    return _bisected(*wanted_of(codebook, half_widths, n, variables, core, max_cells, prior, level))


def wanted_of(
    codebook: Codebook, half_widths: Any, n: int, variables: Any, core: Any, max_cells: int, prior: Any, level: float
) -> tuple[Candidates, dict[Names, Floats]]:
    """Return the problem whose value is at most 1 where every cell has its half-width, and the half-widths.

    Raises
    ------
    DesignError
        If a table or half-width is not valid, or even unperturbed records do not suffice.
    """
    names, core = chosen_variables(codebook, variables, core)
    known, asked = prior_of(prior), _asked(codebook, half_widths, names, n, level)
    cells = [(table, k) for table, widths in asked.items() for k in range(widths.size)]
    spare = NormalDist().inv_cdf((1 - level) / 2) ** 2 / n / np.concatenate([w.ravel() for w in asked.values()]) ** 2
    p = np.concatenate([shares(known, codebook, table).ravel() for table in asked])
    short = np.flatnonzero(p * (1 - p) * spare > 1)
    if short.size:
        where, fix = " × ".join(cells[short[0]][0]), "ask for wider intervals, or release more records"
        raise DesignError(sentence("even unperturbed records do not reach a half-width", where=where, fix=fix))
    request = Request(codebook, names, core, max_cells, tuple(cells), known)
    # A cell's variance V has to meet spare V <= 1: the largest spare/M is the value, 1 where it is just met.
    problem = Candidates(*subsets_of(request), Workload(tuple(asked), worst=True), spare, p)
    return problem, asked


def _bisected(problem: Candidates, asked: Mapping[Names, Floats]) -> LeastEpsilon:
    low, impossible, high = math.log(SMALLEST), 0.0, math.log(LARGEST)
    met = exactly(problem, LARGEST, optimal(problem.pool(LARGEST, _GAP), problem.weights, worst=True))
    if met.value > 1:
        what = f"no split release at ε = {LARGEST:g} reaches the half-widths"
        raise DesignError(sentence(what, fix="ask for wider intervals, or name fewer core variables"))
    while high - low > _CLOSE:
        middle = (low + high) / 2
        epsilon = math.exp(middle)
        optimum = optimal(problem.pool(epsilon, _GAP), problem.weights, worst=True)
        found = exactly(problem, epsilon, optimum)
        if found.value <= 1:
            high, met = middle, found
        else:
            low = middle
            impossible = max(impossible, epsilon) if optimum.bound > 1 else impossible
    return LeastEpsilon(met.epsilon, impossible, widths_of(problem, asked, met.total), met.subsets)


def widths_of(problem: Candidates, asked: Mapping[Names, Floats], total: Floats) -> dict[Names, Floats]:
    """Return the half-width of each cell of each table, from its information."""
    z_over_n = problem.weights * np.concatenate([w.ravel() for w in asked.values()]) ** 2
    widths, at = {}, 0
    for table, wanted in asked.items():
        inside = slice(at, at + wanted.size)
        widths[table] = np.sqrt(z_over_n[inside] / total[inside]).reshape(wanted.shape)
        at += wanted.size
    return widths


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Hold a design of exact integers: its value, the information of each cell, and subsets with weights."""

    epsilon: float
    value: float
    total: Floats
    subsets: tuple[tuple[Names, int], ...]


def exactly(problem: Candidates, epsilon: float, optimum: Optimum) -> Rounded:
    """Return what a design is once it is rounded to integers: 1 or less where it meets the half-widths."""
    weights = rounded(optimum.probabilities)
    kept, found = np.flatnonzero(weights), Chosen(problem, epsilon, optimum)
    rows = found.exact_rows(kept, [found.matrix(int(k))[0] for k in kept])
    pi = weights[kept] / UNIT
    names = tuple(problem.names_of(row) for row in optimum.columns.members[kept])
    subsets = tuple(zip(names, weights[kept].tolist(), strict=True))
    return Rounded(epsilon, value_of(rows, pi, problem.weights, worst=True), np.asarray(rows.T @ pi), subsets)


def _asked(codebook: Codebook, given: Any, names: Names, n: object, level: object) -> dict[Names, Floats]:
    """Return the half-widths of each cell by table, the variables in the codebook's order."""
    if not isinstance(given, Mapping) or not given:
        what = "the half-widths are not a mapping from tables to numbers"
        raise DesignError(sentence(what, got=shown(given, repr), fix='write {("age", "sex"): 0.02}'))
    keys = [(key,) if isinstance(key, str) else tuple(key) for key in given]
    workload = workload_of(keys, names)
    problems, found = [], {}
    for key, table, widths in zip(keys, workload.tables, given.values(), strict=True):
        shape, where = tuple(codebook[name].size for name in key), " × ".join(table)
        array = real_array(widths, "the half-widths", DesignError)
        if array.ndim and array.shape != shape:
            problems.append(sentence("half-widths do not fit the table", where=where, got=array.shape, wanted=shape))
        elif not (np.isfinite(array).all() and (array > 0).all()):
            problems.append(sentence("a half-width is not a number above 0", where=where, wanted="0.02 for ± 2 points"))
        else:
            full = np.broadcast_to(array, shape)
            found[table] = full.transpose([key.index(name) for name in table])
    if not is_whole(n, 1):
        problems.append(sentence("the number of records is not valid", got=shown(n, repr), wanted=">= 1"))
    if not 0 < finite(level) < 1:
        problems.append(sentence("the level of an interval is not between 0 and 1", got=shown(level, repr)))
    raise_all(DesignError, problems)
    return found


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """Hold one ε: how many unperturbed records a released one is worth, a bound of it, and the number of subsets."""

    epsilon: float
    share: float
    bound: float
    subsets: int
    status: Status


@dataclass(frozen=True, slots=True)
class Frontier:
    """Hold what each ε is worth for one workload, in the order of ε; ``records`` of the file, if given."""

    points: tuple[FrontierPoint, ...]
    records: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        names = FrontierPoint.__slots__
        return {"records": self.records, "points": [{name: getattr(p, name) for name in names} for p in self.points]}

    def text(self) -> str:
        """Return the table as text, one line for each ε."""
        n = self.records or 1000
        lines = [f"{'epsilon':>8}{f'worth of {n:,}':>20}{'at most':>14}{'subsets':>9}  status"]
        for p in self.points:
            lines.append(f"{p.epsilon:>8g}{n * p.share:>20.6g}{n * p.bound:>14.6g}{p.subsets:>9,}  {p.status}")
        return "\n".join(lines)


def split_frontier(codebook: Codebook, epsilons: Iterable[float], **options: Any) -> Frontier:
    """Return effective records against ε; the options are those of :func:`postrand.split_design`.

    Raises
    ------
    DesignError
        If no ε is given; otherwise as :func:`postrand.split_design`.

    Examples
    --------
    >>> from postrand import Codebook, Variable
    >>> book = Codebook(tuple(Variable(name, "other", ("no", "yes")) for name in ("sex", "own", "work")))
    >>> print(split_frontier(book, [1.0, 4.0], n=1000).text())
     epsilon      worth of 1,000       at most  subsets  status
           1             31.2615       31.2615        1  optimal
           4             757.119       757.119        1  optimal
    """
    budgets = sorted({float(epsilon) for epsilon in epsilons})
    if not budgets:
        raise DesignError(sentence("there is no epsilon for the frontier", fix="pass epsilons=[1, 2, 4]"))
    designs = [split_design(codebook, epsilon=epsilon, **options) for epsilon in budgets]
    points = tuple(FrontierPoint(d.epsilon, 1 / d.value, 1 / d.bound, len(d.subsets), d.status) for d in designs)
    return Frontier(points, options.get("n"))
