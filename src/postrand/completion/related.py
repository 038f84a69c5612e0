"""Keep in completed copies what perturbed variables have in common with unperturbed columns.

The mixture is a model of the perturbed variables alone; columns that are released unperturbed explain them:
``P(x | φ) ∝ p0(x) Π_j exp(φ·H_j[x_j])``, p0 the mixture and φ a basis of the unperturbed columns. Of all
distributions with the same means of φ for each category, this is the one nearest to the mixture; it is the right
one where a number is normal given the true record with a mean that adds up over the variables. In one joint mixture
the classes serve the unperturbed columns, and pull what they have in common with the others to 0.

Each H_j is estimated by a regression of the one variable on φ, seen through the law (:mod:`.related_fit`). A copy
draws it anew, draws candidates of each record, and weights them until their means of φ are those which the
regressions say, and their two-way tables those of the mixture.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from postrand.completion.diagnostics_tables import Places, law_axis
from postrand.completion.raking import CANDIDATES, Candidates, Target, pick
from postrand.completion.related_basis import Basis, basis_of
from postrand.completion.related_fit import Logit, fit_logit, given
from postrand.completion.related_pairs import Acting
from postrand.completion.related_scores import settled
from postrand.completion.related_sums import cells_of
from postrand.completion.related_weights import Aim, weigh
from postrand.estimate.evidence_variables import Modelled
from postrand.mixture import Draw, Evidence, Fit, Law
from postrand.support.progress import Stage, stage
from postrand.support.system import processors

Array = NDArray[np.float64]
MOST_AT_ONCE = 100_000
"""Of more records one regression is fitted after the other, in the memory of one."""
MARGIN_MET = 0.5
"""Records by which a margin of the regression may differ from the copy's."""
OPPOSITE = (1.0, 0.5, -0.5)
"""Weights of sums at the maximum, and at coefficients on two opposite sides of it: a normal draw of the sums.

The mean of sums over normal coefficients is none of the posterior: of a rare category coefficients vary much, whatever
they are for, and what it has in common with a column is lost among them. What both sides have in common is left out.
"""
FLOOR = 1e-4
"""Every category keeps this share of its margin in each class, so that a candidate can have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Related:
    """Hold the regressions of the perturbed variables ``places`` on the unperturbed columns ``names``.

    ``likelihoods`` (n, S_j) are P(what is released of the record | category); ``acting`` are pairs of variables that
    act together on a column.
    """

    names: tuple[str, ...]
    basis: Basis
    places: tuple[int, ...]
    likelihoods: tuple[NDArray[np.float32], ...]
    logits: tuple[Logit, ...]
    notes: dict[str, str]
    acting: tuple[Acting, ...] = ()

    @property
    def directions(self) -> dict[Places, Array]:
        """The directions in which the sums over the cells of each acting pair move."""
        return {one.places: one.directions for one in self.acting}


def separated(
    evidence: Evidence, modelled: Modelled, read: Collection[str] = ()
) -> tuple[Evidence, Modelled, Modelled, NDArray[np.int32]]:
    """Return evidence on the variables of the mixture, what they are, and the other columns with their codes (n, C).

    The mixture has the perturbed variables and those unperturbed ones that a rule links to them, or that a block reads:
    which law a record has depends on what is ``read``, so that records of one law are no sample of all.
    """
    real = np.arange(evidence.rules.shape[2]) < np.array(evidence.sizes)[:, None]
    ruled = np.asarray((~evidence.rules & real).any(axis=(0, 2)))
    inside = [j for j, v in enumerate(modelled.variables) if v.kind == "perturbed" or ruled[j] or v.name in read]
    outside = [j for j in range(len(modelled.variables)) if j not in inside]
    at = {place: number for number, place in enumerate(inside)}
    laws = tuple(dataclasses.replace(law, variables=tuple(at[v] for v in law.variables)) for law in evidence.laws)
    sizes = tuple(evidence.sizes[j] for j in inside)
    inner = dataclasses.replace(
        evidence,
        names=tuple(evidence.names[j] for j in inside),
        sizes=sizes,
        exact=np.ascontiguousarray(evidence.exact[:, inside]),
        laws=laws,
        rules=np.ascontiguousarray(evidence.rules[:, inside, : max(sizes)]),
    )
    described, columns = (
        dataclasses.replace(modelled, variables=tuple(modelled.variables[j] for j in some))
        for some in (inside, outside)
    )
    return inner, described, columns, np.ascontiguousarray(evidence.exact[:, outside])


def relate(fit: Fit, columns: Modelled, codes: NDArray[np.int32]) -> Related | None:
    """Return the regressions of the mixture's perturbed variables on unperturbed columns.

    None if there are no such columns, or every value is known: a law can change nothing.
    """
    evidence = fit.evidence
    places = tuple(j for j in range(len(evidence.sizes)) if (evidence.exact[:, j] < 0).any())
    if not columns.variables or not places:
        return None
    seen = [seen_through(evidence, fit.draws, place) for place in places]
    basis = basis_of(codes, columns.variables, seen)
    logits = _fitted(basis, seen, len(columns.names))
    notes = {variable.name: variable.note for variable in columns.variables if variable.note}
    return Related(columns.names, basis, places, tuple(seen), logits, notes)


def _fitted(basis: Basis, seen: Sequence[NDArray[np.float32]], lines: int) -> tuple[Logit, ...]:
    """Return the regression of each variable, some at a time: a regression has one thread, which waits for no other."""
    tell, found = stage(Stage.RELATING, len(seen), "variables"), []
    at_once = 1 if len(basis.values) > MOST_AT_ONCE else processors()
    fitted = partial(fit_logit, basis.values, basis.of, lines=lines)
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(at_once, thread_name_prefix="postrand") as pool:
        for one in pool.map(fitted, seen):
            found.append(one)
            tell(1)
    return tuple(found)


def seen_through(evidence: Evidence, draws: Sequence[Draw], place: int) -> NDArray[np.float32]:
    """Return P(what is released of each record | true category of one variable), (n, S); ones where nothing is.

    Where a law needs other variables too, their true cells are averaged by the model.
    """
    found = np.ones((evidence.records, evidence.sizes[place]), np.float32)
    record = np.repeat(np.arange(evidence.records), np.diff(evidence.start))
    for number, law in enumerate(evidence.laws):
        if place in law.variables:
            at = np.flatnonzero(evidence.law == number)
            table, released = _law_of(law, place, evidence, draws)
            found[record[at]] = table[:, released[evidence.released[at]]].T
    known = np.flatnonzero(evidence.exact[:, place] >= 0)
    found[known] = 0.0
    found[known, evidence.exact[known, place]] = 1.0
    return found


def _law_of(law: Law, place: int, evidence: Evidence, draws: Sequence[Draw]) -> tuple[Array, NDArray[np.int64]]:
    """Return the law of one variable, (S, R), and which of its columns each released cell of the whole law has."""
    size, own = evidence.sizes[place], law.cells[:, law.variables.index(place)]
    if law.matrix is None:
        axis = law_axis(law, (place,), evidence.sizes)
        table = np.zeros((size, axis.released))
        table[axis.shown] = axis.to_released
        return table, np.arange(axis.released) if axis.marginal is None else axis.marginal
    product = [
        np.prod([d.theta[v][:, c] for v, c in zip(law.variables, law.cells.T, strict=True)], axis=0) for d in draws
    ]
    share = np.mean([d.weights @ p for d, p in zip(draws, product, strict=True)], axis=0) + 1e-12
    table = np.zeros((size, law.matrix.shape[1]))
    np.add.at(table, own, law.matrix * share[:, None])
    return table / np.maximum(np.bincount(own, share, size), 1e-300)[:, None], np.arange(law.matrix.shape[1])


def related_copy(found: Related, fit: Fit, base: NDArray[np.int32], number: int) -> NDArray[np.int32]:
    """Return copy ``number`` as true codes (n, J), related to the unperturbed columns; ``base`` is it without them."""
    from postrand.completion.related_loops import candidates  # loads compiled loops

    rng = np.random.default_rng([fit.seed, 10, number])
    phi, draw, sizes = found.basis.values, fit.draws[number], fit.evidence.sizes
    packed, group = fit.arranged
    offsets, exactly = packed.offsets, phi.astype(np.float64)
    coefficients = _coefficients(found, exactly, base, rng)
    wanted = partial(_wanted, found, exactly, coefficients, offsets)
    every, theta, own = np.arange(phi.shape[1]), _floored(draw), base.astype(np.int16)
    aims = [Aim(slice(int(offsets[j]), int(offsets[j + 1])), every) for j in found.places]

    def drawing(at: slice, scores: Array, many: int) -> Candidates:
        drawn = np.empty((len(own[at]), many, own.shape[1]), np.int16)
        tilts = np.exp(np.clip(phi[at] @ scores.astype(np.float32), -20, 20)).astype(np.float64)
        candidates(packed, group[at], draw.weights, theta, tilts, own[at], drawn, rng)
        return drawn

    scores = settled(phi, offsets, aims, wanted, _scores(found, coefficients, draw, offsets), drawing)
    drawn, sums = drawing(slice(None), scores, CANDIDATES), wanted()
    weights = np.full(drawn.shape[:2], 1 / CANDIDATES, np.float32)
    tables = _tables(base, sizes, found.places)
    weigh(phi, drawn, weights, offsets, aims, sums, tables, sizes)
    moves = moves_of(found, fit, number)
    if moves:
        turned = {pair: found.directions[pair] for pair in moves}
        drawn, offsets, more, sums = _together(exactly, drawn, weights, offsets, sizes, moves, turned, sums)
        weigh(phi, drawn, weights, offsets, [*aims, *more], sums, tables, sizes)
    return pick(drawn, weights, rng)[:, : base.shape[1]]


def moves_of(found: Related, fit: Fit, number: int) -> dict[Places, list[tuple[int, Array]]]:
    """Return by how much the sums over each pair's cells move in one copy, by pair: columns of φ, and moves (K,)."""
    rng = np.random.default_rng([fit.seed, 11, number])
    moves: dict[Places, list[tuple[int, Array]]] = {}
    for one in found.acting:
        move = one.drawn(rng)
        if move is not None:
            moves.setdefault(one.places, []).append((one.column, move))
    return moves


