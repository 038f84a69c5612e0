"""The verifier in one file: it agrees with the package on every kind of release, and on every forgery."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import release
from postrand.certification.certificate import Claim, Facts
from postrand.cli import main
from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.privacy import (
    ApproximateDifferentialPrivacy,
    Bistochastic,
    ConcentratedPrivacy,
    DifferentialPrivacy,
    MetricPrivacy,
    RenyiPrivacy,
)
from postrand.ranks import RankBand
from postrand.ranks.column import RankedColumn
from postrand.ranks.values import released_level
from postrand.release import canonical_json
from tests.both_verifiers import ALONE, FILE, disagreement
from tests.conftest import ROOT
from tests.release_case import edit, make, rehash, writer_of
from tests.test_forgeries import FORGERIES, JSON
from tests.test_forgeries_hostile import HOSTILE, a_folder, a_link, a_pipe, a_socket

FIXTURES = sorted(path.parent for path in (ROOT / "tests/fixtures/releases").glob("*/*/manifest.json"))
N = 300
RNG = np.random.default_rng(23)


def texts(*categories):
    return pa.array(np.array(categories)[RNG.integers(len(categories), size=N)])


COLUMNS = {
    "a": texts("n", "e", "s"),
    "b": texts("x", "y"),
    "c": pa.array(RNG.integers(1, 5, N)),
    "big": pa.array(RNG.integers(0, 70, N)),
    "pay": pa.array(RNG.integers(10, 90, N) / 4),
}
VARIABLES = {
    "a": Variable("a", "key", ("n", "e", "s")),
    "b": Variable("b", "key", ("x", "y")),
    "c": Variable("c", "other", (1, 2, 3, 4), type="int64"),
    "big": Variable("big", "sensitive", tuple(range(70)), type="int64"),
    "pay": Variable("pay", "sensitive", type="double"),
}
ONE, TWO = Block(("a",), randomised_response(3, 1.0)), Block(("b",), randomised_response(2, 1.0))
# Three values on a line, which keep e^0.5 at distance 1.
LINE = TransitionMatrix(
    np.array(
        [
            [UNIT // 2, UNIT // 4, UNIT // 4],
            [UNIT * 3 // 8, UNIT * 3 // 8, UNIT // 4],
            [UNIT // 4, UNIT * 3 // 8, UNIT * 3 // 8],
        ]
    )
)
STRATA = TransitionMatrix(
    np.block(
        [
            [randomised_response(3, 0.5).weights, np.zeros((3, 3))],
            [np.zeros((3, 3)), randomised_response(3, 1.5).weights],
        ]
    ).astype(np.int64)
)
CELLS = tuple((b, a) for b in range(2) for a in range(3))
BAND = RankedColumn(
    "pay", RankBand(5), "permute", N, released_level(np.sort(COLUMNS["pay"].to_numpy()), RankBand(5), "permute")
)
KINDS: dict[str, tuple[list[Block], list[object]]] = {
    "approximate": ([ONE, TWO], [ApproximateDifferentialPrivacy(1.5, 0.2)]),
    "renyi": ([ONE, TWO], [RenyiPrivacy(1.4, 2.0), RenyiPrivacy(1.6, 2.5)]),
    "concentrated": ([ONE, TWO], [ConcentratedPrivacy(0.9)]),
    "bistochastic": ([ONE, TWO], [Bistochastic(0.5)]),
    "metric": ([Block(("a",), LINE)], [MetricPrivacy(1.0, ((0, 1, 1.0), (1, 2, 1.0)))]),
    "strata": ([Block(("b", "a"), STRATA, CELLS, given=("b",))], [DifferentialPrivacy(1.5)]),
    "constant": ([Block(("big",), randomised_response(70, 3.0))], [DifferentialPrivacy(3.0)]),
    "spent": ([replace(ONE, provenance="dp", prior_epsilon=0.25), TWO], [DifferentialPrivacy(2.3)]),
    "band": ([ONE], [DifferentialPrivacy(1.0)]),
}


def kind(folder: Path, name: str) -> Path:
    blocks, models = KINDS[name]
    own = [v for block in blocks for v in block.variables if v not in block.given]
    shown = [n for n in VARIABLES if n in own or any(n in b.given for b in blocks) or (name == "band" and n == "pay")]
    book = Codebook(tuple(VARIABLES[n] for n in shown))
    law = Mechanism(blocks, book, numerical=[BAND] if name == "band" else [])
    table = pa.table({n: COLUMNS[n] for n in shown})
    claims = [Claim(model, tuple(own), within=name == "strata") for model in models]
    made = make(
        folder / "r", data_name="data.csv", data_writer=writer_of(table), mechanism=law, claims=claims, facts=Facts()
    )
    return made.path


@pytest.mark.parametrize("root", FIXTURES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_release_that_is_kept_verifies_alone(root: Path) -> None:
    assert [line for line in ALONE.verify(str(root)).lines if line[0] in ("WRONG", "not checked")] == []


@pytest.mark.parametrize("name", KINDS)
def test_a_level_of_every_model_is_derived_and_none_can_be_understated(tmp_path: Path, name: str) -> None:
    root = kind(tmp_path, name)
    assert disagreement(root, release.verify(root)) == ""
    unknown = {"concentrated": 9}
    assert ALONE.verify(str(root)).code == unknown.get(name, 0)
    lower = 1.01 if name == "bistochastic" else 0.99
    edit(root / "certificate.json", lambda c: c["claims"][0].update(level=c["claims"][0]["level"] * lower))
    rehash(root)
    assert ALONE.verify(str(root)).code == 7


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("alone") / "release").path


def as_text(root: Path) -> None:
    """Put the records of a forged release into a CSV file, which the file reads."""
    table = pq.read_table(root / "data.parquet")
    table = pa.table(
        {
            n: c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c
            for n, c in zip(table.column_names, table.columns, strict=True)
        }
    )
    writer_of(table)(root / "data.csv")
    (root / "data.parquet").unlink()
    edit(root / "manifest.json", lambda m: m.update(data="data.csv"))
    rehash(root)


# What the file passes, and why: it compares no page, and of data that are no CSV the digest alone.
PASSED = {"a_report_that_understates": 9, "a_report_with_a_script": 9, "no_parquet_at_all": 9}
PASSED |= {"secrets_in_the_file_metadata": 9, "a_record_left_out": 9}


@pytest.mark.parametrize("name", FORGERIES)
def test_every_forgery_is_refused_alone(genuine: Path, tmp_path: Path, name: str) -> None:
    forge, check = FORGERIES[name]
    root = shutil.copytree(genuine, tmp_path / "r")
    forge(root)
    if check == "data" and name not in PASSED:
        as_text(root)
    report = ALONE.verify(str(root))
    assert report.code == PASSED.get(name, 7), report.lines


def test_a_hostile_folder_is_refused_alone_and_in_a_sentence(genuine: Path, tmp_path: Path) -> None:
    """Pipes, sockets, links and folders; texts that no reader wants; endless files; and what no field expects."""
    root = tmp_path / "r"

    def refused(change, *arguments) -> bool:
        shutil.copytree(genuine, root)
        change(*arguments)
        report = ALONE.verify(str(root))
        shutil.rmtree(root)
        return report.code == 7 and all("Traceback" not in said for _, _, said in report.lines)

    def put(name: str, change) -> None:
        value = json.loads((root / name).read_text())
        change(value)
        (root / name).write_bytes(canonical_json.dump(value))
        rehash(root)

    for name in (*JSON, "data.parquet"):
        assert all(refused(kind, root / name) for kind in (a_pipe, a_socket, a_link, a_folder))
        (tmp_path / "elsewhere").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
        assert refused(lambda name=name: os.truncate(root / name, 1 << 40))
    for name in JSON[:3]:
        for text in ('{\n  "a": ' + "9" * 5000 + "\n}\n", "[" * 10**5, "", "{}\n", "[]\n"):
            assert refused(lambda name=name, text=text: (root / name).write_text(text))
        for what in (HOSTILE["lists in lists"], HOSTILE["a number of 4,001 digits"]):
            for field in json.loads((genuine / name).read_text()):
                assert refused(put, name, lambda value, field=field, what=what: value.update({field: what})), field


def test_it_runs_without_any_library_and_in_no_way_twice(tmp_path: Path) -> None:
    root = ROOT / "tests/fixtures/releases/3/split"
    command = [sys.executable, "-I", "-S", str(FILE)]
    run = subprocess.run([*command, str(root)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.splitlines()[-1], run.stderr) == (0, "verified", "")
    imported = set(re.findall(r"^(?:from|import) (\w+)", FILE.read_text("utf-8"), re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)
    ast.parse(FILE.read_text("utf-8"), feature_version=(3, 9))
    assert ALONE.main([]) == ALONE.main(["a", "b"]) == ALONE.main(["--signer"]) == 2
    assert ALONE.main([str(tmp_path / "nothing")]) == 7


def test_the_command_writes_it_and_its_digest_is_published(tmp_path: Path) -> None:
    out = tmp_path / "v.py"
    result = CliRunner().invoke(main, ["verifier", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    found = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert out.read_bytes() == FILE.read_bytes()
    assert json.loads(result.output)["sha256"] == found
    page = (ROOT / "docs" / "verification.md").read_text("utf-8")
    assert re.findall(r"[0-9a-f]{64}", page) == [found], f"put {found} into docs/verification.md"
    assert CliRunner().invoke(main, ["verifier", "--out", str(out)]).exit_code == 2
