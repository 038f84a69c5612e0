"""What a curator is told at the command line: columns that wait for a decision, and next steps that can be typed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan.infer import load_codebook

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
