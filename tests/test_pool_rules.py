"""Rubin's rules: by hand, in the limit, over simulated files, and against the rules as they are written in R."""

import json
import subprocess
from fractions import Fraction

import numpy as np
import pytest
import scipy

from postrand.errors import EstimationError, UsageError
from postrand.estimate import combine, copies_for
from postrand.estimate.pooling_rules import joint_test, quantile_t, reference_of, upper_f


def by_hand(values, variances, complete=None):
    """The rules in exact rational numbers, as Rubin and Barnard write them, with r in place of λ."""
    m = len(values)
    values, variances = [[Fraction(x) for x in numbers] for numbers in (values, variances)]
    mean, within = sum(values) / m, sum(variances) / m
    between = sum((x - mean) ** 2 for x in values) / (m - 1)
    total = within + (m + 1) * between / m
    r = (m + 1) * between / m / within
    freedom = (m - 1) * (1 + 1 / r) ** 2
    if complete is not None:
        observed = Fraction(complete + 1, complete + 3) * complete / (1 + r)
        freedom = 1 / (1 / freedom + 1 / observed)
    return mean, total, freedom, (r + 2 / (freedom + 3)) / (r + 1)


@pytest.mark.parametrize("complete", [None, 3, 40])
def test_the_rules_by_hand(complete):
    values, variances = ["0.5", "1.25", "-2", "3"], ["1.5", "2", "0.25", "4"]
    mean, total, freedom, missing = by_hand(values, variances, complete)
    found = combine([*map(float, values)], [*map(float, variances)], np.inf if complete is None else complete)
    for got, wanted in (
        (found.value, mean),
        (found.total, total),
        (found.freedom, freedom),
        (found.missing, missing),
    ):
        assert float(got) == pytest.approx(float(wanted), rel=1e-14)


def test_copies_that_agree_leave_the_variance_of_one_file():
    found = combine(np.full((5, 2), 3.0), np.full((5, 2), 0.25), [20.0, np.inf])
    assert found.total.tolist() == [0.25, 0.25]
    assert found.freedom.tolist() == pytest.approx([20 * 21 / 23, np.inf])
    assert found.missing.tolist() == [0, 0]
    low, high = found.bounds(0.95)
    assert high[1] - low[1] == pytest.approx(2 * 1.959963984540054 * 0.5)


def test_no_variance_within_copies_leaves_m_minus_one():
    found = combine([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], 50.0)
    assert float(found.freedom) == pytest.approx(2.0)
    assert float(found.missing) == 1.0
    nothing = combine([2.0, 2.0], [0.0, 0.0])
    assert float(nothing.standard_error) == 0
    assert nothing.bounds()[0] == nothing.bounds()[1] == 2.0


def test_barnard_and_rubin_never_have_more_freedom_than_the_complete_data():
    rng = np.random.default_rng(1)
    found = combine(rng.normal(size=(6, 400)), rng.chisquare(3, (6, 400)), 12.0)
    large = combine(rng.normal(size=(6, 400)), rng.chisquare(3, (6, 400)))
    assert (found.freedom < 12).all()
    assert (large.freedom > 12).any()


def test_many_copies_lead_to_the_observed_degrees_of_freedom():
    m, complete, share = 10**6, 30.0, 0.4
    between = share / (1 - share) * m / (m + 1)
    value = np.sqrt(between * (m - 1) / m) * np.where(np.arange(m) % 2, 1.0, -1.0)
    found = combine(value, np.ones(m), complete)
    assert float(found.share) == pytest.approx(share)
    assert float(found.freedom) == pytest.approx((1 - share) * 30 * 31 / 33, rel=1e-4)


def test_bad_numbers_are_refused():
    with pytest.raises(UsageError, match="at least two copies"):
        combine([1.0], [1.0])
    with pytest.raises(UsageError, match="differ in shape"):
        combine([1.0, 2.0], [1.0])
    with pytest.raises(EstimationError, match="not a number"):
        combine([1.0, np.nan], [1.0, 1.0])
    with pytest.raises(EstimationError, match="negative"):
        combine([1.0, 2.0], [1.0, -1.0])
    with pytest.raises(UsageError, match="not positive"):
        combine([1.0, 2.0], [1.0, 1.0], 0.0)
    with pytest.raises(UsageError, match="confidence level"):
        combine([1.0, 2.0], [1.0, 1.0]).bounds(95)


