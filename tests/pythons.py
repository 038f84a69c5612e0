"""List the supported Pythons on this machine, one of each version: ``python tests/pythons.py``.

Looked for are ``python3.N`` where programs are found, and where pyenv and uv keep theirs. What does not start is left
out.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LEAST = (3, 11)  # requires-python
KEPT = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
ASK = "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:2])))"


def candidates() -> Iterator[Path]:
    """Yield this interpreter, and all that are named as one of a supported version."""
    yield Path(sys.executable)
    folders = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    for folder in (*folders, *(place for kept in KEPT for place in sorted(Path.home().glob(kept)))):
        for path in sorted(folder.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+", path.name) and int(path.name[8:]) >= LEAST[1]:
                yield path


def version(path: Path) -> str | None:
    """Return the version of an interpreter that can make environments."""
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def at_hand() -> dict[str, Path]:
    """Return the first interpreter of each version."""
    found: dict[str, Path] = {}
    for path in candidates():
        if name := version(path):
            found.setdefault(name, path)
    return found


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\n" for path in at_hand().values()))
