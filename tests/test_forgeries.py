"""No forgery of a release verifies, however consistently its digests are brought in line."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from postrand import release
from postrand.certification.certificate import Facts
from postrand.errors import ReleaseError, SpecificationError, UncheckedError
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix import UNIT, TransitionMatrix
from tests.release_case import BOOK, CLAIMS, LAW, RECORDS, edit, make, rehash, released_table, writer_of

JSON = ("codebook.json", "mechanism.json", "certificate.json", "manifest.json")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(tmp_path / "release")
    return tmp_path / "release"


def failed(root: Path) -> list[str]:
    return [check.name for check in release.verify(root, raise_if_failed=False).checks if check.ok is False]


Forgery = Callable[[Path], None]
FORGERIES: dict[str, tuple[Forgery, str]] = {}


def forgery(check: str) -> Callable[[Forgery], Forgery]:
    """Register a forgery with the check that must fail first."""

    def register(function: Forgery) -> Forgery:
        FORGERIES[function.__name__] = (function, check)
        return function

    return register


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new, 1), "utf-8")


def rewrite(root: Path, table: pa.Table) -> None:
    (root / "data.parquet").unlink()
    writer_of(table)(root / "data.parquet")


def set_column(name: str, value: Any) -> pa.Table:
    """Return the released data with the first value of a column replaced."""
    table = released_table()
    column = [value, *table[name].to_pylist()[1:]]
    return table.set_column(table.schema.get_field_index(name), name, pa.array(column))


@forgery("digests")
def one_byte_of_the_data(root: Path) -> None:
    content = bytearray((root / "data.parquet").read_bytes())
    content[len(content) // 3] ^= 1
    (root / "data.parquet").write_bytes(bytes(content))


@forgery("digests")
def a_file_added(root: Path) -> None:
    (root / "more.txt").write_text("more")


@forgery("digests")
def the_report_removed(root: Path) -> None:
    (root / "report.html").unlink()


@forgery("manifest")
def the_report_removed_and_unlisted(root: Path) -> None:
    (root / "report.html").unlink()
    rehash(root)


@forgery("files")
def a_subfolder(root: Path) -> None:
    (root / "sub").mkdir()


@forgery("files")
def data_linked_from_outside(root: Path) -> None:
    (root / "data.parquet").rename(root.parent / "outside.parquet")
    (root / "data.parquet").symlink_to(root.parent / "outside.parquet")


@forgery("manifest")
def data_named_outside(root: Path) -> None:
    (root / "data.parquet").rename(root.parent / "outside.parquet")
    rehash(root)

    def change(manifest: dict[str, Any]) -> None:
        manifest["data"] = "../outside.parquet"
        manifest["files"]["../outside.parquet"] = {"bytes": 0, "sha256": ""}

    edit(root / "manifest.json", change)


@forgery("manifest")
def a_manifest_that_says_more(root: Path) -> None:
    edit(root / "manifest.json", lambda m: m.update(approved="by everyone"))


@forgery("certificate")
def a_claim_lowered(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["claims"][1]["privacy"].update(epsilon=0.5))
    rehash(root)


@forgery("certificate")
def a_level_understated(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["claims"][0].update(level=c["claims"][0]["level"] - 1e-15 * 4))
    rehash(root)


@forgery("certificate")
def a_sentence_understated(root: Path) -> None:
    """A certificate holds none: who adds one says what nobody checks."""
    edit(root / "certificate.json", lambda c: c["claims"][0].update(sentence="ε-differential privacy, ε <= 0.5"))
    rehash(root)


@forgery("certificate")
def a_limit_in_words(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["not_covered"].append("Nothing else."))
    rehash(root)


@forgery("certificate")
def a_limit_of_another_code(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["not_covered"][-1].update(code="original_order"))
    rehash(root)


@forgery("certificate")
def a_limit_left_out(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["not_covered"].pop(1))
    rehash(root)


@forgery("certificate")
def a_variable_without_a_claim_said_to_be_covered(root: Path) -> None:
    """The case's claims leave out one perturbed variable, and its certificate says so."""
    covered = ["sex", "region", "work", "hours"]
    limits = release.read(root).not_covered
    assert [text for text in limits if "not covered by any" in text] == [
        "Perturbed, but not covered by any claim: town."
    ]

    def cover(certificate: dict[str, Any]) -> None:
        first, second, *rest = certificate["not_covered"]
        assert first == {"code": "covers", "variables": covered}
        assert second["code"] == "unclaimed"
        certificate["not_covered"] = [{"code": "covers", "variables": [*covered, "town"]}, *rest]

    edit(root / "certificate.json", cover)
    rehash(root)


