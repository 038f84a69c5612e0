"""Plans with a section [split]: what they say and refuse, what is designed, and what is released."""

import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomlkit
from click.testing import CliRunner

import postrand as pr
from postrand import estimate, formats, release
from postrand.cli import main
from postrand.codebook.not_released import NOT_RELEASED
from postrand.engines import LocalEngine
from postrand.engines.spark import SparkEngine
from postrand.errors import EstimationError, PostrandError, SpecificationError, UsageError
from postrand.plan import Plan, load_plan, writing
from postrand.plan.plan import plan_from_dict
from postrand.plan.split_plan import FIELDS, split_from
from postrand.privacy import level_of
from postrand.release import fields
from postrand.support.randomness import ReleaseKey
from postrand.workflow import pipeline
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.design_split import design_split
from postrand.workflow.file_goal import solved
from postrand.workflow.known import Known
from postrand.workflow.planned import mechanism_of
from postrand.workflow.tuning import tune_plan
from tests.conftest import ROOT
from tests.fixtures.releases.make import write_people
from tests.json_schema import problems
from tests.split_plan_case import BOOK, KEPT, KEY, NAMES, PLAN, UNIT, count, law_of, load_book, make_release, survey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(survey(), tmp_path / "survey.parquet")
    (tmp_path / "codebook.toml").write_text(BOOK)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def planned(folder: Path) -> Callable[..., Plan]:
    """Return a function that loads the plan, with pieces of its text or of the codebook's exchanged."""

    def load(*pieces: tuple[str, str], book: str = BOOK) -> Plan:
        text = PLAN
        for old, new in pieces:
            assert old in text, old
            text = text.replace(old, new)
        (folder / "codebook.toml").write_text(book)
        (folder / "plan.toml").write_text(text)
        return load_plan(folder / "plan.toml")

    return load


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_release(tmp_path_factory.mktemp("split"))


# What a plan says.


def test_a_plan_is_read_as_it_is_written(planned: Callable[..., Plan]) -> None:
    split = planned(
        ("epsilon = 2.0", 'epsilon = 2\ncore = ["sex"]\nstructure = "circulant"\nobjective = "variance"'),
        ("max_cells = 16", 'workload = [{table = ["area", "sex"], weight = 2}, ["age", "ill"]]'),
    ).split
    assert split is not None
    assert (split.variables, split.core, split.epsilon, split.max_cells) == (NAMES, ("sex",), 2, 65_536)
    assert split.workload.tables == (("sex", "area"), ("age", "ill"))
    assert split.workload.weights == (2.0, 1.0)
    assert [structure.name for structure in split.structure] == ["circulant"]
    assert split.objective is not None
    assert split.objective.name == "variance"
    for name, tables in (("pairs", 6), ("triples", 4), ("worst", 6)):
        split = planned(("max_cells = 16", f'workload = "{name}"')).split
        assert split is not None
        assert (len(split.workload.tables), split.workload.worst) == (tables, name == "worst")


@pytest.mark.parametrize(
    "options",
    [
        "max_cells = 16",
        'workload = "worst"\nprior = "dp"\nprior_epsilon = 0.25',
        'workload = [{table = ["area", "sex"], weight = 2}, ["age"], ["ill", "sex"]]\ncore = ["sex"]\nprior = "file"',
        'structure = ["circulant", { model = "general" }]\nobjective = "variance"\nworkload = "triples"',
        'prior = [{table = ["sex", "ill"], counts = [[0.1, 0.2], [0.3, 0.4]]}, {table = ["area"], counts = [1, 2, 1]}]',
    ],
)
def test_what_is_written_is_read_as_the_same(planned: Callable[..., Plan], options: str) -> None:
    split = planned(("max_cells = 16", options)).split
    assert split is not None
    text = tomlkit.dumps({"split": writing.split_of(split.to_dict())})
    again, problems = split_from(tomllib.loads(text)["split"], {}, load_book(), "plan")
    assert problems == []
    assert again is not None
    assert again.to_dict() == split.to_dict()
    if isinstance(split.prior, str):
        assert again == split


