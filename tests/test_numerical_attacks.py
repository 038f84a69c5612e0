"""Attacks on what a law on ranks releases: linear programmes that know all that is published."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import linprog

import postrand as pr
from postrand.errors import DataError, SpecificationError, UsageError
from postrand.ranks import RankBand, RankBlocks, average, permutation_model, permute
from postrand.ranks.column import RankedColumn, RankWarning
from postrand.ranks.values import (
    NOTHING_LEFT,
    ValueLevel,
    order_keys,
    released_level,
    solved,
    value_level,
    value_problem,
)
from postrand.support.randomness import ReleaseKey
from postrand.workflow.whole_columns import average_columns, permute_columns
from tests.test_numerical import dense

KEY = ReleaseKey.from_seed(21)


def lognormal(n, seed=7):
    return np.sort(np.round(np.exp(10 + 0.8 * np.random.default_rng(seed).normal(size=n))))


def hours(n, at_forty=0.6):
    rng = np.random.default_rng(5)
    return np.where(rng.random(n) < at_forty, 40, rng.integers(1, 80, n)).astype(float)


def zeros(n):
    rng = np.random.default_rng(6)
    return np.where(rng.random(n) < 0.95, 0.0, np.round(rng.lognormal(9, 1, n)))


def ranges(A, b, n, at, extra=(), bounds=(0, None)):
    """Return the least and the largest that values ``at`` can be, given ``A x = b``, and that the values ascend."""
    ascending = np.eye(n)[:-1] - np.eye(n)[1:]
    for rank, value in extra:
        A, b = np.vstack([A, np.eye(n)[rank]]), np.append(b, value)
    found = []
    for i in at:
        ends = []
        for sign in (1, -1):
            solution = linprog(sign * np.eye(n)[i], ascending, np.zeros(n - 1), A, b, bounds=bounds)
            ends.append(math.inf * -sign if solution.status == 3 else sign * solution.fun)
        found.append(ends)
    return np.array(found)


def equations(law, x):
    """Return the sums of blocks as equations of ascending values."""
    starts = law.starts(x.size, 0)
    A = np.zeros((starts.size, x.size))
    for row, run in enumerate(np.split(np.arange(x.size), starts[1:])):
        A[row, run] = 1
    return A, A @ x


def known(found, x, near=0.005):
    return float((found[:, 1] - found[:, 0] <= 2 * near * np.abs(x)).mean())


def test_averages_over_a_band_are_solved_for_and_so_refused_everywhere():
    """The attack of one linear programme, on the averages that the law would have released: 98% exactly right."""
    n, w = 300, 10
    x, P = lognormal(n), dense(RankBand(w), n)
    U, s, V = np.linalg.svd(P)
    rank = int((s > 1e-9).sum())
    assert rank == n - 2 * (w - 1)
    least, N = V[:rank].T @ (U[:, :rank].T @ (P @ x) / s[:rank]), V[rank:].T
    free = linprog(0 * N[0], -np.diff(N, axis=0), np.diff(least) + 0.05, bounds=(None, None)).x
    assert (np.round(least + N @ free) == x).mean() > 0.9
    with pytest.raises(UsageError, match="the true values can be computed"):
        average(x, RankBand(w))
    with pytest.raises(SpecificationError, match=r"the true values can be computed.*Next: average over rank-blocks"):
        RankedColumn.from_dict(
            {"variable": "pay", "method": {"model": "rank-band", "width": 10}, "form": "average", "records": n}
        )


@pytest.mark.parametrize("law", [RankBlocks(3), RankBlocks(5)])
def test_averages_over_blocks_leave_what_the_programme_leaves(law):
    """Known: averages, order, sizes, quartiles and the extremes. What is left is what the closed form says."""
    n = 60
    x = lognormal(n)
    A, b = equations(law, x)
    at = range(0, n, 2)
    found = ranges(A, b, n, at, bounds=(x[0], x[-1]))
    assert known(found, x[list(at)]) < 0.2
    assert (found[:, 0] <= x[list(at)] + 1e-6).all()
    assert not solved(x, law).any()
    quartiles = [(i, x[i]) for i in (15, 30, 45)]
    free = [i for i in at if i not in (15, 30, 45)]
    more = ranges(A, b, n, free, extra=quartiles, bounds=(x[0], x[-1]))
    assert known(more, x[free]) < 0.3
    assert known(more, x[free], near=1e-9) == 0


def test_the_share_near_the_averages_is_the_programme_s():
    n, law = 45, RankBlocks(3)
    x = np.sort(np.random.default_rng(2).normal(100, 3, n))
    A, b = equations(law, x)
    found = ranges(A, b, n, range(n), bounds=(None, None))
    means = average(x, law)
    inner = np.arange(3, n - 3)
    wanted = (found[inner, 1] - found[inner, 0] <= 0.01 * means[inner]).sum() / n
    assert 0 < wanted < 1
    assert value_level(x, law, "average").shown == pytest.approx(wanted, abs=1e-12)


def brute_force(x, law):
    """Which values are the same in every ascending list of whole numbers with these sums and extremes."""
    starts = law.starts(x.size, 0)
    runs = np.split(x, starts[1:])
    each = [
        [c for c in itertools.combinations_with_replacement(range(x[0], x[-1] + 1), r.size) if sum(c) == r.sum()]
        for r in runs
    ]
    lists: list[tuple[int, ...]] = [()]
    for options in each:
        lists = [(*done, *c) for done in lists for c in options if not done or done[-1] <= c[0]]
    return (np.array(lists) == lists[0]).all(axis=0)


@pytest.mark.parametrize("seed", range(12))
def test_whole_numbers_that_are_solved_for_are_found_by_brute_force(seed):
    """The closed form finds no value that is open; the few it leaves open rest on chains of three blocks and more."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.integers(0, rng.integers(2, 9), 9))
    law = RankBlocks(3)
    truth, found = brute_force(x, law), solved(x, law)
    assert not (found & ~truth).any()
    assert truth.any() == found.any()


