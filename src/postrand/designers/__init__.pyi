from .bistochastic.families import Parameterised
from .bistochastic.matrix import BistochasticMatrix
from .curve import Comparison, compare
from .differential.circulant import Circulant
from .differential.general import General
from .differential.product import Product
from .differential.symmetric import Symmetric
from .differential.uniform_offdiagonal import UniformOffDiagonal
from .feasible import FeasibleSet
from .metric.metric import Exponential, Geometric, Metric
from .problem import Design, DesignWarning, Prior, load_design
from .recognition.recognition import LeastLoss, by_stratum, least_loss
from .rounding import round_inside
from .solve import design
from .split import (
    Quick,
    SplitDesign,
    TablePrior,
    Workload,
    compare_split,
    compare_ways,
    fewest_subsets,
    least_epsilon,
    quick_split,
    split_design,
    split_frontier,
)
from .structures import (
    OBJECTIVES,
    STRUCTURES,
    CustomObjective,
    EstimatorVariance,
    ExpectedChanges,
    MutualInformation,
    Objective,
)
from .suitability import Setting, Structure, StructureTraits, supports

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
    "Quick",
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
    "compare_ways",
    "design",
    "fewest_subsets",
    "least_epsilon",
    "least_loss",
    "load_design",
    "quick_split",
    "round_inside",
    "split_design",
    "split_frontier",
    "supports",
]
