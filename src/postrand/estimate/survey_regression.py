"""The covariance of corrected regressions under a survey design: influences summed by unit, or fitted replicates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.regression_data import Data
from postrand.estimate.regression_equations import Solved, solve_equations
from postrand.estimate.regression_intervals import Pivot
from postrand.estimate.regression_parts import perturbation_part
from postrand.estimate.survey_law import check_divided
from postrand.estimate.survey_sample import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Hold a solved regression: ``terms``, ``covariance`` (P, P), and the pivot of its intervals.

    ``perturbation`` (P, P) is the part that perturbing the records causes; None where it is not known.
    """

    solved: Solved
    terms: tuple[str, ...]
    covariance: Array
    pivot: Pivot
    perturbation: Array | None = None


def surveyed_fit(data: Data, sample: Sample) -> Fit:
    """Solve the corrected equations of records drawn by a design.

    The influence of a record is its weighted score times the inverse Jacobian. With replicate weights, the equations
    are solved again with each of them.

    Raises
    ------
    EstimationError
        If there is no single stable root, also with replicate weights, or a finite population correction is given
        and the perturbation's part is not known.
    """
    held = replace(data, strata=sample.group[data.rows].astype(np.intp))
    solved, terms = solve_equations(held)
    noise = None if data.shared else perturbation_part(held, solved)
    check_divided(sample.drawn, noise is not None, "this regression")
    drawn: float | Array = 0.0
    if sample.drawn is not None:
        part = perturbation_part(held, solved, sample.drawn_of(solved.records.stratum))
        drawn = 0.0 if part is None else part
    if sample.replicates is not None:
        found = sample.deviations(_replicates(data, sample), solved.theta)
        freedom, zero = np.full(found.shape[1], sample.freedom), np.zeros(found.shape[1])
        covariance = found.T @ found + drawn
        return Fit(solved, terms, covariance, Pivot(np.diag(covariance).copy(), zero, zero, freedom), noise)
    pull, share = (_by_group(solved, each, sample) for each in (solved.influence, solved.leverage))
    freedom = np.full(pull.shape[1], sample.freedom)
    covariance = pull.T @ pull + drawn
    pivot = Pivot(np.diag(covariance).copy(), (pull * share).sum(axis=0), (share**2).sum(axis=0), freedom)
    return Fit(solved, terms, covariance, pivot, noise)


def _by_group(solved: Solved, values: Array, sample: Sample) -> Array:
    """Return the deviations of the sums of values of cases, (m, P)."""
    parts = np.zeros((sample.groups, values.shape[1]))
    np.add.at(parts, solved.records.stratum, solved.records.count[:, None] * values)
    return sample.deviations(parts, solved.theta)


def _replicates(data: Data, sample: Sample) -> Array:
    """Return the coefficients with each of the replicate weights, (R, P)."""
    assert sample.replicates is not None
    found = []
    for name, column in zip(sample.design.replicates, sample.replicates.T, strict=True):
        try:
            found.append(solve_equations(replace(data, weights=column[data.rows]))[0].theta)
        except EstimationError as error:
            fix = "leave out terms, or state the design by its clusters"
            what = f"the regression has no answer with one of the replicate weights: {error}"
            raise EstimationError(sentence(what, where=f"column {name!r}", fix=fix)) from error
    return np.array(found)
