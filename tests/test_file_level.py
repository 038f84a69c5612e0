"""The level of the whole file: in certificates, in plans, in words; each condition that fails is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import release
from postrand.certification import file_level as module
from postrand.certification.certificate import Claim, Facts, certify, recertify
from postrand.certification.file_level import FileLevel, file_level, from_dict, require, restated
from postrand.cli import main
from postrand.codebook import Codebook, Variable, coding
from postrand.errors import PostrandError, PrivacyError, ReleaseError, SpecificationError, UsageError
from postrand.mechanism import Block, Mechanism, Split, Subset
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.matrix_classes import join
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.units import Units
from postrand.plan import load_plan
from postrand.plan.file_goal import FileGoal, goal_of
from postrand.privacy import DifferentialPrivacy, ShuffledPrivacy, shuffled_delta, shuffled_epsilon, shuffled_levels
from postrand.privacy.blanket import blanket_delta, parts_of
from postrand.privacy.indistinct import dependent, distinguishing, one_of_each
from postrand.recoding import Recode
from postrand.release import fields
from postrand.release.ledger import Ledger
from postrand.support.randomness import ReleaseKey
from postrand.workflow.file_goal import solved
from postrand.workflow.pipeline import run
from postrand.workflow.tuning import tune_plan
from tests.json_schema import problems
from tests.release_case import edit, rehash, writer_of

SEX = Variable("sex", role="key", categories=("f", "m"))
AREA = Variable("area", role="other", categories=("n", "e", "s", "w"))
BOOK = Codebook((SEX, AREA))
PUBLIC: Any = {"provenance": "public"}
BLOCKS = (
    Block(("sex",), randomised_response(2, 1.0), **PUBLIC),
    Block(("area",), randomised_response(4, 1.5), **PUBLIC),
)
LAW = Mechanism(BLOCKS, BOOK)
RECORDS = 20_000


def level_of(law: Mechanism = LAW, facts: Facts | None = None, models: Any = (), n: int = RECORDS) -> FileLevel:
    return file_level(law, facts or Facts(), models, n, 1e-7)


def with_book(*variables: Variable, blocks: Any = BLOCKS) -> Mechanism:
    return Mechanism(blocks, Codebook((*BOOK.variables, *variables)))


# -- the level ---------------------------------------------------------------------------------------------------------


def test_the_level_is_the_least_of_the_proven_bounds_rounded_up() -> None:
    found = level_of()
    exact = shuffled_levels(LAW, RECORDS, 1e-7)
    assert set(found.bounds) == {"clones", "blanket"}
    assert found.epsilon == min(found.bounds.values())
    assert found.bound == "blanket"
    for name, least in exact.items():
        level = found.bounds[name]
        assert least <= level <= least * 1.003
    assert blanket_delta(parts_of(LAW.blocks) or (), RECORDS, found.bounds["blanket"]) <= 1e-7
    assert shuffled_epsilon(LAW, RECORDS, 1e-7) == min(exact.values())
    assert shuffled_delta(LAW, RECORDS, found.epsilon) <= 1e-7 < shuffled_delta(LAW, RECORDS, 0.98 * found.epsilon)


@pytest.mark.parametrize(
    ("local", "records", "delta", "wanted"),
    [
        (2, 17_137, 1e-6, 0.12),
        (4, 17_137, 1e-6, 0.44),
        (6, 17_137, 1e-6, 1.7),
        (8, 17_137, 1e-6, 8.0),
        (2, 953_076, 1e-9, 0.020),
        (4, 953_076, 1e-9, 0.072),
        (6, 953_076, 1e-9, 0.21),
        (8, 953_076, 1e-9, 0.62),
    ],
)
def test_known_levels_of_the_general_bound(local: int, records: int, delta: float, wanted: float) -> None:
    law = Mechanism({"a": randomised_response(2, float(local))})
    found = shuffled_levels(law, records, delta)
    assert found["clones"] == pytest.approx(wanted, rel=0.04)
    assert found["blanket"] <= found["clones"] * 1.001


def test_the_level_falls_with_records_and_grows_as_delta_falls() -> None:
    by_size = [level_of(n=n).epsilon or 0.0 for n in (10, 1_000, 100_000, 10_000_000)]
    assert by_size == sorted(by_size, reverse=True)
    assert by_size[-1] < 0.01
    by_delta = [file_level(LAW, Facts(), (), RECORDS, 10.0**-k).epsilon or 0.0 for k in (3, 6, 9, 12)]
    assert by_delta == sorted(by_delta)
    one = level_of(n=1)
    assert one.epsilon is not None
    assert one.epsilon <= certify(LAW).account.total * 1.001


def test_what_a_private_prior_spent_is_added() -> None:
    spent = tuple(replace(block, provenance="dp", prior_epsilon=0.25) for block in BLOCKS)
    found, without = level_of(Mechanism(spent, BOOK)), level_of()
    assert found.bounds == without.bounds
    assert found.epsilon == pytest.approx((without.epsilon or 0) + 0.5)
    assert (found.epsilon or 0) >= (without.epsilon or 0) + 0.5


def test_noise_alone_says_nothing() -> None:
    noise = Mechanism([Block(("sex",), TransitionMatrix.from_array(np.full((2, 2), 0.5)), **PUBLIC)], Codebook((SEX,)))
    assert level_of(noise).epsilon == 0.0
    assert shuffled_delta(noise, 5, 0.0) == 0.0


@pytest.mark.parametrize("call", [shuffled_delta, shuffled_epsilon])
def test_a_law_without_a_finite_epsilon_is_refused(call: Any) -> None:
    with pytest.raises(PrivacyError, match="no finite ε"):
        call(Mechanism({"a": TransitionMatrix.identity(3)}), 100, 0.5)


# -- the conditions ----------------------------------------------------------------------------------------------------

KEPT = replace(AREA, missing="keep")
STRATA = Block(
    ("sex", "area"),
    TransitionMatrix.from_array(np.kron(randomised_response(2, 1.0).array, np.eye(4))),
    cells=tuple((a, b) for a in range(2) for b in range(4)),
    given=("area",),
    **PUBLIC,
)
SELECTED = Block(("sex",), TransitionMatrix.identity(2), provenance="confidential")
ZEROS = Block(("sex",), TransitionMatrix.from_array([[1.0, 0.0], [0.5, 0.5]]), **PUBLIC)


def test_a_split_has_the_level_of_its_subsets() -> None:
    """One subset in all records is a block; of two, the louder is hidden at least among the records that show it."""
    block = Mechanism([BLOCKS[0]], BOOK, split=Split((Subset(UNIT, BLOCKS[1]),)))
    assert level_of(block).epsilon == pytest.approx(level_of().epsilon, rel=2e-3)
    halves = Split((Subset(UNIT // 4, BLOCKS[1]), Subset(UNIT - UNIT // 4, BLOCKS[0])))
    found = level_of(Mechanism((), BOOK, split=halves))
    few = level_of(Mechanism([BLOCKS[1]], Codebook((AREA,))), n=RECORDS // 4)
    assert 0 < (found.epsilon or 0) < (few.epsilon or 0)
    assert found.bounds["clones"] == pytest.approx(shuffled_epsilon(1.5, RECORDS, 1e-7), rel=2e-3)
    told = certify(Mechanism((), BOOK, split=halves)).of_file(Mechanism((), BOOK, split=halves), RECORDS, 1e-7)
    assert told.file == found
    assert "The whole file" in told.sentences[-1]


@pytest.mark.parametrize(
    ("subset", "code"),
    [
        (replace(BLOCKS[1], provenance="confidential"), "confidential_prior"),
        (Block(("area",), TransitionMatrix.identity(4), **PUBLIC), "no_epsilon"),
    ],
)
def test_the_subsets_of_a_split_must_meet_the_conditions_too(subset: Block, code: str) -> None:
    law = Mechanism([BLOCKS[0]], BOOK, split=Split((Subset(UNIT, subset),)))
    assert {"code": code, "blocks": [["area"]]} in level_of(law).fails


def test_the_prior_of_a_split_is_added_once() -> None:
    one, two = (replace(block, provenance="dp", prior_epsilon=0.25) for block in BLOCKS)
    law = Mechanism((), BOOK, split=Split((Subset(UNIT // 2, one), Subset(UNIT - UNIT // 2, two))))
    found = level_of(law)
    assert (found.epsilon or 0) == pytest.approx(min(found.bounds.values()) + 0.25)


CONDITIONS: list[tuple[Mechanism, Facts, dict[str, Any], str]] = [
    (LAW, Facts(order_is_shuffled=False), {"code": "order"}, "original order"),
    (LAW, Facts(ids_are_released=True), {"code": "ids"}, "ids are released"),
    (LAW, Facts(key_is_private=False), {"code": "seed"}, "seed"),
    (LAW, Facts(key_is_reused=True), {"code": "reused_key"}, "same key"),
    (Mechanism(BLOCKS), Facts(), {"code": "no_codebook"}, "codebook"),
    (
        with_book(Variable("note", role="other")),
        Facts(),
        {"code": "clear", "variables": ["note"]},
        "unperturbed: note",
    ),
    (with_book(Variable("w", role="weight")), Facts(), {"code": "weight", "variables": ["w"]}, "weights"),
    (
        with_book(Variable("h", role="household")),
        Facts(),
        {"code": "household", "variables": ["h"]},
        "belong together",
    ),
    (
        with_book(Variable("h", role="household")),
        Facts(households_are_renumbered=True),
        {"code": "household", "variables": ["h"]},
        "belong together",
    ),
    (
        Mechanism(BLOCKS, Codebook((SEX, KEPT))),
        Facts(),
        {"code": "missing", "variables": ["area"]},
        "missing value: area",
    ),
    (
        Mechanism([STRATA, BLOCKS[1]], BOOK),
        Facts(),
        {"code": "strata", "blocks": [["sex", "area"]]},
        "depends on other",
    ),
    (Mechanism([SELECTED, BLOCKS[1]], BOOK), Facts(), {"code": "selected", "blocks": [["sex"]]}, "own counts"),
    (Mechanism([ZEROS, BLOCKS[1]], BOOK), Facts(), {"code": "no_epsilon", "blocks": [["sex"]]}, "no finite ε: sex"),
    (
        Mechanism([replace(BLOCKS[0], provenance="confidential"), BLOCKS[1]], BOOK),
        Facts(),
        {"code": "confidential_prior", "blocks": [["sex"]]},
        "confidential records: sex",
    ),
    (
        Mechanism([BLOCKS[0], replace(BLOCKS[1], budget="confidential")], BOOK),
        Facts(),
        {"code": "confidential_prior", "blocks": [["area"]]},
        "confidential records: area",
    ),
    (
        Mechanism([replace(BLOCKS[0], provenance="unstated"), BLOCKS[1]], BOOK),
        Facts(),
        {"code": "unstated_prior", "blocks": [["sex"]]},
        "not stated: sex",
    ),
    (
        Mechanism([replace(BLOCKS[0], provenance="dp"), BLOCKS[1]], BOOK),
        Facts(),
        {"code": "unstated_spending", "blocks": [["sex"]]},
        "prior spent is not stated: sex",
    ),
]


@pytest.mark.parametrize(("law", "facts", "wanted", "words"), CONDITIONS)
def test_each_condition_that_fails_is_named(law: Mechanism, facts: Facts, wanted: Any, words: str) -> None:
    found = level_of(law, facts)
    assert found.epsilon is None
    assert wanted in found.fails
    with pytest.raises(PrivacyError, match=words):
        require(found, 1.0)
    claims = [Claim(DifferentialPrivacy(1.5), ("area",))]
    told = certify(law, claims, facts)
    said = told.of_file(law, RECORDS, 1e-7)
    (more,) = said.not_covered[len(told.not_covered) :]
    assert "No level of the whole file" in more
    assert words in more
    assert said.sentences == told.sentences
    schema = fields.schema("certificate", 3)
    assert schema is not None
    assert law.codebook is None or not list(problems(json.loads(json.dumps(said.to_dict())), schema, schema))


def conditions(law: Mechanism, facts: Facts | None = None, models: Any = ()) -> list[dict[str, Any]]:
    return [*distinguishing(law, facts or Facts()), *dependent(law, facts or Facts(), models)]


@pytest.mark.parametrize(("law", "facts", "wanted"), [case[:3] for case in CONDITIONS if case[2]["code"] != "selected"])
def test_each_condition_is_all_that_fails(law: Mechanism, facts: Facts, wanted: Any) -> None:
    assert conditions(law, facts) == [wanted]


@pytest.mark.parametrize(("law", "facts", "wanted"), [case[:3] for case in CONDITIONS])
def test_what_tells_records_apart_refuses_the_claim_of_the_shuffled_file(
    law: Mechanism, facts: Facts, wanted: Any
) -> None:
    found = list(ShuffledPrivacy(0.3, 1e-6, RECORDS).release_problems(law, law.variables, facts))
    apart = list(distinguishing(law, facts))
    assert len(found) == len(apart) == int(wanted in apart)
    names = wanted.get("variables", [])
    assert all(name in said for said in found for name in names)
    (part,) = [said for said in ShuffledPrivacy(0.3, 1e-6, RECORDS).release_problems(law, ("sex",), facts)][:1]
    assert "does not cover every perturbed variable" in part


def test_no_condition_hides_another() -> None:
    """Every kind in one law: each names its own variables or blocks, and no others."""
    roles = ("key", "record_key", "drop", "weight", "household", "other", "sensitive")
    more = [Variable(f"v{k}", role=role, categories=("a", "b")) if role in ("key", "other", "sensitive")
            else Variable(f"v{k}", role=role) for k, role in enumerate(roles)]  # fmt: skip
    kept, dropped = Variable("kept", role="key", categories=("a", "b"), missing="keep"), KEPT
    book = Codebook((SEX, dropped, *more, kept))
    law = Mechanism([SELECTED, replace(BLOCKS[1], provenance="dp")], book)
    facts = Facts(order_is_shuffled=False, ids_are_released=True, key_is_private=False, key_is_reused=True)
    assert conditions(law, facts) == [
        {"code": "order"},
        {"code": "ids"},
        {"code": "clear", "variables": ["v0", "v5", "v6", "kept"]},
        {"code": "weight", "variables": ["v3"]},
        {"code": "household", "variables": ["v4"]},
        {"code": "missing", "variables": ["area"]},
        {"code": "seed"},
        {"code": "reused_key"},
        {"code": "selected", "blocks": [["sex"]]},
        {"code": "confidential_prior", "blocks": [["sex"]]},
        {"code": "unstated_spending", "blocks": [["area"]]},
    ]
    assert conditions(LAW) == []
    zeros = replace(ZEROS, provenance="confidential")  # its values are reached from one another: nothing is selected
    fails = conditions(Mechanism([zeros, BLOCKS[1]], BOOK))
    assert fails == [{"code": "no_epsilon", "blocks": [["sex"]]}, {"code": "confidential_prior", "blocks": [["sex"]]}]
    one = Block(("area",), join([TransitionMatrix.identity(1), randomised_response(3, 1.0)]), provenance="confidential")
    assert {"code": "selected", "blocks": [["area"]]} in conditions(Mechanism([BLOCKS[0], one], BOOK))


def test_blocks_of_households_are_named() -> None:
    units = Units("h", 3)
    shared = Mechanism([replace(BLOCKS[0], unit="household"), BLOCKS[1]], BOOK, units=units)
    assert {"code": "shared_household", "variables": ["sex"]} in conditions(shared)
    split = Split.of([0.5, 0.5], [replace(block, unit="household") for block in BLOCKS])
    members = Mechanism((), BOOK, split=split, units=units)
    assert {"code": "one_member", "variables": ["sex", "area"]} in conditions(members)
    records = Mechanism((), BOOK, split=Split.of([0.5, 0.5], BLOCKS))
    assert conditions(records) == []
    assert one_of_each(records) == BLOCKS[:1]
    assert one_of_each(LAW) == BLOCKS


def test_recodes_by_the_file_are_named_and_public_ones_are_not() -> None:
    ages = [Variable(name, role="key", categories=("0-17", "18+")) for name in ("age", "of_mother")]
    recodes = [Recode.from_dict({"variable": v.name, "bands": [0, 18]}) for v in ages]
    book = Codebook((*BOOK.variables, *ages), recodes=(recodes[0], replace(recodes[1], provenance="confidential")))
    own = [Block((v.name,), randomised_response(2, 1.0), **PUBLIC) for v in ages]
    assert conditions(Mechanism([*BLOCKS, *own], book)) == [
        {"code": "confidential_recodes", "variables": ["of_mother"]}
    ]


def test_numerical_columns_and_claims_on_the_file_s_counts_fail_too() -> None:
    class NeedsFile:
        needs_file = True

    assert {"code": "file_claims"} in level_of(models=[NeedsFile()]).fails
    law: Any = SimpleNamespace(codebook=BOOK, variables=BOOK.names, numerical=[SimpleNamespace(variable="pay")])
    assert list(distinguishing(law, Facts())) == [{"code": "ranks", "variables": ["pay"]}]
    law.variables, law.numerical = BOOK.names[1:], [SimpleNamespace(variable=BOOK.names[0])]
    assert list(distinguishing(law, Facts())) == [{"code": "ranks", "variables": [BOOK.names[0]]}]


def test_every_condition_has_words_and_a_line_in_the_page_of_the_format() -> None:
    from postrand.support.wordings import WORDINGS

    page = (Path(__file__).parents[1] / "docs" / "release-format.md").read_text()
    codes = {code.partition(".")[2] for code in WORDINGS if code.startswith("file.")} - {"level", "none"}
    assert len(codes) == 21
    assert all(f"`{code}`" in page for code in codes)


# -- certificates and releases -----------------------------------------------------------------------------------------


def drawn(records: int = 3_000) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table({v.name: coding.decode(random.integers(0, v.size, records), v) for v in BOOK.variables})


def made(directory: Path, **changed: Any) -> release.Release:
    arguments: dict[str, Any] = {"mechanism": LAW, "claims": [Claim(DifferentialPrivacy(2.5))], "delta": 1e-6}
    about = {"data_writer": writer_of(drawn()), "data_name": "data.parquet"}
    return release.write(directory, **(about | arguments | changed))


def test_a_release_states_the_level_and_verify_proves_it_again(tmp_path: Path) -> None:
    found = made(tmp_path / "release")
    stated = found.certificate["file"]
    assert stated == {
        "records": 3_000,
        "delta": 1e-6,
        "epsilon": stated["bounds"]["blanket"],
        "bound": "blanket",
        "bounds": stated["bounds"],
    }
    assert "The whole file: its 3,000 records" in found.certificate_sentences[-1]
    assert "AES" in found.certificate_sentences[-1]
    assert "number of records is public" in found.certificate_sentences[-1]
    verified = release.verify(found.path)
    assert verified.verdict == "verified"
    assert any(check.name == "records" and check.ok for check in verified.checks)
    page = (found.path / "report.html").read_text()
    assert "The whole file" in page
    assert "each record is hidden among 3,000" in page
    assert release.read(found.path).certificate == found.certificate


def test_a_release_without_a_delta_states_nothing_of_the_file(tmp_path: Path) -> None:
    found = made(tmp_path / "release", delta=None)
    assert "file" not in found.certificate
    assert "key_is_reused" not in found.certificate["facts"]
    assert "The whole file" not in (found.path / "report.html").read_text()


def test_a_release_that_fails_a_condition_names_it(tmp_path: Path) -> None:
    found = made(tmp_path / "release", facts=Facts(order_is_shuffled=False))
    assert found.certificate["file"] == {"records": 3_000, "delta": 1e-6, "fails": [{"code": "order"}]}
    assert "original order" in found.not_covered[-1]
    assert release.verify(found.path).verdict == "verified"
    assert "no such level is stated" in (found.path / "report.html").read_text()


def forged(root: Path, change: Any) -> list[str]:
    """Change the level of a release, with every file that follows from it, and return what verify says."""
    edit(root / "certificate.json", lambda data: change(data["file"]))
    rehash(root)
    return list(release.verify(root, raise_if_failed=False).problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(epsilon=file["epsilon"] * 0.9),
        lambda file: file.update(epsilon=0.9 * file["epsilon"], bounds={n: 0.9 * e for n, e in file["bounds"].items()}),
        lambda file: file["bounds"].update(clones=file["bounds"]["clones"] * 0.9),
        lambda file: file.update(delta=file["delta"] / 10),
        lambda file: file.update(records=30_000),
        lambda file: file.update(records=2_999),
        lambda file: file.update(bound="clones"),
        lambda file: file.update(fails=[]),
        lambda file: file.update(records=True),
        lambda file: file.update(records=0),
        lambda file: file.update(delta=2.0),
        lambda file: file.update(epsilon="none"),
        lambda file: file.update(bounds=[]),
        lambda file: file.pop("bounds"),
        lambda file: file.pop("delta"),
        lambda file: file.update(secret=1),
        lambda file: file["bounds"].update(better=0.01),
    ],
)
def test_a_forged_level_is_refused(change: Any, tmp_path: Path) -> None:
    assert forged(made(tmp_path / "release").path, change)


def test_a_condition_cannot_be_forged_away(tmp_path: Path) -> None:
    good = made(tmp_path / "good").certificate["file"]
    root = made(tmp_path / "bad", facts=Facts(ids_are_released=False, order_is_shuffled=False)).path

    def change(file: dict[str, Any]) -> None:
        file.pop("fails")
        file.update(good)

    assert any("does not agree" in text for text in forged(root, change))


def test_a_level_a_little_above_the_least_is_restated_and_one_below_is_not() -> None:
    """Another machine may round in another way: what is compared is whether the law proves the stated level."""
    found = level_of()
    larger = replace(
        found, epsilon=1.001 * (found.epsilon or 0), bounds={n: 1.001 * e for n, e in found.bounds.items()}
    )
    assert restated(LAW, Facts(), (), larger).bounds == larger.bounds
    smaller = replace(found, bounds={n: 0.99 * e for n, e in found.bounds.items()})
    assert restated(LAW, Facts(), (), smaller) == found
    again = recertify(LAW, (), Facts(), from_dict(json.loads(json.dumps(found.to_dict()))))
    assert again.file == found


def test_a_release_of_another_level_than_asked_for_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="above the one asked for"):
        made(tmp_path / "release", file_epsilon=1e-3)
    assert not (tmp_path / "release").exists()
    with pytest.raises(ReleaseError, match="number of records"):
        raise_other_number(tmp_path)


def raise_other_number(tmp_path: Path) -> None:
    root = made(tmp_path / "other").path
    for text in forged(root, lambda file: file.update(fails=[{"code": "order"}], records=9)):
        if "number of records" in text or "does not agree" in text:
            raise ReleaseError("number of records")


# -- plans -------------------------------------------------------------------------------------------------------------

CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["f", "m"]
[[variables]]
name = "area"
role = "other"
categories = ["n", "e", "s", "w"]
"""


