"""The digest of a table against its definition, record by record in plain Python."""

import datetime
import hashlib
import json
import struct

import numpy as np
import pyarrow as pa
import pytest

from postrand.engines import table_digest
from postrand.engines.table_digest import TableDigest
from postrand.errors import UsageError


def written(value: object) -> bytes:
    if value is None or value != value:
        return b"-"
    data = struct.pack(">d", value) if isinstance(value, float) else str(value).encode()
    return str(len(data)).encode() + b":" + data


def defined(table: pa.Table) -> str:
    rows = (hashlib.sha256(b"".join(map(written, row.values()))).digest() for row in table.to_pylist())
    names = json.dumps(table.schema.names).encode()
    return hashlib.sha256(b"postrand table\0" + names + b"\0" + b"".join(sorted(rows))).hexdigest()


@pytest.mark.parametrize("most", [1, 40, 1 << 12])
def test_the_digest_is_the_defined_one_however_columns_are_coded(most, monkeypatch):
    monkeypatch.setattr(table_digest, "MOST_COMBINATIONS", most)
    rng, n = np.random.default_rng(1), 500

    def coded(size: int, nulls: float) -> pa.Array:
        indices = pa.array(rng.integers(0, size, n), pa.int8(), mask=rng.random(n) < nulls)
        return pa.DictionaryArray.from_arrays(indices, [f"é{c}" for c in range(size)])

    table = pa.table({
        "a": coded(3, 0.2), "b": coded(40, 0), "c": coded(5, 0.5),
        "x": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.3),
        "t": pa.array([f"plain {c}" if c else None for c in rng.integers(0, 7, n)]), "d": coded(2, 0),
        "i": pa.array(rng.integers(-9, 9, n)),
        "odd": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 2, n)), pa.array(["a", None])),
    })  # fmt: skip
    for names in (table.schema.names, ["a"], ["x"], ["t", "d"], ["c", "b", "a", "d"]):
        part = table.select(names)
        for size in (n, 7):
            with TableDigest(names) as digest:
                for batch in part.to_batches(max_chunksize=size):
                    digest.add(batch)
                assert digest.hexdigest() == defined(part)


def test_batches_and_the_pieces_they_are_cut_into_change_nothing():
    n, rng = 40_000, np.random.default_rng(3)
    batch = pa.record_batch({"id": pa.array(rng.permutation(n)), "sex": pa.array(rng.choice(["f", "m"], n).tolist())})
    found = []
    for size in (n, 1_000):
        with TableDigest(["id", "sex"]) as table:
            for start in range(0, n, size):
                table.add(batch.slice(start, size))
            found.append((table.records, table.hexdigest()))
    assert found[0] == found[1]


@pytest.mark.parametrize("most", [(3, 3, 3, 3), (3, 1, 1, 1), (1 << 60,) * 4])
def test_digests_come_in_ascending_order_whichever_of_their_words_are_equal(most):
    rng = np.random.default_rng(4)
    words = [rng.integers(0, size, 500).astype(np.uint64) for size in most]
    found = zip(*(word.tolist() for word in table_digest._ascending(words)), strict=True)
    assert [*found] == sorted(zip(*(word.tolist() for word in words), strict=True))


def test_temporary_files_live_as_long_as_the_digest_is_made(tmp_path):
    with TableDigest(["a"], memory=1, scratch=tmp_path) as table:
        table.add(pa.record_batch({"a": pa.array(range(100))}))
        assert [*tmp_path.iterdir()]
    assert not [*tmp_path.iterdir()]


INSTANT = datetime.datetime(2026, 3, 4, 5, 6, 7, 890_123)
MICROSECONDS = 1_772_600_767_890_123  # of INSTANT since 1970, by hand: 20,516 days and 5:06:07.890123
OF_DAY = "18367890123"  # 5:06:07.890123


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.binary(), b"\xff:", b"\xff:"),
        (pa.large_binary(), b"\xff\x00", b"\xff\x00"),
        (pa.string(), "é", "é".encode()),
        (pa.large_string(), "é", "é".encode()),
        (pa.bool_(), True, b"true"),
        (pa.int8(), -7, b"-7"),
        (pa.uint64(), 2**64 - 1, b"18446744073709551615"),
        (pa.float32(), 0.5, struct.pack(">d", 0.5)),
        (pa.float64(), -0.0, struct.pack(">d", -0.0)),
        (pa.timestamp("ns"), INSTANT, str(MICROSECONDS).encode()),
        (pa.timestamp("us", "Europe/Vienna"), INSTANT.replace(tzinfo=datetime.UTC), str(MICROSECONDS).encode()),
        (pa.timestamp("s"), INSTANT.replace(microsecond=0), str(MICROSECONDS - 890_123).encode()),
        (pa.time64("ns"), INSTANT.time(), OF_DAY.encode()),
        (pa.time32("ms"), INSTANT.time().replace(microsecond=890_000), b"18367890000"),
        (pa.date32(), INSTANT.date(), b"20516"),
        (pa.date64(), INSTANT.date(), b"20516"),
    ],
    ids=str,
)
def test_values_of_every_type_are_written_as_documented(kind, value, text):
    rows = (str(len(text)).encode() + b":" + text, b"-")
    wanted = hashlib.sha256(b'postrand table\0["a"]\0' + b"".join(sorted(hashlib.sha256(r).digest() for r in rows)))
    with TableDigest(["a"]) as table:
        table.add(pa.record_batch({"a": pa.array([value, None], kind)}))
        assert table.records == 2
        assert table.hexdigest() == wanted.hexdigest()


def test_a_type_that_no_table_holds_is_refused():
    with TableDigest(["a"]) as table, pytest.raises(UsageError, match="a column has a type"):
        table.add(pa.record_batch({"a": pa.array([[1], [2]])}))
    with TableDigest(["a"]) as table:
        table.add(pa.record_batch({"a": pa.array([], pa.int64())}))
        assert table.records == 0
        assert table.hexdigest() == hashlib.sha256(b'postrand table\0["a"]\0').hexdigest()
