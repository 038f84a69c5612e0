"""Rare categories of unordered variables are merged by a stated rule where the records may choose, and only there."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan import load_plan

N = 1500


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    random = np.random.default_rng(5)
    share = np.array([0.3, 0.25, 0.2, 0.1, *[0.15 / 36] * 36])
    jobs = [f"job{k:02}" for k in (*range(40), *random.choice(40, N - 40, p=share))]
    path = tmp_path_factory.mktemp("rare") / "s.parquet"
    pq.write_table(pa.table({"job": jobs, "sex": [f"sex{v}" for v in random.integers(0, 2, N)]}), path)
    return path


def advised(file, out, *options):
    done = CliRunner().invoke(main, ["advise", str(file), "--keys", "job,sex", "--out", str(out), "--json", *options])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.filterwarnings("ignore:recode of .*says by name which categories were merged")
def test_rare_categories_are_merged_by_the_rule_and_the_certificate_says_so(file, tmp_path):
    found = advised(file, tmp_path / "a", "--look", "--limit", "epsilon <= 2")
    counts = Counter(pq.read_table(file)["job"].to_pylist())
    frequent = {job for job, n in counts.items() if n >= 0.05 * N}  # by hand
    first = found["plans"][0]
    plan = load_plan(tmp_path / "a" / "plan-1.toml")
    assert {*plan.codebook["job"].categories} == {*frequent, "Other"}
    assert first["way"].startswith("recode, then ")
    assert first["chosen_with"] == plan.chosen_with == "file"
    assert any("rare categories of job merged leave more" in why for why in first["reasons"])
    ran = CliRunner().invoke(main, ["protect", "--plan", str(first["plan"]), "--out", str(tmp_path / "release")])
    assert ran.exit_code == 0, ran.output
    assert "confidential_recodes" in (tmp_path / "release" / "certificate.json").read_text()


def test_without_look_nothing_is_merged_and_the_note_says_what_would(file, tmp_path):
    found = advised(file, tmp_path / "a", "--limit", "epsilon <= 2")
    assert all(not load_plan(path).codebook.recodes for path in (tmp_path / "a").glob("plan-*.toml"))
    assert any(note.startswith("job: many categories") and "--look" in note for note in found["notes"])
