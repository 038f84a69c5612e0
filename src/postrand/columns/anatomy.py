"""Anatomy: k-anonymity as a block-diagonal bistochastic law, released as two tables (RDF §2.3; Xiao & Tao 2006)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from postrand.columns.linkage import link_rates
from postrand.errors import DataError, UsageError, nearest, raise_all, sentence, shown
from postrand.support.inputs import is_names, is_whole
from postrand.support.randomness import ReleaseKey, as_release_key, derive, words
from postrand.support.wordings import say

CLASS_COLUMN = "anatomy_class"
_LINKED = 8
_FEW_VALUES = 20
_ERROR = 1e-12


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Hold the two released tables and their guarantee.

    ``keys`` and ``others`` have one row for each record, sorted by class, each in its own random order within the
    class: the link between key combinations and other values is not released. Each of the k! links of a class was
    equally likely when it was drawn. But all classes together reveal how keys and values are related, and then some
    links are more likely. ``link_rates`` maps each other variable of few values to two rates of correct guesses: from
    the class alone, and with learning from all classes (see :func:`postrand.columns.linkage.link_rates`), the largest
    over key variables.

    ``smallest_class >= k``. ``beta`` is a lower bound of the β of the permutation (RDF (3)) over distinct key
    combinations within classes, which has ``bits`` of ``most_bits``. ``distinct_diversity`` and ``entropy_diversity``
    map each other variable to the smallest number, and the smallest ``e^entropy``, of its values in a class:
    l-diversity, which is not enforced.
    """

    keys: pa.Table
    others: pa.Table
    smallest_class: int
    classes: int
    beta: float
    bits: float
    most_bits: float
    distinct_diversity: dict[str, int]
    entropy_diversity: dict[str, float]
    link_rates: dict[str, tuple[float, float]]

    @property
    def sentence(self) -> str:
        """What is certified, in one sentence."""
        names = ("smallest_class", "classes", "beta", "bits", "most_bits")
        return say("claim.anatomy", **{name: getattr(self, name) for name in names})


def anatomise(
    table: pa.Table, key_variables: Sequence[str], k: int, release_key: ReleaseKey | bytes | str | None = None
) -> Anatomy:
    """Release a table as two tables, linked by classes of at least k records with similar key variables.

    Raises
    ------
    UsageError
        If k is not a whole number from 2 to the number of records, or the key variables are unknown, none or all.
    DataError
        If a key variable has missing values.

    Examples
    --------
    >>> table = pa.table({"age": [30, 31, 70, 72], "illness": ["a", "b", "a", "a"]})
    >>> release = anatomise(table, ["age"], 2, ReleaseKey.from_seed(1))
    >>> release.classes, release.smallest_class, release.beta >= 0.499, release.distinct_diversity
    (2, 2, True, {'illness': 1})
    """
    if not is_names(key_variables):
        raise UsageError(sentence("expected a list of names", where="key variables", got=shown(key_variables, repr)))
    others = [name for name in table.column_names if name not in key_variables]
    raise_all(UsageError, _problems(table, key_variables, others, k))
    positions = np.column_stack([_positions(table[name], name) for name in key_variables])
    labels = classes_by_proximity(positions, k)
    label = f"anatomy {k} {list(key_variables)!r}"
    key = derive(as_release_key(release_key), label, content_of(table)).order
    random = words(key, np.arange(table.num_rows, dtype=np.uint64), 0)
    return describe_tables(
        _released(table.select(list(key_variables)), labels, random[:, 0]),
        _released(table.select(others), labels, random[:, 1]),
    )


