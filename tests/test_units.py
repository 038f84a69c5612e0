"""Persons and households: one draw for all records of a unit, levels that hold for units, and what is refused."""

import dataclasses
import itertools
import json
import math
import re
import shutil
import subprocess
import tomllib
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import postrand as pr
from postrand import estimate, randomised_response
from postrand.app import documents
from postrand.app.plans import open_plan
from postrand.certification.certificate import claims_from_dict, recertify
from postrand.certification.file_level import failing
from postrand.certification.units import unit_epsilon, unit_levels
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.data.households import renumbering
from postrand.engines import LocalEngine
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.spark import SparkEngine
from postrand.engines.summary import Summary
from postrand.engines.unit_records import too_many
from postrand.engines.units import BlockDraws
from postrand.errors import (
    DataError,
    DesignError,
    EstimationError,
    PrivacyError,
    ReleaseError,
    SpecificationError,
)
from postrand.mechanism import Block, Mechanism, SharedDrawsWarning, Split, Units
from postrand.mechanism.margins import Table, impossible
from postrand.mechanism.matrix import TransitionMatrix
from postrand.plan.unit_plan import unit_from
from postrand.release import canonical_json
from postrand.report.values import page_values
from postrand.risk import assess
from postrand.support.randomness import content_keys, derive, derive_unit
from postrand.testing import engines as testing
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.explanation import explain
from postrand.workflow.pipeline import run
from postrand.workflow.plan_figures import figures_of
from postrand.workflow.planned import mechanism_of
from postrand.workflow.tuning import scaled, tune_plan
from postrand.workflow.unit_budget import divided
from postrand.workflow.worth import ways
from tests.conftest import ROOT
from tests.fixtures.releases.make import write_houses
from tests.guides import run_examples
from tests.release_case import edit, rehash
from tests.sampling_reference import draw_one
from tests.unit_case import KEY, PLAN, planned, survey