def test_averages_that_give_values_away_are_refused():
    for x in (np.full(50, 7.0), hours(400), zeros(400)):
        assert "reveal true values" in value_problem(x, RankBlocks(5), "average", "column 'x'")
    assert value_problem(lognormal(400), RankBlocks(5), "average", "column 'x'") == ""
    cents = np.round(np.random.default_rng(1).uniform(0, 5, 5_000), 2)  # ten to a cent
    assert solved(cents, RankBlocks(3)).mean() > 0.9
    assert not solved(cents + np.random.default_rng(2).uniform(0, 1e-3, 5_000), RankBlocks(3)).any()


def test_a_function_of_a_variable_is_not_released_beside_it():
    """Averages of x and of log x over blocks of two are two equations for two values."""
    x = lognormal(40, seed=3)
    total, logs = average(x, RankBlocks(2)) * 2, average(np.log(x), RankBlocks(2)) * 2
    root = np.sqrt(np.maximum(total**2 / 4 - np.exp(logs), 0))
    back = np.where(np.arange(40) % 2, total / 2 + root, total / 2 - root)
    np.testing.assert_allclose(back, x, rtol=1e-6)
    rng = np.random.default_rng(1)
    mixed = rng.permutation(x)
    keys = order_keys(mixed)
    assert order_keys(np.log(mixed)) == keys
    assert order_keys(-mixed) == keys[::-1]
    for other in (rng.permutation(mixed), np.where(np.arange(40) == 3, np.nan, mixed)):
        assert not set(order_keys(other)) & set(keys)


@pytest.mark.parametrize("method", ["average", "permute"])
def test_files_with_two_columns_of_one_order_are_refused(tmp_path, method):
    x = np.random.default_rng(1).permutation(lognormal(60))
    pq.write_table(pa.table({"pay": x, "log": -np.log(x)}), tmp_path / "s.parquet")
    with pytest.raises(DataError, match="'pay' and 'log' rank the records alike"):
        {"average": average_columns, "permute": permute_columns}[method](
            tmp_path / "s.parquet", tmp_path / "out", ["pay", "log"], RankBlocks(3)
        )
    pq.write_table(pa.table({"hours": hours(100)}), tmp_path / "h.parquet")
    if method == "average":
        with pytest.raises(DataError, match=r"column 'hours': the averages reveal true values|reveal true values"):
            average_columns(tmp_path / "h.parquet", tmp_path / "out", ["hours"], RankBlocks(5))
    else:
        with pytest.warns(RankWarning, match="hours: .*% of the records are expected to keep their value"):
            found = permute_columns(tmp_path / "h.parquet", tmp_path / "out", ["hours"], RankBlocks(5), KEY)
        assert found["claims"][0]["level"]["shown"] > 0.5
        assert pr.verify(tmp_path / "out").ok


def test_sums_of_other_columns_do_not_solve_for_values():
    """pay = wages + other, each averaged over its own blocks: an identity for each record, and little is solved."""
    rng, n, law = np.random.default_rng(4), 36, RankBlocks(4)
    columns = [rng.lognormal(9, 0.6, n), rng.lognormal(8, 0.9, n)]
    columns.append(columns[0] + columns[1])
    orders = [np.argsort(c) for c in columns]
    A, b, G = [], [], []
    for j, (c, order) in enumerate(zip(columns, orders, strict=True)):
        for run in np.split(order, law.starts(n, 0)[1:]):
            A.append(np.bincount(j * n + run, minlength=3 * n).astype(float))
            b.append(c[run].sum())
        for low, high in itertools.pairwise(order):
            G.append(np.eye(3 * n)[j * n + low] - np.eye(3 * n)[j * n + high])
    for i in range(n):
        A.append(np.eye(3 * n)[i] + np.eye(3 * n)[n + i] - np.eye(3 * n)[2 * n + i])
        b.append(0.0)
    widths = []
    for i in range(0, n, 3):
        ends = [s * linprog(s * np.eye(3 * n)[i], np.array(G), np.zeros(len(G)), np.array(A), b).fun for s in (1, -1)]
        widths.append((ends[1] - ends[0]) / columns[0][i])
    assert np.mean(np.array(widths) <= 0.01) < 0.2


