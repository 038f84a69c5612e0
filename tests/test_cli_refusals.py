"""The command line on input that cannot be meant: one sentence, the right exit code, and nothing left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from postrand import estimate, formats, risk
from postrand.cli import main
from postrand.errors import UsageError
from postrand.ranks import RankBand
from postrand.release import read
from postrand.support.extras import EXTRAS
from postrand.support.signals import Stopped, stoppable
from postrand.workflow.whole_columns import anatomise_file, average_columns, permute_columns
from tests.conftest import ROOT

pytestmark = pytest.mark.filterwarnings("default::postrand.risk.reveals.UnperturbedWarning")  # of the column id


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A survey, its codebook and plan, its release, folders of permuted and grouped columns, and a key."""
    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(5)
    n = 200
    table = {
        "id": np.arange(n) * 7,
        "sex": pa.array(rng.choice(["F", "M"], n)).dictionary_encode(),
        "area": pa.array(rng.choice(["n", "s", "w"], n)),
        "pay": rng.normal(size=n),
    }
    pq.write_table(pa.table(table), folder / "survey.parquet")
    (folder / "key").write_text("ab" * 32)
    (folder / "key").chmod(0o600)
    roles = ("--key", "sex,area", "--sensitive", "pay", "--record-key", "id")
    assert call("init", folder / "survey.parquet", "--out", folder, *roles).exit_code == 0
    plan = folder / "plan.toml"
    plan.write_text(plan.read_text("utf-8").replace("as_is = []", 'as_is = ["pay"]'), "utf-8")
    (folder / "twin.toml").write_text(plan.read_text("utf-8"), "utf-8")
    (folder / "recodes.toml").write_text('[[recodes]]\nvariable = "pay"\nbands = [-9, 0]\n', "utf-8")
    (folder / "policy.toml").write_text('[[rules]]\nmeasure = "epsilon"\nat_most = 9\n', "utf-8")
    for command in (
        ("protect", "--plan", folder / "plan.toml", "--out", folder / "release"),
        ("protect", "--plan", folder / "plan.toml", "--out", folder / "series", "--ledger", folder / "held.ledger"),
        ("key", "new", folder / "office"),
        (
            "permute",
            folder / "survey.parquet",
            "--columns",
            "pay",
            "--band",
            5,
            "--drop",
            "id",
            "--out",
            folder / "columns",
        ),
        ("microaggregate", folder / "survey.parquet", "--columns", "pay", "--drop", "id", "--out", folder / "groups"),
    ):
        assert call(*command).exit_code == 0
    return folder


WHOLE = {
    "advise": ["{survey}", "--codebook", "{book}", "--out", "{new}"],
    "init": ["{survey}", "--out", "{new}"],
    "assess": [
        "{survey}",
        "--keys",
        "sex,area",
        "--codebook",
        "{book}",
        "--measure",
        "suda,individual",
        "--sampling-fraction",
        "0.1",
        "--records",
        "{new}.csv",
        "--plot",
        "{more}",
    ],
    "suppress": ["{survey}", "--keys", "sex,area", "--drop", "id,pay", "--seconds", "3", "--out", "{new}"],
    "microaggregate": ["{survey}", "--columns", "pay", "--drop", "id", "--out", "{new}"],
    "recheck": ["{groups}"],
    "design": ["--plan", "{plan}"],
    "compare": ["{plan}", "{twin}"],
    "explain": ["{plan}"],
    "clusters": ["{survey}", "--psu", "area", "--codebook", "{book}"],
    "recode": ["{recodes}", "{survey}"],
    "check": ["--plan", "{plan}", "--policy", "{policy}"],
    "curve": ["--prior", "uniform:3", "--epsilons", "1", "--plot", "{new}"],
    "tune": ["{survey}", "--keys", "sex", "--limit", "tau1 <= 5", "--sampling-fraction", "0.1", "--codebook", "{book}"],
    "protect": [
        "--plan",
        "{plan}",
        "--out",
        "{new}",
        "--dossier",
        "{more}",
        "--key-file",
        "{key}",
        "--resume",
        "{other}",
        "--scratch",
        "{work}",
        "--ledger",
        "{counted}",
        "--policy",
        "{policy}",
        "--sign",
        "{office}",
    ],
    "ledger": ["verify", "{ledger}", "--release", "{series}"],
    "permute": ["{survey}", "--columns", "pay", "--band", "5", "--drop", "id", "--out", "{new}", "--key-file", "{key}"],
    "average": ["{survey}", "--columns", "pay", "--blocks", "5", "--drop", "id", "--out", "{new}"],
    "distances": ["{survey}", "{survey}", "--columns", "pay"],
    "anatomise": ["{survey}", "--keys", "sex", "--k", "3", "--drop", "id,pay", "--out", "{new}", "--key-file", "{key}"],
    "verify": ["{release}", "--file", "{survey}"],
    "key": ["new", "{new}", "--public", "{more}"],
    "sign": ["{columns}", "--key", "{office}"],
    "verifier": ["--out", "{new}"],
    "complete": ["{release}", "--out", "{new}", "--copies", "2", "--sweeps", "20", "--classes", "3", "--chains", "1"],
    "report": ["{release}", "--out", "{new}"],
    "estimate": ["{release}", "--table", "sex", "--excel", "{new}.xlsx"],
}
PLACES = [(name, k) for name, words in WHOLE.items() for k, word in enumerate(words) if word.startswith("{")]
BAD = {
    "empty": "",
    "nul": "a\0b",
    "long": "n" * 300,
    "under a file": "{survey}/x",
    "under proc": "/proc/x",
    "in proc": "/proc/self/x",
    "no such parent": "{work}/none/none",
    "full": "/dev/full",
    "zero": "/dev/zero",
    "folder": "{work}",
    "control": "{work}/a\nb",
}


