"""A split of which one random member of each household shows a subset: draws, level, estimates, attacks, refusals."""

import itertools
import json
import math
import re
import shutil
import subprocess
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand import Block, Mechanism, Split, Units, estimate, randomised_response
from postrand.certification.units import unit_epsilon
from postrand.codebook import Codebook, Variable
from postrand.codebook.not_released import NOT_RELEASED
from postrand.designers import split_design
from postrand.engines import LocalEngine
from postrand.engines.split_records import SplitDraws
from postrand.engines.summary import check_margins, summarise
from postrand.errors import (
    DataError,
    DesignError,
    EstimationError,
    ReleaseError,
    SpecificationError,
    UsageError,
)
from postrand.estimate.split_members import household_sizes
from postrand.mechanism.matrix_storage import UNIT
from postrand.report.split_values import split_view
from postrand.report.table_worth import EQUAL, table_worth
from postrand.testing import engines as testing
from postrand.workflow.design_split import design_split
from postrand.workflow.explanation import explain
from postrand.workflow.pipeline import run
from postrand.workflow.plan_figures import figures_of
from tests.conftest import ROOT
from tests.release_case import edit, rehash
from tests.sampling_reference import draw_one
from tests.test_units import aes, expanded, recovered
from tests.unit_case import KEY, PLAN, planned, survey

BLOCKS = PLAN[PLAN.index("[[blocks]]") :]
SPLIT = '[split]\nunit = "household"\nvariables = ["region", "tenure", "sex"]\n'
MEMBERS = (BLOCKS, SPLIT)
HOUSE = Units(household="hid", largest_household=6)
BOOK = Codebook(
    (
        Variable("hid", "household", type="int64", missing="keep"),
        Variable("region", "key", ("a", "b", "c")),
        Variable("sex", "key", ("F", "M")),
        Variable("town", "other", ("x", "y")),
        Variable("pay", "other", type="double"),
    )
)


def law_of(epsilon: float = 3.0) -> Mechanism:
    blocks = [
        Block(names, randomised_response(size, epsilon), unit="household")
        for names, size in ((("region", "sex"), 6), (("sex",), 2))
    ]
    return Mechanism([], BOOK, split=Split.of([0.6, 0.4], blocks), units=HOUSE)


def people(households: int, rng: np.random.Generator) -> pa.Table:
    """Return households of 1 to 6; in larger ones more are men, and pay is higher."""
    sizes = rng.integers(1, 7, households)
    of = np.repeat(np.arange(households), sizes)
    sex = (rng.random(len(of)) < 0.1 + 0.12 * sizes[of]).astype(int)
    columns = {
        "region": np.array(list("abc"))[rng.integers(0, 3, households)[of]],
        "sex": np.array(["F", "M"])[sex],
        "town": np.array(["x", "y"])[rng.integers(0, 2, len(of))],
        "pay": sizes[of] + 2.0 * sex + rng.normal(size=households)[of] + rng.normal(size=len(of)),
    }
    return pa.table({"hid": of, **columns})


# -- draws ------------------------------------------------------------------------------------------------------------


def test_the_member_the_subset_and_the_cell_are_drawn_as_by_hand():
    """In plain Python from the ciphers' formulas, with records that have no number; in a frame as in a file."""
    table, law = testing.housed(60), testing.members()
    content = LocalEngine().content(testing.Memory(table), law, testing.KEY)
    draw = expanded(b"draw " + law.digest().encode() + b" content " + content.tag())
    choose = expanded(b"members of unit household")
    records, chosen = table.to_pylist(), dict[object, tuple]()
    for row, record in enumerate(records):
        house = ("alone", row) if record["house"] is None else record["house"]
        chosen[house] = min(chosen.get(house, (2**64,)), (aes(choose, row, 0)[0], row))
    shows, codes = {row for _, row in chosen.values()}, {"age": (10, 20, 30, None), "ill": (False, True)}
    assert law.split is not None
    for row, record in enumerate(records):
        words = [w for slot in range(2) for w in aes(draw, row, slot)]
        subset = law.split.subsets[0 if (words[1] >> 11) < law.split.subsets[0].weight else 1]
        true = 0
        for name in subset.variables:
            true = true * len(codes[name]) + codes[name].index(record[name])
        cell = draw_one(subset.matrix.weights.tolist(), true, words[2])
        found: dict[str, str | None] = dict.fromkeys(codes, NOT_RELEASED)
        for name in reversed(subset.variables) if row in shows else ():
            cell, code = divmod(cell, len(codes[name]))
            found[name] = None if codes[name][code] is None else str(codes[name][code])
        record |= found
    wanted = [{name: record[name] for name in codes} for record in records]
    made = testing.perturbed(LocalEngine(threads=1, batch_rows=7), testing.Memory(table), law, shuffle=False)
    assert made.select(list(codes)).to_pylist() == wanted
    assert pr.perturb(table, law, testing.KEY).select(list(codes)).to_pylist() == wanted


