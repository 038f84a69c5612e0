"""Keep released batches on disk while a run is under way, so that an interrupted one continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook.coding import from_numpy, to_numpy
from postrand.engines.order import WORDS
from postrand.errors import ReleaseError, UsageError, sentence
from postrand.formats import Source
from postrand.support.system import flush, open_plain, others_may

Released = tuple[pa.RecordBatch, NDArray[np.uint64] | None]
"""A batch of released codes, with the two words of each record where they are wanted."""

BATCHES_PER_FILE = 32
IDENTITY = "run.json"
_LONGEST_NOTE = 1 << 12


def journaled(
    folder: Path | None, identity: str, fresh: Callable[[int], Iterator[Released]], progress: Callable[[int], None]
) -> Iterator[Released]:
    """Yield the released batches that ``folder`` holds of an earlier run, then ``fresh(records so far)``, kept as well.

    Folder and files are for their owner only. They hold released codes in file order, which links them to the true
    records: they are internal, and to be removed when the release is there. Without a folder nothing is kept.

    Raises
    ------
    UsageError
        If the folder belongs to another run, or others can read it.
    ReleaseError
        If it cannot be written or read.
    """
    if folder is None:
        yield from fresh(0)
        return
    try:
        _claim(folder, identity)
        files = sorted(folder.glob("*.arrow"))
        records = 0
        for number, path in enumerate(files):
            for item in _load(path, number):
                records += item[0].num_rows
                progress(item[0].num_rows)
                yield item
        rest, number = fresh(records), len(files)
        while kept := list(islice(rest, BATCHES_PER_FILE)):
            _store(folder, number, kept)
            number += 1
            yield from kept
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        got = getattr(error, "strerror", None) or "an I/O error"
        fix = "free space there and run again, or remove the folder to start anew"
        raise ReleaseError(sentence("the journal of the run failed", where=str(folder), got=got, fix=fix)) from None


def identity_of(source: Source, secret: bytes, choices: list[Any]) -> str:
    """Return a digest that two runs share only if source files, choices and ``secret`` are the same; it hides them."""
    parts = getattr(source, "parts", (source,))
    paths = [part.path for part in parts if hasattr(part, "path")]
    stats = [(path, path.stat()) for path in paths]
    files = [[str(path.resolve()), found.st_size, found.st_mtime_ns] for path, found in stats]
    text = json.dumps([files, source.schema.names, source.num_rows, choices])
    return hashlib.sha256(b"postrand run\0" + hashlib.sha256(secret).digest() + text.encode()).hexdigest()


def _claim(folder: Path, identity: str) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if others_may(folder.stat()):
        what, fix = "other users can read the folder, which links true records to released ones", f"chmod 700 {folder}"
        raise UsageError(sentence(what, where=str(folder), fix=fix))
    for path in folder.glob("*.partial"):
        path.unlink()
    note = folder / IDENTITY
    if not note.exists():
        if any(folder.iterdir()):
            raise UsageError(sentence("the folder is not empty", where=str(folder), fix="name a new folder"))
        with _complete(note) as file:
            file.write(json.dumps({"run": identity}).encode())
    elif _noted(note) != {"run": identity}:
        raise UsageError(
            sentence(
                "the folder belongs to another run: the source, plan or release key is different",
                where=str(folder),
                fix="repeat the command as it was, or remove the folder to start anew",
            )
        )


def _noted(note: Path) -> Any:
    try:
        with open(note, "rb", opener=open_plain) as file:
            return json.loads(file.read(_LONGEST_NOTE))
    except (ValueError, RecursionError):
        raise _damaged(note) from None


def _damaged(path: Path) -> ReleaseError:
    fix = "remove the folder to start anew"
    return ReleaseError(sentence(f"{path.name} is damaged", where=str(path.parent), fix=fix))


@contextmanager
def _complete(path: Path, is_numbered: bool = False) -> Iterator[BinaryIO]:
    """Open a new file for its owner only; its name, with its digest if asked, appears when it is complete on disk."""
    partial = path.with_suffix(".partial")
    with open(partial, "wb", opener=_for_owner) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    if is_numbered:
        path = path.with_name(_name(partial, path.stem))
    partial.rename(path)
    flush(path.parent)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _name(path: Path, number: str) -> str:
    """Return the name of the file with a number: with its digest, because a bit that fell over would be released."""
    with open(path, "rb", opener=open_plain) as file:
        return f"{number}-{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}.arrow"


def _store(folder: Path, number: int, items: list[Released]) -> None:
    """Write one file of released batches."""
    batches = [batch if words is None else _with_words(batch, words) for batch, words in items]
    with (
        _complete(folder / f"{number:06}.arrow", is_numbered=True) as file,
        pa.ipc.new_file(file, batches[0].schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _load(path: Path, at: int) -> Iterator[Released]:
    if path.name != _name(path, f"{at:06}"):
        raise _damaged(path)
    with pa.OSFile(str(path)) as raw, pa.ipc.open_file(raw) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            batch.validate(full=True)
            if WORDS[0] not in batch.schema.names:
                yield batch, None
                continue
            words = np.stack([to_numpy(batch.column(name)) for name in WORDS], axis=1)
            yield batch.drop_columns(list(WORDS)), words


def _with_words(batch: pa.RecordBatch, words: NDArray[np.uint64]) -> pa.RecordBatch:
    columns = [*batch.columns, *(from_numpy(column) for column in words.T)]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *WORDS])
