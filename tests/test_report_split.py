"""The report of a split release: what it shows, and that its corrected tables are those of the records."""

import html
import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import tomlkit

from postrand import estimate, formats, report
from postrand.certification.certificate import Claim, Facts, certify
from postrand.codebook import Codebook, Variable, not_released
from postrand.data import frames
from postrand.engines.frame import perturb
from postrand.engines.summary import _Counter
from postrand.errors import EstimationError
from postrand.estimate.split_counts import from_split_counts
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.split_shown import subsets_shown
from postrand.plan import load_plan
from postrand.privacy import DifferentialPrivacy
from postrand.report.split_values import MAX_SUBSETS, co_appearance, separate_worth, split_view
from postrand.support.randomness import ReleaseKey
from postrand.workflow import pipeline
from postrand.workflow.dossier_split import LEVELS, MEAN_HEAD, WAYS, WORTH, WORTH_HEAD
from tests.browser import browsing, faults, opened
from tests.split_cases import covariance_trace

SIZES = {"sex": 2, "age": 4, "area": 3, "job": 5}
BOOK = Codebook(tuple(Variable(n, "key", tuple(f"{n}{k}" for k in range(s))) for n, s in SIZES.items()))


def response(*names, epsilon=3.0):
    return Block(names, randomised_response(int(np.prod([SIZES[n] for n in names])), epsilon))


def mechanism(blocks=None):
    rows = np.random.default_rng(1).dirichlet(np.ones(6), 6) * 0.4 + 0.6 * np.eye(6)
    other = Block(("sex", "area"), TransitionMatrix.from_array(rows))
    chosen = blocks or [response("sex", "age", "job"), response("age", "area"), other, response("job", "sex")]
    return Mechanism([], BOOK, split=Split.of(np.full(len(chosen), 1 / len(chosen)), chosen))


def released(law, n=4_000):
    rng = np.random.default_rng(2)
    data = {name: [f"{name}{k}" for k in rng.binomial(s - 1, 0.4, n)] for name, s in SIZES.items()}
    return perturb(pd.DataFrame(data), law, ReleaseKey.from_seed(3))


def counted(frame, law):
    table = frames.to_arrow(frame, list(SIZES))
    codes = {n: not_released.encode(table.column(n), BOOK[n]) for n in SIZES}
    shown = subsets_shown(codes, law.split, SIZES)
    cells = []
    for k, block in enumerate(law.split.blocks):
        mine = [codes[n][shown == k].astype(int) for n in block.variables]
        number = np.ravel_multi_index(mine, [SIZES[n] for n in block.variables])
        cells.append(np.bincount(number, minlength=block.matrix.size))
    return np.bincount(shown, minlength=len(cells)), cells


@pytest.mark.parametrize("names", [("sex", "age"), ("sex",), ("area", "sex"), ("job", "age", "sex"), ("area", "age")])
def test_a_table_from_counts_is_that_from_records(names):
    law = mechanism()
    frame = released(law)
    wanted = estimate.table(frame, list(names), law)
    found = estimate.from_tally(from_split_counts(names, law, *counted(frame, law)))
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.standard_error, wanted.standard_error, rtol=1e-8)
    assert found.effective_sample_size == pytest.approx(wanted.effective_sample_size, rel=1e-8)


def test_a_table_that_no_subset_shows_is_refused():
    law = mechanism()
    with pytest.raises(EstimationError):
        from_split_counts(("area", "job"), law, *counted(released(law), law))


# -- the page ---------------------------------------------------------------------------------------------------------


def certified(law, epsilon):
    return certify(law, [Claim(DifferentialPrivacy(epsilon), law.variables)], Facts())


def summary_of(law, frame):
    counter = _Counter(law.codebook, law)
    for batch in frames.to_arrow(frame, list(law.codebook.names)).to_batches():
        counter.add(batch)
    return counter.summary()


def page_of(law, epsilon=20.0, n=4_000):
    return report.public_report(law, certified(law, epsilon), summary_of(law, released(law, n)), "data.parquet")


def words(page):
    """Return the text of a page, without the style and with single spaces."""
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


@pytest.fixture(scope="module")
def beside():
    """A split of three variables, and a block beside it."""
    blocks = [response("sex", "age", epsilon=3.0), response("age", "area", epsilon=2.5), response("sex", epsilon=1.0)]
    return Mechanism([response("job", epsilon=1.5)], BOOK, split=Split.of([0.5, 0.3, 0.2], blocks))


