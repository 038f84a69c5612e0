"""The conditional laws of regression: one class a family, all with the same three verbs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from postrand.errors import DataError, sentence
from postrand.estimate.axes import Array

MAX_EXPONENT = 300.0


class Family(Protocol):
    """A distribution of the response ``f(y | η, extra)``; arrays broadcast over their leading axes.

    ``predictors`` linear predictors η (last axis) share the design; ``extras`` parameters have none (a log scale).
    """

    @property
    def predictors(self) -> int:
        """The number m of linear predictors."""

    @property
    def extras(self) -> tuple[str, ...]:
        """Names of the parameters without a design."""

    def log_density(self, y: Array, eta: Array, extra: Array) -> Array:
        """Return ``ln f``; ``eta`` has a last axis m, ``extra`` shape (e,)."""

    def derivatives(self, y: Array, eta: Array, extra: Array) -> tuple[Array, Array]:
        """Return the score in (η, extra), last axis m + e, and the expected negative Hessian, last axes (m+e, m+e)."""

    def moments(self, eta: Array) -> tuple[Array, Array]:
        """Return the mean ``μ(η)``, last axis m, and its derivative ``dμ/dη``, last axes (m, m)."""

    def check(self, y: Array) -> None:
        """Raise DataError where the response cannot follow the family."""


@dataclass(frozen=True, slots=True)
class Linear:
    """``y = η + σ z``, z standard normal; the extra parameter is ``ln σ``."""

    predictors: int = 1
    extras: tuple[str, ...] = ("ln(sigma)",)

    def log_density(self, y: Array, eta: Array, extra: Array) -> Array:
        """Return ``−(y−η)²/2σ² − ln σ − ln sqrt(2π)``."""
        z = (y - eta[..., 0]) * math.exp(-max(extra[0], -MAX_EXPONENT))
        return np.asarray(-0.5 * z * z - extra[0] - 0.5 * math.log(2 * math.pi))

    def derivatives(self, y: Array, eta: Array, extra: Array) -> tuple[Array, Array]:
        """Return ``(z/σ, z² − 1)`` and ``diag(1/σ², 2)``."""
        z = (y - eta[..., 0]) * math.exp(-max(extra[0], -MAX_EXPONENT))
        score = np.stack([z * math.exp(-max(extra[0], -MAX_EXPONENT)), z * z - 1.0], axis=-1)
        weight = np.diag([math.exp(-2 * max(extra[0], -MAX_EXPONENT)), 2.0])
        return score, np.broadcast_to(weight, (*z.shape, 2, 2))

    def moments(self, eta: Array) -> tuple[Array, Array]:
        """Return η and 1."""
        return eta, np.ones((*eta.shape, 1))

    def check(self, y: Array) -> None:
        """Raise DataError where the response is constant."""
        if y.min() == y.max():
            raise DataError(sentence("the response is constant", fix="choose another response"))


@dataclass(frozen=True, slots=True)
class Logistic:
    """``P(y = 1) = 1/(1+e^-η)``."""

    predictors: int = 1
    extras: tuple[str, ...] = ()

    def log_density(self, y: Array, eta: Array, extra: Array) -> Array:
        """Return ``yη − ln(1+e^η)``."""
        linear = eta[..., 0]
        return y * linear - np.logaddexp(0.0, linear)

    def derivatives(self, y: Array, eta: Array, extra: Array) -> tuple[Array, Array]:
        """Return ``y − μ`` and ``μ(1−μ)``."""
        mean = scipy.special.expit(eta[..., 0])
        return (y - mean)[..., None], np.broadcast_to((mean * (1 - mean)), (y - mean).shape)[..., None, None]

    def moments(self, eta: Array) -> tuple[Array, Array]:
        """Return μ and μ(1−μ)."""
        mean = scipy.special.expit(eta)
        return mean, (mean * (1 - mean))[..., None]

    def check(self, y: Array) -> None:
        """Raise DataError unless both 0 and 1 occur, and nothing else."""
        if set(np.unique(y).tolist()) != {0.0, 1.0}:
            raise DataError(
                sentence("a logistic response must have the values 0 and 1, and both must occur", fix="recode it")
            )


@dataclass(frozen=True, slots=True)
class Poisson:
    """Counts with mean ``e^η``."""

    predictors: int = 1
    extras: tuple[str, ...] = ()

    def log_density(self, y: Array, eta: Array, extra: Array) -> Array:
        """Return ``yη − e^η − ln y!``."""
        linear = np.minimum(eta[..., 0], MAX_EXPONENT)
        return np.asarray(y * linear - np.exp(linear) - scipy.special.gammaln(y + 1.0))

    def derivatives(self, y: Array, eta: Array, extra: Array) -> tuple[Array, Array]:
        """Return ``y − μ`` and ``μ``."""
        mean = np.exp(np.minimum(eta[..., 0], MAX_EXPONENT))
        return (y - mean)[..., None], np.broadcast_to(mean, (y - mean).shape)[..., None, None]

    def moments(self, eta: Array) -> tuple[Array, Array]:
        """Return μ twice; η beyond 300 counts as 300, so that nothing overflows."""
        mean = np.exp(np.minimum(eta, MAX_EXPONENT))
        return mean, mean[..., None]

    def check(self, y: Array) -> None:
        """Raise DataError unless the response counts."""
        if y.min() < 0 or not np.array_equal(y, np.round(y)) or not y.any():
            raise DataError(sentence("a Poisson response must be whole numbers >= 0, not all zero"))


@dataclass(frozen=True, slots=True)
class Multinomial:
    """``P(y = c) ∝ e^{η_c}``, the first category the reference (η = 0)."""

    categories: int
    extras: tuple[str, ...] = ()

    @property
    def predictors(self) -> int:
        """One less than the number of categories."""
        return self.categories - 1

    def log_density(self, y: Array, eta: Array, extra: Array) -> Array:
        """Return ``η_y − ln(1 + Σ e^η)``."""
        full = np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], axis=-1)
        shape = np.broadcast_shapes(y.shape, full.shape[:-1])
        index = np.broadcast_to(y, shape).astype(np.intp)[..., None]
        chosen = np.take_along_axis(np.broadcast_to(full, (*shape, self.categories)), index, axis=-1)[..., 0]
        return np.asarray(chosen - scipy.special.logsumexp(full, axis=-1))

    def derivatives(self, y: Array, eta: Array, extra: Array) -> tuple[Array, Array]:
        """Return ``1[y = c] − μ_c`` and ``diag μ − μμᵀ``, c over the categories after the first."""
        full = np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], axis=-1)
        mean = scipy.special.softmax(full, axis=-1)[..., 1:]
        score = (y[..., None] == np.arange(1, self.categories)) - mean
        weight = mean[..., :, None] * (np.eye(self.predictors) - mean[..., None, :])
        return score, np.broadcast_to(weight, (*score.shape, self.predictors))

    def moments(self, eta: Array) -> tuple[Array, Array]:
        """Return μ and ``diag μ − μμᵀ``, over the categories after the first."""
        full = np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], axis=-1)
        mean = scipy.special.softmax(full, axis=-1)[..., 1:]
        return mean, mean[..., :, None] * (np.eye(self.predictors) - mean[..., None, :])

    def check(self, y: Array) -> None:
        """Raise DataError unless at least two categories occur, all whole numbers from 0."""
        if y.min() < 0 or not np.array_equal(y, np.round(y)) or y.max() >= self.categories:
            what = "a multinomial response must be categories, or whole numbers from 0 to 999"
            raise DataError(sentence(what, fix="describe it in the codebook"))
        if len(np.unique(y)) < 2:
            raise DataError(sentence("a multinomial response needs at least two categories that occur"))
