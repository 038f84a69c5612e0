"""Completed copies and predictors that learn from data (scikit-learn, or anything with its methods)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from postrand.data.frames import Kind
from postrand.errors import UsageError, sentence
from postrand.estimate.axes import Array
from postrand.estimate.pooling import frames_of
from postrand.estimate.pooling_rules import check_copies


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Hold one fitted predictor for each completed copy; predictions are averaged over them.

    A classifier has ``classes_`` and ``predict_proba``: its probabilities are averaged, and the class with the largest
    average is predicted. Any other predictor has ``predict`` with numbers.
    """

    members: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_copies(len(self.members))
        known = [list(m.classes_) for m in self.members if hasattr(m, "classes_")]
        if known and (len(known) < len(self.members) or any(classes != known[0] for classes in known)):
            what = "the classifiers of the copies know different classes"
            raise UsageError(sentence(what, fix="merge rare classes before the analysis"))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of :meth:`predict_proba`."""
        return np.asarray(self.members[0].classes_)

    def predict_proba(self, features: Any) -> Array:
        """Return the averaged probabilities (n, classes)."""
        return np.asarray(np.mean([member.predict_proba(features) for member in self.members], axis=0))

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the averaged predictions (n,), or the most probable classes."""
        if hasattr(self.members[0], "classes_"):
            return np.asarray(self.classes_[self.predict_proba(features).argmax(axis=1)])
        return np.asarray(np.mean([member.predict(features) for member in self.members], axis=0))


def ensemble(fit: Callable[[Any], Any], completed: Any, *, kind: Kind | None = None) -> Ensemble:
    """Fit a predictor on each completed copy: ``fit(frame)`` returns one that is fitted.

    ``completed`` and ``kind`` are those of :func:`postrand.estimate.pool`. One frame is in memory
    at a time, and all predictors.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> mean = lambda ages: SimpleNamespace(predict=lambda features: np.full(len(features), np.mean(ages)))
    >>> ensemble(mean, [[30, 40], [32, 44]]).predict(["a", "b", "c"]).tolist()
    [36.5, 36.5, 36.5]

    Raises
    ------
    UsageError
        If there are fewer than two copies, or classifiers do not know the same classes.
    """
    return Ensemble(tuple(fit(frame) for frame in frames_of(completed, kind)))


def cross_validated(scores: Sequence[float] | ArrayLike) -> tuple[float, float]:
    """Return the mean of the scores of a k-fold cross-validation and its variance, for ``pool``.

    ``(1/k + 1/(k − 1)) s²``, s² the variance of the scores: the training sets overlap, so the folds are not
    independent, and s²/k would be far too small. No unbiased estimate exists; this one is approximate.

    Examples
    --------
    >>> cross_validated([0.8, 0.9, 0.7, 0.8])
    (0.8, 0.0038)

    Raises
    ------
    UsageError
        If there are fewer than two scores.

    References
    ----------
    Nadeau & Bengio (2003), Inference for the generalization error.
    """
    held = np.asarray(scores, dtype=np.float64)
    folds = held.size
    if folds < 2:
        raise UsageError(sentence("one score has no variance", got=folds, wanted="the score of each fold"))
    return float(held.mean()), float((1 / folds + 1 / (folds - 1)) * held.var(ddof=1))
