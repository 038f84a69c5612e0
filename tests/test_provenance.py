"""Plans with strata, closed blocks, shares, selections, distances and every provenance of the prior, end to end."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import Block, DifferentialPrivacy, Mechanism, certify, estimate, load_plan, read_release, run, verify
from postrand.certification.reachable_rules import reachable
from postrand.cli import main
from postrand.designers import MutualInformation, UniformOffDiagonal
from postrand.designers.budget import BudgetShare
from postrand.designers.by_class import Weights
from postrand.errors import DataError, DesignError, PrivacyError, ReleaseError, SpecificationError, UsageError
from postrand.formats import File, ReadSettings
from postrand.mechanism.matrix import randomised_response
from postrand.plan.values import BlockPlan
from postrand.privacy.histogram import noisy_counts
from postrand.risk.reveals import UnperturbedWarning
from postrand.support.randomness import ReleaseKey
from postrand.support.wordings import in_words, limit, say
from postrand.workflow import design_blocks as blocks
from tests.release_case import edit, rebuild, rehash

CODEBOOK = """
[[variables]]
name = "region"
role = "other"
categories = ["N", "E", "S"]
[[variables]]
name = "age"
role = "key"
categories = ["child", "adult", "old"]
[[variables]]
name = "job"
role = "key"
categories = ["none", "worker", "lawyer"]
[[rules]]
age = "child"
job = ["worker", "lawyer"]
"""
HEAD = """
[source]
file = "people.parquet"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 3.0
"""
BUDGET = 'privacy = { model = "differential", epsilon = 1.0 }\n'
BOTH = """
[[blocks]]
variables = ["age"]
privacy = { model = "differential", epsilon = 1.0 }
[[blocks]]
variables = ["job"]
privacy = { model = "differential", epsilon = 1.0 }
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    n = 4_000
    region, age = rng.integers(3, size=n), rng.integers(3, size=n)
    job = np.where(age == 0, 0, rng.integers(3, size=n))
    names = {"region": ["N", "E", "S"], "age": ["child", "adult", "old"], "job": ["none", "worker", "lawyer"]}
    codes = {"region": region, "age": age, "job": job}
    table = pa.table({k: pa.DictionaryArray.from_arrays(codes[k].astype(np.int8), v) for k, v in names.items()})
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    return tmp_path


def protect(folder, text, seed=2):
    (folder / "plan.toml").write_text(text)
    return run(load_plan(folder / "plan.toml"), folder / "out", release_key=ReleaseKey.from_seed(seed))


def certificate(release):
    """Return what the certificate states, in words."""
    return in_words(json.loads((release.path / "certificate.json").read_text()))


def test_closed_blocks_release_nothing_forbidden_and_verify(folder):
    release = protect(folder, HEAD + BOTH)
    frame = read_release(release.path).frame().to_pandas()
    assert not ((frame["age"] == "child") & (frame["job"] != "none")).any()
    assert verify(release.path).ok
    assert certificate(release)["account"]["total"] <= 2.0
    assert any("exchanged within 2 classes only" in line for line in certificate(release)["not_covered"])
    found = estimate.table(release.frame(), ["age", "job"], release.mechanism)
    assert found.value.sum() == pytest.approx(1.0, abs=1e-9)
    assert abs(found.value[0, 1:]).max() < 1e-9  # what cannot occur is estimated as nothing


def test_the_design_says_which_way_to_keep_the_rules(folder):
    one = HEAD + '[[blocks]]\nvariables = ["age", "job"]\n'
    for text, wanted in ((HEAD + BOTH, True), (one, False)):
        (folder / "plan.toml").write_text(text)
        call = ["design", "--plan", str(folder / "plan.toml")]
        advice = json.loads(CliRunner().invoke(main, [*call, "--json"]).stdout)["advice"]
        printed = CliRunner().invoke(main, call).stdout
        line = "Rules link age, job: 7 feasible combinations. One joint block is recommended"
        assert [text.startswith(line) for text in advice] == [True] * wanted  # nothing to say where one block keeps all
        assert (line in printed) is wanted


def test_records_that_contradict_a_rule_stop_the_run(folder):
    table = pq.read_table(folder / "people.parquet").to_pandas()
    table["job"] = table["job"].where(table["age"] != "child", "lawyer")
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / "people.parquet")
    with pytest.raises(DataError, match="records contradict a rule"):
        protect(folder, HEAD + BOTH)
    assert not (folder / "out").exists()


