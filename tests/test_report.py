"""The page is a pure, safe and readable function of the release, and its numbers are the estimators'."""

import dataclasses
import itertools
import math
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import estimate, release, report
from postrand.certification.account import record_account
from postrand.certification.certificate import Certificate, Claim, Facts, certify
from postrand.codebook import Codebook, Variable
from postrand.codebook.category_distances import coordinates, ranks, shortest_paths
from postrand.engines.summary import Summary, summarise
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy import MetricPrivacy
from postrand.report import svg, text
from postrand.report.distances import MAX_BANDS, moves
from postrand.report.values import page_values
from postrand.support import options
from postrand.support.exact import format_upper
from tests.release_case import CLAIMS, LAW, RECORDS, make, writer_of

STYLE = Path(report.__file__).parent / "templates" / "style.css"
VOID = {"meta", "br", "rect", "circle", "path"}


class Page(HTMLParser):
    """Parse a page strictly: every element is closed in order; keeps tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def page_of(mechanism: Mechanism, summary: Summary, certificate: Certificate | None = None) -> str:
    return report.public_report(mechanism, certificate or certify(mechanism), summary, "data.csv")


def summary_of(mechanism: Mechanism, seed: int = 3) -> Summary:
    """Draw released counts for blocks of one variable each."""
    rng = np.random.default_rng(seed)
    counts = tuple(rng.multinomial(1000, np.full(b.matrix.size, 1 / b.matrix.size)) for b in mechanism.blocks)
    names = [b.variables[0] for b in mechanism.blocks]
    return Summary(1000, counts, dict(zip(names, counts, strict=True)), (), np.zeros((), dtype=np.int64))


def one(matrix: TransitionMatrix, name: str = "x", labels: tuple[str, ...] = ()) -> Mechanism:
    categories = tuple(f"c{i}" for i in range(matrix.size))
    return Mechanism(
        [Block((name,), matrix)], Codebook((Variable(name, role="key", categories=categories, labels=labels),))
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> release.Release:
    return make(tmp_path_factory.mktemp("report") / "release")


@pytest.fixture(scope="module")
def html(written: release.Release) -> str:
    return (written.path / "report.html").read_text("utf-8")


def test_the_page_is_whole_and_says_what_it_must(html: str) -> None:
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    links = [str(attributes["href"]) for tag, attributes in page.tags if tag == "a"]
    assert len(set(ids)) == len(ids)
    assert {link.removeprefix("#") for link in links} <= set(ids)
    for words in (
        "What is guaranteed",
        "sex, region, work, hours",
        "ε <= 4.5",
        "What is not guaranteed",
        "If the same persons are in another release, earlier or later, whoever puts the two side by side",
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: weight.",
        "chosen with the confidential records",
        "jointly with hours",
        "pr.estimate.proportions(frame,",
        "postrand_table(data,",
        "postrand verify",
        LAW.digest(),
        f"{RECORDS:,}",
    ):
        assert words in page.text
    assert "Internal" not in page.text
    assert "not private" not in page.text


def test_nothing_on_the_page_reaches_out_or_runs(html: str) -> None:
    tags = {tag for tag, _ in Page(html).tags}
    assert tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"} == set()
    assert not re.search(r"https?:|//\w|@import|url\(|javascript:|\bon\w+=", html)
    assert "default-src 'none'" in html


def test_the_page_is_a_function_of_its_arguments(written: release.Release, html: str) -> None:
    summary = summarise(written.data_path, written.mechanism)
    certificate = certify(written.mechanism, CLAIMS, Facts())
    assert report.public_report(written.mechanism, certificate, summary, "data.parquet") == html


def test_numbers_are_those_of_the_estimators(written: release.Release, html: str) -> None:
    """One pass over counts gives what the analyst's functions give from the records."""
    found = page_values(written.mechanism, summarise(written.data_path, written.mechanism))
    frame = written.frame()
    words = Page(html).text
    for view in found.variables:
        if view.name == "town":  # not identified: its last category is never released
            assert view.unchanged is None
            continue
        expected = estimate.proportions(frame, view.name, written.mechanism)
        assert view.effective == pytest.approx(expected.effective_sample_size, rel=1e-9)
        if not view.partners:
            diagonal = written.mechanism[view.name].matrix.array.diagonal()
            assert view.unchanged == pytest.approx(float(expected.value @ diagonal), rel=1e-12)
            for value, error in zip(expected.value, expected.standard_error, strict=True):
                assert f"{text.percent(value)} {text.percent(error)}" in re.sub(" +", " ", words)


