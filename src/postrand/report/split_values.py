"""What the page says of a split: subsets, which variables appear together, and what their tables are worth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook
from postrand.engines.summary import Summary
from postrand.errors import EstimationError
from postrand.estimate import Estimate, from_tally
from postrand.estimate.split_counts import from_split_counts
from postrand.mechanism import Block, Mechanism, Split
from postrand.mechanism.split_data import pair_of
from postrand.mechanism.units import words_of
from postrand.report.table_worth import EQUAL, table_worth
from postrand.support.worth_basis import BASES

MAX_SUBSETS = 40
"""The most frequent subsets are in the table of the page."""
MAX_TABLES = 3
MAX_TABLE_CELLS = 60
MAX_PAIRS, WORK = 120, 20_000_000
"""Tables of two variables whose worth is shown, and cells of subsets and of squared tables that this may take."""


@dataclass(frozen=True, slots=True)
class ShownVariable:
    """Say how often a variable is shown: ``share`` by the law, ``records`` in the release; ``effective``: its worth.

    ``lowest`` and ``highest`` are the probabilities that its value is unchanged in a record that shows it.
    """

    name: str
    label: str
    size: int
    share: float
    records: int
    lowest: float
    highest: float
    effective: float | None


@dataclass(frozen=True, slots=True)
class ShownSubset:
    """Say what one subset is: its variables, probability, records and cells; ``lowest`` and ``highest`` as above."""

    variables: tuple[str, ...]
    given: tuple[str, ...]
    share: float
    records: int
    cells: int
    lowest: float
    highest: float
    response: bool
    epsilon: float


@dataclass(frozen=True, slots=True)
class PairWorth:
    """The worth of a table of two variables in unperturbed records: as released, and with each variable by itself.

    What one random member of each household shows has no such alternative: all members would show something, and the
    ε of the household would be many times as large.
    """

    names: tuple[str, str]
    share: float
    effective: float | None
    separate: float | None


@dataclass(frozen=True, slots=True, eq=False)
class SplitView:
    """Everything that the page shows of a split; ``together[i, j]`` is the probability that i and j are shown both.

    ``pairs`` are tables of two variables that some subset shows, best first: all, or those that most records show.
    ``mean`` are the harmonic means of what all are worth, released and separate; None where some are left out, or have
    no such worth.
    """

    names: tuple[str, ...]
    variables: tuple[ShownVariable, ...]
    subsets: tuple[ShownSubset, ...]
    count: int
    given: tuple[str, ...]
    epsilon: float
    prior_epsilon: float
    prior: str
    records: int
    together: NDArray[np.float64]
    pairs: tuple[PairWorth, ...]
    covered: int
    mean: tuple[float, float | None] | None
    tables: tuple[Estimate, ...]
    of_members: bool = False
    words: Callable[[str], str] = str

    @property
    def basis(self) -> str:
        """The frequencies under which worth is computed, in words: where members show a split, it is estimated."""
        return BASES["released" if self.of_members else EQUAL.basis]

    @property
    def never(self) -> list[tuple[str, str]]:
        """The pairs of variables that no record shows together."""
        missing = np.argwhere(np.triu(self.together == 0, 1))
        return [(self.names[i], self.names[j]) for i, j in missing.tolist()]

    @property
    def response(self) -> bool:
        """Whether every subset is released by randomised response on its cells."""
        return all(subset.response for subset in self.subsets)


def split_view(mechanism: Mechanism, summary: Summary) -> SplitView | None:
    """Return what the page shows of the split, a function of the release alone; None where there is no split."""
    split, book = mechanism.split, mechanism.require_codebook()
    if split is None:
        return None
    names = tuple(name for name in book.names if name in split.variables)
    subsets = [_subset(split, k, int(records)) for k, records in enumerate(summary.subsets.tolist())]
    order = sorted(range(len(subsets)), key=lambda k: -split.subsets[k].weight)
    together = co_appearance(split, names)
    estimates = {pair: _estimate(pair, mechanism, summary) for pair in _affordable(split, book, names, together)}
    covered = int(np.count_nonzero(np.triu(together, 1)))
    pairs = _pairs(estimates, mechanism, names, together, summary)
    tables = sorted(_small(estimates), key=lambda e: -(e.effective_sample_size or 0.0))[:MAX_TABLES]
    return SplitView(
        names,
        tuple(_variable(name, mechanism, summary, together[k, k]) for k, name in enumerate(names)),
        tuple(subsets[k] for k in order[:MAX_SUBSETS]),
        len(subsets),
        split.given,
        split.epsilon,
        split.blocks[0].prior_epsilon,
        split.blocks[0].provenance,
        summary.records,
        together,
        pairs,
        covered,
        _means(pairs) if len(pairs) == covered else None,
        tuple(tables),
        split.of_members,
        words_of(mechanism.units),
    )


def co_appearance(split: Split, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the probability that a record shows both of two variables, shape (J, J); of one on the diagonal.

    >>> from postrand.mechanism.matrix import randomised_response
    >>> blocks = [Block(("a", "b"), randomised_response(4, 1.0)), Block(("b",), randomised_response(2, 1.0))]
    >>> co_appearance(Split.of([0.75, 0.25], blocks), ("a", "b")).tolist()
    [[0.75, 0.75], [0.75, 1.0]]
    """
    found = np.zeros((len(names), len(names)))
    for subset in split.subsets:
        at = [k for k, name in enumerate(names) if name in subset.variables]
        found[np.ix_(at, at)] += subset.probability
    return found