def test_a_data_file_with_a_forbidden_combination_does_not_verify(folder):
    release = protect(folder, HEAD + BOTH)
    path = release.data_path
    table = pq.read_table(path).to_pandas()
    table["job"] = table["job"].where(table["age"] != "child", "lawyer")
    schema = pq.read_schema(path)
    pq.write_table(pa.Table.from_pandas(table, schema=schema, preserve_index=False).replace_schema_metadata(None), path)
    with pytest.raises(ReleaseError, match="a rule of the codebook forbids"):
        verify(release.path)


def test_strata_have_laws_of_their_own(folder):
    text = HEAD + '[design]\nprior = "file"\n[[blocks]]\nvariables = ["age", "job"]\ngiven = ["region"]\n'
    text += 'privacy = { model = "differential", epsilon = 1.0 }\n'
    release = protect(folder, text)
    block = release.mechanism.blocks[0]
    assert block.given == ("region",)
    assert block.matrix.size == 3 * 7
    assert "rests on confidential records" in " ".join(certificate(release)["not_covered"])
    assert certificate(release)["claims"][0]["within"] is True


def test_a_stratum_without_records_is_named(folder):
    table = pq.read_table(folder / "people.parquet").to_pandas()
    pq.write_table(pa.Table.from_pandas(table[table["region"] != "S"], preserve_index=False), folder / "people.parquet")
    text = HEAD + '[design]\nprior = "file"\n[[blocks]]\nvariables = ["age", "job"]\ngiven = ["region"]\n'
    with pytest.raises(DesignError, match="region = S: a stratum has no records"):
        protect(folder, text + 'privacy = { model = "differential", epsilon = 1.0 }\n')


def test_a_private_prior_is_added_to_the_account(folder):
    text = HEAD + '[design]\nprior = "dp"\nprior_epsilon = 0.25\n' + BOTH
    found = certificate(protect(folder, text))
    assert found["account"]["priors"] == [0.25, 0.25]
    assert 2.4 < found["account"]["total"] <= 2.5
    assert "including what the priors spent" in found["claims"][0]["sentence"]
    assert found["blocks"][0]["prior"] == "dp"


def test_what_a_prior_spent_is_said_beside_claims_of_other_models(folder):
    text = HEAD + REGIONS.replace(
        "variables", 'prior = "dp"\nprior_epsilon = 0.25\nstructure = "exponential"\nvariables'
    )
    text = text.replace("[blocks.privacy]", 'objective = "distance"\n[blocks.privacy]')
    release = protect(folder, text + '"ranks"\n')
    record, distance = certificate(release)["claims"]
    assert "including what the priors spent" in record["sentence"]
    assert "at distance d" in distance["sentence"]
    assert distance["sentence"].endswith("; in addition, the priors spent ε <= 0.25")
    assert verify(release.path).ok


def test_priors_that_overspend_the_claim_are_refused(folder):
    text = HEAD.replace("3.0", "2.2") + '[design]\nprior = "dp"\nprior_epsilon = 0.25\n' + BOTH
    with pytest.raises(PrivacyError, match="does not meet"):
        protect(folder, text)
    block = Block(("a",), randomised_response(2, 1.0), None, "dp", (), 0.5)
    assert certify(Mechanism([block])).findings[0].level == pytest.approx(1.5)
    with pytest.raises(PrivacyError):
        certify(Mechanism([block]), [DifferentialPrivacy(0.4)])


def test_a_public_prior_leaves_no_gap(folder):
    text = " ".join(certificate(protect(folder, HEAD + BOTH))["not_covered"])
    assert "choice of the matrix" not in text


def test_blocks_share_what_the_claim_leaves(folder):
    text = HEAD + '[[blocks]]\nvariables = ["age"]\n[[blocks]]\nvariables = ["job"]\n'
    text += 'privacy = { model = "share", weight = 3.0 }\n'
    release = protect(folder, text)
    age, job = certificate(release)["account"]["blocks"]
    assert age + job == pytest.approx(3.0, rel=1e-6)
    assert job > age
    assert certificate(release)["account"]["total"] <= 3.0