def collapsed(law, x):
    """Return per rank, from dense matrices of each cut: mean entropy of the released value, and chance of one's own."""
    x = np.sort(x)
    values = (x[:, None] == np.unique(x)[None, :]).astype(float)
    bits, kept = [], []
    for cut in range(law.cuts):
        run = np.searchsorted(law.starts(x.size, cut), np.arange(x.size), side="right")
        same = run[:, None] == run
        p = same / same.sum(axis=1) @ values
        bits.append(-(p * np.log2(np.where(p > 0, p, 1))).sum(axis=1).mean())
        kept.append((p * values).sum(axis=1).mean())
    return np.mean(bits), np.mean(kept)


@pytest.mark.parametrize("law", [RankBlocks(2), RankBlocks(7), RankBand(3), RankBand(6)])
@pytest.mark.parametrize("column", [hours(80), zeros(80), np.full(80, 3.0), np.arange(80.0), np.arange(80) // 3])
def test_the_level_of_values_is_that_of_the_law_collapsed_over_ties(law, column):
    bits, kept = collapsed(law, column)
    level = released_level(np.random.default_rng(1).permutation(column), law, "permute")
    assert level.bits == pytest.approx(bits, abs=1e-10)
    assert level.shown == pytest.approx(kept, abs=1e-10)
    assert level.bits <= bits + 1e-14
    marginal = np.zeros(column.size)
    ordered = np.sort(column)
    P = dense(law, column.size) @ (ordered[:, None] == np.unique(column)[None, :])
    marginal = -(P * np.log2(np.where(P > 0, P, 1))).sum(axis=1).mean()
    assert level.bits <= marginal + 1e-12  # who does not know the cut knows less
    claim = RankedColumn("x", law, "permute", column.size, level)
    assert claim.beta * math.log2(column.size) <= bits + 1e-12


def test_a_column_that_stays_as_it_is_is_refused_and_one_that_mostly_does_is_told():
    """Reproduces: a constant column, 95% zeros, hours with 60% at 40, permuted in a band of 10."""
    n, law = 1_000, RankBand(10)
    columns = {"constant": np.full(n, 3.0), "zeros": zeros(n), "hours": hours(n)}
    for x in columns.values():
        share = np.mean([(permute(x, law, KEY, name=str(r)) == x).mean() for r in range(20)])
        assert released_level(x, law, "permute").shown == pytest.approx(share, abs=0.02)
    levels = {name: value_level(x, law, "permute") for name, x in columns.items()}
    assert levels["constant"] == ValueLevel(1.0, 0.0)
    for name in ("constant", "zeros"):
        assert levels[name].shown > NOTHING_LEFT
        assert "nearly all records would keep their value" in value_problem(columns[name], law, "permute", "x")
    assert value_problem(columns["hours"], law, "permute", "x") == ""
    claim = RankedColumn("hours", law, "permute", n, levels["hours"])
    assert 0.6 < levels["hours"].shown < 0.9
    assert "of the records are expected to keep their value" in claim.warning
    assert claim.beta < 0.15 < RankedColumn("hours", law, "permute", n).beta
    assert "3.99512" not in claim.sentence
    assert RankedColumn("x", law, "permute", n, value_level(lognormal(n), law, "permute")).warning == ""


def test_few_known_records_show_where_a_band_was_cut_and_the_level_counts_for_that():
    """Of w cuts one is left: each known pair of true and released rank excludes those that lie between the two."""
    n, w = 600, 10
    x, law = np.arange(n), RankBand(10)
    y = permute(x, law, KEY)
    known_records = np.random.default_rng(1).choice(n, 60, replace=False)
    left = []
    for cut in range(w):
        starts = law.starts(n, cut)
        pairs = (np.searchsorted(starts, ranks[known_records], "right") for ranks in (x, y))
        left += [cut] * np.array_equal(*pairs)
    assert len(left) == 1
    level = value_level(x, law, "permute")
    assert level.bits is not None
    assert level.bits == pytest.approx(math.log2(w), abs=0.05)
    assert law.entropy_lower(n) / math.log(2) > level.bits + 0.5  # who knows no cut faces the whole band


@pytest.mark.parametrize("law", [RankBlocks(10), RankBand(10)])
def test_who_knows_the_order_of_the_records_is_right_as_often_as_by_chance(law):
    """A record of known rank has one of the values of its run, each equally likely: guessed right once in w times."""
    n, runs = 500, 40
    x = lognormal(n, seed=9) + np.arange(n) / n
    hits = []
    for r in range(runs):
        released = permute(x, law, KEY, name=str(r))
        hits.append((released == x).mean())  # the best guess of the value of rank i is any of its run's
        assert permutation_model(x, released).distances.max() < 30
    assert np.mean(hits) == pytest.approx(value_level(x, law, "permute").shown, abs=5 * 0.1 / math.sqrt(n * runs) * 3)
