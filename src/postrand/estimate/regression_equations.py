"""Solve corrected estimating equations, test the root, and state each record's influence on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.families import Family, Linear, Logistic, Multinomial
from postrand.estimate.latent import MAX_PREDICTOR
from postrand.estimate.regression_data import Data
from postrand.estimate.regression_grid import Grid, grid_of, made
from postrand.estimate.regression_intervals import Pivot
from postrand.estimate.regression_linear import normal_of
from postrand.estimate.regression_moments import Records, records_of
from postrand.estimate.regression_repeats import refusal
from postrand.estimate.regression_weakest import weakest
from postrand.estimate.result import OF_WORKLOAD
from postrand.estimate.split_axis import split_axes

MAX_STEPS = 60
HALVINGS = 30
ROUNDING = 1e-18
NEAR = 1e-12
COLLINEAR = 1e-9
"""A symmetric matrix with unit diagonal counts as definite if its eigenvalues exceed this."""
SHARE = 0.02
SHIFTS = (0.0, 1.0, -1.0)
SEARCHED = 1 << 18
"""A larger table is not searched for a second root once one is found: its weights are sums over many records."""
LEVERAGE = 0.9
"""A record's share of its own Jacobian counts as at most this."""
MERGED_BEFORE = "ask whoever makes the release to merge categories"
WAY_OUT = (
    "use fewer perturbed covariates, ask for a release with a higher ε, "
    "or the method 'likelihood' if the family is plausible (not where one member of each household shows the variables)"
)


