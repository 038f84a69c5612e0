"""The law of an estimate that is pooled over completed copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.pooling_rules import Combined, combine, covariance_between, quantile_t
from postrand.estimate.result import Estimate, Part
from postrand.estimate.unbiased import LinearLaw

MAX_KEPT = 128
"""Statistics by group have covariances up to so many groups."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelLaw:
    """Hold what Rubin's rules make of the answers of m copies: ``rules`` over the L values in C order.

    ``known`` (L,) says where every copy has an answer; elsewhere ``rules`` mean nothing. ``within`` and ``between`` are
    the covariances (L, L), where copies gave them. ``tables`` are the copies' own tables, if they are tables of shares.
    """

    shape: tuple[int, ...]
    rules: Combined
    known: Array
    within: Array | None
    between: Array | None
    records: int
    tables: tuple[Estimate, ...] = ()

    @property
    def value(self) -> Array:
        """The pooled values in their shape; NaN where a copy has none."""
        return np.where(self.known, self.rules.value, np.nan).reshape(self.shape)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence if some values have no answer in a copy."""
        if self.known.all():
            return ()
        return ("Some values cannot be estimated in every completed copy: they have too few records.",)

    def covariance(self, part: Part) -> Array:
        """Return one part of ``W + (1 + 1/m) B``; raises EstimationError where copies have no covariances."""
        within, between = self.within, self.between
        if self.tables:
            within = np.mean([one.law.covariance("total") for one in self.tables], axis=0)
            between = covariance_between(np.array([one.value.ravel() for one in self.tables]))
        if within is None or between is None:
            raise EstimationError(sentence("these estimates do not have a covariance", fix="use .standard_error"))
        return _part(part, within, between, self.rules.copies)

    def variance(self, part: Part) -> Array:
        """Return its diagonal; NaN where a copy has no value."""
        found = _part(part, self.rules.within, self.rules.between, self.rules.copies)
        return np.where(self.known, found, np.nan)

    def margin(self, keep: Sequence[int]) -> ModelLaw:
        """Return the law of a margin; raises UsageError where the estimate is no table."""
        if not self.tables:
            what = "a statistic by group does not have a margin"
            raise UsageError(sentence(what, fix="estimate it again with a shorter 'by'"))
        names = [self.tables[0].variables[i] for i in keep]
        return law_of([Answered.of(one.margin(names)) for one in self.tables])

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of intervals with Barnard and Rubin's degrees of freedom; of shares, Wilson's.

        Of a share p they hold the values p₀ with ``(p − p₀)² <= t² u p₀ (1 − p₀)``, where ``u = T / (p (1 − p))`` is
        one over the number of records that would have the variance T.

        References
        ----------
        Lott & Reiter (2020), Wilson confidence intervals for binomial proportions with multiple imputation.
        """
        if self.tables:
            low, high = _wilson(self.rules, self.records, level)
        else:
            low, high = self.rules.bounds(level)
        known = self.known
        ends = (np.where(known, low, -math.inf), np.where(known, high, math.inf))
        return ends[0].reshape(value.shape), ends[1].reshape(value.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Hold what Rubin's rules need of one copy's estimate: not its law, which may hold all records.

    ``table`` is the estimate itself if it is a table, whose law holds counts; ``covariance`` that of few groups.
    """

    value: Array
    variance: Array
    covariance: Array | None
    records: int
    dropped: int
    total: float
    table: Estimate | None

    @classmethod
    def of(cls, one: Estimate) -> Answered:
        """Return the part that is needed of an estimate."""
        table = one if isinstance(one.law, (LinearLaw, ModelLaw)) else None
        try:
            covariance = one.law.covariance("total") if table is None and one.value.size <= MAX_KEPT else None
        except EstimationError:  # quantiles have none
            covariance = None
        return cls(one.value, one.law.variance("total"), covariance, one.records, one.dropped, one.total, table)


def law_of(found: Sequence[Answered]) -> ModelLaw:
    """Return the law of the mean of the copies' estimates."""
    shape, records = found[0].value.shape, min(one.records for one in found)
    values = np.array([one.value.ravel() for one in found])
    variances = np.array([one.variance for one in found])
    good = (np.isfinite(values) & np.isfinite(variances)).all(axis=0)
    complete = max(records - 1, 1)
    rules = combine(np.where(good, values, 0.0), np.where(good, np.maximum(variances, 0.0), 1.0), complete)
    tables = tuple(one.table for one in found if one.table is not None)
    if tables:
        return ModelLaw(shape, rules, good, None, None, records, tables)
    covariances = [one.covariance for one in found if one.covariance is not None]
    if len(covariances) < len(found) or not good.all():
        return ModelLaw(shape, rules, good, None, None, records)
    return ModelLaw(shape, rules, good, np.mean(covariances, axis=0), covariance_between(values), records)


def _part(part: Part, within: Array, between: Array, copies: int) -> Array:
    added = (1 + 1 / copies) * between
    return {"sampling": within, "perturbation": added, "total": within + added}[part]


def _wilson(rules: Combined, records: int, level: float) -> tuple[Array, Array]:
    """Return Wilson's interval of each share for its variance T; where T is 0, as many records count as there are."""
    p, t = rules.value, quantile_t(rules.freedom, (1 + level) / 2)
    spread = p * (1 - p)
    unit = np.where((spread > 0) & (rules.total > 0), rules.total / np.where(spread > 0, spread, 1.0), 1 / records)
    u = t**2 * unit
    centre = (p + u / 2) / (1 + u)
    half = np.sqrt(u * (spread + u / 4)) / (1 + u)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
