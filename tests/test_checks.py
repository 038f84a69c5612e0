"""The parts of a verification, each alone: canonical texts, the manifest's statements, outcomes and verdicts."""

from __future__ import annotations

import json
import math
import os
import shutil
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from postrand import __version__, release
from postrand.cli import main
from postrand.engines.database import Table
from postrand.errors import DataError, ReleaseError, SpecificationError, UncheckedError, UsageError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import randomised_response
from postrand.privacy import DifferentialPrivacy, SpontaneousRecognition
from postrand.release import canonical_json, checks, fields, rendering, verification
from postrand.release.bundle import library_of
from postrand.release.checks import (
    Audit,
    Check,
    Verification,
    check_rendering,
    check_schema,
    check_writer,
    load,
    no_release,
    number_of,
    plain_files,
    published,
    same_files,
    same_rendering,
    settled,
)
from postrand.release.signature import SigningKey
from postrand.support import wordings
from tests.conftest import ROOT
from tests.release_case import edit, make

SHA = "0123456789abcdef" * 4


# -- canonical JSON ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "wanted", "place"),
    [
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, "a.b[0].c"),
        ({"x": {"a": 1}}, {"x": ["a"]}, "x"),
        ({"x": ["a"]}, {"x": {"a": 1}}, "x"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the top level"),
        ({"a": [1, 2]}, {"a": [1]}, "a"),
        ([[1], [2, 3]], [[1], [2, 4]], "[1][1]"),
        ({"a": 1}, {"a": 1.0}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ([1], [1], ""),
        ({"a": {"b": None}}, {"a": {"b": None}}, ""),
    ],
)
def test_the_first_difference_is_named_by_its_place(found: Any, wanted: Any, place: str) -> None:
    assert canonical_json.first_difference(found, wanted) == place