def _together(
    phi: Array,
    drawn: Candidates,
    weights: NDArray[np.float32],
    offsets: NDArray[np.int64],
    sizes: Sequence[int],
    moves: Mapping[Places, Sequence[tuple[int, Array]]],
    directions: Mapping[Places, Array],
    wanted: Array,
) -> tuple[Candidates, NDArray[np.int64], list[Aim], Array]:
    """Return candidates with one more variable for each pair, its cell, where it stands, and the sums of it to meet.

    These are the sums that the weighted candidates have, moved.
    """
    pairs = [cells_of(drawn.reshape(-1, drawn.shape[2]), pair, sizes).reshape(weights.shape) for pair in moves]
    aims, sums, ends = [], [wanted], [int(offsets[-1])]
    for pair, cells in zip(moves, pairs, strict=True):
        size = sizes[pair[0]] * sizes[pair[1]]
        where = (cells + size * np.arange(len(cells))[:, None]).ravel()
        shares = np.bincount(where, weights.ravel(), size * len(cells)).reshape(len(cells), size)
        own = phi.T @ shares
        for column, move in moves[pair]:
            own[column] += move
        sums.append(own)
        columns, turned = np.array([column for column, _ in moves[pair]]), directions[pair]
        aims.append(Aim(slice(ends[-1], ends[-1] + size), columns, turned))
        ends.append(ends[-1] + size)
    more = np.stack([cells.astype(np.int16) for cells in pairs], axis=2)
    where = np.concatenate([offsets, np.array(ends[1:], offsets.dtype)])
    return np.concatenate([drawn, more], axis=2), where, aims, np.concatenate(sums, axis=1)


