"""Levels of a shuffled file: never below exact enumeration at any argument, bounded work for any number of records."""

import itertools
import math
import sys
import time
import tracemalloc
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from postrand.errors import PrivacyError
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy.blanket import blanket_delta, parts_of
from postrand.privacy.shuffle import (
    _clones,
    _least,
    shuffled_delta,
    shuffled_epsilon,
    shuffled_holds,
    shuffled_levels,
)
from postrand.ranks import RankBand
from postrand.ranks.column import RankedColumn

LAW = Block("a", randomised_response(2, 1.0))
NONE = Block("b", TransitionMatrix.identity(2))


def enumerated(local_epsilon, records):
    """Return the two dominating laws over the released counts, with 60 digits, from every (C, A, Δ)."""
    one = mpmath.mpf(1)
    chance = mpmath.exp(-mpmath.mpf(local_epsilon))
    same = 1 / (1 + chance)
    laws: tuple[dict, dict] = ({}, {})
    for c in range(records):
        clones = mpmath.binomial(records - 1, c) * chance**c * (one - chance) ** (records - 1 - c)
        for a in range(c + 1):
            weight = clones * mpmath.binomial(c, a) / mpmath.mpf(2) ** c
            for law, first in zip(laws, (same, chance * same), strict=True):
                for outcome, share in (((a + 1, c - a), first), ((a, c - a + 1), one - first)):
                    law[outcome] = law.get(outcome, 0) + weight * share
    return laws


def hockey_stick(laws, epsilon):
    grown = mpmath.exp(mpmath.mpf(epsilon))
    return sum(max(laws[0][k] - grown * laws[1][k], mpmath.mpf(0)) for k in laws[0])


@pytest.mark.parametrize("local", [0.1, 1.0, 8.0, 15.0, 20.0, 35.0, 50.0])
def test_never_below_exact_enumeration(local):
    with mpmath.workdps(60):
        for records in (1, 2, 3, 5, 8):
            laws = enumerated(local, records)
            for delta in (1e-12, 1e-6, 1e-2, 0.3):
                epsilon = shuffled_epsilon(local, records, delta)
                assert epsilon <= local
                assert hockey_stick(laws, epsilon) <= delta
                if 1e-6 < epsilon < local:  # nearly attained: a little less is not enough
                    assert hockey_stick(laws, epsilon * (1 - 1e-7)) > delta * (1 - 1e-6)
            for share in (0.0, 0.3, 0.9, 1 - 1e-9):
                exact = hockey_stick(laws, share * local)
                assert (
                    exact <= shuffled_delta(local, records, share * local) <= exact * (1 + 1e-7) + mpmath.mpf(10) ** -40
                )


@pytest.mark.parametrize(
    ("local", "truth"), [(20.0, 19.999998999998), (35.0, 34.9999989999995), (50.0, 49.9999989999995)]
)
def test_one_record_gains_nothing(local, truth):
    """Closed form: δ(ε) = (1 - e^(ε-ε0)) / (1 + e^-ε0); it used to say 34.88 and 37.38."""
    assert truth <= shuffled_epsilon(local, 1, 1e-6) <= truth + 1e-7


def test_the_law_of_many_clones_is_evaluated_within_the_slack():
    """Against 40 digits at a million clones, far into the tail that decides; the slack there is 1e-11."""
    with mpmath.workdps(40):
        c = 10**6
        for z in (0, 3, 6, 10):
            k = c // 2 + int(z * math.sqrt(c) / 2)
            term = mpmath.binomial(c, k + 1) / mpmath.mpf(2) ** c
            assert abs(float(binom.pmf(k, c, 0.5) / (mpmath.binomial(c, k) / mpmath.mpf(2) ** c)) - 1) < 5e-12
            if z >= 6:
                total, j = mpmath.mpf(0), k + 1
                while term > total * mpmath.mpf(10) ** -20:
                    total += term
                    term *= mpmath.mpf(c - j) / (j + 1)
                    j += 1
                assert abs(float(binom.sf(k, c, 0.5) / total) - 1) < 5e-12