def test_the_canonical_text_is_this_one() -> None:
    value = {"a": [1, "é"], "b": [[], {}], "c": {}, "d": [{"e": None}, [1.5, [True]]], "f": (1, (2,))}
    text = (
        '{\n  "a": [1, "é"],\n  "b": [\n    [],\n    {}\n  ],\n  "c": {},\n  "d": [\n    {\n      "e": null\n    },\n'
        '    [\n      1.5,\n      [true]\n    ]\n  ],\n  "f": [\n    1,\n    [2]\n  ]\n}\n'
    )
    assert canonical_json.dump(value).decode() == text
    assert canonical_json.parse(text.encode(), "here") == canonical_json.plain(value)
    for names in ({"a": 1, 2: 3}, {1: 2}):
        with pytest.raises(ReleaseError, match="a name is not text"):
            canonical_json.dump(names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "a": 1,\n  "a": 1\n}\n', "a name is given twice"),
        ('{\n  "a": NaN\n}\n', "NaN is not a JSON number"),
        ('{\n  "a": -Infinity\n}\n', "-Infinity is not a JSON number"),
        ("[1]\n", "the JSON is not an object"),
        ('{"a": 1}\n', "not in the canonical form"),
        ('{\n  "a": "\\u00e9"\n}\n', "not in the canonical form"),
        ('{\n  "a": 1\n}', "not in the canonical form"),
        ("{\n", "not well-formed JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_another_form_is_refused_for_what_it_is(text: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        canonical_json.parse(text.encode(), "here")
    with pytest.raises(ReleaseError, match="not well-formed JSON"):
        canonical_json.parse(b'{\n  "a": "\xff"\n}\n', "here")


def test_a_text_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert canonical_json.MAX_BYTES == 256 * 1024 * 1024  # as the sentences say
    text = canonical_json.dump({"a": "x" * 30})
    (tmp_path / "a.json").write_bytes(text)
    monkeypatch.setattr(canonical_json, "MAX_BYTES", len(text))
    assert canonical_json.dump({"a": "x" * 30}) == text
    assert canonical_json.read(tmp_path / "a.json") == {"a": "x" * 30}
    monkeypatch.setattr(canonical_json, "MAX_BYTES", len(text) - 1)
    with pytest.raises(ReleaseError, match="too long"):
        canonical_json.dump({"a": "x" * 30})
    with pytest.raises(ReleaseError):
        canonical_json.read(tmp_path / "a.json")
    for name, words in (("none.json", "none.json is missing"), ("a.json/b.json", "b.json cannot be read")):
        with pytest.raises(ReleaseError, match=words):
            canonical_json.read(tmp_path / name)


# -- what the manifest states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 3, "", "x", SHA.upper(), SHA[1:], SHA + "0", f"{SHA}\n", [SHA]])
def test_the_program_of_the_pages_is_named_by_a_digest(wrong: Any) -> None:
    check_rendering({"rendering_sha256": SHA}, True)
    check_rendering({"rendering_sha256": wrong}, False)
    with pytest.raises(ReleaseError, match="'rendering_sha256'"):
        check_rendering({"rendering_sha256": wrong}, True)


def test_pages_are_the_same_only_of_the_same_version_and_program() -> None:
    here = {"package": {"version": __version__}, "rendering_sha256": rendering.digest()}
    assert same_rendering(here)
    assert not same_rendering({**here, "package": {"version": "0.0.1"}})
    assert not same_rendering({**here, "rendering_sha256": SHA})


@pytest.mark.parametrize(
    ("version", "library"),
    [
        ("0.1.0", 3), ("0.1.0", "other 1"), ("0.1.0", "pyarrow\n1"), ("0.1.0", ""), ("0.1.0", "pyarrow" + "x" * 40),
        ("0.1.0", "pyarrow <b>"),
        (3, "pyarrow 1.0"), (None, "pyarrow 1.0"), ("0.0.9", "pyarrow 1.0"), ("0.1", "pyarrow 1.0"),
        ("x", "pyarrow 1.0"), ("1", "pyarrow 1.0"), ("0.1.0 ", "pyarrow 1.0"),
    ],
)  # fmt: skip
def test_an_impossible_writer_is_refused(version: Any, library: Any) -> None:
    for good in ("0.1.0", "0.1.1", "0.2", "1.0rc1", "12.3.4.post1.dev2+local.1"):
        check_writer({"package": {"version": good}, "written_with": "pyarrow 1.0"}, ["pyarrow", "duckdb"])
    with pytest.raises(ReleaseError):
        check_writer({"package": {"version": version}, "written_with": library}, ["pyarrow", "duckdb"])
    with pytest.raises(ReleaseError, match="missing or invalid"):
        check_writer({"package": ["0.1.0"], "written_with": "pyarrow 1.0"}, ["pyarrow"])


def test_versions_are_ordered_by_their_numbers() -> None:
    texts = ["0.9", "0.9.1", "0.10", "0.10.1rc2", "1.0.0"]
    assert [number_of(text) for text in texts] == [(0, 9), (0, 9, 1), (0, 10), (0, 10, 1), (1, 0, 0)]
    assert number_of("v1") == number_of("1") == ()


def test_a_schema_is_one_of_those_known_and_its_number_is_the_last_part() -> None:
    known = ("postrand/release/1", "postrand/release/2")
    assert [check_schema({"schema": name}, known, "here") for name in known] == [1, 2]
    with pytest.raises(ReleaseError, match=r"wanted postrand/release/2\. Next: use a newer postrand"):
        check_schema({"schema": "postrand/release/3"}, known, "here")
    for other in ("postrand/ledger/1", None, "", "postrand/release"):
        with pytest.raises(ReleaseError, match="give a folder of the wanted kind"):
            check_schema({"schema": other}, known, "here")


def test_every_file_that_differs_is_named_and_so_is_what_else_the_manifest_says() -> None:
    listed = {"a": {"bytes": 1}, "b": {"bytes": 2}, "c": {"bytes": 3}}
    same_files({"files": listed, "data": "a"}, {"files": dict(listed), "data": "a"})
    present = {"a": {"bytes": 1}, "c": {"bytes": 4}, "d": {"bytes": 5}}
    with pytest.raises(ReleaseError) as caught:
        same_files({"files": listed}, {"files": present})
    assert [problem.rstrip(".") for problem in caught.value.problems] == [
        "'b' is listed in the manifest, but missing",
        "'d' is not listed in the manifest",
        "'c' is not the file that was released",
    ]
    for more in ({"more": 1}, {"data": "b"}):
        with pytest.raises(
            ReleaseError, match=f"contains more than it should; got {'data' if 'data' in more else 'the top'}"
        ):
            same_files({"files": listed, "data": "a"} | more, {"files": listed, "data": "a"})


def test_the_published_digest_is_compared_whatever_its_case(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"{}\n")
    digest = "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"
    for text in (digest, digest.upper(), f" {digest}\n"):
        published(tmp_path, text)
    for text in (digest[:-1] + "7", digest[1:], ""):
        with pytest.raises(ReleaseError, match="not the published one"):
            published(tmp_path, text)


# -- the files of a folder ---------------------------------------------------------------------------------------------


def test_names_are_those_of_plain_files_and_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    (tmp_path / "a.txt").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part-00000.parquet").touch()
    assert plain_files(tmp_path) == ("a.txt", "manifest.json", "data/part-00000.parquet")
    (tmp_path / "data" / "inner").mkdir()
    with pytest.raises(ReleaseError, match="'data/inner' is not a plain file"):
        plain_files(tmp_path)
    (tmp_path / "data" / "inner").rmdir()
    (tmp_path / "data" / "part-00000.parquet").unlink()
    with pytest.raises(ReleaseError, match="'data' is not a plain file"):
        plain_files(tmp_path)
    (tmp_path / "data").rmdir()
    (tmp_path / "other").symlink_to("a.txt")
    with pytest.raises(ReleaseError, match="'other' is not a plain file"):
        plain_files(tmp_path)
    (tmp_path / "other").unlink()
    reserved = next(iter(fields.RESERVED_NAMES))
    (tmp_path / reserved).touch()
    with pytest.raises(ReleaseError, match="which this version does not know"):
        plain_files(tmp_path)


def test_a_folder_that_cannot_be_listed_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> list[tuple[str, int]]:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "manifest.json").touch()
    monkeypatch.setattr(checks, "_entries", fails)
    with pytest.raises(ReleaseError, match="no such release; got Permission denied"):
        plain_files(tmp_path)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_not_written(number: float) -> None:
    with pytest.raises(ReleaseError, match="a value cannot be written as JSON"):
        canonical_json.dump({"a": number})


def test_why_there_is_no_release_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, words in (
        ("none", "no such release"),
        ("file", "a release is a folder"),
        ("link", "a release is a folder"),
    ):
        (problem,) = no_release(tmp_path / name)
        assert words in problem
    (problem,) = no_release(tmp_path)
    assert "manifest.json is missing" in problem
    os.symlink(tmp_path / "nowhere", tmp_path / "manifest.json")
    assert no_release(tmp_path) == []
    with pytest.raises(ReleaseError, match=r"manifest\.json is missing"):
        load(tmp_path, "manifest.json")


