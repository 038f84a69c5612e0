"""Means, totals, ratios and quantiles by group: dense oracles, enumeration, unperturbed limits, coverage."""

import functools
import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, EstimationError, PostrandError, UsageError
from postrand.estimate.inversion import degrees_of_freedom, fieller, limits
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn
from tests.stats import ALPHA

SEX = Variable("sex", role="key", categories=("F", "M"))
AGE = Variable("age", role="key", categories=("young", "middle", "old"))
REGION = Variable("region", role="other", categories=("N", "E", "S", "W"))
HAPPY = Variable("happy", role="sensitive", categories=(0, 1, 3), type="int64")
ILL = Variable("ill", role="sensitive", categories=(0, 1), type="int64", missing="keep")
KIDS = Variable("kids", role="sensitive", categories=(0, 1, 2), type="int64", missing="category")
BOOK = Codebook((SEX, AGE, REGION, HAPPY, ILL, KIDS, *(Variable(n, role="other", type="double") for n in "yzw")))
M2 = TransitionMatrix.from_array([[0.8, 0.2], [0.3, 0.7]])
M3 = TransitionMatrix.from_array([[0.7, 0.1, 0.2], [0.15, 0.8, 0.05], [0.1, 0.2, 0.7]])
M4 = randomised_response(4, epsilon=2.0)


def random_matrix(rng, size):
    rows = rng.dirichlet(np.ones(size), size) * 0.5 + np.eye(size) * 0.5
    return TransitionMatrix.from_array(rows / rows.sum(axis=1, keepdims=True))


def frame_of(rng, n=400):
    data = {v.name: rng.choice(v.categories, n) for v in (SEX, AGE, REGION, HAPPY, ILL)}
    numbers = {"y": rng.lognormal(size=n), "z": rng.normal(3, 1, n), "w": rng.uniform(0.5, 3, n)}
    return pa.table(data | numbers | {"stratum": rng.choice(["a", "b", "c"], n), "kids": rng.choice([0, 1, 2], n)})


def codes(frame, variable):
    return np.array([variable.categories.index(x) for x in frame[variable.name].to_pylist()])


def oracle(a, d, weights, strata):
    """Ratio of sums, its covariance and the moments of the influences, from contributions (n, L) record by record."""
    a, d = a * weights[:, None], d * weights[:, None]
    value = a.sum(axis=0) / d.sum(axis=0)
    u = (a - value * d) / d.sum(axis=0)
    covariance = np.zeros((len(value), len(value)))
    moments = np.zeros((2, len(value)))
    for h in np.unique(strata):
        inside = u[strata == h] - u[strata == h].mean(axis=0)
        covariance += len(inside) / (len(inside) - 1) * inside.T @ inside
        moments += np.array([(inside**3).sum(axis=0), (inside**4).sum(axis=0)])
    spread = np.diag(covariance)
    degrees = np.maximum(2 * spread**2 / (moments[1] - spread**2 / len(u)), 1)
    return value, covariance, moments[0] / spread**1.5, degrees


