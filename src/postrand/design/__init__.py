"""Design: the matrix that keeps most, or costs least, under a privacy model, with a bound that proves it."""

from postrand.design.feasible import FeasibleSet
from postrand.design.problem import Design, DesignWarning, Prior, Structure
from postrand.design.rounding import round_inside
from postrand.design.solve import design
from postrand.design.uniform_offdiagonal import UniformOffDiagonal
from postrand.objectives import OBJECTIVES, MutualInformation, Objective

STRUCTURES: tuple[type, ...] = (UniformOffDiagonal,)
"""Every structure that a plan may name, by its ``name``."""

__all__ = [
    "OBJECTIVES",
    "STRUCTURES",
    "Design",
    "DesignWarning",
    "FeasibleSet",
    "MutualInformation",
    "Objective",
    "Prior",
    "Structure",
    "UniformOffDiagonal",
    "design",
    "round_inside",
]