SPARK = pytest.param(SparkEngine(parts=3), id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
LOCAL = [pytest.param(LocalEngine(threads=1, batch_rows=7), id="local"), pytest.param(DuckDBEngine(), id="duckdb")]
HOUSE = Units(household="hid", largest_household=6)


# -- draws ------------------------------------------------------------------------------------------------------------


def aes(key: bytes, number: int, slot: int) -> tuple[int, int]:
    block = (number % 2**64).to_bytes(8, "little") + slot.to_bytes(8, "little")
    drawn = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(block)
    return int.from_bytes(drawn[:8], "little"), int.from_bytes(drawn[8:], "little")


def expanded(info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=b"postrand/1", info=info).derive(testing.KEY.secret)


def by_hand(table: pa.Table, law: Mechanism) -> list[dict]:
    """Draw age and area by the household, sex by the record, in plain Python from the ciphers' formulas."""
    own, records = content_keys(testing.KEY), table.to_pylist()
    codes = {"age": (10, 20, 30, None), "sex": ("F", "M"), "area": ("a", "b", "c", "d")}
    total = [0, 0]
    for row, record in enumerate(records):
        cells = [codes[b.name].index(record[b.name]) if record[b.name] in codes[b.name] else -1 for b in law.blocks]
        number = 0
        for cell, block in zip(cells, law.blocks, strict=True):
            number = number * (block.matrix.size + 1) + cell + 1
        v = (0, 0) if record["house"] is None else aes(own.table, record["house"], 2**33 + 1)
        drawn = aes(own.record, row + v[0], (number + v[1]) % 2**64)
        total = [(a + b) % 2**64 for a, b in zip(total, drawn, strict=True)]
    tag = b"".join(n.to_bytes(8, "little") for n in (len(records), *total, 0, 0))
    digest = law.digest().encode()
    draw = expanded(b"draw " + digest + b" content " + tag)
    house, alone = (expanded(w + b" of unit household " + digest + b" content " + tag) for w in (b"numbered", b"alone"))
    for row, record in enumerate(records):
        shared = aes(alone, row, 0) if record["house"] is None else aes(house, record["house"], 0)
        for name, word in (("age", shared[0]), ("area", shared[1]), ("sex", aes(draw, row, 0)[0])):
            cell = codes[name].index(record[name]) if record[name] in codes[name] else -1
            found = draw_one(law[name].matrix.weights.tolist(), cell, word)
            record[name] = None if found == -1 else codes[name][found]
    return [{name: record[name] for name in ("sex", "age", "area")} for record in records]


@pytest.mark.parametrize("engine", [*LOCAL, SPARK])
def test_a_household_is_drawn_by_its_number_as_by_hand(engine):
    table, law = testing.housed(60), testing.households()
    law = dataclasses.replace(law, units=Units(household="house", largest_household=4))
    found = testing.perturbed(engine, testing.Memory(table), law, shuffle=False)
    assert found.select(["sex", "age", "area"]).to_pylist() == by_hand(table, law)


def test_a_frame_and_its_parts_are_drawn_as_a_file_is():
    table, law = testing.housed(), testing.households()
    wanted = testing.perturbed(LocalEngine(), testing.Memory(table), law, record_key="id", shuffle=False)
    whole = pr.perturb(table, law, testing.KEY, "id")
    content = pr.content_of([table[300:], table[:300]], law, testing.KEY, "id")
    parts = pa.concat_tables(
        [pr.perturb(part, law, testing.KEY, "id", content=content) for part in (table[:300], table[300:])]
    )
    for name in ("sex", "age", "area"):
        assert whole[name].to_pylist() == parts[name].to_pylist() == wanted[name].to_pylist()


def test_streams_of_households_records_and_numbers_are_apart():
    """Not the draws of a household and of a record, nor those and new numbers; and moving a member draws all anew."""
    own, house = derive(KEY, "aa", b"c"), derive_unit(KEY, "aa", b"c", "household")
    fresh = renumbering(testing.Memory(testing.housed(9)), "house", KEY, "aa", b"c").key
    keys = {own.draw, own.order, house.numbered, house.alone, derive_unit(KEY, "aa", b"c", "person").numbered, fresh}
    assert len(keys) == 6
    table = survey(60, size=2)
    law = Mechanism([Block("region", randomised_response(4, 1.0), unit="household")], units=Units("hid", 3))
    frame = table.set_column(
        2, "region", pa.array(["a"] * 120).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    )
    frame = frame.set_column(2, "region", pa.DictionaryArray.from_arrays(np.zeros(120, dtype=np.int8), list("abcd")))
    moved = frame.set_column(0, "hid", pa.array([7_001, *frame["hid"].to_pylist()[1:]]))  # the true values stay
    one, two = (pr.perturb(f, law, KEY)["region"].to_pylist() for f in (frame, moved))
    assert (
        np.mean([a == b for a, b in zip(one[3:], two[3:], strict=True)]) < 0.6
    )  # 0.32 expected, 1 if words were shared


def followers(made):
    """How often a record of a household follows another one of it: an attacker's count, from the release alone."""
    house = made.frame()["hid"].to_numpy()
    return int((house[1:] == house[:-1]).sum())


def test_members_do_not_stand_together_and_a_kept_order_is_caught(tmp_path):
    """The order is that of words of record keys: members follow each other no more often than strangers do.

    The defect planted: records in the file's order, in which household follows household.
    """
    plan = planned(tmp_path / "w", table=survey(300, size=4))
    made = run(plan, tmp_path / "out", release_key=KEY)
    assert followers(made) <= 15  # Poisson of mean 3: above 15 with probability 1e-7
    kept = dataclasses.replace(plan, release=dataclasses.replace(plan.release, shuffle=False))
    assert followers(run(kept, tmp_path / "kept", release_key=KEY)) == 900


def test_an_engine_that_draws_for_members_is_caught(monkeypatch):
    """The defect planted: every block is drawn by the record's key."""
    real = BlockDraws.of

    def of(*arguments):
        right = real(*arguments)
        return dataclasses.replace(right, places=tuple(range(len(right.laws))), shared=())

    monkeypatch.setattr(BlockDraws, "of", of)
    with pytest.raises(AssertionError, match="a household shows two values"):
        testing.check_households(LocalEngine())


# -- levels -----------------------------------------------------------------------------------------------------------


def exact_ratio(law: Mechanism, unit: str, records: int) -> Fraction:
    """Return the largest ratio of probabilities of any release of a unit, by all true and released states of it."""
    shared = ("household",) if unit == "household" else ("person", "household")
    once = [b.matrix.weights for b in law.blocks if b.unit in shared]
    each = [b.matrix.weights for b in law.blocks if b.unit not in shared] * records
    found = Fraction(1)
    for weights in (*once, *each):  # draws are independent, so the whole ratio is the product of the largest
        found *= max(Fraction(int(a), int(b)) for column in weights.T for a, b in itertools.permutations(column, 2))
    return found


def test_a_level_is_the_largest_ratio_of_a_whole_household():
    """By enumeration: every pair of true states of two members, every release of both."""
    region, sex = randomised_response(3, 0.7), TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]])
    law = Mechanism([Block("region", region, unit="household"), Block("sex", sex)], units=HOUSE)
    true = list(itertools.product(range(3), range(2), range(2)))
    w, v = region.weights, sex.weights

    def probability(x, y):  # both members show one region
        return Fraction(int(w[x[0], y[0]])) * int(v[x[1], y[1]]) * int(v[x[2], y[2]])

    largest = max(probability(x, y) / probability(z, y) for x in true for z in true for y in true)
    assert largest == exact_ratio(law, "household", 2)
    level = unit_epsilon(law, "household", 2)
    assert 0 <= level - math.log(largest) < 1e-12


