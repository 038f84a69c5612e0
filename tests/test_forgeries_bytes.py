"""Nothing hides in the bytes of released data: not in metadata, dictionaries, masked memory or behind the end."""

import hashlib
import json
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import formats, release
from postrand.codebook import Codebook, Variable
from postrand.data.frames import TableSource
from postrand.engines import Engine, LocalEngine
from postrand.engines.duckdb import DuckDBEngine, DuckDBSource
from postrand.errors import DataError, ReleaseError, SpecificationError, UncheckedError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.release import canonical_json
from postrand.support.randomness import ReleaseKey
from tests.release_case import BOOK, LAW, edit, make, rebuild, rehash, released_table, without_missing, writer_of

SUFFIXES = (".parquet", ".csv", ".arrow", ".feather", ".sav", ".zsav", ".dta", ".xpt")
SECRET = "Zebra the true value"
TABLE = released_table()


@pytest.fixture(params=SUFFIXES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    # Some hold no text without a letter, and no missing text.
    table, law = without_missing() if request.param in (".dta", ".xpt") else (TABLE, LAW)
    make(tmp_path / "release", table, data_name=f"data{request.param}", mechanism=law)
    return tmp_path / "release"


def outcome(root: Path) -> dict[str, bool | None]:
    rehash(root)
    return {check.name: check.ok for check in release.verify(root, raise_if_failed=False).checks}


def data_of(root: Path) -> Path:
    return next(path for path in root.iterdir() if path.stem == "data")


def test_every_format_gives_the_bytes_of_its_records_again(root: Path) -> None:
    assert False not in outcome(root).values()
    assert release.verify(root).ok


@pytest.mark.parametrize("added", [b"\0", b"\n", b"# a remark\n", SECRET.encode()])
def test_nothing_follows_the_end_of_any_format(root: Path, added: bytes) -> None:
    with data_of(root).open("ab") as file:
        file.write(added)
    found = outcome(root)
    assert not (found["data"] and found["bytes"])


def test_no_byte_of_any_format_is_free(root: Path) -> None:
    """Whichever byte is another one: the release is refused, or its records, as anyone reads them, are others."""
    path, book = data_of(root), release.read(root).codebook
    content, genuine = path.read_bytes(), read(path, book)
    for at in np.unique(np.linspace(0, len(content) - 1, 60).astype(int)):
        forged = bytearray(content)
        forged[at] ^= 1
        path.write_bytes(bytes(forged))
        found = outcome(root)
        assert not (found["data"] and found["bytes"]) or read(path, book) != genuine, at


def read(path: Path, book: Codebook) -> list[Any]:
    source = formats.read(path, book)
    labels = [(field.name, str(field.type), field.metadata) for field in source.schema]
    return [labels, *(batch.to_pydict() for batch in source.batches())]


def forged_parquet(path: Path, **options: Any) -> None:
    pq.write_table(TABLE, path, **options)


def with_field_metadata(path: Path) -> None:
    field = TABLE.schema.field("sex").with_metadata({"history": SECRET})
    changed = TABLE.cast(TABLE.schema.set(0, field))
    path.unlink()
    writer_of(changed)(path)


def with_file_metadata(path: Path) -> None:
    changed = TABLE.replace_schema_metadata({"history": SECRET})
    path.unlink()
    writer_of(changed)(path)


def with_batch_metadata(path: Path) -> None:
    with pa.ipc.new_file(path, TABLE.schema) as file:
        for batch in TABLE.combine_chunks().to_batches():
            file.write_batch(batch, custom_metadata={"history": SECRET})


def with_a_spare_category(name: str) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        values = [*BOOK[name].categories, SECRET] if name in BOOK else [SECRET]
        column = TABLE[name].cast(pa.string()).combine_chunks()
        codes = pa.array([None if v is None else values.index(v) for v in column.to_pylist()], pa.int8())
        spare = pa.DictionaryArray.from_arrays(codes, pa.array(values))
        changed = TABLE.set_column(TABLE.column_names.index(name), name, spare)
        if path.suffix == ".parquet":
            pq.write_table(changed.replace_schema_metadata(None), path)
        else:
            with pa.ipc.new_file(path, changed.schema) as file:
                file.write_table(changed)

    return forge


def with_values_under_nulls(path: Path) -> None:
    column = TABLE["region"].combine_chunks()
    valid, codes = column.indices.buffers()
    held = np.frombuffer(codes, np.int8).copy()
    held[np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))] = 2
    hidden = pa.Array.from_buffers(pa.int8(), len(column), [valid, pa.py_buffer(held)])
    table = TABLE.set_column(1, "region", pa.DictionaryArray.from_arrays(hidden, column.dictionary))
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


