"""What a curator is told at the command line: columns that wait for a decision, and next steps that can be typed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import estimate
from postrand.cli import main
from postrand.errors import UsageError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.plan.infer import load_codebook
from postrand.ranks import RankBlocks
from postrand.ranks.column import RankedColumn

N = 400


def call(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(3)
    columns = {
        "hid": np.repeat(np.arange(N // 8), 8),
        "sex": rng.choice(["F", "M"], N),
        "area": rng.choice(["n", "s", "w"], N),
        "work": rng.choice(["no", "yes"], N),
        "pay": np.round(rng.lognormal(8, 1, N)),
    }
    pq.write_table(pa.table(columns), tmp_path / "survey.parquet")
    return tmp_path / "survey.parquet"


def test_a_number_of_households_gets_no_role_by_the_star_and_is_named(survey):
    folder = survey.parent
    result = call("init", survey, "--out", folder / "a", "--keys", "sex,area", "--other", "*")
    assert "no role, because it seems to number persons or households: hid" in result.output
    assert "Next: set the role of hid" in result.output
    note = (folder / "a" / "codebook.toml").read_text().partition('"sex"')[0]
    assert "role = 'household' or 'record_key', otherwise perhaps 'drop'" in note
    told = json.loads(call("init", survey, "--out", folder / "b", "--keys", "*", "--json").stdout)
    assert told["numbers"] == ["hid"]
    assert "hid" not in (folder / "b" / "plan.toml").read_text().partition("[[blocks]]")[2]
    call("init", survey, "--out", folder / "c", "--keys", "sex,area", "--other", "hid,work,pay")
    assert load_codebook(folder / "c" / "codebook.toml")["hid"].role == "other"


def test_weights_and_strata_that_are_not_released_as_they_are_are_refused():
    rng = np.random.default_rng(4)
    frame = pa.table({"sex": [0, 1] * 50, "job": [0, 0, 1, 1] * 25, "w": rng.random(100) + 1, "y": rng.random(100)})
    ranked = [RankedColumn("w", RankBlocks(5), "permute", 100)]
    law = Mechanism({"sex": randomised_response(2, 1.0), "job": randomised_response(2, 1.0)}, None, ranked)
    for given, words in (
        ({"weights": "w"}, "column of weights is permuted in this release; got 'w'"),
        ({"strata": "w"}, "column of strata is permuted"),
        ({"strata": "job"}, "column of strata is perturbed"),
    ):
        asked = (
            lambda **more: estimate.proportions(frame, ["sex"], law, **more),
            lambda **more: estimate.mean(frame, "y", law, "sex", **more),
            lambda **more: estimate.regression("y ~ sex", frame, law, "linear", **more),
        )
        for ask in asked:
            with pytest.raises(UsageError, match=words):
                ask(**given)


MATRIX = """
[source]
file = "survey.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 2.0
[[blocks]]
variables = ["area"]
privacy = { model = "share" }
[[blocks]]
variables = ["sex"]
matrix = [[0.8, 0.2], [0.2, 0.8]]
"""


def test_a_given_matrix_beside_a_share_says_which_epsilon_its_block_needs(survey):
    call("init", survey, "--out", survey.parent, "--keys", "sex,area", "--drop", "*")
    plan = survey.parent / "own.toml"
    plan.write_text(MATRIX)
    refused = call("design", "--plan", plan)
    assert "a given matrix has an epsilon of its own, so it takes no share" in refused.output
    said = "privacy = { model = 'differential', epsilon = 1.3863 }"  # ln(0.8 / 0.2) = 1.38629, rounded up
    assert said in refused.output
    plan.write_text(MATRIX + said)
    assert call("design", "--plan", plan).exit_code == 0


RANKED = """
[[numerical]]
variables = ["pay"]
method = { model = "rank-blocks", k = 10 }
"""


def test_the_page_of_the_dossier_says_which_keys_the_risk_leaves_out(survey):
    folder = survey.parent
    call("init", survey, "--out", folder, "--keys", "sex,area", "--sensitive", "pay", "--drop", "*")
    book, plan = folder / "codebook.toml", folder / "plan.toml"
    text = book.read_text()
    at = text.index('name = "pay"')
    book.write_text(text[:at] + text[at:].replace('role = "sensitive"', 'role = "key"', 1))
    plan.write_text(plan.read_text() + RANKED)
    result = call("protect", "--plan", plan, "--out", folder / "out", "--dossier", folder / "in", "--seed", "1")
    assert result.exit_code == 0, result.output
    told = json.loads((folder / "in" / "dossier.json").read_text())["figures"]["risk_leaves_out"]
    assert told[0].startswith("the risk leaves out pay: moved or averaged among neighbours in rank")
    assert told[0][1:] in (folder / "in" / "dossier.html").read_text()
