"""Risk of a split release to a register attacker: the sum over the samples of records that show the same keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk.cells import CellTable, FloatArray, KeyCodes, table
from postrand.risk.law import KeyLaw
from postrand.risk.loglinear import Model
from postrand.risk.perturbed import ReleasedLinks, Sampled, draws_of
from postrand.risk.split_law import Law, SplitLaw
from postrand.risk.tau import Tau
from postrand.risk.weights import individual_risk, risk_after


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
    """Return ``τ1`` and ``τ2`` of a split release: right links to released uniques, F counting equal *shown* keys.

    The records that show T are a random sample of the population, fraction ``π π_T``, released through ``M_T``: each
    such sample is estimated by :func:`perturbed.estimate`, with a model of its own fitted to its own records, and the
    numbers add up. The samples' errors are independent, but the error of the model is taken to be the same in all.

    Raises
    ------
    UsageError
        If the model is unknown, or the table of a subset has too many cells.
    """
    inclusion = np.broadcast_to(pi, released.counts.shape)
    unique = np.flatnonzero(released.uniques)
    own, others = np.zeros(released.counts.size), np.zeros(released.counts.size)
    rng = np.random.default_rng([seed, 1])
    models = rng.standard_normal((2, draws_of(unique.size)))
    found: list[tuple[Sampled, Sampled]] = []
    deviating, names = 0, dict.fromkeys([""])
    for k, (part, at, cells) in enumerate(law.tables(released)):
        if cells is None or not cells.uniques.any():
            continue
        rules = [rule for rule in forbidden if set(rule) <= set(cells.names)]
        links = ReleasedLinks.fitted(
            cells, part.require_law(), inclusion[at] * part.probability, _within(model, cells.names), forbidden=rules
        )
        own[at[cells.uniques]], others[at[cells.uniques]] = links.own, links.others
        names |= {links.fit.model: None}
        deviating += not links.fit.converged
        found.append(links.sampled(seed + k, (models[0], models[1])))
    one, two = (_sum([pair[k] for pair in found]).tau(unique.size) for k in (0, 1))
    said = f"in {deviating} of {len(found)} subsets the margins, estimated one by one, are not met together"
    return SplitMatches(
        one, two, own[unique], others[unique], "; ".join(filter(None, names)), said if deviating else "converged"
    )


def _sum(parts: Sequence[Sampled]) -> Sampled:
    drawn = [part.draws for part in parts if part.draws is not None]
    draws = np.sum(drawn, axis=0) if len(drawn) == len(parts) and drawn else None
    return Sampled(sum(part.value for part in parts), sum(part.bias for part in parts), draws)


def _within(model: Model, names: Sequence[str]) -> Model:
    """Return a model of some of the keys: the margins of a list lose the others."""
    if isinstance(model, str):
        return model
    terms = [[term] if isinstance(term, str) else term for term in model]
    inside = [tuple(name for name in term if name in names) for term in terms]
    return [margin for margin in dict.fromkeys(inside) if margin]


def register_risk(keys: KeyCodes, weights: FloatArray, law: Law | None = None) -> FloatArray:
    """Return each record's risk from an attacker with a register of the population, shape (n,).

    ``E(1/F | f)`` as the file is, times ``M[x, x]`` after a release; after a split ``Σ_T π_T M_T[x_T, x_T] E(1/F_T |
    f_T)``, f and F counting records and persons with the same values of the keys that are shown.
    """
    if not isinstance(law, SplitLaw):
        cells = table(keys)
        risk = individual_risk(cells, weights)
        return risk if law is None else risk_after(risk, law.diagonal(cells.codes)[cells.record_cell])
    total = np.zeros(keys.records)
    for part in law.parts:
        if isinstance(part.law, KeyLaw):
            cells = table(keys.select([keys.names[j] for j in part.positions]))
            stay = part.law.diagonal(cells.codes)[cells.record_cell]
            total += part.probability * risk_after(individual_risk(cells, weights), stay)
    return total
