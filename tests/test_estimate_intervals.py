"""Intervals of shares: exact coverage by summing the binomial law, profiles by direct optimisation, warnings."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, stats

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.estimate import em, functionals, hypotheses, intervals
from postrand.estimate.axes import Axis, Layout, apply
from postrand.estimate.profile import profile_ends
from postrand.estimate.result import Estimate
from postrand.estimate.tally import Tally
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

SHARES = (0.005, 0.01, 0.0153, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
LAWS = [TransitionMatrix.identity(3), *(randomised_response(s, e) for s in (3, 10) for e in (0.5, 1, 2, 3, 5, 6, 8))]


def exact_coverage(size, p, bounds):
    """The probability that the interval of a binomial share covers p, summed over every count."""
    counts = np.arange(size + 1)
    low, high = bounds(counts.astype(float), np.full(size + 1, float(size)))
    return stats.binom.pmf(counts, size, p)[(low <= p + 1e-12) & (p <= high + 1e-12)].sum()


def wald(x, n):
    half = 1.96 * np.sqrt(x / n * (1 - x / n) / (n - 1))
    return x / n - half, x / n + half


@pytest.mark.parametrize("size", [50, 200, 1_000])
def test_coverage_of_a_share_is_exact(size):
    """A share's interval is that of the released count, mapped by the inverse: its coverage needs no chance."""
    released = [t * law.array[0, 0] + (1 - t) * law.array[1, 0] for law in LAWS for t in SHARES]
    held = [exact_coverage(size, p, lambda x, n: intervals.binomial_bounds(x, n, 0.95)) for p in released]
    assert min(held) >= 0.925
    assert np.mean(held) >= 0.945
    assert np.mean(held) <= 0.965
    assert min(exact_coverage(size, p, wald) for p in released) < 0.9  # the intervals that were


