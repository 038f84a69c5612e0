"""Perturb a dataframe in memory: the local engine between two tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from postrand.codebook import coding, not_released
from postrand.codebook.clear_columns import carried
from postrand.columns.source import released, whole_column
from postrand.data import frames
from postrand.data.frames import Each
from postrand.data.recoded import recode
from postrand.engines.base import check_columns
from postrand.engines.content import Content, ContentReader
from postrand.engines.local import LocalEngine
from postrand.engines.split_records import SplitDraws
from postrand.engines.unit_members import members_of, require_whole
from postrand.engines.unit_records import UnitChecks, check_table, wants_of
from postrand.engines.units import BlockDraws, Identities, drawn_by, units_of
from postrand.errors import UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.support.randomness import ReleaseKey, as_release_key, derive, duplicate_keys, record_keys, shared_keys

_PIECE, _FEWEST = 1 << 17, 1 << 13
"""Records that a thread works on at a time, at most, and at least: each time it needs 1 MiB for words anew."""


def perturb(
    frame: Any,
    mechanism: Mechanism,
    release_key: ReleaseKey | bytes | str | None = None,
    record_key: str | None = None,
    *,
    content: Content | None = None,
) -> Any:
    """Return ``frame`` with the released value of every variable of the mechanism in place of the true one.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame, or a pyarrow Table. The same kind comes back: the same columns in the same order
        and dtypes, categories in their order, the same pandas index. Columns that the mechanism does not perturb come
        back as they are: drop what may not be released. What the mechanism's codebook recodes is recoded first, as by
        :func:`postrand.recode`: give the frame as it was. Variables of a split come back categorical, with one more
        category, the last, ``(not released)``; missing values stay missing.
    mechanism
        Its codebook may be left out where the columns are categorical (or boolean) by type.
    release_key
        32 bytes, 64 hexadecimal digits or a :class:`postrand.ReleaseKey`; None draws a fresh one, which is forgotten.
    record_key
        A column of unique integers or texts; None numbers the records 0, 1, ... The same key, mechanism and record
        give the same released value in whatever order, batch or engine. The order of records is not shuffled here.
    content
        Where ``frame`` is one of several parts: what :func:`content_of` gives for all of them, under the same release
        key; the parts then need a record key. By default the draws are bound to this frame's own records: another
        frame, even with one record changed, draws anew.

    Raises
    ------
    UsageError
        If ``frame`` is no dataframe in memory, the release key has the wrong length, or ``content`` is given without a
        record key or release key.
    SpecificationError
        If the mechanism has no codebook and a type does not list its categories, or a matrix does not fit.
    DataError
        If a column is missing, a value is not in the codebook, two records share a key, or a dtype cannot hold what is
        released.

    Examples
    --------
    >>> from postrand import randomised_response
    >>> table = pa.table({"sex": pa.array(["F", "M", "F"]).dictionary_encode(), "pay": [1, 2, 3]})
    >>> mechanism = Mechanism({"sex": randomised_response(2, epsilon=1.0)})
    >>> perturb(table, mechanism, ReleaseKey.from_seed(4)).to_pydict()
    {'sex': ['F', 'F', 'F'], 'pay': [1, 2, 3]}
    """
    if content is not None and (record_key is None or release_key is None):
        what = "one part of several frames needs a record key and a release key"
        raise UsageError(sentence(what, fix="give the record_key and the release_key that content_of was given"))
    if content is not None and mechanism.numerical:
        what = "ranks need all records, but this frame is a part of them"
        raise UsageError(sentence(what, fix="perturb all records as one frame"))
    if content is not None:
        require_whole(mechanism)
    key, frame = as_release_key(release_key), _recoded(frame, mechanism)
    source, bound = _bound(frame, mechanism, record_key)
    ranked = [column.variable for column in bound.numerical]
    check_columns(source, bound, (*bound.variables, *ranked), record_key)
    with _threads() as each:
        records = _Records.of(source.table, bound, key, record_key, each)
        if content is None:  # else all parts were checked together
            check_table(source.table, bound)
        tag = (records.content(source.table) if content is None else content).tag()
        if records.keys is not None:
            _refuse_repeated(records.keys)
        shown = records.reader.split.shown
        if not source.num_rows and not shown:
            return frame
        draw_key, chosen = derive(key, bound.digest(), tag).draw, members_of(source.table, bound, key, tag, record_key)
        split = SplitDraws.of(bound, records.reader.split, chosen.split)
        records.draw(BlockDraws.of(bound, key, draw_key, tag, chosen.ones), split)
        book = bound.require_codebook()
        decode = {name: not_released.decode if name in shown else coding.decode for name in bound.variables}
        codes = records.codes
        del records  # which holds parts of all codes
        names = bound.variables
        made = dict(zip(names, each(lambda name: decode[name](codes.pop(name), book[name]), names), strict=True))
        by_rank = released(source, bound, key, record_key, content=tag)
        made |= {name: carried(whole_column(by_rank, name), book[name]) for name in ranked}
        return frames.like(frame, made, each, categorical=shown)


def content_of(
    parts: Iterable[Any], mechanism: Mechanism, release_key: ReleaseKey | bytes | str, record_key: str
) -> Content:
    """Return what the draws for several frames together are bound to: their content, whatever their order.

    ``parts`` yields dataframes, one at a time in memory. Hand each of them to :func:`perturb` with this content, and
    with the same release key and record key: the released values are those of one frame of all their records.

    Raises
    ------
    UsageError
        If ``parts`` is a single dataframe, or one of them is not held in memory.
    DataError
        If a column is missing, a value is not in the codebook, or two records have the same key.

    Examples
    --------
    >>> from postrand import Codebook, Variable, randomised_response
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> mechanism = Mechanism({"sex": randomised_response(2, epsilon=1.0)}, codebook=book)
    >>> whole, key = pa.table({"sex": ["F", "M", "F"], "id": [7, 8, 9]}), ReleaseKey.from_seed(4)
    >>> content_of([whole[2:], whole[:2]], mechanism, key, "id") == content_of([whole], mechanism, key, "id")
    True
    """
    if hasattr(parts, "columns"):
        raise UsageError(sentence("one frame is not a list of parts", fix="give a list of frames, or call perturb"))
    require_whole(mechanism)
    key, total, seen = as_release_key(release_key), Content(), [np.zeros(0, dtype=np.uint64)]
    checks = UnitChecks(wants_of(mechanism))
    for part in parts:
        source, bound = _bound(_recoded(part, mechanism), mechanism, record_key)
        with _threads() as each:
            records = _Records.of(source.table, bound, key, record_key, each)
            checks.add(source.table, bound.require_codebook())
            total += records.content(source.table)
        seen.append(record_keys(source.table.column(record_key)))
    _refuse_repeated(np.concatenate(seen))
    checks.finish()
    return total


def _recoded(frame: Any, mechanism: Mechanism) -> Any:
    """Return the frame as the mechanism's codebook recodes it."""
    return frame if mechanism.codebook is None else recode(frame, mechanism.codebook)


