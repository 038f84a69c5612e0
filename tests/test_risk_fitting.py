"""Proportional fitting in groups of margins against the field's loop on a whole table, and its stop where it stalls."""

import itertools
import math

import numpy as np
import pytest

from postrand.risk import fitting
from postrand.risk.fitting import grouped, sweep
from postrand.risk.loglinear import STALL, fit_margins

SHAPE = (3, 4, 2, 5, 3, 2)
NAMES = tuple("abcdef")
PAIRS = tuple(itertools.combinations(range(len(SHAPE)), 2))


def margin_of(whole, margin):
    return whole.sum(axis=tuple(j for j in range(whole.ndim) if j not in margin), keepdims=True)


def one_by_one(targets, order, sweeps):
    """Scale a whole table to each margin in turn, without indices or groups."""
    whole = np.full(SHAPE, 1.0)
    for _ in range(sweeps):
        for m in order:
            whole = whole * targets[m] / margin_of(whole, m)
    return whole


@pytest.mark.parametrize(("part", "count"), [(1, 1), (8, 3), (10**9, 15)])
def test_groups_give_what_margin_by_margin_gives(part, count, monkeypatch):
    """One group of all margins, some, and one for each: the same sweeps in the groups' order, to rounding."""
    monkeypatch.setattr(fitting, "PART", part)
    true = np.random.default_rng(3).gamma(0.7, 20.0, SHAPE)
    targets = {m: margin_of(true, m) for m in PAIRS}
    cells = [c.astype(np.int16) for c in np.indices(SHAPE).reshape(len(SHAPE), -1)]
    groups = grouped(cells, SHAPE, PAIRS, [targets[m].ravel() for m in PAIRS])
    assert len(groups) == count
    by_value = {t.tobytes(): m for m, t in targets.items()}
    order = [by_value[t.tobytes()] for group in groups for t in group.targets]
    mu = np.full(math.prod(SHAPE), 1.0)
    made, deviation = sweep(mu, groups, None, 0.0, 7)
    expected = one_by_one(targets, order, 7)
    np.testing.assert_allclose(mu, expected.ravel(), rtol=1e-11)
    left = max(np.abs(margin_of(expected, m) - targets[m]).max() for m in PAIRS)
    assert (made, deviation) == (7, pytest.approx(left, rel=1e-9))


def test_margins_that_do_not_fit_together_stop_where_they_stall():
    """Agreement of a with b, b with c, and mostly not of a with c: the sweeps go round, and the answer has settled."""
    equal, other = np.array([[400.0, 100.0], [100.0, 400.0]]), np.array([[150.0, 350.0], [350.0, 150.0]])
    margins, tables = ((0, 1), (0, 2), (1, 2)), (equal, other, equal)
    found = fit_margins(tuple("abc"), (2, 2, 2), margins, tables)
    long = fit_margins(tuple("abc"), (2, 2, 2), margins, tables, max_iterations=5000)
    assert not found.converged
    assert found.iterations in (16, 32, 64, 128)
    assert found.deviation > 10  # records: no table has these margins
    assert found.iterations == long.iterations  # it stalls before either limit
    for m in margins:
        kept = tuple(j for j in range(3) if j not in m)
        whole = found.mu.reshape(2, 2, 2).sum(axis=kept)
        again = one_more(found.mu, margins, tables).sum(axis=kept)
        assert np.abs(again - whole).max() <= STALL * math.sqrt(whole.min())


def one_more(mu, margins, tables):
    whole = mu.reshape(2, 2, 2)
    for m, target in zip(margins, tables, strict=True):
        sums = margin_of(whole, m)
        whole = whole * target.reshape(sums.shape) / sums
    return whole