@pytest.mark.parametrize("size", [3, 10, 40, 200, 2_000])
def test_coverage_nowhere_falls_below_its_limit(size):
    """Coverage is lowest just beside an end of an interval: all ends are tried."""
    x = np.arange(size + 1.0)
    ends = np.concatenate(intervals.binomial_bounds(x, np.full(size + 1, float(size)), 0.95))
    beside = np.clip(np.concatenate([ends - 1e-10, ends + 1e-10]), 0, 1)
    held = [
        exact_coverage(size, p, lambda x, n: intervals.binomial_bounds(x, n, 0.95)) for p in beside[:: 1 + size // 30]
    ]
    assert min(held) >= 0.925


@pytest.mark.parametrize("law", LAWS[::3])
def test_the_interval_of_a_share_is_that_of_its_released_count(law):
    q, r = law.array[0, 0], law.array[1, 0]
    for counts in ([0, 90, 110], [1, 99, 100], [60, 60, 80], [3, 0, 197], [200, 0, 0]):
        padded = np.zeros(law.size)
        padded[:3] = counts
        found = estimate.from_tally(estimate.from_counts(padded, [law]))
        low, high = intervals.binomial_bounds(padded, np.full(law.size, 200.0), 0.95)
        np.testing.assert_allclose(found.interval(), [(low - r) / (q - r), (high - r) / (q - r)], atol=1e-9)
        np.testing.assert_allclose(found.counts().interval(), 200 * np.array(found.interval()), atol=1e-9)


def test_ends_are_where_the_tests_reject():
    for x, n in ((1, 30), (7, 30), (30, 30), (12, 5_000)):
        low, high = (float(end[0]) for end in intervals.binomial_bounds(np.array([x * 1.0]), np.array([n * 1.0]), 0.9))

        def tail(p, x=x, n=n):
            return stats.binom.sf(x, n, p) + 0.6 * stats.binom.pmf(x, n, p)

        assert low == pytest.approx(optimize.brentq(lambda p, t=tail: t(p) - 0.05, 1e-12, x / n), abs=1e-9)
        if x < n:
            rest = optimize.brentq(
                lambda p, x=x, n=n: stats.binom.cdf(x - 1, n, p) + 0.6 * stats.binom.pmf(x, n, p) - 0.05, x / n, 1
            )
            assert high == pytest.approx(rest, abs=1e-9)
        else:
            assert high == 1
    z = stats.norm.isf(0.025)
    for end in intervals.binomial_bounds(np.array([300.0]), np.array([1_000.0]), 0.95):
        assert (0.3 - end[0]) ** 2 == pytest.approx(z * z * end[0] * (1 - end[0]) / 1_000)


def pooled(tallies, truth, estimator=estimate.from_tally):
    inside, widths = np.zeros(truth.shape), []
    for counted in tallies:
        low, high = estimator(counted).interval()
        inside += (low <= truth) & (truth <= high)
        widths.append(high - low)
    return inside / len(widths), np.mean(widths, axis=0)


@pytest.mark.statistical
def test_cells_of_several_values_are_covered():
    """A rare clear category by a perturbed one, n = 200: three contributions, 0 the usual one; error 0.0126."""
    rng = np.random.default_rng(1)
    truth = np.outer([0.01, 0.04, 0.95], [0.05, 0.15, 0.3, 0.1, 0.4])
    law = randomised_response(5, 2.0)
    draws = rng.multinomial(200, (truth @ law.array).ravel(), size=300).reshape(300, 3, 5).astype(float)
    held, _ = pooled([estimate.from_counts(counts, [None, law]) for counts in draws], truth)
    assert held.min() >= 0.95 - 4 * 0.0126
    assert held.mean() >= 0.945


@pytest.mark.statistical
@pytest.mark.parametrize("strata", [1, 3])
def test_weighted_shares_are_covered(strata):
    """Weights as variable as an exponential's: coverage of each cell within 4 errors of 95%, n = 200."""
    rng = np.random.default_rng(2)
    truth, law = np.array([0.005, 0.02, 0.1, 0.3, 0.575]), randomised_response(5, 5.0)
    tallies = []
    for _ in range(300):
        cells, group, w = rng.choice(5, 200, p=truth @ law.array), rng.integers(0, strata, 200), rng.gamma(1.5, 1, 200)
        index = 5 * group + cells
        counts, squares = (np.bincount(index, v, 5 * strata).reshape(strata, 5) for v in (w, w * w))
        base = estimate.from_counts(counts.sum(axis=0), [law])
        tallies.append(Tally(base.layout, counts, squares, np.bincount(group, minlength=strata), 0, True))
    held, _ = pooled(tallies, truth)
    assert held.min() >= 0.95 - 4 * 0.0126
    assert held.mean() >= 0.94


def test_weights_all_alike_and_strata_without_effect_change_little():
    law = randomised_response(3, 2.0)
    counts = np.array([[30.0, 20, 50], [33, 18, 49], [28, 22, 50]])
    plain = estimate.from_counts(counts.sum(axis=0), [law])
    heavy = Tally(plain.layout, 4 * counts.sum(axis=0)[None], 16 * counts.sum(axis=0)[None], np.array([300]), 0, True)
    apart = Tally(plain.layout, counts, counts, np.array([100, 100, 100]))
    wanted = estimate.from_tally(plain).interval()
    np.testing.assert_allclose(estimate.from_tally(heavy).interval(), wanted, atol=1e-12)
    np.testing.assert_allclose(estimate.from_tally(apart).interval(), wanted, atol=2e-3)


def test_quantities_have_the_intervals_of_the_cells_they_are():
    rng = np.random.default_rng(3)
    counts = rng.multinomial(300, np.full(12, 1 / 12)).reshape(3, 4)
    counted = estimate.from_counts(counts, [None, randomised_response(4, 1.5)])
    cells = {f"{i}": np.eye(12)[i].reshape(3, 4) for i in range(12)}
    found = functionals.from_tally(counted, cells | {"constant": np.ones((3, 4))})
    whole = estimate.from_tally(counted).interval()
    np.testing.assert_allclose([end[:12] for end in found.interval()], [end.ravel() for end in whole], atol=1e-12)
    np.testing.assert_allclose([end[12] for end in found.interval()], 1, atol=1e-9)
    assert found.warnings == ()


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_profile_ends_are_those_of_direct_optimisation(epsilon):
    rng = np.random.default_rng(4)
    laws = randomised_response(4, epsilon), randomised_response(2, epsilon)
    matrix = np.kron(*(law.array for law in laws))
    counts = rng.multinomial(150, rng.dirichlet(np.full(8, 0.5)) @ matrix).astype(float)
    best = em.from_tally_ml(estimate.from_counts(counts.reshape(4, 2), laws), tolerance=1e-8).value.ravel()
    rows = np.vstack([np.eye(8), -np.eye(8), rng.standard_normal((3, 8))])
    drops = rng.uniform(0.5, 4, len(rows))
    found = profile_ends(counts, matrix, best, rows, drops)
    floor = counts @ np.log(best @ matrix) - drops
    for c, least, end in zip(rows, floor, found, strict=True):
        limits = [
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p, f=least: counts @ np.log(p @ matrix) - f},
        ]
        direct = optimize.minimize(
            lambda p, c=c: -c @ p, 0.9 * best + 0.1 / 8, bounds=[(1e-12, 1)] * 8, constraints=limits, method="SLSQP"
        )
        assert end >= -direct.fun - 1e-6
        assert end <= -direct.fun + 2e-4 * max(abs(end), abs(end - c @ best)) + 1e-5