@pytest.mark.parametrize(("missing", "precision", "copies"), [(0.5, 0.05, 51), (0.1, 0.05, 3), (0.9, 0.05, 163)])
def test_how_many_copies_von_hippel_asks_for(missing, precision, copies):
    assert copies_for(missing, precision) == copies


@pytest.mark.statistical
def test_what_the_rules_say_of_their_own_error_is_what_other_copies_show():
    """The spread of γ, of the standard error and of the value over 20,000 sets of copies of one file; 3 MC errors."""
    rng, m, between, within, sets = np.random.default_rng(2), 20, 1.0, 1.5, 20_000
    found = combine(rng.normal(0, np.sqrt(between), (m, sets)), np.full((m, sets), within))
    truth = combine(np.sqrt(between * (m - 1) / m) * np.where(np.arange(m) % 2, 1.0, -1.0), np.full(m, within))
    assert found.standard_error.std() / found.standard_error.mean() == pytest.approx(
        float(truth.error_of_error), rel=0.05
    )
    assert found.share.std() == pytest.approx(float(truth.missing_error), rel=0.07)
    assert found.value.std() == pytest.approx(float(truth.simulation_error), rel=0.02)


def imputed_means(rng, files, records, shown, copies):
    """Means and variances (m, files) of completed files of normal values, of which only some are shown.

    The others are drawn from their posterior under the improper prior 1/σ²: σ², then μ, then the values.
    """
    seen = rng.normal(size=(files, shown))
    mean, spread = seen.mean(axis=1), seen.var(axis=1, ddof=1)
    variance = (shown - 1) * spread / rng.chisquare(shown - 1, (copies, files))
    centre = mean + np.sqrt(variance / shown) * rng.normal(size=(copies, files))
    drawn = centre[..., None] + np.sqrt(variance)[..., None] * rng.normal(size=(copies, files, records - shown))
    whole = np.concatenate([np.broadcast_to(seen, (copies, files, shown)), drawn], axis=2)
    return whole.mean(axis=2), whole.var(axis=2, ddof=1) / records


@pytest.mark.statistical
@pytest.mark.parametrize(("copies", "files", "shown"), [(5, 8000, 12), (20, 4000, 15)])
def test_intervals_cover_as_they_say(copies, files, shown):
    """Half of the records shown: one Monte-Carlo error is .0024 and .0034; 4 of them are alpha 6e-5.

    In small files the intervals are a little too long rather than too short: half a point more is accepted.
    """
    values, variances = imputed_means(np.random.default_rng(3), files, 2 * shown, shown, copies)
    found = combine(values, variances, 2 * shown - 1)
    low, high = found.bounds(0.95)
    error = np.sqrt(0.95 * 0.05 / files)
    covered = ((low <= 0) & (high >= 0)).mean()
    assert -4 * error < covered - 0.95 < 4 * error + 0.005
    naive = np.abs(values[0]) < quantile_t(np.array(2 * shown - 1.0), 0.975) * np.sqrt(variances[0])
    normal = np.abs(found.value) < 1.96 * found.standard_error
    assert naive.mean() < 0.95 - 4 * error
    assert normal.mean() < (0.95 - 4 * error if copies == 5 else covered)


@pytest.mark.statistical
@pytest.mark.parametrize(("copies", "lost"), [(5, 0.3), (20, 0.7)])
def test_the_joint_test_has_its_size(copies, lost):
    """D1 of 4 numbers that are 0, 2,000 times: 5 ± 2 % (four Monte-Carlo errors); without r it rejects far more."""
    rng, k, times = np.random.default_rng(4), 4, 2000
    root = np.linalg.cholesky(np.eye(k) + 0.5)
    within = root @ root.T
    rejected = simple = 0
    for _ in range(times):
        centre = np.sqrt(1 / (1 - lost)) * rng.normal(size=k)
        values = (centre + np.sqrt(lost / (1 - lost)) * rng.normal(size=(copies, k))) @ root.T
        seen = np.cov(values, rowvar=False)
        statistic, (increase, freedom) = joint_test(values.mean(axis=0), within, seen, copies)
        rejected += upper_f(statistic, k, freedom) < 0.05
        simple += scipy.special.chdtrc(k, statistic * k * (1 + increase)) < 0.05
    assert abs(rejected / times - 0.05) < 0.02
    assert simple / times > 0.1


