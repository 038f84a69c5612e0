"""Split releases: each record shows a random subset of its variables, jointly, with the whole ε; here, their design."""

from postrand.designers.split.comparison import Compared, Quick, compare_split, compare_ways, quick_split
from postrand.designers.split.fewest import FewestSubsets, fewest_subsets
from postrand.designers.split.fixed_blocks import FixedBlocks
from postrand.designers.split.inverse import Frontier, LeastEpsilon, least_epsilon, split_frontier
from postrand.designers.split.margins import TablePrior
from postrand.designers.split.splitting import SplitDesign, SplitSubset, SplitTable, split_design
from postrand.designers.split.workload import Workload

__all__ = [
    "Compared",
    "FewestSubsets",
    "FixedBlocks",
    "Frontier",
    "LeastEpsilon",
    "Quick",
    "SplitDesign",
    "SplitSubset",
    "SplitTable",
    "TablePrior",
    "Workload",
    "compare_split",
    "compare_ways",
    "fewest_subsets",
    "least_epsilon",
    "quick_split",
    "split_design",
    "split_frontier",
]
