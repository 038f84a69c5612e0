"""A rule across members, one of each household has a category: the draw that keeps it, its level, what is refused."""

import itertools
import math
import shutil
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand import Block, Mechanism, Units, estimate, randomised_response
from postrand.certification.units import unit_epsilon
from postrand.codebook import Codebook, Variable
from postrand.codebook.survey_design import SurveyDesign
from postrand.engines import LocalEngine
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.spark import SparkEngine
from postrand.errors import DataError, ReleaseError, SpecificationError, UsageError
from postrand.mechanism.block import all_cells
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.one_member import OneMember
from postrand.testing import engines as testing
from postrand.workflow.pipeline import run
from tests.release_case import edit, rehash
from tests.test_units import aes, expanded
from tests.unit_case import KEY, planned, survey

SIZES = (1, 2, 3, 4, 5, 6)
BOOK = Codebook(
    (
        Variable("hid", "household", type="int64", missing="keep"),
        Variable("head", "key", ("no", "yes")),
        Variable("size", "other", SIZES, type="int64"),
        Variable("sex", "other", ("F", "M")),
    )
)
SPARK = pytest.param(SparkEngine(parts=3), id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
LAST = '[[blocks]]\nvariables = ["sex"]'
ONE = '[[blocks]]\nvariables = ["head"]\ngiven = ["size"]\none_member = "yes"\n'
ONE += 'privacy = {model = "differential", epsilon = 1.5}\n'
MORE = '[[variables]]\nname = "head"\nrole = "key"\ncategories = ["no", "yes"]\n'
MORE += '[[variables]]\nname = "size"\nrole = "other"\ntype = "int64"\ncategories = [1, 2, 3, 4, 5, 6]\n'
WITH = [('[[variables]]\nname = "sex"', f'{MORE}[[variables]]\nname = "sex"')]
WITH += [(LAST, f'{ONE}{LAST}\n[release]\nas_is = ["size"]\n')]


def law_of(epsilon: float = 1.5) -> Mechanism:
    cells = all_cells((2, 6))
    matrix = OneMember.of(cells, 0, 1, 1, SIZES).law(epsilon)
    block = Block(
        ("head", "size"), matrix, tuple(map(tuple, cells.tolist())), "public", ("size",), unit="household", one=1
    )
    return Mechanism([block], BOOK, units=Units("hid", 6))


def heads(households: int, size: int = 0, seed: int = 1) -> pa.Table:
    """Return the survey with one random head in each household, of whom 70 % are men, and its size."""
    table, rng = survey(households, size, seed), np.random.default_rng(seed)
    of = table["hid"].to_numpy() - 7000
    k = np.bincount(of)
    head = np.zeros(len(of), dtype=bool)
    head[np.r_[0, np.cumsum(k)[:-1]] + rng.integers(0, k)] = True
    sex = np.where(rng.random(len(of)) < np.where(head, 0.7, 0.4), "M", "F")
    table = table.set_column(table.schema.get_field_index("sex"), "sex", pa.array(sex))
    return table.append_column("head", pa.array(np.where(head, "yes", "no"))).append_column("size", pa.array(k[of]))


# -- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_matrix_is_the_law_of_a_record_and_the_level_that_of_the_household(k):
    """By enumeration of the choice among k members: marginal laws, and the largest ratio of two households."""
    law = law_of()
    block = law.blocks[0]
    found = OneMember.of_block(block, BOOK)
    stays = found.stays(block.matrix)[k]
    moves = Fraction(UNIT - stays, k - 1)
    joint = [[Fraction(stays) if i == j else moves for j in range(k)] for i in range(k)]  # rows: the true member
    assert all(sum(row) == UNIT for row in joint)
    at = {(bool(h), int(s)): n for n, (h, s) in enumerate(zip(found.has, found.sizes, strict=True))}
    weights = block.matrix.weights
    assert joint[0][0] == weights[at[True, k], at[True, k]]
    assert joint[0][1] == weights[at[False, k], at[True, k]]
    ratio = max(a / b for one, other in itertools.permutations(joint, 2) for a, b in zip(one, other, strict=True))
    wanted = max(
        max(stays_ / Fraction(UNIT - stays_, n - 1) for n, stays_ in found.stays(block.matrix).items() if n > 1), ratio
    )
    level = unit_epsilon(law, "household", k)
    assert 0 <= level - math.log(wanted) < 1e-12
    assert level <= 1.5
    assert ratio == pytest.approx(math.exp(1.5), rel=1e-12)


@pytest.mark.parametrize(
    "engine",
    [pytest.param(LocalEngine(threads=1, batch_rows=7), id="local"), pytest.param(DuckDBEngine(), id="duckdb"), SPARK],
)
def test_the_member_who_shows_it_is_drawn_as_by_hand(engine):
    """In plain Python from the ciphers' formulas; in a frame as in a file."""
    table, law = heads(40), law_of()
    table = table.select(["hid", "head", "size", "sex"])
    content = LocalEngine().content(testing.Memory(table), law, testing.KEY).tag()
    info = f"of unit household, one of block 0 {law.digest()} content ".encode() + content
    house, member = expanded(b"numbered " + info), expanded(b"alone " + info)
    stays = OneMember.of_block(law.blocks[0], BOOK).stays(law.blocks[0].matrix)
    records, members = table.to_pylist(), dict[int, list[int]]()
    for row, record in enumerate(records):
        members.setdefault(record["hid"], []).append(row)
    for hid, rows in members.items():
        (true,) = [row for row in rows if records[row]["head"] == "yes"]
        chosen = true
        if aes(house, hid, 0)[0] >> 11 >= stays[len(rows)]:
            chosen = min((aes(member, row, 0)[0], row) for row in rows if row != true)[1]
        for row in rows:
            records[row]["head"] = "yes" if row == chosen else "no"
    found = testing.perturbed(engine, testing.Memory(table), law, shuffle=False)
    assert found.to_pylist() == records
    assert pr.perturb(table, law, testing.KEY).to_pylist() == records


def test_the_true_one_stays_as_often_as_stated_and_the_others_are_alike():
    """An attacker who names the member who shows it is right with a_k: at ε = 1.5 of four, .60, and each other .13."""
    table, shown = heads(500, size=4), np.zeros(4)
    for seed in range(6):
        out = pr.perturb(table, law_of(), pr.ReleaseKey.from_seed(seed))
        before, after = (np.array(t["head"].to_pylist()).reshape(-1, 4) == "yes" for t in (table, out))
        assert (after.sum(axis=1) == 1).all()
        shown += np.bincount((after.argmax(axis=1) - before.argmax(axis=1)) % 4, minlength=4)
    share = math.exp(1.5) / (math.exp(1.5) + 3)
    wanted = 3000 * np.array([share, *[(1 - share) / 3] * 3])
    assert ((shown - wanted) ** 2 / wanted).sum() < 25  # chi-squared with 3 degrees: above with probability 1.5e-5


# -- a release --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    with pytest.warns(UserWarning, match="reveal true values of head, which is perturbed: size"):  # who lives alone is
        return run(planned(folder / "w", *WITH, table=heads(300)), folder / "out", release_key=KEY), folder


def test_a_release_has_one_in_each_household_and_verifies(made):
    release, folder = made
    frame = release.frame().to_pandas()
    assert (frame[frame["head"] == "yes"].groupby("hid").size() == 1).all()
    assert (frame["head"] == "yes").sum() == frame["hid"].nunique()
    assert pr.verify(release.path, file=folder / "w" / "s.parquet", release_key=KEY).verdict == "verified"
    levels = {one["records"]: one["epsilon"] for one in release.certificate["units"]["household"]["levels"]}
    sex = next(b["epsilon"] for b in release.certificate["blocks"] if b["variables"] == ["sex"])
    assert levels[6] - levels[1] == pytest.approx(5 * sex)  # the choice is counted once
    assert levels[1] <= 4.0
    assert release.mechanism["head"].provenance == "public"
    for name in ("README.txt", "ddi.xml", "report.html"):
        text = " ".join((release.path / name).read_text("utf-8").split())
        assert "xactly one record of each household has head = yes" in text, name


def test_a_release_with_two_in_a_household_or_another_law_does_not_verify(made, tmp_path):
    """The defect planted: each member is drawn apart, by the matrix that is right for one record."""
    release, _ = made
    table, rng = pq.read_table(release.data_path), np.random.default_rng(5)
    apart = rng.permutation(np.array(table["head"].to_pylist()))
    kind = table.schema.field("head").type
    forged = (
        pa.array(apart).cast(kind)
        if not pa.types.is_dictionary(kind)
        else pa.array(apart).dictionary_encode().cast(kind)
    )
    root = tmp_path / "apart"
    shutil.copytree(release.path, root)
    pq.write_table(table.set_column(table.schema.get_field_index("head"), table.schema.field("head"), forged),
                   root / release.data_path.name)  # fmt: skip
    rehash(root)
    with pytest.raises(ReleaseError, match="does not have exactly one member"):
        pr.verify(root)
    for name, change, words in (
        ("no rule", lambda b: b.pop("one"), "show several values|does not agree"),
        ("no code", lambda b: b.update(one=7), "every cell"),
        ("another", lambda b: b.update(one=0), "choice among"),
    ):
        root = tmp_path / name
        shutil.copytree(release.path, root)

        def changed(data: dict[str, Any], change: Callable[[Any], object] = change) -> None:
            change(next(block for block in data["blocks"] if "one" in block))

        edit(root / "mechanism.json", changed)
        rehash(root)
        with pytest.raises(ReleaseError, match=words):
            pr.verify(root)


@pytest.mark.filterwarnings("ignore::postrand.risk.reveals.UnperturbedWarning")  # the changed size is one of its kind
def test_a_file_that_breaks_the_rule_is_refused_and_nothing_is_written(tmp_path):
    """No message tells which household."""
    for number, (name, at, value) in enumerate((("head", 0, None), ("size", 0, 1))):
        table = heads(60, size=3)
        values = table[name].to_pylist()
        values[at] = ("no" if values[at] == "yes" else "yes") if value is None else value
        wrong = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
        with pytest.raises(DataError, match="does not have exactly one member with the category of 'head'") as caught:
            run(planned(tmp_path / f"w{number}", *WITH, table=wrong), tmp_path / "out", release_key=KEY)
        assert "700" not in str(caught.value)
        assert not (tmp_path / "out").exists()


REFUSED = {
    "no units": (('[unit]\nhousehold = "hid"\nhousehold_variables = ["region", "tenure"]\nlargest_household = 6\n', ""),
                 "no column tells who lives together"),
    "no size": (('given = ["size"]\n', ""), "needs one variable, and the size"),
    "a share": (('privacy = {model = "differential", epsilon = 1.5}\n', ""), "no epsilon of its own"),
    "no category": (('one_member = "yes"', 'one_member = "head"'), "is no category of 'head'"),
    "three": (('categories = ["no", "yes"]', 'categories = ["no", "yes", "spouse"]'), "exactly two categories"),
    "a size in words": (('type = "int64"\ncategories = [1, 2, 3, 4, 5, 6]', 'categories = ["1", "2"]'),
                        "'size' is not the number of records"),
    "a prior": (('one_member = "yes"', 'one_member = "yes"\nprior = "file"'), "cannot be combined with"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(tmp_path, case):
    change, words = REFUSED[case]
    with pytest.raises(SpecificationError, match=words):
        planned(tmp_path / "w", *WITH, change, table=heads(20))


def test_a_matrix_that_is_not_a_choice_and_parts_of_a_file_are_refused():
    block = law_of().blocks[0]
    wrong = block.matrix.weights.copy()
    at = [n for n, (h, s) in enumerate(block.cells) if s == 3]
    wrong[np.ix_(at, at)] = randomised_response(2, 1.5).weights
    forged = Block(
        block.variables, pr.TransitionMatrix(wrong), block.cells, "public", ("size",), unit="household", one=1
    )
    with pytest.raises(SpecificationError, match="not that of a choice among 4 members"):
        Mechanism([forged], BOOK, units=Units("hid", 6))
    with pytest.raises(SpecificationError, match="'one' is not the code of a category in a block of a household"):
        Block("head", randomised_response(2, 1.0), one=1)
    with pytest.raises(UsageError, match="this frame is a part"):
        pr.content_of([heads(5).select(BOOK.names)], law_of(), KEY, "sex")


# -- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_of_who_has_it_are_right_over_releases():
    """The table of head and sex by the law of each size; with the household as cluster, its error too."""
    law, found, errors = law_of(), [], []
    for seed in range(60):
        out = pr.perturb(heads(100, seed=seed).select(list(BOOK.names)), law, pr.ReleaseKey.from_seed(seed))
        one = estimate.table(out, ["head", "sex"], law, design=SurveyDesign(psu="hid"))
        found.append(one.value.ravel())
        errors.append(one.standard_error.ravel())
    share = 1 / 3.5
    wanted = np.array([(1 - share) * 0.6, (1 - share) * 0.4, share * 0.3, share * 0.7])
    z = (np.mean(found, axis=0) - wanted) / (np.std(found, axis=0) / 60**0.5)
    assert np.abs(z).max() < 4
    assert np.mean(errors, axis=0) == pytest.approx(np.std(found, axis=0), rel=0.35)  # ± 9 % at 60 releases
    naive = np.mean([v[3] for v in found]) - share * 0.55  # the released values alone mix heads with others
    assert naive > 0.02