# -- outcomes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "verdict", "code", "words"),
    [
        (["passed", "said"], "verified", 0, "it claims to be, as far as a release can show it; what is marked"),
        (["passed"], "verified", 0, "The release is what it claims to be."),
        (["passed", "not run"], "incomplete", 9, "but a check could not run here: c1."),
        (["not run", "not run", "said"], "incomplete", 9, "but 2 checks could not run here: c0, c1."),
        (["passed", "not run", "failed"], "failed", 7, "THE RELEASE DOES NOT VERIFY."),
    ],
)
def test_the_verdict_follows_from_the_outcomes(outcomes: list[Any], verdict: str, code: int, words: str) -> None:
    checks = tuple(
        Check(
            f"c{k}",
            outcome,
            "" if outcome in ("failed", "not run") else "check.files",
            problems=(f"p{k}",) * (outcome in ("failed", "not run")),
        )
        for k, outcome in enumerate(outcomes)
    )
    found = Verification(Path("here"), checks)
    assert (found.verdict, found.exit_code, found.ok) == (verdict, code, verdict == "verified")
    assert str(found).endswith(words) or words in str(found)
    marked = {"failed": "failed", "incomplete": "not run"}.get(verdict)
    assert found.problems == tuple(f"here, c{k}: p{k}" for k, outcome in enumerate(outcomes) if outcome == marked)
    assert len(found.stated) == outcomes.count("said")
    told = found.to_dict()
    assert (told["ok"], told["verdict"], len(told["checks"])) == (found.ok, verdict, len(checks))


def test_a_check_is_told_by_its_code_or_by_its_problems() -> None:
    passed = Check("a", "passed", "check.margins", {"tables": 3})
    sentence = wordings.say("check.margins", tables=3)
    assert passed.to_dict() == {
        "name": "a", "ok": True, "outcome": "passed", "code": "check.margins", "values": {"tables": 3},
        "sentence": sentence,
    }  # fmt: skip
    failed = Check("b", "failed", problems=("one.", "two."))
    assert failed.to_dict() == {
        "name": "b", "ok": False, "outcome": "failed", "problems": ["one.", "two."], "sentence": "one. two."
    }  # fmt: skip
    assert [Check("c", outcome, "check.files").ok for outcome in ("said", "not run")] == [None, None]


def test_a_problem_that_names_the_folder_is_not_named_twice() -> None:
    checks = (Check("a", "failed", problems=("here: one",)), Check("b", "failed", problems=("two",)))
    assert Verification(Path("here"), checks).problems == ("here: one", "here, b: two")
    assert Verification(Path("/"), checks[1:]).problems == ("/, b: two",)


def test_checks_that_stand_on_others_do_not_run() -> None:
    audit = Audit()
    ran: list[str] = []

    def runs() -> int:
        ran.append("first")
        return 1

    def fails(what: type[Exception]) -> None:
        raise what("no")

    assert audit.attempt("first", runs, "check.files") == 1
    assert audit.attempt("zero", lambda: 0, "check.files", needs=[0, ""]) == 0  # what counts is whether it is None
    assert audit.attempt("open", fails, "check.files", UncheckedError) is None
    assert audit.attempt("after", ran.append, "check.files", "after", needs=[1, None]) is None
    assert audit.attempt("machine", fails, "check.files", MemoryError) is None
    assert audit.attempt("bad", fails, "check.files", ReleaseError) is None
    assert audit.attempt("then", ran.append, "check.files", "then", needs=[None]) is None
    assert audit.attempt("stated", lambda: 5, lambda five: ("check.margins", {"tables": five})) == 5
    audit.say("key", "said.facts", facts=["key"])
    assert ran == ["first"]
    assert [(c.name, c.outcome, c.code) for c in audit.checks] == [
        ("first", "passed", "check.files"), ("zero", "passed", "check.files"), ("open", "not run", ""),
        ("after", "not run", "check.stands_on_open"), ("machine", "not run", ""), ("bad", "failed", ""),
        ("then", "failed", "check.stands_on"), ("stated", "said", "check.margins"), ("key", "said", "said.facts"),
    ]  # fmt: skip
    assert audit.checks[2].problems == audit.checks[5].problems == ("no",)
    assert "not enough memory" in audit.checks[4].sentence
    assert audit.outcome(Path("r"), False).verdict == "failed"
    with pytest.raises(ReleaseError) as caught:
        audit.outcome(Path("r"), True)
    assert type(caught.value) is ReleaseError
    del audit.checks[5:7]
    with pytest.raises(UncheckedError):
        audit.outcome(Path("r"), True)


def test_bytes_of_another_library_are_not_checked_here() -> None:
    def differ() -> None:
        raise DataError("other bytes")

    settled(lambda: None, "a 1", "a 2")
    with pytest.raises(DataError, match="other bytes"):
        settled(differ, "a 1", "a 1")
    with pytest.raises(UncheckedError, match="verify with a 2"):
        settled(differ, "a 1", "a 2")


def test_the_number_of_records_is_compared_where_a_claim_or_a_level_names_it() -> None:
    of_records = SimpleNamespace(privacy=SimpleNamespace(of_records=None), variables=("a",))
    plain: Any = SimpleNamespace(privacy=SimpleNamespace(), variables=("a",))
    level = SimpleNamespace(records=5)
    for claims, file, wanted in (([plain], None, False), ([of_records, plain], None, True), ([], level, True)):
        stated: Any = SimpleNamespace(claims=claims, file=file)
        assert verification._names_records(stated) == wanted
    for records in (4, 5, 6):
        summary: Any = SimpleNamespace(records=records)
        certificate: Any = SimpleNamespace(claims=[plain], file=level)
        if records == 5:
            assert verification._possible(certificate, summary) is certificate
        else:
            with pytest.raises(ReleaseError, match=f"got 5; wanted {records}"):
                verification._possible(certificate, summary)
        certificate.file = None
        assert verification._possible(certificate, summary) is certificate


