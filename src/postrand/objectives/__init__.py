"""Design objectives: one file each, one Protocol, one conformance suite."""

from postrand.objectives.base import Objective
from postrand.objectives.information import MutualInformation

OBJECTIVES: tuple[type, ...] = (MutualInformation,)
"""Every objective that a plan may name, by its ``name``."""

__all__ = ["OBJECTIVES", "MutualInformation", "Objective"]