def test_each_member_is_chosen_equally_often_and_moving_one_draws_all_anew():
    table, law = people(120, np.random.default_rng(4)), law_of()
    made = [pr.perturb(table, law, pr.ReleaseKey.from_seed(seed)) for seed in range(60)]
    shows = np.mean([[v != NOT_RELEASED for v in one["sex"].to_pylist()] for one in made], axis=0)
    k = np.bincount(table["hid"].to_numpy())[table["hid"].to_numpy()]
    z = (shows - 1 / k)[k > 1] / np.sqrt((1 / k - 1 / k**2)[k > 1] / 60)
    assert np.abs(z).max() < 5.5  # of 400 shares: by chance once in 60,000
    assert 0.8 < z.std() < 1.2
    moved = table.set_column(0, "hid", pa.array([119, *table["hid"].to_pylist()[1:]]))
    one, two = (pr.perturb(t, law, KEY)["sex"].to_pylist() for t in (table, moved))
    alike = [a == b for a, b in zip(one[6:-6], two[6:-6], strict=True) if NOT_RELEASED not in (a, b)]
    assert np.mean(alike) < 0.95  # the same words would give all


# -- the level --------------------------------------------------------------------------------------------------------


def test_the_level_of_a_household_is_the_largest_ratio_of_its_releases():
    """By enumeration: two members, each pair of true states, each member and subset chosen, each released cell."""
    blocks = [Block(("a", "b"), randomised_response(4, 0.9), unit="household")]
    blocks.append(Block(("b",), randomised_response(2, 0.7), unit="household"))
    own = Block("c", randomised_response(2, 0.4))
    law = Mechanism([own], split=Split.of([0.25, 0.75], blocks), units=HOUSE)
    assert law.split is not None
    person = list(itertools.product(range(2), repeat=3))
    true = list(itertools.product(person, repeat=2))
    own_w = own.matrix.weights

    def releases(x):
        for who, subset, c in itertools.product(range(2), law.split.subsets, itertools.product(range(2), repeat=2)):
            a, b, _ = x[who]
            row = subset.matrix.weights[2 * a + b if len(subset.variables) == 2 else b]
            rest = math.prod(int(own_w[x[m][2], c[m]]) for m in range(2))
            for weight in row:
                yield Fraction(int(weight) * subset.weight * rest, 2 * UNIT**4)

    laws = [list(releases(x)) for x in true]
    assert all(sum(one) == 1 for one in laws)
    largest = max(p / q for one in laws for other in laws for p, q in zip(one, other, strict=True))
    level = unit_epsilon(law, "household", 2)
    assert 0 <= level - math.log(largest) < 1e-12
    assert level == pytest.approx(0.9 + 2 * 0.4)
    told = pr.certify(law).units["household"]
    assert told["member"] == ["a", "b"]
    assert [one["epsilon"] for one in told["levels"]] == pytest.approx([1.3, 1.7, 2.5, 3.3])


# -- a release --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    plan = planned(folder / "w", MEMBERS, ("[unit]", "[unit]\nepsilon = 3.0"))
    return run(plan, folder / "out", release_key=KEY), folder


