"""Files made to hurt who reads them: every reader answers soon, in little memory, by an error of ours if it refuses."""

import contextlib
import dataclasses
import gzip
import io
import os
import random
import re
import shutil
import socket
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import release
from postrand.app.projects import release_of
from postrand.codebook.rules import linked
from postrand.completion.totals import _read as read_totals
from postrand.engines.content import Content
from postrand.errors import PostrandError
from postrand.formats import _bounds, parquet, read
from postrand.formats import csv as csv_format
from postrand.formats._buffers import unpacked_of
from postrand.formats._pages import pages_of
from postrand.release.ledger import Ledger, Terms
from postrand.release.ledger_lines import Entry
from postrand.release.signature import SigningKey, load_public, signers
from tests.both_verifiers import ALONE
from tests.conftest import ROOT
from tests.fuzz_targets import CODEBOOK, DDI, PLAN, POLICY, TARGETS, TEXT, attempt, every_batch, unpacked, workbook
from tests.release_case import make

NESTED = (b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 9) for i in range(9))
LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha">' + b"".join(NESTED) + b"]>"
DEEP_TOML = (
    b"a" + b".a" * 5000 + b"=1",
    b"a=" + b"[" * 50_000,
    b"a=" + b"{a=" * 5000,
    b"[a" + b".a" * 3000 + b"]\nb=1",
)
ODD_TOML = (b"a=1" + b"0" * 5000, b"a=1\na=2", b'a="\\ud800"', b"\x00", b"\xff\xfe", b"a=18446744073709551616")
DEEP_JSON = (b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000, b"\x00", b"\xff")


def swapped(text: str, *changes: tuple[str, str]) -> tuple[bytes, ...]:
    """Return copies of a text with one thing in place of another, which it must have."""
    assert all(one in text for one, _ in changes)
    return tuple(text.replace(one, other).encode() for one, other in changes)


