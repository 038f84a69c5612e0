"""Tables from a split release: the records that show all variables of the table, combined without bias.

Of a record that shows the subset T, the released cell y contributes ``c_T[y]`` with ``Σ_y M_T[x, y] c_T[y] = e_t(x)``,
the indicator of the true cell of the table t. So ``Σ_r w_r c_r / Σ_r w_r`` over the n_t records with T ⊇ t is unbiased
for any weights that do not look at released values. Here ``w = 1 / trace Cov(c_T)``, inverse variance, from the
published law and a stated prior alone: weights from the released values themselves would bias the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from postrand.codebook import Codebook, coding, not_released
from postrand.data import frames
from postrand.errors import DataError, EstimationError, UsageError, nearest, sentence
from postrand.estimate.axes import Array
from postrand.estimate.intervals import Moments, Slope, matched
from postrand.estimate.result import Estimate, Part
from postrand.estimate.unbiased import MAX_COVARIANCE
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.split_shown import subsets_shown

METHOD = "unbiased, never clipped, of the records that show every variable of the table"
MAX_CONTRIBUTIONS = 1 << 26
"""Cells of a subset times cells of a table; beyond, 512 MB of contributions."""
_LARGEST_SINGULAR = 2048
_SOLVED = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """Hold what each released cell of a subset contributes to a table, ``values`` of shape (K, L).

    ``precision`` is ``1 / trace Cov`` of one record's contribution under the prior; ``place`` that of the subset;
    ``true`` the table's cell of each cell of the subset, shape (K,).
    """

    place: int
    values: Array
    precision: float
    true: NDArray[np.intp]


def split_table(
    frame: Any, variables: Sequence[str], mechanism: Mechanism, prior: Mapping[str, ArrayLike] | None = None
) -> Estimate:
    """Estimate the true joint distribution of variables of a split from the records that show all of them.

    ``value`` has one axis for each variable. ``covariance``, sampling and perturbation together, is exactly unbiased
    given which records show what; its perturbation part, the file held fixed, is so on average over files. A record
    whose value is missing (policy ``keep``) is left out.

    Parameters
    ----------
    frame
        The released records: a pandas, polars or pyarrow table with every variable of the split.
    prior
        The shares of the categories of some variables, taken as independent: they make the weights better, never the
        table biased, if they do not come from this release. Uniform where nothing is given.

    Raises
    ------
    UsageError
        If a variable is not in the split or is named twice, or a prior is no distribution.
    DataError
        If a record shows variables that are no subset of the split, or a value is not in the codebook.
    EstimationError
        If no subset shows all of the variables, its matrix cannot be inverted, or too few records show them.
    """
    split, book = _split_of(mechanism, variables), mechanism.require_codebook()
    known = contributions(split, book, variables, prior)
    names = [*split.variables, *dict.fromkeys(n for c in known for n in split.blocks[c.place].given)]
    table = frames.to_arrow(frame, names)
    codes = {n: _encoded(table.column(n), book, n, split) for n in names}
    shown = subsets_shown(codes, split, {name: book[name].size for name in split.variables})
    counts = [_counts(split.blocks[c.place], codes, shown == c.place, book) for c in known]
    law = _law(split, known, counts, table.num_rows, tuple(book[name].size for name in variables))
    covering = sum(int((shown == c.place).sum()) for c in known)
    return Estimate(
        variables=tuple(variables),
        labels=tuple(book[name].code_labels for name in variables),
        value=law.mean.reshape(law.shape),
        law=law,
        records=law.shown,
        total=float(table.num_rows),
        dropped=covering - law.shown,
        method=METHOD,
        perturbed=tuple(variables),
        span=1.0,
    )


def contributions(
    split: Split, book: Codebook, variables: Sequence[str], prior: Mapping[str, ArrayLike] | None = None
) -> list[Contributions]:
    """Return the contributions of each subset that shows all of the variables, and answers them without bias.

    ``1 / precision = Σ_y q[y] |c[y]|² − Σ_t p_t²`` with ``q = pᵀM``, p the prior on the subset's cells.

    Raises
    ------
    EstimationError
        If there is none, or a table of contributions would be too large.
    """
    margins = {} if prior is None else _margins(prior, split, book)
    covering = [k for k, block in enumerate(split.blocks) if set(variables) <= set(block.variables)]
    shape = tuple(book[name].size for name in variables)
    found = []
    for place in covering:
        block = split.blocks[place]
        cells = block.cell_table(tuple(book[n].size for n in block.variables))
        if len(cells) * math.prod(shape) > MAX_CONTRIBUTIONS:
            got = f"{len(cells):,} cells of {block.name!r}, {math.prod(shape):,} of the table"
            raise EstimationError(sentence("the table is too large", got=got, fix="use fewer variables"))
        true = np.ravel_multi_index([cells[:, block.variables.index(n)] for n in variables], shape)
        values = _solved(block, true, math.prod(shape))
        if values is not None:
            precision = _precision(block, values, true, _prior(block, cells, margins))
            found.append(Contributions(place, values, precision, true))
    if not found:
        raise _not_covered(split, variables, bool(covering))
    return found


def _solved(block: Block, true: NDArray[np.intp], size: int) -> Array | None:
    """Return B (K, L) with ``M B = A``, A[x] the indicator of the table's cell of x; None where there is none."""
    wanted = np.zeros((len(true), size))
    wanted[np.arange(len(true)), true] = 1.0
    try:
        return block.matrix.factor().solve(wanted)
    except EstimationError:
        if len(true) > _LARGEST_SINGULAR:
            return None
    values = np.asarray(np.linalg.lstsq(block.matrix.array, wanted, rcond=None)[0], dtype=np.float64)
    return values if np.abs(block.matrix.array @ values - wanted).max() <= _SOLVED else None