@forgery("certificate")
def all_claims_left_out(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c.update(claims=[]))
    rehash(root)


@forgery("certificate")
def an_unknown_model(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["claims"][0]["privacy"].update(model="perfect"))
    rehash(root)


@forgery("certificate")
def a_fact_that_is_a_word(root: Path) -> None:
    edit(root / "certificate.json", lambda c: c["facts"].update(key_is_private="no"))
    rehash(root)


@forgery("certificate")
def a_prior_whitewashed(root: Path) -> None:
    edit(root / "mechanism.json", lambda m: m["blocks"][1].update(provenance="public"))
    rehash(root)


@forgery("certificate")
def a_matrix_moved_by_one_unit(root: Path) -> None:
    """The smallest move outward, with every digest brought in line: only the claim itself can tell."""
    moved = []

    def change(law: dict[str, Any]) -> None:
        (a, b), (c, d) = law["blocks"][0]["weights"]
        law["blocks"][0]["weights"] = [[a + 1, b - 1], [c - 1, d + 1]]
        moved.append(Mechanism.from_dict(law, release.released_codebook(BOOK, Facts())))

    def follow(certificate: dict[str, Any]) -> None:
        certificate["mechanism_sha256"] = moved[0].digest()
        certificate["blocks"][0]["matrix_sha256"] = moved[0].blocks[0].matrix.digest()

    edit(root / "mechanism.json", change)
    edit(root / "certificate.json", follow)
    rehash(root)


@forgery("mechanism")
def a_row_that_does_not_sum(root: Path) -> None:
    def change(law: dict[str, Any]) -> None:
        law["blocks"][0]["weights"][0][0] -= 1

    edit(root / "mechanism.json", change)
    rehash(root)


@forgery("mechanism")
def weights_as_floats(root: Path) -> None:
    def change(law: dict[str, Any]) -> None:
        law["blocks"][0]["weights"] = [[float(w) for w in row] for row in law["blocks"][0]["weights"]]

    edit(root / "mechanism.json", change)
    rehash(root)


@forgery("mechanism")
def a_negative_weight(root: Path) -> None:
    edit(root / "mechanism.json", lambda m: m["blocks"][0].update(weights=[[UNIT + 1, -1], [0, UNIT]]))
    rehash(root)


@forgery("mechanism")
def a_weight_beyond_int64(root: Path) -> None:
    edit(root / "mechanism.json", lambda m: m["blocks"][0].update(weights=[[2**70, UNIT - 2**70], [0, UNIT]]))
    rehash(root)


@forgery("mechanism")
def a_false_among_the_weights(root: Path) -> None:
    """``false`` counts as 0 to a careless reader."""

    def change(law: dict[str, Any]) -> None:
        row = law["blocks"][3]["weights"][0]
        row[row.index(0)] = False

    edit(root / "mechanism.json", change)
    rehash(root)


@forgery("mechanism")
def an_unknown_field_of_the_law(root: Path) -> None:
    edit(root / "mechanism.json", lambda m: m["blocks"][0].update(note="perfectly safe"))
    rehash(root)


@forgery("mechanism")
def a_name_given_twice(root: Path) -> None:
    replace(root / "mechanism.json", '"unit": "2^-53"', '"unit": "2^-53",\n  "unit": "2^-53"')
    rehash(root)


@forgery("certificate")
def not_a_number(root: Path) -> None:
    replace(root / "certificate.json", '"epsilon": 1.0', '"epsilon": NaN')
    rehash(root)


@forgery("certificate")
def a_number_beyond_float64(root: Path) -> None:
    replace(root / "certificate.json", '"epsilon": 1.0', '"epsilon": 1e999')
    rehash(root)


@forgery("codebook")
def nested_too_deeply(root: Path) -> None:
    (root / "codebook.json").write_text('{"variables":' * 100_000 + "1" + "}" * 100_000)
    rehash(root)


@forgery("codebook")
def not_utf8(root: Path) -> None:
    (root / "codebook.json").write_bytes(b'{"schema": "\xff"}\n')
    rehash(root)


