"""The sampler of the joint model against simulation from the prior (Geweke 2004), which shares no code with it."""

import dataclasses
import itertools

import numpy as np
import pytest

from postrand.mixture import Evidence, Law
from postrand.mixture.chain import GRID, begin, sweep
from postrand.mixture.packing import pack

SIZES = (3, 2, 2)
CLASSES = 3
KEEP = 0.6
BOTH = np.array(list(itertools.product(range(3), range(2))), np.int32)
MATRIX = np.array([[0.7, 0.1, 0.2], [0.2, 0.5, 0.3]])
FULL = Law((0, 1), BOTH, KEEP, np.full(6, (1 - KEEP) / 6))
PRESENT = Law((0,), np.array([[0], [1]], np.int32), 0.5, np.array([0.2, 0.3]))
"""Seen where the code of variable 0 is not 2: that code is shown as it is, as missing values that are kept."""

GENERAL = Law((2,), np.array([[0], [1]], np.int32), 0.0, np.zeros(2), MATRIX)
RULES = np.zeros((2, 3, 3), bool)
RULES[0] = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]  # 0 with 1
RULES[1] = [[1, 1, 0], [0, 1, 0], [0, 1, 0]]  # 0 or 1 with 1 and 1: overlaps with the first
CELLS = np.array(list(itertools.product(*(range(s) for s in SIZES))))


def of(records, rules=RULES[:0], laws=(FULL, PRESENT, GENERAL)):
    """Return evidence from (exact codes, [(law, released), ...]) of each record."""
    many = [len(seen) for _, seen in records]
    flat = [pair for _, seen in records for pair in seen]
    return Evidence(
        ("a", "b", "c"),
        SIZES,
        np.array([exact for exact, _ in records], np.int32),
        np.concatenate([[0], np.cumsum(many)]),
        np.array([law for law, _ in flat], np.int32),
        np.array([y for _, y in flat], np.int32),
        laws,
        rules,
    )


BLANK = (-1, -1, -1)
KINDS = (  # of a release: six records of a block of two, four with missing values kept, two with b clear, one blank
    *[(BLANK, ((0, y),)) for y in range(6)],
    *[
        (exact, (*seen, (2, y)))
        for exact, seen in (((2, -1, -1), ()), (BLANK, ((1, 0),)), (BLANK, ((1, 1),)))
        for y in range(3)
    ],
    *[((-1, b, -1), ()) for b in range(2)],
    (BLANK, ()),
)


def released(x, rng):
    """Release 13 true records: the number of each kind."""
    kinds = np.zeros(len(KINDS), np.int64)
    for i, (a, b, c) in enumerate(x):
        if i < 6:
            kind = a * 2 + b if rng.random() < KEEP else rng.integers(6)
        elif i < 10:
            y = rng.choice(3, p=MATRIX[c])
            shown = 0 if a == 2 else 1 + (a if rng.random() < 0.5 else int(rng.random() < 0.6))
            kind = 6 + 3 * shown + y
        else:
            kind = 15 + b if i < 12 else 17
        kinds[kind] += 1
    return kinds


def distribution(weights, theta, possible):
    """Return the model's probabilities of all cells; ``theta`` (rows, K)."""
    edges = np.cumsum([0, *SIZES])
    parts = [theta[edges[j] + CELLS[:, j]] for j in range(3)]
    return possible * ((parts[0] * parts[1] * parts[2]) @ weights)


def prior(rng):
    """Draw weights, profiles, centre and shares of levels from the prior."""
    alpha = rng.gamma(CLASSES, 0.5)
    weights = rng.dirichlet(np.full(CLASSES, alpha / CLASSES))
    theta, centres, shares = [], [], []
    for size in SIZES:
        centre, share = rng.dirichlet(np.full(size, 0.5)), rng.dirichlet(np.full(len(GRID), 0.5))
        level = rng.choice(len(GRID), CLASSES, p=share)
        gamma = rng.gamma(GRID[level][None, :] * centre[:, None]) + 1e-300
        theta.append(gamma / gamma.sum(axis=0))
        centres.append(centre)
        shares.append(share)
    return weights, np.concatenate(theta), np.concatenate(centres), np.array(shares), alpha


