"""Security against spontaneous recognition from a plan to a release, its verification, an audit, and estimates."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import postrand as pr
from postrand import formats, release
from postrand.certification.certificate import claims_from_dict, recertify
from postrand.certification.file_claims import tie
from postrand.cli import main
from postrand.engines import LocalEngine
from postrand.engines.summary import summarise
from postrand.metadata import Description
from postrand.plan import load_plan
from postrand.release.bundle import derive
from postrand.support.wordings import in_words
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.planned import claims_of, mechanism_of
from tests.conftest import ROOT
from tests.release_case import edit, rehash
from tests.test_l2_design import SHAPE, paper_file
from tests.test_recognition import brute_force

KEYS = "abcde"
HEAD = """
[source]
file = "survey.csv"
codebook = "codebook.toml"
"""
RECORD = """
[privacy]
model = "recognition"
alpha = 0.1
"""
JOINT = """
[[blocks]]
variables = ["a", "b", "c", "d", "e"]
"""
CHECKS = ["files", "manifest", "digests", "codebook", "mechanism", "certificate", "data", "margins", "bytes", "derived"]


def write_survey(folder: Path, counts):
    """Write records with these counts of the keys and a sensitive variable, in a random order."""
    rng = np.random.default_rng(7)
    codes = np.argwhere(counts >= 0).repeat(counts.ravel(), axis=0)
    codes = np.column_stack([codes, rng.integers(0, 2, len(codes))])[rng.permutation(len(codes))]
    lines = [",".join(map(str, row)) for row in codes.tolist()]
    (folder / "survey.csv").write_text("\n".join([",".join([*KEYS[: counts.ndim], "ill"]), *lines]) + "\n")
    book = [(name, "key", size) for name, size in zip(KEYS, counts.shape, strict=False)] + [("ill", "sensitive", 2)]
    text = [
        f'[[variables]]\nname = "{name}"\nrole = "{role}"\ncategories = {json.dumps([str(k) for k in range(size)])}\n'
        for name, role, size in book
    ]
    (folder / "codebook.toml").write_text("\n".join(text))


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """CHR's example as a file on disk."""
    folder = tmp_path_factory.mktemp("example")
    write_survey(folder, paper_file(1))
    return folder


def planned(folder, text, name="plan.toml"):
    (folder / name).write_text(HEAD + text)
    return folder / name


