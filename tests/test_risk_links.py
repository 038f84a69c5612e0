"""The best links of an attacker against every pair of target and released cell, one by one."""

import numpy as np
import pytest

from postrand.risk import links
from postrand.risk import others as fits
from postrand.risk.links import View
from postrand.risk.others import Others

SHAPES = [(2,), (3, 2), (2, 3, 4), (5, 2, 3, 2, 2), (1, 4, 1)]


def view(sizes, seed, *, tied):
    """Random matrices, targets and cells; with ``tied`` matrices of two values, so that many cells weigh the same."""
    rng = np.random.default_rng(seed)
    tables = [np.where(np.eye(s) > 0, 0.5, 0.125) if tied else rng.random((s, s)) for s in sizes]
    cells = np.unique(np.stack([rng.integers(0, s, 60) for s in sizes], axis=1), axis=0).astype(np.int32)
    cells = cells[rng.permutation(len(cells))]  # in no order
    rows = np.stack([rng.integers(0, s, 150) for s in sizes], axis=1).astype(np.int32)
    return View(tables, rows, cells, rng.integers(1, 9, len(cells))), rng.choice([0.5, 1.0, 4.0], len(cells))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("piece", [1, 7, 2048])
def test_links_are_those_of_every_pair(monkeypatch, sizes, tied, piece):
    monkeypatch.setattr(links, "CELLS", piece)
    seen, scale = view(sizes, len(sizes), tied=tied)
    found, totals = seen.links(scale), seen.totals(scale)
    for x, row in enumerate(seen.rows):
        weights = [
            np.prod([t[a, b] for t, a, b in zip(seen.tables, row, cell, strict=True)]) * factor
            for cell, factor in zip(seen.columns, scale, strict=True)
        ]
        near = np.array(weights) >= max(weights) * (1 - 1e-9)
        assert found.best[x] == pytest.approx(max(weights), rel=1e-12)
        assert found.at[x] == np.flatnonzero(near)[0]
        assert found.tied[x] == seen.counts[near].sum()
        assert found.total[x] == totals[x] == pytest.approx(seen.counts @ weights, rel=1e-12)


def test_a_target_that_no_cell_can_be_has_no_link():
    never = View([np.eye(3)], np.array([[2]]), np.array([[0], [1]]), np.array([4, 5]))
    found = never.links(np.ones(2))
    assert (found.at[0], found.best[0], found.tied[0], found.total[0]) == (-1, 0, 0, 0)


def law(sizes, seed=3):
    rng = np.random.default_rng(seed)
    laws = [rng.gamma(1.0, 1.0, (4, s)) + 0.1 for s in sizes]
    shares = rng.gamma(2.0, 1.0, 4)
    return Others(shares / shares.sum(), tuple(a / a.sum(axis=1, keepdims=True) for a in laws))


def test_the_density_is_the_sum_over_classes():
    model = law((3, 2, 4))
    cells = np.indices((3, 2, 4)).reshape(3, -1).T
    wanted = [
        sum(s * np.prod([a[c, k] for a, k in zip(model.laws, cell, strict=True)]) for c, s in enumerate(model.shares))
        for cell in cells
    ]
    assert model.density(cells) == pytest.approx(wanted)
    assert model.density(cells).sum() == pytest.approx(1)


@pytest.mark.parametrize("size", [20, 200_000])
def test_cells_are_drawn_as_records_are(size):
    """Few records are drawn one by one, many as counts of cells; chi-squared at alpha = 1e-6, 23 degrees of freedom."""
    model, cells = law((3, 2, 4)), np.indices((3, 2, 4)).reshape(3, -1).T
    counts, rng = np.zeros(24), np.random.default_rng(1)
    for _ in range(200_000 // size):
        rows, drawn = model.draw(size, rng)
        assert drawn.sum() == size
        np.add.at(counts, np.ravel_multi_index(rows.T, (3, 2, 4)), drawn)
    expected = model.density(cells) * counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 70.54


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("merged", [0, 40, 1 << 16])
def test_a_pair_reaches_the_product_of_its_entries(monkeypatch, sizes, merged):
    monkeypatch.setattr(links, "MERGED", merged)
    monkeypatch.setattr(links, "PAIRS", 7)
    seen, _ = view(sizes, 2, tied=False)
    rng = np.random.default_rng(5)
    targets, cells = rng.integers(0, len(seen.rows), 200), rng.integers(0, len(seen.columns), 200)
    scale, near = rng.random(len(seen.columns)), rng.choice([1 - 1e-12, 1 + 1e-12], 200)
    for x, z, factor in zip(targets, cells, near, strict=True):
        weight = np.prod([t[a, b] for t, a, b in zip(seen.tables, seen.rows[x], seen.columns[z], strict=True)])
        least = np.full(len(seen.rows), weight * scale[z] * factor)
        assert seen.reach(np.array([x]), np.array([z]), scale, least)[0] == (factor < 1)
    least = rng.random(len(seen.rows)) / 4
    single = [seen.reach(np.array([x]), np.array([z]), scale, least)[0] for x, z in zip(targets, cells, strict=True)]
    assert seen.reach(targets, cells, scale, least).tolist() == single
    assert 0 < sum(single) < 200


@pytest.mark.parametrize("full", [0, 1000], ids=["sparse", "dense"])
def test_the_fit_is_that_of_every_cell_by_itself(monkeypatch, full):
    """EM with one membership for each cell and class, whatever the pairs of heads and tails are held as."""
    sizes = (3, 2, 4)
    monkeypatch.setattr(fits, "_FULL", full)
    rng = np.random.default_rng(8)
    rows = np.indices(sizes).reshape(3, -1).T[rng.permutation(24)[:17]]
    counts = rng.integers(1, 200, len(rows))
    found = fits.others(rows, counts, sizes, classes=3, seed=4)
    margins = [np.bincount(rows[:, b], counts, s) / counts.sum() for b, s in enumerate(sizes)]
    start = np.random.default_rng(4)
    laws = [m * start.gamma(5.0, 0.2, (3, m.size)) for m in margins]
    laws, shares = [law / law.sum(axis=1, keepdims=True) for law in laws], np.full(3, 1 / 3)
    for _ in range(fits.STEPS):
        member = shares * np.prod([law.T[rows[:, b]] for b, law in enumerate(laws)], axis=0)
        member *= (counts / member.sum(axis=1))[:, None]
        shares = (member.sum(axis=0) + 1) / (member.sum() + 3)
        for b, margin in enumerate(margins):
            sums = np.stack([member[rows[:, b] == k].sum(axis=0) for k in range(sizes[b])], axis=1)
            laws[b] = sums + fits.PRIOR * margin
            laws[b] = laws[b] / laws[b].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.shares, shares, rtol=1e-9)
    for law, wanted in zip(found.laws, laws, strict=True):
        np.testing.assert_allclose(law, wanted, rtol=1e-9)
