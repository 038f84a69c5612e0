"""Time the sampling kernel against plain numpy and against the limit; all in one run, best of several.

The limit is the least that keyed sampling costs: the AES-256 key stream (one 16-byte block for two values, its input
given) and a copy of the codes. Run ``python benchmarks/kernel.py``; results go to benchmarks/results/kernel.{md,json}.
"""

import json
import time
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import child
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.mechanism.sampling import perturb_codes, sampler

RESULTS = Path(__file__).parent / "results"
SIZES = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
CHUNK = 8192  # records: buffers that stay in the second cache
RECORDS, BLOCKS, REPEATS = 1 << 18, 10, 7


def best(function, repeats=REPEATS):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times) / (RECORDS * BLOCKS) * 1e9  # ns per value


def limit(codes):
    """Return the time of the key stream and the copy, from buffers as small as the kernel's."""
    encrypt = Cipher(algorithms.AES256(bytes(32)), modes.ECB()).encryptor()
    plain, cipher = np.zeros(CHUNK * 16, dtype=np.uint8), np.empty(CHUNK * 16 + 15, dtype=np.uint8)
    copies = [np.empty_like(column) for column in codes]

    def run():
        for _ in range(RECORDS // CHUNK * BLOCKS // 2):
            encrypt.update_into(plain, cipher)
        for column, copy in zip(codes, copies, strict=True):
            np.copyto(copy, column)

    return best(run)


def plain_numpy(matrix, codes):
    """Return the time of what one would write in numpy: a uniform number, the cumulated row, a search in it.

    Up to S = 32 all cumulated probabilities are compared at once, in pieces that fit the cache; beyond, each true
    category's records are searched in its row.
    """
    rng, cumulated = np.random.default_rng(1), np.cumsum(matrix.array, axis=1)
    cumulated[:, -1] = 1.0
    size = matrix.size

    def column(true):
        if size <= 32:
            for start in range(0, true.size, CHUNK):
                part = true[start : start + CHUNK]
                (rng.random(part.size)[:, None] >= cumulated[part]).sum(axis=1).astype(true.dtype)
            return
        uniform, released = rng.random(true.size), np.empty_like(true)
        order = np.argsort(true, kind="stable")
        edges = np.searchsorted(true[order], np.arange(size + 1))
        for code in range(size):
            chosen = order[edges[code] : edges[code + 1]]
            released[chosen] = np.searchsorted(cumulated[code], uniform[chosen], side="right")

    return best(lambda: [column(true) for true in codes], 2)


def measure(size, kind):
    matrix = randomised_response(size, 1.0)
    if kind == "dense":
        matrix = TransitionMatrix.from_array(np.random.default_rng(size).dirichlet(np.ones(size), size=size))
    dtype = np.int8 if size <= 127 else np.int16
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, size, RECORDS).astype(dtype) for _ in range(BLOCKS)]
    tables, keys = [sampler(matrix)] * BLOCKS, np.arange(RECORDS, dtype=np.uint64)
    perturb_codes(tables, bytes(32), keys, codes)  # compiled before it is timed
    ours = best(lambda: perturb_codes(tables, bytes(32), keys, codes))
    floor, peer = limit(codes), plain_numpy(matrix, codes)
    child.tell(f"kernel, S = {size}, {kind}: {ours:.2f} ns, limit {floor:.2f}, numpy {peer:.1f}")
    return {"S": size, "matrix": kind, "ours_ns": ours, "limit_ns": floor, "numpy_ns": peer,
            "ours_over_limit": ours / floor, "numpy_over_ours": peer / ours}  # fmt: skip


def markdown(rows):
    yield "| S | matrix | ours, ns per value | limit, ns | plain numpy, ns | ours / limit | numpy / ours |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for r in rows:
        yield (
            f"| {r['S']} | {r['matrix']} | {r['ours_ns']:.2f} | {r['limit_ns']:.2f} | {r['numpy_ns']:.1f} "
            f"| {r['ours_over_limit']:.2f} | {r['numpy_over_ours']:.0f} |"
        )


def measure_all():
    return [measure(size, "k-RR") for size in SIZES] + [measure(size, "dense") for size in (10, 1000)]


def ratios(rows):
    """Return what is compared with the baseline, all of them the smaller the better."""
    found = {f"kernel S={r['S']} {r['matrix']}: ours / limit": r["ours_over_limit"] for r in rows}
    return found | {f"kernel S={r['S']} {r['matrix']}: ours / numpy": 1 / r["numpy_over_ours"] for r in rows}


def main():
    rows = measure_all()
    RESULTS.mkdir(exist_ok=True)
    text = "\n".join(markdown(rows)) + "\n"
    (RESULTS / "kernel.md").write_text(text)
    (RESULTS / "kernel.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
