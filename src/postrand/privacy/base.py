"""What every privacy model offers: an exact test for the certificate, and constraints for the designer.

A model is one file. Beside the two verbs it declares its :class:`ModelTraits`, and it may offer more verbs:

    wording               a template of what its claims say: see `postrand.support.wordings`
    stays(size)           the least and the largest chance with which randomised response may keep a value
    response(size)        the exact law of randomised response with the largest of these chances
    release_problems(...) what a release must be for the claim to hold of it, beside its law; see `ReleaseModel`
    promise(size)         what the level means for guesses of one of so many values, in words
    spent                 the ε of a record's budget that a block under the model takes
    scaled(factor)        the model with its level scaled, for a search over budgets
    with_prior(epsilon)   the claim of a block whose prior took ε from the same budget
    rounded(array)        an exact law close to a float matrix that nearly meets the model, or None
    example(counts)       a class method: the model for a file with these counts, for the conformance suite
    require_size(size)    raises PrivacyError where no law of so many categories can be designed

Other rooms ask by the functions below, which know what to do where a model lacks the verb.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import sentence
from postrand.mechanism.matrix import TransitionMatrix

_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of testing a product of exact matrices against a privacy model.

    ``level`` is the level the laws attain, rounded against us; ``holds`` is decided exactly, not from ``level``.
    ``worst`` is the position of the matrix that spends most, and ``where`` says in words what in it does; ``entries``
    are the numbers of its column and of the two rows that do, where they are known. ``recomputable`` says
    whether the released law alone gives the finding; else it also takes the file, and the curator's word stands for it.
    ``figures`` are what its wording needs beside the level: plain data by name, which the certificate states.
    """

    holds: bool
    level: float
    sentence: str
    worst: int = 0
    where: str = ""
    entries: tuple[int, int, int] | None = None
    recomputable: bool = True
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """Declare the words of a privacy model and how its claims behave; other rooms ask this and not the class.

    Parameters
    ----------
    code
        Names the claim in certificates, for ever: wording may change, the code may not.
    plain
        What it promises, for readers who are not statisticians.
    level
        The option that says how much; its :class:`postrand.support.options.Range` has unit and meaning.
    stronger
        Which levels promise more.
    composition
        How the levels of independent blocks make that of the record: ``sum`` (they add up, so a budget is divided),
        ``bits`` (they are shares of bits, and bits add up), ``none`` (neither).
    budget
        Whether a record's level is divided among the blocks that ask for a share of it.
    within_classes
        Whether the claim may be weakened to true values of one class.
    whole_blocks
        Whether it needs a block that exchanges all values of its variables.
    columns_sum
        Whether the columns of its matrices sum to 1 too.
    linear
        Whether ``constraints`` say all, or the model has a condition that is not linear beside them.
    post_processing
        Whether anything computed from the release meets the model too.
    mixes
        Whether a release through one of several laws meets the model where each of them does, if which one is drawn
        without looking at the data and is public. Its level is then at most their largest.
    ends_proven
        Whether ``stays`` gives the very ends, or bounds inside them.
    objective, structure
        Their names in a plan where the plan says nothing else.
    rank
        Where lists name it; members of one rank stand by their names.
    """

    code: str
    plain: str
    level: str
    stronger: Literal["smaller", "larger"] = "smaller"
    composition: Literal["sum", "bits", "none"] = "none"
    budget: bool = False
    within_classes: bool = False
    whole_blocks: bool = False
    columns_sum: bool = False
    linear: bool = True
    post_processing: bool = True
    mixes: bool = False
    ends_proven: bool = True
    objective: str = "information"
    structure: str = "uniform-off-diagonal"
    rank: int = 50


@dataclass(frozen=True, slots=True)
class LinearConstraints:
    """Constraints ``A vec(M) <= b`` on a matrix of shape (S, S), ``vec`` row by row (true category slowest).

    Row sums and signs are common to all models and are not repeated here.
    """

    A: scipy.sparse.csr_array
    b: NDArray[np.float64]

    def excess(self, array: NDArray[np.float64]) -> float:
        """Return ``max(A vec(M) - b)``: at most 0 where the float matrix is feasible."""
        return float((self.A @ array.ravel() - self.b).max(initial=-np.inf))


def column_constraints(size: int, factor: float, most: float) -> LinearConstraints:
    """Return ``M[i,j] - factor M[k,j] <= most`` for every column j and ordered pair i != k: S²(S-1) rows."""
    i, k, j = (a.ravel() for a in np.indices((size, size, size)))
    i, k, j = (a[i != k] for a in (i, k, j))
    rows = np.arange(i.size)
    values = np.concatenate([np.ones(i.size), np.full(i.size, -factor)])
    places = (np.concatenate([rows, rows]), np.concatenate([i * size + j, k * size + j]))
    return LinearConstraints(
        scipy.sparse.csr_array(scipy.sparse.coo_array((values, places), (i.size, size * size))), np.full(i.size, most)
    )