@pytest.mark.parametrize("records", [1, 2, 4, 6])
def test_levels_of_persons_and_households_add_what_each_draws(records):
    blocks = [
        Block("region", randomised_response(4, 0.5), unit="household"),
        Block("born", randomised_response(5, 0.25), unit="person"),
        Block("sex", randomised_response(2, 1.0), provenance="dp", prior_epsilon=0.125),
    ]
    units = Units("hid", 6, "pid", 3)
    law = Mechanism(blocks, units=units)
    for unit in ("person", "household"):
        spent = unit_epsilon(law, unit, records)
        wanted = math.log(exact_ratio(law, unit, records)) + records * 0.125
        assert 0 <= spent - wanted < 1e-12
    told = pr.certify(law).units
    assert [level["records"] for level in told["person"]["levels"]] == [1, 2, 3]
    assert [level["records"] for level in told["household"]["levels"]] == [1, 2, 4, 6]
    split = Split.of([0.5, 0.5], [Block("a", randomised_response(2, 0.5)), Block("b", randomised_response(2, 0.75))])
    beside = Mechanism(blocks, split=split, units=units)
    assert unit_epsilon(beside, "household", records) == pytest.approx(
        unit_epsilon(law, "household", records) + 0.75 * records
    )


def test_no_level_is_stated_where_a_matrix_has_none():
    law = Mechanism([Block("a", TransitionMatrix.from_array([[1, 0], [0.5, 0.5]]))], units=HOUSE)
    told = unit_levels(law)["household"]
    assert told["infinite"] == [["a"]]
    assert "levels" not in told


# -- a plan -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("units")
    return run(planned(folder / "w"), folder / "out", release_key=KEY), folder


def test_a_release_shows_one_value_for_each_household_and_verifies(made):
    release, folder = made
    frame = release.frame().to_pandas()
    assert (frame.groupby("hid")[["region", "tenure"]].nunique() == 1).all().all()
    assert frame.groupby("hid")["sex"].nunique().max() == 2
    assert pr.verify(release.path).verdict == "verified"
    assert pr.verify(release.path, file=folder / "w" / "s.parquet", release_key=KEY).verdict == "verified"
    sex = release.certificate["blocks"][2]["epsilon"]
    for level in release.certificate["units"]["household"]["levels"]:
        assert level["epsilon"] == pytest.approx(4.0 + (level["records"] - 1) * sex, abs=1e-9)
    said = " ".join((*release.certificate_sentences, *release.plain_claims, *release.not_covered))
    once = "for 6 records, the most that are allowed; drawn once for all of them: region, tenure."
    for text in (once, "A household with up to 6 records", "share one draw of: region, tenure", "who lives together"):
        assert text in said
    assert "The guarantees of a record and of a household cover only the values of: region, tenure, sex" in said
    assert "per record" not in said
    for name in ("report.html", "ddi.xml", "croissant.json", "README.txt"):
        text = " ".join((release.path / name).read_text("utf-8").split())
        assert "share one draw of: region, tenure" in text, name
    assert "for 6 records, the most that are allowed" in (release.path / "report.html").read_text("utf-8")
    about = " ".join((release.path / "README.txt").read_text("utf-8").split())
    assert "('postrand complete') cannot be made of this release" in about
    assert "postrand complete, which makes" not in about


@pytest.mark.r
def test_the_r_script_of_a_release_warns_of_shared_draws(made, tmp_path):
    release, _ = made
    pacsv.write_csv(release.frame(), tmp_path / "data.csv")
    data = f'read.csv("{tmp_path / "data.csv"}", colClasses = "character")'

    def said(name):
        code = 'source("postrand.R", encoding = "UTF-8"); release <- postrand_read(".");'
        code += f'invisible(postrand_table({data}, "{name}", release))'
        done = subprocess.run(["Rscript", "-e", code], cwd=release.path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stderr.split())

    with pytest.warns(SharedDrawsWarning) as heard:
        pr.estimate.table(release.frame(), ["region"], release.mechanism)
    assert str(heard[0].message) in said("region")
    assert "share one draw" not in said("sex")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_engines_release_the_same_bytes(made, engine):
    release, folder = made
    again = run(pr.load_plan(folder / "w" / "plan.toml"), folder / engine, release_key=KEY, engine=engine)
    assert again.data_path.read_bytes() == release.data_path.read_bytes()


