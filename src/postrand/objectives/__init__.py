"""Design objectives: one file each, one Protocol, one conformance suite (:mod:`postrand.testing`).

A new objective is a new file here: a frozen dataclass with ``name``, ``traits``, ``maximise`` and ``value``. It is
found by :func:`postrand.support.options.discover`; no list names it.
"""

from typing import Any

from postrand.objectives.base import (
    FileObjective,
    Linear,
    Objective,
    ObjectiveTraits,
    beside,
    needs_joint,
    of_file,
    truth_of,
    value_of,
)
from postrand.objectives.changes import ExpectedChanges
from postrand.objectives.custom import CustomObjective
from postrand.objectives.distance import ExpectedDistance
from postrand.objectives.information import MutualInformation
from postrand.objectives.kullback_leibler import KullbackLeiblerLoss
from postrand.objectives.l2 import L2Loss
from postrand.objectives.variance import EstimatorVariance
from postrand.objectives.whole_record import WholeRecord
from postrand.support.options import discover

OBJECTIVES: tuple[Any, ...] = discover(
    __path__,
    __name__,
    lambda kind: {"name", "traits", "maximise", "value"} <= set(dir(kind)) and kind is not CustomObjective,
)
"""Every objective that a plan may name, by its ``name``."""

__all__ = [
    "OBJECTIVES",
    "CustomObjective",
    "EstimatorVariance",
    "ExpectedChanges",
    "ExpectedDistance",
    "FileObjective",
    "KullbackLeiblerLoss",
    "L2Loss",
    "Linear",
    "MutualInformation",
    "Objective",
    "ObjectiveTraits",
    "WholeRecord",
    "beside",
    "needs_joint",
    "of_file",
    "truth_of",
    "value_of",
]
