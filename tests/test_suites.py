"""The shipped suites on members that break a law: each is caught. The members of the package are tried elsewhere."""

import dataclasses
import re
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from postrand import formats
from postrand.engines import LocalEngine
from postrand.errors import UsageError
from postrand.estimate import Estimator, estimators, proportions
from postrand.estimate.offer import STRATA, WEIGHT
from postrand.support.randomness import ReleaseKey
from postrand.testing import engines as of_engines
from postrand.testing import estimators as of_estimators
from postrand.testing import formats as of_formats
from postrand.testing.refusals import refused

CSV = formats.format_of("x.csv")


@pytest.mark.parametrize("law", of_estimators.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("estimator", estimators().values(), ids=lambda estimator: estimator.name)
def test_every_estimator_keeps_every_law(estimator, law):
    assert law(estimator) is None  # it raises what is broken


def test_every_estimator_of_the_package_is_offered():
    assert set(estimators()) == {
        "fit", "independence", "mean", "odds-ratio", "quantile", "ratio", "regression", "share", "table", "total",
    }  # fmt: skip


class Lossy:
    """Writes CSV, and takes "NA" for a missing value."""

    def __init__(self, writer):
        self.writer = writer

    def write(self, batch):
        texts = batch.schema.names[0]
        values = [None if v == "NA" else v for v in batch.column(texts).to_pylist()]
        self.writer.write(batch.set_column(0, texts, pa.array(values, pa.string())))


@contextmanager
def lossy(path, schema, opening):
    with CSV.open_writer(path, schema, opening) as writer:
        yield Lossy(writer)


@contextmanager
def left_behind(path, schema, opening):
    """Open the file by itself: nobody removes it after an error, or compares it."""
    with CSV.open_writer(path, schema, lambda path: path.open("wb")) as writer:
        yield writer


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        ({"open_writer": lossy}, "CSV"),
        ({"open_writer": left_behind}, "nothing was refused"),
        ({"keeps_labels": True}, "labels came back"),
        ({"media_type": "text"}, "no media type"),
        ({"readers": formats.Readers("pd.read_csv()", "read.csv({})", {"": "read.csv(path)"})}, "stands for the path"),
        ({"readers": formats.Readers("pd.read_csv({})", "read.csv({})", {})}, "no way to read it in R"),
    ],
)
def test_a_format_that_breaks_a_law_is_caught(tmp_path, mutant, said):
    with pytest.raises(AssertionError, match=said):
        of_formats.check(dataclasses.replace(CSV, **mutant), tmp_path)


@dataclasses.dataclass(frozen=True)
class OtherKey(LocalEngine):
    """Draws with a key of its own."""

    def perturb(self, source, mechanism, key, sink, **options):
        return LocalEngine().perturb(source, mechanism, ReleaseKey.from_seed(99), sink, **options)


@dataclasses.dataclass(frozen=True)
class Unshuffled(LocalEngine):
    """Leaves the records where they were."""

    def perturb(self, source, mechanism, key, sink, **options):
        return LocalEngine().perturb(source, mechanism, key, sink, **{**options, "shuffle": False})


@dataclasses.dataclass(frozen=True)
class Trusting(LocalEngine):
    """Does not look whether the records are those of the content."""

    def perturb(self, source, mechanism, key, sink, **options):
        return LocalEngine().perturb(source, mechanism, key, sink, **{**options, "whole": False})


@dataclasses.dataclass(frozen=True)
class Miscounting(LocalEngine):
    """Counts one record too many."""

    def count(self, source, codebook, variables, **options):
        found = LocalEngine().count(source, codebook, variables, **options)
        more = np.zeros_like(found.counts)
        more.flat[0] = 1
        return dataclasses.replace(found, counts=found.counts + more)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (OtherKey(), "other records"),
        (Unshuffled(), "other records"),
        (Trusting(), "nothing was refused"),
        (Miscounting(), "other counts"),
    ],
)
def test_an_engine_that_breaks_a_law_is_caught(engine, said):
    with pytest.raises(AssertionError, match=said):
        of_engines.check(engine)


def naive(frame, variable, mechanism, weights=None, strata=None):
    """Take the released records for the true ones."""
    return proportions(frame, variable, of_estimators.elsewhere(), weights, strata)


def doubled(frame, variable, mechanism, weights=None, strata=None):
    """Take weights of 1 for something else."""
    found = proportions(frame, variable, mechanism, weights, strata)
    return found if weights is None else dataclasses.replace(found, value=2 * found.value)


def shown_alone(frame, variable, mechanism, weights=None, strata=None):
    """Take the released values of the records of a split that show the variable for true ones."""
    found = proportions(frame, variable, mechanism, weights, strata)
    if mechanism.split is None:
        return found
    values = frame[variable].to_pylist()
    seen = [values.count(category) for category in of_estimators.BOOK[variable].categories]
    return dataclasses.replace(found, value=np.array(seen) / sum(seen))


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        ({"ask": naive}, "standard errors from the true records"),
        ({"ask": doubled}, "weights of 1 change"),
        ({"ask": shown_alone}, "with a split"),
        ({"help": "No full stop"}, "not a sentence"),
        ({"name": "--shares"}, "no name to type"),
        ({"options": (WEIGHT, WEIGHT)}, "declared twice"),
        ({"ask": lambda frame, variable, mechanism: None}, "the function has no 'weights'"),
    ],
)
def test_an_estimator_that_breaks_a_law_is_caught(mutant, said):
    right = Estimator("shares", "A", "Shares of one variable.", proportions, (WEIGHT, STRATA), example="sex")
    of_estimators.check(right)
    with pytest.raises(AssertionError, match=said):
        of_estimators.check(dataclasses.replace(right, **mutant))


def test_a_refusal_has_to_be_the_right_one():
    with pytest.raises(AssertionError, match="nothing was refused"):
        refused(UsageError, "", lambda: None)
    with pytest.raises(AssertionError, match="got ZeroDivisionError"):
        refused(UsageError, "", lambda: 1 / 0)
    with pytest.raises(AssertionError, match="'why' is not in the error"):
        refused(UsageError, "why", lambda: formats.format_of("x.doc"))


def test_the_suites_need_no_test_framework():
    script = (
        "import sys; from postrand.testing import engines, estimators, formats; "
        "print(*({'pytest', 'hypothesis', 'pyspark', 'duckdb'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\s*", run.stdout)
