"""What every privacy model offers: an exact test for the certificate, and constraints for the designer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from postrand.mechanism.matrix import TransitionMatrix


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of testing a product of exact laws against a privacy model.

    ``level`` is the level the laws attain, rounded against us; ``holds`` is decided exactly, not from ``level``.
    ``worst`` is the position of the matrix that spends most, and ``where`` its entries that do. ``recomputable`` says
    whether the released law alone gives the finding; else it also takes the file, and the curator's word stands for it.
    ``figures`` are what its wording needs beside the level: plain data by name, which the certificate states.
    """

    holds: bool
    level: float
    sentence: str
    worst: int = 0
    where: str = ""
    recomputable: bool = True
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinearConstraints:
    """Constraints ``A vec(M) <= b`` on a matrix of shape (S, S), ``vec`` row by row (true category slowest).

    Row sums and signs are common to all models and are not repeated here.
    """

    A: csr_array
    b: NDArray[np.float64]

    def excess(self, array: NDArray[np.float64]) -> float:
        """Return ``max(A vec(M) - b)``: at most 0 where the float matrix is feasible."""
        return float((self.A @ array.ravel() - self.b).max(initial=-np.inf))


@runtime_checkable
class PrivacyModel(Protocol):
    """A privacy guarantee, as two separately written expressions of one definition that check each other.

    Implementations are frozen dataclasses; their fields are the options of plans, command line and forms.
    """

    name: ClassVar[str]

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Test the product of independent blocks, exactly, on the law that is sampled."""
        ...

    def constraints(self, size: int) -> LinearConstraints:
        """Return the constraints that one block of ``size`` categories must meet, for designers."""
        ...


@runtime_checkable
class FileModel(PrivacyModel, Protocol):
    """A model that rests on the confidential frequencies of the file: it is tied to them before it is checked."""

    needs_file: ClassVar[bool]
    not_covered: ClassVar[str]
    """The code of what a claim of the model does not cover: see :mod:`postrand.support.wordings`, ``limit.``."""

    def on(self, file: Any) -> FileModel:
        """Return the model tied to the file's frequencies."""
        ...

    def part(self, members: NDArray[np.intp]) -> FileModel:
        """Return the model for those records alone whose type is one of ``members``."""
        ...

    def require(self, records: int) -> None:
        """Raise PrivacyError where no law whatever can meet the model on a file of so many records."""
        ...

    def stated(self, variables: Sequence[str], given: Sequence[str]) -> Finding:
        """Return the finding of a check that holds, as far as anyone without the file can say it."""
        ...


def needs_file(model: object) -> TypeGuard[FileModel]:
    """Return whether a model, or a part of it, must be tied to the file before it is checked."""
    return bool(getattr(model, "needs_file", False))
