"""Risk of a split release to a register attacker: the sum over the samples of records that show the same keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.risk.cells import CellTable, FloatArray, KeyCodes, table
from postrand.risk.loglinear import Model
from postrand.risk.perturbed import ReleasedLinks, draws_of
from postrand.risk.populations import Inverse
from postrand.risk.split_law import Law, Part, SplitLaw
from postrand.risk.tau import MODEL_ERROR, Tau, exprel
from postrand.risk.weights import individual_risk, risk_after
from postrand.support import loops


@dataclass(frozen=True, slots=True, eq=False)
class SplitMatches:
    """What a split release reveals about its own matches; the fields are those of ``perturbed.Matches``."""

    tau1: Tau
    tau2: Tau
    own: FloatArray
    others: FloatArray
    model: str
    status: str


def matches(
    released: CellTable,
    law: SplitLaw,
    pi: FloatArray | float,
    model: Model = "two-way",
    *,
    forbidden: Sequence[Mapping[str, int]] = (),
    seed: int = 0,
) -> SplitMatches:
    """Return ``τ1`` and ``τ2`` of a split release: correct matches to released uniques, F counting equal *shown* keys.

    The records that show T are a random sample of the population, fraction ``π π_T``, released through ``M_T``: each
    such sample is estimated by :func:`perturbed.estimate`, with a model of its own fitted to its own records, and the
    numbers add up. Their errors are independent, and taken as normal: of a sample with next to no correct matches, no
    logarithm is. The error of the model is taken to be the same in all samples.

    Raises
    ------
    UsageError
        If the model is unknown, or the table of a subset has too many cells.
    """
    inclusion = np.broadcast_to(pi, released.counts.shape)
    unique = np.flatnonzero(released.uniques)
    own, others = np.zeros(released.counts.size), np.zeros(released.counts.size)
    known: list[Any] = []
    deviating, names = 0, dict.fromkeys([""])
    for part, at, cells in law.tables(released):
        if cells is None or not cells.uniques.any():
            continue
        rules = [rule for rule in forbidden if set(rule) <= set(cells.names)]
        links = ReleasedLinks.fitted(
            cells, part.require_law(), inclusion[at] * part.probability, _within(model, cells.names), forbidden=rules
        )
        own[at[cells.uniques]], others[at[cells.uniques]] = links.own, links.others
        names |= {links.fit.model: None}
        deviating += not links.fit.converged
        known.append((links.uncertainty(), [float((links.own * risk).sum()) for risk in links.risks]))
    mine, theirs = own[unique], others[unique]
    one, two = (_tau(k, mine, theirs, known, np.random.default_rng([seed, k])) for k in (0, 1))
    said = f"in {deviating} of {len(known)} subsets the margins, estimated one by one, are not met together"
    return SplitMatches(one, two, mine, theirs, "; ".join(filter(None, names)), said if deviating else "converged")


def _tau(k: int, own: FloatArray, others: FloatArray, known: Sequence[Any], rng: np.random.Generator) -> Tau:
    """Return τ1 (k = 0) or τ2 of all samples: ``known`` has the error and bias, and the values, of each."""
    risk = exprel(others) if k else np.exp(-others)
    value = float((own * risk).sum())
    if any(uncertainty is None for uncertainty, _ in known):
        return Tau(value)
    if not value > 0:
        return Tau(value, 0.0, 0.0, (value, value))
    error = math.hypot(*(uncertainty[k][0] for uncertainty, _ in known))
    # A second-order bias as large as the value is that of a model without records where the uniques are.
    bias = sum(min(max(uncertainty[k][1], -values[k]), values[k] / 2) for uncertainty, values in known)
    draws = draws_of(own.size)
    sampled = np.maximum(1 - bias / value + error / value * rng.standard_normal(draws), 0.0)
    scale = sampled * np.exp(math.sqrt(math.log1p(MODEL_ERROR[k] ** 2)) * rng.standard_normal(draws))
    found = np.empty(draws)
    loops.match_draws(own, others, risk, k == 0, scale, found, rng)
    low, high = (float(x) for x in np.quantile(found, [0.025, 0.975]))
    return Tau(value, float(found.std()), bias, (low, min(high, float(own.size))))


def _within(model: Model, names: Sequence[str]) -> Model:
    """Return a model of some of the keys: the margins of a list lose the others."""
    if isinstance(model, str):
        return model
    terms = [[term] if isinstance(term, str) else term for term in model]
    inside = [tuple(name for name in term if name in names) for term in terms]
    return [margin for margin in dict.fromkeys(inside) if margin]


def register_risk(
    keys: KeyCodes, weights: FloatArray, law: Law | None = None, inverse: Inverse = individual_risk
) -> FloatArray:
    """Return each record's risk from an attacker with a register of the population, shape (n,).

    ``E(1/F | f)`` as the file is, by the estimate ``inverse``, times ``M[x, x]`` after a release; after a split
    ``Σ_T π_T M_T[x_T, x_T] E(1/F_T | f_T)``, f and F counting records and persons with the same values of the keys that
    are shown.
    """
    if not isinstance(law, SplitLaw):
        cells = table(keys)
        risk = inverse(cells, weights)
        return risk if law is None else risk_after(risk, law.diagonal(cells.codes)[cells.record_cell])
    total = np.zeros(keys.records)
    for part, chance in zip(law.parts, law.chances(), strict=True):
        total += chance * part_risk(keys, weights, part, inverse)
    return total


def part_risk(keys: KeyCodes, weights: FloatArray, part: Part, inverse: Inverse = individual_risk) -> FloatArray:
    """Return each record's risk if it shows the keys of a part, shape (n,); 0 where it shows none."""
    if part.law is None:
        return np.zeros(keys.records)
    cells = table(keys.select([keys.names[j] for j in part.positions]))
    stay = part.law.diagonal(cells.codes)[cells.record_cell]
    return risk_after(inverse(cells, weights), stay)