def _subset(split: Split, k: int, records: int) -> ShownSubset:
    subset = split.subsets[k]
    kept = subset.matrix.diagonal
    response = pair_of(subset.matrix) is not None and not subset.block.given
    return ShownSubset(
        subset.variables,
        subset.block.given,
        subset.probability,
        records,
        subset.matrix.size,
        float(kept.min()),
        float(kept.max()),
        response,
        subset.block.epsilon,
    )


def _variable(name: str, mechanism: Mechanism, summary: Summary, share: float) -> ShownVariable:
    split, book = mechanism.split, mechanism.require_codebook()
    assert split is not None
    blocks = [(k, block) for k, block in enumerate(split.blocks) if name in block.perturbed]
    ends = [_unchanged(block, name, book) for _, block in blocks]
    found = _estimate((name,), mechanism, summary)
    return ShownVariable(
        name,
        book[name].label,
        book[name].size,
        float(share),
        int(sum(summary.subsets[k] for k, _ in blocks)),
        min(low for low, _ in ends),
        max(high for _, high in ends),
        _effective((name,), found, mechanism, summary),
    )


def _unchanged(block: Block, name: str, book: Codebook) -> tuple[float, float]:
    """Return the least and the largest probability that the value of one variable is released as it was."""
    codes = block.cell_table(tuple(book[n].size for n in block.variables))[:, block.variables.index(name)]
    pair = pair_of(block.matrix)
    if pair is not None:  # stays, or another cell with the same value is drawn
        alike = np.bincount(codes)[codes] - 1
        kept = block.matrix.diagonal + alike * (pair["off"] / 2**53)
    else:
        same = (codes[:, None] == np.arange(book[name].size)).astype(np.float64)
        kept = block.matrix.times(same)[np.arange(len(codes)), codes]
    return float(kept.min()), float(kept.max())


def _estimate(names: tuple[str, ...], mechanism: Mechanism, summary: Summary) -> Estimate | None:
    try:
        found = from_tally(
            from_split_counts(names, mechanism, summary.subsets, summary.subset_cells, summary.members.cells)
        )
    except EstimationError:
        return None
    return found if np.isclose(found.value.sum(), 1.0) else None  # a matrix that says next to nothing: only noise


