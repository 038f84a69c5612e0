"""Every estimator on files that nobody would choose: the package's own errors, no warning, no silent nan."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import PostrandError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response


class Case(NamedTuple):
    """A released file with its mechanism: variables g (perturbed), h (perturbed), y (clear, two values), x, w, s."""

    frame: pa.Table
    mechanism: Mechanism
    weights: str | None
    strata: str | None


def law(rng: np.random.Generator, size: int, kind: str) -> TransitionMatrix:
    if kind == "singular":
        return TransitionMatrix.from_array(np.full((size, size), 1 / size))
    if kind == "nearly":
        return randomised_response(size, 1e-6)
    if kind == "identity":
        return TransitionMatrix.identity(size)
    return randomised_response(size, float(rng.choice([0.5, 2.0, 8.0])))


def case(seed: int) -> Case:
    """Draw one odd file: sizes, laws, groups that are empty, weights, missing values, strata with one record."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 5, 60, 300]))
    size = int(rng.choice([2, 3, 7, 400], p=[0.35, 0.35, 0.2, 0.1]))
    names = {"g": tuple(f"g{k}" for k in range(size)), "h": ("a", "b", "c"), "y": ("no", "yes")}
    keep = rng.choice(["keep", "error"])
    variables = [Variable(k, role="key", categories=v, missing=keep) for k, v in names.items()]
    variables += [Variable("x", role="other", type="double"), Variable("w", role="weight", type="double")]
    variables += [Variable("s", role="other", categories=tuple(f"s{k}" for k in range(4)))]
    kinds = rng.choice(["plain", "plain", "plain", "singular", "nearly", "identity"], 2)
    laws = {"g": law(rng, size, kinds[0]), "h": law(rng, 3, kinds[1])}
    data: dict[str, Any] = {}
    for name, categories in names.items():
        here = rng.integers(1, len(categories) + 1)  # the other groups are empty
        column = list(np.array(categories)[rng.integers(0, here, n)])
        if keep == "keep":
            share = rng.choice([0.0, 0.3, 1.0], p=[0.6, 0.3, 0.1])
            column = [None if rng.random() < share else v for v in column]
        data[name] = pa.array(column, pa.string())
    scale = float(rng.choice([1.0, 1e12, 1e-12, 0.0]))
    data["x"] = pa.array(scale * rng.standard_normal(n))
    weights = {
        "even": np.ones(n),
        "zero": np.zeros(n),
        "extreme": 10.0 ** rng.integers(-150, 150, n),
        "negative": rng.normal(size=n),
        "some zero": rng.integers(0, 2, n).astype(float),
    }
    data["w"] = pa.array(weights[str(rng.choice(list(weights)))])
    strata = np.full(n, "s0") if rng.random() < 0.5 else np.array([f"s{min(k, 3)}" for k in range(n)])
    data["s"] = pa.array(strata)
    mechanism = Mechanism(laws, codebook=Codebook(tuple(variables)))
    return Case(pa.table(data), mechanism, rng.choice([None, "w"]), rng.choice([None, "s"]))


def labels(c: Case) -> tuple[str, ...]:
    assert c.mechanism.codebook is not None
    return tuple(map(str, c.mechanism.codebook["g"].categories))


def two(c: Case) -> tuple[str, str]:
    return labels(c)[0], labels(c)[1]


def ratio(c: Case) -> Any:
    return estimate.ratio(estimate.proportions(c.frame, "g", c.mechanism, c.weights, c.strata), *two(c))


