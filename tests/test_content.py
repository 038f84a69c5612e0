"""Draws are bound to the content: a changed record, another mechanism or another column of ranks draws anew."""

import struct
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

import postrand as pr
from postrand.engines import LocalEngine, content
from postrand.engines.cells import Cells
from postrand.engines.content import Content, ContentReader
from postrand.engines.split_records import SplitCells
from postrand.errors import DataError, PrivacyError, UsageError
from postrand.ranks import RankBand, RankBlocks
from postrand.ranks.apply import number_bits, permutation
from postrand.release.ledger import Ledger, Terms
from postrand.release.ledger_lines import Entry
from postrand.support.randomness import content_keys
from tests.stats import rejects
from tests.test_cli import call
from tests.test_engines import BOOK, KEY, ROWS, Collector, Memory, every_engine, mechanism, perturbed, survey

CATEGORIES = ["no", "yes"]


def happy(values) -> pd.DataFrame:
    return pd.DataFrame({"h": pd.Categorical(np.array(CATEGORIES)[values], categories=CATEGORIES)})


def test_a_released_value_that_differs_between_two_versions_tells_nothing():
    """Of 20,000 records 500 change: with words shared, all that differ in the releases are among these."""
    rng = np.random.default_rng(0)
    n, true = 20_000, rng.integers(0, 2, 20_000)
    changed = rng.choice(n, 500, replace=False)
    other = true.copy()
    other[changed] ^= 1
    law = pr.Mechanism({"h": pr.randomised_response(2, epsilon=0.5)})
    one, two = (pr.perturb(happy(v), law, release_key=KEY)["h"].to_numpy() for v in (true, other))
    differ = np.flatnonzero(one != two)
    keep = float(np.exp(0.5) / (1 + np.exp(0.5)))
    chance = 2 * keep * (1 - keep)  # of a record that did not change, under independent words
    found = int(np.isin(differ, changed, invert=True).sum())
    assert not rejects([found, n - 500 - found], [chance, 1 - chance])
    assert rejects([0, n - 500], [chance, 1 - chance])  # as it would be with shared words


def test_one_changed_record_draws_anew_for_all_others_too():
    table = survey()
    ages = table["age"].to_pylist()
    ages[0] = 10 if ages[0] != 10 else 20
    other = table.set_column(2, "age", pa.array(ages, pa.int64()))
    one, two = (perturbed(LocalEngine(), t, shuffle=False)["area"].to_pylist() for t in (table, other))
    assert np.mean([a != b for a, b in zip(one, two, strict=True)]) > 0.2  # four areas at ε = 1
    assert (
        perturbed(LocalEngine(), table)["weight"].to_pylist() != perturbed(LocalEngine(), other)["weight"].to_pylist()
    )


def test_unperturbed_columns_are_no_part_of_the_content():
    table = survey()
    other = table.set_column(5, "weight", pa.array(np.zeros(ROWS)))
    assert content_of(table) == content_of(other)


def content_of(table: pa.Table, engine=None, law=None, **options) -> Content:
    return (engine or LocalEngine()).content(Memory(table), law or mechanism(), KEY, **options)


@every_engine
def test_the_content_is_the_same_on_every_engine_and_in_every_order(engine):
    table = survey()
    mixed = table.take(np.random.default_rng(5).permutation(ROWS))
    assert content_of(table, engine) == content_of(table)
    assert content_of(mixed, engine, record_key="id") == content_of(table, record_key="id")
    assert content_of(mixed, engine) != content_of(table, engine)  # numbered anew


@every_engine
@pytest.mark.parametrize("shuffle", [True, False])
def test_records_that_change_between_two_readings_are_refused(engine, shuffle):
    source = Memory(survey())
    before = engine.content(Memory(survey(ROWS - 1)), mechanism(), KEY)
    with pytest.raises(DataError, match="the records are not the same at two readings"):
        engine.perturb(source, mechanism(), KEY, Collector(), shuffle=shuffle, content=before)
    engine.perturb(source, mechanism(), KEY, Collector(), shuffle=shuffle, content=before, whole=False)