def _floored(draw: Draw) -> Array:
    """Return θ (rows, K) in which every category of a variable has a share in each class."""
    parts = []
    for theta in draw.theta:
        margin = draw.weights @ theta
        parts.append(((1 - FLOOR) * theta + FLOOR * (margin + 1e-3) / (1 + 1e-3 * len(margin))).T)
    return np.ascontiguousarray(np.concatenate(parts))


def _coefficients(found: Related, phi: Array, base: NDArray[np.int32], rng: np.random.Generator) -> list[Array]:
    """Return three coefficients (3, D, S_j) of each regression, with intercepts that give the copy's margins.

    They are those of the maximum, and on two opposite sides of it, drawn anew.
    """
    drawn = []
    for place, likelihood, logit in zip(found.places, found.likelihoods, found.logits, strict=True):
        margin, each = np.bincount(base[:, place], minlength=likelihood.shape[1]), logit.drawn(rng)
        for h in each:
            h[0] += _shift(phi @ h, likelihood, margin)
        drawn.append(each)
    return drawn


def _wanted(
    found: Related, phi: Array, coefficients: Sequence[Array], offsets: NDArray[np.int64], at: slice = slice(None)
) -> Array:
    """Return the sums of φ over the records ``at`` of each category that the regressions say, (D, rows).

    They are those of the maximum, moved by :data:`OPPOSITE`.
    """
    wanted = np.zeros((phi.shape[1], int(offsets[-1])))
    for place, likelihood, each in zip(found.places, found.likelihoods, coefficients, strict=True):
        shares = np.zeros_like(likelihood[at], np.float64)
        for weight, h in zip(OPPOSITE, each, strict=True):
            shares += weight * given(scipy.special.softmax(phi[at] @ h, axis=1), likelihood[at])
        wanted[:, offsets[place] : offsets[place + 1]] = phi[at].T @ shares
    return wanted