def planned(folder: Path, privacy: str, *, own: str = "", more: str = "", records: int = 3_000) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(drawn(records), folder / "people.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    blocks = "".join(f'[[blocks]]\nvariables = ["{name}"]\n{own}\n' for name in BOOK.names)
    head = '[source]\nfile = "people.parquet"\ncodebook = "codebook.toml"\n[privacy]\nmodel = "differential"\n'
    (folder / "plan.toml").write_text(f"{head}{privacy}\n{blocks}\n{more}")
    return folder / "plan.toml"


@pytest.mark.parametrize(("asked", "delta"), [(0.05, 1e-4), (0.3, 1e-6), (1.0, 1e-6), (4.0, 1e-6)])
def test_a_plan_is_solved_for_the_record_s_level(asked: float, delta: float, tmp_path: Path) -> None:
    plan = load_plan(planned(tmp_path / "p", f"file_epsilon = {asked}\ndelta = {delta}"))
    assert plan.file == FileGoal(delta, asked)
    found = run(plan, tmp_path / "release", release_key=ReleaseKey.fresh())
    level = found.certificate["file"]
    assert level["delta"] == delta
    assert 0.9 * asked <= level["epsilon"] <= asked
    record = found.certificate["claims"][0]["privacy"]["epsilon"]
    assert record >= found.certificate["account"]["total"] >= level["epsilon"]
    assert release.verify(found.path).verdict == "verified"


def test_noise_is_not_drawn_for_every_design_that_is_tried(tmp_path: Path) -> None:
    own = 'prior = "dp"\nprior_epsilon = 0.25'
    with pytest.raises(SpecificationError, match="each would draw the noise of a prior anew"):
        load_plan(planned(tmp_path / "p", "file_epsilon = 0.5\ndelta = 1e-6", own=own))
    load_plan(planned(tmp_path / "q", "epsilon = 3\ndelta = 1e-6", own=own))


def test_more_records_allow_each_more(tmp_path: Path) -> None:
    levels = [
        solved(load_plan(planned(tmp_path / str(n), "file_epsilon = 0.5\ndelta = 1e-5", records=n))).privacy
        for n in (100, 1_000, 10_000)
    ]
    found = [level.epsilon for level in levels if isinstance(level, DifferentialPrivacy)]
    assert found == sorted(found)
    assert len(set(found)) == 3
    assert found[0] >= 0.499


def test_blocks_with_an_epsilon_of_their_own_keep_it_or_are_refused(tmp_path: Path) -> None:
    own = 'privacy = {model = "differential", epsilon = 1.0}'
    plan = solved(load_plan(planned(tmp_path / "p", "file_epsilon = 0.5\ndelta = 1e-6", own=own)))
    assert isinstance(plan.privacy, DifferentialPrivacy)
    assert plan.privacy.epsilon == pytest.approx(2.0)
    with pytest.raises(PrivacyError, match="own epsilon are too large"):
        solved(load_plan(planned(tmp_path / "p", "file_epsilon = 0.01\ndelta = 1e-6", own=own)))


OWN = "privacy = {model = 'differential', epsilon = 0.847298}"


@pytest.mark.parametrize(
    ("more", "own", "words"),
    [
        ("[release]\nshuffle = false", "", "original order"),
        ("[release]\nshuffle = false\nrelease_ids = true", "", "ids are released"),
        ("", 'prior = "file"', "confidential records"),
        ("", f"matrix = [[0.7, 0.3], [0.3, 0.7]]\n{OWN}", "not stated"),
    ],
)
def test_a_plan_that_fails_a_condition_is_refused_with_it(more: str, own: str, words: str, tmp_path: Path) -> None:
    path = planned(tmp_path / "p", "file_epsilon = 0.5\ndelta = 1e-6", more=more, own="")
    text = path.read_text()
    path.write_text(text.replace('variables = ["sex"]\n', f'variables = ["sex"]\n{own}\n'))
    with pytest.raises(PrivacyError, match=words):
        run(load_plan(path), tmp_path / "release", release_key=ReleaseKey.fresh())
    assert not (tmp_path / "release").exists()


def test_a_seed_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = planned(tmp_path / "p", "file_epsilon = 0.5\ndelta = 1e-6")
    with pytest.raises(PrivacyError, match="seed"):
        run(load_plan(path), tmp_path / "release", release_key=ReleaseKey.from_seed(1))
    assert not (tmp_path / "release").exists()


def test_a_delta_alone_states_the_level_of_a_given_epsilon(tmp_path: Path) -> None:
    plan = load_plan(planned(tmp_path / "p", "epsilon = 2.0\ndelta = 1e-6"))
    assert plan.file == FileGoal(1e-6)
    assert solved(plan) is plan
    found = run(plan, tmp_path / "release", release_key=ReleaseKey.from_seed(1))
    assert found.certificate["file"]["fails"] == [{"code": "seed"}]


def test_a_key_that_made_another_release_is_named(tmp_path: Path) -> None:
    key, ledger = ReleaseKey.fresh(), Ledger(tmp_path / "key.ledger")
    for n, epsilon in enumerate((2.0, 1.0)):
        plan = load_plan(planned(tmp_path / "p", f"epsilon = {epsilon}\ndelta = 1e-6"))
        found = run(plan, tmp_path / f"release{n}", release_key=key, ledger=ledger, again=True)
        fails = found.certificate["file"].get("fails", [])
        assert fails == [{"code": "reused_key"}] * n
        assert release.verify(found.path).verdict == "verified"


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ("file_epsilon = 0.5", "needs a delta"),
        ("file_epsilon = 0.5\ndelta = 1.0", "needs a delta"),
        ("file_epsilon = -1\ndelta = 1e-6", "not a positive number"),
        ('file_epsilon = "x"\ndelta = 1e-6', "not a positive number"),
        ("file_epsilon = 0.5\nepsilon = 1.0\ndelta = 1e-6", "one follows from the other"),
        ("epsilon = 1.0\ndelta = true", "needs a delta"),
        ("delta = 1e-6", "'epsilon' is missing"),
        ("file_epsilonn = 0.5\ndelta = 1e-6", "unknown option 'file_epsilonn'"),
    ],
)
def test_what_a_plan_asks_of_the_file_is_checked(privacy: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PostrandError, match=words):
        load_plan(planned(tmp_path / "p", privacy))


