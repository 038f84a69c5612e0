"""Every call to the system of protect, complete and verify fails in turn: `python -m benchmarks.faults`.

A library of C (faults.c) is preloaded. A first run lists the calls of a command: which call, on which file. Then each
of them fails in a run of its own, in each way that such a call can fail; of a call that is made many times on one file,
the first and the last. A run is a fork of a process that has loaded the program, and so takes a fraction of a second.
After each run there is no output or the whole one, nothing else is left unless the process was killed, the inputs are
as they were, the program ended with one sentence and without a record's value, and the next run completes.
"""

import argparse
import ctypes
import errno
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).with_suffix(".c")
KILL, SHORT, FULL, PART, BACK, AHEAD, READ_ONLY = -1, -2, -3, -4, -5, -6, -7
WAYS = {
    "create": (errno.ENOSPC, errno.EACCES, READ_ONLY, KILL),
    "open": (errno.EIO, errno.EMFILE),
    "read": (errno.EIO, PART),
    "write": (SHORT, PART, errno.EIO, KILL),
    "close": (errno.EIO,),
    "fsync": (errno.EIO, KILL),
    "truncate": (errno.EIO,),
    "chmod": (errno.EPERM,),
    "flock": (errno.ENOLCK,),
    "stat": (errno.EIO,),
    "rename": (errno.EIO, READ_ONLY, KILL),
    "link": (errno.EPERM, KILL),
    "mkdir": (FULL, READ_ONLY, KILL),
    "rmdir": (errno.EIO,),
    "unlink": (errno.EIO, KILL),
    "list": (errno.EIO,),
    "map": (errno.ENOMEM,),
    "allocate": (errno.ENOMEM,),
    "thread": (errno.EAGAIN,),
    "clock": (BACK, AHEAD),
}
"""How each call can fail: a number of the system, the process killed, half a write before a full disk, a part only."""
LIMIT = 300
"""Seconds after which a run counts as one that hangs; a first run, without a fault, may have to compile loops."""
THREAD = "thread process"
"""A call of which each one is made to fail: threads are started by many libraries."""
SECRET = "zq-secret"
"""Begins a value that every record has, and that no message may show."""
PAGE = r"(/\.\w+\.\*\.partial|/given)/(?!data|manifest)[^/]+$"
"""Files of a release that one and the same line of the program writes or reads."""
SHOWN = {KILL: "killed", SHORT: "short write", FULL: "full disk", PART: "a part"}
SHOWN |= {
    READ_ONLY: "read-only from here on",
    BACK: "two years back",
    AHEAD: "25 years ahead",
    errno.EAGAIN: "no more threads",
}


class Fault(NamedTuple):
    """The ``number``-th time that ``call`` (with its file) is made, it fails in this ``way``."""

    call: str
    number: int
    way: int

    def __str__(self) -> str:
        return f"{self.call} ({self.number}): {SHOWN.get(self.way) or errno.errorcode[self.way]}"


@dataclass(frozen=True)
class Case:
    """A command, in a folder with what it reads; ``made`` are its outputs, there, and ``kept`` is what it adds to.

    ``code`` is the exit code of a run without faults.
    """

    words: tuple[str, ...]
    made: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    code: int = 0


CASES = {
    "protect": Case(
        ("protect", "--plan", "plan.toml", "--out", "release", "--dossier", "dossier", "--key-file", "key"),
        ("release", "dossier"),
        ("key.ledger", "people.ledger"),
    ),
    "complete": Case(
        ("complete", "given", "--out", "completed", "--copies", "2", "--seed", "1", "--classes", "2", "--sweeps", "40"),
        ("completed",),
        code=10,  # so few sweeps fail a test of the model, which is told after the files are written
    ),
    "verify": Case(("verify", "given")),
}


class Run(NamedTuple):
    code: int
    said: str
    answer: str
    calls: str
    fired: bool


