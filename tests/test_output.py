"""What the command line says reaches any terminal, a key that others can read is named, and a cut file is refused."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import postrand as pr
from postrand.errors import ReleaseError
from postrand.release import check_targets, read
from postrand.release.atomic import PRIVATE, PUBLIC, appearing, appearing_together
from postrand.support import system
from postrand.support.randomness import KeyFileWarning
from tests.release_case import make
from tests.test_cli import call, started, survey  # noqa: F401 -- fixtures


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
def test_a_release_that_exists_does_not_end_in_an_error(started, encoding):  # noqa: F811
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for name, more in (("plain é ж", ()), ("json é ж", ("--json",))):
        words = ["protect", "--plan", "plan.toml", "--out", name, *more]
        script = "from postrand.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, *words], cwd=started, env=environment, capture_output=True, check=False
        )
        text = done.stdout.decode(encoding)
        assert done.returncode == 0, done.stderr
        assert (started / name).is_dir()
        if more:
            assert json.loads(text)["release"] == name
            assert "ε" in json.loads(text)["claims"][0]
        else:
            assert "epsilon <= " in text
            assert "\\u0436" in text


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_file_that_others_can_read_is_named(started, mode):  # noqa: F811
    key = started / "release.key"
    key.write_bytes(bytes(range(100, 132)))
    key.chmod(mode)
    said = r"key file 'release\.key': other users can read this file, .* Next: chmod 600 release\.key"
    with pytest.warns(KeyFileWarning, match=said):
        held = pr.ReleaseKey.from_file(key)
    assert held.is_private
    command = [sys.executable, "-m", "postrand", "protect", "--plan", "plan.toml", "--out", "out", "--key-file", key]
    script = ["-c", "from postrand.cli import main; main()"]
    done = subprocess.run(
        [*command[:1], *script, *command[3:]], cwd=started, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr.count("warning: key file 'release.key'") == 1
    key.chmod(0o600)
    assert pr.ReleaseKey.from_file(key) == held


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_estimate_and_report_refuse_data_that_was_cut(tmp_path: Path, name: str):
    root = make(tmp_path / "release", data_name=name).path
    assert call("estimate", root, "--table", "sex").exit_code == 0
    whole = (root / name).read_bytes()
    cut = b"".join(whole.splitlines(keepends=True)[:-3]) if name.endswith("csv") else whole[:-1]
    for bad in (cut, whole + b"\n"):
        (root / name).write_bytes(bad)
        for words in (
            ("estimate", root, "--table", "sex"),
            ("report", root),
            ("report", root, "--out", tmp_path / "p"),
        ):
            done = call(*words)
            assert done.exit_code == 7
            assert f"{name}: this is not the released file" in done.output
        with pytest.raises(ReleaseError, match="postrand verify"):
            read(root).frame()
    (root / name).write_bytes(whole)
    (root / "report.html").unlink()
    assert call("report", root).exit_code == 0
    (root / "mechanism.json").write_bytes((root / "mechanism.json").read_bytes() + b" ")
    assert call("report", root).exit_code == 7


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free space"),
        (OSError(errno.EACCES, "Permission denied"), "permissions"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "more memory"),
        (OSError("x.so: failed to map segment from shared object"), "more memory"),
        (OSError(errno.ENOTEMPTY, "Directory not empty"), "another run made it"),
        (OSError(errno.EIO, "Input/output error"), "check the disk"),
    ],
)
def test_the_next_step_is_that_of_the_cause(tmp_path, error, said):
    with pytest.raises(ReleaseError, match=said), appearing(tmp_path / "out"):
        raise error


def test_of_two_runs_into_one_folder_one_makes_it_and_the_other_is_told(tmp_path):
    told = pytest.raises(ReleaseError, match="another run made it in the meantime")
    with told, appearing(tmp_path / "out") as first:
        (first / "data.csv").touch()
        with appearing(tmp_path / "out") as second:
            (second / "data.csv").write_text("second")
        assert (first / "data.csv").exists()  # a run that goes on is not taken for one that was killed
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out" / "data.csv").read_text() == "second"


def test_a_dossier_whose_release_did_not_appear_is_taken_back(tmp_path):
    """As where a run was killed between the two names; whatever else is there stays."""
    dossier, release = tmp_path / "dossier", tmp_path / "release"
    with appearing_together((dossier, PRIVATE), (release, PUBLIC)) as (first, last):
        for folder in (first, last):
            (folder / "held").touch()
        names = last.name, f".release.{first.stat().st_ino:016x}.partial"
    assert names[0] == names[1]
    last.mkdir()  # of that number, and just made
    check = pytest.raises(ReleaseError, match="release: the output directory exists")
    with check:
        check_targets(release, dossier)
    release.rename(tmp_path / "moved")
    told = pytest.raises(ReleaseError, match="dossier: the output directory exists")
    with told:
        check_targets(release, dossier)
    (last / "held").touch()
    with told, system.held(last):
        check_targets(release, dossier)  # another run is between the two
    check_targets(release, dossier)
    assert sorted(os.listdir(tmp_path)) == [last.name, "moved"]
    with appearing(release):
        assert not last.exists()


def test_a_folder_that_cannot_be_removed_is_named(tmp_path, monkeypatch):
    """As where a disk becomes read-only in the midst of a run."""
    monkeypatch.setattr("postrand.release.atomic.shutil.rmtree", lambda *_, **__: None)
    for error, wanted in (
        (OSError(errno.EROFS, "Read-only"), "cannot be removed"),
        (ReleaseError("damaged"), "damaged"),
    ):
        told = pytest.raises(ReleaseError, match=wanted)
        with pytest.warns(UserWarning, match="it can hold confidential records"), told, appearing(tmp_path / "out"):
            raise error


def test_a_disk_that_does_not_answer_makes_no_error_of_a_whole_folder(tmp_path, monkeypatch):
    def exists(path: Path) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    told = pytest.warns(UserWarning, match="it can hold confidential records")
    with told, appearing(tmp_path / "out") as folder:
        (folder / "data.csv").touch()
        monkeypatch.setattr(Path, "exists", exists)
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["protect", "--help"], ["verify", "none", "--json"]])
def test_a_full_disk_behind_any_answer_is_one_sentence(words):
    script = "from postrand.cli import main; main()"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "postrand: the answer cannot be written; got No space left on device\n"


@pytest.mark.parametrize(("words", "code"), [("--help", 0), ("verify none", 7), ("verify none --json", 7)])
def test_outputs_that_are_closed_change_nothing(words, code):
    script = "from postrand.cli import main; main()"
    for closed in (">&-", ">&- 2>/dev/full", ">&- 2>&- <&-"):
        command = f"exec {sys.executable} -c '{script}' {words} {closed}"
        done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--help", "verify none --json"])
def test_a_reader_that_is_gone_ends_a_command_quietly(words):
    script = "from postrand.cli import main; main()"
    command = [sys.executable, "-c", script, *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1
