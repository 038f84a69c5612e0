"""Divide a record's ε among its variables: maximise ``Σ_j w_j I_j(ε_j)`` subject to ``Σ_j ε_j <= ε``.

``I_j`` is what the objective asks for: information kept, or, with the sign turned, variance or expected changes. Every
variable gets at least its floor.

Where every I_j is concave the best shares equalise the marginal information ``w_j I_j'(ε_j)``. Near ε = 0 information
grows like ε², so it is not concave, and equal marginals may be a poor local optimum. So the search is global: for a
multiplier λ, ``λ ε + Σ_j max_e (w_j I_j(e) - λ e)`` bounds every allocation (the concave envelope), and each inner
maximum is bounded on intervals by monotony: on [a, b] it is at most ``w_j I_j(b) - λ a``. A knapsack over the points
evaluated gives the allocation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from postrand.designers.suitability import Structure
from postrand.errors import DesignError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.objectives import MutualInformation, Objective, truth_of, value_of
from postrand.privacy import DifferentialPrivacy
from postrand.support.inputs import finite
from postrand.support.warned import heard

Floats = NDArray[np.float64]
Curve = Callable[[float], tuple[float, float]]
"""From ε > 0 to information attained and an upper bound of it, both not decreasing in ε."""

_UNITS = 2000  # of the budget, in the knapsack
_FIRST = 12  # points of a curve evaluated at the outset
_ROUNDS = 6  # more narrow the bound, hardly ever the value: the bound falls with the number of points
_TOLERANCE = 1e-3
_KEPT = 100  # points of a curve in the knapsack
_LEAST = 0.01  # of an equal share: what floor = 0 leaves, since a budget is positive
_FLOOR = 0.5

LARGEST_SHARE = 25.0
"""All but 1e-9 of the information is then kept. Laws in units of 2^-53 end at ln 2^53 = 36.7, and round badly near."""


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """Ask for a share of the record's remaining budget: a setting for blocks of a plan, not a separate guarantee.

    ``weight``: how much a nat about this block, or a unit of its variance, is worth beside one of another. ``floor``:
    the part of an equal share that it surely gets, 0 to 1; at 0 it may get next to nothing. ``least``: an ε that it
    surely gets, in place of the floor.

    Raises
    ------
    DesignError
        If the weight is not positive, ``least`` negative, or ``floor`` not in [0, 1].
    """

    name: ClassVar[str] = "share"
    weight: float = 1.0
    least: float = 0.0
    floor: float = _FLOOR

    def __post_init__(self) -> None:
        problems = []
        weight, least, floor = finite(self.weight), finite(self.least), finite(self.floor)
        if not weight > 0:
            got, fix = shown(self.weight, repr), "give role 'drop' to a variable that keeps no information"
            problems.append(sentence("the weight of a share is not a number above 0", got=got, wanted="> 0", fix=fix))
        if not least >= 0:
            problems.append(sentence("the least share is not >= 0", got=shown(self.least, repr), wanted=">= 0"))
        if not 0 <= floor <= 1:
            got = shown(self.floor, repr)
            problems.append(sentence("the floor of a share is not a number from 0 to 1", got=got, wanted="0 to 1"))
        raise_all(DesignError, problems)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "floor", floor)

    def scaled(self, factor: float) -> BudgetShare:
        """Return the share with ``factor`` times its least ε."""
        return replace(self, least=self.least * factor)


def is_share(privacy: object) -> TypeGuard[BudgetShare]:
    """Return whether a block asks for a share of the record's budget."""
    return isinstance(privacy, BudgetShare)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Hold the ε of each block, the weighted sum of what they keep (minus what they cost), and a bound of the best.

    ``marginals[j] = w_j I_j'(ε_j)``, by differences: equal where no share is at its least.
    """

    epsilons: tuple[float, ...]
    value: float
    bound: float
    marginals: tuple[float, ...]


def curve_of(classes: Sequence[tuple[float, Floats, Objective]], structure: Structure) -> Curve:
    """Return ε -> what the structure's best matrix keeps, mean over ``(mass, prior, objective)`` of classes.

    Information, of the whole record beyond the clear variables; of an objective that is minimised, minus its value.
    Beyond ε = 25 the matrix stays that of 25, and the bound is what the truth keeps. Of the variance, structures that
    are searched at length are judged by a member that is not: a division needs many matrices.
    """

    def curve(epsilon: float) -> tuple[float, float]:
        if epsilon > LARGEST_SHARE:
            return curve(LARGEST_SHARE)[0], math.fsum(mass * truth_of(asked, prior) for mass, prior, asked in classes)
        value = bound = 0.0
        for mass, prior, asked in classes:
            sign = 1 if asked.maximise else -1
            with heard():  # here only the curve matters, not the matrix
                found = _quick(structure, asked, prior.size).solve(prior, DifferentialPrivacy(epsilon), asked)
            kept = sign * _value(found.array, asked, prior)
            limit = asked.least(prior, epsilon) if hasattr(asked, "least") else found.bound
            value, bound = value + mass * kept, bound + mass * max(kept, sign * limit)
        return value, bound

    return curve


def information_curve(classes: Sequence[tuple[float, Floats, Objective | None]], structure: Structure) -> Curve:
    """Return the curve of information, of the whole record where a class has that objective."""
    return curve_of([(mass, prior, whole or MutualInformation()) for mass, prior, whole in classes], structure)


def _quick(structure: Any, objective: Objective, size: int) -> Structure:
    """Return the structure, or a part of it that is designed in a moment where the objective bounds itself."""
    found: Structure = structure
    if hasattr(objective, "least") and hasattr(structure, "stand_in"):
        found = structure.stand_in(objective, size)
    return found


def _value(law: Floats | TransitionMatrix, objective: Objective, prior: Floats) -> float:
    if isinstance(law, TransitionMatrix):
        return value_of(objective, law, prior)
    return float(objective.value(law, prior))


def allocate(
    curves: Sequence[Curve], total: float, weights: Sequence[float] | None = None, least: Sequence[float] | None = None
) -> Allocation:
    """Return the best division of ``total`` among the curves, with a proven bound.

    Raises
    ------
    DesignError
        If the budget is not positive, a weight or least share is not, or the least shares exceed the budget.

    Examples
    --------
    >>> found = allocate([lambda e: (1 - math.exp(-e),) * 2] * 2, 2.0)
    >>> [round(e, 2) for e in found.epsilons], found.bound >= found.value
    ([1.0, 1.0], True)
    """
    size = len(curves)
    worth = np.ones(size) if weights is None else np.array(weights, dtype=np.float64)
    floor = np.full(size, _LEAST * total / max(size, 1)) if least is None else np.array(least, dtype=np.float64)
    raise_all(DesignError, _problems(total, worth, floor))
    spare = total - floor.sum()
    most = floor + (spare if spare > 1e-9 * total else 0.0)  # else the floors are the division
    known = [_Known(c, w, lo, hi) for c, w, lo, hi in zip(curves, worth, floor, most, strict=True)]
    bound, value, epsilons = math.inf, -math.inf, list(floor)
    for _ in range(_ROUNDS):
        multiplier, best = _multiplier(known, total)
        bound = min(bound, best)
        chosen = _knapsack(known, total, multiplier)
        kept = math.fsum(k.at(e)[0] for k, e in zip(known, chosen, strict=True))
        if kept > value:
            value, epsilons = kept, chosen
        if bound - value <= _TOLERANCE * abs(value) or not any([k.refine(multiplier) for k in known]):
            break
    polished = _polished(known, epsilons, floor)
    kept = math.fsum(k.at(e)[0] for k, e in zip(known, polished, strict=True))
    value, epsilons = max((value, epsilons), (kept, polished))
    marginals = [k.slope(e) for k, e in zip(known, epsilons, strict=True)]
    return Allocation(tuple(epsilons), float(value), float(max(bound, value)), tuple(marginals))


class _Known:
    """The points of one weighted curve that are evaluated; local to :func:`allocate`."""

    def __init__(self, curve: Curve, weight: float, low: float, high: float) -> None:
        self.curve, self.weight, self.high = curve, weight, high
        self.points: dict[float, tuple[float, float]] = {}
        self.slopes: dict[float, float] = {}
        for epsilon in np.linspace(low, high, _FIRST) if high > low else [low]:
            self.at(float(epsilon))

    def at(self, epsilon: float) -> tuple[float, float]:
        if epsilon not in self.points:
            value, bound = self.curve(epsilon)
            self.points[epsilon] = (self.weight * value, self.weight * bound)
        return self.points[epsilon]

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        order = sorted(e for e in self.points if e <= self.high * (1 + 1e-12))
        values = np.maximum.accumulate([self.points[e][0] for e in order])  # a smaller budget's matrix is feasible too
        return np.array(order), values, np.array([self.points[e][1] for e in order])

    def steepest(self) -> float:
        """Return a slope that no piece of the curve exceeds: beyond it, every multiplier buys the least."""
        e, value, upper = self.arrays()
        rises = np.diff(np.append(0.0, e)).clip(1e-12)
        start = np.append(min(0.0, float(value[0])), value[:-1])
        return float(((upper - start) / rises).max())

    def ceiling(self, multiplier: Floats) -> Floats:
        """Return, for each multiplier, the bound of ``w I(e) - λ e`` over the whole range."""
        e, _, upper = self.arrays()
        start = np.concatenate([e[:1], e[:-1]])
        return np.asarray((upper - multiplier[:, None] * start).max(axis=1))

    def refine(self, multiplier: float) -> bool:
        """Halve the intervals whose bound exceeds what is attained; tell whether any was."""
        e, value, upper = self.arrays()
        attained = (value - multiplier * e).max()
        excess = upper[1:] - multiplier * e[:-1] - attained
        wide = np.diff(e) > 1e-7 * e[-1]
        chosen = np.flatnonzero((excess > 0.5 * excess.max(initial=0)) & (excess > 0) & wide)
        for k in chosen:
            self.at(float((e[k] + e[k + 1]) / 2))
        return bool(chosen.size)

    def slope(self, epsilon: float) -> float:
        if epsilon not in self.slopes:
            step = 1e-3 * epsilon
            up, down = (self.weight * self.curve(epsilon + s)[0] for s in (step, -step))
            self.slopes[epsilon] = float((up - down) / (2 * step))
        return self.slopes[epsilon]


def floors(shares: Sequence[BudgetShare], total: float) -> list[float]:
    """Return the least ε of each share: what it asks for, else its floor of an equal share of what then remains.

    >>> floors([BudgetShare(least=1.0), BudgetShare(), BudgetShare(floor=1.0)], 2.5)
    [1.0, 0.25, 0.5]
    """
    rest = max(0.0, total - math.fsum(share.least for share in shares))
    return [share.least or max(share.floor, _LEAST) * rest / len(shares) for share in shares]


def _knapsack(known: Sequence[_Known], total: float, multiplier: float) -> list[float]:
    """Return the best choice of one evaluated point a curve within the budget; one curve takes the rest.

    Budgets are counted in units, rounded up, so that the choice surely keeps the total.
    """
    unit = total / _UNITS
    slack = len(known)  # rounding up costs at most a unit each
    best = np.full(_UNITS + slack + 1, 0.0)
    chosen = []
    for k in known:
        e, value, _ = k.arrays()
        near = np.sort(np.concatenate([[0], np.argsort(multiplier * e - value, kind="stable")[:_KEPT]]))
        e, value = e[near], value[near]
        cost = np.ceil(e / unit - 1e-9).astype(int)
        padded = np.full((len(e), best.size), -np.inf)
        for row, (c, v) in enumerate(zip(cost, value, strict=True)):
            padded[row, c:] = best[: best.size - c] + v if c < best.size else -np.inf
        pick = padded.argmax(axis=0)
        best = padded[pick, np.arange(best.size)]
        chosen.append((e, cost, pick))
    for spare in range(slack, -1, -1):  # use the rounding slack where the true sum allows it
        place, found = _UNITS + spare, []
        if not math.isfinite(best[place]):
            continue
        for e, cost, pick in reversed(chosen):
            row = pick[place]
            found.append(float(e[row]))
            place -= cost[row]
        found.reverse()
        if math.fsum(found) <= total * (1 + 1e-12):
            break
    rest = max(0.0, (total - math.fsum(found)) * (1 - 1e-12))
    gains = [k.at(e + rest)[0] - k.at(e)[0] for k, e in zip(known, found, strict=True)] if rest > 1e-9 * total else [0]
    if max(gains) > 0:
        found[int(np.argmax(gains))] += rest
    return found


def _polished(known: Sequence[_Known], epsilons: list[float], least: Floats) -> list[float]:
    """Return shares with budget moved from the smallest marginal to the largest while that keeps more."""
    shares, step = list(epsilons), 0.02 * math.fsum(epsilons)
    for _ in range(60):
        slopes = [k.slope(e) for k, e in zip(known, shares, strict=True)]
        giving = [s if e - step >= low else math.inf for s, e, low in zip(slopes, shares, least, strict=True)]
        taker, giver = int(np.argmax(slopes)), int(np.argmin(giving))
        if giver != taker and math.isfinite(giving[giver]):
            before = known[taker].at(shares[taker])[0] + known[giver].at(shares[giver])[0]
            moved = known[taker].at(shares[taker] + step)[0] + known[giver].at(shares[giver] - step)[0]
            if moved > before:
                shares[taker] += step
                shares[giver] -= step
                continue
        step /= 2
        if step < 1e-5 * math.fsum(shares):
            break
    return shares


def _multiplier(known: Sequence[_Known], total: float) -> tuple[float, float]:
    """Return the multiplier of the least bound ``λ ε + Σ_j max_e (w_j I_j(e) - λ e)``, and the bound."""
    low, high = 0.0, max(k.steepest() for k in known)
    for _ in range(4):  # the bound is convex in λ
        grid = np.linspace(low, high, 200)
        bound = grid * total + sum(k.ceiling(grid) for k in known)
        k = int(bound.argmin())
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)]
    return float(grid[k]), float(bound[k])


def _problems(total: float, weights: Floats, least: Floats) -> list[str]:
    problems = []
    if not (math.isfinite(total) and total > 0):
        problems.append(sentence("the budget to divide is not positive", got=total, wanted="> 0"))
    if not len(weights):
        problems.append(sentence("there is no variable to share the budget"))
    if not (weights > 0).all():
        fix = "leave out a variable that keeps no information"
        problems.append(sentence("a weight is not positive", wanted="> 0", fix=fix))
    if not (least > 0).all():
        fix = "leave out a variable that keeps no information"
        problems.append(sentence("a variable would get a budget of zero", wanted="a least share > 0", fix=fix))
    if least.sum() > total:
        problems.append(sentence("the least shares exceed the budget", got=f"{least.sum():g}", wanted=f"<= {total:g}"))
    return problems