def test_a_joint_block_is_unchanged_variable_by_variable(written: release.Release) -> None:
    """Brute force over true and released cells."""
    found = page_values(written.mechanism, summarise(written.data_path, written.mechanism))
    block = written.mechanism["work"]
    assert block.cells is not None
    for position, name in enumerate(block.variables):
        kept = [
            sum(block.matrix.array[i, j] for j, b in enumerate(block.cells) if a[position] == b[position])
            for i, a in enumerate(block.cells)
        ]
        view = next(v for v in found.variables if v.name == name)
        assert (view.lowest, view.highest) == pytest.approx((min(kept), max(kept)), rel=1e-12)


def test_the_corrected_table_is_that_of_the_estimators(written: release.Release) -> None:
    table = page_values(written.mechanism, summarise(written.data_path, written.mechanism)).table
    assert table is not None
    expected = estimate.table(written.frame(), table.names, written.mechanism).counts()
    np.testing.assert_allclose(table.corrected, expected.value, rtol=1e-9)
    np.testing.assert_allclose(table.error, expected.standard_error, rtol=1e-9)


def test_what_is_not_identified_is_not_estimated(written: release.Release, html: str) -> None:
    town = next(
        b
        for b in page_values(LAW.bind(written.codebook), summarise(written.data_path, written.mechanism)).blocks
        if b.name == "town"
    )
    assert town.corrected is None
    assert "Shares are not corrected here: town: the release does not identify every frequency" in Page(html).text


def test_every_name_is_escaped() -> None:
    evil = '<script>alert("&")</script>'
    law = one(randomised_response(2, 1.0), evil, (f"{evil}1", f"{evil}2"))
    page = page_of(law, summary_of(law))
    assert "<script" not in page
    assert evil in Page(page).text
    assert "{{" not in page_of(one(randomised_response(2, 1.0), "{{ 7 * 7 }}"), summary_of(law)).replace(
        "{{ 7 * 7 }}", ""
    )


def test_names_cannot_leave_their_place_in_the_code() -> None:
    law = one(randomised_response(2, 1.0), 'a"]); system("ls") #')
    lines = Page(page_of(law, summary_of(law))).text
    assert r'postrand_table(data, "a\"]); system(\"ls\") #", release)' in lines
    assert text.one_line("a\nb\u2028c") == "a b c"


