"""Information between the whole record and its release, where only some variables are perturbed (ABC §5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.errors import DesignError, SpecificationError, sentence
from postrand.objectives.base import ObjectiveTraits
from postrand.objectives.information import MutualInformation, entropy
from postrand.support.inputs import is_names

Floats = NDArray[np.float64]

_MARGIN = 1e-9


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """Keep as much of ``I(X,C; Z,C) = H(C) + I(X; Z | C)`` as possible, C the variables released as they are; in nats.

    H(C) is what no matrix changes, so the value is ``I(X; Z | C) = Σ_c P(c) I(p(.|c), M) = I(X; Z) - I(C; Z)``: what
    is kept about X *beyond what C tells*. Like information it is convex in ``M``. Where X and C are independent it is
    ``I(X; Z)`` itself; more generally a matrix that is best for every ``p(.|c)`` is best for their mean.

    ``clear`` names those variables in a plan; none named: all that are released as they are. A plan fills in
    ``joint`` (S, C), how often X is the row's and C the column's category, from the file; it scales to sum to 1.

    Raises
    ------
    DesignError
        If ``joint`` is not a table of frequencies.
    SpecificationError
        If ``clear`` is not a list of names.

    Examples
    --------
    >>> M, X = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0.5, 0.5])
    >>> apart, same = (WholeRecord(joint=j).value(M, X) for j in (np.full((2, 2), 0.25), np.diag(X)))
    >>> apart == MutualInformation().value(M, X), same
    (True, 0.0)
    """

    name: ClassVar[str] = "whole-record"
    traits: ClassVar[ObjectiveTraits] = ObjectiveTraits(
        "Keep as much information as possible about the true answers beyond what the unperturbed variables reveal.",
        "nats",
        at_ends=True,
        per_class=True,
        rank=20,
    )
    maximise: ClassVar[bool] = True
    needs_file: ClassVar[bool] = True

    clear: tuple[str, ...] = ()
    joint: Floats | None = field(default=None, repr=False, compare=False, metadata={"confidential": True})

    def __post_init__(self) -> None:
        if not is_names(self.clear):
            raise SpecificationError(sentence("'clear' is not a list of names", fix='set clear = ["region"]'))
        object.__setattr__(self, "clear", tuple(self.clear))
        if self.joint is not None:
            object.__setattr__(self, "joint", _table(self.joint))

    @classmethod
    def example(cls, counts: NDArray[np.int64]) -> Self:
        """Return the objective for a clear variable of two values that leans one way in the first category."""
        shares = np.array([counts * 0.5, counts * 0.5])
        shares[:, 0] = counts[0] * np.array([0.7, 0.3])
        return cls(joint=shares.T)

    def by_definition(self, array: Floats, prior: Floats) -> float:
        """Return ``I(X; Z) - I(C; Z)``."""
        joint, information = self._joint(), MutualInformation()
        clear = joint.sum(axis=0)
        rows = np.vstack([joint.T @ array / clear[:, None]])
        return information.value(array, prior) - information.value(rows, clear)

    def on(self, joint: ArrayLike) -> Self:
        """Return the objective for the frequencies (S, C) of a file."""
        return replace(self, joint=np.asarray(joint, dtype=np.float64))

    def beyond(self, clear: tuple[str, ...]) -> Self:
        """Return the objective for these clear variables; their frequencies come later."""
        return replace(self, clear=clear, joint=None)

    def part(self, members: Iterable[NDArray[np.intp]]) -> Self:
        """Return the objective of classes that share a law, rows ``members[k]`` each: the class is known, as C is."""
        joint = self._joint()
        return self.on(np.hstack([joint[rows] for rows in members]))

    def truth(self, prior: Floats) -> float:
        """Return the entropy of the prior, which is no less than what can be kept."""
        return entropy(prior)

    def value(self, array: Floats, prior: Floats) -> float:
        """Return ``I(X; Z | C)`` in nats; ``prior`` (S,) must be the table's own margin."""
        weights, priors = self.classes(prior)
        information = MutualInformation()
        return float(sum(w * information.value(array, p) for w, p in zip(weights, priors, strict=True)))

    def classes(self, prior: Floats) -> tuple[Floats, Floats]:
        """Return P(c) and p(.|c), shapes (C,) and (C, S), of the c that leave anything to tell about X.

        Where one category of X occurs with c, nothing is left, and nothing can be kept.

        Raises
        ------
        DesignError
            If there is no table, or its margin is not ``prior``.
        """
        joint = self._joint()
        if joint.shape[0] != prior.size or not np.allclose(joint.sum(axis=1), prior, rtol=0, atol=_MARGIN):
            what = "the prior is not the margin of the table with the clear variables"
            raise DesignError(sentence(what, fix="give joint.sum(axis=1) / joint.sum()"))
        open_ = joint[:, (joint > 0).sum(axis=0) > 1]
        weights = open_.sum(axis=0)
        return weights, np.ascontiguousarray((open_ / weights).T)

    def _joint(self) -> Floats:
        if self.joint is None:
            what = "the whole record needs the frequencies of its variables together"
            raise DesignError(sentence(what, fix="set prior = 'file' or 'dp'; in Python, give joint (S, C)"))
        return self.joint


def _table(joint: ArrayLike) -> Floats:
    table = np.array(joint, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all() or table.min(initial=0) < 0 or not table.sum() > 0:
        wanted = "(S, C), finite, not negative, not all 0"
        raise DesignError(sentence("not a table of frequencies", got=f"shape {table.shape}", wanted=wanted))
    table /= table.sum()
    table.setflags(write=False)
    return table