# -- what a verification reads, compares and says ----------------------------------------------------------------------


def manifest_with(root: Path, **changed: Any) -> dict[str, Any]:
    """Write a manifest of a release with a CSV file, and return it."""
    names = ["codebook.json", "mechanism.json", "certificate.json", "report.html", "description.json", "data.csv"]
    held = {
        "schema": "postrand/release/3",
        "package": {"name": "postrand", "version": "0.1.0"},
        "rendering_sha256": SHA,
        "written_with": "pyarrow 1.0",
        "data": "data.csv",
        "files": {name: {"bytes": 1, "sha256": SHA} for name in names},
    }
    value = {name: entry for name, entry in (held | changed).items() if entry is not None}
    (root / "manifest.json").write_bytes(canonical_json.dump(value))
    return value


def without(*names: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    kept = ["codebook.json", "mechanism.json", "certificate.json", "report.html", "description.json", "data.csv"]
    return {name: {"bytes": 1, "sha256": SHA} for name in [*(n for n in kept if n not in names), *more]}


PARTS = ("data/part-00000.parquet", "data/part-00001.parquet")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"files": without(more=("notes.txt", "README.txt", "croissant.json"))},
        {"data": "data", "files": without("data.csv", more=PARTS)},
        {"data": "table.json", "files": without("data.csv", more=("table.json",)), "written_with": "postrand 0.1.0"},
        {"schema": "postrand/release/1", "files": without("description.json"), "rendering_sha256": None},
        {"data": "data.dta", "files": without("data.csv", more=("data.dta",)), "written_with": "pyreadstat 1.2"},
    ],
)
def test_a_manifest_with_all_that_it_needs_is_read(tmp_path: Path, changed: dict[str, Any]) -> None:
    held = manifest_with(tmp_path, **changed)
    assert verification._manifest(tmp_path) == held


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"files": None}, "'files' or 'data' is missing"),
        ({"data": None}, "'files' or 'data' is missing"),
        ({"data": 3}, "'files' or 'data' is missing"),
        ({"files": ["data.csv"]}, "'files' or 'data' is missing"),
        *[({"files": without(name)}, f"'{name}' is not listed") for name in without()],
        (
            {"schema": "postrand/release/2", "files": without("description.json"), "rendering_sha256": None},
            "'description.json' is not listed",
        ),
        ({"data": "other.csv"}, "'other.csv' is not listed"),
        ({"data": "data"}, "'data' is not listed"),
        ({"files": without(more=PARTS)}, "there is also a data folder"),
        ({"files": without(more=("Data.csv",))}, "Data.csv"),
        ({"files": without(more=("manifest-json",))}, "manifest-json"),
        ({"files": without(more=("a b",))}, "a b"),
        ({"written_with": "pyreadstat 1.2"}, "does not write such data"),
        (
            {"data": "data", "files": without("data.csv", more=PARTS), "written_with": "postrand 0.1.0"},
            "does not write",
        ),
        ({"data": "table.json", "files": without("data.csv", more=("table.json",))}, "does not write such data"),
        ({"package": {"version": "0.0.1"}}, "does not write this schema"),
        ({"rendering_sha256": None}, "'rendering_sha256'"),
        ({"schema": "postrand/release/9"}, "unknown schema"),
    ],
)
def test_a_manifest_that_lacks_or_adds_something_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    manifest_with(tmp_path, **changed)
    with pytest.raises(ReleaseError, match=words):
        verification._manifest(tmp_path)


