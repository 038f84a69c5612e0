"""Half-widths of intervals, known before the release: against weighted estimates of simulated files."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.data.frames import TableSource
from postrand.estimate import expected_precision
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix
from postrand.support.randomness import ReleaseKey
from postrand.workflow.advice_needs import JUDGED, Precision, needs_from
from postrand.workflow.advice_plan import Asked
from postrand.workflow.advice_text import _met
from postrand.workflow.half_widths import Drawn, drawn_of, half_width, kish, of_households

SEX, AREA = Variable("sex", role="key", categories=("f", "m")), Variable("area", role="key", categories=("a", "b", "c"))
WEIGHT = Variable("w", role="weight")
BOOK = Codebook((SEX, AREA, WEIGHT), survey=SurveyDesign(weights="w"))
LAW = Mechanism(
    {
        v.name: TransitionMatrix.from_array(np.full((v.size, v.size), 0.25 / v.size) + 0.75 * np.eye(v.size))
        for v in (SEX, AREA)
    },
    codebook=BOOK,
)
N, RELEASES = 1500, 12


@pytest.fixture(scope="module")
def released() -> tuple[list[pa.Table], float]:
    """Releases of files with weights that have nothing to do with the values, and the weights' mean factor."""
    rng = np.random.default_rng(5)
    files, factors = [], []
    for k in range(RELEASES):
        weights = np.round(rng.lognormal(0, 0.7, N), 2) + 0.01
        names = {v.name: rng.choice(v.categories, N) for v in (SEX, AREA)}
        files.append(pr.perturb(pa.table({**names, "w": weights}), LAW, release_key=ReleaseKey.from_seed(k)))
        factors.append(N * (weights**2).sum() / weights.sum() ** 2)
    return files, float(np.mean(factors))


@pytest.mark.parametrize("table", [("sex",), ("sex", "area")])
def test_the_prediction_is_what_weighted_estimates_have(released, table):
    files, factor = released
    assert factor > 1.4  # without it, intervals would seem shorter by a sixth
    found = half_width(LAW, Precision(1, table), N, Drawn("w", factor, N))
    ends = [pr.estimate.table(file, table, LAW, design=BOOK.survey).interval() for file in files]
    widths = 100 * np.array([(high - low).mean() / 2 for low, high in ends])  # of all cells: their shares are alike
    error = widths.std(ddof=1) / RELEASES**0.5
    assert found is not None
    assert found.alike == pytest.approx(widths.mean(), rel=0.03)
    assert found.most >= found.alike * (1 - 1e-12)
    assert found.most > widths.mean() - 3 * error


def test_weights_that_go_with_the_values_make_intervals_longer_and_the_line_says_the_condition():
    """Of the largest weights all are in one cell: its interval is longer than the figure, which holds for others."""
    sex = np.array(["f"] * 60 + ["m"] * 1440)
    table = pa.table({"sex": sex, "w": np.where(sex == "f", 12.0, 1.0)})
    clear = Mechanism({"sex": TransitionMatrix.identity(2)}, Codebook((SEX, WEIGHT)))
    drawn = drawn_of(BOOK, TableSource(table))
    found = half_width(clear, Precision(1, ("sex",)), N, drawn)
    low, high = pr.estimate.table(table, ["sex"], clear, weights="w").interval()
    assert found is not None
    assert 100 * float((high - low)[0] / 2) > found.most
    said = _met(Asked("3 points for sex", None, found.most, False, found.alike, False, drawn), "")
    assert "at the least favourable shares, weighted by w if its values have nothing to do with the table;" in said


def test_what_is_counted_is_read_from_the_weights_alone():
    frame = pa.table({"w": [1.0, 1.0, 4.0], "h": [1, 1, 2]})
    own = Codebook((WEIGHT, Variable("h", role="household")))
    found = drawn_of(own, TableSource(frame))
    assert (found.weight, found.effect, found.clusters) == ("w", pytest.approx(1.5), "h")
    assert "3 records count as 2" in found.sentences[0]
    assert "Households as clusters (h) can make intervals longer" in found.sentences[1]
    assert Asked("5 points for sex", None, 4.0, True, 3.0, True, found).verdict == (
        "met, households as clusters not counted"
    )
    assert "every record counts once" in Drawn().sentences[0]
    assert kish(np.array([1.0, -1.0])) is kish(np.zeros(2)) is None
    assert half_width(LAW, Precision(1, ("sex",)), N, Drawn("w", None)) is None


@pytest.mark.parametrize("table", [("sex",), ("area",), ("sex", "area")])
def test_the_least_favourable_shares_have_half_of_the_records_or_more_in_the_cell(table):
    """By trying shares of one cell, the rest being spread over the others or all in one of them: as ``JUDGED`` says."""
    size = {("sex",): 2, ("area",): 3, ("sex", "area"): 6}[table]
    shape = tuple(variable.size for variable in (SEX, AREA) if variable.name in table)
    most = {}
    for share in np.linspace(0, 1, 21):
        rest = [np.full(size - 1, (1 - share) / (size - 1)), *((1 - share) * row for row in np.eye(size - 1))]
        laws = [np.concatenate([[share], one]).reshape(shape) for one in rest]
        errors = [expected_precision(LAW, table, N, law).standard_error.flat[0] for law in laws]
        most[float(share)] = max(errors)
    worst = float(expected_precision(LAW, table, N).worst.flat[0])
    assert max(most.values()) == pytest.approx(worst, rel=0.01)
    assert max(most.values()) <= worst * (1 + 1e-12)
    assert max(most, key=most.__getitem__) >= 0.5 - 1e-9
    line = needs_from(precisions=["2 points for sex"]).lines()[-1]
    assert line == f"  precision ± 2 points for sex: {JUDGED}"


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 5.0, 1.0, 0.5, 3.0]])
def test_members_that_stand_for_households_have_the_variance_of_every_choice(weights):
    """Brute force: the mean of ``Σ (k w)² / (Σ w)²`` over all choices of one member of each household."""
    houses = [7, 7, 7, 8, 8, None]
    columns = {"hid": pa.array(houses)} | ({} if weights is None else {"w": pa.array(weights)})
    drawn = Drawn() if weights is None else Drawn("w", kish(np.array(weights)), 6)
    found = of_households(drawn, TableSource(pa.table(columns)), "hid")
    each = np.ones(6) if weights is None else np.array(weights)
    groups = [(0, 1, 2), (3, 4), (5,)]
    choices = [
        sum((len(group) * each[one]) ** 2 for group, one in zip(groups, chosen, strict=True))
        for chosen in itertools.product(*groups)
    ]
    assert found.sizes == {1: 1, 2: 1, 3: 1}
    assert found.of_members.effect is not None
    of_sizes = sum(size**2 * many for size, many in found.sizes.items()) / 6**2
    assert found.of_members.effect * of_sizes == pytest.approx(np.mean(choices) / each.sum() ** 2)
