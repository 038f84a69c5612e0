"""Perturb a dataframe in memory: the local engine between two tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.columns.source import released
from postrand.data import frames
from postrand.engines.content import Content
from postrand.engines.local import LocalEngine
from postrand.errors import UsageError, sentence
from postrand.mechanism import Mechanism
from postrand.support.randomness import ReleaseKey, as_release_key, duplicate_keys, record_keys


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
        back as they are: drop what may not be released.
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
        what = "a frame that is a part of several has no record key or release key of its own"
        raise UsageError(sentence(what, fix="give the record_key and the release_key that content_of was given"))
    if content is not None and mechanism.numerical:
        what = "ranks are those of all records, and a part of them has none"
        raise UsageError(sentence(what, fix="perturb all records as one frame"))
    key = as_release_key(release_key)
    source, bound = _bound(frame, mechanism, record_key)
    ranked = [column.variable for column in bound.numerical]
    whole = content is None
    if content is None:
        content = LocalEngine().content(source, bound, key, record_key=record_key)
    collected = _Collector()
    LocalEngine().perturb(
        released(source, bound, key, record_key, content=content.tag()),
        bound,
        key,
        collected.opened,
        columns=(*bound.variables, *ranked),
        record_key=record_key,
        shuffle=False,
        content=content,
        whole=whole,
    )
    return frames.like(frame, pa.Table.from_batches(collected.batches)) if collected.batches else frame


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
        raise UsageError(
            sentence("one frame is not a list of parts", fix="give a list of frames, or just call perturb")
        )
    key, total, seen = as_release_key(release_key), Content(), [np.zeros(0, dtype=np.uint64)]
    for part in parts:
        source, bound = _bound(part, mechanism, record_key)
        total += LocalEngine().content(source, bound, key, record_key=record_key)
        seen.append(record_keys(frames.to_arrow(part, [record_key]).column(0)))
    keys = np.sort(np.concatenate(seen))
    if repeated := int((keys[1:] == keys[:-1]).sum()):
        raise duplicate_keys(2 * repeated)
    return total


def _bound(frame: Any, mechanism: Mechanism, record_key: str | None) -> tuple[frames.TableSource, Mechanism]:
    """Return what a frame's draws read, and the mechanism bound to its categories."""
    ranked = [column.variable for column in mechanism.numerical]
    keys = [] if record_key is None else [record_key]
    needed = dict.fromkeys([*mechanism.variables, *mechanism.given, *ranked, *keys])
    table = frames.to_arrow(frame, list(needed))
    return frames.TableSource(table), frames.bind(table, mechanism)


@dataclass(slots=True)
class _Collector:
    """A sink that keeps what it is given."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    @contextmanager
    def opened(self, schema: pa.Schema) -> Iterator[_Collector]:
        yield self

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
