"""Rules that name missing answers: the living have no cause of death, who died has one, in all that is made of it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.codebook.rule_files import read_rules
from postrand.codebook.rules import Rule, feasible_cells, nameable
from postrand.errors import SpecificationError
from postrand.plan.infer import load_codebook
from postrand.release import postrand_verify

DEAD = Variable("dead", "key", ("no", "yes"))
CAUSE = Variable("cause", "sensitive", ("heart", "other"), missing="category")
RULES = (Rule({"dead": "no", "cause": ["heart", "other"]}), Rule({"dead": "yes", "cause": "(missing)"}))
BOOK = Codebook((DEAD, CAUSE), rules=RULES)
N, NULLS = 2000, pc.ConvertOptions(strings_can_be_null=True)
PLAN = """\
[source]
file = "in.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 1.0
[[blocks]]
variables = ["dead", "cause"]
[release]
format = "csv"
"""


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def persons(n: int = N) -> pa.Table:
    rng = np.random.default_rng(3)
    dead = rng.random(n) < 0.4
    cause = [["heart", "other"][k] if own else None for k, own in zip(rng.integers(0, 2, n), dead, strict=True)]
    return pa.table({"dead": np.array(["no", "yes"])[dead * 1], "cause": pa.array(cause, pa.string())})


def planned(folder: Path, table: pa.Table) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / "in.parquet")
    BOOK.save(folder / "codebook.toml")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    return folder / "plan.toml"


def is_possible(table: pa.Table) -> bool:
    return all(
        (dead == "yes") == (cause not in (None, "")) for dead, cause in zip(*table.to_pydict().values(), strict=True)
    )


def test_only_what_can_occur_is_a_cell() -> None:
    """By hand: alive without a cause, dead by one of two: three of six combinations."""
    assert feasible_cells(BOOK, ["dead", "cause"], RULES).tolist() == [[0, 2], [1, 0], [1, 1]]
    assert nameable(CAUSE) == ("heart", "other", "(missing)")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    BOOK.save(tmp_path / "codebook.toml")
    assert load_codebook(tmp_path / "codebook.toml").rules == RULES
    (tmp_path / "rules.csv").write_text("dead,cause\nno,heart\nno,other\nyes,(missing)\n", encoding="utf-8")
    read = read_rules(tmp_path / "rules.csv", dataclasses.replace(BOOK, rules=()))
    assert feasible_cells(BOOK, ["dead", "cause"], read).tolist() == [[0, 2], [1, 0], [1, 1]]


def test_a_category_of_the_same_text_is_meant_where_there_is_one() -> None:
    own = dataclasses.replace(CAUSE, categories=("heart", "(missing)"))
    book = Codebook((DEAD, own), rules=(Rule({"dead": "no", "cause": "(missing)"}),))
    assert feasible_cells(book, ["dead", "cause"], book.rules).tolist() == [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_missing_answers_that_are_no_category_cannot_be_named(missing: str) -> None:
    with pytest.raises(SpecificationError, match=r"missing answers of 'cause' are no category\..*missing = 'category'"):
        Codebook((DEAD, dataclasses.replace(CAUSE, missing=missing)), rules=RULES[1:])


def test_a_file_that_contradicts_the_rule_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = pa.concat_tables([persons(50), pa.table({"dead": ["yes"], "cause": pa.array([None], pa.string())})])
    plan = planned(tmp_path / "work", table)
    done = call("protect", "--plan", plan, "--out", tmp_path / "release")
    assert done.exit_code == 4, done.output
    assert "rule 2, of dead, cause" in done.output
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_no_release_and_no_copy_has_what_cannot_occur(engine: str, tmp_path: Path) -> None:
    plan, out = planned(tmp_path / "work", persons()), tmp_path / "release"
    done = call("protect", "--plan", plan, "--out", out, "--seed", "5", "--engine", engine)
    assert done.exit_code == 0, done.output
    released = pc.read_csv(out / "data.csv", convert_options=NULLS)
    assert released.num_rows == N
    assert is_possible(released)
    assert released != persons()  # something was changed
    book = json.loads((out / "codebook.json").read_text(encoding="utf-8"))
    assert book["rules"][1] == {"dead": "yes", "cause": "(missing)"}
    assert Codebook.from_dict(book).rules == RULES
    assert call("verify", out).exit_code == 0
    alone = subprocess.run(
        [sys.executable, postrand_verify.__file__, str(out)], capture_output=True, text=True, check=False
    )
    assert alone.returncode == 0, alone.stdout
    copies = call("complete", out, "--copies", "2", "--seed", "1", "--sweeps", "40", "--out", tmp_path / "copies")
    assert copies.exit_code in (0, 10), copies.output  # 10: a short chain; what it draws keeps the rules all the same
    stacked = pc.read_csv(tmp_path / "copies" / "completed.csv", convert_options=NULLS)
    drawn = stacked.filter(pa.compute.greater(stacked["Imputation_"], 0))
    assert drawn.num_rows == 2 * N
    assert is_possible(drawn.select(["dead", "cause"]))