def archive(name: str, content: str | bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(name, content)
    return held.getvalue()


REFUSED: dict[str, tuple[bytes, ...]] = {
    "codebook": (
        *DEEP_TOML,
        *ODD_TOML,
        *swapped(CODEBOOK, ('"F"', "nan"), ("[0, 18, 65]", "[0, 1e999, nan]"), ('"key"', "1e999")),
        b"recodes=[[1]]\nvariables=[1]\nrules=[1]",
    ),
    "plan": (
        *DEEP_TOML,
        *ODD_TOML,
        *swapped(
            PLAN,
            ("epsilon = 3.0", "epsilon = 1e999"),
            ("epsilon = 3.0", "epsilon = nan"),
            ('"codebook.toml"', '"../../../../../etc/passwd"'),
            ('"codebook.toml"', '"/dev/zero"'),
            ('"codebook.toml"', '"a\\u0000b"'),
            ("limit = 9", "limit = nan"),
            ("[[0.75, 0.25]", "[[nan, 0.25]"),
            ("[[0.75, 0.25]", "[[1e308, 1e308]"),
        ),
    ),
    "policy": (*DEEP_TOML, *ODD_TOML, *swapped(POLICY, ("0.01", "nan"), ("0.01", "1e999"))),
    "DDI": (
        b"<codeBook>" + b'<var name="a">' * 300 + b"</var>" * 300 + b"</codeBook>",
        LAUGHS + b"<codeBook>&j;</codeBook>",
        b'<?xml version="1.0" encoding="utf-7"?><a/>',
        b"<a>" * 100_000,
    ),
    "saved mechanism": (*DEEP_JSON, b'{"schema":"postrand/saved/1","kind":"mechanism","blocks":1e999,"x":NaN}'),
    "ledger": (*DEEP_JSON, b"NaN\n", b"{}\n{}\n"),
    "key": (b"", b"\x00" * 33, b"g" * 64, b"ab" * 5000),
    "gzip": (gzip.compress(b"a\n1\n")[:-4], b"\x1f\x8b\x08", gzip.compress(b"a\n1\n") + b"junk"),
    "zip": (
        archive("a.csv", TEXT)[:-20],
        archive("a.zip", archive("a.csv", TEXT)),
        archive("\u00e9.csv", TEXT).replace(b"\xc3\xa9", b"\xff\xff"),
        archive("a.csv", TEXT).replace(b"\x08\x00", b"\x63\x00"),  # packed in a way that nobody knows
        b"PK\x05\x06",
    ),
}
TAKEN_OR_REFUSED: dict[str, tuple[bytes, ...]] = {
    "CSV": (
        b"a,b\n" + b'"' * 100_001,
        b"a,b\n\x00,\x00\n",
        b"," * 100_000 + b"\n",
        b"a\n1e999999\nNaN\n-inf\n" + b"9" * 5000 + b"\n",
        b"a\n\xed\xa0\x80\n",
        b"a,a\n1,2\n",
        b"\r\r\r\r",
        b"\x00" * 100,
    ),
    "zip": (archive("../../a.csv", TEXT), archive("/etc/a.csv", TEXT), archive("a\\..\\b.csv", TEXT)),
    "DDI": (DDI.encode("utf-16"), b"<codeBook>" + b"<a>" * 50_000 + b"</a>" * 50_000 + b"</codeBook>"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    list(TARGETS["plan"].seeds(folder))
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_file_is_an_error_of_ours(place: Path, name: str) -> None:
    for data in REFUSED[name]:
        assert not attempt(name, place, data), data[:60]


@pytest.mark.parametrize("name", TAKEN_OR_REFUSED)
def test_what_is_odd_brings_no_reader_down(place: Path, name: str) -> None:
    before = sorted(path.name for path in place.parent.iterdir())
    for data in TAKEN_OR_REFUSED[name]:
        attempt(name, place, data)
    assert sorted(path.name for path in place.parent.iterdir()) == before  # no name of an archive is a place


def test_every_reader_takes_the_files_that_fuzzing_starts_from(tmp_path: Path) -> None:
    for name in ("codebook", "plan", "policy", "ledger", "saved mechanism", "key", "DDI", "CSV", "Excel"):
        folder = tmp_path / name
        folder.mkdir()
        assert attempt(name, folder, next(iter(TARGETS[name].seeds(folder)))), name


NO_FILES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "dangling": lambda path: path.symlink_to("nothing"),
    "loop": lambda path: path.symlink_to(path.name),
    "unreadable": lambda path: path.symlink_to("/proc/self/mem"),
    "new\nline\x1b[2J\u202e": lambda path: None,
    "x" * 5000: lambda path: None,
    "nul\0": lambda path: None,
}
SAID = {"pipe": "a pipe or a device|no such release"}
DATA = (".parquet", ".arrow", ".sav", ".dta", ".xpt", ".xlsx", ".csv", ".csv.gz", ".zip")
BY_PATH: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{name: (TARGETS[name].suffix, TARGETS[name].read) for name in ("codebook", "plan", "policy", "rules", "DDI")},
    **{name: (TARGETS[name].suffix, TARGETS[name].read) for name in ("recode table", "saved mechanism", "key")},
    "ledger": (".ledger", lambda path: Ledger(path).charge(Entry.of(Content(1), "aa" * 32, 1.0, "a"), Terms())),
    "signing key": (".pem", SigningKey.load),
    "public key": (".pem", load_public),
    "totals": (".csv", read_totals),
    **{f"data{suffix}": (suffix, every_batch) for suffix in DATA},
    "release": ("", release.verify),
    "release read": ("", release.read),
}


@pytest.mark.parametrize("name", BY_PATH)
def test_what_is_no_file_is_said_and_not_waited_for(tmp_path: Path, name: str) -> None:
    suffix, read_it = BY_PATH[name]
    for kind, make_it in NO_FILES.items():
        path = tmp_path / f"{kind}{suffix}"
        make_it(path)
        if name == "ledger" and len(path.name) < 200 and not path.exists() and kind != "loop":
            continue  # a ledger begins with its first release
        with pytest.raises(PostrandError, match=SAID.get(kind)) as refused:
            read_it(path)
        said = str(refused.value)
        assert said.isprintable(), kind
        assert len(said) < 2000, kind


@pytest.mark.parametrize("name", ["manifest.json", "mechanism.json", "data.csv", "signatures.json", "more"])
def test_a_release_with_what_is_no_file_is_refused_by_all(tmp_path: Path, name: str) -> None:
    root = tmp_path / "release"
    shutil.copytree(ROOT / "tests" / "fixtures" / "releases" / "3" / "split", root)
    (root / name).unlink(missing_ok=True)
    for kind in ("folder", "pipe", "device", "dangling", "loop", "unreadable"):
        NO_FILES[kind](root / name)
        assert ALONE.verify(str(root)).code == 7, kind
        found = release.verify(root, raise_if_failed=False)
        assert found.verdict == "failed", kind
        assert all(text.isprintable() for text in found.problems), kind
        for read_it in (release.read, signers):
            if name != "more" and (read_it, name) != (signers, "data.csv"):
                with contextlib.suppress(PostrandError):  # a file that it does not need can be anything
                    read_it(root)
        (root / name).rmdir() if kind == "folder" else (root / name).unlink()


def test_of_many_problems_the_first_are_told_with_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = PostrandError(f"problem {i}." for i in range(200_001))
    assert len(error.problems) == 200_001
    assert error.told[-2:] == ("problem 19.", "And 199,981 more.")
    assert str(error).startswith("200,001 problems:")
    assert len(str(error).splitlines()) == 22
    (tmp_path / "a.csv").write_text("a,b\n" + "1\n" * 5000)
    made: list[object] = []

    def noted(*given: object) -> str:
        made.append(given)
        return "wrong."

    monkeypatch.setattr(csv_format, "_ragged", noted)
    with pytest.raises(PostrandError, match=r"and 4990 more of this kind"):
        list(read(tmp_path / "a.csv").batches())
    assert len(made) == 10  # of two million lines, the sentences took 600 MB


def test_rules_that_link_variables_are_grouped_in_order_of_appearance() -> None:
    rng = random.Random(5)
    for _ in range(50):
        groups: list[list[str]] = []
        sets = [rng.sample("abcdefghij", rng.randint(1, 3)) for _ in range(6)]
        for names in sets:  # by definition: what shares a name is one group, at the place of its first
            touched = [group for group in groups if set(group) & set(names)]
            merged = list(dict.fromkeys([*(name for group in touched for name in group), *names]))
            place = groups.index(touched[0]) if touched else len(groups)
            groups = [group for group in groups if group not in touched]
            groups.insert(place, merged)
        assert linked([], sets) == [tuple(group) for group in groups]


def test_the_lone_verifier_is_not_kept_busy_by_one_field(tmp_path: Path) -> None:
    """Each would take minutes, if its time grew with the square of its length."""
    assert ALONE.number("1" * 1_000_000 + "x") is None
    (tmp_path / "a.csv").write_text('a\n"' + "\n" * 1_000_000 + '"\n')
    assert [len(fields[0][0]) for _, fields in ALONE.records_of([str(tmp_path / "a.csv")])] == [1, 1_000_000]
    with pytest.raises(ALONE.Wrong):
        ALONE.rank_entropy({"model": "rank-band", "width": 10**15}, 100)
    with pytest.raises(ALONE.Unchecked):
        ALONE.rank_entropy({"model": "rank-band", "width": 10**15}, 10**16)


def odd_cells(change: Callable[[bytes], bytes], folder: Path) -> bool:
    return attempt("Excel", folder, change(next(iter(TARGETS["Excel"].seeds(folder)))))


def beginning_with(row: bytes, text: bytes) -> bytes:
    return text.replace(b"<sheetData>", row, 1)


def test_a_workbook_that_refers_to_what_it_lacks_is_refused(tmp_path: Path) -> None:
    first = b'<sheetData><row r="1"><c r="A1" %s</c></row>'
    for cell in (b't="s"><v>999999</v>', b't="s"><v>x</v>', b's="9999" t="d"><v>x</v>', b"t='n'><v>1e999</v>"):
        odd_cells(partial(beginning_with, first % cell), tmp_path)
    spelt = first % b't="inlineStr"><is><t>&j;</t></is>'
    opened = LAUGHS + b"<worksheet"
    assert not odd_cells(lambda t: t.replace(b"<worksheet", opened, 1).replace(b"<sheetData>", spelt, 1), tmp_path)
    assert not odd_cells(lambda text: text.replace(b"</worksheet>", b"<a>" * 50_000, 1), tmp_path)


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    seed = next(iter(TARGETS[".sav"].seeds(tmp_path)))
    for name in (b"\xff" * 8, bytes(8)):
        assert not attempt(".sav", tmp_path, seed.replace(b"REGION  ", name, 1))


@pytest.mark.parametrize("suffix", [".csv.gz", ".zip", ".xlsx"])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused_in_little_memory(tmp_path: Path, suffix: str) -> None:
    size = (1 << 26) + 1
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(gzip.compress(bytes(size), 1) if suffix == ".csv.gz" else archive("a.csv", bytes(size)))
    tracemalloc.start()
    try:
        with pytest.raises(PostrandError, match=r"too long|100 times"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def write_arrow(path: Path, batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema, options=options) as file:
        file.write_batch(batch)


def test_a_table_that_claims_more_than_its_bytes_hold_is_not_read(tmp_path: Path) -> None:
    endless = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.null(), 2**40, [None])], names=["a"])
    write_arrow(tmp_path / "a.arrow", endless, pa.ipc.IpcWriteOptions(allow_64bit=True))
    with pytest.raises(PostrandError, match="more than 1,000 values for each of its bytes"):
        read(tmp_path / "a.arrow")
    few = pa.RecordBatch.from_arrays([pa.array([None] * 9, pa.binary((1 << 25) - 1))], names=["a"])
    write_arrow(tmp_path / "b.arrow", few, pa.ipc.IpcWriteOptions(compression="zstd"))
    with pytest.raises(PostrandError, match="unpacks to more than 100 times"):
        read(tmp_path / "b.arrow")
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([bytes(1 << 20)]))
    pq.write_table(pa.table({"a": long}), tmp_path / "a.parquet", compression="zstd", store_schema=False)
    assert sum(batch.nbytes for batch in read(tmp_path / "a.parquet").batches()) < 1 << 22  # spelt out, 10 GB