def summary(probabilities, weights, centre, shares, alpha):
    """Return bounded functionals of one state."""
    p = probabilities / probabilities.sum()
    first = [p[CELLS[:, 0] == a].sum() for a in range(2)]
    joint = [p[(CELLS[:, 1] == 1) & (CELLS[:, 2] == c)].sum() for c in range(2)]
    squares = [p @ p, weights @ weights, centre @ centre, *(shares**2).sum(axis=1), shares[0, 0], shares[2, -1]]
    return np.array([*first, *joint, *squares, centre[0], centre[-1], alpha / (1 + alpha), probabilities.sum()])


def geweke(steps, seed, rules=RULES[:0], change=lambda packed: packed, kinds=None, released=released):
    """Return z of each functional: prior simulation against data and parameters in turn."""
    rng = np.random.default_rng(seed)
    bad = np.zeros(len(CELLS), bool)
    for rule in rules:
        bad |= np.all([rule[j, CELLS[:, j]] for j in range(3)], axis=0)
    packed, group = pack(dataclasses.replace(kinds or of(KINDS), rules=rules))
    packed = change(packed)
    drawn = []
    for _ in range(steps):
        weights, theta, centre, shares, alpha = prior(rng)
        drawn.append(summary(distribution(weights, theta, ~bad), weights, centre, shares, alpha))
    chain = begin(packed, np.concatenate([np.full(s, 1 / s) for s in SIZES]), CLASSES, rng)
    visited = []
    for _ in range(steps):
        p = distribution(chain.weights.astype(float), chain.theta, ~bad)
        visited.append(summary(p, chain.weights.astype(float), chain.centre, chain.share, chain.alpha))
        packed.counts[group] = released(CELLS[rng.choice(len(CELLS), 13, p=p / p.sum())], rng)
        sweep(packed, chain)
    before, after = np.array(drawn), np.array(visited)[steps // 10 :]
    batches = after[: len(after) // 40 * 40].reshape(40, -1, after.shape[1]).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / 40 + before.var(axis=0) / steps)
    return (after.mean(axis=0) - before.mean(axis=0)) / error


def response(places, keep, sizes=SIZES):
    """Return randomised response on all combinations of some variables."""
    cells = np.array(list(itertools.product(*(range(sizes[p]) for p in places))), np.int32)
    return Law(places, cells, keep, np.full(len(cells), (1 - keep) / len(cells)))


SEPARATE = response((0,), 0.6), response((1,), 0.5), response((2,), 0.8), response((0, 1), 0.6)
POOLED = of(
    [
        *[(BLANK, ((0, a), (1, b), (2, c))) for a, b, c in CELLS],
        *[(BLANK, ((3, y), (2, c))) for y in range(6) for c in range(2)],
    ],
    laws=SEPARATE,
)
"""Releases of one law for each variable, and of a block with another law: of few records they say nothing."""


def released_apart(x, rng):
    """Release 13 true records: eight through a law for each variable, five through the block and the third law."""
    kinds = np.zeros(len(CELLS) + 12, np.int64)
    for i, (a, b, c) in enumerate(x):
        shown = c if rng.random() < 0.8 else rng.integers(2)
        if i < 8:
            first, second = a if rng.random() < 0.6 else rng.integers(3), b if rng.random() < 0.5 else rng.integers(2)
            kinds[4 * first + 2 * second + shown] += 1
        else:
            cell = 2 * a + b if rng.random() < 0.6 else rng.integers(6)
            kinds[12 + 2 * cell + shown] += 1
    return kinds


LIMIT = 4.5
"""Largest |z| of 16 functionals, on Student's t with 39 degrees: alpha = 0.001 a test."""


@pytest.mark.statistical
@pytest.mark.parametrize("rules", [RULES[:0], RULES], ids=["free", "rules"])
def test_parameters_and_data_in_turn_follow_the_prior(rules):
    """Blocks, missing values that are kept, a general matrix, clear values, blanks, rules that overlap."""
    assert np.abs(geweke(2500, 3, rules)).max() < LIMIT


@pytest.mark.statistical
def test_pooled_records_and_data_in_turn_follow_the_prior():
    """What the release says is drawn for all records of a class at once."""
    packed, _ = pack(POOLED)
    assert packed.pooled.all()
    assert np.abs(geweke(1500, 4, kinds=POOLED, released=released_apart)).max() < LIMIT


@pytest.mark.statistical
def test_a_sampler_that_ignores_the_noise_is_rejected():
    assert np.abs(geweke(1000, 3, change=lambda packed: packed._replace(noise=packed.noise * 0.01))).max() > 2 * LIMIT