def test_the_guarantee_is_the_largest_subset_and_not_the_sum(beside):
    text = words(page_of(beside, 4.5))
    assert "the largest of their ε counts, once (the smallest is 1)" in text
    assert "The split: largest of its 3 subsets 3 " in text
    assert "Total, at most 4.5" in text  # 1.5 of the block, 3 of the worst subset
    assert "is not a missing value" in text
    assert "(not released)" in text


def test_the_picture_says_how_often_two_variables_appear_together(beside):
    page = page_of(beside)
    svg = ElementTree.fromstring(re.findall(r'<svg class="together".*?</svg>', page, re.S)[0])
    texts = [node.text for node in svg.iter("text")]
    wanted = {"sex": 70.0, "age": 80.0, "area": 30.0}  # by hand: .5 + .2, .5 + .3, .3
    assert [t for t in texts if t not in wanted] == ["70.0", "50.0", "80.0", "–", "30.0", "30.0"]
    assert svg.findtext("title") == "How often two variables appear in one record"
    assert svg.get("role") == "img"
    assert "0.00% to 50.00%" in (svg.findtext("desc") or "")
    text = words(page)
    assert "No record shows these pairs together" in text
    assert "sex and area." in text
    assert (
        "2 tables of two variables of the split that some record shows together (1 other pair is shown by none)" in text
    )
    assert "probability, in per cent, that one of the records is drawn to show both" in text
    assert text.count("Probability of being shown, %") == 2
    assert "sex 70.00 50.00 0.00 age 50.00 80.00 30.00 area 0.00 30.00 30.00" in text  # the table beside it


def test_every_number_of_a_subset_is_that_of_its_matrix(beside):
    text = words(page_of(beside))
    for names, share, size, epsilon in (("sex, age", 50, 8, 3.0), ("age, area", 30, 12, 2.5), ("sex", 20, 2, 1.0)):
        kept = 100 * math.exp(epsilon) / (math.exp(epsilon) + size - 1)
        row = re.search(rf"(?<!, ){names} {share}\.00 ([\d,]+) {size} {kept:.2f} {epsilon:g} ", text)
        assert row, names


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_worth_of_separate_blocks_is_that_of_their_covariance(epsilon):
    """By enumeration of true and released cells of two variables, each by randomised response."""
    joint = np.random.default_rng(5).dirichlet(np.ones(12)).reshape(3, 4)
    matrix = np.kron(randomised_response(3, epsilon).array, randomised_response(4, epsilon).array)
    trace = covariance_trace(joint, ["x", "y"], ["x", "y"], matrix, ["x", "y"])
    wanted = 1000 * (1 - (joint**2).sum()) / trace
    assert separate_worth(joint, (3, 4), epsilon, 1000) == pytest.approx(wanted, rel=1e-9)


def test_effective_sizes_of_the_page_are_those_of_the_tables(beside):
    frame = released(beside)
    view = split_view(beside, summary_of(beside, frame))
    assert {pair.names for pair in view.pairs} == {("sex", "age"), ("age", "area")}
    for pair in view.pairs:
        own = estimate.expected_precision(beside, list(pair.names), len(frame))
        assert pair.effective == pytest.approx(own.effective_sample_size, rel=1e-9)
    one, two = (pair.effective or 0.0 for pair in view.pairs)
    assert view.mean is not None
    assert view.mean[0] == pytest.approx(2 / (1 / one + 1 / two))
    assert co_appearance(beside.split, view.names).tolist() == view.together.tolist()
    first = words(page_of(beside))
    assert "A corrected table: sex by age" in first


def test_a_page_of_many_variables_and_subsets_stays_small_and_says_what_it_leaves_out():
    rng = np.random.default_rng(8)
    names = [f"v{k}" for k in range(40)]
    book = Codebook(tuple(Variable(n, "key", ("no", "yes", "other")) for n in names))
    sets = sorted({tuple(sorted(rng.choice(40, 3, replace=False))) for _ in range(300)})
    blocks = [Block(tuple(names[k] for k in at), randomised_response(27, 4.0)) for at in sets]
    law = Mechanism([], book, split=Split.of(rng.dirichlet(np.ones(len(blocks))), blocks))
    data = {n: rng.choice(["no", "yes", "other"], 3_000) for n in names}
    summary = summary_of(law, perturb(pd.DataFrame(data), law, ReleaseKey.from_seed(2)))
    page = report.public_report(law, certified(law, 4.0), summary, "data.parquet")
    assert len(page.encode()) < 2_000_000
    assert f"The {MAX_SUBSETS} most frequent of {len(blocks)} subsets are shown" in words(page)
    assert "those that most records show" in words(page)
    assert words(page).count(" more.") == 1  # pairs that no record shows