def filled(work, words, tmp_path):
    names = {n: work / f for n, f in (("survey", "survey.parquet"), ("plan", "plan.toml"), ("book", "codebook.toml"))}
    places = {**names, "key": work / "key", "release": work / "release", "work": work}
    places |= {"ledger": work / "held.ledger", "series": work / "series", "counted": tmp_path / "counted.ledger"}
    places |= {"recodes": work / "recodes.toml", "office": work / "office", "columns": work / "columns"}
    places |= {"groups": work / "groups", "twin": work / "twin.toml", "policy": work / "policy.toml"}
    places |= {"new": tmp_path / "new", "more": tmp_path / "more", "other": tmp_path / "other"}
    return [word.format(**places) for word in words]


def state(folder):
    return sorted((str(p), p.stat().st_size) for p in folder.rglob("*"))


def test_the_table_of_commands_is_whole():
    assert set(WHOLE) == set(main.commands) - {"demo", "app"}
    paths = {n: sum(isinstance(p.type, click.Path) for p in main.commands[n].params) for n in WHOLE}
    assert paths["protect"] == sum(name == "protect" for name, _ in PLACES) == 9


@pytest.mark.parametrize("name", WHOLE)
def test_every_command_works_as_it_stands(work, tmp_path, name):
    result = call(name, *filled(work, WHOLE[name], tmp_path))
    wanted = {"verify": (0, 7), "estimate": (0, 7), "complete": (0, 10)}  # the model of so quick a fit fails its tests
    assert result.exit_code in wanted.get(name, (0,)), result.output


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("name", "place"), PLACES, ids=str)
def test_a_path_that_cannot_be_meant_is_refused(work, tmp_path, name, place, bad):
    words = list(WHOLE[name])
    words[place] = BAD[bad]
    (work / "key.ledger").unlink(missing_ok=True)  # another test's releases with this key
    before = state(work)
    result = call(name, *filled(work, words, tmp_path))
    if result.exit_code in (0, 10):  # a line break can be in a name, and init makes the folders it is asked for
        folders = {"init": "--out", "protect": "--scratch"}
        known = {("init", "no such parent"), ("protect", "folder")}
        assert bad == "control" or ((name, bad) in known and words[place - 1] == folders[name])
        for path in sorted(set(work.rglob("*")) - {Path(p) for p, _ in before}, reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        return
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in range(2, 9)
    assert result.stderr.count("postrand: ") == 1 or "Error: Invalid value" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert state(work) == before


@pytest.mark.parametrize("given", ["", ",", " , "])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, word)
        for name, words in WHOLE.items()
        for word in words
        if word.startswith("--") and not words[words.index(word) + 1].startswith(("{", "0", "3", "5"))
    ],
)
def test_an_empty_list_names_nothing_and_is_refused(work, tmp_path, name, option, given):
    words = list(WHOLE[name])
    words[words.index(option) + 1] = given
    code, problems = answer(name, *filled(work, words, tmp_path))
    assert (code, problems) == (2, [f"{option}: no name is given; got {given!r}."])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("init",), ("assess", "--keys", "sex")])