def test_a_derived_file_holds_its_bytes_and_a_json_its_value(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(b"abc")
    assert verification._holds(tmp_path, "page.html", b"abc") is True
    for other in (b"abz", b"ab", b"abcd"):
        assert verification._holds(tmp_path, "page.html", other) is False
    assert verification._holds(tmp_path, "none.html", b"abc") is False
    (tmp_path / "page").mkdir()
    assert verification._holds(tmp_path, "page", b"") is False
    text = canonical_json.dump({"schema": "postrand/mechanism/3", "blocks": []})
    (tmp_path / "mechanism.json").write_bytes(text)
    assert verification._holds(tmp_path, "mechanism.json", text) is True
    assert verification._holds(tmp_path, "mechanism.json", text.replace(b"[]", b"[1]")) is False


def test_what_nobody_can_check_is_said_and_nothing_else() -> None:
    def said(drawn: bool = False, **changed: Any) -> dict[str, Any]:
        facts = SimpleNamespace(**{"key_is_private": False, "order_is_shuffled": False, **changed.pop("facts", {})})
        certificate: Any = SimpleNamespace(facts=facts, series=changed.pop("series", None))
        mechanism: Any = SimpleNamespace(
            codebook=None, designs=changed.pop("designs", []), numerical=changed.pop("numerical", [])
        )
        rendered, completed = changed.pop("rendered", ()), changed.pop("completed", None)
        files = dict.fromkeys(["report.html", "table.json", *changed.pop("extra", [])])
        manifest = {
            "schema": "postrand/release/3", "package": {"version": __version__}, "data": "table.json",
            "files": files, "written_with": library_of(Path(), "table.json"), **changed,
        }  # fmt: skip
        return dict(verification._said(Path(), manifest, mechanism, certificate, rendered, completed, drawn=drawn))

    both = {"key_is_private": True, "order_is_shuffled": True}
    assert said() == {"facts": {"facts": ["drawn"]}}
    assert said(facts=both) == {"facts": {"facts": ["drawn", "key", "order"]}}
    assert said(True, facts=both) == {"facts": {"facts": ["key"]}}
    assert said(True, facts={"order_is_shuffled": True}) == said(True) == {}
    blocks = {o: SimpleNamespace(provenance=o) for o in ("public", "dp", "confidential")}
    designs = [(("a",), blocks["public"]), (("b", "c"), blocks["confidential"]), (("d",), blocks["dp"])]
    assert said(True, designs=designs) == {"origins": {"origins": {"public": [["a"]], "dp": [["d"]]}}}
    assert said(True, designs=designs[1:2]) == {}
    assert said(True, series=SimpleNamespace(said={"k": 1})) == {"series": {"k": 1}}
    more = ["notes.txt", "data/part-00000.csv", "copies.parquet", "README.txt"]
    assert said(True, extra=more) == {"extra": {"files": ["notes.txt", "copies.parquet"]}}
    assert said(True, extra=more, completed={"file": "copies.parquet"}) == {"extra": {"files": ["notes.txt"]}}
    assert said(True, schema="postrand/release/2").keys() == {"earlier_words"}
    old, new = SimpleNamespace(level=None), SimpleNamespace(level=1.0)
    assert said(True, numerical=[new, old]) == {"earlier_levels": {}}
    assert said(True, numerical=[new]) == {}
    assert said(True, rendered=("report.html",)) == {"rendered": {"version": __version__, "files": ["report.html"]}}
    for changed in ({"package": {"version": "9.9"}}, {"written_with": "postrand 9.9"}):
        (writer,) = said(True, **changed).values()
        assert writer == {"version": "9.9" if "package" in changed else __version__, "library": writer["library"]}
        assert ("9.9" in writer["library"]) == ("written_with" in changed)


def test_claims_on_the_file_are_told_apart() -> None:
    own: Any = SimpleNamespace(privacy=DifferentialPrivacy(1.0), variables=("a",))
    of_file: Any = SimpleNamespace(privacy=SpontaneousRecognition(0.1, 1), variables=("a", "b"))
    both: Any = SimpleNamespace(claims=[own, of_file])
    plain: Any = SimpleNamespace(claims=[own])
    assert verification._claims_told(both) == ("check.claims_but_files", {})
    assert verification._claims_told(plain) == ("check.claims", {})
    code, values = verification._stated_told(both)
    assert (code, len(values["claims"])) == ("check.stated", 1)
    assert values["claims"][0] == {
        "variables": ["a", "b"],
        "privacy": {"model": "recognition", "alpha": 0.1, "subsets": 1},
    }
    assert verification._margins_told(3) == ("check.margins", {"tables": 3})


def test_bytes_of_a_file_and_values_of_a_table_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(path: Path, law: Any) -> None:
        raise DataError(f"other bytes in {path}")

    monkeypatch.setattr(verification, "check_bytes", differ)
    monkeypatch.setattr(verification, "check_values", differ)
    law = Mechanism({"a": randomised_response(2, 1.0)})
    monkeypatch.setattr(verification, "_shown", lambda mechanism: None)
    for data in ("data.csv", "table.json"):
        manifest = {"data": data, "written_with": library_of(Path("r"), data)}
        with pytest.raises(DataError, match=f"other bytes in r.{data}"):
            verification._bytes(Path("r"), manifest, law)


DERIVED = ("README.txt", "report.html", "r_categories.csv", "codebook.json", "description.json", "certificate.json")


@pytest.mark.parametrize(
    ("number", "files", "version", "wrong", "found"),
    [
        (3, DERIVED, __version__, (), ()),
        (3, DERIVED[1:], __version__, ("README.txt",), ()),  # the first releases of this schema have none
        (1, (*DERIVED[:4], "certificate.json"), __version__, ("description.json", "certificate.json"), ()),
        (2, DERIVED, __version__, ("certificate.json",), ()),
        (3, (*DERIVED, "r_matrix_9.csv"), __version__, (), "does not belong to the release"),
        (2, DERIVED, __version__, ("r_categories.csv",), ("r_categories.csv",)),
        (3, DERIVED, __version__, ("r_categories.csv",), "does not follow"),
        (2, DERIVED, __version__, ("mechanism.json",), "does not follow"),
        (3, DERIVED, __version__, ("certificate.json",), "does not follow"),
        (3, DERIVED, __version__, ("report.html",), ("report.html",)),
        (3, DERIVED, "999.0.0", ("report.html",), "a later version wrote this file"),
        (3, DERIVED, "999.0.0", (), ()),
    ],
)
def test_which_derived_files_may_have_other_words(
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    files: tuple[str, ...],
    version: str,
    wrong: tuple[str, ...],
    found: tuple[str, ...] | str,
) -> None:
    """What is derived, and which of it the release does not hold, is replaced: what follows from it is tested."""
    names = (*files, "mechanism.json")
    manifest: Any = {"schema": f"postrand/release/{number}", "package": {"version": version}, "data": "data.csv"}
    manifest["files"] = dict.fromkeys((*names, "data.csv"))
    nothing: Any = None
    monkeypatch.setattr(verification, "derive", lambda *_: dict.fromkeys(DERIVED, b""))
    monkeypatch.setattr(verification, "_description", lambda root, number: None)
    monkeypatch.setattr("postrand.release.earlier.mechanism_as_written", lambda law, number: {})
    monkeypatch.setattr(verification, "_holds", lambda root, name, content: name not in wrong)
    monkeypatch.setattr(verification, "same_rendering", lambda manifest: False)

    def derived() -> tuple[str, ...]:
        return verification._derived(Path(), manifest, nothing, nothing, nothing, None)

    if isinstance(found, tuple):
        assert derived() == found
        return
    with pytest.raises(UncheckedError if version > "9" else ReleaseError, match=found):
        derived()


def test_early_releases_are_not_drawn_again_but_later_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "redrawn", lambda *_: "redrawn")
    certificate, resources = SimpleNamespace(facts=None), SimpleNamespace()
    law: Any = SimpleNamespace(require_codebook=lambda: None)

    def drawn(number: int) -> Any:
        manifest = {"schema": f"postrand/release/{number}"}
        rest: Any = (law, certificate, Path("file.csv"), bytes(32), None, resources)
        return verification._drawn(Path(), manifest, *rest)

    assert drawn(2) == drawn(3) == "redrawn"
    with pytest.raises(UncheckedError, match="drawn in an earlier way"):
        drawn(1)


