"""What a curator is told at the command line: columns that wait for a decision, and next steps that can be typed."""

import asyncio
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from shiny import reactive

from postrand import estimate
from postrand.app import documents, linked_view, opening, release_views
from postrand.app.decisions import act, open_decisions
from postrand.app.plans import open_plan
from postrand.app.tabs import Tab
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


def test_a_number_of_persons_with_another_value_in_each_record_is_offered_no_household(survey):
    table = pq.read_table(survey)
    pq.write_table(table.append_column("caseid", pa.array(range(N))), survey)
    for k, options in enumerate((("--other", "*"), ())):
        folder = survey.parent / str(k)
        told = call("init", survey, "--out", folder, "--keys", "sex,area", *options).output
        line = next(text for text in told.splitlines() if "caseid" in text and text.startswith("no role"))
        assert line == (
            "no role, because it seems to number persons, and all values are different: caseid. Next: set role = "
            f"'record_key' in {folder / 'codebook.toml'} if they identify records, else 'drop'."
        )
        notes = (folder / "codebook.toml").read_text().partition('name = "caseid"')[0].rpartition("[[variables]]")[2]
        assert "role = 'record_key' if they identify records, otherwise perhaps 'drop'" in notes
        assert "household" not in notes


def test_a_number_of_households_gets_no_role_by_the_star_and_is_named(survey):
    folder = survey.parent
    result = call("init", survey, "--out", folder / "a", "--keys", "sex,area", "--other", "*")
    assert "no role, because it seems to number or name persons or households: hid" in result.output
    assert "Next: set the role of hid" in result.output
    note = (folder / "a" / "codebook.toml").read_text().partition('"sex"')[0]
    assert "looks like a household number: set role = 'household', or 'drop'" in note
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


def test_the_workbench_proposes_for_linked_variables_what_init_does(tmp_path):
    rng = np.random.default_rng(2)
    year = rng.integers(90, 97, 600)
    columns = {"sex": rng.choice(["F", "M"], 600), "year": year, "y94": (year == 94).astype(int)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    opened = opening.open_file(tmp_path / "a.parquet")
    decisions = open_decisions(opened, {"sex": "key", "year": "key", "y94": "other"})
    sample = linked_view.sample_of(decisions)
    found = linked_view.proposals(decisions, sample)
    said = call("init", tmp_path / "a.parquet", "--out", tmp_path / "w", "--keys", "sex,year").output
    assert f"linked: {found.sentences[0]}" in said
    card = str(linked_view.linked_card(decisions, found))
    assert "y94 is a function of year" in card
    assert 'data-act="drop" data-key="2"' in card
    dropped = act(decisions, "drop", "2", "2")
    assert dropped.roles == ("key", "key", "drop")
    assert linked_view.linked_card(dropped, linked_view.proposals(dropped, sample)) is None
    assert act(decisions, "drop", "", "9").problem == "there is no such column"


def test_the_workbench_adds_completed_copies_to_its_plan(survey):
    opened = opening.open_file(survey)
    decisions = open_decisions(opened, dict.fromkeys(opened.names, "key") | {"hid": "drop", "pay": "drop"})
    assert "completed" not in documents.plan_data(decisions, survey.parent)["release"]
    added = act(decisions, "completed", "", "true")
    assert documents.plan_data(added, survey.parent)["release"]["completed"] == 20
    added = act(added, "completed", "copies", "5")
    assert act(added, "completed", "copies", "1").problem.startswith("completed copies: not a number of copies")
    documents.write(added, survey.parent)
    assert open_plan(survey.parent / "plan.toml", survey.parent).completed == 5
    assert 'value="5"' in str(release_views.protect_form(added))
    assert act(added, "completed", "", "false").completed is None


PYTHON = re.compile(
    r"\bpr\.|\b[a-z_]+='|\b[a-z]+_[a-z_]+:|key_variables|dictionary<|object has no|estimate\.(table|mean)|\('"
)
"""What only somebody who writes Python would understand."""


def test_errors_of_commands_speak_of_what_was_typed(survey):
    folder = survey.parent
    call("init", survey, "--out", folder, "--keys", "sex,area,work", "--drop", "*", "--perturb", "blocks")
    made = call("protect", "--plan", folder / "plan.toml", "--out", folder / "out", "--seed", "1")
    assert made.exit_code == 0, made.output
    ask = ("estimate", folder / "out")
    columns = (survey, "--columns", "pay", "--out", folder / "p")
    for words, said in (
        ((*ask, "--mean", "sex"), "Next: ask for a table, which takes any categories"),
        ((*ask, "--table", "nope"), "no column 'nope' in the data; wanted sex, area, work"),
        ((*ask, "--table", "sex,sex"), "got sex, sex"),
        ((*ask, "--table", "sex", "--weights", "area"), "the column of weights is perturbed in this release"),
        ((*ask, "--regression", "sex"), "Next: write for example income ~ sex + region"),
        ((*ask, "--regression", "work ~ area", "--family", "logistic"), ""),
        (("assess", survey, "--keys", "sex", "--weight", "area"), "got text. Next: name a column of numbers"),
        (("assess", survey, "--keys", "sex", "--model", "x"), "independence, two-way, three-way, search"),
        (("anatomise", survey, "--keys", "nope", "--k", "3", "--out", folder / "p"), "key variables: no column 'nope'"),
        (("permute", *columns, "--blocks", "-5"), "--blocks: not a number of neighbours in rank; got -5"),
        (("average", *columns, "--band", "0"), "--band: not a number of neighbours in rank; got 0"),
        (("tune", survey, "--keys", "sex", "--limit", "tau2 <= 1"), "wanted one of sampling fraction and weight"),
    ):
        result = call(*words)
        assert said in result.output, result.output
        assert not PYTHON.search(result.output), result.output
        assert said == "" or result.exit_code > 0


def test_the_workbench_takes_a_decision_back(survey):
    async def work():
        opened = opening.open_file(survey)
        tab = Tab("0" * 16, survey.parent / "tab")
        tab.decisions.set(open_decisions(opened, dict.fromkeys(opened.names, "drop")))
        for action, key, value in (("role", "1", "key"), ("find", "", "s"), *(("fraction", "", x) for x in "123")):
            tab.change(action, key, value)
        assert (tab.now.roles[1], tab.now.fraction) == ("key", 0.03)
        tab.undo()  # the three of one box are one step, and a search is none
        assert (tab.now.roles[1], tab.now.fraction) == ("key", None)
        tab.undo()
        assert tab.now.roles[1] == "drop"
        tab.undo()
        assert tab.now.problem == "there is no decision to undo"

    with reactive.isolate():
        asyncio.run(work())