def test_the_grid_bounds_the_sum_over_every_number_of_clones(monkeypatch):

    fine = [shuffled_delta(1.0, 3_000, e) for e in (0.0, 0.05, 0.15)]
    monkeypatch.setattr(sys.modules[shuffled_delta.__module__], "_GRID", 64)
    coarse = [shuffled_delta(1.0, 3_000, e) for e in (0.0, 0.05, 0.15)]
    assert all(a <= b <= 1.5 * a for a, b in zip(fine, coarse, strict=True))


@pytest.mark.parametrize("local", [0.5, 2.0, 6.0])
def test_levels_fall_with_records_and_delta_and_grow_with_the_local_level(local):
    sizes = [shuffled_epsilon(local, 10**k, 1e-8) for k in (0, 2, 3, 5, 8, 12)]
    assert all(more <= fewer for fewer, more in itertools.pairwise(sizes))
    deltas = [shuffled_epsilon(local, 10_000, 10.0**-k) for k in range(2, 40, 9)]
    assert deltas == sorted(deltas)
    locals_ = [shuffled_epsilon(local * f, 10_000, 1e-8) for f in (0.25, 1, 2, 8)]
    assert locals_ == sorted(locals_)


@pytest.mark.parametrize("local", [1e-3, 1.0, 40.0])
def test_a_million_million_records_take_little_memory_and_time(local):
    tracemalloc.start()
    begin = time.process_time()
    epsilon = shuffled_epsilon(local, 10**12, 1e-10)
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < epsilon <= local
    assert peak < 20e6
    assert seconds < 10
    assert epsilon < 1e-3 or local > 10
    assert np.isfinite(epsilon)


def by_clones(local, records, epsilon):
    """Return δ(ε) of the pair of the docstring, summed over all numbers of clones: A given C = c by repeated halves."""
    same, grown, chance = 1 / (1 + math.exp(-local)), math.exp(epsilon), math.exp(-local)
    heads, total = np.ones(1), 0.0
    for c, weight in enumerate(binom.pmf(np.arange(records), records - 1, chance)):
        high, low = np.append(0, heads), np.append(heads, 0)
        first, second = same * high + (1 - same) * low, (1 - same) * high + same * low
        total += weight * np.maximum(first - grown * second, 0).sum()
        if c > records * chance and weight < 1e-25:
            break
        heads = (high + low) / 2
    return total


@pytest.mark.parametrize(("local", "records"), [(1.0, 1), (1.0, 2), (0.3, 5), (4.0, 30), (1.0, 2_000), (1.0, 4_000)])
def test_delta_is_the_sum_over_all_numbers_of_clones(local, records):
    """The last has more numbers of clones than the grid: rounded down to it, a little above."""
    few = records < 3_000
    for epsilon in (0.0, 0.02, 0.7 * local):
        exact, found = by_clones(local, records, epsilon), shuffled_delta(local, records, epsilon)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + (1e-8 if few else 0.02)) + 1e-13
    assert shuffled_delta(local, records, local) == 0
    assert shuffled_delta(local, records, 0.999 * local) > 0 or records > 100


@pytest.mark.parametrize(("others", "chance"), [(0, 0.5), (3, 0.9), (1023, 0.5), (10**6, 0.3), (10**12, 1e-3)])
def test_the_grid_of_clones_leaves_out_what_hardly_happens(others, chance):
    low, grid = _clones(others, chance)
    assert (grid[0], grid.size <= 1025) == (low, True)
    assert (np.diff(grid) == (grid[-1] - low) / max(grid.size - 1, 1)).all()
    assert grid[-1] <= others
    assert 0 <= low <= others * chance
    mean = others * chance
    assert low >= mean - 1.0001 * math.sqrt(200 * mean) - 2
    assert not low or binom.logcdf(low, others, chance) < -100
    assert grid[-1] == others or binom.logsf(grid[-1], others, chance) < -90
    assert (np.diff(grid) == 1).all() if others < 1024 else grid.size > 512


def test_what_is_left_out_below_the_grid_counts_in_full():
    """At an ε where the rest is smaller: as soon as a number of clones is left out, e^-100 is added."""
    chance, kinds = math.exp(-0.5), set()
    for records in range(300, 400, 3):
        low, _ = _clones(records - 1, chance * (1 - 1e-15))
        kinds.add(min(low, 2))
        assert (shuffled_delta(0.5, records, 0.4999) >= math.exp(-100)) == (low > 0)
    assert kinds == {0, 1, 2}