def test_blocks_may_be_absent_and_the_split_then_has_the_whole_epsilon(planned: Callable[..., Plan]) -> None:
    plan = planned(
        ('[[blocks]]\nvariables = ["town"]\n', ""), ("epsilon = 2.0\n", ""), ('["weight"]', '["weight", "town"]')
    )
    made = design_split(plan)
    assert made is not None
    assert plan.blocks == ()
    assert 2.999 < made.split.epsilon <= 3.0


def test_every_problem_is_said_at_once(planned: Callable[..., Plan]) -> None:
    section = 'variables = ["sex", "agee", "town"]\nepsilon = -2\ncorr = []\nprior = "files"\nmax_cells = 0\ngiven = 3'
    with pytest.raises(SpecificationError) as caught:
        planned(('variables = ["sex", "age", "ill", "area"]\nepsilon = 2.0\nmax_cells = 16', section))
    text = "\n".join(caught.value.problems)
    for wanted in (
        "[split]: no variable 'agee' in the codebook (did you mean 'age'?)",
        "[split]: epsilon is not a positive number; got -2",
        "unknown option 'corr'",
        "unknown prior 'files'",
        "max_cells is not valid; got 0",
        "'given' is not a list of names",
    ):
        assert wanted in text, (wanted, text)
    assert all("plan.toml [split]" in problem for problem in caught.value.problems)


