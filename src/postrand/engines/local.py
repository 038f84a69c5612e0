"""The local engine: threads over a stream of Arrow batches, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from postrand.codebook import Codebook
from postrand.data.households import Renumbering
from postrand.engines.base import Engine, EngineKind, Sink, check_columns, released_schema
from postrand.engines.content import Content
from postrand.engines.journal import Released, identity_of, journaled
from postrand.engines.order import KeyedOrder, in_order
from postrand.engines.records import Perturber
from postrand.engines.resources import NOTHING, Resources
from postrand.engines.wants import Answers, Piece, Want, answer, keys_of, numbered, parts_of
from postrand.errors import UsageError, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.support.progress import Progress, Stage, passing, silent, stage
from postrand.support.randomness import ReleaseKey, duplicate_keys
from postrand.support.system import processors

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """Count and perturb on this machine; see :class:`postrand.engines.base.Engine`.

    Parameters
    ----------
    threads
        How many batches are worked on at a time; by default one for each processor that this process may use.
    batch_rows
        Records in a batch.
    memory_limit
        Bytes of released codes that the shuffle keeps in memory; beyond, it sorts through temporary files.
    scratch
        The directory of those files, by default the system's. They hold released records and no record keys, and are
        removed at the end.
    resume
        A folder where released batches are kept, so that the same call, with the same key, continues an interrupted
        run; see :func:`postrand.engines.journal.journaled`. Remove it when the release is there.
    """

    threads: int | None = None
    batch_rows: int = 1 << 16
    memory_limit: int = 1 << 27
    scratch: Path | None = None
    resume: Path | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "batch_rows", "memory_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(sentence(f"{name} is not positive", got=value, wanted=">= 1"))

    @property
    def name(self) -> str:
        """The engine's name."""
        return "local"

    def count_all(self, source: Source, codebook: Codebook, wants: Sequence[Want]) -> Answers:
        """Answer all wants in one pass; see :class:`postrand.engines.base.Engine`."""

        def read(asked: Sequence[Want], columns: Sequence[str]) -> Iterator[list[Any]]:
            def work(task: tuple[int, pa.RecordBatch]) -> list[Any]:
                return parts_of(asked, Piece(task[1], task[0], codebook))

            records = passing(source.batches(columns, self.batch_rows), Stage.COUNTING, source.num_rows)
            with self._pool() as pool:
                yield from self._map(pool, work, numbered(records))

        return answer(source, codebook, wants, read)

    def perturb(
        self,
        source: Source,
        mechanism: Mechanism,
        key: ReleaseKey,
        sink: Sink,
        *,
        columns: Sequence[str] | None = None,
        record_key: str | None = None,
        shuffle: bool = True,
        content: Content | None = None,
        whole: bool = True,
        fresh: Renumbering | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Perturb and write; see :class:`postrand.engines.base.Engine`."""
        names = check_columns(source, mechanism, columns, record_key)
        bound = self.content(source, mechanism, key, record_key=record_key) if content is None else content
        members = self.members(source, mechanism, key, bound, record_key=record_key)
        perturber = Perturber.of(mechanism, key, names, bound, fresh, members)
        step, with_words = progress or silent, shuffle or record_key is not None
        choices: list[Any] = [mechanism.digest(), list(names), record_key, with_words, bound.tag().hex()]
        choices += [] if fresh is None else [fresh.name, fresh.turn]
        identity = identity_of(source, perturber.keys.order, choices) if self.resume else ""

        def finish(part: pa.Table) -> tuple[pa.RecordBatch, int]:
            batch, repeated = in_order(part)
            return perturber.values(batch) if shuffle else batch, repeated

        with (
            sink(released_schema(source, names, mechanism.codebook, fresh, mechanism.partly)) as writer,
            KeyedOrder(self.memory_limit, self.scratch) as order,
            self._pool() as pool,
        ):
            records, drawn = 0, list[Content]()
            drawings = partial(self._released, pool, source, perturber, record_key, with_words, step, drawn.append)
            for batch, words in journaled(self.resume, identity, drawings, step):
                records += batch.num_rows
                if not shuffle:
                    writer.write(perturber.values(batch))
                if words is not None:  # where the order stays, only to find duplicates
                    order.add(batch if shuffle else batch.select([]), words)
            repeated, wrote = 0, stage(Stage.WRITING, records)
            for batch, again in self._map(pool, finish, order.parts()):
                repeated += again
                if shuffle:
                    writer.write(batch)
                wrote(batch.num_rows)
            if repeated:
                raise duplicate_keys(repeated)
            if whole:
                read = sum(drawn, Content())
                if read.records != records:  # some came out of the journal
                    read = self.content(source, mechanism, key, record_key=record_key)
                bound.check_same_cells(read)
        return records

    def _released(
        self,
        pool: ThreadPoolExecutor,
        source: Source,
        perturber: Perturber,
        record_key: str | None,
        with_words: bool,
        progress: Progress,
        drawn: Callable[[Content], None],
        first: int,
    ) -> Iterator[Released]:
        """Yield batches of released codes with the words of their records, in file order, from record ``first`` on."""
        extra = [] if record_key is None or record_key in perturber.inputs else [record_key]

        def work(task: tuple[int, pa.RecordBatch]) -> tuple[Released, Content]:
            keys = keys_of(task[1], task[0], record_key)
            released, content = perturber.release(task[1], keys)
            return (released, perturber.order(keys) if with_words else None), content

        batches = source.batches([*perturber.inputs, *extra], self.batch_rows)
        for released, content in self._map(pool, work, numbered(batches, first)):
            progress(released[0].num_rows)
            drawn(content)
            yield released

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.workers, thread_name_prefix="postrand")

    @property
    def workers(self) -> int:
        """How many batches are worked on at a time."""
        return self.threads or processors()

    def _map(
        self, pool: ThreadPoolExecutor, work: Callable[[_Task], _Result], tasks: Iterable[_Task]
    ) -> Iterator[_Result]:
        """Yield ``work(task)`` in the order of the tasks, with at most one task waiting for each worker."""
        running: deque[Future[_Result]] = deque()
        try:
            for task in tasks:
                running.append(pool.submit(work, task))
                if len(running) > self.workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def local_engine(
    scratch: Path | None = None, resume: Path | None = None, resources: Resources = NOTHING
) -> LocalEngine:
    """Return the local engine with what it may use."""
    limits: dict[str, Any] = {"threads": resources.threads}
    if resources.memory_limit is not None:
        limits["memory_limit"] = max(1, resources.memory_limit // 2)  # sorting holds some columns twice
    return LocalEngine(scratch=scratch, resume=resume, **limits)


ENGINE = EngineKind("local", local_engine)
