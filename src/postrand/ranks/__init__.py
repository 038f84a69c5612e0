"""Numerical variables: records as categories, with bistochastic rank laws (RDF §3.2, appendix A.2)."""

from postrand.ranks.apply import average, permutation, permute
from postrand.ranks.laws import RankBand, RankBlocks, RankLaw
from postrand.ranks.model import PermutationModel, permutation_model, reverse_map

__all__ = [
    "PermutationModel",
    "RankBand",
    "RankBlocks",
    "RankLaw",
    "average",
    "permutation",
    "permutation_model",
    "permute",
    "reverse_map",
]
