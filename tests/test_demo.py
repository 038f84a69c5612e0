"""The demo: real microdata from a dependency, protected and recovered."""

import numpy as np
import pytest

from postrand.errors import UsageError
from postrand.release import read_release
from postrand.risk import assess
from postrand.workflow.demo import KEYS, compare, run_demo, survey


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
    assert "Privacy and utility" not in (demo[0] / "release" / "report.html").read_text(encoding="utf-8")