def agrees(found, wanted):
    value, covariance, skew, degrees = wanted
    np.testing.assert_allclose(found.value.ravel(), value, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(found.standard_error.ravel() ** 2, np.diag(covariance), rtol=1e-7)
    np.testing.assert_allclose(found.law.equation.skew, np.clip(skew, -1, 1), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.law.equation.degrees, degrees, rtol=1e-5)
    np.testing.assert_allclose(found.sampling + found.perturbation, found.covariance, atol=1e-12)
    for part in ("sampling", "perturbation"):
        errors = np.sqrt(np.maximum(np.diag(getattr(found, part)), 0))
        np.testing.assert_allclose(found.standard_error_of(part).ravel(), errors, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stratified", [False, True])
def test_equals_the_dense_sums_record_by_record(weighted, stratified):
    rng = np.random.default_rng(1)
    frame, joint = frame_of(rng), random_matrix(rng, 6)
    mechanism = Mechanism({("age", "sex"): joint, "happy": M3}, BOOK)
    n = len(frame)
    w = frame["w"].to_numpy() if weighted else np.ones(n)
    strata = frame["stratum"].to_numpy(zero_copy_only=False) if stratified else np.zeros(n)
    extra = {"weights": "w" if weighted else None, "strata": "stratum" if stratified else None}
    inverse = np.linalg.inv(joint.array)  # b[r, k]
    cell = codes(frame, AGE) * 2 + codes(frame, SEX)
    by_sex = np.stack([inverse[cell][:, s::2].sum(axis=1) for s in range(2)], axis=1)
    region = np.eye(4)[codes(frame, REGION)]
    groups = (region[:, :, None] * by_sex[:, None, :]).reshape(n, 8)
    y, z = frame["y"].to_numpy()[:, None], frame["z"].to_numpy()[:, None]
    score = (np.linalg.inv(M3.array)[codes(frame, HAPPY)] @ np.array([0, 1, 3]))[:, None]
    by = ["region", "sex"]
    agrees(estimate.mean(frame, "y", mechanism, by, **extra), oracle(groups * y, groups, w, strata))
    agrees(estimate.ratio_of_totals(frame, "y", "z", mechanism, by, **extra), oracle(groups * y, groups * z, w, strata))
    agrees(estimate.mean(frame, "happy", mechanism, "sex", **extra), oracle(by_sex * score, by_sex, w, strata))
    both = estimate.ratio_of_totals(frame, "happy", "z", mechanism, "sex", **extra)
    agrees(both, oracle(by_sex * score, by_sex * z, w, strata))
    turned = estimate.mean(frame, "y", mechanism, ["sex", "region"], **extra)
    np.testing.assert_allclose(turned.value, estimate.mean(frame, "y", mechanism, by, **extra).value.T)
    total = estimate.total(frame, "y", mechanism, "sex", **extra)
    np.testing.assert_allclose(total.value, (by_sex * y * w[:, None]).sum(axis=0))
    summed: np.ndarray = by_sex * y * w[:, None]
    spread = sum(np.var(summed[strata == h], axis=0, ddof=1) * (strata == h).sum() for h in np.unique(strata))
    np.testing.assert_allclose(total.standard_error**2, spread, rtol=1e-8)


def test_a_response_in_the_block_of_its_group():
    rng = np.random.default_rng(2)
    frame, joint = frame_of(rng), random_matrix(rng, 6)
    mechanism = Mechanism({("sex", "happy"): joint}, BOOK)
    table = estimate.table(frame, ["sex", "happy"], mechanism)
    found = estimate.mean(frame, "happy", mechanism, by="sex")
    np.testing.assert_allclose(found.value, table.value @ [0, 1, 3] / table.value.sum(axis=1))
    slope = np.zeros((2, 2, 3))
    for g in range(2):
        slope[g, g] = (np.array([0, 1, 3]) - found.value[g]) / table.value[g].sum()
    flat = slope.reshape(2, 6)
    np.testing.assert_allclose(found.covariance, flat @ table.covariance @ flat.T, rtol=1e-9)
    np.testing.assert_allclose(found.perturbation, flat @ table.perturbation @ flat.T, rtol=1e-7, atol=1e-12)


def test_totals_and_their_perturbation_are_exactly_unbiased_over_every_release():
    true, y = np.array([0, 0, 1, 2]), np.array([1.0, 5.0, 2.0, 9.0])
    mechanism = Mechanism({"age": M3}, BOOK)
    mean: np.ndarray = np.zeros(3)
    square, covariance = np.zeros((3, 3)), np.zeros((3, 3))
    for released in itertools.product(range(3), repeat=4):
        chance = np.prod(M3.array[true, released])
        found = estimate.total(pa.table({"age": [AGE.categories[r] for r in released], "y": y}), "y", mechanism, "age")
        mean += chance * found.value
        square += chance * np.outer(found.value, found.value)
        covariance += chance * found.perturbation
    np.testing.assert_allclose(mean, [6, 2, 9], atol=1e-10)
    np.testing.assert_allclose(covariance, square - np.outer(mean, mean), atol=1e-9)


def test_unperturbed_groups_have_the_usual_means_errors_and_quantiles():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    rng = np.random.default_rng(3)
    frame = frame_of(rng, 500)
    mechanism = Mechanism({"happy": M3}, BOOK)
    y, w, region = frame["y"].to_numpy(), frame["w"].to_numpy(), codes(frame, REGION)
    found = estimate.mean(frame, "y", mechanism, "region", weights="w")
    plain = estimate.mean(frame, "y", mechanism)
    assert plain.value.shape == ()
    assert float(plain.value) == pytest.approx(y.mean())
    assert float(plain.standard_error) == pytest.approx(weightstats.DescrStatsW(y).std_mean)
    low, high = plain.interval()
    assert low < y.mean() < high
    for g in range(4):
        inside = region == g
        assert found.value[g] == pytest.approx(np.average(y[inside], weights=w[inside]))
        residual = np.where(inside, w * (y - found.value[g]), 0) / w[inside].sum()  # linearised, as svymean does
        assert found.standard_error[g] == pytest.approx(np.sqrt(500 / 499 * (residual**2).sum()))
        chances = [0.1, 0.25, 0.5, 0.9]
        quantile = estimate.quantile(frame, "y", mechanism, chances, by="region", weights="w")
        wanted = np.quantile(y[inside], chances, weights=w[inside], method="inverted_cdf")
        np.testing.assert_allclose(quantile.value[g], wanted)
    assert quantile.variables == ("region", "quantile")
    assert quantile.labels[1] == ("0.1", "0.25", "0.5", "0.9")
    assert found.perturbed == ()
    np.testing.assert_allclose(found.perturbation, 0, atol=1e-15)


def test_the_mean_of_an_indicator_is_a_proportion():
    rng = np.random.default_rng(4)
    frame = frame_of(rng)
    for mechanism in (Mechanism({"ill": M2}, BOOK), Mechanism({"age": M3}, BOOK)):
        for extra in ({}, {"weights": "w"}, {"strata": "stratum"}):
            share = estimate.proportions(frame, "ill", mechanism, **extra)
            found = estimate.mean(frame, "ill", mechanism, **extra)
            assert float(found.value) == pytest.approx(share.value[1])
            assert float(found.standard_error) == pytest.approx(share.standard_error[1])
            assert float(found.perturbation[0, 0]) == pytest.approx(share.perturbation[1, 1], abs=1e-15)
            total = estimate.total(frame, "ill", mechanism, **extra)
            assert float(total.value) == pytest.approx(share.counts().value[1])
            if not extra:
                assert float(total.standard_error) == pytest.approx(share.counts().standard_error[1])


def test_order_categories_and_equal_strata_do_not_matter():
    rng = np.random.default_rng(5)
    frame = frame_of(rng)
    mechanism = Mechanism({"age": M3, "happy": M3}, BOOK)
    turn = [2, 0, 1]
    age = Variable("age", role="key", categories=tuple(AGE.categories[i] for i in turn))
    turned = Mechanism(
        {"age": TransitionMatrix(M3.weights[np.ix_(turn, turn)]), "happy": M3},
        Codebook(tuple(age if v.name == "age" else v for v in BOOK.variables)),
    )
    mixed = frame.take(rng.permutation(len(frame)))
    one = frame.append_column("one", [["x"] * len(frame)])
    for call in (
        functools.partial(estimate.mean, variable="y"),
        functools.partial(estimate.mean, variable="happy"),
        functools.partial(estimate.total, variable="y"),
        functools.partial(estimate.quantile, variable="y", q=0.3),
        functools.partial(estimate.quantile, variable="happy", q=0.3),
    ):
        found = call(frame, mechanism=mechanism, by="age")
        low, high = found.interval(0.9)
        for other, order in (
            (call(frame, mechanism=turned, by="age"), np.argsort(turn)),
            (call(mixed, mechanism=mechanism, by="age"), [0, 1, 2]),
            (call(one, mechanism=mechanism, by="age", strata="one"), [0, 1, 2]),
        ):
            np.testing.assert_allclose(other.value[order], found.value)
            np.testing.assert_allclose(other.interval(0.9)[0][order], low)
            np.testing.assert_allclose(other.interval(0.9)[1][order], high)


def test_missing_values_are_left_out_or_no_part_of_the_mean():
    rng = np.random.default_rng(6)
    frame = frame_of(rng, 60)
    y = np.where(rng.random(60) < 0.2, np.nan, frame["y"].to_numpy())
    holes = frame.set_column(frame.column_names.index("y"), "y", pa.array(y, from_pandas=True))
    mechanism = Mechanism({"sex": M2, "kids": M4}, BOOK)
    found = estimate.mean(holes, "y", mechanism, "sex")
    assert (found.records, found.dropped) == (int((~np.isnan(y)).sum()), int(np.isnan(y).sum()))
    kept = holes.filter(pa.array(~np.isnan(y)))
    np.testing.assert_allclose(found.value, estimate.mean(kept, "y", mechanism, "sex").value)
    kids = estimate.proportions(frame, "kids", mechanism).value
    assert float(estimate.mean(frame, "kids", mechanism).value) == pytest.approx(kids[:3] @ [0, 1, 2] / kids[:3].sum())
    assert float(estimate.total(frame, "kids", mechanism).value) == pytest.approx(60 * kids[:3] @ [0, 1, 2])
    assert float(estimate.quantile(frame, "kids", mechanism, 0.01).value) in (0, 1, 2)
    coded = replace(KIDS, categories=(0, 1, 2, 99), missing="error", missing_codes=(99,))
    other = Mechanism({"kids": M4}, Codebook((coded,)))  # 99 means no answer: no amount, perturbed or not
    refused = frame.set_column(frame.column_names.index("kids"), "kids", pa.array([0, 1, 2, 99] * 15))
    shares = estimate.proportions(refused, "kids", other).value
    assert float(estimate.mean(refused, "kids", other).value) == pytest.approx(
        shares[:3] @ [0, 1, 2] / shares[:3].sum()
    )
    assert float(estimate.quantile(refused, "kids", other, 0.99).value) <= 2
    assert float(estimate.mean(refused, "kids", Mechanism({"sex": M2}, Codebook((SEX, coded)))).value) == 1


def test_a_law_that_depends_on_a_stratum_is_inverted_stratum_by_stratum():
    laws = [np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.6, 0.4], [0.1, 0.9]])]
    matrix = np.zeros((8, 8))
    for r in range(4):
        matrix[2 * r : 2 * r + 2, 2 * r : 2 * r + 2] = laws[r % 2]
    cells = tuple(itertools.product(range(4), range(2)))
    mechanism = Mechanism(
        [Block(("region", "sex"), TransitionMatrix.from_array(matrix), cells, given=("region",))], BOOK
    )
    frame = frame_of(np.random.default_rng(7))
    b = np.stack([np.linalg.inv(laws[r % 2])[s] for r, s in zip(codes(frame, REGION), codes(frame, SEX), strict=True)])
    y = frame["y"].to_numpy()
    np.testing.assert_allclose(estimate.mean(frame, "y", mechanism, "sex").value, y @ b / b.sum(axis=0))
    both = estimate.mean(frame, "y", mechanism, ["sex", "region"])
    for r in range(4):
        inside = codes(frame, REGION) == r
        np.testing.assert_allclose(both.value[:, r], y[inside] @ b[inside] / b[inside].sum(axis=0))


