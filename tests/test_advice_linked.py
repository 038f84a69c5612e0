"""Advice on linked variables: what follows from a key is not released, and what is one fact is one block."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.codebook.rules import Rule
from postrand.engines.database import open_records
from postrand.plan import load_plan
from postrand.workflow.advice_candidates import candidates
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_subject import subject_of

N = 600
SIZES = {"area": 6, "region": 3, "sex": 2, "work": 4}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    random = np.random.default_rng(4)
    area = random.integers(0, 6, N)
    columns = {
        "area": [f"area{v}" for v in area],
        "region": [f"region{v // 2}" for v in area],
        "sex": [f"sex{v}" for v in random.integers(0, 2, N)],
        "work": [f"work{v}" for v in random.integers(0, 4, N)],
    }
    path = tmp_path_factory.mktemp("linked") / "s.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def advised(file, out, *options):
    done = CliRunner().invoke(main, ["advise", str(file), "--out", str(out), "--json", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    return found, [(plan, load_plan(out / f"plan-{k}.toml")) for k, plan in enumerate(found["plans"], 1)]


def test_what_follows_from_a_key_is_not_released_unless_it_was_named(file, tmp_path):
    found, plans = advised(file, tmp_path / "a", "--keys", "area,sex,work", "--other", "*")
    assert any("region is a function of area: role = 'drop'" in note for note in found["notes"])
    assert all(plan.codebook["region"].role == "drop" for _, plan in plans)
    assert all(told["chosen_with"] == "sizes" for told, _ in plans)
    _, kept = advised(
        file, tmp_path / "b", "--keys", "area,sex,work", "--other", "*", "--precision", "9 points for region"
    )
    assert all(plan.codebook["region"].role == "other" for _, plan in kept)


def ways(file, book):
    subject, _ = subject_of(open_records(file, book), book, Needs())
    return {one.way: one for one in candidates(subject)}


def blocks(candidate, epsilon=4.0):
    return [set(block["variables"]) for block in candidate.sections(epsilon)["blocks"]]


def test_one_fact_is_one_block_and_the_plan_says_who_chose_it(file):
    variables = [Variable(name, "key", tuple(f"{name}{v}" for v in range(size))) for name, size in SIZES.items()]
    found = ways(file, Codebook(tuple(variables)))
    assert blocks(found["separate"]) == [{"area", "region"}, {"sex"}, {"work"}]
    assert found["separate"].chosen_with == "file"
    assert 'remove chosen_with = "file"' in found["separate"].notes[0]
    assert (found["split"].chosen_with, found["split"].notes) == ("sizes", ())
    outside = [{"region": f"region{r}", "area": [f"area{a}" for a in range(6) if a // 2 != r]} for r in range(3)]
    ruled = ways(file, Codebook(tuple(variables), tuple(map(Rule, outside))))
    assert blocks(ruled["separate"]) == [{"area", "region"}, {"sex"}, {"work"}]
    assert (ruled["separate"].chosen_with, ruled["separate"].notes) == ("sizes", ())