def test_shares_leave_what_a_distance_spends_at_its_farthest(folder):
    text = HEAD + REGIONS.replace("epsilon = 1.0", "epsilon = 0.5").replace(
        "variables", 'structure = "geometric"\nvariables'
    )
    text = text.replace("[blocks.privacy]", 'objective = "distance"\n[blocks.privacy]')
    with pytest.warns(
        UnperturbedWarning, match="unperturbed variables reveal true values of job, .*: age"
    ):  # the rule: children have no job
        release = protect(folder, text + '"ranks"\n[[blocks]]\nvariables = ["job"]\ngiven = ["age"]\n')
    account = certificate(release)["account"]
    assert account["blocks"] == pytest.approx([1.0, 2.0], rel=1e-6)  # 0.5 for each of two steps, and the rest of 3
    assert account["total"] <= 3.0


def test_a_least_share_reaches_the_law(folder):
    both = '[[blocks]]\nvariables = ["age"]\nprivacy = { model = "share", least = LEAST }\n[[blocks]]\n'
    both += 'variables = ["job"]\nprivacy = { model = "share", weight = 3.0, least = 1.0 }\n'
    for least, wanted in (("1.25", 1.25), ("2.0", 2.0)):  # the second leaves job its least, and nothing to divide
        release = protect(folder, HEAD + both.replace("LEAST", least))
        age, job = certificate(release)["account"]["blocks"]
        assert age == pytest.approx(wanted, rel=1e-6)
        assert age + job == pytest.approx(3.0, rel=1e-6)
        assert certificate(release)["account"]["total"] <= 3.0
        shutil.rmtree(folder / "out")
    with pytest.raises(DesignError, match="the least shares exceed the budget"):
        protect(folder, HEAD + both.replace("LEAST", "2.5"))


@pytest.mark.parametrize(("structure", "limit"), [("uniform-off-diagonal", "CONSTANT_CELLS"), ("general", "CELLS")])
def test_blocks_beyond_memory_are_refused(folder, monkeypatch, structure, limit):
    text = HEAD + f'[[blocks]]\nvariables = ["age", "job"]\nstructure = "{structure}"\n'
    monkeypatch.setattr(blocks, f"MAX_{limit}", 6)  # one fewer than are feasible
    with pytest.raises(DesignError, match="too many combinations; got 7; wanted at most 6"):
        protect(folder, text)
    assert not (folder / "out").exists()
    monkeypatch.setattr(blocks, f"MAX_{limit}", 7)
    assert protect(folder, text).mechanism.blocks[0].matrix.size == 7


def test_a_block_that_reads_too_many_combinations_names_ways_out_that_work(folder, monkeypatch):
    """Of 4 x 4 x 4 values, missing ones included, 54 are feasible: of a child 2 jobs and 3 regions."""

    def sizes(text, missing):
        rules = CODEBOOK + '[[rules]]\nage = "child"\nregion = "S"\n'
        (folder / "codebook.toml").write_text(rules.replace("\ncategories", f'\nmissing = "{missing}"\ncategories'))
        (folder / "plan.toml").write_text(HEAD + text)
        plan = load_plan(folder / "plan.toml")
        designed = blocks.design_blocks(plan)
        law = Mechanism([d.block for d in designed], plan.codebook)
        assert not reachable(law)
        return [b.matrix.size for b in law.blocks]

    age, *others = (f'[[blocks]]\nvariables = ["{n}"]\n' + BUDGET for n in ("age", "job", "region"))
    assert sizes(age, "category") == [54]
    monkeypatch.setattr(blocks, "MAX_CELLS", 20)
    with pytest.raises(DesignError, match=r"\(job, region, age\); got 54; wanted at most 20") as refused:
        sizes(age, "category")
    assert "group categories; or add a block for each of job, region: age is then" in str(refused.value)
    assert "or complete the records and set missing = 'error' ('keep' is not possible" in str(refused.value)
    assert sizes(age + "".join(others), "category") == [4, 14, 15]
    assert sizes(age, "error") == [20]
    with pytest.raises(SpecificationError) as kept:
        sizes(age, "keep")
    told = kept.value.problems
    assert len(told) == 3
    assert not any("jointly" in problem for problem in told)
    assert "'job' keeps missing values, and is read by the block that perturbs age" in told[0]
    assert "'age' keeps missing values, and is perturbed by a matrix that depends on job, region" in told[2]


