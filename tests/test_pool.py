"""Pooling of analyses: what they may return, in which frames, and what the result says."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from postrand import estimate
from postrand.errors import EstimationError, UsageError
from postrand.estimate import combine, pool
from postrand.estimate.pooling_rules import covariance_between


def copies(m=6, n=120, seed=1):
    """Frames that differ as completed copies do: x and g are the same in all, y and kind are drawn."""
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=n), rng.integers(0, 8, n)
    for _ in range(m):
        kind = pd.Categorical(rng.choice(["a", "b", "c"], n))
        y = 1 + 0.5 * x + kind.codes + group / 4 + rng.normal(size=n)
        yield pd.DataFrame({"x": x, "g": group, "y": y, "kind": kind, "yes": (y > 3).astype(int)})


FRAMES = list(copies())


def by_hand(fits):
    """Rubin's rules as loops over coefficients."""
    m = len(fits)
    for j in range(len(fits[0].params)):
        values = [np.asarray(f.params)[j] for f in fits]
        mean = sum(values) / m
        within = sum(np.asarray(f.cov_params())[j, j] for f in fits) / m
        between = sum((v - mean) ** 2 for v in values) / (m - 1)
        r = (1 + 1 / m) * between / within
        freedom, complete = (m - 1) * (1 + 1 / r) ** 2, fits[0].df_resid
        observed = (complete + 1) / (complete + 3) * complete / (1 + r)
        yield mean, np.sqrt(within + (1 + 1 / m) * between), 1 / (1 / freedom + 1 / observed)


@pytest.mark.parametrize(
    ("analysis", "names"),
    [
        (lambda f: smf.ols("y ~ x + kind", f).fit(), ("Intercept", "kind[T.b]", "kind[T.c]", "x")),
        (lambda f: smf.glm("yes ~ x", f, family=sm.families.Binomial()).fit(), ("Intercept", "x")),
        (lambda f: smf.quantreg("y ~ x", f).fit(), ("Intercept", "x")),
        (lambda f: sm.OLS(f.y.to_numpy(), sm.add_constant(f.x.to_numpy())).fit(), ("const", "x1")),
    ],
)
def test_fits_of_statsmodels_are_pooled_by_their_names(analysis, names):
    found = pool(analysis, FRAMES)
    assert found.names == names
    got = np.column_stack([found.value, found.standard_error, found.degrees_of_freedom])
    np.testing.assert_allclose(got, list(by_hand([analysis(f) for f in FRAMES])), rtol=1e-12)


def test_clustered_errors_have_the_freedom_of_their_clusters():
    def analysis(frame):
        return smf.ols("y ~ x", frame).fit(cov_type="cluster", cov_kwds={"groups": frame.g}, use_t=True)

    found = pool(analysis, FRAMES)
    assert found.rules.complete.tolist() == [7, 7]
    wanted = combine(
        [f.params for f in map(analysis, FRAMES)], [np.diag(f.cov_params()) for f in map(analysis, FRAMES)], 7
    )
    np.testing.assert_allclose(found.standard_error, wanted.standard_error)


