"""What a person keeps: written whole or not at all, never over another file unasked, and read back as it was."""

import dataclasses
import json
import math
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import postrand as pr
from postrand.codebook.rules import Rule
from postrand.errors import SpecificationError, UsageError
from postrand.mechanism.matrix import TransitionMatrix
from postrand.support import saving
from tests import release_case

BOOK = pr.Codebook(
    (
        pr.Variable(
            "age", role="key", categories=("0-14", '15 "+"', "ø\\é"), labels=("child", "grown", "Ü = 1"), ordered=True
        ),
        pr.Variable(
            "work", role="key", categories=(-1, 0, 2**40), type="int64", missing="category", missing_codes=(-1,)
        ),
        pr.Variable("share", role="key", categories=(0.1, 1e-300, 2.0), type="double", label="a [b] # c"),
        pr.Variable("ill", role="sensitive", categories=(False, True), type="bool", missing="keep"),
        pr.Variable("pay", role="other", type="double"),
    ),
    (Rule({"age": ("0-14",), "work": (0,)}),),
)


def designs():
    yield pr.design([0.5, 0.3, 0.2], privacy=pr.DifferentialPrivacy(1.0))
    yield pr.design(pr.Prior.uniform(70), privacy=pr.DifferentialPrivacy(2.0))
    yield dataclasses.replace(next(designs()), bound=math.inf, status="local", details={"array": np.ones(2), "n": 3})


def as_plain(design):
    fields = ("value", "bound", "status", "message", "provenance")
    return {name: getattr(design, name) for name in fields}


@pytest.mark.parametrize("book", [BOOK, release_case.BOOK], ids=["odd", "case"])
def test_a_codebook_is_read_back(tmp_path, book):
    book.save(tmp_path / "codebook.toml")
    assert pr.load_codebook(tmp_path / "codebook.toml") == book


@pytest.mark.parametrize(
    "matrix",
    [TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]]), pr.randomised_response(100, 1.0)],
    ids=["dense", "constant"],
)
def test_a_matrix_is_read_back(tmp_path, matrix):
    matrix.save(tmp_path / "m.json")
    assert pr.load_matrix(tmp_path / "m.json") == matrix


@pytest.mark.parametrize("bound", [True, False])
def test_a_mechanism_is_read_back_with_its_codebook(tmp_path, bound):
    law = release_case.LAW if bound else pr.Mechanism(release_case.LAW.blocks)
    law.save(tmp_path / "law.json")
    found = pr.load_mechanism(tmp_path / "law.json")
    assert found == law
    assert found.digest() == law.digest()


@pytest.mark.parametrize("design", list(designs()))
def test_a_design_is_read_back(tmp_path, design):
    design.save(tmp_path / "d.json")
    found = pr.load_design(tmp_path / "d.json")
    assert found.matrix == design.matrix
    assert as_plain(found) == as_plain(design)
    assert set(found.details) == set(design.details) - {"array"}


def test_a_key_is_read_back_and_nobody_else_can_read_it(tmp_path):
    key = pr.ReleaseKey.fresh()
    key.save(tmp_path / "key")
    assert pr.load_key(tmp_path / "key") == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="the file exists"):
        pr.ReleaseKey.fresh().save(tmp_path / "key")
    assert pr.load_key(tmp_path / "key") == key
    with pytest.raises(UsageError, match="grew from a seed"):
        pr.ReleaseKey.from_seed(1).save(tmp_path / "seed")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_file_that_exists_stays_unless_it_is_to_be_replaced(tmp_path):
    first, second = pr.randomised_response(2, 1.0), pr.randomised_response(3, 1.0)
    first.save(tmp_path / "m.json")
    with pytest.raises(UsageError, match=r"the file exists.*replace=True"):
        second.save(tmp_path / "m.json")
    assert pr.load_matrix(tmp_path / "m.json") == first
    second.save(tmp_path / "m.json", replace=True)
    assert pr.load_matrix(tmp_path / "m.json") == second
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, replace):
    (tmp_path / "m.json").write_text("mine")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UsageError, match=r"cannot be written.*No space left"):
        pr.randomised_response(2, 1.0).save(tmp_path / "m.json", replace=replace)
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]
    assert (tmp_path / "m.json").read_text() == "mine"


def test_a_file_system_without_links_refuses_names_that_are_taken_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "Operation not supported")))
    saving.write_whole(tmp_path / "a", b"1")
    with pytest.raises(UsageError, match="the file exists"):
        saving.write_whole(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("path", ["none/m.json", "", "a\0b", "."])
def test_a_place_that_cannot_be_written_to_is_said(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"the file cannot be written|the file exists"):
        pr.randomised_response(2, 1.0).save(path)
    assert list(tmp_path.iterdir()) == []


def test_one_kind_is_not_read_as_another(tmp_path):
    pr.randomised_response(2, 1.0).save(tmp_path / "m.json")
    for load, kind in ((pr.load_mechanism, "mechanism"), (pr.load_design, "design")):
        with pytest.raises(SpecificationError, match=f"not a saved {kind}.*got transition matrix"):
            load(tmp_path / "m.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "nan", '{"schema": 1}', "[" * 100_000, "\xff"])
@pytest.mark.parametrize("load", [pr.load_matrix, pr.load_mechanism, pr.load_design])
def test_other_files_are_refused(tmp_path, load, text):
    (tmp_path / "x").write_text(text, encoding="latin-1")
    with pytest.raises(SpecificationError, match="not a saved"):
        load(tmp_path / "x")
    with pytest.raises(SpecificationError, match="cannot be read"):
        load(tmp_path / "none")


WRONG: tuple[object, ...] = (None, "text", -1, [], {})


def places(value, path=()):
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield (*path, name)
        yield from places(entry, (*path, name))


@pytest.mark.parametrize("kind", ["matrix", "mechanism", "design"])
def test_a_damaged_file_is_an_error_of_ours_wherever_it_is_damaged(tmp_path, kind):
    law = pr.Mechanism(release_case.LAW.blocks[:2], release_case.BOOK)
    value = {"matrix": pr.randomised_response(2, 1.0), "mechanism": law, "design": next(designs())}[kind]
    load = getattr(pr, f"load_{kind}")
    value.save(tmp_path / "good.json")
    good = (tmp_path / "good.json").read_text("utf-8")
    refused = 0
    for path in places(json.loads(good)):
        for wrong in WRONG:
            data = json.loads(good)
            at = data
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = wrong
            (tmp_path / "bad.json").write_text(json.dumps(data))
            try:
                load(tmp_path / "bad.json")
            except SpecificationError:
                refused += 1
    assert refused > 40


def test_reading_a_codebook_needs_no_writer_of_toml():
    script = "import sys, postrand.codebook; print('tomlkit' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
