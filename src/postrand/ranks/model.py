"""The permutation model of disclosure control: the output of any method as permutation plus noise (RDF A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import DataError, UsageError, sentence, shown
from postrand.ranks.apply import finite_column, rank_order
from postrand.support.inputs import real_array


@dataclass(frozen=True, slots=True, eq=False)
class PermutationModel:
    """Hold how far a method moved each record's value in rank, for any method.

    ``reverse_mapped`` Z (n,) are original values in the rank order of the release; ``distances`` (n,) count the ranks
    between a record's original value and its reverse-mapped one; ``noise = Y - Z`` keeps every rank.
    """

    reverse_mapped: NDArray[Any]
    distances: NDArray[np.int64]
    noise: NDArray[np.float64]

    def share_within(self, ranks: int) -> float:
        """Return the share of records moved by at most this number of ranks: the least protected ones."""
        return float((self.distances <= ranks).mean())

    def quantiles(self, shares: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> NDArray[np.float64]:
        """Return quantiles of the distances as shares of n - 1, the largest possible; raises UsageError."""
        wanted = real_array(shares, "shares", UsageError)
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise UsageError(sentence("a share is not a number from 0 to 1", got=shown(shares)))
        found = np.quantile(self.distances, wanted, method="lower")
        return np.asarray(found / max(self.distances.size - 1, 1), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: distances in ranks and as shares of n - 1, noise as its root mean square."""
        shares = (0.05, 0.25, 0.5, 0.75, 0.95)
        return {
            "records": int(self.distances.size),
            "unmoved": self.share_within(0),
            "mean_distance": float(self.distances.mean()),
            "quantiles": dict(zip(map(str, shares), self.quantiles(shares).tolist(), strict=True)),
            "noise": float(np.sqrt(np.mean(self.noise**2))),
        }

    def __str__(self) -> str:
        found = self.to_dict()
        moved = ", ".join(f"{100 * q:.3g}%" for q in found["quantiles"].values())
        return (
            f"{found['records']:,} records; {100 * found['unmoved']:.3g}% not moved; "
            f"moved by {found['mean_distance']:.4g} ranks on average; 5, 25, 50, 75 and 95% of the records "
            f"by at most {moved} of all ranks; root mean square of the remaining noise {found['noise']:.4g}"
        )


def reverse_map(original: ArrayLike, released: ArrayLike) -> NDArray[Any]:
    """Return Z: the original value whose rank is the rank of the record's released value (RDF A.2).

    Equal released values are ranked by the original ones, so that the permutation is as small as possible.

    Examples
    --------
    >>> reverse_map([10, 20, 30], [7.5, 0.5, 9.0]).tolist()
    [20, 10, 30]
    """
    x, y = _pair(original, released)
    reverse_mapped = np.empty_like(x)
    reverse_mapped[_release_order(x, y)] = np.sort(x)
    return reverse_mapped


def permutation_model(original: ArrayLike, released: ArrayLike) -> PermutationModel:
    """Split any method's release of a column into a permutation and noise that keeps ranks (RDF A.2).

    The distance of a record is the number of ranks from its original value to its reverse-mapped one. Equal values
    share all their ranks, and the nearest ranks count: the distance is 0 if the value is the same. So equal values
    never make a record look better protected than it is.

    Raises
    ------
    DataError
        If the columns differ in length, or a value is not a finite number.

    Examples
    --------
    >>> permutation_model([10, 20, 30, 40], [41, 19, 30, 11]).distances.tolist()
    [3, 0, 0, 3]
    """
    x, y = _pair(original, released)
    ordered, own = _ranks(x, rank_order(x))
    _, new = _ranks(y, _release_order(x, y))
    tied = bool((ordered[1:] == ordered[:-1]).any())
    distances = _between_ties(ordered, own, new) if tied else np.abs(new - own)
    reverse_mapped = ordered[new]
    noise = np.subtract(y, reverse_mapped, dtype=np.float64)
    return PermutationModel(reverse_mapped, distances.astype(np.int64), noise)


def _ranks(values: NDArray[Any], order: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values in order, and the rank of each record in the smallest integer type, to save memory."""
    ranks = np.empty(values.size, dtype=np.min_scalar_type(-values.size))
    ranks[order] = np.arange(values.size, dtype=ranks.dtype)
    return values[order], ranks


def _between_ties(ordered: NDArray[Any], own: NDArray[Any], new: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of ranks between the values equal to a record's own and those equal to its new one."""
    first, last = _tied_ranks(ordered)
    distances: NDArray[np.int64] = np.maximum(np.maximum(first[new] - last[own], first[own] - last[new]), 0)
    return distances


def _tied_ranks(ordered: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each rank the first and last rank with the same value."""
    edges = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(edges, append=ordered.size)
    return np.repeat(edges, sizes), np.repeat(edges + sizes - 1, sizes)


def _release_order(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions of the released values in ascending order, ties by original value."""
    order = np.argsort(y)
    ordered = y[order]
    return np.lexsort((x, y)) if (ordered[1:] == ordered[:-1]).any() else order


def _pair(original: ArrayLike, released: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    x, y = finite_column(original), finite_column(released)
    if x.size != y.size or not x.size:
        raise DataError(sentence("the columns differ in length, or are empty", got=f"{x.size} and {y.size} records"))
    return x, y
