"""What the records of each subset of a split say about the variables that are asked, without bias.

Of a record that shows the subset T, the released cell y contributes ``c_T[y]`` with ``Σ_y M_T[x, y] c_T[y] = e(x)``,
the indicator of what its true cell says of the variables asked. Where the law of what is *released* of them depends on
what is *true* of them alone, nothing else of the cell is needed: so it is for randomised response. A record keeps its
cell with λ and else shows any, ``M = λ I + (1 − λ) 1uᵀ``, on the variables asked too. Others need all cells of T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.codebook import Codebook
from postrand.errors import EstimationError, UsageError, sentence
from postrand.estimate.axes import Array
from postrand.mechanism import Block, Split
from postrand.mechanism.block import all_cells
from postrand.mechanism.matrix import TransitionMatrix
from postrand.mechanism.matrix_storage import UNIT, Constant
from postrand.mechanism.split_data import pair_of
from postrand.support.showing import few

MAX_CONTRIBUTIONS = 1 << 26
"""Released cells of all subsets times cells asked; beyond, 512 MB of contributions."""
_NAMED = 6
_LARGEST_SINGULAR = 2048
_LARGEST_CONDITION = 1e12
_SOLVED = 1e-9
_ALIKE = 1e-12
"""Rows of a law that differ by less differ by rounding to units of 2^-53."""

Margins = Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Hold what the records of some subsets, which have one law, contribute to the cells asked.

    ``places`` are the subsets; ``law`` (X, R) the probability of each released cell given each cell asked, ``values``
    (R, X) the contributions, ``looks`` (R,) the cell asked that each released one looks like. ``precision`` is ``1 /
    trace Cov`` of one record's contribution under the prior. ``closed``: the law depends on the cell asked alone, and
    released cells are those asked; else they are all cells of the subset, and ``law`` is an average under the prior.
    ``identified``: the contributions answer every cell.
    """

    places: tuple[int, ...]
    law: Array
    values: Array
    looks: NDArray[np.intp]
    precision: float
    closed: bool
    identified: bool


def parts_of(
    split: Split,
    book: Codebook,
    variables: Sequence[str],
    prior: Mapping[str, ArrayLike] | None = None,
    *,
    shared: Sequence[str] = (),
) -> tuple[NDArray[np.int32], tuple[Part, ...]]:
    """Return the cells asked, codes of shape (X, J), and the parts of the subsets that show all of the variables.

    Subsets that cannot answer every cell are left out, unless none can. ``1 / precision = Σ_y q[y] |c[y]|² − Σ p²``
    with ``q = pᵀM``, p the prior.

    Raises
    ------
    UsageError
        If a prior is no distribution.
    EstimationError
        If no subset shows all of the variables, or the contributions would be too many.
    """
    margins = {} if prior is None else _margins(prior, split, book)
    asked = set(variables)
    covering = [k for k, block in enumerate(split.blocks) if asked.issubset(block.perturbed)]
    if not covering:
        raise _not_covered(split, variables, shared)
    shape = tuple(book[name].size for name in variables)
    listed = [_listed(split.blocks[k], variables, shape) for k in covering]
    feasible = _feasible(listed, math.prod(shape))
    index = np.full(math.prod(shape), -1, dtype=np.intp)
    index[feasible] = np.arange(len(feasible))
    found: dict[tuple[object, ...], Part] = {}
    for place, cells in zip(covering, listed, strict=True):
        true = None if cells is None else index[cells]
        part = _part(split.blocks[place], place, book, variables, true, len(feasible), margins)
        key = (part.law.tobytes(), part.precision) if part.closed else (place,)
        found[key] = replace(found[key], places=(*found[key].places, place)) if key in found else part
        if sum(one.law.size for one in found.values()) > MAX_CONTRIBUTIONS:
            what, got = "the table is too large", f"{len(feasible):,} cells of {', '.join(variables)}"
            raise EstimationError(sentence(what, got=got, fix="use fewer variables, or merge categories"))
    full = [part for part in found.values() if part.identified]
    codes = np.stack(np.unravel_index(feasible, shape), axis=1).astype(np.int32)
    return codes, tuple(full or found.values())


