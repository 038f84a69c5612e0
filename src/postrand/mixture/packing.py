"""Arrange evidence for the compiled loops: records with the same evidence once, with their number."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence, Law

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SILENT = 0.1
"""Groups are pooled if the release says nothing of at most this share of their records, were true cells even."""


class Packed(NamedTuple):
    """Hold evidence as flat arrays. A *row* is one code of one variable; ``x_start`` cuts ``x`` into its parts.

    A group is a set of records with the same evidence: ``counts`` of them, with the rows ``exact`` and the released
    cells ``seen`` (numbered over all laws, without those that no record shows).
    ``P(released y | true c) = noise_y + extra_yc``: with the first part the release says nothing of c, and ``extra`` is
    zero but for the few cells ``source`` of each y: one, y itself, for randomised response. ``rows`` are those of each
    true cell (numbered over all laws).
    """

    offsets: Ints  # (J + 1,) first row of each variable
    owner: Ints  # the variable of each row
    counts: Ints  # (G,)
    exact_start: Ints
    exact: Ints
    seen_start: Ints
    seen: Ints
    tabled: int  # released cells below this number have a row in the table of their chances
    law_of: Ints  # of each released cell
    noise: Floats  # of each released cell
    source_start: Ints  # of each released cell
    source: Ints
    extra: Floats
    place: Ints  # of each released cell with several sources: its place among them, else -1
    several: Ints  # released cells with several sources
    row_start: Ints  # of each true cell
    rows: Ints
    places_start: Ints  # of each law
    places: Ints
    cell_start: Ints  # of each law, (L + 1,)
    partial: Ints  # of each law: its place among the laws whose cells are not all combinations, or -1
    member_start: Ints  # of each law with a place in partial
    member: Ints  # the true cell of each combination of codes, or -1
    ruled: Ints  # variables that take part in rules
    boxes: NDArray[np.bool_]  # (B, rows): impossible combinations, disjoint
    simple: NDArray[np.bool_]  # groups of one released cell with one source, all combinations and no rules
    pooled: NDArray[np.bool_]  # other groups without rules, of whose records the release nearly always says something
    cut: int  # so many first cells of a group are often those of the pooled group before
    fresh: NDArray[np.bool_]  # pooled groups of which they are not


def pack(evidence: Evidence) -> tuple[Packed, Ints]:
    """Return the packed evidence, and the group of each record."""
    first, group, counts = _groups(evidence)
    offsets = np.concatenate([[0], np.cumsum(evidence.sizes)]).astype(np.int64)
    released_start = np.concatenate([[0], np.cumsum([_width(law) for law in evidence.laws])]).astype(np.int64)
    known = evidence.exact[first] >= 0
    exact = (evidence.exact[first] + offsets[:-1])[known]
    lengths = np.diff(evidence.start)[first]
    seen_start = np.concatenate([[0], np.cumsum(lengths)])
    at = np.repeat(evidence.start[first] - seen_start[:-1], lengths) + np.arange(seen_start[-1])
    seen = released_start[evidence.law[at]] + evidence.released[at]
    cells, laws = _laws(evidence, offsets)
    boxes = disjoint(evidence.rules, evidence.sizes)
    ruled = np.flatnonzero(_touched(evidence.rules, evidence.sizes).any(axis=0))
    free = np.full(len(first), len(boxes) == 0)
    simple = free & (lengths == 1) & ~known.any(axis=1)
    simple[simple] = cells.plain[seen[seen_start[:-1][simple]]]
    record = np.repeat(np.arange(len(first)), lengths)
    silent = np.exp(np.bincount(record, np.log(np.maximum(cells.silent[seen], 1e-12)), len(first)))
    tabled = np.unique(seen[~simple[record]])
    used = np.concatenate([tabled, np.setdiff1d(seen, tabled)])
    number = np.zeros(released_start[-1], np.int64)
    number[used] = np.arange(len(used))
    pooled = free & ~simple & (known.any(axis=1) | (silent < SILENT))
    cut, fresh = _repeats(evidence.exact[first], seen_start, seen, pooled)
    packed = Packed(
        offsets=offsets,
        owner=np.repeat(np.arange(len(evidence.sizes)), evidence.sizes),
        counts=counts,
        exact_start=np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(np.int64),
        exact=exact.astype(np.int64),
        seen_start=seen_start.astype(np.int64),
        seen=number[seen],
        ruled=ruled.astype(np.int64),
        boxes=boxes,
        simple=simple,
        pooled=pooled,
        cut=cut,
        fresh=fresh,
        tabled=len(tabled),
        **cells.fields(used),
        **laws,
    )
    return packed, group


def _repeats(exact: NDArray[np.int32], seen_start: Ints, seen: Ints, pooled: NDArray[np.bool_]) -> tuple[int, Any]:
    """Return how many first cells of a pooled group are worth keeping, and the groups that do not have those before.

    Groups are sorted, so that their first cells change seldom.
    """
    at = np.flatnonzero(pooled)
    start, lengths = seen_start[at], np.diff(seen_start)[at]
    same = np.zeros(len(at), bool)
    same[1:] = (exact[at[1:]] == exact[at[:-1]]).all(axis=1)
    best, cut, kept = math.inf, 0, same
    for number in range(int(lengths.max(initial=0)) + 1):
        if number:
            cell = np.where(lengths >= number, seen[np.minimum(start + number - 1, len(seen) - 1)], -1)
            same = same & np.concatenate([[False], (cell[1:] == cell[:-1]) & (cell[1:] >= 0)])
        cost = (~same).sum() * (number + 2) + np.maximum(lengths - number, 0).sum()
        if cost < best:
            best, cut, kept = float(cost), number, same
    fresh = np.zeros(len(pooled), bool)
    fresh[at] = ~kept
    return cut, fresh


def _width(law: Law) -> int:
    return len(law.cells) if law.matrix is None else law.matrix.shape[1]


def _groups(evidence: Evidence) -> tuple[Ints, Ints, Ints]:
    """Return a record of each group, the group of each record, and their numbers, by sorting one column at a time."""
    n, lengths = evidence.records, np.diff(evidence.start)
    group, number = np.zeros(n, np.int64), 1
    columns = [(evidence.exact[:, j], 1, size + 1) for j, size in enumerate(evidence.sizes)]
    columns = [c for c in columns if (c[0] >= 0).any()]
    widest = max((_width(law) for law in evidence.laws), default=1)
    for place in range(int(lengths.max(initial=0))):
        at = np.minimum(evidence.start[:-1] + place, max(len(evidence.law) - 1, 0))
        here = lengths > place
        columns.append((np.where(here, evidence.law[at], -1), 1, len(evidence.laws) + 1))
        columns.append((np.where(here, evidence.released[at], 0), 0, widest))
    for codes, shift, size in columns:
        if number * size > 2**62:
            _, group = np.unique(group, return_inverse=True)
            number = int(group.max(initial=0)) + 1
        group, number = group * size + codes + shift, number * size
    _, first, group, counts = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
    return first.astype(np.int64), group.reshape(n).astype(np.int64), counts.astype(np.int64)


class _Cells(NamedTuple):
    """Hold the released cells of all laws, one after the other; ``plain``: one source, and all combinations."""

    law_of: Ints
    noise: Floats
    sources: Ints
    source: Ints
    extra: Floats
    plain: NDArray[np.bool_]
    silent: Floats  # the share of records that show the cell of which it says nothing, were true cells even

    def fields(self, used: Ints) -> dict[str, Any]:
        """Return what the loops read of the cells ``used``."""
        starts, lengths = _starts(self.sources)[used], self.sources[used]
        at = np.repeat(starts - _starts(lengths)[:-1], lengths) + np.arange(lengths.sum())
        several = np.flatnonzero(lengths != 1)
        place = np.full(len(used), -1)
        place[several] = np.arange(len(several))
        return {
            "law_of": self.law_of[used],
            "noise": self.noise[used],
            "source_start": _starts(lengths),
            "source": self.source[at],
            "extra": self.extra[at],
            "place": place,
            "several": several,
        }


def _laws(evidence: Evidence, offsets: Ints) -> tuple[_Cells, dict[str, Any]]:
    """Return the released cells of all laws, and the true ones as the loops read them."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (*_Cells._fields, "rows")}
    row_lengths: list[Ints] = []
    places: list[Ints] = []
    member: list[Ints] = []
    partial = np.full(len(evidence.laws), -1)
    cells = 0
    for number, law in enumerate(evidence.laws):
        noise, count, source, extra = _split(law)
        shape = [evidence.sizes[v] for v in law.variables]
        full = len(law.cells) == math.prod(shape)
        even = np.bincount(np.repeat(np.arange(len(noise)), count), extra, len(noise)) / max(len(law.cells), 1)
        parts["law_of"].append(np.full(len(noise), number))
        parts["noise"].append(noise)
        parts["sources"].append(count)
        parts["source"].append(source + cells)
        parts["extra"].append(extra)
        parts["plain"].append((count == 1) & full)
        parts["silent"].append(noise / np.maximum(noise + even, 1e-300) * full)
        parts["rows"].append((law.cells + offsets[list(law.variables)]).ravel())
        row_lengths.append(np.full(len(law.cells), len(law.variables)))
        places.append(np.array(law.variables))
        if not full:
            partial[number] = len(member)
            where = np.full(math.prod(shape), -1)
            where[np.ravel_multi_index(tuple(law.cells.T), tuple(shape))] = np.arange(len(law.cells)) + cells
            member.append(where)
        cells += len(law.cells)
    kinds = {"noise": np.float64, "extra": np.float64, "silent": np.float64, "plain": np.bool_}
    flat: dict[str, Any] = {name: _joined(values).astype(kinds.get(name, np.int64)) for name, values in parts.items()}
    rows = flat.pop("rows")
    return _Cells(**flat), {
        "row_start": _starts(_joined(row_lengths)),
        "rows": rows,
        "places_start": _starts(np.array([len(p) for p in places])),
        "places": _joined(places).astype(np.int64),
        "cell_start": _starts(np.array([len(law.cells) for law in evidence.laws])),
        "partial": partial.astype(np.int64),
        "member_start": _starts(np.array([len(m) for m in member])),
        "member": _joined(member).astype(np.int64),
    }


