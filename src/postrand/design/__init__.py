"""Design: the matrix that keeps most, or costs least, under a privacy model, with a bound that proves it."""

from postrand.design.bistochastic import BistochasticMatrix
from postrand.design.bistochastic_families import Parameterised
from postrand.design.circulant import Circulant
from postrand.design.curve import Comparison, compare
from postrand.design.feasible import FeasibleSet
from postrand.design.general import General
from postrand.design.l2_recognition import LeastLoss, by_stratum, least_loss
from postrand.design.metric import Exponential, Geometric, Metric
from postrand.design.problem import Design, DesignWarning, Prior, Structure
from postrand.design.product import Product
from postrand.design.rounding import round_inside
from postrand.design.solve import design
from postrand.design.symmetric import Symmetric
from postrand.design.uniform_offdiagonal import UniformOffDiagonal
from postrand.objectives import (
    OBJECTIVES,
    CustomObjective,
    EstimatorVariance,
    ExpectedChanges,
    MutualInformation,
    Objective,
)

STRUCTURES: tuple[type, ...] = (
    UniformOffDiagonal,
    Symmetric,
    Circulant,
    General,
    BistochasticMatrix,
    Parameterised,
    LeastLoss,
    Metric,
    Exponential,
    Geometric,
    Product,
)
"""Every structure that a plan may name, by its ``name``."""

__all__ = [
    "OBJECTIVES",
    "STRUCTURES",
    "BistochasticMatrix",
    "Circulant",
    "Comparison",
    "CustomObjective",
    "Design",
    "DesignWarning",
    "EstimatorVariance",
    "ExpectedChanges",
    "Exponential",
    "FeasibleSet",
    "General",
    "Geometric",
    "LeastLoss",
    "Metric",
    "MutualInformation",
    "Objective",
    "Parameterised",
    "Prior",
    "Product",
    "Structure",
    "Symmetric",
    "UniformOffDiagonal",
    "by_stratum",
    "compare",
    "design",
    "least_loss",
    "round_inside",
]