class Equations(Protocol):
    """Corrected estimating equations."""

    @property
    def parameters(self) -> int:
        """The number P of coefficients."""

    def total(self, theta: Array, convex: bool = False) -> tuple[Array, Array]:
        """Return the equation U (P,) and its negative Jacobian J (P, P)."""

    def each(self, theta: Array, directions: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield a slice of cases, their parts of U, (c, P), and of ``t'Jt`` for each column t, (c, q)."""


class Root(NamedTuple):
    """A root θ (P,), and the number of Newton steps to it."""

    theta: Array
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Hold the root θ (P,), each case's influence on it, ``influence`` (N, P), and its share of each profiled Jacobian.

    ``leverage`` (N, P) sums to 1 over the records, for each coefficient.
    """

    theta: Array
    influence: Array
    leverage: Array
    records: Records
    steps: int

    def jackknife(self) -> Array:
        """Return the influence of leaving a case's record out, (N, P): divided by 1 less the record's leverage."""
        return np.asarray(self.influence / (1 - np.minimum(self.leverage, LEVERAGE)))

    def covariance(self, values: Array, others: Array | None = None) -> Array:
        """Return ``Σ_h n_h/(n_h−1) Σ_i (a_i − ā_h)(b_i − b̄_h)'`` over records, (P, Q), from values of cases.

        Raises
        ------
        EstimationError
            If a stratum has a single record.
        """
        held = self.records
        right = values if others is None else others
        size = int(held.stratum.max()) + 1
        n = np.bincount(held.stratum, weights=held.count, minlength=size).astype(np.float64)
        if n.min() < 2:
            what, fix = "a stratum or table of a single record has no variance estimate", "merge strata"
            raise EstimationError(sentence(what, fix=fix))
        factor = (n / (n - 1))[held.stratum] * held.count
        left, right = (_centred(held, v, n) for v in (values, right))
        return np.asarray(left.T @ (factor[:, None] * right))

    def pivot(self) -> Pivot:
        """Return what the intervals need; degrees of freedom match the kurtosis of the influences (Satterthwaite)."""
        held = self.records
        size = int(held.stratum.max()) + 1
        n = np.bincount(held.stratum, weights=held.count, minlength=size).astype(np.float64)
        factor = ((n / np.maximum(n - 1, 1))[held.stratum] * held.count)[:, None]
        zeta, gamma = _centred(held, self.jackknife(), n), _centred(held, self.leverage, n)
        variance = (factor * zeta * zeta).sum(axis=0)
        fourth = (held.count[:, None] * zeta**4).sum(axis=0)
        excess = fourth / np.maximum(variance, np.finfo(float).tiny) ** 2 - 1 / n.sum()
        freedom = np.maximum(2 / np.maximum(excess, 1e-12), 1.0)
        slope = (factor * gamma * gamma).sum(axis=0)
        return Pivot(variance, (factor * zeta * gamma).sum(axis=0), slope, freedom)


def _centred(records: Records, values: Array, n: Array) -> Array:
    sums = np.zeros((len(n), values.shape[1]))
    np.add.at(sums, records.stratum, records.count[:, None] * values)
    return np.asarray(values - (sums / n[:, None])[records.stratum])


def solve_equations(data: Data) -> tuple[Solved, tuple[str, ...]]:
    """Solve the corrected equations of a formula; return the root and the names of the design's columns.

    Raises
    ------
    EstimationError
        If there is no root with a positive definite Jacobian, or there are several.
    """
    records = records_of(data)
    whole = data.latent.isdisjoint(data.absent) and (not data.left_out or data.response not in data.latent)
    if isinstance(records.family, Linear) and whole:
        normal, names = normal_of(data, records)
        scaled = normal.gram / _scale(normal.gram)
        if np.abs(np.linalg.eigvalsh(scaled)).min() < COLLINEAR:
            raise _not_identified(normal.gram, names)
        if not _is_definite(normal.gram):
            raise _no_root("the corrected sums of squares and products are not positive definite", data, records)
        return _solved(
            normal, Root(np.asarray(np.linalg.solve(normal.gram, normal.moment), np.float64), 1), records
        ), names
    grid, names = grid_of(data, records)
    return _solved(grid, search(grid, names, data), records), names


def _solved(equations: Equations, root: Root, records: Records) -> Solved:
    """Return each case's influence on a root, and its share of the profiled Jacobian."""
    _, jacobian = equations.total(root.theta)
    inverse = np.asarray(np.linalg.inv(jacobian), np.float64)
    own = np.diag(inverse).copy()
    influence, leverage = np.empty((2, len(records.count), len(own)))
    for part, pull, bent in equations.each(root.theta, inverse):
        weight = records.weight[part, None]
        influence[part] = weight * pull @ inverse
        leverage[part] = weight * bent / own
    return Solved(root.theta, influence, leverage, records, root.steps)


def search(grid: Grid, names: Sequence[str] = (), data: Data | None = None) -> Root:
    """Return the stable root of the equations over the grid: the one root at which the Jacobian is positive definite.

    Newton's method starts at the fit of a linear model on the scale of the response, at the regression that takes
    released cells for true ones, and at three constants. All are tried where the table is small or the first fails.
    ``names`` are those of the terms, and ``data`` the records, for a message.

    Raises
    ------
    EstimationError
        If no start leads to a stable root, or two lead to different ones.
    """
    _check_design(grid, names)
    found: list[Root] = []
    for start in _starts(grid):
        with np.errstate(all="ignore"):  # a step too far overflows, is not shorter, and is halved
            root = _newton(grid, start)
        if root is not None and all(_apart(grid, root.theta, other.theta) for other in found):
            found.append(root)
        if found and grid.table.size > SEARCHED:
            break
    if len(found) > 1:
        raise _no_root(f"{len(found)} stable roots", data, grid.records)
    if not found and _is_clear(grid):
        raise _separated()
    if not found:
        raise _no_root("no root from any start", data, grid.records)
    if not isinstance(grid.records.family, Logistic | Multinomial):
        return found[0]
    if np.abs(grid.predictors(found[0].theta)).max() > MAX_PREDICTOR:
        raise _separated()
    return found[0]


def _newton(grid: Grid, start: Array) -> Root | None:
    """Return the stable root that safeguarded Newton steps reach from a start, or None.

    A step is halved until U is shorter in the metric of the convex Jacobian at the start; where the Jacobian is not
    definite, the convex one gives the step.
    """
    theta = start
    pull, slope = grid.total(theta)
    metric = _inverse(grid.total(theta, convex=True)[1])
    if metric is None:
        return None
    size = float(pull @ metric @ pull)
    for steps in range(1, MAX_STEPS + 1):
        if not (_is_definite(slope)):
            slope = grid.total(theta, convex=True)[1]
            if not _is_definite(slope):
                return None
        move = np.linalg.solve(slope, pull)
        for _ in range(HALVINGS):
            ahead = grid.total(theta + move)
            reached = float(ahead[0] @ metric @ ahead[0])
            if reached < size or reached < ROUNDING:
                break
            move = move / 2
        else:
            return Root(theta, steps) if size < NEAR and _is_definite(grid.total(theta)[1]) else None
        theta, (pull, slope), size = theta + move, ahead, reached
        if float(np.abs(pull @ move)) < ROUNDING and size < NEAR:
            return Root(theta, steps) if _is_definite(slope) else None
    return None


def _starts(grid: Grid) -> Iterator[Array]:
    """Yield the linear start, the naive regression, and a constant, each (P,)."""
    m, records = grid.fixed.shape[1], grid.records
    weight = records.count * records.weight
    centre = _centre(grid)
    level = _link(records.family, np.broadcast_to(centre, (1, m)))[0]
    held = np.abs(grid.table)
    cross = np.linalg.pinv(_sum(grid, lambda rows: grid.design.gram(held[rows], rows)))

    def fitted(predictors: Callable[[slice], Array]) -> Array:
        """Return the coefficients of a least squares fit to linear predictors over the grid."""
        right = _sum(grid, lambda rows: grid.design.summed(held[rows][..., None] * predictors(rows), rows))
        return np.asarray((right @ cross).ravel())

    gram = _sum(grid, lambda rows: grid.design.gram(grid.table[rows], rows))
    if _is_definite(gram):
        line = np.asarray(np.linalg.solve(gram, np.tensordot(weight, grid.fixed, axes=1).T).T, np.float64)
        yield fitted(lambda rows: _predictors(records.family, grid.design.predictors(line, rows), centre))
    constant = fitted(lambda rows: level)
    if _is_clear(grid):
        yield constant
        return
    with np.errstate(all="ignore"):
        plain = _newton(made(records.naive(), grid.design), constant)
    if plain is not None:
        yield plain.theta
    unit = fitted(lambda rows: np.ones(m))
    for shift in SHIFTS:
        yield constant + shift * unit


def _is_clear(grid: Grid) -> bool:
    """Tell whether every released cell is the true one."""
    return all(np.array_equal(f.weights, f.naive().weights) for f in grid.records.factors)


def _sum(grid: Grid, over: Callable[[slice], Array]) -> Array:
    return np.asarray(sum(over(rows) for rows in grid.rows()))


def _predictors(family: Family, mean: Array, centre: Array) -> Array:
    linked = _link(family, _inside(family, mean.reshape(-1, len(centre)), centre))
    return np.asarray(linked.reshape(mean.shape))


def _centre(grid: Grid) -> Array:
    """Return the corrected mean of the response, inside its range, shape (m,)."""
    records = grid.records
    total = np.zeros(grid.fixed.shape[1])
    for part in records.parts(1):
        total += (records.count * records.weight)[part] @ records.outcomes((), part)[:, 0]
    return np.asarray(_inside(records.family, total[None] / records.count.sum(), None)[0])


def _inside(family: Family, mean: Array, centre: Array | None) -> Array:
    """Return means moved inside the range of the family, shape (n, m)."""
    if isinstance(family, Logistic | Multinomial):
        held = np.clip(mean, SHARE, 1 - SHARE)
        return np.asarray(held / np.maximum(1.0, held.sum(axis=1, keepdims=True) + SHARE))
    floor = 1e-3 if centre is None else 0.1 * centre
    return np.asarray(np.maximum(mean, floor))


def _link(family: Family, mean: Array) -> Array:
    """Return the linear predictors of means inside the range, shape (n, m)."""
    if isinstance(family, Logistic | Multinomial):
        return np.asarray(np.log(mean) - np.log(1 - mean.sum(axis=1, keepdims=True)))
    return np.log(mean)


def _apart(grid: Grid, one: Array, two: Array) -> bool:
    """Tell whether two roots are further apart than rounding: 0.001 in some linear predictor that has weight."""
    gap = np.abs(grid.predictors(one) - grid.predictors(two))
    return bool(gap.max() > 1e-3)


def _scale(matrix: Array) -> Array:
    scale = np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))
    return np.outer(scale, scale)


