"""Numerical attributes: laws on ranks against dense matrices, margins, and the permutation model."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from postrand.errors import DataError, UsageError
from postrand.ranks import RankBand, RankBlocks, average, permutation_model, permute, reverse_map
from postrand.ranks.laws import beta_lower
from postrand.support.randomness import ReleaseKey

ALPHA = 1e-6
KEY = ReleaseKey.from_seed(11)
laws = st.one_of(st.integers(1, 5).map(RankBlocks), st.integers(1, 5).map(RankBand))
columns = st.lists(st.sampled_from([-2.5, 0.0, 0.0, 1.0, 3.0, 7.25, 9.0]), min_size=5, max_size=40).map(np.array)


def dense(law, n):
    """The n x n matrix on ranks, from the definition: the mean over the cuts of uniform blocks."""
    total = np.zeros((n, n))
    for cut in range(law.cuts):
        run = np.searchsorted(law.starts(n, cut), np.arange(n), side="right")
        same = run[:, None] == run
        total += same / same.sum(axis=1)
    return total / law.cuts


@given(laws, st.integers(5, 60))
def test_laws_are_bistochastic_and_their_entropy_is_bounded_from_below(law, n):
    P = dense(law, n)
    assert np.allclose(P.sum(axis=0), 1, atol=1e-12)
    entropy = -(P[P > 0] * np.log(P[P > 0])).sum() / n
    assert law.entropy_lower(n) <= entropy + 1e-13
    assert beta_lower(law, n) <= entropy / math.log(n) + 1e-13
    assert law.entropy_lower(n) >= entropy * (0.55 if isinstance(law, RankBand) else 1 - 1e-11) - 1e-12


@given(laws, st.integers(5, 60))
def test_runs_are_never_smaller_than_asked(law, n):
    least = law.k if isinstance(law, RankBlocks) else law.width
    for cut in range(law.cuts):
        starts = law.starts(n, cut)
        sizes = np.diff(starts, append=n)
        assert starts[0] == 0
        assert sizes.min() >= least
        assert sizes.max() < 3 * least


def test_far_from_the_ends_a_band_is_a_triangle():
    w, row = 4, dense(RankBand(4), 60)[30]
    assert np.allclose(row[27:34], (w - np.abs(np.arange(-3, 4))) / w**2)
    assert row[:27].sum() + row[34:].sum() == 0


@given(columns, laws)
def test_permuting_keeps_the_margin_and_the_band(column, law):
    released = permute(column, law, KEY)
    assert sorted(released) == sorted(column)
    least = law.k if isinstance(law, RankBlocks) else law.width
    assert permutation_model(column, released).distances.max() < 3 * least
    assert (permute(column, law, KEY) == released).all()


@given(columns, st.integers(1, 5).map(RankBlocks))
def test_averaging_is_the_matrix_times_the_values(column, law):
    order = np.argsort(column, kind="stable")
    expected = np.empty(column.size)
    expected[order] = dense(law, column.size).T @ column[order]
    released = average(column, law)
    assert np.allclose(released, expected, atol=1e-12)
    assert math.fsum(released) == pytest.approx(math.fsum(column), abs=1e-11)


def test_blocks_are_microaggregation():
    column = np.array([5, 1, 9, 2, 6, 30])
    assert average(column, RankBlocks(3)).tolist() == [8 / 3, 8 / 3, 15, 8 / 3, 15, 15]
    assert len(set(average(column, RankBlocks(6)))) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("law", [RankBlocks(3), RankBand(3)])
def test_permutations_follow_the_law(law):
    """Alpha 1e-6 for each law; 20,000 columns of 12: a law with another width gives a chi-square in the thousands."""
    n, runs = 12, 20_000
    counts = np.zeros((n, n))
    for run in range(runs):
        counts[np.arange(n), permute(np.arange(n), law, KEY, name=str(run))] += 1

    def statistic(P):
        used = P > 0
        misfit = ((counts - runs * P)[used] ** 2 / (runs * P[used])).sum()
        return misfit + (math.inf if counts[~used].any() else 0)

    # Rows of one column depend on each other; the sum of 12 row statistics is at most 12 times the largest.
    limit = n * chi2.isf(ALPHA / n, n - 1)
    assert statistic(dense(law, n)) < limit
    assert statistic(dense(type(law)(4), n)) > limit
    assert statistic(np.full((n, n), 1 / n)) > limit


@pytest.mark.statistical
def test_every_order_of_a_run_is_equally_likely():
    """Alpha 1e-6, 24,000 draws of 24 orders; a shuffle without fixed places has 9 orders: statistic > 10^4."""
    orders = {p: 0 for p in itertools.permutations(range(4))}
    for run in range(24_000):
        orders[tuple(permute(np.arange(4), RankBlocks(4), KEY, name=str(run)).tolist())] += 1
    counts = np.array(list(orders.values()))
    assert ((counts - 1000) ** 2 / 1000).sum() < chi2.isf(ALPHA, 23)


def test_types_names_and_keys():
    column = np.arange(100, dtype=np.int16)
    one, two = permute(column, RankBlocks(10), KEY, name="a"), permute(column, RankBlocks(10), KEY, name="b")
    assert one.dtype == np.int16
    assert (one != two).any()
    assert (permute(column, RankBlocks(10)) != permute(column, RankBlocks(10))).any()
    assert (permute(column, RankBlocks(1), KEY) == column).all()


@given(columns, st.randoms(use_true_random=False))
def test_reverse_mapping_is_the_appendix_word_for_word(column, random):
    released = column + np.array([random.random() * 10 for _ in column])
    mapped = reverse_map(column, released)
    ordered = sorted(column)
    if len(set(released)) == len(released):
        assert mapped.tolist() == [ordered[sorted(released).index(y)] for y in released]
    assert sorted(mapped) == ordered
    model = permutation_model(column, released)
    assert (model.reverse_mapped == mapped).all()
    assert np.allclose(model.reverse_mapped + model.noise, released)


@given(columns, columns)
def test_distances_equal_brute_force_over_tied_ranks(column, other):
    n = min(column.size, other.size)
    x, y = column[:n], other[:n]
    model, ordered = permutation_model(x, y), sorted(x)
    places = {v: [r for r, u in enumerate(ordered) if u == v] for v in ordered}
    expected = [
        min(abs(a - b) for a in places[u] for b in places[z]) for u, z in zip(x, model.reverse_mapped, strict=True)
    ]
    assert model.distances.tolist() == expected


def test_ties_never_look_protected():
    model = permutation_model([1, 1, 1, 1], [4, 3, 2, 1])
    assert model.distances.tolist() == [0, 0, 0, 0]
    assert model.share_within(0) == 1.0
    assert permutation_model([1, 2, 3, 4], [0, 0, 0, 0]).distances.max() == 0


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_distances_ignore_order_of_records_and_scale(scale):
    rng = np.random.default_rng(1)
    x, y, shuffled = rng.normal(size=50), rng.normal(size=50), rng.permutation(50)
    distances = permutation_model(x, y).distances
    assert (permutation_model(x[shuffled], y[shuffled]).distances == distances[shuffled]).all()
    assert (permutation_model(np.exp(scale * x), y).distances == distances).all()
    assert permutation_model(x, y).quantiles([0, 1]).tolist() == [distances.min() / 49, distances.max() / 49]


def test_one_record_alone_has_nothing_to_hide_among():
    assert beta_lower(RankBlocks(1), 1) == 1.0


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3"])
def test_widths_that_mean_nothing_are_refused(bad):
    with pytest.raises(UsageError, match="k is not a positive whole number"):
        RankBlocks(bad)
    with pytest.raises(UsageError, match="width is not a positive whole number"):
        RankBand(bad)


def test_bad_columns_are_refused():
    with pytest.raises(UsageError, match="k is larger than the number of records"):
        permute([1.0, 2.0], RankBlocks(3), KEY)
    with pytest.raises(UsageError, match="width is larger"):
        permute([1.0, 2.0], RankBand(3), KEY)
    with pytest.raises(
        UsageError, match=r"the true values can be computed from averages over a band.*Next: average over rank-blocks"
    ):
        average([1.0, 2.0, 3.0], RankBand(3))
    with pytest.raises(DataError, match=r"not finite \(6 of them\)"):
        permute([math.nan] * 6 + [1.0], RankBlocks(2), KEY)
    with pytest.raises(DataError, match="not finite\\. Next"):
        average([math.inf, 1.0], RankBlocks(2))
    for column in ([["a", "b"]], ["a", "b"], [1 + 2j]):
        with pytest.raises(DataError, match="the column does not contain numbers"):
            permute(column, RankBlocks(1), KEY)
    with pytest.raises(DataError, match="differ in length"):
        permutation_model([1, 2], [1])
