"""Who might this be: what a release says about a person whose key values are known (CHR §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from postrand.errors import SpecificationError, UsageError, nearest, raise_all, sentence
from postrand.estimate import tidy
from postrand.estimate.axes import Array, Axis, apply
from postrand.estimate.tally import Tally, tally
from postrand.mechanism import Mechanism

STEPS, WORK = 200, 200_000_000
"""EM steps for the law of the other persons: at most so many, and fewer where steps times cells exceed WORK."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Hold the posterior of a target for each released combination of some keys.

    All arrays have one axis for each variable, in the order named, categories in codebook order. ``posterior`` is the
    probability that *one* record released with this combination is the target, the target being in the file and the
    others as the release lets expect; ``bound`` the largest that it can be, whoever the others are. Both are nan where
    no record shows the combination. ``records``: how many released records show it.
    """

    variables: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    posterior: Array
    bound: Array
    records: Array

    @property
    def largest(self) -> float:
        """The largest bound over the combinations that the release shows: no posterior is above it."""
        return float(np.nanmax(self.bound))

    def __repr__(self) -> str:
        cells = f"{self.bound.size:,} combinations, {np.count_nonzero(self.records):,} of them released"
        return f"Candidates({' × '.join(self.variables)}: {cells}; largest bound {self.largest:.3g})"

    def to_arrow(self) -> pa.Table:
        """Return one row for each combination: the labels, ``posterior``, ``bound`` and ``records``."""
        numbers = {"posterior": self.posterior, "bound": self.bound, "records": self.records}
        return tidy.by_cell(self.variables, self.labels, numbers)

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a pandas DataFrame; raises UsageError where pandas is not installed."""
        return tidy.to_pandas(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; None where no record shows the combination."""
        return {
            "variables": list(self.variables),
            "labels": [list(texts) for texts in self.labels],
            "posterior": tidy.plain(self.posterior),
            "bound": tidy.plain(self.bound),
            "records": tidy.plain(self.records),
        }


def candidates(frame: Any, keys: Sequence[str], target: Mapping[str, str], mechanism: Mechanism) -> Candidates:
    """Return ``P(record = target | N~(k0))`` for a record released with ``k0``, for every ``k0`` of the keys π.

    Of n records, ``N = N~(k0)`` show k0. The target of type m is released as k0 with probability
    ``a = Σ_{k: k_π=k0} M[m,k]``; of the others, K are. Each of the N is the target with probability

    ``(1/N) a P(K=N−1) / (a P(K=N−1) + (1−a) P(K=N)) = a / (a N + (1−a) (n−N) b/(1−b))``

    where the last holds if each other person is released as k0 with probability b. Dividing by the observed count
    alone, ``a/N``, would be too low wherever few others can be released as k0.

    ``posterior`` takes for b its mean over the other persons, with the maximum likelihood law given the release. It is
    computed with the target's type in that law and without it, and the larger of the two counts: not too low for a
    person whom nobody in the file is like, and rather too high for others. What remains is the error of the
    estimated law, on either side. ``bound`` takes the least b of any type of person
    (``P(K=N)/P(K=N−1)`` rises with the b of every other person): it is never too low, and is reached where all others
    are of that type. Both are at most ``1/N``.

    Both are about the count N alone, as C1 is: it bounds ``a / Σ_l U0(l) Σ_{k: k_π=k0} M[l,k]``, CHR's posterior, whose
    denominator is the confidential expectation of N. An attacker who compares the record with all others knows more:
    ``risk.link`` carries that attack out.

    Parameters
    ----------
    frame
        The released records: a pandas, polars or pyarrow table.
    keys
        The variables π that are overviewed at once.
    target
        The person's true category of each key, and of each variable perturbed jointly with one.

    Raises
    ------
    UsageError
        If a category of the target is missing or unknown.
    SpecificationError
        If a key is in a split: most records do not show it.
    DataError
        If the data do not fit the mechanism.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> mech = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, codebook=book)
    >>> found = candidates(pa.table({"sex": ["F"] * 60 + ["M"] * 40}), ["sex"], {"sex": "F"}, mech)
    >>> found.posterior.round(5).tolist(), found.bound.round(5).tolist()
    ([0.01552, 0.00625], [0.01552, 0.01])
    """
    for name in keys:
        if name in mechanism.partly:
            what = f"{name!r} is in the split: most records do not show the whole key, and a bound would be of some"
            fix = "use the level of the certificate, or keys that blocks perturb"
            raise SpecificationError(sentence(what, fix=fix))
    counted = tally(frame, keys, mechanism)
    layout = counted.layout
    raise_all(UsageError, [problem for axis in layout.axes for problem in _problems(axis, target)])
    mass = reduce(np.multiply.outer, [_released_as(axis, target) for axis in layout.axes])
    projections = [axis.projection for axis in layout.axes]
    shown = apply(projections, counted.released)
    least = reduce(np.multiply.outer, [_least(axis) for axis in layout.axes])
    bound = _one_of(shown, mass, least)
    posterior = bound  # blocks that read one stratum: a product of their laws is not the law of a record
    if not layout.shared:
        posterior = _one_of(shown, mass, np.maximum(_others(counted, target, mass), least))
    arrange = layout.arrange
    return Candidates(layout.variables, layout.labels, arrange(posterior), arrange(bound), arrange(shown))


def _one_of(shown: Array, mass: Array, other: Array) -> Array:
    """Return ``a / (a N + (1−a) (n−N) b/(1−b))``, nan where N is 0; ``other`` is b."""
    odds = (shown.sum() - shown) * other / np.maximum(1 - other, 1e-300)
    whole = mass * shown + (1 - mass) * odds
    found = np.divide(mass, whole, out=np.zeros_like(mass), where=whole > 0)
    return np.where(shown > 0, np.minimum(found, 1 / np.maximum(shown, 1)), np.nan)


def _others(counted: Tally, target: Mapping[str, str], mass: Array) -> Array:
    """Return the probability that another person is released with each combination, at its lower.

    The law p of the persons is the maximum likelihood one given the release, by EM: ``p M``, or the same without the
    target's type, over ``1 − p[m]``.
    """
    layout = counted.layout
    onto = [None if axis.matrix is None else axis.matrix.array.T for axis in layout.axes]
    back = [None if axis.matrix is None else axis.matrix.array for axis in layout.axes]
    seen = counted.released / counted.total
    law = np.full(seen.shape, 1 / seen.size)
    for _ in range(max(10, min(STEPS, WORK // seen.size))):
        released = apply(onto, law)
        law = law * apply(back, np.divide(seen, released, out=np.zeros_like(seen), where=released > 0))
    own = float(law[tuple(_cell(axis, target) for axis in layout.axes)])
    shown = apply([axis.projection for axis in layout.axes], apply(onto, law))
    return np.clip(np.minimum(shown, (shown - own * mass) / max(1 - own, 1e-12)), 0.0, 1.0)


def _least(axis: Axis) -> Array:
    """Return ``min_l Σ_{k: k_π=k0} M[l,k]`` on one axis, for each kept cell k0."""
    rows = np.eye(axis.size) if axis.matrix is None else axis.matrix.array
    least: Array = (rows if axis.projection is None else rows @ axis.projection.T).min(axis=0)
    return least


def _cell(axis: Axis, target: Mapping[str, str]) -> int:
    """Return the position of the target's cell on one axis."""
    code = [texts.index(target[name]) for name, texts in zip(axis.names, axis.labels, strict=True)]
    return int(np.flatnonzero((axis.cells == code).all(axis=1))[0])


def _released_as(axis: Axis, target: Mapping[str, str]) -> Array:
    """Return ``Σ_{k: k_π=k0} M[m,k]`` on one axis, for the target's cell m: a vector over its kept cells."""
    row = np.zeros(axis.size)
    row[_cell(axis, target)] = 1.0
    if axis.matrix is not None:
        row = row @ axis.matrix.array
    return row if axis.projection is None else np.asarray(axis.projection @ row)


def _problems(axis: Axis, target: Mapping[str, str]) -> list[str]:
    found = []
    for name, texts in zip(axis.names, axis.labels, strict=True):
        if name not in target:
            what = f"the target's {name!r} is missing"
            found.append(
                sentence(what, where="*".join(axis.names), fix="give every variable perturbed jointly with a key")
            )
        elif target[name] not in texts:
            what = f"{name!r} has no such category{nearest(target[name], texts)}"
            found.append(sentence(what, where="target", wanted=", ".join(texts)))
    if not found:
        code = [texts.index(target[name]) for name, texts in zip(axis.names, axis.labels, strict=True)]
        if not (axis.cells == code).all(axis=1).any():
            found.append(sentence("the target is not a feasible combination", where="*".join(axis.names)))
    return found