@pytest.mark.statistical
def test_likelihood_intervals_are_narrow_and_cover():
    """A 5 x 3 table of 200 records, ε = 0.5 and 2, 60 runs: the old width was that of the unbiased estimate."""
    truth = np.random.default_rng(5).dirichlet(np.ones(15)).reshape(5, 3)
    rng = np.random.default_rng(6)
    for epsilon, narrower in ((0.5, 0.6), (2.0, 1.02)):
        laws = [randomised_response(5, epsilon), randomised_response(3, epsilon)]
        law = apply([m.array.T for m in laws], truth).ravel()
        tallies = [estimate.from_counts(c.reshape(5, 3), laws) for c in rng.multinomial(200, law, size=60)]
        held, width = pooled(tallies, truth, em.from_tally_ml)
        cut = [np.clip(estimate.from_tally(counted).interval(), 0, 1) for counted in tallies]
        assert held.mean() >= 0.945
        assert held.min() >= 0.95 - 4 * 0.0281
        assert width.mean() <= narrower * np.mean([high - low for low, high in cut])


def test_likelihood_intervals_meet_the_unbiased_ones_and_fall_back(monkeypatch):
    law = randomised_response(3, 1.0)
    counted = estimate.from_counts([380.0, 330.0, 290.0], [law])
    weighted = Tally(counted.layout, 2.5 * counted.counts, 9 * counted.counts, np.array([900]), 0, True)
    for inside in (counted, weighted):
        np.testing.assert_allclose(
            em.from_tally_ml(inside).interval(), estimate.from_tally(inside).interval(), atol=2e-3
        )
    edge = estimate.from_counts([10.0, 45.0, 45.0], [law])
    low, high = em.from_tally_ml(edge).interval()
    monkeypatch.setattr(em, "MAX_PROFILE", 1)
    fallen, risen = em.from_tally_ml(edge).interval()
    assert low[0] == fallen[0] == 0
    assert (fallen >= 0).all()
    assert (risen <= 1).all()
    np.testing.assert_allclose(risen[1:], estimate.from_tally(edge).interval()[1][1:])
    assert ((high - low)[1:] < (risen - fallen)[1:]).all()
    assert high[0] > risen[0]


def test_cells_whose_standard_errors_are_too_small_are_counted():
    """Rare cells: ± 2 standard errors would exclude the true shares, the intervals hold them."""
    law = randomised_response(6, 3.0)
    rng = np.random.default_rng(1)
    truth = np.array([0.7, 0.2, 0.0985, 0.0005, 0.0005, 0.0005])
    shares = [
        estimate.from_tally(estimate.from_counts(rng.multinomial(60, truth @ law.array), [law])) for _ in range(300)
    ]
    told = [any("Use the intervals" in text for text in found.warnings) for found in shares]
    missed = [abs(found.value - truth)[3:].max() > 1.96 * found.standard_error[3:].max() for found in shares]
    held = [((low <= truth) & (truth <= high))[3:].mean() for low, high in (found.interval() for found in shares)]
    assert np.mean(held) > 0.92
    assert {told[i] for i, one in enumerate(missed) if one and (shares[i].value[3:] < 0).all()} == {True}
    few = next(found for found, one in zip(shares, told, strict=True) if one)
    assert few.counts().warnings == few.warnings
    assert f"of {few.value.size} cells" in str(few)
    many = estimate.from_tally(estimate.from_counts(4_000 * np.full(6, 1 / 6), [law]))
    assert many.warnings == ()
    clear = estimate.from_tally(estimate.from_counts([60.0, 1.0], [None]))
    assert clear.warnings == ()


AGE = Codebook((Variable("age", role="key", categories=("young", "middle", "old")),))