@pytest.mark.statistical
def test_the_joint_test_of_a_small_file_keeps_its_size():
    """Four means of 30 records, 15 shown, 2,000 times: Reiter's reference rejects 2 % to 7 % (four Monte-Carlo errors
    above 5 %: it is on the safe side), that for large files more."""
    times, k, copies = 2000, 4, 10
    values, variances = imputed_means(np.random.default_rng(7), times * k, 30, 15, copies)
    values, within = values.reshape(copies, times, k), variances.mean(axis=0).reshape(times, k)
    rejected = {29.0: 0, np.inf: 0}
    for i in range(times):
        between = np.cov(values[:, i], rowvar=False)
        for complete in rejected:
            statistic, reference = joint_test(values[:, i].mean(axis=0), np.diag(within[i]), between, copies, complete)
            rejected[complete] += upper_f(statistic, k, reference.freedom) < 0.05
    assert 0.02 < rejected[29.0] / times < 0.07 < rejected[np.inf] / times


def test_the_joint_test_of_one_number_is_the_square_of_its_t():
    values, variances = np.array([1.0, 2.5, 1.75, 2.0]), np.array([0.3, 0.2, 0.25, 0.25])
    one = combine(values, variances)
    statistic, reference = joint_test(one.value[None], one.within[None, None], one.between[None, None], 4)
    assert statistic == pytest.approx(float(one.value**2 / one.total))
    assert reference.increase == pytest.approx(float(one.share / (1 - one.share)))
    assert upper_f(statistic, 1, float(one.freedom)) == pytest.approx(float(one.p_value()))


def test_a_joint_test_of_dependent_numbers_is_refused():
    shares = np.array([[0.21, -0.21], [-0.21, 0.21]]) / 100
    with pytest.raises(EstimationError, match="depend on each other"):
        joint_test(np.array([0.3, 0.7]), shares, shares, 5)


def test_references_in_the_limits():
    assert reference_of(0.0, 3, 10) == (0.0, np.inf)
    assert reference_of(0.5, 2, 3).freedom == pytest.approx(4 * 1.5 * 9 / 2)  # t = 4: the other formula
    assert reference_of(0.5, 2, 4).freedom == pytest.approx(4 + 2 * (1 + (1 - 2 / 6) / 0.5) ** 2)
    large, small = (reference_of(0.5, 3, 20, complete).freedom for complete in (1e9, 60.0))
    assert large == pytest.approx(reference_of(0.5, 3, 20).freedom, rel=1e-6)
    assert small < 60
    assert reference_of(3.0, 3, 20, 5.0).freedom == 4.0
    assert upper_f(1.3, 2, np.inf) == pytest.approx(upper_f(1.3, 2, 1e9), rel=1e-6)


R_RULES = """
library(jsonlite)
given <- fromJSON("given.json")
out <- list()
for (complete in c(Inf, 17)) {
  one <- mice::pool.scalar(given$values, given$variances, n = complete + 1, k = 1)
  out[[length(out) + 1]] <- c(one$qbar, one$t, one$df, one$fmi)
}
two <- mitools::MIcombine(as.list(given$values), as.list(given$variances))
out[[3]] <- c(coef(two), vcov(two), two$df, two$missinfo)
writeLines(toJSON(out, digits = NA), "out.json")
"""


@pytest.mark.r
def test_mice_and_mitools_give_the_same(tmp_path):
    rng = np.random.default_rng(5)
    values, variances = rng.normal(3, 0.4, 7), rng.chisquare(20, 7) / 100
    (tmp_path / "given.json").write_text(json.dumps({"values": values.tolist(), "variances": variances.tolist()}))
    done = subprocess.run(["Rscript", "-e", R_RULES], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # mitools is compared for large files only: its degrees of freedom for small ones have B in place of (1 + 1/m) B.
    for complete, given in zip((np.inf, 17.0, np.inf), json.loads((tmp_path / "out.json").read_text()), strict=True):
        found = combine(values, variances, complete)
        wanted = [float(x) for x in (found.value, found.total, found.freedom, found.missing)]
        np.testing.assert_allclose(given, wanted, rtol=1e-12)