def _split(law: Law) -> tuple[Floats, Ints, Ints, Floats]:
    """Return what each released cell has from all true ones alike, and the number, places and size of what is more."""
    if law.matrix is None:
        each = np.arange(len(law.cells))
        return law.noise, np.ones(len(each), np.int64), each, np.full(len(each), law.keep)
    noise = law.matrix.min(axis=0)
    more = law.matrix - noise
    more[more < 1e-15] = 0
    released, source = np.nonzero(more.T)
    return noise, np.bincount(released, minlength=len(noise)), source, more[source, released]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0)


def _starts(lengths: np.ndarray) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _touched(rules: NDArray[np.bool_], sizes: tuple[int, ...]) -> NDArray[np.bool_]:
    real = np.arange(rules.shape[2]) < np.array(sizes)[:, None]
    return np.asarray((~rules & real).any(axis=2))


def disjoint(rules: NDArray[np.bool_], sizes: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return disjoint boxes (B, Σ S_j) whose union is that of the rules: a record is impossible if it is in one.

    Each box is a set of codes for every variable. A rule is cut along the boxes that it meets.
    """
    boxes: list[list[NDArray[np.bool_]]] = []
    for rule in rules:
        parts = [[rule[j, :s] for j, s in enumerate(sizes)]]
        for box in list(boxes):
            parts = [piece for part in parts for piece in _without(part, box)]
        boxes += [p for p in parts if all(codes.any() for codes in p)]
    return np.array([np.concatenate(box) for box in boxes], bool).reshape(len(boxes), sum(sizes))


def _without(part: list[NDArray[np.bool_]], box: list[NDArray[np.bool_]]) -> list[list[NDArray[np.bool_]]]:
    if not all((a & b).any() for a, b in zip(part, box, strict=True)):
        return [part]
    pieces, rest = [], list(part)
    for j, codes in enumerate(box):
        outside = rest[j] & ~codes
        if outside.any():
            pieces.append([*rest[:j], outside, *rest[j + 1 :]])
        rest[j] = rest[j] & codes
    return pieces