def test_only_rare_records_are_perturbed(folder):
    text = HEAD.replace("3.0", "1.0") + '[[blocks]]\nvariables = ["age", "job"]\nrarer_than = 600\n'
    release = protect(folder, text + 'privacy = { model = "differential", epsilon = 1.0 }\n')
    block = release.mechanism.blocks[0]
    stay = (block.matrix.weights == 2**53).sum()
    assert stay == 1  # children without a job: the one frequent combination
    text = " ".join(certificate(release)["not_covered"])
    assert "1 of 7 values are released unchanged" in text
    assert "which rests on confidential records: age × job" in text
    leak = "the file's own counts decided which values are perturbed; the matrix reveals which combinations few"
    assert leak in text
    assert verify(release.path).ok

    def silence(data):
        kept = [entry for entry in data["not_covered"] if leak not in limit(entry)]
        assert len(kept) == len(data["not_covered"]) - 1
        data["not_covered"] = kept

    edit(release.path / "certificate.json", silence)
    rehash(release.path)
    with pytest.raises(ReleaseError, match="certificate"):
        verify(release.path)


def test_classes_that_rules_make_are_not_taken_for_a_selection(folder):
    release = protect(folder, HEAD + '[design]\nprior = "file"\n' + BOTH)
    text = " ".join(certificate(release)["not_covered"])
    assert "values are released unchanged" in text
    assert "the file's own counts decided" not in text


def test_a_distance_in_a_plan(folder):
    text = HEAD.replace("3.0", "2.0") + '[design]\nstructure = "metric"\nobjective = "distance"\n'
    text += '[[blocks]]\nvariables = ["region"]\n[blocks.privacy]\nmodel = "metric"\nepsilon = 1.0\n'
    text += '[blocks.privacy.distance]\nkind = "adjacency"\nedges = [["N", "E"], ["E", "S"]]\n'
    release = protect(folder, text)
    matrix = release.mechanism.blocks[0].matrix.array
    assert matrix[0, 1] > matrix[0, 2]
    assert any("at distance d" in c["sentence"] for c in certificate(release)["claims"])
    assert verify(release.path).ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + BOTH.replace("privacy", 'given = ["age"]\nprivacy', 2)[0:], "perturbed by a block of its own|given"),
        (HEAD + '[design]\nprior = "dp"\n' + BOTH, "prior = 'dp' needs a budget"),
        (HEAD + BOTH + "rarer_than = -1\n", "'rarer_than' is not a number"),
        (HEAD + BOTH + 'given = "region"\n', "'given' is not a list"),
        (HEAD + BOTH + 'given = ["place"]\n', "no variable 'place'"),
    ],
)
def test_wrong_plans_are_explained(folder, text, message):
    with pytest.raises(SpecificationError, match=message):
        protect(folder, text)


ALL_AGES = '[[rules]]\nage = ["child", "adult", "old"]\n'
REGIONS = '[[blocks]]\nvariables = ["region"]\n[blocks.privacy]\nmodel = "metric"\nepsilon = 1.0\ndistance = '
BY_REGION = '[[blocks]]\nvariables = ["age", "job"]\ngiven = ["region"]\nprior = "file"\n'
BY_REGION += 'privacy = { model = "differential", epsilon = 1.0 }\n'
ZERO = BOTH.replace("1.0", "0.0", 1)
WRONG = [
    (ALL_AGES, BOTH, "age, job: the rules forbid every combination"),
    ('[[rules]]\nregion = "S"\n', BOTH, "rule 2, of region: records contradict a rule; got 1,"),
    ("", REGIONS + '{ kind = "matrix", rows = [[0, 1, 5], [1, 0, 1], [5, 1, 0]] }', "from 'N' to 'S' through 'E'"),
    ("", REGIONS + '{ kind = "adjacency", edges = [["N", "E"]] }', "the part of 'S': the map has 2 parts"),
    (
        "",
        REGIONS.replace("region", "age") + '"ranks"',
        "plan.toml, block 'age': a distance needs a block that exchanges",
    ),
    ("", REGIONS.replace('["region"]', '["region"]\nrarer_than = 5') + '"ranks"', "a distance needs a block that"),
    ("", ZERO, "epsilon is not a positive number; got 0.0"),
    (
        "",
        BOTH.replace("1.0", "3.0", 1).replace('privacy = { model = "differential", epsilon = 1.0 }', ""),
        "is left to",
    ),
    ("", BOTH.replace('model = "differential", epsilon = 1.0', 'model = "share", weight = 0', 1), "weight of a share"),
]


