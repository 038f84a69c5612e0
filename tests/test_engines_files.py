"""Many files in and out, and runs that are interrupted."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats
from postrand.engines import LocalEngine
from postrand.engines.journal import BATCHES_PER_FILE
from postrand.engines.records import Perturber
from postrand.errors import DataError, ReleaseError, UsageError
from postrand.support.randomness import ReleaseKey
from tests.test_engines import BOOK, KEY, RELEASED, ROWS, Collector, Memory, mechanism, perturbed, survey

CUTS = (0, 200, 201, ROWS)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "survey"
    folder.mkdir()
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        pq.write_table(survey().slice(start, stop - start), folder / f"region-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".crc").touch()
    return folder


@pytest.mark.parametrize("name", ["survey", "survey/*.parquet", "**/region-?.parquet"])
def test_a_folder_and_a_pattern_are_read_as_one_file(parts, name):
    source = formats.read(parts.parent / name, BOOK)
    assert (source.num_rows, source.schema) == (ROWS, formats.read(parts / "region-0.parquet").schema)
    found = perturbed(LocalEngine(batch_rows=64), source)
    assert found.to_pylist() == perturbed(LocalEngine()).to_pylist()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_output_is_cut_like_the_input(parts, tmp_path, suffix):
    source = formats.read(parts)
    assert isinstance(source, formats.PartsSource)
    assert source.sizes() == (200, 1, 299)
    sink = partial(formats.open_parts, tmp_path / "data", suffix, source.sizes())
    LocalEngine(batch_rows=64).perturb(source, mechanism(), KEY, sink, shuffle=False)
    files = sorted((tmp_path / "data").iterdir())
    assert [file.name for file in files] == [f"part-0000{n}{suffix}" for n in range(3)]
    found = formats.read(tmp_path / "data")
    assert isinstance(found, formats.PartsSource)
    assert found.sizes() == source.sizes()
    assert found.num_rows == (None if suffix == ".csv" else ROWS)
    whole = perturbed(LocalEngine(), shuffle=False)["sex"].to_pylist()
    assert [v for batch in found.batches(["sex"]) for v in batch.column(0).to_pylist()] == whole


def test_empty_parts_have_no_file(tmp_path):
    with formats.open_parts(tmp_path / "x", ".csv", (0, 2, 0, 1), pa.schema([("a", pa.int64())])) as writer:
        for start in range(0, 6, 3):
            writer.write(pa.record_batch({"a": pa.array(range(start, start + 3))}))
    assert {p.name: p.read_text().split() for p in (tmp_path / "x").iterdir()} == {
        "part-00001.csv": ['"a"', "0", "1"],
        "part-00003.csv": ['"a"', "2", "3", "4", "5"],  # the last one takes what is left
    }


def test_after_an_error_there_is_no_folder(parts, tmp_path):
    sink = partial(formats.open_parts, tmp_path / "data", ".parquet", (100, 400))
    (parts / "region-2.parquet").write_bytes((parts / "region-2.parquet").read_bytes()[:-9])
    with pytest.raises(DataError, match=r"region-2\.parquet: not a readable Parquet file"):
        LocalEngine().perturb(formats.read(parts), mechanism(), KEY, sink, shuffle=False)
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    with pytest.raises(ReleaseError, match="folder cannot be created"), sink(survey().schema):
        pass


def test_a_part_damaged_in_its_middle_is_named(parts, tmp_path):
    damaged = bytearray((parts / "region-2.parquet").read_bytes())
    damaged[4:400] = bytes(396)
    (parts / "region-2.parquet").write_bytes(damaged)
    sink = partial(formats.open_parts, tmp_path / "d", ".csv", (1,))
    with pytest.raises(DataError, match=r"region-2\.parquet: not a readable"):
        LocalEngine().perturb(formats.read(parts), mechanism(), KEY, sink, record_key="id")
    assert not (tmp_path / "d").exists()


def test_schema_drift_names_every_file_and_column(parts):
    drifted = survey().drop_columns(["age"]).append_column("region", pa.array(["x"] * ROWS))
    drifted = drifted.set_column(0, "id", drifted["id"].cast(pa.int32()))
    pq.write_table(drifted, parts / "region-1.parquet")
    with pytest.raises(DataError) as caught:
        formats.read(parts)
    assert [p.split(";")[0] for p in caught.value.problems] == [
        "region-1.parquet: column 'id' differs from that in region-0.parquet",
        "region-1.parquet: column 'age' differs from that in region-0.parquet",
        "region-1.parquet: column 'region' differs from that in region-0.parquet",
    ]


@pytest.mark.parametrize("hidden", ["_temporary/0", ".staging", "2024/_temporary/0/task"])
def test_what_a_pattern_finds_in_hidden_folders_is_left_out(parts, hidden):
    (parts / hidden).mkdir(parents=True)
    pq.write_table(survey(), parts / hidden / "p.parquet")
    pq.write_table(survey(), parts / "_part.parquet")
    assert formats.read(parts / "**" / "*.parquet").num_rows == ROWS
    assert formats.read(parts.parent / "*" / "**" / "*.parquet").num_rows == ROWS


def test_a_folder_that_is_named_may_be_called_anything(tmp_path):
    (tmp_path / "_data" / "region=1").mkdir(parents=True)
    pq.write_table(survey(), tmp_path / "_data" / "region=1" / "p.parquet")
    assert formats.read(tmp_path / "_data" / "region=1" / "*.parquet").num_rows == ROWS
    assert formats.read(tmp_path / "_data" / "region=1").num_rows == ROWS


def test_columns_in_the_names_of_folders_are_not_left_out_in_silence(tmp_path):
    for region in "12":
        (tmp_path / f"region={region}" / "sex=F").mkdir(parents=True)
        pq.write_table(survey(), tmp_path / f"region={region}" / "sex=F" / "p.parquet")
    source = formats.read(tmp_path / "**" / "*.parquet")
    assert source.schema.names == [*survey().schema.names, "region"]  # sex is in the files: these count
    assert {value for b in source.batches(["region"]) for value in b.column(0).to_pylist()} == {"1", "2"}
    with pytest.raises(DataError, match="column 'region' has no entry in the codebook"):
        formats.read(tmp_path / "**" / "*.parquet", BOOK)
    source = formats.read(tmp_path / "region=1" / "*" / "*.parquet")
    assert (LocalEngine().count(source, BOOK, ["sex"]).counts > 0).all()


def test_text_is_one_schema_written_as_a_dictionary_or_not(parts):
    plain = survey().set_column(1, "sex", survey()["sex"].cast(pa.string()))
    plain = plain.set_column(3, "area", plain["area"].dictionary_encode())
    pq.write_table(plain.slice(200, 1), parts / "region-1.parquet")
    found = perturbed(LocalEngine(batch_rows=64), formats.read(parts, BOOK))
    assert found.to_pylist() == perturbed(LocalEngine()).to_pylist()


def test_folders_that_cannot_be_meant(parts, tmp_path):
    (parts / "notes.csv").write_text("a\n1\n")
    (tmp_path / "empty").mkdir()
    for path, message in (
        (parts, "not of one format"),
        (tmp_path, "the folder contains folders"),
        (tmp_path / "empty", "no file is there"),
        (tmp_path / "*.sav", "no file is there"),
        (tmp_path / "none.parquet", "no such file"),
    ):
        with pytest.raises(UsageError, match=message):
            formats.read(path)
    pq.write_table(survey().slice(0, 0), tmp_path / "empty" / "a.parquet")
    with pytest.raises(DataError, match="no file contains a record"):
        formats.read(tmp_path / "empty")


@pytest.mark.parametrize("shuffle", [True, False])
def test_duplicate_keys_across_parts_are_found_in_bounded_memory(parts, shuffle):
    last = survey().slice(CUTS[2])
    ids = survey()["id"].to_pylist()
    pq.write_table(last.set_column(0, "id", pa.array([*ids[:5], *ids[206:]])), parts / "region-2.parquet")
    engine = LocalEngine(batch_rows=50, memory_limit=2_000)
    with pytest.raises(DataError, match=r"same record key \(10 records are involved\)"):
        engine.perturb(formats.read(parts), mechanism(), KEY, Collector(), record_key="id", shuffle=shuffle)


class Interrupted(RuntimeError):
    pass


class Fragile(Memory):
    """A source that breaks after some batches."""

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = 1) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(super().batches(columns, batch_size)):
            drawn_for = columns is None or "weight" in columns  # not while the records are digested
            if drawn_for and number == BATCHES_PER_FILE * 2 + 3:
                raise Interrupted
            yield batch


def counting(monkeypatch) -> list[int]:
    """Note the records of every batch that is perturbed."""
    seen, release = [], Perturber.release

    def noted(self, batch, keys):
        seen.append(batch.num_rows)
        return release(self, batch, keys)

    monkeypatch.setattr(Perturber, "release", noted)
    return seen


@pytest.mark.parametrize("record_key", [None, "id"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_interrupted_run_continues_and_writes_the_same_bytes(tmp_path, monkeypatch, shuffle, record_key):
    def run(source, folder, name, rows=5):
        engine = LocalEngine(threads=1, batch_rows=rows, memory_limit=4_000, resume=folder)
        sink = partial(formats.open_writer, tmp_path / name)
        engine.perturb(source, mechanism(), KEY, sink, shuffle=shuffle, record_key=record_key)
        return (tmp_path / name).read_bytes()

    work = tmp_path / "work"
    with pytest.raises(Interrupted):
        run(Fragile(survey()), work, "broken.parquet")
    assert not (tmp_path / "broken.parquet").exists()
    assert (work.stat().st_mode & 0o777) == 0o700
    (work / "000002.partial").write_bytes(b"cut off while it was written")
    seen = counting(monkeypatch)
    again = run(Memory(survey()), work, "again.parquet", rows=7)
    assert sum(seen) == ROWS - 2 * BATCHES_PER_FILE * 5  # what was complete is not perturbed again
    assert again == run(Memory(survey()), None, "whole.parquet", rows=64)
    assert not list(work.glob("*.partial"))


def test_a_journal_serves_one_run_only(tmp_path):
    perturbed(LocalEngine(resume=tmp_path / "work"))
    other = survey().append_column("more", survey()["id"])
    for table, key in ((survey(), ReleaseKey.from_seed(12)), (other, KEY)):
        with pytest.raises(UsageError, match="belongs to another run"):
            LocalEngine(resume=tmp_path / "work").perturb(
                Memory(table), mechanism(), key, Collector(), columns=RELEASED
            )
    (tmp_path / "mine").mkdir(0o700)
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty"):
        perturbed(LocalEngine(resume=tmp_path / "mine"))
    with pytest.raises(ReleaseError, match="journal of the run failed"):
        perturbed(LocalEngine(resume=tmp_path / "no such" / "work"))


def test_the_journal_is_for_its_owner(tmp_path):
    perturbed(LocalEngine(resume=tmp_path / "work"))
    (tmp_path / "mine").mkdir(0o700)
    perturbed(LocalEngine(resume=tmp_path / "mine"))
    files = [*(tmp_path / "work").iterdir(), *(tmp_path / "mine").iterdir()]
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    for mode in (0o755, 0o750, 0o701):
        (tmp_path / "mine").chmod(mode)
        with pytest.raises(UsageError, match=r"other users can read the folder.*chmod 700"):
            perturbed(LocalEngine(resume=tmp_path / "mine"))


@pytest.mark.parametrize("held", [b"", b'{"run": "ab', b"\xff\xfe", b"[" * 100_000])
def test_a_note_that_was_cut_off_gives_a_sentence(tmp_path, held):
    perturbed(LocalEngine(resume=tmp_path / "work"))
    (tmp_path / "work" / "run.json").write_bytes(held)
    with pytest.raises(ReleaseError, match=r"run\.json is damaged\. Next: remove the folder"):
        perturbed(LocalEngine(resume=tmp_path / "work"))


def test_a_run_that_was_killed_before_its_note_was_whole_starts_anew(tmp_path):
    (tmp_path / "work").mkdir(0o700)
    (tmp_path / "work" / "run.partial").write_bytes(b'{"ru')
    perturbed(LocalEngine(resume=tmp_path / "work"))
    assert sorted(p.name.partition("-")[0] for p in (tmp_path / "work").iterdir()) == ["000000", "run.json"]


def test_a_damaged_journal_is_refused(tmp_path):
    perturbed(LocalEngine(resume=tmp_path / "work"))
    (part,) = (tmp_path / "work").glob("*.arrow")
    whole = bytearray(part.read_bytes())
    whole[len(whole) // 2] ^= 1  # a code that fell over would be released
    part.write_bytes(whole)
    with pytest.raises(ReleaseError, match=rf"{part.name} is damaged\. Next: remove the folder"):
        perturbed(LocalEngine(resume=tmp_path / "work"))
    for name in (part.name, "run.json"):
        (tmp_path / "work" / name).unlink()
        os.mkfifo(tmp_path / "work" / name)
        with pytest.raises(ReleaseError, match="a pipe or a device"):
            perturbed(LocalEngine(resume=tmp_path / "work"))
        (tmp_path / "work" / name).unlink()
