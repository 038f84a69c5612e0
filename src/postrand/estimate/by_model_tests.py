"""Tests of hypotheses by a fitted joint model: the tables of completed copies, tested together (D1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.by_model import Fitted, answers
from postrand.estimate.pooling_rules import covariance_between, joint_test, upper_f
from postrand.estimate.result import Estimate
from postrand.estimate.unbiased import table
from postrand.mechanism import Mechanism

Gap = Callable[[Array], Array]


def copied_tables(frame: Any, mechanism: Mechanism, model: Fitted | None, **asked: Any) -> list[Estimate]:
    """Return the table of each completed copy; raises as :func:`postrand.estimate.table` with a model."""
    return list(answers(table, frame, mechanism, model, asked))


def joint_wald(tables: list[Estimate], gap: Gap, null: Gap | None, slope: Gap) -> tuple[float, int, float]:
    """Return the statistic, on the scale of chi-squared, its degrees of freedom, and the p-value of ``gap = 0``.

    ``gap(π)`` (k,) is a function of a table (flat), ``slope(π)`` (k, cells) its derivative. The statistic is D1 of Li,
    Raghunathan and Rubin, times k: the variance of the copies among each other is the one that is seen, and that within
    a copy the one of ``null(π)``, the covariance of a table under the hypothesis, or without it that of the copies'
    tables. Combinations that have no variance, of categories that never occur, are left out.

    Raises
    ------
    EstimationError
        If no combination has a variance.
    """
    gaps = np.array([gap(one.value.ravel()) for one in tables])
    middle = np.mean([one.value.ravel() for one in tables], axis=0)
    held = null(middle) if null is not None else np.mean([one.covariance for one in tables], axis=0)
    turn = slope(middle)
    values, vectors = np.linalg.eigh(turn @ held @ turn.T)
    used = values > 1e-10 * values.max(initial=0.0)
    if not used.any():
        what = "the table has no variance, so it cannot be tested"
        raise EstimationError(sentence(what, fix="choose other variables"))
    root = vectors[:, used] / np.sqrt(values[used])
    turned, many = gaps @ root, int(used.sum())
    between = covariance_between(turned)
    statistic, reference = joint_test(turned.mean(axis=0), np.eye(many), between, len(tables))
    return many * statistic, many, upper_f(statistic, many, reference.freedom)
