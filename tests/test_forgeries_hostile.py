"""Releases made to hurt their reader: each is refused, soon, in little memory, by an error of the tree."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import postrand as pr
from postrand import estimate, release
from postrand.errors import PostrandError, SpecificationError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix, randomised_response
from postrand.mechanism.mechanism import MAX_ENTRIES
from postrand.release import canonical_json
from tests.release_case import LAW, edit, make, rehash, released_table, without_missing

JSON = ("codebook.json", "mechanism.json", "certificate.json", "manifest.json")
LIMITED = """
import resource, signal, sys
from pathlib import Path
from postrand import estimate, release
from postrand.errors import PostrandError
signal.alarm(60)
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
root = Path(sys.argv[1])
found = release.verify(root, raise_if_failed=False)
print(next((check.name for check in found.checks if check.ok is False), "none"))
for read in (release.read, release.rebuild_report, lambda root: estimate.table(release.read(root).frame(), ["sex"])):
    try:
        read(root)
    except PostrandError as error:
        print("refused", "MemoryError" in str(error))
"""


def refused_within_limits(root: Path) -> str:
    """Return the first check that fails, in a process that may take 3 GiB of addresses and a minute."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    first, *others = done.stdout.splitlines()
    assert others == ["refused False"] * 3, done.stdout
    return first


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(path))


def a_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("kind", [a_pipe, a_socket, a_link, a_folder])
@pytest.mark.parametrize("name", [*JSON, "data.parquet"])
def test_nothing_but_plain_files_is_opened(tmp_path: Path, kind: Callable[[Path], None], name: str) -> None:
    """A pipe that nobody writes to would hold its reader for ever: no file is opened before all are looked at."""
    root = make(tmp_path / "release").path
    kind(root / name)
    checks = release.verify(root, manifest_sha256="0" * 64, raise_if_failed=False).checks
    assert (checks[0].name, checks[0].ok) == ("files", False)
    assert f"{name!r} is not a plain file" in checks[0].sentence
    with pytest.raises(PostrandError, match="not a plain file"):
        release.read(root)
    with pytest.raises(PostrandError, match="not a plain file"):
        release.rebuild_report(root)


def test_hard_links_are_plain_files(tmp_path: Path) -> None:
    """What they hold is checked like everything else; only the name is shared."""
    root = make(tmp_path / "release").path
    os.link(root / "data.parquet", tmp_path / "another name")
    assert release.verify(root).ok


@pytest.mark.parametrize("name", JSON)
def test_an_endless_file_is_not_read(tmp_path: Path, name: str) -> None:
    """A sparse file of a terabyte takes no room on the disk."""
    root = make(tmp_path / "release").path
    os.truncate(root / name, 1 << 40)
    if name != "manifest.json":  # nobody has the time to digest it

        def change(manifest: dict[str, Any]) -> None:
            manifest["files"][name]["bytes"] = 1 << 40

        edit(root / "manifest.json", change)
    with pytest.raises(PostrandError, match="cannot be read; got longer than"):
        release.read(root)