def _precision(block: Block, values: Array, true: NDArray[np.intp], prior: Array) -> float:
    squared = float(prior @ block.matrix.times((values**2).sum(axis=1)))
    mean = np.bincount(true, weights=prior, minlength=values.shape[1])
    return 1.0 / max(squared - float(mean @ mean), 1e-300)


def _prior(block: Block, cells: NDArray[np.int32], margins: Mapping[str, Array]) -> Array:
    """Return the prior on the cells of a block: the product of its margins, on feasible cells alone."""
    shares = np.ones(len(cells))
    for name, column in zip(block.variables, cells.T, strict=True):
        shares *= margins[name][column] if name in margins else 1.0
    total = shares.sum()
    return shares / total if total > 0 else np.full(len(cells), 1 / len(cells))


def _margins(prior: Mapping[str, ArrayLike], split: Split, book: Codebook) -> dict[str, Array]:
    found = {}
    for name, shares in prior.items():
        array, known = np.asarray(shares, dtype=np.float64), (*split.variables, *split.given)
        right = name in known and array.shape == (book[name].size,) and (array >= 0).all()
        if not right or abs(array.sum() - 1) > _SOLVED:
            what = f"the prior of {name!r} is not one share for each category of a variable of the split"
            raise UsageError(sentence(what, wanted="numbers of 0 or more that sum to 1"))
        found[name] = array
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SplitLaw:
    """The law of ``p̂ = Σ_T a_T N_T c_T``: ``N_T`` (K,) counts of released cells, ``a_T`` the weight of each record.

    Given which records show what, terms are independent with mean p, and with ``D_T = Σ_r (c_r − p̂)(c_r − p̂)ᵀ`` over
    the n_T records of T the covariance is estimated, exactly without bias, by::

        V = Σ_T a_T² D_T / (1 − 2 a_T)  /  (1 + Σ_T n_T a_T² / (1 − 2 a_T))

    which is ``D / (n (n − 1))`` where one subset shows the table. All ``a_T < 1/2``.
    """

    shape: tuple[int, ...]
    matrices: tuple[TransitionMatrix, ...]
    values: tuple[Array, ...]
    true: tuple[NDArray[np.intp], ...]
    counts: tuple[Array, ...]
    shares: tuple[float, ...]
    records: float

    @property
    def shown(self) -> int:
        """The number of records that are used."""
        return int(sum(counts.sum() for counts in self.counts))

    @property
    def mean(self) -> Array:
        """The estimate, shape (L,)."""
        terms = zip(self.shares, self.counts, self.values, strict=True)
        return np.asarray(sum(share * (counts @ values) for share, counts, values in terms))

    def covariance(self, part: Part) -> Array:
        """Return one part of the covariance, shape (L, L); raises EstimationError beyond 4096 cells."""
        if math.prod(self.shape) > MAX_COVARIANCE:
            what, fix = "the table is too large for a full covariance matrix", "use .standard_error, or a margin"
            raise EstimationError(sentence(what, got=math.prod(self.shape), wanted=f"<= {MAX_COVARIANCE}", fix=fix))
        mean = self.mean
        total = self._total([(c[:, None] * v).T @ v for c, v in self._centred(mean)])
        return self._part(part, total, np.diag(mean) - np.outer(mean, mean))

    def variance(self, part: Part) -> Array:
        """Return its diagonal, shape (L,)."""
        mean = self.mean
        total = self._total([c @ v**2 for c, v in self._centred(mean)])
        return self._part(part, total, mean - mean**2)

    def margin(self, keep: Sequence[int]) -> SplitLaw:
        """Return the law of the table summed over all axes but ``keep``, of the same records."""
        rest = tuple(i + 1 for i in range(len(self.shape)) if i not in keep)
        order = (0, *(1 + int(i) for i in np.argsort(np.argsort(keep))))
        shape = tuple(self.shape[i] for i in keep)

        def summed(values: Array) -> Array:
            kept = values.reshape(-1, *self.shape).sum(axis=rest).transpose(order)
            return np.asarray(kept.reshape(len(values), -1))

        codes = (np.unravel_index(true, self.shape) for true in self.true)
        true = tuple(np.ravel_multi_index([each[i] for i in keep], shape) for each in codes)
        return replace(self, shape=shape, values=tuple(map(summed, self.values)), true=true)

    def bounds(self, value: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of the score interval of each cell (exact where few records are expected).

        The subsets are the strata of :func:`postrand.estimate.intervals.matched`.
        """
        mean, n = self.mean, float(self.shown)
        slopes = []
        for share, counts, values in zip(self.shares, self.counts, self.values, strict=True):
            number = float(counts.sum())
            raw = Moments(*(counts @ values**power / number for power in (1, 2, 3)))
            slopes.append(Slope.of(raw, mean, number, share))
        variance = np.maximum(self.variance("total"), 0.0) * (n - 1) / n
        unit = sum(share**2 * float(counts.sum()) for share, counts in zip(self.shares, self.counts, strict=True))
        low, high = matched(mean, variance, slopes, self._two_more(), unit).bounds(level)
        return low.reshape(value.shape), high.reshape(value.shape)

    def _two_more(self) -> Moments:
        """Return the moments of what a record contributes that is truly of the cell, or of any, each half the time."""
        moments = []
        for power in (1, 2, 3):
            found = np.zeros(math.prod(self.shape))
            for matrix, values, true, counts in zip(self.matrices, self.values, self.true, self.counts, strict=True):
                expected, size = matrix.times(values**power), len(found)
                own = np.bincount(true, weights=expected[np.arange(len(true)), true], minlength=size)
                own = np.divide(own, np.maximum(np.bincount(true, minlength=size), 1))
                found += counts.sum() / self.shown * (own + expected.mean(axis=0)) / 2
            moments.append(found)
        return Moments(*moments)

    def _centred(self, mean: Array) -> list[tuple[Array, Array]]:
        """Return the counts of the cells that occur, and their contributions less the mean, for each subset."""
        used = [counts > 0 for counts in self.counts]
        pairs = zip(self.counts, self.values, used, strict=True)
        return [(counts[at], values[at] - mean) for counts, values, at in pairs]

    def _total(self, spreads: Sequence[Array]) -> Array:
        factors = [share**2 / (1 - 2 * share) for share in self.shares]
        whole = sum(f * float(c.sum()) for f, c in zip(factors, self.counts, strict=True))
        return np.asarray(sum(f * d for f, d in zip(factors, spreads, strict=True)) / (1 + whole))

    def _part(self, part: Part, total: Array, within: Array) -> Array:
        """``(diag p − p pᵀ)/n`` is what drawing the file's n records causes; ``p̂ p̂ᵀ`` exceeds it by V on average."""
        if part == "total":
            return total
        sampling = (within + total) / self.records
        return sampling if part == "sampling" else total - sampling


def _law(
    split: Split, known: Sequence[Contributions], counts: Sequence[Array], records: int, shape: tuple[int, ...]
) -> SplitLaw:
    numbers = [float(c.sum()) for c in counts]
    whole = sum(n * one.precision for n, one in zip(numbers, known, strict=True))
    shares = [one.precision / whole if whole > 0 else 1.0 for one in known]
    used = [k for k, n in enumerate(numbers) if n > 0]
    if not used or max(shares[k] for k in used) >= 0.5:
        what = "too few records show every variable of the table"
        raise EstimationError(sentence(what, fix="use fewer variables, or more records"))
    return SplitLaw(
        shape,
        tuple(split.blocks[known[k].place].matrix for k in used),
        tuple(known[k].values for k in used),
        tuple(known[k].true for k in used),
        tuple(counts[k] for k in used),
        tuple(shares[k] for k in used),
        float(records),
    )


def _counts(block: Block, codes: Mapping[str, NDArray[Any]], shown: NDArray[np.bool_], book: Codebook) -> Array:
    """Return how many of the records that show a subset are released in each of its cells, shape (K,)."""
    columns = [codes[name][shown] for name in block.variables]
    present = np.all([column >= 0 for column in columns], axis=0)
    shape = tuple(book[name].size for name in block.variables)
    index = np.ravel_multi_index([column[present].astype(np.int64) for column in columns], shape)
    if block.cells is None:
        return np.bincount(index, minlength=block.matrix.size).astype(np.float64)
    cells = np.ravel_multi_index(list(block.cell_table(shape).T), shape)
    order = np.argsort(cells)
    at = np.searchsorted(cells[order], index).clip(max=len(cells) - 1)
    if (cells[order][at] != index).any():
        what = "the records contain a combination that the block does not list as feasible"
        raise DataError(sentence(what, where=f"block {block.name!r}"))
    return np.bincount(order[at], minlength=len(cells)).astype(np.float64)


def _encoded(column: pa.ChunkedArray, book: Codebook, name: str, split: Split) -> NDArray[Any]:
    return (not_released.encode if name in split.variables else coding.encode)(column, book[name])


def _split_of(mechanism: Mechanism, variables: Sequence[str]) -> Split:
    """Return the split, where the variables are distinct ones of it."""
    split = mechanism.split
    if split is None:
        raise UsageError(sentence("the mechanism has no split", fix="use postrand.estimate.table"))
    if isinstance(variables, str) or not variables or len(set(variables)) != len(variables):
        raise UsageError(sentence("name each variable of the table only once", got=variables, wanted="a list of names"))
    for name in variables:
        if name not in split.variables:
            what = f"{name!r} is not a variable of the split{nearest(name, split.variables)}"
            fix = "a table of the split's variables and others is not estimated here; leave it out"
            raise UsageError(sentence(what, wanted=", ".join(split.variables), fix=fix))
    return split


def _not_covered(split: Split, variables: Sequence[str], shown: bool) -> EstimationError:
    named = ", ".join(variables)
    if shown:
        fix = "use fewer variables, or ask for a release with invertible matrices"
        return EstimationError(sentence("the matrices cannot answer the table without bias", where=named, fix=fix))
    most = max((set(block.variables) & set(variables) for block in split.blocks), key=len)
    part = ", ".join(name for name in variables if name in most)
    fix = f"tabulate {part} together, fewer variables, or ask for a release whose workload has this table"
    return EstimationError(sentence("no record shows all variables of the table", where=named, fix=fix))
