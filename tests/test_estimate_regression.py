"""Regression from a release: against statsmodels, direct maximisation, numerical information and simulation."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, special, stats

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.errors import DataError, EstimationError, UsageError
from postrand.estimate.families import Linear, Logistic, Multinomial, Poisson
from postrand.estimate.latent import State as LatentState
from postrand.estimate.latent import efficient, expectation, naive, solve
from postrand.estimate.regression_data import problem_of, read
from postrand.estimate.regression_formula import variables_of
from postrand.estimate.regression_simex import mcsimex
from postrand.estimate.regressions import regression
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

sm = pytest.importorskip("statsmodels.api")

A = Variable("a", role="key", categories=("a0", "a1", "a2"))
B = Variable("b", role="key", categories=(0, 1), type="int64")
C = Variable("c", role="other", categories=("u", "v"))
Y = Variable("y", role="sensitive", categories=("no", "yes"))
Z = Variable("z", role="sensitive", categories=("low", "mid", "high"))
BOOK = Codebook((A, B, C, Y, Z, Variable("w", role="weight", type="double")))
TRUE = {"Intercept": -0.5, "a[T.a1]": 0.8, "a[T.a2]": -0.6, "b": 0.5, "x": 0.4}


def draw(rng, codes, matrix):
    return (rng.random(len(codes))[:, None] > np.cumsum(matrix.array, axis=1)[codes, :-1]).sum(axis=1)


def population(rng, n):
    """True codes and a linear predictor; b depends on a, x on both."""
    a = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    b = (rng.random(n) < 0.3 + 0.15 * a).astype(int)
    x = rng.integers(0, 4, n) / 2.0
    eta = TRUE["Intercept"] + np.array([0, 0.8, -0.6])[a] + 0.5 * b + 0.4 * x
    return a, b, x, eta


def release(rng, n, laws, response):
    """The released frame of one population; ``laws`` maps a, b, y, z to matrices."""
    a, b, x, eta = population(rng, n)
    codes = {"a": a, "b": b, "c": (rng.random(n) < 0.5).astype(int)} | response(rng, eta)
    columns = {}
    for name, values in codes.items():
        if name in laws:
            values = draw(rng, values, laws[name])
        columns[name] = np.array(BOOK[name].categories)[values] if name in BOOK else values
    return pa.table(columns | {"x": x, "w": rng.uniform(0.5, 2, n)})


def binary(rng, eta):
    return {"y": (rng.random(len(eta)) < special.expit(eta)).astype(int)}


RESPONSES = {
    "logistic": ("y", binary),
    "linear": ("t", lambda rng, eta: {"t": eta + 0.7 * rng.standard_normal(len(eta))}),
    "poisson": ("t", lambda rng, eta: {"t": rng.poisson(np.exp(eta))}),
    "multinomial": (
        "z",
        lambda rng, eta: {"z": (eta[:, None] * [0, 1, -0.5] + rng.gumbel(size=(len(eta), 3))).argmax(axis=1)},
    ),
}
MILD = {"a": randomised_response(3, 2.5), "b": randomised_response(2, 2.0)}


@pytest.mark.parametrize("family", RESPONSES)
def test_without_perturbation_it_is_statsmodels(family):
    rng = np.random.default_rng(1)
    name, response = RESPONSES[family]
    frame = release(rng, 600, {}, response)
    identity = Mechanism({"a": TransitionMatrix.identity(3)}, BOOK)
    found = regression(f"{name} ~ a + b + x", frame, identity, family, method="likelihood")
    a = np.array(frame["a"].to_pylist())
    design = np.column_stack([np.ones(600), a == "a1", a == "a2", frame["b"].to_numpy(), frame["x"].to_numpy()]).astype(
        float
    )
    values = frame[name].to_numpy(zero_copy_only=False)
    if name in BOOK:
        values = np.array([BOOK[name].categories.index(v) for v in values])
    models = {
        "logistic": lambda: sm.Logit(values, design),
        "linear": lambda: sm.OLS(values, design),
        "poisson": lambda: sm.Poisson(values, design),
        "multinomial": lambda: sm.MNLogit(values, design),
    }
    kwargs = {} if family == "linear" else {"disp": 0, "tol": 1e-12}
    reference = models[family]().fit(**kwargs)
    coefficients = np.asarray(reference.params).T.ravel()
    errors = np.sqrt(np.diag(np.asarray(reference.cov_params()))) * (np.sqrt(595 / 600) if family == "linear" else 1)
    np.testing.assert_allclose(found.value[: len(coefficients)], coefficients, atol=2e-5)
    np.testing.assert_allclose(found.standard_error[: len(errors)], errors, rtol=1e-4)


def likelihood_of(problem, free):
    """The observed log-likelihood in unconstrained coordinates: θ, then a softmax for each group."""
    theta, logits = free[: problem.parameters], free[problem.parameters :]
    groups = int(problem.row_group.max()) + 1
    logits = np.column_stack([np.zeros(groups), logits.reshape(groups, -1)])
    return expectation(problem, LatentState(theta, special.softmax(logits, axis=1)))[1]


@pytest.mark.parametrize(
    ("family", "perturb_response"),
    [*((family, False) for family in RESPONSES), ("logistic", True), ("multinomial", True)],
)
def test_maximum_and_information_against_direct_optimisation(family, perturb_response):
    rng = np.random.default_rng(2)
    name, response = RESPONSES[family]
    laws = {"b": randomised_response(2, 2.0)}
    if perturb_response:
        laws[name] = randomised_response(BOOK[name].size, 3.0)
    frame = release(rng, 1_500, laws, response)
    data = read(f"{name} ~ b + c", frame, Mechanism(laws, BOOK), family, None, None)
    problem, _ = problem_of(data, 5)
    found = solve(problem, 1e-10, 20_000)
    groups, cells = int(problem.row_group.max()) + 1, int(problem.covariate_cell.max()) + 1
    assert (groups, cells) == (2, 2)
    start = np.concatenate([found.theta + 0.05, np.zeros(groups * (cells - 1))])
    best = optimize.minimize(lambda f: -likelihood_of(problem, f), start, method="BFGS", options={"gtol": 1e-4})
    assert found.likelihood >= -best.fun - 1e-5
    np.testing.assert_allclose(found.theta, best.x[: problem.parameters], atol=2e-3)
    h, size = 1e-3, len(best.x)
    unit = np.eye(size) * h
    hessian = np.array(
        [
            [
                likelihood_of(problem, best.x + i + j)
                - likelihood_of(problem, best.x + i - j)
                - likelihood_of(problem, best.x - i + j)
                + likelihood_of(problem, best.x - i - j)
                for j in unit
            ]
            for i in unit
        ]
    )
    expected = np.linalg.inv(-hessian / (4 * h * h))[: problem.parameters, : problem.parameters]
    np.testing.assert_allclose(found.covariance, expected, rtol=2e-2, atol=2e-3 * np.abs(expected).max())


def test_weights_replicate_records():
    rng = np.random.default_rng(3)
    frame = release(rng, 800, MILD, binary)
    frame = frame.set_column(frame.column_names.index("w"), "w", pa.array(rng.integers(1, 4, 800).astype(float)))
    twice = frame.take(pa.array(np.repeat(np.arange(800), frame["w"].to_numpy().astype(int))))
    mechanism = Mechanism(MILD, BOOK)
    em = {"method": "likelihood"}
    weighted = regression("y ~ a + b", frame, mechanism, "logistic", weights="w", **em)
    expected = regression("y ~ a + b", twice, mechanism, "logistic", **em)
    np.testing.assert_allclose(weighted.value, expected.value, atol=1e-2)
    ones = frame.set_column(frame.column_names.index("w"), "w", pa.array(np.ones(800)))
    robust, plain = (regression("y ~ a + b", ones, mechanism, "logistic", weights=w, **em) for w in ("w", None))
    np.testing.assert_allclose(robust.standard_error, plain.standard_error, rtol=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("family", "method"),
    [("logistic", "likelihood"), ("logistic", "equations"), ("linear", "equations"), ("poisson", "equations")],
)
def test_unbiased_with_right_standard_errors_where_the_naive_fit_is_not(family, method):
    """80 replications of 4,000 records: mean within 4 Monte-Carlo errors; spread within 30% of the standard errors."""
    rng = np.random.default_rng(4)
    name, response = RESPONSES[family]
    mechanism, fits, errors, plain = Mechanism(MILD, BOOK), [], [], []
    for _ in range(80):
        frame = release(rng, 4_000, MILD, response)
        found = regression(f"{name} ~ a + b + x", frame, mechanism, family, method=method)
        fits.append(found.value[:5])
        errors.append(found.standard_error[:5])
        plain.append(naive(problem_of(read(f"{name} ~ a + b + x", frame, mechanism, family, None, None), 5)[0])[:5])
    truth = np.array(list(TRUE.values()))
    spread = np.std(fits, axis=0, ddof=1)
    limit = 4 * spread / np.sqrt(80)
    assert (np.abs(np.mean(fits, axis=0) - truth) < limit).all()
    np.testing.assert_allclose(spread, np.mean(errors, axis=0), rtol=0.3)
    assert (np.abs(np.mean(plain, axis=0) - truth) > limit)[:4].all()


def test_mcsimex_agrees_under_mild_perturbation():
    rng = np.random.default_rng(5)
    laws = {"a": randomised_response(3, 4.0), "b": randomised_response(2, 3.0)}
    frame, mechanism = release(rng, 20_000, laws, binary), Mechanism(laws, BOOK)
    check = mcsimex("y ~ a + b + x", frame, mechanism, "logistic", rng, replicates=5)
    found = regression("y ~ a + b + x", frame, mechanism, "logistic", method="likelihood")
    assert check.names == found.names
    np.testing.assert_allclose(check.value, found.value, atol=0.06)
    assert np.abs(check.path[0] - found.value).max() > 0.06
    odd = Mechanism({"b": TransitionMatrix.from_array([[0.1, 0.9], [0.8, 0.2]])}, BOOK)
    with pytest.raises(EstimationError, match="whole levels"):
        mcsimex("y ~ b", frame, odd, "logistic", rng)


@pytest.mark.parametrize(
    ("book", "terms"),
    [
        (Variable("g", "key", (1, 2, 10), ("Man", "Woman", "Other"), type="int64"), ("Woman", "Other")),
        (Variable("g", "key", (1, 2, 10), ("Man", "", "Other"), type="int64"), ("2", "Other")),
        (Variable("g", "key", (1, 2, 10), ("Man", "Other", "Other"), type="int64"), ("2", "10")),
        (Variable("g", "key", (1, 2, 10), type="int64"), ("2", "10")),
        (Variable("g", "key", (1.0, 2.0, 2.5), ("Man", "Woman", "2.5"), type="double"), ("Woman", "2.5")),
        (Variable("g", "key", (1, 2, 9), ("Man", "Woman", "no"), type="int64", missing_codes=(9,)), ("Woman", "no")),
        (Variable("g", "key", ("01", "02", "10"), ("Man", "Woman", "Other")), ("Woman", "Other")),
        (Variable("g", "key", ("01", "02", "10")), ("02", "10")),
        (Variable("g", "key", ("F", "M", "X"), ("Woman", "Man", "Other")), ("M", "X")),
    ],
)
@pytest.mark.parametrize("method", ["equations", "likelihood"])
def test_terms_have_the_labels_of_numbers(book, terms, method):
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 3, 2000)
    columns = {"g": pa.array([book.categories[k] for k in codes]), "g2": pa.array(rng.integers(1, 3, 2000))}
    columns["z"] = pa.array(codes + rng.normal(size=2000))
    held = Codebook((book, Variable("g2", "other", type="int64"), Variable("z", "other", type="double")))
    law = Mechanism({"g": randomised_response(3, 4.0)}, held)
    frame = pr.perturb(pa.table(columns), law, pr.ReleaseKey.from_seed(1))
    found = regression("z ~ C(g) * C(g2)", frame, law, "linear", method=method)
    wanted = [f"C(g)[T.{text}]" for text in terms]
    assert [n for n in found.names if n != "ln(sigma)"] == [
        "Intercept",
        *wanted,
        "C(g2)[T.2]",
        *(f"{text}:C(g2)[T.2]" for text in wanted),
    ]


@pytest.mark.parametrize("family", ["linear", "multinomial"])
@pytest.mark.parametrize("labels", [(), ("refused", "low", "middle", "high")])
def test_no_answer_is_no_reference(family, labels):
    """The estimates are those of a codebook that lists it last; a note says so, unless a formula names a reference."""
    rng = np.random.default_rng(6)
    first = Variable("g", "key", (-9, 1, 2, 3), labels, type="int64", missing_codes=(-9,))
    last = Variable("g", "key", (1, 2, 3, -9), labels and (*labels[1:], labels[0]), type="int64", missing_codes=(-9,))
    frame = pa.table(
        {"g": rng.choice([-9, 1, 2, 3], 4000, p=[0.1, 0.3, 0.3, 0.3]), "z": rng.normal(size=4000).round(1)}
    )
    ask, said, found = "z ~ C(g)" if family == "linear" else "g ~ z", "Terms of g compare", []
    for variable in (first, last):
        law = Mechanism({"g": randomised_response(4, 4.0)}, Codebook((variable, Variable("z", "other", type="double"))))
        for method in ("equations", "likelihood"):
            found.append(regression(ask, frame, law, family, method=method))
    for one, other in zip(found[:2], found[2:], strict=True):
        assert one.names == other.names
        np.testing.assert_allclose(one.value, other.value, atol=1e-6)
        assert [text for text in one.warnings if said in text] == [
            f"Terms of g compare with {labels[1] if labels else 1}, the first category that is an answer; those that "
            "mean no answer come last."
        ]
        assert not [text for text in other.warnings if said in text]
    if family == "linear":
        law = Mechanism({"g": randomised_response(4, 4.0)}, Codebook((first, Variable("z", "other", type="double"))))
        assert not regression('z ~ C(g, Treatment("-9"))', frame, law, family).warnings
        with pytest.raises(UsageError, match=r'provided levels; wanted for g one of ("-?\d", ){3}"-?\d"\.'):
            regression("z ~ C(g, Treatment(2))", frame, law, family)


def test_summary_and_formulas():
    rng = np.random.default_rng(6)
    frame, mechanism = release(rng, 3_000, MILD, binary), Mechanism(MILD, BOOK)
    found = regression("y ~ C(a) + b + x", frame, mechanism, "logistic")
    assert found.names == ("Intercept", "C(a)[T.a1]", "C(a)[T.a2]", "b", "x")
    text = str(found)
    assert "P>|z|" in text
    assert "perturbed: a, b" in text
    assert found.to_arrow()["estimate"].to_pylist() == pytest.approx(found.value.tolist())
    low, high = found.interval()
    assert (low < found.value).all()
    assert (found.value < high).all()
    assert (found.p_value <= 1).all()
    by_category = regression("y ~ a * C(b)", frame, mechanism, "logistic")
    assert by_category.names[-1] == "a[T.a2]:C(b)[T.1]"
    several = regression("z ~ b", release(rng, 3_000, MILD, RESPONSES["multinomial"][1]), mechanism, "multinomial")
    assert several.names == ("mid: Intercept", "mid: b", "high: Intercept", "high: b")


def test_efficient_score_vanishes_at_the_maximum_only():
    rng = np.random.default_rng(7)
    frame = release(rng, 2_000, MILD, binary)
    problem, _ = problem_of(read("y ~ a + b", frame, Mechanism(MILD, BOOK), "logistic", None, None), 5)
    found = solve(problem, 1e-10, 20_000)
    assert found.decrement <= 1e-10
    law = np.full((1, 6), 1 / 6)
    at = efficient(problem, LatentState(naive(problem), law))
    assert at.score @ np.linalg.solve(at.information, at.score) > 1


@pytest.mark.parametrize(
    ("family", "y", "eta", "extra"),
    [
        (Linear(), np.array([0.3, -1.2]), np.array([[0.1], [0.4]]), np.array([0.2])),
        (Logistic(), np.array([1.0, 0.0]), np.array([[0.1], [0.4]]), np.array([])),
        (Poisson(), np.array([3.0, 0.0]), np.array([[0.1], [0.4]]), np.array([])),
        (Multinomial(3), np.array([0.0, 2.0]), np.array([[0.1, -0.3], [0.4, 0.2]]), np.array([])),
    ],
)
def test_family_scores_are_derivatives(family, y, eta, extra):
    score, weight = family.derivatives(y, eta, extra)
    h = 1e-6
    for i in range(family.predictors + len(family.extras)):
        shift_eta, shift_extra = np.zeros_like(eta), np.zeros_like(extra)
        (shift_eta[:, i] if i < family.predictors else shift_extra[i - family.predictors :])[...] = h
        up = family.log_density(y, eta + shift_eta, extra + shift_extra)
        down = family.log_density(y, eta - shift_eta, extra - shift_extra)
        np.testing.assert_allclose(score[..., i], (up - down) / (2 * h), atol=1e-8)
    assert np.linalg.eigvalsh(weight).min() > 0


def separated():
    return pa.table(
        {"a": ["a0", "a1", "a2"] * 40, "b": [0, 1] * 60, "y": ["no", "yes", "yes"] * 40, "x": np.arange(120.0)}
    )


@pytest.mark.parametrize(
    ("formula", "family", "kind", "message"),
    [
        ("y ~~ a", "logistic", UsageError, "cannot be read"),
        ("y", "logistic", UsageError, "cannot be read|one variable"),
        ("log(y) ~ a", "logistic", UsageError, "one variable"),
        ("y ~ nosuch", "logistic", DataError, "nosuch"),
        ("y ~ a", "probit", UsageError, "unknown family"),
        ("a ~ b", "logistic", DataError, "two categories"),
        ("a ~ b", "linear", DataError, "numbers"),
        ("x ~ a", "logistic", DataError, "0 and 1"),
        ("y ~ a", "logistic", EstimationError, "separated|singular"),
        ("x ~ a + C(a)", "linear", EstimationError, "not identified"),
    ],
)
def test_bad_input_gets_a_clear_error(formula, family, kind, message):
    mechanism = Mechanism({"a": TransitionMatrix.identity(3)}, BOOK)
    with pytest.raises(kind, match=message):
        regression(formula, separated(), mechanism, family)


def test_not_converged_and_missing_values():
    rng = np.random.default_rng(8)
    frame, mechanism = release(rng, 2_000, MILD, binary), Mechanism(MILD, BOOK)
    with pytest.raises(EstimationError, match="did not converge"):
        regression("y ~ a + b", frame, mechanism, "logistic", method="likelihood", max_steps=15, tolerance=1e-14)
    with pytest.raises(UsageError, match="groups"):
        regression("y ~ a + b", frame, mechanism, "logistic", groups=["a"])
    holes = frame.set_column(frame.column_names.index("x"), "x", pa.array([None, *frame["x"].to_pylist()[1:]]))
    assert regression("y ~ a + x", holes, mechanism, "logistic").dropped == 1


@pytest.mark.parametrize("formula", ["sex ~ age +", "sex ~ (age", "sex ~ age + + *"])
def test_a_formula_that_cannot_be_read_is_refused_in_plain_text(formula):
    with pytest.raises(UsageError) as caught:
        variables_of(formula)
    assert "x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_in_place_of_the_formula_is_refused_without_its_values():
    with pytest.raises(UsageError, match="the formula is no text; got Table") as caught:
        regression(separated(), "y ~ a", Mechanism({"a": TransitionMatrix.identity(3)}, BOOK), "logistic")
    assert len(str(caught.value)) < 200


def test_a_response_of_numbers_that_are_text_is_the_same_as_of_numbers():
    """A CSV file has text for numbers, whose mean can be asked for: so can their regression."""
    made = []
    for categories in ((1, 2), ("1", "2")):
        kind = "int64" if categories[0] == 1 else "string"
        book = Codebook(
            (Variable("y", role="key", categories=categories, type=kind), Variable("x", "other", ("a", "b")))
        )
        mechanism = Mechanism({"y": randomised_response(2, 1.0)}, book)
        frame = pa.table({"y": [categories[k % 3 == 0] for k in range(60)], "x": ["a", "b"] * 30})
        made.append(regression("y ~ x", frame, mechanism, "linear"))
    np.testing.assert_allclose(made[0].value, made[1].value)


@pytest.mark.parametrize("method", ["equations", "likelihood"])
def test_a_logistic_regression_names_the_category_whose_probability_it_models(method):
    """With an intercept alone, its probability is the share of that category among unperturbed records."""
    answers = np.array(["nein"] * 700 + ["ja"] * 300)
    for order in (("ja", "nein"), ("nein", "ja")):
        held = Variable("help", "other", order)
        other = Variable("sex", "key", ("f", "m"))
        mechanism = Mechanism({"sex": randomised_response(2, 2.0)}, Codebook((held, other)))
        frame = pa.table({"help": answers, "sex": np.array(["f", "m"] * 500)})
        fit = regression("help ~ 1", frame, mechanism, "logistic", method=method)
        named, _, rest = fit.modelled.removeprefix("the probability of help = ").partition("; ")
        assert rest == f"for that of help = {order[0]}, change the sign of every coefficient"
        assert named == order[1]
        assert 1 / (1 + np.exp(-fit.value[0])) == pytest.approx(np.mean(answers == named))
        assert f"\nmodelled: the probability of help = {named}; {rest}\n" in str(fit)
        assert fit.to_dict()["modelled"] == fit.modelled
    fits = []
    for order in (("ja", "nein"), ("nein", "ja")):
        book = Codebook((Variable("help", "key", order), Variable("sex", "other", ("f", "m"))))
        law = Mechanism({"help": randomised_response(2, 3.0)}, book)
        fits.append(regression("help ~ sex", frame, law, "logistic", method=method))
    assert fits[0].value == pytest.approx(-fits[1].value, abs=1e-5)
    np.testing.assert_allclose(fits[0].interval()[0], -fits[1].interval()[1], atol=1e-5)
    fit = regression("sex ~ 1", frame, mechanism, "multinomial", method=method)
    assert fit.modelled == "each other category of sex against sex = f"
    assert regression("n ~ 1", frame.append_column("n", pa.array(range(1000))), mechanism, "linear").modelled == ""


def test_the_table_says_that_p_is_not_that_of_z_where_it_is_not():
    other = Variable("sex", "key", ("f", "m"))
    mechanism = Mechanism({"sex": randomised_response(2, 2.0)}, Codebook((other,)))
    frame = pa.table({"y": np.arange(40) % 7, "sex": np.array(["f", "m", "m", "f"] * 10)})
    for method, is_said in (("equations", True), ("likelihood", False)):
        fit = regression("y ~ sex", frame, mechanism, "linear", method=method)
        by_z = 2 * stats.norm.sf(np.abs(fit.value / fit.standard_error))
        assert np.allclose(by_z, fit.p_value, rtol=1e-9) is not is_said
        assert ("P>|z| is from the score test that the intervals invert, not from z" in str(fit)) is is_said