def test_copies_are_listed_and_data_of_a_missing_library_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "completed.json").write_bytes(
        (ROOT / "tests/fixtures/releases/3/completed/completed.json").read_bytes()
    )
    file = json.loads((tmp_path / "completed.json").read_text("utf-8"))["file"]
    assert verification._copies(tmp_path, {"files": [file]})["file"] == file
    with pytest.raises(ReleaseError, match=f"'{file}' is not listed"):
        verification._copies(tmp_path, {"files": ["data.csv"]})
    asked: list[str] = []
    monkeypatch.setattr("postrand.formats.is_installed", lambda path: asked.append(path.name))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part-00000.parquet").touch()
    for data in ("data", "data.csv"):
        with pytest.raises(UncheckedError, match=r"fix|install x 1"):
            verification._data(
                tmp_path, {"data": data, "written_with": "x 1"}, Mechanism({"a": randomised_response(2, 1.0)})
            )
    assert asked == ["part-00000.parquet", "data.csv"]


# -- whole releases ----------------------------------------------------------------------------------------------------

RELEASES = ROOT / "tests" / "fixtures" / "releases"
NEEDS = {
    "digests": ["manifest"],
    "codebook": ["files"],
    "mechanism": ["codebook"],
    "certificate": ["mechanism"],
    "data": ["manifest", "mechanism", "certificate"],
    "margins": ["data"],
    "bytes": ["data"],
    "copies_said": ["data"],
    "copies": ["copies_said"],
    "copies_bytes": ["copies"],
    "derived": ["data", "copies_said"],
}
"""What each check of a release with copies stands on."""


@pytest.mark.parametrize("name", ["1/survey", "2/mixed", "3/mixed", "3/split", "3/completed"])
def test_every_check_of_a_good_release_passes_in_its_order(name: str) -> None:
    found = release.verify(RELEASES / name)
    base = ["files", "manifest", "digests", "codebook", "mechanism", "certificate", "data", "margins", "bytes"]
    copies = ["copies_said", "copies", "copies_bytes"] * (name == "3/completed")
    assert [check.name for check in found.checks if check.outcome == "passed"] == [*base, *copies, "derived"]
    said = [check.name for check in found.checks if check.outcome == "said"]
    early = ["earlier_words"] * (name[0] < "3") + ["earlier_levels"] * (name[0] == "1")
    made = ["copies_made", "model"] * bool(copies)
    assert said == [*made, "ranks", "facts", "origins", *early, *[n for n in said if n in ("rendered", "writer")]]


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("codebook.json", ["codebook"]),
        ("mechanism.json", ["mechanism"]),
        ("certificate.json", ["certificate"]),
        ("data.csv", ["data"]),
        ("completed.json", ["copies_said"]),
        ("completed.csv", ["copies", "derived"]),
        ("description.json", ["derived"]),
        ("r_matrix_1.csv", ["derived"]),
    ],
)
def test_a_file_that_is_missing_fails_its_check_and_all_that_stand_on_it(
    tmp_path: Path, name: str, fails: list[str]
) -> None:
    root = shutil.copytree(RELEASES / "3/completed", tmp_path / "r")
    (root / name).unlink()
    wanted = {"digests", *fails}
    for check, needs in NEEDS.items():
        if wanted.intersection(needs) - {"digests"}:
            wanted.add(check)
    found = release.verify(root, raise_if_failed=False)
    assert {check.name for check in found.checks if check.outcome == "failed"} == wanted
    own = {check.name for check in found.checks if check.problems}
    assert own == {"digests", *fails}
    assert all(
        check.code == "check.stands_on" for check in found.checks if check.outcome == "failed" and not check.problems
    )
    with pytest.raises(ReleaseError):
        release.verify(root)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("certificate", {"schema": "postrand/other/1"}, "certificate.json: unknown schema"),
        ("certificate", {"key_is_private": 1}, "a fact is not true or false"),
        ("certificate", {"households_are_renumbered": True}, "said to be renumbered, but none are released"),
        ("codebook", {"schema": "postrand/other/1"}, "codebook.json: unknown schema"),
        ("description", {"schema": "postrand/other/1"}, "description.json: unknown schema"),
    ],
)
def test_a_part_with_another_schema_or_fact_is_refused(
    tmp_path: Path, name: str, change: dict[str, Any], words: str
) -> None:
    root = shutil.copytree(RELEASES / "3/mixed", tmp_path / "r")

    def parts() -> None:
        law = verification._mechanism(root, verification._codebook(root), 3)
        assert verification._certificate(root, law, 3).mechanism_digest == law.digest()
        verification._description(root, 3)

    parts()
    of_facts = "schema" not in change
    edit(root / f"{name}.json", lambda data: (data["facts"] if of_facts else data).update(change))
    with pytest.raises((ReleaseError, SpecificationError), match=words):
        parts()


