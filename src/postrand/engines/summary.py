"""One pass over released data: does it fit the codebook and the law, and how often does each value occur."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand import formats
from postrand.codebook import Codebook, coding, not_released
from postrand.codebook.clear_columns import carried, released_values
from postrand.codebook.not_released import shown_codebook
from postrand.codebook.perturbed_labels import marked_labels
from postrand.codebook.rules import forbidden
from postrand.columns.source import check_released
from postrand.engines.base import released_schema
from postrand.engines.cells import Cells
from postrand.engines.joint import JointCounts, covering
from postrand.engines.split_members import Members
from postrand.engines.split_summary import SplitCounter
from postrand.engines.unit_summary import HouseholdCounter
from postrand.errors import DataError, raise_all, sentence
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.margins import impossible, tables_of
from postrand.mechanism.split_margins import split_tables
from postrand.support.progress import Stage, passing
from postrand.support.threads import behind

MAX_PAIR_CELLS = 60
AHEAD = 1 << 24
"""Values that are read before they are compared, at most."""
MAX_TESTED, MAX_TESTED_CELLS = 45, 1024
"""Pairs of blocks whose tables are held against the law, and cells of each: one pass over the records counts them."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Hold what a report needs of released data: the number of records, and counts of *released* values.

    ``blocks[b]`` has shape (K,): records in each cell of block b. ``variables[name]`` has shape (S,): records in each
    code. ``pair`` names two variables, ``pair_counts`` their table; both are empty where no small table exists.
    Kept missing values are in no count. ``block_pairs`` are tables of released cells (K_a, K_b) of blocks a and b.
    Of a split, ``subsets`` (T,) are the records that show each subset, ``subset_cells[t]``, (K_t,), those in each of
    its cells, and its variables have shape (S + 1,): the last counts records that do not show them. ``subsets_among``:
    the records that show each subset by the values of another variable, (S, T). ``households[b]``, (2, K): households
    in each cell of block b, where it is drawn for them, and the sums of squares of their numbers of records. Where one
    member of each household shows a subset, ``members`` is about them.
    """

    records: int
    blocks: tuple[NDArray[np.int64], ...]
    variables: Mapping[str, NDArray[np.int64]]
    pair: tuple[str, ...]
    pair_counts: NDArray[np.int64]
    block_pairs: tuple[tuple[int, int, NDArray[np.int64]], ...] = ()
    subsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    subset_cells: tuple[NDArray[np.int64], ...] = ()
    subsets_among: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    households: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    members: Members = field(default_factory=Members)


def summarise(data: Path | formats.Source, mechanism: Mechanism) -> Summary:
    """Read the data once, a file or an opened source; check every value against codebook and matrices, and count.

    Raises
    ------
    DataError
        If columns or types are not the codebook's, a value is no category, or a combination is released that the
        matrices give probability zero.
    """
    source = formats.read(data, _shown(mechanism)) if isinstance(data, Path) else data
    return _summary(source, source.batches, mechanism)


@contextmanager
def read_back(path: Path, mechanism: Mechanism) -> Iterator[Summary]:
    """Yield the summary of data files, which are compared in the same pass as by :func:`check_bytes`.

    The last comparisons run on beside the block, and end with it: values and law are judged before, bytes after it.
    Raises as :func:`summarise`, and on leaving as :func:`check_bytes`.
    """
    differing: list[DataError] = []
    source = formats.read(path, _shown(mechanism))
    with closing(_compared(source, mechanism, differing)) as compared:  # an error leaves no comparison open
        yield _summary(source, lambda: iter(partial(next, compared), None), mechanism)
        for _ in compared:
            pass
    require_same(differing)


def _summary(source: Any, batches: Callable[[], Iterator[pa.RecordBatch]], mechanism: Mechanism) -> Summary:
    raise_all(DataError, (problem for part in _files(source) for problem in _schema_problems(part, mechanism)))
    counter = _Counter(mechanism.require_codebook(), mechanism)
    for batch in passing(batches(), Stage.VERIFYING, source.num_rows):
        counter.add(batch)
    found = counter.summary()
    raise_all(DataError, _law_problems((*found.blocks, *found.subset_cells), mechanism))
    check_released(source, mechanism.numerical)
    return found


def check_margins(summary: Summary, mechanism: Mechanism) -> int:
    """Check that the matrices could produce these counts from any true records; return the number of tables tested.

    A right release is refused with a probability of at most 1e-9; see :mod:`postrand.mechanism.margins`. So it is by
    the members who show a split: see :meth:`postrand.engines.split_members.Members.odd`.

    Raises
    ------
    DataError
        Naming the blocks, and pairs of blocks, whose tables are as good as impossible, and the variables whose values
        had a say in which members show the split.
    """
    counts = [
        n if block.unit == "record" else summary.households[place][0] if place in summary.households else None
        for place, (block, n) in enumerate(zip(mechanism.blocks, summary.blocks, strict=True))
    ]
    tables = tables_of(mechanism.blocks, counts, summary.block_pairs)
    if mechanism.split is not None:
        counted = (summary.subsets, summary.subset_cells, summary.subsets_among)
        tables += split_tables(mechanism.split, mechanism.require_codebook(), *counted)
    what = "the matrix almost never produces such counts, for any true records"
    fix = "do not use this release: its records were not drawn with its matrices"
    problems = [sentence(what, where=f"block {name}", fix=fix) for name in impossible(tables)]
    what = "the members who show the split were almost certainly not chosen at random"
    fix = "do not use this release: who shows something must not depend on what a record says"
    odd = summary.members.odd([*summary.subsets_among])
    raise_all(DataError, [*problems, *(sentence(what, where=f"variable {name!r}", fix=fix) for name in odd)])
    return len(tables) + len(summary.members.traits)


def check_bytes(path: Path, mechanism: Mechanism) -> None:
    """Check that the data files are, byte for byte, those of a release of their records.

    Nothing can then be in them beside the records: the values of a codebook's categories, and columns as they are.

    Raises
    ------
    DataError
        If a file is another one, or a record does not fit the codebook.
    """
    differing: list[DataError] = []
    for _ in _compared(formats.read(path, _shown(mechanism)), mechanism, differing):
        require_same(differing)
    require_same(differing)


def require_same(differing: list[DataError]) -> None:
    """Raise the first of the errors that a comparison of bytes met, if any."""
    if differing:
        raise differing[0]


def _compared(
    source: formats.Source, mechanism: Mechanism, differing: list[DataError]
) -> Generator[pa.RecordBatch | None, None, None]:
    """Yield the records file by file, and note each file whose bytes are not those of its records at its end.

    After the last record comes None; what is not compared by then, is when the generator goes on.
    """
    names, shown = mechanism.require_codebook().names, _shown(mechanism)
    most, parts = max(1, AHEAD // (formats.BATCH_ROWS * len(names))), _files(source)
    for part in parts:
        complete = False
        try:
            schema = public_schema(part, mechanism)
            with formats.open_comparison(part.path, schema) as writer:
                with behind(partial(_write, writer, shown), most) as hand:
                    for batch in part.batches(names):
                        yield batch  # before it is written, so that the reader judges its values first
                        hand(batch)
                    if part is parts[-1]:
                        yield None
                complete = True
        except DataError as error:
            if not complete:
                raise
            differing.append(error)


def _write(writer: formats.Writer, shown: Codebook, batch: pa.RecordBatch) -> None:
    writer.write(released_values(batch, shown))


def _shown(mechanism: Mechanism) -> Codebook:
    """Return the codebook of what the data hold: of a split also what stands for values that are not shown."""
    return shown_codebook(mechanism.require_codebook(), mechanism.partly)


def _files(source: Any) -> tuple[Any, ...]:
    """Return the sources of the single files that a source reads."""
    return tuple(getattr(source, "parts", (source,)))


class _Counter:
    """Add up batches; local to :func:`summarise`."""

    def __init__(self, codebook: Codebook, mechanism: Mechanism) -> None:
        self.codebook = codebook
        self.records = 0
        self.cells = [Cells.of(block, codebook) for block in mechanism.blocks]
        self.sizes = [block.matrix.size for block in mechanism.blocks]
        self.single = {cells.names[0]: b for b, cells in enumerate(self.cells) if cells.table is None}
        self.pair, self.tested = small_pair(codebook, mechanism), _tested(mechanism.blocks)
        self.households = HouseholdCounter(mechanism, codebook)
        kept = [cells.table is None and cells.variables[0].missing == "keep" for cells in self.cells]
        shown = [(self.single[one], self.single[other]) for one, other in ([self.pair] if self.pair else [])]
        groups = covering([*self.tested, *shown], self.sizes)
        groups += [(block,) for block in range(len(self.cells)) if not any(block in group for group in groups)]
        self.joint = [JointCounts(group, self.sizes, kept) for group in groups]
        self.split = None if mechanism.split is None else SplitCounter(mechanism.split, codebook)
        self.house = "" if mechanism.units is None else mechanism.units.household
        self.partly = frozenset(mechanism.partly)
        categorical = [v for v in shown_codebook(codebook, mechanism.partly).variables if v.is_categorical]
        self.known = {v.name: set(coding.category_values(v).to_pylist()) for v in categorical}
        self.others = {v.name: np.zeros(v.size, dtype=np.int64) for v in categorical if v.name not in self.single}

    def add(self, batch: pa.RecordBatch) -> None:
        codes: dict[str, NDArray[Any]] = {}
        for variable in self.codebook.variables:
            column = batch.column(batch.schema.get_field_index(variable.name))
            if variable.is_categorical:
                encode = not_released.encode if variable.name in self.partly else coding.encode
                codes[variable.name] = encode(column, variable)
                self.check_dictionary(column, variable.name)
            else:
                carried(column, variable)  # refuses missing values where none may be
        if self.codebook.rules and forbidden(self.codebook, codes, self.codebook.rules).any():
            what = "the release contains a combination that a rule of the codebook forbids"
            raise DataError(sentence(what, fix="do not use this release: the mechanism does not produce it"))
        for name, counts in self.others.items():
            counts += _count(codes[name], counts.size)
        if self.split is not None:
            of = self.house if self.split.members is not None else None
            self.split.add(codes, None if of is None else batch.column(batch.schema.get_field_index(of)))
        positions = [_positions(cells, codes) for cells in self.cells]
        for joint in self.joint:
            joint.add(positions)
        if self.households.is_counted:
            self.households.add(batch.column(batch.schema.get_field_index(self.households.name)), positions)
        self.records += batch.num_rows

    def summary(self) -> Summary:
        """Return the counts of all batches."""
        blocks = tuple(self.margin(block) for block in range(len(self.cells)))
        counted = {name: blocks[self.single[name]] if name in self.single else self.others[name] for name in self.known}
        pair = tuple(self.single[name] for name in self.pair)
        tested = tuple((a, b, self.margin(a, b)) for a, b in self.tested)
        pair_counts = self.margin(*pair) if pair else np.zeros((), dtype=np.int64)
        houses = self.households.counts() if self.households.is_counted else {}
        found = Summary(self.records, blocks, counted, self.pair, pair_counts, tested, households=houses)
        if self.split is None:
            return found
        cells, among, members = tuple(self.split.cells), self.split.among, Members()
        if self.split.members is not None:
            members = self.split.members.found([counts.size for counts in cells])
        return replace(found, subsets=self.split.records, subset_cells=cells, subsets_among=among, members=members)

    def margin(self, *blocks: int) -> NDArray[np.int64]:
        """Return the table of these blocks, in ascending order, from the first table that has them."""
        return next(joint for joint in self.joint if set(blocks) <= set(joint.blocks)).margin(*blocks)

    def check_dictionary(self, column: pa.Array, name: str) -> None:
        """Refuse a dictionary with an entry that no codebook lists, whether or not a record has it."""
        if pa.types.is_dictionary(column.type) and not self.known[name].issuperset(column.dictionary.to_pylist()):
            what = "the file lists a value that no record has and that is not in the codebook"
            raise DataError(sentence(what, where=f"variable {name!r}"))


def _positions(cells: Cells, codes: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the released cell of each record; raises DataError where a combination is none of the block's."""
    found = cells.find(codes)
    if cells.table is not None and (found < 0).any():
        what = "the release contains a combination that is not a cell of the block"
        raise DataError(sentence(what, where=f"block {' × '.join(cells.names)!r}"))
    return found


