"""What an engine may use: threads, memory, a folder for temporary files, and Spark's master and settings."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import is_whole

OPTIONS = ("name", "threads", "memory_limit", "scratch", "master", "conf", "parts")
"""The options of a plan's ``[engine]``."""
_SIZE = re.compile(r"(?P<number>[0-9]{1,15})\s*(?P<unit>[KMGT]i?B|B)?", re.IGNORECASE)
_UNITS: dict[str, int] = {"b": 1} | {f"{letter}b": 1000**n for n, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**n for n, letter in enumerate("kmgt", 1)}


@dataclass(frozen=True, slots=True)
class Resources:
    """Hold which engine runs and what it can use; the engine chooses what is left out.

    Parameters
    ----------
    name
        ``local``, ``duckdb`` or ``spark``; empty for what the plan says, else ``local``.
    threads
        Batches that are worked on at a time; of Spark on this machine, its cores.
    memory_limit
        Bytes that sorting and counting may take before they go through temporary files; of Spark, the memory of the
        driver on this machine, or of each executor of a cluster. The process itself needs about 300 MB more.
    scratch
        The folder of temporary files.
    master, conf, parts
        Of Spark alone: its master, its settings, and the number of files that a release has.

    Raises
    ------
    SpecificationError
        With every option that is not well formed.
    """

    name: str = ""
    threads: int | None = None
    memory_limit: int | None = None
    scratch: Path | None = None
    master: str = ""
    conf: tuple[tuple[str, str], ...] = ()
    parts: int | None = None

    def __post_init__(self) -> None:
        raise_all(SpecificationError, _problems(self))

    @property
    def given(self) -> tuple[str, ...]:
        """The options that are asked for, but the name."""
        return tuple(option for option in OPTIONS[1:] if getattr(self, option))

    def of(self, options: Sequence[str]) -> Resources:
        """Return these choices without any other option than these."""
        return Resources(self.name, **{option: getattr(self, option) for option in options})

    def over(self, planned: Resources) -> Resources:
        """Return these choices, and those of a plan where none is made here; settings are put together."""
        fields = {option: getattr(self, option) or getattr(planned, option) for option in OPTIONS}
        fields["conf"] = tuple((dict(planned.conf) | dict(self.conf)).items())
        return Resources(**fields)


def size_of(text: str) -> int:
    """Return a number of bytes.

    >>> size_of("4GiB"), size_of("500 MB"), size_of("1024")
    (4294967296, 500000000, 1024)

    Raises
    ------
    SpecificationError
        If the text is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or not int(found["number"]):
        raise SpecificationError(
            sentence("this is not a valid size of memory", got=shown(text, repr), wanted="4GiB, 500MB, ...")
        )
    number, unit = found["number"], found["unit"]
    return int(number) * _UNITS[str(unit or "b").lower()]


def resources_from(data: Any, folder: Path, where: str) -> tuple[Resources, list[str]]:
    """Return what a plan's ``[engine]`` asks for, and every problem of it; its folder is relative to the plan's."""
    if not isinstance(data, Mapping):
        return NOTHING, [sentence("the value is not a table", where=where)]
    wrong = [
        sentence(f"unknown option {name!r}{nearest(name, OPTIONS)}", where=where, wanted=", ".join(OPTIONS))
        for name in data
        if name not in OPTIONS
    ]
    given = {name: value for name, value in data.items() if name in OPTIONS}
    conf = given.pop("conf", {})
    if not isinstance(conf, Mapping) or not all(isinstance(value, str | int | float) for value in conf.values()):
        wrong.append(sentence("'conf' is not a table of settings", where=where, fix='conf = { "spark.x" = "y" }'))
        conf = {}
    try:
        if isinstance(size := given.get("memory_limit"), str):
            given["memory_limit"] = size_of(size)
        if isinstance(scratch := given.get("scratch"), str):
            given["scratch"] = folder / scratch
        settings = tuple((name, _text(value)) for name, value in conf.items())
        return Resources(**given, conf=settings), wrong
    except SpecificationError as error:
        return NOTHING, [*wrong, *(f"{where}: {problem}" for problem in error.problems)]


@contextmanager
def applied(resources: Resources) -> Iterator[None]:
    """Let this process read with so many threads, and put its temporary files there, while the block runs."""
    threads, folder = pa.cpu_count(), tempfile.tempdir
    if resources.threads is not None:
        pa.set_cpu_count(resources.threads)
    if resources.scratch is not None:
        tempfile.tempdir = str(resources.scratch)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)
        tempfile.tempdir = folder


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problems(found: Resources) -> Iterator[str]:
    if not isinstance(found.name, str):
        yield sentence("'name' is not text", wanted="the name of an engine")
    for option in ("threads", "memory_limit", "parts"):
        value = getattr(found, option)
        if value is not None and not is_whole(value, 1):
            yield sentence(f"{option!r} is not a positive number", got=shown(value, repr), wanted=">= 1")
    if found.scratch is not None and not isinstance(found.scratch, Path):
        yield sentence("'scratch' is not the name of a folder")
    elif found.scratch is not None and not os.path.isdir(found.scratch):  # unlike is_dir, for names too long
        yield sentence("the folder of temporary files does not exist", where=str(found.scratch), fix="create it")
    if not isinstance(found.master, str):
        yield sentence("'master' is not text", wanted="local[4], spark://host:7077, yarn, ...")
        return
    if found.threads and found.master:
        yield sentence("'threads' and 'master' both set the number of cores for Spark", fix="keep one: local[4]")
    if found.master.startswith("sc://"):
        yield sentence(CONNECT, fix=CONNECT_FIX)


CONNECT = "Spark Connect has no driver in which records can be perturbed"
CONNECT_FIX = "use spark-submit, or a master such as local[4], spark://host:7077 or yarn; docs/engines.md shows how"

NOTHING = Resources()
"""No wish at all."""