def test_contents_of_small_tables_are_all_different():
    """All tables of three records on two blocks: no two have one content, in whatever order unless keys say so."""
    book = pr.Codebook(tuple(pr.Variable(n, role="key", categories=(0, 1), type="int64") for n in "ab"))
    law = pr.Mechanism({n: pr.randomised_response(2, 1.0) for n in "ab"}, codebook=book)
    seen = set()
    for number in range(4**3):
        cells = [number >> 2 * i & 3 for i in range(3)]
        table = pa.table({"a": [c & 1 for c in cells], "b": [c >> 1 for c in cells], "id": [5, 6, 7]})
        found = {
            LocalEngine().content(Memory(table.take(list(order))), law, KEY, record_key="id")
            for order in permutations(range(3))
        }
        assert len(found) == 1
        seen |= found
    assert len(seen) == 4**3


def test_blocks_beyond_one_number_count_too():
    """Seventy binary variables are two groups: every one of them changes the content, and exchanging two does."""
    names = [f"v{i}" for i in range(70)]
    book = pr.Codebook(tuple(pr.Variable(n, role="key", categories=(0, 1), type="int64") for n in names))
    law = pr.Mechanism({n: pr.randomised_response(2, 1.0) for n in names}, codebook=book)
    base = {n: [0, 1] for n in names}
    found = [content_of(pa.table(base), law=law)]
    found += [content_of(pa.table(base | {n: [1, 1]}), law=law) for n in names]
    found += [content_of(pa.table(base | {n: [1, 0]}), law=law) for n in names]
    assert len(set(found)) == 141


@given(st.lists(st.integers(0, 500), max_size=3))
def test_contents_add_up_over_any_division(cuts):
    table = survey()
    ends = [0, *sorted(cuts), ROWS]
    parts = [table.slice(a, b - a) for a, b in pairwise(ends)]
    assert sum((content_of(p, record_key="id") for p in parts), Content()) == content_of(table, record_key="id")


def test_a_tag_holds_the_whole_content():
    content = content_of(survey())
    assert Content.of_tag(content.tag()) == content
    assert content.records == ROWS


def test_frames_in_parts_are_released_as_one():
    frame, law = survey().replace_schema_metadata().to_pandas(), mechanism()
    book = pr.Codebook(tuple(v for v in BOOK.variables if v.name in ("sex", "age", "area")))
    law = pr.Mechanism(law.blocks, codebook=book)
    frame = frame.assign(age=frame["age"].astype("Int64"))
    whole = pr.perturb(frame, law, KEY, "id")
    parts = [frame.iloc[300:], frame.iloc[:300]]
    content = pr.content_of(parts, law, KEY, "id")
    found = pd.concat([pr.perturb(part, law, KEY, "id", content=content) for part in parts[::-1]])
    pd.testing.assert_frame_equal(found, whole)
    assert not pr.perturb(parts[0], law, KEY, "id").equals(whole.iloc[300:])
    with pytest.raises(DataError, match="same record key"):
        pr.content_of([frame, frame.iloc[:1]], law, KEY, "id")
    with pytest.raises(UsageError, match="not a list of parts"):
        pr.content_of(frame, law, KEY, "id")
    for options in ({"record_key": "id"}, {"release_key": KEY}):
        with pytest.raises(UsageError, match="part of several"):
            pr.perturb(parts[0], law, content=content, **options)


@pytest.mark.parametrize("law", [RankBlocks(10), RankBand(10)])
def test_two_samples_are_permuted_independently(law):
    """With the words shared, the second sample's permutation in ranks is the first one's."""
    rng = np.random.default_rng(3)
    moves = []
    for _ in range(2):
        values = np.sort(rng.lognormal(10, 1, 3_000))
        moves.append(permutation(values, law, KEY, name="pay"))
    assert np.mean(moves[0] == moves[1]) < 0.2
    mixed = rng.permutation(3_000)
    again = permutation(values[mixed], law, KEY, name="pay")
    assert np.array_equal(mixed[again], moves[1][mixed])  # the order of the records changes nothing