REFUSED = {
    "a mixed block": ([('["sex"]', '["sex", "region"]'), ('[[blocks]]\nvariables = ["region"]\n', "")],
                      r"variables of the household \(region\) and others \(sex\)"),
    "no bound": ([("largest_household = 6\n", "")], "'largest_household' is not valid"),
    "an unknown option": ([("largest_household", "largest_households")], "did you mean 'largest_household'"),
    "another role": ([('household = "hid"', 'household = "pid"')], "'pid' has no household numbers"),
    "a variable that no block has": ([('[[blocks]]\nvariables = ["tenure"]\n', "")], "'tenure' is in household_var"),
    "no column": ([('household = "hid"\n', ""), ('role = "household"', 'role = "drop"')], "given without 'household'"),
    "completed files": ([("[unit]", "[release]\ncompleted = 2\n[unit]")], "completed files are not made"),
    "a level of the file": ([("epsilon = 4.0", "file_epsilon = 1.0\ndelta = 1e-6")], "the file has no level"),
    "rare records": ([('s = ["region"]', 's = ["region"]\nrarer_than = 3')], "'rarer_than' counts records"),
    "a stratum that differs": ([('variables = ["region"]', 'variables = ["region"]\ngiven = ["sex"]'),
                                ('[[blocks]]\nvariables = ["sex"]\n', "")], "block of the household reads sex"),
    "a split": ([('[[blocks]]\nvariables = ["region"]\n[[blocks]]\nvariables = ["tenure"]\n',
                  '[split]\nvariables = ["region", "tenure"]\nepsilon = 2.0\n')], "only a variable of a block"),
    "the record key": ([('name = "pid"\nrole = "drop"', 'name = "pid"\nrole = "record_key"'),
                        ("[unit]", '[unit]\nperson = "pid"\nmost_records = 2')], "'pid' does not number persons"),
    "no epsilon": ([('model = "differential"\nepsilon = 4.0', 'model = "bistochastic"\nbeta = 0.5'),
                    ("[unit]", "[unit]\nepsilon = 3.0")], "the record's claim has none"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(tmp_path, case):
    changes, words = REFUSED[case]
    with pytest.raises(SpecificationError, match=words):
        planned(tmp_path / "w", *changes)


def test_the_codebook_s_role_names_the_household_where_the_plan_does_not(tmp_path):
    named, short = planned(tmp_path / "v"), planned(tmp_path / "w", ('household = "hid"\n', ""))
    assert short.unit == named.unit
    text = ('household_variables = ["region", "tenure"]\nlargest_household = 6', 'person = "pid"\nmost_records = 2')
    assert planned(tmp_path / "u", ('household = "hid"\n', ""), text).unit.units.bounds == {"person": 2}


def replaced(table: pa.Table, name: str, at: int, value: object) -> pa.Table:
    values = table[name].to_pylist()
    values[at] = value
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type))


def test_a_file_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path):
    """No message tells which household, or how many: the fourth and fifth records differ, and some have six members."""
    table = survey(400, size=3)
    for name in ("region", "tenure"):
        table = replaced(table, name, 4, "a" if name == "region" else "own")
        table = replaced(table, name, 3, "b" if name == "region" else "rent")
    smaller = ("largest_household = 6", "largest_household = 2")
    with pytest.raises(DataError) as caught:
        run(planned(tmp_path / "w", smaller, table=table), tmp_path / "out", release_key=KEY)
    problems = caught.value.problems
    assert len(problems) == 2
    assert problems[0].startswith(
        "hid: a household has more records than the plan allows; wanted largest_household = 2. "
        "Next: raise largest_household to a public bound, such as 5, which no household of the records read exceeds"
    )
    assert problems[1].startswith("region, tenure: records of one household differ in 2 variables")
    assert not any(text in str(caught.value) for text in ("7001", "7,001", " 3 ", "own", "rent"))
    assert not (tmp_path / "out").exists()
    frame = table.to_pandas().astype({"region": "category", "tenure": "category"})
    law = Mechanism([Block("region", randomised_response(4, 1.0), unit="household")], units=HOUSE)
    with pytest.raises(DataError, match="differ in 1 variable;"):
        pr.perturb(frame, law, KEY)
    with pytest.raises(DataError, match="differ in variables that describe it"):
        pr.content_of([frame[:4], frame[4:]], law, KEY, "pid")


@pytest.mark.parametrize(("largest", "bound"), [(3, 5), (5, 5), (6, 10), (50, 50), (51, 60), (120, 200), (9999, 10000)])
def test_a_bound_that_holds_is_rounded_up(largest, bound):
    said = too_many("person", "pid", 2, largest)
    assert said.startswith("pid: a person has more records than the plan allows; wanted most_records = 2. Next: raise ")
    assert f"raise most_records to a public bound, such as {bound}, which no person of the records read exceeds" in said
    assert "raise most_records (levels" in too_many("person", "pid", 2, 10_001)