def test_a_page_is_the_same_twice(beside):
    assert page_of(beside) == page_of(beside)


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_is_accessible(beside, tmp_path):
    (tmp_path / "report.html").write_text(page_of(beside), encoding="utf-8")
    with browsing() as browser, opened(browser, (tmp_path / "report.html").as_uri()) as page:
        page.locator("summary").click()
        assert faults(page) == []


# -- the internal report ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A survey, its plan with a split, and what the run says inside the agency."""
    folder = tmp_path_factory.mktemp("inside")
    rng = np.random.default_rng(4)
    data = {name: [f"{name}{k}" for k in rng.binomial(s - 1, 0.4, 3_000)] for name, s in SIZES.items()}
    pd.DataFrame(data).to_parquet(folder / "survey.parquet")
    book = {"variables": [{"name": v.name, "role": v.role, "categories": list(v.categories)} for v in BOOK.variables]}
    (folder / "codebook.toml").write_text(tomlkit.dumps(book), encoding="utf-8")
    return folder


def run(folder, out, epsilon=4.0, prior="file"):
    plan = {
        "source": {"file": "survey.parquet", "codebook": "codebook.toml"},
        "privacy": {"model": "differential", "epsilon": epsilon},
        "split": {"variables": list(SIZES), "prior": prior},
    }
    (folder / "plan.toml").write_text(tomlkit.dumps(plan), encoding="utf-8")
    pipeline.run(
        load_plan(folder / "plan.toml"), out / "release", release_key=ReleaseKey.from_seed(7), dossier=out / "dossier"
    )
    return json.loads((out / "dossier" / "dossier.json").read_text("utf-8")), (
        out / "dossier" / "dossier.html"
    ).read_text("utf-8")


def test_the_dossier_compares_the_split_with_blocks_and_other_levels(inside, tmp_path):
    data, page = run(inside, tmp_path)
    ways = {row["Way"]: row for row in data["split"][WAYS]}
    assert list(ways) == ["Separate blocks", "Joint blocks", "Split"]
    worth = [float(row[MEAN_HEAD].replace(",", "")) for row in ways.values()]
    assert worth[0] <= worth[1] <= worth[2]
    assert [row["ε"] for row in data["split"][LEVELS]] == ["2", "3", "4", "5", "6"]
    assert len(data["split"][WORTH]) == 6
    text = words(page)
    assert "a split is worth for each table if it is designed with the tables of the file" in text
    sheet = words((tmp_path / "dossier" / "decision.html").read_text("utf-8"))  # has the claims, and is beside it
    assert "equally likely combinations of values, " in sheet
    own = {" × ".join(t["table"]): t["effective_records"] for t in data["figures"]["worth"]["with_the_file"]}
    for row in data["split"][WORTH]:  # this plan's prior is the file: it has the same subsets
        assert float(row[WORTH_HEAD].replace(",", "")) == pytest.approx(own[row["Table"]], rel=0.02)
    assert "the attacker also sees which variables each record shows" in text
    row = re.findall(r"Informed attacker: correct matches, all 3,000 persons (.*?) Informed", text)[0]
    assert "not computed" not in row
    assert data["counts"]["sex"] == {
        f"sex{k}": int(n) for k, n in enumerate(np.bincount(np.random.default_rng(4).binomial(1, 0.4, 3_000)))
    }


def test_the_dossier_of_a_split_reads_the_file_no_more_often(inside, tmp_path, monkeypatch):
    readings = []
    inner = formats.parquet.ParquetSource.batches

    def noted(self, *arguments, **options):
        if self.path.name == "survey.parquet":
            readings.append(self.path.name)
        return inner(self, *arguments, **options)

    monkeypatch.setattr(formats.parquet.ParquetSource, "batches", noted)
    run(inside, tmp_path, prior="uniform")
    assert len(readings) == 2  # what every run reads: to count, and to release
