"""Time a dataframe in memory, perturbed as a user calls it: each kind in a fresh process, best of several calls.

953,076 records x 10 variables, k-RR at ε = 1 each. Beside each kind, in the same process and run: the kernel alone, on
one core, with its input ready; and what one would write for k-RR in numpy, from codes to codes. Beside text: Arrow's
``dictionary_encode`` of the same columns, on as many threads, which is the first half of any way by codes. Memory is
what the first call adds to the peak of the process, over the bytes of the frame; the kernels are loaded before.
Run ``python benchmarks/frames.py``; results go to benchmarks/results/frames.{md,json}.
"""

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import child

RESULTS = Path(__file__).parent / "results"
RECORDS, SIZES = 953_076, (3, 4, 9, 2, 6, 5, 11, 4, 3, 3)
CALLS = 9
KINDS = (
    "pandas categorical",
    "pandas categorical, other order",
    "pandas text",
    "polars Enum",
    "polars Categorical",
    "Arrow dictionary int8",
    "Arrow dictionary int32",
    "Arrow text",
)


def best(function, calls=CALLS, clock=time.perf_counter):
    """Return the shortest time of several calls by a clock, ns per value."""
    times = []
    for _ in range(calls):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times) / (RECORDS * len(SIZES)) * 1e9


def categories(size):
    return [f"category {code}" for code in range(size)]


def make_codes():
    import numpy as np

    rng = np.random.default_rng(1)
    return [rng.choice(size, RECORDS, p=rng.dirichlet(np.ones(size))).astype(np.int8) for size in SIZES]


def column(kind, codes, size):
    """Return the codes as a column of the library."""
    import numpy as np
    import pyarrow as pa

    texts = categories(size)
    if kind.startswith("Arrow dictionary"):
        return pa.DictionaryArray.from_arrays(codes.astype(kind.split()[-1]), texts)
    if kind == "Arrow text":
        return pa.DictionaryArray.from_arrays(codes, texts).dictionary_decode()
    if kind.startswith("polars"):
        import polars as pl

        values = pl.Series(pa.array(texts)).gather(codes.astype(np.uint32))
        return values.cast(pl.Enum(texts) if kind == "polars Enum" else pl.Categorical())
    import pandas as pd

    made = pd.Series(pd.Categorical.from_codes(codes, texts))
    return made.cat.reorder_categories(texts[::-1]) if "order" in kind else made if "cat" in kind else made.astype(str)


def make_frame(kind, codes):
    data = {f"v{i}": column(kind, held, size) for i, (held, size) in enumerate(zip(codes, SIZES, strict=True))}
    if kind.startswith("pandas"):
        import pandas as pd

        frame = pd.DataFrame(data)
        return frame, int(frame.memory_usage(index=False, deep=True).sum())
    if kind.startswith("polars"):
        import polars as pl

        frame = pl.DataFrame(data)
        return frame, int(frame.estimated_size())
    import pyarrow as pa

    frame = pa.table(data)
    return frame, int(frame.nbytes)


def plain_numpy(codes):
    """Return the time of k-RR as one would write it: stay with one probability, else any of the others."""
    import numpy as np

    rng = np.random.default_rng(1)

    def run():
        for true, size in zip(codes, SIZES, strict=True):
            stay = np.e / (np.e + size - 1)
            other = rng.integers(0, size - 1, true.size, dtype=true.dtype)
            other += other >= true
            np.where(rng.random(true.size) < stay, true, other)

    return best(run, 5)


def encode_text(frame):
    """Return the time in which Arrow finds the codes of a frame's texts, several columns at a time."""
    import pyarrow as pa

    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return best(lambda: list(pool.map(lambda column: column.dictionary_encode(), table.columns)))


def measure_one(kind):
    """Print what one kind takes; this runs in a process of its own."""
    import numpy as np

    import postrand
    from postrand.codebook import Codebook, Variable
    from postrand.mechanism.sampling import perturb_codes, sampler

    names = [f"v{i}" for i in range(len(SIZES))]
    book = [Variable(n, role="key", categories=tuple(categories(s))) for n, s in zip(names, SIZES, strict=True)]
    blocks = {n: postrand.randomised_response(s, epsilon=1.0) for n, s in zip(names, SIZES, strict=True)}
    mechanism, key = postrand.Mechanism(blocks, Codebook(tuple(book))), postrand.ReleaseKey.from_seed(1)
    codes = make_codes()
    frame, size = make_frame(kind, codes)
    postrand.perturb(frame[:100], mechanism, key)
    before, reset = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, reset_peak()
    before = reset or before * 1024
    start = time.perf_counter()
    released = postrand.perturb(frame, mechanism, key)
    first = time.perf_counter() - start
    added = (peak() if reset else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024) - before
    del released
    ours = best(lambda: postrand.perturb(frame, mechanism, key))
    used = best(lambda: postrand.perturb(frame, mechanism, key), clock=time.process_time)
    laws, keys = [sampler(block.matrix) for block in mechanism.blocks], np.arange(RECORDS, dtype=np.uint64)
    kernel = best(lambda: perturb_codes(laws, bytes(32), keys, codes))
    return {
        "kind": kind,
        "ours_ns": ours,
        "cpu_ns": used,
        "first_ns": first / (RECORDS * len(SIZES)) * 1e9,
        "kernel_ns": kernel,
        "numpy_ns": plain_numpy(codes),
        "encode_ns": encode_text(frame) if kind.endswith("text") else None,
        "frame_bytes": size,
        "added_bytes": added,
    }


def reset_peak():
    """Start the peak of this process anew where Linux lets us; returns its resident bytes, or 0."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    return peak()


def peak():
    held = Path("/proc/self/status").read_text()
    return int(held.split("VmHWM:")[1].split()[0]) * 1024


def measure_all():
    """Return a row for each kind of frame."""
    rows = []
    for kind in KINDS:
        command = [sys.executable, __file__, "--kind", kind]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append({"processors": len(os.sched_getaffinity(0)), **json.loads(found.stdout)})
        child.tell(f"frame, {kind}: {rows[-1]['ours_ns']:.1f} ns, kernel {rows[-1]['kernel_ns']:.1f}")
    return rows


def markdown(rows):
    heads = (
        "ns per value",
        "processor, ns",
        "kernel, one core",
        "plain numpy",
        "/ kernel",
        "/ numpy",
        "/ Arrow's dictionary_encode",
        "memory / frame",
    )
    yield f"| frame | {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * len(heads)}"
    for r in rows:
        peer = f"{r['ours_ns'] / r['encode_ns']:.2f}" if r.get("encode_ns") else "–"
        yield (
            f"| {r['kind']} | {r['ours_ns']:.1f} | {r['cpu_ns']:.1f} | {r['kernel_ns']:.1f} | {r['numpy_ns']:.1f} "
            f"| {r['ours_ns'] / r['kernel_ns']:.2f} | {r['ours_ns'] / r['numpy_ns']:.2f} | {peer} "
            f"| {r['added_bytes'] / r['frame_bytes']:.1f} |"
        )


def ratios(rows):
    """Return what is compared with the baseline, all of them the smaller the better."""
    found = {f"frame, {r['kind']}: ours / kernel": r["ours_ns"] / r["kernel_ns"] for r in rows}
    return found | {f"frame, {r['kind']}: memory / frame": r["added_bytes"] / r["frame_bytes"] for r in rows}


def main(arguments):
    if arguments[:1] == ["--kind"]:
        print(json.dumps(measure_one(arguments[1])))
        return
    rows = measure_all()
    text = "\n".join(markdown(rows)) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "frames.md").write_text(text)
    (RESULTS / "frames.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
