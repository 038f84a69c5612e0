"""Raking and anchoring of completed copies: targets are met, and coverage comes back where the model is wrong."""

import itertools

import numpy as np
import pytest
from scipy import stats

from postrand.completion.anchoring import anchored, anchors, shrunken
from postrand.completion.raking import Target, candidates, pick, rake, weighted_table
from postrand.mixture import Settings, fit
from tests.mixture_cases import SIZES, mixture_table, mixture_truth, release, split

PAIRS = list(itertools.combinations(range(4), 2))


def slow_raking(codes, targets, sweeps=400):
    """Return weights by the textbook: multiply by target over current, make rows sum to one, again and again."""
    weights = np.full(codes.shape[:2], 1 / codes.shape[1])
    for _ in range(sweeps):
        for places, wanted in targets:
            at = tuple(codes[:, :, p] for p in places)
            now = np.zeros(wanted.shape)
            np.add.at(now, at, weights)
            weights = weights * (wanted / np.maximum(now, 1e-300))[at]
            weights /= weights.sum(axis=1, keepdims=True)
    return weights


def test_weights_are_those_of_the_textbook_and_meet_the_targets():
    rng = np.random.default_rng(1)
    codes = np.stack([mixture_truth(400, rng) for _ in range(5)], axis=1).astype(np.int16)
    goal = rng.dirichlet(np.ones(5), 400)  # some weights, whose tables can be met together
    tables = []
    for places in [(0, 1), (1, 2), (3,)]:
        at = tuple(codes[:, :, p] for p in places)
        table = np.zeros([SIZES[p] for p in places])
        np.add.at(table, at, 0.5 * goal + 0.1)
        tables.append((places, table))
    weights, miss = rake(codes, SIZES, [Target(p, t) for p, t in tables], tolerance=1e-6)
    assert miss <= 1e-5
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    for places, table in tables:
        np.testing.assert_allclose(weighted_table(codes, weights, places, SIZES), table, atol=0.01)
    np.testing.assert_allclose(weights, slow_raking(codes, tables), atol=2e-3)


def test_no_target_changes_nothing_and_one_that_cannot_be_met_is_told():
    codes = np.zeros((50, 3, 4), np.int16)
    weights, miss = rake(codes, SIZES, [])
    assert miss == 0
    np.testing.assert_allclose(weights, 1 / 3)
    _, miss = rake(codes, SIZES, [Target((0,), np.array([25.0, 25.0]))])
    assert miss > 0.4


def test_a_pick_follows_the_weights_and_changes_no_more_than_it_must():
    """Labels are drawn alike, as candidates are: over all labels, the share picked is the weight of its value."""
    rng, n = np.random.default_rng(2), 60_000
    codes = rng.permuted(np.arange(3, dtype=np.int16)[None].repeat(n, axis=0), axis=1)[:, :, None]
    weights = np.array([0.2, 0.0, 0.8], np.float32)[codes[:, :, 0]]
    chosen = pick(codes, weights, rng)[:, 0]
    share = np.bincount(chosen, minlength=3) / n
    assert share[1] == 0
    assert share[0] == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / n))
    kept = float((chosen == codes[:, 0, 0]).mean())
    assert kept == pytest.approx((min(1, 0.6) + 0 + 1) / 3, abs=0.01)
    same = pick(codes, np.full((n, 3), 1 / 3, np.float32), rng)[:, 0]
    assert (same != codes[:, 0, 0]).mean() < 1e-3


def test_ratios_that_are_only_noise_are_none():
    """Under no bias at most 2 of 40 sets of 45 tables have any; with a bias in all of them it is found."""
    rng, errors = np.random.default_rng(3), np.full(45, 0.3)
    found = [(shrunken(rng.normal(0, 0.3, 45), errors) > 0).any() for _ in range(40)]
    assert sum(found) <= 2 + 2
    alike = shrunken(2 + rng.normal(0, 0.3, 45), errors)
    assert np.abs(alike - 2).max() < 0.5
    one = np.append(rng.normal(0, 0.3, 44), 9.0)
    assert shrunken(one, errors)[-1] > 5


def pooled(copies, truth, records):
    """Return whether each pooled 95% interval of two-way cells covers, and the squared error, by Rubin's rules."""
    covered, squared = [], 0.0
    for places in PAIRS:
        tables = []
        for copy in copies:
            table = np.zeros([SIZES[p] for p in places])
            np.add.at(table, tuple(copy[:, p] for p in places), 1 / records)
            tables.append(table)
        q, between = np.mean(tables, axis=0), np.var(tables, axis=0, ddof=1)
        within = np.mean([t * (1 - t) / records for t in tables], axis=0)
        m = len(copies)
        total = within + (1 + 1 / m) * between
        freedom = (m - 1) * (1 + within / np.maximum((1 + 1 / m) * between, 1e-30)) ** 2
        covered.append((np.abs(q - truth[places]) <= stats.t.ppf(0.975, freedom) * np.sqrt(total)).ravel())
        squared += float(((q - truth[places]) ** 2).sum())
    return np.concatenate(covered), squared


def simulated(classes, files):
    truth = {p: mixture_table(p) for p in PAIRS}
    plain, moved, active = [], [], 0
    for seed in range(files):
        rng = np.random.default_rng(100 + seed)
        evidence = release(mixture_truth(2_000, rng), split(), rng)
        found = fit(evidence, 8, seed, Settings(classes=classes, sweeps=80))
        move = anchors(found)
        active += bool(move)
        plain.append(pooled([found.copy(i) for i in range(8)], truth, 2_000))
        moved.append(pooled([anchored(found, move, i) for i in range(8)], truth, 2_000))
    rates = [float(np.mean([c for c, _ in each])) for each in (plain, moved)]
    errors = [float(np.mean([e for _, e in each])) for each in (plain, moved)]
    return rates, errors, active


def test_anchoring_brings_back_the_coverage_of_a_model_without_relations():
    """Two-way cells of 8 files, 264 intervals, by one class alone: most are missed without anchors, few with them."""
    (plain, moved), (error, mended), active = simulated(1, 8)
    assert plain < 0.6
    assert moved > 0.89
    assert mended < error / 4
    assert active == 8


def test_anchoring_does_no_harm_to_a_right_model():
    (plain, moved), (error, mended), _ = simulated(0, 6)
    assert moved >= plain - 0.02
    assert mended < 1.1 * error


def test_candidates_begin_with_the_copy_and_repeat():
    rng = np.random.default_rng(5)
    found = fit(release(mixture_truth(200, rng), split(), rng), 2, 7, Settings(classes=3, sweeps=40))
    codes = candidates(found, 1)
    np.testing.assert_array_equal(codes[:, 0], found.copy(1))
    np.testing.assert_array_equal(codes, candidates(found, 1))
    assert any((codes[:, k] != codes[:, 0]).any() for k in range(1, codes.shape[1]))
    np.testing.assert_array_equal(anchored(found, (), 1), found.copy(1))
