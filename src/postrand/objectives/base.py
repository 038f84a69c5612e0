"""What every design objective offers.

An objective is one file. Beside its verb it declares its :class:`ObjectiveTraits`, and it may offer more verbs:

    gradient(array, prior)   the derivative by every entry of the matrix, each of them free
    loss(size)               the (S, S) losses d where the value is ``Σ_i p_i Σ_j M[i,j] d[i,j]``
    least(prior, epsilon)    a proven lower bound of the value over all ε-DP matrices, of any structure
    most(epsilon)            a proven upper bound of the value over all ε-DP matrices, of any structure and prior
    truth(prior)             what no matrix keeps more of
    of_law(matrix, prior)    the value of an exact law, where its form makes that quick
    of_file(records)         the objective for a file of so many records
    by_definition(array, prior)  the value once more, as the definition reads, for the conformance suite
    example(counts)          a class method: the objective for a file with these counts, for the conformance suite
    beside(privacy)          the objective with what it takes from the block's privacy model

Other rooms ask by the functions below, which know what to do where an objective lacks the verb.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.mechanism.matrix import TransitionMatrix

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ObjectiveTraits:
    """Declare the words and the properties of an objective; other rooms ask this and not the class.

    Parameters
    ----------
    plain
        What it asks for, for readers who are no statisticians.
    unit
        Of its value.
    relabelling
        Which relabelling of categories leaves the value as it is: of the ``released`` ones alone, of ``both`` sides
        alike (with the prior), or ``none``.
    at_ends
        Whether, of randomised responses ``M[k,k] = q``, one at an end of q's interval is best.
    per_class
        Whether the value of a block of several classes is the mean of the classes' own, by frequency.
    adds_up
        Whether values of several blocks add up, so that a budget is divided by them where all blocks ask for them.
    rank
        Where lists name it; members of one rank stand by their names.
    """

    plain: str
    unit: str
    relabelling: Literal["released", "both", "none"] = "released"
    at_ends: bool = False
    per_class: bool = False
    adds_up: bool = False
    rank: int = 50


@runtime_checkable
class Objective(Protocol):
    """A number that says how much a transition matrix keeps (``maximise``) or costs, for a prior.

    Implementations are frozen dataclasses; their fields are the options of plans, command line and forms.
    """

    name: ClassVar[str]
    traits: ClassVar[ObjectiveTraits]

    @property
    def maximise(self) -> bool:
        """Whether larger values are better."""
        ...

    def value(self, array: NDArray[np.float64], prior: NDArray[np.float64]) -> float:
        """Return the objective of ``array`` (S, S), rows true, columns released, at ``prior`` (S,)."""
        ...


@runtime_checkable
class Linear(Protocol):
    """An objective that is linear in the matrix."""

    def loss(self, size: int) -> Floats:
        """Return the losses d (S, S): the value is ``Σ_i p_i Σ_j M[i,j] d[i,j]``."""
        ...


class FileObjective(Objective, Protocol):
    """An objective about a block's cells together with variables that are released as they are."""

    needs_file: ClassVar[bool]
    clear: tuple[str, ...]

    def on(self, joint: ArrayLike) -> Self:
        """Return the objective for the frequencies (S, C) of a file."""
        ...

    def beyond(self, clear: tuple[str, ...]) -> Self:
        """Return the objective for these clear variables."""
        ...

    def part(self, members: Iterable[NDArray[np.intp]]) -> Self:
        """Return the objective of classes that share a law, rows ``members[k]`` each."""
        ...


def needs_joint(objective: object) -> TypeGuard[FileObjective]:
    """Return whether an objective needs the file's frequencies of its cells and clear variables together."""
    return bool(getattr(objective, "needs_file", False))


def value_of(objective: Objective, matrix: TransitionMatrix, prior: Floats) -> float:
    """Return the objective of an exact law."""
    if hasattr(objective, "of_law"):
        return float(objective.of_law(matrix, prior))
    return float(objective.value(matrix.array, prior))


def truth_of(objective: Objective, prior: Floats) -> float:
    """Return an upper bound for every matrix, with the sign changed if the objective is minimised."""
    if hasattr(objective, "truth"):
        return float(objective.truth(prior))
    return (1 if objective.maximise else -1) * float(objective.value(np.eye(prior.size), prior))


def of_file(objective: Any, records: int) -> Any:
    """Return the objective for a file of so many records."""
    return objective.of_file(records) if hasattr(objective, "of_file") else objective


def beside(objective: Any, privacy: Any) -> Any:
    """Return the objective with what it takes from the block's privacy model."""
    return objective.beside(privacy) if hasattr(objective, "beside") else objective