ESTIMATORS: dict[str, Callable[[Case], Any]] = {
    "proportions": lambda c: estimate.proportions(c.frame, "g", c.mechanism, c.weights, c.strata),
    "table": lambda c: estimate.table(c.frame, ["g", "h"], c.mechanism, c.weights, c.strata),
    "clear table": lambda c: estimate.table(c.frame, ["h", "y"], c.mechanism, c.weights, c.strata),
    "maximum_likelihood": lambda c: estimate.maximum_likelihood(c.frame, ["h"], c.mechanism, c.weights, c.strata),
    "mean": lambda c: estimate.mean(c.frame, "x", c.mechanism, "g", c.weights, c.strata),
    "total": lambda c: estimate.total(c.frame, "x", c.mechanism, ["h", "y"], c.weights, c.strata),
    "ratio_of_totals": lambda c: estimate.ratio_of_totals(c.frame, "x", "w", c.mechanism, "h", None, c.strata),
    "quantile": lambda c: estimate.quantile(c.frame, "x", c.mechanism, (0.1, 0.5), "h", c.weights, c.strata),
    "quantities": lambda c: estimate.quantities(
        c.frame,
        ["g"],
        {"first": np.eye(len(labels(c)))[0]},
        c.mechanism,
        c.weights,
        c.strata,
    ),
    "identified": lambda c: estimate.identified(c.frame, "h", c.mechanism, c.weights, c.strata),
    "ratio": ratio,
    "odds_ratio": lambda c: estimate.odds_ratio(
        c.frame, "g", "h", c.mechanism, two(c), ("a", "b"), c.weights, c.strata
    ),
    "independence_test": lambda c: estimate.independence_test(c.frame, "g", "h", c.mechanism, c.weights, c.strata),
    "goodness_of_fit_test": lambda c: estimate.goodness_of_fit_test(
        c.frame, "h", [0.2, 0.3, 0.5], c.mechanism, c.weights, c.strata
    ),
    "expected_precision": lambda c: estimate.expected_precision(c.mechanism, ["g", "h"], c.frame.num_rows),
    "candidates": lambda c: estimate.candidates(c.frame, ["g", "h"], {"g": two(c)[0], "h": "a"}, c.mechanism),
    "linear": lambda c: estimate.regression("x ~ C(h)", c.frame, c.mechanism, "linear", c.weights),
    "logistic": lambda c: estimate.regression("y ~ C(h)", c.frame, c.mechanism, "logistic", c.weights),
    "multinomial": lambda c: estimate.regression("h ~ C(y)", c.frame, c.mechanism, "multinomial", c.weights),
    "poisson": lambda c: estimate.regression("x ~ C(h)", c.frame, c.mechanism, "poisson", c.weights),
    "mcsimex": lambda c: estimate.mcsimex(
        "y ~ C(h)", c.frame, c.mechanism, "logistic", np.random.default_rng(0), replicates=2
    ),
}
"""One line for each estimator; a new one joins here."""


def silent_nan(result: Any) -> bool:
    """Tell whether a result holds a nan in its estimate, and no warning that says why."""
    if isinstance(result, tuple):
        return any(map(silent_nan, result))
    if isinstance(result, (str, bytes)) or result is None or getattr(result, "warnings", ()):
        return False
    for name in ("value", "covariance", "statistic", "p_value", "coefficients"):
        found = getattr(result, name, None)
        if found is not None and not callable(found) and np.isnan(np.asarray(found, dtype=float)).any():
            return True
    return False


def failure(estimator: Callable[[Case], Any], c: Case) -> str:
    """Return what went wrong, or an empty text: an answer without nan, and the package's errors, are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = estimator(c)
            str(result)  # intervals and warnings too
            return "a nan without a word" if silent_nan(result) else ""
        except PostrandError:
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:150]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_odd_files_give_answers_or_the_package_s_errors(name: str) -> None:
    found = {seed: what for seed in range(40) if (what := failure(ESTIMATORS[name], case(seed)))}
    assert found == {}


def test_the_fuzz_reaches_answers_and_refusals() -> None:
    """Some files must be answered and some refused, else the fuzz shows nothing; a mutant of each kind is caught."""
    answered = sum(1 for seed in range(40) if _answers(ESTIMATORS["proportions"], case(seed)))
    assert 10 < answered < 40

    @dataclasses.dataclass
    class Empty:
        value = np.array([np.nan])

    assert failure(lambda _: Empty(), case(0)) == "a nan without a word"
    assert "ZeroDivisionError" in failure(lambda _: 1 / 0, case(0))
    assert "RuntimeWarning" in failure(lambda _: np.array([1.0]) / 0, case(0))


def _answers(estimator: Callable[[Case], Any], c: Case) -> bool:
    try:
        estimator(c)
    except PostrandError:
        return False
    return True