@pytest.mark.parametrize(("rules", "planned", "message"), WRONG)
def test_the_command_ends_with_one_clear_error(folder, rules, planned, message):
    (folder / "codebook.toml").write_text(CODEBOOK + rules)
    (folder / "plan.toml").write_text(HEAD + planned + "\n")
    call = ["protect", "--plan", str(folder / "plan.toml"), "--out", str(folder / "out")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code in (3, 4, 6)
    assert message in done.stderr
    assert "there are no edges" not in done.stderr  # one cause, one problem
    assert not (folder / "out").exists()


def test_the_command_names_a_stratum_without_records(folder):
    table = pq.read_table(folder / "people.parquet").to_pandas()
    pq.write_table(pa.Table.from_pandas(table[table["region"] != "S"], preserve_index=False), folder / "people.parquet")
    (folder / "plan.toml").write_text(HEAD + BY_REGION)
    done = CliRunner().invoke(main, ["protect", "--plan", str(folder / "plan.toml"), "--out", str(folder / "out")])
    assert done.exit_code == 6
    assert "region = S: a stratum has no records" in done.stderr
    assert not (folder / "out").exists()


def test_the_noise_of_a_histogram_is_discrete_laplace():
    """Mean absolute noise of scale s = 2/ε is 1/sinh(1/s): 4,000 draws, alpha about 1e-6 (5 standard errors)."""
    epsilon, n = 0.5, 4_000
    noise = noisy_counts(np.zeros(n, dtype=np.int64), epsilon)
    rate = epsilon / 2
    mean = 1 / np.sinh(rate)
    variance = 2 * np.exp(-rate) / (1 - np.exp(-rate)) ** 2 - mean**2
    assert abs(np.abs(noise).mean() - mean) < 5 * np.sqrt(variance / n)
    with pytest.raises(PrivacyError):
        noisy_counts(np.zeros(2, dtype=np.int64), 0.0)


# -- budgets that another block's prior steers ------------------------------------------------------------------------

SHARED = '[[blocks]]\nvariables = ["age"]\n[[blocks]]\nvariables = ["region"]\nprior = "{}"\n'


def two_files(folder, name):
    """Write records whose ``name`` is spread evenly, then records that nearly all have one value; yield after each."""
    table = pq.read_table(folder / "people.parquet")
    yield
    values = ["S"] * 40 + ["N"] * (table.num_rows - 40)
    column = pa.array(values).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(column.indices.cast(pa.int8()), column.dictionary)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), folder / "people.parquet")
    yield


@pytest.mark.parametrize("prior", ["file", "dp"])
def test_a_budget_that_follows_another_block_s_tuned_prior_says_so(folder, prior):
    """The ε of age, whose matrix is public, follows the confidential counts of region: certificate and law say it."""
    (folder / "codebook.toml").write_text(CODEBOOK.partition("[[rules]]")[0])
    text = HEAD.replace("3.0", "8.0") + SHARED.format(prior) + "prior_epsilon = 0.5\n" * (prior == "dp")
    (folder / "plan.toml").write_text(text)
    plan, found = load_plan(folder / "plan.toml"), []
    for _ in two_files(folder, "region"):
        age, region = blocks.design_blocks(plan)
        assert (age.block.provenance, age.block.budget) == ("public", {"file": "confidential"}.get(prior, "dp"))
        assert region.block.budget == "public"  # the only other prior is uniform
        assert f"depends on {age.block.budget} frequencies of other blocks" in str(age)
        assert "depends on" not in str(region)
        found.append(age.block.epsilon)
    assert abs(found[0] - found[1]) > 0.02  # two files, two ε of a block that is called public
    release = protect(folder, text)
    said = {"file": "confidential", "dp": "differentially private"}[prior]
    assert [line for line in certificate(release)["not_covered"] if "choice of ε" in line] == [
        f"The guarantee does not cover the choice of ε, because {said} frequencies of other blocks were used to "
        "divide the budget: age."
    ]
    assert [block["budget"] for block in certificate(release)["blocks"]] == [age.block.budget, "public"]
    law = json.loads((release.path / "mechanism.json").read_text())["blocks"]
    assert [block.get("budget") for block in law] == [age.block.budget, None]
    assert verify(release.path).ok

    def silence(data):
        data["blocks"][0].pop("budget")

    edit(release.path / "mechanism.json", silence)
    rehash(release.path)
    with pytest.raises(ReleaseError, match="certificate"):
        verify(release.path)


