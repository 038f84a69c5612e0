"""The whole record in the objective: the matrix that keeps most of X beyond what the clear variables C tell.

``I(X; Z | C) = Σ_c w_c I(p_c, M)`` is convex in ``M``, as each term is: over the uniform off-diagonal family a vertex
is best. In units of the uniform law (see
:mod:`postrand.designers.differential.sign_patterns`), with ``θ_c = Σ_k p_ck τ_k``,

    I(X; Z | C) = Σ_k p_k E(τ_k) - Σ_c w_c Σ_k e(θ_c - S p_ck τ_k) / S.

Few vertices are all tried; of many, the best that single changes find. Three bounds hold for every matrix of the
family, by ``I(X; Z | C) = I(X; Z) - I(C; Z)``: the optimum of ``I(X; Z)``; the mean of the classes' own optima; and the
optimum for merged classes, since a coarser C tells less. Where one matrix is best for every class, as where X and C are
independent, the second proves it.

Over all ε-DP channels the optimum is a staircase again: the objective is a sum over columns, convex and homogeneous in
each (Kairouz, Oh & Viswanath 2016), so a linear programme over the ``2^S`` sets solves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.designers.differential.pricing import Gain
from postrand.designers.differential.sign_patterns import HIGH, LEAST, LOW, MOST, best_pattern, size_taus
from postrand.designers.differential.staircase import EXACT_SIZE, Staircase
from postrand.errors import DesignError, sentence
from postrand.objectives.information import entropy_excess, information_bound

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_WORK = 1 << 28
"""Logarithms that an enumeration may take: some seconds."""
_CHUNK = 1 << 20
_MERGED = 32  # classes whose own optima enter the bound
_SEARCHED = 256  # classes that the local search sees
_EFFORT = 1 << 27  # logarithms that it may take
_STARTS = 8  # random ones of it
_ROUNDING = 1e-12
_NOISE = 1e-14  # of the largest term: the rounding of the sums, which matters where their terms cancel
_ROUNDS = 200
_PRICED = 100  # columns added a round


@dataclass(frozen=True, slots=True)
class Vertex:
    """The best off-diagonal entries found, (S,), what they keep, a proven bound, and what the usual optimum keeps."""

    off: Floats
    value: float
    bound: float
    usual: float
    tried: int


@dataclass(frozen=True, slots=True)
class Classes:
    """P(c), (C,), and p(.|c), (C, S), of the classes that leave anything to tell."""

    weights: Floats
    priors: Floats

    @property
    def size(self) -> int:
        """The number S of categories."""
        return int(self.priors.shape[1])

    @property
    def margin(self) -> Floats:
        """Their sum over the classes, (S,)."""
        margin: Floats = self.weights @ self.priors
        return margin

    @property
    def work(self) -> int:
        """How many logarithms one value takes."""
        return int(np.count_nonzero(self.priors)) + self.weights.size

    def values(self, taus: Floats) -> Floats:
        """Return ``I(X; Z | C)`` of rows ``τ`` (N, S), shape (N,)."""
        size, found = self.size, np.empty(len(taus))
        c, k = np.nonzero(self.priors)  # for all other categories of a class the term is the same
        alike = self.weights * (size - np.bincount(c, minlength=self.weights.size))
        row = entropy_excess((1 - size) * taus) + (size - 1) * entropy_excess(taus)
        step = max(1, _CHUNK // self.work)
        for start in range(0, len(taus), step):
            part = taus[start : start + step]
            theta = part @ self.priors.T
            inside = theta[:, c] - size * self.priors[c, k] * part[:, k]
            lost = entropy_excess(inside) @ self.weights[c] + entropy_excess(theta) @ alike
            found[start : start + step] = (row[start : start + step] @ self.margin - lost) / size
        return found


def best_vertex(weights: Floats, priors: Floats, prior: Floats, epsilon: float) -> Vertex:
    """Return the best member of the uniform off-diagonal family for the classes (S >= 3).

    ``prior`` (S,) is that of the usual optimum, to compare with.
    """
    classes = Classes(weights, priors)
    usual = best_pattern(prior, epsilon).off * prior.size - 1
    if not weights.size:
        return Vertex((1 + usual) / prior.size, 0.0, 0.0, 0.0, 0)
    kept = float(classes.values(usual[None])[0])
    tried = _all_vertices(classes, epsilon)
    if tried:
        (tau, value, number), bound = tried, tried[1]
    else:
        tau, number = _climbed(_merged(classes, _SEARCHED), epsilon, usual)
        value, bound = float(classes.values(tau[None])[0]), upper_bound(classes, epsilon)
    if kept >= value * (1 - _ROUNDING):  # of equals, the usual one
        tau, value = usual, max(value, kept)
    noise = _NOISE * float(entropy_excess((1 - prior.size) * tau).max())
    return Vertex((1 + tau) / prior.size, value, max(bound, value) * (1 + _ROUNDING) + noise, kept, number)


def best_channel(weights: Floats, priors: Floats, epsilon: float) -> Staircase:
    """Return the best ε-DP channel of all for the classes, and a bound of every channel's.

    Raises
    ------
    DesignError
        If there are more than 16 categories, too many classes, or the linear programme fails.
    """
    size = priors.shape[1]
    if size > EXACT_SIZE or weights.size << size > _WORK:
        got, fix = f"{size} categories, {weights.size} classes", "use structure 'uniform-off-diagonal'"
        raise DesignError(sentence("the table is too large for the whole record over all matrices", got=got, fix=fix))
    unit, extra = information_bound(epsilon), math.expm1(epsilon)
    worth = sum((w * Gain(epsilon, unit).plain(_sums(p)) for w, p in zip(weights, priors, strict=True)), np.zeros(1))
    worth = worth if weights.size else np.zeros(1 << size)
    chosen, bound = np.append(1 << np.arange(size), (1 << size) - 1), math.inf
    for rounds in count(1):
        sets = _members(chosen, size)
        # The objective is in units of the closed bound: unscaled, small ε leave the solver at a wrong vertex.
        rows, ones = 1 + extra * sets.T, np.ones(size)
        answer = scipy.optimize.linprog(-worth[chosen], A_eq=rows, b_eq=ones, method="highs-ds")
        if answer.status != 0:
            raise DesignError(sentence("the linear programme of the staircase failed", got=answer.message))
        y = -answer.eqlin.marginals
        reduced = worth - extra * _sums(y) - y.sum()
        value, bound = -float(answer.fun), min(bound, float(y.sum() + max(0.0, reduced.max())))
        fresh = np.argpartition(-reduced, min(_PRICED, reduced.size - 1))[:_PRICED]
        fresh = np.setdiff1d(fresh[reduced[fresh] > 1e-13], chosen)
        if bound - value <= _ROUNDING * value or not fresh.size or rounds == _ROUNDS:
            break
        chosen = np.concatenate([chosen, fresh])
    used = answer.x > 0
    theta: Floats = answer.x[used]
    return Staircase(sets[used], theta, value * unit, max(bound, value) * unit, rounds)


def _sums(values: Floats) -> Floats:
    """Return the sum over every set of categories, (2^S,); bit x of an index tells whether x is in the set."""
    found = np.zeros(1)
    for value in values:
        found = np.concatenate([found, found + value])
    return found


def _members(codes: Ints, size: int) -> NDArray[np.bool_]:
    return (codes[:, None] >> np.arange(size) & 1).astype(bool)


def _all_vertices(classes: Classes, epsilon: float) -> tuple[Floats, float, int] | None:
    """Try every vertex: return the best, its value and how many there are; None where that would take too long."""
    families = size_taus(classes.size, epsilon)
    number = sum(_number(values, classes.size) for values in families)
    if number * classes.work > _WORK:
        return None
    best, tau = -1.0, np.zeros(classes.size)
    for values in families:
        for taus in _vertices(values, classes.size):
            found = classes.values(taus)
            k = int(found.argmax())
            best, tau = max((best, tau), (float(found[k]), taus[k]), key=lambda pair: pair[0])
    return tau, max(best, 0.0), number


def _special(values: Floats) -> tuple[list[int], list[int]]:
    """Return the values that any category may take, and those that one at most may take."""
    any_, one = [LOW], []
    any_ += [HIGH] * bool(values[HIGH] > values[LOW])
    one += [LEAST] * bool(values[LEAST] < values[LOW]) + [MOST] * bool(values[MOST] > values[HIGH])
    return any_, one


def _number(values: Floats, size: int) -> int:
    any_, one = _special(values)
    return int(math.prod([len(any_) ** size, *[size + 1] * len(one)]))


def _vertices(values: Floats, size: int) -> Iterator[Floats]:
    """Yield rows τ (N, S) that include every vertex with these values (see ``corner_values``)."""
    any_, one = _special(values)
    plain = np.full((1, size), values[LOW])
    if len(any_) > 1:
        plain = np.where(_members(np.arange(1 << size), size), values[HIGH], values[LOW])
    for places in product([None, *range(size)], repeat=len(one)):
        held = [(at, special) for at, special in zip(places, one, strict=True) if at is not None]
        if len({at for at, _ in held}) == len(held):
            taus = plain.copy()
            for at, special in held:
                taus[:, at] = values[special]
            yield taus


def _climbed(classes: Classes, epsilon: float, usual: Floats) -> tuple[Floats, int]:
    """Return the best vertex that changes of one category at a time find, from several starts, and how many it tried.

    Of starts for which there is no time left, the vertex itself is tried.
    """
    generator, size = np.random.default_rng(0), classes.size
    heavy = np.argsort(-classes.weights)[:_STARTS]
    likely = [usual] + [best_pattern(p, epsilon).off * size - 1 for p in classes.priors[heavy]]
    best, tau, tried = -1.0, usual, 0
    for values in size_taus(size, epsilon):
        any_, one = _special(values)
        starts = [np.array(any_)[np.abs(values[any_] - t[:, None]).argmin(axis=1)] for t in likely]
        starts += [np.full(size, HIGH), *generator.choice(any_, (_STARTS, size))]
        for choice in np.unique(starts, axis=0):
            value = float(classes.values(values[choice][None])[0])
            while tried * classes.work < _EFFORT:
                near = _neighbours(choice, [*any_, *one])
                found = classes.values(values[near])
                tried += len(near)
                k = int(found.argmax())
                if not found[k] > value * (1 + _ROUNDING):
                    break
                choice, value = near[k], float(found[k])
            best, tau = max((best, tau), (value, values[choice]), key=lambda pair: pair[0])
    return tau, tried


def _neighbours(choice: Ints, options: list[int]) -> Ints:
    """Return the choice and those that differ in one category; who held a value that one may hold gives it up."""
    found = [choice]
    for value in options:
        near = np.repeat(choice[None], choice.size, axis=0)
        if value < LOW:
            near[near == value] = LOW if value == LEAST else HIGH
        np.fill_diagonal(near, value)
        found += list(near)
    return np.unique(found, axis=0)


def upper_bound(classes: Classes, epsilon: float) -> float:
    """Return the least of the bounds that hold for every member of the family."""
    merged = _merged(classes, _MERGED)
    total, margin = float(classes.weights.sum()), classes.margin
    bounds = [total * best_pattern(margin / total, epsilon).bound]
    each = [best_pattern(p / p.sum(), epsilon).bound for p in merged.priors]
    bounds.append(float(merged.weights @ each))
    if tried := _all_vertices(merged, epsilon):
        bounds.append(tried[1])
    return min(bounds)


def _merged(classes: Classes, most: int) -> Classes:
    """Return at most ``most`` classes, each a mixture of similar ones: weighted k-means on p(.|c)."""
    if classes.weights.size <= most:
        return classes
    found = Classes(classes.weights, classes.priors[np.argsort(-classes.weights)[:most]])
    for _ in range(20):
        centres = found.priors
        label = ((centres**2).sum(axis=1) - 2 * classes.priors @ centres.T).argmin(axis=1)
        found = _pooled(classes, label)
    return found


def _pooled(classes: Classes, label: Ints) -> Classes:
    weights: Floats = np.bincount(label, weights=classes.weights).astype(np.float64)
    sums = np.stack([np.bincount(label, weights=classes.weights * p) for p in classes.priors.T], axis=1)
    used = weights > 0
    return Classes(weights[used], sums[used] / weights[used, None])