ENCODINGS: tuple[dict[str, Any], ...] = (
    {},
    {"use_dictionary": False},
    {"use_dictionary": False, "data_page_version": "2.0", "column_encoding": {"a": "DELTA_BYTE_ARRAY"}},
    {"use_dictionary": ["n.list.element"], "column_encoding": {"a": "DELTA_LENGTH_BYTE_ARRAY"}},
)


@pytest.mark.parametrize("options", ENCODINGS)
def test_pages_say_what_they_unpack_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    texts = [None, *("x" * 9000 + str(i % 50) for i in range(99))]
    table = pa.table({"a": texts, "n": [[1, 2]] * 100, "k": range(100)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=40, **options)
    groups = [pq.ParquetFile(path).metadata.row_group(i) for i in range(3)]
    chunks = [group.column(i) for group in groups for i in range(3)]
    found = pages_of(path)
    assert found.values == sum(chunk.num_values for chunk in chunks) == 400
    headers = sum(chunk.total_uncompressed_size for chunk in chunks) - found.unpacked
    assert 0 < headers < 100 * len(chunks)
    for room in (1 << 28, 1 << 17):  # all records at a time, and few
        monkeypatch.setattr(parquet, "UNPACKED", room)
        batches = list(read(path).batches())
        assert [text for batch in batches for text in batch.column("a").to_pylist()] == texts
        assert {tuple(batch.schema.names) for batch in batches} == {("a", "k")}
    with pytest.raises(PostrandError, match="lists or records is not read"):
        list(read(path).batches(["n"]))
    whole = path.read_bytes()
    monkeypatch.setattr(_bounds, "UNPACKED", found.unpacked - 1)
    monkeypatch.setattr(parquet, "HELD", 0)
    with pytest.raises(PostrandError, match="a part of the file unpacks to more"):
        read(path)
    monkeypatch.undo()
    for cut in range(0, len(whole) - 4, max(1, len(whole) // 40)):  # whatever is missing in the midst
        path.write_bytes(whole[:cut] + whole[cut + 3 :])
        with contextlib.suppress(PostrandError):
            list(read(path).batches())


@pytest.mark.parametrize("packed", ["zstd", "lz4", None])
def test_buffers_say_what_they_unpack_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str | None) -> None:
    texts = pa.array(["x" * 9000 + str(i % 50) for i in range(100)])
    batch = pa.RecordBatch.from_arrays([texts, texts.dictionary_encode()], names=["a", "b"])
    path = tmp_path / "a.arrow"
    write_arrow(path, batch, pa.ipc.IpcWriteOptions(compression=packed))
    wanted = texts.nbytes + batch.column(1).indices.nbytes + batch.column(1).dictionary.nbytes
    assert 0 <= unpacked_of(path) - wanted < 200  # offsets and padding
    monkeypatch.setattr(_bounds, "UNPACKED", 1 << 14)
    refused = pytest.raises(PostrandError, match="unpacks to more than 100 times")
    with refused if packed else contextlib.nullcontext():
        read(path)


SAID_OF_DATA = r"contains folders|a pipe or a device|no such file|not a readable|the file is empty"


def test_a_folder_of_data_with_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for kind in ("folder", "pipe", "device", "socket", "dangling", "loop", "unreadable"):
        for name in (f"{kind}/b.csv", f"{kind}=1/year=2020/b.csv"):
            path = tmp_path / name
            path.parent.mkdir(parents=True)
            (path.parent / "a.csv").write_text(TEXT)
            with socket.socket(socket.AF_UNIX) as bound:
                (bound.bind if kind == "socket" else NO_FILES[kind])(path if kind != "socket" else str(path))
            with pytest.raises(PostrandError, match=SAID_OF_DATA):
                read(tmp_path / f"{kind}=1" if "=" in name else path.parent)


@pytest.mark.parametrize("pattern", ["", "**/*.csv"])
def test_a_folder_that_links_lead_to_twice_is_refused(tmp_path: Path, pattern: str) -> None:
    """Two links at each step are 2^40 ways; one doubles the records."""
    for year in (1, 2):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "a.csv").write_text(TEXT)
    assert read(tmp_path / pattern).schema.names[-1] == "year"
    for name in ("x=1", "x=2"):
        (tmp_path / "year=1" / name).symlink_to(tmp_path)
    with pytest.raises(PostrandError, match="a link leads to a folder a second time"):
        read(tmp_path / pattern)


@pytest.mark.parametrize("name", ["project.json", "plan.toml"])
def test_a_project_with_what_is_no_file_has_no_release(tmp_path: Path, name: str) -> None:
    for kind in ("folder", "pipe", "device", "dangling", "loop", "unreadable"):
        root = unpacked(tmp_path, next(iter(TARGETS["project"].seeds(tmp_path))))
        (root / name).unlink()
        NO_FILES[kind](root / name)
        assert release_of(root, cast("Any", None), 1) is None


@pytest.mark.parametrize("size", [b"A1:A1", b"A1:XFD1048576"])
def test_the_size_that_a_sheet_states_hides_no_record(tmp_path: Path, size: bytes) -> None:
    seed = next(iter(TARGETS["Excel"].seeds(tmp_path)))
    path = workbook(tmp_path, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="%s"' % size, seed))
    assert read(path).num_rows == 3
    path = workbook(tmp_path, seed.replace(b"</sheetData>", b'<row r="9999999999"><c r="A9"/></row></sheetData>'))
    with pytest.raises(PostrandError, match="beyond the last"):
        read(path)


def test_utf_16_without_its_mark_is_named_with_its_line(tmp_path: Path) -> None:
    from postrand.formats import ReadSettings, placed

    (tmp_path / "a.csv").write_text(TEXT)
    with pytest.raises(PostrandError, match="line 1: text is not valid utf-16"):
        read(placed(tmp_path / "a.csv", ReadSettings(encoding="utf-16")))


def test_a_clock_that_goes_back_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "panel.ledger")
    for number, (kind, year) in enumerate((("first", 2031), ("wave", 1970))):
        of = Entry.of(Content(number), "aa" * 32, 1.0, "release")
        entry = dataclasses.replace(of, at=f"{year}-01-01T00:00:00+00:00")
        ledger.charge(entry, Terms(population="panel", kind=kind)).note(f"{number:064x}")
    assert ledger.read().lines[-1].total.epsilon == 2.0
    root = make(tmp_path / "release").path
    monkeypatch.setattr(time, "time", lambda: 0.0)  # long before the release
    assert release.verify(root).ok