def test_ranked_columns_of_a_frame_are_released_by_their_law():
    book = pr.Codebook(
        (pr.Variable("sex", role="key", categories=("F", "M")), pr.Variable("pay", role="other", type="double"))
    )
    from postrand.ranks.column import RankedColumn

    pay = np.arange(40.0)
    law = pr.Mechanism(
        {"sex": pr.randomised_response(2, 1.0)}, book, [RankedColumn("pay", RankBlocks(4), "permute", 40)]
    )
    table = pa.table({"sex": ["F", "M"] * 20, "pay": pay})
    released = pr.perturb(table, law, KEY)["pay"].to_numpy()
    assert sorted(released) == pay.tolist()
    assert (released != pay).any()
    assert (np.sort(released.reshape(10, 4), axis=1) == pay.reshape(10, 4)).all()
    other = table.set_column(1, "pay", pa.array(np.append(pay[:-1], 99.0)))
    assert pr.perturb(other, law, KEY)["sex"] != pr.perturb(table, law, KEY)["sex"]


def test_equal_numbers_have_equal_bits_whatever_their_type():
    small = np.array([-3, 0, 7])
    assert number_bits(small).tolist() == number_bits(small.astype(float)).tolist()
    assert number_bits(np.array([0.0])) == number_bits(np.array([-0.0]))
    large = np.array([2**53, 2**53 + 1, -(2**53), -(2**53) - 1])
    assert len(set(number_bits(large).tolist())) == 4


def entry(content: int = 1, digest: str = "aa", epsilon: float = 2.0) -> Entry:
    return Entry.of(Content(content), digest, epsilon, "release")


def test_the_ledger_refuses_a_second_content_and_says_what_both_cost(tmp_path):
    ledger = Ledger.beside(tmp_path / "key")
    ledger.add(entry())
    ledger.add(entry())  # the same release again: nothing new
    assert len(ledger.entries()) == 1
    assert (ledger.path.stat().st_mode & 0o777) == 0o600
    for other in (entry(2), entry(digest="bb")):
        for verb in (ledger.charge, ledger.add):
            with pytest.raises(PrivacyError, match="protected only at ε <= 4"):
                verb(other, Terms())
    ledger.add(entry(2, epsilon=float("inf")), Terms(again=True))
    with pytest.raises(PrivacyError, match="infinity"):
        ledger.charge(entry(3), Terms())
    ledger.charge(entry(), Terms())  # of those that are noted each may be made again
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("text", ["{}", "[1]", "not json", '{"schema": "postrand/ledger/1"}', "[" * 5_000])
def test_what_is_no_ledger_is_refused_and_left_as_it_is(tmp_path, text):
    ledger = Ledger.beside(tmp_path / "key")
    ledger.path.write_text(text + "\n")
    with pytest.raises(UsageError, match="this is not a ledger"):
        ledger.add(entry())
    assert ledger.path.read_text() == text + "\n"


def test_protect_refuses_another_content_under_one_key_file(tmp_path):
    table = pa.table({"sex": ["F", "M"] * 50, "area": ["n", "s", "n", "n"] * 25})
    data, key = tmp_path / "survey.csv", tmp_path / "key"
    csv.write_csv(table, data)
    assert call("init", data, "--out", tmp_path, "--key", "sex,area").exit_code == 0
    key.write_text(bytes(range(32)).hex())
    key.chmod(0o600)
    key.chmod(0o600)

    def protect(name, *options):
        where = ("--plan", tmp_path / "plan.toml", "--out", tmp_path / name, "--key-file", key)
        return call("protect", *where, *options)

    assert protect("one").exit_code == 0
    assert protect("same").exit_code == 0
    assert (tmp_path / "one" / "data.csv").read_bytes() == (tmp_path / "same" / "data.csv").read_bytes()
    csv.write_csv(table.slice(1), data)
    refused = protect("two")
    assert refused.exit_code != 0
    assert "--again" in refused.stderr
    assert not (tmp_path / "two").exists()
    assert protect("two", "--again").exit_code == 0
    assert [old.release for old in Ledger.beside(key).entries()] == ["one", "two"]