def test_other_models_keep_their_own_delta() -> None:
    approximate = {"model": "approximate", "epsilon": 1.0, "delta": 1e-6}
    assert goal_of(approximate, "[privacy]") == (approximate, None)
    with pytest.raises(SpecificationError, match="needs a delta"):
        goal_of({"model": "differential", "file_epsilon": 1.0, "delta": math.nan}, "[privacy]")


def test_such_a_plan_cannot_be_scaled(tmp_path: Path) -> None:
    plan = load_plan(planned(tmp_path / "p", "file_epsilon = 0.5\ndelta = 1e-6"))
    with pytest.raises(UsageError, match="follows from file_epsilon"):
        tune_plan(plan, "tau2 <= 10", sampling_fraction=0.1)


def test_design_prints_both_levels(tmp_path: Path) -> None:
    for privacy, more, words in (
        ("file_epsilon = 0.5\ndelta = 1e-6", "", "The whole file: its 3,000 records"),
        ("epsilon = 2.0\ndelta = 1e-6", "[release]\nshuffle = false", "No level of the whole file"),
    ):
        path = planned(tmp_path / "p", privacy, more=more)
        result = CliRunner().invoke(main, ["design", "--plan", str(path)])
        assert result.exit_code == 0
        assert "each record's perturbed values are released under ε-differential privacy" in result.output
        assert words in result.output


