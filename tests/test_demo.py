"""The demo: real microdata from a dependency, protected and recovered."""

import dataclasses
import itertools

import numpy as np
import pytest

from postrand import report
from postrand.certification import certify
from postrand.codebook import Codebook, Variable
from postrand.errors import UsageError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.release import read_release
from postrand.risk import assess
from postrand.workflow.demo import KEYS, compare, run_demo, survey
from postrand.workflow.dossier_decision import decision_of
from postrand.workflow.policy_check import PolicyCheck, Verdict
from postrand.workflow.sample import write_sample
from tests.browser import browsing
from tests.printed import printed
from tests.test_dossier_pages import FOUND, LONG


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "demo"
    return folder, *run_demo(folder)


def test_the_demo_verifies_and_recovers_the_table_within_its_errors(demo):
    folder, data, text = demo
    assert data["verified"]
    rows, _ = compare(survey(), read_release(folder / "release"))
    z = np.array([(row["corrected"] - row["true"]) / row["standard_error"] for row in rows])
    naive = np.array([(row["released"] - row["true"]) / row["standard_error"] for row in rows])
    # The errors hold sampling too, while the truth here is the file: |z| > 5.5 has probability below 1e-6 in 18 cells.
    assert np.abs(z).max() < 5.5
    assert np.abs(naive).max() > 5.5
    assert "ε <= 16" in text
    assert "Only for the demo: epsilon = 16 for a record is above 8" in text
    assert "corrected" in text


def test_the_file_is_real_and_risky():
    report = assess(survey(), KEYS)
    assert report.records == 17_137
    assert report.sample_uniques > 7_000


def test_an_existing_folder_is_refused(demo):
    with pytest.raises(UsageError, match="demo folder exists"):
        run_demo(demo[0])


def test_the_internal_report_draws_the_curve_of_each_small_variable(demo):
    page = (demo[0] / "dossier" / "dossier.html").read_text(encoding="utf-8")
    assert "Privacy and utility: workstat" in page
    assert page.count("Information and estimator variance against epsilon") == 7
    assert page.count("own shares in the file, whatever shares the plan assumes") == 7
    assert "all values equally frequent" in page  # the prior of the plan, beside the value that it gives
    assert "Privacy and utility" not in (demo[0] / "release" / "report.html").read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.slow
def test_the_dossier_is_printed_with_internal_on_every_page_and_the_risk_on_the_first(demo, tmp_path):
    book = Codebook(tuple(Variable("variable" * 9 + str(k), role="key", categories=("a", "b")) for k in range(40)))
    law = Mechanism([Block((v.name,), randomised_response(2, 1.0)) for v in book.variables], book)
    policy = PolicyCheck("", "", (Verdict("a rule " * 30, "1", "2", "3", False),) * 9)
    page = report.decision_page(decision_of(LONG, policy, certify(law), FOUND), manifest="f00d" * 16)
    (tmp_path / "long.html").write_text(page, "utf-8")
    inside = demo[0] / "dossier"
    with browsing() as browser:
        paths = (inside / "decision.html", inside / "dossier.html", tmp_path / "long.html")
        sheet, whole, long = (printed(browser, path) for path in paths)
        public = printed(browser, demo[0] / "release" / "report.html")
        widths = [_width(browser, demo[0] / "release" / "report.html", millimetres) for millimetres in (180, 185)]
    assert len(sheet) == 2
    for pages in (sheet, whole):
        assert "iskbeforeandafter" in pages[0]
        for number, page in enumerate(pages, 1):
            assert page.startswith("INTERNAL–notforrelease")
            assert f"{number}/{len(pages)}" in page
    assert "682(3.98%)" in sheet[0]  # the same number as in the long dossier
    for words in ("Whatisguaranteed", "Whatisnotguaranteed", "Place,dateandsignature", "SHA-256"):
        assert words in sheet[1]
    assert "Place,dateandsignature" in long[1]  # whatever the plan
    assert "Whatwouldbereleased,infull" in long[2]
    assert all(one.name.replace(" ", "") in "".join(long[2:]) for one in LONG.ways)
    kept = [(page.count("26.0"), "Probability,inpercent" in page) for page in public if page.count("26.0") > 2]
    assert all(f"{number}/{len(public)}" in page for number, page in enumerate(public, 1))
    assert widths == [0, 0]  # within the margins of A4 and US Letter as it is: a browser makes all words smaller else
    assert kept == [(22, True)]  # the largest matrix, of educ, is on one page with its caption