def test_what_a_certificate_needs_of_the_codebook_and_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(RELEASES / "2/mixed", tmp_path / "r")
    edit(root / "description.json", lambda data: data.update(title="Survey"))
    assert verification._description(root, 2).title == "Survey"
    assert verification._description(root, 1).title != "Survey"
    root = shutil.copytree(RELEASES / "3/mixed", tmp_path / "r3")
    law = verification._mechanism(root, verification._codebook(root), 3)
    with monkeypatch.context() as patch:
        patch.setattr(verification, "released_codebook", lambda book, facts: None)
        with pytest.raises(ReleaseError, match="although its role forbids it"):
            verification._certificate(root, law, 3)
    given: list[Any] = []

    def certified(mechanism: Any, claims: Any, facts: Any, file: Any) -> None:
        given.append(file)
        raise ReleaseError("so far")

    monkeypatch.setattr(verification, "recertify", certified)
    monkeypatch.setattr(verification, "from_dict", lambda data: ("level", data))
    for stated in (None, {"records": 7}):
        edit(root / "certificate.json", methodcaller("update", file=stated))
        with pytest.raises(ReleaseError, match="so far"):
            verification._certificate(root, law, 3)
    assert given == [None, ("level", {"records": 7})]
    edit(root / "codebook.json", lambda data: data.update(variables=[5]))
    with pytest.raises(SpecificationError):
        verification._codebook(root)


