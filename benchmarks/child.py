"""Run a command in a fresh process, as a user would, and say what it took: seconds, processor time, peak memory.

A small process starts the command and waits for it, because Linux counts the memory of whoever starts a process as the
first memory of that process. Signals are heard as in a terminal. Compiled files are kept in a folder of the benchmark's
own: the first command of a new folder is the first run ever, later ones are warm. What each command took is told at
once on standard error, so that a long run shows where it is.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SHOWN = 90  # characters of a command
_BACK = 0.0005  # seconds between two looks at a process that is to be interrupted


def postrand(*arguments):
    """Return the command line of the package, as it is installed beside this Python."""
    return [str(Path(sys.executable).with_name("postrand")), *map(str, arguments)]


def python(code, *arguments):
    """Return the command line of a script."""
    return [sys.executable, "-c", code, *map(str, arguments)]


def environment(caches):
    """Return the environment of a user: compiled files are written, here to the folder ``caches``."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    paths = [str(ROOT / "src"), *kept.get("PYTHONPATH", "").split(os.pathsep)]
    return kept | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path)),
        "PYTHONPYCACHEPREFIX": str(caches / "bytecode"),
        "NUMBA_CACHE_DIR": str(caches / "compiled"),
    }


def tell(text):
    """Show a line at once, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def _short(command):
    """Return the command on one line: names of files without folders, no script."""
    words = [Path(command[0]).name, *command[1:]]
    words = [word if "\n" not in word and "; " not in word else "..." for word in words]
    return " ".join(Path(word).name if word.startswith("/") else word for word in words)[:_SHOWN]


def run(command, caches, stop_after=None, must=True):
    """Run a command; return ``seconds``, ``cpu_s``, ``peak_bytes``, ``code``, and ``said``, its standard error.

    With ``stop_after``, SIGINT is sent after so many seconds, and ``seconds`` is the time from there to the end; None
    if the command had ended before. A command that fails ends the benchmark, unless it is not a ``must``.
    """
    told = json.dumps({"command": command, "environment": environment(caches), "stop_after": stop_after})
    launcher = [sys.executable, "-I", "-S", __file__]
    done = subprocess.run(launcher, input=told, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the command cannot be started: {' '.join(command)}\n{done.stderr}")
    found = json.loads(done.stdout) | {"said": done.stderr}
    if must and found["code"]:
        sys.exit(f"exit code {found['code']}: {' '.join(command)}\n{done.stderr}")
    took = "ended before" if found["seconds"] is None else f"{found['seconds']:.2f} s"
    tell(f"{took:>12} {found['cpu_s']:9.2f} s processor {found['peak_bytes'] / 1e6:6.0f} MB  {_short(command)}")
    return found


def launch(command, environment, stop_after):
    """Start the command, wait, and measure."""
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    heard = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]  # a shell's background jobs ignore the first
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=silence, setsigdef=heard)
    ended = None
    if stop_after is not None:
        while ended is None and time.perf_counter() - start < stop_after:
            time.sleep(_BACK)
            ended = _ended(pid, os.WNOHANG)
        start = time.perf_counter()
        if ended is None:
            os.kill(pid, signal.SIGINT)
    missed = ended is not None
    status, usage = ended or _ended(pid, 0)
    return {
        "seconds": None if missed else time.perf_counter() - start,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "code": os.waitstatus_to_exitcode(status),
    }


def _ended(pid, options):
    found, status, usage = os.wait4(pid, options)
    return (status, usage) if found else None


if __name__ == "__main__":
    print(json.dumps(launch(**json.load(sys.stdin))))