def test_a_search_ends_close_above_the_least_feasible_point():
    for start in (0.0, 0.5, 3.1, 3.14):
        tried: list[float] = []

        def feasible(x, tried=tried):
            tried.append(x)
            return x >= math.pi

        found = _least(feasible, 100.0, 1e-6, start)
        assert math.pi <= found <= math.pi * (1 + 1e-6)
        assert len(tried) < 35
    assert _least(lambda x: x >= math.pi, 100.0, 1e-6, 20.0) == pytest.approx(math.pi, rel=1e-6)
    assert _least(lambda x: False, 7.0, 1e-6) == pytest.approx(7.0)
    assert _least(lambda x: x >= math.pi / 1000, 1.0, 1e-6, 0.5) == pytest.approx(math.pi / 1000, rel=1e-6)
    assert 0 < _least(lambda x: True, 1.0, 1e-6) < 1e-12  # even 0 is feasible


def test_a_level_holds_and_nine_tenths_of_it_do_not():
    law, records, delta = Mechanism({"a": randomised_response(3, 1.0), "b": randomised_response(2, 0.5)}), 300, 1e-4
    for name, level in shuffled_levels(law, records, delta).items():
        assert not shuffled_holds(name, law, records, 0.0, delta)
        assert shuffled_holds(name, law, records, level, delta)
        assert not shuffled_holds(name, law, records, 0.9 * level, delta)
    assert not shuffled_holds("other", law, records, 99.0, delta)
    assert shuffled_delta(law, records, 0.2) == min(
        blanket_delta(parts_of(law.blocks) or (), records, 0.2), shuffled_delta(1.5, records, 0.2)
    )
    noise = Mechanism([Block(("a",), TransitionMatrix.from_array(np.full((2, 2), 0.5)))])
    for bound in ("clones", "blanket", "other"):
        for epsilon, holds in ((0.0, True), (2.0, True), (-0.1, False), (math.nan, False)):
            assert shuffled_holds(bound, noise, records, epsilon, delta) is holds
        assert not shuffled_holds(bound, law, records, -0.1, 0.9)
        assert not shuffled_holds(bound, law, records, math.nan, 0.9)
    assert shuffled_levels(noise, records, delta) == {"clones": 0.0, "blanket": 0.0}
    assert shuffled_delta(noise, records, 0.0) == 0.0


def test_the_number_of_records_and_the_levels_have_limits():
    assert shuffled_delta(1.0, 10**12, 0.5) == 0 or shuffled_delta(1.0, 10**12, 0.5) < 1e-30
    for call in (
        lambda: shuffled_delta(1.0, 10**12 + 1, 0.5),
        lambda: shuffled_delta(1.0, 0, 0.5),
        lambda: shuffled_delta(0.0, 5, 0.5),
        lambda: shuffled_delta(1.0, 5, -1e-9),
        lambda: shuffled_epsilon(1.0, 5, 1.0),
        lambda: shuffled_epsilon(1.0, 5, 0.0),
    ):
        with pytest.raises(PrivacyError):
            call()
    assert 1 - 1e-9 < shuffled_delta(900.0, 5, 801.0) <= 1  # beyond floats: as if nobody else were there
    assert shuffled_delta(701.5, 5, 701.0) == pytest.approx(1 - math.exp(-0.5))


def test_one_record_alone_tells_no_more_than_everything():
    assert shuffled_delta(60.0, 1, 0.0) == 1.0  # but for e^-60


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Mechanism([LAW], numerical=[RankedColumn("pay", RankBand(5), "permute", 20)]), "variables have no ε; got pay"),
        (Mechanism([LAW], split=Split.of([0.5, 0.5], [NONE, replace(NONE, variables=("c",))])), "no finite ε"),
        (Mechanism([NONE]), "no finite ε"),
    ],
)
def test_laws_without_a_level_are_not_amplified(law, message):
    for call in (shuffled_levels, shuffled_epsilon, shuffled_delta):
        with pytest.raises(PrivacyError, match=message):
            call(law, 10, 0.5)
