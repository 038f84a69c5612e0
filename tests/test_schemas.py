"""Releases of every schema are read, verified and estimated from for ever; words are no part of them."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from postrand import estimate, release
from postrand.certification.certificate import Claim, certify
from postrand.cli import main
from postrand.codebook import Codebook
from postrand.errors import ReleaseError, SpecificationError
from postrand.mechanism import Mechanism
from postrand.mechanism.matrix import TransitionMatrix, randomised_response
from postrand.privacy import MODELS, DifferentialPrivacy, Finding
from postrand.release import canonical_json, earlier, fields, rendering, whole_columns
from postrand.release.bundle import CODEBOOK_SCHEMAS, DESCRIPTION_SCHEMA, SCHEMAS, Release
from postrand.release.completed_files import SCHEMA as COMPLETED_SCHEMA
from postrand.release.ledger import Ledger, Terms
from postrand.release.ledger_lines import SCHEMAS as LEDGER_SCHEMAS
from postrand.release.ledger_lines import Entry
from postrand.support import wordings
from postrand.support.randomness import ReleaseKey
from tests.conftest import ROOT
from tests.fixtures.releases.make import write_people
from tests.json_schema import problems
from tests.release_case import BOOK, edit, make, rehash

KEPT = Path(__file__).parent / "fixtures" / "releases"
NUMBERS = tuple(int(schema.rpartition("/")[2]) for schema in SCHEMAS)
PERTURBED = ("survey", "mixed")
COLUMNS = ("permuted", "averaged", "anatomised")
FOLDERS = [KEPT / str(number) / name for number in NUMBERS for name in (*PERTURBED, *COLUMNS)]
JSON = ("manifest.json", "codebook.json", "mechanism.json", "certificate.json", "description.json")
EARLIER_WORDS = {"earlier_words", "earlier_levels", "rendered"}
"""What a verification may say of an earlier release beside what it says of one of today."""


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


each = pytest.mark.parametrize("folder", FOLDERS, ids=name_of)


# -- for ever ---------------------------------------------------------------------------------------------------------


def test_there_is_a_release_of_every_schema() -> None:
    assert sorted(int(path.name) for path in KEPT.iterdir() if path.is_dir() and path.name.isdigit()) == list(NUMBERS)
    for folder in FOLDERS:
        family = SCHEMAS if folder.name in PERTURBED else whole_columns.SCHEMAS
        stated = json.loads((folder / "manifest.json").read_text())["schema"]
        assert stated == family[int(folder.parent.name) - 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_it_is_estimated_from(number: int) -> None:
    """One file, law and key: what is estimated does not depend on the schema, but on the draws of its version."""
    found = release.read(KEPT / str(number) / "survey")
    shares = estimate.proportions(found.frame(), "sex", found.mechanism)
    assert shares.value.sum() == pytest.approx(1.0)
    assert abs(shares.value[0] - 0.5) < 5 * shares.standard_error[0]
    table = estimate.table(found.frame(), ["age", "job"], found.mechanism)
    assert table.value.sum() == pytest.approx(1.0)
    assert abs(table.value[0, 1:]).max() < 1e-9  # children have no job


@pytest.mark.parametrize("name", PERTURBED)
def test_all_schemas_say_the_same_in_today_s_words(name: str) -> None:
    """The releases were made of one file by one plan: what an earlier one states is said as today's says it."""
    today, *before = (release.read(KEPT / str(number) / name) for number in reversed(NUMBERS))
    perturbed = len(today.certificate["claims"])
    for found in before:
        assert found.certificate_sentences[:perturbed] == today.certificate_sentences[:perturbed]
        assert found.not_covered == today.not_covered


@pytest.mark.parametrize("number", NUMBERS)
def test_the_file_and_the_key_are_still_tried(number: int, tmp_path: Path) -> None:
    """An auditor repeats the draws of schema 2 and later; those of schema 1 followed no content, and are no more."""
    write_people(tmp_path)
    arguments = {"file": tmp_path / "people.csv", "release_key": ReleaseKey.from_seed(16)}
    found = release.verify(KEPT / str(number) / "survey", raise_if_failed=False, **arguments)
    outcomes = {check.name: check.outcome for check in found.checks}
    assert (outcomes["file"], outcomes["values"]) == ("passed", "passed")
    assert (found.verdict, outcomes["drawn"]) == (("incomplete", "not run") if number == 1 else ("verified", "passed"))
    for name in COLUMNS:
        assert release.verify(KEPT / str(number) / name, file=tmp_path / "people.csv").ok


