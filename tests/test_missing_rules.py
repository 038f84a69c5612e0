"""Rules that name missing answers: in codebooks and files, and in every release."""

import itertools
import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand.certification.reachable_rules import reachable
from postrand.codebook import Codebook, Variable
from postrand.codebook.rule_files import read_rules
from postrand.codebook.rules import Rule, feasible_cells, forbidden
from postrand.completion.files import Stacked, check_stacked, write_stacked
from postrand.engines import LocalEngine
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.frame import perturb
from postrand.errors import DataError, PrivacyError, ReleaseError, SpecificationError
from postrand.estimate.evidence import evidence_of
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import randomised_response
from postrand.plan.infer import load_codebook
from postrand.testing import engines as testing
from tests.both_verifiers import ALONE
from tests.release_case import edit, rehash

CAUSES = ("Circulatory", "Neoplasms")
DEATH = Variable("death", role="key", categories=(0, 1), type="int64")
CAUSE = Variable("cause", role="sensitive", categories=CAUSES, missing="category")
AREA = Variable("area", role="other", categories=("N", "S"))
RULES = (Rule({"death": 0, "cause": list(CAUSES)}), Rule({"death": 1, "cause": "(missing)"}))
BOOK = Codebook((DEATH, CAUSE, AREA), RULES)
FEASIBLE = ((0, 2), (1, 0), (1, 1))
"""The combinations of death and cause that the rules leave: no cause for the living, one for each of the dead."""
RULES_TEXT = '[[rules]]\ndeath = 0\ncause = ["Circulatory", "Neoplasms"]\n[[rules]]\ndeath = 1\ncause = "(missing)"\n'


