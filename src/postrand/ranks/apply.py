"""Release a numerical column by a rank law: permuted (values and margin kept), or averaged (mean kept)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import DataError, UsageError, sentence
from postrand.ranks.laws import RankLaw
from postrand.support import loops
from postrand.support.randomness import SMALLEST_SHOWN_COUNT, ReleaseKey, as_release_key, content_keys, derive, words

_CUT_SLOT = 1  # slot 0 gives one word to each rank
_CONTENT_SLOT = 2
_EXACT = 1 << 53


def permute(
    values: ArrayLike,
    law: RankLaw,
    release_key: ReleaseKey | bytes | str | None = None,
    *,
    name: str = "",
    ties: NDArray[np.uint64] | None = None,
    content: bytes = b"",
) -> NDArray[Any]:
    """Return the values (n,) permuted at random among neighbours in rank; the margin is kept exactly.

    The record of rank i receives the value of rank j with probability ``P[i,j]`` (within n 2^-64), where P is the
    matrix of the rank law. Ranks are ascending. Equal values are ranked by ``ties`` (n,), or by the order of the
    records; this only decides which of them belong to a run. The draw depends on the key, the rank law, ``name`` (a
    different one for each column), the values in any order, and ``content``: other values are permuted by a new draw.

    Raises
    ------
    DataError
        If a value is not a finite number.
    UsageError
        If there are fewer records than the rank law's smallest run.

    Examples
    --------
    >>> from postrand.ranks import RankBlocks
    >>> permute([30, 10, 20, 40], RankBlocks(2), ReleaseKey.from_seed(3)).tolist()
    [40, 20, 10, 30]
    """
    column = finite_column(values)
    return np.asarray(column[permutation(column, law, release_key, name=name, ties=ties, content=content)])


def permutation(
    values: ArrayLike,
    law: RankLaw,
    release_key: ReleaseKey | bytes | str | None = None,
    *,
    name: str = "",
    ties: NDArray[np.uint64] | None = None,
    content: bytes = b"",
) -> NDArray[np.int64]:
    """Return the position (n,) of the value that each record receives from :func:`permute`; raises as it does.

    >>> from postrand.ranks import RankBlocks
    >>> permutation([30, 10, 20, 40], RankBlocks(2), ReleaseKey.from_seed(3)).tolist()
    [3, 2, 1, 0]
    """
    column = finite_column(values)
    n = column.size
    secret = as_release_key(release_key)
    key = derive(secret, f"numerical {law!r} {name}", _content(column, secret) + content).draw
    starts = law.starts(n, _drawn_cut(law, key))
    pairs = np.arange((n + 1) // 2, dtype=np.uint64)
    order = rank_order(column, ties)
    places = order.copy()
    loops.shuffle_runs(places, starts, words(key, pairs, 0).reshape(-1)[:n])
    positions = np.empty_like(order)
    positions[order] = places
    return positions


def average(values: ArrayLike, law: RankLaw, *, ties: NDArray[np.uint64] | None = None) -> NDArray[np.float64]:
    """Return ``Pᵀ x`` (n,): the mean of each block in place of its values (microaggregation); the mean is kept.

    Nothing is drawn, so this is deterministic coarsening; the mean of the column is kept up to float rounding.
    A rank law of several cuts is refused: n averages by a known matrix of nearly full rank are n equations for
    ascending values, and a linear programme solves them.

    Raises
    ------
    DataError
        If a value is not a finite number.
    UsageError
        If the rank law has several cuts, or there are fewer records than its smallest run.

    Examples
    --------
    >>> from postrand.ranks import RankBlocks
    >>> average([30, 10, 20, 41], RankBlocks(2)).tolist()
    [35.5, 15.0, 15.0, 35.5]
    """
    if law.cuts > 1:
        raise UsageError(not_averaged())
    column = finite_column(values)
    order = rank_order(column, ties)
    starts = law.starts(column.size, 0)
    sizes = np.diff(starts, append=column.size)
    released = np.empty(column.size, dtype=np.float64)
    released[order] = np.repeat(np.add.reduceat(column[order].astype(np.float64), starts) / sizes, sizes)
    return released


def not_averaged(where: str = "") -> str:
    """Return the sentence that refuses averages over a rank law of several cuts."""
    what = "the true values can be computed from averages over a band"
    return sentence(what, where=where, fix="average over rank-blocks (--blocks), or permute within the band")


def _drawn_cut(law: RankLaw, key: bytes) -> int:
    """Draw one of the cuts: the high half of a 64-bit word times their number."""
    word = int(words(key, np.zeros(1, dtype=np.uint64), _CUT_SLOT)[0, 0])
    return word * law.cuts >> 64


def rank_order(column: NDArray[Any], ties: NDArray[np.uint64] | None = None) -> NDArray[np.int64]:
    """Return the positions of the values in ascending order, equal ones by ``ties``, then by the records' order."""
    order = np.argsort(column)  # several times as fast as the stable sort, with the same result if no values are equal
    ordered = column[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    return np.argsort(column, kind="stable") if ties is None else np.lexsort((ties, column))


def finite_column(values: ArrayLike) -> NDArray[Any]:
    """Return the values as an array (n,) of finite integers or floats; raises DataError, never showing a value."""
    column = np.asarray(values)
    if column.ndim != 1 or not (np.issubdtype(column.dtype, np.integer) or np.issubdtype(column.dtype, np.floating)):
        raise DataError(sentence("the column does not contain numbers", got=f"{column.dtype}, shape {column.shape}"))
    bad = 0 if np.issubdtype(column.dtype, np.integer) else int((~np.isfinite(column)).sum())
    if bad:
        many = f" ({bad} of them)" if bad >= SMALLEST_SHOWN_COUNT else ""
        raise DataError(
            sentence(
                f"values are missing or not finite{many}", fix="release these values as missing, in a separate step"
            )
        )
    return column


def number_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 bits of each number, the same for equal integers and floats up to 2^53 in size.

    >>> number_bits(np.array([1, -1])).tolist() == number_bits(np.array([1.0, -1.0])).tolist()
    True
    """
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # the sum turns -0.0 into 0.0
    if values.dtype.kind in "iu":
        large = (values >= _EXACT) | (values <= -_EXACT) if values.dtype.kind == "i" else values >= _EXACT
        bits = np.where(large, values.astype(np.uint64), bits)
    return np.ascontiguousarray(bits)


def _content(column: NDArray[Any], key: ReleaseKey) -> bytes:
    """Return 24 bytes for the values in any order: their number, and the sum of their keyed words."""
    total = words(content_keys(key).record, number_bits(column), _CONTENT_SLOT).sum(axis=0, dtype=np.uint64)
    return np.append(total, np.uint64(column.size)).astype("<u8").tobytes()