def test_claims_on_the_file_are_told_where_there_are_a_proof_and_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether claims rest on the file, or name the number of records, is replaced."""
    monkeypatch.setattr(verification, "_on_file", lambda proof: proof.claims)
    monkeypatch.setattr(verification, "_names_records", lambda proof: bool(proof.claims))
    root = shutil.copytree(RELEASES / "3/housed", tmp_path / "r")

    def outcomes() -> dict[str, str]:
        return {check.name: check.outcome for check in release.verify(root, raise_if_failed=False).checks}

    told = outcomes()
    assert (told["certificate"], told["stated"], told["records"]) == ("passed", "said", "passed")
    for name in ("data.csv", "certificate.json"):
        (root / name).unlink()
        assert not outcomes().keys() & {"stated", "records"}


def test_a_folder_with_more_than_plain_files_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert release.verify(RELEASES / "3/permuted").verdict == "verified"
    root = shutil.copytree(RELEASES / "3/permuted", tmp_path / "r")
    (root / "link").symlink_to(root / "manifest.json")
    monkeypatch.setattr("postrand.release.whole_columns.is_columns", lambda root: pytest.fail("opened"))
    found = release.verify(root, raise_if_failed=False)
    assert {check.name: check.outcome for check in found.checks}["files"] == "failed"


def test_what_stands_on_a_manifest_or_a_law_that_cannot_be_read_is_not_tried(tmp_path: Path) -> None:
    root = shutil.copytree(RELEASES / "3/mixed", tmp_path / "r")
    (root / "manifest.json").write_bytes(b"{}\n")

    def outcomes() -> dict[str, str]:
        found = release.verify(root, file=root / "data.csv", raise_if_failed=False)
        return {check.name: check.outcome for check in found.checks}

    told = outcomes()
    assert [name for name, outcome in told.items() if outcome == "passed"] == [
        "files", "codebook", "mechanism", "certificate",
    ]  # fmt: skip
    assert {told[name] for name in ("manifest", "data", "derived", "file", "values")} == {"failed"}
    (root / "mechanism.json").unlink()
    told = outcomes()
    assert [name for name, outcome in told.items() if outcome == "passed"] == ["files", "codebook"]
    assert "values" not in told  # nothing says that columns are released by ranks


def test_a_place_without_a_release_and_a_key_without_a_file_are_refused(tmp_path: Path) -> None:
    (only,) = release.verify(tmp_path, raise_if_failed=False).checks
    assert (only.name, only.outcome) == ("files", "failed")
    with pytest.raises(ReleaseError, match="is not a release"):
        release.verify(tmp_path)
    mixed, columns = RELEASES / "3/mixed", RELEASES / "3/permuted"
    key = bytes(32)
    with pytest.raises(UsageError, match="a release key alone cannot be checked"):
        release.verify(mixed, release_key=key)
    with pytest.raises(UsageError, match="such a folder cannot be drawn again"):
        release.verify(columns, file=mixed / "data.csv", release_key=key)
    with pytest.raises(UsageError, match="such a folder is made of a file"):
        release.verify(columns, file=Table("db", "t"))
    wrong = release.verify(mixed, manifest_sha256=SHA, raise_if_failed=False)
    assert [check.name for check in wrong.checks if check.outcome == "failed"] == ["published"]
    (tmp_path / "office.pub").write_text(SigningKey.new().public_pem)
    unsigned = release.verify(mixed, signer=tmp_path / "office.pub", raise_if_failed=False)
    assert [check.name for check in unsigned.checks if check.outcome == "failed"] == ["signature"]


def test_a_page_is_made_again_only_where_it_is_the_released_one_or_elsewhere(tmp_path: Path) -> None:
    here = make(tmp_path / "here").path
    page = (here / "report.html").read_bytes()
    (here / "report.html").write_bytes(b"other")
    assert release.rebuild_report(here) == here / "report.html"
    assert (here / "report.html").read_bytes() == page
    assert release.rebuild_report(str(here), tmp_path / "page.html").read_bytes() == page
    with pytest.raises(ReleaseError, match="the report cannot be written"):
        release.rebuild_report(here, tmp_path / "page.html")
    edit(here / "manifest.json", lambda data: data["files"]["report.html"].update(sha256=SHA))
    with pytest.raises(ReleaseError, match="not the one released with postrand"):
        release.rebuild_report(here)
    assert release.rebuild_report(here, tmp_path / "again.html").read_bytes() == page
    for name in ("3/completed", "3/permuted"):
        release.rebuild_report(RELEASES / name, tmp_path / f"{name[2:]}.html")
    assert "completed" in (tmp_path / "completed.html").read_text("utf-8")
    (here / "link").symlink_to(here / "report.html")
    with pytest.raises(ReleaseError, match="'link' is not a plain file"):
        release.rebuild_report(here, tmp_path / "more.html")
    with pytest.raises(ReleaseError, match="'link' is not a plain file"):
        release.read(here)


@pytest.mark.parametrize(
    ("fails", "key", "drawn"),
    [
        ("", True, True),
        ("_drawn", True, False),
        ("with_file", True, True),
        ("same_columns", True, True),
        ("same_values", True, True),
        ("", False, False),
    ],
)
def test_what_is_drawn_again_is_no_longer_said_only_if_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, fails: str, key: bool, drawn: bool
) -> None:
    """The four checks by the confidential file are replaced: what follows from their outcomes is tested."""
    ran: list[str] = []

    def replaced(name: str) -> Any:
        def check(*arguments: Any) -> bool:
            ran.append(name)
            assert Path("file.csv") in arguments
            assert "file.csv" not in arguments
            if name == fails:
                raise ReleaseError("no")
            return True

        return check

    for name in ("with_file", "same_columns", "same_values", "_drawn"):
        monkeypatch.setattr(verification, name, replaced(name))
    found = release.verify(
        RELEASES / "3/survey", file="file.csv", release_key=bytes(32) if key else None, raise_if_failed=False
    )
    assert ran == ["with_file", "same_columns", "same_values", *["_drawn"] * key]
    release.verify(RELEASES / "3/surveyed", file="file.csv", raise_if_failed=False)
    assert ran[-1] == "same_columns"  # no column of it is numerical
    said = {check.name: check for check in found.checks if check.outcome == "said"}
    facts = said["facts"].values["facts"] if "facts" in said else []
    assert ("drawn" in facts) == (not drawn)
    assert found.verdict == ("failed" if fails else "verified")
    if drawn:
        assert "ranks" not in said
    else:
        assert (said["ranks"].code, said["ranks"].values["columns"]) == ("said.ranks_with_file", ["pay: permute"])
    for name, done in (("3/mixed", True), ("3/surveyed", False)):
        alone = {check.name: check.code for check in release.verify(RELEASES / name).checks}
        assert alone.get("ranks") == ("said.ranks" if done else None)


def test_who_verifies_is_told_what_to_do_and_nothing_that_only_the_curator_could() -> None:
    for kind, name, kept in (
        (DataError, "mechanism", ""),
        (DataError, "bytes", " Next: f."),
        (ReleaseError, "data", " Next: f."),
    ):
        audit = Audit()

        def fails(kind: Any = kind) -> None:
            raise kind("wrong. Next: f.")

        audit.attempt(name, fails, "check.files")
        found = audit.outcome(RELEASES / "3" / "survey", raise_if_failed=False)
        assert found.problems == (f"survey, {name}: wrong.{kept}",)
        assert found.advice.startswith("Do not use these files. Ask whoever published them")
        assert str(found).endswith(f"THE RELEASE DOES NOT VERIFY. {found.advice}")
        assert found.to_dict()["advice"] == found.advice
        with pytest.raises(ReleaseError, match=r"SHA-256 of its manifest\.json"):
            audit.outcome(RELEASES / "3" / "survey", raise_if_failed=True)
    of_file = Verification(RELEASES / "3" / "survey", (Check("file", "failed", problems=("other file",)),))
    assert of_file.advice == ""  # the confidential file can be the wrong one


def test_checks_that_stand_on_a_failed_one_are_one_problem() -> None:
    stands = [Check(name, "failed", "check.stands_on") for name in ("data", "margins")]
    found = Verification(Path("here"), (Check("certificate", "failed", problems=("wrong",)), *stands))
    assert found.problems[0] == "here, certificate: wrong"
    assert found.problems[1] == "here, data, margins: not checked, because an earlier check failed"
    assert len(found.problems) == 2


def test_a_file_with_other_unperturbed_values_is_not_that_of_the_release(tmp_path: Path) -> None:
    """Any order and any type of number is the same; another value anywhere is not, and neither is a missing one."""
    rows = [f"{'fm'[i % 2]},{'ab'[i % 3 > 0]},{i % 7},{'' if i % 5 else 'x'},{i / 4}" for i in range(120)]
    head, path = "sex,area,rooms,mark,pay", tmp_path / "people.csv"
    path.write_text("\n".join([head, *rows]) + "\n", "utf-8")

    def typed(*words: object) -> str:
        return CliRunner().invoke(main, [*map(str, words)]).output

    assert "wrote" in typed("init", path, "--keys", "sex,area", "--other", "rooms,mark,pay", "--out", tmp_path / "w")
    plan = tmp_path / "w" / "plan.toml"
    plan.write_text(plan.read_text("utf-8").replace("as_is = []", 'as_is = ["pay"]'), "utf-8")
    assert "Next: postrand verify" in typed("protect", "--plan", plan, "--out", tmp_path / "out")
    other = tmp_path / "other.csv"
    for changed, said in (
        (rows[::-1], "unperturbed columns have the values of this file"),
        ([*rows[:-1], rows[-1].replace(",0,", ",1,")], "other values than in this file"),
        ([rows[0].replace(",x,", ",,"), *rows[1:]], "got mark. Next: give the file of the run"),
        ([*rows[:-1], "m,b,0,,29.76"], "got pay. Next: give the file of the run"),
    ):
        other.write_text("\n".join([head, *changed]) + "\n", "utf-8")
        told = typed("verify", tmp_path / "out", "--file", other)
        assert said in told, told
        assert "Do not use these files" not in told