def _effective(
    names: tuple[str, ...], estimate: Estimate | None, mechanism: Mechanism, summary: Summary
) -> float | None:
    """Return the worth of a table as every page has it; of a split that members show, as the release estimates it."""
    if mechanism.split is None or mechanism.split.of_members:
        return None if estimate is None else estimate.effective_sample_size
    return table_worth(mechanism, [names], summary.records, EQUAL)[0].effective_records


def _affordable(
    split: Split, book: Codebook, names: Sequence[str], together: NDArray[np.float64]
) -> list[tuple[str, str]]:
    """Return the pairs that most records show together, as many as can be estimated in about a second."""
    pairs = [(i, j) for i, j in itertools.combinations(range(len(names)), 2) if together[i, j] > 0]
    pairs.sort(key=lambda pair: -together[pair])
    sizes = [(frozenset(block.perturbed), block.matrix.size) for block in split.blocks]
    found, work = [], 0
    for i, j in pairs[:MAX_PAIRS]:
        asked = {names[i], names[j]}
        cells = sum(size for shown, size in sizes if asked <= shown)
        work += cells + (book[names[i]].size * book[names[j]].size) ** 2
        if work > WORK:
            break
        found.append((names[i], names[j]))
    return found


def _pairs(
    estimates: dict[tuple[str, str], Estimate | None],
    mechanism: Mechanism,
    names: Sequence[str],
    together: NDArray[np.float64],
    summary: Summary,
) -> tuple[PairWorth, ...]:
    split, book = mechanism.split, mechanism.require_codebook()
    assert split is not None
    epsilon, place = split.epsilon, {name: k for k, name in enumerate(names)}
    found = []
    for pair, estimate in estimates.items():
        worth, alone = _effective(pair, estimate, mechanism, summary), None
        if estimate is not None and math.isfinite(epsilon) and not split.of_members:
            sizes = [book[name].size for name in pair]
            alone = separate_worth(np.ones_like(estimate.value), sizes, epsilon / len(names), summary.records)
        found.append(PairWorth(pair, float(together[place[pair[0]], place[pair[1]]]), worth, alone))
    return tuple(sorted(found, key=lambda one: -(one.effective or 0.0)))


def separate_worth(shares: NDArray[np.float64], sizes: Sequence[int], epsilon: float, records: int) -> float:
    """Return the worth of a table if each variable were released by itself, by randomised response with this ε.

    With ``λ_j = (e^ε − 1)/(e^ε + S_j − 1)`` and ``c_j = (1 − λ_j)/S_j``, the squared length of one record's unbiased
    contribution is ``L = Π_j (1 − 2 c_j + S_j c_j²)/λ_j²``, whatever is released. So n records are worth
    ``n (1 − Σ p²)/(L − Σ p²)``, with the table's ``shares`` p, cut at 0.
    """
    squared = 1.0
    for size in sizes:
        keep = math.expm1(epsilon) / (math.expm1(epsilon) + size)
        away = (1 - keep) / size
        squared *= (1 - 2 * away + size * away**2) / keep**2
    p = np.maximum(shares, 0.0)
    p = p / p.sum()
    same = float((p**2).sum())
    return records * (1 - same) / (squared - same)


def _means(pairs: Sequence[PairWorth]) -> tuple[float, float | None] | None:
    """Return the harmonic means: as many unperturbed records would have the same mean of relative variances."""
    released, separate = _mean([one.effective for one in pairs]), _mean([one.separate for one in pairs])
    return None if released is None else (released, separate)


def _mean(worth: Sequence[float | None]) -> float | None:
    known = [one for one in worth if one]
    return len(known) / sum(1 / one for one in known) if known and len(known) == len(worth) else None


def _small(estimates: dict[tuple[str, str], Estimate | None]) -> Iterable[Estimate]:
    return [e for e in estimates.values() if e is not None and e.value.size <= MAX_TABLE_CELLS]
