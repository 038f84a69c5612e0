"""Design: the matrix that keeps most, or costs least, under a privacy model, with a bound that proves it.

A new structure is a new file here: a frozen dataclass with ``name``, ``traits`` and ``solve``. It is found by
:func:`postrand.support.options.discover`; no list names it.
"""

from typing import Any

from postrand.designers.bistochastic.families import Parameterised
from postrand.designers.bistochastic.matrix import BistochasticMatrix
from postrand.designers.curve import Comparison, compare
from postrand.designers.differential.circulant import Circulant
from postrand.designers.differential.general import General
from postrand.designers.differential.product import Product
from postrand.designers.differential.symmetric import Symmetric
from postrand.designers.differential.uniform_offdiagonal import UniformOffDiagonal
from postrand.designers.feasible import FeasibleSet
from postrand.designers.metric.metric import Exponential, Geometric, Metric
from postrand.designers.problem import Design, DesignWarning, Prior, load_design
from postrand.designers.recognition.recognition import LeastLoss, by_stratum, least_loss
from postrand.designers.rounding import round_inside
from postrand.designers.solve import design
from postrand.designers.split import (
    SplitDesign,
    TablePrior,
    Workload,
    compare_split,
    least_epsilon,
    split_design,
    split_frontier,
)
from postrand.designers.suitability import Setting, Structure, StructureTraits, supports
from postrand.objectives import (
    OBJECTIVES,
    CustomObjective,
    EstimatorVariance,
    ExpectedChanges,
    MutualInformation,
    Objective,
)
from postrand.support.options import discover

STRUCTURES: tuple[Any, ...] = discover(__path__, __name__, lambda kind: {"name", "traits", "solve"} <= set(dir(kind)))
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
    "Setting",
    "SplitDesign",
    "Structure",
    "StructureTraits",
    "Symmetric",
    "TablePrior",
    "UniformOffDiagonal",
    "Workload",
    "by_stratum",
    "compare",
    "compare_split",
    "design",
    "least_epsilon",
    "least_loss",
    "load_design",
    "round_inside",
    "split_design",
    "split_frontier",
    "supports",
]