FORGERIES: list[tuple[str, str, Callable[[Path], None]]] = [
    (".parquet", "bytes", forged_parquet),
    (".parquet", "bytes", partial(forged_parquet, write_page_checksum=True)),
    (".parquet", "bytes", partial(forged_parquet, row_group_size=7)),
    (".parquet", "bytes", partial(forged_parquet, use_dictionary=False, write_statistics=False)),
    (".parquet", "data", with_field_metadata),
    (".arrow", "data", with_field_metadata),
    (".parquet", "data", with_file_metadata),
    (".arrow", "data", with_file_metadata),
    (".arrow", "bytes", with_batch_metadata),
    (".parquet", "data", with_a_spare_category("sex")),
    (".arrow", "data", with_a_spare_category("sex")),
    (".arrow", "bytes", with_values_under_nulls),
]


@pytest.mark.parametrize(("suffix", "check", "forge"), FORGERIES)
def test_what_hides_in_a_format_is_refused(
    tmp_path: Path, suffix: str, check: str, forge: Callable[[Path], None]
) -> None:
    root = make(tmp_path / "release", data_name=f"data{suffix}").path
    forge(root / f"data{suffix}")
    found = outcome(root)
    assert next(name for name, ok in found.items() if ok is False) == check
    with pytest.raises(ReleaseError, match=check):
        release.verify(root)


def test_metadata_of_any_part_of_a_folder_is_seen(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        with formats.open_parts(path, ".parquet", (200, 200), TABLE.schema) as writer:
            for batch in TABLE.to_batches():
                writer.write(batch)

    root = make(tmp_path / "release", data_writer=write, data_name="data").path
    assert release.verify(root).ok
    second = root / "data" / "part-00001.parquet"
    part = pq.read_table(second)
    second.unlink()
    writer_of(part.replace_schema_metadata({"history": SECRET}))(second)

    def change(manifest: dict[str, Any]) -> None:
        content = second.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        manifest["files"]["data/part-00001.parquet"] = {"bytes": len(content), "sha256": digest}

    edit(root / "manifest.json", change)
    with pytest.raises(ReleaseError, match=r"data: part-00001.parquet: the data file contains metadata of its own"):
        release.verify(root)


def test_other_libraries_are_said_to_be_there_and_never_pass_for_a_check(tmp_path: Path) -> None:
    root = make(tmp_path / "release").path
    edit(root / "manifest.json", lambda m: m.update(written_with="pyarrow 1.0"))
    assert release.verify(root).ok  # the bytes are the same, whoever wrote them
    assert "with pyarrow 1.0 wrote them" in release.verify(root).stated[-1]
    pq.write_table(TABLE, root / "data.parquet")
    rebuild(root)
    found = release.verify(root, raise_if_failed=False)
    assert (found.ok, found.verdict, found.exit_code) == (False, "incomplete", 9)
    (problem,) = found.problems
    assert "bytes: the library here writes these records in other bytes" in problem
    assert "verify with pyarrow 1.0" in problem
    assert "NOT VERIFIED: the release is consistent, but a check could not run here: bytes." in str(found)
    with pytest.raises(UncheckedError, match=r"pyarrow 1\.0"):
        release.verify(root)
    with_a_spare_category("sex")(root / "data.parquet")
    assert outcome(root)["data"] is False  # whatever the manifest names
    edit(root / "manifest.json", lambda m: m.update(written_with=f"pyarrow {SECRET * 50}"))
    with pytest.raises(ReleaseError, match="manifest"):
        release.verify(root)


def test_a_release_that_would_not_verify_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="byte for byte"):
        make(tmp_path / "release", data_writer=forged_parquet)
    assert list(tmp_path.iterdir()) == []