@forgery("mechanism")
def categories_swapped(root: Path) -> None:
    edit(root / "codebook.json", lambda c: c["variables"][0].update(categories=["M", "F"]))
    rehash(root)


@forgery("certificate")
def labels_swapped(root: Path) -> None:
    edit(root / "codebook.json", lambda c: c["variables"][0].update(labels=["Male", "Female"]))
    rehash(root)


@forgery("certificate")
def a_kept_back_role(root: Path) -> None:
    edit(root / "codebook.json", lambda c: c["variables"][-1].update(role="record_key"))
    rehash(root)


@forgery("codebook")
def a_hostile_type(root: Path) -> None:
    edit(root / "codebook.json", lambda c: c["variables"].append([1]))
    rehash(root)


@forgery("data")
def a_value_outside_the_codebook(root: Path) -> None:
    rewrite(root, set_column("sex", "X"))
    rehash(root)


@forgery("data")
def a_value_of_probability_zero(root: Path) -> None:
    rewrite(root, set_column("town", "gone"))
    rehash(root)


@forgery("data")
def a_combination_that_is_no_cell(root: Path) -> None:
    table = released_table()
    rows = [i for i in range(RECORDS) if table["work"][i].as_py() == 1]
    hours = table["hours"].to_pylist()
    hours[rows[0]] = "none"
    rewrite(root, table.set_column(table.schema.get_field_index("hours"), "hours", pa.array(hours)))
    rehash(root)


@forgery("data")
def a_missing_value_where_none_may_be(root: Path) -> None:
    rewrite(root, set_column("sex", None))
    rehash(root)


@forgery("data")
def a_missing_weight(root: Path) -> None:
    rewrite(root, set_column("weight", None))
    rehash(root)


@forgery("data")
def a_column_of_names(root: Path) -> None:
    rewrite(root, released_table().append_column("name", pa.array(["Ann"] * RECORDS)))
    rehash(root)


@forgery("data")
def a_column_left_out(root: Path) -> None:
    rewrite(root, released_table().drop_columns(["weight"]))
    rehash(root)


@forgery("data")
def columns_in_another_order(root: Path) -> None:
    rewrite(root, released_table().select(["region", "sex", "work", "hours", "town", "weight"]))
    rehash(root)


@forgery("data")
def secrets_in_the_file_metadata(root: Path) -> None:
    pq.write_table(released_table().replace_schema_metadata({"note": "true values"}), root / "data.parquet")
    rehash(root)


@forgery("data")
def no_parquet_at_all(root: Path) -> None:
    (root / "data.parquet").write_bytes(b"PAR1 and nothing else")
    rehash(root)


@forgery("derived")
def a_record_left_out(root: Path) -> None:
    rewrite(root, released_table().slice(1))
    rehash(root)


@forgery("derived")
def a_report_that_understates(root: Path) -> None:
    replace(root / "report.html", "ε &lt;= 4.5", "ε &lt;= 0.5")
    rehash(root)


@forgery("derived")
def a_report_with_a_script(root: Path) -> None:
    replace(root / "report.html", "</main>", "<script>fetch('//')</script></main>")
    rehash(root)


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_verifies(root: Path, name: str) -> None:
    forge, check = FORGERIES[name]
    forge(root)
    assert failed(root)[0] == check
    with pytest.raises(ReleaseError, match=check):
        release.verify(root)


@pytest.mark.parametrize("name", JSON)
def test_unknown_schemas_are_refused(root: Path, name: str) -> None:
    edit(root / name, lambda data: data.update(schema=data["schema"][:-1] + "9"))
    if name != "manifest.json":
        rehash(root)
    assert failed(root)[0] == name.partition(".")[0]


@pytest.mark.parametrize("name", JSON)
def test_the_same_value_in_another_form_is_refused(root: Path, name: str) -> None:
    path = root / name
    path.write_text(json.dumps(json.loads(path.read_text())))
    if name != "manifest.json":
        rehash(root)
    assert failed(root)[0] == name.partition(".")[0]


