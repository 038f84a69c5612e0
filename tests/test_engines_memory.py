"""Memory of a fresh process that writes a table: bounded by the limit, however many records there are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from postrand.engines import order

RECORDS = (200_000, 3_200_000)
LIMIT = 64 << 20
FILL = """
import json, resource, sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand.engines.duckdb import duckdb_transaction
from postrand.engines.resources import Resources

path, records, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
schema = pa.schema([(f"v{n}", pa.string()) for n in range(4)] + [("w", pa.float64())])
rng = np.random.default_rng(1)
texts = pa.array([f"category {n}" for n in range(9)])
peaks = []
with duckdb_transaction(path, Resources(threads=1, memory_limit=limit, scratch=path.parent)) as transaction:
    with transaction.loading("data", schema) as writer:
        for start in range(0, records, 1 << 16):
            rows = min(1 << 16, records - start)
            columns = [texts.take(pa.array(rng.integers(0, 9, rows))) for _ in range(4)]
            writer.write(pa.record_batch([*columns, pa.array(rng.random(rows))], schema=schema))
            if not peaks:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(json.dumps([peak * 1024 for peak in peaks]))
"""
SORT = """
import json, resource, sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from postrand.engines.order import KeyedOrder, in_order

path, records, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng, found, last = np.random.default_rng(1), 0, -1
with KeyedOrder(limit, path.parent) as order:
    first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for start in range(0, records, 1 << 16):
        rows = min(1 << 16, records - start)
        words = rng.integers(0, 1 << 63, (rows, 2), dtype=np.uint64)
        order.add(pa.record_batch([pa.array((words[:, 0] >> np.uint64(32)).astype(np.int64))] , names=["v"]), words)
    for part in order.parts():
        values = in_order(part)[0].column("v").to_numpy()
        assert not len(values) or (values[0] >= last and (np.diff(values) >= 0).all())
        found, last = found + len(values), values[-1] if len(values) else last
assert found == records
print(json.dumps([peak * 1024 for peak in (first, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)]))
"""


def grown(code: str, path: Path, records: int) -> int:
    """Return by how many bytes the peak of a fresh process grew after its first records."""
    words = [sys.executable, "-c", code, str(path), str(records), str(LIMIT)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    before, after = json.loads(done.stdout)
    return int(after - before)


@pytest.mark.parametrize("code", [FILL, SORT], ids=["into DuckDB", "sorting"])
def test_memory_does_not_grow_with_the_records(code, tmp_path):
    few, many = (grown(code, tmp_path / f"{records}.file", records) for records in RECORDS)
    assert many < 2 * LIMIT + (64 << 20)
    assert few < many + (32 << 20)


def test_sorted_pieces_are_sorted_as_a_whole():
    """Pieces follow each other, equal keys are counted, and small numbers are cut as well as words of 64 bits."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(2)
    for top in (1 << 63, 300_000, 5, 1):
        first = rng.integers(0, top, 200_000, dtype=np.uint64)
        second = rng.integers(0, 3, len(first), dtype=np.uint64)
        table = pa.table({"v": first, order.WORDS[0]: first, order.WORDS[1]: second})
        pieces = list(order.pieces_in_order(table))
        values = np.concatenate([piece.column("v").to_numpy() for piece, _ in pieces])
        assert (values == np.sort(first)).all()
        _, counts = np.unique(np.stack([first, second], axis=1), axis=0, return_counts=True)
        assert sum(repeated for _, repeated in pieces) == counts[counts > 1].sum()
