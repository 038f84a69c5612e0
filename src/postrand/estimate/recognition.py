"""Who might this be: what a release says about a person whose key values are known (CHR §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from postrand.errors import UsageError, nearest, raise_all, sentence
from postrand.estimate.axes import Array, Axis, apply
from postrand.estimate.tally import tally
from postrand.mechanism import Mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Hold the posterior of a target for each released combination of some keys.

    ``posterior`` has one axis for each variable, in the order named, categories in codebook order: the probability
    that *one* record released with this combination is the target, the target being in the file. It is nan where no
    record shows the combination. ``records`` has the same shape: how many released records show it.
    """

    variables: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    posterior: Array
    records: Array

    @property
    def largest(self) -> float:
        """The largest posterior over the combinations that the release shows."""
        return float(np.nanmax(self.posterior))


def candidates(frame: Any, keys: Sequence[str], target: Mapping[str, str], mechanism: Mechanism) -> Candidates:
    """Return ``P(record = target | released k0) = Σ_{k: k_π=k0} M[m,k] / N~(k0)`` for every ``k0`` of the keys π.

    CHR's denominator ``Σ_l U0(l) Σ_{k: k_π=k0} M[l,k]`` is confidential, but it is the expectation of ``N~(k0)``, the
    number of released records with ``k0``: with few of them the ratio is a rough estimate of the posterior (and may
    exceed 1, where it is cut). C1 bounds the posterior itself.

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
    DataError
        If the data do not fit the mechanism.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from postrand.codebook import Codebook, Variable
    >>> from postrand.matrix import TransitionMatrix
    >>> book = Codebook((Variable("sex", role="key", categories=("F", "M")),))
    >>> mech = Mechanism({"sex": TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])}, codebook=book)
    >>> found = candidates(pa.table({"sex": ["F"] * 60 + ["M"] * 40}), ["sex"], {"sex": "F"}, mech)
    >>> found.posterior.tolist()  # 0.75 / 60 and 0.25 / 40
    [0.0125, 0.00625]
    """
    counted = tally(frame, keys, mechanism)
    layout = counted.layout
    raise_all(UsageError, [problem for axis in layout.axes for problem in _problems(axis, target)])
    mass = reduce(np.multiply.outer, [_released_as(axis, target) for axis in layout.axes])
    shown = apply([axis.projection for axis in layout.axes], counted.released)
    ratio = np.divide(mass, shown, out=np.full(shown.shape, np.nan), where=shown > 0)
    posterior = layout.arrange(np.minimum(ratio, 1.0))
    return Candidates(layout.variables, layout.labels, posterior, layout.arrange(shown))


def _released_as(axis: Axis, target: Mapping[str, str]) -> Array:
    """Return ``Σ_{k: k_π=k0} M[m,k]`` on one axis, for the target's cell m: a vector over its kept cells."""
    code = [texts.index(target[name]) for name, texts in zip(axis.names, axis.labels, strict=True)]
    cell = np.flatnonzero((axis.cells == code).all(axis=1))
    row = np.zeros(axis.size)
    row[cell] = 1.0
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
