"""Perturb a dataframe in memory: the local engine between two tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from postrand import frames
from postrand.engines.local import LocalEngine
from postrand.mechanism import Mechanism
from postrand.randomness import ReleaseKey, as_release_key


def perturb(
    frame: Any,
    mechanism: Mechanism,
    release_key: ReleaseKey | bytes | str | None = None,
    record_key: str | None = None,
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

    Raises
    ------
    UsageError
        If ``frame`` is no dataframe in memory, or the release key has the wrong length.
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
    key = as_release_key(release_key)
    needed = dict.fromkeys([*mechanism.variables, *mechanism.given, *([] if record_key is None else [record_key])])
    table = frames.to_arrow(frame, list(needed))
    bound = frames.bind(table, mechanism)
    collected = _Collector()
    LocalEngine().perturb(
        frames.TableSource(table),
        bound,
        key,
        collected.opened,
        columns=bound.variables,
        record_key=record_key,
        shuffle=False,
    )
    return frames.like(frame, pa.Table.from_batches(collected.batches)) if collected.batches else frame


@dataclass(slots=True)
class _Collector:
    """A sink that keeps what it is given."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    @contextmanager
    def opened(self, schema: pa.Schema) -> Iterator[_Collector]:
        yield self

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