def _listed(block: Block, variables: Sequence[str], shape: Sequence[int]) -> NDArray[np.intp] | None:
    """Return the number of the cell asked for each cell that a block lists, (K,); None where it lists none."""
    if block.cells is None:
        return None
    cells = block.cell_table(())
    return np.ravel_multi_index([cells[:, block.variables.index(n)] for n in variables], tuple(shape)).astype(np.intp)


def _feasible(listed: Sequence[NDArray[np.intp] | None], size: int) -> NDArray[np.intp]:
    if any(cells is None for cells in listed):
        return np.arange(size)
    return np.unique(np.concatenate([cells for cells in listed if cells is not None]))


def _part(
    block: Block,
    place: int,
    book: Codebook,
    variables: Sequence[str],
    true: NDArray[np.intp] | None,
    size: int,
    margins: Margins,
) -> Part:
    """Return the part of one subset; ``true`` (K,) are the cells asked of its cells, None where it has all."""
    keep = response(block.matrix)
    if keep is not None and true is None:
        shape = tuple(book[n].size for n in variables)
        shares = _product(margins, variables, all_cells(shape))
        return _response(place, keep, np.full(size, block.matrix.size // size), shares)
    cells = block.cell_table(tuple(book[n].size for n in block.variables))
    prior = _product(margins, block.variables, cells)
    if true is None:
        shape = tuple(book[n].size for n in variables)
        true = np.ravel_multi_index([cells[:, block.variables.index(n)] for n in variables], shape).astype(np.intp)
    shares = np.bincount(true, weights=prior, minlength=size).astype(np.float64)
    if keep is not None and not block.given:
        return _response(place, keep, np.bincount(true, minlength=size), shares)
    return _general(block, place, true, prior, shares)


def response(matrix: TransitionMatrix) -> tuple[int, int] | None:
    """Return the diagonal and the other weight of randomised response; None for any other matrix."""
    if matrix.size == 1:
        return UNIT, 0
    pair = pair_of(matrix)
    return None if pair is None or pair["diagonal"] == pair["off"] else (pair["diagonal"], pair["off"])


def _response(place: int, keep: tuple[int, int], held: NDArray[np.intp], shares: Array) -> Part:
    """Return the part of randomised response, ``M = λ I + 1 nᵀ`` and ``M^-1 = (I − 1 nᵀ) / λ`` on the cells asked.

    ``held`` (X,) are the numbers of cells of the subset in each: n are these times the weight off the diagonal.
    """
    size = len(held)
    stays, noise = (keep[0] - keep[1]) / UNIT, held * (keep[1] / UNIT)
    exists = (held > 0).astype(np.float64)
    law = np.diag(stays * exists) + np.outer(exists, noise)
    values = (np.diag(exists) - np.outer(exists, noise)) / stays
    return Part((place,), law, values, np.arange(size), _precision(law, values, shares), True, True)


def _general(block: Block, place: int, true: NDArray[np.intp], prior: Array, shares: Array) -> Part:
    """Return the part of any matrix, closed where all true cells of a cell asked have one law on the cells asked."""
    size = len(shares)
    wanted = np.zeros((len(true), size))
    wanted[np.arange(len(true)), true] = 1.0
    if wanted.size > MAX_CONTRIBUTIONS:
        what, got = "the table is too large", f"{len(true):,} cells of {block.name!r}, {size:,} of the table"
        raise EstimationError(sentence(what, got=got, fix="use fewer variables, or merge categories"))
    reached = block.matrix.times(wanted)
    first = np.full(size, -1)
    first[true[::-1]] = np.arange(len(true))[::-1]
    exists = first >= 0
    law = np.where(exists[:, None], reached[first], 0.0)
    if np.abs(reached - law[true]).max() <= _ALIKE:
        values, solved = _inverse(law, exists)
        return Part((place,), law, values, np.arange(size), _precision(law, values, shares), True, solved)
    values, solved = _contributions(block.matrix, wanted)
    spread = np.where(shares[true] > 0, prior / np.where(shares > 0, shares, 1.0)[true], 0.0)
    even = 1 / np.bincount(true, minlength=size)[true]
    weights = wanted * np.where(shares[true] > 0, spread, even)[:, None]
    law = _transposed(block.matrix, weights).T
    return Part((place,), law, values, true, _precision(law, values, shares), False, solved)


def _inverse(law: Array, exists: NDArray[np.bool_]) -> tuple[Array, bool]:
    """Return the inverse of a law on the cells that exist, and whether there is one; else the pseudo-inverse."""
    inside = law[np.ix_(exists, exists)]
    known = bool(np.linalg.cond(inside, 1) <= _LARGEST_CONDITION)
    found = np.linalg.inv(inside) if known else np.linalg.pinv(inside, rcond=1e-12)
    values = np.zeros_like(law)
    values[np.ix_(exists, exists)] = found + (found @ (np.eye(len(inside)) - inside @ found) if known else 0.0)
    return values, known


def _contributions(matrix: TransitionMatrix, wanted: Array) -> tuple[Array, bool]:
    """Return B (K, X) with ``M B = wanted``, and whether there is one; else what comes nearest."""
    try:
        return matrix.factor().solve(wanted), True
    except EstimationError:
        if len(wanted) > _LARGEST_SINGULAR:
            return np.zeros_like(wanted), False
    values = np.asarray(np.linalg.lstsq(matrix.array, wanted, rcond=None)[0], dtype=np.float64)
    return values, bool(np.abs(matrix.array @ values - wanted).max() <= _SOLVED)


def _transposed(matrix: TransitionMatrix, values: Array) -> Array:
    """Return ``Mᵀ values``, values of shape (K, n)."""
    form = matrix.form
    if isinstance(form, Constant):
        stays, off = (form.diagonal - form.off) / UNIT, form.off / UNIT
        return np.asarray(stays[:, None] * values + off @ values)
    return np.asarray(matrix.array.T @ values)


def _precision(law: Array, values: Array, shares: Array) -> float:
    squared = float(shares @ law @ (values**2).sum(axis=1))
    return 1.0 / max(squared - float(shares @ shares), 1e-300)


def _product(margins: Margins, names: Sequence[str], cells: NDArray[np.int32]) -> Array:
    """Return the prior on cells: the product of its margins, on these cells alone."""
    shares = np.ones(len(cells))
    for name, column in zip(names, cells.T, strict=True):
        shares *= margins[name][column] if name in margins else 1.0
    total = shares.sum()
    return np.asarray(shares / total if total > 0 else np.full(len(cells), 1 / len(cells)))


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


def _not_covered(split: Split, variables: Sequence[str], shared: Sequence[str]) -> EstimationError:
    """Return the refusal, with the largest sets of the variables that some records show.

    ``shared`` are variables of which records share draws: then there is no joint model to go on with.
    """
    sets = {frozenset(block.perturbed) & frozenset(variables) for block in split.blocks}
    largest = [held for held in sets if held and not any(held < other for other in sets)]
    names = sorted(", ".join(name for name in variables if name in held) for held in largest)
    together = "; ".join(names[:_NAMED]) + (f"; {len(names) - _NAMED:,} others" if len(names) > _NAMED else "")
    fix = f"ask for what records show together ({together}), put the table into the workload of the next release, "
    fix += (
        "or let every record show a subset in the next one: here one member of each household does, so there is no "
        "joint model"
        if split.of_members
        else f"or perturb {few(shared)} for each record in the next one: records share its draws, so there is no joint "
        "model"
        if shared
        else "or use the joint model: complete the release (pr.complete, 'postrand complete'); every estimator takes "
        "model=..., or --method model"
    )
    what = "no record shows all these variables"
    return EstimationError(sentence(what, where=", ".join(variables), fix=fix))