def test_a_singular_matrix_serves_where_it_tells_enough():
    two = TransitionMatrix.from_array(
        [[0.75, 0, 0.25], [0.5, 0, 0.5], [0, 0, 1.0]]
    )  # the mean of 0, 1, 3 is identified
    scores = Codebook((SEX, Variable("happy", role="key", categories=(0, 1, 3), type="int64")))
    frame = pa.table({"sex": ["F", "M"] * 20, "happy": [0, 3] * 15 + [3, 0] * 5})
    mechanism = Mechanism({"happy": two}, scores)
    b = np.array([0, 0, 3.0]) + np.array([4 / 3 * -0.75, 0, 0])  # M b = (0, 1, 3) has b = (-1, ., 3)
    wanted = np.mean(np.where(np.array(frame["happy"]) == 0, b[0], b[2]))
    np.testing.assert_allclose(two.array @ [-1, 0, 3], [0, 1, 3])
    assert float(estimate.mean(frame, "happy", mechanism).value) == pytest.approx(wanted)
    with pytest.raises(EstimationError, match="split of the covariance is not identified"):
        estimate.mean(frame, "happy", mechanism).sampling  # noqa: B018
    with pytest.raises(EstimationError, match="does not identify"):
        estimate.quantile(frame, "happy", mechanism)
    blind = Mechanism({"sex": TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]])}, BOOK)
    with pytest.raises(EstimationError, match="do not group by this variable"):
        estimate.mean(frame_of(np.random.default_rng(1)), "y", blind, "sex")