def _tested(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """Return the first pairs of blocks whose joint table is small, all of whose draws are independent.

    Those of blocks that share a variable are not, nor those of blocks that records of one unit share.
    """
    pairs = [
        (a, b)
        for a, one in enumerate(blocks)
        for b, other in enumerate(blocks[a + 1 :], a + 1)
        if one.unit == other.unit == "record"
        and one.matrix.size * other.matrix.size <= MAX_TESTED_CELLS
        and set(one.variables).isdisjoint(other.variables)
    ]
    return pairs[:MAX_TESTED]


def small_pair(codebook: Codebook, mechanism: Mechanism) -> tuple[str, ...]:
    """Return the first two perturbed variables whose table has at most 60 cells, or nothing.

    They come from two blocks of one variable each, so that the table is corrected one axis at a time.
    """
    own = [block for block in mechanism.blocks if block.unit == "record"]
    single = [b.variables[0] for b in own if len(b.variables) == 1 and b.cells is None]
    sizes = {name: codebook[name].size for name in single}
    pairs = ((a, b) for i, a in enumerate(single) for b in single[i + 1 :])
    return next(((a, b) for a, b in pairs if sizes[a] * sizes[b] <= MAX_PAIR_CELLS), ())


def _count(codes: NDArray[Any], size: int) -> NDArray[np.int64]:
    # Codes start at -1 (kept missing): one place more in front, then dropped.
    return np.bincount(codes.astype(np.int64) + 1, minlength=size + 1)[1:]


def _schema_problems(file: Any, mechanism: Mechanism) -> Iterable[str]:
    where, schema, codebook = file.path.name, file.schema, mechanism.require_codebook()
    if tuple(schema.names) != codebook.names:
        yield sentence("the columns of the data are not in the order of the codebook", where=where)
    if schema.metadata:
        # Dataframe libraries note there the columns and index of the file that a frame was read from.
        yield sentence(
            "the data file contains metadata of its own", where=where, got=", ".join(_names(schema.metadata))
        )
    for public in public_schema(file, mechanism):
        found, may = (field.metadata or {} for field in (schema.field(public.name), public))
        if foreign := {key for key, text in found.items() if may.get(key) != text}:
            what = f"column {public.name!r} contains metadata that the codebook does not give"
            yield sentence(what, where=where, got=", ".join(_names(foreign)))


def public_schema(file: Any, mechanism: Mechanism) -> pa.Schema:
    """Return the columns of a released file as a release writes them, their labels with or without marks."""
    codebook = mechanism.require_codebook()
    suffix = file.path.suffix.lower()  # .json is that of the table of a database
    room = formats.format_of(f"x{suffix}").label_room if formats.is_known(f"x{suffix}") else 0
    marks = marked_labels(codebook, [n for n in mechanism.variables if n in file.schema.names], room)
    said = {name: (file.schema.field(name).metadata or {}).get(b"label") for name in marks}
    # All that can be marked, or none, as in releases without marks: else which are marked could tell something.
    perturbed = tuple(marks) if all(said[name] == text.encode() for name, text in marks.items()) else ()
    return released_schema(file, codebook.names, codebook, partly=mechanism.partly, perturbed=perturbed)


def _names(metadata: Iterable[bytes]) -> list[str]:
    return sorted(key.decode(errors="replace") for key in metadata)


def _law_problems(counts: Iterable[NDArray[np.int64]], mechanism: Mechanism) -> Iterable[str]:
    for block, counted in zip(mechanism.every_block, counts, strict=True):
        if counted[block.matrix.form.columns()[0] == 0].any():
            yield sentence(
                "the release contains a value that has probability zero in the matrix", where=f"block {block.name!r}"
            )