def _is_definite(matrix: Array) -> bool:
    """Tell whether a symmetric matrix is positive definite, by a margin that rounding cannot make."""
    if not np.isfinite(matrix).all():
        return False
    return bool(np.linalg.eigvalsh(matrix / _scale(matrix)).min() > COLLINEAR)


def _inverse(matrix: Array) -> Array | None:
    return np.asarray(np.linalg.inv(matrix), np.float64) if _is_definite(matrix) else None


def _check_design(grid: Grid, names: Sequence[str]) -> None:
    gram = _sum(grid, lambda rows: grid.design.gram(np.abs(grid.table[rows]), rows))
    if not _is_definite(gram):
        raise _not_identified(gram, names)


def _not_identified(gram: Array, names: Sequence[str]) -> EstimationError:
    what = "the regression is not identified: the information matrix is singular"
    fix = "drop collinear terms, or merge categories that hardly occur"
    where = ", ".join(collinear(gram, names))
    return EstimationError(sentence(what, where=f"terms {where}" if where else "", fix=fix))


def collinear(gram: Array, names: Sequence[str]) -> list[str]:
    """Return the terms, shape (p,), that can be made of each other, from their sums of products (p, p).

    >>> collinear(np.array([[2.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.0, 2.0]]), ["age", "sex", "years"])
    ['age', 'years']
    """
    if len(names) != len(gram) or not np.isfinite(gram).all():
        return []
    size = np.sqrt(np.abs(np.diag(gram)))
    size[size == 0] = 1.0  # a term that is zero in all records is one by itself
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    part = np.abs(vectors[:, values <= COLLINEAR]).max(axis=1, initial=0.0)
    return [name for name, share in zip(names, part, strict=True) if share > 1e-4]


def _no_root(got: str, data: Data | None, records: Records) -> EstimationError:
    what = "the corrected equations have no single stable root"
    if data is not None and (repeated := refusal(what, got, data, records)):
        return repeated
    what += ": the perturbation leaves too little information"
    named = () if data is None else weakest(data, records)
    fix = f"{MERGED_BEFORE}, "
    if named:
        what += f", least of {', '.join(named)}"
        fix = f"leave their variable out, or {MERGED_BEFORE} or to name those that mean no answer as missing_codes, "
        fix += "these first; else "
    if data is not None and split_axes(data.axes):
        got += f", and {data.table.num_rows:,} records that show all variables"
        fix += f"ask for {OF_WORKLOAD}, "
    return EstimationError(sentence(what, got=got, fix=fix + WAY_OUT))


def _separated() -> EstimationError:
    what = "the response is separated: covariates predict it perfectly, and coefficients diverge"
    got = f"a linear predictor beyond {MAX_PREDICTOR:g}"
    return EstimationError(sentence(what, got=got, fix="drop or merge the categories of the covariate"))