def test_what_cannot_be_meant_is_refused():
    frame = frame_of(np.random.default_rng(8), 50)
    mechanism = Mechanism({"sex": M2, "happy": M3}, BOOK)
    with pytest.raises(UsageError, match="both summed and named"):
        estimate.mean(frame, "happy", mechanism, "happy")
    with pytest.raises(UsageError, match="once"):
        estimate.mean(frame, "y", mechanism, ["sex", "sex"])
    with pytest.raises(UsageError, match="weights is perturbed"):
        estimate.mean(frame, "y", mechanism, weights="happy")
    with pytest.raises(UsageError, match="strata is perturbed"):
        estimate.mean(frame, "y", mechanism, strata="sex")
    with pytest.raises(DataError, match="not numbers"):
        estimate.mean(frame, "sex", mechanism)
    with pytest.raises(DataError, match="not numeric"):
        estimate.mean(frame, "stratum", mechanism)
    with pytest.raises(DataError, match="no column"):
        estimate.mean(frame, "income", mechanism)
    with pytest.raises(UsageError, match="the same variable"):
        estimate.ratio_of_totals(frame, "y", "y", mechanism)
    for q in (0, 1, 1.5, [0.5, 0.5], [], "half"):
        with pytest.raises(UsageError, match="probabilities of the quantiles"):
            estimate.quantile(frame, "y", mechanism, q)
    with pytest.raises(UsageError, match="does not have a margin"):
        estimate.mean(frame, "y", mechanism, ["sex", "region"]).margin(["sex"])
    with pytest.raises(UsageError, match="only shares have counts"):
        estimate.mean(frame, "y", mechanism, "sex").counts()
    with pytest.raises(EstimationError, match="do not have a covariance"):
        estimate.quantile(frame, "y", mechanism).covariance  # noqa: B018
    ranked = Mechanism({"sex": M2}, None, [RankedColumn("y", RankBlocks(5), "permute", 50)])
    typed = frame.set_column(0, "sex", frame["sex"].dictionary_encode())
    assert float(estimate.mean(typed, "y", ranked).value) == pytest.approx(frame["y"].to_numpy().mean())
    for arguments in ({"by": "sex"}, {"weights": "w"}):
        with pytest.raises(EstimationError, match="rank law"):
            estimate.mean(typed, "y", ranked, **arguments)