LABELLED = Variable("sex", role="key", type="int64", categories=(1, 2), labels=("F", "M"), label="Sex")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".sav", ".dta"])
def test_labels_are_those_that_the_codebook_publishes(tmp_path: Path, suffix: str) -> None:
    """What a person takes out of the codebook is not in the data either, and a forger who puts it back is refused."""
    labels = json.dumps({"1": "Female", "2": "Male", "3": SECRET})
    field = pa.field("sex", pa.int64(), metadata={"label": f"Sex, {SECRET}", "value_labels": labels})
    table = pa.table([pa.array([1, 2, 2, 1])], schema=pa.schema([field]))
    path = _written(tmp_path / f"in{suffix}", table)
    for variable, label in ((LABELLED, b"Sex"), (replace(LABELLED, label=""), None)):
        book = Codebook((variable,))
        law = Mechanism({"sex": randomised_response(2, 1.0)}, book)
        source, out = formats.read(path, book), tmp_path / f"{variable.label or 'none'}{suffix}"
        assert SECRET.encode() in (source.schema.field("sex").metadata[b"label"])
        LocalEngine().perturb(source, law, KEY, partial(formats.open_writer, out))
        assert SECRET.encode() not in out.read_bytes()
        said = formats.read(out).schema.field("sex").metadata
        assert (said.get(b"label"), json.loads(said[b"value_labels"])) == (label, {"1": "F", "2": "M"})
        with pytest.raises(DataError, match="metadata that the codebook does not give; got label, value_labels"):
            make(tmp_path / "x", data_writer=writer_of(table), data_name=f"data{suffix}", mechanism=law, claims=())


# -- what is missing --------------------------------------------------------------------------------------------------

CARRIED = Codebook(
    (
        Variable("sex", role="key", categories=("F", "M")),
        Variable("weight", role="weight", type="double", missing="keep"),
        Variable("age", role="other", type="int64", missing="keep"),
    )
)
SEX = Mechanism((Block(("sex",), randomised_response(2, 1.0)),), CARRIED)
KEY = ReleaseKey.from_seed(7)
PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))[0]


def masked(values: Any, missing: list[int]) -> pa.Array:
    """Return an array whose missing values are in its memory all the same, as a mask leaves them."""
    valid = np.ones(len(values), dtype=bool)
    valid[missing] = False
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


@pytest.mark.parametrize("engine", [LocalEngine(), LocalEngine(threads=1, batch_rows=2), DuckDBEngine()])
def test_no_value_under_a_mask_and_no_payload_of_a_nan_is_released(tmp_path: Path, engine: Engine) -> None:
    weights = np.array([0.5, PAYLOAD, 7654321.5, 1.5])
    table = pa.table(
        {
            "sex": pa.array(["F", "M", "F", "M"]),
            "weight": masked(weights, [2]),
            "age": masked(np.array([7, 8, 987654321, 9]), [2]),
        }
    )
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as file:
        file.write_table(table)
    assert np.int64(987654321).tobytes() in (tmp_path / "in.arrow").read_bytes()
    source, out = formats.read(tmp_path / "in.arrow", CARRIED), tmp_path / "out.arrow"
    engine.perturb(source, SEX, KEY, partial(formats.open_writer, out), shuffle=False)
    content = out.read_bytes()
    for hidden in (np.int64(987654321).tobytes(), np.float64(7654321.5).tobytes(), b"\xef\xbe\xad\xde"):
        assert hidden not in content
    with pa.ipc.open_file(out) as file:
        assert file.read_all().select(["weight", "age"]).to_pydict() == {
            "weight": [0.5, None, None, 1.5],
            "age": [7, 8, None, 9],
        }


