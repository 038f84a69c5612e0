"""What a release, and all that is shown beside it, tells about the confidential file: docs/leaks.md, line by line."""

import json
import os
import re
import socket
import stat
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand.cli import main
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "leaks.md").read_text("utf-8")
MARK = "xyzzy"  # in everything of the file that nobody chose to release
N = 300
BOOK = """
[[variables]]
name = "id"
role = "record_key"
type = "string"
[[variables]]
name = "sex"
role = "key"
type = "string"
categories = ["F", "M"]
[[variables]]
name = "ill"
role = "sensitive"
type = "string"
categories = ["no", "yes"]
[[variables]]
name = "note"
role = "drop"
"""
PLAN = """
[source]
file = "{file}"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 1.0
[design]
prior = "uniform"
[[blocks]]
variables = ["sex"]
[[blocks]]
variables = ["ill"]
"""


def people(changed: bool) -> pa.Table:
    """Return 300 records, of which one answers otherwise if it is ``changed``."""
    ill = ["yes" if k % 3 == 0 or (changed and k == 1) else "no" for k in range(N)]
    words = pa.DictionaryArray.from_arrays(pa.array([k % 2 for k in range(N)]), pa.array(["F", "M", f"{MARK} unused"]))
    columns = {"id": [f"{MARK}{k}" for k in range(N)], "sex": words, "ill": ill, "note": [f"{MARK} said"] * N}
    table = pa.table(columns)
    fields = [field.with_metadata({"comment": MARK}) for field in table.schema]
    return table.cast(pa.schema(fields, metadata={"pandas": MARK, "author": MARK}))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """Return two folders, each with a release of one file by one plan and key, and what its run printed."""
    found = []
    for changed in (False, True):
        folder = tmp_path_factory.mktemp("leaks") / MARK
        folder.mkdir()
        pq.write_table(people(changed), folder / f"{MARK}.parquet")
        os.utime(folder / f"{MARK}.parquet", (1e9, 1e9))
        (folder / "codebook.toml").write_text(BOOK)
        (folder / "plan.toml").write_text(PLAN.format(file=f"{MARK}.parquet"))
        (folder / "key").write_text("ab" * 32)
        (folder / "key").chmod(0o600)
        options = {"plan": "plan.toml", "out": "release", "dossier": "inside", "key-file": "key"}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(socket, "socket", None)  # nothing is sent anywhere
            done = CliRunner().invoke(main, ["protect", *(t for k, v in options.items() for t in (f"--{k}", v))])
        assert done.exit_code == 0, done.output
        found.append((folder, done.output))
    return found


def test_nothing_that_nobody_chose_is_released_or_printed(made: list[tuple[Path, str]]) -> None:
    """Ids, dropped columns, unused categories, metadata, names of file and folder: in no byte, and in no name."""
    for folder, printed in made:
        files = [path for path in (folder / "release").rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"manifest.json", "report.html", "ddi.xml", "postrand.R"}
        held = [path.relative_to(folder / "release").as_posix().encode() + path.read_bytes() for path in files]
        table = pq.read_table(folder / "release" / "data.parquet")
        held += [str(table.schema).encode(), str(table.to_pydict()).encode(), printed.encode()]
        held.append((folder / "key.ledger").read_bytes())
        assert not [one[:80] for one in held if MARK.encode() in one]
        assert b"ab" * 16 not in b"".join(held)


def test_the_times_of_the_files_are_those_of_the_run(made: list[tuple[Path, str]]) -> None:
    found = [path.stat().st_mtime for folder, _ in made for path in (folder / "release").rglob("*")]
    assert all(time.time() - 3600 < moment <= time.time() + 1 for moment in found)


def test_one_record_changes_the_released_records_and_what_is_made_of_them_alone(made: list[tuple[Path, str]]) -> None:
    """Matrices, certificate and codebook follow from plan and codebook where the prior is public."""
    one, other = (folder / "release" for folder, _ in made)
    names = {path.name for path in one.iterdir()}
    assert names == {path.name for path in other.iterdir()}
    differ = {name for name in names if (one / name).read_bytes() != (other / name).read_bytes()}
    assert differ == {"data.parquet", "report.html", "README.txt", "manifest.json", "croissant.json"}
    first, second = (json.loads((root / "manifest.json").read_bytes()) for root in (one, other))
    digests = {name: (first["files"].pop(name), second["files"].pop(name)) for name in differ - {"manifest.json"}}
    assert first == second
    assert all(a.keys() == b.keys() == {"bytes", "sha256"} for a, b in digests.values())


def test_what_stays_inside_is_its_owner_s_alone(made: list[tuple[Path, str]]) -> None:
    for folder, _ in made:
        kept = [folder / "inside", *(folder / "inside").iterdir(), folder / "key.ledger"]
        assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in kept} == {0}


def test_the_page_has_every_file_field_and_exit_code(made: list[tuple[Path, str]]) -> None:
    folder = made[0][0]
    names = {path.name for part in ("release", "inside") for path in (folder / part).iterdir()}
    names |= {path.name for path in (ROOT / "tests" / "fixtures" / "releases").glob("[0-9]*/**/*.*")}
    ledger = [json.loads(line) for line in (folder / "key.ledger").read_text().splitlines()]
    codes = re.findall(r"\b(\d+) [a-z]", main.help.partition("Exit codes:")[2])
    assert len(codes) > 8
    for name in [*(re.sub(r"\d+", "1", name) for name in names), *ledger[-1], *codes]:
        assert f"`{name}`" in PAGE, name


def test_every_line_of_the_page_names_a_test_that_exists() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    rows = [row for row in rows if not row.startswith(("| ---", "| what"))]
    assert len(rows) > 25
    for row in rows:
        held = row.split("|")[3]
        named = re.findall(r"`(test_\w+)\.(test_\w+)`", held)
        assert named or held == " none: nothing is promised ", row
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests" / f"{file}.py").read_text("utf-8"), test
