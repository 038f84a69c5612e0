"""What Windows and macOS lack has a fallback: a process without it protects, verifies and serves the workbench."""

import itertools
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import IO

from tests.conftest import ROOT

# The libraries are loaded first: each has a build of its own for these systems. Then goes what Linux alone has, and
# everything that looks at what is there finds less.
WITHOUT = """
import asyncio, multiprocessing, pathlib, shutil, signal, socket, subprocess, tempfile, webbrowser
import cryptography.hazmat.bindings._rust, numpy, os, pyarrow.csv, shiny, scipy.optimize, sys, uvicorn
OS = '''O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_SYNC chown chroot fchmod fchown fork forkpty getegid geteuid
getgid getgroups getloadavg getpgid getuid initgroups kill killpg lchown link major mkfifo mknod nice openpty
posix_fallocate posix_spawn pread preadv pwrite register_at_fork sched_getaffinity sched_setaffinity sendfile setsid
statvfs sync sysconf uname wait wait3 wait4 waitid'''
SIGNAL = '''SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 alarm pause pthread_kill pthread_sigmask
setitimer siginterrupt sigpending sigwait'''
for module, names in ((os, OS), (signal, SIGNAL)):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
found = pathlib.Path.read_text
pathlib.Path.read_text = lambda path, *a, **k: nothing() if str(path).startswith("/proc") else found(path, *a, **k)
def nothing():
    raise FileNotFoundError
sync = os.fsync
def fsync(descriptor):  # Windows opens no folder, and flushes only what may be written
    assert not os.path.isdir(f"/proc/self/fd/{descriptor}")
    os.write(descriptor, b"")
    sync(descriptor)
os.fsync = fsync
from postrand.cli import main
protect = ["protect", "--plan", "plan.toml", "--key-file", "key", "--out", "release", "--dossier", "own"]
for command in (["init", "people.csv", "--keys", "sex,area"], protect, ["verify", "release"]):
    main.main(command, standalone_mode=False)
print("from here on")
main(["app", "people.csv", "--no-browser"])
"""


def read_lines(stream: IO[str]) -> Iterator[str]:
    """Yield lines as they come; an empty one when the process has ended."""
    while True:
        yield stream.readline()


def test_all_is_done_without(tmp_path: Path) -> None:
    """The key file and its ledger ask for modes and locks; the workbench serves, ends, and leaves no folder."""
    (tmp_path / "people.csv").write_text("sex,area\n" + "F,n\nM,s\nF,s\n" * 200)
    (tmp_path / "key").write_text("ab" * 32)
    (tmp_path / "key").chmod(0o644)  # says nothing where files have no owner
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, env=env, stdout=PIPE, stderr=PIPE, text=True
    )
    try:
        assert process.stdout is not None
        before = list(itertools.takewhile(lambda line: line not in ("from here on\n", ""), read_lines(process.stdout)))
        assert any("is what it claims to be" in line for line in before), before[-5:]
        assert len((tmp_path / "key.ledger").read_text().splitlines()) == 2
        address = process.stdout.readline().split()[-1]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address, timeout=60) as answer:
            assert b"<title>" in answer.read()
        assert len(list(tmp_path.glob("postrand-app-*"))) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert list(tmp_path.glob("postrand-app-*")) == []
    finally:
        process.kill()
        said = process.communicate()[1]
    assert "can undo" not in said


def test_the_container_has_no_rights_and_locked_versions() -> None:
    """It cannot be built here: its lines are read."""
    lines = (ROOT / "Containerfile").read_text().splitlines()
    last = [line for line in lines[max(i for i, s in enumerate(lines) if s.startswith("FROM")) :] if line[:1] != "#"]
    assert [line.split()[1] for line in last if line.startswith("USER")] == ["1000"]
    assert not [line for line in last if line.startswith("RUN") and "pip" in line]
    installs = [line for line in lines if "pip install" in line]
    copied = [name for line in lines if re.match("COPY [^-]", line) for name in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() and name != "." for name in copied)  # a clone can have other files beside it
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
    assert all((ROOT / name).is_file() for line in installs for name in re.findall(r"-r (\S+)", line))