def answer(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def released(example):
    code, made = answer("protect", "--plan", planned(example, RECORD + JOINT), "--out", example / "release")
    assert code == 0, made
    return example / "release"


def law_of(folder):
    return release.read(folder).mechanism.blocks[0].matrix


def test_the_papers_example_becomes_a_release(released):
    found = in_words(json.loads((released / "certificate.json").read_text()))
    (claim,) = found["claims"]
    assert claim["privacy"] == {"model": "recognition", "alpha": 0.1, "subsets": 3}
    assert (claim["level"], claim["recomputable"]) == (0.1, False)
    assert "posterior probability above 0.1; checked by the curator" in claim["sentence"]
    assert found["blocks"][0]["prior"] == "confidential"
    assert any("about this file and few keys" in text for text in found["not_covered"])
    assert brute_force(law_of(released).weights, paper_file(1).ravel(), SHAPE, 3) <= 1 / 10
    assert "checked by the curator" in (released / "report.html").read_text()


def test_design_shows_what_protect_releases(example, released):
    code, shown = answer("design", "--plan", planned(example, RECORD + JOINT))
    assert code == 0, shown
    (block,) = shown["blocks"]
    assert (block["objective"], block["prior"], block["categories"]) == ("l2", "file", 48)
    assert block["value"] == pytest.approx(1.28e-6, rel=0.01)  # docs/papers/chr.md: file 1
    assert "bound" not in block
    assert tuple(shown["claims"]) == release.read(released).certificate_sentences


def test_without_the_file_the_claim_is_said_and_not_verified(released):
    found = release.verify(released)
    assert [(c.name, c.ok) for c in found.checks] == [
        *((name, True) for name in CHECKS),
        ("stated", None),
        ("facts", None),
    ]
    assert found.ok
    assert found.stated[:-1] == (
        "a, b, c, d, e: recognition (alpha = 0.1, subsets = 3): stated by the curator; not recomputable from the "
        "release, only from the file",
    )
    assert "said  stated" in str(found)
    assert "what is marked 'said' rests on the curator's word" in str(found)


def test_an_auditor_with_the_file_recomputes_it(example, released):
    code, found = answer("verify", released, "--file", example / "survey.csv")
    assert code == 0, found
    assert [(c["name"], c["ok"]) for c in found["checks"]] == [
        (name, True) for name in [*CHECKS, "file", "columns"]
    ] + [("facts", None)]


def copied(source, target):
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def forged(released, target, alpha):
    """Claim another α in every file, consistently."""
    root = copied(released, target)

    def change(certificate):
        (claim,) = certificate["claims"]
        claim["privacy"]["alpha"] = claim["level"] = alpha

    edit(root / "certificate.json", change)
    mechanism = release.read(root).mechanism
    certificate = recertify(mechanism, *claims_from_dict(json.loads((root / "certificate.json").read_text())))
    data = json.loads((root / "manifest.json").read_text())["data"]
    summary = summarise(root / data, mechanism)
    for name, content in derive(mechanism, certificate, summary, root / data, Description()).items():
        (root / name).write_bytes(content)
    rehash(root)
    return root


def test_a_forged_alpha_passes_as_said_and_fails_with_the_file(example, released, tmp_path):
    root = forged(released, tmp_path / "forged", 0.01)
    found = release.verify(root)
    assert [c.name for c in found.checks if c.ok is None] == ["stated", "facts"]
    found = release.verify(root, file=example / "survey.csv", raise_if_failed=False)
    assert [c.name for c in found.checks if c.ok is False] == ["file"]
    assert "does not meet recognition (alpha = 0.01" in found.problems[0]


def test_an_alpha_that_no_law_could_meet_fails_without_the_file(released, tmp_path):
    found = release.verify(forged(released, tmp_path / "forged", 0.0001), raise_if_failed=False)
    assert [(c.name, c.ok) for c in found.checks if c.ok is False] == [("stated", False)]
    assert not found.ok


def test_another_file_is_not_the_one(example, released, tmp_path):
    write_survey(tmp_path, paper_file(2, records=2499))
    code, found = answer("verify", released, "--file", tmp_path / "survey.csv")
    assert code == 7
    assert "differ in the number of records" in json.dumps(found)
    write_survey(tmp_path, paper_file(2))
    code, found = answer("verify", released, "--file", tmp_path / "survey.csv")
    assert code == 7
    assert "does not meet recognition" in json.dumps(found)


def test_the_release_holds_no_frequency(example, released):
    """Nothing of U0: neither the exact posterior nor the count of any type stands in the law's description."""
    model = pr.SpontaneousRecognition(0.1).on(paper_file(1))
    largest = model.largest([law_of(released)]).posterior
    texts = [(released / name).read_text() for name in ("certificate.json", "codebook.json")]
    assert not any(str(float(largest)) in text or '"counts"' in text for text in texts)
    assert "types" not in json.loads(texts[0])["claims"][0]["privacy"]


def test_estimates_from_the_release_are_near_the_file(released):
    found = pr.estimate.table(release.read(released).frame(), ["a", "e"], release.read(released).mechanism)
    truth = paper_file(1).sum(axis=(1, 2, 3)) / 2500
    # About four of 2,500 records change: 20 expected changes would be far out.
    np.testing.assert_allclose(found.value, truth, atol=20 / 2500)


def test_together_with_differential_privacy_both_are_certified(example):
    plan = load_plan(
        planned(
            example,
            '\n[privacy]\nmodel = "differential"\nepsilon = 6.0\n'
            + JOINT
            + 'privacy = [{ model = "recognition", alpha = 0.1 }, { model = "differential", epsilon = 6.0 }]\n',
        )
    )
    mechanism = mechanism_of(plan, design_blocks(plan))
    certificate = pr.certify(mechanism, claims_of(plan, mechanism))
    assert [
        (claim.privacy.name, f.holds) for claim, f in zip(certificate.claims, certificate.findings, strict=True)
    ] == [
        ("differential", True),
        ("recognition", True),
    ]
    assert [f.recomputable for f in certificate.findings] == [True, False]
    assert mechanism.blocks[0].matrix.epsilon <= 6
    assert brute_force(mechanism.blocks[0].matrix.weights, paper_file(1).ravel(), SHAPE, 3) <= 1 / 10


def test_strata_are_each_secure_on_their_own_records(tmp_path):
    counts = np.array([[[400, 90, 60], [6, 120, 80]], [[200, 50, 7], [90, 0, 80]], [[0, 0, 0], [0, 0, 0]]])
    write_survey(tmp_path, counts)
    text = RECORD + 'subsets = 2\n[[blocks]]\nvariables = ["b", "c"]\ngiven = ["a"]\n'
    plan = load_plan(planned(tmp_path, text))
    mechanism = mechanism_of(plan, design_blocks(plan))
    (block,) = mechanism.blocks
    law = block.matrix.weights
    for a in range(2):
        own = slice(6 * a, 6 * a + 6)
        assert brute_force(law[own, own], counts[a].ravel(), (2, 3), 2) <= 1 / 10
    assert (law[12:, 12:] == pr.TransitionMatrix.identity(6).weights).all()  # no records: nothing to change
    (finding,) = pr.certify(mechanism, claims_of(plan, mechanism)).findings
    assert "seen 2 at a time together with a, points" in finding.sentence


def test_a_stratum_too_small_for_alpha_is_named(tmp_path):
    counts = np.array([[[400, 90], [6, 120]], [[2, 1], [3, 1]]])
    write_survey(tmp_path, counts)
    text = RECORD + 'subsets = 2\n[[blocks]]\nvariables = ["b", "c"]\ngiven = ["a"]\n'
    code, found = answer("protect", "--plan", planned(tmp_path, text), "--out", tmp_path / "out")
    assert code == 5
    assert "block 'b*c': a = 1: alpha 0.1: no matrix can meet C1" in found["problems"][0]
    assert not (tmp_path / "out").exists()


def test_blocks_of_another_kind_are_tested_as_a_product(example):
    """Randomised response of each key alone: C1 is checked on the product law, exactly."""
    each = "".join(
        f'[[blocks]]\nvariables = ["{name}"]\nprivacy = {{ model = "differential", epsilon = {{}} }}\n' for name in KEYS
    )
    found = {}
    for epsilon in ("1.0", "9.0"):
        plan = load_plan(planned(example, RECORD + each.replace("{}", epsilon)))
        mechanism = mechanism_of(plan, design_blocks(plan))
        (claim, *_) = claims_of(plan, mechanism)
        found[epsilon] = claim.privacy.check([block.matrix for block in mechanism.blocks]).holds
    assert found == {"1.0": True, "9.0": False}


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (RECORD.replace("0.1", "0.0001") + JOINT, 5, "no matrix can meet C1.*wanted n >= 10000"),
        (RECORD + "subsets = 7\n" + JOINT, 5, "larger than the number of keys; got 7"),
        (RECORD + 'subsets = [["a", "z"]]\n' + JOINT, 5, "no key 'z'"),
        (RECORD.replace("0.1", "2") + JOINT, 3, "alpha is not a probability"),
        (RECORD + JOINT + 'prior = "dp"\nprior_epsilon = 1.0\n', 3, "hides nothing"),
        (RECORD + JOINT + "rarer_than = 3\n", 3, "'rarer_than' cannot be combined with"),
        (RECORD + JOINT + 'structure = "symmetric"\n', 3, "structure 'symmetric' has no algorithm for 'recognition'"),
        (RECORD + JOINT + 'privacy = [{ model = "recognition", alpha = 0.1 }, { model = "nothing" }]\n', 3, "unknown"),
        (RECORD + JOINT + "privacy = []\n", 3, "no privacy model is named"),
        (
            RECORD
            + JOINT
            + 'structure = { model = "least-loss", min_diagonal = 0.9, invariant = [["a", "b", "c", "d", "e"]] }\n',
            6,
            r"no matrix meets these conditions together; got recognition \+ diagonal \+ invariant",
        ),
    ],
)
def test_what_cannot_be_met_is_refused_and_nothing_is_written(example, text, code, message):
    plan = planned(example, text, "refused.toml")
    found, answered = answer("protect", "--plan", plan, "--out", example / "refused")
    assert found == code, answered
    assert re.search(message, " ".join(answered["problems"])), answered
    assert not (example / "refused").exists()