def test_persons_have_their_bound_and_one_household(tmp_path):
    """Three records a person and twice two persons a household; then one person moves, and one has a fourth record."""
    n, person = 60, ("[unit]", '[unit]\nperson = "pid"\nmost_records = 3')
    table = survey(10, size=6)
    table = table.set_column(1, "pid", pa.array(np.arange(n) // 3))
    made = run(planned(tmp_path / "w", person, table=table), tmp_path / "out", release_key=KEY)
    sex = made.certificate["blocks"][2]["epsilon"]
    levels = {level["records"]: level["epsilon"] for level in made.certificate["units"]["person"]["levels"]}
    assert levels == pytest.approx({1: 4.0, 2: 4.0 + sex, 3: 4.0 + 2 * sex}, abs=1e-9)
    moved = replaced(table, "pid", 0, 19)
    with pytest.raises(DataError, match=r"2 problems[\s\S]*more records than the plan allows[\s\S]*several households"):
        run(planned(tmp_path / "w", person, table=moved), tmp_path / "no", release_key=KEY)
    homeless = table
    for at in (0, 1):
        homeless = replaced(homeless, "hid", at, None)
    keep = ('role = "household"', 'role = "household"\nmissing = "keep"')
    with pytest.raises(DataError, match="several records without a household number"):
        run(planned(tmp_path / "w", person, keep, table=homeless), tmp_path / "no", release_key=KEY)


def test_a_kept_release_of_households_is_verified_and_drawn_again_for_ever(tmp_path):
    kept = ROOT / "tests" / "fixtures" / "releases" / "3" / "housed"
    write_houses(tmp_path)
    assert pr.verify(kept).verdict == "verified"
    again = pr.verify(kept, file=tmp_path / "houses.csv", release_key=pr.ReleaseKey.from_seed(16))
    assert next(check for check in again.checks if check.name == "drawn").ok
    levels = {u: told["levels"][-1]["epsilon"] for u, told in pr.read_release(kept).certificate["units"].items()}
    assert levels == pytest.approx({"person": 4.0, "household": 7.0})


# -- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [3.0, 6.0, 30.0])
def test_a_budget_of_households_is_met_and_used(tmp_path, asked):
    made = run(planned(tmp_path / "w", ("[unit]", f"[unit]\nepsilon = {asked}")), tmp_path / "out", release_key=KEY)
    record, household = made.certificate["account"]["total"], made.certificate["units"]["household"]["levels"][-1]
    assert record <= 4.0
    assert household["epsilon"] <= asked
    assert max(record / 4.0, household["epsilon"] / asked) > 0.999
    assert pr.verify(made.path).verdict == "verified"


@pytest.mark.parametrize(("record", "unit"), [(10.0, 4.0), (2.0, 40.0), (3.0, 7.0)])
def test_two_budgets_are_divided_as_a_search_divides_them(record, unit):
    """Two concave curves with costs 1 and 4: the best of a fine grid that keeps both budgets is hardly better."""
    curves = [lambda e: (1 - math.exp(-e),) * 2, lambda e: (2 - 2 * math.exp(-e / 2),) * 2]
    found = divided(curves, [pr.designers.budget.BudgetShare(floor=0.0)] * 2, [1.0, 4.0], record, unit)
    assert sum(found) <= record
    assert found[0] + 4 * found[1] <= unit
    first, second = np.meshgrid(np.linspace(0, record, 801), np.linspace(0, record, 801))
    fits = (first + second <= record) & (first + 4 * second <= unit)
    best = np.where(fits, 3 - np.exp(-first) - 2 * np.exp(-second / 2), 0).max()
    assert sum(curve(e)[0] for curve, e in zip(curves, found, strict=True)) > 0.99 * best


def test_a_budget_that_is_not_met_is_refused(tmp_path):
    own = [(f'variables = ["{n}"]', f'variables = ["{n}"]\nprivacy = {{model = "differential", epsilon = 1.0}}')
           for n in ("region", "tenure", "sex")]  # fmt: skip
    asked = ("[unit]", "[unit]\nepsilon = 7.5")
    with pytest.raises(
        PrivacyError, match=r"level of a household with 6 records is above.*got ε <= 8; wanted ε <= 7\.5"
    ):
        run(planned(tmp_path / "w", *own, asked), tmp_path / "out", release_key=KEY)
    with pytest.raises(DesignError, match="used up: nothing is left to share"):
        run(planned(tmp_path / "v", own[2], ("[unit]", "[unit]\nepsilon = 5.5")), tmp_path / "out", release_key=KEY)
    assert not (tmp_path / "out").exists()


# -- attacks from the released files alone ----------------------------------------------------------------------------


def recovered(frame: pa.Table, truth: dict[int, str]) -> float:
    """Return how often the most common released tenure of a household is the true one."""
    shown: dict[int, list[str]] = {}
    for house, tenure in zip(frame["hid"].to_pylist(), frame["tenure"].to_pylist(), strict=True):
        shown.setdefault(house, []).append(tenure)
    return float(np.mean([max(sorted(set(v)), key=v.count) == truth[house] for house, v in shown.items()]))


@pytest.mark.filterwarnings("ignore:.*functions of hid", "ignore:.*the members")
def test_a_majority_vote_finds_no_more_than_one_draw_and_memberwise_draws_are_caught(tmp_path):
    """Households of six at ε = 2 for tenure: one draw shows the true value in 79 % of them, six apart in nearly all.

    Household numbers stay as they are, so that nobody need guess which household of the file is which.
    """
    table = survey(1500, size=6)
    own = ('variables = ["tenure"]', 'variables = ["tenure"]\nprivacy = {model = "differential", epsilon = 2.0}')
    last = '[[blocks]]\nvariables = ["sex"]'
    as_is = (last, f'{last}\n[release]\nhousehold_numbers = "as they are"')
    truth = dict(zip(table["hid"].to_pylist(), table["tenure"].to_pylist(), strict=True))
    made = run(planned(tmp_path / "w", own, as_is, table=table), tmp_path / "out", release_key=KEY)
    single = math.exp(2) / (math.exp(2) + 2)
    assert recovered(made.frame(), truth) == pytest.approx(single, abs=5 * math.sqrt(single * (1 - single) / 1500))
    section = PLAN[PLAN.index("[unit]") : PLAN.index("[[blocks]]")]
    memberwise = planned(tmp_path / "v", own, as_is, (section, ""), table=table)
    with pytest.warns(UserWarning, match="all members have the same value"):
        other = run(memberwise, tmp_path / "apart", release_key=KEY)
    assert recovered(other.frame(), truth) > 0.97
    # The defect planted: member-wise draws under a law that says they are the household's.
    pq.write_table(pq.read_table(other.data_path), made.data_path)
    rehash(made.path)
    found = pr.verify(made.path, raise_if_failed=False)
    assert found.verdict == "failed"
    assert any("show several values of a variable that is drawn once" in text for text in found.problems)


def test_forged_units_do_not_verify(made, tmp_path):
    release, _ = made
    for number, (name, change, words) in enumerate(
        (
            ("certificate.json", lambda d: d["units"]["household"]["levels"][-1].update(epsilon=5.0), "does not agree"),
            ("certificate.json", lambda d: d.pop("units"), "does not agree"),
            ("mechanism.json", lambda d: d["blocks"][2].update(unit="household"), "show several values"),
            (
                "mechanism.json",
                lambda d: d["units"].update(largest_household=2),
                "more records than the mechanism says",
            ),
            ("mechanism.json", lambda d: d["units"].update(largest=2), "malformed"),
        )
    ):
        root = tmp_path / str(number)
        shutil.copytree(release.path, root)
        edit(root / name, change)
        if name == "mechanism.json" and words != "malformed":
            _recertified(root)
        rehash(root)
        with pytest.raises(ReleaseError, match=words):
            pr.verify(root)


def _recertified(root):
    """Make the certificate agree with the forged law, so that the data alone can tell."""
    book = json.loads((root / "codebook.json").read_text("utf-8"))
    law = Mechanism.from_dict(json.loads((root / "mechanism.json").read_text("utf-8")), pr.Codebook.from_dict(book))
    stated = json.loads((root / "certificate.json").read_text("utf-8"))

    claims, facts = claims_from_dict(stated)

    (root / "certificate.json").write_bytes(canonical_json.dump(recertify(law, claims, facts).to_dict()))


def weak(name: str, epsilon: float) -> tuple[str, str]:
    own = f"privacy = {{model = 'differential', epsilon = {epsilon}}}"
    return f'variables = ["{name}"]', f'variables = ["{name}"]\n{own}'


def test_large_households_are_no_impossible_margins(tmp_path):
    """Twenty households of a hundred draw twenty times: records alone would look as good as impossible."""
    table = survey(20, size=100, seed=5)
    large = ("largest_household = 6", "largest_household = 100")
    own = [weak(name, 0.1) for name in ("region", "tenure", "sex")]
    made = run(planned(tmp_path / "w", large, *own, table=table), tmp_path / "out", release_key=KEY)
    assert pr.verify(made.path).verdict == "verified"
    counts = np.bincount(pc.index_in(made.frame()["region"].cast(pa.string()), pa.array(list("abcd"))).to_numpy())
    assert impossible([Table("region", (made.mechanism["region"].matrix,), counts)]) == ["region"]


# -- what takes draws as independent ----------------------------------------------------------------------------------


def test_estimates_and_risks_warn_and_joint_models_are_refused(made):
    release, _ = made
    frame, law = release.frame(), release.mechanism
    frame = frame.append_column("pay", pa.array(range(frame.num_rows)))
    asked = {
        "table": lambda: estimate.table(frame, ["region", "sex"], law),
        "mean": lambda: estimate.proportions(frame, "tenure", law),
        "total": lambda: estimate.total(frame, "pay", law, by="region"),
        "regression": lambda: estimate.regression("pay ~ tenure", frame, law, "linear"),
        "planning": lambda: estimate.expected_precision(law, ["region"], 100),
        "risk": lambda: assess(
            survey(), ["region", "sex"], sampling_fraction=0.1, codebook=law.codebook, mechanism=law
        ),
    }
    for name, ask in asked.items():
        with pytest.warns(SharedDrawsWarning, match="All records of a household share one draw of: (region|tenure)"):
            assert ask() is not None, name
    assert estimate.proportions(frame, "sex", law).value.sum() == pytest.approx(1.0)  # drawn for each record
    with pytest.raises(EstimationError, match="a joint model takes draws as independent"):
        pr.complete(release, copies=2)


def test_clusters_that_hold_households_give_the_error_of_shared_draws(made):
    """200 releases with the household as primary sampling unit: no warning, and the error of the estimates."""
    release, of_household = made[0], SurveyDesign(psu="hid")
    assert estimate.proportions(release.frame(), "tenure", release.mechanism, design=of_household).value.shape == (3,)
    rng, law_of_region = np.random.default_rng(8), randomised_response(2, 1.0)
    law = Mechanism([Block(("region",), law_of_region, unit="household")], units=HOUSE)
    sizes, stay, found, errors = rng.integers(1, 7, 300), law_of_region.array[0, 0], [], []
    house = np.repeat(np.arange(300), sizes)
    for _ in range(200):
        true = rng.random(300) < 0.3
        drawn = np.where(rng.random(300) < stay, true, ~true).astype(np.int8)[house]
        table = pa.table({"hid": house, "region": pa.DictionaryArray.from_arrays(drawn, ["a", "b"])})
        shares = estimate.proportions(table, "region", law, design=of_household)
        found.append(shares.value[0])
        errors.append(shares.standard_error[0])
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.2)  # ± 5 % at 200 releases
    with pytest.raises(EstimationError, match="is not divided into sampling and perturbation"):
        shares.standard_error_of("perturbation")
    half = table.append_column("half", pa.array(np.arange(len(house)) % 2))
    with pytest.warns(SharedDrawsWarning):  # these units divide households
        estimate.proportions(half, "region", law, design=SurveyDesign(psu="half", lonely="adjust"))


def test_an_explanation_has_the_levels_of_the_units_and_a_search_keeps_their_budget(tmp_path):
    plan = planned(tmp_path / "w", ("[unit]", "[unit]\nepsilon = 30.0"))
    told = str(explain(plan, figures_of(plan)))  # its risks know who draws together
    assert "A household with up to 6 records, all that it has in them together" in told
    assert "members add up" not in told
    assert ways(mechanism_of(plan, design_blocks(plan))) == ({}, "")  # no other way keeps the household's level
    assert "Of little use" not in told  # the worth of shared values is not known, which is another thing
    half = scaled(plan, 2.0)
    assert half.unit is not None
    assert half.unit.epsilon == 15.0  # both budgets have one factor
    found = tune_plan(half, "correct matches <= 1000000")  # region is a key, and drawn once for each household
    assert not found.needed


def test_a_level_is_found_where_no_key_is_the_household_s_and_is_that_of_the_plan_without_units(tmp_path):
    """Keys are drawn for each record, so the search is about them alone."""
    role = ('name = "region"\nrole = "key"', 'name = "region"\nrole = "sensitive"')
    section = PLAN[PLAN.index("[unit]") : PLAN.index("[[blocks]]")]
    table, limit = survey(12, size=3), "household_risk <= 0.15"
    own = [weak(name, 2.0) for name in ("region", "tenure", "sex")]
    found = tune_plan(planned(tmp_path / "w", role, *own, table=table), limit, tolerance=0.5)
    plain = tune_plan(planned(tmp_path / "v", role, *own, (section, ""), table=table), limit, tolerance=0.5)
    assert found.level == plain.level
    assert [block.unit for block in found.mechanism.blocks] == ["household", "household", "record"]
    shared = planned(tmp_path / "u", *own, table=table)  # region is a key now
    assert tune_plan(shared, "correct matches <= 6", tolerance=0.5, draws=2).needed
    assert tune_plan(shared, "household_risk <= 0.8", tolerance=0.9).needed


def test_the_workbench_keeps_the_units_of_a_plan(tmp_path):
    rule = ("[unit]", '[unit]\ndiffering = "most frequent"')
    plan = planned(tmp_path / "w", rule, *(weak(name, 1.0) for name in ("region", "tenure", "sex")))
    (tmp_path / "made").mkdir()
    opened = open_plan(tmp_path / "w" / "plan.toml", tmp_path / "made")
    assert pr.load_plan(documents.write(opened, tmp_path / "made")).unit == plan.unit


def test_a_household_variable_is_no_function_that_a_number_reveals(tmp_path):
    """A number of the file tells a region only to who has a list of the numbers."""
    as_is = ("[unit]", '[release]\nhousehold_numbers = "as they are"\n[unit]')
    assert pr.findings(planned(tmp_path / "w", as_is, table=survey(40, size=6))).found == ()


def test_a_level_of_the_file_is_not_stated(made):

    law = made[0].mechanism
    assert {"code": "shared_household", "variables": ["region", "tenure"]} in failing(law, pr.certify(law).facts, ())


def test_standard_errors_of_the_page_count_households():
    """200 releases of households of one to six: the page's error is that of the estimates, the records' is not."""

    rng, law_of_region = np.random.default_rng(3), randomised_response(2, 1.0)
    book = Codebook((Variable("hid", "household", type="int64"), Variable("region", "key", ("a", "b"))))
    law = Mechanism([Block("region", law_of_region, unit="household")], book, units=HOUSE)
    sizes, stay, found, errors = rng.integers(1, 7, 400), law_of_region.array[0, 0], [], []
    for _ in range(200):
        true = rng.random(400) < 0.3
        drawn = np.where(rng.random(400) < stay, true, ~true).astype(int)
        counts = np.bincount(drawn, weights=sizes, minlength=2).astype(np.int64)
        houses = np.stack(
            [np.bincount(drawn, minlength=2), np.bincount(drawn, weights=sizes**2, minlength=2).astype(int)]
        )
        summary = Summary(int(sizes.sum()), (counts,), {"region": counts}, (), np.zeros(()), households={0: houses})
        view = page_values(law, summary).blocks[0].corrected
        found.append(view.value[0])
        errors.append(view.standard_error[0])
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.15)  # ± 5 % at 200 releases


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_example_of_the_page_prints_what_it_says():
    page = (ROOT / "docs" / "households.md").read_text("utf-8")
    held: dict[str, Any] = {}
    short = page.replace("copies=5", "copies=2, classes=2, sweeps=20")  # every household has one completed region
    assert run_examples(short, "households.md", held) == 4
    frames = held["copies"].frames
    assert [(frame["hid"].is_unique, len(frame)) for frame in frames] == [(True, 500)] * 2


