"""Scales on which estimates are pooled: their distribution over copies is nearer to the normal one there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy

from postrand.errors import EstimationError, sentence
from postrand.estimate.axes import Array

ScaleName: TypeAlias = Literal["identity", "log", "logit", "fisher-z"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Hold a strictly increasing function g, its derivative and its inverse; ``inside`` says where it is finite."""

    name: ScaleName
    inside: str
    forward: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    back: Callable[[Array], Array]

    def to(self, value: Array) -> Array:
        """Return ``g(value)``; EstimationError where it is not finite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.asarray(self.forward(value))
        if not np.isfinite(found).all():
            what = f"an estimate of a copy cannot be pooled on the scale {self.name!r}"
            raise EstimationError(sentence(what, wanted=self.inside, fix="pool it on the scale 'identity'"))
        return found


SCALES: dict[str, Scale] = {
    "identity": Scale("identity", "any number", lambda x: x, np.ones_like, lambda x: x),
    "log": Scale("log", "estimates > 0", np.log, lambda x: 1 / x, np.exp),
    "logit": Scale(
        "logit",
        "estimates between 0 and 1",
        lambda x: scipy.special.logit(x),  # named here, it would load this part of scipy with every estimator
        lambda x: 1 / (x * (1 - x)),
        lambda x: scipy.special.expit(x),
    ),
    "fisher-z": Scale("fisher-z", "estimates between -1 and 1", np.arctanh, lambda x: 1 / (1 - x * x), np.tanh),
}
"""Shares: logit. Ratios, odds ratios, variances: log. Correlations: fisher-z."""
