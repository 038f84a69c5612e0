"""Drawings of metric budgets in the report: what they show, byte for byte the same, accessible."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import Claim, ReleaseKey, certify, load_plan, run, verify
from postrand.codebook import Codebook, Variable
from postrand.codebook.category_distances import edges_from, points_from, ranks, shortest_paths
from postrand.designers import Exponential, design
from postrand.errors import PrivacyError, SpecificationError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from postrand.objectives import ExpectedDistance
from postrand.privacy import MetricPrivacy
from postrand.report import maps, svg
from postrand.report.html import MAX_DRAWN
from tests.browser import browsing, chromium, looked_at, opened, violations
from tests.test_report import one, page_of, summary_of

REGION = Variable("region", role="key", categories=("N", "E", "S"))
SQUARE = ((0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 1.0))
CORNERS = ((0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0))


def law(edges, size):
    return design(np.full(size, 1 / size), MetricPrivacy(1.0, edges), ExpectedDistance(edges), Exponential()).matrix


def paths(drawing):
    """Return the corners of each path by its class."""
    found = re.findall(r'<path class="(\w+)" d="M([^"]*?)Z?"/>', str(drawing))
    return {name: np.array([pair.split() for pair in d.split("L")], dtype=float) for name, d in found if "L" in d}


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(str(text))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def of(self, tag, name=None):
        return [a for t, a in self.found if t == tag and (name is None or a.get("class") == name)]


@pytest.mark.parametrize("size", [3, 17, 450])
def test_a_fan_shows_the_quantiles_of_the_released_rank(size):
    rng = np.random.default_rng(size)
    weights = TransitionMatrix.from_array(rng.dirichlet(np.full(size, 0.5), size=size)).weights
    drawn = paths(maps.fan(weights, [str(k) for k in range(size)]))
    shown = sorted({round(x) for x in np.linspace(0, size - 1, min(size, 200))})
    inside = maps.HEIGHT - 34 - 8
    for name, low, high in (("wide", 0, 4), ("half", 1, 3)):
        corners = drawn[name]
        assert len(corners) == 4 * len(shown)
        for k, i in enumerate(shown):
            total, bounds = 0, []
            for j in range(size):  # the definition: the first rank that reaches the share
                total += int(weights[i, j])
                bounds += [j] * sum(total >= int(q * UNIT) > total - int(weights[i, j]) for q in maps.QUANTILES)
            tops = corners[2 * k : 2 * k + 2, 1]
            assert tops == pytest.approx([186 - inside * (bounds[high] + 1) / size] * 2, abs=0.06)
            bottoms = corners[::-1][2 * k : 2 * k + 2, 1]
            assert bottoms == pytest.approx([186 - inside * bounds[low] / size] * 2, abs=0.06)
    assert drawn["middle"][:, 0].min() >= 44
    assert drawn["middle"][:, 0].max() <= maps.WIDTH


def test_a_curve_of_reach_is_the_share_within_each_distance():
    edges = ((0, 1, 1.0), (1, 2, 0.5), (2, 3, 1.5), (0, 3, 2.0))
    matrix, distance = law(edges, 4).array, shortest_paths(edges, 4)
    drawn = paths(maps.reach(matrix, distance))["half"]
    half = len(drawn) // 2
    for k, d in enumerate(np.linspace(0, distance.max(), half // 2 + 1)[:-1]):
        shares = [sum(matrix[i, j] for j in range(4) if distance[i, j] <= d * (1 + 1e-9)) for i in range(4)]
        assert drawn[2 * k, 1] == pytest.approx(186 - 178 * max(shares), abs=0.06)
        assert drawn[::-1][2 * k, 1] == pytest.approx(186 - 178 * min(shares), abs=0.06)


def test_a_map_shades_each_place_by_its_probability():
    matrix = law(SQUARE, 4)
    drawn, words = maps.picture(matrix.weights, MetricPrivacy(1.0, SQUARE, CORNERS), list("abcd"))
    tags = Tags(drawn)
    panels = tags.of("svg")
    assert 1 <= len(panels) <= 3
    assert "ringed" in words
    dots = [a for a in tags.of("circle") if a["class"] != "true"]
    assert len(dots) == 4 * len(panels)
    ring = tags.of("circle", "true")[0]
    true = next(k for k, a in enumerate(dots[:4]) if (a["cx"], a["cy"]) == (ring["cx"], ring["cy"]))
    assert [a["class"] for a in dots[:4]] == [f"h{svg.shade(p)}" for p in matrix.array[true]]
    assert (float(dots[0]["cx"]), float(dots[0]["cy"])) == (14.0, 196.0)  # the south-west corner
    assert (float(dots[2]["cx"]), float(dots[2]["cy"])) == (196.0, 14.0)  # the north-east
    assert tags.of("path", "line")[0]["d"].count("M") == 4


def test_equal_categories_are_chosen_alike_whatever_the_last_digits():
    """All four corners move values equally far: sums that differ in the last digit must not change the page."""
    matrix, metric = law(SQUARE, 4).array, MetricPrivacy(1.0, SQUARE, CORNERS)
    shaken = matrix * (1 + 1e-15 * np.random.default_rng(0).normal(size=(4, 4)))
    assert maps.map_of(matrix, metric, list("abcd")) == maps.map_of(shaken, metric, list("abcd"))


def test_each_kind_of_distance_has_its_drawing():
    for metric, title in (
        (MetricPrivacy(2.0, ranks(4)), "Released category by true category"),
        (MetricPrivacy(2.0, SQUARE), "Share of releases by distance"),
        (MetricPrivacy(2.0, SQUARE, CORNERS), "Where values of c0 are released"),
    ):
        mechanism = one(law(metric.edges, 4))
        page = page_of(mechanism, summary_of(mechanism), certify(mechanism, [metric]))
        assert f"<title>{title}</title><desc>" in page
        assert 'role="img"' in page
        assert page == page_of(mechanism, summary_of(mechanism), certify(mechanism, [metric]))
    assert "<desc>" not in page_of(mechanism, summary_of(mechanism))


def test_markup_in_names_stays_text():
    drawn = maps.fan(law(ranks(3), 3).weights, ["<b>x", "y", '"&'])
    assert "<b>" not in drawn
    assert "&lt;b&gt;x" in drawn


PLAN = """
[source]
file = "people.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 30.0
[[blocks]]
variables = ["region"]
objective = "distance"
structure = "exponential"
[blocks.privacy]
model = "metric"
epsilon = 1.0
distance = DISTANCE
"""
POINTS = '[["N", 0, 3], ["E", 2, 1], ["S", 0, 0]]'
EDGES = '[["N", "E"], ["E", "S"]]'
DRAWN = {
    f'{{ kind = "coordinates", points = {POINTS} }}': "Where values of",
    f'{{ kind = "adjacency", edges = {EDGES}, points = {POINTS} }}': "Where values of",
    '{ kind = "adjacency", edges = [["N", "E"], ["E", "S"], ["N", "S", 1.5]] }': "Share of releases by distance",
    '"ranks"': "Released category by true category",
}


def planned(folder, distance, missing="error"):
    table = pa.table({"region": np.array(["N", "E", "S"])[np.random.default_rng(0).integers(3, size=500)]})
    pq.write_table(table, folder / "people.parquet")
    text = f'[[variables]]\nname = "region"\nrole = "key"\ncategories = ["N", "E", "S"]\nmissing = "{missing}"\n'
    (folder / "codebook.toml").write_text(text)
    (folder / "plan.toml").write_text(PLAN.replace("DISTANCE", distance))
    return run(load_plan(folder / "plan.toml"), folder / "out", release_key=ReleaseKey.from_seed(3))


@pytest.mark.parametrize("distance", DRAWN)
def test_drawings_are_made_again_from_the_release(tmp_path, distance):
    release = planned(tmp_path, distance)
    assert verify(release.path).ok
    assert f"<title>{DRAWN[distance]}" in (release.path / "report.html").read_text()
    claims = json.loads((release.path / "certificate.json").read_text())["claims"]
    points = next(c["privacy"]["points"] for c in claims if c["privacy"]["model"] == "metric")
    assert points == ([[0, 3], [2, 1], [0, 0]] if "points" in distance else [])


def test_a_missing_category_is_drawn_by_its_distance(tmp_path):
    distance = f'{{ kind = "coordinates", points = {POINTS}, missing = 2.0 }}'
    release = planned(tmp_path, distance, "category")
    assert verify(release.path).ok
    assert "<title>Share of releases by distance" in (release.path / "report.html").read_text()
    assert release.mechanism.blocks[0].matrix.size == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"edges": [["N", "E"], ["E", "S"]], "points": [["N", 0, 0]]}, "'E' has no coordinates"),
        ({"edges": [["N", "E"], ["E", "S"]], "points": [["X", 0, 0]]}, "'X' is not a category"),
        ({"edges": [["N", "E"], ["E", "S"]], "points": 5}, "is not valid"),
        (
            {"edges": [["N", "E"], ["E", "S"]], "points": [["N", "a", "b"], ["E", 0, 0], ["S", 0, 0]]},
            "real numbers|fini",
        ),
    ],
)
def test_wrong_points_are_explained(data, message):
    with pytest.raises(SpecificationError, match=message):
        edges_from({"kind": "adjacency", **data}, [REGION])


def test_points_in_three_dimensions_are_not_drawn():
    data = {"kind": "coordinates", "points": [["N", 0, 0, 0], ["E", 1, 0, 0], ["S", 0, 1, 1]]}
    assert len(edges_from(data, [REGION])) == 3
    assert points_from(data, REGION) == ()


@pytest.mark.parametrize("points", [CORNERS[:3], ((0.0, np.nan),) * 4, (1.0, 2.0), 5, "ab"])
def test_a_claim_has_a_point_for_each_category_or_none(points):
    with pytest.raises((PrivacyError, SpecificationError), match="point"):
        MetricPrivacy(1.0, SQUARE, points)


def test_only_so_many_are_drawn():
    book = Codebook(tuple(Variable(f"v{k}", role="key", categories=tuple("abcd")) for k in range(MAX_DRAWN + 2)))
    mechanism = Mechanism([Block((v.name,), law(ranks(4), 4)) for v in book.variables], book)
    claims = [Claim(MetricPrivacy(2.0, ranks(4)), (v.name,)) for v in book.variables]
    page = page_of(mechanism, summary_of(mechanism), certify(mechanism, claims))
    assert page.count("<title>Released category") == MAX_DRAWN
    assert page.count("How far the released value") == MAX_DRAWN + 2


def test_large_maps_keep_the_page_small():
    side = 17  # 289 places on a grid
    places = tuple((float(k % side), float(k // side)) for k in range(side**2))
    edges = tuple((i, k, 1.0) for i in range(side**2) for k in (i + 1, i + side)
                  if k < side**2 and (k == i + side or k % side))  # fmt: skip
    matrix, metric = law(edges, side**2), MetricPrivacy(1.0, edges, places)
    names = tuple(f"a long name of region number {k}" for k in range(side**2))
    book = Codebook(tuple(Variable(f"v{k}", role="key", categories=names) for k in range(MAX_DRAWN)))
    mechanism = Mechanism([Block((v.name,), matrix) for v in book.variables], book)
    page = page_of(
        mechanism, summary_of(mechanism), certify(mechanism, [Claim(metric, (v.name,)) for v in book.variables])
    )
    assert page.count('class="map"') == 3 * MAX_DRAWN
    assert len(page.encode()) < 1_500_000


def test_pages_with_drawings_have_no_violation(tmp_path):
    chromium()
    with browsing() as browser:
        for metric in (MetricPrivacy(2.0, ranks(4)), MetricPrivacy(2.0, SQUARE, CORNERS)):
            mechanism = one(law(metric.edges, 4))
            path = tmp_path / "report.html"
            path.write_text(page_of(mechanism, summary_of(mechanism), certify(mechanism, [metric])), "utf-8")
            with opened(browser, path.as_uri()) as page:
                for _ in looked_at(page):
                    assert violations(page) == []
                box = page.locator("svg[role=img]").first.bounding_box()
                assert box is not None
                assert box["width"] > 100
