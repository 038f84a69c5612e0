"""The files of the benchmarks, and their plans, which ``postrand init`` writes as for anybody."""

import json
import os
import shutil

import child

REAL = "ny_like_population_953076.parquet"
SHARED = os.environ.get("SHARED", child.ROOT.parent / "shared" / "data")
RECORDS = 953_076
SIZES = {
    "ownership": 3,
    "mortgage": 4,
    "age": 9,
    "sex": 2,
    "marital_status": 6,
    "race": 5,
    "education": 11,
    "employment": 4,
    "work_disability": 3,
    "veteran": 3,
}
NAMES = tuple(SIZES)
KEYS = ("age", "sex", "marital_status", "race", "education")
"""The keys of the standard plan; the other five variables are sensitive."""


def survey(folder):
    """Return the path of the survey, and what it is: the shared file if it is there, else one of the same size."""
    from pathlib import Path

    given = Path(SHARED) / REAL
    if given.exists():
        return given.resolve(), "New York survey of the shared data"
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, columns, path = np.random.default_rng(1), {}, folder / "survey.parquet"
    for name, size in SIZES.items():
        codes = rng.choice(size, RECORDS, p=rng.dirichlet(np.ones(size))).astype(np.int8)
        columns[name] = pa.DictionaryArray.from_arrays(codes, [f"category {c}" for c in range(size)])
    pq.write_table(pa.table(columns), path)
    return path, "independent columns of the same size, because the shared data are not here"


def grown(path, times, folder):
    """Return a file that holds the records of ``path`` so many times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if times == 1:
        return path
    made, table = folder / f"survey-{times}.parquet", pq.read_table(path)
    with pq.ParquetWriter(made, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)
    del table
    pa.default_memory_pool().release_unused()
    return made


def plan(path, folder, caches, keys=NAMES, sensitive=(), **changes):
    """Return the plan of blocks that ``postrand init`` writes; ``changes`` replaces settings of [release]."""
    roles = ["--keys", ",".join(keys), *(["--sensitive", ",".join(sensitive)] if sensitive else [])]
    child.run(child.postrand("init", path, *roles, "--perturb", "blocks", "--out", folder), caches)
    made = folder / "plan.toml"
    for name, (before, after) in changes.items():
        text = made.read_text()
        assert f"{name} = {before}" in text, name
        made.write_text(text.replace(f"{name} = {before}", f"{name} = {after}"))
    return made


def split_plan(plan, folder, epsilon=8.0):
    """Return the same plan with all variables in one split, in place of a block for each."""
    folder.mkdir()
    shutil.copy(plan.with_name("codebook.toml"), folder)
    head, blocks, _ = plan.read_text().partition("[[blocks]]")
    assert blocks
    made = folder / "plan.toml"
    made.write_text(f"{head}[split]\nvariables = {json.dumps(NAMES)}\nepsilon = {epsilon}\n")
    return made


def standard_plan(path, folder, caches):
    """Return the plan with five keys and five sensitive variables, which are released as they are."""
    sensitive = [name for name in NAMES if name not in KEYS]
    made = plan(path, folder, caches, KEYS, sensitive)
    made.write_text(made.read_text().replace("as_is = []", f"as_is = {json.dumps(sensitive)}"))
    return made