def test_several_equations_are_named_as_in_their_covariance():
    def analysis(frame):
        return sm.MNLogit(frame.kind.cat.codes, sm.add_constant(frame[["x"]])).fit(disp=0)

    found, fits = pool(analysis, FRAMES), [analysis(f) for f in FRAMES]
    assert len(found.names) == 4
    np.testing.assert_allclose(found.value[2:], np.mean([f.params.iloc[:, 1] for f in fits], axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.within, np.mean([f.cov_params() for f in fits], axis=0), rtol=1e-12)


def test_models_with_other_parameters_than_coefficients():
    mixed = pool(lambda f: smf.mixedlm("y ~ x", f, groups=f.g).fit(), FRAMES[:2])
    assert mixed.names == ("Intercept", "x", "Group Var")
    cox = pool(lambda f: sm.PHReg(f.x - f.x.min() + 1, f[["y"]]).fit(), FRAMES)
    assert cox.names == ("y",)
    assert np.isfinite(cox.standard_error).all()


def means(frame):
    groups = frame.groupby("kind", observed=False).y
    return groups.mean(), groups.var() / groups.size()


FORMS = {
    "series": means,
    "mappings": lambda f: tuple(s.to_dict() for s in means(f)),
    "variances in another order": lambda f: (means(f)[0], means(f)[1].iloc[::-1]),
    "pairs by name": lambda f: {k: (v, w) for (k, v), w in zip(means(f)[0].items(), means(f)[1], strict=True)},
    "covariance": lambda f: (means(f)[0], np.diag(means(f)[1])),
    "labelled covariance": lambda f: (
        means(f)[0],
        pd.DataFrame(np.diag(means(f)[1]), list("abc"), list("abc")).loc[list("cab"), list("cab")],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_answer_gives_the_same(form):
    values, variances = (np.array(part) for part in zip(*map(means, FRAMES), strict=True))
    rules = combine(values, variances)
    found = pool(FORMS[form], FRAMES)
    assert found.names == ("a", "b", "c")
    np.testing.assert_allclose(found.value, rules.value, rtol=1e-14)
    np.testing.assert_allclose(found.standard_error, rules.standard_error, rtol=1e-14)
    if "covariance" in form:
        np.testing.assert_allclose(found.between, covariance_between(values), rtol=1e-12)
        assert found.joint_test(null=3.0).numbers == 3
    else:
        with pytest.raises(UsageError, match="no covariances"):
            found.joint_test()


def test_a_number_a_vector_and_degrees_of_freedom():
    one = pool(lambda f: (f.y.mean(), f.y.var() / len(f), len(f) - 1), FRAMES)
    assert one.names == ("estimate",)
    assert one.degrees_of_freedom[0] < 119
    several = pool(lambda f: ([f.y.mean(), f.x.mean()], [f.y.var() / len(f), f.x.var() / len(f)]), FRAMES)
    assert several.names == ("[0]", "[1]")
    assert several.value[0] == one.value[0]
    assert several.degrees_of_freedom[0] > one.degrees_of_freedom[0]
    told = pool(lambda f: (f.y.mean(), f.y.var() / len(f)), FRAMES, complete_freedom=119)
    assert told.degrees_of_freedom[0] == pytest.approx(one.degrees_of_freedom[0])


@pytest.mark.parametrize("to", [pl.from_pandas, pa.Table.from_pandas, lambda f: f])
def test_frames_of_every_kind_can_be_drawn_again(to):
    frames = [to(f[["y", "g"]]) for f in FRAMES]

    def mean(frame):
        return float(np.mean(np.asarray(frame["y"])))

    found = pool(mean, frames, variance="bootstrap", replicates=120)
    rules = combine([f.y.mean() for f in FRAMES], [f.y.var(ddof=0) / len(f) for f in FRAMES])
    assert found.value[0] == pytest.approx(float(rules.value))
    assert found.rules.within[0] == pytest.approx(float(rules.within), rel=0.2)
    assert "bootstrap, 120 drawings" in found.includes


def test_frames_come_in_the_kind_that_is_asked_for():
    frames = [pa.Table.from_pandas(f, preserve_index=False) for f in FRAMES]
    direct = pool(lambda f: smf.ols("y ~ kind", f).fit(), FRAMES)
    found = pool(lambda f: smf.ols("y ~ kind", f).fit(), frames, kind="pandas")
    assert found.value.tolist() == direct.value.tolist()
    seen = pool(lambda f: (float(f["y"].mean()), float(isinstance(f, pl.DataFrame))), iter(FRAMES), kind="polars")
    assert seen.rules.within.tolist() == [1.0]
    full, reduced = (lambda f: smf.ols("y ~ x", f).fit()), (lambda f: smf.ols("y ~ 1", f).fit())
    given, wanted = (estimate.likelihood_ratio_test(full, reduced, one, kind="pandas") for one in (frames, FRAMES))
    assert given == wanted
    with pytest.raises(UsageError, match="only once"):
        estimate.likelihood_ratio_test(full, reduced, iter(frames), kind="pandas")
    with pytest.raises(UsageError, match="unknown kind"):
        pool(lambda f: 1.0, frames, kind="spark")


def test_the_jackknife_of_single_records_is_the_variance_of_a_mean():
    found = pool(lambda f: {"mean": f.y.mean()}, FRAMES, variance="jackknife", replicates=120)
    wanted = combine([f.y.mean() for f in FRAMES], [f.y.var() / len(f) for f in FRAMES])
    assert found.rules.within[0] == pytest.approx(float(wanted.within), rel=1e-12)


def test_units_that_were_sampled_whole_are_drawn_whole():
    """Records that are copies of one another: the variance is that of the units, not of eight times as many."""
    single = FRAMES[0][["y"]].assign(unit=np.arange(120))
    frames = [pd.concat([single.assign(y=single.y + shift)] * 8) for shift in (0.0, 0.01)]
    found = pool(lambda f: f.y.mean(), frames, variance="jackknife", replicates=120, unit="unit")
    assert found.rules.within[0] == pytest.approx(single.y.var() / 120, rel=1e-12)
    apart = pool(lambda f: f.y.mean(), frames, variance="jackknife", replicates=120)
    assert apart.rules.within[0] < found.rules.within[0] / 4
    with pytest.raises(UsageError, match="variance='bootstrap'"):
        pool(lambda f: f.y.mean(), frames, unit="unit")


def test_a_seed_makes_a_bootstrap_the_same_again():
    first, again, other = (
        pool(lambda f: f.y.median(), FRAMES, variance="bootstrap", replicates=20, seed=s).standard_error[0]
        for s in (1, 1, 2)
    )
    assert first == again != other


def test_estimates_without_a_variance_have_no_interval_and_say_so():
    found = pool(lambda f: {"median": f.y.median()}, FRAMES)
    assert found.value[0] == np.mean([f.y.median() for f in FRAMES])
    assert np.isnan(found.interval()).all()
    assert np.isnan(found.missing_information).all()
    assert "not the sampling of the records" in found.warnings[0]
    held = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert held["lower"] == [None]
    assert held["warnings"] == list(found.warnings)


def test_frames_are_visited_once_and_one_at_a_time():
    alive, visited = [], []

    class Held:
        def __init__(self, number):
            self.number = number
            alive.append(number)

        def __del__(self):
            alive.remove(self.number)

    def stream():
        for number in range(5):
            visited.append(number)
            yield Held(number)

    most = []

    def analysis(held):
        most.append(len(alive))
        return float(held.number), 1.0

    assert pool(analysis, stream()).value[0] == 2.0
    assert visited == [0, 1, 2, 3, 4]
    assert max(most) <= 2


@pytest.mark.parametrize(
    ("scale", "forward", "slope", "back"),
    [
        ("log", np.log, lambda x: 1 / x, np.exp),
        ("logit", lambda x: np.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), lambda x: 1 / (1 + np.exp(-x))),
        ("fisher-z", lambda x: np.log((1 + x) / (1 - x)) / 2, lambda x: 1 / (1 - x**2), np.tanh),
    ],
)
def test_scales_are_the_delta_method(scale, forward, slope, back):
    values, variances = np.array([0.2, 0.3, 0.25, 0.35]), np.array([0.002, 0.003, 0.0025, 0.003])
    found = pool(lambda pair: {"share": pair}, list(map(tuple, np.c_[values, variances])), scale=scale)
    rules = combine(forward(values), variances * slope(values) ** 2)
    assert found.value[0] == pytest.approx(float(back(rules.value)))
    ends = [float(back(end)) for end in rules.bounds(0.9)]
    assert np.ravel(found.interval(0.9)).tolist() == pytest.approx(ends)
    steps = np.array([rules.value - 1e-6, rules.value + 1e-6])
    rate = float(np.diff(back(steps))[0] / 2e-6)
    assert found.standard_error[0] == pytest.approx(rate * float(rules.standard_error), rel=1e-6)
    assert scale in found.includes
    only = pool(lambda x: {"a": (x, 0.1), "b": (x, 0.1)}, [0.2, 0.4], scale={"b": scale})
    assert only.value[0] == pytest.approx(0.3)
    assert only.value[1] == pytest.approx(float(back(forward(np.array([0.2, 0.4])).mean())))
    with pytest.raises(EstimationError, match="identity"):
        pool(lambda x: (x, 0.1), [-1.0, 2.0], scale=scale)


def test_a_joint_test_is_that_of_the_chosen_numbers():
    found = pool(lambda f: smf.ols("y ~ x + kind", f).fit(), FRAMES)
    test = found.joint_test(["kind[T.b]", "kind[T.c]"])
    assert found.within is not None
    assert found.between is not None
    within, between = found.within[1:3, 1:3], found.between[1:3, 1:3]
    m, k, gap = 6, 2, found.value[1:3]
    r = (1 + 1 / m) * np.trace(between @ np.linalg.inv(within)) / k
    assert test.statistic == pytest.approx(gap @ np.linalg.inv((1 + r) * within) @ gap / k)
    assert (test.numbers, test.increase) == (2, pytest.approx(r))
    assert 0 < test.p_value < 0.01
    assert "F " in str(test)
    assert test.to_arrow().column("p_value").to_pylist() == [test.p_value]
    assert json.dumps(test.to_dict(), allow_nan=False)
    large = pool(lambda f: smf.ols("y ~ x + kind", f).fit(), FRAMES, complete_freedom=np.inf)
    assert large.joint_test().freedom > found.joint_test().freedom
    with pytest.raises(UsageError, match=r"did you mean 'Intercept'"):
        found.joint_test(["intercept"])


def test_a_combination_is_the_analysis_of_the_sum():
    def analysis(frame):
        fit = smf.ols("y ~ kind", frame).fit()
        weights = np.array([0, -1, 1])
        return {"gap": (weights @ fit.params, weights @ fit.cov_params() @ weights)}

    direct = pool(analysis, FRAMES, complete_freedom=117)
    found = pool(lambda f: smf.ols("y ~ kind", f).fit(), FRAMES).combination(gap={"kind[T.c]": 1, "kind[T.b]": -1})
    for name in ("value", "standard_error", "degrees_of_freedom", "missing_information"):
        np.testing.assert_allclose(getattr(found, name), getattr(direct, name), rtol=1e-10)
    with pytest.raises(UsageError, match="another scale"):
        pool(lambda x: (x, 0.1), [0.5, 0.6], scale="log").combination(twice={"estimate": 2})


def test_few_copies_are_said_to_be_few():
    few, many = (pool(lambda f: (f.y.mean(), f.y.var() / len(f)), copies(m)) for m in (3, 120))
    assert f"With {few.copies_needed()} copies it varies by 5%" in few.warnings[0]
    assert many.warnings == ()
    assert many.copies_needed() < 200


def test_a_fit_that_did_not_converge_is_said_to_be_one():
    class Fit:
        params, mle_retvals = pd.Series({"x": 1.0}), {"converged": False}

        def cov_params(self):
            return np.array([[0.1]])

    assert pool(lambda _: Fit(), [0, 0, 0]).warnings[0] == "The fit did not converge in 3 of 3 copies."


def test_the_result_is_shown_whole_and_as_tables():
    found = pool(lambda f: smf.ols("y ~ x", f).fit(), FRAMES)
    assert "Intercept" in str(found)
    assert "6 copies" in repr(found)
    table = found.to_arrow()
    assert table.column("term").to_pylist() == ["Intercept", "x"]
    low, high = found.interval()
    assert table.column("lower").to_pylist() == low.tolist()
    assert (found.value < high).all()
    assert found.to_pandas().shape == (2, 9)
    assert np.allclose(np.sqrt(np.diag(found.covariance)), found.standard_error)
    assert (found.missing_information_error < 0.5).all()


def test_what_cannot_be_pooled_is_refused():
    with pytest.raises(UsageError, match="at least two copies"):
        pool(lambda f: (1.0, 1.0), FRAMES[:1])
    with pytest.raises(UsageError, match="not completed copies"):
        pool(lambda f: (1.0, 1.0), FRAMES[0])
    with pytest.raises(UsageError, match="nothing that can be pooled"):
        pool(lambda f: "text", FRAMES)
    with pytest.raises(UsageError, match="does not fit"):
        pool(lambda f: ([1.0, 2.0], [1.0, 2.0, 3.0]), FRAMES)
    with pytest.raises(UsageError, match="different names"):
        pool(lambda f: ({"a": 1.0}, {"b": 1.0}), FRAMES)
    with pytest.raises(UsageError, match="same name"):
        pool(lambda f: pd.Series([1.0, 2.0], index=["a", "a"]), FRAMES)
    with pytest.raises(UsageError, match="did you mean 'logit'"):
        pool(lambda f: (0.5, 1.0), FRAMES, scale="logti")
    with pytest.raises(UsageError, match="no estimate 'a'"):
        pool(lambda f: (0.5, 1.0), FRAMES, scale={"a": "log"})
    with pytest.raises(UsageError, match="'bootstrap' or 'jackknife'"):
        pool(lambda f: 0.5, FRAMES, variance="sandwich")
    with pytest.raises(UsageError, match="too few replicates"):
        pool(lambda f: 0.5, FRAMES, variance="bootstrap", replicates=1)


def test_an_error_says_in_which_copy_it_came_up():
    with pytest.raises(EstimationError, match="not a finite number: a") as caught:
        pool(lambda x: {"a": (x, 1.0)}, [1.0, np.nan])
    assert caught.value.__notes__ == ["This is copy 2."]
    with pytest.raises(EstimationError, match="different estimates: b"):
        pool(lambda names: dict.fromkeys(names, (1.0, 1.0)), ["a", "ab"])
    with pytest.raises(UsageError, match="others do not"):
        pool(lambda x: (1.0, 1.0) if x else 1.0, [0, 1])


def test_the_names_are_public():
    assert {"pool", "Pooled", "JointTest", "combine", "copies_for", "completed_frames"} <= set(estimate.__all__)
