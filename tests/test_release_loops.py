"""Loops of calls: what was read or counted once is not read or counted again."""

import copy
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats, release
from postrand.engines.summary import check_bytes, read_back, summarise
from postrand.errors import DataError, ReleaseError
from postrand.estimate.tally import tally
from postrand.release import bundle, kept
from tests.release_case import make


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each reading of released records, and each check of their digests."""
    found: list[str] = []

    def note(name: str) -> None:
        inner = getattr(bundle, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            found.append(name)
            return inner(*arguments, **options)

        monkeypatch.setattr(bundle, name, noted)

    note("records_of")
    note("check_digests")
    return found


ONCE = ["check_digests", "records_of"]


@pytest.mark.parametrize("name", ["data.parquet", "data.csv"])
def test_all_tables_of_a_release_take_one_reading(tmp_path: Path, readings: list[str], name: str) -> None:
    path = make(tmp_path / "release", data_name=name).path
    found, held = release.read(path), bundle.records_of(path / name, release.read(path).codebook)
    readings.clear()
    for pair in itertools.permutations(found.mechanism.variables, 2):
        shared, alone = (tally(frame, pair, found.mechanism).counts for frame in (found.frame(), held))
        assert np.array_equal(shared, alone)
    assert readings == ONCE


def test_threads_that_ask_at_once_share_one_reading(tmp_path: Path, readings: list[str]) -> None:
    found = release.read(make(tmp_path / "release").path)
    with ThreadPoolExecutor(8) as pool:
        frames = list(pool.map(lambda _: found.frame(), range(16)))
    assert all(frame is frames[0] for frame in frames)
    assert readings == ONCE


def test_files_that_changed_are_read_and_checked_again(tmp_path: Path, readings: list[str]) -> None:
    found = release.read(make(tmp_path / "release").path)
    first, data = found.frame(), found.data_path
    content = data.read_bytes()
    data.write_bytes(content + b"x")
    for _ in range(2):  # an error is not kept either
        with pytest.raises(ReleaseError, match="changed or cut"):
            found.frame()
    data.unlink()
    with pytest.raises(ReleaseError, match="changed or cut, or it is missing"):
        found.frame()
    data.write_bytes(content)
    assert found.frame().equals(first)
    assert readings == [*ONCE, *["check_digests"] * 3, *ONCE]


def test_what_changed_while_it_was_read_is_not_kept(tmp_path: Path) -> None:
    data, tables = tmp_path / "data.parquet", [pa.table({"a": [n]}) for n in range(2)]
    data.write_bytes(b"one")

    def changing() -> pa.Table:
        data.write_bytes(b"other")
        return tables[0]

    frame = kept.KeptFrame()
    assert frame.get(data, changing) is tables[0]
    assert frame.get(data, lambda: tables[1]) is tables[1]
    assert frame.get(data, lambda: tables[0]) is tables[1]


def test_each_file_of_a_folder_is_watched(tmp_path: Path) -> None:
    for part in "ab":
        (tmp_path / part).write_bytes(b"1")
    before = kept.state_of(tmp_path)
    assert [entry[0] for entry in before] == ["a", "b"]
    (tmp_path / "b").unlink()
    assert kept.state_of(tmp_path) == before[:1]
    assert kept.state_of(tmp_path / "none") == ()


def test_a_large_table_is_shared_only_while_someone_holds_it(
    tmp_path: Path, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_KEPT_BYTES", 0)
    found = release.read(make(tmp_path / "release").path)
    frame = found.frame()
    assert found.frame() is frame
    assert readings == ONCE
    del frame
    found.frame()
    assert readings == ONCE * 2


def test_no_reader_can_write_into_the_shared_records(tmp_path: Path) -> None:
    found = release.read(make(tmp_path / "release").path)
    for column in found.frame().columns:
        for chunk in column.chunks:
            held = chunk.indices if pa.types.is_dictionary(chunk.type) else chunk
            if not held.null_count and pa.types.is_integer(held.type):  # others are copied
                assert not held.to_numpy().flags.writeable


def test_a_release_with_records_in_memory_is_equal_copied_and_pickled(tmp_path: Path, readings: list[str]) -> None:
    path = make(tmp_path / "release").path
    found, other = release.read(path), release.read(path)
    found.frame()
    assert found == other
    assert repr(found) == repr(other)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again == found
        readings.clear()
        assert again.frame().equals(found.frame())
        assert readings == ONCE


@pytest.mark.parametrize("name", ["data.parquet", "data.csv"])
def test_a_released_file_is_read_once_for_its_counts_and_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found: list[str] = []
    for entry in (formats.parquet.ParquetSource, formats.csv.CsvSource):
        inner = entry.batches

        def noted(self: Any, *arguments: Any, inner: Any = inner, **options: Any) -> Any:
            found.append(self.path.name)
            return inner(self, *arguments, **options)

        monkeypatch.setattr(entry, "batches", noted)
    made = make(tmp_path / "release", data_name=name)
    assert found == [name]
    before = summarise(made.data_path, made.mechanism)
    with read_back(made.data_path, made.mechanism) as exact:
        assert found == [name] * 3
    assert before.records == exact.records
    assert all(np.array_equal(a, b) for a, b in zip(before.blocks, exact.blocks, strict=True))
    assert before.pair == exact.pair
    assert np.array_equal(before.pair_counts, exact.pair_counts)


def test_bytes_beside_the_records_are_found_in_the_pass_that_counts(tmp_path: Path) -> None:
    made = make(tmp_path / "release", data_name="data.parquet")
    pq.write_table(pq.read_table(made.data_path), made.data_path, compression="gzip")
    plain = summarise(made.data_path, made.mechanism)
    with pytest.raises(DataError, match="byte for byte") as found, read_back(made.data_path, made.mechanism) as summary:
        assert summary.records == plain.records
    with pytest.raises(DataError, match="byte for byte") as alone:
        check_bytes(made.data_path, made.mechanism)
    assert alone.value.problems == found.value.problems