def test_a_release_meets_the_budget_of_the_household_and_says_so(made):
    release, folder = made
    frame = release.frame().to_pandas()
    shown = (frame["sex"] != NOT_RELEASED) | (frame["region"] != NOT_RELEASED) | (frame["tenure"] != NOT_RELEASED)
    assert (shown.groupby(frame["hid"]).sum() == 1).all()
    assert pr.verify(release.path).verdict == "verified"
    assert pr.verify(release.path, file=folder / "w" / "s.parquet", release_key=KEY).verdict == "verified"
    levels = release.certificate["units"]["household"]["levels"]
    assert [level["records"] for level in levels] == [1, 2, 4, 6]
    assert all(2.999 < level["epsilon"] <= 3.0 for level in levels)
    assert "shown by one random member: region, tenure, sex" in " ".join(release.certificate_sentences)
    for name in ("report.html", "ddi.xml", "croissant.json", "README.txt", "certificate.json"):
        text = " ".join((release.path / name).read_text("utf-8").split())
        assert ("one_member" if name == "certificate.json" else "ne random member of each household") in text, name
    plan = pr.load_plan(folder / "w" / "plan.toml")
    assert "one random member of each household shows some" in str(explain(plan, figures_of(plan)))
    assert "one random member of each household" in str(design_split(plan))
    again = run(plan, folder / "duckdb", release_key=KEY, engine="duckdb")
    assert again.data_path.read_bytes() == release.data_path.read_bytes()
    view, summary = split_view(release.mechanism, summarise(release.data_path, release.mechanism)), release.frame()
    for found in view.tables:  # the page counts households as an analyst does
        asked = estimate.table(summary, found.variables, release.mechanism)
        np.testing.assert_allclose(found.value, asked.value, atol=1e-12)
        np.testing.assert_allclose(found.standard_error, asked.standard_error, atol=1e-12)


@pytest.mark.parametrize(
    ("unit", "record", "budget", "wanted"),
    [
        ("household", 4.0, 3.0, 3.0),
        ("household", 2.0, 3.0, 2.0),
        ("record", 4.0, 3.0, 0.5),
        ("record", 0.25, 3.0, 0.25),
    ],
)
def test_a_split_gets_what_both_budgets_leave(tmp_path, unit, record, budget, wanted):
    """A household of six pays its own split once, and one of records six times; a prior six times anyway."""
    own = SPLIT.replace("household", unit).replace('"region", "tenure", "sex"', '"sex", "born"')
    born = '[[variables]]\nname = "born"\nrole = "other"\ncategories = ["F", "M"]\n[[variables]]\nname = "sex"'
    lines = ('household_variables = ["region", "tenure"]\n', f"epsilon = {budget}\n")
    rest = [("epsilon = 4.0", f"epsilon = {record}"), lines, ('[[variables]]\nname = "sex"', born)]
    found = design_split(planned(tmp_path / "w", (BLOCKS, own), *rest))
    assert found is not None
    assert found.split.epsilon == pytest.approx(wanted, rel=1e-9)
    assert found.split.unit == unit
    table = survey(20)
    noisy = planned(
        tmp_path / "v",
        (BLOCKS, f'{own}prior = "dp"\nprior_epsilon = {budget / 5}\n'),
        ("epsilon = 4.0", "epsilon = 40.0"),
        *rest[1:],
        table=table.append_column("born", table["sex"]),
    )
    with pytest.raises(DesignError, match="nothing is left"):
        design_split(noisy)


def test_a_household_variable_of_the_split_must_agree(tmp_path):
    table = survey(50, size=3)
    at = table.schema.get_field_index("region")
    values = ["b" if table["region"][0].as_py() == "a" else "a", *table["region"].to_pylist()[1:]]
    with pytest.raises(DataError, match="region: records of one household differ"):
        run(planned(tmp_path / "w", MEMBERS, table=table.set_column(at, "region", pa.array(values))), tmp_path / "o")