def test_numbers_that_say_nothing_are_named():
    counted = estimate.from_counts([52.0, 48.0], [randomised_response(2, 0.1)], ["age"], [("young", "old")])
    found = estimate.from_tally(counted)
    assert "young, old" in found.warnings[0]
    assert "larger ε" in found.warnings[0]
    assert str(found).endswith("Warning: " + found.warnings[0])
    assert found.to_dict()["warnings"] == list(found.warnings)
    assert found.counts().warnings == found.warnings
    assert em.from_tally_ml(counted).warnings
    functional = functionals.from_tally(counted, {"gap": [1, -1], "whole": [1, 1]})
    assert "gap" in functional.warnings[0]
    assert "whole" not in functional.warnings[0]
    clear = estimate.from_tally(estimate.from_counts([1.0, 1.0], [None]))
    assert "more records" in clear.warnings[0]
    many = estimate.from_tally(estimate.from_counts(np.full(8, 2.0), [randomised_response(8, 0.1)]))
    assert "all 8 cells" in many.warnings[0]
    good = estimate.from_tally(estimate.from_counts([52.0, 48.0], [randomised_response(2, 1.0)]))
    assert good.warnings == ()
    assert "Warning" not in str(good)
    assert estimate.Ratio(2.0, 0.2).warnings == ()
    assert "100 times" in str(estimate.Ratio(2.0, 2.0))
    unknown = Estimate(**{f: getattr(found, f) for f in Estimate.__dataclass_fields__ if f != "span"})
    assert unknown.warnings == ()


def block(epsilon):
    """A joint block of 3 x 2 categories, its law over the cells, and its axes."""
    law = randomised_response(6, epsilon)
    cells = np.array(list(itertools.product(range(3), range(2))), dtype=np.int32)
    return law, Layout((Axis(("a", "b"), (("u", "v", "w"), ("x", "y")), law, cells, (0, 1)),), ("a", "b"), ("a", "b"))


def test_the_score_of_a_joint_block_is_that_of_its_definition():
    law, layout = block(2.0)
    counts = np.array([60.0, 40, 30, 25, 20, 25])
    found = hypotheses.independence(Tally(layout, counts[None], counts[None], np.array([200])))
    inverse = np.linalg.inv(law.array).T
    pi = (inverse @ counts / 200).reshape(3, 2)
    null = np.outer(pi.sum(axis=1), pi.sum(axis=0)).ravel()
    covariance = (inverse @ np.diag(law.array.T @ null) @ inverse.T - np.outer(null, null)) / 200

    def gap(flat):
        table = flat.reshape(3, 2)
        return (table - np.outer(table.sum(axis=1), table.sum(axis=0)))[:-1, :-1].ravel()

    slope = np.array([(gap(null + d) - gap(null - d)) / 2e-6 for d in 1e-6 * np.eye(6)]).T
    g = gap(pi.ravel())
    assert found.statistic == pytest.approx(g @ np.linalg.solve(slope @ covariance @ slope.T, g), rel=1e-6)
    assert found.degrees_of_freedom == 2


def test_a_block_that_changes_nothing_gives_pearsons_statistic():
    _, layout = block(1.0)
    axis = layout.axes[0]
    clear = Layout((Axis(axis.names, axis.labels, TransitionMatrix.identity(6), axis.cells, (0, 1)),), ("a", "b"))
    counts = np.array([60.0, 40, 30, 25, 20, 25])
    found = hypotheses.independence(Tally(clear, counts[None], counts[None], np.array([200])))
    reference = stats.chi2_contingency(counts.reshape(3, 2), correction=False)
    assert found.statistic == pytest.approx(reference.statistic)
    assert found.p_value == pytest.approx(reference.pvalue)
    alike = Tally(clear, 3 * counts[None], 9 * counts[None], np.array([200]), 0, True)
    weighted = hypotheses.independence(alike)
    assert weighted.statistic == pytest.approx(reference.statistic, rel=0.05)


@pytest.mark.statistical
def test_the_test_of_a_joint_block_keeps_its_size_in_small_files():
    """600 files of 200 records, alpha 5%: within 3 errors (0.9% each); power above 80% at a gap of 0.06."""
    rng = np.random.default_rng(7)
    law, layout = block(4.0)
    independent = np.outer([0.5, 0.3, 0.2], [0.4, 0.6])
    gap = 0.06 * np.array([[1, -1], [-1, 1], [0, 0]])

    def rate(joint, runs):
        draws = rng.multinomial(200, joint.ravel() @ law.array, size=runs).astype(float)
        tallies = [Tally(layout, c[None], c[None], np.array([200])) for c in draws]
        return np.mean([hypotheses.independence(counted).p_value < 0.05 for counted in tallies])

    assert abs(rate(independent, 600) - 0.05) < 3 * 0.009
    assert rate(independent + gap, 100) > 0.8


def test_a_mechanism_s_weighted_fit_of_a_released_impossibility_is_certain():
    mute = TransitionMatrix.from_array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    mechanism = Mechanism({"age": mute}, AGE)
    frame = {"age": ["young", "old"], "w": [1.0, 2.0]}
    found = estimate.goodness_of_fit_test(pa.table(frame), "age", [0.2, 0.3, 0.5], mechanism, weights="w")
    assert found.p_value == 0