def test_keys_that_keep_missing_values_are_refused(tmp_path):
    write_survey(tmp_path, np.array([[400, 90], [6, 120]]))
    book = (tmp_path / "codebook.toml").read_text().replace('name = "a"', 'name = "a"\nmissing = "keep"', 1)
    (tmp_path / "codebook.toml").write_text(book)
    survey = (tmp_path / "survey.csv").read_text().replace("\n0,", "\n,", 1)
    (tmp_path / "survey.csv").write_text(survey)
    text = RECORD + 'subsets = 2\n[[blocks]]\nvariables = ["a", "b"]\n'
    code, found = answer("protect", "--plan", planned(tmp_path, text), "--out", tmp_path / "out")
    assert code == 5
    assert "set missing = 'category'" in found["problems"][0]


def test_claims_over_blocks_with_listed_cells_are_refused(example, released):
    mechanism = release.read(released).mechanism
    cells = tuple(map(tuple, np.argwhere(np.ones(SHAPE)).tolist()))
    listed = pr.Mechanism(
        [
            pr.Block(tuple(KEYS), mechanism.blocks[0].matrix, cells),
            pr.Block(("ill",), pr.randomised_response(2, 1.0)),
        ],
        mechanism.codebook,
    )
    source = formats.read(example / "survey.csv", mechanism.codebook)

    def count(names):
        return LocalEngine().count(source, mechanism.codebook, names)

    claim = pr.Claim(pr.SpontaneousRecognition(0.1))
    with pytest.raises(pr.PostrandError, match="over several blocks if one lists its cells"):
        tie([claim], listed, count)
    (tied,) = tie([pr.Claim(pr.SpontaneousRecognition(0.1), tuple(KEYS))], listed, count)
    assert pr.certify(listed, [tied]).findings[0].holds