@each
def test_its_page_is_made_anew_in_today_s_words(folder: Path, tmp_path: Path) -> None:
    page = release.rebuild_report(folder, tmp_path / "page.html").read_text()
    if folder.name in PERTURBED:
        found = release.read(folder)
        assert all(escape(text, quote=False) in unescaped(page) for text in found.not_covered)


def unescaped(page: str) -> str:
    """Return the page with quotation marks as they are: a browser shows both forms alike."""
    return page.replace("&#39;", "'").replace("&#34;", '"')


@pytest.mark.parametrize("number", NUMBERS)
def test_the_command_line_reads_it(number: int) -> None:
    folder = KEPT / str(number) / "survey"
    done = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (0, "verified")
    done = CliRunner().invoke(main, ["estimate", str(folder), "--table", "sex", "--json"])
    assert done.exit_code == 0, done.output


# -- earlier releases are no door for forgers -------------------------------------------------------------------------


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "release"))


FORGERIES = {
    "a level": ("certificate.json", lambda c: c["claims"][0].update(level=0.1)),
    "a claim": ("certificate.json", lambda c: c["claims"][0]["privacy"].update(epsilon=0.5)),
    "an account": ("certificate.json", lambda c: c["account"].update(total=0.1)),
    "a fact that is a word": ("certificate.json", lambda c: c["facts"].update(ids_are_released="no")),
    "a prior": ("certificate.json", lambda c: c["blocks"][1].update(prior="public")),
    "a digest": ("certificate.json", lambda c: c.update(mechanism_sha256="0" * 64)),
    "an origin": ("mechanism.json", lambda c: c["blocks"][1].update(provenance="public")),
    "a weight": ("mechanism.json", lambda c: c["blocks"][0]["weights"][0].reverse()),
    "a schema": ("mechanism.json", lambda c: c.update(schema="postrand/mechanism/9")),
    "another schema": ("certificate.json", lambda c: c.update(schema="postrand/certificate/9")),
    "a field": ("certificate.json", lambda c: c.update(approved="by all")),
    "a numerical level": ("certificate.json", lambda c: c["numerical"][0].update(beta=0.9)),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_release_of_any_schema_fails(number: int, name: str, tmp_path: Path) -> None:
    root = copied(KEPT / str(number) / "survey", tmp_path)
    file, change = FORGERIES[name]
    edit(root / file, change)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"
    rehash(root)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_schema_cannot_be_lowered_or_raised(number: int, tmp_path: Path) -> None:
    root = copied(KEPT / str(number) / "survey", tmp_path)
    manifest = json.loads((root / "manifest.json").read_text())
    for other in {*NUMBERS, 99} - {number}:
        changed = {**manifest, "schema": f"postrand/release/{other}"}
        (root / "manifest.json").write_bytes(canonical_json.dump(changed))
        assert release.verify(root, raise_if_failed=False).verdict == "failed"


@pytest.mark.parametrize("name", ["permuted", "anatomised"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_forged_folder_of_columns_fails(number: int, name: str, tmp_path: Path) -> None:
    root = copied(KEPT / str(number) / name, tmp_path)
    edit(root / "certificate.json", lambda c: c["claims"][0].update(beta=0.99))
    rehash(root)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"


def test_prose_that_an_early_certificate_holds_is_neither_compared_nor_shown(tmp_path: Path) -> None:
    root = copied(KEPT / "2" / "survey", tmp_path)
    before = release.read(root)
    edit(root / "certificate.json", lambda c: c["claims"][0].update(sentence="Nobody can be found."))
    edit(root / "certificate.json", lambda c: c.update(not_covered=[]))
    rehash(root)
    found = release.verify(root)
    assert "not compared" in next(c.sentence for c in found.checks if c.name == "earlier_words")
    assert release.read(root).certificate_sentences == before.certificate_sentences
    assert release.read(root).not_covered == before.not_covered
    assert len(before.not_covered) > 3


# -- words ------------------------------------------------------------------------------------------------------------


def reword(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every code other words, with the same fields in another order."""

    def other(code: str, template: str) -> str:
        named = [part for part in wordings._FORMATTER.parse(template) if part[1]]
        values = [f"{{{name}:{spec}}}" if spec else f"{{{name}}}" for _, name, spec, _ in reversed(named)]
        return " / ".join([f"other words of {code.replace('.', ' ')}", *values])

    monkeypatch.setattr(wordings, "WORDINGS", MappingProxyType({c: other(c, t) for c, t in wordings.WORDINGS.items()}))
    monkeypatch.setattr(rendering, "WORDINGS", wordings.WORDINGS)


@each
def test_no_wording_is_part_of_a_proof(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every template replaced: each release made before still verifies, is read and estimated from, in other words."""
    before = release.verify(folder)
    reword(monkeypatch)
    found = release.verify(folder)
    assert found.verdict == "verified"
    new = {c.name for c in found.checks} - {c.name for c in before.checks}
    assert new <= {"rendered"}
    outcomes = [(c.name, c.outcome, c.code, c.values) for c in found.checks if c.name != "rendered"]
    assert outcomes == [(c.name, c.outcome, c.code, c.values) for c in before.checks if c.name != "rendered"]
    assert all(c.sentence.startswith("other words of ") for c in found.checks)
    (told,) = [c for c in found.checks if c.name == "rendered"]
    assert "report.html" in told.values["files"]
    if folder.name in PERTURBED:
        again = release.read(folder)
        assert all("other words of claim" in text for text in again.certificate_sentences)
        assert all(text.startswith("other words of limit") for text in again.not_covered)
        assert estimate.proportions(again.frame(), "sex", again.mechanism).value.sum() == pytest.approx(1.0)


def test_what_is_written_holds_no_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs that differ in words only write the same data, law, certificate and tables for R."""
    one = make(tmp_path / "one").path
    reword(monkeypatch)
    other = make(tmp_path / "other").path
    differ = {p.name for p in one.iterdir() if p.read_bytes() != (other / p.name).read_bytes()}
    assert differ == {"report.html", "ddi.xml", "croissant.json", "manifest.json"}
    assert release.verify(one).verdict == release.verify(other).verdict == "verified"


def test_pages_of_this_very_program_are_compared(tmp_path: Path) -> None:
    """A page that this program would write otherwise is forged; of an earlier program it is only said to be another."""
    root = make(tmp_path / "release").path
    (root / "report.html").write_text("All is well.")
    rehash(root)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"
    edit(root / "manifest.json", lambda m: m.update(rendering_sha256="0" * 64))
    found = release.verify(root)
    assert "not compared: report.html" in next(c.sentence for c in found.checks if c.name == "rendered")
    (root / "r_matrix_1.csv").write_text("1,0\n0,1\n")  # what R computes with is no prose
    rehash(root)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"


def test_another_page_of_another_program_is_no_forgery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only wordings may change, but templates, pictures and metadata: any file tells programs apart."""
    root = make(tmp_path / "release").path
    monkeypatch.setattr("postrand.report.public_report", lambda *_: "<p>Another page.</p>")
    assert release.verify(root, raise_if_failed=False).verdict == "failed"
    monkeypatch.setattr(rendering, "_files", lambda: "other files")
    found = release.verify(root)
    assert next(c.values["files"] for c in found.checks if c.name == "rendered") == ["report.html"]


def test_a_page_of_a_later_version_is_not_verified_by_an_earlier_one(tmp_path: Path) -> None:
    root = make(tmp_path / "release").path
    (root / "report.html").write_text("All is better.")
    rehash(root)
    edit(root / "manifest.json", lambda m: m.update(rendering_sha256="0" * 64))
    edit(root / "manifest.json", lambda m: m["package"].update(version="99.1"))
    found = release.verify(root, raise_if_failed=False)
    assert found.verdict == "incomplete"
    assert "verify it with postrand 99.1" in found.problems[0]


@pytest.mark.parametrize("digest", ["", "0" * 63, "G" * 64, 1, None])
def test_what_rendered_the_pages_is_told(tmp_path: Path, digest: Any) -> None:
    root = make(tmp_path / "release").path
    edit(root / "manifest.json", lambda m: m.update(rendering_sha256=digest))
    first = next(c for c in release.verify(root, raise_if_failed=False).checks if c.ok is False)
    assert (first.name, "the program that wrote the pages" in first.sentence) == ("manifest", True)


OF_RECORDS = ["files", "manifest", "digests", "codebook", "mechanism", "certificate", "data", "margins"]
OF_COLUMNS = ["files", "manifest", "digests", "certificate"]
FACTS = ("facts", {"facts": ["drawn", "order"]})
SAID: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "mixed": [("ranks", {"columns": ["pay: average"]}), FACTS],
    "survey": [("ranks", {"columns": ["pay: permute"]}), FACTS],
    "permuted": [("moved_ranks", {})],
    "averaged": [("averages", {})],
    "anatomised": [("cut_links", {})],
}
EARLIER = {"1": ["earlier_words", "earlier_levels"], "2": ["earlier_words"], "3": []}
OF_LIBRARIES = {"rendered", "bytes", "copies_bytes", "writer"}


@pytest.mark.parametrize("number", EARLIER)
@pytest.mark.parametrize("name", SAID)
def test_every_check_runs_and_what_no_one_can_recompute_is_said(name: str, number: str) -> None:
    """All of it, in order, but for what depends on the libraries that are installed."""
    made = release.verify(KEPT / number / name)
    assert made.verdict == "verified"
    found = [check for check in made.checks if check.name not in OF_LIBRARIES]
    passed = [check.name for check in found if check.outcome == "passed"]
    said = [(check.code.removeprefix("said."), check.values) for check in found if check.outcome == "said"]
    assert passed == [*(OF_RECORDS if FACTS in SAID[name] else OF_COLUMNS), "derived"]
    origins = [entry for entry in said if entry[0] == "origins"]
    assert [entry for entry in said if entry not in origins] == SAID[name] + [
        (code, dict[str, Any]()) for code in EARLIER[number]
    ]
    public = {"mixed": [["sex"], ["region"]], "survey": [["sex"], ["age", "job"]]}.get(name)
    assert origins == ([("origins", {"origins": {"public": public}})] if public else [])


def test_checks_are_codes_with_values() -> None:
    found = release.verify(KEPT / "3" / "survey")
    for check in found.to_dict()["checks"]:
        assert check["sentence"] == wordings.say(check["code"], **check["values"])
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_every_wording_is_of_a_code_with_known_formats() -> None:
    families = ("claim", "sets", "then", "limit", "check", "said", "fact", "origin", "file", "bound", "unit")
    for code, template in wordings.WORDINGS.items():
        assert code.partition(".")[0] in families, code
        for _, name, spec, conversion in wordings._FORMATTER.parse(template):
            assert not conversion
            assert name is None or name.isidentifier()
            assert not spec or spec in wordings.FORMATS


def test_a_model_from_elsewhere_brings_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claim is stated by its name and options; its words are its own where they are shown."""

    @dataclass(frozen=True, slots=True)
    class Halved(DifferentialPrivacy):
        name: ClassVar[str] = "halved"
        wording: ClassVar[str] = "half of ε is {half:up}, asked for {epsilon}"

        def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
            found = DifferentialPrivacy(self.epsilon).check(matrices)
            return replace(found, sentence="{not} a template", figures={"half": found.level / 2})

    models = (*MODELS, Halved)
    monkeypatch.setattr("postrand.certification.certificate.MODELS", models)
    law = Mechanism({"sex": randomised_response(2, 1.0)})
    certificate = certify(law, [Claim(Halved(1.5))])
    assert certificate.sentences == ("sex: half of ε is 0.5, asked for 1.5.",)
    assert "half of" not in json.dumps(certificate.to_dict())
    made = Release(tmp_path, BOOK, law, certificate.to_dict(), {})
    assert made.certificate_sentences == certificate.sentences
    monkeypatch.delattr(Halved, "wording")
    assert certify(law, [Claim(Halved(1.5))]).sentences == ("sex: {not} a template.",)
    assert made.certificate_sentences == ("sex: halved privacy holds at level 1.",)


def test_values_are_no_templates() -> None:
    assert wordings.limit({"code": "unchanged", "variables": ["{0}", "{x!r}"]}).endswith("{0}, {x!r}.")


# -- fields -----------------------------------------------------------------------------------------------------------


@each
def test_every_file_fits_its_json_schema(folder: Path) -> None:
    read = [path for path in folder.glob("*.json") if path.name != "croissant.json"]
    assert {"manifest.json", "certificate.json"} <= {path.name for path in read} <= set(JSON)
    for path in read:
        data = json.loads(path.read_text())
        schema = fields.schema_of(data, path.name)
        assert schema is not None
        assert list(problems(data, schema, schema)) == []


@pytest.mark.parametrize("name", JSON)
def test_what_is_written_today_fits_too(name: str, tmp_path: Path) -> None:
    data = json.loads((make(tmp_path / "release").path / name).read_text())
    schema = fields.schema_of(data, name)
    assert schema is not None
    assert list(problems(data, schema, schema)) == []
    assert list(problems({**data, "more": 1}, schema, schema)) == ["$: unknown more"]


def test_every_schema_is_carried() -> None:
    found = {path.stem for path in (Path(fields.__file__).parent / "schemas").glob("*.json")}
    written = [*SCHEMAS, *CODEBOOK_SCHEMAS, DESCRIPTION_SCHEMA, *LEDGER_SCHEMAS, COMPLETED_SCHEMA]
    written += [f"postrand/certificate/{number}" for number in NUMBERS]
    written += sorted(set(earlier.MECHANISMS.values()))
    names = {"-".join(schema.split("/")[1:]) for schema in written}
    numbers = [schema.rpartition("/")[2] for schema in whole_columns.SCHEMAS]
    names |= {"signatures-1"}  # which name no schema: DSSE has no field for it
    names |= {f"columns-{kind}-{number}" for kind in ("manifest", "certificate") for number in numbers}
    assert found == names
    for name in found:
        kind, _, number = name.rpartition("-")
        schema = fields.schema(kind, int(number))
        assert schema is not None
        assert schema["$id"] == f"urn:postrand:{kind}:{number}"


RESERVED = [
    ("manifest.json", ("completed",), {"copies": 20}, "completed files"),
    ("manifest.json", ("signatures",), [{"key": "ab"}], "signatures"),
    ("codebook.json", ("units",), {"person": "pid"}, "units of protection"),
    ("codebook.json", ("variables", 0, "unit"), "household", "units of protection"),
    ("certificate.json", ("claims", 0, "unit"), "person", "units of protection"),
]


def placed(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(("name", "path", "value", "feature"), RESERVED)
def test_a_reserved_field_with_content_asks_for_a_newer_version(
    name: str, path: tuple[Any, ...], value: Any, feature: str, tmp_path: Path
) -> None:
    root = make(tmp_path / "release").path
    edit(root / name, lambda data: placed(data, path, value))
    rehash(root)
    wanted = f"this release uses {feature}.*use a newer postrand"
    with pytest.raises(ReleaseError, match=wanted):
        release.read(root)
    with pytest.raises(ReleaseError, match=wanted):
        release.verify(root)


@pytest.mark.parametrize(("name", "path"), [entry[:2] for entry in RESERVED])
@pytest.mark.parametrize("empty", [None, {}, [], ""])
def test_a_reserved_field_without_content_means_nothing(
    name: str, path: tuple[Any, ...], empty: Any, tmp_path: Path
) -> None:
    root = make(tmp_path / "release").path
    edit(root / name, lambda data: placed(data, path, empty))
    rehash(root)
    assert release.verify(root).verdict == "verified"
    found = release.read(root)
    assert estimate.proportions(found.frame(), "sex", found.mechanism).value.sum() == pytest.approx(1.0)


def test_every_reserved_field_is_tried() -> None:
    def reserved(part: Any) -> int:
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return (isinstance(part, dict) and "x-reserved" in part) or sum(map(reserved, inside))

    today = (("release", 3), ("codebook", 1), ("mechanism", 2), ("certificate", 3), ("description", 1))
    assert sum(reserved(fields.schema(*which)) for which in today) == len(RESERVED)


def test_a_reserved_name_asks_for_a_newer_version(tmp_path: Path) -> None:
    root, name = make(tmp_path / "release").path, "completed"
    (root / name).mkdir()
    (root / name / "1.csv").write_text("sex\n")
    with pytest.raises(ReleaseError, match=r"uses completed files.*use a newer postrand"):
        release.verify(root)
    with pytest.raises(ReleaseError, match=r"the file name .* is already used"):
        make(tmp_path / "other", extra={name: "mine"})


def test_a_mechanism_alone_refuses_what_it_does_not_know() -> None:
    law = json.loads((KEPT / "3" / "survey" / "mechanism.json").read_text())
    assert Mechanism.from_dict({**law, "split": {}}) == Mechanism.from_dict(law)
    assert Mechanism.from_dict({**law, "units": []}) == Mechanism.from_dict(law)
    with pytest.raises(SpecificationError, match="the units of a mechanism are malformed"):
        Mechanism.from_dict({**law, "units": ["person"]})
    law["blocks"][0]["unit"] = "household"
    with pytest.raises(SpecificationError, match="no column tells the households of a block"):
        Mechanism.from_dict(law)


def test_a_line_of_a_ledger_fits_its_schema(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "key.ledger")
    old = {"schema": LEDGER_SCHEMAS[0], "content": "ab" * 16, "mechanism": "0" * 64, "epsilon": 1.0}
    old |= {"release": "release", "at": "2026-01-01T00:00:00+00:00"}
    ledger.path.write_text(json.dumps(old) + "\n")
    ledger.add(Entry("cd" * 16, "0" * 64, 1.0, "release", "2026-01-01T00:00:00+00:00"), Terms(again=True))
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    for number, line in zip((1, 2, 2), lines, strict=True):
        schema = fields.schema("ledger", number)
        assert schema is not None
        assert list(problems(line, schema, schema)) == []
        assert list(problems({**line, "more": 1}, schema, schema)) != []


def test_a_field_that_no_schema_knows_is_refused_when_read(tmp_path: Path) -> None:
    """Who ignores it may read the others wrong."""
    root = make(tmp_path / "file").path
    edit(root / "manifest.json", lambda m: m["files"]["data.parquet"].update(secret_switch=True))
    with pytest.raises(ReleaseError, match="unknown field 'secret_switch'"):
        release.read(root)
    for name in ("codebook.json", "mechanism.json", "certificate.json", "manifest.json"):
        root = make(tmp_path / name).path
        edit(root / name, lambda data: data.update(secret_switch=True))
        with pytest.raises(ReleaseError, match=r"unknown field 'secret_switch'.*newer postrand"):
            release.read(root)


def test_the_format_s_page_names_every_schema_code_and_reserved_field() -> None:
    page = (ROOT / "docs" / "release-format.md").read_text()
    written = [SCHEMAS[-1], *CODEBOOK_SCHEMAS, DESCRIPTION_SCHEMA, *LEDGER_SCHEMAS, whole_columns.SCHEMAS[-1]]
    written.append(COMPLETED_SCHEMA)
    codes = [code.partition(".")[2] for code in wordings.WORDINGS if code.startswith("limit.")]
    names = [*fields.RESERVED_NAMES, *(str(entry[1][-1]) for entry in RESERVED)]
    for name in [*written, *earlier.MECHANISMS.values(), "postrand/certificate/3", *codes, *names]:
        assert re.search(rf"`{re.escape(name)}/?`", page) or "mechanism/1" in name, name
    assert all(feature in page for *_, feature in RESERVED)


def test_early_files_have_the_forms_that_they_had() -> None:
    """Schema 1 is read as it was: its law names no budgets, and its digest covers no origins."""
    root = KEPT / "1" / "survey"
    law = json.loads((root / "mechanism.json").read_text())
    found = release.read(root)
    assert isinstance(found.mechanism, Mechanism)
    assert isinstance(found.codebook, Codebook)
    assert found.certificate["schema"] == "postrand/certificate/3"
    assert law["schema"] == "postrand/mechanism/1"
    assert canonical_json.dump({**found.mechanism.to_dict(), "schema": law["schema"]}) == canonical_json.dump(
        {**law, "numerical": found.mechanism.to_dict()["numerical"]}
    )