def test_a_group_that_the_perturbation_hides_is_flagged_and_prints():
    rng = np.random.default_rng(9)
    hidden = Mechanism({"region": randomised_response(4, epsilon=0.02)}, BOOK)
    frame = frame_of(rng, 80)
    found = estimate.mean(frame, "y", hidden, "region")
    assert np.isinf(found.interval()[0]).all()
    assert np.isinf(found.standard_error).all()
    assert len(found.warnings) == 1
    assert "Too few records of region = N, E, S, W survive the perturbation" in str(found)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["lower"] == [None] * 4
    assert plain["warnings"] == list(found.warnings)
    assert found.to_arrow().num_rows == 4
    quantile = estimate.quantile(frame, "y", hidden, [0.1, 0.5], by="region")
    assert "Too few records of region" in str(quantile)
    extreme = estimate.quantile(frame, "y", hidden, 0.001)
    text = "The quantile 0.001 is too extreme for so few records: its interval is open on one side."
    assert extreme.warnings == (text,)
    (low,), (high,) = (np.atleast_1d(end) for end in extreme.interval())
    (lower,), (upper,) = (np.atleast_1d(np.array(extreme.to_dict()[end], dtype=object)) for end in ("lower", "upper"))
    assert np.isinf([low, high]).sum() == 1  # in JSON, null is the end that is infinite, and no other
    assert [lower, upper] == [float(end) if np.isfinite(end) else None for end in (low, high)]
    few = frame.set_column(frame.column_names.index("y"), "y", pa.array([1.0] + [0.0] * 79))
    assert "A few values decide the estimate" in str(estimate.mean(few, "y", hidden))
    constant = few.set_column(few.column_names.index("y"), "y", pa.array(np.full(few.num_rows, 3.0)))
    assert "A few values decide" not in str(estimate.mean(constant, "y", hidden))  # none decides a constant
    assert str(estimate.mean(frame, "y", hidden)).startswith("estimate")


