"""Every result gives one tidy table with the same column names, as Arrow, pandas and plain data."""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.errors import UsageError
from postrand.estimate import tidy
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix

LAW = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
BOOK = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("work", role="key", categories=("no", "yes")),
        Variable("pay", role="other", type="double"),
    )
)
MECHANISM = Mechanism({"sex": LAW, "work": LAW}, codebook=BOOK)
_SIZE = 400
_RNG = np.random.default_rng(11)
FRAME = pa.table(
    {
        "sex": _RNG.choice(["F", "M"], _SIZE, p=[0.6, 0.4]),
        "work": _RNG.choice(["no", "yes"], _SIZE),
        "pay": _RNG.normal(10, 2, _SIZE),
    }
)
NUMBERS = ["estimate", "standard_error", "lower", "upper"]
RESULTS: dict[str, tuple[Callable[[], Any], list[str], int]] = {
    "table": (lambda: estimate.table(FRAME, ["sex", "work"], MECHANISM), ["sex", "work", *NUMBERS], 4),
    "likelihood": (lambda: estimate.maximum_likelihood(FRAME, ["sex"], MECHANISM), ["sex", *NUMBERS], 2),
    "mean": (lambda: estimate.mean(FRAME, "pay", MECHANISM), NUMBERS, 1),
    "total": (lambda: estimate.total(FRAME, "pay", MECHANISM, by="sex"), ["sex", *NUMBERS], 2),
    "quantile": (
        lambda: estimate.quantile(FRAME, "pay", MECHANISM, q=[0.2, 0.5], by="sex"),
        ["sex", "quantile", *NUMBERS],
        4,
    ),
    "regression": (
        lambda: estimate.regression("pay ~ sex", FRAME, MECHANISM, "linear"),
        ["term", *NUMBERS, "p_value", "warning"],
        2,
    ),
    "simex": (
        lambda: estimate.mcsimex("pay ~ sex", FRAME, MECHANISM, "linear", np.random.default_rng(1), replicates=2),
        ["term", "estimate"],
        3,  # the logarithm of sigma too
    ),
    "odds ratio": (
        lambda: estimate.odds_ratio(FRAME, "sex", "work", MECHANISM),
        ["term", *NUMBERS, "log_standard_error"],
        1,
    ),
    "independence": (
        lambda: estimate.independence_test(FRAME, "sex", "work", MECHANISM),
        ["term", "statistic", "degrees_of_freedom", "p_value"],
        1,
    ),
    "precision": (
        lambda: estimate.expected_precision(MECHANISM, ["sex"], 100),
        ["sex", "standard_error", "worst"],
        2,
    ),
    "candidates": (
        lambda: estimate.candidates(FRAME, ["sex"], {"sex": "F"}, MECHANISM),
        ["sex", "posterior", "bound", "records"],
        2,
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_one_tidy_table(name):
    ask, columns, rows = RESULTS[name]
    found = ask()
    arrow, frame = found.to_arrow(), found.to_pandas()
    assert (arrow.column_names, arrow.num_rows) == (columns, rows)
    assert list(frame.columns) == columns
    assert frame.shape == (rows, len(columns))
    json.dumps(found.to_dict(), allow_nan=False)


def test_labels_are_categories_in_their_order_and_numbers_are_those_of_the_result():
    found = estimate.table(FRAME, ["work", "sex"], MECHANISM)
    frame = found.to_pandas(0.5)
    assert list(frame["sex"].cat.categories) == ["F", "M"]
    assert frame["estimate"].tolist() == found.value.ravel().tolist()
    assert frame["lower"].tolist() == found.interval(0.5)[0].ravel().tolist()
    fitted = estimate.regression("pay ~ sex", FRAME, MECHANISM, "linear")
    assert fitted.to_arrow(0.5)["upper"].to_pylist() == fitted.interval(0.5)[1].tolist()
    assert fitted.to_arrow()["standard_error"].to_pylist() == fitted.standard_error.tolist()


def test_a_variable_named_as_a_number_keeps_a_column():
    found = tidy.by_cell(["estimate"], [["a", "b"]], {"estimate": np.array([0.25, 0.75])})
    assert found.to_pydict() == {"estimate (variable)": ["a", "b"], "estimate": [0.25, 0.75]}


def test_without_pandas_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    class Table:
        def to_pandas(self):
            import pandas  # noqa: F401

    with pytest.raises(UsageError, match=r"needs the package pandas.*pip install 'postrand\[frames\]'"):
        tidy.to_pandas(Table())


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5])
def test_a_level_that_is_not_a_probability_is_refused_everywhere(level):
    for name in ("table", "regression", "odds ratio"):
        with pytest.raises(UsageError, match="the confidence level is not a probability"):
            RESULTS[name][0]().interval(level)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_short_where_it_is_shown_and_whole_where_it_is_printed(name):
    found = RESULTS[name][0]()
    assert len(repr(found).splitlines()) <= 3
    assert len(repr(found)) < 400
    assert "array(" not in repr(found)


@pytest.mark.parametrize("name", ["table", "mean", "regression", "odds ratio", "independence", "precision"])
def test_a_notebook_shows_the_printed_result(name):
    found = RESULTS[name][0]()
    said: list[str] = []
    found._repr_pretty_(type("Printer", (), {"text": staticmethod(said.append)}), False)
    assert said == [str(found)]


def test_tests_of_hypotheses_are_still_found_by_their_former_names():
    for former, current in (
        ("test_independence", "independence_test"),
        ("test_goodness_of_fit", "goodness_of_fit_test"),
    ):
        with pytest.warns(DeprecationWarning, match=f"estimate.{former} is now estimate.{current}"):
            assert getattr(estimate, former) is getattr(estimate, current)
    with pytest.raises(AttributeError, match="has no attribute 'test_nothing'"), warnings.catch_warnings():
        getattr(estimate, "test_" + "nothing")
