"""Design objectives: one file each, one Protocol, one conformance suite."""

from postrand.objectives.base import Objective
from postrand.objectives.changes import ExpectedChanges
from postrand.objectives.custom import CustomObjective
from postrand.objectives.distance import ExpectedDistance
from postrand.objectives.information import MutualInformation
from postrand.objectives.kullback_leibler import KullbackLeiblerLoss
from postrand.objectives.l2 import L2Loss
from postrand.objectives.variance import EstimatorVariance
from postrand.objectives.whole_record import WholeRecord

OBJECTIVES: tuple[type, ...] = (
    MutualInformation,
    WholeRecord,
    EstimatorVariance,
    ExpectedChanges,
    ExpectedDistance,
    L2Loss,
    KullbackLeiblerLoss,
)
"""Every objective that a plan may name, by its ``name``."""

__all__ = [
    "OBJECTIVES",
    "CustomObjective",
    "EstimatorVariance",
    "ExpectedChanges",
    "ExpectedDistance",
    "KullbackLeiblerLoss",
    "L2Loss",
    "MutualInformation",
    "Objective",
    "WholeRecord",
]
