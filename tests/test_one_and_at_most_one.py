"""A head and at most one spouse in each household: the draw of both, what it spends, and what is refused."""

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
from postrand import Block, Mechanism, Units, estimate
from postrand.certification.account import mechanism_account
from postrand.certification.units import unit_epsilon
from postrand.codebook import Codebook, Variable
from postrand.engines import LocalEngine, unit_members
from postrand.engines.duckdb import DuckDBEngine
from postrand.engines.spark import SparkEngine
from postrand.errors import DataError, PrivacyError, ReleaseError, SpecificationError
from postrand.mechanism.block import all_cells
from postrand.mechanism.matrix_storage import UNIT
from postrand.mechanism.one_member import OneMember
from postrand.privacy import DifferentialPrivacy
from postrand.testing import engines as testing
from postrand.workflow.pipeline import run
from tests.release_case import edit, rehash
from tests.test_units import aes, expanded
from tests.unit_case import KEY, planned, survey

SIZES = (1, 2, 3, 4, 5, 6)
ROLES = ("head", "spouse", "other")
BOOK = Codebook(
    (
        Variable("hid", "household", type="int64", missing="keep"),
        Variable("relat", "key", ("other", "head", "spouse")),
        Variable("size", "other", SIZES, type="int64"),
        Variable("sex", "other", ("F", "M")),
    )
)
SPARK = pytest.param(SparkEngine(parts=3), id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")])
LAST = '[[blocks]]\nvariables = ["sex"]'
BOTH = '[[blocks]]\nvariables = ["relat"]\ngiven = ["size"]\none_member = "head"\nat_most_one = "spouse"\n'
BOTH += 'privacy = {model = "differential", epsilon = 2.0}\n'
MORE = '[[variables]]\nname = "relat"\nrole = "key"\ncategories = ["other", "head", "spouse"]\n'
MORE += '[[variables]]\nname = "size"\nrole = "other"\ntype = "int64"\ncategories = [1, 2, 3, 4, 5, 6]\n'
WITH = [('[[variables]]\nname = "sex"', f'{MORE}[[variables]]\nname = "sex"')]
WITH += [(LAST, f'{BOTH}{LAST}\n[release]\nas_is = ["size"]\n'), ("epsilon = 4.0", "epsilon = 5.0")]


def block_of(epsilon: float = 2.0) -> Block:
    cells = all_cells((3, 6))
    matrix = OneMember.of(cells, 0, 1, 1, SIZES, 2).law(epsilon)
    rows = tuple(map(tuple, cells.tolist()))
    return Block(("relat", "size"), matrix, rows, "public", ("size",), unit="household", one=1, at_most_one=2)


def law_of(epsilon: float = 2.0) -> Mechanism:
    return Mechanism([block_of(epsilon)], BOOK, units=Units("hid", 6))


def families(households: int, size: int = 0, seed: int = 1) -> pa.Table:
    """Return the survey with a random head in each household, and a spouse in 60 % of those of two or more."""
    table, rng = survey(households, size, seed), np.random.default_rng(seed)
    of = table["hid"].to_numpy() - 7000
    k = np.bincount(of)
    first = np.r_[0, np.cumsum(k)[:-1]]
    head = rng.integers(0, k)
    relat = np.full(len(of), "other", dtype="<U6")
    relat[first + head] = "head"
    married = (k > 1) & (rng.random(households) < 0.6)
    relat[(first + (head + rng.integers(1, np.maximum(k, 2))) % k)[married]] = "spouse"
    table = table.append_column("relat", pa.array(relat)).append_column("size", pa.array(k[of]))
    sex = np.where(rng.random(len(of)) < np.where(relat == "head", 0.7, 0.4), "M", "F")
    return table.set_column(table.schema.get_field_index("sex"), "sex", pa.array(sex))


def states(k: int) -> list[tuple[int, int | None]]:
    """Return who is head, and who is spouse or nobody."""
    return [(h, s) for h in range(k) for s in (None, *range(k)) if s != h]


def role(member: int, state: tuple[int, int | None]) -> str:
    return "head" if member == state[0] else "spouse" if member == state[1] else "other"


# -- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_matrix_is_the_law_of_a_record_and_the_level_that_of_the_household(k):
    """By enumeration of the k² states: the law of each record given its role, and the largest ratio of two states."""
    law = law_of()
    block = law.blocks[0]
    found, every = OneMember.of_block(block, BOOK), states(k)
    a = found.stays(block.matrix)[k]
    b = Fraction(UNIT - a, max(len(every) - 1, 1))
    joint = {t: {u: Fraction(a) if t == u else b for u in every} for t in every}
    assert len(every) == k * k
    assert all(sum(row.values()) == UNIT for row in joint.values())
    at = {(ROLES[r], int(s)): n for n, (r, s) in enumerate(zip(found.role, found.sizes, strict=True))}
    for true, member, shown in itertools.product(every, range(k), ROLES):
        wanted = sum(p for u, p in joint[true].items() if role(member, u) == shown)
        assert wanted == block.matrix.weights[at[role(member, true), k], at[shown, k]]
    level = unit_epsilon(law, "household", k)
    ratio = max((p / q for r in joint.values() for p in r.values() for q in r.values()), default=Fraction(1))
    assert level <= 2.0
    assert level >= math.log(ratio)
    assert level == pytest.approx(2.0, abs=1e-12)
    assert k == 1 or ratio == pytest.approx(math.exp(2.0), rel=1e-12)


def test_the_household_is_charged_and_not_the_smaller_ratios_of_one_record():
    """The planted defect: a law of one record alone has smaller ratios than what is charged."""
    block = block_of()
    inside = [n for n, (_, s) in enumerate(block.cells) if s == 2]
    own = block.matrix.weights[np.ix_(inside, inside)]
    assert math.log((own.max(axis=0) / own.min(axis=0)).max()) < 1.5
    assert block.epsilon == pytest.approx(2.0, abs=1e-12)
    law = law_of()
    assert mechanism_account(law).total == block.epsilon
    within = pr.Claim(DifferentialPrivacy(1.9), ("relat",), within=True)
    with pytest.raises(PrivacyError, match="does not meet"):
        pr.certify(law, [within])
    with pytest.raises(PrivacyError, match="does not meet"):
        pr.certify(law, [DifferentialPrivacy(5.0)])  # the size is shown
    assert pr.certify(law, [pr.Claim(DifferentialPrivacy(2.0), ("relat",), within=True)]).findings[0].holds


@pytest.mark.parametrize(
    "engine",
    [pytest.param(LocalEngine(threads=1, batch_rows=7), id="local"), pytest.param(DuckDBEngine(), id="duckdb"), SPARK],
)
def test_both_are_drawn_as_by_hand(engine, monkeypatch):
    """In plain Python from the ciphers' formulas; in a frame as in a file; a record without a number stays a head."""
    monkeypatch.setattr(unit_members, "_WAITING", 5)  # parts are put together again and again
    table, law = families(60).select(BOOK.names), law_of()
    alone = {"hid": [None], "relat": ["head"], "size": [1], "sex": ["F"]}
    table = pa.concat_tables([table, pa.table(alone, schema=table.schema)])
    content = LocalEngine().content(testing.Memory(table), law, testing.KEY).tag()
    info = f"of unit household, one of block 0 {law.digest()} content ".encode() + content
    house, member = expanded(b"numbered " + info), expanded(b"alone " + info)
    stays = OneMember.of_block(law.blocks[0], BOOK).stays(law.blocks[0].matrix)
    records, members, cases = table.to_pylist(), dict[int, list[int]](), set[int]()
    for row, record in enumerate(records[:-1]):
        members.setdefault(record["hid"], []).append(row)
    for hid, rows in members.items():
        k, word = len(rows), aes(house, hid, 0)[0] >> 11
        b = (UNIT - stays[k]) // (k * k - 1) if k > 1 else 0
        case = 0 if word < stays[k] - b else 1 if word < stays[k] - b + k * b else 2
        cases.add(case)
        if case == 0:
            continue
        drawn = [row for _, row in sorted((aes(member, row, 0)[0], row) for row in rows)]
        for row in rows:
            records[row]["relat"] = "other"
        records[drawn[0]]["relat"] = "head"
        if case == 2:
            records[drawn[1]]["relat"] = "spouse"
    assert cases == {0, 1, 2}
    found = testing.perturbed(engine, testing.Memory(table), law, shuffle=False)
    assert found.to_pylist() == records
    assert pr.perturb(table, law, testing.KEY).to_pylist() == records


@pytest.mark.parametrize("true", [(1, None), (0, 2)])
def test_the_true_state_stays_as_often_as_stated_and_the_others_are_alike(true):
    """An attacker who names head and spouse of three is right with a = .48 at ε = 2; each other state has .065."""
    n, every, shown = 500, states(3), np.zeros(9)
    table = families(n, size=3)
    relat = pa.array([role(member, true) for _ in range(n) for member in range(3)])
    table = table.set_column(table.schema.get_field_index("relat"), "relat", relat)
    for seed in range(4):
        out = np.array(pr.perturb(table, law_of(), pr.ReleaseKey.from_seed(seed))["relat"].to_pylist()).reshape(n, 3)
        patterns = ["".join(row) for row in out]
        shown += [patterns.count("".join(role(member, state) for member in range(3))) for state in every]
    assert shown.sum() == 4 * n  # nothing but a state
    share = math.exp(2.0) / (math.exp(2.0) + 8)
    wanted = 4 * n * np.array([share if state == true else (1 - share) / 8 for state in every])
    assert ((shown - wanted) ** 2 / wanted).sum() < 36  # chi-squared with 8 degrees: above with probability 1.8e-5


# -- a release --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    with pytest.warns(UserWarning, match="reveal true values of relat, which is perturbed: size"):  # who lives alone is
        return run(planned(folder / "w", *WITH, table=families(200)), folder / "out", release_key=KEY), folder


def test_a_release_has_one_head_and_at_most_one_spouse_in_each_household_and_verifies(made):
    release, folder = made
    frame = release.frame().to_pandas()
    assert (frame["relat"].eq("head").groupby(frame["hid"]).sum() == 1).all()
    spouses = frame["relat"].eq("spouse").groupby(frame["hid"]).sum()
    assert set(spouses) == {0, 1}
    assert pr.verify(release.path, file=folder / "w" / "s.parquet", release_key=KEY).verdict == "verified"
    block = next(b for b in release.certificate["blocks"] if "relat" in b["variables"])
    assert block["epsilon"] == pytest.approx(2.0, abs=1e-12)
    levels = {one["records"]: one["epsilon"] for one in release.certificate["units"]["household"]["levels"]}
    sex = next(b["epsilon"] for b in release.certificate["blocks"] if b["variables"] == ["sex"])
    assert levels[6] - levels[1] == pytest.approx(5 * sex)  # the choice is counted once
    for name in ("README.txt", "ddi.xml", "report.html"):
        text = " ".join((release.path / name).read_text("utf-8").split())
        assert "household has relat = head, and at most one has spouse, as in the true records" in text, name


def test_a_release_with_two_spouses_or_no_head_or_another_law_does_not_verify(made, tmp_path):
    release, _ = made
    table = pq.read_table(release.data_path)
    relat, hid, size = (np.array(table[name].to_pylist()) for name in ("relat", "hid", "size"))
    kind = table.schema.field("relat")
    others = np.flatnonzero((relat == "other") & (size > 2))
    couple = next(h for h in hid[others] if (relat[hid == h] == "spouse").any())
    changes = {
        "two spouses": (np.flatnonzero((hid == couple) & (relat == "other"))[0], "spouse"),
        "two heads": (np.flatnonzero((hid == couple) & (relat == "other"))[0], "head"),
        "no head": (np.flatnonzero((hid == couple) & (relat == "head"))[0], "other"),
    }
    for name, (at, value) in changes.items():
        root, wrong = tmp_path / name, relat.copy()
        shutil.copytree(release.path, root)
        wrong[at] = value
        forged = pa.array(wrong).dictionary_encode().cast(kind.type) if pa.types.is_dictionary(kind.type) else wrong
        forged = forged if isinstance(forged, pa.Array) else pa.array(forged).cast(kind.type)
        pq.write_table(table.set_column(table.schema.get_field_index("relat"), kind, forged),
                       root / release.data_path.name)  # fmt: skip
        rehash(root)
        with pytest.raises(ReleaseError, match="has two with a category that at most one has"):
            pr.verify(root)
    for name, change, words in (
        ("no rule", lambda b: b.pop("at_most_one"), "every cell|does not agree"),
        ("same", lambda b: b.update(at_most_one=b["one"]), "beside 'one'"),
        ("swapped", lambda b: b.update(one=2, at_most_one=1), "choice among"),
    ):
        root = tmp_path / name
        shutil.copytree(release.path, root)

        def changed(data: dict[str, Any], change: Callable[[Any], object] = change) -> None:
            change(next(block for block in data["blocks"] if "one" in block))

        edit(root / "mechanism.json", changed)
        rehash(root)
        with pytest.raises(ReleaseError, match=words):
            pr.verify(root)


def test_a_file_that_breaks_the_rule_is_refused_and_nothing_is_written(tmp_path):
    """No message tells which household."""
    table = families(40, size=3)
    values = table["relat"].to_pylist()
    for number, first in enumerate((["head", "spouse", "spouse"], ["other", "spouse", "other"], ["head", "head"])):
        relat = pa.array([*first, *values[len(first) :]])
        wrong = table.set_column(table.schema.get_field_index("relat"), "relat", relat)
        with pytest.raises(DataError, match="'relat', has two with the category that at most one has") as caught:
            run(planned(tmp_path / f"w{number}", *WITH, table=wrong), tmp_path / "out", release_key=KEY)
        assert "700" not in str(caught.value)
        assert not (tmp_path / "out").exists()


REFUSED = {
    "without one": (('one_member = "head"\n', ""), "'at_most_one' is given without 'one_member'"),
    "no category": (('at_most_one = "spouse"', 'at_most_one = "wife"'), "'at_most_one' is no category of 'relat'"),
    "the same": (('at_most_one = "spouse"', 'at_most_one = "head"'), "is the category of 'one_member'"),
    "four": (('["other", "head", "spouse"]', '["other", "head", "spouse", "child"]'), "exactly three categories"),
    "two": (('["other", "head", "spouse"]', '["head", "spouse"]'), "exactly three categories"),
    "too large": (("categories = [1, 2, 3, 4, 5, 6]", "categories = [1, 2, 301]"), "larger households than a choice"),
    "one size": (("categories = [1, 2, 3, 4, 5, 6]", "categories = [3]"), "has fewer than two sizes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(tmp_path, case):
    change, words = REFUSED[case]
    with pytest.raises(SpecificationError, match=words):
        planned(tmp_path / "w", *WITH, change, table=families(20))


def test_a_matrix_that_is_not_the_law_of_states_has_no_level_and_is_refused():
    block = block_of()
    wrong = block.matrix.weights.copy()
    at = next(n for n, (_, s) in enumerate(block.cells) if s == 3)
    move = [n for n, (_, s) in enumerate(block.cells) if s == 3][:2]
    wrong[at, move] += [1, -1]
    rest = (block.cells, "public", ("size",))
    forged = Block(block.variables, pr.TransitionMatrix(wrong), *rest, unit="household", one=1, at_most_one=2)
    assert forged.epsilon == math.inf
    with pytest.raises(SpecificationError, match="not that of a choice among 4 members"):
        Mechanism([forged], BOOK, units=Units("hid", 6))
    with pytest.raises(SpecificationError, match="'at_most_one' is not the code of a category beside 'one'"):
        Block(block.variables, block.matrix, *rest, unit="household", at_most_one=2)
    cells = ((0, 3), (1, 3), (2, 3))
    single = pr.TransitionMatrix(block.matrix.weights[np.ix_([3, 9, 15], [3, 9, 15])])
    with pytest.raises(SpecificationError, match="needs a law for each of several sizes"):
        Block(block.variables, single, cells, "public", ("size",), unit="household", one=1, at_most_one=2)


# -- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_of_who_is_head_and_spouse_are_right_over_releases():
    """The table of role and sex by the law of each size, of one file; the released values alone mix the roles."""
    law, table, found = law_of(), families(150, seed=4).select(BOOK.names), []
    pairs = list(zip(table["relat"].to_pylist(), table["sex"].to_pylist(), strict=True))
    true = np.array([pairs.count((r, s)) for r in BOOK["relat"].categories for s in ("F", "M")]) / len(pairs)
    naive = []
    for seed in range(60):
        out = pr.perturb(table, law, pr.ReleaseKey.from_seed(seed))
        with pytest.warns(UserWarning, match="share"):
            found.append(estimate.table(out, ["relat", "sex"], law).value.ravel())
        naive.append(
            out.filter(
                pa.compute.and_(pa.compute.equal(out["relat"], "head"), pa.compute.equal(out["sex"], "M"))
            ).num_rows
        )
    z = (np.mean(found, axis=0) - true) / (np.std(found, axis=0) / 60**0.5)
    assert np.abs(z).max() < 4
    assert np.mean(naive) / len(pairs) < true[3] - 4 * np.std(naive) / len(pairs) / 60**0.5
