"""Blocks that read variables without changing them: strata, and variables that decide what is feasible.

A block given s draws x with the matrix of the record's s. Another block can perturb s, but only among values with the
same matrix in this block: then a release shows the analyst which matrix was used.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import sentence
from postrand.mechanism.block import Block, given_codes
from postrand.mechanism.matrix_classes import moves

_MAX_TUPLES = 1 << 20


def reading_problems(blocks: Sequence[Block]) -> Iterable[str]:
    """Yield a sentence for each block that reads a variable if another one exchanges values with different matrices."""
    changing = {name: block for block in blocks for name in block.perturbed}
    for block in blocks:
        moved = {name: _moves(changing[name], name) for name in block.given if name in changing}
        for name, group in moved.items():
            if group is None:
                yield sentence(
                    f"{name!r} is a given variable of a block, but a block that does not list its cells perturbs it",
                    where=f"block {block.name!r}",
                    fix="list the cells of the block that perturbs it",
                )
        known = {name: group for name, group in moved.items() if group is not None}
        if known and not _is_constant(block, known):
            yield sentence(
                "the matrix differs between values of a given variable that another block exchanges",
                where=f"block {block.name!r}, given {', '.join(known)}",
                fix="use one matrix for values that are exchanged, or do not perturb the variable",
            )


def _moves(block: Block, name: str) -> NDArray[np.int32] | None:
    """Return the group of each code of a variable: codes that the block can exchange are in one group."""
    if block.cells is None and len(block.variables) > 1:
        return None
    at = block.variables.index(name)
    codes = np.arange(block.matrix.size) if block.cells is None else np.array(block.cells)[:, at]
    i, j = moves(block.matrix)
    size = int(codes.max()) + 1
    graph = scipy.sparse.coo_array((np.ones(i.size), (codes[i], codes[j])), shape=(size, size))
    groups: NDArray[np.int32] = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return groups


def _is_constant(block: Block, groups: dict[str, NDArray[np.int32]]) -> bool:
    """Return whether the matrix is the same for all combinations of given codes that other blocks exchange."""
    laws = _laws(block)
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    for codes in laws:
        if any(c >= len(groups[n]) for n, c in zip(block.given, codes, strict=True) if n in groups):
            return False
        key = tuple(int(groups[n][c]) if n in groups else c for n, c in zip(block.given, codes, strict=True))
        seen[key].add(codes)
    for key, members in seen.items():
        sets = [
            np.flatnonzero(groups[n] == k).tolist() if n in groups else [k]
            for n, k in zip(block.given, key, strict=True)
        ]
        if np.prod([len(s) for s in sets]) > _MAX_TUPLES or set(itertools.product(*sets)) != members:
            return False
        if len({laws[codes] for codes in members}) > 1:
            return False
    return True


def _laws(block: Block) -> dict[tuple[int, ...], tuple[bytes, bytes]]:
    """Return, for each combination of given codes, its perturbed cells and its matrix in their order."""
    cells = np.array(block.cells, dtype=np.int32)
    own = [block.variables.index(name) for name in block.perturbed]
    rows: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for k, codes in enumerate(map(tuple, given_codes(block).tolist())):
        rows[codes].append(k)
    laws, weights = {}, block.matrix.weights
    for codes, at in rows.items():
        inside = np.array(at)[np.lexsort(cells[at][:, own].T)]
        laws[codes] = (cells[inside][:, own].tobytes(), weights[np.ix_(inside, inside)].tobytes())
    return laws