class Place:
    """A folder in which commands run, each in a fork, with the preloaded library."""

    def __init__(self, folder: Path, commands: Iterable[str] = ()) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.library = ctypes.CDLL(os.environ["POSTRAND_FAULTS"])
        self.library.faults_stop.restype = ctypes.c_char_p
        self.library.faults_root(str(self.work).encode())
        self._set_up(commands)
        self.inputs = digests(self.work)

    def _set_up(self, commands: Iterable[str]) -> None:
        self.work.mkdir(parents=True)
        os.chdir(self.work)
        survey(Path("survey.csv"))
        Path("codebook.toml").write_text(CODEBOOK)
        Path("plan.toml").write_text(PLAN)
        Path("key").write_text("ab" * 32)
        Path("key").chmod(0o600)
        (self.folder / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder / "tmp")
        given = ("protect", "--plan", "plan.toml", "--out", "given", "--key-file", "key")
        for words in (given, *[CASES[name].words for name in commands if name == "complete"]):
            found = self.forked(partial(loaded, words), limit=0)
            for name in sorted(found.answer.split()):
                with suppress(Exception):  # a module that this platform lacks
                    importlib.import_module(name)
        assert Path("given").is_dir(), found
        for name in CASES["protect"].kept:
            Path(name).unlink()
        shutil.rmtree("completed", ignore_errors=True)

    def forked(self, work: Any, fault: Fault | None = None, counted: bool = False, limit: int = LIMIT) -> Run:
        """Call something in a fork of this process, with a fault or with its calls counted."""
        said, answer, calls = (self.folder / name for name in ("said", "answer", "calls"))
        calls.write_bytes(b"")
        process = os.fork()
        if not process:
            try:
                for number, path in ((1, answer), (2, said)):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
                signal.alarm(limit)
                shared = ctypes.c_char_p
                if fault is not None:
                    self.library.faults_at(shared(fault.call.encode()), fault.number, fault.way)
                if counted:
                    self.library.faults_count()
                original = os._exit

                def end(code: int) -> None:
                    fired = self.library.faults_fired()
                    calls.write_bytes(self.library.faults_stop() if counted else b"fired" * fired)
                    original(code)

                os._exit = end  # type: ignore[assignment]  # typeshed: it never returns, which end does not state
                code = work()
                sys.stdout.flush()
                end(code if isinstance(code, int) else 0)
            except BaseException:  # a fork must never go on as if it were the program that forked
                import traceback

                self.library.faults_stop()
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                (original if "original" in locals() else os._exit)(99)
        status = os.waitpid(process, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        told = calls.read_text()
        return Run(
            code, said.read_text("utf-8", "replace"), answer.read_text("utf-8", "replace"), told, told == "fired"
        )

    def command(self, case: Case, fault: Fault | None = None, counted: bool = False, bound: bool = False) -> Run:
        from postrand.cli import main

        def work() -> None:
            if bound:
                obey_modes()
            sys.argv = ["postrand", *case.words]
            main()

        return self.forked(work, fault, counted)

    def clear(self, case: Case) -> None:
        """Remove all that a run has left."""
        for path in self.work.iterdir():
            if path.name not in {name.partition("/")[0] for name in self.inputs}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in (self.folder / "tmp").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def loaded(words: tuple[str, ...]) -> int:
    """Run a command, and print the modules that it has loaded."""
    from click.testing import CliRunner

    from postrand.cli import main

    CliRunner().invoke(main, words, catch_exceptions=False)
    print("\n".join(name for name in sys.modules if name != "__main__"))
    return 0


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file of a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def faults_of(calls: str, *, every: bool) -> Iterator[Fault]:
    """Yield the faults of a run's calls: of a call in one role, the first and the last; or each, if asked."""
    seen, roles = Counter[str](), dict[str, list[tuple[str, int]]]()
    for call in calls.splitlines():
        seen[call] += 1
        roles.setdefault(re.sub(PAGE, r"\1/page", call), []).append((call, seen[call]))
    for made in roles.values():
        for call, number in made if every or made[0][0] == THREAD else dict.fromkeys((made[0], made[-1])):
            for way in WAYS[call.split()[0]]:
                yield Fault(call, number, way)


def problems(
    place: Place, case: Case, run: Run, whole: Mapping[str, str], right: Run, way: int, was_killed: bool
) -> list[str]:
    """Return what is wrong after a run."""
    found = []
    here = digests(place.work)
    if {n: d for n, d in here.items() if n in place.inputs} != place.inputs:
        found.append("the inputs are changed")
    made = {n: d for n, d in here.items() if n.partition("/")[0] in case.made}
    for name in case.made:
        wanted = {n: d for n, d in whole.items() if n.partition("/")[0] == name}
        held = {n: d for n, d in made.items() if n.partition("/")[0] == name}
        if held not in ({}, wanted) or (not held and (place.work / name).exists()):
            found.append(f"{name} is not whole")
    rest = [n for n in here if n not in place.inputs and n not in made and n not in case.kept]
    rest += [path.name for path in (place.folder / "tmp").iterdir()]
    rest += [p.name for p in place.work.iterdir() if p.is_dir() and ".partial" in p.name]
    if rest and not was_killed and (way != READ_ONLY or "remove it: " not in run.said):
        found.append(f"left behind: {sorted({n.partition('/')[0] for n in rest})}")
    if was_killed:
        return found
    answer = re.sub(r"(?m)^not verified in full: .*\n", "", run.answer)  # complete goes on then, and says so
    same = bool(case.kept) or answer == right.answer  # a ledger has the time
    if run.code == case.code and not (made == whole and same):
        found.append("success is told without the whole output")
    if run.code != case.code and made and way != READ_ONLY:  # where no name can be taken back
        found.append("an error is told, and the output is there")
    lines = [line for line in run.said.splitlines() if line.strip()]
    told = [*lines, *run.answer.splitlines()]  # verify says in its table which check could not run
    if run.code == -signal.SIGALRM:
        return [*found, "it hangs"]
    if "Traceback" in run.said or "Exception ignored" in run.said or run.code not in range(12):
        found.append(f"code {run.code}: {lines[-1:] or ''}")
    elif run.code != case.code and not any(line.startswith(("postrand: ", "Error: ", "NOT VERIFIED")) for line in told):
        found.append(f"code {run.code}, no sentence: {lines[:1]}")
    if SECRET in run.said + run.answer:
        found.append("a record's value is shown")
    return found


def tried(
    place: Place, name: str, faults: list[Fault] | None = None, every: bool = False, sample: int = 0
) -> dict[str, Any]:
    """Let each call of a command fail; return the figures, and what did not survive."""
    case = CASES[name]
    right = place.command(case, counted=True)
    assert right.code == case.code, (right.code, right.said)
    whole = {n: d for n, d in digests(place.work).items() if n.partition("/")[0] in case.made}
    place.clear(case)
    known = list(faults_of(right.calls, every=every))
    chosen = known if faults is None else faults
    if sample:
        chosen = chosen[:: -(-len(chosen) // sample)]
    defects, told, fired = [], Counter[str](), 0
    for fault in chosen:
        run = place.command(case, fault)
        was_killed = run.code == -signal.SIGKILL
        fired += run.fired or was_killed
        found = problems(place, case, run, whole, right, fault.way, was_killed)
        told[run.said.strip() if not was_killed else "killed"] += 1
        if case.made and digests(place.work) != place.inputs:  # else the next run is as the first
            gone = [n for n in case.made if (place.work / n).exists()]
            for n in gone if len(gone) == len(case.made) else ():  # the curator sees them, and they are whole
                shutil.rmtree(place.work / n)
            again = place.command(case)
            if (
                again.code != case.code
                or {n: d for n, d in digests(place.work).items() if n.partition("/")[0] in case.made} != whole
            ):
                found.append(f"the next run fails: {again.said[:200]}")
            left = [p.name for p in place.work.iterdir() if p.name.endswith(".partial") and any(p.iterdir())]
            if left:
                found.append(f"still left behind after the next run: {left}")
        place.clear(case)
        if found:
            defects.append(f"{name}, {fault}: {'; '.join(found)}")
            print(f"DEFECT {defects[-1]}\n    {(run.said.strip() or run.answer)[-600:]}", flush=True)
    calls = right.calls.splitlines()
    figures = {"calls": len(calls), "places": len(set(calls)), "of": len(known), "faults": len(chosen), "met": fired}
    kinds = Counter(fault.call.split()[0] for fault in chosen)
    return {
        "command": name,
        **figures,
        "kinds": dict(kinds),
        "survived": len(chosen) - len(defects),
        "defects": defects,
        "told": told,
    }


def two_at_once(place: Place, name: str) -> bool:
    """Whether of two runs to one place one makes the whole output, and the other is told that it did not."""
    from postrand.cli import main

    case = CASES[name]
    processes = []
    for number in range(2):
        process = os.fork()
        if not process:
            said = os.open(place.folder / f"said{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1), os.dup2(said, 2)
            sys.argv = ["postrand", *case.words]
            main()
        processes.append(process)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    told = [(place.folder / f"said{number}").read_text() for number in range(2)]
    made = {path.name for path in place.work.iterdir()} - {name.partition("/")[0] for name in place.inputs}
    is_told = any(code == 7 and "Next: " in text for code, text in zip(codes, told, strict=True))
    place.clear(case)
    is_right = is_told and "Traceback" not in "".join(told)
    return sorted(codes) == sorted([case.code, 7]) and is_right and made == {*case.made, *case.kept}


def obey_modes() -> None:
    """Give up root's rights to pass over the modes of files: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""
    library, header, held = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert library.capget(header, held) == 0
    held[0] &= ~0b110
    assert library.capset(header, held) == 0


def read_only_folders(place: Place) -> list[str]:
    """Protect from a folder that can only be read, and into one; return what is wrong."""
    out, found = place.folder / "out", []
    out.mkdir()
    Path("plain.toml").write_text(PLAN.partition("[ledger]")[0])
    before = digests(place.work)
    place.work.chmod(0o555)
    for folder, code in (("../out", 0), (".", 7)):
        words = ("protect", "--plan", "plain.toml", "--out", f"{folder}/release", "--dossier", f"{folder}/dossier")
        run = place.command(Case(words), bound=True)
        wanted = "(?s)postrand: .*cannot be written to; got Permission denied. Next: " if code else ""
        if run.code != code or not re.match(wanted, run.said) or "Traceback" in run.said:
            found.append(f"{folder}: {run.code}, {run.said[-400:]}")
        if digests(place.work) != before or sorted(os.listdir(out)) != ["dossier", "release"]:
            found.append(f"{folder}: {sorted(os.listdir(out))}, or the source folder is not as it was")
    place.work.chmod(0o755)
    shutil.rmtree(out)
    Path("plain.toml").unlink()
    return found


def driver_killed(place: Place) -> list[str]:
    """Kill the driver of Spark while it writes a release; return what is wrong then, and after the next run."""
    from tests.spark_cluster import descendants_of_this_process

    case = CASES["protect"]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.executable, "-c", "from postrand.cli import main; main()", *case.words, "--engine", "spark"]
    found, codes = [], []
    for is_killed in (True, False):
        with (place.folder / "said").open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=plain)
            while is_killed and process.poll() is None:
                if any(place.work.glob(".release.*/data*")):
                    named = [(pid, Path(f"/proc/{pid}/comm")) for pid in descendants_of_this_process()]
                    for pid in (pid for pid, path in named if path.exists() and path.read_text() == "java\n"):
                        os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(0.01)
            codes.append(process.wait(timeout=600))
        text = (place.folder / "said").read_text()
        made = {path.name for path in place.work.iterdir()} - {name.partition("/")[0] for name in place.inputs}
        if is_killed and (made & set(case.made) or "Traceback" in text or not re.search("(?m)^postrand: ", text)):
            found.append(f"after the kill: {sorted(made)}; {text[-400:]}")
        if not is_killed and (codes[-1] or made != {*case.made, *case.kept}):
            found.append(f"the next run: {sorted(made)}; {text[-400:]}")
    place.clear(case)
    return found if codes[0] else [*found, "it was not killed in time"]


def survey(path: Path) -> None:
    """Write 300 records with a secret in each of them."""
    import numpy as np

    rng = np.random.default_rng(3)
    columns = [rng.choice(["a", "b", "c"], 300), rng.choice(["x", "y"], 300), rng.integers(10, 99, 300)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [f"{one},{two},{three},{SECRET}{n:03}" for n, (one, two, three) in enumerate(rows)]
    path.write_text("sex,job,pay,name\n" + "\n".join(lines) + "\n")


CODEBOOK = """
[[variables]]
name = "sex"
role = "key"
categories = ["a", "b", "c"]
[[variables]]
name = "job"
role = "sensitive"
categories = ["x", "y"]
[[variables]]
name = "pay"
role = "other"
type = "int64"
[[variables]]
name = "name"
role = "record_key"
type = "string"
"""
PLAN = """
[source]
file = "survey.csv"
codebook = "codebook.toml"
[privacy]
model = "differential"
epsilon = 2.0
[[blocks]]
variables = ["sex", "job"]
privacy = { model = "differential", epsilon = 2.0 }
[release]
as_is = ["pay"]
[ledger]
file = "people.ledger"
population = "people"
limit = 9
"""


def build(folder: Path) -> Path:
    """Compile the library; it needs a C compiler on Linux."""
    path = folder / "faults.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [compiler, "-O1", "-w", "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def start(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run this file with the preloaded library."""
    library = build(folder)
    more = {"LD_PRELOAD": str(library), "POSTRAND_FAULTS": str(library), "OPENBLAS_NUM_THREADS": "1"}
    more |= {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-m", "benchmarks.faults", "--folder", str(folder), *words]
    return subprocess.run(command, env=os.environ | more, text=True, check=False, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commands", nargs="*", choices=[*CASES, []])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--every", action="store_true", help="each time that a call is made, not the first and last")
    parser.add_argument("--spark", action="store_true", help="also kill the driver of Spark, in a run of protect")
    parser.add_argument("--sample", type=int, default=0, help="at most so many faults of each command, evenly chosen")
    parser.add_argument("--only", default="", help="calls that match this pattern")
    given = parser.parse_args()
    if given.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(start(Path(folder), *sys.argv[1:]).returncode)
    place = Place(given.folder / "place", given.commands or CASES)
    failed = False
    for name in given.commands or CASES:
        began = time.monotonic()
        chosen = None
        if given.only:
            calls = place.command(CASES[name], counted=True).calls
            place.clear(CASES[name])
            chosen = [f for f in faults_of(calls, every=given.every) if re.search(given.only, str(f))]
        told = tried(place, name, chosen, every=given.every, sample=given.sample)
        told["defects"] = len(told["defects"])
        failed = failed or told["defects"] > 0
        sentences = told.pop("told")
        if os.environ.get("POSTRAND_TOLD"):
            for text, times in sentences.most_common():
                print(f"{times:5} {text[-300:]}")
        print(json.dumps(told | {"seconds": round(time.monotonic() - began)}), flush=True)
    for name in () if given.only else {"protect", "complete"} & set(given.commands or CASES):
        alone = [two_at_once(place, name) for _ in range(5)]
        print(json.dumps({"two runs of": name, "times": len(alone), "one whole, one refused": sum(alone)}), flush=True)
        failed = failed or not all(alone)
    if not given.only and "protect" in (given.commands or CASES):
        wrong = read_only_folders(place)
        print(json.dumps({"read-only folders": wrong or "read from as any other, and one sentence where to write"}))
        failed = failed or bool(wrong)
    if given.spark:
        wrong = driver_killed(place)
        print(json.dumps({"the driver of Spark killed": wrong or "no release, and a whole one from the next run"}))
        failed = failed or bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