def _scores(found: Related, coefficients: Sequence[Array], draw: Draw, offsets: NDArray[np.int64]) -> Array:
    """Return first scores of the codes, (D, rows): a regression's, without what the mixture says of the category."""
    scores = np.zeros((coefficients[0].shape[1], int(offsets[-1])))
    for place, (h, *_) in zip(found.places, coefficients, strict=True):
        scores[:, offsets[place] : offsets[place + 1]] = h
        scores[0, offsets[place] : offsets[place + 1]] -= np.log(np.maximum(draw.weights @ draw.theta[place], 1e-3))
    return scores


def _shift(scores: Array, likelihood: NDArray[np.float32], margin: NDArray[np.int64]) -> Array:
    """Return what has to be added to the intercepts (S,) so that the categories of a copy have this margin.

    The minimum of the convex ``Σ_i log Σ_s P(released | s) exp(scores_is + d_s) - margin·d``, by Newton's method: a
    step by the ratio of margins would be the slower, the less the released values say.
    """
    wanted = np.maximum(margin, 0.5)
    wanted = wanted * (len(scores) / wanted.sum())
    joint = scores + np.log(np.maximum(likelihood, 1e-30))

    def shares(d: Array) -> Array:
        return np.asarray(scipy.special.softmax(joint + d, axis=1))

    def value(d: Array) -> tuple[float, Array]:
        return float(scipy.special.logsumexp(joint + d, axis=1).sum() - wanted @ d), shares(d).sum(axis=0) - wanted

    def curved(d: Array) -> Array:
        each = shares(d)
        return np.asarray(np.diag(each.sum(axis=0)) - each.T @ each)

    start, met = np.zeros(len(wanted)), {"gtol": MARGIN_MET}
    best = scipy.optimize.minimize(value, start, jac=True, hess=curved, method="trust-exact", options=met)
    return np.asarray(best.x)


def _tables(base: NDArray[np.int32], sizes: Sequence[int], places: Sequence[int]) -> list[Target]:
    """Return the copy's two-way tables that have a perturbed variable."""
    found = []
    for a, b in itertools.combinations(range(len(sizes)), 2):
        if a in places or b in places:
            counts = np.bincount(base[:, a].astype(np.int64) * sizes[b] + base[:, b], minlength=sizes[a] * sizes[b])
            found.append(Target((a, b), counts.reshape(sizes[a], sizes[b]).astype(np.float64)))
    return found
