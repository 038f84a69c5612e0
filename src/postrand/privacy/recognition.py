"""Security against spontaneous recognition (CHR condition C1)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from postrand.data.table import ContingencyTable
from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits
from postrand.privacy.key_types import KeyTypes, key_sets
from postrand.support import options
from postrand.support.exact import format_upper
from postrand.support.guesses import of_hundred
from postrand.support.inputs import finite, is_names, is_whole
from postrand.support.options import Range
from postrand.support.wordings import claim

_HINT = "smaller protects more: the largest chance that a recognised person is the right one"
_HALF = 1 << 27  # splits a weight of at most 2^53 so that sums over up to 2^36 records stay below 2^63


@dataclass(frozen=True, slots=True)
class Recognition:
    """The largest posterior of one set of keys: internal, since it names a released combination of the file."""

    posterior: Fraction
    keys: tuple[str, ...]
    combination: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpontaneousRecognition:
    """Ask that no released combination of few keys points to a person with posterior above alpha (CHR C1, (1)).

    For every chosen set π of keys, every value ``k0`` of them and every type ``m`` that occurs in the file,
    ``Σ_{k: k_π=k0} M[m,k] <= α Σ_l U0(l) Σ_{k: k_π=k0} M[l,k]``: the left side over the sum on the right is the
    posterior that a record released with ``k0`` is a given person of type m, each record being equally likely before.
    ``U0`` are the file's own frequencies: :meth:`on` ties the model to them. They are confidential, so they are no
    option of the model and never published, and a public release does not suffice to recompute the claim.

    Parameters
    ----------
    alpha
        The largest posterior allowed, 0 < α < 1, taken as the decimal that it prints as (0.1 means 1/10).
    subsets
        The sets of keys that can be overviewed at once: a size (every set of so many keys; CHR: 3), or their names.
        Variables of the block that are released as they are, its strata, join every set.

    Raises
    ------
    PrivacyError
        If α is not in (0, 1), or ``subsets`` is neither a size nor lists of names.

    Examples
    --------
    >>> model = SpontaneousRecognition(alpha=0.5, subsets=1).on([[1, 3], [2, 2]])
    >>> model.check([TransitionMatrix.identity(4)]).holds
    True
    >>> SpontaneousRecognition(0.3, 1).on([[1, 3], [2, 2]]).largest([TransitionMatrix.identity(4)]).posterior
    Fraction(1, 3)
    """

    name: ClassVar[str] = "recognition"
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.recognition",
        plain="No released combination of a few traits points to one person with more than the chance α that it is "
        "the right one. The claim is about this file alone.",
        level="alpha",
        post_processing=False,
        objective="l2",
        structure="least-loss",
        rank=30,
    )
    needs_file: ClassVar[bool] = True
    not_covered: ClassVar[str] = "recognition"
    alpha: float = field(metadata={"range": Range(0.01, 0.9, 0.1, "probability", _HINT)})
    subsets: int | tuple[tuple[str, ...], ...] = 3
    types: KeyTypes | None = field(default=None, repr=False, compare=False, metadata={"confidential": True})

    def __post_init__(self) -> None:
        raise_all(PrivacyError, _option_problems(self.alpha, self.subsets))
        object.__setattr__(self, "alpha", finite(self.alpha))
        if not isinstance(self.subsets, int):
            object.__setattr__(self, "subsets", tuple(tuple(s) for s in self.subsets))
        if self.types is not None:
            self.types.key_sets(self.subsets)

    @classmethod
    def example(cls, counts: NDArray[np.int64]) -> SpontaneousRecognition:
        """Return the model for a variable with these counts, of which those below 25 are rare."""
        return cls(0.04, 1).on(counts)

    def on(
        self, file: KeyTypes | ContingencyTable | ArrayLike, variables: Sequence[str] | None = None
    ) -> SpontaneousRecognition:
        """Return the model, bound to a file's frequencies: key types, a table of the keys, or an array of counts.

        Raises
        ------
        PrivacyError
            If no matrix can meet the model on this file (n < 1/α), or its sets of keys do not fit the file.
        """
        if isinstance(file, ContingencyTable):
            file = KeyTypes.of_table(file)
        types = file if isinstance(file, KeyTypes) else KeyTypes.of_counts(file, variables)
        self.require(types.records)
        return dataclasses.replace(self, types=types)

    def require(self, records: int) -> None:
        """Raise PrivacyError if n < 1/α: summed over k0, C1 says 1 <= α n; equal rows attain 1/n everywhere."""
        if records * self.limit < 1:
            raise PrivacyError(
                sentence(
                    "no matrix can meet C1: even a release that is independent of the true values has posterior 1/n",
                    where=f"alpha {self.alpha}",
                    got="fewer than 1/alpha records",
                    wanted=f"n >= {math.ceil(1 / self.limit)}",
                    fix="raise alpha, or release a larger file",
                )
            )

    @property
    def limit(self) -> Fraction:
        """α as the exact decimal that it prints as."""
        return Fraction(repr(float(self.alpha)))

    @property
    def file(self) -> KeyTypes:
        """The key types that the model is bound to; raises PrivacyError if there are none."""
        if self.types is None:
            raise PrivacyError(
                sentence(
                    "C1 depends on the confidential frequencies of the key variables, which the model does not contain",
                    where=f"recognition, alpha {self.alpha}",
                    fix="bind it to the file's table of key variables: model.on(table)",
                )
            )
        return self.types

    @property
    def key_sets(self) -> tuple[tuple[int, ...], ...]:
        """The chosen sets π, as axes of the file's key types."""
        return self.file.key_sets(self.subsets)

    def posteriors(self, matrices: Sequence[TransitionMatrix]) -> Iterator[Recognition]:
        """Yield the exact largest posterior of each set of keys, and the combination where it is attained.

        ``matrices`` are the independent blocks, in the order of the key variables: one matrix on all K types, or
        matrices whose sizes divide the product domain's axes in order.

        Raises
        ------
        PrivacyError
            If the matrices do not fit the key types.
        """
        file = self.file
        groups = _axes_of_blocks(file, matrices)
        occurring = file.occurring
        for axes in self.key_sets:
            values, mass = _released_mass(file, matrices, groups, axes)
            expected = _exact_sum(file.counts, mass)
            top = mass[occurring].max(axis=0)
            scores = [Fraction(int(a), int(b)) if b else Fraction(0) for a, b in zip(top, expected, strict=True)]
            worst = max(range(len(scores)), key=scores.__getitem__)
            keys = tuple(file.variables[a] for a in axes)
            yield Recognition(scores[worst], keys, tuple(int(v) for v in values[worst]))

    def largest(self, matrices: Sequence[TransitionMatrix]) -> Recognition:
        """Return the largest posterior over every chosen set, and where it is attained (for the curator)."""
        return max(self.posteriors(matrices), key=lambda found: found.posterior)

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare every posterior with α in exact rational arithmetic, all conditions of C1.

        Where the model holds, ``level`` is α itself: the exact posterior would tell of the confidential frequencies
        (:meth:`largest` gives it). ``where`` names the keys only.
        """
        found = self.largest(matrices)
        where = f"keys {', '.join(found.keys)}"
        if found.posterior <= self.limit:
            return dataclasses.replace(self._holding(self.file.given), where=where)
        level = _float_upper(found.posterior)
        return Finding(False, level, f"a posterior reaches {format_upper(level)}", where=where, recomputable=False)

    def part(self, members: NDArray[np.intp]) -> SpontaneousRecognition:
        """Return the model, bound only to records whose type is one of ``members``, for example a stratum.

        C1 in every one of several disjoint parts implies C1 on the whole: the sums on its right side only grow.
        """
        return self.on(self.file.part(members))

    def stated(self, variables: Sequence[str], given: Sequence[str] = ()) -> Finding:
        """Return the finding of a met check, for a certificate; it cannot be recomputed without the file.

        Raises
        ------
        PrivacyError
            If the sets of keys do not fit the variables.
        """
        key_sets(variables, self.subsets, given)
        return self._holding(given)

    def promise(self, size: int) -> str:
        """Return what α means for a person who seems to be recognised, in words; ``size`` does not matter."""
        most = of_hundred(self.alpha, most=True)
        return (
            f"of 100 released records in which somebody recognises a person by a few traits, at most {most} are theirs"
        )

    def _holding(self, given: Sequence[str]) -> Finding:
        figures = {"given": list(given)} if given else {}
        text = claim({"privacy": options.to_dict(self), "level": self.alpha, "figures": figures})
        return Finding(True, self.alpha, text, recomputable=False, figures=figures)

    def constraints(self, size: int) -> LinearConstraints:
        """Return C1 as rows on ``vec(M)``, one for each cell (π, k0) and each type with ``0 < U0(m) < 1/α``.

        The others hold for every matrix (CHR (2)). Rows are dense in the cell's columns: the designer's own programme
        keeps one auxiliary variable for each cell instead.
        """
        file = self.file
        if size != file.size:
            raise PrivacyError(sentence("the matrix does not fit the key types", got=size, wanted=file.size))
        cells = file.incidence(self.key_sets).T.tocsr()  # (C, K)
        weighted = scipy.sparse.csr_array(np.asarray(file.counts, dtype=float)[None, :])
        expected = _kron_rows(weighted, cells)
        blocks = []
        for m in self.rare_types():
            unit = scipy.sparse.csr_array(([1.0], ([0], [m])), shape=(1, size))
            blocks.append(_kron_rows(unit, cells) - float(self.limit) * expected)
        A = scipy.sparse.vstack(blocks, format="csr") if blocks else scipy.sparse.csr_array((0, size * size))
        return LinearConstraints(scipy.sparse.csr_array(A), np.zeros(A.shape[0]))

    def rare_types(self) -> NDArray[np.int64]:
        """Return the types with ``0 < U0(m) < 1/α``; C1 holds for all others whatever the matrix (CHR (2))."""
        counts = self.file.counts
        return np.flatnonzero((counts > 0) & (counts * self.limit.numerator < self.limit.denominator))


def _option_problems(alpha: Any, subsets: Any) -> Iterator[str]:
    if not 0 < finite(alpha) < 1:
        yield sentence("alpha is not a probability", got=shown(alpha, repr), wanted="0 < alpha < 1")
    got = shown(subsets, repr)
    if isinstance(subsets, int) and not is_whole(subsets, 1):
        yield sentence("a set of keys has no members", got=got, wanted="a size >= 1, or lists of key names")
    elif not isinstance(subsets, int) and not (isinstance(subsets, (tuple, list)) and all(map(is_names, subsets))):
        yield sentence("subsets is not a size or lists of key names", got=got)


def _axes_of_blocks(file: KeyTypes, matrices: Sequence[TransitionMatrix]) -> list[tuple[int, ...]]:
    """Return the axes that each matrix covers; several blocks need the full product domain, in C order."""
    if len(matrices) == 1:
        if matrices[0].size != file.size:
            what = "the matrix does not fit the key types"
            raise PrivacyError(sentence(what, got=matrices[0].size, wanted=file.size))
        return [tuple(range(len(file.variables)))]
    shape = tuple(int(s) + 1 for s in file.codes.max(axis=0))
    full = (
        math.prod(shape) == file.size
        and (np.ravel_multi_index(tuple(file.codes.T), shape) == np.arange(file.size)).all()
    )
    groups, axis = [], 0
    for matrix in matrices:
        start, size = axis, 1
        while axis < len(shape) and size < matrix.size:
            size *= shape[axis]
            axis += 1
        groups.append(tuple(range(start, axis)))
        full = full and size == matrix.size
    if not full or axis != len(shape):
        got = " x ".join(str(m.size) for m in matrices)
        raise PrivacyError(
            sentence("the blocks do not divide the key variables in order", got=got, wanted=f"parts of {shape}")
        )
    return groups


def _released_mass(
    file: KeyTypes, matrices: Sequence[TransitionMatrix], groups: list[tuple[int, ...]], axes: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the values k0 of the keys ``axes`` and ``Σ_{k: k_π=k0} M[m,k]``, shape (K, C), as exact integers.

    The unit is 2^-53 to the power of the number of blocks that touch the set: the others sum to 1.
    """
    if len(matrices) == 1:
        values, cell = file.cell_of(axes)
        return values, _grouped(matrices[0].weights, cell, len(values))
    mass: NDArray[Any] = np.ones((file.size, 1), dtype=object)
    values = np.zeros((1, 0), dtype=np.int64)
    for matrix, group in zip(matrices, groups, strict=True):
        inside = [a for a in group if a in axes]
        if not inside:
            continue
        codes = np.unique(file.codes[:, group], axis=0)
        part, cell = np.unique(codes[:, [group.index(a) for a in inside]], axis=0, return_inverse=True)
        summed = _grouped(matrix.weights, cell.reshape(-1), len(part)).astype(object)
        own = np.unique(file.codes[:, group], axis=0, return_inverse=True)[1].reshape(-1)
        mass = (mass[:, :, None] * summed[own][:, None, :]).reshape(file.size, -1)
        values = np.hstack([np.repeat(values, len(part), axis=0), np.tile(part, (len(values), 1))])
    return values, mass


def _grouped(weights: NDArray[np.int64], cell: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Return the columns of ``weights`` summed by cell: integers of at most 2^53."""
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(cells))
    return np.asarray(np.add.reduceat(weights[:, order], starts, axis=1))


def _exact_sum(counts: NDArray[np.int64], mass: NDArray[Any]) -> NDArray[Any]:
    """Return ``Σ_l U0(l) mass[l, c]`` as Python integers."""
    if mass.dtype == object:
        return np.asarray(counts.astype(object) @ mass)
    high, low = counts @ (mass // _HALF), counts @ (mass % _HALF)
    return np.asarray(high.astype(object) * _HALF + low.astype(object))


def _float_upper(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _kron_rows(row: scipy.sparse.csr_array, cells: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return ``row ⊗ cells``: the functionals ``Σ_l row[l] Σ_{k∈c} M[l,k]`` of ``vec(M)``, one row for each cell."""
    return scipy.sparse.csr_array(scipy.sparse.kron(row, cells, format="csr"))
