"""Individual risk from sampling weights (Benedetti and Franconi 1998; Polettini 2003), and the risk of households."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from postrand.errors import DataError, sentence
from postrand.risk.cells import CellTable, FloatArray, IntArray
from postrand.risk.data import numeric

SERIES_BELOW = 0.9
"""Sum the series for ``1−p`` up to this (350 terms give full precision); recur over f beyond it."""
BELOW_ONE = "a weight is below 1"
"""Why weights are refused of which one is no inverse of a probability, such as one that was rounded to 0."""
STEPS = 24
"""Steps of the recursion that are done: where f is larger, it begins with ``p/k <= I_k < 2.3 p/k``."""


def checked_weights(columns: Mapping[str, Any], name: str) -> FloatArray:
    """Return a column as sampling weights; raises DataError where one is not a number, missing, or below 1."""
    weights = numeric(columns[name], name)
    check_weights(weights, name)
    return weights


def stands_for(weights: FloatArray, name: str) -> str:
    """Return for how many persons records stand by their weights, so that a column that is no weight is noticed.

    >>> stands_for(np.array([90.0, 110.0]), "w").partition(": ")[0]
    'by the weight w, a record stands for about 100 persons on average, and the file for about 200'
    """
    held = weights[np.isfinite(weights)]
    rounded = (float(f"{x:.2g}") for x in (held.sum() / max(held.size, 1), held.sum()))
    each, whole = (f"{x:,.0f}" if x >= 10 else f"{x:g}" for x in rounded)
    text = f"by the weight {name}, a record stands for about {each} persons on average, and the file for about {whole}"
    return f"{text}: if that is not so, {name} is no sampling weight, and figures of the register attacker are wrong"


def cell_inclusion(cells: CellTable, weights: FloatArray) -> FloatArray:
    """Return ``π_j = f_j / Σ weights`` of each occupied cell, shape (C,)."""
    pi: FloatArray = cells.counts / np.bincount(cells.record_cell, weights=weights, minlength=cells.counts.size)
    return pi


def individual_risk(cells: CellTable, weights: FloatArray) -> FloatArray:
    """Return each record's ``E(1/F | f)`` from its cell's frequency f and weights, shape (n,).

    ``r = (p/f) 2F1(1, 1; f+1; 1−p)`` with ``p = f/Σ weights`` of the cell: exact, where the literature's software
    approximates. Given f, the population frequency F is negative binomial, ``P(F=h) = C(h−1,f−1) p^f (1−p)^(h−f)``.

    Raises
    ------
    DataError
        If a weight is not finite or is below 1.
    """
    check_weights(weights, "weights")
    population = np.bincount(cells.record_cell, weights=weights, minlength=cells.counts.size)
    of_cell: FloatArray = expected_inverse(cells.counts, cells.counts / population)[cells.record_cell]
    return of_cell


def expected_inverse(f: NDArray[np.int64], p: FloatArray) -> FloatArray:
    """Return ``(p/f) 2F1(1, 1; f+1; 1−p) = ∫_0^1 p t^(f−1) / (p + (1−p) t) dt`` for ``f >= 1`` and ``0 < p <= 1``.

    The series has positive terms of ratio below ``1−p``. For small p the integral's recursion
    ``I_(f+1) = (1/f − I_f) p/(1−p)`` from ``I_1 = p ln(1/p) / (1−p)`` damps every error by ``p/(1−p) < 1/9``.

    Examples
    --------
    >>> expected_inverse(np.array([1, 2]), np.array([1.0, 1.0])).tolist()
    [1.0, 0.5]
    """
    pairs, place = np.unique(np.stack([f, p], axis=1), axis=0, return_inverse=True)
    unique_f, unique_p = pairs[:, 0], pairs[:, 1]
    risk = np.empty(unique_f.size)
    series = unique_p >= 1 - SERIES_BELOW
    risk[series] = _series(unique_f[series], 1 - unique_p[series])
    risk[~series] = _recursion(unique_f[~series].astype(np.int64), unique_p[~series])
    whole: FloatArray = risk[place]
    return whole


def _series(f: FloatArray, q: FloatArray) -> FloatArray:
    """Return ``((1−q)/f) Σ_n n!/((f+1)...(f+n)) q^n``, stopping where the rest is below rounding."""
    term = np.ones(f.size)
    total = np.ones(f.size)
    n = 0
    while term.size and float((term / total).max()) > 1e-18:
        term *= (n + 1) / (f + 1 + n) * q
        total += term
        n += 1
    risk: FloatArray = (1 - q) / f * total
    return risk


def _recursion(f: NDArray[np.int64], p: FloatArray) -> FloatArray:
    """Return the integral by its last ``STEPS`` steps: of what is wrong at the first, less than 9^-24 is left."""
    odds = p / (1 - p)
    k = np.maximum(f - STEPS, 1)
    risk: FloatArray = np.where(k == 1, -odds * np.log(p), p / k)
    for _ in range(min(STEPS, int(f.max(initial=1)) - 1)):
        risk = np.where(k < f, (1 / k - risk) * odds, risk)
        k = k + 1
    return risk


def risk_after(risk: FloatArray, stay: FloatArray) -> FloatArray:
    """Return each record's risk after perturbation, ``r_i M[x_i, x_i]``, shape (n,).

    ``risk`` (n,) is that of the unperturbed file, ``E(1/F | f)``; ``stay`` (n,) the probability that all keys of the
    record are released as they are. The attacker has a register of the population and links a released record to a
    unit of it with equal keys: the link is right if the keys stayed, and the unit is the one of the F with these keys.
    An average over releases; the draw does not depend on F, so the two probabilities multiply (Shlomo and Skinner
    2010 from the side of the true file). In a given release it is ``r_i`` or 0.

    Examples
    --------
    >>> risk_after(np.array([0.5, 0.1]), np.array([0.8, 0.8])).round(3).tolist()
    [0.4, 0.08]
    """
    after: FloatArray = risk * stay
    return after


def household_risk(risk: FloatArray, household: IntArray) -> FloatArray:
    """Return ``1 − Π (1 − r_i)`` over the members of each record's household, shape (n,).

    ``household`` (n,) holds any integer labels. It is the probability that at least one member is identified, members
    taken as independent (as sdcMicro does); after perturbation with the members' risks after it, whose draws are
    independent. Correlated links make it smaller for the same risks of members.

    Examples
    --------
    >>> household_risk(np.array([0.5, 0.5, 0.1]), np.array([7, 7, 8])).round(3).tolist()
    [0.75, 0.75, 0.1]
    """
    with np.errstate(divide="ignore"):  # a member that is surely identified makes the household's risk 1
        of_household: FloatArray = -np.expm1(_sum_over(np.log1p(-risk), household))
    return of_household


def whole_household_risk(risk: FloatArray, household: IntArray) -> FloatArray:
    """Return ``Π r_i`` over the members of each record's household, shape (n,): all of them are identified.

    Members are taken as independent.

    Examples
    --------
    >>> whole_household_risk(np.array([0.5, 0.5, 0.1]), np.array([7, 7, 8])).round(3).tolist()
    [0.25, 0.25, 0.1]
    """
    with np.errstate(divide="ignore"):
        of_household: FloatArray = np.exp(_sum_over(np.log(risk), household))
    return of_household


def _sum_over(values: FloatArray, household: IntArray) -> FloatArray:
    """Return the sum of the values of each record's household, shape (n,)."""
    _, member = np.unique(household, return_inverse=True)
    summed = np.bincount(member, weights=values)
    return np.asarray(summed[member], dtype=np.float64)


def is_whole(weights: FloatArray) -> bool:
    """Return whether each record stands for itself alone, so that the file is the whole population.

    >>> is_whole(np.ones(3)), is_whole(np.array([1.0, 1.5]))
    (True, False)
    """
    return bool((weights <= 1).all())


def check_weights(weights: FloatArray, name: str) -> None:
    """Raise DataError with every problem of a column of sampling weights."""
    where, problems = f"variable {name!r}", []
    if not np.isfinite(weights).all():
        problems.append(
            sentence("a weight is missing", where=where, fix="complete the weight, or leave the record out")
        )
    if (weights < 1).any():
        problems.append(sentence(BELOW_ONE, where=where, wanted=">= 1, the inverse of a probability"))
    if problems:
        raise DataError(problems)