def cohort(n: int = 1_200, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    death, area = rng.integers(0, 2, n), rng.integers(0, 2, n)
    cause = [CAUSES[c] if dead else None for dead, c in zip(death, rng.integers(0, 2, n), strict=True)]
    return pa.table({"death": death, "cause": pa.array(cause, pa.string()), "area": np.array(["N", "S"])[area]})


def broken(table: pa.Table) -> int:
    """Count the records of which exactly one of death and cause says that somebody is dead."""
    pairs = zip(table["death"].to_pylist(), table["cause"].to_pylist(), strict=True)
    return sum((dead == 1) != (cause is not None) for dead, cause in pairs)


def law() -> Mechanism:
    return Mechanism([Block(("death", "cause"), randomised_response(3, 1.0), FEASIBLE)], BOOK)


def test_feasible_cells_are_those_that_trying_all_finds() -> None:
    rows = np.array(list(itertools.product(range(2), range(3), range(2))))
    wanted = [(c == 2) != (d == 1) for d, c, _ in rows.tolist()]
    np.testing.assert_array_equal(feasible_cells(BOOK, BOOK.names, RULES), rows[wanted])
    codes = dict(zip(BOOK.names, rows.T, strict=True))
    np.testing.assert_array_equal(~forbidden(BOOK, codes, RULES), wanted)


def test_separate_blocks_are_refused_and_a_joint_one_is_not() -> None:
    apart = Mechanism({"death": randomised_response(2, 1.0), "cause": randomised_response(3, 1.0)}, BOOK)
    assert reachable(apart) == [*RULES]
    with pytest.raises(PrivacyError, match=r"death = 1, cause = '\(missing\)'"):
        pr.certify(apart)
    assert reachable(law()) == []
    assert pr.certify(law()).findings[0].level <= 1.0


def test_no_draw_of_any_engine_breaks_a_rule() -> None:
    table = cohort(400).append_column("id", pa.array(range(400)))
    keyed = Mechanism(law().blocks, Codebook((Variable("id", role="record_key", type="int64"), *BOOK.variables), RULES))
    local, duck = LocalEngine(), DuckDBEngine(LocalEngine(threads=2, batch_rows=100))
    for seed in range(20):
        out = perturb(table, keyed, pr.ReleaseKey.from_seed(seed), record_key="id")
        assert broken(out) == 0
        assert out["cause"].null_count not in (0, table["cause"].null_count)  # the living die, and the dead live
    made = [testing.perturbed(engine, testing.Memory(table), keyed, record_key="id") for engine in (local, duck)]
    assert made[0].to_pylist() == made[1].to_pylist()
    assert broken(made[0]) == 0


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_missing_answers_that_are_no_category_are_refused_in_rules(missing: str) -> None:
    plain = Variable("cause", role="sensitive", categories=CAUSES, missing=missing)
    wanted = r"rule 2: missing answers of 'cause' are no category. Next: set its missing = 'category', or leave"
    with pytest.raises(SpecificationError, match=wanted):
        Codebook((DEATH, plain), RULES)
    with pytest.raises(
        SpecificationError, match=r"'\(Missing\)' is not a category of 'cause' \(did you mean '\(missing"
    ):
        Codebook((DEATH, CAUSE), [Rule({"death": 1, "cause": "(Missing)"})])


def test_a_category_of_the_same_text_is_meant_as_it_always_was() -> None:
    named = Variable("cause", role="sensitive", categories=("A", "(missing)"), missing="category")
    book = Codebook((DEATH, named), [Rule({"death": 1, "cause": "(missing)"})])
    codes = {"death": np.array([1, 1, 1]), "cause": np.array([0, 1, 2])}
    assert forbidden(book, codes, book.rules).tolist() == [False, True, False]
    assert ALONE._codes("cause", {"categories": ["A", "(missing)"], "missing": "category"}, "(missing)") == {1}


def test_codebooks_and_tables_of_rules_are_read_again(tmp_path: Path) -> None:
    assert Codebook.from_dict(json.loads(json.dumps(BOOK.to_dict()))) == BOOK
    age = Variable("age", role="key", categories=(1, 2), type="int64", missing="category")
    mixed = Codebook((DEATH, age), [Rule({"death": 1, "age": [2, "(missing)"]})])  # a list of numbers and the text
    for number, book in enumerate((BOOK, mixed)):
        book.save(tmp_path / f"{number}.toml")
        assert load_codebook(tmp_path / f"{number}.toml") == book
    (tmp_path / "rules.csv").write_text("death,cause,area\n1,(missing),\n0,Neoplasms,\n")
    assert read_rules(tmp_path / "rules.csv", BOOK) == (RULES[1], Rule({"death": 0, "cause": "Neoplasms"}))
    (tmp_path / "wrong.csv").write_text("death,area\n1,(missing)\n")
    with pytest.raises(SpecificationError, match="row 2: the text is not a category of 'area'"):
        read_rules(tmp_path / "wrong.csv", BOOK)


def planned(
    folder: Path,
    table: pa.Table,
    source: str = 'file = "people.parquet"',
    *,
    split: bool = False,
    completed: bool = False,
) -> pr.Plan:
    """Write a file, its codebook with rules, and a plan with one block, or a split."""
    pq.write_table(table, folder / "people.parquet")
    names = f"""[[variables]]
name = "death"
role = "key"
type = "int64"
categories = [0, 1]
[[variables]]
name = "cause"
role = "sensitive"
missing = "category"
categories = {json.dumps(CAUSES)}
[[variables]]
name = "area"
role = "other"
categories = ["N", "S"]
{RULES_TEXT}"""
    (folder / "codebook.toml").write_text(names)
    block = '[[blocks]]\nvariables = ["death", "cause"]\nprivacy = { model = "differential", epsilon = 2.0 }\n'
    parts = '[split]\nvariables = ["death", "cause", "area"]\nepsilon = 2.0\nworkload = "pairs"\n'
    release = '[release]\nformat = "csv"\n' + ("completed = 2\nas_is = ['area']\n" if completed else "")
    head = f'[source]\n{source}\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\nepsilon = 2.0\n'
    (folder / "plan.toml").write_text(head + release + (parts if split else block))
    return pr.load_plan(folder / "plan.toml")


def test_a_release_and_its_copies_keep_the_rules_and_both_verifiers_say_so(tmp_path: Path) -> None:
    made = pr.run(planned(tmp_path, cohort(), completed=True), tmp_path / "out", release_key=pr.ReleaseKey.from_seed(3))
    (block,) = made.mechanism.blocks
    assert block.cells == FEASIBLE  # the others are no cells: nothing leads to them
    assert broken(made.frame()) == 0
    assert made.codebook.rules == RULES
    assert json.loads((made.path / "codebook.json").read_text())["rules"][1] == {"death": 1, "cause": "(missing)"}
    copies = pr.complete(made, copies=2, seed=1)
    assert [broken(copy) for copy in copies.frames] == [0, 0]
    assert pr.verify(made.path).ok
    assert not [line for line in ALONE.verify(str(made.path)).lines if line[0] == "WRONG"]
    found = pr.estimate.table(made.frame(), ["death", "cause"], made.mechanism)
    assert abs(found.value[[0, 0, 1], [0, 1, 2]]).max() < 1e-9  # what cannot occur is estimated as nothing


def test_a_dead_person_without_a_cause_is_seen_by_both_verifiers(tmp_path: Path) -> None:
    made = pr.run(planned(tmp_path, cohort()), tmp_path / "out", release_key=pr.ReleaseKey.from_seed(3))
    text = made.data_path.read_text()
    made.data_path.write_text(re.sub(r'^1,"\w+"', "1,", text, count=1, flags=re.MULTILINE))
    rehash(made.path)
    with pytest.raises(ReleaseError, match="a rule of the codebook forbids"):
        pr.verify(made.path)
    lines = ALONE.verify(str(made.path)).lines
    assert any(outcome == "WRONG" and "a combination that a rule forbids" in why for outcome, _, why in lines)


@pytest.mark.parametrize("value", ["(nothing)", 7])
def test_a_rule_that_names_nothing_is_seen_by_the_verifier_alone(tmp_path: Path, value: object) -> None:
    made = pr.run(planned(tmp_path, cohort()), tmp_path / "out", release_key=pr.ReleaseKey.from_seed(3))
    edit(made.path / "codebook.json", lambda book: book["rules"][1].update(cause=value))
    rehash(made.path)
    assert any("a rule names no category of cause" in why for _, _, why in ALONE.verify(str(made.path)).lines)


def test_a_split_keeps_the_rules(tmp_path: Path) -> None:
    made = pr.run(planned(tmp_path, cohort(), split=True), tmp_path / "out", release_key=pr.ReleaseKey.from_seed(3))
    rows = made.frame().select(["death", "cause"]).to_pylist()
    shown = [(r["death"], r["cause"]) for r in rows if "(not released)" not in r.values()]
    assert {dead for dead, cause in shown if cause is None} <= {"0"}
    assert {dead for dead, cause in shown if cause is not None} <= {"1"}
    assert isinstance(made.mechanism.split, Split)
    assert pr.verify(made.path).ok
    assert [broken(pa.table(f)) for f in pr.complete(made, copies=2, seed=1).frames] == [0, 0]


@pytest.mark.parametrize("kind", ["file", "duckdb"])
@pytest.mark.parametrize("dead", [0, 1])
def test_a_file_that_breaks_a_rule_is_refused_wherever_it_is(tmp_path: Path, kind: str, dead: int) -> None:
    table = cohort().to_pylist()
    one = next(record for record in table if record["death"] == dead)
    one["cause"] = None if dead else "Neoplasms"
    held = pa.Table.from_pylist(table, cohort().schema)
    source = 'file = "people.parquet"'
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
            connection.register("given", held)
            connection.execute("CREATE TABLE persons AS FROM given")
        source = 'uri = "duckdb:///people.duckdb"\ntable = "persons"'
    with pytest.raises(DataError, match=f"rule {dead + 1}, of death, cause: records contradict a rule"):
        pr.run(planned(tmp_path, held, source), tmp_path / "out", release_key=pr.ReleaseKey.from_seed(3))
    assert not (tmp_path / "out").exists()


def test_a_copy_with_a_dead_person_without_a_cause_is_refused(tmp_path: Path) -> None:
    released = cohort(2).slice(0, 0)
    good = pa.Table.from_pylist([{"death": 0, "cause": None, "area": "N"}], released.schema)
    for death, is_good in ((0, True), (1, False)):
        form = Stacked.of(good.schema, law(), ".parquet")
        path = tmp_path / f"{death}.parquet"
        write_stacked(path, form, good, [good.set_column(0, "death", pa.array([death]))])
        if is_good:
            assert check_stacked(path, form, law(), good, 1) == []
            continue
        with pytest.raises(DataError, match="a combination that a rule of the codebook forbids"):
            check_stacked(path, form, law(), good, 1)


@pytest.mark.parametrize("names", [["death"], ["cause"], ["death", "cause"]])
def test_the_model_of_true_records_has_the_rules(names: list[str]) -> None:
    """Whichever of the two is unperturbed, its codes are those of the codebook, also where rare ones are merged."""
    wide = tuple(f"c{k}" for k in range(200))
    cause = Variable("cause", role="sensitive", categories=wide, missing="category")
    book = Codebook((DEATH, cause), [Rule({"death": 1, "cause": "(missing)"})])
    values = [*wide, *(wide[:60] * 20), None]
    causes = pa.array([*values, None, None], pa.string())
    dead = [int(cause is not None and k % 2) for k, cause in enumerate(causes.to_pylist())]
    table = pa.table({"death": dead, "cause": causes})
    blocks = {name: randomised_response(book[name].size, 1.0) for name in names}
    evidence, modelled = evidence_of(table, Mechanism(blocks, book))
    (rule,) = evidence.rules
    d, c = modelled.names.index("death"), modelled.names.index("cause")
    labels = modelled["cause"].labels
    assert [labels[code] for code in np.flatnonzero(rule[c])[: len(labels)] if code < len(labels)] == ["(missing)"]
    assert [modelled["death"].labels[code] for code in np.flatnonzero(rule[d])] == ["1"]