@pytest.mark.slow
def test_four_keys_of_a_real_survey_become_a_secure_release(shared_data, tmp_path):
    """K = 432 types, α = 0.1: the restricted variant is taken by itself, and every condition holds exactly."""
    keys = ["age", "sex", "marital_status", "employment"]
    with (shared_data / "ny_pums_2000_sample.csv").open() as file:
        rows = [[row[k] for k in keys] for row in csv.DictReader(file) if all(row[k] for k in keys)]
    labels = [sorted(set(column)) for column in zip(*rows, strict=True)]
    with (tmp_path / "survey.csv").open("w", newline="") as file:
        csv.writer(file).writerows([keys, *rows])
    book = [
        f'[[variables]]\nname = "{name}"\nrole = "key"\ncategories = {json.dumps(found)}\n'
        for name, found in zip(keys, labels, strict=True)
    ]
    (tmp_path / "codebook.toml").write_text("\n".join(book))
    plan = load_plan(planned(tmp_path, f"{RECORD}[[blocks]]\nvariables = {json.dumps(keys)}\n"))
    (block,) = design_blocks(plan)
    assert block.design.details["reach"] == "cover"
    assert block.design.relative_gap < 1e-6
    assert block.design.value == pytest.approx(2.197e-6, rel=1e-3)  # docs/papers/chr.md
    made = pr.run(plan, tmp_path / "release")
    found = release.verify(made.path, file=tmp_path / "survey.csv")
    assert not any(check.ok is False for check in found.checks)


GUIDE = (ROOT / "docs" / "recognition.md").read_text(encoding="utf-8")


def test_the_guide_s_plans_are_plans(tmp_path):
    """The paragraphs of TOML, put together as a curator would, with the guide's names."""
    counts = np.random.default_rng(1).multinomial(3000, np.full(24, 1 / 24)).reshape(2, 3, 2, 2)
    write_survey(tmp_path, counts)
    names = {"a": "sex", "b": "age", "c": "job", "d": "region"}
    for file in ("survey.csv", "codebook.toml"):
        text = (tmp_path / file).read_text()
        head, rest = text.split("\n", 1) if file == "survey.csv" else (text, "")
        for old, new in names.items():
            quoted = (f'"{old}"', f'"{new}"') if file == "codebook.toml" else (f"{old},", f"{new},")
            head = head.replace(*quoted)
        (tmp_path / file).write_text(f"{head}\n{rest}")
    whole, *blocks = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 3
    privacy = RECORD
    for n, text in enumerate([whole, *(privacy + block for block in blocks)]):
        plan = load_plan(planned(tmp_path, text[text.index("[privacy]") :], f"{n}.toml"))
        assert design_blocks(plan)[0].block.provenance == "confidential"
