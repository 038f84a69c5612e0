"""The level that a check names for a rule on guesses: by the closed form of randomised response, and by trying it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import Codebook, Variable
from postrand.cli import main
from postrand.plan import load_plan
from postrand.plan.policy import policy_from_dict
from postrand.workflow.guess_levels import LEVELS, checked

BLOCKS = """\
[source]
file = "p.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 9
[design]
structure = "uniform-off-diagonal"
objective = "information"
[[blocks]]
variables = ["sex"]
privacy = { model = "differential", epsilon = 5 }
[[blocks]]
variables = ["ill"]
privacy = { model = "differential", epsilon = 4 }
"""
SPLIT = BLOCKS.partition("[[blocks]]")[0] + '[split]\nvariables = ["sex", "ill", "area"]\nepsilon = 4\n'


@pytest.fixture
def folder(tmp_path):
    """A file in which nothing goes with anything: each of three illnesses has a third of the records."""
    n = 12_000
    place = np.arange(n)
    columns = {"sex": "fm", "ill": "abc", "area": "nesw"}
    made, step = {}, 1
    for name, letters in columns.items():
        made[name] = np.array(list(letters))[place // step % len(letters)]
        step *= len(letters)
    pq.write_table(pa.table(made), tmp_path / "p.parquet")
    roles = {"sex": "key", "ill": "sensitive", "area": "other"}
    book = Codebook(tuple(Variable(name, roles[name], tuple(own)) for name, own in columns.items()))
    book.save(tmp_path / "codebook.toml")
    return tmp_path


def ruled(folder, text, limit, measure="guess_gain"):
    (folder / "plan.toml").write_text(text)
    policy = policy_from_dict({"rules": [{"measure": measure, "at_most": limit}]})
    (rule,) = checked(dataclasses.replace(load_plan(folder / "plan.toml"), policy=policy)).verdicts
    return rule


@pytest.mark.parametrize(("measure", "limit"), [("guess_gain", 0.206), ("right_guesses", 1 / 3 + 0.206)])
def test_of_a_block_it_is_that_of_the_closed_form(folder, measure, limit):
    """Right are ``e^ε / (e^ε + 2)`` of the guesses, and a third without the record."""
    rule = ruled(folder, BLOCKS, limit, measure)
    gains = [np.exp(level) / (np.exp(level) + 2) - 1 / 3 for level in LEVELS]
    largest = max(level for level, gain in zip(LEVELS, gains, strict=True) if gain <= 0.206)
    assert largest == 0.8
    said = f": epsilon = {largest:g} of the block of ill, all else as it is, keeps the rule; 4 now"
    assert rule.step == f"a smaller epsilon, or coarser confidential variables{said}"


def test_of_a_split_the_next_level_breaks_the_rule(folder):
    rule = ruled(folder, SPLIT, 0.1)
    told = re.search(r": epsilon = ([\d.]+) of the split, all else as it is, keeps the rule; 4 now", rule.step)
    assert told is not None, rule.step
    level = float(told[1])
    more = LEVELS[LEVELS.index(level) + 1]
    assert [ruled(folder, SPLIT.replace("= 4", f"= {one}"), 0.1).is_met for one in (level, more)] == [True, False]


def test_where_no_level_keeps_it_or_the_part_has_none_that_is_said_or_nothing(folder):
    rule = ruled(folder, BLOCKS, 1e-9)
    assert rule.step.endswith("no level of the block of ill that was tried, down to 0.1, keeps the rule")
    shared = BLOCKS.replace('{ model = "differential", epsilon = 4 }', '{ model = "share" }')
    assert ruled(folder, shared, 0.1).step == "a smaller epsilon, or coarser confidential variables"
    kept = ruled(folder, BLOCKS, 0.99)
    assert (kept.is_met, kept.step) == (True, "")


def test_the_command_says_it(folder):
    (folder / "policy.toml").write_text('[[rules]]\nmeasure = "guess_gain"\nat_most = 0.206\n')
    (folder / "plan.toml").write_text(BLOCKS)
    asked = ["check", "--plan", str(folder / "plan.toml"), "--policy", str(folder / "policy.toml")]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 11
    assert "epsilon = 0.8 of the block of ill, all else as it is, keeps the rule; 4 now" in found.output
