"""The record types of a file over its key variables, and the sets of keys that an attacker can know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.data.table import ContingencyTable
from postrand.errors import PrivacyError, nearest, raise_all, sentence, shown
from postrand.support.inputs import is_names, real_array


@dataclass(frozen=True, slots=True, eq=False)
class KeyTypes:
    """Hold the K types of a key domain and how many records of a file have each (CHR's 𝒳 and ``U0``).

    ``codes`` has shape (K, J): one row of key codes for each category of the (joint) transition matrix, in its order.
    ``counts`` has shape (K,): integers, the confidential frequencies. Nothing here belongs in a release. ``given`` are
    those of the variables that are released as they are: whoever overviews some keys sees them too.

    Raises
    ------
    PrivacyError
        With every problem at once: counts that are not whole records, codes that do not fit, an empty file.

    Examples
    --------
    >>> types = KeyTypes.of_counts([[3, 0], [1, 6]], ("sex", "veteran"))
    >>> types.size, types.records, types.codes.tolist()
    (4, 10, [[0, 0], [0, 1], [1, 0], [1, 1]])
    """

    variables: tuple[str, ...]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (is_names(self.variables) and is_names(self.given)):
            raise PrivacyError(sentence("key variables are not a list of names", got=shown(self.variables, repr)))
        object.__setattr__(self, "variables", tuple(self.variables))
        object.__setattr__(self, "given", tuple(self.given))
        codes, counts = (real_array(a, "the table of types", PrivacyError) for a in (self.codes, self.counts))
        raise_all(PrivacyError, _problems(self.variables, codes, counts))
        for name, array in (("codes", codes), ("counts", counts)):
            array = array.astype(np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def of_counts(cls, counts: ArrayLike, variables: Sequence[str] | None = None) -> KeyTypes:
        """Return the full product domain, in C order, of an array of counts with one axis for each key variable."""
        array: NDArray[Any] = real_array(counts, "the table of counts", PrivacyError)
        if not array.ndim:
            raise PrivacyError(sentence("the table of counts has no axis", wanted="one for each key variable"))
        names = [f"key {axis}" for axis in range(array.ndim)] if variables is None else variables
        codes = np.indices(array.shape).reshape(array.ndim, -1).T
        return cls(tuple(names), codes, array.ravel())

    @classmethod
    def of_table(cls, table: ContingencyTable, cells: ArrayLike | None = None, given: Sequence[str] = ()) -> KeyTypes:
        """Return the types of a contingency table; ``cells``, shape (K, J), lists the feasible ones of a joint block.

        Raises
        ------
        PrivacyError
            If records lie outside ``cells``, or have a missing key that is kept as missing.
        """
        if table.omitted:
            what, fix = (
                "a record with a missing key variable has no type",
                "set missing = 'category' for the key variables",
            )
            raise PrivacyError(sentence(what, where=", ".join(table.variables), fix=fix))
        if cells is None:
            return cls.of_counts(table.dense(), table.variables)
        codes = np.asarray(cells, dtype=np.int64)
        counts = table.dense()[tuple(codes.T)]
        if counts.sum() != table.total:
            raise PrivacyError(sentence("records lie outside the feasible cells", fix="add the cells that occur"))
        return cls(table.variables, codes, counts, tuple(given))

    def part(self, members: NDArray[np.intp]) -> KeyTypes:
        """Return the types at these positions, with their records alone."""
        return KeyTypes(self.variables, self.codes[members], self.counts[members], self.given)

    @property
    def size(self) -> int:
        """The number K of types, occurring or not."""
        return len(self.counts)

    @property
    def records(self) -> int:
        """The number n of records."""
        return int(self.counts.sum())

    @property
    def occurring(self) -> NDArray[np.int64]:
        """The indices of the types that occur."""
        return np.flatnonzero(self.counts > 0)

    def key_sets(self, subsets: int | Iterable[Iterable[str]]) -> tuple[tuple[int, ...], ...]:
        """Return the chosen sets π as tuples of axes: see :func:`key_sets`."""
        return key_sets(self.variables, subsets, self.given)

    def cell_of(self, axes: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the values ``k0`` that the keys ``axes`` take, shape (C, |π|), and the value of each type, (K,)."""
        values, cell = np.unique(self.codes[:, axes], axis=0, return_inverse=True)
        return values, cell.reshape(-1).astype(np.int64)

    def incidence(self, sets: tuple[tuple[int, ...], ...]) -> scipy.sparse.csr_array:
        """Return the cells (π, k0) as a sparse 0/1 matrix (K, C): the sets one after the other, every value of each."""
        columns, offset = [], 0
        for axes in sets:
            values, cell = self.cell_of(axes)
            columns.append(cell + offset)
            offset += len(values)
        rows = np.tile(np.arange(self.size), len(sets))
        return scipy.sparse.csr_array((np.ones(rows.size), (rows, np.concatenate(columns))), shape=(self.size, offset))


def key_sets(
    variables: Sequence[str], subsets: int | Iterable[Iterable[str]], given: Sequence[str] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return the chosen sets π of keys as tuples of axes: all of one size, or those named; ``given`` join every set.

    Raises
    ------
    PrivacyError
        If a set is larger than the number of keys, is empty, or names an unknown key or one key twice.

    Examples
    --------
    >>> key_sets(("region", "sex", "age"), 1, given=("region",))
    ((0, 1), (0, 2))
    """
    always = [axis for axis, name in enumerate(variables) if name in given]
    free = [axis for axis in range(len(variables)) if axis not in always]
    if isinstance(subsets, int):
        if not 1 <= subsets <= len(free):
            what = "a set of keys is larger than the number of keys"
            raise PrivacyError(sentence(what, got=subsets, wanted=f"1..{len(free)}"))
        chosen: Iterable[Iterable[int]] = combinations(free, subsets)
    else:
        names = tuple(tuple(s) for s in subsets)
        raise_all(PrivacyError, _set_problems(names, tuple(variables)))
        chosen = [map(tuple(variables).index, s) for s in names]
    return tuple(dict.fromkeys(tuple(sorted({*always, *axes})) for axes in chosen))


def _set_problems(sets: tuple[tuple[str, ...], ...], variables: tuple[str, ...]) -> Iterable[str]:
    if not sets:
        yield sentence("no set of keys is chosen", fix="name at least one, or give a size such as 3")
    for chosen in sets:
        where = f"set {', '.join(chosen)}"
        for name in dict.fromkeys(chosen):
            if name not in variables:
                hint = nearest(name, variables)
                yield sentence(f"no key {name!r}{hint}", where=where, wanted=", ".join(variables))
        if not chosen or len(set(chosen)) != len(chosen):
            yield sentence("a set of keys is empty, or names one twice", where=where)
        elif len(chosen) > len(variables):
            yield sentence("a set of keys is larger than the number of keys", where=where)


def _problems(variables: tuple[str, ...], codes: NDArray[np.generic], counts: NDArray[np.generic]) -> Iterable[str]:
    if len(set(variables)) != len(variables) or not variables:
        yield sentence("key variables are not distinct names", got=", ".join(map(repr, variables)))
    if codes.shape != (counts.size, len(variables)) or counts.ndim != 1:
        yield sentence(
            "types and counts differ in shape",
            got=f"codes {codes.shape}, counts {counts.shape}",
            wanted=f"(K, {len(variables)}) and (K,)",
        )
        return
    if not (codes == np.rint(codes.astype(float))).all():
        yield sentence("a code of a type is not a whole number")
    if len(np.unique(codes, axis=0)) != len(codes):
        yield sentence("a type is listed twice")
    whole = np.issubdtype(counts.dtype, np.integer) or bool((counts == np.rint(counts.astype(float))).all())
    if not whole or counts.astype(float).min(initial=0) < 0:
        yield sentence(
            "counts are not numbers of records", wanted="integers >= 0", fix="count records, not sampling weights"
        )
    elif counts.astype(float).sum() < 1:
        yield sentence("the file has no records")