def _width(browser, path, millimetres):
    """How much wider than the page what is printed would be."""
    opened = browser.new_page(viewport={"width": int(millimetres / 25.4 * 96), "height": 1000})
    opened.goto(path.as_uri())
    opened.emulate_media(media="print")
    found = opened.evaluate("document.documentElement.scrollWidth - innerWidth")
    opened.close()
    return found


@pytest.mark.browser
@pytest.mark.slow
def test_the_two_sheets_to_sign_fit_on_a4_and_on_us_letter(demo, tmp_path):
    """The longest pages of each kind: no rule, many rules, few and many columns and measures, a key from a seed."""
    book = Codebook(tuple(Variable("variable" * 9 + str(k), role="key", categories=("a", "b")) for k in range(40)))
    certificate = certify(Mechanism([Block((v.name,), randomised_response(2, 1.0)) for v in book.variables], book))
    rules = (Verdict("a rule of a measure " * 3, "at most 1 for all", "2", "3 and so on", False),) * 9
    full = [demo[0] / "dossier" / "decision.html"]
    for many, (ways, measures, private) in enumerate(itertools.product((5, 60), (3, 12), (True, False))):
        risks = LONG.risks[:measures]
        plan = dataclasses.replace(LONG, ways=tuple(w for w in LONG.ways if int(w.name[-2:].strip("_")) < ways))
        plan = dataclasses.replace(plan, risks=risks, unit_epsilon={"household": 5.0}, unit_records={"household": 5})
        short = tuple(Verdict(f"rule {k}", "at most 1", "2", "3", True) for k in range(40))
        for policy, found in ((None, FOUND), (PolicyCheck("", "", rules), FOUND), (PolicyCheck("", "", short), FOUND)):
            about = decision_of(plan, policy, certificate, found)
            about = dataclasses.replace(about, is_private=private, worth=("worth of so many words " * 6,) * 3)
            few = dataclasses.replace(about, claims=("one",), limits=("two",), worth=("three",), findings=())
            for place, one in enumerate((about, few)):
                full.append(tmp_path / f"{len(full)}-{many}-{place}.html")
                full[-1].write_text(report.decision_page(one, manifest="f00d" * 16), "utf-8")
    with browsing() as browser:
        for path in full:
            for paper in ("A4", "letter"):
                first, second, *last = printed(browser, path, paper)
                assert "Whatisguaranteed,whateveranattackerknows" not in first, (path.name, paper)
                assert "Whatisguaranteed,whateveranattackerknows" in second, (path.name, paper)
                assert "Place,dateandsignature" in second, (path.name, paper)
                assert bool(last) == (path != full[0]), (path.name, paper)


def test_the_sample_survey_is_written_once_and_is_the_survey_of_2006(tmp_path):
    from tests.sample_file import FILE, made

    data, text = write_sample(tmp_path / "survey.csv")
    assert "2,986 answers" in text
    assert (tmp_path / "survey.csv").read_bytes() == FILE.read_bytes() == made().encode()
    assert data == {"sample": str(tmp_path / "survey.csv")}
    with pytest.raises(UsageError, match="the file exists"):
        write_sample(tmp_path / "survey.csv")
    with pytest.raises(UsageError, match="cannot be written"):
        write_sample(tmp_path / "none" / "survey.csv")
