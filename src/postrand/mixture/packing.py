"""Arrange evidence for the compiled loops: records with the same evidence once, with their number."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from postrand.mixture.evidence import Evidence, Law

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Packed(NamedTuple):
    """Hold evidence as flat arrays. A *row* is one code of one variable; ``x_start`` cuts ``x`` into its parts.

    A group is a set of records with the same evidence: ``counts`` of them, with the rows ``exact`` and the released
    cells ``seen`` (numbered over all laws). ``P(released y | true c) = noise_y + extra_yc``: with the first part the
    release says nothing of c, and ``extra`` is zero but for the few cells ``source`` of each y: one, y itself, for
    randomised response. ``rows`` are those of each true cell (numbered over all laws).
    """

    offsets: Ints  # (J + 1,) first row of each variable
    owner: Ints  # the variable of each row
    counts: Ints  # (G,)
    exact_start: Ints
    exact: Ints
    seen_start: Ints
    seen: Ints
    law_of: Ints  # of each released cell
    noise: Floats  # of each released cell
    source_start: Ints  # of each released cell
    source: Ints
    extra: Floats
    table: Ints  # of each released cell with several sources: its row in the tables of one sweep, else -1
    tabled: Ints  # released cells with a table
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
    laws = _laws(evidence, offsets, np.unique(seen))
    boxes = disjoint(evidence.rules, evidence.sizes)
    ruled = np.flatnonzero(_touched(evidence.rules, evidence.sizes).any(axis=0))
    one = (lengths == 1) & ~known.any(axis=1) & (len(boxes) == 0)
    of = seen[np.minimum(seen_start[:-1], max(len(seen) - 1, 0))] if len(seen) else np.zeros(len(first), np.int64)
    if len(seen):
        one &= (laws["table"][of] < 0) & (laws["partial"][laws["law_of"][of]] < 0)
    packed = Packed(
        offsets=offsets,
        owner=np.repeat(np.arange(len(evidence.sizes)), evidence.sizes),
        counts=counts,
        exact_start=np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(np.int64),
        exact=exact.astype(np.int64),
        seen_start=seen_start.astype(np.int64),
        seen=seen.astype(np.int64),
        ruled=ruled.astype(np.int64),
        boxes=boxes,
        simple=one,
        **laws,
    )
    return packed, group


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


def _laws(evidence: Evidence, offsets: Ints, used: Ints) -> dict[str, Any]:
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in ("law_of", "noise", "sources", "source", "extra", "rows")
    }
    row_lengths: list[Ints] = []
    places: list[Ints] = []
    member: list[Ints] = []
    partial = np.full(len(evidence.laws), -1)
    cells = 0
    for number, law in enumerate(evidence.laws):
        noise, count, source, extra = _split(law)
        parts["law_of"].append(np.full(len(noise), number))
        parts["noise"].append(noise)
        parts["sources"].append(count)
        parts["source"].append(source + cells)
        parts["extra"].append(extra)
        parts["rows"].append((law.cells + offsets[list(law.variables)]).ravel())
        row_lengths.append(np.full(len(law.cells), len(law.variables)))
        places.append(np.array(law.variables))
        shape = [evidence.sizes[v] for v in law.variables]
        if len(law.cells) < math.prod(shape):
            partial[number] = len(member)
            where = np.full(math.prod(shape), -1)
            where[np.ravel_multi_index(tuple(law.cells.T), tuple(shape))] = np.arange(len(law.cells)) + cells
            member.append(where)
        cells += len(law.cells)
    flat = {name: _joined(values) for name, values in parts.items()}
    several = used[flat["sources"][used] != 1] if len(used) else used
    table = np.full(len(flat["noise"]), -1)
    table[several] = np.arange(len(several))
    return {
        "law_of": flat["law_of"].astype(np.int64),
        "noise": flat["noise"].astype(np.float64),
        "source_start": _starts(flat["sources"]),
        "source": flat["source"].astype(np.int64),
        "extra": flat["extra"].astype(np.float64),
        "table": table.astype(np.int64),
        "tabled": several.astype(np.int64),
        "row_start": _starts(_joined(row_lengths)),
        "rows": flat["rows"].astype(np.int64),
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