def test_a_file_that_is_not_there_is_said_to_be_so_whatever_its_type(tmp_path, command):
    code, problems = answer(
        command[0], tmp_path / "nofile", *command[1:], *(["--out", tmp_path] * (command[0] == "init"))
    )
    assert code == 2
    assert problems == [f"{tmp_path / 'nofile'}: no such file. Next: give the path of a file that is there."]


@pytest.mark.parametrize("name", ["permute", "average", "distances", "anatomise"])
def test_a_column_that_is_nearly_named_is_proposed(work, tmp_path, name):
    words = ["pai" if word == "pay" else "sexx" if word == "sex" else word for word in WHOLE[name]]
    code, problems = answer(name, *filled(work, words, tmp_path))
    assert code == 2
    assert f"did you mean '{'sex' if name == 'anatomise' else 'pay'}'?" in problems[0]


def answer(*arguments):
    result = call(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)["problems"]


def test_functions_refuse_to_protect_nothing(work, tmp_path):
    for make in (
        lambda: permute_columns(work / "survey.parquet", tmp_path / "out", [], RankBand(5)),
        lambda: average_columns(work / "survey.parquet", tmp_path / "out", (), RankBand(5)),
        lambda: anatomise_file(work / "survey.parquet", tmp_path / "out", [], 3),
        lambda: estimate.table(read(work / "release").frame(), [], read(work / "release").mechanism),
        lambda: risk.assess(formats.read(work / "survey.parquet"), []),
    ):
        with pytest.raises(UsageError):
            make()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held", [b"\xff\xfe" * 17, "ключ от квартиры".encode(), b"ab" * 31, b"", b"ab" * 64])
@pytest.mark.parametrize("name", ["protect", "permute", "anatomise"])
def test_a_key_file_that_holds_no_key_is_refused_and_never_shown(work, tmp_path, name, held):
    (tmp_path / "wrong").write_bytes(held)
    words = [str(tmp_path / "wrong") if w == "{key}" else w for w in WHOLE[name]]
    result = call(name, *filled(work, words, tmp_path))
    assert result.exit_code == 2
    assert "wanted 32 bytes, or 64 hexadecimal digits" in result.stderr
    assert not held or held.decode("latin-1")[:4] not in result.output
    assert "xff" not in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["wrong"]


def test_a_key_of_raw_bytes_is_the_key_of_its_digits(work, tmp_path):
    raw = bytes(range(100, 132))
    (tmp_path / "raw").write_bytes(raw)
    (tmp_path / "text").write_text(raw.hex() + "\n")
    for key in ("raw", "text"):
        (tmp_path / key).chmod(0o600)
        plan = ("--plan", work / "plan.toml", "--out", tmp_path / f"{key} release")
        assert call("protect", *plan, "--key-file", tmp_path / key).exit_code == 0
    one, two = ((tmp_path / f"{key} release" / "data.parquet").read_bytes() for key in ("raw", "text"))
    assert one == two


@pytest.fixture(scope="module")
def long_work(tmp_path_factory):
    """A plan whose release takes seconds to write."""
    folder = tmp_path_factory.mktemp("long")
    rng = np.random.default_rng(5)
    n = 800_000
    columns = {f"v{k}": pa.array(rng.integers(0, 3, n).astype(str)).dictionary_encode() for k in range(4)}
    pq.write_table(pa.table(columns), folder / "survey.parquet")
    assert call("init", folder / "survey.parquet", "--out", folder, "--key", "*").exit_code == 0
    plan = (folder / "plan.toml").read_text().replace('format = "same"', 'format = "csv"')
    (folder / "plan.toml").write_text(plan)
    return folder


