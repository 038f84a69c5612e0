"""Ask for published vulnerabilities of the locked packages: ``python -m tests.vulnerabilities PIP_AUDIT [required]``.

Whatever the list knows of a locked version is an error, unless it is in ``READ``. Where the list cannot be asked, one
line says so, and it is an error only if an answer is ``required``. The result depends on the lock and the list alone:
versions for other systems and Pythons are asked for as well, and answers that were kept from earlier are not used.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

# Read by a person: the identifier, and why no release suffers from it.
READ: dict[str, str] = {}
# A version with vulnerabilities known for years. A list that does not name them answers, and says nothing.
CONTROL = "jinja2==2.10"
SILENCE, FIRST, ALL = 5, 10, 180  # seconds at most: without any answer, for the control, for a list of versions
LOCKS = ("dev", "docs", "audit")  # which hold those of `demo` and `build`


def locked(texts: Sequence[str]) -> list[list[str]]:
    """Return every version of the locks, in lists that name no package twice."""
    found: dict[str, dict[str, None]] = {}
    for name, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", "\n".join(texts), re.M):
        found.setdefault(name, {})[f"{name}=={version}"] = None
    versions = [list(pins) for pins in found.values()]
    return [[pins[k] for pins in versions if k < len(pins)] for k in range(max(map(len, versions), default=0))]


def asked(tool: str, pins: Sequence[str], longest: int = ALL) -> list[dict[str, Any]]:
    """Return what the list says of some versions; OSError if it cannot be asked."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text("\n".join(pins) + "\n", encoding="utf-8")
        words = [tool, "--requirement", wanted, "--no-deps", "--disable-pip", "--format", "json"]
        words += ["--progress-spinner", "off", "--timeout", str(SILENCE), "--cache-dir", folder]
        try:
            ran = subprocess.run(words, capture_output=True, text=True, timeout=longest, check=False)
        except FileNotFoundError:
            raise OSError(f"no {tool}, and it could not be installed") from None
        except subprocess.TimeoutExpired:
            raise OSError(f"no answer within {longest} seconds") from None
    try:
        told: list[dict[str, Any]] = json.loads(ran.stdout)["dependencies"]
    except ValueError:
        raise OSError((ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]) from None
    return told


def problems(told: Sequence[Mapping[str, Any]], read: Mapping[str, str]) -> Iterator[str]:
    """Yield what the list knows and nobody has read, what it was not asked for, and what it does not say any more."""
    known = {(entry["name"], entry["version"], one["id"]): one for entry in told for one in entry.get("vulns", ())}
    for (name, version, number), one in known.items():
        if number not in read:
            yield f"{name} {version}: {number}, mended in {', '.join(one['fix_versions']) or 'no version'}"
    yield from (f"{one['name']}: not asked for: {one['skip_reason']}" for one in told if "skip_reason" in one)
    gone = read.keys() - {number for _, _, number in known}
    yield from (f"{number}: is in tests/vulnerabilities.py, and not in the list" for number in sorted(gone))


def result(tool: str, lists: Sequence[Sequence[str]], required: bool) -> tuple[str, bool]:
    """Return what to say, and whether it is an error; a list that answers the control has to answer all."""
    try:
        if not any(entry.get("vulns") for entry in asked(tool, [CONTROL], FIRST)):
            raise OSError(f"the list that answers does not know those of {CONTROL}")
    except OSError as error:
        how = "; to go on without: VULNERABILITIES=optional" if required else "; last run: docs/platforms.md"
        return f"vulnerabilities: NOTHING WAS ASKED: {error}{how}", required
    try:
        told = [entry for pins in lists for entry in asked(tool, pins)]
    except OSError as error:
        return f"vulnerabilities: the list answered, and then no more; ask again: {error}", True
    wrong = list(problems(told, READ))
    return "\n".join(wrong) or f"vulnerabilities: none published of {len(told)} locked versions", bool(wrong)


if __name__ == "__main__":
    texts = [(ROOT / "locks" / f"{name}.txt").read_text("utf-8") for name in LOCKS]
    said, failed = result(sys.argv[1], locked(texts), required="required" in sys.argv[2:])
    sys.stderr.write(said + "\n")
    sys.exit(failed)