@runtime_checkable
class PrivacyModel(Protocol):
    """A privacy guarantee, as two separately written expressions of one definition that check each other.

    Implementations are frozen dataclasses; their fields are the options of plans, command line and forms.
    """

    name: ClassVar[str]
    traits: ClassVar[ModelTraits]

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Test the product of independent blocks, exactly, on the matrices that are sampled."""
        ...

    def constraints(self, size: int) -> LinearConstraints:
        """Return the constraints for one block of ``size`` categories, for designers."""
        ...


class ReleaseModel(PrivacyModel, Protocol):
    """A model of the whole release: it also depends on what is released with the perturbed values."""

    def release_problems(self, mechanism: Any, variables: Sequence[str], facts: Any) -> Iterable[str]:
        """Yield the reasons why the claim is false for a release with these facts, with any matrices."""
        ...

    def of_records(self, records: int) -> PrivacyModel:
        """Return the model for a file of so many records, where it names none."""
        ...


@runtime_checkable
class Responding(Protocol):
    """A model under which randomised response has a range of probabilities to keep a value."""

    def stays(self, size: int) -> tuple[float, float]:
        """Return the smallest and the largest probability to keep one of ``size`` values."""
        ...


@runtime_checkable
class FileModel(PrivacyModel, Protocol):
    """A model that depends on the confidential frequencies of the file: it is bound to them before it is checked."""

    needs_file: ClassVar[bool]
    not_covered: ClassVar[str]
    """The code of what a claim of the model does not cover: see :mod:`postrand.support.wordings`, ``limit.``."""

    def on(self, file: Any) -> FileModel:
        """Return the model, bound to the file's frequencies."""
        ...

    def part(self, members: NDArray[np.intp]) -> FileModel:
        """Return the model for those records alone whose type is one of ``members``."""
        ...

    def require(self, records: int) -> None:
        """Raise PrivacyError if no matrix can meet the model on a file of so many records."""
        ...

    def stated(self, variables: Sequence[str], given: Sequence[str]) -> Finding:
        """Return the finding of a met check, with the part that can be stated without the file."""
        ...


def needs_file(model: object) -> TypeGuard[FileModel]:
    """Return whether a model, or a part of it, must be bound to the file before it is checked."""
    return bool(getattr(model, "needs_file", False))


def models_of(privacy: Any) -> tuple[Any, ...]:
    """Return the models of a conjunction, or the one model."""
    return tuple(getattr(privacy, "models", (privacy,)))


def level_of(model: Any) -> float:
    """Return the level that a model asks for."""
    return float(getattr(model, model.traits.level))


def promise(model: Any, size: int = 2) -> str:
    """Return what a model promises for a guess of one of ``size`` values, in plain words without a full stop."""
    found = model.promise(size) if hasattr(model, "promise") else model.traits.plain.rstrip(".")
    return str(found)


def spent(model: Any) -> float | None:
    """Return the ε of a record's budget that a block under the model takes; None where it takes none."""
    found = getattr(model, "spent", None)
    return None if found is None else float(found)


def with_prior(model: Any, epsilon: float) -> Any:
    """Return what a block claims whose prior took ``epsilon`` from the record's budget."""
    return model.with_prior(epsilon) if hasattr(model, "with_prior") else model


def rounded(model: Any, array: NDArray[np.float64]) -> TransitionMatrix | None:
    """Return an exact matrix close to ``array`` by the model's own rounding, or None."""
    found: TransitionMatrix | None = model.rounded(array) if hasattr(model, "rounded") else None
    return found


def require_size(model: Any, size: int) -> None:
    """Raise PrivacyError if no matrix of so many categories can be designed for the model."""
    if hasattr(model, "require_size"):
        model.require_size(size)


@functools.lru_cache(maxsize=256)
def stays_inside(model: PrivacyModel, size: int) -> tuple[float, float]:
    """Return the probabilities to keep a value that meet a convex model, by bisection from the uniform matrix.

    Both are inside the interval that the model allows: its own test settles each.
    """

    def end(far: float) -> float:
        low, high = 1 / size, far  # met, and not; or both met
        for _ in range(_HALVINGS):
            if model.check([_response(size, high)]).holds:
                return high
            middle = (low + high) / 2
            if middle in (low, high):
                break
            if model.check([_response(size, middle)]).holds:
                low = middle
            else:
                high = middle
        return low

    return end(0.0), end(1.0)


def _response(size: int, q: float) -> TransitionMatrix:
    array = np.full((size, size), (1 - q) / (size - 1))
    np.fill_diagonal(array, q)
    return TransitionMatrix.from_array(array)


def of_records(model: Any, records: Callable[[], int]) -> Any:
    """Return the model for the file's number of records, which are counted only if the model needs them.

    Raises
    ------
    PrivacyError
        If the model names another number.
    """
    if not hasattr(model, "of_records"):
        return model
    number = records()
    found = model.of_records(number)
    require_records(found, number)
    return found


def release_problems(model: Any, mechanism: Any, variables: Sequence[str], facts: Any) -> Iterable[str]:
    """Yield the reasons why a claim on a whole release is false for this one; nothing for other claims."""
    if hasattr(model, "release_problems"):
        yield from model.release_problems(mechanism, variables, facts)


def split_problems(model: Any, variables: Sequence[str]) -> Iterable[str]:
    """Yield why a claim of the model cannot be made of a split; nothing where each record's law alone decides it."""
    if not model.traits.mixes:
        what = f"{model.name!r} is not defined where each record shows a random subset of the variables"
        fix = "claim it of blocks alone, or claim differential privacy of the split"
        yield sentence(what, where=", ".join(variables), fix=fix)


def require_records(model: Any, records: int) -> None:
    """Raise PrivacyError if a claim cannot be about a file of so many records."""
    if hasattr(model, "require"):
        model.require(records)
