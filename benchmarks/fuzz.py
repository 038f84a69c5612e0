"""Fuzz every reader of files, guided by coverage: `make fuzz`, with the targets of tests/fuzz_targets.py.

It needs atheris, which is not among the locked packages. Each target runs in a process of its own, of at most 1.5 GB
(``--memory``) and 10 s for an input; one that dies starts again until its time is over. What is found is written to
``--out``: the inputs, and one line of JSON for each target.

    python -m benchmarks.fuzz --seconds 60 --out fuzzed [TARGET ...]
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

READERS = ("openpyxl", "tests.both_verifiers", "tests.fuzz_targets", "postrand.errors", "postrand.engines.journal")
READERS += tuple(
    f"postrand.{room}" for room in ("codebook", "formats", "metadata", "plan", "recoding", "release", "support")
)
LAST = "last.input"
WORDS = re.compile(rb"[A-Za-z_][A-Za-z_0-9-]{1,30}|[0-9.]+")
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    2**63,
    2**70,
    10**30,
    1e-320,
    "",
    "x" * 3000,
    "\x00",
    "\ud800"[:0],
)
HOSTILE += ("../../etc/passwd", "=cmd|' /C'!A0", [], {}, [[]], {"": None}, [None] * 300, "NaN", "é\u202e")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memory", type=int, default=1536, help="megabytes")
    parser.add_argument("--out", type=Path, default=Path("fuzzed"))
    parser.add_argument("--one", action="store_true", help="for the process of a target")
    given = parser.parse_args()
    if given.one:
        child(given.targets[0], given.out)
        return
    from tests.fuzz_targets import TARGETS

    given.out.mkdir(exist_ok=True)
    for name in given.targets or TARGETS:
        print(json.dumps(fuzzed(name, given.out.resolve(), given.seconds, given.memory)), flush=True)


def fuzzed(name: str, out: Path, seconds: float, memory: int) -> dict[str, Any]:
    """Run the process of a target until its time is over, and return what was done and found."""
    folder = out / re.sub(r"\W+", "-", name).strip("-")
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    began, inputs, ended = time.monotonic(), 0, []
    while (left := seconds - (time.monotonic() - began)) > 2:
        command = [sys.executable, "-m", "benchmarks.fuzz", "--one", name, "--out", folder]
        limits = {"total_time": int(left), "rss_limit_mb": memory, "timeout": 10, "artifact": folder}
        (folder / "limits.json").write_text(json.dumps({k: str(v) for k, v in limits.items()}))
        with (folder / "log.txt").open("wb") as log:
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        text = (folder / "log.txt").read_text("utf-8", "replace")
        inputs += max(map(int, re.findall(r"^#(\d+)\s", text, re.MULTILINE)), default=0)
        if code:
            ended.append(next(iter(re.findall(r"SUMMARY: (.*)|(Segmentation.*)", text)), (str(code), ""))[0])
            (folder / LAST).rename(folder / f"died-{len(ended)}.input")
    found = sorted(path.name for path in folder.glob("found-*.txt"))
    minutes = round((time.monotonic() - began) / 60, 2)
    return {"target": name, "inputs": inputs, "minutes": minutes, "found": found, "ended": ended}


def child(name: str, folder: Path) -> None:
    """Fuzz one target in this process, and write each new kind of failure beside its input."""
    import atheris

    with atheris.instrument_imports(include=[*READERS]):
        from tests.fuzz_targets import TARGETS, attempt
    limits = json.loads((folder / "limits.json").read_text())
    work = Path(tempfile.mkdtemp(prefix="fuzz-"))
    seeds = list(TARGETS[name].seeds(work))
    for seed in seeds:
        (folder / "corpus" / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    words = sorted({word for seed in seeds for word in WORDS.findall(seed)})
    (folder / "words.dict").write_bytes(b"".join(b'"%s"\n' % word for word in words))

    last = folder / LAST

    def once(data: bytes) -> None:
        last.write_bytes(data)  # a process that is killed in the reader's library writes nothing itself
        try:
            attempt(name, work, data)
        except Exception as error:  # whatever a reader raises that is no refusal is what is looked for
            note(folder, error, data)

    chosen = [f"-max_total_time={limits['total_time']}", f"-rss_limit_mb={limits['rss_limit_mb']}"]
    chosen += [f"-timeout={limits['timeout']}", f"-artifact_prefix={folder}/", f"-dict={folder / 'words.dict'}"]
    chosen += [str(folder / "corpus"), f"-max_len={max(4096, 2 * max(map(len, seeds)))}"]
    mutator = {"custom_mutator": mutated} if all(json_value(seed) is not None for seed in seeds) else {}
    atheris.Setup([sys.argv[0], *chosen], once, **mutator)
    atheris.Fuzz()


def note(folder: Path, error: Exception, data: bytes) -> None:
    place = traceback.extract_tb(error.__traceback__)[-1]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/postrand/" in frame.filename]
    mark = (
        f"{type(error).__name__}-{Path(own[-1].filename if own else place.filename).stem}-{(own or [place])[-1].lineno}"
    )
    path = folder / f"found-{mark}.txt"
    if not path.exists():
        path.write_text("".join(traceback.format_exception(error)))
        path.with_suffix(".input").write_bytes(data)


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """Change one place of a JSON value; half of the time any byte."""
    import atheris

    rng = random.Random(seed)
    value = json_value(data)
    if value is None or rng.random() < 0.3:
        return bytes(atheris.Mutate(data, most))
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(places_of(value))
        if not places:
            break
        holder, key = rng.choice(places)
        way = rng.random()
        if way < 0.5:
            holder[key] = copy.deepcopy(rng.choice(HOSTILE))
        elif way < 0.7:
            other, name = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
        elif way < 0.85 and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), holder[key])
        elif isinstance(holder[key], int | float):
            holder[key] = rng.choice((-1, 2, 0.5, 1 << 40)) * holder[key]
        else:
            del holder[key]
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")[:most]


def json_value(data: bytes) -> Any:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def places_of(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_of(value[key])


if __name__ == "__main__":
    main()