def test_the_sections_of_the_page_are_accepted():
    page = (ROOT / "docs" / "households.md").read_text("utf-8")
    found = [tomllib.loads(text)["unit"] for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    assert [unit_from(section, None, "page")[1] for section in found] == [[], [], [], [], [], [], [], []]


def test_statistics_by_group_and_regressions_have_the_error_of_shared_draws_too():
    """50 releases: by household, errors of a mean and a slope are those over releases; by record, too small."""
    rng, law_of_region = np.random.default_rng(11), randomised_response(2, 1.5)
    law = Mechanism([Block(("region",), law_of_region, unit="household")], units=HOUSE)
    house = np.repeat(np.arange(150), 4)
    found, errors = [], []
    for _ in range(50):
        true = rng.random(150) < 0.5
        drawn = np.where(rng.random(150) < law_of_region.array[0, 0], true, ~true).astype(np.int8)[house]
        answer = true[house] + rng.normal(size=150)[house] + rng.normal(size=house.size)
        region = pa.DictionaryArray.from_arrays(drawn, ["a", "b"])
        table = pa.table({"hid": house, "region": region, "answer": answer})
        fit = estimate.regression("answer ~ C(region)", table, law, "linear", design=SurveyDesign(psu="hid"))
        mean = estimate.mean(table, "answer", law, by="region", design=SurveyDesign(psu="hid"))
        found.append([fit.value[1], mean.value[1]])
        errors.append([fit.standard_error[1], mean.standard_error[1]])
    assert np.median(errors, axis=0) == pytest.approx(np.std(found, axis=0), rel=0.35)  # ± 10 % at 50 releases
    with pytest.raises(EstimationError, match="is not divided into sampling and perturbation"):
        mean.standard_error_of("perturbation")
    with pytest.raises(EstimationError, match="is not divided into sampling and perturbation"):
        fit.standard_error_of("perturbation")
    with pytest.warns(SharedDrawsWarning):
        alone = estimate.mean(table, "answer", law, by="region")
    assert alone.standard_error[1] < 0.75 * mean.standard_error[1]