def test_the_content_is_the_documented_sum_record_by_record(monkeypatch):
    """Three groups of digits, units of which some are missing, and ranked values, in plain Python; chunks of three."""
    monkeypatch.setattr(content, "_CHUNK", 3)
    rng, n, key = np.random.default_rng(6), 8, pr.ReleaseKey.from_seed(5)
    bases = (2**33, 2**31, 3, 2**40, 2**60)  # 2^64 together is one group, and more are two
    keys = content_keys(key)
    reader = ContentReader((), SplitCells((), (), ()), bases, ("x", "y"), keys, {"person": "p", "household": "h"})
    codes = [rng.integers(-1, min(base - 1, 2**31 - 1), n).astype(np.int32) for base in bases]
    records = rng.integers(0, 2**64, n, dtype=np.uint64)
    names = {unit: rng.integers(0, 2**64, n, dtype=np.uint64) for unit in ("person", "household")}
    there = {unit: np.array([True, True, False, True] * 2) for unit in names}
    batch = pa.record_batch({
        "x": pa.array(rng.normal(size=n), mask=np.array([False, True] * 4)), "y": pa.array(rng.integers(0, 9, n))
    })  # fmt: skip

    def cipher(aes, low, high):
        plain = struct.pack("<2Q", low % 2**64, high % 2**64)
        return struct.unpack("<2Q", Cipher(algorithms.AES256(aes), modes.ECB()).encryptor().update(plain))

    def summed(total, r, added, low=0):
        v = [sum(pair[half] for pair in added) for half in (0, 1)]
        drawn = cipher(keys.record, int(records[r]) + v[0], low + v[1])
        return tuple((a + b) % 2**64 for a, b in zip(total, drawn, strict=True))

    cells = ranked = (0, 0)
    for r in range(n):
        digits = [int(column[r]) + 1 for column in codes]
        added = [cipher(keys.table, digits[2] * 2**40 + digits[3], 1), cipher(keys.table, digits[4], 2)]
        held = [(2**33 + k, unit) for k, unit in enumerate(("person", "household")) if there[unit][r]]
        added += [cipher(keys.table, int(names[unit][r]), slot) for slot, unit in held]
        cells = summed(cells, r, added, digits[0] * 2**31 + digits[1])
        numbers = [batch.column(name)[r].as_py() for name in ("x", "y")]
        bits = [None if value is None else struct.unpack("<Q", struct.pack("<d", value))[0] for value in numbers]
        ranked = summed(ranked, r, [cipher(keys.table, b, 2**32 + k) for k, b in enumerate(bits) if b is not None])
    units = {unit: (names[unit], there[unit]) for unit in names}
    assert reader.of_positions(codes[:3], records, codes[3:], units) == Content(n, tuple(cells))
    assert reader.of_positions(codes[:3], records, codes[3:]) == reader.of_positions(codes[:3], records, codes[3:], {})
    assert reader.of_ranked(batch, records) == tuple(ranked)
    assert replace(reader, ranked=()).of_ranked(batch, records) == (0, 0)
    assert reader.of_positions([c[:0] for c in codes], records[:0]) == Content(0)
    assert reader.inputs == ("x", "y", "p", "h")
    one = Content(1, (2, 3), (4, 5))
    assert struct.unpack("<5Q", one.tag()) == (1, 2, 3, 4, 5)
    assert Content.of_tag(one.tag()) == one
    for columns in ({}, {"person": "p"}):
        assert ContentReader.of_cells((), ("x",), key, None, columns).units == columns
    assert ContentReader.of_cells((), (), key).units == {}
    half, quarter = 2**63, 2**62
    total = Content(1, (half, quarter), (quarter, half)) + Content(1, (quarter, half), (half, quarter))
    assert total == Content(2, (half + quarter,) * 2, (half + quarter,) * 2)
    book = pr.Codebook([pr.Variable(name, "key", [*"xyz"][:size]) for name, size in (("a", 2), ("b", 3), ("c", 3))])
    listed = [Cells.listed((name,), book, None) for name in ("b", "a")]
    made = ContentReader.of_cells(listed, (), key, SplitCells.planned({"c"}, (), book))
    assert (made.inputs, made.bases) == (("b", "a", "c"), (4, 3, 4))  # and one more for a missing value that is kept
    assert one + Content(7, (2**64 - 1, 2**64 - 3), (2**64 - 4, 2**64 - 1)) == Content(8, (1, 0), (0, 4))
    replace(one, ranked=(0, 0)).check_same_cells(one)
    for other in (replace(one, records=2), replace(one, cells=(2, 4)), replace(one, cells=(1, 3))):
        with pytest.raises(DataError, match="not the same at two readings"):
            one.check_same_cells(other)
