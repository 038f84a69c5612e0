"""A release appears whole or not at all, and no forgery of it verifies."""

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrand import release
from postrand.certification.certificate import Claim, Facts
from postrand.errors import DataError, PrivacyError, ReleaseError
from postrand.privacy import DifferentialPrivacy
from postrand.release import canonical_json
from tests.release_case import FILES, RECORDS, make, released_table, writer_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(tmp_path / "release")
    return tmp_path / "release"


# -- writing ----------------------------------------------------------------------------------------------------------


def test_a_release_holds_its_files_and_verifies(root: Path) -> None:
    r_code = {"postrand.R", "r_categories.csv", *(f"r_matrix_{n}.csv" for n in range(1, 5))}
    assert {p.name for p in root.iterdir()} == FILES | r_code
    verification = release.verify(root)
    assert verification.ok
    assert [check.name for check in verification.checks] == [
        "files",
        "manifest",
        "digests",
        "codebook",
        "mechanism",
        "certificate",
        "data",
        "margins",
        "bytes",
        "derived",
        "facts",
        "origins",
    ]
    assert [check.ok for check in verification.checks] == [True] * 10 + [None] * 2
    assert "is what it claims to be" in str(verification)
    assert verification.to_dict()["ok"] is True
    assert os.listdir(root.parent) == ["release"]


@pytest.mark.parametrize("name", ["data.parquet", "data.csv", "data.arrow"])
def test_what_was_written_is_read_back(tmp_path: Path, name: str) -> None:
    written = make(tmp_path / "release", data_name=name, extra={"metadata.xml": "<a/>"})
    found = release.read(tmp_path / "release")
    assert (found.mechanism, found.codebook, found.certificate) == (
        written.mechanism,
        written.codebook,
        json.loads((found.path / "certificate.json").read_text()),
    )
    assert found.data_path == found.path / name
    assert found.frame().to_pydict() == released_table().to_pydict()
    assert found.frame().schema.field("region").type == pa.dictionary(pa.int8(), pa.string())
    assert found.certificate_sentences[1].startswith("sex: each record")
    assert release.verify(found.path).ok


def test_files_that_nothing_gives_are_named(tmp_path: Path) -> None:
    plain, more = make(tmp_path / "a"), make(tmp_path / "b", extra={"notes.txt": "x", "map.svg": "<a/>"})
    last = [release.verify(made.path).checks[-1] for made in (plain, more)]
    assert [check.name for check in last] == ["origins", "extra"]
    assert last[1].sentence == "the contents of extra files are not checked: map.svg, notes.txt"
    assert release.verify(more.path).ok  # nobody can recompute them: they are said, and change no verdict


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a").path, make(tmp_path / "b").path
    assert {p.name: p.read_bytes() for p in a.iterdir()} == {p.name: p.read_bytes() for p in b.iterdir()}


def test_kept_back_variables_and_ids_are_nowhere(root: Path) -> None:
    for path in root.iterdir():
        content = path.read_bytes()
        assert b'"id"' not in content
        assert b'"name": "name"' not in content
    assert release.read(root).codebook.names == ("sex", "region", "work", "hours", "town", "weight")


def test_ids_are_released_where_asked(tmp_path: Path) -> None:
    table = released_table().add_column(0, "id", pa.array(range(RECORDS)))
    found = make(tmp_path / "release", table, facts=Facts(ids_are_released=True))
    assert found.codebook.names[0] == "id"
    assert release.verify(found.path).ok
    assert "Record ids are released." in found.not_covered


def test_a_failed_claim_stops_the_release(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match="sex"):
        make(tmp_path / "release", claims=[Claim(DifferentialPrivacy(0.9), ("sex",))])
    assert os.listdir(tmp_path) == []


