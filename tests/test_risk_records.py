"""Record-level measures against brute force and high-precision values: SUDA, risky cells, weights, households."""

import itertools
import math

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand.errors import DataError, UsageError
from postrand.risk import assess
from postrand.risk.cells import KeyCodes, table
from postrand.risk.counts import risky_combinations
from postrand.risk.suda import suda
from postrand.risk.weights import expected_inverse, household_risk, individual_risk

SHAPE = (3, 2, 4, 2)


@st.composite
def files(draw):
    n = draw(st.integers(1, 20))
    columns = [draw(st.lists(st.integers(0, s - 1), min_size=n, max_size=n)) for s in SHAPE]
    return KeyCodes(tuple("abcd"), SHAPE, tuple(np.array(c) for c in columns))


def brute_minimal_uniques(rows, most):
    """Find, by definition, the sets of positions that single a row out and have no proper subset that does."""
    sets = [s for k in range(1, most + 1) for s in itertools.combinations(range(len(rows[0])), k)]
    found = []
    for row in rows:
        unique = [s for s in sets if sum(all(other[j] == row[j] for j in s) for other in rows) == 1]
        found.append([s for s in unique if not any(set(t) < set(s) for t in unique)])
    return found


@given(files(), st.integers(1, 4))
def test_suda_finds_the_minimal_sample_uniques(keys, most):
    rows = list(zip(*(c.tolist() for c in keys.codes), strict=True))
    expected = brute_minimal_uniques(rows, most)
    found = suda(keys, most)
    worth = {k: math.prod(4 - i for i in range(k, min(most, 3) + 1)) for k in range(1, 5)}
    assert found.found.tolist() == [len(sets) for sets in expected]
    assert found.smallest.tolist() == [min(map(len, sets), default=0) for sets in expected]
    assert found.score.tolist() == [sum(worth[len(s)] for s in sets) for sets in expected]
    total = sum(worth[len(s)] for sets in expected for s in sets)
    shares = [sum(worth[len(s)] for sets in expected for s in sets if j in s) / max(total, 1) for j in range(4)]
    np.testing.assert_allclose(found.contribution, shares, atol=1e-12)


def test_suda_refuses_what_it_cannot_search():
    keys = KeyCodes(("a",), (2,), (np.array([0, 1]),))
    with pytest.raises(UsageError, match="outside its range"):
        suda(keys, 2)
    with pytest.raises(UsageError, match="missing='category'"):
        suda(KeyCodes(("a",), (2,), (np.array([-1, 1]),)))
    wide = KeyCodes(tuple(f"v{i}" for i in range(30)), (2,) * 30, (np.array([0, 1]),) * 30)
    with pytest.raises(UsageError, match="smaller max_size"):
        suda(wide)


@given(files(), st.integers(1, 4))
def test_risky_combinations(keys, threshold):
    frame = pd.DataFrame(dict(zip(keys.names, keys.codes, strict=True)))
    for found in risky_combinations(keys, 2, threshold):
        sizes = frame.groupby(list(found.variables)).size()
        low = sizes[sizes < threshold]
        assert (found.cells, found.records) == (len(low), low.sum())
    assert len(risky_combinations(keys, 2, threshold)) == 4 + 6


@pytest.mark.parametrize("f", [1, 2, 3, 10, 200, 5000])
@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.0999, 0.1, 0.5, 0.95, 1.0])
def test_expected_inverse_against_the_hypergeometric_function(f, p):
    with mpmath.workdps(50):
        exact = mpmath.mpf(p) / f * mpmath.hyp2f1(1, 1, f + 1, 1 - mpmath.mpf(p))
        assert expected_inverse(np.array([f]), np.array([p]))[0] == pytest.approx(float(exact), rel=1e-13)


def test_expected_inverse_is_the_mean_of_its_law():
    """E(1/F) summed over P(F=h) = C(h-1,f-1) p^f (1-p)^(h-f)."""
    f, p = 3, 0.2
    mean = math.fsum(math.comb(h - 1, f - 1) * p**f * (1 - p) ** (h - f) / h for h in range(f, 600))
    assert expected_inverse(np.array([f]), np.array([p]))[0] == pytest.approx(mean, rel=1e-12)


def test_individual_and_household_risk():
    keys = KeyCodes(("a",), (2,), (np.array([0, 0, 1]),))
    risk = individual_risk(table(keys), np.array([10.0, 30.0, 5.0]))
    expected = expected_inverse(np.array([2, 2, 1]), np.array([2 / 40, 2 / 40, 1 / 5]))
    np.testing.assert_allclose(risk, expected, rtol=1e-15)
    np.testing.assert_allclose(
        household_risk(risk, np.array([3, 9, 3])),
        [1 - (1 - risk[0]) * (1 - risk[2]), risk[1], 1 - (1 - risk[0]) * (1 - risk[2])],
    )
    assert household_risk(np.array([1.0, 0.2]), np.array([1, 1])).tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match="below 1"):
        individual_risk(table(keys), np.array([10.0, 0.3, 5.0]))


def test_the_textbook_example(shared_data):
    """Eight records of Capobianchi, Polettini and Lucarelli: two cells of the keys are shared."""
    frame = pd.read_csv(shared_data / "small_table_francdat.csv")
    report = assess(frame, ["Key1", "Key2", "Key3", "Key4"], weight="w")
    sizes = frame.groupby(["Key1", "Key2", "Key3", "Key4"])["w"].transform("size")
    assert report.records_at.frequency.tolist() == sizes.tolist()
    # f = 1, weight w: ln(w)/(w-1); the published table gives 0.017 for weight 18 with f = 2 (F^ = 110).
    assert report.records_at.weights is not None
    assert report.records_at.weights[0] == pytest.approx(0.01714426, abs=5e-9)


def test_household_survey(shared_data):
    frame = pd.read_csv(shared_data / "household_survey_testdata.csv")
    keys = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
    report = assess(frame, keys, weight="sampling_weight", household="ori_hid")
    member, of_household = report.records_at.weights, report.records_at.household
    assert member is not None
    assert of_household is not None
    product = (1 - pd.Series(member)).groupby(frame["ori_hid"]).transform("prod")
    assert (of_household >= 1 - product - 1e-12).all()  # the larger of two estimates
    assert np.isclose(of_household, 1 - product, rtol=1e-9).mean() > 0.5
    assert report.expected_reidentifications == pytest.approx(member.sum())
    assert f"by the weights: {member.sum():.3g} correct matches" in str(report).replace(",", "")
    with pytest.raises(UsageError, match="share of the population"):
        assess(frame, keys, household="ori_hid")
    both = report.households
    assert both is not None
    assert both.households == frame["ori_hid"].nunique()
    first = frame["ori_hid"].drop_duplicates().index
    assert (1 - product)[first].mean() <= both.some.mean <= of_household[first].mean()  # of one estimate, the larger
