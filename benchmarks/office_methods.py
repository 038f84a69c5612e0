"""The published algorithms of two programs that offices use, written from their descriptions; the programs did not run.

sdcMicro (Templ, Kowarik and Meindl 2015): local suppression for k-anonymity, where a suppressed value matches every
value, and invariant PRAM by its default matrix (``pd = 0.8``, ``alpha = 0.5``). ARX (Prasser and others 2014): the
optimal full-domain generalisation over the lattice of all hierarchies, with a limit of suppressed records.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.risk.cells import KeyCodes, table
from postrand.risk.counts import wildcard_frequencies
from postrand.risk.weights import expected_inverse

Codes = Any


def importance(shape: tuple[int, ...]) -> list[int]:
    """The order in which keys are suppressed: those with the most categories first."""
    return sorted(range(len(shape)), key=lambda j: (-shape[j], j))


def matches(codes: Codes) -> Codes:
    """How many records each record agrees with, a suppressed value (-1) agreeing with all."""
    shape = tuple(int(c.max()) + 1 for c in codes.T)
    cells = table(KeyCodes(tuple(map(str, range(len(shape)))), shape, tuple(codes.T)))
    return wildcard_frequencies(cells)[cells.record_cell]


def suppressed(codes: Codes, k: int, order: list[int]) -> Codes:
    """Suppress, in records that fewer than k agree with, one key after the other until k do."""
    out = codes.copy()
    for j in order:
        rare = np.flatnonzero(matches(out) < k)
        for record in rare:  # one by one: each suppressed value helps others
            if out[record, j] >= 0 and _agreeing(out, record) < k:
                out[record, j] = -1
    return out


def _agreeing(codes: Codes, record: int) -> int:
    own = codes[record]
    return int(((codes == own) | (codes < 0) | (own < 0)).all(axis=1).sum())


def default_pram(column: Codes, size: int, rng: Any, draws: bool) -> tuple[Codes, Codes]:
    """The column after invariant PRAM and its matrix; the identity where nothing is drawn.

    The first stage stays with a probability from 0.8 to 1, drawn for each category; the second leads back by Bayes'
    rule, so that shares are kept on average. Half of both together is the matrix.
    """
    if not draws:
        return column, np.eye(size)
    stay = rng.uniform(0.8, 1.0, size)
    first = np.repeat(((1 - stay) / (size - 1))[:, None], size, axis=1)
    np.fill_diagonal(first, stay)
    share = np.bincount(column, minlength=size) / column.size
    back = (first * share[:, None] / (share @ first)).T
    matrix = 0.5 * first @ back + 0.5 * np.eye(size)
    ends = matrix.cumsum(axis=1)[column]
    return np.minimum((rng.random(column.size)[:, None] > ends).sum(axis=1), size - 1), matrix


def linked(true: Codes, released: Codes, shape: tuple[int, ...], matrices: dict[int, Codes], targets: Codes) -> Codes:
    """Link each target to its likeliest record: shares of correct matches, and of those claimed with over a half.

    The weight of a record is the product over its shown values of ``P(shown | true) / P(shown)``.
    """
    ratio = np.ones((len(targets), len(released)))
    for j, size in enumerate(shape):
        law = matrices.get(j, np.eye(size))
        shown = released[:, j]
        share = np.bincount(shown[shown >= 0], minlength=size) / (shown >= 0).sum()
        factor = np.append(law / np.maximum(share, 1e-12), np.ones((size, 1)), axis=1)  # the last: suppressed
        ratio *= factor[true[targets, j]][:, shown]
    best = ratio.max(axis=1)
    ties = ratio >= best[:, None] * (1 - 1e-9)
    right = ties[np.arange(len(targets)), targets] / ties.sum(axis=1)
    return np.array([right.mean(), (best / ratio.sum(axis=1) > 0.5).mean()])


def matching_risk(codes: Codes, weights: Codes) -> Codes:
    """``E(1/F | f)`` with the records that agree, and their weights, in place of a class."""
    return expected_inverse(matches(codes), 1 / weights)  # every record has the same weight in this survey


def _levels(*groups: list[int]) -> list[Codes]:
    return [np.array(group) for group in groups]


HIERARCHIES = [
    _levels([0, 1], [0, 0]),  # urbrur
    _levels([0, 1, 2], [0, 0, 0]),  # walls
    _levels(list(range(8)), [0, 0, 0, 1, 1, 1, 2, 2], [0] * 8),  # water: neighbouring codes, then all
    _levels([0, 1], [0, 0]),  # sex
    # Age: bands of ten years, of twenty, three groups, all.
    _levels(list(range(10)), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [0] * 10),
]


@dataclass(frozen=True)
class Generalised:
    """Codes of generalised variables, -1 in suppressed records, and the level of each."""

    codes: Codes
    levels: list[Codes]

    def spread(self, shape: tuple[int, ...], own: tuple[int, ...]) -> Codes:
        """Shares of a table, a group's records spread evenly over its categories."""
        kept = self.codes[self.codes[:, 0] >= 0][:, own]
        sizes = [int(self.levels[j].max()) + 1 for j in own]
        counts = np.bincount(np.ravel_multi_index(tuple(kept.T), sizes), minlength=int(np.prod(sizes))).reshape(sizes)
        for axis, j in enumerate(own):
            each = np.bincount(self.levels[j])[self.levels[j]]
            moved = np.moveaxis(counts, axis, -1)[..., self.levels[j]] / each
            counts = np.moveaxis(moved, -1, axis)
        return counts.ravel() / counts.sum()


def full_domain(codes: Codes, hierarchies: list[list[Codes]], k: int, most: float) -> Generalised:
    """The node of the lattice that loses least, of those that suppress at most a share of the records.

    Loss is ARX's: the mean over values of ``(group size − 1) / (categories − 1)``, 1 in suppressed records. All nodes
    are looked at, so it is the optimum.
    """
    best, least = None, np.inf
    for node in itertools.product(*(range(len(h)) for h in hierarchies)):
        levels = [h[level] for h, level in zip(hierarchies, node, strict=True)]
        made = np.stack([level[c] for level, c in zip(levels, codes.T, strict=True)], axis=1)
        _, group, counts = np.unique(made, axis=0, return_inverse=True, return_counts=True)
        rare = counts[group.ravel()] < k
        if rare.mean() > most:
            continue
        lost = [(np.bincount(v)[v][c] - 1) / (len(v) - 1) for v, c in zip(levels, codes.T, strict=True)]
        value = np.where(rare, 1.0, np.mean(lost, axis=0)).mean()
        if value < least:
            best, least = Generalised(np.where(rare[:, None], -1, made), levels), value
    assert best is not None
    return best
