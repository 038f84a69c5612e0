"""Variables that hold only for some, in drafts: found by counting, and kept as the sentence says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from postrand.plan import load_plan
from postrand.workflow.pipeline import run

MANY = 1200


def drafted(folder, dead, cause):
    columns = {"sex": np.array(["f", "m"])[np.arange(MANY) // 5 % 2], "dead": dead, "cause": cause}
    pq.write_table(pa.table(columns), folder / "s.parquet")
    asked = ["--key", "sex,dead", "--sensitive", "cause", "--perturb-also", "cause"]
    done = CliRunner().invoke(main, ["init", str(folder / "s.parquet"), *asked, "--out", str(folder / "w")])
    assert done.exit_code == 0, done.output
    return done.output, (folder / "w" / "codebook.toml").read_text("utf-8")


def deaths(share=4):
    dead = np.arange(MANY) % share == 0
    causes = ["heart", "cancer", "other"]
    cause = [causes[k // 12 % 3] if dies else None for k, dies in enumerate(dead.tolist())]
    return np.where(dead, "yes", "no"), pa.array(cause, pa.string())


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (4, "cause has no answer where dead is no, and one in all other records"),
        (13, ""),  # fewer than 100 died
    ],
)
def test_a_fact_of_some_is_told_with_what_keeps_it(tmp_path, share, said):
    told, book = drafted(tmp_path, *deaths(share))
    assert (f"linked: {said}: perturbed apart, releases have records where this is not so" in told) == bool(said)
    assert (f"\n# {said}: " in book) == bool(said)
    assert ("has no answer" in told) == bool(said)


def test_of_many_values_the_fewer_are_named_and_one_exception_is_none(tmp_path):
    dead, cause = deaths()
    several = np.where(dead == "yes", "yes", np.array(["no", "moved", "lost"])[np.arange(MANY) % 3])
    told, _ = drafted(tmp_path, several, cause)
    assert "cause has an answer where dead is yes, and in no other record: perturbed apart" in told
    (tmp_path / "one").mkdir()
    odd = pa.array([*cause.to_pylist()[:-1], "heart"])
    assert cause[-1].as_py() is None
    told, _ = drafted(tmp_path / "one", dead, odd)
    assert "has no answer" not in told


HEAD = """\
[source]
file = "../s.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 4
[design]
structure = "uniform-off-diagonal"
objective = "information"
[[blocks]]
variables = ["sex"]
"""
RULES = """
[[rules]]
dead = "no"
cause = ["heart", "cancer", "other"]
[[rules]]
dead = "yes"
cause = "(missing)"
"""


def test_what_the_sentence_says_keeps_it_in_a_release(tmp_path):
    """Perturbed apart, records have a cause and live; in one block, by the rules, none has."""
    drafted(tmp_path, *deaths())
    folder = tmp_path / "w"

    def broken(name, blocks):
        (folder / f"{name}.toml").write_text(HEAD + blocks)
        made = run(load_plan(folder / f"{name}.toml"), tmp_path / name)
        table = pq.read_table(made.data_path)
        lives, none = pc.equal(table["dead"], "no").to_numpy(), pc.is_null(table["cause"]).to_numpy()
        return int((lives != none).sum())

    assert broken("apart", '[[blocks]]\nvariables = ["dead"]\n[[blocks]]\nvariables = ["cause"]\n') > 0
    book = folder / "codebook.toml"
    book.write_text(book.read_text("utf-8") + RULES, "utf-8")
    assert broken("jointly", '[[blocks]]\nvariables = ["dead", "cause"]\n') == 0