SPLIT = 'variables = ["sex", "age", "ill", "area"]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SPLIT, 'variables = ["sex", "town"]', r"'town' is in two places.*keep it in a block, or in the split"),
        (SPLIT, "variables = []", "'variables' is missing or empty"),
        (SPLIT, 'variables = "sex"', "'variables' is not a list of names"),
        (SPLIT, 'variables = ["sex", "weight"]', "'weight' has no categories"),
        ("max_cells = 16", 'workload = "pair"', "unknown workload 'pair' .did you mean 'pairs'"),
        ("max_cells = 16", 'workload = [["sex", "town"]]', "variable that is not split: 'town'"),
        ("max_cells = 16", 'workload = [["sex", "age"]]', "no table of the workload has 'ill', 'area'"),
        ("max_cells = 16", 'workload = [{tables = ["sex"]}]', "not a list of names, or {table"),
        ("max_cells = 16", 'core = ["town"]', "core variable 'town' is not one of the split variables"),
        ("max_cells = 16", 'structure = "circulan"', "circulan"),
        ("max_cells = 16", 'structure = "metric"', r"\[split\]: structure 'metric' has no algorithm for"),
        ("max_cells = 16", 'prior = "dp"', "prior = 'dp' needs a budget"),
        ("max_cells = 16", 'given = ["town"]', "given variable 'town' is perturbed"),
        ("max_cells = 16", 'prior = [{table = ["sex"], counts = [1, 2, 3]}]', "does not fit the variables' categories"),
        ("max_cells = 16", 'prior = [{table = ["town"], counts = [1, 2]}]', "'town', which is not one of"),
        ("epsilon = 2.0\n", "", "blocks share the record's budget, so the split needs an epsilon of its own"),
        ('[[blocks]]\nvariables = ["town"]', '[[blocks]]\nvariables = ["town"]\ngiven = ["sex"]', "reads 'sex', which"),
        ('model = "differential"\nepsilon = 3.0', 'model = "bistochastic"\nbeta = 0.5', "random subset of the"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(planned: Callable[..., Plan], old: str, new: str, message: str) -> None:
    with pytest.raises(SpecificationError, match=message):
        planned((old, new))


WRONG = [
    0, -1, True, "x", "", [1], [[]], [{}], {"a": 1}, float("nan"), float("inf"), 10**400, [None], ["id"], ["weight"],
    "\x1b[2K", ["\n"], [["sex", 1]], [["sex", "sex"]], [["sex"], ["sex"]], [{"table": 1}], [{"table": []}],
    [{"table": ["sex"], "weight": "a"}], [{"table": ["sex"], "weight": -1}], [{"table": ["sex"], "counts": "x"}],
    [{"table": ["sex"], "counts": [[1, 2]]}], [{"table": ["sex"], "counts": [0, 0]}], [{"model": "circulant", "x": 1}],
    [{"table": ["sex", "sex"], "counts": [[1, 2], [1, 2]]}], [{"table": ["sex"], "counts": [1, 2]}] * 2,
]  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_what_has_the_wrong_type_is_said_in_a_sentence(name: str, folder: Path) -> None:
    plan = tomllib.loads(PLAN)
    for value in WRONG:
        if (name, value) == ("prior_epsilon", 0):
            continue
        with pytest.raises(SpecificationError) as caught:
            plan_from_dict({**plan, "split": {**plan["split"], name: value}}, folder)
        assert all("plan" in problem and problem.isprintable() for problem in caught.value.problems), value


def test_rules_between_the_split_and_a_block_are_refused(planned: Callable[..., Plan]) -> None:
    book = BOOK.replace("{ age = 10, ill = true }", '{ age = 10, town = "x" }')
    with pytest.raises(SpecificationError, match="rules link town, of other blocks, to variables of the split"):
        planned(book=book)


def test_a_codebook_with_the_category_is_refused(planned: Callable[..., Plan]) -> None:
    with pytest.raises(SpecificationError, match=r"a category or label is '\(not released\)'.*rename it"):
        planned(book=BOOK.replace('categories = ["a", "b", "c"]', 'categories = ["a", "b", "(not released)"]'))


def test_a_table_that_no_subset_can_show_is_refused(planned: Callable[..., Plan]) -> None:
    """Of age and ill together 7 of 8 combinations can occur."""
    assert planned(("max_cells = 16", "max_cells = 12")).split is not None
    with pytest.raises(SpecificationError, match=r"no subset of at most 7 cells shows sex × age, age × area\. Next"):
        planned(("max_cells = 16", "max_cells = 7"))
    with pytest.raises(SpecificationError, match=r"no subset of at most 13 cells shows age × ill, age × area\. Next"):
        planned(("max_cells = 16", 'max_cells = 13\ncore = ["sex"]'))


def test_the_noise_of_a_prior_is_drawn_once(planned: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw would spend its ε; the search for the record's level tries many designs."""
    drawn: list[int] = []

    def noisy(counts: np.ndarray, epsilon: float) -> np.ndarray:
        drawn.append(len(counts))
        return counts

    monkeypatch.setattr("postrand.workflow.design_split.noisy_counts", noisy)
    plan = planned(
        ("epsilon = 3.0", "file_epsilon = 1.5\ndelta = 1e-6"),
        ("epsilon = 2.0\n", 'prior = "dp"\nprior_epsilon = 0.4\n'),
        ('[[blocks]]\nvariables = ["town"]\n', ""),
        ('as_is = ["weight"]\n', ""),
        book=BOOK.replace('role = "weight"', 'role = "drop"').replace('role = "other"', 'role = "drop"'),
    )
    known = Known.tables(found := solved(plan))
    law = mechanism_of(found, (), known)
    assert drawn == [2, 4, 2, 3]
    assert law.split is not None
    assert {(block.provenance, block.prior_epsilon) for block in law.split.blocks} == {("dp", 0.4)}
    assert law.split.epsilon + 0.4 <= level_of(found.privacy)


# What is designed.


def test_the_design_is_that_of_the_library_with_the_file_s_tables(planned: Callable[..., Plan]) -> None:
    found = design_split(planned(("max_cells = 16", 'max_cells = 16\nprior = "file"')))
    table, book = survey(), load_book()
    tables = {pair: count(table, book, pair) for pair in itertools.combinations(NAMES, 2)}
    prior = pr.designers.TablePrior(tables, "confidential")
    wanted = pr.split_design(book, NAMES, 2.0, max_cells=16, prior=prior)
    assert found is not None
    assert {s.variables: s.weight for s in found.split.subsets} == {s.variables: s.weight for s in wanted.subsets}
    assert sum(s.weight for s in found.split.subsets) == UNIT
    assert {block.provenance for block in found.split.blocks} == {"confidential"}
    assert found.to_dict()["effective_per_1000"][0]["table"] == ["sex", "age"]


def test_a_prior_can_be_noisy_or_published(planned: Callable[..., Plan]) -> None:
    noisy = planned(("max_cells = 16", 'prior = "dp"\nprior_epsilon = 0.5'), ("epsilon = 3.0", "epsilon = 3.5"))
    found = design_split(noisy)
    assert found is not None
    assert {(b.provenance, b.prior_epsilon) for b in found.split.blocks} == {("dp", 0.5)}
    assert [level_of(claim.privacy) for claim in noisy.claims] == [3.5, 2.5]
    published = design_split(planned(("max_cells = 16", 'prior = [{table = ["sex"], counts = [2, 4]}]')))
    assert published is not None
    assert {b.provenance for b in published.split.blocks} == {"public"}
    uniform = design_split(planned())
    assert uniform is not None
    assert uniform.design.value != published.design.value


def test_blocks_that_share_leave_the_split_its_epsilon(planned: Callable[..., Plan]) -> None:
    (town,) = design_blocks(planned())
    assert 0.999 < town.block.epsilon <= 1.0


@pytest.mark.parametrize("prior", ["file", "uniform"])
@pytest.mark.parametrize("given", ["", 'given = ["town"]'])
def test_what_is_digested_before_the_subsets_exist_is_the_content_of_the_mechanism(
    planned: Callable[..., Plan], prior: str, given: str
) -> None:
    block = ('[[blocks]]\nvariables = ["town"]', '[[blocks]]\nvariables = ["sex"]')
    pieces = [block, ('"sex", ', "")] if given else []
    plan = planned(("max_cells = 16", f'prior = "{prior}"\n{given}'), *pieces)
    known = Known.of(plan, key=KEY)
    mechanism = mechanism_of(plan, design_blocks(plan, known), known)
    assert known.digest is not None
    assert known.answers[known.digest] == LocalEngine().content(known.source, mechanism, KEY, record_key="id")


def test_a_plan_for_the_file_s_level_is_solved_for_the_record_s(planned: Callable[..., Plan], folder: Path) -> None:
    plan = planned(
        ("epsilon = 3.0", "file_epsilon = 1.0\ndelta = 1e-6"),
        ("epsilon = 2.0\n", ""),
        ('[[blocks]]\nvariables = ["town"]\n', ""),
        ('as_is = ["weight"]\n', ""),
        book=BOOK.replace('role = "weight"', 'role = "drop"').replace('role = "other"', 'role = "drop"'),
    )
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    stated, record = made.certificate["file"], made.certificate["account"]["total"]
    assert 0.97 < stated["epsilon"] <= 1.0
    assert stated["records"] == survey().num_rows
    assert made.mechanism.split is not None
    assert made.mechanism.split.epsilon == record > 2.0
    assert release.verify(made.path).verdict == "verified"
    assert plan.split is not None
    larger = replace(plan, split=replace(plan.split, epsilon=2 * record))
    with pytest.raises(PostrandError, match=r"own epsilon are too large for the file's level"):
        pipeline.run(larger, folder / "other", release_key=bytes(32))


# What is released.


def test_the_release_says_what_it_shows_and_verifies(made: Path) -> None:
    found, frame = release.read(made / "release"), release.read(made / "release").frame()
    assert release.verify(made / "release").verdict == "verified"
    assert found.mechanism.partly == NAMES
    assert found.codebook["age"].categories == (10, 20, 30)
    assert frame["age"].chunk(0).dictionary.to_pylist() == ["10", "20", "30", NOT_RELEASED]
    assert set(frame["age"].to_pylist()) == {"10", "20", "30", None, NOT_RELEASED}
    assert set(frame["town"].to_pylist()) == {"x", "y"}
    assert sorted(frame["weight"].to_pylist()) == sorted(survey()["weight"].to_pylist())
    entries = json.loads((made / "release" / "codebook.json").read_text())["variables"]
    assert {e["name"]: e.get("not_released") for e in entries} == {
        **dict.fromkeys(NAMES, NOT_RELEASED), "town": None, "weight": None,
    }  # fmt: skip
    names = [set(s.variables) for s in found.mechanism.split.subsets]
    for row in frame.select(NAMES).to_pylist():
        assert {name for name, value in row.items() if value != NOT_RELEASED} in names
        assert not (row["age"] == "10" and row["ill"] == "True")
    with formats.open_writer(made / "x.csv", frame.schema) as writer:
        writer.write(frame.to_batches()[0])


def ratio(weights: Any) -> Fraction:
    """Return the largest ratio of two entries of a column, from the plain data of a matrix."""
    if isinstance(weights, dict):
        assert set(weights) == {"size", "diagonal", "off"}
        high, low = sorted((weights["diagonal"], weights["off"]), reverse=True)
        return Fraction(high, low)
    return max(Fraction(a, b) for column in zip(*weights, strict=True) for a in column for b in column)


def test_the_level_follows_from_the_integers_of_the_folder(made: Path) -> None:
    """Computed here from mechanism.json alone: the largest ratio of a subset, times that of the block."""
    law, stated = law_of(made / "release"), json.loads((made / "release" / "certificate.json").read_text())
    subsets = [ratio(subset["weights"]) for subset in law["split"]["subsets"]]
    assert sum(subset["weight"] for subset in law["split"]["subsets"]) == UNIT
    town = ratio(law["blocks"][0]["weights"])
    exact = math.log(max(subsets) * town)
    assert exact <= stated["account"]["total"] <= exact + 1e-12
    levels = {tuple(claim["variables"]): claim["level"] for claim in stated["claims"]}
    assert math.log(max(subsets)) <= levels[NAMES] <= 2.0
    assert [entry["weight"] for entry in stated["split"]] == [s["weight"] for s in law["split"]["subsets"]]
    for exact, entry in zip(map(math.log, subsets), stated["split"], strict=True):
        assert exact <= entry["epsilon"] <= exact + 1e-12


def test_tables_are_estimated_from_the_folder(made: Path) -> None:
    found, truth = release.read(made / "release"), count(survey(), load_book(), ("sex", "ill"))
    made_table = estimate.table(found.frame(), ["sex", "ill"], found.mechanism)
    z = (made_table.value - truth / truth.sum()) / made_table.standard_error
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("suffix", ["csv", "arrow", "parquet"])
@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_engines_and_formats_release_the_same(
    planned: Callable[..., Plan], folder: Path, suffix: str, engine: str
) -> None:
    plan = planned(("[release]", f'[release]\nformat = "{suffix}"'))
    first = pipeline.run(planned(), folder / "wanted", release_key=bytes(32))
    other = pipeline.run(plan, folder / "release", release_key=bytes(32), engine=engine)
    assert release.verify(other.path).verdict == "verified"
    assert other.frame().to_pylist() == first.frame().to_pylist()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_cluster_releases_the_same(planned: Callable[..., Plan], folder: Path, made: Path) -> None:
    plan = planned(("max_cells = 16", 'max_cells = 16\nprior = "file"'))
    other = pipeline.run(plan, folder / "release", release_key=bytes(range(32)), engine=SparkEngine(parts=2))
    assert release.verify(other.path).verdict == "verified"
    wanted = release.read(made / "release").frame().to_pylist()
    assert sorted(map(str, other.frame().to_pylist())) == sorted(map(str, wanted))


def test_an_interrupted_run_continues(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, taken = load_plan(made / "plan.toml"), []

    def stop(*_: object, **__: object) -> None:
        taken.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("postrand.release.bundle.read_back", stop)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(plan, tmp_path / "release", release_key=bytes(range(32)), resume=tmp_path / "parts")
    assert taken
    again = pipeline.run(plan, tmp_path / "release", release_key=bytes(range(32)), resume=tmp_path / "parts")
    assert again.frame().equals(release.read(made / "release").frame())


def test_numerical_columns_stand_beside(planned: Callable[..., Plan], folder: Path) -> None:
    ranked = '[[numerical]]\nvariables = ["weight"]\nmethod = {model = "rank-blocks", k = 10}\nform = "permute"\n'
    plan = planned(
        ('as_is = ["weight"]\n', ""),
        ("[release]", f"{ranked}[release]"),
        book=BOOK.replace('"weight"\ntype', '"other"\ntype'),
    )
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    assert release.verify(made.path).verdict == "verified"
    assert [column.variable for column in made.mechanism.numerical] == ["weight"]


def test_an_auditor_draws_it_again(made: Path) -> None:
    done = CliRunner().invoke(
        main,
        ["verify", str(made / "release"), "--plan", str(made / "plan.toml"), "--key-file", str(made / "key")],
    )
    assert done.exit_code == 0, done.output
    assert "drawn" in done.output


def test_the_command_shows_the_split(made: Path) -> None:
    done = CliRunner().invoke(main, ["design", "--plan", str(made / "plan.toml")])
    assert done.exit_code == 0, done.output
    assert "Split of sex, age, ill, area" in done.output
    data = CliRunner().invoke(main, ["design", "--plan", str(made / "plan.toml"), "--json"])
    split = json.loads(data.output)["split"]
    assert sum(s["probability"] for s in split["subsets"]) == pytest.approx(1)
    assert split["status"] in ("optimal", "bounded")
    assert len(split["effective_per_1000"]) == 6


def test_a_key_is_not_used_for_other_records_of_the_split(made: Path, folder: Path) -> None:
    values = survey()
    ill = values["ill"].to_pylist()
    at = next(k for k, v in enumerate(ill) if v)
    ill[at] = False
    place = values.schema.get_field_index("ill")
    pq.write_table(values.set_column(place, "ill", pa.array(ill)), folder / "survey.parquet")
    (folder / "key").write_text(bytes(range(32)).hex())
    (folder / "key").chmod(0o600)
    words = ["protect", "--plan", str(folder / "plan.toml"), "--key-file", str(folder / "key")]
    assert CliRunner().invoke(main, [*words, "--out", str(folder / "one")]).exit_code == 0
    pq.write_table(values, folder / "survey.parquet")
    refused = CliRunner().invoke(main, [*words, "--out", str(folder / "two")])
    assert refused.exit_code != 0
    assert "--again" in refused.output


def test_strata_are_kept_inside_every_subset(planned: Callable[..., Plan], folder: Path) -> None:
    plan = planned(("max_cells = 16", 'max_cells = 16\ngiven = ["town"]'), ('[[blocks]]\nvariables = ["town"]\n', ""))
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    split = made.mechanism.split
    assert split is not None
    assert split.given == ("town",)
    assert release.verify(made.path).verdict == "verified"
    assert sorted(made.frame()["town"].to_pylist()) == sorted(survey()["town"].to_pylist())
    for block in split.blocks:
        town = np.array(block.cells)[:, 0]
        weights = block.matrix.weights
        assert (weights[town[:, None] != town[None, :]] == 0).all()
        assert (weights[town[:, None] == town[None, :]] > 0).all()
    assert "strata" in [entry["code"] for entry in made.certificate["not_covered"]]
    assert [claim.get("within") for claim in made.certificate["claims"]] == [True]


def test_strata_have_randomised_response_only(planned: Callable[..., Plan]) -> None:
    block = ('[[blocks]]\nvariables = ["town"]\n', "")
    with pytest.raises(SpecificationError, match=r"'structure' cannot be combined with .* every subset reads \(town\)"):
        planned(block, ("max_cells = 16", 'structure = "circulant"\ngiven = ["town"]'))


def test_a_rule_with_an_unperturbed_variable_is_kept(planned: Callable[..., Plan], folder: Path) -> None:
    book = BOOK.replace("{ age = 10, ill = true }", '{ age = 10, ill = true, town = "x" }')
    plan = planned(('[[blocks]]\nvariables = ["town"]\n', ""), book=book)
    assert plan.split_reads == ("town",)
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    assert release.verify(made.path).verdict == "verified"
    shown = [r for r in made.frame().to_pylist() if r["age"] == "10" and r["ill"] == "True"]
    assert {row["town"] for row in shown} == {"y"}


def test_what_has_no_law_for_a_split_says_so(planned: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match="the risk of a split release is not simulated here"):
        tune_plan(planned(), "tau1 <= 100", sampling_fraction=0.1)


@pytest.mark.parametrize("kept", [True, False])
def test_the_files_fit_their_schemas(kept: bool, made: Path) -> None:
    root = KEPT if kept else made / "release"
    for name in ("manifest.json", "codebook.json", "mechanism.json", "certificate.json", "description.json"):
        data = json.loads((root / name).read_text())
        schema = fields.schema_of(data, name)
        assert schema is not None
        assert list(problems(data, schema, schema)) == []


def test_a_release_that_is_kept_is_verified_drawn_again_and_estimated_from_for_ever(tmp_path: Path) -> None:
    write_people(tmp_path)
    found = release.verify(KEPT, file=tmp_path / "people.csv", release_key=ReleaseKey.from_seed(16))
    assert found.verdict == "verified"
    assert {check.name: check.outcome for check in found.checks}["drawn"] == "passed"
    kept = release.read(KEPT)
    assert kept.certificate_sentences[0].endswith("released under ε-differential privacy, ε <= 5.")
    table = estimate.table(kept.frame(), ["age", "job"], kept.mechanism)
    assert table.value.sum() == pytest.approx(1.0)
    assert abs(table.value[0, 1:]).max() < 1e-9  # children have no job
    with pytest.raises(EstimationError, match="no record shows all these variables"):
        estimate.table(kept.frame(), ["region", "job"], kept.mechanism)


def test_the_tables_of_the_prior_are_counted_in_the_pass_that_counts(
    planned: Callable[..., Plan], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings, inner = [], formats.parquet.ParquetSource.batches

    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        readings.extend(["survey"] * (self.path.name == "survey.parquet"))
        return inner(self, *arguments, **options)

    monkeypatch.setattr(formats.parquet.ParquetSource, "batches", noted)
    pipeline.run(planned(("max_cells = 16", 'prior = "file"')), folder / "release", release_key=bytes(32))
    assert len(readings) == 2


def test_another_claim_on_the_record_covers_the_split(planned: Callable[..., Plan], folder: Path) -> None:
    plan = planned(("[release]", '[[claims]]\nmodel = "renyi"\norder = 2.0\nlevel = 2.5\n[release]'))
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    assert release.verify(made.path).verdict == "verified"
    claim = next(c for c in made.certificate["claims"] if c["privacy"]["model"] == "renyi")
    assert set(claim["variables"]) == {*NAMES, "town"}
    town, *subsets = (subset_renyi(w) for w in weights_of(law_of(made.path)))
    assert claim["level"] == pytest.approx(town + max(subsets), rel=1e-6)


def test_a_claim_on_the_file_s_keys_is_of_the_blocks(planned: Callable[..., Plan], folder: Path) -> None:
    """The split then has its own claim."""
    plan = planned(
        ('model = "differential"\nepsilon = 3.0', 'model = "recognition"\nalpha = 0.5\nsubsets = 2'),
        ('["sex", "age", "ill", "area"]', '["ill", "area"]'),
        ('["town"]', '["sex", "age"]'),
        ('["weight"]', '["weight", "town"]'),
        book=BOOK.replace("rules = [{ age = 10, ill = true }]\n", ""),
    )
    made = pipeline.run(plan, folder / "release", release_key=bytes(32))
    assert release.verify(made.path, file=folder / "survey.parquet").verdict == "verified"
    claims = [(claim["privacy"]["model"], claim["variables"]) for claim in made.certificate["claims"]]
    assert claims == [("recognition", ["sex", "age"]), ("differential", ["ill", "area"])]


def weights_of(law: dict[str, Any]) -> list[np.ndarray]:
    """Return the matrix of the block, then those of the subsets, from plain data."""
    found = [np.array(law["blocks"][0]["weights"])]
    for subset in law["split"]["subsets"]:
        held = subset["weights"]
        found.append(
            np.full((held["size"],) * 2, held["off"]) + (held["diagonal"] - held["off"]) * np.eye(held["size"])
        )
    return found


def subset_renyi(weights: np.ndarray) -> float:
    """Return the largest Rényi divergence of order 2 between two rows."""
    p = weights / UNIT
    return max(math.log((a**2 / b).sum()) for a in p for b in p)


def test_the_plan_of_the_guide_runs(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "split.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n# plan.toml\n(.*?)```", guide, re.DOTALL)
    assert found is not None
    names, rng = ("owner", "works", "urban", "married", "happy"), np.random.default_rng(4)
    columns = {name: np.array(["no", "yes"])[rng.integers(0, 2, 4000)] for name in names}
    pq.write_table(pa.table(columns), tmp_path / "survey.parquet")
    variables = [{"name": name, "role": "key", "categories": ["no", "yes"]} for name in names]
    pr.Codebook.from_dict({"variables": variables}).save(tmp_path / "codebook.toml")
    (tmp_path / "plan.toml").write_text(found.group(1), encoding="utf-8")
    made = pipeline.run(load_plan(tmp_path / "plan.toml"), tmp_path / "release", release_key=bytes(32))
    assert release.verify(made.path).ok
    assert made.certificate["account"]["total"] <= 5.0
    assert set(re.findall(r"^\| `([a-z_]+)`", guide.partition("## In a plan")[2], re.MULTILINE)) >= {*FIELDS} - {
        "objective", "prior_epsilon",
    }  # fmt: skip
