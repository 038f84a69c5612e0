"""Time a census: 100 million records x 5 variables of 10 categories, Parquet to Parquet, in bounded memory.

Run ``python benchmarks/large.py [RECORDS] [ENGINE ...]`` (engines: local, local-unshuffled, spark-1, spark-2). The data
is made in pieces in a temporary folder, and removed at the end. Each engine runs in a fresh process.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# As the command line does.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

RESULTS = Path(__file__).parent / "results"
RECORDS, VARIABLES, CATEGORIES, FILES = 100_000_000, 5, 10, 16
BYTES_PER_RECORD = 40  # source, records put aside and release, with room to spare
ENGINES = ("local", "local-unshuffled", "spark-1", "spark-2")


def simulate(folder, records, variables=VARIABLES, categories=CATEGORIES, files=FILES):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, values = np.random.default_rng(1), [f"category {c}" for c in range(categories)]
    for number in range(files):
        path = folder / f"{number:03}.parquet"
        left = records * (number + 1) // files - records * number // files
        writer = None
        while left:
            rows = min(left, 1 << 20)
            codes = [rng.integers(0, categories, rows).astype(np.int16) for _ in range(variables)]
            columns = [pa.DictionaryArray.from_arrays(c, values) for c in codes]
            table = pa.table(columns, names=[f"v{n}" for n in range(variables)])
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
            left -= rows
        writer.close()


def work(name, source_folder, out):
    """Do the job with one engine; this is the part that is timed."""
    import pyarrow as pa

    from postrand import formats
    from postrand.codebook import Codebook, Variable
    from postrand.data.frames import TableSource
    from postrand.engines import FolderSink, LocalEngine
    from postrand.mechanism import Mechanism
    from postrand.mechanism.matrix import randomised_response
    from postrand.support.randomness import ReleaseKey

    source = formats.read(source_folder)
    first = next(source.batches(batch_size=1))
    variables = tuple(
        Variable(f.name, role="key", categories=tuple(first.column(f.name).dictionary.to_pylist()), type=str(f.type))
        for f in source.schema
    )
    mechanism = Mechanism({v.name: randomised_response(v.size, 1.0) for v in variables}, Codebook(variables))
    each = -(-source.num_rows // len(source.parts))
    sink, key = FolderSink(Path(out), ".parquet", (each,) * len(source.parts)), ReleaseKey.from_seed(1)
    engine, threads = LocalEngine(scratch=Path(out).parent), name.partition("-")[2]
    if name.startswith("spark"):
        from postrand.engines.spark import SparkEngine, local_session

        conf = {"spark.local.dir": str(Path(out).parent), "spark.driver.memory": "4g"}
        engine = SparkEngine(local_session(f"local[{threads}]", **conf), scratch=Path(out).parent)
        # Spark and its Python workers have started when they are timed, as on a cluster in use.
        few, warm = TableSource(pa.Table.from_batches([first])), FolderSink(Path(out).parent / f"warm-{name}")
        engine.perturb(few, mechanism, key, warm)
    elif threads.isdigit():
        engine = LocalEngine(threads=int(threads), scratch=Path(out).parent)
    start, cpu = time.perf_counter(), time.process_time()
    records = engine.perturb(source, mechanism, key, sink, shuffle=threads != "unshuffled")
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    values = records * len(variables)
    found = {"engine": name, "records": records, "variables": len(variables), "seconds": seconds, "cpu_s": cpu}
    print(json.dumps({**found, "values_per_s": values / seconds, "peak_bytes": peak}))


def timed(name, folder, source_folder):
    out = Path(folder) / f"out-{name}"
    command = [sys.executable, __file__, "--work", name, str(source_folder), str(out)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    shutil.rmtree(out)
    return json.loads(done.stdout.splitlines()[-1])


def measure(records, engines, **shape):
    """Return one row for each engine on one simulated file."""
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free
        if free < records * BYTES_PER_RECORD:
            sys.exit(f"{folder}: {free / 1e9:.0f} GB free, {records * BYTES_PER_RECORD / 1e9:.0f} GB wanted")
        source = Path(folder) / "source"
        source.mkdir()
        simulate(source, records, **shape)
        return [timed(name, folder, source) for name in engines]


def markdown(rows):
    yield "| engine | records | variables | wall, s | million values per s | processor time, s | peak memory, MB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        # Of Spark this process is but the driver.
        own = f"{r['cpu_s']:.1f} | {r['peak_bytes'] / 1e6:.0f}" if r["engine"].startswith("local") else "- | -"
        speed = f"{r['seconds']:.1f} | {r['values_per_s'] / 1e6:.1f}"
        yield f"| {r['engine']} | {r['records']:,} | {r['variables']} | {speed} | {own} |"


def main(arguments):
    if arguments[:1] == ["--work"]:
        work(*arguments[1:])
        return
    rows = measure(int(arguments[0]) if arguments else RECORDS, arguments[1:] or ENGINES)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "large.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "large.md").write_text("\n".join(markdown(rows)) + "\n")
    print("\n".join(markdown(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