def content_of(table: pa.Table) -> bytes:
    """Return a digest of the table, so that another table is shuffled differently; used in a keyed derivation only."""
    found = hashlib.sha256(repr(table.column_names).encode())
    for name in table.column_names:
        column = table[name].unify_dictionaries().combine_chunks()
        values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        encoded = values.dictionary_encode(null_encoding="encode")
        found.update(repr(encoded.dictionary.to_pylist()).encode())
        found.update(encoded.indices.to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    return found.digest()


def describe_tables(keys: pa.Table, others: pa.Table) -> Anatomy:
    """Return the guarantee of two released tables, from their values only; each starts with the column of classes.

    Raises
    ------
    DataError
        If they are not two tables of the same classes, or a key variable has missing values.
    """
    labels, own = _labels(keys), _labels(others)
    sizes = np.bincount(labels)
    if not np.array_equal(sizes, np.bincount(own)) or not sizes.all():
        raise DataError(sentence("the two tables do not have the same classes", wanted="numbers 0, 1, ... in both"))
    names = keys.column_names[1:]
    positions = [_positions(keys[name], name) for name in names]
    combinations = np.unique(np.column_stack([labels, *positions]), axis=0)
    entropy, most = _block_entropy(np.bincount(combinations[:, 0].astype(np.int64)))
    diversity = {name: _diversity(own, _codes(others[name])) for name in others.column_names[1:]}
    return Anatomy(
        keys=keys,
        others=others,
        smallest_class=int(sizes.min()),
        classes=int(sizes.size),
        beta=entropy / most * (1 - _ERROR) if most else 1.0,
        bits=entropy / math.log(2) * (1 - _ERROR),
        most_bits=most / math.log(2),
        distinct_diversity={name: found[0] for name, found in diversity.items()},
        entropy_diversity={name: found[1] for name, found in diversity.items()},
        link_rates=_link_rates(labels, positions, own, {n: _codes(others[n]) for n in others.column_names[1:]}),
    )


def _link_rates(
    labels: NDArray[np.int64],
    positions: Sequence[NDArray[np.float64]],
    own: NDArray[np.int64],
    codes: dict[str, NDArray[np.int64]],
) -> dict[str, tuple[float, float]]:
    """Return the rates of the first variables of few values, over the first key variables, rounded up to 0.001."""
    found: dict[str, tuple[float, float]] = {}
    for name, values in codes.items():
        if len(found) == _LINKED:
            break
        distinct, dense = np.unique(values, return_inverse=True)
        if distinct.size <= _FEW_VALUES:
            rates = [rate for key in positions[:_LINKED] if (rate := link_rates(labels, key, own, dense))]
            best = max(rates, key=lambda rate: rate[1], default=None)
            found |= {} if best is None else {name: (_up(best[0]), _up(best[1]))}
    return found


def _up(rate: float) -> float:
    """Round up to a thousandth: another order of addition on another machine must not change the result."""
    return min(math.ceil(rate * 1000 - 1e-6) / 1000, 1.0)


def classes_by_proximity(positions: ArrayLike, k: int) -> NDArray[np.int64]:
    """Return class labels 0..L-1 (n,) with at least k records each: Mondrian's median cuts (LeFevre et al. 2006).

    ``positions`` (n, d) are numbers scaled to a common range; the widest dimension is cut at its middle record if
    both halves keep k records. Equal records are cut in their order, so every class has fewer than 2k.

    >>> classes_by_proximity([[0.0], [0.1], [0.9], [1.0]], 2).tolist()
    [0, 0, 1, 1]
    """
    points = np.asarray(positions, dtype=np.float64)
    labels = np.empty(len(points), dtype=np.int64)
    waiting, count = [np.arange(len(points))], 0
    while waiting:
        members = waiting.pop()
        if members.size < 2 * k:
            labels[members] = count
            count += 1
            continue
        own = points[members]
        widest = own[:, np.ptp(own, axis=0).argmax()]
        members = members[np.argsort(widest, kind="stable")]
        waiting += [members[members.size // 2 :], members[: members.size // 2]]
    return labels


def _problems(table: pa.Table, keys: Sequence[str], others: Sequence[str], k: int) -> list[str]:
    problems = [
        sentence(
            f"no column {name!r}{nearest(name, table.column_names)}",
            where="key variables",
            wanted=", ".join(table.column_names),
        )
        for name in keys
        if name not in table.column_names
    ]
    twice = sorted({name for name in keys if keys.count(name) > 1})
    problems += [sentence(f"column {name!r} is named twice", where="key variables") for name in twice]
    if not keys or not others:
        problems.append(sentence("both key variables and other variables are needed", where="key variables"))
    if CLASS_COLUMN in table.column_names:
        problems.append(sentence(f"a column is already named {CLASS_COLUMN!r}", fix="rename it"))
    if not is_whole(k, 2):
        problems.append(sentence("k is not a whole number of at least 2", got=shown(k, repr)))
    elif k > table.num_rows:
        problems.append(sentence("k is larger than the number of records", got=k, fix="choose a smaller k"))
    return problems


def _labels(table: pa.Table) -> NDArray[np.int64]:
    """Return the class of each record, from whole numbers or their text."""
    if table.column_names[:1] != [CLASS_COLUMN] or table.num_columns < 2:
        raise DataError(sentence(f"the first column of a table is not {CLASS_COLUMN!r}"))
    column = table[CLASS_COLUMN]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        labels = np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)
    except (pa.ArrowException, ValueError):
        labels = np.array([-1])
    if column.null_count or not labels.size or labels.min() < 0 or labels.max() >= labels.size:
        raise DataError(sentence("a value is not a class number", where=f"column {CLASS_COLUMN!r}"))
    return labels


def _positions(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """Return numbers (texts that all are numbers count as such), or the ranks of categories, scaled to 0..1."""
    if column.null_count:
        raise DataError(
            sentence("a key variable has missing values", where=f"column {name!r}", fix="make them a category")
        )
    if pa.types.is_dictionary(column.type) and not column.type.ordered:
        column = column.cast(column.type.value_type)  # unordered codes do not measure similarity
    try:
        values = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowException:
        values = _codes(column).astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(sentence("a key variable has values that are not finite", where=f"column {name!r}"))
    values = values / 2  # exact, and keeps the difference of any two numbers finite
    width = np.ptp(values)
    scaled: NDArray[np.float64] = (values - values.min()) / width if width else np.zeros(values.size)
    return scaled


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a code for each value: in dictionary order if there is one, otherwise sorted; missing is a value."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries().combine_chunks()
        codes = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        return np.asarray(codes, dtype=np.int64)
    try:
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    except pa.ArrowNotImplementedError:
        raise DataError(sentence("values of this type have no order", got=column.type, fix="drop the column")) from None
    return np.asarray(ranks.to_numpy(), dtype=np.int64) - 1


def _released(table: pa.Table, labels: NDArray[np.int64], random: NDArray[np.uint64]) -> pa.Table:
    """Sort by class, then at random: with independent words every order within a class is equally likely."""
    released = table.add_column(0, CLASS_COLUMN, pa.array(labels))
    return released.take(np.lexsort((random, labels)))


def _block_entropy(sizes: NDArray[np.int64]) -> tuple[float, float]:
    """Return ``(1/r) Σ n_l ln n_l`` and ``ln r`` with ``r = Σ n_l`` (RDF (3), (4))."""
    total = int(sizes.sum())
    return float((sizes * np.log(sizes)).sum()) / total, math.log(total)


def _diversity(labels: NDArray[np.int64], codes: NDArray[np.int64]) -> tuple[int, float]:
    """Return the smallest number of distinct values in a class, and the smallest ``e^entropy`` (rounded down)."""
    pairs, counts = np.unique(np.column_stack([labels, codes]), axis=0, return_counts=True)
    # Sums must not depend on the coding of values, which depends on the text of the file.
    order = np.lexsort((counts, pairs[:, 0]))
    classes, counts = pairs[order, 0], counts[order]
    sizes = np.bincount(classes, weights=counts)
    share = counts / sizes[classes]
    entropy = np.bincount(classes, weights=-share * np.log(share))
    return int(np.bincount(classes).min()), max(float(np.exp(entropy.min()) * (1 - _ERROR)), 1.0)