@pytest.fixture
def heard():
    """Let SIGHUP count, though the tests themselves may run behind ``nohup``, as their children then would."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_signal_in_the_middle_leaves_nothing(long_work, tmp_path, number):
    script = "from postrand.cli import main; main()"
    plan = ["protect", "--plan", long_work / "plan.toml", "--out", tmp_path / "out", "--dossier", tmp_path / "inside"]
    command = [sys.executable, "-c", script, *map(str, plan)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        begun = time.monotonic()
        while not any(p.stat().st_size for p in tmp_path.glob(".out.*.partial/data.csv")):
            assert running.poll() is None, running.stderr.read()
            assert time.monotonic() - begun < 60
            time.sleep(0.005)
        assert list(tmp_path.glob(".inside.*.partial"))
        running.send_signal(number)
        out, said = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert out == ""
    assert said.splitlines()[-1] == f"postrand: stopped by {number.name}"
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == []


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stoppable():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Stopped) as caught, stoppable():
            signal.raise_signal(signal.SIGINT)
        assert (caught.value.code, caught.value.name) == (130, "SIGINT")
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_does_not_disturb_the_removal():
    done, before = [], signal.getsignal(signal.SIGINT)

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            done.append("removed")

    with pytest.raises(Stopped), stoppable():
        work()
    assert done == ["removed"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_exit_that_comes_wrapped_is_an_exit():
    class Descriptor:
        def __set_name__(self, owner, name):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped) as caught, stoppable():
        type("Made", (), {"field": Descriptor()})
    assert caught.value.code == 143
    with pytest.raises(ZeroDivisionError), stoppable():
        raise ZeroDivisionError


@pytest.mark.usefixtures("heard")
def test_a_swallowed_signal_can_be_sent_again(monkeypatch):
    monkeypatch.setattr("postrand.support.signals._PATIENCE", 0.0)

    def swallowing():
        with contextlib.suppress(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        time.sleep(0.001)
        signal.raise_signal(signal.SIGHUP)

    with pytest.raises(Stopped) as caught, stoppable():
        swallowing()
    assert caught.value.name == "SIGHUP"


def test_a_full_disk_behind_standard_output_is_one_sentence(work):
    script = "from postrand.cli import main; main()"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", script, "assess", str(work / "survey.parquet"), "--keys", "sex"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "postrand: the answer cannot be written; got No space left on device\n",
    )


def test_ctrl_c_ends_the_workbench_as_it_is_meant_to():
    command = [sys.executable, "-c", "from postrand.cli import main; main()", "app", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline().startswith("Workbench: http://127.0.0.1:")
        time.sleep(2)  # the address is said before the server takes signals over
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, "")
    assert out.endswith("The workbench has ended. Its working files were removed.\n")


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("formulaic", ["estimate", "release", "--regression", "pay ~ sex"]),
        ("formulaic", ["estimate", "release", "--regression", "pay ~ sex", "--method", "model"]),
        ("openpyxl", ["estimate", "release", "--table", "sex", "--excel", "new.xlsx"]),
        ("pyreadstat", ["complete", "release", "--out", "new", "--format", "dta"]),
        ("pyreadstat", ["protect", "--plan", "sav.toml", "--out", "new"]),
        ("shiny", ["app"]),
    ],
)
def test_an_optional_package_that_is_missing_is_told_before_the_work(work, monkeypatch, package, words):
    monkeypatch.chdir(work)
    monkeypatch.setitem(sys.modules, package, None)
    (work / "sav.toml").write_text(
        (work / "plan.toml").read_text("utf-8").replace('format = "same"', 'format = "sav"'), "utf-8"
    )
    done = call(*words)
    assert done.exit_code == UsageError.exit_code
    assert f"needs the package {package}, which is not installed. Next: pip install 'postrand[" in done.stderr
    assert not {"new", "new.xlsx"} & {path.name for path in work.iterdir()}


def test_each_optional_package_is_in_the_extra_that_its_sentence_names():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(entry.startswith(f"{package.replace('_', '-')}>=") for entry in listed[extra]), package


@pytest.mark.parametrize("files", [["s.csv"], ["s.csv", "notes.txt", "old.csv"]])
@pytest.mark.parametrize("option", ["--drop", "--other"])
def test_a_star_without_quotes_is_the_files_of_the_folder(tmp_path, monkeypatch, files, option):
    """The shell puts their names in its place; where that is refused, what is wrong is said."""
    for name in files:
        (tmp_path / name).write_text("sex,age\n" + "f,1\nm,2\n" * 30)
    monkeypatch.chdir(tmp_path)
    for out in (["--out", "../out"], []):
        done = CliRunner().invoke(main, ["advise", "s.csv", "--keys", "sex", option, *sorted(files), *out])
        assert done.exit_code == 2
        assert f"the shell puts them in the place of *. Next: put the star in quotes: {option} '*'" in done.output
    plain = CliRunner().invoke(main, ["advise", "s.csv", "--keys", "sex,no", "--out", "s.csv"])
    assert plain.exit_code == 2
    assert "star" not in plain.output
