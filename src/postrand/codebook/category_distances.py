"""Distances between categories, as edges with lengths: the distance is the length of the shortest path.

For such a distance it is enough to meet a privacy budget ``ε d(i,k)`` on the edges: along a path the ratios multiply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.codebook.variable import Variable
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, is_whole, listed, real_array

Edge = tuple[int, int, float]
Edges = tuple[Edge, ...]
Points = tuple[tuple[float, float], ...]
_SLACK = 1e-9  # relative: distances made from coordinates are rounded

KINDS = ("ranks", "adjacency", "coordinates", "matrix")


def ranks(size: int) -> Edges:
    """Return the edges of ordered categories: neighbours are at distance 1.

    >>> ranks(3)
    ((0, 1, 1.0), (1, 2, 1.0))
    """
    return tuple((i, i + 1, 1.0) for i in range(size - 1))


def coordinates(points: ArrayLike, names: Sequence[str] = ()) -> Edges:
    """Return the edges of points (S, D) by Euclidean distance; an edge is left out if a path of others is as short."""
    array = real_array(points, "the list of coordinates")
    if array.ndim != 2 or not np.isfinite(array).all():
        raise SpecificationError(sentence("coordinates are not a list of points", wanted="one list for each category"))
    return from_matrix(np.sqrt(((array[:, None] - array[None]) ** 2).sum(axis=2)), names)


def from_matrix(distances: ArrayLike, names: Sequence[str] = ()) -> Edges:
    """Return the edges of a distance matrix (S, S): the pairs with no third category between them.

    Raises
    ------
    SpecificationError
        With each rule of a metric that it breaks, and the names of the categories, or their positions.
    """
    d = real_array(distances, "the distance matrix")
    raise_all(SpecificationError, metric_problems(d, names))
    size, edges = len(d), []
    for i in range(size):
        through = d[i][:, None] + d  # [l, k]: from i to k through l
        through[i], through[np.arange(size), np.arange(size)] = np.inf, np.inf
        needed = d[i] < through.min(axis=0) * (1 - _SLACK)
        edges += [(i, int(k), float(d[i, k])) for k in np.flatnonzero(needed) if k > i]
    return tuple(edges)


def metric_problems(d: NDArray[np.float64], names: Sequence[str] = ()) -> Iterable[str]:
    """Yield each condition of a metric that fails: square, zero diagonal, positive, symmetric, triangle inequality."""
    if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) < 2:
        yield sentence("a distance matrix must be square", got=f"shape {d.shape}", wanted="(S, S), S >= 2")
        return
    if not np.isfinite(d).all():
        yield sentence("a distance is not finite", where=_pair(~np.isfinite(d), names))
        return
    off = ~np.eye(len(d), dtype=bool)
    if np.diag(d).any():
        itself = _names([int(np.flatnonzero(np.diag(d))[0])], names)
        yield sentence("the distance of a category to itself is not zero", where=f"category {itself}")
    if (d[off] <= 0).any():
        what = "the distance between two categories is not positive"
        yield sentence(what, where=_pair(off & (d <= 0), names), fix="merge categories at distance zero")
    if not np.allclose(d, d.T, rtol=_SLACK, atol=0):
        yield sentence("the distance is not symmetric", where=_pair(~np.isclose(d, d.T, rtol=_SLACK, atol=0), names))
    for i in range(len(d)):
        through = d[i][:, None] + d
        shorter = through.min(axis=0)
        if (d[i] > shorter * (1 + _SLACK)).any():
            k = int(np.argmax(d[i] - shorter))
            what = "the triangle inequality is not met: a path through a third category is shorter"
            where = f"from {_names([i, k], names, ' to ')} through {_names([int(through[:, k].argmin())], names)}"
            got = f"{d[i, k]:g} > {shorter[k]:g}"
            yield sentence(what, where=where, got=got, fix="use the shortest path, kind = 'adjacency'")
            return


def as_edges(edges: object) -> Edges:
    """Return edges ``(code, code, length)``, whole codes from 0 and finite lengths, as plain numbers.

    Raises
    ------
    SpecificationError
        If they are not well formed.

    Examples
    --------
    >>> as_edges([[0, 1, 2]])
    ((0, 1, 2.0),)
    """
    entries = listed(edges)
    held = [()] if entries is None else [listed(edge) or () for edge in entries]
    if not all(len(e) == 3 and is_whole(e[0]) and is_whole(e[1]) and math.isfinite(finite(e[2])) for e in held):
        wanted = "lists of two codes and a length"
        raise SpecificationError(sentence("the edges are not valid", got=shown(edges, repr), wanted=wanted))
    return tuple((int(i), int(k), float(length)) for i, k, length in held)


def as_points(points: object) -> Points:
    """Return points ``(x, y)`` as plain numbers; raises SpecificationError if they are not pairs of numbers.

    >>> as_points([[0, 1.5]])
    ((0.0, 1.5),)
    """
    entries = listed(points)
    array = np.zeros((0, 2)) if entries == () else real_array(entries, "the list of points")
    if array.ndim != 2 or array.shape[1] != 2 or not np.isfinite(array).all():
        raise SpecificationError(sentence("the points are not valid", wanted="lists of two numbers"))
    return tuple((float(x), float(y)) for x, y in array)


def shortest_paths(edges: Sequence[Edge], size: int) -> NDArray[np.float64]:
    """Return the distance matrix (S, S) of the edges; infinite between unconnected categories.

    Raises
    ------
    SpecificationError
        If an edge names a code that is not one of 0..S-1.
    """
    if not edges or not all(0 <= code < size for edge in edges for code in edge[:2]):
        raise SpecificationError(
            sentence("an edge has a code that is not one of these categories", wanted=f"codes 0..{size - 1}")
        )
    i, k, length = (np.array(x) for x in zip(*edges, strict=True))
    graph = scipy.sparse.csr_array((length.astype(np.float64), (i, k)), shape=(size, size))
    found: NDArray[np.float64] = scipy.sparse.csgraph.dijkstra(graph, directed=False)
    return found


def edge_problems(edges: Sequence[Edge], size: int, names: Sequence[str] = ()) -> Iterable[str]:
    """Yield the problems of edges: codes out of range, loops, repeated edges, lengths, unconnected categories."""
    pairs = [frozenset(e[:2]) for e in edges]
    if any(not (0 <= i < size and 0 <= k < size) for i, k, _ in edges):
        yield sentence("an edge has a code out of range", wanted=f"0..{size - 1}")
        return
    if any(i == k for i, k, _ in edges):
        yield sentence("an edge leads from a category to itself")
    if len(set(pairs)) < len(pairs):
        yield sentence("an edge is listed twice")
    if any(not (math.isfinite(length) and length > 0) for _, _, length in edges):
        yield sentence("the length of an edge is not positive", wanted="> 0")
    i, k = ([e[x] for e in edges] for x in (0, 1))
    graph = scipy.sparse.csr_array((np.ones(len(edges)), (i, k)), shape=(size, size))
    count, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
    if count > 1:
        small = int(np.bincount(label).argmin())
        apart = _names([int(c) for c in np.flatnonzero(label == small)[:5]], names, ", ")
        what = f"the map has {count} parts that are not connected by edges"
        fix = "add edges, or use one block for each part, with the part as its stratum"
        yield sentence(what, where=f"the part of {apart}", fix=fix)


def edges_from(data: Any, variables: Sequence[Variable], where: str = "distance") -> Edges:
    """Return the edges that a plan describes, on the codes of one variable.

    ``"ranks"``, or a table with ``kind``: ``ranks``; ``adjacency`` with ``edges = [["North", "East"], ["East", "West",
    2.5]]``; ``coordinates`` with ``points = [[category, x, y], ...]``; ``matrix`` with ``rows`` in codebook order. All
    of it is published: only those who have the distances can check a claim about them.

    If missing values are a category, ``missing`` is its distance to every other category. It must be at least half the
    largest distance between others; otherwise the path through it would be a short cut. There is no default: the
    curator must decide how near "missing" is to an answer.

    Raises
    ------
    SpecificationError
        With every unknown kind and category, and every reason why it is not a metric on a connected map.
    """
    data = {"kind": data} if isinstance(data, str) else data
    if len(variables) != 1 or not isinstance(data, Mapping):
        raise SpecificationError(sentence("a distance needs a block of one variable", where=where))
    variable, kind = variables[0], str(data.get("kind"))
    if kind not in KINDS:
        hint = nearest(kind, KINDS)
        raise SpecificationError(
            sentence(f"unknown kind of distance {kind!r}{hint}", where=where, wanted=", ".join(KINDS))
        )
    try:
        edges = _with_missing(_edges(kind, data, variable), data.get("missing"), variable, where)
        points_from(data, variable)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise SpecificationError(sentence("the distance is not valid", where=where, got=shown(error))) from None
    raise_all(SpecificationError, [f"{where}: {p}" for p in edge_problems(edges, variable.size, _labels(variable))])
    return edges


def points_from(data: Any, variable: Variable) -> Points:
    """Return the places of the categories in a plan's distance that :func:`edges_from` has read; () if it has none.

    Distances of other kinds than coordinates can have ``points`` too, for the drawing only. Points are drawn in two
    dimensions only. Variables with a category of missing values, which has no place, are not drawn.
    """
    if not isinstance(data, Mapping) or "points" not in data:
        return ()
    places = _places(data["points"], variable)
    drawn = variable.missing != "category" and all(len(place) == 2 for place in places)
    return as_points(places) if drawn else ()


def _with_missing(edges: Edges, missing: object, variable: Variable, where: str) -> Edges:
    """Return the edges with those of the missing category, where there is one."""
    size = len(variable.categories)
    if variable.missing != "category":
        if missing is not None:
            what = f"a distance to missing values is given, but they are not a category of {variable.name!r}"
            raise SpecificationError(sentence(what, where=where, fix="leave 'missing' out of the distance"))
        return edges
    fix = f"set missing = ... in the distance, or missing = 'keep' or 'error' for {variable.name!r} in the codebook"
    if missing is None:
        raise SpecificationError(
            sentence("the distance from a missing value to the other categories is missing", where=where, fix=fix)
        )
    if list(edge_problems(edges, size)):
        return edges  # which are refused later
    least = float(shortest_paths(edges, size).max()) / 2
    if not finite(missing) >= least * (1 - _SLACK) or not finite(missing) > 0:
        what = "the distance to missing values makes a short cut between others, or is not a positive number"
        raise SpecificationError(sentence(what, where=where, got=shown(missing, repr), wanted=f">= {least:g}"))
    return (*edges, *((k, size, float(finite(missing))) for k in range(size)))


def _labels(variable: Variable) -> list[str]:
    return [repr(str(text)) for text in variable.code_labels]


def _edges(kind: str, data: Mapping[str, Any], variable: Variable) -> Edges:
    codes = {c: k for k, c in enumerate(variable.categories)}
    size, labels = len(codes), _labels(variable)
    if kind == "ranks":
        return ranks(size)
    if kind == "matrix":
        rows = real_array(data["rows"], "the distance matrix")
        if rows.shape != (size, size):
            raise SpecificationError(sentence("the matrix does not fit the categories", got=rows.shape, wanted=size))
        return from_matrix(rows, labels)
    if kind == "coordinates":
        return coordinates(_places(data["points"], variable), labels)
    _check_known((c for entry in data["edges"] for c in entry[:2]), variable)
    return tuple((codes[e[0]], codes[e[1]], float(e[2]) if len(e) > 2 else 1.0) for e in data["edges"])


def _places(points: Any, variable: Variable) -> list[Any]:
    """Return the coordinates of each category, in codebook order."""
    places = {entry[0]: entry[1:] for entry in points}
    _check_known(places, variable)
    without = [c for c in variable.categories if c not in places]
    raise_all(SpecificationError, [sentence(f"category {c!r} has no coordinates") for c in without[:10]])
    return [places[c] for c in variable.categories]


def _check_known(named: Iterable[Any], variable: Variable) -> None:
    known = variable.categories
    unknown = [c for c in dict.fromkeys(named) if c not in known]
    hints = [nearest(str(c), map(str, known)) for c in unknown]
    what = [f"{c!r} is not a category of {variable.name!r}{hint}" for c, hint in zip(unknown, hints, strict=True)]
    raise_all(SpecificationError, map(sentence, what))


def _pair(mask: NDArray[np.bool_], names: Sequence[str]) -> str:
    return f"categories {_names([int(k) for k in np.argwhere(mask)[0]], names, ' and ')}"


def _names(codes: Sequence[int], names: Sequence[str], between: str = "") -> str:
    return between.join(names[k] if names else str(k) for k in codes)
