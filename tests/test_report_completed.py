"""The page of completed files: what it shows, that it is safe, and that it stands in the report of a release."""

import base64
import hashlib
import html
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from postrand import report
from postrand.completion.diagnostics import diagnose
from postrand.completion.diagnostics_relations import Relation, Relations
from postrand.errors import DataError
from postrand.estimate.evidence_variables import WEAKER
from postrand.mixture import Draw, Fit, Settings
from postrand.report.completed_pictures import beside, predicted, top_of, trace
from tests.mixture_cases import mixture_table, mixture_truth, release, response, split


def told_of(*, right, laws=None):
    """Return what ``completed.json`` says of a model, right or without any relation."""
    rng = np.random.default_rng(1)
    evidence = release(mixture_truth(1_500, rng), laws or split(), rng)
    thetas = [np.random.default_rng(5 + j).dirichlet(np.full(s, 0.7), 3) for j, s in enumerate(evidence.sizes)]
    draw = Draw(np.array([0.5, 0.3, 0.2, 0, 0]), tuple(np.concatenate([t, t[:2]]) for t in thetas))
    if not right:
        draw = Draw(np.eye(5)[0], tuple(np.tile(mixture_table((j,)), (5, 1)) for j in range(4)))
    traces = rng.normal(size=(2, 300, 2)) * 0.01 + 0.3
    fit = Fit(evidence, Settings(), 3, (draw,) * 4, traces, ("a[0]", "<b>[1]"), np.full((2, 300), 3))
    labels = [[f"<i>{name}{k}" for k in range(size)] for name, size in zip("abcd", evidence.sizes, strict=True)]
    found = json.loads(json.dumps(diagnose(fit, labels, {"income": "moved in rank"}).to_dict()))
    return {
        "file": "completed.csv",
        "copies": 4,
        "records": 1_500,
        "perturbed": list("abcd"),
        "seed": 3,
        "problems": found["problems"],
        "warnings": found["warnings"],
        "diagnostics": found,
    }


def text_of(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def require_allowed_styles(page):
    """Every style element is allowed by the page's own policy: a browser drops all others, and lines become areas."""
    for style in re.findall(r"<style>(.*?)</style>", page, re.DOTALL):
        assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in page.partition("<title>")[0]
    assert ".fit .chain" in page


def test_the_page_says_which_file_to_open_and_what_the_tests_found():
    told = told_of(right=True)
    page = report.completed_report(told, "data.csv")
    require_allowed_styles(page)
    assert page == report.completed_report(told, "data.csv")
    text = text_of(page)
    for wanted in (
        "completed.csv",
        "data.csv",
        "Rubin",
        "No test of the model failed",
        "income",
        "6,000 records",
        WEAKER,
    ):
        assert wanted in text
    assert "<i>a0" not in page, "labels are escaped"
    assert "&lt;i&gt;a0" in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_model_that_failed_is_announced():
    told = told_of(right=False)
    text = text_of(report.completed_report(told, "data.csv"))
    assert "The model failed a test" in text
    for problem in told["problems"]:
        assert " ".join(problem.split()) in text


def test_what_rests_on_the_model_alone_is_said():
    told = told_of(right=True, laws=[response((0, 1)), response((2, 3))])
    text = text_of(report.completed_report(told, "data.csv"))
    assert "alone: no record shows both" in text


def test_relations_to_unperturbed_columns_are_listed():
    told = told_of(right=True)
    assert "Relations to unperturbed columns" not in report.completed_report(told, "data.csv")  # there are none
    one, two = Relation(("a",), "<i>pay", 1.1, 0.4), Relation(("a", "b"), "<i>pay", 7.25, 0.003)
    told["diagnostics"]["relations"] = Relations((one, two), ("a by b on <i>pay",)).to_dict()
    page = report.completed_report(told, "data.csv")
    assert "<i>pay" not in page
    text = text_of(page)
    assert "2 relations, together p = 0.006" in text
    assert "moved to what two variables do together: a by b on <i>pay." in text
    assert text.index("a by b <i>pay 7.25") < text.index("a <i>pay 1.1")  # what differs most stands first


def test_pictures_have_the_numbers_where_they_belong():
    drawing = ElementTree.fromstring(str(predicted([[0.1, 0.1, 0.0], [0.3, 0.1, 9.0], [None, 0.1, 0.0]])))
    circles = [one for one in drawing.iter() if one.tag == "circle"]
    assert [one.get("class") for one in circles] == ["near", "far"]
    assert float(circles[1].get("cy")) < float(circles[0].get("cy")), "a larger share is higher"
    assert circles[0].get("cx") == circles[1].get("cx")
    lines = ElementTree.fromstring(str(trace([[0.1, 0.2, 0.3], [0.3, 0.2, None]])))
    paths = [one for one in lines.iter() if one.tag == "path" and "chain" in one.get("class", "")]
    assert len(paths) == 2
    heights = [float(part.split()[1]) for part in paths[0].get("d", "")[1:].split("L")]
    assert heights == sorted(heights, reverse=True)
    assert str(trace([[None]])) == str(predicted([])) == ""


def test_two_intervals_of_one_share():
    row = ElementTree.fromstring(str(beside(0.2, 0.01, 0.25, 0.02, 0.5)))
    dot, ring = (next(one for one in row.iter() if one.get("class") == kind) for kind in ("dot", "ring"))
    assert float(dot.get("cx")) == pytest.approx(6 + 208 * 0.4, abs=0.1)
    assert float(ring.get("cx")) == pytest.approx(6 + 208 * 0.5, abs=0.1)
    alone = ElementTree.fromstring(str(beside(0.2, 0.01, None, None, 0.5)))
    assert not [one for one in alone.iter() if one.get("class") in ("ring", "other")]
    assert top_of([[0.55], [None]]) == 0.6


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.clear(),
        lambda found: found.update(rests_on_model=[{"variables": ["a", "b"]}]),
        lambda found: found.update(shares=3),
        lambda found: found["convergence"].update(largest_r_hat="large"),
        lambda found: found["released_tables"].update(points=[[1, 2]]),
    ],
)
def test_results_in_another_form_are_refused(change):
    told = told_of(right=True)
    change(told["diagnostics"])
    with pytest.raises(DataError, match="not in the form of this version"):
        report.completed_report(told, "data.csv")