def test_the_python_code_of_the_page_runs(written: release.Release, html: str) -> None:
    code = next(block for block in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", html, re.DOTALL) if "pr." in block)
    spoken: dict[str, object] = {}
    exec(unescape(code).replace("path/to/release", str(written.path)), spoken)
    assert isinstance(spoken["shares"], estimate.Estimate)


def test_a_seeded_release_says_that_it_is_not_private() -> None:
    law = one(randomised_response(2, 1.0))
    page = page_of(law, summary_of(law), certify(law, (), Facts(key_is_private=False)))
    assert "This release is not private." in Page(page).text


def test_limits_that_have_no_room_are_counted() -> None:
    law = one(randomised_response(2, 1.0))
    certificate = dataclasses.replace(
        certify(law), limits=tuple({"code": "ids"} for _ in range(50)) + ({"code": "original_order"},) * 3
    )
    lines = Page(page_of(law, summary_of(law), certificate)).text
    assert lines.count("Record ids are released.") == 50
    assert "Records are in their original order." not in lines
    assert "3 further limits are in" in lines


def test_the_account_of_one_record_adds_up(html: str) -> None:
    spent = certify(LAW, CLAIMS, Facts()).account
    words = Page(html).text
    start = words.index("The account of one record", words.index("What is guaranteed"))
    account = words[start : words.index("What is not guaranteed")]
    for block, epsilon in zip(LAW.blocks, spent.blocks, strict=True):
        row = re.search(re.escape(" × ".join(block.perturbed)) + r" (\S+) (\S+)%", re.sub(" +", " ", account))
        assert row is not None
        assert row[1] == format_upper(epsilon)
        if math.isfinite(sum(spent.blocks)):
            assert float(row[2]) == pytest.approx(100 * epsilon / sum(spent.blocks), abs=0.006)
    assert f"Total, at most {format_upper(spent.total)}" in account
    assert "spent on its frequencies" not in account


def test_what_priors_spend_is_in_the_account() -> None:
    matrix, book = randomised_response(2, 1.0), one(randomised_response(2, 1.0)).codebook
    law = Mechanism([Block(("x",), matrix, provenance="dp", prior_epsilon=0.5)], book)
    words = Page(page_of(law, summary_of(law))).text
    assert "ε spent on its frequencies" in words
    assert re.search(r"x 1 0\.5 100\.00% *Total, at most 1\.5", words)


def test_a_block_without_epsilon_makes_the_total_infinite() -> None:
    law = one(TransitionMatrix.from_array([[1.0, 0.0], [0.5, 0.5]]))
    spent = record_account(law.blocks)
    certificate = Certificate("0" * 64, (), (), (), (), account=spent)
    words = Page(page_of(law, summary_of(law), certificate)).text
    assert f"x {format_upper(spent.blocks[0])} – Total, at most {format_upper(math.inf)}" in words


def brute_moves(matrix: np.ndarray, distance: np.ndarray, ends: tuple[float, ...]) -> list[list[float]]:
    """Add up, by the definition, what each category sends to each band of distance."""
    found = []
    for i in range(len(matrix)):
        row = [0.0] * len(ends)
        for j in range(len(matrix)):
            row[next(b for b, end in enumerate(ends) if distance[i, j] <= end + 1e-9)] += matrix[i, j]
        found.append(row)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_moves_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 12
    matrix = rng.dirichlet(np.full(size, 0.3), size=size)
    edges = ranks(size) if seed == 0 else coordinates(rng.random((size, 2)))
    distance = shortest_paths(edges, size)
    found = moves(matrix, edges)
    assert found.ends[-1] == pytest.approx(distance.max(), rel=1e-12)
    assert len(found.ends) <= MAX_BANDS
    np.testing.assert_allclose(found.shares, brute_moves(matrix, distance, found.ends), atol=1e-12)
    np.testing.assert_allclose(found.expected, [row @ d for row, d in zip(matrix, distance, strict=True)])
    for row, d, reach in zip(matrix, distance, found.reach, strict=True):
        assert row[d <= reach + 1e-9].sum() >= 0.95 - 1e-9
        assert row[d < reach - 1e-9].sum() < 0.95


@pytest.mark.parametrize("size", [5, 40])
def test_a_metric_block_shows_how_far_values_move(size: int) -> None:
    gap = np.abs(np.arange(size)[:, None] - np.arange(size))
    array = np.exp(-gap / 2)
    law = one(TransitionMatrix.from_array(array / array.sum(axis=1, keepdims=True)))
    certificate = certify(law, [MetricPrivacy(1.1, ranks(size))])
    page = page_of(law, summary_of(law), certificate)
    found = moves(law.blocks[0].matrix.array, ranks(size))
    shown = page_values(law, summary_of(law)).blocks[0].shown
    words = Page(page).text
    assert "How far the released value is from the true one" in words
    assert "Colours of the matrices" in words
    for k in shown:
        cells = [text.cell(p) for p in found.shares[k]]
        row = [f"c{k}", *cells, text.decimal(found.expected[k]), text.decimal(found.reach[k])]
        assert " ".join(row) in words
    assert (f"the largest {text.decimal(found.expected.max())}" in words) is (size > len(shown))
    assert f"edges = a list of {size - 1}, in certificate.json" in words
    assert "(0, 1, 1.0)" not in words
    assert "How far" not in Page(page_of(law, summary_of(law))).text  # no claim, no map


def test_places_and_edges_of_a_small_map_are_counted_and_not_spelt_out() -> None:
    metric = MetricPrivacy(1.1, ranks(3), points=((0.0, 0.0), (1.0, 0.5), (2.0, 0.0)))
    gap = np.abs(np.arange(3)[:, None] - np.arange(3))
    array = np.exp(-gap / 2)
    law = one(TransitionMatrix.from_array(array / array.sum(axis=1, keepdims=True)))
    words = Page(page_of(law, summary_of(law), certify(law, [metric]))).text
    assert "edges = a list of 2, in certificate.json" in words
    assert "points = a list of 3, in certificate.json" in words
    assert "0.5)" not in words
    assert options.describe(metric) == "metric (epsilon = 1.1, edges = a list of 2, points = a list of 3)"


def test_certainty_is_not_called_doubt() -> None:
    """The identity settles every true value: the page must not say that none is settled."""
    law = one(TransitionMatrix.identity(3))
    certificate = Certificate("0" * 64, (), (), (), ())
    assert "never reveals" not in page_of(law, summary_of(law), certificate)
    doubtful = one(randomised_response(3, 1.0))
    assert "never reveals" in page_of(doubtful, summary_of(doubtful))


def test_matrices_are_drawn_up_to_25_categories_and_summarised_beyond() -> None:
    small, large = one(randomised_response(25, 3.0)), one(randomised_response(26, 3.0))
    assert page_of(small, summary_of(small)).count('class="h') >= 25 * 25
    page = page_of(large, summary_of(large))
    assert "26 by 26 probabilities" in Page(page).text
    assert page.count('class="h') < 26


def test_no_records_and_few_records() -> None:
    law = one(randomised_response(3, 1.0))
    for counts in ([0, 0, 0], [1, 0, 0]):
        summary = Summary(sum(counts), (np.array(counts),), {"x": np.array(counts)}, (), np.zeros((), dtype=np.int64))
        assert "Shares are not corrected here" in Page(page_of(law, summary)).text


@pytest.mark.parametrize(("variables", "size"), [(400, 20), (1, 1000), (1, 1001), (60, 25)])
def test_the_page_stays_under_2_mb(variables: int, size: int) -> None:
    labels = tuple("ß&<" * 100 + str(i) for i in range(size))
    matrix = randomised_response(size, 1.0)
    book = Codebook(
        tuple(
            Variable(f"{'v' * 90}{k}", role="key", categories=tuple(range(size)), labels=labels, label="x" * 500)
            for k in range(variables)
        )
    )
    law = Mechanism([Block((v.name,), matrix) for v in book.variables], book)
    summary = summary_of(law)
    claims = [Claim(MetricPrivacy(20.0, ranks(size)), (v.name,)) for v in book.variables]
    page = page_of(law, summary, certify(law, claims))
    assert len(page.encode()) < 2_000_000
    assert Page(page).open == []


def test_the_internal_page_is_marked_and_adds_tables(written: release.Release) -> None:
    summary = summarise(written.data_path, written.mechanism)
    certificate = certify(written.mechanism, CLAIMS, Facts())
    sections = {
        "Risk <b>": [
            {"cell": "F, north", "tau1": 0.125, "count": 12345},
            {"cell": "M", "tau1": float("nan"), "count": 0},
        ],
        "Nothing": [],
        "Findings": [{"Finding": f"a long finding {'x' * 200} that ends here", "Why": f"{'y' * 200} at its end"}],
    }
    page = Page(report.internal_report(written.mechanism, certificate, summary, "data.parquet", sections))
    for words in ("Internal – not for release", "authorised staff", "Risk <b>", "0.1250", "12,345", "Nothing to show."):
        assert words in page.text
    for words in ("that ends here", "at its end"):
        assert words in page.text


# -- readable for everyone --------------------------------------------------------------------------------------------


def colours(scheme: str) -> dict[str, tuple[float, ...]]:
    """Return the custom colours of one scheme as red, green, blue in 0..1."""
    style = STYLE.read_text("utf-8")
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    part = light if scheme == "light" else dark[: dark.index("\n}")]
    found = re.findall(r"--([\w-]+): #([0-9a-f]{6})", part)
    return {name: tuple(int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)) for name, code in found}


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2, definition of relative luminance)."""

    def luminance(colour: tuple[float, ...]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    bright, dim = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_contrast_is_computed_as_the_standard_says() -> None:
    assert contrast((1, 1, 1), (0, 0, 0)) == pytest.approx(21)
    assert contrast((0x76 / 255,) * 3, (1, 1, 1)) == pytest.approx(4.54, abs=0.01)  # the textbook pair #767676


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_aa_contrast(scheme: str) -> None:
    shown = colours(scheme)
    pairs = [(t, page) for t in ("text", "soft", "accent") for page in ("page", "card")]
    pairs += [("warn-text", "warn-page")]
    pairs += [("low" if step <= 5 else "high", f"h{step}") for step in range(10)]
    assert {pair: round(c, 2) for pair in pairs if (c := contrast(shown[pair[0]], shown[pair[1]])) < 4.5} == {}
    drawn = [("accent", "page"), ("accent", "track"), ("ring", "page")]  # graphics: 3 to 1
    assert {pair: c for pair in drawn if (c := contrast(shown[pair[0]], shown[pair[1]])) < 3} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_heat_map_is_ordered_by_lightness(scheme: str) -> None:
    """An order that survives every kind of colour blindness, and print without colour."""
    shown = colours(scheme)
    steps = [contrast(shown[f"h{step}"], shown["page"]) for step in range(10)]
    assert all(a < b for a, b in itertools.pairwise(steps))


@given(st.lists(st.tuples(st.floats(-0.5, 1.2), st.floats(0, 0.5)), min_size=1, max_size=8))
def test_every_interval_is_drawn_inside_its_row(pairs: list[tuple[float, float]]) -> None:
    value = np.array([v for v, _ in pairs])
    low, high = value - [e for _, e in pairs], value + [e for _, e in pairs]
    start, end = svg.axis_end(np.append(low, 0), np.append(high, 0))
    assert start <= 0 < end
    for v, a, b in zip(value, low, high, strict=True):
        drawn = str(svg.interval(0.1, float(v), float(a), float(b), (start, end)))
        numbers = [float(x) for x in re.findall(r'c?x="([-\d.]+)"|M([-\d.]+) |H([-\d.]+)"', drawn) for x in x if x]
        assert all(0 <= x <= svg.WIDTH for x in numbers)
        assert len(numbers) >= 4


def test_a_verified_release_says_the_same_in_every_format(tmp_path: Path) -> None:
    law = Mechanism([Block(("x",), randomised_response(2, 1.0))], one(randomised_response(2, 1.0)).codebook)
    table = pa.table({"x": ["c0", "c1"] * 50})
    for suffix, words in (
        (".csv", "In R (4.0 or later, no package)"),
        (".parquet", "In R (4.0 or later; package arrow or nanoparquet)"),
        (".arrow", "In R (4.0 or later; package arrow)"),
    ):
        made = make(
            tmp_path / suffix[1:], mechanism=law, claims=(), data_writer=writer_of(table), data_name=f"data{suffix}"
        )
        assert words in Page((made.path / "report.html").read_text("utf-8")).text
        assert release.verify(made.path).ok