def test_a_consistent_forgery_is_caught_by_the_published_digest(tmp_path: Path) -> None:
    genuine, forged = make(tmp_path / "a").path, make(tmp_path / "b", claims=CLAIMS[:1]).path
    published = hashlib.sha256((genuine / "manifest.json").read_bytes()).hexdigest()
    assert release.verify(genuine, manifest_sha256=published.upper()).ok
    assert release.verify(forged).ok
    with pytest.raises(ReleaseError, match="published"):
        release.verify(forged, manifest_sha256=published)


def test_every_failed_check_is_reported(root: Path) -> None:
    a_sentence_understated(root)
    a_value_outside_the_codebook(root)
    with pytest.raises(ReleaseError) as caught:
        release.verify(root)
    assert len(failed(root)) == 5  # data, margins, bytes and derived stand on the certificate
    assert len(caught.value.problems) == 2
    assert "data, margins, bytes, derived: not checked" in caught.value.problems[1]
    assert "not checked, because an earlier check failed" in caught.value.problems[-1]


def test_a_report_of_another_version_is_not_verified_and_names_that_version(root: Path) -> None:
    a_report_that_understates(root)
    edit(root / "manifest.json", lambda m: m["package"].update(version="9.9"))
    with pytest.raises(UncheckedError, match=r"verify it with postrand 9\.9"):
        release.verify(root)
    found = release.verify(root, raise_if_failed=False)
    assert (found.ok, found.verdict, found.exit_code) == (False, "incomplete", 9)
    a_level_understated(root)
    assert release.verify(root, raise_if_failed=False).verdict == "failed"  # whatever version is named


@pytest.mark.parametrize("version", ["0.0.9", "0.1", "1", "", "0.1.0 ", "v0.1.0", "0.1.0-final", "9" * 40, 1, None])
def test_a_version_that_cannot_have_written_it_is_refused(root: Path, version: Any) -> None:
    edit(root / "manifest.json", lambda m: m["package"].update(version=version))
    assert failed(root)[0] == "manifest"


@pytest.mark.parametrize("library", ["pyreadstat 1.2.8", "", "pyarrow\n1", "PyArrow 1.0", 3])
def test_a_library_of_another_format_is_refused(root: Path, library: Any) -> None:
    edit(root / "manifest.json", lambda m: m.update(written_with=library))
    assert failed(root)[0] == "manifest"


@pytest.mark.parametrize("name", JSON)
def test_reading_names_what_is_missing(root: Path, name: str) -> None:
    (root / name).unlink()
    with pytest.raises(ReleaseError, match=f"{name} is missing"):
        release.read(root)


@pytest.mark.parametrize("kind", ["nothing", "a file", "a folder"])
def test_what_is_no_release_is_one_problem_with_a_next_step(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "a file":
        place.write_text("[source]\n")
    elif kind == "a folder":
        place.mkdir()
        (place / "data.csv").write_text("a\n1\n")
    with pytest.raises(ReleaseError) as caught:
        release.verify(place)
    (problem,) = caught.value.problems
    assert "Next: give the folder that 'postrand protect --out' made" in problem
    wanted = {"nothing": "no such release", "a file": "a release is a folder", "a folder": "manifest.json is missing"}
    assert wanted[kind] in problem
    assert [check.ok for check in release.verify(place, raise_if_failed=False).checks] == [False]


def test_reading_refuses_what_is_no_release(tmp_path: Path, root: Path) -> None:
    with pytest.raises(ReleaseError, match="no such release"):
        release.read(tmp_path / "nowhere")
    shutil.copy(root / "codebook.json", root / "mechanism.json")
    with pytest.raises(SpecificationError, match="unknown mechanism schema"):
        release.read(root)


def test_a_matrix_that_claims_nothing_is_released_under_its_attained_level(tmp_path: Path) -> None:
    law = Mechanism([Block(("sex",), LAW["sex"].matrix)], BOOK.select(["id", "sex"]))
    made = make(tmp_path / "release", released_table().select(["sex"]), mechanism=law, claims=())
    assert made.certificate["claims"][0]["level"] <= 1.0
    assert release.verify(made.path).ok


def test_an_identity_block_is_released_as_it_is(tmp_path: Path) -> None:
    law = Mechanism([LAW["sex"], Block(("town",), TransitionMatrix.identity(3))], BOOK.select(["sex", "town"]))
    table = released_table().select(["sex", "town"])
    made = make(tmp_path / "release", table, mechanism=law, claims=CLAIMS[1:])
    assert release.verify(made.path).ok