def _bound(frame: Any, mechanism: Mechanism, record_key: str | None) -> tuple[frames.TableSource, Mechanism]:
    """Return what a frame's draws read, and the mechanism bound to its categories."""
    ranked = [column.variable for column in mechanism.numerical]
    keys = [] if record_key is None else [record_key]
    units = [] if mechanism.units is None else mechanism.units.columns.values()
    needed = dict.fromkeys([*mechanism.variables, *mechanism.given, *ranked, *keys, *units])
    table = frames.to_arrow(frame, list(needed))
    return frames.TableSource(table), frames.bind(table, mechanism)


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """Hold the codes that a mechanism reads of a frame, and what names its records.

    The codes are nobody else's: what is digested is what is drawn for, whatever becomes of the frame meanwhile.
    ``positions`` are the cells of each block, piece by piece; those of a block of one variable are its codes. ``keys``
    name the records, shape (n,); None numbers them.
    """

    reader: ContentReader
    codes: dict[str, NDArray[Any]]
    positions: list[tuple[slice, list[NDArray[Any]]]]
    keys: NDArray[np.uint64] | None
    each: Each
    units: dict[str, Identities]

    @classmethod
    def of(cls, table: pa.Table, mechanism: Mechanism, key: ReleaseKey, record_key: str | None, each: Each) -> _Records:
        """Encode the columns, several at a time."""
        reader = ContentReader.of(mechanism, key)
        read = reader.variables
        found = each(lambda variable: coding.encode(table.column(variable.name), variable), read)
        codes = dict(zip((v.name for v in read), found, strict=True))

        def positions(piece: slice) -> list[NDArray[Any]]:
            part = {name: column[piece] for name, column in codes.items()}
            return [cells.positions(part) for cells in reader.cells]

        pieces = _pieces(table.num_rows, LocalEngine().workers)
        keys = None if record_key is None else record_keys(table.column(record_key))
        units = units_of(drawn_by(mechanism), table.column)
        return cls(reader, codes, list(zip(pieces, each(positions, pieces), strict=True)), keys, each, units)

    def content(self, table: pa.Table) -> Content:
        """Digest the codes, and the table's values that are released by ranks."""

        def digest(task: tuple[slice, list[NDArray[Any]]]) -> Content:
            piece, positions = task
            keys = self._keys_of(piece)
            codes = {name: column[piece] for name, column in self.codes.items()}
            self.reader.split.check(codes)
            found = self.reader.of_positions(positions, keys, self.reader.split.digits(codes), self._units_of(piece))
            return Content(found.records, found.cells, self.reader.of_ranked(table[piece], keys))

        return sum(self.each(digest, self.positions), Content())

    def draw(self, draws: BlockDraws, split: SplitDraws | None) -> None:
        """Put the released codes in place of the true ones."""

        def work(task: tuple[slice, list[NDArray[Any]]]) -> None:
            piece, positions = task
            keys, true = self._keys_of(piece), {name: column[piece] for name, column in self.codes.items()}
            shown = {} if split is None else split.released(draws.draw_key, keys, true)
            # A block of one variable has the codes themselves as its positions.
            drawn = draws.draw(keys, self._units_of(piece), positions)
            for cells, block in zip(self.reader.cells, drawn, strict=True):
                if cells.table is not None:
                    shown |= cells.codes(block)
            for name, codes in shown.items():
                self.codes[name][piece] = codes

        self.each(work, self.positions)

    def _units_of(self, piece: slice) -> dict[str, Identities]:
        return {unit: (names[piece], there[piece]) for unit, (names, there) in self.units.items()}

    def _keys_of(self, piece: slice) -> NDArray[np.uint64]:
        return np.arange(piece.start, piece.stop, dtype=np.uint64) if self.keys is None else self.keys[piece]


def _pieces(records: int, workers: int) -> list[slice]:
    """Return pieces of the same size, as many for each thread.

    >>> _pieces(_PIECE + 2, 2)
    [slice(0, 65537, None), slice(65537, 131074, None)]
    """
    rounds = -(-records // (workers * _PIECE))
    size = max(_FEWEST, -(-records // max(1, rounds * workers)))
    return [slice(start, min(start + size, records)) for start in range(0, records, size)]


def _refuse_repeated(keys: NDArray[np.uint64]) -> None:
    """Raise DataError where two records have the same key."""
    if repeated := shared_keys(keys):
        raise duplicate_keys(repeated)


@contextmanager
def _threads() -> Iterator[Each]:
    """Give what applies a function to each of some tasks, as many at a time as there are processors."""
    with ThreadPoolExecutor(LocalEngine().workers, thread_name_prefix="postrand") as pool:

        def each(work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
            running = [pool.submit(work, task) for task in tasks]
            try:
                return [future.result() for future in running]
            finally:
                for future in running:
                    future.cancel()

        yield each
