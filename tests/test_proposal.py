"""What ``init`` proposes: blocks or a split release, the reason, and that it says nothing about the records."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand.cli import main
from postrand.plan import load_plan
from postrand.workflow.draft import initialise
from postrand.workflow.proposal import proposed
from tests.split_cases import book_of

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 5, "f": 3}


def write(path, sizes=SIZES, records=600, seed=0):
    random = np.random.default_rng(seed)
    columns = {n: [f"{n}{c}" for c in (*range(s), *random.integers(0, s, records - s))] for n, s in sizes.items()}
    pq.write_table(pa.table(columns), path)
    return path


def test_a_split_is_proposed_where_it_is_worth_much_more(tmp_path):
    _, plan = initialise(write(tmp_path / "s.parquet"), tmp_path / "work", {"key": list(SIZES)})
    loaded, text = load_plan(plan), plan.read_text()
    assert loaded.split is not None
    assert loaded.split.variables == tuple(SIZES)
    assert loaded.split.epsilon == 6.0
    assert not loaded.blocks
    worth = 1000 / pr.split_design(book_of(*SIZES.values()), epsilon=6.0).value
    assert f"{worth:,.0f} or more in a split release" in text.replace("\n# ", " ")
    assert "# A split release: each record shows" in text
    assert CliRunner().invoke(main, ["design", "--plan", str(plan)]).exit_code == 0
    done = CliRunner().invoke(main, ["protect", "--plan", str(plan), "--out", str(tmp_path / "release")])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "release")]).exit_code == 0


@pytest.mark.parametrize(
    ("keys", "way", "split"), [("abcdef", "blocks", False), ("ab", "best", False), ("ab", "split", True)]
)
def test_the_curator_may_choose(tmp_path, keys, way, split):
    _, plan = initialise(write(tmp_path / "s.parquet"), tmp_path / "work", {"key": list(keys), "other": ["*"]}, way=way)
    loaded = load_plan(plan)
    assert (loaded.split is not None) == split
    assert len(loaded.blocks) == (0 if split else len(keys))


def test_two_files_with_the_same_categories_have_the_same_plan(tmp_path):
    """The proposal follows from categories and ε: it says nothing about frequencies."""
    texts = []
    for seed in (0, 1):
        _, plan = initialise(write(tmp_path / "s.parquet", seed=seed), tmp_path / f"w{seed}", {"key": list(SIZES)})
        texts.append(plan.read_text())
    assert texts[0] == texts[1]


def test_a_category_that_reads_like_not_released_keeps_blocks(tmp_path):
    columns = {n: [f"{n}{k % 3}" for k in range(300)] for n in "abcde"} | {"f": ["x", "(not released)", "y"] * 100}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    _, plan = initialise(tmp_path / "s.parquet", tmp_path / "work", {"key": list("abcdef")})
    assert load_plan(plan).split is None


def test_one_joint_block_is_proposed_where_it_is_the_best_split(tmp_path):
    path = write(tmp_path / "s.parquet", dict.fromkeys("abcde", 2))
    _, plan = initialise(path, tmp_path / "work", {"key": list("abcde")}, epsilon=2.0)
    loaded = load_plan(plan)
    assert [block.variables for block in loaded.blocks] == [tuple("abcde")]
    assert loaded.split is None
    assert len(pr.split_design(book_of(2, 2, 2, 2, 2), epsilon=10.0).subsets) == 1
    assert CliRunner().invoke(main, ["design", "--plan", str(plan)]).exit_code == 0


def test_few_records_are_said_to_be_worth_little():
    assert "fewer than 100 unperturbed records" in proposed([4] * 6, 3.0, 200).reason.replace("\n", " ")
    assert "fewer than" not in proposed([4] * 6, 3.0, 10**7).reason
    assert proposed([4] * 6, 3.0, 200).way == proposed([4] * 6, 3.0, 10**7).way == "split"


def test_an_epsilon_that_no_split_can_have_keeps_blocks():
    assert proposed([3] * 6, 500.0).way == "blocks"
    assert proposed([3], 1.0, way="split").way == "blocks"


def test_design_prints_what_the_same_level_buys_three_ways(tmp_path):
    _, plan = initialise(write(tmp_path / "s.parquet"), tmp_path / "work", {"key": list(SIZES)}, way="blocks")
    done = CliRunner().invoke(main, ["design", "--plan", str(plan)])
    assert "What ε = 6 buys for 6 variables" in done.output
    assert "split release (best)" in done.output
    found = json.loads(CliRunner().invoke(main, ["design", "--plan", str(plan), "--json"]).output)
    assert found["ways"]["best"] == "split"
    assert found["ways"]["prior"] == "public"


def test_the_dossier_compares_the_ways(tmp_path):
    path = write(tmp_path / "s.parquet")
    _, plan = initialise(path, tmp_path / "work", {"key": list(SIZES)}, way="blocks")
    words = ["protect", "--plan", str(plan), "--out", str(tmp_path / "release"), "--dossier", str(tmp_path / "dossier")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    page = next((tmp_path / "dossier").glob("*.html")).read_text("utf-8")
    assert "What the same level buys" in page
    assert "Split release (best)" in page
    public = next((tmp_path / "release").glob("*.html")).read_text("utf-8")
    assert "What the same level buys" not in public