# -- numbers at their limits -------------------------------------------------------------------------------------------


def test_records_and_delta_are_what_they_can_be() -> None:
    assert FileLevel(1, 5e-324).delta == 5e-324
    assert FileLevel(1, 1 - 2**-53).records == 1
    wrong: list[Any] = [0, -1, 1.5, True, "9"]
    for records in wrong:
        with pytest.raises(SpecificationError, match="no number of records"):
            FileLevel(records, 0.5)
    chances: list[Any] = [0.0, 1.0, -0.5, 1.5, math.inf, math.nan, None]
    for delta in chances:
        with pytest.raises(PrivacyError, match="delta is not a probability"):
            FileLevel(9, delta)


def test_a_level_of_the_file_is_read_as_it_was_written() -> None:
    stated = FileLevel(9, 0.5, 0.25, {"clones": 0.5, "blanket": 0.25})
    assert stated.bound == "blanket"
    fails = FileLevel(9, 0.5, fails=({"code": "no_codebook"},))
    assert fails.to_dict() == {"records": 9, "delta": 0.5, "fails": [{"code": "no_codebook"}]}
    assert stated.to_dict() == {
        "records": 9, "delta": 0.5, "epsilon": 0.25, "bound": "blanket", "bounds": {"clones": 0.5, "blanket": 0.25},
    }  # fmt: skip
    assert [from_dict(level.to_dict()) for level in (stated, fails)] == [stated, fails]
    for wrong in (None, {"records": 9}, stated.to_dict() | {"epsilon": "x"}, stated.to_dict() | {"bounds": [1]}):
        with pytest.raises(SpecificationError, match="malformed"):
            from_dict(wrong)