def test_nan_is_missing_wherever_the_records_come_from(tmp_path: Path) -> None:
    """One table as a file of each format, through DuckDB, and as a frame: the releases hold the same values."""
    table = pa.table({"sex": ["F", "M", "F"], "weight": [0.5, math.nan, None], "age": [1, None, 3]})
    found = []
    paths = [_written(tmp_path / f"in{suffix}", table) for suffix in (".parquet", ".csv", ".arrow")]
    sources = [formats.read(path, CARRIED) for path in paths]
    sources += [DuckDBSource(f"FROM '{tmp_path / 'in.parquet'}'"), TableSource(table)]
    for number, source in enumerate(sources):
        out = tmp_path / f"out{number}.parquet"
        LocalEngine().perturb(source, SEX, KEY, partial(formats.open_writer, out))
        found.append(pq.read_table(out).to_pydict())
    assert found[0]["weight"].count(None) == 2
    assert all(values == found[0] for values in found)
    strict = Codebook((CARRIED["sex"], replace(CARRIED["weight"], missing="error"), CARRIED["age"]))
    for source in sources:
        with pytest.raises(DataError, match="variable 'weight': a value is missing"):
            LocalEngine().perturb(source, SEX.bind(strict), KEY, partial(formats.open_writer, tmp_path / "x.parquet"))


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_nan_is_missing_where_none_may_be(tmp_path: Path, suffix: str, missing: float | None) -> None:
    """The policy 'error' sees it on the way in and on the way out, whatever the file calls it."""
    table = TABLE.set_column(5, "weight", pa.array([missing, *TABLE["weight"].to_pylist()[1:]], pa.float64()))
    root = make(tmp_path / "release", data_name=f"data{suffix}").path
    (root / f"data{suffix}").unlink()
    writer_of(table)(root / f"data{suffix}")
    assert outcome(root)["data"] is False
    book = release.read(root).codebook
    source = formats.read(root / f"data{suffix}", book)
    with pytest.raises(DataError, match="missing"):
        LocalEngine().perturb(source, LAW.bind(book), KEY, partial(formats.open_writer, tmp_path / f"x{suffix}"))


@pytest.mark.parametrize("missing", ["keep", "category"])
def test_a_joint_block_has_a_law_for_what_is_missing_or_is_refused(tmp_path: Path, missing: Any) -> None:
    """A record with one of two values kept missing is in no cell: neither protect nor verify takes such a block."""
    book = Codebook(tuple(Variable(n, role="key", categories=("x", "y"), missing=missing) for n in "ab"))
    size = 9 if missing == "category" else 4
    table = pa.table({"a": pa.array(["x", None] * 20), "b": pa.array(["y"] * 40)})
    law = Mechanism((Block(("a", "b"), randomised_response(size, 1.0)),))
    if missing == "keep":
        with pytest.raises(SpecificationError, match="perturbed jointly"):
            law.bind(book)
    else:
        source = formats.read(_written(tmp_path / "in.parquet", table), book)
        write = partial(LocalEngine().perturb, source, law.bind(book), KEY)

        def data_writer(path: Path) -> None:
            write(partial(formats.open_writer, path))

        root = make(tmp_path / "release", data_writer=data_writer, mechanism=law.bind(book), claims=()).path
        assert release.verify(root).ok

        def keep(data: dict[str, Any]) -> None:
            for variable in data["variables"]:
                variable["missing"] = "keep"

        edit(root / "codebook.json", keep)
        edit(root / "mechanism.json", keep)
        found = outcome(root)
        assert next(name for name, ok in found.items() if ok is False) == "mechanism"


def _written(path: Path, table: pa.Table) -> Path:
    writer_of(table)(path)
    return path


def test_the_manifest_names_the_library(tmp_path: Path) -> None:
    made = make(tmp_path / "release")
    assert made.manifest["written_with"] == formats.library_of("data.parquet")
    assert pa.__version__ in made.manifest["written_with"]
    assert canonical_json.parse((made.path / "manifest.json").read_bytes(), "manifest") == made.manifest


def test_data_that_cannot_be_read_here_are_neither_verified_nor_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path / "release", without_missing()[0], data_name="data.sav", mechanism=without_missing()[1]).path
    with monkeypatch.context() as patched:
        patched.setattr("importlib.util.find_spec", lambda name: None)
        found = release.verify(root, raise_if_failed=False)
        assert found.verdict == "incomplete"
        left = {check.name: check.sentence for check in found.checks if check.outcome == "not run"}
        assert list(left) == ["data", "margins", "bytes", "derived"]
        assert "is not installed" in left["data"]
        assert left["bytes"] == "not checked, because an earlier check could not run here"
        edit(root / "certificate.json", lambda c: c["not_covered"].pop())
        rehash(root)
        assert release.verify(root, raise_if_failed=False).verdict == "failed"  # what can be checked still is
    assert release.verify(root, raise_if_failed=False).verdict == "failed"
