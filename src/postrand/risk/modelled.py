"""The population uniques and correct matches of a file by a log-linear model, before and after perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from postrand.risk import loglinear, modelchoice, perturbed, tau
from postrand.risk.cells import CellTable, FloatArray, KeyCodes
from postrand.risk.readings import inverse_population
from postrand.risk.split_law import Law, SplitLaw
from postrand.risk.split_risk import SplitMatches, matches
from postrand.risk.tau import Tau

THROUGH = "of the true keys, fitted through the transition matrices"
LITTLE = 0.01
"""A fit whose margins are all this close to the file's, in records, is as good as a finished one; a convention."""
SEARCHED = (
    "the search for a model needs unperturbed counts: all two-way interactions are fitted through the transition "
    "matrices, smoothed towards independence by one record a cell in place of what the perturbation hid"
)

NO_SHARE = "no sampling fraction or weight was given"
"""Why the links of the register attacker are not computed."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """What a log-linear model estimates for a file: ``τ1`` and ``τ2``, None if they cannot be estimated.

    ``risk1`` and ``risk2`` (n,) are the terms of ``τ1`` and ``τ2``, 0 for records that are not sample uniques;
    ``inverse`` (n,) is ``E(1/F | f)`` of every record. ``status`` says whether the fit converged, or why there is none.
    """

    model: str | None = None
    status: str = "counts only"
    tau1: Tau | None = None
    tau2: Tau | None = None
    risk1: FloatArray | None = None
    risk2: FloatArray | None = None
    inverse: FloatArray | None = None
    notes: tuple[str, ...] = ()


def modelled(
    keys: KeyCodes,
    cells: CellTable,
    pi: FloatArray | float | None,
    model: loglinear.Model = "two-way",
    rules: Sequence[Mapping[str, int]] = (),
    law: Law | None = None,
) -> Modelled:
    """Fit the model, and estimate ``τ1`` and ``τ2`` with the inclusion probability ``pi`` of records or cells (C,).

    Where every ``pi`` is 1 the file is the population, and both are the number of sample uniques, without a model.
    ``rules`` are structural zeros as codes. With a ``law`` the file was released by it: the model is that of the true
    keys, and the links to released uniques that are right are estimated.

    Raises
    ------
    UsageError
        If the model is unknown, or too large.
    """
    if model != "search":
        loglinear.margins_of(model, keys.names)  # an unknown model is an error even where none is needed
    if pi is None:
        missing = "population uniques (tau1) and correct matches (tau2) are not computed"
        return Modelled(notes=(f"{NO_SHARE}: {missing}",))
    if keys.has_wildcards:
        return Modelled(notes=("missing keys match every value: tau1 and tau2 need missing='category'",))
    if not cells.uniques.any():
        none = np.zeros(keys.records)
        said = ("no sample uniques: tau1 and tau2 are 0",)
        return Modelled(None, "no model needed", Tau(0.0), Tau(0.0), none, none, notes=said)
    if (law is None or law.is_identity) and np.min(pi) >= 1:
        return _whole(keys, cells)
    if law is not None and not law.is_identity:
        return _after(cells, pi, model, rules, law)
    return _before(keys, cells, pi, model, rules)


def _whole(keys: KeyCodes, cells: CellTable) -> Modelled:
    """Return what is known where the file is the whole population: ``F = f`` in every cell."""
    known, alone = Tau(float(cells.uniques.sum())), cells.uniques.astype(np.float64)[cells.record_cell]
    status = "no model needed: the file is the whole population"
    return Modelled(None, status, known, known, alone, alone, 1 / cells.counts[cells.record_cell])


def _before(
    keys: KeyCodes,
    cells: CellTable,
    pi: FloatArray | float,
    model: loglinear.Model,
    rules: Sequence[Mapping[str, int]],
) -> Modelled:
    """Estimate the links to sample uniques of a file as it is."""
    if model == "search":
        average = keys.records / float((cells.counts / pi).sum())
        fit = modelchoice.choose(cells, average, forbidden=rules).fit
    else:
        fit = loglinear.fit(cells, model, forbidden=rules)
    tau1, tau2 = tau.estimate(fit, cells, pi)
    record_risk = tau.unique_risk(fit.at(cells.codes), pi)
    r1, r2 = (np.where(cells.uniques, r, 0.0)[cells.record_cell] for r in record_risk)
    status = "converged"
    if not fit.converged:
        status = not_converged(fit.iterations, fit.deviation)
    named = isinstance(model, str) and model != "search"
    inverse = inverse_population(cells.counts, fit.at(cells.codes), pi)[cells.record_cell]
    return Modelled(str(model) if named else fit.model, status, tau1, tau2, r1, r2, inverse)


def _after(
    cells: CellTable,
    pi: FloatArray | float,
    model: loglinear.Model,
    rules: Sequence[Mapping[str, int]],
    law: Law,
) -> Modelled:
    """Estimate the links to released uniques that are right."""
    chosen: loglinear.Model = "two-way" if model == "search" else model
    found: perturbed.Matches | SplitMatches
    if isinstance(law, SplitLaw):
        found = matches(cells, law, pi, chosen, forbidden=rules)
    else:
        found = perturbed.estimate(cells, law, pi, chosen, forbidden=rules)
    risks = []
    for risk in (np.exp(-found.others), tau.exprel(found.others)):
        of_cell = np.zeros(cells.counts.size)
        of_cell[cells.uniques] = found.own * risk
        risks.append(of_cell[cells.record_cell])
    named = chosen if isinstance(chosen, str) else found.model
    notes = (SEARCHED,) if model == "search" else ()
    return Modelled(f"{named}, {THROUGH}", found.status, found.tau1, found.tau2, risks[0], risks[1], notes=notes)


def not_converged(iterations: int, deviation: float) -> str:
    """Return what an unfinished fit means; ``deviation`` is the largest difference of a margin, in records.

    >>> not_converged(500, 0.0009).partition(": ")[2]
    'a margin is off by 0.0009 records, too little to matter'
    """
    matter = "too little to matter" if deviation <= LITTLE else "so the estimates can be wrong: compare another model"
    return f"not converged after {iterations} iterations: a margin is off by {deviation:.2g} records, {matter}"