def test_what_is_asked_of_the_file_is_met_or_refused_with_every_condition() -> None:
    level = FileLevel(9, 0.5, 0.25, {"clones": 0.25})
    require(level, 0.25)
    for unmet in (level, replace(level, epsilon=None)):
        with pytest.raises(PrivacyError, match=r"file_epsilon: the file's level is above .* wanted 0\.2499"):
            require(unmet, math.nextafter(0.25, 0))
    with pytest.raises(PrivacyError, match="goal: the file has no level") as refused:
        require(replace(level, fails=({"code": "no_codebook"}, {"code": "order"})), 9.0, "goal")
    assert str(refused.value).count("the file has no level") == 2


@pytest.mark.parametrize("level", [0.0, 1e-9, 0.1, 0.12345, 0.99995, 1.0, 123.449, 123.45000001, 7.0000001])
def test_levels_are_rounded_up_to_four_digits(level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the level, by less than a unit of the fourth digit; the δ that is left unused is a millionth."""
    asked = []

    def levels(*given: Any) -> dict[str, float]:
        asked.append(given)
        return {"clones": level, "b": 1e9}

    monkeypatch.setattr(module, "shuffled_levels", levels)
    found = level_of().bounds["clones"]
    unit = Fraction(10) ** (math.floor(math.log10(level)) - 3) if level else Fraction(0)
    assert 0 <= Fraction(found) - Fraction(level) <= unit
    assert f"{found:.4g}" == repr(found).removesuffix(".0") or level < 1e-4 or found == level
    assert asked == [(LAW, RECORDS, 1e-7 * (1 - 1e-6))]


def test_a_level_is_stated_again_only_if_both_bounds_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    least = {"clones": 2.0, "blanket": 1.0}
    monkeypatch.setattr(module, "shuffled_levels", lambda law, n, delta: least)
    monkeypatch.setattr(
        module, "shuffled_holds", lambda name, law, n, e, delta: (n, delta) == (9, 0.5) and e >= least[name]
    )
    found = file_level(LAW, Facts(), (), 9, 0.5)
    assert found == FileLevel(9, 0.5, 1.0, least)
    for wrong in ({"clones": 9.0}, {**least, "better": 9.0}, {}, {**least, "clones": 1.9}, {**least, "blanket": 0.9}):
        assert restated(LAW, Facts(), (), replace(found, bounds=wrong)) == found
    stated = {"clones": 8.0, "blanket": 9.0}
    assert restated(LAW, Facts(), (), replace(found, epsilon=0.1, bounds=stated)) == FileLevel(9, 0.5, 8.0, stated)
    unordered = restated(LAW, Facts(order_is_shuffled=False), (), found)
    assert (unordered.epsilon, unordered.records, unordered.delta) == (None, 9, 0.5)
    assert unordered.fails
