"""The Spark engine: counting and perturbing with the local kernels inside the executors.

Nothing here depends on where, how often or in which order tasks run: a released value is a function of key, mechanism,
content, record key and true value, and parts of the release are cut and sorted by keyed words. Lazy frames that number
their rows anew at each evaluation would break that: hence a named record key, or positions in files that exist.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from postrand import formats
from postrand.codebook import Codebook
from postrand.codebook.perturbed_labels import labelled
from postrand.columns.recoded import needed_for, unrecoded
from postrand.data.households import Renumbering
from postrand.engines import spark_tasks as tasks
from postrand.engines.base import Engine, EngineKind, FolderSink, Sink, check_columns, released_schema
from postrand.engines.content import Content, ContentReader
from postrand.engines.local import LocalEngine
from postrand.engines.records import Perturber
from postrand.engines.resources import NOTHING, OPTIONS, Resources
from postrand.engines.spark_session import check_classic, configured, session_for
from postrand.engines.spark_session import local_session as local_session
from postrand.engines.spark_session import quietly as _quietly
from postrand.engines.wants import Answers, Count, Digest, Want, answer, kept
from postrand.errors import DataError, ReleaseError, UsageError, sentence
from postrand.formats import Source, parquet_files
from postrand.formats.base import BATCH_ROWS, bounded, reading, select
from postrand.mechanism import Mechanism
from postrand.support.progress import Progress, silent
from postrand.support.randomness import ReleaseKey, duplicate_keys
from postrand.support.signals import scratch_folder

PART_ROWS = 1 << 21
"""Records of one part, about: a task holds one part in memory."""

_FOUND = "content binary, problem string"
_COUNTED = "first long, parts binary"


@dataclass(frozen=True, slots=True)
class SparkSource:
    """The records of a Spark DataFrame: a table, a query, files on the cluster.

    A frame has no order of its own: name a record key when perturbing it, or give the engine a folder where it can be
    written once; otherwise a second evaluation could number the same records differently.
    """

    frame: Any
    num_rows: int | None = None

    def __post_init__(self) -> None:
        check_classic(self.frame.sparkSession)

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow's types."""
        return _quietly(lambda: self.frame.limit(0).toArrow().schema)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the records, partition by partition; see :class:`postrand.formats.base.Source`."""
        from pyspark.sql import functions as F

        frame = self.frame.select(*map(_column, select(self.schema, columns, Path("frame"))))
        for number in range(frame.rdd.getNumPartitions()):
            with _explained("frame"):
                part = _quietly(frame.where(F.spark_partition_id() == number).toArrow)
            for batch in part.to_batches():
                yield from bounded(batch, batch_size)


@dataclass(frozen=True, slots=True)
class SparkEngine(Engine):
    """Count and perturb on a Spark cluster; see :class:`postrand.engines.base.Engine`.

    Executors need this package, of the same version. The two AES keys of the mechanism (not the release key) travel to
    them inside Spark's closures: encrypt the cluster's traffic and its disks as for the records themselves.

    Parameters
    ----------
    session
        A SparkSession; by default the active one, or a new one on this machine.
    scratch
        A folder that driver and executors see, for what has to be written once; by default the system's.
    parts
        How many files a release has; by default one for each processor, more where they would not fit in memory.
    resources
        What a session that is started here may use, and its master and settings.
    """

    session: Any = None
    scratch: Path | None = None
    parts: int | None = None
    resources: Resources = NOTHING

    @property
    def name(self) -> str:
        """The engine's name."""
        return "spark"

    def count_all(self, source: Source, codebook: Codebook, wants: Sequence[Want]) -> Answers:
        """Count all tables and digest the records in one job; see :class:`postrand.engines.base.Engine`.

        Wants of records, such as a sample, are answered by the driver, which reads the records once more, in batches.
        Sums of weights are of floating-point numbers in Spark's order: their last digits may differ.
        """

        def read(asked: Sequence[Want], columns: Sequence[str]) -> Iterator[list[Any]]:
            inputs = needed_for(columns, recodes)
            needed = pa.schema([plain.schema.field(name) for name in inputs])
            with self._rows(plain, inputs, any(want.numbered for want in asked), 0) as (frame, by_file, _):
                work = tasks.Counting(tuple(asked), codebook, needed, recodes)
                step = tasks.count_files if by_file else tasks.count
                with _explained("count"):
                    rows = _quietly(lambda: frame.mapInArrow(partial(step, work), _COUNTED).collect())
            for row in sorted(rows, key=lambda row: row.first):
                yield tasks.parts_in(row.parts)

        plain, recodes = unrecoded(source)
        held: dict[Want, Any] = {}
        for want in wants:
            if isinstance(want, Digest):
                with kept(want, held):
                    _check_fixed(plain, want.record_key)
        left = [want for want in dict.fromkeys(wants) if want not in held]
        counted = [want for want in left if isinstance(want, Count | Digest)]
        others = [want for want in left if want not in counted]
        held |= answer(source, codebook, counted, read).held
        return Answers({**held, **(LocalEngine().count_all(source, codebook, others).held if others else {})})

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
        """Perturb and write; see :class:`postrand.engines.base.Engine`.

        Into a :class:`FolderSink` the executors write the files; any other sink is filled by the driver.
        """
        names = check_columns(source, mechanism, columns, record_key)
        reader = ContentReader.of(mechanism, key)
        plain, recodes = unrecoded(source)
        _check_fixed(plain, record_key)
        inputs = needed_for([*names, *reader.inputs, *([] if record_key is None else [record_key])], recodes)
        schema = released_schema(source, names, mechanism.codebook, fresh, mechanism.partly)
        schema = labelled(schema, sink.labels) if isinstance(sink, FolderSink) else schema
        needed = pa.schema([plain.schema.field(name) for name in inputs])
        numbered = record_key is None or not shuffle
        if content is None:
            content = self.content(source, mechanism, key, record_key=record_key)
        members = self.members(source, mechanism, key, content, record_key=record_key)
        known = content.records if whole else None
        with self._rows(plain, inputs, numbered, known) as (frame, by_file, total), self._folder(sink) as folder:
            perturber = Perturber.of(mechanism, key, names, content, fresh, members)
            cores = frame.sparkSession.sparkContext.defaultParallelism
            parts = max(1, self.parts or max(min(cores, total), -(-total // PART_ROWS)))
            suffix = sink.suffix if isinstance(sink, FolderSink) else ".arrow"
            work = tasks.Work(perturber, needed, record_key, shuffle, total, parts, folder, suffix, schema, recodes)
            if record_key is not None and not shuffle:
                _carry_out(replace(work, keys_only=True), frame, by_file)
            records, drawn = _carry_out(work, frame, by_file)
            if records != total:
                raise DataError(
                    sentence(
                        "Spark did not read every record",
                        got=records,
                        wanted=total,
                        fix="make sure that the files do not change during the run",
                    )
                )
            if whole:
                content.check_same_cells(drawn)
            if not isinstance(sink, FolderSink):
                with sink(schema) as writer:
                    for batch in formats.read(folder).batches(names):
                        writer.write(batch)
        (progress or silent)(records)
        return records

    @contextmanager
    def _folder(self, sink: Sink) -> Iterator[Path]:
        """Yield the folder that the executors write: the sink's own, or one that is removed again."""
        if not isinstance(sink, FolderSink):
            with scratch_folder(".postrand-", self.scratch) as made:
                yield made
            return
        try:
            sink.folder.mkdir()
        except OSError as error:
            raise ReleaseError(
                sentence("the folder cannot be created", where=str(sink.folder), got=error.strerror)
            ) from None
        try:
            yield sink.folder.absolute()
            for left in sink.folder.glob(".*"):  # of executors that were lost
                left.unlink()
        except BaseException:
            shutil.rmtree(sink.folder, ignore_errors=True)
            raise

    @contextmanager
    def _rows(
        self, source: Source, columns: list[str], numbered: bool, known: int | None = None
    ) -> Iterator[tuple[Any, bool, int]]:
        """Yield what the first step runs over, whether it names row groups, and the number of records.

        Records of a frame whose place does not matter; else the row groups of Parquet files. Where the number is
        ``known``, a frame is not evaluated to count its records.
        """
        with self._prepared(source) as (session, scratch):
            if isinstance(source, SparkSource) and not numbered:
                frame = source.frame.select(*_renamed(columns))
                rows = known if source.num_rows is None else source.num_rows
                with _explained("frame"):
                    yield frame, False, frame.count() if rows is None else rows
                return
            files = parquet_files(source)
            if not files and isinstance(source, SparkSource):
                with _explained("frame"):
                    source.frame.select(*map(_column, columns)).write.parquet(f"file://{scratch}/frame")
                files = [(file, ()) for file in sorted(Path(scratch, "frame").glob("*.parquet"))]
            elif not files:
                files = [(_written(source, columns, scratch), ())]
            groups, total = [], 0
            for file, held in files:
                with reading(file, "Parquet"):
                    metadata = pq.read_metadata(file)
                for number in range(metadata.num_row_groups):
                    groups.append((str(file.absolute()), number, total, json.dumps(dict(held))))
                    total += metadata.row_group(number).num_rows
            context = session.sparkContext
            slices = max(1, min(len(groups), 4 * context.defaultParallelism))
            rows = context.parallelize(groups, slices)
            schema = "path string, row_group int, position long, held string"
            yield session.createDataFrame(rows, schema), True, total

    @contextmanager
    def _prepared(self, source: Source) -> Iterator[tuple[Any, Path]]:
        """Yield a configured session, and a folder that is removed again."""
        own = source.frame.sparkSession if isinstance(source, SparkSource) else None
        session = self.session or own or session_for(self.resources)
        check_classic(session)
        with scratch_folder(".postrand-", self.scratch) as made, _explained("session"), configured(session):
            yield session, made


def _check_fixed(source: Source, record_key: str | None) -> None:
    """Raise UsageError if Spark's own plan shows that a second evaluation can return other records.

    The analysed plan is asked: the optimiser may have evaluated ``rand()`` once already, and does it anew each time.
    """
    if not isinstance(source, SparkSource) or record_key is None:
        return
    with _explained("plan"):
        fixed = all(node.deterministic() for node in _nodes(source.frame._jdf.queryExecution().analyzed()))
    if not fixed:
        what = "the frame can change at each evaluation (rand, uuid, monotonically_increasing_id, ...)"
        where = f"record key {record_key!r} and what is perturbed"
        raise UsageError(sentence(what, where=where, fix="write the frame to a table or to files once, and read these"))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for n in range(children.size()):
        yield from _nodes(children.apply(n))


def _content_of(rows: Sequence[Any]) -> Content:
    """Return the sum of what tasks read; raises what one of them met."""
    for problem in sorted(row.problem for row in rows if row.problem):
        tasks.raise_problem(problem)
    return sum((Content.of_tag(bytes(row.content)) for row in rows), Content())


def _carry_out(work: tasks.Work, frame: Any, by_file: bool) -> tuple[int, Content]:
    """Run both steps, and return the number of records and what was drawn for; raises DataError for equal keys."""
    step = tasks.perturb_files if by_file else tasks.perturb
    with _explained("perturb"):
        rows = _quietly(
            lambda: (
                frame.mapInArrow(partial(step, work), f"part int, records binary, {_FOUND}")
                .repartitionById(work.parts, "part")
                .mapInArrow(partial(tasks.write, work), f"part int, records long, repeated long, {_FOUND}")
                .collect()
            )
        )
    drawn = _content_of(rows)
    if repeated := sum(row.repeated for row in rows):
        raise duplicate_keys(repeated)
    return sum(row.records for row in rows), drawn


def _written(source: Source, columns: list[str], folder: Path) -> Path:
    """Write the records of a source that executors cannot read themselves."""
    path = folder / "records.parquet"
    schema = pa.schema([source.schema.field(name) for name in columns])
    with formats.open_writer(path, schema) as writer:
        for batch in source.batches(columns):
            writer.write(batch)
    return path


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Turn Spark's complaints, which can quote records, into an error that names their kind only."""
    from py4j.protocol import Py4JError, Py4JNetworkError  # needs the extra "spark"
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        unanswered = type(error) is Py4JError and "Trace:" not in str(error)
        if unanswered or isinstance(error, Py4JNetworkError | ConnectionError):
            fix = "see why Java has ended, give it more memory (--memory-limit) if it had too little, and run again"
            raise DataError(sentence("Spark has ended in the midst of the job", where=where, fix=fix)) from None
        got = getattr(error, "getCondition", lambda: None)() or type(error).__name__
        fix = "see the log of the driver and of the executors"
        raise DataError(sentence("Spark could not carry out the job", where=where, got=got, fix=fix)) from None


def _column(name: str) -> Any:
    from pyspark.sql import functions as F

    return F.col("`{}`".format(name.replace("`", "``")))


def _renamed(names: Sequence[str]) -> list[Any]:
    """Return columns under names that no part of Spark trips over."""
    return [_column(name).alias(f"c{n}") for n, name in enumerate(names)]


def _make(scratch: Path | None = None, resume: Path | None = None, resources: Resources = NOTHING) -> SparkEngine:
    if resume is not None:  # it carries out lost tasks again by itself
        raise UsageError(sentence("the spark engine keeps no journal", fix="leave --resume out"))
    return SparkEngine(scratch=scratch, parts=resources.parts, resources=resources)


ENGINE = EngineKind("spark", _make, writes_folder=True, takes=OPTIONS[1:])