def test_a_block_with_a_matrix_of_its_own_steers_and_is_steered_by_nobody():
    """Its share of the budget is no choice of a law: the plan gives the law."""
    kept = Weights(np.ones(3), "confidential")
    shared = BlockPlan(("age",), BudgetShare(), MutualInformation(), UniformOffDiagonal())
    given = replace(shared, matrix=((0.5, 0.5), (0.5, 0.5)))
    assert blocks.budget_origins([(shared, kept), (given, None)]) == ["public", "public"]
    assert blocks.budget_origins([(shared, kept), (given, None), (shared, None)]) == [
        "public",
        "public",
        "confidential",
    ]
    own = replace(shared, privacy=DifferentialPrivacy(1.0))
    assert blocks.budget_origins([(shared, kept), (own, None)]) == ["public", "public"]


def test_a_budget_of_its_own_is_steered_by_nobody(folder):
    (folder / "codebook.toml").write_text(CODEBOOK.partition("[[rules]]")[0])
    own = HEAD + '[[blocks]]\nvariables = ["age"]\nprivacy = { model = "differential", epsilon = 1.0 }\n'
    own += '[[blocks]]\nvariables = ["region"]\nprior = "file"\n'
    (folder / "plan.toml").write_text(own)
    found = [one.block.budget for one in blocks.design_blocks(load_plan(folder / "plan.toml"))]
    assert found == ["public", "public"]  # region takes what is left, whatever its frequencies are
    uniform = HEAD + '[[blocks]]\nvariables = ["age"]\n[[blocks]]\nvariables = ["region"]\n'
    (folder / "plan.toml").write_text(uniform)
    found = [one.block.budget for one in blocks.design_blocks(load_plan(folder / "plan.toml"))]
    assert found == ["public", "public"]


def test_the_least_public_of_several_priors_is_named(folder):
    (folder / "codebook.toml").write_text(CODEBOOK.partition("[[rules]]")[0])
    text = HEAD + SHARED.format("file") + '[[blocks]]\nvariables = ["job"]\nprior = "dp"\nprior_epsilon = 0.25\n'
    (folder / "plan.toml").write_text(text)
    found = {one.block.name: one.block.budget for one in blocks.design_blocks(load_plan(folder / "plan.toml"))}
    assert found == {"age": "confidential", "region": "dp", "job": "confidential"}


# -- an auditor with file and key draws the records anew --------------------------------------------------------------


def test_an_auditor_with_the_key_sees_that_the_origin_of_a_law_was_rewritten(folder):
    """Every file is brought in line, so that nobody without the key can tell; the draws follow the true origin."""
    text = HEAD + '[design]\nprior = "dp"\nprior_epsilon = 0.25\n' + BOTH
    release, key = protect(folder, text), ReleaseKey.from_seed(2)
    root, file = release.path, folder / "people.parquet"
    found = verify(root, file=file, release_key=key)
    assert found.ok
    assert next(c.outcome for c in found.checks if c.name == "drawn") == "passed"
    assert "drawn from the confidential file" not in " ".join(found.stated)
    other = verify(root, file=file, release_key=ReleaseKey.from_seed(3), raise_if_failed=False)
    assert [c.name for c in other.checks if c.ok is False] == ["drawn"]

    def whitewash(law):
        for block in law["blocks"]:
            block["provenance"] = "public"
            block.pop("prior_epsilon")

    def lower(certificate):
        certificate["claims"] = []

    before = certificate(release)["account"]["total"]
    edit(root / "mechanism.json", whitewash)
    edit(root / "certificate.json", lower)
    rebuild(root)
    assert certificate(release)["account"]["total"] < before - 0.4
    assert verify(root).ok
    forged = verify(root, file=file, release_key=key, raise_if_failed=False)
    assert [c.name for c in forged.checks if c.ok is False] == ["drawn"]
    assert "matrices (with their stated origin) do not give these records" in forged.problems[0]


