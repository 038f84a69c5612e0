"""Statistics by group under a survey design: sums by unit of numerators and denominators, and what they vary by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from postrand.errors import EstimationError
from postrand.estimate.axes import Array, Operator, apply
from postrand.estimate.group_data import Measure, Records
from postrand.estimate.group_law import FLAG_LEVEL, GroupLaw, too_few
from postrand.estimate.result import Law
from postrand.estimate.survey_law import HOUSEHOLD_DRAWS, DesignLaw, Undivided, check_divided


def sums_by_group(records: Records, values: Array | None, operators: Sequence[Operator]) -> Array:
    """Return the sums of weights times a value of each record, corrected, by group of the sample: shape (G, L)."""
    assert records.sample is not None
    factor = records.share
    if values is not None:
        factor = values if factor is None else factor * values
    found = records.sample.sums(records.rows, records.cell, math.prod(records.shape), factor)
    tensor = found.reshape(-1, *records.shape)
    return np.stack([records.layout.arrange(one).ravel() for one in apply([None, *operators], tensor)])


def surveyed_group_law(law: GroupLaw) -> Law:
    """Return the law of a statistic by its survey design; the law itself where there is none.

    The influence of a record on ``μ = Σ a / Σ d`` is ``(a − μ d) / Σ d``, with the weights in a and d.
    """
    records, sample = law.records, law.records.sample
    if sample is None:
        return law
    check_divided(sample.drawn, records.share is None, "a statistic of a split")
    axes = records.layout.axes
    above_by = law.numerator.operators(axes)
    above = sums_by_group(records, law.numerator.values, above_by)
    root = np.nan_to_num(law.equation.root)
    unclear = np.zeros(len(root), dtype=bool)
    if law.denominator is None:
        scale = law.scale / records.unit
        parts = scale * above
    else:
        below_by = law.denominator.operators(axes, like=(law.numerator, above_by))
        below = sums_by_group(records, law.denominator.values, below_by)
        size = records.unit * -law.equation.score[1]
        unclear = _unclear(law, below, size)
        if sample.replicates is None:
            parts = law.scale * (above - root * below) / np.where(size > 0, size, 1.0)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = np.where(unclear, 0.0, law.shift + law.scale * above / below)
    return DesignLaw(
        deviations=sample.deviations(parts, np.nan_to_num(law.value)),
        shape=records.layout.shape,
        freedom=sample.freedom,
        inner=Undivided(HOUSEHOLD_DRAWS) if records.shared else law,
        drawn=None if sample.drawn is None else _lighter(law, sample.drawn[records.rows]),
        about=str(sample),
        simple=_simple(law, root),
        unclear=unclear,
        said=too_few(records, unclear, law.denominator),
        summable=False,
    )


def _unclear(law: GroupLaw, below: Array, size: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which groups have a denominator that cannot be told from zero, or none."""
    sample = law.records.sample
    assert sample is not None
    if all(axis.matrix is None for axis in law.records.layout.axes):
        return np.asarray(~(size > 0))
    sample = replace(sample, rest=np.ones_like(sample.rest))  # without a finite population: on the safe side
    error = np.sqrt((sample.deviations(below, size) ** 2).sum(axis=0))
    return np.asarray(size <= -scipy.special.stdtrit(sample.freedom, (1 - FLAG_LEVEL) / 2) * error)


def _lighter(law: GroupLaw, share: Array) -> GroupLaw:
    """Return the law whose perturbation part is that of the share of each record's squared weight."""
    held = law.records.weights
    root = np.sqrt(share)
    return replace(law, records=replace(law.records, weights=root if held is None else held * root))


def _simple(law: GroupLaw, root: Array) -> Array:
    """Return the variance of a mean of as many records, drawn simply at random and not perturbed; NaN for others."""
    records, below = law.records, law.denominator
    counted = below is not None and below.values is None and all(f is None for f in below.functions)
    if below is None or not counted or records.share is not None:
        return np.full(len(root), np.nan)
    square = law.numerator.times(law.numerator)
    try:
        operators = square.operators(records.layout.axes)
    except EstimationError:  # the release does not tell the spread of the true values
        return np.full(len(root), np.nan)
    weights, values = records.weights, square.values
    terms = values if weights is None else weights if values is None else weights * values
    second = records.layout.arrange(apply(operators, records.sums(terms).sum(axis=0))).ravel()
    size, count = -law.equation.score[1], _number(records, below)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = law.scale**2 * (second / size - root**2)
        return np.asarray(np.where(count > 1, spread / (count - 1), np.nan))


def _number(records: Records, one: Measure) -> Array:
    """Return the corrected number of records of each group."""
    tensor = np.bincount(records.cell, minlength=math.prod(records.shape)).astype(np.float64).reshape(records.shape)
    return records.layout.arrange(apply(one.operators(records.layout.axes), tensor)).ravel()