@pytest.mark.parametrize("form", ["diagonal", "usual"])
def test_a_compact_law_of_many_categories_is_refused(tmp_path: Path, form: str) -> None:
    """A few megabytes that ask for a matrix of 13 or 97 GB."""
    root, size = make(tmp_path / "release").path, {"diagonal": 110_000, "usual": 40_000}[form]
    half = [UNIT // 2] * size
    compact: dict[str, Any] = {"diagonal": half, "off": [1] * size}
    if form == "usual":
        compact = {"usual": [0] * size, "columns": [[0]] * size, "weights": [[UNIT]] * size}
    law = json.loads((root / "mechanism.json").read_text())
    law["blocks"][0]["weights"] = compact
    (root / "mechanism.json").write_bytes(canonical_json.dump(law))
    rehash(root)
    assert refused_within_limits(root) == "mechanism"
    with pytest.raises(SpecificationError, match="too many entries"):
        release.read(root)


def test_many_laws_that_are_large_together_are_refused() -> None:
    size, count = 4096, MAX_ENTRIES // 4096**2 + 1
    identity = {"usual": [0] * size, "columns": [[k] for k in range(size)], "weights": [[UNIT]] * size}
    block = {"variables": ["x"], "provenance": "public", "weights": identity}
    data = Mechanism({"sex": randomised_response(2, 1.0)}).to_dict() | {"blocks": [block] * count}
    with pytest.raises(SpecificationError, match="too many entries"):
        Mechanism.from_dict(data)


def test_what_cannot_be_read_again_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrand.mechanism.mechanism.MAX_ENTRIES", 12)
    pair = {"a": randomised_response(2, 1.0), "b": randomised_response(3, 1.0)}
    assert Mechanism({"b": pair["b"]}).variables == ("b",)
    with pytest.raises(SpecificationError, match=r"too many entries; got 13; wanted <= 12"):
        Mechanism(pair)
    monkeypatch.setattr(canonical_json, "MAX_BYTES", 40)
    assert canonical_json.dump({"a": [1] * 5})
    with pytest.raises(PostrandError, match="too long"):
        canonical_json.dump({"a": [1] * 50})


def test_a_long_text_among_the_weights_is_no_matrix_of_texts(tmp_path: Path) -> None:
    root = make(tmp_path / "release").path

    def change(law: dict[str, Any]) -> None:
        law["blocks"][0]["weights"] = [["9" * 4_000_000, *[1] * 999]] * 2

    edit(root / "mechanism.json", change)
    rehash(root)
    assert refused_within_limits(root) == "mechanism"


HOSTILE: dict[str, Any] = {
    "a type of types": "dictionary<values=" * 3000 + "string" + ", indices=int8, ordered=0>" * 3000,
    "a number of 4,001 digits": 10**4000,
    "lists in lists": json.loads("[" * 400 + "]" * 400),
    "a long text": "x" * 1_000_000,
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("what", HOSTILE)
def test_no_value_brings_a_reader_down(tmp_path: Path, name: str, what: str) -> None:
    """In place of each entry of the first two levels, in turn."""
    root = make(tmp_path / "release").path
    genuine = json.loads((root / name).read_text())
    places: list[tuple[Any, ...]] = [(key,) for key in genuine]
    places += [(k, i) for k, v in genuine.items() if isinstance(v, dict) for i in v]
    places += [(key, 0) for key, value in genuine.items() if isinstance(value, list) and value]
    places += [("variables", 0, "type")] * (name == "codebook.json")
    for place in places:

        def change(data: Any, place: tuple[Any, ...] = place) -> None:
            *outer, last = place
            for key in outer:
                data = data[key]
            data[last] = HOSTILE[what]

        (root / name).write_bytes(canonical_json.dump(genuine))
        edit(root / name, change)
        if name != "manifest.json":
            rehash(root)
        assert not release.verify(root, raise_if_failed=False).ok, place
        try:
            found = release.read(root)
            estimate.table(found.frame(), ["sex"], found.mechanism)
        except PostrandError:
            continue


@pytest.mark.parametrize(
    "text", ['{\n  "a": 1,\n  "a": 1\n}\n', '{\n  "a": ' + "9" * 5000 + "\n}\n", "[" * 10**6, '{"a":' * 10**5]
)
@pytest.mark.parametrize("name", JSON)
def test_no_text_brings_a_reader_down(tmp_path: Path, name: str, text: str) -> None:
    root = make(tmp_path / "release").path
    (root / name).write_text(text)
    if name != "manifest.json":
        rehash(root)
    assert not release.verify(root, raise_if_failed=False).ok
    with pytest.raises(PostrandError):
        release.read(root)


def test_no_name_steers_the_terminal(tmp_path: Path) -> None:
    """A name that clears its line and writes another over it: what fails is seen to fail."""
    root = make(tmp_path / "release").path
    note, table = "x\x1b[2K\rok    data \u202e", released_table()
    pq.write_table(table.replace_schema_metadata({note: ""}), root / "data.parquet")
    rehash(root)
    shown = str(release.verify(root, raise_if_failed=False))
    assert r"x\x1b[2K\rok    data \u202e" in shown
    assert shown.replace("\n", "").isprintable()
    with pytest.raises(PostrandError) as caught:
        release.verify(root)
    assert str(caught.value).replace("\n", "").isprintable()


def test_public_names_refuse_hostile_folders_alike(tmp_path: Path) -> None:
    root = make(tmp_path / "release").path
    a_pipe(root / "manifest.json")
    for read in (pr.verify, pr.read_release):
        with pytest.raises(PostrandError, match="not a plain file"):
            read(root)
    assert np.array_equal(TransitionMatrix.identity(2).array, np.eye(2))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".sav", ".dta"])
def test_no_damage_to_the_data_brings_a_reader_down(tmp_path: Path, suffix: str) -> None:
    """Bytes at random places: an error of the tree, or records of which each value is in the codebook."""
    rng = np.random.default_rng(14)
    table, law = without_missing() if suffix == ".dta" else (released_table(), LAW)
    root = make(tmp_path / "release", table, data_name=f"data{suffix}", mechanism=law).path
    path = root / f"data{suffix}"
    content = path.read_bytes()
    for _ in range(40):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 9)):
            damaged[at] = rng.choice([0, 127, 255, damaged[at] ^ 1])
        path.write_bytes(damaged)
        rehash(root)
        assert release.verify(root, raise_if_failed=False).checks
        try:
            found = release.read(root).frame()
        except PostrandError:
            continue
        assert found.column_names == table.column_names