REFUSED = {
    "no units": ([(PLAN[PLAN.index("[unit]") : PLAN.index("[[blocks]]")], "")], "no column tells who lives together"),
    "persons": ([('unit = "household"', 'unit = "person"')], "name the column of persons as 'household'"),
    "completed files": ([("[unit]", "[release]\ncompleted = 2\n[unit]")], "completed files are not made"),
    "a level of the file": ([("epsilon = 4.0", "file_epsilon = 1.0\ndelta = 1e-6")], "the file has no level"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_with_it_is_refused(tmp_path, case):
    changes, words = REFUSED[case]
    with pytest.raises(SpecificationError, match=words):
        planned(tmp_path / "w", MEMBERS, *changes)


def test_of_a_panel_one_random_record_of_each_person_is_shown(tmp_path):
    """Persons in the place of households: three waves of each, one shown, and the person spends the level once."""
    roles = [
        ('"hid"\nrole = "household"', '"hid"\nrole = "drop"'),
        ('"pid"\nrole = "drop"', '"pid"\nrole = "household"'),
    ]
    unit = PLAN[PLAN.index("[unit]") : PLAN.index("[[blocks]]")]
    persons = (unit, '[unit]\nhousehold = "pid"\nlargest_household = 3\n')
    table = survey(100, size=3)
    table = table.set_column(1, "pid", table["hid"])  # the three records are one person's, in three waves
    made = run(planned(tmp_path / "w", MEMBERS, persons, *roles, table=table), tmp_path / "o", release_key=KEY)
    frame = made.frame().to_pandas()
    shows = (frame[["region", "tenure", "sex"]].astype(str) != NOT_RELEASED).any(axis=1)
    assert shows.groupby(frame["pid"]).sum().tolist() == [1] * 100
    levels = made.certificate["units"]["household"]["levels"]
    assert {level["epsilon"] for level in levels} == {made.mechanism.split.epsilon}
    assert levels[-1]["records"] == 3
    assert pr.verify(made.path).verdict == "verified"


def test_a_mechanism_that_mixes_is_refused():
    one, other = Block("a", randomised_response(2, 1.0), unit="household"), Block("b", randomised_response(2, 1.0))
    with pytest.raises(SpecificationError, match="some subsets are shown by each record"):
        Split.of([0.5, 0.5], [one, other])
    with pytest.raises(SpecificationError, match="one record of a person"):
        Split.of([1.0], [Block("a", randomised_response(2, 1.0), unit="person")])
    with pytest.raises(SpecificationError, match="no column tells the households"):
        Mechanism([], split=Split.of([1.0], [one]))


# -- estimates --------------------------------------------------------------------------------------------------------


@cache
def simulated() -> dict[str, np.ndarray]:
    """Return values and standard errors of 60 surveys and releases, (60, 2, cells) by question."""
    rng, law = np.random.default_rng(1), law_of()
    found: dict[str, list[Any]] = {}
    for seed in range(60):
        out = pr.perturb(people(100, rng), law, pr.ReleaseKey.from_seed(seed))
        asked = {
            "sex": estimate.table(out, ["sex"], law),
            "pay": estimate.mean(out, "pay", law, by="sex"),
        }
        for name, one in asked.items():
            found.setdefault(name, []).append([np.ravel(one.value), np.ravel(one.standard_error)])
    return {name: np.array(values) for name, values in found.items()}


K = np.arange(1, 7)
MEN = 0.1 + 0.12 * K
MALE, PAY = float((K * MEN).sum() / K.sum()), [float((K * K * p).sum() / (K * p).sum()) for p in (1 - MEN, MEN)]
TRUE = {
    "sex": [1 - MALE, MALE],
    "pay": [PAY[0], PAY[1] + 2],
}


@pytest.mark.parametrize("name", TRUE)
def test_estimates_weigh_the_member_by_its_household_and_have_the_error_of_clusters(name):
    """Persons of large households are fewer among those shown; pay has a part that the household shares."""
    value, error = simulated()[name].transpose(1, 0, 2)
    z = (value.mean(axis=0) - TRUE[name]) / (value.std(axis=0) / 60**0.5)
    assert np.abs(z).max() < 4
    assert error.mean(axis=0) == pytest.approx(value.std(axis=0), rel=0.35)  # ± 9 % at 60 releases


def test_a_regression_weighs_members_as_a_mean_of_groups_does():
    """A regression on one factor is the means of its groups, and has their errors."""
    law = law_of()
    out = pr.perturb(people(100, np.random.default_rng(3)), law, KEY)
    mean, fit = estimate.mean(out, "pay", law, by="sex"), estimate.regression("pay ~ C(sex)", out, law, "linear")
    assert fit.value == pytest.approx([mean.value[0], mean.value[1] - mean.value[0]], rel=1e-9)
    assert fit.standard_error[0] == pytest.approx(mean.standard_error[0], rel=0.1)  # a jackknife there


def test_members_counted_once_are_wrong():
    """The defect planted: men live in larger households, so that of those shown .52 are men, and of all .62."""
    rng, law = np.random.default_rng(1), law_of()
    plain = Mechanism([], BOOK, split=Split(tuple(_of_records(s) for s in law.split.subsets)))
    found = []
    for seed in range(20):
        out = pr.perturb(people(150, rng), law, pr.ReleaseKey.from_seed(seed)).to_pandas()
        shows = (out["sex"] != NOT_RELEASED) | (out["region"] != NOT_RELEASED)
        found.append(estimate.table(out[shows], ["sex"], plain).value[1])
    assert np.mean(found) == pytest.approx(float(MEN.mean()), abs=0.04)
    assert MALE - float(MEN.mean()) > 0.09


def _of_records(subset):
    block = Block(subset.variables, subset.matrix)
    return type(subset)(subset.weight, block)


def test_parts_of_households_likelihoods_and_planning_are_refused(made):
    release, _ = made
    frame, law = release.frame(), release.mechanism
    with pytest.raises(DataError, match="these are not all records of the release"):
        estimate.table(frame.slice(0, 700), ["sex"], law)
    with pytest.raises(DataError, match="hid"):
        estimate.table(frame.drop_columns(["hid"]), ["sex"], law)
    with pytest.raises(EstimationError, match="takes all records as alike"):
        estimate.maximum_likelihood(frame, ["sex"], law)
    with pytest.raises(EstimationError, match="the sizes of households are not known"):
        estimate.expected_precision(law, ["sex"], 100)
    with pytest.raises(UsageError, match="the households do not have as many records"):
        estimate.expected_precision(law, ["sex"], 100, households={1: 3})
    paid = frame.append_column("pay", pa.array(range(frame.num_rows)))
    with pytest.raises(EstimationError, match="takes all records as alike"):
        estimate.regression("pay ~ C(sex)", paid, law, "linear", method="likelihood")
    with pytest.raises(EstimationError, match="not divided into sampling and perturbation"):
        estimate.table(frame, ["sex"], law).standard_error_of("perturbation")
    with pytest.raises(EstimationError, match="a joint model does not know this law"):
        pr.complete(release, copies=2)
    with pytest.raises(UsageError, match="this frame is a part"):
        pr.content_of([frame], law, KEY, "pid")


def test_the_error_that_is_expected_of_a_table_is_that_of_releases():
    """Regions of households: all members are alike, which costs nothing, for one of them is shown."""
    law, rng = law_of(), np.random.default_rng(4)
    survey = people(4000, rng)
    found = estimate.table(pr.perturb(survey, law, KEY), ["region", "sex"], law)
    sizes = household_sizes(survey["hid"], "hid")
    n = survey.num_rows
    expected = estimate.expected_precision(
        law, ["region", "sex"], n, found.value.clip(0) / found.value.clip(0).sum(), sizes
    )
    assert found.standard_error.ravel() == pytest.approx(expected.standard_error.ravel(), rel=0.06)
    few = {k: 100 / 6 for k in range(1, 7)}  # of households of 1 to 6, values depending on the size
    plan = estimate.expected_precision(law, ["sex"], 350, TRUE["sex"], few)
    assert plan.standard_error == pytest.approx(simulated()["sex"][:, 0].std(axis=0), rel=0.35)
    ((name, told),) = [(one.name, one) for one in table_worth(law, [("sex",)], n, EQUAL, sizes)]
    unknown = table_worth(law, [("sex",)], n, EQUAL)[0]
    assert (name, unknown.is_shared, told.is_shared) == ("sex", True, False)
    assert 0.02 * n < told.effective_records < 0.4 * n


@pytest.mark.r
def test_r_weighs_members_as_python_does(tmp_path):
    law = law_of()
    out = pr.perturb(people(200, np.random.default_rng(2)), law, KEY)
    alone = out.set_column(0, "hid", pa.array([None, *out["hid"].to_pylist()[1:]]))
    first = out["hid"].to_pylist().count(0)
    out = (out if first > 1 else alone).to_pandas()
    out.to_csv(tmp_path / "data.csv", index=False)
    for name, text in estimate.r_files(law).items():
        (tmp_path / name).write_text(text, "utf-8")
    script = """
        source("postrand.R", encoding = "UTF-8")
        out <- postrand_table(read.csv("data.csv"), c("town", "sex"), postrand_read("."))
        writeLines(sprintf("%.17g %.17g", out$estimate, out$standard_error), "out.txt")
    """
    done = subprocess.run(["Rscript", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = estimate.table(out, ["town", "sex"], law)
    value, error = np.loadtxt(tmp_path / "out.txt").T
    np.testing.assert_allclose(value, found.value.ravel(), atol=1e-12)
    np.testing.assert_allclose(error, found.standard_error.ravel(), atol=1e-12)


# -- attacks and forgeries --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*functions of hid", "ignore:.*the members")
def test_a_majority_over_members_finds_no_more_than_one_draw(tmp_path):
    """Households of six at ε = 2: one member shows tenure; a split of records would show it six times."""
    table = survey(1500, size=6)
    truth = dict(zip(table["hid"].to_pylist(), table["tenure"].to_pylist(), strict=True))
    own = '[split]\nunit = "household"\nvariables = ["region", "tenure"]\nworkload = [["tenure"], ["region"]]\n'
    own += 'epsilon = 2.0\n[[blocks]]\nvariables = ["sex"]\nprivacy = {model = "differential", epsilon = 1.0}\n'
    own += '[release]\nhousehold_numbers = "as they are"\n'
    made = run(planned(tmp_path / "w", (BLOCKS, own), table=table), tmp_path / "out", release_key=KEY)
    assert made.certificate["units"]["household"]["levels"][-1]["epsilon"] <= 2.0 + 6 * 1.0
    frame = made.frame().filter(pa.compute.not_equal(made.frame()["tenure"].cast("string"), NOT_RELEASED))
    best = math.exp(2) / (math.exp(2) + 2)
    assert recovered(frame, truth) <= best + 5 * math.sqrt(best * (1 - best) / frame.num_rows)
    section = PLAN[PLAN.index("[unit]") : PLAN.index("[[blocks]]")]
    apart = planned(tmp_path / "v", (BLOCKS, own.replace('unit = "household"\n', "")), (section, ""), table=table)
    with pytest.warns(UserWarning, match="all members have the same value"):
        other = run(apart, tmp_path / "apart", release_key=KEY)
    frame = other.frame().filter(pa.compute.not_equal(other.frame()["tenure"].cast("string"), NOT_RELEASED))
    assert recovered(frame, truth) > best + 0.04
    # The defect planted: every member shows something, under a law that says one does.
    pq.write_table(other.frame().cast(pq.read_schema(made.data_path)), made.data_path)
    rehash(made.path)
    found = pr.verify(made.path, raise_if_failed=False)
    assert found.verdict == "failed"
    assert any("exactly one member that shows a subset" in text for text in found.problems)


def test_members_who_are_chosen_by_what_they_say_are_caught(tmp_path, monkeypatch):
    """The defect planted: of each household a woman shows, if there is one; every table of the draws is right."""
    table, law = people(400, np.random.default_rng(6)), law_of()
    town = np.array(table["town"].to_pylist())
    order = np.lexsort((town == "y", table["hid"].to_numpy()))
    first = order[np.r_[True, np.diff(table["hid"].to_numpy()[order]) > 0]]
    real = SplitDraws.of

    def of(mechanism, cells, members=None):
        return real(mechanism, cells, np.sort(first).astype(np.uint64))

    def released(folder):
        folder.mkdir()
        path = folder / "data.parquet"
        made = pr.perturb(table, law, KEY)
        with pr.formats.open_writer(path, made.schema) as writer:
            for batch in made.to_batches():
                writer.write(batch)
        return summarise(path, law)

    assert check_margins(released(tmp_path / "right"), law) > 1
    monkeypatch.setattr(SplitDraws, "of", of)
    with pytest.raises(DataError, match=r"'town': the members who show the split were almost certainly not chosen"):
        check_margins(released(tmp_path / "wrong"), law)


def test_forged_members_do_not_verify(made, tmp_path):
    release, _ = made
    changes = [
        ("certificate.json", lambda d: d["units"]["household"]["levels"][-1].update(epsilon=1.0), "does not agree"),
        ("certificate.json", lambda d: d["units"]["household"].pop("member"), "does not agree"),
        ("mechanism.json", lambda d: [s.pop("unit") for s in d["split"]["subsets"]], "does not agree|no subset"),
        ("mechanism.json", lambda d: d["split"]["subsets"][0].update(unit="person"), "person|differ"),
    ]
    for number, (name, change, words) in enumerate(changes):
        root = tmp_path / str(number)
        shutil.copytree(release.path, root)
        edit(root / name, change)
        rehash(root)
        with pytest.raises(ReleaseError, match=words):
            pr.verify(root)
    assert (
        json.loads((release.path / "mechanism.json").read_text("utf-8"))["split"]["subsets"][0]["unit"] == "household"
    )


def test_the_worth_in_the_guide_is_that_of_the_designs():
    page = (ROOT / "docs" / "households.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    sizes = {"region": 4, "tenure": 3, "sex": 2, "works": 3}
    book = Codebook(tuple(Variable(n, "other", tuple(map(str, range(s)))) for n, s in sizes.items()))
    counted = K.sum() ** 2 / (K**2).sum() / K.sum()  # members per record, less what unequal weights cost
    for epsilon, each, one in rows:
        worth = [1000 / split_design(book, epsilon=e).value for e in (float(epsilon) / 6, float(epsilon))]
        assert [worth[0], worth[1] * counted] == pytest.approx([float(each), float(one)], rel=0.02)


def test_no_page_compares_it_with_what_costs_a_household_many_times_as_much(tmp_path):
    """Every member's record by itself at the same ε of a record is no other way to the guarantee of a household."""
    plan = planned(tmp_path, MEMBERS, table=survey(400))
    made = run(plan, tmp_path / "release", release_key=KEY, dossier=tmp_path / "internal")
    report, dossier = made.path / "report.html", tmp_path / "internal" / "dossier.html"
    public, internal = report.read_text("utf-8"), dossier.read_text("utf-8")
    assert "What the tables of two variables are worth" in public
    assert "by itself, with an" not in public
    assert "Each variable by itself" not in public
    for words in ("what the same guarantee buys", "privacy and utility", "designed with the tables of the file"):
        assert words not in internal, words
    assert "name the column of household numbers" not in internal
    assert "one random member of each household shows the keys" in internal
    blocks = [Block((name,), randomised_response(k, 2.0), unit="household") for name, k in (("region", 3), ("sex", 2))]
    apart = Mechanism([], BOOK, split=Split.of([0.6, 0.4], blocks), units=HOUSE)
    released = pr.perturb(people(50, np.random.default_rng(1)), apart, release_key=KEY)
    with pytest.raises(EstimationError, match="here one member of each household does, so there is no joint model"):
        estimate.table(released, ["region", "sex"], apart)