@given(st.integers(0, 2**32 - 1))
def test_hostile_data_end_in_the_errors_of_the_package(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 30]))
    frame = frame_of(rng, n)
    y = rng.choice([0.0, 1e300, -1e300, 1e-300, np.nan, 5.0], n)
    w = rng.choice([0.0, 1e-200, 1.0, 1e150], n)
    frame = frame.set_column(frame.column_names.index("y"), "y", pa.array(y, from_pandas=True))
    frame = frame.set_column(frame.column_names.index("w"), "w", pa.array(w))
    matrices = [M2, TransitionMatrix.from_array([[0.5, 0.5], [0.5, 0.5]]), TransitionMatrix.identity(2)]
    mechanism = Mechanism({"sex": matrices[rng.integers(3)], "happy": M3}, BOOK)
    by = [None, "sex", ["sex", "age"]][rng.integers(3)]
    extra = {"weights": "w" if rng.random() < 0.5 else None, "strata": "stratum" if rng.random() < 0.3 else None}
    name = ["y", "happy"][rng.integers(2)]
    for call in (estimate.mean, estimate.total, estimate.quantile):
        try:
            found = call(frame, name, mechanism, by=by, **extra)
        except PostrandError:
            continue
        low, high = found.interval()
        assert not np.isnan(low).any()
        assert (low <= high).all()
        assert str(found)


def test_the_end_of_a_fieller_interval_solves_its_equation():
    rng = np.random.default_rng(10)
    a, d = rng.normal(2, 1, (60, 5)), rng.normal(1, 2, (60, 5))
    score = np.stack([a.sum(axis=0), -d.sum(axis=0)])
    variance = np.stack([(a**2).sum(axis=0), -2 * (a * d).sum(axis=0), (d**2).sum(axis=0)])
    for t in (-2.5, 1.3):
        end = fieller(score, variance, np.full(5, t), 60)
        known = np.isfinite(end)
        assert known.any()
        z = (a - end * d)[:, known]
        u = z.sum(axis=0)
        np.testing.assert_allclose(u / np.sqrt((z**2).sum(axis=0) + u * u / 60), t, rtol=1e-9)
    huge = fieller(score * [[1], [1e-3]], variance, np.full(5, 2.0), 60)
    assert (huge == -np.inf).all()
    low, high, _ = limits(0.9, np.array([0.4]), np.array([np.inf]))
    for found, q in ((low, -1.6449), (high, 1.6449)):
        moved = found + 0.4 * (2 * found**2 + 1) / 6 + 0.16 * found**3 / 27
        assert float(moved[0]) == pytest.approx(q, abs=1e-4)
    assert float(degrees_of_freedom(np.array(100.0), np.array(300.0), 100)) == pytest.approx(100)


def test_reproduces_the_known_wrong_answer_rightly():
    """A lognormal income by a perturbed group, where a normal likelihood said 177,777 ± 1,975 for 42,920."""
    rng = np.random.default_rng(0)
    n, names = 20_000, ("g0", "g1", "g2", "g3")
    book = Codebook((Variable("g", role="key", categories=names), Variable("income", role="other", type="double")))
    mechanism = Mechanism({"g": M4}, codebook=book)
    g = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    income = np.exp(10 + 0.1 * g + 0.8 * rng.normal(size=n))
    released = [np.flatnonzero(u < c)[0] for u, c in zip(rng.random(n), np.cumsum(M4.array, axis=1)[g], strict=True)]
    found = estimate.mean(pa.table({"g": np.array(names)[released], "income": income}), "income", mechanism, by="g")
    true = np.exp(10 + 0.1 * np.arange(4) + 0.32)
    low, high = found.interval()
    assert ((low < true) & (true < high)).all()
    assert (np.abs(found.value / true - 1) < 0.1).all()


RUNS = 120


