"""What a command does not need, it does not import: each row is a fresh process and what it may load that is slow."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy

from postrand.plan import load_plan
from postrand.release.ledger import Ledger
from postrand.support.randomness import ReleaseKey
from postrand.workflow.draft import initialise
from postrand.workflow.pipeline import run

# Each takes from 10 ms (tomlkit) to half a second (scipy.stats) to import, and up to 75 MB.
SLOW = {
    *("numpy", "pyarrow", "cryptography", "numba", "llvmlite", "jinja2", "tomlkit", "narwhals"),
    *("xml.etree", "importlib.metadata"),
    *("scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.linalg", "scipy.special", "scipy._lib._array_api"),
    *("pandas", "polars", "duckdb", "pyspark", "pyreadstat", "openpyxl", "adbc_driver_postgresql"),
    *("statsmodels", "formulaic", "opendp", "dp_accounting", "clarabel", "casadi", "shiny"),
}
ARRAYS = {"numpy", "pyarrow"}
FILES = {"jinja2", "xml.etree"}
DRAW = {"cryptography"}
# Only where no extension was built, numba compiles the loops of a draw, and loads the BLAS interface of SciPy.
COMPILER = set()
if importlib.util.find_spec("postrand.support._loops") is None:
    COMPILER |= {"numba", "llvmlite"}
    DRAW |= {*COMPILER, "scipy.linalg", "scipy._lib._array_api"}
# Older libraries load more by themselves: pyarrow loads pandas if it is there, scipy.special its neighbours.
BY_THEMSELVES = set()
if int(pa.__version__.split(".")[0]) < 26:
    BY_THEMSELVES |= {"pandas"}
if int(scipy.__version__.split(".")[1]) < 17:
    BY_THEMSELVES |= {"scipy.linalg", "scipy.sparse"}
ALLOWED = {
    "": set(),
    "--help": set(),
    "protect --help": set(),
    "protect --plan work/plan.toml --out new": ARRAYS | FILES | DRAW,
    "verify release": ARRAYS | FILES,
    "ledger show key.ledger": ARRAYS,
    "estimate release --table sex,area": ARRAYS,
    "estimate release --mean income --by sex": ARRAYS
    | {"scipy.special", "scipy._lib._array_api", "importlib.metadata"},
    "assess people.parquet --keys sex,area": ARRAYS | {"tomlkit"},
    "assess few.parquet --keys place,job --sampling-fraction 0.1": ARRAYS
    | {*COMPILER, "tomlkit", "scipy.special", "scipy.linalg", "scipy._lib._array_api", "importlib.metadata"},
    "design --plan work/plan.toml": ARRAYS,
    "recode recodes.toml people.parquet": ARRAYS | {"tomlkit"},
    "advise people.parquet --keys sex,area --out advice": ARRAYS | DRAW | {"tomlkit"},
}
OF_A_DOSSIER = {f"postrand.{name}" for name in ("workflow.dossier", "workflow.comparison", "risk.informed")}
"""A fifth of the modules of a release with a dossier stand behind these: one without does not load them."""
SCRIPT = """
import atexit, json, sys
import postrand
atexit.register(lambda: print(json.dumps(sorted(sys.modules))))
if len(sys.argv) > 1:
    from postrand.cli import main
    main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A file, its plan and a release of it; in every group there are records enough for the normal quantiles."""
    folder, rng, n = tmp_path_factory.mktemp("start"), np.random.default_rng(1), 20_000
    table = {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
        "area": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
        "own": np.array(["no", "yes"])[rng.integers(0, 2, n)],
        "income": rng.integers(0, 40, n) + 0.5,
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in table.items()}), folder / "people.parquet")
    few = {name: pa.array([f"{name} {x}" for x in rng.integers(0, 9, 60)]) for name in ("place", "job")}
    pq.write_table(pa.table(few), folder / "few.parquet")  # records that nobody else is like: τ1 and τ2 need a model
    # Of three variables, a design also says what a split would be worth.
    roles = {"key": ["sex", "area", "own"], "other": ["income"]}
    _, plan = initialise(folder / "people.parquet", folder / "work", roles)
    (folder / "recodes.toml").write_text('[[recodes]]\nvariable = "income"\nbands = [0, 10]\n')
    ledger = Ledger(folder / "key.ledger")
    run(load_plan(plan), folder / "release", release_key=ReleaseKey.from_seed(1), ledger=ledger)
    return folder


@pytest.mark.parametrize("command", ALLOWED)
def test_a_command_loads_only_what_it_needs(place, command):
    assert importlib.util.find_spec("pandas") is not None  # or nothing could load it
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *command.split()], cwd=place, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout.splitlines()[-1]))
    assert {"postrand"} <= loaded
    assert not command.startswith("protect") or not loaded & {*OF_A_DOSSIER, "postrand.estimate.by_model"}
    assert loaded & SLOW <= ALLOWED[command] | (BY_THEMSELVES if ALLOWED[command] else set())


FIRST_SCREEN = """
import json, sys
from pathlib import Path
from postrand.app import launch, first, data_views
from postrand.app.decisions import open_decisions
from postrand.app.start import Start
start = Start(Path("people.parquet"))
start.prepare()
assert "Role of sex" in str(data_views.variables(open_decisions(start.take())))
print(json.dumps(sorted(sys.modules)))
"""
ROOMS = {"address", "app", "codebook", "errors", "formats", "plan", "recoding", "report", "support"}
"""What the first screen of the workbench shows, is in these rooms; all that computes is imported after it was sent."""


def test_the_first_screen_of_the_workbench_loads_no_room_that_computes(place):
    ran = subprocess.run([sys.executable, "-c", FIRST_SCREEN], cwd=place, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout))
    rooms = {name.split(".")[1] for name in loaded if name.startswith("postrand.")}
    assert rooms <= ROOMS
    assert not loaded & {"postrand.app.computations", "postrand.app.server", "postrand.plan.plan"}
    assert not loaded & (SLOW - ARRAYS - FILES - {"shiny", "narwhals", "importlib.metadata"} - BY_THEMSELVES)