def fail(error: BaseException) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(b"half a file")
        raise error

    return write


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ReleaseError),
        (OSError(errno.EROFS, "Read-only file system"), ReleaseError),
        (DataError("a value that is not in the codebook"), DataError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failure_half_way_leaves_nothing(tmp_path: Path, error: BaseException, raised: type[BaseException]) -> None:
    with pytest.raises(raised):
        make(tmp_path / "release", data_writer=fail(error))
    assert os.listdir(tmp_path) == []


def test_a_disk_that_refuses_the_last_file_leaves_nothing(tmp_path: Path) -> None:
    """A real refusal by the kernel: files may not grow beyond a size that the report needs."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from tests.release_case import make\n"
        "from postrand.errors import ReleaseError\n"
        "make(Path(sys.argv[1]) / 'whole')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))\n"
        "try:\n    make(Path(sys.argv[1]) / 'half')\nexcept ReleaseError as error:\n    print(error)\n"
    )
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "nothing was left behind; got File too large" in result.stdout
    assert os.listdir(tmp_path) == ["whole"]


def test_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ReleaseError, match="Read-only file system"):
        make(tmp_path / "release")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_an_existing_target_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "release"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.touch()
    else:
        target.symlink_to("nowhere")
    with pytest.raises(ReleaseError, match="exists"):
        make(target)
    assert os.listdir(tmp_path) == ["release"]


def test_a_target_that_appears_meanwhile_is_refused_and_untouched(tmp_path: Path) -> None:
    target = tmp_path / "release"

    def write(path: Path) -> None:
        target.mkdir()
        (target / "precious").write_text("kept")
        writer_of(released_table())(path)

    with pytest.raises(ReleaseError, match="nothing was left behind"):
        make(target, data_writer=write)
    assert (target / "precious").read_text() == "kept"
    assert os.listdir(tmp_path) == ["release"]


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="parent folder does not exist"):
        make(tmp_path / "no" / "release")


UNSAFE = ["../data.parquet", ".data.parquet", "a/b.parquet", "report.html", "", "d\n.csv", "r_categories.csv"]
ALIKE = [
    "Report.HTML",
    "report.html.",
    "report.html ",
    "rep0rt.html",
    "report_html",
    "ddi.xml",
    "DDI.xml",
    "rnanifest.json",
]
ALIKE += ["r_matrix_9.csv", "R-matrix_1.csv", "postrand.r", "descriptlon.json", "\u0440eport.html", "\uff52eport.html"]


@pytest.mark.parametrize("name", [*UNSAFE, *ALIKE])
def test_unsafe_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReleaseError, match="name"):
        make(tmp_path / "release", data_name=name)
    with pytest.raises(ReleaseError, match="name"):
        make(tmp_path / "release", extra={name: ""})
    assert os.listdir(tmp_path) == []


def test_names_that_look_like_one_another_are_refused(tmp_path: Path) -> None:
    for extra in (("notes.txt", "Notes.txt"), ("a1.txt", "al.txt"), ("x.txt", "Data.CSV")):
        with pytest.raises(ReleaseError, match="looks like one that is"):
            make(tmp_path / "release", data_name="data.csv", extra=dict.fromkeys(extra, ""))
    make(tmp_path / "release", extra=dict.fromkeys(("notes.txt", "notes2.txt", "a2.txt"), ""))


def test_data_that_does_not_fit_is_not_released(tmp_path: Path) -> None:
    table = released_table()
    with pytest.raises(DataError, match="name"):
        make(tmp_path / "release", table.append_column("name", pa.array(["x"] * RECORDS)))
    with pytest.raises(DataError, match="metadata"):
        make(tmp_path / "release", table.replace_schema_metadata({"pandas": "{}"}))
    assert os.listdir(tmp_path) == []


INTERNAL: dict[str, str | bytes] = {"risk.json": "{}", "page.html": b"x"}


def internal(*_: object) -> dict[str, str | bytes]:
    return INTERNAL


def test_the_dossier_is_private_and_apart(tmp_path: Path) -> None:
    inside, out = tmp_path / "inside", tmp_path / "out"
    made = make(out, dossier=inside, inspect=internal)
    assert sorted(p.name for p in inside.iterdir()) == sorted(INTERNAL)
    assert stat.S_IMODE(inside.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in inside.iterdir()} == {0o600}
    assert not set(INTERNAL) & {p.name for p in made.path.iterdir()}
    (tmp_path / "alias").symlink_to(tmp_path)
    for one, other in ((tmp_path / "new", tmp_path / "new"), (tmp_path / "new", tmp_path / "alias" / "new")):
        with pytest.raises(ReleaseError, match="inside another"):
            make(one, dossier=other, inspect=internal)
    assert sorted(os.listdir(tmp_path)) == ["alias", "inside", "out"]
    named = make(tmp_path / "named", dossier=tmp_path / "by digest", inspect=lambda *_: {"page.html": lambda d: d})
    digest = hashlib.sha256((named.path / "manifest.json").read_bytes()).hexdigest()
    assert (tmp_path / "by digest" / "page.html").read_text() == digest


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o775)])
def test_nobody_else_reads_a_release_before_it_appears(tmp_path: Path, umask: int, mode: int) -> None:
    seen = []

    def write(path: Path) -> None:
        seen.append(stat.S_IMODE(path.parent.stat().st_mode))
        writer_of(released_table())(path)

    before = os.umask(umask)
    try:
        make(tmp_path / "out", data_writer=write)
    finally:
        os.umask(before)
    assert seen == [0o700]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode
    assert not (tmp_path / "out" / ".mode").exists()


@pytest.mark.parametrize("late", ["inside", "out"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_name_that_is_taken_meanwhile_leaves_neither_release_nor_dossier(
    tmp_path: Path, late: str, kind: str
) -> None:
    def taken(*_: object) -> dict[str, str | bytes]:
        if kind == "folder":
            (tmp_path / late).mkdir()
            (tmp_path / late / "theirs").touch()
        else:
            (tmp_path / late).write_text("theirs")
        return INTERNAL

    with pytest.raises(ReleaseError, match=rf"{late}: writing failed, and nothing was left behind"):
        make(tmp_path / "out", dossier=tmp_path / "inside", inspect=taken)
    assert os.listdir(tmp_path) == [late]
    assert (tmp_path / late).is_file() or os.listdir(tmp_path / late) == ["theirs"]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_interruption_between_the_names_leaves_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    rename, calls = Path.rename, []

    def interrupted(self: Path, target: Path) -> Path:
        """Interrupt before the first name, before the second, or after it: the last moment before all is done."""
        calls.append(target)
        if len(calls) == step < 3:
            raise KeyboardInterrupt
        found = rename(self, target)
        if len(calls) == 2 and step == 3:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", dossier=tmp_path / "inside", inspect=internal)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_under_the_dossier_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "page.html":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ReleaseError, match=r"inside: writing failed, .* got No space left on device") as caught:
        make(tmp_path / "out", dossier=tmp_path / "inside", inspect=internal)
    assert len(caught.value.problems) == 1
    assert os.listdir(tmp_path) == []


def test_a_dossier_with_an_unsafe_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="not a safe file name"):
        make(tmp_path / "out", dossier=tmp_path / "inside", inspect=lambda *_: {"../risk.json": ""})
    assert os.listdir(tmp_path) == []


def test_a_long_name_is_a_name(tmp_path: Path) -> None:
    assert make(tmp_path / ("n" * 250)).path.is_dir()


def test_targets_are_checked_together(tmp_path: Path) -> None:
    release.check_targets(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").mkdir()
    with pytest.raises(ReleaseError) as caught:
        release.check_targets(tmp_path / "a", tmp_path / "a" / "b")
    assert len(caught.value.problems) == 2


# -- canonical JSON ---------------------------------------------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.dictionaries(st.text(), PLAIN, max_size=5).filter(encodable))
def test_parsing_inverts_writing(value: dict[str, Any]) -> None:
    text = canonical_json.dump(value)
    assert canonical_json.parse(text, "test") == value
    assert json.loads(text) == value
    assert canonical_json.first_difference(value, canonical_json.plain(value)) == ""


@given(PLAIN.filter(encodable), PLAIN.filter(encodable))
def test_a_difference_is_found_exactly_where_texts_differ(a: Any, b: Any) -> None:
    same = canonical_json.dump(a) == canonical_json.dump(b)
    assert (canonical_json.first_difference({"x": a}, {"x": b}) == "") == same


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": float("inf")}, {1: 2}, {"a": b"x"}, {"a": "\ud800"}, {"a": np.int64(1)}]
)
def test_what_is_not_plain_is_not_written(value: Any) -> None:
    with pytest.raises(ReleaseError, match="cannot be written"):
        canonical_json.dump(value)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", "{}", "{} \n", '{"a": 1, "a": 1}\n', '{\n  "a": 1e999\n}\n', '{\n  "a": -Infinity\n}\n', "{}\n{}\n"],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ReleaseError):
        canonical_json.parse(text.encode(), "test")
    assert canonical_json.parse(b"{}\n", "test") == {}
