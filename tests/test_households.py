"""Household numbers are drawn anew: they link the members, and nothing else, on every engine and in every type."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import postrand as pr
from postrand.codebook import Codebook, Variable
from postrand.data import households
from postrand.data.frames import TableSource
from postrand.data.households import Renumbering, first_turn, fresh_numbers, identities, renumbered_book, renumbering
from postrand.errors import DataError
from postrand.support.randomness import ReleaseKey
from postrand.workflow.draft import initialise

KEY = ReleaseKey.from_seed(6)
TYPES = {
    "int16": (pa.int16(), "int64"),
    "int64": (pa.int64(), "int64"),
    "double": (pa.float64(), "double"),
    "string": (pa.string(), "string"),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "string"),
}


def survey(of, n=90):
    rng = np.random.default_rng(4)
    house = pa.array((np.arange(n) // 3 + 100).tolist())
    house = house.cast(pa.string()).dictionary_encode().cast(of) if pa.types.is_dictionary(of) else house.cast(of)
    sex = pa.array(rng.choice(["F", "M"], n))
    return pa.table({"sex": sex, "size": pa.array(np.arange(n) // 30), "hh": house})


def released(folder, table, out="out", engine="local", text="", key=KEY):
    folder.mkdir(exist_ok=True)
    if not (folder / "s.parquet").exists():
        pq.write_table(table, folder / "s.parquet", row_group_size=40)
        roles = {"key": ["sex"], "household": ["hh"], "other": ["*"]}
        initialise(folder / "s.parquet", folder, roles)
    plan = folder / "plan.toml"
    drafted = plan.read_text("utf-8").replace("shuffle = true\n" if "shuffle" in text else "\0", "")
    plan.write_text(drafted.replace("[release]\n", f"[release]\n{text}"), "utf-8")
    return pr.run(pr.load_plan(plan), folder / out, release_key=key, engine=engine)


def by_hand(key, number, turn):
    """Return a fresh number by the block cipher alone."""
    block = number.to_bytes(8, "little") + turn.to_bytes(8, "little")
    drawn = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(block)
    return int.from_bytes(drawn[:8], "little") % 2**53


def test_numbers_are_those_of_the_cipher_and_missing_ones_stay():
    fresh = Renumbering("hh", 2, bytes(range(32)))
    assert fresh.numbers(pa.array([7, None, 7, 9])).to_pylist() == [
        None if h is None else by_hand(bytes(range(32)), h, 2) for h in (7, None, 7, 9)
    ]


@pytest.mark.parametrize("name", list(TYPES))
def test_a_release_links_the_members_and_nothing_else(tmp_path, name):
    of, wanted = TYPES[name]
    table = survey(of)
    made = released(tmp_path / "w", table)
    frame = made.frame()
    assert str(made.codebook["hh"].type) == wanted
    assert made.codebook["hh"].categories == ()
    numbers, old = frame["hh"].to_pylist(), set(table["hh"].to_pylist())
    assert sorted(pd.Series(numbers).value_counts().tolist()) == [3] * 30
    assert not old & set(numbers)
    groups = pd.DataFrame({"hh": numbers, "size": frame["size"].to_pylist()}).groupby("hh")["size"].nunique()
    assert (groups == 1).all()  # the members are those of one household still
    assert pr.verify(made.path).ok
    assert pr.verify(made.path, file=tmp_path / "w" / "s.parquet", release_key=KEY).ok
    limits = " ".join(made.not_covered)
    assert (
        "New random numbers, which say nothing by themselves, but show which records are one household: its size, "
        "and the unperturbed values of its members together, may single it out: hh." in limits
    )
    assert made.certificate["facts"]["households_are_renumbered"] is True
    readme = " ".join((made.path / "README.txt").read_text("utf-8").split())
    assert (
        "New random numbers, which say nothing by themselves, but show which records are one household: its size, "
        "and the unperturbed values of its members together, may single it out: hh." in readme
    )
    assert not re.search(r"Not changed: [^.]*\bhh\b", readme)


def test_numbers_follow_key_and_content_and_may_stay(tmp_path):
    table = survey(pa.int64())
    one = released(tmp_path / "w", table).frame()["hh"].to_pylist()
    assert released(tmp_path / "w", table, "again").frame()["hh"].to_pylist() == one
    other = released(tmp_path / "w", table, "other", key=ReleaseKey.from_seed(7)).frame()["hh"].to_pylist()
    changed = released(tmp_path / "v", survey(pa.int64(), 87)).frame()["hh"].to_pylist()
    assert not set(one) & set(other)
    assert not set(one) & set(changed)
    kept = released(tmp_path / "w", table, "kept", text='household_numbers = "as they are"\n')
    assert sorted(kept.frame()["hh"].to_pylist()) == table["hh"].to_pylist()
    assert (
        "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: size, hh."
        in kept.not_covered
    )


@pytest.mark.parametrize("name", list(TYPES))
def test_a_file_whose_households_are_others_is_not_that_of_the_release(tmp_path, name):
    """Sizes, values and digests agree: only the records that a number puts together do not."""
    table = survey(TYPES[name][0])
    house = pa.array([*[None] * 3, *table["hh"].to_pylist()[3:]], table["hh"].type)
    for number, column in enumerate((table["hh"], house)):
        folder, kept = tmp_path / f"w{number}", 'household_numbers = "as they are"\n' * number
        made = released(folder, table.set_column(2, "hh", column), text=f"shuffle = false\n{kept}").path
        told = {check.name: check for check in pr.verify(made, file=folder / "s.parquet").checks}
        assert told["columns"].code == "check.columns_and_households"
        moved = pa.array([*column.to_pylist()[1:], column.to_pylist()[0]], column.type)
        one_more = pa.array([*column.to_pylist()[:-1], column.to_pylist()[0]], column.type)
        for place, other in enumerate((moved, one_more)):
            pq.write_table(table.set_column(2, "hh", other), folder / f"{place}.parquet")
            found = pr.verify(made, file=folder / f"{place}.parquet", raise_if_failed=False)
            assert found.verdict == "failed"
            (problem,) = found.problems
            assert f"{place}.parquet: household numbers of the release put other records together" in problem
            assert problem.endswith("got hh. Next: give the file of the run."), problem


def test_households_are_compared_in_the_order_of_the_file_only(tmp_path):
    made = released(tmp_path / "w", survey(pa.int64())).path
    told = {check.name: check for check in pr.verify(made, file=tmp_path / "w" / "s.parquet").checks}
    assert told["columns"].code == "check.columns"
    assert "numbers of households and records aside" in told["columns"].sentence


def test_duckdb_gives_the_same_bytes(tmp_path):
    pytest.importorskip("duckdb")
    table = survey(pa.string())
    one, two = (released(tmp_path / "w", table, name, engine=name).data_path for name in ("local", "duckdb"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "sav", "dta", "xpt"])
def test_every_format_holds_the_numbers_exactly(tmp_path, suffix):
    table = survey(pa.int64())
    wanted = sorted(released(tmp_path / "w", table).frame()["hh"].to_pylist())
    plan = tmp_path / "w" / "plan.toml"
    plan.write_text(plan.read_text("utf-8").replace('format = "same"', f'format = "{suffix}"'), "utf-8")
    made = pr.run(pr.load_plan(plan), tmp_path / suffix, release_key=KEY)
    assert sorted(int(h) for h in made.frame()["hh"].to_pylist()) == wanted
    assert pr.verify(made.path).ok


def test_no_two_households_share_a_number(monkeypatch):
    monkeypatch.setattr(households, "BITS", 12)  # among 90 households of 4,096 numbers, two share one most of the time
    held, secret = np.arange(90, dtype=np.uint64), bytes(32)
    turn = first_turn(secret, held)
    sizes = [np.unique(fresh_numbers(secret, held, t)).size for t in range(turn + 1)]
    assert sizes[-1] == 90
    assert all(size < 90 for size in sizes[:-1])
    with pytest.raises(DataError, match="too many households"):
        first_turn(secret, np.arange(5000, dtype=np.uint64))


def test_what_is_no_number_is_refused():
    for column in (pa.array([1.5]), pa.array([b"x"]), pa.array([float("inf")])):
        with pytest.raises(DataError, match="not whole numbers or text"):
            identities(column, "hh")
    assert identities(pa.array([True, None]), "hh")[0].tolist() == [1, 0]
    found = renumbering(TableSource(pa.table({"hh": pa.array([None], pa.int8())})), "hh", KEY, "", b"")
    assert found.numbers(pa.array([None], pa.int8())).to_pylist() == [None]


def test_no_category_of_the_old_numbers_is_published():
    held = Variable("hh", "household", (4, 5), ("Miller", "Smith"), type="int32", missing="category")
    assert renumbered_book(Codebook((held,)))["hh"] == Variable("hh", "household", type="int64", missing="keep")