@pytest.mark.parametrize("law", ["lognormal", "pareto", "heteroscedastic"])
def test_intervals_of_skewed_values_cover_and_the_naive_ones_do_not(law):
    """Coverage of 480 intervals is not below 93 % at alpha; those of uncorrected means are.

    A coverage of 82 % is found out with a power above 0.9 (the four groups of a run hang together
    weakly).
    """
    rng = np.random.default_rng(11)
    names, n = ("g0", "g1", "g2", "g3"), 600
    book = Codebook((Variable("g", role="key", categories=names), Variable("y", role="other", type="double")))
    mechanism = Mechanism({"g": M4}, codebook=book)
    clear = Mechanism({"g": TransitionMatrix.identity(4)}, codebook=book)
    level = 1.0 + np.arange(4)
    hit, naive = 0, 0
    for _ in range(RUNS):
        g = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
        if law == "lognormal":
            y, true = level[g] * np.exp(0.8 * rng.normal(size=n)), level * np.exp(0.32)
        elif law == "pareto":
            y, true = level[g] * (1 + rng.pareto(3.5, n)), level * 3.5 / 2.5
        else:
            y, true = level[g] + rng.normal(size=n) * (1 + 2 * g), level
        u, law_of = rng.random(n), np.cumsum(M4.array, axis=1)
        released = (u[:, None] > law_of[g]).sum(axis=1).clip(max=3)
        frame = pa.table({"g": np.array(names)[released], "y": y})
        for m in (mechanism, clear):
            low, high = estimate.mean(frame, "y", m, by="g").interval()
            inside = int(((low <= true) & (true <= high)).sum())
            hit, naive = (hit + inside, naive) if m is mechanism else (hit, naive + inside)
    trials = 4 * RUNS
    assert binom.cdf(hit, trials, 0.93) > ALPHA
    assert binom.cdf(naive, trials, 0.93) < ALPHA


def test_quantiles_by_perturbed_group_cover_and_have_no_bias():
    rng = np.random.default_rng(12)
    names, n, chances = ("g0", "g1", "g2", "g3"), 1_000, (0.25, 0.5, 0.75)
    book = Codebook((Variable("g", role="key", categories=names), Variable("y", role="other", type="double")))
    mechanism = Mechanism({"g": M4}, codebook=book)
    true = np.exp(np.arange(4) / 2)[:, None] * np.exp(np.array([-0.6745, 0, 0.6745]))
    hit, above = 0, 0
    for _ in range(60):
        g = rng.choice(4, size=n, p=[0.3, 0.3, 0.2, 0.2])
        y = np.exp(g / 2 + rng.normal(size=n))
        released = (rng.random(n)[:, None] > np.cumsum(M4.array, axis=1)[g]).sum(axis=1).clip(max=3)
        found = estimate.quantile(pa.table({"g": np.array(names)[released], "y": y}), "y", mechanism, chances, by="g")
        low, high = found.interval()
        hit += int(((low <= true) & (true <= high)).sum())
        above += int((found.value > true).sum())
    assert binom.cdf(hit, 720, 0.93) > ALPHA
    assert abs(above / 720 - 0.5) < 5 * 0.5 / np.sqrt(60)  # medians: 60 independent runs at the least


def test_quantiles_of_a_perturbed_variable_are_categories():
    rng = np.random.default_rng(13)
    mechanism = Mechanism({"happy": M3, "sex": M2}, BOOK)
    sex = rng.integers(0, 2, 6_000)
    happy = np.where(rng.random(6_000) < 0.3 + 0.4 * sex, 0, rng.integers(1, 3, 6_000))
    moved = [
        (rng.random(6_000)[:, None] > np.cumsum(m.array, axis=1)[x]).sum(axis=1) for m, x in ((M2, sex), (M3, happy))
    ]
    frame = pa.table({"sex": np.array(SEX.categories)[moved[0]], "happy": np.array(HAPPY.categories)[moved[1]]})
    found = estimate.quantile(frame, "happy", mechanism, [0.2, 0.5, 0.6], by="sex")
    np.testing.assert_array_equal(found.value, [[0, 1, 1], [0, 0, 0]])
    low, high = found.interval()
    assert set(np.unique(low)) | set(np.unique(high)) <= {0.0, 1.0, 3.0}
    assert (low <= found.value).all()
    assert (found.value <= high).all()
