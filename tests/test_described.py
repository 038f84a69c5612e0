"""Released files as pandas reads them: types are taken back to those of the codebook, or refused with the way out."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import postrand as pr
from postrand import estimate
from postrand.codebook import Codebook, Variable
from postrand.data.described import as_described
from postrand.errors import DataError, EstimationError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response

RNG = np.random.default_rng(5)
N = 400
DAY = datetime.date(2020, 1, 31)
BOOK = Codebook(
    (
        Variable("area", role="key", categories=("1", "2", "3"), missing="category"),
        Variable("zone", role="key", categories=("01", "02")),
        Variable("flag", role="sensitive", categories=("TRUE", "FALSE")),
        Variable("pay", role="other", type="double"),
        Variable("weight", role="weight", type="int64"),
    )
)
DATA = pa.table(
    {
        "area": ["123"[i] if i < 3 else None for i in RNG.integers(0, 4, N)],
        "zone": [("01", "02")[i] for i in RNG.integers(0, 2, N)],
        "flag": [("TRUE", "FALSE")[i] for i in RNG.integers(0, 2, N)],
        "pay": RNG.normal(100, 10, N),
        "weight": RNG.integers(1, 9, N),
    }
)
LAWS = {"area": randomised_response(4, 2.0), "zone": randomised_response(2, 1.0), "flag": randomised_response(2, 1.0)}
MECHANISM = Mechanism(LAWS, BOOK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import pyarrow.csv

    path = tmp_path_factory.mktemp("released")
    pyarrow.csv.write_csv(DATA, path / "data.csv", pyarrow.csv.WriteOptions(quoting_style="none"))
    return path


ASKED = {
    "table": lambda frame: estimate.table(frame, ["area", "zone", "flag"], MECHANISM),
    "weights": lambda frame: estimate.table(frame, ["area"], MECHANISM, weights="weight"),
    "mean": lambda frame: estimate.mean(frame, "pay", MECHANISM, by="area"),
    "mean of text": lambda frame: estimate.mean(frame, "zone", MECHANISM),
    "regression": lambda frame: estimate.regression("pay ~ zone + flag", frame, MECHANISM, "linear"),
    "independence": lambda frame: estimate.independence_test(frame, "zone", "flag", MECHANISM),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_pandas_reads_gives_the_estimates_of_the_file(folder, asked):
    read = pd.read_csv(folder / "data.csv")
    assert [str(read[name].dtype) for name in ("area", "zone", "flag")] == ["float64", "int64", "bool"]
    assert str(ASKED[asked](read)) == str(ASKED[asked](DATA))


def test_completed_files_take_it_too(folder):
    from postrand.estimate.evidence import evidence_of

    told, mine = (evidence_of(frame, MECHANISM)[0] for frame in (pd.read_csv(folder / "data.csv"), DATA))
    np.testing.assert_array_equal(told.exact, mine.exact)
    np.testing.assert_array_equal(told.released, mine.released)


def column(*values):
    return pa.chunked_array([list(values[:1]), list(values[1:])], pa.array(list(values)).type)


@pytest.mark.parametrize(
    ("categories", "of", "read", "wanted"),
    [
        pytest.param(("1", "2"), "string", (2, 1, None), ["2", "1", None], id="whole"),
        pytest.param(("1.50", "2"), "string", (2.0, 1.5), ["2", "1.50"], id="decimals"),
        pytest.param(("true", "false"), "string", (True, False), ["true", "false"], id="truth"),
        pytest.param((1, 2), "int64", ("2", "1"), [2, 1], id="numbers as text"),
        pytest.param((1.0, 2.5), "double", ("1", "1.0", "2.5"), [1.0, 1.0, 2.5], id="floats as text"),
        pytest.param((True, False), "bool", ("True", "False"), [True, False], id="truth as text"),
        pytest.param(("2020-01-31",), "date32[day]", ("2020-01-31",), [DAY], id="date"),
    ],
)
def test_values_are_converted_where_each_is_one_category(categories, of, read, wanted):
    book = Variable("v", role="key", type=of, categories=categories, missing="category")
    assert as_described(column(*read), book).to_pylist() == wanted


def test_labels_stand_for_their_codes():
    book = Variable("v", role="key", type="int64", categories=(1, 2), labels=("man", "woman"))
    assert as_described(pa.chunked_array([["woman", "man"]]).dictionary_encode(), book).to_pylist() == [2, 1]


@pytest.mark.parametrize(
    ("categories", "read"),
    [
        pytest.param(("1", "01"), (1, 1), id="two categories"),
        pytest.param(("1", "2"), (1, 3), id="no category"),
        pytest.param(("yes", "no"), (True, False), id="other texts"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_way_out(categories, read):
    book = Variable("v", role="key", categories=categories)
    with pytest.raises(DataError, match=r"'v'.*read_release\(folder\)\.frame\(\)"):
        as_described(column(*read), book)


def test_a_category_that_was_read_as_missing_is_not_counted_as_missing(tmp_path):
    book = Codebook((Variable("pet", role="key", categories=("None", "cat", "dog"), missing="category"),))
    mechanism = pr.Mechanism({"pet": randomised_response(4, 1.0)}, book)
    (tmp_path / "data.csv").write_text("pet,n\nNone,1\ncat,2\n,3\ndog,4\n")
    with pytest.raises(DataError, match=r"'None' does not occur.*read as missing.*keep_default_na"):
        estimate.proportions(pd.read_csv(tmp_path / "data.csv"), "pet", mechanism)
    told = pd.read_csv(tmp_path / "data.csv", dtype=str, keep_default_na=False, na_values=[""])
    assert estimate.proportions(told, "pet", mechanism).value.shape == (4,)


@pytest.mark.parametrize("family", ["linear", "multinomial"])
def test_a_regression_that_is_not_identified_names_its_terms(family):
    frame = DATA.append_column("twice", pa.array(2 * DATA["pay"].to_numpy() - 3))
    left = "pay" if family == "linear" else "area"
    right = "zone + weight + I(2 * weight)" if family == "linear" else "zone + pay + twice"
    named = r"weight, I\(2 \* weight\)" if family == "linear" else "Intercept, pay, twice"
    with pytest.raises(EstimationError, match=f"terms {named}: the regression is not identified") as caught:
        estimate.regression(f"{left} ~ {right}", frame, MECHANISM, family)
    assert "zone" not in str(caught.value)