def test_records_are_drawn_anew_by_their_ids_in_their_order_and_in_folders(folder):
    """As run does it: a record key, no shuffling, several files, numerical columns."""
    table = pq.read_table(folder / "people.parquet").slice(0, 600)
    rng = np.random.default_rng(4)
    table = table.append_column("id", pa.array(rng.permutation(600))).append_column(
        "pay", pa.array(rng.normal(size=600))
    )
    (folder / "people.parquet").unlink()
    (folder / "people").mkdir()
    for number in (0, 1):
        pq.write_table(table.slice(300 * number, 300), folder / "people" / f"{number}.parquet")
    book = CODEBOOK + '[[variables]]\nname = "id"\nrole = "record_key"\ntype = "int64"\n'
    (folder / "codebook.toml").write_text(
        book.replace("[[rules]]", '[[variables]]\nname = "pay"\nrole = "other"\ntype = "double"\n[[rules]]', 1)
    )
    text = HEAD.replace("people.parquet", "people") + BOTH + "[release]\nshuffle = false\n"
    text += '[[numerical]]\nvariables = ["pay"]\nmethod = { model = "rank-blocks", k = 8 }\n'
    root, options = protect(folder, text).path, {"file": folder / "people", "release_key": ReleaseKey.from_seed(2)}
    assert verify(root, record_key="id", **options).ok
    wrong = verify(root, **options, raise_if_failed=False)
    assert [c.name for c in wrong.checks if c.ok is False] == ["drawn"]


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_records_are_drawn_anew_by_ids_of_a_text_file_whatever_their_type_was(folder, kind):
    """Ids leave no trace in a release, and a text file does not say whether they are numbers."""
    table = pq.read_table(folder / "people.parquet").slice(0, 200).append_column("id", pa.array(range(1000, 1200)))
    options = pa_csv.WriteOptions(delimiter=";", quoting_style="none")
    pa_csv.write_csv(table, folder / "people.csv", options)
    more = f'[[variables]]\nname = "id"\nrole = "record_key"\ntype = "{kind}"\n[[rules]]'
    book = CODEBOOK.replace("[[rules]]", more)
    (folder / "codebook.toml").write_text(book)
    root = protect(folder, HEAD.replace('"people.parquet"', '"people.csv"\nseparator = ";"') + BOTH).path
    assert "id" not in read_release(root).codebook
    options = {"file": File(folder / "people.csv", ReadSettings(";")), "record_key": "id", "raise_if_failed": False}
    assert verify(root, release_key=ReleaseKey.from_seed(2), **options).ok
    (failed,) = (c.name for c in verify(root, release_key=ReleaseKey.from_seed(3), **options).checks if c.ok is False)
    assert failed == "drawn"
    call = ["verify", str(root), "--file", str(folder / "people.csv"), "--record-key", "id"]  # read as it shows
    digest = hashlib.sha256((root / "manifest.json").read_bytes()).hexdigest()
    done = CliRunner().invoke(main, [*call, "--manifest-sha256", digest.upper()])
    assert done.exit_code == 0
    assert "ok    published" in done.stdout
    assert CliRunner().invoke(main, [*call, "--manifest-sha256", digest[::-1]]).exit_code == 7


def test_a_key_alone_is_refused(folder):
    root = protect(folder, HEAD + BOTH).path
    with pytest.raises(UsageError, match="give the confidential file too"):
        verify(root, release_key=ReleaseKey.from_seed(2))
    (folder / "key").write_text("ab" * 32)
    (folder / "key").chmod(0o600)
    call = ["verify", str(root), "--file", str(folder / "people.parquet"), "--key-file", str(folder / "key")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 7
    assert (
        "drawn: data.parquet: file, key and matrices (with their stated origin) do not give these records"
        in done.stderr
    )


def test_a_matrix_without_a_prior_is_not_said_to_come_from_figures() -> None:
    assert say("said.origins", origins={"public": [["sex"]]}).endswith("(sex from public figures, or from none)")
