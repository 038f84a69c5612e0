"""How often a run reads the confidential records: on every engine, with everything that a plan can ask for."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.app import checking, designing, opening
from postrand.app.decisions import act, open_decisions
from postrand.codebook import Codebook
from postrand.engines import LocalEngine
from postrand.engines.content import ContentReader
from postrand.engines.duckdb import DuckDBEngine, DuckDBSource
from postrand.engines.spark import SparkEngine
from postrand.engines.wants import Count, Digest, Hold
from postrand.errors import DataError
from postrand.plan import load_plan
from postrand.release import released_codebook
from postrand.risk.sample import Sample, sampled
from postrand.support.randomness import ReleaseKey
from postrand.testing.engines import BOOK, KEY, MECHANISMS, Memory, records_for, survey
from postrand.workflow import demo, pipeline
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.draft import initialise
from postrand.workflow.facts import facts_of
from postrand.workflow.known import Known
from postrand.workflow.planned import mechanism_of
from postrand.workflow.tuning import tune_plan

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def survey_folder(tmp_path_factory):
    """The 11 variables of the demonstration, and a prior of every block that is tuned on the file."""
    folder = tmp_path_factory.mktemp("demo")
    table = demo.survey().slice(0, 3000)
    pq.write_table(table, folder / "gss.parquet")
    _, plan = initialise(
        folder / "gss.parquet", folder, {"key": demo.KEYS, "sensitive": demo.SENSITIVE}, epsilon=2.0, way="blocks"
    )
    text = plan.read_text(encoding="utf-8")
    assert '\nprior = "uniform"\n' in text
    plan.write_text(text.replace('\nprior = "uniform"\n', '\nprior = "file"\n'), encoding="utf-8")
    return folder


@pytest.fixture
def readings(monkeypatch):
    """Count what reads confidential records: batches of a file, queries over it, jobs of a cluster."""
    found = []

    def noting(owner, name, confidential=lambda self: True):
        inner = getattr(owner, name)

        def noted(self, *arguments, **options):
            if confidential(self):
                found.append(f"{owner.__name__}.{name}")
            return inner(self, *arguments, **options)

        monkeypatch.setattr(owner, name, noted)

    for entry in (formats.parquet.ParquetSource, formats.csv.CsvSource):
        noting(entry, "batches", lambda self: self.path.name.startswith("gss"))
    for owner, name in ((DuckDBSource, "batches"), (DuckDBEngine, "_records"), (SparkEngine, "_rows")):
        noting(owner, name)
    return found


@pytest.mark.parametrize("dossier", [False, True])
@pytest.mark.parametrize("engine", ["local", "duckdb"])
def test_a_run_reads_its_file_at_most_three_times(survey_folder, readings, tmp_path, engine, dossier):
    plan = load_plan(survey_folder / "plan.toml")
    assert len(plan.codebook.names) == 11
    assert all(block.reads_file for block in plan.blocks)
    inside = tmp_path / "dossier" if dossier else None
    pipeline.run(plan, tmp_path / "release", release_key=ReleaseKey.from_seed(1), engine=engine, dossier=inside)
    assert len(readings) == {"local": 2, "duckdb": 3}[engine], readings


def test_a_table_is_known_in_any_order_of_its_variables(survey_folder, monkeypatch):
    """The mechanism of a split orders variables by its subsets, not by the plan: a pass for each table was made."""
    known = Known.of(load_plan(survey_folder / "plan.toml"), dossier=True)
    turned = known.plan.perturbed[1::-1]
    wanted = LocalEngine().count(known.source, known.plan.codebook, turned)
    monkeypatch.setattr(LocalEngine, "count", lambda *_: pytest.fail("a pass for one table"))
    found = known.table(turned)
    assert found.variables == turned
    np.testing.assert_array_equal(found.dense(), wanted.dense())


def test_a_sheet_is_parsed_once_for_all_passes(tmp_path, monkeypatch):
    from postrand.formats import _sheet

    demo.survey().slice(0, 50).select(["region", "educ"]).to_pandas().to_excel(tmp_path / "gss.xlsx", index=False)
    source, parsed = formats.read(tmp_path / "gss.xlsx"), []
    inner = _sheet._records

    def noted(*of):
        parsed.append(of)
        return inner(*of)

    monkeypatch.setattr(_sheet, "_records", noted)
    first, second = ([*source.batches(names, 7)] for names in (["educ", "region"], ["educ"]))
    assert len(parsed) == 1
    assert [batch.num_rows for batch in first] == [batch.num_rows for batch in second]
    assert [batch["educ"] for batch in first] == [batch["educ"] for batch in second]
    monkeypatch.setattr(_sheet, "_KEPT", 99)
    anew = formats.read(tmp_path / "gss.xlsx")
    for _ in range(2):
        assert [*anew.batches(["educ"], 7)] == second
    assert len(parsed) == 1 + 1 + 2  # the first is that which finds the types


def test_a_slow_text_file_is_read_twice(survey_folder, readings, tmp_path):
    pacsv.write_csv(pq.read_table(survey_folder / "gss.parquet"), tmp_path / "gss.csv")
    for name in ("codebook.toml", "plan.toml"):
        text = (survey_folder / name).read_text(encoding="utf-8").replace("gss.parquet", "gss.csv")
        (tmp_path / name).write_text(text, encoding="utf-8")
    plan = load_plan(tmp_path / "plan.toml")
    pipeline.run(plan, tmp_path / "release", release_key=ReleaseKey.from_seed(1), dossier=tmp_path / "dossier")
    assert readings == ["CsvSource.batches"] * 2


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_cluster_counts_in_one_job_and_samples_in_one_pass(survey_folder, readings, tmp_path):
    plan = load_plan(survey_folder / "plan.toml")
    pipeline.run(plan, tmp_path / "release", release_key=ReleaseKey.from_seed(1), engine=SparkEngine(parts=2))
    assert sorted(readings) == ["ParquetSource.batches", *["SparkEngine._rows"] * 2]


def test_a_design_reads_its_file_once(survey_folder, readings):
    design_blocks(load_plan(survey_folder / "plan.toml"))
    assert len(readings) == 1


@pytest.mark.parametrize("prior", ["file", "uniform"])
def test_what_is_digested_before_the_matrices_exist_is_the_content_of_the_mechanism(survey_folder, tmp_path, prior):
    """The draws are bound to it: a mistake here would release other values under the same key."""
    text = (survey_folder / "plan.toml").read_text(encoding="utf-8").replace('prior = "file"\n', f'prior = "{prior}"\n')
    (survey_folder / "other.toml").write_text(text, encoding="utf-8")
    plan, key = load_plan(survey_folder / "other.toml"), ReleaseKey.from_seed(2)
    known = Known.of(plan, key=key)
    mechanism = mechanism_of(plan, design_blocks(plan, known), known)
    assert known.answers[known.digest] == LocalEngine().content(known.source, mechanism, key)
    assert released_codebook(plan.codebook, facts_of(plan)).names == plan.codebook.names


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("engine", [LocalEngine(), LocalEngine(threads=1, batch_rows=7), DuckDBEngine()], ids=repr)
def test_wants_that_are_answered_together_are_those_of_single_passes(engine, kind):
    source, made = Memory(records_for(kind)), MECHANISMS[kind]()
    tables = [("sex",), ("age", "area"), ("area", "age"), ("ill", "sex", "age"), ("age",)]
    wants = [Count(names) for names in tables] + [Count(("ill",), "weight")]
    digest, sample = Digest(ContentReader.of(made, KEY), "id"), Sample(("age", "weight"), ("weight",))
    hold = Hold(("area", "ill", "weight"))
    answers = engine.count_all(source, made.require_codebook(), [*wants, digest, sample, hold])
    for want in wants:
        alone = LocalEngine().count(source, BOOK, want.variables, weight=want.weight)
        found = answers[want]
        assert (found.variables, found.shape, found.omitted) == (alone.variables, alone.shape, alone.omitted)
        assert np.array_equal(found.dense(), alone.dense())
    assert answers[digest] == LocalEngine().content(source, made, KEY, record_key="id")
    assert answers[sample].table.equals(sampled(source, ["age", "weight"], ["weight"]).table)
    assert answers[sample].alone == sampled(source, ["age", "weight"], ["weight"]).alone
    assert answers[hold].to_pylist() == source.table.select(["area", "ill", "weight"]).to_pylist()


@pytest.mark.parametrize("engine", [LocalEngine(), DuckDBEngine()], ids=repr)
def test_what_is_wrong_with_one_want_is_raised_where_its_answer_is_asked_for(engine):
    values = survey()["age"].to_pylist()
    values[3] = 11
    table = survey()
    table = table.set_column(table.schema.get_field_index("age"), "age", pa.array(values, pa.int64()))
    bad, good = Count(("age", "sex")), Count(("sex",))
    answers = engine.count_all(Memory(table), BOOK, [bad, good])
    assert answers[good].total == len(values)
    with pytest.raises(DataError, match=r"variable 'age'.*not in the codebook"):
        answers[bad]


def test_many_columns_are_counted_in_several_queries():
    """A set of columns is a number of 60 bits to a database."""
    rng = np.random.default_rng(0)
    names = [f"v{n}" for n in range(130)]
    table = pa.table({name: pa.array(rng.integers(0, 2, 50)) for name in names})
    book = Codebook.from_dict(
        {"variables": [{"name": n, "role": "key", "type": "int64", "categories": [0, 1]} for n in names]}
    )
    wants = [Count((name, names[0])) if name != names[0] else Count((name,)) for name in names]
    answers, right = (e.count_all(Memory(table), book, wants) for e in (DuckDBEngine(), LocalEngine()))
    assert all(np.array_equal(answers[want].dense(), right[want].dense()) for want in wants)


def test_a_search_for_a_level_counts_once(survey_folder, readings):
    """The other reading is of the keys, which the measure of risk needs record by record."""
    found = tune_plan(load_plan(survey_folder / "plan.toml"), "tau1 <= 2000", sampling_fraction=0.1)
    assert found.level > 0
    assert len(readings) == 2


def test_a_level_that_moves_reads_the_file_no_more(survey_folder, readings, tmp_path):
    roles = dict.fromkeys(demo.KEYS, "key") | dict.fromkeys(demo.SENSITIVE, "sensitive")
    opened = opening.open_file(survey_folder / "gss.parquet")
    decisions = dataclasses.replace(open_decisions(opened, roles), prior="file")
    latest, found = designing.Latest(), []
    readings.clear()
    for level in ("0.5", "1", "2"):
        decisions = act(decisions, "option", "privacy.differential.epsilon", level)
        found.append(checking.checked(decisions, tmp_path, latest).findings)
    assert decisions.values["privacy.differential.epsilon"] == "2"
    assert readings == ["ParquetSource.batches"]
    assert found[-1] == checking.checked(decisions, tmp_path).findings
    checking.checked(act(decisions, "role", "0", "other"), tmp_path, latest)
    assert len(readings) == 3  # another codebook: nothing that was known holds
    again = dataclasses.replace(decisions, opened=dataclasses.replace(opened))
    checking.checked(again, tmp_path, latest)
    assert len(readings) == 4  # the file was opened again: it can be another one


def test_only_what_is_new_is_asked_of_a_file_that_is_known(survey_folder, readings):
    plan = load_plan(survey_folder / "plan.toml")
    known = Known.tables(plan)
    more = Known.of(plan, before=known)
    assert len(readings) == 2
    assert all(more.answers.held[want] is known.answers.held[want] for want in known.answers.held)
    assert more.sample is not None
    again = Known.of(plan, before=more)
    assert len(readings) == 2
    assert dict(again.answers.held) == dict(more.answers.held)
